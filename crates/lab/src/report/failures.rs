//! Everything that went wrong or did not happen, each with its reason.

use crate::invert::InversionResult;
use crate::run::{Fact, ResultId, RunState, Stage, StageOutcome, StageState, TrialResult};

#[derive(Debug, PartialEq, Eq)]
pub struct Failed {
    pub what: String,
    /// The problem; empty where it concerns none.
    pub on: String,
    /// When: `build`, `check`, `trial 12`.
    pub at: String,
    pub kind: String,
    pub reason: String,
}

/// In the order of a kernel's way: baselines, candidates, trials, inversions, proposals.
pub fn failures(state: &RunState) -> Vec<Failed> {
    let mut all = Vec::new();
    for (name, version) in &state.baselines {
        if let Fact::Unavailable { reason } = version {
            let reason = if reason.is_empty() { "no reason given" } else { reason };
            all.push(failed(name, "", "baseline", "not there", reason));
        }
    }
    for failure in &state.failures {
        let ResultId { problem, subject, .. } = &failure.of;
        let (at, kind) = (failure.stage.to_string(), failure.kind.to_string());
        all.push(failed(subject, problem, &at, &kind, &failure.reason));
    }
    let told = |of: &ResultId| {
        let same = |told: &ResultId| told.problem == of.problem && told.subject == of.subject;
        state.failures.iter().any(|failure| same(&failure.of))
    };
    for (of, check) in state.checks.iter().filter(|(of, check)| !check.passed && !told(of)) {
        let reasons: Vec<&str> = check.complaints.iter().map(|it| it.message.as_str()).collect();
        let reason = if reasons.is_empty() { "no complaint recorded".to_owned() } else { reasons.join("; ") };
        all.push(failed(&of.subject, &of.problem, "check", "wrong answer", &reason));
    }
    for (key, stage) in &state.stages {
        let (kind, reason) = match stage {
            StageState::Finished(StageOutcome::Failed { reason }) if !told(&key.of) => {
                ("failed", reason.as_str())
            }
            StageState::Finished(StageOutcome::Skipped { reason }) => ("skipped", reason.as_str()),
            StageState::Started => ("not finished", "the run was stopped, or is still going on"),
            StageState::Finished(_) => continue,
        };
        let at = if key.stage == Stage::Other {
            "a stage this version does not know".to_owned()
        } else {
            key.stage.to_string()
        };
        all.push(failed(&key.of.subject, &key.of.problem, &at, kind, reason));
    }
    for trial in state.trials.values() {
        if let TrialResult::Failed { stage, failure, reason } = &trial.result {
            let at = format!("trial {}, {stage}", trial.number);
            all.push(failed(&trial.candidate, "", &at, &failure.to_string(), reason));
        }
    }
    for inversion in &state.inversions {
        if let InversionResult::Failed { reason } = &inversion.result {
            let what = format!("{} with {}", inversion.healthy, inversion.setting);
            all.push(failed(&what, &inversion.problem, "inversion", "failed", reason));
        }
    }
    for exchange in &state.exchanges {
        if let Err(reason) = &exchange.outcome {
            let at = format!("proposal {}", exchange.number);
            all.push(failed(&exchange.proposer, "", &at, "no candidate", reason));
        }
    }
    all
}

fn failed(what: &str, on: &str, at: &str, kind: &str, reason: &str) -> Failed {
    let [what, on, at, kind, reason] = [what, on, at, kind, reason].map(str::to_owned);
    Failed { what, on, at, kind, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Event, StageKey};
    use crate::testing::{a_full_log, folded};

    #[test]
    fn every_kind_of_failure_is_told_once_with_its_reason() {
        let all = failures(&folded(&a_full_log()));
        let count = |at: &str| all.iter().filter(|failed| failed.at.starts_with(at)).count();
        for (at, wanted) in [("baseline", 1), ("check", 1), ("trial", 2), ("inversion", 1), ("proposal", 1)] {
            assert_eq!(count(at), wanted, "{at}: {all:#?}");
        }
        assert!(all.iter().all(|failed| !failed.reason.is_empty() && !failed.what.is_empty()));
    }

    #[test]
    fn what_a_stop_cut_short_is_not_passed_over() {
        let key = StageKey::new(Stage::Bench, "p", "a", "1");
        let skipped = StageKey::new(Stage::Bench, "p", "b", "2");
        let state = folded(&[
            Event::StageStarted { key },
            Event::StageFinished {
                key: skipped,
                outcome: StageOutcome::Skipped { reason: "no torch".to_owned() },
            },
        ]);
        let kinds: Vec<String> = failures(&state).into_iter().map(|failed| failed.kind).collect();
        assert_eq!(kinds, ["not finished", "skipped"]);
    }
}
