//! The state of a worker thread: what it has executed, counted and found.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::grid::{Grid, allocation_of};
use super::memory::REGION_SETS;
use super::origin::{self, Origin, Source};
use crate::check::collect::{Collector, RawFinding};
use crate::check::race::RaceReport;
use crate::check::{Kind, Site};
use crate::count::{Chains, Counts, InstCount};
use crate::isa::types::Space;
use crate::mem::region::Region;

/// An undefined value in global memory: its origin, and the lane and instruction that stored it.
#[derive(Clone, Copy, Debug)]
pub struct Taint {
    pub origin: Origin,
    pub store: Site,
}

pub const MAX_TAINTS: usize = 1 << 16;

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

    pub fn stop(&mut self, now: u64) {
        *self = Clock { stopped: Some(now), ahead: self.ahead, read: false, leaps: 0 };
    }

    pub fn resume(&mut self) {
        self.stopped = None;
    }

    /// Advances the clock. Returns false if no warp has read the clock, or if the maximum number of leaps is reached.
    pub fn leap(&mut self) -> bool {
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
pub enum Limit {
    Instructions,
    Time,
}

/// Number of warp instructions between two reads of the wall clock: about a millisecond.
pub const CLOCK_CHECK_INTERVAL: u64 = 1 << 15;

/// State of one worker.
pub struct WorkerState {
    pub executed: u64,
    pub charged: u64,
    /// Number of executed instructions at which the wall clock is read next.
    pub next_clock_check: u64,
    /// The allocations used last, by address.
    pub regions: [Region; REGION_SETS],
    pub counts: Counts,
    pub findings: Collector,
    pub idle_blocks: u64,
    pub first_idle: u64,
    /// True if no block has made progress for a while. Warps then check whether they repeat the same state.
    pub watching: bool,
    pub clock: Clock,
    pub taints: HashMap<u64, Taint>,
}

impl std::fmt::Debug for WorkerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerState").field("executed", &self.executed).finish_non_exhaustive()
    }
}

impl WorkerState {
    pub fn new(grid: &Grid<'_>, count: bool) -> WorkerState {
        let insts = grid.kernel.functions.iter().map(|f| f.insts.len()).sum();
        WorkerState {
            executed: 0,
            charged: 0,
            next_clock_check: 0,
            regions: [Region::NONE; REGION_SETS],
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
    pub fn spend(&mut self, grid: &Grid<'_>) -> Option<Limit> {
        let fresh = self.executed - self.charged;
        self.charged = self.executed;
        if grid.spent.fetch_add(fresh, Ordering::Relaxed) + fresh > grid.budget {
            return Some(Limit::Instructions);
        }
        // Reading the wall clock takes as long as a few instructions.
        if self.executed >= self.next_clock_check {
            self.next_clock_check = self.executed + CLOCK_CHECK_INTERVAL;
            if grid.deadline.is_some_and(|deadline| Instant::now() >= deadline) || grid.is_stopped_outside() {
                return Some(Limit::Time);
            }
        }
        None
    }

    pub fn report(&mut self, kind: Kind, site: Site, message: impl FnOnce() -> String) {
        self.report_with(kind, site, Vec::new(), message);
    }

    /// Reports a finding together with other instructions that explain it.
    pub fn report_with(
        &mut self,
        kind: Kind,
        site: Site,
        related: Vec<(String, u32)>,
        message: impl FnOnce() -> String,
    ) {
        let make = || RawFinding { related, ..RawFinding::new(kind, site, message()) };
        self.findings.add(kind, site, make);
    }

    /// Reports a finding about an access to an address.
    pub fn report_access(
        &mut self,
        grid: &Grid<'_>,
        kind: Kind,
        site: Site,
        (space, address): (Space, u64),
        message: impl FnOnce() -> String,
    ) {
        self.findings.add(kind, site, || RawFinding {
            address: Some(address),
            space: Some(space),
            allocation: allocation_of(grid, space, address),
            ..RawFinding::new(kind, site, message())
        });
    }

    /// Reports the use of an undefined value. `how` says how the instruction at the site uses it.
    pub fn report_undefined(&mut self, site: Site, origin: Origin, how: &str) {
        if origin.source() != Source::Reported {
            let (kind, pc, message, related) = origin::describe(origin, site.pc, how);
            self.report_with(kind, Site { pc, ..site }, related, || message);
        }
    }

    pub fn tainted(&self, address: u64) -> Option<Origin> {
        self.taints.get(&address).map(|t| t.origin)
    }

    pub fn report_race(&mut self, grid: &Grid<'_>, race: &RaceReport) {
        let (side, lanes, other) = race.sides();
        let space = if race.shared { Space::Shared } else { Space::Global };
        let kind = race.kind.finding();
        let site = Site { pc: side.pc, block: u64::from(side.block), warp: side.warp, lanes };
        let key = (kind, site.pc, other.pc + 1);
        self.findings.add_many(key, race.severity, site, race.count, || RawFinding {
            severity: race.severity,
            address: Some(race.address),
            space: Some(space),
            allocation: allocation_of(grid, space, race.address),
            related: vec![(format!("{other} here"), other.pc)],
            same_warp: other.block == side.block && other.warp == side.warp,
            ..RawFinding::new(kind, site, race.message())
        });
    }

    /// Records that an undefined value was stored to global memory.
    pub fn taint(&mut self, address: u64, origin: Origin, store: Site) {
        if self.taints.len() < MAX_TAINTS {
            self.taints.insert(address, Taint { origin, store });
        }
    }
}
