//! Accumulation as the tensor cores do it: groups of products added as integers on a common exponent.

use super::{Accumulation, Mma};
use crate::num::Round;
use crate::num::exact::{self, Exact};

/// `sums += p · q` by the model.
pub(super) fn multiply<const R: usize, const C: usize, const K: usize>(
    model: Accumulation,
    _op: &Mma,
    p: &[[f32; K]; R],
    q: &[[f32; C]; K],
    sums: &mut [[f32; C]; R],
) {
    let Accumulation::Aligned { group, bits } = model else { return };
    let (group, bits) = (usize::from(group), i32::from(bits));
    for row in 0..R {
        for col in 0..C {
            let mut sum = sums[row][col];
            for start in (0..K).step_by(group) {
                let end = (start + group).min(K);
                sum = add_group(sum, (start..end).map(|k| (p[row][k], q[k][col])), bits);
            }
            sums[row][col] = sum;
        }
    }
}

/// Exponent of a term, the product's taken from its factors' exponents (not renormalised), and its exact value.
fn add_group(sum: f32, pairs: impl Iterator<Item = (f32, f32)> + Clone, bits: i32) -> f32 {
    let special = pairs.clone().any(|(x, y)| !x.is_finite() || !y.is_finite()) || !sum.is_finite();
    if special {
        return pairs.fold(sum, |s, (x, y)| x.mul_add(y, s));
    }
    let top = pairs.clone().map(|(x, y)| exponent(x) + exponent(y)).fold(exponent(sum), i32::max);
    if top < -1000 {
        return sum + 0.0;
    }
    let unit = top - bits;
    let total = pairs.fold(cut(f64::from(sum), unit), |t, (x, y)| t + cut(f64::from(x) * f64::from(y), unit));
    if total == 0 {
        return 0.0;
    }
    let x = Exact { neg: total < 0, mant: total.unsigned_abs().into(), exp: unit };
    f32::from_bits(exact::encode(exact::F32, x, Round::Zero, false) as u32)
}

/// Exponent of the leading bit's place as the datapath sees it: subnormals share the least one, zero has none.
fn exponent(x: f32) -> i32 {
    let field = (x.to_bits() >> 23 & 0xff) as i32;
    if x == 0.0 { i32::MIN / 2 } else { field.max(1) - 127 }
}

/// A value in units of `2^unit`, towards zero. Terms are below 2^60 units.
fn cut(x: f64, unit: i32) -> i64 {
    (x * f64::exp2(f64::from(-unit))) as i64
}
