//! The reads of shared memory by asynchronous agents: tensor cores, and bulk copies out of shared memory.
//!
//! A tensor core reads thousands of bytes per instruction, and reads the same bytes again and again when a kernel
//! cycles through a ring of tiles. So its reads are stored as sets of 16-byte chunks, one entry per agent and set, with
//! the time of the latest read. A thread that is ordered after the latest read is ordered after the earlier reads too.
//! Every write to shared memory is checked against these sets.

use std::sync::Arc;

use super::conflict::{Conflict, Conflicts};
use super::event::Agent;
use super::stamp::{Stamp, WHO};
use super::threads::Threads;

/// Size of a chunk: two to this power bytes.
const CHUNK: u32 = 4;
/// Maximum number of sets. Dropping a set can hide a race but never cause a false report.
const MAX_SETS: usize = 1 << 13;

/// A set of chunks of shared memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Chunks {
    /// Number of the first word.
    first: u32,
    /// One bit per chunk.
    words: Vec<u64>,
}

impl Chunks {
    /// Builds the set from the addresses of chunks, in any order.
    fn new(addresses: &[u32]) -> Chunks {
        let (Some(low), Some(high)) = (addresses.iter().min(), addresses.iter().max()) else {
            return Chunks::default();
        };
        let first = low >> CHUNK >> 6;
        let mut words = vec![0; ((high >> CHUNK >> 6) - first) as usize + 1];
        for at in addresses {
            let chunk = at >> CHUNK;
            words[((chunk >> 6) - first) as usize] |= 1 << (chunk & 63);
        }
        Chunks { first, words }
    }

    /// Returns the first address of the range that lies in a chunk of the set.
    fn meets(&self, at: u32, bytes: u32) -> Option<u32> {
        let (low, high) = (at >> CHUNK, (at + bytes.max(1) - 1) >> CHUNK);
        let end = self.first + self.words.len() as u32;
        if high >> 6 < self.first || low >> 6 >= end {
            return None;
        }
        for word in (low >> 6).max(self.first)..=(high >> 6).min(end - 1) {
            let mut bits = self.words[(word - self.first) as usize];
            if word == low >> 6 {
                bits &= u64::MAX << (low & 63);
            }
            if word == high >> 6 {
                bits &= u64::MAX >> (63 - (high & 63));
            }
            if bits != 0 {
                return Some(((word << 6 | bits.trailing_zeros()) << CHUNK).max(at));
            }
        }
        None
    }
}

/// The chunks that an agent reads: their addresses in the order of the reads, and as a set.
#[derive(Debug)]
pub struct ChunkReads {
    pub addresses: Vec<u32>,
    set: Chunks,
}

impl ChunkReads {
    pub fn new(addresses: Vec<u32>) -> ChunkReads {
        ChunkReads { set: Chunks::new(&addresses), addresses }
    }
}

#[derive(Debug, Default)]
pub struct AgentReads {
    reads: Vec<(Stamp, Arc<ChunkReads>)>,
}

impl AgentReads {
    pub fn clear(&mut self) {
        self.reads.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    pub fn insert(&mut self, stamp: Stamp, chunks: &Arc<ChunkReads>) {
        let is_own = |old: Stamp| old.0 & WHO == stamp.0 & WHO;
        // Usually the same operand is read again, which needs no comparison of sets.
        let found =
            self.reads.iter().position(|(old, reads)| is_own(*old) && Arc::ptr_eq(reads, chunks)).or_else(
                || self.reads.iter().position(|(old, reads)| is_own(*old) && reads.set == chunks.set),
            );
        if let Some(number) = found {
            self.reads[number].0 = stamp;
        } else {
            if self.reads.len() >= MAX_SETS {
                self.reads.remove(0);
            }
            self.reads.push((stamp, Arc::clone(chunks)));
        }
    }

    /// A block-wide barrier: removes the reads that are ordered before all threads of the block.
    pub fn on_block_barrier(&mut self, threads: &Threads) {
        self.reads.retain(|(stamp, _)| !threads.known_to_all(*stamp));
    }

    /// Checks a write to a range by the thread or agent of `own`.
    pub fn check_write(&self, threads: &Threads, own: Stamp, at: u32, bytes: u32, out: &mut Conflicts) {
        for (first, reads) in &self.reads {
            if let Some(address) = reads.set.meets(at, bytes)
                && !threads.ordered_here(*first, own.warp(), own.lane())
            {
                out.list.push(Conflict::new((threads.block, *first), own, u64::from(address)));
            }
        }
    }
}

/// Whether data written by this stamp must pass a proxy fence before bulk copies and tensor cores see it.
pub fn is_generic(stamp: Stamp) -> bool {
    matches!(stamp.agent(), None | Some(Agent::Copy))
}

#[cfg(test)]
mod tests {
    use super::Chunks;

    #[test]
    fn a_set_meets_the_ranges_it_has_chunks_in() {
        let set = Chunks::new(&[4096, 1024, 1040, 4112]);
        assert_eq!(set.meets(0, 1024), None);
        assert_eq!(set.meets(1000, 25), Some(1024));
        assert_eq!(set.meets(1050, 4), Some(1050));
        assert_eq!(set.meets(1056, 4096 - 1056), None);
        assert_eq!(set.meets(1056, 10_000), Some(4096));
        assert_eq!(set.meets(4128, 10_000), None);
        assert_eq!(Chunks::new(&[]).meets(0, 16), None);
    }
}
