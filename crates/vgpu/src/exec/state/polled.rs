//! The words that blocks poll.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of words, by their addresses. Different words may count as one.
#[derive(Debug, Default)]
pub struct PolledWords {
    bits: [AtomicU64; PolledWords::UNITS],
    any: AtomicU64,
}

impl PolledWords {
    const UNITS: usize = 16;

    fn place(address: u64) -> (usize, u64) {
        let hash = (address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash as usize / 64 % Self::UNITS, 1 << (hash % 64))
    }

    pub fn add(&self, address: u64) {
        let (unit, bit) = Self::place(address);
        self.bits[unit].fetch_or(bit, Ordering::Relaxed);
        self.any.store(1, Ordering::Relaxed);
    }

    pub fn is_empty(&self) -> bool {
        self.any.load(Ordering::Relaxed) == 0
    }

    pub fn contains(&self, address: u64) -> bool {
        let (unit, bit) = Self::place(address);
        self.bits[unit].load(Ordering::Relaxed) & bit != 0
    }
}
