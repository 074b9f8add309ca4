//! Words whose races have been reported often enough. Most accesses to them are not checked any more, because a kernel full
//! of races would be checked ten times as slowly as a correct one.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use super::Key;
use super::conflict::Conflict;
use crate::lanes::lanes_where;

/// Number of races of known causes in a row after which further words with races are not checked any more.
const MANY: u32 = 1 << 12;
/// One of so many accesses is checked in any case, for races of other causes with the same access.
const SAMPLE: u32 = 64;

#[derive(Debug, Default)]
pub struct Told {
    known: HashSet<Key>,
    /// Races since the last new cause.
    repeats: u32,
    /// For each access, a bit for each word of the block's shared memory.
    shared: HashMap<u32, Vec<u64>>,
    /// Accesses and words of global memory.
    global: HashSet<(u32, u64)>,
    /// Accesses to known words.
    accesses: Cell<u32>,
}

impl Told {
    /// Forgets shared memory, which belongs to one block.
    pub fn start_block(&mut self) {
        self.shared.clear();
    }

    /// Counts a race.
    pub fn add(&mut self, key: Key, shared: bool, conflict: &Conflict) {
        if self.known.insert(key) {
            self.repeats = 0;
            return;
        }
        self.repeats = self.repeats.saturating_add(1);
        if self.repeats < MANY {
            return;
        }
        let (word, pc) = (conflict.address / 4, conflict.second.pc());
        if shared {
            let words = self.shared.entry(pc).or_default();
            let at = word as usize / 64;
            if words.len() <= at {
                words.resize(at + 1, 0);
            }
            words[at] |= 1 << (word % 64);
        } else {
            self.global.insert((pc, word));
        }
    }

    /// The lanes of an access to words of shared memory that must be checked.
    #[inline(always)]
    pub fn unknown_shared(&self, pc: u32, mask: u32, at: &[u32; 32], bytes: u32) -> u32 {
        if self.shared.is_empty() || bytes > 4 {
            return mask;
        }
        let Some(words) = self.shared.get(&pc) else { return mask };
        let is_told =
            |word: u32| words.get(word as usize / 64).is_some_and(|bits| bits >> (word % 64) & 1 == 1);
        self.unless_sampled(mask, lanes_where(mask, |l| is_told(at[l] / 4)))
    }

    /// The lanes of an access to words of global memory that must be checked.
    #[inline(always)]
    pub fn unknown_global(&self, pc: u32, mask: u32, at: &[u64; 32], bytes: u32) -> u32 {
        if self.global.is_empty() || bytes > 4 {
            return mask;
        }
        self.unless_sampled(mask, lanes_where(mask, |l| self.global.contains(&(pc, at[l] / 4))))
    }

    fn unless_sampled(&self, mask: u32, told: u32) -> u32 {
        if told == 0 {
            return mask;
        }
        let number = self.accesses.get();
        self.accesses.set(number.wrapping_add(1));
        if number.is_multiple_of(SAMPLE) { mask } else { mask & !told }
    }
}
