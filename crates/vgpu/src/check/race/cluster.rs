//! Races between blocks of a cluster in each other's shared memory.
//!
//! The shadow of a block ([`super::shared`]) knows the threads of that block only. A cluster whose blocks reach each
//! other's memory therefore has one more shadow, of the kind of global memory, for the memory of all its blocks. Every
//! access to shared memory is recorded in both. Pairs of accesses of one block are left to the shadow of the block.
//!
//! Shared memory is freed when a block ends. A thread of another block must therefore be ordered before the end of the
//! block whose memory it accesses: see [`BlockRaces::is_known`].

use std::rc::Rc;

use super::event::{Access, Agent, Op, Ranges, Strength};
use super::flags::words;
use super::global::{GlobalAccess, GlobalRaces, LaneBytes};
use super::stamp::{Stamp, entity_of};
use super::threads::ProxySpace;
use super::{BlockRaces, ChunkReads, Differs, Moment, Order, Scope, StoredValues, clock};
use crate::check::site::Site;
use crate::lanes::lanes;

/// The shared memory of a cluster, as one of its blocks sees it.
#[derive(Clone, Debug)]
pub struct ClusterMemory {
    /// The memory of all blocks.
    pub races: Rc<GlobalRaces>,
    /// The address of the block's own memory in it.
    pub base: u64,
    /// The distance between the memories of two blocks.
    pub window: u64,
    /// Index of the allocation that the last access touched.
    pub hint: usize,
}

impl BlockRaces {
    /// Makes the block a member of a cluster whose blocks reach each other's shared memory.
    pub fn join_cluster(&mut self, memory: ClusterMemory) {
        self.cluster = Some(memory);
    }

    /// Enters an access of lanes to the block's own memory.
    #[inline]
    pub(super) fn own_in_cluster(&mut self, stamp: Stamp, mask: u32, ranges: &Ranges<'_, u32>) {
        if let Some(cluster) = &self.cluster {
            let base = cluster.base;
            let address = ranges.at.map(|at| base + u64::from(at));
            self.in_cluster(stamp, mask, &address, ranges.bytes, ranges.values);
        }
    }

    /// Enters the reads of 16-byte chunks of the block's own memory by an agent.
    pub(super) fn chunks_in_cluster(&mut self, stamp: Stamp, chunks: &ChunkReads) {
        let Some(base) = self.cluster.as_ref().map(|cluster| cluster.base) else { return };
        let mut addresses = chunks.addresses.clone();
        addresses.sort_unstable();
        addresses.dedup();
        // Adjacent chunks are one range.
        for run in addresses.chunk_by(|a, b| a + 16 == *b) {
            let address = [base + u64::from(run[0]); 32];
            self.in_cluster(stamp, 1 << stamp.lane(), &address, 16 * run.len() as u32, &Differs);
        }
    }

    fn in_cluster(
        &mut self,
        stamp: Stamp,
        mask: u32,
        address: &[u64; 32],
        bytes: u32,
        values: &dyn StoredValues,
    ) {
        let Some(cluster) = &mut self.cluster else { return };
        let access = GlobalAccess { mask, stamp, address, bytes: LaneBytes::All(bytes), values };
        let (races, hint) = (&cluster.races, &mut cluster.hint);
        let weak = stamp.strength() == Strength::Weak;
        let left = if weak { races.access_runs(&self.threads, hint, &access) } else { mask };
        if left == 0 {
            return;
        }
        self.found.space = ProxySpace::Shared;
        races.access(&self.threads, hint, &GlobalAccess { mask: left, ..access }, &mut self.found);
        self.found.space = ProxySpace::Global;
        for (block, flag) in self.found.observed.drain(..) {
            self.threads.note_observed(stamp.warp(), block, flag);
        }
        let (own, window) = (self.threads.block, cluster.window);
        self.found.conflicts.list.retain(|conflict| conflict.first_block != own);
        for conflict in &mut self.found.conflicts.list {
            conflict.address %= window;
        }
        self.report_conflicts(true);
    }

