//! After timing: checks that the timed kernel still gives correct answers, and that it was not faster only because it
//! was timed or because its inputs were repeated.

use op::{Op, TrialStep};

use super::plan::{SubjectCheck, SubjectKind};
use super::run::{
    Bench, Participant, ProblemInputs, check_record, complaint_text, no_launch_error, trial_launches,
    unexpected_reply,
};
use super::workers::SubjectWorkers;
use crate::run::{CheckRecord, Event, FailureKind, Repeats};
use crate::session::StageError;
use crate::trial;
use crate::worker::{LaunchReply, WorkerError, WorkerReply, WorkerRequest};

/// Largest allowed ratio of the time on fresh inputs to the time on repeated inputs. The slack covers what the fresh
/// control cannot resolve. In 114 benches of honest kernels on an H200, a launch on fresh inputs took at most 3%
/// longer.
const FRESH_SHARE: f64 = 1.1;
const FRESH_SLACK_NS: f64 = 700.0;
/// Largest allowed ratio of the time after timing to the time during timing. Clocks and temperature may have changed in
/// between.
const LATER_SHARE: f64 = 1.3;

impl<O: Op> Bench<'_, O> {
    /// Replays the timed launches on fresh inputs in every process of a kernel, and judges the answers.
    pub(super) fn verify(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
        hot_ns: Option<f64>,
    ) -> Result<Result<(), WorkerError>, StageError> {
        if matches!(workers.subject.kind, SubjectKind::Peer { .. })
            || workers.subject.check == SubjectCheck::DoneBefore
        {
            return Ok(Ok(()));
        }
        let draws = &given.draws;
        let answers = self.answers_for(given.problem, &draws.fresh)?;
        let references: Vec<_> = answers.iter().map(|it| (&it.inputs, &it.reference)).collect();
        for process in workers.processes() {
            let request = WorkerRequest::Verify {
                draws: draws.fresh.clone(),
                seed: op::derive_seed(draws.environments, process as u64),
            };
            let judged = workers.ask(self.factory, process, &request).and_then(|reply| match reply {
                WorkerReply::Verified { launches, repeats } => {
                    let steps: Vec<TrialStep> = launches
                        .iter()
                        .map(|it: &LaunchReply| TrialStep { inputs: it.inputs, ..TrialStep::FIRST })
                        .collect();
                    let launches = trial_launches(launches);
                    let judged = trial::judge(
                        self.op,
                        participant.extra_tolerance.as_ref(),
                        &steps,
                        &references,
                        &launches,
                    );
                    let mut judged = judged.ok_or_else(no_launch_error)?;
                    judged.complaints.extend(faster_on_repeats(repeats));
                    judged.complaints.extend(slower_afterwards(repeats, hot_ns));
                    Ok(CheckRecord { repeats: Some(repeats), ..check_record(judged) })
                }
                other => Err(unexpected_reply(&other)),
            });
            let check = match judged {
                Ok(check) => check,
                Err(error) => return Ok(Err(error)),
            };
            let complaints = self.record_check(participant, check)?;
            if let Some(reason) = complaints {
                let wrong = WorkerError::Failed { failure: FailureKind::WrongAnswer, reason };
                return Ok(Err(wrong.of_process(process, workers.processes().len())));
            }
        }
        Ok(Ok(()))
    }

    /// Records the check after timing. Returns the complaints as text.
    fn record_check(
        &self,
        participant: &Participant,
        check: CheckRecord,
    ) -> Result<Option<String>, StageError> {
        let complaints =
            complaint_text(&check).map(|complaints| format!("after timing, on fresh inputs: {complaints}"));
        self.run.record(&Event::Checked { of: participant.key.of.clone(), check })?;
        Ok(complaints)
    }
}

/// Reports a kernel that is faster on inputs it has seen before.
fn faster_on_repeats(repeats: Repeats) -> Option<op::Complaint> {
    let Repeats { repeated_ns, fresh_ns: Some(fresh_ns) } = repeats else { return None };
    (fresh_ns > FRESH_SHARE * repeated_ns + FRESH_SLACK_NS).then(|| op::Complaint {
        kind: "faster-on-repeats".to_owned(),
        message: format!(
            "a launch takes {:.2} us on repeated inputs and {:.2} us on fresh inputs",
            repeated_ns / 1000.0,
            fresh_ns / 1000.0
        ),
    })
}

/// Reports a kernel that was faster during timing than afterwards.
fn slower_afterwards(repeats: Repeats, hot_ns: Option<f64>) -> Option<op::Complaint> {
    let hot_ns = hot_ns?;
    (repeats.repeated_ns > LATER_SHARE * hot_ns + FRESH_SLACK_NS).then(|| op::Complaint {
        kind: "slower-afterwards".to_owned(),
        message: format!(
            "a launch took {:.2} us during timing and {:.2} us afterwards",
            hot_ns / 1000.0,
            repeats.repeated_ns / 1000.0
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_slow_only_on_fresh_inputs_is_reported() {
        let of = |repeated_ns, fresh_ns| faster_on_repeats(Repeats { repeated_ns, fresh_ns });
        assert_eq!(of(4_400.0, Some(4_700.0)), None);
        assert_eq!(of(4_400.0, None), None);
        assert_eq!(of(4_400.0, Some(9_000.0)).unwrap().kind, "faster-on-repeats");
        assert_eq!(of(1_000_000.0, Some(1_600_000.0)).unwrap().kind, "faster-on-repeats");
    }

    #[test]
    fn a_kernel_that_is_fast_only_during_timing_is_reported() {
        let of = |repeated_ns, hot_ns| slower_afterwards(Repeats { repeated_ns, fresh_ns: None }, hot_ns);
        assert_eq!(of(4_500.0, Some(4_400.0)), None);
        assert_eq!(of(4_500.0, None), None);
        assert_eq!(of(9_000.0, Some(4_400.0)).unwrap().kind, "slower-afterwards");
    }
}
