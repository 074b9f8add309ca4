//! The rules of the gate for a run on a virtual GPU. Such a run has no measured times. The gate compares what the
//! compiler reported, what the virtual GPU counted, and the modelled time. Every candidate has its own record, because
//! these numbers are the same in every run of the same kernel.

use indexmap::IndexSet;
use runlog::{BuildRecord, FailureKind, Modelled, ResultId, RunState, StageOutcome, StageState, Utc};

use super::quantity::{Quantity, QuantityChange, QuantityVerdict};
use super::report::DifferentCompilers;
use super::rules;
use super::{CountedRecord, GateFinding, GateRow, Leaderboard, MissingData};

/// Whether the run was made on a virtual GPU.
pub(super) fn is_virtual(state: &RunState) -> bool {
    let device = state.manifest.as_ref().and_then(|manifest| manifest.device.known());
    device.is_some_and(|device| device == "virtual" || device.starts_with("virtual:"))
}

/// One row per problem and candidate; for a problem without candidates, one row.
pub(super) fn rows(
    state: &RunState,
    board: &Leaderboard,
    device: Option<&String>,
    problems: &[String],
) -> Vec<GateRow> {
    let mut rows = Vec::new();
    for problem in problems {
        let names = candidates(state, board, device, problem);
        if names.is_empty() {
            let mut row = GateRow::new(problem, None);
            rules::find_skipped(state, &mut row);
            if row.gaps.is_empty() {
                row.gaps.push(MissingData::NotMeasured);
            }
            row.set_status();
            rows.push(row);
        }
        rows.extend(names.iter().map(|name| row(state, board, device, problem, name)));
    }
    rows
}

/// The candidates that the run tried on a problem, and those that have a record. A candidate that does not support the
/// problem is left out if it has no record.
fn candidates<'s>(
    state: &'s RunState,
    board: &'s Leaderboard,
    device: Option<&String>,
    problem: &str,
) -> IndexSet<&'s str> {
    let tried = state.modelled.keys().chain(state.checks.keys()).chain(state.builds.keys());
    let failures = state.failures.iter().filter(|failure| failure.kind != FailureKind::Refused);
    let tried = tried.chain(failures.map(|failure| &failure.of));
    let is_skipped = |stage: &StageState| matches!(stage, StageState::Finished(StageOutcome::Skipped { .. }));
    let stages = state.stages.iter().filter(|(_, stage)| !is_skipped(stage)).map(|(key, _)| &key.of);
    let names = tried.chain(stages).filter(|of| of.problem == problem).map(|of| of.subject.as_str());
    let names = names.filter(|name| !state.is_baseline(name));
    let records = board.counted().iter();
    let records = records.filter(|record| Some(&record.device) == device && record.problem == problem);
    names.chain(records.map(|record| record.candidate.as_str())).collect()
}

fn row(state: &RunState, board: &Leaderboard, device: Option<&String>, problem: &str, name: &str) -> GateRow {
    let mut row = GateRow::new(problem, Some(name));
    rules::check_correctness(state, &mut row);
    rules::check_resources(state, &mut row);
    rules::find_unfinished(state, &mut row);
    let record = device.and_then(|device| board.counted_record(device, problem, name));
    row.best_candidate = record.map(|record| record.candidate.clone());
    // A candidate that was built again after an interruption has several results; the last one counts.
    // A baseline is not judged, so it cannot stand for a candidate of the same name.
    let mut results = state.modelled.iter().rev().filter(|_| !state.is_baseline(name));
    let result = results.find(|(of, _)| of.problem == problem && of.subject == name);
    match (device, result) {
        (None, _) => row.gaps.push(MissingData::UnknownDevice),
        (Some(device), Some((of, modelled))) => compare(state, record, (device, of, modelled), &mut row),
        (Some(_), None) => {
            rules::find_skipped(state, &mut row);
            if row.findings.is_empty() && row.gaps.is_empty() {
                row.gaps.push(match record {
                    Some(_) => MissingData::NotInRun { candidate: name.to_owned() },
                    None => MissingData::NotMeasured,
                });
            }
        }
    }
    row.set_status();
    row
}

