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
//! - Strong accesses of different sizes at one address count as strong to each other. `.cluster` counts as `.gpu`.
//! - An exited thread counts as having reached every later barrier of the whole block, and every later barrier that the
//!   rest of its warp reaches together.
//! - A fence counts as acquire and release, whatever it says.
//! - A proxy fence counts wherever it stands between a thread's write and the agent that reads the data, in either
//!   thread. It is required only for reads, and only in shared memory.
//! - Times have 26 bits. A block that synchronises more often is no longer checked.
//!
//! # Order of calls
//! The caller must report an access before the access takes effect. Then the publication of a flag is recorded before
//! any thread can read the flag, and [`SameValue`] can still compare values. After a strong global read or atomic has
//! taken effect, the caller must call [`BlockRaces::global_observed`], which takes over what was published up to the
//! value read. In shared memory one call does both, because one worker runs the whole block. The caller must not report
//! accesses that were found out of bounds.

// An access has many properties: thread, address, kind, size.
#![allow(clippy::too_many_arguments)]

mod agent_reads;
mod clock;
mod conflict;
mod event;
mod flags;
mod global;
mod readers;
mod shared;
mod stamp;
mod threads;
mod tile;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use agent_reads::{AgentReads, Chunks};
pub use clock::Blocks as Published;
use clock::lanes;
use conflict::Conflict;
pub use conflict::{AccessPattern, Shape};
pub use event::{Access, Agent, Differs, Op, Order, RaceKind, RaceReport, SameValue, Scope, Side, Strength};
use flags::{Flags, words};
use global::Found;
pub use global::GlobalRaces;
use shared::SharedShadow;
use stamp::Stamp;
use threads::{Gap, Handed, Threads};
pub use tile::Tile;

/// An mbarrier: what arrived in the current phase, and what arrived in all completed phases.
#[derive(Debug, Default)]
struct Mbarrier {
    arrived: Handed,
    completed: Handed,
}

/// Two reports are folded into one if these values are equal: kind, shared, lower pc, higher pc, note.
type Key = (RaceKind, bool, u32, u32, bool);

/// The race checker of one running block. A worker keeps it and restarts it for each block.
#[derive(Debug, Default)]
pub struct BlockRaces {
    threads: Threads,
    shared: SharedShadow,
    shared_flags: Flags,
    agent_reads: AgentReads,
    mbarriers: HashMap<u32, Mbarrier>,
    reports: HashMap<Key, RaceReport>,
    /// Index of the allocation that the last global access touched.
    hint: usize,
    found: Found,
    /// Pairs of instructions that are known to store different values.
    differing: Vec<(u32, u32)>,
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
        self.reports.clear();
        self.differing.clear();
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

    /// Checks an access to shared memory. `address` holds offsets, and `bytes` is the size per lane.
    pub fn shared(
        &mut self,
        warp: u32,
        mask: u32,
        access: Access,
        address: &[u32; 32],
        bytes: u32,
        values: &dyn SameValue,
    ) {
        self.shared_at(warp, mask, access, address, &AccessPattern::new(mask, address, bytes), bytes, values);
    }

    /// Does the same as `shared` when the layout of the addresses is already known.
    #[inline]
    pub fn shared_at(
        &mut self,
        warp: u32,
        mask: u32,
        access: Access,
        address: &[u32; 32],
        lay: &AccessPattern,
        bytes: u32,
        values: &dyn SameValue,
    ) {
        let stamp = Stamp::new(access, warp, self.threads.time(warp as usize), None);
        if access.op == Op::Read {
            shared::read(
                &mut self.shared,
                &self.threads,
                mask,
                stamp,
                address,
                lay,
                bytes,
                &mut self.found.conflicts,
            );
        } else {
            shared::write(
                &mut self.shared,
                &self.threads,
                mask,
                stamp,
                address,
                lay,
                bytes,
                values,
                &mut self.found.conflicts,
            );
            if !self.agent_reads.is_empty() {
                for l in lanes(mask) {
                    let own = stamp.with_lane(l);
                    let out = &mut self.found.conflicts;
                    self.agent_reads.check_write(&self.threads, own, address[l], bytes, out);
                }
            }
        }
        if access.strength() != Strength::Weak {
            for flag in self.shared.seen.drain(..) {
                self.threads.note_observed(warp as usize, self.threads.block, flag);
            }
            self.shared_strong(warp as usize, mask, access, address, bytes);
        }
        if !self.found.conflicts.is_empty() {
            self.report(true);
        }
    }

