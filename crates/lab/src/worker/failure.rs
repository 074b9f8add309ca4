//! Why a candidate failed in a worker.

use compiler::{BuildError, Diagnostic};
use family::SettingError;
use gpu::accelerator::AcceleratorError;
use op::{Refusal, RunError};
use runlog::FailureKind;

/// How many compiler diagnostics a failure quotes.
const MAX_DIAGNOSTICS: usize = 3;

/// Why a candidate failed.
#[derive(Clone, Debug)]
pub struct CandidateFailure {
    pub kind: FailureKind,
    pub reason: String,
}

impl CandidateFailure {
    /// A failure of a kind, with its reason.
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        CandidateFailure { kind, reason: reason.into() }
    }

    /// A failure of no particular kind.
    pub fn other(reason: impl Into<String>) -> Self {
        CandidateFailure::new(FailureKind::Other, reason)
    }

    /// A failed build. A compile error quotes the first diagnostics.
    pub fn build(error: &BuildError) -> Self {
        match error {
            BuildError::Source { diagnostics, .. } => {
                let describe = |it: &Diagnostic| match &it.place {
                    Some(place) => format!("line {}: {}", place.line, it.message),
                    None => it.message.clone(),
                };
                let messages: Vec<String> = diagnostics.iter().take(MAX_DIAGNOSTICS).map(describe).collect();
                CandidateFailure::new(
                    FailureKind::DoesNotCompile,
                    format!("{error}: {}", messages.join("; ")),
                )
            }
            BuildError::NoKernel { .. } | BuildError::Process { .. } => {
                CandidateFailure::new(FailureKind::DoesNotCompile, error.to_string())
            }
            BuildError::TooLarge { .. }
            | BuildError::Nvrtc(_)
            | BuildError::NoAssembler { .. }
            | BuildError::Assembler { .. }
            | BuildError::Io { .. } => CandidateFailure::other(error.to_string()),
        }
    }
}

impl From<AcceleratorError> for CandidateFailure {
    fn from(error: AcceleratorError) -> Self {
        let kind = match &error {
            AcceleratorError::Memory(_) => FailureKind::OutOfMemory,
            AcceleratorError::TooLarge { .. } => FailureKind::TooLarge,
            AcceleratorError::Fault { access: true, .. } => FailureKind::IllegalAccess,
            AcceleratorError::Fault { access: false, .. } => FailureKind::Crash,
            AcceleratorError::Launch { .. }
            | AcceleratorError::Arguments(_)
            | AcceleratorError::Load(_)
            | AcceleratorError::NoKernel(_) => FailureKind::Refused,
            AcceleratorError::NoDriver(_)
            | AcceleratorError::NoDevice(_)
            | AcceleratorError::Driver { .. }
            | AcceleratorError::Lost(_) => FailureKind::Other,
        };
        CandidateFailure::new(kind, error.to_string())
    }
}

impl From<SettingError> for CandidateFailure {
    fn from(error: SettingError) -> Self {
        let kind = match error {
            SettingError::SharedMemory { .. } | SettingError::Threads { .. } => FailureKind::TooLarge,
            _ => FailureKind::Refused,
        };
        CandidateFailure::new(kind, error.to_string())
    }
}

impl From<Refusal> for CandidateFailure {
    fn from(refusal: Refusal) -> Self {
        CandidateFailure::new(FailureKind::Refused, refusal.to_string())
    }
}

impl From<RunError> for CandidateFailure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Setting(error) => error.into(),
            RunError::Build(error) => CandidateFailure::build(&error),
            RunError::Accelerator(error) => error.into(),
            RunError::Grid { .. } => CandidateFailure::new(FailureKind::TooLarge, error.to_string()),
        }
    }
}
