//! `evolve`: searches a family's settings for the fastest correct kernel.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use family::tuned_table::{Pick, Table, is_tuned};
use family::{Candidate, Family};
use gpu::device::Device;
use indicatif::ProgressBar;
use lab::evolve::{
    self, Endpoint, EvolveError, EvolvePlan, ExternalProposer, Information, Progress, Proposer,
    ProposerProgram, ProposerTransport, picks,
};
use lab::suite;
use lab::worker::Limits;
use op::{AnyOp, AnyProblem};
use runlog::elites;
use runlog::{RunState, Time, Timer, Trial, TrialResult};
use schemars::JsonSchema;
use serde::Serialize;
use stats::Stopping;

use super::fleet::head::Head;
use super::workbench::BUILD_LIMIT;
use super::workbench::{self, Execution, ResumableCommand, Workbench};
use crate::cli::{EvolveOptions, Global, ProposerInformation, SearchFleetOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::layout;
use crate::ops;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, WARN, flat, one_line, styled};
use crate::progress;
use crate::tables;
use text::quote;

/// The default number of candidates.
pub const BUDGET: u32 = 128;
/// The number of candidates with `--quick`.
pub const QUICK_BUDGET: u32 = 32;
/// The environment variable with the key of an endpoint. A flag would be visible in the list of processes and in the
/// log.
const KEY_VARIABLE: &str = "WARPSMITH_API_KEY";

impl ResumableCommand for EvolveOptions {
    workbench::resumable_command!(Evolve, "evolve", folder);

    fn override_untrusted(&self, logged: &mut Self) -> Result<(), CommandError> {
        workbench::override_flag("--proposer-cmd", self.proposer_cmd.as_ref(), &mut logged.proposer_cmd)?;
        // A search may go on with another fleet, or without.
        logged.fleet.fleet.clone_from(&self.fleet.fleet);
        logged.fleet.workers = self.fleet.workers;
        logged.fleet.lease = self.fleet.lease;
        logged.proposer_network = self.proposer_network;
        logged.proposer_folder.clone_from(&self.proposer_folder);
        workbench::override_flag("--endpoint", self.endpoint.as_ref(), &mut logged.endpoint)?;
        workbench::override_flag("--model", self.model.as_ref(), &mut logged.model)?;
        workbench::override_flag("--tuned", self.tuned.as_ref(), &mut logged.tuned)
    }

    fn execute(&self, execution: Execution<'_>) -> Result<Exit, CommandError> {
        let (options, Execution { global, printer, .. }) = (self, execution);
        let workbench = Workbench::open(global, options.family.as_slice())?;
        let mut plan = plan(options, global, &workbench, printer)?;
        let mut started = workbench.begin(Self::NAME, execution)?;
        let mut head = Head::open(options, global, &mut plan, &mut started, printer)?;
        let display = SearchDisplay::new(plan.budget, printer);
        let tell = |line: &str| display.message(line);
        let session = started.session(&tell);
        let fleet = head.as_mut().map(Head::fleet);
        let result = evolve::run(&session, &plan, fleet, &|progress, trial| display.update(progress, trial));
        display.finish();
        if let Some(head) = head
            && let Err(error) = head.end(result.is_err())
        {
            // The search has its result, or ended for a reason that matters more.
            let text = format!("the search is still in the fleet: {}", one_line(&error.message));
            printer.message(&format!("{}: {text}", styled(WARN, "warning")));
        }
        let exit = match result {
            Ok(()) => Exit::Success,
            Err(EvolveError::Stopped) => Exit::Incomplete,
            Err(error) => return Err(failure(error)),
        };
        let folder = started.opened.run.folder().to_owned();
        let (state, _) = started.opened.finish(exit)?;
        let picks = picks::from_search(&state);
        let merge_picks = |path: &Path| -> Result<(), CommandError> {
            let mut table = Table::read(path).map_err(|error| CommandError::usage(error.to_string()))?;
            table.merge(picks.clone());
            table.write(path).map_err(|error| CommandError::missing(error.to_string()))
        };
        merge_picks(&folder.join("tuned.toml"))?;
        if let Some(path) = options.tuned.as_deref().filter(|_| exit == Exit::Success) {
            merge_picks(path)?;
            printer.message(&styled(FAINT, format!("picks written to {}", path.display())));
        }
        if printer.is_json() {
            printer.json(
                "evolve",
                &SearchDocument {
                    run: folder.display().to_string(),
                    search: state.search.as_ref(),
                    trials: state.trials.values().collect(),
                    picks,
                    knobs: report::knob_worths(&state),
                },
            );
        } else {
            printer.data(&text(&state));
            if exit == Exit::Incomplete {
                printer.verbatim_message(&workbench::resume_command(
                    "evolve",
                    &folder,
                    global,
                    &flags_to_repeat(options),
                ));
            }
        }
        Ok(exit)
    }
}

