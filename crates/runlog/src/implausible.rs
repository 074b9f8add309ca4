//! Removes times that cannot be true from the state of a run. A log may be forged, and every reader of times uses the
//! state: reports, the gate, the tuned table and a resumed run, which then measures again.

use op::Work;
use op::plausible::implausible_reason;

use crate::record::InversionResult;
use crate::{RunState, Stage, StageKey, Time, TrialResult};

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
        self.trials.retain(|number, trial| {
            let TrialResult::Timed { problems, score, .. } = &trial.result else { return true };
            let record = format!("trial {number} ({})", trial.candidate);
            // A resumed search compares times and speedups when it measures again, and derives the score from them.
            let mean = stats::geometric_mean(problems.iter().map(|it| it.speedup));
            if mean.is_none_or(|mean| (score / mean - 1.0).abs() > 1e-6) {
                forged.push(format!("ignoring {record}: its score is not the mean of its speedups"));
                return false;
            }
            !problems.iter().any(|it| {
                is_implausible(&record, &it.problem, it.time, None)
                    || is_implausible(&record, &it.problem, it.baseline, None)
            })
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

    /// The name of the GPU, which begins with `virtual` if either the device or the GPU is virtual.
    fn gpu(&self) -> Option<String> {
        let manifest = self.manifest.as_ref()?;
        let device = manifest.device.known().filter(|device| device.starts_with("virtual"));
        device.or(manifest.gpu.known()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench_log, search_log, state_from};
    use crate::{Event, Fact, MeasuredMicros, ProblemTime};

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

    #[test]
    fn a_forged_trial_is_ignored() {
        let honest = state_on("virtual l4", search_log(), |_| ());
        let last = *honest.trials.keys().last().unwrap();
        let forgeries: [fn(&mut f64, &mut ProblemTime); 2] =
            [|_, problem| problem.time = Time::Measured(MeasuredMicros(0.001)), |score, _| *score = 50.0];
        for forge in forgeries {
            let forged = state_on("virtual l4", search_log(), |event| {
                if let Event::Tried { trial } = event
                    && trial.number == last
                    && let TrialResult::Timed { problems, score, .. } = &mut trial.result
                {
                    forge(score, &mut problems[0]);
                }
            });
            assert!(!forged.trials.contains_key(&last) && forged.trials.len() + 1 == honest.trials.len());
            assert!(forged.warnings.iter().any(|it| it.contains(&format!("trial {last}"))));
        }
    }
}
