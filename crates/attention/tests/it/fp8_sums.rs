//! The allowance for the 13-bit sums of FP8 tensor cores: a model of an honest kernel needs it, and it hides no fault.

use op::OpJudgement;
use vgpu::num::codec;
use warpsmith_attention::metrics::{self, Mismatch, Tolerance, Weights};
use warpsmith_attention::oracle::{self, Reference, Rows};
use warpsmith_attention::tensor::{Layout, Tensor, Values};
use warpsmith_attention::{Attention, Class, Inputs, Problem};

use crate::common::{add_fp8_products, problem};

/// A sum of products as `wgmma` computes it, 32 at a time.
fn sum_of_fp8_products(a: &[f32], b: &[f32]) -> f64 {
    let pairs: Vec<(f64, f64)> = a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b))).collect();
    pairs.chunks(32).fold(0.0, add_fp8_products)
}

/// The same with a sum of its own for every 32 products.
fn sum_of_parts(a: &[f32], b: &[f32]) -> f64 {
    a.chunks(32).zip(b.chunks(32)).map(|(a, b)| sum_of_fp8_products(a, b)).sum()
}

/// What a kernel with FP8 tensor cores computes. The functions may falsify the scores and the weights of a row, whose
/// largest weight is 1.
type Change<'c> = (&'c dyn Fn(f64) -> f64, &'c dyn Fn(usize, &mut [f64]));

fn run(problem: &Problem, inputs: &Inputs, change: Change<'_>) -> (Tensor, Vec<f32>) {
    run_adding(sum_of_fp8_products, problem, inputs, change)
}

fn run_adding(
    add: fn(&[f32], &[f32]) -> f64,
    problem: &Problem,
    inputs: &Inputs,
    (score, weights): Change<'_>,
) -> (Tensor, Vec<f32>) {
    let width = problem.head_dim;
    let (mut data, mut lse) = (Vec::new(), Vec::new());
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|values| values.head(0, 0));
    let scale = f64::from(problem.softmax_scale()) * inputs.q.scale(0, 0) * inputs.k.scale(0, 0);
    for (query, row) in q.chunks_exact(width).enumerate() {
        let keys = k.chunks_exact(width).take(problem.visible(problem.seq_k, query).end);
        let scores: Vec<f64> = keys.map(|key| score(add(row, key) * scale)).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut exact: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        weights(query, &mut exact);
        let sum: f64 = exact.iter().sum();
        lse.push((largest + sum.ln()) as f32);
        let mut output = vec![0.0; width];
        for (weight, value) in exact.iter().zip(v.chunks_exact(width)) {
            let rounded = f64::from(codec::e4m3_to_f32(codec::f32_to_e4m3((weight * 256.0) as f32))) / 256.0;
            output.iter_mut().zip(value).for_each(|(x, v)| *x += rounded * f64::from(*v));
        }
        data.extend(output.iter().map(|x| (x * inputs.v.scale(0, 0) / sum) as f32));
    }
    let values = Values { shape: problem.query_shape(), data, scales: None };
    (Tensor::encode(&values, problem.output, Layout::Bhsd), lse)
}

const HONEST: Change<'static> = (&|score| score, &|_, _| ());

fn solved(problem: &Problem, class: Class, seed: u64) -> (Inputs, Reference) {
    let inputs = Inputs::generate(problem, class, seed).encode(problem.dtype, Layout::Bhsd).decode();
    let reference = oracle::attention(problem, &inputs, Rows::all(problem));
    (inputs, reference)
}

fn failures(reference: &Reference, (output, lse): &(Tensor, Vec<f32>), sums: bool) -> Vec<Mismatch> {
    let tolerance = Tolerance::new(reference.problem.dtype, Weights::Fp8);
    let tolerance = if sums { tolerance.with_fp8_sums() } else { tolerance };
    metrics::compare(reference, output, Some(lse), tolerance).failures
}

#[test]
fn an_honest_kernel_passes_only_with_the_allowance() {
    let (mut needed_by_lse, mut needed_by_output) = (0, 0);
    for name in ["b1h1sq96sk1024d64-e4m3", "b1h1sq48sk512d256-e4m3"] {
        let problem = problem(name);
        for class in Class::ALL {
            for seed in 1..=4 {
                let (inputs, reference) = solved(&problem, class, seed);
                let result = run(&problem, &inputs, HONEST);
                assert_eq!(failures(&reference, &result, true), [], "{name} {class} {seed}");
                for failure in failures(&reference, &result, false) {
                    match failure {
                        Mismatch::Lse { .. } => needed_by_lse += 1,
                        _ => needed_by_output += 1,
                    }
                }
            }
        }
    }
    assert!(needed_by_lse > 0 && needed_by_output > 0, "{needed_by_lse} {needed_by_output}");
}

