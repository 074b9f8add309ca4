//! The cost of a pathology as a run records it.

use gpu::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one pathology.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Inversion {
    /// The problem's name.
    pub problem: String,
    /// The kernel without the pathology: `wmma stage-2`.
    pub healthy: String,
    /// The name of the pathology: `strided loads`.
    pub pathology: String,
    /// The knobs that enable the pathology: `PATHOLOGY=strided`.
    pub setting: String,
    /// The times and the cost, or the failure.
    pub result: InversionResult,
    /// How to avoid the pathology.
    pub advice: String,
}

/// Whether a pathological kernel was timed.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum InversionResult {
    /// The kernel is correct and was timed. `cost` is its time divided by the healthy kernel's time.
    Timed {
        /// The time of the kernel with the pathology.
        time: Time,
        /// The time of the kernel without it.
        healthy: Time,
        /// Above 1 if the pathology makes the kernel slower.
        cost: f64,
        /// The verdict with its interval and the first diagnosis of the profile, as far as known.
        evidence: String,
    },
    /// The kernel failed, or has no time.
    Failed {
        /// Why there is no time.
        reason: String,
    },
}
