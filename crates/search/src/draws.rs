//! Random numbers that depend only on the seed and on the step of the search.

/// A generator of random numbers for one step of a search.
#[derive(Clone, Debug)]
pub struct Random(random::Random);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Random(random::Random::new(seed))
    }

    /// The numbers for step `step` of the run `seed`. A strategy that draws its numbers by step needs no generator
    /// that lives as long as the run, so a resumed run continues with the same numbers.
    pub fn at(seed: u64, step: usize) -> Self {
        let run = Random::new(seed ^ 0x5851_f42d_4c95_7f2d).bits();
        Random::new(run ^ Random::new(step as u64).bits())
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// Uniform in [0, 1), with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// Uniform in `0..limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// One of the items; `None` if there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_drawn_equally_often() {
        let mut counts = [0; 7];
        let mut random = Random::new(1);
        for _ in 0..70_000 {
            counts[random.below(7)] += 1;
        }
        // Six standard deviations of a binomial distribution with 70,000 draws.
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
