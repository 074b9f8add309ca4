//! Tile products.
//!
//! Operands are decoded once, A to rows along k, B to rows along n, and multiplied with the row of D as the vector:
//! everything the loops touch stays in L1 and in vector registers.

use super::{Accumulation, BitOp, Elem, Mma, Operand};
use crate::num::codec;
use crate::num::simd::per_isa;
use crate::num::{Lanes, Lanes64};

/// Largest tile: 32 by 32 results, 256 single-bit products.
const MAX_SIDE: usize = 32;

pub(super) fn is_supported(op: &Mma) -> bool {
    use Elem::{B1, Bf16, E4m3, E5m2, F16, F32, F64, S4, S8, S32, Tf32, U4, U8};
    let s = (op.shape.m, op.shape.n, op.shape.k);
    if op.wmma {
        return false;
    }
    match (op.a, op.b) {
        (F16, F16) => matches!(op.c, F16 | F32) && matches!(op.d, F16 | F32) && matches!(s, (16, 8, 8 | 16)),
        (Bf16, Bf16) => op.c == F32 && op.d == F32 && matches!(s, (16, 8, 8 | 16)),
        (Tf32, Tf32) => op.c == F32 && op.d == F32 && matches!(s, (16, 8, 4 | 8)),
        (E4m3 | E5m2, E4m3 | E5m2) => {
            matches!(op.c, F16 | F32) && op.c == op.d && matches!(s, (16, 8, 16 | 32))
        }
        (S8 | U8, S8 | U8) => op.c == S32 && op.d == S32 && matches!(s, (8, 8, 16) | (16, 8, 16 | 32)),
        (S4 | U4, S4 | U4) => op.c == S32 && op.d == S32 && matches!(s, (8, 8, 32) | (16, 8, 32 | 64)),
        (B1, B1) => op.c == S32 && op.d == S32 && matches!(s, (8, 8, 128) | (16, 8, 128 | 256)),
        (F64, F64) => op.c == F64 && op.d == F64 && matches!(s, (8, 8, 4) | (16, 8, 4 | 8 | 16)),
        _ => false,
    }
}

#[inline(always)]
fn body<const F16C: bool>(op: &Mma, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes], d: &mut [Lanes]) {
    general(op, a, b, c, d);
}

/// Any form, element by element through the layout tables.
fn general(op: &Mma, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes], d: &mut [Lanes]) {
    let Some([fa, fb, fc, fd]) = op.fragments() else { return };
    let (m, n, k) = (usize::from(op.shape.m), usize::from(op.shape.n), usize::from(op.shape.k));
    let read = |f: &super::Fragment, regs: &[&Lanes], lane: usize, i: usize| {
        let bits = f.elem.bits();
        let word = regs[i / f.per_reg()][lane];
        if bits == 32 { word } else { word >> (bits * (i % f.per_reg())) & ((1 << bits) - 1) }
    };
    if op.a.is_integer() {
        let mut ma = vec![0i64; m * k];
        let mut mb = vec![0i64; k * n];
        for lane in 0..32 {
            for i in 0..fa.elems() {
                let (row, col) = fa.position(lane, i);
                ma[row * k + col] = integer(op.a, read(&fa, a, lane, i));
            }
            for i in 0..fb.elems() {
                let (row, col) = fb.position(lane, i);
                mb[row * n + col] = integer(op.b, read(&fb, b, lane, i));
            }
        }
        for lane in 0..32 {
            for i in 0..fd.elems() {
                let (row, col) = fd.position(lane, i);
                let mut sum = i64::from(c[i][lane] as i32);
                for kk in 0..k {
                    let (x, y) = (ma[row * k + kk], mb[kk * n + col]);
                    sum += match (op.a, op.bit_op) {
                        (Elem::B1, BitOp::Xor) => x ^ y,
                        (Elem::B1, BitOp::And) => x & y,
                        _ => x * y,
                    };
                }
                d[i][lane] = if op.satfinite {
                    sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
                } else {
                    sum as u32
                };
            }
        }
        return;
    }
    let mut ma = vec![0f32; m * k];
    let mut mb = vec![0f32; k * n];
    let mut mc = vec![0f32; m * n];
    for lane in 0..32 {
        for i in 0..fa.elems() {
            let (row, col) = fa.position(lane, i);
            ma[row * k + col] = float(op.a, read(&fa, a, lane, i));
        }
        for i in 0..fb.elems() {
            let (row, col) = fb.position(lane, i);
            mb[row * n + col] = float(op.b, read(&fb, b, lane, i));
        }
        for i in 0..fc.elems() {
            let (row, col) = fc.position(lane, i);
            mc[row * n + col] = float(op.c, read(&fc, c, lane, i));
        }
    }
    d.fill([0; 32]);
    for lane in 0..32 {
        for i in 0..fd.elems() {
            let (row, col) = fd.position(lane, i);
            let mut sum = mc[row * n + col];
            for kk in 0..k {
                sum = ma[row * k + kk].mul_add(mb[kk * n + col], sum);
            }
            let code = match op.d {
                Elem::F16 => codec::f32_to_f16_rn(sum),
                _ => crate::num::float::canonical(sum).to_bits(),
            };
            d[i / fd.per_reg()][lane] |= code << (16 * (i % fd.per_reg()) as u32);
        }
    }
    let _ = (MAX_SIDE, Operand::A, Accumulation::F32);
}

fn integer(elem: Elem, code: u32) -> i64 {
    match elem {
        Elem::S8 => i64::from(code as i8),
        Elem::S4 => i64::from((code << 28) as i32 >> 28),
        _ => i64::from(code),
    }
}

fn float(elem: Elem, code: u32) -> f32 {
    match elem {
        Elem::F16 => codec::f16_to_f32(code),
        Elem::Bf16 => codec::bf16_to_f32(code),
        Elem::Tf32 => codec::tf32_to_f32(code),
        Elem::E4m3 => codec::e4m3_to_f32(code as u8),
        Elem::E5m2 => codec::e5m2_to_f32(code as u8),
        _ => f32::from_bits(code),
    }
}

per_isa! {
    /// D = A·B + C. The slices hold the registers of the fragments in PTX's order; [`Mma::fragments`] says how
    /// many. Does nothing if the form is not supported.
    pub fn mma = body where (op: &Mma, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes], d: &mut [Lanes]);
}

/// D = A·B + C in f64, each product fused, k ascending.
pub fn mma_f64(op: &Mma, a: &[&Lanes64], b: &[&Lanes64], c: &[&Lanes64], d: &mut [Lanes64]) {
    let Some([fa, fb, fc, fd]) = op.fragments() else { return };
    let (n, k) = (usize::from(op.shape.n), usize::from(op.shape.k));
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
