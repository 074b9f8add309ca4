//! Bulk copies: one thread starts a copy of many bytes, and a separate engine performs it.
//!
//! A copy into shared memory reports its bytes to an mbarrier object. Without checks it is performed when it is issued.
//! Under checks it is pending until a thread tests or waits on the mbarrier object. Only as many bytes then become
//! visible ("land") as the object expects.
//!
//! A copy out of shared memory completes by bulk groups of its thread. It reads and writes its bytes immediately. The
//! race checker reports accesses to these bytes before the wait.

use std::sync::Arc;

use super::Policy;
use super::atomics::{combine, update};
use super::state::{
    AccessKind, Addresses, BulkCopy, CopySource, Location, Mbarrier, Next, Origin, Request, RunningWarp,
    Source, relative,
};
use crate::check::race::{self, Agent, ChunkReads};
use crate::check::{Kind, Site};
use crate::count::{CopyKind, Event};
use crate::isa::op::{AtomOp, Inst, Op};
use crate::isa::types::{Space, Ty};
use crate::lanes::lanes;
use crate::mem::shadow;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Executes `cp.async.bulk` into shared memory: any multiple of 16 bytes per lane. Usually one lane is active.
    pub fn copy_bulk(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::CopyBulk { dst_offset, src_offset, barrier_offset, from_shared } = inst.op else {
            return Next::Continue;
        };
        let sources = inst.sources();
        let to = self.addresses(sources[0], dst_offset, mask, 16);
        let from = self.addresses(sources[1], src_offset, mask, 16);
        let object = self.addresses(sources[3], barrier_offset, mask, 8);
        let Some((mask, sizes)) = self.bulk_sizes(sources[2], [&to, &from], mask) else { return Next::Halt };
        let mask = self.one_per_copy(mask, |l| (to.at[l], sizes[l]));
        if from_shared {
            return self.each_copy(mask, |cx, l| cx.pass_bulk(&to, &from, &object, sizes[l], l));
        }
        self.each_copy(mask, |cx, l| {
            let bytes = sizes[l];
            let shared = cx.bulk_end(AccessKind::Store, Space::Shared, &to, bytes, l);
            let global = cx.bulk_end(AccessKind::Load, Space::Global, &from, bytes, l);
            let barrier = cx.bulk_barrier(&object, l)?;
            let (shared, global) = (shared?, global?);
            cx.count_async_bytes(bytes);
            cx.count_bulk(from.at[l], bytes);
            cx.trace_load(bytes, barrier);
            if P::CHECK {
                let mut offsets = [0; 32];
                offsets[l] = to.at[l] as u32;
                let (site, read) = (cx.site(1 << l), &[bytes; 32]);
                let copy = race::Copy { to: &offsets, bytes, from: &from.at, read };
                cx.block.races.copy_issue(&cx.grid.races, Agent::Load, site, &copy);
                let source = CopySource::Range(from.at[l]);
                cx.add_pending(site, to.at[l] as u32, bytes, source, object.at[l] as u32);
            } else {
                // SAFETY: source and destination were checked for their whole length.
                unsafe { std::ptr::copy_nonoverlapping(global.host(), shared.host(), bytes as usize) };
                cx.mbarrier_update(barrier, l, |b| b.tx -= i64::from(bytes));
            }
            Some(())
        })
    }

    /// Copies bytes of the block's shared memory to that of any block of the cluster, for one lane.
    fn pass_bulk(
        &mut self,
        to: &Addresses,
        from: &Addresses,
        object: &Addresses,
        bytes: u32,
        l: usize,
    ) -> Option<()> {
        let source = self.bulk_end(AccessKind::Load, Space::Shared, from, bytes, l)?;
        if self.owner(&source.span).is_some() {
            self.fault(Kind::OutOfBounds, l, || {
                "the bulk copy reads the shared memory of another block; its source must be in the block's own".to_string()
            });
            return None;
        }
        let target = self.bulk_end(AccessKind::Store, Space::Shared, to, bytes, l)?;
        let barrier = self.bulk_barrier(object, l)?;
        if target.span.low != barrier.span.low {
            self.fault(Kind::OutOfBounds, l, || {
                "the bulk copy writes the shared memory of one block and reports to an mbarrier of another block"
                    .to_string()
            });
            return None;
        }
        self.count_async_bytes(bytes);
        if self.owner(&barrier.span).is_none() {
            self.trace_load(bytes, barrier);
        }
        if !P::CHECK {
            // SAFETY: source and destination were checked for their whole length.
            unsafe { std::ptr::copy(source.host(), target.host(), bytes as usize) };
            self.mbarrier_update(barrier, l, |b| b.tx -= i64::from(bytes));
            return Some(());
        }
        // The bytes are read now and land later. The race checker reports writes to the source before the copy has landed.
        let site = self.site(1 << l);
        let chunks = ChunkReads::new((0..bytes / 16).map(|c| from.at[l] as u32 + 16 * c).collect());
        self.block.races.agent_reads_shared(Agent::Load, site, &Arc::new(chunks));
        let taken = (0..u64::from(bytes))
            // SAFETY: as above. A shadow is as large as its memory.
            .map(|b| unsafe { (*source.plus(b).host(), *source.plus(b).state()) })
            .collect();
        let copied = CopySource::Bytes(taken);
        let (offset, object) =
            ((target.address - target.span.low) as u32, barrier.address - barrier.span.low);
        let Some(peer) = self.owner(&target.span) else {
            let mut offsets = [0; 32];
            offsets[l] = offset;
            self.block.races.agent_writes_shared(Agent::Load, site, &offsets, bytes);
            self.add_pending(site, offset, bytes, copied, object as u32);
            return Some(());
        };
        self.check_peer_runs(&target.span, 1 << l);
        self.note_visit(&target.span, 1 << l);
        let races = &mut self.block.races;
        races.agent_writes_remote(Agent::Load, site, target.address, bytes);
        let mark = Some(races.agent_mark(Agent::Load, site.warp));
        let copy =
            BulkCopy { site, to: offset, bytes, source: copied, landed: 0, barrier: object as u32, mark };
        // SAFETY: `peer` is another block of the cluster. The same worker runs it.
        unsafe { (*peer).bulk.push(copy) };
        Some(())
    }

    /// Issues the copies of lanes one by one. `issue` returns `None` if the copy of a lane is not possible, which ends
    /// the launch without checks.
    pub fn each_copy(&mut self, mask: u32, mut issue: impl FnMut(&mut Self, usize) -> Option<()>) -> Next {
        for l in lanes(mask) {
            if issue(self, l).is_none() && !P::CHECK {
                return Next::Halt;
            }
        }
        self.block.progress += 1;
        Next::Continue
    }

    pub fn count_async_bytes(&mut self, bytes: u32) {
        if P::COUNT {
            self.worker.counts.async_bytes += u64::from(bytes);
        }
    }

    /// Counts a range of global memory that a bulk copy reads or writes. It bypasses L1.
    pub fn count_bulk(&mut self, address: u64, bytes: u32) {
        if P::COUNT && bytes > 0 {
            let last = address.saturating_add(u64::from(bytes) - 1);
            let counts = &mut self.worker.counts;
            counts.l2_sectors += last / 32 - address / 32 + 1;
            counts.bulk_bytes += u64::from(bytes);
            counts.lines.extend(address / 128..=last / 128);
        }
    }

    /// Executes `cp.async.bulk` out of shared memory.
    pub fn store_bulk(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::StoreBulk { dst_offset, src_offset, reduce } = inst.op else { return Next::Continue };
        let sources = inst.sources();
        let to = self.addresses(sources[0], dst_offset, mask, 16);
        let from = self.addresses(sources[1], src_offset, mask, 16);
        let Some((mask, sizes)) = self.bulk_sizes(sources[2], [&to, &from], mask) else { return Next::Halt };
        let mask = self.one_per_copy(mask, |l| (to.at[l], sizes[l]));
        self.each_copy(mask, |cx, l| {
            let bytes = sizes[l];
            let global = cx.bulk_end(AccessKind::Store, Space::Global, &to, bytes, l);
            let shared = cx.bulk_end(AccessKind::Load, Space::Shared, &from, bytes, l)?;
            let global = global?;
            cx.count_async_bytes(bytes);
            cx.count_bulk(to.at[l], bytes);
            cx.trace(Event::Copy { kind: CopyKind::BulkStore, bytes });
            if P::CHECK {
                cx.store_issue(from.at[l] as u32, bytes, l);
                let (site, op) = (cx.site(1 << l), store_op(reduce));
                let range = to.at[l]..to.at[l] + u64::from(bytes);
                cx.block.races.agent_global(
                    &cx.grid.races,
                    Agent::StoreWrite,
                    site,
                    op,
                    range,
                    &race::Differs,
                );
            }
            cx.store_out(shared, global, bytes, reduce, l);
            cx.note_store(l);
            Some(())
        })
    }

    /// Records a pending copy.
    pub fn add_pending(&mut self, site: Site, to: u32, bytes: u32, source: CopySource, barrier: u32) {
        self.block.races.copy_reports_to(site, barrier);
        let mark = Some(self.block.races.agent_mark(Agent::Load, site.warp));
        self.block.bulk.push(BulkCopy { site, to, bytes, source, landed: 0, barrier, mark });
    }

    /// Tells the race checker that a bulk store of a lane reads shared memory.
    pub fn store_issue(&mut self, from: u32, bytes: u32, lane: usize) {
        let chunks = ChunkReads::new((0..bytes / 16).map(|c| from + 16 * c).collect());
        let site = self.site(1 << lane);
        self.block.races.agent_reads_shared(Agent::StoreRead, site, &Arc::new(chunks));
    }

    /// Records that a lane has issued a bulk store.
    pub fn note_store(&mut self, lane: usize) {
        let at = self.at();
        self.w.bulk.store(lane, at);
    }

    /// Copies bytes from shared to global memory, together with their shadow states.
    pub fn store_out(
        &mut self,
        from: Location,
        to: Location,
        bytes: u32,
        reduce: Option<(AtomOp, Ty)>,
        lane: usize,
    ) {
        if P::CHECK && reduce.is_some() {
            // SAFETY: the destination was checked for its whole length. A shadow is as large as its memory.
            let is_defined = |b: u64| unsafe { *to.plus(b).state() } & shadow::DEFINED != 0;
            if let Some(first) = (0..u64::from(bytes)).find(|b| !is_defined(*b)) {
                let at = to.address + first;
                self.finding(Kind::Uninitialised, 1 << lane, || {
                    format!("the bulk reduction reads global memory at {at:#x} that was never written")
                });
            }
        }
        if let Some((op, ty)) = reduce {
            let size = ty.bytes() as usize;
            for at in (0..u64::from(bytes)).step_by(size) {
                let mut value = [0; 8];
                // SAFETY: source and destination were checked for their whole length, and they are aligned to their
                // elements.
                unsafe {
                    std::ptr::copy_nonoverlapping(from.plus(at).host(), value.as_mut_ptr(), size);
                    let value = u64::from_le_bytes(value);
                    update(to.plus(at).host(), size as u8, |old| combine(op, ty, old, value, 0));
                }
            }
        } else {
            // SAFETY: source and destination were checked for their whole length.
            unsafe { std::ptr::copy_nonoverlapping(from.host(), to.host(), bytes as usize) };
        }
        if !P::CHECK {
            return;
        }
        for b in 0..u64::from(bytes) {
            // SAFETY: as above. A shadow is as large as its memory.
            let defined = unsafe { *from.plus(b).state() } & shadow::DEFINED != 0;
            let state = if defined { shadow::WRITTEN } else { shadow::TAINTED };
            // SAFETY: as above.
            unsafe { *to.plus(b).state() = state };
            if !defined {
                let origin = self.block.taints.get(&((from.address + b) as u32)).copied();
                let origin = origin.unwrap_or(Origin::new(Source::Shared, self.at()));
                self.taint(Source::Global, to.address + b, origin, lane);
            }
        }
    }

    /// Returns the sizes of the lanes' copies, and the lanes whose size and addresses are multiples of 16. `None` means
    /// that the launch has ended.
    fn bulk_sizes(
        &mut self,
        slot: crate::isa::op::Slot,
        ends: [&Addresses; 2],
        mask: u32,
    ) -> Option<(u32, [u32; 32])> {
        self.check_use(slot, mask, "is the size of a copy");
        let sizes = *self.r32(slot);
        let mut good = mask;
        for l in lanes(mask) {
            let bytes = sizes[l];
            if bytes == 0 || !bytes.is_multiple_of(16) || ends.iter().any(|e| !e.at[l].is_multiple_of(16)) {
                self.fault(Kind::Misaligned, l, || {
                    format!(
                        "the bulk copy has {bytes} bytes; its size and both addresses must be multiples of 16"
                    )
                });
                good &= !(1 << l);
                if !P::CHECK {
                    return None;
                }
            }
        }
        Some((good, sizes))
    }

    /// Reports lanes that issue the same copy, because only one lane should issue it. Returns the lanes that continue.
    pub fn one_per_copy<K: PartialEq>(&mut self, mask: u32, copy: impl Fn(usize) -> K) -> u32 {
        if !P::CHECK || mask.is_power_of_two() {
            return mask;
        }
        let mut kept = 0u32;
        for l in lanes(mask) {
            if !lanes(kept).any(|k| copy(k) == copy(l)) {
                kept |= 1 << l;
            }
        }
        if kept != mask {
            let again = (mask & !kept).count_ones();
            self.finding(Kind::Race, mask, || {
                format!(
                    "{} lanes issue the same bulk copy, so its bytes are copied and counted {again} extra times; one \
                     lane must issue it",
                    mask.count_ones()
                )
            });
        }
        kept
    }

    /// Resolves the source or destination of a lane's copy. Returns `None` unless the memory contains its whole length.
    pub fn bulk_end(
        &mut self,
        kind: AccessKind,
        space: Space,
        ad: &Addresses,
        bytes: u32,
        lane: usize,
    ) -> Option<Location> {
        let mut only = 1 << lane;
        let addresses = &relative(ad, only, 0);
        let (_, span) = self.span(&Request { kind, space, addresses, size: 1 }, &mut only)?;
        let address = ad.at[lane];
        let end = if space == Space::Shared {
            span.low + u64::from(self.block.shared_end)
        } else {
            let region = self.grid.region_of(address);
            region.address + region.bytes
        };
        let beyond = (address + u64::from(bytes)).saturating_sub(end);
        if beyond > 0 {
            let what = if space == Space::Shared { "shared memory" } else { "its buffer" };
            self.fault(Kind::OutOfBounds, lane, || {
                format!("the bulk copy of {bytes} bytes ends {beyond} bytes past the end of {what}")
            });
            return None;
        }
        Some(Location { span, address })
    }

    /// Resolves the mbarrier object of a lane's copy.
    pub fn bulk_barrier(&mut self, object: &Addresses, lane: usize) -> Option<Location> {
        let mut only = 1 << lane;
        let addresses = &relative(object, only, 0);
        let request = Request { kind: AccessKind::Atomic, space: Space::Shared, addresses, size: 8 };
        let (_, span) = self.span(&request, &mut only)?;
        Some(Location { span, address: object.at[lane] })
    }

    /// Reports a finding. Without checks the launch cannot continue after it.
    pub fn fault(&mut self, kind: Kind, lane: usize, message: impl FnOnce() -> String) {
        self.finding(kind, 1 << lane, message);
        if !P::CHECK {
            self.grid.stop();
        }
    }

    /// Lands the bulk copies that report to an mbarrier object, because a thread waits on it. Only as many bytes land
    /// as the object still expects. A phase that expects too few bytes therefore completes before all its data has
    /// arrived.
    pub fn bulk_for_barrier(&mut self, barrier: u32) {
        let location = Location { span: self.whole_shared(), address: u64::from(barrier) };
        let mut copies = std::mem::take(&mut self.block.bulk);
        for copy in copies.iter_mut().filter(|c| c.barrier == barrier) {
            // SAFETY: the mbarrier object was checked when the copy was issued.
            let expected = unsafe { Mbarrier::read(location) }.tx;
            if expected <= 0 {
                break;
            }
            let n = expected.min(i64::from(copy.bytes - copy.landed)) as u32;
            self.land_bulk(copy, n);
            let lane = copy.site.first_lane();
            if copy.landed == copy.bytes
                && let Some(mark) = copy.mark
            {
                let (own, races) = (self.block.index, &mut self.block.races);
                let Site { block, warp, .. } = copy.site;
                if block == own {
                    races.mbarrier_arrive_copies(Agent::Load, warp, lane, barrier, mark);
                } else {
                    races.mbarrier_arrive_copies_from(block as u32, (Agent::Load, warp, lane), barrier, mark);
                }
            }
            self.mbarrier_update(location, lane, |b| b.tx -= i64::from(n));
        }
        copies.retain(|c| c.landed < c.bytes);
        self.block.bulk = copies;
    }

    fn land_bulk(&mut self, copy: &mut BulkCopy, n: u32) {
        let (from, to) = (copy.landed, copy.landed + n);
        copy.landed = to;
        match &copy.source {
            CopySource::Box(tensor, load) => self.land_box(tensor, copy.to, from..to, *load),
            CopySource::Bytes(taken) => {
                let span = self.whole_shared();
                for b in from..to {
                    let (byte, state) = taken[b as usize];
                    let at = u64::from(copy.to + b);
                    // SAFETY: the destination was checked for its whole length when the copy was issued.
                    unsafe {
                        *span.host(at) = byte;
                        *span.state(at) =
                            if state & shadow::DEFINED != 0 { shadow::WRITTEN } else { shadow::TAINTED };
                    }
                }
            }
            CopySource::Range(source) => {
                let region = self.grid.region_of(*source);
                let span = self.whole_shared();
                for b in from..to {
                    let at = (*source - region.address) as usize + b as usize;
                    let to = u64::from(copy.to + b);
                    // SAFETY: source and destination were checked for their whole length when the copy was issued.
                    unsafe {
                        *span.host(to) = *region.data.add(at);
                        *span.state(to) =
                            if *region.shadow.add(at) & 1 == 1 { shadow::WRITTEN } else { shadow::TAINTED };
                    }
                }
            }
        }
    }

    pub fn bulk_commit(&mut self, mask: u32) -> Next {
        self.w.bulk.commit(mask);
        self.trace(Event::CommitCopies { kind: CopyKind::BulkStore });
        if P::CHECK {
            for agent in [Agent::StoreRead, Agent::StoreWrite] {
                self.block.races.agent_commit(agent, self.w.id, mask);
            }
        }
        Next::Continue
    }

    pub fn bulk_wait(&mut self, keep: u32, read: bool, mask: u32) -> Next {
        self.w.bulk.wait(keep, mask);
        self.trace(Event::AwaitCopies { kind: CopyKind::BulkStore, keep });
        if P::CHECK {
            self.block.races.agent_wait(Agent::StoreRead, self.w.id, mask, keep);
            if !read {
                self.block.races.agent_wait(Agent::StoreWrite, self.w.id, mask, keep);
            }
        }
        Next::Continue
    }

    /// Reports lanes that exit before their bulk stores have read shared memory. The shared memory is freed when the
    /// block ends.
    pub fn bulk_at_exit(&mut self, mask: u32) {
        if !P::CHECK {
            return;
        }
        let unread = self.w.bulk.unread(mask);
        if unread != 0 {
            let exit = self.site(unread);
            let store = Site { pc: self.w.bulk.last[exit.first_lane()], ..exit };
            let related = vec![("the thread exits here".to_string(), exit.pc)];
            self.worker.report_with(Kind::AsyncNotWaited, store, related, || {
                "the thread exits before its bulk store has read shared memory; it must wait for the store \
                 (cp.async.bulk.commit_group, then cp.async.bulk.wait_group.read)"
                    .to_string()
            });
        }
    }
}

/// What a bulk store does to global memory.
pub fn store_op(reduce: Option<(AtomOp, Ty)>) -> race::Op {
    if reduce.is_some() { race::Op::Atomic } else { race::Op::Write }
}
