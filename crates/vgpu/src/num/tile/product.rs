//! Tile products.
//!
//! Operands are decoded to f32 once. The operand with stacked blocks becomes rows along k. The other operand is
//! transposed, so that a row of D is a vector. All sizes are known at compile time, and the data stays in L1 and in
//! vector registers. Integer tiles use the same code: their sums of products stay below 2^24, so f32 represents them
//! exactly.

use super::decode::{self, stacked_block};
use super::{Accumulation, BitOp, Elem, Mma, aligned, vector};
use crate::num::codec;
use crate::num::simd::per_isa;
use crate::num::{Lanes, Lanes64, NAN_F32};

pub(super) fn is_supported(op: &Mma) -> bool {
    use Elem::{B1, Bf16, E4m3, E5m2, F16, F32, F64, S4, S8, S32, Tf32, U4, U8};
    let shape = (op.shape.m, op.shape.n, op.shape.k);
    let float_sums = |half: bool| {
        matches!(op.c, F32) && op.d == F32 || half && matches!(op.c, F16 | F32) && matches!(op.d, F16 | F32)
    };
    let integer_sums = op.c == S32 && op.d == S32;
    let square = matches!(shape, (16, 16, 16) | (32, 8, 16) | (8, 32, 16));
    match (op.a, op.b) {
        (F16, F16) => float_sums(true) && if op.wmma { square } else { matches!(shape, (16, 8, 8 | 16)) },
        (Bf16, Bf16) => float_sums(false) && if op.wmma { square } else { matches!(shape, (16, 8, 8 | 16)) },
        (Tf32, Tf32) => {
            float_sums(false) && if op.wmma { shape == (16, 16, 8) } else { matches!(shape, (16, 8, 4 | 8)) }
        }
        (E4m3 | E5m2, E4m3 | E5m2) => {
            !op.wmma && float_sums(true) && op.c == op.d && matches!(shape, (16, 8, 16 | 32))
        }
        (S8 | U8, S8 | U8) => {
            integer_sums
                && if op.wmma {
                    op.a == op.b && square
                } else {
                    matches!(shape, (8, 8, 16) | (16, 8, 16 | 32))
                }
        }
        (S4 | U4, S4 | U4) => {
            integer_sums
                && if op.wmma {
                    op.a == op.b && shape == (8, 8, 32)
                } else {
                    matches!(shape, (8, 8, 32) | (16, 8, 32 | 64))
                }
        }
        (B1, B1) => integer_sums && (shape == (8, 8, 128) || !op.wmma && matches!(shape, (16, 8, 128 | 256))),
        (F64, F64) => {
            op.c == F64
                && op.d == F64
                && (shape == (8, 8, 4) || !op.wmma && matches!(shape, (16, 8, 4 | 8 | 16)))
        }
        _ => false,
    }
}

/// Loads 32-bit accumulators. Row `g` of a block is in lanes `4g..4g+4`, with even and odd columns in two registers.
#[inline(always)]
fn load_words<const R: usize, const C: usize>(regs: &[&Lanes]) -> [[u32; C]; R] {
    let mut out = [[0; C]; R];
    for (i, [even, odd]) in regs.as_chunks::<2>().0.iter().take(R * C / 64).enumerate() {
        let (row0, col0) = stacked_block(i, R, 8, C);
        for row in 0..8 {
            let to = &mut out[row0 + row];
            for t in 0..4 {
                to[col0 + 2 * t] = even[4 * row + t];
                to[col0 + 2 * t + 1] = odd[4 * row + t];
            }
        }
    }
    out
}

#[inline(always)]
fn store_words<const R: usize, const C: usize>(words: &[[u32; C]; R], regs: &mut [Lanes]) {
    for (i, [even, odd]) in regs.as_chunks_mut::<2>().0.iter_mut().take(R * C / 64).enumerate() {
        let (row0, col0) = stacked_block(i, R, 8, C);
        for row in 0..8 {
            let from = &words[row0 + row];
            for t in 0..4 {
                even[4 * row + t] = from[col0 + 2 * t];
                odd[4 * row + t] = from[col0 + 2 * t + 1];
            }
        }
    }
}

