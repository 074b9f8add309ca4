//! How to compute attention.

use gpu::accelerator::{Buffer, CudaStream};

use super::serving::Served;
use crate::problem::Mask;

/// How to compute attention. The default has no mask, the usual scale and the default stream.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The keys that each query sees.
    pub mask: Mask,
    /// The factor of the scores, more than 0; `None` is `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
    /// The address of the log-sum-exp of each row, fp32 `[batch, heads, seq_q]`, or `[heads, tokens]` of packed sequences, if
    /// it is wanted.
    pub lse: Option<u64>,
    /// The scales of FP8 tensors.
    pub scales: Scales,
    /// Lengths, pages, packed sequences, windows, sinks and capped scores.
    pub served: Served,
    /// The stream on which the kernel runs. The virtual GPU ignores it.
    pub stream: CudaStream,
    /// Memory that the kernel may overwrite, of [`super::Plan::workspace_bytes`] at least, at a multiple of 16 bytes. Two
    /// launches that may run at the same time must not share it. Few tuned kernels need any: those of FP8 tensors with
    /// thousands of keys.
    pub workspace: Option<Buffer>,
    /// Whether the bits of a row may depend only on its own sequence, and not on the other sequences of the launch, their number
    /// or the number of multiprocessors. Then the kernel and its setting depend only on the types, the numbers of heads and
    /// queries and head_dim, and keys are divided in the same way for each sequence. This takes more time.
    pub batch_invariant: bool,
    /// Whether repeated launches on the same tensors may become a graph, which takes the CPU less time. Attributes of the
    /// stream, such as an access policy, and the partition of a green context may not apply to a graph.
    pub graphs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mask: Mask::None,
            scale: None,
            lse: None,
            scales: Scales::default(),
            served: Served::default(),
            stream: CudaStream::default(),
            workspace: None,
            batch_invariant: false,
            graphs: true,
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
