//! The small floating-point formats f16, bf16, tf32, E4M3, E5M2 and UE8M0: conversion to f32 (always exact) and back.
//!
//! The `_rn` encoders and the decoders are branch-free integer code that LLVM vectorises. The bulk forms use the
//! half-precision conversion instructions if the machine has them. All other conversions go through `exact`.
//! Encoders produce the canonical NaN of the format. Decoders produce `NAN_F32`, except that of bf16.

use super::simd::per_isa;
use super::{Lanes, NAN_F16, NAN_F32};

/// f16 to f32, exactly.
#[inline(always)]
pub fn f16_to_f32(h: u32) -> f32 {
    let magnitude = (h & 0x7fff) << 13;
    let sign = (h & 0x8000) << 16;
    // Normal numbers: rebias. Subnormal numbers: read the code as 2^-14 · 1.f and subtract 2^-14, so that the host
    // never computes with a subnormal f32, which costs a microcode assist. Top binade: canonical NaN or infinity.
    let normal = magnitude + (112 << 23);
    let subnormal = (f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23)).to_bits();
    let top = if magnitude == 0x0f80_0000 { 0x7f80_0000 } else { NAN_F32 };
    let bits = if magnitude < 0x0080_0000 { subnormal } else { normal };
    let sign = if magnitude > 0x0f80_0000 { 0 } else { sign };
    let bits = if magnitude >= 0x0f80_0000 { top } else { bits };
    f32::from_bits(bits | sign)
}

/// f32 to f16, to nearest even. Overflow gives infinity.
#[inline(always)]
pub fn f32_to_f16_rn(x: f32) -> u32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 16) & 0x8000;
    // Adding half an ulp minus one, plus the lowest kept bit, carries exactly when the value rounds up.
    let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add((magnitude >> 13) & 1) >> 13;
    // The ulp of 0.5 in f32 equals the ulp of an f16 subnormal, so the f32 addition does the rounding.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let code = if magnitude >= 0x4780_0000 { 0x7c00 } else { finite };
    if magnitude > 0x7f80_0000 { NAN_F16 } else { code | sign }
}

/// bf16 to f32, exactly. Hardware shifts the bits, so a NaN keeps its payload.
#[inline(always)]
pub fn bf16_to_f32(h: u32) -> f32 {
    f32::from_bits(h << 16)
}

/// f32 to bf16, to nearest even. Overflow gives infinity.
#[inline(always)]
pub fn f32_to_bf16_rn(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff).wrapping_add((bits >> 16) & 1) >> 16;
    if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_F16 } else { rounded }
}

/// f32 to tf32, ties away from zero (`cvt.rna.tf32.f32`). The result is an f32 whose low 13 bits are zero.
///
/// Infinities and NaNs are truncated, not rounded. Therefore a NaN with a small payload becomes infinity, as on
/// hardware.
#[inline(always)]
pub(crate) fn f32_to_tf32_rna(x: f32) -> u32 {
    let bits = x.to_bits();
    let half = if bits & 0x7f80_0000 == 0x7f80_0000 { 0 } else { 0x1000 };
    bits.wrapping_add(half) & !0x1fff
}

/// f32 to tf32 with `.satfinite`: infinity becomes the code one step below it. Hardware does the same to any NaN.
#[inline(always)]
pub(crate) fn f32_to_tf32_rna_satfinite(x: f32) -> u32 {
    let bits = f32_to_tf32_rna(x);
    if bits & 0x7f80_0000 == 0x7f80_0000 { bits - 0x2000 } else { bits }
}

/// The value that the tensor core reads from an f32 register given as tf32. It ignores the low 13 bits.
#[inline(always)]
pub(crate) fn tf32_to_f32(bits: u32) -> f32 {
    f32::from_bits(bits & !0x1fff)
}

