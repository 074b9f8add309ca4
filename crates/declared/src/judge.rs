//! Compares an answer with the reference.

use std::collections::HashMap;

use launch::Dtype;
use op::{Complaint, JudgedRow, Judgement, share_of};

use crate::declaration::{Declaration, GivenTolerance, ReferenceSource};
use crate::problem::DeclaredProblem;

/// The reference of one output.
#[derive(Clone, Debug)]
pub(crate) struct OutputReference {
    pub name: String,
    pub dtype: Dtype,
    /// The extents of the whole output.
    pub dims: Vec<usize>,
    /// The number of independent rows of the whole output; 1 if it has none.
    pub row_count: usize,
    /// The rows that are compared; `None` for all.
    pub rows: Option<Vec<usize>>,
    /// The right numbers of the compared rows, before rounding to the output's type.
    pub values: Vec<f64>,
    /// The bits of the right numbers if they are 64-bit integers, of which `values` cannot have all; otherwise empty.
    pub exact: Vec<u64>,
    pub tolerance: Tolerance,
    /// The absolute error that is allowed for each compared element in addition ([`crate::conditioning`]). Empty for
    /// none.
    pub allowed: Vec<f64>,
    /// Other numbers that are right, too, by the position of the compared element: at a step of the reference, the number
    /// on its other side.
    pub other_sides: HashMap<usize, Vec<f64>>,
    /// The word that fills the output before the launch. `None` for an argument that is also read.
    pub blank: Option<u32>,
}

/// What honest kernels in fp32 can have in one output, beyond its tolerance.
#[derive(Debug, Default)]
pub(crate) struct OutputConditioning {
    /// The absolute error that every compared element may have in addition.
    pub allowed: Vec<f64>,
    /// The numbers on the other sides of steps, by the position of the compared element.
    pub other_sides: HashMap<usize, Vec<f64>>,
}

/// The largest allowed errors of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tolerance {
    pub rtol: f64,
    pub atol: f64,
    pub l2: f64,
    /// Largest relative L2 error of a single row, and the absolute error of its elements that is allowed in addition.
    pub row: f64,
    pub row_atol: f64,
}

/// The significant bits of a type; `None` for integers.
fn significant_bits(dtype: Dtype) -> Option<i32> {
    Some(match dtype {
        Dtype::F64 => 53,
        Dtype::F32 => 24,
        Dtype::F16 => 11,
        Dtype::Bf16 => 8,
        Dtype::E4m3 => 4,
        Dtype::E5m2 => 3,
        _ => return None,
    })
}

/// Half the distance from 1 to the next number of a type; `None` for integers.
fn unit_roundoff(dtype: Dtype) -> Option<f64> {
    significant_bits(dtype).map(|bits| 0.5_f64.powi(bits))
}

/// The rounding error near 0: half the smallest positive number of a type. With the exponents of fp32, the smallest normal
/// number: kernels may compute in fp32 without smaller ones.
fn smallest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 | Dtype::Bf16 => f64::from(f32::MIN_POSITIVE),
        Dtype::F16 => 2.0_f64.powi(-25),
        Dtype::E4m3 => 2.0_f64.powi(-10),
        Dtype::E5m2 => 2.0_f64.powi(-17),
        _ => 0.0,
    }
}

/// The largest finite number of a type.
fn largest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => f64::MAX,
        Dtype::F32 => f64::from(f32::MAX),
        Dtype::F16 => 65504.0,
        Dtype::Bf16 => 3.389_531_389_251_535_5e38,
        Dtype::E4m3 => 448.0,
        Dtype::E5m2 => 57344.0,
        _ => f64::INFINITY,
    }
}

