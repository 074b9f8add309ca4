//! A bench from its first worker to its last target.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use family::{Candidate, Family};
use gpu::build::Compiler;
use gpu::device::Device;
use gpu::telemetry::Monitor;
use indexmap::IndexMap;
use op::{Judgement, Op, Refusal, TrialStep, tuned};

use super::answers::{AnswerCache, InputsWithAnswer};
use super::draws::Draws;
use super::floor::implausible;
use super::plan::{BenchPlan, SubjectKind, WorkerCommands};
use super::targets;
use super::workers::{SubjectWorkers, WorkerFactory};
use crate::run::{
    Ceiling, CheckRecord, Event, Fact, FailureKind, LogError, Modelled, OURS, Run, Speed, Stage, StageKey,
    StageOutcome, StageState,
};
use crate::trial::{self, JudgedTrial, TrialCase, TrialLaunch};
use crate::worker::{BuildReply, CandidateName, LaunchReply, WorkerError, WorkerReply, WorkerRequest};

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run was told to stop; what is finished is in its log.
    #[error("stopped")]
    Stopped,
}

/// Measures everything in the plan that the run has not measured yet. `tell` is called with what happens, for people.
pub fn run<O: Op>(
    op: &O,
    plan: &BenchPlan<'_, O::Problem>,
    compiler: &Compiler,
    start: &WorkerCommands<'_>,
    run: &Run,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
) -> Result<(), BenchError> {
    run_with(op, plan, compiler, start, run, &AnswerCache::not_kept(), stop, tell)
}

