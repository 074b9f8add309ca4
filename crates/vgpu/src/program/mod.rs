//! A loaded module: kernels that are ready to run.

mod control;
pub mod facts;
pub mod flow;
mod load;
mod polls;
mod product_fences;
pub mod registers;
pub mod source;
pub mod values;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use flow::Block;
pub use load::load;
pub use source::{SourceFrame, SourceMap};

use crate::isa::decode::{Constant, Fidelity, Meta};
use crate::isa::op::{Class, Inst, Op, Slot};
use crate::isa::types::Ty;

/// Decoded PTX text. It is independent of any device, immutable, and can be shared between threads.
#[derive(Clone, Debug)]
pub struct Module {
    /// Distinguishes modules on a device. Two loads of one text are two modules.
    pub(crate) id: u64,
    /// The `.target` of the PTX, such as `sm_90a`.
    pub target: String,
    /// The `.version` of the PTX.
    pub version: (u32, u32),
    /// The kernels of the module.
    pub kernels: Arc<[Kernel]>,
    /// The kernels that use something that the virtual GPU does not support.
    pub refused: Arc<[RefusedKernel]>,
    pub(crate) variables: Arc<[ModuleVariable]>,
    pub(crate) sources: Arc<SourceMap>,
    /// How exactly the instructions of the module run.
    pub fidelity: FidelityReport,
}

impl Module {
    pub(crate) fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Loads the text of the module once more, without decoding it again. The new module has its own variables.
    #[must_use]
    pub fn load_again(&self) -> Module {
        Module { id: Module::next_id(), ..self.clone() }
    }

    /// Returns the problems of a refused kernel.
    pub fn refusal(&self, name: &str) -> Option<&LoadError> {
        self.refused.iter().find(|kernel| kernel.name == name).map(|kernel| &kernel.error)
    }

    /// Returns the kernel with this name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

/// Which instructions of the module run bit for bit as on hardware, and which run within an error bound.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FidelityReport {
    /// Instructions by mnemonic with modifiers: how often each occurs, and its fidelity.
    pub instructions: BTreeMap<String, FidelityRow>,
    /// Directives that the loader does not know and skipped.
    pub ignored_directives: Vec<String>,
}

/// An instruction of the fidelity report.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FidelityRow {
    /// Fidelity of the instruction.
    pub fidelity: Fidelity,
    /// How often the instruction occurs in the text.
    pub count: u32,
}

/// One problem of a module.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Line in the PTX text.
    pub line: u32,
    /// Column in the PTX text.
    pub column: u32,
    /// Description of the problem.
    pub message: String,
    /// The rejected instruction, with its modifiers.
    pub instruction: Option<String>,
    /// The function that contains the problem.
    pub function: Option<String>,
    /// The CUDA source line of the instruction, innermost frame first.
    pub source: Vec<SourceFrame>,
}

/// A module that cannot run, with all its problems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct LoadError {
    /// The problems, sorted by position.
    pub diagnostics: Vec<Diagnostic>,
}

/// A kernel that cannot run. Its siblings can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedKernel {
    /// Name of the kernel.
    pub name: String,
    /// The problems of the kernel and of the functions that it calls.
    pub error: LoadError,
}

impl LoadError {
    pub(crate) fn new(mut diagnostics: Vec<Diagnostic>) -> LoadError {
        diagnostics.sort_by_key(|d| (d.line, d.column));
        diagnostics.dedup();
        LoadError { diagnostics }
    }
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

/// A `.global` or `.const` variable of the module.
#[derive(Debug)]
pub struct ModuleVariable {
    pub name: String,
    pub align: u32,
    pub bytes: u64,
    /// Initial contents. If they are shorter than `bytes`, zeros follow.
    pub init: Vec<u8>,
    /// Eight-byte words of `init` that hold the address of another variable: offset, variable, addend.
    pub relocations: Vec<(u64, u32, i64)>,
    pub constant: bool,
    /// Whether host code accesses the variable at the address that kernels use.
    pub managed: bool,
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Name of the parameter.
    pub name: String,
    /// Offset in the parameter block, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Type of an element in PTX, such as `f32`, `u64` or `b8`.
    pub element: String,
    /// Whether the PTX declares the parameter as a pointer. Many compilers leave that out.
    pub pointer: bool,
}

impl std::fmt::Display for Param {
    /// The type, as in `f32`, `b8[16]` or `u64 pointer`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.element)?;
        let element = Ty::parse(&self.element).map_or(1, Ty::bytes).max(1);
        if element != self.bytes {
            write!(f, "[{}]", self.bytes / element)?;
        }
        if self.pointer { f.write_str(" pointer") } else { Ok(()) }
    }
}

