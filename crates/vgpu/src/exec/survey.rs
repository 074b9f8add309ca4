//! The address part of a memory instruction, compiled for several instruction sets. One pass over the lanes computes
//! the addresses, their range, and whether they form one of the two patterns with a fast path.

use std::sync::OnceLock;

use crate::isa::op::{TileForm, WmmaMemory};
use crate::lanes::lanes;
use crate::num::simd::instance;
use crate::num::tile::matrix;

#[derive(Clone, Copy, Debug)]
pub struct Survey {
    pub min: u64,
    pub max: u64,
    /// Bitwise or of all addresses. Its low bits show misalignment.
    pub or: u64,
    /// Every lane is active, and lane `l` has the address `min + l * stride`.
    pub contiguous: bool,
    /// Every active lane has the same address.
    pub uniform: bool,
}

/// Surveys addresses that form no pattern.
pub fn survey_of(mask: u32, at: &[u64; 32]) -> Survey {
    let mut s = Survey { min: u64::MAX, max: 0, or: 0, contiguous: false, uniform: false };
    for l in lanes(mask) {
        s.min = s.min.min(at[l]);
        s.max = s.max.max(at[l]);
        s.or |= at[l];
    }
    s
}

/// Maximum distance in bytes for which all states in the range are tested, including unused ones. This is faster than
/// selecting the used ones.
pub const NEAR: usize = 512;

/// Survey of a memory instruction on shared memory. It uses offsets instead of addresses.
#[derive(Clone, Copy, Debug)]
pub struct SharedSurvey {
    pub min: u32,
    pub max: u32,
    /// All offsets are multiples of four.
    pub aligned: bool,
    /// Some lane's offset does not fit in 32 bits.
    pub beyond: bool,
    pub contiguous: bool,
    pub uniform: bool,
}

/// Parameters of a load from shared memory.
#[derive(Clone, Copy, Debug)]
pub struct SharedLoad {
    pub d: *mut u32,
    pub address: *const u32,
    /// The address register has 64 bits.
    pub wide: bool,
    pub offset: i32,
    pub mask: u32,
    pub base: *const u8,
    pub bytes: u32,
}

#[inline(always)]
unsafe fn survey_body(
    reg: *const u32,
    wide: bool,
    offset: i64,
    mask: u32,
    stride: u64,
    ad: &mut [u64; 32],
) -> Survey {
    // SAFETY: the caller passes a register of that width.
    unsafe {
        if wide {
            let a = *reg.cast::<[u64; 32]>();
            for l in 0..32 {
                ad[l] = a[l].wrapping_add(offset as u64);
            }
        } else {
            let a = *reg.cast::<[u32; 32]>();
            for l in 0..32 {
                ad[l] = u64::from(a[l].wrapping_add(offset as u32));
            }
        }
    }
    if mask != u32::MAX {
        let first = ad[(mask.trailing_zeros() & 31) as usize];
        for l in 0..32 {
            ad[l] = if mask >> l & 1 == 1 { ad[l] } else { first };
        }
    }
    let base = ad[0];
    let (mut min, mut max, mut or) = (u64::MAX, 0, 0);
    let (mut steps, mut same) = (0u64, 0u64);
    for l in 0..32 {
        let a = ad[l];
        min = min.min(a);
        max = max.max(a);
        or |= a;
        steps |= a ^ base.wrapping_add(l as u64 * stride);
        same |= a ^ base;
    }
    Survey { min, max, or, contiguous: steps == 0 && mask == u32::MAX, uniform: same == 0 }
}

#[inline(always)]
unsafe fn gather4_body(base: *const u8, low: u64, ad: &[u64; 32], out: *mut u32) {
    // SAFETY: the caller has checked that all addresses lie in the range that starts at `base`.
    unsafe {
        let mut v = [0u32; 32];
        for l in 0..32 {
            v[l] = base.wrapping_add((ad[l] - low) as usize).cast::<u32>().read_unaligned();
        }
        *out.cast::<[u32; 32]>() = v;
    }
}

