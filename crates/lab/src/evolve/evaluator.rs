//! Evaluates one candidate: compiles it, and measures it beside the baseline in worker processes.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use compiler::Compiler;
use family::Family;
use gpu::device::Device;
use indexmap::IndexMap;
use op::Op;
use runlog::{FailureKind, ProblemTime, Run, RunState, Stage, Time};
use serde::{Deserialize, Serialize};

use super::EvolveError;
use super::plan::EvolvePlan;
use crate::Session;
use crate::bench::{self, AnswerCache, Subject, SubjectCheck, SubjectKind};
use crate::session::StageError;
use crate::worker::WorkerCommands;
use crate::worker::{self, BuildReply};

/// The name of the baseline in a candidate's bench.
const BASELINE: &str = "baseline";

/// A setting that goes through the stages.
#[derive(Clone, Debug)]
pub struct Setting<'f> {
    /// The family, possibly with a proposed source.
    pub family: &'f Family,
    /// The candidate's name in the log.
    pub name: String,
    /// The value of every knob.
    pub knobs: IndexMap<String, String>,
    /// The folder of the family, if its source is an untrusted one.
    pub untrusted_folder: Option<&'f Path>,
}

impl<'f> Setting<'f> {
    /// The setting as the subject of a bench or a profile.
    pub fn subject(&self) -> Subject<'f> {
        Subject {
            name: self.name.clone(),
            kind: SubjectKind::Kernel { family: self.family, preset: None, knobs: pairs(&self.knobs) },
            is_baseline: false,
            is_candidate: true,
            check: SubjectCheck::ConfirmedLater,
        }
    }
}

/// The result of compiling a setting for all problems.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Compiled {
    /// Machine code and launch geometry. Settings with the same identity are the same candidate.
    pub identity: String,
    /// The hash of the machine code.
    pub code_hash: String,
    /// The hash of the build for the first problem.
    pub build: String,
    /// The most registers that any of the builds uses.
    pub registers: u32,
    /// The most shared memory that any of the builds uses.
    pub shared_bytes: u64,
}

impl Compiled {
    /// Adds the build for another problem.
    pub fn merged(self, next: &Compiled) -> Compiled {
        let code_hash = if self.code_hash.contains(&next.code_hash) {
            self.code_hash
        } else {
            format!("{}+{}", self.code_hash, next.code_hash)
        };
        Compiled {
            identity: format!("{}+{}", self.identity, next.identity),
            code_hash,
            build: self.build,
            registers: self.registers.max(next.registers),
            shared_bytes: self.shared_bytes.max(next.shared_bytes),
        }
    }
}

/// Why a candidate is rejected, and at which stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The stage that rejected the candidate.
    pub stage: Stage,
    /// The kind of failure.
    pub failure: FailureKind,
    /// The reason.
    pub reason: String,
}

impl Rejection {
    /// The rejection for a failure that a worker or a build reported.
    pub fn new(stage: Stage, failure: worker::CandidateFailure) -> Self {
        Rejection { stage, failure: failure.kind, reason: failure.reason }
    }
}

/// Compiles, checks and times candidates for one search.
pub struct Evaluator<'a, O: Op + ?Sized> {
    /// The op of the search.
    pub op: &'a O,
    /// What is searched.
    pub plan: &'a EvolvePlan<'a, O::Problem>,
    /// The compiler for trusted sources.
    pub compiler: &'a Compiler,
    /// The commands that start workers.
    pub start: &'a WorkerCommands<'a>,
    /// The folder for temporary files.
    pub folder: &'a Path,
    /// The references, which are kept because every candidate gets the same inputs.
    pub answers: AnswerCache<O>,
    /// Set when the search must stop.
    pub stop: &'a AtomicBool,
}

