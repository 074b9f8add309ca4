//! How exact a plain implementation in fp32 is on some inputs.
//!
//! A sum whose terms cancel, a softmax of large numbers or the variance of nearly equal numbers is inexact in many fp32
//! implementations. So the reference itself runs in fp32, several times, on inputs that are moved by one rounding, and
//! its errors show what honest kernels can have. Its operations on elements round up or down at random (`Rounded` in
//! `reference.py`), because a kernel may compute in another order. The limits of an output are widened by a multiple of
//! these errors. The errors are computed only if an answer exceeds the limits without them. They depend on the inputs
//! and the reference, never on an answer. A reference that converts its inputs to float64 shows only what the moved
//! inputs change.
//!
//! At a step, such as that of `round`, an honest kernel can have the number on either side, but none between them or
//! beyond them. So an element whose reference jumps gets no larger limits: its answer must be one of the numbers that
//! the reference has there. [`Steps`] finds such elements with inputs that are moved by more and more roundings: a
//! smooth number moves in proportion, a step has the same height.
//!
//! At a step that exact numbers decide, such as that of `round(16 x)` for an x of 16 bits, there is one right number: only
//! the results of inexact operations can be on another side. So the reference also runs on inputs that stay while these
//! results move (`Moved` in `reference.py`).
//!
//! An integer that exact numbers decide, such as the result of a comparison of inputs, has one right value: `x >= 1` is a
//! wrong answer for `x > 1`. So for integers only the results of inexact operations move. The inputs move only if the operations cannot be seen, because the reference converts its inputs.

use std::collections::HashMap;
use std::sync::Arc;

use op::derive_seed;
use random::Random;

use crate::declaration::ReferenceSource;
use crate::declared_op::{DeclaredOp, DeclaredReference};
use crate::inputs::{DeclaredInputs, InputTensor};
use crate::judge::{OutputConditioning, OutputReference};
use crate::rows::Precision;

/// How often the reference runs in fp32. Each time every number of the inputs moves up or down by one rounding, at random.
const DRAWS: u64 = 6;
/// How often the reference runs in addition on inputs that do not move, if the outputs have at most [`FEW`] numbers. A
/// difference may be 0 unless its two sides round differently. With moved inputs it may have no rounding error at all;
/// without, about four of ten draws show one.
const DRAWS_OF_FEW: u64 = 18;
/// See [`DRAWS_OF_FEW`].
const FEW: usize = 4096;
/// Purpose numbers of the seeds of the roundings and of the larger moves.
const ROUNDINGS: u64 = 0x5eed;
const MOVES: u64 = 0x57e9;
/// Half the distance from 1 to the next number of fp32.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// By how many roundings the inputs move to find steps. An honest kernel has errors of a few roundings, so the first
/// move passes the steps that matter. Later moves tell steps from smooth numbers, and find the steps of numbers that
/// fp32 computes less exactly.
const LADDER: [f64; 6] = [16.0, 64.0, 256.0, 1024.0, 8192.0, 65536.0];
/// The number of directions in which the inputs move. Each is tried forwards and backwards.
const DIRECTIONS: u64 = 3;
/// The height of a step may change by this share between two moves. A smooth number changes by three times as much.
const LARGEST_DRIFT: f64 = 1.0 / 3.0;
/// The largest error that is allowed at a step, as a share of its height.
const LARGEST_SHARE: f64 = 1.0 / 8.0;
/// The largest of many errors, as a multiple of their root mean square.
const LARGEST: f64 = 8.0;

/// The factor from errors in fp32 to errors in the type in which kernels compute. Kernels with an fp64 output compute
/// in fp64; their errors are smaller by the ratio of the unit roundoffs, as far as errors grow in proportion to their
/// causes.
fn precision_scale(dtype: launch::Dtype) -> f64 {
    if dtype == launch::Dtype::F64 { 0.5_f64.powi(53 - 24) } else { 1.0 }
}

