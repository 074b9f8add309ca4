//! Why a command could not do what was asked: what to say, what to hint at, and the exit code.

use family::{CatalogError, SettingError};
use gpu::build::BuildError;
use gpu::toolchain::ToolchainError;
use lab::profile::ncu::NcuError;
use op::Refusal;

use crate::exit::Exit;

#[derive(Clone, Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Usage, message: message.into(), hint: None }
    }

    pub fn finding(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Finding, message: message.into(), hint: None }
    }

    pub fn lacking(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Lacking, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure { hint: refusal.hint, ..Failure::usage(refusal.message) }
    }
}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        Failure { hint: error.hint(), ..Failure::usage(error.to_string()) }
    }
}

impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Self {
        Failure { hint: error.hint(), ..Failure::usage(error.to_string()) }
    }
}

impl From<ToolchainError> for Failure {
    fn from(error: ToolchainError) -> Self {
        let hint = match &error {
            ToolchainError::NamedUnfit { .. } => {
                "name a CUDA toolkit of version 12 or newer, or leave it out to have one found or installed"
                    .to_owned()
            }
            ToolchainError::Install(cause) => cause.remedy(),
        };
        Failure::lacking(error.to_string()).hint(hint)
    }
}

impl From<&NcuError> for Failure {
    fn from(error: &NcuError) -> Self {
        Failure::lacking(error.to_string()).hint(error.remedy())
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match &error {
            BuildError::Source { .. } | BuildError::NoKernel { .. } | BuildError::TooLarge { .. } => {
                Failure { exit: Exit::Finding, message: error.to_string(), hint: None }
            }
            BuildError::Nvrtc(_) => Failure::lacking(error.to_string())
                .hint("`warpsmith toolchain` shows where the compiler comes from"),
            BuildError::Io { .. } => Failure::lacking(error.to_string())
                .hint("set WARPSMITH_CACHE to a folder that can be written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiler_that_cannot_be_used_is_what_the_machine_lacks() {
        for error in [
            NcuError::Missing,
            NcuError::NoPermission,
            NcuError::Unfit { version: "2025.3".to_owned(), needs: 13, has: 12 },
        ] {
            let failure = Failure::from(&error);
            assert_eq!(failure.exit, Exit::Lacking, "{error}");
            assert!(failure.hint.is_some_and(|hint| !hint.is_empty()), "{error}");
        }
    }
}
