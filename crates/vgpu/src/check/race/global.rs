//! Shadow of global memory, shared by all workers of a launch.
//!
//! Pages come into being when touched. A granule (four bytes; finer in a page that sees finer accesses) has its last
//! write and up to two reads, and while strong writes pile up, a second write. Two readers are chosen to be as far
//! apart as possible (blocks, then warps, then lanes), because a write that misses one synchronisation misses it
//! for all far threads alike; the sample never causes a false alarm, and a write can be unordered with others but
//! ordered with both of the sample only where more than two unordered threads read one granule and the write is
//! synchronised with some of them.
//!
//! A page has a lock, taken for the lanes of an access that fall into it: two workers in one page see each other's
//! accesses in one order or the other, and either order finds the race.

use std::cell::UnsafeCell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::conflict::{Conflict, races};
use super::event::{Op, SameValue, Strength};
use super::flags::Flags;
use super::stamp::{Stamp, TIME};
use super::threads::Threads;

const PAGE: u64 = 12;

/// Stamps and their blocks, allocated when first needed.
#[derive(Clone, Debug, Default)]
struct Words {
    stamps: Vec<Stamp>,
    blocks: Vec<u32>,
}

impl Words {
    fn ensure(&mut self, granules: usize) {
        if self.stamps.is_empty() {
            self.stamps.resize(granules, Stamp::NONE);
            self.blocks.resize(granules, 0);
        }
    }

    #[inline(always)]
    fn get(&self, g: usize) -> (Stamp, u32) {
        match self.stamps.get(g) {
            Some(stamp) => (*stamp, self.blocks[g]),
            None => (Stamp::NONE, 0),
        }
    }

    #[inline(always)]
    fn set(&mut self, g: usize, stamp: Stamp, block: u32) {
        self.stamps[g] = stamp;
        self.blocks[g] = block;
    }

    fn spread(&mut self, factor: usize) {
        self.stamps = self.stamps.iter().flat_map(|s| std::iter::repeat_n(*s, factor)).collect();
        self.blocks = self.blocks.iter().flat_map(|b| std::iter::repeat_n(*b, factor)).collect();
    }
}

#[derive(Debug)]
struct PageData {
    shift: u32,
    granules: usize,
    writes: Words,
    also: Words,
    reads: [Words; 2],
}

#[derive(Debug)]
struct Page {
    taken: AtomicBool,
    data: UnsafeCell<PageData>,
}

// SAFETY: `data` is only reached through `Page::lock`, which lets in one thread at a time.
unsafe impl Sync for Page {}

struct PageGuard<'p>(&'p Page);

impl Page {
    fn new(bytes: u64) -> Page {
        let granules = bytes.div_ceil(4) as usize;
        Page {
            taken: AtomicBool::new(false),
            data: UnsafeCell::new(PageData {
                shift: 2,
                granules,
                writes: Words::default(),
                also: Words::default(),
                reads: Default::default(),
            }),
        }
    }

    #[inline(always)]
    fn lock(&self) -> PageGuard<'_> {
        while self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        PageGuard(self)
    }
}

impl std::ops::Deref for PageGuard<'_> {
    type Target = PageData;
    #[inline(always)]
    fn deref(&self) -> &PageData {
        // SAFETY: the guard exists only while its thread holds the page's lock.
        unsafe { &*self.0.data.get() }
    }
}

impl std::ops::DerefMut for PageGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut PageData {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.0.data.get() }
    }
}

impl Drop for PageGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

#[derive(Debug)]
struct Region {
    base: u64,
    bytes: u64,
    pages: Box<[OnceLock<Box<Page>>]>,
}

const SHARDS: usize = 64;

/// The global memory of one launch, as the race checker sees it.
#[derive(Debug)]
pub struct GlobalRaces {
    regions: Vec<Region>,
    flags: Vec<Mutex<Flags>>,
    /// Whether anything was ever published.
    any_flag: AtomicBool,
    hash: RandomState,
}

