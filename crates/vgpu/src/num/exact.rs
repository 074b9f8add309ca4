//! Slow and simple exact arithmetic: a finite value is an integer times a power of two, and it is rounded once.
//!
//! Every rare conversion and every directed rounding of f64 uses this module. The fast paths in other modules are
//! tested against independent arithmetic and against this module.

use super::Round;

/// A binary floating-point format of at most 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Number of stored fraction bits.
    pub man: u32,
    /// Number of exponent bits.
    pub exp: u32,
    /// False only for E4M3, which has no infinity. Its top exponent encodes numbers, and only the all-ones code is
    /// NaN.
    pub ieee: bool,
    /// The NaN that operations produce.
    pub nan: u64,
}

/// IEEE half precision.
pub const F16: Format = Format { man: 10, exp: 5, ieee: true, nan: 0x7fff };
/// bfloat16.
pub const BF16: Format = Format { man: 7, exp: 8, ieee: true, nan: 0x7fff };
/// tf32 as a 19-bit code, which is the high 19 bits of the f32 register.
pub const TF32: Format = Format { man: 10, exp: 8, ieee: true, nan: 0x3_ffff };
/// OCP FP8 E4M3.
pub const E4M3: Format = Format { man: 3, exp: 4, ieee: false, nan: 0x7f };
/// OCP FP8 E5M2.
pub const E5M2: Format = Format { man: 2, exp: 5, ieee: true, nan: 0x7f };
/// IEEE single precision.
pub const F32: Format = Format { man: 23, exp: 8, ieee: true, nan: 0x7fff_ffff };
/// IEEE double precision.
pub const F64: Format = Format { man: 52, exp: 11, ieee: true, nan: 0xfff8_0000_0000_0000 };

impl Format {
    /// The exponent bias.
    pub const fn bias(self) -> i32 {
        (1 << (self.exp - 1)) - 1
    }

    /// The sign bit of a code.
    pub const fn sign(self) -> u64 {
        1 << (self.man + self.exp)
    }

    /// The code of infinity, or of NaN for a format without infinity.
    pub const fn inf(self) -> u64 {
        if self.ieee { ((1 << self.exp) - 1) << self.man } else { self.nan }
    }

    /// The code of the largest finite number.
    pub const fn max_finite(self) -> u64 {
        self.inf() - 1
    }

    /// Exponent of the smallest normal number.
    pub const fn min_exp(self) -> i32 {
        1 - self.bias()
    }

    const fn signed(self, neg: bool, code: u64) -> u64 {
        if neg { code | self.sign() } else { code }
    }

    const fn is_nan(self, bits: u64) -> bool {
        let code = bits & (self.sign() - 1);
        if self.ieee { code > self.inf() } else { code == self.nan }
    }

    /// Returns the NaN result for these operands. f64 keeps the payload of the first operand that is a NaN and sets
    /// its quiet bit. Hardware prefers the second operand, then the third, then the first, so callers pass the
    /// operands in that order.
    fn nan_of(self, operands: &[u64]) -> u64 {
        match operands.iter().find(|&&bits| self.is_nan(bits)) {
            Some(bits) if self == F64 => quiet_f64(*bits),
            _ => self.nan,
        }
    }
}

/// Sets the quiet bit of an f64 NaN.
pub const fn quiet_f64(bits: u64) -> u64 {
    bits | 1 << 51
}

/// The value of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not a number.
    Nan,
    /// Infinity.
    Inf {
        /// Whether the sign is negative.
        neg: bool,
    },
    /// Zero.
    Zero {
        /// Whether the sign is negative.
        neg: bool,
    },
    /// A finite number other than zero.
    Finite(Exact),
}

/// The value `±mant · 2^exp`, where `mant` is not zero. If bits of a value were cut, the lowest bit of `mant` is set
/// instead (a sticky bit). Such a value rounds correctly if `mant` has at least two more bits than the target format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// Whether the value is negative.
    pub neg: bool,
    /// The magnitude of the integer factor.
    pub mant: u128,
    /// The exponent of the power of two.
    pub exp: i32,
}

