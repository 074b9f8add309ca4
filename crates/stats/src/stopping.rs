//! When to stop taking samples.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Samples;
use super::bootstrap::{RESAMPLES, median_interval_by};

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
    pub fn progress(&self, subjects: &[&Samples], elapsed: Duration, seed: u64) -> Progress {
        self.progress_by(RESAMPLES, subjects, elapsed, seed)
    }

    pub(super) fn progress_by(
        &self,
        resamples: usize,
        subjects: &[&Samples],
        elapsed: Duration,
        seed: u64,
    ) -> Progress {
        let count = subjects.iter().map(|samples| samples.count()).min().unwrap_or(0);
        if count >= self.least && subjects.iter().all(|samples| self.is_tight(resamples, samples, seed)) {
            Progress::Stop(StopReason::Tight)
        } else if self.most.is_some_and(|most| count >= most) {
            Progress::Stop(StopReason::Enough)
        } else if elapsed >= self.time_limit {
            Progress::Stop(StopReason::TimeLimit)
        } else {
            Progress::Continue { until: self.next_look(count) }
        }
    }

    /// Whether the interval is narrow enough now, and was with two thirds of the samples.
    fn is_tight(&self, resamples: usize, samples: &Samples, seed: u64) -> bool {
        let narrow = |samples: &Samples| {
            median_interval_by(resamples, samples, seed).half_width() <= self.half_width * samples.median()
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

    fn spread(count: usize, width: f64) -> Samples {
        Samples::new((0..count).map(|i| 100.0 + width * i as f64 / count as f64).collect()).unwrap()
    }

    #[test]
    fn says_why_it_stops() {
        let rule = Stopping { most: Some(500), ..Stopping::default() };
        let (tight, wide) = (spread(200, 1.0), spread(200, 50.0));
        let early = Duration::from_secs(1);
        let late = rule.time_limit;
        assert_eq!(rule.progress(&[&tight], early, 1), Progress::Stop(StopReason::Tight));
        assert_eq!(rule.progress(&[&tight, &wide], early, 1), Progress::Continue { until: 300 });
        assert_eq!(rule.progress(&[&tight, &wide], late, 1), Progress::Stop(StopReason::TimeLimit));
        assert_eq!(rule.progress(&[&spread(500, 50.0)], early, 1), Progress::Stop(StopReason::Enough));
    }

    #[test]
    fn few_samples_are_never_enough() {
        let rule = Stopping::default();
        assert_eq!(rule.progress(&[&spread(5, 0.0)], Duration::ZERO, 1), Progress::Continue { until: 40 });
        assert_eq!(rule.progress(&[], Duration::ZERO, 1), Progress::Continue { until: 40 });
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