impl Tolerance {
    /// The tolerance of an output of a type after sums of `reduction` products in fp32.
    ///
    /// A kernel rounds its result once, and often an intermediate value of the same type: two errors of up to one unit
    /// roundoff each. The error of an fp32 sum grows with the square root of its length. Elements near 0 in a tensor of
    /// large numbers have the absolute error of the large ones, so `atol` is relative to the tensor's root mean square.
    fn derived(dtype: Dtype, reduction: f64, values: &[f64]) -> Self {
        let Some(unit) = unit_roundoff(dtype) else { return Tolerance::new(0.0, 0.0, 0.0) };
        let sums = reduction.sqrt() * 0.5_f64.powi(if dtype == Dtype::F64 { 53 } else { 24 });
        let mean_square = root_mean_square(values.iter().filter(|value| value.abs() <= largest(dtype)));
        if dtype.bytes() == 1 {
            // FP8 is a format for storage: a kernel rounds to it once, and computes in a type of at least 8 bits.
            let rtol = unit + 4.0 * sums;
            let atol = 0.5_f64.powi(8) * mean_square + smallest(dtype);
            return Tolerance::new(rtol, atol, 0.6 * unit + 2.0 * sums);
        }
        let rtol = 2.0 * unit + 4.0 * sums;
        let whole = Tolerance::new(rtol, rtol * mean_square + 2.0 * smallest(dtype), unit + 2.0 * sums);
        Tolerance { l2: unit * roundings_of_few(values, largest(dtype)) + 2.0 * sums, ..whole }
    }

    /// Limits the derived `atol` if the expected values come from a file. A single huge value in it would make the root
    /// mean square so large that every ordinary value passes. No tolerance above a fraction of a typical value is useful.
    fn limited_by_typical_value(self, values: &[f64]) -> Self {
        let limit = (typical_magnitude(values) * LARGEST_SHARE).max(self.rtol);
        if self.atol <= limit {
            return self;
        }
        Tolerance { atol: limit, row_atol: self.row_atol.min(limit), ..self }
    }

    /// A row may have twice the relative error of the whole output. The derived `atol` comes from the size of the whole
    /// output and would hide wrong rows that are small, so rows get a fraction of it.
    fn new(rtol: f64, atol: f64, l2: f64) -> Self {
        Tolerance { rtol, atol, l2, row: 2.0 * l2, row_atol: atol / 64.0 }
    }

    /// Replaces limits by those that the op's author gives. The author's own `atol` holds for the elements of every
    /// row. If only the limits of elements hold, the other limits are what they imply.
    fn with(self, given: GivenTolerance, values: &[f64]) -> Self {
        let rtol = given.rtol.unwrap_or(self.rtol);
        let atol = given.atol.unwrap_or(self.atol);
        let mut l2 = given.l2.unwrap_or(self.l2);
        let mut row = given.l2.map_or(self.row, |l2| 2.0 * l2);
        let mut row_atol = given.atol.unwrap_or(self.row_atol);
        if given.elements_only {
            let typical = root_mean_square(values.iter().filter(|value| value.is_finite()));
            l2 = l2.max(if typical > 0.0 { rtol + atol / typical } else { rtol });
            row = 2.0 * l2;
            row_atol = atol;
        }
        Tolerance { rtol, atol, l2, row: rtol.max(row), row_atol }
    }
}

/// The relative L2 error of two roundings of every value, in unit roundoffs.
///
/// The square of the error of one value has the mean 2/3 and a standard deviation of at most 0.79, and it is at most 4.
/// With many values the root of their mean is below 1. With few, or if few of them dominate the norm, it depends on
/// chance, so 6 standard deviations are allowed.
fn roundings_of_few(values: &[f64], largest: f64) -> f64 {
    let finite = || values.iter().map(|value| value.abs()).filter(|value| *value <= largest);
    let scale = finite().fold(0.0, f64::max);
    if scale == 0.0 {
        return 1.0;
    }
    let sum = |power: i32| finite().map(|value| (value / scale).powi(power)).sum::<f64>();
    let effective_count = sum(2).powi(2) / sum(4);
    (2.0 / 3.0 + 6.0 * 0.79 / effective_count.sqrt()).clamp(1.0, 4.0).sqrt()
}

/// Largest derived `atol` for values from a file, as a share of their typical magnitude.
const LARGEST_SHARE: f64 = 0.125;

