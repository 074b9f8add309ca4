//! The prompt for a proposer: one JSON document.
//!
//! `task` is always present. The search's [`Information`] decides whether `past` and `insights` are. Lists that grow
//! with the search keep only their latest entries, so that the length of a prompt is bounded.

use family::{Family, Knob, Limits};
use gpu::device::Device;
use indexmap::IndexMap;
use op::{Op, Refusal, Work};
use runlog::record::{Diagnosis, HotLine, Profile};
use runlog::{FailureKind, ProblemTime, ResultId, Stage, Trial, TrialResult};
use runlog::{elites, inert_knobs};
use schemars::JsonSchema;
use serde::Serialize;

use super::Information;
use super::screen::MAX_BYTES;

const SCHEMA: u32 = 1;
/// How many of its latest entries a list keeps.
const MAX_LATEST: usize = 24;
/// How many diagnoses and hot lines of a profile are given.
const MAX_DIAGNOSES: usize = 4;
const MAX_HOT_LINES: usize = 6;
/// How many characters of a reason are given.
const MAX_REASON: usize = 1500;

/// The same limits of a compact prompt.
const COMPACT_LATEST: usize = 6;
const COMPACT_REASON: usize = 300;
/// The header that is generated from the knobs. A compact prompt has no other header.
const GENERATED: &str = "generated.cuh";

/// Everything that a prompt is built from.
pub struct PromptFacts<'a, O: Op + ?Sized> {
    /// The op of the search.
    pub op: &'a O,
    /// The searched family.
    pub family: &'a Family,
    /// The device that candidates are timed on.
    pub device: &'a Device,
    /// The problems of the search.
    pub problems: &'a [O::Problem],
    /// The baseline's name.
    pub baseline: &'a str,
    /// How many elites the search keeps.
    pub elites: usize,
    /// All trials so far. The first one is the baseline.
    pub trials: &'a [Trial],
    /// The answers that gave no candidate: their numbers and the reasons.
    pub refused: &'a [(u32, String)],
    /// The profiles of elites.
    pub profiles: &'a IndexMap<ResultId, Profile>,
    /// Returns the text of a proposed source, by its hash.
    pub source: &'a dyn Fn(&str) -> Option<String>,
    /// Leave out the headers of the op and all but the latest results.
    pub is_compact: bool,
}

/// The document that a proposer gets.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Prompt<'a> {
    schema: u32,
    /// The number of the requested answer.
    number: u32,
    /// How many answers are requested in total.
    of: u32,
    task: Task<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    past: Option<Vec<EarlierTrial<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    insights: Option<Insights<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Task<'a> {
    goal: &'static str,
    answer: String,
    op: &'a str,
    family: String,
    about: &'a str,
    device: String,
    target: String,
    problems: Vec<Problem>,
    baseline: Baseline<'a>,
    knobs: Vec<&'a Knob>,
    constraints: Vec<Rule<'a>>,
    limits: Limits,
    /// The name of the kernel's function.
    entry: &'a str,
    /// The source of the kernel.
    source: String,
    /// The headers that the kernel includes. `generated.cuh` is the baseline's; it is generated from the knobs.
    headers: IndexMap<String, String>,
}

/// A problem and its minimum of work.
#[derive(Debug, JsonSchema, Serialize)]
struct Problem {
    name: String,
    #[serde(flatten)]
    work: Work,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Baseline<'a> {
    name: &'a str,
    knobs: &'a IndexMap<String, String>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Rule<'a> {
    require: &'a str,
    because: &'a str,
}

/// A trial with its candidate.
#[derive(Debug, JsonSchema, Serialize)]
struct EarlierTrial<'a> {
    #[serde(flatten)]
    timed: Timed<'a>,
    knobs: &'a IndexMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Timed<'a> {
    trial: u32,
    candidate: &'a str,
    /// Geometric mean of the speedups over the baseline.
    score: f64,
    registers: u32,
    shared_bytes: u64,
    problems: Vec<Speed<'a>>,
}

/// Time and rates on one problem.
#[derive(Debug, JsonSchema, Serialize)]
struct Speed<'a> {
    #[serde(flatten)]
    time: &'a ProblemTime,
    tflops: f64,
    gb_per_s: f64,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Insights<'a> {
    timed: Vec<Timed<'a>>,
    failed: Vec<Failed<'a>>,
    /// The profiles of the elites.
    profiles: Vec<Profiled<'a>>,
    /// Trials that compiled to the machine code of an earlier one.
    same: Vec<IdenticalCode<'a>>,
    /// Answers that gave no candidate.
    refused: Vec<Refused<'a>>,
    /// Knobs that never changed the machine code.
    dead_knobs: Vec<String>,
    /// For every knob and value: how many trials used it, and their best score.
    knob_values: IndexMap<&'a str, IndexMap<&'a str, ValueSummary>>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Failed<'a> {
    trial: u32,
    candidate: &'a str,
    stage: Stage,
    failure: FailureKind,
    reason: String,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Profiled<'a> {
    trial: u32,
    problem: &'a str,
    by: &'a str,
    diagnoses: &'a [Diagnosis],
    hot_lines: &'a [HotLine],
}

