//! Compares the times of runs: two runs with each other, or one problem over many runs.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use stats::Interval;

use super::{Fact, Modelled, ResultId, RunState, RunSummary, Time, Timer, Utc, rows};
use crate::record::METRICS;

/// Modelled times that differ by less are the same: the model's inputs are rounded.
const SAME_MODELLED: f64 = 0.005;

/// The time of one subject on one problem.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SubjectTime {
    /// What was timed.
    #[serde(flatten)]
    pub of: ResultId,
    /// Whether the subject is a baseline.
    pub is_baseline: bool,
    /// The median of a measured time, or the modelled time.
    pub time: Time,
    /// The 95% interval of a measured median.
    pub interval: Option<Interval>,
    /// The version of the model that computed a modelled time.
    pub model: Option<u32>,
    /// What the compiler reported and the virtual GPU counted, or a profile found: name and value.
    pub counters: Vec<(String, f64)>,
}

impl SubjectTime {
    /// Whether both times are measured, or modelled by the same version of the model.
    fn is_comparable(&self, other: &SubjectTime) -> bool {
        self.time.is_modelled() == other.time.is_modelled() && self.model == other.model
    }
}

/// The counters of a result: the compiler's, those of the launch, and those of its profile.
fn counters(state: &RunState, of: &ResultId, modelled: Option<&Modelled>) -> Vec<(String, f64)> {
    let mut found: Vec<(String, f64)> = Vec::new();
    let mut add = |name: &str, value: f64| {
        if !found.iter().any(|(known, _)| known == name) {
            found.push((name.to_owned(), value));
        }
    };
    if let Some(build) = state.builds.get(of) {
        add("registers", f64::from(build.registers));
        add("spilled bytes", f64::from(build.spill_bytes));
        add("shared memory, bytes", build.shared_bytes as f64);
    }
    if let Some(counts) = modelled.and_then(|modelled| modelled.counts) {
        add("warp instructions", counts.instructions as f64);
        add("global sectors", counts.global_sectors as f64);
        add("local sectors", counts.local_sectors as f64);
        add("bank conflicts", counts.bank_conflicts as f64);
    }
    if let Some(profile) = state.profiles.get(of) {
        for metric in METRICS {
            if let Fact::Known(value) = (metric.value)(&profile.metrics) {
                add(metric.label, value);
            }
        }
    }
    found
}

/// The times of a run: the last hot measurement of each subject on each problem, and the modelled times.
pub fn times(state: &RunState) -> Vec<SubjectTime> {
    let mut times: Vec<SubjectTime> = Vec::new();
    let mut keep = |next: SubjectTime| match times.iter_mut().find(|known| is_same(&known.of, &next.of)) {
        Some(known) => *known = next,
        None => times.push(next),
    };
    for row in rows(state).into_iter().filter(|row| row.timer == Timer::GraphHot) {
        let (time, interval) = (Time::Measured(row.p50_us), Some(row.interval_us));
        let counters = counters(state, &row.of, None);
        keep(SubjectTime { of: row.of, is_baseline: row.is_baseline, time, interval, model: None, counters });
    }
    for (of, modelled) in &state.modelled {
        let time = Time::Modelled(modelled.time_us);
        let model = modelled.model;
        let counters = counters(state, of, Some(modelled));
        keep(SubjectTime { of: of.clone(), is_baseline: false, time, interval: None, model, counters });
    }
    times
}

/// The times of a run and, for subjects without one, those of their profiles.
fn times_and_profiles(state: &RunState) -> Vec<SubjectTime> {
    let mut times = times(state);
    for (of, profile) in &state.profiles {
        let Some(time) = profile.metrics.time else { continue };
        if times.iter().all(|it| !is_same(&it.of, of)) {
            let (of, counters) = (of.clone(), counters(state, of, None));
            times.push(SubjectTime { of, is_baseline: false, time, interval: None, model: None, counters });
        }
    }
    times
}

/// Whether two results are of the same subject on the same problem, whatever their builds.
fn is_same(one: &ResultId, other: &ResultId) -> bool {
    one.problem == other.problem && one.subject == other.subject
}

/// How a time changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeChange {
    /// The second time is shorter.
    Faster,
    /// The second time is longer.
    Slower,
    /// The intervals overlap, or the modelled times are equal.
    NoClearDifference,
    /// The GPUs differ, one time is measured and the other modelled, or the versions of the model differ.
    NotComparable,
}

