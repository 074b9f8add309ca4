//! Detects races, thread by thread, according to the PTX memory model. A race is a pair of conflicting accesses that
//! nothing orders.
//!
//! # The relation
//! Two accesses conflict if they touch a common byte, at least one writes, and they are not both strong with scopes
//! that include each other's thread. They race unless one happens before the other. Happens-before consists of program
//! order and of synchronisation: block barriers (waiting or only arriving), `bar.warp.sync` over its mask, mbarrier
//! phases, and release and acquire patterns through memory. A release pattern is a releasing write, or a fence and then
//! a strong write. An acquire pattern is an acquiring read, or a strong read and then a fence. A read-modify-write
//! passes a release on. Scopes count: a fence or flag of block scope synchronises no thread outside the block. `shfl`,
//! `vote` and similar instructions order nothing. Lanes of a warp are separate threads.
//!
//! An asynchronous copy is a separate agent. It starts after everything that its thread did before. Its thread sees the
//! data after a wait. Other threads see the data after they synchronise with that thread after its wait, or through the
//! mbarrier that the copy signals. Each kind of agent ([`Agent`]) has its own waits. All agents except `cp.async` use
//! the async proxy: they see what threads wrote only after a proxy fence.
//!
//! # How races are detected
//! - [`threads`] stores what each thread knows about the other threads: a vector clock, kept once per block, and once
//!   per warp while the lanes of the warp agree. A block-wide barrier costs one pass over the warps.
//! - [`stamp`] is one access in 64 bits. [`shared`] (with [`readers`]) and [`global`] store the last accesses of each
//!   granule. An access of a whole warp to rows of memory is a [`tile`] and is checked as a whole.
//! - [`agent_reads`] stores what tensor cores and bulk stores read from shared memory.
//! - [`flags`] stores what strong writes published at which address.
//! - [`cluster`] does the same for the shared memory of blocks that reach each other's memory.
//!
//! Invariants:
//! 1. The time of a warp grows whenever one of its lanes publishes. Two accesses of a thread with the same time have no
//!    release between them.
//! 2. A stamp at or below the floor of the block, unless it belongs to an agent, is ordered before everything that the
//!    block does from now on.
//! 3. Whether a race is reported depends on the synchronisation that took place, not on when warps ran. Which of the
//!    two accesses is called the first may differ.
//! 4. Dropped records (samples, see [`global`] and `also` in [`shared`]) can hide a race but never cause a false
//!    report.
//!
//! # Deliberate limits
//! - Fences and flags take effect across block barriers: "all write, all fence, barrier, one raises the flag" and "one
//!   polls, barrier, all fence" are accepted as correct, as they are on hardware.
//! - A missing acquire after an atomic that read the flag is a note, because NVIDIA's samples omit it.
//! - Unordered stores of the same value are a note if the program text shows that the values are always the same
//!   ([`crate::program::facts`] and [`crate::program::values`]), and a warning if they are the same but for rounding. If
//!   they are equal only in this run, they race.
//! - A volatile access is strong, as in PTX. CUDA C++ gives it no meaning between threads, so unordered volatile
//!   accesses are reported too: as an error, and as a note if the read polls a flag or the other access is an atomic.
//! - The plain read with which a compare-and-swap loop starts is a note if the other access is an atomic: a wrong value
//!   costs one more iteration.
//! - A plain write after atomics of other threads is ordered after them only if the program makes it after it has seen
//!   the result of an atomic (the last block resets a counter). Otherwise the order may be another one in another run.
//! - Strong accesses of different sizes at one address count as strong to each other. Accesses of `.cluster` count as `.gpu`;
//!   fences and what flags publish do not.
//! - An exited thread counts as having reached every later barrier of the whole block, and every later barrier that the
//!   rest of its warp reaches together.
//! - A fence counts as acquire and release, whatever it says.
//! - A proxy fence may be executed by the thread that writes the data or by the thread that starts the reading agent.
//!   It is required only for reads, and for global memory only if both threads are in one block.
//! - Times have 26 bits. A block that synchronises more often is no longer checked.
//!
//! # Order of calls
//! The caller must report an access before the access takes effect. Then the publication of a flag is recorded before
//! any thread can read the flag. After a strong global read or atomic has taken effect, the caller must call
//! [`BlockRaces::global_observed`], which takes over what was published up to the value read. In shared memory one call
//! does both, because one worker runs the whole block. The caller must not report accesses that were found out of
//! bounds.

mod agent_reads;
mod clock;
mod cluster;
mod conflict;
mod event;
mod flags;
mod global;
mod objects;
mod readers;
mod report;
mod shared;
mod stamp;
mod threads;
mod tile;
mod told;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use super::finding::Severity;
use super::site::Site;
use crate::lanes::{lanes, lanes_where};
use crate::program::facts::{Fact, Seed};
use agent_reads::AgentReads;
pub use agent_reads::ChunkReads;
pub use clock::Blocks as Published;
pub use cluster::ClusterMemory;
pub use conflict::{AccessPattern, Shape};
use conflict::{Clash, Conflict, clash};
pub use event::{
    Access, Agent, Copy, Differs, EarlierStore, Equality, Op, Order, Ranges, Reach, Repeats, Scope,
    StoredValues, Strength,
};
use flags::{Flags, words};
pub use global::GlobalRaces;
use global::{Found, GlobalAccess, LaneBytes};
use objects::Objects;
pub use report::{RaceKind, RaceReport};
use shared::{SharedAccess, SharedShadow};
use stamp::Stamp;
pub use threads::ProxySpace;
use threads::{Gap, Handed, Threads};
pub use tile::Tile;
use told::Told;

