//! `check`: whether kernels give the right answer, on any device.
//!
//! A [`CheckPlan`] is what to check: [`CheckSubject`]s (kernels) and [`Case`]s (inputs), in [`CheckGroup`]s. [`run`] takes every case to every
//! subject that supports it and returns a [`CaseResult`] for each, in a fixed order, whatever the number of threads.

mod one;
mod plan;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use family::Candidate;
use gpu::accelerator::Lease;
use gpu::build::{Compiler, Request};
use op::{CheckDevice, Op, Picture};
use rayon::prelude::*;
use serde::Serialize;

pub(crate) use one::notes;
pub use op::{Complaint, Judgement};
pub use plan::{Case, CheckGroup, CheckPlan, CheckSubject, Depth, PlanSize, cut_to_size};

/// A device to check on, made anew for every kernel: a fault on one leaves nothing behind for the next. Waits where
/// there are not enough for all.
pub type MakeDevice<'a> = dyn Fn(Lease) -> Result<Box<dyn CheckDevice>, String> + Sync + 'a;

/// Where and how cases run.
pub struct CheckEnvironment<'a> {
    pub compiler: &'a Compiler,
    pub device: &'a MakeDevice<'a>,
    /// Cases at a time.
    pub threads: usize,
    /// Set from outside to stop after the cases at hand. What was given up for it is no verdict.
    pub stop: &'a AtomicBool,
}

impl fmt::Debug for CheckEnvironment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bench({} at a time)", self.threads)
    }
}

impl CheckEnvironment<'_> {
    fn pool(&self) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> {
        rayon::ThreadPoolBuilder::new().num_threads(self.threads.max(1)).build()
    }
}

/// What came of one case on one kernel.
#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    pub family: String,
    /// The preset and what was set otherwise.
    pub kernel: String,
    /// The same as a command takes it. Of a tuned setting this is not `tuned`: what that stands for goes by the problem,
    /// which may have been cut, and by the table.
    pub preset: Option<String>,
    pub knobs: Vec<(String, String)>,
    pub problem: String,
    /// The problems this one was cut from, where it was.
    pub cut_from: Vec<String>,
    pub class: String,
    pub seed: u64,
    pub depth: Depth,
    /// Launches that were judged.
    pub launches: usize,
    #[serde(flatten)]
    pub outcome: CaseOutcome,
    /// What the virtual GPU found in any of the launches; notes are not among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<vgpu::Finding>,
    /// What a reader of the verdict should know: a tolerance the family asks for, a clock or an SM's number the kernel reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(skip)]
    pub picture: Option<Picture>,
    pub seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum CaseOutcome {
    /// Right in every respect.
    Passed { judgement: Judgement },
    /// Wrong: the complaints say how. The judgement is there if there was an answer to judge.
    Failed { complaints: Vec<Complaint>, judgement: Option<Judgement> },
    /// It could not be tried: it does not compile, or the device refuses it.
    Broken { reason: String },
}

impl CaseResult {
    pub fn passed(&self) -> bool {
        matches!(self.outcome, CaseOutcome::Passed { .. })
    }

    /// How far the answer was off, where there was one.
    pub fn judgement(&self) -> Option<&Judgement> {
        match &self.outcome {
            CaseOutcome::Passed { judgement } => Some(judgement),
            CaseOutcome::Failed { judgement, .. } => judgement.as_ref(),
            CaseOutcome::Broken { .. } => None,
        }
    }
}

/// Compiles what a plan needs, so that no two cases compile the same and none waits for a compiler while it has the
/// device. `done` is called after each. What does not compile is told by the cases that need it.
pub fn compile(
    requests: &[Request],
    bench: &CheckEnvironment<'_>,
    done: &(dyn Fn() + Sync),
) -> Result<(), rayon::ThreadPoolBuildError> {
    bench.pool()?.install(|| {
        requests.par_iter().with_max_len(1).for_each(|request| {
            if !bench.stop.load(Ordering::Relaxed) {
                let _ = bench.compiler.build(request);
            }
            done();
        });
    });
    Ok(())
}

/// Checks everything in the plan. `done` is called after each verdict, from several threads.
pub fn run<O: Op>(
    op: &O,
    plan: &CheckPlan<'_, O::Problem>,
    bench: &CheckEnvironment<'_>,
    done: &(dyn Fn(&CaseResult) + Sync),
) -> Result<Vec<CaseResult>, rayon::ThreadPoolBuildError> {
    let pool = bench.pool()?;
    let stopped = || bench.stop.load(Ordering::Relaxed);
    let per_case = |(group, case): (&CheckGroup<'_, O::Problem>, &Case<O::Problem>)| -> Vec<CaseResult> {
        let subjects = if stopped() { Vec::new() } else { group.subjects_of(op, case, &plan.device) };
        if subjects.is_empty() {
            return Vec::new();
        }
        let trial = one::CaseTrial::new(op, case, bench, plan.device.target());
        let verdict = |(subject, candidate): (&CheckSubject<'_>, Candidate)| {
            let verdict = (!stopped()).then(|| trial.check(subject, &candidate))?;
            if stopped() && matches!(verdict.outcome, CaseOutcome::Broken { .. }) {
                return None;
            }
            done(&verdict);
            Some(verdict)
        };
        subjects.into_par_iter().with_max_len(1).filter_map(verdict).collect()
    };
    let cases: Vec<_> =
        plan.groups.iter().flat_map(|group| group.cases.iter().map(move |case| (group, case))).collect();
    // The dearest first, so that no thread is left alone with one at the end; the order of the answer is the plan's.
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let cost = |index: usize| op.work(&cases[index].1.problem).flops;
    order.sort_by(|&a, &b| cost(b).total_cmp(&cost(a)));
    let mut verdicts: Vec<(usize, Vec<CaseResult>)> = pool.install(|| {
        order.into_par_iter().with_max_len(1).map(|index| (index, per_case(cases[index]))).collect()
    });
    verdicts.sort_by_key(|(index, _)| *index);
    Ok(verdicts.into_iter().flat_map(|(_, verdicts)| verdicts).collect())
}
