//! A Gaussian process over a pool of points.
//!
//! For each measured point there is a row: its covariance with every point of the pool, minus the part that earlier
//! rows explain. A new point costs one row, so a step of the search is linear in the number of measured points and in
//! the size of the pool. Rows are in single precision: millions of them are summed, and the noise is far above their
//! rounding error.

use super::coordinates::Coordinates;
use super::shape::{Level, Shape};
use super::triangle::Triangle;
use crate::space::{Point, Space};

/// Number of points of the pool that are processed at a time, so that their rows stay in a core's cache.
const BLOCK: usize = 1024;

/// Points with their coordinates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub points: Vec<Point>,
    /// For each parameter, the group of each point's value.
    pub groups: Vec<Vec<u8>>,
}

impl Pool {
    pub fn new(coordinates: &Coordinates) -> Self {
        Pool { points: Vec::new(), groups: vec![Vec::new(); coordinates.parameters.len()] }
    }

    pub fn push(&mut self, space: &Space, coordinates: &Coordinates, point: Point) {
        self.points.push(point);
        for (column, group) in self.groups.iter_mut().zip(groups(space, coordinates, point)) {
            column.push(group);
        }
    }
}

/// For each parameter, the group of a point's value.
pub(crate) fn groups(space: &Space, coordinates: &Coordinates, point: Point) -> Vec<u8> {
    let numbered = coordinates.parameters.iter().enumerate();
    numbered.map(|(place, &number)| coordinates.group(place, space.position(point, number))).collect()
}

/// A factor per parameter and pair of groups. The similarity of two points is the product of their factors.
#[derive(Clone, Debug)]
pub(super) struct Similarity {
    /// For each parameter a table, row by row.
    tables: Vec<Vec<f32>>,
    groups: Vec<usize>,
}

impl Similarity {
    /// The product of the axes' tables, by parameter.
    pub fn new(coordinates: &Coordinates, tables: impl IntoIterator<Item = (usize, Vec<f64>)>) -> Self {
        let groups: Vec<usize> =
            (0..coordinates.parameters.len()).map(|parameter| coordinates.groups(parameter)).collect();
        let mut product: Vec<Vec<f32>> = groups.iter().map(|&groups| vec![1.0; groups * groups]).collect();
        for (parameter, table) in tables {
            for (factor, value) in product[parameter].iter_mut().zip(table) {
                *factor *= value as f32;
            }
        }
        Similarity { tables: product, groups }
    }

    fn between(&self, a: &[u8], b: &[u8]) -> f64 {
        let tables = self.tables.iter().zip(&self.groups);
        tables
            .zip(a.iter().zip(b))
            .map(|((table, groups), (&a, &b))| f64::from(table[a as usize * groups + b as usize]))
            .product()
    }

