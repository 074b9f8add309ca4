//! What a run's log says, line by line.

use std::fmt;

use op::Complaint;
use serde::{Deserialize, Serialize};
use vgpu::model::ModelledMicros;

use super::{Exchange, Manifest, Search, Trial, TrialResult};
use crate::invert::{Inversion, InversionResult};
use crate::profile::Profile;
use crate::stats::{Blocks, Comparison, NoiseFloor, SampleError, Samples, Speedup, StopReason, Typical};

/// One thing that happened.
///
/// Kinds may be added, and fields that have a default; what a kind or a field means never changes under one schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    RunStarted {
        manifest: Box<Manifest>,
    },
    /// The run was taken up again; the manifest is of that day.
    Resumed {
        manifest: Box<Manifest>,
    },
    StageStarted {
        key: StageKey,
    },
    /// What was recorded for the key since it started counts from here on, and is not repeated on resuming.
    StageFinished {
        key: StageKey,
        outcome: StageOutcome,
    },
    Built {
        of: ResultId,
        build: BuildRecord,
    },
    Checked {
        of: ResultId,
        check: CheckRecord,
    },
    /// What a baseline is, and whether it is there.
    Baseline {
        /// As subjects name it: `pytorch flash`.
        name: String,
        /// What it is exactly (`torch 2.9.1+cu130`), or why it is not there.
        version: super::Fact<String>,
    },
    /// Times taken.
    Sampled {
        of: ResultId,
        sampled: SampleSet,
    },
    /// A time that was computed: the virtual GPU's.
    Modelled {
        of: ResultId,
        modelled: Modelled,
    },
    /// A subject measured against itself, in turns, as an A/A control: one of its processes against its others.
    Control {
        problem: String,
        subject: String,
        session: u32,
        timer: Timer,
        /// How many processes it is of; two, where a log does not say.
        #[serde(default = "two")]
        processes: usize,
        speedup: Speedup,
        noise_floor: NoiseFloor,
    },
    /// What the device was seen to be able to do, in this run.
    Ceiling {
        ceiling: Ceiling,
    },
    /// A candidate against a baseline, measured in turns in one session.
    Verdict {
        problem: String,
        candidate: String,
        baseline: String,
        session: u32,
        timer: Timer,
        comparison: Comparison,
    },
    /// A candidate is out, for this problem.
    CandidateFailed {
        of: ResultId,
        stage: Stage,
        failure: FailureKind,
        reason: String,
    },
    /// A suite's target, held against what was measured.
    Target {
        target: TargetJudged,
    },
    /// A search begins, or goes on, over this space.
    SearchStarted {
        search: Search,
    },
    /// A proposer was asked.
    Proposed {
        exchange: Exchange,
    },
    /// A candidate of the search was tried. Trials are numbered: a later one of the same number replaces the first.
    Tried {
        trial: Box<Trial>,
    },
    Profiled {
        of: ResultId,
        profile: Box<Profile>,
    },
    Inverted {
        inversion: Inversion,
    },
    Note {
        text: String,
    },
    /// What inputs, compared rows and launch conditions were drawn from. Written when nothing is left to be launched.
    InputSeed {
        seed: u64,
    },
    RunFinished {
        outcome: RunOutcome,
    },
    /// Written by a newer version: kept in the file, skipped by this one.
    #[serde(other, skip_serializing)]
    Unknown,
}

impl Event {
    /// What no run can have measured or modelled: a time or a rate that is negative or not finite.
    pub(super) fn flaw(&self) -> Option<String> {
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
        let wrong = numbers.into_iter().find(|(_, number)| !(number.is_finite() && *number >= 0.0));
        wrong.map(|(field, number)| format!("{field} is {number}; it must be finite and not negative"))
    }

    /// The session of turns the event belongs to.
    pub(super) fn session(&self) -> Option<u32> {
        match self {
            Event::Sampled { sampled, .. } => Some(sampled.session),
            Event::Control { session, .. } | Event::Verdict { session, .. } => Some(*session),
            _ => None,
        }
    }

    /// Whether losing the event to a power failure would lose work or mislead; those go to the disk at once.
    pub(super) fn is_milestone(&self) -> bool {
        !matches!(self, Event::Note { .. } | Event::StageStarted { .. })
    }
}

/// What a result is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResultId {
    /// By its dimensions: `b1h8s512d64-fp16`.
    pub problem: String,
    /// `wmma stage-2`, `pytorch flash`.
    pub subject: String,
    /// The build's hash; of a baseline, its version.
    pub build: String,
}

impl ResultId {
    pub fn new(problem: impl Into<String>, subject: impl Into<String>, build: impl Into<String>) -> Self {
        ResultId { problem: problem.into(), subject: subject.into(), build: build.into() }
    }
}

/// A piece of work by which a resumed run knows what is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StageKey {
    pub stage: Stage,
    #[serde(flatten)]
    pub of: ResultId,
}

