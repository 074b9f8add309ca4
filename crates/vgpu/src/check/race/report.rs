//! The reports of the race checker, and their texts.

use super::event::{Agent, Equality, Op, Strength};
use crate::check::{Kind, Severity};

/// The reason why two accesses race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RaceKind {
    /// Shared memory, different warps.
    Shared,
    /// Global memory, different warps or blocks.
    Global,
    /// Shared memory, different blocks of a cluster.
    Cluster,
    /// Lanes of one warp without a `__syncwarp` in between.
    IntraWarp,
    /// One side is an asynchronous access that its thread has not waited for.
    AsyncNotWaited,
    /// Threads wrote the data, and a bulk copy or the tensor cores read or overwrite it without a proxy fence in between.
    MissingProxyFence,
    /// A copy reports to an mbarrier object whose initialisation no fence has made visible to the async proxy.
    MissingInitFence,
    /// A write to the memory of an mbarrier object that nothing has invalidated.
    BarrierInUse,
    /// A change of a tensor map that an asynchronous copy may still read.
    MapInUse,
    /// A read through the read-only cache of data that the launch writes.
    ReadOnlyCache,
    /// Atomics or fences would order the two accesses if their scope included both threads.
    ScopeTooNarrow,
    /// A flag that was written after the data was seen, but no fence stands between the data and the flag.
    MissingRelease,
    /// Unordered volatile accesses of different warps or blocks.
    Volatile,
    /// Unordered volatile accesses of lanes of one warp.
    VolatileInWarp,
    /// A volatile read that polls a flag, a volatile access and an atomic, or volatile data that an atomic announced.
    VolatileFlag,
    /// The plain read with which a compare-and-swap loop starts, and the atomic of another thread.
    SwapSeed,
    /// The flag was published correctly, but no fence stands between the read of the flag and the use of the data.
    MissingAcquire,
}

/// One side of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Side {
    pub block: u32,
    pub warp: u32,
    pub lane: u32,
    pub pc: u32,
    pub op: Op,
    /// The agent that acted on behalf of the thread; `None` if the thread itself acted.
    pub agent: Option<Agent>,
    pub strength: Strength,
}

/// A race, folded over lanes and addresses by kind and the two instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaceReport {
    pub kind: RaceKind,
    /// True for shared memory; `address` is then an offset into it.
    pub shared: bool,
    pub address: u64,
    /// The access that came first in this run.
    pub first: Side,
    pub second: Side,
    /// How equal the values of two stores are.
    pub equality: Equality,
    /// A note for stores of the same value, or for a race by the letter of the model that hardware does not show.
    pub severity: Severity,
    /// Lanes of the second access's warp that raced, for the reported instruction.
    pub lanes: u32,
    pub count: u64,
}

/// Why two stores of nearly the same value are a warning.
const CLOSE: &str = ". Both compute it from the same data, but perhaps with another rounding or choice between equal maxima, \
     so either may stay. Compilers make such stores for results of reductions and for tiles that two groups of warps compute";

impl RaceKind {
    /// The kind of the finding.
    pub fn finding(self) -> Kind {
        match self {
            RaceKind::AsyncNotWaited | RaceKind::MapInUse => Kind::AsyncNotWaited,
            RaceKind::MissingProxyFence | RaceKind::MissingInitFence => Kind::ProxyFence,
            RaceKind::ScopeTooNarrow => Kind::Scope,
            _ => Kind::Race,
        }
    }

    /// How serious an access is that breaks this rule although it is ordered. GPUs are not known to miss the
    /// initialisation of an mbarrier object, and compilers leave that fence out.
    pub fn severity(self) -> Severity {
        if self == RaceKind::MissingInitFence { Severity::Warning } else { Severity::Error }
    }

    /// False if only CUDA C++, but not PTX, calls it a race.
    #[cfg(test)]
    pub fn is_race_in_ptx(self) -> bool {
        !matches!(self, RaceKind::Volatile | RaceKind::VolatileInWarp | RaceKind::VolatileFlag)
    }

