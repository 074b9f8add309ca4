//! Two subjects measured in turns.

use random::Random;
use serde::{Deserialize, Serialize};

use super::bootstrap::{Interval, RESAMPLES};
use super::processes::together;
use super::{Blocks, SampleError, Samples};

/// A baseline and a candidate measured in turns: A B B A is a block, with two samples of each. Whatever changed
/// slowly (clocks, temperature, a neighbour) changed for both in a block, so blocks, not samples, are what is drawn.
#[derive(Clone, Debug)]
pub struct Paired<'s> {
    baseline: &'s Samples,
    candidate: &'s Samples,
    blocks: Blocks,
}

/// How much faster the candidate is: `baseline / candidate`, of medians; over several processes, of what is typical
/// of each ([`Typical`](super::Typical)).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    /// Above 1 the candidate is faster.
    pub ratio: f64,
    pub interval: Interval,
    pub blocks: usize,
}

impl<'s> Paired<'s> {
    /// `per_block` consecutive samples of each subject were taken in one block; every block must be whole.
    pub fn new(baseline: &'s Samples, candidate: &'s Samples, per_block: usize) -> Result<Self, SampleError> {
        Self::over(baseline, candidate, Blocks::of_one_process(per_block))
    }

    /// Both in the same number of processes, all of them measured in turns.
    pub fn over(baseline: &'s Samples, candidate: &'s Samples, blocks: Blocks) -> Result<Self, SampleError> {
        let (counts, per_block) = ((baseline.count(), candidate.count()), blocks.per_block);
        if counts.0 != counts.1 || per_block == 0 || !counts.0.is_multiple_of(per_block) {
            return Err(SampleError::Unpaired { baseline: counts.0, candidate: counts.1, per_block });
        }
        Ok(Paired { baseline, candidate, blocks: blocks.checked()? })
    }

    pub fn baseline(&self) -> &Samples {
        self.baseline
    }

    pub fn candidate(&self) -> &Samples {
        self.candidate
    }

    pub fn blocks(&self) -> usize {
        self.baseline.count() / self.blocks.per_block
    }

    /// The ratio of the medians and its 95% bootstrap interval over blocks, from [`RESAMPLES`] resamples. It is of these
    /// very processes: what others would have been is [`Known`](super::Known)'s to add.
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

/// An A/A control: a subject's first process against its others, as if they were two subjects. What differs from process
/// to process differs here. There is none of a single process.
pub fn control(samples: &Samples, blocks: Blocks, seed: u64) -> Result<Speedup, SampleError> {
    let paired = Paired::over(samples, samples, blocks)?;
    let mut ladders: Vec<SortedSamples> =
        (0..blocks.processes).map(|process| SortedSamples::new(samples, blocks, process)).collect();
    let others = ladders.split_off(1);
    if others.is_empty() {
        return Err(SampleError::Empty);
    }
    Ok(ratio(&ladders, &others, paired.blocks(), (RESAMPLES, seed)))
}

/// What is typical of one side over what is typical of the other, with the interval over blocks.
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
        let [above, below] = sides.map(|side| together(side.iter().map(|ladder| ladder.median(drawn))));
        above / below
    };
    // Every block once: what was measured.
    let ratio = of(&drawn);
    let ratios = (0..resamples).map(|_| {
        draw(&mut random, &mut drawn);
        of(&drawn)
    });
    Speedup { ratio, interval: Interval::of_resamples(ratios.collect()), blocks }
}

/// Draws as many blocks as there are, with replacement: how often each was drawn. Every 64 random bits give two
/// draws; with 32 bits each the unevenness is below a millionth for any number of blocks a run can have.
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

/// A process's samples in ascending order, each with its block. The median of a resample is found by counting up the
/// order; as it nearly always lies near the middle, counting starts a little below that.
struct SortedSamples {
    steps: Vec<(f64, u32)>,
    start: usize,
    /// Samples of each block below `start`.
    below: Vec<u32>,
}

impl SortedSamples {
    fn new(samples: &Samples, blocks: Blocks, process: usize) -> Self {
        let mut steps: Vec<(f64, u32)> = blocks.of_process(samples, process).collect();
        steps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        // Some six standard deviations of how many drawn samples fall below the middle, were the samples of a block
        // all alike; beyond it counting starts at the bottom.
        let together = blocks.per_block / blocks.processes;
        let reach = 3.0 * ((steps.len() * together) as f64).sqrt();
        let start = (steps.len() / 2).saturating_sub(reach as usize);
        let mut below = vec![0; samples.count() / blocks.per_block];
        for &(_, block) in &steps[..start] {
            below[block as usize] += 1;
        }
        SortedSamples { steps, start, below }
    }

