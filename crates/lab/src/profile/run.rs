//! Runs a profile: builds, checks and profiles each kernel, and records the diagnoses.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use compiler::Compiler;
use family::{Candidate, Family};
use gpu::device::Device;
use indexmap::IndexMap;
use op::{ExtraTolerance, InputDraw, Op, Refusal, TrialStep, dispatch};
use runlog::record::{Direction, Lever, Profile, Seen, TriedLever, listing};
use runlog::{
    BuildRecord, CheckRecord, Event, FailureKind, LogError, ResultId, Run, Stage, StageKey, StageOutcome,
};
use subprocess::wire;

use super::ncu::{Ncu, NcuError};
use super::rules;
use crate::Session;
use crate::bench::{
    AnswerCache, Subject, SubjectKind, build_hash, check_record, complaint_text, no_launch_error,
    trial_launches, unexpected_reply,
};
use crate::roofline;
use crate::session::StageError;
use crate::trial;
use crate::worker::{
    BuildReply, CandidateName, LaunchReply, Limits, Worker, WorkerCommands, WorkerError, WorkerReply,
    WorkerRequest, answers_path,
};

/// Operations that the virtual GPU counts in a few seconds. Larger problems are cut to this size.
const COUNTED_FLOPS: f64 = 2e9;
/// How often that size may be doubled to find a part that represents the whole problem. The largest part takes half a
/// minute.
const MAX_DOUBLINGS: u32 = 7;
/// Changes that are tried in the model for each kernel. Each takes a compilation and a launch.
const MAX_TRIED_LEVERS: usize = 4;
/// Launches before the profiled one.
const WARMUP: u32 = 3;

/// The kernels to profile.
#[derive(Clone, Debug)]
pub struct ProfilePlan<'f, P> {
    /// The device that runs the kernels.
    pub device: Device,
    /// Kernels, each with a problem. Peers cannot be profiled and are skipped.
    pub subjects: Vec<(Subject<'f>, P)>,
    /// Time and memory limits of the worker processes.
    pub limits: Limits,
    /// Seed of the inputs.
    pub secret: u64,
    /// Count problems on the virtual GPU at full size, however long that takes.
    pub full_size: bool,
    /// Try the advice of the diagnoses in the model of the virtual GPU.
    pub try_levers: bool,
}

/// Why profiling ended early.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The stage ended early, as any stage can.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The machine lacks a profiler, or the permission to use it.
    #[error(transparent)]
    Ncu(NcuError),
}

impl From<LogError> for ProfileError {
    fn from(error: LogError) -> Self {
        ProfileError::Stage(error.into())
    }
}

impl From<Refusal> for ProfileError {
    fn from(refusal: Refusal) -> Self {
        ProfileError::Stage(refusal.into())
    }
}

/// Why a subject has no profile.
enum ProfileFailure {
    /// This subject failed; the others continue.
    Failed { stage: Stage, failure: FailureKind, reason: String },
    /// Profiling cannot continue.
    Fatal(ProfileError),
}

impl From<LogError> for ProfileFailure {
    fn from(error: LogError) -> Self {
        ProfileFailure::Fatal(error.into())
    }
}

impl From<NcuError> for ProfileFailure {
    fn from(error: NcuError) -> Self {
        match error {
            NcuError::Stopped => ProfileFailure::Fatal(ProfileError::Stage(StageError::Stopped)),
            // The output of ncu may be malformed for this kernel only, so the next one is tried.
            NcuError::Output(reason) => {
                ProfileFailure::Failed { stage: Stage::Profile, failure: FailureKind::Other, reason }
            }
            other => ProfileFailure::Fatal(ProfileError::Ncu(other)),
        }
    }
}

fn failed_at(stage: Stage) -> impl Fn(WorkerError) -> ProfileFailure {
    move |ended| match ended {
        WorkerError::Stopped => ProfileFailure::Fatal(ProfileError::Stage(StageError::Stopped)),
        WorkerError::Failed { failure, reason } | WorkerError::Lost { failure, reason } => {
            ProfileFailure::Failed { stage, failure, reason }
        }
    }
}

