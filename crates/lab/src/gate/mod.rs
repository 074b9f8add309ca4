//! The gate: checks that a run is at least as good as the best on record.
//!
//! * [`Leaderboard`] is the record: a file, meant to be committed, with the best result per problem, device and timer;
//! * [`judge`] compares a run ([`RunState`](runlog::RunState), read from its log) with it and returns a
//!   [`GateReport`] with one [`GateRow`] per problem;
//! * [`update`] records improvements, and results for problems without a record;
//! * [`output`] writes the report as text or JSON, and converts it for the formats of `report::ci`.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use warpsmith_lab::gate::{GateRequest, Leaderboard, judge, output, update};
//! use runlog::{RunState, Timer, read};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = Path::new("leaderboard.json");
//! let mut board = Leaderboard::read(path)?;
//! let state = RunState::from_log(&read(Path::new("warpsmith-runs/20261115T054710Z-bench-1f3a9c"))?);
//! let request = GateRequest { problems: vec!["b1h8s512d64-fp16".to_owned()], timer: Timer::GraphHot };
//! let mut report = judge(&state, &board, &request);
//! if update(&mut report, &mut board) > 0 {
//!     board.write(path)?; // only with `--update`
//! }
//! print!("{}", output::text(&report));
//! let exit_code_from = report.outcome();
//! # Ok(()) }
//! ```
//!
//! A row fails if an answer is wrong, if a candidate failed, if registers or spills exceed the family's limits, or if
//! the time is a regression. A regression is a median more than [`TOLERATED_SLOWDOWN`] above the best one, with disjoint 95%
//! intervals and a significant rank test. If data that the verdict needs is missing, the row and the report are
//! incomplete, which is not a pass. An improvement passes.
//!
//! A run on a virtual GPU has no measured time. Its rows compare each candidate's [`Quantity`]s with the candidate's own
//! [`CountedRecord`]: registers, spills, shared memory, counts, and the modelled time if both are of one model version.
//!
//! The sign of a change is the same everywhere: [`Change::slower_by`] is positive if the run is slower than the best.

mod change;
mod counted;
mod leaderboard;
mod measured;
pub mod output;
mod quantity;
mod report;
mod rules;
#[cfg(test)]
mod tests;

pub use change::{Change, TOLERATED_SLOWDOWN};
pub use leaderboard::{BestOnRecord, CountedRecord, Leaderboard, LeaderboardError, SAMPLES_KEPT};
pub use measured::{GateRequest, judge};
pub use quantity::{Origin, Quantity, QuantityChange, QuantityVerdict};
pub use report::{Basis, GateFinding, GateReport, GateRow, MissingData, RowStatus, update};
