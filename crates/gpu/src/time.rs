//! Times of a device. Measured and modelled times are different types.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use vgpu::model::ModelledMicros;

/// A time measured on a device. A computed time is `vgpu`'s `ModelledMicros`; neither converts into the other.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MeasuredMicros(pub f64);

impl MeasuredMicros {
    /// A measured time from nanoseconds.
    pub fn from_nanos(nanos: f64) -> Self {
        MeasuredMicros(nanos / 1000.0)
    }
}

impl fmt::Display for MeasuredMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} us", self.0))
    }
}

/// A time, measured or modelled. The two kinds are never compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub enum Time {
    /// A time measured on a GPU.
    #[serde(rename = "measured_us")]
    Measured(MeasuredMicros),
    /// A time computed by the virtual GPU.
    #[serde(rename = "modelled_us")]
    Modelled(ModelledMicros),
}

impl Time {
    /// The number of microseconds, for axes and plots that show only one kind of time.
    pub fn micros(self) -> f64 {
        match self {
            Time::Measured(time) => time.0,
            Time::Modelled(time) => time.0,
        }
    }

    /// Whether the time is modelled.
    pub fn is_modelled(self) -> bool {
        matches!(self, Time::Modelled(_))
    }
}
