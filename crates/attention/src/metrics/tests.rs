//! Tests of the judgement of outputs.

use vgpu::num::codec;

use super::*;
use crate::inputs::{Class, Inputs};
use crate::oracle::{self, Rows};
use crate::problem::{Mask, Problem};
use crate::tensor::{Layout, Values};

fn solved(problem: Problem, class: Class) -> (Reference, Tensor, Vec<f32>) {
    let inputs = Inputs::generate(&problem, class, 1).encode(problem.dtype, Layout::Bhsd).decode();
    let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
    let data = reference.output.iter().map(|&x| x as f32).collect();
    let values = Values { shape: problem.query_shape(), data, scales: None };
    let output = Tensor::encode(&values, problem.output, Layout::Bshd);
    let lse = reference.lse.iter().map(|&x| x as f32).collect();
    (reference, output, lse)
}

fn change(output: &Tensor, change: impl Fn(usize, &mut f32)) -> Tensor {
    let mut values = output.decode();
    values.data.iter_mut().enumerate().for_each(|(index, x)| change(index, x));
    Tensor::encode(&values, output.dtype, output.layout)
}

fn problem() -> Problem {
    Problem::new(1, 2, 70, 64, Dtype::Fp16).with_mask(Mask::Causal)
}

fn failures(reference: &Reference, output: &Tensor) -> Vec<Mismatch> {
    let tolerance = Tolerance::new(reference.problem.dtype, Weights::Half);
    compare(reference, output, None, tolerance).failures
}

#[test]
fn the_rounded_reference_passes_in_every_class_and_type() {
    for dtype in Dtype::ALL {
        for class in Class::ALL {
            let (reference, output, lse) = solved(problem().with_dtype(dtype), class);
            let tolerance = Tolerance::new(dtype, Weights::Half);
            let comparison = compare(&reference, &output, Some(&lse), tolerance);
            assert!(comparison.passed(), "{dtype} {class}: {:?}", comparison.failures);
        }
    }
}

#[test]
fn class_tiny_passes_only_with_the_subnormal_allowance() {
    let (reference, output, _) = solved(Problem::new(1, 2, 512, 64, Dtype::Fp16), Class::Tiny);
    let comparison = compare(&reference, &output, None, Tolerance::new(Dtype::Fp16, Weights::Half));
    assert!(comparison.relative_l2 > 1e-3 && comparison.passed(), "{comparison:?}");
    assert!(comparison.below_normal * 10 > 9 * comparison.elements);
    // The allowance covers only rounding: an output flushed to zero, or with one tile of zeros, fails.
    assert!(matches!(
        failures(&reference, &change(&output, |_, x| *x = 0.0))[..],
        [Mismatch::Constant { .. }, Mismatch::Rows { .. }, Mismatch::L2 { .. }]
    ));
    let tile_lost = change(&output, |index, x| {
        if index / 64 < 32 {
            *x = 0.0;
        }
    });
    assert!(matches!(
        failures(&reference, &tile_lost)[..],
        [Mismatch::Rows { count: 32, .. }, Mismatch::L2 { .. }]
    ));
}

#[test]
fn a_zero_reference_allows_only_zero() {
    let (reference, output, _) = solved(problem(), Class::Zeros);
    assert_eq!(failures(&reference, &output), []);
    let off = change(&output, |index, x| {
        if index == 5 {
            *x = 1e-6;
        }
    });
    assert!(matches!(
        failures(&reference, &off)[..],
        [
            Mismatch::Rows { count: 1, worst: RowError { error: f64::INFINITY, .. } },
            Mismatch::L2 { error: f64::INFINITY, .. }
        ]
    ));
}

#[test]
fn the_tolerance_scales_with_the_size_of_the_values() {
    let problem = problem();
    let inputs = |size: f32| {
        let mut inputs = Inputs::generate(&problem, Class::Normal, 1);
        inputs.v.data.iter_mut().for_each(|x| *x *= size);
        inputs
    };
    let judged = |size: f32, error: f32| {
        let reference = oracle::attention(&problem, &inputs(size), Rows::all(&problem));
        let mut data: Vec<f32> = reference.output.iter().map(|&x| x as f32).collect();
        data[5] += error * size;
        let values = Values { shape: problem.query_shape(), data, scales: None };
        failures(&reference, &Tensor::encode(&values, Dtype::Fp16, Layout::Bhsd)).is_empty()
    };
    assert!(judged(1.0, 5e-4) && judged(64.0, 5e-4));
    assert!(!judged(1.0, 0.01) && !judged(64.0, 0.01));
}

