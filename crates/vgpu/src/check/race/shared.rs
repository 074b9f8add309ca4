//! Shadow of the shared memory of a block. It is exact: it keeps every access that could still race (with the exception
//! described at `also`).
//!
//! Memory is divided into lines of 128 bytes, and each line into granules (four bytes, or smaller if the kernel makes a
//! smaller access there). A granule holds the stamp of its last write and of its readers. A line holds the latest times
//! of its granules, so that a look at the lines decides most accesses.
//!
//! Reads are entered into the granules in one of two ways. At first they go into a log. A block-wide barrier discards
//! the log, because it orders all logged reads. A write to a line that was read since the barrier first enters the
//! logged reads. So the usual kernel (fill, barrier, read often, barrier) pays one look at the lines and one log entry
//! per read. A line that is written while its readers still count becomes *eager*: from then on its reads are entered
//! immediately.
//!
//! Whole rows and tiles ([`Tile`]) are checked run by run. If the past of every granule is settled or belongs to the
//! same thread, which a few vector instructions determine, nothing races. All other accesses are checked lane by lane.

use std::ops::RangeInclusive;

use super::agent_reads::is_generic;
use super::conflict::{
    AccessPattern, Clash, Conflict, Conflicts, Shape, clash, compare, is_other_value, is_witnessed,
};
use super::event::{Equality, Op, Ranges, StoredValues, Strength};
use super::readers::{READER, Readers};
use super::report::RaceKind;
use super::stamp::{Stamp, THREAD, TIME, WHO};
use super::threads::{ProxySpace, Threads};
use super::tile::{Part, Tile, fill};
use crate::lanes::lanes;
use crate::num::simd::per_isa;

const LINE: u32 = 7;
/// Marks a line that contains an asynchronous access. The time of such an access says nothing about barriers.
const ASYNCHRONOUS: u32 = u32::MAX;
/// Number of logged reads after which the log is entered into the granules anyway.
const MAX_LOG: usize = 1 << 14;
/// Number of reads that may stay in the log when a write enters other reads. Every such write must scan the rest.
const MAX_REST: usize = 64;
/// Up to this number of lines, all lines of an access are checked together instead of lane by lane.
const CLOSE: usize = 16;
/// Number of lines in which the words of a read can be counted by bytes.
const NEAR_LINES: u32 = 8;

/// A line of 128 bytes. It stores the latest times of its accesses, for a cheap proof that nothing in it can race.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Line {
    writes: u32,
    reads: u32,
    /// Time of the latest read that is in the log.
    logged: u32,
    /// Floor at which a line marked `ASYNCHRONOUS` was last scanned.
    scanned: u32,
    /// The only warp with accesses since the last block-wide barrier, or `MANY`.
    owner: u32,
    /// Index of the first granule of the line.
    granules: u32,
    /// Granules are `1 << shift` bytes.
    shift: u8,
    eager: bool,
    /// Some granule of the line has had a second write in `also`.
    also: bool,
}

const MANY: u32 = u32::MAX;

impl Line {
    /// Call before an access by `warp`. Returns the time up to which everything in the line is ordered before the
    /// access: the floor of the block, or the warp's own last synchronisation if only this warp uses the line.
    #[inline(always)]
    fn settled(&mut self, warp: u32, floor: u32, synced: u32) -> u32 {
        if self.writes.max(self.reads) <= floor {
            self.owner = warp;
        } else if self.owner != warp {
            self.owner = MANY;
            return floor;
        }
        floor.max(synced)
    }

    #[inline(always)]
    fn granule(&self, address: u32) -> usize {
        self.granules as usize + ((address & ((1 << LINE) - 1)) >> self.shift) as usize
    }

    /// The granules of `bytes` bytes at an address of the line.
    #[inline(always)]
    fn range(&self, address: u32, bytes: u32) -> std::ops::Range<usize> {
        let first = self.granule(address);
        first..self.granule(address + bytes.max(1) - 1) + 1
    }

    /// The address of the granule `index` after the granule of an address of the line.
    fn address(&self, address: u32, index: usize) -> u64 {
        u64::from((address >> self.shift) + index as u32) << self.shift
    }

