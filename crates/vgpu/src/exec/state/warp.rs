//! The state of one warp: registers, fragments, local memory and the data of the checks.

use super::copies::BulkGroups;
use super::flight::Flight;
use super::origin::Undef;
use crate::count::{CopyGroups, Polls, WarpTrace};
use crate::isa::decode::SPECIALS;

/// A 32-bit register of all 32 lanes. A 64-bit register is two units, read as `[u64; 32]`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Unit(pub [u32; 32]);

pub const ZERO: Unit = Unit([0; 32]);

/// Whether a fragment can run, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// At a warp operation or an aligned barrier, until other lanes of the warp reach the same instruction.
    Gathering,
    /// Like `Gathering`, but the missing lanes will not arrive. The next attempt continues with the lanes that are
    /// present.
    Forced,
    /// The fragment has arrived at a barrier of the block and waits until the barrier completes.
    Barrier(u8),
    /// At `wgmma.wait_group`, until all warps of the warpgroup have committed this many groups of products.
    Products(u32),
}

/// The return point of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub function: u32,
    pub pc: u32,
    pub reg_base: u32,
    pub pred_base: u32,
    pub local_base: u32,
}

/// Lanes that are at the same instruction of the same call chain and run together.
#[derive(Clone, Debug)]
pub struct Fragment {
    pub mask: u32,
    pub pc: u32,
    pub function: u32,
    pub reg_base: u32,
    pub pred_base: u32,
    pub local_base: u32,
    pub state: State,
    pub stack: Vec<Frame>,
    /// Number of the switch at which the fragment last ran. From time to time the fragment that has waited longest runs
    /// first.
    pub ran: u64,
}

impl Fragment {
    /// A fragment at the start of the kernel.
    pub fn new(mask: u32) -> Fragment {
        Fragment {
            mask,
            pc: 0,
            function: 0,
            reg_base: 0,
            pred_base: 0,
            local_base: 0,
            state: State::Ready,
            stack: Vec::new(),
            ran: 0,
        }
    }

    pub fn same_place(&self, other: &Fragment) -> bool {
        self.pc == other.pc && self.function == other.function && self.stack == other.stack
    }
}

/// A place and the state of the warp there, recorded while the warp is watched for repeated states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    pub place: (u32, u32, u32),
    pub hash: u64,
    pub visits: u32,
    /// The warp returned to the place with the same state.
    pub repeats: bool,
}

#[derive(Debug, Default)]
pub struct Warp {
    pub id: u32,
    pub regs: Vec<Unit>,
    pub preds: Vec<u32>,
    pub specials: Vec<Unit>,
    /// The launch and the warp number for which the specials were computed.
    pub specials_of: (u64, u32),
    /// One entry per unit and per predicate. Updated only while `tracking` is set.
    pub undef: Vec<Undef>,
    pub pred_undef: Vec<u32>,
    /// Origins of undefined bytes, per register. See [`super::origin::Origin`].
    pub origin: Vec<u32>,
    pub pred_origin: Vec<u32>,
    /// Whether any register has been undefined since the warp started. If not, no undefined bits need to be read.
    pub tracking: bool,
    pub fragments: Vec<Fragment>,
    /// Lanes that exist and have not exited.
    pub live: u32,
    /// Lanes that exist.
    pub present: u32,
    pub switches: u64,
    /// Number of blocks that ran while another fragment was ready, since the last turn that ignored priority.
    pub passed_over: u32,
    /// Local memory, interleaved by words: word `w` of lane `l` is at `w * 32 + l`.
    pub local: Vec<Unit>,
    pub local_shadow: Vec<[u8; 128]>,
    /// Number of copy groups that each lane has committed.
    pub committed: [u32; 32],
    pub bulk: BulkGroups,
    /// For each lane: one more than the number of phases that the cluster barrier had completed when the lane arrived.
    pub cluster_phase: [u32; 32],
    /// Lanes that have arrived at the cluster barrier and not waited for it yet.
    pub at_cluster_barrier: u32,
    /// Tensor-core products that the warp has not waited for.
    pub flight: Flight,
    pub watch: Watch,
    /// Number of clocks of the warp's instructions where each needs the result of the previous one. Recorded only when
    /// counting.
    pub chain: u64,
    /// The copies that the warp has not waited for. Recorded only when counting.
    pub copy_groups: CopyGroups,
    /// What the warp does, if its block is traced.
    pub trace: WarpTrace,
    /// The polls of the warp since a test of an mbarrier object failed. Recorded only when counting.
    pub polls: Polls,
    /// Lanes that went past a warp operation or a barrier while other lanes waited there for them: function, instruction
    /// and lanes.
    pub passed: Vec<(u32, u32, u32)>,
    /// Whether the fragment that ran last polled.
    pub polled: bool,
    /// The last instruction that polled for another thread's action: a strong read, an atomic, or an mbarrier test.
    pub last_poll: Option<u32>,
    /// The last strong read or atomic that found memory as before: its instruction and lanes, the progress of the block,
    /// and a hash of what it found the second time.
    pub look: ((u32, u32, u64), Option<u64>),
    /// For each lane, the number of the block's event at which the lane last passed a wait for an mbarrier object.
    pub last_wait: [u64; 32],
    /// The mbarrier objects whose last test by the warp failed.
    pub tested: Vec<u32>,
    /// The mbarrier object that the warp last tested without passing.
    pub last_barrier: Option<u32>,
}

impl Warp {
    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    /// The warp has waited for something that is done after this many clocks.
    pub fn wait_until(&mut self, clocks: u64) {
        if clocks > self.chain {
            self.chain = clocks;
            self.polls.waited();
        }
    }

    pub fn has_ready(&self) -> bool {
        self.fragments.iter().any(|f| matches!(f.state, State::Ready | State::Forced))
    }

    /// Merges ready fragments that are at the same instruction.
    pub fn merge_ready(&mut self) {
        let mut i = 0;
        while i < self.fragments.len() {
            let mut j = i + 1;
            while j < self.fragments.len() {
                let (a, b) = (&self.fragments[i], &self.fragments[j]);
                if a.state == State::Ready && b.state == State::Ready && a.same_place(b) {
                    let gone = self.fragments.swap_remove(j);
                    self.fragments[i].mask |= gone.mask;
                } else {
                    j += 1;
                }
            }
            i += 1;
        }
    }

    /// Grows the register storage to these sizes.
    pub fn reserve(&mut self, units: usize, preds: usize, check: bool) {
        if self.regs.len() < units {
            self.regs.resize(units, ZERO);
        }
        if self.preds.len() < preds {
            self.preds.resize(preds, 0);
        }
        if check {
            let units = self.regs.len();
            if self.undef.len() < units {
                self.undef.resize(units, 0);
                self.origin.resize(units, 0);
            }
            let preds = self.preds.len();
            if self.pred_undef.len() < preds {
                self.pred_undef.resize(preds, 0);
                self.pred_origin.resize(preds, 0);
            }
        }
    }
}

/// Returns the index of a special register among the warp's specials.
pub fn special(name: &str) -> usize {
    SPECIALS.iter().position(|s| *s == name).unwrap_or(0)
}
