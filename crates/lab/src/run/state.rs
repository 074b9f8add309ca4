//! A log folded into what the run knows. Everything that is reported comes from here.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use indexmap::IndexMap;
use serde::Serialize;

use super::log::Log;
use super::{
    BuildRecord, Ceiling, CheckRecord, Event, Exchange, Fact, FailureKind, Manifest, Modelled, ResultId,
    RunOutcome, SampleSet, Search, Stage, StageKey, StageOutcome, TargetJudged, Timer, Trial, Utc,
};
use crate::invert::Inversion;
use crate::profile::Profile;
use crate::stats::{Comparison, NoiseFloor, Speedup, Standing, geometric_mean};

/// How the version of a baseline of our own begins.
pub const OURS: &str = "warpsmith ";

/// What a run knows, as of the last line of its log.
#[derive(Clone, Debug, Default)]
pub struct RunState {
    /// `None`: stopped before it began.
    pub manifest: Option<Manifest>,
    /// When the last event was written.
    pub last: Option<Utc>,
    /// `None`: still going on, or stopped.
    pub outcome: Option<RunOutcome>,
    pub stages: IndexMap<StageKey, StageState>,
    pub builds: IndexMap<ResultId, BuildRecord>,
    pub checks: IndexMap<ResultId, CheckRecord>,
    pub baselines: IndexMap<String, Fact<String>>,
    /// Of sessions that were finished; what a stop cut short is measured again, and not shown.
    pub measurements: Vec<Measurement>,
    pub modelled: IndexMap<ResultId, Modelled>,
    pub controls: Vec<Control>,
    pub ceilings: Vec<Ceiling>,
    pub verdicts: Vec<SpeedupRecord>,
    pub failures: Vec<FailureRecord>,
    pub targets: Vec<TargetJudged>,
    pub search: Option<Search>,
    /// By number.
    pub trials: IndexMap<u32, Trial>,
    pub exchanges: Vec<Exchange>,
    pub profiles: IndexMap<ResultId, Profile>,
    pub inversions: Vec<Inversion>,
    pub notes: Vec<String>,
    /// One for every time the run was worked on to an end.
    pub input_seeds: Vec<u64>,
    /// Kinds of events this version does not know, with how often each came.
    pub unknown: IndexMap<String, usize>,
    /// What is odd about the log.
    pub warnings: Vec<String>,
    next_session: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageState {
    Started,
    Finished(StageOutcome),
}

/// Times of one subject on one problem by one timer.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub of: ResultId,
    pub sampled: SampleSet,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Control {
    pub problem: String,
    pub subject: String,
    pub session: u32,
    pub timer: Timer,
    pub processes: usize,
    pub speedup: Speedup,
    pub noise_floor: NoiseFloor,
}

/// A candidate against a baseline of the same session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpeedupRecord {
    pub problem: String,
    pub candidate: String,
    pub baseline: String,
    pub session: u32,
    pub timer: Timer,
    pub comparison: Comparison,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureRecord {
    #[serde(flatten)]
    pub of: ResultId,
    pub stage: Stage,
    pub kind: FailureKind,
    pub reason: String,
}

/// The last value of every key, in the order they came. A log may be anybody's and long, so no list is searched.
struct LatestByKey<K, V> {
    places: HashMap<K, usize>,
    values: Vec<Option<V>>,
}

impl<K, V> Default for LatestByKey<K, V> {
    fn default() -> Self {
        LatestByKey { places: HashMap::new(), values: Vec::new() }
    }
}

impl<K: Eq + Hash, V> LatestByKey<K, V> {
    fn insert(&mut self, key: K, value: V) {
        if let Some(before) = self.places.insert(key, self.values.len()) {
            self.values[before] = None;
        }
        self.values.push(Some(value));
    }

    fn into_values(self) -> Vec<V> {
        self.values.into_iter().flatten().collect()
    }
}

/// A candidate's speedups over one baseline as one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeanSpeedup {
    pub candidate: String,
    pub baseline: String,
    pub timer: Timer,
    pub problems: usize,
    pub speedup: f64,
    pub standing: Standing,
}

