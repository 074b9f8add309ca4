//! What parent and worker say to each other: JSON, one object per message (`subprocess::wire`).

use std::path::PathBuf;

use family::{Candidate, Family};
use indexmap::IndexMap;
use op::Complaint;
use serde::{Deserialize, Serialize};
use vgpu::model::ModelledMicros;

use crate::profile::Seen;
use crate::run::{Build, Ceiling, FailureKind, Timer};

/// A family, a preset and what is set on top of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateName {
    pub family: String,
    pub preset: Option<String>,
    pub knobs: Vec<(String, String)>,
}

impl CandidateName {
    /// The worker is told the setting itself: were it to look up a tuned pick, it might find another.
    pub fn of(family: &Family, candidate: &Candidate) -> Self {
        CandidateName {
            family: family.full_name(),
            preset: candidate.preset.clone(),
            knobs: candidate.changes(family),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// Say what you are.
    Hello,
    /// Compile a candidate for a problem, or find it compiled.
    Build {
        candidate: CandidateName,
        problem: String,
    },
    /// A peer's candidate: which of them, on what.
    Load {
        name: String,
        fields: serde_json::Value,
        inputs: IndexMap<String, PathBuf>,
    },
    /// Run what was built or loaded once, and leave its outputs in the folder, a file each.
    Run {
        seed: u64,
        folder: PathBuf,
    },
    /// The same under every checker of the virtual GPU; a worker of another device refuses.
    Prove {
        seed: u64,
        folder: PathBuf,
    },
    /// The answer was right: make ready to take times.
    Arm {
        timers: Vec<Timer>,
        warmup: u32,
        /// How long a replay of the hot graph should take at least.
        replay_ns: f64,
    },
    Sample {
        timer: Timer,
        count: usize,
    },
    /// The answer was right: what the virtual GPU's model says of that run.
    Model,
    /// The answer was right: what the virtual GPU counted in that run, as if it had had so many times the blocks and the
    /// memory.
    Count {
        times: u64,
        memory: f64,
    },
    /// Launch what has run so many times more, for somebody who looks on from outside.
    Launch {
        times: u32,
    },
    /// What the device can do at best, as far as this worker can tell.
    Ceilings,
    /// The rate of a large matrix product.
    Matrix {
        dtype: String,
    },
    Quit,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum Say {
    Ready {
        version: String,
    },
    Built(Built),
    Loaded,
    Ran {
        outputs: Vec<PathBuf>,
        /// What is wrong beside the answer.
        complaints: Vec<Complaint>,
    },
    Armed {
        /// Launches in one replay of the hot graph.
        launches: u32,
    },
    Samples {
        ns: Vec<f64>,
    },
    Modelled(Modelled),
    Seen(Box<Seen>),
    Launched,
    Ceilings {
        ceilings: Vec<Ceiling>,
    },
    MatrixRate(MatrixRate),
    Failed {
        failure: FailureKind,
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Built {
    pub hash: String,
    pub build: Build,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    pub gpu: String,
    pub time_us: ModelledMicros,
    pub limiter: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixRate {
    pub tflops: f64,
    pub samples: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_the_script_reads_and_writes() {
        let ask = Ask::Sample { timer: Timer::GraphHot, count: 2 };
        assert_eq!(serde_json::to_string(&ask).unwrap(), r#"{"ask":"sample","timer":"graph-hot","count":2}"#);
        for (line, said) in [
            (r#"{"say": "loaded"}"#, Say::Loaded),
            (r#"{"say": "samples", "ns": [1.5]}"#, Say::Samples { ns: vec![1.5] }),
            (
                r#"{"say": "matrix-rate", "tflops": 7.0, "samples": 3}"#,
                Say::MatrixRate(MatrixRate { tflops: 7.0, samples: 3 }),
            ),
            (
                r#"{"say": "failed", "failure": "out-of-memory", "reason": "x"}"#,
                Say::Failed { failure: FailureKind::OutOfMemory, reason: "x".to_owned() },
            ),
        ] {
            assert_eq!(serde_json::from_str::<Say>(line).unwrap(), said);
        }
    }
}
