//! Inputs whose queries, keys and values are related, so that chosen keys have chosen scores.
//!
//! All queries and keys have a direction of signs in common: a query is this direction plus noise, key j is `b_j` times
//! the direction plus noise. The score of key j is then about `b_j D` times the softmax scale, with a little noise that
//! differs by row and key, in every format. `b_j` is also what a change of all signs keeps ([`super::Inputs::opposite`]).
//!
//! Direction, scores and the roles of the values come from the structure's seed, the noise from the tensor's seed. So one
//! tensor can be redrawn without losing the structure. Every pair of batch entry and key head has its own scores.

use op::{Class, values};
use random::Random;

use super::Input;
use crate::problem::Problem;

/// Standard deviation of the noise of queries and keys. Most signs of a query are those of the direction, and the scores
/// of equal keys differ by a fraction of a bit.
const QUERY_NOISE: f32 = 0.25;
const KEY_NOISE: f32 = 0.4;
/// Keys per tile of class `spikes`: every family's tiles are multiples or halves of it.
const SPIKE_TILE: usize = 64;

/// Adds the structure to normal numbers.
pub(super) fn relate(data: &mut [f32], problem: &Problem, class: Class, which: Input, structure: u64) {
    let width = problem.head_dim;
    let mut random = Random::new(structure);
    let direction: Vec<f32> = (0..width).map(|_| if random.uniform() < 0.5 { -1.0 } else { 1.0 }).collect();
    if which == Input::Q {
        for row in data.chunks_exact_mut(width) {
            row.iter_mut().zip(&direction).for_each(|(x, u)| *x = QUERY_NOISE * *x + u);
        }
        return;
    }
    let per_score = 1.0 / (f64::from(problem.softmax_scale()) * width as f64);
    for head in data.chunks_exact_mut((problem.seq_k * width).max(1)) {
        let roles = HeadRoles::draw(class, problem, &mut random);
        if which == Input::V {
            roles.value.apply(head, width, &roles.dominant);
            continue;
        }
        for (key, score) in head.chunks_exact_mut(width).zip(&roles.scores) {
            let along = (score * per_score) as f32;
            key.iter_mut().zip(&direction).for_each(|(x, u)| *x = KEY_NOISE * *x + along * u);
        }
    }
}

/// The roles of the keys and values of one head.
struct HeadRoles {
    /// About the score of each key.
    scores: Vec<f64>,
    /// The keys with most of the weight, in ascending order; only of class `sink`.
    dominant: Vec<usize>,
    value: ValueRoles,
}

/// The values of class `sink`.
#[derive(Clone, Copy)]
struct ValueRoles {
    dominant: DominantValues,
    /// Whether the other values are positive, so that the sum of many light ones does not cancel.
    positive: bool,
}

#[derive(Clone, Copy)]
enum DominantValues {
    Plain,
    Zero,
    /// Times this factor: about as much of the output as all light keys.
    Small(f32),
    /// Pairs of opposite values; without a partner, zero.
    Cancelling,
}

impl HeadRoles {
    fn draw(class: Class, problem: &Problem, random: &mut Random) -> Self {
        let keys = problem.seq_k;
        let plain = ValueRoles { dominant: DominantValues::Plain, positive: false };
        match class {
            Class::Drift => HeadRoles { scores: drift(keys, random), dominant: Vec::new(), value: plain },
            Class::Spikes => HeadRoles { scores: spikes(keys, random), dominant: Vec::new(), value: plain },
            _ => {
                let dominant = dominant_keys(keys, random);
                // Mostly light: 8 to 17 bits below the dominant keys.
                let bits = 17.0 - 9.0 * random.uniform().powi(2);
                let mut scores = vec![-bits * std::f64::consts::LN_2; keys];
                for &key in &dominant {
                    scores[key] = 0.0;
                }
                let small = (keys as f64).sqrt() * (-bits).exp2();
                let small = DominantValues::Small(small.min(1.0) as f32);
                let roles = [DominantValues::Zero, DominantValues::Zero, small, DominantValues::Cancelling];
                let value = ValueRoles { dominant: *pick(random, &roles), positive: random.uniform() < 0.5 };
                HeadRoles { scores, dominant, value }
            }
        }
    }
}

fn pick<'t, T>(random: &mut Random, from: &'t [T]) -> &'t T {
    &from[random.integer(0, from.len() as i64) as usize]
}