/// An mbarrier: what arrived in the current phase, and what arrived in all completed phases.
#[derive(Debug, Default)]
struct Mbarrier {
    arrived: Handed,
    completed: Handed,
}

/// A moment of the program of some lanes of a warp.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    warp: u32,
    lanes: u32,
    time: u32,
}

impl Moment {
    /// Whether this moment tells as much as a later one of the same warp. Adds the lanes of the same time.
    pub fn includes(&mut self, later: &Moment) -> bool {
        if self.warp != later.warp {
            return false;
        }
        if self.time == later.time {
            self.lanes |= later.lanes;
        }
        later.lanes & !self.lanes == 0
    }
}

/// Two reports are folded into one if these values are equal: kind, shared, lower pc, higher pc, severity.
type Key = (RaceKind, bool, u32, u32, Severity);

/// The race checker of one running block. A worker keeps it and restarts it for each block.
#[derive(Debug, Default)]
pub struct BlockRaces {
    threads: Threads,
    shared: SharedShadow,
    shared_flags: Flags,
    agent_reads: AgentReads,
    mbarriers: HashMap<u32, Mbarrier>,
    objects: Objects,
    /// The memory of the cluster, if its blocks reach each other's memory.
    cluster: Option<ClusterMemory>,
    reports: HashMap<Key, RaceReport>,
    /// Index of the allocation that the last global access touched.
    hint: usize,
    found: Found,
    /// What is known about the loads and stores of the kernel, by instruction.
    facts: Arc<[Fact]>,
    /// What is reported often enough.
    told: Told,
}

impl BlockRaces {
    /// Starts block number `block` with `threads` threads and `shared_bytes` bytes of static and dynamic shared memory.
    /// The reports of the previous block must have been taken.
    pub fn start(&mut self, block: u32, threads: u32, shared_bytes: u32) {
        self.threads.start(block, threads);
        self.shared.start(shared_bytes);
        self.shared_flags.clear();
        self.agent_reads.clear();
        self.mbarriers.clear();
        self.objects.clear();
        self.cluster = None;
        self.reports.clear();
        self.told.start_block();
    }

    /// Sets the blocks of the block's cluster, if it has several.
    pub fn set_cluster_blocks(&mut self, blocks: Vec<u32>) {
        self.threads.set_cluster_blocks(blocks);
    }

    /// Sets what is known about the kernel's loads and stores, by instruction.
    pub fn set_facts(&mut self, facts: &Arc<[Fact]>) {
        self.facts = Arc::clone(facts);
    }

    /// Returns the reports in a stable order.
    pub fn take_reports(&mut self) -> Vec<RaceReport> {
        // If a copy is not waited for, threads that are not even ordered with its start also conflict with it. That is
        // one cause, so only one report is kept.
        let missing: Vec<(u32, u32)> = self
            .reports
            .keys()
            .filter(|(kind, ..)| *kind == RaceKind::AsyncNotWaited)
            .map(|(_, _, low, high, _)| (*low, *high))
            .collect();
        let consequence = |r: &RaceReport| {
            let pcs = (r.first.pc.min(r.second.pc), r.first.pc.max(r.second.pc));
            r.kind != RaceKind::AsyncNotWaited && missing.contains(&pcs)
        };
        let mut all: Vec<RaceReport> = self.reports.drain().map(|(_, report)| report).collect();
        all.retain(|r| !consequence(r));
        all.sort_by_key(|r| (r.kind, r.first.pc, r.second.pc, r.shared, r.address));
        all
    }

    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Records that lanes have exited.
    pub fn exit(&mut self, warp: u32, mask: u32) {
        self.threads.exit(warp as usize, mask);
    }

    // Accesses ------------------------------------------------------------------------------------------------------

    /// Checks an access to shared memory.
    #[cfg(test)]
    pub fn shared(&mut self, site: Site, access: Access, ranges: &Ranges<'_, u32>) {
        self.shared_at(site, access, ranges, &AccessPattern::new(site.lanes, ranges.at, ranges.bytes));
    }

    /// Does the same as `shared` when the pattern of the addresses is already known.
    #[inline]
    pub fn shared_at(
        &mut self,
        site: Site,
        access: Access,
        ranges: &Ranges<'_, u32>,
        pattern: &AccessPattern,
    ) {
        if access.op != Op::Read
            && self.objects.may_meet(pattern.min, pattern.max.saturating_add(ranges.bytes))
        {
            let stamp = Stamp::new(access, site, self.threads.time(site.warp as usize), None);
            self.check_objects(stamp, site.lanes, ranges);
        }
        self.enter_shared(site, access, ranges, pattern);
    }