/// Decodes a code. Bits above the width of the format are ignored.
#[inline]
pub fn decode(f: Format, bits: u64) -> Value {
    let neg = bits & f.sign() != 0;
    let code = bits & (f.sign() - 1);
    let frac = code & ((1 << f.man) - 1);
    let e = (code >> f.man) as i32;
    if f.ieee && code >= f.inf() {
        return if frac == 0 { Value::Inf { neg } } else { Value::Nan };
    }
    if !f.ieee && code == f.nan {
        return Value::Nan;
    }
    if code == 0 {
        return Value::Zero { neg };
    }
    let (mant, e) = if e == 0 { (frac, 1) } else { (frac | 1 << f.man, e) };
    Value::Finite(Exact { neg, mant: u128::from(mant), exp: e - f.bias() - f.man as i32 })
}

/// Rounds a value to the format. Beyond the range of the format, the result is infinity or the largest number, as
/// IEEE specifies for the rounding mode. With `saturate` it is always the largest number.
#[inline]
pub fn encode(f: Format, x: Exact, round: Round, saturate: bool) -> u64 {
    debug_assert!(x.mant != 0, "zero has no exponent");
    let top = x.exp + 127 - x.mant.leading_zeros() as i32;
    // `binade` is the exponent of the binade of the value; subnormals share the lowest one. `shift` is the number of
    // low bits of `mant` that are below the last place of the format.
    let binade = top.max(f.min_exp());
    let shift = binade - f.man as i32 - x.exp;
    let (mut q, rest) = if shift <= 0 {
        (x.mant << -shift, Rest::None)
    } else if shift > 128 {
        (0, Rest::BelowHalf)
    } else {
        let half = 1u128 << (shift - 1);
        let below = x.mant & (half - 1) != 0;
        let q = x.mant.checked_shr(shift as u32).unwrap_or(0);
        (
            q,
            match (x.mant & half != 0, below) {
                (false, false) => Rest::None,
                (false, true) => Rest::BelowHalf,
                (true, false) => Rest::Half,
                (true, true) => Rest::AboveHalf,
            },
        )
    };
    let up = match round {
        Round::Nearest => rest == Rest::AboveHalf || rest == Rest::Half && q & 1 == 1,
        Round::NearestAway => rest >= Rest::Half,
        Round::Zero => false,
        Round::Down => x.neg && rest != Rest::None,
        Round::Up => !x.neg && rest != Rest::None,
    };
    q += u128::from(up);
    // The hidden bit of `q`, if it has one, adds the missing one to the exponent field. A carry does the same.
    let field = (binade - f.min_exp()) as u128;
    let code = (field << f.man) + q;
    let code = if code > u128::from(f.max_finite()) {
        let to_inf = match round {
            Round::Nearest | Round::NearestAway => true,
            Round::Zero => false,
            Round::Down => x.neg,
            Round::Up => !x.neg,
        };
        if saturate || !to_inf { f.max_finite() } else { f.inf() }
    } else {
        code as u64
    };
    f.signed(x.neg, code)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    None,
    BelowHalf,
    Half,
    AboveHalf,
}

/// Converts a NaN. Conversions to and from f64 keep the sign and the upper bits of the payload; all others drop them.
pub fn convert_nan(from: Format, to: Format, bits: u64) -> u64 {
    if from != F64 && to != F64 {
        return to.nan;
    }
    let payload = bits & ((1 << from.man) - 1);
    let payload =
        if to.man >= from.man { payload << (to.man - from.man) } else { payload >> (from.man - to.man) };
    to.signed(bits & from.sign() != 0, to.inf() | payload | 1 << (to.man - 1))
}

/// Converts a code from one format to another.
#[inline]
pub fn convert(from: Format, to: Format, bits: u64, round: Round, saturate: bool) -> u64 {
    match decode(from, bits) {
        Value::Nan => convert_nan(from, to, bits),
        Value::Inf { neg } => to.signed(neg, if saturate { to.max_finite() } else { to.inf() }),
        Value::Zero { neg } => to.signed(neg, 0),
        Value::Finite(x) => encode(to, x, round, saturate),
    }
}

/// Converts an integer, given as sign and magnitude, to a format.
#[inline]
pub fn from_int(f: Format, neg: bool, magnitude: u64, round: Round) -> u64 {
    if magnitude == 0 {
        return 0;
    }
    encode(f, Exact { neg, mant: u128::from(magnitude), exp: 0 }, round, false)
}

