//! The inner loops of tile products, eight columns wide.
//!
//! LLVM vectorises plain loops along the wrong dimension and then spends more time on permutes than on arithmetic.
//! Therefore the AVX2 forms use intrinsics. The plain forms serve other machines and define what is computed. `AVX2`
//! is true only inside the wrappers of `per_isa`, which enable avx2 and fma.

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
use crate::num::cpu;

/// Computes `acc + Σ p[k] · q[k]` for four rows, with k ascending.
#[inline(always)]
pub(super) fn multiply4<const AVX2: bool, const K: usize>(
    p: &[[f32; K]; 4],
    q: &[[f32; 8]; K],
    acc: &mut [[f32; 8]; 4],
) {
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        // SAFETY: see the module's header.
        unsafe { avx2::multiply4(p, q, acc) };
        return;
    }
    for k in 0..K {
        for row in 0..4 {
            for col in 0..8 {
                // Products of two 11-bit significands are exact, so this gives the same bits as a fused operation
                // (except for tf32 and bf16 products outside the range of f32).
                acc[row][col] += p[row][k] * q[k][col];
            }
        }
    }
}

/// Does the same for sixteen rows and sixteen columns, which gives enough independent sums to keep the adders busy.
#[inline(always)]
pub(super) fn multiply16<const AVX2: bool, const K: usize>(
    p: &[[f32; K]; 16],
    q: &[[f32; 16]; K],
    acc: &mut [[f32; 16]; 16],
) {
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        if cpu::level() == cpu::Level::V4 {
            // SAFETY: level 4 means that the CPU has AVX-512.
            unsafe { avx512::multiply16(p, q, acc) };
        } else {
            // SAFETY: see the module's header.
            unsafe { avx2::multiply16(p, q, acc) };
        }
        return;
    }
    for k in 0..K {
        for row in 0..16 {
            for col in 0..16 {
                acc[row][col] += p[row][k] * q[k][col];
            }
        }
    }
}

/// Sixteen rows of A, arranged for products with accumulators as they lie in registers: 16 lanes of a register are four
/// columns of four rows. So every number of A stands four times, for step k and rows 4i to 4i+3.
#[repr(align(64))]
pub(super) struct SpreadRows<const K: usize>([[[f32; 16]; 4]; K]);

impl<const K: usize> SpreadRows<K> {
    /// Arranges the rows in `place`, if the CPU has AVX-512. `AVX2` is as in [`multiply16`].
    #[inline(always)]
    pub(super) fn new<'p, const AVX2: bool>(
        p: &[[f32; K]; 16],
        place: &'p mut MaybeUninit<Self>,
    ) -> Option<&'p Self> {
        #[cfg(target_arch = "x86_64")]
        if AVX2 && cpu::level() == cpu::Level::V4 {
            // SAFETY: level 4 means that the CPU has AVX-512. `spread` writes every number.
            return unsafe {
                avx512::spread(p, place.as_mut_ptr().cast());
                Some(place.assume_init_ref())
            };
        }
        _ = (p, place);
        None
    }

    /// Computes sixteen columns of D, or eight, in the registers of one or two accumulators: `d + Σ p[k] · q[k]`, with k
    /// ascending, or without `d` if not `keep`.
    ///
    /// # Safety
    /// `d` must have four or eight different registers of 32 lanes.
    #[inline(always)]
    pub(super) unsafe fn multiply(&self, q: &[[f32; 16]; K], d: &[*mut u32], keep: bool) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there are such rows only if the CPU has AVX-512. The caller's registers are different.
        unsafe {
            if d.len() == 8 {
                avx512::multiply_registers::<K, 2>(&self.0, q, d, keep);
            } else {
                avx512::multiply_registers::<K, 1>(&self.0, q, d, keep);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("only AVX-512 has such rows: {q:?} {d:?} {keep}")
    }
}

/// Returns the largest of `top` and all `p[k] + q[k]`, per column.
#[inline(always)]
pub(super) fn largest_sum<const AVX2: bool>(p: &[i32], q: &[[i32; 8]], top: [i32; 8]) -> [i32; 8] {
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        // SAFETY: see the module's header.
        return unsafe { avx2::largest_sum(p, q, top) };
    }
    let mut top = top;
    for (p, q) in p.iter().zip(q) {
        for (top, q) in top.iter_mut().zip(q) {
            *top = (*top).max(p + q);
        }
    }
    top
}

