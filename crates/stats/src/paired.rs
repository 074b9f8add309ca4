//! Compares two subjects that were measured in turns.

use random::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bootstrap::{Interval, RESAMPLES};
use super::processes::combined;
use super::{Blocks, SampleError, Samples};

/// A baseline and a candidate measured in turns: A B B A is a block, with two samples of each. A slow change (clocks,
/// temperature, other processes) affects both within a block. Blocks, not samples, are therefore resampled.
#[derive(Clone, Debug)]
pub struct Paired<'s> {
    baseline: &'s Samples,
    candidate: &'s Samples,
    blocks: Blocks,
}

/// The ratio `baseline / candidate` of medians; over several processes, of their typical times
/// ([`ProcessMean`](super::ProcessMean)).
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Speedup {
    /// Above 1 if the candidate is faster.
    pub ratio: f64,
    /// The 95% interval of the ratio.
    pub interval: Interval,
    /// Number of blocks that the interval is computed from.
    pub blocks: usize,
}

impl<'s> Paired<'s> {
    /// `per_block` consecutive samples of each subject are one block; every block must be complete.
    pub fn new(baseline: &'s Samples, candidate: &'s Samples, per_block: usize) -> Result<Self, SampleError> {
        Self::over(baseline, candidate, Blocks::for_one_process(per_block))
    }

    /// Both subjects ran in the same number of processes, all measured in turns.
    pub fn over(baseline: &'s Samples, candidate: &'s Samples, blocks: Blocks) -> Result<Self, SampleError> {
        let (counts, per_block) = ((baseline.count(), candidate.count()), blocks.per_block);
        if counts.0 != counts.1 || per_block == 0 || !counts.0.is_multiple_of(per_block) {
            return Err(SampleError::Unpaired { baseline: counts.0, candidate: counts.1, per_block });
        }
        Ok(Paired { baseline, candidate, blocks: blocks.checked()? })
    }

    /// The samples of the baseline.
    pub fn baseline(&self) -> &Samples {
        self.baseline
    }

    /// The samples of the candidate.
    pub fn candidate(&self) -> &Samples {
        self.candidate
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.baseline.count() / self.blocks.per_block
    }

    /// The ratio of the medians and its 95% bootstrap interval over blocks, from [`RESAMPLES`] resamples. It covers
    /// only these processes; [`SubjectVariation`](super::SubjectVariation) adds the variation between processes.
    pub fn speedup(&self, seed: u64) -> Speedup {
        self.speedup_by(RESAMPLES, seed)
    }

    pub(super) fn speedup_by(&self, resamples: usize, seed: u64) -> Speedup {
        let side = |samples: &Samples| -> Vec<SortedSamples> {
            (0..self.blocks.processes)
                .map(|process| SortedSamples::new(samples, self.blocks, process))
                .collect()
        };
        ratio(&side(self.baseline), &side(self.candidate), self.blocks(), (resamples, seed))
    }
}

/// An A/A control: a subject's first process compared with its others, as if they were two subjects. It shows the
/// variation between processes. A single process has no control.
pub fn control(samples: &Samples, blocks: Blocks, seed: u64) -> Result<Speedup, SampleError> {
    let paired = Paired::over(samples, samples, blocks)?;
    let mut sorted: Vec<SortedSamples> =
        (0..blocks.processes).map(|process| SortedSamples::new(samples, blocks, process)).collect();
    let others = sorted.split_off(1);
    if others.is_empty() {
        return Err(SampleError::Empty);
    }
    Ok(ratio(&sorted, &others, paired.blocks(), (RESAMPLES, seed)))
}

/// The ratio of the typical times of two sides, with the interval over blocks.
fn ratio(
    above: &[SortedSamples],
    below: &[SortedSamples],
    blocks: usize,
    (resamples, seed): (usize, u64),
) -> Speedup {
    let mut random = Random::new(seed);
    let mut drawn = vec![1_u32; blocks];
    let sides = [above, below];
    let of = |drawn: &[u32]| {
        let [above, below] = sides.map(|side| combined(side.iter().map(|sorted| sorted.median(drawn))));
        above / below
    };
    // Every block once gives the measured ratio.
    let ratio = of(&drawn);
    let ratios = (0..resamples).map(|_| {
        draw(&mut random, &mut drawn);
        of(&drawn)
    });
    Speedup { ratio, interval: Interval::of_resamples(ratios.collect()), blocks }
}