impl DeclaredOp {
    /// What honest kernels can have in each output; empty if it cannot be computed.
    pub(crate) fn conditioning(
        &self,
        inputs: &DeclaredInputs,
        reference: &DeclaredReference,
    ) -> Vec<OutputConditioning> {
        let is_python = matches!(self.declaration.reference, ReferenceSource::Python(_));
        if !is_python || self.declaration.has_fixed_inputs() {
            return Vec::new();
        }
        let Some(mut squares) = self.squares(inputs, reference, (DRAWS, true)) else { return Vec::new() };
        if squares.iter().map(Vec::len).sum::<usize>() <= FEW
            && let Some(others) = self.squares(inputs, reference, (DRAWS_OF_FEW, false))
        {
            for (square, other) in squares.iter_mut().flatten().zip(others.into_iter().flatten()) {
                *square = square.max(other);
            }
        }
        let reduction = self.declaration.reduction(&inputs.problem);
        let limits = reference.outputs.iter().zip(squares).map(|(output, squares)| {
            // Integers are equal or not.
            let scale = precision_scale(output.dtype);
            let errors = squares.into_iter().map(|square| scale * square.sqrt());
            let errors: Vec<f64> = if output.dtype.is_float() { errors.collect() } else { Vec::new() };
            Steps::new(output, errors, LARGEST * reduction.sqrt())
        });
        let mut steps: Vec<Steps<'_>> = limits.collect();
        let is_integer = |index: usize| !reference.outputs[index].dtype.is_float();
        let seed = |direction: u64| derive_seed(derive_seed(reference.sample, MOVES), direction);
        find_steps(
            &mut steps,
            |direction, roundings, own| {
                let moved = inputs.moved(seed(direction), roundings);
                let mut values = self.numbers(inputs, &moved, reference, Precision::Double)?;
                // Integers settle after the first move.
                for (index, own) in own.into_iter().flatten().enumerate() {
                    if is_integer(index) {
                        values[index].clone_from(own);
                    }
                }
                Some(values)
            },
            |direction, roundings| {
                let precision = Precision::Moved { seed: seed(direction), share: roundings * ROUNDING };
                self.numbers(inputs, inputs, reference, precision)
            },
        );
        steps.into_iter().map(Steps::finish).collect()
    }

    /// The numbers of the reference for changed inputs, on the compared rows.
    fn numbers(
        &self,
        inputs: &DeclaredInputs,
        changed: &DeclaredInputs,
        reference: &DeclaredReference,
        precision: Precision,
    ) -> Option<Vec<Vec<f64>>> {
        let values = self.reference_values(&inputs.problem, changed, reference.sample, precision).ok()?;
        Some(values.outputs.into_iter().map(|output| output.numbers).collect())
    }

    /// The mean squares of the errors of every compared element over some draws, whose inputs may move.
    fn squares(
        &self,
        inputs: &DeclaredInputs,
        reference: &DeclaredReference,
        (draws, moves): (u64, bool),
    ) -> Option<Vec<Vec<f64>>> {
        let mut squares: Vec<Vec<f64>> =
            reference.outputs.iter().map(|output| vec![0.0; output.values.len()]).collect();
        for draw in 0..draws {
            let seed = derive_seed(derive_seed(reference.sample, ROUNDINGS + u64::from(!moves)), draw);
            let changed = inputs.rounded(seed, if moves { ROUNDING } else { 0.0 });
            let values = self.numbers(inputs, &changed, reference, Precision::Single { roundings: seed })?;
            for ((squares, output), values) in squares.iter_mut().zip(&reference.outputs).zip(values) {
                for ((square, right), value) in squares.iter_mut().zip(&output.values).zip(values) {
                    let change = value - right;
                    if change.is_finite() {
                        *square += change * change / draws as f64;
                    }
                }
            }
        }
        Some(squares)
    }
}

/// The outputs of the reference, if it can compute them.
type Outputs = Option<Vec<Vec<f64>>>;