#[inline(always)]
unsafe fn load_shared_body(q: &SharedLoad) -> bool {
    let mut at = [0u32; 32];
    // SAFETY: the caller passes registers. Every address is checked before it is used.
    unsafe {
        let mut high = 0;
        if q.wide {
            let full = *q.address.cast::<[u64; 32]>();
            for l in 0..32 {
                high |= if q.mask >> l & 1 == 1 { full[l] } else { 0 };
                at[l] = full[l] as u32;
            }
        } else {
            at = *q.address.cast::<[u32; 32]>();
        }
        let first = at[(q.mask.trailing_zeros() & 31) as usize];
        let (mut max, mut or) = (0, 0);
        for l in 0..32 {
            let a = if q.mask >> l & 1 == 1 { at[l] } else { first };
            at[l] = a.wrapping_add(q.offset as u32);
            max = max.max(at[l]);
            or |= at[l];
        }
        if high >> 32 != 0 || or & 3 != 0 || q.bytes < 4 || max > q.bytes - 4 {
            return false;
        }
        let old = *q.d.cast::<[u32; 32]>();
        let mut out = [0u32; 32];
        for l in 0..32 {
            let v = *q.base.wrapping_add(at[l] as usize).cast::<u32>();
            out[l] = if q.mask >> l & 1 == 1 { v } else { old[l] };
        }
        *q.d.cast::<[u32; 32]>() = out;
    }
    true
}

#[inline(always)]
unsafe fn survey_shared_body(
    reg: *const u32,
    wide: bool,
    offset: i32,
    mask: u32,
    at: &mut [u32; 32],
) -> SharedSurvey {
    let mut high = 0;
    // SAFETY: the caller passes a register of that width.
    unsafe {
        if wide {
            let full = *reg.cast::<[u64; 32]>();
            for l in 0..32 {
                high |= if mask >> l & 1 == 1 { full[l] } else { 0 };
                at[l] = full[l] as u32;
            }
        } else {
            *at = *reg.cast::<[u32; 32]>();
        }
    }
    let first = at[(mask.trailing_zeros() & 31) as usize].wrapping_add(offset as u32);
    let (mut min, mut max, mut or) = (u32::MAX, 0, 0);
    let (mut steps, mut same) = (0u32, 0u32);
    for l in 0..32 {
        let a = if mask >> l & 1 == 1 { at[l].wrapping_add(offset as u32) } else { first };
        at[l] = a;
        min = min.min(a);
        max = max.max(a);
        or |= a;
        steps |= a ^ first.wrapping_add(l as u32 * 4);
        same |= a ^ first;
    }
    let contiguous = steps == 0 && mask == u32::MAX;
    SharedSurvey {
        min,
        max,
        aligned: or.is_multiple_of(4),
        beyond: high >> 32 != 0,
        contiguous,
        uniform: same == 0,
    }
}

#[inline(always)]
unsafe fn gather_shared_body(d: *mut u32, mask: u32, at: &[u32; 32], base: *const u8) {
    // SAFETY: the caller passes a register and has checked that all offsets lie in memory.
    unsafe {
        let old = *d.cast::<[u32; 32]>();
        let mut out = [0u32; 32];
        for l in 0..32 {
            let v = base.wrapping_add(at[l] as usize).cast::<u32>().read_unaligned();
            out[l] = if mask >> l & 1 == 1 { v } else { old[l] };
        }
        *d.cast::<[u32; 32]>() = out;
    }
}

#[inline(always)]
unsafe fn scatter_shared_body(from: *const u32, mask: u32, at: &[u32; 32], base: *mut u8) {
    for l in lanes(mask) {
        // SAFETY: as in `gather_shared_body`.
        unsafe { base.wrapping_add(at[l] as usize).cast::<u32>().write_unaligned(*from.add(l)) };
    }
}

/// A register's worth of words, aligned as a register is.
#[repr(align(128))]
struct Aligned([u32; 32]);

/// The functions that a load under checks consists of.
macro_rules! load_defined {
    ($q:ident, $states:ident, $at:ident, $survey:path, $all_defined:path, $gather:path) => {{
        let SharedLoad { d, address, wide, offset, mask, base, bytes } = *$q;
        // SAFETY: the caller passes registers and the shadow of the memory. Every address is checked before it is used.
        unsafe {
            let s = $survey(address, wide, offset, mask, $at);
            let inside = !s.beyond && s.max.checked_add(4).is_some_and(|end| end <= bytes);
            if !(inside && s.aligned) {
                return None;
            }
            let reach = (s.max - s.min) as usize + 4;
            if reach > NEAR || !$all_defined($states.add(s.min as usize), reach) {
                let mut words = Aligned([u32::MAX; 32]);
                $gather(words.0.as_mut_ptr(), mask, $at, $states);
                if words.0.iter().fold(u32::MAX, |all, state| all & state) & 0x0101_0101 != 0x0101_0101 {
                    return None;
                }
            }
            $gather(d, mask, $at, base);
            Some(s)
        }
    }};
}