    /// Checks writes against the mbarrier objects of the block.
    #[cold]
    fn check_objects(&mut self, stamp: Stamp, mask: u32, ranges: &Ranges<'_, u32>) {
        for l in lanes(mask) {
            let (own, out) = (stamp.with_lane(l), &mut self.found.conflicts);
            self.objects.overwrite(self.threads.block, own, ranges.at[l], ranges.bytes, out);
        }
        self.report_conflicts(true);
    }

    #[inline]
    fn enter_shared(
        &mut self,
        site: Site,
        access: Access,
        ranges: &Ranges<'_, u32>,
        pattern: &AccessPattern,
    ) {
        let stamp = Stamp::new(access, site, self.threads.time(site.warp as usize), None);
        let is_weak = access.strength() == Strength::Weak && self.cluster.is_none();
        let mask = if is_weak {
            self.told.unknown_shared(site.pc, site.lanes, ranges.at, ranges.bytes)
        } else {
            site.lanes
        };
        if mask != site.lanes {
            if mask != 0 {
                let pattern = &AccessPattern::new(mask, ranges.at, ranges.bytes);
                let shared = SharedAccess { mask, stamp, ranges, pattern };
                shared::access(&mut self.shared, &self.threads, &shared, &mut self.found.conflicts);
            }
            if access.op != Op::Read {
                self.check_agent_reads(&SharedAccess { mask: site.lanes, stamp, ranges, pattern });
            }
            self.report_conflicts(true);
            return;
        }
        let shared = SharedAccess { mask: site.lanes, stamp, ranges, pattern };
        shared::access(&mut self.shared, &self.threads, &shared, &mut self.found.conflicts);
        if access.op != Op::Read {
            self.check_agent_reads(&shared);
        }
        if access.strength() != Strength::Weak {
            for flag in self.shared.seen.drain(..) {
                self.threads.note_observed(site.warp as usize, self.threads.block, flag);
            }
            self.shared_strong(site, access, ranges);
        }
        self.report_conflicts(true);
        if let Some(base) = self.cluster.as_ref().map(|cluster| cluster.base) {
            self.own_in_cluster(stamp, site.lanes, ranges);
            let address = ranges.at.map(|at| base + u64::from(at));
            self.strong_in_cluster(site, access, &address, ranges.bytes);
        }
    }

    /// Checks a weak read of a word per lane of shared memory.
    #[inline]
    pub fn read_shared_words(&mut self, site: Site, at: &[u32; 32], pattern: &AccessPattern) {
        let read = Access::weak(Op::Read);
        let stamp = Stamp::new(read, site, self.threads.time(site.warp as usize), None);
        if shared::read_near_words(&mut self.shared, &self.threads, stamp, site.lanes, at, pattern) {
            self.own_in_cluster(stamp, site.lanes, &Ranges::new(at, 4));
        } else {
            self.shared_at(site, read, &Ranges::new(at, 4), pattern);
        }
    }

    /// Checks a write to shared memory against the reads of asynchronous agents.
    #[inline(always)]
    fn check_agent_reads(&mut self, write: &SharedAccess<'_>) {
        if !self.agent_reads.is_empty() {
            let &Ranges { at, bytes, .. } = write.ranges;
            for l in lanes(write.mask) {
                let own = write.stamp.with_lane(l);
                self.agent_reads.check_write(&self.threads, own, at[l], bytes, &mut self.found.conflicts);
            }
        }
    }

    /// Checks a weak access of a whole warp to a tile of shared memory, if it is certain that nothing races. Otherwise
    /// it returns false without any effect, and the caller must report the access lane by lane.
    pub fn shared_tile(&mut self, site: Site, access: Access, tile: &Tile<'_>) -> bool {
        let stamp = Stamp::new(access, site, self.threads.time(site.warp as usize), None);
        let may_overwrite =
            access.op != Op::Read && self.objects.may_meet(tile.base, tile.base.saturating_add(tile.reach()));
        self.cluster.is_none()
            && access.strength() == Strength::Weak
            && !may_overwrite
            && (access.op == Op::Read || self.agent_reads.is_empty())
            && shared::tile(&mut self.shared, &self.threads, stamp, tile)
    }

    /// Publishes and takes over the flags of a strong access to shared memory.
    fn shared_strong(&mut self, site: Site, access: Access, ranges: &Ranges<'_, u32>) {
        let (warp, &Ranges { at: address, bytes, .. }) = (site.warp as usize, ranges);
        if self.shared_flags.is_empty() && !self.threads.can_publish(access) {
            return;
        }
        for l in lanes(site.lanes) {
            if access.op != Op::Write && !self.shared_flags.is_empty() {
                for word in words(u64::from(address[l]), bytes) {
                    if let Some(flag) = self.shared_flags.get(word)
                        && let Some(published) = flag.for_block(self.threads.block)
                    {
                        self.threads.observe(warp, 1 << l, access, published, published);
                    }
                }
            }
            if access.op != Op::Read {
                // No thread outside the block can read shared memory, so block scope is enough.
                let published = self.threads.publish(warp, l, access.releases(), Reach::Block);
                if !published.is_empty() || !self.shared_flags.is_empty() {
                    for word in words(u64::from(address[l]), bytes) {
                        let chain = access.op == Op::Atomic;
                        self.shared_flags.write(word, self.threads.writer(), chain, &published);
                    }
                }
            }
        }
    }

