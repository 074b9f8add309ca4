//! The default strategy: a model of the time, and the point with the best prospects.
//!
//! The first few points are spread over the space. From then on every proposal is the point with the largest expected
//! improvement over the fastest so far, times its probability of running at all, under the Gaussian process of
//! [`crate::model`]. Expected improvement balances the predicted time of a point with its uncertainty, so the search
//! explores while it knows little and concentrates on the fastest points as it learns.
//!
//! The model predicts the logarithm of time, because knobs act by factors. Slow points are compressed: how slow a bad
//! point is does not show which of the good ones is best, and would stretch the scale.

use std::collections::HashSet;

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::model::coordinates::{Axis, Coordinates};
use crate::model::feasibility::Feasibility;
use crate::model::process::{Pool, Process, groups};
use crate::model::shape::Shape;
use crate::space::{Neighbourhood, Point, Space};
use crate::strategy::{Strategy, unknown};

/// Number of points before the model is used.
const FIRST: usize = 8;
/// Number of points drawn for each of the first points; the one farthest from the earlier points is used.
const DRAWN: usize = 10;
/// Number of latest outcomes from which the first points keep their distance.
const LATEST: usize = 64;
/// Points slower than this fraction of the measured points are compressed...
const ORDINARY: f64 = 0.7;
/// ... to this fraction of their excess.
const COMPRESSION: f64 = 0.2;
/// The shape is fitted again when the number of points has grown by this factor, or by this many.
const GROWTH: f64 = 1.15;
const MOST_NEW: usize = 64;
const STEPS: usize = 15;
/// Smallest number of points for a fit.
const LEAST_FITTED: usize = 4;
/// Largest number of points of the process at a fit, because costs grow with its cube. Of more points, the fastest
/// half of this number is kept, and a sample of the others.
const MOST_HELD: usize = 384;
/// Spaces up to this size are evaluated completely. Of larger ones a sample is used, and the neighbours of every new
/// best point.
const WHOLE: usize = 20_000;

/// Search with a model.
#[derive(Debug)]
pub struct Model {
    seed: u64,
    /// Derived from the outcomes in the history.
    state: Option<State>,
}

#[derive(Debug)]
struct State {
    coordinates: Coordinates,
    pool: Pool,
    pooled: HashSet<Point>,
    shape: Shape,
    process: Process,
    feasibility: Feasibility,
    /// Number of outcomes that were processed.
    told: usize,
    failures: usize,
    /// Points with a time, in the order of their outcomes, and the logarithms of their times.
    seen: Vec<Vec<u8>>,
    logs: Vec<f64>,
    /// The indices of those that the process contains, in order; those not added yet are at the end.
    included: Vec<usize>,
    /// Number of points at the last fit.
    fitted: usize,
}

impl Model {
    /// The strategy with this seed.
    pub fn new(seed: u64) -> Self {
        Model { seed, state: None }
    }
}

impl Strategy for Model {
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal> {
        let mut random = Random::at(self.seed, history.asked().len());
        let state = self.state.get_or_insert_with(|| State::new(space, self.seed));
        state.learn(space, history);
        if history.known().len() < FIRST || state.seen.len() < 2 {
            return spread(space, history, &state.coordinates, &mut random)
                .map(|point| Proposal::new(point, Origin::Start));
        }
        let Some(point) = state.best_prospect(space, history) else {
            // The whole sample of a large space is known.
            return unknown(space, history, &mut random).map(|point| Proposal::new(point, Origin::Random));
        };
        let parent = most_similar(space, history, point);
        Some(Proposal::new(point, Origin::Model).from(Vec::from_iter(parent)))
    }
}

