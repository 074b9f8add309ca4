//! `fleet`: shows the workers and searches of a fleet, and writes scripts that start workers.

pub mod head;
mod job;
pub mod worker;

use std::thread::sleep;

use fleet::scripts::{self, ScriptOptions};
use fleet::{Address, BEAT, FleetError, Store, StoreError};

use crate::cli::{FleetAction, FleetOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, one_line, styled};
use crate::tables::Table;

/// Does what the user asks for.
pub fn run(options: &FleetOptions, printer: &Printer) -> Result<Exit, CommandError> {
    let Address::Folder(place) = &options.place else {
        let message = format!("{} has no workers that this command knows", options.place);
        return Err(CommandError::usage(message).hint("name a folder: dir:/shared/fleet"));
    };
    match options.action {
        FleetAction::Status => status(&open(place)?, printer)?,
        FleetAction::Stop => {
            fleet::stop(&open(place)?, true).map_err(store_failure)?;
            printer.data("workers leave when they have done what they do; `fleet resume` takes this back");
        }
        FleetAction::Resume => {
            fleet::stop(&open(place)?, false).map_err(store_failure)?;
            printer.data("workers may work again");
        }
        FleetAction::Slurm => printer.data(scripts::slurm(&script(options, place)).trim_end()),
        FleetAction::Kubernetes => printer.data(scripts::kubernetes(&script(options, place)).trim_end()),
    }
    Ok(Exit::Success)
}

fn script(options: &FleetOptions, place: &str) -> ScriptOptions {
    ScriptOptions {
        place: place.to_owned(),
        workers: options.workers,
        device: if options.gpu { "cuda" } else { "virtual" }.to_owned(),
        processors: options.processors,
        image: options.image.clone(),
    }
}

/// Opens the folder or store of a fleet.
fn open(place: &str) -> Result<Store, CommandError> {
    Store::open(place).map_err(store_failure)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn store_failure(error: StoreError) -> CommandError {
    CommandError::missing(error.to_string())
}

/// The command error for a fleet that cannot go on.
pub fn failure(error: &FleetError) -> CommandError {
    match error {
        FleetError::OtherJob(_) => CommandError::usage(error.to_string())
            .hint("the program, the compiler or the kernels have changed since; start a new run"),
        FleetError::JobName(_) => {
            CommandError::usage(error.to_string()).hint("give the run folder another name")
        }
        FleetError::FleetStopped => {
            CommandError::missing(error.to_string()).hint("`warpsmith fleet resume` takes this back")
        }
        _ => CommandError::missing(error.to_string()),
    }
}

fn status(store: &Store, printer: &Printer) -> Result<(), CommandError> {
    let status = fleet::status(store, || sleep(2 * BEAT + BEAT / 2)).map_err(store_failure)?;
    if printer.is_json() {
        printer.json("fleet", &status);
        return Ok(());
    }
    let mut parts = Vec::new();
    if status.is_stopped {
        parts.push(
            "the fleet is stopped: workers leave, and none comes; `fleet resume` takes this back".to_owned(),
        );
    }
    if status.jobs.is_empty() {
        parts.push("no search".to_owned());
    } else {
        let titles = ["search", "waiting", "under way", "answered"];
        let mut table = Table::new(&titles, &titles[1..]);
        for job in &status.jobs {
            let numbers = [job.waiting, job.under_way, job.answered].map(|it| it.to_string());
            let [waiting, under_way, answered] = numbers;
            table.row([one_line(&job.name), waiting, under_way, answered]);
        }
        parts.push(table.text());
    }
    if status.workers.is_empty() {
        parts.push(format!(
            "no worker; start one with: warpsmith worker --fleet dir:{}",
            one_line(store.place())
        ));
    } else {
        let mut table = Table::new(&["worker", "device", "done", "now"], &["done"]);
        for worker in &status.workers {
            let facts = &worker.facts;
            let refusals = facts.refuses.iter().map(|(job, reason)| format!("refuses {job}: {reason}"));
            let now = match &facts.now {
                _ if !worker.is_alive => styled(BAD, "gives no sign of life"),
                Some((job, task)) => styled(GOOD, format!("trial {task} of {}", one_line(job))),
                None if facts.refuses.is_empty() => styled(FAINT, "waits"),
                None => styled(FAINT, one_line(&refusals.collect::<Vec<_>>().join("; "))),
            };
            table.row([one_line(&facts.name), one_line(&facts.device), facts.done.to_string(), now]);
        }
        parts.push(format!("{}\n{}", styled(STRONG, "workers"), table.text()));
    }
    printer.data(&parts.join("\n\n"));
    Ok(())
}
