//! Simulated annealing.
//!
//! A walk from neighbour to neighbour. It always moves to a faster point, and to a slower one with probability
//! `exp(-ln(slower / here) / temperature)`: ratios of times make the unit irrelevant. The temperature falls with
//! every outcome. If all neighbours are known, the walk continues from the fastest point that has unknown neighbours.

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::space::{Point, Space};
use crate::strategy::{Strategy, start, unknown_neighbour};

/// At first the walk accepts a point that is slower by half about every second time.
const FIRST_TEMPERATURE: f64 = 0.5;
/// In the end it accepts a point that is slower by 1% about every third time.
const LAST_TEMPERATURE: f64 = 0.01;
const COOLING: f64 = 0.97;

/// Simulated annealing.
#[derive(Clone, Debug)]
pub struct Annealing {
    seed: u64,
    /// Number of outcomes that the walk has processed.
    seen: usize,
    here: Option<(Point, f64)>,
}

impl Annealing {
    /// The strategy with this seed.
    pub fn new(seed: u64) -> Self {
        Annealing { seed, seen: 0, here: None }
    }

    fn walk(&mut self, history: &History) {
        for (step, &(point, outcome)) in history.told().iter().enumerate().skip(self.seen) {
            let Some(time) = outcome.time() else { continue };
            let moves = self.here.is_none_or(|(_, here)| {
                let temperature = (FIRST_TEMPERATURE * COOLING.powi(i32::try_from(step).unwrap_or(i32::MAX)))
                    .max(LAST_TEMPERATURE);
                // Another stream than that of the proposals; otherwise acceptance would depend on the drawn point.
                let draw = Random::at(!self.seed, step).uniform();
                draw < (-(time / here).ln() / temperature).exp()
            });
            if moves {
                self.here = Some((point, time));
            }
        }
        self.seen = history.told().len();
    }
}

impl Strategy for Annealing {
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal> {
        self.walk(history);
        let mut random = Random::at(self.seed, history.asked().len());
        let mut step = |from: Point| {
            let next = unknown_neighbour(space, history, from, &mut random)?;
            Some(Proposal::new(next, Origin::Neighbour).from([from]))
        };
        let next = self.here.and_then(|(here, _)| step(here)).or_else(|| {
            let mut fastest: Vec<(Point, f64)> = history.timed().collect();
            fastest.sort_by(|a, b| a.1.total_cmp(&b.1));
            fastest.into_iter().find_map(|(point, _)| step(point))
        });
        next.or_else(|| start(space, history, &mut random))
    }
}
