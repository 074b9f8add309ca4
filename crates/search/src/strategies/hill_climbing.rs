//! Hill climbing with restarts.
//!
//! From a random start, neighbours are tried in random order; the first faster one is where the climb goes on. Where no
//! neighbour is faster it starts anew. Everything measured before counts: a climb passes through points that an
//! earlier one has measured without asking for them again.

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::space::{Neighbourhood, Point, Space};
use crate::strategy::{Strategy, start, unknown_neighbour};

#[derive(Clone, Debug)]
pub struct HillClimbing {
    seed: u64,
}

impl HillClimbing {
    pub fn new(seed: u64) -> Self {
        HillClimbing { seed }
    }
}

impl Strategy for HillClimbing {
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal> {
        let mut random = Random::at(self.seed, history.asked().len());
        let started = history.asked().iter().rev().find(|proposal| proposal.origin == Origin::Start);
        // What was measured before the search began is as good a beginning as any.
        let begun = started.map(|proposal| proposal.point).or_else(|| history.best().map(|(point, _)| point));
        begun
            .and_then(|point| {
                let top = climbed(space, history, point)?;
                let next = unknown_neighbour(space, history, top, &mut random)?;
                Some(Proposal::new(next, Origin::Neighbour).from([top]))
            })
            .or_else(|| start(space, history, &mut random))
    }
}

/// How far up the known points lead from here; `None` where there is no time to begin with.
fn climbed(space: &Space, history: &History, from: Point) -> Option<Point> {
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
