//! Hill climbing with restarts.
//!
//! From a random start, neighbours are tried in random order, and the first faster one becomes the new position. If
//! no neighbour is faster, the search restarts at random. All earlier measurements are used: a climb passes through
//! measured points without proposing them again.

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::space::{Neighbourhood, Point, Space};
use crate::strategy::{Strategy, start, unknown_neighbour};

/// Hill climbing with restarts.
#[derive(Clone, Debug)]
pub struct HillClimbing {
    seed: u64,
}

impl HillClimbing {
    /// The strategy with this seed.
    pub fn new(seed: u64) -> Self {
        HillClimbing { seed }
    }
}

impl Strategy for HillClimbing {
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal> {
        let mut random = Random::at(self.seed, history.asked().len());
        let started = history.asked().iter().rev().find(|proposal| proposal.origin == Origin::Start);
        // Without an own start, the best point measured before the search is the start.
        let first = started.map(|proposal| proposal.point).or_else(|| history.best().map(|(point, _)| point));
        first
            .and_then(|point| {
                let top = climb(space, history, point)?;
                let next = unknown_neighbour(space, history, top, &mut random)?;
                Some(Proposal::new(next, Origin::Neighbour).from([top]))
            })
            .or_else(|| start(space, history, &mut random))
    }
}

/// The point that is reached through known faster neighbours; `None` if the start has no time.
fn climb(space: &Space, history: &History, from: Point) -> Option<Point> {
    let mut here = (history.time(from)?, from);
    loop {
        let faster = space
            .neighbours(here.1, Neighbourhood::AnyValue)
            .into_iter()
            .filter_map(|point| Some((history.time(point)?, point)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|neighbour| neighbour.0 < here.0);
        match faster {
            Some(neighbour) => here = neighbour,
            None => return Some(here.1),
        }
    }
}
