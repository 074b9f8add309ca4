//! Compares gradients with the reference.
//!
//! The limits follow FlashAttention-3's rule: twice the error of an implementation in 16 bits, and a small constant. That
//! implementation rounds P and dS to the type, and keeps dP; its errors are computed from the inputs (`oracle::GradientRounding`).
//! They hold for the L2 error of every row and of each gradient. The constant is one rounding: if all weights of a row are
//! equal, all have the same error. What fp32 sums and numbers below the type's smallest can lose is added.

use op::{Complaint, JudgedRow, Judgement, share_of};

use crate::oracle::{Gradient, GradientRounding, Gradients, key_rows};
use crate::problem::{Dtype, Problem};
use crate::tensor::{Layout, Tensor};

/// The names of the gradients, in the order of the outputs.
pub(super) const NAMES: [&str; 3] = ["dQ", "dK", "dV"];

/// Multiples of the error of an implementation in 16 bits, and of one rounding.
const MULTIPLE: f64 = 2.0;
const ROUNDINGS: f64 = 1.0;
/// Multiple of what is lost below the smallest number.
const LOST: f64 = 1.25;

/// Half the distance from 1 to the next number, and half that between the smallest numbers.
fn unit_and_half_step(dtype: Dtype) -> (f64, f64) {
    let power = |exponent: i32| 2.0_f64.powi(exponent);
    match dtype {
        Dtype::Bf16 => (power(-8), power(-134)),
        Dtype::Fp16 | Dtype::E4m3 => (power(-11), power(-25)),
    }
}

/// The limit of the L2 error of a row, or of a whole gradient.
fn limit((unit, half_step): (f64, f64), norm: f64, elements: usize, rounding: &GradientRounding) -> f64 {
    let GradientRounding { spread, lost, fp32 } = *rounding;
    // Rounding the result.
    let own = unit * norm / 3.0_f64.sqrt();
    let below = if norm > 0.0 { half_step * (elements as f64).sqrt() } else { 0.0 };
    MULTIPLE * spread.hypot(own) + ROUNDINGS * unit * norm + LOST * lost + fp32 + below
}

/// The comparison of one gradient.
struct GradientErrors {
    error: f64,
    limit: f64,
    share: f64,
    worst: f64,
    worst_row: Option<(f64, JudgedRow)>,
    compared: usize,
    elements: usize,
    complaints: Vec<Complaint>,
}

fn complaint(kind: &str, message: String) -> Complaint {
    Complaint { kind: kind.to_owned(), message }
}

