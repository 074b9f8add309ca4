//! Scalar models that share no code with the virtual GPU: a format is a sorted list of numbers, and rounding is a
//! search in that list. The models are slow and hard to get wrong.

use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Nearest,
    NearestAway,
    Zero,
    Down,
    Up,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Nearest, Mode::Zero, Mode::Down, Mode::Up];

    /// The suffix: `rn`, `rz`, ...
    pub const fn suffix(self) -> &'static str {
        match self {
            Mode::Nearest => "rn",
            Mode::NearestAway => "rna",
            Mode::Zero => "rz",
            Mode::Down => "rm",
            Mode::Up => "rp",
        }
    }
}

/// A number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    F32,
    Tf32,
    F16,
    Bf16,
    E4m3,
    E5m2,
}

impl Format {
    /// Fraction bits and bias.
    const fn sizes(self) -> (u32, i32) {
        match self {
            Format::F32 => (23, 127),
            Format::Tf32 => (10, 127),
            Format::F16 => (10, 15),
            Format::Bf16 => (7, 127),
            Format::E4m3 => (3, 7),
            Format::E5m2 => (2, 15),
        }
    }

    /// The code of the largest finite number.
    pub const fn largest(self) -> u64 {
        match self {
            Format::F32 => 0x7f7f_ffff,
            Format::Tf32 => 0x3_fbff,
            Format::F16 => 0x7bff,
            Format::Bf16 => 0x7f7f,
            Format::E4m3 => 0x7e,
            Format::E5m2 => 0x7b,
        }
    }

    pub const fn infinity(self) -> u64 {
        self.largest() + 1
    }

    pub const fn sign(self) -> u64 {
        match self {
            Format::F32 => 1 << 31,
            Format::Tf32 => 1 << 18,
            Format::F16 | Format::Bf16 => 1 << 15,
            Format::E4m3 | Format::E5m2 => 1 << 7,
        }
    }

    /// The NaN that instructions produce.
    pub const fn nan(self) -> u64 {
        match self {
            Format::F32 => 0x7fff_ffff,
            Format::Tf32 => 0x3_ffff,
            Format::F16 | Format::Bf16 => 0x7fff,
            Format::E4m3 | Format::E5m2 => 0x7f,
        }
    }

    /// The number that a finite, positive code represents. For the code past the largest: what the next number would
    /// be.
    pub fn magnitude(self, code: u64) -> f64 {
        let (man, bias) = self.sizes();
        let fraction = (code & ((1 << man) - 1)) as f64;
        let exponent = (code >> man) as i32;
        let scale = f64::from(1 << man);
        if exponent == 0 {
            fraction / scale * f64::exp2(f64::from(1 - bias))
        } else {
            (1.0 + fraction / scale) * f64::exp2(f64::from(exponent - bias))
        }
    }

    /// The value of any code.
    pub fn value(self, code: u64) -> f64 {
        let magnitude = code & (self.sign() - 1);
        let value = if magnitude <= self.largest() {
            self.magnitude(magnitude)
        } else if magnitude == self.infinity() && self != Format::E4m3 {
            f64::INFINITY
        } else {
            f64::NAN
        };
        if code & self.sign() != 0 { -value } else { value }
    }