/// Profiles everything in the plan that the run has not profiled yet.
pub fn run<O: Op + ?Sized>(
    session: &Session<'_, O>,
    plan: &ProfilePlan<'_, O::Problem>,
) -> Result<(), ProfileError> {
    let Session { op, compiler, start, run, stop, tell } = *session;
    let ncu = match &plan.device {
        Device::Cuda { .. } => Some(Ncu::find().map_err(ProfileError::Ncu)?),
        Device::Virtual { .. } => None,
    };
    let folder = run.folder().join("work");
    fs::create_dir_all(&folder).map_err(|error| StageError::Io { path: folder.clone(), error })?;
    let answers = AnswerCache::enabled();
    let profile_run = ProfileRun {
        op,
        plan,
        compiler,
        start,
        run,
        stop,
        folder: &folder,
        ncu: ncu.as_ref(),
        answers: &answers,
    };
    let outcome = plan.subjects.iter().try_for_each(|(subject, problem)| {
        tell(&format!("{problem}: profiling {}", subject.name));
        profile_run.subject(subject, problem, tell)
    });
    // The folder holds answers that have been judged. Their results are in the log.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

struct ProfileRun<'a, O: Op + ?Sized> {
    op: &'a O,
    plan: &'a ProfilePlan<'a, O::Problem>,
    compiler: &'a Compiler,
    start: &'a WorkerCommands<'a>,
    run: &'a Run,
    stop: &'a AtomicBool,
    folder: &'a Path,
    ncu: Option<&'a Ncu>,
    answers: &'a AnswerCache<O>,
}

/// A subject with its problem.
struct Job<'a, O: Op + ?Sized> {
    subject: &'a Subject<'a>,
    family: &'a Family,
    candidate: Candidate,
    problem: &'a O::Problem,
    of: ResultId,
}

/// The part of a problem that the virtual GPU counts, and how many times its blocks the full problem has. `None` if the
/// part does not represent the full problem.
struct CountedPart<P> {
    problem: P,
    times: Option<u64>,
}

/// What a run on the virtual GPU gave.
struct Counted {
    build: BuildRecord,
    check: CheckRecord,
    /// The metrics, or the reason why the kernel has none.
    seen: Result<Seen, ProfileFailure>,
}

