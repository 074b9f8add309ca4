//! `invert`: known pathologies put in on purpose, and what each costs.
//!
//! The pathologies are the family's own, named in its manifest. Each is a candidate like any other: built, checked,
//! and timed in turns with the healthy kernel on a GPU ([`bench`](mod@crate::bench)), or counted on the virtual one
//! ([`profile`](mod@crate::profile)). What comes out is ranked by cost; the opposite is the advice.

use std::sync::atomic::AtomicBool;

use gpu::build::Compiler;
use gpu::device::Device;
use op::Op;
use serde::{Deserialize, Serialize};

use crate::bench::{self, BenchError, Subject, SubjectKind, WorkerCommands};
use crate::profile::ncu::Ncu;
use crate::profile::{self, ProfileError};
use crate::run::{Event, LogError, Run, RunState, Time, Timer};
use crate::stats::Stopping;
use crate::worker::Limits;

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

/// What is to be inverted.
#[derive(Clone, Debug)]
pub struct InvertPlan<'f, P> {
    pub device: Device,
    /// A kernel of a family that has pathologies.
    pub healthy: Subject<'f>,
    pub problems: Vec<P>,
    pub stopping: Stopping,
    pub warmup: u32,
    pub limits: Limits,
    pub seed: u64,
    /// What inputs are drawn from.
    pub secret: u64,
    pub full_size: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum InvertError {
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl InvertError {
    /// Whether the run was told to stop; what is finished is in its log.
    pub fn is_stop(&self) -> bool {
        matches!(self, InvertError::Bench(BenchError::Stopped) | InvertError::Profile(ProfileError::Stopped))
    }
}

/// A kernel with one of its family's pathologies.
struct PathologicalKernel<'f> {
    subject: Subject<'f>,
    pathology: &'f family::Pathology,
}

fn setting(pathology: &family::Pathology) -> Vec<(String, String)> {
    pathology.knobs.iter().map(|(knob, value)| (knob.clone(), value.to_string())).collect()
}

/// Tries every pathology of the healthy kernel's family on every problem, and writes down what each costs, the dearest
/// first.
pub fn run<O: Op>(
    op: &O,
    plan: &InvertPlan<'_, O::Problem>,
    compiler: &Compiler,
    start: &WorkerCommands<'_>,
    run: &Run,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
) -> Result<(), InvertError> {
    let SubjectKind::Kernel { family, preset, knobs } = &plan.healthy.kind else { return Ok(()) };
    let sick: Vec<PathologicalKernel<'_>> = family
        .pathologies
        .iter()
        .map(|pathology| {
            let knobs = [knobs.clone(), setting(pathology)].concat();
            PathologicalKernel { subject: Subject::kernel(family, preset.clone(), knobs), pathology }
        })
        .collect();
    let profiles = profile::ProfilePlan {
        device: plan.device.clone(),
        subjects: plan
            .problems
            .iter()
            .flat_map(|problem| {
                let subjects = std::iter::once(&plan.healthy).chain(sick.iter().map(|sick| &sick.subject));
                subjects.map(|subject| (subject.clone(), problem.clone()))
            })
            .collect(),
        limits: plan.limits,
        secret: plan.secret,
        full_size: plan.full_size,
    };
    let is_virtual = matches!(plan.device, Device::Virtual { .. });
    if !is_virtual {
        let healthy = Subject { is_baseline: true, is_candidate: false, ..plan.healthy.clone() };
        let mut subjects = vec![healthy];
        subjects.extend(sick.iter().map(|sick| sick.subject.clone()));
        let times = bench::BenchPlan {
            device: plan.device.clone(),
            subjects,
            problems: plan.problems.clone(),
            // As few as tell a pathology that costs something from what processes differ by anyway: most cost far more.
            processes: 2,
            timers: vec![Timer::GraphHot],
            stopping: plan.stopping,
            warmup: plan.warmup,
            limits: plan.limits,
            seed: plan.seed,
            secret: plan.secret,
            targets: Vec::new(),
            ceilings: true,
        };
        bench::run(op, &times, compiler, start, run, stop, tell)?;
    }
    // On a GPU profiles only say why; where there can be none the costs stand by themselves.
    match if is_virtual { Ok(()) } else { Ncu::find().map(|_| ()) } {
        Ok(()) => profile::run(op, &profiles, compiler, start, run, stop, tell)?,
        Err(error) => run.record(&Event::Note { text: format!("no profiles: {error}") })?,
    }
    let state = run.state();
    for problem in &plan.problems {
        let mut found: Vec<Inversion> =
            sick.iter().map(|sick| inversion(&state, &problem.to_string(), &plan.healthy, sick)).collect();
        found.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        for inversion in found {
            run.record(&Event::Inverted { inversion })?;
        }
    }
    Ok(())
}

