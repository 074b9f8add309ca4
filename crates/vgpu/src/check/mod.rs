//! The checks of a launch. They return findings as values.

pub mod collect;
pub mod finding;
pub(crate) mod layout;
pub mod race;
pub(crate) mod site;

pub use finding::{Finding, Kind, Place, Related, Severity};
pub(crate) use site::Site;
