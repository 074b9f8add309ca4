//! Runs a strategy on a recorded space, once or with many seeds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rayon::prelude::*;

use super::recorded::Recorded;
use crate::history::History;
use crate::space::Point;
use crate::strategies::Entry;

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The evaluated points in order; each occurs once.
    pub order: Vec<Point>,
    /// After each evaluation: optimum divided by the best time so far; 0 before the first time.
    pub fractions: Vec<f64>,
    /// Number of evaluations that failed.
    pub failed: usize,
    /// Time of the strategy itself.
    pub seconds: f64,
}

/// Runs a strategy until its budget is spent or it has nothing left to propose.
///
/// Failures cost as much as successes. A known point would be free, but the history would not change, and neither
/// would the proposal: a strategy that repeats a point has ended.
pub fn play(recorded: &Recorded, strategy: &Entry, seed: u64, budget: usize) -> Run {
    let start = Instant::now();
    let mut strategy = strategy.start(seed);
    let mut history = History::new();
    let mut run = Run { order: Vec::new(), fractions: Vec::new(), failed: 0, seconds: 0.0 };
    while run.order.len() < budget
        && let Some(proposal) = strategy.ask(&recorded.space, &history)
    {
        let point = proposal.point;
        if !history.ask(proposal) {
            break;
        }
        let outcome = recorded.outcome(point);
        history.tell(point, outcome);
        run.order.push(point);
        run.failed += usize::from(outcome.time().is_none());
        run.fractions.push(history.best().map_or(0.0, |(_, best)| recorded.optimum() / best));
    }
    run.seconds = start.elapsed().as_secs_f64();
    run
}

/// Runs the seeds `0..seeds` in parallel; `None` if stopped. `played` is called after each run.
pub fn play_all(
    recorded: &Recorded,
    strategy: &Entry,
    seeds: u64,
    budget: usize,
    stop: &AtomicBool,
    played: &(dyn Fn() + Sync),
) -> Option<Vec<Run>> {
    (0..seeds)
        .into_par_iter()
        .map(|seed| {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let run = play(recorded, strategy, seed, budget);
            played();
            Some(run)
        })
        .collect()
}
