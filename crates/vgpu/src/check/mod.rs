//! What is wrong with a launch: findings as values.

pub mod collect;
pub mod finding;
pub(crate) mod layout;
pub mod race;

pub use finding::{Finding, Kind, Place, Related, Severity};