impl<O: Op + ?Sized> Evaluator<'_, O> {
    /// Compiles a setting for every problem. This may run on any thread.
    pub fn compile(&self, setting: &Setting<'_>) -> Result<Compiled, Rejection> {
        let rejection = |failure| Rejection::new(Stage::Build, failure);
        let knobs = pairs(&setting.knobs);
        let family = setting.family;
        let mut compiled: Option<Compiled> = None;
        for problem in &self.plan.problems {
            let next = self.build(family, &knobs, problem).map_err(rejection)?;
            compiled = Some(match compiled {
                None => next,
                Some(before) => before.merged(&next),
            });
        }
        compiled
            .ok_or_else(|| rejection(worker::CandidateFailure::other("there is no problem to compile for")))
    }

    fn build(
        &self,
        family: &Family,
        knobs: &[(String, String)],
        problem: &O::Problem,
    ) -> Result<Compiled, worker::CandidateFailure> {
        let candidate = self.op.candidate(family, None, knobs, problem)?;
        let request = family.request(&candidate, self.plan.device.target())?;
        let built = self.compiler.build(&request).map_err(|error| worker::CandidateFailure::build(&error))?;
        let (hash, build) = (built.build.hash.clone(), worker::build_record(family, &candidate, &built)?);
        self.compiled(
            family,
            knobs,
            problem,
            BuildReply { hash, build, notes: Vec::new(), extra_tolerance: None },
        )
    }

    /// The result of one build, or a failure if the build uses more than the family allows.
    pub fn compiled(
        &self,
        family: &Family,
        knobs: &[(String, String)],
        problem: &O::Problem,
        BuildReply { hash, build, .. }: BuildReply,
    ) -> Result<Compiled, worker::CandidateFailure> {
        let candidate = self.op.candidate(family, None, knobs, problem)?;
        let launches = family.launch_sequence(&candidate, &self.op.sizes(problem))?;
        let geometry: Vec<_> = launches.iter().map(|(_, launch)| (launch.grid, launch.block)).collect();
        let exceeds = |what: &str, found: u32, limit: Option<u32>| {
            let limit = limit.filter(|limit| found > *limit)?;
            Some(worker::CandidateFailure::new(
                FailureKind::TooLarge,
                format!("{what}: {found}; the family allows {limit}"),
            ))
        };
        let failure = exceeds("bytes of spills", build.spill_bytes, family.limits.spill_bytes)
            .or_else(|| exceeds("registers", build.registers, family.limits.registers))
            .or_else(|| {
                let limit = family.limits.serialised_wgmma;
                exceeds("reasons to serialise wgmma", build.serialised_wgmma, limit)
            });
        if let Some(failure) = failure {
            return Err(failure);
        }
        Ok(Compiled {
            identity: format!("{} {geometry:?}", build.code_hash),
            code_hash: build.code_hash,
            build: hash,
            registers: build.registers,
            shared_bytes: build.shared_bytes,
        })
    }

    /// Checks and times a compiled setting on every problem, beside the baseline. `known` are the baseline's modelled
    /// times: the model is deterministic, so the baseline is modelled only once.
    pub fn time(
        &self,
        setting: &Setting<'_>,
        known: Option<&[ProblemTime]>,
    ) -> Result<Result<Vec<ProblemTime>, Rejection>, EvolveError> {
        let is_virtual = matches!(self.plan.device, Device::Virtual { .. });
        let candidate = setting.subject();
        let baseline = Subject {
            name: BASELINE.to_owned(),
            kind: SubjectKind::Kernel {
                family: self.plan.family,
                preset: self.plan.baseline.clone(),
                knobs: self.plan.baseline_knobs.clone(),
            },
            is_baseline: true,
            is_candidate: false,
            // The baseline was checked as trial 0.
            check: SubjectCheck::DoneBefore,
        };
        let subjects = if is_virtual { vec![candidate] } else { vec![baseline, candidate] };
        let plan = bench::BenchPlan {
            device: self.plan.device.clone(),
            subjects,
            problems: self.plan.problems.clone(),
            // A search times hundreds of candidates and keeps gains of 3% or more. That is above the measured variation
            // between processes of one kernel, so one process is enough. `bench` measures the result in several.
            processes: 1,
            class: None,
            timers: vec![self.plan.timer],
            stopping: self.plan.stopping,
            warmup: self.plan.warmup,
            ceilings: false,
            limits: self.plan.limits,
            seed: self.plan.seed,
            secret: self.plan.secret,
            targets: Vec::new(),
            errors: false,
        };
        let run = Run::in_memory(self.folder);
        let start = &self.commands_for(setting);
        let session = Session {
            op: self.op,
            compiler: self.compiler,
            start,
            run: &run,
            stop: self.stop,
            tell: &|_| (),
        };
        match bench::run_with(&session, &plan, &self.answers) {
            Ok(()) => {}
            Err(StageError::Stopped) => return Err(EvolveError::Stopped),
            Err(error) => return Err(EvolveError::Bench(error)),
        }
        let state = run.state();
        if let Some(failure) = state.failures.iter().find(|failure| failure.of.subject == setting.name) {
            let (stage, failure, reason) = (failure.stage, failure.kind, failure.reason.clone());
            return Ok(Err(Rejection { stage, failure, reason }));
        }
        if let Some(failure) = state.failures.first() {
            return Err(EvolveError::Baseline {
                problem: failure.of.problem.clone(),
                reason: failure.reason.clone(),
            });
        }
        let times: Option<Vec<ProblemTime>> = self
            .plan
            .problems
            .iter()
            .map(|problem| {
                let problem = problem.to_string();
                if is_virtual {
                    modelled(&state, &problem, known)
                } else {
                    measured(&state, &problem, &setting.name)
                }
            })
            .collect();
        Ok(times.ok_or_else(|| Rejection {
            stage: Stage::Bench,
            failure: FailureKind::Other,
            reason: "the candidate was not timed on every problem".to_owned(),
        }))
    }

    /// The commands that start workers for this setting. A setting with an untrusted source gets an
    /// untrusted worker.
    pub fn commands_for<'s>(&'s self, setting: &'s Setting<'_>) -> WorkerCommands<'s> {
        let start = self.start;
        let kernel = move |name: &str| match setting.untrusted_folder {
            Some(folder) if name == setting.name => (start.untrusted)(name, folder, None),
            _ => (start.kernel)(name),
        };
        WorkerCommands {
            kernel: Box::new(kernel),
            untrusted: Box::new(|name, folder, chip| (start.untrusted)(name, folder, chip)),
            peer: Err("a search does not run peers".to_owned()),
        }
    }
}

