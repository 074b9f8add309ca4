//! The state that all workers of a launch share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::super::options::{Dim3, Limits};
use super::PolledWords;
use super::warp::Unit;
use crate::check::race::GlobalRaces;
use crate::isa::types::Space;
use crate::mem::Device;
use crate::mem::region::Region;
use crate::mem::window::Windows;
use crate::program::Kernel;
use crate::program::facts::Parameters;
use crate::program::values::{Equality, StoredHashes, by_address};
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
    /// Every `sample_step`-th cluster runs.
    pub sample_step: u64,
    pub sample_seed: u64,
    /// Whether the blocks are traced.
    pub is_traced: bool,
    /// The addresses at which the shared memory of a block starts and ends.
    pub shared_offset: u32,
    pub shared_end: u32,
    pub dynamic_shared: u32,
    /// Address of the memory with which a cooperative grid synchronises its blocks. 0 if the kernel does not ask for it.
    pub workspace: u64,
    pub params: Vec<u8>,
    pub param_shadow: Vec<u8>,
    pub constants: Vec<Unit>,
    pub budget: u64,
    /// True if the budget would not suffice even for one instruction per warp. Only a sample of the blocks runs then.
    pub exceeds_budget: bool,
    /// The time at which the launch must end.
    pub deadline: Option<Instant>,
    pub time_limit: Option<Duration>,
    /// Set by another thread to end the launch.
    pub outside_stop: Option<Arc<AtomicBool>>,
    pub limits: Limits,
    pub windows: Windows,
    pub world: World,
    pub order: BlockOrder,
    pub sm_order: Vec<u32>,
    /// Clock and nanosecond values at the start of the launch.
    pub began: (u64, u64),
    pub launch_id: u64,
    pub regions: Vec<Region>,
    pub spent: AtomicU64,
    pub next_block: AtomicU64,
    pub stop: AtomicBool,
    /// A store to global memory had an undefined value.
    pub stored_undefined: AtomicBool,
    pub printed: Mutex<Vec<u8>>,
    /// Number of running blocks in all workers.
    pub resident: AtomicU64,
    pub resident_limit: u64,
    /// Counts the changes that blocks make.
    pub changes: AtomicU64,
    /// For each worker: `changes + 1` at the time when all its blocks were found stuck, or `u64::MAX` once the worker has
    /// ended.
    pub stuck: Vec<AtomicU64>,
    /// The parameters that point to memory which the launch does not write.
    pub constant_parameters: Parameters,
    /// The words that were polled without success, and the numbers of the instructions that did it, times four. Under checks.
    pub polled: PolledWords,
    pub polls: PolledWords,
    pub races: GlobalRaces,
    /// What the threads of a block store, by function. Evaluated when it is first needed.
    pub stored: Vec<OnceLock<StoredHashes>>,
    /// The bytes of stores that are promised to be the same in all blocks, by the identity of the value. `None`: two
    /// stores differed.
    pub observed: Mutex<HashMap<u64, Option<Vec<u8>>>>,
    /// Tensor maps in global memory that the launch has changed, by address, with the number of changes. Under checks.
    pub changed_maps: Mutex<HashMap<u64, u64>>,
}

impl std::fmt::Debug for Grid<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grid").field("kernel", &self.kernel.name).finish_non_exhaustive()
    }
}