/// The root of the mean square, without overflow.
fn root_mean_square<'a>(values: impl Iterator<Item = &'a f64> + Clone) -> f64 {
    let scale = values.clone().fold(0.0, |scale: f64, value| scale.max(value.abs()));
    if scale == 0.0 {
        return 0.0;
    }
    let add = |(count, sum): (usize, f64), value: &f64| (count + 1, sum + (value / scale).powi(2));
    let (count, squares) = values.fold((0_usize, 0.0), add);
    scale * (squares / count.max(1) as f64).sqrt()
}

/// The median of the magnitudes of the finite values that are not 0.
fn typical_magnitude(values: &[f64]) -> f64 {
    let finite = values.iter().map(|value| value.abs()).filter(|value| value.is_finite() && *value > 0.0);
    let mut magnitudes: Vec<f64> = finite.collect();
    if magnitudes.is_empty() {
        return 0.0;
    }
    let middle = magnitudes.len() / 2;
    *magnitudes.select_nth_unstable_by(middle, f64::total_cmp).1
}

impl Declaration {
    pub fn tolerance(
        &self,
        output: &str,
        dtype: Dtype,
        problem: &DeclaredProblem,
        values: &[f64],
    ) -> Tolerance {
        self.tolerance_of(output, dtype, self.reduction(problem), values)
    }

    /// The tolerance of an output whose longest sum has `reduction` terms.
    pub fn tolerance_of(&self, output: &str, dtype: Dtype, reduction: f64, values: &[f64]) -> Tolerance {
        let mut derived = Tolerance::derived(dtype, reduction, values);
        if self.reference == ReferenceSource::Files {
            derived = derived.limited_by_typical_value(values);
        }
        derived.with(self.tolerances.get(output).copied().unwrap_or_default(), values)
    }
}

/// The state of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Right,
    Wrong,
    NotFinite,
    Unwritten,
}

/// The element with the largest error; a wrong one if there are wrong ones.
#[derive(Clone, Copy, Debug)]
struct Worst {
    is_wrong: bool,
    error: f64,
    index: usize,
    number: f64,
    right: f64,
}

/// The errors of one output.
#[derive(Debug, Default)]
pub(crate) struct OutputErrors {
    pub unwritten: usize,
    pub not_finite: usize,
    pub wrong: usize,
    /// The first unwritten, not finite and wrong elements, as indices of the output.
    first: [Option<usize>; 3],
    worst: Option<Worst>,
    /// The worst element as the answer and the reference have it, if they are integers.
    worst_integers: Option<(String, String)>,
    /// Largest ratio of the error of an element to its limit. Infinite if an element is missing or not finite.
    share: f64,
    squares: f64,
    reference_squares: f64,
    allowed_squares: f64,
    rows: RowErrors,
    pub compared: usize,
}

/// The L2 errors of single rows, which are visited one after the other.
#[derive(Debug, Default)]
struct RowErrors {
    current: RowSquares,
    /// The row with the largest error relative to its limit.
    worst: Option<(RowSquares, RowLimit)>,
    wrong: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct RowSquares {
    row: usize,
    elements: usize,
    squares: f64,
    reference_squares: f64,
    allowed_squares: f64,
}

#[derive(Clone, Copy, Debug)]
struct RowLimit {
    allowed: f64,
    share: f64,
}

/// Shorter rows are judged by their elements only: a short row can be near 0 because its sums cancel.
const SHORTEST_ROW: usize = 16;

impl RowErrors {
    fn add(&mut self, row: usize, error: f64, (right, allowed): (f64, f64), output: &OutputReference) {
        if row != self.current.row {
            self.finish(output);
            self.current = RowSquares { row, ..RowSquares::default() };
        }
        self.current.elements += 1;
        self.current.squares += error * error;
        self.current.reference_squares += right * right;
        self.current.allowed_squares += allowed * allowed;
    }

