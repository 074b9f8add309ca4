//! The `.approx` functions.
//!
//! The manual specifies only an error bound for these instructions, and results differ between hardware generations.
//! Each function here is within one ulp, and most results are correctly rounded except for rare cases. Therefore each
//! function is inside every bound of [`BOUNDS`] and gives the same result on every host. Special values follow the
//! manual's tables. The f32 functions are branch-free and vectorise. Their polynomials use `mul_add`, so callers
//! should enable the `fma` target feature.

use super::NAN_F32;
use super::codec::{f32_to_bf16_rn, f32_to_f16_rn};
use super::float::{canonical, ftz};
use super::half::{self, HalfTy, widen};

/// The largest distance between a result and the exact value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// In units in the last place.
    Ulp(f64),
    /// Relative: `2^x` times the exact value.
    Relative(f64),
    /// Absolute: `2^x`.
    Absolute(f64),
}

/// One row of the fidelity report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundRow {
    /// The instruction with its type.
    pub instruction: &'static str,
    /// The range of operands in which the bound holds.
    pub range: &'static str,
    /// The bound that the PTX manual specifies for hardware.
    pub hardware: Bound,
    /// The bound of this implementation, which its tests check.
    pub here: Bound,
}

const fn row(instruction: &'static str, range: &'static str, hardware: Bound, here: Bound) -> BoundRow {
    BoundRow { instruction, range, hardware, here }
}

/// Every approximate instruction with its documented error bound.
pub const BOUNDS: &[BoundRow] = &[
    row("ex2.approx.f32", "all", Bound::Ulp(2.0), Bound::Ulp(1.0)),
    row("ex2.approx.f16", "all", Bound::Relative(-9.9), Bound::Ulp(0.51)),
    row("ex2.approx.bf16", "all", Bound::Relative(-7.0), Bound::Ulp(0.51)),
    row("lg2.approx.f32", "0.5 < a < 2", Bound::Absolute(-22.0), Bound::Absolute(-24.0)),
    row("lg2.approx.f32", "elsewhere", Bound::Relative(-22.0), Bound::Relative(-23.9)),
    row("rcp.approx.f32", "all", Bound::Ulp(1.0), Bound::Ulp(0.5)),
    row("sqrt.approx.f32", "a > 0", Bound::Relative(-23.0), Bound::Ulp(0.5)),
    row("rsqrt.approx.f32", "a > 0", Bound::Relative(-22.9), Bound::Ulp(0.5)),
    row("sin.approx.f32", "|a| <= 2 pi", Bound::Absolute(-20.5), Bound::Ulp(0.51)),
    row("sin.approx.f32", "|a| <= 100 pi", Bound::Absolute(-14.7), Bound::Ulp(0.51)),
    row("cos.approx.f32", "|a| <= 2 pi", Bound::Absolute(-20.5), Bound::Ulp(0.51)),
    row("cos.approx.f32", "|a| <= 100 pi", Bound::Absolute(-14.7), Bound::Ulp(0.51)),
    row("tanh.approx.f32", "all", Bound::Relative(-11.0), Bound::Ulp(0.51)),
    row("tanh.approx.f16", "all", Bound::Absolute(-10.987), Bound::Ulp(0.51)),
    row("tanh.approx.bf16", "all", Bound::Absolute(-8.0), Bound::Ulp(0.51)),
    row("div.approx.f32", "2^-126 <= |b| <= 2^126", Bound::Ulp(2.0), Bound::Ulp(0.5)),
    row("div.full.f32", "all", Bound::Ulp(2.0), Bound::Ulp(0.5)),
    row("rcp.approx.ftz.f64", "all", Bound::Relative(-20.0), Bound::Relative(-20.0)),
    row("rsqrt.approx.ftz.f64", "a > 0", Bound::Relative(-20.0), Bound::Relative(-20.0)),
];

/// Adding and then subtracting this constant rounds an f32 of moderate size to the nearest integer.
const ROUND_MAGIC: f32 = 12_582_912.0;

/// `ex2.approx.f32`.
#[inline(always)]
pub(crate) fn ex2(x: f32) -> f32 {
    // 2^x = 2^n · 2^f, |f| <= 1/2. Outside the clamped range the answer is 0 or infinity, and the factor 2^n below
    // produces it.
    let t = x.clamp(-160.0, 130.0);
    let shifted = t + ROUND_MAGIC;
    let n = shifted - ROUND_MAGIC;
    let f = t - n;
    // Polynomial for (2^f - 1) / f, interpolated at Chebyshev nodes. Its relative error is below 2^-31.
    let mut p = 1.529_732_4e-5f32;
    p = p.mul_add(f, 0.000_154_614_45);
    p = p.mul_add(f, 0.001_333_350_2);
    p = p.mul_add(f, 0.009_618_057);
    p = p.mul_add(f, 0.055_504_11);
    p = p.mul_add(f, 0.240_226_5);
    p = p.mul_add(f, std::f32::consts::LN_2);
    let y = p.mul_add(f, 1.0);
    // Scale by two factors, because neither 2^-149 nor 2^128 is a normal f32.
    let n = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits()) as i32;
    let half = n >> 1;
    let scale = |e: i32| f32::from_bits(((e + 127) << 23) as u32);
    canonical(y * scale(half) * scale(n - half))
}

