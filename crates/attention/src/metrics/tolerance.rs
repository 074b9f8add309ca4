//! The largest acceptable errors of an output.

use family::Weights;
use serde::{Deserialize, Serialize};

use crate::oracle::{Fp8Sums, Reference, Rounding, WeightRounding};
use crate::problem::{Dtype, Problem};

/// The largest acceptable errors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Absolute error allowed for an element; multiplied by the root mean square of V if that is above 1.
    pub atol: f64,
    /// Error allowed in addition, as a fraction of the element's reference.
    pub rtol: f64,
    /// Largest relative error of a weight.
    pub weight: f64,
    /// Largest ratio of the error's L2 norm to the reference's.
    pub l2: f64,
    /// The same for a single row.
    pub row: f64,
    /// The precision of the weights.
    pub weights: Weights,
    /// Whether the scores are sums of FP8 tensor cores.
    pub fp8_sums: bool,
}

impl Tolerance {
    /// The tolerance for inputs of this type and weights of this precision.
    pub fn new(dtype: Dtype, weights: Weights) -> Self {
        let (l2, row) = match (dtype, weights) {
            (Dtype::Fp16, _) => (1e-3, 2e-3),
            (Dtype::Bf16, _) => (8e-3, 1.6e-2),
            (Dtype::E4m3, Weights::Half) => (2e-3, 2e-3),
            (Dtype::E4m3, Weights::Fp8) => (3e-2, 0.1),
        };
        let weights = if dtype == Dtype::E4m3 { weights } else { Weights::Half };
        let weight = if weights == Weights::Fp8 { 2.0_f64.powi(-4) } else { 0.0 };
        Tolerance { atol: 1e-2, rtol: 1e-2, weight, l2, row, weights, fp8_sums: false }
    }

    /// The same for the output of a problem. The figures of [`Tolerance::new`] include the rounding of the usual output.
    /// A bf16 output of FP8 inputs is off by up to 2^-9 of itself in addition.
    #[must_use]
    pub fn with_output_of(self, problem: &Problem) -> Self {
        if problem.output == problem.dtype.output() {
            return self;
        }
        let rounding = 2.0_f64.powi(-9);
        Tolerance { l2: self.l2 + rounding, row: self.row + rounding, ..self }
    }

    /// The same for scores that are sums of FP8 tensor cores.
    #[must_use]
    pub fn with_fp8_sums(self) -> Self {
        Tolerance { fp8_sums: true, ..self }
    }

    /// What the sums of FP8 tensor cores can change, if the kernel has such sums.
    pub(super) fn fp8_sums<'r>(&self, reference: &'r Reference) -> Option<&'r Fp8Sums> {
        reference.fp8_sums.as_ref().filter(|_| self.fp8_sums)
    }

    fn weight_rounding(&self, rounding: &Rounding) -> WeightRounding {
        match self.weights {
            Weights::Half => rounding.half,
            Weights::Fp8 => rounding.fp8,
        }
    }

    /// The largest L2 norm of the error of a row whose reference has this norm.
    pub(super) fn allowed_row(&self, norm: f64, rounding: &Rounding) -> f64 {
        let WeightRounding { spread, lost, .. } = self.weight_rounding(rounding);
        (self.row * norm).max(self.with_row_spread(norm, spread)) + LOST * lost + rounding.output
    }

    /// The limit of an output with this norm in which the rounding of weights changes one row by this much.
    pub(super) fn with_row_spread(&self, norm: f64, spread: f64) -> f64 {
        (self.l2 * norm).hypot(ROW_SPREAD * spread)
    }

    /// What the rounding of weights changes in a row.
    pub(super) fn spread(&self, rounding: &Rounding) -> f64 {
        self.weight_rounding(rounding).spread
    }

    /// What a row adds to the limit of the whole output, as L2 norms: the rounding of weights, if the limit does not
    /// cover it anyway, and the rounding of scores.
    pub(super) fn extra_of_row(&self, norm: f64, rounding: &Rounding) -> [f64; 2] {
        let WeightRounding { spread_of_others, lost, .. } = self.weight_rounding(rounding);
        // With FP8 weights the limit is little more than the rounding of the weights of normal inputs.
        let usual = if self.weights == Weights::Fp8 { self.l2 } else { 0.5 * self.l2 };
        let is_unusual = spread_of_others > usual * norm;
        let unusual = if is_unusual { WHOLE_SPREAD * spread_of_others } else { 0.0 };
        [unusual + LOST * lost, rounding.output]
    }

    /// The largest error allowed for an element; `element` is its index in the reference's output.
    pub fn allowed(&self, reference: &Reference, element: usize) -> f64 {
        let width = reference.problem.head_dim;
        let rounding = &reference.rounding[element / width];
        // A column can have several times the average share of its row's error.
        let largest = |norm: f64| 4.0 * norm / (width as f64).sqrt();
        let row = reference.rows.list()[element / width];
        let (size, wanted) = (reference.value_size(row).max(1.0), reference.output[element].abs());
        let usual = self.atol * size + self.rtol * wanted;
        let magnitude = reference.magnitude.as_ref().map_or(0.0, |magnitude| magnitude[element]);
        let by_weights = match self.weights {
            Weights::Half => {
                let unit = unit_roundoff(reference.problem.output);
                usual.min(unit * size + 2.0 * (unit * wanted + largest(rounding.unfused)))
            }
            Weights::Fp8 => usual + self.weight * magnitude,
        };
        by_weights
            + largest(rounding.output + self.weight_rounding(rounding).lost)
            + self.fp8_sums(reference).map_or(0.0, |sums| sums.output[element])
    }
}

/// Half the distance from 1 to the next number of an output's type.
fn unit_roundoff(dtype: Dtype) -> f64 {
    2.0_f64.powi(if dtype == Dtype::Bf16 { -8 } else { -11 })
}

/// Multiples of [`WeightRounding::spread`] that a row and the whole output may have. The error of a single weight is at
/// most sqrt(3) times its root mean square. The errors of many weights have a normal distribution along the mean of
/// positive values, and the worst of many rows is four times the root mean square. The rows of an output often have the
/// same heavy keys.
const ROW_SPREAD: f64 = 4.0;
const WHOLE_SPREAD: f64 = 1.75;
/// Multiple of [`WeightRounding::lost`] that is allowed.
const LOST: f64 = 1.25;
