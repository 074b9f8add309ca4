//! Accumulation as the tensor cores do it: groups of products added as integers on a common exponent.

use super::Mma;
use super::product::Tile;
use crate::num::Round;
use crate::num::exact::{self, Exact};

/// `sums += p · q` in groups of `group` products, the terms cut `bits` bits below the largest exponent.
pub(super) fn multiply(tile: &mut Tile, _op: &Mma, group: u16, bits: u8) {
    for row in 0..tile.rows {
        for col in 0..tile.cols {
            let mut sum = tile.sums[row * tile.cols + col];
            for start in (0..tile.depth).step_by(usize::from(group)) {
                let end = (start + usize::from(group)).min(tile.depth);
                let pairs = (start..end).map(|k| (tile.p[row * tile.depth + k], tile.q[k * tile.cols + col]));
                sum = add_group(sum, pairs, i32::from(bits));
            }
            tile.sums[row * tile.cols + col] = sum;
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
