//! Gradients in float64, directly from the formulas of the backward pass.
//!
//! With the scores `S = scale Q K^T` and the weights `P = exp(S - LSE)`:
//!
//! ```text
//! delta = rowsum(dO * O)     dP = dO V^T      dS = P * (dP - delta)
//! dV = P^T dO                dQ = scale dS K  dK = scale dS^T Q
//! ```
//!
//! O and LSE are inputs. If they are exact, the results are the gradients of the attention; a test compares them with finite
//! differences. A kernel reads O and LSE rounded, and its reference is computed from the rounded ones: so rounding them
//! is no error of the kernel, and a row of a result needs no other rows.

use op::cores;

use super::{Row, Rows, SCORE_ROUNDING};
use crate::problem::{Dtype, Mask, Problem};
use crate::tensor::Values;

/// What the backward pass reads.
#[derive(Clone, Copy, Debug)]
pub struct GradientInputs<'a> {
    /// The queries.
    pub q: &'a Values,
    /// The keys.
    pub k: &'a Values,
    /// The values.
    pub v: &'a Values,
    /// The gradient of the output.
    pub d_o: &'a Values,
    /// The output of the forward pass, `[batch, heads, seq_q, head_dim]`.
    pub o: &'a [f64],
    /// The log-sum-exp of every row, `[batch, heads, seq_q]`.
    pub lse: &'a [f64],
}

/// The gradient with respect to one tensor, for some of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    /// The rows that were computed; `query` is the position in the tensor's own sequence.
    pub rows: Rows,
    /// `[rows, head_dim]`, in the order of `rows`.
    pub values: Vec<f64>,
    /// What rounding changes in each row.
    pub rounding: Vec<GradientRounding>,
}

/// What rounding changes in a row of a gradient, as L2 norms of the error of the row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GradientRounding {
    /// Root mean square of the error of an implementation that rounds P, and twice dS, to 16 bits. One that also rounds dP, as
    /// an unfused one does, can be far worse where dP and delta cancel.
    pub spread: f64,
    /// What weights and dS lose that the type rounds to zero.
    pub lost: f64,
    /// Largest error from scores, dP and delta in fp32.
    pub fp32: f64,
}

/// The gradients of a problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// The problem.
    pub problem: Problem,
    /// The gradients with respect to Q, K and V.
    pub of: [Gradient; 3],
}

/// A problem whose query rows are the rows of K and V, for [`Rows`].
pub fn key_rows(problem: &Problem) -> Problem {
    Problem {
        heads: problem.kv_heads,
        seq_q: problem.seq_k,
        seq_k: problem.heads / problem.kv_heads * problem.seq_q,
        mask: Mask::None,
        ..*problem
    }
}

/// Rounding of numbers to a 16-bit type.
#[derive(Clone, Copy)]
struct Format {
    /// Half the distance from 1 to the next number.
    unit: f64,
    /// Half the smallest number: what is below becomes zero.
    half_step: f64,
}

impl Format {
    fn new(dtype: Dtype) -> Self {
        let power = |exponent: i32| 2.0_f64.powi(exponent);
        match dtype {
            Dtype::Bf16 => Format { unit: power(-8), half_step: power(-134) },
            Dtype::Fp16 | Dtype::E4m3 => Format { unit: power(-11), half_step: power(-25) },
        }
    }

    /// Mean square of the error of rounding this number; 0 if it becomes zero, which is counted as lost.
    fn square(self, x: f64) -> f64 {
        let size = x.abs();
        if size < self.half_step { 0.0 } else { (self.unit * size).max(self.half_step).powi(2) / 3.0 }
    }

    /// What is lost of P or dS if it becomes zero, or if its weight does.
    fn lost(self, x: f64, weight: f64) -> Option<f64> {
        ((x.abs() < self.half_step || weight < LEAST_WEIGHT) && x != 0.0).then_some(x)
    }
}

/// Sums over one row of a result.
struct Sum<'a> {
    values: &'a mut [f64],
    lost: Vec<f64>,
    any_lost: bool,
    square: f64,
    fp32: f64,
}

impl<'a> Sum<'a> {
    fn new(values: &'a mut [f64]) -> Self {
        let lost = vec![0.0; values.len()];
        Sum { values, lost, any_lost: false, square: 0.0, fp32: 0.0 }
    }

