//! `worker`: the side that compiles, runs and times. Started by `bench`, `profile` and the like, hidden from people.

use std::path::Path;

use attention::Attention;
use family::Catalog;

use crate::cli::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

/// `asks`: a file with the questions, instead of stdin.
pub fn run(asks: Option<&Path>, global: &Global, printer: &Printer) -> Result<Exit, Failure> {
    let catalog = Catalog::load(global.kernels.as_deref())?;
    let device = super::device(global)?;
    let compiler = super::build::compiler(global, printer)?;
    lab::worker::serve(&Attention, &catalog, &compiler, &device, asks)
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Exit::Holds)
}
