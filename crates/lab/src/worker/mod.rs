//! Workers: child processes in which candidates are compiled, run and timed, so that whatever one does costs it alone.
//!
//! A worker receives one [`WorkerRequest`] after another and answers each with one [`WorkerReply`] ([`protocol`]). They go over a channel of
//! their own ([`subprocess::Link`]), as JSON with binary attachments: what a kernel prints is no answer.
//! [`serve`] is the side of a kernel's worker, on a CUDA GPU or the virtual one; an op's peers have a script that speaks
//! the same protocol. [`Worker`] is the parent's side: it starts the process, holds every answer to a time limit and
//! the process to a memory limit, and says in a [`FailureKind`](crate::run::FailureKind) what became of it.
//!
//! The order of a candidate is build, run, arm, sample. Between run and arm the parent holds the answer against the
//! right one; a worker that was not asked to arm takes no samples.

mod cuda;
mod process;
mod protocol;
mod serve;

pub use process::{Limits, Worker, WorkerError};
pub use protocol::{
    BuildReply, CandidateName, LaunchReply, MatrixRate, Modelled, WorkerReply, WorkerRequest,
};
pub use serve::serve;
pub(crate) use serve::{CandidateFailure, answers_beside, drawn, told};
