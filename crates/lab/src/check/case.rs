//! Checks one case on one kernel.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use chips::Target;
use compiler::{Build, BuildError, Diagnostic};
use family::Candidate;
use gpu::accelerator::{AcceleratorError, Lease};
use op::{
    Addresses, Arrangement, Complaint, ExtraTolerance, Judgement, Kernel, Op, Picture, Refusal, RunError,
    TrialStep, derive_seed,
};

use super::plan::{Case, CheckSubject, Depth};
use super::{CaseOutcome, CaseResult, CheckEnvironment};
use crate::trial::{self, JudgedTrial, TrialLaunch, kernel_notes};

/// Purpose numbers of the seeds that are derived from the seed of a case.
const ENVIRONMENTS: u64 = 1;
const REDRAWN: u64 = 2;
const OPPOSITE: u64 = 3;
const HARD: u64 = 4;
const OTHER: u64 = 5;
const ROWS: u64 = 16;
const AGAIN: u64 = 1 << 40;
/// How many other inputs must be right if the first exceed a limit by little.
const OTHER_DRAWS: u64 = 2;
/// More launches on the first inputs for kernels whose launches may differ.
const MORE_LAUNCHES: usize = 2;
/// The largest problem that runs under all checkers, unless even the smallest part of it is larger.
const CHECKERS_FLOPS: f64 = 1.3e6;

/// A case with its inputs and references, which all kernels share.
pub(super) struct CaseTrial<'a, O: Op + ?Sized> {
    pub(super) op: &'a O,
    pub(super) case: &'a Case<O::Problem>,
    pub(super) environment: &'a CheckEnvironment<'a>,
    target: Target,
    steps: Vec<TrialStep>,
    /// In the order of [`TrialStep::inputs`]: the case's own inputs, inputs with the opposite signs, and one set for
    /// each redrawn input.
    case_inputs: OnceLock<Result<Vec<CaseInputs<O>>, Refusal>>,
    /// The note about a judgement that proves nothing.
    vacuous: OnceLock<Option<String>>,
}

/// Inputs and their reference.
struct CaseInputs<O: Op + ?Sized> {
    inputs: O::Inputs,
    reference: O::Reference,
    /// The one input that differs from the case's own inputs.
    redrawn: Option<String>,
}

/// Why a kernel gave no answer.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error("{0}")]
    NoDevice(String),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Why a kernel could not be tried, with the compiler's errors if it does not compile.
pub(super) struct Broken {
    reason: String,
    diagnostics: Vec<Diagnostic>,
}

impl Broken {
    pub fn new(reason: &impl ToString) -> Self {
        Broken { reason: reason.to_string(), diagnostics: Vec::new() }
    }
}

impl From<BuildError> for Broken {
    fn from(error: BuildError) -> Self {
        let reason = error.to_string();
        let diagnostics =
            if let BuildError::Source { diagnostics, .. } = error { diagnostics } else { Vec::new() };
        Broken { reason, diagnostics }
    }
}

/// The judged answer of a kernel, with findings and notes.
pub(super) struct CaseAnswer {
    pub complaints: Vec<Complaint>,
    pub judgement: Judgement,
    pub launches: usize,
    pub findings: Vec<vgpu::Finding>,
    pub notes: Vec<String>,
    pub picture: Option<Picture>,
    /// See [`JudgedTrial::is_near`].
    pub is_near: bool,
    /// Largest ratio of an error to its limit.
    pub share: f64,
}

/// A compiled kernel, the notes about it and the extra tolerance that it gets.
pub(super) struct BuiltKernel {
    pub build: Build,
    pub notes: Vec<String>,
    pub granted: Option<ExtraTolerance>,
}

impl<'a, O: Op + ?Sized> CaseTrial<'a, O> {
    /// Prepares a case. The inputs are made when the first kernel needs them.
    pub fn new(
        op: &'a O,
        case: &'a Case<O::Problem>,
        environment: &'a CheckEnvironment<'a>,
        target: Target,
    ) -> Self {
        let mut steps = TrialStep::USUAL.to_vec();
        if case.depth == Depth::Full {
            let redrawn = TrialStep::USUAL.len() - 1;
            steps.extend((0..op.input_names().len()).map(|index| TrialStep::on(redrawn + index)));
        }
        CaseTrial {
            op,
            case,
            environment,
            target,
            steps,
            case_inputs: OnceLock::new(),
            vacuous: OnceLock::new(),
        }
    }

