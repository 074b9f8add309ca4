//! The heap of device-side `malloc` and `free`.
//!
//! Every block is a region of its own, with unused addresses behind it, so that an access past its end or after its
//! release is out of bounds. Addresses are used again only when all have been used once: otherwise the race checker
//! would see the old and the new owner of an address as rivals.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::region::{Bytes, Region};
use super::shadow;

/// Bytes that may be allocated at the same time: CUDA's default.
const LIMIT: u64 = 8 << 20;
/// Bytes of addresses.
pub const SPAN: u64 = 128 << 20;
const ALIGN: u64 = 16;
/// The bytes of a new block.
const UNDEFINED: u8 = 0xa7;
/// Addresses behind a block that belong to no block.
const GAP: u64 = 64;

#[derive(Debug)]
pub struct Heap {
    pub base: u64,
    data: Bytes,
    shadow: Bytes,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    /// Size of each live block, by offset.
    live: BTreeMap<u64, u64>,
    /// Offset and size of the freed blocks, in the order of their release.
    freed: VecDeque<(u64, u64)>,
    used: u64,
    /// The first offset that was never used.
    fresh: u64,
}

/// Why an address cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// The block was freed before.
    Twice,
    /// `malloc` did not return this address.
    NoBlock,
}

impl Heap {
    pub fn new(base: u64) -> Option<Heap> {
        // The system provides the pages of these allocations on their first use.
        let (data, shadow) = (Bytes::zeroed(SPAN as usize)?, Bytes::zeroed(SPAN as usize)?);
        Some(Heap { base, data, shadow, blocks: Mutex::default() })
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < SPAN
    }

    /// Allocates a block. Returns its address, or `None` if the heap is full.
    pub fn malloc(&self, bytes: u64) -> Option<u64> {
        let mut blocks = self.blocks();
        if bytes > LIMIT - blocks.used {
            return None;
        }
        let room = (bytes + GAP).next_multiple_of(ALIGN);
        let at = if SPAN - blocks.fresh >= room {
            let at = blocks.fresh;
            blocks.fresh += room;
            at
        } else {
            let oldest = blocks.freed.iter().position(|(_, size)| *size >= bytes)?;
            blocks.freed.remove(oldest)?.0
        };
        blocks.used += bytes;
        blocks.live.insert(at, bytes);
        // SAFETY: the block lies inside the heap, and no other block contains its bytes.
        unsafe {
            self.shadow.as_ptr().add(at as usize).write_bytes(shadow::NEVER, bytes as usize);
            // What an earlier launch has left there must not be of use.
            self.data.as_ptr().add(at as usize).write_bytes(UNDEFINED, bytes as usize);
        }
        Some(self.base + at)
    }

    /// The number of blocks that were not freed.
    pub fn live_blocks(&self) -> usize {
        self.blocks().live.len()
    }

    /// Frees a block.
    pub fn free(&self, address: u64) -> Result<(), FreeError> {
        let mut blocks = self.blocks();
        let at = address.wrapping_sub(self.base);
        let Some(bytes) = blocks.live.remove(&at) else {
            let was_block = blocks.freed.iter().any(|(start, _)| *start == at);
            return Err(if was_block { FreeError::Twice } else { FreeError::NoBlock });
        };
        blocks.used -= bytes;
        blocks.freed.push_back((at, bytes));
        Ok(())
    }

    /// The live block that contains an address, or the last one before it.
    pub fn region_of(&self, address: u64) -> Region {
        let blocks = self.blocks();
        let at = address.wrapping_sub(self.base);
        let Some((start, bytes)) = blocks.live.range(..=at).next_back() else { return Region::NONE };
        Region {
            address: self.base + start,
            bytes: *bytes,
            data: self.data.as_ptr().wrapping_add(*start as usize),
            shadow: self.shadow.as_ptr().wrapping_add(*start as usize),
            constant: false,
            defined: false,
        }
    }

    /// Describes what is at or before an address, for a finding.
    pub fn describe(&self, address: u64) -> String {
        let blocks = self.blocks();
        let at = address.wrapping_sub(self.base);
        let freed =
            blocks.freed.iter().rev().find(|(start, bytes)| (*start..start + bytes.max(&1)).contains(&at));
        if let Some((start, bytes)) = freed {
            return format!(
                "{} bytes into a block of {bytes} bytes from malloc, which was freed",
                at - start
            );
        }
        match blocks.live.range(..=at).next_back() {
            Some((start, bytes)) if at - start >= *bytes => {
                format!("{} bytes past the end of a block of {bytes} bytes from malloc", at - start - bytes)
            }
            Some((_, bytes)) => format!("at the end of a block of {bytes} bytes from malloc"),
            None => "before the first block from malloc".to_string(),
        }
    }
}
