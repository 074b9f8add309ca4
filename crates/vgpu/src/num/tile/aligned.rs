//! Accumulation as in tensor cores. The products of a group and the running sum are aligned to the largest exponent
//! among them, cut towards zero and added as integers. The total is cut to f32 (or rounded to f16).
//!
//! The exponent of a product is the sum of the exponents of its factors, without the carry of its significand. A term
//! in units of the last kept bit has at most 27 bits, so a row of D is summed in vectors of 32-bit integers. A slow
//! path handles infinities, NaNs, and exponents at which f32 cannot hold the products.

use super::{Accumulation, Elem, Mma, vector};
use crate::num::codec;
use crate::num::simd::per_isa;

/// mma.sync on sm_90 adds groups of 16 products and keeps 25 bits below the largest exponent.
const HOPPER_GROUP: usize = 16;
const HOPPER_BITS: i32 = 25;

/// The largest number of products per element of a floating-point tile.
const DEPTH: usize = 32;

/// The operands and sums of a tile. `p` has rows of `depth` elements. `q` has `depth` rows of the first eight
/// columns, then `depth` rows of the next eight. A row of `sums` has as many columns as `q`.
pub(super) struct Tile<'a> {
    pub p: &'a [f32],
    pub q: &'a [[f32; 8]],
    pub sums: &'a mut [f32],
    pub depth: usize,
}

/// The adder of one instruction.
#[derive(Clone, Copy)]
struct Adder {
    group: usize,
    bits: i32,
    /// Whether results are f16. A sum that was cut then has its lowest bit set, so that rounding to f16 accounts for
    /// the cut bits.
    half: bool,
    /// Whether the FP8 product is emulated, because sm_90 has no FP8 mma.sync. The operands become f16. One f16
    /// product takes the first two of every four elements along k. A second product takes the other two. Both start
    /// at zero, and c is added at the end.
    emulated: bool,
    /// The smallest exponent of a factor. Subnormals of the format of the operand are not normalised first.
    least: i32,
}

impl Adder {
    fn new(op: &Mma, depth: usize) -> Self {
        // If c is f32, the sum is computed as f32 and converted to f16 afterwards.
        let half = op.c == Elem::F16 && op.d == Elem::F16;
        let least = match op.a {
            Elem::F16 | Elem::E4m3 | Elem::E5m2 => -14,
            _ => -126,
        };
        match op.accumulation {
            Accumulation::Aligned { group, bits } => {
                let (group, bits) = (usize::from(group).max(1), i32::from(bits).min(HOPPER_BITS));
                Self { group, bits, half, emulated: false, least }
            }
            Accumulation::F32 | Accumulation::Hopper => {
                let emulated = matches!(op.a, Elem::E4m3 | Elem::E5m2);
                let group = match op.a {
                    _ if emulated => depth / 2,
                    Elem::Tf32 if op.wmma => 4,
                    _ => HOPPER_GROUP,
                };
                Self { group, bits: HOPPER_BITS, half, emulated, least }
            }
        }
    }
}

/// The factors of a row and of eight columns with their exponents, in the order in which the adder takes them.
struct Factors {
    p: [f32; DEPTH],
    p_exp: [i32; DEPTH],
    q: [[f32; 8]; DEPTH],
    q_exp: [[i32; 8]; DEPTH],
}

/// `sums += p · q`.
#[inline(always)]
fn body<const F16C: bool>(op: &Mma, tile: &mut Tile) {
    let depth = tile.depth;
    let adder = Adder::new(op, depth);
    // The emulated product takes two of every four elements first. Other products take all in order.
    let source = |k: usize| {
        if adder.emulated {
            let (part, k) = (k / (depth / 2), k % (depth / 2));
            k / 2 * 4 + k % 2 + 2 * part
        } else {
            k
        }
    };
    let mut f = Factors { p: [0.0; DEPTH], p_exp: [0; DEPTH], q: [[0.0; 8]; DEPTH], q_exp: [[0; 8]; DEPTH] };
    let parts = tile.q.len() / depth;
    for (part, q) in tile.q.chunks_exact(depth).enumerate() {
        for k in 0..depth {
            f.q[k] = q[source(k)];
            for col in 0..8 {
                f.q_exp[k][col] = exponent(f.q[k][col], adder.least);
            }
        }
        let sums = tile.sums.as_chunks_mut::<8>().0.iter_mut().skip(part).step_by(parts);
        for (p, sums) in tile.p.chunks_exact(depth).zip(sums) {
            for k in 0..depth {
                f.p[k] = p[source(k)];
                f.p_exp[k] = exponent(f.p[k], adder.least);
            }
            let mut total = if adder.emulated { [0.0; 8] } else { *sums };
            for start in (0..depth).step_by(adder.group) {
                add_group::<F16C>(&mut total, &f, start, (start + adder.group).min(depth), adder);
                if adder.emulated && adder.half {
                    round_to_half(&mut total);
                }
            }
            for (sum, total) in sums.iter_mut().zip(total) {
                *sum = if adder.emulated { *sum + total } else { total };
            }
        }
    }
}

