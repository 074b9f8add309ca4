//! Memory that a whole warp accesses at once, and the check of all its granules together.

use super::stamp::Stamp;

/// Runs of bytes at equal distances. Exactly one lane accesses each byte.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a> {
    pub base: u32,
    /// Distance in bytes from one run to the next.
    pub row: u32,
    /// Size of a run in bytes.
    pub run: u32,
    /// Number of consecutive bytes that one lane accesses. `base` and `row` are multiples of it.
    pub unit: u32,
    /// The lane of each unit, run by run.
    pub lanes: &'a [u8],
}

/// The lanes in ascending order.
static IN_ORDER: [u8; 32] = {
    let mut lanes = [0; 32];
    let mut l = 0;
    while l < 32 {
        lanes[l] = l as u8;
        l += 1;
    }
    lanes
};

impl<'a> Tile<'a> {
    /// A single run in which each lane follows the previous lane.
    pub fn row(base: u32, bytes: u32) -> Tile<'static> {
        Tile { base, row: 0, run: 32 * bytes, unit: bytes, lanes: &IN_ORDER }
    }

    /// Number of bytes from the first byte to the end of the last run.
    #[inline(always)]
    pub fn reach(&self) -> u32 {
        let runs = self.lanes.len() as u32 * self.unit / self.run;
        (runs - 1) * self.row + self.run
    }

    /// Whether the tile lies within `bytes` bytes of memory, and its units are whole and do not overlap.
    #[inline(always)]
    pub fn fits(&self, bytes: u32) -> bool {
        let apart = self.row >= self.run || self.run == self.lanes.len() as u32 * self.unit;
        // These conditions ensure that no unit crosses a line.
        self.unit.is_power_of_two()
            && self.unit <= 32
            && apart
            && (self.base | self.row).is_multiple_of(self.unit)
            && self.base.checked_add(self.reach()).is_some_and(|end| end <= bytes)
    }

    /// Iterates over the addresses and lanes of the parts of the tile, cut at multiples of `1 << line` bytes.
    #[inline(always)]
    pub fn parts(&self, line: u32) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let (unit, per_run, row) = (self.unit, (self.run / self.unit) as usize, self.row);
        let (mut start, mut left) = (self.base, self.lanes);
        let mut run: (u32, &[u8]) = (0, &[]);
        std::iter::from_fn(move || {
            if run.1.is_empty() {
                if left.is_empty() {
                    return None;
                }
                let (first, rest) = left.split_at(per_run);
                run = (start, first);
                left = rest;
                start += row;
            }
            let room = ((1 << line) - (run.0 & ((1 << line) - 1))) / unit;
            let (part, rest) = run.1.split_at((room as usize).min(run.1.len()));
            let at = run.0;
            run = (at + part.len() as u32 * unit, rest);
            Some((at, part))
        })
    }
}

/// A part of a tile that lies in one line.
#[derive(Debug)]
pub struct Part<'a> {
    pub granules: std::ops::Range<usize>,
    /// The lanes of the units of the part.
    pub units: &'a [u8],
    pub per_unit: usize,
    /// The identity bits of lane 0.
    pub who: u64,
    pub limit: u64,
}

impl Part<'_> {
    /// Whether all granules of the part hold, in this table, stamps that are below the limit or from the same thread.
    /// `names` are the identity bits to compare.
    #[inline(always)]
    pub fn is_quiet(&self, table: &[Stamp], names: u64) -> bool {
        let Some(words) = table.get(self.granules.clone()) else { return false };
        match self.per_unit {
            1 => self.check::<1>(words, names),
            2 => self.check::<2>(words, names),
            4 => self.check::<4>(words, names),
            8 => self.check::<8>(words, names),
            16 => self.check::<16>(words, names),
            _ => false,
        }
    }

    #[inline(always)]
    fn check<const N: usize>(&self, words: &[Stamp], names: u64) -> bool {
        let mut other = false;
        for (lane, words) in self.units.iter().zip(words.as_chunks::<N>().0) {
            for word in words {
                other |= (word.0 >= self.limit) & (word.0 & names != self.who | u64::from(*lane));
            }
        }
        !other
    }
}

/// Sets the granules of the units to the stamps of their lanes.
#[inline(always)]
pub fn fill(words: &mut [Stamp], lanes: &[u8], per_unit: usize, stamp: Stamp) {
    #[inline(always)]
    fn set<const N: usize>(words: &mut [Stamp], lanes: &[u8], stamp: Stamp) {
        for (lane, words) in lanes.iter().zip(words.as_chunks_mut::<N>().0) {
            *words = [stamp.with_lane(*lane as usize); N];
        }
    }
    match per_unit {
        1 => set::<1>(words, lanes, stamp),
        2 => set::<2>(words, lanes, stamp),
        4 => set::<4>(words, lanes, stamp),
        8 => set::<8>(words, lanes, stamp),
        16 => set::<16>(words, lanes, stamp),
        _ => {
            for (lane, words) in lanes.iter().zip(words.chunks_mut(per_unit)) {
                words.fill(stamp.with_lane(*lane as usize));
            }
        }
    }
}
