//! A kernel launch: its options, the distribution of the grid over worker threads, and the report. Each worker runs
//! blocks, and starts another block beside them when they may be waiting for it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::block::{Block, Progress};
use super::taint::{self, Origin, Source};
use super::warp::{Unit, ZERO};
use super::{Checked, CheckedCounted, Counted, Plain, Policy};
use crate::check::collect::{Collector, Raw};
use crate::check::race::{GlobalRaces, RaceKind, RaceReport};
use crate::check::{Finding, Kind, Place, Related, Severity};
use crate::count::{Chains, Counters, Counts, InstCount, summarise};
use crate::isa::decode::Constant;
use crate::isa::op::Class;
use crate::isa::types::Space;
use crate::mem::device::Region;
use crate::mem::window::Windows;
use crate::mem::{Buffer, Device, MemoryError, shadow};
use crate::program::{Function, Kernel, Module};
use crate::world::{self, BlockOrder, World, mix};

/// Extents of a grid or a block: x, y, z.
pub type Dim3 = [u32; 3];

/// Selects the checks that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checks {
    /// No checks. Faults still end the launch.
    None,
    /// All checks.
    #[default]
    All,
}

/// Options of a launch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The checks to run.
    pub checks: Checks,
    /// Whether to count instructions, memory sectors and other events.
    pub counters: bool,
    /// Maximum number of warp instructions of the whole launch. A launch that exceeds it is reported as run-away.
    pub budget: u64,
    /// Maximum wall-clock time of the whole launch. A launch that exceeds it is reported as run-away. `None` means no
    /// limit.
    pub time_limit: Option<Duration>,
    /// Number of worker threads. 0 uses all cores. The results depend on this number only if the kernel's results
    /// depend on the order of its blocks.
    pub threads: usize,
    /// Output buffers: the kernel must write every byte of them, with defined values.
    pub outputs: Vec<Buffer>,
    /// Extents of a cluster: blocks that run together and access each other's shared memory. `[1, 1, 1]` uses the
    /// extents that the kernel was compiled for.
    pub cluster: Dim3,
    /// Device sizes that limit the number of resident blocks.
    pub limits: Limits,
    /// Order and placement of the blocks, and the values of the clocks. The addresses of allocations come from the
    /// device ([`Device::in_world`]).
    pub world: World,
}

/// Device sizes that a kernel can observe. The default is an H200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Number of multiprocessors.
    pub sms: u32,
    /// Maximum number of resident blocks per multiprocessor.
    pub blocks_per_sm: u32,
    /// Maximum number of resident threads per multiprocessor.
    pub threads_per_sm: u32,
    /// Bytes of shared memory per multiprocessor.
    pub shared_per_sm: u32,
    /// Maximum number of bytes of shared memory that a block may have.
    pub shared_per_block: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sms: 132,
            blocks_per_sm: 32,
            threads_per_sm: 2048,
            shared_per_sm: 228 * 1024,
            shared_per_block: 227 * 1024,
        }
    }
}

impl Limits {
    /// Number of blocks of a kernel that can be resident at the same time. Registers are not known here, so they do not
    /// limit it.
    pub fn resident(&self, threads: u32, shared: u32) -> u64 {
        // The system reserves 1 KiB of shared memory per block.
        let by_shared = self.shared_per_sm / (shared + 1024);
        let by_threads = self.threads_per_sm / threads.next_multiple_of(32).max(32);
        u64::from(self.blocks_per_sm.min(by_shared).min(by_threads).max(1)) * u64::from(self.sms.max(1))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            checks: Checks::All,
            counters: false,
            budget: 2_000_000_000,
            time_limit: Some(Duration::from_mins(10)),
            threads: 0,
            outputs: Vec::new(),
            cluster: [1; 3],
            limits: Limits::default(),
            world: World::default(),
        }
    }
}

/// A kernel with its launch configuration and arguments.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The module that contains the kernel.
    pub module: &'a Module,
    /// Name of the kernel.
    pub kernel: &'a str,
    /// Extents of the grid in blocks.
    pub grid: Dim3,
    /// Extents of a block in threads.
    pub block: Dim3,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The argument block: each parameter at its offset ([`Kernel::params`]).
    pub args: &'a [u8],
}

