//! The log records of a search: its space, every trial, and every exchange with a proposer.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use super::stage::{FailureKind, Stage};

/// The description of a search.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Search {
    /// The searched family: `attention/mma`.
    pub family: String,
    /// The baseline's preset and knobs, or `defaults`. Speedups are over this setting.
    pub baseline: String,
    /// The problems that every candidate is timed on.
    pub problems: Vec<String>,
    /// The searched knobs and their values.
    pub knobs: IndexMap<String, Vec<String>>,
    /// The number of all combinations of values.
    pub raw_points: u64,
    /// The number of combinations that satisfy the constraints.
    pub legal_points: u64,
    /// What chooses the candidates: `knobs`, `command` or `endpoint`.
    pub proposer: String,
    /// The search strategy. For an external proposer, what it is told: `free`, `insight` or `full`.
    pub strategy: String,
    /// How many candidates may be evaluated.
    pub budget: u32,
    /// How many elites are kept.
    pub elites: u32,
    /// The seed of the strategy.
    pub seed: u64,
    /// How many candidates the strategy is asked for before the result of the first of them is known. Older logs do not
    /// have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
}

/// One candidate of a search and its result.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Trial {
    /// Trials are numbered from 1 in the order of evaluation. Number 0 is the baseline.
    pub number: u32,
    /// The candidate's name, with the knobs that differ from the baseline's: `mma STAGES=3 BLOCK_N=32`.
    pub candidate: String,
    /// The value of every knob.
    pub knobs: IndexMap<String, String>,
    /// The trial that it was made from.
    pub parent: Option<u32>,
    /// How it was made: `neighbour`, `crossover`, `model`.
    pub origin: String,
    /// The hash of a proposed source. The source is stored beside the log as a folder of families, `sources/HASH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The worker of a fleet that evaluated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_by: Option<FleetWorker>,
    /// The result.
    pub result: TrialResult,
}

/// A worker of a fleet, and what a trial cost it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FleetWorker {
    /// The machine.
    pub host: String,
    /// The worker's name.
    pub worker: String,
    /// How long the worker took for the trial.
    pub seconds: f64,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum TrialResult {
    /// The candidate passed its check and was timed.
    Timed {
        /// The hash of the build for the first problem.
        build: String,
        /// The hash of the machine code.
        code_hash: String,
        /// Registers per thread.
        registers: u32,
        /// Shared memory per block.
        shared_bytes: u64,
        /// Geometric mean of the speedups over the baseline.
        score: f64,
        /// The time on each problem.
        problems: Vec<ProblemTime>,
        /// Whether the candidate became an elite.
        elite: bool,
    },
    /// The candidate compiles to the machine code of an earlier trial, so it was not timed again.
    Same {
        /// The earlier trial.
        as_trial: u32,
        /// The hash of the machine code.
        code_hash: String,
    },
    /// The candidate failed.
    Failed {
        /// The stage that failed.
        stage: Stage,
        /// The kind of failure.
        failure: FailureKind,
        /// The reason.
        reason: String,
    },
}

/// The time of a candidate on one problem.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ProblemTime {
    /// The problem's name.
    pub problem: String,
    /// The candidate's time.
    pub time: Time,
    /// The baseline's time.
    pub baseline: Time,
    /// The speedup over the baseline.
    pub speedup: f64,
    /// The 95% interval of the speedup; `None` for a modelled time, which has no variation.
    pub interval: Option<(f64, f64)>,
    /// The bottleneck according to the virtual GPU's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<String>,
}

/// A request to a proposer and its answer.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Exchange {
    /// Exchanges are numbered from 1. The resulting trial has the same number.
    pub number: u32,
    /// `command` or `endpoint`.
    pub proposer: String,
    /// The prompt.
    pub prompt: serde_json::Value,
    /// The answer. A rejected one is cut to a maximum length.
    pub answer: String,
    /// The name of the proposed candidate, or the reason why there is none.
    #[serde(flatten, with = "logged_outcome")]
    #[schemars(with = "logged_outcome::Logged")]
    pub outcome: Result<String, String>,
}

/// Writes the outcome of an exchange as the field `candidate` or `refused`. Older logs have it as
/// `"outcome": {"Ok": ...}` or `"outcome": {"Err": ...}`, which is still read.
mod logged_outcome {
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(JsonSchema, Serialize, Deserialize)]
    #[serde(untagged)]
    pub enum Logged {
        Candidate {
            /// The name of the proposed candidate.
            candidate: String,
        },
        Refused {
            /// Why there is no candidate.
            refused: String,
        },
        #[schemars(skip)]
        Older { outcome: Result<String, String> },
    }

    pub fn serialize<S: Serializer>(outcome: &Result<String, String>, to: S) -> Result<S::Ok, S::Error> {
        match outcome.clone() {
            Ok(candidate) => Logged::Candidate { candidate },
            Err(refused) => Logged::Refused { refused },
        }
        .serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Result<String, String>, D::Error> {
        Ok(match Logged::deserialize(from)? {
            Logged::Candidate { candidate } => Ok(candidate),
            Logged::Refused { refused } => Err(refused),
            Logged::Older { outcome } => outcome,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Exchange;

    #[test]
    fn an_exchange_is_written_with_plain_fields_and_older_logs_are_read() {
        for (outcome, field, older) in [
            (
                Ok("mma STAGES=3".to_owned()),
                r#""candidate":"mma STAGES=3""#,
                r#""outcome":{"Ok":"mma STAGES=3"}"#,
            ),
            (Err("no JSON".to_owned()), r#""refused":"no JSON""#, r#""outcome":{"Err":"no JSON"}"#),
        ] {
            let exchange = Exchange {
                number: 1,
                proposer: "command".to_owned(),
                prompt: serde_json::Value::Null,
                answer: "{}".to_owned(),
                outcome,
            };
            let text = serde_json::to_string(&exchange).unwrap();
            assert!(text.contains(field) && !text.contains("outcome"), "{text}");
            for text in [text.clone(), text.replace(field, older)] {
                assert_eq!(serde_json::from_str::<Exchange>(&text).unwrap(), exchange, "{text}");
            }
        }
    }
}
