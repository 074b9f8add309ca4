//! The commands, one file each. A command takes its options, writes through the [`Printer`]
//! and returns an exit code.

pub mod bench;
pub mod build;
pub mod check;
pub mod devices;
pub mod doctor;
pub mod evolve;
pub mod exec;
pub mod export;
pub mod fleet;
pub mod fp8;
pub mod gate;
pub mod invert;
pub mod kernels;
pub mod lend_compiler;
pub mod lend_device;
pub mod new;
pub mod problems;
pub mod profile;
pub mod replay;
pub mod report;
pub mod repro;
pub mod runs;
pub mod sanitize;
pub mod shell;
pub mod suites;
pub mod toolchain;
pub mod tuned_preset;
pub mod workbench;
pub mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::compiler::Compiler;
use gpu::device::{Device, DeviceError, Selector, SelectorError};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{Printer, WARN, styled};
use crate::progress::{self, Installation};

/// The device of `--device`, or an error if this machine does not have it.
pub fn device(global: &Global) -> Result<Device, CommandError> {
    let selector: Selector =
        global.device.parse().map_err(|error: SelectorError| CommandError::usage(error.to_string()))?;
    Device::find(selector).map_err(|error| match error {
        DeviceError::NoDriver(_) | DeviceError::NoSuchGpu { .. } => CommandError::missing(error.to_string())
            .hint("`--device virtual` uses the virtual GPU; `warpsmith doctor` shows what is missing"),
        other => CommandError::missing(other.to_string()),
    })
}

/// The compiler. It is installed first if the machine has none.
pub fn compiler(global: &Global, printer: &Printer) -> Result<Compiler, CommandError> {
    let mut display = Installation::new(printer);
    let toolchain =
        ::compiler::toolchain::ensure(global.cuda.as_deref(), &mut |progress| display.show(progress))?;
    let warn = |text: &str| Printer::default().message(&format!("{}: {text}", styled(WARN, "warning")));
    Ok(lend_compiler::compiler(toolchain)?.warn_with(warn))
}

/// A flag that the first Ctrl-C sets, so that the command stops early and shows its results so far. A second Ctrl-C
/// ends the program. So does SIGTERM, with which clusters end a job before they take its machine.
pub fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // If no handler can be installed, the default one stays: the signal ends the program.
    if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
        std::thread::spawn(move || {
            for _ in signals.forever() {
                if flag.swap(true, Ordering::Relaxed) {
                    progress::stopped();
                    std::process::exit(Exit::Incomplete as i32);
                }
                progress::stopping();
            }
        });
    }
    stop
}