/// Why a launch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The module does not contain this kernel.
    #[error("module has no kernel `{0}`")]
    UnknownKernel(String),
    /// The argument block has the wrong size.
    #[error("kernel `{kernel}` takes {wanted} bytes of arguments, {given} given")]
    Arguments {
        /// Name of the kernel.
        kernel: String,
        /// Number of bytes that the kernel takes.
        wanted: u32,
        /// Number of bytes that were given.
        given: usize,
    },
    /// The extents of the block are invalid.
    #[error("block of {0:?} threads: each extent must be at least 1 and the product at most 1024")]
    BlockShape(Dim3),
    /// The extents of the grid are invalid.
    #[error("grid of {0:?} blocks: x must be 1 to 2147483647, y and z 1 to 65535")]
    GridShape(Dim3),
    /// The extents of the cluster are invalid.
    #[error("clusters of {cluster:?} blocks: {reason}")]
    Cluster {
        /// Extents that were given.
        cluster: Dim3,
        /// Why they are invalid.
        reason: String,
    },
    /// The number of threads does not match the bounds that the kernel was compiled for.
    #[error("block of {given} threads, but the kernel was compiled for {wanted}")]
    ThreadBounds {
        /// Number of threads that were given.
        given: u32,
        /// The bounds of the kernel, as text.
        wanted: String,
    },
    /// The block needs more shared memory than it may have.
    #[error("{wanted} bytes of shared memory asked, a block has at most {limit}")]
    SharedMemory {
        /// Number of bytes that the launch needs.
        wanted: u64,
        /// Maximum number of bytes of a block.
        limit: u32,
    },
    /// A memory operation of the launch failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Statistics of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Number of warp instructions that were executed.
    pub warp_instructions: u64,
    /// Number of blocks in the grid.
    pub blocks: u64,
    /// False if a fault, a trap, the budget or the time limit ended the launch.
    pub completed: bool,
}

/// The report of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchReport {
    /// The findings, most important first.
    pub findings: Vec<Finding>,
    /// Number of distinct findings that were dropped because a thousand others had been kept.
    #[serde(default)]
    pub dropped_findings: u64,
    /// Names of the module's variables in global memory that the launch changed, in the order of the module. A later
    /// launch of the module sees the new values.
    #[serde(default)]
    pub changed_state: Vec<String>,
    /// The counters, if the launch was asked to count.
    pub counters: Option<Counters>,
    /// Output of `printf`.
    pub printed: String,
    /// Statistics of the launch.
    pub stats: Stats,
}

impl LaunchReport {
    /// True if no finding is more severe than a note.
    pub fn is_clean(&self) -> bool {
        // Dropped findings need no check: findings are dropped only when a thousand others are kept.
        self.findings.iter().all(|f| f.severity == Severity::Note)
    }
}

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
    deadline: Option<Instant>,
    pub time_limit: Option<Duration>,
    pub limits: Limits,
    pub windows: Windows,
    pub world: World,
    order: BlockOrder,
    sm_order: Vec<u32>,
    /// Clock and nanosecond values at the start of the launch.
    began: (u64, u64),
    pub launch_id: u64,
    regions: Vec<Region>,
    spent: AtomicU64,
    next_block: AtomicU64,
    stop: AtomicBool,
    printed: Mutex<Vec<u8>>,
    /// Number of running blocks in all workers.
    resident: AtomicU64,
    resident_limit: u64,
    /// Counts the changes that blocks make.
    moves: AtomicU64,
    /// For each worker: `moves + 1` at the time when all its blocks were found stuck, or `u64::MAX` once the worker has
    /// ended.
    stuck: Vec<AtomicU64>,
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
    fn blocks_of(&self, cluster: u64) -> Vec<u64> {
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
const CLOCKS: u64 = 4;
const NANOSECONDS: u64 = 2;

/// Number of registers of a multiprocessor.
const REGISTERS: u32 = 65536;

/// Nanoseconds between two launches.
const BETWEEN_LAUNCHES: u64 = 5_000;

/// An undefined value in global memory: its origin, and the thread and instruction that stored it.
#[derive(Clone, Copy, Debug)]
struct Taint {
    origin: Origin,
    store: u32,
    block: u64,
    warp: u32,
    lane: u32,
}

const MAX_TAINTS: usize = 1 << 16;

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

    fn stop(&mut self, now: u64) {
        *self = Clock { stopped: Some(now), ahead: self.ahead, read: false, leaps: 0 };
    }

    fn go_on(&mut self) {
        self.stopped = None;
    }

    /// Advances the clock. Returns false if no warp has read the clock, or if the maximum number of leaps is reached.
    fn leap(&mut self) -> bool {
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
const LOOK_EVERY: u64 = 1 << 15;

/// State of one worker.
pub struct WorkerState {
    pub executed: u64,
    charged: u64,
    /// Number of executed instructions at which the wall clock is read next.
    look: u64,
    /// The allocations used last, by address.
    pub regions: [Region; super::memory::REGION_SETS],
    pub counts: Counts,
    pub findings: Collector,
    pub idle_blocks: u64,
    pub first_idle: u64,
    /// True if no block has made progress for a while. Warps then check whether they repeat the same state.
    pub watching: bool,
    pub clock: Clock,
    taints: HashMap<u64, Taint>,
    functions: *const [Function],
}

impl std::fmt::Debug for WorkerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerState").field("executed", &self.executed).finish_non_exhaustive()
    }
}

