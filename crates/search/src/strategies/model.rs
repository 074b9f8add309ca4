//! The default: a model of time, and the point that promises most.
//!
//! A few points spread over the space come first. From then on every proposal is the point with the greatest expected
//! improvement on the fastest so far, times its chance of running at all, under the Gaussian process of
//! [`crate::model`]. Expected improvement weighs how fast a point is likely to be against how little is known about
//! it, so the search explores while it knows little and settles around the fastest points as it learns.
//!
//! What is modelled is the logarithm of time, because knobs act by factors, with slow points pulled in: how slow a bad
//! point is teaches nothing about which of the good ones is best, and would stretch the scale for all.

use std::collections::HashSet;

use crate::draws::Random;
use crate::history::{History, Origin, Proposal};
use crate::model::coordinates::{Axis, Coordinates};
use crate::model::feasibility::Feasibility;
use crate::model::process::{Pool, Process, groups};
use crate::model::shape::Shape;
use crate::space::{Neighbourhood, Point, Space};
use crate::strategy::{Strategy, unknown};

/// Points before the model is asked.
const FIRST: usize = 8;
/// Drawn for each of the first points; the one farthest from those before it is taken.
const DRAWN: usize = 10;
/// Points told that they keep away from.
const LATEST: usize = 64;
/// Slower than this share of the points seen, a point is pulled in...
const ORDINARY: f64 = 0.7;
/// ... to this part of what it is slower by.
const PULLED: f64 = 0.2;
/// The shape is fitted anew when there are that many times more points, or that many more.
const GROWTH: f64 = 1.15;
const MOST_NEW: usize = 64;
const STEPS: usize = 15;
/// A shape needs some points.
const LEAST_FITTED: usize = 4;
/// Points that the process holds at a fit: costs grow with their cube. Of more, the fastest half of that many are kept
/// and a sample of the others.
const MOST_HELD: usize = 384;
/// Spaces up to this size are looked at whole. Of larger ones a sample, and the neighbours of every record.
const WHOLE: usize = 20_000;

#[derive(Debug)]
pub struct Model {
    seed: u64,
    /// A fold over what the history has told.
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
    /// Outcomes taken account of.
    told: usize,
    failures: usize,
    /// Points with a time, in the order told, and the logarithms of their times.
    seen: Vec<Vec<u8>>,
    logs: Vec<f64>,
    /// Which of them the process holds, in order; those not pushed yet at the end.
    held: Vec<usize>,
    /// How many there were at the last fit.
    fitted: usize,
}

impl Model {
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
        let Some(point) = state.most_promising(space, history) else {
            // The whole sample of a large space is known.
            return unknown(space, history, &mut random).map(|point| Proposal::new(point, Origin::Random));
        };
        let parent = most_alike(space, history, point);
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
            held: Vec::new(),
            fitted: 0,
        }
    }

    /// Takes account of what was told since.
    fn learn(&mut self, space: &Space, history: &History) {
        let news = &history.told()[self.told..];
        if news.is_empty() {
            return;
        }
        let (mut stale, mut grown) = (false, false);
        let mut record = self.logs.iter().copied().fold(f64::INFINITY, f64::min);
        for &(point, outcome) in news {
            let Some(time) = outcome.time() else {
                self.failures += 1;
                continue;
            };
            self.held.push(self.seen.len());
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
        for &number in &self.held[self.process.len()..] {
            self.process.push(&self.seen[number], &self.pool);
        }
        let mut unweighed = self.told;
        if grown {
            self.feasibility = Feasibility::new(&self.coordinates, &self.pool);
            unweighed = 0;
        }
        for &(point, outcome) in &history.told()[unweighed..] {
            let groups = groups(space, &self.coordinates, point);
            self.feasibility.push(&groups, outcome.time().is_some(), &self.pool);
        }
        self.told = history.told().len();
    }

    /// Adds the neighbours of a record to the pool of a large space; whether there were any.
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
        self.held = (0..count).collect();
        if count > MOST_HELD {
            self.held.sort_by(|&a, &b| self.logs[a].total_cmp(&self.logs[b]));
            let others = self.held.split_off(MOST_HELD / 2);
            let stride = others.len().div_ceil(MOST_HELD / 2);
            self.held.extend(others.into_iter().step_by(stride));
            self.held.sort_unstable();
        }
        let points: Vec<Vec<u8>> = self.held.iter().map(|&number| self.seen[number].clone()).collect();
        self.shape = self.shape.fitted(&self.coordinates.axes, &points, &self.targets(), STEPS);
    }

    /// What the process is told about the points it holds.
    fn targets(&self) -> Vec<f64> {
        let mut sorted = self.logs.clone();
        sorted.sort_by(f64::total_cmp);
        let ordinary = sorted[((sorted.len() - 1) as f64 * ORDINARY) as usize];
        let pulled = |log: f64| if log > ordinary { ordinary + PULLED * (log - ordinary) } else { log };
        self.held.iter().map(|&number| pulled(self.logs[number])).collect()
    }

    /// The point of the pool that the history does not know and that promises most.
    fn most_promising(&mut self, space: &Space, history: &History) -> Option<Point> {
        let targets = self.targets();
        let best = targets.iter().copied().fold(f64::INFINITY, f64::min) as f32;
        let pending: Vec<Vec<u8>> =
            history.pending().map(|point| groups(space, &self.coordinates, point)).collect();
        let belief = self.process.belief(&targets, &pending, &self.pool);
        let mut found: Option<(f32, f32, Point)> = None;
        for (index, &point) in self.pool.points.iter().enumerate() {
            let mean = belief.means[index];
            let mut promise = expected_improvement(best - mean, belief.deviations[index]);
            if self.failures > 0 {
                promise *= self.feasibility.chance(index);
            }
            // Where nothing promises anything any more, the least mean is taken.
            let better =
                found.is_none_or(|(most, least, _)| promise > most || (promise == most && mean < least));
            if better && !history.is_known(point) {
                found = Some((promise, mean, point));
            }
        }
        found.map(|(_, _, point)| point)
    }
}

/// Of a normal distribution with this mean, of what is above 0.
fn expected_improvement(mean: f32, deviation: f32) -> f32 {
    let off = mean / deviation;
    let density = 0.398_942_3 * (-0.5 * off * off).exp();
    deviation * (off * cumulative(off, density) + density)
}

/// The normal distribution function (Abramowitz and Stegun 26.2.17, to 1e-7), given the density.
fn cumulative(x: f32, density: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = [1.330_274_4, -1.821_255_9, 1.781_477_9, -0.356_563_78, 0.319_381_53];
    let tail = density * series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    if x >= 0.0 { 1.0 - tail } else { tail }
}

/// Of a few drawn points, the one farthest from those known.
fn spread(space: &Space, history: &History, coordinates: &Coordinates, random: &mut Random) -> Option<Point> {
    // Where everything fails the first points are many; the latest will do.
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

/// Of the points with a time, the one that differs in the fewest parameters; of equals the fastest.
fn most_alike(space: &Space, history: &History, point: Point) -> Option<Point> {
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
    fn expected_improvement_is_the_mean_of_what_is_gained() {
        // By the trapezoid rule over the normal density.
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
