//! One candidate: compiled, and held against the baseline in worker processes.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use family::Family;
use gpu::build::Compiler;
use gpu::device::Device;
use indexmap::IndexMap;
use op::Op;

use super::EvolveError;
use super::plan::EvolvePlan;
use crate::bench::{self, AnswerCache, BenchError, Subject, SubjectKind, WorkerCommands};
use crate::run::{FailureKind, ProblemTime, Run, RunState, Stage, Time};
use crate::worker::{self, BuildReply};

/// The name of the setting everything is compared with.
const BASELINE: &str = "baseline";

/// A setting on its way through the stages.
#[derive(Clone, Debug)]
pub struct Setting<'f> {
    pub family: &'f Family,
    pub name: String,
    pub knobs: IndexMap<String, String>,
    /// Where the family is from, if its source is not the searched family's.
    pub own: Option<&'f Path>,
}

impl<'f> Setting<'f> {
    /// As what is measured and profiled.
    pub fn subject(&self) -> Subject<'f> {
        Subject {
            name: self.name.clone(),
            kind: SubjectKind::Kernel { family: self.family, preset: None, knobs: pairs(&self.knobs) },
            is_baseline: false,
            is_candidate: true,
            is_known: false,
        }
    }
}

/// What it compiled to, for all problems together.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Machine code and launch geometry: settings that share it are one candidate.
    pub identity: String,
    pub code_hash: String,
    /// The build for the first problem.
    pub build: String,
    pub registers: u32,
    pub shared_bytes: u64,
}

impl Compiled {
    /// For one problem more.
    pub fn and(self, next: &Compiled) -> Compiled {
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

/// It is out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub stage: Stage,
    pub failure: FailureKind,
    pub reason: String,
}

impl Rejection {
    pub fn new(stage: Stage, failure: worker::CandidateFailure) -> Self {
        Rejection { stage, failure: failure.kind, reason: failure.reason }
    }
}

pub struct Evaluator<'a, O: Op> {
    pub op: &'a O,
    pub plan: &'a EvolvePlan<'a, O::Problem>,
    pub compiler: &'a Compiler,
    pub start: &'a WorkerCommands<'a>,
    pub folder: &'a Path,
    /// The same inputs for every candidate.
    pub answers: AnswerCache<O>,
    pub stop: &'a AtomicBool,
}

impl<O: Op> Evaluator<'_, O> {
    /// Compiles a setting for every problem. Any thread may do this.
    pub fn compile(&self, setting: &Setting<'_>) -> Result<Compiled, Rejection> {
        let out = |failure| Rejection::new(Stage::Build, failure);
        let knobs = pairs(&setting.knobs);
        let family = setting.family;
        let mut compiled: Option<Compiled> = None;
        for problem in &self.plan.problems {
            let next = self.build(family, &knobs, problem).map_err(out)?;
            compiled = Some(match compiled {
                None => next,
                Some(before) => before.and(&next),
            });
        }
        compiled.ok_or_else(|| out(worker::CandidateFailure::other("there is no problem to compile it for")))
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
        let (hash, build) = (built.build.hash.clone(), worker::told(family, &candidate, &built)?);
        self.compiled(
            family,
            knobs,
            problem,
            BuildReply { hash, build, notes: Vec::new(), extra_tolerance: None },
        )
    }

    /// What a build is to the search, unless it takes more than the family allows.
    pub fn compiled(
        &self,
        family: &Family,
        knobs: &[(String, String)],
        problem: &O::Problem,
        BuildReply { hash, build, .. }: BuildReply,
    ) -> Result<Compiled, worker::CandidateFailure> {
        let candidate = self.op.candidate(family, None, knobs, problem)?;
        let launch = family.launch(&candidate, &self.op.sizes(problem))?;
        let over = |what: &str, found: u32, limit: Option<u32>| {
            let limit = limit.filter(|limit| found > *limit)?;
            Some(worker::CandidateFailure::new(
                FailureKind::TooLarge,
                format!("{what} {found}, the family allows {limit}"),
            ))
        };
        let over = over("spills", build.spill_bytes, family.limits.spill_bytes)
            .or_else(|| over("registers", build.registers, family.limits.registers));
        if let Some(failure) = over {
            return Err(failure);
        }
        Ok(Compiled {
            identity: format!("{} {:?} {:?}", build.code_hash, launch.grid, launch.block),
            code_hash: build.code_hash,
            build: hash,
            registers: build.registers,
            shared_bytes: build.shared_bytes,
        })
    }

    /// Has a compiled setting checked and timed on every problem, next to the baseline. `known` are the baseline's
    /// modelled times: a model says the same every time, so it is asked once.
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
            // As trial 0 it was a candidate itself.
            is_known: true,
        };
        let subjects = if is_virtual { vec![candidate] } else { vec![baseline, candidate] };
        let plan = bench::BenchPlan {
            device: self.plan.device.clone(),
            subjects,
            problems: self.plan.problems.clone(),
            // A search tries hundreds, and keeps what gains 3% or more, which is above what processes of a kernel have
            // differed by: one each. What a search found is for `bench` to say, in several.
            processes: 1,
            timers: vec![self.plan.timer],
            stopping: self.plan.stopping,
            warmup: self.plan.warmup,
            ceilings: false,
            limits: self.plan.limits,
            seed: self.plan.seed,
            secret: self.plan.secret,
            targets: Vec::new(),
        };
        let run = Run::in_memory(self.folder);
        let start = &self.start_of(setting);
        match bench::run_with(self.op, &plan, self.compiler, start, &run, &self.answers, self.stop, &|_| ()) {
            Ok(()) => {}
            Err(BenchError::Stopped) => return Err(EvolveError::Stopped),
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
            reason: "it was not timed on every problem".to_owned(),
        }))
    }

    /// How the processes are started where one of them is for this setting.
    pub fn start_of<'s>(&'s self, setting: &'s Setting<'_>) -> WorkerCommands<'s> {
        let start = self.start;
        let kernel = move |name: &str| match setting.own {
            Some(folder) if name == setting.name => (start.untrusted)(name, folder, None),
            _ => (start.kernel)(name),
        };
        WorkerCommands {
            kernel: Box::new(kernel),
            untrusted: Box::new(|name, folder, chip| (start.untrusted)(name, folder, chip)),
            peer: Err("no peer takes part in a search".to_owned()),
        }
    }
}

fn modelled(state: &RunState, problem: &str, known: Option<&[ProblemTime]>) -> Option<ProblemTime> {
    let (_, modelled) = state.modelled.iter().find(|(of, _)| of.problem == problem)?;
    let time = Time::Modelled(modelled.time_us);
    // Without a baseline this is the baseline.
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
        let of = |it: &&crate::run::Measurement| it.of.problem == problem && it.of.subject == subject;
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

pub fn pairs(knobs: &IndexMap<String, String>) -> Vec<(String, String)> {
    knobs.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}
