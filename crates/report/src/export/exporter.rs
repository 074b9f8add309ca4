//! The interface of files that are derived from a run's log.

use std::io::{self, Write};

use runlog::RunState;

/// Writes one derived file.
pub trait Exporter: std::fmt::Debug + Sync {
    /// The file's name in the run's folder.
    fn file_name(&self) -> &'static str;
    /// Whether the run has data for this file. For example, a run without a search has no file of trials.
    fn concerns(&self, _state: &RunState) -> bool {
        true
    }
    /// Writes the file's contents.
    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()>;
}
