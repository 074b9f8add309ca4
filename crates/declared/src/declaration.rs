//! What an `op.toml` declares.

use family::{Expression, Value};
use indexmap::IndexMap;
use launch::Dtype;
use op::Class;

use crate::file_array::FileArray;

/// Largest value of a size: kernels use 32-bit indices.
pub(crate) const MOST_SIZE: i64 = i32::MAX as i64;

/// Everything that an `op.toml` declares, checked.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub description: String,
    pub reference: ReferenceSource,
    pub sizes: Vec<Size>,
    pub axes: Vec<Axis>,
    pub arguments: Vec<Argument>,
    pub work: WorkRule,
    /// Length of the longest sum.
    pub reduction: Option<Expression>,
    pub tolerances: IndexMap<String, GivenTolerance>,
    /// The problems that an alias stands for, as sizes and axes by name.
    pub aliases: IndexMap<String, IndexMap<String, Value>>,
    pub baselines: IndexMap<String, Function>,
    pub classes: Vec<Class>,
    /// The sizes along which rows are independent: tensors whose first extents are these sizes can be cut into rows.
    pub independent: Vec<String>,
    pub limits: ReferenceLimits,
}

/// Limits of the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReferenceLimits {
    /// Time of one call.
    pub seconds: f64,
    /// Memory of the Python process.
    pub mib: i64,
}

/// Where right answers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceSource {
    Python(Function),
    /// A family of the op, by name.
    Family(String),
    /// Files with the expected outputs.
    Files,
}

/// A Python function: `reference.py:rmsnorm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub file: String,
    pub name: String,
}

/// A run-time extent.
#[derive(Debug)]
pub(crate) struct Size {
    pub name: String,
    pub about: String,
    pub min: i64,
    pub max: i64,
    pub multiple_of: i64,
    pub default: Option<i64>,
}

impl Size {
    /// The allowed value that is nearest to a number.
    pub fn nearest(&self, number: i64) -> i64 {
        let up = number.clamp(self.min, self.max).next_multiple_of_or_max(self.multiple_of);
        if up <= self.max { up } else { up - self.multiple_of }
    }

    /// Why a value is not allowed.
    pub fn refusal(&self, value: i64) -> Option<String> {
        let Size { name, min, max, multiple_of, .. } = self;
        if value < *min || value > *max {
            Some(format!("{name} is {value}; it must be from {min} to {max}"))
        } else if value % multiple_of != 0 {
            Some(format!("{name} is {value}; it must be a multiple of {multiple_of}"))
        } else {
            None
        }
    }
}

trait NextMultiple {
    fn next_multiple_of_or_max(self, of: i64) -> i64;
}

impl NextMultiple for i64 {
    /// `i64::next_multiple_of` is not stable.
    fn next_multiple_of_or_max(self, of: i64) -> i64 {
        let rest = self % of;
        if rest == 0 { self } else { self.saturating_add(of - rest) }
    }
}

/// A property of a problem that selects a variant. The first value is the default.
#[derive(Debug)]
pub(crate) struct Axis {
    pub name: String,
    pub values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    In,
    Out,
    InOut,
    Scalar,
}

impl Kind {
    pub const NAMES: [(&'static str, Kind); 4] =
        [("in", Kind::In), ("out", Kind::Out), ("inout", Kind::InOut), ("scalar", Kind::Scalar)];

    pub fn is_read(self) -> bool {
        matches!(self, Kind::In | Kind::InOut)
    }

    pub fn is_written(self) -> bool {
        matches!(self, Kind::Out | Kind::InOut)
    }
}

/// An element type, or the axis that selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementType {
    Fixed(Dtype),
    /// Index of an axis whose values are names of types.
    Axis(usize),
    /// Index of an axis, and the type for each of its values; `None` after the last.
    Mapped(usize, [Option<Dtype>; MOST_MAPPED]),
}

/// Largest number of values of an axis that is mapped to types.
pub(crate) const MOST_MAPPED: usize = 16;

/// A tensor or a scalar.
#[derive(Debug)]
pub(crate) struct Argument {
    pub name: String,
    pub kind: Kind,
    pub dtype: ElementType,
    pub shape: Vec<Expression>,
    /// Factor of the numbers of every class.
    pub scale: f64,
    /// Uniform numbers in this range instead of the classes.
    pub range: Option<(f64, f64)>,
    /// The classes that the argument may have. For any other class it gets the first of them.
    pub classes: Option<Vec<Class>>,
    /// The value of a scalar.
    pub value: ScalarValue,
    /// Whether an output is zero before every launch, for kernels that add to it.
    pub zeroed: bool,
    /// The contents of an input, if they come from a file.
    pub contents: Option<FileArray>,
    /// The expected values of an output, if they come from a file.
    pub expected: Option<FileArray>,
}

#[derive(Debug)]
pub(crate) enum ScalarValue {
    Number(f64),
    Expression(Expression),
}

#[derive(Debug)]
pub(crate) struct WorkRule {
    pub flops: Expression,
    pub bytes: Option<Expression>,
    /// The type of the matrix products, if there are any.
    pub matrix: Option<ElementType>,
}

/// Tolerances that replace the derived ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GivenTolerance {
    pub rtol: Option<f64>,
    pub atol: Option<f64>,
    pub l2: Option<f64>,
    /// Whether only the limits of elements hold, as for `--rtol` and `--atol` of the command line.
    pub elements_only: bool,
}

/// The type with a name: `fp16` or `f16`, `bf16`, `i32`.
pub(crate) fn dtype(name: &str) -> Option<Dtype> {
    name.parse().ok()
}

impl Declaration {
    /// The names that expressions may use.
    pub fn names(&self) -> Vec<String> {
        let sizes = self.sizes.iter().map(|size| size.name.clone());
        sizes.chain(self.axes.iter().map(|axis| axis.name.clone())).collect()
    }

    pub fn outputs(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|argument| argument.kind.is_written())
    }

    pub fn inputs(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|argument| argument.kind.is_read())
    }
}
