//! What every stage of a run works with.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::{fmt, io};

use compiler::Compiler;
use op::{Op, Refusal};
use runlog::{LogError, Run};

use crate::worker::WorkerCommands;

/// The op, tools and run that a stage uses. Stages take a session and a plan.
pub struct Session<'a, O: Op + ?Sized> {
    /// The op of the run.
    pub op: &'a O,
    /// Compiles trusted sources.
    pub compiler: &'a Compiler,
    /// The commands that start worker processes.
    pub start: &'a WorkerCommands<'a>,
    /// The run that records the results.
    pub run: &'a Run,
    /// Set when the run must stop.
    pub stop: &'a AtomicBool,
    /// Receives progress messages.
    pub tell: &'a dyn Fn(&str),
}

impl<O: Op + ?Sized> Clone for Session<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Op + ?Sized> Copy for Session<'_, O> {}

impl<O: Op + ?Sized> fmt::Debug for Session<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} in {})", self.op.name(), self.run.folder().display())
    }
}

/// Why a stage ended early.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The run's log cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file or folder of the run cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The op or the device cannot do what the plan asks for.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run was told to stop. Everything that finished is in its log.
    #[error("stopped")]
    Stopped,
}
