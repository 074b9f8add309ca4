//! The stages of the workbench: they check, time, search, profile and guard kernels of any op. This crate depends on the
//! op trait, devices and builds, but not on a particular op. Stages record what they find in a run's log (crate
//! `runlog`); crate `report` writes it for people and for other programs.
//!
//! * [`suite`]: lists of problems, baselines and targets;
//! * [`check`]: checks that kernels are correct;
//! * [`worker`]: child processes in which kernels are built, run and timed;
//! * [`mod@bench`]: times kernels in turns with their baselines;
//! * [`evolve`]: searches the settings of a family;
//! * [`profile`]: finds what limits a kernel;
//! * [`invert`]: measures what known pathologies cost;
//! * [`gate`]: compares a run with the best recorded results.

pub mod bench;
pub mod check;
pub mod evolve;
pub mod gate;
pub mod invert;
pub mod profile;
mod roofline;
mod session;
pub mod suite;
mod trial;
pub mod worker;

pub use session::{Session, StageError};
