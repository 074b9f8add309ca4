//! The address side of a memory instruction, compiled per instruction set: one pass over the lanes says where they
//! point, how far apart, and whether they form one of the two patterns that matter.

use std::sync::OnceLock;

use crate::isa::lane::{Level, level};

#[derive(Clone, Copy, Debug)]
pub struct Survey {
    pub min: u64,
    pub max: u64,
    /// All addresses or'ed: its low bits show misalignment.
    pub or: u64,
    /// Every lane active, lane `l` at `min + l * stride`.
    pub contiguous: bool,
    /// Every active lane at the same address.
    pub uniform: bool,
}

pub type SurveyFn = unsafe fn(*const u32, bool, i64, u32, u64, &mut [u64; 32]) -> Survey;
pub type Gather4Fn = unsafe fn(*const u8, u64, &[u64; 32], *mut u32);
pub type AllDefinedFn = unsafe fn(*const u8, usize) -> bool;
/// A 4-byte load from shared memory. False, and nothing done, if an address is misaligned or out of bounds.
pub type LoadSharedFn = unsafe fn(&SharedLoad) -> bool;
/// Words of a tile: memory, row and column of each lane, bytes per row step, result.
pub type GatherTileFn = unsafe fn(*const u8, &[u32; 32], &[u32; 32], u32, *mut u32);

/// What a load from shared memory needs.
#[derive(Clone, Copy, Debug)]
pub struct SharedLoad {
    pub d: *mut u32,
    pub address: *const u32,
    /// The address register is a 64-bit one.
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
    // SAFETY: the caller has checked that all addresses lie in the range that `base` is the start of.
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
    // SAFETY: the caller passes registers; every address is checked before it is used.
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

/// As `load_shared_body`, with the gather instruction, which LLVM does not find by itself.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2")]
unsafe fn load_shared_avx512(q: &SharedLoad) -> bool {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_castsi256_si512, _mm512_cvtepi64_epi32, _mm512_inserti64x4,
        _mm512_load_si512, _mm512_mask_i32gather_epi32, _mm512_mask_reduce_max_epu32,
        _mm512_mask_reduce_or_epi32, _mm512_mask_reduce_or_epi64, _mm512_set1_epi32, _mm512_store_si512,
    };
    // SAFETY: registers are aligned to 128 bytes; every address of the mask is checked before it is used, and lanes
    // outside it are not loaded.
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

#[inline(always)]
unsafe fn gather_tile_body(base: *const u8, rows: &[u32; 32], cols: &[u32; 32], stride: u32, out: *mut u32) {
    // SAFETY: the caller has checked that the whole tile lies in memory.
    unsafe {
        let mut v = [0u32; 32];
        for l in 0..32 {
            let at = rows[l] as usize * stride as usize + cols[l] as usize;
            v[l] = base.wrapping_add(at).cast::<u32>().read_unaligned();
        }
        *out.cast::<[u32; 32]>() = v;
    }
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

#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    pub survey: SurveyFn,
    pub gather4: Gather4Fn,
    pub all_defined: AllDefinedFn,
    pub load_shared: LoadSharedFn,
    pub gather_tile: GatherTileFn,
}

macro_rules! instances {
    ($module:ident, $(#[$attr:meta])*) => {
        mod $module {
            use super::*;
            $(#[$attr])*
            pub unsafe fn survey(r: *const u32, w: bool, o: i64, m: u32, s: u64, ad: &mut [u64; 32]) -> Survey {
                // SAFETY: the caller's promise, passed on.
                unsafe { survey_body(r, w, o, m, s, ad) }
            }
            $(#[$attr])*
            pub unsafe fn gather4(b: *const u8, low: u64, ad: &[u64; 32], out: *mut u32) {
                // SAFETY: the caller's promise, passed on.
                unsafe { gather4_body(b, low, ad, out) }
            }
            $(#[$attr])*
            pub unsafe fn all_defined(s: *const u8, bytes: usize) -> bool {
                // SAFETY: the caller's promise, passed on.
                unsafe { all_defined_body(s, bytes) }
            }
            #[allow(dead_code, reason = "AVX-512 has one by hand")]
            $(#[$attr])*
            pub unsafe fn load_shared(q: &SharedLoad) -> bool {
                // SAFETY: the caller's promise, passed on.
                unsafe { load_shared_body(q) }
            }
            $(#[$attr])*
            pub unsafe fn gather_tile(b: *const u8, r: &[u32; 32], c: &[u32; 32], s: u32, out: *mut u32) {
                // SAFETY: the caller's promise, passed on.
                unsafe { gather_tile_body(b, r, c, s, out) }
            }
        }
    };
}
instances!(baseline,);
#[cfg(target_arch = "x86_64")]
instances!(avx2, #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]);
#[cfg(target_arch = "x86_64")]
instances!(avx512, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]);

/// The instances for this machine.
pub fn kernels() -> &'static Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    KERNELS.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        match level() {
            Level::Avx512 => {
                return Kernels {
                    survey: avx512::survey,
                    gather4: avx512::gather4,
                    all_defined: avx512::all_defined,
                    load_shared: load_shared_avx512,
                    gather_tile: avx512::gather_tile,
                };
            }
            Level::Avx2 => {
                return Kernels {
                    survey: avx2::survey,
                    gather4: avx2::gather4,
                    all_defined: avx2::all_defined,
                    load_shared: avx2::load_shared,
                    gather_tile: avx2::gather_tile,
                };
            }
            Level::Baseline => {}
        }
        Kernels {
            survey: baseline::survey,
            gather4: baseline::gather4,
            all_defined: baseline::all_defined,
            load_shared: baseline::load_shared,
            gather_tile: baseline::gather_tile,
        }
    })
}