/// A subject and problem in both runs.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ComparedTime {
    /// What was timed.
    #[serde(flatten)]
    pub of: ResultId,
    /// The time in the first run.
    pub first: Time,
    /// The time in the second run.
    pub second: Time,
    /// The first time divided by the second; `None` if they are not comparable.
    pub speedup: Option<f64>,
    /// How the time changed.
    pub change: TimeChange,
    /// The counters that both runs have.
    pub counters: Vec<CounterChange>,
}

/// A counter in both runs.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CounterChange {
    /// What was counted: `bank conflicts`.
    pub name: String,
    /// The value in the first run.
    pub first: f64,
    /// The value in the second run.
    pub second: f64,
}

impl ComparedTime {
    /// The counters that differ.
    pub fn changed_counters(&self) -> impl Iterator<Item = &CounterChange> {
        self.counters.iter().filter(|it| it.first != it.second)
    }
}

fn counter_changes(first: &SubjectTime, second: &SubjectTime) -> Vec<CounterChange> {
    let both = first.counters.iter().filter_map(|(name, value)| {
        let (_, other) = second.counters.iter().find(|(other, _)| other == name)?;
        Some(CounterChange { name: name.clone(), first: *value, second: *other })
    });
    both.collect()
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct RunComparison {
    /// The GPUs of the runs.
    pub gpus: [Fact<String>; 2],
    /// Results that both runs have.
    pub both: Vec<ComparedTime>,
    /// Results that only one of the runs has.
    pub only: [Vec<ResultId>; 2],
}

/// Compares the times of two runs.
pub fn compare(first: &RunState, second: &RunState) -> RunComparison {
    let gpus = [first, second].map(|state| match &state.manifest {
        Some(manifest) => manifest.gpu.clone(),
        None => Fact::unavailable("the run has no manifest"),
    });
    let [before, after] = [first, second].map(times_and_profiles);
    // A profile does not record the version of the model; it is that of the program.
    let programs = [first, second].map(|state| state.manifest.as_ref().map(|manifest| &manifest.warpsmith));
    let same_model =
        |it: &SubjectTime| !it.time.is_modelled() || it.model.is_some() || programs[0] == programs[1];
    let same_gpu = gpus[0].known().is_some() && gpus[0] == gpus[1];
    let both = before.iter().filter_map(|one| {
        let other = after.iter().find(|other| is_same(&other.of, &one.of))?;
        let speedup = (same_gpu && one.is_comparable(other) && same_model(one))
            .then(|| one.time.micros() / other.time.micros());
        let change = speedup.map_or(TimeChange::NotComparable, |speedup| change(one, other, speedup));
        Some(ComparedTime {
            of: one.of.clone(),
            first: one.time,
            second: other.time,
            speedup,
            change,
            counters: counter_changes(one, other),
        })
    });
    let missing = |these: &[SubjectTime], those: &[SubjectTime]| {
        let is_missing = |it: &&SubjectTime| those.iter().all(|other| !is_same(&other.of, &it.of));
        these.iter().filter(is_missing).map(|it| it.of.clone()).collect()
    };
    RunComparison { gpus, both: both.collect(), only: [missing(&before, &after), missing(&after, &before)] }
}

fn change(one: &SubjectTime, other: &SubjectTime, speedup: f64) -> TimeChange {
    let overlaps = match (&one.interval, &other.interval) {
        (Some(a), Some(b)) => a.low <= b.high && b.low <= a.high,
        _ => (speedup - 1.0).abs() < SAME_MODELLED,
    };
    match speedup {
        _ if overlaps => TimeChange::NoClearDifference,
        speedup if speedup > 1.0 => TimeChange::Faster,
        _ => TimeChange::Slower,
    }
}

/// The fastest kernel on a problem in one run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TrendPoint {
    /// The folder of the run.
    pub run: std::path::PathBuf,
    /// When the run started.
    pub started: Fact<Utc>,
    /// The commit of the kernels; with `+` if there were uncommitted changes.
    pub commit: Option<String>,
    /// The GPU.
    pub gpu: String,
    /// The fastest kernel that is not a baseline.
    pub subject: String,
    /// Its time.
    pub time: Time,
    /// The time of the previous point on the same GPU, divided by this one. `None` if they are not comparable.
    pub speedup: Option<f64>,
}

