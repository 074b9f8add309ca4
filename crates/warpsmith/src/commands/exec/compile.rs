//! Compiles a CUDA file to a program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use chips::Target;
use compiler::toolchain::nvcc;

use super::libraries::Installed;
use crate::cli::{ExecOptions, Global};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::progress::Installation;

/// Compiles a file for the device, with the line tables that findings need. The program is temporary.
pub fn compile(
    file: &Path,
    target: Target,
    options: &ExecOptions,
    global: &Global,
    installed: &Installed,
    printer: &Printer,
) -> Result<PathBuf, CommandError> {
    if !file.is_file() {
        return Err(CommandError::usage(format!("there is no file {}", file.display())));
    }
    let mut display = Installation::new(printer);
    let nvcc = nvcc::ensure(global.cuda.as_deref(), &mut |progress| display.show(progress))
        .map_err(|error| CommandError::missing(error.to_string()).hint(error.remedy()))?;
    let program = installed.folder().join("program");
    // PTX alone: machine code would only take time.
    let architecture =
        format!("arch=compute_{0},code=compute_{0}", target.to_string().trim_start_matches("sm_"));
    let mut command = Command::new(&nvcc.program);
    command.args(["-cudart", "shared", "-lineinfo", "-g", "-gencode", &architecture]);
    let mut folder = OsString::from("-L");
    folder.push(installed.folder());
    command.arg(folder).arg("-o").arg(&program).arg(file).args(&options.nvcc);
    // What the compiler prints is a message, not data.
    command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
    let status = command.status().map_err(|error| {
        CommandError::missing(format!("cannot start {}: {error}", nvcc.program.display()))
    })?;
    if !status.success() {
        return Err(CommandError::problem(format!("{} does not compile", file.display())));
    }
    Ok(program)
}
