//! Distributes the blocks of a grid over worker threads. Each worker runs blocks, and starts another block beside them
//! when they may be waiting for it.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::Policy;
use super::block::{Block, Progress};
use super::state::{Cluster, Grid, Membership, WINDOW, WorkerState};
use crate::check::Kind;
use crate::check::race::{ClusterMemory, GlobalRaces};

/// Runs all blocks on that many threads. Returns the state of each.
pub(super) fn run_workers<P: Policy>(grid: &Grid<'_>, workers: usize) -> Vec<WorkerState> {
    if workers == 1 {
        return vec![work::<P>(grid, 0)];
    }
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|n| scope.spawn(move || work::<P>(grid, n))).collect();
        handles.into_iter().filter_map(|h| h.join().ok()).collect()
    })
}

/// Instruction limit of a launch that cannot complete within its budget. It suffices to find errors in the first
/// blocks.
pub(super) const SAMPLE: u64 = 1_000_000;

/// Number of rounds that a block runs before its worker may start another block beside it. Only blocks that wait for
/// other blocks are still unfinished after these rounds.
const ROUNDS: u32 = 16;

/// Number of passes over blocks that make progress before another block joins them.
const LONG_PASSES: u32 = 8;

/// Number of consecutive passes without progress before warps are watched for repeated states.
const QUIET_PASSES: u32 = 4;

/// The blocks of a worker.
#[derive(Default)]
#[allow(clippy::vec_box, reason = "the blocks of a cluster refer to each other by address")]
struct Blocks {
    active: Vec<Box<Block>>,
    /// Blocks that have ended in a cluster with blocks that still run.
    finished: Vec<Box<Block>>,
    /// Blocks that can be reused.
    spare: Vec<Box<Block>>,
}

impl Blocks {
    /// Starts the next cluster of the grid, or the next block if the grid has no clusters. Returns false if all have
    /// been started.
    fn start_next<P: Policy>(&mut self, grid: &Grid<'_>) -> bool {
        let per_cluster = grid.blocks_per_cluster();
        let (position, number) = loop {
            let position = grid.next_block.fetch_add(1, Ordering::Relaxed);
            if position >= grid.blocks / per_cluster {
                grid.next_block.store(grid.blocks, Ordering::Relaxed);
                return false;
            }
            let number = grid.order.block(position);
            if grid.is_sampled(number) {
                break (position, number);
            }
        };
        let numbers = grid.blocks_of(number);
        grid.resident.fetch_add(per_cluster, Ordering::Relaxed);
        let cluster = Rc::<Cluster>::default();
        let memory = (P::CHECK && per_cluster > 1 && grid.kernel.reaches_peers).then(|| {
            let bytes = u64::from(grid.shared_end).next_multiple_of(128);
            Rc::new(GlobalRaces::new((1..=per_cluster).map(|rank| (rank * WINDOW, bytes))))
        });
        let members: Vec<u32> = numbers.iter().map(|number| *number as u32).collect();
        for (rank, number) in (0..).zip(numbers) {
            let mut block = self.spare.pop().unwrap_or_default();
            block.start::<P>(grid, number, grid.placement(position * per_cluster + u64::from(rank)));
            block.core.traced = P::COUNT && grid.is_traced;
            if per_cluster > 1 {
                cluster.enter(&raw mut block.core);
                block.core.membership = Some(Membership { cluster: Rc::clone(&cluster), rank });
                block.core.races.set_cluster_blocks(members.clone());
                if let Some(races) = &memory {
                    let (races, base) = (Rc::clone(races), u64::from(rank + 1) * WINDOW);
                    block.core.races.join_cluster(ClusterMemory { races, base, window: WINDOW, hint: 0 });
                }
            }
            self.active.push(block);
        }
        true
    }

    /// Removes an active block that has ended. Other blocks of its cluster may still ask whether it has exited, so it
    /// is reused only when all of them have ended.
    fn finish(&mut self, index: usize) {
        self.finished.push(self.active.remove(index));
        let cluster_runs = |block: &Block| {
            let Some(member) = &block.core.membership else { return false };
            self.active.iter().any(|other| {
                let other = other.core.membership.as_ref();
                other.is_some_and(|o| Rc::ptr_eq(&o.cluster, &member.cluster))
            })
        };
        let mut i = 0;
        while i < self.finished.len() {
            if cluster_runs(&self.finished[i]) {
                i += 1;
            } else {
                let mut block = self.finished.swap_remove(i);
                block.core.membership = None;
                self.spare.push(block);
            }
        }
    }

    /// Runs every active block for a number of rounds. Returns false if the launch has ended.
    fn run<P: Policy>(&mut self, grid: &Grid<'_>, worker: &mut WorkerState) -> bool {
        let mut i = 0;
        while i < self.active.len() {
            match self.active[i].run::<P>(grid, worker, ROUNDS) {
                Progress::Finished => {
                    grid.resident.fetch_sub(1, Ordering::Relaxed);
                    grid.changes.fetch_add(1, Ordering::Relaxed);
                    self.finish(i);
                }
                Progress::Unfinished { changed } => {
                    if changed {
                        grid.changes.fetch_add(1, Ordering::Relaxed);
                    }
                    i += 1;
                }
                Progress::Halted => {
                    grid.stop();
                    return false;
                }
            }
        }
        true
    }

