//! f32 and f64 arithmetic that Rust's operators do not cover: directed rounding, `.ftz`, `.sat`, min/max.
//!
//! An f32 operation with a directed mode is computed exactly in f64 (a sum as value and error). It is rounded to
//! nearest, and moved by one ulp if nearest rounded in the wrong direction. This code is branch-free because every
//! `expf` contains `fma.rm.f32`. An f64 operation with a directed mode is rare and goes through [`exact`].

use super::exact;
use super::{NAN_F32, Round};

/// `.ftz`: subnormal numbers become zero with the same sign.
#[inline(always)]
pub fn ftz(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// `.ftz` of a result. Hardware rounds the value to 24 bits as if exponents continued below the smallest normal
/// number, and flushes it if that is below the smallest normal number. So hardware flushes some results that round to
/// the smallest normal number. `exact` is the value before rounding.
#[inline(always)]
fn ftz_result(rounded: f32, exact: f64, round: Round) -> f32 {
    // 2^-126 minus a half, or a whole, unit of the last place that a 24-bit significand would have just below 2^-126.
    const HALF_BELOW: f64 = f64::from_bits(0x380f_ffff_f000_0000);
    const ONE_BELOW: f64 = f64::from_bits(0x380f_ffff_e000_0000);
    let tiny = match round {
        Round::Nearest | Round::NearestAway => exact.abs() < HALF_BELOW,
        _ => exact.abs() <= ONE_BELOW,
    };
    let flushed = ftz(rounded);
    if tiny && rounded.abs() == f32::MIN_POSITIVE { 0f32.copysign(rounded) } else { flushed }
}

/// `mul.ftz.f32`, which also flushes the operands. `ftz(mul(ftz(a), ftz(b)))` is faster. It differs only if the
/// product is rounded up to the smallest normal number.
#[inline(always)]
pub fn mul_ftz(a: f32, b: f32, round: Round) -> f32 {
    let (a, b) = (ftz(a), ftz(b));
    ftz_result(mul(a, b, round), f64::from(a) * f64::from(b), round)
}

/// `fma.ftz.f32`, which also flushes the operands. See [`mul_ftz`].
#[inline(always)]
pub fn fma_ftz(a: f32, b: f32, c: f32, round: Round) -> f32 {
    let (a, b, c) = (ftz(a), ftz(b), ftz(c));
    ftz_result(fma(a, b, c, round), f64::from(a) * f64::from(b) + f64::from(c), round)
}

/// Replaces any NaN by the NaN that hardware produces.
///
/// The code works on bits. The optimiser does not preserve the bits of a NaN in a float value, so it could remove a
/// replacement that is written on floats.
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_F32 } else { bits })
}

/// `.sat`: clamps to [0, 1]. NaN and -0 become +0.
#[inline(always)]
pub fn saturate(x: f32) -> f32 {
    if x > 0.0 { if x < 1.0 { x } else { 1.0 } } else { 0.0 }
}

/// `.sat` of f64.
#[inline(always)]
pub fn saturate_f64(x: f64) -> f64 {
    if x > 0.0 { if x < 1.0 { x } else { 1.0 } } else { 0.0 }
}