impl WorkerState {
    fn new(grid: &Grid<'_>, count: bool) -> WorkerState {
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
            functions: &raw const grid.kernel.functions[..],
        }
    }

    /// The time base of the clocks: the number of executed instructions plus the leaps of the clock. The last `rest` of
    /// the counted instructions have not run yet.
    pub fn time(&mut self, rest: u64) -> u64 {
        self.clock.read = true;
        let executed = self.clock.stopped.unwrap_or_else(|| self.executed.saturating_sub(rest));
        executed.wrapping_add(self.clock.ahead)
    }

    pub fn functions(&self) -> &[Function] {
        // SAFETY: the worker does not outlive the grid, which borrows the kernel.
        unsafe { &*self.functions }
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

fn allocation_of(grid: &Grid<'_>, space: Space, address: u64) -> Option<String> {
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

impl Device {
    /// Runs a kernel until it ends, or until a fault, a trap or a limit ends it. Returns the report.
    pub fn launch(&mut self, launch: &Launch<'_>, options: &Options) -> Result<LaunchReport, LaunchError> {
        let kernel = launch
            .module
            .kernel(launch.kernel)
            .ok_or_else(|| LaunchError::UnknownKernel(launch.kernel.to_string()))?;
        let threads = validate(kernel, launch, options)?;
        let addresses = self.place(launch.module)?;
        let state = self.writable_state(launch.module, &addresses);
        let mut params = launch.args.to_vec();
        params.resize((kernel.param_bytes as usize).next_multiple_of(16), 0);
        let regions = self.regions();
        let checked = options.checks == Checks::All;
        if checked {
            begin_outputs(&regions, &options.outputs);
        }
        static LAUNCHES: AtomicU64 = AtomicU64::new(1);
        // x is below 2^31, and y and z are below 2^16, so the product cannot overflow.
        let blocks: u64 = launch.grid.iter().map(|d| u64::from(*d)).product();
        let hopeless = blocks.saturating_mul(u64::from(threads.div_ceil(32))) > options.budget;
        let shared_bytes =
            if launch.shared == 0 { kernel.shared_bytes } else { kernel.dynamic_shared + launch.shared };
        let workers = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            n => n,
        }
        .min(
            (blocks / kernel.cluster.map_or(1, |c| c.iter().map(|d| u64::from(*d)).product::<u64>()).max(1))
                .clamp(1, 1024) as usize,
        )
        .max(1);
        let allocations: Vec<(u64, u64)> =
            if checked { regions.iter().map(|r| (r.address, r.bytes)).collect() } else { Vec::new() };
        let world = options.world;
        let grid_id = world.grid_id.wrapping_add(self.launches);
        let resident_limit = options.limits.resident(threads, shared_bytes);
        let cluster =
            if options.cluster == [1; 3] { kernel.cluster.unwrap_or([1; 3]) } else { options.cluster };
        let per_cluster = cluster.iter().map(|d| u64::from(*d)).product::<u64>();
        validate_cluster(kernel, launch.grid, cluster)?;
        let grid = Grid {
            kernel,
            device: self,
            grid_dim: launch.grid,
            block_dim: launch.block,
            block_threads: threads,
            cluster,
            blocks,
            shared_bytes,
            dynamic_shared: launch.shared,
            param_shadow: vec![shadow::DEFINED; params.len()],
            params,
            constants: constants(kernel, &addresses, &self.windows, grid_id),
            budget: if hopeless { options.budget.min(SAMPLE) } else { options.budget },
            hopeless,
            deadline: options.time_limit.and_then(|limit| Instant::now().checked_add(limit)),
            time_limit: options.time_limit,
            limits: options.limits,
            windows: self.windows,
            world,
            order: BlockOrder::new(
                world.block_order,
                blocks / per_cluster,
                (resident_limit / per_cluster).max(1),
            ),
            sm_order: world::sm_order(world.sm_order, options.limits.sms.max(1)),
            began: (
                // The clock runs at about 2 GHz.
                world.clock.wrapping_add(self.uptime.wrapping_mul(CLOCKS / NANOSECONDS)),
                world.nanoseconds.wrapping_add(self.uptime),
            ),
            races: GlobalRaces::new(allocations),
            launch_id: LAUNCHES.fetch_add(1, Ordering::Relaxed),
            regions,
            spent: AtomicU64::new(0),
            next_block: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            printed: Mutex::new(Vec::new()),
            resident: AtomicU64::new(0),
            resident_limit,
            moves: AtomicU64::new(0),
            stuck: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        };
        let states = match (checked, options.counters) {
            (false, false) => run_workers::<Plain>(&grid, workers),
            (false, true) => run_workers::<Counted>(&grid, workers),
            (true, false) => run_workers::<Checked>(&grid, workers),
            (true, true) => run_workers::<CheckedCounted>(&grid, workers),
        };
        let mut report = report(&grid, launch.module, options, states);
        report.changed_state = self.changed_state(launch.module, &addresses, &state);
        self.launches += 1;
        let elapsed = report.stats.warp_instructions.wrapping_mul(NANOSECONDS).wrapping_add(BETWEEN_LAUNCHES);
        self.uptime = self.uptime.wrapping_add(elapsed);
        Ok(report)
    }
}

fn validate(kernel: &Kernel, launch: &Launch<'_>, options: &Options) -> Result<u32, LaunchError> {
    if launch.args.len() < kernel.param_bytes as usize {
        return Err(LaunchError::Arguments {
            kernel: kernel.name.clone(),
            wanted: kernel.param_bytes,
            given: launch.args.len(),
        });
    }
    let [gx, gy, gz] = launch.grid;
    if gx == 0 || gx > i32::MAX as u32 || gy == 0 || gy > 65535 || gz == 0 || gz > 65535 {
        return Err(LaunchError::GridShape(launch.grid));
    }
    let threads = launch.block.iter().try_fold(1u32, |n, d| n.checked_mul(*d)).unwrap_or(0);
    if threads == 0 || threads > 1024 || launch.block[2] > 64 {
        return Err(LaunchError::BlockShape(launch.block));
    }
    if let Some(required) = kernel.required_threads
        && required != launch.block
    {
        return Err(LaunchError::ThreadBounds { given: threads, wanted: format!("exactly {required:?}") });
    }
    if let Some(most) = kernel.max_threads
        && threads > most
    {
        return Err(LaunchError::ThreadBounds { given: threads, wanted: format!("at most {most}") });
    }
    let shared = u64::from(kernel.dynamic_shared) + u64::from(launch.shared);
    let limit = options.limits.shared_per_block;
    if shared > u64::from(limit) {
        return Err(LaunchError::SharedMemory { wanted: shared, limit });
    }
    Ok(threads)
}

/// Maximum number of blocks of a cluster: the largest size that a Hopper GPU can be set to allow.
const MAX_CLUSTER: u32 = 16;

fn validate_cluster(kernel: &Kernel, grid: Dim3, cluster: Dim3) -> Result<(), LaunchError> {
    let refuse = |reason: String| Err(LaunchError::Cluster { cluster, reason });
    if cluster == [1; 3] {
        return Ok(());
    }
    let blocks = cluster.iter().try_fold(1u32, |n, d| n.checked_mul(*d)).unwrap_or(0);
    if blocks == 0 || blocks > MAX_CLUSTER {
        return refuse(format!("they may have 1 to {MAX_CLUSTER}"));
    }
    if let Some(wanted) = kernel.cluster
        && wanted != cluster
    {
        return refuse(format!("the kernel was compiled for {wanted:?}"));
    }
    if grid.iter().zip(cluster).any(|(g, c)| !g.is_multiple_of(c)) {
        return refuse(format!("the grid of {grid:?} blocks is not made of such clusters"));
    }
    Ok(())
}

/// Builds the constant table with all addresses resolved. Each value is stored 32 times, once per lane.
fn constants(kernel: &Kernel, addresses: &[u64], windows: &Windows, grid_id: u64) -> Vec<Unit> {
    let mut table = vec![ZERO; kernel.constant_units as usize + 2];
    for (class, value, index) in &kernel.constants {
        let bits = match value {
            Constant::Bits(b) => *b,
            Constant::Variable(v, offset) => {
                addresses.get(*v as usize).map_or(0, |a| a.wrapping_add_signed(*offset))
            }
            Constant::DynamicShared { offset } => {
                u64::from(kernel.dynamic_shared).wrapping_add_signed(*offset)
            }
            Constant::Window { space, to: false } => windows.base(*space),
            Constant::Window { space, to: true } => windows.base(*space).wrapping_neg(),
            Constant::GridId => grid_id,
        };
        let at = *index as usize;
        if *class == Class::R64 {
            for l in 0..32usize {
                let unit = at + l / 16;
                table[unit].0[l % 16 * 2] = bits as u32;
                table[unit].0[l % 16 * 2 + 1] = (bits >> 32) as u32;
            }
        } else {
            table[at].0.fill(bits as u32);
        }
    }
    table
}

fn run_workers<P: Policy>(grid: &Grid<'_>, workers: usize) -> Vec<WorkerState> {
    if workers == 1 {
        return vec![work::<P>(grid, 0)];
    }
    std::thread::scope(|scope| {
        let handles: Vec<_> =
            (0..workers).map(|n| scope.spawn(move || SendState(work::<P>(grid, n)))).collect();
        handles.into_iter().filter_map(|h| h.join().ok()).map(|s| s.0).collect()
    })
}

struct SendState(WorkerState);
// SAFETY: the raw pointer points into the kernel, which is shared and immutable.
unsafe impl Send for SendState {}

/// Instruction limit of a launch that cannot complete within its budget. It suffices to find errors in the first
/// blocks.
const SAMPLE: u64 = 1_000_000;

/// Number of rounds that a block runs before its worker may start another block beside it. Only blocks that wait for
/// other blocks are still unfinished after these rounds.
const ROUNDS: u32 = 16;

/// Number of passes over blocks that make progress before another block joins them.
const LONG_PASSES: u32 = 8;

/// Number of consecutive passes without progress before warps are watched for repeated states.
const QUIET_PASSES: u32 = 4;

#[allow(clippy::too_many_lines)] // The main loop of a worker thread.
fn work<P: Policy>(grid: &Grid<'_>, number: usize) -> WorkerState {
    let mut worker = WorkerState::new(grid, P::COUNT);
    // The blocks are boxed because the blocks of a cluster refer to each other by address.
    let mut active: Vec<Box<Block>> = Vec::new();
    let mut spare: Vec<Box<Block>> = Vec::new();
    let mut finished: Vec<Box<Block>> = Vec::new();
    let mut quiet = 0u32;
    // The last value read from `grid.moves`. It is kept from pass to pass so that a change between two passes is not
    // missed. Observations of warps from before a change say nothing about their behaviour after it.
    let mut seen = 0u64;
    // Number of passes since a block was started, and whether the last pass changed nothing.
    let (mut passes, mut idle) = (0u32, false);
    'work: while !grid.stopped() {
        // Another block joins when the active blocks make no progress, or when they have run for many passes. In both
        // cases they may be waiting for it. It does not join earlier, so that a long kernel does not use more memory
        // than it needs.
        let wanted = idle || passes >= LONG_PASSES;
        if active.is_empty() || wanted && grid.resident.load(Ordering::Relaxed) < grid.resident_limit {
            passes = 0;
            let position = grid.next_block.fetch_add(1, Ordering::Relaxed);
            let per_cluster = grid.cluster.iter().map(|d| u64::from(*d)).product::<u64>();
            if position < grid.blocks / per_cluster {
                let numbers = grid.blocks_of(grid.order.block(position));
                grid.resident.fetch_add(per_cluster, Ordering::Relaxed);
                let cluster = std::rc::Rc::<super::cluster::Cluster>::default();
                for (rank, number) in (0..).zip(numbers) {
                    let mut block = spare.pop().unwrap_or_default();
                    block.start::<P>(grid, number, grid.seat(position * per_cluster + u64::from(rank)));
                    if per_cluster > 1 {
                        cluster.enter(&raw mut block.core);
                        let cluster = std::rc::Rc::clone(&cluster);
                        block.core.membership = Some(super::cluster::Membership { cluster, rank });
                    }
                    active.push(block);
                }
                quiet = 0;
            } else {
                grid.next_block.store(grid.blocks, Ordering::Relaxed);
            }
        }
        if active.is_empty() {
            break;
        }
        passes += 1;
        let mut i = 0;
        while i < active.len() {
            match active[i].run::<P>(grid, &mut worker, ROUNDS) {
                Progress::Finished => {
                    grid.resident.fetch_sub(1, Ordering::Relaxed);
                    grid.moves.fetch_add(1, Ordering::Relaxed);
                    finished.push(active.remove(i));
                    // Other blocks of the cluster may still ask whether this block has exited. It is kept until all of
                    // them have ended.
                    let over = |block: &Block| {
                        let Some(member) = &block.core.membership else { return true };
                        !active.iter().any(|other| {
                            let other = other.core.membership.as_ref();
                            other.is_some_and(|o| std::rc::Rc::ptr_eq(&o.cluster, &member.cluster))
                        })
                    };
                    let mut kept = 0;
                    while kept < finished.len() {
                        if over(&finished[kept]) {
                            let mut block = finished.swap_remove(kept);
                            block.core.membership = None;
                            spare.push(block);
                        } else {
                            kept += 1;
                        }
                    }
                }
                Progress::Unfinished { moved } => {
                    if moved {
                        grid.moves.fetch_add(1, Ordering::Relaxed);
                    }
                    i += 1;
                }
                Progress::Halted => {
                    grid.stop();
                    break 'work;
                }
            }
        }
        let now = grid.moves.load(Ordering::SeqCst);
        idle = std::mem::replace(&mut seen, now) == now;
        if !P::CHECK {
            continue;
        }
        if !idle {
            quiet = 0;
            worker.watching = false;
            worker.clock.go_on();
            continue;
        }
        quiet += 1;
        if quiet == QUIET_PASSES {
            for block in &mut active {
                block.start_watching();
            }
            worker.watching = true;
            worker.clock.stop(worker.executed);
        } else if worker.watching && active.iter().all(|block| block.is_stuck()) {
            if worker.clock.leap() {
                for block in &mut active {
                    block.start_watching();
                }
                continue;
            }
            grid.stuck[number].store(now + 1, Ordering::SeqCst);
            let all = grid.stuck.iter().all(|s| [now + 1, u64::MAX].contains(&s.load(Ordering::SeqCst)));
            if all && grid.moves.load(Ordering::SeqCst) == now {
                report_stuck(grid, &mut worker, &active);
                grid.stop();
            } else {
                std::thread::yield_now();
            }
        }
    }
    for block in &mut active {
        block.harvest(grid, &mut worker);
    }
    grid.stuck[number].store(u64::MAX, Ordering::SeqCst);
    worker
}