#[test]
fn one_wrong_element_is_found_with_its_position() {
    let (reference, output, _) = solved(problem(), Class::Normal);
    let at = (70 + 3) * 64 + 9;
    let off = change(&output, |index, x| {
        if index == at {
            *x += 0.5;
        }
    });
    let found = failures(&reference, &off);
    let Mismatch::Elements { count: 1, worst } = found[0] else { panic!("{found:?}") };
    assert_eq!(worst.place, Place { row: Row { batch: 0, head: 1, query: 3 }, column: 9 });
    assert!((worst.error() - 0.5).abs() < 1e-3);
}

#[test]
fn a_small_error_everywhere_is_found_by_the_norm() {
    let (reference, output, _) = solved(problem(), Class::Normal);
    let off = change(&output, |_, x| *x *= 1.0015);
    assert!(matches!(failures(&reference, &off)[..], [Mismatch::L2 { .. }]));
}

#[test]
fn one_row_that_is_2_percent_too_large_is_found_among_thousands() {
    for (dtype, weights, factor) in [
        (Dtype::Fp16, Weights::Half, 1.02),
        (Dtype::Bf16, Weights::Half, 1.02),
        (Dtype::E4m3, Weights::Half, 1.02),
        // The rounding of FP8 weights makes errors of several percent in honest rows.
        (Dtype::E4m3, Weights::Fp8, 1.15),
    ] {
        let (reference, output, _) = solved(Problem::new(1, 8, 512, 64, dtype), Class::Normal);
        let (width, row) = (64, Row { batch: 0, head: 5, query: 301 });
        let at = row.index(&reference.problem);
        let scaled = change(&output, |index, x| *x *= if index / width == at { factor } else { 1.0 });
        let tolerance = Tolerance::new(dtype, weights);
        assert_eq!(compare(&reference, &output, None, tolerance).failures, [], "{dtype}");
        let found = compare(&reference, &scaled, None, tolerance).failures;
        let rows = found.iter().find(|failure| matches!(failure, Mismatch::Rows { .. }));
        let Some(Mismatch::Rows { count: 1, worst }) = rows else { panic!("{dtype}: {found:?}") };
        assert_eq!(worst.row, row);
        assert!(rows.unwrap().to_string().contains("batch 0, head 5, query 301"));
        assert!(!found.iter().any(|failure| matches!(failure, Mismatch::L2 { .. })), "{dtype}");
    }
}

#[test]
fn unwritten_non_finite_and_constant_outputs_are_reported() {
    let (reference, output, _) = solved(problem(), Class::Normal);
    let unwritten = Tensor::poisoned(output.shape, output.dtype, output.layout);
    let all = output.shape.elements();
    assert!(
        matches!(failures(&reference, &unwritten)[..], [Mismatch::Unwritten { count, .. }] if count == all)
    );
    let infinite = change(&output, |index, x| {
        if index == 7 {
            *x = f32::INFINITY;
        }
    });
    let found = failures(&reference, &infinite);
    assert!(matches!(found[..], [Mismatch::NonFinite { count: 1, value: f64::INFINITY, .. }]), "{found:?}");
    let constant = change(&output, |_, x| *x = 0.25);
    assert!(matches!(failures(&reference, &constant)[0], Mismatch::Constant { value: 0.25 }));
}

#[test]
fn an_ignored_input_is_reported_if_the_reference_depends_on_it() {
    let answer = |problem: &Problem, inputs: &Inputs| {
        let reference = oracle::attention(problem, inputs, Rows::all(problem));
        let data = reference.output.iter().map(|&x| x as f32).collect();
        let values = Values { shape: problem.query_shape(), data, scales: None };
        (reference, Tensor::encode(&values, Dtype::Fp16, Layout::Bhsd))
    };
    for (problem, expected_count) in [(problem(), 3), (Problem::new(1, 1, 1, 64, Dtype::Fp16), 1)] {
        let inputs = Inputs::generate(&problem, Class::Normal, 1);
        let before = answer(&problem, &inputs);
        let mut reported = Vec::new();
        for of in Input::ALL {
            let after = answer(&problem, &inputs.redraw(&problem, Class::Normal, (1, 2), of));
            let tolerance = Tolerance::new(Dtype::Fp16, Weights::Half);
            let result = |output| ignored_input(of, (&before.0, &before.1), (&after.0, output), tolerance);
            // The right output follows its inputs; an unchanged output does not.
            assert_eq!(result(&after.1), None);
            reported.extend(result(&before.1));
        }
        assert_eq!(reported.len(), expected_count, "{reported:?}");
        assert!(reported.contains(&Mismatch::Independent { of: Input::V }));
    }
}

