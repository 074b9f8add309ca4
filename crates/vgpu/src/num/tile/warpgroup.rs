//! Products of a warpgroup (`wgmma`). One call computes the part of one warp: 16 rows by up to 256 columns.
//!
//! Fragments have the layout of `mma.sync`. A is four blocks, and every eight columns of D are a 16 by 8 accumulator.
//! B is also given as blocks: two per eight columns, gathered from shared memory. The four warps of a warpgroup, and
//! the warpgroups of a block, multiply by the same B. Therefore B is decoded once ([`Decoded`]) and kept.
//!
//! Columns are processed in groups of sixteen. In each half of a group, the even columns come first, so that a row of
//! accumulators is four loads.

use std::mem::MaybeUninit;

use super::{Elem, decode, fp8, matrix, vector};
use crate::num::simd::per_isa;
use crate::num::{Lanes, NAN_F32, codec};

/// One form of `wgmma.mma_async`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Warpgroup {
    /// Element type of A.
    pub a: Elem,
    /// Element type of B.
    pub b: Elem,
    /// Element type of D.
    pub d: Elem,
    /// Number of columns, a multiple of eight.
    pub n: u16,
    /// Whether the products are subtracted.
    pub negate: bool,
    /// `.satfinite`: integer sums clamp.
    pub satfinite: bool,
}

impl Warpgroup {
    /// Number of products per element of D: a row of A has 32 bytes.
    pub const fn k(self) -> usize {
        256 / self.a.bits()
    }

    /// Number of registers of D per lane.
    pub const fn registers(self) -> usize {
        self.n as usize * self.d.bits() / 64
    }
}

/// Eight columns of B as they lie in shared memory: two blocks, consecutive along k. The lines of a block are columns, or
/// steps along k if B is MN-major.
pub type Columns = [matrix::Block; 2];

/// Sixteen rows of A.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// The four registers of a fragment.
    Fragment([&'a Lanes; 4]),
    /// Two chunks of each row, consecutive along k.
    Chunks(&'a [[[u8; 16]; 2]; 16]),
}

impl Rows<'_> {
    /// Decodes the rows, and negates them if the products are subtracted.
    #[inline(always)]
    fn decode<const F16C: bool, const K: usize>(&self, op: Warpgroup, out: &mut [[f32; K]; 16]) {
        let out = out.as_flattened_mut();
        match self {
            Rows::Fragment(registers) => decode::stacked(op.a, registers, 16, K, out),
            Rows::Chunks(lines) => decode::lines::<F16C>(op.a, *lines, out),
        }
        if op.negate {
            for x in out {
                *x = -*x;
            }
        }
    }
}

/// B as decoded numbers: for every sixteen columns, k rows of sixteen.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    numbers: Vec<[f32; 16]>,
    /// Exponents of the numbers; only of FP8.
    exponents: Vec<[i32; 16]>,
}

/// Whether the elements are FP8.
const fn is_fp8(elem: Elem) -> bool {
    matches!(elem, Elem::E4m3 | Elem::E5m2)
}

impl Decoded {
    /// Decodes all columns.
    pub fn decode(&mut self, elem: Elem, mn_major: bool, columns: &[Columns]) {
        let deep = 256 / elem.bits();
        self.numbers.resize(columns.len().div_ceil(2) * deep, [0.0; 16]);
        decode_columns(elem, mn_major, columns, &mut self.numbers);
        self.exponents.clear();
        if is_fp8(elem) {
            let least = fp8::least(elem);
            self.exponents.extend(self.numbers.iter().map(|row| fp8::exponents(row, least)));
        }
    }
}

#[inline(always)]
fn decode_columns_body<const F16C: bool>(
    elem: Elem,
    mn_major: bool,
    columns: &[Columns],
    numbers: &mut [[f32; 16]],
) {
    let deep = 256 / elem.bits();
    for (group, blocks) in columns.iter().enumerate() {
        let rows = &mut numbers[group / 2 * deep..][..deep];
        let blocks = blocks.iter().map(|block| {
            even_first(&if mn_major { decode::as_rows(&matrix::load(block, true)) } else { *block })
        });
        decode::columns::<F16C>(elem, blocks, |k, eight| rows[k].as_chunks_mut::<8>().0[group % 2] = eight);
    }
}

/// Sorts the eight columns of a block: the even ones come first.
#[inline(always)]
fn even_first(block: &matrix::Block) -> matrix::Block {
    [0, 2, 4, 6, 1, 3, 5, 7].map(|column: usize| block[column])
}

