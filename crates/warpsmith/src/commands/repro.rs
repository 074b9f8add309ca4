//! `repro`: all stages in one run. It times kernels and baselines, searches, times the best result against the
//! baselines, profiles it, measures pathologies and writes the report.

use std::path::{Path, PathBuf};

use family::Family;
use family::tuned_table::Table;
use lab::bench::{self, Subject, SubjectKind};
use lab::evolve::{self, EvolveError, picks};
use lab::invert::{self, InvertError};
use lab::profile::{self, ProfileError};
use lab::{Session, StageError};
use op::{AnyOp, AnyProblem};
use runlog::elites;
use runlog::{Event, FailureKind, RunState, Timer, TrialResult};
use schemars::JsonSchema;
use serde::Serialize;
use stats::geometric_mean;
use text::count;

use super::evolve::{BUDGET, QUICK_BUDGET, SearchDisplay};
use super::workbench::{self, Execution, ResumableCommand, Workbench};
use crate::cli::{BenchOptions, Global, PROCESSES, ReproOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{FAINT, GOOD, Printer, STRONG, styled};
use crate::tables;

/// The number of elites to keep.
const ELITES: usize = 6;
/// The largest problem for the virtual GPU. More work than this takes minutes per kernel.
const VIRTUAL_FLOPS: f64 = 2e9;
/// The name of the search's best candidate in later stages.
fn evolved_name(family: &str) -> String {
    format!("{family} evolved")
}

#[derive(JsonSchema, Serialize)]
pub struct Document<'a> {
    /// The run folder.
    run: &'a Path,
    /// The files of the report.
    files: Vec<PathBuf>,
    /// The results in words.
    found: Vec<String>,
}

impl ResumableCommand for ReproOptions {
    workbench::resumable_command!(Repro, "repro", folder);

    fn execute(&self, execution: Execution<'_>) -> Result<Exit, CommandError> {
        let (options, Execution { global, printer, .. }) = (self, execution);
        let workbench = Workbench::open(global, options.family.as_slice())?;
        let family = super::evolve::family(options.family.as_deref(), &workbench)?;
        let strategy = search::strategies::by_name(&options.strategy)
            .map_err(|error| CommandError::usage(error.to_string()).hint(error.hint()))?;
        let mut plan = bench::BenchPlan { seed: global.seed, ..bench_plan(options, global, &workbench)? };
        let skipped = skip_large_problems(&*workbench.op, &mut plan, workbench.is_virtual());
        let started = workbench.begin(Self::NAME, execution)?;
        printer.message(&outline(options, &plan, family, workbench.is_virtual()));
        let tell = |text: &str| printer.message(&styled(FAINT, text));
        let session = started.session(&tell);
        let repro = Repro { options, workbench: &workbench, family, strategy: *strategy, session, printer };
        let result = repro.note(skipped).and_then(|()| repro.stages(plan));
        let exit = match result {
            Ok(()) => verdict(&started.opened.run.state(), options.strict),
            Err(Stop::Stopped) => Exit::Incomplete,
            Err(Stop::Failure(failure)) => return Err(failure),
        };
        let folder = started.opened.run.folder().to_owned();
        let (state, _) = started.opened.finish(exit)?;
        let mut table = Table::default();
        table.merge(picks::from_search(&state));
        table.write(&folder.join("tuned.toml")).map_err(|error| CommandError::missing(error.to_string()))?;
        let written = report::export::write_exports(&folder, &state).map_err(|error| {
            CommandError::missing(format!("cannot write to {}: {error}", folder.display()))
        })?;
        if printer.is_json() {
            let document = Document { run: &folder, files: written, found: results(&state) };
            printer.json("repro", &document);
        } else {
            printer.data(&summary(&state, &folder));
            if exit == Exit::Incomplete {
                printer.verbatim_message(&workbench::resume_command(Self::NAME, &folder, global, &[]));
            }
        }
        Ok(exit)
    }
}

/// The plan of the first bench: every kernel and every baseline.
fn bench_plan<'w>(
    options: &ReproOptions,
    global: &Global,
    workbench: &'w Workbench<'_>,
) -> Result<bench::BenchPlan<'w, AnyProblem>, CommandError> {
    let options = BenchOptions {
        problem: options.problem.clone(),
        suite: options.suite.clone(),
        seconds: options.seconds.or(options.quick.then_some(2.0)),
        memory: 16384,
        processes: PROCESSES,
        ..BenchOptions::default()
    };
    super::bench::plan(&options, global, workbench)
}