    /// Whether a lane knows anything of another block, so that the block must have started.
    pub fn knows_block(&self, block: u32, warp: u32, lane: usize) -> bool {
        self.threads.knows_block(block, warp as usize, lane)
    }

    /// Checks an access of lanes to another block's memory. The addresses are those of the cluster.
    pub fn remote(&mut self, site: Site, access: Access, ranges: &Ranges<'_, u64>) {
        let stamp = Stamp::new(access, site, self.threads.time(site.warp as usize), None);
        self.in_cluster(stamp, site.lanes, ranges.at, ranges.bytes, ranges.values);
        self.strong_in_cluster(site, access, ranges.at, ranges.bytes);
    }

    /// Checks an operation on an mbarrier object of another block. All such operations are strong for the cluster.
    pub fn remote_mbarrier(&mut self, site: Site, address: &[u64; 32]) {
        let access = Access { op: Op::Atomic, order: Order::Relaxed, scope: Scope::Gpu };
        let stamp = Stamp::new(access, site, self.threads.time(site.warp as usize), None);
        self.in_cluster(stamp, site.lanes, address, 8, &Differs);
    }

    /// An agent is issued a write of `bytes` bytes to another block's memory, on behalf of one lane.
    pub fn agent_writes_remote(&mut self, agent: Agent, site: Site, address: u64, bytes: u32) {
        let stamp = self.issue(agent, site, Access::weak(Op::Write));
        self.in_cluster(stamp, site.lanes, &[address; 32], bytes, &Differs);
    }

    /// Publishes and takes over the flags of a strong access to the memory of the cluster. One worker runs the whole
    /// cluster, so one call does both.
    pub(super) fn strong_in_cluster(&mut self, site: Site, access: Access, address: &[u64; 32], bytes: u32) {
        if access.strength() != Strength::Device {
            return;
        }
        let Some(races) = self.cluster.as_ref().map(|cluster| Rc::clone(&cluster.races)) else { return };
        let warp = site.warp as usize;
        for l in lanes(site.lanes) {
            if access.op != Op::Write {
                for word in words(address[l], bytes) {
                    let Some(flags) = races.flags(word, false) else { break };
                    let Some(flag) = flags.get(word).cloned() else { continue };
                    drop(flags);
                    self.threads.expect_others();
                    let here = flag.for_block(self.threads.block).cloned().unwrap_or_default();
                    let mut device = here.clone();
                    device.join(&flag.device);
                    self.threads.observe(warp, 1 << l, access, &here, &device);
                }
            }
            if access.op != Op::Read {
                let published = self.threads.publish(warp, l, access.releases(), access.reach());
                if published.is_empty() && !races.has_flags() {
                    continue;
                }
                for word in words(address[l], bytes) {
                    if let Some(mut flags) = races.flags(word, true) {
                        flags.write(word, self.threads.writer(), access.op == Op::Atomic, &published);
                    }
                }
            }
        }
    }

    /// The arrival that a bulk copy of another block makes when it is complete. `mark` is that block's value from
    /// [`BlockRaces::agent_mark`].
    pub fn mbarrier_arrive_copies_from(
        &mut self,
        block: u32,
        (agent, warp, lane): (Agent, u32, usize),
        address: u32,
        mark: u32,
    ) {
        let mut clock = clock::Clock::default();
        clock.learn_actor(entity_of(warp as usize, agent as usize), lane, mark);
        self.mbarrier_arrive_from(address, &clock::Blocks::one(block, clock));
    }

    /// Whether some thread of this block, which has ended, knows of a moment of another block.
    pub fn is_known(&self, block: u32, moment: &Moment) -> bool {
        let stamp = |lane: usize| {
            let site = Site { warp: moment.warp, ..Site::default() };
            Stamp::new(Access::weak(Op::Read), site, moment.time, None).with_lane(lane)
        };
        lanes(moment.lanes).all(|lane| self.threads.is_known_to_some(block, stamp(lane)))
    }
}
