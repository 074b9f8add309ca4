//! A GPU for callers that have their own memory and streams, such as PyTorch or a program with cudarc.
//!
//! They all use the primary context of a GPU, so their addresses and streams are valid here. Every function may be
//! called from any thread, and leaves the thread's current context as it was.

use std::ffi::c_void;
use std::sync::Arc;

use chips::ComputeCapability;
use compiler::machine_code;
use cudarc::driver::{result, sys};

use super::device::handle;
use super::launch::{Call, Module};
use super::primary::PrimaryContext;
use super::repeated::RepeatedCall;
use super::status::{check, reason};
use crate::accelerator::{AcceleratorError, Buffer, LaunchStep};

/// The primary context of a GPU.
#[derive(Debug)]
pub struct CudaContext {
    index: u32,
    name: String,
    primary: Arc<PrimaryContext>,
}

/// Machine code that is loaded into a context.
#[derive(Debug)]
pub struct CudaModule(Module);

// SAFETY: as for the context.
unsafe impl Send for CudaModule {}
// SAFETY: as for the context.
unsafe impl Sync for CudaModule {}

impl CudaContext {
    /// Retains the primary context of GPU number `index`.
    pub fn open(index: u32) -> Result<Self, AcceleratorError> {
        let device = handle(index)?;
        let name = check("cuDeviceGetName", result::device::get_name(device))?;
        let primary = Arc::new(PrimaryContext::retain(device)?);
        Ok(CudaContext { index, name, primary })
    }

    /// A short description for people: `cuda:0 (NVIDIA H200)`.
    pub fn describe(&self) -> String {
        format!("cuda:{} ({})", self.index, self.name)
    }

    /// The driver's name of the GPU.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The compute capability of the GPU.
    pub fn compute_capability(&self) -> Result<ComputeCapability, AcceleratorError> {
        use sys::CUdevice_attribute_enum as Attribute;
        let attribute = |attribute| {
            // SAFETY: the device handle came from the driver.
            let value = unsafe { result::device::get_attribute(self.primary.device(), attribute) };
            check("cuDeviceGetAttribute", value).map(|value| u32::try_from(value).unwrap_or(0))
        };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(ComputeCapability::new(major, minor))
    }

    /// Calls `work` with this context as the thread's current one.
    pub(super) fn with<T, E: From<AcceleratorError>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.primary.with(work)
    }

    /// Loads machine code. It stays loaded as long as the process runs, because the caller's launches and graphs may
    /// use it.
    pub fn load(&self, cubin: &[u8]) -> Result<CudaModule, AcceleratorError> {
        // SAFETY: a cubin carries its own length and outlives the call.
        let load = || unsafe { result::module::load_data(cubin.as_ptr().cast::<c_void>()) };
        let handle = self.with(|| load().map_err(|error| AcceleratorError::Load(reason(error))))?;
        Ok(CudaModule(Module { handle, parameter_counts: machine_code::parameter_counts(cubin) }))
    }

    /// Resolves and checks launches, so that they can be enqueued any number of times.
    pub fn call<'l>(
        &self,
        module: &CudaModule,
        launches: impl IntoIterator<Item = LaunchStep<'l>>,
    ) -> Result<RepeatedCall, AcceleratorError> {
        let call = self.with(|| Call::new(&module.0, launches))?;
        Ok(RepeatedCall::new(self.primary.clone(), call))
    }

    /// Encodes a tensor map.
    pub fn encode_tensor_map(&self, map: &vgpu::TensorMap) -> Result<Vec<u8>, AcceleratorError> {
        self.with(|| super::tensor_map::encode(map))
    }

    /// Allocates memory.
    pub fn allocate(&self, bytes: u64) -> Result<Buffer, AcceleratorError> {
        self.with(|| {
            // SAFETY: the context is current. The driver refuses an allocation of zero bytes.
            let address = unsafe { result::malloc_sync(bytes.max(1) as usize) };
            let address = address
                .map_err(|error| AcceleratorError::Memory(format!("{bytes} bytes: {}", reason(error))))?;
            Ok(Buffer { address, bytes })
        })
    }

    /// Frees memory that [`CudaContext::allocate`] returned.
    pub fn free(&self, buffer: Buffer) -> Result<(), AcceleratorError> {
        // SAFETY: the driver refuses an address that is not an allocation.
        self.with(|| check("cuMemFree", unsafe { result::free_sync(buffer.address) }))
    }

    /// Copies bytes to a buffer, at most its size.
    pub fn write(&self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError> {
        let length = bytes.len().min(buffer.bytes as usize);
        // SAFETY: at most the buffer's length is copied; the driver checks the address.
        let copy = || unsafe { result::memcpy_htod_sync(buffer.address, &bytes[..length]) };
        self.with(|| check("cuMemcpyHtoD", copy()))
    }

    /// Waits for all work of the GPU and copies a buffer's contents to the host.
    pub fn read(&self, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError> {
        let mut bytes = vec![0_u8; buffer.bytes as usize];
        self.with(|| {
            check("cuCtxSynchronize", result::ctx::synchronize())?;
            // SAFETY: the vector has the buffer's length; the driver checks the address.
            check("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(&mut bytes, buffer.address) })
        })?;
        Ok(bytes)
    }
}
