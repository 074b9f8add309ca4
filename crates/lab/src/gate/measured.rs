//! The rules of the gate for a run on a GPU: the measured time of the fastest candidate of each problem. [`judge`] is the
//! entry for all runs; `counted` has the rules for a virtual GPU.

use indexmap::IndexSet;
use runlog::{Measurement, RunState, SpeedupRecord, Timer, Utc};
use stats::{Interval, SampleError, Samples};

use super::change::RunTime;
use super::leaderboard::select_samples;
use super::report::DifferentCompilers;
use super::{
    Basis, BestOnRecord, Change, GateFinding, GateReport, GateRow, Leaderboard, MissingData, counted, rules,
};

/// What the gate checks.
#[derive(Clone, Debug)]
pub struct GateRequest {
    /// Names of the problems that the run must have. If empty: the problems that the leaderboard has for the run's
    /// device. Other problems in the run are judged too.
    pub problems: Vec<String>,
    /// The timer whose times are compared.
    pub timer: Timer,
}

/// Compares a run with the leaderboard.
pub fn judge(state: &RunState, board: &Leaderboard, request: &GateRequest) -> GateReport {
    let manifest = state.manifest.as_ref();
    let device = manifest.and_then(|manifest| manifest.gpu.known());
    let problems = problems(state, board, request, device);
    let device_name = device.cloned().unwrap_or_else(|| "unknown device".to_owned());
    if counted::is_virtual(state) {
        let rows = counted::rows(state, board, device, &problems);
        return GateReport::new(device_name, Basis::Counted, request.timer, rows);
    }
    let run = JudgedRun { state, rows: runlog::rows(state), timer: request.timer };
    let rows = problems.iter().map(|problem| row(&run, board, device, problem)).collect();
    GateReport::new(device_name, Basis::Measured, request.timer, rows)
}

/// The requested problems, and all others that the run has results for.
fn problems(
    state: &RunState,
    board: &Leaderboard,
    request: &GateRequest,
    device: Option<&String>,
) -> Vec<String> {
    let mut problems = request.problems.clone();
    if problems.is_empty() {
        let measured = board.entries().iter().filter(|best| best.timer == request.timer);
        let measured = measured.map(|best| (&best.device, &best.problem));
        let counted = board.counted().iter().map(|record| (&record.device, &record.problem));
        let on_record: Vec<_> =
            if counted::is_virtual(state) { counted.collect() } else { measured.collect() };
        let ours = on_record.into_iter().filter(|(known, _)| Some(*known) == device);
        let ours: IndexSet<String> = ours.map(|(_, problem)| problem.clone()).collect();
        problems.extend(ours);
    }
    let candidates = state.checks.keys().chain(state.builds.keys()).chain(state.modelled.keys());
    let candidates = candidates.chain(state.failures.iter().map(|failure| &failure.of));
    let candidates = candidates.chain(state.stages.keys().map(|key| &key.of));
    let candidates = candidates.chain(state.measurements.iter().map(|found| &found.of));
    for of in candidates.filter(|of| !state.is_baseline(&of.subject)) {
        if !problems.contains(&of.problem) {
            problems.push(of.problem.clone());
        }
    }
    problems
}

/// The run that is judged, with the summaries of its measurements.
struct JudgedRun<'s> {
    state: &'s RunState,
    rows: Vec<runlog::Row>,
    timer: Timer,
}

fn row(run: &JudgedRun<'_>, board: &Leaderboard, device: Option<&String>, problem: &str) -> GateRow {
    let state = run.state;
    let mut row = GateRow::new(problem, None);
    rules::check_correctness(state, &mut row);
    rules::check_resources(state, &mut row);
    rules::find_unfinished(state, &mut row);
    match device {
        None => row.gaps.push(MissingData::UnknownDevice),
        Some(device) => check_time(run, board, device, &mut row),
    }
    rules::find_skipped(state, &mut row);
    if row.candidate.is_none() && row.findings.is_empty() && row.gaps.is_empty() {
        let modelled = state.modelled.keys().any(|of| of.problem == row.problem);
        row.gaps.push(if modelled { MissingData::OnlyModelled } else { MissingData::NotMeasured });
    }
    row.set_status();
    row
}

/// A candidate's time in the run.
struct CandidateTime<'s> {
    measurement: &'s Measurement,
    samples: Samples,
    row: &'s runlog::Row,
}

impl<'s> CandidateTime<'s> {
    fn new(run: &'s JudgedRun<'_>, measurement: &'s Measurement) -> Result<Self, SampleError> {
        let Measurement { of, sampled } = measurement;
        let samples = sampled.samples_us()?;
        sampled.blocks().split(&samples)?;
        let mut rows = run.rows.iter();
        let row = rows.find(|row| (row.session, row.timer, &row.of) == (sampled.session, sampled.timer, of));
        // Samples that can be split into processes always have a row.
        row.map(|row| CandidateTime { measurement, samples, row }).ok_or(SampleError::Empty)
    }

