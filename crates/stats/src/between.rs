//! Variation between processes, for example of memory addresses or of a library's choices. Samples of one process do
//! not show it, so an interval from them alone is too narrow for the next run. Several processes of a subject show
//! part of it, and those of other subjects of its kind show more.

use super::{Interval, Speedup};

/// The standard deviation of the logarithm of a subject's time between processes, estimated from other subjects of
/// its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessVariation {
    sigma: f64,
    /// The degrees of freedom of the estimate.
    freedom: f64,
}

/// The prior: standard deviation and degrees of freedom before any control. On an H200 the time of one kernel
/// differed by about 0.7% between processes.
const PRIOR: (f64, f64) = (0.007, 4.0);

/// The known variation of a subject's time: the medians of its own processes, and the variation of its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubjectVariation<'m> {
    /// The variation of its kind.
    pub kind: ProcessVariation,
    /// The median of each process.
    pub medians: &'m [f64],
}

impl ProcessVariation {
    /// The estimate from A/A controls ([`control`](super::control)), each with its number of processes.
    ///
    /// An extreme control tells more about its own subject than about others. Its contribution is therefore limited
    /// to three times the usual one, so that one subject with two levels does not widen the intervals of all others.
    pub fn from_controls<'s>(controls: impl IntoIterator<Item = (&'s Speedup, usize)>) -> Self {
        let square = |(control, processes): (&Speedup, usize)| {
            // The ratio of one process to the mean of the others varies with the one, with the mean of the others,
            // and with its samples.
            let draws = 1.0 + 1.0 / processes.saturating_sub(1).max(1) as f64;
            let difference = control.ratio.ln();
            let within = half_width(&control.interval) / NORMAL;
            ((difference * difference - within * within) / draws).max(0.0)
        };
        let mut squares: Vec<f64> = controls.into_iter().map(square).collect();
        let (sigma, weight) = PRIOR;
        let middle = squares.len() / 2;
        let usual = match squares.as_mut_slice() {
            [] => 0.0,
            some => *some.select_nth_unstable_by(middle, f64::total_cmp).1 / MEDIAN_SQUARE,
        };
        let most = 9.0 * usual.max(sigma * sigma);
        let sum: f64 = squares.iter().map(|square| square.min(most)).sum();
        let freedom = weight + squares.len() as f64;
        ProcessVariation { sigma: ((sigma * sigma * weight + sum) / freedom).sqrt(), freedom }
    }

    /// One standard deviation, as a fraction.
    pub fn share(self) -> f64 {
        self.sigma
    }
}

impl SubjectVariation<'_> {
    /// The interval of one subject's time, widened from that of its samples so that it also covers other processes.
    pub fn widen(self, value: f64, samples: Interval) -> Interval {
        let spread = self.spread(half_width(&samples));
        widen(value, samples, spread.half_width(), spread.reach)
    }

    /// The interval of the ratio of a baseline's time to a candidate's, each with its own processes and variation.
    pub fn widen_ratio(
        value: f64,
        samples: Interval,
        baseline: SubjectVariation<'_>,
        candidate: SubjectVariation<'_>,
    ) -> Interval {
        // The uncertainty of the samples comes from both sides, about half of its square from each.
        let each = half_width(&samples) / 2f64.sqrt();
        let spread = baseline.spread(each).over(&candidate.spread(each));
        widen(value, samples, spread.half_width(), spread.reach)
    }

    /// `within` is half the width of the interval of the processes' mean from the samples alone.
    fn spread(self, within: f64) -> Spread {
        let SubjectVariation { kind, medians } = self;
        let processes = medians.len().max(1) as f64;
        if medians.len() < 2 {
            return Spread { variance: kind.sigma * kind.sigma, freedom: kind.freedom, reach: [0.0; 2] };
        }
        // Other subjects of its kind weigh as much as the prior, however many there are. Subjects differ in their
        // variation, so a few own processes that are far apart must have an effect.
        let (_, weight) = PRIOR;
        let own = processes - 1.0;
        // The medians of processes also differ by the uncertainty of their samples, which the interval already
        // includes.
        let of_samples = own * processes * (within / NORMAL).powi(2);
        let squares = (squares(medians) - of_samples).max(0.0);
        let freedom = weight + own;
        let variance = (weight * kind.sigma * kind.sigma + squares) / freedom;
        let logs = medians.iter().map(|median| median.ln());
        let mean = logs.clone().sum::<f64>() / processes;
        let (low, high) = logs.fold((mean, mean), |(low, high), log| (low.min(log), high.max(log)));
        Spread { variance: variance / processes, freedom, reach: [mean - low, high - mean] }
    }
}

