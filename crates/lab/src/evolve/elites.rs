//! Who is kept.

use crate::run::{ProblemTime, Trial, TrialResult};

/// What a child must gain over what it was made from.
pub const GAIN: f64 = 1.03;
/// Slower than this share of what it was made from is a regression; timings differ by a per cent on their own.
const REGRESSED: f64 = 0.98;
/// That many shapes may not regress.
const REGRESSIONS: usize = 2;

/// A trial that was right and timed.
#[derive(Clone, Copy, Debug)]
pub struct TimedTrial<'t> {
    pub trial: &'t Trial,
    pub score: f64,
    pub problems: &'t [ProblemTime],
    pub registers: u32,
    pub shared_bytes: u64,
}

/// The trials that have a time, in the order they were made.
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

/// The best of those that were kept, best first, `count` at most.
pub fn best<'t>(trials: impl IntoIterator<Item = &'t Trial>, count: usize) -> Vec<TimedTrial<'t>> {
    let kept = |timed: &TimedTrial<'_>| matches!(timed.trial.result, TrialResult::Timed { elite: true, .. });
    let mut elites: Vec<TimedTrial<'_>> = timed(trials).filter(kept).collect();
    // Of equals, the earlier one: the sort is stable.
    elites.sort_by(|a, b| b.score.total_cmp(&a.score));
    elites.truncate(count);
    elites
}

/// Whether a child joins the elites: at least 3% over what it was made from (over the baseline, where it was made
/// from nothing), not slower on two shapes or more, and among the best `count` there are.
pub fn joins(
    score: f64,
    problems: &[ProblemTime],
    parent: Option<TimedTrial<'_>>,
    elites: &[TimedTrial<'_>],
    count: usize,
) -> bool {
    let from = parent.map_or(1.0, |parent| parent.score);
    let slower = |now: &&ProblemTime| {
        let before = parent.map_or(Some(1.0), |parent| {
            parent.problems.iter().find(|before| before.problem == now.problem).map(|before| before.speedup)
        });
        before.is_some_and(|before| now.speedup < before * REGRESSED)
    };
    let room = elites.len() < count || elites.last().is_some_and(|last| score > last.score);
    score >= from * GAIN && problems.iter().filter(slower).count() < REGRESSIONS && room
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use vgpu::model::ModelledMicros;

    use super::*;
    use crate::run::Time;

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
        let score = crate::stats::geometric_mean(speedups.iter().copied()).unwrap();
        Trial {
            number,
            candidate: format!("c{number}"),
            knobs: IndexMap::new(),
            parent: None,
            origin: "start".to_owned(),
            source: None,
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

    fn would_join(speedups: &[f64], parent: Option<&Trial>, kept: &[Trial], count: usize) -> bool {
        let child = trial(9, speedups, false);
        let child = timed([&child]).next().unwrap();
        joins(
            child.score,
            child.problems,
            parent.and_then(|parent| timed([parent]).next()),
            &best(kept, count),
            count,
        )
    }

    #[test]
    fn three_per_cent_it_must_be() {
        assert!(would_join(&[1.04, 1.04], None, &[], 3));
        assert!(!would_join(&[1.02, 1.03], None, &[], 3));
        let parent = trial(1, &[1.5, 1.5], true);
        assert!(!would_join(&[1.52, 1.52], Some(&parent), &[], 3));
        assert!(would_join(&[1.56, 1.54], Some(&parent), &[], 3));
    }

    #[test]
    fn one_shape_may_lose_and_two_may_not() {
        assert!(would_join(&[2.0, 0.9, 1.0], None, &[], 3));
        assert!(!would_join(&[4.0, 0.9, 0.9], None, &[], 3));
        let parent = trial(1, &[1.0, 2.0, 2.0], true);
        assert!(!would_join(&[9.0, 1.9, 1.9], Some(&parent), &[], 3));
    }

    #[test]
    fn the_last_elite_makes_room_for_a_better_one_only() {
        let kept = [trial(1, &[2.0], true), trial(2, &[1.5], true), trial(3, &[9.0], false)];
        assert_eq!(best(&kept, 6).iter().map(|it| it.trial.number).collect::<Vec<_>>(), [1, 2]);
        assert!(would_join(&[1.6], None, &kept, 2));
        assert!(!would_join(&[1.4], None, &kept, 2));
        assert!(would_join(&[1.4], None, &kept, 3));
    }
}
