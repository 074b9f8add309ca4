//! Inputs on which a kernel without an exact running maximum can be wrong: attention sinks, late maxima, large exponents.
//! Each is compared with float64 and with an emulation of FlashAttention, which has the running maximum of every step.
//! With `WARPSMITH_TEST_DEVICE=cuda` they run on a GPU (`common.rs`).

use std::sync::OnceLock;

use chips::Target;
use family::{Catalog, Family};
use op::Kernel;
use random::Random;
use vgpu::num::codec;
use warpsmith_attention::inputs::ServingInputs;
use warpsmith_attention::oracle::{self, Reference, Rows};
use warpsmith_attention::run::{self, Run};
use warpsmith_attention::tensor::Values;
use warpsmith_attention::{Dtype, Encoded, Inputs, Layout, Problem};

use crate::common::{add_fp8_products, compiler, gpu_or_virtual, problem};

fn hopper() -> &'static Family {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    let catalog = CATALOG.get_or_init(|| Catalog::load(None).expect("the embedded kernels"));
    catalog.family("hopper").expect("an embedded family")
}

/// A setting: that of the pick for a problem, or of a preset.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Pick(&'static str),
    Preset(&'static str),
}

fn launch(setting: Setting, problem: &Problem, inputs: &Encoded) -> Run {
    let (preset, knobs) = match setting {
        Setting::Preset(name) => (Some(name), Vec::new()),
        Setting::Pick(of) => {
            let fits = |pick: &&family::tuned_table::Pick| pick.problem == of && pick.gpu == "NVIDIA H200";
            (None, hopper().tuned.picks.iter().find(fits).expect("a pick").setting())
        }
    };
    let candidate = run::candidate(hopper(), preset, &knobs, problem).expect("a setting");
    let mut device = gpu_or_virtual("h200");
    let kernel =
        Kernel::build(&mut *device, compiler(), hopper(), candidate, Target::Sm90a).expect("a kernel");
    let run = run::run(&kernel, &mut *device, problem, inputs, true).expect("a run");
    let serious = |finding: &&vgpu::Finding| finding.severity == vgpu::Severity::Error;
    let mut findings = run.reports.iter().flat_map(|report| &report.findings);
    assert_eq!(findings.find(serious), None, "{setting:?} {problem}");
    run
}

/// Inputs of one head with the given logits (natural logarithm) of all keys and values. Queries have other columns, too,
/// which move the logits of a row a little.
fn inputs(
    problem: &Problem,
    logit: impl Fn(usize) -> f64,
    value: impl Fn(usize, &mut Random) -> f32,
) -> Encoded {
    unrounded(problem, logit, value).encode(problem.dtype, Layout::Bhsd)
}

fn unrounded(
    problem: &Problem,
    logit: impl Fn(usize) -> f64,
    value: impl Fn(usize, &mut Random) -> f32,
) -> Inputs {
    let (width, mut random) = (problem.head_dim, Random::new(7));
    let (queries, keys) = (problem.query_shape(), problem.key_shape());
    let mut tensors =
        [queries, keys, keys].map(|shape| Values { shape, data: vec![0.0; shape.elements()], scales: None });
    let unit = (width as f32).sqrt();
    for row in tensors[0].data.chunks_exact_mut(width) {
        row.fill_with(|| 0.1 * random.normal() as f32);
        row[0] = unit;
    }
    for (key, row) in tensors[1].data.chunks_exact_mut(width).enumerate() {
        row.fill_with(|| 0.1 * random.normal() as f32);
        row[0] = logit(key % problem.seq_k) as f32;
    }
    for (key, row) in tensors[2].data.chunks_exact_mut(width).enumerate() {
        row.fill_with(|| value(key % problem.seq_k, &mut random));
    }
    let [q, k, v] = tensors;
    Inputs { q, k, v, serving: ServingInputs::default() }
}

