//! The search itself: ask, compile ahead, evaluate in order, tell.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

use family::Family;
use gpu::build::Compiler;
use indexmap::IndexMap;
use op::{Op, Refusal};
use search::history::{History, Outcome, Proposal};
use search::space::{Point, Space};

use super::contest::{Compiled, Contest, Out, Setting};
use super::plan::{Plan, Progress};
use super::{elites, knobs, space};
use crate::bench::{Answers, BenchError, Start};
use crate::run::{Event, LogError, Run, Search, Stage, Trial, TrialResult};
use crate::stats::geometric_mean;

#[derive(Debug, thiserror::Error)]
pub enum EvolveError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Bench(BenchError),
    #[error("the baseline itself is out on {problem}: {reason}")]
    Baseline { problem: String, reason: String },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    /// What is asked for now is not what the run searched, or the code has changed in between.
    #[error("the run cannot be gone on with: {0}")]
    Differs(String),
    /// The run was told to stop; what is finished is in its log.
    #[error("stopped")]
    Stopped,
}

/// How many proposals there may be for one evaluation that counts, where most of them compile to the same code.
const PROPOSALS_PER_EVALUATION: u32 = 8;

/// Searches until the budget is used up, the space is, or `stop` is set. Trials the run has are not repeated.
pub fn run<O: Op>(
    op: &O,
    plan: &Plan<'_, O::Problem>,
    compiler: &Compiler,
    start: &Start<'_>,
    run: &Run,
    stop: &AtomicBool,
    progress: &dyn Fn(&Progress, Option<&Trial>),
) -> Result<(), EvolveError> {
    let space = space::of(op, plan.family, &plan.problems, plan.device.target())?;
    let folder = run.folder().join("trials");
    fs::create_dir_all(&folder).map_err(|error| EvolveError::Io { path: folder.clone(), error })?;
    let contest = Contest { op, plan, compiler, start, folder: &folder, answers: Answers::kept(), stop };
    let outcome = Drive::new(&contest, &space, run, progress)?.go();
    let _ = fs::remove_dir_all(&folder);
    outcome
}

struct Drive<'a, O: Op> {
    contest: &'a Contest<'a, O>,
    space: &'a Space,
    run: &'a Run,
    progress: &'a dyn Fn(&Progress, Option<&Trial>),
    /// Of the run so far; taken as they come up again.
    recorded: IndexMap<u32, Trial>,
    trials: Vec<Trial>,
    history: History,
    /// Which trial a point was, and which trial first had a machine code.
    numbers: HashMap<Point, u32>,
    identities: HashMap<String, u32>,
    evaluated: u32,
}

/// A candidate that was asked for, and is being compiled unless its outcome is known.
struct Pending {
    number: u32,
    proposal: Proposal,
    knobs: IndexMap<String, String>,
    compiled: Option<Receiver<Result<Compiled, Out>>>,
}

impl<'a, O: Op> Drive<'a, O> {
    fn new(
        contest: &'a Contest<'a, O>,
        space: &'a Space,
        run: &'a Run,
        progress: &'a dyn Fn(&Progress, Option<&Trial>),
    ) -> Result<Self, EvolveError> {
        let plan = contest.plan;
        let search = Search {
            family: plan.family.full_name(),
            baseline: baseline_name(plan.baseline.as_deref(), &plan.baseline_knobs),
            problems: plan.problems.iter().map(ToString::to_string).collect(),
            knobs: space
                .parameters()
                .iter()
                .map(|it| (it.name.clone(), it.values.iter().map(ToString::to_string).collect()))
                .collect(),
            raw_points: space.raw_len(),
            legal_points: space.len() as u64,
            proposer: "knobs".to_owned(),
            strategy: plan.strategy.name.to_owned(),
            budget: plan.budget,
            elites: plan.elites as u32,
            seed: plan.seed,
        };
        let state = run.state();
        match &state.search {
            None => run.record(&Event::SearchStarted { search })?,
            Some(before) if *before == search => {}
            Some(_) => {
                let reason = "it searched another space, by another strategy, or with another budget or seed";
                return Err(EvolveError::Differs(reason.to_owned()));
            }
        }
        Ok(Drive {
            contest,
            space,
            run,
            progress,
            recorded: state.trials,
            trials: Vec::new(),
            history: History::new(),
            numbers: HashMap::new(),
            identities: HashMap::new(),
            evaluated: 0,
        })
    }