    /// Why the case has no inputs or no reference.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.case_inputs.get()?.as_ref().err()
    }

    /// Checks one candidate on the case. A candidate that reached its time limit on another problem is skipped: it would
    /// reach it here, too.
    pub fn check(
        &self,
        subject: &CheckSubject<'_>,
        candidate: &Candidate,
        endless: Option<String>,
    ) -> CaseResult {
        let started = Instant::now();
        let kernel = candidate.label(subject.family);
        let (preset, knobs) = (candidate.preset.clone(), candidate.changes(subject.family));
        let mut search = None;
        let answer = if let Some(problem) = endless {
            Err(Broken::new(&format!("not run, because the kernel did not end on {problem}")))
        } else if self.case.search > 0 {
            self.search(subject, candidate).map(|(answer, record)| {
                search = Some(record);
                answer
            })
        } else {
            self.answer(subject, candidate).map(|answer| self.drawn_again(subject, candidate, answer))
        };
        let (outcome, launches, findings, notes, picture) = match answer {
            Err(Broken { reason, diagnostics }) => {
                (CaseOutcome::Broken { reason, diagnostics }, 0, Vec::new(), Vec::new(), None)
            }
            Ok(CaseAnswer { complaints, judgement, launches, findings, notes, picture, .. }) => {
                let outcome = if complaints.is_empty() {
                    CaseOutcome::Passed { judgement }
                } else {
                    CaseOutcome::Failed { complaints, judgement: Some(judgement) }
                };
                (outcome, launches, findings, notes, picture)
            }
        };
        let case = self.case;
        CaseResult {
            family: subject.family.name.clone(),
            kernel,
            preset,
            knobs,
            problem: case.problem.to_string(),
            cut_from: case.cut_from.iter().map(ToString::to_string).collect(),
            class: search.as_ref().map_or(&case.class, |search| &search.class).clone(),
            seed: case.seed,
            depth: case.depth,
            search,
            launches,
            outcome,
            findings,
            notes,
            picture,
            seconds: started.elapsed().as_secs_f64(),
        }
    }

    /// Returns the answer, except when it is only near a limit and the answers on [`OTHER_DRAWS`] other inputs are right:
    /// then the last of those. Limits are a few times the error of honest kernels, so some inputs of thousands exceed
    /// them.
    fn drawn_again(
        &self,
        subject: &CheckSubject<'_>,
        candidate: &Candidate,
        first: CaseAnswer,
    ) -> CaseAnswer {
        if first.complaints.is_empty() || !first.is_near || !self.environment.failures.draw_again {
            return first;
        }
        let mut last = None;
        for draw in 0..OTHER_DRAWS {
            let case = Case { seed: derive_seed(self.case.seed, AGAIN + draw), ..self.case.clone() };
            let other = CaseTrial::new(self.op, &case, self.environment, self.target);
            match other.answer(subject, candidate) {
                Ok(answer) if answer.complaints.is_empty() => last = Some(answer),
                _ => return first,
            }
        }
        let Some(mut answer) = last else { return first };
        answer.notes.push(format!(
            "an error was {:.0}% of its limit on the first inputs for {} {} (--input-seed {}), and below it on \
             {OTHER_DRAWS} other inputs",
            100.0 * first.share,
            self.case.problem,
            self.case.class,
            self.case.seed
        ));
        answer
    }

    pub(super) fn build(
        &self,
        subject: &CheckSubject<'_>,
        candidate: &Candidate,
    ) -> Result<BuiltKernel, Broken> {
        let family = subject.family;
        let request = family.request(candidate, self.target).map_err(|error| Broken::new(&error))?;
        let build = self.environment.compiler.build(&request).map_err(Broken::from)?.build;
        if build.entry(&family.entry).is_none() {
            return Err(Broken::new(&build.missing(&family.entry)));
        }
        let mut notes = kernel_notes(&build.ptx, &family.entry);
        let granted = self.op.extra_tolerance(family, &self.case.problem, &build.ptx);
        notes.extend(granted.iter().map(|granted| granted.note.clone()));
        Ok(BuiltKernel { build, notes, granted })
    }

    fn answer(&self, subject: &CheckSubject<'_>, candidate: &Candidate) -> Result<CaseAnswer, Broken> {
        let CaseTrial { op, case, environment, .. } = self;
        let family = subject.family;
        // CPU work is done before a device is taken.
        let BuiltKernel { build, mut notes, granted } = self.build(subject, candidate)?;
        // A reference that fails is reported below.
        let vacuous =
            || trial::vacuous_note(*op, &case.problem, derive_seed(case.seed, OTHER)).ok().flatten();
        notes.extend(self.vacuous.get_or_init(vacuous).clone());
        let extra = granted.as_ref();
        let steps = self.steps(extra);
        let case_inputs = self
            .case_inputs
            .get_or_init(|| self.case_inputs())
            .as_ref()
            .map_err(|error| Broken::new(&error))?;
        let arranged: Vec<Arrangement> =
            case_inputs.iter().map(|it| op.arrange(family, &case.problem, &it.inputs)).collect();
        let parameters: Vec<_> = case_inputs
            .iter()
            .map(|it| {
                move |addresses: &Addresses| op.parameters(family, &case.problem, &it.inputs, addresses)
            })
            .collect();
        let inputs: Vec<op::Inputs<'_>> = arranged
            .iter()
            .zip(&parameters)
            .map(|(arrangement, parameters)| op::Inputs { arrangement, parameters })
            .collect();
        let run = |lease| -> Result<_, TrialError> {
            let mut device = (environment.device)(lease).map_err(TrialError::NoDevice)?;
            device.expect(op.work(&case.problem).flops);
            if self.runs_checkers() {
                device.run_checkers();
            }
            let image = device.image(&build);
            let kernel = Kernel::load(&mut *device, family, candidate.clone(), image)?;
            let sizes = op.sizes(&case.problem);
            Ok(kernel.trial(&mut *device, &sizes, &inputs, &steps, derive_seed(case.seed, ENVIRONMENTS))?)
        };
        let observed = match run(Lease::Shared) {
            // The kernel may fit when no other kernel uses the GPU, so it runs once more alone.
            Err(TrialError::Run(RunError::Accelerator(AcceleratorError::Memory(_)))) => run(Lease::Alone),
            other => other,
        }
        .map_err(|error| Broken::new(&error))?;

        let findings: Vec<_> =
            observed.iter().flat_map(|launch| trial::launch_complaints(launch).1).collect();
        notes.extend(trial::warning_notes(&findings));
        let launches: Vec<TrialLaunch> = observed.into_iter().map(TrialLaunch::new).collect();
        let references: Vec<_> = case_inputs.iter().map(|it| (&it.inputs, &it.reference)).collect();
        let judged = trial::judge(*op, extra, &steps, &references, &launches);
        let JudgedTrial { judgement, mut complaints, wrong, launches: count, is_near, share } =
            judged.ok_or_else(|| Broken::new(&"the kernel was not launched"))?;
        let ignored = self.ignored_inputs(extra, case_inputs, (&steps, &launches));
        let is_near = is_near && ignored.is_empty();
        complaints.extend(ignored);
        let picture = wrong.and_then(|index| {
            let (inputs, reference) = references[steps[index].inputs];
            op.picture(candidate, extra, inputs, reference, &launches[index].outputs)
        });
        Ok(CaseAnswer { complaints, judgement, launches: count, findings, notes, picture, is_near, share })
    }

    /// The launches of a kernel. One whose launches may differ makes more of them on the first inputs.
    fn steps(&self, extra: Option<&ExtraTolerance>) -> Vec<TrialStep> {
        let mut steps = self.steps.clone();
        if extra.is_some_and(|extra| extra.is_unordered) {
            steps.extend([TrialStep::USUAL[2]; MORE_LAUNCHES]);
        }
        steps
    }

    /// Whether the launches run under all checkers of the virtual GPU. They find a kernel that reads what an earlier
    /// launch left, and is right by chance. The first class is enough, on a problem that is small or cannot be cut
    /// further.
    fn runs_checkers(&self) -> bool {
        let CaseTrial { op, case, .. } = self;
        let is_small = op.work(&case.problem).flops <= CHECKERS_FLOPS;
        let is_cut = || op.cut(&case.problem, CHECKERS_FLOPS) == case.problem;
        case.class == op.classes()[0] && (is_small || is_cut())
    }

    /// Returns the inputs of every step with their references.
    fn case_inputs(&self) -> Result<Vec<CaseInputs<O>>, Refusal> {
        let CaseTrial { op, case, environment, .. } = self;
        let own = op.inputs(&case.problem, &case.class, case.seed)?;
        // A case with ordinary inputs gets a hard class for its second set of inputs, each problem another one.
        let hard = op.hard_classes();
        let class = if case.class == op.classes()[0] {
            let name = case.problem.to_string();
            let purpose = HARD + name.bytes().fold(0, |sum, byte| 31 * sum % (1 << 32) + u64::from(byte));
            hard[derive_seed(case.seed, purpose) as usize % hard.len()]
        } else {
            case.class.as_str()
        };
        let mut sets =
            vec![(None, op.opposite(&case.problem, &own, class, derive_seed(case.seed, OPPOSITE))?)];
        if case.depth == Depth::Full {
            let seed = derive_seed(case.seed, REDRAWN);
            let redraw =
                |which: &&str| (Some((*which).to_owned()), op.redraw(&case.problem, &own, which, seed));
            sets.extend(op.input_names().iter().map(redraw));
        }
        sets.insert(0, (None, own));
        let case_inputs = |(index, (redrawn, inputs)): (usize, (Option<String>, O::Inputs))| {
            // The references of a large problem take many seconds.
            if environment.stop.load(Ordering::Relaxed) {
                return Err(Refusal::new("the check was stopped"));
            }
            // If only some rows are compared, each reference samples different rows.
            let sample = derive_seed(case.seed, ROWS + index as u64);
            let reference = op.reference(&case.problem, &inputs, sample)?;
            Ok(CaseInputs { inputs, reference, redrawn })
        };
        sets.into_iter().enumerate().map(case_inputs).collect()
    }

    /// Reports inputs that do not affect the answer although they should.
    fn ignored_inputs(
        &self,
        extra: Option<&ExtraTolerance>,
        case_inputs: &[CaseInputs<O>],
        (steps, launches): (&[TrialStep], &[TrialLaunch]),
    ) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let (Some(own), Some(first)) = (case_inputs.first(), launches.first()) else { return complaints };
        for (step, launch) in steps.iter().zip(launches) {
            let other = &case_inputs[step.inputs];
            if let Some(which) = &other.redrawn {
                let before = (&own.reference, first.outputs.as_slice());
                let after = (&other.reference, launch.outputs.as_slice());
                complaints.extend(self.op.ignored_input(extra, which, before, after));
            }
        }
        complaints
    }
}
