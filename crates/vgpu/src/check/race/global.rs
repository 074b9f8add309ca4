//! Shadow of global memory, shared by all workers of a launch.
//!
//! Pages are created on first use and consist of rows of 64 bytes. Most rows are accessed as a whole by neighbouring
//! lanes of one warp. Such a row is one record: the stamp of the first lane, the bytes per lane, and the block. A row
//! that is accessed in any other way is divided into sectors of 16 bytes, which are recorded in the same way. A sector
//! that is not accessed as a whole either gets one word per granule (four bytes, or smaller if an access is smaller).
//!
//! The shadow keeps the last write, up to two reads, and a second write while strong writes accumulate. The two readers
//! are chosen to be as far apart as possible (blocks, then warps, then lanes), because a write that misses one
//! synchronisation misses it for all far threads alike. The sample never causes a false report. It can miss a race only
//! if more than two unordered threads read one granule and the write is synchronised with the sampled ones but not with
//! all of them.
//!
//! A page has a lock, which is held for the lanes of an access that fall into the page. Two workers in one page see
//! each other's accesses in one order or the other, and either order finds the race.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::agent_reads::is_generic;
use super::conflict::{Clash, Conflict, Conflicts, clash, compare, is_other_value, is_witnessed};
use super::event::{Equality, Op, StoredValues, Strength};
use super::flags::Flags;
use super::report::RaceKind;
use super::stamp::{Stamp, TIME, WHO};
use super::threads::{ProxySpace, Threads};
use crate::mem::Touched;
use crate::num::simd::per_isa;

const PAGE: u64 = 12;
/// Two to this power are the bytes of a sector: a row of an `mma` fragment, a vector of four words, or a row of
/// `ldmatrix`.
const SECTOR: u64 = 4;
const SECTOR_BYTES: usize = 1 << SECTOR;
/// Two to this power are the bytes of a row: half of what a warp usually loads at once, and a row of many tiles.
const ROW: u64 = 6;
const ROW_BYTES: usize = 1 << ROW;
const SECTORS: usize = ROW_BYTES / SECTOR_BYTES;

/// An access to a whole row or sector by adjacent lanes, or an access to one granule.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// The stamp of the first lane.
    stamp: Stamp,
    block: u32,
    /// Two to this power are the bytes per lane.
    lane_bytes: u32,
}

impl Record {
    #[inline(always)]
    fn is_none(self) -> bool {
        self.stamp.is_none()
    }

    /// Whether both records have the same lanes of the same warp and block at the same bytes.
    #[inline(always)]
    fn same_lanes(self, other: Record) -> bool {
        (self.stamp.0 ^ other.stamp.0) & (1 << 63 | 0x3ff) == 0
            && self.block == other.block
            && self.lane_bytes == other.lane_bytes
    }

    /// Whether both records are of one access: parts of a long access may be recorded before all of it is checked.
    fn is_part_of(self, own: Record) -> bool {
        self.block == own.block && self.stamp == own.stamp
    }

    /// Distance of two readers: different blocks are farther apart than different warps, and those than different
    /// lanes.
    #[inline(always)]
    fn apart(a: Record, b: Record) -> u32 {
        if a.block == b.block { u32::from(a.stamp.warp() != b.stamp.warp()) } else { 2 }
    }

    /// The record at a byte of the row or sector.
    fn at(self, byte: usize) -> Record {
        if self.is_none() {
            return self;
        }
        Record { stamp: self.stamp.with_lane(self.stamp.lane() + (byte >> self.lane_bytes)), ..self }
    }
}

/// The accesses to a row or sector.
#[derive(Clone, Copy, Debug, Default)]
struct Accesses {
    write: Record,
    reads: [Record; 2],
}

/// In `write.lane_bytes`: the row is stored sector by sector in `sectors[write.block]`, or the sector is stored granule
/// by granule in `fine[write.block]`.
const DIVIDED: u32 = u32::MAX;

/// A sector stored granule by granule.
#[derive(Debug, Default)]
struct Fine {
    shift: u32,
    writes: Vec<Record>,
    also: Vec<Record>,
    reads: [Vec<Record>; 2],
}

#[derive(Debug)]
struct PageData {
    rows: Box<[Accesses]>,
    sectors: Vec<[Accesses; SECTORS]>,
    fine: Vec<Fine>,
}

