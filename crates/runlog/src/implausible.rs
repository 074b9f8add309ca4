//! Removes times that cannot be true from the state of a run. A log may be forged, and every reader of times uses the
//! state: reports, the gate, the tuned table and a resumed run, which then measures again.

use std::collections::HashMap;

use op::Work;
use op::plausible::implausible_reason;

use crate::record::InversionResult;
use crate::{Measurement, ProblemTime, RunState, SpeedupRecord, Stage, StageKey, Time, TrialResult};

/// The minimum work of a problem, with the type of its matrix products.
pub type KnownWork = (Work, Option<String>);

impl RunState {
    /// Removes records whose times cannot be true, with a warning that names each. `work` is the minimum work of a
    /// problem, if the caller knows it; otherwise what the record itself says is used.
    pub fn remove_implausible(&mut self, work: &dyn Fn(&str) -> Option<KnownWork>) {
        let Some(gpu) = self.gpu() else { return };
        let mut warnings = Vec::new();
        let mut is_implausible =
            |record: &str, problem: &str, time: Time, own: Option<(Work, Option<&str>)>| {
                let known = work(problem);
                let known = known.as_ref().map(|(work, matrix)| (*work, matrix.as_deref()));
                let reason = implausible_reason(&gpu, time, known.or(own));
                warnings
                    .extend(reason.iter().map(|reason| format!("ignoring {record} on {problem}: {reason}")));
                reason.is_some()
            };
        let stages = &mut self.stages;
        self.measurements.retain(|found| {
            let Ok(time) = found.sampled.typical_us() else { return true };
            let own = found.sampled.work.map(|work| (work, found.sampled.matrix.as_deref()));
            let record = format!("the measurement of {}", found.of.subject);
            let drop = is_implausible(&record, &found.of.problem, Time::Measured(time), own);
            if drop {
                stages.shift_remove(&StageKey { stage: Stage::Bench, of: found.of.clone() });
            }
            !drop
        });
        self.modelled.retain(|of, modelled| {
            let record = format!("the modelled time of {}", of.subject);
            let drop = is_implausible(&record, &of.problem, Time::Modelled(modelled.time_us), None);
            if drop {
                stages.shift_remove(&StageKey { stage: Stage::Bench, of: of.clone() });
            }
            !drop
        });
        let mut forged = Vec::new();
        let first = self.trials.get(&0).map(|trial| trial.result.clone());
        self.trials.retain(|number, trial| {
            let TrialResult::Timed { problems, score, .. } = &trial.result else { return true };
            let record = format!("trial {number} ({})", trial.candidate);
            let is_implausible = problems.iter().any(|it| {
                is_implausible(&record, &it.problem, it.time, None)
                    || is_implausible(&record, &it.problem, it.baseline, None)
            });
            if is_implausible {
                return false;
            }
            let contradiction = contradiction(*number, *score, problems, first.as_ref());
            forged.extend(contradiction.iter().map(|what| format!("ignoring {record}: {what}")));
            contradiction.is_none()
        });
        self.inversions.retain(|inversion| {
            let InversionResult::Timed { time, healthy, .. } = &inversion.result else { return true };
            let record = format!("the inversion {}", inversion.setting);
            ![time, healthy].into_iter().any(|time| is_implausible(&record, &inversion.problem, *time, None))
        });
        self.profiles.retain(|of, profile| {
            let record = format!("the profile of {}", of.subject);
            let time = profile.metrics.time;
            !time.is_some_and(|time| is_implausible(&record, &of.problem, time, None))
        });
        self.warnings.extend(warnings);
        self.warnings.extend(forged);
    }

    /// Removes verdicts and controls without samples, and verdicts that contradict them, with a warning that names each.
    pub(crate) fn remove_unsupported(&mut self) {
        let key =
            |problem: &str, subject: &str, session: u32| (problem.to_owned(), subject.to_owned(), session);
        let mut typical = HashMap::new();
        for Measurement { of, sampled } in &self.measurements {
            let times: &mut Vec<_> =
                typical.entry(key(&of.problem, &of.subject, sampled.session)).or_default();
            times.push((sampled.timer, sampled.typical_us().ok()));
        }
        let mut forged = Vec::new();
        self.verdicts.retain(|verdict| {
            let SpeedupRecord { problem, candidate, baseline, session, timer, comparison } = verdict;
            let time = |subject: &str| {
                let times = typical.get(&key(problem, subject, *session))?;
                times.iter().find(|(by, _)| by == timer).and_then(|(_, time)| *time)
            };
            let (Some(time), Some(baseline_time)) = (time(candidate), time(baseline)) else { return false };
            let is_true = agree(comparison.speedup.ratio, baseline_time.0 / time.0);
            if !is_true {
                forged.push(format!(
                    "ignoring the comparison of {candidate} with {baseline} on {problem}: its speedup is not the \
                     ratio of their times"
                ));
            }
            is_true
        });
        self.controls.retain(|control| {
            typical.contains_key(&key(&control.problem, &control.subject, control.session))
        });
        self.warnings.extend(forged);
    }

