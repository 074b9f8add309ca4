//! The state of a running grid and of its worker threads.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::options::{Dim3, Limits};
use super::taint::{self, Origin, Source};
use super::warp::Unit;
use crate::check::collect::{Collector, Raw};
use crate::check::race::{GlobalRaces, RaceKind, RaceReport};
use crate::check::{Kind, Severity};
use crate::count::{Chains, Counts, InstCount};
use crate::isa::types::Space;
use crate::mem::Device;
use crate::mem::device::Region;
use crate::mem::window::Windows;
use crate::program::Kernel;
use crate::world::{BlockOrder, World, mix};

/// State that all workers of a launch share.
pub struct Grid<'g> {
    pub kernel: &'g Kernel,
    pub device: &'g Device,
    pub grid_dim: Dim3,
    pub block_dim: Dim3,
    pub block_threads: u32,
    /// Extents of a cluster, in blocks.
    pub cluster: Dim3,
    pub blocks: u64,
    pub shared_bytes: u32,
    pub dynamic_shared: u32,
    pub params: Vec<u8>,
    pub param_shadow: Vec<u8>,
    pub constants: Vec<Unit>,
    pub budget: u64,
    /// True if the budget would not suffice even for one instruction per warp. Only a sample of the blocks runs then.
    pub hopeless: bool,
    /// The time at which the launch must end.
    pub(super) deadline: Option<Instant>,
    pub time_limit: Option<Duration>,
    pub limits: Limits,
    pub windows: Windows,
    pub world: World,
    pub(super) order: BlockOrder,
    pub(super) sm_order: Vec<u32>,
    /// Clock and nanosecond values at the start of the launch.
    pub(super) began: (u64, u64),
    pub launch_id: u64,
    pub(super) regions: Vec<Region>,
    pub(super) spent: AtomicU64,
    pub(super) next_block: AtomicU64,
    pub(super) stop: AtomicBool,
    pub(super) printed: Mutex<Vec<u8>>,
    /// Number of running blocks in all workers.
    pub(super) resident: AtomicU64,
    pub(super) resident_limit: u64,
    /// Counts the changes that blocks make.
    pub(super) moves: AtomicU64,
    /// For each worker: `moves + 1` at the time when all its blocks were found stuck, or `u64::MAX` once the worker has
    /// ended.
    pub(super) stuck: Vec<AtomicU64>,
    pub races: GlobalRaces,
}

impl std::fmt::Debug for Grid<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grid").field("kernel", &self.kernel.name).finish_non_exhaustive()
    }
}