    /// Checks an access to global memory, before the access takes effect.
    #[inline]
    pub fn global(&mut self, memory: &GlobalRaces, site: Site, access: Access, ranges: &Ranges<'_, u64>) {
        let (w, mask) = (site.warp as usize, site.lanes);
        let &Ranges { at: address, bytes, values } = ranges;
        let stamp = Stamp::new(access, site, self.threads.time(w), None);
        let strong = access.strength() != Strength::Weak;
        let mask = if strong { mask } else { self.told.unknown_global(site.pc, mask, address, bytes) };
        if mask == 0 {
            return;
        }
        let global = GlobalAccess { mask, stamp, address, bytes: LaneBytes::All(bytes), values };
        if strong {
            self.global_lanes(memory, &global);
        } else {
            self.global_runs(memory, &global);
        }
        let publishes = self.threads.can_publish(access) || access.op == Op::Write && memory.has_flags();
        if strong && access.op != Op::Read && publishes {
            for l in lanes(mask) {
                let published = self.threads.publish(w, l, access.releases(), access.reach());
                let empty = published.is_empty();
                let chain = access.op == Op::Atomic;
                if empty && chain {
                    continue;
                }
                for word in words(address[l], bytes) {
                    if let Some(mut flags) = memory.flags(word, !empty) {
                        flags.write(word, self.threads.writer(), chain, &published);
                    }
                }
            }
        }
    }

    /// Checks an access by runs of lanes first, and the remaining lanes one by one.
    #[inline]
    fn global_runs(&mut self, memory: &GlobalRaces, access: &GlobalAccess<'_>) {
        let left = memory.access_runs(&self.threads, &mut self.hint, access);
        if left != 0 {
            self.global_lanes(memory, &GlobalAccess { mask: left, ..*access });
        }
    }

    #[inline(never)]
    fn global_lanes(&mut self, memory: &GlobalRaces, access: &GlobalAccess<'_>) {
        memory.access(&self.threads, &mut self.hint, access, &mut self.found);
        for (block, flag) in self.found.observed.drain(..) {
            self.threads.note_observed(access.stamp.warp(), block, flag);
        }
        self.report_conflicts(false);
    }

