//! Decodes f16 and bf16 arithmetic, single and packed in pairs.

use super::decode::{Decoded, Decoder, Fidelity, Mods, reject};
use super::lane::{LaneSpec, lane};
use super::op::Flow;
use super::types::Ty;
use crate::num::approx;
use crate::num::float::MinMax;
use crate::num::half::{self, HalfMods, HalfOp, HalfTy};
use crate::ptx::ast::Instruction;

fn pack(mods: HalfMods) -> u32 {
    u32::from(mods.ftz) | u32::from(mods.sat) << 1 | u32::from(mods.relu) << 2
}

#[inline(always)]
fn unpack(imm: u32) -> HalfMods {
    HalfMods { ftz: imm & 1 != 0, sat: imm & 2 != 0, relu: imm & 4 != 0 }
}

/// Selects the instance of a function of one or two halves for f16, f16x2, bf16 or bf16x2.
macro_rules! by_half {
    ($ty:expr, |$h:ident, $a:ident; $imm:ident| $body:expr) => {
        match $ty {
            Ty::F16 => lane!(|$a: u32; $imm| -> u32 { let $h = HalfTy::F16; $body }),
            Ty::Bf16 => lane!(|$a: u32; $imm| -> u32 { let $h = HalfTy::Bf16; $body }),
            Ty::F16x2 => {
                lane!(|x: u32; $imm| -> u32 { let $h = HalfTy::F16; half::each_half(x, |$a| $body) })
            }
            _ => lane!(|x: u32; $imm| -> u32 { let $h = HalfTy::Bf16; half::each_half(x, |$a| $body) }),
        }
    };
    ($ty:expr, |$h:ident, $a:ident, $b:ident; $imm:ident| $body:expr) => {
        match $ty {
            Ty::F16 => lane!(|$a: u32, $b: u32; $imm| -> u32 { let $h = HalfTy::F16; $body }),
            Ty::Bf16 => lane!(|$a: u32, $b: u32; $imm| -> u32 { let $h = HalfTy::Bf16; $body }),
            Ty::F16x2 => lane!(|x: u32, y: u32; $imm| -> u32 {
                let $h = HalfTy::F16;
                half::each_half2(x, y, |$a, $b| $body)
            }),
            _ => lane!(|x: u32, y: u32; $imm| -> u32 {
                let $h = HalfTy::Bf16;
                half::each_half2(x, y, |$a, $b| $body)
            }),
        }
    };
}

fn binary(ty: Ty, op: HalfOp, imm: u32) -> LaneSpec {
    macro_rules! with {
        ($op:expr) => {
            if imm == 0 {
                by_half!(ty, |h, a, b; _imm| half::binary(h, $op, HalfMods::default(), a, b))
            } else {
                by_half!(ty, |h, a, b; imm| half::binary(h, $op, unpack(imm), a, b))
            }
        };
    }
    match op {
        HalfOp::Add => with!(HalfOp::Add),
        HalfOp::Sub => with!(HalfOp::Sub),
        HalfOp::Mul => with!(HalfOp::Mul),
    }
}

fn fma(ty: Ty) -> LaneSpec {
    #[inline(always)]
    fn pair(h: HalfTy, m: HalfMods, a: u32, b: u32, c: u32) -> u32 {
        half::fma(h, m, a & 0xffff, b & 0xffff, c & 0xffff) | half::fma(h, m, a >> 16, b >> 16, c >> 16) << 16
    }
    match ty {
        Ty::F16 => {
            lane!(|a: u32, b: u32, c: u32; imm| -> u32 { half::fma(HalfTy::F16, unpack(imm), a, b, c) })
        }
        Ty::Bf16 => {
            lane!(|a: u32, b: u32, c: u32; imm| -> u32 { half::fma(HalfTy::Bf16, unpack(imm), a, b, c) })
        }
        Ty::F16x2 => lane!(|a: u32, b: u32, c: u32; imm| -> u32 { pair(HalfTy::F16, unpack(imm), a, b, c) }),
        _ => lane!(|a: u32, b: u32, c: u32; imm| -> u32 { pair(HalfTy::Bf16, unpack(imm), a, b, c) }),
    }
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn half(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.has("f32") {
            return reject("mixed f32 and half operands are not supported");
        }
        m.take("rn");
        m.take("approx");
        let mods = HalfMods { ftz: m.take("ftz"), sat: m.take("sat"), relu: m.take("relu") };
        let (nan, xorsign) = (m.take("NaN"), m.take("xorsign"));
        if xorsign {
            m.take("abs");
        }
        let ty = m.last_ty()?;
        self.meta.flops = if matches!(ty, Ty::F16x2 | Ty::Bf16x2) { 2 } else { 1 };
        let imm = pack(mods);
        let (spec, imm) = match i.opcode {
            "add" => (binary(ty, HalfOp::Add, imm), imm),
            "sub" => (binary(ty, HalfOp::Sub, imm), imm),
            "mul" => (binary(ty, HalfOp::Mul, imm), imm),
            "fma" => {
                self.meta.flops *= 2;
                (fma(ty), imm)
            }
            "min" | "max" => {
                let bits = u32::from(i.opcode == "max")
                    | u32::from(mods.ftz) << 1
                    | u32::from(nan) << 2
                    | u32::from(xorsign) << 3;
                let spec = by_half!(ty, |h, a, b; imm| {
                    let m = MinMax {
                        max: imm & 1 != 0, ftz: imm & 2 != 0, nan: imm & 4 != 0, xorsign: imm & 8 != 0,
                    };
                    half::min_max(h, m, a, b)
                });
                (spec, bits)
            }
            "neg" => (by_half!(ty, |h, a; imm| half::neg(h, imm & 1 != 0, a)), imm),
            "abs" => (by_half!(ty, |h, a; imm| half::abs(h, imm & 1 != 0, a)), imm),
            "ex2" => {
                self.fidelity = Fidelity::Approximate;
                (by_half!(ty, |h, a; imm| approx::ex2_half(h, a, imm & 1 != 0)), imm)
            }
            _ => {
                self.fidelity = Fidelity::Approximate;
                (by_half!(ty, |h, a; _imm| approx::tanh_half(h, a)), imm)
            }
        };
        let sources = vec![ty; i.operands.len().saturating_sub(1)];
        self.typed(i, (ty, &sources), spec, Flow::Any, imm)
    }
}
