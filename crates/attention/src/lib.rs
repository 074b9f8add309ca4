//! Attention, the flagship op: what is computed, on what, how right it must be, and how a kernel is run on it.
//!
//! `O = softmax(scale * Q K^T + mask) V`, in the order data flows:
//!
//! * [`problem`]: shape, mask and dtype, by name (`b2h8s2048d64-causal-e4m3`) or alias (`mission`);
//! * [`tensor`]: host values, and the encoded, strided tensors kernels read;
//! * [`inputs`]: seeded inputs, by class;
//! * [`quantise`]: E4M3 with a scale per head;
//! * [`oracle`]: the answer in float64;
//! * [`arguments`]: the parameter of every attention kernel, as the CUDA sources declare it;
//! * [`run`]: a family's candidate on a device: capabilities, memory with guards, launch, results;
//! * [`metrics`]: how far an answer is from the oracle's, and whether that is acceptable;
//! * [`error_map`]: where it is wrong, for people.
//!
//! Nothing here times, searches or prints.

pub mod arguments;
pub mod error_map;
pub mod inputs;
pub mod metrics;
pub mod oracle;
pub mod problem;
pub mod quantise;
pub mod run;
pub mod tensor;

pub use inputs::{Class, Encoded, Inputs};
pub use problem::{Dtype, Mask, Problem};
pub use tensor::{Layout, Shape, Tensor, Values};
