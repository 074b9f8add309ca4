//! One block: its shared memory, its barriers and its warps. The warps run in turn, each for a slice of instructions.

use std::fmt::Write as _;

use std::marker::PhantomData;

use super::Policy;
use super::state::{
    BlockBarrier, BlockCore, BulkGroups, Fragment, Grid, Limit, Mbarrier, RunningWarp, State, Unit, Warp,
    Watch, WorkerState, ZERO, special,
};
use super::step::Stop;
use crate::check::{Kind, Site};
use crate::count::BlockLoad;
use crate::isa::op::Op;
use crate::mem::shadow;
use crate::program::RESERVED_SHARED_BYTES;

/// Number of instructions that a warp runs before the next warp gets a turn.
const SLICE: u32 = 20_000;
/// Slice length while the block makes no visible progress.
const SHORT_SLICE: u32 = 2_000;

/// A running block. Its worker keeps it and reuses it for later blocks.
#[derive(Debug, Default)]
pub struct Block {
    pub core: BlockCore,
    pub warps: Vec<Warp>,
    /// The warps in the order of their turns.
    order: Vec<u32>,
    /// True if the last round changed nothing.
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Finished,
    /// Some warps still run, but the block's turn is over.
    Unfinished {
        changed: bool,
    },
    Halted,
}

impl Block {
    /// Prepares the block with number `index` of the grid to start on a multiprocessor. Its warps occupy the slots from
    /// `first_slot` on.
    pub fn start<P: Policy>(&mut self, grid: &Grid<'_>, index: u64, (smid, first_slot): (u32, u32)) {
        let [gx, gy, _] = grid.grid_dim;
        let ctaid = [
            (index % u64::from(gx)) as u32,
            (index / u64::from(gx) % u64::from(gy)) as u32,
            (index / u64::from(gx) / u64::from(gy)) as u32,
        ];
        let entry = &grid.kernel.functions[0];
        let core = &mut self.core;
        core.index = index;
        core.ctaid = ctaid;
        core.smid = smid;
        core.threads = grid.block_threads;
        core.live_threads = grid.block_threads;
        core.committed.clear();
        core.committed.resize(grid.block_threads.div_ceil(32) as usize, 0);
        core.shared_end = grid.shared_end;
        core.touched = false;
        core.sectors.clear();
        core.executed = 0;
        core.polled = 0;
        core.traced = false;
        core.phases.clear();
        core.load = BlockLoad::default();
        core.path.clear();
        core.progress = 0;
        core.owes_turn = false;
        core.hands_over = false;
        core.first_exit = None;
        core.events = 0;
        core.copies.clear();
        core.owed.clear();
        core.bulk.clear();
        core.membership = None;
        core.chunk_origins.clear();
        core.tensor_stores.clear();
        core.barrier_logs.clear();
        core.collectives.clear();
        core.visits.clear();
        core.fenced_maps.clear();
        core.taints.clear();
        let units = (grid.shared_end as usize).div_ceil(128);
        core.shared.clear();
        let garbage = grid.world.garbage;
        let contents = if garbage == 0 { 0 } else { crate::world::mix(garbage, index) as u32 };
        core.shared.resize(units, Unit([contents; 32]));
        core.shared_writes += 1;
        if P::CHECK {
            core.races.start(index as u32, grid.block_threads, grid.shared_end);
            core.races.set_facts(&grid.kernel.facts);
            core.shared_shadow.clear();
            core.shared_shadow.resize(units * 128, shadow::NEVER);
        }
        if let Some(at) = grid.kernel.reserved_shared.map(|at| grid.shared_offset + at) {
            let (at, end) = (at as usize, (at + RESERVED_SHARED_BYTES) as usize);
            core.shared[at / 128..end / 128].fill(ZERO);
            if P::CHECK {
                core.shared_shadow[at..end].fill(shadow::DEFINED);
            }
        }
        core.barriers.clear();
        core.barriers.resize_with(16, BlockBarrier::default);
        self.quiet = false;
        let warps = grid.block_threads.div_ceil(32);
        self.warps.resize_with(warps as usize, Warp::default);
        // What the checkers find besides a bug, such as values that are read too early, depends on the order of warps.
        let order = if P::CHECK { 0 } else { grid.world.warp_order };
        self.order = crate::world::warp_order(order, index, warps);
        for (id, w) in self.warps.iter_mut().enumerate() {
            let id = id as u32;
            let first = id * 32;
            let count = (grid.block_threads - first).min(32);
            w.id = id;
            w.present = if count == 32 { u32::MAX } else { (1 << count) - 1 };
            w.live = w.present;
            w.tracking = false;
            w.watch = Watch::default();
            w.committed = [0; 32];
            w.bulk = BulkGroups::default();
            w.flight.clear();
            w.cluster_phase = [0; 32];
            w.at_cluster_barrier = 0;
            w.fragments.clear();
            w.passed.clear();
            w.passed_over = 0;
            w.chain = 0;
            w.last_wait = [0; 32];
            w.polled = false;
            w.trace.clear();
            w.polls.clear();
            w.copy_groups.clear();
            w.switches = 0;
            w.reserve(entry.frame.units as usize, entry.frame.preds as usize, P::CHECK);
            if P::CHECK {
                w.undef.fill(0);
                w.pred_undef.fill(0);
                w.local_shadow.fill([shadow::NEVER; 128]);
            }
            fill_specials(w, grid, ctaid, smid, first_slot);
            w.fragments.push(Fragment::new(w.present));
        }
    }

