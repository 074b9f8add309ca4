//! The `cvt` instruction.
//!
//! [`Cvt`] is one decoded form. [`Cvt::scalar`] converts one value exactly, for every pair of types that PTX has.
//! [`lanes_32_32`] and the related functions convert a whole register: common forms use vectorised loops, the other
//! forms are converted lane by lane. [`Cvt::pair`] implements the packed forms with two sources.
//!
//! A source is read from the low bits of its register. A result is sign- or zero-extended to 64 bits, so its low bits
//! are correct for a destination register of any width.

use super::codec;
use super::exact::{self, Exact, Format, Value};
use super::float;
use super::simd::per_isa;
pub use super::types::Ty;
use super::{Lanes, Lanes64, Round};

impl Ty {
    /// Returns whether an integer type is signed, and its width in bits. Returns `None` for other types.
    pub const fn integer(self) -> Option<(bool, u32)> {
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Some((false, self.bits())),
            Self::S8 | Self::S16 | Self::S32 | Self::S64 => Some((true, self.bits())),
            _ => None,
        }
    }

    /// Returns the format of a scalar float type, or of one half of a packed one.
    pub const fn format(self) -> Option<Format> {
        Some(match self {
            Self::F16 | Self::F16x2 => exact::F16,
            Self::Bf16 | Self::Bf16x2 => exact::BF16,
            Self::F32 => exact::F32,
            Self::F64 => exact::F64,
            Self::Tf32 => exact::TF32,
            Self::E4m3x2 => exact::E4M3,
            Self::E5m2x2 => exact::E5M2,
            _ => return None,
        })
    }

    /// Width in bits of one half of a packed type.
    const fn half_width(self) -> u32 {
        match self {
            Self::F16x2 | Self::Bf16x2 => 16,
            _ => 8,
        }
    }
}

/// One form of `cvt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cvt {
    /// Destination type. `.tf32` is only a destination.
    pub dst: Ty,
    /// Source type.
    pub src: Ty,
    /// The rounding mode: `.rn .rz .rm .rp .rna`, or the mode of `.rni .rzi .rmi .rpi`. Ignored if the conversion is
    /// exact.
    pub round: Round,
    /// Whether `.rni .rzi .rmi .rpi` was given. Then a float result is rounded to an integral value.
    pub integral: bool,
    /// `.ftz`: subnormal f32 operands and results become zero.
    pub ftz: bool,
    /// `.sat`: integer results clamp to the range of the type, and float results clamp to [0, 1]. Conversions from
    /// float to integer always clamp.
    pub sat: bool,
    /// `.satfinite`: results beyond the range of the format become its largest finite number.
    pub satfinite: bool,
    /// `.relu`: negative results become zero, and NaN becomes the canonical NaN.
    pub relu: bool,
}

impl Cvt {
    /// A conversion without modifiers. It uses `.rn` if it rounds.
    pub const fn new(dst: Ty, src: Ty) -> Self {
        Self {
            dst,
            src,
            round: Round::Nearest,
            integral: false,
            ftz: false,
            sat: false,
            satfinite: false,
            relu: false,
        }
    }

    /// Converts one value. For packed sources (`f16x2.e4m3x2`, `e4m3x2.f16x2`, …) it converts both halves.
    pub fn scalar(self, a: u64) -> u64 {
        match (self.dst, self.src) {
            (
                Ty::F16x2 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2 | Ty::Ue8m0x2,
                Ty::F16x2 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2 | Ty::Ue8m0x2,
            ) => {
                let (from, to) = (self.src.half_width(), self.dst.half_width());
                let lo = self.half(a & ((1 << from) - 1));
                let hi = self.half(a >> from & ((1 << from) - 1));
                lo | hi << to
            }
            _ => self.one(a),
        }
    }

    /// `cvt….f16x2.f32 d, a, b` and similar forms: `a` goes to the upper half of the result and `b` to the lower
    /// half.
    pub fn pair(self, a: u64, b: u64) -> u64 {
        self.half(a) << self.dst.half_width() | self.half(b)
    }

