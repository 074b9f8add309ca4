//! The oracle: attention in float64 on the CPU, directly from the formula.
//!
//! It is simple on purpose: all scores of a row, their maximum, the weights, their sum, the product. Kernels work
//! online and in tiles; a mistake in that cannot be repeated here.

mod gradients;
mod rows;
mod weight_rounding;

pub use gradients::{Gradient, GradientInputs, GradientRounding, Gradients, gradients, key_rows};
pub use rows::{Row, Rows};
pub use weight_rounding::WeightRounding;

use std::ops::Range;

use crate::inputs::Inputs;
use crate::problem::{Dtype, Problem};
use crate::tensor::Values;
use op::cores;
use vgpu::num::tile::E4m3Columns;
use weight_rounding::{WeightFormat, score_rounding, weight_rounding};

/// The reference for some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The problem that the reference solves.
    pub problem: Problem,
    /// The rows that were computed.
    pub rows: Rows,
    /// `[rows, head_dim]`, in the order of `rows`.
    pub output: Vec<f64>,
    /// Log-sum-exp of each row's scores; -inf if the mask hides every key.
    pub lse: Vec<f64>,
    /// `sum(p |v|)` of each output element; errors of the weights are proportional to it. Only for FP8 inputs, whose
    /// weights may be rounded to FP8 as well.
    pub magnitude: Option<Vec<f64>>,
    /// Root mean square of V in each head of each batch entry; errors are proportional to it.
    pub value_sizes: Vec<f64>,
    /// What the rounding of scores and weights can change, per row.
    pub rounding: Vec<Rounding>,
    /// What the sums of FP8 tensor cores can change. Only for FP8 inputs.
    pub fp8_sums: Option<Fp8Sums>,
}

/// What the sums of FP8 tensor cores can change (see the notes of [`crate::metrics`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fp8Sums {
    /// Largest error of each row's log-sum-exp.
    pub lse: Vec<f64>,
    /// Largest error of each output element, in the order of [`Reference::output`].
    pub output: Vec<f64>,
}

/// What the rounding of a row's scores and weights can change (see the notes of [`crate::metrics`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rounding {
    /// Largest error of the row's log-sum-exp, from scores in fp32.
    pub lse: f64,
    /// Largest L2 norm of the error of the row's output, from scores in fp32.
    pub output: f64,
    /// What weights in the 16-bit type of the output change.
    pub half: WeightRounding,
    /// What weights in E4M3 change. Only for FP8 inputs.
    pub fp8: WeightRounding,
    /// Root mean square of the error of an implementation whose scores and weights both have the 16-bit type.
    pub unfused: f64,
}

/// Largest error of an fp32 sum of products, as a fraction of the product of the two vectors' norms. Sums over random
/// signs had errors of up to 2^-24 of it, on the virtual GPU and in an fp32 loop; the rest is a margin for rare rows. Sums
/// without cancellation have larger errors ([`cut_of_score`]), which change the log-sum-exp only: they have one sign.
const SCORE_ROUNDING: f64 = 1.0 / (1 << 21) as f64;

/// Largest part of a score that tensor cores cut off if all products have one sign. They add 8 products (sm_80) or more at a
/// time to an fp32 sum and cut the result towards zero, which costs up to one unit in the last place each time. All scores
/// of a row may lose such a part, and nothing averages out.
fn cut_of_score(head_dim: usize) -> f64 {
    head_dim.div_ceil(8) as f64 * f64::from(f32::EPSILON)
}

/// From this part of a log-sum-exp on, what the cuts of its scores can change is computed. Less is within its tolerance.
const LARGE_CUT: f64 = 1e-6;

/// Largest error of a score that FP8 tensor cores have summed in any order, divided by the square root of the number of
/// products and by the sum of the score's magnitude and the norm of its products. The tensor cores of an H200 cut every
/// product and every sum 13 bits below the largest term (crates/vgpu/FIDELITY.md has the measurement). The cut parts have
/// random signs, so they add up like a random walk whose steps are at most 2^-13 of the largest sum on the way. Over
/// 262,144 sums each of 64, 128 and 256 products of normal, uniform and outlier codes the H200's largest error was 0.65 of
/// this bound. If most products have the sign of the score, so have the cut parts: the bound then has an eighth of the
/// number, if that is more than its square root.
const FP8_SCORE_ROUNDING: f64 = 1.0 / (1 << 13) as f64;

/// What a kernel may add to the error that FP8 tensor cores make in a score if they add in order, 32 products at a time.
/// The oracle adds as they do. It may be more than the bound above, if all products are equal. A kernel that adds every 32
/// products to fp32 sums of its own makes other errors, so the larger of both counts.
const FP8_SCORE_MARGIN: f64 = 1.25;
/// Larger errors of a single score are taken for this one: e^500 is finite.
const LARGEST_SCORE_ERROR: f64 = 500.0;

/// Changes of a weight that the tolerances for rounded weights cover anyway.
const SMALL_CHANGE: f64 = 1.0 / (1 << 10) as f64;

impl Reference {
    /// The root mean square of the values that a row's head attends to.
    pub fn value_size(&self, row: Row) -> f64 {
        let Problem { heads, kv_heads, .. } = self.problem;
        self.value_sizes[row.batch * kv_heads + row.head / (heads / kv_heads)]
    }

