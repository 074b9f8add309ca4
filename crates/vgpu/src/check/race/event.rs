//! The types with which execution reports events to the race checker.

pub use crate::isa::op::Order;
pub use crate::isa::types::Scope;
use crate::program::facts::AfterAtomic;
pub use crate::program::values::Equality;

/// What an access does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    Read,
    Write,
    /// A read-modify-write: `atom` and `red`.
    Atomic,
}

/// An agent that acts on behalf of a thread while the thread continues. Each agent has its own waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Agent {
    /// `cp.async`: awaited by groups or through an mbarrier. It acts in the generic proxy; the other agents act in the
    /// async proxy.
    Copy,
    /// A bulk copy into shared memory: awaited through an mbarrier.
    Load,
    /// The reads of a bulk copy out of shared memory: awaited by bulk groups; `.read` is enough.
    StoreRead,
    /// The writes of a bulk copy out of shared memory: awaited by bulk groups.
    StoreWrite,
    /// `wgmma`: awaited by groups of its own.
    Tensor,
}

impl Agent {
    pub const ALL: [Agent; 5] =
        [Agent::Copy, Agent::Load, Agent::StoreRead, Agent::StoreWrite, Agent::Tensor];
}

/// The properties of a memory instruction that all its lanes share.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub op: Op,
    pub order: Order,
    pub scope: Scope,
}

impl Access {
    pub fn weak(op: Op) -> Access {
        Access { op, order: Order::Weak, scope: Scope::Cta }
    }

    pub fn strength(self) -> Strength {
        Strength::new(self.order, self.scope)
    }

    /// The threads that the access can synchronise with.
    pub fn reach(self) -> Reach {
        match self.strength() {
            Strength::Device if self.order != Order::Volatile => Reach::new(self.scope),
            Strength::Device => Reach::Device,
            Strength::Weak | Strength::Block => Reach::Block,
        }
    }

    pub fn acquires(self) -> bool {
        matches!(self.order, Order::Acquire | Order::AcqRel)
    }

    pub fn releases(self) -> bool {
        matches!(self.order, Order::Release | Order::AcqRel)
    }
}

/// Whether an access is strong in the sense of the memory model, and for which threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strength {
    Weak,
    /// Strong among the threads of one block.
    Block,
    /// Strong among all threads of the device. `.gpu` and `.sys` are equal here, because there is one device and the
    /// host is outside the launch. `.cluster` counts as device, which can only hide races; what it synchronises is
    /// limited to the cluster ([`Reach`]).
    Device,
}

impl Strength {
    pub fn new(order: Order, scope: Scope) -> Strength {
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

/// The threads that a fence or a flag synchronises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Block,
    Cluster,
    Device,
}

impl Reach {
    pub fn new(scope: Scope) -> Reach {
        match scope {
            Scope::Cta => Reach::Block,
            Scope::Cluster => Reach::Cluster,
            Scope::Gpu | Scope::Sys => Reach::Device,
        }
    }
}

/// A store that an unordered later store overwrites, as the later store sees it.
#[derive(Clone, Copy, Debug)]
pub struct EarlierStore {
    pub pc: u32,
    pub same_block: bool,
    /// Its thread in its block.
    pub thread: usize,
    /// The lane, if the store may belong to the same execution of the same instruction.
    pub sibling: Option<usize>,
}

/// What is known about the values of a store. It is asked only when two unordered writes conflict.
pub trait StoredValues {
    /// How equal the value of the lane is to that of an earlier store, whatever the contents of memory are.
    fn compare(&self, lane: usize, earlier: EarlierStore) -> Equality;
    /// Whether all threads that execute the store have the same value.
    fn is_common(&self) -> bool;
    /// Whether the store is made only after the result of an atomic at the same address was seen.
    fn after_atomic(&self) -> AfterAtomic;
}

/// The [`StoredValues`] of accesses whose values are not compared.
#[derive(Clone, Copy, Debug)]
pub struct Differs;

impl StoredValues for Differs {
    fn compare(&self, _: usize, _: EarlierStore) -> Equality {
        Equality::Unknown
    }
    fn is_common(&self) -> bool {
        false
    }
    fn after_atomic(&self) -> AfterAtomic {
        AfterAtomic::Perhaps
    }
}

/// The [`StoredValues`] of a store of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Repeats<F> {
    /// Whether memory already has what the agent stores.
    pub is_equal: bool,
    /// Whether an earlier store was of the same tile.
    pub is_same_tile: F,
}

impl<F: Fn(EarlierStore) -> bool> StoredValues for Repeats<F> {
    fn compare(&self, _: usize, earlier: EarlierStore) -> Equality {
        if self.is_equal && (self.is_same_tile)(earlier) { Equality::Close } else { Equality::Unknown }
    }
    fn is_common(&self) -> bool {
        false
    }
    fn after_atomic(&self) -> AfterAtomic {
        AfterAtomic::Perhaps
    }
}

/// The memory that the lanes of an instruction access, and the values that they store.
#[derive(Clone, Copy)]
pub struct Ranges<'a, A> {
    /// The first address of each lane: an offset in shared memory, or an address in global memory.
    pub at: &'a [A; 32],
    /// Number of bytes per lane.
    pub bytes: u32,
    pub values: &'a dyn StoredValues,
}

impl<'a, A> Ranges<'a, A> {
    /// Ranges of an access whose values are not compared.
    pub fn new(at: &'a [A; 32], bytes: u32) -> Ranges<'a, A> {
        Ranges { at, bytes, values: &Differs }
    }
}

/// An asynchronous copy into shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// Destination offsets of the lanes.
    pub to: &'a [u32; 32],
    /// Number of bytes that each lane writes.
    pub bytes: u32,
    /// Source addresses of the lanes.
    pub from: &'a [u64; 32],
    /// Number of bytes that each lane reads. The rest of its destination is filled with zeros.
    pub read: &'a [u32; 32],
}
