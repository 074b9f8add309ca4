//! `lend-compiler`: a separate process that compiles. A source on which the compiler crashes then ends only this process.
//! The command is hidden from users.

use std::process::Command;

use compiler::toolchain::Toolchain;
use compiler::{BuildError, Compiler};
use subprocess::Channel;

use crate::error::CommandError;
use crate::exit::Exit;

/// Compiles for the parent until the parent closes the channel.
pub fn run() -> Result<Exit, CommandError> {
    let channel = Channel::to_parent()
        .ok_or_else(|| CommandError::usage("lend-compiler is only for other commands"))?;
    compiler::serve(channel).map_err(|error| CommandError::missing(error.to_string()))?;
    Ok(Exit::Success)
}

/// A compiler that uses processes that run [`run`].
pub fn compiler(toolchain: Toolchain) -> Result<Compiler, BuildError> {
    let compiler = Compiler::new(toolchain, &files::cache_dir())?;
    let program = std::env::current_exe()
        .map_err(|source| BuildError::Io { path: "the program's own file".into(), source })?;
    Ok(compiler.in_processes(move || {
        let mut command = Command::new(&program);
        command.arg("lend-compiler");
        command
    }))
}