/// The relative L2 error of the worst row, and the largest error of a log-sum-exp relative to it.
#[derive(Clone, Copy, Debug)]
struct Errors {
    row: f64,
    lse: f64,
}

fn errors(reference: &Reference, output: &[f64], lse: &[f64]) -> Errors {
    let width = reference.problem.head_dim;
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let relative = |got: &[f64], wanted: &[f64]| {
        let error = norm(&mut got.iter().zip(wanted).map(|(a, b)| a - b));
        if error.is_nan() { f64::INFINITY } else { error / norm(&mut wanted.iter().copied()) }
    };
    let rows = output.chunks_exact(width).zip(reference.output.chunks_exact(width));
    let of_lse = |(got, wanted): (&f64, &f64)| (got - wanted).abs() / wanted.abs().max(0.1);
    Errors {
        row: rows.map(|(got, wanted)| relative(got, wanted)).fold(0.0, f64::max),
        lse: lse.iter().zip(&reference.lse).map(of_lse).fold(0.0, f64::max),
    }
}

fn errors_of_kernel(reference: &Reference, run: &Run) -> Errors {
    let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let lse = wide(run.lse.as_ref().expect("it was asked for"));
    errors(reference, &wide(&run.output.decode().data), &lse)
}

/// Rows of a head that are emulated. They are alike.
const EMULATED: usize = 16;

/// FlashAttention with tiles of 128 keys, the last first: fp32 scores, the running maximum of every step, weights rounded
/// to the type of the inputs, for E4M3 multiplied by 2^8, as FlashAttention-3 does. FP8 products are added as the tensor cores do.
fn flash(problem: &Problem, inputs: &Inputs) -> (Vec<f64>, Vec<f64>) {
    const TILE: usize = 128;
    let width = problem.head_dim;
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|values| values.head(0, 0));
    let scale = f64::from(problem.softmax_scale()) * inputs.q.scale(0, 0) * inputs.k.scale(0, 0);
    let (mut all, mut lse) = (Vec::new(), Vec::new());
    for (query, row) in q.chunks_exact(width).enumerate().take(EMULATED) {
        let score = |key: usize| {
            let key = &k[key * width..][..width];
            row.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
        };
        let visible = problem.visible(problem.seq_k, query).end;
        let (mut maximum, mut sum, mut output) = (f64::NEG_INFINITY, 0.0, vec![0.0_f64; width]);
        for tile in (0..visible.div_ceil(TILE)).rev() {
            let keys = tile * TILE..((tile + 1) * TILE).min(visible);
            let scores: Vec<f64> = keys.clone().map(|key| f64::from(score(key)) * scale).collect();
            let highest = scores.iter().copied().fold(maximum, f64::max);
            let factor = (maximum - highest).exp();
            maximum = highest;
            sum *= factor;
            for x in &mut output {
                *x *= factor;
            }
            let exact: Vec<f64> = scores.iter().map(|score| (score - maximum).exp()).collect();
            sum += exact.iter().sum::<f64>();
            let weights: Vec<f64> = exact.iter().map(|&weight| round_weight(problem.dtype, weight)).collect();
            let first = keys.start;
            if problem.dtype == Dtype::E4m3 {
                for (column, x) in output.iter_mut().enumerate() {
                    for (step, part) in weights.chunks(32).enumerate() {
                        let value = |i: usize| f64::from(v[(first + step * 32 + i) * width + column]);
                        let pairs: Vec<_> = part.iter().enumerate().map(|(i, &w)| (w, value(i))).collect();
                        *x = add_fp8_products(*x, &pairs);
                    }
                }
            } else {
                for (key, weight) in keys.zip(&weights) {
                    let value = &v[key * width..][..width];
                    output.iter_mut().zip(value).for_each(|(x, v)| *x += weight * f64::from(*v));
                }
            }
        }
        let unit = if problem.dtype == Dtype::E4m3 { 256.0 } else { 1.0 };
        let finished = output.iter().map(|x| x / unit * inputs.v.scale(0, 0) / sum);
        all.extend(finished.map(|x| round_output(problem.dtype, x)));
        lse.push(maximum + sum.ln());
    }
    (all, lse)
}