    /// The name of the GPU, which begins with `virtual` if either the device or the GPU is virtual.
    fn gpu(&self) -> Option<String> {
        let manifest = self.manifest.as_ref()?;
        let device = manifest.device.known().filter(|device| device.starts_with("virtual"));
        device.or(manifest.gpu.known()).cloned()
    }
}

/// Why the numbers of a trial contradict each other or those of the first trial, if they do. A search compares scores
/// and speedups, which must follow from times: those can be judged and measured again.
fn contradiction(
    number: u32,
    score: f64,
    problems: &[ProblemTime],
    first: Option<&TrialResult>,
) -> Option<String> {
    if number == 0 {
        // The first trial is the baseline. A GPU times it beside itself, so that its speedups are only close to 1.
        if score != 1.0 {
            return Some("it is the baseline, and its score is not 1".to_owned());
        }
    } else {
        let mean = stats::geometric_mean(problems.iter().map(|it| it.speedup));
        if !mean.is_some_and(|mean| agree(score, mean)) {
            return Some("its score is not the mean of its speedups".to_owned());
        }
    }
    let wrong = problems.iter().find(|it| !agree(it.speedup, it.baseline.micros() / it.time.micros()));
    if let Some(ProblemTime { problem, speedup, .. }) = wrong {
        return Some(format!("its speedup of {speedup:.3} on {problem} is not the ratio of its times"));
    }
    // All trials have the kernel of the first as their baseline. Modelled times do not vary.
    let Some(TrialResult::Timed { problems: first, .. }) = first else { return None };
    let is_of_first = |it: &ProblemTime, first: &ProblemTime| {
        let ratio = it.baseline.micros() / first.time.micros();
        let most = if it.baseline.is_modelled() { 1.0 + 1e-6 } else { LARGEST_VARIATION };
        first.problem == it.problem && ratio <= most && ratio >= 1.0 / most
    };
    let wrong = problems.iter().find(|it| !first.iter().any(|first| is_of_first(it, first)));
    wrong.map(|it| format!("its baseline on {} does not have the time of the first trial", it.problem))
}

/// The largest factor between two measured times of one kernel on one GPU. Clocks and processes change a time by less.
const LARGEST_VARIATION: f64 = 2.0;

