//! What differs from process to process: where memory lies, what the library chose. Samples of one process say nothing
//! about it, so an interval made of them alone is too narrow to hold for the next run.

use super::{Interval, Speedup};

/// The spread of the logarithm of a subject's time between processes that run the same thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    sigma: f64,
    /// How many controls' worth of knowledge that is.
    freedom: f64,
}

/// What is believed before a control was seen, and how many controls that counts for. On an H200 one kernel's time
/// differed by some 0.7% between processes.
const BEFOREHAND: (f64, f64) = (0.007, 4.0);

impl Between {
    /// From A/A controls: one thing measured against itself in two processes, each its own pair of processes.
    pub fn of<'s>(controls: impl IntoIterator<Item = &'s Speedup>) -> Self {
        let (sigma, weight) = BEFOREHAND;
        let (mut squares, mut freedom) = (sigma * sigma * weight, weight);
        for control in controls {
            // A ratio of two processes varies by both of them, and by its samples.
            let difference = control.ratio.ln();
            let within = half_width(&control.interval) / NORMAL;
            squares += ((difference * difference - within * within) / 2.0).max(0.0);
            freedom += 1.0;
        }
        Between { sigma: (squares / freedom).sqrt(), freedom }
    }

    /// One standard deviation, as a share.
    pub fn share(self) -> f64 {
        self.sigma
    }

    /// The interval of one subject's time, widened to hold between processes too.
    pub fn widen(self, value: f64, interval: Interval) -> Interval {
        widen(value, interval, self.sigma * self.sigma, self.freedom)
    }

    /// The interval of a baseline's time over a candidate's, each in its own process with its own spread.
    pub fn widen_ratio(value: f64, interval: Interval, baseline: Between, candidate: Between) -> Interval {
        let variance = baseline.sigma * baseline.sigma + candidate.sigma * candidate.sigma;
        widen(value, interval, variance, baseline.freedom.min(candidate.freedom))
    }
}

/// The 97.5% point of the normal distribution.
const NORMAL: f64 = 1.959_963_985;

fn widen(value: f64, interval: Interval, variance: f64, freedom: f64) -> Interval {
    let spread = t975(freedom) * variance.sqrt();
    // Both ends on their own: a bootstrap interval need not be symmetric.
    let ends = [(value / interval.low).ln(), (interval.high / value).ln()];
    let [below, above] = ends.map(|end| (end.max(0.0).powi(2) + spread * spread).sqrt());
    Interval { low: value * (-below).exp(), high: value * above.exp() }
}

/// Half the width of an interval of a ratio, on the logarithmic scale.
fn half_width(interval: &Interval) -> f64 {
    (interval.high / interval.low).ln() / 2.0
}

/// The 97.5% point of Student's t: Cornish and Fisher's series, within 1% from four degrees of freedom on.
fn t975(freedom: f64) -> f64 {
    let z = NORMAL;
    z + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom * freedom)
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::*;

    fn control(ratio: f64, half: f64) -> Speedup {
        let interval = Interval { low: ratio * (1.0 - half), high: ratio * (1.0 + half) };
        Speedup { ratio, interval, blocks: 50 }
    }

    #[test]
    fn students_points_are_the_tabulated_ones() {
        for (freedom, tabulated) in [(4.0, 2.776), (5.0, 2.571), (10.0, 2.228), (15.0, 2.131), (60.0, 2.0003)]
        {
            assert!((t975(freedom) / tabulated - 1.0).abs() < 0.02, "{freedom}: {}", t975(freedom));
        }
    }

    #[test]
    fn controls_move_the_spread() {
        let none = Between::of(&[]);
        assert_eq!(none.share(), 0.007);
        let calm = Between::of(&vec![control(1.0001, 0.001); 20]);
        let wild = Between::of(&vec![control(1.04, 0.001); 20]);
        assert!(calm.share() < 0.004 && wild.share() > 0.02, "{calm:?} {wild:?}");
        // What the samples explain is not blamed on the processes.
        assert!(Between::of(&vec![control(1.02, 0.05); 20]).share() < 0.004);
    }

    #[test]
    fn an_interval_only_gets_wider() {
        let interval = Interval { low: 9.9, high: 10.3 };
        let wide = Between::of(&[]).widen(10.0, interval);
        assert!(wide.low < interval.low && wide.high > interval.high);
        // With nothing to add, nothing is added; a bootstrap interval may even leave its median out.
        let none = Between { sigma: 0.0, freedom: 10.0 };
        assert!((none.widen(10.0, interval).high - 10.3).abs() < 1e-12);
        assert!(none.widen(10.0, Interval { low: 10.1, high: 10.2 }).low <= 10.0);
    }

    /// Two runs of one benchmark: every subject in a fresh process each time, a control per problem. Their intervals
    /// overlap, and hold the truth at their rate.
    #[test]
    fn the_next_run_is_within_the_interval() {
        let mut random = Random::new(11);
        let (mut held, mut overlapped, mut rows) = (0, 0, 0);
        for _ in 0..400 {
            let sigma = 0.003 + 0.012 * random.uniform();
            let run = |random: &mut Random| {
                let controls: Vec<Speedup> =
                    (0..11).map(|_| control((2f64.sqrt() * sigma * random.normal()).exp(), 0.002)).collect();
                let between = Between::of(&controls);
                [(); 5].map(|()| {
                    let median = (sigma * random.normal() + 0.001 * random.normal()).exp();
                    between.widen(median, Interval { low: median * 0.998, high: median * 1.002 })
                })
            };
            let (first, second) = (run(&mut random), run(&mut random));
            for (a, b) in first.iter().zip(&second) {
                rows += 1;
                held += usize::from(a.contains(1.0));
                overlapped += usize::from(a.overlaps(b));
            }
        }
        let share = |count: usize| count as f64 / rows as f64;
        assert!(share(held) > 0.94, "{}", share(held));
        assert!(share(overlapped) > 0.99, "{}", share(overlapped));
    }
}