/// What the run will do, and on the virtual GPU how long earlier runs took.
fn outline(
    options: &ReproOptions,
    plan: &bench::BenchPlan<'_, AnyProblem>,
    family: &Family,
    is_virtual: bool,
) -> String {
    let budget = options.budget.unwrap_or(if options.quick { QUICK_BUDGET } else { BUDGET });
    let kernels = plan.subjects.len();
    let problems = plan.problems.len();
    let duration = if is_virtual { "Earlier runs on two cores took 3 to 18 minutes. " } else { "" };
    let shorter = if options.quick || options.budget.is_some() {
        ""
    } else {
        " `warpsmith repro --quick` tries fewer settings."
    };
    format!(
        "repro times {} on {}, tries {} of {}, profiles the best and writes a report. {duration}Ctrl-C stops \
         it, and it can be resumed.{shorter} `warpsmith --help` lists smaller commands.",
        count(kernels, "kernel"),
        count(problems, "problem"),
        count(budget as usize, "setting"),
        family.name
    )
}

/// Removes the problems that take too long on the virtual GPU, unless all do. Returns a note that names them.
fn skip_large_problems(
    op: &AnyOp,
    plan: &mut bench::BenchPlan<'_, AnyProblem>,
    is_virtual: bool,
) -> Option<String> {
    if !is_virtual {
        return None;
    }
    let fits = |problem: &AnyProblem| op.work(problem).flops <= VIRTUAL_FLOPS;
    if !plan.problems.iter().any(fits) {
        return None;
    }
    let (kept, skipped): (Vec<AnyProblem>, Vec<AnyProblem>) = plan.problems.iter().cloned().partition(fits);
    plan.problems = kept;
    // Targets are for measured times only.
    plan.targets.clear();
    let names: Vec<String> = skipped.iter().map(ToString::to_string).collect();
    (!names.is_empty())
        .then(|| format!("skipped on the virtual GPU, because each would take minutes: {}", names.join(", ")))
}

/// Why the stages ended early.
enum Stop {
    /// The user stopped the run.
    Stopped,
    /// A stage failed.
    Failure(CommandError),
}

impl<E: std::fmt::Display> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failure(CommandError::missing(error.to_string()))
    }
}

/// What every stage needs.
struct Repro<'a> {
    options: &'a ReproOptions,
    workbench: &'a Workbench<'a>,
    family: &'a Family,
    strategy: search::strategies::Entry,
    session: Session<'a, AnyOp>,
    printer: &'a Printer,
}

impl<'a> Repro<'a> {
    /// Logs and prints a note, unless the log already has it.
    fn note(&self, text: Option<String>) -> Result<(), Stop> {
        let Some(text) = text else { return Ok(()) };
        if !self.session.run.state().notes.contains(&text) {
            self.printer.message(&styled(FAINT, &text));
            self.session.run.record(&Event::Note { text })?;
        }
        Ok(())
    }

    /// Prints the title of a stage.
    fn heading(&self, number: u32, text: &str) {
        self.printer.message(&styled(STRONG, format!("[{number}/5] {text}")));
    }

    /// Runs the stages in order. Finished work of a resumed run is not repeated.
    fn stages(&self, plan: bench::BenchPlan<'a, AnyProblem>) -> Result<(), Stop> {
        self.heading(1, "time every kernel and its baselines");
        // Targets are judged in stage 3, together with the search's result.
        self.bench(&bench::BenchPlan { targets: Vec::new(), ..plan.clone() })?;

        self.heading(2, "search for faster settings");
        self.evolve(&plan)?;

        self.heading(3, "time the best setting against all baselines");
        let final_plan = self.final_plan(plan);
        self.bench(&final_plan)?;

        self.heading(4, "profile the best setting");
        self.profile(&final_plan)?;

        self.heading(5, "measure known pathologies");
        self.invert(&final_plan)
    }

    fn bench(&self, plan: &bench::BenchPlan<'_, AnyProblem>) -> Result<(), Stop> {
        match bench::run(&self.session, plan) {
            Ok(()) => Ok(()),
            Err(StageError::Stopped) => Err(Stop::Stopped),
            Err(error) => Err(error.into()),
        }
    }

