//! Arguments on a device: allocated and filled buffers, and parameters as bytes.

use super::{Argument, Dtype, Role};
use crate::accelerator::{Accelerator, AcceleratorError, Buffer};

/// A launch's arguments on a device.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The bytes of each kernel parameter, in order.
    pub parameters: Vec<Vec<u8>>,
    pub buffers: Vec<PlacedBuffer>,
}

/// A buffer of a launch on a device.
#[derive(Clone, Debug)]
pub struct PlacedBuffer {
    pub name: String,
    pub dtype: Dtype,
    pub dims: Vec<usize>,
    /// Whether the buffer is an output: the kernel must write every element.
    pub is_output: bool,
    pub buffer: Buffer,
}

impl Placed {
    /// Allocates every buffer, fills those that have contents, and builds the parameters.
    pub fn on(device: &mut dyn Accelerator, arguments: &[Argument]) -> Result<Self, AcceleratorError> {
        let mut placed = Placed { parameters: Vec::new(), buffers: Vec::new() };
        for (index, argument) in arguments.iter().enumerate() {
            let contents = argument.contents();
            let Some((dtype, dims)) = argument.buffer() else {
                placed.parameters.push(contents.unwrap_or_default());
                continue;
            };
            let name = argument.name.clone().unwrap_or_else(|| format!("argument {index}"));
            let elements: usize = dims.iter().product();
            let buffer = device.allocate(&name, (elements * dtype.bytes()) as u64)?;
            if let Some(contents) = contents {
                device.write(buffer, &contents)?;
            }
            placed.parameters.push(buffer.parameter());
            let is_output = matches!(argument.role, Role::Out { .. });
            placed.buffers.push(PlacedBuffer { name, dtype, dims: dims.to_vec(), is_output, buffer });
        }
        Ok(placed)
    }

    /// The output buffers.
    pub fn outputs(&self) -> Vec<Buffer> {
        self.buffers.iter().filter(|placed| placed.is_output).map(|placed| placed.buffer).collect()
    }
}
