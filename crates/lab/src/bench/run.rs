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
use op::{Judgement, Op, Refusal, Step, tuned};

use super::answers::{Answer, Answers};
use super::crew::{Member, Office};
use super::draws::Draws;
use super::floor::implausible;
use super::plan::{Maker, Plan, Start};
use super::targets;
use crate::run::{
    Ceiling, Check, Event, Fact, FailureKind, Key, LogError, Modelled, OURS, Run, Speed, Stage, StageOutcome,
    StageState,
};
use crate::trial::{self, Case, Judged, Launch};
use crate::worker::{Ask, Built, CandidateName, Ended, Ran, Say};

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
    plan: &Plan<'_, O::Problem>,
    compiler: &Compiler,
    start: &Start<'_>,
    run: &Run,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
) -> Result<(), BenchError> {
    run_with(op, plan, compiler, start, run, &Answers::not_kept(), stop, tell)
}

/// [`run`], with answers that others have made before or will want again.
#[allow(clippy::too_many_arguments)] // They are what a bench is about, each once.
pub fn run_with<O: Op>(
    op: &O,
    plan: &Plan<'_, O::Problem>,
    compiler: &Compiler,
    start: &Start<'_>,
    run: &Run,
    answers: &Answers<O>,
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
    let office = Office { start, limits: plan.limits, script, stop };
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
        office: &office,
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
    pub(super) plan: &'a Plan<'a, O::Problem>,
    answers: &'a Answers<O>,
    compiler: &'a Compiler,
    pub(super) office: &'a Office<'a>,
    pub(super) run: &'a Run,
    pub(super) monitor: Option<&'a Monitor>,
    pub(super) folder: &'a Path,
    pub(super) tell: &'a dyn Fn(&str),
}

/// A member that takes part in a problem.
pub(super) struct Entrant {
    /// Among all members.
    pub(super) index: usize,
    pub(super) key: Key,
    /// What a kernel's worker is asked to build; a peer has nothing to build.
    build: Option<Ask>,
    /// Its kernel has the op's extra tolerance. Known once it is built.
    pub(super) extra_tolerance: bool,
}

/// A problem with what everybody needs for it.
pub(super) struct Given<'p, O: Op> {
    pub(super) problem: &'p O::Problem,
    pub(super) name: String,
    pub(super) draws: Draws,
    /// The right answers to the inputs of the launches before the timing.
    answers: Vec<Arc<Answer<O>>>,
    /// What classes of inputs are tried on, with the right answers. `None`: every kernel that takes part is known.
    classes: Option<Classes<O>>,
    /// The problem and the files of its inputs, as peers take them.
    peer: Option<(serde_json::Value, IndexMap<String, PathBuf>)>,
}

struct Classes<O: Op> {
    case: Case<O::Problem>,
    answers: Vec<Arc<Answer<O>>>,
}

