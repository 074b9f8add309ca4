//! What a search writes down: its space, every candidate it tried, and what it was told by a proposer.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{FailureKind, Stage, Time};

/// What is searched, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// `attention/mma`.
    pub family: String,
    /// The preset that everything is compared with, or `defaults`: a speedup of 1 is its time.
    pub baseline: String,
    pub problems: Vec<String>,
    /// The knobs that are searched, with the values each may take.
    pub knobs: IndexMap<String, Vec<String>>,
    /// Combinations of values, and those of them the constraints allow.
    pub raw_points: u64,
    pub legal_points: u64,
    /// `knobs`, `command`, `endpoint`.
    pub proposer: String,
    /// How knobs are chosen; of another proposer, what it is told: `free`, `insight`, `full`.
    pub strategy: String,
    pub budget: u32,
    pub elites: u32,
    pub seed: u64,
}

/// One candidate, tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// From 1, in the order of evaluation; 0 is the baseline itself.
    pub number: u32,
    /// As tables call it: `mma STAGES=3 BLOCK_N=32`, only what differs from the baseline.
    pub candidate: String,
    /// Every searched knob.
    pub knobs: IndexMap<String, String>,
    /// The trial it was made from, and by what: `neighbour`, `crossover`, `model`.
    pub parent: Option<u32>,
    pub origin: String,
    /// The hash of a source of its own, kept beside the log as a folder of families, `sources/HASH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub result: TrialResult,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum TrialResult {
    /// Right and timed.
    Timed {
        build: String,
        code_hash: String,
        registers: u32,
        shared_bytes: u64,
        /// Geometric mean of the speedups over the baseline.
        score: f64,
        problems: Vec<ProblemTime>,
        /// Whether it joined the elites.
        elite: bool,
    },
    /// Compiles to the machine code of an earlier trial: the same candidate, not timed again.
    Same {
        as_trial: u32,
        code_hash: String,
    },
    Failed {
        stage: Stage,
        failure: FailureKind,
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProblemTime {
    pub problem: String,
    pub time: Time,
    pub baseline: Time,
    pub speedup: f64,
    /// Of the speedup, 95%; `None` for a model, which has no spread.
    pub interval: Option<(f64, f64)>,
    /// What the virtual GPU's model says limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<String>,
}

/// A question to a proposer and what it said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// From 1; the trial that came of it has the same number.
    pub number: u32,
    pub proposer: String,
    pub prompt: serde_json::Value,
    /// Cut to a bounded length where it was too long.
    pub answer: String,
    /// What became of it: the candidate that was tried, or why there is none.
    pub outcome: Result<String, String>,
}
