//! The messages between parent and worker: JSON, one object per message (`subprocess::wire`).

use std::path::PathBuf;

use family::{Candidate, Family};
use indexmap::IndexMap;
use op::{Complaint, ExtraTolerance, InputDraw, TrialStep};
use runlog::record::Seen;
use runlog::{BuildRecord, Ceiling, FailureKind, LaunchCounts, Repeats, Timer};
use serde::{Deserialize, Serialize};
use times::ModelledMicros;

/// A family, a preset and the knobs set on top of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateName {
    /// The family's full name.
    pub family: String,
    /// The preset; `None` means the family's defaults.
    pub preset: Option<String>,
    /// The knobs that differ from the preset, as names and values.
    pub knobs: Vec<(String, String)>,
}

impl CandidateName {
    /// Names the setting itself, not `tuned`: the worker might look up a different pick.
    pub fn new(family: &Family, candidate: &Candidate) -> Self {
        CandidateName {
            family: family.full_name(),
            preset: candidate.preset.clone(),
            knobs: candidate.changes(family),
        }
    }
}

/// A request of the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum WorkerRequest {
    /// Report your version.
    Hello,
    /// Compile a candidate for a problem, or find it in the cache.
    Build {
        /// The candidate to compile.
        candidate: CandidateName,
        /// The problem's name.
        problem: String,
    },
    /// Load an implementation of a peer, a problem and the files of its inputs.
    Load {
        /// The name of the implementation within its package: `flash`.
        name: String,
        /// The sizes and types of the problem ([`op::PeerProblem::fields`]).
        fields: serde_json::Value,
        /// The file of each input, by the input's name.
        inputs: IndexMap<String, PathBuf>,
    },
    /// Launch the built or loaded kernel once for every step. A peer runs once, on the inputs it has loaded.
    Run {
        /// The sets of inputs; steps refer to them by index.
        draws: Vec<InputDraw>,
        /// The launches, in order.
        steps: Vec<TrialStep>,
        /// Seed of the launches' environments.
        seed: u64,
        /// A worker whose device cannot check refuses anything but `None`.
        checks: vgpu::Checks,
    },
    /// The answer was correct: prepare for timing.
    Arm {
        /// The timers that samples will be taken with.
        timers: Vec<Timer>,
        /// Launches before timing starts.
        warmup: u32,
        /// Minimum duration of one replay of the hot graph.
        replay_ns: f64,
    },
    /// Take samples with a timer.
    Sample {
        /// How to take the times.
        timer: Timer,
        /// Number of samples.
        count: usize,
    },
    /// Timing is over: replace the inputs in place, poison the outputs, and run everything that was timed once more.
    Verify {
        /// The new inputs of the two sets that were timed.
        draws: [InputDraw; 2],
        /// Seed of the poison and of the new inputs that are timed for comparison.
        seed: u64,
    },
    /// The answer was correct: return the virtual GPU's modelled time of that run.
    Model,
    /// The answer was correct: return the virtual GPU's metrics of that run, scaled to this many times the blocks and
    /// the memory.
    Count {
        /// Factor for the blocks.
        times: u64,
        /// Factor for the bytes that cross the memory bus.
        memory: f64,
    },
    /// Launch the kernel this many times more, for an external profiler.
    Launch {
        /// Number of launches.
        times: u32,
    },
    /// Measure the ceilings of the device that this worker can measure.
    Ceilings,
    /// Measure the rate of a large matrix product.
    Matrix {
        /// The element type of the matrices: `fp16`.
        dtype: String,
    },
    /// End the process.
    Quit,
}