/// The output of a perfect kernel with modified weights. `change` gets the weights of a row; the largest is 1.
fn output_with_weights(
    problem: &Problem,
    inputs: &Inputs,
    reference: &Reference,
    change: impl Fn(Row, &mut [f64]),
) -> Tensor {
    let width = problem.head_dim;
    let mut data = Vec::new();
    for (row, ..) in reference.iter() {
        let kv_head = row.head / (problem.heads / problem.kv_heads);
        let query = &inputs.q.head(row.batch, row.head)[row.query * width..][..width];
        let keys = inputs.k.head(row.batch, kv_head).chunks_exact(width);
        let values = inputs.v.head(row.batch, kv_head).chunks_exact(width);
        let scale = inputs.q.scale(row.batch, row.head)
            * inputs.k.scale(row.batch, kv_head)
            * f64::from(problem.softmax_scale());
        let dot =
            |key: &[f32]| query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let scores: Vec<f64> =
            keys.take(problem.visible(problem.seq_k, row.query).end).map(|key| scale * dot(key)).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        let factor = inputs.v.scale(row.batch, kv_head) / weights.iter().sum::<f64>();
        change(row, &mut weights);
        let mut output = vec![0.0; width];
        for (weight, value) in weights.iter().zip(values) {
            output.iter_mut().zip(value).for_each(|(x, v)| *x += weight * factor * f64::from(*v));
        }
        data.extend(output.iter().map(|&x| x as f32));
    }
    let values = Values { shape: problem.query_shape(), data, scales: None };
    Tensor::encode(&values, problem.output, Layout::Bhsd)
}

/// As in a kernel that multiplies FP8 by FP8: the largest weight is 2^8.
fn round_to_e4m3(weights: &mut [f64]) {
    for weight in weights {
        *weight = f64::from(codec::e4m3_to_f32(codec::f32_to_e4m3((*weight * 256.0) as f32))) / 256.0;
    }
}

fn fp8_problem() -> Problem {
    Problem { kv_heads: 2, ..Problem::new(1, 4, 129, 64, Dtype::E4m3) }.with_mask(Mask::Causal)
}

/// As in FlashAttention: the largest weight is 1, or 2^8 in E4M3.
fn round_like_flash_attention(dtype: Dtype, weights: Weights, row: &mut [f64]) {
    if weights == Weights::Fp8 {
        return round_to_e4m3(row);
    }
    for weight in row {
        let single = *weight as f32;
        *weight = f64::from(match dtype {
            Dtype::Bf16 => codec::bf16_to_f32(codec::f32_to_bf16_rn(single)),
            Dtype::Fp16 | Dtype::E4m3 => codec::f16_to_f32(codec::f32_to_f16_rn(single)),
        });
    }
}

const KINDS: [(Dtype, Weights); 4] = [
    (Dtype::Fp16, Weights::Half),
    (Dtype::Bf16, Weights::Half),
    (Dtype::E4m3, Weights::Half),
    (Dtype::E4m3, Weights::Fp8),
];

