//! The sandbox of the processes that compile and run kernels (`subprocess::sandbox`).

use std::path::Path;
use std::process::{Command, Stdio};

use subprocess::sandbox::{self, Policy};

use crate::cli::Global;
use crate::printer::{Printer, WARN, styled};

/// Applies the sandbox to this process. What is not in force is the parent's to say ([`warn`]).
pub fn enter(global: &Global, mut policy: Policy) {
    if !global.device.starts_with("virtual") {
        make_device_files();
        policy.read.extend(gpu::accelerator::driver_folder());
    }
    sandbox::apply(&policy);
}

/// Says what is not in force for the processes that this one will start.
pub fn warn(printer: &Printer) {
    let report = sandbox::probe();
    if !report.is_complete() {
        let text = format!("kernels are compiled and run in an incomplete sandbox: {report}");
        printer.message(&format!("{} {text}", styled(WARN, "warning:")));
    }
}

/// The driver makes its device files on first use, by a program of its own. In the sandbox it cannot start it.
fn make_device_files() {
    let there = |path: &str| Path::new(path).exists();
    if there("/proc/driver/nvidia") && !there("/dev/nvidia-uvm") {
        let mut command = Command::new("nvidia-modprobe");
        command.args(["-u", "-c", "0"]).stdin(Stdio::null()).stdout(Stdio::null());
        // Without that program the driver says what it lacks.
        let _ = command.status();
    }
}
