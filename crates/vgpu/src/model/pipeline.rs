//! The time of a launch whose blocks were traced: replays the traced blocks and distributes all blocks over the GPU.

use chips::Chip;

use super::replay::{Rates, Replay, Replayer};
use super::waves::end_of_last;
use super::{Shape, tensor_rate};
use crate::count::{Product, Timeline};

/// Clocks of a product on hardware for each clock at the peak rate: 66 for 64 (`wgmma.m64n128k16` on an H200).
const PRODUCT_OVERHEAD: f64 = 66.0 / 64.0;

/// Clocks from the issue of a bulk copy until a thread that waits for its first bytes goes on: `cp.async.bulk` of 128
/// bytes in L2 takes 296 clocks on an H200.
const COPY_LATENCY: f64 = 296.0;

/// Clocks from the start of a block to its first useful instruction: parameters, descriptors and instructions are not in
/// the caches of the SM. In `mma`, whose first instructions start copies, it took 730 clocks on an H200 until the first
/// copy was issued.
const START_CLOCKS: u64 = 730;

/// What the replay of a launch says.
pub struct Pipeline {
    /// Clocks of the launch.
    pub clocks: f64,
    /// What the warps of the traced blocks spend their clocks on.
    pub spent: Replay,
}

/// Replays the traced blocks of a launch. `l2_per_clock` is the number of bytes that L2 delivers to an SM per clock.
pub fn replayed(timeline: &Timeline, shape: Shape, chip: &Chip, l2_per_clock: f64) -> Pipeline {
    let parts = chip.sm.schedulers.max(1);
    let replayer = Replayer::new(timeline, rates(chip, l2_per_clock), parts as usize, |product| {
        product_clocks(product, chip) * f64::from(parts)
    });
    let sms = u64::from(chip.sms.max(1));
    let resident = u64::from(shape.blocks_per_sm.max(1)).min(shape.blocks.div_ceil(sms));
    let mut spent = Replay::default();
    let durations: Vec<(u64, u64)> = (0..timeline.blocks.len())
        .map(|number| {
            let replay = replayer.replay(number, resident as usize);
            spent.awaiting_products += replay.awaiting_products;
            spent.awaiting_others += replay.awaiting_others;
            spent.running += replay.running;
            (timeline.blocks[number].block, START_CLOCKS + replay.clocks as u64)
        })
        .collect();
    // A block that was not traced takes as long as the last traced one before it: blocks of similar index have similar
    // work.
    let duration = |block: u64| {
        let after = durations.partition_point(|(traced, _)| *traced <= block);
        durations[after.saturating_sub(1)].1
    };
    let clocks = end_of_last(shape.blocks, sms * resident, duration) as f64;
    Pipeline { clocks, spent }
}

/// Clocks of a product of one warp if it had all tensor cores of the SM.
fn product_clocks(product: &Product, chip: &Chip) -> f64 {
    product.flops as f64 / tensor_rate(chip, *product) * PRODUCT_OVERHEAD
}

fn rates(chip: &Chip, l2_per_clock: f64) -> Rates {
    let sm = &chip.sm;
    let parts = f64::from(sm.schedulers.max(1));
    let clocks = |lanes: u32| 32.0 * parts / f64::from(lanes.max(1));
    let fp16 = f64::from(sm.tensor.fp16.unwrap_or(1)) * sm.tensor.mma_sync_fraction_estimate;
    Rates {
        integer: clocks(sm.int32_lanes),
        fp32: clocks(sm.fp32_lanes),
        fp16: clocks(sm.fp16_lanes),
        fp64: clocks(sm.fp64_lanes),
        special: clocks(sm.mufu_lanes),
        tensor: parts / fp16,
        memory: 32.0 / f64::from(sm.lsu_lanes.max(1)),
        l2_bytes: l2_per_clock,
        copy_latency: COPY_LATENCY,
    }
}