/// `rows` is the problem whose query rows are the rows of the gradient.
fn compare(name: &str, gradient: &Gradient, tensor: &Tensor) -> GradientErrors {
    let shape = tensor.shape;
    let width = shape.head_dim;
    let got = tensor.decode().data;
    let format = unit_and_half_step(tensor.dtype);
    let mut complaints = Vec::new();
    let bad: Vec<usize> =
        got.iter().enumerate().filter(|(_, x)| !x.is_finite()).map(|(index, _)| index).collect();
    let (unwritten, wrong): (Vec<usize>, Vec<usize>) =
        bad.into_iter().partition(|&index| tensor.is_poison(index));
    let place = |index: usize| {
        let (row, column) = (index / width, index % width);
        let (head, position) = (row / shape.seq, row % shape.seq);
        format!("batch {}, head {}, row {position}, column {column}", head / shape.heads, head % shape.heads)
    };
    if let Some(&first) = unwritten.first() {
        let count = unwritten.len();
        complaints.push(complaint(
            "unwritten",
            format!("{name}: {count} elements were not written, the first at {}", place(first)),
        ));
    }
    if let Some(&first) = wrong.first() {
        let (count, value) = (wrong.len(), got[first]);
        complaints.push(complaint(
            "non-finite",
            format!("{name}: {count} elements are not finite, the first is {value} at {}", place(first)),
        ));
    }
    let is_finite = complaints.is_empty();

    let (mut squares, mut wanted_squares, mut spread, mut worst) = (0.0, 0.0, 0.0, 0.0_f64);
    let mut bounds = 0.0;
    let mut worst_row: Option<(f64, JudgedRow)> = None;
    let mut rows_beyond = 0;
    let rows = gradient.rows.list().iter().zip(gradient.values.chunks_exact(width)).zip(&gradient.rounding);
    for ((row, wanted), rounding) in rows {
        let index = (row.batch * shape.heads + row.head) * shape.seq + row.query;
        let (mut error, mut norm) = (0.0, 0.0);
        for (got, wanted) in got[index * width..][..width].iter().zip(wanted) {
            let difference = f64::from(*got) - wanted;
            error += difference * difference;
            norm += wanted * wanted;
            worst = worst.max(difference.abs());
        }
        squares += error;
        wanted_squares += norm;
        spread += rounding.spread * rounding.spread;
        bounds += (LOST * rounding.lost + rounding.fp32).powi(2);
        let (error, norm): (f64, f64) = (error.sqrt(), norm.sqrt());
        let allowed = limit(format, norm, width, rounding);
        let share = share_of(error, allowed);
        rows_beyond += usize::from(share > 1.0);
        if worst_row.as_ref().is_none_or(|(worst, _)| share > *worst) {
            let at = format!("{name} of batch {}, head {}, row {}", row.batch, row.head, row.query);
            worst_row = Some((share, JudgedRow { row: at, error: error / norm, limit: allowed / norm }));
        }
    }
    let (error, norm): (f64, f64) = (squares.sqrt(), wanted_squares.sqrt());
    let whole = GradientRounding { spread: spread.sqrt(), lost: 0.0, fp32: bounds.sqrt() };
    let allowed = limit(format, norm, gradient.values.len(), &whole);
    let share = share_of(error, allowed).max(worst_row.as_ref().map_or(0.0, |(share, _)| *share));
    if is_finite && share_of(error, allowed) > 1.0 {
        let message = format!("{name}: relative L2 error {:.2e}, limit {:.2e}", error / norm, allowed / norm);
        complaints.push(complaint("l2", message));
    }
    if let Some((_, row)) = worst_row.as_ref().filter(|_| is_finite && rows_beyond > 0) {
        let JudgedRow { row, error, limit } = row;
        complaints.push(complaint(
            "rows",
            format!(
                "{name}: {rows_beyond} rows exceed their limit, the worst is {row}: relative L2 error {error:.2e}, limit \
                 {limit:.2e}"
            ),
        ));
    }
    GradientErrors {
        error: if error == 0.0 { 0.0 } else { error / norm },
        limit: if norm == 0.0 { 0.0 } else { allowed / norm },
        share: if is_finite { share } else { f64::INFINITY },
        worst,
        worst_row: worst_row.filter(|_| is_finite),
        compared: gradient.values.len(),
        elements: shape.elements(),
        complaints,
    }
}

/// The three outputs as tensors.
fn tensors(gradients: &Gradients, layout: Layout, outputs: &[Vec<u8>]) -> Vec<Tensor> {
    let problem = &gradients.problem;
    let shapes = [problem.query_shape(), problem.key_shape(), problem.key_shape()];
    let tensor = |(shape, bytes): (_, &Vec<u8>)| Tensor {
        bytes: bytes.clone(),
        ..Tensor::poisoned(shape, problem.dtype, layout)
    };
    debug_assert_eq!(key_rows(problem).query_shape(), problem.key_shape());
    shapes.into_iter().zip(outputs).map(tensor).collect()
}

/// Compares the outputs dQ, dK and dV with the reference.
pub(super) fn judge(gradients: &Gradients, layout: Layout, outputs: &[Vec<u8>]) -> Judgement {
    let tensors = tensors(gradients, layout, outputs);
    let compared: Vec<GradientErrors> = NAMES
        .iter()
        .zip(&gradients.of)
        .zip(&tensors)
        .map(|((name, gradient), tensor)| compare(name, gradient, tensor))
        .collect();
    let by_share = |a: &&GradientErrors, b: &&GradientErrors| a.share.total_cmp(&b.share);
    let worst = compared.iter().max_by(by_share);
    let bits = gradients.problem.dtype.significant_bits();
    Judgement {
        error: worst.map_or(f64::INFINITY, |it| it.error),
        limit: worst.map_or(0.0, |it| it.limit),
        worst: compared.iter().map(|it| it.worst).fold(0.0, f64::max),
        worst_row: worst.and_then(|it| it.worst_row.as_ref()).map(|(_, row)| row.clone()),
        share: worst.map_or(f64::INFINITY, |it| it.share),
        roundings: worst.map(|it| op::roundings(it.error, bits)),
        quantisation: None,
        compared: compared.iter().map(|it| it.compared).sum(),
        elements: compared.iter().map(|it| it.elements).sum(),
        complaints: compared.into_iter().flat_map(|it| it.complaints).collect(),
    }
}