/// Products with the significands 13/8 and 15/8 lose more than others: every cut is of the same sign and nearly a unit.
#[test]
fn an_honest_kernel_passes_if_all_products_are_equal() {
    for name in ["b1h1sq8sk300d128-e4m3", "b1h1sq8sk300d256-e4m3"] {
        let problem = problem(name);
        let inputs = Inputs::generate(&problem, Class::Normal, 1);
        let mut inputs = inputs.encode(problem.dtype, Layout::Bhsd).decode();
        for (tensor, value) in [(&mut inputs.q, 1.625), (&mut inputs.k, 1.875)] {
            tensor.data.fill(value);
            tensor.scales = Some(vec![1.0]);
        }
        let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
        let (output, lse) = run(&problem, &inputs, HONEST);
        assert_eq!(failures(&reference, &(output.clone(), lse.clone()), true), [], "{name}");
        let error = lse[0] - reference.lse[0] as f32;
        // A bound by the number of products allowed 33 units.
        let unit = 1.625 * 1.875 * (problem.head_dim as f32).sqrt() / 8192.0;
        assert!(problem.head_dim < 256 || error.abs() > 33.0 * unit, "{name}: {error}");
        let off = lse.iter().map(|x| x + 2.0 * error).collect();
        assert!(
            !failures(&reference, &(output, off), true).is_empty(),
            "{name}: three times the error, {error}"
        );
    }
}

/// A kernel may add the sums of 32 products in fp32. By chance the sum of all products can be exact where these are not.
#[test]
fn an_honest_kernel_that_adds_parts_in_fp32_passes() {
    let problem = problem("b1h1sq48sk512d128-e4m3");
    for class in Class::ALL {
        let (inputs, reference) = solved(&problem, class, 7);
        let result = run_adding(sum_of_parts, &problem, &inputs, HONEST);
        assert_eq!(failures(&reference, &result, true), [], "{class}");
    }
}

/// With few keys many rows have two that are nearly tied. If their scores are off in opposite directions, the weights move
/// further than either error alone can move them.
#[test]
fn an_honest_kernel_passes_if_the_errors_of_tied_keys_have_opposite_signs() {
    let mut needed = 0;
    for name in
        ["b1h1sq512sk2d64-e4m3", "b1h1sq512sk3d64-e4m3", "b1h1sq256sk4d128-e4m3", "b1h1sq128sk9d256-e4m3"]
    {
        let problem = problem(name);
        for class in [Class::Large, Class::Huge, Class::Spikes] {
            for seed in 1..=8 {
                let (inputs, reference) = solved(&problem, class, seed);
                for add in [sum_of_fp8_products, sum_of_parts] {
                    let result = run_adding(add, &problem, &inputs, HONEST);
                    assert_eq!(failures(&reference, &result, true), [], "{name} {class} {seed}");
                    needed += failures(&reference, &result, false).len();
                }
            }
        }
    }
    assert!(needed > 20, "{needed}");
}

/// Scores of a million are off by more than a thousand.
#[test]
fn an_honest_kernel_passes_with_scores_of_any_size() {
    let problem = problem("b1h1sq32sk260d128-e4m3");
    for class in [Class::Large, Class::Huge, Class::OneHot] {
        for seed in 1..=3 {
            let one = Inputs::generate(&problem, Class::OneHot, seed);
            let inputs = one.opposite(Inputs::generate(&problem, class, seed + 100));
            let inputs = inputs.encode(problem.dtype, Layout::Bhsd).decode();
            let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
            let result = run(&problem, &inputs, HONEST);
            assert_eq!(failures(&reference, &result, true), [], "{class} {seed}");
        }
    }
}

/// What the allowance adds to the bound of a row's log-sum-exp and of an element, for inputs as models have them.
#[test]
fn the_allowance_is_small_for_normal_inputs() {
    let (_, reference) = solved(&problem("b1h1sq64sk1024d64-e4m3"), Class::Normal, 1);
    let sums = reference.fp8_sums.expect("FP8");
    assert!(sums.lse.iter().all(|&lse| (1e-4..5e-3).contains(&lse)), "{:?}", sums.lse);
    assert!(sums.output.iter().all(|&output| output == 0.0), "no key is heavy enough");
}

