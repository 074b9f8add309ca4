//! Decodes f32 and f64 arithmetic and the special functions.

use super::decode::{Decoded, Decoder, Fidelity, Mods, Pipe, reject};
use super::lane::lane;
use super::op::Flow;
use super::types::Ty;
use crate::num::float::{self, MinMax};
use crate::num::{NAN_F32, Round, approx, exact};
use crate::ptx::ast::Instruction;

/// Packs a rounding mode, `.ftz` and `.sat` into an instruction's constant.
fn pack(round: Round, ftz: bool, sat: bool) -> u32 {
    round as u32 | u32::from(ftz) << 4 | u32::from(sat) << 5
}

#[inline(always)]
fn round_of(imm: u32) -> Round {
    match imm & 15 {
        0 => Round::Nearest,
        1 => Round::Zero,
        2 => Round::Down,
        _ => Round::Up,
    }
}

#[inline(always)]
fn in32(x: f32, imm: u32) -> f32 {
    if imm & 16 != 0 { float::ftz(x) } else { x }
}

#[inline(always)]
fn out32(x: f32, imm: u32) -> f32 {
    let x = if imm & 16 != 0 { float::ftz(x) } else { x };
    if imm & 32 != 0 { float::saturate(x) } else { x }
}

#[inline(always)]
fn out64(x: f64, imm: u32) -> f64 {
    if imm & 32 != 0 { float::saturate_f64(x) } else { x }
}

/// `abs` and `neg` of a NaN return the canonical NaN, like other instructions, because an H200 computes both with its
/// adder.
#[inline(always)]
fn canonical32(bits: u32) -> u32 {
    if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_F32 } else { bits }
}

/// For f64, a NaN result has the payload and the sign of the operand.
#[inline(always)]
fn quiet64(operand: u64, result: u64) -> u64 {
    if operand & !(1 << 63) > 0x7ff0_0000_0000_0000 { exact::quiet_f64(operand) } else { result }
}

const FTZ: u32 = 16;

/// Computes the low and the high element of packed pairs.
#[inline(always)]
fn each_of_pair<const N: usize>(packed: [u64; N], imm: u32, f: impl Fn([f32; N], Round, bool) -> f32) -> u64 {
    let one = |shift: u32| {
        let operands = packed.map(|pair| in32(f32::from_bits((pair >> shift) as u32), imm));
        u64::from(out32(f(operands, round_of(imm), imm & FTZ != 0), imm).to_bits())
    };
    one(0) | one(32) << 32
}

/// Corrects a quotient of flushed operands that was rounded to the smallest normal number. Hardware returns zero if the
/// quotient is smaller than that number when it is rounded to 24 bits with an unbounded exponent. The scaled division
/// rounds in this way because its result is far from the subnormal range.
fn div_ftz(a: f32, b: f32, round: Round) -> f32 {
    const UP: f32 = f32::from_bits((127 + 64) << 23);
    let scaled = float::div(a * UP, b, round);
    (if scaled.abs() < f32::MIN_POSITIVE * UP { 0.0 } else { f32::MIN_POSITIVE }).copysign(scaled)
}

fn rcp_ftz(a: f32, round: Round) -> f32 {
    div_ftz(1.0, a, round)
}