#[inline(always)]
unsafe fn load_defined_body(q: &SharedLoad, states: *const u8, at: &mut [u32; 32]) -> Option<SharedSurvey> {
    load_defined!(q, states, at, survey_shared_body, all_defined_body, gather_shared_body)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2")]
unsafe fn load_defined_avx512(q: &SharedLoad, states: *const u8, at: &mut [u32; 32]) -> Option<SharedSurvey> {
    load_defined!(q, states, at, survey_shared_avx512, all_defined_avx512, gather_shared_avx512)
}

/// Like `survey_shared_body`, but with masks instead of reductions.
#[inline]
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2")]
unsafe fn survey_shared_avx512(
    reg: *const u32,
    wide: bool,
    offset: i32,
    mask: u32,
    at: &mut [u32; 32],
) -> SharedSurvey {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_castsi256_si512, _mm512_cmpeq_epi32_mask, _mm512_cvtepi64_epi32,
        _mm512_inserti64x4, _mm512_load_si512, _mm512_mask_mov_epi32, _mm512_mask_test_epi64_mask,
        _mm512_max_epu32, _mm512_min_epu32, _mm512_or_si512, _mm512_reduce_max_epu32,
        _mm512_reduce_min_epu32, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setr_epi32,
        _mm512_storeu_si512, _mm512_test_epi32_mask,
    };
    // SAFETY: registers are aligned to 128 bytes and have the given width.
    unsafe {
        let (m0, m1) = (mask as u16, (mask >> 16) as u16);
        let mut beyond = false;
        let (lo, hi) = if wide {
            let part = |i: usize| _mm512_load_si512(reg.add(16 * i).cast());
            let (a, b, c, d) = (part(0), part(1), part(2), part(3));
            let high = _mm512_set1_epi64(!0 << 32);
            let test = |lanes: u16, x| _mm512_mask_test_epi64_mask(lanes as u8, x, high);
            beyond = test(m0, a) | test(m0 >> 8, b) | test(m1, c) | test(m1 >> 8, d) != 0;
            let join = |x, y| {
                let x = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(x));
                _mm512_inserti64x4::<1>(x, _mm512_cvtepi64_epi32(y))
            };
            (join(a, b), join(c, d))
        } else {
            (_mm512_load_si512(reg.cast()), _mm512_load_si512(reg.add(16).cast()))
        };
        let index = (mask.trailing_zeros() & 31) as usize;
        let first = if wide { *reg.add(2 * index) } else { *reg.add(index) }.wrapping_add(offset as u32);
        let (plus, all) = (_mm512_set1_epi32(offset), _mm512_set1_epi32(first as i32));
        let lo = _mm512_mask_mov_epi32(all, m0, _mm512_add_epi32(lo, plus));
        let hi = _mm512_mask_mov_epi32(all, m1, _mm512_add_epi32(hi, plus));
        _mm512_storeu_si512(at.as_mut_ptr().cast(), lo);
        _mm512_storeu_si512(at.as_mut_ptr().add(16).cast(), hi);
        let same = |x, y, z, w| _mm512_cmpeq_epi32_mask(x, y) & _mm512_cmpeq_epi32_mask(z, w) == u16::MAX;
        let steps = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60);
        let row = _mm512_add_epi32(all, steps);
        let next = _mm512_add_epi32(row, _mm512_set1_epi32(64));
        SharedSurvey {
            min: _mm512_reduce_min_epu32(_mm512_min_epu32(lo, hi)),
            max: _mm512_reduce_max_epu32(_mm512_max_epu32(lo, hi)),
            aligned: _mm512_test_epi32_mask(_mm512_or_si512(lo, hi), _mm512_set1_epi32(3)) == 0,
            beyond,
            contiguous: mask == u32::MAX && same(lo, row, hi, next),
            uniform: same(lo, all, hi, all),
        }
    }
}

/// Like `all_defined_body`, but with a mask for the last part.
#[inline]
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
unsafe fn all_defined_avx512(shadow: *const u8, bytes: usize) -> bool {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_mask_test_epi8_mask, _mm512_maskz_loadu_epi8, _mm512_set1_epi8,
        _mm512_test_epi8_mask,
    };
    let one = _mm512_set1_epi8(1);
    // SAFETY: the caller passes a range inside one shadow.
    unsafe {
        let whole = bytes / 64;
        let defined = |i| _mm512_test_epi8_mask(_mm512_loadu_si512(shadow.add(64 * i).cast()), one) == !0;
        let rest = !(!0 << (bytes % 64));
        let last = _mm512_maskz_loadu_epi8(rest, shadow.add(64 * whole).cast());
        (0..whole).all(defined) && _mm512_mask_test_epi8_mask(rest, last, one) == rest
    }
}

