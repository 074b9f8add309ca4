//! Decoding of operand registers to f32 matrices.
//!
//! One register is eight rows of 16 bytes, so each element type only defines how to decode 16 bytes.

use super::Elem;
use super::matrix::Block;
use crate::num::Lanes;
use crate::num::codec;
use crate::num::simd::per_isa;

/// Decodes 16 bytes to `W` elements.
trait Code<const W: usize> {
    fn row<const F16C: bool>(bytes: &[u8; 16]) -> [f32; W];
}

macro_rules! codes {
    ($( $name:ident: $n:literal, |$bytes:ident, $i:ident| $value:expr; )+) => { $(
        struct $name;
        impl Code<$n> for $name {
            #[inline(always)]
            fn row<const F16C: bool>($bytes: &[u8; 16]) -> [f32; $n] {
                let mut out = [0.0; $n];
                for ($i, out) in out.iter_mut().enumerate() {
                    *out = $value;
                }
                out
            }
        }
    )+ };
}
codes! {
    Bf16: 8, |b, i| codec::bf16_to_f32(u32::from(u16::from_le_bytes([b[2 * i], b[2 * i + 1]])));
    E4m3: 16, |b, i| codec::e4m3_to_f32(b[i]);
    E5m2: 16, |b, i| codec::e5m2_to_f32(b[i]);
    S8: 16, |b, i| f32::from(b[i] as i8);
    U8: 16, |b, i| f32::from(b[i]);
    S4: 32, |b, i| f32::from((b[i / 2] >> (4 * (i % 2)) << 4) as i8 >> 4);
    U4: 32, |b, i| f32::from(b[i / 2] >> (4 * (i % 2)) & 0xf);
    Tf32: 4, |b, i| codec::tf32_to_f32(u32::from_le_bytes([b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]]));
}

/// Calls a function for the code of an element type. Types without a code do nothing.
macro_rules! by_code {
    ($elem:expr, $f:ident($($arg:expr),*)) => {
        match $elem {
            Elem::F16 => $f::<F16, F16C, 8>($($arg),*),
            Elem::Bf16 => $f::<Bf16, F16C, 8>($($arg),*),
            Elem::Tf32 => $f::<Tf32, F16C, 4>($($arg),*),
            Elem::E4m3 => $f::<E4m3, F16C, 16>($($arg),*),
            Elem::E5m2 => $f::<E5m2, F16C, 16>($($arg),*),
            Elem::S8 => $f::<S8, F16C, 16>($($arg),*),
            Elem::U8 => $f::<U8, F16C, 16>($($arg),*),
            Elem::S4 => $f::<S4, F16C, 32>($($arg),*),
            Elem::U4 => $f::<U4, F16C, 32>($($arg),*),
            Elem::B1 | Elem::F32 | Elem::F64 | Elem::S32 => {}
        }
    };
}

struct F16;
impl Code<8> for F16 {
    #[inline(always)]
    fn row<const F16C: bool>(bytes: &[u8; 16]) -> [f32; 8] {
        let mut halves = [0; 8];
        for (half, b) in halves.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *half = u16::from_le_bytes(*b);
        }
        let mut out = [0.0; 8];
        codec::f16_to_f32_x8::<F16C>(halves, &mut out);
        out
    }
}

/// First row of block `i`, and its first element along the run. Blocks fill 16 rows (or all eight), then advance
/// along the run, then continue with the next 16 rows. `Fragment::block` computes the same for every fragment.
#[inline(always)]
pub(super) const fn stacked_block(i: usize, rows: usize, run: usize, deep: usize) -> (usize, usize) {
    let stack = if rows < 16 { 1 } else { 2 };
    let per_stack = stack * (deep / run);
    (i / per_stack * 16 + 8 * (i % per_stack % stack), run * (i % per_stack / stack))
}

#[inline(always)]
fn stack<C: Code<W>, const F16C: bool, const W: usize>(
    regs: &[&Lanes],
    rows: usize,
    deep: usize,
    out: &mut [f32],
) {
    for (i, reg) in regs.iter().take(rows * deep / (8 * W)).enumerate() {
        let (row0, k0) = stacked_block(i, rows, W, deep);
        for (row, bytes) in as_rows(reg).iter().enumerate() {
            let at = (row0 + row) * deep + k0;
            out[at..at + W].copy_from_slice(&C::row::<F16C>(bytes));
        }
    }
}

/// Decodes lines of two chunks of 16 bytes.
#[inline(always)]
fn decode_lines<C: Code<W>, const F16C: bool, const W: usize>(lines: &[[[u8; 16]; 2]], out: &mut [f32]) {
    for (chunk, out) in lines.as_flattened().iter().zip(out.as_chunks_mut::<W>().0) {
        *out = C::row::<F16C>(chunk);
    }
}

/// Decodes and transposes blocks that advance along k first, then to the next eight columns. `put` receives eight columns
/// of a step along k, and the number of steps before it.
#[inline(always)]
fn across<C: Code<W>, const F16C: bool, const W: usize>(
    blocks: impl Iterator<Item = Block>,
    mut put: impl FnMut(usize, [f32; 8]),
) {
    for (number, lines) in blocks.enumerate() {
        let mut block = [[0.0; W]; 8];
        for (row, bytes) in block.iter_mut().zip(&lines) {
            *row = C::row::<F16C>(bytes);
        }
        // Transpose squares of eight by eight. tf32 has four elements along k, so the rest of its square is padding.
        for first in (0..W).step_by(8) {
            let mut square = [[0.0; 8]; 8];
            for (to, from) in square.iter_mut().zip(&block) {
                for (to, from) in to.iter_mut().zip(&from[first..]) {
                    *to = *from;
                }
            }
            for (k, columns) in transpose::<F16C>(square).into_iter().take(W).enumerate() {
                put(number * W + first + k, columns);
            }
        }
    }
}

