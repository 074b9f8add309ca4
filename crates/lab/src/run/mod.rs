//! A run: one invocation's folder, its append-only event log, and everything derived from that.
//!
//! * [`Run`] is a folder with its log open for writing: [`Run::create`], [`Run::resume`], [`Run::record`];
//! * [`Event`] is what a log line says. Reports, exports and the gate read events and nothing else;
//! * [`read`] reads a log, [`RunState::from_log`] folds it into what the run knows, [`RunState::finished`] is what resuming
//!   need not repeat;
//! * [`Manifest`] is where, with what and how the run happened; what is not known says `unavailable`;
//! * [`Exports`] are the files for others (`bench.json`, `topk.json`, `report.html`, ...), opened before anything is
//!   measured; [`write_exports`] writes them anew;
//! * [`list()`] finds runs.
//!
//! A bench, in short:
//!
//! ```no_run
//! use warpsmith_lab::run::{Event, Exports, Key, Outcome, Run, Stage, StageOutcome};
//! # fn measured() -> Vec<Event> { Vec::new() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let manifest = warpsmith_lab::run::Manifest::new("bench", vec![], 0);
//! let run = Run::create(None, manifest)?;
//! let exports = Exports::open(run.folder())?;
//! let key = Key::new(Stage::Bench, "b1h8s512d64-fp16", "wmma stage-2", "3f9a");
//! if !run.state().finished(&key) {
//!     run.record(&Event::StageStarted { key: key.clone() })?;
//!     for event in &measured() {
//!         run.record(event)?;
//!     }
//!     run.record(&Event::StageFinished { key, outcome: StageOutcome::Done })?;
//! }
//! run.record(&Event::RunFinished { outcome: Outcome::Holds })?;
//! exports.write(&run.state())?;
//! # Ok(()) }
//! ```
//!
//! # Rules of the log
//!
//! One JSON object per line: `schema`, `seq` (0, 1, 2, ...), `time` (UTC) and `kind`, then the event's own fields.
//! A line is written by one write and counts once its newline is there. A process that is killed can leave a torn last
//! line, which readers drop and say so; anything else that is wrong is an error with its line number. Newer versions
//! may add kinds and fields without raising `schema`: kinds that are not known are kept and skipped. One process
//! writes at a time, held by a lock that the system releases however the process ends.

mod event;
mod export;
mod fact;
mod folder;
mod list;
mod log;
mod manifest;
mod state;
mod time;
mod trial;

pub use event::{
    BuildRecord, Ceiling, CheckRecord, Event, FailureKind, Modelled, Repeats, ResultId, RunOutcome,
    SampleSet, Speed, Stage, StageKey, StageOutcome, TargetJudged, Telemetry, Timer,
};
pub use export::{EXPORTERS, Exporter, Exports, Row, RowSpeedup, rows, write_exports};
pub use fact::Fact;
pub use folder::{DEFAULT_FOLDER, Run, RunError};
pub use gpu::time::{MeasuredMicros, Time};
pub use list::{RunSummary, list};
pub use log::{Log, LogError, Record, SCHEMA, Warning, Writer, parse, read};
pub use manifest::{Commit, Manifest};
pub(crate) use state::OURS;
pub use state::{Control, FailureRecord, MeanSpeedup, Measurement, RunState, SpeedupRecord, StageState};
pub use time::Utc;
pub use trial::{Exchange, ProblemTime, Search, Trial, TrialResult};

#[cfg(test)]
pub(crate) use state::tests as testing;
