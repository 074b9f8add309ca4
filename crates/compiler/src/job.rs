//! One call of the compiler's libraries: NVRTC for CUDA C++, nvJitLink for PTX.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::nvjitlink::{self, AssembleError, Assembled};
use crate::nvrtc::{Compiled, Nvrtc, NvrtcError};
use crate::toolchain::Toolchain;
use crate::{BuildError, Source, log};

/// A source and all options of its compilation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub toolchain: Toolchain,
    pub source: Source,
    pub options: Vec<String>,
}

/// Why a job gave no code.
#[derive(Debug)]
pub(crate) enum JobError {
    /// The source has errors.
    Source { log: String },
    /// A library cannot be loaded, or one of its calls failed.
    Library(LibraryError),
    /// The process that compiled was lost; the text says how.
    Process(String),
}

#[derive(Debug)]
pub(crate) enum LibraryError {
    Nvrtc(NvrtcError),
    Assembler(String),
}

impl JobError {
    pub fn of(self, source: &Source) -> BuildError {
        let name = source.name.clone();
        match self {
            JobError::Source { log } => BuildError::Source { name, diagnostics: log::errors(&log), log },
            JobError::Library(LibraryError::Nvrtc(error)) => BuildError::Nvrtc(error),
            JobError::Library(LibraryError::Assembler(reason)) => BuildError::Assembler { name, reason },
            JobError::Process(reason) => BuildError::Process { name, reason },
        }
    }
}

/// The libraries of one process. They are loaded at first use and kept.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    nvrtc: OnceLock<Nvrtc>,
}

impl Libraries {
    pub fn run(&self, job: &Job) -> Result<Compiled, JobError> {
        if job.source.is_ptx() { assemble(job) } else { self.compile(job) }
    }

    /// NVRTC of this toolchain. A process uses one toolchain only.
    pub fn nvrtc(&self, toolchain: &Toolchain) -> Result<&Nvrtc, NvrtcError> {
        if let Some(nvrtc) = self.nvrtc.get() {
            return Ok(nvrtc);
        }
        // Two threads may both load the library. Loading is idempotent, and the first to finish is kept.
        let nvrtc = Nvrtc::load(toolchain)?;
        Ok(self.nvrtc.get_or_init(|| nvrtc))
    }

    fn compile(&self, job: &Job) -> Result<Compiled, JobError> {
        let Source { name, text, headers, instances, .. } = &job.source;
        let compiled = self
            .nvrtc(&job.toolchain)
            .and_then(|nvrtc| nvrtc.compile(name, text, headers, instances, &job.options));
        compiled.map_err(|error| match error {
            NvrtcError::Compilation { log } => JobError::Source { log },
            other => JobError::Library(LibraryError::Nvrtc(other)),
        })
    }
}

fn assemble(job: &Job) -> Result<Compiled, JobError> {
    let Source { name, text, .. } = &job.source;
    let failed = |reason: String| JobError::Library(LibraryError::Assembler(reason));
    let library = job.toolchain.nvjitlink.as_ref().ok_or_else(|| failed("no nvJitLink".to_owned()))?;
    let assembled = nvjitlink::assemble(library, name, text, &job.options);
    let Assembled { cubin, log } = assembled.map_err(|error| match error {
        AssembleError::Source { log } => JobError::Source { log },
        other => failed(other.to_string()),
    })?;
    Ok(Compiled { ptx: text.clone(), cubin, log, lowered_names: Vec::new() })
}