/// Computes `Σ p[k] · q[k] · scale` with each term cut towards zero. At most eight terms, each below 2^28.
#[inline(always)]
pub(super) fn cut_sum<const AVX2: bool>(p: &[f32], q: &[[f32; 8]], scale: [f32; 8]) -> [i32; 8] {
    debug_assert!(p.len() <= 8, "more would not fit 32 bits");
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        // SAFETY: see the module's header.
        return unsafe { avx2::cut_sum(p, q, scale) };
    }
    let mut sum = [0i32; 8];
    for (p, q) in p.iter().zip(q) {
        for col in 0..8 {
            sum[col] = sum[col].wrapping_add((p * q[col] * scale[col]) as i32);
        }
    }
    sum
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256, __m256i, _mm256_add_epi32, _mm256_cvttps_epi32, _mm256_fmadd_ps, _mm256_max_epi32,
        _mm256_mul_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_si256,
    };
    use std::mem::transmute;

    #[inline(always)]
    fn floats(x: [f32; 8]) -> __m256 {
        // SAFETY: both types have the same size and accept any bits.
        unsafe { transmute(x) }
    }

    #[inline(always)]
    fn ints(x: [i32; 8]) -> __m256i {
        // SAFETY: both types have the same size and accept any bits.
        unsafe { transmute(x) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply4<const K: usize>(p: &[[f32; K]; 4], q: &[[f32; 8]; K], acc: &mut [[f32; 8]; 4]) {
        let mut sums = [floats(acc[0]), floats(acc[1]), floats(acc[2]), floats(acc[3])];
        for k in 0..K {
            let y = floats(q[k]);
            for row in 0..4 {
                sums[row] = _mm256_fmadd_ps(_mm256_set1_ps(p[row][k]), y, sums[row]);
            }
        }
        // SAFETY: both types have the same size and accept any bits.
        *acc = unsafe { transmute::<[__m256; 4], [[f32; 8]; 4]>(sums) };
    }

    /// Computes four rows at a time: eight vectors of eight sums.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply16<const K: usize>(
        p: &[[f32; K]; 16],
        q: &[[f32; 16]; K],
        acc: &mut [[f32; 16]; 16],
    ) {
        for (p, acc) in p.as_chunks::<4>().0.iter().zip(acc.as_chunks_mut::<4>().0) {
            // SAFETY: both types have the same size and accept any bits.
            let mut sums: [[__m256; 2]; 4] = unsafe { transmute(*acc) };
            for k in 0..K {
                // SAFETY: both types have the same size and accept any bits.
                let y: [__m256; 2] = unsafe { transmute(q[k]) };
                for row in 0..4 {
                    let x = _mm256_set1_ps(p[row][k]);
                    sums[row][0] = _mm256_fmadd_ps(x, y[0], sums[row][0]);
                    sums[row][1] = _mm256_fmadd_ps(x, y[1], sums[row][1]);
                }
            }
            // SAFETY: both types have the same size and accept any bits.
            *acc = unsafe { transmute::<[[__m256; 2]; 4], [[f32; 16]; 4]>(sums) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn largest_sum(p: &[i32], q: &[[i32; 8]], top: [i32; 8]) -> [i32; 8] {
        let mut top = ints(top);
        for (&p, &q) in p.iter().zip(q) {
            top = _mm256_max_epi32(top, _mm256_add_epi32(_mm256_set1_epi32(p), ints(q)));
        }
        // SAFETY: both types have the same size and accept any bits.
        unsafe { transmute(top) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn cut_sum(p: &[f32], q: &[[f32; 8]], scale: [f32; 8]) -> [i32; 8] {
        let scale = floats(scale);
        let mut sum = _mm256_setzero_si256();
        for (&p, &q) in p.iter().zip(q) {
            let term = _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(p), floats(q)), scale);
            sum = _mm256_add_epi32(sum, _mm256_cvttps_epi32(term));
        }
        // SAFETY: both types have the same size and accept any bits.
        unsafe { transmute(sum) }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m128, __m512, _CMP_UNORD_Q, _mm512_broadcast_f32x4, _mm512_cmp_ps_mask, _mm512_fmadd_ps,
        _mm512_insertf32x4, _mm512_loadu_ps, _mm512_mask_mov_ps, _mm512_permute_ps, _mm512_set1_ps,
        _mm512_setzero_ps, _mm512_storeu_ps,
    };
    use std::mem::transmute;

    use crate::num::NAN_F32;

    /// Writes every number four times: see `SpreadRows`.
    ///
    /// # Safety
    /// `out` must have room for four vectors per step.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn spread<const K: usize>(p: &[[f32; K]; 16], out: *mut [f32; 16]) {
        for first_step in (0..K).step_by(4) {
            for (rows, p) in p.as_chunks::<4>().0.iter().enumerate() {
                let part = |row: usize| {
                    let p = &p[row][first_step..first_step + 4];
                    // SAFETY: both types have the same size and accept any bits.
                    unsafe { transmute::<[f32; 4], __m128>([p[0], p[1], p[2], p[3]]) }
                };
                // Four steps of four rows, then one step at a time.
                let mut steps = _mm512_broadcast_f32x4(part(0));
                steps = _mm512_insertf32x4::<1>(steps, part(1));
                steps = _mm512_insertf32x4::<2>(steps, part(2));
                steps = _mm512_insertf32x4::<3>(steps, part(3));
                let store = |step: usize, numbers: __m512| {
                    // SAFETY: the caller has room for all vectors.
                    unsafe { _mm512_storeu_ps(out.add(4 * (first_step + step) + rows).cast(), numbers) };
                };
                store(0, _mm512_permute_ps::<0b00_00_00_00>(steps));
                store(1, _mm512_permute_ps::<0b01_01_01_01>(steps));
                store(2, _mm512_permute_ps::<0b10_10_10_10>(steps));
                store(3, _mm512_permute_ps::<0b11_11_11_11>(steps));
            }
        }
    }

    /// Computes `d + Σ p[k] · q[k]`, with k ascending, for `G` groups of eight columns. The registers of a group are the
    /// even columns of the upper eight rows, the odd ones, and those of the lower rows.
    ///
    /// # Safety
    /// `d` must have `4 * G` different registers of 32 lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn multiply_registers<const K: usize, const G: usize>(
        p: &[[[f32; 16]; 4]; K],
        q: &[[f32; 16]; K],
        d: &[*mut u32],
        keep: bool,
    ) {
        // Four rows of the even or odd columns of a group are half of a register.
        let place = |group: usize, odd: usize, rows: usize| {
            // SAFETY: the caller's registers have 32 lanes.
            unsafe { d[4 * group + rows / 2 * 2 + odd].cast::<f32>().add(16 * (rows % 2)) }
        };
        let mut sums = [[[_mm512_setzero_ps(); 4]; 2]; G];
        if keep {
            for group in 0..G {
                for odd in 0..2 {
                    for rows in 0..4 {
                        // SAFETY: as above.
                        sums[group][odd][rows] = unsafe { _mm512_loadu_ps(place(group, odd, rows)) };
                    }
                }
            }
        }
        for (p, q) in p.iter().zip(q) {
            for group in 0..G {
                for odd in 0..2 {
                    let at = 8 * group + 4 * odd;
                    let four: [f32; 4] = [q[at], q[at + 1], q[at + 2], q[at + 3]];
                    // SAFETY: both types have the same size and accept any bits.
                    let y = _mm512_broadcast_f32x4(unsafe { transmute::<[f32; 4], __m128>(four) });
                    for rows in 0..4 {
                        // SAFETY: both types have the same size and accept any bits.
                        let x = unsafe { transmute::<[f32; 16], __m512>(p[rows]) };
                        sums[group][odd][rows] = _mm512_fmadd_ps(x, y, sums[group][odd][rows]);
                    }
                }
            }
        }
        let nan = _mm512_set1_ps(f32::from_bits(NAN_F32));
        for group in 0..G {
            for odd in 0..2 {
                for rows in 0..4 {
                    let sum = sums[group][odd][rows];
                    let sum = _mm512_mask_mov_ps(sum, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(sum, sum), nan);
                    // SAFETY: as above.
                    unsafe { _mm512_storeu_ps(place(group, odd, rows), sum) };
                }
            }
        }
    }

    /// Keeps each row in one register.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn multiply16<const K: usize>(
        p: &[[f32; K]; 16],
        q: &[[f32; 16]; K],
        acc: &mut [[f32; 16]; 16],
    ) {
        // SAFETY: both types have the same size and accept any bits.
        let mut sums: [__m512; 16] = unsafe { transmute(*acc) };
        for k in 0..K {
            // SAFETY: both types have the same size and accept any bits.
            let y: __m512 = unsafe { transmute(q[k]) };
            for row in 0..16 {
                sums[row] = _mm512_fmadd_ps(_mm512_set1_ps(p[row][k]), y, sums[row]);
            }
        }
        // SAFETY: both types have the same size and accept any bits.
        *acc = unsafe { transmute::<[__m512; 16], [[f32; 16]; 16]>(sums) };
    }
}
