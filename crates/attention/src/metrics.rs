//! Measures the error of an output against the oracle's reference and decides whether it is acceptable.
//!
//! The conditions, in this order: every element is written and finite; element-wise `|o - ref| <= atol + rtol *
//! |ref|`; and a bound on the L2 norm of the error relative to that of the reference. The element-wise bound alone
//! would accept any output of small numbers (atol is 1e-2, and attention averages). The L2 bound alone would accept
//! one wrong row among thousands.
//!
//! # The size of the values
//!
//! Attention is linear in V: values that are sixty times larger make an output and every error sixty times larger.
//! With a fixed `atol` of 1e-2 no kernel could pass where two large values nearly cancel (seen on an H200 with inputs
//! of class `large`, where scores of some thousands also carry the error of fp32). `atol` is therefore meant for
//! values of unit size and is multiplied by the root mean square of V if that is above 1. It is never reduced, so
//! that small values have no stricter bound than the documented one. The L2 bound is relative and needs no
//! adjustment.
//!
//! # The rounding of the weights
//!
//! A kernel that multiplies FP8 by FP8 rounds its weights to E4M3's three bits. Each weight is then off by up to 2^-4
//! of itself, and an element by up to `2^-4 sum(p |v|)`. Among ordinary values most of this averages out. A value
//! that is much larger than its neighbours brings the full error of its weight, and if another such value cancels it
//! in the output, the errors remain (class `outliers`: 1.875 where 2.38 was right). No multiple of the output and of
//! V's mean size covers this without being too wide for all other rows. These kernels are therefore allowed that sum
//! in addition, element by element; the oracle computes it together with the reference. The L2 bound is not extended.
//!
//! # The resolution of the output format
//!
//! A correctly rounded fp16 output is within 2^-11 of the exact one, relatively, if it is a normal number. Below
//! 6.1e-5 fp16's steps stop shrinking (2^-24), and rounding alone can cost any share of the number. Inputs of class
//! `tiny` give outputs around 1e-6, whose best fp16 approximation has a relative L2 error of 1e-2, ten times the
//! bound. A wider bound would hide real faults everywhere else, and a minimum for the denominator would falsify the
//! reported error. The L2 bound is therefore on the absolute error. In addition to `l2 * |ref|` it allows exactly the
//! worst case of rounding: half a subnormal step for each element whose reference is strictly between zero and the
//! smallest normal number. A perfect kernel always passes. A kernel that flushes subnormals to zero, or drops a tile,
//! has errors of many steps and fails. Zeros get no allowance, because they are representable. The reported error is
//! the plain ratio, and the number of elements with an allowance is reported with it.
//!
//! # The rounding of large scores
//!
//! A score is an fp32 sum of products. If large products cancel, the score is small, but its error is proportional to
//! the products: with inputs of class `large` and 256 columns, -26.1618 was found where -26.1589 is exact. An error of
//! a score is a relative error of a weight, so it also changes the output where several keys have a weight. The oracle
//! computes both effects for each row ([`crate::oracle::Rounding`]), and all three bounds allow them. A row with one
//! dominant key gets no allowance for its output. For inputs of unit size the allowance is about 1e-5, so it hides
//! nothing.
//!
//! # The sums of FP8 tensor cores
//!
//! Hopper's `wgmma` adds FP8 products with 13 fraction bits, not with the 23 of fp32: it cuts every product and every
//! sum 13 bits below the largest term. A score of 13453 came out as 13449, and no kernel that uses these instructions
//! can do better. Such an error moves the log-sum-exp, and if two keys are nearly tied, also the output. A kernel whose
//! matrix products are all FP8 `wgmma` is therefore allowed what such errors can change. The oracle computes it from
//! the inputs ([`crate::oracle::Fp8Sums`]): the largest error of every score, from it the largest error of the row's
//! log-sum-exp, and for every element what a shift of the weights by these errors can change.
//!
//! The allowance is local. An element may use its own only: the L2 bound ignores that part of an element's error which
//! the element's allowance covers, and holds for the rest. A row with one dominant key, or with many light ones, has no
//! allowance for its output. The sums of P V have the same 13 bits, but they get no allowance: a kernel can add its
//! tiles in fp32.

use std::fmt;

use family::Family;
use serde::{Deserialize, Serialize};

use crate::inputs::Input;
use crate::oracle::{Fp8Sums, Reference, Row};
use crate::problem::{Dtype, Problem};
use crate::tensor::Tensor;

/// How the kernel multiplies P by V. This decides how much rounding is acceptable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// Weights in fp16, bf16 or fp32; FP8 values decoded to fp16.
    #[default]
    Half,
    /// Weights are rounded to FP8, too.
    Fp8,
}

