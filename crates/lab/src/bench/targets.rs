//! Judges the targets of a suite by the run's log.

use op::Op;
use runlog::{Row, RunState, TargetVerdict, rows};

use super::plan::BenchPlan;
use crate::suite::Target;

/// Judges every target of the suite. A target stays open if the data to judge it is missing.
pub fn judge<O: Op + ?Sized>(
    op: &O,
    targets: &[Target],
    plan: &BenchPlan<'_, O::Problem>,
    state: &RunState,
) -> Vec<TargetVerdict> {
    let rows = rows(state);
    let mut judged = Vec::new();
    for target in targets {
        let problems: Vec<String> = match &target.problem {
            Some(name) => op.problems(name).unwrap_or_default().iter().map(ToString::to_string).collect(),
            None => plan.problems.iter().map(ToString::to_string).collect(),
        };
        if let (Some(wanted), Some(over)) = (target.speedup, &target.over) {
            judged.extend(problems.iter().map(|problem| speedup_target(plan, &rows, problem, over, wanted)));
        }
        if let (true, Some(over)) = (target.p90_not_worse, &target.over) {
            judged.extend(problems.iter().map(|problem| p90_target(plan, &rows, problem, over)));
        }
        if target.no_spills {
            judged.push(no_spills_target(plan, state));
        }
        if let Some(percent) = target.sm_busy {
            judged.push(TargetVerdict {
                target: format!("multiprocessors busy at least {percent}% of the time"),
                problem: target.problem.clone(),
                met: None,
                evidence: "needs a profile".to_owned(),
            });
        }
    }
    judged
}

/// Returns the candidates' rows on a problem for the plan's first timer, each with its comparison with `over`.
fn compared<'r, P>(
    plan: &BenchPlan<'_, P>,
    rows: &'r [Row],
    problem: &str,
    over: &str,
) -> Vec<(&'r Row, stats::Comparison)> {
    let timer = plan.timers.first().copied();
    rows.iter()
        .filter(|row| row.of.problem == problem && Some(row.timer) == timer)
        .filter_map(|row| {
            let found = row.over.iter().find(|other| plan.is_called(&other.baseline, over))?;
            Some((row, found.comparison))
        })
        .collect()
}

/// Judges a speedup target by the best candidate. The target is met or missed only if the whole interval agrees.
fn speedup_target<P>(
    plan: &BenchPlan<'_, P>,
    rows: &[Row],
    problem: &str,
    over: &str,
    wanted: f64,
) -> TargetVerdict {
    let all = compared(plan, rows, problem, over);
    let best = all.iter().max_by(|a, b| a.1.speedup.ratio.total_cmp(&b.1.speedup.ratio));
    let (met, evidence) = match best {
        None => (None, "no candidate was compared with it".to_owned()),
        Some((row, comparison)) => {
            let speedup = comparison.speedup;
            let (low, high) = (speedup.interval.low, speedup.interval.high);
            let met = match () {
                () if low >= wanted => Some(true),
                () if high < wanted => Some(false),
                () => None,
            };
            (met, format!("{}: {:.2}x ({low:.2} - {high:.2})", row.of.subject, speedup.ratio))
        }
    };
    let target = format!("at least {wanted}x over {over}");
    TargetVerdict { target, problem: Some(problem.to_owned()), met, evidence }
}

/// Judges a p90 target: compares the best candidate's p90 with the baseline's.
fn p90_target<P>(plan: &BenchPlan<'_, P>, rows: &[Row], problem: &str, over: &str) -> TargetVerdict {
    let all = compared(plan, rows, problem, over);
    let best = all.iter().max_by(|a, b| a.1.speedup.ratio.total_cmp(&b.1.speedup.ratio));
    let baseline = rows.iter().find(|row| {
        row.of.problem == problem
            && plan.is_called(&row.of.subject, over)
            && Some(row.timer) == plan.timers.first().copied()
    });
    let (met, evidence) = match (best, baseline) {
        (Some((row, _)), Some(baseline)) => (
            Some(row.p90_us.0 <= baseline.p90_us.0),
            format!("{}: p90 {}, {}: {}", row.of.subject, row.p90_us, baseline.of.subject, baseline.p90_us),
        ),
        _ => (None, "no candidate was compared with it".to_owned()),
    };
    let target = format!("p90 not worse than that of {over}");
    TargetVerdict { target, problem: Some(problem.to_owned()), met, evidence }
}

