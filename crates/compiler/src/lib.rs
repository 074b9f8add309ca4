//! CUDA without a toolkit: finds or installs NVRTC, compiles kernels with it and caches the builds. It uses no GPU and no
//! driver.
//!
//! [`Compiler`] compiles a [`Source`] for a target into PTX and cubin with their resource use, through a
//! content-addressed cache, in this process or in others ([`Compiler::in_processes`]). [`toolchain`] finds or installs NVRTC and the CUDA headers. [`nvrtc`] is the compiler
//! library, loaded at run time.

mod cache;
mod compiler;
mod host_code;
mod includes;
mod job;
mod log;
pub mod machine_code;
mod nvcc_source;
mod nvjitlink;
pub mod nvrtc;
mod pack;
mod processes;
mod standard;
#[doc(hidden)]
pub mod testing;
pub mod toolchain;

use std::path::{Path, PathBuf};

use chips::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use compiler::{BuildOutcome, Compiler};

pub use includes::included_names;
pub use log::{Diagnostic, Place, Severity};
pub use nvcc_source::{NvccOutcome, needed_target, prepare_nvcc_source};
pub use pack::{Pack, PackError};
pub use processes::serve;
pub use standard::standard_headers;

use crate::nvrtc::NvrtcError;

/// A CUDA C++ source, or a PTX text if its name ends with `.ptx`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// Name of the source in messages and line tables.
    pub name: String,
    /// The source text.
    pub text: String,
    /// Headers that exist only in memory, as (name in `#include`, text).
    pub headers: Vec<(String, String)>,
    /// Folders on disk whose headers the source may include. Included files are part of the build's hash.
    pub include_dirs: Vec<PathBuf>,
    /// Kernels to instantiate from templates, as expressions: `scale<float>`.
    pub instances: Vec<String>,
}

impl Source {
    /// Whether the text is PTX, by the name of the source.
    pub fn is_ptx(&self) -> bool {
        is_ptx(Path::new(&self.name))
    }
}

/// Whether a path names a PTX file.
pub fn is_ptx(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "ptx")
}

/// The names of the kernels in a PTX text.
pub fn ptx_entries(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let after = line.split_once(".entry")?.1.trim_start();
        let end = after.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')));
        let name = &after[..end.unwrap_or(after.len())];
        (!name.is_empty() && !line.trim_start().starts_with("//")).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// One compilation.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source to compile.
    pub source: Source,
    /// The target to compile for.
    pub target: Target,
    /// Further compiler options, in order.
    pub options: Vec<String>,
}

/// The result of a compilation. Plain data: the cache stores it, and later stages use it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Build {
    /// Hash of the exact source with its includes, the options and the compiler's version.
    pub hash: String,
    /// Hash of the machine code alone. Two builds with the same code hash are the same kernel.
    pub code_hash: String,
    /// The target that the build was compiled for.
    pub target: Target,
    /// The compiler's exact version with that of its headers.
    pub compiler: String,
    /// The kernels of the build.
    pub entries: Vec<Entry>,
    /// Compile time; for a cached build, the time of the original compilation.
    pub compile_ms: f64,
    /// Warnings of the compiler.
    pub warnings: Vec<Diagnostic>,
    /// The function names of [`Source::instances`], in their order.
    #[serde(default)]
    pub lowered_names: Vec<String>,
    /// The PTX text.
    #[serde(skip)]
    pub ptx: String,
    /// The machine code.
    #[serde(skip)]
    pub cubin: Vec<u8>,
}

/// A kernel of the build and its resource use, as the assembler reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Entry {
    /// The kernel's function name.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Static shared memory per block in bytes.
    pub static_shared_bytes: u32,
    /// Stack frame of a thread in bytes.
    pub stack_bytes: u32,
    /// Bytes of spill stores.
    pub spill_store_bytes: u32,
    /// Bytes of spill loads.
    pub spill_load_bytes: u32,
    /// Bytes of constant bank 0 (`cmem[0]`), which holds the parameters.
    pub constant_bytes: u32,
    /// Number of barriers.
    pub barriers: u32,
    /// Number of the assembler's notes that it serialises warpgroup products (`wgmma`).
    pub serialised_wgmma: u32,
}

impl Build {
    /// The kernel with this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Why a kernel is not in the build.
    pub fn missing(&self, name: &str) -> String {
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        let is_mangled = names.iter().any(|it| it.starts_with("_Z") && it.contains(name));
        let advice = if is_mangled { "; write extern \"C\" before __global__" } else { "" };
        format!("the build has no kernel `{name}`, but {}{advice}", names.join(", "))
    }

    /// Size of PTX and cubin together.
    pub fn bytes(&self) -> u64 {
        (self.ptx.len() + self.cubin.len()) as u64
    }
}

/// An error of a build.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The source has errors; the diagnostics tell where.
    #[error("{} does not compile ({} error{})", name, diagnostics.len(), if diagnostics.len() == 1 { "" } else { "s" })]
    Source {
        /// The source's name in messages.
        name: String,
        /// The compiler's errors with their places.
        diagnostics: Vec<Diagnostic>,
        /// The compiler's complete log.
        log: String,
    },
    /// NVRTC cannot be loaded, or one of its calls failed.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// The source is PTX, and the toolchain has no nvJitLink.
    #[error("{name} is PTX, and {} has no libnvJitLink to assemble it; install the package nvidia-nvjitlink there, or run `warpsmith toolchain install` and name that toolchain with --cuda", toolchain.display())]
    NoAssembler {
        /// The source's name in messages.
        name: String,
        /// The folder of the toolchain.
        toolchain: PathBuf,
    },
    /// nvJitLink cannot be loaded, or one of its calls failed.
    #[error("cannot assemble {name}: {reason}")]
    Assembler {
        /// The source's name in messages.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The compiler crashed, did not end, or needed too much memory.
    #[error("the compiler failed on {name}: {reason}")]
    Process {
        /// The source's name in messages.
        name: String,
        /// How the compiler's process was lost, in words.
        reason: String,
    },
    /// The source compiles but contains no kernel.
    #[error("{name} has no kernel; add an `extern \"C\" __global__` function")]
    NoKernel {
        /// The source's name in messages.
        name: String,
    },
    /// PTX and cubin together are too large.
    #[error("{name} compiles to {} MiB, but at most {} MiB are allowed; check for a very large initialised array", bytes >> 20, most >> 20)]
    TooLarge {
        /// The source's name in messages.
        name: String,
        /// Size of PTX and cubin in bytes.
        bytes: u64,
        /// The largest allowed size in bytes.
        most: u64,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}
