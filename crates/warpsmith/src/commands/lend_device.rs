//! `lend-device`: a GPU in a process of its own, for a check of kernels that may break it. Hidden from people.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gpu::accelerator::{
    Accelerator, AcceleratorError, CudaDevice, DevicePool, DeviceProcess, HeldContext, Terms, serve,
};
use gpu::device::Device;

use crate::cli::Global;
use crate::exit::Exit;
use crate::failure::Failure;

/// Processes at a time: while one copies another launches. Every one has a context, which takes half a GiB of the GPU.
const AT_ONCE: usize = 4;

/// The side that has the GPU.
pub fn run(global: &Global) -> Result<Exit, Failure> {
    let Device::Cuda { index, .. } = super::device(global)? else {
        return Err(Failure::usage("only a GPU is lent"));
    };
    let lost = |error: io::Error| Failure::lacking(error.to_string());
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(lost)?);
    // Made with the first device, and kept from one to the next.
    let mut held = None;
    let open = || -> Result<Box<dyn Accelerator>, AcceleratorError> {
        if held.is_none() {
            held = Some(HeldContext::new(index)?);
        }
        Ok(Box::new(CudaDevice::open(index)?))
    };
    // The program that asked is gone, and whatever the GPU is doing is of no use to anybody. At once: the driver's own
    // end might wait for a kernel that has none.
    serve(stream, open, || std::process::abort()).map_err(lost)?;
    Ok(Exit::Holds)
}

/// GPU number `index`, to be borrowed from processes that run [`run`].
pub fn pool(
    index: u32,
    limit: Duration,
    threads: usize,
    stop: &Arc<AtomicBool>,
) -> Result<Arc<DevicePool>, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::lacking(error.to_string()))?;
    let terms = Terms { limit, stop: Arc::clone(stop) };
    Ok(DevicePool::new(threads.min(AT_ONCE), move || {
        let mut command = Command::new(&program);
        command.args(["lend-device", "--device", &format!("cuda:{index}")]);
        DeviceProcess::start(&mut command, terms.clone())
    }))
}
