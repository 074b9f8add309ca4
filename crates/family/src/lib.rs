//! Kernel families: a CUDA source with a manifest that declares its knobs, its supported problems and its launch.
//!
//! A [`Catalog`] contains the [`Family`]s. A family creates a [`Candidate`] from a preset, knobs and problem axes,
//! and checks every name, value and constraint. A candidate has a shared-memory [`Layout`], and both define the
//! source that is compiled. No other path leads from a knob to the compiler, and no other code computes the size of a
//! buffer. [`tuned_table`] is the table of the best settings that searches found; a family has its own.
//!
//! ```
//! let catalog = warpsmith_family::Catalog::load(None)?;
//! let family = catalog.family("wmma")?;
//! let candidate = family.candidate(Some("stage-2"), &[], &[])?;
//! let layout = family.layout(&candidate)?;
//! assert!(layout.total_bytes > 0);
//! // A name that does not exist is an error with a suggestion.
//! assert!(family.candidate(Some("stage-z"), &[], &[]).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod candidate;
mod catalog;
mod copies;
mod expression;
mod header;
mod layout;
mod manifest;
mod request;
mod rules;
mod single_file;
mod suggest;
mod text;
pub mod tuned_table;
mod value;

pub use candidate::{Candidate, Launch, SettingError, Sizes, TensorBox, setting_name};
pub use catalog::{Catalog, CatalogError, Entry, NamedArrays, OP_FILE, OpFiles};
pub use expression::{EvalError, Expression, Scope};
pub use layout::{Buffer, Layout};
pub use manifest::{Axis, Constraint, Family, Knob, Limits, Parameter, Pathology, Preset, Weights};
pub use rules::Rule;
pub use suggest::nearest;
pub use text::{ManifestError, ManifestErrors, Reader};
pub use value::Value;

/// Whether a path names a CUDA or PTX file, which can declare its own op.
pub fn is_kernel_file(path: &std::path::Path) -> bool {
    compiler::is_ptx(path) || path.extension().is_some_and(|kind| kind == "cu")
}

/// The names of the kernels that a CUDA source declares.
pub fn kernel_names(source: &str) -> Vec<String> {
    single_file::cuda_kernels(source)
}

/// The name of the op that a CUDA or PTX file declares.
pub fn op_of_file(path: &std::path::Path) -> String {
    single_file::op_name(path)
}

/// The full name of the family that a CUDA or PTX file declares. It has the name of its op.
pub fn family_of_file(path: &std::path::Path) -> String {
    let name = op_of_file(path);
    format!("{name}/{name}")
}
