//! Tasks that workers on other machines do.
//!
//! A *head* is a command such as `evolve`. It describes a job once and submits tasks; workers do them and answer. A task
//! has a number and a payload, which this crate does not read. The first answer to a task counts, and no other.
//!
//! [`Queue`] keeps everything in a shared folder or an object store ([`Store`]), so head and workers need no connection to
//! each other. [`RayCluster`] hands tasks to a Ray cluster. Workers are started by their users, by SLURM, by Kubernetes
//! ([`scripts`]) or by Ray; they have no state of their own.

mod address;
mod job;
mod local;
mod pipe;
mod queue;
mod ray;
pub mod scripts;
mod status;
mod store;
mod worker;

pub use address::{Address, AddressError};
pub use job::{Answer, Job, Outcome, Program, Task, WorkerFacts, is_job_name};
pub use local::LocalWorkers;
pub use pipe::serve_pipe;
pub use queue::{Queue, QueueOptions};
pub use ray::{RayCluster, RayOptions};
pub use status::{JobStatus, Status, WorkerStatus, describe, status, stop};
pub use store::{Store, StoreError};
pub use worker::{JobTasks, WorkerOptions, serve};

use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How often workers of a queue give a sign of life.
pub const BEAT: Duration = Duration::from_secs(2);
/// The shortest lease: a sign of life may be late, and the head looks for it only now and then.
pub const LEAST_LEASE: Duration = Duration::from_secs(3 * BEAT.as_secs());

/// What hands out tasks.
pub trait Fleet {
    /// Submits a task. Its number must be new.
    fn submit(&mut self, task: Task) -> Result<(), FleetError>;

    /// Waits for the answer to a task that was submitted. `stop`: gives up waiting. `tell` receives lines for people, such
    /// as which worker was lost.
    fn wait(&mut self, number: u32, stop: &AtomicBool, tell: &dyn Fn(&str)) -> Result<Answer, FleetError>;

    /// How many workers are there now.
    fn workers(&self) -> usize;

    /// Ends the job: workers leave it. `keep`: answers that nobody has waited for stay, for a head that resumes.
    fn end(&mut self, keep: bool) -> Result<(), FleetError>;
}

/// Why a fleet cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The shared folder or store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Ray, or the Python program that speaks with it, failed.
    #[error("Ray: {0}")]
    Ray(String),
    /// A folder has a job of this name with another description.
    #[error("the fleet has another job named {0}")]
    OtherJob(String),
    /// A job has a name that cannot be part of a path.
    #[error(
        "`{0}` cannot be the name of a job: a name has only letters, digits and `.`, `_`, `-`, and no dot in front"
    )]
    JobName(String),
    /// `fleet stop` told all workers to leave.
    #[error("the fleet is stopped: its workers leave, and none comes")]
    FleetStopped,
    /// None of the workers that the head started works.
    #[error("no worker is left: {0}")]
    NoWorker(String),
    /// The command was told to stop.
    #[error("stopped")]
    Stopped,
}
