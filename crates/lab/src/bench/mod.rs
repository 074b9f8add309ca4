//! `bench`: how fast kernels are, beside their peers and each other.
//!
//! A [`BenchPlan`] says what is measured: [`Subject`]s (kernels and peers) on problems, by which timers, until when.
//! [`run`] has every subject in worker processes of its own, several of them: processes that run the same thing differ.
//! Per problem it has all of them built, run once and their answers held against the oracle's; subjects that are right
//! in every process are then timed in turns (A B C C B A, again and again, see [`turns`]) until every median is known well
//! enough. One process of a subject against its others is its A/A control. Everything goes into the run's log as it
//! happens; tables, targets and exports are read from there.
//!
//! On the virtual GPU nothing is timed: there is a modelled time per kernel, under its own name, and no comparison.

mod answers;
mod draws;
mod floor;
mod measure;
mod plan;
mod run;
mod targets;
mod telemetry;
mod turns;
mod verify;
mod workers;

pub use answers::AnswerCache;
pub use plan::{
    BenchPlan, KernelCommand, PeerCommand, Subject, SubjectKind, UntrustedCommand, WorkerCommands,
};
pub use run::{BenchError, run, run_with};
pub(crate) use run::{brought, build_hash, check_of, complaints_in, no_launch, surprise};
