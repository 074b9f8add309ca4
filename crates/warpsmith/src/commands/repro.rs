//! `repro`: everything in order, in one run: environment, baselines and candidates, search, the best against everybody,
//! what limits it, what pathologies would cost, and the report.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use attention::{Attention, Problem};
use family::Family;
use family::tuned::Table;
use gpu::build::Compiler;
use lab::bench::{self, BenchError, Subject, SubjectKind, WorkerCommands};
use lab::evolve::{self, EvolveError, elites, tuned};
use lab::invert::{self, InvertError};
use lab::profile::{self, ProfileError};
use lab::run::{Event, Manifest, Run, RunError, RunState, Timer, TrialResult};
use lab::stats::geometric_mean;
use op::Op;

use super::evolve::{BUDGET, DEFAULT_FAMILY, QUICK_BUDGET, Show};
use super::workbench::{self, OpenRun, Workbench};
use crate::cli::{BenchOptions, Command, Global, PROCESSES, ReproOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{FAINT, GOOD, Printer, STRONG, styled};

/// Elites that are kept.
const ELITES: usize = 6;
/// A problem with more work than this takes the virtual GPU minutes per kernel.
const VIRTUAL_FLOPS: f64 = 2e9;
/// How the best candidate of the search is called from then on.
const EVOLVED: &str = "evolved";

pub fn run(options: &ReproOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    fn then(command: &mut Command) -> Option<&mut ReproOptions> {
        if let Command::Repro(options) = command { Some(options) } else { None }
    }
    workbench::in_a_run(
        (options, global),
        (options.resume, options.run_dir.as_deref()),
        "repro",
        then,
        |_, _| Ok(()),
        |options, global, open| carry_out(options, global, printer, open),
    )
}

fn carry_out(
    options: &ReproOptions,
    global: &Global,
    printer: &Printer,
    open: impl FnOnce(Manifest) -> Result<Run, RunError>,
) -> Result<Exit, CommandError> {
    let workbench = Workbench::open(global)?;
    let family = workbench.catalog.family(options.family.as_deref().unwrap_or(DEFAULT_FAMILY))?;
    let strategy = search::strategy::by_name(&options.strategy)
        .map_err(|error| CommandError::usage(error.to_string()).hint(error.hint()))?;
    let mut plan = bench::BenchPlan { seed: global.seed, ..bench_plan(options, global, &workbench)? };
    let left_out = cut(&mut plan, workbench.is_virtual());
    let compiler = super::build::compiler(global, printer)?;
    let opened = OpenRun::new(open(workbench.manifest("repro", &compiler)), global, printer)?;
    let start = workbench.start()?;
    let stop = super::stop_on_interrupt();
    let repro = Repro {
        options,
        workbench: &workbench,
        family,
        strategy: *strategy,
        compiler: &compiler,
        start: &start,
        run: &opened.run,
        stop: &stop,
        printer,
    };
    let done = repro.note(left_out).and_then(|()| repro.stages(plan));
    let exit = match done {
        Ok(()) => verdict(&opened.run.state()),
        Err(Stop::Stopped) => Exit::Incomplete,
        Err(Stop::Failure(failure)) => return Err(failure),
    };
    let folder = opened.run.folder().to_owned();
    let (state, _) = opened.finish(exit)?;
    let mut table = Table::default();
    table.take(tuned::picks(&state));
    table.write(&folder.join("tuned.toml")).map_err(|error| CommandError::lacking(error.to_string()))?;
    let written = lab::report::write(&folder, &state)
        .map_err(|error| CommandError::lacking(format!("{}: {error}", folder.display())))?;
    if printer.is_json() {
        printer
            .json("repro", &serde_json::json!({ "run": folder, "files": written, "found": found(&state) }));
    } else {
        printer.data(&last_screen(&state, &folder));
        if exit == Exit::Incomplete {
            printer.message(&workbench::go_on_with("repro", &folder, global, &[]));
        }
    }
    Ok(exit)
}

fn bench_plan<'w>(
    options: &ReproOptions,
    global: &Global,
    workbench: &'w Workbench<'_>,
) -> Result<bench::BenchPlan<'w, Problem>, CommandError> {
    let options = BenchOptions {
        problem: options.problem.clone(),
        suite: options.suite.clone(),
        seconds: options.seconds.or(options.quick.then_some(2.0)),
        memory: 16384,
        processes: PROCESSES,
        ..BenchOptions::default()
    };
    super::bench::plan(Attention, &options, global, workbench)
}