/// Draws as many blocks as there are, with replacement; the result is the count of each block. Every 64 random bits
/// give two draws. With 32 bits each, the bias is below a millionth for any possible number of blocks.
fn draw(random: &mut Random, drawn: &mut [u32]) {
    drawn.fill(0);
    let blocks = drawn.len();
    let pick = |bits: u64| ((bits & 0xffff_ffff) * blocks as u64) >> 32;
    for _ in 0..blocks / 2 {
        let bits = random.bits();
        drawn[pick(bits) as usize] += 1;
        drawn[pick(bits >> 32) as usize] += 1;
    }
    if blocks % 2 == 1 {
        drawn[pick(random.bits()) as usize] += 1;
    }
}

/// A process's samples in ascending order, each with its block. The median of a resample is found by counting in this
/// order. It is nearly always near the middle, so counting starts slightly below it.
struct SortedSamples {
    steps: Vec<(f64, u32)>,
    start: usize,
    /// Number of samples of each block below `start`.
    below: Vec<u32>,
}

impl SortedSamples {
    fn new(samples: &Samples, blocks: Blocks, process: usize) -> Self {
        let mut steps: Vec<(f64, u32)> = blocks.of_process(samples, process).collect();
        steps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        // About six standard deviations of the number of drawn samples below the middle, if all samples of a block
        // are equal. For a resample beyond that, counting starts at the bottom.
        let per_process = blocks.per_block / blocks.processes;
        let reach = 3.0 * ((steps.len() * per_process) as f64).sqrt();
        let start = (steps.len() / 2).saturating_sub(reach as usize);
        let mut below = vec![0; samples.count() / blocks.per_block];
        for &(_, block) in &steps[..start] {
            below[block as usize] += 1;
        }
        SortedSamples { steps, start, below }
    }

    /// The median of the resample that contains block `b` `drawn[b]` times.
    fn median(&self, drawn: &[u32]) -> f64 {
        let count = self.steps.len() as u32;
        let (lower, upper) = ((count - 1) / 2, count / 2);
        let below: u32 = self.below.iter().zip(drawn).map(|(below, times)| below * times).sum();
        let (mut passed, mut step) = if below <= lower { (below, self.start) } else { (0, 0) };
        let mut low = None;
        // As many samples are drawn as there are, so the count passes the middle before the steps end.
        while step < self.steps.len() {
            let (value, block) = self.steps[step];
            passed += drawn[block as usize];
            if passed > lower && low.is_none() {
                low = Some(value);
            }
            if passed > upper {
                return f64::midpoint(low.unwrap_or(value), value);
            }
            step += 1;
        }
        self.steps[self.steps.len() - 1].0
    }
}

#[cfg(test)]
mod tests {
    use super::super::percentile;
    use super::*;

    fn noisy(count: usize, seed: u64) -> Samples {
        let mut random = Random::new(seed);
        Samples::new((0..count).map(|_| (0.05 * random.normal()).exp()).collect()).unwrap()
    }

    #[test]
    fn counting_finds_the_median_of_the_resample() {
        let mut random = Random::new(1);
        for (count, per_block) in [(1, 1), (2, 1), (2, 2), (6, 2), (30, 3), (101, 1), (400, 2), (396, 4)] {
            let samples = noisy(count, 9);
            let sorted = SortedSamples::new(&samples, Blocks::for_one_process(per_block), 0);
            let mut drawn = vec![0; count / per_block];
            let mut tries: Vec<Vec<u32>> = (0..50)
                .map(|_| {
                    draw(&mut random, &mut drawn);
                    drawn.clone()
                })
                .collect();
            // One block drawn every time: the median is far from the middle, and counting starts at the bottom.
            for only in 0..drawn.len() {
                let mut one = vec![0; drawn.len()];
                one[only] = drawn.len() as u32;
                tries.push(one);
            }
            for drawn in tries {
                assert_eq!(drawn.iter().sum::<u32>() as usize * per_block, count);
                let blocks = samples.taken().chunks(per_block).zip(&drawn);
                let mut resample: Vec<f64> =
                    blocks.flat_map(|(values, &times)| values.repeat(times as usize)).collect();
                resample.sort_unstable_by(f64::total_cmp);
                let expected = percentile(&resample, 50.0);
                assert!((sorted.median(&drawn) - expected).abs() < 1e-15, "{count} {per_block}");
            }
        }
    }

    #[test]
    fn every_block_is_drawn_equally_often() {
        let (mut random, mut drawn, mut total) = (Random::new(2), vec![0; 7], [0_u32; 7]);
        for _ in 0..10_000 {
            draw(&mut random, &mut drawn);
            total.iter_mut().zip(&drawn).for_each(|(total, drawn)| *total += drawn);
        }
        // 10,000 expected, standard deviation 93.
        assert!(total.iter().all(|count| count.abs_diff(10_000) < 400), "{total:?}");
    }

