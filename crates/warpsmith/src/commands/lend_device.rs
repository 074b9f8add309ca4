//! `lend-device`: a separate process that owns a GPU, for `check`. A kernel that breaks the CUDA context then breaks
//! only this process. The command is hidden from users.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gpu::accelerator::{
    Accelerator, AcceleratorError, DevicePool, DeviceProcess, ProcessLimits, RetainedContext, serve,
};
use gpu::device::Device;
use subprocess::Channel;
use subprocess::sandbox::Policy;

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::sandboxed;

/// The maximum number of processes. Inputs and outputs are copied while a process is lent, so there may be one for each
/// core. The CUDA context of each takes 0.5 GiB of GPU memory; where there is no room for another one, the pool lends one
/// process at a time.
const MAX_PROCESSES: usize = 12;

/// Serves the GPU to the parent until the parent closes the channel.
pub fn run(global: &Global) -> Result<Exit, CommandError> {
    sandboxed::enter(global, Policy::default());
    let Device::Cuda { index, .. } = super::device(global)? else {
        return Err(CommandError::usage("lend-device needs a GPU: --device cuda[:N]"));
    };
    let channel =
        Channel::to_parent().ok_or_else(|| CommandError::usage("lend-device is only for other commands"))?;
    // The context is created for the first device and reused for the next ones.
    let mut held = None;
    let open = || -> Result<Box<dyn Accelerator>, AcceleratorError> {
        let held = match &held {
            Some(held) => held,
            None => held.insert(RetainedContext::new(index)?),
        };
        Ok(Box::new(held.open()?))
    };
    // When the parent is gone, the process aborts at once: a normal exit could wait for a kernel that never ends.
    serve(channel, open, || std::process::abort())
        .map_err(|error| CommandError::missing(error.to_string()))?;
    Ok(Exit::Success)
}

/// A pool of processes that run [`run`] and lend GPU number `index`.
pub fn pool(
    index: u32,
    limit: Duration,
    threads: usize,
    stop: &Arc<AtomicBool>,
) -> Result<Arc<DevicePool>, CommandError> {
    let program = std::env::current_exe().map_err(|error| CommandError::missing(error.to_string()))?;
    let limits = ProcessLimits { limit, stop: Arc::clone(stop) };
    Ok(DevicePool::new(threads.min(MAX_PROCESSES), move || {
        let mut command = Command::new(&program);
        command.args(["lend-device", "--device", &format!("cuda:{index}")]);
        DeviceProcess::start(command, limits.clone())
    }))
}
