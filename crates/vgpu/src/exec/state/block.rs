//! The state of a block, and of the cluster that it belongs to.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::super::descriptor::OperandKey;
use super::super::operand_cache::OperandCache;
use super::barrier::{BarrierLogs, BlockBarrier};
use super::copies::{BulkCopy, OwedArrival, PendingCopy};
use super::flight::Collective;
use super::memory::Span;
use super::origin::{Origin, Source};
use super::warp::Unit;
use crate::check::Site;
use crate::check::layout::ChunkOrigins;
use crate::check::race::{BlockRaces, ChunkReads, Moment, Published};
use crate::count::{BlockLoad, BlockPath, Phases};
use crate::tensor_map::region::TensorBox;

/// State that the warps of a block share.
#[derive(Debug, Default)]
pub struct BlockCore {
    /// Index of the block in the grid. x varies fastest.
    pub index: u64,
    pub ctaid: [u32; 3],
    /// The multiprocessor that the block runs on.
    pub smid: u32,
    /// Shared memory. It consists of units, so that it has the alignment of the hardware.
    pub shared: Vec<Unit>,
    pub shared_shadow: Vec<u8>,
    /// The address at which the block's shared memory ends.
    pub shared_end: u32,
    pub barriers: Vec<BlockBarrier>,
    pub threads: u32,
    pub live_threads: u32,
    /// Number of groups of products that each warp has committed. A warp that has exited counts as having committed all.
    pub committed: Vec<u32>,
    pub membership: Option<Membership>,
    /// Counts events that another warp could be waiting for.
    pub progress: u64,
    /// The block has changed a word that others poll since its turn began.
    pub owes_turn: bool,
    /// The turn of the block ends so that others see this change.
    pub hands_over: bool,
    /// The instruction at which a thread exited first.
    pub first_exit: Option<u32>,
    /// Counts the ends of mbarrier phases and the waits that pass, so that their order is known. Under checks only.
    pub events: u64,
    /// True once the block has reached an instruction that accesses global memory.
    pub touched: bool,
    /// Sectors of global memory that the block's loads have accessed. Recorded only when counting.
    pub sectors: HashSet<u64>,
    /// Number of warp instructions that the block has executed.
    pub executed: u64,
    /// Number of these instructions that only polled. Recorded only when counting.
    pub polled: u64,
    /// Whether the block is traced, and the phases of its barriers if it is.
    pub traced: bool,
    pub phases: Phases,
    /// The products and copies of the block, if it is traced.
    pub load: BlockLoad,
    /// When the phases of the block's barriers end. Recorded only when counting.
    pub path: BlockPath,
    /// Asynchronous copies that are still pending, oldest first.
    pub copies: Vec<PendingCopy>,
    pub copy_serial: u64,
    pub bulk: Vec<BulkCopy>,
    /// History of the block's mbarrier objects.
    pub barrier_logs: BarrierLogs,
    /// Where the chunks of shared memory came from: the tensor copies that loaded them.
    pub chunk_origins: ChunkOrigins,
    /// The boxes that the block has stored, by instruction and warp. Recorded only when checking.
    pub tensor_stores: HashMap<(u32, u32), Vec<TensorBox>>,
    pub decoded: OperandCache,
    /// Number of instructions that may have written the block's shared memory. Operations on mbarrier objects count only
    /// if they may change an operand in `decoded`.
    pub shared_writes: u64,
    /// The chunks of operands of tensor cores. They depend on the descriptor only.
    pub operands: HashMap<OperandKey, Arc<ChunkReads>>,
    /// Instructions that the warps of each warpgroup execute together.
    pub collectives: Vec<Collective>,
    pub owed: Vec<OwedArrival>,
    /// Origins of the undefined values stored in shared memory, by byte.
    pub taints: HashMap<u32, Origin>,
    pub races: BlockRaces,
    /// Changes of tensor maps in global memory that a fence of the block has made visible to its copies, by address.
    pub fenced_maps: HashMap<u64, u64>,
    /// The last accesses of other blocks to the block's shared memory: by block, warp and instruction.
    pub visits: HashMap<(u64, u32, u32), (Site, Moment)>,
}

impl BlockCore {
    /// The whole shared memory of the block.
    pub fn shared_span(&mut self) -> Span {
        Span {
            base: self.shared.as_mut_ptr().cast(),
            shadow: self.shared_shadow.as_mut_ptr(),
            low: 0,
            source: Source::Shared,
            defined: false,
        }
    }

    /// Number of groups of products that all warps of a warp's warpgroup have committed.
    pub fn committed_by_all(&self, warp: u32) -> u32 {
        let warpgroup = self.committed.chunks(4).nth(warp as usize / 4).unwrap_or_default();
        warpgroup.iter().copied().min().unwrap_or(u32::MAX)
    }

    /// Registers per thread of each warpgroup, which starts with `launched`.
    pub fn registers_held(&self, launched: u32) -> Vec<u32> {
        let of_group = |g: u32| self.collectives.get(g as usize).and_then(|group| group.registers);
        (0..self.threads.div_ceil(128)).map(|g| of_group(g).unwrap_or(launched)).collect()
    }
}

/// Number of address bytes between the shared memory of one block and that of the next.
pub const WINDOW: u64 = 1 << 24;

/// State that the blocks of a running cluster share.
#[derive(Debug, Default)]
pub struct Cluster {
    /// The blocks by rank. They live as long as any block of the cluster runs.
    pub cores: RefCell<Vec<*mut BlockCore>>,
    /// Number of threads that have arrived at the cluster barrier, and number of phases that it has completed.
    pub arrived: Cell<u32>,
    pub phase: Cell<u32>,
    /// Accesses that threads have published by arriving: in the current phase, and in all earlier phases.
    pub publishing: RefCell<Published>,
    pub published: RefCell<Published>,
}

/// The cluster of a block, and the block's rank in it.
#[derive(Clone, Debug)]
pub struct Membership {
    pub cluster: Rc<Cluster>,
    pub rank: u32,
}

impl Cluster {
    pub fn enter(&self, core: *mut BlockCore) {
        self.cores.borrow_mut().push(core);
    }

    fn live_threads(&self) -> u32 {
        // SAFETY: the blocks live as long as the cluster. This worker runs all of them.
        self.cores.borrow().iter().map(|core| unsafe { (**core).live_threads }).sum()
    }

    /// Completes the phase if all threads that have not exited have arrived.
    pub fn settle(&self) {
        if self.arrived.get() > 0 && self.arrived.get() >= self.live_threads() {
            self.arrived.set(0);
            self.phase.set(self.phase.get() + 1);
            let publishing = self.publishing.take();
            self.published.borrow_mut().join(&publishing);
        }
    }
}
