//! The search loop. It asks for candidates, compiles some of them ahead, evaluates them in order and reports each
//! result to the strategy.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};

use fleet::Fleet;
use gpu::device::Device;
use indexmap::IndexMap;
use op::{Op, Refusal};
use runlog::{Event, Exchange, FleetWorker, ProblemTime, Run, Search, Stage, Trial, TrialResult};
use runlog::{elites, inert_knobs};
use search::history::{History, Outcome, Proposal};
use search::space::{Point, Space};
use stats::geometric_mean;

use super::error::EvolveError;
use super::evaluator::{Compiled, Evaluator, Rejection, Setting};
use super::picks;
use super::plan::{EvolvePlan, Progress};
use super::proposer::answer::{self, ProposedCandidate};
use super::proposer::{ExternalProposer, Information, Proposer, ProposerError, prompt, screen};
use super::remote::{self, CandidateResult, CandidateTask};
use super::space;
use super::untrusted::{self, UntrustedSource};
use crate::Session;
use crate::bench::AnswerCache;
use crate::profile::{self, ProfileError};
use crate::session::StageError;

/// The limit of proposals per unit of budget. It ends a search in which most proposals compile to the same code.
const PROPOSALS_PER_EVALUATION: u32 = 8;
/// The search ends after this many requests in a row without an answer. A bad answer counts as an answer.
const MAX_MISSING_ANSWERS: u32 = 5;
/// A time in the log agrees with a new measurement if their ratio is at most this, either way.
const AGREEMENT: f64 = 1.05;
/// How many bytes of a rejected answer the log keeps. An answer with a candidate is kept whole, because it is parsed
/// again when the run is resumed.
const MAX_REJECTED_BYTES: usize = 64 << 10;

/// Searches until the budget or the space is used up, or `stop` is set. Trials that are in the run's log are not
/// repeated. With a fleet, its workers evaluate the candidates of a strategy.
pub fn run<O: Op + ?Sized>(
    session: &Session<'_, O>,
    plan: &EvolvePlan<'_, O::Problem>,
    fleet: Option<&mut dyn Fleet>,
    progress: &dyn Fn(&Progress, Option<&Trial>),
) -> Result<(), EvolveError> {
    let Session { op, compiler, start, run, stop, tell } = *session;
    let space = space::search_space(op, plan.family, &plan.problems, plan.device.target())?;
    let folder = run.folder().join("trials");
    fs::create_dir_all(&folder).map_err(|error| EvolveError::Io { path: folder.clone(), error })?;
    let evaluator =
        Evaluator { op, plan, compiler, start, folder: &folder, answers: AnswerCache::enabled(), stop };
    let outcome = SearchDriver::new(&evaluator, (&space, fleet), run, progress, tell)?.run();
    let _ = fs::remove_dir_all(&folder);
    outcome
}

struct SearchDriver<'a, 'f, O: Op + ?Sized> {
    evaluator: &'a Evaluator<'a, O>,
    space: &'a Space,
    fleet: Option<&'f mut dyn Fleet>,
    run: &'a Run,
    /// See [`EvolvePlan::ahead`]. A resumed search asks ahead as it did before.
    ahead: usize,
    progress: &'a dyn Fn(&Progress, Option<&Trial>),
    /// Receives messages about the fleet.
    tell: &'a dyn Fn(&str),
    /// The trials in the log of a resumed run. Each is removed when the search reaches its number.
    recorded: IndexMap<u32, Trial>,
    /// The timed trials whose times come from the log and were not measured again.
    unconfirmed: HashSet<u32>,
    /// The exchanges in the log of a resumed run.
    exchanges: IndexMap<u32, Exchange>,
    /// The folder of the proposed sources.
    sources: PathBuf,
    trials: Vec<Trial>,
    /// The answers that gave no candidate: their numbers and the reasons.
    refused: Vec<(u32, String)>,
    history: History,
    /// The trial of every evaluated point.
    trial_of_point: HashMap<Point, u32>,
    /// The first trial with each [`Compiled::identity`].
    trial_of_identity: HashMap<String, u32>,
    evaluated: u32,
}

/// A proposed candidate. It is being compiled, or a worker of the fleet has it, unless its result is already in the log.
struct PendingCandidate {
    number: u32,
    proposal: Proposal,
    knobs: IndexMap<String, String>,
    compiled: Option<Receiver<Result<Compiled, Rejection>>>,
}

