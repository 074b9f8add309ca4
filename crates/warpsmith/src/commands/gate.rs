//! `gate`: compares a run with the leaderboard, for CI.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use family::Catalog;
use lab::gate::{GateRequest, Leaderboard, LeaderboardError, judge, output, update};
use lab::suite;
use op::AnyOp;
use report::ci::Location;
use runlog::{RunOutcome, RunState, Timer};

use crate::ci_output;
use crate::cli::{GateOptions, GateTimer, Global};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{Printer, WARN, styled};

/// Judges a run, by default the latest bench, and optionally updates the leaderboard.
pub fn run(options: &GateOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    ci_output::require_writable(&options.ci)?;
    let folder = match &options.run_dir {
        Some(folder) => super::report::run_folder(folder),
        None => latest()?,
    };
    let log = runlog::read(&folder)
        .map_err(|error| CommandError::usage(error.to_string()).hint("`warpsmith runs` lists the runs"))?;
    let mut problems = Vec::new();
    for name in &options.suite {
        let catalog = global.catalog()?;
        let op = &*ops::of_command(global, &[], &catalog)?;
        let suite = suite::find(op, name)?;
        problems.extend(suite.problems.iter().map(ToString::to_string));
    }
    let timer = match options.timer {
        GateTimer::Hot => Timer::GraphHot,
        GateTimer::Cold => Timer::GraphCold,
        GateTimer::Eager => Timer::Eager,
    };
    let path = &options.leaderboard;
    let mut board = Leaderboard::read(path).map_err(|error| leaderboard_error(&error))?;
    let mut state = RunState::from_log(&log);
    remove_implausible(&mut state, global, printer)?;
    refuse_class(&state)?;
    let mut report = judge(&state, &board, &GateRequest { problems, timer });
    if options.update && update(&mut report, &mut board) > 0 {
        board.write(path).map_err(|error| leaderboard_error(&error))?;
    }
    if printer.is_json() {
        let text = output::json(&report).map_err(|error| CommandError::usage(error.to_string()))?;
        printer.json_text(&text);
    } else {
        printer.data(output::text(&report).trim_end());
    }
    let catalog = global.catalog()?;
    let places = |candidate: &str| source_place(candidate, &catalog, global.kernels.as_deref());
    let converted = output::ci_report(&report, &report::ci::display_path(path), &places);
    ci_output::write(&converted, &options.ci, printer)?;
    Ok(match report.outcome() {
        RunOutcome::Success => Exit::Success,
        RunOutcome::ProblemFound => Exit::ProblemFound,
        RunOutcome::UsageError => Exit::UsageError,
        RunOutcome::MissingRequirement => Exit::MissingRequirement,
        RunOutcome::Incomplete => Exit::Incomplete,
    })
}

/// Where the kernel of a candidate begins: `mma STAGES=3` is in the source of the family `mma`.
fn source_place(candidate: &str, catalog: &Catalog, folder: Option<&Path>) -> Option<Location> {
    let family = catalog.family(candidate.split(' ').next()?).ok()?;
    let path = ci_output::family_path(family, folder, family.source_name())?;
    let mut place = Location::file(report::ci::display_path(&path));
    let text = family.source_text(family.source_name())?;
    if let Some((line, text)) = (1..).zip(text.lines()).find(|(_, text)| text.contains("__global__")) {
        (place.line, place.text) = (line, text.to_owned());
    }
    Some(place)
}

/// Removes times that cannot be true. The work of a problem comes from its op, not from the log.
fn remove_implausible(state: &mut RunState, global: &Global, printer: &Printer) -> Result<(), CommandError> {
    let catalog = global.catalog()?;
    let ops = ops_of_run(state, global, &catalog)?;
    state.remove_implausible(&|name| {
        ops.iter().find_map(|op| {
            let problem = ops::problem(&**op, name).ok()?;
            Some((op.work(&problem), op.matrix_type(&problem).map(str::to_owned)))
        })
    });
    for warning in &state.warnings {
        printer.message(&format!("{}: {warning}", styled(WARN, "warning")));
    }
    Ok(())
}

/// The ops of a run: those of the families that it timed, and that of the command line.
fn ops_of_run(state: &RunState, global: &Global, catalog: &Catalog) -> Result<Vec<Box<AnyOp>>, CommandError> {
    let subjects = state.measurements.iter().map(|it| &it.of.subject);
    let subjects = subjects.chain(state.modelled.keys().map(|of| &of.subject));
    let families: BTreeSet<&str> = subjects.filter_map(|subject| subject.split(' ').next()).collect();
    let entries = catalog.entries().iter();
    let mut names: BTreeSet<&str> = entries
        .filter(|it| {
            families.contains(it.name.as_str()) || families.contains(&*format!("{}/{}", it.op, it.name))
        })
        .map(|it| it.op.as_str())
        .collect();
    names.extend(global.op.as_deref());
    if names.is_empty() {
        return Ok(vec![ops::of_command(global, &[], catalog)?]);
    }
    names.into_iter().map(|name| ops::named(name, catalog)).collect()
}

/// Returns an error for a run whose inputs were not ordinary: its times are not comparable with the leaderboard's.
fn refuse_class(state: &RunState) -> Result<(), CommandError> {
    let words = state.manifest.iter().flat_map(|manifest| &manifest.command_line);
    let mut classes = words.filter(|word| *word == "--class" || word.starts_with("--class="));
    match classes.next() {
        None => Ok(()),
        Some(_) => Err(CommandError::usage("this run timed inputs of a class of its own (--class)")
            .hint("name a run on ordinary inputs with --run-dir")),
    }
}

/// The latest bench in the default folder.
fn latest() -> Result<PathBuf, CommandError> {
    let folder = Path::new(runlog::DEFAULT_FOLDER);
    let runs = runlog::list(folder).unwrap_or_default();
    let bench = runs.into_iter().find(|run| run.command.known().is_some_and(|command| command == "bench"));
    bench.map(|run| run.folder).ok_or_else(|| {
        CommandError::usage(format!("there is no bench in {}", folder.display()))
            .hint("run `warpsmith bench` first, or name a run with --run-dir")
    })
}

fn leaderboard_error(error: &LeaderboardError) -> CommandError {
    CommandError::usage(error.to_string())
}
