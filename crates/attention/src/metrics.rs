//! How far an answer is from the oracle's, and whether that is acceptable.
//!
//! The gate, in this order: every element is written and finite; element-wise `|o - ref| <= atol + rtol * |ref|`; and
//! the L2 norm of the error against that of the reference. The first alone would pass any answer of small numbers (atol
//! is 1e-2, attention averages), the second alone one wrong row among thousands.
//!
//! # The size of the values
//!
//! Attention is linear in V: values sixty times larger make an answer sixty times larger, and every error with it. An
//! `atol` that stays at 1e-2 would then be a bound no kernel can meet wherever two large values nearly cancel (seen on
//! an H200 with inputs of class `large`, where scores of some thousands carry fp32's own error too). So `atol` is meant
//! for values of unit size, and is multiplied by the root mean square of V where that is above 1; never below, so that
//! small values get no stricter bound than the one written down. The L2 gate is relative and needs nothing.
//!
//! # The rounding of the weights
//!
//! A kernel that multiplies FP8 by FP8 rounds its weights to E4M3's three bits. Each is then off by up to 2^-4 of itself,
//! and an element by up to `2^-4 sum(p |v|)`. Among ordinary values most of that averages out; but a value much larger
//! than its neighbours brings its weight's error along alone, and where another such value cancels it in the answer, the
//! errors stay (class `outliers`: 1.875 where 2.38 was right). No multiple of the answer and of V's mean size covers that
//! without being too wide for every other row. So these kernels are allowed what all others are and, element by
//! element, that sum beside it, which the oracle adds up together with the answer. The L2 gate has nothing added.
//!
//! # The resolution of the output format
//!
//! A correctly rounded fp16 output is within 2^-11 of the exact one, relatively, as long as it is a normal number.
//! Below 6.1e-5 fp16's steps stop shrinking (2^-24), and rounding alone can cost any share of the number: inputs of
//! class `tiny` give outputs around 1e-6, whose best fp16 approximation has a relative L2 error of 1e-2, ten times the
//! bound. Widening the bound would hide real faults everywhere else, a floor under the denominator would make the
//! reported error a fiction. So the L2 gate is on the absolute error, and allows beside `l2 * |ref|` exactly what
//! rounding may cost in the worst case: half a subnormal step for each element whose reference lies strictly between
//! zero and the least normal number. A perfect kernel always passes; a kernel that flushes subnormals to zero, or drops
//! a tile, has errors of many steps and fails. Zeros get no allowance: they are representable. The reported error stays
//! the plain ratio, and the number of elements that had an allowance stands beside it.

use std::fmt;

use family::Family;
use serde::{Deserialize, Serialize};

use crate::inputs::Input;
use crate::oracle::{Reference, Row};
use crate::problem::Dtype;
use crate::tensor::Tensor;

/// How the kernel multiplies P by V, which decides how much rounding is honest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// Weights in fp16, bf16 or fp32; FP8 values decoded to fp16.
    #[default]
    Half,
    /// Weights rounded to FP8 too.
    Fp8,
}

impl Weights {
    /// What a family's manifest says about its weights for inputs of this type.
    pub fn declared_by(family: &Family, dtype: Dtype) -> Self {
        match family.weights(dtype.name()) {
            family::Weights::Half => Weights::Half,
            family::Weights::Fp8 => Weights::Fp8,
        }
    }
}

/// What is acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    pub atol: f64,
    pub rtol: f64,
    /// How far a weight may be off, relative to itself.
    pub weight: f64,
    /// Of the error's L2 norm to the reference's.
    pub l2: f64,
}

impl Tolerance {
    pub fn new(dtype: Dtype, weights: Weights) -> Self {
        let l2 = match (dtype, weights) {
            (Dtype::Fp16, _) => 1e-3,
            (Dtype::Bf16, _) => 8e-3,
            (Dtype::E4m3, Weights::Half) => 2e-3,
            (Dtype::E4m3, Weights::Fp8) => 3e-2,
        };
        let weight = if (dtype, weights) == (Dtype::E4m3, Weights::Fp8) { 2.0_f64.powi(-4) } else { 0.0 };
        Tolerance { atol: 1e-2, rtol: 1e-2, weight, l2 }
    }

