//! Workers: child processes in which candidates are compiled, run and timed, so that a crash or hang affects only that
//! candidate.
//!
//! A worker receives one [`WorkerRequest`] after another and answers each with one [`WorkerReply`] (`protocol`).
//! Messages are JSON with binary attachments and use a private channel ([`subprocess::Link`]), so a kernel cannot forge
//! a reply by printing. [`serve`] is the worker's side for kernels, on a CUDA GPU or on the virtual GPU. Peers have a
//! script that uses the same protocol. [`Worker`] is the parent's side: it starts the process, enforces a time limit
//! for every reply and a memory limit for the process, and reports failures as a
//! [`FailureKind`](runlog::FailureKind).
//!
//! The requests for a candidate are build, run, arm, sample, in this order. Between run and arm the parent compares the
//! answer with the reference. A worker that was not asked to arm takes no samples.

mod commands;
mod counted;
mod cuda;
mod failure;
mod process;
mod protocol;
mod serve;

pub use commands::{KernelCommand, PeerCommand, UntrustedCommand, WorkerCommands};
pub(crate) use failure::CandidateFailure;
pub use process::{Limits, Worker, WorkerError};
pub use protocol::{
    BuildReply, CandidateName, LaunchReply, MatrixRate, Modelled, WorkerReply, WorkerRequest,
};
pub use serve::serve;
pub(crate) use serve::{answers_path, build_record};