impl Weights {
    /// The precision that a family's manifest declares for its weights with inputs of this type.
    pub fn declared_by(family: &Family, dtype: Dtype) -> Self {
        match family.weights(dtype.name()) {
            family::Weights::Half => Weights::Half,
            family::Weights::Fp8 => Weights::Fp8,
        }
    }
}

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
    /// Whether the scores are sums of FP8 tensor cores.
    pub fp8_sums: bool,
}

impl Tolerance {
    /// The tolerance for inputs of this type and weights of this precision.
    pub fn new(dtype: Dtype, weights: Weights) -> Self {
        let l2 = match (dtype, weights) {
            (Dtype::Fp16, _) => 1e-3,
            (Dtype::Bf16, _) => 8e-3,
            (Dtype::E4m3, Weights::Half) => 2e-3,
            (Dtype::E4m3, Weights::Fp8) => 3e-2,
        };
        let weight = if (dtype, weights) == (Dtype::E4m3, Weights::Fp8) { 2.0_f64.powi(-4) } else { 0.0 };
        Tolerance { atol: 1e-2, rtol: 1e-2, weight, l2, fp8_sums: false }
    }

    /// The same for the output of a problem. The figures of [`Tolerance::new`] include the rounding of the usual output.
    /// A bf16 output of FP8 inputs is off by up to 2^-9 of itself in addition.
    #[must_use]
    pub fn with_output_of(self, problem: &Problem) -> Self {
        if problem.output == problem.dtype.output() {
            return self;
        }
        Tolerance { l2: self.l2 + 2.0_f64.powi(-9), ..self }
    }

    /// The same for scores that are sums of FP8 tensor cores.
    #[must_use]
    pub fn with_fp8_sums(self) -> Self {
        Tolerance { fp8_sums: true, ..self }
    }

    /// What the sums of FP8 tensor cores can change, if the kernel has such sums.
    fn fp8_sums<'r>(&self, reference: &'r Reference) -> Option<&'r Fp8Sums> {
        reference.fp8_sums.as_ref().filter(|_| self.fp8_sums)
    }

    /// The largest error allowed for an element; `element` is its index in the reference's output. A column can have
    /// several times the average share of its row's rounding.
    pub fn allowed(&self, reference: &Reference, element: usize) -> f64 {
        let magnitude = reference.magnitude.as_ref().map_or(0.0, |magnitude| magnitude[element]);
        let width = reference.problem.head_dim;
        let rounding = 4.0 * reference.rounding[element / width].output / (width as f64).sqrt();
        self.atol * reference.value_size.max(1.0)
            + self.rtol * reference.output[element].abs()
            + self.weight * magnitude
            + rounding
            + self.fp8_sums(reference).map_or(0.0, |sums| sums.output[element])
    }
}

/// Absolute and relative tolerance of the log-sum-exp, in addition to the rounding of cancelling products.
const LSE: (f64, f64) = (1e-3, 1e-5);

/// The position of an output element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The query row of one head.
    pub row: Row,
    /// Index along the head dimension.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { batch, head, query } = self.row;
        write!(f, "[batch {batch}, head {head}, query {query}, column {}]", self.column)
    }
}

/// An element, and the reference for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Element {
    /// The element's position.
    pub place: Place,
    /// The kernel's value.
    pub got: f64,
    /// The reference's value.
    pub wanted: f64,
}

impl Element {
    /// The absolute error.
    pub fn error(&self) -> f64 {
        (self.got - self.wanted).abs()
    }
}

/// Why an output is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Mismatch {
    /// Elements still contain the poison that was there before the launch.
    #[error("{count} elements were never written, the first at {first}")]
    Unwritten {
        /// Number of such elements.
        count: usize,
        /// Position of the first one.
        first: Place,
    },
    /// Elements were written but are infinite or NaN.
    #[error("{count} elements are not finite, the first at {first} ({value})")]
    NonFinite {
        /// Number of such elements.
        count: usize,
        /// Position of the first one.
        first: Place,
        /// Value of the first one.
        value: f64,
    },
    /// The output is wrong, and all its elements have the same value.
    #[error("every element is {value}, although the reference is not constant")]
    Constant {
        /// The value of every element.
        value: f64,
    },
    /// The output does not change when one input is redrawn, although the reference changes.
    #[error("the output does not depend on {of}: another {of} gives the same bits")]
    Independent {
        /// The input that the output ignores.
        of: Input,
    },
    /// Elements differ from the reference by more than the element-wise tolerance.
    #[error("{count} elements exceed the tolerance, the worst at {}: {} instead of {}", worst.place, worst.got, worst.wanted)]
    Elements {
        /// Number of such elements.
        count: usize,
        /// The element with the largest error relative to its tolerance.
        worst: Element,
    },
    /// The L2 norm of all errors is too large.
    #[error("relative L2 error {error:.2e}, but at most {limit:.2e} is allowed")]
    L2 {
        /// The error's L2 norm divided by the reference's.
        error: f64,
        /// The largest allowed ratio.
        limit: f64,
    },
    /// The log-sum-exp of some rows is wrong.
    #[error("the log-sum-exp of {count} rows is wrong, the worst at batch {}, head {}, query {}: {got} instead of {wanted}", worst.batch, worst.head, worst.query)]
    Lse {
        /// Number of such rows.
        count: usize,
        /// The row with the largest error relative to its tolerance.
        worst: Row,
        /// The kernel's log-sum-exp of the worst row.
        got: f64,
        /// The reference's log-sum-exp of the worst row.
        wanted: f64,
    },
}

