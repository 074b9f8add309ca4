//! The interface of strategies.

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::space::{Neighbourhood, Point, Space};

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
