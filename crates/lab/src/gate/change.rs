//! Compares a time with the best on record.

use schemars::JsonSchema;
use serde::Serialize;

use super::BestOnRecord;
use crate::run::MeasuredMicros;
use crate::stats::{Interval, RankTest, SIGNIFICANT, Samples, rank_test};

/// A run that is slower by up to this share is not a regression.
pub const TOLERATED_SLOWDOWN: f64 = 0.02;

/// How a run's time compares with the best on record.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Change {
    /// `now / best - 1`: positive if the run is slower.
    pub slower_by: f64,
    /// Whether the two 95% intervals overlap.
    pub intervals_overlap: bool,
    /// The rank test of the run's times and the best's. A positive delta means a slower run.
    pub rank_test: RankTest,
}

/// A run's time, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunTime<'s> {
    /// All samples.
    pub samples: &'s Samples,
    /// The median.
    pub p50: MeasuredMicros,
    /// The 95% interval of the median.
    pub interval: Interval,
}

impl Change {
    /// Compares the two. `None` if the samples of the best are not valid times, which [`super::Leaderboard::read`]
    /// rules out.
    pub(super) fn new(now: RunTime<'_>, best: &BestOnRecord) -> Option<Self> {
        let best_samples = Samples::new(best.samples_us.clone()).ok()?;
        Some(Change {
            slower_by: now.p50.0 / best.p50_us.0 - 1.0,
            intervals_overlap: now.interval.overlaps(&best.interval_us),
            rank_test: rank_test(now.samples, &best_samples),
        })
    }

    /// Whether the run is slower by more than [`TOLERATED_SLOWDOWN`], with disjoint intervals and a significant rank test.
    pub fn is_regression(&self) -> bool {
        self.slower_by > TOLERATED_SLOWDOWN && self.is_significant() && self.rank_test.delta > 0.0
    }

    /// Whether the run is faster, by any amount, with disjoint intervals and a significant rank test. Only such a run
    /// may become the best: otherwise lucky runs would lower the record until every honest run failed.
    pub fn is_improvement(&self) -> bool {
        self.slower_by < 0.0 && self.is_significant() && self.rank_test.delta < 0.0
    }

    fn is_significant(&self) -> bool {
        !self.intervals_overlap && self.rank_test.p < SIGNIFICANT
    }
}
