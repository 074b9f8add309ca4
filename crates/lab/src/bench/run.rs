//! Runs a bench: starts the workers, checks and times every problem, and judges the targets.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use compiler::Compiler;
use family::{Candidate, Family};
use gpu::device::Device;
use gpu::telemetry::Monitor;
use indexmap::IndexMap;
use op::plausible::implausible_reason;
use op::{ExtraTolerance, Judgement, Op, PeerProblem, TrialStep, dispatch};
use runlog::{
    Ceiling, CheckRecord, Event, Fact, FailureKind, Modelled, OWN_VERSION_PREFIX, Run, Speed, Stage,
    StageKey, StageOutcome, StageState, Time,
};
use subprocess::wire;
use text::count;

use super::answers::{AnswerCache, InputsWithAnswer};
use super::draws::Draws;
use super::plan::{BenchPlan, Subject, SubjectCheck, SubjectKind};
use super::targets;
use super::workers::{SubjectWorkers, WorkerFactory};
use crate::Session;
use crate::session::StageError;
use crate::trial::{self, JudgedTrial, TrialCase, TrialLaunch};
use crate::worker::{BuildReply, CandidateName, LaunchReply, WorkerError, WorkerReply, WorkerRequest};

/// Measures everything in the plan that the run has not measured yet.
pub fn run<O: Op + ?Sized>(
    session: &Session<'_, O>,
    plan: &BenchPlan<'_, O::Problem>,
) -> Result<(), StageError> {
    run_with(session, plan, &AnswerCache::disabled())
}

/// Like [`run`], with a cache of answers that the caller shares between benches.
pub fn run_with<O: Op + ?Sized>(
    session: &Session<'_, O>,
    plan: &BenchPlan<'_, O::Problem>,
    answers: &AnswerCache<O>,
) -> Result<(), StageError> {
    let Session { op, compiler, start, run, stop, tell } = *session;
    let folder = run.folder().join("work");
    let io = |error| StageError::Io { path: folder.clone(), error };
    fs::create_dir_all(&folder).map_err(io)?;
    let script = folder.join("peers.py");
    if let Some(peers) = op.peers() {
        files::write_atomically(&script, wire::with_python(&peers.script).as_bytes()).map_err(io)?;
    }
    let factory = WorkerFactory { start, limits: plan.limits, script, stop };
    let monitor = match &plan.device {
        Device::Cuda { index, .. } => Some(Monitor::open(*index)),
        Device::Virtual { .. } => None,
    };
    if let Some(Err(reason)) = &monitor {
        run.record(&Event::Note {
            text: format!("clocks, temperature and power are unavailable: {reason}"),
        })?;
    }
    let monitor = monitor.and_then(Result::ok);
    let bench = Bench {
        op,
        plan,
        answers,
        compiler,
        factory: &factory,
        run,
        monitor: monitor.as_ref(),
        folder: &folder,
        tell,
    };
    let outcome = bench.run_all();
    // The folder holds inputs and outputs of the last problem, which are no longer needed.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

/// A bench in progress.
pub(super) struct Bench<'a, O: Op + ?Sized> {
    pub(super) op: &'a O,
    pub(super) plan: &'a BenchPlan<'a, O::Problem>,
    answers: &'a AnswerCache<O>,
    compiler: &'a Compiler,
    pub(super) factory: &'a WorkerFactory<'a>,
    pub(super) run: &'a Run,
    pub(super) monitor: Option<&'a Monitor>,
    pub(super) folder: &'a Path,
    pub(super) tell: &'a dyn Fn(&str),
}

/// A subject that takes part in a problem.
pub(super) struct Participant {
    /// Its index among all subjects.
    pub(super) index: usize,
    pub(super) key: StageKey,
    /// The build request for a kernel's worker. A peer has nothing to build.
    pub(super) build: Option<WorkerRequest>,
    /// What the op grants its kernel. Known after the build.
    pub(super) extra_tolerance: Option<ExtraTolerance>,
}

/// A problem with its draws, references and files, which all participants share.
pub(super) struct ProblemInputs<'p, O: Op + ?Sized> {
    pub(super) problem: &'p O::Problem,
    pub(super) name: String,
    pub(super) draws: Draws,
    /// The inputs of the launches before timing, with their references.
    answers: Vec<Arc<InputsWithAnswer<O>>>,
    /// The trial on inputs of all classes, with its references. `None` if every participating kernel was checked
    /// before.
    classes: Option<Classes<O>>,
    /// The problem and the files of its inputs, in the format of peers.
    peer: Option<(serde_json::Value, IndexMap<String, PathBuf>)>,
}