    #[inline(always)]
    fn wrote(&mut self, time: u32, floor: u32) {
        self.writes = self.writes.max(time);
        if time == ASYNCHRONOUS {
            self.scanned = floor;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct LoggedRead {
    stamp: Stamp,
    mask: u32,
    bytes: u32,
    how: Logged,
    /// Address range that contains everything the read touches.
    span: (u32, u32),
}

#[derive(Clone, Copy, Debug)]
enum Logged {
    Point,
    /// Each lane reads directly after the previous lane.
    Row,
    /// Words at most 1020 bytes after the first address. Index into `near`.
    Near(u32),
    /// Distance in bytes between runs, and index into `maps`.
    Tile(u32, u32),
    /// Index into `scattered`.
    Scattered(u32),
}

/// The lane of each unit of a tile. A kernel has few different maps.
#[derive(Debug)]
struct LaneMap {
    lanes: Box<[u8]>,
    run: u32,
}

#[derive(Debug, Default)]
pub struct SharedShadow {
    bytes: u32,
    lines: Vec<Line>,
    writes: Vec<Stamp>,
    /// A second write per granule that is not ordered with the last one, from another warp if possible. Strong writes
    /// and writes of the same value do not race with each other, but may race with a later access. Only two such writes
    /// are kept: a later access that is ordered after both but not after a third is not detected.
    also: Vec<Stamp>,
    readers: Readers,
    log: Vec<LoggedRead>,
    scattered: Vec<[u32; 32]>,
    /// The words of lanes, counted from the first address of the read.
    near: Vec<[u8; 32]>,
    maps: Vec<LaneMap>,
    agent_reads: bool,
    /// Strong writes of other threads that the last access found and that are not ordered before it.
    pub seen: Vec<Stamp>,
}

/// An access to shared memory by the lanes of one instruction.
#[derive(Clone, Copy)]
pub struct SharedAccess<'a> {
    pub mask: u32,
    /// The stamp of lane 0.
    pub stamp: Stamp,
    pub ranges: &'a Ranges<'a, u32>,
    pub pattern: &'a AccessPattern,
}

impl SharedAccess<'_> {
    /// The largest granule, as a power of two, that every lane's range is a multiple of. At most four bytes.
    #[inline(always)]
    fn granule_shift(&self) -> u8 {
        (self.pattern.or | self.ranges.bytes).trailing_zeros().min(2) as u8
    }
}

/// The values that are common to everything one instruction does.
#[derive(Clone, Copy)]
struct Context<'t> {
    threads: &'t Threads,
    /// The stamp of lane 0.
    stamp: Stamp,
    warp: u32,
    floor: u32,
    synced: u32,
    /// The time that is stored in the touched lines.
    time: u32,
    weak: bool,
}

