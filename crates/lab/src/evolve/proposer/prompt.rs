//! What a proposer is told, as one JSON document.
//!
//! `task` is always there; `past` and `insights` as the search's [`Information`] says. Lists that grow with the search
//! keep their latest entries, so that a prompt has a bounded length.

use family::{Family, Knob, Limits};
use gpu::device::Device;
use indexmap::IndexMap;
use op::{Op, Refusal, Work};
use serde::Serialize;

use super::Information;
use super::screen::MOST_BYTES;
use crate::evolve::{elites, knobs};
use crate::profile::{Diagnosis, HotLine, Profile};
use crate::run::{FailureKind, ProblemTime, ResultId, Stage, Trial, TrialResult};

const SCHEMA: u32 = 1;
/// Latest entries of a list.
const LATEST: usize = 24;
/// Of a profile.
const DIAGNOSES: usize = 4;
const HOT_LINES: usize = 6;
/// Characters of a reason.
const REASON: usize = 1500;

/// What there is to tell.
pub struct PromptFacts<'a, O: Op> {
    pub op: &'a O,
    pub family: &'a Family,
    pub device: &'a Device,
    pub problems: &'a [O::Problem],
    pub baseline: &'a str,
    pub elites: usize,
    /// The baseline first.
    pub trials: &'a [Trial],
    /// Answers that were no candidate: their numbers and why.
    pub refused: &'a [(u32, String)],
    pub profiles: &'a IndexMap<ResultId, Profile>,
    /// The text of a trial's own source, by its hash.
    pub source: &'a dyn Fn(&str) -> Option<String>,
}

#[derive(Serialize)]
struct Prompt<'a> {
    schema: u32,
    /// Which answer this asks for, of how many.
    number: u32,
    of: u32,
    task: Task<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    past: Option<Vec<EarlierTrials<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    insights: Option<Insights<'a>>,
}

#[derive(Serialize)]
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
    /// The kernel, and what it includes; `generated.cuh` is the baseline's, and follows from the knobs.
    entry: &'a str,
    source: String,
    headers: IndexMap<String, String>,
}

#[derive(Serialize)]
struct Problem {
    name: String,
    #[serde(flatten)]
    work: Work,
}

#[derive(Serialize)]
struct Baseline<'a> {
    name: &'a str,
    knobs: &'a IndexMap<String, String>,
}

#[derive(Serialize)]
struct Rule<'a> {
    require: &'a str,
    because: &'a str,
}

#[derive(Serialize)]
struct EarlierTrials<'a> {
    #[serde(flatten)]
    timed: Timed<'a>,
    knobs: &'a IndexMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

#[derive(Serialize)]
struct Timed<'a> {
    trial: u32,
    candidate: &'a str,
    /// Geometric mean of the speedups over the baseline.
    score: f64,
    registers: u32,
    shared_bytes: u64,
    problems: Vec<Speed<'a>>,
}

#[derive(Serialize)]
struct Speed<'a> {
    #[serde(flatten)]
    time: &'a ProblemTime,
    tflops: f64,
    gb_per_s: f64,
}

#[derive(Serialize)]
struct Insights<'a> {
    timed: Vec<Timed<'a>>,
    failed: Vec<Failed<'a>>,
    /// Of the best that were kept.
    profiles: Vec<Profiled<'a>>,
    /// Compiled to the machine code of an earlier trial.
    same: Vec<IdenticalCode<'a>>,
    /// Answers that were no candidate.
    refused: Vec<Refused<'a>>,
    /// Knobs that made no difference to the machine code.
    dead_knobs: Vec<String>,
    /// By knob and value: how many trials had it, and the best score among them.
    knob_values: IndexMap<&'a str, IndexMap<&'a str, ProfileSummary>>,
}

#[derive(Serialize)]
struct Failed<'a> {
    trial: u32,
    candidate: &'a str,
    stage: Stage,
    failure: FailureKind,
    reason: String,
}

#[derive(Serialize)]
struct Profiled<'a> {
    trial: u32,
    problem: &'a str,
    by: &'a str,
    diagnoses: &'a [Diagnosis],
    hot_lines: &'a [HotLine],
}

#[derive(Serialize)]
struct IdenticalCode<'a> {
    trial: u32,
    candidate: &'a str,
    as_trial: u32,
}

#[derive(Serialize)]
struct Refused<'a> {
    number: u32,
    reason: &'a str,
}

#[derive(Clone, Copy, Default, Serialize)]
struct ProfileSummary {
    trials: u32,
    best: f64,
}

/// The prompt for an answer.
pub fn make<O: Op>(
    known: &PromptFacts<'_, O>,
    information: Information,
    (number, of): (u32, u32),
) -> Result<serde_json::Value, Refusal> {
    let (past, insights) = match information {
        Information::Free => (None, None),
        Information::Insight => (None, Some(insights(known))),
        Information::Full => (Some(past(known)), Some(insights(known))),
    };
    let prompt = Prompt { schema: SCHEMA, number, of, task: task(known)?, past, insights };
    serde_json::to_value(&prompt).map_err(Refusal::new)
}

