//! Trials: what a kernel is launched on, and the verdict, which holds every launch against the right answer to its own
//! inputs.

use op::{Complaint, DrawMode, InputDraw, Judgement, LaunchObservation, Op, TrialStep, derived};
use serde::{Deserialize, Serialize};

/// What a kernel is launched on to be judged.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialCase<P> {
    pub problem: P,
    pub draws: Vec<InputDraw>,
    pub steps: Vec<TrialStep>,
    /// What the circumstances of the launches are drawn from.
    pub seed: u64,
}

/// Operations of the problem that classes of inputs are tried on: the least that has tiles at all.
const CLASS_FLOPS: f64 = 1e6;
/// Operations of all of them together, unless that is fewer than three classes.
const CLASSES_FLOPS: f64 = 1e7;

/// Ordinary inputs, and inputs of a hard class with the opposite signs.
pub fn usual_draws<O: Op>(op: &O, seed: u64) -> [InputDraw; 2] {
    let hard = op.hard_classes();
    let class = hard[derived(seed, 1) as usize % hard.len()];
    [InputDraw::new(op.classes()[0], seed), InputDraw::new(class, seed).way(DrawMode::Opposite)]
}

impl<P> TrialCase<P> {
    /// The usual three launches on ordinary inputs.
    pub fn usual<O: Op<Problem = P>>(op: &O, problem: P, seed: u64) -> Self {
        let draws = usual_draws(op, derived(seed, 0)).into();
        TrialCase { problem, draws, steps: TrialStep::USUAL.to_vec(), seed: derived(seed, 1) }
    }

    /// The usual launches, and one on inputs of every class, or of some classes where even the smallest part of the problem
    /// is large. The problem is cut: what a class shows it shows in any size.
    pub fn classes<O: Op<Problem = P>>(op: &O, problem: &P, seed: u64) -> Self {
        let problem = op.cut(problem, CLASS_FLOPS);
        let mut classes = op.classes();
        let affordable = (CLASSES_FLOPS / op.work(&problem).flops.max(1.0)) as usize;
        for last in (1..classes.len()).rev() {
            classes.swap(last, (derived(seed, 2 + last as u64) % (last as u64 + 1)) as usize);
        }
        // What is hard to get right comes first, and is never left out.
        let hard = op.hard_classes();
        classes.sort_by_key(|class| !hard.contains(class));
        classes.truncate(affordable.max(hard.len() + 1));
        let draw = |(index, class): (usize, &&str)| {
            InputDraw::new(class, derived(seed, 64 + index as u64)).way(DrawMode::Any)
        };
        let mut draws = usual_draws(op, derived(seed, 0)).to_vec();
        draws.extend(classes.iter().enumerate().map(draw));
        let mut steps = TrialStep::USUAL.to_vec();
        steps.extend((2..draws.len()).map(TrialStep::on));
        TrialCase { problem, draws, steps, seed: derived(seed, 1) }
    }
}

/// One launch of a trial: its outputs, and what is wrong with it whatever its outputs are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialLaunch {
    pub outputs: Vec<Vec<u8>>,
    pub complaints: Vec<Complaint>,
}

impl TrialLaunch {
    pub fn new(observed: LaunchObservation) -> Self {
        let (complaints, _) = beside_the_answer(&observed);
        TrialLaunch { outputs: observed.outputs, complaints }
    }
}

/// A trial held against the right answers.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedTrial {
    /// Of the launch with the largest error.
    pub judgement: Judgement,
    /// Of all launches, each with the launch it is about. Empty: right in every respect.
    pub complaints: Vec<Complaint>,
    /// The first launch whose answer is wrong.
    pub wrong: Option<usize>,
    pub launches: usize,
}

