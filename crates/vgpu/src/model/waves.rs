//! Distributes the blocks of a grid over the multiprocessors: a block starts where room becomes free first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The time when the last of `blocks` blocks ends, on `places` places that hold one block each. `clocks` is the duration
/// of a block by its index.
pub fn end_of_last(blocks: u64, places: u64, clocks: impl Fn(u64) -> u64) -> u64 {
    let places = places.clamp(1, blocks.max(1));
    let mut free: BinaryHeap<Reverse<u64>> = (0..places).map(|_| Reverse(0)).collect();
    let mut last = 0;
    for block in 0..blocks {
        let Reverse(start) = free.pop().unwrap_or_default();
        let end = start + clocks(block);
        last = last.max(end);
        free.push(Reverse(end));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::end_of_last;

    #[test]
    fn a_part_of_a_wave_takes_as_long_as_a_whole_one() {
        assert_eq!(end_of_last(132, 132, |_| 10), 10);
        assert_eq!(end_of_last(133, 132, |_| 10), 20);
        assert_eq!(end_of_last(264, 132, |_| 10), 20);
    }

    #[test]
    fn short_blocks_fill_the_gaps_that_long_ones_leave() {
        // Long blocks first: 30 and 10 + 10 + 10 in two places. Long block last: 10 + 30.
        assert_eq!(end_of_last(4, 2, |block| if block == 0 { 30 } else { 10 }), 30);
        assert_eq!(end_of_last(4, 2, |block| if block == 3 { 30 } else { 10 }), 40);
    }
}
