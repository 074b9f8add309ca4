//! Attention for programs: on tensors that are already on a GPU, on the caller's stream.
//!
//! [`Device`] is a GPU, or the virtual GPU where there is none. [`forward`] computes attention once.
//! [`Device::plan`] selects and compiles the kernel for a shape; [`Plan::launch`] then only enqueues it, so it can be
//! captured in a CUDA graph.
//!
//! ```no_run
//! use warpsmith_attention::forward::{Device, Options, View, forward};
//! use warpsmith_attention::Dtype;
//!
//! // GPU 0, or a virtual H200 on a machine without a GPU.
//! let device = Device::open_default()?;
//! let (batch, heads, seq, head_dim) = (1, 8, 512, 64);
//! let bytes = 2 * batch * heads * seq * head_dim;
//! let q = device.upload("q", &vec![0; bytes])?;
//! let k = device.upload("k", &vec![0; bytes])?;
//! let v = device.upload("v", &vec![0; bytes])?;
//! let o = device.allocate("o", bytes as u64)?;
//!
//! let view = |address| View::bhsd(address, Dtype::Fp16, [batch, heads, seq, head_dim]);
//! let [q, k, v] = [q, k, v].map(|buffer| view(buffer.address));
//! forward(&device, q, k, v, view(o.address), &Options::default())?;
//! let output: Vec<u8> = device.read(o)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Options::served`] has what servers add: lengths of sequences, caches in pages, packed sequences, windows, sinks and
//! capped scores. Lengths and tables of pages are in the memory of the device. They may change between two launches, and
//! between two replays of a CUDA graph with the launch; nothing waits for the device, and nothing is copied to the host.
//!
//! [`Device::quantised_plan`] computes FP8 attention for fp16 and bf16 tensors: it quantises them first. [`Device::time`]
//! times launches.
//!
//! The first call for a setting compiles its kernel, or takes it from the cache or from a [`Pack`]; the compiler is
//! installed if the machine has none. Later calls take microseconds. With the feature `embedded-kernels` the program
//! contains the kernels and needs no compiler: `cargo xtask pack FILE` writes them, and `WARPSMITH_PACK` names the file
//! when the program is built.

mod backend;
mod device;
mod error;
mod options;
mod plan;
mod quantised;
mod quantiser;
mod serving;
mod view;

pub use compiler::Pack;
pub use device::{Device, tuned_requests};
pub use error::ForwardError;
pub use gpu::accelerator::{Buffer, CudaStream as Stream};
pub use options::{Options, Scales};
pub use plan::{Plan, Tensors};
pub use quantised::{Quantisation, QuantisedPlan, ScaledPart};
pub use serving::{KeyWindow, PackedSequences, PageTable, Served};
pub use times::Time;
pub use view::View;

/// Computes attention: `O = softmax(scale * Q K^T + mask) V`. On a GPU it returns when the kernel is enqueued.
///
/// The addresses are used without a check of who owns them: they must be valid on the device, for the shapes and
/// strides of the views, until the kernel has ended.
pub fn forward(
    device: &Device,
    q: View,
    k: View,
    v: View,
    o: View,
    options: &Options,
) -> Result<(), ForwardError> {
    let tensors = Tensors { q, k, v, o };
    device.plan_for_options(&tensors, options)?.launch(&tensors, options)
}
