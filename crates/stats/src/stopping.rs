//! Decides when to stop sampling.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bootstrap::RESAMPLES;
use super::{Blocks, ProcessMean, Samples};

/// Stops once the median is known well enough, or the time limit is reached.
///
/// Checking after every sample and stopping at the first narrow interval would favour intervals that are narrow by
/// chance; their coverage would be too low. The check therefore runs only at growing counts
/// ([`Stopping::next_look`]), not before `least` samples, and the interval must also have been narrow with two thirds
/// of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// Half of the interval's width, as a fraction of the median.
    pub half_width: f64,
    /// Smallest number of samples.
    pub least: usize,
    /// Largest number of samples, if there is a limit.
    pub most: Option<usize>,
    /// Sampling stops at the first check after this time.
    pub time_limit: Duration,
}

impl Default for Stopping {
    fn default() -> Self {
        Stopping { half_width: 0.005, least: 40, most: None, time_limit: Duration::from_secs(5) }
    }
}

/// Why sampling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The interval is narrow enough.
    Tight,
    /// The time limit was reached.
    TimeLimit,
    /// The largest number of samples was reached.
    Enough,
}

impl StopReason {
    /// The reason, for people.
    pub fn words(self) -> &'static str {
        match self {
            StopReason::Tight => "interval tight",
            StopReason::TimeLimit => "time limit",
            StopReason::Enough => "sample limit",
        }
    }
}

/// The decision after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Check again at this many samples.
    Continue {
        /// Number of samples at the next check.
        until: usize,
    },
    /// End sampling, for this reason.
    Stop(StopReason),
}

impl Stopping {
    /// Whether to continue, for the samples of all subjects that are measured in turns. All must be known well
    /// enough.
    pub fn progress(&self, subjects: &[&Samples], blocks: Blocks, elapsed: Duration, seed: u64) -> Progress {
        // The total work is the same for many processes as for one; this is accurate enough for a check.
        self.progress_by(RESAMPLES / blocks.processes.max(1), subjects, blocks, elapsed, seed)
    }

    pub(super) fn progress_by(
        &self,
        resamples: usize,
        subjects: &[&Samples],
        blocks: Blocks,
        elapsed: Duration,
        seed: u64,
    ) -> Progress {
        let count = subjects.iter().map(|samples| samples.count()).min().unwrap_or(0);
        let is_tight = |samples: &&Samples| self.is_tight(resamples, samples, blocks, seed);
        if count >= self.least && subjects.iter().all(is_tight) {
            Progress::Stop(StopReason::Tight)
        } else if self.most.is_some_and(|most| count >= most) {
            Progress::Stop(StopReason::Enough)
        } else if elapsed >= self.time_limit {
            Progress::Stop(StopReason::TimeLimit)
        } else {
            Progress::Continue { until: self.next_look(count) }
        }
    }

    /// Whether the interval is narrow enough now, and was with two thirds of the samples. It is the interval of the
    /// samples of these processes: more samples do not reduce the variation between processes.
    fn is_tight(&self, resamples: usize, samples: &Samples, blocks: Blocks, seed: u64) -> bool {
        let narrow = |samples: &Samples| {
            ProcessMean::by(resamples, samples, blocks, seed)
                .is_ok_and(|typical| typical.interval.half_width() <= self.half_width * typical.value)
        };
        let earlier = samples.taken()[..samples.count() * 2 / 3].to_vec();
        narrow(samples) && Samples::new(earlier).is_ok_and(|earlier| narrow(&earlier))
    }

    /// The count of the next check, half as many again each time.
    pub fn next_look(&self, count: usize) -> usize {
        let next = self.least.max(count + count.div_ceil(2)).max(count + 1);
        self.most.map_or(next, |most| next.min(most.max(count + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Blocks = Blocks { per_block: 2, processes: 1 };

    fn spread(count: usize, width: f64) -> Samples {
        Samples::new((0..count).map(|i| 100.0 + width * i as f64 / count as f64).collect()).unwrap()
    }

    #[test]
    fn the_reason_for_stopping_is_reported() {
        let rule = Stopping { most: Some(500), ..Stopping::default() };
        let (tight, wide) = (spread(200, 1.0), spread(200, 50.0));
        let early = Duration::from_secs(1);
        let late = rule.time_limit;
        let progress = |subjects: &[&Samples], elapsed| rule.progress(subjects, ONE, elapsed, 1);
        assert_eq!(progress(&[&tight], early), Progress::Stop(StopReason::Tight));
        assert_eq!(progress(&[&tight, &wide], early), Progress::Continue { until: 300 });
        assert_eq!(progress(&[&tight, &wide], late), Progress::Stop(StopReason::TimeLimit));
        assert_eq!(progress(&[&spread(500, 50.0)], early), Progress::Stop(StopReason::Enough));
    }

    #[test]
    fn sampling_never_stops_below_the_minimum() {
        let rule = Stopping::default();
        assert_eq!(
            rule.progress(&[&spread(5, 0.0)], ONE, Duration::ZERO, 1),
            Progress::Continue { until: 40 }
        );
        assert_eq!(rule.progress(&[], ONE, Duration::ZERO, 1), Progress::Continue { until: 40 });
    }

    /// Two stable processes that differ by 8%: more samples would give no new information.
    #[test]
    fn different_processes_do_not_prolong_sampling() {
        let taken = (0..200).map(|i| [100.0, 108.0, 108.0, 100.0][i % 4] + 0.001 * i as f64).collect();
        let samples = Samples::new(taken).unwrap();
        let progress = |blocks| Stopping::default().progress(&[&samples], blocks, Duration::from_secs(1), 1);
        let two = Blocks { per_block: 4, processes: 2 };
        assert_eq!(progress(two), Progress::Stop(StopReason::Tight));
        assert!(matches!(progress(ONE), Progress::Continue { .. }), "as one series the median is in the gap");
    }

    #[test]
    fn checks_become_rarer_and_end_at_the_limit() {
        let rule = Stopping { most: Some(200), ..Stopping::default() };
        let mut looks = vec![0];
        while looks[looks.len() - 1] < 200 {
            looks.push(rule.next_look(looks[looks.len() - 1]));
        }
        assert_eq!(looks, [0, 40, 60, 90, 135, 200]);
    }
}
