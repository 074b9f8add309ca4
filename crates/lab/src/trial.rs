//! Trials: the launches on which a kernel is judged. The verdict compares every launch with the reference for its own
//! inputs.

use gpu::recent::Recent;
use op::{
    Complaint, DrawMode, ExtraTolerance, InputDraw, Judgement, LaunchObservation, Op, Refusal, TrialStep,
    VacuousPart, derive_seed,
};
use serde::{Deserialize, Serialize};

/// The problem, inputs and steps on which one kernel is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialCase<P> {
    pub problem: P,
    pub draws: Vec<InputDraw>,
    pub steps: Vec<TrialStep>,
    /// Seed of the launches' environments: addresses, poison, and what a kernel can read of its surroundings.
    pub seed: u64,
}

/// Operations of the cut problem on which input classes are tried: the smallest problem that still has tiles.
const CLASS_FLOPS: f64 = 1e6;

/// Returns a draw of ordinary inputs, and a draw of a hard class with the opposite signs.
pub fn usual_draws<O: Op + ?Sized>(op: &O, seed: u64) -> [InputDraw; 2] {
    let hard = op.hard_classes();
    let class = hard[derive_seed(seed, 1) as usize % hard.len()];
    [InputDraw::new(op.classes()[0], seed), InputDraw::new(class, seed).way(DrawMode::Opposite)]
}

impl<P> TrialCase<P> {
    /// Returns the usual three launches on ordinary inputs.
    pub fn usual<O: Op<Problem = P> + ?Sized>(op: &O, problem: P, seed: u64) -> Self {
        let draws = usual_draws(op, derive_seed(seed, 0)).into();
        TrialCase { problem, draws, steps: TrialStep::USUAL.to_vec(), seed: derive_seed(seed, 1) }
    }

    /// Returns the usual launches and one launch for every input class. The problem is cut, because a fault that a class
    /// shows does not depend on the size.
    pub fn classes<O: Op<Problem = P> + ?Sized>(op: &O, problem: &P, seed: u64) -> Self {
        let problem = op.cut(problem, CLASS_FLOPS);
        let mut classes = op.classes();
        for last in (1..classes.len()).rev() {
            classes.swap(last, (derive_seed(seed, 2 + last as u64) % (last as u64 + 1)) as usize);
        }
        let draw = |(index, class): (usize, &&str)| {
            InputDraw::new(class, derive_seed(seed, 64 + index as u64)).way(DrawMode::Any)
        };
        let mut draws = usual_draws(op, derive_seed(seed, 0)).to_vec();
        draws.extend(classes.iter().enumerate().map(draw));
        let mut steps = TrialStep::USUAL.to_vec();
        steps.extend((2..draws.len()).map(TrialStep::on));
        TrialCase { problem, draws, steps, seed: derive_seed(seed, 1) }
    }
}

/// One launch of a trial: its outputs, and the complaints that do not depend on the outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialLaunch {
    pub outputs: Vec<Vec<u8>>,
    pub complaints: Vec<Complaint>,
}

impl TrialLaunch {
    /// Keeps the outputs of an observed launch and collects its complaints.
    pub fn new(observed: LaunchObservation) -> Self {
        let (complaints, _) = launch_complaints(&observed);
        TrialLaunch { outputs: observed.outputs, complaints }
    }
}

/// A trial whose launches were compared with the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedTrial {
    /// The judgement of the launch with the largest error.
    pub judgement: Judgement,
    /// The complaints of all launches; each names its launch. Empty if the kernel is correct.
    pub complaints: Vec<Complaint>,
    /// The first launch whose answer is wrong.
    pub wrong: Option<usize>,
    /// Number of launches that were judged.
    pub launches: usize,
    /// Whether the only complaints are errors of at most [`NEAR_SHARE`] times their limits.
    pub is_near: bool,
    /// Largest ratio of an error to its limit.
    pub share: f64,
}

/// Errors up to this multiple of their limit are near it; `check` then repeats the case on other inputs.
const NEAR_SHARE: f64 = 1.5;

