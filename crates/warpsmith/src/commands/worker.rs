//! `worker`: the side of a bench that compiles, runs and times. Started by `bench`, hidden from people.

use attention::Attention;
use family::Catalog;

use crate::cli::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

pub fn run(global: &Global, printer: &Printer) -> Result<Exit, Failure> {
    let catalog = Catalog::load(global.kernels.as_deref())?;
    let device = super::device(global)?;
    let compiler = super::build::compiler(global, printer)?;
    lab::worker::serve(&Attention, &catalog, &compiler, &device);
    Ok(Exit::Holds)
}