    /// Computes one half of a packed result.
    fn half(self, a: u64) -> u64 {
        if self.dst == Ty::Ue8m0x2 {
            let x = match self.src {
                Ty::Bf16x2 => codec::bf16_to_f32(a as u32),
                _ => f32::from_bits(a as u32),
            };
            return u64::from(codec::f32_to_ue8m0(x, self.round == Round::Up, self.satfinite));
        }
        if self.src == Ty::Ue8m0x2 {
            let x = codec::ue8m0_to_f32(a as u8);
            return exact::convert(exact::F32, exact::BF16, u64::from(x.to_bits()), Round::Nearest, false);
        }
        self.one(a)
    }

    fn one(self, a: u64) -> u64 {
        match (self.src.format(), self.dst.format()) {
            (Some(from), Some(to)) => self.float_to_float(from, to, a),
            (Some(from), None) => self.float_to_int(from, a),
            (None, Some(to)) => self.int_to_float(to, a),
            (None, None) => self.int_to_int(a),
        }
    }

    fn int_to_int(self, a: u64) -> u64 {
        let (Some((_, width)), Some((to_signed, to_width))) = (self.src.integer(), self.dst.integer()) else {
            return a;
        };
        let value = self.read_int(a);
        if self.sat {
            return clamp(value, to_signed, to_width);
        }
        debug_assert!(width <= 64);
        extend(value as u64, to_signed, to_width) as u64
    }

    /// Reads the source integer. `i128` holds the values of every integer type.
    fn read_int(self, a: u64) -> i128 {
        let (signed, width) = self.src.integer().unwrap_or((false, 64));
        extend(a, signed, width)
    }

    fn int_to_float(self, to: Format, a: u64) -> u64 {
        let value = self.read_int(a);
        let bits = exact::from_int(to, value < 0, value.unsigned_abs() as u64, self.round);
        self.finish(to, bits)
    }

    fn float_to_int(self, from: Format, a: u64) -> u64 {
        let Some((signed, width)) = self.dst.integer() else { return a };
        match decode_ftz(from, a, self.ftz) {
            // From the PTX manual: NaN gives zero, or only the top bit set if either side is 64 bits wide.
            Value::Nan if self.src != Ty::F64 && width < 64 => 0,
            Value::Nan => extend(1 << (width - 1), signed, width) as u64,
            Value::Zero { .. } => 0,
            Value::Inf { neg } => clamp(if neg { i128::MIN } else { i128::MAX }, signed, width),
            Value::Finite(x) => {
                let (neg, magnitude) = exact::to_int(x, self.round);
                let value = i128::from(magnitude);
                clamp(if neg { -value } else { value }, signed, width)
            }
        }
    }

    fn float_to_float(self, from: Format, to: Format, a: u64) -> u64 {
        if exact::decode(from, a) == Value::Nan {
            return self.nan_to_float(from, to, a);
        }
        if self.dst == Ty::Tf32 && self.round == Round::NearestAway && !self.relu {
            let x = f32::from_bits(a as u32);
            let rna = if self.satfinite { codec::f32_to_tf32_rna_satfinite } else { codec::f32_to_tf32_rna };
            return u64::from(rna(x));
        }
        if self.integral {
            let bits = match decode_ftz(from, a, self.ftz) {
                Value::Finite(x) => {
                    let neg = x.neg;
                    let rounded = if x.exp >= 0 { x } else { integral(x, self.round) };
                    if rounded.mant == 0 {
                        if neg { to.sign() } else { 0 }
                    } else {
                        exact::encode(to, rounded, self.round, false)
                    }
                }
                special => encode_special(to, special),
            };
            return self.finish(to, bits);
        }
        // The manual says that the source is flushed. For f16 results hardware does not flush it; only .rm and .rp
        // show the difference.
        let bits = match decode_ftz(from, a, self.ftz && to != exact::F16) {
            Value::Finite(x) => exact::encode(to, x, self.round, self.satfinite),
            Value::Inf { neg } if self.satfinite => to.max_finite() | if neg { to.sign() } else { 0 },
            special => encode_special(to, special),
        };
        self.finish(to, bits)
    }