#[test]
fn flash_attention_passes_in_every_class_with_few_and_many_keys() {
    let mut worst: Vec<(f64, String)> = Vec::new();
    for shape in ["b1h4s129d64-causal", "b1h4kv2sq8sk700d128", "b1h4sq2sk4096d64"] {
        for (dtype, weights) in KINDS {
            let problem: Problem = format!("{shape}-{dtype}").parse().expect("a valid name");
            for class in Class::ALL {
                let mut largest = (0.0, String::new());
                for seed in 1..=4 {
                    let inputs = Inputs::generate(&problem, class, seed).encode(dtype, Layout::Bhsd).decode();
                    let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
                    let output = output_with_weights(&problem, &inputs, &reference, |_, row| {
                        round_like_flash_attention(dtype, weights, row);
                    });
                    let result = compare(&reference, &output, None, Tolerance::new(dtype, weights));
                    assert!(result.passed(), "{problem} {weights:?} {class} {seed}: {:?}", result.failures);
                    let row = result.worst_row.expect("finite");
                    if result.share > largest.0 {
                        let text = format!(
                            "{problem} {weights:?} {class} {seed}: row {:.1e} of {:.1e}, whole {:.1e} of {:.1e}",
                            row.error, row.limit, result.relative_l2, result.relative_l2_limit
                        );
                        largest = (result.share, text);
                    }
                }
                worst.push(largest);
            }
        }
    }
    for (share, text) in worst {
        println!("{share:.2} {text}");
    }
}

/// With a running maximum, the weights of a tile are rounded relative to the largest weight so far, so their errors are
/// not those of the model.
#[test]
fn flash_attention_with_a_running_maximum_passes_in_class_sink() {
    let round = |row: &mut [f64], tile: usize| {
        let mut maximum = 0.0_f64;
        for weights in row.chunks_mut(tile) {
            maximum = weights.iter().copied().fold(maximum, f64::max);
            for weight in &mut *weights {
                *weight /= maximum;
            }
            round_like_flash_attention(Dtype::Fp16, Weights::Half, weights);
            for weight in weights {
                *weight *= maximum;
            }
        }
    };
    for shape in ["b1h4kv1sq100sk448d64", "b1h1sq1sk512d64", "b1h1sq1sk100d128"] {
        let problem: Problem = format!("{shape}-fp16").parse().expect("a valid name");
        for (seed, tile) in (1..=40).flat_map(|seed| [(seed, 64), (seed, 128)]) {
            let inputs =
                Inputs::generate(&problem, Class::Sink, seed).encode(Dtype::Fp16, Layout::Bhsd).decode();
            let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
            let output = output_with_weights(&problem, &inputs, &reference, |_, row| round(row, tile));
            let result = compare(&reference, &output, None, Tolerance::new(Dtype::Fp16, Weights::Half));
            assert!(result.passed(), "{problem} seed {seed}, tile {tile}: {:?}", result.failures);
        }
    }
}

/// Weights below a share of the largest are lost, as with a running maximum that does not follow the scores.
#[test]
fn lost_light_weights_are_found_in_class_sink() {
    let least_kept = |dtype, weights| match (dtype, weights) {
        (Dtype::E4m3, Weights::Fp8) => 2.0_f64.powi(-13),
        _ => 2.0_f64.powi(-15),
    };
    for (dtype, weights) in KINDS {
        let problem = Problem { seq_q: 4, ..Problem::new(1, 8, 2048, 64, dtype) };
        let found = |seed| {
            let inputs = Inputs::generate(&problem, Class::Sink, seed).encode(dtype, Layout::Bhsd).decode();
            let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
            let output = output_with_weights(&problem, &inputs, &reference, |_, row| {
                let least = least_kept(dtype, weights);
                row.iter_mut().filter(|weight| **weight < least).for_each(|weight| *weight = 0.0);
                round_like_flash_attention(dtype, weights, row);
            });
            !compare(&reference, &output, None, Tolerance::new(dtype, weights)).passed()
        };
        let count = (1..=4).filter(|&seed| found(seed)).count();
        assert_eq!(count, 4, "{dtype} {weights:?}");
    }
}

#[test]
fn weights_rounded_to_fp8_pass_the_fp8_tolerance_only() {
    let problem = fp8_problem();
    for class in Class::ALL {
        for seed in 1..=4 {
            let inputs = Inputs::generate(&problem, class, seed).encode(problem.dtype, Layout::Bhsd).decode();
            let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
            let output =
                output_with_weights(&problem, &inputs, &reference, |_, weights| round_to_e4m3(weights));
            let result = |weights| compare(&reference, &output, None, Tolerance::new(problem.dtype, weights));
            let fp8 = result(Weights::Fp8);
            assert!(fp8.passed(), "{class} {seed}: {:?}", fp8.failures);
            assert!(
                class != Class::Normal || !result(Weights::Half).passed(),
                "the tolerance of half weights"
            );
        }
    }
}

