//! The state of a run, folded from its log. All reports are made from this state.

use std::collections::HashMap;
use std::hash::Hash;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Comparison, NoiseFloor, Rating, Speedup, geometric_mean};

use super::log::Log;
use super::{
    BuildRecord, Ceiling, CheckRecord, ClassError, Event, Exchange, Fact, FailureKind, Manifest, Modelled,
    ResultId, RunOutcome, SampleSet, Search, Stage, StageKey, StageOutcome, TargetVerdict, Timer, Trial, Utc,
};
use crate::record::{Inversion, Profile};

/// The prefix of the version of a baseline that is one of our own kernels.
pub const OWN_VERSION_PREFIX: &str = "warpsmith ";

/// The state of a run after the last line of its log.
#[derive(Clone, Debug, Default)]
pub struct RunState {
    /// The manifest; `None` if the run was stopped before it started.
    pub manifest: Option<Manifest>,
    /// When the last event was written.
    pub last: Option<Utc>,
    /// The outcome; `None` if the run is active or was stopped.
    pub outcome: Option<RunOutcome>,
    /// The state of every stage.
    pub stages: IndexMap<StageKey, StageState>,
    /// The build of every candidate.
    pub builds: IndexMap<ResultId, BuildRecord>,
    /// The check of every subject.
    pub checks: IndexMap<ResultId, CheckRecord>,
    /// The errors of subjects on inputs of single classes.
    pub class_errors: IndexMap<ResultId, Vec<ClassError>>,
    /// The baselines and their versions.
    pub baselines: IndexMap<String, Fact<String>>,
    /// Measurements of finished stages. Those of an unfinished stage are left out; a resumed run repeats them.
    pub measurements: Vec<Measurement>,
    /// Modelled times.
    pub modelled: IndexMap<ResultId, Modelled>,
    /// A/A controls.
    pub controls: Vec<Control>,
    /// Measured ceilings of the device.
    pub ceilings: Vec<Ceiling>,
    /// Comparisons of candidates with baselines.
    pub verdicts: Vec<SpeedupRecord>,
    /// Failures of candidates.
    pub failures: Vec<FailureRecord>,
    /// Verdicts on targets.
    pub targets: Vec<TargetVerdict>,
    /// The search, if the run has one.
    pub search: Option<Search>,
    /// The trials of the search, by number.
    pub trials: IndexMap<u32, Trial>,
    /// The exchanges with a proposer.
    pub exchanges: Vec<Exchange>,
    /// Profiles of kernels.
    pub profiles: IndexMap<ResultId, Profile>,
    /// The results of `invert`.
    pub inversions: Vec<Inversion>,
    /// Notes for readers.
    pub notes: Vec<String>,
    /// The input seed of every invocation that reached its end.
    pub input_seeds: Vec<u64>,
    /// The number of events of every kind that this version does not know.
    pub unknown: IndexMap<String, usize>,
    /// Warnings about the log.
    pub warnings: Vec<String>,
    next_session: u32,
}

/// The state of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageState {
    /// The stage was started and not finished.
    Started,
    /// The stage ended.
    Finished(StageOutcome),
}

/// The times of one subject on one problem by one timer.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What was measured.
    pub of: ResultId,
    /// The times.
    pub sampled: SampleSet,
}

/// An A/A control: one process of a subject compared with its other processes.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Control {
    /// The problem.
    pub problem: String,
    /// The subject.
    pub subject: String,
    /// The session.
    pub session: u32,
    /// The timer.
    pub timer: Timer,
    /// The number of processes.
    pub processes: usize,
    /// The apparent speedup.
    pub speedup: Speedup,
    /// The noise floor.
    pub noise_floor: NoiseFloor,
}

/// A comparison of a candidate with a baseline of the same session.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SpeedupRecord {
    /// The problem.
    pub problem: String,
    /// The candidate.
    pub candidate: String,
    /// The baseline.
    pub baseline: String,
    /// The session.
    pub session: u32,
    /// The timer.
    pub timer: Timer,
    /// The comparison.
    pub comparison: Comparison,
}

