//! `exec`: runs a whole CUDA program on the virtual GPU.
//!
//! The program gets libraries that stand in for CUDA's (`crates/cuda`, `crates/cudart`). They write what they find into a
//! log, and this command prints it when the program has ended.

mod compile;
mod libraries;
pub mod output;
mod symbols;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use execlog::variables;
use gpu::device::{Device, Selector, SelectorError};

use crate::ci_output;
use crate::cli::{ExecCheck, ExecOptions, Global};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::Printer;

use libraries::Installed;

/// Runs a program.
pub fn run(options: &ExecOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    if !cfg!(target_os = "linux") {
        return Err(CommandError::missing("exec needs Linux, as the libraries of CUDA that it replaces"));
    }
    ci_output::require_writable(&options.ci)?;
    let chip = chip(global)?;
    let installed = Installed::new()?;
    let (program, arguments) =
        options.program.split_first().ok_or_else(|| CommandError::usage("no program is named"))?;
    let compiled;
    let program = if is_source(program) {
        compiled = compile::compile(Path::new(program), chip.target, options, global, &installed, printer)?;
        compiled.as_os_str()
    } else {
        program.as_os_str()
    };

    let mut command = Command::new(program);
    command.args(arguments);
    for (name, value) in environment(options, chip.id, &installed) {
        command.env(name, value);
    }
    if printer.is_json() {
        // Stdout is for the document only.
        command.stdout(Stdio::from(std::io::stderr()));
    }
    let status = status(&mut command, program)?;
    let records = execlog::read(&installed.log()).unwrap_or_default();
    let run = output::Run::new(&options.program, chip.id, records, status);
    run.print(options, printer)?;
    ci_output::write(&run.ci_report(), &options.ci, printer)?;
    if !run.is_clean(options.strict) {
        return Ok(Exit::ProblemFound);
    }
    match run.code() {
        0 => Ok(Exit::Success),
        code => {
            // `exit` runs no destructors, so the temporary folder is removed here.
            drop(installed);
            std::process::exit(code);
        }
    }
}

/// The GPU to simulate.
fn chip(global: &Global) -> Result<&'static chips::Chip, CommandError> {
    let device = if global.device == "auto" { "virtual" } else { &global.device };
    let selector: Selector =
        device.parse().map_err(|error: SelectorError| CommandError::usage(error.to_string()))?;
    match Device::find(selector) {
        Ok(Device::Virtual { chip }) => Ok(chip),
        _ => Err(CommandError::usage("exec runs on the virtual GPU").hint(
            "use `--device virtual:h200` or another virtual GPU; on a real one, start the program itself",
        )),
    }
}

fn is_source(program: &OsString) -> bool {
    Path::new(program).extension().is_some_and(|extension| extension == "cu")
}

/// The variables that the libraries read, and the path on which the dynamic linker finds them.
fn environment(options: &ExecOptions, chip: &str, installed: &Installed) -> Vec<(&'static str, OsString)> {
    let check = if options.check == ExecCheck::All { "all" } else { "none" };
    let mut path = OsString::from(installed.folder());
    if let Some(others) = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty()) {
        path.push(":");
        path.push(others);
    }
    vec![
        ("LD_LIBRARY_PATH", path),
        (variables::LOG, installed.log().into()),
        (variables::DEVICE, chip.into()),
        (variables::CHECK, check.into()),
        (variables::BUDGET, options.budget.to_string().into()),
        (variables::TIME_LIMIT, options.time_limit.to_string().into()),
        (variables::THREADS, options.jobs.to_string().into()),
        (variables::COUNTERS, u8::from(options.counters).to_string().into()),
    ]
}

/// Runs the program to its end. Ctrl-C goes to the program, which decides what it does.
fn status(command: &mut Command, program: &std::ffi::OsStr) -> Result<ExitStatus, CommandError> {
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default());
    let mut child = command.spawn().map_err(|error| {
        let name = Path::new(program).display().to_string();
        CommandError::usage(format!("cannot start {name}: {error}"))
            .hint("name a program (with ./ if it is in this folder), or a CUDA file (.cu)")
    })?;
    child.wait().map_err(|error| CommandError::missing(format!("cannot wait for the program: {error}")))
}
