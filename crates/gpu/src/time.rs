//! Times a device took for something: measured ones and modelled ones, which are different types.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use vgpu::model::ModelledMicros;

/// A time that a clock measured on a device. A computed one is `vgpu`'s `ModelledMicros`; nothing turns one into the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MeasuredMicros(pub f64);

impl MeasuredMicros {
    pub fn from_nanos(nanos: f64) -> Self {
        MeasuredMicros(nanos / 1000.0)
    }
}

impl fmt::Display for MeasuredMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} us", self.0))
    }
}

/// A time with the way it was come by. The two never meet in one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Time {
    #[serde(rename = "measured_us")]
    Measured(MeasuredMicros),
    #[serde(rename = "modelled_us")]
    Modelled(ModelledMicros),
}

impl Time {
    /// For scales and pictures, which have one kind of time only.
    pub fn micros(self) -> f64 {
        match self {
            Time::Measured(time) => time.0,
            Time::Modelled(time) => time.0,
        }
    }

    pub fn is_modelled(self) -> bool {
        matches!(self, Time::Modelled(_))
    }
}
