//! Why attention cannot be computed.

use compiler::BuildError;
use compiler::toolchain::ToolchainError;
use gpu::accelerator::AcceleratorError;

/// Why attention cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// An argument is wrong.
    #[error("{argument}: {reason}")]
    Argument {
        /// The name of the argument: `q`, `scale`, ...
        argument: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No kernel supports the problem on this GPU; contains the reason.
    #[error("{0}")]
    Unsupported(String),
    /// There is no compiler for the kernel, and none can be installed.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// The kernel could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An operation of the device failed.
    #[error(transparent)]
    Device(#[from] AcceleratorError),
    /// The virtual GPU found a mistake of the kernel; contains the findings.
    #[error("the virtual GPU found a mistake in the kernel:\n{0}")]
    Findings(String),
}

/// An error that names an argument.
pub(super) fn wrong(argument: &'static str, reason: impl Into<String>) -> ForwardError {
    ForwardError::Argument { argument, reason: reason.into() }
}
