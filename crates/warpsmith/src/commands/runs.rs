//! `runs`: lists runs.

use lab::run::{RunSummary, list};
use serde::Serialize;

use crate::cli::RunsOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, Printer, styled};
use crate::tables::Table;

#[derive(Serialize)]
struct Runs {
    runs: Vec<RunSummary>,
}

/// Lists the runs of a folder, latest first.
pub fn run(options: &RunsOptions, printer: &Printer) -> Result<Exit, CommandError> {
    let folder = &options.run_dir;
    let runs = list(folder)
        .map_err(|error| CommandError::usage(format!("cannot read {}: {error}", folder.display())))?;
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