/// A failure of a candidate.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct FailureRecord {
    /// What failed.
    #[serde(flatten)]
    pub of: ResultId,
    /// The stage that failed.
    pub stage: Stage,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The reason.
    pub reason: String,
}

/// The latest value of every key, in log order. A log may be long and untrusted, so insertion must not search a list.
struct LatestByKey<K, V> {
    indexes: HashMap<K, usize>,
    values: Vec<Option<V>>,
}

impl<K, V> Default for LatestByKey<K, V> {
    fn default() -> Self {
        LatestByKey { indexes: HashMap::new(), values: Vec::new() }
    }
}

impl<K: Eq + Hash, V> LatestByKey<K, V> {
    fn insert(&mut self, key: K, value: V) {
        if let Some(before) = self.indexes.insert(key, self.values.len()) {
            self.values[before] = None;
        }
        self.values.push(Some(value));
    }

    fn into_values(self) -> Vec<V> {
        self.values.into_iter().flatten().collect()
    }
}

/// The mean of a candidate's speedups over one baseline.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MeanSpeedup {
    /// The candidate.
    pub candidate: String,
    /// The baseline.
    pub baseline: String,
    /// The timer.
    pub timer: Timer,
    /// The number of problems.
    pub problems: usize,
    /// The geometric mean of the speedups.
    pub speedup: f64,
    /// The rating of the mean.
    pub standing: Rating,
}

/// The name of the subject that is the dispatcher's choice.
pub const CHOSEN: &str = "best";

/// A subject's name, with its setting if the name does not say it: `best (mma small)`, `mma tuned (mma d64)`.
pub(super) fn named(subject: &str, setting: Option<&str>) -> String {
    let is_resolved = subject == CHOSEN || subject.split(' ').any(family::tuned_table::is_tuned);
    match setting.filter(|_| is_resolved) {
        Some(setting) => format!("{subject} ({setting})"),
        None => subject.to_owned(),
    }
}

impl RunState {
    /// The family and setting that was compiled for a result; `None` for a peer.
    pub fn setting(&self, of: &ResultId) -> Option<&str> {
        self.builds.get(of).map(|build| build.setting.as_str()).filter(|setting| !setting.is_empty())
    }

    /// The subject of a result, with the setting if the name does not say it: `best (mma small)`.
    pub fn subject(&self, of: &ResultId) -> String {
        named(&of.subject, self.setting(of))
    }

