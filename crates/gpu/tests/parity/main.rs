//! Runs the same PTX on a CUDA GPU and on the virtual GPU and compares the results.
//!
//! Integers, conversions and exactly rounded arithmetic must have identical bits, including NaN payloads. Approximate
//! functions and tensor products must each be within the documented bound of the exact result. Without a GPU the
//! program prints `skipped: no GPU` and compares the virtual GPU only with scalar models.
//!
//! ```text
//! cargo test --release -p warpsmith-gpu --test parity
//! cargo test --release -p warpsmith-gpu --test parity -- --case cvt --json parity.json
//! ```
//!
//! This is an ordinary program. It needs neither cargo nor a CUDA toolkit where it runs: the driver compiles the PTX.

// The cases are tables: rows are tuples of functions, and models follow the wording of the manual.
#![allow(clippy::all, clippy::pedantic)]
#![allow(clippy::unwrap_used)] // A test whose setup fails must fail.
#![allow(missing_debug_implementations)]

mod case;
mod cases;
mod hopper;
mod kernel;
mod machine;
mod model;
mod random;

use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use warpsmith_gpu::accelerator::Accelerator;

use case::{Case, Verdict};

const USAGE: &str = "\
Run the same PTX on a CUDA GPU and on the virtual GPU and compare the results.

Options:
  --case SUBSTRING  run only the cases whose name contains it (may be repeated)
  --json FILE       write the results of every case to a file
  --skip N          skip the first N random cases of the Hopper groups
  --ptx FOLDER      write the kernel of every case to a folder
  --list            print the names of the cases and exit
  --help            print this help";

#[derive(Default)]
struct Options {
    filters: Vec<String>,
    json: Option<String>,
    ptx: Option<String>,
    list: bool,
    skip: usize,
}

impl Options {
    /// Parses the options; `None` for `--help`.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Options::default();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--case" => options.filters.push(value()?),
                "--json" => options.json = Some(value()?),
                "--skip" => options.skip = value()?.parse().map_err(|_| "--skip needs a number")?,
                "--ptx" => options.ptx = Some(value()?),
                "--list" => options.list = true,
                "--help" | "-h" => return Ok(None),
                // Options that `cargo test` passes to every test program.
                "--nocapture" | "--no-capture" | "--quiet" | "-q" | "--show-output" | "--exact" => {}
                filter if !filter.starts_with('-') => options.filters.push(filter.to_owned()),
                unknown => return Err(format!("unknown option {unknown}")),
            }
        }
        Ok(Some(options))
    }

    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Passed,
    Failed,
    Skipped,
}

/// The result of a case.
#[derive(Debug, Serialize)]
struct Outcome {
    case: String,
    status: Status,
    /// Why the case could not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hardware: Option<Verdict>,
}

#[derive(Serialize)]
struct Document<'a> {
    cuda: Option<String>,
    passed: usize,
    failed: usize,
    skipped: usize,
    seconds: f64,
    cases: &'a [Outcome],
}

fn judge(case: &Case, ours: &mut dyn Accelerator, theirs: Option<&mut dyn Accelerator>) -> Outcome {
    let mut outcome =
        Outcome { case: case.name.clone(), status: Status::Failed, error: None, model: None, hardware: None };
    let virtual_results = match machine::run(ours, case) {
        Ok(results) => results,
        Err(error) => {
            outcome.error = Some(format!("virtual GPU: {error}"));
            return outcome;
        }
    };
    outcome.model = case.judge.against_model(&case.inputs, &virtual_results);
    if let Some(device) = theirs {
        match machine::run(device, case) {
            Ok(results) => {
                outcome.hardware =
                    Some(case.judge.against_hardware(&case.inputs, &virtual_results, &results));
            }
            Err(error) => {
                outcome.error = Some(format!("CUDA GPU: {error}"));
                return outcome;
            }
        }
    }
    let verdicts: Vec<&Verdict> = outcome.model.iter().chain(&outcome.hardware).collect();
    outcome.status = if verdicts.is_empty() {
        Status::Skipped
    } else if verdicts.iter().all(|verdict| verdict.passed()) {
        Status::Passed
    } else {
        Status::Failed
    };
    outcome
}

