//! One file per command. Each takes its options, prints through the printer and returns an exit code.

pub mod bench;
pub mod build;
pub mod check;
pub mod doctor;
pub mod evolve;
pub mod gate;
pub mod invert;
pub mod kernels;
pub mod lend_device;
pub mod profile;
pub mod replay;
pub mod report;
pub mod repro;
pub mod runs;
pub mod sanitize;
pub mod sanitize_family;
pub mod shell;
pub mod toolchain;
pub mod tuned;
pub mod workbench;
pub mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu::device::{Device, DeviceError, Selector, SelectorError};

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit::Exit;

/// The device the user asked for, if it is there.
pub fn device(global: &Global) -> Result<Device, CommandError> {
    let selector: Selector =
        global.device.parse().map_err(|error: SelectorError| CommandError::usage(error.to_string()))?;
    Device::find(selector).map_err(|error| match error {
        DeviceError::NoDriver(_) | DeviceError::NoSuchGpu { .. } => CommandError::lacking(error.to_string())
            .hint("`--device virtual` runs on the virtual GPU; `warpsmith doctor` says what is missing"),
        other => CommandError::lacking(other.to_string()),
    })
}

/// A flag that Ctrl-C sets: what is at hand is finished or given up, and what is known is shown.
pub fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // A second handler cannot be set; then the default one ends the program, as before.
    let _ = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Incomplete as i32);
        }
    });
    stop
}
