//! The error of a command: a message, an optional hint and an exit code.

use attention::forward::ForwardError;
use compiler::BuildError;
use compiler::toolchain::ToolchainError;
use family::{CatalogError, SettingError};
use lab::StageError;
use lab::profile::ncu::NcuError;
use op::Refusal;
use sanitize::SanitizeError;

use crate::exit::Exit;

/// Why a command failed.
#[derive(Clone, Debug)]
pub struct CommandError {
    /// The exit code of the program.
    pub exit: Exit,
    /// What is wrong and where.
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

impl CommandError {
    /// A usage error: a wrong flag, name or file.
    pub fn usage(message: impl Into<String>) -> Self {
        CommandError { exit: Exit::UsageError, message: message.into(), hint: None }
    }

    /// A problem that the command found.
    pub fn problem(message: impl Into<String>) -> Self {
        CommandError { exit: Exit::ProblemFound, message: message.into(), hint: None }
    }

    /// A missing requirement.
    pub fn missing(message: impl Into<String>) -> Self {
        CommandError { exit: Exit::MissingRequirement, message: message.into(), hint: None }
    }

    /// Sets the hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        let error = if refusal.is_missing {
            CommandError::missing(refusal.message)
        } else {
            CommandError::usage(refusal.message)
        };
        CommandError { hint: refusal.hint, ..error }
    }
}

impl From<ForwardError> for CommandError {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Argument { .. } | ForwardError::Unsupported(_) => {
                CommandError::usage(error.to_string())
            }
            ForwardError::Toolchain(error) => error.into(),
            ForwardError::Build(error) => error.into(),
            ForwardError::Device(_) => CommandError::missing(error.to_string()),
            ForwardError::Findings(_) => CommandError::problem(error.to_string()),
        }
    }
}

impl From<StageError> for CommandError {
    fn from(error: StageError) -> Self {
        match error {
            StageError::Refused(refusal) => refusal.into(),
            other => CommandError::missing(other.to_string()),
        }
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
            ToolchainError::NamedUnusable { .. } => {
                "name a CUDA toolkit of version 12 or newer, or name none to have one found or installed"
                    .to_owned()
            }
            ToolchainError::Install(cause) => cause.remedy(),
        };
        CommandError::missing(error.to_string()).hint(hint)
    }
}

impl From<&NcuError> for CommandError {
    fn from(error: &NcuError) -> Self {
        CommandError::missing(error.to_string()).hint(error.remedy())
    }
}

impl From<BuildError> for CommandError {
    fn from(error: BuildError) -> Self {
        match &error {
            BuildError::Source { .. }
            | BuildError::NoKernel { .. }
            | BuildError::TooLarge { .. }
            | BuildError::Process { .. } => {
                CommandError { exit: Exit::ProblemFound, message: error.to_string(), hint: None }
            }
            BuildError::NoAssembler { .. } => CommandError::missing(error.to_string()),
            BuildError::Nvrtc(_) | BuildError::Assembler { .. } => CommandError::missing(error.to_string())
                .hint("`warpsmith toolchain` shows where the compiler comes from"),
            BuildError::Io { .. } => {
                CommandError::missing(error.to_string()).hint("set WARPSMITH_CACHE to a writable folder")
            }
        }
    }
}

impl From<SanitizeError> for CommandError {
    fn from(error: SanitizeError) -> Self {
        let text = error.to_string();
        match error {
            SanitizeError::Usage { hint, .. } => CommandError { hint, ..CommandError::usage(text) },
            SanitizeError::NotOneKernel { kernels } => {
                CommandError::usage(format!("{text}: name one with --kernel")).hint(kernels)
            }
            SanitizeError::TemplateArguments { kernel, parameters: Some(parameters) } => {
                CommandError::usage(text).hint(format!(
                    "it is a template of <{parameters}>; name its arguments as in --kernel '{kernel}<float>'"
                ))
            }
            SanitizeError::TemplateArguments { kernel, parameters: None } => CommandError::usage(text)
                .hint(format!("if it is a template, name its arguments: --kernel '{kernel}<float>'")),
            SanitizeError::Unsupported { hint, .. } => CommandError { hint, ..CommandError::missing(text) },
            SanitizeError::Build(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_profiler_is_a_missing_requirement_with_a_hint() {
        for error in [
            NcuError::Missing,
            NcuError::NoPermission,
            NcuError::Unfit { version: "2025.3".to_owned(), needs: 13, has: 12 },
        ] {
            let failure = CommandError::from(&error);
            assert_eq!(failure.exit, Exit::MissingRequirement, "{error}");
            assert!(failure.hint.is_some_and(|hint| !hint.is_empty()), "{error}");
        }
    }
}