/// Reports that every running block waits for an event that none of them will cause.
fn report_stuck(grid: &Grid<'_>, worker: &mut WorkerState, active: &[Box<Block>]) {
    // Choose a block that polls, and among these the one with the lowest number. The order in which the blocks started
    // carries no information.
    let circles = active.iter().filter_map(|b| Some((&**b, b.circles_at(grid)?)));
    let first = circles.min_by_key(|(block, (waits, ..))| (!waits, block.core.index));
    let Some((block, (waits, at, warp, lanes))) = first else { return };
    let per_cluster = grid.cluster.iter().map(|d| u64::from(*d)).product::<u64>();
    let started = grid.next_block.load(Ordering::Relaxed).saturating_mul(per_cluster).min(grid.blocks);
    let resident = active.len();
    if !waits {
        worker.report(grid, Kind::Runaway, at, block.core.index, warp, lanes, || {
            "this warp goes in circles: it has come back here with the same values in all registers"
                .to_string()
        });
    } else if started < grid.blocks {
        let (blocks, limit) = (grid.blocks, grid.resident_limit);
        worker.report(grid, Kind::NotResident, at, block.core.index, warp, lanes, || {
            format!(
                "the blocks that run wait for blocks that cannot start: the grid has {blocks} blocks, the device \
                 holds {limit} of this kernel at a time"
            )
        });
    } else {
        worker.report(grid, Kind::Deadlock, at, block.core.index, warp, lanes, || {
            let barriers = block.awaited_barriers(grid);
            let why = if barriers.is_empty() { String::new() } else { format!(": {}", barriers.join("; ")) };
            format!("this warp waits in a loop for a change that no running thread will make ({resident} blocks still run){why}")
        });
    }
}