impl GlobalRaces {
    /// Memory with these allocations (address, bytes). Accesses elsewhere are not looked at.
    pub fn new(allocations: impl IntoIterator<Item = (u64, u64)>) -> GlobalRaces {
        let mut regions: Vec<Region> = allocations
            .into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(base, bytes)| {
                // Pages begin at the allocation, granules at multiples of their size.
                let base = base & !15;
                let pages = (0..bytes.div_ceil(1 << PAGE)).map(|_| OnceLock::new()).collect();
                Region { base, bytes, pages }
            })
            .collect();
        regions.sort_by_key(|r| r.base);
        GlobalRaces {
            regions,
            flags: (0..SHARDS).map(|_| Mutex::default()).collect(),
            any_flag: AtomicBool::new(false),
            hash: RandomState::new(),
        }
    }

    #[inline(always)]
    fn region(&self, address: u64, hint: &mut usize) -> Option<&Region> {
        if let Some(r) = self.regions.get(*hint)
            && address.wrapping_sub(r.base) < r.bytes
        {
            return Some(r);
        }
        let at = self.regions.partition_point(|r| r.base <= address).checked_sub(1)?;
        let r = &self.regions[at];
        (address - r.base < r.bytes).then(|| {
            *hint = at;
            r
        })
    }

    /// The page of an address, the address within it, and the first address past it.
    #[inline(always)]
    fn page(&self, address: u64, hint: &mut usize) -> Option<(&Page, u64, u64)> {
        let r = self.region(address, hint)?;
        let number = (address - r.base) >> PAGE;
        let start = r.base + (number << PAGE);
        let bytes = (r.bytes - (number << PAGE)).min(1 << PAGE);
        let page = r.pages[number as usize].get_or_init(|| Box::new(Page::new(bytes)));
        Some((page, start, start + bytes))
    }

    /// The published flags of a word; `None` if nothing was ever published and `create` is not asked for.
    pub(super) fn flags(&self, word: u64, create: bool) -> Option<MutexGuard<'_, Flags>> {
        if create {
            self.any_flag.store(true, Ordering::SeqCst);
        } else if !self.any_flag.load(Ordering::SeqCst) {
            return None;
        }
        let shard = self.hash.hash_one(word) as usize % SHARDS;
        Some(self.flags[shard].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Accesses by the lanes of `mask`. `stamp` is that of lane 0; `bytes` are per lane. `observed` is told of strong
    /// writes by other threads that a strong access finds.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn access(
        &self,
        threads: &Threads,
        hint: &mut usize,
        mask: u32,
        stamp: Stamp,
        address: &[u64; 32],
        bytes: &dyn Fn(usize) -> u32,
        values: &dyn SameValue,
        out: &mut Vec<Conflict>,
        observed: &mut Vec<(u32, Stamp)>,
    ) {
        let mut left = mask;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let Some((page, start, end)) = self.page(address[lane], hint) else {
                left &= left - 1;
                continue;
            };
            let mut data = page.lock();
            // All lanes that follow in the same page, under one lock; an access over a page's end goes on in the next.
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                let at = address[lane];
                if at < start || at >= end {
                    break;
                }
                left &= left - 1;
                let here = u64::from(bytes(lane)).min(end - at) as u32;
                data.touch(threads, at - start, here, start, stamp.with_lane(lane), values, out, observed);
                if u64::from(bytes(lane)) > end - at {
                    drop(data);
                    self.rest(threads, hint, stamp.with_lane(lane), end, bytes(lane) - here, values, out, observed);
                    data = page.lock();
                }
            }
        }
    }

    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn rest(
        &self,
        threads: &Threads,
        hint: &mut usize,
        own: Stamp,
        address: u64,
        bytes: u32,
        values: &dyn SameValue,
        out: &mut Vec<Conflict>,
        observed: &mut Vec<(u32, Stamp)>,
    ) {
        if let Some((page, start, end)) = self.page(address, hint) {
            let here = u64::from(bytes).min(end - address) as u32;
            page.lock().touch(threads, address - start, here, start, own, values, out, observed);
        }
    }

    /// The usual case: 32 lanes side by side in one page. False if it is not that case, and nothing was done.
    #[inline]
    pub(super) fn access_row(
        &self,
        threads: &Threads,
        hint: &mut usize,
        stamp: Stamp,
        address: &[u64; 32],
        bytes: u32,
    ) -> bool {
        let mut row = true;
        for l in 0..32 {
            row &= address[l] == address[0].wrapping_add(l as u64 * u64::from(bytes));
        }
        if !row {
            return false;
        }
        let Some((page, start, end)) = self.page(address[0], hint) else { return false };
        let offset = address[0] - start;
        if offset + u64::from(bytes) * 32 > end - start {
            return false;
        }
        let mut data = page.lock();
        if (offset as u32 | bytes) & ((1 << data.shift) - 1) != 0 {
            return false;
        }
        let limit = u64::from(threads.floor() + 1) << TIME;
        let first = (offset >> data.shift) as usize;
        let per_lane = (bytes >> data.shift) as usize;
        let range = first..first + 32 * per_lane;
        let block = threads.block;
        // Free: empty, or of this block and before its last barrier.
        let free = |words: &Words| {
            let mut busy = false;
            if !words.stamps.is_empty() {
                for (s, b) in words.stamps[range.clone()].iter().zip(&words.blocks[range.clone()]) {
                    busy |= s.0 != 0 && (s.0 >= limit || *b != block);
                }
            }
            !busy
        };
        // Or still what these very lanes left, whatever the time.
        let mine = |words: &Words| {
            let mut other = false;
            for (i, (s, b)) in words.stamps[range.clone()].iter().zip(&words.blocks[range.clone()]).enumerate() {
                let owner = stamp.0 >> 5 & 31 == s.0 >> 5 & 31 && (s.0 & 31) as usize == i / per_lane;
                other |= s.0 != 0 && (*b != block || !owner || s.0 >> 63 == 1);
            }
            !other
        };
        let clear = |words: &Words| free(words) || mine(words);
        let data = &mut *data;
        if !clear(&data.writes) || !clear(&data.also) {
            return false;
        }
        let granules = data.granules;
        let words = if stamp.op() != Op::Read {
            if !clear(&data.reads[0]) || !clear(&data.reads[1]) {
                return false;
            }
            &mut data.writes
        } else if clear(&data.reads[0]) && free(&data.reads[1]) {
            &mut data.reads[0]
        } else if threads.knows_other_blocks() {
            return false;
        } else {
            // Read by another block before: the second place is ours, unless a third block has it already.
            let foreign = |words: &Words| {
                if words.stamps.is_empty() {
                    return false;
                }
                let mut near = false;
                for (s, b) in words.stamps[range.clone()].iter().zip(&words.blocks[range.clone()]) {
                    near |= s.0 == 0 || *b == block;
                }
                !near
            };
            if !foreign(&data.reads[0]) {
                return false;
            }
            if clear(&data.reads[1]) {
                &mut data.reads[1]
            } else {
                let apart = || {
                    let [one, two] = [0, 1].map(|i| &data.reads[i].blocks[range.clone()]);
                    one.iter().zip(two).all(|(a, b)| a != b)
                };
                return foreign(&data.reads[1]) && apart();
            }
        };
        words.ensure(granules);
        for (l, lane) in words.stamps[range.clone()].chunks_exact_mut(per_lane).enumerate() {
            lane.fill(stamp.with_lane(l));
        }
        words.blocks[range].fill(block);
        true
    }
}

