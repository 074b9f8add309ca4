//! Asynchronous copies (`cp.async`). The race checker treats them as separate agents.
//!
//! Without checks, a copy is performed when it is issued, which is one of the times that the hardware may choose. Under
//! checks it is pending until its thread waits for it, or until a thread waits on the mbarrier object that the copy
//! reports to. A kernel that does not wait therefore reads the old data in every run.

use super::Policy;
use super::state::{
    AccessKind, Location, Next, OwedArrival, PendingCopy, Request, RunningWarp, Span, relative,
};
use crate::check::race::{self, Agent};
use crate::count::{CopyKind, Event};
use crate::isa::op::{Inst, Op};
use crate::isa::types::Space;
use crate::lanes::{lanes, lanes_where};
use crate::mem::region::Region;
use crate::mem::shadow;

impl<P: Policy> RunningWarp<'_, '_, P> {
    pub fn copy_async(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::CopyAsync { bytes, has_size, ignore, negate, dst_offset, src_offset } = inst.op else {
            return Next::Continue;
        };
        let sources = inst.sources();
        let size = u32::from(bytes);
        let mut read = [bytes; 32];
        if has_size {
            let sizes = self.r32(sources[2]);
            for l in 0..32 {
                read[l] = sizes[l].min(size) as u8;
            }
        }
        if ignore {
            let p = self.pred(sources[2]) ^ if negate { u32::MAX } else { 0 };
            for (l, r) in read.iter_mut().enumerate() {
                if p >> l & 1 == 1 {
                    *r = 0;
                }
            }
        }
        let to = self.addresses(sources[0], dst_offset, mask, size);
        let from = self.addresses(sources[1], src_offset, mask, size);
        let source = Request { kind: AccessKind::Load, space: Space::Global, addresses: &from, size };
        let destination = Request { kind: AccessKind::Store, space: Space::Shared, addresses: &to, size };
        if P::COUNT {
            let copied = mask.count_ones() * u32::from(bytes);
            self.count_async_bytes(copied);
            self.trace(Event::Copy { kind: CopyKind::Async, bytes: copied });
            self.w.copy_groups.start(self.w.chain);
            self.count_access(&source, mask);
            self.count_access(&destination, mask);
        }
        // Source and destination are checked at issue, so that a finding names the line that issues the copy.
        let mut good = mask;
        let Some((_, shared)) = self.span(&destination, &mut good) else {
            return if P::CHECK { Next::Continue } else { Next::Halt };
        };
        let reading = lanes_where(good, |l| read[l] > 0);
        let spans = self.copy_sources(&source, reading, &read);
        let readable = spans.iter().fold(0, |m, (lanes, _)| m | lanes);
        if readable != reading && !P::CHECK {
            return Next::Halt;
        }
        good &= readable | !reading;
        if P::CHECK {
            let copy = PendingCopy {
                warp: self.w.id,
                lanes: good,
                bytes,
                to: to.at.map(|a| a as u32),
                from: from.at,
                read,
                group: self.w.committed,
                serial: self.block.copy_serial,
            };
            self.block.copy_serial += 1;
            let (site, read) = (self.site(good), &read.map(u32::from));
            let issued = race::Copy { to: &copy.to, bytes: size, from: &copy.from, read };
            self.block.races.copy_issue(&self.grid.races, Agent::Copy, site, &issued);
            self.block.copies.push(copy);
        } else {
            for l in lanes(good) {
                let n = read[l] as usize;
                let d = shared.host(to.at[l]);
                let s = spans.iter().find(|(g, _)| g >> l & 1 == 1).map(|(_, s)| s.host(from.at[l]));
                // SAFETY: the spans contain the source and the destination.
                unsafe {
                    if let Some(s) = s {
                        std::ptr::copy_nonoverlapping(s, d, n);
                    }
                    d.add(n).write_bytes(0, bytes as usize - n);
                }
            }
        }
        self.block.progress += 1;
        Next::Continue
    }