    /// The similarity of one point to the pool's points from `first` on.
    pub fn with_pool(&self, point: &[u8], pool: &Pool, first: usize, out: &mut [f32]) {
        out.fill(1.0);
        for (((table, groups), column), &group) in
            self.tables.iter().zip(&self.groups).zip(&pool.groups).zip(point)
        {
            let factors = &table[group as usize * groups..][..*groups];
            for (out, &other) in out.iter_mut().zip(&column[first..]) {
                *out *= factors[other as usize];
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    similarity: Similarity,
    noise: f64,
    points: Vec<Vec<u8>>,
    triangle: Triangle,
    /// The forward solution for a vector of ones.
    ones: Vec<f64>,
    rows: Vec<Vec<f32>>,
    /// For each point of the pool: the fraction of its variance that the measured points explain.
    explained: Vec<f32>,
}

/// The predicted times of the points of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Prediction {
    pub means: Vec<f32>,
    pub deviations: Vec<f32>,
}

impl Process {
    pub fn new(coordinates: &Coordinates, shape: &Shape, pool: &Pool) -> Self {
        let parameters = coordinates.axes.iter().map(|axis| axis.parameter);
        let tables = parameters.zip(shape.correlations(&coordinates.axes));
        Process {
            similarity: Similarity::new(coordinates, tables),
            noise: shape.noise(),
            points: Vec::new(),
            triangle: Triangle::default(),
            ones: Vec::new(),
            rows: Vec::new(),
            explained: vec![0.0; pool.points.len()],
        }
    }

    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Adds a point that was measured or is pending.
    pub fn push(&mut self, point: &[u8], pool: &Pool) {
        let covariances = self.points.iter().map(|other| self.similarity.between(point, other));
        self.triangle.push(covariances, 1.0 + self.noise);
        let number = self.points.len();
        let factors = self.triangle.row(number);
        let (&diagonal, before) = factors.split_last().unwrap_or((&1.0, &[]));
        let before: Vec<f32> = before.iter().map(|&factor| factor as f32).collect();
        let inverse = (1.0 / diagonal) as f32;
        let mut row = vec![0.0; pool.points.len()];
        for (block, (out, explained)) in
            row.chunks_mut(BLOCK).zip(self.explained.chunks_mut(BLOCK)).enumerate()
        {
            let first = block * BLOCK;
            self.similarity.with_pool(point, pool, first, out);
            subtract(out, &before, &self.rows, first);
            for (out, explained) in out.iter_mut().zip(explained) {
                *out *= inverse;
                *explained += *out * *out;
            }
        }
        let sum: f64 = factors.iter().zip(&self.ones).map(|(factor, one)| factor * one).sum();
        self.ones.push((1.0 - sum) / diagonal);
        self.rows.push(row);
        self.points.push(point.to_vec());
    }

    /// The prediction for the pool. `targets` are those of the first points; the others are pending. Pending points
    /// do not change the means and reduce the deviations around them. They are removed again.
    pub fn predict(&mut self, targets: &[f64], pending: &[Vec<u8>], pool: &Pool) -> Prediction {
        let level = Level::fit(&self.triangle, &self.ones, targets);
        let mut means = vec![level.mean as f32; self.explained.len()];
        let weights: Vec<f32> = level.residual.iter().map(|&weight| -weight as f32).collect();
        for (block, out) in means.chunks_mut(BLOCK).enumerate() {
            subtract(out, &weights, &self.rows, block * BLOCK);
        }
        let (seen, explained) = (self.len(), self.explained.clone());
        for point in pending {
            self.push(point, pool);
        }
        let deviation = |explained: &f32| level.scale as f32 * (1.0 - explained).max(1e-6).sqrt();
        let deviations = self.explained.iter().map(deviation).collect();
        self.points.truncate(seen);
        self.triangle.truncate(seen);
        self.ones.truncate(seen);
        self.rows.truncate(seen);
        self.explained = explained;
        Prediction { means, deviations }
    }
}

/// `out -= sum of factor * row`, four rows at a time, so that `out` is read and written a quarter as often.
fn subtract(out: &mut [f32], factors: &[f32], rows: &[Vec<f32>], first: usize) {
    let len = out.len();
    let part = |row: usize| &rows[row][first..first + len];
    let (fours, rest) = factors.as_chunks::<4>();
    for (four, [a, b, c, d]) in fours.iter().enumerate() {
        let [ra, rb, rc, rd] = [0, 1, 2, 3].map(|k| part(4 * four + k));
        for (out, (((va, vb), vc), vd)) in out.iter_mut().zip(ra.iter().zip(rb).zip(rc).zip(rd)) {
            *out -= a * va + b * vb + c * vc + d * vd;
        }
    }
    for (number, factor) in rest.iter().enumerate() {
        for (out, value) in out.iter_mut().zip(part(4 * fours.len() + number)) {
            *out -= factor * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Random;
    use crate::space::Parameter;

    fn pooled() -> (Coordinates, Pool) {
        let parameters =
            vec![Parameter::new("a", 1..=40), Parameter::new("b", 1..=30), Parameter::new("c", ["x", "y"])];
        let space = Space::new(parameters, &[]).unwrap();
        let coordinates = Coordinates::from_space(&space);
        let mut pool = Pool::new(&coordinates);
        for point in space.points() {
            pool.push(&space, &coordinates, point);
        }
        (coordinates, pool)
    }

    fn point(pool: &Pool, index: usize) -> Vec<u8> {
        pool.groups.iter().map(|column| column[index]).collect()
    }

    #[test]
    fn measured_points_are_certain_and_others_are_predicted() {
        let (coordinates, pool) = pooled();
        let shape = Shape::prior(coordinates.axes.len());
        let mut process = Process::new(&coordinates, &shape, &pool);
        let mut random = Random::new(5);
        let seen: Vec<usize> = (0..50).map(|_| random.below(pool.points.len())).collect();
        let target = |index: usize| f64::from(pool.groups[0][index]) * 0.1 + f64::from(pool.groups[2][index]);
        for &index in &seen {
            process.push(&point(&pool, index), &pool);
        }
        let targets: Vec<f64> = seen.iter().map(|&index| target(index)).collect();
        let prediction = process.predict(&targets, &[], &pool);
        let far: Vec<usize> = (0..pool.points.len()).filter(|index| !seen.contains(index)).collect();
        let mean = |of: &[usize]| {
            of.iter().map(|&index| prediction.deviations[index]).sum::<f32>() / of.len() as f32
        };
        assert!(mean(&seen) < 0.5 * mean(&far), "{} {}", mean(&seen), mean(&far));
        let squares = |value: &dyn Fn(usize) -> f64| {
            far.iter().map(|&index| (value(index) - target(index)).powi(2)).sum::<f64>()
        };
        let average = targets.iter().sum::<f64>() / targets.len() as f64;
        let left = squares(&|index| f64::from(prediction.means[index])) / squares(&|_| average);
        assert!(left < 0.05, "{left} of the variance of a smooth function is left with fifty of 2400 points");
    }

    #[test]
    fn pending_points_reduce_deviations_nearby_and_are_removed() {
        let (coordinates, pool) = pooled();
        let shape = Shape::prior(coordinates.axes.len());
        let mut process = Process::new(&coordinates, &shape, &pool);
        for index in [3, 1000, 2000] {
            process.push(&point(&pool, index), &pool);
        }
        let targets = [1.0, 2.0, 0.5];
        let before = process.predict(&targets, &[], &pool);
        let pending = process.predict(&targets, &[point(&pool, 1500)], &pool);
        assert_eq!(before.means, pending.means);
        assert!(pending.deviations[1500] < 0.3 * before.deviations[1500]);
        let after = process.predict(&targets, &[], &pool);
        assert_eq!(before.deviations, after.deviations);
    }
}
