//! What the rounding of weights to a 16-bit or 8-bit type changes in a row's output.
//!
//! The model is FlashAttention: the largest weight of a row is 1, or 2^8 in E4M3, and each weight is rounded to nearest,
//! with the type's subnormal numbers. A kernel must be right wherever this model is, so its limits grow only by what the
//! model loses.

use super::Head;

/// What rounding the weights of a row to one type changes, as L2 norms of the error of the row's output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightRounding {
    /// Root mean square of the error if the roundings of different weights are independent.
    pub spread: f64,
    /// The same if the largest weight is exact, as it is in the model.
    pub spread_of_others: f64,
    /// Error from weights below the type's normal numbers. Such weights are rounded alike, so their errors can add up.
    pub lost: f64,
}

impl WeightRounding {
    pub(super) fn scaled(self, by: f64) -> Self {
        let WeightRounding { spread, spread_of_others, lost } = self;
        WeightRounding { spread: by * spread, spread_of_others: by * spread_of_others, lost: by * lost }
    }
}

/// A type of weights.
#[derive(Clone, Copy)]
pub(super) struct WeightFormat {
    fraction_bits: i32,
    /// Exponent of the smallest normal number, relative to the largest weight.
    least_exponent: i32,
}

impl WeightFormat {
    pub const FP16: WeightFormat = WeightFormat { fraction_bits: 10, least_exponent: -14 };
    pub const BF16: WeightFormat = WeightFormat { fraction_bits: 7, least_exponent: -126 };
    pub const E4M3: WeightFormat = WeightFormat { fraction_bits: 3, least_exponent: -6 - 8 };

    /// The distance between the type's numbers around a weight, which is at most 1.
    fn step(self, weight: f64) -> f64 {
        let exponent = ((weight.to_bits() >> 52) as i32 - 1023).max(self.least_exponent);
        2.0_f64.powi(exponent - self.fraction_bits)
    }
}

/// Weights below this share of the largest change nothing that is judged.
const LEAST: f64 = 1.0 / (1_u64 << 40) as f64;

/// The effect of rounding on one row, before the scale of V. `norms` are the norms of the values, `scratch` has the width
/// of a row.
pub(super) fn weight_rounding(
    format: WeightFormat,
    weights: &[f64],
    (values, norms): (&Head<'_>, &[f64]),
    scratch: &mut [f64],
) -> WeightRounding {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return WeightRounding::default();
    }
    let least_normal = 2.0_f64.powi(format.least_exponent);
    scratch.fill(0.0);
    let (mut square, mut square_of_largest, mut any_lost) = (0.0, 0.0, false);
    for (key, (weight, norm)) in weights.iter().zip(norms).enumerate() {
        let weight = weight / largest;
        if weight < LEAST || *norm == 0.0 {
            continue;
        }
        let step = format.step(weight);
        let deviation = (step / 12.0_f64.sqrt()).min(weight);
        let sum = if weight == 1.0 { &mut square_of_largest } else { &mut square };
        *sum += (deviation * norm).powi(2);
        if weight < least_normal {
            let error = (weight / step).round_ties_even() * step - weight;
            let value = &values.data[key * values.head_dim..][..values.head_dim];
            scratch.iter_mut().zip(value).for_each(|(sum, v)| *sum += error * f64::from(*v));
            any_lost = true;
        }
    }
    let lost = if any_lost { super::norm(scratch) } else { 0.0 };
    let spread = (square + square_of_largest).sqrt();
    WeightRounding { spread, spread_of_others: square.sqrt(), lost }.scaled(largest)
}

/// Root mean square of the error that rounding the scores to a 16-bit type makes in a row, as an unfused implementation
/// in 16 bits does, before the scale of V.
pub(super) fn score_rounding(format: WeightFormat, weights: &[f64], lse: f64, norms: &[f64]) -> f64 {
    let unit = 2.0_f64.powi(-format.fraction_bits - 1) / 3.0_f64.sqrt();
    let terms = weights.iter().zip(norms).filter(|(weight, _)| **weight > LEAST);
    let square = terms.map(|(weight, norm)| ((lse + weight.ln()) * weight * norm).powi(2)).sum::<f64>();
    unit * square.sqrt()
}
