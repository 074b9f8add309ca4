//! The verdict of a comparison.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::between::{squares, t975};
use super::{Paired, RankTest, Speedup, rank_test};

/// A rank test below this p value is significant.
pub const SIGNIFICANT: f64 = 0.05;

/// A difference that does not matter. Two subjects whose difference is certainly not larger are called the same.
pub const NEGLIGIBLE: f64 = 0.01;

/// How far from 1 the speedup of a subject over itself can appear on this device, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NoiseFloor(f64);

impl NoiseFloor {
    /// From an A/A control: one subject measured against itself, in turns like any two. The farther end of its
    /// interval counts. The floor is at least the tick of the clock, given as a fraction of the measured time.
    pub fn from_control(control: &Speedup, tick: f64) -> Self {
        let Speedup { interval, .. } = control;
        let farther = (1.0 - interval.low).abs().max((interval.high - 1.0).abs());
        NoiseFloor(farther.max(tick))
    }

    /// For two compared subjects, from the medians of their processes: the difference that two equal subjects would
    /// show in one run of twenty, given the variation of each (the two-sample t test). Only the processes of these
    /// two count: another subject that varies a lot tells nothing about them. `None` if neither has a second process.
    pub fn between(baseline: &[f64], candidate: &[f64], tick: f64) -> Option<Self> {
        let sides = [baseline, candidate];
        let freedom: usize = sides.iter().map(|medians| medians.len().saturating_sub(1)).sum();
        if freedom == 0 {
            return None;
        }
        let squares: f64 = sides.map(squares).iter().sum();
        let draws: f64 = sides.iter().map(|medians| 1.0 / medians.len() as f64).sum();
        let spread = (squares / freedom as f64 * draws).sqrt();
        Some(NoiseFloor((t975(freedom as f64) * spread).exp_m1().max(tick)))
    }

    /// The floor as a fraction.
    pub fn share(self) -> f64 {
        self.0
    }
}

/// Whether the candidate is faster than the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The candidate is faster than the baseline.
    Faster,
    /// The candidate is slower than the baseline.
    Slower,
    /// Any difference is below the noise floor, or below [`NEGLIGIBLE`].
    Same,
    /// The samples do not allow a conclusion.
    Unclear,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Unclear => "unclear",
        })
    }
}

/// The comparison of a candidate with a baseline: the verdict and everything it is based on.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Comparison {
    /// The conclusion.
    pub verdict: Verdict,
    /// The ratio `baseline / candidate` of the times, with its interval.
    pub speedup: Speedup,
    /// The candidate's times against the baseline's: a negative delta means a faster candidate.
    pub rank_test: RankTest,
    /// The difference from 1 that the ratio must exceed for a verdict of faster or slower.
    pub noise_floor: NoiseFloor,
}

/// Compares a candidate with a baseline that was measured in turns with it.
///
/// The candidate is faster or slower if three conditions agree: the interval of the speedup excludes 1, the speedup
/// is farther from 1 than the noise floor, and the rank test finds a difference in the same direction. It is the same
/// if the whole interval is nearer to 1 than the noise floor or [`NEGLIGIBLE`], whichever is larger. Otherwise the
/// verdict is unclear.
pub fn compare(paired: &Paired<'_>, noise_floor: NoiseFloor, seed: u64) -> Comparison {
    conclude(paired, paired.speedup(seed), noise_floor)
}

pub(super) fn conclude(paired: &Paired<'_>, speedup: Speedup, noise_floor: NoiseFloor) -> Comparison {
    let rank_test = rank_test(paired.candidate(), paired.baseline());
    let verdict = judge(&speedup, &rank_test, noise_floor);
    Comparison { verdict, speedup, rank_test, noise_floor }
}

