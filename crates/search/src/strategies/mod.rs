//! The strategies, one file each, and the list of all of them.

mod annealing;
mod exhaustive;
mod genetic;
mod hill_climbing;
mod model;
mod random_order;

pub use annealing::Annealing;
pub use exhaustive::Exhaustive;
pub use genetic::Genetic;
pub use hill_climbing::HillClimbing;
pub use model::Model;
pub use random_order::RandomOrder;

use crate::strategy::Strategy;

/// A strategy with its name.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The strategy's name on the command line.
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
    /// The unknown name.
    pub name: String,
    /// The most similar known name, if one is similar enough for a suggestion.
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