/// Selects one of three instances: plain (round to nearest, no flush, no saturation), flushing, and general. The
/// general instance reads its constant.
///
/// The last function computes `.ftz` results that equal the smallest normal number, by rounding or exactly. They are
/// rare.
macro_rules! arith32 {
    ($imm:expr, |$($a:ident),+| $f:path, $least:path) => {
        match $imm {
            0 => arith32!(@ |$($a),+| $f, $least, |_imm| 0, (_b: (), _c: ())),
            FTZ => arith32!(@ |$($a),+| $f, $least, |_imm| FTZ, (_b: (), _c: ())),
            _ => arith32!(@ |$($a),+| $f, $least, |imm| imm, (_b: (), _c: ())),
        }
    };
    // Missing operands have the type `()`.
    (@ |$a:ident| $f:path, $least:path, |$imm:ident| $bits:expr, ($b:ident: (), $c:ident: ())) => {
        arith32!(@@ ($a: f32, $b: (), $c: ()) ($a) $f, $least, $imm, $bits)
    };
    (@ |$a:ident, $b:ident| $f:path, $least:path, |$imm:ident| $bits:expr, ($_b:ident: (), $c:ident: ())) => {
        arith32!(@@ ($a: f32, $b: f32, $c: ()) ($a, $b) $f, $least, $imm, $bits)
    };
    (@ |$a:ident, $b:ident, $c:ident| $f:path, $least:path, |$imm:ident| $bits:expr, ($_b:ident: (), $_c:ident: ())) => {
        arith32!(@@ ($a: f32, $b: f32, $c: f32) ($a, $b, $c) $f, $least, $imm, $bits)
    };
    (@@ ($a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty) ($($x:ident),+) $f:path, $least:path, $imm:ident, $bits:expr) => {
        lane!(@ ($a: $ta, $b: $tb, $c: $tc) ($imm) -> f32 {
            let m = $bits;
            out32($f($(in32($x, m)),+, round_of(m)), m)
        }
            #[inline(always)]
            fn is_doubtful(d: f32, $imm: u32) -> bool {
                let m: u32 = $bits;
                m & FTZ != 0 && d.abs() == f32::MIN_POSITIVE
            }
            #[inline(always)]
            fn second_look($a: $ta, $b: $tb, $c: $tc, $imm: u32) -> f32 {
                let m: u32 = $bits;
                out32($least($(in32($x, m)),+, round_of(m)), m)
            }
        )
    };
}

macro_rules! arith64 {
    ($imm:expr, |$($a:ident),+| $f:path) => {
        match $imm {
            0 => arith64!(@ |$($a),+| $f, |_imm| 0),
            _ => arith64!(@ |$($a),+| $f, |imm| imm),
        }
    };
    (@ |$a:ident| $f:path, |$imm:ident| $bits:expr) => {
        lane!(|$a: f64; $imm| -> f64 { let m = $bits; out64($f($a, round_of(m)), m) })
    };
    (@ |$a:ident, $b:ident| $f:path, |$imm:ident| $bits:expr) => {
        lane!(|$a: f64, $b: f64; $imm| -> f64 { let m = $bits; out64($f($a, $b, round_of(m)), m) })
    };
    (@ |$a:ident, $b:ident, $c:ident| $f:path, |$imm:ident| $bits:expr) => {
        lane!(|$a: f64, $b: f64, $c: f64; $imm| -> f64 { let m = $bits; out64($f($a, $b, $c, round_of(m)), m) })
    };
}

macro_rules! approx32 {
    ($ftz:expr, $plain:path, $flush:path) => {
        if $ftz { lane!(|a: f32| -> f32 { $flush(a) }) } else { lane!(|a: f32| -> f32 { $plain(a) }) }
    };
}