/// Like `gather4_body`, but with the gather instruction.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2")]
unsafe fn gather4_avx512(base: *const u8, low: u64, ad: &[u64; 32], out: *mut u32) {
    use std::arch::x86_64::{
        _mm256_storeu_si256, _mm512_i64gather_epi32, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_sub_epi64,
    };
    let low = _mm512_set1_epi64(low as i64);
    for part in 0..4 {
        // SAFETY: as in `gather4_body`.
        unsafe {
            let at = _mm512_sub_epi64(_mm512_loadu_si512(ad.as_ptr().add(8 * part).cast()), low);
            let words = _mm512_i64gather_epi32::<1>(at, base.cast());
            _mm256_storeu_si256(out.add(8 * part).cast(), words);
        }
    }
}

/// Like `gather_shared_body`, but with the gather instruction, which LLVM does not generate by itself.
#[inline]
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn gather_shared_avx512(d: *mut u32, mask: u32, at: &[u32; 32], base: *const u8) {
    use std::arch::x86_64::{
        _mm512_load_si512, _mm512_loadu_si512, _mm512_mask_i32gather_epi32, _mm512_store_si512,
    };
    for half in 0..2 {
        // SAFETY: as in `gather_shared_body`. Registers are aligned to 128 bytes.
        unsafe {
            let d = d.add(16 * half);
            let (lanes, at) =
                ((mask >> (16 * half)) as u16, _mm512_loadu_si512(at.as_ptr().add(16 * half).cast()));
            let old = _mm512_load_si512(d.cast());
            _mm512_store_si512(d.cast(), _mm512_mask_i32gather_epi32::<1>(old, lanes, at, base.cast()));
        }
    }
}

/// Like `scatter_shared_body`. If several lanes have the same offset, the highest lane wins here too.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn scatter_shared_avx512(from: *const u32, mask: u32, at: &[u32; 32], base: *mut u8) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_mask_i32scatter_epi32};
    for half in 0..2 {
        // SAFETY: as in `scatter_shared_body`.
        unsafe {
            let (lanes, at) =
                ((mask >> (16 * half)) as u16, _mm512_loadu_si512(at.as_ptr().add(16 * half).cast()));
            let values = _mm512_loadu_si512(from.add(16 * half).cast());
            _mm512_mask_i32scatter_epi32::<1>(base.cast(), lanes, at, values);
        }
    }
}

/// Like `load_shared_body`, but with the gather instruction, which LLVM does not generate by itself.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2")]
unsafe fn load_shared_avx512(q: &SharedLoad) -> bool {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_castsi256_si512, _mm512_cvtepi64_epi32, _mm512_inserti64x4,
        _mm512_load_si512, _mm512_mask_i32gather_epi32, _mm512_mask_reduce_max_epu32,
        _mm512_mask_reduce_or_epi32, _mm512_mask_reduce_or_epi64, _mm512_set1_epi32, _mm512_store_si512,
    };
    // SAFETY: registers are aligned to 128 bytes. Every address of the mask is checked before it is used, and lanes
    // outside the mask are not loaded.
    unsafe {
        let (m0, m1) = (q.mask as u16, (q.mask >> 16) as u16);
        let (lo, hi) = if q.wide {
            let part = |i: usize| _mm512_load_si512(q.address.add(16 * i).cast());
            let (a, b, c, d) = (part(0), part(1), part(2), part(3));
            let high = _mm512_mask_reduce_or_epi64(m0 as u8, a)
                | _mm512_mask_reduce_or_epi64((m0 >> 8) as u8, b)
                | _mm512_mask_reduce_or_epi64(m1 as u8, c)
                | _mm512_mask_reduce_or_epi64((m1 >> 8) as u8, d);
            if high as u64 >> 32 != 0 {
                return false;
            }
            let join = |x, y| {
                _mm512_inserti64x4::<1>(
                    _mm512_castsi256_si512(_mm512_cvtepi64_epi32(x)),
                    _mm512_cvtepi64_epi32(y),
                )
            };
            (join(a, b), join(c, d))
        } else {
            (_mm512_load_si512(q.address.cast()), _mm512_load_si512(q.address.add(16).cast()))
        };
        let plus = _mm512_set1_epi32(q.offset);
        let (lo, hi) = (_mm512_add_epi32(lo, plus), _mm512_add_epi32(hi, plus));
        let max = _mm512_mask_reduce_max_epu32(m0, lo).max(_mm512_mask_reduce_max_epu32(m1, hi));
        let or = _mm512_mask_reduce_or_epi32(m0, lo) | _mm512_mask_reduce_or_epi32(m1, hi);
        if or & 3 != 0 || q.bytes < 4 || max > q.bytes - 4 {
            return false;
        }
        let (d0, d1) = (_mm512_load_si512(q.d.cast()), _mm512_load_si512(q.d.add(16).cast()));
        _mm512_store_si512(q.d.cast(), _mm512_mask_i32gather_epi32::<1>(d0, m0, lo, q.base.cast()));
        _mm512_store_si512(q.d.add(16).cast(), _mm512_mask_i32gather_epi32::<1>(d1, m1, hi, q.base.cast()));
    }
    true
}

