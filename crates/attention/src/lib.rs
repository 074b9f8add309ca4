//! Attention, the main op: its problems, inputs, reference and tolerances, and how a kernel runs on a problem.
//!
//! `O = softmax(scale * Q K^T + mask) V`. The modules, in the order of the data flow:
//!
//! * [`forward`]: attention for programs, on tensors that are on a GPU;
//! * [`problem`]: shape, mask and dtype, by name (`b2h8s2048d64-causal-e4m3`) or alias (`mission`);
//! * [`tensor`]: values on the host, and the encoded, strided tensors that kernels read;
//! * [`inputs`]: seeded inputs, by class;
//! * [`quantise`]: E4M3 with a scale per head;
//! * [`oracle`]: the reference in float64;
//! * [`arguments`]: the parameter of every attention kernel, as the CUDA sources declare it;
//! * [`run`]: what a family supports, and how the tensors of a problem lie in memory;
//! * [`metrics`]: the error of an output, and whether it is acceptable;
//! * [`error_map`]: shows where an output is wrong;
//! * [`fp8_study`]: errors and times of FP8 attention on quantised fp16 and bf16 tensors;
//! * [`export`]: attention as a solution of other projects' benchmarks;
//! * [`Attention`]: all of it as an op of the workbench;
//! * [`backward`]: the gradients, as another op.
//!
//! Nothing here searches or prints, and only [`fp8_study`] times. To compute attention in a program, use [`forward`]. The
//! other modules check kernels. The best settings that searches found are in the families' tuned tables:
//! `op::dispatch::choose(&Attention, &catalog, &Device::Virtual { chip }, &problem)` returns the family and the candidate
//! for a problem on a GPU. Use it instead of `run::candidate` with a preset.
//!
//! ```no_run
//! use warpsmith_attention::metrics::{Tolerance, Weights, compare};
//! use warpsmith_attention::oracle::{self, Rows};
//! use warpsmith_attention::run;
//! use warpsmith_attention::{Class, Inputs, Layout, Problem};
//! use gpu::accelerator::VirtualDevice;
//! use op::Kernel;
//!
//! let problem: Problem = "b1h4kv2s65d64-causal-e4m3".parse()?;
//! let chip = chips::Chip::by_name("h200")?;
//! let mut device = VirtualDevice::new(chip);
//! let catalog = family::Catalog::load(None)?;
//! let toolchain = compiler::toolchain::ensure(None, &mut |_| ())?;
//! let compiler = compiler::Compiler::new(toolchain, &files::cache_dir())?;
//!
//! let wmma = catalog.family("wmma")?;
//! let candidate = run::candidate(wmma, Some("stage-5-p2"), &[], &problem)?;
//! let kernel = Kernel::build(&mut device, &compiler, wmma, candidate, chip.target)?;
//! let inputs = Inputs::generate(&problem, Class::Normal, 1).encode(problem.dtype, Layout::Bhsd);
//! let run = run::run(&kernel, &mut device, &problem, &inputs, true)?;
//!
//! let reference = oracle::attention(&problem, &inputs.decode(), Rows::all(&problem));
//! let tolerance = Tolerance::new(problem.dtype, Weights::Half);
//! assert!(compare(&reference, &run.output, run.lse.as_deref(), tolerance).passed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod arguments;
pub mod backward;
pub mod error_map;
pub mod export;
pub mod forward;
pub mod fp8_study;
pub mod inputs;
pub mod metrics;
mod op;
pub mod oracle;
mod peers;
pub mod problem;
pub mod quantise;
pub mod run;
pub mod tensor;

pub use crate::backward::AttentionBackward;
pub use crate::op::{Attention, AttentionInputs, AttentionReference};
pub use inputs::{Class, Encoded, Input, Inputs};
pub use problem::{Dtype, Mask, Problem};
pub use tensor::{Layout, Shape, Tensor, Values};
