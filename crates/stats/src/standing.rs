//! Many speedups as one number, and a word for that number.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The geometric mean; `None` without values or if a value is not finite and above zero.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u32);
    for value in values {
        if !(value.is_finite() && value > 0.0) {
            return None;
        }
        sum += value.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// A word for a speedup over a baseline, usually for the geometric mean of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rating {
    /// Below 0.9.
    Regression,
    /// At least 0.9 and below 1.1.
    Parity,
    /// At least 1.1 and below 1.5.
    Modest,
    /// At least 1.5 and below 2.
    Good,
    /// At least 2.
    Excellent,
}

impl Rating {
    /// The word for a speedup.
    pub fn from_speedup(speedup: f64) -> Self {
        match speedup {
            x if x >= 2.0 => Rating::Excellent,
            x if x >= 1.5 => Rating::Good,
            x if x >= 1.1 => Rating::Modest,
            x if x >= 0.9 => Rating::Parity,
            _ => Rating::Regression,
        }
    }
}

impl fmt::Display for Rating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Rating::Regression => "regression",
            Rating::Parity => "parity",
            Rating::Modest => "modest",
            Rating::Good => "good",
            Rating::Excellent => "excellent",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thresholds_of_the_words_are_right() {
        use Rating::{Excellent, Good, Modest, Parity, Regression};
        let words = [2.0, 1.999, 1.5, 1.499, 1.1, 1.099, 0.9, 0.899, 0.0].map(Rating::from_speedup);
        assert_eq!(words, [Excellent, Good, Good, Modest, Modest, Parity, Parity, Regression, Regression]);
        assert_eq!(Rating::from_speedup(f64::NAN), Regression);
    }

    /// scipy 1.17: `scipy.stats.gmean([1.2, 0.8, 2.5])`.
    #[test]
    fn the_geometric_mean_matches_scipy() {
        let mean = geometric_mean([1.2, 0.8, 2.5]).unwrap();
        assert!((mean - 1.338865900164339).abs() < 1e-14, "{mean}");
        assert_eq!(geometric_mean([2.0, 0.5]), Some(1.0));
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([1.0, 0.0]), None);
        assert_eq!(geometric_mean([1.0, f64::NAN]), None);
    }
}