/// `ex2.approx.ftz.f32`.
#[inline(always)]
pub(crate) fn ex2_ftz(x: f32) -> f32 {
    ftz(ex2(ftz(x)))
}

/// `lg2.approx.f32`.
#[inline(always)]
pub(crate) fn lg2(x: f32) -> f32 {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let wide = f64::from(x);
    let bits = wide.to_bits();
    // x = m · 2^e with m in [1/√2, √2). Every f32 except zero is a normal f64.
    let offset = bits.wrapping_sub(SQRT_HALF);
    let e = (offset as i64 >> 52) as i32;
    let m = f64::from_bits((offset & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF));
    // log2 m = (2 / ln 2) atanh s with s = (m-1)/(m+1) and |s| <= 0.1716. The odd polynomial has a relative error of
    // 2^-45.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 0.282_894_374_571_525_5f64;
    p = p * z + 0.319_906_184_755_322_95;
    p = p * z + 0.412_209_238_225_021_4;
    p = p * z + 0.577_077_942_530_130_7;
    p = p * z + 0.961_796_694_112_674_9;
    p = p * z + 2.885_390_081_777_850_4;
    let y = (p * s + f64::from(e)) as f32;
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    let y = if x == f32::INFINITY { f32::INFINITY } else { y };
    f32::from_bits(if x < 0.0 || x.is_nan() { NAN_F32 } else { y.to_bits() })
}

/// `lg2.approx.ftz.f32`.
#[inline(always)]
pub(crate) fn lg2_ftz(x: f32) -> f32 {
    ftz(lg2(ftz(x)))
}

/// `rcp.approx.f32`.
#[inline(always)]
pub(crate) fn rcp(x: f32) -> f32 {
    canonical(1.0 / x)
}

/// `rcp.approx.ftz.f32`.
#[inline(always)]
pub(crate) fn rcp_ftz(x: f32) -> f32 {
    ftz(rcp(ftz(x)))
}

/// `sqrt.approx.f32`.
#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    canonical(x.sqrt())
}

/// `sqrt.approx.ftz.f32`.
#[inline(always)]
pub(crate) fn sqrt_ftz(x: f32) -> f32 {
    sqrt(ftz(x))
}

/// `rsqrt.approx.f32`. ±0 gives ±infinity.
#[inline(always)]
pub(crate) fn rsqrt(x: f32) -> f32 {
    let r = (1.0 / f64::from(x).sqrt()) as f32;
    canonical(r)
}

/// `rsqrt.approx.ftz.f32`.
#[inline(always)]
pub(crate) fn rsqrt_ftz(x: f32) -> f32 {
    rsqrt(ftz(x))
}

/// The largest |x| that the vectorised range reduction of sine and cosine handles.
const TRIG_REDUCED: f32 = 1_048_576.0;

/// Returns the sine if `quarter` is 0 and the cosine if it is 1, for |x| <= [`TRIG_REDUCED`].
#[inline(always)]
fn trig(x: f32, quarter: i64) -> f32 {
    // r = x - n·π/2, with π/2 split into two parts. n has 20 bits and the first part has 33, so n·first is exact.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    const FIRST: f64 = 1.570_796_326_734_125_6;
    const SECOND: f64 = 6.077_100_506_506_192e-11;
    let wide = f64::from(x);
    let shifted = wide * std::f64::consts::FRAC_2_PI + MAGIC;
    let n = shifted - MAGIC;
    let r = (wide - n * FIRST) - n * SECOND;
    let z = r * r;
    let mut s = -2.475_653_507_847_320_7e-8f64;
    s = s * z + 2.755_527_156_450_44e-6;
    s = s * z - 0.000_198_412_632_968_123_82;
    s = s * z + 0.008_333_333_323_875_107;
    s = s * z - 0.166_666_666_666_166_64;
    s = s * z * r + r;
    let mut c = -2.717_339_909_170_164_3e-7f64;
    c = c * z + 2.479_892_832_849_235e-5;
    c = c * z - 0.001_388_888_039_172_828;
    c = c * z + 0.041_666_666_543_871_7;
    c = c * z - 0.499_999_999_993_508_5;
    c = c * z + 1.0;
    let quadrant = (shifted.to_bits() as i64).wrapping_add(quarter);
    let y = if quadrant & 1 == 0 { s } else { c };
    let y = if quadrant & 2 == 0 { y } else { -y };
    y as f32
}

/// `sin.approx.f32`, accurate for every argument.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    if x.abs() <= TRIG_REDUCED {
        // The reduction turns -0 into +0, but the sine of -0 must be -0.
        if x == 0.0 { x } else { trig(x, 0) }
    } else {
        canonical(f64::from(x).sin() as f32)
    }
}

