//! A tensor in an .npy file.

use std::path::Path;
use std::sync::Arc;

use launch::{Dtype, npy};
use op::Refusal;

/// The numbers of an output, and the bits of 64-bit integers.
pub(crate) type Numbers = (Vec<f64>, Vec<u64>);

/// The bits of 64-bit integers; nothing for other types.
pub(crate) fn wide_integers(dtype: Dtype, bytes: &[u8]) -> Vec<u64> {
    if !matches!(dtype, Dtype::I64 | Dtype::U64) {
        return Vec::new();
    }
    dtype.integers(bytes).into_iter().map(i64::cast_unsigned).collect()
}

/// An array in a file.
#[derive(Clone, Debug)]
pub(crate) struct FileArray {
    /// The file, for messages.
    file: String,
    array: Arc<npy::Array>,
}

impl FileArray {
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = path.display().to_string();
        let array = npy::read(path).map_err(|error| format!("{file} {error}"))?;
        Ok(FileArray { file, array: Arc::new(array) })
    }

    /// The extents, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.array.dims
    }

    /// The elements, if the array has this type and shape. A type that numpy lacks is stored as an integer of its width.
    pub fn elements(&self, name: &str, dtype: Dtype, dims: &[usize]) -> Result<&[u8], Refusal> {
        let FileArray { file, array } = self;
        let stores_bits = dtype.may_be_stored_as(array.dtype);
        if array.dtype != dtype && !stores_bits {
            let (stored, wanted) = (array.dtype.name(), dtype.name());
            return Err(Refusal::new(format!("{file} has the type {stored}, but {name} is {wanted}")));
        }
        self.check_shape(name, dims)?;
        Ok(&array.elements)
    }

    fn check_shape(&self, name: &str, dims: &[usize]) -> Result<(), Refusal> {
        let FileArray { file, array } = self;
        if array.dims == dims {
            return Ok(());
        }
        Err(Refusal::new(format!("{file} has the shape {:?}, but {name} has {dims:?}", array.dims)))
    }

    /// The expected numbers of an output. They may be more precise than the output.
    pub fn numbers(&self, name: &str, dtype: Dtype, dims: &[usize]) -> Result<Numbers, Refusal> {
        if self.array.dtype.is_float() && dtype.is_float() {
            self.check_shape(name, dims)?;
            return Ok((self.array.dtype.floats(&self.array.elements), Vec::new()));
        }
        let elements = self.elements(name, dtype, dims)?;
        Ok((dtype.floats(elements), wide_integers(dtype, elements)))
    }
}