/// The fastest kernel on a problem in each run that timed it, oldest first. Runs that cannot be read are skipped.
pub fn trend(runs: &[RunSummary], problem: &str) -> Vec<TrendPoint> {
    let mut points: Vec<TrendPoint> = Vec::new();
    let mut latest: HashMap<String, SubjectTime> = HashMap::new();
    for run in runs.iter().rev() {
        let Ok(log) = super::read(&run.folder) else { continue };
        let state = RunState::from_log(&log);
        let mut kernels = times(&state);
        kernels.retain(|it| !it.is_baseline && it.of.problem == problem);
        let fastest = kernels.into_iter().min_by(|a, b| a.time.micros().total_cmp(&b.time.micros()));
        let (Some(fastest), Some(manifest)) = (fastest, &state.manifest) else { continue };
        let gpu = manifest.gpu.to_string();
        let commit = manifest.commit.known().map(|commit| {
            let short: String = commit.hash.chars().take(9).collect();
            short + if commit.dirty { "+" } else { "" }
        });
        let before = latest.get(&gpu).filter(|before| before.is_comparable(&fastest));
        let speedup = before.map(|before| before.time.micros() / fastest.time.micros());
        latest.insert(gpu.clone(), fastest.clone());
        points.push(TrendPoint {
            run: run.folder.clone(),
            started: run.started.clone(),
            commit,
            gpu,
            subject: fastest.of.subject,
            time: fastest.time,
            speedup,
        });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench_log, full_log, state_from};

    #[test]
    fn a_run_does_not_differ_from_itself() {
        let state = state_from(&bench_log());
        let compared = compare(&state, &state);
        assert!(!compared.both.is_empty() && compared.only.iter().all(Vec::is_empty));
        for it in &compared.both {
            assert_eq!((it.speedup, it.change), (Some(1.0), TimeChange::NoClearDifference), "{it:?}");
        }
    }

    #[test]
    fn runs_on_different_gpus_are_not_comparable() {
        let state = state_from(&bench_log());
        let mut other = state.clone();
        if let Some(manifest) = &mut other.manifest {
            manifest.gpu = Fact::Known("another GPU".to_owned());
        }
        let compared = compare(&state, &other);
        assert!(
            compared.both.iter().all(|it| it.change == TimeChange::NotComparable && it.speedup.is_none())
        );
    }

    #[test]
    fn times_of_different_versions_of_the_model_are_not_comparable() {
        let state = state_from(&full_log());
        assert!(!state.modelled.is_empty());
        let mut other = state.clone();
        for (_, modelled) in &mut other.modelled {
            modelled.model = Some(u32::MAX);
        }
        let compared = compare(&state, &other);
        let modelled: Vec<_> = compared.both.iter().filter(|it| it.first.is_modelled()).collect();
        assert!(!modelled.is_empty() && modelled.iter().all(|it| it.change == TimeChange::NotComparable));
    }

    #[test]
    fn counters_that_differ_are_compared_although_the_time_is_the_same() {
        let state = state_from(&full_log());
        let mut other = state.clone();
        let conflicts = |state: &mut RunState, number: u64| {
            for (_, profile) in &mut state.profiles {
                profile.metrics.bank_conflicts = Fact::Known(number);
            }
            for (_, modelled) in &mut state.modelled {
                modelled.counts = Some(crate::LaunchCounts { bank_conflicts: number, ..Default::default() });
            }
        };
        let mut first = state;
        conflicts(&mut first, 0);
        conflicts(&mut other, 57_344);
        let compared = compare(&first, &other);
        let changed: Vec<&CounterChange> =
            compared.both.iter().flat_map(ComparedTime::changed_counters).collect();
        assert!(!changed.is_empty());
        for it in changed {
            assert_eq!((it.name.contains("conflicts"), it.first, it.second), (true, 0.0, 57_344.0), "{it:?}");
        }
    }

    #[test]
    fn a_change_is_clear_only_without_overlap() {
        let time = |micros: f64, half: Option<f64>| SubjectTime {
            of: ResultId { problem: "p".to_owned(), subject: "s".to_owned(), build: String::new() },
            is_baseline: false,
            time: Time::Measured(super::super::MeasuredMicros(micros)),
            interval: half.map(|half| Interval { low: micros - half, high: micros + half }),
            model: None,
            counters: Vec::new(),
        };
        let change =
            |a: &SubjectTime, b: &SubjectTime| super::change(a, b, a.time.micros() / b.time.micros());
        assert_eq!(change(&time(10.0, Some(1.0)), &time(9.5, Some(1.0))), TimeChange::NoClearDifference);
        assert_eq!(change(&time(10.0, Some(0.1)), &time(9.5, Some(0.1))), TimeChange::Faster);
        assert_eq!(change(&time(9.5, Some(0.1)), &time(10.0, Some(0.1))), TimeChange::Slower);
        assert_eq!(change(&time(10.0, None), &time(10.01, None)), TimeChange::NoClearDifference);
    }
}