#[inline(always)]
fn next_up(x: f32) -> f32 {
    let bits = x.to_bits();
    let stepped = if bits >> 31 == 0 { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f32::from_bits(if bits & 0x7fff_ffff == 0 { 1 } else { stepped })
}

#[inline(always)]
fn next_down(x: f32) -> f32 {
    -next_up(-x)
}

/// Corrects `near`, the value rounded to nearest, for the rounding mode. `above` and `below` say whether `near` is
/// above or below the exact value.
#[inline(always)]
fn nudge(near: f32, above: bool, below: bool, round: Round) -> f32 {
    let down = match round {
        Round::Down => above,
        Round::Zero => above && near > 0.0,
        _ => false,
    };
    let up = match round {
        Round::Up => below,
        Round::Zero => below && near < 0.0,
        _ => false,
    };
    // If the mode is towards zero, a value that rounded to zero is already correct.
    if down {
        next_down(near)
    } else if up {
        next_up(near)
    } else {
        near
    }
}

/// Rounds the exact sum of `p` and `c` with a directed mode. Both are exact f64 values in the range of f32.
#[inline(always)]
fn sum_directed(p: f64, c: f64, round: Round) -> f32 {
    let s = p + c;
    // Knuth's two-sum: `err` is the exact rounding error of `s`.
    let t = s - p;
    let err = (p - (s - t)) + (c - t);
    let near = s as f32;
    let wide = f64::from(near);
    // Infinite or NaN operands make `err` NaN. Then every comparison is false and `near` is the result. A finite `s`
    // beyond the range of f32 makes `near` infinite, and the step down gives the largest number.
    let above = wide > s || wide == s && err < 0.0;
    let below = wide < s || wide == s && err > 0.0;
    let r = nudge(near, above, below, round);
    // Opposite terms cancel to +0, or to -0 if the mode is rounding down.
    if round == Round::Down && s == 0.0 && err == 0.0 && (p.is_sign_negative() || c.is_sign_negative()) {
        -0.0
    } else {
        r
    }
}

/// `add.f32`.
#[inline(always)]
pub fn add(a: f32, b: f32, round: Round) -> f32 {
    canonical(match round {
        Round::Nearest | Round::NearestAway => a + b,
        _ => sum_directed(f64::from(a), f64::from(b), round),
    })
}

/// `sub.f32`.
#[inline(always)]
pub fn sub(a: f32, b: f32, round: Round) -> f32 {
    add(a, -b, round)
}

/// `mul.f32`.
#[inline(always)]
pub fn mul(a: f32, b: f32, round: Round) -> f32 {
    canonical(match round {
        Round::Nearest | Round::NearestAway => a * b,
        _ => {
            let p = f64::from(a) * f64::from(b);
            let near = p as f32;
            let wide = f64::from(near);
            nudge(near, wide > p, wide < p, round)
        }
    })
}

/// `fma.f32`: `a · b + c`, rounded once. If the caller lacks the `fma` feature, rounding to nearest uses libm, which
/// is correct but slow.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32, round: Round) -> f32 {
    canonical(match round {
        Round::Nearest | Round::NearestAway => a.mul_add(b, c),
        _ => sum_directed(f64::from(a) * f64::from(b), f64::from(c), round),
    })
}

/// `div.f32`.
#[inline(always)]
pub fn div(a: f32, b: f32, round: Round) -> f32 {
    canonical(match round {
        Round::Nearest | Round::NearestAway => a / b,
        _ => {
            let q = a / b;
            // q·b is exact in f64. Comparing it with `a` compares q with the exact quotient; if b < 0 the comparison
            // is reversed.
            let back = f64::from(q) * f64::from(b);
            let a = f64::from(a);
            let (over, under) = if b < 0.0 { (back < a, back > a) } else { (back > a, back < a) };
            // Division by zero and division with infinite operands are exact. A finite quotient that overflowed is
            // not.
            let exact = b == 0.0 || b.is_infinite() || a.is_infinite();
            nudge(q, over && !exact, under && !exact, round)
        }
    })
}

/// `rcp.f32`.
#[inline(always)]
pub fn rcp(a: f32, round: Round) -> f32 {
    div(1.0, a, round)
}

/// `sqrt.f32`.
#[inline(always)]
pub fn sqrt(a: f32, round: Round) -> f32 {
    canonical(match round {
        Round::Nearest | Round::NearestAway => a.sqrt(),
        _ => {
            let r = a.sqrt();
            let square = f64::from(r) * f64::from(r);
            let a = f64::from(a);
            nudge(r, square > a, square < a, round)
        }
    })
}

/// Replaces a NaN result by the NaN that hardware produces. If several operands are NaN, hardware keeps the second,
/// then the third, then the first. If no operand is NaN, it produces its own NaN. `operands` must be in that order.
/// The code chooses the NaN explicitly, because the optimiser treats all NaNs as equal and may change which payload
/// the host returns.
#[inline(always)]
fn keep_nan(result: f64, operands: &[f64]) -> f64 {
    let bits = result.to_bits();
    let mut nan = exact::F64.nan;
    for x in operands.iter().rev() {
        let x = x.to_bits();
        nan = if is_nan_f64(x) { exact::quiet_f64(x) } else { nan };
    }
    f64::from_bits(if is_nan_f64(bits) { nan } else { bits })
}