impl<'t> Context<'t> {
    fn new(threads: &'t Threads, stamp: Stamp) -> Context<'t> {
        let weak = stamp.strength() == Strength::Weak;
        Context {
            threads,
            stamp,
            warp: stamp.warp() as u32,
            floor: threads.floor(),
            synced: threads.synced(stamp.warp()),
            time: if stamp.is_agent() { ASYNCHRONOUS } else { stamp.time() },
            weak,
        }
    }

    /// Like `new`, for a write. A strong write does not replace weaker writes that it is ordered after, so it must
    /// check them.
    fn for_write(threads: &'t Threads, stamp: Stamp) -> Context<'t> {
        let cx = Context::new(threads, stamp);
        Context { synced: if cx.weak { cx.synced } else { 0 }, ..cx }
    }

    /// Whether a stamp is ordered before the access of a lane.
    fn is_ordered(&self, first: Stamp, lane: usize) -> bool {
        self.threads.ordered_here(first, self.stamp.warp(), lane)
    }
}

/// A granule that an access writes.
#[derive(Clone, Copy)]
struct Granule {
    index: usize,
    address: u64,
    /// True if the granule may have readers that the write must be checked against.
    read: bool,
}

#[inline(always)]
fn below(time: u32) -> u64 {
    u64::from(time + 1) << TIME
}

impl SharedShadow {
    /// Removes all accesses. The granule sizes stay, because the next block runs the same kernel.
    pub fn start(&mut self, bytes: u32) {
        let lines = (bytes as usize).div_ceil(1 << LINE);
        let mut granules = self.writes.len();
        if bytes != self.bytes {
            self.bytes = bytes;
            self.lines.clear();
            self.lines.resize(lines, Line::default());
            granules = lines << (LINE - 2);
            for (i, line) in self.lines.iter_mut().enumerate() {
                line.granules = (i << (LINE - 2)) as u32;
                line.shift = 2;
            }
        }
        for line in &mut self.lines {
            let &mut Line { granules, shift, eager, .. } = line;
            *line = Line { granules, shift, eager, ..Line::default() };
        }
        self.writes.clear();
        self.writes.resize(granules, Stamp::NONE);
        self.also.clear();
        self.readers.start(below(0));
        self.clear_log();
        self.agent_reads = false;
    }

    /// A block-wide barrier: all earlier reads are ordered before everything that follows.
    pub fn on_block_barrier(&mut self, floor: u32) {
        self.readers.on_block_barrier(below(floor), self.agent_reads);
        if self.agent_reads {
            // A barrier does not order the reads of an agent: keep them, and with them all lists.
            self.enter_log((0, u32::MAX));
            return;
        }
        self.clear_log();
    }

    fn clear_log(&mut self) {
        self.log.clear();
        self.scattered.clear();
        self.near.clear();
    }

    /// Splits a line into smaller granules. Its granules move to the end of the tables.
    #[inline(never)]
    fn refine(&mut self, line: usize, shift: u8) {
        let line = &mut self.lines[line];
        let factor = 1usize << (line.shift - shift);
        let old = line.granules as usize..line.granules as usize + (1 << LINE >> line.shift);
        line.granules = self.writes.len() as u32;
        line.shift = shift;
        let spread = |table: &mut Vec<Stamp>| {
            for g in old.clone() {
                table.extend(std::iter::repeat_n(table[g], factor));
            }
        };
        spread(&mut self.writes);
        if !self.also.is_empty() {
            spread(&mut self.also);
        }
        self.readers.refine(old, factor);
    }

    /// The lines of an access, clipped to the size of the memory.
    #[inline(always)]
    fn lines_of(&self, address: u32, bytes: u32) -> RangeInclusive<usize> {
        let last = address.saturating_add(bytes.max(1) - 1).min(self.bytes.saturating_sub(1));
        (address.min(last) >> LINE) as usize..=(last >> LINE) as usize
    }

    /// The parts of an access, one per line (address and bytes), clipped to the size of the memory.
    #[inline(always)]
    fn parts(&self, address: u32, bytes: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let end = address.saturating_add(bytes).min(self.bytes);
        let mut at = address;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let part = (at, end.min((at | ((1 << LINE) - 1)) + 1) - at);
                at += part.1;
                part
            })
        })
    }

    /// Calls `each` with the lines that the lanes touch.
    fn each_line(&mut self, mask: u32, at: &[u32; 32], bytes: u32, mut each: impl FnMut(&mut Self, usize)) {
        for l in lanes(mask) {
            for line in self.lines_of(at[l], bytes) {
                each(self, line);
            }
        }
    }

    // Whole rows and tiles

    /// Checks a weak or strong read of a tile, if it is certain that nothing races. Otherwise it returns false and
    /// records no read.
    #[inline(always)]
    fn read_tile(&mut self, cx: &Context<'_>, tile: &Tile<'_>) -> bool {
        if cx.stamp.is_agent() || !tile.fits(self.bytes) {
            return false;
        }
        let who = cx.stamp.0 & WHO;
        for (at, units) in tile.parts(LINE) {
            let line = &mut self.lines[(at >> LINE) as usize];
            if tile.unit < 1 << line.shift {
                return false;
            }
            let settled = line.settled(cx.warp, cx.floor, cx.synced);
            let granules = line.range(at, units.len() as u32 * tile.unit);
            let per_unit = (tile.unit >> line.shift) as usize;
            let part = Part { granules, units, per_unit, who, limit: below(settled) };
            if line.writes > settled && (line.also || !part.is_quiet(&self.writes, WHO))
                || line.eager
                    && line.reads > settled
                    && !(cx.weak && part.is_quiet(&self.readers.words, READER))
            {
                return false;
            }
        }
        let mut log = false;
        for (at, units) in tile.parts(LINE) {
            let line = &mut self.lines[(at >> LINE) as usize];
            line.reads = line.reads.max(cx.time);
            if line.eager {
                let granules = line.range(at, units.len() as u32 * tile.unit);
                let per_unit = (tile.unit >> line.shift) as usize;
                self.readers.reserve(self.writes.len());
                fill(&mut self.readers.words[granules], units, per_unit, cx.stamp);
            } else {
                line.logged = line.logged.max(cx.time);
                log = true;
            }
        }
        if log {
            let map = self.map_of(tile);
            let span = (tile.base, tile.base + tile.reach());
            self.log_read(cx, u32::MAX, tile.unit, Logged::Tile(tile.row, map), span);
        }
        true
    }

    /// Does the same for a write.
    #[inline(always)]
    fn write_tile(&mut self, cx: &Context<'_>, tile: &Tile<'_>) -> bool {
        if !tile.fits(self.bytes) {
            return false;
        }
        let who = cx.stamp.0 & THREAD;
        for (at, units) in tile.parts(LINE) {
            let number = (at >> LINE) as usize;
            let line = &mut self.lines[number];
            if tile.unit < 1 << line.shift {
                return false;
            }
            let settled = line.settled(cx.warp, cx.floor, cx.synced);
            let (written, read, simple) = (line.writes > settled, line.reads > settled, !line.also);
            if !(written || read) {
                continue;
            }
            let granules = line.range(at, units.len() as u32 * tile.unit);
            let per_unit = (tile.unit >> line.shift) as usize;
            if read {
                self.make_eager(number, settled);
            }
            let part = Part { granules, units, per_unit, who, limit: below(settled) };
            if written && !(cx.weak && simple && part.is_quiet(&self.writes, WHO))
                || read && !(cx.weak && part.is_quiet(&self.readers.words, READER))
            {
                return false;
            }
        }
        for (at, units) in tile.parts(LINE) {
            let line = &mut self.lines[(at >> LINE) as usize];
            line.wrote(cx.time, cx.floor);
            let granules = line.range(at, units.len() as u32 * tile.unit);
            let per_unit = (tile.unit >> line.shift) as usize;
            fill(&mut self.writes[granules], units, per_unit, cx.stamp);
        }
        true
    }

    /// A line is written while its readers still count, so its reads must be in its granules, now and in future.
    #[inline(always)]
    fn make_eager(&mut self, line: usize, settled: u32) {
        self.lines[line].eager = true;
        if self.lines[line].logged > settled {
            self.lines[line].logged = 0;
            let start = (line as u32) << LINE;
            self.enter_log((start, start + (1 << LINE)));
        }
    }

    /// Returns the index of the tile's lane map in `maps`.
    fn map_of(&mut self, tile: &Tile<'_>) -> u32 {
        let same = |map: &LaneMap| map.run == tile.run && *map.lanes == *tile.lanes;
        let found = self.maps.iter().position(same).unwrap_or_else(|| {
            self.maps.push(LaneMap { lanes: tile.lanes.into(), run: tile.run });
            self.maps.len() - 1
        });
        found as u32
    }

    #[inline(always)]
    fn log_read(&mut self, cx: &Context<'_>, mask: u32, bytes: u32, how: Logged, span: (u32, u32)) {
        self.log.push(LoggedRead { stamp: cx.stamp, mask, bytes, how, span });
        if self.log.len().max(self.scattered.len()).max(self.near.len()) >= MAX_LOG {
            self.enter_log((0, u32::MAX));
        }
    }

    // Any access

    #[inline(always)]
    fn tile(&mut self, threads: &Threads, stamp: Stamp, tile: &Tile<'_>) -> bool {
        if stamp.op() == Op::Read {
            self.read_tile(&Context::new(threads, stamp), tile)
        } else {
            self.write_tile(&Context::for_write(threads, stamp), tile)
        }
    }

    #[inline(always)]
    fn read(&mut self, threads: &Threads, access: &SharedAccess<'_>, out: &mut Conflicts) {
        if self.bytes == 0 {
            return;
        }
        let &SharedAccess { mask, stamp, ranges: &Ranges { at, bytes, .. }, pattern } = access;
        let cx = &Context::new(threads, stamp);
        if pattern.shape == Shape::Row && self.read_tile(cx, &Tile::row(pattern.min, bytes)) {
            return;
        }
        self.agent_reads |= stamp.is_agent();
        let span = (pattern.min, pattern.max.saturating_add(bytes));
        let close = self.lines_of(span.0, span.1 - span.0);
        let mut log = mask;
        if close.end() - close.start() >= CLOSE || !self.log_if_settled(cx, close, access.granule_shift()) {
            let mut hard = mask;
            if bytes <= 4 && span.1 <= self.bytes && !stamp.is_agent() {
                (log, hard) = self.read_words(cx, mask, at, bytes);
            }
            if hard != 0 {
                log |= self.read_lanes(cx, access, hard, out);
            }
        }
        if log == 0 {
            return;
        }
        let how = match pattern.shape {
            Shape::Point => Logged::Point,
            Shape::Row | Shape::Scattered => {
                self.scattered.push(*at);
                Logged::Scattered(self.scattered.len() as u32 - 1)
            }
        };
        self.log_read(cx, log, bytes, how, span);
    }

    /// The usual read: a weak read of a word per lane, in lines in which nothing can race with it. Returns false without
    /// recording the read if it is different.
    #[inline(always)]
    fn read_near_words(
        &mut self,
        threads: &Threads,
        stamp: Stamp,
        mask: u32,
        at: &[u32; 32],
        pattern: &AccessPattern,
    ) -> bool {
        let (first, last) = (pattern.min >> LINE, (pattern.max + 3) >> LINE);
        if last - first >= NEAR_LINES || last as usize >= self.lines.len() {
            return false;
        }
        let cx = &Context::new(threads, stamp);
        if !self.log_if_settled(cx, first as usize..=last as usize, 2) {
            return false;
        }
        let how = match pattern.shape {
            Shape::Point => Logged::Point,
            Shape::Row => Logged::Row,
            Shape::Scattered => {
                let mut words = [0; 32];
                for l in 0..32 {
                    words[l] = ((at[l] - pattern.min) >> 2) as u8;
                }
                self.near.push(words);
                Logged::Near(self.near.len() as u32 - 1)
            }
        };
        self.log_read(cx, mask, 4, how, (pattern.min, pattern.max + 4));
        true
    }

    /// Whether nothing in these lines can race with a read and the read belongs in the log. If so, marks the lines.
    #[inline(always)]
    fn log_if_settled(&mut self, cx: &Context<'_>, lines: RangeInclusive<usize>, fits: u8) -> bool {
        let lines = &mut self.lines[lines];
        let mut plain = true;
        for line in &mut *lines {
            let settled = line.settled(cx.warp, cx.floor, cx.synced);
            plain &= line.writes <= settled && !line.eager && line.shift <= fits;
        }
        if plain {
            for line in lines {
                line.reads = line.reads.max(cx.time);
                line.logged = line.logged.max(cx.time);
            }
        }
        plain
    }

    /// Checks reads of a word, a half word or a byte per lane, as far as it is certain that they do not race. Returns
    /// the lanes that belong in the log, and the lanes that need the full check.
    #[inline(always)]
    fn read_words(&mut self, cx: &Context<'_>, mask: u32, at: &[u32; 32], bytes: u32) -> (u32, u32) {
        let shift = bytes.trailing_zeros() as u8;
        let (mut log, mut hard) = (0, 0);
        self.readers.reserve(self.writes.len());
        let (lines, writes, readers) = (&mut self.lines[..], &self.writes[..], &mut self.readers.words[..]);
        for l in lanes(mask) {
            let own = cx.stamp.with_lane(l);
            let line = &mut lines[(at[l] >> LINE) as usize];
            let settled = line.settled(cx.warp, cx.floor, cx.synced);
            let (limit, who) = (below(settled), own.0 & WHO);
            let quiet = |word: Stamp, names| word.0 < limit || word.0 & names == who;
            let g = line.granule(at[l]);
            let ordered = line.writes <= settled || !line.also && quiet(writes[g], WHO);
            if !ordered || line.shift != shift {
                hard |= 1 << l;
            } else if !line.eager {
                line.reads = line.reads.max(cx.time);
                line.logged = line.logged.max(cx.time);
                log |= 1 << l;
            } else if cx.weak && quiet(readers[g], READER) {
                line.reads = line.reads.max(cx.time);
                readers[g] = own;
            } else {
                hard |= 1 << l;
            }
        }
        (log, hard)
    }

    /// Checks any reads. Returns the lanes that belong in the log.
    #[inline(never)]
    fn read_lanes(
        &mut self,
        cx: &Context<'_>,
        access: &SharedAccess<'_>,
        mask: u32,
        out: &mut Conflicts,
    ) -> u32 {
        let (&Ranges { at, bytes, .. }, fits) = (access.ranges, access.granule_shift());
        let (mut look, mut eager) = (false, false);
        self.each_line(mask, at, bytes, |shadow, number| {
            let line = &mut shadow.lines[number];
            look |= line.writes > line.settled(cx.warp, cx.floor, cx.synced);
            eager |= line.eager;
            line.reads = line.reads.max(cx.time);
            line.logged = if line.eager { line.logged } else { line.logged.max(cx.time) };
            if fits < line.shift {
                shadow.refine(number, fits);
            }
        });
        if look {
            self.check_reads(cx, mask, at, bytes, out);
        }
        if eager {
            self.enter_lanes(cx, mask, at, bytes);
        }
        if eager { 0 } else { mask }
    }

    #[inline(never)]
    fn check_reads(&mut self, cx: &Context<'_>, mask: u32, at: &[u32; 32], bytes: u32, out: &mut Conflicts) {
        let (block, limit) = (cx.threads.block, below(cx.threads.floor()));
        for l in lanes(mask) {
            let own = cx.stamp.with_lane(l);
            let mut last = Stamp::NONE;
            for (at, bytes) in self.parts(at[l], bytes) {
                let line = self.lines[(at >> LINE) as usize];
                for (i, g) in line.range(at, bytes).enumerate() {
                    for first in [self.writes[g], self.also.get(g).copied().unwrap_or_default()] {
                        if first.0 < limit || first == last {
                            continue;
                        }
                        last = first;
                        if cx.is_ordered(first, l) {
                            continue;
                        }
                        let clash = clash(first, block, own, block);
                        if clash != Clash::Nothing {
                            out.list.push(Conflict::new((block, first), own, line.address(at, i)));
                        }
                        if clash != Clash::Race {
                            self.note_seen(first);
                        }
                    }
                }
            }
        }
        self.each_line(mask, at, bytes, |shadow, line| shadow.settle(cx.threads, line));
    }

    /// Checks chunks that an agent of the async proxy reads for the lanes of `mask` together. The writes of the chunks
    /// must be ordered before the read, and a thread's write must also have passed a proxy fence.
    pub fn agent_read(
        &mut self,
        threads: &Threads,
        stamp: Stamp,
        mask: u32,
        addresses: &[u32],
        out: &mut Conflicts,
    ) {
        let (block, warp) = (threads.block, stamp.warp());
        let mut last = [Stamp::NONE; 2];
        for &at in addresses.iter().filter(|at| **at + 16 <= self.bytes) {
            let line = &self.lines[(at >> LINE) as usize];
            // Most chunks were written by the same copy as the previous chunk, and most lines have four granules per chunk.
            if line.shift == 2
                && !line.also
                && let Some(words) = self.writes[line.granule(at)..].first_chunk::<4>()
                && words.iter().fold(0, |m, word| m | word.0 ^ last[0].0) == 0
            {
                continue;
            }
            let granules = line.range(at, 16);
            for (i, g) in granules.enumerate() {
                let also = self.also.get(g).copied().unwrap_or_default();
                for (last, first) in last.iter_mut().zip([self.writes[g], also]) {
                    if first.is_none() || first == *last {
                        continue;
                    }
                    *last = first;
                    let ordered = threads.ordered_for_any(first, warp, mask);
                    if ordered
                        && (!is_generic(first) || threads.proxied(ProxySpace::Shared, first, warp, mask))
                    {
                        continue;
                    }
                    let conflict = Conflict::new((block, first), stamp, line.address(at, i));
                    out.list.push(Conflict {
                        although_ordered: ordered.then_some(RaceKind::MissingProxyFence),
                        ..conflict
                    });
                }
            }
        }
    }

    /// Checks that a proxy fence stands between what threads wrote and an agent of the async proxy that overwrites it.
    pub fn agent_write(&self, threads: &Threads, access: &SharedAccess<'_>, out: &mut Conflicts) {
        let &SharedAccess { mask, stamp, ranges: &Ranges { at, bytes, .. }, .. } = access;
        for l in lanes(mask) {
            let own = stamp.with_lane(l);
            let mut last = Stamp::NONE;
            for (at, bytes) in self.parts(at[l], bytes) {
                let line = &self.lines[(at >> LINE) as usize];
                for (i, g) in line.range(at, bytes).enumerate() {
                    let first = self.writes[g];
                    if first == last {
                        continue;
                    }
                    last = first;
                    if !first.is_none()
                        && is_generic(first)
                        && threads.ordered_here(first, own.warp(), l)
                        && !threads.proxied(ProxySpace::Shared, first, own.warp(), 1 << l)
                    {
                        let although_ordered = Some(RaceKind::MissingProxyFence);
                        let conflict = Conflict::new((threads.block, first), own, line.address(at, i));
                        out.list.push(Conflict { although_ordered, ..conflict });
                    }
                }
            }
        }
    }

    fn note_seen(&mut self, first: Stamp) {
        if self.seen.len() < 2 && self.seen.last() != Some(&first) {
            self.seen.push(first);
        }
    }

    /// Removes the `ASYNCHRONOUS` mark of a line whose asynchronous writes are ordered before a block-wide barrier.
    fn settle(&mut self, threads: &Threads, number: usize) {
        let line = &mut self.lines[number];
        if line.writes != ASYNCHRONOUS || line.scanned == threads.floor() {
            return;
        }
        line.scanned = threads.floor();
        let mut latest = 0;
        for g in line.range(0, 1 << LINE) {
            for s in [self.writes[g], self.also.get(g).copied().unwrap_or_default()] {
                if s.is_agent() {
                    latest = if threads.known_to_all(s) { latest } else { ASYNCHRONOUS };
                } else {
                    latest = latest.max(s.time());
                }
            }
        }
        line.writes = latest;
    }

    #[inline(always)]
    fn write(&mut self, threads: &Threads, access: &SharedAccess<'_>, out: &mut Conflicts) {
        if self.bytes == 0 {
            return;
        }
        let &SharedAccess { mask, stamp, ranges: &Ranges { at, bytes, values }, pattern } = access;
        let cx = &Context::for_write(threads, stamp);
        // A value that other threads may store too must not hide another value of the same phase. The quick checks do not
        // look for one.
        let is_common = values.is_common() && self.has_writes_since(cx.floor, pattern, bytes);
        if !is_common && pattern.shape == Shape::Row && self.write_tile(cx, &Tile::row(pattern.min, bytes)) {
            return;
        }
        let words = !is_common && bytes <= 4 && pattern.max.saturating_add(bytes) <= self.bytes;
        let hard = if words { self.write_words(cx, mask, at, bytes) } else { mask };
        if hard != 0 {
            self.write_lanes(cx, access, hard, out);
        }
    }

    /// Whether a line that the lanes access was written since the last barrier of the block.
    fn has_writes_since(&self, floor: u32, pattern: &AccessPattern, bytes: u32) -> bool {
        self.lines_of(pattern.min, pattern.max.saturating_sub(pattern.min).saturating_add(bytes))
            .any(|number| self.lines.get(number).is_some_and(|line| line.writes > floor))
    }

    /// Checks writes of a word, a half word or a byte per lane, as far as it is certain that they do not race. Returns
    /// the lanes that need the full check.
    #[inline(always)]
    fn write_words(&mut self, cx: &Context<'_>, mask: u32, at: &[u32; 32], bytes: u32) -> u32 {
        let shift = bytes.trailing_zeros() as u8;
        let mut hard = 0;
        let (lines, writes, readers) = (&mut self.lines[..], &mut self.writes[..], &self.readers.words[..]);
        for l in lanes(mask) {
            let own = cx.stamp.with_lane(l);
            let line = &mut lines[(at[l] >> LINE) as usize];
            let settled = line.settled(cx.warp, cx.floor, cx.synced);
            let (limit, who) = (below(settled), own.0 & THREAD);
            let quiet = |word: Stamp, names| word.0 < limit || cx.weak && word.0 & names == who;
            let g = line.granule(at[l]);
            let unread = line.reads <= settled
                || line.logged <= settled && readers.get(g).is_some_and(|word| quiet(*word, READER));
            let word = &mut writes[g];
            if unread && !line.also && line.shift == shift && quiet(*word, WHO) {
                line.wrote(cx.time, cx.floor);
                *word = own;
            } else {
                hard |= 1 << l;
            }
        }
        hard
    }

    /// Checks any writes.
    #[inline(never)]
    fn write_lanes(&mut self, cx: &Context<'_>, access: &SharedAccess<'_>, mask: u32, out: &mut Conflicts) {
        let (&Ranges { at, bytes, values }, fits) = (access.ranges, access.granule_shift());
        for l in lanes(mask) {
            let own = cx.stamp.with_lane(l);
            out.last = Stamp::NONE;
            // An access that is ordered before this one. A large copy overwrites the same copy in most granules.
            let mut ordered = Stamp::NONE;
            for (at, bytes) in self.parts(at[l], bytes) {
                let number = (at >> LINE) as usize;
                let line = &mut self.lines[number];
                let settled = line.settled(cx.warp, cx.floor, cx.synced);
                let read = line.reads > settled;
                line.wrote(cx.time, cx.floor);
                if fits < line.shift {
                    self.refine(number, fits);
                }
                if read {
                    self.make_eager(number, settled);
                }
                let (limit, who) = (below(settled), own.0 & THREAD);
                let quiet = |word: Stamp, names| word.0 < limit || cx.weak && word.0 & names == who;
                let replaces = |last: Stamp| last.0 >= below(cx.floor) && is_other_value(last, own, values);
                let line = self.lines[number];
                let simple = !line.also;
                for (i, g) in line.range(at, bytes).enumerate() {
                    let unread = !read || self.readers.words.get(g).is_none_or(|word| quiet(*word, READER));
                    let last = self.writes[g];
                    if simple && unread && (last == ordered || quiet(last, WHO)) && !replaces(last) {
                        self.writes[g] = own;
                        continue;
                    }
                    if cx.weak && simple && unread && cx.is_ordered(last, l) && !replaces(last) {
                        ordered = last;
                        self.writes[g] = own;
                        continue;
                    }
                    let granule = Granule { index: g, address: line.address(at, i), read };
                    self.write_granule(cx, granule, own, values, out);
                }
            }
        }
    }

    fn write_granule(
        &mut self,
        cx: &Context<'_>,
        granule: Granule,
        own: Stamp,
        values: &dyn StoredValues,
        out: &mut Conflicts,
    ) {
        let Granule { index: g, address, read } = granule;
        let (block, warp, lane, limit) = (cx.threads.block, own.warp(), own.lane(), below(cx.floor));
        let last = self.writes[g];
        if last.0 >= limit {
            let also = self.also.get(g).copied().unwrap_or_default();
            let mut kept = Stamp::NONE;
            // See `Fine::write`: a strong access that saw the strong writes orders them before a weak write.
            let weak_write = own.op() == Op::Write && own.strength() == Strength::Weak;
            let saw = || {
                last.op() == Op::Atomic && cx.is_ordered(last, lane)
                    || read && self.readers.read_strongly(g, warp, lane)
            };
            let witnessed = weak_write && is_witnessed(values, saw);
            // A thread that polled a flag and then sets it is ordered after the flag's writers.
            let polled = own.is_volatile() && read && self.readers.read_strongly(g, warp, lane);
            for first in [also, last] {
                if first.0 < limit || witnessed && first.strength() != Strength::Weak {
                    continue;
                }
                if first.strength() != Strength::Weak && own.strength() != Strength::Weak {
                    // Both are strong, so they do not race in any order. Keep one for later checks, from another warp
                    // if possible.
                    let clash = clash(first, block, own, block);
                    if clash == Clash::Volatile && !polled && !cx.is_ordered(first, lane) {
                        let equality = compare((block, first), (block, own), values);
                        let conflict = Conflict::new((block, first), own, address);
                        out.push_once(Conflict { equality, ..conflict });
                    }
                    if own.op() == Op::Atomic {
                        self.note_seen(first);
                    }
                    if kept.is_none() || kept.strength() != Strength::Weak && first.warp() != warp {
                        kept = first;
                    }
                    continue;
                }
                if cx.is_ordered(first, lane) {
                    // A strong write does not replace an earlier weaker write: a later strong access may race with the
                    // weaker write only. A store whose value others may store too does not replace another value.
                    if first.strength() < own.strength() || is_other_value(first, own, values) {
                        kept = first;
                    }
                    continue;
                }
                let mut harmless = true;
                if clash(first, block, own, block) == Clash::Race {
                    let equality = compare((block, first), (block, own), values);
                    harmless = equality != Equality::Unknown;
                    let conflict = Conflict::new((block, first), own, address);
                    out.push_once(Conflict { equality, ..conflict });
                }
                // Prefer to keep a write of another warp, because a warp-wide sync does not order it.
                let weak_kept = !kept.is_none() && kept.strength() == Strength::Weak;
                if harmless && !weak_kept && (kept.is_none() || first.warp() != warp) {
                    kept = first;
                }
            }
            if !kept.is_none() || !also.is_none() {
                if self.also.is_empty() {
                    self.also.resize(self.writes.len(), Stamp::NONE);
                }
                self.also[g] = kept;
                self.lines[(address >> LINE) as usize].also = true;
            }
        } else if let Some(also) = self.also.get_mut(g) {
            *also = Stamp::NONE;
        }
        if read {
            self.readers.check(cx.threads, g, address, own, out);
        }
        self.writes[g] = own;
    }

    /// Enters the logged reads that touch the range into the granules. If the log is short, the other reads stay in it.
    #[inline(never)]
    fn enter_log(&mut self, range: (u32, u32)) {
        if self.log.is_empty() {
            return;
        }
        self.readers.reserve(self.writes.len());
        let limit = self.readers.limit;
        let mut log = std::mem::take(&mut self.log);
        let scattered = std::mem::take(&mut self.scattered);
        let near = std::mem::take(&mut self.near);
        let maps = std::mem::take(&mut self.maps);
        let all = log.len() > MAX_REST;
        log.retain(|read| {
            if read.stamp.0 < limit {
                return false;
            }
            if !all && (read.span.1 <= range.0 || range.1 <= read.span.0) {
                return true;
            }
            match read.how {
                Logged::Point => self.enter_part(read, read.span.0, read.mask, limit),
                Logged::Row => {
                    for l in lanes(read.mask) {
                        self.enter_part(read, read.span.0 + l as u32 * read.bytes, 1 << l, limit);
                    }
                }
                Logged::Near(place) => {
                    for l in lanes(read.mask) {
                        let word = u32::from(near[place as usize][l]);
                        self.enter_part(read, read.span.0 + 4 * word, 1 << l, limit);
                    }
                }
                Logged::Tile(row, map) => {
                    let map = &maps[map as usize];
                    let (unit, run) = (read.bytes, map.run);
                    let tile = Tile { base: read.span.0, row, run, unit, lanes: &map.lanes };
                    for (at, units) in tile.parts(LINE) {
                        for (i, lane) in units.iter().enumerate() {
                            self.enter_part(read, at + i as u32 * unit, 1 << lane, limit);
                        }
                    }
                }
                Logged::Scattered(place) => {
                    for l in lanes(read.mask) {
                        self.enter_part(read, scattered[place as usize][l], 1 << l, limit);
                    }
                }
            }
            false
        });
        self.log = log;
        (self.scattered, self.near, self.maps) = (scattered, near, maps);
        if self.log.is_empty() {
            self.clear_log();
        }
    }

    fn enter_part(&mut self, read: &LoggedRead, at: u32, mask: u32, limit: u64) {
        for (at, bytes) in self.parts(at, read.bytes) {
            for g in self.lines[(at >> LINE) as usize].range(at, bytes) {
                self.readers.enter(g, read.stamp, mask, limit);
            }
        }
    }

    /// Enters reads immediately.
    fn enter_lanes(&mut self, cx: &Context<'_>, mask: u32, at: &[u32; 32], bytes: u32) {
        self.readers.reserve(self.writes.len());
        for l in lanes(mask) {
            let own = cx.stamp.with_lane(l);
            for (at, bytes) in self.parts(at[l], bytes) {
                let line = &self.lines[(at >> LINE) as usize];
                // A weak read replaces everything that is ordered before it. A strong read replaces only reads before
                // the last block-wide barrier.
                let settled = if line.owner == cx.warp && cx.weak { cx.synced } else { 0 };
                let limit = below(cx.floor.max(settled));
                for g in line.range(at, bytes) {
                    let word = self.readers.words[g];
                    if word.0 < limit || cx.weak && word.0 & READER == own.0 & WHO {
                        self.readers.words[g] = own;
                    } else {
                        self.readers.enter(g, cx.stamp, 1 << l, limit);
                    }
                }
            }
        }
    }
}