/// Whether the outputs are equal although some row of the references differs by more than both limits.
pub(super) fn is_independent(before: (&Gradients, &[Vec<u8>]), after: (&Gradients, &[Vec<u8>])) -> bool {
    let Problem { head_dim, dtype, .. } = before.0.problem;
    let rows = |gradient: &'_ Gradient| -> Vec<(Vec<f64>, f64)> {
        let rows = gradient.values.chunks_exact(head_dim).zip(&gradient.rounding);
        let with_limit = |(row, rounding): (&[f64], &GradientRounding)| {
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            (row.to_vec(), limit(unit_and_half_step(dtype), norm, head_dim, rounding))
        };
        rows.map(with_limit).collect()
    };
    let differs = |(a, b): (&Gradient, &Gradient)| {
        rows(a).iter().zip(&rows(b)).any(|((a, a_limit), (b, b_limit))| {
            let difference = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
            difference > 2.0 * (a_limit + b_limit)
        })
    };
    before.0.of.iter().zip(&after.0.of).any(differs) && before.1 == after.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backward::BackwardInputs;
    use crate::inputs::Class;
    use crate::tensor::Values;

    fn answer(gradients: &Gradients, layout: Layout) -> Vec<Vec<u8>> {
        let problem = &gradients.problem;
        let shapes = [problem.query_shape(), problem.key_shape(), problem.key_shape()];
        let encode = |(shape, gradient): (_, &Gradient)| {
            let data = gradient.values.iter().map(|&x| x as f32).collect();
            Tensor::encode(&Values { shape, data, scales: None }, problem.dtype, layout).bytes
        };
        shapes.into_iter().zip(&gradients.of).map(encode).collect()
    }

    #[test]
    fn the_rounded_reference_passes_and_small_faults_do_not() {
        for name in ["b1h4kv2sq40sk33d64-causal-fp16", "b2h2s35d64-bf16"] {
            let problem: Problem = name.parse().unwrap();
            for class in crate::backward::CLASSES {
                let inputs = BackwardInputs::generate(&problem, class, 3, Layout::Bshd);
                let gradients = inputs.gradients(u64::MAX, 0);
                let right = answer(&gradients, Layout::Bshd);
                let judgement = judge(&gradients, Layout::Bshd, &right);
                assert_eq!(judgement.complaints, [], "{name} {class}");
                assert!(judgement.share <= 0.7, "{name} {class} {}", judgement.share);
            }
            let inputs = BackwardInputs::generate(&problem, Class::Normal, 3, Layout::Bhsd);
            let gradients = inputs.gradients(u64::MAX, 0);
            // One row of one gradient is 4% too large.
            for (which, gradient) in NAMES.into_iter().enumerate() {
                let mut wrong = gradients.clone();
                wrong.of[which].values[20 * 64..21 * 64].iter_mut().for_each(|x| *x *= 1.04);
                let judgement = judge(&gradients, Layout::Bhsd, &answer(&wrong, Layout::Bhsd));
                let kinds: Vec<&str> = judgement.complaints.iter().map(|it| it.kind.as_str()).collect();
                assert_eq!(kinds.last(), Some(&"rows"), "{name} {gradient}");
                assert!(judgement.complaints[0].message.starts_with(gradient), "{judgement:?}");
            }
            let mut missing = answer(&gradients, Layout::Bhsd);
            missing[1][..2].copy_from_slice(&crate::tensor::POISON.to_le_bytes());
            let judgement = judge(&gradients, Layout::Bhsd, &missing);
            assert_eq!(judgement.complaints[0].kind, "unwritten");
            assert!(judgement.share.is_infinite());
        }
    }
}