/// Stores f16 accumulators, which have the layout of an operand.
#[inline(always)]
fn store_halves<const F16C: bool, const R: usize, const C: usize>(sums: &[[f32; C]; R], regs: &mut [Lanes]) {
    for (i, reg) in regs.iter_mut().take(R * C / 64).enumerate() {
        let (row0, col0) = stacked_block(i, R, 8, C);
        for pair in 0..4 {
            let mut x = [0.0; 16];
            for (j, x) in x.iter_mut().enumerate() {
                *x = sums[row0 + 2 * pair + j / 8][col0 + j % 8];
            }
            let mut h = [0; 16];
            codec::f32_to_f16_x16::<F16C>(&x, &mut h);
            for lane in 0..8 {
                reg[8 * pair + lane] = u32::from(h[2 * lane + 1]) << 16 | u32::from(h[2 * lane]);
            }
        }
    }
}

#[inline(always)]
fn canonical(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_F32 } else { bits }
}

/// Computes `sums += p · q` with k ascending, four rows by eight columns at a time. This gives enough independent
/// sums to hide the latency of the adder, and few enough to stay in registers.
#[inline(always)]
fn multiply<const AVX2: bool, const R: usize, const C: usize, const K: usize>(
    p: &[[f32; K]; R],
    q: &[[[f32; 8]; K]],
    sums: &mut [[f32; C]; R],
) {
    for (p, sums) in p.as_chunks::<4>().0.iter().zip(sums.as_chunks_mut::<4>().0) {
        for (part, q) in q.iter().enumerate() {
            let mut acc = [[0.0; 8]; 4];
            for (acc, sums) in acc.iter_mut().zip(&*sums) {
                acc.copy_from_slice(&sums[8 * part..8 * part + 8]);
            }
            vector::multiply4::<AVX2, K>(p, q, &mut acc);
            for (acc, sums) in acc.iter().zip(&mut *sums) {
                sums[8 * part..8 * part + 8].copy_from_slice(acc);
            }
        }
    }
}

/// Computes one shape: `R` by `C` results with `K` products each. `R` counts the rows of D. If the product is
/// computed transposed, `R` counts the columns of D, and `p` is B.
#[inline(always)]
fn tile<const F16C: bool, const R: usize, const C: usize, const K: usize>(
    op: &Mma,
    (p_elem, p_regs): (Elem, &[&Lanes]),
    (q_elem, q_regs): (Elem, &[&Lanes]),
    c: &[&Lanes],
    d: &mut [Lanes],
) {
    let mut p = [[0.0; K]; R];
    // Groups of eight columns. A tile has at most 16 columns.
    let mut q = [[[0.0; 8]; K]; 2];
    let q = &mut q[..C / 8];
    let mut sums = [[0.0; C]; R];
    decode::stacked(p_elem, p_regs, R, K, p.as_flattened_mut());
    decode::transposed(q_elem, q_regs, q.as_flattened_mut());
    if p_elem.is_integer() {
        multiply::<F16C, R, C, K>(&p, q, &mut sums);
        let mut words = load_words::<R, C>(c);
        for (word, sum) in words.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
            // The sum is a small integer and needs no clamp.
            // SAFETY: the sum is finite and below 2^24.
            *word = add_integer(*word, unsafe { sum.to_int_unchecked() }, op.satfinite);
        }
        return store_words(&words, d);
    }
    if op.c == Elem::F16 {
        decode::stacked(Elem::F16, c, R, C, sums.as_flattened_mut());
    } else {
        let words = load_words::<R, C>(c);
        for (sum, word) in sums.as_flattened_mut().iter_mut().zip(words.as_flattened()) {
            *sum = f32::from_bits(*word);
        }
    }
    match op.accumulation {
        Accumulation::F32 => multiply::<F16C, R, C, K>(&p, q, &mut sums),
        Accumulation::Hopper | Accumulation::Aligned { .. } => {
            let (p, q) = (p.as_flattened(), q.as_flattened());
            let mut tile = aligned::Tile { p, q, sums: sums.as_flattened_mut(), depth: K };
            aligned::multiply(op, &mut tile);
        }
    }
    if op.d == Elem::F16 {
        return store_halves::<F16C, R, C>(&sums, d);
    }
    let mut words = [[0; C]; R];
    for (word, sum) in words.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
        *word = canonical(*sum);
    }
    store_words(&words, d);
}

