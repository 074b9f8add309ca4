//! Collects everything that failed, was skipped or was not finished, with the reasons.

use indexmap::IndexMap;
use runlog::record::InversionResult;
use runlog::{Fact, ResultId, RunState, Stage, StageOutcome, StageState, TrialResult};

/// A failure for the report.
#[derive(Debug, PartialEq, Eq)]
pub struct Failed {
    /// The subject, or what else failed.
    pub what: String,
    /// The problem; empty if there is none.
    pub on: String,
    /// The stage: `build`, `check`, `trial 12`.
    pub at: String,
    /// The kind of failure.
    pub kind: String,
    /// The reason.
    pub reason: String,
}

impl Failed {
    /// Whether something is wrong. What is not supported, not installed or skipped was left out and did not fail.
    pub fn is_failure(&self) -> bool {
        !LEFT_OUT.contains(&self.kind.as_str())
    }
}

/// The kinds that are not failures.
const LEFT_OUT: [&str; 3] = ["refused", "skipped", "unavailable"];

/// What was left out for the same reason.
#[derive(Debug)]
pub struct LeftOut<'f> {
    /// The kind: `refused`.
    pub kind: &'f str,
    /// The reason.
    pub reason: &'f str,
    /// What was left out, with its problem.
    pub all: Vec<&'f Failed>,
}

/// What was left out, by reason, the most frequent first.
pub fn left_out(all: &[Failed]) -> Vec<LeftOut<'_>> {
    let mut groups: IndexMap<(&str, &str), Vec<&Failed>> = IndexMap::new();
    for it in all.iter().filter(|it| !it.is_failure()) {
        groups.entry((&it.kind, &it.reason)).or_default().push(it);
    }
    let mut groups: Vec<LeftOut<'_>> =
        groups.into_iter().map(|((kind, reason), all)| LeftOut { kind, reason, all }).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.all.len()));
    groups
}

/// All failures in this order: baselines, candidates, trials, inversions, proposals.
pub fn failures(state: &RunState) -> Vec<Failed> {
    let mut all = Vec::new();
    for (name, version) in &state.baselines {
        if let Fact::Unavailable { reason } = version {
            let reason = if reason.is_empty() { "no reason given" } else { reason };
            all.push(failed(name, "", "baseline", "unavailable", reason));
        }
    }
    for failure in &state.failures {
        let ResultId { problem, subject, .. } = &failure.of;
        let (at, kind) = (failure.stage.to_string(), failure.kind.to_string());
        all.push(failed(subject, problem, &at, &kind, &failure.reason));
    }
    let is_reported = |of: &ResultId| {
        let same = |other: &ResultId| other.problem == of.problem && other.subject == of.subject;
        state.failures.iter().any(|failure| same(&failure.of))
    };
    for (of, check) in state.checks.iter().filter(|(of, check)| !check.passed && !is_reported(of)) {
        let reasons: Vec<&str> = check.complaints.iter().map(|it| it.message.as_str()).collect();
        let reason = if reasons.is_empty() { "no reason recorded".to_owned() } else { reasons.join("; ") };
        all.push(failed(&of.subject, &of.problem, "check", "wrong answer", &reason));
    }
    for (key, stage) in &state.stages {
        let (kind, reason) = match stage {
            StageState::Finished(StageOutcome::Failed { reason }) if !is_reported(&key.of) => {
                ("failed", reason.as_str())
            }
            StageState::Finished(StageOutcome::Skipped { reason }) => ("skipped", reason.as_str()),
            StageState::Started => ("not finished", "the run was stopped, or is still active"),
            StageState::Finished(_) => continue,
        };
        let at = if key.stage == Stage::Other {
            "a stage of a newer version".to_owned()
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
    use runlog::testing::{full_log, state_from};
    use runlog::{Event, StageKey};

    #[test]
    fn every_kind_of_failure_is_listed_once_with_its_reason() {
        let all = failures(&state_from(&full_log()));
        let count = |at: &str| all.iter().filter(|failed| failed.at.starts_with(at)).count();
        for (at, wanted) in [("baseline", 1), ("check", 1), ("trial", 2), ("inversion", 1), ("proposal", 1)] {
            assert_eq!(count(at), wanted, "{at}: {all:#?}");
        }
        assert!(all.iter().all(|failed| !failed.reason.is_empty() && !failed.what.is_empty()));
    }

    #[test]
    fn what_is_not_supported_is_left_out_and_did_not_fail() {
        let failure = |subject: &str, failure| Event::CandidateFailed {
            of: ResultId::new("p", subject, "1"),
            stage: Stage::Build,
            failure,
            reason: "bf16 needs sm_80".to_owned(),
        };
        let (refused, wrong) = (runlog::FailureKind::Refused, runlog::FailureKind::WrongAnswer);
        let state = state_from(&[failure("a", refused), failure("b", refused), failure("c", wrong)]);
        let all = failures(&state);
        assert_eq!(all.iter().filter(|it| it.is_failure()).count(), 1);
        let groups = left_out(&all);
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].kind, groups[0].all.len()), ("refused", 2));
    }

    #[test]
    fn an_unfinished_or_skipped_stage_is_listed() {
        let key = StageKey::new(Stage::Bench, "p", "a", "1");
        let skipped = StageKey::new(Stage::Bench, "p", "b", "2");
        let state = state_from(&[
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