    /// Takes over what was published, after a strong global read or an atomic with a result has taken effect. Does
    /// nothing for a weak access.
    pub fn global_observed(
        &mut self,
        memory: &GlobalRaces,
        site: Site,
        access: Access,
        address: &[u64; 32],
        bytes: u32,
    ) {
        let strength = access.strength();
        if strength == Strength::Weak || access.op == Op::Write {
            return;
        }
        let (own, warp) = (self.threads.block, site.warp as usize);
        // Lanes that read one word take over the same.
        let mut left = site.lanes;
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let group = lanes_where(left, |l| address[l] == address[first]);
            left &= !group;
            for word in words(address[first], bytes) {
                let Some(flags) = memory.flags(word, false) else { return };
                let Some(flag) = flags.get(word).cloned() else { continue };
                drop(flags);
                if self.threads.has_observed(warp, group, access, &flag) {
                    continue;
                }
                let here = flag.for_block(own).cloned().unwrap_or_default();
                let mut device = here.clone();
                if access.reach() == Reach::Device {
                    device.join(&flag.device);
                }
                if let Some(narrow) = flag.for_others(own) {
                    self.threads.note_narrow(warp, narrow);
                }
                self.threads.observe(warp, group, access, &here, &device);
            }
        }
    }

    // Synchronisation -----------------------------------------------------------------------------------------------

    /// `fence` and `membar`. A fence that only releases or only acquires counts as both.
    pub fn fence(&mut self, warp: u32, mask: u32, scope: Scope) {
        self.threads.fence(warp as usize, mask, Reach::new(scope));
        self.objects.fence(&self.threads, warp as usize, mask);
    }

    /// `bar.warp.sync`, called when all lanes of the mask have arrived.
    pub fn warp_sync(&mut self, warp: u32, mask: u32) {
        if self.threads.sync_warp(warp as usize, mask) {
            self.shared.on_block_barrier(self.threads.floor());
            self.agent_reads.on_block_barrier(&self.threads);
        }
    }

    /// Lanes arrive at a block barrier. `waits` is true for `bar.sync` and `bar.red`, and false for `bar.arrive`.
    pub fn bar_arrive(&mut self, barrier: u32, warp: u32, mask: u32, waits: bool) {
        self.threads.arrive(barrier as usize, warp as usize, mask, waits);
    }

    /// A block barrier has all its arrivals. The caller must call this before any waiting thread continues.
    /// `whole_block`: the barrier is for all threads of the block, not for a given number of threads.
    pub fn bar_complete(&mut self, barrier: u32, whole_block: bool) {
        if self.threads.complete(barrier as usize, whole_block) {
            self.shared.on_block_barrier(self.threads.floor());
            self.agent_reads.on_block_barrier(&self.threads);
        }
    }

    // Asynchronous copies -------------------------------------------------------------------------------------------

    /// The stamp of an operation that is issued to an agent.
    fn issue(&mut self, agent: Agent, site: Site, access: Access) -> Stamp {
        self.threads.issue(site.warp as usize, agent);
        Stamp::new(access, site, self.threads.agent_time(site.warp as usize, agent), Some(agent))
    }

    /// An asynchronous copy into shared memory is issued.
    pub fn copy_issue(&mut self, memory: &GlobalRaces, agent: Agent, site: Site, copy: &Copy<'_>) {
        self.agent_writes_shared(agent, site, copy.to, copy.bytes);
        let stamp = self.issue(agent, site, Access::weak(Op::Read));
        let whole = lanes(site.lanes).all(|l| copy.read[l] == copy.bytes);
        let bytes = if whole { LaneBytes::All(copy.bytes) } else { LaneBytes::Each(copy.read) };
        let access = GlobalAccess { mask: site.lanes, stamp, address: copy.from, bytes, values: &Differs };
        self.global_runs(memory, &access);
    }

    /// An agent is issued a write of `bytes` bytes per lane to shared memory.
    pub fn agent_writes_shared(&mut self, agent: Agent, site: Site, to: &[u32; 32], bytes: u32) {
        let stamp = self.issue(agent, site, Access::weak(Op::Write));
        let (ranges, pattern) = (&Ranges::new(to, bytes), &AccessPattern::new(site.lanes, to, bytes));
        let shared = SharedAccess { mask: site.lanes, stamp, ranges, pattern };
        if self.objects.may_meet(pattern.min, pattern.max.saturating_add(bytes)) {
            self.check_objects(stamp, site.lanes, ranges);
        }
        if !agent_reads::is_generic(stamp) {
            self.shared.agent_write(&self.threads, &shared, &mut self.found.conflicts);
        }
        shared::access(&mut self.shared, &self.threads, &shared, &mut self.found.conflicts);
        self.check_agent_reads(&shared);
        self.report_conflicts(true);
        self.own_in_cluster(stamp, site.lanes, ranges);
    }

    /// An agent of the async proxy is issued a read of 16-byte chunks of shared memory, on behalf of one lane (tensor
    /// cores: on behalf of the warp).
    pub fn agent_reads_shared(&mut self, agent: Agent, site: Site, chunks: &Arc<ChunkReads>) {
        let stamp = self.issue(agent, site, Access::weak(Op::Read)).with_lane(site.first_lane());
        // Tensor cores work for all lanes of the warp together.
        let mask = if agent == Agent::Tensor { self.threads.live(site.warp as usize) } else { site.lanes };
        self.shared.agent_read(&self.threads, stamp, mask, &chunks.addresses, &mut self.found.conflicts);
        self.agent_reads.insert(stamp, chunks);
        self.report_conflicts(true);
        self.chunks_in_cluster(stamp, chunks);
    }

    /// An agent is issued a read or write of a range of global memory on behalf of one lane.
    pub fn agent_global(
        &mut self,
        memory: &GlobalRaces,
        agent: Agent,
        site: Site,
        op: Op,
        range: std::ops::Range<u64>,
        values: &dyn StoredValues,
    ) {
        // Reductions of several agents at one address do not race.
        let order = if op == Op::Atomic { Order::Relaxed } else { Order::Weak };
        let stamp = self.issue(agent, site, Access { op, order, scope: Scope::Gpu });
        let mut address = [0; 32];
        address[site.first_lane()] = range.start;
        let bytes = LaneBytes::All((range.end - range.start) as u32);
        let access = GlobalAccess { mask: site.lanes, stamp, address: &address, bytes, values };
        self.global_runs(memory, &access);
    }

    /// An agent is issued a copy that reads a tensor map in global memory.
    pub fn agent_reads_map(&mut self, memory: &GlobalRaces, agent: Agent, site: Site, address: u64) {
        let stamp = self.issue(agent, site, Access::weak(Op::Read)).with_lane(site.first_lane());
        memory.read_map(address, self.threads.block, stamp);
    }

    /// Lanes together change a tensor map in global memory. That what they write is visible to later copies is checked
    /// elsewhere.
    pub fn change_map(&mut self, memory: &GlobalRaces, site: Site, address: u64) {
        let warp = site.warp as usize;
        let own = Stamp::new(Access::weak(Op::Write), site, self.threads.time(warp), None);
        let own = own.with_lane(site.first_lane());
        for (block, first) in memory.take_map_readers(address) {
            if !lanes(site.lanes).any(|lane| self.threads.ordered(block, first, warp, lane)) {
                let although_ordered = Some(RaceKind::MapInUse);
                let conflict = Conflict::new((block, first), own, address);
                self.found.conflicts.list.push(Conflict { although_ordered, ..conflict });
            }
        }
        self.report_conflicts(false);
    }

    /// Lanes commit a group of the operations issued to their agents.
    pub fn agent_commit(&mut self, agent: Agent, warp: u32, mask: u32) {
        self.threads.commit(warp as usize, agent, mask);
    }

    /// Lanes wait until at most `keep` of their groups are under way.
    pub fn agent_wait(&mut self, agent: Agent, warp: u32, mask: u32, keep: u32) {
        self.threads.wait(warp as usize, agent, mask, keep);
    }

    /// A warp waits until at most `keep` groups of products of its warpgroup are under way. The wait also keeps the lanes
    /// of the warp together, like `__syncwarp`.
    pub fn products_wait(&mut self, warp: u32, mask: u32, keep: u32) {
        self.threads.wait_products(warp as usize, mask, keep);
        self.warp_sync(warp, mask);
    }

    /// `cp.async.wait_all`
    pub fn copy_wait_all(&mut self, warp: u32, mask: u32) {
        self.threads.wait_all(warp as usize, Agent::Copy, mask);
    }

    /// Lanes read global memory through the read-only cache, which does not see what the launch writes.
    pub fn read_only(&mut self, memory: &GlobalRaces, site: Site, address: &[u64; 32], bytes: u32) {
        let stamp = Stamp::new(Access::weak(Op::Read), site, self.threads.time(site.warp as usize), None);
        for l in lanes(site.lanes) {
            let own = stamp.with_lane(l);
            if let Some((block, first)) = memory.writer(address[l], bytes, &mut self.hint)
                && self.threads.ordered(block, first, own.warp(), l)
            {
                let conflict = Conflict::new((block, first), own, address[l]);
                let although_ordered = Some(RaceKind::ReadOnlyCache);
                self.found.conflicts.list.push(Conflict { although_ordered, ..conflict });
            }
        }
        self.report_conflicts(false);
    }

    /// The current moment of the lanes.
    pub fn moment(&self, site: Site) -> Moment {
        Moment { warp: site.warp, lanes: site.lanes, time: self.threads.time(site.warp as usize) }
    }

    /// Whether the current operation of some lane of `site` happens after the moment of some of its lanes.
    pub fn is_after(&self, moment: &Moment, site: Site) -> bool {
        let at = Site { warp: moment.warp, ..site };
        let stamp = Stamp::new(Access::weak(Op::Read), at, moment.time, None);
        let is_ordered = |first: usize, lane: usize| {
            self.threads.ordered_here(stamp.with_lane(first), site.warp as usize, lane)
        };
        lanes(moment.lanes).any(|first| lanes(site.lanes).any(|lane| is_ordered(first, lane)))
    }

    /// Returns how far the agents of a warp have been issued work. The caller passes the value to
    /// [`BlockRaces::mbarrier_arrive_copies`] when that work is done.
    pub fn agent_mark(&mut self, agent: Agent, warp: u32) -> u32 {
        self.threads.mark(warp as usize, agent)
    }

    /// Returns everything that the lanes know, for threads of other blocks.
    pub fn publish(&mut self, warp: u32, mask: u32) -> Published {
        self.threads.publish_all(warp as usize, mask)
    }

    /// Returns what the lanes have fenced, for threads of other blocks.
    pub fn publish_fenced(&mut self, warp: u32, mask: u32) -> Published {
        self.threads.publish_fenced(warp as usize, mask)
    }

    /// Returns only the knowledge that the block has started.
    pub fn presence(&self) -> Published {
        Published::presence(self.threads.block)
    }

    /// Lanes learn what threads of any block have published.
    pub fn learn(&mut self, warp: u32, mask: u32, published: &Published) {
        self.threads.learn_published(warp as usize, mask, published);
    }

    /// Threads of another block arrive at an mbarrier of this block.
    pub fn mbarrier_arrive_from(&mut self, address: u32, published: &Published) {
        let to = &mut self.mbarriers.entry(address).or_default().arrived;
        self.threads.receive_from_outside(published, to);
    }

    /// `fence.proxy.async`, for one space or all.
    pub fn proxy_fence(&mut self, warp: u32, mask: u32, space: Option<ProxySpace>) {
        self.threads.proxy_fence(warp as usize, mask, space);
        self.objects.fence(&self.threads, warp as usize, mask);
    }

    // mbarrier ------------------------------------------------------------------------------------------------------

    /// `mbarrier.inval`. It conflicts with plain accesses only, because lanes of other warps that have just passed the
    /// barrier for the last time need not be ordered before it (libcu++ does not order them).
    pub fn mbarrier_invalidate(&mut self, site: Site, address: &[u32; 32]) {
        for l in lanes(site.lanes) {
            self.mbarriers.remove(&address[l]);
            self.objects.remove(address[l]);
        }
        self.mbarrier_touch(site, address, Op::Write);
    }

    /// `mbarrier.init`: a plain write of eight bytes.
    pub fn mbarrier_init(&mut self, site: Site, address: &[u32; 32]) {
        let (write, ranges) = (Access::weak(Op::Write), &Ranges::new(address, 8));
        let stamp = Stamp::new(write, site, self.threads.time(site.warp as usize), None);
        for l in lanes(site.lanes) {
            self.mbarriers.remove(&address[l]);
            let own = stamp.with_lane(l);
            // Lanes that initialise one object together are an ordinary race.
            if let Some(init) = self.objects.insert(address[l], own)
                && self.threads.ordered_here(init, own.warp(), l)
            {
                let in_use = objects::in_use(self.threads.block, init, own, address[l]);
                self.found.conflicts.list.push(in_use);
            }
        }
        self.report_conflicts(true);
        self.enter_shared(site, write, ranges, &AccessPattern::new(site.lanes, address, 8));
    }

    /// A copy into shared memory that reports to an mbarrier object is issued for one lane.
    pub fn copy_reports_to(&mut self, site: Site, object: u32) {
        let lane = site.first_lane();
        let Some(init) = self.objects.without_fence(object) else { return };
        if self.threads.ordered_here(init, site.warp as usize, lane) {
            let time = self.threads.agent_time(site.warp as usize, Agent::Load);
            let own = Stamp::new(Access::weak(Op::Write), site, time, Some(Agent::Load)).with_lane(lane);
            let although_ordered = Some(RaceKind::MissingInitFence);
            let conflict = Conflict::new((self.threads.block, init), own, u64::from(object));
            self.found.conflicts.list.push(Conflict { although_ordered, ..conflict });
            self.report_conflicts(true);
        }
    }

    /// Threads arrive. The caller must report the arrivals before they can complete the phase. `release` is false for
    /// `.relaxed` arrivals and for `expect_tx` alone.
    pub fn mbarrier_arrive(&mut self, site: Site, address: &[u32; 32], release: bool) {
        self.mbarrier_touch(site, address, Op::Atomic);
        if !release {
            return;
        }
        // Lanes at the same barrier hand over together.
        let (warp, mut left) = (site.warp as usize, site.lanes);
        while left != 0 {
            let at = address[left.trailing_zeros() as usize];
            let group = lanes_where(left, |l| address[l] == at);
            left &= !group;
            self.threads.hand_over(warp, group, &mut self.mbarriers.entry(at).or_default().arrived);
        }
    }

    /// The arrival that the copies of a lane make when they are complete. `mark` is the value from
    /// [`BlockRaces::agent_mark`].
    pub fn mbarrier_arrive_copies(&mut self, agent: Agent, warp: u32, lane: usize, address: u32, mark: u32) {
        let arrived = &mut self.mbarriers.entry(address).or_default().arrived;
        let entity = stamp::entity_of(warp as usize, agent as usize);
        arrived.known.own.learn_actor(entity, lane, mark);
    }

    /// A phase is complete, so threads can acquire what arrived in it.
    pub fn mbarrier_complete(&mut self, address: u32) {
        if let Some(barrier) = self.mbarriers.get_mut(&address) {
            let arrived = std::mem::take(&mut barrier.arrived);
            barrier.completed.join(&arrived);
        }
    }

    /// `test_wait` or `try_wait`. The lanes of `success` found the phase complete. `acquire` is false for `.relaxed`.
    pub fn mbarrier_wait(&mut self, site: Site, success: u32, address: &[u32; 32], acquire: bool) {
        self.mbarrier_touch(site, address, Op::Read);
        let mut left = if acquire { success } else { 0 };
        while left != 0 {
            let at = address[left.trailing_zeros() as usize];
            let group = lanes_where(left, |l| address[l] == at);
            left &= !group;
            if let Some(barrier) = self.mbarriers.get(&at) {
                self.threads.receive(site.warp as usize, group, &barrier.completed);
            }
        }
    }

    /// An operation on the barrier object itself. It is strong, but this alone does not order it with the
    /// initialisation.
    fn mbarrier_touch(&mut self, site: Site, address: &[u32; 32], op: Op) {
        let access = Access { op, order: Order::Relaxed, scope: Scope::Cta };
        let stamp = Stamp::new(access, site, self.threads.time(site.warp as usize), None);
        let (ranges, pattern) = (&Ranges::new(address, 8), &AccessPattern::new(site.lanes, address, 8));
        let shared = SharedAccess { mask: site.lanes, stamp, ranges, pattern };
        shared::access(&mut self.shared, &self.threads, &shared, &mut self.found.conflicts);
        self.shared.seen.clear();
        self.report_conflicts(true);
        if self.cluster.is_some() {
            let access = Access { scope: Scope::Gpu, ..access };
            let stamp = Stamp::new(access, site, self.threads.time(site.warp as usize), None);
            self.own_in_cluster(stamp, site.lanes, ranges);
        }
    }

    // Reports -------------------------------------------------------------------------------------------------------

    #[inline(always)]
    fn report_conflicts(&mut self, shared: bool) {
        if !self.found.conflicts.list.is_empty() {
            self.add_reports(shared);
        }
    }

    #[cold]
    fn add_reports(&mut self, shared: bool) {
        let found = std::mem::take(&mut self.found.conflicts.list);
        if !self.threads.exhausted {
            let mut last: Option<(&Conflict, Option<(RaceKind, Severity)>)> = None;
            for conflict in &found {
                // Lanes of a warp mostly race with one access, for one reason.
                let cause = match last {
                    Some((before, cause)) if conflict.is_as(before) => cause,
                    _ => self.explain(shared, conflict),
                };
                last = Some((conflict, cause));
                if let Some(cause) = cause {
                    self.add(shared, conflict, cause);
                }
            }
        }
        self.found.conflicts.list = found;
        self.found.conflicts.list.clear();
    }

    fn add(&mut self, shared: bool, c: &Conflict, (kind, severity): (RaceKind, Severity)) {
        let severity = match c.equality {
            Equality::Unknown => severity,
            Equality::Close => Severity::Warning,
            Equality::Same => Severity::Note,
        };
        let (first, second) = (c.first.side(c.first_block), c.second.side(self.threads.block));
        let (low, high) = (first.pc.min(second.pc), first.pc.max(second.pc));
        let key = (kind, shared, low, high, severity);
        if severity == Severity::Error {
            self.told.add(key, shared, c);
        }
        self.reports
            .entry(key)
            .and_modify(|r| {
                r.count += 1;
                if r.first.pc == first.pc && r.second.warp == second.warp {
                    r.lanes |= 1 << second.lane;
                }
            })
            .or_insert(RaceReport {
                kind,
                shared,
                address: c.address,
                first,
                second,
                equality: c.equality,
                severity,
                lanes: 1 << second.lane,
                count: 1,
            });
    }

    /// The fact about the reading side of a pair, and the operation of the other side.
    fn reader(&self, c: &Conflict) -> Option<(Fact, Op)> {
        let (read, other) = match (c.first.op(), c.second.op()) {
            (Op::Read, other) => (c.first, other),
            (other, Op::Read) => (c.second, other),
            _ => return None,
        };
        (!read.is_agent())
            .then(|| (self.facts.get(read.pc() as usize).copied().unwrap_or(Fact::UNKNOWN), other))
    }

    /// Returns the kind of a race and its severity. `None` if it is not worth a word.
    fn explain(&self, shared: bool, c: &Conflict) -> Option<(RaceKind, Severity)> {
        match self.reader(c) {
            Some((Fact { seed: Seed::Yes, .. }, Op::Atomic)) => {
                return Some((RaceKind::SwapSeed, Severity::Note));
            }
            Some((Fact { seed: Seed::InHeader, .. }, Op::Atomic)) => return None,
            _ => {}
        }
        if clash(c.first, c.first_block, c.second, self.threads.block) == Clash::Volatile {
            return Some(self.explain_volatile(c));
        }
        if let Some(kind) = c.although_ordered {
            return Some((kind, kind.severity()));
        }
        let (kind, excused) = self.explain_race(shared, c);
        Some((kind, if excused { Severity::Note } else { Severity::Error }))
    }

    fn explain_volatile(&self, c: &Conflict) -> (RaceKind, Severity) {
        let announced = self.threads.gap(c.first_block, c.first) == Gap::AcquireAfterAtomic;
        let atomic = c.first.op() == Op::Atomic || c.second.op() == Op::Atomic;
        if announced || atomic || self.reader(c).is_some_and(|(fact, _)| fact.polls) {
            return (RaceKind::VolatileFlag, Severity::Note);
        }
        if c.first_block == self.threads.block && c.first.warp() == c.second.warp() {
            (RaceKind::VolatileInWarp, Severity::Error)
        } else {
            (RaceKind::Volatile, Severity::Error)
        }
    }

    /// Returns the kind of a race, and whether it is a race only by the letter of the memory model.
    fn explain_race(&self, shared: bool, c: &Conflict) -> (RaceKind, bool) {
        let here = c.first_block == self.threads.block;
        if c.first.is_agent()
            && here
            && !self.threads.waited_for(c.first)
            && self.threads.issued_before(c.first, c.second.warp(), c.second.lane())
        {
            return (RaceKind::AsyncNotWaited, false);
        }
        if c.first.strength() != Strength::Weak && c.second.strength() != Strength::Weak {
            return (RaceKind::ScopeTooNarrow, false);
        }
        match self.threads.gap(c.first_block, c.first) {
            // A strong write is a flag itself, not data that a flag announces.
            Gap::Release if c.first.strength() == Strength::Weak => return (RaceKind::MissingRelease, false),
            Gap::Acquire => return (RaceKind::MissingAcquire, false),
            Gap::AcquireAfterAtomic => return (RaceKind::MissingAcquire, true),
            Gap::Scope => return (RaceKind::ScopeTooNarrow, false),
            Gap::Release | Gap::None => {}
        }
        let kind = if here && c.first.warp() == c.second.warp() {
            RaceKind::IntraWarp
        } else if shared && !here {
            RaceKind::Cluster
        } else if shared {
            RaceKind::Shared
        } else {
            RaceKind::Global
        };
        (kind, false)
    }
}
