//! The sandbox of the processes that compile and run kernels, references and proposers (`subprocess::sandbox`).

use std::path::Path;
use std::process::{Command, Stdio};

use subprocess::sandbox::{self, Policy};

use crate::cli::Global;
use crate::printer::{Printer, WARN, styled};

/// Applies the sandbox to this process. The parent process reports the parts that are not active ([`warn`]).
pub fn enter(global: &Global, mut policy: Policy) {
    if !global.device.starts_with("virtual") {
        make_device_files();
        policy.read.extend(gpu::accelerator::driver_folder());
    }
    sandbox::apply(&policy);
}

/// Warns about the parts of the sandbox that are not active for the processes that this one starts.
pub fn warn(printer: &Printer) {
    let report = sandbox::probe();
    if !report.is_complete() {
        let text = format!("kernels, references and proposers run in an incomplete sandbox: {report}");
        printer.message(&format!("{} {text}", styled(WARN, "warning:")));
    }
}

/// Creates the driver's device files. The driver creates them on first use with a helper program, which it cannot start
/// inside the sandbox.
fn make_device_files() {
    let exists = |path: &str| Path::new(path).exists();
    if exists("/proc/driver/nvidia") && !exists("/dev/nvidia-uvm") {
        let mut command = Command::new("nvidia-modprobe");
        command.args(["-u", "-c", "0"]).stdin(Stdio::null()).stdout(Stdio::null());
        // If the helper is missing, the driver reports the error later.
        let _ = command.status();
    }
}