#[derive(Debug, JsonSchema, Serialize)]
struct IdenticalCode<'a> {
    trial: u32,
    candidate: &'a str,
    as_trial: u32,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Refused<'a> {
    number: u32,
    reason: &'a str,
}

#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
struct ValueSummary {
    trials: u32,
    best: f64,
}

/// Builds the prompt for answer `number` of `of`.
pub fn build<O: Op + ?Sized>(
    facts: &PromptFacts<'_, O>,
    information: Information,
    (number, of): (u32, u32),
) -> Result<serde_json::Value, Refusal> {
    let (past, insights) = match information {
        Information::Free => (None, None),
        Information::Insight => (None, Some(insights(facts))),
        Information::Full => (Some(past(facts)), Some(insights(facts))),
    };
    let mut prompt = Prompt { schema: SCHEMA, number, of, task: task(facts)?, past, insights };
    if facts.is_compact {
        prompt.compact();
    }
    serde_json::to_value(&prompt).map_err(Refusal::new)
}

impl Prompt<'_> {
    /// Leaves out what makes a prompt long: the headers of the op, whose names the answer's format lists, and older
    /// results.
    fn compact(&mut self) {
        self.task.headers.retain(|name, _| name == GENERATED);
        // The best comes first. Its knobs are in its name, too, but its source is nowhere else.
        if let Some(past) = &mut self.past {
            past.truncate(1);
        }
        let Some(insights) = &mut self.insights else { return };
        let Insights { timed, failed, profiles, same, refused, .. } = insights;
        keep_latest(timed, COMPACT_LATEST);
        keep_latest(failed, COMPACT_LATEST);
        keep_latest(same, COMPACT_LATEST);
        keep_latest(refused, COMPACT_LATEST);
        profiles.truncate(1);
        for it in failed {
            it.reason = it.reason.chars().take(COMPACT_REASON).collect();
        }
    }
}

fn task<'a, O: Op + ?Sized>(facts: &PromptFacts<'a, O>) -> Result<Task<'a>, Refusal> {
    let PromptFacts { op, family, device, problems, trials, .. } = *facts;
    let (Some(problem), Some(baseline)) = (problems.first(), trials.first()) else {
        return Err(Refusal::new("a prompt needs a problem and a baseline"));
    };
    let set: Vec<(String, String)> =
        baseline.knobs.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let candidate = op.candidate(family, None, &set, problem)?;
    let source = family.request(&candidate, device.target())?.source;
    let names: Vec<&str> = source.headers.iter().map(|(name, _)| name.as_str()).collect();
    Ok(Task {
        goal: "a candidate that gives the right answer on every problem in the shortest time",
        answer: answer_format(family, &names),
        op: op.name(),
        family: family.full_name(),
        about: &family.description,
        device: device.to_string(),
        target: device.target().to_string(),
        problems: problems.iter().map(|it| Problem { name: it.to_string(), work: op.work(it) }).collect(),
        baseline: Baseline { name: facts.baseline, knobs: &baseline.knobs },
        knobs: family.knobs.iter().filter(|knob| knob.search).collect(),
        constraints: family
            .constraints
            .iter()
            .filter(|rule| rule.on.is_empty() || rule.on.contains(&device.target()))
            .map(|rule| Rule { require: rule.text(), because: &rule.because })
            .collect(),
        limits: family.limits,
        entry: &family.entry,
        source: source.text.clone(),
        headers: source.headers.into_iter().collect(),
    })
}

/// Describes the form of an answer.
fn answer_format(family: &Family, headers: &[&str]) -> String {
    format!(
        "Answer with one JSON object. {{\"knobs\": {{NAME: value, ...}}}} sets knobs, each to one of its values; the \
other knobs keep the baseline's values. {{\"source\": \"...\", \"knobs\": {{...}}}} also replaces task.source with \
your own source; the knobs are optional. \"why\" may hold one sentence. The object may be in a fenced block marked \
json. A source may instead be in a fenced block marked cuda. A source has at most {MAX_BYTES} bytes of CUDA C++17 for \
NVRTC. It defines `{}` with its current parameters, takes knobs, axes and the layout of shared memory from \
generated.cuh, and includes only {}, CUDA's device headers and standard headers. Grid, block and shared memory are \
computed from the knobs as before. A candidate is compiled, run under checkers for bounds, races, barriers and \
uninitialised values, compared with a float64 reference, and only then timed. An answer in any other form is rejected, \
and it counts against the budget.",
        family.entry,
        headers.join(", "),
    )
}

