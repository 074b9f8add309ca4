//! Why a command could not do what was asked: what to say, what to hint at, and the exit code.

use family::{CatalogError, SettingError};
use gpu::build::BuildError;
use gpu::toolchain::ToolchainError;
use lab::profile::ncu::NcuError;
use op::Refusal;

use crate::exit::Exit;

#[derive(Clone, Debug)]
pub struct CommandError {
    pub exit: Exit,
    pub message: String,
    pub hint: Option<String>,
}

impl CommandError {
    pub fn usage(message: impl Into<String>) -> Self {
        CommandError { exit: Exit::Usage, message: message.into(), hint: None }
    }

    pub fn finding(message: impl Into<String>) -> Self {
        CommandError { exit: Exit::Finding, message: message.into(), hint: None }
    }

    pub fn lacking(message: impl Into<String>) -> Self {
        CommandError { exit: Exit::Lacking, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        CommandError { hint: refusal.hint, ..CommandError::usage(refusal.message) }
    }
}

impl From<SettingError> for CommandError {
    fn from(error: SettingError) -> Self {
        CommandError { hint: error.hint(), ..CommandError::usage(error.to_string()) }
    }
}

impl From<CatalogError> for CommandError {
    fn from(error: CatalogError) -> Self {
        CommandError { hint: error.hint(), ..CommandError::usage(error.to_string()) }
    }
}

impl From<ToolchainError> for CommandError {
    fn from(error: ToolchainError) -> Self {
        let hint = match &error {
            ToolchainError::NamedUnfit { .. } => {
                "name a CUDA toolkit of version 12 or newer, or leave it out to have one found or installed"
                    .to_owned()
            }
            ToolchainError::Install(cause) => cause.remedy(),
        };
        CommandError::lacking(error.to_string()).hint(hint)
    }
}

impl From<&NcuError> for CommandError {
    fn from(error: &NcuError) -> Self {
        CommandError::lacking(error.to_string()).hint(error.remedy())
    }
}

impl From<BuildError> for CommandError {
    fn from(error: BuildError) -> Self {
        match &error {
            BuildError::Source { .. } | BuildError::NoKernel { .. } | BuildError::TooLarge { .. } => {
                CommandError { exit: Exit::Finding, message: error.to_string(), hint: None }
            }
            BuildError::Nvrtc(_) => CommandError::lacking(error.to_string())
                .hint("`warpsmith toolchain` shows where the compiler comes from"),
            BuildError::Io { .. } => CommandError::lacking(error.to_string())
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
            let failure = CommandError::from(&error);
            assert_eq!(failure.exit, Exit::Lacking, "{error}");
            assert!(failure.hint.is_some_and(|hint| !hint.is_empty()), "{error}");
        }
    }
}
