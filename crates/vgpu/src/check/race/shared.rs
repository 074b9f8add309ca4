//! Shadow of a block's shared memory. Exact: no access that could still race is forgotten (but see `also`).
//!
//! A granule (four bytes, finer once the kernel makes a finer access) holds the stamp of its last write. Reads are
//! not entered granule by granule as they happen: they go into a log, and only mark their 128-byte lines. A write
//! to a line marked since the last block-wide barrier first enters the log into the granules; a block-wide barrier
//! throws the log away, for it orders all of it. So the usual kernel (fill, barrier, read often, barrier) pays a
//! line check and a log entry per read, and any other kernel pays the exact price once per read.

use super::clock::lanes;
use super::conflict::{Conflict, Lay, Shape, races};
use super::event::{Op, SameValue, Strength};
use super::stamp::{Stamp, TIME};
use super::threads::Threads;

const LINE: u32 = 7;
/// Marks a line with an asynchronous write in it, whose time says nothing about barriers.
const LOOK: u32 = u32::MAX;
/// Reads logged before they are entered all the same.
const MAX_LOG: usize = 1 << 14;
/// Reads that may stay in the log when a write enters others: what every such write looks through.
const MAX_REST: usize = 64;

/// A line of 128 bytes: the latest times in it, to tell cheaply that nothing in it can race.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    writes: u32,
    reads: u32,
    /// Floor at which a line marked `LOOK` was last looked through.
    looked: u32,
    /// The one warp with accesses since the last block-wide barrier, or `MANY`.
    owner: u32,
}

const MANY: u32 = u32::MAX;

impl Line {
    /// Before an access by `warp`: up to which time everything in the line is ordered before it. That is the block's
    /// floor, or what the warp has synchronised among itself if the line is its own.
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
}

#[derive(Clone, Copy, Debug)]
struct LoggedRead {
    stamp: Stamp,
    mask: u32,
    bytes: u32,
    shape: Shape,
    /// Address of the first lane, or which entry of `scattered`.
    at: u32,
    /// What it touches lies in this range.
    span: (u32, u32),
}

/// Readers of a granule: lanes of one warp at one time, the rest in `more`.
#[derive(Clone, Copy, Debug, Default)]
struct Readers {
    stamp: Stamp,
    lanes: u32,
    /// One more than an index into `SharedShadow::more`; 0 for none.
    more: u32,
}

#[derive(Debug)]
pub struct SharedShadow {
    /// Granules are `1 << shift` bytes.
    shift: u32,
    bytes: u32,
    writes: Vec<Stamp>,
    /// A second write per granule, not ordered with the last and of another warp if possible: strong writes and
    /// writes of the same value do not race with each other but may with a later access. Two of them are kept; a
    /// later access that is ordered after both but not after a third goes unseen.
    also: Vec<Stamp>,
    lines: Vec<Line>,
    log: Vec<LoggedRead>,
    scattered: Vec<[u32; 32]>,
    readers: Vec<Readers>,
    /// Lists live until the next block-wide barrier; indices in `readers` at or below the floor are stale.
    more: Vec<Vec<(Stamp, u32)>>,
    agent_reads: bool,
    /// Strong writes of other threads that the last access found, not ordered before it.
    pub seen: Vec<Stamp>,
}

impl Default for SharedShadow {
    fn default() -> Self {
        SharedShadow {
            shift: 2,
            bytes: 0,
            writes: Vec::new(),
            also: Vec::new(),
            lines: Vec::new(),
            log: Vec::new(),
            scattered: Vec::new(),
            readers: Vec::new(),
            more: Vec::new(),
            agent_reads: false,
            seen: Vec::new(),
        }
    }
}

impl SharedShadow {
    /// Forgets everything. The granule stays: the next block runs the same kernel.
    pub fn start(&mut self, bytes: u32) {
        self.bytes = bytes;
        let granules = (bytes as usize).div_ceil(1 << self.shift);
        let lines = (bytes as usize).div_ceil(1 << LINE);
        self.writes.clear();
        self.writes.resize(granules, Stamp::NONE);
        self.also.clear();
        self.lines.clear();
        self.lines.resize(lines, Line::default());
        self.log.clear();
        self.scattered.clear();
        self.readers.clear();
        self.more.clear();
        self.agent_reads = false;
    }

