//! Small random changes of inputs, for a search of the inputs on which a kernel is worst.
//!
//! The changes know what attention does with its inputs: they make keys heavy or light, move them, change their values,
//! and shift the scores of blocks of keys.

use std::ops::Range;

use random::Random;

use super::Inputs;
use crate::problem::{Dtype, Problem};

/// Limits of the numbers: beyond them every implementation overflows, or rounds its scores to steps above 1
/// (see the page on tolerances).
const LARGEST_SCORE: f32 = 1e6;
const LARGEST_VALUE: f32 = 3e4;
const LARGEST_BF16_VALUE: f32 = 1e33;

impl Inputs {
    /// The inputs with one to three random changes.
    #[must_use]
    pub fn mutated(&self, problem: &Problem, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut changed = self.clone();
        for _ in 0..random.integer(1, 4) {
            let mut next = changed.clone();
            Mutation { problem, random: &mut random }.apply(&mut next);
            if next.is_moderate(problem) {
                changed = next;
            }
        }
        changed
    }

    /// Whether fp32 scores and outputs of these inputs stay finite and exact enough to be judged.
    fn is_moderate(&self, problem: &Problem) -> bool {
        let largest_norm = |data: &[f32]| {
            let squares =
                data.chunks_exact(problem.head_dim).map(|row| row.iter().map(|x| x * x).sum::<f32>());
            squares.fold(0.0, f32::max).sqrt()
        };
        let score = largest_norm(&self.q.data) * largest_norm(&self.k.data) * problem.softmax_scale();
        let value = self.v.data.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        let element = self.q.data.iter().chain(&self.k.data).fold(0.0_f32, |largest, x| largest.max(x.abs()));
        let largest = if problem.dtype == Dtype::Bf16 { LARGEST_BF16_VALUE } else { LARGEST_VALUE };
        score <= LARGEST_SCORE && value <= largest && element <= LARGEST_VALUE
    }
}

struct Mutation<'a> {
    problem: &'a Problem,
    random: &'a mut Random,
}

impl Mutation<'_> {
    fn below(&mut self, count: usize) -> usize {
        self.random.integer(0, count.max(1) as i64) as usize
    }

    /// A number between these, as a factor of two.
    fn power(&mut self, low: f64, high: f64) -> f32 {
        2.0_f64.powf(low + (high - low) * self.random.uniform()) as f32
    }

    /// A range of positions: one, a tile, or everything from a position on.
    fn block(&mut self, count: usize) -> Range<usize> {
        let length = [1, 4, 16, 64, 128, count][self.below(6)].min(count);
        let first = self.below(count - length + 1);
        first..first + length
    }

    fn apply(&mut self, inputs: &mut Inputs) {
        let (width, keys) = (self.problem.head_dim, self.problem.seq_k);
        let kv_head = self.below(self.problem.batch * self.problem.kv_heads);
        let first_key = kv_head * keys;
        let rows = |range: Range<usize>| (first_key + range.start) * width..(first_key + range.end) * width;
        match self.below(12) {
            0 | 1 => {
                // Queries: some rows of any head.
                let block = self.block(inputs.q.data.len() / width);
                let factor = self.power(-3.0, 3.0);
                let queries = &mut inputs.q.data[block.start * width..block.end * width];
                for x in queries {
                    *x *= factor;
                }
            }
            2..=4 => {
                // The scores of a block of keys, or of all others.
                let block = self.block(keys);
                let shift = 30.0 * self.random.uniform() - 15.0;
                let others = self.below(3) == 0;
                let direction = self.direction(inputs, kv_head);
                let length: f64 =
                    direction.iter().map(|x| x * x).sum::<f64>() * f64::from(self.problem.softmax_scale());
                let factor = if length > 0.0 { shift / length } else { 0.0 };
                for key in (0..keys).filter(|key| block.contains(key) != others) {
                    let key = &mut inputs.k.data[rows(key..key + 1)];
                    key.iter_mut().zip(&direction).for_each(|(x, d)| *x += (factor * d) as f32);
                }
            }
            5 | 6 => {
                // Two keys exchange their places, with or without their values.
                let (a, b) = (self.below(keys), self.below(keys));
                let with_values = self.below(2) == 0;
                for d in 0..width {
                    let at = |key: usize| (first_key + key) * width + d;
                    inputs.k.data.swap(at(a), at(b));
                    if with_values {
                        inputs.v.data.swap(at(a), at(b));
                    }
                }
            }
            7 | 8 => {
                // The values of a block.
                let block = rows(self.block(keys));
                let factor = [0.0, -1.0, self.power(-10.0, 4.0), self.power(-1.0, 1.0)][self.below(4)];
                inputs.v.data[block].iter_mut().for_each(|x| *x *= factor);
            }
            9 => {
                let block = rows(self.block(keys));
                inputs.v.data[block].iter_mut().for_each(|x| *x = x.abs());
            }
            10 => {
                // One value becomes the opposite of another.
                let (a, b) = (self.below(keys), self.below(keys));
                for d in 0..width {
                    inputs.v.data[(first_key + a) * width + d] = -inputs.v.data[(first_key + b) * width + d];
                }
            }
            _ => {
                // The scale or the sign of all keys.
                let factor = [-1.0, self.power(-1.0, 1.0)][self.below(2)];
                inputs.k.data[rows(0..keys)].iter_mut().for_each(|x| *x *= factor);
            }
        }
    }

    /// The mean of some queries of a head that sees these keys: a key that moves along it changes all their scores.
    fn direction(&mut self, inputs: &Inputs, kv_head: usize) -> Vec<f64> {
        let Problem { heads, kv_heads, seq_q, head_dim: width, .. } = *self.problem;
        let group = heads / kv_heads;
        let head = kv_head * group + self.below(group);
        let block = self.block(seq_q);
        let mut mean = vec![0.0; width];
        for query in inputs.q.data[(head * seq_q + block.start) * width..(head * seq_q + block.end) * width]
            .chunks_exact(width)
        {
            mean.iter_mut().zip(query).for_each(|(sum, x)| *sum += f64::from(*x) / block.len() as f64);
        }
        mean
    }
}