    fn go(mut self) -> Result<(), EvolveError> {
        self.baseline()?;
        let plan = self.contest.plan;
        let mut strategy = plan.strategy.start(plan.seed);
        let mut queue: VecDeque<Pending> = VecDeque::new();
        let mut asked: u32 = 0;
        // Compiles run on their own threads and reach only what outlives this scope.
        let (contest, space) = (self.contest, self.space);
        std::thread::scope(|scope| {
            loop {
                if contest.stop.load(Ordering::Relaxed) {
                    return Err(EvolveError::Stopped);
                }
                while queue.len() <= plan.ahead
                    && self.evaluated + (queue.len() as u32) < plan.budget
                    && asked < plan.budget.saturating_mul(PROPOSALS_PER_EVALUATION)
                {
                    let Some(proposal) = strategy.ask(space, &self.history) else { break };
                    self.history.ask(proposal.clone());
                    asked += 1;
                    let knobs = space::knobs(space, proposal.point);
                    let compiled = (!self.recorded.contains_key(&asked)).then(|| {
                        let (sender, receiver) = mpsc::channel();
                        let setting = self.setting(&knobs);
                        scope.spawn(move || drop(sender.send(contest.compile(&setting))));
                        receiver
                    });
                    queue.push_back(Pending { number: asked, proposal, knobs, compiled });
                }
                let Some(next) = queue.pop_front() else { break };
                let point = next.proposal.point;
                let trial = self.trial(next)?;
                self.take(trial, Some(point));
            }
            Ok(())
        })?;
        for dead in knobs::dead(&self.trials) {
            let text = format!(
                "knob {} changed no machine code in {} pairs of trials that differ in nothing else: it is dead here",
                dead.knob, dead.pairs
            );
            // A run that is gone on with after its last trial has said so already.
            if !self.run.state().notes.contains(&text) {
                self.run.record(&Event::Note { text })?;
            }
        }
        Ok(())
    }

    /// Trial 0: what everything is compared with.
    fn baseline(&mut self) -> Result<(), EvolveError> {
        let plan = self.contest.plan;
        let Some(problem) = plan.problems.first() else {
            return Err(Refusal::new("there is no problem to search for").into());
        };
        let preset = plan.baseline.as_deref();
        let candidate = self.contest.op.candidate(plan.family, preset, &plan.baseline_knobs, problem)?;
        let knobs: IndexMap<String, String> =
            candidate.knobs.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let point = space::point(self.space, &knobs);
        let trial = match self.recorded.shift_remove(&0) {
            Some(trial) => trial,
            None => {
                let name = baseline_name(preset, &plan.baseline_knobs);
                let setting = Setting { family: plan.family, name, knobs: knobs.clone() };
                let lost =
                    |out: Out| EvolveError::Baseline { problem: problem.to_string(), reason: out.reason };
                let compiled = self.contest.compile(&setting).map_err(lost)?;
                let problems = self.contest.time(&setting, None)?.map_err(lost)?;
                let Setting { name: candidate, knobs, .. } = setting;
                let result = timed(compiled, 1.0, problems, true);
                let (parent, origin) = (None, "baseline".to_owned());
                let trial = Trial { number: 0, candidate, knobs, parent, origin, source: None, result };
                self.run.record(&Event::Tried { trial: Box::new(trial.clone()) })?;
                trial
            }
        };
        self.take(trial, point);
        self.evaluated = 0;
        Ok(())
    }

    /// The next trial: as the log has it, or made now.
    fn trial(&mut self, next: Pending) -> Result<Trial, EvolveError> {
        let Pending { number, proposal, knobs, compiled } = next;
        if let Some(trial) = self.recorded.shift_remove(&number) {
            if trial.knobs != knobs {
                let reason = format!("trial {number} was {}, now it would be another", trial.candidate);
                return Err(EvolveError::Differs(reason));
            }
            return Ok(trial);
        }
        let setting = self.setting(&knobs);
        let parent = proposal.parents.first().and_then(|parent| self.numbers.get(parent)).copied();
        let compiled = compiled.and_then(|compiled| compiled.recv().ok());
        let result = match compiled.unwrap_or_else(|| self.contest.compile(&setting)) {
            Err(out) => failed(out),
            Ok(compiled) => match self.identities.get(&compiled.identity) {
                Some(&as_trial) => TrialResult::Same { as_trial, code_hash: compiled.code_hash },
                None => self.evaluate(&setting, compiled, parent)?,
            },
        };
        let origin = proposal.origin.to_string();
        let trial = Trial { number, candidate: setting.name, knobs, parent, origin, source: None, result };
        self.run.record(&Event::Tried { trial: Box::new(trial.clone()) })?;
        Ok(trial)
    }