#[test]
fn the_fp8_tolerance_still_finds_faults_in_single_elements() {
    let problem = fp8_problem();
    for class in [Class::Normal, Class::Outliers] {
        let inputs = Inputs::generate(&problem, class, 1).encode(problem.dtype, Layout::Bhsd).decode();
        let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
        let elements = |inputs: &Inputs, change: &dyn Fn(Row, &mut [f64])| {
            let output = output_with_weights(&problem, inputs, &reference, change);
            let tolerance = Tolerance::new(problem.dtype, Weights::Fp8);
            let failures = compare(&reference, &output, None, tolerance).failures;
            failures.iter().find_map(|failure| match failure {
                Mismatch::Elements { worst, .. } => Some(worst.place.row),
                _ => None,
            })
        };
        // One row leaves out its heaviest key.
        let last = Row { batch: 0, head: 3, query: 128 };
        let dropped = elements(&inputs, &|row, weights| {
            round_to_e4m3(weights);
            if row == last {
                weights.iter_mut().filter(|weight| **weight == 1.0).for_each(|weight| *weight = 0.0);
            }
        });
        assert_eq!(dropped, Some(last), "{class}");
        // The scales of V's two heads are swapped.
        let mut swapped = inputs.clone();
        swapped.v.scales.as_mut().expect("FP8 has scales").swap(0, 1);
        assert!(elements(&swapped, &|_, weights| round_to_e4m3(weights)).is_some(), "{class}");
    }
}

#[test]
fn a_wrong_log_sum_exp_is_found() {
    let (reference, output, mut lse) = solved(problem(), Class::Normal);
    lse[5] += 0.1;
    let comparison = compare(&reference, &output, Some(&lse), Tolerance::new(Dtype::Fp16, Weights::Half));
    let [Mismatch::Lse { count: 1, worst, .. }] = comparison.failures[..] else { panic!("{comparison:?}") };
    assert_eq!(worst.query, 5);
    lse[5] = f32::NAN;
    let comparison = compare(&reference, &output, Some(&lse), Tolerance::new(Dtype::Fp16, Weights::Half));
    assert!(!comparison.passed());
}

#[test]
fn fp8_errors_of_kernel_and_quantisation_are_separate() {
    let problem = problem().with_dtype(Dtype::E4m3);
    let original = Inputs::generate(&problem, Class::Normal, 1);
    let (decoded, output, _) = solved(problem, Class::Normal);
    let original = oracle::attention(&problem, &original, Rows::all(&problem));
    let comparison = compare(&decoded, &output, None, Tolerance::new(Dtype::E4m3, Weights::Half));
    let errors = Fp8Errors::new(&comparison, &decoded, &original);
    assert!(errors.kernel < 5e-4 && (1e-2..1e-1).contains(&errors.quantisation), "{errors:?}");
}

/// The largest f32 whose magnitude is at most that of `x`, as tensor cores round their sums.
fn truncated(x: f64) -> f32 {
    let nearest = x as f32;
    let too_large = f64::from(nearest).abs() > x.abs();
    if too_large { f32::from_bits(nearest.to_bits() - 1) } else { nearest }
}

/// An honest kernel's output and LSE: fp32 sums that are truncated after every 16 products, weights in fp16.
/// `change` may falsify the scores.
fn in_single_precision(
    problem: &Problem,
    inputs: &Inputs,
    change: impl Fn(f32) -> f32,
) -> (Tensor, Vec<f32>) {
    let width = problem.head_dim;
    let (mut data, mut lse) = (Vec::new(), Vec::new());
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|values| values.head(0, 0));
    for (index, query) in q.chunks_exact(width).enumerate() {
        let score = |key: &[f32]| {
            let pieces = query.chunks(16).zip(key.chunks(16));
            pieces.fold(0.0, |sum, (a, b)| {
                let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
                truncated(f64::from(sum) + products.sum::<f64>())
            })
        };
        let visible = k.chunks_exact(width).take(problem.visible(problem.seq_k, index).end);
        let scores: Vec<f32> = visible.map(|key| change(score(key)) * problem.softmax_scale()).collect();
        let maximum = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = scores.iter().map(|score| (score - maximum).exp()).collect();
        let sum: f32 = weights.iter().sum();
        lse.push(maximum + sum.ln());
        let mut output = vec![0.0_f32; width];
        for (weight, value) in weights.iter().zip(v.chunks_exact(width)) {
            let weight = codec::f16_to_f32(codec::f32_to_f16_rn(*weight));
            output.iter_mut().zip(value).for_each(|(x, v)| *x += weight * v);
        }
        data.extend(output.iter().map(|x| x / sum));
    }
    let values = Values { shape: problem.query_shape(), data, scales: None };
    (Tensor::encode(&values, problem.output, Layout::Bhsd), lse)
}