fn report(grid: &Grid<'_>, module: &Module, options: &Options, states: Vec<WorkerState>) -> LaunchReport {
    let mut findings = Collector::default();
    let mut counts = Counts::default();
    let mut executed = 0;
    let (mut idle, mut first_idle) = (0, u64::MAX);
    let mut taints: HashMap<u64, Taint> = HashMap::new();
    for s in states {
        executed += s.executed;
        idle += s.idle_blocks;
        first_idle = first_idle.min(s.first_idle);
        counts.merge(&s.counts);
        findings.merge(s.findings);
        taints.extend(s.taints);
    }
    let completed = !grid.stopped();
    if options.checks == Checks::All && completed {
        check_outputs(grid, options, &taints, &mut findings);
        if idle > 0 && grid.blocks > 1 {
            let blocks = grid.blocks;
            // A rounded-up grid has some blocks without work. So has a grid that fills the GPU, for a kernel that reads
            // the size of its grid. Both are worth a note. For any other kernel it is a mistake if at least half of the
            // blocks are idle.
            let mistaken = idle * 2 >= blocks && !asks_grid_size(grid.kernel);
            findings.add(Kind::IdleBlocks, 0, 0, first_idle, 0, || Raw {
                kind: Kind::IdleBlocks,
                severity: if mistaken { Severity::Warning } else { Severity::Note },
                message: format!(
                    "{idle} of {blocks} blocks did nothing: they ended without touching global memory"
                ),
                at: 0,
                block: first_idle,
                warp: 0,
                lanes: 0,
                address: None,
                space: None,
                allocation: None,
                related: Vec::new(),
                count: 1,
                located: false,
                same_warp: false,
            });
        }
    }
    let location = |at: u32| {
        let f = grid.kernel.functions.iter().rev().find(|f| f.first <= at);
        f.and_then(|f| f.metas.get((at - f.first) as usize))
            .map_or(0, |m| if m.loc == 0 { u32::MAX - m.line } else { m.loc })
    };
    let place = |at: u32| {
        let f = grid.kernel.functions.iter().rev().find(|f| f.first <= at);
        let meta = f.and_then(|f| f.metas.get((at - f.first) as usize));
        meta.map_or(Place::default(), |m| Place { ptx_line: m.line, frames: module.sources.stack(m.loc) })
    };
    let dims = |index: u64| {
        let [gx, gy, _] = grid.grid_dim.map(u64::from);
        [(index % gx) as u32, (index / gx % gy) as u32, (index / gx / gy) as u32]
    };
    let dropped_findings = findings.dropped();
    let findings: Vec<Finding> = settle_async(findings.into_sorted(), &location)
        .into_iter()
        .map(|r| Finding {
            kind: r.kind,
            severity: r.severity,
            message: r.message,
            kernel: grid.kernel.name.clone(),
            block: (r.located || r.kind == Kind::IdleBlocks).then(|| dims(r.block)),
            warp: r.located.then_some(r.warp),
            lanes: r.lanes,
            address: r.address,
            space: r.space,
            allocation: r.allocation,
            place: if r.located { place(r.at) } else { Place::default() },
            related: r.related.into_iter().map(|(label, at)| Related { label, place: place(at) }).collect(),
            count: r.count,
        })
        .collect();
    let findings = fold(findings);
    let printed = grid.printed.lock().map(|p| String::from_utf8_lossy(&p).into_owned()).unwrap_or_default();
    LaunchReport {
        findings,
        dropped_findings,
        changed_state: Vec::new(),
        counters: options.counters.then(|| summarise(grid.kernel, &module.sources, &counts)),
        printed,
        stats: Stats { warp_instructions: executed, blocks: grid.blocks, completed },
    }
}