/// Moves the inputs by more and more roundings, until it is known of every element whether it jumps. `values` computes
/// the outputs for inputs that are moved in a direction, and `own` for inputs that stay and inexact operations whose
/// results move. At the first move `values` is given what `own` computed.
fn find_steps(
    steps: &mut [Steps<'_>],
    mut values: impl FnMut(u64, f64, Option<&[Vec<f64>]>) -> Outputs,
    mut own: impl FnMut(u64, f64) -> Outputs,
) {
    for (rung, roundings) in LADDER.into_iter().enumerate() {
        for draw in 0..2 * DIRECTIONS {
            let signed = if draw % 2 == 0 { roundings } else { -roundings };
            let own = if rung == 0 { own(draw / 2, signed) } else { None };
            for (index, step) in steps.iter_mut().enumerate().filter(|_| rung == 0) {
                step.add_own(own.as_ref().map(|own| own[index].as_slice()));
            }
            // Moved inputs that the reference refuses are left out.
            for (step, values) in
                steps.iter_mut().zip(values(draw / 2, signed, own.as_deref()).into_iter().flatten())
            {
                step.add(draw as u8, &values);
            }
        }
        let is_open = steps.iter_mut().map(|step| step.climb(rung)).fold(false, |open, one| open | one);
        if !is_open {
            return;
        }
    }
}

/// What is known of the steps of one output.
struct Steps<'r> {
    output: &'r OutputReference,
    errors: Vec<f64>,
    /// What the errors are multiplied with.
    factor: f64,
    elements: Vec<Changes>,
    /// Whether the results of inexact operations cannot change the element, so that it has one right number even at a
    /// step of the inputs.
    is_exact: Vec<bool>,
    found: HashMap<usize, Vec<f64>>,
}

/// How the moves change an element.
#[derive(Clone, Copy, Default)]
struct Changes {
    /// The largest change upwards and downwards by the present move, and its draw.
    now: [(f64, u8); 2],
    /// The same for the move before.
    before: [(f64, u8); 2],
    /// The change by the present move in the draws of `before`.
    again: [f64; 2],
    /// Whether it is known that the element jumps or does not.
    is_known: bool,
}

impl<'r> Steps<'r> {
    fn new(output: &'r OutputReference, errors: Vec<f64>, factor: f64) -> Self {
        let elements = vec![Changes::default(); output.values.len()];
        let is_exact = vec![true; output.values.len()];
        Steps { output, errors, factor, elements, is_exact, found: HashMap::new() }
    }

    /// Whether a change exceeds the tolerance of the element.
    fn matters(&self, position: usize, change: f64) -> bool {
        let tolerance = &self.output.tolerance;
        change.abs() > tolerance.atol + tolerance.rtol * self.output.values[position].abs()
    }

    fn add(&mut self, draw: u8, values: &[f64]) {
        for ((value, right), element) in values.iter().zip(&self.output.values).zip(&mut self.elements) {
            let change = value - right;
            if element.is_known || !change.is_finite() {
                continue;
            }
            let side = usize::from(change < 0.0);
            if change.abs() > element.now[side].0.abs() {
                element.now[side] = (change, draw);
            }
            for side in 0..2 {
                if element.before[side].1 == draw {
                    element.again[side] = change;
                }
            }
        }
    }

    /// Notes which elements the results of inexact operations change. `None` if they cannot be seen.
    fn add_own(&mut self, values: Option<&[f64]>) {
        for position in 0..self.is_exact.len() {
            let value = values.and_then(|values| values.get(position));
            self.is_exact[position] &=
                value.is_some_and(|value| !self.matters(position, value - self.output.values[position]));
        }
    }

