//! A time against the best on record.

use serde::Serialize;

use super::BestOnRecord;
use crate::run::MeasuredMicros;
use crate::stats::{Interval, RankTest, SIGNIFICANT, Samples, rank_test};

/// Slower by up to this share is no regression.
pub const TOLERATED: f64 = 0.02;

/// How a run's time compares with the best on record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// `now / best - 1`: above zero the run is slower.
    pub slower_by: f64,
    pub intervals_overlap: bool,
    /// Of the run's times against the best's: a delta above zero is a slower run.
    pub rank_test: RankTest,
}

/// A run's time, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunTime<'s> {
    pub samples: &'s Samples,
    pub p50: MeasuredMicros,
    pub interval: Interval,
}

impl Change {
    /// `None` where the best's samples are no times, which a leaderboard that was read does not have.
    pub(super) fn new(now: RunTime<'_>, best: &BestOnRecord) -> Option<Self> {
        let kept = Samples::new(best.samples_us.clone()).ok()?;
        Some(Change {
            slower_by: now.p50.0 / best.p50_us.0 - 1.0,
            intervals_overlap: now.interval.overlaps(&best.interval_us),
            rank_test: rank_test(now.samples, &kept),
        })
    }

    /// Slower by more than is tolerated, the intervals apart, and the rank test agreeing.
    pub fn is_regression(&self) -> bool {
        self.slower_by > TOLERATED && self.is_clear() && self.rank_test.delta > 0.0
    }

    /// Faster by however little, if it is clear: only that may become the best, or lucky runs would lower the bar
    /// until every honest one failed.
    pub fn is_improvement(&self) -> bool {
        self.slower_by < 0.0 && self.is_clear() && self.rank_test.delta < 0.0
    }

    fn is_clear(&self) -> bool {
        !self.intervals_overlap && self.rank_test.p < SIGNIFICANT
    }
}
