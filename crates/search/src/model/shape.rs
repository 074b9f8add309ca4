//! The correlation of two points, and its fit to the measurements.
//!
//! The correlation of two points is a product over axes of `FLOOR + (1 - FLOOR) * matern(distance / length)`. With
//! the floor the expanded product is a sum over all subsets of parameters: main effects, pairs, and so on. The effect
//! of a parameter at one point therefore informs about all points, however far away, and a few dozen points are
//! enough to learn the main effects. Without the floor nothing would be known beyond one length. The Matern function
//! has order 3/2, because times of kernels have kinks and steps.
//!
//! Lengths and noise maximise the posterior: the likelihood times a prior by which every parameter has some influence
//! until there is evidence. Mean and variance of the process follow from them, so they are not searched for.

use super::coordinates::Axis;
use super::triangle::{Triangle, dot};

const FLOOR: f64 = 0.3;

/// The fitted values, as logarithms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    /// For each axis, the distance over which its influence decays.
    lengths: Vec<f64>,
    /// The variance that no axis explains, relative to the variance that they explain.
    noise: f64,
}

/// Prior mean and deviation of the logarithms: influence decays over the whole range of an axis, within a factor of
/// e; a measured time repeats to a tenth of the changes by tuning.
const LENGTH: (f64, f64) = (0.0, 1.0);
const NOISE: (f64, f64) = (-4.6, 1.5);
/// Limits. Beyond them an axis explains nothing, or each of its values separately.
const LENGTHS: (f64, f64) = (-4.0, 4.0);
const NOISES: (f64, f64) = (-14.0, 1.0);

/// A correlation, and its derivative with respect to the logarithm of the length, divided by the correlation.
#[derive(Clone, Copy, Debug)]
struct Correlation {
    value: f64,
    slope: f64,
}

impl Correlation {
    fn at(distance: f64, length: f64) -> Self {
        let r = 3_f64.sqrt() * distance * (-length).exp();
        let fade = (-r).exp();
        let value = FLOOR + (1.0 - FLOOR) * (1.0 + r) * fade;
        Correlation { value, slope: (1.0 - FLOOR) * r * r * fade / value }
    }
}

impl Shape {
    /// The shape before any measurement.
    pub fn prior(axes: usize) -> Self {
        Shape { lengths: vec![LENGTH.0; axes], noise: NOISE.0 }
    }

    /// Variance of the noise, relative to that of the process.
    pub fn noise(&self) -> f64 {
        self.noise.exp()
    }

    /// For each axis, the correlations of all pairs of its groups.
    pub fn correlations<'a>(&'a self, axes: &'a [Axis]) -> impl Iterator<Item = Vec<f64>> + 'a {
        axes.iter().zip(&self.lengths).map(|(axis, &length)| {
            axis.distances.iter().map(|&distance| Correlation::at(distance, length).value).collect()
        })
    }

    /// The shape that explains `targets` at `points` best, found from this one in a number of steps.
    ///
    /// The method is Rprop: each value has its own step, which grows while the slope keeps its sign and halves when
    /// the sign changes. It needs no line search, and slopes of different sizes are no problem.
    pub fn fitted(&self, axes: &[Axis], points: &[Vec<u8>], targets: &[f64], steps: usize) -> Self {
        let mut here = self.clone();
        let mut best = (f64::INFINITY, self.clone());
        let mut strides = vec![0.3_f64; axes.len() + 1];
        let mut last = vec![0.0; axes.len() + 1];
        for _ in 0..steps {
            let (misfit, slopes) = here.misfit(axes, points, targets);
            if misfit < best.0 {
                best = (misfit, here.clone());
            }
            let noise = (&mut here.noise, NOISES);
            let numbers = here.lengths.iter_mut().map(|length| (length, LENGTHS)).chain([noise]);
            for (((number, limits), stride), (last, slope)) in
                numbers.zip(&mut strides).zip(last.iter_mut().zip(slopes))
            {
                if slope * *last > 0.0 {
                    *stride = (*stride * 1.3).min(1.0);
                } else if slope * *last < 0.0 {
                    *stride *= 0.5;
                }
                if slope != 0.0 {
                    *number = (*number - *stride * slope.signum()).clamp(limits.0, limits.1);
                }
                *last = slope;
            }
        }
        best.1
    }