impl Grid<'_> {
    /// Returns the allocation that contains the address, or else the last one that starts before it.
    pub fn region_of(&self, address: u64) -> Region {
        let after = self.regions.partition_point(|r| r.address <= address);
        after.checked_sub(1).map_or(Region::NONE, |i| self.regions[i])
    }

    /// Registers per thread at the start: the number available to a block that has a multiprocessor to itself. The
    /// number that the assembler would choose is not known here.
    pub fn registers_per_thread(&self) -> u32 {
        ((REGISTERS / self.block_threads.next_multiple_of(128)) & !7).min(256)
    }

    pub fn is_clustered(&self) -> bool {
        self.cluster != [1; 3]
    }

    /// Returns the rank of a block in its cluster.
    pub fn rank_of(&self, ctaid: Dim3) -> u32 {
        let [x, y, z] = std::array::from_fn(|i| ctaid[i] % self.cluster[i]);
        x + self.cluster[0] * (y + self.cluster[1] * z)
    }

    /// Returns the numbers of a cluster's blocks, by rank.
    pub(super) fn blocks_of(&self, cluster: u64) -> Vec<u64> {
        let [cx, cy, cz] = self.cluster.map(u64::from);
        let [gx, gy, _] = self.grid_dim.map(u64::from);
        let (nx, ny) = (gx / cx, gy / cy);
        let (x, y, z) = (cluster % nx * cx, cluster / nx % ny * cy, cluster / nx / ny * cz);
        let number = |r: u64| {
            let (dx, dy, dz) = (r % cx, r / cx % cy, r / cx / cy);
            x + dx + gx * (y + dy + gy * (z + dz))
        };
        (0..cx * cy * cz).map(number).collect()
    }

    /// Returns the multiprocessor and the first warp slot of the block that starts at `position` in the start order.
    pub fn seat(&self, position: u64) -> (u32, u32) {
        let sms = self.sm_order.len() as u64;
        // Blocks of the first wave are distributed round-robin over the multiprocessors. A later block starts on the
        // multiprocessor where room becomes free.
        let turn = if position < self.resident_limit { position } else { mix(self.world.sm_order, position) };
        let smid = self.sm_order[(turn % sms) as usize];
        let blocks_per_sm = (self.resident_limit / sms).max(1);
        let slot = turn / sms % blocks_per_sm;
        (smid, slot as u32 * self.block_threads.div_ceil(32))
    }

    /// The value of `%clock64` on a multiprocessor. Each multiprocessor has its own clock. The clocks differ by a few
    /// milliseconds.
    pub fn clocks(&self, smid: u32, time: u64) -> u64 {
        let ahead = mix(self.world.clock, u64::from(smid)) >> 40;
        let uneven = if self.world.jitter == 0 { 0 } else { mix(self.world.jitter, time) & 2 };
        self.began.0.wrapping_add(ahead).wrapping_add(time.wrapping_mul(CLOCKS)).wrapping_add(uneven)
    }

    /// The value of `%globaltimer`.
    pub fn nanoseconds(&self, time: u64) -> u64 {
        let now = self.began.1.wrapping_add(time.wrapping_mul(NANOSECONDS));
        now - now % u64::from(self.world.timer_step.max(1))
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn print(&self, text: &[u8], limit: usize) {
        if let Ok(mut printed) = self.printed.lock() {
            let room = limit.saturating_sub(printed.len());
            printed.extend_from_slice(&text[..text.len().min(room)]);
        }
    }
}

/// Clocks and nanoseconds that pass with each warp instruction of a worker.
pub(super) const CLOCKS: u64 = 4;
pub(super) const NANOSECONDS: u64 = 2;

/// Number of registers of a multiprocessor.
pub(super) const REGISTERS: u32 = 65536;

/// Nanoseconds between two launches.
pub(super) const BETWEEN_LAUNCHES: u64 = 5_000;

/// An undefined value in global memory: its origin, and the thread and instruction that stored it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taint {
    pub(super) origin: Origin,
    pub(super) store: u32,
    pub(super) block: u64,
    pub(super) warp: u32,
    pub(super) lane: u32,
}

pub(super) const MAX_TAINTS: usize = 1 << 16;

/// Time as kernels see it. The clock stops while warps are watched for repeated states. Otherwise the state of a wait
/// with a time limit or a back-off would never repeat. If all warps repeat their state, the clock leaps forward, so
/// that a warp that waits only for time continues.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    stopped: Option<u64>,
    ahead: u64,
    /// True if a warp has read the clock since it was stopped.
    read: bool,
    leaps: u32,
}

impl Clock {
    /// Longer than any wait for time. The low 32 bits are not zero, so that the low half of a clock register advances
    /// too.
    const LEAP: u64 = (1 << 32) + (1 << 27);
    /// Maximum number of consecutive leaps without any other change.
    const LEAPS: u32 = 16;

    pub(super) fn stop(&mut self, now: u64) {
        *self = Clock { stopped: Some(now), ahead: self.ahead, read: false, leaps: 0 };
    }

    pub(super) fn go_on(&mut self) {
        self.stopped = None;
    }

    /// Advances the clock. Returns false if no warp has read the clock, or if the maximum number of leaps is reached.
    pub(super) fn leap(&mut self) -> bool {
        if !self.read || self.leaps == Clock::LEAPS {
            return false;
        }
        self.ahead = self.ahead.wrapping_add(Clock::LEAP);
        self.leaps += 1;
        self.read = false;
        true
    }
}

/// The limit that ended a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    Instructions,
    Time,
}

/// Number of warp instructions between two reads of the wall clock: about a millisecond.
pub(super) const LOOK_EVERY: u64 = 1 << 15;

