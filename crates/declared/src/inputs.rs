//! The inputs of a problem, as the bytes that kernels read.

use std::sync::Arc;

use launch::Dtype;
use op::values::{self, PIECE};
use op::{Class, cores};
use random::Random;

use crate::declaration::{Argument, Declaration, Kind};
use crate::problem::DeclaredProblem;

/// The inputs of a problem.
#[derive(Clone, Debug)]
pub struct DeclaredInputs {
    pub(crate) problem: DeclaredProblem,
    pub(crate) class: Class,
    /// Those arguments that the kernel reads, in the order of the op.
    pub(crate) tensors: Vec<InputTensor>,
}

/// One input.
#[derive(Clone, Debug)]
pub(crate) struct InputTensor {
    pub name: String,
    pub dtype: Dtype,
    pub dims: Vec<usize>,
    pub bytes: Arc<Vec<u8>>,
}

/// The share of the numbers of the class `uniform` that are equal to a scalar.
const SHARE_OF_SCALARS: f64 = 1.0 / 32.0;
impl InputTensor {
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }
}

/// The number in a one-hot row that is not 0.
const PEAK: f32 = 4.0;

impl Declaration {
    /// The inputs of a class. The same seed gives the same inputs everywhere.
    pub fn draw(
        &self,
        problem: &DeclaredProblem,
        class: Class,
        seed: u64,
    ) -> Result<DeclaredInputs, op::Refusal> {
        let tensors = self.inputs().enumerate();
        let tensors = tensors.map(|(index, argument)| self.draw_one(problem, argument, class, (seed, index)));
        Ok(DeclaredInputs { problem: problem.clone(), class, tensors: tensors.collect::<Result<_, _>>()? })
    }

    /// One input. Each has its own sequence of random numbers, so that a larger tensor does not change the next.
    pub fn draw_one(
        &self,
        problem: &DeclaredProblem,
        argument: &Argument,
        class: Class,
        (seed, index): (u64, usize),
    ) -> Result<InputTensor, op::Refusal> {
        let dtype = self.dtype(argument.dtype, problem);
        let dims = self.shape(argument, problem)?;
        let bytes = match (&argument.contents, argument.range) {
            (Some(file), _) => file.elements(&argument.name, dtype, &dims)?.to_vec(),
            (None, Some(range)) => in_range(dtype, range, dims.iter().product(), &sequence(seed, index)),
            (None, None) => {
                let mut bytes = encode(dtype, &self.numbers(problem, argument, class, (seed, index))?);
                lengthen(dtype, class, &mut bytes, &sequence(seed, index));
                bytes
            }
        };
        Ok(InputTensor { name: argument.name.clone(), dtype, dims, bytes: Arc::new(bytes) })
    }

    /// The numbers of an input without a range.
    fn numbers(
        &self,
        problem: &DeclaredProblem,
        argument: &Argument,
        class: Class,
        (seed, index): (u64, usize),
    ) -> Result<Vec<f32>, op::Refusal> {
        let dims = self.shape(argument, problem)?;
        let mut random = sequence(seed, index);
        let mut numbers = vec![0.0; dims.iter().product()];
        let class = match &argument.classes {
            Some(allowed) if !allowed.contains(&class) => allowed[0],
            _ => class,
        };
        let row = dims.last().copied().unwrap_or(1);
        values::fill(&mut numbers, class, (row, PEAK), &mut random);
        if argument.scale != 1.0 {
            for number in &mut numbers {
                *number *= argument.scale as f32;
            }
        }
        if class == Class::Uniform {
            self.put_scalars(&mut numbers, problem, argument, &mut sequence(!seed, index));
        }
        Ok(numbers)
    }

    /// Makes some numbers of the class `uniform` equal to a scalar of the op, if the class has such numbers. Without them
    /// a kernel that writes `x >= limit` for `x > limit` would be right.
    fn put_scalars(
        &self,
        numbers: &mut [f32],
        problem: &DeclaredProblem,
        argument: &Argument,
        random: &mut Random,
    ) {
        let scalars = self.arguments.iter().filter(|it| it.kind == Kind::Scalar);
        let scalars: Vec<f64> = scalars
            .map(|it| self.scalar(it, problem))
            .filter(|value| *value != 0.0 && value.abs() <= argument.scale.abs())
            .collect();
        if scalars.is_empty() {
            return;
        }
        for number in numbers {
            if random.uniform() < SHARE_OF_SCALARS {
                *number = scalars[random.bits() as usize % scalars.len()] as f32;
            }
        }
    }