    /// Runs all warps in turn, repeatedly, for about `rounds` slices of each warp.
    pub fn run<P: Policy>(&mut self, grid: &Grid<'_>, worker: &mut WorkerState, rounds: u32) -> Progress {
        (self.core.owes_turn, self.core.hands_over) = (false, false);
        let mut changed = false;
        let slice = if self.quiet { SHORT_SLICE } else { SLICE };
        for _ in 0..rounds {
            let (before, executed) = (self.core.progress, worker.executed);
            let mut alive = false;
            for turn in 0..self.order.len() {
                let w = &mut self.warps[self.order[turn] as usize];
                if w.is_done() || !w.has_ready() {
                    alive |= !w.is_done();
                    continue;
                }
                let fresh = w.switches == 0 && w.fragments.len() == 1;
                let mut cx = RunningWarp::<P> {
                    grid,
                    block: &mut self.core,
                    w,
                    worker,
                    frag: Fragment::new(0),
                    bases: [std::ptr::null_mut(); 4],
                    functions: super::survey::lane_functions(),
                    policy: PhantomData,
                };
                if fresh {
                    cx.begin();
                }
                let executed = cx.worker.executed;
                let stop = cx.run(slice);
                cx.block.executed += cx.worker.executed - executed;
                if stop == Stop::Halt {
                    self.take_race_reports(grid, worker);
                    return Progress::Halted;
                }
                alive |= stop != Stop::Done;
                self.complete_barriers::<P>(&grid.kernel.functions, worker);
                self.complete_products();
            }
            if let Some(spent) = worker.spend(grid) {
                self.report_limit(grid, worker, spent);
                self.take_race_reports(grid, worker);
                return Progress::Halted;
            }
            if grid.stopped() {
                self.take_race_reports(grid, worker);
                return Progress::Halted;
            }
            if !alive {
                self.finish::<P>(grid, worker);
                return Progress::Finished;
            }
            if worker.executed == executed && !self.unblock(grid) {
                self.report_deadlock(grid, worker);
                self.take_race_reports(grid, worker);
                return Progress::Halted;
            }
            self.quiet = self.core.progress == before;
            if self.quiet {
                break;
            }
            changed = true;
            if self.core.hands_over {
                break;
            }
        }
        Progress::Unfinished { changed }
    }

    /// Lets warps continue that wait for products, if all warps of their warpgroup have committed these.
    fn complete_products(&mut self) {
        for w in &mut self.warps {
            for f in &mut w.fragments {
                if let State::Products(awaited) = f.state
                    && self.core.committed_by_all(w.id) >= awaited
                {
                    f.state = State::Ready;
                }
            }
        }
    }

    fn finish<P: Policy>(&mut self, grid: &Grid<'_>, worker: &mut WorkerState) {
        if P::COUNT {
            let chain = self.warps.iter().map(|w| w.chain).max().unwrap_or(0);
            let instructions = self.core.executed - self.core.polled;
            worker.counts.block_done(instructions, chain);
            if self.core.traced {
                let load = BlockLoad { chain, instructions, ..self.core.load };
                let warps = self.warps.iter_mut().map(|w| &mut w.trace);
                worker.counts.traces.add(self.core.index, load, warps);
            }
        }
        if P::CHECK {
            if !self.core.touched {
                worker.idle_blocks += 1;
                worker.first_idle = worker.first_idle.min(self.core.index);
            }
            self.check_ending(worker);
            self.take_race_reports(grid, worker);
        }
    }