    /// Folds a log into the state of its run.
    #[allow(clippy::too_many_lines)] // A table: one arm per kind of event.
    pub fn from_log(log: &Log) -> Self {
        let mut state = RunState::default();
        // The samples of unfinished stages, by subject.
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
                    state.notes.push(format!("resumed at {}", manifest.started));
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
                        // A baseline is measured in every session; the samples of each session are kept.
                        for sampled in samples.into_iter().filter(|_| *outcome == StageOutcome::Done) {
                            let of = key.of.clone();
                            let measurement_key = (of.clone(), sampled.timer, sampled.session);
                            measurements.insert(measurement_key, Measurement { of, sampled });
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
                Event::ClassError { of, error } => {
                    let known = state.class_errors.entry(of.clone()).or_default();
                    // A resumed run may measure the same error again.
                    known.retain(|it| it.class != error.class);
                    known.push(error.clone());
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
                    // A resumed run may record the same failure again.
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
                    let inversion_key = (problem.clone(), healthy.clone(), setting.clone());
                    inversions.insert(inversion_key, inversion.clone());
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
        state.warnings = log.warnings.iter().map(ToString::to_string).collect();
        state.remove_implausible(&|_| None);
        state.remove_unsupported();
        state
    }

    /// Whether a piece of work was done or failed, so that a resumed run need not repeat it. Skipped work is repeated.
    pub fn finished(&self, key: &StageKey) -> bool {
        matches!(
            self.stages.get(key),
            Some(StageState::Finished(StageOutcome::Done | StageOutcome::Failed { .. }))
        )
    }

    /// Whether the run reached its end.
    pub fn is_complete(&self) -> bool {
        self.outcome.is_some_and(|outcome| outcome != RunOutcome::Incomplete)
    }

    /// A session number that the run has not used yet.
    pub fn next_session(&self) -> u32 {
        self.next_session
    }

    /// Whether a subject is a baseline.
    pub fn is_baseline(&self, subject: &str) -> bool {
        self.baselines.contains_key(subject)
    }

    /// Whether a subject is a peer. A baseline that is one of our own kernels has a version with the prefix [`OWN_VERSION_PREFIX`].
    pub(super) fn is_peer(&self, subject: &str) -> bool {
        let version = self.baselines.get(subject).and_then(Fact::known);
        version.is_some_and(|version| !version.starts_with(OWN_VERSION_PREFIX))
    }

    /// The mean speedup over each baseline, per candidate and timer.
    pub fn means(&self) -> Vec<MeanSpeedup> {
        let mut groups: IndexMap<(&str, &str, Timer), IndexMap<&str, f64>> = IndexMap::new();
        for verdict in &self.verdicts {
            let group = (verdict.candidate.as_str(), verdict.baseline.as_str(), verdict.timer);
            // The latest verdict on a problem replaces earlier ones.
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
                standing: Rating::from_speedup(speedup),
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
    fn a_log_is_folded_into_the_state() {
        let state = state_from(&bench_log());
        assert_eq!(state.outcome, Some(RunOutcome::ProblemFound));
        assert!(state.is_complete() && state.is_baseline(TORCH));
        assert_eq!((state.builds.len(), state.checks.len(), state.failures.len()), (2, 2, 1));
        assert_eq!((state.measurements.len(), state.verdicts.len(), state.controls.len()), (2, 1, 1));
        assert_eq!(state.next_session(), 1);
        let means = state.means();
        assert_eq!((means.len(), means[0].standing), (1, Rating::Excellent));
        assert!((means[0].speedup - 2.0).abs() < 1e-9);
    }

    #[test]
    fn samples_are_valid_when_their_stage_is_done() {
        let of = ResultId::new("p", "a", "1");
        let [start, samples, finish] = bench(&of, 0, times(10.0, 4));
        assert_eq!(state_from(&[start.clone(), samples.clone()]).measurements, []);
        let twice =
            state_from(&[start.clone(), samples.clone(), start.clone(), samples.clone(), finish.clone()]);
        assert_eq!(twice.measurements.len(), 1);
        assert_eq!(state_from(&[start.clone(), samples.clone()]).next_session(), 1);
        let key = StageKey { stage: Stage::Bench, of };
        assert!(twice.finished(&key));
        let failed = |outcome| {
            let end = Event::StageFinished { key: key.clone(), outcome };
            state_from(&[start.clone(), samples.clone(), end])
        };
        let state = failed(StageOutcome::Failed { reason: "hang".to_owned() });
        assert!(state.measurements.is_empty() && state.finished(&key));
        let state = failed(StageOutcome::Skipped { reason: "no torch".to_owned() });
        assert!(state.measurements.is_empty() && !state.finished(&key));
    }

    #[test]
    fn a_verdict_without_its_samples_is_dropped() {
        let mut events = bench_log();
        events.retain(|event| !matches!(event, Event::StageFinished { key, .. } if key.of.subject == TORCH));
        let state = state_from(&events);
        assert_eq!((state.measurements.len(), state.verdicts.len(), state.controls.len()), (1, 0, 0));
        assert!(state.means().is_empty());
    }

    #[test]
    fn a_repeated_failure_replaces_the_earlier_one() {
        let failed = |subject: &str, reason: &str| Event::CandidateFailed {
            of: ResultId::new("p", subject, "1"),
            stage: Stage::Check,
            failure: FailureKind::WrongAnswer,
            reason: reason.to_owned(),
        };
        let state = state_from(&[failed("a", "first"), failed("b", "other"), failed("a", "second")]);
        let reasons: Vec<_> = state.failures.iter().map(|failure| failure.reason.as_str()).collect();
        assert_eq!(reasons, ["other", "second"]);
    }

    #[test]
    fn an_interrupted_run_is_not_complete() {
        let mut events = bench_log();
        events.pop();
        assert!(!state_from(&events).is_complete());
        events.push(Event::RunFinished { outcome: RunOutcome::Incomplete });
        assert!(!state_from(&events).is_complete());
        assert!(!RunState::default().is_complete());
    }
}
