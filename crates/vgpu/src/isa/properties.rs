//! The table of operations: what the counters, the time model and the analyses must know about each of them, without
//! running it. [`crate::exec`] runs them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decode::Pipe;
use super::op::{MbarrierOp, Op, Order};
use super::types::Space;

/// The class of an instruction, as far as classes are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstructionClass {
    /// Integer and floating-point arithmetic outside the tensor cores.
    Arithmetic,
    /// Conversion between types.
    Conversion,
    /// Move between registers.
    Move,
    /// Load from memory or from parameters.
    Load,
    /// Store to memory.
    Store,
    /// Atomic operation or reduction in memory.
    Atomic,
    /// Asynchronous copy, or the commit of a group of copies.
    AsyncCopy,
    /// Load of a matrix fragment.
    MatrixLoad,
    /// Store of a matrix fragment.
    MatrixStore,
    /// Matrix product on the tensor cores.
    MatrixProduct,
    /// Branch or exit.
    Branch,
    /// Call or return.
    Call,
    /// Barrier, or wait for asynchronous work.
    Barrier,
    /// Memory fence or proxy fence.
    Fence,
    /// Operation between the lanes of a warp.
    WarpOp,
    /// Any other instruction.
    Other,
}

/// How long a warp waits for the results, in the model of [`crate::count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// As long as its pipe takes.
    Pipe,
    Load(Space),
    Atomic(Space),
    /// Several loads, one after another.
    Loads(Space, u32),
    /// Loads matrices from shared memory.
    Matrix,
    /// No warp waits for a store. Code that must see a store waits at a barrier.
    Store,
    Product,
    /// Lanes exchange values.
    Exchange,
    Branch,
    /// A barrier or a fence that nothing delays.
    Barrier,
    Mbarrier,
}

/// What the results of an operation depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results {
    /// Only the sources of the same lane.
    Sources,
    /// The memory at the address in the first source.
    Memory(Space, Order),
    /// The sources of another lane.
    OtherLane,
    /// The sources of all lanes. All lanes get the same result.
    Warp,
    /// The sources of all threads. All threads get the same result.
    Block,
    /// Not analysed.
    Unknown,
}

/// The properties of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// `None`: the class of its pipe.
    class: Option<InstructionClass>,
    pub latency: Latency,
    pub results: Results,
    /// It may write shared memory. Operations on mbarrier objects do not count.
    pub writes_shared: bool,
    /// It may access global memory.
    pub touches_global: bool,
    /// Control may leave the straight line after it. A call ends its block, so that the return address is the start of
    /// a block.
    pub ends_block: bool,
    /// A warp waits for others at it.
    pub waits: bool,
}

impl Properties {
    const NONE: Properties = Properties {
        class: None,
        latency: Latency::Pipe,
        results: Results::Unknown,
        writes_shared: false,
        touches_global: false,
        ends_block: false,
        waits: false,
    };

    const fn class(class: InstructionClass) -> Properties {
        Properties { class: Some(class), ..Properties::NONE }
    }

    const fn latency(self, latency: Latency) -> Properties {
        Properties { latency, ..self }
    }

    const fn results(self, results: Results) -> Properties {
        Properties { results, ..self }
    }

    const fn writes_shared(self) -> Properties {
        Properties { writes_shared: true, ..self }
    }

    /// It reads this memory.
    const fn reads(self, space: Space) -> Properties {
        Properties { touches_global: matches!(space, Space::Global | Space::Generic), ..self }
    }

    /// It writes this memory.
    const fn writes(self, space: Space) -> Properties {
        let writes_shared = matches!(space, Space::Shared | Space::Generic);
        Properties { writes_shared, ..self.reads(space) }
    }

    const fn ends_block(self) -> Properties {
        Properties { ends_block: true, ..self }
    }

    const fn waits(self) -> Properties {
        Properties { waits: true, ..self }
    }
}

