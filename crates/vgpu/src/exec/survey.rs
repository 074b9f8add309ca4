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
                return Kernels { survey: avx512::survey, gather4: avx512::gather4, all_defined: avx512::all_defined };
            }
            Level::Avx2 => {
                return Kernels { survey: avx2::survey, gather4: avx2::gather4, all_defined: avx2::all_defined };
            }
            Level::Baseline => {}
        }
        Kernels { survey: baseline::survey, gather4: baseline::gather4, all_defined: baseline::all_defined }
    })
}
