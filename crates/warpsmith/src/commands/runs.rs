//! `runs`: lists runs, or shows the times of one problem over runs.

use lab::run::{RunSummary, TrendPoint, list, trend};
use op::OpProblems as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Global, RunsOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops::AnyOp;
use crate::printer::{BAD, FAINT, Printer, styled};
use crate::tables::Table;

#[derive(JsonSchema, Serialize)]
pub struct Runs {
    runs: Vec<RunSummary>,
}

/// Lists the runs of a folder, latest first.
pub fn run(options: &RunsOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let folder = &options.run_dir;
    let runs = list(folder)
        .map_err(|error| CommandError::usage(format!("cannot read {}: {error}", folder.display())))?;
    if let Some(problem) = &options.trend {
        return show_trend(&runs, problem, global, printer);
    }
    if printer.is_json() {
        printer.json("runs", &Runs { runs });
        return Ok(Exit::Success);
    }
    if runs.is_empty() {
        printer.data(&styled(FAINT, format!("no runs in {}", folder.display())));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["run", "device", "started", "result"], &[]);
    for run in &runs {
        let headline = if run.complete {
            run.headline.clone()
        } else {
            styled(BAD, format!("incomplete; {}", run.headline))
        };
        let started = run.started.known().map_or_else(|| run.started.to_string(), lab::run::Utc::short);
        let name = run.folder.file_name().unwrap_or(run.folder.as_os_str()).to_string_lossy().into_owned();
        table.row([name, run.device.to_string(), started, headline]);
    }
    printer.data(&table.text());
    Ok(Exit::Success)
}

#[derive(JsonSchema, Serialize)]
pub struct Trend {
    problem: String,
    points: Vec<TrendPoint>,
}

/// Shows the fastest kernel on a problem, run by run.
fn show_trend(
    runs: &[RunSummary],
    problem: &str,
    global: &Global,
    printer: &Printer,
) -> Result<Exit, CommandError> {
    let catalog = global.catalog()?;
    let problems = AnyOp::of_command(global, &[], &catalog)?.problems(problem)?;
    let [one] = problems.as_slice() else {
        return Err(CommandError::usage(format!("`{problem}` names several problems; name one")));
    };
    let problem = one.to_string();
    let points = trend(runs, &problem);
    if printer.is_json() {
        printer.json("trend", &Trend { problem, points });
        return Ok(Exit::Success);
    }
    if points.is_empty() {
        printer.data(&styled(FAINT, format!("no run has a time for {problem}")));
        return Ok(Exit::Success);
    }
    let titles = ["started", "commit", "GPU", "fastest kernel", "time", "change"];
    let mut table = Table::new(&titles, &["time", "change"]);
    for point in &points {
        let started = point.started.known().map_or_else(|| point.started.to_string(), lab::run::Utc::short);
        let kind = if point.time.is_modelled() { " modelled" } else { "" };
        table.row([
            started,
            point.commit.clone().unwrap_or_default(),
            point.gpu.clone(),
            point.subject.clone(),
            format!("{:.2} us{kind}", point.time.micros()),
            point.speedup.map_or(String::new(), |speedup| format!("{speedup:.3}x")),
        ]);
    }
    printer.data(&table.text());
    Ok(Exit::Success)
}