per_isa! {
    fn decode_columns = decode_columns_body
        where (elem: Elem, mn_major: bool, columns: &[Columns], numbers: &mut [[f32; 16]]);
}

/// Loads the registers of a 16 by 8 accumulator as rows of words, even columns first, into one half of 16 columns.
#[inline(always)]
unsafe fn load_rows(d: &[*mut u32], rows: &mut [[u32; 16]; 16], at: usize) {
    for (half, rows) in rows.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // SAFETY: the caller's registers have 32 lanes.
        let (even, odd) =
            unsafe { (&*d[2 * half].cast::<[[u32; 4]; 8]>(), &*d[2 * half + 1].cast::<[[u32; 4]; 8]>()) };
        for r in 0..8 {
            rows[r][at..at + 4].copy_from_slice(&even[r]);
            rows[r][at + 4..at + 8].copy_from_slice(&odd[r]);
        }
    }
}

#[inline(always)]
unsafe fn store_rows(d: &[*mut u32], rows: &[[u32; 16]; 16], at: usize) {
    for (half, rows) in rows.as_chunks::<8>().0.iter().enumerate() {
        // SAFETY: the caller's registers have 32 lanes, and they are different registers.
        let (even, odd) = unsafe {
            (&mut *d[2 * half].cast::<[[u32; 4]; 8]>(), &mut *d[2 * half + 1].cast::<[[u32; 4]; 8]>())
        };
        for r in 0..8 {
            even[r].copy_from_slice(&rows[r][at..at + 4]);
            odd[r].copy_from_slice(&rows[r][at + 4..at + 8]);
        }
    }
}

/// Loads an accumulator of halves as f32, in the order of [`load_rows`]. A register has the even column in its low
/// half and the odd column in its high half.
#[inline(always)]
unsafe fn load_halves(d: &[*mut u32], sums: &mut [[f32; 16]; 16], at: usize) {
    for (r, row) in sums.iter_mut().enumerate() {
        for t in 0..4 {
            // SAFETY: the caller's registers have 32 lanes.
            let word = unsafe { *d[r / 8].add(4 * (r % 8) + t) };
            row[at + t] = codec::f16_to_f32(word & 0xffff);
            row[at + 4 + t] = codec::f16_to_f32(word >> 16);
        }
    }
}

#[inline(always)]
unsafe fn store_halves<const F16C: bool>(d: &[*mut u32], sums: &[[f32; 16]; 16], at: usize) {
    for (r, row) in sums.iter().enumerate() {
        let mut halves = [0; 16];
        codec::f32_to_f16_x16::<F16C>(row, &mut halves);
        for t in 0..4 {
            let word = u32::from(halves[at + 4 + t]) << 16 | u32::from(halves[at + t]);
            // SAFETY: the caller's registers have 32 lanes.
            unsafe { *d[r / 8].add(4 * (r % 8) + t) = word };
        }
    }
}

#[inline(always)]
fn canonical(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_F32 } else { bits }
}

/// Computes sixteen columns, or the last eight, with `multiply`, which adds to the sums. `d` has the registers of one or
/// two accumulators.
#[inline(always)]
fn columns<const F16C: bool>(
    op: &Warpgroup,
    multiply: impl FnOnce(&mut [[f32; 16]; 16]),
    d: &[*mut u32],
    keep: bool,
) {
    let registers = op.d.bits() / 8;
    let mut sums = [[0.0; 16]; 16];
    if op.d == Elem::F16 {
        if keep {
            for (i, d) in d.chunks_exact(registers).enumerate() {
                // SAFETY: `d` has as many registers as eight columns of D need.
                unsafe { load_halves(d, &mut sums, 8 * i) };
            }
        }
        multiply(&mut sums);
        for (i, d) in d.chunks_exact(registers).enumerate() {
            // SAFETY: as above.
            unsafe { store_halves::<F16C>(d, &sums, 8 * i) };
        }
        return;
    }
    if op.a.is_integer() {
        multiply(&mut sums);
        let mut rows = [[0u32; 16]; 16];
        for (i, d) in d.chunks_exact(registers).enumerate() {
            // SAFETY: as above.
            unsafe { load_rows(d, &mut rows, 8 * i) };
        }
        for (row, sum) in rows.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
            // Sums of 32 products of bytes are small integers, which f32 represents exactly.
            let (old, new) = (if keep { *row as i32 } else { 0 }, *sum as i32);
            *row = (if op.satfinite { old.saturating_add(new) } else { old.wrapping_add(new) }) as u32;
        }
        for (i, d) in d.chunks_exact(registers).enumerate() {
            // SAFETY: as above.
            unsafe { store_rows(d, &rows, 8 * i) };
        }
        return;
    }
    // SAFETY: `u32` and `f32` have the same size and accept any bits.
    let rows = unsafe { &mut *(&raw mut sums).cast::<[[u32; 16]; 16]>() };
    if keep {
        for (i, d) in d.chunks_exact(registers).enumerate() {
            // SAFETY: as above.
            unsafe { load_rows(d, rows, 8 * i) };
        }
    }
    multiply(&mut sums);
    for sum in sums.as_flattened_mut() {
        *sum = f32::from_bits(canonical(*sum));
    }
    // SAFETY: as above.
    let rows = unsafe { &*(&raw const sums).cast::<[[u32; 16]; 16]>() };
    for (i, d) in d.chunks_exact(registers).enumerate() {
        // SAFETY: as above.
        unsafe { store_rows(d, rows, 8 * i) };
    }
}