impl State {
    fn new(space: &Space, seed: u64) -> Self {
        let coordinates = Coordinates::from_space(space);
        let mut pool = Pool::new(&coordinates);
        let points: Vec<Point> = if space.len() <= WHOLE {
            space.points().collect()
        } else {
            let mut random = Random::new(seed);
            let drawn: HashSet<usize> = (0..WHOLE).map(|_| random.below(space.len())).collect();
            let mut drawn: Vec<usize> = drawn.into_iter().collect();
            drawn.sort_unstable();
            drawn.into_iter().filter_map(|index| space.point(index)).collect()
        };
        for &point in &points {
            pool.push(space, &coordinates, point);
        }
        let shape = Shape::prior(coordinates.axes.len());
        State {
            process: Process::new(&coordinates, &shape, &pool),
            feasibility: Feasibility::new(&coordinates, &pool),
            pooled: points.into_iter().collect(),
            pool,
            coordinates,
            shape,
            told: 0,
            failures: 0,
            seen: Vec::new(),
            logs: Vec::new(),
            included: Vec::new(),
            fitted: 0,
        }
    }

    /// Processes the new outcomes.
    fn learn(&mut self, space: &Space, history: &History) {
        let new_outcomes = &history.told()[self.told..];
        if new_outcomes.is_empty() {
            return;
        }
        let (mut stale, mut grown) = (false, false);
        let mut record = self.logs.iter().copied().fold(f64::INFINITY, f64::min);
        for &(point, outcome) in new_outcomes {
            let Some(time) = outcome.time() else {
                self.failures += 1;
                continue;
            };
            self.included.push(self.seen.len());
            self.seen.push(groups(space, &self.coordinates, point));
            self.logs.push(time.ln());
            if time.ln() < record {
                record = time.ln();
                grown |= self.pool_neighbours(space, point);
            }
            let due = ((self.fitted as f64 * GROWTH) as usize).min(self.fitted + MOST_NEW) + 1;
            if self.seen.len() >= due.max(LEAST_FITTED) {
                self.fit();
                stale = true;
            }
        }
        if stale || grown {
            self.process = Process::new(&self.coordinates, &self.shape, &self.pool);
        }
        for &number in &self.included[self.process.len()..] {
            self.process.push(&self.seen[number], &self.pool);
        }
        let mut first = self.told;
        if grown {
            self.feasibility = Feasibility::new(&self.coordinates, &self.pool);
            first = 0;
        }
        for &(point, outcome) in &history.told()[first..] {
            let groups = groups(space, &self.coordinates, point);
            self.feasibility.push(&groups, outcome.time().is_some(), &self.pool);
        }
        self.told = history.told().len();
    }

    /// Adds the neighbours of a new best point to the pool of a large space. Returns whether there were any new ones.
    fn pool_neighbours(&mut self, space: &Space, point: Point) -> bool {
        if space.len() <= WHOLE {
            return false;
        }
        let mut grown = false;
        for neighbour in space.neighbours(point, Neighbourhood::AnyValue) {
            if self.pooled.insert(neighbour) {
                self.pool.push(space, &self.coordinates, neighbour);
                grown = true;
            }
        }
        grown
    }

    fn fit(&mut self) {
        let count = self.seen.len();
        self.fitted = count;
        self.included = (0..count).collect();
        if count > MOST_HELD {
            self.included.sort_by(|&a, &b| self.logs[a].total_cmp(&self.logs[b]));
            let others = self.included.split_off(MOST_HELD / 2);
            let stride = others.len().div_ceil(MOST_HELD / 2);
            self.included.extend(others.into_iter().step_by(stride));
            self.included.sort_unstable();
        }
        let points: Vec<Vec<u8>> = self.included.iter().map(|&number| self.seen[number].clone()).collect();
        self.shape = self.shape.fitted(&self.coordinates.axes, &points, &self.targets(), STEPS);
    }

    /// The compressed logarithms of the points in the process.
    fn targets(&self) -> Vec<f64> {
        let mut sorted = self.logs.clone();
        sorted.sort_by(f64::total_cmp);
        let ordinary = sorted[((sorted.len() - 1) as f64 * ORDINARY) as usize];
        let compressed =
            |log: f64| if log > ordinary { ordinary + COMPRESSION * (log - ordinary) } else { log };
        self.included.iter().map(|&number| compressed(self.logs[number])).collect()
    }

