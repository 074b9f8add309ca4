//! What the step loop tells the checkers and counters.

use super::Policy;
use super::block::BlockCore;
use super::copies::{OwedArrival, PendingCopy};
use super::grid::WorkerState;
use super::memory::{Addresses, Use};
use super::step::Cx;
use crate::check::Kind;
use crate::isa::op::{Access, Order};
use crate::isa::types::{Scope, Space};

impl<P: Policy> Cx<'_, '_, P> {
    /// A finding at the current instruction.
    pub fn finding(&mut self, kind: Kind, lanes: u32, message: impl FnOnce() -> String) {
        let at = self.at();
        self.worker.report(self.grid, kind, at, self.block.index, self.w.id, lanes, message);
    }

    /// A finding that ends the launch.
    pub fn halt(&mut self, kind: Kind, lanes: u32, message: impl FnOnce() -> String) {
        self.finding(kind, lanes, message);
        self.grid.stop();
    }

    pub fn on_access(&mut self, _space: Space, _ad: &Addresses, _size: u32, _lanes: u32, _what: Use, _access: &Access) {}

    /// Rows of one matrix: row `r` of matrix `n` was named by lane `8 n + r`.
    pub fn on_matrix(&mut self, at: &[u64; 32], n: usize, rows: u32, what: Use, access: &Access) {
        let survey = super::survey::Survey { min: 0, max: 0, or: 0, contiguous: false, uniform: false };
        let ad = Addresses { at: *at, survey };
        self.on_access(Space::Shared, &ad, 16, rows << (n * 8), what, access);
    }

    pub fn on_fence(&mut self, _scope: Scope, _order: Order, _lanes: u32) {}

    pub fn on_warp_sync(&mut self, _lanes: u32) {}

    pub fn on_copy_issue(&mut self, _copy: &mut PendingCopy) {}

    pub fn on_copy_land(&mut self, _copy: &PendingCopy, _lanes: u32, _waited: bool) {}

    pub fn on_owed_arrival(&mut self, _owed: &OwedArrival) {}

    pub fn on_mbarrier_init(&mut self, _address: u64, _lane: usize) {}

    pub fn on_mbarrier_arrive(&mut self, _address: u64, _lane: usize) {}

    pub fn on_mbarrier_pass(&mut self, _address: u64, _lane: usize) {}

    /// Counts a memory request of the current instruction.
    pub fn count_access(&mut self, space: Space, ad: &Addresses, size: u32, mask: u32, _what: Use) {
        let at = self.at() as usize;
        let (transactions, ideal) = match space {
            Space::Shared => wavefronts(ad, size, mask),
            Space::Local => {
                // Interleaved: lanes at one offset are neighbours.
                let mut words: Vec<u64> = super::lanes(mask).map(|l| ad.at[l] / 4).collect();
                words.sort_unstable();
                words.dedup();
                let per = u64::from(size.div_ceil(4)) * 4;
                (words.len() as u64 * per, per)
            }
            Space::Param => (0, 0),
            Space::Global | Space::Generic => {
                let mut sectors = [0u64; 32 * 2];
                let mut n = 0;
                for l in super::lanes(mask) {
                    let first = ad.at[l] / 32;
                    let last = (ad.at[l] + u64::from(size) - 1) / 32;
                    for s in first..=last {
                        if n < sectors.len() && (n == 0 || sectors[n - 1] != s) {
                            sectors[n] = s;
                            n += 1;
                        }
                    }
                }
                sectors[..n].sort_unstable();
                let mut distinct = 0;
                let mut line = u64::MAX;
                for i in 0..n {
                    if i == 0 || sectors[i] != sectors[i - 1] {
                        distinct += 1;
                        if sectors[i] / 4 != line {
                            line = sectors[i] / 4;
                            self.worker.counts.lines.insert(line);
                        }
                    }
                }
                let ideal = (u64::from(mask.count_ones()) * u64::from(size)).div_ceil(32);
                (distinct, ideal)
            }
        };
        let c = &mut self.worker.counts.insts[at];
        c.requests += 1;
        c.transactions += transactions;
        c.ideal += ideal.min(transactions);
    }
}

/// Wavefronts of a shared-memory request: the most different words any of the 32 banks must deliver. Requests
/// wider than four bytes go in 2 (8 bytes) or 4 (16 bytes) passes of a half or quarter of the lanes each.
fn wavefronts(ad: &Addresses, size: u32, mask: u32) -> (u64, u64) {
    let passes = (size / 4).clamp(1, 4);
    let lanes_per_pass = 32 / passes;
    let (mut total, mut ideal) = (0, 0);
    for pass in 0..passes {
        let lanes = mask >> (pass * lanes_per_pass) & ((1u64 << lanes_per_pass) - 1) as u32;
        if lanes == 0 {
            continue;
        }
        let mut words: Vec<u64> = Vec::with_capacity(128);
        for l in super::lanes(lanes) {
            let a = ad.at[l + (pass * lanes_per_pass) as usize];
            for w in a / 4..=(a + u64::from(size) - 1) / 4 {
                words.push(w);
            }
        }
        words.sort_unstable();
        words.dedup();
        let mut banks = [0u64; 32];
        for w in &words {
            banks[(w % 32) as usize] += 1;
        }
        total += banks.iter().copied().max().unwrap_or(0);
        ideal += 1;
    }
    (total, ideal)
}

impl WorkerState {
    pub fn on_block_barrier(&mut self, _block: &BlockCore, _members: &[(u32, u32)]) {}
}
