//! The workbench: what is done to the kernels of any op. It knows the op trait, devices and builds; it knows no op.
//!
//! * [`suite`]: which problems, against which baselines, with which targets;
//! * [`check`]: whether kernels are right;
//! * [`worker`]: child processes in which kernels are built, run and timed;
//! * [`bench`]: how fast kernels are, beside their peers;
//! * [`stats`]: what timings say;
//! * [`run`]: a run's folder, its event log, and what is derived from it;
//! * [`evolve`]: searching a family's settings;
//! * [`profile`]: what limits a kernel;
//! * [`invert`]: what known pathologies cost;
//! * [`report`]: a run for people, as a page and as Markdown;
//! * [`gate`]: whether a run is at least as good as the best on record.

pub mod bench;
pub mod check;
pub mod evolve;
pub mod gate;
pub mod invert;
pub mod profile;
pub mod report;
pub mod run;
pub mod suite;
#[doc(hidden)]
pub mod testing;
mod trial;
pub mod worker;

pub use stats;