    /// Moves the race checker's reports to the worker's findings.
    pub fn take_race_reports(&mut self, grid: &Grid<'_>, worker: &mut WorkerState) {
        if self.core.races.has_reports() {
            for r in self.core.races.take_reports() {
                worker.report_race(grid, &r);
            }
        }
    }

    /// True if every warp is done, waits at a barrier, or repeats the same state.
    pub fn is_stuck(&self) -> bool {
        self.warps.iter().all(|w| w.is_done() || !w.has_ready() || w.watch.repeats)
    }

    pub fn start_watching(&mut self) {
        for w in &mut self.warps {
            w.watch = Watch::default();
            w.last_poll = None;
            w.last_barrier = None;
            w.tested.clear();
        }
    }

    /// Finds a warp that repeats the same state. Returns whether the warp polls for a change, and the instruction that
    /// polls (or the current instruction if the warp does not poll). Warps that poll come first.
    pub fn repeating_site(&self, grid: &Grid<'_>) -> Option<(bool, Site)> {
        let repeats = |w: &&Warp| w.watch.repeats && !w.is_done();
        let w = self
            .warps
            .iter()
            .filter(repeats)
            .find(|w| w.last_poll.is_some())
            .or(self.warps.iter().find(repeats))?;
        let site = self.site(grid, w, w.fragments.first()?);
        Some((w.last_poll.is_some(), Site { pc: w.last_poll.unwrap_or(site.pc), ..site }))
    }

    /// The instruction at which a fragment of a warp stands.
    fn site(&self, grid: &Grid<'_>, w: &Warp, f: &Fragment) -> Site {
        let pc = grid.kernel.functions[f.function as usize].first + f.pc;
        Site { pc, block: self.core.index, warp: w.id, lanes: f.mask }
    }

    /// The first instruction of the kernel, for findings about the block as a whole.
    fn start_site(&self, grid: &Grid<'_>) -> Site {
        let pc = grid.kernel.functions.first().map_or(0, |f| f.first);
        Site { pc, block: self.core.index, warp: 0, lanes: 0 }
    }

    /// Describes what is missing at the mbarrier objects that repeating warps wait for. Each object is described once.
    pub fn awaited_barriers(&self, grid: &Grid<'_>) -> Vec<String> {
        let mut barriers: Vec<u32> =
            self.warps.iter().filter(|w| !w.is_done()).filter_map(|w| w.last_barrier).collect();
        barriers.sort_unstable();
        barriers.dedup();
        let describe = |address: &u32| {
            let log = self.core.barrier_logs.get(address)?;
            let unit = self.core.shared.get(*address as usize / 128)?;
            let word = *address as usize % 128 / 4;
            let bits = u64::from(unit.0[word]) | u64::from(unit.0[word + 1]) << 32;
            let waiting: Vec<u32> = self
                .warps
                .iter()
                .filter(|w| !w.is_done() && w.last_barrier == Some(*address))
                .map(|w| w.id)
                .collect();
            let state = log.describe(grid, *address, Mbarrier::decode(bits));
            Some(format!("{state}; warps {waiting:?} wait for it"))
        };
        barriers.iter().filter_map(describe).collect()
    }

    /// Finds a warp that waits for registers at `setmaxnreg.inc`. Returns the instruction and what is missing.
    pub fn waits_for_registers(&self, grid: &Grid<'_>) -> Option<(Site, String)> {
        let waiting = self.warps.iter().find_map(|w| {
            let f = w.fragments.iter().find(|f| f.state == State::Ready)?;
            match grid.kernel.functions[f.function as usize].insts[f.pc as usize].op {
                Op::SetMaxRegisters { count, increase: true } => Some((self.site(grid, w, f), count)),
                _ => None,
            }
        });
        let (site, count) = waiting?;
        let held = self.core.registers_held(grid.registers_per_thread());
        let total = grid.registers_per_thread() * held.len() as u32;
        let text = format!(
            "the warpgroup waits forever for {count} registers per thread: the warpgroups of the block have {held:?} of {total}, \
             and none of them releases enough"
        );
        Some((site, text))
    }

