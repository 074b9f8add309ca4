//! Decoded operands of `wgmma`. The warps of a block multiply by the same operand one after another, so the numbers are
//! kept. They are valid as long as the memory that they were read from has not changed.

use std::ops::Range;

use super::descriptor::OperandKey;
use crate::num::simd::per_isa;
use crate::num::tile::warpgroup::{Columns, Decoded, Warpgroup};

/// Number of operands that a block keeps: eight steps along k in each of four stages.
const MAX_ENTRIES: usize = 32;

/// Bytes that are compared at once. A chunk lies in one such block.
const BLOCK: usize = 32;

#[derive(Debug, Default)]
pub struct OperandCache {
    entries: Vec<Entry>,
    /// The start addresses of the operands, in the order of the entries, side by side: a search reads them all.
    starts: Vec<u32>,
    /// The entry that is replaced next.
    next: usize,
    /// Memory for the columns of the operand that is being decoded.
    columns: Vec<Columns>,
    /// Addresses from the first to the last byte of all operands so far.
    covered: Range<u32>,
}

#[derive(Debug)]
struct Entry {
    key: (OperandKey, Warpgroup),
    /// Addresses in shared memory of the blocks that hold the operand's chunks, and the bytes that were there.
    blocks: Vec<u32>,
    bytes: Vec<[u8; BLOCK]>,
    /// Number of writes to shared memory when the bytes were last compared.
    writes: Option<u64>,
    decoded: Decoded,
}

impl OperandCache {
    /// Decodes the operand of a key, unless that is done. Returns its place in the cache. `writes` counts the writes to
    /// shared memory, if they can be counted; without a write the memory is not compared. `chunks` returns the addresses
    /// of all chunks of the operand, `columns` reads them.
    ///
    /// # Safety
    /// Every chunk must lie in `memory`, whose start and size are multiples of [`BLOCK`].
    #[inline(always)]
    pub unsafe fn decode(
        &mut self,
        key: (OperandKey, Warpgroup),
        memory: *const u8,
        writes: Option<u64>,
        chunks: impl FnOnce() -> Vec<u32>,
        columns: impl FnOnce(&mut Vec<Columns>),
    ) -> usize {
        let start = key.0.0.start;
        let found = (0..self.starts.len()).find(|i| self.starts[*i] == start && self.entries[*i].key == key);
        let at = found.unwrap_or_else(|| self.add(key, chunks()));
        let entry = &mut self.entries[at];
        if found.is_some() {
            // SAFETY: the blocks are those of the operand's chunks.
            let unchanged = || unsafe { is_unchanged(memory, &entry.blocks, &entry.bytes) };
            if writes.is_some() && entry.writes == writes {
                debug_assert!(unchanged(), "an instruction wrote shared memory and was not counted");
                return at;
            }
            if unchanged() {
                entry.writes = writes;
                return at;
            }
        }
        entry.writes = writes;
        entry.bytes.resize(entry.blocks.len(), [0; BLOCK]);
        for (block, bytes) in entry.blocks.iter().zip(&mut entry.bytes) {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(memory.add(*block as usize), bytes.as_mut_ptr(), BLOCK) };
        }
        columns(&mut self.columns);
        let ((_, mn_major, ..), op) = &entry.key;
        entry.decoded.decode(op.b, *mn_major, &self.columns);
        at
    }

    /// Whether a byte of shared memory may belong to an operand.
    pub fn covers(&self, at: u32) -> bool {
        self.covered.contains(&at)
    }

    pub fn get(&self, at: usize) -> &Decoded {
        &self.entries[at].decoded
    }

    fn add(&mut self, key: (OperandKey, Warpgroup), chunks: Vec<u32>) -> usize {
        let mut blocks: Vec<u32> = chunks.into_iter().map(|at| at & !(BLOCK as u32 - 1)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        if let (Some(first), Some(last)) = (blocks.first(), blocks.last()) {
            let (start, end) = (*first, last + BLOCK as u32);
            self.covered = if self.covered.is_empty() {
                start..end
            } else {
                self.covered.start.min(start)..self.covered.end.max(end)
            };
        }
        if self.entries.len() < MAX_ENTRIES {
            let (bytes, decoded) = (Vec::new(), Decoded::default());
            self.starts.push(key.0.0.start);
            self.entries.push(Entry { key, blocks, bytes, writes: None, decoded });
            return self.entries.len() - 1;
        }
        let at = self.next;
        self.next = (at + 1) % MAX_ENTRIES;
        self.starts[at] = key.0.0.start;
        let entry = &mut self.entries[at];
        (entry.key, entry.blocks) = (key, blocks);
        at
    }
}

/// Compares a few blocks at a time before it decides: a test of each would take longer.
#[inline(always)]
fn is_unchanged_body<const AVX2: bool>(memory: *const u8, blocks: &[u32], bytes: &[[u8; BLOCK]]) -> bool {
    blocks.chunks(8).zip(bytes.chunks(8)).all(|(blocks, bytes)| {
        let mut changed = [0u64; 4];
        for (at, known) in blocks.iter().zip(bytes) {
            // SAFETY: the callers of `is_unchanged` have all blocks in `memory`.
            let now = unsafe { memory.add(*at as usize).cast::<[u64; 4]>().read_unaligned() };
            let known = known.as_chunks::<8>().0;
            for i in 0..4 {
                changed[i] |= now[i] ^ u64::from_ne_bytes(known[i]);
            }
        }
        changed == [0; 4]
    })
}

per_isa! {
    /// Whether the memory at `blocks` still holds `bytes`.
    fn compare = is_unchanged_body where (memory: *const u8, blocks: &[u32], bytes: &[[u8; BLOCK]]) -> bool;
}

/// # Safety
/// All blocks must lie in `memory`.
unsafe fn is_unchanged(memory: *const u8, blocks: &[u32], bytes: &[[u8; BLOCK]]) -> bool {
    compare(memory, blocks, bytes)
}