#[derive(Debug)]
struct Page {
    taken: AtomicBool,
    /// One bit per sector. It is set if nobody has written the sector and two blocks have read it, so that one more
    /// read would not be kept. It is read without the lock: a write that is reported at the same time is checked
    /// against the reads that are kept.
    settled: Box<[AtomicU8]>,
    data: UnsafeCell<PageData>,
}

// SAFETY: `data` is only reached through `Page::lock`, which admits one thread at a time.
unsafe impl Sync for Page {}

struct PageGuard<'p>(&'p Page);

impl Page {
    fn new(bytes: u64) -> Page {
        let rows = vec![Accesses::default(); bytes.div_ceil(1 << ROW) as usize].into_boxed_slice();
        let settled = (0..(rows.len() * SECTORS).div_ceil(8)).map(|_| AtomicU8::new(0)).collect();
        Page {
            taken: AtomicBool::new(false),
            settled,
            data: UnsafeCell::new(PageData { rows, sectors: Vec::new(), fine: Vec::new() }),
        }
    }

    #[inline(always)]
    fn is_settled(&self, sector: usize) -> bool {
        self.settled[sector / 8].load(Ordering::Relaxed) >> (sector % 8) & 1 == 1
    }

    #[inline(always)]
    fn settle(&self, sector: usize, settled: bool) {
        if settled != self.is_settled(sector) {
            self.settled[sector / 8].fetch_xor(1 << (sector % 8), Ordering::Relaxed);
        }
    }

    /// Whether all sectors of a row are settled.
    #[inline(always)]
    fn is_row_settled(&self, row: usize) -> bool {
        let (byte, bits) = Self::row_bits(row);
        self.settled[byte].load(Ordering::Relaxed) & bits == bits
    }

    #[inline(always)]
    fn settle_row(&self, row: usize, settled: bool) {
        if settled != self.is_row_settled(row) {
            let (byte, bits) = Self::row_bits(row);
            if settled {
                self.settled[byte].fetch_or(bits, Ordering::Relaxed);
            } else {
                self.settled[byte].fetch_and(!bits, Ordering::Relaxed);
            }
        }
    }

    /// The byte of `settled` that has the bits of a row, and these bits.
    #[inline(always)]
    fn row_bits(row: usize) -> (usize, u8) {
        let first = row * SECTORS;
        (first / 8, ((1 << SECTORS) - 1) << (first % 8))
    }

    /// Clears the settled bits of the sectors of an access.
    fn unsettle(&self, offset: u64, bytes: u32) {
        for sector in offset >> SECTOR..=(offset + u64::from(bytes.max(1)) - 1) >> SECTOR {
            self.settle(sector as usize, false);
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
    /// Whether the launch has written to it.
    written: AtomicBool,
}

impl Region {
    #[inline(always)]
    fn note(&self, op: Op) {
        if op != Op::Read && !self.written.load(Ordering::Relaxed) {
            self.written.store(true, Ordering::Relaxed);
        }
    }
}

const SHARDS: usize = 64;

/// Number of bytes that each lane accesses.
#[derive(Clone, Copy, Debug)]
pub enum LaneBytes<'a> {
    All(u32),
    Each(&'a [u32; 32]),
}

impl LaneBytes<'_> {
    fn get(self, lane: usize) -> u32 {
        match self {
            LaneBytes::All(bytes) => bytes,
            LaneBytes::Each(bytes) => bytes[lane],
        }
    }
}

/// An access to global memory by the lanes of one instruction.
#[derive(Clone, Copy)]
pub struct GlobalAccess<'a> {
    pub mask: u32,
    /// The stamp of lane 0.
    pub stamp: Stamp,
    pub address: &'a [u64; 32],
    pub bytes: LaneBytes<'a>,
    pub values: &'a dyn StoredValues,
}

/// A part of one lane's access: a range that starts at an offset from the start of a page or sector.
struct Piece {
    base: u64,
    offset: u64,
    bytes: u32,
}

/// The global memory of one launch, as the race checker sees it.
#[derive(Debug)]
pub struct GlobalRaces {
    regions: Vec<Region>,
    flags: Vec<Mutex<Flags>>,
    /// Whether anything was ever published.
    any_flag: AtomicBool,
    hash: RandomState,
    /// The copies that may still read a tensor map, by its address: their blocks and stamps.
    map_readers: Mutex<HashMap<u64, Vec<(u32, Stamp)>>>,
}

