//! Bulk copies: one thread starts a copy of many bytes, and a separate engine performs it.
//!
//! A copy into shared memory reports its bytes to an mbarrier object. Without checks it is performed when it is issued.
//! Under checks it is pending until a thread tests or waits on the mbarrier object. Only as many bytes then become
//! visible ("land") as the object expects.
//!
//! A copy out of shared memory completes by bulk groups of its thread. It reads and writes its bytes immediately. The
//! race checker reports accesses to these bytes before the wait.

use super::Policy;
use super::state::{
    Addresses, BulkCopy, Cargo, Mbarrier, Next, Origin, RunningWarp, Source, Span, Use, relative,
};
use crate::check::Kind;
use crate::check::race::{self, Agent};
use crate::isa::op::{AtomOp, Inst, Op};
use crate::isa::types::{Space, Ty};
use crate::mem::shadow;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Executes `cp.async.bulk` into shared memory: any multiple of 16 bytes per lane. Usually one lane is active.
    pub fn copy_bulk(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::CopyBulk { dst_offset, src_offset, barrier_offset } = inst.op else { return Next::Continue };
        let sources = inst.sources();
        let to = self.addresses(sources[0], dst_offset, mask, 16);
        let from = self.addresses(sources[1], src_offset, mask, 16);
        let object = self.addresses(sources[3], barrier_offset, mask, 8);
        let Some((mask, sizes)) = self.bulk_sizes(sources[2], [&to, &from], mask) else { return Next::Halt };
        let mask = self.one_per_copy(mask, |l| (to.at[l], sizes[l]));
        for l in super::lanes(mask) {
            let bytes = sizes[l];
            let shared = self.bulk_end(Space::Shared, &to, bytes, l, Use::Store);
            let global = self.bulk_end(Space::Global, &from, bytes, l, Use::Load);
            let barrier = self.bulk_barrier(&object, l);
            let (Some(shared), Some(global), Some(barrier)) = (shared, global, barrier) else {
                if !P::CHECK {
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
                    Agent::Load,
                    warp,
                    1 << l,
                    at,
                    &offsets,
                    bytes,
                    &from.at,
                    &[bytes; 32],
                );
                self.pend(l, to.at[l] as u32, bytes, Cargo::Range(from.at[l]), object.at[l] as u32);
            } else {
                // SAFETY: source and destination were checked for their whole length.
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

    /// Executes `cp.async.bulk` out of shared memory.
    pub fn store_bulk(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::StoreBulk { dst_offset, src_offset, reduce } = inst.op else { return Next::Continue };
        let sources = inst.sources();
        let to = self.addresses(sources[0], dst_offset, mask, 16);
        let from = self.addresses(sources[1], src_offset, mask, 16);
        let Some((mask, sizes)) = self.bulk_sizes(sources[2], [&to, &from], mask) else { return Next::Halt };
        let mask = self.one_per_copy(mask, |l| (to.at[l], sizes[l]));
        for l in super::lanes(mask) {
            let bytes = sizes[l];
            let global = self.bulk_end(Space::Global, &to, bytes, l, Use::Store);
            let shared = self.bulk_end(Space::Shared, &from, bytes, l, Use::Load);
            let (Some(shared), Some(global)) = (shared, global) else {
                if !P::CHECK {
                    return Next::Halt;
                }
                continue;
            };
            if P::COUNT {
                self.worker.counts.async_bytes += u64::from(bytes);
            }
            let (at, warp) = (self.at(), self.w.id);
            if P::CHECK {
                let start = from.at[l] as u32;
                let chunks: Vec<u32> = (0..bytes / 16).map(|c| start + 16 * c).collect();
                self.block.races.agent_reads_shared(Agent::StoreRead, warp, l, at, &chunks);
                let memory = &self.grid.races;
                let op = if reduce.is_some() { race::Op::Atomic } else { race::Op::Write };
                self.block.races.agent_global(memory, Agent::StoreWrite, op, warp, l, at, to.at[l], bytes);
            }
            self.store_out(&shared, from.at[l], &global, to.at[l], bytes, reduce, l);
            self.w.bulk.store(l, at);
        }
        self.block.progress += 1;
        Next::Continue
    }

    /// Records a pending copy.
    pub fn pend(&mut self, lane: usize, to: u32, bytes: u32, cargo: Cargo, barrier: u32) {
        let (at, warp) = (self.at(), self.w.id);
        let mark = Some(self.block.races.agent_mark(Agent::Load, warp));
        let copy = BulkCopy { warp, lane: lane as u32, at, to, bytes, cargo, landed: 0, barrier, mark };
        self.block.bulk.push(copy);
    }

    /// Records a store of a tensor copy.
    pub fn note_store(&mut self, lane: usize) {
        let at = self.at();
        self.w.bulk.store(lane, at);
    }

    /// Copies bytes from shared to global memory, together with their shadow states.
    #[allow(clippy::too_many_arguments)]
    pub fn store_out(
        &mut self,
        shared: &Span,
        from: u64,
        global: &Span,
        to: u64,
        bytes: u32,
        reduce: Option<(AtomOp, Ty)>,
        lane: usize,
    ) {
        if let Some((op, ty)) = reduce {
            let size = ty.bytes() as usize;
            for at in (0..u64::from(bytes)).step_by(size) {
                let mut value = [0; 8];
                // SAFETY: source and destination were checked for their whole length, and they are aligned to their
                // elements.
                unsafe {
                    std::ptr::copy_nonoverlapping(shared.host(from + at), value.as_mut_ptr(), size);
                    let value = u64::from_le_bytes(value);
                    super::atomics::update(global.host(to + at), size as u8, |old| {
                        super::atomics::combine(op, ty, old, value, 0)
                    });
                }
            }
        } else {
            // SAFETY: source and destination were checked for their whole length.
            unsafe { std::ptr::copy_nonoverlapping(shared.host(from), global.host(to), bytes as usize) };
        }
        if !P::CHECK {
            return;
        }
        let at = self.at();
        for b in 0..u64::from(bytes) {
            // SAFETY: as above. A shadow is as large as its memory.
            let defined = unsafe { *shared.state(from + b) } & shadow::DEFINED != 0;
            let state = if defined { shadow::WRITTEN } else { shadow::TAINTED };
            // SAFETY: as above.
            unsafe { *global.state(to + b) = state };
            if !defined {
                let origin = self.block.taints.get(&((from + b) as u32)).copied();
                let origin = origin.unwrap_or(Origin::new(Source::Shared, at));
                self.worker.taint(to + b, origin, at, self.block.index, self.w.id, lane as u32);
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
        if P::CHECK && self.w.tracking {
            self.check_use(slot, mask, "is the size of a copy");
        }
        let sizes = *self.r32(slot);
        let mut good = mask;
        for l in super::lanes(mask) {
            let bytes = sizes[l];
            if bytes == 0 || !bytes.is_multiple_of(16) || ends.iter().any(|e| !e.at[l].is_multiple_of(16)) {
                self.finding(Kind::Misaligned, 1 << l, || {
                    format!("bulk copy of {bytes} bytes: size and both addresses must be multiples of 16")
                });
                good &= !(1 << l);
                if !P::CHECK {
                    self.grid.stop();
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
        for l in super::lanes(mask) {
            if !super::lanes(kept).any(|k| copy(k) == copy(l)) {
                kept |= 1 << l;
            }
        }
        if kept != mask {
            let again = (mask & !kept).count_ones();
            self.finding(Kind::Race, mask, || {
                format!(
                    "{} lanes issue the same bulk copy, so its bytes are copied and counted {again} times too often; one \
                     lane is to issue it",
                    mask.count_ones()
                )
            });
        }
        kept
    }

    /// Resolves the source or destination of a lane's copy. Returns `None` unless the memory contains its whole length.
    pub fn bulk_end(
        &mut self,
        space: Space,
        ad: &Addresses,
        bytes: u32,
        lane: usize,
        what: Use,
    ) -> Option<Span> {
        let mut only = 1 << lane;
        let one = relative(ad, only, 0);
        let (_, span) = self.span(space, &one, 1, &mut only, what)?;
        let at = ad.at[lane];
        let end = if space == Space::Shared {
            u64::from(self.block.shared_bytes)
        } else {
            let region = self.grid.region_of(at);
            region.address + region.bytes
        };
        let beyond = (at + u64::from(bytes)).saturating_sub(end);
        if beyond > 0 {
            let what = if space == Space::Shared { "shared memory" } else { "its buffer" };
            self.finding(Kind::OutOfBounds, 1 << lane, || {
                format!("bulk copy of {bytes} bytes ends {beyond} bytes past the end of {what}")
            });
            if !P::CHECK {
                self.grid.stop();
            }
            return None;
        }
        Some(span)
    }

    /// Resolves the mbarrier object of a lane's copy.
    pub fn bulk_barrier(&mut self, object: &Addresses, lane: usize) -> Option<Span> {
        let mut only = 1 << lane;
        let one = relative(object, only, 0);
        self.span(Space::Shared, &one, 8, &mut only, Use::Atomic).map(|s| s.1)
    }

    /// Lands the bulk copies that report to an mbarrier object, because a thread waits on it. Only as many bytes land
    /// as the object still expects. A phase that expects too few bytes therefore completes before all its data has
    /// arrived.
    pub fn bulk_for_barrier(&mut self, barrier: u32) {
        let span = self.whole_shared();
        let mut copies = std::mem::take(&mut self.block.bulk);
        for copy in copies.iter_mut().filter(|c| c.barrier == barrier) {
            // SAFETY: the mbarrier object was checked when the copy was issued.
            let bits = unsafe { span.host(u64::from(barrier)).cast::<u64>().read_unaligned() };
            let expected = Mbarrier::decode(bits).tx;
            if expected <= 0 {
                break;
            }
            let n = expected.min(i64::from(copy.bytes - copy.landed)) as u32;
            self.land_bulk(copy, n);
            if copy.landed == copy.bytes
                && let Some(mark) = copy.mark
            {
                let agent = Agent::Load;
                self.block.races.mbarrier_arrive_copies(agent, copy.warp, copy.lane, barrier, mark);
            }
            self.mbarrier_update(&span, u64::from(barrier), copy.lane as usize, |b| b.tx -= i64::from(n));
        }
        copies.retain(|c| c.landed < c.bytes);
        self.block.bulk = copies;
    }

    fn land_bulk(&mut self, copy: &mut BulkCopy, n: u32) {
        let (from, to) = (copy.landed, copy.landed + n);
        copy.landed = to;
        match &copy.cargo {
            Cargo::Box(tensor, load) => self.land_box(tensor, copy.to, from..to, *load),
            Cargo::Range(source) => {
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

    pub fn bulk_commit(&mut self, mask: u32) {
        self.w.bulk.commit(mask);
        if P::CHECK {
            for agent in [Agent::StoreRead, Agent::StoreWrite] {
                self.block.races.agent_commit(agent, self.w.id, mask);
            }
        }
    }

    pub fn bulk_wait(&mut self, keep: u32, read: bool, mask: u32) {
        self.w.bulk.wait(keep, mask);
        if P::CHECK {
            self.block.races.agent_wait(Agent::StoreRead, self.w.id, mask, keep);
            if !read {
                self.block.races.agent_wait(Agent::StoreWrite, self.w.id, mask, keep);
            }
        }
    }

    /// Reports lanes that exit before their bulk stores have read shared memory. The shared memory is freed when the
    /// block ends.
    pub fn bulk_at_exit(&mut self, mask: u32) {
        if !P::CHECK {
            return;
        }
        let unread = self.w.bulk.unread(mask);
        if unread != 0 {
            let store = self.w.bulk.last[unread.trailing_zeros() as usize];
            let (here, block, warp) = (self.at(), self.block.index, self.w.id);
            let related = vec![("here the thread exits".to_string(), here)];
            self.worker.report_with(
                self.grid,
                Kind::AsyncNotWaited,
                store,
                block,
                warp,
                unread,
                related,
                || {
                    "the thread exits without waiting for its bulk store to read shared memory \
                 (cp.async.bulk.commit_group and wait_group.read)"
                        .to_string()
                },
            );
        }
    }
}
