//! The plan of a check: kernels and cases.

use compiler::{Compiler, Request};
use family::tuned_table::is_tuned;
use family::{Candidate, Family};
use gpu::device::Device;
use indexmap::IndexMap;
use op::{Op, Refusal, dispatch};
use schemars::JsonSchema;
use serde::Serialize;

/// A kernel to check: a family with a preset, and knobs set on top of it.
#[derive(Clone, Debug)]
pub struct CheckSubject<'f> {
    /// The kernel's family.
    pub family: &'f Family,
    /// The preset, or `tuned`; `None` selects the family's defaults.
    pub preset: Option<String>,
    /// The knobs set on top of the preset, as names and values.
    pub knobs: Vec<(String, String)>,
}

/// How many launches a kernel must pass on one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Three launches: on the case's inputs, on inputs with the opposite signs, and on the first inputs again
    /// ([`op::TrialStep::USUAL`]).
    Usual,
    /// The usual launches, and one more for each input, in which only that input is redrawn. Each input must affect the
    /// answer.
    Full,
}

/// The inputs of one check.
#[derive(Clone, Debug)]
pub struct Case<P> {
    /// The problem to run.
    pub problem: P,
    /// The problems that were cut to this one; empty if it was not cut.
    pub cut_from: Vec<P>,
    /// The class of the input values.
    pub class: String,
    /// Seed of the inputs.
    pub seed: u64,
    /// How many launches a kernel must pass.
    pub depth: Depth,
    /// Steps of the search for the worst inputs, which replaces the launches on inputs of the class; 0 for none.
    pub search: u64,
}

/// Kernels that are checked on the same cases.
#[derive(Clone, Debug)]
pub struct CheckGroup<'f, P> {
    /// The kernels.
    pub subjects: Vec<CheckSubject<'f>>,
    /// The cases that every kernel of the group must pass.
    pub cases: Vec<Case<P>>,
}

/// The kernels, cases and device of a check.
#[derive(Clone, Debug)]
pub struct CheckPlan<'f, P> {
    /// The device that runs the kernels.
    pub device: Device,
    /// The kernels with their cases.
    pub groups: Vec<CheckGroup<'f, P>>,
}

impl<'f, P> CheckGroup<'f, P> {
    /// Returns the subjects that support the problem of a case on the device, with their candidates.
    pub(super) fn subjects_of<O: Op<Problem = P> + ?Sized>(
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
    /// Returns the compile requests of the plan without duplicates. Candidates for which no request can be made are
    /// left out.
    pub fn requests<O: Op<Problem = P> + ?Sized>(&self, op: &O, compiler: &Compiler) -> Vec<Request> {
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

    /// Counts the results of the plan, and the combinations that are refused.
    pub fn extent<O: Op<Problem = P> + ?Sized>(&self, op: &O) -> PlanSize {
        let mut plan_size = PlanSize::default();
        for group in &self.groups {
            for case in &group.cases {
                for subject in &group.subjects {
                    match subject.candidates(op, case, &self.device) {
                        Ok(candidates) => plan_size.verdicts += candidates.len(),
                        Err(refusal) => *plan_size.refusals.entry(refusal.message).or_default() += 1,
                    }
                }
            }
        }
        plan_size
    }
}

/// The number of results of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PlanSize {
    /// Number of results: one for each candidate on each of its cases.
    pub verdicts: usize,
    /// Combinations that are not run, counted by the reason.
    pub refusals: IndexMap<String, usize>,
}

impl PlanSize {
    /// Adds the results of another plan.
    pub fn add(&mut self, other: PlanSize) {
        self.verdicts += other.verdicts;
        for (reason, count) in other.refusals {
            *self.refusals.entry(reason).or_default() += count;
        }
    }
}

impl CheckSubject<'_> {
    /// Returns the candidate for a problem on a device. Refused if the family or the device does not support it.
    pub fn candidate<O: Op + ?Sized>(
        &self,
        op: &O,
        problem: &O::Problem,
        device: &Device,
    ) -> Result<Candidate, Refusal> {
        op.check_is_not_reference(self.family)?;
        // Before the setting: no other setting of the family would run on this device.
        self.family.check_has_target(device.target())?;
        let (preset, knobs) = (self.preset.as_deref(), &self.knobs);
        let candidate = dispatch::candidate(op, self.family, preset, knobs, (problem, device))?;
        self.family.check_target(&candidate, device.target())?;
        Ok(candidate)
    }

    /// Returns the candidates for a case. This is one candidate, except for tuned settings of a cut problem: these are
    /// the settings of all problems that the case represents, because those settings will be used.
    fn candidates<O: Op + ?Sized>(
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

/// Cuts problems to at most `flops` operations. Problems that become equal are listed once, with their originals.
pub fn cut_to_size<O: Op + ?Sized>(
    op: &O,
    problems: &[O::Problem],
    flops: f64,
) -> Vec<(O::Problem, Vec<O::Problem>)> {
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
