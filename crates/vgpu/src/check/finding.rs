//! A finding: one problem, its place, and how often it occurred.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::isa::types::Space;
use crate::program::SourceFrame;

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An access outside any allocation, or outside shared or local memory.
    OutOfBounds,
    /// An access whose address is not a multiple of the alignment that the instruction requires.
    Misaligned,
    /// A value that nothing wrote decides a branch, an address or an output.
    Uninitialised,
    /// Two conflicting accesses that no synchronisation orders.
    Race,
    /// Data of an asynchronous copy or matrix product is used before the wait for it.
    AsyncNotWaited,
    /// A bulk copy or the tensor cores read data or a tensor map that threads wrote, without a proxy fence for that
    /// memory in between.
    ProxyFence,
    /// A wait for a phase that an older phase of the same parity satisfies already, or could satisfy in another run.
    BarrierPhase,
    /// The tensor cores expect their operand in another order than the bulk copy wrote it.
    Layout,
    /// The operand that a bulk copy uses as a tensor map is not a tensor map, or is not in memory where a tensor map
    /// may be.
    TensorMap,
    /// A texture fetch whose operand is not a texture, or not one of the kind that the fetch expects.
    Texture,
    /// A `setmaxnreg` that requests registers that the block does not have.
    Registers,
    /// A barrier that not all threads of the warp or block reach.
    BarrierDivergence,
    /// A barrier with a wrong number of participants or arrivals.
    BarrierCount,
    /// No thread can make progress.
    Deadlock,
    /// The budget of instructions or of time is used up.
    Runaway,
    /// A warp operation whose mask does not match the lanes that execute it.
    WarpMask,
    /// `ldmatrix`, `mma` or a similar instruction in divergent code; or one that needs a whole warpgroup (`wgmma`, its
    /// fences and waits, `setmaxnreg`), if the warps do not execute it together.
    DivergentWarpOp,
    /// Elements of an output that no thread wrote.
    UnwrittenOutput,
    /// Blocks that stored nothing.
    IdleBlocks,
    /// An atomic or a fence whose scope does not include all threads that use it.
    Scope,
    /// A block waits for a block that cannot be resident at the same time.
    NotResident,
    /// `trap`, a failed assertion, an invalid barrier or a broken call.
    Trap,
    /// The launch itself was not possible.
    Launch,
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Kind; 23] = [
        Kind::OutOfBounds,
        Kind::Misaligned,
        Kind::Uninitialised,
        Kind::Race,
        Kind::AsyncNotWaited,
        Kind::ProxyFence,
        Kind::BarrierPhase,
        Kind::Layout,
        Kind::TensorMap,
        Kind::Texture,
        Kind::Registers,
        Kind::BarrierDivergence,
        Kind::BarrierCount,
        Kind::Deadlock,
        Kind::Runaway,
        Kind::WarpMask,
        Kind::DivergentWarpOp,
        Kind::UnwrittenOutput,
        Kind::IdleBlocks,
        Kind::Scope,
        Kind::NotResident,
        Kind::Trap,
        Kind::Launch,
    ];

    /// The name that users see and that marks in the corpus use.
    pub fn name(self) -> &'static str {
        match self {
            Kind::OutOfBounds => "out-of-bounds",
            Kind::Misaligned => "misaligned",
            Kind::Uninitialised => "uninitialised",
            Kind::Race => "race",
            Kind::AsyncNotWaited => "async-not-waited",
            Kind::ProxyFence => "proxy-fence",
            Kind::BarrierPhase => "barrier-phase",
            Kind::Layout => "layout",
            Kind::TensorMap => "tensor-map",
            Kind::Texture => "texture",
            Kind::Registers => "registers",
            Kind::BarrierDivergence => "barrier-divergence",
            Kind::BarrierCount => "barrier-count",
            Kind::Deadlock => "deadlock",
            Kind::Runaway => "runaway",
            Kind::WarpMask => "warp-mask",
            Kind::DivergentWarpOp => "divergent-warp-op",
            Kind::UnwrittenOutput => "unwritten-output",
            Kind::IdleBlocks => "idle-blocks",
            Kind::Scope => "scope",
            Kind::NotResident => "not-resident",
            Kind::Trap => "trap",
            Kind::Launch => "launch",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The severity of a finding, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A definite problem.
    Error,
    /// A probable mistake.
    Warning,
    /// Information that does not make the launch fail.
    Note,
}

/// A place in the code: the PTX line and the CUDA frames, innermost first. Without line information there are no
/// frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Place {
    /// Line in the PTX text.
    pub ptx_line: u32,
    /// CUDA source frames, innermost first.
    pub frames: Vec<SourceFrame>,
}

/// A second place that explains the first: the other access of a race, or the origin of an undefined value.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Related {
    /// What the second place is.
    pub label: String,
    /// The second place.
    pub place: Place,
}

/// A problem that a check reports.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Finding {
    /// Kind of the problem.
    pub kind: Kind,
    /// Severity of the problem.
    pub severity: Severity,
    /// Description for the user.
    pub message: String,
    /// Name of the kernel.
    pub kernel: String,
    /// The first block, by number, that shows the problem.
    pub block: Option<[u32; 3]>,
    /// The warp of that block that shows the problem.
    pub warp: Option<u32>,
    /// Mask of the lanes of that warp.
    pub lanes: u32,
    /// Address of the access.
    pub address: Option<u64>,
    /// State space of the access.
    pub space: Option<Space>,
    /// Label of the allocation or name of the variable.
    pub allocation: Option<String>,
    /// Place of the instruction.
    pub place: Place,
    /// Other places that explain the problem.
    pub related: Vec<Related>,
    /// How often the problem occurred at this place.
    pub count: u64,
}
