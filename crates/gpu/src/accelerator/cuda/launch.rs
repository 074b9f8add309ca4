//! A kernel with everything that its launch needs.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::{result, sys};

use super::status::reason;
use crate::accelerator::{AcceleratorError, Geometry, LaunchStep};

/// Dynamic shared memory that a kernel may use without an opt-in.
const DEFAULT_SHARED: u32 = 48 * 1024;

/// A loaded module.
#[derive(Debug)]
pub(super) struct Module {
    pub handle: sys::CUmodule,
    /// The number of parameters of kernels, as far as it is known.
    pub parameter_counts: HashMap<String, usize>,
}

/// Launches in order that were resolved and checked once and can run any number of times.
#[derive(Debug)]
pub struct Call(Vec<OneCall>);

#[derive(Debug)]
struct OneCall {
    name: String,
    function: sys::CUfunction,
    geometry: Geometry,
    parameters: Vec<Vec<u8>>,
}

// SAFETY: a function's handle is valid in every thread, as long as its module is loaded.
unsafe impl Send for OneCall {}
// SAFETY: as above; a call is never changed.
unsafe impl Sync for OneCall {}

impl Call {
    pub(super) fn new<'l>(
        module: &Module,
        launches: impl IntoIterator<Item = LaunchStep<'l>>,
    ) -> Result<Self, AcceleratorError> {
        Ok(Call(launches.into_iter().map(|launch| OneCall::new(module, launch)).collect::<Result<_, _>>()?))
    }

    /// Enqueues the launches on a stream and returns before they have run.
    pub(super) fn enqueue(&self, stream: sys::CUstream) -> Result<(), AcceleratorError> {
        self.0.iter().try_for_each(|call| call.enqueue(stream))
    }

    /// Translates a driver error of these launches into an accelerator error.
    pub(super) fn failed(&self, error: result::DriverError) -> AcceleratorError {
        match self.0.last() {
            Some(call) => call.failed(error),
            None => AcceleratorError::Lost(reason(error)),
        }
    }
}

impl OneCall {
    fn new(
        module: &Module,
        LaunchStep { entry: kernel, geometry, parameters }: LaunchStep<'_>,
    ) -> Result<Self, AcceleratorError> {
        let missing = || AcceleratorError::NoKernel(kernel.to_owned());
        let name = CString::new(kernel).map_err(|_| missing())?;
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(module.handle, name) }.map_err(|_| missing())?;
        check_parameters(function, parameters, module.parameter_counts.get(kernel).copied())
            .map_err(|reason| AcceleratorError::Launch { kernel: kernel.to_owned(), reason })?;
        let call = OneCall { name: kernel.to_owned(), function, geometry, parameters: parameters.to_vec() };
        call.request_shared_memory()?;
        Ok(call)
    }

    fn request_shared_memory(&self) -> Result<(), AcceleratorError> {
        use sys::CUfunction_attribute_enum::{
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
        };
        let bytes = self.geometry.shared_bytes;
        // SAFETY: the function belongs to a loaded module.
        let fixed = unsafe {
            result::function::get_function_attribute(self.function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        };
        let fixed = fixed.map_err(|error| self.failed(error))?;
        if bytes > 0 && i64::from(bytes) + i64::from(fixed) > i64::from(DEFAULT_SHARED) {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to a loaded module.
            unsafe { result::function::set_function_attribute(self.function, attribute, bytes as i32) }
                .map_err(|error| AcceleratorError::TooLarge {
                    kernel: self.name.clone(),
                    reason: format!("{bytes} bytes of shared memory per block: {}", reason(error)),
                })?;
        }
        if self.geometry.cluster.iter().product::<u32>() > 8 {
            let attribute = CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
            // SAFETY: the function belongs to a loaded module.
            unsafe { result::function::set_function_attribute(self.function, attribute, 1) }
                .map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn enqueue(&self, stream: sys::CUstream) -> Result<(), AcceleratorError> {
        let [x, y, z] = self.geometry.grid;
        let [bx, by, bz] = self.geometry.block;
        let mut attributes = Vec::new();
        if self.geometry.cluster != [1; 3] {
            let [x, y, z] = self.geometry.cluster;
            attributes.push(sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue {
                    clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z },
                },
            });
        }
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: self.geometry.shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let mut pointers: Vec<*mut c_void> =
            self.parameters.iter().map(|bytes| bytes.as_ptr().cast_mut().cast()).collect();
        // SAFETY: the driver reads as many bytes of each parameter as the kernel declares; `new` compared the sizes.
        // The attributes outlive the call, and the call copies everything.
        unsafe {
            sys::cuLaunchKernelEx(&raw const config, self.function, pointers.as_mut_ptr(), ptr::null_mut())
        }
        .result()
        .map_err(|error| self.failed(error))
    }

    /// Translates a driver error of this launch into an accelerator error.
    fn failed(&self, error: result::DriverError) -> AcceleratorError {
        use sys::CUresult as R;
        let (kernel, reason) = (self.name.clone(), reason(error));
        match error.0 {
            R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE => AcceleratorError::Fault { kernel, reason, access: true },
            R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_LAUNCH_TIMEOUT
            | R::CUDA_ERROR_LAUNCH_FAILED => AcceleratorError::Fault { kernel, reason, access: false },
            R::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => AcceleratorError::TooLarge { kernel, reason },
            R::CUDA_ERROR_OUT_OF_MEMORY => {
                AcceleratorError::Memory(format!("launching `{kernel}`: {reason}"))
            }
            _ => AcceleratorError::Launch { kernel, reason },
        }
    }
}

/// Compares the number and sizes of the parameters with the kernel's declaration. The driver cannot: it reads the
/// parameters without knowing how many bytes we hold. If the number is not known, the driver is asked for one parameter
/// too many. It then returns an error, which compute-sanitizer reports.
fn check_parameters(
    function: sys::CUfunction,
    parameters: &[Vec<u8>],
    known_count: Option<usize>,
) -> Result<(), String> {
    let declared = |index: usize| {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is loaded; the driver returns an error for an index past the last parameter.
        let status = unsafe { sys::cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut size) };
        (status == sys::CUresult::CUDA_SUCCESS).then_some(size)
    };
    for (index, bytes) in parameters.iter().enumerate() {
        match declared(index) {
            None => {
                return Err(format!(
                    "got {} arguments, but the kernel has {index} parameters",
                    parameters.len()
                ));
            }
            Some(size) if size != bytes.len() => {
                return Err(format!(
                    "argument {index} has {} bytes, but the kernel's parameter has {size}",
                    bytes.len()
                ));
            }
            Some(_) => {}
        }
    }
    if known_count == Some(parameters.len()) {
        return Ok(());
    }
    match declared(parameters.len()) {
        Some(_) => Err(format!("got {} arguments, but the kernel has more parameters", parameters.len())),
        None => Ok(()),
    }
}