/// The flags that `override_untrusted` replaces, for the command line that resumes the run. Secrets of the endpoint are removed.
fn flags_to_repeat(options: &EvolveOptions) -> Vec<String> {
    let path = |path: &PathBuf| path.display().to_string();
    let flags = [
        ("--proposer-cmd", options.proposer_cmd.clone()),
        ("--endpoint", options.endpoint.as_deref().map(evolve::redact::address)),
        ("--model", options.model.clone()),
        ("--tuned", options.tuned.as_ref().map(path)),
        ("--fleet", options.fleet.fleet.as_ref().map(ToString::to_string)),
        ("--workers", options.fleet.workers.map(|it| it.to_string())),
    ];
    let folders = options.proposer_folder.iter().map(|folder| ("--proposer-folder", Some(path(folder))));
    let valued = flags.into_iter().chain(folders);
    let words = valued.filter_map(|(flag, value)| value.map(|value| quote::flag(flag, value)));
    words.chain(options.proposer_network.then(|| "--proposer-network".to_owned())).collect()
}

/// The plan of a search, from its options.
pub fn plan<'w>(
    options: &EvolveOptions,
    global: &Global,
    workbench: &'w Workbench<'_>,
    printer: &Printer,
) -> Result<EvolvePlan<'w, AnyProblem>, CommandError> {
    let op = &*workbench.op;
    let family = family(options.family.as_deref(), workbench)?;
    let suite = options.suite.as_deref().map(|name| suite::find(op, name)).transpose()?;
    let mut names = options.problem.clone();
    if names.is_empty() && suite.is_none() {
        names.push(ops::default_problem(op));
    }
    let problems = workbench::problems(op, &names, suite.as_ref())?;
    let (baseline, baseline_knobs) = if options.preset.as_deref().is_some_and(is_tuned) {
        super::tuned_preset::look_up(op, &[family], (&problems, &[]), &workbench.device, printer)?;
        let tuned = tuned_baseline(op, family, &options.knobs.set, (&problems, &workbench.device))?;
        (tuned.preset.clone(), tuned.changes(family))
    } else {
        (
            baseline(op, family, options.preset.as_deref(), &options.knobs.set, &problems)?,
            options.knobs.set.clone(),
        )
    };
    let strategy = search::strategies::by_name(&options.strategy)
        .map_err(|error| CommandError::usage(error.to_string()).hint(error.hint()))?;
    let budget = options.budget.unwrap_or(if options.quick { QUICK_BUDGET } else { BUDGET });
    Ok(EvolvePlan {
        device: workbench.device.clone(),
        family,
        baseline,
        baseline_knobs,
        problems,
        strategy: *strategy,
        proposer: proposer(options)?,
        budget,
        elites: options.elites as usize,
        ahead: options.fleet.ahead.map_or_else(|| default_ahead(&options.fleet), |ahead| ahead as usize),
        seed: global.seed,
        secret: global.secret_seed(),
        timer: Timer::GraphHot,
        stopping: stopping(options.seconds),
        warmup: 10,
        limits: limits(workbench.is_virtual(), options.limit),
    })
}

/// The source of candidates: a strategy, a program or an endpoint.
fn proposer(options: &EvolveOptions) -> Result<Proposer, CommandError> {
    let transport = match (&options.proposer_cmd, &options.endpoint) {
        (Some(line), _) => ProposerTransport::Command(ProposerProgram {
            line: line.clone(),
            network: options.proposer_network,
            folders: options.proposer_folder.clone(),
        }),
        (None, Some(url)) => {
            let model = options.model.as_deref().unwrap_or_default();
            let key = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
            ProposerTransport::Endpoint(Endpoint::new(url, model, key).map_err(CommandError::usage)?)
        }
        (None, None) => return Ok(Proposer::Knobs),
    };
    let information = match options.information {
        ProposerInformation::Free => Information::Free,
        ProposerInformation::Insight => Information::Insight,
        ProposerInformation::Full => Information::Full,
    };
    let limit = Duration::from_secs_f64(options.proposer_seconds);
    Ok(Proposer::External(ExternalProposer {
        transport,
        information,
        is_compact: options.compact_prompt,
        limit,
    }))
}

/// The number of compilations that run while one candidate is timed.
pub fn ahead() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).min(16)
}

/// How many candidates a search asks for ahead.
fn default_ahead(options: &SearchFleetOptions) -> usize {
    match options.fleet {
        None => ahead(),
        Some(_) => options.workers.map_or(0, |workers| 2 * workers as usize).max(8),
    }
}

