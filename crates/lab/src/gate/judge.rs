//! The rules of the gate.

use super::change::RunTime;
use super::leaderboard::select_samples;
use super::{BestOnRecord, Change, GateFinding, GateReport, GateRow, Leaderboard, MissingData, RowStatus};
use crate::run::{
    self, FailureKind, Measurement, RunState, SpeedupRecord, StageKey, StageOutcome, StageState, Timer, Utc,
};
use crate::stats::{Interval, SampleError, Samples};

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
    let run = JudgedRun { state, rows: run::rows(state), timer: request.timer };
    let rows = problems.iter().map(|problem| row(&run, board, device, problem)).collect();
    let device = device.cloned().unwrap_or_else(|| "unknown device".to_owned());
    GateReport::new(device, request.timer, rows)
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
        let on_record = board.entries().iter();
        let ours = on_record.filter(|best| Some(&best.device) == device && best.timer == request.timer);
        problems.extend(ours.map(|best| best.problem.clone()));
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
    rows: Vec<run::Row>,
    timer: Timer,
}

fn row(run: &JudgedRun<'_>, board: &Leaderboard, device: Option<&String>, problem: &str) -> GateRow {
    let state = run.state;
    let mut row = GateRow {
        problem: problem.to_owned(),
        standing: RowStatus::Incomplete,
        candidate: None,
        build: None,
        p50_us: None,
        interval_us: None,
        processes: None,
        best_candidate: None,
        best_p50_us: None,
        change: None,
        findings: Vec::new(),
        gaps: Vec::new(),
        throttled: false,
        new_best: None,
    };
    check_correctness(state, &mut row);
    check_resources(state, &mut row);
    find_unfinished(state, &mut row);
    match device {
        None => row.gaps.push(MissingData::UnknownDevice),
        Some(device) => check_time(run, board, device, &mut row),
    }
    find_skipped(state, &mut row);
    if row.candidate.is_none() && row.findings.is_empty() && row.gaps.is_empty() {
        let modelled = state.modelled.keys().any(|of| of.problem == row.problem);
        row.gaps.push(if modelled { MissingData::OnlyModelled } else { MissingData::NotMeasured });
    }
    row.set_status();
    row
}

/// Adds findings for wrong answers and failed candidates.
fn check_correctness(state: &RunState, row: &mut GateRow) {
    for (of, check) in state.checks.iter().filter(|(of, _)| of.problem == row.problem) {
        if !check.passed && !state.is_baseline(&of.subject) {
            let reason = check.complaints.first().map(|complaint| complaint.message.clone());
            let reason = reason.unwrap_or_else(|| "the log has no reason".to_owned());
            row.findings.push(GateFinding::WrongAnswer { candidate: of.subject.clone(), reason });
        }
    }
    for failure in state.failures.iter().filter(|failure| failure.of.problem == row.problem) {
        let candidate = failure.of.subject.clone();
        let reason = failure.reason.clone();
        match failure.kind {
            _ if state.is_baseline(&candidate) => {}
            FailureKind::Refused => {} // see `find_skipped`
            // The failed check has added the finding already.
            FailureKind::WrongAnswer if state.checks.get(&failure.of).is_some_and(|check| !check.passed) => {}
            FailureKind::WrongAnswer => row.findings.push(GateFinding::WrongAnswer { candidate, reason }),
            kind => row.findings.push(GateFinding::Broken { candidate, failure: kind, reason }),
        }
    }
}

/// Adds findings for registers, spills and serialised products above the family's limits.
fn check_resources(state: &RunState, row: &mut GateRow) {
    for (of, build) in state.builds.iter().filter(|(of, _)| of.problem == row.problem) {
        let candidate = || of.subject.clone();
        if let Some(limit) = build.registers_limit.filter(|&limit| build.registers > limit) {
            row.findings.push(GateFinding::Registers {
                candidate: candidate(),
                registers: build.registers,
                limit,
            });
        }
        if let Some(limit) = build.spill_bytes_limit.filter(|&limit| build.spill_bytes > limit) {
            row.findings.push(GateFinding::Spills {
                candidate: candidate(),
                bytes: build.spill_bytes,
                limit,
            });
        }
        let serialised = build.serialised_wgmma;
        if let Some(limit) = build.serialised_wgmma_limit.filter(|&limit| serialised > limit) {
            row.findings.push(GateFinding::SerialisedWgmma {
                candidate: candidate(),
                notes: serialised,
                limit,
            });
        }
    }
}

/// Adds a gap for every candidate with an unfinished stage.
fn find_unfinished(state: &RunState, row: &mut GateRow) {
    for (key, stage) in state.stages.iter().filter(|(key, _)| key.of.problem == row.problem) {
        // A rebuilt candidate has another key, so a finished stage with any build counts.
        let is_done = |other: &StageKey| {
            let same = (other.stage, &other.of.problem, &other.of.subject)
                == (key.stage, &key.of.problem, &key.of.subject);
            same && matches!(state.stages.get(other), Some(StageState::Finished(StageOutcome::Done)))
        };
        let is_candidate = !state.is_baseline(&key.of.subject);
        if is_candidate && *stage == StageState::Started && !state.stages.keys().any(is_done) {
            row.gaps.push(MissingData::CutShort { subject: key.of.subject.clone() });
        }
    }
}

/// Adds gaps for skipped candidates. A family need not support every problem, so a skipped candidate is not a gap if
/// another one was measured. It is a gap if no candidate was measured, or if the skipped one holds the record.
fn find_skipped(state: &RunState, row: &mut GateRow) {
    let refused = state.failures.iter().filter(|failure| failure.kind == FailureKind::Refused);
    let refused = refused.map(|failure| (&failure.of, &failure.reason));
    let skipped = state.stages.iter().filter_map(|(key, stage)| match stage {
        StageState::Finished(StageOutcome::Skipped { reason }) => Some((&key.of, reason)),
        _ => None,
    });
    for (of, reason) in refused.chain(skipped).filter(|(of, _)| of.problem == row.problem) {
        let holds_the_record = row.best_candidate.as_ref() == Some(&of.subject);
        let is_measured = row.candidate.as_ref() == Some(&of.subject);
        if !state.is_baseline(&of.subject) && !is_measured && (row.candidate.is_none() || holds_the_record) {
            let gap = MissingData::Skipped { subject: of.subject.clone(), reason: reason.clone() };
            if !row.gaps.contains(&gap) {
                row.gaps.push(gap);
            }
        }
    }
}

/// A candidate's time in the run.
struct CandidateTime<'s> {
    measurement: &'s Measurement,
    samples: Samples,
    row: &'s run::Row,
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