impl<O: Op> Bench<'_, O> {
    fn go(&self) -> Result<(), BenchError> {
        let crew = self.plan.crew();
        let subjects = self.plan.subjects.iter();
        let mut members: Vec<Member<'_, '_>> = subjects.map(|it| Member::new(it, crew)).collect();
        self.greet(&mut members)?;
        self.ceilings(&mut members)?;
        for problem in &self.plan.problems {
            self.problem(&mut members, problem)?;
        }
        for target in targets::judge(self.op, &self.plan.targets, self.plan, &self.run.state()) {
            self.run.record(&Event::Target { target })?;
        }
        Ok(())
    }

    pub(super) fn stopped(&self) -> Result<(), BenchError> {
        if self.office.stop.load(Ordering::Relaxed) { Err(BenchError::Stopped) } else { Ok(()) }
    }

    /// Has every baseline say what it is. All processes are started before any is waited for.
    fn greet(&self, members: &mut [Member<'_, '_>]) -> Result<(), BenchError> {
        let is_peer = |member: &Member<'_, '_>| matches!(member.subject.maker, Maker::Peer { .. });
        let mut sent: Vec<Result<(), Ended>> = Vec::new();
        for member in members.iter_mut() {
            // A kernel's worker that does not start is found out when it is asked to build.
            sent.push(member.processes().try_for_each(|process| {
                if is_peer(member) {
                    member.send(self.office, process, &Ask::Hello)
                } else {
                    member.start(self.office, process)
                }
            }));
        }
        for (member, sent) in members.iter_mut().zip(sent) {
            let name = member.subject.name.clone();
            if is_peer(member) {
                match sent.and_then(|()| self.version(member)) {
                    Ok(version) => member.version = Some(version),
                    Err(Ended::Stopped) => return Err(BenchError::Stopped),
                    Err(ended) => member.missing = Some(ended.to_string()),
                }
                let version = match (&member.version, &member.missing) {
                    (Some(version), _) => Fact::Known(version.clone()),
                    (None, reason) => Fact::unavailable(reason.as_deref().unwrap_or_default()),
                };
                if let Some(reason) = &member.missing {
                    (self.tell)(&format!("{name} is unavailable: {reason}"));
                }
                self.run.record(&Event::Baseline { name, version })?;
            } else if member.subject.is_baseline {
                let version = Fact::Known(format!("{OURS}{}", env!("CARGO_PKG_VERSION")));
                self.run.record(&Event::Baseline { name, version })?;
            }
        }
        Ok(())
    }

    /// What a peer's processes say they are; they must be one thing.
    fn version(&self, member: &mut Member<'_, '_>) -> Result<String, Ended> {
        let mut known: Option<String> = None;
        for process in member.processes() {
            let version = match member.answer(self.office, process, &Ask::Hello)? {
                Say::Ready { version } => version,
                other => return Err(surprise(&other)),
            };
            if let Some(first) = known.as_ref().filter(|first| **first != version) {
                let reason = format!("one of its processes is {first}, another {version}");
                return Err(Ended::Failed { failure: FailureKind::Other, reason });
            }
            known = Some(version);
        }
        known.ok_or_else(|| Ended::Failed { failure: FailureKind::Other, reason: "no process".to_owned() })
    }

    /// What the device can do at best, once per run.
    fn ceilings(&self, members: &mut [Member<'_, '_>]) -> Result<(), BenchError> {
        let is_virtual = matches!(self.plan.device, Device::Virtual { .. });
        if is_virtual || !self.plan.ceilings || !self.run.state().ceilings.is_empty() {
            return Ok(());
        }
        let none = |ended: &Ended, what: &str| Event::Note { text: format!("{what} unavailable: {ended}") };
        let is_kernel = |member: &&mut Member<'_, '_>| matches!(member.subject.maker, Maker::Kernel { .. });
        if let Some(member) = members.iter_mut().find(is_kernel) {
            match member.ask(self.office, 0, &Ask::Ceilings) {
                Ok(Say::Ceilings { ceilings }) => {
                    for ceiling in ceilings {
                        self.run.record(&Event::Ceiling { ceiling })?;
                    }
                }
                Ok(_) => {}
                Err(Ended::Stopped) => return Err(BenchError::Stopped),
                Err(ended) => self.run.record(&none(&ended, "copy bandwidth and launch floor are"))?,
            }
        }
        let mut types: Vec<&str> = self.plan.problems.iter().map(|it| self.op.matrix_type(it)).collect();
        types.sort_unstable();
        types.dedup();
        for dtype in types {
            let Some(member) = members.iter_mut().find(|member| member.version.is_some()) else {
                let text = format!("the {dtype} matrix rate is unavailable: no peer to measure it with");
                self.run.record(&Event::Note { text })?;
                continue;
            };
            match member.ask(self.office, 0, &Ask::Matrix { dtype: dtype.to_owned() }) {
                Ok(Say::MatrixRate(rate)) => {
                    let speed = Speed::MatrixTflops(rate.tflops);
                    let ceiling = Ceiling { speed, matrix: Some(dtype.to_owned()), samples: rate.samples };
                    self.run.record(&Event::Ceiling { ceiling })?;
                }
                Ok(_) => {}
                Err(Ended::Stopped) => return Err(BenchError::Stopped),
                Err(ended) => self.run.record(&none(&ended, &format!("the {dtype} matrix rate is")))?,
            }
        }
        Ok(())
    }

    fn problem(&self, members: &mut [Member<'_, '_>], problem: &O::Problem) -> Result<(), BenchError> {
        self.stopped()?;
        let name = problem.to_string();
        let virtual_device = matches!(self.plan.device, Device::Virtual { .. });
        let mut entrants = self.entrants(members, problem, &name)?;
        let state = self.run.state();
        // Times are compared within a session only, so a session is finished as a whole or done again.
        if entrants.iter().all(|entrant| state.finished(&entrant.key)) {
            (self.tell)(&format!("{name}: nothing left to do"));
            return Ok(());
        }
        // One that failed is not tried again; one that was timed is, with the others.
        let failed = |key: &Key| {
            matches!(state.stages.get(key), Some(StageState::Finished(StageOutcome::Failed { .. })))
        };
        entrants.retain(|it| if virtual_device { !state.finished(&it.key) } else { !failed(&it.key) });
        (self.tell)(&format!("{name}: building and checking {} subjects", entrants.len()));
        for entrant in &entrants {
            self.run.record(&Event::StageStarted { key: entrant.key.clone() })?;
        }
        let mut alive = Vec::new();
        for entrant in entrants {
            // All compile at the same time, in their first processes; each is waited for below.
            let member = &mut members[entrant.index];
            let sent = match &entrant.build {
                Some(ask) => member.send(self.office, 0, ask),
                None => Ok(()),
            };
            self.keep(&mut alive, entrant, Stage::Build, sent)?;
        }
        // The right answers, meanwhile.
        let draws = Draws::new(self.op, &name, self.plan.secret);
        let answers = self.right(problem, &draws.timed[..2])?;
        let is_tried = |it: &Entrant| it.build.is_some() && !members[it.index].subject.is_known;
        let classes = if alive.iter().any(is_tried) {
            let case = Case::classes(self.op, problem, draws.classes);
            let answers = self.right(&case.problem, &case.draws)?;
            Some(Classes { case, answers })
        } else {
            None
        };
        let has_peers = alive.iter().any(|it| matches!(members[it.index].subject.maker, Maker::Peer { .. }));
        let peer = if has_peers { Some(self.peer_files(problem, &answers[0].inputs)?) } else { None };
        let given: Given<'_, O> = Given { problem, name, draws, answers, classes, peer };

        let alive = self.build(members, alive)?;
        let mut begun = Vec::new();
        for entrant in alive {
            let member = &mut members[entrant.index];
            let begins = self.runs_at_once(member);
            let tried = if begins { self.try_classes(member, &entrant, &given)? } else { Ok(()) };
            let sent = tried.and_then(|()| if begins { self.begin_run(member, &given) } else { Ok(()) });
            self.keep(&mut begun, entrant, Stage::Check, sent)?;
        }
        let mut right = Vec::new();
        for entrant in begun {
            let member = &mut members[entrant.index];
            let begun = self.runs_at_once(member);
            let mut outcome = if begun { Ok(()) } else { self.try_classes(member, &entrant, &given)? };
            if outcome.is_ok() {
                outcome = self.check(member, &entrant, &given)?;
            }
            self.keep(&mut right, entrant, Stage::Check, outcome)?;
            if virtual_device && let Some(entrant) = right.pop() {
                self.model(&mut members[entrant.index], entrant, problem)?;
            }
        }
        if virtual_device { Ok(()) } else { self.time(members, right, &given) }
    }

    /// Who takes part in a problem. What cannot is recorded, with the reason.
    fn entrants(
        &self,
        members: &[Member<'_, '_>],
        problem: &O::Problem,
        name: &str,
    ) -> Result<Vec<Entrant>, BenchError> {
        let mut entrants = Vec::new();
        for (index, member) in members.iter().enumerate() {
            let subject = member.subject;
            match self.identity(member, problem) {
                Ok((identity, build)) => {
                    let key = Key::new(Stage::Bench, name, &subject.name, identity);
                    entrants.push(Entrant { index, key, build, extra_tolerance: false });
                }
                Err((failure, reason)) => {
                    let key = Key::new(Stage::Bench, name, &subject.name, "");
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
        Ok(entrants)
    }

    /// What a subject's results on a problem are keyed by: the build's hash, a peer's version. And what is to be built.
    fn identity(
        &self,
        member: &Member<'_, '_>,
        problem: &O::Problem,
    ) -> Result<(String, Option<Ask>), (FailureKind, String)> {
        let device = &self.plan.device;
        match &member.subject.maker {
            Maker::Peer { .. } => {
                let missing = || member.missing.clone().unwrap_or_else(|| "unavailable".to_owned());
                let version = member.version.clone().ok_or_else(|| (FailureKind::Refused, missing()))?;
                Ok((version, None))
            }
            Maker::Kernel { family, preset, knobs } => {
                let candidate =
                    tuned::candidate(self.op, family, preset.as_deref(), knobs, (problem, device))
                        .map_err(|refusal| (FailureKind::Refused, refusal.to_string()))?;
                let hash = build_hash(family, &candidate, device, self.compiler)?;
                let candidate = CandidateName::of(family, &candidate);
                Ok((hash, Some(Ask::Build { candidate, problem: problem.to_string() })))
            }
        }
    }

    /// Waits for what the first processes were asked to build, and has the others find it built.
    fn build(
        &self,
        members: &mut [Member<'_, '_>],
        entrants: Vec<Entrant>,
    ) -> Result<Vec<Entrant>, BenchError> {
        let mut alive = Vec::new();
        for mut entrant in entrants {
            let member = &mut members[entrant.index];
            let Some(ask) = &entrant.build else {
                alive.push(entrant);
                continue;
            };
            let outcome = match member.answer(self.office, 0, ask).and_then(built) {
                Ok(first) => {
                    entrant.extra_tolerance = first.extra_tolerance.is_some();
                    for note in first.notes.iter().chain(&first.extra_tolerance) {
                        let text = format!("{}: {note}", entrant.key.of.subject);
                        if !self.run.state().notes.contains(&text) {
                            self.run.record(&Event::Note { text })?;
                        }
                    }
                    let event = Event::Built { of: entrant.key.of.clone(), build: first.build };
                    self.run.record(&event)?;
                    let mut others = member.processes().skip(1);
                    others.try_for_each(|process| {
                        member.ask(self.office, process, ask).and_then(built).map(|_| ())
                    })
                }
                Err(ended) => Err(ended),
            };
            if let Err(Ended::Lost { .. }) = outcome {
                member.dismiss(0); // It may have said something else than it was asked, and be out of step.
            }
            self.keep(&mut alive, entrant, Stage::Build, outcome)?;
        }
        Ok(alive)
    }

    /// Has the first process of a kernel run on inputs of other classes than the timed ones, on the problem cut to size,
    /// and then build what it is to be timed with again.
    fn try_classes(
        &self,
        member: &mut Member<'_, '_>,
        entrant: &Entrant,
        given: &Given<'_, O>,
    ) -> Result<Result<(), Ended>, BenchError> {
        let Some(build @ Ask::Build { candidate, .. }) = &entrant.build else { return Ok(Ok(())) };
        let Some(Classes { case, answers }) = &given.classes else { return Ok(Ok(())) };
        if member.subject.is_known {
            return Ok(Ok(()));
        }
        let part = Ask::Build { candidate: candidate.clone(), problem: case.problem.to_string() };
        let run = Ask::Run {
            draws: case.draws.clone(),
            steps: case.steps.clone(),
            seed: case.seed,
            checks: vgpu::Checks::None,
        };
        let mut judged = || -> Result<Judged, Ended> {
            let extra = member.ask(self.office, 0, &part).and_then(built)?.extra_tolerance.is_some();
            let launches = match member.ask(self.office, 0, &run)? {
                Say::Ran { launches } => brought(launches),
                other => return Err(surprise(&other)),
            };
            let right: Vec<_> = answers.iter().map(|it| (&it.inputs, &it.reference)).collect();
            let judged =
                trial::judge(self.op, extra, &case.steps, &right, &launches).ok_or_else(no_launch)?;
            member.ask(self.office, 0, build).and_then(built)?;
            Ok(judged)
        };
        let judged = match judged() {
            Ok(judged) => judged,
            Err(ended) => {
                // It may have said something else than it was asked, and be out of step.
                member.dismiss(0);
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
        self.run.record(&Event::Checked { of: entrant.key.of.clone(), check })?;
        Ok(Err(Ended::Failed { failure: FailureKind::WrongAnswer, reason }))
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
        member: &mut Member<'_, '_>,
        entrant: &Entrant,
        given: &Given<'_, O>,
    ) -> Result<Result<(), Ended>, BenchError> {
        let begun = self.runs_at_once(member);
        for process in member.processes() {
            if let Err(ended) = self.check_process(member, process, entrant, given)? {
                if begun {
                    // Nobody will listen to what the others say. One that was lost may not be in step itself.
                    let in_step = matches!(ended, Ended::Failed { .. });
                    member.dismiss(process + usize::from(in_step));
                }
                return Ok(Err(ended));
            }
        }
        Ok(Ok(()))
    }

    /// On a GPU making the inputs takes a kernel's worker longest, so all begin with their one run at once. A virtual GPU
    /// takes every core by itself; a peer is to load its inputs first.
    fn runs_at_once(&self, member: &Member<'_, '_>) -> bool {
        matches!((&member.subject.maker, &self.plan.device), (Maker::Kernel { .. }, Device::Cuda { .. }))
    }

    /// Has all processes begin with their one run, or none.
    fn begin_run(&self, member: &mut Member<'_, '_>, given: &Given<'_, O>) -> Result<(), Ended> {
        let mut processes = member.processes();
        let ask = self.run_ask(given);
        let sent = processes.try_for_each(|process| member.send(self.office, process, &ask));
        if sent.is_err() {
            member.dismiss(0);
        }
        sent
    }

    fn run_ask(&self, given: &Given<'_, O>) -> Ask {
        // A virtual GPU takes no times.
        let sets = if matches!(self.plan.device, Device::Virtual { .. }) { 2 } else { 3 };
        Ask::Run {
            draws: given.draws.timed[..sets].to_vec(),
            steps: self.steps().to_vec(),
            seed: given.draws.worlds,
            checks: vgpu::Checks::None,
        }
    }

    /// The launches at full size before the timing. On the virtual GPU, where each takes as long as everything else
    /// together, the last of the usual ones is left to the part of the problem that classes are tried on.
    fn steps(&self) -> &'static [Step] {
        match self.plan.device {
            Device::Virtual { .. } => &Step::USUAL[..2],
            Device::Cuda { .. } => &Step::USUAL,
        }
    }

    /// The right answers to inputs of a problem.
    pub(super) fn right(
        &self,
        problem: &O::Problem,
        draws: &[op::Draw],
    ) -> Result<Vec<Arc<Answer<O>>>, BenchError> {
        let answer = |draw| Ok(self.answers.to(self.op, problem, draw)?);
        draws.iter().map(answer).collect()
    }

    fn check_process(
        &self,
        member: &mut Member<'_, '_>,
        process: usize,
        entrant: &Entrant,
        given: &Given<'_, O>,
    ) -> Result<Result<(), Ended>, BenchError> {
        let subject = member.subject;
        let mut answer = || -> Result<Judged, Ended> {
            if let (Maker::Peer { name }, Some((fields, inputs))) = (&subject.maker, &given.peer) {
                let (fields, inputs) = (fields.clone(), inputs.clone());
                let ask = Ask::Load { name: (*name).to_owned(), fields, inputs };
                member.ask(self.office, process, &ask)?;
            }
            let ask = self.run_ask(given);
            if !self.runs_at_once(member) {
                member.send(self.office, process, &ask)?;
            }
            let ran = match member.answer(self.office, process, &ask)? {
                Say::Ran { launches } => launches,
                other => return Err(surprise(&other)),
            };
            let launches = brought(ran);
            if let Maker::Peer { .. } = subject.maker {
                return self.judge_peer(given, launches);
            }
            let right: Vec<_> = given.answers.iter().map(|it| (&it.inputs, &it.reference)).collect();
            trial::judge(self.op, entrant.extra_tolerance, self.steps(), &right, &launches)
                .ok_or_else(no_launch)
        };
        let judged = match answer() {
            Ok(judged) => judged,
            Err(ended) => return Ok(Err(ended)),
        };
        let check = check_of(judged);
        let words = complaints_in(&check);
        self.run.record(&Event::Checked { of: entrant.key.of.clone(), check })?;
        Ok(match words {
            None => Ok(()),
            Some(reason) => {
                let wrong = Ended::Failed { failure: FailureKind::WrongAnswer, reason };
                Err(wrong.of_process(process, member.processes().len()))
            }
        })
    }

    /// A peer runs once, on the first inputs.
    fn judge_peer(&self, given: &Given<'_, O>, launches: Vec<Launch>) -> Result<Judged, Ended> {
        let Launch { outputs, mut complaints } = launches.into_iter().next().ok_or_else(no_launch)?;
        let Answer { inputs, reference } = &*given.answers[0];
        let output = outputs.into_iter().next().unwrap_or_default();
        let judgement = self.op.judge_peer(inputs, reference, output);
        complaints.extend(judgement.complaints.iter().cloned());
        let wrong = (!judgement.complaints.is_empty()).then_some(0);
        Ok(Judged { judgement, complaints, wrong, launches: 1 })
    }

    /// The modelled time of a run whose answer was right.
    fn model(
        &self,
        member: &mut Member<'_, '_>,
        entrant: Entrant,
        problem: &O::Problem,
    ) -> Result<(), BenchError> {
        let said = member.ask(self.office, 0, &Ask::Model).and_then(|said| match said {
            Say::Modelled(modelled) => Ok(modelled),
            other => Err(surprise(&other)),
        });
        let work = self.op.work(problem);
        let said = said.and_then(|modelled| {
            let matrix = self.op.matrix_type(problem);
            match implausible(&self.plan.device, work, matrix, modelled.time_us.0) {
                None => Ok(modelled),
                Some(reason) => Err(Ended::Failed { failure: FailureKind::Implausible, reason }),
            }
        });
        if let Ok(modelled) = &said {
            let modelled = Modelled {
                gpu: modelled.gpu.clone(),
                time_us: modelled.time_us,
                limiter: Some(modelled.limiter.clone()),
                work: Some(work),
            };
            self.run.record(&Event::Modelled { of: entrant.key.of.clone(), modelled })?;
        }
        let mut done = Vec::new();
        self.keep(&mut done, entrant, Stage::Bench, said.map(|_| ()))?;
        self.finish(done)
    }

    pub(super) fn finish(&self, entrants: Vec<Entrant>) -> Result<(), BenchError> {
        for entrant in entrants {
            self.run.record(&Event::StageFinished { key: entrant.key, outcome: StageOutcome::Done })?;
        }
        Ok(())
    }

    /// Goes on with an entrant, or writes down why not.
    pub(super) fn keep(
        &self,
        alive: &mut Vec<Entrant>,
        entrant: Entrant,
        stage: Stage,
        outcome: Result<(), Ended>,
    ) -> Result<(), BenchError> {
        match outcome {
            Ok(()) => alive.push(entrant),
            Err(Ended::Stopped) => return Err(BenchError::Stopped),
            Err(Ended::Failed { failure, reason } | Ended::Lost { failure, reason }) => {
                let outcome = StageOutcome::Failed { reason: reason.clone() };
                self.fail(&entrant.key, stage, failure, &reason, outcome)?;
            }
        }
        Ok(())
    }

    fn fail(
        &self,
        key: &Key,
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
pub(crate) fn check_of(judged: Judged) -> Check {
    let finite = |value: f64| value.is_finite().then_some(value);
    let Judged { judgement: Judgement { error, limit, .. }, complaints, launches, .. } = judged;
    Check {
        passed: complaints.is_empty(),
        error: finite(error),
        limit: finite(limit),
        cases: launches as u32,
        complaints,
        repeats: None,
    }
}

/// A worker's launches, to be judged.
pub(crate) fn brought(launches: Vec<Ran>) -> Vec<Launch> {
    let launch = |Ran { outputs, complaints, .. }: Ran| Launch { outputs, complaints };
    launches.into_iter().map(launch).collect()
}

pub(crate) fn no_launch() -> Ended {
    Ended::Lost { failure: FailureKind::Other, reason: "it launched nothing".to_owned() }
}

/// What is wrong with an answer, in words.
pub(crate) fn complaints_in(check: &Check) -> Option<String> {
    let words = |it: &op::Complaint| format!("[{}] {}", it.kind, it.message);
    let words: Vec<String> = check.complaints.iter().map(words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn built(said: Say) -> Result<Built, Ended> {
    match said {
        Say::Built(built) => Ok(built),
        other => Err(surprise(&other)),
    }
}

pub(crate) fn surprise(said: &Say) -> Ended {
    Ended::Lost { failure: FailureKind::Other, reason: format!("it answered {said:?}") }
}