/// `cos.approx.f32`.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    if x.abs() <= TRIG_REDUCED { trig(x, 1) } else { canonical(f64::from(x).cos() as f32) }
}

/// `sin.approx.ftz.f32`.
#[inline(always)]
pub(crate) fn sin_ftz(x: f32) -> f32 {
    ftz(sin(ftz(x)))
}

/// `cos.approx.ftz.f32`.
#[inline(always)]
pub(crate) fn cos_ftz(x: f32) -> f32 {
    cos(ftz(x))
}

/// `2^x` in f64 with a relative error of 2^-43, for |x| below 1000.
#[inline(always)]
fn ex2_f64(x: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let shifted = x + MAGIC;
    let f = x - (shifted - MAGIC);
    let mut p = 1.020_312_106_339_172_9e-7f64;
    p = p * f + 1.325_522_487_866_881_7e-6;
    p = p * f + 1.525_268_684_626_772e-5;
    p = p * f + 0.000_154_034_558_524_538_38;
    p = p * f + 0.001_333_355_817_904_311_2;
    p = p * f + 0.009_618_129_159_402_558;
    p = p * f + 0.055_504_108_664_760_424;
    p = p * f + 0.240_226_506_958_129_9;
    p = p * f + std::f64::consts::LN_2;
    let scale = f64::from_bits(shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(1023) << 52);
    (p * f + 1.0) * scale
}

/// `tanh.approx.f32`.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let magnitude = f64::from(x.abs()).min(20.0);
    // tanh = (e - 1)/(e + 1) with e = exp(2x). Near zero the difference cancels, so the series is used there.
    let e = ex2_f64(magnitude * (2.0 * std::f64::consts::LOG2_E));
    let far = (e - 1.0) / (e + 1.0);
    let z = magnitude * magnitude;
    let near = magnitude - magnitude * z * (1.0 / 3.0 - z * (2.0 / 15.0 - z * (17.0 / 315.0)));
    let y = if magnitude < 0.03 { near } else { far };
    f32::from_bits(if x.is_nan() { NAN_F32 } else { (y as f32).copysign(x).to_bits() })
}

/// `div.approx.f32`. A divisor above 2^126 gives 0, or NaN if `a` is infinite, because the reciprocal of the divisor
/// is flushed to zero.
#[inline(always)]
pub(crate) fn div(a: f32, b: f32) -> f32 {
    let hole = b.abs() > f32::from_bits(253 << 23) && b.abs() < f32::INFINITY;
    canonical(if hole { a * 0f32.copysign(b) } else { a / b })
}

/// `div.approx.ftz.f32`.
#[inline(always)]
pub(crate) fn div_ftz(a: f32, b: f32) -> f32 {
    ftz(div(ftz(a), ftz(b)))
}

/// `div.full.f32`.
#[inline(always)]
pub(crate) fn div_full(a: f32, b: f32) -> f32 {
    canonical(a / b)
}

/// `div.full.ftz.f32`.
#[inline(always)]
pub(crate) fn div_full_ftz(a: f32, b: f32) -> f32 {
    ftz(div_full(ftz(a), ftz(b)))
}

/// `rcp.approx.ftz.f64`. Hardware reads and writes only the upper word.
#[inline(always)]
pub(crate) fn rcp_ftz_f64(x: f64) -> f64 {
    upper_word_or_nan(1.0 / ftz_f64(upper_word(x)))
}

/// `rsqrt.approx.ftz.f64`.
#[inline(always)]
pub(crate) fn rsqrt_ftz_f64(x: f64) -> f64 {
    let x = ftz_f64(upper_word(x));
    upper_word_or_nan(1.0 / x.sqrt())
}

#[inline(always)]
fn upper_word_or_nan(x: f64) -> f64 {
    if x.is_nan() { f64::from_bits(0x7fff_ffff_0000_0000) } else { ftz_f64(upper_word(x)) }
}

#[inline(always)]
fn upper_word(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & 0xffff_ffff_0000_0000)
}

#[inline(always)]
fn ftz_f64(x: f64) -> f64 {
    let bits = x.to_bits();
    f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 1 << 63 } else { bits })
}

/// `ex2.approx.{f16,bf16}` of one code. The bf16 form always has `.ftz`.
#[inline(always)]
pub(crate) fn ex2_half(ty: HalfTy, a: u32, flush: bool) -> u32 {
    match ty {
        HalfTy::F16 => {
            let a = if flush { half::ftz_f16(a) } else { a };
            let r = f32_to_f16_rn(ex2(widen(ty, a)));
            if flush { half::ftz_f16(r) } else { r }
        }
        HalfTy::Bf16 => f32_to_bf16_rn(ex2_ftz(widen(ty, a))),
    }
}

/// `tanh.approx.{f16,bf16}` of one code.
#[inline(always)]
pub(crate) fn tanh_half(ty: HalfTy, a: u32) -> u32 {
    half::narrow(ty, tanh(widen(ty, a)))
}

#[cfg(test)]
mod tests;
