//! Checks at the end of a block: no pending copies and no incomplete warpgroup instructions.

use super::block::Block;
use super::state::{Mbarrier, Warp, WorkerState};
use crate::check::{Kind, Site};

impl Block {
    /// Runs the checks. All threads of the block have exited.
    pub fn check_ending(&self, worker: &mut WorkerState) {
        self.check_copies(worker);
        self.check_bytes(worker);
        self.check_warpgroups(worker);
        self.check_visits(worker);
    }

    /// Reports accesses of other blocks of the cluster that could come after the end of this block.
    fn check_visits(&self, worker: &mut WorkerState) {
        let rank = self.core.membership.as_ref().map_or(0, |member| member.rank);
        for (site, moment) in self.core.visits.values() {
            if !self.core.races.is_known(site.block as u32, moment) {
                worker.report(Kind::OutOfBounds, *site, || {
                    format!(
                        "block {rank} of the cluster can exit before this access to its shared memory, which is freed then; \
                         end the kernel with a cluster barrier after such accesses"
                    )
                });
            }
        }
    }

    /// Reports bulk copies that are still pending: their shared memory is freed with the block.
    fn check_copies(&self, worker: &mut WorkerState) {
        for copy in &self.core.bulk {
            // A thread of another block may have issued the copy.
            let issued = Site { block: self.core.index, ..copy.site };
            let shared = self.core.shared.as_ptr().cast::<u8>();
            // SAFETY: the mbarrier object was checked when the copy was issued.
            let bits = unsafe { shared.add(copy.barrier as usize).cast::<u64>().read_unaligned() };
            let left = copy.bytes - copy.landed;
            let expects = Mbarrier::decode(bits).tx;
            if expects >= i64::from(left) {
                worker.report(Kind::AsyncNotWaited, issued, || {
                    "the block ends before this bulk copy into its shared memory is complete; no thread has waited for it"
                        .to_string()
                });
                continue;
            }
            let expected_at = self.core.barrier_logs.get(&copy.barrier).and_then(|log| log.expected_at);
            let related = vec![("this is the last copy".to_string(), issued.pc)];
            let site = Site { pc: expected_at.unwrap_or(issued.pc), ..issued };
            worker.report_with(Kind::BarrierCount, site, related, || {
                format!(
                    "the bulk copies report more bytes to the mbarrier object than it expects: {left} of the {} bytes of \
                     the last copy remain when the block ends",
                    copy.bytes
                )
            });
        }
    }

    /// Reports mbarrier objects that got more bytes than they expected, as by `st.async`: a phase ended before all of
    /// them were there.
    fn check_bytes(&self, worker: &mut WorkerState) {
        for (&address, log) in &self.core.barrier_logs {
            let Some(expected_at) = log.expected_at else { continue };
            let shared = self.core.shared.as_ptr().cast::<u8>();
            // SAFETY: the log has only objects that instructions have accessed inside the block's shared memory.
            let object =
                Mbarrier::decode(unsafe { shared.add(address as usize).cast::<u64>().read_unaligned() });
            // The memory may have been used for something else since.
            let is_object = object.valid && (0..=i64::from(object.expected)).contains(&object.pending);
            if !is_object || object.tx >= 0 {
                continue;
            }
            let site = Site { pc: expected_at, block: self.core.index, warp: 0, lanes: 1 };
            worker.report(Kind::BarrierCount, site, || {
                format!(
                    "more bytes are reported to the mbarrier object than it expects: {} bytes are left when the block ends",
                    -object.tx
                )
            });
        }
    }

    /// Reports instructions that the four warps of a warpgroup must execute together, but that only some of them
    /// executed. Returns whether there are any.
    pub fn check_warpgroups(&self, worker: &mut WorkerState) -> bool {
        let mut found = false;
        for (number, group) in self.core.collectives.iter().enumerate() {
            if let Some((pc, warps)) = group.unfinished() {
                let first = number as u32 * 4;
                // A warp that runs may still execute it.
                let mut missing =
                    (0..4).filter(|w| !warps.contains(w)).filter_map(|w| self.warps.get(4 * number + w));
                if !missing.any(Warp::is_done) {
                    continue;
                }
                found = true;
                let warps: Vec<u32> = warps.iter().map(|w| first + *w as u32).collect();
                let warp = warps.first().copied().unwrap_or(first);
                let site = Site { pc, block: self.core.index, warp, lanes: u32::MAX };
                worker.report(Kind::DivergentWarpOp, site, || {
                    format!(
                        "only warps {warps:?} of the warpgroup (warps {first} to {}) execute the instruction; all four must execute it",
                        first + 3
                    )
                });
            }
        }
        found
    }
}