impl RunState {
    pub fn from_log(log: &Log) -> Self {
        let mut state = RunState::default();
        // Samples of stages that have not finished yet, by what they are of.
        let mut pending: IndexMap<ResultId, Vec<SampleSet>> = IndexMap::new();
        let mut measurements = LatestByKey::default();
        let mut failures = LatestByKey::default();
        let mut targets = LatestByKey::default();
        let mut inversions = LatestByKey::default();
        for record in &log.records {
            state.last = Some(record.time);
            if let Some(session) = record.event.session() {
                state.next_session = state.next_session.max(session.saturating_add(1));
            }
            match &record.event {
                Event::RunStarted { manifest } => state.manifest = Some((**manifest).clone()),
                Event::Resumed { manifest } => {
                    state.outcome = None;
                    state.notes.push(format!("taken up again at {}", manifest.started));
                }
                Event::StageStarted { key } => {
                    if key.stage == Stage::Bench {
                        pending.shift_remove(&key.of);
                    }
                    state.stages.insert(key.clone(), StageState::Started);
                }
                Event::StageFinished { key, outcome } => {
                    if key.stage == Stage::Bench {
                        let samples = pending.shift_remove(&key.of).unwrap_or_default();
                        // A subject measured again (a baseline, with every session) keeps each session's samples.
                        for sampled in samples.into_iter().filter(|_| *outcome == StageOutcome::Done) {
                            let of = key.of.clone();
                            let same = (of.clone(), sampled.timer, sampled.session);
                            measurements.insert(same, Measurement { of, sampled });
                        }
                    }
                    state.stages.insert(key.clone(), StageState::Finished(outcome.clone()));
                }
                Event::Built { of, build } => {
                    state.builds.insert(of.clone(), build.clone());
                }
                Event::Checked { of, check } => {
                    state.checks.insert(of.clone(), check.clone());
                }
                Event::Baseline { name, version } => {
                    state.baselines.insert(name.clone(), version.clone());
                }
                Event::Sampled { of, sampled } => {
                    pending.entry(of.clone()).or_default().push(sampled.clone());
                }
                Event::Modelled { of, modelled } => {
                    state.modelled.insert(of.clone(), modelled.clone());
                }
                Event::Control { problem, subject, session, timer, processes, speedup, noise_floor } => {
                    state.controls.push(Control {
                        problem: problem.clone(),
                        subject: subject.clone(),
                        session: *session,
                        timer: *timer,
                        processes: *processes,
                        speedup: *speedup,
                        noise_floor: *noise_floor,
                    });
                }
                Event::Ceiling { ceiling } => state.ceilings.push(ceiling.clone()),
                Event::Verdict { problem, candidate, baseline, session, timer, comparison } => {
                    state.verdicts.push(SpeedupRecord {
                        problem: problem.clone(),
                        candidate: candidate.clone(),
                        baseline: baseline.clone(),
                        session: *session,
                        timer: *timer,
                        comparison: *comparison,
                    });
                }
                Event::CandidateFailed { of, stage, failure, reason } => {
                    let failure = FailureRecord {
                        of: of.clone(),
                        stage: *stage,
                        kind: *failure,
                        reason: reason.clone(),
                    };
                    // A resumed run may come to the same end again.
                    failures.insert((failure.of.clone(), failure.stage), failure);
                }
                Event::Target { target } => {
                    targets.insert((target.target.clone(), target.problem.clone()), target.clone());
                }
                Event::SearchStarted { search } => state.search = Some(search.clone()),
                Event::Proposed { exchange } => state.exchanges.push(exchange.clone()),
                Event::Tried { trial } => {
                    state.trials.insert(trial.number, (**trial).clone());
                }
                Event::Profiled { of, profile } => {
                    state.profiles.insert(of.clone(), (**profile).clone());
                }
                Event::Inverted { inversion } => {
                    let Inversion { problem, healthy, setting, .. } = inversion;
                    let same = (problem.clone(), healthy.clone(), setting.clone());
                    inversions.insert(same, inversion.clone());
                }
                Event::Note { text } => state.notes.push(text.clone()),
                Event::InputSeed { seed } => state.input_seeds.push(*seed),
                Event::RunFinished { outcome } => state.outcome = Some(*outcome),
                Event::Unknown => *state.unknown.entry(record.kind.clone()).or_default() += 1,
            }
        }
        state.measurements = measurements.into_values();
        state.failures = failures.into_values();
        state.targets = targets.into_values();
        state.inversions = inversions.into_values();
        // A verdict or control counts with the samples it is about.
        let sessions: HashSet<(&str, &str, u32)> = state
            .measurements
            .iter()
            .map(|found| (found.of.problem.as_str(), found.of.subject.as_str(), found.sampled.session))
            .collect();
        let counts =
            |problem: &str, subject: &str, session: u32| sessions.contains(&(problem, subject, session));
        state.verdicts.retain(|verdict| {
            [&verdict.candidate, &verdict.baseline]
                .into_iter()
                .all(|subject| counts(&verdict.problem, subject, verdict.session))
        });
        state.controls.retain(|control| counts(&control.problem, &control.subject, control.session));
        state.warnings = log.warnings.iter().map(ToString::to_string).collect();
        state
    }

    /// Whether a piece of work need not be repeated: it was done, or it failed. What was skipped is tried again.
    pub fn finished(&self, key: &StageKey) -> bool {
        matches!(
            self.stages.get(key),
            Some(StageState::Finished(StageOutcome::Done | StageOutcome::Failed { .. }))
        )
    }

