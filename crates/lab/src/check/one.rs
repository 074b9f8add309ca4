//! One case on one kernel.

use std::sync::OnceLock;
use std::time::Instant;

use chips::Target;
use family::Candidate;
use gpu::accelerator::{AcceleratorError, Lease};
use op::{
    Addresses, Arrangement, Complaint, Judgement, Kernel, Observed, Op, Picture, Refusal, RunError, Stage,
};

use super::plan::{Case, Depth, Subject};
use super::{Bench, Outcome, Verdict};

/// A case with its inputs and right answer, which all kernels share.
pub(super) struct Trial<'a, O: Op> {
    op: &'a O,
    case: &'a Case<O::Problem>,
    bench: &'a Bench<'a>,
    target: Target,
    inputs: Result<O::Inputs, Refusal>,
    reference: OnceLock<O::Reference>,
    /// With each input drawn anew, and the right answers to those.
    redrawn: OnceLock<Vec<Redrawn<O>>>,
}

/// The name of an input, the inputs with that one drawn anew, and the right answer to them.
type Redrawn<O> = (&'static str, <O as Op>::Inputs, <O as Op>::Reference);

/// Inputs with what they are to a kernel: the case's own, and those with each drawn anew.
struct Arranged<'a, O: Op> {
    own: (&'a O::Inputs, Arrangement),
    redrawn: Vec<(&'a O::Inputs, Arrangement)>,
}

/// Outputs of a launch.
type Outputs = Vec<Vec<u8>>;

/// What came back from the device: to the inputs, to the same once more, and with each input drawn anew.
struct Launched {
    first: Observed,
    again: Option<Outputs>,
    redrawn: Vec<Outputs>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error("{0}")]
    NoDevice(String),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What is known of an answer that was given.
struct Answer {
    complaints: Vec<Complaint>,
    judgement: Judgement,
    findings: Vec<vgpu::Finding>,
    picture: Option<Picture>,
}

impl<'a, O: Op> Trial<'a, O> {
    pub fn new(op: &'a O, case: &'a Case<O::Problem>, bench: &'a Bench<'a>, target: Target) -> Self {
        let inputs = op.inputs(&case.problem, &case.class, case.seed);
        Trial { op, case, bench, target, inputs, reference: OnceLock::new(), redrawn: OnceLock::new() }
    }

    pub fn check(&self, subject: &Subject<'_>, candidate: &Candidate) -> Verdict {
        let started = Instant::now();
        let kernel = candidate.label(subject.family);
        let (preset, knobs) = (candidate.preset.clone(), candidate.changes(subject.family));
        let (outcome, findings, picture) = match self.answer(subject, candidate) {
            Err(reason) => (Outcome::Broken { reason }, Vec::new(), None),
            Ok(Answer { complaints, judgement, findings, picture }) => {
                let outcome = if complaints.is_empty() {
                    Outcome::Passed { judgement }
                } else {
                    Outcome::Failed { complaints, judgement: Some(judgement) }
                };
                (outcome, findings, picture)
            }
        };
        let case = self.case;
        Verdict {
            family: subject.family.name.clone(),
            kernel,
            preset,
            knobs,
            problem: case.problem.to_string(),
            cut_from: case.cut_from.iter().map(ToString::to_string).collect(),
            class: case.class.clone(),
            seed: case.seed,
            depth: case.depth,
            outcome,
            findings,
            picture,
            seconds: started.elapsed().as_secs_f64(),
        }
    }

    fn answer(&self, subject: &Subject<'_>, candidate: &Candidate) -> Result<Answer, String> {
        let Trial { op, case, bench, .. } = self;
        let family = subject.family;
        let inputs = self.inputs.as_ref().map_err(ToString::to_string)?;
        let words = |error: RunError| error.to_string();
        // What takes the CPU comes before a device is taken.
        let request = family.request(candidate, self.target).map_err(|error| words(error.into()))?;
        let build = bench.compiler.build(&request).map_err(|error| words(error.into()))?.build;
        let reference = self.reference.get_or_init(|| op.reference(&case.problem, inputs));
        let redrawn = if case.depth == Depth::Full { self.redrawn(inputs) } else { &[] };
        let arrange = |inputs| op.arrange(family, &case.problem, inputs);
        let arranged = Arranged {
            own: (inputs, arrange(inputs)),
            redrawn: redrawn.iter().map(|(_, inputs, _)| (inputs, arrange(inputs))).collect(),
        };
        let run = |lease| -> Result<(Kernel<'_>, Launched), Unanswered> {
            let mut device = (bench.device)(lease).map_err(Unanswered::NoDevice)?;
            device.expect(op.work(&case.problem).flops);
            let image = device.image(&build);
            let kernel = Kernel::load(&mut *device, family, candidate.clone(), image)?;
            let launched = self.launch(&mut *device, &kernel, &arranged)?;
            Ok((kernel, launched))
        };
        let (kernel, launched) = match run(Lease::Shared) {
            // Not for itself, perhaps, but beside the others.
            Err(Unanswered::Run(RunError::Accelerator(AcceleratorError::Memory(_)))) => run(Lease::Alone),
            other => other,
        }
        .map_err(|error| error.to_string())?;
        let Launched { first, again, redrawn: others } = launched;

        let judgement = op.judge(family, inputs, reference, &first.outputs);
        let (mut complaints, findings) = beside_the_answer(&first);
        let wrong = !judgement.complaints.is_empty();
        complaints.extend(judgement.complaints.iter().cloned());
        // A wrong answer is wrong whatever else it is; that it is the same every time makes it a constant one.
        if let Some(again) = again.filter(|again| *again != first.outputs) {
            complaints.push(differing(&arranged.own.1, &first.outputs, &again));
        }
        for ((which, _, right), other) in redrawn.iter().zip(&others) {
            let before = (reference, first.outputs.as_slice());
            let after = (right, other.as_slice());
            complaints.extend(op.independence(family, which, before, after));
        }
        let picture = wrong
            .then(|| op.picture((family, &kernel.candidate), inputs, reference, &first.outputs))
            .flatten();
        Ok(Answer { complaints, judgement, findings, picture })
    }

    /// Everything the case has run on the device.
    fn launch<'b>(
        &self,
        device: &mut dyn Stage,
        kernel: &Kernel<'_>,
        arranged: &'b Arranged<'_, O>,
    ) -> Result<Launched, RunError> {
        let Trial { op, case, .. } = self;
        let sizes = op.sizes(&case.problem);
        let parameters = |inputs: &'b O::Inputs| {
            move |addresses: &Addresses| op.parameters(&case.problem, inputs, addresses)
        };
        let (inputs, arrangement) = &arranged.own;
        let mut ready = kernel.ready(device, &sizes, arrangement, &parameters(inputs))?;
        let mut launch = || -> Result<Launched, AcceleratorError> {
            let first = kernel.look(device, &ready)?;
            if !first.changed_inputs.is_empty() {
                // What it would say next would not be of the same inputs.
                return Ok(Launched { first, again: None, redrawn: Vec::new() });
            }
            let mut outputs = |(inputs, arrangement): &'b (&O::Inputs, Arrangement)| {
                ready.refill(device, arrangement, &parameters(inputs))?;
                kernel.outputs(device, &ready)
            };
            let again = (case.depth >= Depth::Again).then(|| outputs(&arranged.own)).transpose()?;
            let redrawn = arranged.redrawn.iter().map(outputs).collect::<Result<_, _>>()?;
            Ok(Launched { first, again, redrawn })
        };
        let launched = launch();
        // Whatever failed, the memory is given back.
        ready.release(device);
        Ok(launched?)
    }

    fn redrawn(&self, inputs: &O::Inputs) -> &[Redrawn<O>] {
        let Trial { op, case, .. } = self;
        self.redrawn.get_or_init(|| {
            let redraw = |which: &&'static str| {
                let inputs = op.redraw(&case.problem, inputs, which, case.seed ^ 0x5eed);
                let reference = op.reference(&case.problem, &inputs);
                (*which, inputs, reference)
            };
            op.input_names().iter().map(redraw).collect()
        })
    }
}

