//! What a kernel can notice of its surroundings and that must not change its answer: where its memory lies, in which
//! order its blocks start and on which multiprocessors, what the clocks say.
//!
//! The default is one fixed world with values as an H200 shows them (driver 580, CUDA 13). Another seed is another world
//! that is as plausible, so a kernel that gives a right answer in one world only can be told from one that is right.

use random::Random;
use serde::{Deserialize, Serialize};

/// The surroundings of a kernel. The first part is used by [`crate::Device`] (addresses), the second by each launch
/// ([`crate::Options::world`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    /// Where device allocations start: a multiple of 2 MiB.
    pub memory: u64,
    /// Seed of the gaps between allocations and of their order. 0: gaps are equal, small buffers lie in the order they
    /// were allocated in.
    pub gaps: u64,
    /// Generic address of shared memory: a multiple of 4 GiB.
    pub shared_window: u64,
    /// Generic address of local memory, relative to its window of 4 GiB.
    pub local_offset: u32,
    /// Seed of what memory holds that nothing wrote. 0: zeros.
    pub garbage: u64,

    /// Seed of the order in which blocks start. 0: by their number. Other seeds permute the blocks that can be resident
    /// together and no others, so that a block may wait for one with a lower number in every world.
    pub block_order: u64,
    /// Seed of which multiprocessor runs which block.
    pub sm_order: u64,
    /// `%clock64` of the first launch. Multiprocessors differ from it by a few milliseconds.
    pub clock: u64,
    /// `%globaltimer` of the first launch: nanoseconds since 1970.
    pub nanoseconds: u64,
    /// What `%globaltimer` grows by: 32 ns or about 1 us.
    pub timer_step: u32,
    /// `%gridid` of the first launch.
    pub grid_id: u64,
    /// Seed of the variation of clock differences and of warp slots. 0: none.
    pub jitter: u64,
}

/// CUDA gives large allocations addresses that are multiples of this.
pub(crate) const PAGE: u64 = 2 << 20;

impl Default for World {
    fn default() -> Self {
        World {
            memory: 0x7fe7_69e0_0000,
            gaps: 0,
            shared_window: 0x7fe8_0000_0000,
            local_offset: 0x79ff_f000,
            garbage: 0,
            block_order: 0,
            sm_order: 0x0048_3230_3000,
            clock: 37_896_174_827,
            nanoseconds: 1_794_795_732_004_794_752,
            timer_step: 32,
            grid_id: 1,
            jitter: 0,
        }
    }
}

impl World {
    /// The world of a seed. Different seeds give different worlds; the same seed gives the same one everywhere.
    pub fn from_seed(seed: u64) -> World {
        let mut random = Random::new(seed);
        // Not 0, which stands for "none" in some of the fields.
        let mut seed = || random.bits() | 1;
        let below = |bits: u64, bound: u64| ((u128::from(bits) * u128::from(bound)) >> 64) as u64;
        let window = (0x7f00 + below(seed(), 0xf0)) << 32;
        let local = 0x1000_0000 + (below(seed(), 0x60) << 24) + 0x00ff_f000;
        World {
            // CUDA maps the window of shared memory a few GiB above the first allocation.
            memory: window - (1 << 30) - below(seed(), 1024) * PAGE,
            gaps: seed(),
            shared_window: window,
            local_offset: local as u32,
            garbage: seed(),
            block_order: seed(),
            sm_order: seed(),
            // A second to a day at 2 GHz.
            clock: 2_000_000_000 + below(seed(), 170_000_000_000_000),
            // Somewhere in the years 2025 to 2065.
            nanoseconds: (1_735_689_600_000_000_000 + below(seed(), 1_262_000_000_000_000_000)) / 1024 * 1024,
            timer_step: if seed() >> 62 == 0 { 1024 } else { 32 },
            // Up to what a month of launches comes to, as often small as large.
            grid_id: 1 + (below(seed(), 1 << 40) >> below(seed(), 40)),
            jitter: seed(),
        }
    }
}

/// A number that depends on all bits of both.
pub(crate) fn mix(seed: u64, number: u64) -> u64 {
    Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits()
}

