//! f16 and bf16 arithmetic, packed in pairs or not. Each result is rounded once.
//!
//! A sum, difference or product of two f16 (or bf16) is first rounded to f32 and then to the type. The result is the
//! same as with one rounding, because f32 is wide enough (24 >= 2·11 + 2). This does not hold for an fma. Its sum in
//! f32 (bf16: f64) is rounded to odd, which makes the second rounding correct.

use super::NAN_F16;
use super::codec::{bf16_to_f32, f16_to_f32, f32_to_bf16_rn, f32_to_f16_rn};
use super::float::{self, MinMax};

/// The two 16-bit formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HalfTy {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
}

/// Modifiers of half-precision arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HalfMods {
    /// `.ftz`: subnormal operands and results become zero (f16 only).
    pub ftz: bool,
    /// `.sat`: results clamp to [0, 1], and NaN becomes +0 (f16 only).
    pub sat: bool,
    /// `.relu`: negative results become +0, and NaN becomes canonical (fma only).
    pub relu: bool,
}

/// Binary operations of half-precision arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HalfOp {
    /// `add`.
    Add,
    /// `sub`.
    Sub,
    /// `mul`.
    Mul,
}

/// Converts an f16 or bf16 code to f32, exactly.
#[inline(always)]
pub fn widen(ty: HalfTy, h: u32) -> f32 {
    match ty {
        HalfTy::F16 => f16_to_f32(h & 0xffff),
        HalfTy::Bf16 => bf16_to_f32(h & 0xffff),
    }
}

/// Converts an f32 to f16 or bf16, to nearest even.
#[inline(always)]
pub fn narrow(ty: HalfTy, x: f32) -> u32 {
    match ty {
        HalfTy::F16 => f32_to_f16_rn(x),
        HalfTy::Bf16 => f32_to_bf16_rn(x),
    }
}

/// Applies `f` to both halves of a packed operand.
#[inline(always)]
pub fn each_half(a: u32, f: impl Fn(u32) -> u32) -> u32 {
    f(a & 0xffff) | f(a >> 16) << 16
}

/// Applies `f` to both halves of two packed operands.
#[inline(always)]
pub fn each_half2(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    f(a & 0xffff, b & 0xffff) | f(a >> 16, b >> 16) << 16
}

/// `.ftz` of an f16 code.
#[inline(always)]
pub fn ftz_f16(h: u32) -> u32 {
    if h & 0x7c00 == 0 { h & 0x8000 } else { h }
}

#[inline(always)]
fn input(ty: HalfTy, h: u32, mods: HalfMods) -> f32 {
    widen(ty, if mods.ftz && ty == HalfTy::F16 { ftz_f16(h) } else { h })
}

#[inline(always)]
fn output(ty: HalfTy, h: u32, mods: HalfMods) -> u32 {
    let h = if mods.ftz && ty == HalfTy::F16 { ftz_f16(h) } else { h };
    let (inf, one) = match ty {
        HalfTy::F16 => (0x7c00, 0x3c00),
        HalfTy::Bf16 => (0x7f80, 0x3f80),
    };
    let nan = h & 0x7fff > inf;
    let neg = h & 0x8000 != 0;
    let h = if mods.relu && neg && !nan { 0 } else { h };
    if mods.sat { if nan || neg { 0 } else { h.min(one) } } else { h }
}

/// `.ftz` of an f16 result. Hardware rounds the value to 11 bits as if exponents continued below the smallest normal
/// number, and flushes it if that is below the smallest normal number. So some values that round up to the smallest
/// normal number are flushed. `x` is the exact result, or the result rounded to odd.
#[inline(always)]
fn flush(ty: HalfTy, x: f32, mods: HalfMods) -> f32 {
    // 2^-14 minus half a unit of the last place that an 11-bit significand would have just below 2^-14.
    const HALF_BELOW: f32 = f32::from_bits(0x387f_f000);
    let tiny = mods.ftz && ty == HalfTy::F16 && x.abs() < HALF_BELOW;
    if tiny { 0f32.copysign(x) } else { x }
}

/// `add`, `sub` or `mul` of one f16 or bf16.
#[inline(always)]
pub fn binary(ty: HalfTy, op: HalfOp, mods: HalfMods, a: u32, b: u32) -> u32 {
    let (x, y) = (input(ty, a, mods), input(ty, b, mods));
    let r = match op {
        HalfOp::Add => x + y,
        HalfOp::Sub => x - y,
        HalfOp::Mul => x * y,
    };
    output(ty, narrow(ty, flush(ty, r, mods)), mods)
}