    /// A block-wide barrier: whatever was read before is ordered before whatever comes.
    pub fn on_block_barrier(&mut self, floor: u32) {
        if self.agent_reads {
            // A barrier does not order an agent's reads: keep them, and with them all lists.
            self.enter_log(floor, (0, u32::MAX));
            return;
        }
        self.log.clear();
        self.scattered.clear();
        self.more.clear();
    }

    fn refine(&mut self, shift: u32, floor: u32) {
        self.enter_log(floor, (0, u32::MAX));
        let limit = u64::from(floor + 1) << TIME;
        let factor = 1usize << (self.shift - shift);
        let spread =
            |v: &Vec<Stamp>| v.iter().flat_map(|s| std::iter::repeat_n(*s, factor)).collect::<Vec<_>>();
        self.writes = spread(&self.writes);
        self.also = spread(&self.also);
        let mut readers = Vec::with_capacity(self.readers.len() * factor);
        for r in std::mem::take(&mut self.readers) {
            let r = if r.stamp.0 < limit { Readers::default() } else { r };
            for i in 0..factor {
                let mut copy = r;
                if r.more != 0 && i > 0 {
                    self.more.push(self.more[r.more as usize - 1].clone());
                    copy.more = self.more.len() as u32;
                }
                readers.push(copy);
            }
        }
        self.readers = readers;
        self.shift = shift;
    }

    /// Granules of an access, clipped to the memory there is.
    #[inline(always)]
    fn granules(&self, address: u32, bytes: u32) -> std::ops::Range<usize> {
        let end = address.saturating_add(bytes).min(self.bytes);
        let start = address.min(end);
        (start >> self.shift) as usize
            ..(end as usize).div_ceil(1 << self.shift).max((start >> self.shift) as usize)
    }

    #[inline(always)]
    fn lines_of(&self, address: u32, bytes: u32) -> std::ops::RangeInclusive<usize> {
        let last = address.saturating_add(bytes.max(1) - 1).min(self.bytes.saturating_sub(1));
        (address.min(last) >> LINE) as usize..=(last >> LINE) as usize
    }

    #[inline(always)]
    fn fit_granule(&mut self, lay: &Lay, bytes: u32, floor: u32) {
        let fits = (lay.or as u32 | bytes).trailing_zeros().min(2);
        if fits < self.shift {
            self.refine(fits, floor);
        }
    }

    /// Calls `each` with the lines an access touches, or a few more where lanes lie close together: a line touched
    /// for nothing costs a look, no more.
    #[inline(always)]
    fn each_line(
        &mut self,
        mask: u32,
        at: &[u64; 32],
        lay: &Lay,
        bytes: u32,
        mut each: impl FnMut(&mut Self, usize),
    ) {
        let span = self.lines_of(lay.min as u32, (lay.max - lay.min) as u32 + bytes);
        if span.end() - span.start() < 16 {
            for line in span {
                each(self, line);
            }
        } else {
            for l in lanes(mask) {
                for line in self.lines_of(at[l] as u32, bytes) {
                    each(self, line);
                }
            }
        }
    }

    /// Whether the granules of a row hold nothing but what the same lanes left, or older things than `limit`.
    fn row_is_own(&self, stamp: Stamp, start: usize, per_lane: usize, limit: u64) -> bool {
        let mut other = !self.also.is_empty();
        for (l, lane) in self.writes[start..start + 32 * per_lane].chunks_exact(per_lane).enumerate() {
            let own = stamp.with_lane(l).0 & 0x3ff;
            for s in lane {
                other |= s.0 >= limit && (s.0 & 0x3ff != own || s.is_agent());
            }
        }
        !other
    }

