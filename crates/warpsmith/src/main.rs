//! The command line: one file per command under `commands/`; this file only dispatches.

mod bench_table;
mod cli;
mod commands;
mod exit;
mod failure;
mod findings;
mod printer;
mod profile_table;
mod progress;
mod sandboxed;
mod snippet;
mod tables;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::exit::Exit;
use crate::printer::Printer;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help and version to stdout with code 0, and mistakes to stderr.
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Holds };
            let _ = error.print();
            return code.into();
        }
    };
    let printer = Printer::new(cli.global.json);
    let outcome = match cli.asked() {
        Command::Doctor => commands::doctor::run(&cli.global, &printer),
        Command::Toolchain(options) => commands::toolchain::run(options, &cli.global, &printer),
        Command::Kernels(options) => commands::kernels::run(options, &cli.global, &printer),
        Command::Build(options) => commands::build::run(options, &cli.global, &printer),
        Command::Check(options) => commands::check::run(options, &cli.global, &printer),
        Command::Bench(options) => commands::bench::run(options, &cli.global, &printer),
        Command::Repro(options) => commands::repro::run(options, &cli.global, &printer),
        Command::Evolve(options) => commands::evolve::run(options, &cli.global, &printer),
        Command::Profile(options) => commands::profile::run(options, &cli.global, &printer),
        Command::Invert(options) => commands::invert::run(options, &cli.global, &printer),
        Command::Gate(options) => commands::gate::run(options, &printer),
        Command::Replay(options) => commands::replay::run(options, &printer),
        Command::Report(options) => commands::report::run(options, &printer),
        Command::Runs(options) => commands::runs::run(options, &printer),
        Command::Worker { asks, .. } => commands::worker::run(asks.as_deref(), &cli.global),
        Command::LendDevice => commands::lend_device::run(&cli.global),
        Command::Sanitize(options) => commands::sanitize::run(options, &cli.global, &printer),
        Command::Completions { shell } => commands::shell::completions(*shell, &printer),
        Command::Man { folder } => commands::shell::man(folder, &printer),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            printer.failure(&failure);
            failure.exit.into()
        }
    }
}
