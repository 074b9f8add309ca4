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

/// Runs kernels of a source file, or of a family.
pub fn run(options: &SanitizeOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    if is_family(options, global) {
        family::run(options, global, printer)
    } else {
        file::run(options, global, printer)
    }
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
