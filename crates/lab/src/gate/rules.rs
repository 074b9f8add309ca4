//! The rules that hold for every run: right answers, no failures, limits of the family, no missing data.

use runlog::{FailureKind, RunState, StageKey, StageOutcome, StageState};

use super::{GateFinding, GateRow, MissingData};

/// Adds findings for wrong answers and failed candidates.
pub(super) fn check_correctness(state: &RunState, row: &mut GateRow) {
    let scope = row.scope();
    for (of, check) in state.checks.iter().filter(|(of, _)| scope.covers(of)) {
        if !check.passed && !state.is_baseline(&of.subject) {
            let reason = check.complaints.first().map(|complaint| complaint.message.clone());
            let reason = reason.unwrap_or_else(|| "the log has no reason".to_owned());
            row.findings.push(GateFinding::WrongAnswer { candidate: of.subject.clone(), reason });
        }
    }
    for failure in state.failures.iter().filter(|failure| scope.covers(&failure.of)) {
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
pub(super) fn check_resources(state: &RunState, row: &mut GateRow) {
    let scope = row.scope();
    for (of, build) in state.builds.iter().filter(|(of, _)| scope.covers(of)) {
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
pub(super) fn find_unfinished(state: &RunState, row: &mut GateRow) {
    let scope = row.scope();
    for (key, stage) in state.stages.iter().filter(|(key, _)| scope.covers(&key.of)) {
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
pub(super) fn find_skipped(state: &RunState, row: &mut GateRow) {
    let scope = row.scope();
    let refused = state.failures.iter().filter(|failure| failure.kind == FailureKind::Refused);
    let refused = refused.map(|failure| (&failure.of, &failure.reason));
    let skipped = state.stages.iter().filter_map(|(key, stage)| match stage {
        StageState::Finished(StageOutcome::Skipped { reason }) => Some((&key.of, reason)),
        _ => None,
    });
    for (of, reason) in refused.chain(skipped).filter(|(of, _)| scope.covers(of)) {
        let holds_the_record = row.best_candidate.as_ref() == Some(&of.subject);
        let is_measured = row.has_result() && row.candidate.as_ref() == Some(&of.subject);
        let is_needed = !row.has_result() || holds_the_record;
        if !state.is_baseline(&of.subject) && !is_measured && is_needed {
            let gap = MissingData::Skipped { subject: of.subject.clone(), reason: reason.clone() };
            if !row.gaps.contains(&gap) {
                row.gaps.push(gap);
            }
        }
    }
}
