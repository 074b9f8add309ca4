//! `report`: writes a run's report as HTML and as Markdown.

use std::path::{Path, PathBuf};

use report::export::write_exports;
use report::{Headline, TimeKind, headline};
use runlog::{ComparedTime, CounterChange, LogError, RunState, Time, TimeChange, compare};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::ReportOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, WARN, one_line, styled};
use crate::tables::Table;

#[derive(JsonSchema, Serialize)]
pub struct Reported {
    run: PathBuf,
    complete: bool,
    headline: String,
    /// `measured` or `modelled`, if the headline is about times.
    times: Option<&'static str>,
    files: Vec<PathBuf>,
}

/// Writes the report of a run, by default of the latest one, or compares two runs.
pub fn run(options: &ReportOptions, printer: &Printer) -> Result<Exit, CommandError> {
    let folder = match options.runs.as_slice() {
        [] => latest()?,
        [first, second, ..] => return compare_runs([&run_folder(first), &run_folder(second)], printer),
        [one] => run_folder(one),
    };
    let state = state(&folder)?;
    let files = write_exports(&folder, &state)
        .map_err(|error| CommandError::missing(format!("cannot write into {}: {error}", folder.display())))?;
    let Headline { sentence, kind, .. } = headline(&state);
    let reported = Reported {
        run: folder,
        complete: state.is_complete(),
        headline: sentence,
        times: kind.map(TimeKind::word),
        files,
    };
    if printer.is_json() {
        printer.json("report", &reported);
        return Ok(Exit::Success);
    }
    printer.message(&one_line(&reported.headline));
    if !reported.complete {
        printer.message(&styled(BAD, "the run is incomplete; its report says so"));
    }
    for warning in &state.warnings {
        printer.message(&styled(FAINT, one_line(warning)));
    }
    for path in &reported.files {
        printer.data(&one_line(&path.display().to_string()));
    }
    Ok(Exit::Success)
}

fn state(folder: &Path) -> Result<RunState, CommandError> {
    let log = runlog::read(folder).map_err(|error| unreadable(folder, &error))?;
    Ok(RunState::from_log(&log))
}

/// The folder of a run that the user names by its path, or by its name in the default folder.
pub fn run_folder(named: &Path) -> PathBuf {
    let in_default = Path::new(runlog::DEFAULT_FOLDER).join(named);
    if !named.exists() && in_default.exists() { in_default } else { named.to_owned() }
}

/// Shows the times of two runs side by side.
fn compare_runs(folders: [&Path; 2], printer: &Printer) -> Result<Exit, CommandError> {
    let [first, second] = [state(folders[0])?, state(folders[1])?];
    let comparison = compare(&first, &second);
    if printer.is_json() {
        printer.json("comparison", &comparison);
        return Ok(Exit::Success);
    }
    let [before, after] = &comparison.gpus;
    if before != after {
        let text = format!(
            "the runs are from different GPUs ({before} and {after}), so their times are not compared"
        );
        printer.message(&format!("{}: {text}", styled(WARN, "warning")));
    }
    let time = |time: Time| {
        let kind = if time.is_modelled() { " modelled" } else { "" };
        format!("{:.2} us{kind}", time.micros())
    };
    let mut table =
        Table::new(&["problem", "subject", "first", "second", "change"], &["first", "second", "change"]);
    for it in &comparison.both {
        let speedup = it.speedup.map_or(String::new(), |speedup| format!("{speedup:.3}x "));
        let change = match it.change {
            TimeChange::Faster => styled(GOOD, format!("{speedup}faster")),
            TimeChange::Slower => styled(BAD, format!("{speedup}slower")),
            TimeChange::NoClearDifference => format!("{speedup}no clear difference in time"),
            TimeChange::NotComparable => "not comparable".to_owned(),
        };
        let (problem, subject) = (it.of.problem.clone(), it.of.subject.clone());
        table.row([problem, subject, time(it.first), time(it.second), change]);
    }
    if comparison.both.is_empty() {
        printer.data("the runs have no time in common");
    } else {
        printer.data(&table.text());
        if let Some(text) = changed_counters(&comparison.both) {
            printer.data(&text);
        }
    }
    for (of, which) in comparison.only.iter().zip(["first", "second"]) {
        if !of.is_empty() {
            let names: Vec<String> =
                of.iter().map(|of| format!("{} on {}", of.subject, of.problem)).collect();
            printer.data(&styled(FAINT, one_line(&format!("only in the {which} run: {}", names.join(", ")))));
        }
    }
    Ok(Exit::Success)
}

/// The counters that differ, as a table; `None` if there are none.
fn changed_counters(both: &[ComparedTime]) -> Option<String> {
    let columns = ["problem", "subject", "counter", "first", "second", "change"];
    let mut table = Table::new(&columns, &["first", "second", "change"]);
    let number =
        |value: f64| if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    let mut before = None;
    for it in both {
        for CounterChange { name, first, second } in it.changed_counters() {
            // The names of a result stand in its first row only.
            let is_first = before.replace(&it.of) != Some(&it.of);
            let names = if is_first {
                [&it.of.problem, &it.of.subject].map(Clone::clone)
            } else {
                [String::new(), String::new()]
            };
            let difference = second - first;
            let sign = if difference > 0.0 { "+" } else { "" };
            let change = match first {
                0.0 => format!("{sign}{}", number(difference)),
                first => format!("{sign}{} ({:+.1}%)", number(difference), 100.0 * difference / first),
            };
            let [problem, subject] = names;
            table.row([problem, subject, name.clone(), number(*first), number(*second), change]);
        }
    }
    before.map(|_| format!("\n{}\n{}", styled(STRONG, "counters that differ"), table.text()))
}

/// The error for a folder whose log cannot be read.
fn unreadable(folder: &Path, error: &LogError) -> CommandError {
    match error {
        LogError::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound => {
            CommandError::usage(format!("{} holds no run", folder.display()))
                .hint("`warpsmith runs` lists the runs")
        }
        other => CommandError::usage(other.to_string()),
    }
}

/// The latest run in the default folder, of any command.
fn latest() -> Result<PathBuf, CommandError> {
    let folder = Path::new(runlog::DEFAULT_FOLDER);
    let runs = runlog::list(folder)
        .map_err(|error| CommandError::usage(format!("cannot read {}: {error}", folder.display())))?;
    runs.into_iter().next().map(|run| run.folder).ok_or_else(|| {
        CommandError::usage(format!("there is no run in {}", folder.display()))
            .hint("run `warpsmith bench` first, or name a run folder")
    })
}
