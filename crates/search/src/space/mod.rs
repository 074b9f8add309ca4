//! A search space: parameters with their values, and the combinations that constraints allow.
//!
//! All allowed combinations are stored, in lexicographic order of their value positions; a [`Point`] is an index in
//! that order. Each combination is one number, whose mixed-radix digits are the positions. Ten million points
//! therefore take 80 MB, a combination is found by binary search, and all completions of a prefix are one range.

mod build;
mod neighbours;

pub use build::Constraint;
pub use neighbours::Neighbourhood;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// A parameter and its values, in a meaningful order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// The parameter's name.
    pub name: String,
    /// The values; at least one, all different.
    pub values: Vec<Value>,
}

impl Parameter {
    /// A parameter with these values.
    pub fn new<V: Into<Value>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Parameter { name: name.into(), values: values.into_iter().map(Into::into).collect() }
    }
}

/// An allowed combination, as its index in the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point(pub(crate) u32);

impl Point {
    /// The index in the space.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a space cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// The parameter with this name has no values.
    #[error("parameter `{0}` has no values")]
    NoValues(String),
    /// A parameter lists the same value twice.
    #[error("parameter `{name}` has the value {value} twice")]
    DuplicateValue {
        /// The parameter's name.
        name: String,
        /// The repeated value as text.
        value: String,
    },
    /// Two parameters have this name.
    #[error("there are two parameters named `{0}`")]
    DuplicateName(String),
    /// A constraint refers to a parameter that does not exist.
    #[error("a constraint uses parameter {parameter}, but there are only {count}")]
    UnknownParameter {
        /// The index that the constraint uses, from 0.
        parameter: usize,
        /// Number of parameters of the space.
        count: usize,
    },
    /// A combination does not have one valid position for each parameter.
    #[error(
        "a combination has {found} positions for {wanted} parameters, or a position beyond a parameter's values"
    )]
    Positions {
        /// Number of positions of the combination.
        found: usize,
        /// Number of parameters of the space.
        wanted: usize,
    },
    /// The product of the numbers of values is 2^63 or more.
    #[error("the parameters span more than 2^63 combinations")]
    TooManyCombinations,
    /// The space has more points than allowed.
    #[error("the constraints allow more than {limit} combinations; tighten them")]
    TooManyPoints {
        /// Largest number of points.
        limit: usize,
    },
}

/// Largest number of points of a space; their codes take 8 bytes each.
pub const MOST_POINTS: usize = 1 << 27;

/// A search space.
#[derive(Clone)]
pub struct Space {
    parameters: Vec<Parameter>,
    /// What one step of a parameter's position adds to the code; 1 for the last parameter.
    strides: Vec<u64>,
    /// The codes of the allowed combinations, sorted.
    codes: Vec<u64>,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        write!(f, "Space({} points over {})", self.codes.len(), names.join(", "))
    }
}

impl Space {
    /// The combinations that every constraint allows.
    pub fn new(parameters: Vec<Parameter>, constraints: &[Constraint]) -> Result<Self, SpaceError> {
        let strides = strides(&parameters)?;
        let codes = build::allowed(&parameters, &strides, constraints, MOST_POINTS)?;
        Ok(Space { parameters, strides, codes })
    }