/// For ranking: what failed comes last.
fn cost(inversion: &Inversion) -> f64 {
    match &inversion.result {
        InversionResult::Timed { cost, .. } => *cost,
        InversionResult::Failed { .. } => 0.0,
    }
}

fn inversion(
    state: &RunState,
    problem: &str,
    healthy: &Subject<'_>,
    sick: &PathologicalKernel<'_>,
) -> Inversion {
    let knobs: Vec<String> =
        setting(sick.pathology).iter().map(|(knob, value)| format!("{knob}={value}")).collect();
    Inversion {
        problem: problem.to_owned(),
        healthy: healthy.name.clone(),
        pathology: sick.pathology.name.replace('-', " "),
        setting: knobs.join(" "),
        result: result(state, problem, &healthy.name, &sick.subject.name),
        advice: sick.pathology.advice.clone(),
    }
}

fn result(state: &RunState, problem: &str, healthy: &str, sick: &str) -> InversionResult {
    let profile = |name: &str| {
        let of = state.profiles.iter().find(|(of, _)| of.problem == problem && of.subject == name);
        of.map(|(_, profile)| profile)
    };
    let failed = |name: &str| {
        let found = state.failures.iter().rev().find(|it| it.of.problem == problem && it.of.subject == name);
        found.map(|failure| format!("{name}: {}: {}", failure.kind, failure.reason))
    };
    let verdict = state.verdicts.iter().rev().find(|it| it.problem == problem && it.candidate == sick);
    // Modelled times only where nothing was measured.
    let times = measured(state, problem, sick).zip(measured(state, problem, healthy)).or_else(|| {
        let modelled =
            |name: &str| profile(name).and_then(|it| it.metrics.time).filter(|it| it.is_modelled());
        modelled(sick).zip(modelled(healthy))
    });
    let Some((time, well)) = times else {
        let reason = failed(sick).or_else(|| failed(healthy)).unwrap_or_else(|| "it has no time".to_owned());
        return InversionResult::Failed { reason };
    };
    let mut evidence = Vec::new();
    if let Some(verdict) = verdict {
        let interval = verdict.comparison.speedup.interval;
        let (low, high) = (1.0 / interval.high, 1.0 / interval.low);
        evidence.push(format!("{} ({low:.2} - {high:.2})", verdict.comparison.verdict));
    }
    if let Some(first) = profile(sick).and_then(|profile| profile.diagnoses.first()) {
        evidence.push(format!("{}: {}", first.rule, first.evidence));
    }
    let cost = match verdict {
        Some(verdict) => 1.0 / verdict.comparison.speedup.ratio,
        None => time.micros() / well.micros(),
    };
    InversionResult::Timed { time, healthy: well, cost, evidence: evidence.join("; ") }
}

/// The time in the last session.
fn measured(state: &RunState, problem: &str, subject: &str) -> Option<Time> {
    let found =
        state.measurements.iter().rev().find(|it| it.of.problem == problem && it.of.subject == subject)?;
    found.sampled.typical_us().ok().map(Time::Measured)
}