    /// Rounds a non-zero number, given by its sign and by a comparison of its magnitude with any candidate.
    pub fn round(self, negative: bool, mode: Mode, compare: impl Fn(f64) -> Ordering) -> u64 {
        // The last code whose number is not above the magnitude.
        let (mut low, mut high) = (0, self.largest() + 1);
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            if compare(self.magnitude(middle)) == Ordering::Less {
                high = middle;
            } else {
                low = middle;
            }
        }
        let sign = if negative { self.sign() } else { 0 };
        if compare(self.magnitude(low)) == Ordering::Equal {
            return low | sign;
        }
        let above = low + 1;
        let half = f64::midpoint(self.magnitude(low), self.magnitude(above));
        let up = match (mode, compare(half)) {
            (Mode::Zero, _) => false,
            (Mode::Down, _) => negative,
            (Mode::Up, _) => !negative,
            (_, Ordering::Less) => false,
            (_, Ordering::Greater) => true,
            (Mode::Nearest, Ordering::Equal) => low & 1 == 1,
            (Mode::NearestAway, Ordering::Equal) => true,
        };
        (if up { above } else { low }) | sign
    }

    /// Rounds like [`Format::round`]. With `ftz` a number becomes zero if it is below the smallest normal number
    /// after rounding with unlimited exponents; hardware decides in this way.
    pub fn round_ftz(self, negative: bool, mode: Mode, ftz: bool, compare: impl Fn(f64) -> Ordering) -> u64 {
        // Scaled up by this power of two, every number in question is normal.
        const UP: u64 = 12;
        let (man, _) = self.sizes();
        let scaled = || self.round(negative, mode, |candidate| compare(candidate * f64::exp2(-(UP as f64))));
        if ftz && scaled() & !self.sign() < (1 + UP) << man {
            return if negative { self.sign() } else { 0 };
        }
        self.round(negative, mode, compare)
    }

    /// Rounds `high + low`, where `low` is at most half a unit of `high`.
    pub fn round_sum(self, high: f64, low: f64, mode: Mode) -> u64 {
        self.round_sum_ftz(high, low, mode, false)
    }

    pub fn round_sum_ftz(self, high: f64, low: f64, mode: Mode, ftz: bool) -> u64 {
        let negative = high < 0.0;
        let (high, low) = if negative { (-high, -low) } else { (high, low) };
        self.round_ftz(negative, mode, ftz, |candidate| {
            let first = high.partial_cmp(&candidate).unwrap_or(Ordering::Equal);
            first.then(low.partial_cmp(&0.0).unwrap_or(Ordering::Equal))
        })
    }
}

/// `a + b` as a rounded sum and the rounding error.
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let from_b = sum - a;
    (sum, (a - (sum - from_b)) + (b - from_b))
}

/// The sign of the zero that is the exact sum of `x` and `y`.
fn zero_sum(x: f64, y: f64, mode: Mode) -> bool {
    let negative = |value: f64| value.is_sign_negative();
    if negative(x) == negative(y) { negative(x) } else { mode == Mode::Down }
}

/// `a·b + c` with one rounding; addition is `a·1 + c`. All operands are in `format`, at most f32.
pub fn fma(format: Format, mode: Mode, ftz: bool, a: u64, b: u64, c: u64) -> u64 {
    let (a, b, c) = (format.value(a), format.value(b), format.value(c));
    let product = a * b;
    let sum = product + c;
    if sum.is_nan() {
        return format.nan();
    }
    let signed = |negative: bool, code: u64| if negative { code | format.sign() } else { code };
    if sum.is_infinite() {
        return signed(sum < 0.0, format.infinity());
    }
    let (high, low) = two_sum(product, c);
    if high == 0.0 {
        return signed(zero_sum(product, c, mode), 0);
    }
    format.round_sum_ftz(high, low, mode, ftz)
}

/// `a · b` with one rounding.
pub fn mul(format: Format, mode: Mode, ftz: bool, a: u64, b: u64) -> u64 {
    let product = format.value(a) * format.value(b);
    if product.is_nan() {
        return format.nan();
    }
    let sign = if product.is_sign_negative() { format.sign() } else { 0 };
    if product == 0.0 {
        sign
    } else if product.is_infinite() {
        sign | format.infinity()
    } else {
        format.round_sum_ftz(product, 0.0, mode, ftz)
    }
}

