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
/// A 4-byte load from shared memory by all lanes: result, address register and whether it is a
/// 64-bit one, offset, memory, its size. False, and nothing done, if an address is misaligned or out of bounds.
pub type LoadSharedFn = unsafe fn(*mut u32, *const u32, bool, i32, *const u8, u32) -> bool;

#[inline(always)]
unsafe fn survey_body(reg: *const u32, wide: bool, offset: i64, mask: u32, stride: u64, ad: &mut [u64; 32]) -> Survey {
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
unsafe fn load_shared_body(d: *mut u32, address: *const u32, wide: bool, offset: i32, base: *const u8, bytes: u32) -> bool {
    // SAFETY: the caller passes registers; every address is checked before it is used.
    unsafe {
        let mut at = [0u32; 32];
        if wide {
            let full = *address.cast::<[u64; 32]>();
            let mut high = 0;
            for l in 0..32 {
                high |= full[l];
                at[l] = full[l] as u32;
            }
            if high >> 32 != 0 {
                return false;
            }
        } else {
            at = *address.cast::<[u32; 32]>();
        }
        let (mut max, mut or) = (0, 0);
        for a in &mut at {
            *a = a.wrapping_add(offset as u32);
            max = max.max(*a);
            or |= *a;
        }
        if or & 3 != 0 || max > bytes.wrapping_sub(4) || bytes < 4 {
            return false;
        }
        let mut out = [0u32; 32];
        for l in 0..32 {
            out[l] = *base.wrapping_add(at[l] as usize).cast::<u32>();
        }
        *d.cast::<[u32; 32]>() = out;
    }
    true
}

/// As `load_shared_body`, with the gather instruction, which LLVM does not find by itself.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2")]
unsafe fn load_shared_avx512(d: *mut u32, address: *const u32, wide: bool, offset: i32, base: *const u8, bytes: u32) -> bool {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_castsi256_si512, _mm512_cvtepi64_epi32, _mm512_i32gather_epi32,
        _mm512_inserti64x4, _mm512_load_si512, _mm512_max_epu32, _mm512_or_si512, _mm512_reduce_max_epu32,
        _mm512_reduce_or_epi32, _mm512_reduce_or_epi64, _mm512_set1_epi32, _mm512_store_si512,
    };
    // SAFETY: registers are aligned to 128 bytes; every address is checked before it is used.
    unsafe {
        let plus = _mm512_set1_epi32(offset);
        let (lo, hi) = if wide {
            let part = |i: usize| _mm512_load_si512(address.add(16 * i).cast());
            let (a, b, c, e) = (part(0), part(1), part(2), part(3));
            let all = _mm512_reduce_or_epi64(_mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, e)));
            if all as u64 >> 32 != 0 {
                return false;
            }
            let join = |x, y| {
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(x)), _mm512_cvtepi64_epi32(y))
            };
            (join(a, b), join(c, e))
        } else {
            (_mm512_load_si512(address.cast()), _mm512_load_si512(address.add(16).cast()))
        };
        let (lo, hi) = (_mm512_add_epi32(lo, plus), _mm512_add_epi32(hi, plus));
        let max = _mm512_reduce_max_epu32(_mm512_max_epu32(lo, hi));
        let or = _mm512_reduce_or_epi32(_mm512_or_si512(lo, hi));
        if or & 3 != 0 || bytes < 4 || max > bytes - 4 {
            return false;
        }
        let a = _mm512_i32gather_epi32::<1>(lo, base.cast());
        let b = _mm512_i32gather_epi32::<1>(hi, base.cast());
        _mm512_store_si512(d.cast(), a);
        _mm512_store_si512(d.add(16).cast(), b);
    }
    true
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
            pub unsafe fn load_shared(d: *mut u32, a: *const u32, w: bool, o: i32, b: *const u8, n: u32) -> bool {
                // SAFETY: the caller's promise, passed on.
                unsafe { load_shared_body(d, a, w, o, b, n) }
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
                return Kernels { survey: avx512::survey, gather4: avx512::gather4, all_defined: avx512::all_defined, load_shared: load_shared_avx512 };
            }
            Level::Avx2 => {
                return Kernels { survey: avx2::survey, gather4: avx2::gather4, all_defined: avx2::all_defined, load_shared: avx2::load_shared };
            }
            Level::Baseline => {}
        }
        Kernels { survey: baseline::survey, gather4: baseline::gather4, all_defined: baseline::all_defined, load_shared: baseline::load_shared }
    })
}