/// What a worker of the fleet found out about a compiled candidate: the times, and the check with fresh inputs.
#[derive(Default)]
struct KnownStages {
    timed: Option<Result<Vec<ProblemTime>, Rejection>>,
    confirmed: Option<Result<(), Rejection>>,
}

/// The build of a candidate, and what is known of it from a worker of the fleet.
struct CompiledCandidate {
    compiled: Result<Compiled, Rejection>,
    known: KnownStages,
    done_by: Option<FleetWorker>,
}

impl CompiledCandidate {
    fn here(compiled: Result<Compiled, Rejection>) -> Self {
        CompiledCandidate { compiled, known: KnownStages::default(), done_by: None }
    }
}

/// A candidate of an external proposer. Its knobs satisfy the constraints, and its source, if any, was screened.
struct CheckedProposal {
    name: String,
    knobs: IndexMap<String, String>,
    source: Option<String>,
}

/// A setting to try, with its origin for the log.
struct CandidateToTry<'s> {
    number: u32,
    setting: Setting<'s>,
    parent: Option<u32>,
    origin: String,
    source: Option<String>,
}

impl<'a, 'f, O: Op + ?Sized> SearchDriver<'a, 'f, O> {
    fn new(
        evaluator: &'a Evaluator<'a, O>,
        (space, fleet): (&'a Space, Option<&'f mut dyn Fleet>),
        run: &'a Run,
        progress: &'a dyn Fn(&Progress, Option<&Trial>),
        tell: &'a dyn Fn(&str),
    ) -> Result<Self, EvolveError> {
        let plan = evaluator.plan;
        let (proposer, strategy) = match &plan.proposer {
            Proposer::Knobs => ("knobs", plan.strategy.name),
            Proposer::External(external) => (external.name(), external.information.name()),
        };
        let mut state = run.state();
        let ahead = match &state.search {
            Some(before) => before.ahead,
            None => Some(plan.ahead as u32),
        };
        let search = Search {
            family: plan.family.full_name(),
            baseline: family::setting_name(plan.baseline.as_deref(), &plan.baseline_knobs),
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
            ahead,
        };
        let work = |name: &str| {
            let problem = plan.problems.iter().find(|problem| problem.to_string() == name)?;
            let matrix = evaluator.op.matrix_type(problem).map(str::to_owned);
            Some((evaluator.op.work(problem), matrix))
        };
        state.remove_implausible(&work);
        for text in &state.warnings {
            if !state.notes.contains(text) {
                run.record(&Event::Note { text: text.clone() })?;
            }
        }
        match &state.search {
            None => run.record(&Event::SearchStarted { search })?,
            Some(before) if *before == search => {}
            Some(_) => {
                let reason = "it has another space, strategy, budget or seed";
                return Err(EvolveError::CannotResume(reason.to_owned()));
            }
        }
        Ok(SearchDriver {
            evaluator,
            space,
            fleet,
            run,
            ahead: ahead.map_or(plan.ahead, |ahead| ahead as usize),
            progress,
            tell,
            recorded: state.trials,
            unconfirmed: HashSet::new(),
            exchanges: state.exchanges.into_iter().map(|it| (it.number, it)).collect(),
            sources: run.folder().join("sources"),
            trials: Vec::new(),
            refused: Vec::new(),
            history: History::new(),
            trial_of_point: HashMap::new(),
            trial_of_identity: HashMap::new(),
            evaluated: 0,
        })
    }

    fn run(mut self) -> Result<(), EvolveError> {
        let plan = self.evaluator.plan;
        if let Proposer::External(external) = &plan.proposer {
            external.check_available().map_err(EvolveError::from)?;
        }
        self.run_baseline()?;
        match &plan.proposer {
            Proposer::Knobs => self.search_by_strategy()?,
            Proposer::External(external) => self.search_by_proposer(external)?,
        }
        if let Some((number, trial)) = self.recorded.first() {
            let reason =
                format!("the log has trial {number} ({}), which the search does not reach", trial.candidate);
            return Err(EvolveError::CannotResume(reason));
        }
        self.confirm_winners()?;
        for inert in inert_knobs::inert(&self.trials) {
            let text = format!(
                "knob {} changed no machine code in {} pairs of trials that differ only in this knob: it has no effect",
                inert.knob, inert.pairs
            );
            self.note(text)?;
        }
        Ok(())
    }

