//! The samples of one subject from several processes: their order in its series, and its time over all processes.

use super::bootstrap::median_draws;
use super::{Interval, RESAMPLES, SampleError, Samples};

/// The order of a subject's samples in its series.
///
/// Samples are in the order in which they were taken. A block is one turn of every process forwards and one
/// backwards, all of the same length: with processes 0, 1, 2 and turns of two samples a block is `0 0 1 1 2 2 2 2 1 1
/// 0 0`. The position of a sample therefore gives its process ([`Blocks::split`]), and every number of whole blocks
/// has equally many samples of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of samples of one subject in a block, over all its processes.
    pub per_block: usize,
    /// Number of processes of the subject.
    pub processes: usize,
}

impl Blocks {
    /// Blocks of a subject with a single process.
    pub fn for_one_process(per_block: usize) -> Self {
        Blocks { per_block, processes: 1 }
    }

    /// Checks that a block can consist of one turn forwards and one backwards of every process. For a single process
    /// every block size is valid.
    pub(super) fn checked(self) -> Result<Self, SampleError> {
        let Blocks { per_block, processes } = self;
        let turns = if processes == 1 { 1 } else { processes.saturating_mul(2) };
        if per_block == 0 || processes == 0 || !per_block.is_multiple_of(turns) {
            return Err(SampleError::NoTurns { per_block, processes });
        }
        Ok(self)
    }

    /// The process of the sample at this position of a series.
    fn process_of(self, place: usize) -> usize {
        if self.processes == 1 {
            return 0;
        }
        let turns = 2 * self.processes;
        let turn = place % self.per_block / (self.per_block / turns);
        turn.min(turns - 1 - turn)
    }

    /// The samples of each process, in the order in which they were taken. A series may end within a block, but every
    /// process must have had a turn.
    pub fn split(self, samples: &Samples) -> Result<Vec<Samples>, SampleError> {
        let blocks = self.checked()?;
        if blocks.processes > samples.count() {
            return Err(SampleError::Empty);
        }
        let mut taken = vec![Vec::new(); blocks.processes];
        for (place, &value) in samples.taken().iter().enumerate() {
            taken[blocks.process_of(place)].push(value);
        }
        taken.into_iter().map(Samples::new).collect()
    }

    /// The samples of one process, each with its block.
    pub(super) fn of_process(self, samples: &Samples, process: usize) -> impl Iterator<Item = (f64, u32)> {
        let positions = samples.taken().iter().enumerate();
        let own = positions.filter(move |(place, _)| self.process_of(*place) == process);
        own.map(move |(place, &value)| (value, (place / self.per_block) as u32))
    }
}

/// A subject's time: the geometric mean of its processes' medians.
///
/// It is not the median of all samples. If processes have one of two levels, that median is the level of the
/// majority: it jumps between runs, and with an even number of processes it is in the gap. The geometric mean varies
/// least between runs, and an interval over processes is about it. For one process both are its median.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessMean {
    /// The geometric mean, in the samples' unit.
    pub value: f64,
    /// The 95% interval from the samples of these processes. It does not include the variation between processes;
    /// [`SubjectVariation`](super::SubjectVariation) adds it.
    pub interval: Interval,
    /// The median of each process.
    pub medians: Vec<f64>,
}

impl ProcessMean {
    /// The time with its interval from [`RESAMPLES`] resamples of every process.
    pub fn from_samples(samples: &Samples, blocks: Blocks, seed: u64) -> Result<Self, SampleError> {
        Self::by(RESAMPLES, samples, blocks, seed)
    }

    pub(super) fn by(
        resamples: usize,
        samples: &Samples,
        blocks: Blocks,
        seed: u64,
    ) -> Result<Self, SampleError> {
        let split = blocks.split(samples)?;
        let own = split.iter().enumerate();
        let draws: Vec<Vec<f64>> = own
            .map(|(process, own)| median_draws(resamples, own, seed.wrapping_add(process as u64)))
            .collect();
        let drawn = (0..resamples).map(|at| combined(draws.iter().map(|draws| draws[at])));
        let interval = Interval::of_resamples(drawn.collect());
        let medians: Vec<f64> = split.iter().map(Samples::median).collect();
        Ok(ProcessMean { value: combined(medians.iter().copied()), interval, medians })
    }

