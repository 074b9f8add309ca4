//! The search itself: ask, compile ahead, evaluate in order, tell.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

use gpu::build::Compiler;
use indexmap::IndexMap;
use op::{Op, Refusal};
use search::history::{History, Outcome, Proposal};
use search::space::{Point, Space};

use super::evaluator::{Compiled, Evaluator, Rejection, Setting};
use super::plan::{EvolvePlan, Progress};
use super::proposer::answer::{self, ProposedCandidate};
use super::proposer::{ExternalProposer, Information, Proposer, ProposerError, prompt, screen};
use super::untrusted::{self, UntrustedSource};
use super::{elites, knobs, space};
use crate::bench::{AnswerCache, BenchError, WorkerCommands};
use crate::profile::{self, ProfileError};
use crate::run::{Event, Exchange, LogError, Run, Search, Stage, Trial, TrialResult};
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
    /// A program that asking the proposer takes.
    #[error("the proposer cannot be asked: {program}: {error}")]
    NoProgram { program: &'static str, error: String },
    #[error("the proposer gave no answer {times} times in a row: {reason}")]
    Silent { times: u32, reason: String },
    /// The run was told to stop; what is finished is in its log.
    #[error("stopped")]
    Stopped,
}

impl From<ProposerError> for EvolveError {
    fn from(no_answer: ProposerError) -> Self {
        match no_answer {
            ProposerError::Stopped => EvolveError::Stopped,
            ProposerError::NotThere { program, error } => EvolveError::NoProgram { program, error },
            ProposerError::Silent { reason, .. } => EvolveError::Silent { times: 1, reason },
        }
    }
}

/// How many proposals there may be for one evaluation that counts, where most of them compile to the same code.
const PROPOSALS_PER_EVALUATION: u32 = 8;
/// A proposer that gives no answer at all that many times in a row will give none; a bad answer is an answer.
const SILENCES: u32 = 5;
/// Bytes of an answer the log keeps that came to nothing. One that came to a candidate is kept whole: it is read again
/// when the run is gone on with.
const KEPT_BYTES: usize = 64 << 10;

/// Searches until the budget is used up, the space is, or `stop` is set. Trials the run has are not repeated.
pub fn run<O: Op>(
    op: &O,
    plan: &EvolvePlan<'_, O::Problem>,
    compiler: &Compiler,
    start: &WorkerCommands<'_>,
    run: &Run,
    stop: &AtomicBool,
    progress: &dyn Fn(&Progress, Option<&Trial>),
) -> Result<(), EvolveError> {
    let space = space::search_space(op, plan.family, &plan.problems, plan.device.target())?;
    let folder = run.folder().join("trials");
    fs::create_dir_all(&folder).map_err(|error| EvolveError::Io { path: folder.clone(), error })?;
    let evaluator =
        Evaluator { op, plan, compiler, start, folder: &folder, answers: AnswerCache::kept(), stop };
    let outcome = SearchDriver::new(&evaluator, &space, run, progress)?.go();
    let _ = fs::remove_dir_all(&folder);
    outcome
}

struct SearchDriver<'a, O: Op> {
    evaluator: &'a Evaluator<'a, O>,
    space: &'a Space,
    run: &'a Run,
    progress: &'a dyn Fn(&Progress, Option<&Trial>),
    /// Of the run so far; taken as they come up again.
    recorded: IndexMap<u32, Trial>,
    exchanges: IndexMap<u32, Exchange>,
    /// Where proposed sources are kept.
    sources: PathBuf,
    trials: Vec<Trial>,
    /// Answers that were no candidate: their numbers and why.
    refused: Vec<(u32, String)>,
    history: History,
    /// Which trial a point was, and which trial first had a machine code.
    numbers: HashMap<Point, u32>,
    identities: HashMap<String, u32>,
    evaluated: u32,
}

/// A candidate that was asked for, and is being compiled unless its outcome is known.
struct PendingCandidate {
    number: u32,
    proposal: Proposal,
    knobs: IndexMap<String, String>,
    compiled: Option<Receiver<Result<Compiled, Rejection>>>,
}

/// A proposer's candidate: its names, values and constraints hold, and its source, if it has one, was screened.
struct CheckedProposal {
    name: String,
    knobs: IndexMap<String, String>,
    source: Option<String>,
}