    /// Called when no warp can run. A warp operation or an aligned barrier may wait for lanes that will never arrive.
    /// It then continues with the lanes that have arrived, and the step loop reports the error. Returns false if no
    /// such operation exists.
    fn unblock(&mut self, grid: &Grid<'_>) -> bool {
        for w in &mut self.warps {
            // Force the earliest operation first. Once it has completed, the missing lanes of the others may arrive.
            let earliest = w.fragments.iter_mut().filter(|f| f.state == State::Gathering).min_by_key(|f| {
                let function = &grid.kernel.functions[f.function as usize];
                (
                    std::cmp::Reverse(f.stack.len()),
                    function.blocks[function.block_of[f.pc as usize] as usize].priority,
                    f.pc,
                )
            });
            if let Some(f) = earliest {
                f.state = State::Forced;
                return true;
            }
        }
        false
    }

    fn report_limit(&mut self, grid: &Grid<'_>, worker: &mut WorkerState, exceeded: Limit) {
        let running = self.warps.iter().find_map(|w| {
            let fragment = w.fragments.iter().find(|f| f.state == State::Ready).or(w.fragments.first());
            fragment.map(|f| self.site(grid, w, f))
        });
        let (budget, blocks, warps) = (grid.budget, grid.blocks, self.warps.len());
        let limit = match exceeded {
            Limit::Instructions => format!("its budget of {budget} warp instructions"),
            Limit::Time => {
                let seconds = grid.time_limit.unwrap_or_default().as_secs_f64();
                format!("its time limit of {seconds} seconds")
            }
        };
        if grid.exceeds_budget && exceeded == Limit::Instructions {
            worker.report(Kind::Runaway, self.start_site(grid), || {
                format!(
                    "the grid has {blocks} blocks of {warps} warps, more warps than the budget has instructions; only \
                     the first {budget} warp instructions ran"
                )
            });
        } else if let Some(site) = running {
            worker.report(Kind::Runaway, site, || {
                format!("the launch has used up {limit}, and this warp still runs")
            });
        } else {
            // The budget ended while this block ran, but the grid is not complete.
            worker.report(Kind::Runaway, self.start_site(grid), || {
                format!("the launch has used up {limit} before all {blocks} blocks ran")
            });
        }
        grid.stop();
    }

    /// Reports a warp that waits for products of its warpgroup which the other warps do not execute. Returns whether there
    /// is one.
    pub fn report_products(&self, grid: &Grid<'_>, worker: &mut WorkerState) -> bool {
        let waiting = self.warps.iter().find_map(|w| {
            let f = w.fragments.iter().find(|f| matches!(f.state, State::Products(_)))?;
            Some(self.site(grid, w, f))
        });
        let Some(site) = waiting else { return false };
        if !self.check_warpgroups(worker) {
            worker.report(Kind::DivergentWarpOp, site, || {
                "the warp waits forever for products of its warpgroup, because not all warps of the warpgroup commit them"
                    .to_string()
            });
        }
        true
    }

    /// Reports that every warp which has not exited waits, with the barrier that each of them waits at.
    fn report_deadlock(&mut self, grid: &Grid<'_>, worker: &mut WorkerState) {
        if self.report_products(grid, worker) {
            grid.stop();
            return;
        }
        let mut waiting: Vec<(Site, u8)> = Vec::new();
        for w in &self.warps {
            for f in &w.fragments {
                if let State::Barrier(id) = f.state {
                    waiting.push((self.site(grid, w, f), id));
                }
            }
        }
        waiting.sort_unstable_by_key(|(site, id)| (site.pc, site.warp, site.lanes, *id));
        let Some(&(site, _)) = waiting.first() else {
            grid.stop();
            return;
        };
        let mut text = String::from("no thread of the block can run:");
        for b in 0..16u8 {
            let here: Vec<Site> = waiting.iter().filter(|w| w.1 == b).map(|w| w.0).collect();
            if here.is_empty() {
                continue;
            }
            let threads: u32 = here.iter().map(|site| site.lanes.count_ones()).sum();
            let mut warps: Vec<u32> = here.iter().map(|site| site.warp).collect();
            warps.dedup();
            let state = &self.core.barriers[b as usize];
            let expected = state.expected.unwrap_or(self.core.live_threads);
            let _ = write!(
                text,
                " {threads} threads of warps {warps:?} wait at barrier {b}, which has {} of {expected} arrivals;",
                state.arrived
            );
        }
        let gone = self.core.threads - self.core.live_threads;
        if gone > 0 {
            let _ = write!(text, " {gone} threads have exited;");
        }
        text.pop();
        let others: Vec<(String, u32)> = waiting
            .iter()
            .filter(|(other, _)| other.pc != site.pc)
            .map(|(other, id)| (format!("warp {} waits here at barrier {id}", other.warp), other.pc))
            .take(8)
            .collect();
        worker.report_with(Kind::Deadlock, site, others, || text);
        grid.stop();
    }
}

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Enters the kernel with a warp that has not run yet.
    fn begin(&mut self) {
        self.frag = Fragment::new(self.w.present);
        self.bases[0] = self.w.regs.as_mut_ptr();
        let local = self.grid.kernel.functions[0].local_bytes as usize;
        self.reserve_local(local);
        self.enter_frame(u32::MAX);
        self.frag = Fragment::new(0);
    }
}

