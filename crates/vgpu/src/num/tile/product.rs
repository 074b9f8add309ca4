//! Tile products.
//!
//! Operands are decoded to f32 once, the stacked one to rows along k, the other transposed to rows along its other
//! side, so that the row of D is the vector; everything the loops touch stays in L1 and in vector registers.
//! Integer tiles go the same way: their sums of products stay below 2^24, so f32 holds them exactly.

use super::{Accumulation, BitOp, Elem, Fragment, Mma, aligned};
use crate::num::codec;
use crate::num::simd::per_isa;
use crate::num::{Lanes, Lanes64, NAN_F32};

/// Most rows, columns and products per element of a tile held in f32 (single-bit ones are not).
const ROWS: usize = 32;
const COLS: usize = 16;
const DEPTH: usize = 64;

/// Decoded operands and sums.
pub(super) struct Tile {
    /// The stacked operand, a row of `depth` after the other.
    pub p: [f32; ROWS * DEPTH],
    /// The other, a row of `cols` for every step along k.
    pub q: [f32; DEPTH * COLS],
    pub sums: [f32; ROWS * COLS],
    pub rows: usize,
    pub cols: usize,
    pub depth: usize,
}

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

/// Decodes one register: a block of eight rows.
#[inline(always)]
fn decode_block<const F16C: bool>(elem: Elem, reg: &Lanes, mut put: impl FnMut(usize, usize, f32)) {
    match elem {
        Elem::F16 => {
            let halves = as_halves(reg);
            for (pair, rows) in halves.as_chunks::<16>().0.iter().enumerate() {
                let mut x = [0f32; 16];
                codec::f16_to_f32_x16::<F16C>(rows, &mut x);
                for (i, &x) in x.iter().enumerate() {
                    put(2 * pair + i / 8, i % 8, x);
                }
            }
        }
        Elem::Bf16 => {
            for (i, &h) in as_halves(reg).iter().enumerate() {
                put(i / 8, i % 8, codec::bf16_to_f32(u32::from(h)));
            }
        }
        Elem::E4m3 => {
            for (i, &b) in as_bytes(reg).iter().enumerate() {
                put(i / 16, i % 16, codec::e4m3_to_f32(b));
            }
        }
        Elem::E5m2 => {
            for (i, &b) in as_bytes(reg).iter().enumerate() {
                put(i / 16, i % 16, codec::e5m2_to_f32(b));
            }
        }
        Elem::S8 => {
            for (i, &b) in as_bytes(reg).iter().enumerate() {
                put(i / 16, i % 16, f32::from(b as i8));
            }
        }
        Elem::U8 => {
            for (i, &b) in as_bytes(reg).iter().enumerate() {
                put(i / 16, i % 16, f32::from(b));
            }
        }
        Elem::S4 | Elem::U4 => {
            for (i, &b) in as_bytes(reg).iter().enumerate() {
                for part in 0..2 {
                    let code = b >> (4 * part) & 0xf;
                    let x = if elem == Elem::S4 { (code << 4) as i8 >> 4 } else { code as i8 };
                    put(i / 16, i % 16 * 2 + part, f32::from(x));
                }
            }
        }
        Elem::Tf32 => {
            for (i, &w) in reg.iter().enumerate() {
                put(i / 4, i % 4, codec::tf32_to_f32(w));
            }
        }
        Elem::F32 | Elem::F64 | Elem::S32 | Elem::B1 => {}
    }
}

/// The register lane by lane, low half first.
#[inline(always)]
fn as_halves(reg: &Lanes) -> [u16; 64] {
    let mut out = [0; 64];
    for (pair, word) in out.as_chunks_mut::<2>().0.iter_mut().zip(reg) {
        *pair = [*word as u16, (*word >> 16) as u16];
    }
    out
}

#[inline(always)]
fn as_bytes(reg: &Lanes) -> [u8; 128] {
    let mut out = [0; 128];
    for (bytes, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(reg) {
        *bytes = word.to_le_bytes();
    }
    out
}

#[inline(always)]
fn load_stacked<const F16C: bool>(f: &Fragment, regs: &[&Lanes], depth: usize, p: &mut [f32; ROWS * DEPTH]) {
    for (i, reg) in regs[..f.distinct].iter().enumerate() {
        let (row0, k0) = f.block(i);
        decode_block::<F16C>(f.elem, reg, |row, k, x| p[(row0 + row) * depth + k0 + k] = x);
    }
}

#[inline(always)]
fn load_across<const F16C: bool>(f: &Fragment, regs: &[&Lanes], cols: usize, q: &mut [f32; DEPTH * COLS]) {
    for (i, reg) in regs[..f.distinct].iter().enumerate() {
        let (col0, k0) = f.block(i);
        decode_block::<F16C>(f.elem, reg, |col, k, x| q[(k0 + k) * cols + col0 + col] = x);
    }
}

/// Accumulators to f32: row `g` of a block is in lanes `4g..4g+4`.
#[inline(always)]
fn load_sums<const F16C: bool>(f: &Fragment, regs: &[&Lanes], cols: usize, sums: &mut [f32; ROWS * COLS]) {
    if f.elem == Elem::F16 {
        for (i, reg) in regs.iter().enumerate() {
            let (row0, col0) = f.block(i);
            decode_block::<F16C>(Elem::F16, reg, |row, col, x| sums[(row0 + row) * cols + col0 + col] = x);
        }
        return;
    }
    for (i, [even, odd]) in regs.as_chunks::<2>().0.iter().enumerate() {
        let (row0, col0) = f.block(i);
        for lane in 0..32 {
            let at = (row0 + lane / 4) * cols + col0 + lane % 4 * 2;
            sums[at] = f32::from_bits(even[lane]);
            sums[at + 1] = f32::from_bits(odd[lane]);
        }
    }
}

#[inline(always)]
fn store_sums<const F16C: bool>(f: &Fragment, sums: &[f32; ROWS * COLS], cols: usize, regs: &mut [Lanes]) {
    if f.elem == Elem::F16 {
        for (i, reg) in regs.iter_mut().enumerate() {
            let (row0, col0) = f.block(i);
            for pair in 0..4 {
                let mut x = [0f32; 16];
                for (j, x) in x.iter_mut().enumerate() {
                    *x = sums[(row0 + 2 * pair + j / 8) * cols + col0 + j % 8];
                }
                let mut h = [0u16; 16];
                codec::f32_to_f16_x16::<F16C>(&x, &mut h);
                for (lane, h) in h.as_chunks::<2>().0.iter().enumerate() {
                    reg[8 * pair + lane] = u32::from(h[1]) << 16 | u32::from(h[0]);
                }
            }
        }
        return;
    }
    for (i, [even, odd]) in regs.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let (row0, col0) = f.block(i);
        for lane in 0..32 {
            let at = (row0 + lane / 4) * cols + col0 + lane % 4 * 2;
            even[lane] = canonical(sums[at]);
            odd[lane] = canonical(sums[at + 1]);
        }
    }
}