/// An entry point with all functions that it can reach. Function 0 is the entry.
#[derive(Debug)]
pub struct Kernel {
    /// Name of the kernel.
    pub name: String,
    /// Parameters of the kernel.
    pub params: Vec<Param>,
    /// Size of all parameters in bytes.
    pub param_bytes: u32,
    /// Size of static shared memory in bytes.
    pub shared_bytes: u32,
    /// Threads per block of `.maxntid`, if given.
    pub max_threads: Option<u32>,
    /// Blocks per multiprocessor of `.minnctapersm`, if given.
    pub min_blocks: Option<u32>,
    /// Registers per thread of `.maxnreg`, if given.
    pub max_registers: Option<u32>,
    /// Block shape of `.reqntid`, if given.
    pub required_threads: Option<[u32; 3]>,
    /// Cluster shape of `.reqnctapercluster`, if given.
    pub cluster: Option<[u32; 3]>,
    /// Whether the kernel calls `malloc` or `free`.
    pub(crate) uses_heap: bool,
    /// Whether the kernel reads the address of the grid's workspace, as `grid.sync` does.
    pub(crate) synchronises_grid: bool,
    /// Whether the kernel can access the shared memory of other blocks.
    pub(crate) reaches_peers: bool,
    /// The instruction that lets dependent kernels start, if the kernel reads global memory and never waits for the kernels
    /// that it may depend on itself.
    pub(crate) starts_dependents_without_wait: Option<u32>,
    /// Whether the kernel can change tensor maps.
    pub(crate) changes_maps: bool,
    pub(crate) functions: Vec<Function>,
    pub(crate) constants: Vec<(Class, Constant, u32)>,
    pub(crate) constant_units: u32,
    /// Offset at which dynamic shared memory starts.
    pub(crate) dynamic_shared: u32,
    /// Targets of calls through pointers: address and function.
    pub(crate) targets: Vec<(u64, u32)>,
    /// Offset of the shared memory that the system reserves, if the kernel uses it. It starts with zeros.
    pub(crate) reserved_shared: Option<u32>,
    /// Named shared variables, for findings: offset, bytes, name.
    pub(crate) shared_variables: Vec<(u32, u32, String)>,
    /// What is known about the values of loads and stores, by instruction, counted through all functions.
    pub(crate) facts: Arc<[facts::Fact]>,
    /// The parameters that point to the memory that the kernel may write. `None`: it may write any memory.
    pub(crate) written: Option<facts::Parameters>,
}

/// Bytes of shared memory that the system reserves in each block.
pub(crate) const RESERVED_SHARED_BYTES: u32 = 1024;

#[derive(Debug)]
pub struct Function {
    pub(crate) insts: Vec<Inst>,
    pub(crate) metas: Vec<Meta>,
    pub(crate) blocks: Vec<Block>,
    /// Block of each instruction.
    pub(crate) block_of: Vec<u32>,
    pub(crate) frame: registers::Frame,
    /// 32-bit slots to which the caller writes the arguments.
    pub(crate) params: Vec<Slot>,
    /// Number of words that the function returns.
    pub(crate) return_words: u32,
    pub(crate) local_bytes: u32,
    /// Number of the first instruction of this function, counted through all functions.
    pub(crate) first: u32,
    /// Which blocks can be reached from each block. Computed when it is first needed.
    pub(crate) reachable: OnceLock<flow::Reachable>,
    /// The code that may belong to a poll. Computed when it is first needed.
    pub(crate) poll_code: OnceLock<polls::PollCode>,
    /// See [`Kernel::written`].
    pub(crate) written: Option<facts::Parameters>,
    /// The products whose registers are written after the last `wgmma.fence`.
    pub(crate) unfenced: product_fences::Unfenced,
    /// For finding out which threads store equal values. `None` if the function is too large or stores nothing.
    pub(crate) sketch: Option<values::Sketch>,
}

impl Function {
    /// The code that a warp may repeat while it polls an mbarrier object.
    pub(crate) fn poll_code(&self) -> &polls::PollCode {
        self.poll_code.get_or_init(|| polls::PollCode::new(self))
    }

    /// Whether a thread that has left the block of instruction `from` can later execute the same code as a thread at
    /// instruction `other`, except for the end of the function.
    pub(crate) fn can_meet(&self, from: u32, other: u32) -> bool {
        let reachable = self.reachable.get_or_init(|| flow::Reachable::new(&self.blocks));
        let (from, at) = (self.block_of[from as usize], self.block_of[other as usize]);
        if self.only_exits(other) {
            return false;
        }
        (0..self.blocks.len() as u32).any(|b| {
            reachable.contains(from, b)
                && (b == at || reachable.contains(at, b) && !self.only_exits(self.blocks[b as usize].start))
        })
    }

    /// Whether a thread at this instruction does nothing more than exit.
    pub(crate) fn only_exits(&self, pc: u32) -> bool {
        let mut at = pc;
        for _ in 0..4 {
            let Some(inst) = self.insts.get(at as usize).filter(|inst| inst.guard.is_always()) else { break };
            match inst.op {
                Op::Exit | Op::Return => return true,
                Op::Branch { target } => at = self.blocks[target as usize].start,
                _ => break,
            }
        }
        false
    }
}