fn modelled(state: &RunState, problem: &str, known: Option<&[ProblemTime]>) -> Option<ProblemTime> {
    let (_, modelled) = state.modelled.iter().find(|(of, _)| of.problem == problem)?;
    let time = Time::Modelled(modelled.time_us);
    // Without known times, this candidate is the baseline.
    let baseline = match known {
        None => time,
        Some(known) => known.iter().find(|known| known.problem == problem)?.time,
    };
    let speedup = baseline.micros() / time.micros();
    let limiter = modelled.limiter.clone();
    Some(ProblemTime { problem: problem.to_owned(), time, baseline, speedup, interval: None, limiter })
}

fn measured(state: &RunState, problem: &str, subject: &str) -> Option<ProblemTime> {
    let median = |subject: &str| {
        let of = |it: &&runlog::Measurement| it.of.problem == problem && it.of.subject == subject;
        state.measurements.iter().find(of)?.sampled.typical_us().ok().map(Time::Measured)
    };
    let verdict = state.verdicts.iter().find(|it| it.problem == problem && it.candidate == subject)?;
    let speedup = verdict.comparison.speedup;
    Some(ProblemTime {
        problem: problem.to_owned(),
        time: median(subject)?,
        baseline: median(BASELINE)?,
        speedup: speedup.ratio,
        interval: Some((speedup.interval.low, speedup.interval.high)),
        limiter: None,
    })
}

/// The knobs as a list of names and values.
pub fn pairs(knobs: &IndexMap<String, String>) -> Vec<(String, String)> {
    knobs.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}
