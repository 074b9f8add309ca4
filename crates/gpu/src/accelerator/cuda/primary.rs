//! The primary context of a GPU.

use std::ptr;

use cudarc::driver::{result, sys};

use super::device::release;
use super::status::check;
use crate::accelerator::AcceleratorError;

/// The primary context, retained until this is dropped.
#[derive(Debug)]
pub(super) struct PrimaryContext {
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// The contexts of a process are invalid in its forks.
    process: u32,
}

// SAFETY: the driver's handles are valid in every thread of the process, and its functions may be called from any.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above; the struct is never changed.
unsafe impl Sync for PrimaryContext {}

impl PrimaryContext {
    /// Retains the primary context of a GPU.
    pub(super) fn retain(device: sys::CUdevice) -> Result<Self, AcceleratorError> {
        // SAFETY: the device handle came from the driver.
        let context = check("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
        Ok(PrimaryContext { device, context, process: std::process::id() })
    }

    /// The GPU.
    pub(super) fn device(&self) -> sys::CUdevice {
        self.device
    }

    /// Calls `work` with this context as the thread's current one.
    pub(super) fn with<T, E: From<AcceleratorError>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if std::process::id() != self.process {
            let reason = "the process was forked after the GPU was opened; use `spawn` instead of `fork`";
            return Err(AcceleratorError::Lost(reason.to_owned()).into());
        }
        let mut current = ptr::null_mut();
        // SAFETY: the driver is initialised; the call writes one handle.
        let status = unsafe { sys::cuCtxGetCurrent(&raw mut current) };
        check("cuCtxGetCurrent", status.result())?;
        if current == self.context {
            return work();
        }
        // SAFETY: the context is retained as long as `self` exists.
        check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.context) }.result())?;
        let done = work();
        // SAFETY: pops the context that was pushed above.
        let popped = unsafe { sys::cuCtxPopCurrent_v2(&raw mut current) };
        let value = done?;
        check("cuCtxPopCurrent", popped.result())?;
        Ok(value)
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            release(self.device);
        }
    }
}
