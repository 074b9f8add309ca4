//! The critical path of a block: a warp that waits for others goes on when they are done.
//!
//! Each warp counts the clocks of its own chain of instructions. At a barrier it continues with the clocks of the warp
//! that arrives last, and at the end of a copy with those of the copy. Otherwise a kernel that passes its work from warp
//! to warp would seem to do it at once, and a copy that is waited for in another basic block would take no time.

use std::collections::{HashMap, VecDeque};

use super::chain::L2_CLOCKS;

/// The clocks of the barriers of a block.
#[derive(Debug, Default)]
pub struct BlockPath {
    /// The latest arrival in the current phase of each of the block's barriers.
    barriers: [u64; 16],
    /// The same for mbarrier objects by address, and the end of their last phase.
    objects: HashMap<u64, (u64, u64)>,
}

impl BlockPath {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.barriers = [0; 16];
        self.objects.clear();
    }

    /// A warp arrives at a barrier of the block.
    pub fn arrive_at_barrier(&mut self, id: u32, clocks: u64) {
        let latest = &mut self.barriers[id as usize % 16];
        *latest = clocks.max(*latest);
    }

    /// Ends a phase of a barrier of the block. Returns the clocks at which its warps go on.
    pub fn end_barrier(&mut self, id: usize) -> u64 {
        std::mem::take(&mut self.barriers[id % 16])
    }

    /// A warp arrives at an mbarrier object.
    pub fn arrive(&mut self, object: u64, clocks: u64) {
        let (latest, _) = self.objects.entry(object).or_default();
        *latest = clocks.max(*latest);
    }

    /// A warp starts a copy that reports to an mbarrier object.
    pub fn copy(&mut self, object: u64, clocks: u64) {
        self.arrive(object, clocks + L2_CLOCKS);
    }

    /// A phase of an mbarrier object ends.
    pub fn end_phase(&mut self, object: u64) {
        let (latest, ended) = self.objects.entry(object).or_default();
        *ended = std::mem::take(latest).max(*ended);
    }

    /// The clocks at which the last phase of an mbarrier object ended.
    pub fn ended(&self, object: u64) -> u64 {
        self.objects.get(&object).map_or(0, |(_, ended)| *ended)
    }
}

/// The groups of copies that a warp has started and not waited for.
#[derive(Debug, Default)]
pub struct CopyGroups {
    /// Number of pieces of code that the warp has run.
    pieces: u64,
    /// The clocks at which the copies since the last commit are done, and the piece of code that started the last one.
    open: (u64, u64),
    groups: VecDeque<(u64, u64)>,
}

/// Number of groups that are told apart. Older ones count as one.
const MAX_GROUPS: usize = 64;

impl CopyGroups {
    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = CopyGroups::default();
    }

    /// The warp begins to run a piece of straight-line code.
    pub fn enter(&mut self) {
        self.pieces += 1;
    }

    /// The warp starts a copy.
    pub fn start(&mut self, clocks: u64) {
        self.open = (self.open.0.max(clocks + L2_CLOCKS), self.pieces);
    }

    /// The warp ends a group.
    pub fn commit(&mut self) {
        self.groups.push_back(std::mem::take(&mut self.open));
        if self.groups.len() > MAX_GROUPS
            && let Some(oldest) = self.groups.pop_front()
        {
            let next = &mut self.groups[0];
            *next = (next.0.max(oldest.0), next.1);
        }
    }

    /// The warp waits until at most `keep` of the latest groups are under way. Returns the clocks at which the others
    /// are done. The chain of a piece of code contains the waits for copies that the same piece has started.
    pub fn wait(&mut self, keep: u32) -> u64 {
        let done = self.groups.len().saturating_sub(keep as usize);
        let pieces = self.pieces;
        self.groups
            .drain(..done)
            .filter(|(_, piece)| *piece != pieces)
            .map(|(clocks, _)| clocks)
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_go_on_with_the_last_arrival() {
        let mut path = BlockPath::default();
        path.arrive(64, 10);
        path.copy(64, 30);
        assert_eq!(path.ended(64), 0);
        path.end_phase(64);
        assert_eq!(path.ended(64), 30 + L2_CLOCKS);
        path.arrive_at_barrier(3, 7);
        path.arrive_at_barrier(3, 5);
        assert_eq!((path.end_barrier(3), path.end_barrier(3)), (7, 0));
    }

    #[test]
    fn a_wait_covers_the_groups_of_earlier_code() {
        let mut copies = CopyGroups::default();
        copies.enter();
        copies.start(10);
        copies.commit();
        copies.start(20);
        copies.commit();
        // The chain of the code contains this wait.
        assert_eq!(copies.wait(1), 0);
        copies.enter();
        assert_eq!(copies.wait(1), 0);
        assert_eq!(copies.wait(0), 20 + L2_CLOCKS);
        assert_eq!(copies.wait(0), 0);
    }
}