    /// Compares the changes with those of the move before. Returns whether a larger move could show more.
    fn climb(&mut self, rung: usize) -> bool {
        let is_float = self.output.dtype.is_float();
        let mut is_open = false;
        for position in 0..self.elements.len() {
            let Changes { now, before, again, is_known } = self.elements[position];
            if is_known {
                continue;
            }
            let error = self.factor * self.errors.get(position).copied().unwrap_or_default();
            let is_inexact = self.matters(position, error);
            if before.iter().any(|(change, _)| self.matters(position, *change)) {
                self.elements[position].is_known = true;
                // A change that only a later move shows counts only if the reference is inexact there in fp32.
                if rung == 1 || is_inexact {
                    let ratio = LADDER[rung] / LADDER[rung - 1];
                    self.settle(position, before.map(|(change, _)| change), again, (LADDER[rung], ratio));
                }
                continue;
            }
            // Integers do not move in proportion, so one move is enough.
            if !is_float {
                self.elements[position].is_known = true;
                self.settle(
                    position,
                    now.map(|(change, _)| change),
                    now.map(|(change, _)| change),
                    (1.0, 2.0),
                );
                continue;
            }
            let moves = now.iter().any(|(change, _)| self.matters(position, *change));
            is_open |= is_inexact || rung == 0 && moves;
            self.elements[position] = Changes { before: now, ..Changes::default() };
        }
        is_open
    }

    /// Decides whether an element jumps, by its changes in the same draws of two moves.
    fn settle(&mut self, position: usize, before: [f64; 2], again: [f64; 2], (roundings, ratio): (f64, f64)) {
        let sides = before.into_iter().zip(again);
        let is_step = |(before, again): &(f64, f64)| {
            self.matters(position, *before) && (again - before).abs() < before.abs() * LARGEST_DRIFT
        };
        let (steps, smooth): (Vec<_>, Vec<_>) = sides.into_iter().partition(is_step);
        // A kink, such as that of `max(x, 0)`, is no step: it limits the change in one direction, but the change in the
        // other direction is larger.
        let farthest = smooth.iter().map(|(before, _)| before.abs()).fold(0.0, f64::max);
        let jumps: Vec<(f64, f64)> =
            steps.into_iter().filter(|(before, _)| before.abs() > farthest).collect();
        let Some(lowest) = jumps.iter().map(|(before, _)| before.abs()).min_by(f64::total_cmp) else {
            return;
        };
        // The height of the step is the change that a move of size 0 would make: the rest grows with the move.
        let height = |(before, again): &(f64, f64)| before - (again - before) / (ratio - 1.0);
        let right = self.output.values[position];
        let others: Vec<f64> = jumps.iter().map(|side| right + height(side)).collect();
        let is_decided = self.is_exact[position] && roundings == LADDER[1];
        self.found.insert(position, if is_decided { Vec::new() } else { others });
        // In addition to the step, the element may have errors like any other.
        let drift = jumps.iter().map(|(before, again)| (again - before).abs()).fold(0.0, f64::max);
        let error = drift / (roundings - roundings / ratio);
        if let Some(allowed) = self.errors.get_mut(position) {
            let error = precision_scale(self.output.dtype) * error;
            *allowed = error.min(lowest * LARGEST_SHARE / self.factor);
        }
    }

    fn finish(self) -> OutputConditioning {
        let Steps { errors, factor, found, .. } = self;
        let allowed = errors.into_iter().map(|error| factor * error).collect();
        OutputConditioning { allowed, other_sides: found }
    }
}

impl DeclaredInputs {
    /// The inputs in fp32, with every number moved up or down by `step` of itself.
    fn rounded(&self, seed: u64, step: f64) -> Self {
        self.with_tensors(seed, |tensor, seed| rounded(tensor, step, seed))
    }

    /// The inputs in fp64, with every number moved by at most this many roundings of fp32. The opposite number of
    /// roundings moves them by as much in the opposite direction.
    fn moved(&self, seed: u64, roundings: f64) -> Self {
        self.with_tensors(seed, |tensor, seed| {
            let mut random = Random::new(seed);
            let share = |_| roundings * ROUNDING * (2.0 * random.uniform() - 1.0);
            moved(tensor, launch::Dtype::F64, share)
        })
    }

    fn with_tensors(&self, seed: u64, change: impl Fn(&InputTensor, u64) -> InputTensor) -> Self {
        let tensors = self.tensors.iter().enumerate();
        let tensors = tensors.map(|(index, tensor)| change(tensor, derive_seed(seed, index as u64)));
        DeclaredInputs { tensors: tensors.collect(), ..self.clone() }
    }