    /// Checks a weak access of a whole warp to a tile of shared memory, if it is certain that nothing races. Otherwise
    /// it returns false without any effect, and the caller must report the access lane by lane.
    pub fn shared_tile(&mut self, warp: u32, access: Access, tile: &Tile<'_>) -> bool {
        let stamp = Stamp::new(access, warp, self.threads.time(warp as usize), None);
        access.strength() == Strength::Weak
            && (access.op == Op::Read || self.agent_reads.is_empty())
            && shared::tile(&mut self.shared, &self.threads, stamp, tile)
    }

    /// Publishes and takes over the flags of a strong access to shared memory.
    fn shared_strong(&mut self, warp: usize, mask: u32, access: Access, address: &[u32; 32], bytes: u32) {
        if self.shared_flags.is_empty() && !self.threads.can_publish(access) {
            return;
        }
        for l in lanes(mask) {
            if access.op != Op::Write && !self.shared_flags.is_empty() {
                for word in words(u64::from(address[l]), bytes) {
                    if let Some(flag) = self.shared_flags.get(word)
                        && let Some(published) = flag.for_block(self.threads.block)
                    {
                        self.threads.observe(warp, l, access, published, published);
                    }
                }
            }
            if access.op != Op::Read {
                // No thread outside the block can read shared memory, so block scope is enough.
                let (block, _) = self.threads.publish(warp, l, access.releases(), Strength::Block);
                if !block.is_empty() || !self.shared_flags.is_empty() {
                    for word in words(u64::from(address[l]), bytes) {
                        let chain = access.op == Op::Atomic;
                        self.shared_flags.write(
                            word,
                            self.threads.block,
                            chain,
                            &block,
                            &clock::Blocks::default(),
                        );
                    }
                }
            }
        }
    }

    /// Checks an access to global memory, before the access takes effect.
    #[inline]
    pub fn global(
        &mut self,
        memory: &GlobalRaces,
        warp: u32,
        mask: u32,
        access: Access,
        address: &[u64; 32],
        bytes: u32,
        values: &dyn SameValue,
    ) {
        let w = warp as usize;
        let stamp = Stamp::new(access, warp, self.threads.time(w), None);
        let strong = access.strength() != Strength::Weak;
        let mut left = mask;
        if !strong {
            left = memory.access_runs(&self.threads, &mut self.hint, mask, stamp, address, bytes);
        }
        if left != 0 {
            self.global_slow(memory, stamp, left, address, &|_| bytes, values);
        }
        let publishes = self.threads.can_publish(access) || access.op == Op::Write && memory.has_flags();
        if strong && access.op != Op::Read && publishes {
            for l in lanes(mask) {
                let (block, device) = self.threads.publish(w, l, access.releases(), access.strength());
                let empty = block.is_empty() && device.is_empty();
                let chain = access.op == Op::Atomic;
                if empty && chain {
                    continue;
                }
                for word in words(address[l], bytes) {
                    if let Some(mut flags) = memory.flags(word, !empty) {
                        flags.write(word, self.threads.block, chain, &block, &device);
                    }
                }
            }
        }
    }

    #[inline(never)]
    fn global_slow(
        &mut self,
        memory: &GlobalRaces,
        stamp: Stamp,
        mask: u32,
        address: &[u64; 32],
        bytes: &dyn Fn(usize) -> u32,
        values: &dyn SameValue,
    ) {
        memory.access(&self.threads, &mut self.hint, mask, stamp, address, bytes, values, &mut self.found);
        let block = self.threads.block;
        for c in &mut self.found.conflicts {
            let stores = c.first.op() == Op::Write && c.second.op() == Op::Write && !c.first.is_agent();
            if c.first_block == block || !stores || c.same_value {
                continue;
            }
            // The worker of the other block has reported its store but may not have executed it yet.
            let pair = (c.first.pc(), c.second.pc());
            if !self.differing.contains(&pair) {
                c.same_value = settles(|| values.as_memory(c.second.lane()));
                if !c.same_value {
                    self.differing.push(pair);
                }
            }
        }
        for (block, flag) in self.found.observed.drain(..) {
            self.threads.note_observed(stamp.warp(), block, flag);
        }
        if !self.found.conflicts.is_empty() {
            self.report(false);
        }
    }