/// Maximum number of copies remembered per tensor map.
const MAX_MAP_READERS: usize = 1 << 10;

impl GlobalRaces {
    /// Memory with these allocations (address, bytes). Accesses elsewhere are ignored.
    pub fn new(allocations: impl IntoIterator<Item = (u64, u64)>) -> GlobalRaces {
        let mut regions: Vec<Region> = allocations
            .into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(base, bytes)| {
                // Pages start with the row that the allocation starts in.
                let start = base & !(ROW_BYTES as u64 - 1);
                let (base, bytes) = (start, bytes + (base - start));
                let pages = (0..bytes.div_ceil(1 << PAGE)).map(|_| OnceLock::new()).collect();
                Region { base, bytes, pages, written: AtomicBool::new(false) }
            })
            .collect();
        regions.sort_by_key(|r| r.base);
        GlobalRaces {
            regions,
            flags: (0..SHARDS).map(|_| Mutex::default()).collect(),
            any_flag: AtomicBool::new(false),
            hash: RandomState::new(),
            map_readers: Mutex::default(),
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

    /// The page of an address, the first address of the page, and the first address after the page.
    #[inline(always)]
    fn page(&self, address: u64, op: Op, hint: &mut usize) -> Option<(&Page, u64, u64)> {
        let r = self.region(address, hint)?;
        r.note(op);
        let number = (address - r.base) >> PAGE;
        let start = r.base + (number << PAGE);
        let bytes = (r.bytes - (number << PAGE)).min(1 << PAGE);
        let page = r.pages[number as usize].get_or_init(|| Box::new(Page::new(bytes)));
        Some((page, start, start + bytes))
    }

    /// The last access of the launch that has written to a range of a few bytes.
    pub(super) fn writer(&self, address: u64, bytes: u32, hint: &mut usize) -> Option<(u32, Stamp)> {
        if !self.region(address, hint)?.written.load(Ordering::Relaxed) {
            return None;
        }
        let (page, start, end) = self.page(address, Op::Read, hint)?;
        let data = page.lock();
        let mut at = address - start;
        while at < (address - start + u64::from(bytes)).min(end - start) {
            let write = data.write_at(at);
            if !write.is_none() {
                return Some((write.block, write.stamp));
            }
            at += 1;
        }
        None
    }

    /// The ranges that the launch accessed, sorted by address.
    pub fn touched(&self) -> Vec<Touched> {
        let mut all: Vec<Touched> = Vec::new();
        for region in &self.regions {
            for (number, page) in (0u64..).zip(&region.pages) {
                let Some(page) = page.get() else { continue };
                let start = region.base + (number << PAGE);
                let end = (region.base + region.bytes).min(start + (1 << PAGE));
                page.lock().touched(start, &mut |address, bytes, written| {
                    let bytes = bytes.min(end.saturating_sub(address));
                    match all.last_mut() {
                        Some(last) if last.address + last.bytes == address && last.written == written => {
                            last.bytes += bytes;
                        }
                        _ if bytes > 0 => all.push(Touched { address, bytes, written }),
                        _ => {}
                    }
                });
            }
        }
        all
    }

    /// Records that an agent reads a tensor map.
    pub(super) fn read_map(&self, address: u64, block: u32, stamp: Stamp) {
        let mut readers = self.map_readers.lock().unwrap_or_else(PoisonError::into_inner);
        let readers = readers.entry(address).or_default();
        let is_same = |(from, old): &(u32, Stamp)| *from == block && old.0 & WHO == stamp.0 & WHO;
        if let Some(reader) = readers.iter_mut().find(|reader| is_same(reader)) {
            reader.1 = stamp;
        } else if readers.len() < MAX_MAP_READERS {
            readers.push((block, stamp));
        }
    }

    /// Takes the agents that have read a tensor map since it was last changed.
    pub(super) fn take_map_readers(&self, address: u64) -> Vec<(u32, Stamp)> {
        let mut readers = self.map_readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.remove(&address).unwrap_or_default()
    }

    /// Whether anything was ever published.
    pub(super) fn has_flags(&self) -> bool {
        self.any_flag.load(Ordering::SeqCst)
    }

    /// The published flags of a word. `None` if nothing was ever published and `create` is false.
    pub(super) fn flags(&self, word: u64, create: bool) -> Option<MutexGuard<'_, Flags>> {
        if create {
            self.any_flag.store(true, Ordering::SeqCst);
        } else if !self.any_flag.load(Ordering::SeqCst) {
            return None;
        }
        let shard = self.hash.hash_one(word) as usize % SHARDS;
        Some(self.flags[shard].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks the accesses of lanes. `found.observed` receives the strong writes by other threads that a strong access
    /// finds.
    pub(super) fn access(
        &self,
        threads: &Threads,
        hint: &mut usize,
        access: &GlobalAccess<'_>,
        found: &mut Found,
    ) {
        let &GlobalAccess { mask, stamp, address, bytes, values } = access;
        let mut left = mask;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let Some((page, start, end)) = self.page(address[lane], stamp.op(), hint) else {
                left &= left - 1;
                continue;
            };
            let mut data = page.lock();
            // Handles all following lanes in the same page under one lock.
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                let at = address[lane];
                if at < start || at >= end {
                    break;
                }
                left &= left - 1;
                let wanted = u64::from(bytes.get(lane));
                let here = wanted.min(end - at) as u32;
                let own = stamp.with_lane(lane);
                page.unsettle(at - start, here);
                data.touch(
                    threads,
                    &Piece { base: start, offset: at - start, bytes: here },
                    own,
                    values,
                    found,
                );
                if wanted > end - at {
                    drop(data);
                    // The access crosses the end of the page: the rest is in the next page.
                    if let Some((next, from, to)) = self.page(end, stamp.op(), hint) {
                        let rest = (wanted - u64::from(here)).min(to - end) as u32;
                        next.unsettle(end - from, rest);
                        let piece = Piece { base: from, offset: end - from, bytes: rest };
                        next.lock().touch(threads, &piece, own, values, found);
                    }
                    data = page.lock();
                }
            }
        }
    }