    fn finish(&mut self, output: &OutputReference) {
        let RowSquares { elements, squares, reference_squares, allowed_squares, .. } = self.current;
        if output.row_count <= 1 || elements < SHORTEST_ROW {
            return;
        }
        let Tolerance { row, row_atol, .. } = output.tolerance;
        let floor = (row_atol + smallest(output.dtype)) * (elements as f64).sqrt();
        let allowed = row * reference_squares.sqrt() + floor + allowed_squares.sqrt();
        let share = share_of(squares.sqrt(), allowed);
        self.wrong += usize::from(share > 1.0);
        if self.worst.is_none_or(|(_, worst)| share > worst.share) {
            self.worst = Some((self.current, RowLimit { allowed, share }));
        }
    }

    /// The row with the largest error relative to its limit.
    fn judged(&self, output: &OutputReference) -> Option<JudgedRow> {
        let (RowSquares { row, squares, reference_squares, .. }, RowLimit { allowed, .. }) = self.worst?;
        let relative = |norm: f64| if norm == 0.0 { 0.0 } else { norm / reference_squares.sqrt() };
        let row = format!("{} {}", output.name, output.row_name(row));
        Some(JudgedRow { row, error: relative(squares.sqrt()), limit: relative(allowed) })
    }
}

impl OutputReference {
    /// The index in the output of every compared element, with its right value.
    fn compared(&self) -> impl Iterator<Item = (usize, f64)> {
        let compared_rows = self.rows.as_ref().map_or(1, Vec::len);
        let row = (self.values.len() / compared_rows.max(1)).max(1);
        let place = move |index: usize| match &self.rows {
            Some(rows) => rows[index / row] * row + index % row,
            None => index,
        };
        self.values.iter().enumerate().map(move |(index, value)| (place(index), *value))
    }

    /// The output with this tolerance, and with `more` times what kernels in fp32 cannot avoid.
    pub fn conditioned(
        &self,
        tolerance: Tolerance,
        conditioning: Option<&OutputConditioning>,
        more: f64,
    ) -> Self {
        let (allowed, other_sides) = match conditioning {
            Some(it) => (it.allowed.iter().map(|error| more * error).collect(), it.other_sides.clone()),
            None => (Vec::new(), HashMap::new()),
        };
        OutputReference { tolerance, allowed, other_sides, ..self.clone() }
    }

    /// The right number of a compared element; of several, the one that is nearest to the answer.
    fn nearest_right(&self, position: usize, right: f64, number: f64) -> f64 {
        let others = self.other_sides.get(&position).into_iter().flatten().copied();
        others.fold(
            right,
            |best, other| {
                if (number - other).abs() < (number - best).abs() { other } else { best }
            },
        )
    }

    /// Whether a number is right. An infinity or a NaN must be the same: no distance to it is meaningful.
    fn is_right(&self, number: f64, (right, allowed): (f64, f64)) -> bool {
        let Tolerance { rtol, atol, .. } = self.tolerance;
        let largest = largest(self.dtype);
        if right.is_nan() {
            return number.is_nan();
        }
        // FP8 E4M3 has no infinity; a conversion saturates.
        if right.is_infinite() {
            let saturates = self.dtype == Dtype::E4m3 && number == largest.copysign(right);
            return number == right || saturates;
        }
        let bound = atol + rtol * right.abs() + allowed;
        // A number beyond the type's range becomes infinite, or saturates.
        let overflows = right.abs() + bound >= largest;
        let saturated =
            overflows && number.signum() == right.signum() && number.abs() >= largest * (1.0 - rtol);
        bound.is_finite() && ((number - right).abs() <= bound || saturated)
    }

    /// Whether a 64-bit integer is another one than the right one, although fp64 has the same number for both.
    fn is_another_integer(&self, position: usize, bytes: &[u8]) -> bool {
        let (Some(exact), Some(right)) = (self.exact.get(position), self.values.get(position)) else {
            return false;
        };
        let exact = exact.to_le_bytes();
        exact != bytes && self.dtype.float(&exact) == *right && self.dtype.float(bytes) == *right
    }