per_isa! {
    pub(super) fn multiply = body where (op: &Mma, tile: &mut Tile);
}

#[inline(always)]
fn round_to_half(x: &mut [f32; 8]) {
    for x in x {
        *x = codec::f16_to_f32(codec::f32_to_f16_rn(*x));
    }
}

/// Adds one group to eight sums of a row.
#[inline(always)]
fn add_group<const F16C: bool>(sums: &mut [f32; 8], f: &Factors, start: usize, end: usize, adder: Adder) {
    let mut top = [0; 8];
    for col in 0..8 {
        top[col] = exponent(sums[col], -126);
    }
    let top = vector::largest_sum::<F16C>(&f.p_exp[start..end], &f.q_exp[start..end], top);
    // If all terms are zero, any unit is correct.
    let mut easy = true;
    let mut scale = [0f32; 8];
    let mut unscale = [0f64; 8];
    for col in 0..8 {
        let e = if top[col] < ZERO / 2 { 0 } else { top[col] };
        easy &= e.abs() < 90;
        let unit = (e - adder.bits).clamp(-120, 120);
        scale[col] = f32::from_bits(((127 - unit) as u32) << 23);
        unscale[col] = f64::from_bits(((1023 + unit) as u64) << 52);
    }
    if !easy {
        for col in 0..8 {
            sums[col] = add_slowly(sums[col], (start..end).map(|k| (f.p[k], f.q[k][col])), top[col], adder);
        }
        return;
    }
    // A product has at most 27 bits and a sum of eight products at most 30. The sums of eight are added in f64.
    let first = vector::cut_sum::<F16C>(&[1.0], &[*sums], scale);
    let mut total = first.map(f64::from);
    for (p, q) in f.p[start..end].chunks(8).zip(f.q[start..end].chunks(8)) {
        let part = vector::cut_sum::<F16C>(p, q, scale);
        for col in 0..8 {
            total[col] += f64::from(part[col]);
        }
    }
    for col in 0..8 {
        sums[col] = cut(total[col] * unscale[col], adder.half);
    }
}

/// Does the same for one sum with any terms.
#[cold]
fn add_slowly(sum: f32, terms: impl Iterator<Item = (f32, f32)>, top: i32, adder: Adder) -> f32 {
    if top > SPECIAL / 2 {
        return terms.fold(sum, |sum, (x, y)| x.mul_add(y, sum));
    }
    // f64 represents every product and every total exactly: 32 terms of 27 bits.
    let unit = if top < ZERO / 2 { 0 } else { top - adder.bits };
    let scaled = |x: f64| (x * f64::exp2(f64::from(-unit))).trunc();
    let total = terms.fold(scaled(f64::from(sum)), |t, (x, y)| t + scaled(f64::from(x) * f64::from(y)));
    cut(total * f64::exp2(f64::from(unit)), adder.half)
}

/// Substitutes for the exponents of zero, and of infinity and NaN. The sum of a substitute and any other exponent can
/// still be recognised.
pub(super) const ZERO: i32 = -100_000;
pub(super) const SPECIAL: i32 = 1_000_000;

/// Returns the exponent of a term or factor. Subnormals have the exponent of the smallest normal number.
#[inline(always)]
pub(super) fn exponent(x: f32, least: i32) -> i32 {
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let field = (magnitude >> 23) as i32;
    let e = (field - 127).max(least);
    let e = if magnitude == 0 { ZERO } else { e };
    if field == 255 { SPECIAL } else { e }
}

/// Rounds to f32 towards zero. With `sticky`, the lowest bit is set if that changed the value. A sum of zero is +0.
#[inline(always)]
fn cut(x: f64, sticky: bool) -> f32 {
    let near = x as f32;
    let wide = f64::from(near).abs();
    // Step one code towards zero. From infinity this gives the largest number.
    let bits = near.to_bits().wrapping_sub(u32::from(wide > x.abs()));
    let bits = bits | u32::from(sticky && wide != x.abs());
    f32::from_bits(if x == 0.0 { 0 } else { bits })
}

#[cfg(test)]
mod tests;
