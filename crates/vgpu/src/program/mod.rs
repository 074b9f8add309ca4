//! A loaded module: kernels ready to run.

pub mod flow;
mod load;
pub mod registers;
pub mod source;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use flow::Block;
pub use load::load;
pub use source::{SourceFrame, SourceMap};

use crate::isa::decode::{Constant, Fidelity, Meta};
use crate::isa::op::{Class, Inst, Slot};
use crate::notice::Notice;

/// PTX text, decoded: independent of any device, immutable, shareable between threads.
#[derive(Debug)]
pub struct Module {
    /// Distinguishes modules on a device; two loads of one text are two modules.
    pub(crate) id: u64,
    pub target: String,
    pub version: (u32, u32),
    pub kernels: Vec<Kernel>,
    pub(crate) variables: Vec<ModuleVariable>,
    pub(crate) sources: SourceMap,
    pub fidelity: FidelityReport,
}

impl Module {
    /// The notices of a kernel; none if there is no such kernel.
    pub fn notices(&self, kernel: &str) -> Vec<Notice> {
        self.kernel(kernel).map_or_else(Vec::new, |kernel| kernel.notices.clone())
    }

    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

/// What of the module runs bit for bit as on hardware, and what within a bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FidelityReport {
    /// Mnemonic with modifiers, how often it occurs, and its class.
    pub instructions: BTreeMap<String, FidelityRow>,
    /// Directives the loader does not know and passed over.
    pub ignored_directives: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FidelityRow {
    pub fidelity: Fidelity,
    pub count: u32,
}

/// One thing wrong with a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Place in the PTX text.
    pub line: u32,
    pub column: u32,
    pub message: String,
    /// The instruction refused, with its modifiers.
    pub instruction: Option<String>,
    pub function: Option<String>,
    /// The CUDA source line it comes from, innermost frame first.
    pub source: Vec<SourceFrame>,
}

/// A module that cannot run, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub struct LoadError {
    pub diagnostics: Vec<Diagnostic>,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, d) in self.diagnostics.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "ptx:{}:{}: ", d.line, d.column)?;
            if let Some(instruction) = &d.instruction {
                write!(f, "`{instruction}`: ")?;
            }
            f.write_str(&d.message)?;
            if let Some(frame) = d.source.first() {
                write!(f, " ({}:{})", frame.file, frame.line)?;
            }
        }
        Ok(())
    }
}

/// A `.global` or `.const` variable some kernel refers to.
#[derive(Debug)]
pub struct ModuleVariable {
    pub name: String,
    pub align: u32,
    pub bytes: u64,
    /// Initial contents; shorter than `bytes` means zeros follow.
    pub init: Vec<u8>,
    /// Eight-byte words of `init` that hold the address of another variable: offset, variable, addend.
    pub relocations: Vec<(u64, u32, i64)>,
    pub constant: bool,
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    pub name: String,
    pub offset: u32,
    pub bytes: u32,
    pub align: u32,
}

/// An entry point with all functions it can reach; function 0 is the entry.
#[derive(Debug)]
pub struct Kernel {
    pub name: String,
    pub params: Vec<Param>,
    pub param_bytes: u32,
    /// Static shared memory.
    pub shared_bytes: u32,
    /// `.maxntid`/`.reqntid`, if given.
    pub max_threads: Option<u32>,
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`, if given.
    pub cluster: Option<[u32; 3]>,
    pub(crate) functions: Vec<Function>,
    pub(crate) constants: Vec<(Class, Constant, u32)>,
    pub(crate) constant_units: u32,
    /// Where dynamic shared memory starts.
    pub(crate) dynamic_shared: u32,
    /// Targets of calls through pointers: address and function.
    pub(crate) targets: Vec<(u64, u32)>,
    pub(crate) notices: Vec<Notice>,
    /// Named shared variables, for findings: offset, bytes, name.
    pub(crate) shared_variables: Vec<(u32, u32, String)>,
}

#[derive(Debug)]
pub struct Function {
    pub(crate) insts: Vec<Inst>,
    pub(crate) metas: Vec<Meta>,
    pub(crate) blocks: Vec<Block>,
    /// Block of each instruction.
    pub(crate) block_of: Vec<u32>,
    pub(crate) frame: registers::Frame,
    /// 32-bit places the caller writes arguments to.
    pub(crate) params: Vec<Slot>,
    /// Words it returns.
    pub(crate) return_words: u32,
    pub(crate) local_bytes: u32,
    /// First instruction number of this function when those of all functions are counted through.
    pub(crate) first: u32,
}
