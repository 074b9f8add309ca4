//! `bench`: times kernels and their baselines.

use std::time::Duration;

use lab::StageError;
use lab::bench::{self, BenchPlan, Subject, SubjectKind};
use lab::suite;
use lab::worker::Limits;
use op::{AnyOp, AnyProblem};
use report::export::BenchFile;
use runlog::{FailureKind, RunState, Timer};
use stats::Stopping;

use super::tuned_preset;
use super::workbench::{self, Execution, ResumableCommand, Workbench};
use crate::bench_table;
use crate::cli::{BenchOptions, Global};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{FAINT, Printer, WARN, styled};

/// The default number of warm-up calls.
const WARMUP: u32 = 10;

impl ResumableCommand for BenchOptions {
    workbench::resumable_command!(Bench, "bench", folder);

    fn execute(&self, execution: Execution<'_>) -> Result<Exit, CommandError> {
        let (options, Execution { global, printer, .. }) = (self, execution);
        let workbench = Workbench::open(global, &options.kernels.families)?;
        let plan = plan(options, global, &workbench)?;
        workbench.refuse_unsupported(&options.kernels.families, &plan.subjects, &plan.problems)?;
        look_up_tuned(&*workbench.op, &plan, &options.problem, printer)?;
        let mut baselines = options.baseline.clone();
        baselines.retain(|name| name != "none");
        if workbench.is_virtual() && !baselines.is_empty() {
            printer.message(&format!(
                "{}: {} cannot be timed on the virtual GPU; baselines need a GPU (--device cuda)",
                styled(WARN, "warning"),
                baselines.join(", ")
            ));
        }
        let started = workbench.begin(Self::NAME, execution)?;
        let tell = |text: &str| printer.message(&styled(FAINT, text));
        let session = started.session(&tell);
        let done = bench::run(&session, &plan);

        let exit = match &done {
            Ok(()) => verdict(&plan, options, &started.opened.run.state()),
            Err(StageError::Stopped) => Exit::Incomplete,
            Err(_) => {
                return Err(done.map_or_else(CommandError::from, |()| CommandError::missing("no result")));
            }
        };
        let folder = started.opened.run.folder().to_owned();
        let (state, _) = started.opened.finish(exit)?;
        if printer.is_json() {
            printer.json_document(&BenchFile::new(&state));
        } else {
            printer.data(&bench_table::text(&plan, &state, !options.baseline.is_empty()));
            if exit == Exit::Incomplete {
                printer.verbatim_message(&workbench::resume_command(Self::NAME, &folder, global, &[]));
            }
        }
        Ok(exit)
    }
}

/// The plan of a bench, from its options.
pub fn plan<'w>(
    options: &BenchOptions,
    global: &Global,
    workbench: &'w Workbench<'_>,
) -> Result<BenchPlan<'w, AnyProblem>, CommandError> {
    let op = &*workbench.op;
    let default = || op.suites().first().map(|suite| suite.name.clone());
    let named = options.suite.clone().or_else(|| default().filter(|_| options.problem.is_empty()));
    let suite = named.map(|name| suite::find(op, &name)).transpose()?;
    let mut names = options.problem.clone();
    if names.is_empty() && suite.is_none() {
        names = op.default_problems();
    }
    let problems = workbench::problems(op, &names, suite.as_ref())?;
    let virtual_device = workbench.is_virtual();
    let wanted = suite.as_ref().map(|suite| suite.baselines.as_slice()).unwrap_or_default();
    let mut subjects = subjects(options, workbench, wanted)?;
    if let Some(class) = &options.class {
        require_class(op, class)?;
        subjects = subjects.into_iter().map(|subject| subject.on_class(class)).collect();
    }
    let mut timers = vec![Timer::GraphHot];
    timers.extend(options.cold.then_some(Timer::GraphCold));
    timers.extend(options.eager.then_some(Timer::Eager));
    let seconds = options.seconds.or(suite.as_ref().and_then(|suite| suite.seconds)).unwrap_or(5.0);
    let max_samples = options.iters.map(|count| count as usize);
    let stopping = Stopping {
        most: max_samples,
        least: max_samples.map_or(Stopping::default().least, |max| max.min(Stopping::default().least)),
        time_limit: Duration::from_secs_f64(seconds),
        ..Stopping::default()
    };
    let limit = options.limit.unwrap_or(if virtual_device { 900.0 } else { 120.0 });
    Ok(BenchPlan {
        device: workbench.device.clone(),
        subjects,
        problems,
        processes: options.processes as usize,
        class: options.class.clone(),
        timers,
        stopping,
        ceilings: true,
        warmup: options.warmup.or(suite.as_ref().and_then(|suite| suite.warmup)).unwrap_or(WARMUP),
        limits: Limits {
            build: workbench::BUILD_LIMIT,
            answer: Duration::from_secs_f64(limit),
            resident_bytes: options.memory << 20,
        },
        seed: global.seed,
        secret: global.secret_seed(),
        targets: suite.map(|suite| suite.targets).unwrap_or_default(),
        errors: options.errors,
    })
}

