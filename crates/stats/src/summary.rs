//! Describes a set of samples.

use serde::{Deserialize, Serialize};

use super::{Blocks, Interval, ProcessMean, SampleError, Samples, median_interval, percentile};

/// A description of a set of samples, in the samples' unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// Over processes, if there are several ([`ProcessMean`]); the other values are of all samples together.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample (n - 1 in the denominator); `None` for a single sample.
    pub std: Option<f64>,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// The 95% bootstrap interval of the median, for these processes only.
    pub interval: Interval,
}

impl Summary {
    /// The summary of one process's samples.
    pub fn from_samples(samples: &Samples, seed: u64) -> Self {
        let (p50, interval) = (samples.median(), median_interval(samples, seed));
        Self::with_median(samples, p50, interval)
    }

    /// The summary of the samples of several processes, with their [`ProcessMean`] time.
    pub fn over(samples: &Samples, blocks: Blocks, seed: u64) -> Result<(Self, ProcessMean), SampleError> {
        let typical = ProcessMean::from_samples(samples, blocks, seed)?;
        Ok((Self::with_median(samples, typical.value, typical.interval), typical))
    }

    fn with_median(samples: &Samples, p50: f64, interval: Interval) -> Self {
        let sorted = samples.sorted();
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares: f64 = sorted.iter().map(|x| (x - mean) * (x - mean)).sum();
        Summary {
            count,
            p50,
            p90: percentile(sorted, 90.0),
            p95: percentile(sorted, 95.0),
            p99: percentile(sorted, 99.0),
            mean,
            std: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
            min: sorted[0],
            max: sorted[count - 1],
            interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Typical timings with an outlier.
    const TIMES: [f64; 12] = [10.3, 10.1, 10.2, 10.2, 10.9, 10.4, 10.1, 10.6, 14.7, 10.2, 10.5, 10.3];

    /// numpy 2.4: `np.percentile(TIMES, [50, 90, 95, 99])`, `np.mean(TIMES)`, `np.std(TIMES, ddof=1)`.
    #[test]
    fn the_numbers_match_numpy() {
        let summary = Summary::from_samples(&Samples::new(TIMES.to_vec()).unwrap(), 1);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(summary.p50, 10.3);
        close(summary.p90, 10.870000000000001);
        close(summary.p95, 12.609999999999998);
        close(summary.p99, 14.282000000000002);
        close(summary.mean, 10.708333333333334);
        close(summary.std.unwrap(), 1.2781082137521085);
        assert_eq!((summary.count, summary.min, summary.max), (12, 10.1, 14.7));
    }

    #[test]
    fn the_summary_of_one_sample_is_the_sample() {
        let summary = Summary::from_samples(&Samples::new(vec![2.5]).unwrap(), 1);
        assert_eq!((summary.p50, summary.p99, summary.mean, summary.std), (2.5, 2.5, 2.5, None));
        assert_eq!(summary.interval, Interval { low: 2.5, high: 2.5 });
    }

    #[test]
    fn percentiles_reach_from_the_smallest_to_the_largest() {
        assert_eq!(percentile(&[1.0, 2.0, 4.0], 0.0), 1.0);
        assert_eq!(percentile(&[1.0, 2.0, 4.0], 75.0), 3.0);
        assert_eq!(percentile(&[1.0, 2.0, 4.0], 100.0), 4.0);
        assert!(percentile(&[], 50.0).is_nan());
    }
}
