//! What differs from process to process: where memory lies, what the library chose. Samples of one process say nothing
//! about it, so an interval made of them alone is too narrow to hold for the next run. Several processes of a subject
//! show some of it, and those of other subjects of its kind more.

use super::{Interval, Speedup};

/// The spread of the logarithm of a subject's time between processes that run the same thing, as others of its kind
/// show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    sigma: f64,
    /// How many controls' worth of knowledge that is.
    freedom: f64,
}

/// What is believed before a control was seen, and how many degrees of freedom that counts for. On an H200 one kernel's
/// time differed by some 0.7% between processes.
const BEFOREHAND: (f64, f64) = (0.007, 4.0);

/// What is known of how a subject's time varies: the medians of its own processes, and how much its kind does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known<'m> {
    pub kind: Between,
    /// Of each process.
    pub medians: &'m [f64],
}

impl Between {
    /// From A/A controls ([`control`](super::control)), each with how many processes it is of.
    ///
    /// A control that is far off says something of its own subject and little of others, so what it counts for is bounded
    /// by three times what is usual: one neighbour in two places is not to blur everybody.
    pub fn from_controls<'s>(controls: impl IntoIterator<Item = (&'s Speedup, usize)>) -> Self {
        let square = |(control, processes): (&Speedup, usize)| {
            // One process over the mean of the others varies by the one, by the others' mean, and by its samples.
            let draws = 1.0 + 1.0 / processes.saturating_sub(1).max(1) as f64;
            let difference = control.ratio.ln();
            let within = half_width(&control.interval) / NORMAL;
            ((difference * difference - within * within) / draws).max(0.0)
        };
        let mut squares: Vec<f64> = controls.into_iter().map(square).collect();
        let (sigma, weight) = BEFOREHAND;
        let middle = squares.len() / 2;
        let usual = match squares.as_mut_slice() {
            [] => 0.0,
            some => *some.select_nth_unstable_by(middle, f64::total_cmp).1 / MEDIAN_SQUARE,
        };
        let most = 9.0 * usual.max(sigma * sigma);
        let sum: f64 = squares.iter().map(|square| square.min(most)).sum();
        let freedom = weight + squares.len() as f64;
        Between { sigma: ((sigma * sigma * weight + sum) / freedom).sqrt(), freedom }
    }

    /// One standard deviation, as a share.
    pub fn share(self) -> f64 {
        self.sigma
    }
}

