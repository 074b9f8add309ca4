//! Coordinates of a parameter's values, which define the distance between two of them.
//!
//! Nothing is known about a parameter except its values, so the model uses properties of tuning parameters in
//! general. Sizes act by ratio: the distance from 16 to 32 is that from 128 to 256. Hardware is built in powers of
//! two (warps, banks, vector loads, cache lines), so whether a size is a multiple of a large power of two can matter
//! more than its neighbours: 96 may be like 32 and 160, but not like 80 and 112. A parameter therefore has up to two
//! axes, each with its own length, and the fit decides which of them matters.

use crate::space::{Parameter, Space};
use crate::value::Value;

/// Number of values that the model distinguishes. A parameter with more values has them in groups of neighbours.
const MOST_GROUPS: usize = 256;
/// This many halvings cover the power-of-two structure of hardware; more make no difference.
const MOST_HALVINGS: u32 = 6;
/// Numbers that span at least this ratio are sizes. Others are counts or flags, whose differences matter.
const RATIO: f64 = 4.0;

/// One coordinate of the values of a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The index among the model's parameters.
    pub parameter: usize,
    /// Whether the axis is the size of the value; otherwise it is the number of times the value can be halved.
    pub is_size: bool,
    /// Distances between 0 and 1 for pairs of groups, row by row.
    pub distances: Vec<f64>,
    /// Number of groups of values.
    pub groups: usize,
}

/// The parameters that vary, as the model uses them.
#[derive(Clone, Debug)]
pub(crate) struct Coordinates {
    /// Their indices in the space.
    pub parameters: Vec<usize>,
    values: Vec<usize>,
    pub axes: Vec<Axis>,
}

impl Coordinates {
    pub fn from_space(space: &Space) -> Self {
        let parameters = space.varying();
        let described = || parameters.iter().map(|&number| &space.parameters()[number]).enumerate();
        let sizes = described().map(|(place, parameter)| size_axis(place, parameter));
        let halvings = described().filter_map(|(place, parameter)| halving_axis(place, parameter));
        let axes = sizes.chain(halvings).collect();
        let values = described().map(|(_, parameter)| parameter.values.len()).collect();
        Coordinates { parameters, values, axes }
    }

    /// The group of a parameter's value.
    pub fn group(&self, parameter: usize, position: usize) -> u8 {
        group(position, self.values[parameter])
    }

    pub fn groups(&self, parameter: usize) -> usize {
        self.values[parameter].min(MOST_GROUPS)
    }
}

fn group(position: usize, values: usize) -> u8 {
    if values <= MOST_GROUPS { position as u8 } else { (position * MOST_GROUPS / values) as u8 }
}

/// The first value of each group.
fn representatives(parameter: &Parameter) -> Vec<&Value> {
    let count = parameter.values.len();
    let mut found: Vec<&Value> = Vec::new();
    for (position, value) in parameter.values.iter().enumerate() {
        if group(position, count) as usize == found.len() {
            found.push(value);
        }
    }
    found
}

fn size_axis(place: usize, parameter: &Parameter) -> Axis {
    let values = representatives(parameter);
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.number()).collect();
    match numbers {
        Some(numbers) => {
            let (low, high) = range(&numbers);
            let by_ratio = low > 0.0 && high / low >= RATIO;
            let at: Vec<f64> =
                numbers.iter().map(|&number| if by_ratio { number.ln() } else { number }).collect();
            axis(place, true, &at)
        }
        // Texts are only equal or different.
        None => Axis {
            parameter: place,
            is_size: true,
            distances: pairs(values.len(), |a, b| f64::from(u8::from(a != b))),
            groups: values.len(),
        },
    }
}

/// `None` if it adds nothing: the values are not positive integers, or the number of halvings grows with the value.
fn halving_axis(place: usize, parameter: &Parameter) -> Option<Axis> {
    let halvings: Option<Vec<f64>> = representatives(parameter)
        .into_iter()
        .map(|value| match value {
            Value::Int(value) if *value > 0 => Some(f64::from(value.trailing_zeros().min(MOST_HALVINGS))),
            _ => None,
        })
        .collect();
    let at = halvings?;
    (!at.is_sorted()).then(|| axis(place, false, &at))
}

fn axis(place: usize, is_size: bool, at: &[f64]) -> Axis {
    let (low, high) = range(at);
    let span = if high > low { high - low } else { 1.0 };
    let groups = at.len();
    Axis { parameter: place, is_size, distances: pairs(groups, |a, b| (at[a] - at[b]).abs() / span), groups }
}

fn range(numbers: &[f64]) -> (f64, f64) {
    numbers
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &number| (low.min(number), high.max(number)))
}

fn pairs(count: usize, distance: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..count * count).map(|pair| distance(pair / count, pair % count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(parameter: Parameter) -> Vec<Axis> {
        Coordinates::from_space(&Space::new(vec![parameter], &[]).unwrap()).axes
    }

    #[test]
    fn sizes_are_compared_by_ratio_and_counts_by_difference() {
        let sizes = axes(Parameter::new("block", [16, 32, 64, 256]));
        assert_eq!(sizes.len(), 1, "the halvings of powers of two grow with their size");
        let off =
            sizes[0].distances.iter().zip([0.0, 0.25, 0.5, 1.0]).map(|(found, exact)| (found - exact).abs());
        assert!(off.into_iter().all(|off| off < 1e-12), "{:?}", sizes[0].distances);
        let counts = axes(Parameter::new("stages", [2, 3, 4]));
        assert_eq!(counts[0].distances[..3], [0.0, 0.5, 1.0]);
        let words = axes(Parameter::new("way", ["row", "column", "tile"]));
        assert_eq!(words[0].distances[..3], [0.0, 1.0, 1.0]);
    }

    #[test]
    fn values_with_equal_halvings_are_near() {
        let both = axes(Parameter::new("block", [32, 48, 64, 80, 96]));
        assert_eq!(both.len(), 2);
        // Halvings 5, 4, 6, 4, 5.
        assert_eq!(both[1].distances[..5], [0.0, 0.5, 0.5, 0.5, 0.0]);
    }

    #[test]
    fn a_thousand_values_are_grouped() {
        let space = Space::new(vec![Parameter::new("n", 1..=1000)], &[]).unwrap();
        let seen = Coordinates::from_space(&space);
        assert_eq!(seen.groups(0), 256);
        assert!(seen.axes.iter().all(|axis| axis.groups == 256 && axis.distances.len() == 256 * 256));
        let groups: Vec<u8> = (0..1000).map(|position| seen.group(0, position)).collect();
        assert!(groups.is_sorted() && groups[0] == 0 && groups[999] == 255);
    }
}
