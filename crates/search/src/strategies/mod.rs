//! One file per strategy.

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