// The entry points, compiled per instruction set, because their loops over granules and lanes are most of the cost of
// checking.

#[inline(always)]
fn access_body<const WIDE: bool>(
    shadow: &mut SharedShadow,
    threads: &Threads,
    access: &SharedAccess<'_>,
    out: &mut Conflicts,
) {
    if access.stamp.op() == Op::Read {
        shadow.read(threads, access, out);
    } else {
        shadow.write(threads, access, out);
    }
}

#[inline(always)]
fn read_near_words_body<const WIDE: bool>(
    shadow: &mut SharedShadow,
    threads: &Threads,
    stamp: Stamp,
    mask: u32,
    at: &[u32; 32],
    pattern: &AccessPattern,
) -> bool {
    shadow.read_near_words(threads, stamp, mask, at, pattern)
}

#[inline(always)]
fn tile_body<const WIDE: bool>(
    shadow: &mut SharedShadow,
    threads: &Threads,
    stamp: Stamp,
    tile: &Tile<'_>,
) -> bool {
    shadow.tile(threads, stamp, tile)
}

per_isa! {
    /// Checks an access by the lanes of one instruction.
    pub fn access = access_body where (
        shadow: &mut SharedShadow,
        threads: &Threads,
        access: &SharedAccess<'_>,
        out: &mut Conflicts,
    );
    /// Checks a weak read of a word per lane, if nothing in its lines can race with it. Otherwise it returns false
    /// without recording the read.
    pub fn read_near_words = read_near_words_body where (
        shadow: &mut SharedShadow,
        threads: &Threads,
        stamp: Stamp,
        mask: u32,
        at: &[u32; 32],
        pattern: &AccessPattern,
    ) -> bool;
    /// Checks a read or write of a tile, if it is certain that nothing races. Otherwise it returns false without
    /// recording the access, and the caller must check it lane by lane.
    pub fn tile = tile_body where (
        shadow: &mut SharedShadow,
        threads: &Threads,
        stamp: Stamp,
        tile: &Tile<'_>,
    ) -> bool;
}
