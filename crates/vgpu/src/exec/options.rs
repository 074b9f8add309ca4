//! The options of a launch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::mem::Buffer;
use crate::world::World;

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

/// A sample of the clusters of blocks of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Maximum number of clusters, spread evenly over the grid.
    pub most: u64,
    /// Selects them. A kernel that knew them could do its work in the others.
    pub seed: u64,
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
    /// Ends the launch soon after another thread sets it, as if the time limit were exceeded.
    pub stop: Option<Arc<AtomicBool>>,
    /// Number of worker threads. 0 uses all cores. The results depend on this number only if the kernel's results
    /// depend on the order of its blocks.
    pub threads: usize,
    /// Output buffers: the kernel must write every byte of them, with defined values.
    pub outputs: Vec<Buffer>,
    /// Other buffers that are read after the launch: the kernel must not store undefined values there.
    pub kept: Vec<Buffer>,
    /// Whether to keep the ranges that the launch accessed ([`crate::Device::touched`]). Only a checked launch knows them.
    pub touched: bool,
    /// Buffers whose elements are single bytes, so that an undefined byte may be an element and not padding.
    pub of_bytes: Vec<Buffer>,
    /// Whether this launch is the first of those that write the outputs. Otherwise earlier launches may have written parts.
    pub begins_outputs: bool,
    /// Whether this launch is the last of those that write the outputs, after which no part may be missing.
    pub ends_outputs: bool,
    /// Extents of a cluster: blocks that run together and access each other's shared memory. `[1, 1, 1]` uses the
    /// extents that the kernel was compiled for.
    pub cluster: Dim3,
    /// Device sizes that limit the number of resident blocks.
    pub limits: Limits,
    /// The clusters of blocks that run; `None` for all. The others do not run, so the results are incomplete. The counters
    /// and traces of a sample are enough for the time model.
    pub sample: Option<Sample>,
    /// Order and placement of the blocks, and the values of the clocks. The addresses of allocations come from the
    /// device ([`crate::Device::in_world`]).
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
            stop: None,
            threads: 0,
            outputs: Vec::new(),
            kept: Vec::new(),
            touched: false,
            of_bytes: Vec::new(),
            begins_outputs: true,
            ends_outputs: true,
            cluster: [1; 3],
            limits: Limits::default(),
            sample: None,
            world: World::default(),
        }
    }
}
