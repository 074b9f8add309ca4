//! A run: the folder of one invocation, its append-only event log, and everything that is derived from the log.
//!
//! * [`Run`] is a folder with its log open for writing: [`Run::create`], [`Run::resume`], [`Run::record`];
//! * [`Event`] is one line of the log. Reports, exports and the gate read only events;
//! * [`read`] reads a log, and [`RunState::from_log`] folds it into the state of the run. [`RunState::finished`] tells
//!   a resumed run which work it need not repeat;
//! * [`Manifest`] describes the environment and the command line of a run; an unknown fact is `unavailable`;
//! * [`record`] has the values that events record;
//! * [`list()`] finds runs.
//!
//! The steps of a bench:
//!
//! ```no_run
//! use warpsmith_runlog::{Event, Run, RunOutcome, Stage, StageKey, StageOutcome};
//! # fn measured() -> Vec<Event> { Vec::new() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let manifest = warpsmith_runlog::Manifest::new("bench", vec![], 0);
//! let run = Run::create(None, manifest)?;
//! let key = StageKey::new(Stage::Bench, "b1h8s512d64-fp16", "wmma stage-2", "3f9a");
//! if !run.state().finished(&key) {
//!     run.record(&Event::StageStarted { key: key.clone() })?;
//!     for event in &measured() {
//!         run.record(event)?;
//!     }
//!     run.record(&Event::StageFinished { key, outcome: StageOutcome::Done })?;
//! }
//! run.record(&Event::RunFinished { outcome: RunOutcome::Success })?;
//! # Ok(()) }
//! ```
//!
//! # Rules of the log
//!
//! Each line is one JSON object: `schema`, `seq` (0, 1, 2, ...), `time` (UTC) and `kind`, then the event's own fields.
//! A line is written with a single write, and it counts once its newline is written. A killed process can leave an
//! incomplete last line; readers drop it with a warning. Any other damage is an error with a line number. Newer
//! versions may add kinds and fields without raising `schema`: unknown kinds stay in the file and are skipped. One
//! process writes at a time; it holds a lock that the system releases when the process ends.

mod compare;
pub mod elites;
mod event;
mod folder;
mod implausible;
pub mod inert_knobs;
mod list;
mod log;
mod manifest;
pub mod record;
mod rows;
mod stage;
mod state;
#[doc(hidden)]
pub mod testing;
mod time;
mod trial;

pub use compare::{
    ComparedTime, CounterChange, RunComparison, SubjectTime, TimeChange, TrendPoint, compare, times, trend,
};
pub use event::{
    BuildRecord, Ceiling, CheckRecord, ClassError, Event, LaunchCounts, Modelled, Repeats, ResultId,
    RunOutcome, SampleSet, Speed, StageKey, StageOutcome, TargetVerdict, Telemetry, Timer,
};
pub use folder::{DEFAULT_FOLDER, Run, RunError};
pub use implausible::KnownWork;
pub use list::{RunSummary, list};
pub use log::{Line, Log, LogError, Record, Warning, Writer, parse, read};
pub use manifest::{Commit, Manifest};
pub use record::Fact;
pub use rows::{Row, RowSpeedup, rows};
pub use stage::{FailureKind, SCHEMA, Stage};
pub use state::{
    CHOSEN, Control, FailureRecord, MeanSpeedup, Measurement, OWN_VERSION_PREFIX, RunState, SpeedupRecord,
    StageState,
};
pub use time::Utc;
pub use times::{MeasuredMicros, Time};
pub use trial::{Exchange, FleetWorker, ProblemTime, Search, Trial, TrialResult};