fn round_weight(dtype: Dtype, weight: f64) -> f64 {
    let weight = weight as f32;
    f64::from(match dtype {
        Dtype::Fp16 => codec::f16_to_f32(codec::f32_to_f16_rn(weight)),
        Dtype::Bf16 => f32::from_bits(codec::f32_to_bf16_rn(weight) << 16),
        Dtype::E4m3 => codec::e4m3_to_f32(codec::f32_to_e4m3(weight * 256.0)),
    })
}

fn round_output(dtype: Dtype, x: f64) -> f64 {
    f64::from(match dtype.output() {
        Dtype::Bf16 => f32::from_bits(codec::f32_to_bf16_rn(x as f32) << 16),
        _ => codec::f16_to_f32(codec::f32_to_f16_rn(x as f32)),
    })
}

fn compare(setting: Setting, problem: &Problem, encoded: &Encoded) -> (Errors, Errors) {
    let decoded = encoded.decode();
    let reference = oracle::attention(problem, &decoded, Rows::all(problem));
    let (output, lse) = flash(problem, &decoded);
    let theirs = errors(&reference, &output, &lse);
    let ours = errors_of_kernel(&reference, &launch(setting, problem, encoded));
    (ours, theirs)
}

/// Asserts that the kernel is as right as FlashAttention: in FP8 at most 1.25 times its error in the worst row and the
/// error of a row's rounding. In 16 bits twice its error, because only some rows are emulated.
fn expect_as_right_as_flash(setting: Setting, problem: &Problem, encoded: &Encoded, what: &str) {
    let (ours, flash) = compare(setting, problem, encoded);
    let limit = if problem.dtype == Dtype::E4m3 { 1.25 * flash.row + 0.02 } else { 2.0 * flash.row + 3e-4 };
    assert!(ours.row <= limit, "{setting:?} {what}: {ours:?}, FlashAttention has {flash:?}");
    if problem.dtype != Dtype::E4m3 {
        assert!(ours.lse <= 1e-5, "{setting:?} {what}: {ours:?}");
    }
}

// The values of the heavy keys are 0, so the output is that of the light keys, whose weights fp16 must still have.
#[test]
fn light_keys_beside_a_sink_are_right_without_a_maximum() {
    let problem = problem("b1h1sq64sk512d64-fp16");
    for heavy in [1, 2, 16, 64, 200] {
        for (top, light) in [(0.0, -9.0), (0.0, -13.5), (-3.0, -12.0), (2.0, -12.0)] {
            let is_heavy = |key: usize| key % 64 < heavy / 8 + 1 && key / 64 < heavy;
            let logit = |key| if is_heavy(key) { top } else { top + light };
            let value = |key, random: &mut Random| if is_heavy(key) { 0.0 } else { random.normal() as f32 };
            let encoded = inputs(&problem, logit, value);
            let what = format!("{heavy} keys of logit {top}, others {light} less");
            expect_as_right_as_flash(Setting::Preset("split-512"), &problem, &encoded, &what);
        }
    }
}

/// The picks for FP8, and a problem for each that has all their kinds of steps.
const FP8: [(&str, &str); 8] = [
    ("b1h8s512d64-e4m3", "b1h1sq16sk512d64-e4m3"),
    ("b4h16s512d64-e4m3", "b1h1sq16sk512d64-e4m3"),
    ("b4h32s4096d64-e4m3", "b1h1sq16sk1300d64-e4m3"),
    ("b4h32s4096d64-causal-e4m3", "b1h1sq16sk1300d64-causal-e4m3"),
    ("b4h16s4096d128-e4m3", "b1h1sq16sk2400d128-e4m3"),
    ("b4h16s4096d128-causal-e4m3", "b1h1sq16sk2400d128-causal-e4m3"),
    ("b4h8s4096d256-e4m3", "b1h1sq16sk2400d256-e4m3"),
    ("b16h8s1024d256-e4m3", "b1h1sq16sk700d256-e4m3"),
];

