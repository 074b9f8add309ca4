//! What execution tells the engine, and what the engine says back.

pub use crate::isa::op::Order;
pub use crate::isa::types::Scope;

/// What an access does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    Read,
    Write,
    /// A read-modify-write: `atom` and `red`.
    Atomic,
}

/// What acts on a thread's behalf after the thread has gone on. Each has waits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Agent {
    /// `cp.async`: awaited by groups, or through an mbarrier. Acts in the generic proxy, the others in the async one.
    Copy,
    /// A bulk copy into shared memory: awaited through an mbarrier.
    Load,
    /// The reads of a bulk copy out of shared memory: awaited by bulk groups, `.read` is enough.
    StoreRead,
    /// Its writes: awaited by bulk groups.
    StoreWrite,
    /// `wgmma`: awaited by its groups.
    Tensor,
}

impl Agent {
    pub const ALL: [Agent; 5] =
        [Agent::Copy, Agent::Load, Agent::StoreRead, Agent::StoreWrite, Agent::Tensor];
}

/// The part of a memory instruction that all its lanes share.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Number of the instruction, counted through the kernel.
    pub pc: u32,
    pub op: Op,
    pub order: Order,
    pub scope: Scope,
}

impl Access {
    pub fn weak(pc: u32, op: Op) -> Access {
        Access { pc, op, order: Order::Weak, scope: Scope::Cta }
    }

    pub fn strength(&self) -> Strength {
        Strength::of(self.order, self.scope)
    }

    pub fn acquires(&self) -> bool {
        matches!(self.order, Order::Acquire | Order::AcqRel | Order::SeqCst)
    }

    pub fn releases(&self) -> bool {
        matches!(self.order, Order::Release | Order::AcqRel | Order::SeqCst)
    }
}

/// Whether an access is strong in the sense of the memory model, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strength {
    Weak,
    /// Strong among the threads of one block.
    Block,
    /// Strong among all threads of the device (`.gpu` and `.sys` are one here: there is one device and the host is
    /// outside the launch; `.cluster` counts as device, which can only silence).
    Device,
}

impl Strength {
    pub fn of(order: Order, scope: Scope) -> Strength {
        match order {
            Order::Weak => Strength::Weak,
            // `volatile` is relaxed at system scope, whatever the instruction says.
            Order::Volatile => Strength::Device,
            _ => Strength::at(scope),
        }
    }

    pub fn at(scope: Scope) -> Strength {
        if scope == Scope::Cta { Strength::Block } else { Strength::Device }
    }
}

/// Whether a store writes what is there already; asked only when two unordered writes meet. The engine must hear of
/// a store before it happens.
pub trait SameValue {
    /// Lane's value equals what memory holds now.
    fn as_memory(&self, lane: usize) -> bool;
    /// Two lanes of this instruction store the same value.
    fn as_lane(&self, lane: usize, other: usize) -> bool;
}

/// For accesses whose values are not compared.
#[derive(Clone, Copy, Debug)]
pub struct Differs;

impl SameValue for Differs {
    fn as_memory(&self, _: usize) -> bool {
        false
    }
    fn as_lane(&self, _: usize, _: usize) -> bool {
        false
    }
}

/// Why two accesses conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RaceKind {
    /// Shared memory, different warps.
    Shared,
    /// Global memory, different warps or blocks.
    Global,
    /// Lanes of one warp, with no `__syncwarp` between.
    IntraWarp,
    /// One side is an asynchronous access its thread has not waited for.
    AsyncNotWaited,
    /// Written by threads, read by a bulk copy or by tensor cores, with no proxy fence between.
    MissingProxyFence,
    /// Atomics or fences that would order the two if their scope reached both threads.
    ScopeTooNarrow,
    /// A flag written after the data was seen, but no fence stands between data and flag.
    MissingRelease,
    /// The flag was published properly, but no fence stands between its read and the use of the data.
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
    /// Who did it on the thread's behalf, if not the thread itself.
    pub agent: Option<Agent>,
    pub strength: Strength,
}

/// A conflict, folded over lanes and addresses by kind and the two instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaceReport {
    pub kind: RaceKind,
    /// True for shared memory; `address` is then an offset into it.
    pub shared: bool,
    pub address: u64,
    /// The access that came first in this run.
    pub first: Side,
    pub second: Side,
    /// Both write the same value.
    pub same_value: bool,
    /// A note rather than a finding: stores of the same value, or a race by the letter that hardware does not show.
    pub note: bool,
    /// Lanes of the second access's warp that met it, for the instruction reported.
    pub lanes: u32,
    pub count: u64,
}