fn task<'a, O: Op>(known: &PromptFacts<'a, O>) -> Result<Task<'a>, Refusal> {
    let PromptFacts { op, family, device, problems, trials, .. } = *known;
    let (Some(problem), Some(baseline)) = (problems.first(), trials.first()) else {
        return Err(Refusal::new("there is nothing to propose for"));
    };
    let set: Vec<(String, String)> =
        baseline.knobs.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let candidate = op.candidate(family, None, &set, problem)?;
    let source = family.request(&candidate, device.target())?.source;
    let names: Vec<&str> = source.headers.iter().map(|(name, _)| name.as_str()).collect();
    Ok(Task {
        goal: "a candidate that gives the right answer on every problem, in the least time",
        answer: contract(family, &names),
        op: op.name(),
        family: family.full_name(),
        about: &family.description,
        device: device.to_string(),
        target: device.target().to_string(),
        problems: problems.iter().map(|it| Problem { name: it.to_string(), work: op.work(it) }).collect(),
        baseline: Baseline { name: known.baseline, knobs: &baseline.knobs },
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

/// What an answer has to be.
fn contract(family: &Family, headers: &[&str]) -> String {
    format!(
        "Answer with one JSON object: {{\"knobs\": {{NAME: value, ...}}}} sets knobs, each to one of its values, on top of \
the baseline's; {{\"source\": \"...\", \"knobs\": {{...}}}} also puts a source of your own in place of task.source (the knobs \
may be left out). \"why\" may hold a sentence. The object may stand in a fenced block marked json; a source may stand in one \
marked cuda instead. A source has at most {MOST_BYTES} bytes of CUDA C++17 for NVRTC, defines `{}` with the parameters it has \
now, takes knobs, axes and the layout of shared memory from generated.cuh, and includes nothing but {}, CUDA's device headers \
and standard ones. Grid, block and shared memory follow from the knobs as they do now. A candidate is compiled, run under \
checkers for bounds, races, barriers and uninitialised values, held against float64 arithmetic, and only then timed. An \
answer that is not of this form is used up.",
        family.entry,
        headers.join(", "),
    )
}

/// The best that were kept, the best first.
fn past<'a, O: Op>(known: &PromptFacts<'a, O>) -> Vec<EarlierTrials<'a>> {
    let past = |elite: elites::TimedTrial<'a>| {
        let source = elite.trial.source.as_deref().and_then(known.source);
        EarlierTrials { timed: timed(known, elite), knobs: &elite.trial.knobs, source }
    };
    elites::best(known.trials, known.elites).into_iter().map(past).collect()
}

fn insights<'a, O: Op>(known: &PromptFacts<'a, O>) -> Insights<'a> {
    let trials = known.trials;
    let failed = trials.iter().filter_map(|trial| match &trial.result {
        TrialResult::Failed { stage, failure, reason } => Some(Failed {
            trial: trial.number,
            candidate: &trial.candidate,
            stage: *stage,
            failure: *failure,
            reason: reason.chars().take(REASON).collect(),
        }),
        _ => None,
    });
    let same = trials.iter().filter_map(|trial| match &trial.result {
        TrialResult::Same { as_trial, .. } => {
            Some(IdenticalCode { trial: trial.number, candidate: &trial.candidate, as_trial: *as_trial })
        }
        _ => None,
    });
    let refused = known.refused.iter().map(|(number, reason)| Refused { number: *number, reason });
    Insights {
        timed: latest(elites::timed(trials).map(|it| timed(known, it)).collect()),
        failed: latest(failed.collect()),
        profiles: profiles(known),
        same: latest(same.collect()),
        refused: latest(refused.collect()),
        dead_knobs: knobs::dead(trials).into_iter().map(|dead| dead.knob).collect(),
        knob_values: knob_values(trials),
    }
}

fn profiles<'a, O: Op>(known: &PromptFacts<'a, O>) -> Vec<Profiled<'a>> {
    let mut profiles = Vec::new();
    for elite in elites::best(known.trials, known.elites) {
        let own = known.profiles.iter().filter(|(of, _)| of.subject == elite.trial.candidate);
        profiles.extend(own.map(|(of, profile)| Profiled {
            trial: elite.trial.number,
            problem: &of.problem,
            by: &profile.source,
            diagnoses: &profile.diagnoses[..profile.diagnoses.len().min(DIAGNOSES)],
            hot_lines: &profile.hot_lines[..profile.hot_lines.len().min(HOT_LINES)],
        }));
    }
    profiles
}

fn timed<'a, O: Op>(known: &PromptFacts<'a, O>, timed: elites::TimedTrial<'a>) -> Timed<'a> {
    let speed = |time: &'a ProblemTime| {
        let problem = known.problems.iter().find(|problem| problem.to_string() == time.problem)?;
        let (work, seconds) = (known.op.work(problem), time.time.micros() * 1e-6);
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

/// Over trials of the family's own source.
fn knob_values(trials: &[Trial]) -> IndexMap<&str, IndexMap<&str, ProfileSummary>> {
    let mut values: IndexMap<&str, IndexMap<&str, ProfileSummary>> = IndexMap::new();
    for timed in elites::timed(trials).filter(|timed| timed.trial.source.is_none()) {
        for (knob, value) in &timed.trial.knobs {
            let seen = values.entry(knob).or_default().entry(value).or_default();
            seen.trials += 1;
            seen.best = seen.best.max(timed.score);
        }
    }
    values
}

fn latest<T>(mut list: Vec<T>) -> Vec<T> {
    list.drain(..list.len().saturating_sub(LATEST));
    list
}
