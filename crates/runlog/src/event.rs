//! The events of a run's log.

use std::fmt;

use op::Complaint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Blocks, Comparison, NoiseFloor, ProcessMean, SampleError, Samples, Speedup, StopReason};
use times::ModelledMicros;

use super::stage::{FailureKind, Stage};
use super::{Exchange, Manifest, Search, Trial, TrialResult};
use crate::record::{Inversion, InversionResult, Profile};

/// An event of a run.
///
/// New kinds, and new fields with a default, may be added. The meaning of a kind or a field never changes within one
/// schema.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    /// The run started.
    RunStarted {
        /// The command, the machine and the versions of the run.
        manifest: Box<Manifest>,
    },
    /// The run was resumed. The manifest describes the resuming invocation.
    Resumed {
        /// The command, the machine and the versions at the time of resuming.
        manifest: Box<Manifest>,
    },
    /// Work on a stage started.
    StageStarted {
        /// The stage, problem, subject and build.
        key: StageKey,
    },
    /// Work on a stage ended. The results that were recorded for the key since its start are now valid, and a resumed
    /// run does not repeat them.
    StageFinished {
        /// The stage, problem, subject and build.
        key: StageKey,
        /// How the stage ended.
        outcome: StageOutcome,
    },
    /// A candidate was compiled.
    Built {
        /// The problem, subject and build.
        of: ResultId,
        /// Resources and compiler of the build.
        build: BuildRecord,
    },
    /// A subject's answers were checked.
    Checked {
        /// The problem, subject and build.
        of: ResultId,
        /// The result of the check.
        check: CheckRecord,
    },
    /// The error of a subject on inputs of one class was measured.
    ClassError {
        /// The problem, subject and build.
        of: ResultId,
        /// The class and the error.
        error: ClassError,
    },
    /// A baseline and its version.
    Baseline {
        /// The subject's name: `pytorch flash`.
        name: String,
        /// The version (`torch 2.9.1+cu130`), or the reason why the baseline is unavailable.
        version: super::Fact<String>,
    },
    /// Times were measured.
    Sampled {
        /// The problem, subject and build.
        of: ResultId,
        /// The times and how they were taken.
        sampled: SampleSet,
    },
    /// A time was computed by the virtual GPU.
    Modelled {
        /// The problem, subject and build.
        of: ResultId,
        /// The time and the modelled GPU.
        modelled: Modelled,
    },
    /// An A/A control: one process of a subject was compared with its other processes, in turns.
    Control {
        /// The problem's name.
        problem: String,
        /// The name of the subject.
        subject: String,
        /// The session of the measurement.
        session: u32,
        /// How the times were taken.
        timer: Timer,
        /// The number of processes; two if an old log does not have it.
        #[serde(default = "two")]
        processes: usize,
        /// The time of the first process divided by the time of the others.
        speedup: Speedup,
        /// The noise floor that follows from the control.
        noise_floor: NoiseFloor,
    },
    /// A ceiling of the device was measured.
    Ceiling {
        /// The measured rate or time.
        ceiling: Ceiling,
    },
    /// A candidate was compared with a baseline, measured in turns in one session.
    Verdict {
        /// The problem's name.
        problem: String,
        /// The name of the candidate.
        candidate: String,
        /// The name of the baseline.
        baseline: String,
        /// The session of both measurements.
        session: u32,
        /// How the times were taken.
        timer: Timer,
        /// The verdict and its statistics.
        comparison: Comparison,
    },
    /// A candidate failed on a problem.
    CandidateFailed {
        /// The problem, subject and build.
        of: ResultId,
        /// The stage in which the candidate failed.
        stage: Stage,
        /// The kind of the failure.
        failure: FailureKind,
        /// The failure in words.
        reason: String,
    },
    /// A suite's target was compared with the measurements.
    Target {
        /// The target and whether it was met.
        target: TargetVerdict,
    },
    /// A search over this space started.
    SearchStarted {
        /// The space and the settings of the search.
        search: Search,
    },
    /// A proposer was asked for a candidate.
    Proposed {
        /// The request and the answer.
        exchange: Exchange,
    },
    /// A candidate of a search was evaluated. A later trial with the same number replaces an earlier one.
    Tried {
        /// The candidate and its result.
        trial: Box<Trial>,
    },
    /// A kernel was profiled.
    Profiled {
        /// The problem, subject and build.
        of: ResultId,
        /// Metrics, diagnoses and hot lines.
        profile: Box<Profile>,
    },
    /// A pathology was timed.
    Inverted {
        /// The pathology and its cost.
        inversion: Inversion,
    },
    /// A note for readers of the run.
    Note {
        /// The note.
        text: String,
    },
    /// The seed of inputs, compared rows and launch conditions. It is written after the last launch.
    InputSeed {
        /// The seed.
        seed: u64,
    },
    /// The run ended.
    RunFinished {
        /// How the run ended.
        outcome: RunOutcome,
    },
    /// An event of a newer version. It stays in the file and is skipped.
    #[serde(other, skip_serializing)]
    Unknown,
}