    /// Evaluates the strategy's proposals. The strategy is asked for some candidates ahead, so that they compile while
    /// another one is evaluated.
    fn search_by_strategy(&mut self) -> Result<(), EvolveError> {
        let plan = self.evaluator.plan;
        let mut strategy = plan.strategy.start(plan.seed);
        let mut queue: VecDeque<PendingCandidate> = VecDeque::new();
        let mut asked: u32 = 0;
        // Builds run on other threads, so they may borrow only values that outlive this scope.
        let (evaluator, space) = (self.evaluator, self.space);
        std::thread::scope(|scope| {
            loop {
                if evaluator.stop.load(Ordering::Relaxed) {
                    return Err(EvolveError::Stopped);
                }
                while queue.len() <= self.ahead
                    && self.evaluated + (queue.len() as u32) < plan.budget
                    && asked < plan.budget.saturating_mul(PROPOSALS_PER_EVALUATION)
                {
                    let Some(proposal) = strategy.ask(space, &self.history) else { break };
                    self.history.ask(proposal.clone());
                    asked += 1;
                    let knobs = space::knobs(space, proposal.point);
                    let is_recorded = self.recorded.contains_key(&asked);
                    let compiled = (!is_recorded && self.fleet.is_none()).then(|| {
                        let (sender, receiver) = mpsc::channel();
                        let setting = self.setting(&knobs);
                        scope.spawn(move || drop(sender.send(evaluator.compile(&setting))));
                        receiver
                    });
                    if !is_recorded {
                        let parent = self.parent(&proposal);
                        self.submit(asked, &self.setting(&knobs), parent)?;
                    }
                    queue.push_back(PendingCandidate { number: asked, proposal, knobs, compiled });
                }
                let Some(next) = queue.pop_front() else { break };
                let point = next.proposal.point;
                let trial = self.strategy_trial(next)?;
                if !matches!(trial.result, TrialResult::Same { .. }) {
                    self.evaluated += 1;
                }
                self.add_trial(trial, Some(point));
            }
            Ok(())
        })
    }