/// Whether the kernel reads the extents of its grid.
fn asks_grid_size(kernel: &Kernel) -> bool {
    let extents = ["%nctaid.x", "%nctaid.y", "%nctaid.z"].map(super::warp::special);
    let mut slots = kernel.functions.iter().flat_map(|f| &f.insts).flat_map(crate::isa::op::Inst::sources);
    slots.any(|slot| slot.is_special() && extents.contains(&slot.index()))
}

/// Marks the output buffers as not written by this launch.
fn begin_outputs(regions: &[Region], outputs: &[Buffer]) {
    for o in outputs {
        if let Some(r) = regions.iter().find(|r| r.address == o.0) {
            for i in 0..r.bytes as usize {
                // SAFETY: the index is inside the region's shadow, and no worker runs.
                unsafe { *r.shadow.add(i) &= !shadow::TAINTED };
            }
        }
    }
}

/// Reports bytes of output buffers that were not written or that hold undefined values.
fn check_outputs(grid: &Grid<'_>, options: &Options, taints: &HashMap<u64, Taint>, findings: &mut Collector) {
    for o in &options.outputs {
        let Some(r) = grid.regions.iter().find(|r| r.address == o.0) else { continue };
        // SAFETY: the slice is the region's shadow. All workers have ended.
        let states = unsafe { std::slice::from_raw_parts(r.shadow, r.bytes as usize) };
        let label = grid.device.label_at(r.address).map_or(String::new(), |(l, _)| l.to_string());
        let unwritten = states.iter().filter(|s| **s & shadow::TAINTED == 0).count();
        if unwritten > 0 {
            let first = states.iter().position(|s| *s & shadow::TAINTED == 0).unwrap_or(0) as u64;
            let total = r.bytes;
            findings.add(Kind::UnwrittenOutput, 0, first as u32, 0, 0, || Raw {
                kind: Kind::UnwrittenOutput,
                severity: Severity::Error,
                message: format!("{unwritten} of {total} bytes of output `{label}` were never written, the first at offset {first}"),
                at: 0,
                block: 0,
                warp: 0,
                lanes: 0,
                address: Some(r.address + first),
                space: Some(Space::Global),
                allocation: Some(label.clone()),
                related: Vec::new(),
                count: unwritten as u64,
                located: false,
                same_warp: false,
            });
        }
        for (i, state) in states.iter().enumerate() {
            if *state != shadow::TAINTED {
                continue;
            }
            let address = r.address + i as u64;
            let Some(t) = taints.get(&address) else { continue };
            if t.origin.source() == Source::Reported || is_padding(states, i) {
                continue;
            }
            let (kind, at, message, related) = taint::describe(t.origin, t.store, "is stored to an output");
            findings.add(kind, at, 0, t.block, t.warp, || Raw {
                kind,
                severity: Severity::Error,
                message,
                at,
                block: t.block,
                warp: t.warp,
                lanes: 1 << t.lane,
                address: Some(address),
                space: Some(Space::Global),
                allocation: Some(label.clone()),
                related,
                count: 1,
                located: true,
                same_warp: false,
            });
        }
    }
}

