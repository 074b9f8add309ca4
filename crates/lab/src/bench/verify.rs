//! After timing: checks that the timed kernel still gives correct answers, and that it was not faster only because it
//! was timed or because its inputs were repeated.

use op::{Op, TrialStep};
use runlog::{CheckRecord, Event, FailureKind, Repeats};

use super::plan::{SubjectCheck, SubjectKind};
use super::run::{
    Bench, Participant, ProblemInputs, check_record, complaint_text, no_launch_error, trial_launches,
    unexpected_reply,
};
use super::workers::SubjectWorkers;
use crate::session::StageError;
use crate::trial;
use crate::worker::{LaunchReply, WorkerError, WorkerReply, WorkerRequest};

/// Largest allowed ratio of the time on fresh inputs to the time on repeated inputs in the same state of the caches. The
/// slack covers what the controls cannot resolve. In 114 benches of honest kernels on an H200, a launch on fresh inputs
/// took at most 3% longer.
const FRESH_SHARE: f64 = 1.1;
const FRESH_SLACK_NS: f64 = 700.0;
/// Largest allowed ratio of the time on inputs that were written again to the time in a row of launches. The writes move
/// the inputs to a distant part of the L2 and replace the kernel's code in the instruction caches: on an H200, a kernel
/// of 16 blocks with inputs of 1 MB took 15.0 us instead of 12.4.
const REWRITTEN_SHARE: f64 = 1.3;
/// Largest allowed ratio of the time after timing to the time during timing. Clocks and temperature may have changed in
/// between.
const LATER_SHARE: f64 = 1.3;

impl<O: Op + ?Sized> Bench<'_, O> {
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
                        .map(|it: &LaunchReply| TrialStep {
                            inputs: it.inputs,
                            moved: true,
                            ..TrialStep::FIRST
                        })
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

/// Reports a kernel that is faster on inputs it has seen before. Inputs that were just written are slower to read if
/// they fill the L2, so fresh inputs are compared with repeated ones that were written again. The repeated inputs
/// themselves may differ by the delay of the caches only.
fn faster_on_repeats(repeats: Repeats) -> Option<op::Complaint> {
    let Repeats { repeated_ns, rewritten_ns, cache_ns, fresh_ns } = repeats;
    let fresh_ns = fresh_ns?;
    let exceeds = |later: f64, share: f64, before: f64| later > share * before + FRESH_SLACK_NS;
    let slower = match rewritten_ns {
        Some(rewritten_ns) => {
            // Other work on the GPU can make the repeated inputs slow, too. Then nothing was gained by them.
            let is_slow = |before: f64| exceeds(fresh_ns, FRESH_SHARE, before);
            is_slow(rewritten_ns) && is_slow(repeated_ns)
                || exceeds(rewritten_ns - cache_ns, REWRITTEN_SHARE, repeated_ns)
        }
        None => exceeds(fresh_ns, FRESH_SHARE, repeated_ns),
    };
    let microseconds = |ns: f64| format!("{:.2} us", ns / 1000.0);
    slower.then(|| op::Complaint {
        kind: "faster-on-repeats".to_owned(),
        message: format!(
            "a launch takes {} on repeated inputs, {}{} on fresh inputs",
            microseconds(repeated_ns),
            rewritten_ns
                .map_or(String::new(), |ns| format!("{} after they are written again, ", microseconds(ns))),
            microseconds(fresh_ns)
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

    const NOTHING: Repeats = Repeats { repeated_ns: 0.0, rewritten_ns: None, cache_ns: 0.0, fresh_ns: None };

    #[test]
    fn a_kernel_that_is_slow_only_on_fresh_inputs_is_reported() {
        let of = |repeated_ns, fresh_ns| {
            let without = faster_on_repeats(Repeats { repeated_ns, fresh_ns, ..NOTHING });
            let rewritten_ns = Some(repeated_ns);
            let with = faster_on_repeats(Repeats { repeated_ns, rewritten_ns, fresh_ns, ..NOTHING });
            assert_eq!(without.is_some(), with.is_some());
            with
        };
        assert_eq!(of(4_400.0, Some(4_700.0)), None);
        assert_eq!(of(4_400.0, None), None);
        assert_eq!(of(4_400.0, Some(9_000.0)).unwrap().kind, "faster-on-repeats");
        assert_eq!(of(1_000_000.0, Some(1_600_000.0)).unwrap().kind, "faster-on-repeats");
    }

    #[test]
    fn the_state_of_the_caches_is_not_the_kernels_fault() {
        // A kernel that is limited by the memory, on an H200: 24.3 us in a row, 30.3 us on fresh inputs.
        let honest = Repeats {
            repeated_ns: 24_300.0,
            rewritten_ns: Some(30_100.0),
            cache_ns: 12_000.0,
            fresh_ns: Some(30_300.0),
        };
        assert_eq!(faster_on_repeats(honest), None);
        // Small buffers stay in the L2, so less is excused.
        let small = Repeats { cache_ns: 0.0, ..honest };
        assert_eq!(faster_on_repeats(small), None);
        let slower = Repeats { rewritten_ns: Some(34_000.0), fresh_ns: Some(34_000.0), ..small };
        assert!(faster_on_repeats(slower).is_some());
        // The delay of the caches does not excuse a kernel that is slow on fresh inputs.
        assert!(faster_on_repeats(Repeats { fresh_ns: Some(40_000.0), ..honest }).is_some());
        // Nor one that recognises the writes between its launches and works only then.
        assert!(
            faster_on_repeats(Repeats { rewritten_ns: Some(60_000.0), fresh_ns: Some(60_000.0), ..honest })
                .is_some()
        );
    }

    // An honest kernel on an H200 with other processes.
    #[test]
    fn a_kernel_that_is_as_slow_on_repeated_inputs_is_not_reported() {
        let contended = Repeats {
            repeated_ns: 21_930.0,
            rewritten_ns: Some(18_380.0),
            fresh_ns: Some(21_770.0),
            ..NOTHING
        };
        assert_eq!(faster_on_repeats(contended), None);
        assert!(faster_on_repeats(Repeats { repeated_ns: 18_380.0, ..contended }).is_some());
    }

    #[test]
    fn a_kernel_that_is_fast_only_during_timing_is_reported() {
        let of = |repeated_ns, hot_ns| slower_afterwards(Repeats { repeated_ns, ..NOTHING }, hot_ns);
        assert_eq!(of(4_500.0, Some(4_400.0)), None);
        assert_eq!(of(4_500.0, None), None);
        assert_eq!(of(9_000.0, Some(4_400.0)).unwrap().kind, "slower-afterwards");
    }
}