    /// The most terms that a sum has if every number of an input is a term of one result.
    pub(crate) fn terms_of_a_result(&self, outputs: &[OutputReference]) -> f64 {
        let most = self.tensors.iter().map(InputTensor::elements).max().unwrap_or(1);
        let fewest = outputs.iter().map(|output| output.dims.iter().product::<usize>()).min().unwrap_or(1);
        most.div_ceil(fewest.max(1)).max(1) as f64
    }

    /// Lengths to try for a sum that no size of the op declares: powers of two, the smallest first.
    pub(crate) fn possible_reductions(&self) -> impl Iterator<Item = f64> {
        let most = self.tensors.iter().map(InputTensor::elements).max().unwrap_or(1) as f64;
        (1..32).map(|step| f64::from(step).exp2()).take_while(move |length| *length < 2.0 * most)
    }
}

/// The tensor in fp32, with every number moved up or down by `step` of itself. Integers stay as they are.
fn rounded(tensor: &InputTensor, step: f64, seed: u64) -> InputTensor {
    let mut random = Random::new(seed);
    let step = move |_| if random.bits() & 1 == 0 { step } else { -step };
    moved(tensor, launch::Dtype::F32, step)
}

/// The tensor in a type, with every number changed by a share of it. Integers stay as they are.
fn moved(tensor: &InputTensor, dtype: launch::Dtype, mut share: impl FnMut(f64) -> f64) -> InputTensor {
    if !tensor.dtype.is_float() {
        return tensor.clone();
    }
    let mut bytes = Vec::with_capacity(dtype.bytes() * tensor.bytes.len() / tensor.dtype.bytes());
    for number in tensor.dtype.floats(&tensor.bytes) {
        dtype.push_float(number * (1.0 + share(number)), &mut bytes);
    }
    InputTensor { dtype, bytes: Arc::new(bytes), ..tensor.clone() }
}

#[cfg(test)]
mod tests {
    use launch::Dtype;

    use super::*;
    use crate::judge::{Tolerance, judge};

    /// What is allowed for a function of some inputs. The errors in fp32 are those of one rounding of the inputs.
    fn conditioned(
        dtype: Dtype,
        inputs: &[f64],
        function: impl Fn(&[f64]) -> Vec<f64>,
    ) -> (OutputReference, OutputConditioning) {
        conditioned_with(dtype, inputs, function, |_, _| None)
    }

    /// The same for a function whose inexact operations can be seen.
    fn conditioned_with(
        dtype: Dtype,
        inputs: &[f64],
        function: impl Fn(&[f64]) -> Vec<f64>,
        own: impl FnMut(u64, f64) -> Outputs,
    ) -> (OutputReference, OutputConditioning) {
        let values = function(inputs);
        let typical = (values.iter().map(|it| it * it).sum::<f64>() / values.len() as f64).sqrt();
        let rtol = if dtype.is_float() { 4e-7 } else { 0.0 };
        let tolerance =
            Tolerance { rtol, atol: rtol * typical, l2: rtol, row: 2.0 * rtol, row_atol: rtol * typical };
        let output = OutputReference {
            exact: Vec::new(),
            name: "y".to_owned(),
            dtype,
            dims: vec![values.len()],
            row_count: 1,
            rows: None,
            values,
            tolerance,
            allowed: Vec::new(),
            other_sides: HashMap::new(),
            blank: None,
        };
        let moved = |seed: u64, roundings: f64| {
            let mut random = Random::new(derive_seed(0x42, seed));
            let share = |_| 1.0 + roundings * ROUNDING * (2.0 * random.uniform() - 1.0);
            let factors: Vec<f64> = inputs.iter().map(share).collect();
            function(&inputs.iter().zip(factors).map(|(input, factor)| input * factor).collect::<Vec<_>>())
        };
        let mut squares = vec![0.0; output.values.len()];
        for draw in 0..DRAWS {
            for (square, (value, right)) in
                squares.iter_mut().zip(moved(draw, 1.0).iter().zip(&output.values))
            {
                *square += (value - right).powi(2) / DRAWS as f64;
            }
        }
        let errors = if dtype.is_float() { squares.into_iter().map(f64::sqrt).collect() } else { Vec::new() };
        let mut steps = [Steps::new(&output, errors, LARGEST)];
        find_steps(&mut steps, |direction, roundings, _| Some(vec![moved(100 + direction, roundings)]), own);
        let [steps] = steps;
        let conditioning = steps.finish();
        (output, conditioning)
    }

