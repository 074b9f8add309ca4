//! Candle's layouts as views of the attention library. Errors name the argument.

use attention::forward::View;
use attention::problem::Dtype;
use attention::tensor::{Shape, Strides};
use candle_core::{DType, DeviceLocation, Layout, Result, Tensor, bail};

/// Refuses tensors that are not all on the CPU or all on one GPU.
pub(crate) fn check_places(tensors: [(&str, &Tensor); 3]) -> Result<()> {
    let wanted = tensors[0].1.device().location();
    if let DeviceLocation::Metal { .. } = wanted {
        bail!("q: it is on {}, but must be on the CPU or on a CUDA GPU", place(wanted))
    }
    for (argument, tensor) in tensors {
        let found = tensor.device().location();
        if found != wanted {
            bail!("{argument}: it is on {}, but q is on {}", place(found), place(wanted))
        }
    }
    Ok(())
}

fn place(location: DeviceLocation) -> String {
    match location {
        DeviceLocation::Cpu => "the CPU".to_owned(),
        DeviceLocation::Cuda { gpu_id } => format!("GPU {gpu_id}"),
        DeviceLocation::Metal { gpu_id } => format!("Metal device {gpu_id}"),
    }
}

/// The view of a tensor `[batch, seq, heads, head_dim]` whose first element is at `address`.
pub(crate) fn view(argument: &str, dtype: DType, layout: &Layout, address: u64) -> Result<View> {
    let (&[batch, seq, heads, head_dim], &[by_batch, by_seq, by_head, by_element]) =
        (layout.dims(), layout.stride())
    else {
        bail!("{argument}: its shape is {:?}, but must be [batch, seq, heads, head_dim]", layout.dims())
    };
    let dtype = match dtype {
        DType::F16 => Dtype::Fp16,
        DType::BF16 => Dtype::Bf16,
        other => bail!("{argument}: its type is {}, but must be f16 or bf16", other.as_str()),
    };
    if head_dim > 1 && by_element != 1 {
        bail!("{argument}: the stride of head_dim is {by_element}, but must be 1; call `contiguous` first")
    }
    Ok(View {
        address,
        dtype,
        shape: Shape { batch, heads, seq, head_dim },
        strides: Strides { batch: by_batch, head: by_head, sequence: by_seq },
    })
}

/// The view of the output, which is contiguous and has the shape and the type of `q`.
pub(crate) fn output(q: &View, address: u64) -> View {
    let Shape { batch, heads, seq, head_dim } = q.shape;
    View::bshd(address, q.dtype, [batch, seq, heads, head_dim])
}

/// One past the last element of a tensor, counted from the start of its storage.
pub(crate) fn end(layout: &Layout) -> usize {
    let first = layout.start_offset();
    if layout.shape().elem_count() == 0 {
        return first;
    }
    let steps = layout.dims().iter().zip(layout.stride());
    first + steps.map(|(extent, stride)| (extent - 1) * stride).sum::<usize>() + 1
}