    /// Reads by the lanes of `mask`. `stamp` is that of lane 0.
    #[inline]
    pub fn read(
        &mut self,
        threads: &Threads,
        mask: u32,
        stamp: Stamp,
        at: &[u64; 32],
        lay: &Lay,
        bytes: u32,
        out: &mut Vec<Conflict>,
    ) {
        if self.bytes == 0 {
            return;
        }
        let floor = threads.floor();
        self.fit_granule(lay, bytes, floor);
        let time = if stamp.is_agent() { LOOK } else { stamp.time() };
        self.agent_reads |= stamp.is_agent();
        let (warp, synced) = (stamp.warp() as u32, threads.synced(stamp.warp()));
        let mut look = false;
        self.each_line(mask, at, lay, bytes, |shadow, line| {
            let line = &mut shadow.lines[line];
            look |= line.writes > line.settled(warp, floor, synced);
            line.reads = line.reads.max(time);
        });
        if look {
            self.check_reads(threads, mask, stamp, at, lay, bytes, out);
        }
        let place = if lay.shape == Shape::Scattered {
            let mut offsets = [0; 32];
            for (offset, at) in offsets.iter_mut().zip(at) {
                *offset = *at as u32;
            }
            self.scattered.push(offsets);
            self.scattered.len() as u32 - 1
        } else {
            lay.min as u32
        };
        let span = (lay.min as u32, (lay.max as u32).saturating_add(bytes));
        self.log.push(LoggedRead { stamp, mask, bytes, shape: lay.shape, at: place, span });
        if self.log.len().max(self.scattered.len()) >= MAX_LOG {
            self.enter_log(floor, (0, u32::MAX));
        }
    }

    #[inline(never)]
    fn check_reads(
        &mut self,
        threads: &Threads,
        mask: u32,
        stamp: Stamp,
        at: &[u64; 32],
        lay: &Lay,
        bytes: u32,
        out: &mut Vec<Conflict>,
    ) {
        let floor = threads.floor();
        let (block, warp, limit) = (threads.block, stamp.warp(), u64::from(floor + 1) << TIME);
        if lay.shape == Shape::Row && lay.max as u32 + bytes <= self.bytes {
            let (start, per_lane) = ((lay.min as u32 >> self.shift) as usize, (bytes >> self.shift) as usize);
            if self.row_is_own(stamp, start, per_lane, limit) {
                return;
            }
        }
        for l in lanes(mask) {
            let own = stamp.with_lane(l);
            let mut last = Stamp::NONE;
            for g in self.granules(at[l] as u32, bytes) {
                for first in [self.writes[g], self.also.get(g).copied().unwrap_or_default()] {
                    if first.0 < limit || first == last {
                        continue;
                    }
                    last = first;
                    if threads.ordered_here(first, warp, l) {
                        continue;
                    }
                    if races(first, block, own, block) {
                        out.push(Conflict {
                            first_block: block,
                            first,
                            second: own,
                            address: (g as u64) << self.shift,
                            same_value: false,
                        });
                    } else {
                        self.note_seen(first);
                    }
                }
            }
        }
        self.each_line(mask, at, lay, bytes, |shadow, line| shadow.settle(threads, line));
    }

    fn note_seen(&mut self, first: Stamp) {
        if self.seen.len() < 2 && self.seen.last() != Some(&first) {
            self.seen.push(first);
        }
    }

    /// Unmarks lines whose asynchronous writes are behind a block-wide barrier.
    fn settle(&mut self, threads: &Threads, line: usize) {
        if self.lines[line].writes != LOOK || self.lines[line].looked == threads.floor() {
            return;
        }
        self.lines[line].looked = threads.floor();
        let mut latest = 0;
        for g in self.granules((line as u32) << LINE, 1 << LINE) {
            for s in [self.writes[g], self.also.get(g).copied().unwrap_or_default()] {
                if s.is_agent() {
                    latest = if threads.known_to_all(s) { latest } else { LOOK };
                } else {
                    latest = latest.max(s.time());
                }
            }
        }
        self.lines[line].writes = latest;
    }