/// Loads the registers of a fragment from memory: all its `distinct` registers.
#[inline(always)]
unsafe fn load_tile_body(base: *const u8, row: usize, m: &WmmaMemory, out: &mut [[u32; 32]; 8]) {
    // SAFETY: the caller has checked that the whole tile lies in memory.
    unsafe {
        // Address of row `g` of a register.
        let start = |p: usize, g: usize| {
            base.wrapping_add((m.steps[p][0] as usize + g) * row + m.along[p][0] as usize)
        };
        let distinct = m.fragment.distinct.min(8);
        match m.form {
            TileForm::Rows | TileForm::Columns => {
                let trans = m.form == TileForm::Columns;
                for (r, out) in out[..distinct].iter_mut().enumerate() {
                    let p = if trans { 2 * r } else { r };
                    let mut block: matrix::Block = [[0; 16]; 8];
                    for (g, bytes) in block.iter_mut().enumerate() {
                        *bytes = start(p, g).cast::<[u8; 16]>().read_unaligned();
                    }
                    *out = matrix::load(&block, trans);
                }
            }
            TileForm::Pairs => {
                for (r, [even, odd]) in out[..distinct].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    for g in 0..8 {
                        let words = start(2 * r, g).cast::<[u32; 8]>().read_unaligned();
                        for t in 0..4 {
                            even[4 * g + t] = words[2 * t];
                            odd[4 * g + t] = words[2 * t + 1];
                        }
                    }
                }
            }
            TileForm::Pieces => {
                let (size, per) = (m.piece_bytes as usize, m.steps.len() / m.fragment.regs);
                for (r, out) in out[..distinct].iter_mut().enumerate() {
                    *out = [0; 32];
                    for (k, (steps, along)) in
                        m.steps.iter().zip(&m.along).skip(r * per).take(per).enumerate()
                    {
                        for l in 0..32 {
                            let mut raw = [0; 4];
                            let at = base.wrapping_add(steps[l] as usize * row + along[l] as usize);
                            std::ptr::copy_nonoverlapping(at, raw.as_mut_ptr(), size.min(4));
                            out[l] |= u32::from_le_bytes(raw) << (k * size * 8);
                        }
                    }
                }
            }
        }
    }
}

/// Stores the registers of a fragment to memory.
#[inline(always)]
unsafe fn store_tile_body(base: *mut u8, row: usize, m: &WmmaMemory, regs: &[*const u32]) {
    // SAFETY: the caller has checked that the whole tile lies in memory, and passes valid registers.
    unsafe {
        if m.form == TileForm::Pairs {
            for (r, [even, odd]) in regs.as_chunks::<2>().0.iter().enumerate() {
                let (even, odd) = (&*even.cast::<[u32; 32]>(), &*odd.cast::<[u32; 32]>());
                let at = base.wrapping_add(m.steps[2 * r][0] as usize * row + m.along[2 * r][0] as usize);
                for g in 0..8 {
                    let mut words = [0; 8];
                    for t in 0..4 {
                        words[2 * t] = even[4 * g + t];
                        words[2 * t + 1] = odd[4 * g + t];
                    }
                    at.wrapping_add(g * row).cast::<[u32; 8]>().write_unaligned(words);
                }
            }
            return;
        }
        let (size, per) = (m.piece_bytes as usize, m.steps.len() / m.fragment.regs);
        for (p, (steps, along)) in m.steps.iter().zip(&m.along).enumerate() {
            let values = &*regs[p / per].cast::<[u32; 32]>();
            for l in 0..32 {
                let raw = (values[l] >> (p % per * size * 8)).to_le_bytes();
                let at = base.wrapping_add(steps[l] as usize * row + along[l] as usize);
                std::ptr::copy_nonoverlapping(raw.as_ptr(), at, size.min(4));
            }
        }
    }
}

