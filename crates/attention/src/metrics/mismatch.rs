//! The ways in which an output can be wrong.

use std::fmt;

use serde::Serialize;

use crate::inputs::Input;
use crate::oracle::Row;

/// The position of an output element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The query row of one head.
    pub row: Row,
    /// Index along the head dimension.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, column {}]", self.row, self.column)
    }
}

/// An element, and the reference for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Element {
    /// The element's position.
    pub place: Place,
    /// The kernel's value.
    pub got: f64,
    /// The reference's value.
    pub wanted: f64,
}

impl Element {
    /// The absolute error.
    pub fn error(&self) -> f64 {
        (self.got - self.wanted).abs()
    }
}

/// The error of one row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RowError {
    /// The row.
    pub row: Row,
    /// `|o - ref| / |ref|` in L2 over the row; infinite if the reference is zero.
    pub error: f64,
    /// The largest allowed value.
    pub limit: f64,
}

/// Why an output is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Mismatch {
    /// Elements still contain the poison that was there before the launch.
    #[error("{count} elements were never written, the first at {first}")]
    Unwritten {
        /// Number of such elements.
        count: usize,
        /// Position of the first one.
        first: Place,
    },
    /// Elements were written but are infinite or NaN.
    #[error("{count} elements are not finite, the first at {first} ({value})")]
    NonFinite {
        /// Number of such elements.
        count: usize,
        /// Position of the first one.
        first: Place,
        /// Value of the first one.
        value: f64,
    },
    /// The output is wrong, and all its elements have the same value.
    #[error("every element is {value}, although the reference is not constant")]
    Constant {
        /// The value of every element.
        value: f64,
    },
    /// The output does not change when one input is redrawn, although the reference changes.
    #[error("the output does not depend on {of}: another {of} gives the same bits")]
    Independent {
        /// The input that the output ignores.
        of: Input,
    },
    /// Elements differ from the reference by more than the element-wise tolerance.
    #[error("{count} elements exceed the tolerance, the worst at {}: {} instead of {}", worst.place, worst.got, worst.wanted)]
    Elements {
        /// Number of such elements.
        count: usize,
        /// The element with the largest error relative to its tolerance.
        worst: Element,
    },
    /// The L2 norm of all errors is too large.
    #[error("relative L2 error {error:.2e}, but at most {limit:.2e} is allowed")]
    L2 {
        /// The error's L2 norm divided by the reference's.
        error: f64,
        /// The largest allowed ratio.
        limit: f64,
    },
    /// The L2 norm of the errors of single rows is too large.
    #[error("{count} rows exceed the limit of a row, the worst at {}: relative L2 error {:.2e}, but at most {:.2e} is allowed", worst.row, worst.error, worst.limit)]
    Rows {
        /// Number of such rows.
        count: usize,
        /// The row with the largest error relative to its limit.
        worst: RowError,
    },
    /// The log-sum-exp of some rows is wrong.
    #[error("the log-sum-exp of {count} rows is wrong, the worst at {worst}: {got} instead of {wanted}")]
    Lse {
        /// Number of such rows.
        count: usize,
        /// The row with the largest error relative to its tolerance.
        worst: Row,
        /// The kernel's log-sum-exp of the worst row.
        got: f64,
        /// The reference's log-sum-exp of the worst row.
        wanted: f64,
    },
}

impl Mismatch {
    /// The name by which programs distinguish failures.
    pub fn kind(&self) -> &'static str {
        match self {
            Mismatch::Unwritten { .. } => "unwritten",
            Mismatch::NonFinite { .. } => "non-finite",
            Mismatch::Constant { .. } => "constant",
            Mismatch::Independent { .. } => "independent",
            Mismatch::Elements { .. } => "elements",
            Mismatch::L2 { .. } => "l2",
            Mismatch::Rows { .. } => "rows",
            Mismatch::Lse { .. } => "lse",
        }
    }
}
