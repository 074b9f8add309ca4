//! The readers of the granules of shared memory.

use super::conflict::{Clash, Conflict, Conflicts, clash};
use super::event::Strength;
use super::stamp::{SEVERAL, Stamp, THREAD, TIME, WHO};
use super::threads::Threads;
use crate::lanes::lanes;

/// The bits that identify the reader of a granule with a single reader.
pub const READER: u64 = WHO | SEVERAL;
/// The bits that hold the index of the list, in a word for several readers.
const PLACE: usize = (1 << 30) - 1;

#[derive(Debug, Default)]
pub struct Readers {
    /// One word per granule: its only reader, or `SEVERAL` with their latest time and the index of their list. Empty
    /// until the first reader is recorded.
    pub words: Vec<Stamp>,
    /// Lists of readers by instruction and lanes. Indices are reused after a block-wide barrier: the indices in words
    /// below the limit are stale.
    lists: Vec<Vec<(Stamp, u32)>>,
    used: usize,
    /// How many lists may be in use before a sweep.
    room: usize,
    /// Stamps below this limit are ordered before everything that the block does from now on.
    pub limit: u64,
}

impl Readers {
    /// Removes all readers.
    pub fn start(&mut self, limit: u64) {
        self.words.clear();
        self.used = 0;
        self.limit = limit;
    }

    /// A block-wide barrier orders all readers except agents. The lists of agents are kept.
    pub fn on_block_barrier(&mut self, limit: u64, agents: bool) {
        self.limit = limit;
        if !agents {
            self.used = 0;
        }
    }

    #[inline(always)]
    pub fn reserve(&mut self, granules: usize) {
        if self.words.len() < granules {
            self.words.resize(granules, Stamp::NONE);
        }
    }

    /// Splits granules, each into `factor` granules at the end of the table.
    pub fn refine(&mut self, granules: std::ops::Range<usize>, factor: usize) {
        if self.words.is_empty() {
            return;
        }
        for g in granules {
            let word = std::mem::take(&mut self.words[g]);
            let list = self.list(word).cloned();
            self.words.push(word);
            for _ in 1..factor {
                let copy = list.clone().map_or(word, |list| self.keep(Stamp::NONE, list));
                self.words.push(copy);
            }
        }
    }

    /// Returns the list of readers, if there are several and they are not stale.
    fn list(&self, word: Stamp) -> Option<&Vec<(Stamp, u32)>> {
        (word.0 >= self.limit && word.0 & SEVERAL == SEVERAL).then(|| &self.lists[word.0 as usize & PLACE])
    }

    /// Takes the list out of the table, or makes a list of the only reader.
    fn take(&mut self, word: Stamp) -> Vec<(Stamp, u32)> {
        if word.0 & SEVERAL == SEVERAL {
            std::mem::take(&mut self.lists[word.0 as usize & PLACE])
        } else {
            vec![(word.with_lane(0), 1 << word.lane())]
        }
    }

    /// Stores these readers and returns their word. `old` is the previous word.
    fn keep(&mut self, old: Stamp, list: Vec<(Stamp, u32)>) -> Stamp {
        match list[..] {
            [] => return Stamp::NONE,
            [(stamp, lanes)] if lanes.is_power_of_two() => {
                return stamp.with_lane(lanes.trailing_zeros() as usize);
            }
            _ => {}
        }
        let latest = list.iter().fold(0, |latest, (s, _)| latest.max(s.0 >> TIME << TIME));
        let place = if self.list(old).is_some() {
            old.0 as usize & PLACE
        } else {
            if self.used > self.room {
                self.sweep();
            }
            self.used += 1;
            self.used - 1
        };
        if place == self.lists.len() {
            self.lists.push(list);
        } else {
            self.lists[place] = list;
        }
        Stamp(latest | SEVERAL | place as u64)
    }

    /// Drops the lists that no granule refers to.
    #[cold]
    fn sweep(&mut self) {
        let mut kept = Vec::new();
        for word in &mut self.words {
            if word.0 >= self.limit && word.0 & SEVERAL == SEVERAL {
                kept.push(std::mem::take(&mut self.lists[word.0 as usize & PLACE]));
                word.0 = word.0 & !(PLACE as u64) | (kept.len() as u64 - 1);
            }
        }
        self.used = kept.len();
        self.room = 2 * kept.len() + (1 << 12);
        self.lists = kept;
    }

    /// Whether the thread itself has read the granule with a strong access.
    pub fn read_strongly(&self, g: usize, warp: usize, lane: usize) -> bool {
        let strong = |stamp: Stamp, lanes: u32| {
            stamp.strength() != Strength::Weak && stamp.warp() == warp && lanes >> lane & 1 == 1
        };
        let Some(&word) = self.words.get(g).filter(|word| word.0 >= self.limit) else { return false };
        match self.list(word) {
            Some(list) => list.iter().any(|(s, lanes)| strong(*s, *lanes)),
            None => strong(word, 1 << word.lane()),
        }
    }

    /// Checks the readers of a granule against a write. Removes the readers that are ordered before the write and that
    /// the write can represent in later checks.
    pub fn check(&mut self, threads: &Threads, g: usize, address: u64, own: Stamp, out: &mut Conflicts) {
        let (block, warp, lane, limit) = (threads.block, own.warp(), own.lane(), self.limit);
        let Some(&word) = self.words.get(g).filter(|word| word.0 >= limit) else { return };
        if own.strength() == Strength::Weak && word.0 & READER == own.0 & THREAD {
            return;
        }
        let mut list = self.take(word);
        list.retain_mut(|(stamp, mask)| {
            if stamp.0 < limit {
                return false;
            }
            for l in lanes(*mask) {
                let first = stamp.with_lane(l);
                let ordered = threads.ordered_here(first, warp, lane);
                let clash = if ordered { Clash::Nothing } else { clash(first, block, own, block) };
                let race = clash == Clash::Race;
                if clash != Clash::Nothing {
                    out.list.push(Conflict::new((block, first), own, address));
                }
                if race || ordered && first.strength() >= own.strength() {
                    *mask &= !(1 << l);
                }
            }
            *mask != 0
        });
        self.words[g] = self.keep(word, list);
    }

    /// Adds readers to a granule, not always in the order in which they read. A later read of a lane replaces its
    /// earlier read, unless the later read is strong and the earlier read is weak.
    pub fn enter(&mut self, g: usize, stamp: Stamp, mask: u32, limit: u64) {
        // Two reads are alike if everything except the instruction is equal.
        const INSTRUCTION: u64 = (1 << 30) - (1 << 10);
        let alike = |a: Stamp, b: Stamp| (a.0 | INSTRUCTION | 31) == (b.0 | INSTRUCTION | 31);
        let replaces = |old: Stamp| {
            old.warp() == stamp.warp()
                && old.agent() == stamp.agent()
                && old.time() <= stamp.time()
                && (stamp.strength() == Strength::Weak || old.strength() != Strength::Weak)
        };
        let word = self.words[g];
        if word.0 < limit {
            self.words[g] = if mask.is_power_of_two() {
                stamp.with_lane(mask.trailing_zeros() as usize)
            } else {
                self.keep(word, vec![(stamp, mask)])
            };
            return;
        }
        let place = word.0 as usize & PLACE;
        if word.0 & SEVERAL == SEVERAL
            && let Some([(old, lanes)]) = self.lists.get_mut(place).map(|list| &mut list[..])
            && alike(*old, stamp)
        {
            *lanes |= mask;
            return;
        }
        let mut list = self.take(word);
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
        self.words[g] = self.keep(word, list);
    }
}
