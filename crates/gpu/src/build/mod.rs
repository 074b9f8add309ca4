//! Source + target -> PTX, cubin and the resources they need, through a content-addressed cache.

mod cache;
mod compiler;
mod includes;
mod log;
pub(crate) mod machine_code;
mod standard;

use std::path::PathBuf;

use chips::Target;
use serde::{Deserialize, Serialize};

pub use compiler::{BuildOutcome, Compiler};
pub use includes::included_names;
pub use log::{Diagnostic, Place, Severity};
pub use standard::standard_headers;

use crate::nvrtc::NvrtcError;

/// CUDA C++ to be compiled.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// How messages and line tables call it.
    pub name: String,
    pub text: String,
    /// Headers that exist in memory only, as (name in `#include`, text).
    pub headers: Vec<(String, String)>,
    /// Folders on disk whose headers the source may include. What it includes is part of the build's hash.
    pub include_dirs: Vec<PathBuf>,
}

/// One compilation that somebody wants.
#[derive(Clone, Debug)]
pub struct Request {
    pub source: Source,
    pub target: Target,
    /// Further compiler options, in order.
    pub options: Vec<String>,
}

/// What a request compiles to. Plain data: it is what the cache stores and what later stages take.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Build {
    /// Over the exact source with its includes, the options and the compiler's version.
    pub hash: String,
    /// Over the machine code alone: two requests with one code hash are one kernel.
    pub code_hash: String,
    pub target: Target,
    pub compiler: String,
    pub entries: Vec<Entry>,
    /// How long the compiler took when it ran.
    pub compile_ms: f64,
    /// Warnings, if the compiler had any.
    pub warnings: Vec<Diagnostic>,
    #[serde(skip)]
    pub ptx: String,
    #[serde(skip)]
    pub cubin: Vec<u8>,
}

/// A kernel of the build and what it needs, as the assembler reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    pub registers: u32,
    pub static_shared_bytes: u32,
    pub stack_bytes: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    pub constant_bytes: u32,
    pub barriers: u32,
}

impl Build {
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Of PTX and cubin together.
    pub fn bytes(&self) -> u64 {
        (self.ptx.len() + self.cubin.len()) as u64
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The source is wrong: the compiler's diagnostics say where.
    #[error("{} does not compile ({} error{})", name, diagnostics.len(), if diagnostics.len() == 1 { "" } else { "s" })]
    Source { name: String, diagnostics: Vec<Diagnostic>, log: String },
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    #[error("the compiler's log names no kernel; is there an `extern \"C\" __global__` function in {name}?")]
    NoKernel { name: String },
    #[error("{name} compiles to {} MiB; {} MiB are allowed. Does it have a very large initialised array?", bytes >> 20, most >> 20)]
    TooLarge { name: String, bytes: u64, most: u64 },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}
