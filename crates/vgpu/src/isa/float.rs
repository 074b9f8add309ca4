//! Decodes f32 and f64 arithmetic and the special functions.

use super::decode::{Decoded, Decoder, Fidelity, Mods, reject};
use super::lane::{LaneSpec, lane};
use super::op::Flow;
use super::types::Ty;
use crate::num::float::{self, MinMax};
use crate::num::{NAN_F32, Round, approx, exact};
use crate::ptx::ast::Instruction;

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

/// The modifiers of all arithmetic.
struct Modifiers {
    approx: bool,
    full: bool,
    ftz: bool,
    sat: bool,
    round: Round,
}

fn modifiers(m: &mut Mods<'_>) -> Decoded<Modifiers> {
    let (approx, full, sat) = (m.take("approx"), m.take("full"), m.take("sat"));
    Ok(Modifiers { approx, full, sat, ..rounding(m)? })
}

/// The modifiers that pairs of f32 also have.
fn rounding(m: &mut Mods<'_>) -> Decoded<Modifiers> {
    let ftz = m.take("ftz");
    let round = m.round().unwrap_or(Round::Nearest);
    if round == Round::NearestAway {
        return reject("rounding mode .rna is not for arithmetic");
    }
    Ok(Modifiers { approx: false, full: false, ftz, sat: false, round })
}

impl Modifiers {
    /// Packs the rounding mode, `.ftz` and `.sat` into an instruction's constant.
    fn pack(&self) -> u32 {
        self.round as u32 | u32::from(self.ftz) << 4 | u32::from(self.sat) << 5
    }
}

/// The functions of f32 whose results hardware rounds as IEEE 754 says.
fn exact32(opcode: &str, imm: u32) -> Decoded<LaneSpec> {
    Ok(match opcode {
        "add" => arith32!(imm, |a, b| float::add, float::add),
        "sub" => arith32!(imm, |a, b| float::sub, float::sub),
        "mul" => arith32!(imm, |a, b| float::mul, float::mul_ftz),
        "fma" | "mad" => arith32!(imm, |a, b, c| float::fma, float::fma_ftz),
        "div" => arith32!(imm, |a, b| float::div, div_ftz),
        "rcp" => arith32!(imm, |a| float::rcp, rcp_ftz),
        "sqrt" => arith32!(imm, |a| float::sqrt, float::sqrt),
        "abs" => {
            lane!(|a: u32; imm| -> u32 { canonical32(in32(f32::from_bits(a & 0x7fff_ffff), imm).to_bits()) })
        }
        "neg" => {
            lane!(|a: u32; imm| -> u32 { canonical32(in32(f32::from_bits(a ^ 0x8000_0000), imm).to_bits()) })
        }
        _ => lane!(|a: u32, b: u32| -> u32 { float::copysign(a, b) }),
    })
}

/// The functions of f32 that are approximate, by their nature or by a modifier.
fn approximate32(opcode: &str, mods: &Modifiers) -> Option<LaneSpec> {
    let &Modifiers { approx, full, ftz, .. } = mods;
    Some(match opcode {
        "rsqrt" => approx32!(ftz, approx::rsqrt, approx::rsqrt_ftz),
        "sin" => approx32!(ftz, approx::sin, approx::sin_ftz),
        "cos" => approx32!(ftz, approx::cos, approx::cos_ftz),
        "lg2" => approx32!(ftz, approx::lg2, approx::lg2_ftz),
        "ex2" => approx32!(ftz, approx::ex2, approx::ex2_ftz),
        "tanh" => lane!(|a: f32| -> f32 { approx::tanh(a) }),
        "div" if full && ftz => lane!(|a: f32, b: f32| -> f32 { approx::div_full_ftz(a, b) }),
        "div" if full => lane!(|a: f32, b: f32| -> f32 { approx::div_full(a, b) }),
        "div" if approx && ftz => lane!(|a: f32, b: f32| -> f32 { approx::div_ftz(a, b) }),
        "div" if approx => lane!(|a: f32, b: f32| -> f32 { approx::div(a, b) }),
        "rcp" if approx || full => approx32!(ftz, approx::rcp, approx::rcp_ftz),
        "sqrt" if approx || full => approx32!(ftz, approx::sqrt, approx::sqrt_ftz),
        _ => return None,
    })
}

