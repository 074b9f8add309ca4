//! The stages of the work on a subject, and why a subject can fail in one.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the log's format. It is raised if older versions would misread a known kind, not for new kinds or
/// fields.
pub const SCHEMA: u32 = 1;

/// A stage of the work on a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Compiling.
    Build,
    /// Checking the answers.
    Check,
    /// Timing.
    Bench,
    /// Measuring a ceiling of the device.
    Ceiling,
    /// Profiling.
    Profile,
    /// A stage of a newer version.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::Build => "build",
            Stage::Check => "check",
            Stage::Bench => "bench",
            Stage::Ceiling => "ceiling",
            Stage::Profile => "profile",
            Stage::Other => "other",
        })
    }
}

/// Why a candidate failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The family does not support the problem, or the device does not support the family.
    Refused,
    /// The compiler reported an error.
    DoesNotCompile,
    /// The output differs from the reference.
    WrongAnswer,
    /// A checker of the virtual GPU found a bug, such as a race, whatever the output was.
    Finding,
    /// The kernel accessed memory that it must not access.
    IllegalAccess,
    /// The worker process crashed.
    Crash,
    /// The kernel did not finish within its time limit.
    Hang,
    /// The device or the process ran out of memory.
    OutOfMemory,
    /// The kernel needs more of a resource than the device or the family allows.
    TooLarge,
    /// The kernel was faster than the device can be.
    Implausible,
    /// A reason of a newer version.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FailureKind::Refused => "refused",
            FailureKind::DoesNotCompile => "does not compile",
            FailureKind::WrongAnswer => "wrong answer",
            FailureKind::Finding => "checker finding",
            FailureKind::IllegalAccess => "illegal access",
            FailureKind::Crash => "crash",
            FailureKind::Hang => "hang",
            FailureKind::OutOfMemory => "out of memory",
            FailureKind::TooLarge => "too large",
            FailureKind::Implausible => "implausible",
            FailureKind::Other => "failed",
        })
    }
}