impl Op {
    /// The declaration of the operation. A new operation is declared here once, and the compiler asks for it.
    pub fn properties(&self) -> Properties {
        use InstructionClass as Class;
        const fn class(class: InstructionClass) -> Properties {
            Properties::class(class)
        }
        match self {
            // Arithmetic
            Op::Lane { .. }
            | Op::Test { .. }
            | Op::Set { .. }
            | Op::Select { .. }
            | Op::PredLogic { .. }
            | Op::PredMove { .. }
            | Op::PredSet { .. }
            | Op::Convert { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::Carry { .. }
            | Op::LocalAddress { .. }
            | Op::IsSpace { .. } => Properties::NONE.results(Results::Sources),
            Op::MapAddress { .. } | Op::BlockOfAddress { .. } => Properties::NONE,
            Op::GridWorkspace { .. } | Op::Clock { .. } => Properties::NONE,

            // Memory
            Op::Load(access) => class(Class::Load)
                .latency(Latency::Load(access.space))
                .results(Results::Memory(access.space, access.order))
                .reads(access.space),
            Op::Texture(_) => class(Class::Load)
                .latency(Latency::Load(Space::Global))
                .results(Results::Memory(Space::Global, Order::Weak))
                .reads(Space::Global),
            Op::LoadParam { .. } => class(Class::Load).results(Results::Sources),
            Op::Store(access) => class(Class::Store).latency(Latency::Store).writes(access.space),
            Op::Atom { access, .. } => {
                class(Class::Atomic).latency(Latency::Atomic(access.space)).writes(access.space)
            }
            Op::Nop | Op::GridDependency { .. } => Properties::NONE,
            Op::Malloc | Op::Free => Properties::NONE,
            Op::Printf => Properties::NONE.reads(Space::Global),

            // Asynchronous copies. A wait lets a copy take effect.
            Op::CopyAsync { .. } | Op::CopyBulk { .. } | Op::TensorLoad(_) => {
                class(Class::AsyncCopy).reads(Space::Global).writes_shared()
            }
            Op::StoreBulk { .. } | Op::TensorStore(_) => class(Class::AsyncCopy).reads(Space::Global),
            Op::CopyCommit | Op::BulkCommit => class(Class::AsyncCopy),
            Op::CopyWait { .. } => class(Class::Barrier).latency(Latency::Barrier).writes_shared().waits(),
            Op::BulkWait { .. } => class(Class::Barrier).waits(),
            Op::CopyMbarrierArrive { .. } => class(Class::Barrier).writes_shared(),
            Op::ReplaceInMap { .. } | Op::CopyMap { .. } => Properties::NONE.writes_shared(),

            // Control
            Op::Branch { .. } | Op::BranchIndexed { .. } => {
                class(Class::Branch).latency(Latency::Branch).ends_block()
            }
            Op::Exit => class(Class::Branch).ends_block(),
            Op::Call { .. } | Op::CallIndirect | Op::Return => {
                class(Class::Call).latency(Latency::Branch).ends_block()
            }
            Op::Trap { .. } => Properties::NONE.ends_block(),
            Op::AssertFail | Op::Nanosleep | Op::SetMaxRegisters { .. } => Properties::NONE,

            // Synchronisation and warp operations
            Op::Fence { .. } => class(Class::Fence).latency(Latency::Barrier),
            Op::ProxyFence { .. } | Op::MapFence { .. } | Op::WgmmaFence => class(Class::Fence),
            Op::Barrier { .. } => {
                class(Class::Barrier).latency(Latency::Barrier).results(Results::Block).waits()
            }
            // Other blocks may have written this block's memory.
            Op::ClusterBarrier { .. } => Properties::NONE.writes_shared(),
            Op::Mbarrier { op: MbarrierOp::TestWait { .. }, .. } => {
                class(Class::Barrier).latency(Latency::Mbarrier).waits()
            }
            Op::Mbarrier { .. } => class(Class::Barrier).latency(Latency::Mbarrier),
            Op::WarpSync | Op::ActiveMask | Op::Elect => class(Class::WarpOp),
            Op::Shuffle { .. } => class(Class::WarpOp).latency(Latency::Exchange).results(Results::OtherLane),
            Op::Vote { .. } => class(Class::WarpOp).results(Results::Warp),
            Op::Redux { .. } => class(Class::WarpOp).latency(Latency::Exchange).results(Results::Warp),
            Op::Match { .. } | Op::MoveMatrix => class(Class::WarpOp).latency(Latency::Exchange),

            // Tensor cores
            Op::LoadMatrix { .. } => class(Class::MatrixLoad).latency(Latency::Matrix),
            Op::StoreMatrix { .. } => class(Class::MatrixStore).latency(Latency::Store).writes_shared(),
            Op::WmmaLoad(memory) => class(Class::MatrixLoad)
                .latency(Latency::Loads(memory.space, memory.steps.len() as u32))
                .reads(memory.space),
            Op::WmmaStore(memory) => class(Class::MatrixStore).latency(Latency::Store).writes(memory.space),
            Op::Mma(_) => class(Class::MatrixProduct).latency(Latency::Product),
            Op::Wgmma(_) => class(Class::MatrixProduct),
            Op::WgmmaCommit => Properties::NONE,
            Op::WgmmaWait { .. } => class(Class::Barrier),
        }
    }

    /// The class by which the counters group the operation.
    pub fn class(&self, pipe: Pipe) -> InstructionClass {
        self.properties().class.unwrap_or(match pipe {
            Pipe::Move => InstructionClass::Move,
            Pipe::Conversion => InstructionClass::Conversion,
            Pipe::Integer | Pipe::Fp32 | Pipe::Fp16 | Pipe::Fp64 | Pipe::Special => {
                InstructionClass::Arithmetic
            }
            _ => InstructionClass::Other,
        })
    }
}
