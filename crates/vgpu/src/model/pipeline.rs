//! The time of a launch whose blocks were traced: replays each kind of blocks and distributes all blocks over the GPU.

use chips::Chip;

use super::replay::{Rates, Replay, Replayer};
use super::waves::end_of_last;
use super::{Shape, tensor_rate};
use crate::count::{BlockLoad, Product, Timeline};

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
    /// What the warps of all blocks spend their clocks on.
    pub spent: Replay,
}

/// Replays the kinds of blocks of a launch. `l2_per_clock` is the number of bytes that L2 delivers to an SM per clock.
/// `None` if no kind has steps.
pub fn replayed(timeline: &Timeline, shape: Shape, chip: &Chip, l2_per_clock: f64) -> Option<Pipeline> {
    let parts = chip.sm.schedulers.max(1);
    let replayer = Replayer::new(timeline, rates(chip, l2_per_clock), parts as usize, |product| {
        product_clocks(product, chip) * f64::from(parts)
    });
    let sms = u64::from(chip.sms.max(1));
    let resident = u64::from(shape.blocks_per_sm.max(1)).min(shape.blocks.div_ceil(sms));
    let mut counts = vec![0u64; timeline.kinds.len()];
    for (_, kind) in &timeline.blocks {
        counts[*kind as usize] += 1;
    }
    // The clocks of the work of a block, as if it did one thing after another.
    let weight = |load: &BlockLoad| {
        let flops_per_clock = f64::from(chip.sm.tensor.fp16.unwrap_or(1).max(1));
        1.0 + load.chain as f64
            + load.instructions as f64 / f64::from(parts)
            + load.product_flops as f64 / flops_per_clock
            + load.copied_bytes as f64 / l2_per_clock
    };
    let mut spent = Replay::default();
    let replays: Vec<(f64, f64)> = timeline
        .kinds
        .iter()
        .zip(&counts)
        .filter_map(|(kind, count)| {
            let replay = replayer.replay(kind.warps.as_deref()?, resident as usize);
            let blocks = *count as f64;
            spent.awaiting_products += blocks * replay.awaiting_products;
            spent.awaiting_others += blocks * replay.awaiting_others;
            spent.running += blocks * replay.running;
            Some((weight(&kind.load), replay.clocks))
        })
        .collect();
    let mut replayed = replays.iter();
    let durations: Vec<u64> = timeline
        .kinds
        .iter()
        .map(|kind| {
            let clocks = if kind.warps.is_some() {
                replayed.next().map_or(0.0, |(_, clocks)| *clocks)
            } else {
                // A block without steps takes as long as a block with nearly as much work, in proportion to the work.
                let weight = weight(&kind.load);
                let ratio = |other: f64| (weight / other).max(other / weight);
                let nearest = replays.iter().min_by(|a, b| ratio(a.0).total_cmp(&ratio(b.0)));
                nearest.map_or(0.0, |(other, clocks)| clocks * weight / other)
            };
            START_CLOCKS + clocks as u64
        })
        .collect();
    if replays.is_empty() {
        return None;
    }
    // Blocks that did not run take as long as the last one before them that did: blocks of similar index have similar
    // work. If the counters are those of a part of the problem, the blocks of the part repeat.
    let duration = |block: u64| {
        let block = block % timeline.grid_blocks.max(1);
        let after = timeline.blocks.partition_point(|(traced, _)| *traced <= block);
        durations[timeline.blocks[after.saturating_sub(1)].1 as usize]
    };
    let clocks = end_of_last(shape.blocks, sms * resident, duration) as f64;
    Some(Pipeline { clocks, spent })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::{KindTimeline, Step};

    /// The clocks of a launch of `blocks` blocks on an H200, one to an SM, if those that ran are of these kinds.
    fn clocks(kinds: &[(u64, bool)], ran: &[u32], blocks: u64) -> f64 {
        let kind = |&(chain, has_steps): &(u64, bool)| KindTimeline {
            load: BlockLoad { chain, ..BlockLoad::default() },
            warps: has_steps.then(|| vec![vec![Step::Sleep(chain as u32)]]),
        };
        let timeline = Timeline {
            kinds: kinds.iter().map(kind).collect(),
            blocks: (0..).zip(ran.iter().copied()).collect(),
            grid_blocks: ran.len() as u64,
            ..Timeline::default()
        };
        let shape = Shape { blocks, threads_per_block: 128, blocks_per_sm: 1, shared_per_block: 0 };
        let chip = Chip::by_name("h200").expect("in the table");
        replayed(&timeline, shape, chip, 64.0).map_or(0.0, |pipeline| pipeline.clocks)
    }

    #[test]
    fn one_long_block_among_many_short_ones_counts() {
        let mut ran = vec![0; 132];
        ran[77] = 1;
        let long = clocks(&[(10, true), (100_000, true)], &ran, 132);
        assert!((100_000.0..102_000.0).contains(&long), "{long}");
    }

    #[test]
    fn a_block_without_steps_takes_as_long_as_its_work() {
        let known = clocks(&[(1000, true), (100_000, true)], &[0, 1, 0, 1], 4);
        let unknown = clocks(&[(1000, true), (100_000, false)], &[0, 1, 0, 1], 4);
        assert!((unknown / known - 1.0).abs() < 0.02, "{known} {unknown}");
        assert_eq!(clocks(&[(1000, false)], &[0], 1), 0.0, "nothing to replay");
    }

    #[test]
    fn the_blocks_of_a_part_of_the_problem_repeat() {
        let mut ran = vec![1; 132];
        ran[131] = 0;
        let once = clocks(&[(10, true), (100_000, true)], &ran, 132);
        // The short block is the last one of the part, but does not stand for the rest.
        let often = clocks(&[(10, true), (100_000, true)], &ran, 132 * 10);
        assert!(often > 9.5 * once, "{once} {often}");
    }
}
