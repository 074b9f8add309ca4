//! Numbers for inputs, by class. Each class reveals a fault that the others do not.

use std::fmt;
use std::str::FromStr;

use random::Random;
use serde::{Deserialize, Serialize};

use crate::cores;

/// The kind of input values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Mean 0, variance 1, as in benchmarks and papers.
    Normal,
    /// Uniform over [-1, 1).
    Uniform,
    /// All zero. Reveals divisions by a zero maximum or norm.
    Zeros,
    /// One element per row is not zero. A misplaced column or row gives a large error.
    OneHot,
    /// All elements of a tensor are equal. Reveals weights whose sum is not 1.
    Constant,
    /// Normal times 1e-4: below fp16's normal numbers. Reveals flushing to zero.
    Tiny,
    /// Normal times 60. Reveals overflows, as of a softmax without its maximum.
    Large,
    /// Normal with one element in 500 times 64. One element dominates a sum, early or late; reveals wrong rescaling.
    Outliers,
    /// Normal with every other element a zero of either sign: codes 0x80 and 0x8000 must be zeros.
    SignedZeros,
    /// Every row is normal times a factor of its own between 1e-3 and 1e2. A wrong row shows only if rows are judged.
    MixedRows,
    /// Normal with a mean that grows or falls along every row. Reveals a maximum or mean that is found late.
    Drift,
    /// One or a few keys have nearly the whole weight, and their values are zero, small or cancelling. Reveals light
    /// weights that are lost.
    Sink,
    /// Normal queries and keys, positive values. Sums of values do not cancel; reveals sums that lose small terms.
    PositiveV,
    /// A key with a large score near the end of every tile. Reveals wrong rescaling.
    Spikes,
    /// Numbers near the end of the type's range, as far as fp32 scores stay finite.
    Huge,
    /// Every head has the inputs of another class, so one run at full size has many of them.
    ByHead,
}

impl Class {
    /// All classes but [`Class::ByHead`], which is made of them.
    pub const ALL: [Class; 15] = [
        Class::Normal,
        Class::Uniform,
        Class::Zeros,
        Class::OneHot,
        Class::Constant,
        Class::Tiny,
        Class::Large,
        Class::Outliers,
        Class::SignedZeros,
        Class::MixedRows,
        Class::Drift,
        Class::Sink,
        Class::PositiveV,
        Class::Spikes,
        Class::Huge,
    ];

    /// The classes that a single tensor can have. The others relate several inputs of attention to each other.
    pub const OF_TENSORS: [Class; 11] = *Class::ALL.first_chunk().expect("more classes");

    /// The name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Normal => "normal",
            Class::Uniform => "uniform",
            Class::Zeros => "zeros",
            Class::OneHot => "one-hot",
            Class::Constant => "constant",
            Class::Tiny => "tiny",
            Class::Large => "large",
            Class::Outliers => "outliers",
            Class::SignedZeros => "signed-zeros",
            Class::MixedRows => "mixed-rows",
            Class::Drift => "drift",
            Class::Sink => "sink",
            Class::PositiveV => "positive-v",
            Class::Spikes => "spikes",
            Class::Huge => "huge",
            Class::ByHead => "by-head",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of an input class is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not an input class; expected one of {known}", known = Class::ALL.map(Class::name).join(", "))]
pub struct UnknownClass {
    /// The name that is not an input class.
    pub name: String,
}

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        let found = Class::ALL.into_iter().chain([Class::ByHead]).find(|class| class.name() == text);
        found.ok_or_else(|| UnknownClass { name: text.to_owned() })
    }
}

/// Number of elements that one thread draws at a time.
pub const PIECE: usize = 1 << 16;

/// Fills a tensor with numbers of a class. Rows have `row` elements; `peak` is the number of a one-hot row. Of a class
/// that is not in [`Class::OF_TENSORS`], the numbers are normal.
pub fn fill(data: &mut [f32], class: Class, (row, peak): (usize, f32), random: &mut Random) {
    match class {
        Class::Normal | Class::Sink | Class::PositiveV | Class::Spikes | Class::Huge | Class::ByHead => {
            draw(data, random, 1, Random::normal);
        }
        Class::Uniform => draw(data, random, 1, |random| 2.0 * random.uniform() - 1.0),
        Class::Zeros => data.fill(0.0),
        Class::Tiny => draw(data, random, 1, |random| 1e-4 * random.normal()),
        Class::Large => draw(data, random, 1, |random| 60.0 * random.normal()),
        Class::Outliers => draw(data, random, 2, |random| {
            const OUTLIERS: f64 = 1.0 / 500.0;
            let factor = if random.uniform() < OUTLIERS { 64.0 } else { 1.0 };
            factor * random.normal()
        }),
        Class::SignedZeros => draw(data, random, 2, |random| {
            let (draw, number) = (random.uniform(), random.normal());
            if draw < 0.25 {
                0.0
            } else if draw < 0.5 {
                -0.0
            } else {
                number
            }
        }),
        Class::MixedRows => {
            draw(data, random, 1, Random::normal);
            for (row, factor) in data.chunks_mut(row.max(1)).zip(row_factors(random.bits())) {
                for number in row {
                    *number *= factor;
                }
            }
        }
        Class::Drift => {
            draw(data, random, 1, Random::normal);
            for row in data.chunks_mut(row.max(1)) {
                let (rise, length) = (20.0 * random.uniform() - 10.0, row.len() as f64);
                for (index, number) in row.iter_mut().enumerate() {
                    *number += (rise * index as f64 / length) as f32;
                }
            }
        }
        Class::Constant => {
            // Multiples of 1/8 up to 2, never 0: exact in every format.
            let magnitude = random.integer(1, 17) as f32 / 8.0;
            data.fill(if random.uniform() < 0.5 { -magnitude } else { magnitude });
        }
        Class::OneHot => {
            data.fill(0.0);
            for row in data.chunks_mut(row.max(1)) {
                row[random.integer(0, row.len() as i64) as usize] = peak;
            }
        }
    }
}

/// The factors of rows of class [`Class::MixedRows`]: between 1e-3 and 1e2, their logarithms evenly distributed.
pub fn row_factors(seed: u64) -> impl Iterator<Item = f32> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(move || 10.0_f64.powf(5.0 * random.uniform() - 3.0) as f32)
}

/// Fills a tensor on all cores with the numbers that one thread would draw. `draws` is the number of draws per
/// element.
fn draw(data: &mut [f32], random: &Random, draws: usize, number: impl Fn(&mut Random) -> f64 + Sync) {
    cores::each(data.chunks_mut(PIECE).enumerate().collect(), |(index, piece)| {
        let mut random = random.after((index * PIECE * draws) as u64);
        for element in piece {
            *element = number(&mut random) as f32;
        }
    });
}

/// Gives every number the opposite sign of the number in `signs` at its place.
pub fn oppose(numbers: &mut [f32], signs: &[f32]) {
    let pieces = numbers.chunks_mut(PIECE).zip(signs.chunks(PIECE)).collect();
    cores::each(pieces, |(into, signs): (&mut [f32], &[f32])| {
        for (number, sign) in into.iter_mut().zip(signs) {
            *number = number.abs().copysign(-*sign);
        }
    });
}