    /// Inputs of a class with the opposite signs of those in `inputs`. Arguments with a range have no opposite; they
    /// are drawn again. Those from files stay as they are.
    pub fn oppose(
        &self,
        inputs: &DeclaredInputs,
        class: Class,
        seed: u64,
    ) -> Result<DeclaredInputs, op::Refusal> {
        let problem = &inputs.problem;
        let mut tensors = Vec::new();
        for (index, (argument, before)) in self.inputs().zip(&inputs.tensors).enumerate() {
            if argument.contents.is_some() {
                tensors.push(before.clone());
                continue;
            }
            if argument.range.is_some() {
                tensors.push(self.draw_one(problem, argument, class, (seed, index))?);
                continue;
            }
            let mut numbers = self.numbers(problem, argument, class, (seed, index))?;
            if self.classes.contains(&Class::Large) && self.has_independent_rows(argument) {
                let large = self.numbers(problem, argument, Class::Large, (seed, index))?;
                replace_some_rows(&mut numbers, &large, self.rows(problem), seed);
            }
            if before.dtype.is_float() {
                oppose_signs(&mut numbers, before);
            }
            let mut bytes = encode(before.dtype, &numbers);
            lengthen(before.dtype, class, &mut bytes, &sequence(seed, index));
            tensors.push(InputTensor { bytes: Arc::new(bytes), ..before.clone() });
        }
        Ok(DeclaredInputs { problem: problem.clone(), class, tensors })
    }
}

impl Declaration {
    /// The inputs with a random change of one tensor: some of its rows are scaled, negated, set to 0, exchanged, or one
    /// of their elements becomes large. Arguments with a range and those from files stay as they are.
    pub fn mutated(&self, inputs: &DeclaredInputs, seed: u64) -> DeclaredInputs {
        let mut random = Random::new(seed);
        let mut mutated = inputs.clone();
        let mut free: Vec<&mut InputTensor> = self
            .inputs()
            .zip(&mut mutated.tensors)
            .filter(|(argument, _)| argument.range.is_none() && argument.contents.is_none())
            .map(|(_, tensor)| tensor)
            .filter(|tensor| tensor.dtype.is_float() && !tensor.bytes.is_empty())
            .collect();
        if free.is_empty() {
            return mutated;
        }
        let mut below = |count: usize| random.integer(0, count.max(1) as i64) as usize;
        let chosen = below(free.len());
        let tensor = &mut *free[chosen];
        let mut numbers: Vec<f32> = tensor.dtype.floats(&tensor.bytes).iter().map(|&x| x as f32).collect();
        let row = tensor.dims.last().copied().unwrap_or(1).max(1);
        let rows = numbers.len() / row;
        let count = [1, 1, 4, rows][below(4)].min(rows);
        let first = below(rows - count + 1);
        let factor = [0.0, -1.0, 0.25, 0.5, 2.0, 4.0][below(6)];
        match below(3) {
            0 => {
                let other = below(rows);
                (0..row).for_each(|d| numbers.swap(first * row + d, other * row + d));
            }
            1 => {
                let at = below(row);
                (first..first + count).for_each(|index| numbers[index * row + at] *= 16.0 * factor);
            }
            _ => numbers[first * row..(first + count) * row].iter_mut().for_each(|x| *x *= factor),
        }
        let mut bytes = encode(tensor.dtype, &numbers);
        lengthen(tensor.dtype, inputs.class, &mut bytes, &Random::new(seed));
        tensor.bytes = Arc::new(bytes);
        mutated
    }
}

/// The random numbers of an input.
fn sequence(seed: u64, index: usize) -> Random {
    Random::new(Random::new(seed).after(index as u64).bits())
}

/// Uniform numbers in a range, as elements of a type. Integers reach both ends, and have all bits of their type.
fn in_range(dtype: Dtype, (low, high): (f64, f64), count: usize, random: &Random) -> Vec<u8> {
    let (first, span) = if dtype == Dtype::U64 {
        ((low.ceil() as u64).cast_signed(), (high.floor() as u64).wrapping_sub(low.ceil() as u64))
    } else {
        let (low, high) = (low.ceil() as i64, high.floor() as i64);
        (low, high.wrapping_sub(low).cast_unsigned())
    };
    each_element(dtype, count, random, |random, into| {
        if dtype.is_float() {
            dtype.push_float(low + random.uniform() * (high - low), into);
            return;
        }
        let pick = (u128::from(random.bits()) * (u128::from(span) + 1)) >> 64;
        dtype.push_integer(first.wrapping_add((pick as u64).cast_signed()), into);
    })
}

