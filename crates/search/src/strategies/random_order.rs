//! Proposes points uniformly without replacement. It is the baseline of all other strategies.

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::space::Space;
use crate::strategy::{Strategy, unknown};

/// Random search.
#[derive(Clone, Debug)]
pub struct RandomOrder {
    seed: u64,
}

impl RandomOrder {
    /// The strategy with this seed.
    pub fn new(seed: u64) -> Self {
        RandomOrder { seed }
    }
}

impl Strategy for RandomOrder {
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal> {
        let mut random = Random::at(self.seed, history.asked().len());
        unknown(space, history, &mut random).map(|point| Proposal::new(point, Origin::Random))
    }
}
