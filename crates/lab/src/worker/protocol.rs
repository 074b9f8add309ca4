//! What parent and worker say to each other: JSON, one object per message (`subprocess::wire`).

use std::path::PathBuf;

use family::{Candidate, Family};
use indexmap::IndexMap;
use op::{Complaint, InputDraw, TrialStep};
use serde::{Deserialize, Serialize};
use vgpu::model::ModelledMicros;

use crate::profile::Seen;
use crate::run::{BuildRecord, Ceiling, FailureKind, Repeats, Timer};

/// A family, a preset and what is set on top of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateName {
    pub family: String,
    pub preset: Option<String>,
    pub knobs: Vec<(String, String)>,
}

impl CandidateName {
    /// The worker is told the setting itself: were it to look up a tuned pick, it might find another.
    pub fn new(family: &Family, candidate: &Candidate) -> Self {
        CandidateName {
            family: family.full_name(),
            preset: candidate.preset.clone(),
            knobs: candidate.changes(family),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum WorkerRequest {
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
    /// Launch what was built or loaded once for every step. A peer runs once, on the inputs it has loaded.
    Run {
        draws: Vec<InputDraw>,
        steps: Vec<TrialStep>,
        /// What the circumstances of the launches are drawn from.
        seed: u64,
        /// A worker of a device that does not check refuses to.
        checks: vgpu::Checks,
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
    /// Times have been taken: replace the inputs by these where they are, poison the outputs, and run what was timed once
    /// more.
    Verify {
        draws: [InputDraw; 2],
        seed: u64,
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
pub enum WorkerReply {
    Ready {
        version: String,
    },
    Built(BuildReply),
    Loaded,
    Ran {
        launches: Vec<LaunchReply>,
    },
    Verified {
        launches: Vec<LaunchReply>,
        repeats: Repeats,
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

/// A launch that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchReply {
    /// Which of the inputs it had.
    #[serde(default)]
    pub inputs: usize,
    /// How many of the message's attachments are its outputs.
    pub count: usize,
    #[serde(skip)]
    pub outputs: Vec<Vec<u8>>,
    /// What is wrong beside the answer.
    pub complaints: Vec<Complaint>,
}

impl WorkerReply {
    fn launches(&mut self) -> &mut [LaunchReply] {
        match self {
            WorkerReply::Ran { launches } | WorkerReply::Verified { launches, .. } => launches,
            _ => &mut [],
        }
    }

    /// What is sent along with the message: the outputs of its launches.
    pub fn attachments(&self) -> Vec<&[u8]> {
        match self {
            WorkerReply::Ran { launches } | WorkerReply::Verified { launches, .. } => {
                launches.iter().flat_map(|launch| launch.outputs.iter().map(Vec::as_slice)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Gives every launch its outputs. `None` if there are more or fewer than the launches have.
    pub fn with(mut self, attachments: Vec<Vec<u8>>) -> Option<Self> {
        let mut attachments = attachments.into_iter();
        for launch in self.launches() {
            launch.outputs = attachments.by_ref().take(launch.count).collect();
            if launch.outputs.len() != launch.count {
                return None;
            }
        }
        attachments.next().is_none().then_some(self)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildReply {
    pub hash: String,
    pub build: BuildRecord,
    /// What a reader of the verdict should know of the kernel.
    pub notes: Vec<String>,
    /// What the op allows this kernel beyond its own tolerance.
    pub extra_tolerance: Option<String>,
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
    fn outputs_travel_as_attachments_of_the_message() {
        let ran = |count| LaunchReply { inputs: 0, count, outputs: Vec::new(), complaints: Vec::new() };
        let said = WorkerReply::Ran { launches: vec![ran(1), ran(2)] };
        let bytes = vec![vec![1], vec![2, 2], vec![3]];
        let whole = said.clone().with(bytes.clone()).expect("as many as were announced");
        assert_eq!(whole.attachments(), [&[1][..], &[2, 2], &[3]]);
        assert_eq!(said.clone().with(bytes[..2].to_vec()), None);
        assert_eq!(WorkerReply::Loaded.with(bytes), None);
    }

    #[test]
    fn lines_are_what_the_script_reads_and_writes() {
        let ask = WorkerRequest::Sample { timer: Timer::GraphHot, count: 2 };
        assert_eq!(serde_json::to_string(&ask).unwrap(), r#"{"ask":"sample","timer":"graph-hot","count":2}"#);
        for (line, said) in [
            (r#"{"say": "loaded"}"#, WorkerReply::Loaded),
            (r#"{"say": "samples", "ns": [1.5]}"#, WorkerReply::Samples { ns: vec![1.5] }),
            (
                r#"{"say": "matrix-rate", "tflops": 7.0, "samples": 3}"#,
                WorkerReply::MatrixRate(MatrixRate { tflops: 7.0, samples: 3 }),
            ),
            (
                r#"{"say": "failed", "failure": "out-of-memory", "reason": "x"}"#,
                WorkerReply::Failed { failure: FailureKind::OutOfMemory, reason: "x".to_owned() },
            ),
        ] {
            assert_eq!(serde_json::from_str::<WorkerReply>(line).unwrap(), said);
        }
    }
}