impl PageData {
    fn refine(&mut self, shift: u32) {
        let factor = 1 << (self.shift - shift);
        self.granules *= factor;
        self.writes.spread(factor);
        self.also.spread(factor);
        for reads in &mut self.reads {
            reads.spread(factor);
        }
        self.shift = shift;
    }

    /// One lane's access, inside the page.
    #[allow(clippy::too_many_arguments)]
    fn touch(
        &mut self,
        threads: &Threads,
        offset: u64,
        bytes: u32,
        page: u64,
        own: Stamp,
        values: &dyn SameValue,
        out: &mut Vec<Conflict>,
        observed: &mut Vec<(u32, Stamp)>,
    ) {
        if bytes == 0 {
            return;
        }
        let fits = (offset as u32 | bytes).trailing_zeros().min(2);
        if fits < self.shift {
            self.refine(fits);
        }
        let first = (offset >> self.shift) as usize;
        let last = ((offset + u64::from(bytes) - 1) >> self.shift) as usize;
        let mut told = Stamp::NONE;
        for g in first..=last.min(self.granules.saturating_sub(1)) {
            let address = page + ((g as u64) << self.shift);
            if own.op() == Op::Read {
                self.read(threads, g, address, own, &mut told, out, observed);
            } else {
                self.write(threads, g, address, own, values, &mut told, out, observed);
            }
        }
    }

