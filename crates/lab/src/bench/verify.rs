//! After the timing: whether what was timed still gives right answers, and did its work while it was timed.

use op::{Op, TrialStep};

use super::plan::SubjectKind;
use super::run::{
    Bench, BenchError, Participant, ProblemInputs, brought, check_of, complaints_in, no_launch, surprise,
};
use super::workers::SubjectWorkers;
use crate::run::{CheckRecord, Event, FailureKind, Repeats};
use crate::trial;
use crate::worker::{LaunchReply, WorkerError, WorkerReply, WorkerRequest};

/// A launch on fresh inputs may take this much longer than one on inputs the launch before had, and a little besides for
/// what the fresh control cannot tell apart. In 114 benches of honest kernels on an H200 a launch took at most 3% longer.
const FRESH_SHARE: f64 = 1.1;
const FRESH_SLACK_NS: f64 = 700.0;
/// The same between the timing and afterwards: clocks and temperature may have changed.
const LATER_SHARE: f64 = 1.3;

impl<O: Op> Bench<'_, O> {
    /// Has every process of a kernel replay what was timed on fresh inputs, and judges the answers.
    pub(super) fn verify(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
        hot_ns: Option<f64>,
    ) -> Result<Result<(), WorkerError>, BenchError> {
        if matches!(workers.subject.kind, SubjectKind::Peer { .. }) || workers.subject.is_known {
            return Ok(Ok(()));
        }
        let draws = &given.draws;
        let answers = self.right(given.problem, &draws.fresh)?;
        let right: Vec<_> = answers.iter().map(|it| (&it.inputs, &it.reference)).collect();
        for process in workers.processes() {
            let ask = WorkerRequest::Verify {
                draws: draws.fresh.clone(),
                seed: op::derived(draws.worlds, process as u64),
            };
            let judged = workers.ask(self.factory, process, &ask).and_then(|said| match said {
                WorkerReply::Verified { launches, repeats } => {
                    let steps: Vec<TrialStep> = launches
                        .iter()
                        .map(|it: &LaunchReply| TrialStep { inputs: it.inputs, ..TrialStep::FIRST })
                        .collect();
                    let launches = brought(launches);
                    let judged =
                        trial::judge(self.op, participant.extra_tolerance, &steps, &right, &launches);
                    let mut judged = judged.ok_or_else(no_launch)?;
                    judged.complaints.extend(speed_depends_on_repeats(repeats));
                    judged.complaints.extend(speed_was_of_the_timing(repeats, hot_ns));
                    Ok(CheckRecord { repeats: Some(repeats), ..check_of(judged) })
                }
                other => Err(surprise(&other)),
            });
            let check = match judged {
                Ok(check) => check,
                Err(ended) => return Ok(Err(ended)),
            };
            let failed = self.after_timing(participant, check)?;
            if let Some(reason) = failed {
                let wrong = WorkerError::Failed { failure: FailureKind::WrongAnswer, reason };
                return Ok(Err(wrong.of_process(process, workers.processes().len())));
            }
        }
        Ok(Ok(()))
    }

    /// Writes down what was found after the timing; what is wrong, in words.
    fn after_timing(
        &self,
        participant: &Participant,
        check: CheckRecord,
    ) -> Result<Option<String>, BenchError> {
        let words = complaints_in(&check).map(|words| format!("after the timing, on fresh inputs: {words}"));
        self.run.record(&Event::Checked { of: participant.key.of.clone(), check })?;
        Ok(words)
    }
}

/// Whether a kernel was fast because it had seen its inputs before.
fn speed_depends_on_repeats(repeats: Repeats) -> Option<op::Complaint> {
    let Repeats { repeated_ns, fresh_ns: Some(fresh_ns) } = repeats else { return None };
    (fresh_ns > FRESH_SHARE * repeated_ns + FRESH_SLACK_NS).then(|| op::Complaint {
        kind: "faster-on-repeats".to_owned(),
        message: format!(
            "a launch takes {:.2} us on inputs that the launches before had, and {:.2} us on fresh ones",
            repeated_ns / 1000.0,
            fresh_ns / 1000.0
        ),
    })
}

/// Whether a kernel was fast while it was timed and is not any more.
fn speed_was_of_the_timing(repeats: Repeats, hot_ns: Option<f64>) -> Option<op::Complaint> {
    let hot_ns = hot_ns?;
    (repeats.repeated_ns > LATER_SHARE * hot_ns + FRESH_SLACK_NS).then(|| op::Complaint {
        kind: "slower-afterwards".to_owned(),
        message: format!(
            "a launch took {:.2} us while it was timed, and {:.2} us after the timing",
            hot_ns / 1000.0,
            repeats.repeated_ns / 1000.0
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_slow_on_fresh_inputs_only_is_noticed() {
        let of = |repeated_ns, fresh_ns| speed_depends_on_repeats(Repeats { repeated_ns, fresh_ns });
        assert_eq!(of(4_400.0, Some(4_700.0)), None);
        assert_eq!(of(4_400.0, None), None);
        assert_eq!(of(4_400.0, Some(9_000.0)).unwrap().kind, "faster-on-repeats");
        assert_eq!(of(1_000_000.0, Some(1_600_000.0)).unwrap().kind, "faster-on-repeats");
    }

    #[test]
    fn a_kernel_that_is_fast_while_it_is_timed_only_is_noticed() {
        let of =
            |repeated_ns, hot_ns| speed_was_of_the_timing(Repeats { repeated_ns, fresh_ns: None }, hot_ns);
        assert_eq!(of(4_500.0, Some(4_400.0)), None);
        assert_eq!(of(4_500.0, None), None);
        assert_eq!(of(9_000.0, Some(4_400.0)).unwrap().kind, "slower-afterwards");
    }
}