    /// Adds `factor * row`.
    fn add(&mut self, factor: f64, row: &[f32], lost: Option<f64>) {
        add_row(self.values, factor, row);
        if let Some(lost) = lost {
            add_row(&mut self.lost, lost, row);
            self.any_lost = true;
        }
    }

    fn rounding(&self, scale: f64) -> GradientRounding {
        let lost = if self.any_lost { super::norm(&self.lost) } else { 0.0 };
        GradientRounding { spread: scale * self.square.sqrt(), lost: scale * lost, fp32: scale * self.fp32 }
    }
}

fn add_row(sums: &mut [f64], factor: f64, row: &[f32]) {
    sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += factor * f64::from(*x));
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    sums.iter().sum::<f64>() + rest
}

/// L2 norm of every row.
fn row_norms(values: &Values) -> Vec<f64> {
    values.data.chunks_exact(values.shape.head_dim).map(|row| dot(row, row).sqrt()).collect()
}

/// What the pairs of queries and keys need of every row.
struct Rest<'a> {
    problem: &'a Problem,
    inputs: &'a GradientInputs<'a>,
    scale: f64,
    format: Format,
    delta: Vec<f64>,
    norms: Norms,
}

struct Norms {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    d_o: Vec<f64>,
    o: Vec<f64>,
}

/// One pair of a query and a key.
struct Pair {
    p: f64,
    ds: f64,
    /// Mean square of the errors of P and dS from rounding to 16 bits.
    p_square: f64,
    ds_square: f64,
    /// Largest errors of P and dS from fp32.
    p_fp32: f64,
    ds_fp32: f64,
}

/// The smallest weight that exponentials in fp32 do not flush to zero.
const LEAST_WEIGHT: f64 = f32::MIN_POSITIVE as f64;

/// A relative error of fp32 exponents: of the product with log2 e, and of the difference.
const EXPONENT_ROUNDING: f64 = 1.0 / (1 << 22) as f64;

impl Rest<'_> {
    fn row<'v>(&self, values: &'v Values, row: usize) -> &'v [f32] {
        let width = self.problem.head_dim;
        &values.data[row * width..][..width]
    }

    /// `query` and `key` are rows of Q and K.
    fn pair(&self, query: usize, key: usize) -> Pair {
        let GradientInputs { q, k, v, d_o, lse, .. } = *self.inputs;
        let s = self.scale * dot(self.row(q, query), self.row(k, key));
        let p = (s - lse[query]).exp();
        let dp = dot(self.row(d_o, query), self.row(v, key));
        let ds = p * (dp - self.delta[query]);
        let Norms { q, k, v, d_o, o } = &self.norms;
        let relative = SCORE_ROUNDING * self.scale * q[query] * k[key]
            + EXPONENT_ROUNDING * (s.abs() + lse[query].abs());
        let products = SCORE_ROUNDING * d_o[query] * (v[key] + o[query]);
        Pair {
            p,
            ds,
            p_square: self.format.square(p),
            ds_square: 2.0 * self.format.square(ds),
            p_fp32: p * relative,
            ds_fp32: ds.abs() * relative + p * products,
        }
    }

    /// A row of dQ.
    fn query_row(&self, row: Row, values: &mut [f64]) -> GradientRounding {
        let problem = self.problem;
        let kv_head = row.head / (problem.heads / problem.kv_heads);
        let first = (row.batch * problem.kv_heads + kv_head) * problem.seq_k;
        let query = row.index(problem);
        let mut sum = Sum::new(values);
        for key in problem.visible(problem.seq_k, row.query) {
            let key = first + key;
            let pair = self.pair(query, key);
            let k = self.row(self.inputs.k, key);
            sum.add(self.scale * pair.ds, k, self.format.lost(pair.ds, pair.p));
            let norm = self.norms.k[key];
            sum.square += pair.ds_square * norm * norm;
            sum.fp32 += pair.ds_fp32 * norm;
        }
        sum.rounding(self.scale)
    }

    /// A row of dK and of dV.
    fn key_row(&self, row: Row, dk: &mut [f64], dv: &mut [f64]) -> [GradientRounding; 2] {
        let problem = self.problem;
        let group = problem.heads / problem.kv_heads;
        let key = row.index(&key_rows(problem));
        let [mut dk, mut dv] = [Sum::new(dk), Sum::new(dv)];
        for head in row.head * group..(row.head + 1) * group {
            for position in 0..problem.seq_q {
                if !problem.visible(problem.seq_k, position).contains(&row.query) {
                    continue;
                }
                let query = Row { batch: row.batch, head, query: position }.index(problem);
                let pair = self.pair(query, key);
                let [q, d_o] = [self.inputs.q, self.inputs.d_o].map(|values| self.row(values, query));
                dk.add(self.scale * pair.ds, q, self.format.lost(pair.ds, pair.p));
                dv.add(pair.p, d_o, self.format.lost(pair.p, pair.p));
                let (q_norm, d_o_norm) = (self.norms.q[query], self.norms.d_o[query]);
                dk.square += pair.ds_square * q_norm * q_norm;
                dk.fp32 += pair.ds_fp32 * q_norm;
                dv.square += pair.p_square * d_o_norm * d_o_norm;
                dv.fp32 += pair.p_fp32 * d_o_norm;
            }
        }
        [dk.rounding(self.scale), dv.rounding(1.0)]
    }
}

