//! Measures the error of an output against the oracle's reference and decides whether it is acceptable.
//!
//! The conditions, in this order: every element is written and finite; element-wise `|o - ref| <= atol + rtol *
//! |ref|`; a bound on the L2 norm of the error of every row relative to that of its reference; and the same over all rows.
//! The element-wise bound alone would accept any output of small numbers (atol is 1e-2, and attention averages). The bound
//! of the whole alone would accept one wrong row among thousands.
//!
//! # The error of a 16-bit implementation
//!
//! Without FP8 weights the element-wise bound is lower if an unfused implementation in 16 bits is more exact, as in
//! FlashAttention-3's own test: twice the error of such an implementation, and a constant. The oracle estimates this error
//! from the rounding of scores and weights to 16 bits ([`crate::oracle::Rounding::unfused`]).
//!
//! # The size of the values
//!
//! Attention is linear in V: values that are sixty times larger make an output and every error sixty times larger.
//! With a fixed `atol` of 1e-2 no kernel could pass where two large values nearly cancel (seen on an H200 with inputs
//! of class `large`, where scores of some thousands also carry the error of fp32). `atol` is therefore meant for
//! values of unit size and is multiplied by the root mean square of V, in the row's head, if that is above 1. It is never reduced, so
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
//! in addition, element by element; the oracle computes it together with the reference.
//!
//! The bounds of rows and of the whole are extended only by what rounding changes in FlashAttention, the model of
//! [`crate::oracle::WeightRounding`]. If heavy keys cancel in the output, the rounding of their weights remains: a row
//! may then have twice its root mean square. Weights below the type's normal numbers are rounded with a fixed step, or to
//! zero, and many of them alike: a row may have 1.25 times the error that the model makes with them. A kernel that
//! loses light weights sooner than the model fails. Rows of ordinary inputs get nothing from either.
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
//! computes both effects for each row ([`crate::oracle::Rounding`]), and all bounds allow them. A row with one
//! dominant key gets no allowance for its output. For inputs of unit size the allowance is about 1e-5, so it hides
//! nothing.
//!
//! Tensor cores cut their sums towards zero. If the products of all scores have one sign, all scores are too small by up to
//! `head_dim / 8 * 2^-23` of their size. The output does not change, but a log-sum-exp near 0 does: -8.49 for each of 5279
//! keys gave 0.0859407 on an H200 where 0.0859334 is exact. The log-sum-exp is allowed this part of the average size of the scores.
//!
//! # The sums of FP8 tensor cores
//!
//! Hopper's `wgmma` adds FP8 products with 13 fraction bits, not with the 23 of fp32: it cuts every product and every
//! sum 13 bits below the largest term. A score of 13453 came out as 13449, and no kernel that uses these instructions
//! can do better. Such an error moves the log-sum-exp, and if two keys are nearly tied, also the output. A kernel whose
//! matrix products are all FP8 `wgmma` is therefore allowed what such errors can change. The oracle computes it from
//! the inputs ([`crate::oracle::Fp8Sums`]): a bound for sums in any order, or 1.25 of the error of adding the products of a
//! score as the tensor cores do, if that is more. From it follow the largest error of the row's log-sum-exp, and for every element what a shift of
//! the weights by these errors can change.
//!
//! The allowance is local. An element may use its own only: the L2 bounds ignore that part of an element's error which
//! the element's allowance covers, and hold for the rest. A row with one dominant key, or with many light ones, has no
//! allowance for its output. The sums of P V have the same 13 bits, but they get no allowance: a kernel can add its
//! tiles in fp32.

mod mismatch;
mod tolerance;

use op::share_of;
use serde::{Deserialize, Serialize};

use crate::inputs::Input;
use crate::oracle::{Fp8Sums, Reference, Row};
use crate::problem::Dtype;
use crate::tensor::Tensor;

pub use family::Weights;
pub use mismatch::{Element, Mismatch, Place, RowError};
pub use tolerance::Tolerance;

