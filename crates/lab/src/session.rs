//! What every stage of a run works with.

use std::fmt;
use std::sync::atomic::AtomicBool;

use gpu::build::Compiler;
use op::Op;

use crate::run::Run;
use crate::worker::WorkerCommands;

/// The op, tools and run that a stage uses. Stages take a session and a plan.
pub struct Session<'a, O: Op> {
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

impl<O: Op> Clone for Session<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Op> Copy for Session<'_, O> {}

impl<O: Op> fmt::Debug for Session<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} in {})", self.op.name(), self.run.folder().display())
    }
}
