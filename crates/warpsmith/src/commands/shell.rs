//! `completions` and `man`: shell completions and man pages, generated from the command line's definition.

use std::path::Path;

use clap_complete::Shell;

use crate::cli;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::Printer;

/// Prints the completion script of a shell.
pub fn completions(shell: Shell, printer: &Printer) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "warpsmith", &mut script);
    printer.verbatim_data(String::from_utf8_lossy(&script).trim_end());
    Ok(Exit::Success)
}

/// Writes one man page for the program and one for each command.
pub fn man(folder: &Path, printer: &Printer) -> Result<Exit, CommandError> {
    std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(cli::command(), folder)).map_err(
        |error| CommandError::usage(format!("cannot write man pages to {}: {error}", folder.display())),
    )?;
    printer.message(&format!("man pages written to {}", folder.display()));
    Ok(Exit::Success)
}
