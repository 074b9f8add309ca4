//! A growing Cholesky factor.

/// The lower triangle `L` of a covariance matrix `L * L^T`, row by row.
#[derive(Clone, Debug, Default)]
pub(super) struct Triangle {
    rows: Vec<Vec<f64>>,
}

/// Keeps a row finite if a covariance matrix is singular within rounding.
const LEAST_VARIANCE: f64 = 1e-10;

impl Triangle {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn row(&self, number: usize) -> &[f64] {
        &self.rows[number]
    }

    pub fn diagonal(&self, number: usize) -> f64 {
        self.rows[number][number]
    }

    pub fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
    }

    /// Adds a variable, given its covariance with each earlier one and its own variance.
    pub fn push(&mut self, covariances: impl IntoIterator<Item = f64>, variance: f64) {
        let mut row: Vec<f64> = Vec::with_capacity(self.len() + 1);
        for (covariance, other) in covariances.into_iter().zip(&self.rows) {
            let done = row.len();
            row.push((covariance - dot(&row, &other[..done])) / other[done]);
        }
        let rest = variance - dot(&row, &row);
        row.push(rest.max(LEAST_VARIANCE).sqrt());
        self.rows.push(row);
    }

    /// `x` with `L x = b`, for as many rows as `b` has.
    pub fn forward(&self, b: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(b.len());
        for (row, &b) in self.rows.iter().zip(b) {
            let done = x.len();
            x.push((b - dot(&row[..done], &x)) / row[done]);
        }
        x
    }

    /// `x` with `L^T x = b`.
    pub fn backward(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for (number, row) in self.rows.iter().enumerate().rev() {
            x[number] /= row[number];
            let known = x[number];
            for (x, factor) in x[..number].iter_mut().zip(row) {
                *x -= factor * known;
            }
        }
        x
    }

    /// The logarithm of the determinant of `L`.
    pub fn log_determinant(&self) -> f64 {
        (0..self.len()).map(|number| self.diagonal(number).ln()).sum()
    }

    /// The lower triangle of the inverse of `L * L^T`.
    pub fn inverse(&self) -> Vec<Vec<f64>> {
        let count = self.len();
        // The columns of the inverse of L, each from its diagonal down.
        let columns: Vec<Vec<f64>> = (0..count)
            .map(|first| {
                let mut column = Vec::with_capacity(count - first);
                column.push(1.0 / self.diagonal(first));
                for number in first + 1..count {
                    let sum = dot(&self.rows[number][first..number], &column);
                    column.push(-sum / self.diagonal(number));
                }
                column
            })
            .collect();
        (0..count).map(|a| (0..=a).map(|b| dot(&columns[a], &columns[b][a - b..])).collect()).collect()
    }
}

/// The dot product in eight sums, which the compiler turns into vector instructions. A single sum would have to be
/// added in order.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_whole, a_rest) = a.as_chunks::<8>();
    let (b_whole, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a_whole.iter().zip(b_whole) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covariances of points on a line, nearly singular.
    fn covariance(a: usize, b: usize) -> f64 {
        (-(a as f64 - b as f64).abs() / 5.0).exp() + if a == b { 0.01 } else { 0.0 }
    }

    fn factored(count: usize) -> Triangle {
        let mut triangle = Triangle::default();
        for a in 0..count {
            triangle.push((0..a).map(|b| covariance(a, b)), covariance(a, a));
        }
        triangle
    }

    #[test]
    fn the_factor_reproduces_the_matrix() {
        let triangle = factored(23);
        for a in 0..23 {
            for b in 0..=a {
                let product = dot(&triangle.row(a)[..=b], triangle.row(b));
                assert!((product - covariance(a, b)).abs() < 1e-12, "{a}, {b}");
            }
        }
    }

    #[test]
    fn the_inverse_is_right_and_agrees_with_solving() {
        let count = 23;
        let triangle = factored(count);
        let lower = triangle.inverse();
        let inverse = |a: usize, b: usize| lower[a.max(b)][a.min(b)];
        for a in 0..count {
            for b in 0..count {
                let product: f64 = (0..count).map(|k| inverse(a, k) * covariance(k, b)).sum();
                assert!((product - f64::from(u8::from(a == b))).abs() < 1e-10, "{a}, {b}: {product}");
            }
        }
        let b: Vec<f64> = (0..count).map(|number| (number as f64).sin()).collect();
        let x = triangle.backward(&triangle.forward(&b));
        for (a, x) in x.into_iter().enumerate() {
            let expected: f64 = (0..count).map(|k| inverse(a, k) * b[k]).sum();
            assert!((x - expected).abs() < 1e-10, "{a}");
        }
    }

    #[test]
    fn a_duplicate_variable_keeps_the_factor_finite() {
        let mut triangle = Triangle::default();
        triangle.push([], 1.0);
        triangle.push([1.0], 1.0);
        assert!(triangle.log_determinant().is_finite());
    }
}