impl Mismatch {
    /// The name by which programs distinguish failures.
    pub fn kind(&self) -> &'static str {
        match self {
            Mismatch::Unwritten { .. } => "unwritten",
            Mismatch::NonFinite { .. } => "non-finite",
            Mismatch::Constant { .. } => "constant",
            Mismatch::Independent { .. } => "independent",
            Mismatch::Elements { .. } => "elements",
            Mismatch::L2 { .. } => "l2",
            Mismatch::Lse { .. } => "lse",
        }
    }
}

/// The comparison of an output with the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of compared elements; fewer than all if the oracle sampled rows.
    pub elements: usize,
    /// The largest absolute error.
    pub worst: Option<Element>,
    /// `|o - ref| / |ref|` in L2: 0 for no error, infinite if the reference is zero or the output is not finite.
    pub relative_l2: f64,
    /// The largest allowed value: the tolerance, what the format cannot resolve, and the part of the error that the
    /// elements' own allowances cover (see the module's notes).
    pub relative_l2_limit: f64,
    /// Number of elements whose reference is below the output format's normal numbers.
    pub below_normal: usize,
    /// Empty if the output is acceptable.
    pub failures: Vec<Mismatch>,
}

impl Comparison {
    /// Whether the output is acceptable.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// The smallest normal number of the output format, and the distance between its subnormal numbers.
fn least_normal_and_step(output: Dtype) -> (f64, f64) {
    let power = |exponent: i32| 2.0_f64.powi(exponent);
    match output {
        Dtype::Fp16 | Dtype::E4m3 => (power(-14), power(-24)),
        Dtype::Bf16 => (power(-126), power(-133)),
    }
}

/// Compares a kernel's output, and its LSE if there is one, with the reference.
pub fn compare(
    reference: &Reference,
    output: &Tensor,
    lse: Option<&[f32]>,
    tolerance: Tolerance,
) -> Comparison {
    let problem = &reference.problem;
    let decoded = output.decode();
    let mut failures = missing_elements(reference, output, &decoded.data);
    let finite = failures.is_empty();

    let (least_normal, step) = least_normal_and_step(problem.output);
    let fp8_sums = tolerance.fp8_sums(reference);
    let (mut error_square, mut reference_square) = (0.0, 0.0);
    let mut uncovered_square = 0.0; // of the errors, without what FP8 sums can change
    let (mut beyond, mut below_normal) = (0, 0);
    let mut worst: Option<Element> = None;
    let mut worst_beyond: Option<(f64, Element)> = None;
    for (compared, (row, wanted_row, _)) in reference.iter().enumerate() {
        let got_row = &decoded.data[row.index(problem) * problem.head_dim..][..problem.head_dim];
        for (column, (&got, &wanted)) in got_row.iter().zip(wanted_row).enumerate() {
            let element = Element { place: Place { row, column }, got: f64::from(got), wanted };
            let error = element.error();
            error_square += error * error;
            reference_square += wanted * wanted;
            below_normal += usize::from(wanted != 0.0 && wanted.abs() < least_normal);
            if worst.is_none_or(|worst| error > worst.error()) {
                worst = Some(element);
            }
            let index = compared * problem.head_dim + column;
            let covered = fp8_sums.map_or(0.0, |sums| sums.output[index]);
            uncovered_square += (error - covered).max(0.0).powi(2);
            let share = error / tolerance.allowed(reference, index);
            if exceeds(share, 1.0) {
                beyond += 1;
                if worst_beyond.is_none_or(|(before, _)| share > before) {
                    worst_beyond = Some((share, element));
                }
            }
        }
    }

    let (error_norm, reference_norm) = (error_square.sqrt(), reference_square.sqrt());
    let unresolved = step / 2.0 * (below_normal as f64).sqrt();
    let rounded = reference.rounding.iter().map(|row| row.output * row.output).sum::<f64>().sqrt();
    let covered = if finite { error_norm - uncovered_square.sqrt() } else { 0.0 };
    let limit = tolerance.l2 * reference_norm + unresolved + rounded + covered;
    let ratio = |norm: f64| if norm == 0.0 { 0.0 } else { norm / reference_norm };
    let (relative_l2, relative_l2_limit) = (ratio(error_norm), ratio(limit));
    if finite {
        if let Some((_, worst)) = worst_beyond {
            failures.push(Mismatch::Elements { count: beyond, worst });
        }
        if exceeds(error_norm, limit) {
            failures.push(Mismatch::L2 { error: relative_l2, limit: relative_l2_limit });
        }
        if !failures.is_empty()
            && let Some(value) = only_value(&decoded.data)
            && reference.output.iter().any(|x| *x != reference.output[0])
        {
            failures.insert(0, Mismatch::Constant { value });
        }
    }
    failures.extend(lse.and_then(|lse| compare_lse(reference, lse, fp8_sums)));
    Comparison {
        elements: reference.output.len(),
        worst,
        relative_l2: if finite { relative_l2 } else { f64::INFINITY },
        relative_l2_limit,
        below_normal,
        failures,
    }
}

/// A NaN exceeds every limit, so that no comparison accepts it.
fn exceeds(value: f64, limit: f64) -> bool {
    value.is_nan() || value > limit
}

/// Elements that were not written or are not finite, over the whole output, sampled or not.
fn missing_elements(reference: &Reference, output: &Tensor, decoded: &[f32]) -> Vec<Mismatch> {
    let shape = output.shape;
    let place = |index: usize| {
        let (row, column) = (index / shape.head_dim, index % shape.head_dim);
        let (all_head, query) = (row / shape.seq, row % shape.seq);
        let row = Row { batch: all_head / shape.heads, head: all_head % shape.heads, query };
        Place { row, column }
    };
    debug_assert_eq!(shape, reference.problem.query_shape());
    let missing_elements =
        decoded.iter().enumerate().filter(|(_, value)| !value.is_finite()).map(|(index, _)| index);
    let (unwritten, wrong): (Vec<usize>, Vec<usize>) =
        missing_elements.partition(|&index| output.is_poison(index));
    let mut failures = Vec::new();
    if let Some(&first) = unwritten.first() {
        failures.push(Mismatch::Unwritten { count: unwritten.len(), first: place(first) });
    }
    if let Some(&first) = wrong.first() {
        let value = f64::from(decoded[first]);
        failures.push(Mismatch::NonFinite { count: wrong.len(), first: place(first), value });
    }
    failures
}

/// The common value of all elements, if there are several and they are equal.
fn only_value(data: &[f32]) -> Option<f64> {
    let (first, rest) = data.split_first()?;
    (!rest.is_empty() && rest.iter().all(|x| x == first)).then(|| f64::from(*first))
}

fn compare_lse(reference: &Reference, lse: &[f32], fp8_sums: Option<&Fp8Sums>) -> Option<Mismatch> {
    let (atol, rtol) = LSE;
    let mut count = 0;
    let mut worst: Option<(f64, Row, f64, f64)> = None;
    for (index, ((row, _, wanted), rounding)) in reference.iter().zip(&reference.rounding).enumerate() {
        let got = f64::from(lse[row.index(&reference.problem)]);
        if got == wanted {
            continue; // -inf for -inf, too
        }
        let sums = fp8_sums.map_or(0.0, |sums| sums.lse[index]);
        let share = (got - wanted).abs() / (atol + rtol * wanted.abs() + rounding.lse + sums);
        if exceeds(share, 1.0) {
            count += 1;
            if worst.is_none_or(|(before, ..)| share > before) {
                worst = Some((share, row, got, wanted));
            }
        }
    }
    worst.map(|(_, worst, got, wanted)| Mismatch::Lse { count, worst, got, wanted })
}

/// Whether an output ignores an input. `before` and `after` are the reference and the kernel's output; between them
/// only that input was redrawn ([`crate::Inputs::redraw`]). Only inputs that change the reference count: with a
/// single key, for example, it depends on neither Q nor K.
pub fn ignored_input(
    of: Input,
    before: (&Reference, &Tensor),
    after: (&Reference, &Tensor),
    tolerance: Tolerance,
) -> Option<Mismatch> {
    let mut pairs = before.0.output.iter().zip(&after.0.output).enumerate();
    let should_differ =
        pairs.any(|(element, (a, b))| (a - b).abs() > 2.0 * tolerance.allowed(before.0, element));
    (should_differ && before.1.bytes == after.1.bytes).then_some(Mismatch::Independent { of })
}

/// The two errors of an FP8 output, kept apart: one is the kernel's, the other the format's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fp8Errors {
    /// The kernel's output compared with the oracle on the decoded inputs, as relative L2 error.
    pub kernel: f64,
    /// The oracle on the decoded inputs compared with the oracle on the original ones, as relative L2 error.
    pub quantisation: f64,
}