#[inline(always)]
fn body<const F16C: bool>(op: &Mma, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes], d: &mut [Lanes]) {
    if op.a == Elem::B1 {
        return single_bits(op, a, b, c, d);
    }
    let (p, q) = ((op.a, a), (op.b, b));
    match (op.shape.m, op.shape.n, op.shape.k) {
        (8, 8, 16) => tile::<F16C, 8, 8, 16>(op, p, q, c, d),
        (8, 8, 32) => tile::<F16C, 8, 8, 32>(op, p, q, c, d),
        (16, 8, 4) => tile::<F16C, 16, 8, 4>(op, p, q, c, d),
        (16, 8, 8) => tile::<F16C, 16, 8, 8>(op, p, q, c, d),
        (16, 8, 16) => tile::<F16C, 16, 8, 16>(op, p, q, c, d),
        (16, 8, 32) => tile::<F16C, 16, 8, 32>(op, p, q, c, d),
        (16, 8, 64) => tile::<F16C, 16, 8, 64>(op, p, q, c, d),
        (16, 16, 8) => tile::<F16C, 16, 16, 8>(op, p, q, c, d),
        (16, 16, 16) => tile::<F16C, 16, 16, 16>(op, p, q, c, d),
        (32, 8, 16) => tile::<F16C, 32, 8, 16>(op, p, q, c, d),
        (8, 32, 16) => tile::<F16C, 32, 8, 16>(op, q, p, c, d),
        _ => debug_assert!(false, "no such tile: {op:?}"),
    }
}

#[inline(always)]
fn add_integer(c: u32, products: i32, satfinite: bool) -> u32 {
    let c = c as i32;
    (if satfinite { c.saturating_add(products) } else { c.wrapping_add(products) }) as u32
}

/// Counts the bits of single-bit products, in words of 32 bits.
fn single_bits(op: &Mma, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes], d: &mut [Lanes]) {
    let Some([fa, _, _, fd]) = op.fragments() else { return };
    // Lane 4g + t of block i holds word t of the four words of row g.
    let stack = fa.rows / 8;
    for lane in 0..32 {
        for i in 0..fd.elems() {
            let (row, col) = fd.position(lane, i);
            let mut count = 0;
            for (step, b) in b.iter().enumerate() {
                let a = a[step * stack + row / 8];
                for t in 0..4 {
                    let (x, y) = (a[row % 8 * 4 + t], b[col * 4 + t]);
                    count += match op.bit_op {
                        BitOp::Xor => x ^ y,
                        BitOp::And => x & y,
                    }
                    .count_ones();
                }
            }
            d[i][lane] = c[i][lane].wrapping_add(count);
        }
    }
}

per_isa! {
    /// D = A·B + C. The slices hold the registers of the fragments in PTX's order. [`Mma::fragments`] says how many
    /// registers each fragment has. Does nothing if the form is not supported.
    pub fn mma = body where (op: &Mma, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes], d: &mut [Lanes]);
}

/// D = A·B + C in f64. Each product is fused into the sum, with k ascending.
pub(crate) fn mma_f64(op: &Mma, a: &[&Lanes64], b: &[&Lanes64], c: &[&Lanes64], d: &mut [Lanes64]) {
    let Some([fa, fb, fc, fd]) = op.fragments() else { return };
    let (n, k) = (fb.cols, fa.cols);
    let mut ma = [0f64; 16 * 16];
    let mut mb = [0f64; 16 * 8];
    let mut mc = [0f64; 16 * 8];
    for (frag, regs, out, stride) in
        [(&fa, a, &mut ma[..], k), (&fb, b, &mut mb[..], n), (&fc, c, &mut mc[..], n)]
    {
        for lane in 0..32 {
            for i in 0..frag.elems() {
                let (row, col) = frag.position(lane, i);
                out[row * stride + col] = f64::from_bits(regs[i][lane]);
            }
        }
    }
    for lane in 0..32 {
        for i in 0..fd.elems() {
            let (row, col) = fd.position(lane, i);
            let mut sum = mc[row * n + col];
            for kk in 0..k {
                sum = ma[row * k + kk].mul_add(mb[kk * n + col], sum);
            }
            d[i][lane] = sum.to_bits();
        }
    }
}

#[cfg(test)]
mod tests;