    /// The listed combinations, each as the position of every parameter's value. Duplicates count once.
    pub fn from_points(
        parameters: Vec<Parameter>,
        points: impl IntoIterator<Item = impl AsRef<[usize]>>,
    ) -> Result<Self, SpaceError> {
        let strides = strides(&parameters)?;
        let mut codes = Vec::new();
        for point in points {
            let positions = point.as_ref();
            let fits = positions.len() == parameters.len()
                && positions
                    .iter()
                    .zip(&parameters)
                    .all(|(&position, parameter)| position < parameter.values.len());
            if !fits {
                return Err(SpaceError::Positions { found: positions.len(), wanted: parameters.len() });
            }
            codes.push(encode(positions, &strides));
        }
        codes.sort_unstable();
        codes.dedup();
        if codes.len() > MOST_POINTS {
            return Err(SpaceError::TooManyPoints { limit: MOST_POINTS });
        }
        Ok(Space { parameters, strides, codes })
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Number of combinations without constraints.
    pub fn raw_len(&self) -> u64 {
        self.parameters.iter().map(|parameter| parameter.values.len() as u64).product()
    }

    /// All points, in order.
    pub fn points(&self) -> impl ExactSizeIterator<Item = Point> + use<> {
        (0..self.codes.len() as u32).map(Point)
    }

    /// The point with this index.
    pub fn point(&self, index: usize) -> Option<Point> {
        (index < self.codes.len()).then_some(Point(index as u32))
    }

    /// The parameters with more than one value. The others need no search.
    pub fn varying(&self) -> Vec<usize> {
        (0..self.parameters.len()).filter(|&parameter| self.parameters[parameter].values.len() > 1).collect()
    }

    /// The position of a parameter's value at a point.
    pub fn position(&self, point: Point, parameter: usize) -> usize {
        let values = self.parameters[parameter].values.len() as u64;
        (self.codes[point.index()] / self.strides[parameter] % values) as usize
    }

    /// The positions of all values at a point.
    pub fn positions(&self, point: Point) -> Vec<usize> {
        (0..self.parameters.len()).map(|parameter| self.position(point, parameter)).collect()
    }

    /// All values at a point.
    pub fn values(&self, point: Point) -> impl Iterator<Item = &Value> {
        self.parameters
            .iter()
            .enumerate()
            .map(move |(number, parameter)| &parameter.values[self.position(point, number)])
    }

    /// The point's values joined with commas, as in recorded spaces.
    pub fn key(&self, point: Point) -> String {
        self.values(point).map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// The point with these positions, if it is allowed.
    pub fn find(&self, positions: &[usize]) -> Option<Point> {
        let fits = positions.len() == self.parameters.len()
            && positions
                .iter()
                .zip(&self.parameters)
                .all(|(&position, parameter)| position < parameter.values.len());
        if fits { self.of_code(encode(positions, &self.strides)) } else { None }
    }

    /// The point with one parameter changed, if it is allowed.
    pub fn with(&self, point: Point, parameter: usize, position: usize) -> Option<Point> {
        if position >= self.parameters[parameter].values.len() {
            return None;
        }
        let stride = self.strides[parameter];
        let code = self.codes[point.index()] - self.position(point, parameter) as u64 * stride;
        self.of_code(code + position as u64 * stride)
    }

    fn of_code(&self, code: u64) -> Option<Point> {
        self.codes.binary_search(&code).ok().map(|index| Point(index as u32))
    }

    /// The allowed point nearest to the desired positions, parameter by parameter: each takes the nearest position
    /// for which an allowed completion exists. `None` only if the space is empty.
    pub fn nearest(&self, positions: &[usize]) -> Option<Point> {
        let (mut low, mut high) = (0, self.codes.len());
        let mut prefix = 0;
        for ((parameter, &stride), &desired) in self.parameters.iter().zip(&self.strides).zip(positions) {
            // Points with the same prefix are codes[low..high]; those with one more digit are a range within it.
            let range = |position: usize| {
                let first = prefix + position as u64 * stride;
                let codes = &self.codes[low..high];
                let start = low + codes.partition_point(|&code| code < first);
                let end = low + codes.partition_point(|&code| code < first + stride);
                (start, end)
            };
            let mut order: Vec<usize> = (0..parameter.values.len()).collect();
            order.sort_by_key(|position| position.abs_diff(desired));
            let (position, (start, end)) = order
                .into_iter()
                .map(|position| (position, range(position)))
                .find(|(_, (start, end))| start < end)?;
            (low, high) = (start, end);
            prefix += position as u64 * stride;
        }
        (low < high).then_some(Point(low as u32))
    }
}

fn encode(positions: &[usize], strides: &[u64]) -> u64 {
    positions.iter().zip(strides).map(|(&position, &stride)| position as u64 * stride).sum()
}

/// The strides of the parameters. It also checks the parameters, because every constructor calls it.
fn strides(parameters: &[Parameter]) -> Result<Vec<u64>, SpaceError> {
    for (number, parameter) in parameters.iter().enumerate() {
        let Parameter { name, values } = parameter;
        if values.is_empty() {
            return Err(SpaceError::NoValues(name.clone()));
        }
        if let Some(twice) = values.iter().enumerate().find(|(place, value)| values[..*place].contains(value))
        {
            return Err(SpaceError::DuplicateValue { name: name.clone(), value: twice.1.to_string() });
        }
        if parameters[..number].iter().any(|other| other.name == *name) {
            return Err(SpaceError::DuplicateName(name.clone()));
        }
    }
    let mut strides = vec![1; parameters.len()];
    let mut span: u64 = 1;
    for (stride, parameter) in strides.iter_mut().zip(parameters).rev() {
        *stride = span;
        span = span
            .checked_mul(parameter.values.len() as u64)
            .filter(|&span| span < 1 << 63)
            .ok_or(SpaceError::TooManyCombinations)?;
    }
    Ok(strides)
}