impl Fp8Errors {
    /// `decoded` and `original` are references for the same rows.
    pub fn new(comparison: &Comparison, decoded: &Reference, original: &Reference) -> Self {
        let quantisation = relative_l2(&decoded.output, &original.output);
        Fp8Errors { kernel: comparison.relative_l2, quantisation }
    }
}

/// `|a - b| / |b|`: 0 if they are equal, infinite if only b is zero.
pub fn relative_l2(a: &[f64], b: &[f64]) -> f64 {
    let error: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    let norm: f64 = b.iter().map(|b| b * b).sum();
    if error == 0.0 { 0.0 } else { (error / norm).sqrt() }
}

#[cfg(test)]
mod tests {
    use vgpu::num::codec;

    use super::*;
    use crate::inputs::{Class, Inputs};
    use crate::oracle::{self, Rows};
    use crate::problem::{Mask, Problem};
    use crate::tensor::{Layout, Values};

    fn solved(problem: Problem, class: Class) -> (Reference, Tensor, Vec<f32>) {
        let inputs = Inputs::generate(&problem, class, 1).encode(problem.dtype, Layout::Bhsd).decode();
        let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
        let data = reference.output.iter().map(|&x| x as f32).collect();
        let values = Values { shape: problem.query_shape(), data, scales: None };
        let output = Tensor::encode(&values, problem.output, Layout::Bshd);
        let lse = reference.lse.iter().map(|&x| x as f32).collect();
        (reference, output, lse)
    }