/// Whether all bytes of a tile are defined.
#[inline(always)]
unsafe fn tile_defined_body(shadow: *const u8, row: usize, runs: usize, run: usize) -> bool {
    let mut all = u64::MAX;
    for r in 0..runs {
        for word in 0..run / 8 {
            // SAFETY: the caller has checked that the whole tile lies in memory. Runs have at least eight bytes.
            all &= unsafe { shadow.wrapping_add(r * row + word * 8).cast::<u64>().read_unaligned() };
        }
    }
    all & 0x0101_0101_0101_0101 == 0x0101_0101_0101_0101
}

#[inline(always)]
unsafe fn all_defined_body(shadow: *const u8, bytes: usize) -> bool {
    // SAFETY: the caller passes a range inside one shadow.
    let states = unsafe { std::slice::from_raw_parts(shadow, bytes) };
    let mut all = 1u8;
    for s in states {
        all &= s;
    }
    all & 1 == 1
}

/// Declares the functions. A name after the parameters is a version that is written by hand for AVX-512.
macro_rules! lane_functions {
    ($($(#[$doc:meta])* $name:ident = $body:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $(; $v4:ident)?,)+) => {
        /// The functions, compiled for this machine's instruction set.
        #[derive(Clone, Copy, Debug)]
        pub struct LaneFunctions {
            $($(#[$doc])* pub $name: unsafe fn($($ty),*) $(-> $ret)?,)+
        }

        pub fn lane_functions() -> &'static LaneFunctions {
            static FUNCTIONS: OnceLock<LaneFunctions> = OnceLock::new();
            FUNCTIONS.get_or_init(|| LaneFunctions {
                $($name: instance!($body($($arg: $ty),*) $(-> $ret)? $(; $v4)?),)+
            })
        }
    };
}

lane_functions! {
    /// Parameters: address register, whether it has 64 bits, offset, mask, stride of the pattern, and the resulting
    /// addresses.
    survey = survey_body(r: *const u32, w: bool, o: i64, m: u32, s: u64, at: &mut [u64; 32]) -> Survey,
    gather4 = gather4_body(base: *const u8, low: u64, at: &[u64; 32], out: *mut u32); gather4_avx512,
    all_defined = all_defined_body(shadow: *const u8, bytes: usize) -> bool; all_defined_avx512,
    /// A 4-byte load from shared memory. Returns false without any effect if an address is misaligned or out of bounds.
    load_shared = load_shared_body(q: &SharedLoad) -> bool; load_shared_avx512,
    /// A 4-byte load from shared memory under checks, with the shadow of the memory and the resulting offsets. Returns
    /// `None` without any effect if an address is misaligned or out of bounds, or if a byte is undefined.
    load_defined = load_defined_body(q: &SharedLoad, shadow: *const u8, at: &mut [u32; 32]) -> Option<SharedSurvey>;
        load_defined_avx512,
    /// Parameters: address register, whether it has 64 bits, offset, mask, and the resulting offsets. An inactive lane
    /// gets the offset of the first active lane.
    survey_shared = survey_shared_body(r: *const u32, w: bool, o: i32, m: u32, at: &mut [u32; 32]) -> SharedSurvey;
        survey_shared_avx512,
    /// Stores words of a register to shared memory. Parameters: register, mask, offsets, memory.
    scatter_shared = scatter_shared_body(from: *const u32, m: u32, at: &[u32; 32], base: *mut u8);
        scatter_shared_avx512,
    /// Loads a tile. The first parameters are its base in memory and the distance in bytes between rows.
    load_tile = load_tile_body(base: *const u8, row: usize, m: &WmmaMemory, out: &mut [[u32; 32]; 8]),
    store_tile = store_tile_body(base: *mut u8, row: usize, m: &WmmaMemory, regs: &[*const u32]),
    /// Parameters: shadow of the tile's base, bytes between runs, number of runs, bytes of a run (a multiple of eight).
    tile_defined = tile_defined_body(shadow: *const u8, row: usize, runs: usize, run: usize) -> bool,
}
