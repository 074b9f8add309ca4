//! A GPU: its context, memory and modules.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::LazyLock;

use compiler::machine_code;
use cudarc::driver::{result, sys};
use libloading::Library;

use super::helpers::Helpers;
use super::launch::{Call, Module};
use super::status::{check, reason};
use crate::accelerator::{
    Accelerator, AcceleratorError, Buffer, Geometry, Image, LaunchStep, Launched, ModuleId, Variable,
};

/// Most tensor maps to keep; a launch has a few.
const MOST_MAPS: usize = 1024;

/// One GPU with its primary context. It must be used from the thread that opened it.
#[derive(Debug)]
pub struct CudaDevice {
    index: u32,
    name: String,
    device: sys::CUdevice,
    /// All work of this device runs on this stream, in order.
    pub(super) stream: sys::CUstream,
    modules: Vec<LoadedModule>,
    /// Environment of the launches; see [`Accelerator::set_world`].
    world: Option<World>,
    /// Loaded at first use, or shared with other devices of the same context.
    helpers: Option<Rc<Helpers>>,
    /// Encoded tensor maps: one per tensor, its address, shape and box.
    maps: HashMap<vgpu::TensorMap, Vec<u8>>,
}

#[derive(Debug)]
struct LoadedModule {
    module: Module,
    /// Variables in global memory.
    variables: Vec<String>,
}

/// The environment of a launch: its stream and the SMs that are busy when it starts.
#[derive(Debug)]
struct World {
    /// A second stream beside the device's own.
    stream: sys::CUstream,
    on_other_stream: bool,
    /// Number of SMs that another kernel keeps busy when the launch starts.
    busy_sms: u32,
    helpers: Rc<Helpers>,
}

/// How long SMs are kept busy. This is longer than a small kernel runs and longer than a launch takes.
const BUSY_NS: u64 = 100_000;

/// Loads the driver library and keeps it loaded. Check this before any other driver call: cudarc panics without the
/// library. A program that links the library has it loaded already; cudarc's own test does not exist there.
fn driver_is_present() -> bool {
    static LIBRARY: LazyLock<Option<Library>> = LazyLock::new(|| {
        // SAFETY: the driver's initialiser has no requirements.
        ["libcuda.so.1", "libcuda.so"].into_iter().find_map(|name| unsafe { Library::new(name) }.ok())
    });
    LIBRARY.is_some()
}

/// The folder of the driver library. The driver loads further libraries from this folder when it needs them.
/// This function loads the driver library to find its path.
pub fn driver_folder() -> Option<PathBuf> {
    if !driver_is_present() {
        return None;
    }
    // The loader finds the library by name and may follow links, so the path comes from the memory map.
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let is_driver =
        |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcuda.so"));
    paths.into_iter().find(is_driver).and_then(Path::parent).map(Path::to_owned)
}

/// The driver's handle of the GPU with number `index`.
pub(super) fn handle(index: u32) -> Result<sys::CUdevice, AcceleratorError> {
    if !driver_is_present() {
        return Err(AcceleratorError::NoDriver("libcuda.so.1 is not installed".to_owned()));
    }
    result::init().map_err(|error| AcceleratorError::NoDriver(reason(error)))?;
    let count = check("cuDeviceGetCount", result::device::get_count())?;
    if i64::from(index) >= i64::from(count) {
        return Err(AcceleratorError::NoDevice(index));
    }
    check("cuDeviceGet", result::device::get(index as i32))
}