    /// The usual access: weak, with runs of adjacent lanes that cover whole rows or sectors. Handles what it can and
    /// returns the lanes that are left.
    #[inline]
    pub(super) fn access_runs(&self, threads: &Threads, hint: &mut usize, access: &GlobalAccess<'_>) -> u32 {
        let &GlobalAccess { mask, stamp, address, .. } = access;
        let LaneBytes::All(bytes) = access.bytes else { return mask };
        if !bytes.is_power_of_two() {
            return mask;
        }
        let shift = bytes.trailing_zeros();
        let (sector, row) = (Run::new(SECTOR, shift), Run::new(ROW, shift));
        let limit = u64::from(threads.floor() + 1) << TIME;
        let (aligned, side_by_side) = adjacent_lanes(address, u64::from(bytes));
        let is_whole = |lane: usize, run: Run| {
            mask >> lane & run.mask == run.mask
                && aligned >> lane & 1 == 1
                && side_by_side >> lane & run.mask >> 1 == run.mask >> 1
        };
        let mut left = mask;
        let mut lane = 0;
        let lone_reads = stamp.op() == Op::Read && !threads.knows_other_blocks();
        let mut page: Option<(&Page, u64, u64)> = None;
        let mut held: Option<PageGuard<'_>> = None;
        while lane + sector.lanes <= 32 {
            let at = address[lane];
            if !is_whole(lane, sector) {
                lane += 1;
                continue;
            }
            let by_row = at.is_multiple_of(ROW_BYTES as u64) && lane + row.lanes <= 32 && is_whole(lane, row);
            let run = if by_row { row } else { sector };
            if page.is_none_or(|(_, start, end)| at < start || at >= end) {
                held = None;
                page = self.page(at, stamp.op(), hint);
            }
            if let Some((page, start, end)) = page
                && at + u64::from(bytes).max(run.bytes) <= end
            {
                let own = Record { stamp: stamp.with_lane(lane), block: threads.block, lane_bytes: shift };
                let first = ((at - start) >> run.shift) as usize;
                let parts = first..first + (bytes as usize >> run.shift).max(1);
                let mut clear = true;
                for part in parts {
                    let settled =
                        lone_reads && if by_row { page.is_row_settled(part) } else { page.is_settled(part) };
                    if !settled {
                        let data = held.get_or_insert_with(|| page.lock());
                        clear &= if by_row {
                            data.access_row(page, part, threads, (own, limit), access.values)
                        } else {
                            data.access_sector(page, part, threads, (own, limit), access.values)
                        };
                    }
                }
                if clear {
                    left &= !(run.mask << lane);
                }
            }
            lane += run.lanes;
        }
        left
    }
}

