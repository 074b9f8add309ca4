//! `--preset tuned`: resolves the tuned picks of families and prints them.

use family::tuned_table::is_tuned;
use family::{Catalog, Family};
use gpu::device::Device;
use lab::bench::{CHOSEN, Subject, SubjectKind};
use op::dispatch::{self, UsablePick};
use op::{AnyOp, AnyProblem};

use crate::error::CommandError;
use crate::ops;
use crate::printer::{FAINT, Printer, WARN, styled};

/// The maximum number of picks to print; the result tables show all of them.
const MAX_LINES: usize = 20;

/// The families of the subjects whose preset is `tuned`.
pub fn families<'f>(subjects: &[Subject<'f>]) -> Vec<&'f Family> {
    let tuned = |subject: &Subject<'f>| match &subject.kind {
        SubjectKind::Kernel { family, preset: Some(preset), .. } if is_tuned(preset) => Some(*family),
        _ => None,
    };
    subjects.iter().filter_map(tuned).collect()
}

/// Resolves `tuned` for families before anything runs. Prints the pick for each problem and warns about unusable picks.
/// Every problem in `named` must have a pick; of `others`, such as the problems of a suite, at least one must.
pub fn look_up(
    op: &AnyOp,
    families: &[&Family],
    (named, others): (&[AnyProblem], &[AnyProblem]),
    device: &Device,
    printer: &Printer,
) -> Result<(), CommandError> {
    for family in families {
        warn_of_unusable_picks(op, family, printer);
        let find = |problem: &AnyProblem| Ok((problem.clone(), dispatch::pick(op, family, device, problem)?));
        let found: Result<Vec<_>, op::Refusal> = named.iter().map(find).collect();
        let mut found = found?;
        let (more, missing): (Vec<_>, Vec<_>) = others.iter().map(find).partition(Result::is_ok);
        found.extend(more.into_iter().flatten());
        if let (true, Some(Err(refusal))) = (found.is_empty(), missing.into_iter().next()) {
            return Err(refusal.into());
        }
        for (problem, usable) in found.iter().take(MAX_LINES) {
            printer.message(&styled(FAINT, describe(family, problem, usable)));
        }
    }
    Ok(())
}

/// Warns about picks of a family's table that cannot be used.
fn warn_of_unusable_picks(op: &AnyOp, family: &Family, printer: &Printer) {
    for unusable in dispatch::picks(op, family).1 {
        let (gpu, problem) = (&unusable.pick.gpu, &unusable.pick.problem);
        let text = format!("ignoring {}'s tuned pick for {problem} on {gpu}", family.name);
        printer.message(&format!("{}: {text}: {}", styled(WARN, "warning"), unusable.reason));
    }
}

/// Prints what the dispatcher chooses for each problem: `best on b1h8s512d64-fp16: mma small`.
pub fn show_choices(
    op: &AnyOp,
    catalog: &Catalog,
    problems: &[AnyProblem],
    device: &Device,
    printer: &Printer,
) -> Result<(), CommandError> {
    for family in ops::families(op, catalog)? {
        warn_of_unusable_picks(op, family, printer);
    }
    for problem in problems.iter().take(MAX_LINES) {
        let (family, candidate) = dispatch::choose(op, catalog, device, problem)?;
        let text = format!("{CHOSEN} on {problem}: {} {}", family.name, candidate.label(family));
        printer.message(&styled(FAINT, text));
    }
    Ok(())
}

/// A pick in one line: `mma tuned on b2h8s1024d64-fp16: d64 Q_IN=shared (measured on NVIDIA H200, for
/// b2h8s2048d64-fp16)`.
fn describe(family: &Family, problem: &AnyProblem, usable: &UsablePick<'_, AnyProblem>) -> String {
    let UsablePick { pick, problem: of, candidate } = usable;
    let how = if pick.time.is_modelled() { "modelled" } else { "measured" };
    let of = if of == problem { String::new() } else { format!(", for {of}") };
    let setting = candidate.label(family);
    format!("{} tuned on {problem}: {setting} ({how} on {}{of})", family.name, pick.gpu)
}
