//! Clusters: blocks that run together, wait for each other and reach each other's shared memory.
//!
//! The blocks of a cluster run on one worker. An address in another block's shared memory is the offset plus one more than
//! the block's rank times [`WINDOW`]; the own block's stay as they are. What is done there is checked for bounds and for
//! undefined values. Races between blocks in shared memory are not looked for; that a barrier or an mbarrier orders what
//! blocks do in global memory is known.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::Policy;
use super::block::BlockCore;
use super::memory::{Addresses, Span, Use};
use super::step::{Cx, Next};
use super::taint::Source;
use super::warp::State;
use crate::check::Kind;
use crate::check::race::Published;
use crate::isa::op::Inst;
use crate::isa::types::Space;

/// Bytes from one block's shared memory to the next one's.
pub const WINDOW: u64 = 1 << 24;

/// What the blocks of a running cluster share.
#[derive(Debug, Default)]
pub struct Cluster {
    /// By rank. They live as long as any block of the cluster runs.
    cores: RefCell<Vec<*mut BlockCore>>,
    /// Threads that have arrived at the barrier, and phases it has completed.
    arrived: Cell<u32>,
    phase: Cell<u32>,
    /// What they have published by arriving, in this phase and in all before.
    publishing: RefCell<Published>,
    published: RefCell<Published>,
}

/// A block's place in a cluster.
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
        // SAFETY: the blocks live as long as the cluster, on this worker.
        self.cores.borrow().iter().map(|core| unsafe { (**core).live_threads }).sum()
    }

    /// Ends the phase if all threads that have not exited have arrived.
    pub fn settle(&self) {
        if self.arrived.get() > 0 && self.arrived.get() >= self.live_threads() {
            self.arrived.set(0);
            self.phase.set(self.phase.get() + 1);
            let publishing = self.publishing.take();
            self.published.borrow_mut().join(&publishing);
        }
    }
}

impl<P: Policy> Cx<'_, '_, P> {
    /// The block of a rank, if it is another one of the cluster.
    pub fn peer(&self, rank: u32) -> Option<*mut BlockCore> {
        let member = self.block.membership.as_ref().filter(|m| m.rank != rank)?;
        member.cluster.cores.borrow().get(rank as usize).copied()
    }

    fn rank(&self) -> u32 {
        self.block.membership.as_ref().map_or(0, |m| m.rank)
    }

    pub fn map_address(&mut self, inst: &Inst, generic: bool, mask: u32) {
        let window = if generic { self.grid.windows.shared } else { 0 };
        let (at, ranks) = (self.wide(inst.r(1)), *self.r32(inst.r(2)));
        let (own, count) = (self.rank(), self.grid.cluster.iter().product::<u32>());
        let mut out = [0; 32];
        for l in super::lanes(mask) {
            let offset = at[l].wrapping_sub(window) % WINDOW;
            let base = if ranks[l] == own { 0 } else { u64::from(ranks[l] + 1) * WINDOW };
            out[l] = window + base + offset;
        }
        let beyond = super::lanes(mask).filter(|l| ranks[*l] >= count).fold(0u32, |m, l| m | 1 << l);
        if P::CHECK && beyond != 0 {
            let rank = ranks[beyond.trailing_zeros() as usize];
            self.finding(Kind::OutOfBounds, beyond, || {
                format!("mapa asks for block {rank} of a cluster of {count}")
            });
        }
        if inst.r(0).is_wide() {
            self.set64(inst.r(0), &out, mask);
        } else {
            self.set32(inst.r(0), &super::step::narrow(&out), mask);
        }
        self.flow_any(inst, mask);
    }

    pub fn block_of_address(&mut self, inst: &Inst, generic: bool, mask: u32) {
        let window = if generic { self.grid.windows.shared } else { 0 };
        let at = self.wide(inst.r(1));
        let own = self.rank();
        let out = at.map(|a| match (a.wrapping_sub(window) / WINDOW) as u32 {
            0 => own,
            n => n - 1,
        });
        self.set32(inst.r(0), &out, mask);
        self.flow_any(inst, mask);
    }