    fn change(output: &Tensor, change: impl Fn(usize, &mut f32)) -> Tensor {
        let mut values = output.decode();
        values.data.iter_mut().enumerate().for_each(|(index, x)| change(index, x));
        Tensor::encode(&values, output.dtype, output.layout)
    }

    fn problem() -> Problem {
        Problem::new(1, 2, 70, 64, Dtype::Fp16).with_mask(Mask::Causal)
    }

    fn failures(reference: &Reference, output: &Tensor) -> Vec<Mismatch> {
        let tolerance = Tolerance::new(reference.problem.dtype, Weights::Half);
        compare(reference, output, None, tolerance).failures
    }

    #[test]
    fn the_rounded_reference_passes_in_every_class_and_type() {
        for dtype in Dtype::ALL {
            for class in Class::ALL {
                let (reference, output, lse) = solved(problem().with_dtype(dtype), class);
                let tolerance = Tolerance::new(dtype, Weights::Half);
                let comparison = compare(&reference, &output, Some(&lse), tolerance);
                assert!(comparison.passed(), "{dtype} {class}: {:?}", comparison.failures);
            }
        }
    }

    #[test]
    fn class_tiny_passes_only_with_the_subnormal_allowance() {
        let (reference, output, _) = solved(Problem::new(1, 2, 512, 64, Dtype::Fp16), Class::Tiny);
        let comparison = compare(&reference, &output, None, Tolerance::new(Dtype::Fp16, Weights::Half));
        assert!(comparison.relative_l2 > 1e-3 && comparison.passed(), "{comparison:?}");
        assert!(comparison.below_normal * 10 > 9 * comparison.elements);
        // The allowance covers only rounding: an output flushed to zero, or with one tile of zeros, fails.
        assert!(matches!(
            failures(&reference, &change(&output, |_, x| *x = 0.0))[..],
            [_, Mismatch::L2 { .. }]
        ));
        let tile_lost = change(&output, |index, x| {
            if index / 64 < 32 {
                *x = 0.0;
            }
        });
        assert!(matches!(failures(&reference, &tile_lost)[..], [Mismatch::L2 { .. }]));
    }

    #[test]
    fn a_zero_reference_allows_only_zero() {
        let (reference, output, _) = solved(problem(), Class::Zeros);
        assert_eq!(failures(&reference, &output), []);
        let off = change(&output, |index, x| {
            if index == 5 {
                *x = 1e-6;
            }
        });
        assert!(matches!(failures(&reference, &off)[..], [Mismatch::L2 { error: f64::INFINITY, .. }]));
    }

