//! The sums of FP8 products in `wgmma`, bit for bit as on an H200.
//!
//! One instruction adds 32 products to the running sum. All 33 terms are aligned to the largest exponent among them and
//! cut towards zero 13 bits below it. They are added without further loss, and the total is cut to 13 fraction bits. The
//! exponent of a product is the sum of the exponents of its factors, without the carry of its significand; subnormal
//! factors count with the least exponent of their format.
//!
//! FIDELITY.md has the measurement: every one of the compared results has the same bits.

use super::Elem;
use super::aligned::{SPECIAL, ZERO, exponent};
use crate::num::simd::per_isa;

/// Number of products of one instruction.
const K: usize = 32;

/// Bits that are kept below the largest exponent, and fraction bits of a sum.
const BITS: i32 = 13;

/// Bits of an f32 below the kept fraction bits.
const LOW_BITS: u32 = (1 << (23 - BITS)) - 1;

/// Largest exponents for which every power of two below is a normal f32.
const USUAL: std::ops::RangeInclusive<i32> = -100..=120;

/// The least exponent of a factor of this type.
pub(super) fn least(elem: Elem) -> i32 {
    if elem == Elem::E4m3 { -6 } else { -14 }
}

/// The exponents of factors.
pub(super) fn exponents<const N: usize>(x: &[f32; N], least: i32) -> [i32; N] {
    x.map(|x| exponent(x, least))
}

/// Numbers with their exponents.
pub(super) struct Factors<'a, const N: usize> {
    pub numbers: &'a [f32; N],
    pub exponents: &'a [i32; N],
}

/// Adds the products of a row of A with sixteen columns of B to sixteen sums.
#[inline(always)]
pub(super) fn add_row(
    a: &Factors<K>,
    b: &[[f32; 16]; K],
    b_exponents: &[[i32; 16]; K],
    sums: &mut [f32; 16],
) {
    let mut top = sums.map(|sum| exponent(sum, -126));
    for k in 0..K {
        for col in 0..16 {
            top[col] = top[col].max(a.exponents[k] + b_exponents[k][col]);
        }
    }
    let mut usual = true;
    let mut scale = [0.0; 16];
    let mut unscale = [0.0; 16];
    for col in 0..16 {
        // If all terms are zero, any unit is correct.
        let e = if top[col] < ZERO / 2 { 0 } else { top[col] };
        usual &= USUAL.contains(&e);
        let unit = e.clamp(*USUAL.start(), *USUAL.end()) - BITS;
        scale[col] = f32::from_bits(((127 - unit) as u32) << 23);
        unscale[col] = f32::from_bits(((127 + unit) as u32) << 23);
    }
    if !usual {
        for col in 0..16 {
            let terms = (0..K).map(|k| (a.numbers[k], b[k][col]));
            sums[col] = add_slowly(sums[col], terms, top[col]);
        }
        return;
    }
    // A term has at most 16 bits, and 33 of them at most 22: an f32 represents their sum.
    let mut total = [0i32; 16];
    for col in 0..16 {
        total[col] = cut(sums[col] * scale[col]);
    }
    for k in 0..K {
        for col in 0..16 {
            total[col] += cut(a.numbers[k] * b[k][col] * scale[col]);
        }
    }
    for col in 0..16 {
        let kept = (total[col] as f32).to_bits() & !LOW_BITS;
        sums[col] = f32::from_bits(kept) * unscale[col];
    }
}

/// Up to sixteen vectors of E4M3 numbers, for their products with other vectors.
#[derive(Clone, Debug, Default)]
pub struct E4m3Columns {
    /// For every 32 elements, 32 rows of sixteen columns; missing numbers are zeros.
    numbers: Vec<[f32; 16]>,
    exponents: Vec<[i32; 16]>,
}

/// Sums of products of E4M3 numbers, one for each vector of [`E4m3Columns`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct E4m3Sums {
    /// All products are added to one sum, as instructions with accumulators do.
    pub joined: [f32; 16],
    /// Every 32 products have a sum of their own; these sums are added in f32.
    pub apart: [f32; 16],
}

impl E4m3Columns {
    /// Sets the vectors, which are consecutive and have `width` elements each.
    pub fn set(&mut self, vectors: &[f32], width: usize) {
        debug_assert!(vectors.len() <= 16 * width, "more than sixteen vectors");
        self.numbers.clear();
        self.numbers.resize(width.next_multiple_of(K), [0.0; 16]);
        for (column, vector) in vectors.chunks_exact(width).enumerate() {
            self.numbers.iter_mut().zip(vector).for_each(|(row, number)| row[column] = *number);
        }
        self.exponents.clear();
        self.exponents.extend(self.numbers.iter().map(|row| exponents(row, least(Elem::E4m3))));
    }

    /// The sums of the products with this vector, as `wgmma` computes them on an H200.
    pub fn sums(&self, with: &[f32]) -> E4m3Sums {
        let mut sums = E4m3Sums::default();
        add_vector(self, with, &mut sums);
        sums
    }
}

#[inline(always)]
fn add_vector_body<const F16C: bool>(columns: &E4m3Columns, with: &[f32], sums: &mut E4m3Sums) {
    let columns = columns.numbers.as_chunks::<K>().0.iter().zip(columns.exponents.as_chunks::<K>().0);
    for (part, (b, b_exponents)) in with.chunks(K).zip(columns) {
        let mut numbers = [0.0; K];
        numbers[..part.len()].copy_from_slice(part);
        let a = Factors { numbers: &numbers, exponents: &exponents(&numbers, least(Elem::E4m3)) };
        add_row(&a, b, b_exponents, &mut sums.joined);
        let mut alone = [0.0; 16];
        add_row(&a, b, b_exponents, &mut alone);
        sums.apart.iter_mut().zip(alone).for_each(|(sum, part)| *sum += part);
    }
}

per_isa! {
    fn add_vector = add_vector_body where (columns: &E4m3Columns, with: &[f32], sums: &mut E4m3Sums);
}

/// Drops the fraction of a number that an i32 can hold.
#[inline(always)]
fn cut(x: f32) -> i32 {
    // SAFETY: the caller's numbers are below 2^17, because a unit is 2^-13 of the largest term's exponent.
    unsafe { x.to_int_unchecked() }
}

/// Does the same for one sum with any terms.
#[cold]
fn add_slowly(sum: f32, terms: impl Iterator<Item = (f32, f32)>, top: i32) -> f32 {
    if top > SPECIAL / 2 {
        return terms.fold(sum, |sum, (x, y)| x.mul_add(y, sum));
    }
    let unit = if top < ZERO / 2 { 0 } else { top - BITS };
    let scaled = |x: f64| (x * f64::exp2(f64::from(-unit))).trunc();
    let total = terms.fold(scaled(f64::from(sum)), |t, (x, y)| t + scaled(f64::from(x) * f64::from(y)));
    let kept = (total as f32).to_bits() & !LOW_BITS;
    (f64::from(f32::from_bits(kept)) * f64::exp2(f64::from(unit))) as f32
}

#[cfg(test)]
mod tests;