    /// The rows with their outputs and LSE.
    pub fn iter(&self) -> impl Iterator<Item = (Row, &[f64], f64)> {
        let outputs = self.output.chunks_exact(self.problem.head_dim);
        self.rows.list().iter().zip(outputs).zip(&self.lse).map(|((row, output), lse)| (*row, output, *lse))
    }
}

/// Number of rows of one head that are computed together: enough to share the conversion of keys to f64, few enough
/// for their scores to stay in the cache.
const ROWS_AT_ONCE: usize = 32;

/// Number of keys that are converted to f64 at a time.
const KEYS_AT_ONCE: usize = 64;

/// Rows of one head, and the places of their results.
struct Job<'a> {
    rows: &'a [Row],
    output: &'a mut [f64],
    magnitude: Option<&'a mut [f64]>,
    lse: &'a mut [f64],
    rounding: &'a mut [Rounding],
    /// Results of [`Fp8Sums`]: per row, and per element.
    fp8_sums: Option<(&'a mut [f64], &'a mut [f64])>,
}

/// Computes the reference for the given rows, on all cores.
pub fn attention(problem: &Problem, inputs: &Inputs, rows: Rows) -> Reference {
    let mut output = vec![0.0; rows.list().len() * problem.head_dim];
    // The inputs before quantisation have no scales, and no kernel is compared with their reference.
    let quantised = problem.dtype == Dtype::E4m3 && inputs.k.scales.is_some();
    let mut magnitude = quantised.then(|| output.clone());
    let mut fp8_sums =
        quantised.then(|| Fp8Sums { lse: vec![0.0; rows.list().len()], output: output.clone() });
    let mut lse = vec![f64::NEG_INFINITY; rows.list().len()];
    let mut rounding = vec![Rounding::default(); rows.list().len()];
    let all = Job {
        rows: rows.list(),
        output: &mut output,
        magnitude: magnitude.as_deref_mut(),
        lse: &mut lse,
        rounding: &mut rounding,
        fp8_sums: fp8_sums.as_mut().map(|sums| (&mut sums.lse[..], &mut sums.output[..])),
    };
    cores::each_with(jobs(problem, all), |job, scratch| compute(problem, inputs, job, scratch));
    let value_sizes = root_mean_squares(&inputs.v);
    Reference { problem: *problem, rows, output, lse, magnitude, value_sizes, rounding, fp8_sums }
}

/// Of every head of every batch entry.
fn root_mean_squares(values: &Values) -> Vec<f64> {
    let elements = values.shape.head_elements();
    let size = |index: usize| {
        let (batch, head) = (index / values.shape.heads, index % values.shape.heads);
        let squares = values.head(batch, head).iter().map(|&x| f64::from(x) * f64::from(x));
        values.scale(batch, head).abs() * (squares.sum::<f64>() / elements.max(1) as f64).sqrt()
    };
    (0..values.shape.all_heads()).map(size).collect()
}

/// Divides all rows into jobs of rows of one head.
fn jobs<'a>(problem: &Problem, mut rest: Job<'a>) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    while let Some(first) = rest.rows.first() {
        let same_head = |row: &&Row| (row.batch, row.head) == (first.batch, first.head);
        let count = rest.rows.iter().take(ROWS_AT_ONCE).take_while(same_head).count();
        let elements = count * problem.head_dim;
        let (rows, later_rows) = rest.rows.split_at(count);
        let (output, later_output) = rest.output.split_at_mut(elements);
        let (magnitude, later_magnitude) =
            rest.magnitude.map(|magnitude| magnitude.split_at_mut(elements)).unzip();
        let (lse, later_lse) = rest.lse.split_at_mut(count);
        let (rounding, later_rounding) = rest.rounding.split_at_mut(count);
        let (fp8_sums, later_fp8_sums) = rest
            .fp8_sums
            .map(|(lse, output)| {
                let ((lse, later_lse), (output, later)) =
                    (lse.split_at_mut(count), output.split_at_mut(elements));
                ((lse, output), (later_lse, later))
            })
            .unzip();
        jobs.push(Job { rows, output, magnitude, lse, rounding, fp8_sums });
        rest = Job {
            rows: later_rows,
            output: later_output,
            magnitude: later_magnitude,
            lse: later_lse,
            rounding: later_rounding,
            fp8_sums: later_fp8_sums,
        };
    }
    jobs
}

/// Buffers that a thread reuses for every job.
#[derive(Default)]
struct Scratch {
    /// `[rows, keys]`: scores, then weights.
    scores: Vec<f64>,
    /// `[rows, head_dim]`
    queries: Vec<f64>,
    /// `[KEYS_AT_ONCE, head_dim]`
    tile: Vec<f64>,
    /// L2 norm of each key.
    key_norms: Vec<f64>,
    /// L2 norm of each value.
    value_norms: Vec<f64>,
    /// Some keys; only for [`Fp8Sums`].
    columns: E4m3Columns,
    /// `[rows, keys]`; only for [`Fp8Sums`].
    fp8_scores: Vec<Fp8Score>,
}