macro_rules! f64_ops {
    ($( $name:ident($a:ident $(, $rest:ident)*) = $nearest:expr, $directed:path; )+) => { $(
        /// An f64 operation in the given rounding mode. `NearestAway` is treated as `Nearest`.
        #[inline(always)]
        pub fn $name($a: f64, $($rest: f64,)* round: Round) -> f64 {
            match round {
                Round::Nearest | Round::NearestAway => keep_nan($nearest, &[$($rest,)* $a]),
                _ => f64::from_bits($directed(exact::F64, $a.to_bits(), $($rest.to_bits(),)* round)),
            }
        }
    )+ };
}
f64_ops! {
    add_f64(a, b) = a + b, exact::add;
    mul_f64(a, b) = a * b, exact::mul;
    fma_f64(a, b, c) = a.mul_add(b, c), exact::fma;
    div_f64(a, b) = a / b, exact::div;
    sqrt_f64(a) = a.sqrt(), exact::sqrt;
}

/// `sub.f64`.
#[inline(always)]
pub fn sub_f64(a: f64, b: f64, round: Round) -> f64 {
    match round {
        Round::Nearest | Round::NearestAway => keep_nan(a - b, &[b, a]),
        // Do not negate a NaN, because it must keep its sign.
        _ if b.is_nan() => add_f64(a, b, round),
        _ => add_f64(a, -b, round),
    }
}

/// `rcp.f64`.
#[inline(always)]
pub fn rcp_f64(a: f64, round: Round) -> f64 {
    div_f64(1.0, a, round)
}

/// Modifiers of `min.f32` and `max.f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinMax {
    /// Whether the instruction is `max`, not `min`.
    pub max: bool,
    /// `.ftz`: subnormal operands become zero.
    pub ftz: bool,
    /// `.NaN`: a NaN operand gives NaN. Without it, the result is the other operand.
    pub nan: bool,
    /// `.xorsign.abs`: the magnitudes are compared, and the sign of the result is the xor of the signs of the
    /// operands.
    pub xorsign: bool,
}

macro_rules! min_max_core {
    ($name:ident, $float:ty, $nan:expr) => {
        /// Returns the minimum or the maximum of two numbers. -0 is below +0.
        #[inline(always)]
        fn $name(a: $float, b: $float, max: bool, nan_wins: bool) -> $float {
            let a_first = if max {
                a > b || a == b && a.is_sign_positive()
            } else {
                a < b || a == b && a.is_sign_negative()
            };
            let picked = if a_first { a } else { b };
            let picked = if b.is_nan() { a } else { picked };
            if a.is_nan() && b.is_nan() || nan_wins && (a.is_nan() || b.is_nan()) {
                <$float>::from_bits($nan(b))
            } else {
                picked
            }
        }
    };
}
min_max_core!(pick_f32, f32, |_: f32| NAN_F32);
min_max_core!(pick_f64, f64, |b: f64| exact::quiet_f64(b.to_bits()));

/// `min` and `max` of f32. Two NaNs give NaN. One NaN gives the other operand, unless `.NaN` is set. -0 is below +0.
#[inline(always)]
pub fn min_max(a: f32, b: f32, m: MinMax) -> f32 {
    let (a, b) = if m.ftz { (ftz(a), ftz(b)) } else { (a, b) };
    if m.xorsign {
        let sign = (a.to_bits() ^ b.to_bits()) & 0x8000_0000;
        let r = pick_f32(a.abs(), b.abs(), m.max, m.nan);
        return f32::from_bits(if r.is_nan() { r.to_bits() } else { r.to_bits() | sign });
    }
    pick_f32(a, b, m.max, m.nan)
}

