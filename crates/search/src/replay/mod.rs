//! Runs strategies on recorded spaces: every point's time is known, so a search needs no kernel and no GPU.
//!
//! [`Recorded`] reads a space. [`play`] runs a strategy on it once. [`score`] turns the runs of many seeds into the
//! numbers for comparing strategies, and [`Suite`] averages them over spaces. [`play_on_fleet`]
//! simulates a search on many workers. [`write_csv`] writes them to a file.

mod fleet;
mod formats;
mod harness;
mod read;
mod recorded;
mod score;
mod table;

pub use fleet::{FleetRun, SimulatedFleet, play_on_fleet};
pub use harness::{Run, play, play_all};
pub use recorded::{Recorded, RecordedError, RecordedFault};
pub use score::{Score, ScoreAtBudget, Suite, score};
pub use table::write_csv;