/// Which keys of a problem are dominant.
#[derive(Clone, Copy, Debug)]
enum Heavy {
    /// This many side by side, in the middle.
    InTheMiddle(usize),
    /// This many side by side, in the last tile, which is the first that the kernel computes.
    InTheLastTile(usize),
    /// One in this many, so that every tile has some.
    OneIn(usize),
}

impl Heavy {
    fn contains(self, key: usize, keys: usize) -> bool {
        let among = |first: usize, count: usize| (first..first + count).contains(&key);
        match self {
            Heavy::InTheMiddle(count) => among(keys / 2 + 3, count),
            Heavy::InTheLastTile(count) => among(keys - 20 - count, count),
            Heavy::OneIn(distance) => key % distance == distance / 2,
        }
    }
}

/// Inputs whose light keys have 2^-bits of the weight of a dominant one.
fn sinks(
    problem: &Problem,
    heavy: Heavy,
    bits: f64,
    value: impl Fn(bool, usize, &mut Random) -> f32,
) -> Inputs {
    let is_heavy = |key| heavy.contains(key, problem.seq_k);
    let logit = |key| if is_heavy(key) { 0.0 } else { -bits * std::f64::consts::LN_2 };
    unrounded(problem, logit, |key, random| value(is_heavy(key), key, random))
}

/// Runs all FP8 picks with such inputs.
fn expect_fp8_sinks_right(heavy: Heavy, bits: f64, value: impl Fn(bool, usize, &mut Random) -> f32 + Copy) {
    for (pick, name) in FP8 {
        let problem = problem(name);
        let what = format!("{heavy:?}, others 2^-{bits}");
        let encoded = sinks(&problem, heavy, bits, value).encode(problem.dtype, Layout::Bhsd);
        expect_as_right_as_flash(Setting::Pick(pick), &problem, &encoded, &what);
    }
}

/// Positive values of light keys; dominant keys have none.
fn of_light_keys(is_heavy: bool, _: usize, random: &mut Random) -> f32 {
    if is_heavy { 0.0 } else { random.normal().abs() as f32 }
}

#[test]
fn light_fp8_keys_beside_a_sink_are_right() {
    expect_fp8_sinks_right(Heavy::InTheMiddle(1), 16.0, of_light_keys);
    expect_fp8_sinks_right(Heavy::InTheLastTile(4), 14.0, of_light_keys);
}

#[test]
fn light_fp8_keys_beside_many_dominant_ones_are_right() {
    expect_fp8_sinks_right(Heavy::InTheMiddle(64), 14.0, of_light_keys);
    expect_fp8_sinks_right(Heavy::OneIn(8), 13.0, of_light_keys);
}

#[test]
fn light_fp8_keys_beside_cancelling_ones_are_right() {
    expect_fp8_sinks_right(Heavy::OneIn(16), 12.0, |is_heavy, key, random| match (is_heavy, key / 16 % 2) {
        (false, _) => random.normal().abs() as f32,
        (_, 0) => 1.0,
        _ => -1.0,
    });
}

#[test]
fn light_fp8_keys_count_beside_the_value_of_a_sink() {
    expect_fp8_sinks_right(Heavy::InTheLastTile(1), 12.5, |is_heavy, _, random| {
        if is_heavy { 1.0 } else { random.normal().abs() as f32 }
    });
}

