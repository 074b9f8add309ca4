//! Fuzzes targets for a given time, or runs one target on one input:
//!
//! ```text
//! fuzz [TARGET...] [--minutes 1] [--seed N]
//! fuzz TARGET --input FILE
//! ```
//!
//! Without a target it fuzzes all of them, one after the other.

use std::process::ExitCode;
use std::time::Duration;

use warpsmith_fuzz::targets::{ALL, Target};
use warpsmith_fuzz::{Length, fuzz, run_once};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Returns `Ok(false)` if a target failed.
fn run() -> Result<bool, String> {
    let (mut minutes, mut seed, mut input) = (1.0, 1, None);
    let mut targets: Vec<&Target> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--minutes" => {
                minutes = value()?.parse().map_err(|_| "--minutes needs a number".to_owned())?;
            }
            "--seed" => seed = value()?.parse().map_err(|_| "--seed needs a whole number".to_owned())?,
            "--input" => input = Some(value()?),
            name => targets.push(target(name)?),
        }
    }
    if let Some(path) = input {
        let [target] = targets[..] else { return Err("--input needs exactly one target".to_owned()) };
        let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        return Ok(match run_once(target, &bytes) {
            Ok(()) => {
                println!("{}: no failure", target.name);
                true
            }
            Err(failure) => {
                println!("{}: {failure}", target.name);
                false
            }
        });
    }
    if targets.is_empty() {
        targets = ALL.iter().collect();
    }
    let length = Length::Time(
        Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| format!("--minutes: {error}"))?,
    );
    let mut passed = true;
    for target in targets {
        match fuzz(target, seed, length) {
            Ok(summary) => println!("{}: {} inputs, no failure", target.name, summary.rounds),
            Err(failure) => {
                println!("{failure}");
                passed = false;
            }
        }
    }
    Ok(passed)
}

fn target(name: &str) -> Result<&'static Target, String> {
    ALL.iter().find(|target| target.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|target| target.name).collect();
        format!("there is no target `{name}`; targets: {}", names.join(", "))
    })
}