/// OCP E4M3 (`e4m3fn`: largest 448, NaN 0x7f and 0xff, no infinity) to f32.
#[inline(always)]
pub fn e4m3_to_f32(code: u8) -> f32 {
    let magnitude = u32::from(code & 0x7f) << 20;
    // As in `f16_to_f32`. The smallest normal number is 2^-6.
    let normal = magnitude + (120 << 23);
    let subnormal = (f32::from_bits(magnitude + (121 << 23)) - f32::from_bits(121 << 23)).to_bits();
    let bits = if code & 0x78 == 0 { subnormal } else { normal };
    let bits = bits | u32::from(code & 0x80) << 24;
    f32::from_bits(if code & 0x7f == 0x7f { NAN_F32 } else { bits })
}

/// E5M2 to f32. An E5M2 code is the upper half of an f16 code.
#[inline(always)]
pub fn e5m2_to_f32(code: u8) -> f32 {
    f16_to_f32(u32::from(code) << 8)
}

/// f32 to E4M3, to nearest even (`cvt.rn.satfinite`). Values beyond 448 become ±448 and NaN becomes 0x7f.
#[inline(always)]
pub fn f32_to_e4m3(x: f32) -> u8 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // 120 = 127 - bias. 20 fraction bits are dropped. The ulp of subnormals is 2^-9, which is the ulp of 2^14 in f32.
    let normal =
        magnitude.wrapping_sub(120 << 23).wrapping_add(0x7_ffff).wrapping_add((magnitude >> 20) & 1) >> 20;
    let subnormal = (f32::from_bits(magnitude) + 16384.0).to_bits().wrapping_sub(16384f32.to_bits());
    let finite = if magnitude < 121 << 23 { subnormal } else { normal };
    let finite = if magnitude >= 0x43e0_0000 { 0x7e } else { finite };
    if magnitude > 0x7f80_0000 { 0x7f } else { (finite | (bits >> 24) & 0x80) as u8 }
}

/// f32 to E5M2, to nearest even (`cvt.rn.satfinite`). Values beyond 57344 become ±57344 and NaN becomes 0x7f.
#[inline(always)]
pub fn f32_to_e5m2(x: f32) -> u8 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // 112 = 127 - bias. 21 fraction bits are dropped. The ulp of subnormals is 2^-16, which is the ulp of 2^7 in f32.
    let normal =
        magnitude.wrapping_sub(112 << 23).wrapping_add(0xf_ffff).wrapping_add((magnitude >> 21) & 1) >> 21;
    let subnormal = (f32::from_bits(magnitude) + 128.0).to_bits().wrapping_sub(128f32.to_bits());
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let finite = if magnitude >= 0x4760_0000 { 0x7b } else { finite };
    if magnitude > 0x7f80_0000 { 0x7f } else { (finite | (bits >> 24) & 0x80) as u8 }
}

/// UE8M0 to f32. The format is a power of two, `2^(code - 127)`, and 255 is NaN. 2^-127 is an f32 subnormal.
#[inline(always)]
pub(crate) fn ue8m0_to_f32(code: u8) -> f32 {
    f32::from_bits(match code {
        0 => 1 << 22,
        255 => NAN_F32,
        e => u32::from(e) << 23,
    })
}

/// f32 to UE8M0, rounded towards zero or up. The sign is dropped and NaN becomes 255. Values beyond 2^127 become 254
/// if `saturate`, otherwise 255.
pub(crate) fn f32_to_ue8m0(x: f32, up: bool, saturate: bool) -> u8 {
    if x.is_nan() {
        return 255;
    }
    let magnitude = x.to_bits() & 0x7fff_ffff;
    if magnitude == 0x7f80_0000 {
        return if saturate { 254 } else { 255 };
    }
    // Below the smallest normal f32, 2^-126, the only code is 0 (2^-127). The format has no code for zero.
    let floor = magnitude >> 23;
    let exact = if floor == 0 { magnitude <= 1 << 22 } else { magnitude & 0x007f_ffff == 0 };
    match (floor + u32::from(up && !exact)) as u8 {
        255 if saturate => 254,
        code => code,
    }
}

