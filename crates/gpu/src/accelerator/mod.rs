//! One interface to whatever runs kernels: allocate, copy, load, launch. The CUDA driver and the virtual GPU both
//! implement it, so that what is written against it runs on either unchanged.

mod cuda;
mod process;
mod virtual_gpu;

use std::borrow::Cow;
use std::fmt;

pub use cuda::{
    Call, ColdReplay, CudaDevice, EventPair, Fresh, FreshReplay, HeldContext, Replay, SideStreams,
    driver_folder,
};
pub use process::{DevicePool, DeviceProcess, Lease, LentDevice, Terms, serve};
use serde::{Deserialize, Serialize};
use vgpu::TensorMap;
pub use virtual_gpu::VirtualDevice;

/// Memory on a device. Plain data: it says where, the device keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Buffer {
    pub address: u64,
    pub bytes: u64,
}

/// A loaded module, by its number on the device it was loaded on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModuleId(pub(crate) usize);

/// A variable of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub name: String,
    pub buffer: Buffer,
}

/// What a module is loaded from.
#[derive(Clone, Copy, Debug)]
pub enum Image<'a> {
    /// Machine code, for the CUDA driver.
    Cubin(&'a [u8]),
    /// Text: run as it is by the virtual GPU, compiled once more by the CUDA driver.
    Ptx(&'a str),
}

/// A kernel's launch, but for its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks that run together and share their shared memory; `[1, 1, 1]`: none do.
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum AcceleratorError {
    #[error("no CUDA driver: {0}")]
    NoDriver(String),
    #[error("there is no device {0}")]
    NoDevice(u32),
    #[error("{call}: {reason}")]
    Driver { call: Cow<'static, str>, reason: String },
    #[error("out of memory: {0}")]
    Memory(String),
    #[error("cannot load the module: {0}")]
    Load(String),
    #[error("there is no kernel `{0}` in the module")]
    NoKernel(String),
    #[error("cannot launch `{kernel}`: {reason}")]
    Launch { kernel: String, reason: String },
    /// More of something than the device has.
    #[error("`{kernel}` does not fit: {reason}")]
    TooLarge { kernel: String, reason: String },
    /// The kernel ran and did what no kernel may. A CUDA context is of no use afterwards.
    #[error("`{kernel}` broke: {reason}")]
    Fault {
        kernel: String,
        reason: String,
        /// Whether it touched memory it must not.
        access: bool,
    },
    /// It was in a process of its own, which is gone.
    #[error("the device was lost: {0}")]
    Lost(String),
}

/// A device that runs kernels.
pub trait Accelerator: fmt::Debug {
    /// What it is, for people: `cuda:0 (NVIDIA H200)`.
    fn describe(&self) -> String;

    fn allocate(&mut self, label: &str, bytes: u64) -> Result<Buffer, AcceleratorError>;

    fn free(&mut self, buffer: Buffer) -> Result<(), AcceleratorError>;

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError>;

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError>;

    /// Sets every word of a buffer, on the device.
    fn fill(&mut self, buffer: Buffer, word: u32) -> Result<(), AcceleratorError> {
        let mut bytes = word.to_le_bytes().repeat((buffer.bytes as usize).div_ceil(4));
        bytes.truncate(buffer.bytes as usize);
        self.write(buffer, &bytes)
    }

    /// Says that a buffer's contents do not matter. A device that checks takes it for uninitialised from then on.
    fn undefine(&mut self, _buffer: Buffer) -> Result<(), AcceleratorError> {
        Ok(())
    }

    fn load(&mut self, image: Image<'_>) -> Result<ModuleId, AcceleratorError>;

    /// The variables of a module that its kernels can write and that outlive a launch.
    fn variables(&mut self, module: ModuleId) -> Result<Vec<Variable>, AcceleratorError>;

    /// Changes what a kernel can notice of its surroundings and its answer must not depend on: which SMs are free, the
    /// stream, on a virtual GPU also the order of blocks, clocks and addresses. The same seed is the same surroundings.
    fn set_world(&mut self, seed: u64) -> Result<(), AcceleratorError>;

    /// A tensor map as the device wants it: 128 bytes, to be passed as a parameter that is aligned to 64.
    fn encode_tensor_map(&mut self, map: &TensorMap) -> Result<Vec<u8>, AcceleratorError>;

    /// Runs a kernel to its end. `parameters` are the bytes of each parameter, in order.
    fn launch(
        &mut self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<Launched, AcceleratorError>;
}

/// A launch that has ended.
#[derive(Clone, Debug, Default)]
pub struct Launched {
    /// What the virtual GPU has to say. A CUDA GPU does not check, so there is nothing, not "no finding".
    pub report: Option<vgpu::LaunchReport>,
}

/// A map that breaks a rule of `cuTensorMapEncodeTiled`.
fn invalid_map(error: &vgpu::tensor_map::TensorMapError) -> AcceleratorError {
    AcceleratorError::Driver { call: "cuTensorMapEncodeTiled".into(), reason: error.to_string() }
}

impl Buffer {
    /// The buffer's address as a kernel parameter.
    pub fn parameter(self) -> Vec<u8> {
        self.address.to_le_bytes().to_vec()
    }
}
