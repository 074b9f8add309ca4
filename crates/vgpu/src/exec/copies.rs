//! Asynchronous copies: agents of their own.
//!
//! Unchecked, a copy happens when it is issued, which is one of the times the hardware may choose. Under checks it
//! is pending until a wait of its thread (or a barrier object it reports to) forces it, so that a kernel which does
//! not wait sees old data, every time.

use super::Policy;
use super::memory::{Addresses, Span, Use};
use super::step::{Cx, Next};
use super::taint::Source;
use crate::check::Kind;
use crate::isa::op::{Inst, Op};
use crate::isa::types::Space;
use crate::mem::device::Region;
use crate::mem::shadow;

/// Lanes' copies of one instruction that have not landed.
#[derive(Clone, Debug)]
pub struct PendingCopy {
    pub warp: u32,
    pub lanes: u32,
    pub bytes: u8,
    /// Offsets in shared memory.
    pub to: [u32; 32],
    pub from: [u64; 32],
    /// Bytes to read; the rest of the destination becomes zero.
    pub read: [u8; 32],
    /// The thread's group it belongs to, counted from 0.
    pub group: [u32; 32],
    /// Position in the block's order of issue.
    pub serial: u64,
}

impl PendingCopy {
    /// Whether a byte of shared memory is to be written by it.
    pub fn covers(&self, address: u32) -> bool {
        super::lanes(self.lanes).any(|l| address.wrapping_sub(self.to[l]) < u32::from(self.bytes))
    }
}

/// An arrival owed to a barrier object when a thread's earlier copies are done.
#[derive(Clone, Copy, Debug)]
pub struct OwedArrival {
    pub warp: u32,
    pub lane: u32,
    pub barrier: u32,
    /// It waits for the thread's copies issued before this position.
    pub serial: u64,
    /// How far the thread's copies had come, for the race checker.
    pub mark: u32,
}

/// A lane's bulk copy that has not landed, or not wholly.
#[derive(Clone, Copy, Debug)]
pub struct BulkCopy {
    pub warp: u32,
    pub lane: u32,
    pub to: u32,
    pub from: u64,
    pub bytes: u32,
    /// Bytes from the start that are there.
    pub landed: u32,
    /// Barrier object that counts its bytes.
    pub barrier: u32,
    pub mark: u32,
}

impl BulkCopy {
    pub fn covers(&self, address: u32) -> bool {
        (self.to + self.landed..self.to + self.bytes).contains(&address)
    }
}