/// The lanes that cover a row or sector.
#[derive(Clone, Copy)]
struct Run {
    /// Two to this power are the bytes of the row or sector.
    shift: u64,
    bytes: u64,
    lanes: usize,
    mask: u32,
}

impl Run {
    #[inline(always)]
    fn new(shift: u64, lane_bytes: u32) -> Run {
        // A row of bytes needs more lanes than a warp has.
        let lanes = ((1usize << shift) >> lane_bytes).max(1);
        let mask = if lanes < 32 { (1 << lanes) - 1 } else { u32::MAX };
        Run { shift, bytes: 1 << shift, lanes, mask }
    }
}

#[inline(always)]
fn adjacent_lanes_body<const WIDE: bool>(address: &[u64; 32], bytes: u64) -> (u32, u32) {
    // Computed per lane and then combined with or, so that it compiles to a few vector comparisons.
    let (mut aligned, mut next) = ([0u32; 32], [0u32; 32]);
    for l in 0..32 {
        aligned[l] = u32::from(address[l].is_multiple_of(SECTOR_BYTES as u64)) << l;
    }
    for l in 0..31 {
        next[l] = u32::from(address[l].wrapping_add(bytes) == address[l + 1]) << l;
    }
    (aligned.iter().fold(0, |m, l| m | l), next.iter().fold(0, |m, l| m | l))
}

per_isa! {
    /// The lanes at the start of a sector, and the lanes whose data the next lane continues.
    fn adjacent_lanes = adjacent_lanes_body where (address: &[u64; 32], bytes: u64) -> (u32, u32);
}

/// What an access has found.
#[derive(Debug, Default)]
pub struct Found {
    /// The memory that the access is to.
    pub space: ProxySpace,
    pub conflicts: Conflicts,
    /// Strong writes by other threads, and their blocks.
    pub observed: Vec<(u32, Stamp)>,
}

impl Found {
    /// Maximum number of strong writes remembered from one access. They serve only as explanation.
    const OBSERVED: usize = 2;

    /// Records a race, once per lane and earlier access.
    fn conflict(&mut self, first: Record, own: Record, address: u64, equality: Equality) {
        let conflict = Conflict::new((first.block, first.stamp), own.stamp, address);
        self.conflicts.push_once(Conflict { equality, ..conflict });
    }

    /// Records a copy that is ordered after a write of another proxy, but without a proxy fence.
    fn check_proxy(&mut self, threads: &Threads, first: Record, own: Record, address: u64) {
        let (warp, mask) = (own.stamp.warp(), 1 << own.stamp.lane());
        if needs_proxy_fence(first, own)
            && !threads.proxied_from(self.space, first.block, first.stamp, warp, mask)
        {
            let conflict = Conflict::new((first.block, first.stamp), own.stamp, address);
            let although_ordered = Some(RaceKind::MissingProxyFence);
            self.conflicts.push_once(Conflict { although_ordered, ..conflict });
        }
    }

    fn observe(&mut self, first: Record) {
        let seen = (first.block, first.stamp);
        if self.observed.len() < Self::OBSERVED && self.observed.last() != Some(&seen) {
            self.observed.push(seen);
        }
    }
}

/// Whether a bulk copy reads or overwrites what a thread wrote.
#[inline(always)]
fn needs_proxy_fence(first: Record, own: Record) -> bool {
    own.stamp.is_agent() && !is_generic(own.stamp) && !first.is_none() && is_generic(first.stamp)
}

impl Accesses {
    /// Marks a row or sector that is stored in smaller parts.
    fn divided(index: usize) -> Accesses {
        let write = Record { stamp: Stamp(1 << 63), block: index as u32, lane_bytes: DIVIDED };
        Accesses { write, ..Accesses::default() }
    }

    /// Where the smaller parts are stored.
    #[inline(always)]
    fn parts(&self) -> Option<usize> {
        (self.write.lane_bytes == DIVIDED).then_some(self.write.block as usize)
    }

    /// Whether nobody has written and two blocks have read.
    #[inline(always)]
    fn is_settled(&self) -> bool {
        let [one, two] = self.reads;
        self.write.is_none() && !one.is_none() && !two.is_none() && one.block != two.block
    }