/// Tolerance of the log-sum-exp: absolute near 0, and relative. The rounding of cancelling products and of FP8 sums is
/// allowed in addition. Gradients and the combination of split keys use the log-sum-exp as an exponent.
const LSE: (f64, f64) = (1e-6, 1e-5);

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
    /// The row with the largest error relative to its limit; `None` if the output is not finite.
    pub worst_row: Option<RowError>,
    /// Largest ratio of an error to its limit, over elements, rows, the whole output and the log-sum-exps.
    pub share: f64,
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
    let mut whole = Squares::default();
    let (mut spread_square, mut largest_spread, mut rounded_square) = (0.0, 0.0_f64, 0.0);
    let (mut elements, mut rows) = (Beyond::default(), Beyond::default());
    let mut worst: Option<Element> = None;
    for (compared, (row, wanted_row, _)) in reference.iter().enumerate() {
        let got_row = &decoded.data[row.index(problem) * problem.head_dim..][..problem.head_dim];
        let mut squares = Squares::default();
        for (column, (&got, &wanted)) in got_row.iter().zip(wanted_row).enumerate() {
            let element = Element { place: Place { row, column }, got: f64::from(got), wanted };
            let index = compared * problem.head_dim + column;
            let covered = fp8_sums.map_or(0.0, |sums| sums.output[index]);
            squares.add(element.error(), covered, wanted, least_normal);
            if worst.is_none_or(|worst| element.error() > worst.error()) {
                worst = Some(element);
            }
            elements.note(share_of(element.error(), tolerance.allowed(reference, index)), element);
        }
        let rounding = &reference.rounding[compared];
        let limit = tolerance.allowed_row(squares.wanted.sqrt(), rounding) + squares.unresolved(step);
        let RelativeError { error, limit, share } = squares.relative(limit);
        rows.note(share, RowError { row, error, limit });
        let [spread, rounded] = tolerance.extra_of_row(squares.wanted.sqrt(), rounding);
        spread_square += spread * spread;
        largest_spread = largest_spread.max(tolerance.spread(rounding));
        rounded_square += rounded * rounded;
        whole.join(&squares);
    }

    let norm = whole.wanted.sqrt();
    let limit = (tolerance.l2 * norm)
        .hypot(spread_square.sqrt())
        .max(tolerance.with_row_spread(norm, largest_spread))
        + whole.unresolved(step)
        + rounded_square.sqrt();
    let RelativeError { error: relative_l2, limit: relative_l2_limit, share } = whole.relative(limit);
    if finite {
        if let Some(worst) = elements.refused() {
            failures.push(Mismatch::Elements { count: elements.count, worst });
        }
        if let Some(worst) = rows.refused() {
            failures.push(Mismatch::Rows { count: rows.count, worst });
        }
        if exceeds(share, 1.0) {
            failures.push(Mismatch::L2 { error: relative_l2, limit: relative_l2_limit });
        }
        if !failures.is_empty()
            && let Some(value) = only_value(&decoded.data)
            && reference.output.iter().any(|x| *x != reference.output[0])
        {
            failures.insert(0, Mismatch::Constant { value });
        }
    }
    let lse = lse.map(|lse| compare_lse(reference, lse, fp8_sums)).unwrap_or_default();
    failures.extend(lse.refused().map(|(worst, got, wanted)| Mismatch::Lse {
        count: lse.count,
        worst,
        got,
        wanted,
    }));
    let shares = [share, elements.share, rows.share, lse.share];
    Comparison {
        elements: reference.output.len(),
        worst,
        relative_l2: if finite { relative_l2 } else { f64::INFINITY },
        relative_l2_limit,
        worst_row: rows.worst.filter(|_| finite),
        share: if finite { shares.into_iter().fold(0.0, f64::max) } else { f64::INFINITY },
        below_normal: whole.below_normal,
        failures,
    }
}

/// Sums of squares over some elements.
#[derive(Default)]
struct Squares {
    error: f64,
    /// Of the errors, without what FP8 sums can change.
    uncovered: f64,
    wanted: f64,
    below_normal: usize,
}

/// An L2 error, its limit, both relative to the reference, and their ratio.
struct RelativeError {
    error: f64,
    limit: f64,
    share: f64,
}

impl Squares {
    fn add(&mut self, error: f64, covered: f64, wanted: f64, least_normal: f64) {
        self.error += error * error;
        self.uncovered += (error - covered).max(0.0).powi(2);
        self.wanted += wanted * wanted;
        self.below_normal += usize::from(wanted != 0.0 && wanted.abs() < least_normal);
    }

    fn join(&mut self, other: &Squares) {
        self.error += other.error;
        self.uncovered += other.uncovered;
        self.wanted += other.wanted;
        self.below_normal += other.below_normal;
    }

    /// The worst case of rounding numbers below the format's normal ones.
    fn unresolved(&self, step: f64) -> f64 {
        step / 2.0 * (self.below_normal as f64).sqrt()
    }

    /// Compares the error with an absolute limit. The part of the error that FP8 sums explain is allowed in addition.
    fn relative(&self, limit: f64) -> RelativeError {
        let (error, wanted) = (self.error.sqrt(), self.wanted.sqrt());
        let covered = error - self.uncovered.sqrt();
        let limit = if covered.is_finite() { limit + covered } else { limit };
        let ratio = |norm: f64| if norm == 0.0 { 0.0 } else { norm / wanted };
        RelativeError { error: ratio(error), limit: ratio(limit), share: share_of(error, limit) }
    }
}

/// The largest share of a limit, where it is, and the number of shares above 1.
struct Beyond<T> {
    share: f64,
    worst: Option<T>,
    count: usize,
}

impl<T> Default for Beyond<T> {
    fn default() -> Self {
        Beyond { share: 0.0, worst: None, count: 0 }
    }
}

impl<T: Copy> Beyond<T> {
    fn note(&mut self, share: f64, place: T) {
        self.count += usize::from(exceeds(share, 1.0));
        if self.worst.is_none() || exceeds(share, self.share) {
            self.share = if share.is_nan() { f64::INFINITY } else { share };
            self.worst = Some(place);
        }
    }

    /// The worst place, if it is beyond its limit.
    fn refused(&self) -> Option<T> {
        self.worst.filter(|_| self.count > 0)
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

/// Compares the log-sum-exps. Places are rows with the kernel's value and the reference's.
fn compare_lse(reference: &Reference, lse: &[f32], fp8_sums: Option<&Fp8Sums>) -> Beyond<(Row, f64, f64)> {
    let (atol, rtol) = LSE;
    let mut rows = Beyond::default();
    for (index, ((row, _, wanted), rounding)) in reference.iter().zip(&reference.rounding).enumerate() {
        let got = f64::from(lse[row.index(&reference.problem)]);
        // Equal infinities have no difference.
        let error = if got == wanted { 0.0 } else { (got - wanted).abs() };
        let sums = fp8_sums.map_or(0.0, |sums| sums.lse[index]);
        rows.note(share_of(error, atol.max(rtol * wanted.abs()) + rounding.lse + sums), (row, got, wanted));
    }
    rows
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
mod tests;
