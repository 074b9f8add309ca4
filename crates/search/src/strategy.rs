//! What a strategy is, and which there are.

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::space::{Neighbourhood, Point, Space};
use crate::strategies::{Annealing, Exhaustive, Genetic, HillClimbing, Model, RandomOrder};

/// Proposes points one at a time.
///
/// A strategy is a function of its seed, the space and the history: whatever else it holds is worked out from these
/// and kept only to save time. So a fresh strategy that is given the history of a run proposes what the one that lived
/// through it would have proposed, and resuming needs the log of the run and nothing else. Proposals may be asked for
/// ahead of outcomes (compiles run while others are timed): the history then has points that are pending.
pub trait Strategy: Send {
    /// The next point to evaluate, never one that the history knows. `None` when there is nothing left.
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal>;
}

/// A strategy by name.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    make: fn(u64) -> Box<dyn Strategy>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Entry {
    /// A fresh strategy. Equal seeds make equal runs.
    pub fn start(&self, seed: u64) -> Box<dyn Strategy> {
        (self.make)(seed)
    }
}

/// The best on the recorded spaces at every budget.
pub const DEFAULT: &str = "model";

pub const ALL: &[Entry] = &[
    Entry {
        name: "model",
        about: "Gaussian process over the logarithm of time, feasibility learned",
        make: |seed| Box::new(Model::new(seed)),
    },
    Entry {
        name: "genetic",
        about: "uniform crossover and mutation among the fastest so far",
        make: |seed| Box::new(Genetic::new(seed)),
    },
    Entry {
        name: "hillclimb",
        about: "steps to faster neighbours, restarts at random where there are none",
        make: |seed| Box::new(HillClimbing::new(seed)),
    },
    Entry {
        name: "annealing",
        about: "a walk that accepts slower points ever more rarely",
        make: |seed| Box::new(Annealing::new(seed)),
    },
    Entry {
        name: "random",
        about: "every point as likely as any other",
        make: |seed| Box::new(RandomOrder::new(seed)),
    },
    Entry { name: "exhaustive", about: "every point in order", make: |_| Box::new(Exhaustive::default()) },
];

/// There is no strategy of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy `{name}`")]
pub struct UnknownStrategy {
    pub name: String,
    pub nearest: Option<&'static str>,
}

impl UnknownStrategy {
    /// What there is instead, for a `hint:` line.
    pub fn hint(&self) -> String {
        let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
        let all = format!("strategies: {}", names.join(", "));
        self.nearest.map_or(all.clone(), |near| format!("did you mean `{near}`? {all}"))
    }
}

pub fn by_name(name: &str) -> Result<&'static Entry, UnknownStrategy> {
    ALL.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let near = ALL
            .iter()
            .map(|entry| (strsim::damerau_levenshtein(&name.to_lowercase(), entry.name), entry.name))
            .min()
            .filter(|&(distance, near)| distance <= 1 + name.len().min(near.len()) / 3);
        UnknownStrategy { name: name.to_owned(), nearest: near.map(|(_, name)| name) }
    })
}

/// A point the history does not know, each as likely as any other. `None` when all are known.
pub(crate) fn unknown(space: &Space, history: &History, random: &mut Random) -> Option<Point> {
    let mut known: Vec<usize> = history.known().map(Point::index).collect();
    known.sort_unstable();
    let left = space.len().checked_sub(known.len()).filter(|&left| left > 0)?;
    // The pick counts unknown points only: each known one before it moves it on by one.
    let mut pick = random.below(left);
    for index in known {
        pick += usize::from(index <= pick);
    }
    space.point(pick)
}

/// A neighbour the history does not know, each as likely as any other.
pub(crate) fn unknown_neighbour(
    space: &Space,
    history: &History,
    of: Point,
    random: &mut Random,
) -> Option<Point> {
    let mut neighbours = space.neighbours(of, Neighbourhood::AnyValue);
    neighbours.retain(|&point| !history.is_known(point));
    random.choose(&neighbours).copied()
}

/// A random beginning.
pub(crate) fn start(space: &Space, history: &History, random: &mut Random) -> Option<Proposal> {
    unknown(space, history, random).map(|point| Proposal::new(point, Origin::Start))
}