    #[test]
    fn a_faster_candidate_has_a_ratio_above_one() {
        let slow = Samples::new(vec![20.0, 20.2, 19.8, 20.0]).unwrap();
        let fast = Samples::new(vec![10.0, 10.1, 9.9, 10.0]).unwrap();
        let speedup = Paired::new(&slow, &fast, 2).unwrap().speedup(1);
        assert_eq!(speedup.ratio, 2.0);
        assert!(speedup.interval.low > 1.9 && speedup.interval.high < 2.1, "{speedup:?}");
        assert_eq!(Paired::new(&fast, &slow, 2).unwrap().speedup(1).ratio, 0.5);
    }

    #[test]
    fn a_common_drift_cancels() {
        // The device slows down by half over the run; the candidate is 1% faster throughout.
        let drift: Vec<f64> = (0..200).map(|i| 100.0 * (1.0 + f64::from(i / 2) / 200.0)).collect();
        let mut random = Random::new(4);
        let mut times = |factor: f64| {
            let times = drift.iter().map(|time| time * factor * (0.001 * random.normal()).exp());
            Samples::new(times.collect()).unwrap()
        };
        let (baseline, candidate) = (times(1.01), times(1.0));
        let speedup = Paired::new(&baseline, &candidate, 2).unwrap().speedup(1);
        assert!(speedup.interval.low > 1.005 && speedup.interval.high < 1.015, "{speedup:?}");
        // Alone, neither median is known to better than 2%.
        assert!(super::super::median_interval(&baseline, 1).half_width() > 0.02 * baseline.median());
    }

    /// A series of three processes with these levels.
    fn in_processes(levels: [f64; 3], blocks: usize, seed: u64) -> Samples {
        let mut random = Random::new(seed);
        let [a, b, c] = levels;
        let order = [a, b, c, c, b, a].repeat(blocks);
        Samples::new(order.iter().map(|level| level * (0.002 * random.normal()).exp()).collect()).unwrap()
    }

    const THREE: Blocks = Blocks { per_block: 6, processes: 3 };

    #[test]
    fn over_processes_the_ratio_is_of_typical_times() {
        let (slow, fast) =
            (in_processes([200.0, 200.0, 216.0], 40, 1), in_processes([100.0, 108.0, 100.0], 40, 2));
        let speedup = Paired::over(&slow, &fast, THREE).unwrap().speedup(1);
        let typical = |samples| super::super::ProcessMean::value_of(samples, THREE).unwrap();
        assert!((speedup.ratio - typical(&slow) / typical(&fast)).abs() < 1e-12);
        assert!(speedup.interval.contains(2.0) && speedup.interval.half_width() < 0.005, "{speedup:?}");
        assert_eq!(speedup.blocks, 40);
    }

    #[test]
    fn a_control_compares_the_first_process_with_the_others() {
        // A 95% interval misses the true ratio once in twenty times, so several seeds are tried.
        const SEEDS: u64 = 40;
        let covered = |levels: [f64; 3], ratio: f64| {
            let speedups =
                (1..=SEEDS).map(|seed| control(&in_processes(levels, 40, seed), THREE, 1).unwrap());
            let speedups: Vec<_> = speedups.collect();
            assert!(speedups.iter().all(|it| it.interval.half_width() < 0.003), "{speedups:?}");
            speedups.iter().filter(|it| it.interval.contains(ratio)).count()
        };
        for (levels, ratio) in
            [([100.0; 3], 1.0), ([108.0, 100.0, 100.0], 1.08), ([100.0, 100.0, 108.0], 1.08f64.powf(-0.5))]
        {
            let covered = covered(levels, ratio);
            assert!(covered >= 34, "{levels:?}: {covered} of {SEEDS}");
        }
        assert_eq!(control(&noisy(8, 1), Blocks::for_one_process(2), 1), Err(SampleError::Empty));
    }

    #[test]
    fn unpaired_samples_are_refused() {
        let (four, five) = (noisy(4, 1), noisy(5, 1));
        assert!(Paired::new(&four, &five, 1).is_err());
        assert!(Paired::new(&five, &five, 2).is_err());
        assert!(Paired::new(&four, &four, 0).is_err());
        assert_eq!(Paired::new(&four, &four, 2).unwrap().blocks(), 2);
        assert!(Paired::over(&four, &four, Blocks { per_block: 4, processes: 3 }).is_err());
    }
}
