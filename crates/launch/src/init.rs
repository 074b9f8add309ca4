//! Contents of a buffer before the launch.

use std::str::FromStr;
use std::sync::Arc;

use random::Random;

use super::Dtype;

/// Contents of a buffer before the launch.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// Every element is 0.
    Zeros,
    /// Every element is 1.
    Ones,
    /// Every element is this value, rounded to the element type.
    Const(f64),
    /// Every element is its index in the buffer.
    Iota,
    /// Normally distributed with mean 0 and variance 1, drawn with this seed.
    Normal(u64),
    /// Uniformly distributed in [0, 1), drawn with this seed.
    Uniform(u64),
    /// Uniformly distributed whole numbers.
    RandInt {
        /// The seed of the random numbers.
        seed: u64,
        /// The smallest number.
        low: i64,
        /// The end of the range, which is not drawn.
        high: i64,
    },
    /// These elements, already encoded: numbers from the command line or from a file.
    Elements(Arc<[u8]>),
}

impl FromStr for Init {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || {
            format!(
                "`{text}` is not a kind of contents; expected zeros, ones, const(V), iota, normal(SEED), uniform(SEED), \
                 randint(SEED,LO,HI), {{V,V,...}} or a file FILE.npy"
            )
        };
        let (word, numbers) = match text.split_once('(') {
            None => (text, Vec::new()),
            Some((word, rest)) => {
                let inside = rest.strip_suffix(')').ok_or_else(unknown)?;
                (word, inside.split(',').map(str::trim).collect())
            }
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a seed"));
        let integer = |text: &str| text.parse::<i64>().map_err(|_| format!("`{text}` is not a whole number"));
        match (word, numbers.as_slice()) {
            ("zeros", []) => Ok(Init::Zeros),
            ("ones", []) => Ok(Init::Ones),
            ("iota", []) => Ok(Init::Iota),
            ("const", [value]) => {
                value.parse().map(Init::Const).map_err(|_| format!("`{value}` is not a number"))
            }
            ("normal", [seed]) => Ok(Init::Normal(number(seed)?)),
            ("uniform", [seed]) => Ok(Init::Uniform(number(seed)?)),
            ("randint", [seed, low, high]) => {
                let (low, high) = (integer(low)?, integer(high)?);
                if low >= high {
                    return Err(format!("randint has no number in the range [{low}, {high})"));
                }
                Ok(Init::RandInt { seed: number(seed)?, low, high })
            }
            _ => Err(unknown()),
        }
    }
}

impl Init {
    /// The bytes of `count` elements.
    pub fn bytes(&self, dtype: Dtype, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count * dtype.bytes());
        match self {
            Init::Zeros => bytes.resize(count * dtype.bytes(), 0),
            Init::Ones => repeat(dtype, 1.0, count, &mut bytes),
            Init::Const(value) => repeat(dtype, *value, count, &mut bytes),
            Init::Iota => (0..count).for_each(|index| dtype.push_integer(index as i64, &mut bytes)),
            Init::Normal(seed) => {
                let mut random = Random::new(*seed);
                (0..count).for_each(|_| dtype.push_float(random.normal(), &mut bytes));
            }
            Init::Uniform(seed) => {
                let mut random = Random::new(*seed);
                (0..count).for_each(|_| dtype.push_float(random.uniform(), &mut bytes));
            }
            Init::RandInt { seed, low, high } => {
                let mut random = Random::new(*seed);
                (0..count).for_each(|_| dtype.push_integer(random.integer(*low, *high), &mut bytes));
            }
            Init::Elements(elements) => bytes.extend(elements.iter()),
        }
        bytes
    }
}

/// Appends `count` elements of one value.
fn repeat(dtype: Dtype, value: f64, count: usize, bytes: &mut Vec<u8>) {
    let mut element = Vec::new();
    dtype.push_float(value, &mut element);
    bytes.extend(element.iter().copied().cycle().take(count * element.len()));
}