/// Leaves out what would keep the virtual GPU busy for too long, and says what that is.
fn cut(plan: &mut bench::BenchPlan<'_, Problem>, is_virtual: bool) -> Option<String> {
    if !is_virtual {
        return None;
    }
    let fits = |problem: &Problem| Attention.work(problem).flops <= VIRTUAL_FLOPS;
    if !plan.problems.iter().any(fits) {
        return None;
    }
    let (kept, left): (Vec<Problem>, Vec<Problem>) = plan.problems.iter().copied().partition(fits);
    plan.problems = kept;
    // What is modelled is held against no target.
    plan.targets.clear();
    let names: Vec<String> = left.iter().map(ToString::to_string).collect();
    (!names.is_empty()).then(|| {
        format!("left out on the virtual GPU, where they would take minutes each: {}", names.join(", "))
    })
}

/// Why the stages did not come to their end.
enum Stop {
    Stopped,
    Failure(CommandError),
}

impl<E: std::fmt::Display> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failure(CommandError::lacking(error.to_string()))
    }
}

struct Repro<'a> {
    options: &'a ReproOptions,
    workbench: &'a Workbench<'a>,
    family: &'a Family,
    strategy: search::strategy::Entry,
    compiler: &'a Compiler,
    start: &'a WorkerCommands<'a>,
    run: &'a Run,
    stop: &'a AtomicBool,
    printer: &'a Printer,
}

impl<'a> Repro<'a> {
    /// Says something once, in the log and to whoever watches.
    fn note(&self, text: Option<String>) -> Result<(), Stop> {
        let Some(text) = text else { return Ok(()) };
        if !self.run.state().notes.contains(&text) {
            self.printer.message(&styled(FAINT, &text));
            self.run.record(&Event::Note { text })?;
        }
        Ok(())
    }

    fn heading(&self, number: u32, text: &str) {
        self.printer.message(&styled(STRONG, format!("[{number}/5] {text}")));
    }

    fn stages(&self, plan: bench::BenchPlan<'a, Problem>) -> Result<(), Stop> {
        self.heading(1, "every kernel, and what people use today");
        // Targets are judged at the end, with what the search found.
        self.bench(&bench::BenchPlan { targets: Vec::new(), ..plan.clone() })?;

        self.heading(2, "the search");
        self.evolve(&plan)?;

        self.heading(3, "the best of it, against everybody");
        let finals = self.finals(plan);
        self.bench(&finals)?;

        self.heading(4, "what limits it");
        self.profile(&finals)?;

        self.heading(5, "what known pathologies would cost");
        self.invert(&finals)
    }

    fn bench(&self, plan: &bench::BenchPlan<'_, Problem>) -> Result<(), Stop> {
        let tell = |text: &str| self.printer.message(&styled(FAINT, text));
        match bench::run(&Attention, plan, self.compiler, self.start, self.run, self.stop, &tell) {
            Ok(()) => Ok(()),
            Err(BenchError::Stopped) => Err(Stop::Stopped),
            Err(error) => Err(error.into()),
        }
    }