    /// The largest error allowed in an element, which is counted as in the reference's output.
    pub fn allowed(&self, reference: &Reference, element: usize) -> f64 {
        let magnitude = reference.magnitude.as_ref().map_or(0.0, |magnitude| magnitude[element]);
        self.atol * reference.value_size.max(1.0)
            + self.rtol * reference.output[element].abs()
            + self.weight * magnitude
    }
}

/// The log-sum-exp's absolute and relative tolerance: fp32 sums of products, so the error grows with the scores.
const LSE: (f64, f64) = (1e-3, 1e-5);

/// An element of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    pub row: Row,
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { batch, head, query } = self.row;
        write!(f, "[batch {batch}, head {head}, query {query}, column {}]", self.column)
    }
}

/// One element and what it should have been.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Element {
    pub place: Place,
    pub got: f64,
    pub wanted: f64,
}

impl Element {
    pub fn error(&self) -> f64 {
        (self.got - self.wanted).abs()
    }
}

/// Why an answer is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Mismatch {
    #[error("{count} elements were never written, the first at {first}")]
    Unwritten { count: usize, first: Place },
    #[error("{count} elements are not finite, the first at {first} ({value})")]
    NonFinite { count: usize, first: Place, value: f64 },
    #[error("every element is {value}: a constant answer to inputs that have another")]
    Constant { value: f64 },
    #[error("the answer does not depend on {of}: another {of} gives the same bits")]
    Independent { of: Input },
    #[error("{count} elements are beyond the tolerance, the worst at {}: {} instead of {}", worst.place, worst.got, worst.wanted)]
    Elements { count: usize, worst: Element },
    #[error("relative L2 error {error:.2e}, {limit:.2e} allowed")]
    L2 { error: f64, limit: f64 },
    #[error("the log-sum-exp of {count} rows is wrong, the worst at batch {}, head {}, query {}: {got} instead of {wanted}", worst.batch, worst.head, worst.query)]
    Lse { count: usize, worst: Row, got: f64, wanted: f64 },
}

impl Mismatch {
    /// The word programs tell failures apart by.
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

/// An answer held against the oracle's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// How many elements were compared; fewer than there are where the oracle sampled rows.
    pub elements: usize,
    /// The largest absolute error.
    pub worst: Option<Element>,
    /// `|o - ref| / |ref|` in L2: 0 for no error, infinite where the reference is zero or the answer not finite.
    pub relative_l2: f64,
    /// What it may be: the tolerance, and what the format cannot resolve (see the module's notes).
    pub relative_l2_limit: f64,
    /// Elements whose reference is below the output format's normal numbers.
    pub below_normal: usize,
    /// Empty: acceptable.
    pub failures: Vec<Mismatch>,
}