/// Compares every launch with the reference for its inputs. `references` holds the inputs of the trial, in the order of
/// [`TrialStep::inputs`], each with its reference. `extra_tolerance` is what
/// the op grants the kernel ([`op::OpJudgement::extra_tolerance`]).
pub fn judge<O: Op + ?Sized>(
    op: &O,
    extra_tolerance: Option<&ExtraTolerance>,
    steps: &[TrialStep],
    references: &[(&O::Inputs, &O::Reference)],
    launches: &[TrialLaunch],
) -> Option<JudgedTrial> {
    let mut judged: Option<JudgedTrial> = None;
    for (index, (step, launch)) in steps.iter().zip(launches).enumerate() {
        let (inputs, reference) = references[step.inputs];
        let judgement = op.judge(extra_tolerance, inputs, reference, &launch.outputs);
        let mut found = launch.complaints.clone();
        found.extend(judgement.complaints.iter().cloned());
        let first = step.same_as.and_then(|before| launches.get(before));
        let is_near = launch.complaints.is_empty() && judgement.share <= NEAR_SHARE;
        // A wrong answer is not also reported as non-deterministic.
        if let Some(first) = first.filter(|first| found.is_empty() && first.outputs != launch.outputs)
            && !extra_tolerance.is_some_and(|extra| extra.is_unordered)
        {
            found.push(nondeterminism_complaint(&first.outputs, &launch.outputs));
        }
        let is_wrong = !judgement.complaints.is_empty();
        let share = judgement.share;
        let is_near = is_near && if is_wrong { share > 1.0 } else { found.is_empty() };
        let whole = judged.get_or_insert_with(|| JudgedTrial {
            judgement: judgement.clone(),
            complaints: Vec::new(),
            wrong: None,
            launches: 0,
            is_near: true,
            share: 0.0,
        });
        whole.is_near &= is_near;
        whole.share = whole.share.max(share);
        if is_worse(&judgement, &whole.judgement) {
            whole.judgement = judgement;
        }
        if is_wrong && whole.wrong.is_none() {
            whole.wrong = Some(index);
        }
        whole.launches += 1;
        // A complaint about every launch is reported only for the first.
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
        let message = format!("launch {} of {} did not run", whole.launches + 1, steps.len());
        whole.complaints.push(Complaint { kind: "incomplete".to_owned(), message });
    }
    judged
}

fn is_worse(one: &Judgement, other: &Judgement) -> bool {
    // The error of a launch without an answer is infinite.
    one.error > other.error || (one.error.is_nan() && !other.error.is_nan())
}

