//! Asynchronous copies that are under way.

use crate::check::Site;
use crate::lanes::{lanes, lanes_where};
use crate::tensor_map::region::TensorBox;

/// The pending copies that the lanes of one instruction issued.
#[derive(Clone, Debug)]
pub struct PendingCopy {
    pub warp: u32,
    pub lanes: u32,
    pub bytes: u8,
    /// Destination offsets in shared memory.
    pub to: [u32; 32],
    pub from: [u64; 32],
    /// Number of bytes to read. The rest of the destination is filled with zeros.
    pub read: [u8; 32],
    /// The copy group of the thread, counted from 0.
    pub group: [u32; 32],
    /// Position in the block's order of issue.
    pub serial: u64,
}

impl PendingCopy {
    /// Whether the copy will write this byte of shared memory.
    pub fn covers(&self, address: u32) -> bool {
        lanes(self.lanes).any(|l| address.wrapping_sub(self.to[l]) < u32::from(self.bytes))
    }
}

/// An arrival at an mbarrier object that takes effect when the thread's earlier copies are complete.
#[derive(Clone, Copy, Debug)]
pub struct OwedArrival {
    pub warp: u32,
    pub lane: u32,
    pub barrier: u32,
    /// The arrival waits for the thread's copies that were issued before this position.
    pub serial: u64,
    /// The progress of the thread's copies, for the race checker.
    pub mark: u32,
}

/// The source of a bulk copy into shared memory.
#[derive(Clone, Debug)]
pub enum CopySource {
    /// The bytes that start at this address.
    Range(u64),
    /// These bytes and their shadow states.
    Bytes(Box<[(u8, u8)]>),
    /// A box of a tensor, and its number among the block's loads.
    Box(Box<TensorBox>, u32),
}

/// One lane's bulk copy that has not landed, or only in part.
#[derive(Clone, Debug)]
pub struct BulkCopy {
    /// The instruction and the lane that issued the copy.
    pub site: Site,
    /// Destination offset in shared memory.
    pub to: u32,
    pub bytes: u32,
    pub source: CopySource,
    /// Number of bytes, from the start, that have landed.
    pub landed: u32,
    /// The mbarrier object that counts the copy's bytes.
    pub barrier: u32,
    /// The progress of the issuing agent, for the race checker. `None` if a thread of another block issued the copy.
    pub mark: Option<u32>,
}

impl BulkCopy {
    /// Whether the copy may still write this byte of shared memory.
    pub fn covers(&self, address: u32) -> bool {
        // The rows of a box are swizzled, so finding the bytes that have landed costs more than it is worth. All bytes
        // of the box count as pending.
        let pending = match &self.source {
            CopySource::Range(_) | CopySource::Bytes(_) => self.to + self.landed..self.to + self.bytes,
            CopySource::Box(tensor, _) => self.to..self.to + tensor.map.shared_bytes(),
        };
        pending.contains(&address)
    }
}

/// The bulk stores that each lane of a warp must still wait for.
#[derive(Clone, Copy, Debug, Default)]
pub struct BulkGroups {
    committed: [u32; 32],
    /// Number of groups whose reads have been waited for.
    read: [u32; 32],
    /// Lanes with stores that do not belong to a group yet.
    open: u32,
    /// Lanes that have issued a store, and the instruction of each lane's last store.
    stored: u32,
    pub last: [u32; 32],
}

impl BulkGroups {
    pub fn store(&mut self, lane: usize, at: u32) {
        self.open |= 1 << lane;
        self.stored |= 1 << lane;
        self.last[lane] = at;
    }

    pub fn commit(&mut self, mask: u32) {
        self.open &= !mask;
        for l in lanes(mask) {
            self.committed[l] += 1;
        }
    }

    pub fn wait(&mut self, keep: u32, mask: u32) {
        for l in lanes(mask) {
            self.read[l] = self.read[l].max(self.committed[l].saturating_sub(keep));
        }
    }

    /// Returns the lanes of `mask` with stores whose reads they have not waited for.
    pub fn unread(&self, mask: u32) -> u32 {
        lanes_where(mask & self.stored, |l| self.open >> l & 1 == 1 || self.read[l] < self.committed[l])
    }
}