/// When the timing of a candidate stops.
pub fn stopping(seconds: Option<f64>) -> Stopping {
    Stopping { time_limit: Duration::from_secs_f64(seconds.unwrap_or(1.0)), ..Stopping::default() }
}

/// The time and memory limits of a candidate's process.
pub fn limits(is_virtual: bool, limit: Option<f64>) -> Limits {
    let answer = limit.unwrap_or(if is_virtual { 120.0 } else { 20.0 });
    Limits { build: BUILD_LIMIT, answer: Duration::from_secs_f64(answer), resident_bytes: 16 << 30 }
}

/// The family to search: the named one, or the op's default. An op's name stands for its default family.
pub fn family<'w>(named: Option<&str>, workbench: &'w Workbench<'_>) -> Result<&'w Family, CommandError> {
    let (op, catalog) = (&*workbench.op, &workbench.catalog);
    match named {
        Some(name) if name != op.name() => ops::family(op, name, catalog),
        _ => ops::search_family(op, catalog),
    }
}

/// The preset to start from: the named one, or the first that supports every problem.
pub fn baseline(
    op: &AnyOp,
    family: &Family,
    named: Option<&str>,
    set: &[(String, String)],
    problems: &[AnyProblem],
) -> Result<Option<String>, CommandError> {
    let supports = |preset: Option<&str>| {
        problems.iter().try_for_each(|problem| op.candidate(family, preset, set, problem).map(drop))
    };
    if let Some(name) = named {
        supports(Some(name))?;
        return Ok(Some(name.to_owned()));
    }
    let first = family.presets.iter().find(|preset| supports(Some(&preset.name)).is_ok());
    match first {
        Some(preset) => Ok(Some(preset.name.clone())),
        None => supports(None).map(|()| None).map_err(CommandError::from),
    }
}

/// The tuned setting to start from. It must be the same for every problem.
fn tuned_baseline(
    op: &AnyOp,
    family: &Family,
    set: &[(String, String)],
    (problems, device): (&[AnyProblem], &Device),
) -> Result<Candidate, CommandError> {
    let candidate = |problem: &AnyProblem| {
        op::dispatch::candidate(op, family, Some(family::tuned_table::PRESET), set, (problem, device))
    };
    let candidates = problems.iter().map(candidate).collect::<Result<Vec<_>, _>>()?;
    let one = candidates.first().filter(|one| candidates.iter().all(|it| it.knobs == one.knobs));
    one.cloned().ok_or_else(|| {
        CommandError::usage(
            "a search needs one setting to start from, but `tuned` has different settings for these problems",
        )
        .hint("search for one problem at a time, or start from a preset")
    })
}

/// The command error for a failed search.
pub fn failure(error: EvolveError) -> CommandError {
    match error {
        EvolveError::Refused(refusal) => refusal.into(),
        EvolveError::CannotResume(_) => CommandError::usage(error.to_string()).hint("start a new run"),
        EvolveError::Baseline { .. } | EvolveError::NoCandidate { .. } => {
            CommandError::problem(error.to_string())
        }
        EvolveError::NoAnswer { .. } => {
            CommandError::missing(error.to_string()).hint("--resume continues with the next answer")
        }
        EvolveError::Fleet(error) => super::fleet::failure(&error),
        EvolveError::MissingProgram { program, .. } => CommandError::missing(error.to_string())
            .hint(format!("install {program}, or use another proposer")),
        other => CommandError::missing(other.to_string()),
    }
}

/// Shows the progress of a search: a bar on a terminal, otherwise one line for every new best candidate.
pub struct SearchDisplay<'p> {
    printer: &'p Printer,
    bar: ProgressBar,
    started: Instant,
    best: RefCell<f64>,
}

impl<'p> SearchDisplay<'p> {
    /// A display for a search of `budget` candidates.
    pub fn new(budget: u32, printer: &'p Printer) -> Self {
        let bar = progress::counting(u64::from(budget), "searching");
        SearchDisplay { printer, bar, started: Instant::now(), best: RefCell::new(0.0) }
    }

    /// Shows the progress after a trial.
    pub fn update(&self, progress: &Progress, trial: Option<&Trial>) {
        self.bar.set_position(u64::from(progress.evaluated));
        let best = progress.best.as_ref().map_or(1.0, |(_, score)| *score);
        self.bar.set_message(progress::search_message(progress, self.started.elapsed()));
        let improved = best > *self.best.borrow() * 1.0001;
        if improved {
            self.best.replace(best);
        }
        if let Some(trial) = trial.filter(|trial| improved && trial.number > 0) {
            self.message(&format!("trial {}: {best:.3}x  {}", trial.number, trial.candidate));
        }
    }