/// A setting to be tried, and what the log will say it came from.
struct CandidateToTry<'s> {
    number: u32,
    setting: Setting<'s>,
    parent: Option<u32>,
    origin: String,
    source: Option<String>,
}

impl<'a, O: Op> SearchDriver<'a, O> {
    fn new(
        evaluator: &'a Evaluator<'a, O>,
        space: &'a Space,
        run: &'a Run,
        progress: &'a dyn Fn(&Progress, Option<&Trial>),
    ) -> Result<Self, EvolveError> {
        let plan = evaluator.plan;
        let (proposer, strategy) = match &plan.proposer {
            Proposer::Knobs => ("knobs", plan.strategy.name),
            Proposer::External(external) => (external.name(), external.information.name()),
        };
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
            proposer: proposer.to_owned(),
            strategy: strategy.to_owned(),
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
        Ok(SearchDriver {
            evaluator,
            space,
            run,
            progress,
            recorded: state.trials,
            exchanges: state.exchanges.into_iter().map(|it| (it.number, it)).collect(),
            sources: run.folder().join("sources"),
            trials: Vec::new(),
            refused: Vec::new(),
            history: History::new(),
            numbers: HashMap::new(),
            identities: HashMap::new(),
            evaluated: 0,
        })
    }

    fn go(mut self) -> Result<(), EvolveError> {
        let plan = self.evaluator.plan;
        if let Proposer::External(external) = &plan.proposer {
            external.ready().map_err(EvolveError::from)?;
        }
        self.baseline()?;
        match &plan.proposer {
            Proposer::Knobs => self.by_strategy()?,
            Proposer::External(external) => self.by_proposer(external)?,
        }
        for dead in knobs::dead(&self.trials) {
            let text = format!(
                "knob {} changed no machine code in {} pairs of trials that differ in nothing else: it is dead here",
                dead.knob, dead.pairs
            );
            self.note(text)?;
        }
        Ok(())
    }