    /// Calls `visit` with the index, the right number, what is allowed in addition, the answer and the state of every
    /// compared element.
    pub fn visit(&self, answer: &[u8], mut visit: impl FnMut(usize, (f64, f64), f64, Element)) {
        let width = self.dtype.bytes();
        for (position, (index, right)) in self.compared().enumerate() {
            let Some(bytes) = answer.get(index * width..(index + 1) * width) else { continue };
            let number = self.dtype.float(bytes);
            let right = self.nearest_right(position, right, number);
            let right = (right, self.allowed.get(position).copied().unwrap_or(0.0));
            let is_blank = self.blank.is_some_and(|word| {
                let word = word.to_le_bytes();
                bytes.iter().enumerate().all(|(at, byte)| *byte == word[(index * width + at) % 4])
            });
            let is_right = !(is_blank && right.0.is_nan())
                && self.is_right(number, right)
                && !self.is_another_integer(position, bytes);
            let element = if is_right {
                Element::Right
            } else if is_blank {
                Element::Unwritten
            } else if !number.is_finite() && right.0.is_finite() {
                Element::NotFinite
            } else {
                Element::Wrong
            };
            visit(index, right, number, element);
        }
    }

    fn errors(&self, answer: &[u8]) -> OutputErrors {
        let mut errors = OutputErrors::default();
        let note = |errors: &mut OutputErrors, kind: usize, index: usize| {
            errors.first[kind].get_or_insert(index);
        };
        // The squares of larger numbers overflow.
        let largest = largest(self.dtype).min(1e150);
        let row_length = (self.dims.iter().product::<usize>() / self.row_count.max(1)).max(1);
        let Tolerance { rtol, atol, .. } = self.tolerance;
        self.visit(answer, |index, (right, allowed), number, element| {
            errors.compared += 1;
            match element {
                Element::Right => {}
                Element::Unwritten => {
                    errors.unwritten += 1;
                    note(&mut errors, 0, index);
                }
                Element::NotFinite => {
                    errors.not_finite += 1;
                    note(&mut errors, 1, index);
                }
                Element::Wrong => {
                    errors.wrong += 1;
                    note(&mut errors, 2, index);
                }
            }
            let is_wrong = element == Element::Wrong;
            let has_error = number.is_finite() && right.is_finite();
            if !(element == Element::Right || is_wrong && has_error) {
                errors.share = f64::INFINITY;
            }
            if is_wrong && !right.is_finite() {
                errors.worst = Some(Worst { is_wrong, error: f64::INFINITY, index, number, right });
            }
            // Overflown numbers have no useful error.
            if right.abs() < largest && number.is_finite() {
                let error = (number - right).abs();
                errors.squares += error * error;
                errors.reference_squares += right * right;
                errors.allowed_squares += allowed * allowed;
                errors.rows.add(index / row_length, error, (right, allowed), self);
                errors.share = errors.share.max(share_of(error, atol + rtol * right.abs() + allowed));
                if errors.worst.is_none_or(|worst| (is_wrong, error) > (worst.is_wrong, worst.error)) {
                    errors.worst = Some(Worst { is_wrong, error, index, number, right });
                }
            }
        });
        if errors.compared < self.values.len() {
            errors.share = f64::INFINITY;
        }
        errors.rows.finish(self);
        errors.worst_integers = errors.worst.and_then(|worst| self.integers_at(worst.index, answer));
        errors
    }

    /// The answer and the right number at an index of the output, if they are integers.
    fn integers_at(&self, index: usize, answer: &[u8]) -> Option<(String, String)> {
        let width = self.dtype.bytes();
        if self.dtype.is_float() {
            return None;
        }
        let shown = |bits: &[u8]| match (self.dtype, self.dtype.integers(bits).first()?) {
            (Dtype::U64, integer) => Some(integer.cast_unsigned().to_string()),
            (_, integer) => Some(integer.to_string()),
        };
        let position = self.compared().position(|(at, _)| at == index)?;
        let right = match (self.exact.get(position), self.values.get(position)?) {
            (Some(exact), right) if self.dtype.float(&exact.to_le_bytes()) == *right => {
                shown(&exact.to_le_bytes())
            }
            (_, right) => Some(right.to_string()),
        };
        Some((shown(answer.get(index * width..(index + 1) * width)?)?, right?))
    }

