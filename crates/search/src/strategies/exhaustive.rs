//! Proposes every point, in order.

use crate::history::{History, Origin, Proposal};
use crate::space::Space;
use crate::strategy::Strategy;

/// Exhaustive search.
#[derive(Clone, Debug, Default)]
pub struct Exhaustive {
    /// Every point before this one is known.
    next: usize,
}

impl Strategy for Exhaustive {
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal> {
        while history.is_verified(space.point(self.next)?) {
            self.next += 1;
        }
        space.point(self.next).map(|point| Proposal::new(point, Origin::Listed))
    }
}
