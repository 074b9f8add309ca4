//! Why a kernel cannot be run.

use compiler::BuildError;

/// Why a kernel cannot be run. A launch that ran and has findings is not an error.
#[derive(Debug, thiserror::Error)]
pub enum SanitizeError {
    /// The kernel, the launch or the arguments are wrong.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What the user can do.
        hint: Option<String>,
    },
    /// No kernel was named, and the file does not have exactly one.
    #[error("the file does not have exactly one kernel")]
    NotOneKernel {
        /// The kernels of the file, as text.
        kernels: String,
    },
    /// No kernel has the name, but it may be that of a template, which needs arguments.
    #[error("there is no kernel `{kernel}` in the file")]
    TemplateArguments {
        /// The name.
        kernel: String,
        /// The parameters of the template as the source has them: `typename T, int N`.
        parameters: Option<String>,
    },
    /// The virtual GPU cannot run the code, or it has too little memory.
    #[error("{message}")]
    Unsupported {
        /// What is not supported.
        message: String,
        /// What the user can do.
        hint: Option<String>,
    },
    /// The code cannot be compiled.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl SanitizeError {
    /// A wrong kernel, launch or argument.
    pub fn usage(message: impl Into<String>) -> Self {
        SanitizeError::Usage { message: message.into(), hint: None }
    }

    /// Something that the virtual GPU does not support.
    pub fn unsupported(message: impl Into<String>) -> Self {
        SanitizeError::Unsupported { message: message.into(), hint: None }
    }

    /// Sets the hint of an error that can have one.
    #[must_use]
    pub fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let SanitizeError::Usage { hint, .. } | SanitizeError::Unsupported { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }
}