    /// Takes over what was published, after a strong global read or an atomic with a result has taken effect. Does
    /// nothing for a weak access.
    pub fn global_observed(
        &mut self,
        memory: &GlobalRaces,
        warp: u32,
        mask: u32,
        access: Access,
        address: &[u64; 32],
        bytes: u32,
    ) {
        let strength = access.strength();
        if strength == Strength::Weak || access.op == Op::Write {
            return;
        }
        let own = self.threads.block;
        for l in lanes(mask) {
            for word in words(address[l], bytes) {
                let Some(flags) = memory.flags(word, false) else { return };
                let Some(flag) = flags.get(word).cloned() else { continue };
                drop(flags);
                let here = flag.for_block(own).cloned().unwrap_or_default();
                let mut device = here.clone();
                if strength == Strength::Device {
                    device.join(&flag.device);
                }
                if let Some(narrow) = flag.for_others(own) {
                    self.threads.note_narrow(warp as usize, narrow);
                }
                self.threads.observe(warp as usize, l, access, &here, &device);
            }
        }
    }

    // Synchronisation -----------------------------------------------------------------------------------------------

    /// `fence` and `membar`. A fence that only releases or only acquires counts as both.
    pub fn fence(&mut self, warp: u32, mask: u32, scope: Scope) {
        self.threads.fence(warp as usize, mask, Strength::at(scope));
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

    /// An asynchronous copy into shared memory is issued. It writes `bytes` bytes per lane, of which `read[lane]` come
    /// from global memory (fewer with zero fill).
    pub fn copy_issue(
        &mut self,
        memory: &GlobalRaces,
        agent: Agent,
        warp: u32,
        mask: u32,
        pc: u32,
        to: &[u32; 32],
        bytes: u32,
        from: &[u64; 32],
        read: &[u32; 32],
    ) {
        self.agent_writes_shared(agent, warp, mask, pc, to, bytes);
        let time = self.threads.agent_time(warp as usize, agent);
        let stamp = Stamp::new(Access::weak(pc, Op::Read), warp, time, Some(agent));
        let mut left = mask;
        if lanes(mask).all(|l| read[l] == bytes) {
            left = memory.access_runs(&self.threads, &mut self.hint, mask, stamp, from, bytes);
        }
        if left != 0 {
            self.global_slow(memory, stamp, left, from, &|l| read[l], &Differs);
        }
    }

    /// An agent is issued a write to shared memory.
    pub fn agent_writes_shared(
        &mut self,
        agent: Agent,
        warp: u32,
        mask: u32,
        pc: u32,
        to: &[u32; 32],
        bytes: u32,
    ) {
        self.threads.issue(warp as usize, agent);
        let time = self.threads.agent_time(warp as usize, agent);
        let stamp = Stamp::new(Access::weak(pc, Op::Write), warp, time, Some(agent));
        let lay = AccessPattern::new(mask, to, bytes);
        let out = &mut self.found.conflicts;
        shared::write(&mut self.shared, &self.threads, mask, stamp, to, &lay, bytes, &Differs, out);
        if !self.agent_reads.is_empty() {
            for l in lanes(mask) {
                self.agent_reads.check_write(&self.threads, stamp.with_lane(l), to[l], bytes, out);
            }
        }
        if !self.found.conflicts.is_empty() {
            self.report(true);
        }
    }

    /// An agent of the async proxy is issued a read of 16-byte chunks of shared memory, on behalf of a lane (tensor
    /// cores: on behalf of the warp).
    pub fn agent_reads_shared(&mut self, agent: Agent, warp: u32, lane: usize, pc: u32, addresses: &[u32]) {
        self.threads.issue(warp as usize, agent);
        let time = self.threads.agent_time(warp as usize, agent);
        let stamp = Stamp::new(Access::weak(pc, Op::Read), warp, time, Some(agent)).with_lane(lane);
        // Tensor cores work for all lanes of the warp together.
        let mask = if agent == Agent::Tensor { self.threads.live(warp as usize) } else { 1 << lane };
        self.shared.agent_read(&self.threads, stamp, mask, addresses, &mut self.found.conflicts);
        self.agent_reads.insert(stamp, Chunks::new(addresses));
        if !self.found.conflicts.is_empty() {
            self.report(true);
        }
    }

    /// An agent is issued a read or write of a range of global memory on behalf of a lane.
    pub fn agent_global(
        &mut self,
        memory: &GlobalRaces,
        agent: Agent,
        op: Op,
        warp: u32,
        lane: usize,
        pc: u32,
        at: u64,
        bytes: u32,
    ) {
        self.threads.issue(warp as usize, agent);
        let time = self.threads.agent_time(warp as usize, agent);
        // Reductions of several agents at one address do not race.
        let order = if op == Op::Atomic { Order::Relaxed } else { Order::Weak };
        let access = Access { pc, op, order, scope: Scope::Gpu };
        let stamp = Stamp::new(access, warp, time, Some(agent));
        let mut address = [0; 32];
        address[lane] = at;
        let left = memory.access_runs(&self.threads, &mut self.hint, 1 << lane, stamp, &address, bytes);
        if left != 0 {
            self.global_slow(memory, stamp, left, &address, &|_| bytes, &Differs);
        }
    }

    /// Lanes commit a group of the operations issued to their agents.
    pub fn agent_commit(&mut self, agent: Agent, warp: u32, mask: u32) {
        self.threads.commit(warp as usize, agent, mask);
    }

    /// Lanes wait until at most `keep` of their groups are under way.
    pub fn agent_wait(&mut self, agent: Agent, warp: u32, mask: u32, keep: u32) {
        self.threads.wait(warp as usize, agent, mask, keep);
    }

    /// `cp.async.wait_all`
    pub fn copy_wait_all(&mut self, warp: u32, mask: u32) {
        self.threads.wait_all(warp as usize, Agent::Copy, mask);
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

    /// Lanes learn what threads of any block have published.
    pub fn learn(&mut self, warp: u32, mask: u32, published: &Published) {
        self.threads.learn_published(warp as usize, mask, published);
    }

    /// Threads of another block arrive at an mbarrier of this block.
    pub fn mbarrier_arrive_from(&mut self, address: u32, published: &Published) {
        let block = self.threads.block;
        self.mbarriers.entry(address).or_default().arrived.known.receive(block, published);
        self.threads.expect_others();
    }

    /// `fence.proxy.async`
    pub fn proxy_fence(&mut self, warp: u32, mask: u32) {
        self.threads.proxy_fence(warp as usize, mask);
    }

    // mbarrier ------------------------------------------------------------------------------------------------------

    /// `mbarrier.inval`. It conflicts with plain accesses only, because lanes of other warps that have just passed the
    /// barrier for the last time need not be ordered before it (libcu++ does not order them).
    pub fn mbarrier_invalidate(&mut self, warp: u32, mask: u32, pc: u32, address: &[u32; 32]) {
        for l in lanes(mask) {
            self.mbarriers.remove(&address[l]);
        }
        self.mbarrier_touch(warp, mask, pc, address, Op::Write);
    }

    /// `mbarrier.init`: a plain write of eight bytes.
    pub fn mbarrier_init(&mut self, warp: u32, mask: u32, pc: u32, address: &[u32; 32]) {
        for l in lanes(mask) {
            self.mbarriers.remove(&address[l]);
        }
        self.shared(warp, mask, Access::weak(pc, Op::Write), address, 8, &Differs);
    }

    /// Threads arrive. The caller must report the arrivals before they can complete the phase. `release` is false for
    /// `.relaxed` arrivals and for `expect_tx` alone.
    pub fn mbarrier_arrive(&mut self, warp: u32, mask: u32, pc: u32, address: &[u32; 32], release: bool) {
        self.mbarrier_touch(warp, mask, pc, address, Op::Atomic);
        if !release {
            return;
        }
        // Lanes at the same barrier hand over together.
        let mut left = mask;
        while left != 0 {
            let at = address[left.trailing_zeros() as usize];
            let group = lanes(left).filter(|&l| address[l] == at).fold(0, |m, l| m | 1 << l);
            left &= !group;
            self.threads.hand_over(warp as usize, group, &mut self.mbarriers.entry(at).or_default().arrived);
        }
    }

    /// The arrival that the copies of a lane make when they are complete. `mark` is the value from
    /// [`BlockRaces::agent_mark`].
    pub fn mbarrier_arrive_copies(&mut self, agent: Agent, warp: u32, lane: u32, address: u32, mark: u32) {
        let arrived = &mut self.mbarriers.entry(address).or_default().arrived;
        let entity = stamp::entity_of(warp as usize, agent as usize);
        arrived.known.own.learn_actor(entity, lane as usize, mark);
    }

    /// A phase is complete, so threads can acquire what arrived in it.
    pub fn mbarrier_complete(&mut self, address: u32) {
        if let Some(barrier) = self.mbarriers.get_mut(&address) {
            let arrived = std::mem::take(&mut barrier.arrived);
            barrier.completed.join(&arrived);
        }
    }

    /// `test_wait` or `try_wait` by the lanes of `mask`. The lanes of `success` found the phase complete. `acquire` is
    /// false for `.relaxed`.
    pub fn mbarrier_wait(
        &mut self,
        warp: u32,
        mask: u32,
        success: u32,
        pc: u32,
        address: &[u32; 32],
        acquire: bool,
    ) {
        self.mbarrier_touch(warp, mask, pc, address, Op::Read);
        let mut left = if acquire { success } else { 0 };
        while left != 0 {
            let at = address[left.trailing_zeros() as usize];
            let group = lanes(left).filter(|&l| address[l] == at).fold(0, |m, l| m | 1 << l);
            left &= !group;
            if let Some(barrier) = self.mbarriers.get(&at) {
                self.threads.receive(warp as usize, group, &barrier.completed);
            }
        }
    }

    /// An operation on the barrier object itself. It is strong, but this alone does not order it with the
    /// initialisation.
    fn mbarrier_touch(&mut self, warp: u32, mask: u32, pc: u32, address: &[u32; 32], op: Op) {
        let access = Access { pc, op, order: Order::Relaxed, scope: Scope::Cta };
        let stamp = Stamp::new(access, warp, self.threads.time(warp as usize), None);
        let lay = AccessPattern::new(mask, address, 8);
        if op == Op::Read {
            shared::read(
                &mut self.shared,
                &self.threads,
                mask,
                stamp,
                address,
                &lay,
                8,
                &mut self.found.conflicts,
            );
        } else {
            shared::write(
                &mut self.shared,
                &self.threads,
                mask,
                stamp,
                address,
                &lay,
                8,
                &Differs,
                &mut self.found.conflicts,
            );
        }
        self.shared.seen.clear();
        if !self.found.conflicts.is_empty() {
            self.report(true);
        }
    }

    // Reports -------------------------------------------------------------------------------------------------------

    #[cold]
    fn report(&mut self, shared: bool) {
        let found = std::mem::take(&mut self.found.conflicts);
        if !self.threads.exhausted {
            for conflict in &found {
                self.add(shared, conflict);
            }
        }
        self.found.conflicts = found;
        self.found.conflicts.clear();
    }

    fn add(&mut self, shared: bool, c: &Conflict) {
        let (kind, excused) = self.explain(shared, c);
        let note = excused || c.same_value;
        let (first, second) = (c.first.side(c.first_block), c.second.side(self.threads.block));
        let (low, high) = (first.pc.min(second.pc), first.pc.max(second.pc));
        self.reports
            .entry((kind, shared, low, high, note))
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
                same_value: c.same_value,
                note,
                lanes: 1 << second.lane,
                count: 1,
            });
    }

    /// Returns the kind of a race, and whether it is a race only by the letter of the memory model.
    fn explain(&self, shared: bool, c: &Conflict) -> (RaceKind, bool) {
        if c.missing_proxy_fence {
            return (RaceKind::MissingProxyFence, false);
        }
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
        } else if shared {
            RaceKind::Shared
        } else {
            RaceKind::Global
        };
        (kind, false)
    }
}

/// Repeats the test for up to 200 us, because another worker may be about to make it true.
#[cold]
fn settles(test: impl Fn() -> bool) -> bool {
    let start = std::time::Instant::now();
    loop {
        if test() {
            return true;
        }
        if start.elapsed() > std::time::Duration::from_micros(200) {
            return false;
        }
        std::thread::yield_now();
    }
}