fn exact64(opcode: &str, imm: u32) -> Decoded<LaneSpec> {
    Ok(match opcode {
        "add" => arith64!(imm, |a, b| float::add_f64),
        "sub" => arith64!(imm, |a, b| float::sub_f64),
        "mul" => arith64!(imm, |a, b| float::mul_f64),
        "fma" | "mad" => arith64!(imm, |a, b, c| float::fma_f64),
        "div" => arith64!(imm, |a, b| float::div_f64),
        "rcp" => arith64!(imm, |a| float::rcp_f64),
        "sqrt" => arith64!(imm, |a| float::sqrt_f64),
        "abs" => lane!(|a: u64| -> u64 { quiet64(a, a & !(1 << 63)) }),
        "neg" => lane!(|a: u64| -> u64 { quiet64(a, a ^ (1 << 63)) }),
        "copysign" => lane!(|a: u64, b: u64| -> u64 { float::copysign_f64(a, b) }),
        _ => return reject("function has no f64 form"),
    })
}

fn approximate64(opcode: &str, mods: &Modifiers) -> Option<LaneSpec> {
    Some(match opcode {
        "rcp" if mods.approx && mods.ftz => lane!(|a: f64| -> f64 { approx::rcp_ftz_f64(a) }),
        "rsqrt" if mods.ftz => lane!(|a: f64| -> f64 { approx::rsqrt_ftz_f64(a) }),
        "rsqrt" => lane!(|a: f64| -> f64 { 1.0 / a.sqrt() }),
        _ => return None,
    })
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn float(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        self.meta.flops = if matches!(i.opcode, "fma" | "mad") { 2 } else { 1 };
        let mods = modifiers(m)?;
        let ty = m.last_ty()?;
        let approximate = match ty {
            Ty::F64 => approximate64(i.opcode, &mods),
            _ => approximate32(i.opcode, &mods),
        };
        if approximate.is_some() {
            self.fidelity = Fidelity::Approximate;
        }
        let imm = mods.pack();
        let exact = || if ty == Ty::F64 { exact64(i.opcode, imm) } else { exact32(i.opcode, imm) };
        let spec = approximate.map_or_else(exact, Ok)?;
        let sources = vec![ty; i.operands.len().saturating_sub(1)];
        let imm = if matches!(i.opcode, "abs" | "neg") { imm & FTZ } else { imm };
        self.typed(i, (ty, &sources), spec, Flow::Any, imm)
    }

    pub(super) fn float_min_max(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        self.meta.flops = 1;
        self.meta.is_min_max = true;
        let ftz = modifiers(m)?.ftz;
        let max = i.opcode == "max";
        let (nan, xorsign) = (m.take("NaN"), m.take("xorsign"));
        let magnitudes = m.take("abs");
        if xorsign && !magnitudes {
            return reject(".xorsign needs .abs");
        }
        if magnitudes && !xorsign && i.operands.len() != 4 {
            return reject(".abs without .xorsign takes three operands");
        }
        let ty = m.last_ty()?;
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
                let clear = lane!(|a: u32| -> u32 { a & 0x7fff_ffff });
                source = self.intermediate(clear, &[source])?;
            }
            sources.push(source);
        }
        let between = self.fresh(ty.class());
        self.lane(spec, Flow::Any, imm, between, &sources[..2])?;
        self.lane(spec, Flow::Any, imm, d, &[between, sources[2]])
    }

    /// Decodes arithmetic on pairs of f32 in 64-bit registers.
    pub(super) fn float_pairs(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        self.meta.flops = if i.opcode == "fma" { 4 } else { 2 };
        let imm = rounding(m)?.pack();
        let ty = m.last_ty()?;
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
        self.typed(i, (ty, &sources), spec, Flow::Any, imm)
    }
}
