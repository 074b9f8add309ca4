//! `invert`: known pathologies put in on purpose, and what each costs.

use serde::{Deserialize, Serialize};

use crate::run::Time;

/// One pathology, tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inversion {
    pub problem: String,
    /// The preset it was put into: `wmma stage-2`.
    pub healthy: String,
    /// `strided loads`.
    pub pathology: String,
    /// The knob and value that brings it: `PATHOLOGY=strided`.
    pub setting: String,
    pub result: InversionResult,
    /// What to do instead.
    pub advice: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum InversionResult {
    /// It was right and took this long; `cost` is its time over the healthy kernel's.
    Timed {
        time: Time,
        healthy: Time,
        cost: f64,
        evidence: String,
    },
    Failed {
        reason: String,
    },
}