    /// The negative logarithm of the posterior, and its slopes with respect to the lengths and, last, the noise.
    fn misfit(&self, axes: &[Axis], points: &[Vec<u8>], targets: &[f64]) -> (f64, Vec<f64>) {
        let tables: Vec<Vec<Correlation>> = axes
            .iter()
            .zip(&self.lengths)
            .map(|(axis, &length)| {
                axis.distances.iter().map(|&distance| Correlation::at(distance, length)).collect()
            })
            .collect();
        // For a pair of points, the pair of their groups on an axis.
        let pair = |axis: &Axis, a: usize, b: usize| {
            points[a][axis.parameter] as usize * axis.groups + points[b][axis.parameter] as usize
        };
        let noise = self.noise();
        let mut triangle = Triangle::default();
        let mut covariances: Vec<Vec<f64>> = Vec::with_capacity(points.len());
        for a in 0..points.len() {
            let row: Vec<f64> = (0..a)
                .map(|b| {
                    axes.iter().zip(&tables).map(|(axis, table)| table[pair(axis, a, b)].value).product()
                })
                .collect();
            triangle.push(row.iter().copied(), 1.0 + noise);
            covariances.push(row);
        }

        let fit = Level::fit(&triangle, &triangle.forward(&vec![1.0; points.len()]), targets);
        let count = points.len() as f64;
        let mut misfit = count * fit.scale.ln() + triangle.log_determinant();

        // Slope: half the trace of (inverse - weights * weights^T / variance) times the derivative of the matrix.
        let weights = triangle.backward(&fit.residual);
        let variance = fit.scale * fit.scale;
        let mut slopes = vec![0.0; axes.len() + 1];
        for (a, inverse) in triangle.inverse().into_iter().enumerate() {
            let pull = |b: usize| inverse[b] - weights[a] * weights[b] / variance;
            for b in 0..a {
                let shared = pull(b) * covariances[a][b];
                for ((slope, axis), table) in slopes.iter_mut().zip(axes).zip(&tables) {
                    *slope += shared * table[pair(axis, a, b)].slope;
                }
            }
            slopes[axes.len()] += 0.5 * pull(a) * noise;
        }

        let lengths = self.lengths.iter().map(|&length| (length, LENGTH));
        for (slope, (number, (mean, deviation))) in
            slopes.iter_mut().zip(lengths.chain([(self.noise, NOISE)]))
        {
            let off = (number - mean) / deviation;
            misfit += 0.5 * off * off;
            *slope += off / deviation;
        }
        (misfit, slopes)
    }
}

/// The mean and the deviation of a process, given its correlations.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub mean: f64,
    pub scale: f64,
    /// The targets minus the mean, decorrelated.
    pub residual: Vec<f64>,
}

/// Times that differ by less than a millionth are equal.
const LEAST_SCALE: f64 = 1e-6;

impl Level {
    /// `ones` is the forward solution for a vector of ones.
    pub fn fit(triangle: &Triangle, ones: &[f64], targets: &[f64]) -> Self {
        let solved = triangle.forward(targets);
        let mean = dot(ones, &solved) / dot(ones, ones);
        let residual: Vec<f64> = solved.iter().zip(ones).map(|(solved, one)| solved - mean * one).collect();
        let scale = (dot(&residual, &residual) / targets.len() as f64).sqrt().max(LEAST_SCALE);
        Level { mean, scale, residual }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Random;
    use crate::model::coordinates::Coordinates;
    use crate::space::{Parameter, Space};

    /// Points of three parameters, of which the second has no effect.
    fn measured(count: usize) -> (Vec<Axis>, Vec<Vec<u8>>, Vec<f64>) {
        let sizes = [8, 16, 32, 64, 128, 256];
        let parameters = ["a", "b", "c"].map(|name| Parameter::new(name, sizes)).into();
        let space = Space::new(parameters, &[]).unwrap();
        let mut random = Random::new(3);
        let points: Vec<Vec<u8>> =
            (0..count).map(|_| (0..3).map(|_| random.below(6) as u8).collect()).collect();
        let targets =
            points.iter().map(|p| (f64::from(p[0]) - 2.0).powi(2) + 0.5 * f64::from(p[0] * p[2])).collect();
        (Coordinates::from_space(&space).axes, points, targets)
    }

    #[test]
    fn slopes_match_differences_of_the_misfit() {
        let (axes, points, targets) = measured(25);
        let shape = Shape { lengths: vec![-0.5, 0.3, 1.0], noise: -3.0 };
        let (_, slopes) = shape.misfit(&axes, &points, &targets);
        let step = 1e-5;
        for (number, slope) in slopes.into_iter().enumerate() {
            let moved = |by: f64| {
                let mut moved = shape.clone();
                *moved.lengths.get_mut(number).unwrap_or(&mut moved.noise) += by;
                moved.misfit(&axes, &points, &targets).0
            };
            let difference = (moved(step) - moved(-step)) / (2.0 * step);
            assert!((difference - slope).abs() < 1e-4 * (1.0 + difference.abs()), "{number}");
        }
    }

    #[test]
    fn a_parameter_without_effect_gets_the_longest_length() {
        let (axes, points, targets) = measured(40);
        let fitted = Shape::prior(3).fitted(&axes, &points, &targets, 40);
        let lengths = &fitted.lengths;
        assert!(lengths[1] > lengths[0] + 1.0 && lengths[1] > lengths[2] + 1.0, "{lengths:?}");
        assert!(fitted.noise < NOISE.0, "there is no noise: {}", fitted.noise);
        let misfit = |shape: &Shape| shape.misfit(&axes, &points, &targets).0;
        assert!(misfit(&fitted) < misfit(&Shape::prior(3)));
    }
}
