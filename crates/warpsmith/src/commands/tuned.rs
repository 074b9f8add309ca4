//! `--preset tuned`: what it stands for on which problem, in words.

use attention::{Attention, Problem};
use family::Family;
use family::tuned::is_tuned;
use gpu::device::Device;
use lab::bench::{Subject, SubjectKind};
use op::tuned::{self, UsablePick};

use crate::error::CommandError;
use crate::printer::{FAINT, Printer, WARN, styled};

/// What each stands for is said of so many problems; beyond that, the tables say it.
const LINES: usize = 20;

/// The families of subjects that are named by their tuned table.
pub fn families<'f>(subjects: &[Subject<'f>]) -> Vec<&'f Family> {
    let tuned = |subject: &Subject<'f>| match &subject.kind {
        SubjectKind::Kernel { family, preset: Some(preset), .. } if is_tuned(preset) => Some(*family),
        _ => None,
    };
    subjects.iter().filter_map(tuned).collect()
}

/// Looks up `tuned` for families before anything is run, and says what it stands for on each problem, and which picks
/// of a table are of no use. A problem that was asked for by its name must have a pick; of the others, of a suite say,
/// one must.
pub fn look_up(
    families: &[&Family],
    (named, others): (&[Problem], &[Problem]),
    device: &Device,
    printer: &Printer,
) -> Result<(), CommandError> {
    for family in families {
        for stale in tuned::picks(&Attention, family).1 {
            let (gpu, problem) = (&stale.pick.gpu, &stale.pick.problem);
            let words = format!("{}'s tuned pick for {problem} on {gpu} is left out", family.name);
            printer.message(&format!("{}: {words}: {}", styled(WARN, "warning"), stale.reason));
        }
        let look = |problem: &Problem| Ok((*problem, tuned::pick(&Attention, family, device, problem)?));
        let found: Result<Vec<_>, op::Refusal> = named.iter().map(look).collect();
        let mut found = found?;
        let (more, lacking): (Vec<_>, Vec<_>) = others.iter().map(look).partition(Result::is_ok);
        found.extend(more.into_iter().flatten());
        if let (true, Some(Err(refusal))) = (found.is_empty(), lacking.into_iter().next()) {
            return Err(refusal.into());
        }
        for (problem, usable) in found.iter().take(LINES) {
            printer.message(&styled(FAINT, said(family, problem, usable)));
        }
    }
    Ok(())
}

/// `mma tuned on b2h8s1024d64-fp16: d64+Q_IN=shared (measured on NVIDIA H200, for b2h8s2048d64-fp16)`
fn said(family: &Family, problem: &Problem, usable: &UsablePick<'_, Problem>) -> String {
    let UsablePick { pick, problem: of, candidate } = usable;
    let how = if pick.time.is_modelled() { "modelled" } else { "measured" };
    let of = if of == problem { String::new() } else { format!(", for {of}") };
    let setting = candidate.label(family);
    format!("{} tuned on {problem}: {setting} ({how} on {}{of})", family.name, pick.gpu)
}