/// Whether a number of a record is what the other numbers give. They are written with all digits.
fn agree(recorded: f64, derived: f64) -> bool {
    (recorded / derived - 1.0).abs() <= 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench_log, search_log, state_from};
    use crate::{Event, Fact, MeasuredMicros};
    use times::ModelledMicros;

    /// The state of a log whose manifest names another GPU and whose times are changed.
    fn state_on(gpu: &str, mut events: Vec<Event>, change: impl Fn(&mut Event)) -> RunState {
        for event in &mut events {
            if let Event::RunStarted { manifest } = event {
                manifest.gpu = Fact::Known(gpu.to_owned());
            }
            change(event);
        }
        state_from(&events)
    }

    #[test]
    fn a_measured_time_on_a_virtual_gpu_is_ignored_with_a_warning() {
        let honest = state_on("NVIDIA H200", bench_log(), |_| ());
        assert!(!honest.measurements.is_empty() && honest.warnings.is_empty(), "{:?}", honest.warnings);
        let forged = state_on("virtual h200", bench_log(), |_| ());
        assert!(forged.measurements.is_empty() && forged.verdicts.is_empty());
        assert!(forged.warnings[0].contains("only modelled times"), "{:?}", forged.warnings);
    }

    #[test]
    fn a_time_below_the_floor_is_ignored_and_measured_again() {
        let honest = state_on("NVIDIA H200", bench_log(), |_| ());
        let forged = state_on("NVIDIA H200", bench_log(), |event| {
            if let Event::Sampled { sampled, of } = event
                && of.subject.starts_with("wmma")
            {
                sampled.samples_ns.iter_mut().for_each(|nanos| *nanos *= 1e-5);
            }
        });
        assert!(forged.measurements.len() < honest.measurements.len());
        assert!(forged.warnings.iter().any(|it| it.contains("wmma stage-2")), "{:?}", forged.warnings);
        let key = &honest.measurements.iter().find(|it| it.of.subject.starts_with("wmma")).unwrap().of;
        let key = StageKey { stage: Stage::Bench, of: key.clone() };
        assert!(honest.finished(&key) && !forged.finished(&key));
    }

    type Forge = fn(&mut f64, &mut [ProblemTime]);

    #[test]
    fn a_forged_trial_is_ignored() {
        let honest = state_on("virtual l4", search_log(), |_| ());
        let last = *honest.trials.keys().last().unwrap();
        let forgeries: [(Forge, &str); 4] = [
            (|_, problems| problems[0].time = Time::Measured(MeasuredMicros(0.001)), "only modelled times"),
            (|score, _| *score = 50.0, "its score is not the mean"),
            // The score follows from the speedups, but they do not follow from the times.
            (
                |score, problems| {
                    *score = 50.0;
                    for it in problems {
                        it.speedup = 50.0;
                    }
                },
                "is not the ratio of its times",
            ),
            // All three agree, but the baseline took another time.
            (
                |score, problems| {
                    *score = 50.0;
                    for it in problems {
                        it.baseline = Time::Modelled(ModelledMicros(50.0 * it.time.micros()));
                        it.speedup = 50.0;
                    }
                },
                "the time of the first trial",
            ),
        ];
        for (forge, words) in forgeries {
            let forged = state_on("virtual l4", search_log(), |event| {
                if let Event::Tried { trial } = event
                    && trial.number == last
                    && let TrialResult::Timed { problems, score, .. } = &mut trial.result
                {
                    forge(score, problems);
                }
            });
            assert!(!forged.trials.contains_key(&last) && forged.trials.len() + 1 == honest.trials.len());
            let told = |it: &String| it.contains(&format!("trial {last}")) && it.contains(words);
            assert!(forged.warnings.iter().any(told), "{words}: {:?}", forged.warnings);
        }
    }

    #[test]
    fn the_baseline_of_a_search_on_a_gpu_has_score_1_and_one_time() {
        let last =
            search_log().iter().filter(|event| matches!(event, Event::Tried { .. })).count() as u32 - 1;
        let on_gpu = |score_of_first: f64, baseline_of_last: f64| {
            state_on("NVIDIA H200", search_log(), |event| {
                if let Event::RunStarted { manifest } = event {
                    manifest.device = Fact::Known("cuda:0".to_owned());
                }
                let Event::Tried { trial } = event else { return };
                let TrialResult::Timed { problems, score, .. } = &mut trial.result else { return };
                for it in problems.iter_mut() {
                    // The two processes of one kernel never take the same time.
                    let factor = if trial.number == last { baseline_of_last } else { 1.004 };
                    let baseline = MeasuredMicros(it.baseline.micros() * factor);
                    let time = MeasuredMicros(it.time.micros());
                    (it.time, it.baseline) = (Time::Measured(time), Time::Measured(baseline));
                    it.speedup = baseline.0 / time.0;
                }
                *score = stats::geometric_mean(problems.iter().map(|it| it.speedup)).unwrap();
                if trial.number == 0 {
                    *score = score_of_first;
                }
            })
        };
        let honest = on_gpu(1.0, 1.25);
        assert!(honest.trials.contains_key(&0) && honest.warnings.is_empty(), "{:?}", honest.warnings);
        let forged = on_gpu(50.0, 1.004);
        assert!(!forged.trials.contains_key(&0) && forged.warnings.len() == 1, "{:?}", forged.warnings);
        // Speedup and score follow from the times, but the baseline took another time than before.
        let forged = on_gpu(1.0, 50.0);
        assert!(!forged.trials.contains_key(&last) && forged.warnings.len() == 1, "{:?}", forged.warnings);
        assert!(forged.warnings[0].contains("the time of the first trial"), "{:?}", forged.warnings);
    }

    #[test]
    fn a_forged_comparison_is_ignored() {
        let honest = state_on("NVIDIA H200", bench_log(), |_| ());
        assert_eq!(honest.verdicts.len(), 1, "{:?}", honest.warnings);
        let forged = state_on("NVIDIA H200", bench_log(), |event| {
            if let Event::Verdict { comparison, .. } = event {
                comparison.speedup.ratio *= 1.1;
            }
        });
        assert!(forged.verdicts.is_empty());
        assert!(forged.warnings[0].contains("is not the ratio of their times"), "{:?}", forged.warnings);
        let other_timer = state_on("NVIDIA H200", bench_log(), |event| {
            if let Event::Verdict { timer, .. } = event {
                *timer = crate::Timer::Eager;
            }
        });
        assert!(other_timer.verdicts.is_empty());
    }
}