    /// Shows a message that does not belong to a trial.
    pub fn message(&self, text: &str) {
        let text = one_line(text);
        if self.bar.is_hidden() {
            self.printer.message(&styled(FAINT, text));
        } else {
            self.bar.println(layout::wrapped(&text, layout::stderr_width()));
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The JSON document of `evolve`.
#[derive(JsonSchema, Serialize)]
pub struct SearchDocument<'s> {
    run: String,
    search: Option<&'s runlog::Search>,
    trials: Vec<&'s Trial>,
    picks: Vec<Pick>,
    /// What each knob is worth, the most important first. Empty if too few trials were timed.
    knobs: Vec<report::KnobWorth>,
}

/// The results of a search as text.
pub fn text(state: &RunState) -> String {
    let Some(search) = &state.search else { return "the search did not start".to_owned() };
    let count = |kind: fn(&TrialResult) -> bool| {
        state.trials.values().filter(|it| it.number > 0 && kind(&it.result)).count()
    };
    let timed = count(|result| matches!(result, TrialResult::Timed { .. }));
    let same = count(|result| matches!(result, TrialResult::Same { .. }));
    let failed = count(|result| matches!(result, TrialResult::Failed { .. }));
    let modelled =
        elites::timed(state.trials.values()).any(|it| it.problems.iter().any(|it| it.time.is_modelled()));
    let mut parts = vec![flat(&format!(
        "{} from {}, on {}: {} of {} settings are valid; {timed} timed, {failed} failed, {same} duplicates",
        styled(STRONG, &search.family),
        search.baseline,
        search.problems.join(", "),
        search.legal_points,
        search.raw_points,
    ))];
    let refused = state.exchanges.iter().filter(|exchange| exchange.outcome.is_err()).count();
    if !state.exchanges.is_empty() {
        let asked = state.exchanges.len();
        parts.push(format!(
            "the proposer was asked {asked} times; {refused} answers were not valid candidates"
        ));
    }
    if modelled {
        parts.push(styled(FAINT, "times are modelled, not measured; use them only to rank settings"));
    }
    parts.push(every_trial(state));
    parts.extend(knob_table(state));
    parts.push(format!("\n{}", styled(STRONG, "elites")));
    let titles = ["trial", "speedup", "time", "registers", "setting"];
    let mut table = tables::Table::new(&titles, &titles[..4]);
    for timed in elites::best(state.trials.values(), search.elites.max(1) as usize) {
        let times: Vec<String> = timed.problems.iter().map(|it| micros(it.time)).collect();
        let registers = match &timed.trial.result {
            TrialResult::Timed { registers, .. } => registers.to_string(),
            _ => String::new(),
        };
        table.row([
            timed.trial.number.to_string(),
            styled(GOOD, format!("{:.3}x", timed.score)),
            times.join(" / "),
            registers,
            timed.trial.candidate.clone(),
        ]);
    }
    parts.push(table.text());
    parts.extend(report::better_trial(state).map(|rule| one_line(&rule)));
    parts.extend(state.notes.iter().filter(|note| note.starts_with("knob ")).map(|note| one_line(note)));
    parts.join("\n")
}

/// One line per trial, in the order of the search.
fn every_trial(state: &RunState) -> String {
    let mut trials: Vec<&Trial> = state.trials.values().collect();
    trials.sort_by_key(|trial| trial.number);
    let mut table = tables::Table::new(&["every trial", "result", "setting"], &["every trial"]);
    for trial in trials {
        let result = match &trial.result {
            TrialResult::Timed { score, elite, .. } => {
                let text = format!("{score:.3}x");
                if *elite { styled(GOOD, format!("{text} elite")) } else { text }
            }
            TrialResult::Same { as_trial, .. } => styled(FAINT, format!("same code as {as_trial}")),
            TrialResult::Failed { failure, .. } => styled(BAD, failure),
        };
        table.row([trial.number.to_string(), result, trial.candidate.clone()]);
    }
    format!("\n{}", table.text())
}

/// What each knob is worth; `None` if too few trials were timed.
fn knob_table(state: &RunState) -> Option<String> {
    let worths = report::knob_worths(state);
    let mut table = tables::Table::new(
        &["what a knob is worth", "explains", "mean speedup with each value, best first"],
        &["explains"],
    );
    for it in &worths {
        let values: Vec<String> =
            it.values.iter().map(|value| format!("{} {:.2}x", value.value, value.score)).collect();
        table.row([it.knob.clone(), format!("{:.0}%", 100.0 * it.share), values.join(", ")]);
    }
    (!worths.is_empty()).then(|| format!("\n{}", table.text()))
}

fn micros(time: Time) -> String {
    format!("{:.2} us", time.micros())
}
