//! A CUDA GPU, through the driver library, which is loaded at run time: without it there is an error, not a panic.

use std::ffi::{CString, c_void};

use cudarc::driver::{result, sys};

use super::{Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId};

/// One GPU with its primary context. Used from the thread that opened it.
#[derive(Debug)]
pub struct CudaDevice {
    index: u32,
    name: String,
    device: sys::CUdevice,
    modules: Vec<sys::CUmodule>,
}

/// Whether the driver library can be loaded at all. To be asked before any other call: cudarc panics without it.
fn driver_is_present() -> bool {
    // SAFETY: it only tries to open the library.
    unsafe { sys::is_culib_present() }
}

fn check<T>(call: &'static str, outcome: Result<T, result::DriverError>) -> Result<T, AcceleratorError> {
    outcome.map_err(|error| AcceleratorError::Driver { call, reason: reason(error) })
}

/// The driver's own name and sentence for an error.
fn reason(error: result::DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    match (name, text) {
        (Ok(name), Ok(text)) => format!("{text} ({name})"),
        _ => format!("{:?}", error.0),
    }
}

impl CudaDevice {
    /// Opens GPU number `index`.
    pub fn open(index: u32) -> Result<Self, AcceleratorError> {
        if !driver_is_present() {
            return Err(AcceleratorError::NoDriver("libcuda.so.1 is not installed".to_owned()));
        }
        result::init().map_err(|error| AcceleratorError::NoDriver(reason(error)))?;
        let count = check("cuDeviceGetCount", result::device::get_count())?;
        if i64::from(index) >= i64::from(count) {
            return Err(AcceleratorError::NoDevice(index));
        }
        let device = check("cuDeviceGet", result::device::get(index as i32))?;
        let name = check("cuDeviceGetName", result::device::get_name(device))?;
        // SAFETY: the device handle was just given out by the driver.
        let context = check("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
        // SAFETY: the context was just retained.
        check("cuCtxSetCurrent", unsafe { result::ctx::set_current(context) })?;
        Ok(CudaDevice { index, name, device, modules: Vec::new() })
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        for &module in &self.modules {
            // SAFETY: loaded by this device and unloaded once. After a sticky error the driver refuses, which is fine.
            let _ = unsafe { result::module::unload(module) };
        }
        // SAFETY: retained in `open`, released once.
        let _ = unsafe { result::primary_ctx::release(self.device) };
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
        const DEFAULT_SHARED: u32 = 48 * 1024;
        let missing = || AcceleratorError::NoKernel(kernel.to_owned());
        let failed = |reason: String| AcceleratorError::Launch { kernel: kernel.to_owned(), reason };
        let module = *self.modules.get(module.0).ok_or_else(missing)?;
        let name = CString::new(kernel).map_err(|_| missing())?;
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(module, name) }.map_err(|_| missing())?;
        check_parameters(function, parameters).map_err(failed)?;
        if geometry.shared_bytes > DEFAULT_SHARED {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to a loaded module.
            unsafe {
                result::function::set_function_attribute(function, attribute, geometry.shared_bytes as i32)
            }
            .map_err(|error| failed(reason(error)))?;
        }
        let mut pointers: Vec<*mut c_void> =
            parameters.iter().map(|bytes| bytes.as_ptr().cast_mut().cast()).collect();
        let [x, y, z] = geometry.grid;
        let [bx, by, bz] = geometry.block;
        // SAFETY: the driver reads as many bytes of each parameter as the kernel declares, which was just compared.
        unsafe {
            result::launch_kernel(
                function,
                (x, y, z),
                (bx, by, bz),
                geometry.shared_bytes,
                result::stream::null(),
                &mut pointers,
            )
        }
        .map_err(|error| failed(reason(error)))?;
        result::ctx::synchronize().map_err(|error| failed(reason(error)))?;
        Ok(Launched::default())
    }
}

/// The driver reads a kernel's parameters without knowing how many bytes we hold, so their number and sizes are
/// compared with what the kernel declares first.
fn check_parameters(function: sys::CUfunction, parameters: &[Vec<u8>]) -> Result<(), String> {
    let declared = |index: usize| {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is loaded; an index past the last parameter is answered with an error.
        let status = unsafe { sys::cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut size) };
        (status == sys::CUresult::CUDA_SUCCESS).then_some(size)
    };
    for (index, bytes) in parameters.iter().enumerate() {
        match declared(index) {
            None => return Err(format!("{} arguments given, the kernel has {index}", parameters.len())),
            Some(size) if size != bytes.len() => {
                return Err(format!(
                    "argument {index} has {} bytes, the kernel's parameter {size}",
                    bytes.len()
                ));
            }
            Some(_) => {}
        }
    }
    match declared(parameters.len()) {
        Some(_) => Err(format!("{} arguments given, the kernel has more", parameters.len())),
        None => Ok(()),
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
