//! The exit codes, which are the same for every command.

use std::process::ExitCode;

/// The outcome of a command. Skipped work never gives `Success`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was built, is correct and is not slower than before.
    Success = 0,
    /// A wrong result, a regression, or a kernel that does not compile.
    ProblemFound = 1,
    /// A wrong flag, name or file.
    UsageError = 2,
    /// The machine does not have what the command needs.
    MissingRequirement = 3,
    /// The run was stopped, or data is missing.
    Incomplete = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The table of exit codes for `--help`.
pub const TABLE: &str = "\
Exit codes:
  0  success
  1  problem found: a wrong result, a regression, or a kernel that does not compile
  2  usage error: a wrong flag, name or file
  3  missing requirement: no GPU, no compiler, or a file that cannot be written
  4  incomplete: the run was stopped, or data is missing";