/// Returns an error for a class of inputs that the op does not have.
pub fn require_class(op: &AnyOp, name: &str) -> Result<(), CommandError> {
    let all = [op.classes(), op.joined_classes()].concat();
    if all.contains(&name) {
        return Ok(());
    }
    let hint = format!("classes: {}", all.join(", "));
    Err(CommandError::usage(format!("there is no class of inputs `{name}`")).hint(hint))
}

/// Resolves `tuned` and `best`, if the plan has them. The named problems must have a pick for `tuned`.
fn look_up_tuned(
    op: &AnyOp,
    plan: &BenchPlan<'_, AnyProblem>,
    named: &[String],
    printer: &Printer,
) -> Result<(), CommandError> {
    let named = workbench::problems(op, named, None)?;
    let others: Vec<AnyProblem> = plan.problems.iter().filter(|it| !named.contains(it)).cloned().collect();
    for subject in &plan.subjects {
        if let SubjectKind::Chosen { catalog } = &subject.kind {
            tuned_preset::show_choices(op, catalog, &plan.problems, &plan.device, printer)?;
        }
    }
    tuned_preset::look_up(
        op,
        &tuned_preset::families(&plan.subjects),
        (&named, &others),
        &plan.device,
        printer,
    )
}

/// The subjects: the baselines, then the kernels.
fn subjects<'w>(
    options: &BenchOptions,
    workbench: &'w Workbench<'_>,
    suite_baselines: &[String],
) -> Result<Vec<Subject<'w>>, CommandError> {
    let virtual_device = workbench.is_virtual();
    let peers = workbench.op.peers();
    let peers = peers.map(|peers| peers.all).unwrap_or_default();
    // Without a choice, peers in packages that are not installed are left out.
    let usual = peers.iter().filter(|it| {
        it.distributions.is_empty() || it.has_library() || workbench.has_one_of(&it.distributions)
    });
    let usual: Vec<String> = usual.map(|peer| peer.name.clone()).collect();
    // The family that is written to be obvious is a baseline everywhere.
    let plain = ops::plain_family(&*workbench.op, &workbench.catalog);
    let plain_name = plain.map(|family| family.name.clone());
    let mut baselines: Vec<String> = match (options.baseline.as_slice(), suite_baselines) {
        ([], []) => usual.into_iter().chain(plain_name.clone()).collect(),
        ([], some) => some.iter().cloned().chain(plain_name.clone()).collect(),
        (some, _) => some.iter().filter(|name| *name != "none").cloned().collect(),
    };
    baselines.extend(options.require.iter().cloned());
    let mut subjects: Vec<Subject<'w>> = Vec::new();
    let mut reference = false;
    for name in &baselines {
        if Some(name) == plain_name.as_ref() {
            reference = true;
        } else if let Some(peer) = peers.iter().find(|peer| peer.name == *name) {
            let subject = Subject::peer(&peer.package, name);
            if !virtual_device && subjects.iter().all(|known| known.name != subject.name) {
                subjects.push(subject);
            }
        } else {
            let known = peers.iter().map(|peer| peer.name.clone());
            let known: Vec<String> = known.chain(plain_name.clone()).collect();
            let hint = format!("baselines: {}, none", known.join(", "));
            return Err(CommandError::usage(format!("there is no baseline `{name}`")).hint(hint));
        }
    }
    let kernels =
        workbench.kernels(&options.kernels.families, &options.kernels.preset, &options.kernels.knobs.set)?;
    let is_plain = |subject: &Subject<'_>| matches!(&subject.kind, SubjectKind::Kernel { family, .. } if Some(&family.name) == plain_name.as_ref());
    let has_reference = kernels.iter().any(is_plain);
    if let Some(family) = plain.filter(|_| reference && !has_reference && !virtual_device) {
        let preset = family.presets.first().map(|preset| preset.name.clone());
        let subject = Subject::kernel(family, preset, Vec::new());
        subjects.push(Subject { is_baseline: true, is_candidate: false, ..subject });
    }
    for kernel in kernels {
        let is_baseline = reference && is_plain(&kernel) && !virtual_device;
        subjects.push(Subject { is_baseline, ..kernel });
    }
    Ok(subjects)
}

/// The exit code of a run that was not stopped.
fn verdict(plan: &BenchPlan<'_, AnyProblem>, options: &BenchOptions, state: &RunState) -> Exit {
    let is_kernel =
        |name: &str| plan.subjects.iter().any(|subject| subject.name == name && subject.is_kernel());
    let is_problem = |kind: FailureKind| kind != FailureKind::Refused;
    let missing = options.require.iter().any(|name| {
        let measured = |problem: &AnyProblem| {
            state.measurements.iter().any(|found| {
                found.of.problem == problem.to_string() && plan.is_called(&found.of.subject, name)
            })
        };
        !plan.problems.iter().all(measured)
    });
    let has_failure =
        state.failures.iter().any(|failure| is_kernel(&failure.of.subject) && is_problem(failure.kind));
    if has_failure || state.targets.iter().any(|target| target.met == Some(false)) {
        Exit::ProblemFound
    } else if missing {
        Exit::MissingRequirement
    } else if state.measurements.is_empty() && state.modelled.is_empty() {
        Exit::Incomplete
    } else {
        Exit::Success
    }
}