impl Scratch {
    /// Prepares for these rows of a head: queries multiplied by the scale, and room for scores.
    fn start(&mut self, rows: &[Row], queries: &Head<'_>, (scale, keys): (f64, usize), with_fp8_sums: bool) {
        let width = queries.head_dim;
        self.scores.clear();
        self.scores.resize(rows.len() * keys, 0.0);
        self.queries.clear();
        for row in rows {
            let query = &queries.data[row.query * width..][..width];
            self.queries.extend(query.iter().map(|&x| f64::from(x) * scale));
        }
        if with_fp8_sums {
            self.fp8_scores.clear();
            self.fp8_scores.resize(rows.len() * keys, Fp8Score::default());
        }
    }

    /// Adds the products of these keys' scores as FP8 tensor cores do.
    fn add_fp8_scores(
        &mut self,
        (rows, queries): (&[Row], &Head<'_>),
        (keys, range): (&Head<'_>, Range<usize>),
        (scale, keys_needed): (f64, usize),
    ) {
        const COLUMNS: usize = 16;
        let width = queries.head_dim;
        let random = FP8_SCORE_ROUNDING * (width as f64).sqrt();
        let unit = random.max(FP8_SCORE_ROUNDING * width as f64 / 8.0);
        for first in range.clone().step_by(COLUMNS) {
            let count = COLUMNS.min(range.end - first);
            self.columns.set(&keys.data[first * width..][..count * width], width);
            let scores = self.scores.chunks_exact(keys_needed);
            for ((row, scores), added) in
                rows.iter().zip(scores).zip(self.fp8_scores.chunks_exact_mut(keys_needed))
            {
                let query = &queries.data[row.query * width..][..width];
                let sums = self.columns.sums(query);
                let sums = sums.joined.iter().zip(&sums.apart);
                let scores = scores[first..first + count].iter().zip(sums);
                let of_keys = keys.data[first * width..].chunks_exact(width);
                for ((added, (score, (joined, apart))), key) in
                    added[first..].iter_mut().zip(scores).zip(of_keys)
                {
                    let added_scores = [joined, apart].map(|sum| f64::from(*sum) * scale);
                    let products = query.iter().zip(key).map(|(a, b)| f64::from(a * b));
                    let squares = products.map(|product| product * product).sum::<f64>();
                    let bound = random * squares.sqrt() * scale + unit * score.abs();
                    *added = Fp8Score { exact: *score, added: added_scores, bound };
                }
            }
        }
    }
}

/// K or V of one head, for conversion to f64.
struct Head<'a> {
    data: &'a [f32],
    head_dim: usize,
}

impl<'a> Head<'a> {
    fn new(values: &'a Values, batch: usize, head: usize) -> Self {
        Head { data: values.head(batch, head), head_dim: values.shape.head_dim }
    }

    /// The head without its first rows.
    fn from(&self, row: usize) -> Head<'a> {
        Head { data: &self.data[row * self.head_dim..], ..*self }
    }

    /// Converts rows `first..first + count`.
    fn convert(&self, first: usize, count: usize, into: &mut Vec<f64>) {
        let rows = &self.data[first * self.head_dim..][..count * self.head_dim];
        into.clear();
        into.extend(rows.iter().map(|&x| f64::from(x)));
    }
}

