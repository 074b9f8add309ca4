//! The contents of the buffers after the launch.

use std::path::Path;

use gpu::accelerator::{Accelerator, VirtualDevice};
use launch::{Placed, PlacedBuffer, npy};

use crate::cli::SanitizeOptions;
use crate::error::CommandError;
use crate::printer::Printer;

/// A buffer with its contents after the launch.
pub struct Contents<'a> {
    /// The buffer.
    pub placed: &'a PlacedBuffer,
    /// Its contents; empty if no option needs them.
    pub bytes: Vec<u8>,
}

/// The buffers after the launch, with the contents of those that are printed, saved or compared. Inputs are often large,
/// and reading them can take longer than the kernel.
pub fn read_back<'a>(
    placed: &'a Placed,
    device: &mut VirtualDevice,
    options: &SanitizeOptions,
) -> Result<Vec<Contents<'a>>, CommandError> {
    let is_needed = |name: &String| {
        options.save.is_some()
            || options.print.iter().any(|wanted| wanted == "all" || wanted == name)
            || options.expect.iter().any(|(wanted, _)| wanted == name)
    };
    let read = |placed: &'a PlacedBuffer| {
        if !is_needed(&placed.name) {
            return Ok(Contents { placed, bytes: Vec::new() });
        }
        let bytes = device.read(placed.buffer).map_err(|error| CommandError::missing(error.to_string()))?;
        Ok(Contents { placed, bytes })
    };
    placed.buffers.iter().map(read).collect()
}

/// Writes every buffer as an NPY file.
pub fn save(folder: &Path, buffers: &[Contents], printer: &Printer) -> Result<(), CommandError> {
    for buffer in buffers {
        let PlacedBuffer { name, dtype, dims, .. } = buffer.placed;
        let path = folder.join(files::file_name(&format!("{}.npy", name.replace(' ', "-"))));
        files::write_atomically(&path, &npy::write(*dtype, dims, &buffer.bytes))
            .map_err(|error| CommandError::usage(format!("cannot write {}: {error}", path.display())))?;
        printer.message(&format!("wrote {}", path.display()));
    }
    Ok(())
}
