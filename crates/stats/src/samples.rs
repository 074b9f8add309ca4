//! Valid times of one subject.

/// Times of one subject, in the order in which they were taken: at least one, all finite and above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    taken: Vec<f64>,
    sorted: Vec<f64>,
}

/// Why values are not valid samples.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// The list of samples is empty.
    #[error("there are no samples")]
    Empty,
    /// A sample is not finite, or not above zero.
    #[error("sample {index} is {value}; a time must be finite and above zero")]
    NotATime {
        /// The sample's position in the series, from 0.
        index: usize,
        /// The sample.
        value: f64,
    },
    /// The samples cannot be split into complete blocks of both subjects.
    #[error("{baseline} and {candidate} samples in blocks of {per_block} are not paired")]
    Unpaired {
        /// Number of samples of the baseline.
        baseline: usize,
        /// Number of samples of the candidate.
        candidate: usize,
        /// Number of samples of one subject in a block.
        per_block: usize,
    },
    /// A block cannot be split into equal turns of all processes.
    #[error("blocks of {per_block} samples cannot be turns of {processes} processes, forwards and backwards")]
    NoTurns {
        /// Number of samples of one subject in a block.
        per_block: usize,
        /// Number of processes of a subject.
        processes: usize,
    },
}

impl Samples {
    /// Samples from times in the order in which they were taken.
    pub fn new(taken: Vec<f64>) -> Result<Self, SampleError> {
        if taken.is_empty() {
            return Err(SampleError::Empty);
        }
        if let Some(index) = taken.iter().position(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(SampleError::NotATime { index, value: taken[index] });
        }
        let mut sorted = taken.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Samples { taken, sorted })
    }

    /// The times in the order in which they were taken.
    pub fn taken(&self) -> &[f64] {
        &self.taken
    }

    /// The times in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// Number of samples; never 0.
    pub fn count(&self) -> usize {
        self.taken.len()
    }

    /// The median.
    pub fn median(&self) -> f64 {
        percentile(&self.sorted, 50.0)
    }
}

/// The percentile of ascending values: linear interpolation between the two nearest; the smallest is 0% and the
/// largest 100% (type 7 of Hyndman and Fan, NumPy's default). NaN without values.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = last as f64 * (percent / 100.0).clamp(0.0, 1.0);
    let below = sorted[place as usize];
    let above = sorted[(place as usize + 1).min(last)];
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_times_are_refused() {
        assert_eq!(Samples::new(Vec::new()), Err(SampleError::Empty));
        for wrong in [0.0, -1.0, f64::INFINITY] {
            let refused = Samples::new(vec![1.0, wrong]);
            assert_eq!(refused, Err(SampleError::NotATime { index: 1, value: wrong }));
        }
        assert!(matches!(
            Samples::new(vec![f64::NAN]),
            Err(SampleError::NotATime { index: 0, value }) if value.is_nan()
        ));
    }

    #[test]
    fn the_original_order_is_kept() {
        let samples = Samples::new(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(samples.taken(), [3.0, 1.0, 2.0]);
        assert_eq!(samples.sorted(), [1.0, 2.0, 3.0]);
        assert_eq!(samples.median(), 2.0);
    }
}