#[inline(always)]
fn canonical(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_F32 } else { bits }
}

/// `sums += p · q`, k ascending. Products of two 11-bit significands are exact, so where there is no fused
/// instruction a product and a sum give the same bits (but for tf32 and bf16 products outside f32's range).
#[inline(always)]
fn multiply<const FUSED: bool, const N: usize>(tile: &mut Tile) {
    let Tile { p, q, sums, rows, depth, .. } = tile;
    for row in 0..*rows {
        let Some(out) = sums[row * N..].first_chunk_mut::<N>() else { return };
        let mut acc = *out;
        for k in 0..*depth {
            let x = p[row * *depth + k];
            let Some(y) = q[k * N..].first_chunk::<N>() else { return };
            for j in 0..N {
                acc[j] = if FUSED { x.mul_add(y[j], acc[j]) } else { x * y[j] + acc[j] };
            }
        }
        *out = acc;
    }
}

#[inline(always)]
fn body<const F16C: bool>(op: &Mma, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes], d: &mut [Lanes]) {
    let Some([fa, fb, fc, fd]) = op.fragments() else { return };
    if op.a == Elem::B1 {
        return single_bits(op, &fa, &fd, a, b, c, d);
    }
    // The transposed product of m8n32k16 stacks B.
    let stack_b = fb.cols == 32;
    let (fp, p, fq, q) = if stack_b { (fb, b, fa, a) } else { (fa, a, fb, b) };
    let (rows, cols) = if stack_b { (32, 8) } else { (fa.rows, fb.cols) };
    let depth = fa.cols;
    let mut tile =
        Tile { p: [0.0; ROWS * DEPTH], q: [0.0; DEPTH * COLS], sums: [0.0; ROWS * COLS], rows, cols, depth };
    load_stacked::<F16C>(&fp, p, depth, &mut tile.p);
    load_across::<F16C>(&fq, q, cols, &mut tile.q);
    let integer = op.a.is_integer();
    if !integer {
        load_sums::<F16C>(&fc, c, cols, &mut tile.sums);
    }
    match op.accumulation {
        Accumulation::Aligned { group, bits } if !integer => aligned::multiply(&mut tile, op, group, bits),
        _ if cols == 16 => multiply::<F16C, 16>(&mut tile),
        _ => multiply::<F16C, 8>(&mut tile),
    }
    if !integer {
        return store_sums::<F16C>(&fd, &tile.sums, cols, d);
    }
    for (i, ([even, odd], c)) in d.as_chunks_mut::<2>().0.iter_mut().zip(c.as_chunks::<2>().0).enumerate() {
        let (row0, col0) = fd.block(i);
        for lane in 0..32 {
            let at = (row0 + lane / 4) * cols + col0 + lane % 4 * 2;
            even[lane] = add_integer(c[0][lane], tile.sums[at] as i32, op.satfinite);
            odd[lane] = add_integer(c[1][lane], tile.sums[at + 1] as i32, op.satfinite);
        }
    }
}

#[inline(always)]
fn add_integer(c: u32, products: i32, satfinite: bool) -> u32 {
    let c = c as i32;
    (if satfinite { c.saturating_add(products) } else { c.wrapping_add(products) }) as u32
}

/// Single-bit products: words of 32 bits, counted.
fn single_bits(
    op: &Mma,
    fa: &Fragment,
    fd: &Fragment,
    a: &[&Lanes],
    b: &[&Lanes],
    c: &[&Lanes],
    d: &mut [Lanes],
) {
    // Lane 4g + t of block i holds word t of the four along the run of row g.
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
    /// D = A·B + C. The slices hold the registers of the fragments in PTX's order; [`Mma::fragments`] says how
    /// many. Does nothing if the form is not supported.
    pub fn mma = body where (op: &Mma, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes], d: &mut [Lanes]);
}

/// D = A·B + C in f64, each product fused, k ascending.
pub fn mma_f64(op: &Mma, a: &[&Lanes64], b: &[&Lanes64], c: &[&Lanes64], d: &mut [Lanes64]) {
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