#[test]
fn a_row_with_one_dominant_key_has_no_allowance_for_its_output() {
    let (_, reference) = solved(&problem("b1h1sq256sk1024d64-e4m3"), Class::Large, 1);
    let sums = reference.fp8_sums.expect("FP8");
    let uncertain = sums.output.chunks_exact(64).filter(|row| row.iter().any(|&x| x > 0.0)).count();
    assert!(uncertain < 256 / 8, "{uncertain} of 256 rows");
}

#[test]
fn only_code_whose_products_are_all_fp8_warpgroup_products_gets_the_allowance() {
    let catalog = family::Catalog::load(None).expect("the embedded kernels");
    let hopper = catalog.family("hopper").expect("an embedded family");
    let granted = |name: &str, instructions: &[&str]| {
        let ptx = format!(".visible .entry {}(\n)\n{{\n\t{}\n}}\n", hopper.entry, instructions.join(";\n\t"));
        Attention.extra_tolerance(hopper, &problem(name), &ptx).map(|extra| extra.name)
    };
    let rounding = "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2";
    let fp8 = "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {%f1}, %rd1, %rd2, p, 1, 1";
    let half = "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 0";
    let by_warp = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1}, {%r1}, {%r2}, {%f1}";
    let half_by_warp = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1}";
    let e4m3 = "b1h1s512d64-e4m3";
    assert_eq!(granted(e4m3, &[rounding, fp8]).as_deref(), Some("fp8-weights-and-sums"));
    assert_eq!(granted(e4m3, &[rounding, fp8, half_by_warp]).as_deref(), Some("fp8-weights-and-sums"));
    assert_eq!(granted(e4m3, &[rounding, fp8, half]).as_deref(), Some("fp8-weights"));
    assert_eq!(granted(e4m3, &[rounding, by_warp]).as_deref(), Some("fp8-weights"));
    assert_eq!(granted(e4m3, &[rounding, fp8, by_warp]).as_deref(), Some("fp8-weights"));
    assert_eq!(granted(e4m3, &[rounding, half]), None);
    assert_eq!(granted(e4m3, &[fp8]), None, "the weights are not rounded to FP8");
    assert_eq!(granted("b1h1s512d64-fp16", &[rounding, fp8]), None);
}

#[test]
fn the_allowance_hides_no_fault() {
    let problem = problem("b1h1sq64sk1024d64-e4m3");
    let heaviest_dropped = |row: usize, weights: &mut [f64]| {
        if row == 13 {
            weights.iter_mut().filter(|weight| **weight == 1.0).for_each(|weight| *weight = 0.0);
        }
    };
    let some_dropped = |_: usize, weights: &mut [f64]| weights[128..256].fill(0.0);
    let bf16 = |score: f64| f64::from(f32::from_bits((score as f32).to_bits() & 0xffff_0000));
    let honest = (HONEST.0, HONEST.1);
    let faults: [(&str, Change<'_>); 5] = [
        ("scores 1% too large", (&|score| 1.01 * score, honest.1)),
        ("scores 1% too small", (&|score| 0.99 * score, honest.1)),
        ("scores cut to bf16", (&bf16, honest.1)),
        ("the heaviest key of a row left out", (honest.0, &heaviest_dropped)),
        ("a tile of 128 keys left out", (honest.0, &some_dropped)),
    ];
    for class in [Class::Normal, Class::Large, Class::Outliers] {
        for seed in 1..=3 {
            let (inputs, reference) = solved(&problem, class, seed);
            for (fault, change) in &faults {
                let result = run(&problem, &inputs, *change);
                assert!(!failures(&reference, &result, true).is_empty(), "{fault}: {class} {seed}");
            }
            // A tile of the output that belongs to another row.
            let (output, lse) = run(&problem, &inputs, HONEST);
            let mut values = output.decode();
            values.data.copy_within(0..64, 5 * 64);
            let swapped = Tensor::encode(&values, output.dtype, output.layout);
            assert!(!failures(&reference, &(swapped, lse.clone()), true).is_empty(), "{class} {seed}");
            // A log-sum-exp in other units, and one that is slightly off.
            let binary = lse.iter().map(|x| x * std::f32::consts::LOG2_E).collect();
            assert!(!failures(&reference, &(output.clone(), binary), true).is_empty(), "{class} {seed}");
            let off = lse.iter().map(|x| 1.005 * x).collect();
            assert!(!failures(&reference, &(output, off), true).is_empty(), "{class} {seed}");
        }
    }
}