impl Event {
    /// An error message if a time or a rate is negative or not finite, which no run can have produced.
    pub(super) fn find_invalid_number(&self) -> Option<String> {
        let mut numbers: Vec<(&str, f64)> = Vec::new();
        match self {
            Event::Sampled { sampled, .. } => {
                numbers.extend(sampled.samples_ns.iter().map(|&nanos| ("samples_ns", nanos)));
                numbers.extend(sampled.apart_ns.iter().map(|(_, nanos)| ("apart_ns", *nanos)));
            }
            Event::Modelled { modelled, .. } => numbers.push(("time_us", modelled.time_us.0)),
            Event::Ceiling { ceiling } => numbers.push(match ceiling.speed {
                Speed::MatrixTflops(rate) => ("matrix-tflops", rate),
                Speed::CopyGbPerS(rate) => ("copy-gb-per-s", rate),
                Speed::LaunchFloorUs(time) => ("launch-floor-us", time.0),
            }),
            Event::Tried { trial } => {
                if let TrialResult::Timed { score, problems, .. } = &trial.result {
                    numbers.push(("score", *score));
                    for it in problems {
                        numbers.push(("time", it.time.micros()));
                        numbers.push(("baseline", it.baseline.micros()));
                        numbers.push(("speedup", it.speedup));
                    }
                }
            }
            Event::Profiled { profile, .. } => {
                numbers.extend(profile.metrics.time.map(|time| ("time", time.micros())));
            }
            Event::Inverted { inversion } => {
                if let InversionResult::Timed { time, healthy, cost, .. } = &inversion.result {
                    numbers.push(("time", time.micros()));
                    numbers.push(("healthy", healthy.micros()));
                    numbers.push(("cost", *cost));
                }
            }
            Event::Built { build, .. } => numbers.push(("compile_ms", build.compile_ms)),
            _ => {}
        }
        let invalid = numbers.into_iter().find(|(_, number)| !(number.is_finite() && *number >= 0.0));
        invalid.map(|(field, number)| format!("{field} is {number}; it must be finite and not negative"))
    }

    /// The session that the event belongs to.
    pub(super) fn session(&self) -> Option<u32> {
        match self {
            Event::Sampled { sampled, .. } => Some(sampled.session),
            Event::Control { session, .. } | Event::Verdict { session, .. } => Some(*session),
            _ => None,
        }
    }

    /// Whether losing the event in a power failure would lose work or mislead. Such events are synced to the disk.
    pub(super) fn is_milestone(&self) -> bool {
        !matches!(self, Event::Note { .. } | Event::StageStarted { .. })
    }
}

/// The key of a result: problem, subject and build.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub struct ResultId {
    /// The problem's name: `b1h8s512d64-fp16`.
    pub problem: String,
    /// The subject's name: `wmma stage-2`, `pytorch flash`.
    pub subject: String,
    /// The hash of the build; for a baseline, its version.
    pub build: String,
}

impl ResultId {
    /// A key from its parts.
    pub fn new(problem: impl Into<String>, subject: impl Into<String>, build: impl Into<String>) -> Self {
        ResultId { problem: problem.into(), subject: subject.into(), build: build.into() }
    }
}

/// The key of a piece of work. A resumed run uses it to find finished work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub struct StageKey {
    /// The stage.
    pub stage: Stage,
    /// What the work is for.
    #[serde(flatten)]
    pub of: ResultId,
}

impl StageKey {
    /// A key from its parts.
    pub fn new(
        stage: Stage,
        problem: impl Into<String>,
        subject: impl Into<String>,
        build: impl Into<String>,
    ) -> Self {
        StageKey { stage, of: ResultId::new(problem, subject, build) }
    }
}

/// How a stage ended.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum StageOutcome {
    /// The work is done.
    Done,
    /// The subject failed.
    Failed {
        /// Why the subject failed.
        reason: String,
    },
    /// The work was skipped. This is not a pass.
    Skipped {
        /// Why the work was skipped.
        reason: String,
    },
}