    /// `barrier.cluster.arrive` and `.wait`.
    pub fn cluster_barrier(&mut self, arrive: bool, relaxed: bool, aligned: bool, mask: u32) -> Next {
        self.split_guarded(mask);
        if aligned && mask != self.w.live && self.frag.state != State::Forced {
            self.frag.state = State::Gathering;
            return Next::Park;
        }
        let forced = std::mem::replace(&mut self.frag.state, State::Ready) == State::Forced;
        if P::CHECK && aligned && forced && mask != self.w.live {
            let elsewhere = self.w.live & !mask;
            self.finding(Kind::BarrierDivergence, mask, || {
                format!("barrier in divergent code: lanes {elsewhere:#010x} of the warp do not reach it with the others")
            });
        }
        // A block without a cluster is one of its own.
        let member =
            self.block.membership.get_or_insert_with(|| Membership { cluster: Rc::default(), rank: 0 });
        let cluster = Rc::clone(&member.cluster);
        if cluster.cores.borrow().is_empty() {
            cluster.enter(&raw mut *self.block);
        }
        if arrive {
            if P::CHECK && !relaxed {
                let published = self.block.races.publish(self.w.id, mask);
                cluster.publishing.borrow_mut().join(&published);
            }
            for l in super::lanes(mask) {
                self.w.cluster_phase[l] = cluster.phase.get() + 1;
            }
            cluster.arrived.set(cluster.arrived.get() + mask.count_ones());
            cluster.settle();
            self.block.progress += 1;
            return Next::Continue;
        }
        let never =
            super::lanes(mask).filter(|l| self.w.cluster_phase[*l] == 0).fold(0u32, |m, l| m | 1 << l);
        if P::CHECK && never != 0 {
            self.finding(Kind::BarrierCount, never, || {
                "barrier.cluster.wait by threads that have not arrived at the barrier".to_string()
            });
        }
        cluster.settle();
        if super::lanes(mask).any(|l| self.w.cluster_phase[l] > cluster.phase.get()) {
            self.w.last_poll = Some(self.at());
            // To look is to do something: the block is not at a standstill.
            self.worker.executed += 1;
            return Next::Again;
        }
        if P::CHECK {
            let published = cluster.published.borrow().clone();
            self.block.races.learn(self.w.id, mask, &published);
        }
        Next::Continue
    }

    /// The lanes that point into another block's shared memory, and that memory: one block at a time.
    pub fn remote_span(
        &mut self,
        ad: &Addresses,
        size: u32,
        left: &mut u32,
        what: Use,
    ) -> Option<(u32, Span)> {
        let of = |l: usize| ad.at[l] / WINDOW;
        let first = super::lanes(*left).find(|l| of(*l) > 0)?;
        let group = super::lanes(*left).filter(|l| of(*l) == of(first)).fold(0u32, |m, l| m | 1 << l);
        let (rank, low) = (of(first) as u32 - 1, of(first) * WINDOW);
        let end = |l: usize| ad.at[l] - low + u64::from(size);
        let limit = u64::from(self.block.shared_bytes);
        let text = match self.peer(rank) {
            None => format!("there is no block {rank} in the cluster"),
            // SAFETY: the blocks of a cluster live as long as one of them runs, on this worker.
            Some(peer) if unsafe { (*peer).live_threads } == 0 => {
                format!("block {rank} of the cluster has exited, its shared memory is gone")
            }
            Some(_) if super::lanes(group).any(|l| end(l) > limit) => {
                format!("the blocks have {limit} bytes of shared memory")
            }
            Some(peer) => {
                // SAFETY: as above; it is another block than the one that runs.
                let core = unsafe { &mut *peer };
                let span = Span {
                    base: core.shared.as_mut_ptr().cast(),
                    shadow: core.shared_shadow.as_mut_ptr(),
                    low,
                    source: Source::Shared,
                };
                return Some((group, span));
            }
        };
        *left &= !group;
        self.out_of_bounds(Space::Shared, ad, size, group, what, text);
        None
    }

    /// The block whose shared memory a span is, if it is another one's.
    pub fn owner(&self, span: &Span) -> Option<*mut BlockCore> {
        if span.source == Source::Shared && span.low >= WINDOW {
            self.peer((span.low / WINDOW) as u32 - 1)
        } else {
            None
        }
    }
}
