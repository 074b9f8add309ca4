//! The interface of strategies, and the list of all of them.

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::space::{Neighbourhood, Point, Space};
use crate::strategies::{Annealing, Exhaustive, Genetic, HillClimbing, Model, RandomOrder};

/// Proposes points one at a time.
///
/// A strategy is a function of its seed, the space and the history. Any other state is derived from these and kept
/// only to save time. A new strategy with the history of a run therefore proposes the same as the one that took part
/// in it, and resuming needs only the log of the run. Proposals may be requested before outcomes are known (compiles
/// run while others are timed): the history then has pending points.
pub trait Strategy: Send {
    /// The next point to evaluate, never one that the history knows. `None` if nothing is left.
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal>;
}

/// A strategy with its name.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    make: fn(u64) -> Box<dyn Strategy>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Entry {
    /// A new strategy. Equal seeds give equal runs.
    pub fn start(&self, seed: u64) -> Box<dyn Strategy> {
        (self.make)(seed)
    }
}

/// The best strategy on the recorded spaces at every budget.
pub const DEFAULT: &str = "model";

/// All strategies.
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

/// The name of a strategy is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy `{name}`")]
pub struct UnknownStrategy {
    pub name: String,
    pub nearest: Option<&'static str>,
}

impl UnknownStrategy {
    /// The known names, for a `hint:` line.
    pub fn hint(&self) -> String {
        let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
        let all = format!("strategies: {}", names.join(", "));
        self.nearest.map_or(all.clone(), |near| format!("did you mean `{near}`? {all}"))
    }
}

/// The strategy with this name.
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

/// A point that the history does not know, uniformly. `None` if all are known.
pub(crate) fn unknown(space: &Space, history: &History, random: &mut Random) -> Option<Point> {
    let mut known: Vec<usize> = history.known().map(Point::index).collect();
    known.sort_unstable();
    let left = space.len().checked_sub(known.len()).filter(|&left| left > 0)?;
    // The pick counts only unknown points: each known one before it increases the index by one.
    let mut pick = random.below(left);
    for index in known {
        pick += usize::from(index <= pick);
    }
    space.point(pick)
}

/// A neighbour that the history does not know, uniformly.
pub(crate) fn unknown_neighbour(
    space: &Space,
    history: &History,
    of: Point,
    random: &mut Random,
) -> Option<Point> {
    let mut neighbours = space.neighbours(of, Neighbourhood::AnyValue);
    neighbours.retain(|&point| !history.is_verified(point));
    random.choose(&neighbours).copied()
}

/// A random start.
pub(crate) fn start(space: &Space, history: &History, random: &mut Random) -> Option<Proposal> {
    unknown(space, history, random).map(|point| Proposal::new(point, Origin::Start))
}