    /// Checks a weak access to the whole row or sector, if it is certain that nothing races. Otherwise returns false.
    #[inline(always)]
    fn access(&mut self, threads: &Threads, own: Record, limit: u64, values: &dyn StoredValues) -> bool {
        // The record is empty, or from this block before its last barrier, or from the same lanes.
        let clear = |r: Record| {
            r.is_none()
                || r.block == own.block && r.stamp.0 < limit && r.lane_bytes != DIVIDED
                || r.same_lanes(own)
        };
        let [one, two] = self.reads;
        if !clear(self.write) || needs_proxy_fence(self.write, own) {
            return false;
        }
        if own.stamp.op() != Op::Read {
            if !clear(one) || !clear(two) || is_other_value(self.write.stamp, own.stamp, values) {
                return false;
            }
            self.write = own;
            self.reads = Default::default();
            return true;
        }
        if clear(one) {
            self.reads[0] = own;
            if !two.is_none() && clear(two) {
                self.reads[1] = Record::default();
            }
            return true;
        }
        if threads.knows_other_blocks() {
            return false;
        }
        // The same choice as in `Fine::read`.
        if clear(two) || Record::apart(one, own) > Record::apart(one, two) {
            self.reads[1] = own;
        }
        true
    }
}

impl PageData {
    /// Checks a weak access of adjacent lanes to a whole row. Returns false if it may race.
    #[inline(always)]
    fn access_row(
        &mut self,
        page: &Page,
        number: usize,
        threads: &Threads,
        (own, limit): (Record, u64),
        values: &dyn StoredValues,
    ) -> bool {
        let row = &mut self.rows[number];
        let Some(index) = row.parts() else {
            let clear = row.access(threads, own, limit, values);
            page.settle_row(number, row.is_settled());
            return clear;
        };
        let mut clear = true;
        for (i, sector) in self.sectors[index].iter_mut().enumerate() {
            clear &= sector.access(threads, own.at(i * SECTOR_BYTES), limit, values);
            page.settle(number * SECTORS + i, sector.is_settled());
        }
        clear
    }

    /// Checks a weak access of adjacent lanes to a whole sector. Returns false if it may race.
    #[inline(always)]
    fn access_sector(
        &mut self,
        page: &Page,
        number: usize,
        threads: &Threads,
        (own, limit): (Record, u64),
        values: &dyn StoredValues,
    ) -> bool {
        let sector = self.sector(number);
        let clear = sector.access(threads, own, limit, values);
        page.settle(number, sector.is_settled());
        clear
    }

    /// Calls a function with every accessed part of the page: its address, its size, and whether it was written.
    fn touched(&self, start: u64, part: &mut dyn FnMut(u64, u64, bool)) {
        let is_accessed = |it: &Accesses| !it.write.is_none() || it.reads.iter().any(|read| !read.is_none());
        for (row, accesses) in (0u64..).zip(&self.rows) {
            let at = start + (row << ROW);
            let Some(index) = accesses.parts() else {
                if is_accessed(accesses) {
                    part(at, ROW_BYTES as u64, !accesses.write.is_none());
                }
                continue;
            };
            for (number, sector) in (0u64..).zip(&self.sectors[index]) {
                let at = at + (number << SECTOR);
                let Some(index) = sector.parts() else {
                    if is_accessed(sector) {
                        part(at, SECTOR_BYTES as u64, !sector.write.is_none());
                    }
                    continue;
                };
                let fine = &self.fine[index];
                for g in 0..SECTOR_BYTES >> fine.shift {
                    let written = !Fine::get(&fine.writes, g).is_none();
                    if written || fine.reads.iter().any(|reads| !Fine::get(reads, g).is_none()) {
                        part(at + ((g as u64) << fine.shift), 1 << fine.shift, written);
                    }
                }
            }
        }
    }

    /// The last write of a byte of the page.
    fn write_at(&self, offset: u64) -> Record {
        let row = &self.rows[(offset >> ROW) as usize];
        let Some(index) = row.parts() else { return row.write.at((offset % (1 << ROW)) as usize) };
        let sector = &self.sectors[index][(offset >> SECTOR) as usize % SECTORS];
        let byte = (offset % (1 << SECTOR)) as usize;
        match sector.parts() {
            None => sector.write.at(byte),
            Some(index) => Fine::get(&self.fine[index].writes, byte >> self.fine[index].shift),
        }
    }