    /// Writes or atomics by the lanes of `mask`.
    #[inline]
    pub fn write(
        &mut self,
        threads: &Threads,
        mask: u32,
        stamp: Stamp,
        at: &[u64; 32],
        lay: &Lay,
        bytes: u32,
        values: &dyn SameValue,
        out: &mut Vec<Conflict>,
    ) {
        if self.bytes == 0 {
            return;
        }
        let floor = threads.floor();
        self.fit_granule(lay, bytes, floor);
        let time = if stamp.is_agent() { LOOK } else { stamp.time() };
        let (mut written, mut read) = (false, false);
        // A strong write does not stand for weaker ones it is ordered after, so it must look at them.
        let synced = if stamp.strength() == Strength::Weak { threads.synced(stamp.warp()) } else { 0 };
        let warp = stamp.warp() as u32;
        self.each_line(mask, at, lay, bytes, |shadow, line| {
            let line = &mut shadow.lines[line];
            let settled = line.settled(warp, floor, synced);
            written |= line.writes > settled;
            read |= line.reads > settled;
            line.writes = line.writes.max(time);
            if time == LOOK {
                line.looked = floor;
            }
        });
        if read {
            self.enter_log(floor, (lay.min as u32, (lay.max as u32).saturating_add(bytes)));
        }
        let limit = u64::from(floor + 1) << TIME;
        let (start, per_lane) = ((lay.min as u32 >> self.shift) as usize, (bytes >> self.shift) as usize);
        if lay.shape == Shape::Row
            && lay.max as u32 + bytes <= self.bytes
            && (!written
                || stamp.strength() == Strength::Weak && self.row_is_own(stamp, start, per_lane, limit))
            && (!read || self.row_read_by_own(stamp, start, per_lane, limit))
        {
            let row = &mut self.writes[start..start + 32 * per_lane];
            match per_lane {
                1 => fill_row::<1>(row, stamp),
                2 => fill_row::<2>(row, stamp),
                4 => fill_row::<4>(row, stamp),
                8 => fill_row::<8>(row, stamp),
                _ => row
                    .chunks_exact_mut(per_lane)
                    .enumerate()
                    .for_each(|(l, lane)| lane.fill(stamp.with_lane(l))),
            }
            return;
        }
        let simple = !read && self.also.is_empty();
        for l in lanes(mask) {
            let own = stamp.with_lane(l);
            let mut told = Stamp::NONE;
            for g in self.granules(at[l] as u32, bytes) {
                if simple && self.writes[g].0 < limit {
                    self.writes[g] = own;
                } else {
                    self.write_granule(threads, g, own, read, floor, values, &mut told, out);
                }
            }
        }
    }

    /// Whether the granules of a row have no readers but the same lanes, or older ones than `limit`.
    fn row_read_by_own(&self, stamp: Stamp, start: usize, per_lane: usize, limit: u64) -> bool {
        if self.readers.is_empty() {
            return true;
        }
        // A strong write does not stand for a weak read.
        let mut other = stamp.strength() != Strength::Weak;
        for (l, lane) in self.readers[start..start + 32 * per_lane].chunks_exact(per_lane).enumerate() {
            for r in lane {
                let own = r.stamp.warp() == stamp.warp() && r.lanes & !(1 << l) == 0 && r.more == 0;
                other |= r.stamp.0 >= limit && (!own || r.stamp.is_agent());
            }
        }
        !other
    }

