//! `report`: writes a run's report as HTML and as Markdown.

use std::path::{Path, PathBuf};

use lab::export::write_exports;
use lab::report::{Headline, TimeKind, headline};
use lab::run::{LogError, RunState};
use serde::Serialize;

use crate::cli::ReportOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, Printer, one_line, styled};

#[derive(Serialize)]
struct Reported {
    run: PathBuf,
    complete: bool,
    headline: String,
    /// `measured` or `modelled`, if the headline is about times.
    times: Option<&'static str>,
    files: Vec<PathBuf>,
}

/// Writes the report of a run, by default of the latest one.
pub fn run(options: &ReportOptions, printer: &Printer) -> Result<Exit, CommandError> {
    let folder = match &options.run_dir {
        Some(folder) => folder.clone(),
        None => latest()?,
    };
    let log = lab::run::read(&folder).map_err(|error| unreadable(&folder, &error))?;
    let state = RunState::from_log(&log);
    let files = write_exports(&folder, &state)
        .map_err(|error| CommandError::missing(format!("cannot write into {}: {error}", folder.display())))?;
    let Headline { sentence, kind } = headline(&state);
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
    let folder = Path::new(lab::run::DEFAULT_FOLDER);
    let runs = lab::run::list(folder)
        .map_err(|error| CommandError::usage(format!("cannot read {}: {error}", folder.display())))?;
    runs.into_iter().next().map(|run| run.folder).ok_or_else(|| {
        CommandError::usage(format!("there is no run in {}", folder.display()))
            .hint("run `warpsmith bench` first, or name a run folder")
    })
}
