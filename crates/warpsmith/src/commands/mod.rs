//! One file per command. Each takes its options, prints through the printer and returns an exit code.

pub mod build;
pub mod check;
pub mod doctor;
pub mod kernels;
pub mod sanitize;
pub mod sanitize_family;
pub mod shell;
pub mod toolchain;

use gpu::device::{Device, DeviceError, Selector, SelectorError};

use crate::cli::Global;
use crate::failure::Failure;

/// The device the user asked for, if it is there.
pub fn device(global: &Global) -> Result<Device, Failure> {
    let selector: Selector =
        global.device.parse().map_err(|error: SelectorError| Failure::usage(error.to_string()))?;
    Device::find(selector).map_err(|error| match error {
        DeviceError::NoDriver(_) | DeviceError::NoSuchGpu { .. } => Failure::lacking(error.to_string())
            .hint("`--device virtual` runs on the virtual GPU; `warpsmith doctor` says what is missing"),
        other => Failure::lacking(other.to_string()),
    })
}