/// Retains the GPU's primary context and makes it current on this thread.
fn retain(device: sys::CUdevice) -> Result<(), AcceleratorError> {
    // SAFETY: the device handle came from the driver.
    let context = check("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
    // SAFETY: the context was just retained.
    let current = check("cuCtxSetCurrent", unsafe { result::ctx::set_current(context) });
    current.inspect_err(|_| release(device))
}

pub(super) fn release(device: sys::CUdevice) {
    // SAFETY: the context was retained once before.
    let _ = unsafe { result::primary_ctx::release(device) };
}

/// Keeps a GPU's context alive between devices that are opened and closed on it. Opening the next device is then
/// cheap.
#[derive(Debug)]
pub struct RetainedContext {
    index: u32,
    device: sys::CUdevice,
    /// Loaded once: the driver compiles the helpers, which takes longer than a small test case. `None` only during
    /// drop.
    helpers: Option<Rc<Helpers>>,
}

impl RetainedContext {
    /// Retains the primary context of GPU number `index` and loads the helper kernels.
    pub fn new(index: u32) -> Result<Self, AcceleratorError> {
        let device = handle(index)?;
        retain(device)?;
        let mut held = RetainedContext { index, device, helpers: None };
        held.helpers = Some(Rc::new(Helpers::load()?));
        Ok(held)
    }

    /// Opens the GPU with the retained context.
    pub fn open(&self) -> Result<CudaDevice, AcceleratorError> {
        let mut device = CudaDevice::open(self.index)?;
        device.helpers.clone_from(&self.helpers);
        Ok(device)
    }
}

impl Drop for RetainedContext {
    fn drop(&mut self) {
        // The helpers must be unloaded while the context exists.
        self.helpers = None;
        release(self.device);
    }
}

impl CudaDevice {
    /// Opens GPU number `index`.
    pub fn open(index: u32) -> Result<Self, AcceleratorError> {
        let device = handle(index)?;
        let name = check("cuDeviceGetName", result::device::get_name(device))?;
        retain(device)?;
        // A blocking stream: copies use the null stream, and a launch must wait for the copies before it.
        let stream = check("cuStreamCreate", result::stream::create(result::stream::StreamKind::Default))
            .inspect_err(|_| release(device))?;
        let (modules, maps) = (Vec::new(), HashMap::new());
        Ok(CudaDevice { index, name, device, stream, modules, world: None, helpers: None, maps })
    }

    fn attribute(&self, attribute: sys::CUdevice_attribute_enum) -> Result<i32, AcceleratorError> {
        // SAFETY: the device handle came from the driver.
        check("cuDeviceGetAttribute", unsafe { result::device::get_attribute(self.device, attribute) })
    }

    pub(super) fn sms(&self) -> Result<u32, AcceleratorError> {
        let count = self.attribute(sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        Ok(count.max(1) as u32)
    }

    pub(super) fn helpers(&mut self) -> Result<Rc<Helpers>, AcceleratorError> {
        if let Some(helpers) = &self.helpers {
            return Ok(Rc::clone(helpers));
        }
        Ok(Rc::clone(self.helpers.insert(Rc::new(Helpers::load()?))))
    }

    fn world(&mut self) -> Result<&mut World, AcceleratorError> {
        if self.world.is_none() {
            let helpers = self.helpers()?;
            let stream =
                check("cuStreamCreate", result::stream::create(result::stream::StreamKind::Default))?;
            self.world = Some(World { stream, on_other_stream: false, busy_sms: 0, helpers });
        }
        self.world
            .as_mut()
            .ok_or_else(|| AcceleratorError::Lost("the launch environment is not set up".to_owned()))
    }

    /// Size of the L2 cache in bytes.
    pub fn l2_bytes(&self) -> Result<u64, AcceleratorError> {
        let bytes = self.attribute(sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        Ok(bytes.max(0) as u64)
    }

    /// Prepares launches that can run later, in this order, any number of times.
    pub fn call<'l>(
        &self,
        module: ModuleId,
        launches: impl IntoIterator<Item = LaunchStep<'l>>,
    ) -> Result<Call, AcceleratorError> {
        let unknown = || AcceleratorError::Lost("the module is not loaded".to_owned());
        Call::new(&self.modules.get(module.0).ok_or_else(unknown)?.module, launches)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        for loaded in &self.modules {
            // SAFETY: loaded by this device and unloaded once. After a sticky error the driver refuses the call; that
            // is harmless.
            let _ = unsafe { result::module::unload(loaded.module.handle) };
        }
        if let Some(world) = self.world.take() {
            // SAFETY: created in `world`, destroyed once.
            let _ = unsafe { result::stream::destroy(world.stream) };
        }
        // The helpers must be unloaded while the context exists.
        self.helpers = None;
        // SAFETY: created in `open`, destroyed once.
        let _ = unsafe { result::stream::destroy(self.stream) };
        release(self.device);
    }
}

impl Accelerator for CudaDevice {
    fn describe(&self) -> String {
        format!("cuda:{} ({})", self.index, self.name)
    }

    fn allocate(&mut self, label: &str, bytes: u64) -> Result<Buffer, AcceleratorError> {
        // SAFETY: a context is current. The driver refuses an allocation of zero bytes, so at least one byte is
        // requested.
        let address = unsafe { result::malloc_sync(bytes.max(1) as usize) }.map_err(|error| {
            AcceleratorError::Memory(format!("{bytes} bytes for {label}: {}", reason(error)))
        })?;
        Ok(Buffer { address, bytes })
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), AcceleratorError> {
        // SAFETY: the driver refuses an address that is not an allocation.
        check("cuMemFree", unsafe { result::free_sync(buffer.address) })
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError> {
        let length = bytes.len().min(buffer.bytes as usize);
        // SAFETY: at most the buffer's length is copied; the driver checks the address.
        check("cuMemcpyHtoD", unsafe { result::memcpy_htod_sync(buffer.address, &bytes[..length]) })
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError> {
        let mut bytes = vec![0_u8; buffer.bytes as usize];
        // SAFETY: the vector has the buffer's length; the driver checks the address.
        check("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(&mut bytes, buffer.address) })?;
        Ok(bytes)
    }

    fn load(&mut self, image: Image<'_>) -> Result<ModuleId, AcceleratorError> {
        let text;
        let data: *const c_void = match image {
            Image::Cubin(bytes) => bytes.as_ptr().cast(),
            Image::Ptx(ptx) => {
                text = CString::new(ptx)
                    .map_err(|_| AcceleratorError::Load("the PTX contains a NUL byte".to_owned()))?;
                text.as_ptr().cast()
            }
        };
        // SAFETY: PTX ends with a NUL; a cubin carries its own length. Both outlive the call.
        let handle = unsafe { result::module::load_data(data) }
            .map_err(|error| AcceleratorError::Load(reason(error)))?;
        let (variables, parameter_counts) = match image {
            Image::Cubin(bytes) => (machine_code::variables(bytes), machine_code::parameter_counts(bytes)),
            Image::Ptx(_) => Default::default(),
        };
        self.modules.push(LoadedModule { module: Module { handle, parameter_counts }, variables });
        Ok(ModuleId(self.modules.len() - 1))
    }

    fn encode_tensor_map(&mut self, map: &vgpu::TensorMap) -> Result<Vec<u8>, AcceleratorError> {
        if let Some(encoded) = self.maps.get(map) {
            return Ok(encoded.clone());
        }
        let encoded = super::tensor_map::encode(map)?;
        if self.maps.len() >= MOST_MAPS {
            self.maps.clear();
        }
        self.maps.insert(map.clone(), encoded.clone());
        Ok(encoded)
    }

    fn fill(&mut self, buffer: Buffer, word: u32) -> Result<(), AcceleratorError> {
        let bytes = word.to_le_bytes();
        if bytes == [bytes[0]; 4] {
            // SAFETY: the call writes the bytes of the buffer; the driver checks the address.
            let filled = unsafe { sys::cuMemsetD8_v2(buffer.address, bytes[0], buffer.bytes as usize) };
            return check("cuMemsetD8", filled.result());
        }
        // The driver writes whole words at multiples of four only.
        let whole = if buffer.address.is_multiple_of(4) { buffer.bytes / 4 } else { 0 };
        // SAFETY: the call writes whole words inside the buffer; the driver checks the address.
        let words = unsafe { sys::cuMemsetD32_v2(buffer.address, word, whole as usize) };
        check("cuMemsetD32", words.result())?;
        let rest = buffer.bytes - 4 * whole;
        if rest == 0 {
            return Ok(());
        }
        let rest_of_pattern: Vec<u8> = bytes.into_iter().cycle().take(rest as usize).collect();
        self.write(Buffer { address: buffer.address + 4 * whole, bytes: rest }, &rest_of_pattern)
    }

    fn variables(&mut self, module: ModuleId) -> Result<Vec<Variable>, AcceleratorError> {
        let Some(loaded) = self.modules.get(module.0) else { return Ok(Vec::new()) };
        let variable = |name: &String| {
            let symbol = CString::new(name.as_str()).ok()?;
            // SAFETY: the module is loaded. The driver returns an error for an unknown name.
            let found = unsafe { result::module::get_global(loaded.module.handle, symbol) };
            Some(found.map(|(address, bytes)| Variable {
                name: name.clone(),
                buffer: Buffer { address, bytes: bytes as u64 },
            }))
        };
        let found: Result<Vec<_>, _> = loaded.variables.iter().filter_map(variable).collect();
        check("cuModuleGetGlobal", found)
    }

    fn set_world(&mut self, seed: u64) -> Result<(), AcceleratorError> {
        let sms = self.sms()?;
        let world = self.world()?;
        world.on_other_stream = seed & 1 == 1;
        // Two of three seeds make some SMs busy.
        world.busy_sms =
            if (seed >> 1).is_multiple_of(3) { 0 } else { ((seed >> 8) % u64::from(sms.max(2) - 1)) as u32 };
        Ok(())
    }

    fn launch(
        &mut self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<Launched, AcceleratorError> {
        let call = self.call(module, [LaunchStep { entry: kernel, geometry, parameters }])?;
        let mut stream = self.stream;
        if let Some(world) = &self.world {
            let (other, own) = (world.stream, self.stream);
            let (launch_stream, side_stream) =
                if world.on_other_stream { (other, own) } else { (own, other) };
            stream = launch_stream;
            if world.busy_sms > 0 {
                world.helpers.occupy(side_stream, world.busy_sms, BUSY_NS)?;
            }
        }
        call.enqueue(stream)?;
        result::ctx::synchronize().map_err(|error| call.failed(error))?;
        Ok(Launched::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_a_device_without_a_driver_returns_an_error() {
        match CudaDevice::open(99) {
            Err(AcceleratorError::NoDriver(_) | AcceleratorError::NoDevice(99)) => {}
            other => panic!("{other:?}"),
        }
    }
}