impl Known<'_> {
    /// The interval of one subject's time, widened from that of its samples to hold between processes too.
    pub fn widen(self, value: f64, samples: Interval) -> Interval {
        let spread = self.spread(half_width(&samples));
        widen(value, samples, spread.half_width(), spread.reach)
    }

    /// The interval of a baseline's time over a candidate's, each in its own processes with its own spread.
    pub fn widen_ratio(value: f64, samples: Interval, baseline: Known<'_>, candidate: Known<'_>) -> Interval {
        // What the samples leave open is of both sides, about half of it (of its square) of each.
        let each = half_width(&samples) / 2f64.sqrt();
        let spread = baseline.spread(each).over(&candidate.spread(each));
        widen(value, samples, spread.half_width(), spread.reach)
    }

    /// `within`: half the width of the interval that the samples alone leave the mean of the processes.
    fn spread(self, within: f64) -> Spread {
        let Known { kind, medians } = self;
        let processes = medians.len().max(1) as f64;
        if medians.len() < 2 {
            return Spread { variance: kind.sigma * kind.sigma, freedom: kind.freedom, reach: [0.0; 2] };
        }
        // Others of its kind count as what was believed beforehand did: subjects differ in how much they differ, so
        // however many there are, a few own processes that are far apart must be able to say so.
        let (_, weight) = BEFOREHAND;
        let own = processes - 1.0;
        // Medians of processes differ by what their samples leave open too, and that is in the interval already.
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

/// How far the logarithm of a mean over processes may be off.
struct Spread {
    variance: f64,
    freedom: f64,
    /// From the mean down to the fastest process seen, and up to the slowest. An interval holds them all: two processes
    /// in one place and one in another are nothing a bell curve knows, and the next run may well have all of them there.
    reach: [f64; 2],
}

impl Spread {
    /// Of a ratio: the other side's slowest is its fastest.
    fn over(&self, below: &Spread) -> Spread {
        let reach = [self.reach[0].hypot(below.reach[1]), self.reach[1].hypot(below.reach[0])];
        Spread { variance: self.variance + below.variance, freedom: self.freedom.min(below.freedom), reach }
    }

    fn half_width(&self) -> f64 {
        t975(self.freedom) * self.variance.sqrt()
    }
}

/// The sum of squares of logarithms around their mean; 0 of a single one.
pub(super) fn squares(medians: &[f64]) -> f64 {
    let logs = medians.iter().map(|median| median.ln());
    let mean = logs.clone().sum::<f64>() / medians.len().max(1) as f64;
    logs.map(|log| (log - mean) * (log - mean)).sum()
}

/// The median of the square of a normal number.
const MEDIAN_SQUARE: f64 = 0.454_936_4;

/// The 97.5% point of the normal distribution.
const NORMAL: f64 = 1.959_963_985;

fn widen(value: f64, interval: Interval, spread: f64, reach: [f64; 2]) -> Interval {
    // Both ends on their own: neither a bootstrap interval nor the reach need be symmetric.
    let ends = [(value / interval.low).ln(), (interval.high / value).ln()];
    let side = |end: f64, reach: f64| end.max(0.0).hypot(spread.max(reach));
    let [below, above] = [side(ends[0], reach[0]), side(ends[1], reach[1])];
    Interval { low: value * (-below).exp(), high: value * above.exp() }
}

/// Half the width of an interval of a ratio, on the logarithmic scale.
fn half_width(interval: &Interval) -> f64 {
    (interval.high / interval.low).ln() / 2.0
}

/// The 97.5% point of Student's t: Cornish and Fisher's series, within 1% from two degrees of freedom on.
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

    use super::super::processes::together;
    use super::*;

    fn control(ratio: f64, half: f64) -> Speedup {
        let interval = Interval { low: ratio * (1.0 - half), high: ratio * (1.0 + half) };
        Speedup { ratio, interval, blocks: 50 }
    }

    fn of_pairs(controls: &[Speedup]) -> Between {
        Between::from_controls(controls.iter().map(|control| (control, 2)))
    }

    fn alone(kind: Between) -> Known<'static> {
        Known { kind, medians: &[10.0] }
    }

    #[test]
    fn students_points_are_the_tabulated_ones() {
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
    fn controls_move_the_spread() {
        let none = of_pairs(&[]);
        assert_eq!(none.share(), 0.007);
        let calm = of_pairs(&vec![control(1.0001, 0.001); 20]);
        let wild = of_pairs(&vec![control(1.04, 0.001); 20]);
        assert!(calm.share() < 0.004 && wild.share() > 0.02, "{calm:?} {wild:?}");
        // What the samples explain is not blamed on the processes.
        assert!(of_pairs(&vec![control(1.02, 0.05); 20]).share() < 0.004);
        // The mean of two others moves less than one other, so the same difference is more of a spread.
        let controls = vec![control(1.04, 0.001); 20];
        assert!(Between::from_controls(controls.iter().map(|control| (control, 3))).share() > wild.share());
    }

    #[test]
    fn an_interval_only_gets_wider() {
        let interval = Interval { low: 9.9, high: 10.3 };
        let wide = alone(of_pairs(&[])).widen(10.0, interval);
        assert!(wide.low < interval.low && wide.high > interval.high);
        // With nothing to add, nothing is added; a bootstrap interval may even leave its median out.
        let none = alone(Between { sigma: 0.0, freedom: 10.0 });
        assert!((none.widen(10.0, interval).high - 10.3).abs() < 1e-12);
        assert!(none.widen(10.0, Interval { low: 10.1, high: 10.2 }).low <= 10.0);
    }

    /// A row as a run has it: the time over processes, with the interval.
    fn row(kind: Between, medians: &[f64]) -> (f64, Interval) {
        let value = together(medians.iter().copied());
        let samples = Interval { low: value * 0.999, high: value * 1.001 };
        (value, Known { kind, medians }.widen(value, samples))
    }

    #[test]
    fn an_interval_reaches_every_place_its_processes_were_in() {
        let calm = of_pairs(&vec![control(1.002, 0.001); 20]);
        for medians in [[75.7, 75.7, 82.1], [82.1, 75.7, 82.1], [82.1, 75.7, 75.7]] {
            let (_, interval) = row(calm, &medians);
            assert!(interval.contains(75.7) && interval.contains(82.1), "{medians:?}: {interval:?}");
        }
        // And a ratio what both sides' are.
        let (baseline, candidate) = ([75.7, 75.7, 82.1], [10.0, 10.0, 10.01]);
        let value = together(baseline.iter().copied()) / together(candidate.iter().copied());
        let known = |medians| Known { kind: calm, medians };
        let samples = Interval { low: value * 0.999, high: value * 1.001 };
        let interval = Known::widen_ratio(value, samples, known(&baseline), known(&candidate));
        assert!(interval.contains(7.565) && interval.contains(8.205), "{interval:?}");
        let inverse = Interval { low: 1.0 / samples.high, high: 1.0 / samples.low };
        let inverse = Known::widen_ratio(1.0 / value, inverse, known(&candidate), known(&baseline));
        assert!((inverse.low * interval.high - 1.0).abs() < 1e-9, "{inverse:?} {interval:?}");
    }

    /// The controls and rows of one run: each subject in `processes` fresh processes around 1, with its own spread. What
    /// the other subjects' controls say is what a row is told of its kind.
    fn simulated(random: &mut Random, sigmas: &[f64], processes: usize) -> Vec<(f64, Interval)> {
        let subjects: Vec<Vec<f64>> = sigmas
            .iter()
            .map(|sigma| (0..processes).map(|_| (sigma * random.normal()).exp()).collect())
            .collect();
        let controls: Vec<Speedup> = subjects
            .iter()
            .map(|medians| control(medians[0] / together(medians[1..].iter().copied()), 0.001))
            .collect();
        let others = |own: usize| {
            let others = controls.iter().enumerate().filter(move |(index, _)| *index != own);
            Between::from_controls(others.map(|(_, control)| (control, processes)))
        };
        subjects.iter().enumerate().map(|(own, medians)| row(others(own), medians)).collect()
    }

    /// How often the truth is in the interval, and how often two runs' intervals overlap.
    fn rates(sigmas: impl Fn(&mut Random) -> Vec<f64>, processes: usize) -> (f64, f64) {
        let mut random = Random::new(11);
        let (mut held, mut overlapped, mut rows) = (0, 0, 0);
        for _ in 0..600 {
            let sigmas = sigmas(&mut random);
            let [first, second] = [(); 2].map(|()| simulated(&mut random, &sigmas, processes));
            for ((_, a), (_, b)) in first.iter().zip(&second) {
                rows += 1;
                held += usize::from(a.contains(1.0));
                overlapped += usize::from(a.overlaps(b));
            }
        }
        let share = |count: usize| count as f64 / rows as f64;
        println!("{processes} processes: held {:.3}, overlapped {:.3}", share(held), share(overlapped));
        (share(held), share(overlapped))
    }

    #[test]
    fn the_next_run_is_within_the_interval() {
        for processes in [2, 3, 4] {
            let alike = |random: &mut Random| vec![0.003 + 0.012 * random.uniform(); 12];
            let (held, overlapped) = rates(alike, processes);
            assert!(held > 0.94 && overlapped > 0.99, "{processes}: {held} {overlapped}");
        }
    }

    /// Some subjects are calm and some are wild: variances of which the largest are dozens of times the smallest.
    #[test]
    fn that_some_vary_more_than_others_is_allowed_for() {
        for processes in [2, 3, 4] {
            let unlike = |random: &mut Random| {
                let typical = 0.003 + 0.012 * random.uniform();
                let mut sigma = || {
                    let squares: f64 = (0..4).map(|_| random.normal().powi(2)).sum();
                    typical * (4.0 / squares).sqrt()
                };
                (0..12).map(|_| sigma()).collect()
            };
            let (held, overlapped) = rates(unlike, processes);
            assert!(held > 0.94 && overlapped > 0.98, "{processes}: {held} {overlapped}");
        }
    }

    /// One process of each, and the spread from pairs: runs of before there were several.
    #[test]
    fn a_single_process_is_widened_by_what_controls_say() {
        let mut random = Random::new(11);
        let (mut held, mut rows) = (0, 0);
        for _ in 0..400 {
            let sigma = 0.003 + 0.012 * random.uniform();
            let controls: Vec<Speedup> =
                (0..11).map(|_| control((2f64.sqrt() * sigma * random.normal()).exp(), 0.002)).collect();
            let kind = of_pairs(&controls);
            for _ in 0..5 {
                rows += 1;
                held += usize::from(row(kind, &[(sigma * random.normal()).exp()]).1.contains(1.0));
            }
        }
        assert!(held * 100 > rows * 94, "{held} of {rows}");
    }

    /// Each process falls into one of two places, 8% apart, as a coin says. A run that has seen both reaches both, so two
    /// runs can only be apart if all processes of one are here and all of the other there: with n processes
    /// 2 (1/2)^2n of the pairs, 12.5% with two, 3.1% with three, 0.8% with four. What is lost beyond that are
    /// processes in the same place that are a little apart.
    #[test]
    fn two_runs_of_what_has_two_places_agree_as_often_as_can_be() {
        let calm = of_pairs(&vec![control(1.005, 0.001); 20]);
        let mut random = Random::new(5);
        for (processes, unseen) in [(2, 0.125), (3, 0.03125), (4, 0.0078)] {
            let mut run = || {
                let place = |random: &mut Random| if random.uniform() < 0.5 { 75.7 } else { 82.1 };
                let medians: Vec<f64> =
                    (0..processes).map(|_| place(&mut random) * (0.003 * random.normal()).exp()).collect();
                row(calm, &medians).1
            };
            let pairs = 4000;
            let overlapping = (0..pairs).filter(|_| run().overlaps(&run())).count();
            let share = f64::from(overlapping as u32) / f64::from(pairs);
            println!("{processes} processes in two places: {share:.4} overlap, {:.4} could", 1.0 - unseen);
            assert!(share > 1.0 - unseen - 0.015 && (processes < 3 || share >= 0.95), "{processes}: {share}");
        }
    }

    /// What calm rows pay for it: less than nothing, as a mean of three processes is known better than one.
    #[test]
    fn calm_rows_are_hardly_wider_than_with_one_process() {
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
            println!("half widths: {one:.5} of one process, {several:.5} of {processes}");
            assert!(several < one, "{processes}: {several} {one}");
        }
        // A neighbour in two places is one of the controls of its kind, and widens the calm ones, but not out of shape.
        let beside = [vec![control(1.005, 0.001); 16], vec![control(1.08, 0.001); 4]].concat();
        let (_, blurred) = row(of_pairs(&beside), &[1.0, 1.002, 0.998]);
        println!("half widths: {:.5} where a fifth of the controls are 8% apart", blurred.half_width());
        assert!(blurred.half_width() < 1.5 * one, "{blurred:?} {one}");
    }
}