/// Rounds to an integer. Returns the sign and the magnitude, which is clamped to `u64::MAX`.
#[inline]
pub fn to_int(x: Exact, round: Round) -> (bool, u64) {
    // Without a fraction, the value only needs a shift; a value that does not fit clamps.
    if x.exp >= 0 {
        let shifted = if x.exp as u32 > x.mant.leading_zeros() { u128::MAX } else { x.mant << x.exp };
        return (x.neg, u64::try_from(shifted).unwrap_or(u64::MAX));
    }
    let shift = x.exp.unsigned_abs();
    let q = x.mant.checked_shr(shift).unwrap_or(0);
    let (half, below) = if shift > 128 {
        (false, true)
    } else {
        let half = 1u128 << (shift - 1);
        (x.mant & half != 0, x.mant & (half - 1) != 0)
    };
    let up = match round {
        Round::Nearest => half && (below || q & 1 == 1),
        Round::NearestAway => half,
        Round::Zero => false,
        Round::Down => x.neg && (half || below),
        Round::Up => !x.neg && (half || below),
    };
    (x.neg, u64::try_from(q + u128::from(up)).unwrap_or(u64::MAX))
}

/// Exact product. Both mantissas must fit into 64 bits.
#[inline]
fn product(a: Exact, b: Exact) -> Exact {
    Exact { neg: a.neg != b.neg, mant: a.mant * b.mant, exp: a.exp + b.exp }
}

/// Moves the leading bit to bit 125. The two free bits hold one carry in `sum` and keep the top bit clear.
fn normalise(x: Exact) -> Exact {
    let up = x.mant.leading_zeros() as i32 - 2;
    debug_assert!(up >= 0, "mantissa too long to add");
    Exact { neg: x.neg, mant: x.mant << up, exp: x.exp - up }
}

/// Sum with a 126-bit mantissa and a sticky bit at bit 0. Returns `None` if the sum is exactly zero.
#[inline]
fn sum(a: Exact, b: Exact) -> Option<Exact> {
    let (a, b) = (normalise(a), normalise(b));
    let (big, small) = if a.exp >= b.exp { (a, b) } else { (b, a) };
    let shift = (big.exp - small.exp) as u32;
    // Bits are cut only if the operands are far apart. In that case cancellation removes at most one bit.
    let low = if shift >= 128 {
        1
    } else {
        small.mant >> shift | u128::from(small.mant & ((1u128 << shift) - 1) != 0)
    };
    if big.neg == small.neg {
        return Some(Exact { neg: big.neg, mant: big.mant + low, exp: big.exp });
    }
    match big.mant.cmp(&low) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(Exact { neg: big.neg, mant: big.mant - low, exp: big.exp }),
        std::cmp::Ordering::Less => Some(Exact { neg: small.neg, mant: low - big.mant, exp: big.exp }),
    }
}

/// Whether an exact zero that is the sum of two opposite values is negative.
const fn zero_sum_neg(round: Round) -> bool {
    matches!(round, Round::Down)
}

/// `a · b + c` in one format, rounded once.
#[inline]
pub fn fma(f: Format, a: u64, b: u64, c: u64, round: Round) -> u64 {
    let (va, vb, vc) = (decode(f, a), decode(f, b), decode(f, c));
    let neg_p = (a ^ b) & f.sign() != 0;
    let p = match (va, vb) {
        (Value::Nan, _) | (_, Value::Nan) => return f.nan_of(&[b, c, a]),
        (Value::Inf { .. }, Value::Zero { .. }) | (Value::Zero { .. }, Value::Inf { .. }) => {
            return f.nan_of(&[c]);
        }
        (Value::Inf { .. }, _) | (_, Value::Inf { .. }) => Value::Inf { neg: neg_p },
        (Value::Zero { .. }, _) | (_, Value::Zero { .. }) => Value::Zero { neg: neg_p },
        (Value::Finite(x), Value::Finite(y)) => Value::Finite(product(x, y)),
    };
    if matches!(vc, Value::Nan) {
        return f.nan_of(&[c]);
    }
    add_values(f, p, vc, round)
}