/// [`run`], with answers that others have made before or will want again.
#[allow(clippy::too_many_arguments)] // They are what a bench is about, each once.
pub fn run_with<O: Op>(
    op: &O,
    plan: &BenchPlan<'_, O::Problem>,
    compiler: &Compiler,
    start: &WorkerCommands<'_>,
    run: &Run,
    answers: &AnswerCache<O>,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
) -> Result<(), BenchError> {
    let folder = run.folder().join("work");
    let io = |error| BenchError::Io { path: folder.clone(), error };
    fs::create_dir_all(&folder).map_err(io)?;
    let script = folder.join("peers.py");
    if let Some(peers) = op.peers() {
        gpu::paths::write_atomically(&script, peers.script.as_bytes()).map_err(io)?;
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
    let outcome = bench.go();
    // Inputs and outputs of the last problem; what they were for is in the log.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

pub(super) struct Bench<'a, O: Op> {
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

/// A member that takes part in a problem.
pub(super) struct Participant {
    /// Among all members.
    pub(super) index: usize,
    pub(super) key: StageKey,
    /// What a kernel's worker is asked to build; a peer has nothing to build.
    build: Option<WorkerRequest>,
    /// Its kernel has the op's extra tolerance. Known once it is built.
    pub(super) extra_tolerance: bool,
}

/// A problem with what everybody needs for it.
pub(super) struct ProblemInputs<'p, O: Op> {
    pub(super) problem: &'p O::Problem,
    pub(super) name: String,
    pub(super) draws: Draws,
    /// The right answers to the inputs of the launches before the timing.
    answers: Vec<Arc<InputsWithAnswer<O>>>,
    /// What classes of inputs are tried on, with the right answers. `None`: every kernel that takes part is known.
    classes: Option<Classes<O>>,
    /// The problem and the files of its inputs, as peers take them.
    peer: Option<(serde_json::Value, IndexMap<String, PathBuf>)>,
}

struct Classes<O: Op> {
    case: TrialCase<O::Problem>,
    answers: Vec<Arc<InputsWithAnswer<O>>>,
}

impl<O: Op> Bench<'_, O> {
    fn go(&self) -> Result<(), BenchError> {
        let processes = self.plan.processes_per_subject();
        let subjects = self.plan.subjects.iter();
        let mut all_workers: Vec<SubjectWorkers<'_, '_>> =
            subjects.map(|it| SubjectWorkers::new(it, processes)).collect();
        self.greet(&mut all_workers)?;
        self.ceilings(&mut all_workers)?;
        for problem in &self.plan.problems {
            self.problem(&mut all_workers, problem)?;
        }
        for target in targets::judge(self.op, &self.plan.targets, self.plan, &self.run.state()) {
            self.run.record(&Event::Target { target })?;
        }
        Ok(())
    }

    pub(super) fn stopped(&self) -> Result<(), BenchError> {
        if self.factory.stop.load(Ordering::Relaxed) { Err(BenchError::Stopped) } else { Ok(()) }
    }

    /// Has every baseline say what it is. All processes are started before any is waited for.
    fn greet(&self, all_workers: &mut [SubjectWorkers<'_, '_>]) -> Result<(), BenchError> {
        let is_peer =
            |workers: &SubjectWorkers<'_, '_>| matches!(workers.subject.kind, SubjectKind::Peer { .. });
        let mut sent: Vec<Result<(), WorkerError>> = Vec::new();
        for workers in all_workers.iter_mut() {
            // A kernel's worker that does not start is found out when it is asked to build.
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
                    Err(WorkerError::Stopped) => return Err(BenchError::Stopped),
                    Err(ended) => workers.missing = Some(ended.to_string()),
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
                let version = Fact::Known(format!("{OURS}{}", env!("CARGO_PKG_VERSION")));
                self.run.record(&Event::Baseline { name, version })?;
            }
        }
        Ok(())
    }

    /// What a peer's processes say they are; they must be one thing.
    fn version(&self, workers: &mut SubjectWorkers<'_, '_>) -> Result<String, WorkerError> {
        let mut known: Option<String> = None;
        for process in workers.processes() {
            let version = match workers.answer(self.factory, process, &WorkerRequest::Hello)? {
                WorkerReply::Ready { version } => version,
                other => return Err(surprise(&other)),
            };
            if let Some(first) = known.as_ref().filter(|first| **first != version) {
                let reason = format!("one of its processes is {first}, another {version}");
                return Err(WorkerError::Failed { failure: FailureKind::Other, reason });
            }
            known = Some(version);
        }
        known.ok_or_else(|| WorkerError::Failed {
            failure: FailureKind::Other,
            reason: "no process".to_owned(),
        })
    }

    /// What the device can do at best, once per run.
    fn ceilings(&self, all_workers: &mut [SubjectWorkers<'_, '_>]) -> Result<(), BenchError> {
        let is_virtual = matches!(self.plan.device, Device::Virtual { .. });
        if is_virtual || !self.plan.ceilings || !self.run.state().ceilings.is_empty() {
            return Ok(());
        }
        let none =
            |ended: &WorkerError, what: &str| Event::Note { text: format!("{what} unavailable: {ended}") };
        let is_kernel = |workers: &&mut SubjectWorkers<'_, '_>| {
            matches!(workers.subject.kind, SubjectKind::Kernel { .. })
        };
        if let Some(workers) = all_workers.iter_mut().find(is_kernel) {
            match workers.ask(self.factory, 0, &WorkerRequest::Ceilings) {
                Ok(WorkerReply::Ceilings { ceilings }) => {
                    for ceiling in ceilings {
                        self.run.record(&Event::Ceiling { ceiling })?;
                    }
                }
                Ok(_) => {}
                Err(WorkerError::Stopped) => return Err(BenchError::Stopped),
                Err(ended) => self.run.record(&none(&ended, "copy bandwidth and launch floor are"))?,
            }
        }
        let mut types: Vec<&str> = self.plan.problems.iter().map(|it| self.op.matrix_type(it)).collect();
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
                Err(WorkerError::Stopped) => return Err(BenchError::Stopped),
                Err(ended) => self.run.record(&none(&ended, &format!("the {dtype} matrix rate is")))?,
            }
        }
        Ok(())
    }

    fn problem(
        &self,
        all_workers: &mut [SubjectWorkers<'_, '_>],
        problem: &O::Problem,
    ) -> Result<(), BenchError> {
        self.stopped()?;
        let name = problem.to_string();
        let virtual_device = matches!(self.plan.device, Device::Virtual { .. });
        let mut participants = self.participants(all_workers, problem, &name)?;
        let state = self.run.state();
        // Times are compared within a session only, so a session is finished as a whole or done again.
        if participants.iter().all(|participant| state.finished(&participant.key)) {
            (self.tell)(&format!("{name}: nothing left to do"));
            return Ok(());
        }
        // One that failed is not tried again; one that was timed is, with the others.
        let failed = |key: &StageKey| {
            matches!(state.stages.get(key), Some(StageState::Finished(StageOutcome::Failed { .. })))
        };
        participants.retain(|it| if virtual_device { !state.finished(&it.key) } else { !failed(&it.key) });
        (self.tell)(&format!("{name}: building and checking {} subjects", participants.len()));
        for participant in &participants {
            self.run.record(&Event::StageStarted { key: participant.key.clone() })?;
        }
        let mut alive = Vec::new();
        for participant in participants {
            // All compile at the same time, in their first processes; each is waited for below.
            let workers = &mut all_workers[participant.index];
            let sent = match &participant.build {
                Some(ask) => workers.send(self.factory, 0, ask),
                None => Ok(()),
            };
            self.keep(&mut alive, participant, Stage::Build, sent)?;
        }
        // The right answers, meanwhile.
        let draws = Draws::new(self.op, &name, self.plan.secret);
        let answers = self.right(problem, &draws.timed[..2])?;
        let is_tried = |it: &Participant| it.build.is_some() && !all_workers[it.index].subject.is_known;
        let classes = if alive.iter().any(is_tried) {
            let case = TrialCase::classes(self.op, problem, draws.classes);
            let answers = self.right(&case.problem, &case.draws)?;
            Some(Classes { case, answers })
        } else {
            None
        };
        let has_peers =
            alive.iter().any(|it| matches!(all_workers[it.index].subject.kind, SubjectKind::Peer { .. }));
        let peer = if has_peers { Some(self.peer_files(problem, &answers[0].inputs)?) } else { None };
        let given: ProblemInputs<'_, O> = ProblemInputs { problem, name, draws, answers, classes, peer };

        let alive = self.build(all_workers, alive)?;
        let mut begun = Vec::new();
        for participant in alive {
            let workers = &mut all_workers[participant.index];
            let begins = self.runs_at_once(workers);
            let tried = if begins { self.try_classes(workers, &participant, &given)? } else { Ok(()) };
            let sent = tried.and_then(|()| if begins { self.begin_run(workers, &given) } else { Ok(()) });
            self.keep(&mut begun, participant, Stage::Check, sent)?;
        }
        let mut right = Vec::new();
        for participant in begun {
            let workers = &mut all_workers[participant.index];
            let begun = self.runs_at_once(workers);
            let mut outcome = if begun { Ok(()) } else { self.try_classes(workers, &participant, &given)? };
            if outcome.is_ok() {
                outcome = self.check(workers, &participant, &given)?;
            }
            self.keep(&mut right, participant, Stage::Check, outcome)?;
            if virtual_device && let Some(participant) = right.pop() {
                self.model(&mut all_workers[participant.index], participant, problem)?;
            }
        }
        if virtual_device { Ok(()) } else { self.time(all_workers, right, &given) }
    }

    /// Who takes part in a problem. What cannot is recorded, with the reason.
    fn participants(
        &self,
        all_workers: &[SubjectWorkers<'_, '_>],
        problem: &O::Problem,
        name: &str,
    ) -> Result<Vec<Participant>, BenchError> {
        let mut participants = Vec::new();
        for (index, workers) in all_workers.iter().enumerate() {
            let subject = workers.subject;
            match self.identity(workers, problem) {
                Ok((identity, build)) => {
                    let key = StageKey::new(Stage::Bench, name, &subject.name, identity);
                    participants.push(Participant { index, key, build, extra_tolerance: false });
                }
                Err((failure, reason)) => {
                    let key = StageKey::new(Stage::Bench, name, &subject.name, "");
                    if !self.run.state().stages.contains_key(&key) {
                        self.fail(
                            &key,
                            Stage::Build,
                            failure,
                            &reason,
                            StageOutcome::Skipped { reason: reason.clone() },
                        )?;
                    }
                }
            }
        }
        Ok(participants)
    }

    /// What a subject's results on a problem are keyed by: the build's hash, a peer's version. And what is to be built.
    fn identity(
        &self,
        workers: &SubjectWorkers<'_, '_>,
        problem: &O::Problem,
    ) -> Result<(String, Option<WorkerRequest>), (FailureKind, String)> {
        let device = &self.plan.device;
        match &workers.subject.kind {
            SubjectKind::Peer { .. } => {
                let missing = || workers.missing.clone().unwrap_or_else(|| "unavailable".to_owned());
                let version = workers.version.clone().ok_or_else(|| (FailureKind::Refused, missing()))?;
                Ok((version, None))
            }
            SubjectKind::Kernel { family, preset, knobs } => {
                let candidate =
                    tuned::candidate(self.op, family, preset.as_deref(), knobs, (problem, device))
                        .map_err(|refusal| (FailureKind::Refused, refusal.to_string()))?;
                let hash = build_hash(family, &candidate, device, self.compiler)?;
                let candidate = CandidateName::new(family, &candidate);
                Ok((hash, Some(WorkerRequest::Build { candidate, problem: problem.to_string() })))
            }
        }
    }

    /// Waits for what the first processes were asked to build, and has the others find it built.
    fn build(
        &self,
        all_workers: &mut [SubjectWorkers<'_, '_>],
        participants: Vec<Participant>,
    ) -> Result<Vec<Participant>, BenchError> {
        let mut alive = Vec::new();
        for mut participant in participants {
            let workers = &mut all_workers[participant.index];
            let Some(ask) = &participant.build else {
                alive.push(participant);
                continue;
            };
            let outcome = match workers.answer(self.factory, 0, ask).and_then(built) {
                Ok(first) => {
                    participant.extra_tolerance = first.extra_tolerance.is_some();
                    for note in first.notes.iter().chain(&first.extra_tolerance) {
                        let text = format!("{}: {note}", participant.key.of.subject);
                        if !self.run.state().notes.contains(&text) {
                            self.run.record(&Event::Note { text })?;
                        }
                    }
                    let event = Event::Built { of: participant.key.of.clone(), build: first.build };
                    self.run.record(&event)?;
                    let mut others = workers.processes().skip(1);
                    others.try_for_each(|process| {
                        workers.ask(self.factory, process, ask).and_then(built).map(|_| ())
                    })
                }
                Err(ended) => Err(ended),
            };
            if let Err(WorkerError::Lost { .. }) = outcome {
                workers.dismiss(0); // It may have said something else than it was asked, and be out of step.
            }
            self.keep(&mut alive, participant, Stage::Build, outcome)?;
        }
        Ok(alive)
    }

    /// Has the first process of a kernel run on inputs of other classes than the timed ones, on the problem cut to size,
    /// and then build what it is to be timed with again.
    fn try_classes(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
    ) -> Result<Result<(), WorkerError>, BenchError> {
        let Some(build @ WorkerRequest::Build { candidate, .. }) = &participant.build else {
            return Ok(Ok(()));
        };
        let Some(Classes { case, answers }) = &given.classes else { return Ok(Ok(())) };
        if workers.subject.is_known {
            return Ok(Ok(()));
        }
        let part = WorkerRequest::Build { candidate: candidate.clone(), problem: case.problem.to_string() };
        let run = WorkerRequest::Run {
            draws: case.draws.clone(),
            steps: case.steps.clone(),
            seed: case.seed,
            checks: vgpu::Checks::None,
        };
        let mut judged = || -> Result<JudgedTrial, WorkerError> {
            let extra = workers.ask(self.factory, 0, &part).and_then(built)?.extra_tolerance.is_some();
            let launches = match workers.ask(self.factory, 0, &run)? {
                WorkerReply::Ran { launches } => brought(launches),
                other => return Err(surprise(&other)),
            };
            let right: Vec<_> = answers.iter().map(|it| (&it.inputs, &it.reference)).collect();
            let judged =
                trial::judge(self.op, extra, &case.steps, &right, &launches).ok_or_else(no_launch)?;
            workers.ask(self.factory, 0, build).and_then(built)?;
            Ok(judged)
        };
        let judged = match judged() {
            Ok(judged) => judged,
            Err(ended) => {
                // It may have said something else than it was asked, and be out of step.
                workers.dismiss(0);
                return Ok(Err(ended));
            }
        };
        if judged.complaints.is_empty() {
            return Ok(Ok(()));
        }
        let classes: Vec<&str> = case.draws.iter().map(|draw| draw.class.as_str()).collect();
        let check = check_of(judged);
        let words = complaints_in(&check).unwrap_or_default();
        let reason =
            format!("on {} with inputs of the classes {}: {words}", case.problem, classes.join(", "));
        self.run.record(&Event::Checked { of: participant.key.of.clone(), check })?;
        Ok(Err(WorkerError::Failed { failure: FailureKind::WrongAnswer, reason }))
    }

    /// Writes a problem's inputs for peers.
    fn peer_files(
        &self,
        problem: &O::Problem,
        inputs: &O::Inputs,
    ) -> Result<(serde_json::Value, IndexMap<String, PathBuf>), BenchError> {
        let peer = self.op.peer_problem(problem, inputs);
        if !peer.beforehand.is_empty() {
            let text = format!("peers on {problem}: {}, which is not in their times", peer.beforehand);
            self.run.record(&Event::Note { text })?;
        }
        let mut files = IndexMap::new();
        for input in &peer.inputs {
            let path = self.folder.join(format!("input-{}", input.name));
            fs::write(&path, &input.bytes).map_err(|error| BenchError::Io { path: path.clone(), error })?;
            files.insert(input.name.to_owned(), path);
        }
        Ok((peer.fields, files))
    }

    /// Has every process of a subject run once, and holds each answer against the right one.
    fn check(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
    ) -> Result<Result<(), WorkerError>, BenchError> {
        let begun = self.runs_at_once(workers);
        for process in workers.processes() {
            if let Err(ended) = self.check_process(workers, process, participant, given)? {
                if begun {
                    // Nobody will listen to what the others say. One that was lost may not be in step itself.
                    let in_step = matches!(ended, WorkerError::Failed { .. });
                    workers.dismiss(process + usize::from(in_step));
                }
                return Ok(Err(ended));
            }
        }
        Ok(Ok(()))
    }

    /// On a GPU making the inputs takes a kernel's worker longest, so all begin with their one run at once. A virtual GPU
    /// takes every core by itself; a peer is to load its inputs first.
    fn runs_at_once(&self, workers: &SubjectWorkers<'_, '_>) -> bool {
        matches!(
            (&workers.subject.kind, &self.plan.device),
            (SubjectKind::Kernel { .. }, Device::Cuda { .. })
        )
    }

    /// Has all processes begin with their one run, or none.
    fn begin_run(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        given: &ProblemInputs<'_, O>,
    ) -> Result<(), WorkerError> {
        let mut processes = workers.processes();
        let ask = self.run_ask(given);
        let sent = processes.try_for_each(|process| workers.send(self.factory, process, &ask));
        if sent.is_err() {
            workers.dismiss(0);
        }
        sent
    }

    fn run_ask(&self, given: &ProblemInputs<'_, O>) -> WorkerRequest {
        // A virtual GPU takes no times.
        let sets = if matches!(self.plan.device, Device::Virtual { .. }) { 2 } else { 3 };
        WorkerRequest::Run {
            draws: given.draws.timed[..sets].to_vec(),
            steps: self.steps().to_vec(),
            seed: given.draws.worlds,
            checks: vgpu::Checks::None,
        }
    }

    /// The launches at full size before the timing. On the virtual GPU, where each takes as long as everything else
    /// together, the last of the usual ones is left to the part of the problem that classes are tried on.
    fn steps(&self) -> &'static [TrialStep] {
        match self.plan.device {
            Device::Virtual { .. } => &TrialStep::USUAL[..2],
            Device::Cuda { .. } => &TrialStep::USUAL,
        }
    }

    /// The right answers to inputs of a problem.
    pub(super) fn right(
        &self,
        problem: &O::Problem,
        draws: &[op::InputDraw],
    ) -> Result<Vec<Arc<InputsWithAnswer<O>>>, BenchError> {
        let answer = |draw| Ok(self.answers.to(self.op, problem, draw)?);
        draws.iter().map(answer).collect()
    }

    fn check_process(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        process: usize,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
    ) -> Result<Result<(), WorkerError>, BenchError> {
        let subject = workers.subject;
        let mut answer = || -> Result<JudgedTrial, WorkerError> {
            if let (SubjectKind::Peer { name }, Some((fields, inputs))) = (&subject.kind, &given.peer) {
                let (fields, inputs) = (fields.clone(), inputs.clone());
                let ask = WorkerRequest::Load { name: (*name).to_owned(), fields, inputs };
                workers.ask(self.factory, process, &ask)?;
            }
            let ask = self.run_ask(given);
            if !self.runs_at_once(workers) {
                workers.send(self.factory, process, &ask)?;
            }
            let ran = match workers.answer(self.factory, process, &ask)? {
                WorkerReply::Ran { launches } => launches,
                other => return Err(surprise(&other)),
            };
            let launches = brought(ran);
            if let SubjectKind::Peer { .. } = subject.kind {
                return self.judge_peer(given, launches);
            }
            let right: Vec<_> = given.answers.iter().map(|it| (&it.inputs, &it.reference)).collect();
            trial::judge(self.op, participant.extra_tolerance, self.steps(), &right, &launches)
                .ok_or_else(no_launch)
        };
        let judged = match answer() {
            Ok(judged) => judged,
            Err(ended) => return Ok(Err(ended)),
        };
        let check = check_of(judged);
        let words = complaints_in(&check);
        self.run.record(&Event::Checked { of: participant.key.of.clone(), check })?;
        Ok(match words {
            None => Ok(()),
            Some(reason) => {
                let wrong = WorkerError::Failed { failure: FailureKind::WrongAnswer, reason };
                Err(wrong.of_process(process, workers.processes().len()))
            }
        })
    }

    /// A peer runs once, on the first inputs.
    fn judge_peer(
        &self,
        given: &ProblemInputs<'_, O>,
        launches: Vec<TrialLaunch>,
    ) -> Result<JudgedTrial, WorkerError> {
        let TrialLaunch { outputs, mut complaints } = launches.into_iter().next().ok_or_else(no_launch)?;
        let InputsWithAnswer { inputs, reference } = &*given.answers[0];
        let output = outputs.into_iter().next().unwrap_or_default();
        let judgement = self.op.judge_peer(inputs, reference, output);
        complaints.extend(judgement.complaints.iter().cloned());
        let wrong = (!judgement.complaints.is_empty()).then_some(0);
        Ok(JudgedTrial { judgement, complaints, wrong, launches: 1 })
    }

    /// The modelled time of a run whose answer was right.
    fn model(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: Participant,
        problem: &O::Problem,
    ) -> Result<(), BenchError> {
        let said = workers.ask(self.factory, 0, &WorkerRequest::Model).and_then(|said| match said {
            WorkerReply::Modelled(modelled) => Ok(modelled),
            other => Err(surprise(&other)),
        });
        let work = self.op.work(problem);
        let said = said.and_then(|modelled| {
            let matrix = self.op.matrix_type(problem);
            match implausible(&self.plan.device, work, matrix, modelled.time_us.0) {
                None => Ok(modelled),
                Some(reason) => Err(WorkerError::Failed { failure: FailureKind::Implausible, reason }),
            }
        });
        if let Ok(modelled) = &said {
            let modelled = Modelled {
                gpu: modelled.gpu.clone(),
                time_us: modelled.time_us,
                limiter: Some(modelled.limiter.clone()),
                work: Some(work),
            };
            self.run.record(&Event::Modelled { of: participant.key.of.clone(), modelled })?;
        }
        let mut done = Vec::new();
        self.keep(&mut done, participant, Stage::Bench, said.map(|_| ()))?;
        self.finish(done)
    }

    pub(super) fn finish(&self, participants: Vec<Participant>) -> Result<(), BenchError> {
        for participant in participants {
            self.run.record(&Event::StageFinished { key: participant.key, outcome: StageOutcome::Done })?;
        }
        Ok(())
    }

    /// Goes on with an entrant, or writes down why not.
    pub(super) fn keep(
        &self,
        alive: &mut Vec<Participant>,
        participant: Participant,
        stage: Stage,
        outcome: Result<(), WorkerError>,
    ) -> Result<(), BenchError> {
        match outcome {
            Ok(()) => alive.push(participant),
            Err(WorkerError::Stopped) => return Err(BenchError::Stopped),
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
    ) -> Result<(), BenchError> {
        (self.tell)(&format!("{} is out on {}: {failure}: {reason}", key.of.subject, key.of.problem));
        let (of, reason) = (key.of.clone(), reason.to_owned());
        self.run.record(&Event::CandidateFailed { of, stage, failure, reason })?;
        self.run.record(&Event::StageFinished { key: key.clone(), outcome })?;
        Ok(())
    }
}