    fn evolve(&self, plan: &bench::BenchPlan<'_, Problem>) -> Result<(), Stop> {
        let state = self.run.state();
        let budget = self.options.budget.unwrap_or(if self.options.quick { QUICK_BUDGET } else { BUDGET });
        let problems: Vec<Problem> = plan
            .problems
            .iter()
            .copied()
            .filter(|problem| super::evolve::baseline(self.family, None, &[], &[*problem]).is_ok())
            .collect();
        let baseline = match best_preset(&state, self.family, &problems) {
            Some(preset) => Some(preset),
            None => super::evolve::baseline(self.family, None, &[], &problems).map_err(Stop::Failure)?,
        };
        let is_virtual = self.workbench.is_virtual();
        let search = evolve::EvolvePlan {
            device: plan.device.clone(),
            family: self.family,
            baseline,
            baseline_knobs: Vec::new(),
            problems,
            strategy: self.strategy,
            proposer: evolve::Proposer::Knobs,
            budget,
            elites: ELITES,
            ahead: super::evolve::ahead(),
            seed: plan.seed,
            secret: plan.secret,
            timer: Timer::GraphHot,
            stopping: super::evolve::stopping(None),
            warmup: plan.warmup,
            limits: super::evolve::limits(is_virtual, None),
        };
        let show = Show::new(budget, self.printer);
        let tell = |standing: &evolve::Progress, trial: Option<&lab::run::Trial>| show.tell(standing, trial);
        let done = evolve::run(&Attention, &search, self.compiler, self.start, self.run, self.stop, &tell);
        show.finish();
        match done {
            Ok(()) => Ok(()),
            Err(EvolveError::Stopped) => Err(Stop::Stopped),
            Err(error) => Err(Stop::Failure(super::evolve::failure(error))),
        }
    }

