//! What a search has asked for and what it was told.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::space::Point;

/// What became of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Its time, in any unit; less is better. Anything but a positive finite number counts as failed.
    Time(f64),
    /// It did not compile, did not run, or was wrong.
    Failed,
}

impl Outcome {
    pub fn time(self) -> Option<f64> {
        match self {
            Outcome::Time(time) if time.is_finite() && time > 0.0 => Some(time),
            Outcome::Time(_) | Outcome::Failed => None,
        }
    }
}

/// How a strategy came upon a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It begins something: a run, a restart, a population.
    Start,
    /// It is the next in line.
    Listed,
    /// Drawn at random.
    Random,
    /// It differs from its parent in one parameter.
    Neighbour,
    /// Each parameter comes from one of its parents.
    Crossover,
    /// A model of the points so far expects most of it.
    Model,
}

impl Origin {
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

/// A point to evaluate, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    pub point: Point,
    pub origin: Origin,
    /// The points it was made from, the best first; none for those made from nothing.
    pub parents: Vec<Point>,
}

impl Proposal {
    pub fn new(point: Point, origin: Origin) -> Self {
        Proposal { point, origin, parents: Vec::new() }
    }

    #[must_use]
    pub fn from(mut self, parents: impl Into<Vec<Point>>) -> Self {
        self.parents = parents.into();
        self
    }
}

/// Everything a strategy may know: the points asked for, in order, and the outcomes told, in order.
///
/// Outcomes may come late and in any order, and for points nobody asked for (presets measured before the search).
#[derive(Clone, Debug, Default)]
pub struct History {
    asked: Vec<Proposal>,
    told: Vec<(Point, Outcome)>,
    /// `None` for a point that was asked for and whose outcome is not told yet.
    outcomes: HashMap<Point, Option<Outcome>>,
    best: Option<(Point, f64)>,
}

impl History {
    pub fn new() -> Self {
        History::default()
    }

    /// Notes that the proposal will be evaluated. `false` if its point is known: then it was not noted.
    pub fn ask(&mut self, proposal: Proposal) -> bool {
        if self.is_known(proposal.point) {
            return false;
        }
        self.outcomes.insert(proposal.point, None);
        self.asked.push(proposal);
        true
    }

    /// Notes an outcome. `false` if one was told before: the first one stands.
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

    pub fn asked(&self) -> &[Proposal] {
        &self.asked
    }

    pub fn told(&self) -> &[(Point, Outcome)] {
        &self.told
    }

    /// Points with a time, in the order they were told.
    pub fn timed(&self) -> impl Iterator<Item = (Point, f64)> {
        self.told.iter().filter_map(|&(point, outcome)| Some((point, outcome.time()?)))
    }

    /// Points that were asked for and not told yet, in the order of asking.
    pub fn pending(&self) -> impl Iterator<Item = Point> {
        self.asked.iter().map(|proposal| proposal.point).filter(|&point| self.outcome(point).is_none())
    }

    /// Whether the point was asked for or told.
    pub fn is_known(&self, point: Point) -> bool {
        self.outcomes.contains_key(&point)
    }

    /// Points asked for or told.
    pub fn known(&self) -> impl ExactSizeIterator<Item = Point> {
        self.outcomes.keys().copied()
    }

    pub fn outcome(&self, point: Point) -> Option<Outcome> {
        self.outcomes.get(&point).copied().flatten()
    }

    /// The point's time, if it has been told and has one.
    pub fn time(&self, point: Point) -> Option<f64> {
        self.outcome(point)?.time()
    }

    /// The fastest point; of equals, the one told first.
    pub fn best(&self) -> Option<(Point, f64)> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_late_and_for_points_nobody_asked_for() {
        let [a, b, c] = [0, 1, 2].map(Point);
        let mut history = History::new();
        assert!(history.tell(c, Outcome::Time(3.0)));
        assert!(history.ask(Proposal::new(a, Origin::Start)));
        assert!(history.ask(Proposal::new(b, Origin::Neighbour).from([a])));
        assert!(!history.ask(Proposal::new(c, Origin::Random)), "c is known");
        assert_eq!(history.pending().collect::<Vec<_>>(), [a, b]);
        assert!(history.tell(b, Outcome::Failed));
        assert!(history.tell(a, Outcome::Time(2.0)));
        assert!(!history.tell(a, Outcome::Time(1.0)), "the first outcome stands");
        assert_eq!(history.best(), Some((a, 2.0)));
        assert_eq!(history.pending().count(), 0);
        assert_eq!(history.timed().collect::<Vec<_>>(), [(c, 3.0), (a, 2.0)]);
    }

    #[test]
    fn a_time_that_is_none_is_a_failure() {
        for time in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Outcome::Time(time).time(), None, "{time}");
        }
    }
}
