//! The checks of a launch. They return findings as values.

pub mod collect;
pub mod finding;
pub(crate) mod layout;
pub mod race;

pub use finding::{Finding, Kind, Place, Related, Severity};
