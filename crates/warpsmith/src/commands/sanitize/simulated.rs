//! The virtual GPU that `sanitize` runs a kernel on.

use chips::Chip;
use gpu::accelerator::VirtualDevice;
use gpu::device::Device;
use vgpu::Checks;

use crate::cli::{Global, SanitizeOptions};
use crate::error::CommandError;

/// A virtual GPU with the options of the command line.
pub fn device(chip: &'static Chip, options: &SanitizeOptions) -> VirtualDevice {
    let mut device = VirtualDevice::new(chip);
    device.options.checks = if options.unchecked { Checks::None } else { Checks::All };
    device.options.counters = options.counters;
    device.options.budget = options.budget;
    device.options.threads = options.jobs;
    device
}

/// The GPU to simulate. A real GPU is an error, because it has no checkers.
pub fn chip(global: &Global) -> Result<&'static Chip, CommandError> {
    let selector = if global.device == "auto" { "virtual" } else { &global.device };
    let selector = selector
        .parse()
        .map_err(|error: gpu::device::SelectorError| CommandError::usage(error.to_string()))?;
    match Device::find(selector) {
        Ok(Device::Virtual { chip }) => Ok(chip),
        _ => Err(CommandError::usage("sanitize runs on the virtual GPU")
            .hint("use `--device virtual:l4`, `--device virtual:a100` or another virtual GPU")),
    }
}
