//! The neighbours of a point.

use super::{Point, Space};

/// Which points are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbourhood {
    /// One parameter has any other value.
    AnyValue,
    /// One parameter has the next allowed value up or down; forbidden values are skipped.
    AdjacentValue,
}

impl Space {
    /// The neighbours of a point, by parameter and position.
    pub fn neighbours(&self, point: Point, neighbourhood: Neighbourhood) -> Vec<Point> {
        let mut found = Vec::new();
        for (parameter, described) in self.parameters().iter().enumerate() {
            let here = self.position(point, parameter);
            let there = |position| self.with(point, parameter, position);
            let (below, above) = (0..here, here + 1..described.values.len());
            match neighbourhood {
                Neighbourhood::AnyValue => found.extend(below.chain(above).filter_map(there)),
                Neighbourhood::AdjacentValue => {
                    found.extend(below.rev().find_map(there));
                    found.extend(above.into_iter().find_map(there));
                }
            }
        }
        found
    }
}
