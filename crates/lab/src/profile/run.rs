//! Profiles from the first worker to the last diagnosis.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use family::{Candidate, Family};
use gpu::build::Compiler;
use gpu::device::Device;
use op::{InputDraw, Op, Refusal, TrialStep, tuned};
use subprocess::wire;

use super::ncu::{Ncu, NcuError};
use super::{Profile, Seen, roofline, rules};
use crate::bench::{
    AnswerCache, Subject, SubjectKind, WorkerCommands, brought, build_hash, check_of, complaints_in,
    no_launch, surprise,
};
use crate::run::{CheckRecord, Event, FailureKind, LogError, ResultId, Run, Stage, StageKey, StageOutcome};
use crate::trial;
use crate::worker::{
    BuildReply, CandidateName, LaunchReply, Limits, Worker, WorkerError, WorkerReply, WorkerRequest,
    answers_beside,
};

/// Operations of a problem the virtual GPU counts in a few seconds. Larger problems are cut to it.
const COUNTED_FLOPS: f64 = 2e9;
/// How often that may be doubled for a part that is like the whole: half a minute.
const MOST_DOUBLINGS: u32 = 7;
/// Launches before the one that is profiled.
const WARMUP: u32 = 3;

/// What is to be profiled.
#[derive(Clone, Debug)]
pub struct ProfilePlan<'f, P> {
    pub device: Device,
    /// Kernels, each on a problem. Others than kernels cannot be profiled, and are left out.
    pub subjects: Vec<(Subject<'f>, P)>,
    pub limits: Limits,
    /// What inputs are drawn from.
    pub secret: u64,
    /// Count problems on the virtual GPU as they are, however long it takes.
    pub full_size: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The machine lacks a profiler, or the permission to use it.
    #[error(transparent)]
    Ncu(NcuError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("stopped")]
    Stopped,
}

/// Why a subject has no profile.
enum ProfileFailure {
    /// It is out, the others go on.
    Out { stage: Stage, failure: FailureKind, reason: String },
    /// Nobody can go on.
    All(ProfileError),
}

impl From<LogError> for ProfileFailure {
    fn from(error: LogError) -> Self {
        ProfileFailure::All(error.into())
    }
}

impl From<NcuError> for ProfileFailure {
    fn from(error: NcuError) -> Self {
        match error {
            NcuError::Stopped => ProfileFailure::All(ProfileError::Stopped),
            // What ncu prints of one kernel may be odd; the next may do better.
            NcuError::Output(reason) => {
                ProfileFailure::Out { stage: Stage::Profile, failure: FailureKind::Other, reason }
            }
            other => ProfileFailure::All(ProfileError::Ncu(other)),
        }
    }
}

fn out(stage: Stage) -> impl Fn(WorkerError) -> ProfileFailure {
    move |ended| match ended {
        WorkerError::Stopped => ProfileFailure::All(ProfileError::Stopped),
        WorkerError::Failed { failure, reason } | WorkerError::Lost { failure, reason } => {
            ProfileFailure::Out { stage, failure, reason }
        }
    }
}

/// Profiles everything in the plan that the run has no profile of yet. `tell` is called with what happens, for people.
pub fn run<O: Op>(
    op: &O,
    plan: &ProfilePlan<'_, O::Problem>,
    compiler: &Compiler,
    start: &WorkerCommands<'_>,
    run: &Run,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
) -> Result<(), ProfileError> {
    let ncu = match &plan.device {
        Device::Cuda { .. } => Some(Ncu::find().map_err(ProfileError::Ncu)?),
        Device::Virtual { .. } => None,
    };
    let folder = run.folder().join("work");
    fs::create_dir_all(&folder).map_err(|error| ProfileError::Io { path: folder.clone(), error })?;
    let answers = AnswerCache::kept();
    let bench = ProfileRun {
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
        bench.subject(subject, problem, tell)
    });
    // Answers that were judged; what they were for is in the log.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

struct ProfileRun<'a, O: Op> {
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

/// A subject on its problem.
struct Job<'a, O: Op> {
    subject: &'a Subject<'a>,
    family: &'a Family,
    candidate: Candidate,
    problem: &'a O::Problem,
    of: ResultId,
}

