//! `invert`: measures the cost of known pathologies.

use std::time::Duration;

use family::tuned_table::is_tuned;
use family::{Catalog, Family};
use lab::bench::Subject;
use lab::invert::{self, InvertError, InvertPlan};
use lab::profile::ProfileError;
use op::{AnyOp, AnyProblem};
use runlog::RunState;
use runlog::record::InversionResult;
use stats::Stopping;

use super::tuned_preset;
use super::workbench::{self, Execution, ResumableCommand, Workbench};
use crate::cli::InvertOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{FAINT, Printer, styled};
use crate::profile_table;

const WARMUP: u32 = 10;

impl ResumableCommand for InvertOptions {
    workbench::resumable_command!(Invert, "invert", process.folder);

    fn execute(&self, execution: Execution<'_>) -> Result<Exit, CommandError> {
        let (options, Execution { global, printer, .. }) = (self, execution);
        let workbench = Workbench::open(global, &options.families)?;
        let names = match options.problem.as_slice() {
            [] => vec![ops::default_problem(&*workbench.op)],
            names => names.to_vec(),
        };
        let problems = workbench::problems(&*workbench.op, &names, None)?;
        let healthy = healthy(options, &workbench, &problems, printer)?;
        let started = workbench.begin(Self::NAME, execution)?;
        let tell = |text: &str| printer.message(&styled(FAINT, text));
        let session = started.session(&tell);
        let done = healthy.into_iter().try_for_each(|healthy| {
            let plan = InvertPlan {
                device: workbench.device.clone(),
                healthy,
                problems: problems.clone(),
                stopping: Stopping {
                    time_limit: Duration::from_secs_f64(options.seconds),
                    ..Stopping::default()
                },
                warmup: WARMUP,
                limits: workbench::limits(&options.process, workbench.is_virtual()),
                seed: global.seed,
                secret: global.secret_seed(),
                full_size: options.process.full_size,
            };
            invert::run(&session, &plan)
        });
        let (exit, failure) = match done {
            Ok(()) => (verdict(&started.opened.run.state()), None),
            Err(error) if error.is_stop() => (Exit::Incomplete, None),
            Err(InvertError::Profile(ProfileError::Ncu(error))) => {
                (Exit::MissingRequirement, Some(CommandError::from(&error)))
            }
            Err(error) => return Err(CommandError::missing(error.to_string())),
        };
        super::profile::finish(Self::NAME, started, exit, failure, execution, profile_table::inversions)
    }
}

/// The healthy kernels: one of each named family, or of each family that has pathologies.
fn healthy<'w>(
    options: &InvertOptions,
    workbench: &'w Workbench<'_>,
    problems: &[AnyProblem],
    printer: &Printer,
) -> Result<Vec<Subject<'w>>, CommandError> {
    let op = &*workbench.op;
    let known = ops::families(op, &workbench.catalog)?;
    let with_pathologies: Vec<&Family> =
        known.into_iter().filter(|family| !family.pathologies.is_empty()).collect();
    let mut families: Vec<&Family> = Vec::new();
    // All families of an op, like no names, means those with pathologies.
    for name in options.families.iter().filter(|name| *name != op.name()) {
        let family = ops::family(op, name, &workbench.catalog)?;
        if family.pathologies.is_empty() {
            let names: Vec<&str> = with_pathologies.iter().map(|family| family.name.as_str()).collect();
            return Err(CommandError::usage(format!("{} has no pathologies", family.full_name()))
                .hint(format!("families with pathologies: {}", names.join(", "))));
        }
        families.push(family);
    }
    if families.is_empty() {
        families = with_pathologies;
    }
    if families.is_empty() {
        return Err(CommandError::usage(format!("no family of {} has pathologies", op.name()))
            .hint("a manifest lists them in [pathologies]"));
    }
    families
        .into_iter()
        .map(|family| {
            let preset = match &options.preset {
                Some(preset) => Some(preset.clone()),
                None => most_refined_preset(op, family, problems),
            };
            if preset.as_deref().is_some_and(is_tuned) {
                tuned_preset::look_up(op, &[family], (problems, &[]), &workbench.device, printer)?;
            } else {
                family.candidate(preset.as_deref(), &options.knobs.set, &[])?;
            }
            Ok(Subject::kernel(family, preset, options.knobs.set.clone()))
        })
        .collect()
}

/// The default healthy kernel: from the first family that has pathologies for these problems.
pub fn default_kernel<'c>(op: &AnyOp, catalog: &'c Catalog, problems: &[AnyProblem]) -> Option<Subject<'c>> {
    let families = ops::families(op, catalog).ok()?.into_iter();
    let mut with_pathologies = families.filter(|family| !family.pathologies.is_empty());
    with_pathologies.find_map(|family| {
        Some(Subject::kernel(family, Some(most_refined_preset(op, family, problems)?), Vec::new()))
    })
}

/// The last preset that supports every pathology on every problem. A manifest lists presets from plain to refined.
fn most_refined_preset(op: &AnyOp, family: &Family, problems: &[AnyProblem]) -> Option<String> {
    let supports_all = |preset: &str| {
        family.pathologies.iter().all(|pathology| {
            let knobs: Vec<(String, String)> =
                pathology.knobs.iter().map(|(knob, value)| (knob.clone(), value.to_string())).collect();
            problems.iter().all(|problem| op.candidate(family, Some(preset), &knobs, problem).is_ok())
        })
    };
    let presets = family.presets.iter().rev().map(|preset| &preset.name);
    presets.into_iter().find(|name| supports_all(name)).or(family.presets.first().map(|it| &it.name)).cloned()
}

/// The exit code of a run of inversions. A wrong result is a problem; a pathology without a time makes the ranking
/// incomplete.
fn verdict(state: &RunState) -> Exit {
    let failed = |result: &InversionResult| matches!(result, InversionResult::Failed { .. });
    match super::profile::verdict(state) {
        Exit::ProblemFound => Exit::ProblemFound,
        _ if state.inversions.is_empty() || state.inversions.iter().any(|it| failed(&it.result)) => {
            Exit::Incomplete
        }
        _ => Exit::Success,
    }
}
