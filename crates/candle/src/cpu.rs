//! Attention of tensors on the CPU: they are copied to the virtual GPU, and the result is copied back.

use attention::forward::{Buffer, Device, Stream, Tensors, View};
use attention::problem::Dtype;
use candle_core::backend::BackendStorage as _;
use candle_core::{CpuStorage, Layout, Result, Shape, bail};
use half::{bf16, f16};

use crate::arguments::{end, output, view};
use crate::{FlashAttn, error};

/// A tensor of candle: its storage, and where its elements are in it.
type Argument<'s> = (&'s CpuStorage, &'s Layout);

pub(crate) fn forward(op: &FlashAttn, [q, k, v]: [Argument<'_>; 3]) -> Result<(CpuStorage, Shape)> {
    let device = op.device(None)?;
    let mut memory = Memory { device: &device, buffers: Vec::new() };
    let shape = q.1.shape().clone();
    let (q, k, v) = (memory.upload("q", q)?, memory.upload("k", k)?, memory.upload("v", v)?);
    let written = memory.keep(device.allocate("output", (2 * shape.elem_count()) as u64).map_err(error)?);
    let tensors = Tensors { q, k, v, o: output(&q, written.address) };
    op.launch(&device, &tensors, Stream::default(), |bytes| {
        Ok(memory.keep(device.allocate("workspace", bytes).map_err(error)?))
    })?;
    Ok((decode(q.dtype, &device.read(written).map_err(error)?), shape))
}

/// Memory of the virtual GPU for one call.
struct Memory<'d> {
    device: &'d Device,
    buffers: Vec<Buffer>,
}

impl Memory<'_> {
    fn keep(&mut self, buffer: Buffer) -> Buffer {
        self.buffers.push(buffer);
        buffer
    }

    /// Copies a tensor as it is, so that the kernel sees candle's strides and alignment.
    fn upload(&mut self, argument: &str, (storage, layout): Argument<'_>) -> Result<View> {
        let view = view(argument, storage.dtype(), layout, 0)?;
        let bytes: Vec<u8> = match storage {
            CpuStorage::F16(values) => encode(argument, values, layout, f16::to_le_bytes)?,
            CpuStorage::BF16(values) => encode(argument, values, layout, bf16::to_le_bytes)?,
            other => bail!("{argument}: its type is {}, but must be f16 or bf16", other.dtype().as_str()),
        };
        let buffer = self.keep(self.device.upload(argument, &bytes).map_err(error)?);
        Ok(View { address: buffer.address + (2 * layout.start_offset()) as u64, ..view })
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        for buffer in self.buffers.drain(..) {
            // The virtual GPU frees what it allocated; a failure leaves memory that ends with the device.
            let _ = self.device.free(buffer);
        }
    }
}

/// The bytes of a storage, from its start to the last element of a tensor.
fn encode<T: Copy>(
    argument: &str,
    values: &[T],
    layout: &Layout,
    bytes: fn(T) -> [u8; 2],
) -> Result<Vec<u8>> {
    let Some(values) = values.get(..end(layout)) else {
        bail!("{argument}: its layout {layout:?} exceeds its storage of {} elements", values.len())
    };
    Ok(values.iter().flat_map(|&value| bytes(value)).collect())
}

fn decode(dtype: Dtype, bytes: &[u8]) -> CpuStorage {
    let codes = bytes.chunks_exact(2).map(|code| u16::from_le_bytes([code[0], code[1]]));
    match dtype {
        Dtype::Bf16 => CpuStorage::BF16(codes.map(bf16::from_bits).collect()),
        _ => CpuStorage::F16(codes.map(f16::from_bits).collect()),
    }
}