    fn write_granule(
        &mut self,
        threads: &Threads,
        g: usize,
        own: Stamp,
        check_readers: bool,
        floor: u32,
        values: &dyn SameValue,
        told: &mut Stamp,
        out: &mut Vec<Conflict>,
    ) {
        let (block, warp, lane, limit) =
            (threads.block, own.warp(), own.lane(), u64::from(floor + 1) << TIME);
        let last = self.writes[g];
        if last.0 >= limit {
            let also = self.also.get(g).copied().unwrap_or_default();
            let mut kept = Stamp::NONE;
            // See `Fine::write`: a strong access that saw the strong writes orders them before a weak write.
            let witnessed = own.op() == Op::Write
                && own.strength() == Strength::Weak
                && (last.op() == Op::Atomic && threads.ordered_here(last, warp, lane)
                    || check_readers && self.read_strongly(g, warp, lane));
            for first in [also, last] {
                if first.0 < limit || witnessed && first.strength() != Strength::Weak {
                    continue;
                }
                if first.strength() != Strength::Weak && own.strength() != Strength::Weak {
                    // Both strong, no race whatever the order: keep one for later, of another warp if possible.
                    if own.op() == Op::Atomic {
                        self.note_seen(first);
                    }
                    if kept.is_none() || kept.strength() != Strength::Weak && first.warp() != warp {
                        kept = first;
                    }
                    continue;
                }
                if threads.ordered_here(first, warp, lane) {
                    // A strong write does not stand for a weaker one before it: a later strong access may race
                    // with the weaker one only.
                    if first.strength() < own.strength() {
                        kept = first;
                    }
                    continue;
                }
                let mut harmless = true;
                if races(first, block, own, block) {
                    let same_instruction = first.0 & !31 == own.0 & !31;
                    let plain = first.op() == Op::Write && own.op() == Op::Write && !own.is_agent();
                    harmless = plain
                        && !first.is_agent()
                        && if same_instruction {
                            values.as_lane(lane, first.lane())
                        } else {
                            values.as_memory(lane)
                        };
                    if *told != first {
                        out.push(Conflict {
                            first_block: block,
                            first,
                            second: own,
                            address: (g as u64) << self.shift,
                            same_value: harmless,
                        });
                        *told = first;
                    }
                }
                // Prefer to keep a write of another warp: it is the one that a warp-wide sync does not order.
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
            }
        } else if let Some(also) = self.also.get_mut(g) {
            *also = Stamp::NONE;
        }
        if check_readers && !self.readers.is_empty() {
            self.check_readers(threads, g, own, floor, out);
        }
        self.writes[g] = own;
    }

    /// Whether the thread itself has read the granule with a strong access.
    fn read_strongly(&self, g: usize, warp: usize, lane: usize) -> bool {
        let strong = |stamp: Stamp, lanes: u32| {
            stamp.strength() != Strength::Weak && stamp.warp() == warp && lanes >> lane & 1 == 1
        };
        self.readers.get(g).is_some_and(|r| {
            let more = r.more.checked_sub(1).and_then(|i| self.more.get(i as usize));
            strong(r.stamp, r.lanes)
                || more.is_some_and(|list| list.iter().any(|(s, lanes)| strong(*s, *lanes)))
        })
    }

    /// Checks the readers of a granule against a write, and forgets those that are ordered before it and that it can
    /// stand for.
    fn check_readers(
        &mut self,
        threads: &Threads,
        g: usize,
        own: Stamp,
        floor: u32,
        out: &mut Vec<Conflict>,
    ) {
        let (block, warp, lane, limit) =
            (threads.block, own.warp(), own.lane(), u64::from(floor + 1) << TIME);
        let readers = self.readers[g];
        if readers.stamp.0 < limit {
            return;
        }
        let own_only = readers.more == 0 && readers.stamp.warp() == warp && readers.lanes & !(1 << lane) == 0;
        if own_only && own.strength() == Strength::Weak && !readers.stamp.is_agent() {
            return;
        }
        let shift = self.shift;
        let mut check = |stamp: Stamp, mask: u32| -> u32 {
            let mut kept = 0;
            for l in lanes(mask) {
                let first = stamp.with_lane(l);
                if threads.ordered_here(first, warp, lane) {
                    if first.strength() < own.strength() {
                        kept |= 1 << l;
                    }
                    continue;
                }
                if races(first, block, own, block) {
                    out.push(Conflict {
                        first_block: block,
                        first,
                        second: own,
                        address: (g as u64) << shift,
                        same_value: false,
                    });
                } else {
                    kept |= 1 << l;
                }
            }
            kept
        };
        let kept = check(readers.stamp, readers.lanes);
        let mut rest = Vec::new();
        if readers.more != 0
            && let Some(more) = self.more.get_mut(readers.more as usize - 1)
        {
            rest = std::mem::take(more);
            rest.retain_mut(|(stamp, mask)| {
                if stamp.0 < limit {
                    return false;
                }
                *mask = check(*stamp, *mask);
                *mask != 0
            });
        }
        if kept == 0 && rest.is_empty() {
            self.readers[g] = Readers::default();
            return;
        }
        let (stamp, lanes) = if kept != 0 { (readers.stamp, kept) } else { rest.remove(0) };
        self.readers[g] = Readers { stamp, lanes, more: readers.more };
        if readers.more != 0
            && let Some(more) = self.more.get_mut(readers.more as usize - 1)
        {
            *more = rest;
        }
    }