    /// The coordinates of a row: `row [3]`.
    fn row_name(&self, row: usize) -> String {
        let mut depth = 0;
        let mut rows = 1;
        while rows < self.row_count && depth < self.dims.len() {
            rows *= self.dims[depth];
            depth += 1;
        }
        format!("row {}", coordinates(&self.dims[..depth], row))
    }

    /// The coordinates of an element: `[3, 17]`.
    pub fn coordinates(&self, index: usize) -> String {
        coordinates(&self.dims, index)
    }
}

fn coordinates(dims: &[usize], index: usize) -> String {
    let mut rest = index;
    let mut coordinates: Vec<String> = Vec::new();
    for extent in dims.iter().rev() {
        coordinates.push((rest % extent).to_string());
        rest /= extent;
    }
    coordinates.reverse();
    format!("[{}]", coordinates.join(", "))
}

/// Judges all outputs of an answer.
pub(crate) fn judge(reference: &[OutputReference], outputs: &[Vec<u8>]) -> Judgement {
    let mut judgement = Judgement {
        error: 0.0,
        limit: 0.0,
        worst: 0.0,
        worst_row: None,
        share: 0.0,
        roundings: None,
        quantisation: None,
        compared: 0,
        elements: 0,
        complaints: Vec::new(),
    };
    let mut nearest_limit = -1.0;
    for (index, output) in reference.iter().enumerate() {
        let empty = Vec::new();
        let errors = output.errors(outputs.get(index).unwrap_or(&empty));
        judgement.compared += errors.compared;
        judgement.elements += output.dims.iter().product::<usize>();
        complain(output, &errors, &mut judgement.complaints);
        let error = errors.relative_l2();
        if let Some(worst) = errors.worst {
            judgement.worst = judgement.worst.max(worst.error);
        }
        let row_share = errors.rows.worst.map_or(0.0, |(_, limit)| limit.share);
        let row_share_before =
            judgement.worst_row.as_ref().map_or(-1.0, |row| share_of(row.error, row.limit));
        if row_share > row_share_before {
            judgement.worst_row = errors.rows.judged(output);
        }
        let has_norm = errors.reference_squares > 0.0;
        let whole_share =
            if has_norm { share_of(errors.squares.sqrt(), errors.allowed(output)) } else { 0.0 };
        let shares = [errors.share, row_share, whole_share];
        judgement.share = shares.into_iter().fold(judgement.share, f64::max);
        // Of several outputs, the one nearest to its limit is shown.
        let share = if output.tolerance.l2 > 0.0 { error / output.tolerance.l2 } else { error };
        if share > nearest_limit {
            nearest_limit = share;
            let norm = errors.reference_squares.sqrt();
            let limit = if norm > 0.0 { errors.allowed(output) / norm } else { output.tolerance.l2 };
            (judgement.error, judgement.limit) = (error, limit);
            judgement.roundings = significant_bits(output.dtype).map(|bits| op::roundings(error, bits));
        }
    }
    if !judgement.complaints.is_empty() && judgement.share <= 1.0 {
        judgement.share = f64::INFINITY; // unwritten or not finite
    }
    judgement
}

impl OutputErrors {
    /// The largest L2 norm of the error. Numbers below the type's normal range have larger relative errors.
    fn allowed(&self, output: &OutputReference) -> f64 {
        let floor = smallest(output.dtype) * (self.compared as f64).sqrt();
        output.tolerance.l2 * self.reference_squares.sqrt() + floor + self.allowed_squares.sqrt()
    }

