//! Attention of tensors on a GPU: on candle's memory and stream.

use attention::forward::{Buffer, Stream, Tensors, View};
use candle_core::backend::{BackendDevice as _, BackendStorage as _};
use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::{
    CudaStream, DevicePtr as _, DevicePtrMut as _, DeviceRepr, SyncOnDrop,
};
use candle_core::{CudaDevice, CudaStorage, DType, DeviceLocation, Layout, Result, Shape, WithDType, bail};
use half::{bf16, f16};

use crate::FlashAttn;
use crate::arguments::{end, output, view};

/// A tensor of candle: its storage, and where its elements are in it.
type Argument<'s> = (&'s CudaStorage, &'s Layout);

pub(crate) fn forward(op: &FlashAttn, arguments: [Argument<'_>; 3]) -> Result<(CudaStorage, Shape)> {
    match arguments[0].0.dtype() {
        DType::F16 => typed::<f16>(op, arguments),
        DType::BF16 => typed::<bf16>(op, arguments),
        other => bail!("q: its type is {}, but must be f16 or bf16", other.as_str()),
    }
}

fn typed<T: CudaDType + DeviceRepr + WithDType>(
    op: &FlashAttn,
    [q, k, v]: [Argument<'_>; 3],
) -> Result<(CudaStorage, Shape)> {
    let candle = q.0.device();
    let device = op.device(Some(index(candle)?))?;
    let stream = candle.cuda_stream();
    let shape = q.1.shape().clone();
    // SAFETY: the kernel writes every element.
    let mut written = unsafe { candle.alloc::<T>(shape.elem_count()) }?;
    let mut scratch = None;
    {
        // Each guard records the use of its tensor on the stream when it is dropped, after the launch.
        let (q, _q) = pointer::<T>("q", q, &stream)?;
        let (k, _k) = pointer::<T>("k", k, &stream)?;
        let (v, _v) = pointer::<T>("v", v, &stream)?;
        let (address, _written) = written.device_ptr_mut(&stream);
        let tensors = Tensors { q, k, v, o: output(&q, address) };
        op.launch(&device, &tensors, Stream(stream.cu_stream() as u64), |bytes| {
            // SAFETY: the kernel writes what it reads of its workspace.
            let slice = scratch.insert(unsafe { candle.alloc::<u8>(bytes as usize) }?);
            let (address, _) = slice.device_ptr_mut(&stream);
            Ok(Buffer { address, bytes })
        })?;
    }
    Ok((CudaStorage::wrap_cuda_slice(written, candle.clone()), shape))
}

/// The number of the GPU of a device of candle.
fn index(device: &CudaDevice) -> Result<u32> {
    match device.location() {
        DeviceLocation::Cuda { gpu_id } => u32::try_from(gpu_id).map_err(candle_core::Error::wrap),
        other => bail!("q: it is on {other:?}, but must be on a CUDA GPU"),
    }
}

/// The view of a tensor, and the guard of its use on the stream.
fn pointer<'s, T: CudaDType + DeviceRepr + WithDType>(
    argument: &str,
    (storage, layout): Argument<'s>,
    stream: &'s CudaStream,
) -> Result<(View, SyncOnDrop<'s>)> {
    let view = view(argument, storage.dtype(), layout, 0)?;
    if storage.dtype() != T::DTYPE {
        let (found, wanted) = (storage.dtype().as_str(), T::DTYPE.as_str());
        bail!("{argument}: its type is {found}, but that of q is {wanted}")
    }
    let slice = storage.as_cuda_slice::<T>()?;
    if end(layout) > slice.len() {
        bail!("{argument}: its layout {layout:?} exceeds its storage of {} elements", slice.len())
    }
    let (address, guard) = slice.device_ptr(stream);
    Ok((View { address: address + (2 * layout.start_offset()) as u64, ..view }, guard))
}