    #[test]
    fn the_tolerance_scales_with_the_size_of_the_values() {
        let problem = problem();
        let inputs = |size: f32| {
            let mut inputs = Inputs::generate(&problem, Class::Normal, 1);
            inputs.v.data.iter_mut().for_each(|x| *x *= size);
            inputs
        };
        let judged = |size: f32, error: f32| {
            let reference = oracle::attention(&problem, &inputs(size), Rows::all(&problem));
            let mut data: Vec<f32> = reference.output.iter().map(|&x| x as f32).collect();
            data[5] += error * size;
            let values = Values { shape: problem.query_shape(), data, scales: None };
            failures(&reference, &Tensor::encode(&values, Dtype::Fp16, Layout::Bhsd)).is_empty()
        };
        assert!(judged(1.0, 0.009) && judged(64.0, 0.009));
        assert!(!judged(1.0, 0.1) && !judged(64.0, 0.1));
    }

    #[test]
    fn one_wrong_element_is_found_with_its_position() {
        let (reference, output, _) = solved(problem(), Class::Normal);
        let at = (70 + 3) * 64 + 9;
        let off = change(&output, |index, x| {
            if index == at {
                *x += 0.5;
            }
        });
        let found = failures(&reference, &off);
        let Mismatch::Elements { count: 1, worst } = found[0] else { panic!("{found:?}") };
        assert_eq!(worst.place, Place { row: Row { batch: 0, head: 1, query: 3 }, column: 9 });
        assert!((worst.error() - 0.5).abs() < 1e-3);
    }

    #[test]
    fn a_small_error_everywhere_is_found_by_the_norm() {
        let (reference, output, _) = solved(problem(), Class::Normal);
        let off = change(&output, |_, x| *x *= 1.004);
        assert!(matches!(failures(&reference, &off)[..], [Mismatch::L2 { .. }]));
    }

    #[test]
    fn unwritten_non_finite_and_constant_outputs_are_reported() {
        let (reference, output, _) = solved(problem(), Class::Normal);
        let unwritten = Tensor::poisoned(output.shape, output.dtype, output.layout);
        let all = output.shape.elements();
        assert!(
            matches!(failures(&reference, &unwritten)[..], [Mismatch::Unwritten { count, .. }] if count == all)
        );
        let infinite = change(&output, |index, x| {
            if index == 7 {
                *x = f32::INFINITY;
            }
        });
        let found = failures(&reference, &infinite);
        assert!(
            matches!(found[..], [Mismatch::NonFinite { count: 1, value: f64::INFINITY, .. }]),
            "{found:?}"
        );
        let constant = change(&output, |_, x| *x = 0.25);
        assert!(matches!(failures(&reference, &constant)[0], Mismatch::Constant { value: 0.25 }));
    }

    #[test]
    fn an_ignored_input_is_reported_if_the_reference_depends_on_it() {
        let answer = |problem: &Problem, inputs: &Inputs| {
            let reference = oracle::attention(problem, inputs, Rows::all(problem));
            let data = reference.output.iter().map(|&x| x as f32).collect();
            let values = Values { shape: problem.query_shape(), data, scales: None };
            (reference, Tensor::encode(&values, Dtype::Fp16, Layout::Bhsd))
        };
        for (problem, expected_count) in [(problem(), 3), (Problem::new(1, 1, 1, 64, Dtype::Fp16), 1)] {
            let inputs = Inputs::generate(&problem, Class::Normal, 1);
            let before = answer(&problem, &inputs);
            let mut reported = Vec::new();
            for of in Input::ALL {
                let after = answer(&problem, &inputs.redraw(&problem, Class::Normal, 2, of));
                let tolerance = Tolerance::new(Dtype::Fp16, Weights::Half);
                let result =
                    |output| ignored_input(of, (&before.0, &before.1), (&after.0, output), tolerance);
                // The right output follows its inputs; an unchanged output does not.
                assert_eq!(result(&after.1), None);
                reported.extend(result(&before.1));
            }
            assert_eq!(reported.len(), expected_count, "{reported:?}");
            assert!(reported.contains(&Mismatch::Independent { of: Input::V }));
        }
    }