    /// The accesses to a sector. Divides its row.
    #[inline(always)]
    fn sector(&mut self, number: usize) -> &mut Accesses {
        let row = &mut self.rows[number / SECTORS];
        let index = row.parts().unwrap_or_else(|| {
            let at = |i: usize| Accesses {
                write: row.write.at(i * SECTOR_BYTES),
                reads: row.reads.map(|read| read.at(i * SECTOR_BYTES)),
            };
            self.sectors.push(std::array::from_fn(at));
            *row = Accesses::divided(self.sectors.len() - 1);
            self.sectors.len() - 1
        });
        &mut self.sectors[index][number % SECTORS]
    }

    /// Checks the access of one lane to a piece of the page.
    fn touch(
        &mut self,
        threads: &Threads,
        piece: &Piece,
        own: Stamp,
        values: &dyn StoredValues,
        found: &mut Found,
    ) {
        let &Piece { base: page, offset, bytes } = piece;
        let own = Record { stamp: own, block: threads.block, lane_bytes: 0 };
        let end = offset + u64::from(bytes);
        let mut at = offset;
        while at < end {
            let number = (at >> SECTOR) as usize;
            let stop = end.min((at | (SECTOR_BYTES as u64 - 1)) + 1);
            let sector = *self.sector(number);
            let index = sector.parts().unwrap_or_else(|| {
                self.fine.push(Fine::new(sector));
                *self.sector(number) = Accesses::divided(self.fine.len() - 1);
                self.fine.len() - 1
            });
            let fine = &mut self.fine[index];
            let piece = Piece {
                base: page + ((number as u64) << SECTOR),
                offset: at & (SECTOR_BYTES as u64 - 1),
                bytes: (stop - at) as u32,
            };
            fine.touch(threads, &piece, own, values, found);
            at = stop;
        }
    }
}

impl Fine {
    fn new(sector: Accesses) -> Fine {
        let kinds = [sector.write, sector.reads[0], sector.reads[1]];
        let finest = kinds.iter().filter(|r| !r.is_none()).map(|r| r.lane_bytes).min().unwrap_or(2);
        let shift = finest.min(2);
        let [writes, one, two] = kinds.map(|r| {
            if r.is_none() {
                Vec::new()
            } else {
                (0..SECTOR_BYTES >> shift).map(|g| r.at(g << shift)).collect()
            }
        });
        Fine { shift, writes, also: Vec::new(), reads: [one, two] }
    }

    fn refine(&mut self, shift: u32) {
        let factor = 1 << (self.shift - shift);
        let [one, two] = &mut self.reads;
        for kind in [&mut self.writes, &mut self.also, one, two] {
            *kind = kind.iter().flat_map(|r| std::iter::repeat_n(*r, factor)).collect();
        }
        self.shift = shift;
    }

    fn touch(
        &mut self,
        threads: &Threads,
        piece: &Piece,
        own: Record,
        values: &dyn StoredValues,
        found: &mut Found,
    ) {
        let &Piece { base: sector, offset, bytes } = piece;
        let fits = (offset as u32 | bytes).trailing_zeros().min(2);
        if fits < self.shift {
            self.refine(fits);
        }
        let first = (offset >> self.shift) as usize;
        let last = ((offset + u64::from(bytes) - 1) >> self.shift) as usize;
        found.conflicts.last = Stamp::NONE;
        for g in first..=last {
            let address = sector + ((g as u64) << self.shift);
            if own.stamp.op() == Op::Read {
                self.read(threads, (g, address), own, found);
            } else {
                self.write(threads, (g, address), own, values, found);
            }
        }
    }

    fn get(kind: &[Record], g: usize) -> Record {
        kind.get(g).copied().unwrap_or_default()
    }

    fn set(&self, kind: &mut Vec<Record>, g: usize, record: Record) {
        if kind.is_empty() {
            if record.is_none() {
                return;
            }
            kind.resize(SECTOR_BYTES >> self.shift, Record::default());
        }
        kind[g] = record;
    }