/// Elements that are drawn on all cores, with one draw for each.
fn each_element(
    dtype: Dtype,
    count: usize,
    random: &Random,
    push: impl Fn(&mut Random, &mut Vec<u8>) + Sync,
) -> Vec<u8> {
    let mut bytes = vec![0; count * dtype.bytes()];
    let pieces = bytes.chunks_mut(PIECE * dtype.bytes()).enumerate().collect();
    cores::each(pieces, |(index, into): (usize, &mut [u8])| {
        let mut random = random.after((index * PIECE) as u64);
        let mut encoded = Vec::with_capacity(into.len());
        while encoded.len() < into.len() {
            push(&mut random, &mut encoded);
        }
        into.copy_from_slice(&encoded);
    });
    bytes
}

/// The bits that a number of fp64 has beyond those of fp32.
const BITS_BEYOND_FP32: u64 = (1 << 29) - 1;
/// Four of them. Equal numbers have no others: fp64 adds them with the same error every time, so the errors of a sum, and
/// of the reference, which computes in fp64 itself, do not cancel.
const BITS_OF_EQUAL_NUMBERS: u64 = 0xf << 25;

/// Gives fp64 numbers that were drawn in fp32 all bits of their type. Without them a kernel that converts its inputs to
/// fp32, or to a few short pieces, would be right. Zeros stay, and equal numbers of the class `constant` stay equal.
fn lengthen(dtype: Dtype, class: Class, bytes: &mut [u8], random: &Random) {
    if dtype != Dtype::F64 {
        return;
    }
    let all = Random::new(!random.clone().bits()).bits();
    let mut random = Random::new(all);
    for element in bytes.as_chunks_mut().0 {
        let number = f64::from_le_bytes(*element);
        let more = if class == Class::Constant {
            (all | 1 << 25) & BITS_OF_EQUAL_NUMBERS
        } else {
            (random.bits() | 1) & BITS_BEYOND_FP32
        };
        if number != 0.0 {
            *element = f64::from_bits(number.to_bits() | more).to_le_bytes();
        }
    }
}

/// Replaces every third row by large numbers; of one or two rows, one. The class of inputs at full size is drawn at
/// random, so without these rows a kernel that fails on large numbers only at full size could pass by chance.
fn replace_some_rows(numbers: &mut [f32], large: &[f32], rows: usize, seed: u64) {
    let row = (numbers.len() / rows.max(1)).max(1);
    let pairs = numbers.chunks_mut(row).zip(large.chunks(row));
    for (own, large) in pairs.skip(seed as usize % rows.clamp(1, 3)).step_by(3) {
        own.copy_from_slice(large);
    }
}

/// The numbers rounded to a type, on all cores.
fn encode(dtype: Dtype, numbers: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; numbers.len() * dtype.bytes()];
    let pieces = bytes.chunks_mut(PIECE * dtype.bytes()).zip(numbers.chunks(PIECE)).collect();
    cores::each(pieces, |(into, numbers): (&mut [u8], &[f32])| {
        let mut encoded = Vec::with_capacity(into.len());
        for &number in numbers {
            dtype.push_float(f64::from(number), &mut encoded);
        }
        into.copy_from_slice(&encoded);
    });
    bytes
}

/// Gives every number the opposite sign of the element of a tensor at its place, on all cores. The sign of a
/// floating-point number is its highest bit.
fn oppose_signs(numbers: &mut [f32], tensor: &InputTensor) {
    let width = tensor.dtype.bytes();
    let pieces = numbers.chunks_mut(PIECE).zip(tensor.bytes.chunks(PIECE * width)).collect();
    cores::each(pieces, |(into, bytes): (&mut [f32], &[u8])| {
        for (number, element) in into.iter_mut().zip(bytes.chunks_exact(width)) {
            let is_negative = element[width - 1] & 0x80 != 0;
            *number = if is_negative { number.abs() } else { -number.abs() };
        }
    });
}
