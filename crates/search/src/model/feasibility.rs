//! How likely a point is to run at all.
//!
//! The share of points seen nearby that did, each counted by how near it is; where nothing was seen, yes. Failures come
//! of limits (threads, registers, shared memory), so only sizes count.

use super::coordinates::Coordinates;
use super::process::{Likeness, Pool};

/// The part of an axis over which a point speaks for its neighbours.
const REACH: f64 = 0.3;
/// What is taken to have run near every point, as a number of points.
const OPTIMISM: f32 = 0.5;

#[derive(Clone, Debug)]
pub(crate) struct Feasibility {
    likeness: Likeness,
    /// By point of the pool: points that ran, and points that did not, by nearness.
    ran: Vec<f32>,
    failed: Vec<f32>,
    /// Reused for each point.
    nearness: Vec<f32>,
}

impl Feasibility {
    pub fn new(coordinates: &Coordinates, pool: &Pool) -> Self {
        let tables = coordinates.axes.iter().filter(|axis| axis.is_size).map(|axis| {
            (axis.parameter, axis.distances.iter().map(|distance| (-distance / REACH).exp()).collect())
        });
        let empty = vec![0.0; pool.points.len()];
        let likeness = Likeness::new(coordinates, tables);
        Feasibility { likeness, ran: empty.clone(), failed: empty.clone(), nearness: empty }
    }

    pub fn push(&mut self, point: &[u8], ran: bool, pool: &Pool) {
        self.likeness.with_pool(point, pool, 0, &mut self.nearness);
        let sums = if ran { &mut self.ran } else { &mut self.failed };
        for (sum, nearness) in sums.iter_mut().zip(&self.nearness) {
            *sum += nearness;
        }
    }

    /// Of a point of the pool.
    pub fn chance(&self, index: usize) -> f32 {
        let ran = self.ran[index] + OPTIMISM;
        ran / (ran + self.failed[index])
    }
}