    /// The interval in which the time of another run is expected. It includes the variation between processes, if there
    /// are several. A single process shows no such variation; then [`TOLERATED_SLOWDOWN`](super::TOLERATED) must cover it.
    fn interval(&self) -> Interval {
        if self.row.processes > 1 { self.row.interval_us } else { self.row.samples_interval_us }
    }
}

/// Compares the run's fastest correct candidate with the best on record.
fn check_time(run: &JudgedRun<'_>, board: &Leaderboard, device: &str, row: &mut GateRow) {
    let (state, timer) = (run.state, run.timer);
    let best = board.best(device, &row.problem, timer);
    row.best_candidate = best.map(|best| best.candidate.clone());
    row.best_p50_us = best.map(|best| best.p50_us);

    let mut fastest: Option<CandidateTime<'_>> = None;
    for measurement in latest_measurements(state, timer, &row.problem) {
        let candidate = measurement.of.subject.clone();
        let checked = state.checks.get(&measurement.of);
        match (checked, CandidateTime::new(run, measurement)) {
            (None, _) => row.gaps.push(MissingData::Unchecked { candidate }),
            (Some(check), _) if !check.passed => {} // `check_correctness` has added a finding
            (_, Err(error)) => {
                row.gaps.push(MissingData::BadSamples { candidate, reason: error.to_string() });
            }
            (_, Ok(timed)) => {
                if !state.builds.contains_key(&measurement.of) {
                    row.gaps.push(MissingData::NoBuild { candidate });
                }
                if fastest.as_ref().is_none_or(|before| timed.row.p50_us < before.row.p50_us) {
                    fastest = Some(timed);
                }
            }
        }
    }
    let Some(timed) = fastest else { return };
    let CandidateTime { measurement, samples, row: numbers } = &timed;
    let (p50, interval) = (numbers.p50_us, timed.interval());
    let candidate = measurement.of.subject.clone();
    row.candidate = Some(candidate.clone());
    row.build = Some(measurement.of.build.clone());
    row.p50_us = Some(p50);
    row.interval_us = Some(interval);
    row.processes = Some(numbers.processes);
    let compiler = state.builds.get(&measurement.of).map(|build| build.compiler.clone());
    row.compilers =
        DifferentCompilers::new(compiler.as_deref(), best.and_then(|best| best.compiler.as_deref()));
    row.throttled = measurement.sampled.telemetry.was_throttled();
    row.change = best.and_then(|best| Change::new(RunTime { samples, p50, interval }, best));
    match row.change {
        None => row.gaps.push(MissingData::NothingOnRecord),
        Some(change) if change.is_regression() => row.findings.push(GateFinding::Regression {
            candidate,
            slower_by: change.slower_by,
            p: change.rank_test.p,
        }),
        Some(_) => {}
    }
    row.new_best = Some(Box::new(BestOnRecord {
        device: device.to_owned(),
        problem: row.problem.clone(),
        timer,
        candidate: measurement.of.subject.clone(),
        build: measurement.of.build.clone(),
        compiler,
        commit: state.manifest.as_ref().map(|manifest| manifest.commit.clone()).unwrap_or_default(),
        recorded: Utc::now(),
        p50_us: p50,
        interval_us: interval,
        speedups: speedups(state, measurement),
        samples_us: select_samples(samples.sorted()),
    }));
}

/// The measurement's speedups over the baselines of its session.
fn speedups(state: &RunState, Measurement { of, sampled }: &Measurement) -> Vec<(String, f64)> {
    let is_for_measurement = |verdict: &&SpeedupRecord| {
        (&verdict.problem, &verdict.candidate, verdict.session, verdict.timer)
            == (&of.problem, &of.subject, sampled.session, sampled.timer)
    };
    let verdicts = state.verdicts.iter().filter(is_for_measurement);
    verdicts.map(|verdict| (verdict.baseline.clone(), verdict.comparison.speedup.ratio)).collect()
}

/// The latest measurement of every candidate on a problem.
fn latest_measurements<'s>(state: &'s RunState, timer: Timer, problem: &str) -> Vec<&'s Measurement> {
    let mut latest: Vec<&Measurement> = Vec::new();
    for measurement in &state.measurements {
        let Measurement { of, sampled } = measurement;
        if of.problem == problem && sampled.timer == timer && !state.is_baseline(&of.subject) {
            latest.retain(|before| before.of.subject != of.subject);
            latest.push(measurement);
        }
    }
    latest
}