struct Classes<O: Op + ?Sized> {
    case: TrialCase<O::Problem>,
    answers: Vec<Arc<InputsWithAnswer<O>>>,
}

impl<O: Op + ?Sized> Bench<'_, O> {
    fn run_all(&self) -> Result<(), StageError> {
        let processes = self.plan.processes_per_subject();
        let subjects = self.plan.subjects.iter();
        let mut all_workers: Vec<SubjectWorkers<'_, '_>> =
            subjects.map(|it| SubjectWorkers::new(it, processes)).collect();
        self.start_workers(&mut all_workers)?;
        self.ceilings(&mut all_workers)?;
        for problem in &self.plan.problems {
            self.problem(&mut all_workers, problem)?;
        }
        for target in targets::judge(self.op, &self.plan.targets, self.plan, &self.run.state()) {
            self.run.record(&Event::Target { target })?;
        }
        Ok(())
    }

    pub(super) fn check_stop(&self) -> Result<(), StageError> {
        if self.factory.stop.load(Ordering::Relaxed) { Err(StageError::Stopped) } else { Ok(()) }
    }

    /// Starts all processes and records the version of every baseline. All processes are started before the first reply
    /// is awaited.
    fn start_workers(&self, all_workers: &mut [SubjectWorkers<'_, '_>]) -> Result<(), StageError> {
        let is_peer =
            |workers: &SubjectWorkers<'_, '_>| matches!(workers.subject.kind, SubjectKind::Peer { .. });
        let mut sent: Vec<Result<(), WorkerError>> = Vec::new();
        for workers in all_workers.iter_mut() {
            // If a kernel's worker does not start, the build request reports it.
            sent.push(workers.processes().try_for_each(|process| {
                if is_peer(workers) {
                    workers.send(self.factory, process, &WorkerRequest::Hello)
                } else {
                    workers.start(self.factory, process)
                }
            }));
        }
        for (workers, sent) in all_workers.iter_mut().zip(sent) {
            let name = workers.subject.name.clone();
            if is_peer(workers) {
                match sent.and_then(|()| self.version(workers)) {
                    Ok(version) => workers.version = Some(version),
                    Err(WorkerError::Stopped) => return Err(StageError::Stopped),
                    Err(error) => workers.missing = Some(error.to_string()),
                }
                let version = match (&workers.version, &workers.missing) {
                    (Some(version), _) => Fact::Known(version.clone()),
                    (None, reason) => Fact::unavailable(reason.as_deref().unwrap_or_default()),
                };
                if let Some(reason) = &workers.missing {
                    (self.tell)(&format!("{name} is unavailable: {reason}"));
                }
                self.run.record(&Event::Baseline { name, version })?;
            } else if workers.subject.is_baseline {
                let version = Fact::Known(format!("{OWN_VERSION_PREFIX}{}", env!("CARGO_PKG_VERSION")));
                self.run.record(&Event::Baseline { name, version })?;
            }
        }
        Ok(())
    }

    /// Returns the version of a peer. All its processes must report the same version.
    fn version(&self, workers: &mut SubjectWorkers<'_, '_>) -> Result<String, WorkerError> {
        let mut known: Option<String> = None;
        for process in workers.processes() {
            let version = match workers.answer(self.factory, process, &WorkerRequest::Hello)? {
                WorkerReply::Ready { version } => version,
                other => return Err(unexpected_reply(&other)),
            };
            if let Some(first) = known.as_ref().filter(|first| **first != version) {
                let reason = format!("its processes report different versions: {first} and {version}");
                return Err(WorkerError::Failed { failure: FailureKind::Other, reason });
            }
            known = Some(version);
        }
        known.ok_or_else(|| WorkerError::Failed {
            failure: FailureKind::Other,
            reason: "it has no process".to_owned(),
        })
    }

    /// Measures the ceilings of the device, once per run.
    fn ceilings(&self, all_workers: &mut [SubjectWorkers<'_, '_>]) -> Result<(), StageError> {
        let is_virtual = matches!(self.plan.device, Device::Virtual { .. });
        if is_virtual || !self.plan.ceilings || !self.run.state().ceilings.is_empty() {
            return Ok(());
        }
        let note =
            |error: &WorkerError, what: &str| Event::Note { text: format!("{what} unavailable: {error}") };
        let is_kernel = |workers: &&mut SubjectWorkers<'_, '_>| workers.subject.is_kernel();
        if let Some(workers) = all_workers.iter_mut().find(is_kernel) {
            match workers.ask(self.factory, 0, &WorkerRequest::Ceilings) {
                Ok(WorkerReply::Ceilings { ceilings }) => {
                    for ceiling in ceilings {
                        self.run.record(&Event::Ceiling { ceiling })?;
                    }
                }
                Ok(_) => {}
                Err(WorkerError::Stopped) => return Err(StageError::Stopped),
                Err(error) => self.run.record(&note(&error, "copy bandwidth and launch floor are"))?,
            }
        }
        let mut types: Vec<&str> =
            self.plan.problems.iter().filter_map(|it| self.op.matrix_type(it)).collect();
        types.sort_unstable();
        types.dedup();
        for dtype in types {
            let Some(workers) = all_workers.iter_mut().find(|workers| workers.version.is_some()) else {
                let text = format!("the {dtype} matrix rate is unavailable: no peer to measure it with");
                self.run.record(&Event::Note { text })?;
                continue;
            };
            match workers.ask(self.factory, 0, &WorkerRequest::Matrix { dtype: dtype.to_owned() }) {
                Ok(WorkerReply::MatrixRate(rate)) => {
                    let speed = Speed::MatrixTflops(rate.tflops);
                    let ceiling = Ceiling { speed, matrix: Some(dtype.to_owned()), samples: rate.samples };
                    self.run.record(&Event::Ceiling { ceiling })?;
                }
                Ok(_) => {}
                Err(WorkerError::Stopped) => return Err(StageError::Stopped),
                Err(error) => self.run.record(&note(&error, &format!("the {dtype} matrix rate is")))?,
            }
        }
        Ok(())
    }

    fn problem(
        &self,
        all_workers: &mut [SubjectWorkers<'_, '_>],
        problem: &O::Problem,
    ) -> Result<(), StageError> {
        self.check_stop()?;
        let name = problem.to_string();
        let virtual_device = matches!(self.plan.device, Device::Virtual { .. });
        let mut participants = self.participants(all_workers, problem, &name)?;
        let state = self.run.state();
        // Times are comparable only within a session, so an incomplete session is repeated as a whole.
        if participants.iter().all(|participant| state.finished(&participant.key)) {
            (self.tell)(&format!("{name}: nothing left to do"));
            return Ok(());
        }
        // A subject that failed is not tried again. One that was timed is timed again, together with the others.
        let failed = |key: &StageKey| {
            matches!(state.stages.get(key), Some(StageState::Finished(StageOutcome::Failed { .. })))
        };
        participants.retain(|it| if virtual_device { !state.finished(&it.key) } else { !failed(&it.key) });
        (self.tell)(&format!("{name}: building and checking {}", count(participants.len(), "subject")));
        for participant in &participants {
            self.run.record(&Event::StageStarted { key: participant.key.clone() })?;
        }
        let mut alive = Vec::new();
        for participant in participants {
            // The first processes of all subjects compile at the same time. `build` waits for each of them.
            let workers = &mut all_workers[participant.index];
            let sent = match &participant.build {
                Some(request) => workers.send(self.factory, 0, request),
                None => Ok(()),
            };
            self.keep_or_fail(&mut alive, participant, Stage::Build, sent)?;
        }
        // The references are computed while the workers compile.
        let draws = Draws::new(self.op, &name, self.plan.secret, self.plan.class.as_deref());
        let answers = self.answers_for(problem, &draws.timed[..2])?;
        let is_tried = |it: &Participant| {
            it.build.is_some() && all_workers[it.index].subject.check != SubjectCheck::DoneBefore
        };
        let classes = if alive.iter().any(is_tried) {
            let case = TrialCase::classes(self.op, problem, draws.classes);
            let answers = self.answers_for(&case.problem, &case.draws)?;
            Some(Classes { case, answers })
        } else {
            None
        };
        if let Some(Classes { case, .. }) = &classes
            && let Some(note) = trial::vacuous_note(self.op, &case.problem, case.seed)?
        {
            let text = format!("{name}: {note}");
            (self.tell)(&text);
            if !self.run.state().notes.contains(&text) {
                self.run.record(&Event::Note { text })?;
            }
        }
        let has_peers =
            alive.iter().any(|it| matches!(all_workers[it.index].subject.kind, SubjectKind::Peer { .. }));
        let peer = if has_peers { Some(self.peer_files(problem, &answers[0].inputs)?) } else { None };
        let errors = self.error_case(problem, draws.classes, has_peers)?;
        let given: ProblemInputs<'_, O> = ProblemInputs { problem, name, draws, answers, classes, peer };

        let alive = self.build(all_workers, alive)?;
        let mut begun = Vec::new();
        for participant in alive {
            let workers = &mut all_workers[participant.index];
            let begins = self.runs_at_once(workers);
            // Errors are recorded first: those of a kernel that is wrong are of interest, too.
            let measured = match &errors {
                Some(case) => self.record_errors(workers, &participant, case)?,
                None => Ok(()),
            };
            let tried = match measured {
                Ok(()) if begins => self.try_classes(workers, &participant, &given)?,
                other => other,
            };
            let sent = tried.and_then(|()| if begins { self.begin_run(workers, &given) } else { Ok(()) });
            self.keep_or_fail(&mut begun, participant, Stage::Check, sent)?;
        }
        let mut correct = Vec::new();
        for participant in begun {
            let workers = &mut all_workers[participant.index];
            let begun = self.runs_at_once(workers);
            let mut outcome = if begun { Ok(()) } else { self.try_classes(workers, &participant, &given)? };
            if outcome.is_ok() {
                outcome = self.check(workers, &participant, &given)?;
            }
            self.keep_or_fail(&mut correct, participant, Stage::Check, outcome)?;
            if virtual_device && let Some(participant) = correct.pop() {
                self.model(&mut all_workers[participant.index], participant, problem)?;
            }
        }
        if virtual_device { Ok(()) } else { self.time(all_workers, correct, &given) }
    }

    /// Returns the subjects that take part in a problem. Records the others with the reason.
    fn participants(
        &self,
        all_workers: &[SubjectWorkers<'_, '_>],
        problem: &O::Problem,
        name: &str,
    ) -> Result<Vec<Participant>, StageError> {
        let mut participants = Vec::new();
        let mut refused: IndexMap<String, usize> = IndexMap::new();
        for (index, workers) in all_workers.iter().enumerate() {
            let subject = workers.subject;
            match self.identity(workers, problem) {
                Ok((identity, build)) => {
                    let key = StageKey::new(Stage::Bench, name, &subject.name, identity);
                    participants.push(Participant { index, key, build, extra_tolerance: None });
                }
                Err((failure, reason)) => {
                    let key = StageKey::new(Stage::Bench, name, &subject.name, "");
                    if self.run.state().stages.contains_key(&key) {
                        continue;
                    }
                    let outcome = StageOutcome::Skipped { reason: reason.clone() };
                    if failure == FailureKind::Refused {
                        self.record_failure(&key, Stage::Build, failure, &reason, outcome)?;
                        *refused.entry(reason).or_default() += 1;
                    } else {
                        self.fail(&key, Stage::Build, failure, &reason, outcome)?;
                    }
                }
            }
        }
        // Often all presets of a family are refused for the same reason.
        for (reason, subjects) in refused {
            (self.tell)(&format!("{name}: {} not run: {reason}", count(subjects, "subject")));
        }
        Ok(participants)
    }

    /// Returns the key of a subject's results on a problem (the build hash or a peer's version), and the build request.
    fn identity(
        &self,
        workers: &SubjectWorkers<'_, '_>,
        problem: &O::Problem,
    ) -> Result<(String, Option<WorkerRequest>), (FailureKind, String)> {
        let device = &self.plan.device;
        let found = match &workers.subject.kind {
            SubjectKind::Peer { .. } => {
                let missing = || workers.missing.clone().unwrap_or_else(|| "unavailable".to_owned());
                let version = workers.version.clone().ok_or_else(|| (FailureKind::Refused, missing()))?;
                return Ok((version, None));
            }
            SubjectKind::Kernel { family, preset, knobs } => {
                dispatch::candidate(self.op, family, preset.as_deref(), knobs, (problem, device))
                    .map(|candidate| (*family, candidate))
            }
            SubjectKind::Chosen { catalog } => dispatch::choose(self.op, catalog, device, problem),
        };
        let found = found.and_then(|found| self.op.check_is_not_reference(found.0).map(|()| found));
        let (family, candidate) = found.map_err(|refusal| (FailureKind::Refused, refusal.to_string()))?;
        let hash = build_hash(family, &candidate, device, self.compiler)?;
        let candidate = CandidateName::new(family, &candidate);
        Ok((hash, Some(WorkerRequest::Build { candidate, problem: problem.to_string() })))
    }

    /// Waits for the builds of the first processes. The other processes then find the builds in the cache.
    fn build(
        &self,
        all_workers: &mut [SubjectWorkers<'_, '_>],
        participants: Vec<Participant>,
    ) -> Result<Vec<Participant>, StageError> {
        let mut alive = Vec::new();
        for mut participant in participants {
            let workers = &mut all_workers[participant.index];
            let Some(request) = &participant.build else {
                alive.push(participant);
                continue;
            };
            let outcome = match workers.answer(self.factory, 0, request).and_then(built) {
                Ok(first) => {
                    participant.extra_tolerance.clone_from(&first.extra_tolerance);
                    for note in first.notes.iter().chain(first.extra_tolerance.iter().map(|it| &it.note)) {
                        let text = format!("{}: {note}", participant.key.of.subject);
                        if !self.run.state().notes.contains(&text) {
                            self.run.record(&Event::Note { text })?;
                        }
                    }
                    let event = Event::Built { of: participant.key.of.clone(), build: first.build };
                    self.run.record(&event)?;
                    let mut others = workers.processes().skip(1);
                    others.try_for_each(|process| {
                        workers.ask(self.factory, process, request).and_then(built).map(|_| ())
                    })
                }
                Err(error) => Err(error),
            };
            if let Err(WorkerError::Lost { .. }) = outcome {
                workers.stop_from(0); // Requests and replies may no longer correspond.
            }
            self.keep_or_fail(&mut alive, participant, Stage::Build, outcome)?;
        }
        Ok(alive)
    }

    /// Runs the first process of a kernel on inputs of all classes, on the cut problem. Then builds the kernel that
    /// will be timed again.
    fn try_classes(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
    ) -> Result<Result<(), WorkerError>, StageError> {
        let Some(build @ WorkerRequest::Build { candidate, .. }) = &participant.build else {
            return Ok(Ok(()));
        };
        let Some(Classes { case, answers }) = &given.classes else { return Ok(Ok(())) };
        if workers.subject.check == SubjectCheck::DoneBefore {
            return Ok(Ok(()));
        }
        let part = WorkerRequest::Build { candidate: candidate.clone(), problem: case.problem.to_string() };
        let run = WorkerRequest::Run {
            draws: case.draws.clone(),
            steps: case.steps.clone(),
            seed: case.seed,
            checks: if self.runs_checkers(workers.subject) { vgpu::Checks::All } else { vgpu::Checks::None },
        };
        let mut judged = || -> Result<JudgedTrial, WorkerError> {
            let extra = workers.ask(self.factory, 0, &part).and_then(built)?.extra_tolerance;
            let launches = match workers.ask(self.factory, 0, &run)? {
                WorkerReply::Ran { launches } => trial_launches(launches),
                other => return Err(unexpected_reply(&other)),
            };
            let references: Vec<_> = answers.iter().map(|it| (&it.inputs, &it.reference)).collect();
            let judged = trial::judge(self.op, extra.as_ref(), &case.steps, &references, &launches)
                .ok_or_else(no_launch_error)?;
            workers.ask(self.factory, 0, build).and_then(built)?;
            Ok(judged)
        };
        let judged = match judged() {
            Ok(judged) => judged,
            Err(error) => {
                // The worker may have sent an unexpected reply, so requests and replies may no longer correspond.
                workers.stop_from(0);
                return Ok(Err(error));
            }
        };
        if judged.complaints.is_empty() {
            return Ok(Ok(()));
        }
        let classes: Vec<&str> = case.draws.iter().map(|draw| draw.class.as_str()).collect();
        let check = check_record(judged);
        let complaints = complaint_text(&check).unwrap_or_default();
        let reason =
            format!("on {} with inputs of the classes {}: {complaints}", case.problem, classes.join(", "));
        self.run.record(&Event::Checked { of: participant.key.of.clone(), check })?;
        Ok(Err(WorkerError::Failed { failure: FailureKind::WrongAnswer, reason }))
    }

    /// Writes the inputs of a problem to files for peers.
    fn peer_files(
        &self,
        problem: &O::Problem,
        inputs: &O::Inputs,
    ) -> Result<(serde_json::Value, IndexMap<String, PathBuf>), StageError> {
        let peer = self.op.peer_problem(problem, inputs);
        if !peer.untimed_conversion.is_empty() {
            let text =
                format!("peers on {problem}: {}; their times do not include this", peer.untimed_conversion);
            self.run.record(&Event::Note { text })?;
        }
        let files = self.input_files(&peer, "")?;
        Ok((peer.fields, files))
    }

    /// Writes inputs to files with this prefix.
    pub(super) fn input_files(
        &self,
        peer: &PeerProblem,
        prefix: &str,
    ) -> Result<IndexMap<String, PathBuf>, StageError> {
        let mut files = IndexMap::new();
        for input in &peer.inputs {
            let path = self.folder.join(format!("input-{prefix}{}", input.name));
            fs::write(&path, input.bytes.as_slice())
                .map_err(|error| StageError::Io { path: path.clone(), error })?;
            files.insert(input.name.clone(), path);
        }
        Ok(files)
    }

    /// Runs every process of a subject once, and compares each answer with the reference.
    fn check(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
    ) -> Result<Result<(), WorkerError>, StageError> {
        let begun = self.runs_at_once(workers);
        for process in workers.processes() {
            if let Err(error) = self.check_process(workers, process, participant, given)? {
                if begun {
                    // Nobody will read the replies of the remaining processes, so they are stopped. Requests and
                    // replies of a lost process may no longer correspond, so it is stopped too.
                    let in_step = matches!(error, WorkerError::Failed { .. });
                    workers.stop_from(process + usize::from(in_step));
                }
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// Whether a subject's launches on the cut problem run under all checkers of the virtual GPU. The launches at full
    /// size do not: they would take several times as long.
    fn runs_checkers(&self, subject: &Subject<'_>) -> bool {
        let is_virtual = matches!(self.plan.device, Device::Virtual { .. });
        subject.is_kernel() && is_virtual && subject.check == SubjectCheck::Whole
    }

    /// Whether a subject's processes all start their run before the first reply is awaited. On a GPU a kernel's worker
    /// spends most of the time on making the inputs, so the runs overlap. A virtual GPU uses every core for one run,
    /// and a peer must load its inputs first.
    fn runs_at_once(&self, workers: &SubjectWorkers<'_, '_>) -> bool {
        workers.subject.is_kernel() && matches!(self.plan.device, Device::Cuda { .. })
    }

    /// Sends the run request to all processes. If one fails, all are stopped.
    fn begin_run(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        given: &ProblemInputs<'_, O>,
    ) -> Result<(), WorkerError> {
        let mut processes = workers.processes();
        let subject = workers.subject;
        let request = self.run_request(subject, given);
        let sent = processes.try_for_each(|process| workers.send(self.factory, process, &request));
        if sent.is_err() {
            workers.stop_from(0);
        }
        sent
    }

    fn run_request(&self, subject: &Subject<'_>, given: &ProblemInputs<'_, O>) -> WorkerRequest {
        let steps = self.steps(subject);
        // The third set of inputs is for timing, and a virtual GPU is not timed.
        let sets = if matches!(self.plan.device, Device::Virtual { .. }) { steps.len() } else { 3 };
        WorkerRequest::Run {
            draws: given.draws.timed[..sets].to_vec(),
            steps: steps.to_vec(),
            seed: given.draws.environments,
            checks: vgpu::Checks::None,
        }
    }

    /// Returns the launches at full size before timing. On the virtual GPU a launch takes as long as everything else
    /// together, so the last of the usual launches is made on the cut problem only (see `try_classes`).
    fn steps(&self, subject: &Subject<'_>) -> &'static [TrialStep] {
        match self.plan.device {
            Device::Virtual { .. } if subject.check == SubjectCheck::ConfirmedLater => &TrialStep::USUAL[..1],
            Device::Virtual { .. } => &TrialStep::USUAL[..2],
            Device::Cuda { .. } => &TrialStep::USUAL,
        }
    }

    /// Returns the inputs of the draws with their references.
    pub(super) fn answers_for(
        &self,
        problem: &O::Problem,
        draws: &[op::InputDraw],
    ) -> Result<Vec<Arc<InputsWithAnswer<O>>>, StageError> {
        let answer = |draw| Ok(self.answers.to(self.op, problem, draw)?);
        draws.iter().map(answer).collect()
    }

    fn check_process(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        process: usize,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
    ) -> Result<Result<(), WorkerError>, StageError> {
        let subject = workers.subject;
        let mut answer = || -> Result<JudgedTrial, WorkerError> {
            if let (SubjectKind::Peer { name }, Some((fields, inputs))) = (&subject.kind, &given.peer) {
                let (fields, inputs) = (fields.clone(), inputs.clone());
                let request = WorkerRequest::Load { name: name.clone(), fields, inputs };
                workers.ask(self.factory, process, &request)?;
            }
            let request = self.run_request(subject, given);
            if !self.runs_at_once(workers) {
                workers.send(self.factory, process, &request)?;
            }
            let ran = match workers.answer(self.factory, process, &request)? {
                WorkerReply::Ran { launches } => launches,
                other => return Err(unexpected_reply(&other)),
            };
            let launches = trial_launches(ran);
            if let SubjectKind::Peer { name } = &subject.kind {
                return self.judge_peer(name, given, launches);
            }
            let references: Vec<_> = given.answers.iter().map(|it| (&it.inputs, &it.reference)).collect();
            trial::judge(
                self.op,
                participant.extra_tolerance.as_ref(),
                self.steps(subject),
                &references,
                &launches,
            )
            .ok_or_else(no_launch_error)
        };
        let judged = match answer() {
            Ok(judged) => judged,
            Err(error) => return Ok(Err(error)),
        };
        let sanitized = self.runs_checkers(subject);
        let check = CheckRecord { sanitized, ..check_record(judged) };
        let complaints = complaint_text(&check);
        self.run.record(&Event::Checked { of: participant.key.of.clone(), check })?;
        Ok(match complaints {
            None => Ok(()),
            Some(reason) => {
                let wrong = WorkerError::Failed { failure: FailureKind::WrongAnswer, reason };
                Err(wrong.of_process(process, workers.processes().len()))
            }
        })
    }

    /// Judges a peer, which runs once, on the first inputs.
    fn judge_peer(
        &self,
        name: &str,
        given: &ProblemInputs<'_, O>,
        launches: Vec<TrialLaunch>,
    ) -> Result<JudgedTrial, WorkerError> {
        let TrialLaunch { outputs, mut complaints } =
            launches.into_iter().next().ok_or_else(no_launch_error)?;
        let InputsWithAnswer { inputs, reference } = &*given.answers[0];
        let judgement = self.op.judge_peer(name, inputs, reference, outputs);
        complaints.extend(judgement.complaints.iter().cloned());
        let wrong = (!judgement.complaints.is_empty()).then_some(0);
        let share = judgement.share;
        Ok(JudgedTrial { judgement, complaints, wrong, launches: 1, is_near: false, share })
    }

    /// Records the modelled time of a kernel whose answer was correct.
    fn model(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: Participant,
        problem: &O::Problem,
    ) -> Result<(), StageError> {
        let reply = workers.ask(self.factory, 0, &WorkerRequest::Model).and_then(|reply| match reply {
            WorkerReply::Modelled(modelled) => Ok(modelled),
            other => Err(unexpected_reply(&other)),
        });
        let work = self.op.work(problem);
        let reply = reply.and_then(|modelled| {
            let matrix = self.op.matrix_type(problem);
            let time = Time::Modelled(modelled.time_us);
            match implausible_reason(self.plan.device.gpu(), time, Some((work, matrix))) {
                None => Ok(modelled),
                Some(reason) => Err(implausible(&reason)),
            }
        });
        if let Ok(modelled) = &reply {
            let modelled = Modelled {
                gpu: modelled.gpu.clone(),
                time_us: modelled.time_us,
                limiter: Some(modelled.limiter.clone()),
                work: Some(work),
                model: Some(vgpu::model::VERSION),
                counts: Some(modelled.counts),
            };
            self.run.record(&Event::Modelled { of: participant.key.of.clone(), modelled })?;
        }
        let mut done = Vec::new();
        self.keep_or_fail(&mut done, participant, Stage::Bench, reply.map(|_| ()))?;
        self.finish(done)
    }

    /// Records that the participants finished the stage.
    pub(super) fn finish(&self, participants: Vec<Participant>) -> Result<(), StageError> {
        for participant in participants {
            self.run.record(&Event::StageFinished { key: participant.key, outcome: StageOutcome::Done })?;
        }
        Ok(())
    }

    /// Keeps a participant whose outcome is good; records the failure of any other.
    pub(super) fn keep_or_fail(
        &self,
        alive: &mut Vec<Participant>,
        participant: Participant,
        stage: Stage,
        outcome: Result<(), WorkerError>,
    ) -> Result<(), StageError> {
        match outcome {
            Ok(()) => alive.push(participant),
            Err(WorkerError::Stopped) => return Err(StageError::Stopped),
            Err(WorkerError::Failed { failure, reason } | WorkerError::Lost { failure, reason }) => {
                let outcome = StageOutcome::Failed { reason: reason.clone() };
                self.fail(&participant.key, stage, failure, &reason, outcome)?;
            }
        }
        Ok(())
    }

    fn fail(
        &self,
        key: &StageKey,
        stage: Stage,
        failure: FailureKind,
        reason: &str,
        outcome: StageOutcome,
    ) -> Result<(), StageError> {
        (self.tell)(&format!("{} failed on {}: {failure}: {reason}", key.of.subject, key.of.problem));
        self.record_failure(key, stage, failure, reason, outcome)
    }

    fn record_failure(
        &self,
        key: &StageKey,
        stage: Stage,
        failure: FailureKind,
        reason: &str,
        outcome: StageOutcome,
    ) -> Result<(), StageError> {
        let (of, reason) = (key.of.clone(), reason.to_owned());
        self.run.record(&Event::CandidateFailed { of, stage, failure, reason })?;
        self.run.record(&Event::StageFinished { key: key.clone(), outcome })?;
        Ok(())
    }
}

/// Returns the build hash of a candidate, or why the candidate cannot be built.
pub(crate) fn build_hash(
    family: &Family,
    candidate: &Candidate,
    device: &Device,
    compiler: &Compiler,
) -> Result<String, (FailureKind, String)> {
    let request = family.request(candidate, device.target()).map_err(|error| {
        let kind = match error {
            family::SettingError::SharedMemory { .. } | family::SettingError::Threads { .. } => {
                FailureKind::TooLarge
            }
            _ => FailureKind::Refused,
        };
        (kind, error.to_string())
    })?;
    Ok(compiler.hash(&request))
}

/// Converts a judged trial to the record in the log.
pub(crate) fn check_record(judged: JudgedTrial) -> CheckRecord {
    let finite = |value: f64| value.is_finite().then_some(value);
    let JudgedTrial { judgement: Judgement { error, limit, .. }, complaints, launches, .. } = judged;
    CheckRecord {
        passed: complaints.is_empty(),
        error: finite(error),
        limit: finite(limit),
        cases: launches as u32,
        complaints,
        repeats: None,
        sanitized: false,
    }
}

/// Converts a worker's launches to launches that can be judged.
pub(crate) fn trial_launches(launches: Vec<LaunchReply>) -> Vec<TrialLaunch> {
    let launch = |LaunchReply { outputs, complaints, .. }: LaunchReply| TrialLaunch { outputs, complaints };
    launches.into_iter().map(launch).collect()
}

/// The error if a worker launched nothing.
pub(crate) fn no_launch_error() -> WorkerError {
    WorkerError::Lost { failure: FailureKind::Other, reason: "the worker launched nothing".to_owned() }
}

/// Joins the complaints of a check to one text. `None` if the check passed.
pub(crate) fn complaint_text(check: &CheckRecord) -> Option<String> {
    let complaints = |it: &op::Complaint| format!("[{}] {}", it.kind, it.message);
    let complaints: Vec<String> = check.complaints.iter().map(complaints).collect();
    (!complaints.is_empty()).then(|| complaints.join("; "))
}

/// The failure of a subject whose time cannot be true.
pub(super) fn implausible(reason: &str) -> WorkerError {
    WorkerError::Failed { failure: FailureKind::Implausible, reason: format!("[implausible] {reason}") }
}

pub(super) fn built(reply: WorkerReply) -> Result<BuildReply, WorkerError> {
    match reply {
        WorkerReply::Built(built) => Ok(built),
        other => Err(unexpected_reply(&other)),
    }
}

/// The error if a worker sends a reply that does not fit the request.
pub(crate) fn unexpected_reply(reply: &WorkerReply) -> WorkerError {
    WorkerError::Lost {
        failure: FailureKind::Other,
        reason: format!("unexpected reply from the worker: {reply:?}"),
    }
}
