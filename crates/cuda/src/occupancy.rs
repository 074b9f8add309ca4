//! How many blocks of a kernel fit on a multiprocessor.

use chips::Resources;

use crate::errors::{Outcome, Status};
use crate::guest;
use crate::launches::Config;
use crate::{State, usable};

/// Blocks of a kernel per multiprocessor. The registers are an estimate, because nothing assembles the PTX.
fn blocks(state: &State, function: u64, threads: i32, dynamic: u64) -> Result<u32, Status> {
    let function = state.functions.get(function)?;
    if threads <= 0 || dynamic > u64::from(u32::MAX) {
        return Err(Status::INVALID_VALUE);
    }
    let resources = Resources {
        registers_per_thread: function.registers(),
        static_shared_bytes: function.kernel().map_or(0, |kernel| kernel.shared_bytes),
        dynamic_shared_bytes: dynamic as u32,
        threads_per_block: threads as u32,
        barriers: 1,
    };
    // If no block fits, the answer is 0 and not an error.
    Ok(state.chip.occupancy(&resources).map_or(0, |it| it.blocks_per_sm))
}

fn tell(count: *mut i32, function: u64, threads: i32, dynamic: u64) -> Outcome {
    let state = usable()?;
    let blocks = blocks(&state, function, threads, dynamic)?;
    guest::write(count, blocks as i32)
}

/// The block size with the most resident threads.
fn best(grid: *mut i32, block: *mut i32, function: u64, shared_of: u64, dynamic: u64, limit: i32) -> Outcome {
    let limit = if limit <= 0 { 1024 } else { limit.min(1024) };
    let mut found = (0, 0, 0);
    for threads in (1..=limit / 32).rev().map(|warps| warps * 32) {
        let dynamic = if shared_of == 0 {
            dynamic
        } else {
            // SAFETY: the program promises that this is a function of type `size_t (*)(int)`.
            let shared_of: extern "C-unwind" fn(i32) -> u64 =
                unsafe { std::mem::transmute(shared_of as usize) };
            shared_of(threads)
        };
        let state = usable()?;
        let blocks = blocks(&state, function, threads, dynamic)?;
        let resident = blocks * threads as u32;
        if resident > found.0 {
            found = (resident, threads, blocks * state.chip.sms);
        }
    }
    guest::write(grid, found.2 as i32)?;
    guest::write(block, found.1)
}

/// Clusters that can be resident at a time.
fn clusters(config: *const Config, function: u64) -> Result<(u32, u32), Status> {
    let config = guest::read(config)?;
    let (cluster, _) = config.attributes()?;
    let state = usable()?;
    let threads = config.block.iter().try_fold(1u32, |n, it| n.checked_mul(*it)).unwrap_or(0) as i32;
    let blocks = blocks(&state, function, threads, config.shared.into())?;
    let size = cluster.iter().try_fold(1u32, |n, it| n.checked_mul(*it)).filter(|it| *it > 0);
    let size = size.ok_or(Status::INVALID_CLUSTER_SIZE)?;
    Ok((size, blocks * state.chip.sms / size))
}

api! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(count: *mut i32, function: u64, threads: i32, dynamic: u64) {
        tell(count, function, threads, dynamic)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: *mut i32, function: u64, threads: i32, dynamic: u64, _flags: u32,
    ) {
        tell(count, function, threads, dynamic)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut i32, block: *mut i32, function: u64, shared_of: u64, dynamic: u64, limit: i32,
    ) {
        best(grid, block, function, shared_of, dynamic, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut i32, block: *mut i32, function: u64, shared_of: u64, dynamic: u64, limit: i32, _flags: u32,
    ) {
        best(grid, block, function, shared_of, dynamic, limit)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut u64, function: u64, count: i32, threads: i32) {
        let state = usable()?;
        let kernel = state.functions.get(function)?.kernel().ok_or(Status::NOT_SUPPORTED)?;
        if count <= 0 || threads <= 0 {
            return Err(Status::INVALID_VALUE);
        }
        let limits = state.chip.limits();
        let each = limits.shared_per_sm / count as u32;
        let fixed = kernel.shared_bytes + limits.shared_reserved_per_block;
        guest::write(bytes, u64::from(each.saturating_sub(fixed).min(limits.shared_per_block_opt_in)))
    }

    fn cuOccupancyMaxActiveClusters(count: *mut i32, function: u64, config: *const Config) {
        let (_, resident) = clusters(config, function)?;
        guest::write(count, resident as i32)
    }

    fn cuOccupancyMaxPotentialClusterSize(size: *mut i32, function: u64, _config: *const Config) {
        let state = usable()?;
        state.functions.get(function)?;
        guest::write(size, if state.chip.limits().compute_capability.major >= 9 { 8 } else { 1 })
    }
}