    /// Asks the proposer for one candidate at a time. Every answer counts against the budget.
    fn search_by_proposer(&mut self, external: &ExternalProposer) -> Result<(), EvolveError> {
        let budget = self.evaluator.plan.budget;
        let mut missing_answers = 0;
        for number in 1..=budget {
            if self.evaluator.stop.load(Ordering::Relaxed) {
                return Err(EvolveError::Stopped);
            }
            let exchange = match self.exchanges.shift_remove(&number) {
                Some(exchange) => exchange,
                None => self.exchange(external, number, &mut missing_answers)?,
            };
            self.evaluated = number;
            match exchange.outcome {
                Ok(_) => {
                    let proposed = self.check_answer(&exchange.answer).map_err(EvolveError::CannotResume)?;
                    let trial = self.proposed_trial(external, number, proposed)?;
                    self.add_trial(trial, None);
                }
                Err(reason) if missing_answers >= MAX_MISSING_ANSWERS && number < budget => {
                    return Err(EvolveError::NoAnswer { times: missing_answers, reason });
                }
                Err(reason) => {
                    self.refused.push((number, reason));
                    (self.progress)(&self.current_progress(), None);
                }
            }
        }
        match self.refused.first() {
            Some((_, reason)) if self.refused.len() == budget as usize => {
                Err(EvolveError::NoCandidate { asked: budget, reason: reason.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Asks the proposer and records the exchange.
    fn exchange(
        &self,
        external: &ExternalProposer,
        number: u32,
        missing_answers: &mut u32,
    ) -> Result<Exchange, EvolveError> {
        let Evaluator { op, plan, folder, stop, .. } = *self.evaluator;
        let baseline = family::setting_name(plan.baseline.as_deref(), &plan.baseline_knobs);
        let facts = prompt::PromptFacts {
            op,
            family: plan.family,
            device: &plan.device,
            problems: &plan.problems,
            baseline: &baseline,
            elites: plan.elites,
            trials: &self.trials,
            refused: &self.refused,
            profiles: &self.run.state().profiles,
            source: &|hash| untrusted::stored_text(plan.family, hash, &self.sources),
            is_compact: external.is_compact,
        };
        let prompt = prompt::build(&facts, external.information, (number, plan.budget))?;
        let (mut answer, outcome) = match external.ask(&prompt, folder, stop) {
            Ok(answer) => {
                *missing_answers = 0;
                let outcome = self.check_answer(&answer).map(|proposed| proposed.name);
                (answer, outcome)
            }
            Err(ProposerError::NoAnswer { reason, output }) => {
                *missing_answers += 1;
                (output, Err(reason))
            }
            Err(other) => return Err(other.into()),
        };
        if outcome.is_err() && answer.len() > MAX_REJECTED_BYTES {
            answer.truncate(answer.floor_char_boundary(MAX_REJECTED_BYTES));
        }
        let exchange = Exchange { number, proposer: external.name().to_owned(), prompt, answer, outcome };
        self.run.record(&Event::Proposed { exchange: exchange.clone() })?;
        Ok(exchange)
    }

    /// The candidate that an answer proposes, or the reason for the proposer why it is not a candidate.
    fn check_answer(&self, answer: &str) -> Result<CheckedProposal, String> {
        let EvolvePlan { family, problems, device, .. } = self.evaluator.plan;
        let baseline = self.trials.first().map(|trial| &trial.knobs);
        let ProposedCandidate { knobs: changes, source } = answer::parse(answer)?;
        let is_fixed = |name: &&String| family.knob(name).is_some_and(|knob| !knob.search);
        if let Some(name) = changes.keys().find(is_fixed) {
            return Err(format!("{}: knob {name} is fixed in a search", family.name));
        }
        // The changes come after the baseline's knobs: the last value of a knob is used.
        let set: Vec<(String, String)> =
            baseline.into_iter().flatten().chain(&changes).map(|(a, b)| (a.clone(), b.clone())).collect();
        let message = |refusal: Refusal| match refusal.hint {
            Some(hint) => format!("{} ({hint})", refusal.message),
            None => refusal.message,
        };
        let mut knobs = IndexMap::new();
        for problem in problems {
            let candidate = self.evaluator.op.candidate(family, None, &set, problem).map_err(message)?;
            let request =
                family.request(&candidate, device.target()).map_err(|error| message(error.into()))?;
            if let Some(text) = &source {
                let headers: Vec<String> = request.source.headers.into_iter().map(|(name, _)| name).collect();
                screen::check_source(text, &family.entry, &headers)?;
            }
            knobs = candidate.knobs.into_iter().map(|(name, value)| (name, value.to_string())).collect();
        }
        let prefix = match &source {
            Some(text) => format!("{} source {}", family.name, untrusted::hash(text)),
            None => self.baseline_name(),
        };
        Ok(CheckedProposal { name: candidate_name(&prefix, &knobs, baseline), knobs, source })
    }

    /// The trial of a proposer's candidate, from the log or run now.
    fn proposed_trial(
        &mut self,
        external: &ExternalProposer,
        number: u32,
        proposed: CheckedProposal,
    ) -> Result<Trial, EvolveError> {
        let family = self.evaluator.plan.family;
        let CheckedProposal { name, knobs, source } = proposed;
        let untrusted =
            source.map(|text| UntrustedSource::store(family, &text, &self.sources)).transpose()?;
        let family = untrusted.as_ref().map_or(Ok(family), UntrustedSource::family)?;
        let untrusted_folder = untrusted.as_ref().map(|untrusted| untrusted.folder.as_path());
        let source = untrusted.as_ref().map(|untrusted| untrusted.hash.clone());
        let setting = Setting { family, name, knobs, untrusted_folder };
        let trial = if let Some(trial) = self.recorded_trial(number, &setting, source.as_ref())? {
            trial
        } else {
            let (parent, origin) = (None, external.name().to_owned());
            self.run_trial(CandidateToTry { number, setting: setting.clone(), parent, origin, source }, None)?
        };
        self.profile(&trial, &setting)?;
        Ok(trial)
    }

    /// Profiles an elite if the proposer is told about profiles. The profile goes into the log.
    fn profile(&self, trial: &Trial, setting: &Setting<'_>) -> Result<(), EvolveError> {
        let Evaluator { op, plan, compiler, stop, .. } = *self.evaluator;
        let needs_profiles =
            matches!(&plan.proposer, Proposer::External(it) if it.information != Information::Free);
        if !needs_profiles || !matches!(trial.result, TrialResult::Timed { elite: true, .. }) {
            return Ok(());
        }
        let plan = profile::ProfilePlan {
            device: plan.device.clone(),
            subjects: plan.problems.iter().map(|problem| (setting.subject(), problem.clone())).collect(),
            limits: plan.limits,
            secret: plan.secret,
            full_size: false,
            try_levers: false,
        };
        let start = self.evaluator.commands_for(setting);
        let session = Session { op, compiler, start: &start, run: self.run, stop, tell: &|_| () };
        match profile::run(&session, &plan) {
            Ok(()) => Ok(()),
            Err(ProfileError::Stage(StageError::Stopped)) => Err(EvolveError::Stopped),
            Err(ProfileError::Stage(StageError::Log(error))) => Err(error.into()),
            // The search can continue without a profile.
            Err(error) => self.note(format!("no profiles for the proposer: {error}")),
        }
    }

    /// Records a note for readers of the run, once.
    fn note(&self, text: String) -> Result<(), EvolveError> {
        // The log of a resumed run may contain the note already.
        if !self.run.state().notes.contains(&text) {
            self.run.record(&Event::Note { text })?;
        }
        Ok(())
    }

    /// Runs trial 0, the baseline.
    fn run_baseline(&mut self) -> Result<(), EvolveError> {
        let plan = self.evaluator.plan;
        let Some(problem) = plan.problems.first() else {
            return Err(Refusal::new("there is no problem to search for").into());
        };
        let preset = plan.baseline.as_deref();
        let candidate = self.evaluator.op.candidate(plan.family, preset, &plan.baseline_knobs, problem)?;
        let knobs: IndexMap<String, String> =
            candidate.knobs.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let point = space::point(self.space, &knobs);
        let name = self.baseline_name();
        let setting = Setting { family: plan.family, name, knobs, untrusted_folder: None };
        let trial = if let Some(trial) = self.recorded_trial(0, &setting, None)? {
            trial
        } else {
            let baseline_failed = |rejection: Rejection| EvolveError::Baseline {
                problem: problem.to_string(),
                reason: rejection.reason,
            };
            self.submit(0, &setting, None)?;
            let CompiledCandidate { compiled, known, done_by } = self.compiled(0, &setting, None)?;
            let compiled = compiled.map_err(baseline_failed)?;
            self.trial_of_identity.insert(compiled.identity.clone(), 0);
            let KnownStages { timed, confirmed } = known;
            let problems = match timed {
                Some(timed) => timed,
                None => self.evaluator.time(&setting, None)?,
            };
            let problems = problems.map_err(baseline_failed)?;
            let confirmed = match confirmed {
                Some(confirmed) => confirmed,
                None => self.evaluator.confirm(&setting, 0)?,
            };
            confirmed.map_err(baseline_failed)?;
            let Setting { name: candidate, knobs, .. } = setting.clone();
            let result = timed_result(compiled, 1.0, problems, true);
            let (parent, origin) = (None, "baseline".to_owned());
            let trial = Trial { number: 0, candidate, knobs, parent, origin, source: None, done_by, result };
            self.run.record(&Event::Tried { trial: Box::new(trial.clone()) })?;
            trial
        };
        self.profile(&trial, &setting)?;
        self.add_trial(trial, point);
        Ok(())
    }

    /// The next trial of a strategy, from the log or run now.
    fn strategy_trial(&mut self, next: PendingCandidate) -> Result<Trial, EvolveError> {
        let PendingCandidate { number, proposal, knobs, compiled } = next;
        let setting = self.setting(&knobs);
        if let Some(trial) = self.recorded_trial(number, &setting, None)? {
            return Ok(trial);
        }
        let parent = self.parent(&proposal);
        let origin = proposal.origin.to_string();
        self.run_trial(CandidateToTry { number, setting, parent, origin, source: None }, compiled)
    }

    /// The trial that a proposal was made from.
    fn parent(&self, proposal: &Proposal) -> Option<u32> {
        proposal.parents.first().and_then(|parent| self.trial_of_point.get(parent)).copied()
    }

    /// Gives a candidate to the fleet, if there is one.
    fn submit(&mut self, number: u32, setting: &Setting<'_>, parent: Option<u32>) -> Result<(), EvolveError> {
        let baseline = elites::timed(self.trials.first()).next().map(|timed| timed.problems.to_vec());
        // The elites only become better until the candidate's turn comes.
        let parent = elites::timed(self.trials.iter().filter(|trial| Some(trial.number) == parent)).next();
        let least = parent.map_or(1.0, |parent| parent.score) * elites::GAIN;
        let last = elites::best(&self.trials, self.evaluator.plan.elites);
        let last =
            last.last().filter(|_| last.len() == self.evaluator.plan.elites).map_or(0.0, |it| it.score);
        let confirm_from = if number == 0 { 0.0 } else { least.max(last) };
        let Some(fleet) = &mut self.fleet else { return Ok(()) };
        let Setting { name, knobs, .. } = setting.clone();
        let task = CandidateTask { name, knobs, baseline, confirm_from };
        Ok(fleet.submit(task.numbered(number))?)
    }

    /// Waits for the build of a candidate; with a fleet, also for everything else that its worker found out.
    fn compiled(
        &mut self,
        number: u32,
        setting: &Setting<'_>,
        compiled: Option<Receiver<Result<Compiled, Rejection>>>,
    ) -> Result<CompiledCandidate, EvolveError> {
        if let Some(folder) = setting.untrusted_folder {
            return Ok(CompiledCandidate::here(self.evaluator.compile_in_worker(setting, folder)?));
        }
        if let Some(fleet) = &mut self.fleet {
            let answer = fleet.wait(number, self.evaluator.stop, self.tell)?;
            let (CandidateResult { compiled, problems, confirmed }, worker) = remote::result_of(answer)?;
            let known = KnownStages { timed: problems, confirmed };
            return Ok(CompiledCandidate { compiled, known, done_by: Some(worker) });
        }
        let compiled = compiled.and_then(|compiled| compiled.recv().ok());
        Ok(CompiledCandidate::here(compiled.unwrap_or_else(|| self.evaluator.compile(setting))))
    }

    /// The recorded trial with this number, if the log has one.
    fn recorded_trial(
        &mut self,
        number: u32,
        setting: &Setting<'_>,
        source: Option<&String>,
    ) -> Result<Option<Trial>, EvolveError> {
        let Some(trial) = self.recorded.shift_remove(&number) else { return Ok(None) };
        if trial.knobs != setting.knobs || trial.source.as_ref() != source {
            let reason =
                format!("trial {number} was {}; now it would be a different candidate", trial.candidate);
            return Err(EvolveError::CannotResume(reason));
        }
        if matches!(trial.result, TrialResult::Timed { .. }) {
            self.unconfirmed.insert(number);
        }
        match trial.result {
            TrialResult::Same { .. } | TrialResult::Failed { stage: Stage::Build, .. } => {}
            // Later trials are compared with its code, which the build cache has.
            TrialResult::Timed { .. } | TrialResult::Failed { .. } => {
                let compiled = match setting.untrusted_folder {
                    Some(folder) => self.evaluator.compile_in_worker(setting, folder)?,
                    None => self.evaluator.compile(setting),
                };
                if let Ok(compiled) = compiled {
                    self.trial_of_identity.entry(compiled.identity).or_insert(number);
                }
            }
        }
        Ok(Some(trial))
    }

    /// Takes a candidate through all stages and records the trial.
    fn run_trial(
        &mut self,
        to_try: CandidateToTry<'_>,
        compiled: Option<Receiver<Result<Compiled, Rejection>>>,
    ) -> Result<Trial, EvolveError> {
        let CandidateToTry { number, setting, parent, origin, source } = to_try;
        let CompiledCandidate { compiled, known, done_by } = self.compiled(number, &setting, compiled)?;
        let result = match compiled {
            Err(rejection) => failed_result(rejection),
            Ok(compiled) => {
                if let Some(&as_trial) = self.trial_of_identity.get(&compiled.identity) {
                    TrialResult::Same { as_trial, code_hash: compiled.code_hash }
                } else {
                    self.trial_of_identity.insert(compiled.identity.clone(), number);
                    self.evaluate((number, &setting), (compiled, known), parent)?
                }
            }
        };
        let Setting { name: candidate, knobs, .. } = setting;
        let trial = Trial { number, candidate, knobs, parent, origin, source, done_by, result };
        self.run.record(&Event::Tried { trial: Box::new(trial.clone()) })?;
        Ok(trial)
    }

    /// Checks and times a compiled candidate, unless a worker of the fleet did, and decides whether it becomes an elite.
    fn evaluate(
        &mut self,
        (number, setting): (u32, &Setting<'_>),
        (compiled, known): (Compiled, KnownStages),
        parent: Option<u32>,
    ) -> Result<TrialResult, EvolveError> {
        if let Some(folder) = setting.untrusted_folder
            && let Err(rejection) = self.evaluator.check_on_virtual_gpu(setting, folder)?
        {
            return Ok(failed_result(rejection));
        }
        let baseline = elites::timed(self.trials.first()).next().map(|timed| timed.problems);
        let KnownStages { timed, confirmed } = known;
        let timed = match timed {
            Some(timed) => timed,
            None => self.evaluator.time(setting, baseline)?,
        };
        let problems = match timed {
            Ok(problems) => problems,
            Err(rejection) => return Ok(failed_result(rejection)),
        };
        let score = geometric_mean(problems.iter().map(|it| it.speedup)).unwrap_or_default();
        let parent = self.trials.iter().filter(|trial| Some(trial.number) == parent);
        let parent = elites::timed(parent).next();
        let count = self.evaluator.plan.elites;
        let elite = elites::joins(score, &problems, parent, &elites::best(&self.trials, count), count);
        if elite {
            let confirmed = match confirmed {
                Some(confirmed) => confirmed,
                None => self.evaluator.confirm(setting, number)?,
            };
            if let Err(rejection) = confirmed {
                return Ok(failed_result(rejection));
            }
        }
        Ok(timed_result(compiled, score, problems, elite))
    }

    /// Adds a trial to the search, tells the strategy its outcome and reports progress.
    fn add_trial(&mut self, trial: Trial, point: Option<Point>) {
        let outcome = match &trial.result {
            TrialResult::Timed { score, .. } => Outcome::Time(1.0 / score),
            TrialResult::Same { as_trial, .. } => {
                let same = self.trials.iter().filter(|it| it.number == *as_trial);
                elites::timed(same).next().map_or(Outcome::Failed, |same| Outcome::Time(1.0 / same.score))
            }
            TrialResult::Failed { .. } => Outcome::Failed,
        };
        if let Some(point) = point {
            self.trial_of_point.insert(point, trial.number);
            self.history.tell(point, outcome);
        }
        // A time from the log is not shown before it is confirmed.
        let is_shown = !self.unconfirmed.contains(&trial.number);
        self.trials.push(trial);
        (self.progress)(&self.current_progress(), self.trials.last().filter(|_| is_shown));
    }

    /// Measures the winners of a resumed search again if their times come from the log, which is untrusted.
    fn confirm_winners(&mut self) -> Result<(), EvolveError> {
        let is_virtual = matches!(self.evaluator.plan.device, Device::Virtual { .. });
        // All modelled speedups are relative to the time of the baseline. On a GPU it is measured beside each candidate.
        if is_virtual && self.unconfirmed.contains(&0) {
            self.measure_again(0)?;
        }
        loop {
            let winner = elites::winner(&self.trials);
            let names = self.evaluator.plan.problems.iter().map(ToString::to_string);
            let by_problem = names.filter_map(|problem| picks::fastest(&self.trials, &problem));
            let numbers = winner.map(|timed| timed.trial.number).into_iter();
            let mut numbers = numbers.chain(by_problem.map(|(trial, _)| trial.number));
            let Some(number) = numbers.find(|number| self.unconfirmed.contains(number)) else {
                return Ok(());
            };
            self.measure_again(number)?;
        }
    }

    /// Measures a trial of the log again. If the result differs, it replaces the trial.
    fn measure_again(&mut self, number: u32) -> Result<(), EvolveError> {
        self.unconfirmed.remove(&number);
        let plan = self.evaluator.plan;
        let Some(before) = self.trials.iter().find(|trial| trial.number == number).cloned() else {
            return Ok(());
        };
        let stored = |hash: &String| {
            let text = untrusted::stored_text(plan.family, hash, &self.sources);
            let missing =
                || EvolveError::CannotResume(format!("the source of trial {number} is missing or changed"));
            UntrustedSource::store(plan.family, &text.ok_or_else(missing)?, &self.sources)
        };
        let untrusted = before.source.as_ref().map(stored).transpose()?;
        let setting = Setting {
            family: untrusted.as_ref().map_or(Ok(plan.family), UntrustedSource::family)?,
            name: before.candidate.clone(),
            knobs: before.knobs.clone(),
            untrusted_folder: untrusted.as_ref().map(|untrusted| untrusted.folder.as_path()),
        };
        let compiled = match setting.untrusted_folder {
            Some(folder) => self.evaluator.compile_in_worker(&setting, folder)?,
            None => self.evaluator.compile(&setting),
        };
        let baseline = elites::timed(self.trials.first()).next().map(|timed| timed.problems);
        let timed = match compiled {
            Ok(compiled) => {
                let baseline = baseline.filter(|_| number > 0);
                self.evaluator.time(&setting, baseline)?.map(|problems| (compiled, problems))
            }
            Err(rejection) => Err(rejection),
        };
        let confirmed = match timed {
            Ok(timed) => self.evaluator.confirm(&setting, number)?.map(|()| timed),
            Err(rejection) => Err(rejection),
        };
        let (result, now) = match confirmed {
            Ok((compiled, problems)) => {
                let before = elites::timed([&before]).next();
                if before.is_some_and(|before| agree(before.problems, &problems)) {
                    return Ok(());
                }
                let score = geometric_mean(problems.iter().map(|it| it.speedup)).unwrap_or_default();
                let times: Vec<String> =
                    problems.iter().map(|it| format!("{:.2} us", it.time.micros())).collect();
                let is_elite = number == 0 || score >= elites::GAIN;
                (timed_result(compiled, score, problems, is_elite), times.join(", "))
            }
            Err(rejection) => (failed_result(rejection.clone()), format!("it failed: {}", rejection.reason)),
        };
        let claimed: Vec<String> = elites::timed([&before])
            .flat_map(|timed| timed.problems.iter().map(|it| format!("{:.2} us", it.time.micros())))
            .collect();
        let text = format!(
            "trial {number} ({}) was measured again: the log has {}, now {now}",
            before.candidate,
            claimed.join(", ")
        );
        if number == 0 {
            return Err(EvolveError::CannotResume(text));
        }
        let trial = Trial { result, ..before };
        self.run.record(&Event::Tried { trial: Box::new(trial.clone()) })?;
        if let Some(known) = self.trials.iter_mut().find(|known| known.number == number) {
            *known = trial;
        }
        self.note(text)
    }

    fn current_progress(&self) -> Progress {
        let count = |kind: fn(&TrialResult) -> bool| {
            self.trials.iter().filter(|trial| trial.number > 0 && kind(&trial.result)).count() as u32
        };
        let best = elites::winner(&self.trials);
        Progress {
            evaluated: self.evaluated,
            budget: self.evaluator.plan.budget,
            valid: count(|result| matches!(result, TrialResult::Timed { .. })),
            same: count(|result| matches!(result, TrialResult::Same { .. })),
            elites: elites::best(&self.trials, self.evaluator.plan.elites).len(),
            best: best.map(|best| (best.trial.candidate.clone(), best.score)),
        }
    }

    /// The name of the baseline, with which the names of all settings begin.
    fn baseline_name(&self) -> String {
        let EvolvePlan { family, baseline, baseline_knobs, .. } = self.evaluator.plan;
        format!("{} {}", family.name, family::setting_name(baseline.as_deref(), baseline_knobs))
    }

    fn setting(&self, knobs: &IndexMap<String, String>) -> Setting<'a> {
        let family = self.evaluator.plan.family;
        let baseline = self.trials.first().map(|trial| &trial.knobs);
        Setting {
            family,
            name: candidate_name(&self.baseline_name(), knobs, baseline),
            knobs: knobs.clone(),
            untrusted_folder: None,
        }
    }
}

/// Whether the times of a log agree with those that were taken now. Speedups are compared on a GPU, because its clocks
/// may have changed in between.
fn agree(logged: &[ProblemTime], now: &[ProblemTime]) -> bool {
    let is_near = |a: f64, b: f64| a <= b * AGREEMENT && b <= a * AGREEMENT;
    logged.len() == now.len()
        && logged.iter().all(|before| {
            now.iter().any(|it| {
                it.problem == before.problem
                    && is_near(it.speedup, before.speedup)
                    && (!it.time.is_modelled() || is_near(it.time.micros(), before.time.micros()))
            })
        })
}

/// Names a candidate by the baseline's name or its source, and by the knobs that differ from the baseline's.
fn candidate_name(
    prefix: &str,
    knobs: &IndexMap<String, String>,
    baseline: Option<&IndexMap<String, String>>,
) -> String {
    let mut name = prefix.to_owned();
    for (knob, value) in knobs {
        if baseline.and_then(|baseline| baseline.get(knob)) != Some(value) {
            name += &format!(" {knob}={value}");
        }
    }
    name
}

fn timed_result(
    compiled: Compiled,
    score: f64,
    problems: Vec<runlog::ProblemTime>,
    elite: bool,
) -> TrialResult {
    let Compiled { code_hash, build, registers, shared_bytes, .. } = compiled;
    TrialResult::Timed { build, code_hash, registers, shared_bytes, score, problems, elite }
}

fn failed_result(rejection: Rejection) -> TrialResult {
    let Rejection { stage, failure, reason } = rejection;
    TrialResult::Failed { stage, failure, reason }
}
