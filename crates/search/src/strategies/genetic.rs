//! A genetic algorithm with uniform crossover, one child at a time.
//!
//! The population consists of the fastest points so far. Each parent is the better of a few drawn points. A child
//! takes each parameter's value from either parent with equal probability, and sometimes any value. Forbidden
//! children are not generated: a child takes the nearest value that has an allowed completion, parameter by
//! parameter.

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::space::{Point, Space};
use crate::strategy::{Strategy, start, unknown, unknown_neighbour};

const POPULATION: usize = 20;
/// Number of points drawn for each parent.
const TOURNAMENT: usize = 2;
/// Number of known children before a neighbour of one is proposed instead.
const TRIES: usize = 8;

/// A genetic algorithm.
#[derive(Clone, Debug)]
pub struct Genetic {
    seed: u64,
}

impl Genetic {
    /// The strategy with this seed.
    pub fn new(seed: u64) -> Self {
        Genetic { seed }
    }
}

impl Strategy for Genetic {
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal> {
        let mut random = Random::at(self.seed, history.asked().len());
        let mut population: Vec<(Point, f64)> = history.timed().collect();
        population.sort_by(|a, b| a.1.total_cmp(&b.1));
        population.truncate(POPULATION);
        let varying = space.varying();
        if history.known().len() < POPULATION || population.len() < 2 || varying.is_empty() {
            return start(space, history, &mut random);
        }
        let mut last = None;
        for _ in 0..TRIES {
            let mut parents = [parent(population.len(), &mut random), parent(population.len(), &mut random)];
            parents.sort_unstable();
            let [better, other] = parents.map(|rank| population[rank].0);
            let mut positions = space.positions(better);
            for &parameter in &varying {
                if random.below(2) == 1 {
                    positions[parameter] = space.position(other, parameter);
                }
                if random.below(varying.len()) == 0 {
                    positions[parameter] = random.below(space.parameters()[parameter].values.len());
                }
            }
            let child = space.nearest(&positions)?;
            if !history.is_verified(child) {
                return Some(Proposal::new(child, Origin::Crossover).from([better, other]));
            }
            last = Some(child);
        }
        // The population has lost its diversity: propose a neighbour, or any point.
        let near = last.and_then(|child| {
            let point = unknown_neighbour(space, history, child, &mut random)?;
            Some(Proposal::new(point, Origin::Neighbour).from([child]))
        });
        near.or_else(|| {
            unknown(space, history, &mut random).map(|point| Proposal::new(point, Origin::Random))
        })
    }
}

/// The best of a few drawn ranks.
fn parent(population: usize, random: &mut Random) -> usize {
    (0..TOURNAMENT).map(|_| random.below(population)).min().unwrap_or(0)
}