// One large value decides the scale of all others, which have the smallest code. fp16 sums must still have them.
#[test]
fn small_values_are_not_lost_in_fp16_sums() {
    expect_fp8_sinks_right(Heavy::InTheMiddle(1), 10.0, |is_heavy, key, _| match (is_heavy, key) {
        (true, _) => 0.0,
        (_, 0) => 448.0,
        _ => 2.0_f32.powi(-9),
    });
}

// Every third row has no sink: all its weights are about equal. A warp has rows of both kinds.
#[test]
fn rows_with_and_without_a_sink_in_one_warp_are_right() {
    for (pick, name) in FP8 {
        let problem = problem(name);
        let mut inputs = sinks(&problem, Heavy::OneIn(64), 14.0, of_light_keys);
        for row in inputs.q.data.chunks_exact_mut(problem.head_dim).step_by(3) {
            row[0] = 0.0;
        }
        let encoded = inputs.encode(problem.dtype, Layout::Bhsd);
        expect_as_right_as_flash(Setting::Pick(pick), &problem, &encoded, "one row in three without a sink");
    }
}

// Exponents of 2 below -1e30, which only bf16 can have. All keys have the same score, a power of two: a multiply-add then
// has no rounding error, which would be larger than any exponent here.
#[test]
fn rows_whose_exponents_are_all_far_below_zero_have_an_output() {
    for (setting, name) in [
        (Setting::Preset("d64"), "b1h1sq64sk300d64-bf16"),
        (Setting::Preset("d64-short"), "b1h1sq64sk300d64-causal-bf16"),
        (Setting::Preset("split"), "b1h1sq64sk300d64-bf16"),
    ] {
        let problem = problem(name);
        let mut encoded = inputs(&problem, |_| 0.0, |_, random| random.normal() as f32).decode();
        encoded.q.data.fill(2.0_f32.powi(56));
        encoded.k.data.fill(-2.0_f32.powi(56));
        let encoded = encoded.encode(problem.dtype, Layout::Bhsd);
        expect_as_right_as_flash(setting, &problem, &encoded, "exponents of -1e35");
    }
}

// A row's maximum grows by two powers of two in every step, from 7e5 on. A running maximum of that size has four bits after the
// point.
#[test]
fn large_running_maxima_that_rise_late_are_right() {
    let problem = problem("b1h1sq64sk1024d64-fp16");
    let mut encoded = inputs(&problem, |_| 60000.0, |_, random| random.normal() as f32).decode();
    encoded.q.data.chunks_exact_mut(64).for_each(|row| {
        row.fill(0.0);
        (row[0], row[1]) = (64.0, 8.0);
    });
    for (key, row) in encoded.k.data.chunks_exact_mut(64).enumerate() {
        row[2..].fill(0.0);
        row[1] = (problem.seq_k - key) as f32 / 64.0 * 1.4;
    }
    let encoded = encoded.encode(problem.dtype, Layout::Bhsd);
    for setting in [Setting::Preset("d64-short"), Setting::Pick("b4h32s4096d64-fp16")] {
        expect_as_right_as_flash(setting, &problem, &encoded, "running maxima of 7e5");
    }
}

// The first keys set a running maximum below zero. Beside the last keys, of which one is heavier by almost as much as a
// running maximum may lag, and one light, the row gets the full range of the format.
#[test]
fn a_maximum_below_zero_counts_beside_light_fp8_keys() {
    let bits = |exponent: f64| exponent * std::f64::consts::LN_2;
    let problem = problem("b1h1sq16sk100d64-e4m3");
    for heavier in [-0.2, 0.2] {
        let logit = |key| {
            bits(if key == 70 {
                heavier
            } else if key == 80 {
                -16.0
            } else {
                -3.5
            })
        };
        let value = |key, _: &mut Random| if key == 70 { 1.0 } else { 0.25 };
        let encoded = inputs(&problem, logit, value);
        let what = format!("a maximum of {heavier}");
        expect_as_right_as_flash(Setting::Preset("fp8-d64-short"), &problem, &encoded, &what);
    }
}