    fn read(
        &mut self,
        threads: &Threads,
        g: usize,
        address: u64,
        own: Stamp,
        told: &mut Stamp,
        out: &mut Vec<Conflict>,
        observed: &mut Vec<(u32, Stamp)>,
    ) {
        let (warp, lane) = (own.warp(), own.lane());
        for (first, block) in [self.writes.get(g), self.also.get(g)] {
            if first.is_none() || threads.ordered(block, first, warp, lane) {
                continue;
            }
            if races(first, block, own, threads.block) {
                if *told != first {
                    out.push(Conflict { first_block: block, first, second: own, address, same_value: false });
                    *told = first;
                }
            } else if observed.last() != Some(&(block, first)) {
                observed.push((block, first));
            }
        }
        let granules = self.granules;
        let [one, two] = [self.reads[0].get(g), self.reads[1].get(g)];
        let behind = |(s, b): (Stamp, u32)| {
            s.is_none()
                || threads.ordered(b, s, warp, lane) && (own.strength() <= s.strength())
        };
        if behind(one) {
            self.reads[0].ensure(granules);
            self.reads[0].set(g, own, threads.block);
            // Keep one of each: a second slot that is behind as well says nothing more.
            if !two.0.is_none() && behind(two) {
                self.reads[1].set(g, Stamp::NONE, 0);
            }
            return;
        }
        let farther = || {
            // Apart by block beats apart by warp beats apart by lane.
            let apart = |(a, ab): (Stamp, u32), (b, bb): (Stamp, u32)| {
                if ab != bb {
                    2
                } else if a.warp() != b.warp() {
                    1
                } else {
                    0
                }
            };
            apart(one, (own, threads.block)) > apart(one, two)
        };
        if behind(two) || farther() {
            self.reads[1].ensure(granules);
            self.reads[1].set(g, own, threads.block);
        }
    }

    fn write(
        &mut self,
        threads: &Threads,
        g: usize,
        address: u64,
        own: Stamp,
        values: &dyn SameValue,
        told: &mut Stamp,
        out: &mut Vec<Conflict>,
        observed: &mut Vec<(u32, Stamp)>,
    ) {
        let (warp, lane) = (own.warp(), own.lane());
        let granules = self.granules;
        let mut kept = (Stamp::NONE, 0);
        for (first, block) in [self.also.get(g), self.writes.get(g)] {
            if first.is_none() {
                continue;
            }
            if threads.ordered(block, first, warp, lane) {
                // A strong write does not stand for a weaker one before it, see `SharedShadow::write_granule`.
                if first.strength() < own.strength() {
                    kept = (first, block);
                }
                continue;
            }
            let mut harmless = true;
            if races(first, block, own, threads.block) {
                let same_instruction = block == threads.block && first.0 & !31 == own.0 & !31;
                harmless = first.op() == Op::Write
                    && own.op() == Op::Write
                    && if same_instruction { values.as_lane(lane, first.lane()) } else { values.as_memory(lane) };
                if *told != first {
                    out.push(Conflict { first_block: block, first, second: own, address, same_value: harmless });
                    *told = first;
                }
            } else if own.op() == Op::Atomic && observed.last() != Some(&(block, first)) {
                observed.push((block, first));
            }
            let far = block != threads.block || first.warp() != warp;
            let weak_kept = !kept.0.is_none() && kept.0.strength() == Strength::Weak;
            if harmless && !weak_kept && (kept.0.is_none() || far) {
                kept = (first, block);
            }
        }
        if !kept.0.is_none() || !self.also.stamps.is_empty() {
            self.also.ensure(granules);
            self.also.set(g, kept.0, kept.1);
        }
        for reads in &mut self.reads {
            let (first, block) = reads.get(g);
            if first.is_none() {
                continue;
            }
            let ordered = threads.ordered(block, first, warp, lane);
            if !ordered && races(first, block, own, threads.block) {
                if *told != first {
                    out.push(Conflict { first_block: block, first, second: own, address, same_value: false });
                    *told = first;
                }
                reads.set(g, Stamp::NONE, 0);
            } else if ordered && first.strength() >= own.strength() {
                reads.set(g, Stamp::NONE, 0);
            }
        }
        self.writes.ensure(granules);
        self.writes.set(g, own, threads.block);
    }
}