    /// The median of the resample that holds block `b` `drawn[b]` times.
    fn median(&self, drawn: &[u32]) -> f64 {
        let count = self.steps.len() as u32;
        let (lower, upper) = ((count - 1) / 2, count / 2);
        let below: u32 = self.below.iter().zip(drawn).map(|(below, times)| below * times).sum();
        let (mut passed, mut step) = if below <= lower { (below, self.start) } else { (0, 0) };
        let mut low = None;
        // As many samples were drawn as there are, so the count gets past the middle before the steps run out.
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
    fn counting_gives_the_median_of_the_resample() {
        let mut random = Random::new(1);
        for (count, per_block) in [(1, 1), (2, 1), (2, 2), (6, 2), (30, 3), (101, 1), (400, 2), (396, 4)] {
            let samples = noisy(count, 9);
            let ladder = SortedSamples::new(&samples, Blocks::of_one_process(per_block), 0);
            let mut drawn = vec![0; count / per_block];
            let mut tries: Vec<Vec<u32>> = (0..50)
                .map(|_| {
                    draw(&mut random, &mut drawn);
                    drawn.clone()
                })
                .collect();
            // One block drawn every time: far from the middle, where counting starts at the bottom.
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
                let wanted = percentile(&resample, 50.0);
                assert!((ladder.median(&drawn) - wanted).abs() < 1e-15, "{count} {per_block}");
            }
        }
    }

    #[test]
    fn every_block_is_drawn_as_often_as_any_other() {
        let (mut random, mut drawn, mut total) = (Random::new(2), vec![0; 7], [0_u32; 7]);
        for _ in 0..10_000 {
            draw(&mut random, &mut drawn);
            total.iter_mut().zip(&drawn).for_each(|(total, drawn)| *total += drawn);
        }
        // 10,000 expected, standard deviation 93.
        assert!(total.iter().all(|count| count.abs_diff(10_000) < 400), "{total:?}");
    }

    #[test]
    fn faster_is_above_one() {
        let slow = Samples::new(vec![20.0, 20.2, 19.8, 20.0]).unwrap();
        let fast = Samples::new(vec![10.0, 10.1, 9.9, 10.0]).unwrap();
        let speedup = Paired::new(&slow, &fast, 2).unwrap().speedup(1);
        assert_eq!(speedup.ratio, 2.0);
        assert!(speedup.interval.low > 1.9 && speedup.interval.high < 2.1, "{speedup:?}");
        assert_eq!(Paired::new(&fast, &slow, 2).unwrap().speedup(1).ratio, 0.5);
    }

    #[test]
    fn a_drift_both_went_through_cancels() {
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
        // Taken for itself, neither median is known to better than 2%.
        assert!(super::super::median_interval(&baseline, 1).half_width() > 0.02 * baseline.median());
    }

    /// A series of three processes whose levels are these.
    fn in_processes(levels: [f64; 3], blocks: usize, seed: u64) -> Samples {
        let mut random = Random::new(seed);
        let [a, b, c] = levels;
        let order = [a, b, c, c, b, a].repeat(blocks);
        Samples::new(order.iter().map(|level| level * (0.002 * random.normal()).exp()).collect()).unwrap()
    }

    const THREE: Blocks = Blocks { per_block: 6, processes: 3 };

    #[test]
    fn over_processes_it_is_the_ratio_of_what_is_typical() {
        let (slow, fast) =
            (in_processes([200.0, 200.0, 216.0], 40, 1), in_processes([100.0, 108.0, 100.0], 40, 2));
        let speedup = Paired::over(&slow, &fast, THREE).unwrap().speedup(1);
        let typical = |samples| super::super::Typical::value_of(samples, THREE).unwrap();
        assert!((speedup.ratio - typical(&slow) / typical(&fast)).abs() < 1e-12);
        assert!(speedup.interval.contains(2.0) && speedup.interval.half_width() < 0.005, "{speedup:?}");
        assert_eq!(speedup.blocks, 40);
    }

    #[test]
    fn a_control_is_the_first_process_against_the_others() {
        let calm = control(&in_processes([100.0; 3], 40, 1), THREE, 1).unwrap();
        assert!(calm.interval.contains(1.0) && calm.interval.half_width() < 0.003, "{calm:?}");
        let first = control(&in_processes([108.0, 100.0, 100.0], 40, 1), THREE, 1).unwrap();
        assert!(first.interval.contains(1.08), "{first:?}");
        let last = control(&in_processes([100.0, 100.0, 108.0], 40, 1), THREE, 1).unwrap();
        assert!(last.interval.contains(1.08f64.powf(-0.5)), "{last:?}");
        assert_eq!(control(&noisy(8, 1), Blocks::of_one_process(2), 1), Err(SampleError::Empty));
    }

    #[test]
    fn what_is_not_in_pairs_is_refused() {
        let (four, five) = (noisy(4, 1), noisy(5, 1));
        assert!(Paired::new(&four, &five, 1).is_err());
        assert!(Paired::new(&five, &five, 2).is_err());
        assert!(Paired::new(&four, &four, 0).is_err());
        assert_eq!(Paired::new(&four, &four, 2).unwrap().blocks(), 2);
        assert!(Paired::over(&four, &four, Blocks { per_block: 4, processes: 3 }).is_err());
    }
}