/// Judges the target that no candidate spills.
fn no_spills_target<P>(plan: &BenchPlan<'_, P>, state: &RunState) -> TargetVerdict {
    let is_candidate = |name: &str| plan.subjects.iter().any(|it| it.is_candidate && it.name == name);
    let builds: Vec<_> = state.builds.iter().filter(|(of, _)| is_candidate(&of.subject)).collect();
    let spilling: Vec<String> = builds
        .iter()
        .filter(|(_, build)| build.spill_bytes > 0)
        .map(|(of, build)| format!("{} on {}: {} bytes", of.subject, of.problem, build.spill_bytes))
        .collect();
    let (met, evidence) = match (builds.len(), spilling.as_slice()) {
        (0, _) => (None, "nothing was built".to_owned()),
        (count, []) => (Some(true), format!("{count} builds, none spills")),
        (_, some) => (Some(false), some.join("; ")),
    };
    TargetVerdict { target: "no spills".to_owned(), problem: None, met, evidence }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpu::device::Device;

    use super::*;
    use crate::worker::Limits;
    use runlog::{BuildRecord, Measurement, ResultId, SampleSet, SpeedupRecord, Telemetry, Timer};
    use stats::{NoiseFloor, Paired, Samples, StopReason, Stopping, compare};

    fn plan() -> BenchPlan<'static, ()> {
        let chip = chips::Chip::by_name("l4").unwrap();
        BenchPlan {
            device: Device::Virtual { chip },
            subjects: vec![super::super::Subject::peer("pytorch", "auto")],
            problems: Vec::new(),
            processes: 1,
            class: None,
            timers: vec![Timer::GraphHot],
            stopping: Stopping::default(),
            ceilings: false,
            warmup: 1,
            limits: Limits { build: Duration::ZERO, answer: Duration::ZERO, resident_bytes: 0 },
            seed: 1,
            secret: 1,
            targets: Vec::new(),
            errors: false,
        }
    }

    /// Two subjects on one problem. The candidate takes `ratio` times the baseline's time.
    fn state(ratio: f64) -> RunState {
        let times = |scale: f64, step: i32| -> Vec<f64> {
            (0..44).map(|i| scale * (1e4 + 50.0 * f64::from(i * step % 11))).collect()
        };
        let mut state = RunState::default();
        for (subject, times) in [("pytorch auto", times(1.0, 3)), ("wmma stage-2", times(ratio, 7))] {
            let sampled = SampleSet {
                timer: Timer::GraphHot,
                session: 0,
                samples_ns: times,
                per_block: 2,
                processes: 1,
                warmup: 1,
                stopped: StopReason::Tight,
                work: None,
                matrix: None,
                apart_ns: Vec::new(),
                telemetry: Telemetry::default(),
            };
            state.measurements.push(Measurement { of: ResultId::new("p", subject, "1"), sampled });
        }
        let samples: Vec<Samples> = state
            .measurements
            .iter()
            .map(|it| Samples::new(it.sampled.samples_ns.clone()).unwrap())
            .collect();
        let paired = Paired::new(&samples[0], &samples[1], 2).unwrap();
        let floor = NoiseFloor::from_control(&paired.speedup(1), 0.0);
        state.verdicts.push(SpeedupRecord {
            problem: "p".to_owned(),
            candidate: "wmma stage-2".to_owned(),
            baseline: "pytorch auto".to_owned(),
            session: 0,
            timer: Timer::GraphHot,
            comparison: compare(&paired, floor, 1),
        });
        state
    }

    #[test]
    fn a_target_is_decided_only_by_the_whole_interval() {
        let judged =
            |ratio: f64, wanted: f64| speedup_target(&plan(), &rows(&state(ratio)), "p", "auto", wanted).met;
        assert_eq!(judged(0.4, 2.0), Some(true));
        assert_eq!(judged(0.6, 2.0), Some(false));
        assert_eq!(judged(0.5, 2.0), None);
    }

    #[test]
    fn a_target_without_measurements_stays_open() {
        let rows = rows(&state(0.4));
        assert_eq!(speedup_target(&plan(), &rows, "p", "math", 2.0).met, None);
        assert_eq!(speedup_target(&plan(), &rows, "q", "auto", 2.0).met, None);
        assert_eq!(p90_target(&plan(), &rows, "q", "auto").met, None);
        assert_eq!(no_spills_target(&plan(), &RunState::default()).met, None);
    }

    #[test]
    fn the_p90_is_compared_with_the_baseline() {
        let judged = |ratio: f64| p90_target(&plan(), &rows(&state(ratio)), "p", "auto").met;
        assert_eq!((judged(0.9), judged(1.1)), (Some(true), Some(false)));
    }

    #[test]
    fn only_candidates_must_not_spill() {
        let families = family::Catalog::load(None).unwrap();
        let subject =
            |name: &str| super::super::Subject::kernel(families.family(name).unwrap(), None, Vec::new());
        let build = |spill_bytes: u32| BuildRecord {
            setting: String::new(),
            code_hash: String::new(),
            target: String::new(),
            compiler: String::new(),
            registers: 1,
            spill_bytes,
            shared_bytes: 0,
            registers_limit: None,
            spill_bytes_limit: None,
            serialised_wgmma: 0,
            serialised_wgmma_limit: None,
            compile_ms: 0.0,
            from_cache: true,
        };
        let plan = BenchPlan { subjects: vec![subject("wmma")], ..plan() };
        let mut state = RunState::default();
        state.builds.insert(ResultId::new("p", "wmma defaults", "1"), build(0));
        state.builds.insert(ResultId::new("p", "reference default", "2"), build(8));
        assert_eq!(no_spills_target(&plan, &state).met, Some(true));
        state.builds.insert(ResultId::new("q", "wmma defaults", "3"), build(16));
        let judged = no_spills_target(&plan, &state);
        assert_eq!((judged.met, judged.evidence.as_str()), (Some(false), "wmma defaults on q: 16 bytes"));
    }
}