/// What is wrong with a launch whatever its answer: findings, writes outside, changed inputs.
pub(crate) fn beside_the_answer(observed: &Observed) -> (Vec<Complaint>, Vec<vgpu::Finding>) {
    let mut complaints = Vec::new();
    let report = observed.report.as_ref();
    let serious = |finding: &&vgpu::Finding| finding.severity != vgpu::Severity::Note;
    let findings: Vec<vgpu::Finding> =
        report.into_iter().flat_map(|report| report.findings.iter().filter(serious)).cloned().collect();
    for finding in &findings {
        complaints.push(Complaint { kind: finding.kind.to_string(), message: finding.message.clone() });
    }
    if report.is_some_and(|report| !report.stats.completed) && findings.is_empty() {
        let message = "the launch did not run to its end".to_owned();
        complaints.push(Complaint { kind: "incomplete".to_owned(), message });
    }
    for trespass in &observed.trespasses {
        let message = format!(
            "{} bytes beside {} were written, the first at offset {}",
            trespass.bytes, trespass.buffer, trespass.offset
        );
        complaints.push(Complaint { kind: "trespass".to_owned(), message });
    }
    for name in &observed.changed_inputs {
        let message = format!("the input {name} was changed");
        complaints.push(Complaint { kind: "changed-input".to_owned(), message });
    }
    (complaints, findings)
}

fn differing(arrangement: &Arrangement, first: &[Vec<u8>], again: &[Vec<u8>]) -> Complaint {
    let names: Vec<String> = arrangement
        .outputs
        .iter()
        .zip(first.iter().zip(again))
        .filter(|(_, (first, again))| first != again)
        .map(|(output, (first, again))| {
            let bytes = first.iter().zip(again).filter(|(a, b)| a != b).count();
            format!("{bytes} bytes of {}", output.name)
        })
        .collect();
    let message = format!("the same inputs gave other bits the second time: {}", names.join(", "));
    Complaint { kind: "non-deterministic".to_owned(), message }
}
