//! Fitting the lengths and the noise of a Gaussian process to what was seen.

use super::axis::Axis;
use super::process::Matrix;
use crate::strategies::knob;

#[derive(Clone, Debug)]
pub struct Shape {
    /// Logarithm of each axis' length
    pub lengths: Vec<f64>,
    /// Logarithm of noise variance to signal variance
    pub noise: f64,
}

impl Shape {
    pub fn prior(axes: usize) -> Self {
        Shape { lengths: vec![knob("LEN", 1.0).ln(); axes], noise: knob("NOISE", 0.01).ln() }
    }
}

/// correlation and derivative wrt log length over correlation
pub fn correlation(distance: f64, log_length: f64) -> (f64, f64) {
    let floor = knob("FLOOR", 0.0);
    let x = distance * (-log_length).exp();
    let (r, d) = match knob("KERN", 3.0) as i32 {
        1 => {
            let e = (-x).exp();
            (e, x * e)
        }
        3 => {
            let r = 3f64.sqrt() * x;
            let e = (-r).exp();
            ((1.0 + r) * e, r * r * e)
        }
        _ => {
            let r = 5f64.sqrt() * x;
            let e = (-r).exp();
            ((1.0 + r + r * r / 3.0) * e, r * r / 3.0 * (1.0 + r) * e)
        }
    };
    let c = floor + (1.0 - floor) * r;
    (c, (1.0 - floor) * d / c.max(1e-300))
}

struct Objective<'a> {
    axes: &'a [Axis],
    points: &'a [Vec<u16>],
    y: &'a [f64],
}

impl Objective<'_> {
    /// negative log posterior, gradient (lengths..., noise)
    fn at(&self, shape: &Shape) -> (f64, Vec<f64>) {
        let n = self.points.len();
        let d = self.axes.len();
        let tables: Vec<Vec<(f64, f64)>> = self
            .axes
            .iter()
            .zip(&shape.lengths)
            .map(|(axis, &length)| axis.distances().iter().map(|&x| correlation(x, length)).collect())
            .collect();
        let noise = shape.noise.exp();
        let mut k = Matrix::zeros(n);
        for i in 0..n {
            for j in 0..i {
                let mut p = 1.0;
                for a in 0..d {
                    p *= tables[a]
                        [self.points[i][a] as usize * self.axes[a].values() + self.points[j][a] as usize]
                        .0;
                }
                k.row_mut(i)[j] = p;
            }
            k.row_mut(i)[i] = 1.0 + noise;
        }
        let kept = k.clone();
        if !k.cholesky() {
            return (f64::INFINITY, vec![0.0; d + 1]);
        }
        let a = k.solve_lower(&vec![1.0; n]);
        let b = k.solve_lower(self.y);
        let m = dot(&a, &b) / dot(&a, &a);
        let w: Vec<f64> = b.iter().zip(&a).map(|(b, a)| b - m * a).collect();
        // Scale is profiled; a weak prior keeps it from collapsing.
        let s2 = (dot(&w, &w) + 1e-8) / n as f64;
        let logdet: f64 = (0..n).map(|i| k.row(i)[i].ln()).sum();
        let mut value = 0.5 * n as f64 * s2.ln() + logdet;
        let alpha = k.solve_upper(&w);
        let inverse = k.inverse_from_cholesky();
        let mut grad = vec![0.0; d + 1];
        for i in 0..n {
            for j in 0..i {
                let g = (inverse.row(i)[j] - alpha[i] * alpha[j] / s2) * kept.row(i)[j];
                for a in 0..d {
                    grad[a] += g * tables[a]
                        [self.points[i][a] as usize * self.axes[a].values() + self.points[j][a] as usize]
                        .1;
                }
            }
            grad[d] += 0.5 * (inverse.row(i)[i] - alpha[i] * alpha[i] / s2) * noise;
        }
        let prior = Shape::prior(d);
        let (sl, sn) = (knob("SLEN", 1.0), knob("SNOISE", 1.5));
        for a in 0..d {
            let z = (shape.lengths[a] - prior.lengths[a]) / sl;
            value += 0.5 * z * z;
            grad[a] += z / sl;
        }
        let z = (shape.noise - prior.noise) / sn;
        value += 0.5 * z * z;
        grad[d] += z / sn;
        (value, grad)
    }
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Rprop from a start.
pub fn fit(axes: &[Axis], points: &[Vec<u16>], y: &[f64], start: &Shape, steps: usize) -> Shape {
    let objective = Objective { axes, points, y };
    let d = axes.len();
    let mut here = start.clone();
    let mut best = (f64::INFINITY, start.clone());
    let mut step = vec![0.3_f64; d + 1];
    let mut last = vec![0.0; d + 1];
    for _ in 0..steps {
        let (value, grad) = objective.at(&here);
        if value < best.0 {
            best = (value, here.clone());
        }
        for a in 0..=d {
            let sign = grad[a] * last[a];
            if sign > 0.0 {
                step[a] = (step[a] * 1.3).min(1.0);
            } else if sign < 0.0 {
                step[a] *= 0.5;
            }
            last[a] = grad[a];
            let target = if a < d { &mut here.lengths[a] } else { &mut here.noise };
            *target -= step[a] * if grad[a] == 0.0 { 0.0 } else { grad[a].signum() };
            *target = if a < d { target.clamp(-4.0, 4.0) } else { target.clamp(-14.0, 1.0) };
        }
    }
    best.1
}