/// The result of compiling a candidate.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct BuildRecord {
    /// The family and the setting that was compiled: `mma small`. Empty in older logs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub setting: String,
    /// The hash of the machine code only. Builds with the same hash are the same kernel.
    pub code_hash: String,
    /// The compile target: `sm_90a`.
    pub target: String,
    /// The compiler and its version.
    pub compiler: String,
    /// Registers per thread.
    pub registers: u32,
    /// Spilled bytes per thread.
    pub spill_bytes: u32,
    /// Shared memory per block.
    pub shared_bytes: u64,
    /// The register limit of the family's manifest, if it has one.
    pub registers_limit: Option<u32>,
    /// The spill limit of the family's manifest, if it has one.
    pub spill_bytes_limit: Option<u32>,
    /// Number of the assembler's notes that it serialises warpgroup products.
    #[serde(default)]
    pub serialised_wgmma: u32,
    /// The limit of these notes in the family's manifest, if it has one.
    #[serde(default)]
    pub serialised_wgmma_limit: Option<u32>,
    /// The compile time.
    pub compile_ms: f64,
    /// Whether the build came from the cache.
    pub from_cache: bool,
}

/// The result of checking a build's answers on a problem.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CheckRecord {
    /// Whether all answers are right.
    pub passed: bool,
    /// The relative L2 error; `None` if there is no finite answer.
    pub error: Option<f64>,
    /// The limit of the error.
    pub limit: Option<f64>,
    /// The number of checked launches.
    pub cases: u32,
    /// The reasons why the check failed.
    #[serde(default)]
    pub complaints: Vec<Complaint>,
    /// The times with repeated and with new inputs, measured after the timing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Whether launches ran under all checkers of the virtual GPU, without a finding. `false` in old logs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sanitized: bool,
}

/// The error of a subject on inputs of one class.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ClassError {
    /// The class of the inputs: `outliers`.
    pub class: String,
    /// The part of the problem that was computed.
    pub part: String,
    /// The relative L2 error; `None` if an element is not finite or was not written.
    pub error: Option<f64>,
}

impl ClassError {
    /// An error that is not finite becomes `None`.
    pub fn new(class: &str, part: &str, error: f64) -> Self {
        ClassError {
            class: class.to_owned(),
            part: part.to_owned(),
            error: error.is_finite().then_some(error),
        }
    }
}

/// The time of a launch with inputs that earlier launches had, and with new inputs.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Repeats {
    /// The time with repeated inputs, one launch directly after the other.
    pub repeated_ns: f64,
    /// The time with repeated inputs that were written again before the launch, so that the caches are in the same
    /// state as before a launch on new inputs. `None` in old logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewritten_ns: Option<f64>,
    /// The longest time by which the state of the caches may delay a launch whose inputs were written again.
    #[serde(default)]
    pub cache_ns: f64,
    /// The time with new inputs; `None` if the inputs cannot be changed.
    pub fresh_ns: Option<f64>,
}

/// How times are taken. Times of different timers are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timer {
    /// Replay of a CUDA graph, with the caches as the previous call left them.
    GraphHot,
    /// Replay of a CUDA graph after an L2 flush.
    GraphCold,
    /// One pair of events per call, including the launch.
    Eager,
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Timer::GraphHot => "graph, hot",
            Timer::GraphCold => "graph, cold",
            Timer::Eager => "eager",
        })
    }
}

/// The times of one subject on one problem, in the order of measurement.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SampleSet {
    /// How the times were taken.
    pub timer: Timer,
    /// The session. Subjects are compared only within a session, where they are measured in turns.
    pub session: u32,
    /// The times.
    pub samples_ns: Vec<f64>,
    /// The number of consecutive samples in one block of turns (A B B A: 2).
    pub per_block: usize,
    /// The number of processes. The position of a sample in its block determines its process ([`Blocks`]).
    #[serde(default = "one")]
    pub processes: usize,
    /// Launches before the first sample.
    pub warmup: u32,
    /// Why the measurement ended.
    pub stopped: StopReason,
    /// The minimum of operations and bytes for the problem, for TFLOP/s and GB/s.
    pub work: Option<op::Work>,
    /// The element type of the matrix ceiling that the time is compared with: `fp16`.
    #[serde(default)]
    pub matrix: Option<String>,
    /// Names and times of preparatory work that the samples do not include, such as quantisation or a layout change.
    #[serde(default)]
    pub apart_ns: Vec<(String, f64)>,
    /// The state of the device during the measurement.
    #[serde(default)]
    pub telemetry: Telemetry,
}

impl SampleSet {
    /// The arrangement of the samples in blocks.
    pub fn blocks(&self) -> Blocks {
        Blocks { per_block: self.per_block, processes: self.processes }
    }

    /// The samples in microseconds.
    pub fn samples_us(&self) -> Result<Samples, SampleError> {
        Samples::new(self.samples_ns.iter().map(|nanos| nanos / 1000.0).collect())
    }

