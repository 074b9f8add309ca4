//! `bench`: times kernels together with their peers.
//!
//! A [`BenchPlan`] lists what is measured: [`Subject`]s (kernels and peers), problems, timers and the stopping rule.
//! [`run`] starts several worker processes for each subject, because two processes that run the same code differ in
//! speed. For each problem, [`run`] builds every subject, runs it once and compares its answers with the reference.
//! Subjects that are correct in every process are then timed in turns (A B C C B A, repeated; see `turns`) until
//! every median is precise enough. Comparing the processes of one subject gives its A/A control. Every event is written
//! to the run's log as it happens; tables, targets and exports are read from the log.
//!
//! Nothing is timed on the virtual GPU. Each kernel gets a modelled time, which is recorded separately, and nothing is
//! compared.

mod answers;
mod class_errors;
mod draws;
mod measure;
mod plan;
mod run;
mod targets;
mod telemetry;
mod turns;
mod verify;
mod workers;

pub use answers::AnswerCache;
pub(crate) use draws::Draws;
pub use plan::{BenchPlan, Subject, SubjectCheck, SubjectKind};
pub(crate) use run::{
    build_hash, check_record, complaint_text, no_launch_error, trial_launches, unexpected_reply,
};
pub use run::{run, run_with};
pub use runlog::CHOSEN;