/// State of one worker.
pub struct WorkerState {
    pub executed: u64,
    pub(super) charged: u64,
    /// Number of executed instructions at which the wall clock is read next.
    pub(super) look: u64,
    /// The allocations used last, by address.
    pub regions: [Region; super::memory::REGION_SETS],
    pub counts: Counts,
    pub findings: Collector,
    pub idle_blocks: u64,
    pub first_idle: u64,
    /// True if no block has made progress for a while. Warps then check whether they repeat the same state.
    pub watching: bool,
    pub clock: Clock,
    pub(super) taints: HashMap<u64, Taint>,
}

impl std::fmt::Debug for WorkerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerState").field("executed", &self.executed).finish_non_exhaustive()
    }
}

impl WorkerState {
    pub(super) fn new(grid: &Grid<'_>, count: bool) -> WorkerState {
        let insts = grid.kernel.functions.iter().map(|f| f.insts.len()).sum();
        WorkerState {
            executed: 0,
            charged: 0,
            look: 0,
            regions: [Region::NONE; super::memory::REGION_SETS],
            counts: Counts {
                insts: vec![InstCount::default(); if count { insts } else { 0 }],
                chains: if count { Chains::new(&grid.kernel.functions) } else { Chains::default() },
                ..Counts::default()
            },
            findings: Collector::default(),
            idle_blocks: 0,
            first_idle: u64::MAX,
            watching: false,
            clock: Clock::default(),
            taints: HashMap::new(),
        }
    }

    /// The time base of the clocks: the number of executed instructions plus the leaps of the clock. The last `rest` of
    /// the counted instructions have not run yet.
    pub fn time(&mut self, rest: u64) -> u64 {
        self.clock.read = true;
        let executed = self.clock.stopped.unwrap_or_else(|| self.executed.saturating_sub(rest));
        executed.wrapping_add(self.clock.ahead)
    }

