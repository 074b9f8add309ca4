//! `invert`: adds known pathologies to a kernel on purpose and measures what each costs.
//!
//! A family's manifest names its pathologies. Each one is an ordinary candidate: it is built, checked, and timed in
//! turns with the healthy kernel on a GPU ([`bench`](mod@crate::bench)), or counted on the virtual GPU
//! ([`profile`](mod@crate::profile)). The results are sorted by cost. The advice is the opposite of the pathology.

use gpu::device::Device;
use op::Op;
use runlog::record::{Diagnosis, Inversion, InversionResult, Profile};
use runlog::{Event, LogError, RunState, Time, Timer};
use stats::Stopping;

use crate::Session;
use crate::bench::{self, Subject, SubjectKind};
use crate::profile::ncu::Ncu;
use crate::profile::{self, ProfileError};
use crate::session::StageError;
use crate::worker::Limits;

/// The kernel, device, problems and limits of an inversion.
#[derive(Clone, Debug)]
pub struct InvertPlan<'f, P> {
    /// The device to measure on; on a virtual GPU, times are modelled.
    pub device: Device,
    /// The kernel without pathologies. Its family must declare some.
    pub healthy: Subject<'f>,
    /// The problems on which every pathology is tried.
    pub problems: Vec<P>,
    /// When to stop sampling, for each problem.
    pub stopping: Stopping,
    /// Launches before timing starts.
    pub warmup: u32,
    /// Time and memory limits of the worker processes.
    pub limits: Limits,
    /// Seed of the statistics.
    pub seed: u64,
    /// Seed of the inputs.
    pub secret: u64,
    /// Count problems on the virtual GPU at full size, however long that takes.
    pub full_size: bool,
}

/// Why an inversion ended early.
#[derive(Debug, thiserror::Error)]
pub enum InvertError {
    /// The bench of the kernels ended early.
    #[error(transparent)]
    Bench(#[from] StageError),
    /// Profiling of the kernels ended early.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The run's log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl InvertError {
    /// Whether the run was told to stop. Everything that finished is in its log.
    pub fn is_stop(&self) -> bool {
        matches!(
            self,
            InvertError::Bench(StageError::Stopped)
                | InvertError::Profile(ProfileError::Stage(StageError::Stopped))
        )
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

/// Tries every pathology of the healthy kernel's family on every problem. Records what each costs, the most expensive
/// first.
pub fn run<O: Op + ?Sized>(
    session: &Session<'_, O>,
    plan: &InvertPlan<'_, O::Problem>,
) -> Result<(), InvertError> {
    let run = session.run;
    let SubjectKind::Kernel { family, preset, knobs } = &plan.healthy.kind else { return Ok(()) };
    let pathological: Vec<PathologicalKernel<'_>> = family
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
                let subjects = std::iter::once(&plan.healthy)
                    .chain(pathological.iter().map(|pathological| &pathological.subject));
                subjects.map(|subject| (subject.clone(), problem.clone()))
            })
            .collect(),
        limits: plan.limits,
        secret: plan.secret,
        full_size: plan.full_size,
        try_levers: false,
    };
    let is_virtual = matches!(plan.device, Device::Virtual { .. });
    if !is_virtual {
        let healthy = Subject { is_baseline: true, is_candidate: false, ..plan.healthy.clone() };
        let mut subjects = vec![healthy];
        subjects.extend(pathological.iter().map(|pathological| pathological.subject.clone()));
        let times = bench::BenchPlan {
            device: plan.device.clone(),
            subjects,
            problems: plan.problems.clone(),
            // Two processes are enough: most pathologies cost far more than processes differ by.
            processes: 2,
            class: None,
            timers: vec![Timer::GraphHot],
            stopping: plan.stopping,
            warmup: plan.warmup,
            limits: plan.limits,
            seed: plan.seed,
            secret: plan.secret,
            targets: Vec::new(),
            errors: false,
            ceilings: true,
        };
        bench::run(session, &times)?;
    }
    // On a GPU, profiles only explain the costs. If no profiler is available, the costs are recorded without them.
    match if is_virtual { Ok(()) } else { Ncu::find().map(|_| ()) } {
        Ok(()) => profile::run(session, &profiles)?,
        Err(error) => run.record(&Event::Note { text: format!("no profiles: {error}") })?,
    }
    let state = run.state();
    for problem in &plan.problems {
        let mut found: Vec<Inversion> = pathological
            .iter()
            .map(|pathological| inversion(&state, &problem.to_string(), &plan.healthy, pathological))
            .collect();
        found.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        for inversion in found {
            run.record(&Event::Inverted { inversion })?;
        }
    }
    Ok(())
}

