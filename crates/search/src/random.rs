//! Random numbers that are a function of the seed and of how far the search has come, and of nothing else.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The numbers for step `step` of the run `seed`. A strategy that takes its numbers by step needs no generator that
    /// lives as long as the run, so a resumed run goes on with the numbers it would have had.
    pub fn at(seed: u64, step: usize) -> Self {
        let mut mixed = Random(seed ^ 0x5851_f42d_4c95_7f2d);
        let high = mixed.bits();
        Random(high ^ Random(step as u64).bits())
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In [0, 1), with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// In `0..limit`; 0 where there is nothing to choose from.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_comes_up_about_as_often() {
        let mut counts = [0; 7];
        let mut random = Random::new(1);
        for _ in 0..70_000 {
            counts[random.below(7)] += 1;
        }
        // Six standard deviations of a binomial with 70,000 draws.
        assert!(counts.iter().all(|&count: &i32| (count - 10_000).abs() < 560), "{counts:?}");
    }

    #[test]
    fn steps_and_seeds_give_different_numbers() {
        let first = |seed, step| Random::at(seed, step).bits();
        let mut seen: Vec<u64> =
            (0..50).flat_map(|seed| (0..50).map(move |step| first(seed, step))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 2500);
        assert_eq!(first(3, 4), first(3, 4));
    }
}
