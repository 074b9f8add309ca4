//! Products of a warpgroup (`wgmma`): the part of one warp, 16 rows by up to 256 columns.
//!
//! Fragments lie as those of `mma.sync`: A is four blocks, and every eight columns of D are a 16 by 8 accumulator. B is
//! given as blocks too, two per eight columns, gathered from shared memory.

use super::decode;
use super::product::{canonical, store_halves};
use super::{Elem, vector};
use crate::num::Lanes;
use crate::num::simd::per_isa;

/// One form of `wgmma.mma_async`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Warpgroup {
    pub a: Elem,
    pub b: Elem,
    pub d: Elem,
    /// Columns: a multiple of eight.
    pub n: u16,
    /// The products are subtracted.
    pub negate: bool,
    pub satfinite: bool,
}

impl Warpgroup {
    /// Products per element of D: 32 bytes of a row.
    pub const fn k(&self) -> usize {
        256 / self.a.bits()
    }

    /// Registers of D.
    pub const fn registers(&self) -> usize {
        self.n as usize * self.d.bits() / 64
    }
}

/// Eight columns of B.
pub type Columns = [Lanes; 2];

/// Even columns first, then odd ones: as the two registers of a row of accumulators have them.
#[inline(always)]
fn evens_first(q: [f32; 8]) -> [f32; 8] {
    [q[0], q[2], q[4], q[6], q[1], q[3], q[5], q[7]]
}

/// Rows of eight columns, from and to the four registers of a 16 by 8 accumulator of 32-bit elements.
#[inline(always)]
unsafe fn load_rows(d: &[*mut u32], keep: bool) -> [[u32; 8]; 16] {
    let mut rows = [[0; 8]; 16];
    if keep {
        for (r, row) in rows.iter_mut().enumerate() {
            let (half, at) = (2 * (r / 8), 4 * (r % 8));
            // SAFETY: the caller's registers have 32 lanes.
            unsafe {
                row[..4].copy_from_slice(&*d[half].add(at).cast::<[u32; 4]>());
                row[4..].copy_from_slice(&*d[half + 1].add(at).cast::<[u32; 4]>());
            }
        }
    }
    rows
}

#[inline(always)]
unsafe fn store_rows(d: &[*mut u32], rows: &[[u32; 8]; 16]) {
    for (r, row) in rows.iter().enumerate() {
        let (half, at) = (2 * (r / 8), 4 * (r % 8));
        // SAFETY: the caller's registers have 32 lanes.
        unsafe {
            (*d[half].add(at).cast::<[u32; 4]>()).copy_from_slice(&row[..4]);
            (*d[half + 1].add(at).cast::<[u32; 4]>()).copy_from_slice(&row[4..]);
        }
    }
}

#[inline(always)]
fn multiply<const AVX2: bool, const K: usize>(
    p: &[[f32; K]; 16],
    q: &[[f32; 8]; K],
    sums: &mut [[f32; 8]; 16],
) {
    for (p, sums) in p.as_chunks::<4>().0.iter().zip(sums.as_chunks_mut::<4>().0) {
        vector::multiply4::<AVX2, K>(p, q, sums);
    }
}

#[inline(always)]
fn columns<const F16C: bool, const K: usize>(
    op: &Warpgroup,
    p: &[[f32; K]; 16],
    q: &mut [[f32; 8]; K],
    d: &[*mut u32],
    keep: bool,
) {
    if op.d == Elem::F16 {
        let mut sums = [[0.0; 8]; 16];
        if keep {
            // SAFETY: the caller's registers have 32 lanes, and nobody else uses them.
            let registers: [&Lanes; 2] = unsafe { [&*d[0].cast::<Lanes>(), &*d[1].cast::<Lanes>()] };
            decode::stacked(Elem::F16, &registers, 16, 8, sums.as_flattened_mut());
        }
        multiply::<F16C, K>(p, q, &mut sums);
        let mut out = [[0; 32]; 2];
        store_halves::<F16C, 16, 8>(&sums, &mut out);
        for (&to, from) in d.iter().zip(&out) {
            // SAFETY: as above.
            unsafe { to.cast::<Lanes>().write(*from) };
        }
        return;
    }
    for row in q.iter_mut() {
        *row = evens_first(*row);
    }
    // SAFETY: the caller's registers have 32 lanes.
    let mut rows = unsafe { load_rows(d, keep) };
    let mut sums = [[0.0; 8]; 16];
    if op.a.is_integer() {
        multiply::<F16C, K>(p, q, &mut sums);
        for (row, sums) in rows.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
            // Sums of 32 products of bytes are small integers, which f32 holds.
            let (old, new) = (*row as i32, *sums as i32);
            *row = (if op.satfinite { old.saturating_add(new) } else { old.wrapping_add(new) }) as u32;
        }
    } else {
        for (sum, row) in sums.as_flattened_mut().iter_mut().zip(rows.as_flattened()) {
            *sum = f32::from_bits(*row);
        }
        multiply::<F16C, K>(p, q, &mut sums);
        for (row, sum) in rows.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
            *row = canonical(*sum);
        }
    }
    // SAFETY: as above.
    unsafe { store_rows(d, &rows) };
}

#[inline(always)]
fn product<const F16C: bool, const K: usize>(
    op: &Warpgroup,
    a: &[&Lanes; 4],
    b: &[Columns],
    d: &[*mut u32],
    keep: bool,
) {
    let mut p = [[0.0; K]; 16];
    decode::stacked(op.a, a, 16, K, p.as_flattened_mut());
    if op.negate {
        for x in p.as_flattened_mut() {
            *x = -*x;
        }
    }
    // Registers of 16 rows by eight columns.
    let registers = op.d.bits() / 8;
    for (b, d) in b.iter().zip(d.chunks_exact(registers)) {
        let mut q = [[0.0; 8]; K];
        decode::transposed(op.b, &[&b[0], &b[1]], K, &mut q);
        columns::<F16C, K>(op, &p, &mut q, d, keep);
    }
}

#[inline(always)]
fn body<const F16C: bool>(op: &Warpgroup, a: &[&Lanes; 4], b: &[Columns], d: &[*mut u32], keep: bool) {
    match op.k() {
        8 => product::<F16C, 8>(op, a, b, d, keep),
        16 => product::<F16C, 16>(op, a, b, d, keep),
        _ => product::<F16C, 32>(op, a, b, d, keep),
    }
}

per_isa! {
    fn on_registers = body where (op: &Warpgroup, a: &[&Lanes; 4], b: &[Columns], d: &[*mut u32], keep: bool);
}

/// `d = a · b + d`, or without d if not `keep`.
///
/// # Safety
/// `d` are as many different registers of 32 lanes as [`Warpgroup::registers`] says, which nothing else uses.
pub unsafe fn warpgroup(op: &Warpgroup, a: &[&Lanes; 4], b: &[Columns], d: &[*mut u32], keep: bool) {
    debug_assert!(d.len() == op.registers() && b.len() == op.n as usize / 8);
    on_registers(op, a, b, d, keep);
}