/// Rounds `p + c` to f32, to odd: if the nearest f32 is not exact, the result is the neighbour with an odd last bit.
/// Rounding the result again to fewer bits then gives the same value as rounding the exact sum.
#[inline(always)]
fn sum_to_odd(p: f32, c: f32) -> f32 {
    let s = p + c;
    let t = s - p;
    let err = (p - (s - t)) + (c - t);
    let bits = s.to_bits();
    // If `s` is even, its neighbour on the side of the error is odd. If `s` is odd, it is already the result.
    let towards = if (err < 0.0) == (bits >> 31 == 0) { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    let inexact = err < 0.0 || err > 0.0;
    f32::from_bits(if inexact && bits & 1 == 0 { towards } else { bits })
}

#[inline(always)]
fn sum_to_odd_f64(p: f64, c: f64) -> f64 {
    let s = p + c;
    let t = s - p;
    let err = (p - (s - t)) + (c - t);
    let bits = s.to_bits();
    let towards = if (err < 0.0) == (bits >> 63 == 0) { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    let inexact = err < 0.0 || err > 0.0;
    f64::from_bits(if inexact && bits & 1 == 0 { towards } else { bits })
}

/// Rounds an f64 to f32, to odd.
#[inline(always)]
fn narrow_to_odd(x: f64) -> f32 {
    let near = x as f32;
    let wide = f64::from(near);
    let bits = near.to_bits();
    let inexact = wide < x || wide > x;
    // For either sign, the next code up is further from zero.
    let towards = if wide.abs() > x.abs() { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    f32::from_bits(if inexact && bits & 1 == 0 { towards } else { bits })
}

/// `fma.rn` of one f16 or bf16.
#[inline(always)]
pub fn fma(ty: HalfTy, mods: HalfMods, a: u32, b: u32, c: u32) -> u32 {
    let (x, y, z) = (input(ty, a, mods), input(ty, b, mods), input(ty, c, mods));
    output(ty, narrow(ty, flush(ty, fma_to_odd(ty, x, y, z), mods)), mods)
}

/// `x · y + z` in f32, rounded to odd. The caller rounds it to the type.
#[inline(always)]
fn fma_to_odd(ty: HalfTy, x: f32, y: f32, z: f32) -> f32 {
    match ty {
        // Products have 22 bits and are at least 2^-48, so they are exact in f32.
        HalfTy::F16 => sum_to_odd(x * y, z),
        // bf16 has the range of f32, so products can be outside that range.
        HalfTy::Bf16 => narrow_to_odd(sum_to_odd_f64(f64::from(x) * f64::from(y), f64::from(z))),
    }
}

/// `min` or `max` of one f16 or bf16, with the NaN rules of [`float::min_max`].
#[inline(always)]
pub fn min_max(ty: HalfTy, m: MinMax, a: u32, b: u32) -> u32 {
    let mods = HalfMods { ftz: m.ftz, ..HalfMods::default() };
    // The magnitudes are taken here and not in `float::min_max`, because widening a NaN may lose the sign that
    // `.xorsign` needs.
    let keep = if m.xorsign { 0x7fff } else { 0xffff };
    let (x, y) = (input(ty, a & keep, mods), input(ty, b & keep, mods));
    let r = float::min_max(x, y, MinMax { ftz: false, xorsign: false, ..m });
    let sign = if m.xorsign { (a ^ b) & 0x8000 } else { 0 };
    // This is exact, because the result is one of the operands.
    let r = narrow(ty, r);
    if is_nan(ty, r) { NAN_F16 } else { r | sign }
}

/// `neg`: flips the sign. NaN becomes canonical.
#[inline(always)]
pub fn neg(ty: HalfTy, ftz: bool, a: u32) -> u32 {
    let a = if ftz && ty == HalfTy::F16 { ftz_f16(a) } else { a };
    if is_nan(ty, a) { NAN_F16 } else { a ^ 0x8000 }
}

/// `abs`. NaN becomes canonical.
#[inline(always)]
pub fn abs(ty: HalfTy, ftz: bool, a: u32) -> u32 {
    let a = if ftz && ty == HalfTy::F16 { ftz_f16(a) } else { a };
    if is_nan(ty, a) { NAN_F16 } else { a & 0x7fff }
}

/// Whether a code is a NaN.
#[inline(always)]
pub fn is_nan(ty: HalfTy, a: u32) -> bool {
    a & 0x7fff
        > match ty {
            HalfTy::F16 => 0x7c00,
            HalfTy::Bf16 => 0x7f80,
        }
}

#[cfg(test)]
mod tests;