impl<O: Op> ProfileRun<'_, O> {
    fn subject(
        &self,
        subject: &Subject<'_>,
        problem: &O::Problem,
        tell: &dyn Fn(&str),
    ) -> Result<(), ProfileError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ProfileError::Stopped);
        }
        let SubjectKind::Kernel { family, preset, knobs } = &subject.kind else { return Ok(()) };
        let name = problem.to_string();
        let device = &self.plan.device;
        let identity = tuned::candidate(self.op, family, preset.as_deref(), knobs, (problem, device))
            .map_err(|refusal| (FailureKind::Refused, refusal.to_string()))
            .and_then(|candidate| {
                let hash = build_hash(family, &candidate, device, self.compiler)?;
                Ok((candidate, hash))
            });
        let (candidate, hash) = match identity {
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
            Some(ncu) => self.by_ncu(ncu, &job),
            None => self.counted(&job),
        };
        match profile {
            Ok(profile) => {
                self.run.record(&Event::Profiled { of: key.of.clone(), profile: Box::new(profile) })?;
                self.run.record(&Event::StageFinished { key, outcome: StageOutcome::Done })?;
                Ok(())
            }
            Err(ProfileFailure::Out { stage, failure, reason }) => {
                let outcome = StageOutcome::Failed { reason: reason.clone() };
                self.fail(key, stage, failure, reason, outcome, tell)
            }
            Err(ProfileFailure::All(error)) => Err(error),
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
        tell(&format!("{} is out on {}: {failure}: {reason}", key.of.subject, key.of.problem));
        self.run.record(&Event::CandidateFailed { of: key.of.clone(), stage, failure, reason })?;
        self.run.record(&Event::StageFinished { key, outcome })?;
        Ok(())
    }

    /// By the virtual GPU's counters.
    fn counted(&self, job: &Job<'_, O>) -> Result<Profile, ProfileFailure> {
        let (problem, times) = self.part(job);
        let mut notes = Vec::new();
        if problem != *job.problem {
            notes.push(match times {
                Some(times) => format!("counted on {problem}; the whole has {times} times its blocks"),
                None => format!("of {problem}, the problem cut to size"),
            });
        }
        let command = (self.start.kernel)(&job.subject.name);
        let lost =
            |error: io::Error| WorkerError::Lost { failure: FailureKind::Other, reason: error.to_string() };
        let mut worker = Worker::start(command, self.plan.limits).map_err(lost).map_err(out(Stage::Build))?;
        let mut ask = |ask: &WorkerRequest, stage: Stage| worker.ask(ask, self.stop).map_err(out(stage));
        let other = |stage: Stage| move |said: &WorkerReply| out(stage)(surprise(said));
        let extra = match ask(&self.build(job, &problem), Stage::Build)? {
            WorkerReply::Built(built) => self.built(job, built)?,
            said => return Err(other(Stage::Build)(&said)),
        };
        match ask(&self.run_once(), Stage::Check)? {
            WorkerReply::Ran { launches } => self.check(job, &problem, extra, launches)?,
            said => return Err(other(Stage::Check)(&said)),
        }
        // Queries that were cut away read the same keys: the memory has not as many times as the blocks.
        let bytes = |problem: &O::Problem| self.op.work(problem).bytes as f64;
        let memory = bytes(job.problem) / bytes(&problem);
        let seen = match ask(&WorkerRequest::Count { times: times.unwrap_or(1), memory }, Stage::Profile)? {
            WorkerReply::Seen(seen) => *seen,
            said => return Err(other(Stage::Profile)(&said)),
        };
        let of = if times.is_some() { job.problem } else { &problem };
        Ok(self.profile(self.plan.device.to_string(), notes, seen, of))
    }

    /// What of a problem is counted, and how many times its blocks the whole has: as small a part as tells the whole. With
    /// a causal mask the last queries have more to do than the first, so all of a head's queries must stay; where even a
    /// much larger part is not like the whole, the small one is counted for itself.
    fn part(&self, job: &Job<'_, O>) -> (O::Problem, Option<u64>) {
        if self.plan.full_size {
            return (job.problem.clone(), Some(1));
        }
        let mut parts = (0..=MOST_DOUBLINGS).map(|power| {
            let part = self.op.cut(job.problem, COUNTED_FLOPS * f64::from(1 << power));
            let times = self.alike(job, &part);
            (part, times)
        });
        let small = || (self.op.cut(job.problem, COUNTED_FLOPS), None);
        parts.find(|(_, times)| times.is_some()).unwrap_or_else(small)
    }

    /// How many times the blocks of a cut problem the whole one has, if that is all it has more.
    fn alike(&self, job: &Job<'_, O>, cut: &O::Problem) -> Option<u64> {
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

    /// By Nsight Compute, over a worker that is told beforehand what it will be asked.
    fn by_ncu(&self, ncu: &Ncu, job: &Job<'_, O>) -> Result<Profile, ProfileFailure> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| ProfileFailure::All(ProfileError::Io { path, error })
        };
        let asks = [self.build(job, job.problem), self.run_once(), WorkerRequest::Launch { times: WARMUP }];
        let file = self.folder.join("asks.jsonl");
        let lines: Result<Vec<String>, _> = asks.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(|error| io(&file)(error.into()))?;
        fs::write(&file, lines.join("\n")).map_err(io(&file))?;
        let reports = self.run.folder().join("profiles");
        fs::create_dir_all(&reports).map_err(io(&reports))?;
        let report = reports.join(format!("{}.ncu-rep", file_name(&job.of)));

        let mut command: Command = (self.start.kernel)(&job.subject.name);
        command.arg("--asks").arg(&file);
        // ncu runs a kernel once for every few metrics.
        let limit = self.plan.limits.build + 20 * self.plan.limits.answer.min(Duration::from_mins(2));
        // The first launch is the one whose answer is judged.
        let answers = answers_beside(&file);
        // Those of the one before.
        let _ = fs::remove_file(&answers);
        ncu.profile(&command, &job.family.entry, WARMUP, &report, limit, self.stop)?;

        let said = fs::read(&answers).unwrap_or_default();
        let mut said = &said[..];
        let answers = std::iter::from_fn(|| {
            let (answer, outputs): (WorkerReply, _) = wire::receive(&mut said, u64::MAX).ok()?;
            answer.with(outputs)
        });
        let (mut launched, mut extra) = (false, false);
        for answer in answers {
            match answer {
                WorkerReply::Built(built) => extra = self.built(job, built)?,
                WorkerReply::Ran { launches } => self.check(job, job.problem, extra, launches)?,
                WorkerReply::Launched => launched = true,
                WorkerReply::Failed { failure, reason } => {
                    return Err(ProfileFailure::Out { stage: Stage::Profile, failure, reason });
                }
                other => return Err(out(Stage::Profile)(surprise(&other))),
            }
        }
        if !launched {
            let reason = "its process ended before it had launched the kernel".to_owned();
            return Err(ProfileFailure::Out { stage: Stage::Profile, failure: FailureKind::Crash, reason });
        }
        let mut metrics = ncu.metrics(&report, self.stop)?;
        if let Some(build) = self.run.state().builds.get(&job.of) {
            metrics.spill_bytes = u64::from(build.spill_bytes).into();
        }
        let mut notes = vec![format!("the report of Nsight Compute is {}", report.display())];
        let hot_lines = match ncu.hot_lines(&report, job.family, self.stop) {
            Ok(lines) => lines,
            Err(NcuError::Stopped) => return Err(ProfileFailure::All(ProfileError::Stopped)),
            Err(error) => {
                notes.push(format!("hot lines are unavailable: {error}"));
                Vec::new()
            }
        };
        let seen = Seen { metrics, hot_lines };
        Ok(self.profile(format!("ncu {}", ncu.version), notes, seen, job.problem))
    }

    fn build(&self, job: &Job<'_, O>, problem: &O::Problem) -> WorkerRequest {
        let candidate = CandidateName::new(job.family, &job.candidate);
        WorkerRequest::Build { candidate, problem: problem.to_string() }
    }

    /// Ordinary inputs.
    fn draw(&self) -> InputDraw {
        InputDraw::new(self.op.classes()[0], op::derived(self.plan.secret, 1))
    }

    fn run_once(&self) -> WorkerRequest {
        let seed = op::derived(self.plan.secret, 0);
        WorkerRequest::Run {
            draws: vec![self.draw()],
            steps: vec![TrialStep::FIRST],
            seed,
            checks: vgpu::Checks::None,
        }
    }

    /// Writes a build down; whether its kernel has the op's extra tolerance.
    fn built(&self, job: &Job<'_, O>, built: BuildReply) -> Result<bool, ProfileFailure> {
        self.run.record(&Event::Built { of: job.of.clone(), build: built.build })?;
        Ok(built.extra_tolerance.is_some())
    }

    /// Holds an answer against the right one: nothing wrong is profiled.
    fn check(
        &self,
        job: &Job<'_, O>,
        problem: &O::Problem,
        extra_tolerance: bool,
        launches: Vec<LaunchReply>,
    ) -> Result<(), ProfileFailure> {
        let launches = brought(launches);
        let answer = self
            .answers
            .to(self.op, problem, &self.draw())
            .map_err(ProfileError::from)
            .map_err(ProfileFailure::All)?;
        let right = [(&answer.inputs, &answer.reference)];
        let judged = trial::judge(self.op, extra_tolerance, &[TrialStep::FIRST], &right, &launches);
        let judged = judged.ok_or_else(no_launch).map_err(out(Stage::Check))?;
        let check: CheckRecord = check_of(judged);
        let words = complaints_in(&check);
        self.run.record(&Event::Checked { of: job.of.clone(), check })?;
        match words {
            None => Ok(()),
            Some(reason) => {
                Err(ProfileFailure::Out { stage: Stage::Check, failure: FailureKind::WrongAnswer, reason })
            }
        }
    }

    fn profile(&self, source: String, notes: Vec<String>, seen: Seen, problem: &O::Problem) -> Profile {
        let ceilings = self.run.state().ceilings;
        let roofs = roofline::roofs(&self.plan.device, &ceilings, self.op.matrix_type(problem));
        let roofline = roofs
            .zip(seen.metrics.time)
            .map(|(roofs, time)| roofline::under(roofs, self.op.work(problem), time));
        Profile {
            source,
            notes,
            roofline,
            diagnoses: rules::diagnose(&seen.metrics),
            metrics: seen.metrics,
            hot_lines: seen.hot_lines,
        }
    }
}

/// A name for files: letters, digits and dashes.
fn file_name(of: &ResultId) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("{}-{}", of.problem, of.subject).chars().map(plain).collect()
}