    /// Resolves the sources of a copy's lanes. The source must be aligned to the full size of the copy even if fewer
    /// bytes are read, and memory must contain the bytes that are read. Other lanes are reported.
    fn copy_sources(&mut self, source: &Request<'_>, reading: u32, read: &[u8; 32]) -> Vec<(u32, Span)> {
        let (from, size) = (source.addresses, source.size);
        let mut left = reading;
        let mut spans: Vec<(u32, Span)> = Vec::new();
        let misaligned = lanes_where(left, |l| !from.at[l].is_multiple_of(u64::from(size)));
        if misaligned != 0 {
            // `span` reports these lanes as misaligned because it checks the full size.
            self.span(source, &mut { misaligned });
            left &= !misaligned;
        }
        while left != 0 {
            // Lanes read different amounts only at the end of a buffer. The size is then checked lane by lane.
            let whole = lanes(left).all(|l| u32::from(read[l]) == size);
            let request = Request { size: if whole { size } else { 1 }, ..*source };
            let before = left;
            let Some((group, span)) = self.span(&request, &mut left) else {
                if left == before {
                    break;
                }
                continue;
            };
            left &= !group;
            let holds = |l: usize| self.grid.region_of(from.at[l]).holds(from.at[l], u64::from(read[l]));
            let inside = if whole { group } else { lanes_where(group, holds) };
            spans.push((inside, span));
            if inside != group {
                // These lanes start inside an allocation and read past its end.
                self.span(source, &mut (group & !inside));
            }
        }
        spans
    }

    pub fn copy_commit(&mut self, mask: u32) -> Next {
        for l in lanes(mask) {
            self.w.committed[l] += 1;
        }
        if P::COUNT {
            self.trace(Event::CommitCopies { kind: CopyKind::Async });
            self.w.copy_groups.commit();
        }
        if P::CHECK {
            self.block.races.agent_commit(Agent::Copy, self.w.id, mask);
        }
        Next::Continue
    }

    pub fn copy_wait(&mut self, keep: u32, all: bool, mask: u32) -> Next {
        if P::COUNT {
            self.trace(Event::AwaitCopies { kind: CopyKind::Async, keep });
            if all {
                self.w.copy_groups.commit();
            }
            let clocks = self.w.copy_groups.wait(keep);
            self.w.wait_until(clocks);
        }
        if P::CHECK {
            let committed = self.w.committed;
            let warp = self.w.id;
            let due = |copy: &PendingCopy| {
                if copy.warp != warp {
                    return 0;
                }
                lanes_where(copy.lanes & mask, |l| all || copy.group[l] + keep < committed[l])
            };
            self.land(due);
            if all {
                self.block.races.copy_wait_all(warp, mask);
            } else {
                self.block.races.agent_wait(Agent::Copy, warp, mask, keep);
            }
        }
        Next::Continue
    }

    /// Lands the pending copies of lanes that exit, because no thread can wait for them any more.
    pub fn copies_at_exit(&mut self, mask: u32) {
        if P::CHECK && !self.block.copies.is_empty() {
            let warp = self.w.id;
            self.land(|copy| if copy.warp == warp { copy.lanes & mask } else { 0 });
            self.settle_arrivals();
        }
    }

    /// Performs the pending copies of the lanes that `due` returns.
    pub fn land(&mut self, due: impl Fn(&PendingCopy) -> u32) {
        let mut copies = std::mem::take(&mut self.block.copies);
        for copy in &mut copies {
            let lanes = due(copy);
            if lanes != 0 {
                self.perform(copy, lanes);
                copy.lanes &= !lanes;
            }
        }
        copies.retain(|c| c.lanes != 0);
        self.block.copies = copies;
        self.block.progress += 1;
    }