/// The hash of what a candidate compiles to, or why it cannot be.
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

/// Launches held against the right answers, as the log has it.
pub(crate) fn check_of(judged: JudgedTrial) -> CheckRecord {
    let finite = |value: f64| value.is_finite().then_some(value);
    let JudgedTrial { judgement: Judgement { error, limit, .. }, complaints, launches, .. } = judged;
    CheckRecord {
        passed: complaints.is_empty(),
        error: finite(error),
        limit: finite(limit),
        cases: launches as u32,
        complaints,
        repeats: None,
    }
}

/// A worker's launches, to be judged.
pub(crate) fn brought(launches: Vec<LaunchReply>) -> Vec<TrialLaunch> {
    let launch = |LaunchReply { outputs, complaints, .. }: LaunchReply| TrialLaunch { outputs, complaints };
    launches.into_iter().map(launch).collect()
}

pub(crate) fn no_launch() -> WorkerError {
    WorkerError::Lost { failure: FailureKind::Other, reason: "it launched nothing".to_owned() }
}

/// What is wrong with an answer, in words.
pub(crate) fn complaints_in(check: &CheckRecord) -> Option<String> {
    let words = |it: &op::Complaint| format!("[{}] {}", it.kind, it.message);
    let words: Vec<String> = check.complaints.iter().map(words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn built(said: WorkerReply) -> Result<BuildReply, WorkerError> {
    match said {
        WorkerReply::Built(built) => Ok(built),
        other => Err(surprise(&other)),
    }
}

pub(crate) fn surprise(said: &WorkerReply) -> WorkerError {
    WorkerError::Lost { failure: FailureKind::Other, reason: format!("it answered {said:?}") }
}