/// Computes gradients on all cores: of all rows if they take at most `budget` multiply-adds, otherwise of a sample.
pub fn gradients(problem: &Problem, inputs: &GradientInputs<'_>, budget: u64, sample: u64) -> Gradients {
    let width = problem.head_dim;
    let norms = Norms {
        q: row_norms(inputs.q),
        k: row_norms(inputs.k),
        v: row_norms(inputs.v),
        d_o: row_norms(inputs.d_o),
        o: inputs.o.chunks_exact(width).map(super::norm).collect(),
    };
    let rows_of_output = inputs.d_o.data.chunks_exact(width).zip(inputs.o.chunks_exact(width));
    let product = |(d_o, o): (&[f32], &[f64])| d_o.iter().zip(o).map(|(a, b)| f64::from(*a) * b).sum();
    let rest = Rest {
        problem,
        inputs,
        scale: f64::from(problem.softmax_scale()),
        format: Format::new(problem.dtype),
        delta: rows_of_output.map(product).collect(),
        norms,
    };
    let query_rows = Rows::within(problem, budget, sample);
    let key_rows = Rows::within(&key_rows(problem), budget, sample.wrapping_add(1));
    let zeros = |rows: &Rows| vec![0.0; rows.list().len() * width];
    let unknown = |rows: &Rows| vec![GradientRounding::default(); rows.list().len()];
    let [mut dq, mut dk, mut dv] = [&query_rows, &key_rows, &key_rows].map(zeros);
    let [mut dq_rounding, mut dk_rounding, mut dv_rounding] =
        [&query_rows, &key_rows, &key_rows].map(unknown);

    let jobs = query_rows.list().iter().zip(dq.chunks_exact_mut(width)).zip(&mut dq_rounding);
    cores::each(jobs.collect(), |((row, values), rounding)| *rounding = rest.query_row(*row, values));
    let places = dk.chunks_exact_mut(width).zip(dv.chunks_exact_mut(width));
    let roundings = dk_rounding.iter_mut().zip(&mut dv_rounding);
    let jobs = key_rows.list().iter().zip(places).zip(roundings);
    cores::each(jobs.collect(), |((row, (dk, dv)), (dk_rounding, dv_rounding))| {
        [*dk_rounding, *dv_rounding] = rest.key_row(*row, dk, dv);
    });
    let gradient = |rows: &Rows, values, rounding| Gradient { rows: rows.clone(), values, rounding };
    let of = [
        gradient(&query_rows, dq, dq_rounding),
        gradient(&key_rows, dk, dk_rounding),
        gradient(&key_rows, dv, dv_rounding),
    ];
    Gradients { problem: *problem, of }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{Class, Inputs};
    use crate::oracle::attention;

    /// `sum(dO * O)` of the forward pass in float64.
    fn loss(problem: &Problem, inputs: &Inputs, d_o: &Values) -> f64 {
        let reference = attention(problem, inputs, Rows::all(problem));
        reference.output.iter().zip(&d_o.data).map(|(o, d)| o * f64::from(*d)).sum()
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for name in [
            "b1h1s7d16-fp16",
            "b2h2s5d16-causal-fp16",
            "b1h4kv2sq5sk9d16-bf16",
            "b1h4kv1sq9sk6d16-causal-fp16",
            "b1h2sq4sk7d16-causal-tl-bf16",
        ] {
            let problem: Problem = name.parse().unwrap();
            let inputs = Inputs::generate(&problem, Class::Normal, 5);
            let d_o = Inputs::generate(&problem, Class::Normal, 6).q;
            let forward = attention(&problem, &inputs, Rows::all(&problem));
            let all = GradientInputs {
                q: &inputs.q,
                k: &inputs.k,
                v: &inputs.v,
                d_o: &d_o,
                o: &forward.output,
                lse: &forward.lse,
            };
            let gradients = gradients(&problem, &all, u64::MAX, 0);
            for (which, gradient) in gradients.of.iter().enumerate() {
                let shape = if which == 0 { problem.query_shape() } else { problem.key_shape() };
                assert_eq!(gradient.values.len(), shape.elements(), "{name}: all rows");
                let mut largest = 0.0_f64;
                for element in (0..shape.elements()).step_by(3) {
                    // The inputs are floats, so the distance is that of the rounded ones.
                    let at = |by: f32| {
                        let mut moved = inputs.clone();
                        let tensor = [&mut moved.q, &mut moved.k, &mut moved.v];
                        let x = &mut tensor.into_iter().nth(which).unwrap().data[element];
                        *x += by;
                        let place = f64::from(*x);
                        (place, loss(&problem, &moved, &d_o))
                    };
                    let ((right, above), (left, below)) = (at(1e-3), at(-1e-3));
                    let wanted = (above - below) / (right - left);
                    let got = gradient.values[element];
                    assert!((got - wanted).abs() < 2e-6, "{name} {which} {element}: {got}, {wanted}");
                    largest = largest.max(wanted.abs());
                }
                assert!(largest > 0.1, "{name} {which}: gradients are not all small");
            }
        }
    }

    #[test]
    fn a_sample_of_gradients_equals_part_of_the_whole() {
        let problem: Problem = "b2h4kv2sq150sk90d32-causal-fp16".parse().unwrap();
        let inputs = Inputs::generate(&problem, Class::Normal, 5);
        let d_o = Inputs::generate(&problem, Class::Normal, 6).q;
        let forward = attention(&problem, &inputs, Rows::all(&problem));
        let Inputs { q, k, v, .. } = &inputs;
        let all = GradientInputs { q, k, v, d_o: &d_o, o: &forward.output, lse: &forward.lse };
        let [whole, part] = [u64::MAX, 1000].map(|budget| gradients(&problem, &all, budget, 3));
        for (index, (whole, part)) in whole.of.iter().zip(&part.of).enumerate() {
            let rows = if index == 0 { problem } else { key_rows(&problem) };
            assert!(part.rows.is_sampled() && !whole.rows.is_sampled(), "{index}");
            for (row, values) in part.rows.list().iter().zip(part.values.chunks_exact(32)) {
                assert_eq!(values, &whole.values[row.index(&rows) * 32..][..32], "{index} {row}");
            }
        }
    }

    #[test]
    fn a_query_that_sees_nothing_has_no_gradient() {
        let problem: Problem = "b1h1sq9sk4d16-causal-fp16".parse().unwrap();
        let inputs = Inputs::generate(&problem, Class::Normal, 5);
        let d_o = Inputs::generate(&problem, Class::Normal, 6).q;
        let forward = attention(&problem, &inputs, Rows::all(&problem));
        assert_eq!(forward.lse[0], f64::NEG_INFINITY);
        let Inputs { q, k, v, .. } = &inputs;
        let all = GradientInputs { q, k, v, d_o: &d_o, o: &forward.output, lse: &forward.lse };
        let gradients = gradients(&problem, &all, u64::MAX, 3);
        let dq = &gradients.of[0].values;
        assert!(dq[..5 * 16].iter().all(|&x| x == 0.0) && dq[6 * 16..].iter().any(|&x| x != 0.0));
        assert!(gradients.of.iter().flat_map(|it| &it.values).all(|x| x.is_finite()));
    }
}
