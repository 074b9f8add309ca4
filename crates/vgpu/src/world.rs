//! The surroundings that a kernel can observe but that must not change its result: the addresses of its memory, the
//! order and the multiprocessors in which its blocks start, and the clocks.
//!
//! The default is one fixed world with the values that an H200 shows (driver 580, CUDA 13). Every other seed gives
//! another plausible world. A kernel that is right in one world only can therefore be distinguished from a kernel that
//! is right in all.

use random::Random;
use serde::{Deserialize, Serialize};

/// The surroundings of a kernel. [`crate::Device`] uses the first part (addresses), and each launch uses the second
/// part ([`crate::Options::world`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    /// Address where device allocations start: a multiple of 2 MiB.
    pub memory: u64,
    /// Seed of the gaps between allocations and of their order. 0: gaps are equal, and small buffers lie in the order
    /// of their allocation.
    pub gaps: u64,
    /// Generic address of shared memory: a multiple of 4 GiB.
    pub shared_window: u64,
    /// Generic address of local memory, relative to its 4 GiB window.
    pub local_offset: u32,
    /// Seed of the contents of memory that nothing wrote. 0: zeros.
    pub garbage: u64,
    /// Address of the first byte of a block's shared memory, below which the system has its own: a multiple of 1024.
    pub shared_offset: u32,

    /// Seed of the order in which blocks start. 0: by block number. Other seeds permute only blocks that can be
    /// resident together, so a block may wait for a block with a lower number in every world.
    pub block_order: u64,
    /// Seed of the order in which the warps of a block take their turns. 0, and under the checkers: by warp number.
    pub warp_order: u64,
    /// Seed of the assignment of blocks to multiprocessors.
    pub sm_order: u64,
    /// `%clock64` of the first launch. The clocks of multiprocessors differ from it by a few milliseconds.
    pub clock: u64,
    /// `%globaltimer` of the first launch: nanoseconds since 1970.
    pub nanoseconds: u64,
    /// Increment of `%globaltimer`: 32 ns or about 1 us.
    pub timer_step: u32,
    /// `%gridid` of the first launch.
    pub grid_id: u64,
    /// Seed of the variation of clock differences and of warp slots. 0: no variation.
    pub jitter: u64,
}

/// CUDA places large allocations at multiples of this size.
pub(crate) const PAGE: u64 = 2 << 20;

impl Default for World {
    fn default() -> Self {
        World {
            memory: 0x7fe7_69e0_0000,
            gaps: 0,
            shared_window: 0x7fe8_0000_0000,
            local_offset: 0x79ff_f000,
            garbage: 0,
            shared_offset: 0,
            block_order: 0,
            warp_order: 0,
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
    /// Returns the world of a seed. Different seeds give different worlds; one seed gives the same world on every
    /// machine.
    pub fn from_seed(seed: u64) -> World {
        let mut random = Random::new(seed);
        // A seed must not be 0, because 0 means "none" in some of the fields.
        let mut seed = || random.bits() | 1;
        let below = |bits: u64, bound: u64| ((u128::from(bits) * u128::from(bound)) >> 64) as u64;
        let window = (0x7f00 + below(seed(), 0xf0)) << 32;
        let local = 0x1000_0000 + (below(seed(), 0x60) << 24) + 0x00ff_f000;
        World {
            // CUDA maps the shared memory window a few GiB above the first allocation.
            memory: window - (1 << 30) - below(seed(), 1024) * PAGE,
            gaps: seed(),
            shared_window: window,
            local_offset: local as u32,
            garbage: seed(),
            block_order: seed(),
            sm_order: seed(),
            // From one second to one day at 2 GHz.
            clock: 2_000_000_000 + below(seed(), 170_000_000_000_000),
            // A time in the years 2025 to 2065.
            nanoseconds: (1_735_689_600_000_000_000 + below(seed(), 1_262_000_000_000_000_000)) / 1024 * 1024,
            timer_step: if seed() >> 62 == 0 { 1024 } else { 32 },
            // At most the number of launches in a month; small and large values are equally likely.
            grid_id: 1 + (below(seed(), 1 << 40) >> below(seed(), 40)),
            jitter: seed(),
            // A Hopper GPU reserves 1024 bytes.
            shared_offset: 1024 * (1 + below(seed(), 4) as u32),
            warp_order: seed(),
        }
    }
}

/// Returns a number that depends on all bits of both arguments.
pub(crate) fn mix(seed: u64, number: u64) -> u64 {
    Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits()
}

/// Returns the numbers below `count` in an order that depends on the seed.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut order: Vec<u32> = (0..count).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.integer(0, last as i64 + 1) as usize);
    }
    order
}

/// The warps of a block in the order in which they take their turns.
pub(crate) fn warp_order(seed: u64, block: u64, warps: u32) -> Vec<u32> {
    if seed == 0 { (0..warps).collect() } else { shuffled(warps, mix(seed, block)) }
}

/// The order in which the blocks of a grid start.
#[derive(Debug, Default)]
pub(crate) struct BlockOrder {
    blocks: u64,
    /// Blocks are permuted within consecutive groups of this size. 0: not permuted.
    group: u64,
    whole: Vec<u32>,
    last: Vec<u32>,
}

impl BlockOrder {
    /// Upper bound of the group size, whatever the limits say: no GPU has more resident blocks.
    const MOST: u64 = 1 << 14;

    /// Builds the order of `blocks` blocks. `resident` is the number of blocks that can be resident at a time.
    pub fn new(seed: u64, blocks: u64, resident: u64) -> BlockOrder {
        let group = resident.clamp(1, BlockOrder::MOST);
        if seed == 0 || blocks < 2 || group < 2 {
            return BlockOrder { blocks, ..BlockOrder::default() };
        }
        let whole = if blocks >= group { shuffled(group as u32, seed) } else { Vec::new() };
        let last = shuffled((blocks % group) as u32, seed ^ 1);
        BlockOrder { blocks, group, whole, last }
    }

    /// Returns the number of the block that starts at `position` in the order.
    pub fn block(&self, position: u64) -> u64 {
        if self.group == 0 || position >= self.blocks {
            return position;
        }
        let first = position / self.group * self.group;
        let order = if self.blocks - first < self.group { &self.last } else { &self.whole };
        first + u64::from(order[(position - first) as usize])
    }
}

/// Multiprocessors in the order in which they receive blocks. The two multiprocessors of a pair are adjacent, as on
/// hardware.
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
            assert!(w.shared_offset.is_multiple_of(1024) && w.shared_offset <= 4096);
            assert!((0x7e00_0000_0000..0x8000_0000_0000).contains(&w.memory), "{w:x?}");
            assert!(w.memory < w.shared_window && w.shared_window < 0x7ff1_0000_0000, "{w:x?}");
            // The time is in the years 2025 to 2065 and a multiple of the step.
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