    /// Converts a NaN as hardware does. The manual does not specify most of these results.
    fn nan_to_float(self, from: Format, to: Format, a: u64) -> u64 {
        if self.sat {
            return 0;
        }
        match (self.dst, self.src) {
            // Hardware moves or shifts the bits, so the payload stays.
            (Ty::F32, Ty::F32) if !self.integral && !self.ftz => a & 0xffff_ffff,
            (Ty::F64, Ty::F64) if !self.integral => a,
            (Ty::F32, Ty::Bf16) if !self.ftz => (a & 0xffff) << 16,
            (Ty::Tf32, _) if self.round == Round::NearestAway && !self.relu => {
                let cut = a & 0xffff_e000;
                if self.satfinite { cut - 0x2000 } else { cut }
            }
            (Ty::Tf32, _) => to.nan << 13,
            // An f32 operation flushes the source first and drops the payload.
            (Ty::F64, Ty::F32) if self.ftz => exact::convert_nan(from, to, from.nan),
            _ => exact::convert_nan(from, to, a),
        }
    }

    /// Applies the result modifiers ftz, sat and relu, and moves a tf32 code to its position in the register.
    fn finish(self, to: Format, bits: u64) -> u64 {
        let magnitude = bits & (to.sign() - 1);
        let nan = magnitude > to.inf() || !to.ieee && magnitude == to.nan;
        let neg = bits & to.sign() != 0;
        let mut bits = bits;
        if self.ftz && to == exact::F32 && magnitude < 1 << to.man {
            bits &= to.sign();
        }
        if self.relu && neg && !nan {
            bits = 0;
        }
        if self.sat {
            let one = (to.bias() as u64) << to.man;
            bits = if nan || neg { 0 } else { bits.min(one) };
        }
        if self.dst == Ty::Tf32 { bits << 13 } else { bits }
    }
}

/// Sign- or zero-extends the low `width` bits of `a`.
fn extend(a: u64, signed: bool, width: u32) -> i128 {
    let up = 64 - width;
    if signed { i128::from((a << up) as i64 >> up) } else { i128::from(a << up >> up) }
}