    /// The typical time over all processes, or the reason why there is none.
    pub fn typical_us(&self) -> Result<super::MeasuredMicros, SampleError> {
        ProcessMean::value_of(&self.samples_us()?, self.blocks()).map(super::MeasuredMicros)
    }
}

// Default values for logs of versions without these fields.
fn one() -> usize {
    1
}

fn two() -> usize {
    2
}

/// The state of the device while samples were taken, from NVML.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// The lowest and the highest SM clock.
    pub sm_clock_mhz: Option<(u32, u32)>,
    /// The lowest and the highest memory clock.
    pub memory_clock_mhz: Option<(u32, u32)>,
    /// The lowest and the highest temperature.
    pub temperature_c: Option<(u32, u32)>,
    /// The lowest and the highest power.
    pub power_w: Option<(f64, f64)>,
    /// Why the clocks were throttled. Empty if they were not, `None` if this is not known.
    pub throttled: Option<Vec<String>>,
}

impl Telemetry {
    /// Whether the clocks were throttled.
    pub fn was_throttled(&self) -> bool {
        self.throttled.as_ref().is_some_and(|reasons| !reasons.is_empty())
    }
}

/// A modelled time. It is never mixed or compared with samples.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Modelled {
    /// The modelled GPU: `l4`.
    pub gpu: String,
    /// The time.
    pub time_us: ModelledMicros,
    /// The bottleneck of the kernel according to the model.
    pub limiter: Option<String>,
    /// The minimum of operations and bytes for the problem.
    pub work: Option<op::Work>,
    /// The version of the time model (`vgpu::model::VERSION`); `None` in old logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<u32>,
    /// The counts of the launch; `None` in old logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<LaunchCounts>,
}

impl Modelled {
    /// The rate of the problem's floating-point operations; `None` if it has none.
    pub fn tflops(&self) -> Option<f64> {
        let flops = self.work.map(|work| work.flops).filter(|flops| *flops > 0.0)?;
        Some(flops / self.time_us.0 / 1e6).filter(|rate| rate.is_finite())
    }

    /// The rate of the bytes that the problem must move; `None` if it is not known.
    pub fn gb_per_s(&self) -> Option<f64> {
        let bytes = self.work.map(|work| work.bytes).filter(|bytes| *bytes > 0)?;
        Some(bytes as f64 / self.time_us.0 / 1e3).filter(|rate| rate.is_finite())
    }
}

/// What the virtual GPU counted in one launch, with the compiler's spills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LaunchCounts {
    /// Instructions of warps.
    pub instructions: u64,
    /// Sectors (32 bytes) that requests to global memory moved.
    pub global_sectors: u64,
    /// Sectors that requests to local memory moved.
    pub local_sectors: u64,
    /// Passes over shared memory beyond the smallest possible number.
    pub bank_conflicts: u64,
}

impl LaunchCounts {
    /// The counts of two launches together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        LaunchCounts {
            instructions: self.instructions + other.instructions,
            global_sectors: self.global_sectors + other.global_sectors,
            local_sectors: self.local_sectors + other.local_sectors,
            bank_conflicts: self.bank_conflicts + other.bank_conflicts,
        }
    }
}

/// A measured ceiling of the device.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Ceiling {
    /// The kind of ceiling and its value.
    pub speed: Speed,
    /// The element type of a matrix rate: `fp16`.
    pub matrix: Option<String>,
    /// The number of samples.
    pub samples: usize,
}

/// The value of a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// The rate of matrix products.
    MatrixTflops(f64),
    /// The rate of copies.
    CopyGbPerS(f64),
    /// The time of an empty launch.
    LaunchFloorUs(super::MeasuredMicros),
}

/// The verdict on a suite's target.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct TargetVerdict {
    /// The target as text: `at least 2x over pytorch auto`.
    pub target: String,
    /// The problem; `None` for a target of all problems.
    pub problem: Option<String>,
    /// Whether the target is met; `None` if data is missing, which does not count as met.
    pub met: Option<bool>,
    /// The numbers behind the verdict.
    pub evidence: String,
}

/// The outcome of a run. It corresponds to the program's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunOutcome {
    /// Everything succeeded.
    #[serde(rename = "holds")]
    Success,
    /// A check found a problem.
    #[serde(rename = "finding")]
    ProblemFound,
    /// The command line is wrong.
    #[serde(rename = "usage")]
    UsageError,
    /// The machine does not have what the command needs.
    #[serde(rename = "lacking")]
    MissingRequirement,
    /// The run was stopped, or results are missing.
    Incomplete,
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RunOutcome::Success => "success",
            RunOutcome::ProblemFound => "problem found",
            RunOutcome::UsageError => "usage error",
            RunOutcome::MissingRequirement => "missing requirement",
            RunOutcome::Incomplete => "incomplete",
        })
    }
}
