//! Exit codes, the same for every command.

use std::process::ExitCode;

/// What a run came to. Never `Holds` because something was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It holds: built, correct, no regression.
    Holds = 0,
    /// A finding: a wrong result, a regression, a kernel that does not compile.
    Finding = 1,
    /// Wrong use or configuration.
    Usage = 2,
    /// The machine lacks what was asked for.
    Lacking = 3,
    /// The run was stopped before its end.
    Incomplete = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// For `--help`.
pub const TABLE: &str = "\
Exit codes:
  0  it holds
  1  a finding: a wrong result, a regression, a kernel that does not compile
  2  wrong use or configuration
  3  the machine lacks what was asked for (no GPU, no compiler and no way to install one)
  4  the run is incomplete";