/// The dominant keys: one, a few, or a whole tile, at the start, in the middle, at the end, or scattered. A whole tile at an
/// end matters to kernels that choose the range of a row's weights in its first step: there it has no light keys.
fn dominant_keys(keys: usize, random: &mut Random) -> Vec<usize> {
    const TILE: usize = 128;
    let most = (keys / 4).max(1);
    let count = (*pick(random, &[1, 1, 2, 4, 16, 64, TILE])).min(most);
    let tile = TILE.min(most);
    match random.integer(0, 7) {
        0 | 1 => (0..count).collect(),
        2 => (keys - count..keys).collect(),
        3 => (0..tile).collect(),
        4 => (keys - tile..keys).collect(),
        5 => {
            let first = random.integer(0, (keys - count) as i64 + 1) as usize;
            (first..first + count).collect()
        }
        _ => {
            let distance = keys / count;
            let first = random.integer(0, distance as i64) as usize;
            (0..count).map(|index| first + index * distance).collect()
        }
    }
}

/// Scores that grow or fall along the keys by 10 to 400, above, around or below 0, or all below -150.
fn drift(keys: usize, random: &mut Random) -> Vec<f64> {
    let range = 10.0 * 40.0_f64.powf(random.uniform());
    let start = *pick(random, &[0.0, -0.5 * range, -range, -150.0 - range]);
    let grows = random.uniform() < 0.5;
    let score = |key: usize| {
        let share = key as f64 / keys as f64;
        start + range * if grows { share } else { 1.0 - share }
    };
    (0..keys).map(score).collect()
}

/// Scores of 0, and one of 6 to 20 or more near the end of every tile. Later ones are larger, equal or smaller.
fn spikes(keys: usize, random: &mut Random) -> Vec<f64> {
    let rise = *pick(random, &[-0.5, 0.0, 1.0, 3.0]);
    let mut scores = vec![0.0; keys];
    for (index, tile) in scores.chunks_mut(SPIKE_TILE).enumerate() {
        let last = tile.len() - 1;
        let at = last.saturating_sub(random.integer(0, 8) as usize);
        tile[at] = (6.0 + 14.0 * random.uniform() + rise * index as f64).max(6.0);
    }
    scores
}

impl ValueRoles {
    fn apply(self, values: &mut [f32], width: usize, dominant: &[usize]) {
        if self.positive {
            for x in &mut *values {
                *x = x.abs();
            }
        }
        match self.dominant {
            DominantValues::Plain => {}
            DominantValues::Zero => {
                for key in dominant {
                    values[key * width..][..width].fill(0.0);
                }
            }
            DominantValues::Small(factor) => {
                for key in dominant {
                    values[key * width..][..width].iter_mut().for_each(|x| *x *= factor);
                }
            }
            DominantValues::Cancelling => {
                for pair in dominant.chunks(2) {
                    if let [first, second] = *pair {
                        let (before, after) = values.split_at_mut(second * width);
                        let opposite = before[first * width..][..width].iter().map(|x| -x);
                        after[..width].iter_mut().zip(opposite).for_each(|(x, opposite)| *x = opposite);
                    } else {
                        values[pair[0] * width..][..width].fill(0.0);
                    }
                }
            }
        }
    }
}

/// Turns normal numbers into those of class `huge`. The products of queries and keys are about 2^17 times those of normal
/// numbers, whichever of the two is larger: an fp32 score near 10^7 is still exact enough to find the largest. Values
/// reach half the range of fp16; of bf16, 2^112, which leaves room for sums of weights.
pub(super) fn enlarge(data: &mut [f32], problem: &Problem, which: Input, structure: u64) {
    let exponent = Random::new(structure).integer(-4, 5) as i32;
    let size = match which {
        Input::Q => 362.0 * 2.0_f32.powi(exponent),
        Input::K => 362.0 * 2.0_f32.powi(-exponent),
        Input::V if problem.dtype == crate::problem::Dtype::Bf16 => 2.0_f32.powi(110),
        Input::V => 2.0_f32.powi(13),
    };
    for x in data {
        *x = x.clamp(-4.0, 4.0) * size;
    }
}

/// Scales every query by a factor of its own.
pub(super) fn mix_rows(data: &mut [f32], width: usize, seed: u64) {
    for (row, factor) in data.chunks_exact_mut(width).zip(values::row_factors(seed)) {
        for x in row {
            *x *= factor;
        }
    }
}