/// The warnings among findings as notes about a kernel, each kind at each place once. Their messages have numbers that
/// differ between problems, so they are left out.
pub fn warning_notes(findings: &[vgpu::Finding]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.severity == vgpu::Severity::Warning) {
        let place = finding.place.frames.first();
        let place = place.map_or_else(String::new, |frame| format!(" at {}:{}", frame.file, frame.line));
        let note = format!("warning: [{}]{place}; `warpsmith sanitize` explains it", finding.kind);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Collects what is wrong with a launch regardless of its outputs: findings, stray writes, changed inputs and changed
/// module variables. A warning is a finding without a complaint: the answer may be right ([`warning_notes`]).
pub fn launch_complaints(observed: &LaunchObservation) -> (Vec<Complaint>, Vec<vgpu::Finding>) {
    let mut complaints = Vec::new();
    let mut complain = |kind: &str, message: String| {
        complaints.push(Complaint { kind: kind.to_owned(), message });
    };
    let serious = |finding: &&vgpu::Finding| finding.severity != vgpu::Severity::Note;
    let findings: Vec<vgpu::Finding> =
        observed.reports.iter().flat_map(|report| report.findings.iter().filter(serious)).cloned().collect();
    for finding in findings.iter().filter(|finding| finding.severity == vgpu::Severity::Error) {
        complain(finding.kind.name(), finding.message.clone());
    }
    if observed.reports.iter().any(|report| !report.stats.completed) && findings.is_empty() {
        complain("incomplete", "the launch did not complete".to_owned());
    }
    for name in &observed.changed_inputs {
        complain("changed-input", format!("the kernel changed the input {name}"));
    }
    // The launches of one kernel may share a block, so only what the last one leaves counts.
    let heap = observed.reports.last().into_iter().flat_map(|report| &report.changed_state);
    let heap = heap.filter(|name| *name == vgpu::HEAP_NAME);
    let changed: Vec<&str> = observed.changed_state.iter().chain(heap).map(String::as_str).collect();
    if !changed.is_empty() {
        let names = changed.join(", ");
        let message = format!(
            "the launch changed {names}, which the next launch can read; a kernel must leave its variables as it found \
             them and free its memory"
        );
        complain("persistent-state", message);
    }
    complaints.extend(observed.stray_writes.iter().map(stray_write_complaint));
    (complaints, findings)
}

/// The complaint about a write outside every buffer.
pub fn stray_write_complaint(write: &op::StrayWrite) -> Complaint {
    let op::StrayWrite { buffer, offset, bytes } = write;
    let message = format!("{bytes} bytes outside {buffer} were written, the first at offset {offset}");
    Complaint { kind: "trespass".to_owned(), message }
}

fn nondeterminism_complaint(first: &[Vec<u8>], again: &[Vec<u8>]) -> Complaint {
    let bytes: usize =
        first.iter().zip(again).map(|(a, b)| a.iter().zip(b).filter(|(a, b)| a != b).count()).sum();
    let message = format!("{bytes} bytes of the outputs differ from those of the first launch");
    Complaint { kind: "non-deterministic".to_owned(), message }
}

/// Returns notes about instructions that an honest kernel rarely needs.
pub fn kernel_notes(ptx: &str, entry: &str) -> Vec<String> {
    // A kernel is checked on many problems, one after the other.
    static KNOWN: Recent<(String, String), Vec<String>> = Recent::new();
    let notes = || vgpu::notices_in_ptx(ptx, entry).iter().map(ToString::to_string).collect();
    KNOWN.get_or_make((ptx.to_owned(), entry.to_owned()), notes)
}

/// Returns a note if a kernel that ignores its inputs gets the answer, or most of an output, right.
pub fn vacuous_note<O: Op + ?Sized>(
    op: &O,
    problem: &O::Problem,
    seed: u64,
) -> Result<Option<String>, Refusal> {
    Ok(op.vacuous_part(problem, seed)?.map(|part| match part {
        VacuousPart::All => "the answer does not depend on the inputs within the tolerance, so a kernel that ignores its \
                             inputs passes"
            .to_owned(),
        VacuousPart::Elements(outputs) => {
            let outputs: Vec<String> = outputs
                .into_iter()
                .map(|(name, inert, all)| format!("{inert} of {all} elements of {name}"))
                .collect();
            format!(
                "{} do not depend on the inputs within the tolerance, so a kernel that ignores its inputs gets them right",
                outputs.join(" and ")
            )
        }
    }))
}

/// Makes the inputs of a draw.
pub fn draw_inputs<O: Op + ?Sized>(
    op: &O,
    problem: &O::Problem,
    draw: &InputDraw,
) -> Result<O::Inputs, Refusal> {
    let mut inputs = draw_all_inputs(op, problem, std::slice::from_ref(draw))?;
    inputs.pop().ok_or_else(|| Refusal::new("no inputs were drawn"))
}

/// Makes the inputs of several draws. Drawing is slow, so ordinary inputs that are also the base of opposite inputs are
/// drawn once.
pub fn draw_all_inputs<O: Op + ?Sized>(
    op: &O,
    problem: &O::Problem,
    draws: &[InputDraw],
) -> Result<Vec<O::Inputs>, Refusal> {
    let mut all: Vec<O::Inputs> = Vec::new();
    for InputDraw { class, seed, way } in draws {
        let inputs = match way {
            DrawMode::Timed => op.timed_inputs(problem, class, *seed)?,
            DrawMode::Any => op.inputs(problem, class, *seed)?,
            DrawMode::Opposite => {
                let ordinary = InputDraw::new(op.classes()[0], *seed);
                let seed = op::derive_seed(*seed, 0);
                let known = draws.iter().position(|draw| *draw == ordinary).and_then(|at| all.get(at));
                if let Some(signs) = known {
                    op.opposite(problem, signs, class, seed)?
                } else {
                    let signs = op.timed_inputs(problem, &ordinary.class, ordinary.seed)?;
                    op.opposite(problem, &signs, class, seed)?
                }
            }
        };
        all.push(inputs);
    }
    Ok(all)
}