#[inline(always)]
fn stacked_body<const F16C: bool>(elem: Elem, regs: &[&Lanes], rows: usize, deep: usize, out: &mut [f32]) {
    by_code!(elem, stack(regs, rows, deep, out));
}

/// Decodes lines of two chunks of 16 bytes to numbers, line by line.
#[inline(always)]
pub(super) fn lines<const F16C: bool>(elem: Elem, lines: &[[[u8; 16]; 2]], out: &mut [f32]) {
    by_code!(elem, decode_lines(lines, out));
}

/// Decodes blocks of columns and calls `put` for every step along k: see [`across`].
#[inline(always)]
pub(super) fn columns<const F16C: bool>(
    elem: Elem,
    blocks: impl Iterator<Item = Block>,
    put: impl FnMut(usize, [f32; 8]),
) {
    by_code!(elem, across(blocks, put));
}

#[inline(always)]
fn transposed_body<const F16C: bool>(elem: Elem, regs: &[&Lanes], out: &mut [[f32; 8]]) {
    let blocks = regs.iter().take(out.len() * elem.bits() / 128).map(|reg| as_rows(reg));
    columns::<F16C>(elem, blocks, |k, columns| out[k] = columns);
}

per_isa! {
    /// Decodes the operand with stacked blocks to `rows` rows of `deep` elements.
    pub(super) fn stacked = stacked_body where (elem: Elem, regs: &[&Lanes], rows: usize, deep: usize, out: &mut [f32]);
    /// Decodes the other operand, transposed: all rows of its first eight columns, then of the next eight.
    pub(super) fn transposed = transposed_body where (elem: Elem, regs: &[&Lanes], out: &mut [[f32; 8]]);
}

/// Returns the register as eight rows of bytes.
#[inline(always)]
pub(super) fn as_rows(reg: &Lanes) -> Block {
    const { assert!(cfg!(target_endian = "little")) };
    // SAFETY: the sizes are equal, and any bits are valid bytes.
    unsafe { std::mem::transmute::<Lanes, Block>(*reg) }
}

/// Transposes an 8x8 matrix.
#[inline(always)]
fn transpose<const F16C: bool>(x: [[f32; 8]; 8]) -> [[f32; 8]; 8] {
    #[cfg(target_arch = "x86_64")]
    if F16C {
        // SAFETY: `F16C` is true only inside the wrappers of `per_isa`, which also enable avx.
        return unsafe { transpose_avx(x) };
    }
    let mut out = [[0.0; 8]; 8];
    for (i, row) in x.iter().enumerate() {
        for (j, &x) in row.iter().enumerate() {
            out[j][i] = x;
        }
    }
    out
}

/// Transposes in three rounds of interleaving: pairs of lanes, pairs of pairs, halves.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline]
fn transpose_avx(x: [[f32; 8]; 8]) -> [[f32; 8]; 8] {
    use std::arch::x86_64::{
        __m256, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    // SAFETY: eight arrays of eight f32 and eight vectors of eight f32 have the same bytes.
    let r: [__m256; 8] = unsafe { std::mem::transmute(x) };
    let t = [
        _mm256_unpacklo_ps(r[0], r[1]),
        _mm256_unpackhi_ps(r[0], r[1]),
        _mm256_unpacklo_ps(r[2], r[3]),
        _mm256_unpackhi_ps(r[2], r[3]),
        _mm256_unpacklo_ps(r[4], r[5]),
        _mm256_unpackhi_ps(r[4], r[5]),
        _mm256_unpacklo_ps(r[6], r[7]),
        _mm256_unpackhi_ps(r[6], r[7]),
    ];
    let u = [
        _mm256_shuffle_ps::<0x44>(t[0], t[2]),
        _mm256_shuffle_ps::<0xee>(t[0], t[2]),
        _mm256_shuffle_ps::<0x44>(t[1], t[3]),
        _mm256_shuffle_ps::<0xee>(t[1], t[3]),
        _mm256_shuffle_ps::<0x44>(t[4], t[6]),
        _mm256_shuffle_ps::<0xee>(t[4], t[6]),
        _mm256_shuffle_ps::<0x44>(t[5], t[7]),
        _mm256_shuffle_ps::<0xee>(t[5], t[7]),
    ];
    let v = [
        _mm256_permute2f128_ps::<0x20>(u[0], u[4]),
        _mm256_permute2f128_ps::<0x20>(u[1], u[5]),
        _mm256_permute2f128_ps::<0x20>(u[2], u[6]),
        _mm256_permute2f128_ps::<0x20>(u[3], u[7]),
        _mm256_permute2f128_ps::<0x31>(u[0], u[4]),
        _mm256_permute2f128_ps::<0x31>(u[1], u[5]),
        _mm256_permute2f128_ps::<0x31>(u[2], u[6]),
        _mm256_permute2f128_ps::<0x31>(u[3], u[7]),
    ];
    // SAFETY: as above.
    unsafe { std::mem::transmute(v) }
}
