//! Arguments of a launch, as the Python package describes them.

use launch::{Argument, Dtype, Init, Role};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use vgpu::tensor_map::Swizzle;

use crate::UsageError;

/// One argument. `kind` is the role; the other fields depend on it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Given {
    /// The parameter's name in messages.
    name: String,
    /// `inout`, `out`, `scratch`, `number`, `bytes`, `null`, `same` or `tensor`.
    kind: String,
    /// The type of a buffer's elements.
    dtype: String,
    /// The extents of a buffer, or of the boxes of a tensor map.
    dims: Vec<usize>,
    /// The contents of a buffer, or raw bytes of a parameter.
    data: PyBackedBytes,
    /// A number, or the name of the buffer that `same` or `tensor` refers to.
    text: String,
    /// The first element of `same`, or the code of the swizzle of `tensor`.
    from: u64,
    /// Elements of a buffer that point into buffers of other arguments.
    pub pointers: Vec<Pointer>,
}

/// A pointer in a buffer: the byte where it is, the argument whose buffer it points into, and the byte there.
pub type Pointer = (usize, usize, u64);

impl Given {
    /// Whether the argument has a buffer of its own.
    pub fn has_buffer(&self) -> bool {
        matches!(self.kind.as_str(), "inout" | "out" | "scratch")
    }

    /// The argument for the launch.
    pub fn argument(self) -> PyResult<Argument> {
        let Given { name, kind, dtype, dims, data, text, from, pointers: _ } = self;
        let failed = |reason: String| UsageError::new_err(format!("argument `{name}`: {reason}"));
        let dtype = || dtype.parse::<Dtype>().map_err(failed);
        let role = match kind.as_str() {
            "inout" => {
                let dtype = dtype()?;
                if dims.iter().product::<usize>() * dtype.bytes() != data.len() {
                    return Err(failed(format!("has {} bytes, which is not its shape {dims:?}", data.len())));
                }
                Role::InOut { dtype, dims, init: Init::Elements(data.as_ref().into()) }
            }
            "out" => Role::Out { dtype: dtype()?, dims },
            "scratch" => Role::Scratch { dtype: dtype()?, dims },
            "number" => Role::Literal(text),
            "bytes" => Role::Bytes(data.to_vec()),
            "null" => Role::Null,
            "same" => Role::Same { of: text, from },
            "tensor" => {
                let swizzle = Swizzle::ALL.get(from as usize).copied();
                let swizzle = swizzle.ok_or_else(|| failed(format!("{from} is not a swizzle")))?;
                let extent =
                    |&extent: &usize| u32::try_from(extent).map_err(|_| failed("has a huge box".to_owned()));
                Role::Tensor { of: text, extents: dims.iter().map(extent).collect::<PyResult<_>>()?, swizzle }
            }
            other => return Err(failed(format!("`{other}` is not a kind of argument"))),
        };
        Ok(Argument { name: Some(name), role })
    }
}
