//! A GPU: its context, memory and modules.

use std::ffi::{CString, c_void};
use std::fs;
use std::path::{Path, PathBuf};

use cudarc::driver::{result, sys};

use super::launch::Call;
use crate::accelerator::{Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId};

/// One GPU with its primary context. Used from the thread that opened it.
#[derive(Debug)]
pub struct CudaDevice {
    index: u32,
    name: String,
    device: sys::CUdevice,
    /// Everything is done on this one, in order.
    pub(super) stream: sys::CUstream,
    modules: Vec<sys::CUmodule>,
}

/// Whether the driver library can be loaded at all. To be asked before any other call: cudarc panics without it.
fn driver_is_present() -> bool {
    // SAFETY: it only tries to open the library.
    unsafe { sys::is_culib_present() }
}

/// The folder of the driver library, which is loaded for it. The library loads others from there when it needs them.
pub fn driver_folder() -> Option<PathBuf> {
    if !driver_is_present() {
        return None;
    }
    // SAFETY: it loads the library, which is present, and keeps it loaded.
    unsafe { sys::culib() };
    // The loader found it by its name and may have followed links.
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let is_driver =
        |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcuda.so"));
    paths.into_iter().find(is_driver).and_then(Path::parent).map(Path::to_owned)
}

pub(super) fn check<T>(
    call: &'static str,
    outcome: Result<T, result::DriverError>,
) -> Result<T, AcceleratorError> {
    outcome.map_err(|error| AcceleratorError::Driver { call: call.into(), reason: reason(error) })
}

/// The driver's own name and sentence for an error.
pub(super) fn reason(error: result::DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    match (name, text) {
        (Ok(name), Ok(text)) => format!("{text} ({name})"),
        _ => format!("{:?}", error.0),
    }
}

/// The driver's handle of GPU number `index`.
fn handle(index: u32) -> Result<sys::CUdevice, AcceleratorError> {
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

/// Holds the GPU's primary context and makes it this thread's.
fn retain(device: sys::CUdevice) -> Result<(), AcceleratorError> {
    // SAFETY: the device handle was given out by the driver.
    let context = check("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
    // SAFETY: the context was just retained.
    let current = check("cuCtxSetCurrent", unsafe { result::ctx::set_current(context) });
    current.inspect_err(|_| release(device))
}

fn release(device: sys::CUdevice) {
    // SAFETY: retained once before.
    let _ = unsafe { result::primary_ctx::release(device) };
}

/// Keeps a GPU's context alive while devices are opened on it and closed again: opening the next costs nothing.
#[derive(Debug)]
pub struct HeldContext {
    device: sys::CUdevice,
}

impl HeldContext {
    pub fn new(index: u32) -> Result<Self, AcceleratorError> {
        let device = handle(index)?;
        retain(device)?;
        Ok(HeldContext { device })
    }
}

impl Drop for HeldContext {
    fn drop(&mut self) {
        release(self.device);
    }
}

impl CudaDevice {
    /// Opens GPU number `index`.
    pub fn open(index: u32) -> Result<Self, AcceleratorError> {
        let device = handle(index)?;
        let name = check("cuDeviceGetName", result::device::get_name(device))?;
        retain(device)?;
        // A blocking stream: copies go over the null stream, and a launch must wait for those before it.
        let stream = check("cuStreamCreate", result::stream::create(result::stream::StreamKind::Default))
            .inspect_err(|_| release(device))?;
        Ok(CudaDevice { index, name, device, stream, modules: Vec::new() })
    }

    pub fn l2_bytes(&self) -> Result<u64, AcceleratorError> {
        let attribute = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        // SAFETY: the device handle came from the driver.
        let bytes = unsafe { result::device::get_attribute(self.device, attribute) };
        Ok(check("cuDeviceGetAttribute", bytes)?.max(0) as u64)
    }

    /// A launch to be done later, and often.
    pub fn call(
        &self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<Call, AcceleratorError> {
        let module =
            self.modules.get(module.0).ok_or_else(|| AcceleratorError::NoKernel(kernel.to_owned()))?;
        Call::new(*module, kernel, geometry, parameters)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        for &module in &self.modules {
            // SAFETY: loaded by this device and unloaded once. After a sticky error the driver refuses, which is fine.
            let _ = unsafe { result::module::unload(module) };
        }
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
        // SAFETY: a context is current. The driver refuses zero bytes, so one is asked for.
        let address = unsafe { result::malloc_sync(bytes.max(1) as usize) }.map_err(|error| {
            AcceleratorError::Memory(format!("{bytes} bytes for {label}: {}", reason(error)))
        })?;
        Ok(Buffer { address, bytes })
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), AcceleratorError> {
        // SAFETY: an address that is no allocation is refused by the driver.
        check("cuMemFree", unsafe { result::free_sync(buffer.address) })
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError> {
        let length = bytes.len().min(buffer.bytes as usize);
        // SAFETY: no more than the buffer's length is copied; the driver checks the address.
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
        let module = unsafe { result::module::load_data(data) }
            .map_err(|error| AcceleratorError::Load(reason(error)))?;
        self.modules.push(module);
        Ok(ModuleId(self.modules.len() - 1))
    }

    fn launch(
        &mut self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<Launched, AcceleratorError> {
        let call = self.call(module, kernel, geometry, parameters)?;
        call.enqueue(self.stream)?;
        result::ctx::synchronize().map_err(|error| call.failed(error))?;
        Ok(Launched::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_opening_is_an_error_value() {
        match CudaDevice::open(99) {
            Err(AcceleratorError::NoDriver(_) | AcceleratorError::NoDevice(99)) => {}
            other => panic!("{other:?}"),
        }
    }
}
