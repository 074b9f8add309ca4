//! A suite's targets, held against what the log says.

use op::Op;

use super::plan::Plan;
use crate::run::{Row, RunState, TargetJudged, rows};
use crate::suite::Target;

/// Judges every target of the suite. What it takes to judge and is not there leaves it open.
pub fn judge<O: Op>(
    op: &O,
    targets: &[Target],
    plan: &Plan<'_, O::Problem>,
    state: &RunState,
) -> Vec<TargetJudged> {
    let rows = rows(state);
    let mut judged = Vec::new();
    for target in targets {
        let problems: Vec<String> = match &target.problem {
            Some(name) => op.problems(name).unwrap_or_default().iter().map(ToString::to_string).collect(),
            None => plan.problems.iter().map(ToString::to_string).collect(),
        };
        if let (Some(wanted), Some(over)) = (target.speedup, &target.over) {
            judged.extend(problems.iter().map(|problem| speedup(plan, &rows, problem, over, wanted)));
        }
        if let (true, Some(over)) = (target.p90_not_worse, &target.over) {
            judged.extend(problems.iter().map(|problem| tail(plan, &rows, problem, over)));
        }
        if target.no_spills {
            judged.push(no_spills(plan, state));
        }
        if let Some(percent) = target.sm_busy {
            judged.push(TargetJudged {
                target: format!("multiprocessors busy at least {percent}% of the time"),
                problem: target.problem.clone(),
                met: None,
                evidence: "needs a profile".to_owned(),
            });
        }
    }
    judged
}

/// The name subjects have for a suite's `over`: `auto` is `pytorch auto`.
fn is_called(baseline: &str, over: &str) -> bool {
    baseline == over || baseline.split_once(' ').is_some_and(|(_, name)| name == over)
}

/// The candidates' rows on a problem by the plan's first timer, each with the comparison meant.
fn compared<'r, P>(
    plan: &Plan<'_, P>,
    rows: &'r [Row],
    problem: &str,
    over: &str,
) -> Vec<(&'r Row, crate::stats::Comparison)> {
    let timer = plan.timers.first().copied();
    rows.iter()
        .filter(|row| row.of.problem == problem && Some(row.timer) == timer)
        .filter_map(|row| {
            let found = row.over.iter().find(|other| is_called(&other.baseline, over))?;
            Some((row, found.comparison))
        })
        .collect()
}

/// The best candidate counts. It is met, or missed, where the whole interval says so.
fn speedup<P>(plan: &Plan<'_, P>, rows: &[Row], problem: &str, over: &str, wanted: f64) -> TargetJudged {
    let all = compared(plan, rows, problem, over);
    let best = all.iter().max_by(|a, b| a.1.speedup.ratio.total_cmp(&b.1.speedup.ratio));
    let (met, evidence) = match best {
        None => (None, "nothing was measured against it".to_owned()),
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
    TargetJudged { target, problem: Some(problem.to_owned()), met, evidence }
}

/// The best candidate's slow tail against the baseline's.
fn tail<P>(plan: &Plan<'_, P>, rows: &[Row], problem: &str, over: &str) -> TargetJudged {
    let all = compared(plan, rows, problem, over);
    let best = all.iter().max_by(|a, b| a.1.speedup.ratio.total_cmp(&b.1.speedup.ratio));
    let baseline = rows.iter().find(|row| {
        row.of.problem == problem
            && is_called(&row.of.subject, over)
            && Some(row.timer) == plan.timers.first().copied()
    });
    let (met, evidence) = match (best, baseline) {
        (Some((row, _)), Some(baseline)) => (
            Some(row.p90_us.0 <= baseline.p90_us.0),
            format!("{}: p90 {}, {}: {}", row.of.subject, row.p90_us, baseline.of.subject, baseline.p90_us),
        ),
        _ => (None, "nothing was measured against it".to_owned()),
    };
    let target = format!("p90 not worse than that of {over}");
    TargetJudged { target, problem: Some(problem.to_owned()), met, evidence }
}

fn no_spills<P>(plan: &Plan<'_, P>, state: &RunState) -> TargetJudged {
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
    TargetJudged { target: "no spills".to_owned(), problem: None, met, evidence }
}
