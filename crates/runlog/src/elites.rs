//! Selects the elites of a search.

use super::{ProblemTime, Trial, TrialResult};

/// The speedup that a child needs over its parent.
pub const GAIN: f64 = 1.03;
/// A child whose speed on a problem is below this share of its parent's has regressed there. Repeated timings differ by
/// about one per cent.
const REGRESSED: f64 = 0.98;
/// A child with this many regressions is not kept.
const TOO_MANY_REGRESSIONS: usize = 2;

/// A trial that passed its check and was timed.
#[derive(Clone, Copy, Debug)]
pub struct TimedTrial<'t> {
    /// The trial.
    pub trial: &'t Trial,
    /// Geometric mean of the speedups over the baseline.
    pub score: f64,
    /// The time on each problem.
    pub problems: &'t [ProblemTime],
    /// Registers per thread.
    pub registers: u32,
    /// Shared memory per block.
    pub shared_bytes: u64,
}

/// The timed trials, in order.
pub fn timed<'t>(trials: impl IntoIterator<Item = &'t Trial>) -> impl Iterator<Item = TimedTrial<'t>> {
    trials.into_iter().filter_map(|trial| match &trial.result {
        TrialResult::Timed { score, problems, registers, shared_bytes, .. } => Some(TimedTrial {
            trial,
            score: *score,
            problems,
            registers: *registers,
            shared_bytes: *shared_bytes,
        }),
        TrialResult::Same { .. } | TrialResult::Failed { .. } => None,
    })
}

/// The trials that were elites when they were tried, in order. Only these were checked with fresh inputs.
pub fn all<'t>(trials: impl IntoIterator<Item = &'t Trial>) -> impl Iterator<Item = TimedTrial<'t>> {
    timed(trials).filter(|timed| matches!(timed.trial.result, TrialResult::Timed { elite: true, .. }))
}

/// The best elites, best first, at most `count`.
pub fn best<'t>(trials: impl IntoIterator<Item = &'t Trial>, count: usize) -> Vec<TimedTrial<'t>> {
    let mut elites: Vec<TimedTrial<'_>> = all(trials).collect();
    // The sort is stable: of equal scores, the earlier trial comes first.
    elites.sort_by(|a, b| b.score.total_cmp(&a.score));
    elites.truncate(count);
    elites
}

/// The setting that a search recommends: its best elite. The baseline is an elite, too. The terminal, the report, the
/// tuned table and later stages all use this definition.
pub fn winner<'t>(trials: impl IntoIterator<Item = &'t Trial>) -> Option<TimedTrial<'t>> {
    best(trials, 1).pop()
}

/// Whether a child becomes an elite. It must be at least 3% faster than its parent (than the baseline, if it has no
/// parent), be slower on fewer than two problems, and rank among the best `count`.
pub fn joins(
    score: f64,
    problems: &[ProblemTime],
    parent: Option<TimedTrial<'_>>,
    elites: &[TimedTrial<'_>],
    count: usize,
) -> bool {
    let parent_score = parent.map_or(1.0, |parent| parent.score);
    let has_regressed = |now: &&ProblemTime| {
        let before = parent.map_or(Some(1.0), |parent| {
            parent.problems.iter().find(|before| before.problem == now.problem).map(|before| before.speedup)
        });
        before.is_some_and(|before| now.speedup < before * REGRESSED)
    };
    let has_room = elites.len() < count || elites.last().is_some_and(|last| score > last.score);
    score >= parent_score * GAIN
        && problems.iter().filter(has_regressed).count() < TOO_MANY_REGRESSIONS
        && has_room
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use times::ModelledMicros;

    use super::*;
    use crate::Time;

    pub fn trial(number: u32, speedups: &[f64], elite: bool) -> Trial {
        let time = Time::Modelled(ModelledMicros(10.0));
        let problem = |(at, speedup): (usize, &f64)| ProblemTime {
            problem: format!("p{at}"),
            time,
            baseline: time,
            speedup: *speedup,
            interval: None,
            limiter: None,
        };
        let problems: Vec<ProblemTime> = speedups.iter().enumerate().map(problem).collect();
        let score = stats::geometric_mean(speedups.iter().copied()).unwrap();
        Trial {
            number,
            candidate: format!("c{number}"),
            knobs: IndexMap::new(),
            parent: None,
            origin: "start".to_owned(),
            source: None,
            done_by: None,
            result: TrialResult::Timed {
                build: String::new(),
                code_hash: number.to_string(),
                registers: 1,
                shared_bytes: 0,
                score,
                problems,
                elite,
            },
        }
    }

    fn would_join(speedups: &[f64], parent: Option<&Trial>, trials: &[Trial], count: usize) -> bool {
        let child = trial(9, speedups, false);
        let child = timed([&child]).next().unwrap();
        joins(
            child.score,
            child.problems,
            parent.and_then(|parent| timed([parent]).next()),
            &best(trials, count),
            count,
        )
    }

    #[test]
    fn a_child_must_gain_three_per_cent() {
        assert!(would_join(&[1.04, 1.04], None, &[], 3));
        assert!(!would_join(&[1.02, 1.03], None, &[], 3));
        let parent = trial(1, &[1.5, 1.5], true);
        assert!(!would_join(&[1.52, 1.52], Some(&parent), &[], 3));
        assert!(would_join(&[1.56, 1.54], Some(&parent), &[], 3));
    }

    #[test]
    fn a_child_may_regress_on_one_problem_only() {
        assert!(would_join(&[2.0, 0.9, 1.0], None, &[], 3));
        assert!(!would_join(&[4.0, 0.9, 0.9], None, &[], 3));
        let parent = trial(1, &[1.0, 2.0, 2.0], true);
        assert!(!would_join(&[9.0, 1.9, 1.9], Some(&parent), &[], 3));
    }

    #[test]
    fn only_a_better_child_replaces_the_last_elite() {
        let trials = [trial(1, &[2.0], true), trial(2, &[1.5], true), trial(3, &[9.0], false)];
        assert_eq!(best(&trials, 6).iter().map(|it| it.trial.number).collect::<Vec<_>>(), [1, 2]);
        assert!(would_join(&[1.6], None, &trials, 2));
        assert!(!would_join(&[1.4], None, &trials, 2));
        assert!(would_join(&[1.4], None, &trials, 3));
    }
}