impl<'a> Decoder<'a, '_> {
    /// Returns true if this file decodes the instruction: a known opcode on f32 or f64.
    #[allow(clippy::too_many_lines)] // A table: one arm per instruction.
    pub(super) fn float(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        if m.has("f32x2") {
            return self.float_pairs(i, m);
        }
        let wide = m.has("f64");
        if !wide && !m.has("f32") {
            return Ok(false);
        }
        if !matches!(
            i.opcode,
            "add"
                | "sub"
                | "mul"
                | "fma"
                | "mad"
                | "div"
                | "rcp"
                | "sqrt"
                | "rsqrt"
                | "min"
                | "max"
                | "abs"
                | "neg"
                | "sin"
                | "cos"
                | "lg2"
                | "ex2"
                | "tanh"
                | "copysign"
        ) {
            return Ok(false);
        }
        self.pipe = if wide { Pipe::Fp64 } else { Pipe::Fp32 };
        self.flops = 1;
        let (approx_, full) = (m.take("approx"), m.take("full"));
        let ftz = m.take("ftz");
        let sat = m.take("sat");
        let round = m.round().unwrap_or(Round::Nearest);
        if round == Round::NearestAway {
            return reject("rounding mode .rna is not for arithmetic");
        }
        let imm = pack(round, ftz, sat);
        if matches!(i.opcode, "min" | "max") {
            self.is_min_max = true;
            return self.float_min_max(i, m, ftz).map(|()| true);
        }
        let ty = m.ty()?;
        m.finish()?;
        let spec = match (i.opcode, wide) {
            ("add", false) => arith32!(imm, |a, b| float::add, float::add),
            ("add", true) => arith64!(imm, |a, b| float::add_f64),
            ("sub", false) => arith32!(imm, |a, b| float::sub, float::sub),
            ("sub", true) => arith64!(imm, |a, b| float::sub_f64),
            ("mul", false) => arith32!(imm, |a, b| float::mul, float::mul_ftz),
            ("mul", true) => arith64!(imm, |a, b| float::mul_f64),
            ("fma" | "mad", _) => {
                self.flops = 2;
                if wide {
                    arith64!(imm, |a, b, c| float::fma_f64)
                } else {
                    arith32!(imm, |a, b, c| float::fma, float::fma_ftz)
                }
            }
            ("abs", false) => {
                lane!(|a: u32; imm| -> u32 { canonical32(in32(f32::from_bits(a & 0x7fff_ffff), imm).to_bits()) })
            }
            ("abs", true) => lane!(|a: u64| -> u64 { quiet64(a, a & !(1 << 63)) }),
            ("neg", false) => {
                lane!(|a: u32; imm| -> u32 { canonical32(in32(f32::from_bits(a ^ 0x8000_0000), imm).to_bits()) })
            }
            ("neg", true) => lane!(|a: u64| -> u64 { quiet64(a, a ^ (1 << 63)) }),
            ("copysign", false) => lane!(|a: u32, b: u32| -> u32 { float::copysign(a, b) }),
            ("copysign", true) => lane!(|a: u64, b: u64| -> u64 { float::copysign_f64(a, b) }),
            (_, true) => {
                self.pipe = Pipe::Fp64;
                match (i.opcode, approx_ && ftz) {
                    ("div", _) => arith64!(imm, |a, b| float::div_f64),
                    ("rcp", true) => {
                        self.fidelity = Fidelity::Approximate;
                        lane!(|a: f64| -> f64 { approx::rcp_ftz_f64(a) })
                    }
                    ("rcp", _) => arith64!(imm, |a| float::rcp_f64),
                    ("sqrt", _) => arith64!(imm, |a| float::sqrt_f64),
                    ("rsqrt", _) => {
                        self.fidelity = Fidelity::Approximate;
                        if ftz {
                            lane!(|a: f64| -> f64 { approx::rsqrt_ftz_f64(a) })
                        } else {
                            lane!(|a: f64| -> f64 { 1.0 / a.sqrt() })
                        }
                    }
                    _ => return reject("function has no f64 form"),
                }
            }
            (_, false) => {
                self.pipe = Pipe::Special;
                if approx_ || full || matches!(i.opcode, "sin" | "cos" | "lg2" | "ex2" | "tanh" | "rsqrt") {
                    self.fidelity = Fidelity::Approximate;
                    match i.opcode {
                        "div" if full && ftz => lane!(|a: f32, b: f32| -> f32 { approx::div_full_ftz(a, b) }),
                        "div" if full => lane!(|a: f32, b: f32| -> f32 { approx::div_full(a, b) }),
                        "div" if ftz => lane!(|a: f32, b: f32| -> f32 { approx::div_ftz(a, b) }),
                        "div" => lane!(|a: f32, b: f32| -> f32 { approx::div(a, b) }),
                        "rcp" => approx32!(ftz, approx::rcp, approx::rcp_ftz),
                        "sqrt" => approx32!(ftz, approx::sqrt, approx::sqrt_ftz),
                        "rsqrt" => approx32!(ftz, approx::rsqrt, approx::rsqrt_ftz),
                        "sin" => approx32!(ftz, approx::sin, approx::sin_ftz),
                        "cos" => approx32!(ftz, approx::cos, approx::cos_ftz),
                        "lg2" => approx32!(ftz, approx::lg2, approx::lg2_ftz),
                        "ex2" => approx32!(ftz, approx::ex2, approx::ex2_ftz),
                        _ => lane!(|a: f32| -> f32 { approx::tanh(a) }),
                    }
                } else {
                    match i.opcode {
                        "div" => arith32!(imm, |a, b| float::div, div_ftz),
                        "rcp" => arith32!(imm, |a| float::rcp, rcp_ftz),
                        _ => arith32!(imm, |a| float::sqrt, float::sqrt),
                    }
                }
            }
        };
        let sources = vec![ty; i.operands.len().saturating_sub(1)];
        let imm = if matches!(i.opcode, "abs" | "neg") { imm & FTZ } else { imm };
        self.typed(i, (ty, &sources), spec, Flow::Any, imm)?;
        Ok(true)
    }

    fn float_min_max(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>, ftz: bool) -> Decoded {
        let max = i.opcode == "max";
        let (nan, xorsign) = (m.take("NaN"), m.take("xorsign"));
        let magnitudes = m.take("abs");
        if xorsign && !magnitudes {
            return reject(".xorsign needs .abs");
        }
        if magnitudes && !xorsign && i.operands.len() != 4 {
            return reject(".abs without .xorsign takes three operands");
        }
        let ty = m.ty()?;
        m.finish()?;
        if ty == Ty::F64 {
            let spec = if max {
                lane!(|a: f64, b: f64| -> f64 { float::min_max_f64(a, b, true) })
            } else {
                lane!(|a: f64, b: f64| -> f64 { float::min_max_f64(a, b, false) })
            };
            return self.same_type(i, ty, spec, Flow::Any);
        }
        let imm = u32::from(ftz) | u32::from(nan) << 1 | u32::from(xorsign) << 2;
        macro_rules! pick {
            ($max:expr) => {
                if imm == 0 {
                    lane!(|a: f32, b: f32| -> f32 {
                        float::min_max(a, b, MinMax { max: $max, ftz: false, nan: false, xorsign: false })
                    })
                } else {
                    lane!(|a: f32, b: f32; imm| -> f32 {
                        float::min_max(a, b, MinMax {
                            max: $max, ftz: imm & 1 != 0, nan: imm & 2 != 0, xorsign: imm & 4 != 0,
                        })
                    })
                }
            };
        }
        let spec = if max { pick!(true) } else { pick!(false) };
        if i.operands.len() != 4 {
            return self.typed(i, (ty, &[ty, ty]), spec, Flow::Any, imm);
        }
        if xorsign {
            return reject(".xorsign takes two operands");
        }
        // The third operand is compared with the result of the first two.
        let d = self.dst(&i.operands[0], ty)?;
        let mut sources = Vec::new();
        for operand in &i.operands[1..] {
            let mut source = self.src(operand, ty)?;
            if magnitudes {
                let magnitude = self.fresh(ty.class());
                let clear = lane!(|a: u32| -> u32 { a & 0x7fff_ffff });
                self.lane(clear, Flow::Any, 0, magnitude, &[source])?;
                source = magnitude;
            }
            sources.push(source);
        }
        let between = self.fresh(ty.class());
        self.lane(spec, Flow::Any, imm, between, &sources[..2])?;
        self.lane(spec, Flow::Any, imm, d, &[between, sources[2]])
    }

    /// Decodes arithmetic on pairs of f32 in 64-bit registers.
    fn float_pairs(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        if !matches!(i.opcode, "add" | "sub" | "mul" | "fma") {
            return Ok(false);
        }
        self.pipe = Pipe::Fp32;
        self.flops = if i.opcode == "fma" { 4 } else { 2 };
        let ftz = m.take("ftz");
        let round = m.round().unwrap_or(Round::Nearest);
        if round == Round::NearestAway {
            return reject("rounding mode .rna is not for arithmetic");
        }
        let ty = m.ty()?;
        m.finish()?;
        let imm = pack(round, ftz, false);
        macro_rules! pairs {
            (|$($a:ident),+| $f:path, $least:path) => {
                lane!(|$($a: u64),+; imm| -> u64 { each_of_pair([$($a),+], imm, |[$($a),+], round, flush| {
                    let result = $f($($a),+, round);
                    // See `arith32`.
                    if flush && result.abs() == f32::MIN_POSITIVE { $least($($a),+, round) } else { result }
                }) })
            };
        }
        let spec = match i.opcode {
            "add" => pairs!(|a, b| float::add, float::add),
            "sub" => pairs!(|a, b| float::sub, float::sub),
            "mul" => pairs!(|a, b| float::mul, float::mul_ftz),
            _ => pairs!(|a, b, c| float::fma, float::fma_ftz),
        };
        let sources = vec![ty; i.operands.len().saturating_sub(1)];
        self.typed(i, (ty, &sources), spec, Flow::Any, imm)?;
        Ok(true)
    }
}
