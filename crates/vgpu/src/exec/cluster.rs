//! Clusters: groups of blocks that run together, wait for each other and access each other's shared memory.
//!
//! One worker runs all blocks of a cluster. The address of a location in another block's shared memory is `(rank + 1) *
//! WINDOW + offset` (see [`WINDOW`]). Addresses in the own block's shared memory are plain offsets. Accesses to another
//! block's shared memory are checked for bounds, for undefined values and for races. The race checker knows that cluster
//! barriers and mbarrier objects order the accesses of different blocks. An access that nothing orders before the end of
//! the other block is a finding, because shared memory is freed at the end.

use std::rc::Rc;

use super::Policy;
use super::barrier::divergent_barrier;
use super::state::{BlockCore, Membership, Next, Request, RunningWarp, Source, Span, State, WINDOW};
use crate::check::Kind;
use crate::isa::op::Inst;
use crate::lanes::{lanes, lanes_where};

/// Number of accesses of other blocks that a block remembers: the last one of each instruction and warp.
const MAX_VISITS: usize = 1 << 12;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Returns the block with this rank if it is another block of the cluster.
    pub fn peer(&self, rank: u32) -> Option<*mut BlockCore> {
        let member = self.block.membership.as_ref().filter(|m| m.rank != rank)?;
        member.cluster.cores.borrow().get(rank as usize).copied()
    }

    /// Reports lanes that access the shared memory of a block that may not have started.
    pub fn check_peer_runs(&mut self, span: &Span, mask: u32) {
        let Some(peer) = self.owner(span) else { return };
        // SAFETY: `peer` is another block of the cluster. The same worker runs it.
        let index = unsafe { (*peer).index } as u32;
        let early = lanes_where(mask, |l| !self.block.races.knows_block(index, self.w.id, l));
        if early != 0 {
            let rank = span.low / WINDOW - 1;
            self.finding(Kind::Race, early, || {
                format!(
                    "the instruction accesses the shared memory of block {rank} of the cluster, but the block may not have \
                     started: no barrier.cluster and no message of that block comes before the access"
                )
            });
        }
    }

    fn rank(&self) -> u32 {
        self.block.membership.as_ref().map_or(0, |m| m.rank)
    }

    pub fn map_address(&mut self, inst: &Inst, generic: bool, mask: u32) -> Next {
        let window = if generic { self.grid.windows.shared } else { 0 };
        let (at, ranks) = (self.wide(inst.r(1)), *self.r32(inst.r(2)));
        let (own, count) = (self.rank(), self.grid.cluster.iter().product::<u32>());
        let mut out = [0; 32];
        for l in lanes(mask) {
            let offset = at[l].wrapping_sub(window) % WINDOW;
            let base = if ranks[l] == own { 0 } else { u64::from(ranks[l] + 1) * WINDOW };
            out[l] = window + base + offset;
        }
        let beyond = lanes_where(mask, |l| ranks[l] >= count);
        if P::CHECK && beyond != 0 {
            let rank = ranks[beyond.trailing_zeros() as usize];
            self.finding(Kind::OutOfBounds, beyond, || {
                format!("mapa names block {rank} of a cluster of {count} blocks")
            });
        }
        self.set(inst.r(0), &out, mask);
        self.flow_any(inst, mask);
        Next::Continue
    }

    pub fn block_of_address(&mut self, inst: &Inst, generic: bool, mask: u32) -> Next {
        let window = if generic { self.grid.windows.shared } else { 0 };
        let at = self.wide(inst.r(1));
        let own = self.rank();
        let out = at.map(|a| match (a.wrapping_sub(window) / WINDOW) as u32 {
            0 => own,
            n => n - 1,
        });
        self.set32(inst.r(0), &out, mask);
        self.flow_any(inst, mask);
        Next::Continue
    }

    /// Executes `barrier.cluster.arrive` and `barrier.cluster.wait`.
    pub fn cluster_barrier(&mut self, arrive: bool, relaxed: bool, aligned: bool, mask: u32) -> Next {
        self.split_guarded(mask);
        if aligned && mask != self.w.live && self.frag.state != State::Forced {
            self.frag.state = State::Gathering;
            return Next::Park;
        }
        let forced = std::mem::replace(&mut self.frag.state, State::Ready) == State::Forced;
        if P::CHECK && aligned && forced && mask != self.w.live {
            let elsewhere = self.w.live & !mask;
            self.finding(Kind::BarrierDivergence, mask, || divergent_barrier(elsewhere));
        }
        // A block without a cluster forms a cluster of one block.
        let member =
            self.block.membership.get_or_insert_with(|| Membership { cluster: Rc::default(), rank: 0 });
        let cluster = Rc::clone(&member.cluster);
        if cluster.cores.borrow().is_empty() {
            cluster.enter(&raw mut *self.block);
        }
        let arrived = lanes_where(mask, |l| self.w.at_cluster_barrier >> l & 1 == 1);
        if arrive {
            let again = arrived;
            if P::CHECK && again != 0 {
                self.finding(Kind::BarrierCount, again, || {
                    "threads arrive at the cluster barrier again, before they have waited for its last phase"
                        .to_string()
                });
                // The findings that follow from it would only hide it.
                return Next::Continue;
            }
            self.w.at_cluster_barrier |= mask;
            if P::CHECK {
                // A relaxed arrival publishes what a fence before it covers.
                let races = &mut self.block.races;
                let published = if relaxed {
                    races.publish_fenced(self.w.id, mask)
                } else {
                    races.publish(self.w.id, mask)
                };
                let mut publishing = cluster.publishing.borrow_mut();
                publishing.join(&published);
                publishing.join(&races.presence());
            }
            for l in lanes(mask) {
                self.w.cluster_phase[l] = cluster.phase.get() + 1;
            }
            cluster.arrived.set(cluster.arrived.get() + mask.count_ones());
            cluster.settle();
            self.block.progress += 1;
            return Next::Continue;
        }
        let never = mask & !arrived;
        if P::CHECK && never != 0 {
            self.finding(Kind::BarrierCount, never, || {
                "threads execute barrier.cluster.wait before they arrive at the barrier".to_string()
            });
        }
        cluster.settle();
        if lanes(mask).any(|l| self.w.cluster_phase[l] > cluster.phase.get()) {
            self.w.last_poll = Some(self.at());
            // A poll counts as an executed instruction, so the block does not count as deadlocked.
            self.worker.executed += 1;
            return Next::Again;
        }
        self.w.at_cluster_barrier &= !mask;
        if P::CHECK {
            let published = cluster.published.borrow().clone();
            self.block.races.learn(self.w.id, mask, &published);
        }
        Next::Continue
    }

    /// Finds the lanes that point into another block's shared memory, and the span of that memory. Handles one block
    /// per call.
    pub fn remote_span(&mut self, request: &Request<'_>, left: &mut u32) -> Option<(u32, Span)> {
        let ad = request.addresses;
        let window = |l: usize| ad.at[l] / WINDOW;
        let first = lanes(*left).find(|l| window(*l) > 0)?;
        let group = lanes_where(*left, |l| window(l) == window(first));
        let (rank, low) = (window(first) as u32 - 1, window(first) * WINDOW);
        let end = |l: usize| ad.at[l] - low + u64::from(request.size);
        let limit = u64::from(self.block.shared_end);
        let function = &self.grid.kernel.functions[self.frag.function as usize];
        let text = match self.peer(rank) {
            // With `.shared` a GPU does not look for the memory of other blocks.
            Some(_) if P::CHECK && function.metas[self.frag.pc as usize].own_shared => {
                format!(
                    "the address is in the shared memory of block {rank} of the cluster, but the instruction accesses \
                         `.shared::cta`, the memory of its own block; use `.shared::cluster`"
                )
            }
            None => format!("the cluster has no block {rank}"),
            // SAFETY: the blocks of a cluster live as long as one of them runs. This worker runs all of them.
            Some(peer) if unsafe { (*peer).live_threads } == 0 => {
                format!("block {rank} of the cluster has exited, and its shared memory was freed")
            }
            Some(_) if lanes(group).any(|l| end(l) > limit) => {
                format!("a block has {limit} bytes of shared memory")
            }
            Some(peer) => {
                // SAFETY: as above. `peer` is not the block that runs now.
                let span = unsafe { (*peer).shared_span() };
                return Some((group, Span { low, ..span }));
            }
        };
        *left &= !group;
        self.out_of_bounds(request, group, |_| text);
        None
    }

    /// Records that lanes access another block's shared memory, which must not end before.
    pub fn note_visit(&mut self, span: &Span, lanes: u32) {
        let site = self.site(lanes);
        let moment = self.block.races.moment(site);
        if let Some(peer) = self.owner(span) {
            // SAFETY: `peer` is another block of the cluster. The same worker runs it.
            let visits = unsafe { &mut (*peer).visits };
            let key = (site.block, site.warp, site.pc);
            if visits.len() < MAX_VISITS || visits.contains_key(&key) {
                visits.insert(key, (site, moment));
            }
        }
    }

    /// Returns the block that owns a span of shared memory, if it is not the running block.
    pub fn owner(&self, span: &Span) -> Option<*mut BlockCore> {
        if span.source == Source::Shared && span.low >= WINDOW {
            self.peer((span.low / WINDOW) as u32 - 1)
        } else {
            None
        }
    }
}