    /// The output of a perfect kernel with modified weights. `change` gets the weights of a row; the largest is 1.
    fn output_with_weights(
        problem: &Problem,
        inputs: &Inputs,
        reference: &Reference,
        change: impl Fn(Row, &mut [f64]),
    ) -> Tensor {
        let width = problem.head_dim;
        let mut data = Vec::new();
        for (row, ..) in reference.iter() {
            let kv_head = row.head / (problem.heads / problem.kv_heads);
            let query = &inputs.q.head(row.batch, row.head)[row.query * width..][..width];
            let keys = inputs.k.head(row.batch, kv_head).chunks_exact(width);
            let values = inputs.v.head(row.batch, kv_head).chunks_exact(width);
            let scale = inputs.q.scale(row.batch, row.head)
                * inputs.k.scale(row.batch, kv_head)
                * f64::from(problem.softmax_scale());
            let dot =
                |key: &[f32]| query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let scores: Vec<f64> =
                keys.take(problem.visible_keys(row.query)).map(|key| scale * dot(key)).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let factor = inputs.v.scale(row.batch, kv_head) / weights.iter().sum::<f64>();
            change(row, &mut weights);
            let mut output = vec![0.0; width];
            for (weight, value) in weights.iter().zip(values) {
                output.iter_mut().zip(value).for_each(|(x, v)| *x += weight * factor * f64::from(*v));
            }
            data.extend(output.iter().map(|&x| x as f32));
        }
        let values = Values { shape: problem.query_shape(), data, scales: None };
        Tensor::encode(&values, problem.output, Layout::Bhsd)
    }

    /// As in a kernel that multiplies FP8 by FP8: the largest weight is 2^8.
    fn round_to_e4m3(weights: &mut [f64]) {
        for weight in weights {
            *weight = f64::from(codec::e4m3_to_f32(codec::f32_to_e4m3((*weight * 256.0) as f32))) / 256.0;
        }
    }

    fn fp8_problem() -> Problem {
        Problem { kv_heads: 2, ..Problem::new(1, 4, 129, 64, Dtype::E4m3) }.with_mask(Mask::Causal)
    }

    #[test]
    fn weights_rounded_to_fp8_pass_the_fp8_tolerance_only() {
        let problem = fp8_problem();
        for class in Class::ALL {
            for seed in 1..=4 {
                let inputs =
                    Inputs::generate(&problem, class, seed).encode(problem.dtype, Layout::Bhsd).decode();
                let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
                let output =
                    output_with_weights(&problem, &inputs, &reference, |_, weights| round_to_e4m3(weights));
                let result =
                    |weights| compare(&reference, &output, None, Tolerance::new(problem.dtype, weights));
                let fp8 = result(Weights::Fp8);
                assert!(fp8.passed(), "{class} {seed}: {:?}", fp8.failures);
                assert!(
                    class != Class::Normal || !result(Weights::Half).passed(),
                    "the tolerance of half weights"
                );
            }
        }
    }

    #[test]
    fn the_fp8_tolerance_still_finds_faults_in_single_elements() {
        let problem = fp8_problem();
        for class in [Class::Normal, Class::Outliers] {
            let inputs = Inputs::generate(&problem, class, 1).encode(problem.dtype, Layout::Bhsd).decode();
            let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
            let elements = |inputs: &Inputs, change: &dyn Fn(Row, &mut [f64])| {
                let output = output_with_weights(&problem, inputs, &reference, change);
                let tolerance = Tolerance::new(problem.dtype, Weights::Fp8);
                let failures = compare(&reference, &output, None, tolerance).failures;
                failures.iter().find_map(|failure| match failure {
                    Mismatch::Elements { worst, .. } => Some(worst.place.row),
                    _ => None,
                })
            };
            // One row leaves out its heaviest key.
            let last = Row { batch: 0, head: 3, query: 128 };
            let dropped = elements(&inputs, &|row, weights| {
                round_to_e4m3(weights);
                if row == last {
                    weights.iter_mut().filter(|weight| **weight == 1.0).for_each(|weight| *weight = 0.0);
                }
            });
            assert_eq!(dropped, Some(last), "{class}");
            // The scales of V's two heads are swapped.
            let mut swapped = inputs.clone();
            swapped.v.scales.as_mut().expect("FP8 has scales").swap(0, 1);
            assert!(elements(&swapped, &|_, weights| round_to_e4m3(weights)).is_some(), "{class}");
        }
    }

    #[test]
    fn a_wrong_log_sum_exp_is_found() {
        let (reference, output, mut lse) = solved(problem(), Class::Normal);
        lse[5] += 0.1;
        let comparison = compare(&reference, &output, Some(&lse), Tolerance::new(Dtype::Fp16, Weights::Half));
        let [Mismatch::Lse { count: 1, worst, .. }] = comparison.failures[..] else {
            panic!("{comparison:?}")
        };
        assert_eq!(worst.query, 5);
        lse[5] = f32::NAN;
        let comparison = compare(&reference, &output, Some(&lse), Tolerance::new(Dtype::Fp16, Weights::Half));
        assert!(!comparison.passed());
    }

    #[test]
    fn fp8_errors_of_kernel_and_quantisation_are_separate() {
        let problem = problem().with_dtype(Dtype::E4m3);
        let original = Inputs::generate(&problem, Class::Normal, 1);
        let (decoded, output, _) = solved(problem, Class::Normal);
        let original = oracle::attention(&problem, &original, Rows::all(&problem));
        let comparison = compare(&decoded, &output, None, Tolerance::new(Dtype::E4m3, Weights::Half));
        let errors = Fp8Errors::new(&comparison, &decoded, &original);
        assert!(errors.kernel < 5e-4 && (1e-2..1e-1).contains(&errors.quantisation), "{errors:?}");
    }