/// `min.f64` and `max.f64`.
#[inline(always)]
pub fn min_max_f64(a: f64, b: f64, max: bool) -> f64 {
    pick_f64(a, b, max, false)
}

#[inline(always)]
fn is_nan_f64(x: u64) -> bool {
    x & !(1 << 63) > 0x7ff0_0000_0000_0000
}

/// `copysign.f32 d, a, b`: the magnitude of `b` with the sign of `a`. The operands are in PTX's order.
#[inline(always)]
pub fn copysign(a: u32, b: u32) -> u32 {
    a & 0x8000_0000 | b & 0x7fff_ffff
}

/// `copysign.f64 d, a, b`. See [`copysign`].
#[inline(always)]
pub fn copysign_f64(a: u64, b: u64) -> u64 {
    a & 1 << 63 | b & !(1 << 63)
}

/// Comparison operators of `set`, `setp` and `slct` on floats. The operators that end in `u` are also true if an
/// operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatCmp {
    /// `.eq`: equal.
    Eq,
    /// `.ne`: not equal, and no operand is NaN.
    Ne,
    /// `.lt`: less than.
    Lt,
    /// `.le`: less than or equal.
    Le,
    /// `.gt`: greater than.
    Gt,
    /// `.ge`: greater than or equal.
    Ge,
    /// `.equ`: equal, or an operand is NaN.
    Equ,
    /// `.neu`: not equal, or an operand is NaN.
    Neu,
    /// `.ltu`: less than, or an operand is NaN.
    Ltu,
    /// `.leu`: less than or equal, or an operand is NaN.
    Leu,
    /// `.gtu`: greater than, or an operand is NaN.
    Gtu,
    /// `.geu`: greater than or equal, or an operand is NaN.
    Geu,
    /// `.num`: no operand is NaN.
    Num,
    /// `.nan`: an operand is NaN.
    Nan,
}

/// Compares two floats. f16 and bf16 operands are decoded first, which is exact.
#[inline(always)]
pub fn compare<T: PartialOrd + Copy>(op: FloatCmp, a: T, b: T) -> bool {
    // `partial_cmp` returns `None` only if an operand is NaN.
    let unordered = a.partial_cmp(&b).is_none();
    match op {
        FloatCmp::Eq => a == b,
        FloatCmp::Ne => a < b || a > b,
        FloatCmp::Lt => a < b,
        FloatCmp::Le => a <= b,
        FloatCmp::Gt => a > b,
        FloatCmp::Ge => a >= b,
        FloatCmp::Equ => a == b || unordered,
        FloatCmp::Neu => a != b,
        FloatCmp::Ltu => a < b || unordered,
        FloatCmp::Leu => a <= b || unordered,
        FloatCmp::Gtu => a > b || unordered,
        FloatCmp::Geu => a >= b || unordered,
        FloatCmp::Num => !unordered,
        FloatCmp::Nan => unordered,
    }
}

/// The classes of numbers that `testp` tests for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `.finite`: neither infinite nor NaN.
    Finite,
    /// `.infinite`: positive or negative infinity.
    Infinite,
    /// `.number`: not NaN.
    Number,
    /// `.notanumber`: NaN.
    NotANumber,
    /// `.normal`: finite and not subnormal.
    Normal,
    /// `.subnormal`: subnormal.
    Subnormal,
}

#[inline(always)]
fn test(class: Class, x: f64, subnormal: bool) -> bool {
    match class {
        Class::Finite => x.is_finite(),
        Class::Infinite => x.is_infinite(),
        Class::Number => !x.is_nan(),
        Class::NotANumber => x.is_nan(),
        Class::Normal => x.is_finite() && !subnormal,
        Class::Subnormal => subnormal,
    }
}

/// `testp.f32`. Zero counts as normal.
#[inline(always)]
pub fn test_f32(class: Class, x: f32) -> bool {
    test(class, f64::from(x), x.is_subnormal())
}

/// `testp.f64`. Zero counts as normal.
#[inline(always)]
pub fn test_f64(class: Class, x: f64) -> bool {
    test(class, x, x.is_subnormal())
}

#[cfg(test)]
mod tests;
