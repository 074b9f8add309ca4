//! `check`: checks that kernels give correct answers, on any device.
//!
//! A [`CheckPlan`] lists what to check: [`CheckSubject`]s (kernels) and [`Case`]s (inputs), in [`CheckGroup`]s. [`run`]
//! runs every case on every subject that supports it. It returns one [`CaseResult`] for each, in an order that does not
//! depend on the number of threads.

mod case;
mod cause;
mod hard;
mod plan;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use compiler::{Compiler, Diagnostic, Request};
use family::Candidate;
use gpu::accelerator::Lease;
use op::{CheckDevice, Op, Picture, Refusal};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use cause::FailureCounts;
pub use cause::{FailureGroup, SharedFinding, group_failures};
pub use hard::SearchRecord;
pub use op::{Complaint, Judgement};
pub use plan::{Case, CheckGroup, CheckPlan, CheckSubject, Depth, PlanSize, cut_to_size};

/// Opens a device for checks. Every kernel gets a new device, so a fault does not affect the next kernel. Blocks while
/// too few devices are free.
pub type MakeDevice<'a> = dyn Fn(Lease) -> Result<Box<dyn CheckDevice>, String> + Sync + 'a;

/// The compiler, devices and threads with which cases run.
pub struct CheckEnvironment<'a> {
    /// Compiles the kernels.
    pub compiler: &'a Compiler,
    /// Opens the device of one kernel.
    pub device: &'a MakeDevice<'a>,
    /// Number of cases that run at the same time.
    pub threads: usize,
    /// Called after each step of a search with the largest ratio of an error to its limit so far.
    pub searched: &'a (dyn Fn(f64) + Sync),
    /// What happens after failures.
    pub failures: FailurePolicy,
    /// Set by the caller to stop after the cases in progress. A case that was aborted for this reason has no result.
    pub stop: &'a AtomicBool,
}

/// What happens after failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailurePolicy {
    /// The number of failures of one kernel with the same cause after which its other cases are not run; `None` for no
    /// limit.
    pub most: Option<usize>,
    /// Whether a case that exceeds a limit by little is repeated on other inputs. For inputs from a secret seed, which
    /// are others in every check.
    pub draw_again: bool,
}

impl fmt::Debug for CheckEnvironment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckEnvironment({} threads)", self.threads)
    }
}

impl CheckEnvironment<'_> {
    fn pool(&self) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> {
        rayon::ThreadPoolBuilder::new().num_threads(self.threads.max(1)).build()
    }
}

/// The result of one case on one kernel.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CaseResult {
    /// The family's name.
    pub family: String,
    /// The preset and the knobs that differ from it.
    pub kernel: String,
    /// The same in the form of command-line options. For a tuned setting this is not `tuned`, because the meaning of
    /// `tuned` depends on the table and on the problem, which may have been cut.
    pub preset: Option<String>,
    /// The knobs that differ from the preset, as names and values.
    pub knobs: Vec<(String, String)>,
    /// The name of the problem that was run.
    pub problem: String,
    /// The problems that were cut to this one; empty if it was not cut.
    pub cut_from: Vec<String>,
    /// The class of the input values.
    pub class: String,
    /// Seed of the inputs.
    pub seed: u64,
    /// How many launches the kernel had to pass.
    pub depth: Depth,
    /// Number of launches that were judged.
    pub launches: usize,
    /// Whether the kernel passed, and why not.
    #[serde(flatten)]
    pub outcome: CaseOutcome,
    /// Findings of the virtual GPU in any of the launches, without notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<vgpu::Finding>,
    /// Remarks for the reader of the result: an extra tolerance, or a kernel that reads a clock or an SM number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The search that found these inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SearchRecord")]
    pub search: Option<SearchRecord>,
    /// A picture of the wrong elements, if the answer is wrong and the op can draw one.
    #[serde(skip)]
    pub picture: Option<Picture>,
    /// Duration of the check in seconds.
    pub seconds: f64,
}

/// Whether a kernel passed a case.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum CaseOutcome {
    /// The kernel is correct.
    Passed {
        /// How far the answer is from the reference.
        judgement: Judgement,
    },
    /// The kernel is wrong; the complaints say how. `judgement` is `None` if there was no answer to judge.
    Failed {
        /// The defects of the answer or of the launches.
        complaints: Vec<Complaint>,
        /// How far the answer is from the reference.
        judgement: Option<Judgement>,
    },
    /// The kernel could not be tried: it does not compile, or the device refuses it.
    Broken {
        /// Why the kernel could not be tried.
        reason: String,
        /// The compiler's errors, if the kernel does not compile.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        diagnostics: Vec<Diagnostic>,
    },
}