    /// Asks the strategy, some candidates ahead of the one that is evaluated.
    fn by_strategy(&mut self) -> Result<(), EvolveError> {
        let plan = self.evaluator.plan;
        let mut strategy = plan.strategy.start(plan.seed);
        let mut queue: VecDeque<PendingCandidate> = VecDeque::new();
        let mut asked: u32 = 0;
        // Compiles run on their own threads and reach only what outlives this scope.
        let (evaluator, space) = (self.evaluator, self.space);
        std::thread::scope(|scope| {
            loop {
                if evaluator.stop.load(Ordering::Relaxed) {
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
                        scope.spawn(move || drop(sender.send(evaluator.compile(&setting))));
                        receiver
                    });
                    queue.push_back(PendingCandidate { number: asked, proposal, knobs, compiled });
                }
                let Some(next) = queue.pop_front() else { break };
                let point = next.proposal.point;
                let trial = self.trial(next)?;
                if !matches!(trial.result, TrialResult::Same { .. }) {
                    self.evaluated += 1;
                }
                self.take(trial, Some(point));
            }
            Ok(())
        })
    }

    /// Asks the proposer for one candidate after another; every answer counts.
    fn by_proposer(&mut self, external: &ExternalProposer) -> Result<(), EvolveError> {
        let budget = self.evaluator.plan.budget;
        let mut silences = 0;
        for number in 1..=budget {
            if self.evaluator.stop.load(Ordering::Relaxed) {
                return Err(EvolveError::Stopped);
            }
            let exchange = match self.exchanges.shift_remove(&number) {
                Some(exchange) => exchange,
                None => self.exchange(external, number, &mut silences)?,
            };
            self.evaluated = number;
            match exchange.outcome {
                Ok(_) => {
                    let proposed = self.judge(&exchange.answer).map_err(EvolveError::Differs)?;
                    let trial = self.proposed(external, number, proposed)?;
                    self.take(trial, None);
                }
                Err(reason) if silences >= SILENCES && number < budget => {
                    return Err(EvolveError::Silent { times: silences, reason });
                }
                Err(reason) => {
                    self.refused.push((number, reason));
                    (self.progress)(&self.standing(), None);
                }
            }
        }
        Ok(())
    }

    /// Asks the proposer, and writes down what was said.
    fn exchange(
        &self,
        external: &ExternalProposer,
        number: u32,
        silences: &mut u32,
    ) -> Result<Exchange, EvolveError> {
        let Evaluator { op, plan, folder, stop, .. } = *self.evaluator;
        let baseline = baseline_name(plan.baseline.as_deref(), &plan.baseline_knobs);
        let known = prompt::PromptFacts {
            op,
            family: plan.family,
            device: &plan.device,
            problems: &plan.problems,
            baseline: &baseline,
            elites: plan.elites,
            trials: &self.trials,
            refused: &self.refused,
            profiles: &self.run.state().profiles,
            source: &|hash| untrusted::text(plan.family, hash, &self.sources),
        };
        let prompt = prompt::make(&known, external.information, (number, plan.budget))?;
        let (mut answer, outcome) = match external.ask(&prompt, folder, stop) {
            Ok(answer) => {
                *silences = 0;
                let outcome = self.judge(&answer).map(|proposed| proposed.name);
                (answer, outcome)
            }
            Err(ProposerError::Silent { reason, heard }) => {
                *silences += 1;
                (heard, Err(reason))
            }
            Err(other) => return Err(other.into()),
        };
        if outcome.is_err() && answer.len() > KEPT_BYTES {
            answer.truncate(answer.floor_char_boundary(KEPT_BYTES));
        }
        let exchange = Exchange { number, proposer: external.name().to_owned(), prompt, answer, outcome };
        self.run.record(&Event::Proposed { exchange: exchange.clone() })?;
        Ok(exchange)
    }

    /// What an answer proposes; or why it is no candidate, in words for the proposer.
    fn judge(&self, answer: &str) -> Result<CheckedProposal, String> {
        let EvolvePlan { family, problems, device, .. } = self.evaluator.plan;
        let baseline = self.trials.first().map(|trial| &trial.knobs);
        let ProposedCandidate { knobs: changes, source } = answer::read(answer)?;
        let is_fixed = |name: &&String| family.knob(name).is_some_and(|knob| !knob.search);
        if let Some(name) = changes.keys().find(is_fixed) {
            return Err(format!("{}: {name} is not searched", family.name));
        }
        // On top of the baseline's: the later of two settings of a knob counts.
        let set: Vec<(String, String)> =
            baseline.into_iter().flatten().chain(&changes).map(|(a, b)| (a.clone(), b.clone())).collect();
        let words = |refusal: Refusal| match refusal.hint {
            Some(hint) => format!("{} ({hint})", refusal.message),
            None => refusal.message,
        };
        let mut knobs = IndexMap::new();
        for problem in problems {
            let candidate = self.evaluator.op.candidate(family, None, &set, problem).map_err(words)?;
            let request = family.request(&candidate, device.target()).map_err(|error| words(error.into()))?;
            if let Some(text) = &source {
                let headers: Vec<String> = request.source.headers.into_iter().map(|(name, _)| name).collect();
                screen::source(text, &family.entry, &headers)?;
            }
            knobs = candidate.knobs.into_iter().map(|(name, value)| (name, value.to_string())).collect();
        }
        let whose = match &source {
            Some(text) => format!("{} source {}", family.name, untrusted::hash(text)),
            None => family.name.clone(),
        };
        Ok(CheckedProposal { name: name(&whose, &knobs, baseline), knobs, source })
    }

    /// The trial of a proposer's candidate: as the log has it, or made now.
    fn proposed(
        &mut self,
        external: &ExternalProposer,
        number: u32,
        proposed: CheckedProposal,
    ) -> Result<Trial, EvolveError> {
        let family = self.evaluator.plan.family;
        let CheckedProposal { name, knobs, source } = proposed;
        let untrusted = source.map(|text| UntrustedSource::keep(family, &text, &self.sources)).transpose()?;
        let family = untrusted.as_ref().map_or(Ok(family), UntrustedSource::family)?;
        let own = untrusted.as_ref().map(|untrusted| untrusted.folder.as_path());
        let source = untrusted.as_ref().map(|untrusted| untrusted.hash.clone());
        let setting = Setting { family, name, knobs, own };
        let trial = if let Some(trial) = self.recalled(number, &setting, source.as_ref())? {
            trial
        } else {
            let (parent, origin) = (None, external.name().to_owned());
            self.attempt(CandidateToTry { number, setting: setting.clone(), parent, origin, source }, None)?
        };
        self.profile(&trial, &setting)?;
        Ok(trial)
    }

    /// Has an elite looked at more closely, where a proposer is told what was seen. The log has it then.
    fn profile(&self, trial: &Trial, setting: &Setting<'_>) -> Result<(), EvolveError> {
        let Evaluator { op, plan, compiler, stop, .. } = *self.evaluator;
        let is_told = matches!(&plan.proposer, Proposer::External(it) if it.information != Information::Free);
        if !is_told || !matches!(trial.result, TrialResult::Timed { elite: true, .. }) {
            return Ok(());
        }
        let plan = profile::ProfilePlan {
            device: plan.device.clone(),
            subjects: plan.problems.iter().map(|problem| (setting.subject(), problem.clone())).collect(),
            limits: plan.limits,
            secret: plan.secret,
            full_size: false,
        };
        let start = self.evaluator.start_of(setting);
        match profile::run(op, &plan, compiler, &start, self.run, stop, &|_| ()) {
            Ok(()) => Ok(()),
            Err(ProfileError::Stopped) => Err(EvolveError::Stopped),
            Err(ProfileError::Log(error)) => Err(error.into()),
            // A search goes on without.
            Err(error) => self.note(format!("no profiles for the proposer: {error}")),
        }
    }

    /// Writes down what people should know, once.
    fn note(&self, text: String) -> Result<(), EvolveError> {
        // A run that is gone on with may have said so already.
        if !self.run.state().notes.contains(&text) {
            self.run.record(&Event::Note { text })?;
        }
        Ok(())
    }

    /// Trial 0: what everything is compared with.
    fn baseline(&mut self) -> Result<(), EvolveError> {
        let plan = self.evaluator.plan;
        let Some(problem) = plan.problems.first() else {
            return Err(Refusal::new("there is no problem to search for").into());
        };
        let preset = plan.baseline.as_deref();
        let candidate = self.evaluator.op.candidate(plan.family, preset, &plan.baseline_knobs, problem)?;
        let knobs: IndexMap<String, String> =
            candidate.knobs.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let point = space::point(self.space, &knobs);
        let name = baseline_name(preset, &plan.baseline_knobs);
        let setting = Setting { family: plan.family, name, knobs, own: None };
        let trial = if let Some(trial) = self.recalled(0, &setting, None)? {
            trial
        } else {
            let lost =
                |out: Rejection| EvolveError::Baseline { problem: problem.to_string(), reason: out.reason };
            let compiled = self.evaluator.compile(&setting).map_err(lost)?;
            self.identities.insert(compiled.identity.clone(), 0);
            let problems = self.evaluator.time(&setting, None)?.map_err(lost)?;
            let Setting { name: candidate, knobs, .. } = setting.clone();
            let result = timed(compiled, 1.0, problems, true);
            let (parent, origin) = (None, "baseline".to_owned());
            let trial = Trial { number: 0, candidate, knobs, parent, origin, source: None, result };
            self.run.record(&Event::Tried { trial: Box::new(trial.clone()) })?;
            trial
        };
        self.profile(&trial, &setting)?;
        self.take(trial, point);
        Ok(())
    }

    /// The next trial of a strategy: as the log has it, or made now.
    fn trial(&mut self, next: PendingCandidate) -> Result<Trial, EvolveError> {
        let PendingCandidate { number, proposal, knobs, compiled } = next;
        let setting = self.setting(&knobs);
        if let Some(trial) = self.recalled(number, &setting, None)? {
            return Ok(trial);
        }
        let parent = proposal.parents.first().and_then(|parent| self.numbers.get(parent)).copied();
        let origin = proposal.origin.to_string();
        self.attempt(CandidateToTry { number, setting, parent, origin, source: None }, compiled)
    }

    /// A trial of the log, if it has this one.
    fn recalled(
        &mut self,
        number: u32,
        setting: &Setting<'_>,
        source: Option<&String>,
    ) -> Result<Option<Trial>, EvolveError> {
        let Some(trial) = self.recorded.shift_remove(&number) else { return Ok(None) };
        if trial.knobs != setting.knobs || trial.source.as_ref() != source {
            let reason = format!("trial {number} was {}, now it would be another", trial.candidate);
            return Err(EvolveError::Differs(reason));
        }
        match trial.result {
            TrialResult::Same { .. } | TrialResult::Failed { stage: Stage::Build, .. } => {}
            // What it compiled to is worked out again, from the cache.
            TrialResult::Timed { .. } | TrialResult::Failed { .. } => {
                let compiled = match setting.own {
                    Some(folder) => self.evaluator.compile_apart(setting, folder)?,
                    None => self.evaluator.compile(setting),
                };
                if let Ok(compiled) = compiled {
                    self.identities.entry(compiled.identity).or_insert(number);
                }
            }
        }
        Ok(Some(trial))
    }

    /// Takes a setting through the stages.
    fn attempt(
        &mut self,
        to_try: CandidateToTry<'_>,
        compiled: Option<Receiver<Result<Compiled, Rejection>>>,
    ) -> Result<Trial, EvolveError> {
        let CandidateToTry { number, setting, parent, origin, source } = to_try;
        let compiled = match (setting.own, compiled.and_then(|compiled| compiled.recv().ok())) {
            (Some(folder), _) => self.evaluator.compile_apart(&setting, folder)?,
            (None, Some(compiled)) => compiled,
            (None, None) => self.evaluator.compile(&setting),
        };
        let result = match compiled {
            Err(out) => failed(out),
            Ok(compiled) => {
                if let Some(&as_trial) = self.identities.get(&compiled.identity) {
                    TrialResult::Same { as_trial, code_hash: compiled.code_hash }
                } else {
                    self.identities.insert(compiled.identity.clone(), number);
                    self.evaluate((number, &setting), compiled, parent)?
                }
            }
        };
        let Setting { name: candidate, knobs, .. } = setting;
        let trial = Trial { number, candidate, knobs, parent, origin, source, result };
        self.run.record(&Event::Tried { trial: Box::new(trial.clone()) })?;
        Ok(trial)
    }

    fn evaluate(
        &mut self,
        (number, setting): (u32, &Setting<'_>),
        compiled: Compiled,
        parent: Option<u32>,
    ) -> Result<TrialResult, EvolveError> {
        if let Some(folder) = setting.own
            && let Err(out) = self.evaluator.prove(setting, folder)?
        {
            return Ok(failed(out));
        }
        let baseline = elites::timed(self.trials.first()).next().map(|timed| timed.problems);
        let problems = match self.evaluator.time(setting, baseline)? {
            Ok(problems) => problems,
            Err(out) => return Ok(failed(out)),
        };
        let score = geometric_mean(problems.iter().map(|it| it.speedup)).unwrap_or_default();
        let parent = self.trials.iter().filter(|trial| Some(trial.number) == parent);
        let parent = elites::timed(parent).next();
        let count = self.evaluator.plan.elites;
        let elite = elites::joins(score, &problems, parent, &elites::best(&self.trials, count), count);
        if elite && let Err(out) = self.evaluator.confirm(setting, number)? {
            return Ok(failed(out));
        }
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
            budget: self.evaluator.plan.budget,
            valid: count(|result| matches!(result, TrialResult::Timed { .. })),
            same: count(|result| matches!(result, TrialResult::Same { .. })),
            elites: elites::best(&self.trials, self.evaluator.plan.elites).len(),
            best: best.map(|best| (best.trial.candidate.clone(), best.score)),
        }
    }

    fn setting(&self, knobs: &IndexMap<String, String>) -> Setting<'a> {
        let family = self.evaluator.plan.family;
        let baseline = self.trials.first().map(|trial| &trial.knobs);
        Setting { family, name: name(&family.name, knobs, baseline), knobs: knobs.clone(), own: None }
    }
}

/// What a candidate differs from the baseline in; that is what people compare.
fn name(
    whose: &str,
    knobs: &IndexMap<String, String>,
    baseline: Option<&IndexMap<String, String>>,
) -> String {
    let mut name = whose.to_owned();
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

fn failed(out: Rejection) -> TrialResult {
    TrialResult::Failed { stage: out.stage, failure: out.failure, reason: out.reason }
}