/// Whether an undefined byte is padding of a copied structure: one or three undefined bytes in a word whose other bytes
/// are defined.
fn is_padding(states: &[u8], i: usize) -> bool {
    let word = &states[i / 4 * 4..(i / 4 * 4 + 4).min(states.len())];
    let undefined = word.iter().filter(|s| **s == shadow::TAINTED).count();
    // Two undefined bytes may be a 16-bit element, so they are reported.
    word.contains(&shadow::WRITTEN) && matches!(undefined, 1 | 3)
}

/// Merges findings of the same kind and the same source lines. A loop that was unrolled eight times is still one source
/// line.
fn fold(findings: Vec<Finding>) -> Vec<Finding> {
    let mut folded: Vec<Finding> = Vec::new();
    for f in findings {
        let same = |g: &&mut Finding| {
            g.kind == f.kind
                && g.severity == f.severity
                && !f.place.frames.is_empty()
                && g.place.frames == f.place.frames
                && g.allocation == f.allocation
                && g.related.first().map(|r| &r.place.frames) == f.related.first().map(|r| &r.place.frames)
        };
        match folded.iter_mut().find(same) {
            Some(g) => g.count += f.count,
            None => folded.push(f),
        }
    }
    folded
}

/// Removes one of two findings with the same cause. A copy that was not waited for is also reported as a plain race. A
/// copy that overwrites live data is also reported as not waited for. For a pair of source lines only one of the two is
/// the cause. If a warp accesses the data of its own copies, the wait is missing. If only other warps do, and reads
/// before the copy also race with it, the barrier is missing.
fn settle_async(found: Vec<Raw>, location: &dyn Fn(u32) -> u32) -> Vec<Raw> {
    let pair = |r: &Raw| {
        let (a, b) = (location(r.at), r.related.first().map_or(0, |(_, at)| location(*at)));
        (a.min(b), a.max(b))
    };
    let mut own = std::collections::HashSet::new();
    let mut races = std::collections::HashSet::new();
    for r in &found {
        match r.kind {
            Kind::AsyncNotWaited if r.same_warp => drop(own.insert(pair(r))),
            Kind::Race => drop(races.insert(pair(r))),
            _ => {}
        }
    }
    found
        .into_iter()
        .filter(|r| match r.kind {
            Kind::Race => !own.contains(&pair(r)),
            Kind::AsyncNotWaited => own.contains(&pair(r)) || !races.contains(&pair(r)),
            _ => true,
        })
        .collect()
}