/// `a / b` in f32 with one rounding. `candidate · b` is exact in f64, so the quotient can be compared with a
/// candidate.
pub fn div_f32(mode: Mode, ftz: bool, a: u64, b: u64) -> u64 {
    let (a, b) = (Format::F32.value(a), Format::F32.value(b));
    let quotient = a / b;
    if quotient.is_nan() {
        return Format::F32.nan();
    }
    let negative = quotient.is_sign_negative();
    let sign = if negative { Format::F32.sign() } else { 0 };
    if a == 0.0 || b.is_infinite() {
        sign
    } else if quotient.is_infinite() {
        sign | Format::F32.infinity()
    } else {
        Format::F32.round_ftz(negative, mode, ftz, |candidate| {
            a.abs().partial_cmp(&(candidate * b.abs())).unwrap_or(Ordering::Equal)
        })
    }
}

/// The square root in f32 with one rounding.
pub fn sqrt_f32(mode: Mode, a: u64) -> u64 {
    let a = Format::F32.value(a);
    if a == 0.0 {
        return if a.is_sign_negative() { Format::F32.sign() } else { 0 };
    }
    if a.is_nan() || a < 0.0 {
        return Format::F32.nan();
    }
    if a.is_infinite() {
        return Format::F32.infinity();
    }
    Format::F32
        .round(false, mode, |candidate| a.partial_cmp(&(candidate * candidate)).unwrap_or(Ordering::Equal))
}

/// Moves an f64 that was rounded to nearest to the result of `mode`, given the sign of the rounding error.
fn step_f64(nearest: f64, lost: f64, mode: Mode) -> f64 {
    match mode {
        Mode::Up if lost > 0.0 => nearest.next_up(),
        Mode::Down if lost < 0.0 => nearest.next_down(),
        Mode::Zero if lost > 0.0 && nearest < 0.0 => nearest.next_up(),
        Mode::Zero if lost < 0.0 && nearest > 0.0 => nearest.next_down(),
        _ => nearest,
    }
}

/// The f64 operations with a model. The rounding error is computed exactly, unless a result is near the ends of the
/// range. NaNs have no model, because hardware keeps their payloads.
pub fn f64_operation(name: &str, mode: Mode, operands: &[u64]) -> Option<u64> {
    let x: Vec<f64> = operands.iter().map(|&bits| f64::from_bits(bits)).collect();
    let ordinary = |value: f64| value.is_finite() && (value == 0.0 || (1e-250..1e250).contains(&value.abs()));
    let (nearest, lost) = match name {
        "add" | "sub" => {
            let b = if name == "sub" { -x[1] } else { x[1] };
            let (sum, lost) = two_sum(x[0], b);
            if sum == 0.0 && x[0].is_finite() {
                return Some(f64::to_bits(if zero_sum(x[0], b, mode) { -0.0 } else { 0.0 }));
            }
            (sum, lost)
        }
        "mul" => (x[0] * x[1], x[0].mul_add(x[1], -(x[0] * x[1]))),
        "fma" if mode == Mode::Nearest => (x[0].mul_add(x[1], x[2]), 0.0),
        "div" => {
            let quotient = x[0] / x[1];
            (quotient, (-quotient).mul_add(x[1], x[0]) * x[1].signum())
        }
        "rcp" => {
            let quotient = 1.0 / x[0];
            (quotient, (-quotient).mul_add(x[0], 1.0) * x[0].signum())
        }
        "sqrt" => {
            let root = x[0].sqrt();
            (root, (-root).mul_add(root, x[0]))
        }
        _ => return None,
    };
    if nearest.is_nan() {
        return None;
    }
    let exact =
        mode == Mode::Nearest || x.iter().copied().all(ordinary) && ordinary(nearest) && nearest != 0.0;
    exact.then(|| step_f64(nearest, lost, mode).to_bits())
}

/// Flushes a subnormal f32 to zero with the same sign.
pub fn flush(bits: u64) -> u64 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// `.sat` of f32: clamps to [0, 1]; NaN becomes +0.
pub fn saturate(bits: u64) -> u64 {
    let value = Format::F32.value(bits);
    if value.is_nan() || value <= 0.0 {
        0
    } else if value >= 1.0 {
        0x3f80_0000
    } else {
        bits
    }
}