#[inline(always)]
fn product<const F16C: bool, const K: usize>(
    op: &Warpgroup,
    a: &Rows<'_>,
    b: &Decoded,
    d: &[*mut u32],
    keep: bool,
) {
    let mut p = [[0.0; K]; 16];
    a.decode::<F16C, K>(*op, &mut p);
    let registers = op.d.bits() / 4;
    let mut place = MaybeUninit::uninit();
    if op.d == Elem::F32
        && !op.a.is_integer()
        && let Some(p) = vector::SpreadRows::new::<F16C>(&p, &mut place)
    {
        for (q, d) in b.numbers.as_chunks::<K>().0.iter().zip(d.chunks(registers)) {
            // SAFETY: `d` has the registers of one or two accumulators, which are different.
            unsafe { p.multiply(q, d, keep) };
        }
        return;
    }
    for (q, d) in b.numbers.as_chunks::<K>().0.iter().zip(d.chunks(registers)) {
        columns::<F16C>(op, |sums| vector::multiply16::<F16C, K>(&p, q, sums), d, keep);
    }
}

/// The same for FP8 products with f32 sums.
#[inline(always)]
fn fp8_product<const F16C: bool>(op: &Warpgroup, a: &Rows<'_>, b: &Decoded, d: &[*mut u32], keep: bool) {
    const K: usize = 32;
    let mut p = [[0.0; K]; 16];
    a.decode::<F16C, K>(*op, &mut p);
    let p_exponents = p.map(|row| fp8::exponents(&row, fp8::least(op.a)));
    let columns_of_b = b.numbers.as_chunks::<K>().0.iter().zip(b.exponents.as_chunks::<K>().0);
    for ((q, q_exponents), d) in columns_of_b.zip(d.chunks(op.d.bits() / 4)) {
        let multiply = |sums: &mut [[f32; 16]; 16]| {
            for ((numbers, exponents), sums) in p.iter().zip(&p_exponents).zip(sums) {
                fp8::add_row(&fp8::Factors { numbers, exponents }, q, q_exponents, sums);
            }
        };
        columns::<F16C>(op, multiply, d, keep);
    }
}

#[inline(always)]
fn body<const F16C: bool>(op: &Warpgroup, a: &Rows<'_>, b: &Decoded, d: &[*mut u32], keep: bool) {
    match op.k() {
        _ if is_fp8(op.a) && op.d == Elem::F32 => fp8_product::<F16C>(op, a, b, d, keep),
        8 => product::<F16C, 8>(op, a, b, d, keep),
        16 => product::<F16C, 16>(op, a, b, d, keep),
        _ => product::<F16C, 32>(op, a, b, d, keep),
    }
}

per_isa! {
    fn on_registers = body where (op: &Warpgroup, a: &Rows<'_>, b: &Decoded, d: &[*mut u32], keep: bool);
}

/// Computes `d = a · b + d` if `keep`, otherwise `d = a · b`.
///
/// # Safety
/// `d` must have as many different registers of 32 lanes as [`Warpgroup::registers`] returns. Nothing else may use
/// them during the call.
pub unsafe fn warpgroup(op: Warpgroup, a: &Rows<'_>, b: &Decoded, d: &[*mut u32], keep: bool) {
    debug_assert!(d.len() == op.registers() && b.numbers.len() == (op.n as usize).div_ceil(16) * op.k());
    on_registers(&op, a, b, d, keep);
}

#[cfg(test)]
mod tests;
