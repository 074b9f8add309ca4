//! When to stop taking samples.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bootstrap::RESAMPLES;
use super::{Blocks, Samples, Typical};

/// Stops once the median is known well enough, or enough time was spent.
///
/// Looking after every sample and stopping at the first narrow interval would favour intervals that are narrow by
/// luck, and miss the truth more often than they say. So it looks at growing counts only ([`Stopping::next_look`]), not
/// before `least` samples, and an interval must have been narrow already two thirds of the way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// Half of the interval's width, as a share of the median.
    pub half_width: f64,
    pub least: usize,
    /// An upper bound on samples, if there is one.
    pub most: Option<usize>,
    pub time_limit: Duration,
}

impl Default for Stopping {
    fn default() -> Self {
        Stopping { half_width: 0.005, least: 40, most: None, time_limit: Duration::from_secs(5) }
    }
}

/// Why sampling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The interval is narrow enough.
    Tight,
    TimeLimit,
    /// As many samples as were allowed.
    Enough,
}

impl StopReason {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            StopReason::Tight => "interval tight",
            StopReason::TimeLimit => "time limit",
            StopReason::Enough => "sample limit",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Look again at this many samples.
    Continue {
        until: usize,
    },
    Stop(StopReason),
}

impl Stopping {
    /// Whether to go on, for the samples of every subject that is measured in turns: all must be known well enough.
    pub fn progress(&self, subjects: &[&Samples], blocks: Blocks, elapsed: Duration, seed: u64) -> Progress {
        // As much work for many processes as for one; for a look that does.
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

    /// Whether the interval is narrow enough now, and was with two thirds of the samples. It is that of the samples of
    /// these processes: how far apart processes are no number of samples makes smaller.
    fn is_tight(&self, resamples: usize, samples: &Samples, blocks: Blocks, seed: u64) -> bool {
        let narrow = |samples: &Samples| {
            Typical::by(resamples, samples, blocks, seed)
                .is_ok_and(|typical| typical.interval.half_width() <= self.half_width * typical.value)
        };
        let earlier = samples.taken()[..samples.count() * 2 / 3].to_vec();
        narrow(samples) && Samples::new(earlier).is_ok_and(|earlier| narrow(&earlier))
    }

    /// The count to look at next, half as many again each time.
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
    fn says_why_it_stops() {
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
    fn few_samples_are_never_enough() {
        let rule = Stopping::default();
        assert_eq!(
            rule.progress(&[&spread(5, 0.0)], ONE, Duration::ZERO, 1),
            Progress::Continue { until: 40 }
        );
        assert_eq!(rule.progress(&[], ONE, Duration::ZERO, 1), Progress::Continue { until: 40 });
    }

    /// Two processes 8% apart, each steady: more samples would tell nothing new.
    #[test]
    fn processes_apart_are_no_reason_to_go_on() {
        let taken = (0..200).map(|i| [100.0, 108.0, 108.0, 100.0][i % 4] + 0.001 * i as f64).collect();
        let samples = Samples::new(taken).unwrap();
        let progress = |blocks| Stopping::default().progress(&[&samples], blocks, Duration::from_secs(1), 1);
        let two = Blocks { per_block: 4, processes: 2 };
        assert_eq!(progress(two), Progress::Stop(StopReason::Tight));
        assert!(
            matches!(progress(ONE), Progress::Continue { .. }),
            "taken for one series the median is in the gap"
        );
    }

    #[test]
    fn looks_become_rarer_and_end_at_the_bound() {
        let rule = Stopping { most: Some(200), ..Stopping::default() };
        let mut looks = vec![0];
        while looks[looks.len() - 1] < 200 {
            looks.push(rule.next_look(looks[looks.len() - 1]));
        }
        assert_eq!(looks, [0, 40, 60, 90, 135, 200]);
    }
}
