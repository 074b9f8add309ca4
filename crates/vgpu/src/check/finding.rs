//! A finding: one thing wrong, where, and how often.

use serde::{Deserialize, Serialize};

use crate::isa::types::Space;
use crate::program::SourceFrame;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Access outside any allocation, or outside shared or local memory.
    OutOfBounds,
    Misaligned,
    /// A value nothing wrote decides a branch, an address or an output.
    Uninitialised,
    Race,
    /// Data of an asynchronous copy or product used before its wait.
    AsyncNotWaited,
    /// Data that threads wrote is read by a bulk copy or by tensor cores without a proxy fence between.
    ProxyFence,
    /// A wait for a phase that an older phase of the same parity satisfies.
    BarrierPhase,
    /// Tensor cores do not find their operand in the order a bulk copy has put it.
    Layout,
    /// What a bulk copy is told to use as a tensor map is none, or not where one may be.
    TensorMap,
    /// `setmaxnreg` that asks for what the block does not have.
    Registers,
    /// A barrier not all threads of the warp or block reach.
    BarrierDivergence,
    /// A barrier with a wrong number of participants.
    BarrierCount,
    /// Nothing can run any more.
    Deadlock,
    /// The budget of instructions or of time is spent.
    Runaway,
    /// A warp operation whose mask does not fit the lanes that execute it.
    WarpMask,
    /// `ldmatrix`, `mma` and their like in divergent code.
    DivergentWarpOp,
    /// Elements of an output no thread wrote.
    UnwrittenOutput,
    /// Blocks that stored nothing.
    IdleBlocks,
    /// An atomic or a fence whose scope is too narrow for who uses it.
    Scope,
    /// A block waits for one that cannot be resident with it.
    NotResident,
    /// `trap`, a failed assertion, an invalid barrier or a broken call.
    Trap,
    /// The launch itself was impossible.
    Launch,
}

impl Kind {
    pub const ALL: [Kind; 22] = [
        Kind::OutOfBounds,
        Kind::Misaligned,
        Kind::Uninitialised,
        Kind::Race,
        Kind::AsyncNotWaited,
        Kind::ProxyFence,
        Kind::BarrierPhase,
        Kind::Layout,
        Kind::TensorMap,
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

    /// The name users see and marks in the corpus use.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Note,
}

/// Where in the code: the PTX line, and the CUDA frames, innermost first (empty without line information).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub ptx_line: u32,
    pub frames: Vec<SourceFrame>,
}

/// A second place that explains the first: the other access of a race, where an undefined value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Related {
    pub label: String,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub kind: Kind,
    pub severity: Severity,
    pub message: String,
    pub kernel: String,
    /// The first block, by number, that shows it.
    pub block: Option<[u32; 3]>,
    pub warp: Option<u32>,
    /// Lanes of that warp, as a mask.
    pub lanes: u32,
    pub address: Option<u64>,
    pub space: Option<Space>,
    /// Label of the allocation or name of the variable.
    pub allocation: Option<String>,
    pub place: Place,
    pub related: Vec<Related>,
    /// How often it occurred at this place.
    pub count: u64,
}
