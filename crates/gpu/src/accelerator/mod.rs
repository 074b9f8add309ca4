//! One interface to every device that runs kernels: allocate, copy, load, launch. The CUDA driver and the virtual GPU
//! both implement it, so the same code runs on either.

mod cuda;
mod process;
mod virtual_gpu;

use std::borrow::Cow;
use std::fmt;

pub use cuda::{
    Call, ColdReplay, ControlReplay, CudaContext, CudaDevice, CudaModule, CudaStream, EventPair, FreshInputs,
    RepeatedCall, Replay, RetainedContext, SideStreams, driver_folder,
};
pub use process::{DevicePool, DeviceProcess, Lease, PooledDevice, ProcessLimits, serve};
use serde::{Deserialize, Serialize};
use vgpu::TensorMap;
pub use virtual_gpu::{FindingFilter, VirtualDevice};

/// Memory on a device, as an address and a size. The device owns the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Buffer {
    /// The device address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// A loaded module, as its index on the device that loaded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModuleId(pub(crate) usize);

/// A global variable of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// The variable's name in the module.
    pub name: String,
    /// The variable's memory on the device.
    pub buffer: Buffer,
}

/// The code that a module is loaded from.
#[derive(Clone, Copy, Debug)]
pub enum Image<'a> {
    /// Machine code, for the CUDA driver.
    Cubin(&'a [u8]),
    /// PTX text. The virtual GPU runs it directly; the CUDA driver compiles it.
    Ptx(&'a str),
}

/// The shape of a launch: everything except the kernel and its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Number of blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Blocks that run together and can read each other's shared memory; `[1, 1, 1]` means no clusters.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

/// One of several launches: a kernel of a module with its geometry and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct LaunchStep<'l> {
    /// The name of the kernel.
    pub entry: &'l str,
    /// The shape of the launch.
    pub geometry: Geometry,
    /// The parameters, each as bytes.
    pub parameters: &'l [Vec<u8>],
}

/// An error of a device or of a kernel that ran on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum AcceleratorError {
    /// There is no usable CUDA driver; contains the reason.
    #[error("no CUDA driver: {0}")]
    NoDriver(String),
    /// The machine has no GPU with this index.
    #[error("there is no device {0}")]
    NoDevice(u32),
    /// A call of the CUDA driver failed.
    #[error("{call}: {reason}")]
    Driver {
        /// The name of the driver's function.
        call: Cow<'static, str>,
        /// The driver's reason.
        reason: String,
    },
    /// A memory operation failed; contains the details.
    #[error("out of memory: {0}")]
    Memory(String),
    /// A module cannot be loaded; contains the reason.
    #[error("cannot load the module: {0}")]
    Load(String),
    /// The module has no kernel with this name.
    #[error("there is no kernel `{0}` in the module")]
    NoKernel(String),
    /// The launch is not valid, or the driver refused it.
    #[error("cannot launch `{kernel}`: {reason}")]
    Launch {
        /// The kernel's name.
        kernel: String,
        /// Why it cannot be launched.
        reason: String,
    },
    /// The arguments of a launch do not fit together; contains the reason.
    #[error("{0}")]
    Arguments(String),
    /// The kernel needs more of a resource than the device has.
    #[error("`{kernel}` does not fit: {reason}")]
    TooLarge {
        /// The kernel's name.
        kernel: String,
        /// The resource that does not suffice.
        reason: String,
    },
    /// The kernel ran and did something that a kernel must not do. A CUDA context is unusable afterwards.
    #[error("`{kernel}` failed: {reason}")]
    Fault {
        /// The kernel's name.
        kernel: String,
        /// What the kernel did, or how it ended.
        reason: String,
        /// Whether the kernel accessed memory that it must not access.
        access: bool,
    },
    /// The device was in a separate process, and the process has ended.
    #[error("the device was lost: {0}")]
    Lost(String),
}

/// A device that runs kernels.
pub trait Accelerator: fmt::Debug {
    /// A short description for people: `cuda:0 (NVIDIA H200)`.
    fn describe(&self) -> String;

    /// Allocates `bytes` bytes. `label` names the buffer in messages.
    fn allocate(&mut self, label: &str, bytes: u64) -> Result<Buffer, AcceleratorError>;

    /// Frees a buffer.
    fn free(&mut self, buffer: Buffer) -> Result<(), AcceleratorError>;

    /// Copies bytes from the host to a buffer.
    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError>;

    /// Copies a buffer's contents to the host.
    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError>;

    /// Whether a buffer contains exactly these bytes.
    fn holds(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<bool, AcceleratorError> {
        Ok(self.read(buffer)? == bytes)
    }

    /// Sets every 32-bit word of a buffer, on the device.
    fn fill(&mut self, buffer: Buffer, word: u32) -> Result<(), AcceleratorError> {
        let mut bytes = word.to_le_bytes().repeat((buffer.bytes as usize).div_ceil(4));
        bytes.truncate(buffer.bytes as usize);
        self.write(buffer, &bytes)
    }

    /// Marks a buffer's contents as undefined. A device with memory checks treats it as uninitialised from then on.
    fn undefine(&mut self, _buffer: Buffer) -> Result<(), AcceleratorError> {
        Ok(())
    }

    /// Loads a module.
    fn load(&mut self, image: Image<'_>) -> Result<ModuleId, AcceleratorError>;

    /// The variables of a module that its kernels can write and that keep their values between launches.
    fn variables(&mut self, module: ModuleId) -> Result<Vec<Variable>, AcceleratorError>;

    /// Changes properties of the environment that a kernel can read but that must not change its result: the free SMs
    /// and the stream, and on a virtual GPU also the block order, clocks and addresses. The same seed gives the same
    /// environment.
    fn set_world(&mut self, seed: u64) -> Result<(), AcceleratorError>;

    /// Encodes a tensor map for the device: 128 bytes, to be passed as a parameter with an alignment of 64.
    fn encode_tensor_map(&mut self, map: &TensorMap) -> Result<Vec<u8>, AcceleratorError>;

    /// Creates a texture object whose texels are in a buffer. Returns its handle, the value of the kernel's parameter.
    fn create_texture(&mut self, _texture: &vgpu::Texture, _texels: Buffer) -> Result<u64, AcceleratorError> {
        Err(AcceleratorError::Arguments("textures are supported on the virtual GPU only".to_owned()))
    }

    /// Runs a kernel and waits for its end. `parameters` holds the bytes of each parameter, in order.
    fn launch(
        &mut self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<Launched, AcceleratorError>;
}

/// The result of a launch that has ended.
#[derive(Clone, Debug, Default)]
pub struct Launched {
    /// The virtual GPU's report. A CUDA GPU makes no checks, so `None` means "not checked", not "no finding".
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