/// Converts eight f16 codes to f32.
///
/// The conversion instructions keep NaN payloads. Callers round or compare the results, so the payloads are never
/// visible.
#[inline(always)]
pub(super) fn f16_to_f32_x8<const F16C: bool>(h: [u16; 8], out: &mut [f32; 8]) {
    #[cfg(target_arch = "x86_64")]
    if F16C {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        // SAFETY: `F16C` is true only inside the wrappers of `per_isa`, which enable f16c. Both arrays have eight
        // elements.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(h.as_ptr().cast()))) }
        return;
    }
    for (o, h) in out.iter_mut().zip(h) {
        *o = f16_to_f32(u32::from(h));
    }
}

/// Converts 16 f16 codes to f32. See [`f16_to_f32_x8`].
#[inline(always)]
pub(super) fn f16_to_f32_x16<const F16C: bool>(h: &[u16; 16], out: &mut [f32; 16]) {
    for (h, out) in h.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        f16_to_f32_x8::<F16C>(*h, out);
    }
}

/// Converts 16 f32 to f16, to nearest even, with canonical NaNs.
#[inline(always)]
pub(super) fn f32_to_f16_x16<const F16C: bool>(x: &[f32; 16], out: &mut [u16; 16]) {
    #[cfg(target_arch = "x86_64")]
    if F16C {
        use std::arch::x86_64::{
            _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
        };
        // SAFETY: as in `f16_to_f32_x8`; both arrays have 16 elements.
        unsafe {
            let src = x.as_ptr();
            let dst = out.as_mut_ptr();
            let lo = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(src));
            let hi = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(src.add(8)));
            _mm_storeu_si128(dst.cast(), lo);
            _mm_storeu_si128(dst.add(8).cast(), hi);
        }
        for o in out.iter_mut() {
            if *o & 0x7fff > 0x7c00 {
                *o = NAN_F16 as u16;
            }
        }
        return;
    }
    for (o, &x) in out.iter_mut().zip(x) {
        *o = f32_to_f16_rn(x) as u16;
    }
}

#[inline(always)]
fn f16_to_f32_body<const F16C: bool>(a: &Lanes, out: &mut Lanes) {
    let mut h = [0u16; 32];
    for lane in 0..32 {
        h[lane] = a[lane] as u16;
    }
    for half in 0..2 {
        let mut x = [0f32; 16];
        let mut src = [0u16; 16];
        src.copy_from_slice(&h[half * 16..half * 16 + 16]);
        f16_to_f32_x16::<F16C>(&src, &mut x);
        for i in 0..16 {
            out[half * 16 + i] = if x[i].is_nan() { NAN_F32 } else { x[i].to_bits() };
        }
    }
}

#[inline(always)]
fn f32_to_f16_body<const F16C: bool>(a: &Lanes, out: &mut Lanes) {
    for half in 0..2 {
        let mut x = [0f32; 16];
        for i in 0..16 {
            x[i] = f32::from_bits(a[half * 16 + i]);
        }
        let mut h = [0u16; 16];
        f32_to_f16_x16::<F16C>(&x, &mut h);
        for i in 0..16 {
            out[half * 16 + i] = u32::from(h[i]);
        }
    }
}

/// `cvt.rn.f16x2.f32`: `hi` goes to the upper half.
#[inline(always)]
fn f32_to_f16x2_body<const F16C: bool>(hi: &Lanes, lo: &Lanes, out: &mut Lanes) {
    let mut h = [0; 32];
    f32_to_f16_body::<F16C>(hi, &mut h);
    f32_to_f16_body::<F16C>(lo, out);
    for lane in 0..32 {
        out[lane] |= h[lane] << 16;
    }
}

per_isa! {
    /// Converts the f16 in the low half of every lane to f32.
    pub(crate) fn lanes_f16_to_f32 = f16_to_f32_body where (a: &Lanes, out: &mut Lanes);
    /// Converts f32 to f16, to nearest even. The upper halves of the result are zero.
    pub(crate) fn lanes_f32_to_f16 = f32_to_f16_body where (a: &Lanes, out: &mut Lanes);
    /// Converts two f32 registers to one register of f16 pairs, to nearest even.
    pub(crate) fn lanes_f32_to_f16x2 = f32_to_f16x2_body where (hi: &Lanes, lo: &Lanes, out: &mut Lanes);
}

#[cfg(test)]
mod tests;