    /// Checks a read of a granule, given by its number in the sector and its address.
    fn read(&mut self, threads: &Threads, (g, address): (usize, u64), own: Record, found: &mut Found) {
        let (warp, lane) = (own.stamp.warp(), own.stamp.lane());
        let ordered = |r: Record| r.is_part_of(own) || threads.ordered(r.block, r.stamp, warp, lane);
        for first in [Self::get(&self.writes, g), Self::get(&self.also, g)] {
            if first.is_none() {
                continue;
            }
            if ordered(first) {
                found.check_proxy(threads, first, own, address);
                continue;
            }
            let clash = clash(first.stamp, first.block, own.stamp, own.block);
            if clash != Clash::Nothing {
                found.conflict(first, own, address, Equality::Unknown);
            }
            if clash != Clash::Race {
                found.observe(first);
            }
        }
        let [one, two] = [0, 1].map(|i| Self::get(&self.reads[i], g));
        // A read that is ordered before this one and not weaker adds no information.
        let behind = |r: Record| r.is_none() || own.stamp.strength() <= r.stamp.strength() && ordered(r);
        let place = if behind(one) {
            if !two.is_none() && behind(two) {
                self.reads[1][g] = Record::default();
            }
            0
        } else if behind(two) || Record::apart(one, own) > Record::apart(one, two) {
            1
        } else {
            return;
        };
        let mut kind = std::mem::take(&mut self.reads[place]);
        self.set(&mut kind, g, own);
        self.reads[place] = kind;
    }

    /// Checks a write of a granule, given by its number in the sector and its address.
    fn write(
        &mut self,
        threads: &Threads,
        (g, address): (usize, u64),
        own: Record,
        values: &dyn StoredValues,
        found: &mut Found,
    ) {
        let (warp, lane) = (own.stamp.warp(), own.stamp.lane());
        let ordered = |r: Record| r.is_part_of(own) || threads.ordered(r.block, r.stamp, warp, lane);
        let mut kept = Record::default();
        // A weak write after a strong access that saw the earlier strong writes: causality orders those writes before
        // it (example: the last block resets the counter). This does not hold for a weak read: which writes the thread's
        // own atomic saw differs from run to run, and the others would race.
        let last = Self::get(&self.writes, g);
        let strong_read = |r: Record| !r.is_none() && r.stamp.strength() != Strength::Weak && ordered(r);
        let seen = self.reads.iter().any(|reads| strong_read(Self::get(reads, g)));
        let weak_write = own.stamp.op() == Op::Write && own.stamp.strength() == Strength::Weak;
        let saw = || last.stamp.op() == Op::Atomic && ordered(last) || seen;
        let witnessed = weak_write && is_witnessed(values, saw);
        // A thread that polled a flag and then sets it is ordered after the flag's writers.
        let polled = own.stamp.is_volatile() && seen;
        for first in [Self::get(&self.also, g), last] {
            if first.is_none() || witnessed && first.stamp.strength() != Strength::Weak {
                continue;
            }
            if ordered(first) {
                found.check_proxy(threads, first, own, address);
                // See `SharedShadow::write_granule`.
                if first.stamp.strength() < own.stamp.strength()
                    || is_other_value(first.stamp, own.stamp, values)
                {
                    kept = first;
                }
                continue;
            }
            let mut harmless = true;
            let clash = clash(first.stamp, first.block, own.stamp, own.block);
            if clash == Clash::Race || clash == Clash::Volatile && !polled {
                let equality = compare((first.block, first.stamp), (own.block, own.stamp), values);
                found.conflict(first, own, address, equality);
                harmless = equality != Equality::Unknown || clash == Clash::Volatile;
            }
            if clash != Clash::Race && own.stamp.op() == Op::Atomic {
                found.observe(first);
            }
            let far = first.block != own.block || first.stamp.warp() != warp;
            let weak_kept = !kept.is_none() && kept.stamp.strength() == Strength::Weak;
            if harmless && !weak_kept && (kept.is_none() || far) {
                kept = first;
            }
        }
        for place in 0..2 {
            let first = Self::get(&self.reads[place], g);
            if first.is_none() {
                continue;
            }
            let behind = ordered(first);
            let clash = clash(first.stamp, first.block, own.stamp, own.block);
            let race = !behind && clash == Clash::Race;
            if !behind && clash != Clash::Nothing {
                found.conflict(first, own, address, Equality::Unknown);
            }
            if race || behind && first.stamp.strength() >= own.stamp.strength() {
                self.reads[place][g] = Record::default();
            }
        }
        let (mut also, mut writes) = (std::mem::take(&mut self.also), std::mem::take(&mut self.writes));
        self.set(&mut also, g, kept);
        self.set(&mut writes, g, own);
        (self.also, self.writes) = (also, writes);
    }
}