impl Grid<'_> {
    /// How equal the values are that two threads of a block store at an instruction, in every run.
    pub fn compare_stores(&self, at: u32, one: usize, other: usize) -> Equality {
        let number = self.kernel.functions.partition_point(|f| f.first <= at).saturating_sub(1);
        let (function, stored) = (&self.kernel.functions[number], &self.stored[number]);
        let evaluate =
            || function.sketch.as_ref().map_or_else(StoredHashes::default, |it| it.evaluate(self.block_dim));
        stored.get_or_init(evaluate).compare(at - function.first, one, other)
    }

    /// The parameters that point to memory which the launch does not write.
    pub fn constant_parameters(kernel: &Kernel, params: &[u8], regions: &[Region]) -> Parameters {
        let Some(written) = kernel.written else { return 0 };
        let region_of = |offset: usize| {
            let address = u64::from_le_bytes(params.get(offset..offset + 8)?.try_into().ok()?);
            let after = regions.partition_point(|r| r.address <= address);
            let region = regions.get(after.checked_sub(1)?)?;
            (address - region.address < region.bytes).then_some(region.address)
        };
        let written: Vec<u64> = by_address::offsets(written).filter_map(region_of).collect();
        let is_constant = |offset: usize| region_of(offset).is_none_or(|region| !written.contains(&region));
        by_address::offsets(u64::MAX)
            .filter(|offset| is_constant(*offset))
            .fold(0, |all, offset| all | 1 << (offset / 8))
    }

    /// Records what a store writes whose value is promised to be the same in all blocks.
    pub fn observe(&self, identity: u64, bytes: &[u8]) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let first = observed.entry(identity).or_insert_with(|| Some(bytes.to_vec()));
        if first.as_ref().is_some_and(|first| first != bytes) {
            *first = None;
        }
    }

    /// Whether no two of these stores have differed so far. A store is recorded before it is checked for races.
    pub fn is_observed_equal(&self, identity: u64) -> bool {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        observed.get(&identity).is_some_and(Option::is_some)
    }

    /// Returns the allocation that contains the address, or else the last one that starts before it.
    pub fn region_of(&self, address: u64) -> Region {
        if let Some(heap) = self.device.heap().filter(|heap| heap.contains(address)) {
            return heap.region_of(address);
        }
        let after = self.regions.partition_point(|r| r.address <= address);
        after.checked_sub(1).map_or(Region::NONE, |i| self.regions[i])
    }

    /// Registers per thread at the start: the most that the bounds of the kernel allow, as ptxas 13.4 has it. Without
    /// bounds, the most that a block with a multiprocessor to itself can have.
    pub fn registers_per_thread(&self) -> u32 {
        let kernel = self.kernel;
        // The launch has the shape of `.reqntid`. `.maxntid` can be any number.
        let threads = kernel.max_threads.unwrap_or(self.block_threads).clamp(1, 1024);
        let per_block = REGISTERS / kernel.min_blocks.unwrap_or(1);
        let most = kernel.max_registers.unwrap_or(256).min(256);
        ((per_block / threads.next_multiple_of(128)) & !7).min(most)
    }

    /// Whether the kernel has a register cap. Without one, the assembler ignores `setmaxnreg` (C7508).
    pub fn has_register_cap(&self) -> bool {
        let kernel = self.kernel;
        let threads = kernel.max_threads.is_some() || kernel.required_threads.is_some();
        kernel.max_registers.is_some() || threads && kernel.min_blocks.is_some()
    }

    pub fn blocks_per_cluster(&self) -> u64 {
        self.cluster.iter().map(|d| u64::from(*d)).product()
    }

    /// Whether a cluster runs.
    pub fn is_sampled(&self, cluster: u64) -> bool {
        is_in_sample(cluster, self.sample_step, self.sample_seed)
    }

    /// The last shared variable that starts at an address or before it: its address, bytes and name.
    pub fn shared_variable(&self, address: u64) -> Option<(u64, u32, &String)> {
        let start = |at: u32| u64::from(self.shared_offset) + u64::from(at);
        let mut variables = self.kernel.shared_variables.iter().rev();
        variables.find(|(at, ..)| start(*at) <= address).map(|(at, bytes, name)| (start(*at), *bytes, name))
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
    pub fn blocks_of(&self, cluster: u64) -> Vec<u64> {
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
    pub fn placement(&self, position: u64) -> (u32, u32) {
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

    /// Records that a tensor map in global memory changes.
    pub fn change_map(&self, address: u64) {
        if let Ok(mut maps) = self.changed_maps.lock() {
            *maps.entry(address).or_default() += 1;
        }
    }

    /// How often the launch has changed a tensor map.
    pub fn map_changes(&self, address: u64) -> u64 {
        self.changed_maps.lock().map_or(0, |maps| maps.get(&address).copied().unwrap_or(0))
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped_outside(&self) -> bool {
        self.outside_stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
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

/// Whether a cluster belongs to a sample that has one in every `step` clusters. The place within a step differs from step
/// to step. Otherwise all clusters of the sample could be the first of their row, with the same amount of work.
fn is_in_sample(cluster: u64, step: u64, seed: u64) -> bool {
    let step = step.max(1);
    cluster % step == mix(seed, cluster / step) % step
}

/// Clocks and nanoseconds that pass with each warp instruction of a worker.
pub const CLOCKS: u64 = 4;
pub const NANOSECONDS: u64 = 2;

/// Number of registers of a multiprocessor.
pub const REGISTERS: u32 = 65536;

/// Nanoseconds between two launches.
pub const BETWEEN_LAUNCHES: u64 = 5_000;

pub fn allocation_of(grid: &Grid<'_>, space: Space, address: u64) -> Option<String> {
    match space {
        Space::Global | Space::Generic => grid
            .device
            .label_at(address)
            .map(|(l, _)| l.to_string())
            .or_else(|| grid.device.describe(address).0),
        Space::Shared => grid.shared_variable(address).map(|(_, _, name)| name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_selects_the_clusters_of_a_sample() {
        let sample = |seed: u64| (0..1024).filter(|at| is_in_sample(*at, 32, seed)).collect::<Vec<u64>>();
        assert_eq!(sample(7), sample(7));
        assert_ne!(sample(7), sample(8));
        // One in each step, and no place within the steps is preferred.
        for (step, cluster) in sample(7).into_iter().enumerate() {
            assert_eq!(cluster / 32, step as u64);
        }
        let places: std::collections::BTreeSet<u64> = sample(7).into_iter().map(|at| at % 32).collect();
        assert!(places.len() > 8, "{places:?}");
        assert_eq!((0..9).filter(|at| is_in_sample(*at, 1, 7)).count(), 9);
    }
}
