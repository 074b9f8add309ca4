//! `lend-device`: a GPU in a process of its own, for a check of kernels that may break it. Hidden from people.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gpu::accelerator::{
    Accelerator, AcceleratorError, DevicePool, DeviceProcess, HeldContext, ProcessLimits, serve,
};
use gpu::device::Device;
use subprocess::Channel;
use subprocess::sandbox::Policy;

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::sandboxed;

/// Processes at a time: while one copies another launches. Every one has a context, which takes half a GiB of the GPU.
const AT_ONCE: usize = 4;

/// The side that has the GPU.
pub fn run(global: &Global) -> Result<Exit, CommandError> {
    sandboxed::enter(global, Policy::default());
    let Device::Cuda { index, .. } = super::device(global)? else {
        return Err(CommandError::usage("only a GPU is lent"));
    };
    let channel =
        Channel::to_parent().ok_or_else(|| CommandError::usage("another command starts this one"))?;
    // Made with the first device, and kept from one to the next.
    let mut held = None;
    let open = || -> Result<Box<dyn Accelerator>, AcceleratorError> {
        let held = match &held {
            Some(held) => held,
            None => held.insert(HeldContext::new(index)?),
        };
        Ok(Box::new(held.open()?))
    };
    // The program that asked is gone, and whatever the GPU is doing is of no use to anybody. At once: the driver's own
    // end might wait for a kernel that has none.
    serve(channel, open, || std::process::abort())
        .map_err(|error| CommandError::lacking(error.to_string()))?;
    Ok(Exit::Holds)
}

/// GPU number `index`, to be borrowed from processes that run [`run`].
pub fn pool(
    index: u32,
    limit: Duration,
    threads: usize,
    stop: &Arc<AtomicBool>,
) -> Result<Arc<DevicePool>, CommandError> {
    let program = std::env::current_exe().map_err(|error| CommandError::lacking(error.to_string()))?;
    let terms = ProcessLimits { limit, stop: Arc::clone(stop) };
    Ok(DevicePool::new(threads.min(AT_ONCE), move || {
        let mut command = Command::new(&program);
        command.args(["lend-device", "--device", &format!("cuda:{index}")]);
        DeviceProcess::start(command, terms.clone())
    }))
}