/// Compares a candidate's numbers with its record.
fn compare(
    state: &RunState,
    record: Option<&CountedRecord>,
    (device, of, modelled): (&str, &ResultId, &Modelled),
    row: &mut GateRow,
) {
    let candidate = || of.subject.clone();
    row.build = Some(of.build.clone());
    match state.checks.get(of) {
        None => row.gaps.push(MissingData::Unchecked { candidate: candidate() }),
        Some(check) if check.passed && !check.sanitized => {
            row.gaps.push(MissingData::NotSanitized { candidate: candidate() });
        }
        Some(_) => {} // `check_correctness` adds a finding for a wrong answer
    }
    let Some(build) = state.builds.get(of) else {
        row.gaps.push(MissingData::NoBuild { candidate: candidate() });
        return;
    };
    let Some(now) = new_record(state, device, of, build, modelled) else {
        row.gaps.push(MissingData::NoCounts { candidate: candidate() });
        return;
    };
    row.compilers =
        DifferentCompilers::new(Some(&now.compiler), record.map(|record| record.compiler.as_str()));
    row.modelled_us = Some(now.time_us);
    row.best_modelled_us = record.filter(|record| record.model == now.model).map(|record| record.time_us);
    row.quantities =
        Quantity::ALL.into_iter().map(|quantity| quantity_change(quantity, &now, record)).collect();
    for change in row.quantities.iter().filter(|change| change.verdict == QuantityVerdict::Exceeded) {
        let (candidate, change) = (candidate(), change.clone());
        row.findings.push(GateFinding::Increased { candidate, change });
    }
    match record {
        None => {
            row.gaps.push(MissingData::NothingOnRecord);
            row.new_record = Some(Box::new(now));
        }
        Some(record) if row.is_smaller() => row.new_record = Some(Box::new(now.merged_with(record))),
        // The counts on record stay. The time of the old model is of no more use.
        Some(record) if record.model != now.model => {
            row.new_record =
                Some(Box::new(CountedRecord { time_us: now.time_us, model: now.model, ..record.clone() }));
        }
        Some(_) => {}
    }
}

fn quantity_change(
    quantity: Quantity,
    now: &CountedRecord,
    record: Option<&CountedRecord>,
) -> QuantityChange {
    let value = quantity.of(now);
    match record {
        None => QuantityChange::not_compared(quantity, value, "the leaderboard has no entry".to_owned()),
        Some(record) if quantity == Quantity::ModelledTime && record.model != now.model => {
            let reason = format!(
                "the record has a time of model version {}, the run of version {}",
                record.model, now.model
            );
            QuantityChange::not_compared(quantity, value, reason)
        }
        Some(record) => QuantityChange::new(quantity, value, quantity.of(record)),
    }
}

/// The record of a result; `None` if the log does not have the counts, or has a time that is not above zero.
fn new_record(
    state: &RunState,
    device: &str,
    of: &ResultId,
    build: &BuildRecord,
    modelled: &Modelled,
) -> Option<CountedRecord> {
    if modelled.time_us.0.is_nan() || modelled.time_us.0 <= 0.0 {
        return None;
    }
    Some(CountedRecord {
        device: device.to_owned(),
        problem: of.problem.clone(),
        candidate: of.subject.clone(),
        build: of.build.clone(),
        compiler: build.compiler.clone(),
        commit: state.manifest.as_ref().map(|manifest| manifest.commit.clone()).unwrap_or_default(),
        recorded: Utc::now(),
        registers: build.registers,
        spill_bytes: build.spill_bytes,
        shared_bytes: build.shared_bytes,
        counts: modelled.counts?,
        time_us: modelled.time_us,
        model: modelled.model?,
    })
}