    fn perform(&mut self, copy: &PendingCopy, mask: u32) {
        let shared = self.block.shared.as_mut_ptr().cast::<u8>();
        let states = self.block.shared_shadow.as_mut_ptr();
        let mut region = Region::NONE;
        for l in lanes(mask) {
            let (n, bytes) = (copy.read[l] as usize, copy.bytes as usize);
            if !region.holds(copy.from[l], n as u64) {
                region = self.grid.region_of(copy.from[l]);
            }
            // SAFETY: both addresses were checked at issue. Allocations do not move during a launch.
            unsafe {
                let (d, ds) = (shared.add(copy.to[l] as usize), states.add(copy.to[l] as usize));
                if n > 0 {
                    let at = (copy.from[l] - region.address) as usize;
                    std::ptr::copy_nonoverlapping(region.data.add(at), d, n);
                    for b in 0..n {
                        // The state becomes defined or tainted, and written.
                        *ds.add(b) = *region.shadow.add(at + b) & shadow::DEFINED | shadow::TAINTED;
                    }
                }
                d.add(n).write_bytes(0, bytes - n);
                ds.add(n).write_bytes(shadow::WRITTEN, bytes - n);
            }
        }
    }

    /// Executes `cp.async.mbarrier.arrive`: the mbarrier object receives an arrival when the thread's earlier copies
    /// are complete.
    pub fn copy_mbarrier_arrive(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::CopyMbarrierArrive { no_inc, space, offset } = inst.op else { return Next::Continue };
        let mut ad = self.addresses(inst.sources()[0], offset, mask, 8);
        if space == Space::Generic {
            ad = relative(&ad, mask, self.grid.windows.shared);
        }
        let mut left = mask;
        let request = Request { kind: AccessKind::Atomic, space: Space::Shared, addresses: &ad, size: 8 };
        let Some((group, span)) = self.span(&request, &mut left) else {
            return if P::CHECK { Next::Continue } else { Next::Halt };
        };
        let mark = if P::CHECK { self.block.races.agent_mark(Agent::Copy, self.w.id) } else { 0 };
        for l in lanes(group) {
            let location = Location { span, address: ad.at[l] };
            let barrier = ad.at[l] as u32;
            // The arrival happens when the copies of the thread are complete, like that of a copy.
            self.trace_load(0, location);
            if !no_inc {
                self.mbarrier_update(location, l, |b| b.pending += 1);
            }
            if P::CHECK {
                let serial = self.block.copy_serial;
                let owed = OwedArrival { warp: self.w.id, lane: l as u32, barrier, serial, mark };
                self.block.owed.push(owed);
            } else {
                self.mbarrier_update(location, l, |b| b.arrive(1));
            }
        }
        self.block.progress += 1;
        Next::Continue
    }

    /// Lands the copies that a waiting thread's mbarrier object depends on, and performs the arrivals that were waiting
    /// for these copies.
    pub fn copies_for_barrier(&mut self, barrier: u32) {
        if !self.block.bulk.is_empty() {
            self.bulk_for_barrier(barrier);
        }
        let owed: Vec<OwedArrival> =
            self.block.owed.iter().filter(|o| o.barrier == barrier).copied().collect();
        if owed.is_empty() {
            return;
        }
        self.land(|copy| {
            owed.iter()
                .filter(|o| o.warp == copy.warp && copy.serial < o.serial)
                .fold(0, |m, o| m | 1 << o.lane & copy.lanes)
        });
        self.settle_arrivals();
    }

    /// Performs the arrivals of threads that have no earlier pending copies.
    fn settle_arrivals(&mut self) {
        let owed = std::mem::take(&mut self.block.owed);
        let span = self.whole_shared();
        for o in owed {
            let pending = self
                .block
                .copies
                .iter()
                .any(|c| c.warp == o.warp && c.lanes >> o.lane & 1 == 1 && c.serial < o.serial);
            if pending {
                self.block.owed.push(o);
                continue;
            }
            let (lane, address) = (o.lane as usize, u64::from(o.barrier));
            self.block.races.mbarrier_arrive_copies(Agent::Copy, o.warp, lane, o.barrier, o.mark);
            self.mbarrier_update(Location { span, address }, lane, |b| b.arrive(1));
        }
    }
}