    /// Profiles the kernels of the final on the first problem. A machine that lets nobody count is no reason to stop.
    fn profile(&self, finals: &bench::BenchPlan<'a, Problem>) -> Result<(), Stop> {
        let Some(&problem) = finals.problems.first() else { return Ok(()) };
        let state = self.run.state();
        let profiled = |subject: &Subject<'_>| {
            state.profiles.keys().any(|of| of.subject == subject.name && of.problem == problem.to_string())
        };
        let kernels = finals.subjects.iter().filter(|subject| subject.is_candidate && !profiled(subject));
        let subjects: Vec<(Subject<'a>, Problem)> =
            kernels.map(|subject| (subject.clone(), problem)).collect();
        let plan = profile::ProfilePlan {
            device: finals.device.clone(),
            subjects,
            limits: finals.limits,
            secret: finals.secret,
            full_size: false,
        };
        let tell = |text: &str| self.printer.message(&styled(FAINT, text));
        match profile::run(&Attention, &plan, self.compiler, self.start, self.run, self.stop, &tell) {
            Ok(()) => Ok(()),
            Err(ProfileError::Stopped) => Err(Stop::Stopped),
            Err(ProfileError::Ncu(error)) => self.note(Some(format!("no profile: {error}"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts the pathologies into the first family that has some, on the first problem.
    fn invert(&self, finals: &bench::BenchPlan<'a, Problem>) -> Result<(), Stop> {
        let Some(&problem) = finals.problems.first() else { return Ok(()) };
        let Some(healthy) = super::invert::usual(&self.workbench.catalog, &[problem]) else {
            return self.note(Some(format!("no family has pathologies that {problem} could be run with")));
        };
        let tried = self.run.state().inversions;
        let tried = tried.iter().filter(|it| it.healthy == healthy.name && it.problem == problem.to_string());
        if matches!(&healthy.kind, SubjectKind::Kernel { family, .. } if tried.count() == family.pathologies.len())
        {
            return Ok(());
        }
        let plan = invert::InvertPlan {
            device: finals.device.clone(),
            healthy,
            problems: vec![problem],
            stopping: super::evolve::stopping(None),
            warmup: finals.warmup,
            limits: finals.limits,
            seed: finals.seed,
            secret: finals.secret,
            full_size: false,
        };
        let tell = |text: &str| self.printer.message(&styled(FAINT, text));
        match invert::run(&Attention, &plan, self.compiler, self.start, self.run, self.stop, &tell) {
            Ok(()) => Ok(()),
            Err(error) if error.is_stop() => Err(Stop::Stopped),
            Err(InvertError::Profile(ProfileError::Ncu(error))) => {
                self.note(Some(format!("pathologies without their counters: {error}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The baselines, the preset the search started from, and the best the search found.
    fn finals(&self, mut plan: bench::BenchPlan<'a, Problem>) -> bench::BenchPlan<'a, Problem> {
        let state = self.run.state();
        let from = state.search.as_ref().map(|search| format!("{} {}", self.family.name, search.baseline));
        plan.subjects.retain(|subject| !subject.is_candidate || Some(&subject.name) == from.as_ref());
        if let Some(best) = best_trial(&state) {
            let knobs = best.trial.knobs.iter().map(|(knob, value)| (knob.clone(), value.clone())).collect();
            let evolved = Subject {
                name: format!("{} {EVOLVED}", self.family.name),
                ..Subject::kernel(self.family, None, knobs)
            };
            plan.subjects.push(evolved);
        }
        plan
    }
}

/// The trial with the highest score; of equals, the first.
fn best_trial(state: &RunState) -> Option<elites::TimedTrial<'_>> {
    elites::timed(state.trials.values()).reduce(|a, b| if b.score > a.score { b } else { a })
}

/// The preset of the family that is fastest over all the problems, as far as they were timed.
fn best_preset(state: &RunState, family: &Family, problems: &[Problem]) -> Option<String> {
    // A run that is gone on with has made its choice.
    if let Some(search) = &state.search {
        return Some(search.baseline.clone());
    }
    let rows = lab::run::rows(state);
    let time = |subject: &str, problem: &Problem| {
        let problem = problem.to_string();
        let measured = rows.iter().filter(|row| row.of.subject == subject && row.of.problem == problem);
        let modelled = state.modelled.iter().find(|(of, _)| of.subject == subject && of.problem == problem);
        measured.map(|row| row.p50_us.0).next().or(modelled.map(|(_, modelled)| modelled.time_us.0))
    };
    let mean = |preset: &family::Preset| {
        let subject = format!("{} {}", family.name, preset.name);
        let times: Option<Vec<f64>> = problems.iter().map(|problem| time(&subject, problem)).collect();
        Some((geometric_mean(times?)?, preset.name.clone()))
    };
    let best = family.presets.iter().filter_map(mean).min_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, preset)| preset)
}

/// A kernel of ours that is wrong or broken, or a missed target, is a finding. What the search tried and found wrong is
/// none: that is what it is for.
fn verdict(state: &RunState) -> Exit {
    let broken = state.failures.iter().any(|failure| {
        failure.kind != lab::run::FailureKind::Refused && !state.is_baseline(&failure.of.subject)
    });
    let missed = state.targets.iter().any(|target| target.met == Some(false));
    if broken || missed { Exit::Finding } else { Exit::Holds }
}

/// What was found, line by line.
fn found(state: &RunState) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(search), Some(best)) = (&state.search, best_trial(state)) {
        let modelled = best.problems.iter().any(|it| it.time.is_modelled());
        lines.push(format!(
            "{}: {:.2}x over preset {} ({}), with {}",
            search.family,
            best.score,
            search.baseline,
            if modelled { "modelled" } else { "measured" },
            best.trial.candidate
        ));
    }
    let evolved = |candidate: &str| candidate.ends_with(EVOLVED);
    for mean in state.means().iter().filter(|mean| evolved(&mean.candidate) && mean.timer == Timer::GraphHot)
    {
        lines.push(format!(
            "{}: {:.2}x over {} ({}, {} problems, measured)",
            mean.candidate, mean.speedup, mean.baseline, mean.standing, mean.problems
        ));
    }
    let met = state.targets.iter().filter(|target| target.met == Some(true)).count();
    if !state.targets.is_empty() {
        lines.push(format!("{met} of {} targets met", state.targets.len()));
    }
    let failed = state.trials.values().filter(|it| matches!(it.result, TrialResult::Failed { .. })).count();
    lines.push(format!("{} candidates tried, {failed} of them failed", state.trials.len().saturating_sub(1)));
    lines
}

fn last_screen(state: &RunState, folder: &Path) -> String {
    let mut lines = vec![styled(STRONG, "found")];
    lines.extend(found(state).into_iter().map(|line| format!("  {line}")));
    let report = folder.join("report.html");
    lines.push(format!("{} {}", styled(GOOD, "report"), report.display()));
    lines.join("\n")
}