fn judge(speedup: &Speedup, rank_test: &RankTest, floor: NoiseFloor) -> Verdict {
    let Speedup { ratio, interval, .. } = speedup;
    let ranks_differ = rank_test.p < SIGNIFICANT;
    let near = floor.share().max(NEGLIGIBLE);
    if interval.low > 1.0 && *ratio > 1.0 + floor.share() && ranks_differ && rank_test.delta < 0.0 {
        Verdict::Faster
    } else if interval.high < 1.0 && *ratio < 1.0 - floor.share() && ranks_differ && rank_test.delta > 0.0 {
        Verdict::Slower
    } else if interval.low >= 1.0 - near && interval.high <= 1.0 + near {
        Verdict::Same
    } else {
        Verdict::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Interval, Method, Samples};
    use super::*;

    fn verdict(ratio: f64, low: f64, high: f64, p: f64, floor: f64) -> Verdict {
        let speedup = Speedup { ratio, interval: Interval { low, high }, blocks: 50 };
        let delta = if ratio > 1.0 { -0.5 } else { 0.5 };
        let test = RankTest { u: 0.0, p, delta, method: Method::Normal };
        judge(&speedup, &test, NoiseFloor(floor))
    }

    #[test]
    fn three_conditions_must_agree() {
        assert_eq!(verdict(1.02, 1.01, 1.03, 0.01, 0.005), Verdict::Faster);
        assert_eq!(verdict(1.02, 0.99, 1.05, 0.01, 0.005), Verdict::Unclear);
        assert_eq!(verdict(1.02, 1.01, 1.03, 0.06, 0.005), Verdict::Unclear);
        assert_eq!(verdict(1.02, 1.01, 1.03, 0.01, 0.021), Verdict::Unclear);
        assert_eq!(verdict(0.98, 0.97, 0.99, 0.01, 0.005), Verdict::Slower);
        assert_eq!(verdict(0.98, 0.97, 1.01, 0.01, 0.005), Verdict::Unclear);
        assert_eq!(verdict(0.98, 0.97, 0.99, 0.06, 0.005), Verdict::Unclear);
        assert_eq!(verdict(0.98, 0.97, 0.99, 0.01, 0.021), Verdict::Unclear);
    }

    #[test]
    fn ranks_in_the_other_direction_are_no_agreement() {
        let speedup = Speedup { ratio: 1.02, interval: Interval { low: 1.01, high: 1.03 }, blocks: 50 };
        let test = RankTest { u: 0.0, p: 0.001, delta: 0.3, method: Method::Normal };
        assert_eq!(judge(&speedup, &test, NoiseFloor(0.001)), Verdict::Unclear);
    }

    #[test]
    fn the_verdict_same_needs_a_narrow_interval() {
        assert_eq!(verdict(1.001, 0.995, 1.006, 0.5, 0.002), Verdict::Same);
        assert_eq!(verdict(1.001, 0.98, 1.006, 0.5, 0.002), Verdict::Unclear);
        assert_eq!(verdict(1.001, 0.98, 1.006, 0.5, 0.02), Verdict::Same);
        // Significant, but below the difference of a subject from itself on this device.
        assert_eq!(verdict(1.004, 1.002, 1.006, 0.001, 0.005), Verdict::Same);
    }

    #[test]
    fn the_floor_is_at_least_the_farther_end_and_the_tick() {
        let control = Speedup { ratio: 1.001, interval: Interval { low: 0.997, high: 1.004 }, blocks: 50 };
        assert!((NoiseFloor::from_control(&control, 0.0).share() - 0.004).abs() < 1e-12);
        assert_eq!(NoiseFloor::from_control(&control, 0.03).share(), 0.03);
    }

    #[test]
    fn the_floor_of_two_subjects_uses_only_their_processes() {
        let floor = |a: &[f64], b: &[f64]| NoiseFloor::between(a, b, 0.0001).unwrap().share();
        // scipy 1.17: the critical difference of `ttest_ind(a, b)` on logarithms, `t.ppf(0.975, 4) * standard error`.
        let (a, b) = ([100.0, 101.0, 100.5], [50.0, 50.1, 50.4]);
        assert!((floor(&a, &b) - 0.01043516555867025).abs() < 1e-4, "{}", floor(&a, &b));
        assert!(floor(&[75.7, 75.7, 82.1], &b) > 0.05);
        assert_eq!(floor(&[100.0; 3], &[50.0; 3]), 0.0001);
        assert_eq!(NoiseFloor::between(&[100.0], &[50.0], 0.1), None);
    }

    #[test]
    fn half_the_time_is_faster_and_twice_the_time_is_slower() {
        let times = |base: f64| Samples::new((0..40).map(|i| base + f64::from(i % 7) / 10.0).collect());
        let (slow, fast) = (times(20.0).unwrap(), times(10.0).unwrap());
        let floor = NoiseFloor(0.001);
        let verdict =
            |baseline, candidate| compare(&Paired::new(baseline, candidate, 2).unwrap(), floor, 1).verdict;
        assert_eq!(verdict(&slow, &fast), Verdict::Faster);
        assert_eq!(verdict(&fast, &slow), Verdict::Slower);
        assert_eq!(verdict(&fast, &fast), Verdict::Same);
    }
}
