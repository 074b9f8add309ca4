//! The devices of the program: one for each GPU, and the virtual GPU for tensors of the CPU.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use attention::forward::Device;
use candle_core::Result;

/// The virtual GPU for tensors of the CPU.
const VIRTUAL: &str = "h200";

/// The program's device for a GPU, or its virtual GPU. It is opened at its first use and keeps its kernels.
pub(crate) fn shared(gpu: Option<u32>) -> Result<Arc<Device>> {
    static DEVICES: LazyLock<Mutex<HashMap<Option<u32>, Arc<Device>>>> = LazyLock::new(Mutex::default);
    // A thread that panicked while it held the lock left a valid map: all changes are single calls.
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = devices.get(&gpu) {
        return Ok(device.clone());
    }
    let opened = gpu.map_or_else(|| Device::virtual_gpu(VIRTUAL), Device::cuda).map_err(crate::error)?;
    Ok(devices.entry(gpu).or_insert(Arc::new(opened)).clone())
}