impl<P: Policy> Cx<'_, '_, P> {
    /// `cp.async.bulk`: any multiple of 16 bytes per lane, usually one lane.
    pub fn copy_bulk(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::CopyBulk { dst_offset, src_offset, barrier_offset } = inst.op else { return Next::Continue };
        let sources = inst.sources();
        let to = self.addresses(sources[0], dst_offset, mask, 16);
        let from = self.addresses(sources[1], src_offset, mask, 16);
        let object = self.addresses(sources[3], barrier_offset, mask, 8);
        if P::CHECK && self.w.tracking {
            self.check_use(sources[2], mask, "is the size of a copy");
        }
        let sizes = *self.r32(sources[2]);
        for l in super::lanes(mask) {
            let bytes = sizes[l];
            if bytes == 0 || !bytes.is_multiple_of(16) || !(to.at[l] | from.at[l]).is_multiple_of(16) {
                self.finding(Kind::Misaligned, 1 << l, || {
                    format!("bulk copy of {bytes} bytes: size and both addresses must be multiples of 16")
                });
                if !P::CHECK {
                    return Next::Halt;
                }
                continue;
            }
            let lane = |ad: &Addresses| super::atomics::relative(ad, 1 << l, 0);
            let mut only = 1 << l;
            let shared = self.span(Space::Shared, &lane(&to), 1, &mut only, Use::Store).map(|s| s.1);
            let global = self.span(Space::Global, &lane(&from), 1, &mut only, Use::Load).map(|s| s.1);
            let barrier = self.span(Space::Shared, &lane(&object), 8, &mut only, Use::Atomic).map(|s| s.1);
            let ends = to.at[l] + u64::from(bytes) <= u64::from(self.block.shared_bytes)
                && self.grid.region_of(from.at[l]).holds(from.at[l], u64::from(bytes));
            let (Some(shared), Some(global), Some(barrier), true) = (shared, global, barrier, ends) else {
                if only != 0 {
                    self.finding(Kind::OutOfBounds, 1 << l, || {
                        format!("bulk copy of {bytes} bytes leaves its memory")
                    });
                }
                if !P::CHECK {
                    self.grid.stop();
                    return Next::Halt;
                }
                continue;
            };
            if P::COUNT {
                self.worker.counts.async_bytes += u64::from(bytes);
            }
            if P::CHECK {
                let (at, warp) = (self.at(), self.w.id);
                let mut offsets = [0; 32];
                offsets[l] = to.at[l] as u32;
                self.block.races.copy_issue(
                    &self.grid.races,
                    warp,
                    1 << l,
                    at,
                    &offsets,
                    bytes,
                    &from.at,
                    &[bytes; 32],
                );
                let mark = self.block.races.copy_mark(warp);
                self.block.bulk.push(BulkCopy {
                    warp,
                    lane: l as u32,
                    to: to.at[l] as u32,
                    from: from.at[l],
                    bytes,
                    landed: 0,
                    barrier: object.at[l] as u32,
                    mark,
                });
            } else {
                // SAFETY: both ends were checked for their whole length.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        global.host(from.at[l]),
                        shared.host(to.at[l]),
                        bytes as usize,
                    );
                };
                self.mbarrier_update(&barrier, object.at[l], l, |b| b.tx -= i64::from(bytes));
            }
        }
        self.block.progress += 1;
        Next::Continue
    }

    /// Somebody waits on an object: bulk copies that report to it land, byte by byte as far as the object still
    /// expects bytes, and no further. A phase that expects too few thus ends before its data is there.
    fn bulk_for_barrier(&mut self, barrier: u32) {
        let span = self.whole_shared();
        for i in 0..self.block.bulk.len() {
            let mut copy = self.block.bulk[i];
            // SAFETY: the object was checked when the copy was issued.
            let bits = unsafe { span.host(u64::from(barrier)).cast::<u64>().read_unaligned() };
            let expected = super::mbarrier::Mbarrier::decode(bits).tx;
            if copy.barrier != barrier || expected <= 0 {
                continue;
            }
            let n = expected.min(i64::from(copy.bytes - copy.landed)) as u32;
            self.land_bulk(&mut copy, n);
            if copy.landed == copy.bytes {
                self.block.races.mbarrier_arrive_copies(copy.warp, copy.lane, barrier, copy.mark);
            }
            self.block.bulk[i] = copy;
            self.mbarrier_update(&span, u64::from(barrier), copy.lane as usize, |b| b.tx -= i64::from(n));
        }
        self.block.bulk.retain(|c| c.landed < c.bytes);
    }

    fn land_bulk(&mut self, copy: &mut BulkCopy, n: u32) {
        let region = self.grid.region_of(copy.from);
        let span = self.whole_shared();
        for b in copy.landed..copy.landed + n {
            let at = (copy.from - region.address) as usize + b as usize;
            let to = u64::from(copy.to + b);
            // SAFETY: both ends were checked for their whole length at issue.
            unsafe {
                *span.host(to) = *region.data.add(at);
                *span.state(to) =
                    if *region.shadow.add(at) & 1 == 1 { shadow::WRITTEN } else { shadow::TAINTED };
            }
        }
        copy.landed += n;
    }

    pub fn whole_shared(&mut self) -> Span {
        Span {
            base: self.block.shared.as_mut_ptr().cast(),
            shadow: self.block.shared_shadow.as_mut_ptr(),
            low: 0,
            source: Source::Shared,
        }
    }

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
        if P::COUNT {
            self.worker.counts.async_bytes += u64::from(mask.count_ones()) * u64::from(bytes);
            self.count_access(Space::Global, &from, size, mask, Use::Load);
            self.count_access(Space::Shared, &to, size, mask, Use::Store);
        }
        // Both ends are checked at issue: the line that issues the copy is the line to blame.
        let mut good = mask;
        let Some((_, shared)) = self.span(Space::Shared, &to, size, &mut good, Use::Store) else {
            return if P::CHECK { Next::Continue } else { Next::Halt };
        };
        let reading = super::lanes(good).filter(|l| read[*l] > 0).fold(0u32, |m, l| m | 1 << l);
        let mut left = reading;
        let mut readable = 0;
        let mut spans: Vec<(u32, Span)> = Vec::new();
        while left != 0 {
            // Alignment is of the full copy even where fewer bytes are read.
            let least = super::lanes(left).map(|l| u32::from(read[l])).min().unwrap_or(size);
            let before = left;
            match self.span_for_copy(&from, size, least, &mut left) {
                Some((group, span)) => {
                    left &= !group;
                    let whole =
                        |l: &usize| self.grid.region_of(from.at[*l]).holds(from.at[*l], u64::from(read[*l]));
                    // Where all read the full size the span has been asked for it.
                    let inside = if least == size {
                        group
                    } else {
                        super::lanes(group).filter(whole).fold(0u32, |m, l| m | 1 << l)
                    };
                    readable |= inside;
                    spans.push((inside, span));
                    if inside != group {
                        self.copy_source_ends(&from, size, group & !inside);
                    }
                }
                None => {
                    if left == before {
                        break;
                    }
                }
            }
        }
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
            let (at, reads) = (self.at(), read.map(u32::from));
            self.block.races.copy_issue(
                &self.grid.races,
                self.w.id,
                good,
                at,
                &copy.to,
                size,
                &copy.from,
                &reads,
            );
            self.block.copies.push(copy);
        } else {
            for l in super::lanes(good) {
                let n = read[l] as usize;
                let d = shared.host(to.at[l]);
                let s = spans.iter().find(|(g, _)| g >> l & 1 == 1).map(|(_, s)| s.host(from.at[l]));
                // SAFETY: both spans hold their ends.
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

    /// A copy starts inside an allocation and reads past its end.
    fn copy_source_ends(&mut self, from: &Addresses, size: u32, bad: u32) {
        let mut only = bad;
        self.span(Space::Global, from, size, &mut only, Use::Load);
    }

    /// The source of a copy: aligned to its full size, present for what is read.
    fn span_for_copy(
        &mut self,
        from: &Addresses,
        size: u32,
        least: u32,
        left: &mut u32,
    ) -> Option<(u32, Span)> {
        let bad = super::lanes(*left)
            .filter(|l| !from.at[*l].is_multiple_of(u64::from(size)))
            .fold(0u32, |m, l| m | 1 << l);
        if bad != 0 {
            // Reported as misaligned by `span` with the full size.
            let mut only = bad;
            self.span(Space::Global, from, size, &mut only, Use::Load);
            *left &= !bad;
            if *left == 0 {
                return None;
            }
        }
        // Lanes read different amounts only at the tail of a buffer: ask lane by lane what each needs.
        self.span(Space::Global, from, if least == size { size } else { 1 }, left, Use::Load)
    }

    pub fn copy_commit(&mut self, mask: u32) {
        for l in super::lanes(mask) {
            self.w.committed[l] += 1;
        }
        if P::CHECK {
            self.block.races.copy_commit(self.w.id, mask);
        }
    }

    pub fn copy_wait(&mut self, keep: u32, all: bool, mask: u32) -> Next {
        if P::CHECK {
            let committed = self.w.committed;
            let warp = self.w.id;
            let due = |copy: &PendingCopy| {
                if copy.warp != warp {
                    return 0;
                }
                super::lanes(copy.lanes & mask)
                    .filter(|l| all || copy.group[*l] + keep < committed[*l])
                    .fold(0u32, |m, l| m | 1 << l)
            };
            self.land(due);
            if all {
                self.block.races.copy_wait_all(warp, mask);
            } else {
                self.block.races.copy_wait(warp, mask, keep);
            }
        }
        Next::Continue
    }

    /// Lands what is pending for lanes that exit: nobody can wait for it any more.
    pub fn copies_at_exit(&mut self, mask: u32) {
        if P::CHECK && !self.block.copies.is_empty() {
            let warp = self.w.id;
            self.land(|copy| if copy.warp == warp { copy.lanes & mask } else { 0 });
            self.settle_arrivals();
        }
    }

    /// Performs the copies whose lanes `due` gives.
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

    fn perform(&mut self, copy: &PendingCopy, lanes: u32) {
        let shared = self.block.shared.as_mut_ptr().cast::<u8>();
        let states = self.block.shared_shadow.as_mut_ptr();
        let mut region = Region::NONE;
        for l in super::lanes(lanes) {
            let (n, bytes) = (copy.read[l] as usize, copy.bytes as usize);
            if !region.holds(copy.from[l], n as u64) {
                region = self.grid.region_of(copy.from[l]);
            }
            // SAFETY: issue has checked both ends; allocations do not move during a launch.
            unsafe {
                let (d, ds) = (shared.add(copy.to[l] as usize), states.add(copy.to[l] as usize));
                if n > 0 {
                    let at = (copy.from[l] - region.address) as usize;
                    std::ptr::copy_nonoverlapping(region.data.add(at), d, n);
                    for b in 0..n {
                        // Defined or tainted, and written.
                        *ds.add(b) = *region.shadow.add(at + b) & shadow::DEFINED | shadow::TAINTED;
                    }
                }
                d.add(n).write_bytes(0, bytes - n);
                ds.add(n).write_bytes(shadow::WRITTEN, bytes - n);
            }
        }
    }

    /// `cp.async.mbarrier.arrive`: the barrier object hears when the thread's copies so far are done.
    pub fn copy_mbarrier_arrive(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::CopyMbarrierArrive { no_inc, space, offset } = inst.op else { return Next::Continue };
        let mut ad = self.addresses(inst.sources()[0], offset, mask, 8);
        if space == Space::Generic {
            ad = super::atomics::relative(&ad, mask, self.grid.windows.shared);
        }
        let mut left = mask;
        let Some((group, span)) = self.span(Space::Shared, &ad, 8, &mut left, Use::Atomic) else {
            return if P::CHECK { Next::Continue } else { Next::Halt };
        };
        let mark = if P::CHECK { self.block.races.copy_mark(self.w.id) } else { 0 };
        for l in super::lanes(group) {
            let barrier = ad.at[l] as u32;
            if !no_inc {
                self.mbarrier_update(&span, ad.at[l], l, |b| b.pending += 1);
            }
            if P::CHECK {
                let serial = self.block.copy_serial;
                let owed = OwedArrival { warp: self.w.id, lane: l as u32, barrier, serial, mark };
                self.block.owed.push(owed);
            } else {
                self.mbarrier_update(&span, ad.at[l], l, |b| b.arrive(1));
            }
        }
        self.block.progress += 1;
        Next::Continue
    }

    /// A wait on a barrier object needs its copies: they land now, and the arrivals they owe are paid.
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

    /// Pays the arrivals whose threads have no earlier copies left.
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
            self.block.races.mbarrier_arrive_copies(o.warp, o.lane, o.barrier, o.mark);
            self.mbarrier_update(&span, u64::from(o.barrier), o.lane as usize, |b| b.arrive(1));
        }
    }
}