impl CaseResult {
    /// Whether the kernel passed.
    pub fn passed(&self) -> bool {
        matches!(self.outcome, CaseOutcome::Passed { .. })
    }

    /// How far the answer is from the reference, if there was an answer.
    pub fn judgement(&self) -> Option<&Judgement> {
        match &self.outcome {
            CaseOutcome::Passed { judgement } => Some(judgement),
            CaseOutcome::Failed { judgement, .. } => judgement.as_ref(),
            CaseOutcome::Broken { .. } => None,
        }
    }
}

/// Compiles everything that a plan needs. Afterwards no two cases compile the same kernel, and no case holds a device
/// while it compiles. `done` is called after each build. The cases that need a failed build report its error.
pub fn compile(
    requests: &[Request],
    environment: &CheckEnvironment<'_>,
    done: &(dyn Fn() + Sync),
) -> Result<(), rayon::ThreadPoolBuildError> {
    environment.pool()?.install(|| {
        requests.par_iter().with_max_len(1).for_each(|request| {
            if !environment.stop.load(Ordering::Relaxed) {
                let _ = environment.compiler.build(request);
            }
            done();
        });
    });
    Ok(())
}

/// Why a check ended without results.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The threads cannot be started.
    #[error(transparent)]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// The op has no inputs or no reference for a case, which is no fault of the kernels.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Checks everything in the plan, except the rest of the cases of a kernel that has failed often enough
/// ([`FailurePolicy`]). `done` is called after each result, from several threads.
pub fn run<O: Op + ?Sized>(
    op: &O,
    plan: &CheckPlan<'_, O::Problem>,
    environment: &CheckEnvironment<'_>,
    done: &(dyn Fn(&CaseResult) + Sync),
) -> Result<Vec<CaseResult>, CheckError> {
    let pool = environment.pool()?;
    let refused: OnceLock<Refusal> = OnceLock::new();
    let stopped = || environment.stop.load(Ordering::Relaxed) || refused.get().is_some();
    // The kernels that did not end, each with a problem.
    let endless: Mutex<HashMap<String, String>> = Mutex::default();
    // The kernels that have failed often enough.
    let failed: Mutex<(FailureCounts, HashSet<String>)> = Mutex::default();
    let has_failed = |label: &String| failed.lock().is_ok_and(|failed| failed.1.contains(label));
    let per_case = |(group, case): (&CheckGroup<'_, O::Problem>, &Case<O::Problem>)| -> Vec<CaseResult> {
        let subjects = if stopped() { Vec::new() } else { group.subjects_of(op, case, &plan.device) };
        if subjects.is_empty() {
            return Vec::new();
        }
        let trial = case::CaseTrial::new(op, case, environment, plan.device.target());
        let check = |(subject, candidate): (&CheckSubject<'_>, Candidate)| {
            let label = format!("{} {}", subject.family.full_name(), candidate.label(subject.family));
            if has_failed(&label) {
                return None;
            }
            let known = endless.lock().ok().and_then(|endless| endless.get(&label).cloned());
            let result = (!stopped()).then(|| trial.check(subject, &candidate, known))?;
            if result.findings.iter().any(|finding| finding.kind == vgpu::Kind::Runaway)
                && let Ok(mut endless) = endless.lock()
            {
                endless.entry(label.clone()).or_insert_with(|| result.problem.clone());
            }
            if !result.passed()
                && let Ok(mut failed) = failed.lock()
                && environment.failures.most.is_some_and(|most| failed.0.add(&result) >= most)
            {
                failed.1.insert(label);
            }
            if !environment.stop.load(Ordering::Relaxed)
                && let Some(refusal) = trial.refusal()
            {
                refused.get_or_init(|| refusal.clone());
            }
            if stopped() && matches!(result.outcome, CaseOutcome::Broken { .. }) {
                return None;
            }
            done(&result);
            Some(result)
        };
        subjects.into_par_iter().with_max_len(1).filter_map(check).collect()
    };
    let cases: Vec<_> =
        plan.groups.iter().flat_map(|group| group.cases.iter().map(move |case| (group, case))).collect();
    // The most expensive cases run first, so that no thread is still busy with one at the end. The results are sorted
    // into the order of the plan afterwards.
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let cost = |index: usize| op.work(&cases[index].1.problem).flops;
    order.sort_by(|&a, &b| cost(b).total_cmp(&cost(a)));
    let mut results: Vec<(usize, Vec<CaseResult>)> = pool.install(|| {
        order.into_par_iter().with_max_len(1).map(|index| (index, per_case(cases[index]))).collect()
    });
    if let Some(refusal) = refused.into_inner() {
        return Err(refusal.into());
    }
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().flat_map(|(_, results)| results).collect())
}