    fn evolve(&self, plan: &bench::BenchPlan<'_, AnyProblem>) -> Result<(), Stop> {
        let state = self.session.run.state();
        let budget = self.options.budget.unwrap_or(if self.options.quick { QUICK_BUDGET } else { BUDGET });
        let problems: Vec<AnyProblem> = plan
            .problems
            .iter()
            .filter(|problem| {
                let one = std::slice::from_ref(*problem);
                super::evolve::baseline(&*self.workbench.op, self.family, None, &[], one).is_ok()
            })
            .cloned()
            .collect();
        let baseline = match best_preset(&state, self.family, &problems) {
            Some(preset) => Some(preset),
            None => super::evolve::baseline(&*self.workbench.op, self.family, None, &[], &problems)
                .map_err(Stop::Failure)?,
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
        let display = SearchDisplay::new(budget, self.printer);
        let update =
            |progress: &evolve::Progress, trial: Option<&runlog::Trial>| display.update(progress, trial);
        let result = evolve::run(&self.session, &search, None, &update);
        display.finish();
        match result {
            Ok(()) => Ok(()),
            Err(EvolveError::Stopped) => Err(Stop::Stopped),
            Err(error) => Err(Stop::Failure(super::evolve::failure(error))),
        }
    }

    /// Profiles the kernels of the final bench on the first problem. If the profiler cannot be used, a note says so and
    /// the run continues.
    fn profile(&self, final_plan: &bench::BenchPlan<'a, AnyProblem>) -> Result<(), Stop> {
        let Some(problem) = final_plan.problems.first().cloned() else { return Ok(()) };
        let state = self.session.run.state();
        let is_profiled = |subject: &Subject<'_>| {
            state.profiles.keys().any(|of| of.subject == subject.name && of.problem == problem.to_string())
        };
        let kernels =
            final_plan.subjects.iter().filter(|subject| subject.is_candidate && !is_profiled(subject));
        let subjects: Vec<(Subject<'a>, AnyProblem)> =
            kernels.map(|subject| (subject.clone(), problem.clone())).collect();
        let plan = profile::ProfilePlan {
            device: final_plan.device.clone(),
            subjects,
            limits: final_plan.limits,
            secret: final_plan.secret,
            full_size: false,
            try_levers: true,
        };
        match profile::run(&self.session, &plan) {
            Ok(()) => Ok(()),
            Err(ProfileError::Stage(StageError::Stopped)) => Err(Stop::Stopped),
            Err(ProfileError::Ncu(error)) => self.note(Some(format!("cannot profile: {error}"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Measures the pathologies of the first family that has some, on the first problem.
    fn invert(&self, final_plan: &bench::BenchPlan<'a, AnyProblem>) -> Result<(), Stop> {
        let Some(problem) = final_plan.problems.first().cloned() else { return Ok(()) };
        let Some(healthy) = super::invert::default_kernel(
            &*self.workbench.op,
            &self.workbench.catalog,
            std::slice::from_ref(&problem),
        ) else {
            return self.note(Some(format!("no family has pathologies for {problem}")));
        };
        let tried = self.session.run.state().inversions;
        let tried = tried.iter().filter(|it| it.healthy == healthy.name && it.problem == problem.to_string());
        if matches!(&healthy.kind, SubjectKind::Kernel { family, .. } if tried.count() == family.pathologies.len())
        {
            return Ok(());
        }
        let plan = invert::InvertPlan {
            device: final_plan.device.clone(),
            healthy,
            problems: vec![problem],
            stopping: super::evolve::stopping(None),
            warmup: final_plan.warmup,
            limits: final_plan.limits,
            seed: final_plan.seed,
            secret: final_plan.secret,
            full_size: false,
        };
        match invert::run(&self.session, &plan) {
            Ok(()) => Ok(()),
            Err(error) if error.is_stop() => Err(Stop::Stopped),
            Err(InvertError::Profile(ProfileError::Ncu(error))) => {
                self.note(Some(format!("cannot profile the pathologies: {error}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The plan of the final bench: the baselines, the search's starting preset and its best candidate.
    fn final_plan(&self, mut plan: bench::BenchPlan<'a, AnyProblem>) -> bench::BenchPlan<'a, AnyProblem> {
        let state = self.session.run.state();
        let start = state.search.as_ref().map(|search| format!("{} {}", self.family.name, search.baseline));
        plan.subjects.retain(|subject| !subject.is_candidate || Some(&subject.name) == start.as_ref());
        if let Some(best) = elites::winner(state.trials.values()) {
            let knobs = best.trial.knobs.iter().map(|(knob, value)| (knob.clone(), value.clone())).collect();
            let evolved = Subject {
                name: evolved_name(&self.family.name),
                ..Subject::kernel(self.family, None, knobs)
            };
            plan.subjects.push(evolved);
        }
        plan
    }
}

/// The family's preset with the best mean time over the problems. Only presets with a time for every problem count.
fn best_preset(state: &RunState, family: &Family, problems: &[AnyProblem]) -> Option<String> {
    // A resumed run keeps its earlier choice.
    if let Some(search) = &state.search {
        return Some(search.baseline.clone());
    }
    let rows = runlog::rows(state);
    let time = |subject: &str, problem: &AnyProblem| {
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

/// The exit code of a run that was not stopped. A kernel with a wrong answer or a fault is a problem; with `strict` a
/// missed target is one, too. Candidates that fail in the search are no problem: a search expects them.
fn verdict(state: &RunState, strict: bool) -> Exit {
    let is_fault = |kind: FailureKind| !matches!(kind, FailureKind::Refused | FailureKind::TooLarge);
    let has_failure = state
        .failures
        .iter()
        .any(|failure| is_fault(failure.kind) && !state.is_baseline(&failure.of.subject));
    let missed = strict && state.targets.iter().any(|target| target.met == Some(false));
    if has_failure || missed { Exit::ProblemFound } else { Exit::Success }
}

/// A table with the fastest kernel for each problem: its time and, if it was measured, its speedup over the fastest
/// baseline.
fn fastest_kernels(state: &RunState) -> Option<String> {
    let mut table =
        tables::Table::new(&["problem", "fastest kernel", "time", "over the fastest baseline"], &["time"]);
    let (rows, times) = (runlog::rows(state), runlog::times(state));
    let mut problems: Vec<&str> = Vec::new();
    for time in &times {
        if !problems.contains(&time.of.problem.as_str()) {
            problems.push(&time.of.problem);
        }
    }
    for problem in &problems {
        let kernels = times.iter().filter(|it| !it.is_baseline && it.of.problem == *problem);
        let fastest = kernels.min_by(|a, b| a.time.micros().total_cmp(&b.time.micros()));
        let Some(fastest) = fastest else { continue };
        let over = if fastest.time.is_modelled() {
            "not compared: modelled".to_owned()
        } else {
            let row = rows.iter().rfind(|row| row.of == fastest.of && row.timer == Timer::GraphHot);
            let ratio = |over: &runlog::RowSpeedup| over.comparison.speedup.ratio;
            let least = row.and_then(|row| row.over.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b))));
            least.map_or(String::new(), |over| format!("{:.2}x over {}", ratio(over), over.baseline))
        };
        let time = format!("{:.2} us", fastest.time.micros());
        table.row([(*problem).to_owned(), fastest.of.subject.clone(), time, over]);
    }
    (!problems.is_empty()).then(|| table.text())
}

/// The results of the run, one per line.
fn results(state: &RunState) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(search), Some(best)) = (&state.search, elites::winner(state.trials.values())) {
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
    let evolved = state.search.as_ref().map(|search| evolved_name(&search.family));
    let means = state.means();
    for mean in
        means.iter().filter(|mean| Some(&mean.candidate) == evolved.as_ref() && mean.timer == Timer::GraphHot)
    {
        lines.push(format!(
            "{}: {:.2}x over {} ({}, {} problems, measured)",
            mean.candidate, mean.speedup, mean.baseline, mean.standing, mean.problems
        ));
    }
    let met = state.targets.iter().filter(|target| target.met == Some(true)).count();
    if !state.targets.is_empty() {
        lines.push(format!("{met} of {} met", count(state.targets.len(), "target")));
        let missed = state.targets.iter().filter(|target| target.met == Some(false));
        lines.extend(missed.map(|target| {
            let problem = target.problem.as_deref().unwrap_or("every problem");
            format!("missed: {} on {problem} ({})", target.target, target.evidence)
        }));
    }
    let failed = state.trials.values().filter(|it| matches!(it.result, TrialResult::Failed { .. })).count();
    let tried = count(state.trials.len().saturating_sub(1), "candidate");
    lines.push(format!("{tried} tried, {failed} of them failed"));
    lines
}

/// The last output of the command: the results and the path of the report.
fn summary(state: &RunState, folder: &Path) -> String {
    let mut lines: Vec<String> = fastest_kernels(state).into_iter().collect();
    lines.push(styled(STRONG, "results"));
    lines.extend(results(state).into_iter().map(|line| format!("  {line}")));
    let report = folder.join("report.html");
    lines.push(format!("{} {}", styled(GOOD, "report"), report.display()));
    lines.join("\n")
}
