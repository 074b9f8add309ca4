//! The virtual GPU that `sanitize` runs a kernel on.

use chips::{CHIPS, Chip, Target};
use gpu::accelerator::VirtualDevice;
use gpu::device::Device;
use vgpu::Checks;

use crate::cli::{Global, SanitizeOptions};
use crate::error::CommandError;

/// Bytes of all buffers together: more than any GPU has.
const ADDRESSES: u64 = 1 << 38;

/// A virtual GPU with the options of the command line.
pub fn device(chip: &'static Chip, options: &SanitizeOptions) -> VirtualDevice {
    let mut device = VirtualDevice::new(chip);
    // `Placed` limits the contents that take memory.
    device.set_memory(ADDRESSES);
    device.options.checks = if options.unchecked { Checks::None } else { Checks::All };
    device.options.counters = options.counters;
    device.options.budget = options.budget;
    device.options.threads = options.jobs;
    device
}

/// The GPU to simulate. A real GPU is an error, because it has no checkers. Without `--device` it is one that runs the
/// target. `of_file`: the device that the file names.
pub fn chip(
    global: &Global,
    of_file: Option<&str>,
    target: Option<Target>,
) -> Result<&'static Chip, CommandError> {
    let is_auto = global.device == "auto";
    let device = if is_auto { of_file.unwrap_or("virtual") } else { &global.device };
    let is_auto = is_auto && of_file.is_none();
    let selector =
        device.parse().map_err(|error: gpu::device::SelectorError| CommandError::usage(error.to_string()))?;
    match Device::find(selector) {
        Ok(Device::Virtual { chip }) => {
            let runs = |chip: &Chip| target.is_none_or(|target| chip.runs(target));
            let other = CHIPS.iter().find(|chip| is_auto && runs(chip));
            Ok(if runs(chip) { chip } else { other.unwrap_or(chip) })
        }
        _ => Err(CommandError::usage("sanitize runs on the virtual GPU")
            .hint("use `--device virtual:l4`, `--device virtual:a100` or another virtual GPU")),
    }
}
