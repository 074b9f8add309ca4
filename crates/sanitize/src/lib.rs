//! Runs kernels of files that were not written for Warpsmith on the virtual GPU, under its checkers.
//!
//! * [`code`]: PTX from a file, or compiled from a CUDA file;
//! * [`launches`]: kernels with their grids, blocks and arguments;
//! * [`run`](fn@run): makes the launches; an [`Outcome`] has the report and the buffers;
//! * [`findings`] and [`snippet`]: findings and compiler messages as text, with lines of the source;
//! * [`expect`]: compares buffers with expected values;
//! * [`Sources`]: the files whose lines may be shown;
//! * [`Suppressions`]: known findings, which do not fail.
//!
//! The command line and the Python package use this crate; they differ in where the arguments come from.

pub mod code;
mod error;
pub mod expect;
pub mod findings;
mod kernel_name;
pub mod launches;
mod run;
pub mod simulated;
pub mod snippet;
mod sources;
pub mod suppressions;

pub use annotate_snippets::Renderer;
pub use error::SanitizeError;
pub use kernel_name::readable;
pub use run::{Job, Outcome, Summary, run};
pub use sources::{MAX_SOURCE, Sources};
pub use suppressions::Suppressions;
