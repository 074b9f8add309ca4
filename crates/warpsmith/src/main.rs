//! The command line. This file only dispatches; each command has a file in `commands/`.

mod bench_table;
mod ci_output;
mod cli;
mod commands;
#[cfg(test)]
mod documentation;
mod error;
mod exit;
mod family_reference;
mod findings;
mod layout;
mod ops;
mod printer;
mod profile_table;
mod progress;
mod sandboxed;
#[cfg(test)]
#[path = "../tests/unit/schemas.rs"]
mod schemas;
mod snippet;
mod style;
mod suppressed;
mod tables;

use std::io::Write as _;
use std::process::ExitCode;

use crate::cli::Command;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::Printer;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            // clap also returns an `Err` for help and version, which go to stdout with exit code 0.
            let exit = if error.use_stderr() { Exit::UsageError } else { Exit::Success };
            let mut words = std::env::args_os().take_while(|word| word != "--");
            if error.use_stderr() && words.any(|word| word == "--json") {
                Printer::new(true).error_document(&usage_error(&error), &[]);
            }
            return print_clap_message(&error, exit).into();
        }
    };
    let printer = Printer::new(cli.global.json);
    let cli = match cli.with_file_as_op() {
        Ok(cli) => cli,
        Err(failure) => {
            printer.failure(&failure);
            return printer.finish(failure.exit).into();
        }
    };
    let outcome = match cli.selected() {
        Command::Doctor => commands::doctor::run(&cli.global, &printer),
        Command::Toolchain(options) => commands::toolchain::run(options, &cli.global, &printer),
        Command::Export(options) => commands::export::run(options, &printer),
        Command::Problems(options) => commands::problems::run(options, &cli.global, &printer),
        Command::Suites(options) => commands::suites::run(options, &cli.global, &printer),
        Command::Devices => commands::devices::run(&cli.global, &printer),
        Command::Kernels(options) => commands::kernels::run(options, &cli.global, &printer),
        Command::New(options) => commands::new::run(options, &cli.global, &printer),
        Command::Build(options) => commands::build::run(options, &cli.global, &printer),
        Command::Check(options) => commands::check::run(options, &cli.global, &printer),
        Command::Fp8(options) => commands::fp8::run(options, &cli.global, &printer),
        Command::Bench(options) => commands::workbench::run_or_resume(options, &cli.global, &printer),
        Command::Repro(options) => commands::workbench::run_or_resume(options, &cli.global, &printer),
        Command::Evolve(options) => commands::workbench::run_or_resume(options, &cli.global, &printer),
        Command::Profile(options) => commands::workbench::run_or_resume(options, &cli.global, &printer),
        Command::Invert(options) => commands::workbench::run_or_resume(options, &cli.global, &printer),
        Command::Gate(options) => commands::gate::run(options, &cli.global, &printer),
        Command::Replay(options) => commands::replay::run(options, &printer),
        Command::Report(options) => commands::report::run(options, &printer),
        Command::Runs(options) => commands::runs::run(options, &cli.global, &printer),
        Command::Worker(options) => match &options.fleet {
            Some(fleet) => commands::fleet::worker::run(fleet, options.idle, &cli.global, &printer),
            None => commands::worker::run(options.asks.as_deref(), &cli.global),
        },
        Command::Fleet(options) => commands::fleet::run(options, &printer),
        Command::LendDevice => commands::lend_device::run(&cli.global),
        Command::LendCompiler => commands::lend_compiler::run(),
        Command::Sanitize(options) => commands::sanitize::run(options, &cli.global, &printer),
        Command::Exec(options) => commands::exec::run(options, &cli.global, &printer),
        Command::Completions { shell } => commands::shell::completions(*shell, &printer),
        Command::Man { folder } => commands::shell::man(folder, &printer),
    };
    let exit = match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            printer.failure(&failure);
            failure.exit
        }
    };
    printer.finish(exit).into()
}

/// The parts of clap's message: the error, and its tips as the hint.
fn usage_error(error: &clap::Error) -> CommandError {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let words: Vec<&str> = message.split_whitespace().collect();
    let tips: Vec<&str> = text.lines().filter_map(|line| line.trim_start().strip_prefix("tip: ")).collect();
    let failure = CommandError::usage(words.join(" "));
    if tips.is_empty() { failure.hint("try --help") } else { failure.hint(tips.join("; ")) }
}

/// Prints clap's message: the help, the version or a usage error. Returns `exit`, or another code if printing failed.
fn print_clap_message(error: &clap::Error, exit: Exit) -> Exit {
    let printer = Printer::default();
    let has_hidden_characters =
        |word: std::ffi::OsString| printer::visible(&word.to_string_lossy()) != word.to_string_lossy();
    if error.use_stderr() && std::env::args_os().any(has_hidden_characters) {
        // clap repeats the argument as it is, so its message must be escaped.
        printer.message(error.render().to_string().trim_end());
        return exit;
    }
    match error.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            printer.message(&format!("error: cannot write: {error}"));
            if exit == Exit::Success { Exit::MissingRequirement } else { exit }
        }
        _ => exit,
    }
}
