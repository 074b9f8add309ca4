//! What runs the kernels of [`super::Device`]: a GPU or the virtual GPU.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu::accelerator::{
    Accelerator as _, AcceleratorError, Call, CudaContext, CudaModule, CudaStream, LaunchStep, ModuleId,
    VirtualDevice,
};
use vgpu::{Finding, TensorMap};

use super::error::ForwardError;

/// What runs the kernels.
#[derive(Debug)]
pub(super) enum Backend {
    Cuda(CudaContext),
    Virtual(Box<Mutex<VirtualDevice>>),
}

/// A loaded kernel.
#[derive(Debug)]
pub(super) enum Module {
    Cuda(CudaModule),
    Virtual(ModuleId),
}

/// Locks a mutex. A thread that panicked while it held the lock left a valid value: all changes are single calls.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Backend {
    pub(super) fn encode_tensor_map(&self, map: &TensorMap) -> Result<Vec<u8>, AcceleratorError> {
        match self {
            Backend::Cuda(context) => context.encode_tensor_map(map),
            Backend::Virtual(device) => lock(device).encode_tensor_map(map),
        }
    }

    /// Resolves launches for a GPU; the virtual GPU has nothing to resolve.
    pub(super) fn call<'l>(
        &self,
        module: &Module,
        launches: impl IntoIterator<Item = LaunchStep<'l>>,
    ) -> Result<Option<Call>, AcceleratorError> {
        match (self, module) {
            (Backend::Cuda(context), Module::Cuda(module)) => context.call(module, launches).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn enqueue(&self, call: &Call, stream: CudaStream) -> Result<(), AcceleratorError> {
        match self {
            Backend::Cuda(context) => context.enqueue(call, stream),
            Backend::Virtual(_) => Ok(()),
        }
    }

    /// Runs launches on the virtual GPU. A mistake that it finds is an error.
    pub(super) fn run_virtual<'l>(
        &self,
        module: &Module,
        launches: impl IntoIterator<Item = LaunchStep<'l>>,
    ) -> Result<(), ForwardError> {
        let (Backend::Virtual(device), Module::Virtual(module)) = (self, module) else { return Ok(()) };
        let mut device = lock(device);
        for LaunchStep { entry, geometry, parameters } in launches {
            let report = device.run(*module, entry, geometry, parameters)?;
            if !report.is_clean() || !report.stats.completed {
                let line = |finding: &Finding| match finding.place.frames.first() {
                    Some(frame) => format!("{}:{}: {}", frame.file, frame.line, finding.message),
                    None => format!("PTX line {}: {}", finding.place.ptx_line, finding.message),
                };
                let lines: Vec<String> = report.findings.iter().map(line).collect();
                return Err(ForwardError::Findings(lines.join("\n")));
            }
        }
        Ok(())
    }
}