impl Comparison {
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Where the output format's steps stop shrinking, and how large they are from there down.
fn least_normal_and_step(dtype: Dtype) -> (f64, f64) {
    let power = |exponent: i32| 2.0_f64.powi(exponent);
    match dtype.output() {
        Dtype::Fp16 | Dtype::E4m3 => (power(-14), power(-24)),
        Dtype::Bf16 => (power(-126), power(-133)),
    }
}

/// Holds a kernel's output, and its LSE where it gave one, against the oracle's answer.
pub fn compare(
    reference: &Reference,
    output: &Tensor,
    lse: Option<&[f32]>,
    tolerance: Tolerance,
) -> Comparison {
    let problem = &reference.problem;
    let decoded = output.decode();
    let mut failures = holes(reference, output, &decoded.data);
    let finite = failures.is_empty();

    let (least_normal, step) = least_normal_and_step(problem.dtype);
    let (mut error_square, mut reference_square) = (0.0, 0.0);
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
            let share = error / tolerance.allowed(reference, compared * problem.head_dim + column);
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
    let limit = tolerance.l2 * reference_norm + unresolved;
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
    failures.extend(lse.and_then(|lse| compare_lse(reference, lse)));
    Comparison {
        elements: reference.output.len(),
        worst,
        relative_l2: if finite { relative_l2 } else { f64::INFINITY },
        relative_l2_limit,
        below_normal,
        failures,
    }
}

/// A NaN exceeds everything: no comparison may let one through.
fn exceeds(value: f64, limit: f64) -> bool {
    value.is_nan() || value > limit
}

/// Elements that were not written or are not finite, over the whole output, sampled or not.
fn holes(reference: &Reference, output: &Tensor, decoded: &[f32]) -> Vec<Mismatch> {
    let shape = output.shape;
    let place = |index: usize| {
        let (row, column) = (index / shape.head_dim, index % shape.head_dim);
        let (all_head, query) = (row / shape.seq, row % shape.seq);
        let row = Row { batch: all_head / shape.heads, head: all_head % shape.heads, query };
        Place { row, column }
    };
    debug_assert_eq!(shape, reference.problem.query_shape());
    let holes = decoded.iter().enumerate().filter(|(_, value)| !value.is_finite()).map(|(index, _)| index);
    let (unwritten, wrong): (Vec<usize>, Vec<usize>) = holes.partition(|&index| output.is_poison(index));
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

/// The value all elements have, if they have one and are several.
fn only_value(data: &[f32]) -> Option<f64> {
    let (first, rest) = data.split_first()?;
    (!rest.is_empty() && rest.iter().all(|x| x == first)).then(|| f64::from(*first))
}

fn compare_lse(reference: &Reference, lse: &[f32]) -> Option<Mismatch> {
    let (atol, rtol) = LSE;
    let mut count = 0;
    let mut worst: Option<(f64, Row, f64, f64)> = None;
    for (row, _, wanted) in reference.iter() {
        let got = f64::from(lse[row.index(&reference.problem)]);
        if got == wanted {
            continue; // -inf for -inf, too
        }
        let share = (got - wanted).abs() / (atol + rtol * wanted.abs());
        if exceeds(share, 1.0) {
            count += 1;
            if worst.is_none_or(|(before, ..)| share > before) {
                worst = Some((share, row, got, wanted));
            }
        }
    }
    worst.map(|(_, worst, got, wanted)| Mismatch::Lse { count, worst, got, wanted })
}

/// Whether an answer ignores an input: `before` and `after` are the oracle's and the kernel's answers, with nothing but
/// that input redrawn between them ([`crate::Inputs::redraw`]). Only what the right answer depends on counts: with a
/// single key, for one, it depends on neither Q nor K.
pub fn independence(
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

/// The two errors of an FP8 answer, never mixed: one is the kernel's, one the format's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fp8Errors {
    /// The kernel against the oracle on the decoded inputs, relative L2.
    pub kernel: f64,
    /// The oracle on the decoded inputs against the oracle on the original ones, relative L2.
    pub quantisation: f64,
}

impl Fp8Errors {
    /// `decoded` and `original` are the oracle's answers for the same rows.
    pub fn new(comparison: &Comparison, decoded: &Reference, original: &Reference) -> Self {
        let quantisation = relative_l2(&decoded.output, &original.output);
        Fp8Errors { kernel: comparison.relative_l2, quantisation }
    }
}

/// `|a - b| / |b|`: 0 where they are equal, infinite where only b is zero.
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
        let output = Tensor::encode(&values, problem.dtype.output(), Layout::Bshd);
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
    fn the_rounded_right_answer_passes_in_every_class_and_type() {
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
    fn without_its_allowance_class_tiny_could_not_pass() {
        let (reference, output, _) = solved(Problem::new(1, 2, 512, 64, Dtype::Fp16), Class::Tiny);
        let comparison = compare(&reference, &output, None, Tolerance::new(Dtype::Fp16, Weights::Half));
        assert!(comparison.relative_l2 > 1e-3 && comparison.passed(), "{comparison:?}");
        assert!(comparison.below_normal * 10 > 9 * comparison.elements);
        // And it forgives nothing but rounding: answers flushed to zero, or one tile of zeros, fail.
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
    fn a_zero_reference_allows_nothing_but_zero() {
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
    fn errors_are_judged_by_the_size_of_the_values() {
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
    fn one_wrong_element_is_found_and_named() {
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
    fn holes_and_constants_are_called_by_name() {
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
    fn an_ignored_input_is_named_where_it_matters() {
        let answer = |problem: &Problem, inputs: &Inputs| {
            let reference = oracle::attention(problem, inputs, Rows::all(problem));
            let data = reference.output.iter().map(|&x| x as f32).collect();
            let values = Values { shape: problem.query_shape(), data, scales: None };
            (reference, Tensor::encode(&values, Dtype::Fp16, Layout::Bhsd))
        };
        for (problem, matter) in [(problem(), 3), (Problem::new(1, 1, 1, 64, Dtype::Fp16), 1)] {
            let inputs = Inputs::generate(&problem, Class::Normal, 1);
            let before = answer(&problem, &inputs);
            let mut noticed = Vec::new();
            for of in Input::ALL {
                let after = answer(&problem, &inputs.redraw(&problem, Class::Normal, 2, of));
                let tolerance = Tolerance::new(Dtype::Fp16, Weights::Half);
                let held = |output| independence(of, (&before.0, &before.1), (&after.0, output), tolerance);
                // The right answer follows its inputs; an answer that stays what it was does not.
                assert_eq!(held(&after.1), None);
                noticed.extend(held(&before.1));
            }
            assert_eq!(noticed.len(), matter, "{noticed:?}");
            assert!(noticed.contains(&Mismatch::Independent { of: Input::V }));
        }
    }

    /// The answer of a perfect kernel with these weights: `change` gets the weights of a row, the largest of them 1.
    fn answer_by(
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
        Tensor::encode(&values, problem.dtype.output(), Layout::Bhsd)
    }

    /// As a kernel does it that multiplies FP8 by FP8: the largest weight is 2^8.
    fn round_to_e4m3(weights: &mut [f64]) {
        for weight in weights {
            *weight = f64::from(codec::e4m3_to_f32(codec::f32_to_e4m3((*weight * 256.0) as f32))) / 256.0;
        }
    }

    fn fp8_problem() -> Problem {
        Problem { kv_heads: 2, ..Problem::new(1, 4, 129, 64, Dtype::E4m3) }.with_mask(Mask::Causal)
    }

    #[test]
    fn weights_rounded_to_fp8_pass_where_the_gate_is_for_them() {
        let problem = fp8_problem();
        for class in Class::ALL {
            for seed in 1..=4 {
                let inputs =
                    Inputs::generate(&problem, class, seed).encode(problem.dtype, Layout::Bhsd).decode();
                let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
                let output = answer_by(&problem, &inputs, &reference, |_, weights| round_to_e4m3(weights));
                let held =
                    |weights| compare(&reference, &output, None, Tolerance::new(problem.dtype, weights));
                let fp8 = held(Weights::Fp8);
                assert!(fp8.passed(), "{class} {seed}: {:?}", fp8.failures);
                assert!(class != Class::Normal || !held(Weights::Half).passed(), "the gate of half weights");
            }
        }
    }

    #[test]
    fn the_gate_for_fp8_weights_still_finds_faults_in_single_elements() {
        let problem = fp8_problem();
        for class in [Class::Normal, Class::Outliers] {
            let inputs = Inputs::generate(&problem, class, 1).encode(problem.dtype, Layout::Bhsd).decode();
            let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
            let elements = |inputs: &Inputs, change: &dyn Fn(Row, &mut [f64])| {
                let output = answer_by(&problem, inputs, &reference, change);
                let tolerance = Tolerance::new(problem.dtype, Weights::Fp8);
                let failures = compare(&reference, &output, None, tolerance).failures;
                failures.iter().find_map(|failure| match failure {
                    Mismatch::Elements { worst, .. } => Some(worst.place.row),
                    _ => None,
                })
            };
            // One row of all leaves out its heaviest key.
            let last = Row { batch: 0, head: 3, query: 128 };
            let dropped = elements(&inputs, &|row, weights| {
                round_to_e4m3(weights);
                if row == last {
                    weights.iter_mut().filter(|weight| **weight == 1.0).for_each(|weight| *weight = 0.0);
                }
            });
            assert_eq!(dropped, Some(last), "{class}");
            // V's two heads have each other's scale.
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
    fn fp8_has_two_errors() {
        let problem = problem().with_dtype(Dtype::E4m3);
        let original = Inputs::generate(&problem, Class::Normal, 1);
        let (decoded, output, _) = solved(problem, Class::Normal);
        let original = oracle::attention(&problem, &original, Rows::all(&problem));
        let comparison = compare(&decoded, &output, None, Tolerance::new(Dtype::E4m3, Weights::Half));
        let errors = Fp8Errors::new(&comparison, &decoded, &original);
        assert!(errors.kernel < 5e-4 && (1e-2..1e-1).contains(&errors.quantisation), "{errors:?}");
    }
}
