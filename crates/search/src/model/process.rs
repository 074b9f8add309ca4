//! A Gaussian process over the points of a space.

use super::axis::Axis;
use super::fit::{Shape, correlation, dot};

/// Lower triangle matters only.
#[derive(Clone, Debug)]
pub struct Matrix {
    n: usize,
    a: Vec<f64>,
}

impl Matrix {
    pub fn zeros(n: usize) -> Self {
        Matrix { n, a: vec![0.0; n * n] }
    }
    pub fn row(&self, i: usize) -> &[f64] {
        &self.a[i * self.n..(i + 1) * self.n]
    }
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.a[i * self.n..(i + 1) * self.n]
    }
    pub fn cholesky(&mut self) -> bool {
        let n = self.n;
        for i in 0..n {
            let (before, rest) = self.a.split_at_mut(i * n);
            let row = &mut rest[..n];
            for j in 0..i {
                let other = &before[j * n..j * n + n];
                let s: f64 = dot4(&row[..j], &other[..j]);
                row[j] = (row[j] - s) / other[j];
            }
            let s = row[i] - dot4(&row[..i], &row[..i]);
            if s <= 1e-12 {
                return false;
            }
            row[i] = s.sqrt();
        }
        true
    }
    pub fn solve_lower(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for i in 0..self.n {
            let s = dot4(&self.row(i)[..i], &x[..i]);
            x[i] = (x[i] - s) / self.row(i)[i];
        }
        x
    }
    pub fn solve_upper(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for i in (0..self.n).rev() {
            x[i] /= self.row(i)[i];
            let v = x[i];
            for (t, l) in x[..i].iter_mut().zip(self.row(i)) {
                *t -= l * v;
            }
        }
        x
    }
    /// Lower triangle of (L L^T)^-1.
    pub fn inverse_from_cholesky(&self) -> Matrix {
        let n = self.n;
        // rows of u: u.row(j) = column j of L^-1 (entries j..n)
        let mut u = Matrix::zeros(n);
        for j in 0..n {
            let row = u.row_mut(j);
            row[j] = 1.0 / self.row(j)[j];
            for i in j + 1..n {
                let s = dot4(&self.row(i)[j..i], &row[j..i]);
                row[i] = -s / self.row(i)[i];
            }
        }
        let mut inverse = Matrix::zeros(n);
        for i in 0..n {
            for j in 0..=i {
                inverse.a[i * n + j] = dot4(&u.row(i)[i..], &u.row(j)[i..]);
            }
        }
        inverse
    }
}

pub fn dot4(a: &[f64], b: &[f64]) -> f64 {
    let mut s = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a4.zip(b4) {
        for i in 0..4 {
            s[i] += a[i] * b[i];
        }
    }
    s[0] + s[1] + s[2] + s[3] + rest
}

/// Candidates, by axis the position of each.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    pub positions: Vec<Vec<u16>>,
    pub count: usize,
}

#[derive(Clone, Debug)]
pub struct Process {
    axes: Vec<Axis>,
    tables: Vec<Vec<f32>>,
    noise: f64,
    points: Vec<Vec<u16>>,
    lower: Vec<Vec<f64>>,
    rows: Vec<Vec<f32>>,
    pub explained: Vec<f32>,
    a: Vec<f64>,
}

impl Process {
    pub fn new(axes: Vec<Axis>, shape: &Shape, count: usize) -> Self {
        let tables = axes
            .iter()
            .zip(&shape.lengths)
            .map(|(axis, &length)| {
                axis.distances().iter().map(|&distance| correlation(distance, length).0 as f32).collect()
            })
            .collect();
        Process {
            axes,
            tables,
            noise: shape.noise.exp(),
            points: Vec::new(),
            lower: Vec::new(),
            rows: Vec::new(),
            explained: vec![0.0; count],
            a: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.points.len()
    }

    fn kernel(&self, a: &[u16], b: &[u16]) -> f64 {
        self.tables
            .iter()
            .zip(&self.axes)
            .zip(a.iter().zip(b))
            .map(|((table, axis), (&a, &b))| f64::from(table[a as usize * axis.values() + b as usize]))
            .product()
    }

    pub fn push(&mut self, point: Vec<u16>, columns: &Columns) {
        let n = self.points.len();
        let mut row: Vec<f64> = Vec::with_capacity(n + 1);
        for (j, other) in self.points.iter().enumerate() {
            let k = self.kernel(&point, other);
            let s = dot4(&row[..j], &self.lower[j][..j]);
            row.push((k - s) / self.lower[j][j]);
        }
        let rest = 1.0 + self.noise - dot(&row, &row);
        let diagonal = rest.max(1e-8).sqrt();
        row.push(diagonal);
        let mut fresh = vec![0.0_f32; columns.count];
        const CHUNK: usize = 1024;
        for start in (0..columns.count).step_by(CHUNK) {
            let end = (start + CHUNK).min(columns.count);
            let out = &mut fresh[start..end];
            out.fill(1.0);
            for (axis, table) in self.tables.iter().enumerate() {
                let values = self.axes[axis].values();
                let table = &table[point[axis] as usize * values..][..values];
                for (o, &p) in out.iter_mut().zip(&columns.positions[axis][start..end]) {
                    *o *= table[p as usize];
                }
            }
            let mut j = 0;
            while j + 4 <= n {
                let l: [f32; 4] = std::array::from_fn(|k| row[j + k] as f32);
                let len = out.len();
                let v: [&[f32]; 4] = std::array::from_fn(|k| &self.rows[j + k][start..end][..len]);
                for c in 0..len {
                    out[c] -= l[0] * v[0][c] + l[1] * v[1][c] + l[2] * v[2][c] + l[3] * v[3][c];
                }
                j += 4;
            }
            while j < n {
                let l = row[j] as f32;
                for (o, v) in out.iter_mut().zip(&self.rows[j][start..end]) {
                    *o -= l * v;
                }
                j += 1;
            }
            let inverse = (1.0 / diagonal) as f32;
            for (o, e) in out.iter_mut().zip(&mut self.explained[start..end]) {
                *o *= inverse;
                *e += *o * *o;
            }
        }
        self.rows.push(fresh);
        let s = dot(&row[..n], &self.a);
        self.a.push((1.0 - s) / diagonal);
        self.lower.push(row);
        self.points.push(point);
    }

    /// mean level, scale (std dev), and standardised weights w for y.
    pub fn means(&self, y: &[f64]) -> (f64, f64, Vec<f32>) {
        let n = y.len();
        let mut b: Vec<f64> = Vec::with_capacity(n);
        for i in 0..n {
            let s = dot4(&self.lower[i][..i], &b[..i]);
            b.push((y[i] - s) / self.lower[i][i]);
        }
        let m = dot(&self.a[..n], &b) / dot(&self.a[..n], &self.a[..n]);
        let w: Vec<f64> = b.iter().zip(&self.a).map(|(b, a)| b - m * a).collect();
        let s2 = dot(&w, &w) / n as f64;
        let count = self.explained.len();
        let mut mean = vec![m as f32; count];
        const CHUNK: usize = 1024;
        for start in (0..count).step_by(CHUNK) {
            let end = (start + CHUNK).min(count);
            for i in 0..n {
                let w = w[i] as f32;
                for (m, v) in mean[start..end].iter_mut().zip(&self.rows[i][start..end]) {
                    *m += w * v;
                }
            }
        }
        (m, s2.sqrt(), mean)
    }
}