fn add_values(f: Format, p: Value, c: Value, round: Round) -> u64 {
    match (p, c) {
        (Value::Nan, _) | (_, Value::Nan) => f.nan,
        (Value::Inf { neg: x }, Value::Inf { neg: y }) if x != y => f.nan,
        (Value::Inf { neg }, _) | (_, Value::Inf { neg }) => f.signed(neg, f.inf()),
        (Value::Zero { neg: x }, Value::Zero { neg: y }) => {
            f.signed(if x == y { x } else { zero_sum_neg(round) }, 0)
        }
        (Value::Zero { .. }, Value::Finite(x)) | (Value::Finite(x), Value::Zero { .. }) => {
            encode(f, x, round, false)
        }
        (Value::Finite(x), Value::Finite(y)) => match sum(x, y) {
            Some(s) => encode(f, s, round, false),
            None => f.signed(zero_sum_neg(round), 0),
        },
    }
}

/// `a + b`, rounded once.
#[inline]
pub fn add(f: Format, a: u64, b: u64, round: Round) -> u64 {
    match (decode(f, a), decode(f, b)) {
        (Value::Nan, _) | (_, Value::Nan) => f.nan_of(&[b, a]),
        (x, y) => add_values(f, x, y, round),
    }
}

/// `a · b`, rounded once.
#[inline]
pub fn mul(f: Format, a: u64, b: u64, round: Round) -> u64 {
    let neg = (a ^ b) & f.sign() != 0;
    match (decode(f, a), decode(f, b)) {
        (Value::Nan, _) | (_, Value::Nan) => f.nan_of(&[b, a]),
        (Value::Inf { .. }, Value::Zero { .. }) | (Value::Zero { .. }, Value::Inf { .. }) => f.nan,
        (Value::Inf { .. }, _) | (_, Value::Inf { .. }) => f.signed(neg, f.inf()),
        (Value::Zero { .. }, _) | (_, Value::Zero { .. }) => f.signed(neg, 0),
        (Value::Finite(x), Value::Finite(y)) => encode(f, product(x, y), round, false),
    }
}

/// `a / b`, rounded once.
#[inline]
pub fn div(f: Format, a: u64, b: u64, round: Round) -> u64 {
    let neg = (a ^ b) & f.sign() != 0;
    match (decode(f, a), decode(f, b)) {
        (Value::Nan, _) | (_, Value::Nan) => f.nan_of(&[b, a]),
        (Value::Inf { .. }, Value::Inf { .. }) | (Value::Zero { .. }, Value::Zero { .. }) => f.nan,
        (Value::Inf { .. }, _) | (_, Value::Zero { .. }) => f.signed(neg, f.inf()),
        (Value::Zero { .. }, _) | (_, Value::Inf { .. }) => f.signed(neg, 0),
        (Value::Finite(x), Value::Finite(y)) => {
            // The quotient has at least 128 - 53 bits, followed by a sticky bit. A quotient of 128 bits has no room
            // for the sticky bit, so the sticky bit is merged into its last bit.
            let up = x.mant.leading_zeros();
            let n = x.mant << up;
            let (quotient, sticky) = (n / y.mant, u128::from(n % y.mant != 0));
            let cut = i32::from(quotient >> 127 == 0);
            let q = (quotient << cut) | sticky;
            encode(f, Exact { neg, mant: q, exp: x.exp - up as i32 - y.exp - cut }, round, false)
        }
    }
}

/// Square root of `a`, rounded once.
#[inline]
pub fn sqrt(f: Format, a: u64, round: Round) -> u64 {
    match decode(f, a) {
        Value::Zero { neg } => f.signed(neg, 0),
        Value::Inf { neg: false } => f.inf(),
        Value::Nan => f.nan_of(&[a]),
        Value::Inf { neg: true } | Value::Finite(Exact { neg: true, .. }) => f.nan,
        Value::Finite(x) => {
            // With an even exponent and a mantissa of 125 or 126 bits, the root has 63 bits. A sticky bit follows.
            let mut up = x.mant.leading_zeros() as i32 - 2;
            if (x.exp - up) & 1 != 0 {
                up -= 1;
            }
            let n = x.mant << up;
            let root = n.isqrt();
            let mant = root << 1 | u128::from(root * root != n);
            encode(f, Exact { neg: false, mant, exp: (x.exp - up) / 2 - 1 }, round, false)
        }
    }
}

#[cfg(test)]
mod tests;