fn compute(problem: &Problem, inputs: &Inputs, job: Job<'_>, scratch: &mut Scratch) {
    let Job { rows, output, mut magnitude, lse, rounding, fp8_sums } = job;
    let Some(&Row { batch, head, .. }) = rows.first() else { return };
    let width = problem.head_dim;
    let kv_head = head / (problem.heads / problem.kv_heads);
    let (queries, keys) = (Head::new(&inputs.q, batch, head), Head::new(&inputs.k, batch, kv_head));
    let values = Head::new(&inputs.v, batch, kv_head);
    // The scale is the f32 that kernels receive, so that the oracle solves the same problem.
    let scale =
        f64::from(problem.softmax_scale()) * inputs.q.scale(batch, head) * inputs.k.scale(batch, kv_head);
    let value_scale = inputs.v.scale(batch, kv_head);

    let length = inputs.serving.length(problem, batch);
    let sequence = problem.with_queries(inputs.serving.queries(problem, batch));
    let visible = |row: &Row| sequence.visible(length, row.query);
    let sink = inputs.serving.sink(head);
    let keys_needed = rows.iter().map(|row| visible(row).end).max().unwrap_or(0);
    scratch.start(rows, &queries, (scale, keys_needed), fp8_sums.is_some());
    if keys_needed == 0 {
        // Every row is fully masked: the output is already zeros.
        lse.fill(sink.unwrap_or(f64::NEG_INFINITY));
        return;
    }

    scratch.key_norms.clear();
    scratch.value_norms.clear();
    // Scores. Those beyond a row's visible keys are computed but not used.
    for first in (0..keys_needed).step_by(KEYS_AT_ONCE) {
        let count = KEYS_AT_ONCE.min(keys_needed - first);
        keys.convert(first, count, &mut scratch.tile);
        scratch.key_norms.extend(scratch.tile.chunks_exact(width).map(norm));
        let scores = scratch.scores.chunks_exact_mut(keys_needed);
        for (query, scores) in scratch.queries.chunks_exact(width).zip(scores) {
            dots(query, &scratch.tile, &mut scores[first..first + count]);
        }
        if fp8_sums.is_some() {
            let keys = (&keys, first..first + count);
            scratch.add_fp8_scores((rows, &queries), keys, (scale, keys_needed));
        }
    }
    let softcap = problem.serving.softcap.map(f64::from);
    if let Some(cap) = softcap {
        scratch.scores.iter_mut().for_each(|score| *score = capped(*score, cap));
        scratch.fp8_scores.iter_mut().for_each(|score| *score = score.capped(cap));
    }
    weigh(&mut scratch.scores, rows.iter().map(visible), lse, sink);
    // Product.
    let add_products = |first: usize, values: &[f64], sums: &mut [f64]| {
        let weights = scratch.scores.chunks_exact(keys_needed);
        for ((row, weights), sums) in rows.iter().zip(weights).zip(sums.chunks_exact_mut(width)) {
            // A hidden value is not even multiplied by 0: it may be an infinity. Kernels multiply it by 0 if another row
            // of their tile sees its key, as every implementation does, so no kernel is judged on such inputs.
            let seen = visible(row);
            let (begin, end) = (seen.start.max(first), seen.end.min(first + values.len() / width));
            if begin < end {
                add_product(&weights[begin..end], &values[(begin - first) * width..], sums);
            }
        }
    };
    for first in (0..keys_needed).step_by(KEYS_AT_ONCE) {
        let count = KEYS_AT_ONCE.min(keys_needed - first);
        values.convert(first, count, &mut scratch.tile);
        scratch.value_norms.extend(scratch.tile.chunks_exact(width).map(norm));
        add_products(first, &scratch.tile, output);
        if let Some(magnitude) = &mut magnitude {
            scratch.tile.iter_mut().for_each(|v| *v = v.abs());
            add_products(first, &scratch.tile, magnitude);
        }
    }
    // Rounding.
    let weights = scratch.scores.chunks_exact(keys_needed);
    let queries = scratch.queries.chunks_exact(width);
    scratch.tile.resize(width, 0.0);
    for (index, ((weights, query), rounding)) in weights.zip(queries).zip(rounding).enumerate() {
        let seen = visible(&rows[index]);
        let (keys, norms) = (&scratch.key_norms[seen.clone()], &scratch.value_norms[seen.clone()]);
        let (weights, values) = (&weights[seen.clone()], values.from(seen.start));
        let row = (weights, lse[index]);
        *rounding = row_rounding(row, query, (keys, norms), &output[index * width..][..width]);
        add_weight_rounding(rounding, problem.dtype, row, (&values, norms), &mut scratch.tile[..width]);
        if sink.is_some() {
            rounding.output += lost_beside_a_sink(weights, norms);
        }
        rounding.scale_output(value_scale);
    }
    if let Some((lse, sums)) = fp8_sums {
        for (index, row) in rows.iter().enumerate() {
            let keys = visible(row);
            let values = values.from(keys.start);
            let seen = index * keys_needed + keys.start..index * keys_needed + keys.end;
            let (weights, scores) = (&scratch.scores[seen.clone()], &scratch.fp8_scores[seen]);
            let elements = index * width..(index + 1) * width;
            let scores = Fp8Row { scores, sink };
            lse[index] = scores.error_of_lse();
            let (output, sums) = (&output[elements.clone()], &mut sums[elements]);
            scores.errors_of_output(weights, &values, output, sums);
            for x in sums {
                *x *= value_scale;
            }
        }
    }
    for x in output.iter_mut().chain(magnitude.into_iter().flatten()) {
        *x *= value_scale;
    }
}

/// `scores[j] = <query, keys[j]>`
fn dots(query: &[f64], keys: &[f64], scores: &mut [f64]) {
    // Several partial sums: the additions do not wait for each other, and the compiler can use vector instructions.
    const LANES: usize = 8;
    let width = query.len();
    for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
        let mut sums = [0.0; LANES];
        let (query_chunks, query_rest) = query.as_chunks::<LANES>();
        let (key_chunks, key_rest) = key.as_chunks::<LANES>();
        for (a, b) in query_chunks.iter().zip(key_chunks) {
            for lane in 0..LANES {
                sums[lane] += a[lane] * b[lane];
            }
        }
        let rest: f64 = query_rest.iter().zip(key_rest).map(|(a, b)| a * b).sum();
        *score = sums.iter().sum::<f64>() + rest;
    }
}

/// A score with a cap.
fn capped(score: f64, cap: f64) -> f64 {
    cap * (score / cap).tanh()
}

/// Turns the scores of several rows into weights. Each row sees a range of its keys.
fn weigh(
    scores: &mut [f64],
    seen: impl ExactSizeIterator<Item = Range<usize>>,
    lse: &mut [f64],
    sink: Option<f64>,
) {
    let keys = scores.len() / seen.len().max(1);
    for ((seen, scores), lse) in seen.zip(scores.chunks_exact_mut(keys)).zip(lse) {
        scores[..seen.start].fill(0.0);
        scores[seen.end..].fill(0.0);
        *lse = softmax(&mut scores[seen], sink);
    }
}