    /// Why the accesses race.
    fn cause(self) -> &'static str {
        match self {
            RaceKind::Shared => "no barrier orders them",
            RaceKind::Global => "nothing orders them",
            RaceKind::Cluster => {
                "they are in different blocks of a cluster, and no cluster barrier and no mbarrier orders them"
            }
            RaceKind::IntraWarp => "both lanes are in one warp, and no __syncwarp orders them",
            RaceKind::AsyncNotWaited => "no thread has waited for the asynchronous operation",
            RaceKind::MissingProxyFence => {
                "they are ordered, but no fence.proxy.async for this memory is between them, so the asynchronous access may \
                 come before the write"
            }
            RaceKind::MissingInitFence => {
                "the copy reports to an mbarrier object, and no fence.mbarrier_init or fence.proxy.async follows the \
                 initialisation of the object"
            }
            RaceKind::BarrierInUse => {
                "the memory holds an mbarrier object, which mbarrier.inval must end before the memory is used for something else"
            }
            RaceKind::MapInUse => {
                "the copy may still read the tensor map; the thread that started it must wait for it first \
                 (cp.async.bulk.wait_group.read after a store, the mbarrier after a load)"
            }
            RaceKind::ReadOnlyCache => {
                "the read goes through the read-only cache (__ldg, or const __restrict__), which does not see what the kernel \
                 writes"
            }
            RaceKind::Volatile => {
                "nothing orders them: volatile only makes the compiler access memory each time, so the result depends on \
                 which thread is faster; use a barrier, or atomics"
            }
            RaceKind::VolatileInWarp => {
                "both lanes are in one warp, and no __syncwarp orders them; volatile does not: the code is right only if \
                 the lanes run in lockstep"
            }
            RaceKind::VolatileFlag => {
                "one of them is volatile; with fences this works, because PTX treats volatile as a relaxed access, but \
                 CUDA C++ defines only atomics (atomicExch, cuda::atomic_ref) between threads"
            }
            RaceKind::SwapSeed => {
                "the plain read only gives the compare-and-swap its first guess; a wrong value costs one more iteration"
            }
            RaceKind::ScopeTooNarrow => "the scope of the atomic or fence does not include both threads",
            RaceKind::MissingRelease => {
                "the writer sets the flag without a release fence after it writes the data"
            }
            RaceKind::MissingAcquire => {
                "the reader tests the flag without an acquire fence before it reads the data"
            }
        }
    }
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let agent = match self.agent {
            None => "",
            Some(Agent::Copy) => "the asynchronous copy of ",
            Some(Agent::Load) => "the bulk copy of ",
            Some(Agent::StoreRead | Agent::StoreWrite) => "the bulk store of ",
            Some(Agent::Tensor) => "the wgmma of ",
        };
        let verb = match self.op {
            Op::Read => "reads",
            Op::Write => "writes",
            Op::Atomic => "updates atomically",
        };
        write!(f, "{agent}block {} warp {} lane {} {verb}", self.block, self.warp, self.lane)
    }
}

impl RaceReport {
    /// Returns the access that the finding is about, its lanes, and the other access. Which of two blocks came first
    /// depends on the order of the blocks, so the finding is about the instruction that comes later in the program. If
    /// both are the same instruction, it is about the block with the higher number.
    pub fn sides(&self) -> (&Side, u32, &Side) {
        // For a stale read the finding is about the read, whatever the order of the instructions.
        let apart = self.first.block != self.second.block && self.kind != RaceKind::ReadOnlyCache;
        if apart && (self.first.pc, self.first.block) > (self.second.pc, self.second.block) {
            (&self.first, 1 << self.first.lane, &self.second)
        } else {
            (&self.second, self.lanes, &self.first)
        }
    }

    pub fn message(&self) -> String {
        let (side, _, other) = self.sides();
        let space = if self.shared { "shared" } else { "global" };
        match self.kind {
            RaceKind::BarrierInUse => {
                return format!("{side} the memory of an mbarrier object; {}", self.kind.cause());
            }
            RaceKind::MissingInitFence => {
                return format!("{side} without a fence: {}", self.kind.cause());
            }
            RaceKind::MapInUse => return format!("{side} a tensor map that {other}; {}", self.kind.cause()),
            _ => {}
        }
        let (values, more) = match self.equality {
            Equality::Unknown => ("", ""),
            Equality::Close => (" (both write nearly the same value)", CLOSE),
            Equality::Same => (" (both write the same value)", ""),
        };
        format!("race in {space} memory{values}: {side} and {other}; {}{more}", self.kind.cause())
    }
}
