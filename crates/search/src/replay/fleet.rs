//! A search on a fleet of workers, simulated with a clock.
//!
//! The workers evaluate candidates side by side, while the strategy knows the results only in the order in which it asked,
//! and asks ahead of them by a fixed number, as `evolve --fleet` does. Some evaluations take much longer than others, and
//! some workers are lost in the middle of one. One unit of time is the mean evaluation without that.

use std::collections::VecDeque;
use std::time::Instant;

use random::Random;

use super::harness::Run;
use super::recorded::Recorded;
use crate::history::History;
use crate::space::Point;
use crate::strategies::Entry;

/// The standard deviation of the logarithm of a duration.
const SPREAD: f64 = 0.3;
/// How often an evaluation takes much longer, and how much longer.
const STRAGGLERS: (f64, f64) = (0.02, 10.0);
/// After how many mean durations a second worker gets a candidate, too.
const SECOND_ATTEMPT: f64 = 4.0;
/// How often a worker is lost in the middle of an evaluation, how long until that is noticed, and until another worker is
/// there in its place.
const LOSSES: f64 = 0.01;
const LEASE: f64 = 6.0;
const RESTART: f64 = 20.0;
/// Purpose number of the seeds of durations.
const DURATIONS: u64 = 0xf1ee7;

/// A fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedFleet {
    /// The number of workers.
    pub workers: usize,
    /// How many candidates are asked for before the result of the first is known.
    pub ahead: usize,
}

impl SimulatedFleet {
    /// A fleet of this many workers that asks ahead as `evolve` does by default; one worker does not ask ahead.
    pub fn of(workers: usize) -> Self {
        SimulatedFleet { workers, ahead: if workers == 1 { 0 } else { (2 * workers).max(8) } }
    }
}

/// A run, and when its last result was there.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRun {
    /// The run.
    pub run: Run,
    /// How long it took.
    pub makespan: f64,
    /// How long the workers were busy, together.
    pub busy: f64,
}

/// Runs a strategy until its budget is spent or it has nothing left to propose.
pub fn play_on_fleet(
    recorded: &Recorded,
    strategy: &Entry,
    seed: u64,
    budget: usize,
    fleet: SimulatedFleet,
) -> FleetRun {
    let start = Instant::now();
    let mut strategy = strategy.start(seed);
    let mut history = History::new();
    let mut run = Run { order: Vec::new(), fractions: Vec::new(), failed: 0, seconds: 0.0 };
    let mut workers = Workers::new(fleet.workers, seed);
    let mut waiting: VecDeque<(Point, f64)> = VecDeque::new();
    let mut now: f64 = 0.0;
    loop {
        while waiting.len() <= fleet.ahead
            && run.order.len() + waiting.len() < budget
            && let Some(proposal) = strategy.ask(&recorded.space, &history)
        {
            let point = proposal.point;
            if !history.ask(proposal) {
                break;
            }
            waiting.push_back((point, workers.evaluate(now)));
        }
        let Some((point, finished)) = waiting.pop_front() else { break };
        now = now.max(finished);
        let outcome = recorded.outcome(point);
        history.tell(point, outcome);
        run.order.push(point);
        run.failed += usize::from(outcome.time().is_none());
        run.fractions.push(history.best().map_or(0.0, |(_, best)| recorded.optimum() / best));
    }
    run.seconds = start.elapsed().as_secs_f64();
    FleetRun { run, makespan: now, busy: workers.busy }
}

/// When every worker is free again.
struct Workers {
    free: Vec<f64>,
    random: Random,
    busy: f64,
}

impl Workers {
    fn new(count: usize, seed: u64) -> Self {
        Workers { free: vec![0.0; count], random: Random::new(seed ^ DURATIONS), busy: 0.0 }
    }

    /// Gives an evaluation to the worker that is free first. When it is finished.
    fn evaluate(&mut self, asked: f64) -> f64 {
        let mut ready = asked;
        loop {
            let duration = self.duration();
            let is_lost = self.random.uniform() < LOSSES;
            let worker = self.first_free();
            let begins = self.free[worker].max(ready);
            if is_lost {
                let until = duration * self.random.uniform();
                self.free[worker] = begins + until + RESTART;
                self.busy += until;
                ready = begins + until + LEASE;
                continue;
            }
            self.free[worker] = begins + duration;
            self.busy += duration;
            let second = begins + SECOND_ATTEMPT;
            let other = self.first_free();
            if duration > SECOND_ATTEMPT && self.free[other] <= second {
                let again = self.duration();
                let ends = (second + again).min(begins + duration);
                // Whichever is first counts, and the other one is stopped.
                self.busy += (ends - second) - (begins + duration - ends);
                self.free[other] = ends;
                self.free[worker] = ends;
                return ends;
            }
            return begins + duration;
        }
    }

    fn duration(&mut self) -> f64 {
        // The mean of the distribution is 1.
        let usual = (SPREAD * self.random.normal() - SPREAD * SPREAD / 2.0).exp();
        if self.random.uniform() < STRAGGLERS.0 { usual * STRAGGLERS.1 } else { usual }
    }

    fn first_free(&self) -> usize {
        let times = self.free.iter().enumerate();
        times.min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(worker, _)| worker)
    }
}