/// Turns scores into weights and returns their log-sum-exp; -inf without scores. The weights have the sum 1, with that of
/// the sink, which is one more score.
fn softmax(scores: &mut [f64], sink: Option<f64>) -> f64 {
    let sink = sink.unwrap_or(f64::NEG_INFINITY);
    let maximum = scores.iter().copied().fold(sink, f64::max);
    if maximum == f64::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let mut sum = (sink - maximum).exp();
    for score in &mut *scores {
        *score = (*score - maximum).exp();
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
    maximum + sum.ln()
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// What the rounding of a row's scores can change. The query is already scaled. Errors `d_j` of the scores change the
/// log-sum-exp by the average of `d` over the weights, and the output by the covariance of `d` and `v`, which is at
/// most the product of their standard deviations. What tensor cores cut from scores changes the log-sum-exp by up to the
/// average of their sizes; this counts if the scores and the logarithm of the sum cancel.
fn row_rounding(
    (weights, lse): (&[f64], f64),
    query: &[f64],
    (keys, values): (&[f64], &[f64]),
    output: &[f64],
) -> Rounding {
    let (cut, query) = (cut_of_score(query.len()), norm(query));
    let average = |norms: &[f64], power: i32| {
        weights.iter().zip(norms).map(|(weight, norm)| weight * norm.powi(power)).sum::<f64>()
    };
    let deviation = |keys: f64| SCORE_ROUNDING * query * keys;
    let variance = average(values, 2) - output.iter().map(|x| x * x).sum::<f64>();
    let norms = average(keys, 1);
    let mut cut_of_lse = 0.0;
    if cut * query * norms > LARGE_CUT * lse.abs() {
        let sizes =
            weights.iter().filter(|weight| **weight > 0.0).map(|weight| weight * (weight.ln() + lse).abs());
        cut_of_lse = cut * sizes.sum::<f64>();
    }
    Rounding {
        lse: deviation(norms) + cut_of_lse,
        output: deviation(average(keys, 2).sqrt()) * variance.max(0.0).sqrt(),
        ..Rounding::default()
    }
}

/// The L2 norm of what a row loses if weights below the normal numbers of fp32 become 0. Without a sink the largest weights
/// are never so small.
fn lost_beside_a_sink(weights: &[f64], values: &[f64]) -> f64 {
    let least = 2.0 * f64::from(f32::MIN_POSITIVE);
    weights
        .iter()
        .zip(values)
        .filter(|(weight, _)| **weight < least)
        .map(|(weight, norm)| weight * norm)
        .sum()
}

/// Sets what the rounding of a row's weights can change. The row has weights and a log-sum-exp, the values their norms.
fn add_weight_rounding(
    rounding: &mut Rounding,
    dtype: Dtype,
    (weights, lse): (&[f64], f64),
    values: (&Head<'_>, &[f64]),
    scratch: &mut [f64],
) {
    let half = if dtype == Dtype::Bf16 { WeightFormat::BF16 } else { WeightFormat::FP16 };
    rounding.half = weight_rounding(half, weights, values, scratch);
    if dtype == Dtype::E4m3 {
        rounding.fp8 = weight_rounding(WeightFormat::E4M3, weights, values, scratch);
    }
    rounding.unfused = rounding.half.spread.hypot(score_rounding(half, weights, lse, values.1));
}

impl Rounding {
    /// Multiplies what belongs to the output.
    fn scale_output(&mut self, by: f64) {
        self.output *= by;
        self.unfused *= by;
        self.half = self.half.scaled(by);
        self.fp8 = self.fp8.scaled(by);
    }
}

/// A score, and what FP8 tensor cores make of it.
#[derive(Clone, Copy, Debug, Default)]
struct Fp8Score {
    exact: f64,
    /// If all products are added to one sum, and if every 32 have a sum of their own.
    added: [f64; 2],
    /// The largest error of a sum in any order.
    bound: f64,
}

impl Fp8Score {
    /// How far a score may be off, whatever the sign.
    fn largest_error(&self) -> f64 {
        let [joined, apart] = self.added.map(|added| (added - self.exact).abs());
        (FP8_SCORE_MARGIN * joined.max(apart)).max(self.bound)
    }

    /// The score with a cap, which makes its errors smaller.
    fn capped(&self, cap: f64) -> Self {
        let exact = capped(self.exact, cap);
        let error = |bound: f64| (capped(self.exact + bound, cap) - exact).abs();
        let bound = error(self.bound).max(error(-self.bound));
        Fp8Score { exact, added: self.added.map(|added| capped(added, cap)), bound }
    }
}

/// How far a weight can move if its score moves by `error` relative to the others.
fn change_of_weight(weight: f64, error: f64) -> f64 {
    let (others, factor) = (1.0 - weight, error.exp());
    let (up, down) = (weight * factor / (weight * factor + others), weight / (weight + others * factor));
    (up - weight).max(weight - down)
}

/// The scores of a row, and the score of its sink.
struct Fp8Row<'a> {
    scores: &'a [Fp8Score],
    sink: Option<f64>,
}

impl Fp8Row<'_> {
    /// The logarithm of the sum of exponentials of some version of the scores.
    fn log_sum_exp(&self, version: impl Fn(&Fp8Score) -> f64) -> f64 {
        let scores = || self.scores.iter().map(&version).chain(self.sink);
        let largest = scores().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return largest;
        }
        largest + scores().map(|score| (score - largest).exp()).sum::<f64>().ln()
    }

    /// The largest error of the log-sum-exp.
    fn error_of_lse(&self) -> f64 {
        if self.scores.is_empty() {
            return 0.0;
        }
        let exact = self.log_sum_exp(|score| score.exact);
        let [higher, lower] =
            [1.0, -1.0].map(|sign| self.log_sum_exp(|score| score.exact + sign * score.largest_error()));
        (higher - exact).max(exact - lower).max(0.0)
    }

    /// The largest error of each element of a row whose scores have these errors, or others of their size.
    ///
    /// The errors themselves move the weights together: of two tied keys whose scores are off in opposite directions, one gains
    /// what the other loses. A kernel that adds in another order has errors of the same size with other signs. Then the errors
    /// of different keys are independent, so their effects add up in squares; twice the sum of squares covers two tied keys, of
    /// which one gets the whole weight.
    fn errors_of_output(&self, weights: &[f64], values: &Head<'_>, output: &[f64], into: &mut [f64]) {
        let width = values.head_dim;
        let (mut moved, mut squares) = ([vec![0.0; width], vec![0.0; width]], vec![0.0; width]);
        let sums = [0, 1].map(|way| self.log_sum_exp(|score| score.added[way]));
        for (key, (&weight, score)) in weights.iter().zip(self.scores).enumerate() {
            let together = [0, 1].map(|way| (score.added[way] - sums[way]).exp() - weight);
            let error = score.largest_error().min(LARGEST_SCORE_ERROR);
            // Alone, the weight changes by less than weight * e^error.
            let alone =
                if weight * error.exp() < SMALL_CHANGE { 0.0 } else { change_of_weight(weight, error) };
            if alone.max(together[0].abs()).max(together[1].abs()) < SMALL_CHANGE {
                continue;
            }
            let value = &values.data[key * width..][..width];
            for (element, (value, output)) in value.iter().zip(output).enumerate() {
                let distance = f64::from(*value) - output;
                squares[element] += 2.0 * (alone * distance).powi(2);
                for (moved, change) in moved.iter_mut().zip(together) {
                    moved[element] += change * distance;
                }
            }
        }
        for (element, into) in into.iter_mut().enumerate() {
            let moved = moved[0][element].abs().max(moved[1][element].abs());
            *into = squares[element].sqrt() + FP8_SCORE_MARGIN * moved;
        }
    }
}

