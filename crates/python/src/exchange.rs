//! Tensors of another Python package without Python calls: DLPack's table of C functions
//! (`__dlpack_c_exchange_api__`, DLPack 1.3). PyTorch has it since version 2.10.

use std::ffi::c_void;
use std::ptr::NonNull;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The major version of the table that this module knows.
const MAJOR_VERSION: u32 = 1;

/// DLPack's number of CUDA devices.
pub const CUDA: i32 = 2;

#[repr(C)]
struct Table {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocate: *const c_void,
    to_managed: *const c_void,
    from_managed: *const c_void,
    describe: Option<unsafe extern "C" fn(*mut c_void, *mut RawTensor) -> i32>,
    current_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> i32>,
}

#[repr(C)]
struct RawTensor {
    data: *mut c_void,
    device_kind: i32,
    device_index: i32,
    axes: i32,
    kind: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    offset: u64,
}

/// The functions of one package for its tensors.
#[derive(Debug)]
pub struct Exchange {
    describe: unsafe extern "C" fn(*mut c_void, *mut RawTensor) -> i32,
    current_stream: unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> i32,
}

/// A tensor with four axes.
#[derive(Clone, Copy, Debug)]
pub struct ExchangedTensor {
    pub address: u64,
    /// DLPack's numbers of the kind and of the device.
    pub device: (i32, i32),
    /// DLPack's code of the type, and its bits.
    pub dtype: (u8, u8),
    pub shape: [usize; 4],
    /// Distances in elements.
    pub strides: [usize; 4],
}

impl Exchange {
    /// The functions of the table in a capsule.
    pub fn new(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let table: NonNull<c_void> = capsule.pointer_checked(Some(c"dlpack_exchange_api"))?;
        // SAFETY: a capsule of this name has a pointer to the table, which lives as long as the process. The version is
        // the first field in every version.
        let table = unsafe { table.cast::<Table>().as_ref() };
        match (table.major, table.describe, table.current_stream) {
            (MAJOR_VERSION, Some(describe), Some(current_stream)) => {
                Ok(Exchange { describe, current_stream })
            }
            (major, ..) => Err(PyValueError::new_err(format!(
                "version {major} of DLPack's exchange table is not supported"
            ))),
        }
    }

    /// Describes a tensor; `None` if it does not have four axes. The value must be of the package's own type.
    pub fn tensor(&self, value: &Bound<'_, PyAny>) -> PyResult<Option<ExchangedTensor>> {
        let mut raw = RawTensor {
            data: std::ptr::null_mut(),
            device_kind: 0,
            device_index: 0,
            axes: 0,
            kind: 0,
            bits: 0,
            lanes: 0,
            shape: std::ptr::null(),
            strides: std::ptr::null(),
            offset: 0,
        };
        // SAFETY: the table's function fills the struct, or sets a Python exception and returns -1.
        if unsafe { (self.describe)(value.as_ptr().cast(), &raw mut raw) } != 0 {
            return Err(PyErr::fetch(value.py()));
        }
        if raw.axes != 4 || raw.lanes != 1 || raw.shape.is_null() || raw.strides.is_null() {
            return Ok(None);
        }
        // SAFETY: both arrays have as many elements as the tensor has axes, and live as long as the tensor.
        let (shape, strides) = unsafe { (*raw.shape.cast::<[i64; 4]>(), *raw.strides.cast::<[i64; 4]>()) };
        Ok(Some(ExchangedTensor {
            address: raw.data as u64 + raw.offset,
            device: (raw.device_kind, raw.device_index),
            dtype: (raw.kind, raw.bits),
            shape: shape.map(|extent| extent as usize),
            strides: strides.map(|stride| stride as usize),
        }))
    }

    /// The package's current stream of a CUDA device.
    pub fn stream(&self, py: Python<'_>, index: i32) -> PyResult<u64> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the table's function writes one handle, or sets a Python exception and returns -1.
        if unsafe { (self.current_stream)(CUDA, index, &raw mut stream) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(stream as u64)
    }
}
