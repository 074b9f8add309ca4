//! What to check: kernels and cases.

use family::tuned::is_tuned;
use family::{Candidate, Family};
use gpu::build::{Compiler, Request};
use gpu::device::Device;
use indexmap::IndexMap;
use op::{Op, Refusal, tuned};
use serde::Serialize;

/// A kernel to check: a family with a preset, and knobs set on top of it.
#[derive(Clone, Debug)]
pub struct CheckSubject<'f> {
    pub family: &'f Family,
    pub preset: Option<String>,
    pub knobs: Vec<(String, String)>,
}

/// How much is asked of a kernel on one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Three launches: on the case's inputs, on their opposite, and on the first ones again ([`op::Step::USUAL`]).
    Usual,
    /// And each input makes a difference: one more launch for each of them, on inputs that differ in that one alone.
    Full,
}

/// Inputs to check on.
#[derive(Clone, Debug)]
pub struct Case<P> {
    pub problem: P,
    /// What it was cut from; empty where it is whole.
    pub cut_from: Vec<P>,
    pub class: String,
    pub seed: u64,
    pub depth: Depth,
}

/// Kernels that are all checked on the same cases.
#[derive(Clone, Debug)]
pub struct CheckGroup<'f, P> {
    pub subjects: Vec<CheckSubject<'f>>,
    pub cases: Vec<Case<P>>,
}

#[derive(Clone, Debug)]
pub struct CheckPlan<'f, P> {
    pub device: Device,
    pub groups: Vec<CheckGroup<'f, P>>,
}

impl<'f, P> CheckGroup<'f, P> {
    /// The subjects that support a case's problem on the device.
    pub(super) fn subjects_of<O: Op<Problem = P>>(
        &self,
        op: &O,
        case: &Case<P>,
        device: &Device,
    ) -> Vec<(&CheckSubject<'f>, Candidate)> {
        let of = |subject: &'_ CheckSubject<'f>| subject.candidates(op, case, device).unwrap_or_default();
        self.subjects
            .iter()
            .flat_map(|subject| of(subject).into_iter().map(move |candidate| (subject, candidate)))
            .collect()
    }
}

impl<P> CheckPlan<'_, P> {
    /// What has to be compiled for it, each once, where there is a request to be made of it at all.
    pub fn requests<O: Op<Problem = P>>(&self, op: &O, compiler: &Compiler) -> Vec<Request> {
        let mut requests = IndexMap::new();
        for group in &self.groups {
            for case in &group.cases {
                for (subject, candidate) in group.subjects_of(op, case, &self.device) {
                    if let Ok(request) = subject.family.request(&candidate, self.device.target()) {
                        requests.entry(compiler.hash(&request)).or_insert(request);
                    }
                }
            }
        }
        requests.into_values().collect()
    }

    /// How many verdicts there will be, and why there are not more.
    pub fn extent<O: Op<Problem = P>>(&self, op: &O) -> PlanSize {
        let mut extent = PlanSize::default();
        for group in &self.groups {
            for case in &group.cases {
                for subject in &group.subjects {
                    match subject.candidates(op, case, &self.device) {
                        Ok(candidates) => extent.verdicts += candidates.len(),
                        Err(refusal) => *extent.refusals.entry(refusal.message).or_default() += 1,
                    }
                }
            }
        }
        extent
    }
}

/// How far a plan goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlanSize {
    pub verdicts: usize,
    /// Combinations that are not run, counted by what stands against them.
    pub refusals: IndexMap<String, usize>,
}

impl CheckSubject<'_> {
    /// What is launched for a problem on a device; refused where the family, or the device, cannot.
    pub fn candidate<O: Op>(
        &self,
        op: &O,
        problem: &O::Problem,
        device: &Device,
    ) -> Result<Candidate, Refusal> {
        let (preset, knobs) = (self.preset.as_deref(), &self.knobs);
        let candidate = tuned::candidate(op, self.family, preset, knobs, (problem, device))?;
        self.family.check_target(&candidate, device.target())?;
        Ok(candidate)
    }

    /// What is launched for a case: one candidate, but of tuned settings those of all the problems the case stands for,
    /// which are what will be used.
    fn candidates<O: Op>(
        &self,
        op: &O,
        case: &Case<O::Problem>,
        device: &Device,
    ) -> Result<Vec<Candidate>, Refusal> {
        if case.cut_from.is_empty() || !self.preset.as_deref().is_some_and(is_tuned) {
            return Ok(vec![self.candidate(op, &case.problem, device)?]);
        }
        let mut candidates: Vec<Candidate> = Vec::new();
        for whole in &case.cut_from {
            let whole = self.candidate(op, whole, device)?;
            let (preset, knobs) = (whole.preset.as_deref(), whole.changes(self.family));
            let part = op.candidate(self.family, preset, &knobs, &case.problem)?;
            if !candidates.iter().any(|known| known.knobs == part.knobs) {
                candidates.push(part);
            }
        }
        Ok(candidates)
    }
}

/// Problems made small enough, those that become the same listed once with all they stand for.
pub fn cut_to_size<O: Op>(op: &O, problems: &[O::Problem], flops: f64) -> Vec<(O::Problem, Vec<O::Problem>)> {
    let mut list: Vec<(O::Problem, Vec<O::Problem>)> = Vec::new();
    for problem in problems {
        let cut = op.cut(problem, flops);
        let original = (cut != *problem).then(|| problem.clone());
        match list.iter_mut().find(|(known, _)| *known == cut) {
            Some((_, from)) => from.extend(original.filter(|problem| !from.contains(problem))),
            None => list.push((cut, original.into_iter().collect())),
        }
    }
    list
}