    /// Whether an answer is right.
    fn accepts((output, conditioning): &(OutputReference, OutputConditioning), answer: &[f64]) -> bool {
        let output = output.conditioned(output.tolerance, Some(conditioning), 1.0);
        let mut bytes = Vec::new();
        for &number in answer {
            output.dtype.push_float(number, &mut bytes);
        }
        judge(&[output], &[bytes]).complaints.is_empty()
    }

    fn rounded_to_even(inputs: &[f64]) -> Vec<f64> {
        inputs.iter().map(|x| (16.0 * x).round_ties_even()).collect()
    }

    #[test]
    fn a_step_allows_the_numbers_on_its_sides_and_no_others() {
        // Two exact ties, two numbers beside a tie, and one far from all.
        let inputs =
            [1.0 / 32.0, 3.0 / 32.0, 5.0 / 32.0 * (1.0 + ROUNDING), 7.0 / 32.0 * (1.0 - ROUNDING), 0.7];
        let honest = conditioned(Dtype::F32, &inputs, rounded_to_even);
        assert_eq!(honest.0.values, [0.0, 2.0, 3.0, 3.0, 11.0]);
        assert!(accepts(&honest, &[0.0, 2.0, 3.0, 3.0, 11.0]));
        assert!(accepts(&honest, &[1.0, 1.0, 2.0, 4.0, 11.0]), "the other sides");
        for (position, wrong) in [
            (0, [0.5, -1.0, 2.0]),
            (1, [1.5, 0.0, 3.0]),
            (2, [2.5, 4.0, 1.0]),
            (3, [3.5, 2.0, 5.0]),
            (4, [11.5, 10.0, 12.0]),
        ] {
            for number in wrong {
                let mut answer = honest.0.values.clone();
                answer[position] = number;
                assert!(!accepts(&honest, &answer), "{number} at {position}");
            }
        }
    }

    #[test]
    fn a_step_that_exact_numbers_decide_has_one_right_number() {
        // The product is exact for the first number and not for the second.
        let inputs = [1.0 / 32.0, 5.0 / 32.0 * (1.0 + ROUNDING)];
        let own = |_: u64, roundings: f64| {
            Some(vec![vec![0.0, (16.0 * inputs[1] * (1.0 + roundings * ROUNDING)).round_ties_even()]])
        };
        let honest = conditioned_with(Dtype::F32, &inputs, rounded_to_even, own);
        assert!(accepts(&honest, &[0.0, 3.0]) && accepts(&honest, &[0.0, 2.0]));
        for wrong in [1.0, 0.5, -1.0, 1e-3] {
            assert!(!accepts(&honest, &[wrong, 3.0]), "{wrong}: {:?}", honest.1);
        }
    }

    #[test]
    fn what_moves_beside_a_step_is_no_part_of_it() {
        // Numbers that are rounded to multiples of a scale that fp32 computes: the first is half-way between two.
        let inputs = [2.5 * 0.1, 0.33, 1.0, 12.7];
        let function = |inputs: &[f64]| -> Vec<f64> {
            let scale = inputs.iter().fold(0.0, |most: f64, x| most.max(x.abs())) / 127.0;
            inputs.iter().map(|x| (x / scale).round_ties_even() * scale).collect()
        };
        let honest = conditioned(Dtype::F32, &inputs, function);
        let mut answer = honest.0.values.clone();
        for number in [0.2, 0.3] {
            answer[0] = number;
            assert!(accepts(&honest, &answer), "{number}: {:?}", honest.1.other_sides);
            answer[0] = number * (1.0 + 1e-4);
            assert!(!accepts(&honest, &answer), "{number}: {:?}", honest.1);
        }
        answer[0] = 0.25;
        assert!(!accepts(&honest, &answer));
    }