    /// Enters the logged reads that touch the range into the granules; a short rest stays in the log.
    #[inline(never)]
    fn enter_log(&mut self, floor: u32, range: (u32, u32)) {
        if self.log.is_empty() {
            return;
        }
        if self.readers.is_empty() {
            self.readers.resize(self.writes.len(), Readers::default());
        }
        let limit = u64::from(floor + 1) << TIME;
        let mut log = std::mem::take(&mut self.log);
        let scattered = std::mem::take(&mut self.scattered);
        let all = log.len() > MAX_REST;
        log.retain(|read| {
            if read.stamp.0 < limit {
                return false;
            }
            if !all && (read.span.1 <= range.0 || range.1 <= read.span.0) {
                return true;
            }
            match read.shape {
                Shape::Point => {
                    for g in self.granules(read.at, read.bytes) {
                        self.enter(g, read.stamp, read.mask, limit);
                    }
                }
                Shape::Row => {
                    for l in 0..32 {
                        for g in self.granules(read.at + l * read.bytes, read.bytes) {
                            self.enter(g, read.stamp, 1 << l, limit);
                        }
                    }
                }
                Shape::Scattered => {
                    for l in lanes(read.mask) {
                        for g in self.granules(scattered[read.at as usize][l], read.bytes) {
                            self.enter(g, read.stamp, 1 << l, limit);
                        }
                    }
                }
            }
            false
        });
        self.log = log;
        self.scattered = scattered;
        if self.log.is_empty() {
            self.scattered.clear();
        }
    }

    /// Adds readers to a granule, not always in the order they read. A lane's later read takes the place of its
    /// earlier one, unless it is strong and the earlier one weak.
    fn enter(&mut self, g: usize, stamp: Stamp, mask: u32, limit: u64) {
        // Two reads are alike if all but the instruction agree.
        const INSTRUCTION: u64 = (1 << 30) - (1 << 10);
        let alike = |a: Stamp, b: Stamp| (a.0 | INSTRUCTION | 31) == (b.0 | INSTRUCTION | 31);
        let replaces = |old: Stamp| {
            old.warp() == stamp.warp()
                && old.is_agent() == stamp.is_agent()
                && old.time() <= stamp.time()
                && (stamp.strength() == Strength::Weak || old.strength() != Strength::Weak)
        };
        let slot = &mut self.readers[g];
        if slot.stamp.0 < limit {
            *slot = Readers { stamp, lanes: mask, more: 0 };
            return;
        }
        if alike(slot.stamp, stamp) {
            slot.lanes |= mask;
            return;
        }
        if replaces(slot.stamp) {
            slot.lanes &= !mask;
            if slot.lanes == 0 && slot.more == 0 {
                *slot = Readers { stamp, lanes: mask, more: 0 };
                return;
            }
        }
        if slot.more == 0 {
            self.more.push(Vec::new());
            slot.more = self.more.len() as u32;
        }
        let list = &mut self.more[slot.more as usize - 1];
        let mut merged = false;
        list.retain_mut(|(old, lanes)| {
            if alike(*old, stamp) {
                *lanes |= mask;
                merged = true;
            } else if replaces(*old) {
                *lanes &= !mask;
            }
            *lanes != 0
        });
        if !merged {
            list.push((stamp, mask));
        }
    }
}

#[inline(always)]
fn fill_row<const PER_LANE: usize>(row: &mut [Stamp], stamp: Stamp) {
    for (l, lane) in row.as_chunks_mut::<PER_LANE>().0.iter_mut().enumerate() {
        *lane = [stamp.with_lane(l); PER_LANE];
    }
}