/// Holds every launch against the right answer to its inputs. `right` has the inputs of the trial, as the steps count them,
/// each with its right answer. `extra_tolerance`: the kernel has what [`Op::extra_tolerance`] grants.
pub fn judge<O: Op>(
    op: &O,
    extra_tolerance: bool,
    steps: &[TrialStep],
    right: &[(&O::Inputs, &O::Reference)],
    launches: &[TrialLaunch],
) -> Option<JudgedTrial> {
    let mut judged: Option<JudgedTrial> = None;
    for (index, (step, launch)) in steps.iter().zip(launches).enumerate() {
        let (inputs, reference) = right[step.inputs];
        let judgement = op.judge(extra_tolerance, inputs, reference, &launch.outputs);
        let mut found = launch.complaints.clone();
        found.extend(judgement.complaints.iter().cloned());
        let first = step.same_as.and_then(|before| launches.get(before));
        // An answer that is wrong for itself need not be the first one again.
        if let Some(first) = first.filter(|first| found.is_empty() && first.outputs != launch.outputs) {
            found.push(differing(&first.outputs, &launch.outputs));
        }
        let is_wrong = !judgement.complaints.is_empty();
        let whole = judged.get_or_insert_with(|| JudgedTrial {
            judgement: judgement.clone(),
            complaints: Vec::new(),
            wrong: None,
            launches: 0,
        });
        if worse(&judgement, &whole.judgement) {
            whole.judgement = judgement;
        }
        if is_wrong && whole.wrong.is_none() {
            whole.wrong = Some(index);
        }
        whole.launches += 1;
        // What is wrong with every launch is said of the first.
        let known: Vec<String> = whole.complaints.iter().map(|known| known.kind.clone()).collect();
        for complaint in found.into_iter().filter(|complaint| !known.contains(&complaint.kind)) {
            let message = match index {
                0 => complaint.message,
                _ => format!("{}: {}", TrialStep::describe(index, step), complaint.message),
            };
            whole.complaints.push(Complaint { kind: complaint.kind, message });
        }
    }
    if let Some(whole) = judged.as_mut().filter(|it| it.launches < steps.len() && it.complaints.is_empty()) {
        let message = format!("launch {} of {} did not take place", whole.launches + 1, steps.len());
        whole.complaints.push(Complaint { kind: "incomplete".to_owned(), message });
    }
    judged
}

fn worse(one: &Judgement, other: &Judgement) -> bool {
    // Of a launch without an answer the error is infinite.
    one.error > other.error || (one.error.is_nan() && !other.error.is_nan())
}

/// What is wrong with a launch whatever its answer: findings, writes outside, changed inputs, state that was left behind.
pub fn beside_the_answer(observed: &LaunchObservation) -> (Vec<Complaint>, Vec<vgpu::Finding>) {
    let mut complaints = Vec::new();
    let mut complain = |kind: &str, message: String| {
        complaints.push(Complaint { kind: kind.to_owned(), message });
    };
    let report = observed.report.as_ref();
    let serious = |finding: &&vgpu::Finding| finding.severity != vgpu::Severity::Note;
    let findings: Vec<vgpu::Finding> =
        report.into_iter().flat_map(|report| report.findings.iter().filter(serious)).cloned().collect();
    for finding in &findings {
        complain(&finding.kind.to_string(), finding.message.clone());
    }
    if report.is_some_and(|report| !report.stats.completed) && findings.is_empty() {
        complain("incomplete", "the launch did not run to its end".to_owned());
    }
    for name in &observed.changed_inputs {
        complain("changed-input", format!("the input {name} was changed"));
    }
    if !observed.changed_state.is_empty() {
        let names = observed.changed_state.join(", ");
        let message = format!(
            "the launch changed the module's variable {names}, which the next launch can read; a kernel must leave \
             its variables as it found them"
        );
        complain("persistent-state", message);
    }
    complaints.extend(observed.trespasses.iter().map(trespass));
    (complaints, findings)
}

/// A write outside every buffer, in words.
pub fn trespass(write: &op::StrayWrite) -> Complaint {
    let op::StrayWrite { buffer, offset, bytes } = write;
    let message = format!("{bytes} bytes beside {buffer} were written, the first at offset {offset}");
    Complaint { kind: "trespass".to_owned(), message }
}

fn differing(first: &[Vec<u8>], again: &[Vec<u8>]) -> Complaint {
    let bytes: usize =
        first.iter().zip(again).map(|(a, b)| a.iter().zip(b).filter(|(a, b)| a != b).count()).sum();
    let message = format!("{bytes} bytes of the outputs differ from those of the first launch");
    Complaint { kind: "non-deterministic".to_owned(), message }
}
