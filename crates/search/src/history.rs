//! The proposals of a search and their outcomes.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::space::Point;

/// The outcome of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Its time in any unit; less is better. Anything except a positive finite number counts as failed.
    Time(f64),
    /// It did not compile, did not run, or had a wrong result.
    Failed,
}

impl Outcome {
    /// The time, if it is valid.
    pub fn time(self) -> Option<f64> {
        match self {
            Outcome::Time(time) if time.is_finite() && time > 0.0 => Some(time),
            Outcome::Time(_) | Outcome::Failed => None,
        }
    }
}

/// How a strategy found a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The start of a run, a restart or a population.
    Start,
    /// The next point in order.
    Listed,
    /// Drawn at random.
    Random,
    /// It differs from its parent in one parameter.
    Neighbour,
    /// Each parameter comes from one of its parents.
    Crossover,
    /// A model of the points so far expects the largest improvement from it.
    Model,
}

impl Origin {
    /// The name, for people.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Start => "start",
            Origin::Listed => "listed",
            Origin::Random => "random",
            Origin::Neighbour => "neighbour",
            Origin::Crossover => "crossover",
            Origin::Model => "model",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A point to evaluate, and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The point to evaluate.
    pub point: Point,
    /// How the strategy found the point.
    pub origin: Origin,
    /// The points that it was derived from, the best first; empty if there are none.
    pub parents: Vec<Point>,
}

impl Proposal {
    /// A proposal without parents.
    pub fn new(point: Point, origin: Origin) -> Self {
        Proposal { point, origin, parents: Vec::new() }
    }

    /// The same proposal with parents.
    #[must_use]
    pub fn from(mut self, parents: impl Into<Vec<Point>>) -> Self {
        self.parents = parents.into();
        self
    }
}

/// Everything that a strategy may use: the proposed points and the outcomes, each in order.
///
/// Outcomes may arrive late and in any order, and for points that were not proposed (presets measured before the
/// search).
#[derive(Clone, Debug, Default)]
pub struct History {
    asked: Vec<Proposal>,
    told: Vec<(Point, Outcome)>,
    /// `None` for a proposed point whose outcome is not known yet.
    outcomes: HashMap<Point, Option<Outcome>>,
    best: Option<(Point, f64)>,
}

impl History {
    /// An empty history.
    pub fn new() -> Self {
        History::default()
    }

    /// Records that the proposal will be evaluated. Returns `false` without recording it if its point is known.
    pub fn ask(&mut self, proposal: Proposal) -> bool {
        if self.is_verified(proposal.point) {
            return false;
        }
        self.outcomes.insert(proposal.point, None);
        self.asked.push(proposal);
        true
    }

    /// Records an outcome. Returns `false` if the point already has one; the first outcome is kept.
    pub fn tell(&mut self, point: Point, outcome: Outcome) -> bool {
        if self.outcome(point).is_some() {
            return false;
        }
        self.outcomes.insert(point, Some(outcome));
        self.told.push((point, outcome));
        if let Some(time) = outcome.time()
            && self.best.is_none_or(|(_, best)| time < best)
        {
            self.best = Some((point, time));
        }
        true
    }

    /// The proposals, in order.
    pub fn asked(&self) -> &[Proposal] {
        &self.asked
    }

    /// The outcomes, in order.
    pub fn told(&self) -> &[(Point, Outcome)] {
        &self.told
    }

    /// Points with a time, in the order of their outcomes.
    pub fn timed(&self) -> impl Iterator<Item = (Point, f64)> {
        self.told.iter().filter_map(|&(point, outcome)| Some((point, outcome.time()?)))
    }

    /// Proposed points without an outcome, in the order of the proposals.
    pub fn pending(&self) -> impl Iterator<Item = Point> {
        self.asked.iter().map(|proposal| proposal.point).filter(|&point| self.outcome(point).is_none())
    }

    /// Whether the point was proposed or has an outcome.
    pub fn is_verified(&self, point: Point) -> bool {
        self.outcomes.contains_key(&point)
    }

    /// Points that were proposed or have an outcome.
    pub fn known(&self) -> impl ExactSizeIterator<Item = Point> {
        self.outcomes.keys().copied()
    }

    /// The outcome of a point, if it is known.
    pub fn outcome(&self, point: Point) -> Option<Outcome> {
        self.outcomes.get(&point).copied().flatten()
    }

    /// The point's time, if it has one.
    pub fn time(&self, point: Point) -> Option<f64> {
        self.outcome(point)?.time()
    }

    /// The fastest point; in a tie, the one whose outcome came first.
    pub fn best(&self) -> Option<(Point, f64)> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_may_be_late_and_for_points_that_were_not_proposed() {
        let [a, b, c] = [0, 1, 2].map(Point);
        let mut history = History::new();
        assert!(history.tell(c, Outcome::Time(3.0)));
        assert!(history.ask(Proposal::new(a, Origin::Start)));
        assert!(history.ask(Proposal::new(b, Origin::Neighbour).from([a])));
        assert!(!history.ask(Proposal::new(c, Origin::Random)), "c is known");
        assert_eq!(history.pending().collect::<Vec<_>>(), [a, b]);
        assert!(history.tell(b, Outcome::Failed));
        assert!(history.tell(a, Outcome::Time(2.0)));
        assert!(!history.tell(a, Outcome::Time(1.0)), "the first outcome is kept");
        assert_eq!(history.best(), Some((a, 2.0)));
        assert_eq!(history.pending().count(), 0);
        assert_eq!(history.timed().collect::<Vec<_>>(), [(c, 3.0), (a, 2.0)]);
    }

    #[test]
    fn an_invalid_time_is_a_failure() {
        for time in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Outcome::Time(time).time(), None, "{time}");
        }
    }
}
