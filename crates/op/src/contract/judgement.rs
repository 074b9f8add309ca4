//! The judgement of an answer.

use family::{Candidate, Family};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::OpReference;

/// One defect of an answer or a launch.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Complaint {
    /// A fixed name for programs: `unwritten`, `non-finite`, `constant`, `elements`, ...
    pub kind: String,
    /// The defect in words.
    pub message: String,
}

/// The relative L2 error of one row.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct JudgedRow {
    /// The row in words: `batch 0, head 3, query 17`.
    pub row: String,
    /// Relative L2 error of the row; in JSON `null` if the reference is zero.
    #[schemars(with = "Option<f64>")]
    pub error: f64,
    /// Largest allowed value; in JSON `null` if the reference is zero.
    #[schemars(with = "Option<f64>")]
    pub limit: f64,
}

/// The result of comparing an answer with the reference.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Judgement {
    /// Relative L2 error.
    pub error: f64,
    /// Largest allowed relative L2 error.
    pub limit: f64,
    /// The largest absolute error of an element.
    pub worst: f64,
    /// The row with the largest error relative to its limit. `None` if the op has no rows, or the answer is not finite.
    pub worst_row: Option<JudgedRow>,
    /// Largest ratio of an error to its limit, over all limits of the op. More than 1 if the answer is wrong; in JSON
    /// `null` if it is not finite.
    #[schemars(with = "Option<f64>")]
    pub share: f64,
    /// `error` as a multiple of the error of an exact answer that is rounded once to the type of the output. Near 1,
    /// everything before the last rounding was more precise than the output. `None` for integers.
    #[serde(default)]
    pub roundings: Option<f64>,
    /// Error from rounding the inputs to their format, relative to the original inputs. It is never part of `error`.
    pub quantisation: Option<f64>,
    /// How many elements were compared.
    pub compared: usize,
    /// How many elements the answer has.
    pub elements: usize,
    /// Empty if the answer is acceptable.
    pub complaints: Vec<Complaint>,
}

impl Judgement {
    /// Whether only some of the elements were compared.
    pub fn is_sampled(&self) -> bool {
        self.compared < self.elements
    }
}

/// The relative L2 error of numbers that are rounded once, in units of the unit roundoff: the root mean square of the
/// errors of numbers whose mantissas are equally frequent between two powers of 2.
const ONE_ROUNDING: f64 = 0.41;

/// An error as a share of its limit. The share of an error of 0 is 0, even if the limit is 0; an error that is NaN is
/// beyond every limit.
pub fn share_of(error: f64, limit: f64) -> f64 {
    match error {
        0.0 => 0.0,
        _ if error.is_nan() => f64::INFINITY,
        _ => error / limit,
    }
}

/// A relative L2 error as a multiple of that of one rounding to a type with `bits` significant bits, for
/// [`Judgement::roundings`].
pub fn roundings(error: f64, bits: i32) -> f64 {
    error / (ONE_ROUNDING * 0.5_f64.powi(bits))
}

/// A picture of the wrong elements of an answer.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Picture {
    /// The picture as lines of characters, for a terminal.
    pub text: String,
    /// The picture as an SVG document.
    pub svg: String,
}

/// A wider tolerance that an op grants a kernel.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ExtraTolerance {
    /// The op's name for what it grants.
    pub name: String,
    /// What is allowed and why, for every verdict.
    pub note: String,
    /// Whether launches on the same inputs may give different bits, because the order of atomic additions differs. Each
    /// of them must be within the tolerance.
    #[serde(default)]
    pub is_unordered: bool,
}

/// The tolerances of an op.
pub trait OpJudgement: OpReference {
    /// The extra tolerance of a kernel on a problem. It is granted only if the family asks for it and the kernel's
    /// instructions show why. Otherwise the op's own tolerance holds.
    fn extra_tolerance(&self, family: &Family, problem: &Self::Problem, ptx: &str) -> Option<ExtraTolerance>;

    /// Compares a kernel's outputs, in the arrangement's order, with the reference. `extra` is the kernel's
    /// [`OpJudgement::extra_tolerance`].
    fn judge(
        &self,
        extra: Option<&ExtraTolerance>,
        inputs: &Self::Inputs,
        reference: &Self::Reference,
        outputs: &[Vec<u8>],
    ) -> Judgement;

    /// Reports an answer that ignores an input. `before` and `after` are pairs of reference and answer; only that input
    /// was redrawn between them.
    fn ignored_input(
        &self,
        extra: Option<&ExtraTolerance>,
        which: &str,
        before: (&Self::Reference, &[Vec<u8>]),
        after: (&Self::Reference, &[Vec<u8>]),
    ) -> Option<Complaint>;

    /// A picture of the wrong elements; `None` if the answer is correct.
    fn picture(
        &self,
        candidate: &Candidate,
        extra: Option<&ExtraTolerance>,
        inputs: &Self::Inputs,
        reference: &Self::Reference,
        outputs: &[Vec<u8>],
    ) -> Option<Picture>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_rounded_once_have_one_rounding() {
        let mut random = random::Random::new(7);
        for bits in [8, 11, 24] {
            let (mut errors, mut squares) = (0.0, 0.0);
            for _ in 0..20_000 {
                let exact = random.normal();
                let (scale, steps) = (exact.abs().log2().floor().exp2(), f64::from(1 << (bits - 1)));
                let rounded = (exact / scale * steps).round() / steps * scale;
                errors += (rounded - exact) * (rounded - exact);
                squares += exact * exact;
            }
            let found = roundings(f64::sqrt(errors / squares), bits);
            assert!((0.9..1.1).contains(&found), "{bits} bits: {found}");
        }
    }
}