    /// The unknown point of the pool with the best prospects.
    fn best_prospect(&mut self, space: &Space, history: &History) -> Option<Point> {
        let targets = self.targets();
        let best = targets.iter().copied().fold(f64::INFINITY, f64::min) as f32;
        let pending: Vec<Vec<u8>> =
            history.pending().map(|point| groups(space, &self.coordinates, point)).collect();
        let prediction = self.process.predict(&targets, &pending, &self.pool);
        let mut found: Option<(f32, f32, Point)> = None;
        for (index, &point) in self.pool.points.iter().enumerate() {
            let mean = prediction.means[index];
            let mut prospect = expected_improvement(best - mean, prediction.deviations[index]);
            if self.failures > 0 {
                prospect *= self.feasibility.chance(index);
            }
            // If no point has any expected improvement, the smallest mean decides.
            let better =
                found.is_none_or(|(most, least, _)| prospect > most || (prospect == most && mean < least));
            if better && !history.is_verified(point) {
                found = Some((prospect, mean, point));
            }
        }
        found.map(|(_, _, point)| point)
    }
}

/// The expected positive part of a normal distribution with this mean and deviation.
fn expected_improvement(mean: f32, deviation: f32) -> f32 {
    let off = mean / deviation;
    let density = 0.398_942_3 * (-0.5 * off * off).exp();
    deviation * (off * cumulative(off, density) + density)
}

/// The normal distribution function (Abramowitz and Stegun 26.2.17, accurate to 1e-7), given the density.
fn cumulative(x: f32, density: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = [1.330_274_4, -1.821_255_9, 1.781_477_9, -0.356_563_78, 0.319_381_53];
    let tail = density * series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    if x >= 0.0 { 1.0 - tail } else { tail }
}

/// Of a few drawn points, the one farthest from the known ones.
fn spread(space: &Space, history: &History, coordinates: &Coordinates, random: &mut Random) -> Option<Point> {
    // If everything fails there are many first points; the latest are enough.
    let told = history.told().iter().rev().map(|&(point, _)| point).take(LATEST);
    let known: Vec<Vec<u8>> =
        told.chain(history.pending()).map(|point| groups(space, coordinates, point)).collect();
    let apart = |a: &[u8], b: &[u8]| -> f64 {
        let distance = |axis: &Axis| {
            axis.distances[a[axis.parameter] as usize * axis.groups + b[axis.parameter] as usize]
        };
        coordinates.axes.iter().map(distance).sum()
    };
    let mut best: Option<(f64, Point)> = None;
    for _ in 0..DRAWN {
        let point = unknown(space, history, random)?;
        let here = groups(space, coordinates, point);
        let nearest = known.iter().map(|other| apart(&here, other)).fold(f64::INFINITY, f64::min);
        if best.is_none_or(|(most, _)| nearest > most) {
            best = Some((nearest, point));
        }
    }
    best.map(|(_, point)| point)
}

/// Of the points with a time, the one that differs in the fewest parameters; in a tie the fastest.
fn most_similar(space: &Space, history: &History, point: Point) -> Option<Point> {
    let positions = space.positions(point);
    let differences = |other: Point| {
        positions
            .iter()
            .enumerate()
            .filter(|&(parameter, &here)| space.position(other, parameter) != here)
            .count()
    };
    history
        .timed()
        .map(|(other, time)| (differences(other), time, other))
        .min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
        .map(|(_, _, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_improvement_is_the_mean_gain() {
        // Integrated by the trapezoid rule over the normal density.
        for (mean, deviation) in [(0.0, 1.0), (-1.0, 0.5), (2.0, 0.3), (-0.2, 2.0)] {
            let step = 1e-3;
            let gained: f64 = (-8000..8000)
                .map(|number| f64::from(number) * step)
                .map(|z| {
                    (mean + deviation * z).max(0.0) * (-0.5 * z * z).exp() * step
                        / std::f64::consts::TAU.sqrt()
                })
                .sum();
            let found = f64::from(expected_improvement(mean as f32, deviation as f32));
            assert!((found - gained).abs() < 1e-4, "{mean}, {deviation}: {found} for {gained}");
        }
    }
}