/// Large inputs. If `ties`, every other key has the score of its neighbour, but other sums on the way to it.
fn large_inputs(problem: &Problem, ties: bool, seed: u64) -> Inputs {
    let mut inputs = Inputs::generate(problem, Class::Large, seed);
    if ties {
        inputs.q.data.fill(60.0);
        for pair in inputs.k.data.chunks_exact_mut(2 * problem.head_dim) {
            let (key, other) = pair.split_at_mut(problem.head_dim);
            other.iter_mut().zip(key.iter().rev()).for_each(|(x, y)| *x = *y);
        }
    }
    inputs.encode(problem.dtype, Layout::Bhsd).decode()
}

#[test]
fn honest_single_precision_passes_with_large_cancelling_scores() {
    let (mut needed_by_lse, mut needed_by_output) = (0, 0);
    for (name, ties) in
        [("b1h1s24d256-causal-fp16", false), ("b1h1s33d64-fp16", false), ("b1h1s24d256-fp16", true)]
    {
        let problem: Problem = name.parse().expect("a valid name");
        let tolerance = Tolerance::new(problem.dtype, Weights::Half);
        for seed in 0..500 {
            let inputs = large_inputs(&problem, ties, seed);
            let mut reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
            let failures = |reference: &Reference, change: &dyn Fn(f32) -> f32| {
                let (output, lse) = in_single_precision(&problem, &inputs, change);
                compare(reference, &output, Some(&lse), tolerance).failures
            };
            assert_eq!(failures(&reference, &|score| score), [], "{name} {seed}");
            // Scores that were rounded to fp16 are refused. (With ties all rows are alike and may be lucky.)
            let rounded = |score: f32| codec::f16_to_f32(codec::f32_to_f16_rn(score / 8.0)) * 8.0;
            assert!(ties || !failures(&reference, &rounded).is_empty(), "{name} {seed}");
            // Without the allowance some honest results would be refused.
            reference.rounding.fill(oracle::Rounding::default());
            for failure in failures(&reference, &|score| score) {
                match failure {
                    Mismatch::Lse { .. } => needed_by_lse += 1,
                    _ => needed_by_output += 1,
                }
            }
        }
    }
    assert!(needed_by_lse > 0 && needed_by_output > 0, "{needed_by_lse} {needed_by_output}");
}

/// The scores of all keys are about -ln of their number, so the log-sum-exp is near 0, and what tensor cores cut from every
/// score remains. The first column has nearly the whole score, so every later product is cut at its size.
#[test]
fn honest_single_precision_passes_where_scores_and_their_number_cancel() {
    let problem: Problem = "b1h1sq1sk3000d256-fp16".parse().expect("a valid name");
    let tolerance = Tolerance::new(problem.dtype, Weights::Half);
    let wanted = (problem.seq_k as f32).ln();
    let mut needed = 0;
    for seed in 0..10 {
        let mut inputs = Inputs::generate(&problem, Class::Normal, seed);
        for (tensor, first) in [(&mut inputs.q, 16.0), (&mut inputs.k, -wanted)] {
            for row in tensor.data.chunks_exact_mut(problem.head_dim) {
                for x in &mut *row {
                    *x *= 0.25;
                }
                row[0] = first;
            }
        }
        let inputs = inputs.encode(problem.dtype, Layout::Bhsd).decode();
        let mut reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
        let (output, lse) = in_single_precision(&problem, &inputs, |score| score);
        let failures =
            |reference: &Reference, lse: f32| compare(reference, &output, Some(&[lse]), tolerance).failures;
        assert_eq!(failures(&reference, lse[0]), [], "{seed}");
        assert!(!failures(&reference, lse[0] + 1e-4).is_empty(), "{seed}");
        // Without the allowance for cuts some honest results would be refused.
        reference.rounding[0].lse = 2.0_f64.powi(-21) * f64::from(wanted);
        needed += usize::from(!failures(&reference, lse[0]).is_empty());
    }
    assert!(needed > 0);
}