fn clamp(value: i128, signed: bool, width: u32) -> u64 {
    let (low, high) = if signed {
        (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
    } else {
        (0, (1i128 << width) - 1)
    };
    value.clamp(low, high) as u64
}

fn decode_ftz(f: Format, a: u64, ftz: bool) -> Value {
    if ftz && f == exact::F32 && a & 0x7f80_0000 == 0 {
        return Value::Zero { neg: a & f.sign() != 0 };
    }
    exact::decode(f, a)
}

fn encode_special(to: Format, v: Value) -> u64 {
    match v {
        Value::Inf { neg } => to.inf() | if neg { to.sign() } else { 0 },
        Value::Zero { neg: true } => to.sign(),
        Value::Zero { neg: false } => 0,
        Value::Nan | Value::Finite(_) => to.nan,
    }
}

/// Rounds a value below 2^64 with a fraction to an integer. The mantissa of the result may be zero.
fn integral(x: Exact, round: Round) -> Exact {
    let (neg, magnitude) = exact::to_int(x, round);
    Exact { neg, mant: u128::from(magnitude), exp: 0 }
}

/// Converts all lanes in one branch-free loop.
macro_rules! each_lane {
    ($a:ident, $out:ident, $f:expr) => {{
        for lane in 0..32 {
            $out[lane] = $f($a[lane]);
        }
    }};
}

/// Defines a function that rounds to an integral value.
macro_rules! round_to_integral {
    ($name:ident, $float:ty) => {
        #[inline(always)]
        fn $name(x: $float, round: Round) -> $float {
            match round {
                Round::Nearest => x.round_ties_even(),
                Round::Zero => x.trunc(),
                Round::Down => x.floor(),
                Round::Up => x.ceil(),
                Round::NearestAway => x.round(),
            }
        }
    };
}
round_to_integral!(rint, f32);
round_to_integral!(rint_f64, f64);

#[inline(always)]
fn in_f32(x: u32, ftz: bool) -> f32 {
    let x = f32::from_bits(x);
    if ftz { float::ftz(x) } else { x }
}

/// Converts two 8-bit codes to two f16.
#[inline(always)]
fn widen_pair(x: u32, decode: impl Fn(u8) -> f32) -> u32 {
    codec::f32_to_f16_rn(decode(x as u8)) | codec::f32_to_f16_rn(decode((x >> 8) as u8)) << 16
}

/// Converts two f16 to two 8-bit codes.
#[inline(always)]
fn narrow_pair(x: u32, encode: impl Fn(f32) -> u8) -> u32 {
    u32::from(encode(codec::f16_to_f32(x & 0xffff))) | u32::from(encode(codec::f16_to_f32(x >> 16))) << 8
}

#[inline(always)]
fn body_32_32<const F16C: bool>(op: Cvt, a: &Lanes, out: &mut Lanes) {
    use Ty::{Bf16, E4m3x2, E5m2x2, F16, F16x2, F32, S8, S16, S32, U8, U16, U32};
    let Cvt { round, ftz, .. } = op;
    if !op.relu {
        match (op.dst, op.src) {
            (F16x2, E4m3x2) => return each_lane!(a, out, |x| widen_pair(x, codec::e4m3_to_f32)),
            (F16x2, E5m2x2) => return each_lane!(a, out, |x| widen_pair(x, codec::e5m2_to_f32)),
            (E4m3x2, F16x2) => return each_lane!(a, out, |x| narrow_pair(x, codec::f32_to_e4m3)),
            (E5m2x2, F16x2) => return each_lane!(a, out, |x| narrow_pair(x, codec::f32_to_e5m2)),
            _ => {}
        }
    }
    if !(op.sat || op.satfinite || op.relu) {
        let nearest = round == Round::Nearest && !op.integral;
        match (op.dst, op.src) {
            (F32, F16) if !op.integral && !ftz => return codec::lanes_f16_to_f32(a, out),
            (F16, F32) if nearest && !ftz => return codec::lanes_f32_to_f16(a, out),
            (Bf16, F32) if nearest && !ftz => {
                return each_lane!(a, out, |x| codec::f32_to_bf16_rn(f32::from_bits(x)));
            }
            (F32, Bf16) if !op.integral && !ftz => {
                return each_lane!(a, out, |x| codec::bf16_to_f32(x).to_bits());
            }
            (F32, S32) if nearest => return each_lane!(a, out, |x| (x as i32 as f32).to_bits()),
            (F32, U32) if nearest => return each_lane!(a, out, |x| (x as f32).to_bits()),
            (F32, U16) => return each_lane!(a, out, |x| (x as u16 as f32).to_bits()),
            (F32, S16) => return each_lane!(a, out, |x| (x as i16 as f32).to_bits()),
            (F32, U8) => return each_lane!(a, out, |x| (x as u8 as f32).to_bits()),
            (F32, S8) => return each_lane!(a, out, |x| (x as i8 as f32).to_bits()),
            // Rust's casts clamp and turn NaN into zero, which is what PTX does for these types.
            (S32, F32) => match round {
                Round::Zero => return each_lane!(a, out, |x| f32::from_bits(x) as i32 as u32),
                Round::Nearest => {
                    return each_lane!(a, out, |x| rint(f32::from_bits(x), Round::Nearest) as i32 as u32);
                }
                Round::Down => {
                    return each_lane!(a, out, |x| rint(in_f32(x, ftz), Round::Down) as i32 as u32);
                }
                Round::Up => return each_lane!(a, out, |x| rint(in_f32(x, ftz), Round::Up) as i32 as u32),
                Round::NearestAway => {}
            },
            (U32, F32) if round == Round::Zero => return each_lane!(a, out, |x| f32::from_bits(x) as u32),
            (U32, F32) if round == Round::Nearest => {
                return each_lane!(a, out, |x| rint(f32::from_bits(x), Round::Nearest) as u32);
            }
            (F32, F32) if op.integral => {
                let f = |round| move |x| float::canonical(rint(in_f32(x, ftz), round)).to_bits();
                match round {
                    Round::Nearest => return each_lane!(a, out, f(Round::Nearest)),
                    Round::Zero => return each_lane!(a, out, f(Round::Zero)),
                    Round::Down => return each_lane!(a, out, f(Round::Down)),
                    Round::Up => return each_lane!(a, out, f(Round::Up)),
                    Round::NearestAway => {}
                }
            }
            (U32 | S32, U32 | S32) => {
                *out = *a;
                return;
            }
            (U8, _) if op.src.integer().is_some() => return each_lane!(a, out, |x| x & 0xff),
            (S8, _) if op.src.integer().is_some() => return each_lane!(a, out, |x| x as i8 as u32),
            (U16, U16 | S16 | U32 | S32) => return each_lane!(a, out, |x| x & 0xffff),
            (S16, U16 | S16 | U32 | S32) => return each_lane!(a, out, |x| x as i16 as u32),
            (U32 | S32 | U16 | S16, U8) => return each_lane!(a, out, |x| x & 0xff),
            (U32 | S32 | S16, S8) => return each_lane!(a, out, |x| x as i8 as u32),
            (U32 | S32, U16) => return each_lane!(a, out, |x| x & 0xffff),
            (U32 | S32, S16) => return each_lane!(a, out, |x| x as i16 as u32),
            _ => {}
        }
    } else if op.sat && op.dst == F32 && op.src == F32 && !op.integral {
        return each_lane!(a, out, |x| float::saturate(in_f32(x, ftz)).to_bits());
    }
    for lane in 0..32 {
        out[lane] = op.scalar(u64::from(a[lane])) as u32;
    }
}

#[inline(always)]
fn body_32_64<const F16C: bool>(op: Cvt, a: &Lanes, out: &mut Lanes64) {
    use Ty::{F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    if !op.sat {
        match (op.dst, op.src) {
            (U64 | S64, U32) => return each_lane!(a, out, u64::from),
            (U64 | S64, S32) => return each_lane!(a, out, |x| x as i32 as u64),
            (U64 | S64, U16) => return each_lane!(a, out, |x| x as u16 as u64),
            (U64 | S64, S16) => return each_lane!(a, out, |x| x as i16 as u64),
            (U64 | S64, U8) => return each_lane!(a, out, |x| x as u8 as u64),
            (U64 | S64, S8) => return each_lane!(a, out, |x| x as i8 as u64),
            (F64, U32) => return each_lane!(a, out, |x| f64::from(x).to_bits()),
            (F64, S32) => return each_lane!(a, out, |x| f64::from(x as i32).to_bits()),
            (F64, F32) if !op.integral => {
                let ftz = op.ftz;
                return each_lane!(a, out, |x| {
                    let x = in_f32(x, ftz);
                    f64::from(if ftz { float::canonical(x) } else { x }).to_bits()
                });
            }
            _ => {}
        }
    }
    for lane in 0..32 {
        out[lane] = op.scalar(u64::from(a[lane]));
    }
}

#[inline(always)]
fn body_64_32<const F16C: bool>(op: Cvt, a: &Lanes64, out: &mut Lanes) {
    use Ty::{F32, F64, S16, S32, S64, U16, U32, U64};
    if !op.sat {
        match (op.dst, op.src) {
            (U32 | S32, U64 | S64) => return each_lane!(a, out, |x| x as u32),
            (U16, U64 | S64) => return each_lane!(a, out, |x| u32::from(x as u16)),
            (S16, U64 | S64) => return each_lane!(a, out, |x| x as i16 as u32),
            (F32, F64) if op.round == Round::Nearest && !op.integral => {
                let ftz = op.ftz;
                return each_lane!(a, out, |x| {
                    let x = f64::from_bits(x) as f32;
                    (if ftz { float::ftz(x) } else { x }).to_bits()
                });
            }
            (F32, S64) if op.round == Round::Nearest => {
                return each_lane!(a, out, |x| (x as i64 as f32).to_bits());
            }
            (F32, U64) if op.round == Round::Nearest => return each_lane!(a, out, |x| (x as f32).to_bits()),
            (S32, F64) if op.round != Round::NearestAway => {
                let round = op.round;
                return each_lane!(a, out, |x| {
                    let x = f64::from_bits(x);
                    if x.is_nan() { 1 << 31 } else { rint_f64(x, round) as i32 as u32 }
                });
            }
            _ => {}
        }
    }
    for lane in 0..32 {
        out[lane] = op.scalar(a[lane]) as u32;
    }
}

#[inline(always)]
fn body_64_64<const F16C: bool>(op: Cvt, a: &Lanes64, out: &mut Lanes64) {
    use Ty::{F64, S64, U64};
    if !op.sat {
        match (op.dst, op.src) {
            (U64 | S64, U64 | S64) => {
                *out = *a;
                return;
            }
            (F64, S64) if op.round == Round::Nearest => {
                return each_lane!(a, out, |x| (x as i64 as f64).to_bits());
            }
            (F64, U64) if op.round == Round::Nearest => return each_lane!(a, out, |x| (x as f64).to_bits()),
            _ => {}
        }
    }
    for lane in 0..32 {
        out[lane] = op.scalar(a[lane]);
    }
}

#[inline(always)]
fn body_pair<const F16C: bool>(op: Cvt, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    let plain = op.round == Round::Nearest && !op.relu && !op.ftz;
    match op.dst {
        Ty::F16x2 if plain && !op.satfinite => return codec::lanes_f32_to_f16x2(a, b, out),
        Ty::Bf16x2 if plain && !op.satfinite => {
            for lane in 0..32 {
                out[lane] = codec::f32_to_bf16_rn(f32::from_bits(a[lane])) << 16
                    | codec::f32_to_bf16_rn(f32::from_bits(b[lane]));
            }
            return;
        }
        Ty::E4m3x2 if plain => {
            for lane in 0..32 {
                out[lane] = u32::from(codec::f32_to_e4m3(f32::from_bits(a[lane]))) << 8
                    | u32::from(codec::f32_to_e4m3(f32::from_bits(b[lane])));
            }
            return;
        }
        Ty::E5m2x2 if plain => {
            for lane in 0..32 {
                out[lane] = u32::from(codec::f32_to_e5m2(f32::from_bits(a[lane]))) << 8
                    | u32::from(codec::f32_to_e5m2(f32::from_bits(b[lane])));
            }
            return;
        }
        _ => {}
    }
    for lane in 0..32 {
        out[lane] = op.pair(u64::from(a[lane]), u64::from(b[lane])) as u32;
    }
}

per_isa! {
    /// Converts a 32-bit register to a 32-bit register. This includes packed types with one source.
    pub fn lanes_32_32 = body_32_32 where (op: Cvt, a: &Lanes, out: &mut Lanes);
    /// Converts a 32-bit register to a 64-bit register.
    pub fn lanes_32_64 = body_32_64 where (op: Cvt, a: &Lanes, out: &mut Lanes64);
    /// Converts a 64-bit register to a 32-bit register.
    pub fn lanes_64_32 = body_64_32 where (op: Cvt, a: &Lanes64, out: &mut Lanes);
    /// Converts a 64-bit register to a 64-bit register.
    pub fn lanes_64_64 = body_64_64 where (op: Cvt, a: &Lanes64, out: &mut Lanes64);
    /// Converts two f32 registers to a packed register. `a` goes to the upper half.
    pub fn lanes_pair = body_pair where (op: Cvt, a: &Lanes, b: &Lanes, out: &mut Lanes);
}

#[cfg(test)]
mod tests;