/// The uncertainty of the logarithm of a mean over processes.
struct Spread {
    variance: f64,
    freedom: f64,
    /// Distances from the mean down to the fastest process and up to the slowest. An interval contains all of them:
    /// two processes at one level and one at another are not normally distributed, and in the next run all may be at
    /// the other level.
    reach: [f64; 2],
}

impl Spread {
    /// The spread of a ratio; the slowest process of the denominator gives the smallest ratio.
    fn over(&self, below: &Spread) -> Spread {
        let reach = [self.reach[0].hypot(below.reach[1]), self.reach[1].hypot(below.reach[0])];
        Spread { variance: self.variance + below.variance, freedom: self.freedom.min(below.freedom), reach }
    }

    fn half_width(&self) -> f64 {
        t975(self.freedom) * self.variance.sqrt()
    }
}

/// The sum of squares of the logarithms around their mean; 0 for a single value.
pub(super) fn squares(medians: &[f64]) -> f64 {
    let logs = medians.iter().map(|median| median.ln());
    let mean = logs.clone().sum::<f64>() / medians.len().max(1) as f64;
    logs.map(|log| (log - mean) * (log - mean)).sum()
}

/// The median of the square of a standard normal number.
const MEDIAN_SQUARE: f64 = 0.454_936_4;

/// The 97.5% point of the normal distribution.
const NORMAL: f64 = 1.959_963_985;

fn widen(value: f64, interval: Interval, spread: f64, reach: [f64; 2]) -> Interval {
    // Each end separately: neither a bootstrap interval nor the reach needs to be symmetric.
    let ends = [(value / interval.low).ln(), (interval.high / value).ln()];
    let side = |end: f64, reach: f64| end.max(0.0).hypot(spread.max(reach));
    let [below, above] = [side(ends[0], reach[0]), side(ends[1], reach[1])];
    Interval { low: value * (-below).exp(), high: value * above.exp() }
}

/// Half the width of the interval of a ratio, on the logarithmic scale.
fn half_width(interval: &Interval) -> f64 {
    (interval.high / interval.low).ln() / 2.0
}

