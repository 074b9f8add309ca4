//! The virtual GPU runs PTX on the CPU, checks the kernel while it runs, and counts what hardware would count.
//!
//! ```no_run
//! use warpsmith_vgpu::{Device, Launch, Options, load};
//!
//! let module = load(&std::fs::read_to_string("saxpy.ptx")?)?;
//! let mut device = Device::default();
//! let x = device.alloc(4 * 1024, "x")?;
//! device.write(x, &[0; 4 * 1024])?;
//! let launch = Launch {
//!     module: &module, kernel: "saxpy", grid: [4, 1, 1], block: [256, 1, 1], shared: 0, args: &x.0.to_le_bytes(),
//! };
//! let report = device.launch(&launch, &Options { outputs: vec![x], ..Options::default() })?;
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
mod cpu;
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
mod world;

pub use check::{Finding, Kind, Place, Related, Severity};
pub use count::Counters;
pub use exec::{Checks, Dim3, Launch, LaunchError, LaunchReport, Limits, Options, Stats};
pub use isa::decode::Pipe;
pub use mem::{Buffer, Device, MemoryError};
pub use notice::{Notice, notices_in_ptx};
pub use program::{
    Diagnostic, FidelityReport, Kernel, LoadError, Module, Param, RefusedKernel, SourceFrame, load,
};
pub use tensor_map::TensorMap;
pub use texture::Texture;
pub use world::World;