/// The numbers below `count` in an order that depends on the seed.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut order: Vec<u32> = (0..count).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.integer(0, last as i64 + 1) as usize);
    }
    order
}

/// The order in which the blocks of a grid start.
#[derive(Debug, Default)]
pub(crate) struct BlockOrder {
    blocks: u64,
    /// Blocks are permuted within consecutive groups of this size; 0: not at all.
    group: u64,
    whole: Vec<u32>,
    last: Vec<u32>,
}

impl BlockOrder {
    /// Most blocks of a group, whatever the limits say: more are resident on no GPU.
    const MOST: u64 = 1 << 14;

    /// `resident` is how many blocks can be resident at a time.
    pub fn new(seed: u64, blocks: u64, resident: u64) -> BlockOrder {
        let group = resident.clamp(1, BlockOrder::MOST);
        if seed == 0 || blocks < 2 || group < 2 {
            return BlockOrder { blocks, ..BlockOrder::default() };
        }
        let whole = if blocks >= group { shuffled(group as u32, seed) } else { Vec::new() };
        let last = shuffled((blocks % group) as u32, seed ^ 1);
        BlockOrder { blocks, group, whole, last }
    }

    /// The number of the block that starts as the `position`-th.
    pub fn block(&self, position: u64) -> u64 {
        if self.group == 0 || position >= self.blocks {
            return position;
        }
        let first = position / self.group * self.group;
        let order = if self.blocks - first < self.group { &self.last } else { &self.whole };
        first + u64::from(order[(position - first) as usize])
    }
}

/// Multiprocessors in the order they get blocks in. The two of one pair come one after the other, as on hardware.
pub(crate) fn sm_order(seed: u64, sms: u32) -> Vec<u32> {
    let pairs = shuffled(sms.div_ceil(2), seed);
    pairs.into_iter().flat_map(|pair| [2 * pair, 2 * pair + 1]).filter(|sm| *sm < sms).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_look_like_a_gpu_and_differ() {
        let worlds: Vec<World> = (0..200).map(World::from_seed).chain([World::default()]).collect();
        for w in &worlds {
            assert_eq!(w.memory % PAGE, 0);
            assert_eq!(w.shared_window % (1 << 32), 0);
            assert!((0x7e00_0000_0000..0x8000_0000_0000).contains(&w.memory), "{w:x?}");
            assert!(w.memory < w.shared_window && w.shared_window < 0x7ff1_0000_0000, "{w:x?}");
            // In the years 2025 to 2065, and a multiple of the step.
            assert!((1_735_689_600_000_000_000..3_000_000_000_000_000_000).contains(&w.nanoseconds));
            assert_eq!(w.nanoseconds % u64::from(w.timer_step), 0);
            assert!(w.clock > 1 << 30);
        }
        let mut bases: Vec<u64> = worlds.iter().map(|w| w.memory).collect();
        bases.sort_unstable();
        bases.dedup();
        assert!(bases.len() > 190);
        assert_eq!(World::from_seed(7), World::from_seed(7));
    }

    #[test]
    fn blocks_are_permuted_only_among_those_that_can_be_resident_together() {
        for (blocks, resident) in [(1, 4), (10, 4), (4, 4), (1000, 132), (3, 1000)] {
            let order = BlockOrder::new(5, blocks, resident);
            let all: Vec<u64> = (0..blocks).map(|p| order.block(p)).collect();
            for (position, block) in all.iter().enumerate() {
                assert_eq!(position as u64 / resident, block / resident);
            }
            let mut sorted = all.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..blocks).collect::<Vec<_>>());
            assert!(blocks < 10 || all != sorted);
        }
        let order = BlockOrder::new(0, 1 << 40, 132);
        assert_eq!(order.block((1 << 40) - 1), (1 << 40) - 1);
    }

    #[test]
    fn every_multiprocessor_is_used_once() {
        for sms in [1, 2, 58, 131, 132] {
            let mut order = sm_order(9, sms);
            order.sort_unstable();
            assert_eq!(order, (0..sms).collect::<Vec<_>>());
        }
    }
}
