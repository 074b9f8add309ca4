//! Why a search ended early.

use std::path::PathBuf;

use fleet::FleetError;
use op::Refusal;
use runlog::LogError;

use super::proposer::ProposerError;
use crate::session::StageError;

/// Why a search ended early.
#[derive(Debug, thiserror::Error)]
pub enum EvolveError {
    /// The plan does not fit the op, the family or the device.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run's log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A bench of a candidate failed for a reason other than the candidate.
    #[error(transparent)]
    Bench(StageError),
    /// The baseline failed, so there is nothing to compare with.
    #[error("the baseline failed on {problem}: {reason}")]
    Baseline {
        /// The problem on which the baseline failed.
        problem: String,
        /// Why the baseline failed.
        reason: String,
    },
    /// A file or folder of the run cannot be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The resumed search differs from the recorded one, or the code has changed since.
    #[error("cannot resume this run: {0}")]
    CannotResume(String),
    /// The fleet cannot go on.
    #[error(transparent)]
    Fleet(FleetError),
    /// Workers of the fleet could not evaluate a candidate, for reasons other than the candidate.
    #[error("worker {worker}: {reason}")]
    Worker {
        /// The last of the workers.
        worker: String,
        /// The last reason.
        reason: String,
    },
    /// A program that is needed to reach the proposer cannot be started.
    #[error("cannot reach the proposer: {program}: {error}")]
    MissingProgram {
        /// The program's name.
        program: &'static str,
        /// Why the program cannot be started.
        error: String,
    },
    /// The proposer gave no answer several times in a row.
    #[error("the proposer gave no answer {times} times in a row: {reason}")]
    NoAnswer {
        /// Number of missing answers in a row.
        times: u32,
        /// Why the last answer is missing.
        reason: String,
    },
    /// None of the proposer's answers was a candidate.
    #[error("none of the proposer's {asked} answers was a candidate; the first: {reason}")]
    NoCandidate {
        /// Number of requests.
        asked: u32,
        /// Why the first answer was not a candidate.
        reason: String,
    },
    /// The run was asked to stop. Finished work is in its log.
    #[error("stopped")]
    Stopped,
}

impl From<FleetError> for EvolveError {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::Stopped => EvolveError::Stopped,
            other => EvolveError::Fleet(other),
        }
    }
}

impl From<ProposerError> for EvolveError {
    fn from(error: ProposerError) -> Self {
        match error {
            ProposerError::Stopped => EvolveError::Stopped,
            ProposerError::MissingProgram { program, error } => {
                EvolveError::MissingProgram { program, error }
            }
            ProposerError::NoAnswer { reason, .. } => EvolveError::NoAnswer { times: 1, reason },
        }
    }
}
