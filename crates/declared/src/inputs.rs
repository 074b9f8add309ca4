//! The inputs of a problem, as the bytes that kernels read.

use std::sync::Arc;

use launch::Dtype;
use op::values::{self, PIECE};
use op::{Class, cores};
use random::Random;

use crate::declaration::{Argument, Declaration};
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

/// Numbers of a one-hot row.
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
        let bytes = match &argument.contents {
            Some(file) => file.elements(&argument.name, dtype, &dims)?.to_vec(),
            None => encode(dtype, &self.numbers(problem, argument, class, (seed, index))?),
        };
        Ok(InputTensor { name: argument.name.clone(), dtype, dims, bytes: Arc::new(bytes) })
    }

    fn numbers(
        &self,
        problem: &DeclaredProblem,
        argument: &Argument,
        class: Class,
        (seed, index): (u64, usize),
    ) -> Result<Vec<f32>, op::Refusal> {
        let dims = self.shape(argument, problem)?;
        let mut random = Random::new(Random::new(seed).after(index as u64).bits());
        let mut numbers = vec![0.0; dims.iter().product()];
        if let Some((low, high)) = argument.range {
            let is_float = self.dtype(argument.dtype, problem).is_float();
            values::draw(&mut numbers, &random, 1, |random| {
                // Integers reach both ends.
                let width = high - low + if is_float { 0.0 } else { 1.0 };
                let number = low + random.uniform() * width;
                if is_float { number } else { number.floor().min(high.floor()) }
            });
            return Ok(numbers);
        }
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
        Ok(numbers)
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
            let mut numbers = self.numbers(problem, argument, class, (seed, index))?;
            if self.classes.contains(&Class::Large) && self.has_independent_rows(argument) {
                let large = self.numbers(problem, argument, Class::Large, (seed, index))?;
                replace_some_rows(&mut numbers, &large, self.rows(problem), seed);
            }
            if argument.range.is_none() && before.dtype.is_float() {
                oppose_signs(&mut numbers, before);
            }
            let bytes = Arc::new(encode(before.dtype, &numbers));
            tensors.push(InputTensor { bytes, ..before.clone() });
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
        tensor.bytes = Arc::new(encode(tensor.dtype, &numbers));
        mutated
    }
}

/// Replaces every third row; of one or two rows, one. Inputs at full size have a class that is drawn, so a kernel that
/// fails on large numbers only at full size would pass by chance.
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