impl StageKey {
    pub fn new(
        stage: Stage,
        problem: impl Into<String>,
        subject: impl Into<String>,
        build: impl Into<String>,
    ) -> Self {
        StageKey { stage, of: ResultId::new(problem, subject, build) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Build,
    Check,
    Bench,
    Ceiling,
    Profile,
    /// A stage of a newer version.
    #[serde(other)]
    Other,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::Build => "build",
            Stage::Check => "check",
            Stage::Bench => "bench",
            Stage::Ceiling => "ceiling",
            Stage::Profile => "profile",
            Stage::Other => "other",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum StageOutcome {
    Done,
    Failed {
        reason: String,
    },
    /// Not tried, and not a pass.
    Skipped {
        reason: String,
    },
}

/// What a candidate compiled to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildRecord {
    /// Over the machine code alone: builds with the same one are one kernel.
    pub code_hash: String,
    pub target: String,
    pub compiler: String,
    pub registers: u32,
    pub spill_bytes: u32,
    pub shared_bytes: u64,
    /// What the family's manifest allows; `None` where it sets no limit.
    pub registers_limit: Option<u32>,
    pub spill_bytes_limit: Option<u32>,
    pub compile_ms: f64,
    pub from_cache: bool,
}

/// Whether a build gives the right answer to a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckRecord {
    pub passed: bool,
    /// Relative error in L2 and what it may be; `None` where there was no answer, or none that is finite.
    pub error: Option<f64>,
    pub limit: Option<f64>,
    /// Launches that were judged.
    pub cases: u32,
    #[serde(default)]
    pub complaints: Vec<Complaint>,
    /// After the timing: whether inputs that were seen before made a difference to the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
}

/// What a launch takes on inputs that the launches before had, and on inputs that no launch has had.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    pub repeated_ns: f64,
    /// `None` where no input may be changed at will.
    pub fresh_ns: Option<f64>,
}

/// How times are taken. Times of different timers are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timer {
    /// Replay of a CUDA graph, caches as the call before left them.
    GraphHot,
    /// Replay of a CUDA graph, L2 flushed before.
    GraphCold,
    /// One event pair per call, launch included.
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

/// Times of one subject on one problem, in the order they were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleSet {
    pub timer: Timer,
    /// What was measured in turns shares a session; only within one are subjects compared.
    pub session: u32,
    pub samples_ns: Vec<f64>,
    /// Consecutive samples that belong to one block of turns (A B B A: 2).
    pub per_block: usize,
    /// The processes they are from. Which sample is from which follows from its place in its block ([`Blocks`]).
    #[serde(default = "one")]
    pub processes: usize,
    pub warmup: u32,
    pub stopped: StopReason,
    /// What the problem takes at least, for TFLOP/s and GB/s.
    pub work: Option<op::Work>,
    /// The element type of the matrix ceiling this is held against: `fp16`.
    #[serde(default)]
    pub matrix: Option<String>,
    /// Work that had to be done first and is not in the samples, by name: quantisation, a change of layout.
    #[serde(default)]
    pub apart_ns: Vec<(String, f64)>,
    #[serde(default)]
    pub telemetry: Telemetry,
}

impl SampleSet {
    /// How the samples lie in the series.
    pub fn blocks(&self) -> Blocks {
        Blocks { per_block: self.per_block, processes: self.processes }
    }

    /// In microseconds.
    pub fn samples_us(&self) -> Result<Samples, SampleError> {
        Samples::new(self.samples_ns.iter().map(|nanos| nanos / 1000.0).collect())
    }

    /// The time over all processes, or why there is none.
    pub fn typical_us(&self) -> Result<super::MeasuredMicros, SampleError> {
        Typical::value_of(&self.samples_us()?, self.blocks()).map(super::MeasuredMicros)
    }
}

// What logs meant that were written before they said it.
fn one() -> usize {
    1
}

fn two() -> usize {
    2
}

/// The device while samples were taken, as NVML has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// Lowest and highest.
    pub sm_clock_mhz: Option<(u32, u32)>,
    pub memory_clock_mhz: Option<(u32, u32)>,
    pub temperature_c: Option<(u32, u32)>,
    pub power_w: Option<(f64, f64)>,
    /// Why clocks were held down; empty: they were not; `None`: nobody knows.
    pub throttled: Option<Vec<String>>,
}

impl Telemetry {
    pub fn was_throttled(&self) -> bool {
        self.throttled.as_ref().is_some_and(|reasons| !reasons.is_empty())
    }
}

/// A computed time; never among samples, never compared with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    /// The GPU that was modelled: `l4`.
    pub gpu: String,
    pub time_us: ModelledMicros,
    /// What the model says limits the kernel.
    pub limiter: Option<String>,
    pub work: Option<op::Work>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    pub speed: Speed,
    /// `fp16`, for a matrix rate.
    pub matrix: Option<String>,
    pub samples: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    MatrixTflops(f64),
    CopyGbPerS(f64),
    LaunchFloorUs(super::MeasuredMicros),
}

/// Why a candidate is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The family does not support the problem, or the device does not support the family.
    Refused,
    DoesNotCompile,
    WrongAnswer,
    IllegalAccess,
    Crash,
    Hang,
    OutOfMemory,
    /// Asks for more of a resource than the device has.
    TooLarge,
    /// It was faster than the device can be.
    Implausible,
    /// A reason of a newer version.
    #[serde(other)]
    Other,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FailureKind::Refused => "refused",
            FailureKind::DoesNotCompile => "does not compile",
            FailureKind::WrongAnswer => "wrong answer",
            FailureKind::IllegalAccess => "illegal access",
            FailureKind::Crash => "crash",
            FailureKind::Hang => "hang",
            FailureKind::OutOfMemory => "out of memory",
            FailureKind::TooLarge => "too large",
            FailureKind::Implausible => "implausible",
            FailureKind::Other => "failed",
        })
    }
}

/// A suite's target, met or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetJudged {
    /// In words: `at least 2x over pytorch auto`.
    pub target: String,
    pub problem: Option<String>,
    /// `None`: what it takes to judge is missing, which is not met.
    pub met: Option<bool>,
    /// The numbers it rests on.
    pub evidence: String,
}

/// What a run came to; as the program's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunOutcome {
    Holds,
    Finding,
    Usage,
    Lacking,
    Incomplete,
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RunOutcome::Holds => "holds",
            RunOutcome::Finding => "finding",
            RunOutcome::Usage => "wrong use",
            RunOutcome::Lacking => "machine lacks something",
            RunOutcome::Incomplete => "incomplete",
        })
    }
}