/// A reply of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum WorkerReply {
    /// Reply to `Hello`.
    Ready {
        /// The version of the worker or of its libraries: `torch 2.9.1, cuDNN 91002`.
        version: String,
    },
    /// Reply to `Build`.
    Built(BuildReply),
    /// Reply to `Load`.
    Loaded,
    /// Reply to `Run`.
    Ran {
        /// One reply for each launch, in order.
        launches: Vec<LaunchReply>,
    },
    /// Reply to `Verify`.
    Verified {
        /// One reply for each launch that was run again, in order.
        launches: Vec<LaunchReply>,
        /// The time with repeated and with new inputs.
        repeats: Repeats,
    },
    /// Reply to `Arm`.
    Armed {
        /// Launches in one replay of the hot graph.
        launches: u32,
    },
    /// Reply to `Sample`.
    Samples {
        /// The times in nanoseconds, in the order in which they were taken.
        ns: Vec<f64>,
    },
    /// Reply to `Model`.
    Modelled(Modelled),
    /// Reply to `Count`.
    Seen(Box<Seen>),
    /// Reply to `Launch`.
    Launched,
    /// Reply to `Ceilings`.
    Ceilings {
        /// The measured ceilings.
        ceilings: Vec<Ceiling>,
    },
    /// Reply to `Matrix`.
    MatrixRate(MatrixRate),
    /// The request failed.
    Failed {
        /// The kind of the failure.
        failure: FailureKind,
        /// The failure in words.
        reason: String,
    },
}

/// A launch that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchReply {
    /// Index of its inputs.
    #[serde(default)]
    pub inputs: usize,
    /// How many attachments of the message are its outputs.
    pub count: usize,
    /// The bytes of each output. They travel as attachments, not in the JSON text.
    #[serde(skip)]
    pub outputs: Vec<Vec<u8>>,
    /// What is wrong regardless of the outputs.
    pub complaints: Vec<Complaint>,
}

impl WorkerReply {
    fn launches(&mut self) -> &mut [LaunchReply] {
        match self {
            WorkerReply::Ran { launches } | WorkerReply::Verified { launches, .. } => launches,
            _ => &mut [],
        }
    }

    /// Returns the attachments of the message: the outputs of its launches.
    pub fn attachments(&self) -> Vec<&[u8]> {
        match self {
            WorkerReply::Ran { launches } | WorkerReply::Verified { launches, .. } => {
                launches.iter().flat_map(|launch| launch.outputs.iter().map(Vec::as_slice)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Assigns the attachments to the launches. `None` if their number differs from what the launches announced.
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

/// A finished build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildReply {
    /// Hash of the source with its includes, the options and the compiler's version.
    pub hash: String,
    /// Resources and compiler of the build.
    pub build: BuildRecord,
    /// Remarks about the kernel for the reader of the verdict.
    pub notes: Vec<String>,
    /// The tolerance that the op grants this kernel beyond its own, as text.
    pub extra_tolerance: Option<ExtraTolerance>,
}

/// A modelled time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    /// The id of the modelled GPU: `l4`.
    pub gpu: String,
    /// The time in microseconds.
    pub time_us: ModelledMicros,
    /// The resource that limits the kernel according to the model.
    pub limiter: String,
    /// The counts of the launch.
    pub counts: LaunchCounts,
}

/// The measured rate of a large matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixRate {
    /// The best rate, in 10^12 operations per second.
    pub tflops: f64,
    /// Number of matrix products that were timed.
    pub samples: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_attachments_of_the_message() {
        let ran = |count| LaunchReply { inputs: 0, count, outputs: Vec::new(), complaints: Vec::new() };
        let reply = WorkerReply::Ran { launches: vec![ran(1), ran(2)] };
        let bytes = vec![vec![1], vec![2, 2], vec![3]];
        let complete = reply.clone().with(bytes.clone()).expect("the number of outputs matches");
        assert_eq!(complete.attachments(), [&[1][..], &[2, 2], &[3]]);
        assert_eq!(reply.clone().with(bytes[..2].to_vec()), None);
        assert_eq!(WorkerReply::Loaded.with(bytes), None);
    }

    #[test]
    fn messages_match_the_format_of_the_peer_script() {
        let request = WorkerRequest::Sample { timer: Timer::GraphHot, count: 2 };
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"ask":"sample","timer":"graph-hot","count":2}"#
        );
        for (line, reply) in [
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
            assert_eq!(serde_json::from_str::<WorkerReply>(line).unwrap(), reply);
        }
    }
}