    fn start_watching(&mut self) {
        for block in &mut self.active {
            block.start_watching();
        }
    }
}

/// Runs blocks until the grid is complete or the launch ends.
fn work<P: Policy>(grid: &Grid<'_>, number: usize) -> WorkerState {
    let mut worker = WorkerState::new(grid, P::COUNT);
    let mut blocks = Blocks::default();
    let mut quiet = 0u32;
    // The last value read from `grid.changes`. It is kept from pass to pass so that a change between two passes is not
    // missed. Observations of warps from before a change say nothing about their behaviour after it.
    let mut seen = 0u64;
    // Number of passes since a block was started, and whether the last pass changed nothing.
    let (mut passes, mut idle) = (0u32, false);
    if grid.kernel.synchronises_grid {
        // All blocks wait for each other, so each worker starts its share at once.
        let share = grid.blocks.div_ceil(grid.stuck.len() as u64);
        let fits = |active: usize| grid.blocks <= grid.resident_limit && (active as u64) < share;
        while fits(blocks.active.len()) && blocks.start_next::<P>(grid) {}
    }
    while !grid.stopped() {
        // Another block joins when the active blocks make no progress, or when they have run for many passes. In both
        // cases they may be waiting for it. It does not join earlier, so that a long kernel does not use more memory
        // than it needs.
        let wanted = idle || passes >= LONG_PASSES;
        let has_room = || grid.resident.load(Ordering::Relaxed) < grid.resident_limit;
        if blocks.active.is_empty() || wanted && has_room() {
            passes = 0;
            if blocks.start_next::<P>(grid) {
                quiet = 0;
            }
        }
        if blocks.active.is_empty() {
            break;
        }
        passes += 1;
        if !blocks.run::<P>(grid, &mut worker) {
            break;
        }
        let now = grid.changes.load(Ordering::SeqCst);
        idle = std::mem::replace(&mut seen, now) == now;
        if !P::CHECK {
            continue;
        }
        if !idle {
            quiet = 0;
            worker.watching = false;
            worker.clock.resume();
            continue;
        }
        quiet += 1;
        if quiet == QUIET_PASSES {
            blocks.start_watching();
            worker.watching = true;
            worker.clock.stop(worker.executed);
        } else if worker.watching && blocks.active.iter().all(|block| block.is_stuck()) {
            if worker.clock.leap() {
                blocks.start_watching();
                continue;
            }
            grid.stuck[number].store(now + 1, Ordering::SeqCst);
            let all = grid.stuck.iter().all(|s| [now + 1, u64::MAX].contains(&s.load(Ordering::SeqCst)));
            if all && grid.changes.load(Ordering::SeqCst) == now {
                report_stuck(grid, &mut worker, &blocks.active);
                grid.stop();
            } else {
                std::thread::yield_now();
            }
        }
    }
    for block in &mut blocks.active {
        block.take_race_reports(grid, &mut worker);
    }
    grid.stuck[number].store(u64::MAX, Ordering::SeqCst);
    worker
}

/// Reports that every running block waits for an event that none of them will cause.
fn report_stuck(grid: &Grid<'_>, worker: &mut WorkerState, active: &[Box<Block>]) {
    let waiting = active.iter().filter_map(|block| block.waits_for_registers(grid));
    if let Some((site, text)) = waiting.min_by_key(|(site, _)| site.block) {
        worker.report(Kind::Registers, site, || text);
        return;
    }
    if active.iter().any(|block| block.report_products(grid, worker)) {
        return;
    }
    // Choose a block that polls, and among these the one with the lowest number. The order in which the blocks started
    // carries no information.
    let repeating = active.iter().filter_map(|b| Some((&**b, b.repeating_site(grid)?)));
    let first = repeating.min_by_key(|(block, (polls, _))| (!polls, block.core.index));
    let Some((block, (polls, site))) = first else { return };
    let per_cluster = grid.blocks_per_cluster();
    let started = grid.next_block.load(Ordering::Relaxed).saturating_mul(per_cluster).min(grid.blocks);
    let resident = active.len();
    if !polls {
        worker.report(Kind::Runaway, site, || {
            "this warp repeats a loop forever: it returns here with the same values in all registers"
                .to_string()
        });
    } else if started < grid.blocks {
        let (blocks, limit) = (grid.blocks, grid.resident_limit);
        worker.report(Kind::NotResident, site, || {
            format!(
                "the running blocks wait for blocks that cannot start: the grid has {blocks} blocks, and the device \
                 can hold {limit} blocks of this kernel at a time"
            )
        });
    } else {
        worker.report(Kind::Deadlock, site, || {
            let barriers = block.awaited_barriers(grid);
            let why = if barriers.is_empty() { String::new() } else { format!(": {}", barriers.join("; ")) };
            format!("this warp waits in a loop for a change that no running thread makes ({resident} blocks still run){why}")
        });
    }
}