fn fill_specials(w: &mut Warp, grid: &Grid<'_>, ctaid: [u32; 3], smid: u32, first_slot: u32) {
    let fresh = w.specials.is_empty() || w.specials_of != (grid.launch_id, w.id);
    if fresh {
        w.specials.clear();
        w.specials.resize(crate::isa::decode::SPECIALS.len(), ZERO);
        w.specials_of = (grid.launch_id, w.id);
        let [bx, by, bz] = grid.block_dim;
        let mut set = |name: &str, f: &dyn Fn(u32) -> u32| {
            let unit = &mut w.specials[special(name)].0;
            for (l, v) in unit.iter_mut().enumerate() {
                *v = f(l as u32);
            }
        };
        let id = w.id;
        let linear = move |l: u32| id * 32 + l;
        set("%tid.x", &|l| linear(l) % bx);
        set("%tid.y", &|l| linear(l) / bx % by);
        set("%tid.z", &|l| linear(l) / bx / by);
        let [gx, gy, gz] = grid.grid_dim;
        for (name, v) in [
            ("%ntid.x", bx),
            ("%ntid.y", by),
            ("%ntid.z", bz),
            ("%nctaid.x", gx),
            ("%nctaid.y", gy),
            ("%nctaid.z", gz),
            ("%nwarpid", grid.limits.threads_per_sm / 32),
            ("%nsmid", grid.limits.sms.max(1)),
            ("%dynamic_smem_size", grid.dynamic_shared),
            // Shared memory is allocated in units of 128 bytes.
            ("%total_smem_size", (grid.shared_end - grid.shared_offset).next_multiple_of(128)),
            ("%nclusterid.x", gx / grid.cluster[0]),
            ("%nclusterid.y", gy / grid.cluster[1]),
            ("%nclusterid.z", gz / grid.cluster[2]),
            ("%cluster_nctaid.x", grid.cluster[0]),
            ("%cluster_nctaid.y", grid.cluster[1]),
            ("%cluster_nctaid.z", grid.cluster[2]),
            ("%cluster_nctarank", grid.cluster.iter().product()),
        ] {
            set(name, &|_| v);
        }
        set("%laneid", &|l| l);
        set("%lanemask_eq", &|l| 1 << l);
        set("%lanemask_lt", &|l| (1 << l) - 1);
        set("%lanemask_le", &|l| ((1u64 << (l + 1)) - 1) as u32);
        set("%lanemask_ge", &|l| !((1 << l) - 1));
        set("%lanemask_gt", &|l| !(((1u64 << (l + 1)) - 1) as u32));
    }
    // The three axes are consecutive in the table.
    let (block, cluster, inside) =
        (special("%ctaid.x"), special("%clusterid.x"), special("%cluster_ctaid.x"));
    for (i, id) in ctaid.into_iter().enumerate() {
        w.specials[block + i].0.fill(id);
        w.specials[cluster + i].0.fill(id / grid.cluster[i]);
        w.specials[inside + i].0.fill(id % grid.cluster[i]);
    }
    w.specials[special("%cluster_ctarank")].0.fill(grid.rank_of(ctaid));
    w.specials[special("%smid")].0.fill(smid);
    // The warps of a block use a fixed set of slots. Their order in these slots may differ from the order of the warps.
    let warps = grid.block_threads.div_ceil(32);
    let jitter = grid.world.jitter;
    let turned = if jitter == 0 { 0 } else { crate::world::mix(jitter, u64::from(smid)) % u64::from(warps) };
    w.specials[special("%warpid")].0.fill(first_slot + (w.id + turned as u32) % warps);
}
