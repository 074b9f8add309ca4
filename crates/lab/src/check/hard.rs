//! The search of `check --hard`: looks for the inputs on which a kernel is nearest to a limit, or beyond it.
//!
//! It is hill climbing. The search first tries inputs of every class and keeps those of the hard classes. It then changes
//! them in turns ([`op::OpInputs::mutated`]); a changed input replaces its parent if the kernel is at least as near to a
//! limit on it. Every step is one launch that is judged in full. All numbers come from the seed of the case, and a
//! shorter search makes the same steps, so the worst inputs can be found again.

use std::sync::atomic::Ordering;

use family::Candidate;
use gpu::accelerator::Lease;
use op::{Addresses, CheckDevice, ExtraTolerance, Kernel, Op, TrialStep, derive_seed};
use schemars::JsonSchema;
use serde::Serialize;

use super::case::{Broken, CaseAnswer, CaseTrial};
use super::plan::CheckSubject;
use crate::trial::{self, JudgedTrial, TrialLaunch};

/// Purpose numbers of the seeds that are derived from the seed of a case.
const STEPS: u64 = 1 << 20;
const LAUNCHES: u64 = 2 << 20;
const ROWS: u64 = 3 << 20;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SearchRecord {
    /// Number of inputs that were tried.
    pub steps: u64,
    /// The step that found the worst inputs, counted from 1.
    pub worst_step: u64,
    /// The class of the inputs that the worst ones were made from.
    pub class: String,
    /// Seed of those inputs.
    pub class_seed: u64,
    /// Seeds of the changes that made the worst inputs, in order.
    pub changes: Vec<u64>,
    /// Largest ratio of an error to its limit on the worst inputs; `None` if there is no finite answer.
    pub share: Option<f64>,
}

/// Inputs with their origin, and how near the kernel is to a limit on them.
struct Tried<O: Op + ?Sized> {
    inputs: O::Inputs,
    class: String,
    class_seed: u64,
    changes: Vec<u64>,
    share: f64,
}

impl<O: Op + ?Sized> CaseTrial<'_, O> {
    /// Searches for the inputs on which a kernel is worst. Returns the answer on them.
    pub(super) fn search(
        &self,
        subject: &CheckSubject<'_>,
        candidate: &Candidate,
    ) -> Result<(CaseAnswer, SearchRecord), Broken> {
        let (op, case) = (self.op, self.case);
        let built = self.build(subject, candidate)?;
        let mut device = (self.environment.device)(Lease::Shared).map_err(|error| Broken::new(&error))?;
        device.expect(op.work(&case.problem).flops);
        let image = device.image(&built.build);
        let kernel = Kernel::load(&mut *device, subject.family, candidate.clone(), image)
            .map_err(|error| Broken::new(&error))?;

        // The hard classes come first, so that a short search tries them.
        let mut classes = op.classes();
        let hard = op.hard_classes();
        classes.sort_by_key(|class| !hard.contains(class));
        let mut parents: Vec<Tried<O>> = Vec::new();
        let mut worst: Option<(f64, CaseAnswer, SearchRecord)> = None;
        for step in 0..case.search {
            if self.environment.stop.load(Ordering::Relaxed) {
                return Err(Broken::new(&"the search was stopped"));
            }
            let seed = derive_seed(case.seed, STEPS + step);
            let start = classes.get(step as usize);
            let parent = (step as usize) % parents.len().max(1);
            let mut tried = match (start, parents.get(parent)) {
                (None, Some(from)) => {
                    let mut changes = from.changes.clone();
                    changes.push(seed);
                    let inputs = op.mutated(&case.problem, &from.inputs, seed);
                    Tried { inputs, changes, class: from.class.clone(), ..*from }
                }
                (class, _) => {
                    let class = class.map_or(classes[0], |class| *class).to_owned();
                    let inputs =
                        op.inputs(&case.problem, &class, seed).map_err(|error| Broken::new(&error))?;
                    Tried { inputs, class, class_seed: seed, changes: Vec::new(), share: 0.0 }
                }
            };
            let answer =
                self.try_inputs(&kernel, &mut *device, &tried.inputs, built.granted.as_ref(), step)?;
            tried.share = answer.judgement.share;
            if worst.as_ref().is_none_or(|(share, ..)| tried.share > *share) {
                let record = SearchRecord {
                    steps: case.search,
                    worst_step: step + 1,
                    class: tried.class.clone(),
                    class_seed: tried.class_seed,
                    changes: tried.changes.clone(),
                    share: Some(tried.share).filter(|share| share.is_finite()),
                };
                worst = Some((tried.share, answer, record));
            }
            (self.environment.searched)(worst.as_ref().map_or(0.0, |(share, ..)| *share));
            if start.is_some() {
                // The other classes are near their limits because of the format, and changes make them no worse.
                if hard.contains(&tried.class.as_str()) {
                    parents.push(tried);
                }
            } else if tried.share >= parents[parent].share {
                parents[parent] = tried;
            }
        }
        let (_, mut answer, record) = worst.ok_or_else(|| Broken::new(&"no inputs were tried"))?;
        answer.launches = case.search as usize;
        answer.notes = built.notes;
        answer.notes.push(format!(
            "the worst of {} inputs was found in step {}, from class {}: {} of its limit",
            record.steps,
            record.worst_step,
            record.class,
            record
                .share
                .map_or("without a finite answer".to_owned(), |share| format!("{:.0}%", 100.0 * share)),
        ));
        Ok((answer, record))
    }

    /// Runs the kernel once on some inputs and judges its answer.
    fn try_inputs(
        &self,
        kernel: &Kernel<'_>,
        device: &mut dyn CheckDevice,
        inputs: &O::Inputs,
        extra: Option<&ExtraTolerance>,
        step: u64,
    ) -> Result<CaseAnswer, Broken> {
        let (op, case) = (self.op, self.case);
        let reference = op
            .reference(&case.problem, inputs, derive_seed(case.seed, ROWS + step))
            .map_err(|error| Broken::new(&error))?;
        let arrangement = op.arrange(kernel.family, &case.problem, inputs);
        let parameters =
            |addresses: &Addresses| op.parameters(kernel.family, &case.problem, inputs, addresses);
        let steps = [TrialStep::FIRST];
        let observed = kernel
            .trial(
                device,
                &op.sizes(&case.problem),
                &[op::Inputs { arrangement: &arrangement, parameters: &parameters }],
                &steps,
                derive_seed(case.seed, LAUNCHES + step),
            )
            .map_err(|error| Broken::new(&error))?;
        let findings = observed.iter().flat_map(|launch| trial::launch_complaints(launch).1).collect();
        let launches: Vec<TrialLaunch> = observed.into_iter().map(TrialLaunch::new).collect();
        let judged = trial::judge(op, extra, &steps, &[(inputs, &reference)], &launches);
        let JudgedTrial { mut judgement, complaints, wrong, launches: count, .. } =
            judged.ok_or_else(|| Broken::new(&"the kernel was not launched"))?;
        if !complaints.is_empty() && judgement.share <= 1.0 {
            judgement.share = f64::INFINITY; // a finding, or a write outside the buffers
        }
        let picture = wrong.and_then(|index| {
            op.picture(&kernel.candidate, extra, inputs, &reference, &launches[index].outputs)
        });
        let (is_near, share) = (false, judgement.share);
        let notes = Vec::new();
        Ok(CaseAnswer { complaints, judgement, launches: count, findings, notes, picture, is_near, share })
    }
}