    /// The largest f32 whose magnitude is at most that of `x`, as tensor cores round their sums.
    fn truncated(x: f64) -> f32 {
        let nearest = x as f32;
        let too_large = f64::from(nearest).abs() > x.abs();
        if too_large { f32::from_bits(nearest.to_bits() - 1) } else { nearest }
    }

    /// An honest kernel's output and LSE: fp32 sums that are truncated after every 16 products, weights in fp16.
    /// `change` may falsify the scores.
    fn in_single_precision(
        problem: &Problem,
        inputs: &Inputs,
        change: impl Fn(f32) -> f32,
    ) -> (Tensor, Vec<f32>) {
        let width = problem.head_dim;
        let (mut data, mut lse) = (Vec::new(), Vec::new());
        let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|values| values.head(0, 0));
        for (index, query) in q.chunks_exact(width).enumerate() {
            let score = |key: &[f32]| {
                let pieces = query.chunks(16).zip(key.chunks(16));
                pieces.fold(0.0, |sum, (a, b)| {
                    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
                    truncated(f64::from(sum) + products.sum::<f64>())
                })
            };
            let visible = k.chunks_exact(width).take(problem.visible_keys(index));
            let scores: Vec<f32> = visible.map(|key| change(score(key)) * problem.softmax_scale()).collect();
            let maximum = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f32> = scores.iter().map(|score| (score - maximum).exp()).collect();
            let sum: f32 = weights.iter().sum();
            lse.push(maximum + sum.ln());
            let mut output = vec![0.0_f32; width];
            for (weight, value) in weights.iter().zip(v.chunks_exact(width)) {
                let weight = codec::f16_to_f32(codec::f32_to_f16_rn(*weight));
                output.iter_mut().zip(value).for_each(|(x, v)| *x += weight * v);
            }
            data.extend(output.iter().map(|x| x / sum));
        }
        let values = Values { shape: problem.query_shape(), data, scales: None };
        (Tensor::encode(&values, problem.output, Layout::Bhsd), lse)
    }

    /// Large inputs. If `ties`, every other key has the score of its neighbour, but other sums on the way to it.
    fn large_inputs(problem: &Problem, ties: bool, seed: u64) -> Inputs {
        let mut inputs = Inputs::generate(problem, Class::Large, seed);
        if ties {
            inputs.q.data.fill(60.0);
            for pair in inputs.k.data.chunks_exact_mut(2 * problem.head_dim) {
                let (key, other) = pair.split_at_mut(problem.head_dim);
                other.iter_mut().zip(key.iter().rev()).for_each(|(x, y)| *x = *y);
            }
        }
        inputs.encode(problem.dtype, Layout::Bhsd).decode()
    }

    #[test]
    fn honest_single_precision_passes_with_large_cancelling_scores() {
        let (mut needed_by_lse, mut needed_by_output) = (0, 0);
        for (name, ties) in
            [("b1h1s24d256-causal-fp16", false), ("b1h1s33d64-fp16", false), ("b1h1s24d256-fp16", true)]
        {
            let problem: Problem = name.parse().expect("a valid name");
            let tolerance = Tolerance::new(problem.dtype, Weights::Half);
            for seed in 0..500 {
                let inputs = large_inputs(&problem, ties, seed);
                let mut reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
                let failures = |reference: &Reference, change: &dyn Fn(f32) -> f32| {
                    let (output, lse) = in_single_precision(&problem, &inputs, change);
                    compare(reference, &output, Some(&lse), tolerance).failures
                };
                assert_eq!(failures(&reference, &|score| score), [], "{name} {seed}");
                // Scores that were rounded to fp16 are refused. (With ties all rows are alike and may be lucky.)
                let rounded = |score: f32| codec::f16_to_f32(codec::f32_to_f16_rn(score / 8.0)) * 8.0;
                assert!(ties || !failures(&reference, &rounded).is_empty(), "{name} {seed}");
                // Without the allowance some honest results would be refused.
                reference.rounding.fill(oracle::Rounding::default());
                for failure in failures(&reference, &|score| score) {
                    match failure {
                        Mismatch::Lse { .. } => needed_by_lse += 1,
                        _ => needed_by_output += 1,
                    }
                }
            }
        }
        assert!(needed_by_lse > 0 && needed_by_output > 0, "{needed_by_lse} {needed_by_output}");
    }
}