    /// Whether the run came to its end.
    pub fn is_complete(&self) -> bool {
        self.outcome.is_some_and(|outcome| outcome != RunOutcome::Incomplete)
    }

    /// A number no session of the run has yet, finished or not.
    pub fn next_session(&self) -> u32 {
        self.next_session
    }

    pub fn is_baseline(&self, subject: &str) -> bool {
        self.baselines.contains_key(subject)
    }

    /// Whether a subject is somebody else's: our own kernels have our own version, as baselines too.
    pub(super) fn is_peer(&self, subject: &str) -> bool {
        let version = self.baselines.get(subject).and_then(Fact::known);
        version.is_some_and(|version| !version.starts_with(OURS))
    }

    /// Speedups over each baseline as one, per candidate and timer.
    pub fn means(&self) -> Vec<MeanSpeedup> {
        let mut groups: IndexMap<(&str, &str, Timer), IndexMap<&str, f64>> = IndexMap::new();
        for verdict in &self.verdicts {
            let group = (verdict.candidate.as_str(), verdict.baseline.as_str(), verdict.timer);
            // The latest of a problem counts.
            let speedups = groups.entry(group).or_default();
            speedups.insert(&verdict.problem, verdict.comparison.speedup.ratio);
        }
        let mean = |((candidate, baseline, timer), speedups): (_, IndexMap<&str, f64>)| {
            let speedup = geometric_mean(speedups.values().copied())?;
            Some(MeanSpeedup {
                candidate: String::from(candidate),
                baseline: String::from(baseline),
                timer,
                problems: speedups.len(),
                speedup,
                standing: Standing::from_speedup(speedup),
            })
        };
        groups.into_iter().filter_map(mean).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    pub use crate::testing::*;

    #[test]
    fn a_log_becomes_what_the_run_knows() {
        let state = folded(&a_real_log());
        assert_eq!(state.outcome, Some(RunOutcome::Finding));
        assert!(state.is_complete() && state.is_baseline(TORCH));
        assert_eq!((state.builds.len(), state.checks.len(), state.failures.len()), (2, 2, 1));
        assert_eq!((state.measurements.len(), state.verdicts.len(), state.controls.len()), (2, 1, 1));
        assert_eq!(state.next_session(), 1);
        let means = state.means();
        assert_eq!((means.len(), means[0].standing), (1, Standing::Excellent));
        assert!((means[0].speedup - 2.0).abs() < 1e-9);
    }

    #[test]
    fn samples_count_when_their_stage_is_finished() {
        let of = ResultId::new("p", "a", "1");
        let [start, samples, finish] = bench(&of, 0, times(10.0, 4));
        assert_eq!(folded(&[start.clone(), samples.clone()]).measurements, []);
        let twice = folded(&[start.clone(), samples.clone(), start.clone(), samples.clone(), finish.clone()]);
        assert_eq!(twice.measurements.len(), 1);
        assert_eq!(folded(&[start.clone(), samples.clone()]).next_session(), 1);
        let key = StageKey { stage: Stage::Bench, of };
        assert!(twice.finished(&key));
        let failed = |outcome| {
            let end = Event::StageFinished { key: key.clone(), outcome };
            folded(&[start.clone(), samples.clone(), end])
        };
        let state = failed(StageOutcome::Failed { reason: "hang".to_owned() });
        assert!(state.measurements.is_empty() && state.finished(&key));
        let state = failed(StageOutcome::Skipped { reason: "no torch".to_owned() });
        assert!(state.measurements.is_empty() && !state.finished(&key));
    }

    #[test]
    fn a_verdict_without_its_samples_does_not_count() {
        let mut events = a_real_log();
        events.retain(|event| !matches!(event, Event::StageFinished { key, .. } if key.of.subject == TORCH));
        let state = folded(&events);
        assert_eq!((state.measurements.len(), state.verdicts.len(), state.controls.len()), (1, 0, 0));
        assert!(state.means().is_empty());
    }

    #[test]
    fn of_a_failure_that_comes_again_the_last_counts() {
        let failed = |subject: &str, reason: &str| Event::CandidateFailed {
            of: ResultId::new("p", subject, "1"),
            stage: Stage::Check,
            failure: FailureKind::WrongAnswer,
            reason: reason.to_owned(),
        };
        let state = folded(&[failed("a", "first"), failed("b", "other"), failed("a", "second")]);
        let reasons: Vec<_> = state.failures.iter().map(|failure| failure.reason.as_str()).collect();
        assert_eq!(reasons, ["other", "second"]);
    }

    #[test]
    fn an_interrupted_run_is_not_complete() {
        let mut events = a_real_log();
        events.pop();
        assert!(!folded(&events).is_complete());
        events.push(Event::RunFinished { outcome: RunOutcome::Incomplete });
        assert!(!folded(&events).is_complete());
        assert!(!RunState::default().is_complete());
    }
}
