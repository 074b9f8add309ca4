//! The workbench: it checks, times, searches, profiles and reports kernels of any op. It depends on the op trait,
//! devices and builds, but not on a particular op.
//!
//! * [`suite`]: lists of problems, baselines and targets;
//! * [`check`]: checks that kernels are correct;
//! * [`worker`]: child processes in which kernels are built, run and timed;
//! * [`mod@bench`]: times kernels in turns with their baselines;
//! * [`stats`]: statistics of timings;
//! * [`run`]: the folder of a run, its event log, and the state derived from the log;
//! * [`record`]: the values that a run records;
//! * [`evolve`]: searches the settings of a family;
//! * [`profile`]: finds what limits a kernel;
//! * [`invert`]: measures what known pathologies cost;
//! * [`export`]: writes the files that are derived from a run's log;
//! * [`report`]: writes a run as an HTML page and as Markdown;
//! * [`gate`]: compares a run with the best recorded results;
//! * [`ci`]: writes results for CI systems.
//!
//! Statistics of samples, as `bench` computes them:
//!
//! ```
//! use warpsmith_lab::stats::Samples;
//!
//! let samples = Samples::new(vec![10.0, 11.0, 10.5, 10.2, 50.0]).map_err(|error| format!("{error:?}"))?;
//! assert_eq!(samples.median(), 10.5); // An outlier does not move the median.
//! # Ok::<(), String>(())
//! ```

pub mod bench;
pub mod check;
pub mod ci;
pub mod evolve;
pub mod export;
pub mod gate;
pub mod invert;
pub mod profile;
pub mod record;
pub mod report;
mod roofline;
pub mod run;
mod session;
pub mod suite;
#[doc(hidden)]
pub mod testing;
mod trial;
pub mod worker;

pub use gpu::words;
pub use session::{Session, StageError};
pub use stats;
