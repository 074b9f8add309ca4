//! Arguments on a device: allocated and filled buffers, and parameters as bytes.

use gpu::accelerator::{Accelerator, AcceleratorError, Buffer};
use vgpu::TensorMap;
use vgpu::tensor_map::{Element, Swizzle};

use super::{Argument, Dtype, Init, Role, TextureArgument};

/// Buffers of at least this size in bytes are filled on the device if all their elements are 0.
const LARGE: u64 = 32 << 20;

/// The most bytes of contents of all buffers together. Buffers of zeros and outputs do not count: they take memory only
/// where the kernel writes.
const MOST_CONTENTS: u64 = 6 << 30;

/// A launch's arguments on a device.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The bytes of each kernel parameter, in order.
    pub parameters: Vec<Vec<u8>>,
    /// The allocated buffers, in the order of the arguments that have one.
    pub buffers: Vec<PlacedBuffer>,
}

/// A buffer of a launch on a device.
#[derive(Clone, Debug)]
pub struct PlacedBuffer {
    /// The argument's name, or `argument N` if it has none.
    pub name: String,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The buffer's extents in elements, outermost first.
    pub dims: Vec<usize>,
    /// Whether the buffer is an output: the kernel must write every element.
    pub is_output: bool,
    /// The memory on the device.
    pub buffer: Buffer,
}

impl Placed {
    /// Allocates every buffer, fills those that have contents, and builds the parameters.
    pub fn on(device: &mut dyn Accelerator, arguments: &[Argument]) -> Result<Self, AcceleratorError> {
        let mut placed = Placed { parameters: Vec::new(), buffers: Vec::new() };
        let mut contents_left = MOST_CONTENTS;
        for (index, argument) in arguments.iter().enumerate() {
            if let Role::Texture(texture) = &argument.role {
                let name = argument.name.clone().unwrap_or_else(|| format!("argument {index}"));
                placed.parameters.push(place_texture(device, &name, texture)?);
                continue;
            }
            let Some((dtype, dims)) = argument.buffer() else {
                placed.parameters.push(argument.contents().unwrap_or_default());
                continue;
            };
            let name = argument.name.clone().unwrap_or_else(|| format!("argument {index}"));
            let elements: usize = dims.iter().product();
            let buffer = device.allocate(&name, (elements * dtype.bytes()) as u64)?;
            match &argument.role {
                // Large buffers of zeros take memory only where the kernel writes.
                Role::Input { init: Init::Zeros, .. } | Role::InOut { init: Init::Zeros, .. }
                    if buffer.bytes >= LARGE =>
                {
                    device.fill(buffer, 0)?;
                }
                Role::Input { .. } | Role::InOut { .. } => {
                    contents_left = contents_left.checked_sub(buffer.bytes).ok_or_else(|| {
                        let wanted = buffer.bytes;
                        AcceleratorError::Memory(format!(
                            "the {wanted} bytes of `{name}` and of the buffers before it are more than {MOST_CONTENTS}; only \
                             buffers of zeros and outputs may be larger"
                        ))
                    })?;
                    if let Some(contents) = argument.contents() {
                        device.write(buffer, &contents)?;
                    }
                }
                _ => {}
            }
            placed.parameters.push(buffer.parameter());
            let is_output = matches!(argument.role, Role::Out { .. });
            placed.buffers.push(PlacedBuffer { name, dtype, dims: dims.to_vec(), is_output, buffer });
        }
        // The other parameters need addresses of buffers, which may be those of later arguments.
        for (parameter, argument) in (0..).zip(arguments) {
            match &argument.role {
                Role::Tensor { of, extents, swizzle } => {
                    let map = placed.tensor_map(of, extents, *swizzle)?;
                    placed.parameters[parameter] = device.encode_tensor_map(&map)?;
                }
                Role::Same { of, from } => {
                    let PlacedBuffer { buffer, dtype, .. } = placed.buffer(of)?;
                    let offset = from.checked_mul(dtype.bytes() as u64).filter(|&it| it <= buffer.bytes);
                    let Some(offset) = offset else {
                        return Err(refused(format!("`{of}` has no element {from}")));
                    };
                    placed.parameters[parameter] = (buffer.address + offset).to_le_bytes().to_vec();
                }
                _ => {}
            }
        }
        Ok(placed)
    }

    /// The buffer of the argument with this name.
    fn buffer(&self, name: &str) -> Result<&PlacedBuffer, AcceleratorError> {
        let found = self.buffers.iter().find(|buffer| buffer.name == name);
        found.ok_or_else(|| refused(format!("there is no argument `{name}` with a buffer")))
    }

    fn tensor_map(&self, of: &str, extents: &[u32], swizzle: Swizzle) -> Result<TensorMap, AcceleratorError> {
        let placed = self.buffer(of)?;
        let element = match placed.dtype {
            Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 => Element::U8,
            Dtype::F16 => Element::F16,
            Dtype::Bf16 => Element::Bf16,
            Dtype::I16 | Dtype::U16 => Element::U16,
            Dtype::F32 => Element::F32,
            Dtype::I32 => Element::I32,
            Dtype::U32 => Element::U32,
            Dtype::F64 => Element::F64,
            Dtype::I64 => Element::I64,
            Dtype::U64 => Element::U64,
        };
        // Innermost first, which is the last as users write them.
        let dims: Vec<u64> = placed.dims.iter().rev().map(|extent| *extent as u64).collect();
        let extents: Vec<u32> = extents.iter().rev().copied().collect();
        Ok(TensorMap { swizzle, ..TensorMap::packed(element, placed.buffer.address, &dims, &extents) })
    }

    /// The output buffers.
    pub fn outputs(&self) -> Vec<Buffer> {
        self.buffers.iter().filter(|placed| placed.is_output).map(|placed| placed.buffer).collect()
    }

    /// The buffers that are not outputs.
    pub fn others(&self) -> Vec<Buffer> {
        self.buffers.iter().filter(|placed| !placed.is_output).map(|placed| placed.buffer).collect()
    }
}

/// Creates a texture object with its texels. Returns the parameter.
fn place_texture(
    device: &mut dyn Accelerator,
    name: &str,
    texture: &TextureArgument,
) -> Result<Vec<u8>, AcceleratorError> {
    let wrong = |reason: String| refused(format!("{name}: {reason}"));
    let description = texture.description().map_err(wrong)?;
    let bytes = texture.bytes().ok_or_else(|| wrong("the file of the texture was not read".to_owned()))?;
    let texels = device.allocate(name, bytes.len() as u64)?;
    device.write(texels, &bytes)?;
    Ok(device.create_texture(&description, texels)?.to_le_bytes().to_vec())
}

/// The error for arguments that do not fit together.
fn refused(reason: String) -> AcceleratorError {
    AcceleratorError::Arguments(reason)
}
