//! `sanitize`: runs any CUDA or PTX kernel on the virtual GPU under its checkers.

mod contents;
mod expect;
mod family;
mod file;
mod launches;
pub mod output;
mod simulated;

use crate::cli::{Global, SanitizeOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::Printer;
use sanitize::MAX_SOURCE;

/// Runs kernels of a source file, or of a family.
pub fn run(options: &SanitizeOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let catalog = if declares_op(options) {
        ::family::Catalog::load(Some(&options.file))?
    } else if is_family(options, global) {
        ::family::Catalog::load(global.kernels.as_deref())?
    } else {
        return file::run(options, global, printer);
    };
    family::run(options, global, &catalog, printer)
}

/// Whether the file declares its op, as for `check`, and neither the file nor the command line describes a launch.
fn declares_op(options: &SanitizeOptions) -> bool {
    if !::family::is_kernel_file(&options.file) || family::launch_flag(options).is_some() {
        return false;
    }
    let Ok(text) = files::read_text_bounded(&options.file, MAX_SOURCE) else { return false };
    let mut lines =
        text.lines().filter_map(|line| line.trim_start().strip_prefix("// warpsmith:")).peekable();
    lines.peek().is_some() && lines.all(|line| !line.trim_start().starts_with("--"))
}

/// Whether the first argument names a family: no such file exists, and a family has that name or flags for families are
/// given.
fn is_family(options: &SanitizeOptions, global: &Global) -> bool {
    let family_exists = || {
        let catalog = ::family::Catalog::load(global.kernels.as_deref()).ok();
        options.file.to_str().zip(catalog).is_some_and(|(name, catalog)| catalog.family(name).is_ok())
    };
    let has_family_flags = options.problem.is_some() || options.preset.is_some() || !options.set.is_empty();
    !options.file.exists() && (has_family_flags || family_exists())
}