    /// Only the value, without the work for an interval.
    pub fn value_of(samples: &Samples, blocks: Blocks) -> Result<f64, SampleError> {
        Ok(combined(blocks.split(samples)?.iter().map(Samples::median)))
    }
}

/// The geometric mean of the processes' medians; a single median is returned unchanged.
pub(super) fn combined(mut medians: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = medians.len();
    if count == 1
        && let Some(only) = medians.next()
    {
        return only;
    }
    (medians.map(f64::ln).sum::<f64>() / count as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::super::median_interval;
    use super::*;

    fn series(values: &[f64]) -> Samples {
        Samples::new(values.to_vec()).unwrap()
    }

    #[test]
    fn the_position_of_a_sample_gives_its_process() {
        let blocks = Blocks { per_block: 12, processes: 3 };
        let processes: Vec<usize> = (0..24).map(|place| blocks.process_of(place)).collect();
        assert_eq!(processes, [0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0].repeat(2));
        let taken: Vec<f64> = processes.iter().map(|&process| 10.0 + process as f64).collect();
        let split = blocks.split(&series(&taken)).unwrap();
        assert_eq!(split.iter().map(Samples::count).collect::<Vec<_>>(), [8, 8, 8]);
        assert_eq!(split.iter().map(Samples::median).collect::<Vec<_>>(), [10.0, 11.0, 12.0]);
        let second: Vec<(f64, u32)> = blocks.of_process(&series(&taken), 1).collect();
        assert_eq!(second[..5], [(11.0, 0), (11.0, 0), (11.0, 0), (11.0, 0), (11.0, 1)]);
    }

    #[test]
    fn a_single_process_has_all_samples() {
        for per_block in [1, 2, 3, 8] {
            let split = Blocks::for_one_process(per_block).split(&series(&[1.0, 2.0, 3.0])).unwrap();
            assert_eq!(split, [series(&[1.0, 2.0, 3.0])]);
        }
    }

    #[test]
    fn an_invalid_block_size_is_refused() {
        for (per_block, processes) in [(0, 1), (2, 0), (2, 2), (5, 2), (8, 3)] {
            let refused = Blocks { per_block, processes }.split(&series(&[1.0; 24]));
            assert_eq!(refused, Err(SampleError::NoTurns { per_block, processes }));
        }
        // Some process had no turn.
        for (per_block, processes) in [(6, 3), (12, 2), (1 << 62, 1 << 61)] {
            let early = Blocks { per_block, processes }.split(&series(&[1.0, 1.0]));
            assert_eq!(early, Err(SampleError::Empty), "{per_block} {processes}");
        }
    }

    #[test]
    fn the_typical_time_of_one_process_is_its_median() {
        let taken: Vec<f64> = (0..41).map(|i| 100.0 + f64::from(i * 7 % 11)).collect();
        let samples = series(&taken);
        let typical = ProcessMean::from_samples(&samples, Blocks::for_one_process(1), 9).unwrap();
        assert_eq!((typical.value, typical.medians.as_slice()), (samples.median(), &[samples.median()][..]));
        assert_eq!(typical.interval, median_interval(&samples, 9));
    }

    #[test]
    fn two_levels_are_averaged() {
        let blocks = Blocks { per_block: 6, processes: 3 };
        let taken = |levels: [f64; 3]| {
            series(&[levels[0], levels[1], levels[2], levels[2], levels[1], levels[0]].repeat(20))
        };
        let value = |levels| ProcessMean::value_of(&taken(levels), blocks).unwrap();
        let (low, high): (f64, f64) = (75.7, 82.1);
        let between = |share: f64| low * (high / low).powf(share);
        assert!((value([low, low, high]) - between(1.0 / 3.0)).abs() < 1e-9);
        assert!((value([high, low, high]) - between(2.0 / 3.0)).abs() < 1e-9);
        // The samples of these processes have no variation.
        let typical = ProcessMean::from_samples(&taken([low, low, high]), blocks, 1).unwrap();
        assert!(typical.interval.half_width() < 1e-9 && typical.medians == [low, low, high], "{typical:?}");
    }
}
