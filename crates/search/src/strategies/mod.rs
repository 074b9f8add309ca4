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

/// PROTOTYPE ONLY
pub fn knob(name: &str, default: f64) -> f64 {
    use std::collections::HashMap;
    use std::sync::OnceLock;
    static K: OnceLock<HashMap<String, f64>> = OnceLock::new();
    let map = K.get_or_init(|| {
        std::env::vars()
            .filter_map(|(k, v)| Some((k.strip_prefix("K_")?.to_owned(), v.parse().ok()?)))
            .collect()
    });
    if map.is_empty() {
        return default;
    }
    map.get(name).copied().unwrap_or(default)
}