/// The sort key: failed pathologies come last.
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
    pathological: &PathologicalKernel<'_>,
) -> Inversion {
    let knobs: Vec<String> =
        setting(pathological.pathology).iter().map(|(knob, value)| format!("{knob}={value}")).collect();
    Inversion {
        problem: problem.to_owned(),
        healthy: healthy.name.clone(),
        pathology: pathological.pathology.name.replace('-', " "),
        setting: knobs.join(" "),
        result: result(state, problem, &healthy.name, &pathological.subject.name),
        advice: pathological.pathology.advice.clone(),
    }
}

fn result(state: &RunState, problem: &str, healthy: &str, pathological: &str) -> InversionResult {
    let profile = |name: &str| {
        let of = state.profiles.iter().find(|(of, _)| of.problem == problem && of.subject == name);
        of.map(|(_, profile)| profile)
    };
    let failed = |name: &str| {
        let found = state.failures.iter().rev().find(|it| it.of.problem == problem && it.of.subject == name);
        found.map(|failure| format!("{name}: {}: {}", failure.kind, failure.reason))
    };
    let verdict =
        state.verdicts.iter().rev().find(|it| it.problem == problem && it.candidate == pathological);
    // Modelled times are used only if nothing was measured.
    let times = measured(state, problem, pathological).zip(measured(state, problem, healthy)).or_else(|| {
        let modelled =
            |name: &str| profile(name).and_then(|it| it.metrics.time).filter(|it| it.is_modelled());
        modelled(pathological).zip(modelled(healthy))
    });
    let Some((time, healthy_time)) = times else {
        let reason = failed(pathological)
            .or_else(|| failed(healthy))
            .unwrap_or_else(|| "no time was recorded".to_owned());
        return InversionResult::Failed { reason };
    };
    let mut evidence = Vec::new();
    if let Some(verdict) = verdict {
        let interval = verdict.comparison.speedup.interval;
        let (low, high) = (1.0 / interval.high, 1.0 / interval.low);
        evidence.push(format!("{} ({low:.2} - {high:.2})", verdict.comparison.verdict));
    }
    if let Some(added) = profile(pathological).and_then(|with| added_diagnosis(with, profile(healthy))) {
        evidence.push(format!("{}: {}", added.rule, added.evidence));
    }
    let cost = match verdict {
        Some(verdict) => 1.0 / verdict.comparison.speedup.ratio,
        None => time.micros() / healthy_time.micros(),
    };
    InversionResult::Timed { time, healthy: healthy_time, cost, evidence: evidence.join("; ") }
}

/// The diagnosis whose weight the pathology increases most. A diagnosis that the healthy kernel has with the same
/// weight, such as idle multiprocessors on a small problem, is not caused by the pathology.
fn added_diagnosis<'p>(with: &'p Profile, healthy: Option<&Profile>) -> Option<&'p Diagnosis> {
    /// Smaller increases say nothing about the cause.
    const LEAST: f64 = 0.01;
    let before = |rule: &str| {
        let same = healthy.and_then(|profile| profile.diagnoses.iter().find(|it| it.rule == rule));
        same.map_or(0.0, |it| it.weight)
    };
    let increases = with.diagnoses.iter().map(|it| (it, it.weight - before(&it.rule)));
    increases.filter(|(_, by)| *by >= LEAST).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(it, _)| it)
}

/// The time in the last session.
fn measured(state: &RunState, problem: &str, subject: &str) -> Option<Time> {
    let found =
        state.measurements.iter().rev().find(|it| it.of.problem == problem && it.of.subject == subject)?;
    found.sampled.typical_us().ok().map(Time::Measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(diagnoses: &[(&str, f64)]) -> Profile {
        let diagnosis = |&(rule, weight): &(&str, f64)| Diagnosis {
            rule: rule.to_owned(),
            weight,
            evidence: String::new(),
            levers: Vec::new(),
        };
        let diagnoses = diagnoses.iter().map(diagnosis).collect();
        let metrics = runlog::record::Metrics::default();
        Profile {
            source: String::new(),
            notes: vec![],
            metrics,
            roofline: None,
            diagnoses,
            hot_lines: vec![],
            listing: vec![],
        }
    }

    #[test]
    fn evidence_is_what_the_pathology_adds() {
        let healthy = profile(&[("idle multiprocessors", 0.9), ("bank conflicts", 0.05)]);
        let with = profile(&[("idle multiprocessors", 0.9), ("bank conflicts", 0.3), ("spilling", 0.1)]);
        let rule = |with, healthy| added_diagnosis(with, healthy).map(|it: &Diagnosis| it.rule.as_str());
        assert_eq!(rule(&with, Some(&healthy)), Some("bank conflicts"));
        assert_eq!(rule(&healthy, Some(&healthy)), None);
        assert_eq!(rule(&healthy, None), Some("idle multiprocessors"));
    }
}