    #[test]
    fn smooth_functions_and_kinks_have_no_steps() {
        let gelu = |x: f64| 0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x.powi(3))).tanh());
        let inputs: Vec<f64> = (0..40).map(|at| f64::from(at) * 0.37 - 7.0).collect();
        let softmax = |inputs: &[f64]| -> Vec<f64> {
            let terms: Vec<f64> = inputs.iter().map(|x| (1000.0 * (x - 7.43)).exp()).collect();
            let sum: f64 = terms.iter().sum();
            terms.iter().map(|term| term / sum).collect()
        };
        let variance = |inputs: &[f64]| {
            let mean = inputs.iter().sum::<f64>() / inputs.len() as f64;
            vec![inputs.iter().map(|x| (x - mean).powi(2)).sum::<f64>()]
        };
        let near = [100.0, 100.000_001, 99.999_999, 100.0];
        let differences = |inputs: &[f64]| {
            vec![
                (inputs[0] - inputs[1]).max(0.0),
                (inputs[1] - inputs[2]).max(0.0),
                (inputs[0] - inputs[3]).abs(),
            ]
        };
        for (name, found) in [
            ("gelu", conditioned(Dtype::F32, &inputs, |inputs| inputs.iter().copied().map(gelu).collect())),
            ("softmax", conditioned(Dtype::F32, &inputs, softmax)),
            ("variance", conditioned(Dtype::F32, &near, variance)),
            ("kinks", conditioned(Dtype::F32, &near, differences)),
            ("clamp", conditioned(Dtype::F32, &inputs, |x| x.iter().map(|x| x.clamp(-1.0, 1.0)).collect())),
        ] {
            assert_eq!(found.1.other_sides, HashMap::new(), "{name}");
            // What is inexact may be wrong by a multiple of its error.
            let answer =
                found.0.values.iter().zip(&found.1.allowed).map(|(value, error)| value + 0.5 * error);
            assert!(accepts(&found, &answer.collect::<Vec<_>>()), "{name}");
        }
    }

    #[test]
    fn a_sum_of_steps_allows_no_numbers_between_those_that_it_can_have() {
        // 32 exact ties, which today's answer could use as an allowance of many steps.
        let inputs: Vec<f64> = (0..64).map(|at| f64::from(at) / 32.0).collect();
        let sum = |inputs: &[f64]| vec![rounded_to_even(inputs).iter().sum::<f64>()];
        let found = conditioned(Dtype::F32, &inputs, sum);
        let right = found.0.values[0];
        assert!(accepts(&found, &[right]));
        for wrong in [0.3, 40.0, -40.0, 33.0, -33.0] {
            assert!(!accepts(&found, &[right + wrong]), "{wrong}: {:?}", found.1);
        }
    }

    #[test]
    fn an_index_may_be_that_of_another_number_that_is_as_large() {
        let argmax = |inputs: &[f64]| -> Vec<f64> {
            let products: Vec<f64> = inputs.chunks(2).map(|pair| pair[0] * pair[1]).collect();
            let largest = |a: &usize, b: &usize| products[*a].total_cmp(&products[*b]);
            vec![(0..products.len()).max_by(largest).unwrap_or_default() as f64]
        };
        // 0.1 * 0.3 and 0.3 * 0.1 are equal, and 0.2 * 0.15 nearly.
        let found = conditioned(Dtype::I32, &[0.1, 0.2, 0.1, 0.3, 0.5, 0.01, 0.3, 0.1], argmax);
        assert_eq!(found.0.values, [3.0]);
        assert!(accepts(&found, &[3.0]) && accepts(&found, &[1.0]));
        assert!(!accepts(&found, &[0.0]) && !accepts(&found, &[2.0]));
        // Where the numbers differ, there is one right index.
        let found = conditioned(Dtype::I32, &[0.1, 0.2, 0.1, 0.301, 0.5, 0.01, 0.3, 0.1], argmax);
        assert!(accepts(&found, &[1.0]) && !accepts(&found, &[3.0]));
    }
}