/// A group of Hopper's instructions, which need maps and shared memory rather than columns.
fn judge_group(
    case: String,
    group: &hopper::Group,
    skip: usize,
    folder: Option<&std::path::Path>,
    ours: &mut dyn Accelerator,
    theirs: Option<&mut dyn Accelerator>,
) -> Outcome {
    let mut outcome = Outcome { case, status: Status::Failed, error: None, model: None, hardware: None };
    match hopper::judge(&outcome.case, group, skip, folder, ours, theirs) {
        Ok((model, hardware)) => {
            if model.passed() && hardware.as_ref().is_none_or(Verdict::passed) {
                outcome.status = Status::Passed;
            }
            (outcome.model, outcome.hardware) = (Some(model), hardware);
        }
        Err(error) => outcome.error = Some(error),
    }
    outcome
}

fn print(outcome: &Outcome) {
    let word = match outcome.status {
        Status::Passed => "ok     ",
        Status::Failed => "FAILED ",
        Status::Skipped => "skipped",
    };
    let mut line = format!("{word} {}", outcome.case);
    for (name, verdict) in [("model", &outcome.model), ("cuda", &outcome.hardware)] {
        let Some(verdict) = verdict else { continue };
        line += &format!("; {name}: {} of {} equal", verdict.equal, verdict.compared);
        if verdict.wrong > 0 {
            line += &format!(", {} wrong", verdict.wrong);
        }
        if let Some(error) = verdict.our_error {
            line += &format!(", virtual {error:.3} of the bound");
        }
        if let Some(error) = verdict.their_error {
            line += &format!(", cuda {error:.3} of the bound");
        }
    }
    println!("{line}");
    if let Some(error) = &outcome.error {
        println!("        {}", error.replace('\n', "\n        "));
    }
    for verdict in outcome.model.iter().chain(&outcome.hardware) {
        for example in &verdict.examples {
            println!("        {example}");
        }
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("error: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let wanted: Vec<_> = cases::all().into_iter().filter(|lazy| options.wants(&lazy.name)).collect();
    let warpgroups: Vec<_> = hopper::groups().into_iter().filter(|group| options.wants(&group.0)).collect();
    if options.list {
        for name in wanted.iter().map(|lazy| &lazy.name).chain(warpgroups.iter().map(|group| &group.0)) {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    }
    if wanted.is_empty() && warpgroups.is_empty() {
        eprintln!("error: no case matches; --list prints the names");
        return ExitCode::from(2);
    }
    let mut ours = machine::virtual_gpu();
    let mut theirs = match machine::cuda() {
        Ok(device) => {
            println!("comparing {} with {}", ours.describe(), device.describe());
            Some(device)
        }
        Err(error) => {
            println!("skipped: no GPU");
            println!("({error}; the virtual GPU is compared only with scalar models)");
            None
        }
    };
    let mut outcomes = Vec::new();
    for lazy in wanted {
        let case = (lazy.make)();
        if let Some(folder) = &options.ptx {
            let file =
                std::path::Path::new(folder).join(format!("{}.ptx", case.name.replace([' ', '/'], "_")));
            std::fs::write(file, &case.ptx).unwrap();
        }
        let outcome = judge(&case, &mut ours, theirs.as_mut().map(|device| device as &mut dyn Accelerator));
        print(&outcome);
        outcomes.push(outcome);
    }
    for (name, group) in warpgroups {
        let other = theirs.as_mut().map(|device| device as &mut dyn Accelerator);
        let folder = options.ptx.as_deref().map(std::path::Path::new);
        let outcome = judge_group(name, &group, options.skip, folder, &mut ours, other);
        print(&outcome);
        outcomes.push(outcome);
    }
    let count = |status| outcomes.iter().filter(|outcome| outcome.status == status).count();
    let (passed, failed, skipped) = (count(Status::Passed), count(Status::Failed), count(Status::Skipped));
    if let Some(path) = &options.json {
        let cuda = theirs.as_ref().map(Accelerator::describe);
        let seconds = start.elapsed().as_secs_f64();
        let document = Document { cuda, passed, failed, skipped, seconds, cases: &outcomes };
        std::fs::write(path, serde_json::to_string_pretty(&document).unwrap()).unwrap();
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
