//! The gate: whether a run is at least as good as the best that is on record.
//!
//! * [`Leaderboard`] is the record: the best per problem, device and timer, in a file that people commit;
//! * [`judge`] holds a run ([`RunState`](crate::run::RunState), read from its log) against it, and gives a [`GateReport`]
//!   with a [`GateRow`] per problem;
//! * [`update`] puts what is better, and what is on no record yet, on the record;
//! * [`output`] writes the report: text, JSON, JUnit, annotations for GitHub.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use warpsmith_lab::gate::{Asked, Leaderboard, judge, output, update};
//! use warpsmith_lab::run::{RunState, Timer, read};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = Path::new("leaderboard.json");
//! let mut board = Leaderboard::read(path)?;
//! let state = RunState::from_log(&read(Path::new("warpsmith-runs/20261115T054710Z-bench-1f3a9c"))?);
//! let asked = Asked { problems: vec!["b1h8s512d64-fp16".to_owned()], timer: Timer::GraphHot };
//! let mut report = judge(&state, &board, &asked);
//! if update(&mut report, &mut board) > 0 {
//!     board.write(path)?; // with `--update` only
//! }
//! print!("{}", output::text(&report));
//! let exit_code_from = report.outcome();
//! # Ok(()) }
//! ```
//!
//! A row fails on a wrong answer, on a candidate that broke, on registers or spills above the family's limits, and on
//! a regression: the median more than [`TOLERATED`] above the best's, the two 95% intervals apart, and the rank test
//! agreeing. Where something that it takes to judge is missing, the row is incomplete, and so is the report: never a
//! pass. An improvement passes.
//!
//! Changes have one direction everywhere: [`Change::slower_by`] is above zero where the run is slower than the best.

mod change;
#[cfg(test)]
mod drills;
mod judge;
mod leaderboard;
pub mod output;
mod report;

pub use change::{Change, TOLERATED};
pub use judge::{GateRequest, judge};
pub use leaderboard::{BestOnRecord, Leaderboard, LeaderboardError, SAMPLES_KEPT};
pub use report::{GateFinding, GateReport, GateRow, MissingData, RowStatus, update};
