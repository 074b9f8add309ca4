//! The probability that a point runs at all.
//!
//! It is the fraction of nearby points that ran, weighted by nearness; without nearby points it is 1. Failures come
//! from limits (threads, registers, shared memory), so only sizes are used.

use super::coordinates::Coordinates;
use super::process::{Pool, Similarity};

/// The part of an axis over which a point influences its neighbours.
const REACH: f64 = 0.3;
/// A number of successful points that is assumed near every point.
const OPTIMISM: f32 = 0.5;

#[derive(Clone, Debug)]
pub(crate) struct Feasibility {
    similarity: Similarity,
    /// For each point of the pool: the weights of points that ran and of points that failed.
    ran: Vec<f32>,
    failed: Vec<f32>,
    /// Buffer that is reused for each point.
    nearness: Vec<f32>,
}

impl Feasibility {
    pub fn new(coordinates: &Coordinates, pool: &Pool) -> Self {
        let tables = coordinates.axes.iter().filter(|axis| axis.is_size).map(|axis| {
            (axis.parameter, axis.distances.iter().map(|distance| (-distance / REACH).exp()).collect())
        });
        let empty = vec![0.0; pool.points.len()];
        let similarity = Similarity::new(coordinates, tables);
        Feasibility { similarity, ran: empty.clone(), failed: empty.clone(), nearness: empty }
    }

    pub fn push(&mut self, point: &[u8], ran: bool, pool: &Pool) {
        self.similarity.with_pool(point, pool, 0, &mut self.nearness);
        let sums = if ran { &mut self.ran } else { &mut self.failed };
        for (sum, nearness) in sums.iter_mut().zip(&self.nearness) {
            *sum += nearness;
        }
    }

    /// The probability of a point of the pool.
    pub fn chance(&self, index: usize) -> f32 {
        let ran = self.ran[index] + OPTIMISM;
        ran / (ran + self.failed[index])
    }
}