impl<O: Op + ?Sized> ProfileRun<'_, O> {
    fn subject(
        &self,
        subject: &Subject<'_>,
        problem: &O::Problem,
        tell: &dyn Fn(&str),
    ) -> Result<(), ProfileError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ProfileError::Stage(StageError::Stopped));
        }
        let name = problem.to_string();
        let device = &self.plan.device;
        let found = match &subject.kind {
            SubjectKind::Peer { .. } => return Ok(()),
            SubjectKind::Kernel { family, preset, knobs } => {
                dispatch::candidate(self.op, family, preset.as_deref(), knobs, (problem, device))
                    .map(|candidate| (*family, candidate))
            }
            SubjectKind::Chosen { catalog } => dispatch::choose(self.op, catalog, device, problem),
        };
        let found = found.and_then(|found| self.op.check_is_not_reference(found.0).map(|()| found));
        let identity = found.map_err(|refusal| (FailureKind::Refused, refusal.to_string())).and_then(
            |(family, candidate)| {
                let hash = build_hash(family, &candidate, device, self.compiler)?;
                Ok((family, candidate, hash))
            },
        );
        let (family, candidate, hash) = match identity {
            Ok(identity) => identity,
            Err((failure, reason)) => {
                let key = StageKey::new(Stage::Profile, name, &subject.name, "");
                let outcome = StageOutcome::Skipped { reason: reason.clone() };
                return self.fail(key, Stage::Build, failure, reason, outcome, tell);
            }
        };
        let key = StageKey::new(Stage::Profile, name, &subject.name, hash);
        if self.run.state().finished(&key) {
            return Ok(());
        }
        self.run.record(&Event::StageStarted { key: key.clone() })?;
        let job = Job { subject, family, candidate, problem, of: key.of.clone() };
        let profile = match self.ncu {
            Some(ncu) => self.profile_with_ncu(ncu, &job),
            None => self.profile_with_counters(&job).and_then(|(mut profile, part)| {
                if self.plan.try_levers {
                    self.try_levers(&job, &part, &mut profile, tell)?;
                }
                Ok(profile)
            }),
        };
        let profile = profile.map(|mut profile| {
            rules::without_contradictions(&mut profile.diagnoses);
            profile
        });
        match profile {
            Ok(profile) => {
                self.run.record(&Event::Profiled { of: key.of.clone(), profile: Box::new(profile) })?;
                self.run.record(&Event::StageFinished { key, outcome: StageOutcome::Done })?;
                Ok(())
            }
            Err(ProfileFailure::Failed { stage, failure, reason }) => {
                let outcome = StageOutcome::Failed { reason: reason.clone() };
                self.fail(key, stage, failure, reason, outcome, tell)
            }
            Err(ProfileFailure::Fatal(error)) => Err(error),
        }
    }

    fn fail(
        &self,
        key: StageKey,
        stage: Stage,
        failure: FailureKind,
        reason: String,
        outcome: StageOutcome,
        tell: &dyn Fn(&str),
    ) -> Result<(), ProfileError> {
        tell(&format!("{} failed on {}: {failure}: {reason}", key.of.subject, key.of.problem));
        self.run.record(&Event::CandidateFailed { of: key.of.clone(), stage, failure, reason })?;
        self.run.record(&Event::StageFinished { key, outcome })?;
        Ok(())
    }

    /// Profiles with the counters of the virtual GPU. Also returns the part of the problem that was counted.
    fn profile_with_counters(
        &self,
        job: &Job<'_, O>,
    ) -> Result<(Profile, CountedPart<O::Problem>), ProfileFailure> {
        let (problem, times) = self.counted_part(job);
        let mut notes = Vec::new();
        if problem != *job.problem {
            notes.push(match times {
                Some(times) => {
                    format!("counted on {problem}; the full problem has {times} times as many blocks")
                }
                None => format!("counted on {problem} instead of the full problem"),
            });
        }
        let part = CountedPart { problem, times };
        let counted = self.count(job, &part)?;
        self.run.record(&Event::Built { of: job.of.clone(), build: counted.build })?;
        self.run.record(&Event::Checked { of: job.of.clone(), check: counted.check.clone() })?;
        let seen = counted.seen?;
        let of = if times.is_some() { job.problem } else { &part.problem };
        Ok((self.profile(self.plan.device.to_string(), notes, seen, (of, job.family)), part))
    }

    /// Builds a kernel, runs it on a part of its problem, compares its answer with the reference and counts.
    fn count(
        &self,
        job: &Job<'_, O>,
        CountedPart { problem, times }: &CountedPart<O::Problem>,
    ) -> Result<Counted, ProfileFailure> {
        let command = (self.start.kernel)(&job.subject.name);
        let lost =
            |error: io::Error| WorkerError::Lost { failure: FailureKind::Other, reason: error.to_string() };
        let mut worker =
            Worker::start(command, self.plan.limits).map_err(lost).map_err(failed_at(Stage::Build))?;
        let mut ask =
            |request: &WorkerRequest, stage: Stage| worker.ask(request, self.stop).map_err(failed_at(stage));
        let unexpected = |stage: Stage| move |reply: &WorkerReply| failed_at(stage)(unexpected_reply(reply));
        let built = match ask(&self.build(job, problem), Stage::Build)? {
            WorkerReply::Built(built) => built,
            reply => return Err(unexpected(Stage::Build)(&reply)),
        };
        let check = match ask(&self.run_once(), Stage::Check)? {
            WorkerReply::Ran { launches } => self.judge(problem, built.extra_tolerance.as_ref(), launches)?,
            reply => return Err(unexpected(Stage::Check)(&reply)),
        };
        if let Some(reason) = complaint_text(&check) {
            let failure = FailureKind::WrongAnswer;
            let seen = Err(ProfileFailure::Failed { stage: Stage::Check, failure, reason });
            return Ok(Counted { build: built.build, check, seen });
        }
        // The queries that were cut read the same keys, so memory traffic grows less than the number of blocks.
        let bytes = |problem: &O::Problem| self.op.work(problem).bytes as f64;
        let memory = bytes(job.problem) / bytes(problem);
        let seen = match ask(&WorkerRequest::Count { times: times.unwrap_or(1), memory }, Stage::Profile)? {
            WorkerReply::Seen(seen) => *seen,
            reply => return Err(unexpected(Stage::Profile)(&reply)),
        };
        Ok(Counted { build: built.build, check, seen: Ok(seen) })
    }

    /// Tries the advice of the heaviest diagnoses in the model, and records the gains in the profile.
    fn try_levers(
        &self,
        job: &Job<'_, O>,
        part: &CountedPart<O::Problem>,
        profile: &mut Profile,
        tell: &dyn Fn(&str),
    ) -> Result<(), ProfileFailure> {
        let Some(before) = profile.metrics.time else { return Ok(()) };
        let levers = profile.diagnoses.iter_mut().flat_map(|diagnosis| &mut diagnosis.levers);
        let mut tried: IndexMap<String, Option<f64>> = IndexMap::new();
        for lever in levers {
            let Some((candidate, setting)) = self.changed(job, part, lever) else { continue };
            if !tried.contains_key(&setting) {
                if tried.len() == MAX_TRIED_LEVERS {
                    break;
                }
                if self.stop.load(Ordering::Relaxed) {
                    return Err(ProfileFailure::Fatal(ProfileError::Stage(StageError::Stopped)));
                }
                tell(&format!("{}: trying {setting}", job.problem));
                let changed = Job { candidate, of: job.of.clone(), ..*job };
                // A setting that fails gives no advice; it is not a failure of the profiled kernel.
                let seen = self.count(&changed, part).ok().and_then(|counted| counted.seen.ok());
                let time = seen.and_then(|seen| seen.metrics.time);
                tried.insert(setting.clone(), time.map(|after| before.micros() / after.micros()));
            }
            let speedup = tried.get(&setting).copied().flatten();
            lever.tried = speedup.map(|speedup| TriedLever { setting, speedup });
        }
        Ok(())
    }

    /// The candidate after a lever's first possible step, with the changed knobs in words. If a constraint forbids the
    /// step alone, one other knob may change by one step, too.
    fn changed(
        &self,
        job: &Job<'_, O>,
        part: &CountedPart<O::Problem>,
        lever: &Lever,
    ) -> Option<(Candidate, String)> {
        let family = job.family;
        let text = |(name, value): (&String, &family::Value)| (name.clone(), value.to_string());
        let knobs: Vec<(String, String)> = job.candidate.knobs.iter().map(text).collect();
        let candidate = |changes: &[(String, String)]| {
            let knobs = [&knobs, changes].concat();
            let candidate = self.op.candidate(family, None, &knobs, job.problem).ok()?;
            family.check_target(&candidate, self.plan.device.target()).ok()?;
            // The counted part must represent the problem for the changed kernel, too.
            let changed = Job { candidate, of: job.of.clone(), ..*job };
            (self.block_ratio(&changed, &part.problem) == part.times || part.times == Some(1))
                .then_some(changed.candidate)
        };
        let words = |changes: &[(String, String)]| {
            changes.iter().map(|(knob, value)| format!("{knob}={value}")).collect::<Vec<_>>().join(" ")
        };
        lever.steps.iter().find_map(|(knob, direction)| {
            let step = self.step(job, knob, *direction)?;
            let alone = vec![step.clone()];
            let others = family.knobs.iter().filter(|other| other.search && other.name != *knob);
            let pairs = others.flat_map(|other| {
                let steps = [Direction::Up, Direction::Down].map(|way| self.step(job, &other.name, way));
                steps.into_iter().flatten().map(|other| vec![step.clone(), other])
            });
            let mut changes = std::iter::once(alone.clone()).chain(pairs);
            changes.find_map(|changes| Some((candidate(&changes)?, words(&changes))))
        })
    }

    /// The neighbouring value of a knob.
    fn step(&self, job: &Job<'_, O>, knob: &str, direction: Direction) -> Option<(String, String)> {
        let knob = job.family.knob(knob)?;
        let index =
            knob.values.iter().position(|value| job.candidate.knobs.get(&knob.name) == Some(value))?;
        let next = match direction {
            Direction::Up => index.checked_add(1),
            Direction::Down => index.checked_sub(1),
        };
        Some((knob.name.clone(), knob.values.get(next?)?.to_string()))
    }

    /// Returns the part of a problem to count, and how many times its blocks the full problem has. The part is the
    /// smallest one that represents the full problem. With a causal mask the last queries have more work than the
    /// first, so all queries of a head must stay. If even a much larger part does not represent the full problem, the
    /// smallest part is counted without scaling.
    fn counted_part(&self, job: &Job<'_, O>) -> (O::Problem, Option<u64>) {
        if self.plan.full_size {
            return (job.problem.clone(), Some(1));
        }
        let mut parts = (0..=MAX_DOUBLINGS).map(|power| {
            let part = self.op.cut(job.problem, COUNTED_FLOPS * f64::from(1 << power));
            let times = self.block_ratio(job, &part);
            (part, times)
        });
        let small = || (self.op.cut(job.problem, COUNTED_FLOPS), None);
        parts.find(|(_, times)| times.is_some()).unwrap_or_else(small)
    }

    /// Returns how many times the blocks of the cut problem the full problem has, if the two differ in nothing else.
    fn block_ratio(&self, job: &Job<'_, O>, cut: &O::Problem) -> Option<u64> {
        let blocks = |problem: &O::Problem| -> Option<u64> {
            let launch = job.family.launch(&job.candidate, &self.op.sizes(problem)).ok()?;
            launch.grid.into_iter().try_fold(1, u64::checked_mul)
        };
        let (whole, part) = (blocks(job.problem)?, blocks(cut)?);
        let times = whole / part.max(1);
        let work = self.op.work(job.problem).flops / self.op.work(cut).flops;
        let same = whole == part * times && (work / times as f64 - 1.0).abs() < 1e-9;
        same.then_some(times)
    }

    /// Profiles with Nsight Compute, which runs a worker whose requests are in a file.
    fn profile_with_ncu(&self, ncu: &Ncu, job: &Job<'_, O>) -> Result<Profile, ProfileFailure> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| ProfileFailure::Fatal(StageError::Io { path, error }.into())
        };
        let requests =
            [self.build(job, job.problem), self.run_once(), WorkerRequest::Launch { times: WARMUP }];
        let file = self.folder.join("asks.jsonl");
        let lines: Result<Vec<String>, _> = requests.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(|error| io(&file)(error.into()))?;
        fs::write(&file, lines.join("\n")).map_err(io(&file))?;
        let reports = self.run.folder().join("profiles");
        fs::create_dir_all(&reports).map_err(io(&reports))?;
        let report = reports.join(format!("{}.ncu-rep", file_name(&job.of)));

        let mut command: Command = (self.start.kernel)(&job.subject.name);
        command.arg("--asks").arg(&file);
        // ncu runs a kernel once for every few metrics.
        let limit = self.plan.limits.build + 20 * self.plan.limits.answer.min(Duration::from_mins(2));
        // The first launch is the judged one, so skipping `WARMUP` launches profiles the last one.
        let answers = answers_path(&file);
        // Remove the answers of the previous subject.
        let _ = fs::remove_file(&answers);
        ncu.profile(&command, &job.family.entry, WARMUP, &report, limit, self.stop)?;

        let bytes = fs::read(&answers).unwrap_or_default();
        let mut bytes = &bytes[..];
        let answers = std::iter::from_fn(|| {
            let (answer, outputs): (WorkerReply, _) = wire::receive(&mut bytes, u64::MAX).ok()?;
            answer.with(outputs)
        });
        let (mut launched, mut extra) = (false, None);
        for answer in answers {
            match answer {
                WorkerReply::Built(built) => extra = self.built(job, built)?,
                WorkerReply::Ran { launches } => self.check(job, job.problem, extra.as_ref(), launches)?,
                WorkerReply::Launched => launched = true,
                WorkerReply::Failed { failure, reason } => {
                    return Err(ProfileFailure::Failed { stage: Stage::Profile, failure, reason });
                }
                other => return Err(failed_at(Stage::Profile)(unexpected_reply(&other))),
            }
        }
        if !launched {
            let reason = "the worker process ended before it launched the kernel".to_owned();
            return Err(ProfileFailure::Failed {
                stage: Stage::Profile,
                failure: FailureKind::Crash,
                reason,
            });
        }
        let mut metrics = ncu.metrics(&report, self.stop)?;
        if let Some(build) = self.run.state().builds.get(&job.of) {
            metrics.spill_bytes = u64::from(build.spill_bytes).into();
        }
        let mut notes = vec![format!("Nsight Compute report: {}", report.display())];
        let hot_lines = match ncu.hot_lines(&report, job.family, self.stop) {
            Ok(lines) => lines,
            Err(NcuError::Stopped) => {
                return Err(ProfileFailure::Fatal(ProfileError::Stage(StageError::Stopped)));
            }
            Err(error) => {
                notes.push(format!("hot lines are unavailable: {error}"));
                Vec::new()
            }
        };
        let seen = Seen { metrics, hot_lines };
        Ok(self.profile(format!("ncu {}", ncu.version), notes, seen, (job.problem, job.family)))
    }

    fn build(&self, job: &Job<'_, O>, problem: &O::Problem) -> WorkerRequest {
        let candidate = CandidateName::new(job.family, &job.candidate);
        WorkerRequest::Build { candidate, problem: problem.to_string() }
    }

    /// Returns a draw of ordinary inputs.
    fn draw(&self) -> InputDraw {
        InputDraw::new(self.op.classes()[0], op::derive_seed(self.plan.secret, 1))
    }

    fn run_once(&self) -> WorkerRequest {
        let seed = op::derive_seed(self.plan.secret, 0);
        WorkerRequest::Run {
            draws: vec![self.draw()],
            steps: vec![TrialStep::FIRST],
            seed,
            checks: vgpu::Checks::None,
        }
    }

    /// Records a build. Returns what the op grants its kernel.
    fn built(&self, job: &Job<'_, O>, built: BuildReply) -> Result<Option<ExtraTolerance>, ProfileFailure> {
        self.run.record(&Event::Built { of: job.of.clone(), build: built.build })?;
        Ok(built.extra_tolerance)
    }

    /// Compares an answer with the reference and records the result. A kernel with a wrong answer is never profiled.
    fn check(
        &self,
        job: &Job<'_, O>,
        problem: &O::Problem,
        extra_tolerance: Option<&ExtraTolerance>,
        launches: Vec<LaunchReply>,
    ) -> Result<(), ProfileFailure> {
        let check = self.judge(problem, extra_tolerance, launches)?;
        let complaints = complaint_text(&check);
        self.run.record(&Event::Checked { of: job.of.clone(), check })?;
        match complaints {
            None => Ok(()),
            Some(reason) => {
                Err(ProfileFailure::Failed { stage: Stage::Check, failure: FailureKind::WrongAnswer, reason })
            }
        }
    }

    /// Compares an answer with the reference.
    fn judge(
        &self,
        problem: &O::Problem,
        extra_tolerance: Option<&ExtraTolerance>,
        launches: Vec<LaunchReply>,
    ) -> Result<CheckRecord, ProfileFailure> {
        let launches = trial_launches(launches);
        let answer = self
            .answers
            .to(self.op, problem, &self.draw())
            .map_err(ProfileError::from)
            .map_err(ProfileFailure::Fatal)?;
        let references = [(&answer.inputs, &answer.reference)];
        let judged = trial::judge(self.op, extra_tolerance, &[TrialStep::FIRST], &references, &launches);
        let judged = judged.ok_or_else(no_launch_error).map_err(failed_at(Stage::Check))?;
        Ok(check_record(judged))
    }

    fn profile(
        &self,
        source: String,
        notes: Vec<String>,
        seen: Seen,
        (problem, family): (&O::Problem, &Family),
    ) -> Profile {
        let knobs: Vec<&str> = family.knobs.iter().map(|knob| knob.name.as_str()).collect();
        let ceilings = self.run.state().ceilings;
        let roofs = roofline::roofs(&self.plan.device, &ceilings, self.op.matrix_type(problem));
        let roofline = roofs
            .zip(seen.metrics.time)
            .map(|(roofs, time)| roofline::under(roofs, self.op.work(problem), time));
        Profile {
            source,
            notes,
            roofline,
            diagnoses: rules::diagnose(&seen.metrics, self.op.matrix_type(problem).is_some(), &knobs),
            metrics: seen.metrics,
            listing: listing(&seen.hot_lines, family),
            hot_lines: seen.hot_lines,
        }
    }
}

/// Makes a file name of letters, digits, dots and dashes.
fn file_name(of: &ResultId) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("{}-{}", of.problem, of.subject).chars().map(plain).collect()
}