    fn evaluate(
        &mut self,
        setting: &Setting<'_>,
        compiled: Compiled,
        parent: Option<u32>,
    ) -> Result<TrialResult, EvolveError> {
        let baseline = elites::timed(self.trials.first()).next().map(|timed| timed.problems);
        let problems = match self.contest.time(setting, baseline)? {
            Ok(problems) => problems,
            Err(out) => return Ok(failed(out)),
        };
        let score = geometric_mean(problems.iter().map(|it| it.speedup)).unwrap_or_default();
        let parent = self.trials.iter().filter(|trial| Some(trial.number) == parent);
        let parent = elites::timed(parent).next();
        let count = self.contest.plan.elites;
        let elite = elites::joins(score, &problems, parent, &elites::best(&self.trials, count), count);
        Ok(timed(compiled, score, problems, elite))
    }

    /// Takes a trial into account.
    fn take(&mut self, trial: Trial, point: Option<Point>) {
        let outcome = match &trial.result {
            TrialResult::Timed { score, .. } => Outcome::Time(1.0 / score),
            TrialResult::Same { as_trial, .. } => {
                let same = self.trials.iter().filter(|it| it.number == *as_trial);
                elites::timed(same).next().map_or(Outcome::Failed, |same| Outcome::Time(1.0 / same.score))
            }
            TrialResult::Failed { .. } => Outcome::Failed,
        };
        if let Some(point) = point {
            self.numbers.insert(point, trial.number);
            self.history.tell(point, outcome);
        }
        if let Some(identity) = identity(&trial, self.contest) {
            self.identities.entry(identity).or_insert(trial.number);
        }
        if !matches!(trial.result, TrialResult::Same { .. }) {
            self.evaluated += 1;
        }
        self.trials.push(trial);
        (self.progress)(&self.standing(), self.trials.last());
    }

    fn standing(&self) -> Progress {
        let count = |kind: fn(&TrialResult) -> bool| {
            self.trials.iter().filter(|trial| trial.number > 0 && kind(&trial.result)).count() as u32
        };
        let best = elites::timed(&self.trials).max_by(|a, b| a.score.total_cmp(&b.score));
        Progress {
            evaluated: self.evaluated,
            budget: self.contest.plan.budget,
            valid: count(|result| matches!(result, TrialResult::Timed { .. })),
            same: count(|result| matches!(result, TrialResult::Same { .. })),
            elites: elites::best(&self.trials, self.contest.plan.elites).len(),
            best: best.map(|best| (best.trial.candidate.clone(), best.score)),
        }
    }

    fn setting(&self, knobs: &IndexMap<String, String>) -> Setting<'a> {
        let family = self.contest.plan.family;
        let baseline = self.trials.first().map(|trial| &trial.knobs);
        Setting { family, name: name(family, knobs, baseline), knobs: knobs.clone() }
    }
}

/// What a candidate differs from the baseline in; that is what people compare.
fn name(
    family: &Family,
    knobs: &IndexMap<String, String>,
    baseline: Option<&IndexMap<String, String>>,
) -> String {
    let mut name = family.name.clone();
    for (knob, value) in knobs {
        if baseline.and_then(|baseline| baseline.get(knob)) != Some(value) {
            name += &format!(" {knob}={value}");
        }
    }
    name
}

fn baseline_name(preset: Option<&str>, knobs: &[(String, String)]) -> String {
    let mut name = preset.unwrap_or("defaults").to_owned();
    for (knob, value) in knobs {
        name += &format!("+{knob}={value}");
    }
    name
}

fn timed(compiled: Compiled, score: f64, problems: Vec<crate::run::ProblemTime>, elite: bool) -> TrialResult {
    let Compiled { code_hash, build, registers, shared_bytes, .. } = compiled;
    TrialResult::Timed { build, code_hash, registers, shared_bytes, score, problems, elite }
}

fn failed(out: Out) -> TrialResult {
    TrialResult::Failed { stage: out.stage, failure: out.failure, reason: out.reason }
}

/// What a trial's setting compiled to; worked out again from the cache for one that comes from the log.
fn identity<O: Op>(trial: &Trial, contest: &Contest<'_, O>) -> Option<String> {
    match trial.result {
        TrialResult::Same { .. } | TrialResult::Failed { stage: Stage::Build, .. } => return None,
        TrialResult::Timed { .. } | TrialResult::Failed { .. } => {}
    }
    let setting =
        Setting { family: contest.plan.family, name: trial.candidate.clone(), knobs: trial.knobs.clone() };
    contest.compile(&setting).ok().map(|compiled| compiled.identity)
}
