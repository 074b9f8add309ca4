//! Words whose races have been reported often enough. They are not checked any more, because a kernel full of races
//! would be checked ten times as slowly as a correct one.

use std::collections::HashSet;

use super::Key;
use super::conflict::Conflict;
use crate::lanes::lanes_where;

/// Number of races of known causes in a row after which further words with races are not checked any more.
const MANY: u32 = 1 << 12;

#[derive(Debug, Default)]
pub struct Told {
    known: HashSet<Key>,
    /// Races since the last new cause.
    repeats: u32,
    /// A bit for each word of the block's shared memory.
    shared: Vec<u64>,
    global: HashSet<u64>,
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
        let word = conflict.address / 4;
        if shared {
            let at = word as usize / 64;
            if self.shared.len() <= at {
                self.shared.resize(at + 1, 0);
            }
            self.shared[at] |= 1 << (word % 64);
        } else {
            self.global.insert(word);
        }
    }

    /// The lanes of an access of words of shared memory that must be checked.
    #[inline(always)]
    pub fn unknown_shared(&self, mask: u32, at: &[u32; 32], bytes: u32) -> u32 {
        if self.shared.is_empty() || bytes > 4 {
            return mask;
        }
        let is_told =
            |word: u32| self.shared.get(word as usize / 64).is_some_and(|bits| bits >> (word % 64) & 1 == 1);
        mask & !lanes_where(mask, |l| is_told(at[l] / 4))
    }

    /// The lanes of an access of words of global memory that must be checked.
    #[inline(always)]
    pub fn unknown_global(&self, mask: u32, at: &[u64; 32], bytes: u32) -> u32 {
        if self.global.is_empty() || bytes > 4 {
            return mask;
        }
        mask & !lanes_where(mask, |l| self.global.contains(&(at[l] / 4)))
    }
}
