//! Kernel families: a CUDA source with a manifest that says what can be set, what is supported and how it is
//! launched.
//!
//! The way through this crate: a [`Catalog`] holds the [`Family`]s; a family makes a [`Candidate`] out of a
//! preset, knobs and problem axes, checking every name, value and constraint; a candidate has a shared-memory
//! [`Layout`], and from both comes the source that is compiled. There is no other way for a knob to reach the
//! compiler, and no other place that knows the size of a buffer. [`tuned`] is the table of settings that searches found
//! best; a family carries its own.

mod candidate;
mod catalog;
mod expression;
mod header;
mod layout;
mod manifest;
mod rules;
mod suggest;
pub mod tuned;
mod value;

pub use candidate::{Candidate, Launch, SettingError, Sizes};
pub use catalog::{Catalog, CatalogError, Entry};
pub use expression::EvalError;
pub use layout::{Buffer, Layout};
pub use manifest::{Axis, Constraint, Family, Knob, Limits, ManifestError, Pathology, Preset, Weights};
pub use rules::Rule;
pub use suggest::nearest;
pub use value::Value;