    /// Charges the executed instructions to the launch's budget. Returns the limit that is exceeded, if any.
    pub fn spend(&mut self, grid: &Grid<'_>) -> Option<Spent> {
        let fresh = self.executed - self.charged;
        self.charged = self.executed;
        if grid.spent.fetch_add(fresh, Ordering::Relaxed) + fresh > grid.budget {
            return Some(Spent::Instructions);
        }
        // Reading the wall clock takes as long as a few instructions.
        if self.executed >= self.look {
            self.look = self.executed + LOOK_EVERY;
            if grid.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Some(Spent::Time);
            }
        }
        None
    }

    #[allow(clippy::too_many_arguments)]
    pub fn report(
        &mut self,
        grid: &Grid<'_>,
        kind: Kind,
        at: u32,
        block: u64,
        warp: u32,
        lanes: u32,
        message: impl FnOnce() -> String,
    ) {
        self.report_with(grid, kind, at, block, warp, lanes, Vec::new(), message);
    }

    #[allow(clippy::too_many_arguments)]
    pub fn report_with(
        &mut self,
        _grid: &Grid<'_>,
        kind: Kind,
        at: u32,
        block: u64,
        warp: u32,
        lanes: u32,
        related: Vec<(String, u32)>,
        message: impl FnOnce() -> String,
    ) {
        self.findings.add(kind, at, 0, block, warp, || Raw {
            kind,
            severity: Severity::Error,
            message: message(),
            at,
            block,
            warp,
            lanes,
            address: None,
            space: None,
            allocation: None,
            related,
            count: 1,
            located: true,
            same_warp: false,
        });
    }

    #[allow(clippy::too_many_arguments)]
    pub fn report_access(
        &mut self,
        grid: &Grid<'_>,
        kind: Kind,
        at: u32,
        block: u64,
        warp: u32,
        lanes: u32,
        space: Space,
        address: u64,
        message: impl FnOnce() -> String,
    ) {
        self.findings.add(kind, at, 0, block, warp, || Raw {
            kind,
            severity: Severity::Error,
            message: message(),
            at,
            block,
            warp,
            lanes,
            address: Some(address),
            space: Some(space),
            allocation: allocation_of(grid, space, address),
            related: Vec::new(),
            count: 1,
            located: true,
            same_warp: false,
        });
    }

    #[allow(clippy::too_many_arguments)]
    pub fn report_undefined(
        &mut self,
        _grid: &Grid<'_>,
        block: u64,
        warp: u32,
        here: u32,
        origin: Origin,
        lanes: u32,
        how: &str,
    ) {
        if origin.source() == Source::Reported {
            return;
        }
        let (kind, at, message, related) = taint::describe(origin, here, how);
        self.findings.add(kind, at, 0, block, warp, || Raw {
            kind,
            severity: Severity::Error,
            message,
            at,
            block,
            warp,
            lanes,
            address: None,
            space: None,
            allocation: None,
            related,
            count: 1,
            located: true,
            same_warp: false,
        });
    }

    pub fn tainted(&self, address: u64) -> Option<Origin> {
        self.taints.get(&address).map(|t| t.origin)
    }

    pub fn report_race(&mut self, grid: &Grid<'_>, r: &RaceReport) {
        let (kind, how) = match r.kind {
            RaceKind::Shared => (Kind::Race, "no barrier stands between them"),
            RaceKind::Global => (Kind::Race, "nothing orders them"),
            RaceKind::IntraWarp => (Kind::Race, "they are lanes of one warp with no __syncwarp between them"),
            RaceKind::AsyncNotWaited => {
                (Kind::AsyncNotWaited, "the asynchronous operation has not been waited for")
            }
            RaceKind::MissingProxyFence => (
                Kind::ProxyFence,
                "they are ordered, but no fence.proxy.async stands between them, so the asynchronous read may not see \
                 the write",
            ),
            RaceKind::ScopeTooNarrow => {
                (Kind::Scope, "the scope of the atomic or fence does not reach both threads")
            }
            RaceKind::MissingRelease => {
                (Kind::Race, "the flag is published without a release fence after the data")
            }
            RaceKind::MissingAcquire => {
                (Kind::Race, "the flag is read without an acquire fence before the data")
            }
        };
        let (space, place) = if r.shared { (Space::Shared, "shared") } else { (Space::Global, "global") };
        let name = |op| match op {
            crate::check::race::Op::Read => "read",
            crate::check::race::Op::Write => "write",
            crate::check::race::Op::Atomic => "atomic",
        };
        // Which of the two blocks came first depends on the order of the blocks. The finding always names the block
        // with the higher number.
        let (a, b, lanes) = if r.first.block > r.second.block {
            (&r.second, &r.first, 1 << r.first.lane)
        } else {
            (&r.first, &r.second, r.lanes)
        };
        let severity = if r.note { Severity::Note } else { Severity::Error };
        let side = |s: &crate::check::race::Side| {
            use crate::check::race::Agent;
            let by = match s.agent {
                None => "",
                Some(Agent::Copy) => "asynchronous copy of ",
                Some(Agent::Load) => "bulk copy of ",
                Some(Agent::StoreRead | Agent::StoreWrite) => "bulk store of ",
                Some(Agent::Tensor) => "wgmma of ",
            };
            format!("{} by {by}block {} warp {} lane {}", name(s.op), s.block, s.warp, s.lane)
        };
        let message = format!(
            "race in {place} memory{}: {} and {}; {how}",
            if r.same_value { " (both write the same value)" } else { "" },
            side(b),
            side(a),
        );
        self.findings.add(kind, b.pc, a.pc + 1, u64::from(b.block), b.warp, || Raw {
            kind,
            severity,
            message,
            at: b.pc,
            block: u64::from(b.block),
            warp: b.warp,
            lanes,
            address: Some(r.address),
            space: Some(space),
            allocation: allocation_of(grid, space, r.address),
            related: vec![(format!("the other access: {}", side(a)), a.pc)],
            count: r.count,
            located: true,
            same_warp: a.block == b.block && a.warp == b.warp,
        });
    }

    /// Records that an undefined value was stored to global memory.
    pub fn taint(&mut self, address: u64, origin: Origin, store: u32, block: u64, warp: u32, lane: u32) {
        if self.taints.len() < MAX_TAINTS {
            self.taints.insert(address, Taint { origin, store, block, warp, lane });
        }
    }
}

pub(super) fn allocation_of(grid: &Grid<'_>, space: Space, address: u64) -> Option<String> {
    match space {
        Space::Global | Space::Generic => grid
            .device
            .label_at(address)
            .map(|(l, _)| l.to_string())
            .or_else(|| grid.device.describe(address).0),
        Space::Shared => {
            let named =
                grid.kernel.shared_variables.iter().rev().find(|(at, ..)| u64::from(*at) <= address)?;
            Some(named.2.clone())
        }
        _ => None,
    }
}