/// The elites, best first.
fn past<'a, O: Op + ?Sized>(facts: &PromptFacts<'a, O>) -> Vec<EarlierTrial<'a>> {
    let past = |elite: elites::TimedTrial<'a>| {
        let source = elite.trial.source.as_deref().and_then(facts.source);
        EarlierTrial { timed: timed(facts, elite), knobs: &elite.trial.knobs, source }
    };
    elites::best(facts.trials, facts.elites).into_iter().map(past).collect()
}

fn insights<'a, O: Op + ?Sized>(facts: &PromptFacts<'a, O>) -> Insights<'a> {
    let trials = facts.trials;
    let failed = trials.iter().filter_map(|trial| match &trial.result {
        TrialResult::Failed { stage, failure, reason } => Some(Failed {
            trial: trial.number,
            candidate: &trial.candidate,
            stage: *stage,
            failure: *failure,
            reason: reason.chars().take(MAX_REASON).collect(),
        }),
        _ => None,
    });
    let same = trials.iter().filter_map(|trial| match &trial.result {
        TrialResult::Same { as_trial, .. } => {
            Some(IdenticalCode { trial: trial.number, candidate: &trial.candidate, as_trial: *as_trial })
        }
        _ => None,
    });
    let refused = facts.refused.iter().map(|(number, reason)| Refused { number: *number, reason });
    Insights {
        timed: latest(elites::timed(trials).map(|it| timed(facts, it)).collect()),
        failed: latest(failed.collect()),
        profiles: profiles(facts),
        same: latest(same.collect()),
        refused: latest(refused.collect()),
        dead_knobs: inert_knobs::inert(trials).into_iter().map(|inert| inert.knob).collect(),
        knob_values: knob_values(trials),
    }
}

fn profiles<'a, O: Op + ?Sized>(facts: &PromptFacts<'a, O>) -> Vec<Profiled<'a>> {
    let mut profiles = Vec::new();
    for elite in elites::best(facts.trials, facts.elites) {
        let own = facts.profiles.iter().filter(|(of, _)| of.subject == elite.trial.candidate);
        profiles.extend(own.map(|(of, profile)| Profiled {
            trial: elite.trial.number,
            problem: &of.problem,
            by: &profile.source,
            diagnoses: &profile.diagnoses[..profile.diagnoses.len().min(MAX_DIAGNOSES)],
            hot_lines: &profile.hot_lines[..profile.hot_lines.len().min(MAX_HOT_LINES)],
        }));
    }
    profiles
}

fn timed<'a, O: Op + ?Sized>(facts: &PromptFacts<'a, O>, timed: elites::TimedTrial<'a>) -> Timed<'a> {
    let speed = |time: &'a ProblemTime| {
        let problem = facts.problems.iter().find(|problem| problem.to_string() == time.problem)?;
        let (work, seconds) = (facts.op.work(problem), time.time.micros() * 1e-6);
        Some(Speed {
            time,
            tflops: work.flops / seconds * 1e-12,
            gb_per_s: work.bytes as f64 / seconds * 1e-9,
        })
    };
    Timed {
        trial: timed.trial.number,
        candidate: &timed.trial.candidate,
        score: timed.score,
        registers: timed.registers,
        shared_bytes: timed.shared_bytes,
        problems: timed.problems.iter().filter_map(speed).collect(),
    }
}

/// Summarises the trials of the family's own source by knob and value.
fn knob_values(trials: &[Trial]) -> IndexMap<&str, IndexMap<&str, ValueSummary>> {
    let mut values: IndexMap<&str, IndexMap<&str, ValueSummary>> = IndexMap::new();
    for timed in elites::timed(trials).filter(|timed| timed.trial.source.is_none()) {
        for (knob, value) in &timed.trial.knobs {
            let summary = values.entry(knob).or_default().entry(value).or_default();
            summary.trials += 1;
            summary.best = summary.best.max(timed.score);
        }
    }
    values
}

fn latest<T>(mut list: Vec<T>) -> Vec<T> {
    keep_latest(&mut list, MAX_LATEST);
    list
}

fn keep_latest<T>(list: &mut Vec<T>, most: usize) {
    list.drain(..list.len().saturating_sub(most));
}
