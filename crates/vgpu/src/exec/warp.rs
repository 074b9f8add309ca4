//! State of one warp.

use crate::isa::decode::SPECIALS;

/// A 32-bit register of a warp; a 64-bit one is two of them, read as `[u64; 32]`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Unit(pub [u32; 32]);

pub const ZERO: Unit = Unit([0; 32]);

/// Why a fragment does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// At a warp operation or an aligned barrier, until other lanes of the warp come to the same instruction.
    Gathering,
    /// As `Gathering`, but given up on: the next attempt goes ahead with the lanes that are there.
    Forced,
    /// Has arrived at a barrier of the block and waits for it to complete.
    Barrier(u8),
}

/// Where to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub function: u32,
    pub pc: u32,
    pub reg_base: u32,
    pub pred_base: u32,
    pub local_base: u32,
}

/// Lanes that stand at one instruction of one call chain and run together.
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
    /// When it last ran, in switches: the longest waiting one goes first once in a while.
    pub ran: u64,
}

impl Fragment {
    pub fn same_place(&self, other: &Fragment) -> bool {
        self.pc == other.pc && self.function == other.function && self.stack == other.stack
    }
}

/// Undefined bytes of a register: four planes of 32 lanes, plane `b` at bits `32 b`.
pub type Undef = u128;

/// A place and the state a warp had there, while it is suspected of going in circles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    pub place: (u32, u32, u32),
    pub hash: u64,
    pub visits: u32,
    /// It came back with the same state.
    pub repeats: bool,
}

#[derive(Debug, Default)]
pub struct Warp {
    pub id: u32,
    pub regs: Vec<Unit>,
    pub preds: Vec<u32>,
    pub specials: Vec<Unit>,
    /// Launch and warp number the specials were filled for.
    pub specials_of: (u64, u32),
    /// Per unit and per predicate; only kept up when `tracking`.
    pub undef: Vec<Undef>,
    pub pred_undef: Vec<u32>,
    /// Where a register's undefined bytes came from, see [`super::taint::Origin`].
    pub origin: Vec<u32>,
    pub pred_origin: Vec<u32>,
    /// Whether any register has been undefined since the warp started: if not, nothing needs to be looked up.
    pub tracking: bool,
    pub fragments: Vec<Fragment>,
    /// Lanes that exist and have not exited.
    pub live: u32,
    /// Lanes that exist.
    pub present: u32,
    pub switches: u64,
    /// Blocks run while another fragment was ready, since the last turn out of order.
    pub passed_over: u32,
    /// Local memory, word-interleaved: word `w` of lane `l` is at `w * 32 + l`.
    pub local: Vec<Unit>,
    pub local_shadow: Vec<[u8; 128]>,
    /// Copy groups committed so far, per lane.
    pub committed: [u32; 32],
    pub bulk: super::bulk::BulkGroups,
    /// One more than the phases the cluster's barrier had completed when each lane arrived there.
    pub cluster_phase: [u32; 32],
    /// Products of tensor cores that it has not waited for.
    pub flight: super::wgmma::Flight,
    pub watch: Watch,
    /// Clocks its instructions take one after another where they need each other's results; only when counting.
    pub chain: u64,
    /// The last instruction that looked for another thread's doing: a strong read, an atomic, a barrier object.
    pub last_poll: Option<u32>,
    /// The barrier object it last found in the phase it waits for.
    pub last_barrier: Option<u32>,
}

impl Warp {
    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    pub fn has_ready(&self) -> bool {
        self.fragments.iter().any(|f| matches!(f.state, State::Ready | State::Forced))
    }

    /// Joins ready fragments that stand at the same place.
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

    /// Room for frames up to these sizes.
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

/// Position of a special register among the warp's specials.
pub fn special(name: &str) -> usize {
    SPECIALS.iter().position(|s| *s == name).unwrap_or(0)
}
