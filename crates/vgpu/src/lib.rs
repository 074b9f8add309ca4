//! The virtual GPU runs PTX on the CPU, checks the kernel while it runs, and counts what hardware would count.
//!
//! A kernel in CUDA C++:
//!
//! ```text
//! extern "C" __global__ void scale(const float* x, float* y, int n) {
//!     int i = blockIdx.x * blockDim.x + threadIdx.x;
//!     if (i < n) y[i] = 2.0f * x[i];
//! }
//! ```
//!
//! `nvcc -ptx -lineinfo scale.cu` compiles it to PTX without a GPU (`-lineinfo` gives findings their source lines), and
//! this program runs it:
//!
//! ```no_run
//! use warpsmith_vgpu::{Device, Launch, load};
//!
//! let module = load(&std::fs::read_to_string("scale.ptx")?)?;
//! let mut device = Device::default();
//! let x = device.upload("x", &[1.0_f32; 1000])?;
//! let y = device.uninitialised::<f32>("y", 1000)?;
//! let report = Launch::of(&module, "scale").grid(4).block(256).arg(x).output(y).arg(1000).run(&mut device)?;
//! let values: Vec<f32> = device.download(y)?;
//! for finding in &report.findings {
//!     println!("{}: {}", finding.kind, finding.message);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Lanes are numbers in this crate: a loop over lanes indexes several arrays, masks and addresses at once.
#![allow(clippy::needless_range_loop)]
// Tables of instruction forms keep one row per form, even where two rows are equal.
#![allow(clippy::match_same_arms)]
// Device memory is bytes behind raw pointers. An alignment check precedes every cast to a wider type.
#![allow(clippy::cast_ptr_alignment)]
// `a.iter().filter().count()` is fast enough for four bytes. Generic lane operations name their operands a to c.
#![allow(
    clippy::naive_bytecount,
    clippy::many_single_char_names,
    clippy::similar_names,
    clippy::bool_to_int_with_if,
    clippy::duplicate_underscore_argument
)]
#![allow(clippy::struct_excessive_bools, clippy::items_after_statements, clippy::struct_field_names)]

mod check;
pub mod count;
mod exec;
mod isa;
mod lanes;
mod mem;
pub mod model;
mod notice;
pub mod num;
mod program;
mod ptx;
pub mod tensor_map;
pub mod texture;
pub mod typed;
mod world;

pub use check::{Finding, Kind, Place, Related, Severity};
pub use count::Counters;
pub use exec::{Checks, Launch, LaunchError, LaunchReport, Limits, Options, Sample, Stats};
pub use isa::decode::Pipe;
pub use mem::{Buffer, Device, MemoryError, Touched};
pub use notice::{HEAP_NAME, Notice, notices_in_ptx};
pub use program::{
    Diagnostic, FidelityReport, Kernel, LoadError, Module, Param, RefusedKernel, SourceFrame, load,
};
pub use tensor_map::TensorMap;
pub use texture::Texture;
pub use world::World;
