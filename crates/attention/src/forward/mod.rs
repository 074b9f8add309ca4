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
//! The first call for a setting compiles its kernel, or takes it from the cache or from a [`Pack`]; the compiler is
//! installed if the machine has none. Later calls take microseconds. With the feature `embedded-kernels` the program
//! contains the kernels and needs no compiler: `cargo xtask pack FILE` writes them, and `WARPSMITH_PACK` names the file
//! when the program is built.

mod device;
mod plan;
mod view;

pub use device::{Device, tuned_requests};
pub use gpu::accelerator::CudaStream as Stream;
pub use gpu::build::Pack;
pub use plan::{Plan, Tensors};
pub use view::View;

use gpu::accelerator::{AcceleratorError, Buffer};
use gpu::build::BuildError;
use gpu::toolchain::ToolchainError;

use crate::problem::Mask;

/// How to compute attention. The default has no mask, the usual scale and the default stream.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The keys that each query sees.
    pub mask: Mask,
    /// The factor of the scores, more than 0; `None` is `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
    /// The address of the log-sum-exp of each row, fp32 `[batch, heads, seq_q]`, if it is wanted.
    pub lse: Option<u64>,
    /// The scales of FP8 tensors.
    pub scales: Scales,
    /// The stream on which the kernel runs. The virtual GPU ignores it.
    pub stream: Stream,
    /// Memory that the kernel may overwrite, of [`Plan::workspace_bytes`] at least. Two launches that may run at the
    /// same time must not share it. The tuned kernels need none.
    pub workspace: Option<Buffer>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mask: Mask::None,
            scale: None,
            lse: None,
            scales: Scales::default(),
            stream: Stream::default(),
            workspace: None,
        }
    }
}

/// Addresses of the scales of FP8 tensors, fp32 and contiguous: a value is its code times the scale. `None`: every
/// scale is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scales {
    /// `[batch, heads]`.
    pub q: Option<u64>,
    /// `[batch, kv_heads]`.
    pub k: Option<u64>,
    /// `[batch, kv_heads]`.
    pub v: Option<u64>,
}

/// Why attention cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// An argument is wrong.
    #[error("{argument}: {reason}")]
    Argument {
        /// The name of the argument: `q`, `scale`, ...
        argument: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No kernel supports the problem on this GPU; contains the reason.
    #[error("{0}")]
    Unsupported(String),
    /// There is no compiler for the kernel, and none can be installed.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// The kernel could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An operation of the device failed.
    #[error(transparent)]
    Device(#[from] AcceleratorError),
    /// The virtual GPU found a mistake of the kernel; contains the findings.
    #[error("the virtual GPU found a mistake in the kernel:\n{0}")]
    Findings(String),
}

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
    device.plan_for(&tensors, options.mask)?.launch(&tensors, options)
}

/// The pack that was built into the program.
#[cfg(feature = "embedded-kernels")]
fn embedded_pack() -> Option<Pack> {
    static BYTES: &[u8] =
        include_bytes!(env!("WARPSMITH_PACK", "set WARPSMITH_PACK to a file that `cargo xtask pack` wrote"));
    Pack::read(BYTES).ok()
}

#[cfg(not(feature = "embedded-kernels"))]
fn embedded_pack() -> Option<Pack> {
    None
}

pub(crate) fn wrong(argument: &'static str, reason: impl Into<String>) -> ForwardError {
    ForwardError::Argument { argument, reason: reason.into() }
}
