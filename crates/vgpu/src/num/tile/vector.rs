//! The inner loops of tile products, eight columns wide.
//!
//! LLVM vectorises plain loops along the wrong dimension and then spends more time on permutes than on arithmetic.
//! Therefore the AVX2 forms use intrinsics. The plain forms serve other machines and define what is computed. `AVX2`
//! is true only inside the wrappers of `per_isa`, which enable avx2 and fma.

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
        if crate::cpu::level() == crate::cpu::Level::V4 {
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
    use std::arch::x86_64::{__m512, _mm512_fmadd_ps, _mm512_set1_ps};
    use std::mem::transmute;

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
