//! Masks of lanes.

/// Iterates over the lanes of a mask, lowest first.
pub fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros();
            mask &= mask - 1;
            lane as usize
        })
    })
}

/// Returns the lanes of a mask for which the test holds.
pub fn lanes_where(mask: u32, test: impl Fn(usize) -> bool) -> u32 {
    lanes(mask).fold(0, |found, lane| found | u32::from(test(lane)) << lane)
}
