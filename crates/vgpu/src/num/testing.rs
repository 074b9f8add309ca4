//! Shared code of the tests in this folder: random numbers, and arithmetic that is independent of the code under
//! test.

use super::Round;

pub(crate) const ROUNDS: [Round; 4] = [Round::Nearest, Round::Zero, Round::Down, Round::Up];

/// SplitMix64: a small generator with a seed. Its quality is sufficient to find wrong bits.
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.u64() % n
    }

    /// Any bits, a special value, or a number near one. Such operands cancel, overflow and have similar exponents.
    pub(crate) fn f32(&mut self) -> f32 {
        match self.below(8) {
            0 => f32::from_bits(SPECIAL_F32[self.below(SPECIAL_F32.len() as u64) as usize]),
            1 => f32::from_bits(self.u32() & 0x80ff_ffff),
            2..5 => f32::from_bits(self.u32() & 0x83ff_ffff | 0x3c00_0000),
            // Few significant bits, so that rounding meets ties.
            5 => f32::from_bits(self.u32() & 0xffff_e000 | (self.u32() & 3) << 11),
            _ => f32::from_bits(self.u32()),
        }
    }

    pub(crate) fn f64(&mut self) -> f64 {
        match self.below(8) {
            0 => f64::from_bits(SPECIAL_F64[self.below(SPECIAL_F64.len() as u64) as usize]),
            1 => f64::from_bits(self.u64() & 0x801f_ffff_ffff_ffff),
            2..5 => f64::from_bits(self.u64() & 0x807f_ffff_ffff_ffff | 0x3f80_0000_0000_0000),
            5 => f64::from(self.f32()),
            _ => f64::from_bits(self.u64()),
        }
    }

    /// A 16-bit code. Special values occur more often than in random bits.
    pub(crate) fn half(&mut self) -> u32 {
        const SPECIAL: [u32; 16] = [
            0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01,
            0x7f80, 0xff80, 0x3f80,
        ];
        match self.below(8) {
            0 => SPECIAL[self.below(16) as usize],
            1..4 => self.u32() & 0x8fff | 0x3000,
            _ => self.u32() & 0xffff,
        }
    }

    pub(crate) fn lanes(&mut self, mut f: impl FnMut(&mut Self) -> u32) -> super::Lanes {
        std::array::from_fn(|_| f(self))
    }
}

pub(crate) const SPECIAL_F32: [u32; 20] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x4b00_0000,
    0x4f00_0000,
    0xcf00_0000,
    0x4f80_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xff81_2345,
];

pub(crate) const SPECIAL_F64: [u64; 16] = [
    0,
    1 << 63,
    1,
    0x8000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x41e0_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff1_2345_6789_abcd,
];

/// The finite magnitudes of a small format, ascending from zero, from the definition of the format. The index of a
/// value is its code.
pub(crate) fn magnitudes(man: i32, exp: i32, max: f64) -> Vec<f64> {
    let bias = (1 << (exp - 1)) - 1;
    let mut values = vec![];
    for e in 0..1 << exp {
        for f in 0..1 << man {
            let fraction = f64::from(f) / f64::from(1 << man);
            let value =
                if e == 0 { fraction * 2f64.powi(1 - bias) } else { (1.0 + fraction) * 2f64.powi(e - bias) };
            if value <= max {
                values.push(value);
            }
        }
    }
    values
}

/// Returns the code that `x` rounds to, found by a search for its neighbours. Returns `None` if the rounded value is
/// beyond the largest value (overflow). The caller adds the sign.
pub(crate) fn round_by_search(values: &[f64], x: f64, neg: bool, round: Round) -> Option<u32> {
    let above = values.partition_point(|&v| v < x);
    if above < values.len() && values[above] == x {
        return Some(above as u32);
    }
    let low = above - 1;
    // Above the largest value, assume one more step, as if the format had more exponents.
    let next = values.get(above).copied().unwrap_or_else(|| 2.0 * values[low] - values[low - 1]);
    let up = match round {
        Round::Nearest => (x - values[low]) > (next - x) || (x - values[low]) == (next - x) && low % 2 == 1,
        Round::NearestAway => (x - values[low]) >= (next - x),
        Round::Zero => false,
        Round::Down => neg,
        Round::Up => !neg,
    };
    let code = low + usize::from(up);
    (code < values.len()).then_some(code as u32)
}