/// The 97.5% point of Student's t by the Cornish-Fisher series, accurate within 1% from two degrees of freedom on.
pub(super) fn t975(freedom: f64) -> f64 {
    let z = NORMAL;
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5) - 1920.0 * z.powi(3) - 945.0 * z)
            / 92_160.0,
    ];
    z + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom)
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::super::processes::combined;
    use super::*;

    fn control(ratio: f64, half: f64) -> Speedup {
        let interval = Interval { low: ratio * (1.0 - half), high: ratio * (1.0 + half) };
        Speedup { ratio, interval, blocks: 50 }
    }

    fn of_pairs(controls: &[Speedup]) -> ProcessVariation {
        ProcessVariation::from_controls(controls.iter().map(|control| (control, 2)))
    }

    fn single_process(kind: ProcessVariation) -> SubjectVariation<'static> {
        SubjectVariation { kind, medians: &[10.0] }
    }

    #[test]
    fn students_t_matches_the_table() {
        for (freedom, tabulated) in [
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (5.0, 2.571),
            (10.0, 2.228),
            (15.0, 2.131),
            (60.0, 2.0003),
        ] {
            assert!((t975(freedom) / tabulated - 1.0).abs() < 0.01, "{freedom}: {}", t975(freedom));
        }
    }

    #[test]
    fn controls_change_the_estimated_variation() {
        let none = of_pairs(&[]);
        assert_eq!(none.share(), 0.007);
        let stable = of_pairs(&vec![control(1.0001, 0.001); 20]);
        let unstable = of_pairs(&vec![control(1.04, 0.001); 20]);
        assert!(stable.share() < 0.004 && unstable.share() > 0.02, "{stable:?} {unstable:?}");
        // Differences that the samples explain are not attributed to the processes.
        assert!(of_pairs(&vec![control(1.02, 0.05); 20]).share() < 0.004);
        // The mean of two others varies less than one other, so the same difference means more variation.
        let controls = vec![control(1.04, 0.001); 20];
        assert!(
            ProcessVariation::from_controls(controls.iter().map(|control| (control, 3))).share()
                > unstable.share()
        );
    }

    #[test]
    fn widening_never_narrows_an_interval() {
        let interval = Interval { low: 9.9, high: 10.3 };
        let wide = single_process(of_pairs(&[])).widen(10.0, interval);
        assert!(wide.low < interval.low && wide.high > interval.high);
        // Without variation nothing is added. A bootstrap interval may even exclude its median.
        let none = single_process(ProcessVariation { sigma: 0.0, freedom: 10.0 });
        assert!((none.widen(10.0, interval).high - 10.3).abs() < 1e-12);
        assert!(none.widen(10.0, Interval { low: 10.1, high: 10.2 }).low <= 10.0);
    }

    /// A row of a run: the time over processes with its interval.
    fn row(kind: ProcessVariation, medians: &[f64]) -> (f64, Interval) {
        let value = combined(medians.iter().copied());
        let samples = Interval { low: value * 0.999, high: value * 1.001 };
        (value, SubjectVariation { kind, medians }.widen(value, samples))
    }

    #[test]
    fn an_interval_contains_the_medians_of_all_its_processes() {
        let stable = of_pairs(&vec![control(1.002, 0.001); 20]);
        for medians in [[75.7, 75.7, 82.1], [82.1, 75.7, 82.1], [82.1, 75.7, 75.7]] {
            let (_, interval) = row(stable, &medians);
            assert!(interval.contains(75.7) && interval.contains(82.1), "{medians:?}: {interval:?}");
        }
        // The interval of a ratio contains the ratios of both sides.
        let (baseline, candidate) = ([75.7, 75.7, 82.1], [10.0, 10.0, 10.01]);
        let value = combined(baseline.iter().copied()) / combined(candidate.iter().copied());
        let known = |medians| SubjectVariation { kind: stable, medians };
        let samples = Interval { low: value * 0.999, high: value * 1.001 };
        let interval = SubjectVariation::widen_ratio(value, samples, known(&baseline), known(&candidate));
        assert!(interval.contains(7.565) && interval.contains(8.205), "{interval:?}");
        let inverse = Interval { low: 1.0 / samples.high, high: 1.0 / samples.low };
        let inverse =
            SubjectVariation::widen_ratio(1.0 / value, inverse, known(&candidate), known(&baseline));
        assert!((inverse.low * interval.high - 1.0).abs() < 1e-9, "{inverse:?} {interval:?}");
    }

    /// The rows of one simulated run. Each subject has `processes` new processes around 1 with its own variation. The
    /// controls of the other subjects give the variation of a row's kind.
    fn simulated(random: &mut Random, sigmas: &[f64], processes: usize) -> Vec<(f64, Interval)> {
        let subjects: Vec<Vec<f64>> = sigmas
            .iter()
            .map(|sigma| (0..processes).map(|_| (sigma * random.normal()).exp()).collect())
            .collect();
        let controls: Vec<Speedup> = subjects
            .iter()
            .map(|medians| control(medians[0] / combined(medians[1..].iter().copied()), 0.001))
            .collect();
        let others = |own: usize| {
            let others = controls.iter().enumerate().filter(move |(index, _)| *index != own);
            ProcessVariation::from_controls(others.map(|(_, control)| (control, processes)))
        };
        subjects.iter().enumerate().map(|(own, medians)| row(others(own), medians)).collect()
    }

    /// The fraction of intervals that contain the true value, and the fraction of pairs of runs with overlapping
    /// intervals.
    fn rates(sigmas: impl Fn(&mut Random) -> Vec<f64>, processes: usize) -> (f64, f64) {
        let mut random = Random::new(11);
        let (mut covered, mut overlapped, mut rows) = (0, 0, 0);
        for _ in 0..600 {
            let sigmas = sigmas(&mut random);
            let [first, second] = [(); 2].map(|()| simulated(&mut random, &sigmas, processes));
            for ((_, a), (_, b)) in first.iter().zip(&second) {
                rows += 1;
                covered += usize::from(a.contains(1.0));
                overlapped += usize::from(a.overlaps(b));
            }
        }
        let share = |count: usize| count as f64 / rows as f64;
        println!("{processes} processes: covered {:.3}, overlapped {:.3}", share(covered), share(overlapped));
        (share(covered), share(overlapped))
    }

    #[test]
    fn intervals_cover_the_next_run() {
        for processes in [2, 3, 4] {
            let same_variation = |random: &mut Random| vec![0.003 + 0.012 * random.uniform(); 12];
            let (covered, overlapped) = rates(same_variation, processes);
            assert!(covered > 0.94 && overlapped > 0.99, "{processes}: {covered} {overlapped}");
        }
    }

    /// Some subjects vary little and some much: the largest variances are dozens of times the smallest.
    #[test]
    fn intervals_cover_the_next_run_if_subjects_vary_differently() {
        for processes in [2, 3, 4] {
            let different_variation = |random: &mut Random| {
                let typical = 0.003 + 0.012 * random.uniform();
                let mut sigma = || {
                    let squares: f64 = (0..4).map(|_| random.normal().powi(2)).sum();
                    typical * (4.0 / squares).sqrt()
                };
                (0..12).map(|_| sigma()).collect()
            };
            let (covered, overlapped) = rates(different_variation, processes);
            assert!(covered > 0.94 && overlapped > 0.98, "{processes}: {covered} {overlapped}");
        }
    }

    /// One process per subject, with the variation from pairs: the method of runs before there were several
    /// processes.
    #[test]
    fn a_single_process_is_widened_by_the_controls() {
        let mut random = Random::new(11);
        let (mut covered, mut rows) = (0, 0);
        for _ in 0..400 {
            let sigma = 0.003 + 0.012 * random.uniform();
            let controls: Vec<Speedup> =
                (0..11).map(|_| control((2f64.sqrt() * sigma * random.normal()).exp(), 0.002)).collect();
            let kind = of_pairs(&controls);
            for _ in 0..5 {
                rows += 1;
                covered += usize::from(row(kind, &[(sigma * random.normal()).exp()]).1.contains(1.0));
            }
        }
        assert!(covered * 100 > rows * 94, "{covered} of {rows}");
    }

    /// Each process has one of two levels, 8% apart, with equal probability. A run that has seen both covers both, so
    /// two runs can disagree only if all processes of one are at one level and all of the other at the other: with n
    /// processes 2 (1/2)^2n of the pairs, 12.5% for two, 3.1% for three, 0.8% for four. Further misses come from
    /// processes at the same level that differ slightly.
    #[test]
    fn two_runs_with_two_levels_agree_as_often_as_possible() {
        let stable = of_pairs(&vec![control(1.005, 0.001); 20]);
        let mut random = Random::new(5);
        for (processes, unseen) in [(2, 0.125), (3, 0.03125), (4, 0.0078)] {
            let mut run = || {
                let place = |random: &mut Random| if random.uniform() < 0.5 { 75.7 } else { 82.1 };
                let medians: Vec<f64> =
                    (0..processes).map(|_| place(&mut random) * (0.003 * random.normal()).exp()).collect();
                row(stable, &medians).1
            };
            let pairs = 4000;
            let overlapping = (0..pairs).filter(|_| run().overlaps(&run())).count();
            let share = f64::from(overlapping as u32) / f64::from(pairs);
            println!("{processes} processes at two levels: {share:.4} overlap, {:.4} could", 1.0 - unseen);
            assert!(share > 1.0 - unseen - 0.015 && (processes < 3 || share >= 0.95), "{processes}: {share}");
        }
    }

    /// The cost for rows with little variation: none, because the mean of three processes is known better than one
    /// process.
    #[test]
    fn rows_with_little_variation_are_not_wider_than_with_one_process() {
        let mut random = Random::new(3);
        let kind = of_pairs(&vec![control(1.005, 0.001); 20]);
        let mut width = |processes: usize| -> f64 {
            let widths = (0..2000).map(|_| {
                let medians: Vec<f64> = (0..processes).map(|_| (0.004 * random.normal()).exp()).collect();
                row(kind, &medians).1.half_width()
            });
            widths.sum::<f64>() / 2000.0
        };
        let one = width(1);
        for processes in [2, 3, 4] {
            let several = width(processes);
            println!("half widths: {one:.5} with one process, {several:.5} with {processes}");
            assert!(several < one, "{processes}: {several} {one}");
        }
        // A subject with two levels is one of the controls. It widens the intervals of the others, but only
        // moderately.
        let mixed = [vec![control(1.005, 0.001); 16], vec![control(1.08, 0.001); 4]].concat();
        let (_, widened) = row(of_pairs(&mixed), &[1.0, 1.002, 0.998]);
        println!("half widths: {:.5} if a fifth of the controls are 8% apart", widened.half_width());
        assert!(widened.half_width() < 1.5 * one, "{widened:?} {one}");
    }
}