    fn relative_l2(&self) -> f64 {
        if self.squares == 0.0 { 0.0 } else { (self.squares / self.reference_squares).sqrt() }
    }
}

fn complain(output: &OutputReference, errors: &OutputErrors, complaints: &mut Vec<Complaint>) {
    let mut add = |kind: &str, message: String| complaints.push(Complaint { kind: kind.to_owned(), message });
    let OutputReference { name, tolerance, .. } = output;
    let compared = errors.compared;
    let at = |kind: usize| errors.first[kind].map_or(String::new(), |index| output.coordinates(index));
    if compared < output.values.len() {
        add(
            "unwritten",
            format!("{name}: the answer has only {compared} of {} elements", output.values.len()),
        );
        return;
    }
    if errors.unwritten > 0 {
        let count = errors.unwritten;
        add(
            "unwritten",
            format!("{name}: {count} of {compared} elements were not written, the first at {}", at(0)),
        );
    }
    if errors.not_finite > 0 {
        let count = errors.not_finite;
        add(
            "non-finite",
            format!("{name}: {count} of {compared} elements are not finite, the first at {}", at(1)),
        );
    }
    if errors.wrong > 0 {
        let worst = errors.worst.map_or(String::new(), |Worst { index, number, right, .. }| {
            let floats = || (format!("{number:.6e}"), format!("{right:.6e}"));
            let (number, right) = errors.worst_integers.clone().unwrap_or_else(floats);
            format!("; the worst at {}: {number}, expected {right}", output.coordinates(index))
        });
        let Tolerance { rtol, atol, .. } = tolerance;
        add(
            "elements",
            format!(
                "{name}: {} of {compared} elements are wrong (rtol {rtol:.1e}, atol {atol:.1e}), the first at {}{worst}",
                errors.wrong,
                at(2)
            ),
        );
    }
    if let Some(JudgedRow { row, error, limit }) =
        errors.rows.judged(output).filter(|_| errors.rows.wrong > 0)
    {
        let count = errors.rows.wrong;
        let message = format!(
            "{count} rows exceed the limit of a row, the worst is {row}: relative L2 error {error:.2e}; {limit:.1e} \
             is allowed"
        );
        add("rows", message);
    }
    let error = errors.relative_l2();
    // A reference of zeros has no relative error.
    if errors.reference_squares > 0.0 && errors.squares.sqrt() > errors.allowed(output) {
        let limit = errors.allowed(output) / errors.reference_squares.sqrt();
        add("relative-l2", format!("{name}: the relative L2 error is {error:.2e}; {limit:.1e} is allowed"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An RMS norm in fp16 with 21 numbers, of which most were small, had 6.6e-4; 4.9e-4 were allowed.
    #[test]
    fn a_few_numbers_may_have_the_error_of_two_roundings_by_chance() {
        let unit = 0.5_f64.powi(11);
        let limit = |values: &[f64]| Tolerance::derived(Dtype::F16, 1.0, values).l2 / unit;
        let mut random = random::Random::new(7);
        let mut worst: f64 = 0.0;
        for count in [1, 2, 5, 21, 100, 1000] {
            for _ in 0..20_000 / count {
                let exact: Vec<f64> = (0..count).map(|_| random.uniform()).collect();
                // Each value is rounded twice, as `__hmul(__float2half(x), w)` does.
                let mut square = 0.0;
                for value in &exact {
                    let steps = (2.0 * random.uniform() - 1.0) + (2.0 * random.uniform() - 1.0);
                    square += (value * steps).powi(2);
                }
                let norm: f64 = exact.iter().map(|value| value * value).sum();
                worst = worst.max((square / norm).sqrt() / limit(&exact));
            }
        }
        assert!((0.7..1.0).contains(&worst), "{worst}");
        // Many numbers have the limit of one unit, and none has more than two.
        assert!((limit(&[1.0; 1000]) - 1.0).abs() < 1e-3);
        assert!((limit(&[3.0, 1e-3, 0.0]) - 2.0).abs() < 1e-3);
        assert_eq!(
            Tolerance::derived(Dtype::F16, 1.0, &[1.0; 4]).row,
            Tolerance::derived(Dtype::F16, 1.0, &[1.0; 1000]).row
        );
    }

    fn reference(dtype: Dtype, values: &[f64], tolerance: Tolerance) -> OutputReference {
        OutputReference {
            name: "y".to_owned(),
            dtype,
            dims: vec![values.len()],
            row_count: 1,
            rows: None,
            values: values.to_vec(),
            exact: Vec::new(),
            tolerance,
            allowed: Vec::new(),
            other_sides: HashMap::new(),
            blank: Some(0x7fc0_beef),
        }
    }

    /// The kinds of the complaints about fp32 numbers that are compared with the values of a file.
    fn complaints(values: &[f64], answer: &[f32]) -> Vec<Complaint> {
        let tolerance = Tolerance::derived(Dtype::F32, 1.0, values).limited_by_typical_value(values);
        let answer: Vec<u8> = answer.iter().flat_map(|number| number.to_le_bytes()).collect();
        judge(&[reference(Dtype::F32, values, tolerance)], &[answer]).complaints
    }

    #[test]
    fn an_expected_infinity_or_nan_is_matched_only_by_itself() {
        const INF: f64 = f64::INFINITY;
        let values = [1.0, INF, -INF, f64::NAN];
        assert_eq!(complaints(&values, &[1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]), []);
        for wrong in [
            [1.0, 7.0, f32::NEG_INFINITY, f32::NAN],
            [1.0, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NAN],
            [1.0, f32::INFINITY, f32::NAN, f32::NAN],
            [1.0, f32::INFINITY, f32::MIN, f32::NAN],
            [1.0, f32::INFINITY, f32::NEG_INFINITY, 1.0],
        ] {
            let complaints = complaints(&values, &wrong);
            assert_eq!(complaints[0].kind, "elements", "{wrong:?}: {complaints:?}");
        }
        let message = &complaints(&values, &[1.0, 7.0, f32::NEG_INFINITY, f32::NAN])[0].message;
        assert!(message.contains("[1]: 7.000000e0, expected inf"), "{message}");
        // An element that was not written has the bits of a NaN.
        let unwritten = [1.0, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7fc0_beef)];
        assert_eq!(complaints(&values, &unwritten)[0].kind, "unwritten");
    }

    #[test]
    fn a_huge_expected_value_does_not_hide_wrong_values() {
        let mut values = vec![1.0; 100];
        for huge in [1e30, 3e38, 1e300] {
            values[7] = huge;
            let mut answer = vec![1.0; 100];
            answer[7] = huge as f32;
            assert_eq!(complaints(&values, &answer), [], "{huge}");
            answer[8] = 2.0;
            assert_eq!(complaints(&values, &answer)[0].kind, "elements", "{huge}");
        }
        // A tolerance that is not finite accepts nothing but the same number.
        let tolerance = Tolerance::new(1e10, 0.0, 1.0);
        let output = reference(Dtype::F64, &[1e305], tolerance);
        let judged = |number: f64| judge(std::slice::from_ref(&output), &[number.to_le_bytes().to_vec()]);
        assert!(!judged(5.0).complaints.is_empty());
    }

    /// The share of the limit, of fp32 numbers that should all be 1.
    fn share(answer: &[f32]) -> f64 {
        let values = vec![1.0; 4];
        let tolerance = Tolerance { row: 1.0, l2: 1.0, ..Tolerance::new(1e-3, 0.0, 1.0) };
        let answer: Vec<u8> = answer.iter().flat_map(|number| number.to_le_bytes()).collect();
        judge(&[reference(Dtype::F32, &values, tolerance)], &[answer]).share
    }

    // Such an answer would be tried on other inputs, as one that exceeds its limit by little.
    #[test]
    fn an_answer_with_missing_elements_is_not_near_its_limit() {
        let near = 1.0012;
        assert!((1.1..1.3).contains(&share(&[near, 1.0, 1.0, 1.0])));
        for missing in [f32::NAN, f32::INFINITY, f32::from_bits(0x7fc0_beef)] {
            assert_eq!(share(&[near, missing, 1.0, 1.0]), f64::INFINITY, "{missing}");
        }
        assert_eq!(share(&[near, 1.0, 1.0]), f64::INFINITY, "an element is missing");
    }

    #[test]
    fn the_worst_element_is_a_wrong_one() {
        let values = [1.0, 1e6];
        let tolerance = Tolerance::new(1e-3, 0.0, 1.0);
        let answer: Vec<u8> = [1.5_f32, 1e6 + 100.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        let judged = judge(&[reference(Dtype::F32, &values, tolerance)], &[answer]);
        assert!(judged.complaints[0].message.contains("the worst at [0]"), "{:?}", judged.complaints);
    }
}
