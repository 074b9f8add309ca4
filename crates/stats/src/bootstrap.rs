//! Bootstrap intervals: the range of medians that other samples of the same kind could have given.

use random::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Samples, percentile};

/// Number of resamples of an interval.
pub const RESAMPLES: usize = 10_000;

/// A 95% interval.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the value is in the interval.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether the intervals overlap. Intervals that touch overlap.
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Half of the width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The interval from 2.5% to 97.5% of the resampled values.
    pub(super) fn of_resamples(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        Interval { low: percentile(&values, 2.5), high: percentile(&values, 97.5) }
    }
}

/// The 95% percentile-bootstrap interval of the median, from [`RESAMPLES`] resamples.
///
/// No resample is drawn explicitly. Drawing n of n values with replacement means drawing n uniform numbers u and
/// taking the value at rank `floor(n u)`. Ranks grow with u, so the resample's median is at the rank of the middle
/// one of n uniform numbers. This number has a beta distribution. For even n its successor, given it, is the smallest
/// of the remaining uniform numbers above it. One or two random numbers therefore replace n, with the same
/// distribution.
pub fn median_interval(samples: &Samples, seed: u64) -> Interval {
    median_interval_by(RESAMPLES, samples, seed)
}

pub(super) fn median_interval_by(resamples: usize, samples: &Samples, seed: u64) -> Interval {
    Interval::of_resamples(median_draws(resamples, samples, seed))
}

/// The medians of the resamples, in the order drawn.
pub(super) fn median_draws(resamples: usize, samples: &Samples, seed: u64) -> Vec<f64> {
    let sorted = samples.sorted();
    let count = sorted.len();
    let middle = count.div_ceil(2); // the lower middle, counted from 1
    let mut random = Random::new(seed);
    let at = |u: f64| sorted[((u * count as f64) as usize).min(count - 1)];
    let medians = (0..resamples).map(|_| {
        let u = beta(&mut random, middle, count + 1 - middle);
        if count % 2 == 1 {
            at(u)
        } else {
            // The smallest of k uniform numbers on (u, 1) is above x with probability ((1 - x) / (1 - u))^k.
            let left = (count - middle) as f64;
            let next = 1.0 - (1.0 - u) * (1.0 - random.uniform()).powf(1.0 / left);
            f64::midpoint(at(u), at(next))
        }
    });
    medians.collect()
}

/// A beta-distributed number with integer parameters of at least 1.
fn beta(random: &mut Random, a: usize, b: usize) -> f64 {
    let x = gamma(random, a as f64);
    let y = gamma(random, b as f64);
    x / (x + y)
}

/// A gamma-distributed number with a shape of at least 1, by the method of Marsaglia and Tsang ("A simple method for
/// generating gamma variables", 2000).
fn gamma(random: &mut Random, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = random.normal();
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        // In (0, 1], so that its logarithm is finite.
        let u = 1.0 - random.uniform();
        // The squeeze comes first: it decides nearly every draw without a logarithm.
        if u < 1.0 - 0.0331 * x.powi(4) || u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(count: usize) -> Samples {
        let mut random = Random::new(3);
        Samples::new((0..count).map(|_| (0.1 * random.normal()).exp()).collect()).unwrap()
    }

    /// The textbook bootstrap, which draws every resample.
    fn by_drawing(samples: &Samples, seed: u64) -> Interval {
        let mut random = Random::new(seed);
        let count = samples.count();
        let draw = |random: &mut Random| samples.taken()[random.integer(0, count as i64) as usize];
        let medians = (0..RESAMPLES).map(|_| {
            let mut drawn: Vec<f64> = (0..count).map(|_| draw(&mut random)).collect();
            drawn.sort_unstable_by(f64::total_cmp);
            percentile(&drawn, 50.0)
        });
        Interval::of_resamples(medians.collect())
    }

    /// The exact bound for odd n: a resampled median is at most a rank if at least half of n draws are among the k
    /// smallest, which is a binomial tail.
    fn exact_bound(samples: &Samples, share: f64) -> f64 {
        let n = samples.count();
        let tail = |k: usize| -> f64 {
            let p = k as f64 / n as f64;
            let mut term = (1.0 - p).powi(n as i32);
            let mut below = 0.0;
            for successes in 0..n.div_ceil(2) {
                below += term;
                term *= (n - successes) as f64 / (successes + 1) as f64 * p / (1.0 - p);
            }
            1.0 - below
        };
        let rank = (1..n).find(|&k| tail(k) >= share).unwrap_or(n);
        samples.sorted()[rank - 1]
    }

    #[test]
    fn the_interval_agrees_with_the_closed_form() {
        for count in [11, 51, 201] {
            let samples = samples(count);
            let found = median_interval(&samples, 7);
            let exact = Interval { low: exact_bound(&samples, 0.025), high: exact_bound(&samples, 0.975) };
            let place = |x: f64| samples.sorted().partition_point(|&y| y < x);
            // 10,000 resamples determine a bound within one rank.
            assert!(place(found.low).abs_diff(place(exact.low)) <= 1, "{count}: {found:?} {exact:?}");
            assert!(place(found.high).abs_diff(place(exact.high)) <= 1, "{count}: {found:?} {exact:?}");
        }
    }

    #[test]
    fn the_interval_agrees_with_the_textbook_bootstrap() {
        for count in [2, 3, 10, 40, 101] {
            let samples = samples(count);
            let (found, drawn) = (median_interval(&samples, 7), by_drawing(&samples, 8));
            let near = |a: f64, b: f64| assert!((a - b).abs() <= 0.01, "{count}: {found:?} {drawn:?}");
            near(found.low, drawn.low);
            near(found.high, drawn.high);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let samples = samples(64);
        assert_eq!(median_interval(&samples, 5), median_interval(&samples, 5));
        assert!((6..40).any(|seed| median_interval(&samples, 5) != median_interval(&samples, seed)));
    }

    #[test]
    fn equal_samples_give_an_interval_of_width_zero() {
        let samples = Samples::new(vec![4.0; 30]).unwrap();
        assert_eq!(median_interval(&samples, 1), Interval { low: 4.0, high: 4.0 });
    }

    #[test]
    fn intervals_that_touch_overlap() {
        let interval = |low, high| Interval { low, high };
        assert!(interval(1.0, 2.0).overlaps(&interval(2.0, 3.0)));
        assert!(interval(2.0, 3.0).overlaps(&interval(1.0, 2.0)));
        assert!(interval(0.0, 9.0).overlaps(&interval(1.0, 2.0)));
        assert!(!interval(1.0, 2.0).overlaps(&interval(2.1, 3.0)));
        assert_eq!(interval(1.0, 2.0).half_width(), 0.5);
    }
}