/// `output += sum_j weights[j] * values[j]`
fn add_product(weights: &[f64], values: &[f64], output: &mut [f64]) {
    let width = output.len();
    let (fours, rest) = weights.as_chunks::<4>();
    let (values_of_fours, values_of_rest) = values.split_at(fours.len() * 4 * width);
    for (&[w0, w1, w2, w3], four) in fours.iter().zip(values_of_fours.chunks_exact(4 * width)) {
        let (v0, v123) = four.split_at(width);
        let (v1, v23) = v123.split_at(width);
        let (v2, v3) = v23.split_at(width);
        for ((((x, v0), v1), v2), v3) in output.iter_mut().zip(v0).zip(v1).zip(v2).zip(v3) {
            *x += (w0 * v0 + w1 * v1) + (w2 * v2 + w3 * v3);
        }
    }
    for (weight, value) in rest.iter().zip(values_of_rest.chunks_exact(width)) {
        for (x, v) in output.iter_mut().zip(value) {
            *x += weight * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::Class;
    use crate::problem::Dtype;
    use crate::tensor::Layout;

    fn problem(name: &str) -> Problem {
        name.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The formula, one element at a time: outputs, magnitudes and LSE.
    fn by_formula(problem: &Problem, inputs: &Inputs, row: Row) -> (Vec<f64>, Vec<f64>, f64) {
        let kv_head = row.head / (problem.heads / problem.kv_heads);
        let element = |values: &Values, head: usize, position: usize, d: usize| {
            let data = f64::from(values.head(row.batch, head)[position * problem.head_dim + d]);
            data * values.scale(row.batch, head)
        };
        let sequence = problem.with_queries(inputs.serving.queries(problem, row.batch));
        let seen = sequence.visible(inputs.serving.length(problem, row.batch), row.query);
        let scores: Vec<f64> = seen
            .clone()
            .map(|key| {
                let products = (0..problem.head_dim).map(|d| {
                    element(&inputs.q, row.head, row.query, d) * element(&inputs.k, kv_head, key, d)
                });
                let score = products.sum::<f64>() * f64::from(problem.softmax_scale());
                problem.serving.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
            })
            .collect();
        let sink = inputs.serving.sink(row.head).map_or(0.0, f64::exp);
        let lse = (scores.iter().map(|score| score.exp()).sum::<f64>() + sink).ln();
        let products = |d: usize| {
            let weighted = seen.clone().zip(&scores);
            weighted.map(move |(key, score)| (score - lse).exp() * element(&inputs.v, kv_head, key, d))
        };
        let output = (0..problem.head_dim).map(|d| products(d).sum());
        let magnitude = (0..problem.head_dim).map(|d| products(d).map(f64::abs).sum());
        (output.collect(), magnitude.collect(), lse)
    }

    #[test]
    fn the_oracle_agrees_with_the_formula() {
        for name in [
            "b1h1s1d64-fp16",
            "b2h4kv2sq37sk71d80-causal-bf16",
            "b1h2sq71sk37d24-causal-fp16",
            "b1h3sq5sk130d20-causal-tl-fp16",
            "b1h4kv1s67d64-causal-e4m3",
            "b7h4kv2sq5sk150d32-causal-ragged-fp16",
            "b7h2sq3sk90d16-ragged1-page8-window20+4-sink-cap3-bf16",
            "b2h2sq40sk9d24-window3-sink-fp16",
            "b7h4kv2s50d16-causal-packed-fp16",
            "b7h2sq9sk50d16-causal-packed1-page8-window20-sink-cap3-bf16",
            "b3h2sq3sk150d16-causal-tl-ragged2-window1-sink-e4m3",
        ] {
            let problem = problem(name);
            let inputs =
                Inputs::generate(&problem, Class::Normal, 9).encode(problem.dtype, Layout::Bhsd).decode();
            let reference = attention(&problem, &inputs, Rows::all(&problem));
            let mut magnitudes = Vec::new();
            for (row, output, lse) in reference.iter() {
                let (slow, magnitude, slow_lse) = by_formula(&problem, &inputs, row);
                assert!(lse == slow_lse || (lse - slow_lse).abs() < 1e-12, "{name} {row:?} {lse} {slow_lse}");
                for (a, b) in output.iter().zip(&slow) {
                    assert!((a - b).abs() < 1e-12, "{name} {row:?} {a} {b}");
                }
                magnitudes.extend(magnitude);
            }
            assert_eq!(reference.magnitude.is_some(), problem.dtype == Dtype::E4m3, "{name}");
            for (a, b) in reference.magnitude.iter().flatten().zip(&magnitudes) {
                assert!((a - b).abs() < 1e-12, "{name} {a} {b}");
            }
        }
    }

    #[test]
    fn the_allowance_of_fp8_sums_covers_tied_keys_that_exchange_their_weights() {
        let values = Head { data: &[0.0, 1.0, 4.0], head_dim: 1 };
        let allowed = |weights: &[f64], errors: &[f64], output: f64| {
            let scores = weights.iter().zip(errors).map(|(weight, error)| {
                let exact = weight.ln();
                Fp8Score { exact, added: [exact, exact + error], bound: 0.0 }
            });
            let mut allowed = [0.0];
            let scores = Fp8Row { scores: &scores.collect::<Vec<_>>(), sink: None };
            scores.errors_of_output(weights, &values, &[output], &mut allowed);
            allowed[0]
        };
        for heavier in [0.5, 0.6, 0.7, 0.8, 0.9, 0.99] {
            let allowed = allowed(&[heavier, 1.0 - heavier], &[16.0; 2], 1.0 - heavier);
            assert!(allowed >= 0.999 * heavier && allowed <= 1.5, "{heavier} {allowed:?}");
        }
        // Scores that are off in opposite directions.
        for (one, other) in [(1.0, -1.0), (0.25, -0.5), (-3.0, 3.0)] {
            let allowed = allowed(&[0.5, 0.5], &[one, other], 0.5);
            let weight = 1.0 / (1.0 + f64::exp(other - one));
            let moved = f64::abs(weight - 0.5);
            assert!(allowed >= 1.2 * moved && allowed <= 3.2 * moved, "{one} {other} {moved} {allowed:?}");
        }
        // Errors that are too small to move a weight, and a key that no error can make heavy.
        assert_eq!(allowed(&[0.7, 0.3, 1e-300], &[1e-4; 3], 0.3), 0.0);
        assert_eq!(allowed(&[1.0 - 1e-9, 1e-9, 1e-300], &[9.0; 3], 1e-9), 0.0);
    }

    #[test]
    fn errors_of_large_scores_may_be_larger_than_any_exponent() {
        // A key whose weight is below the smallest number, but whose score is nearer than the errors are large.
        let values = Head { data: &[0.0, 1.0], head_dim: 1 };
        let score = |exact: f64, error: f64| Fp8Score { exact, added: [exact, exact + error], bound: 0.0 };
        let scores = [score(1.3e6, -1340.0), score(1.3e6 - 1000.0, -200.0)];
        let mut allowed = [0.0];
        let row = Fp8Row { scores: &scores, sink: None };
        row.errors_of_output(&[1.0, 0.0], &values, &[0.0], &mut allowed);
        assert!((1.2..1.3).contains(&allowed[0]), "{allowed:?}");
        let error = row.error_of_lse();
        assert!((1249.0..=1675.0).contains(&error), "{error}");
        let scores = [score(0.0, 0.1), score(0.0, -0.1)];
        let row = Fp8Row { scores: &scores, sink: None };
        assert!((row.error_of_lse() - 0.125).abs() < 1e-12);
    }

    #[test]
    fn caps_and_sinks_make_the_allowance_of_fp8_sums_smaller() {
        let allowed = |name: &str, sink: Option<f32>| {
            let problem = problem(name);
            let mut inputs = Inputs::generate(&problem, Class::Normal, 3);
            // Large scores, some of which are near each other.
            inputs.q.data.iter_mut().for_each(|x| *x *= 32.0);
            let mut inputs = inputs.encode(problem.dtype, Layout::Bhsd).decode();
            inputs.serving.sinks = sink.map(|sink| vec![sink; problem.heads]);
            let reference = attention(&problem, &inputs, Rows::all(&problem));
            reference.fp8_sums.expect("an FP8 problem")
        };
        let plain = allowed("b1h1s64d64-e4m3", None);
        assert!(plain.lse.iter().all(|&lse| lse > 0.0), "{plain:?}");
        let size = norm(&plain.output);
        assert!(size > 0.0, "{plain:?}");
        // All scores lie near the cap, where it has almost no slope. A sink above every score has almost the whole weight.
        for smaller in [allowed("b1h1s64d64-cap5-e4m3", None), allowed("b1h1s64d64-sink-e4m3", Some(1e4))] {
            for (row, (smaller, plain)) in smaller.lse.iter().zip(&plain.lse).enumerate() {
                assert!(*smaller < 0.1 * plain, "row {row}: {smaller}, {plain}");
            }
            assert!(norm(&smaller.output) < 0.1 * size, "{} {size}", norm(&smaller.output));
        }
    }

    #[test]
    fn only_weights_that_fp32_cannot_hold_may_be_lost_beside_a_sink() {
        let problem = problem("b1h2s3d16-sink-bf16");
        let mut inputs = Inputs::generate(&problem, Class::Normal, 1);
        let allowed = |inputs: &Inputs| {
            let reference = attention(&problem, inputs, Rows::all(&problem));
            let outputs = reference.output.chunks_exact(16).map(norm);
            let rounding = reference.rounding.iter().zip(outputs);
            rounding.map(|(rounding, output)| rounding.output / output).collect::<Vec<_>>()
        };
        // exp(-80) is a normal number, exp(-95) is not.
        inputs.serving.sinks = Some(vec![80.0, 95.0]);
        let allowed = allowed(&inputs);
        assert!(allowed[..3].iter().all(|&share| share < 1e-4), "{allowed:?}");
        assert!(allowed[3..].iter().all(|&share| share >= 1.0), "{allowed:?}");
    }

    #[test]
    fn a_fully_masked_row_has_zeros_and_an_lse_of_minus_infinity() {
        let problem = problem("b1h1sq40sk3d16-causal-fp16");
        let mut inputs = Inputs::generate(&problem, Class::Normal, 1);
        // Not even an infinity behind the mask may change the result.
        inputs.v.data[2 * 16] = f32::INFINITY;
        let reference = attention(&problem, &inputs, Rows::all(&problem));
        for (row, output, lse) in reference.iter() {
            match row.query {
                0..37 => assert!(lse == f64::NEG_INFINITY && output.iter().all(|&x| x == 0.0)),
                37..39 => assert!(lse.is_finite() && output.iter().all(|x| x.is_finite())),
                _ => assert_eq!(output[0], f64::INFINITY),
            }
        }
    }

    #[test]
    fn large_values_of_one_head_are_not_the_size_of_the_others() {
        let problem = problem("b2h4kv2s20d32-fp16");
        let mut inputs = Inputs::generate(&problem, Class::Normal, 5);
        let head = inputs.v.shape.head_elements();
        inputs.v.data[2 * head..3 * head].iter_mut().for_each(|x| *x *= 1000.0);
        let reference = attention(&problem, &inputs, Rows::all(&problem));
        for (row, ..) in reference.iter() {
            let expected = if row.batch == 1 && row.head < 2 { 1000.0 } else { 1.0 };
            let size = reference.value_size(row) / expected;
            assert!((0.9..1.1).contains(&size), "{row}: {size}");
        }
    }

    #[test]
    fn a_sample_equals_part_of_the_whole() {
        let problem = problem("b2h2s200d32-causal-fp16");
        let inputs = Inputs::generate(&problem, Class::Normal, 4);
        let whole = attention(&problem, &inputs, Rows::all(&problem));
        let sample = attention(&problem, &inputs, Rows::sample(&problem, 5, 1, 7));
        for (row, output, lse) in sample.iter() {
            let index = row.index(&problem);
            assert_eq!(lse, whole.lse[index]);
            assert_eq!(output, &whole.output[index * 32..(index + 1) * 32]);
        }
    }

    #[test]
    fn scores_in_the_thousands_do_not_overflow() {
        let problem = Problem::new(1, 2, 65, 64, Dtype::Fp16);
        let inputs = Inputs::generate(&problem, Class::Large, 2);
        let reference = attention(&problem, &inputs, Rows::all(&problem));
        assert!(reference.output.iter().chain(&reference.lse).all(|x| x.is_finite()));
        assert!(reference.lse.iter().any(|&lse| lse > 1000.0));
    }
}
