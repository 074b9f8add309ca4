//! Decodes integer arithmetic.

use super::decode::{Decoded, Decoder, Mods, arity, reject};
use super::lane::{LaneSpec, lane};
use super::op::{CarryKind, Flow, Op};
use super::types::Ty;
use crate::num::int;
use crate::ptx::ast::Instruction;

/// Selects the instance of a function for one of the six integer types.
macro_rules! by_int {
    ($ty:expr, |$($a:ident),+| $body:expr) => {
        match $ty {
            Ty::U16 | Ty::B16 => by_int!(@ u16, |$($a),+| $body),
            Ty::S16 => by_int!(@ i16, |$($a),+| $body),
            Ty::U32 | Ty::B32 => by_int!(@ u32, |$($a),+| $body),
            Ty::S32 => by_int!(@ i32, |$($a),+| $body),
            Ty::U64 | Ty::B64 => by_int!(@ u64, |$($a),+| $body),
            Ty::S64 => by_int!(@ i64, |$($a),+| $body),
            _ => return reject("type is not an integer type"),
        }
    };
    (@ $t:ty, |$a:ident| $body:expr) => { lane!(|$a: $t| -> $t { $body }) };
    (@ $t:ty, |$a:ident, $b:ident| $body:expr) => { lane!(|$a: $t, $b: $t| -> $t { $body }) };
    (@ $t:ty, |$a:ident, $b:ident, $c:ident| $body:expr) => { lane!(|$a: $t, $b: $t, $c: $t| -> $t { $body }) };
}

fn pair16(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    int::each16x2(a, b, f)
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn same_type(&mut self, i: &Instruction<'a>, ty: Ty, spec: LaneSpec, flow: Flow) -> Decoded {
        let sources: Vec<Ty> = vec![ty; spec.sources];
        self.typed(i, (ty, &sources), spec, flow, 0)
    }

    /// Decodes the result and the sources, each of its type, in operand order.
    pub(super) fn typed(
        &mut self,
        i: &Instruction<'a>,
        (result, sources): (Ty, &[Ty]),
        spec: LaneSpec,
        flow: Flow,
        imm: u32,
    ) -> Decoded {
        arity(i, sources.len() + 1)?;
        let d = self.dst(&i.operands[0], result)?;
        let mut slots = Vec::with_capacity(3);
        for (operand, ty) in i.operands[1..].iter().zip(sources) {
            slots.push(self.src(operand, *ty)?);
        }
        self.lane(spec, flow, imm, d, &slots)
    }

    pub(super) fn div_rem(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        // Division by zero returns all ones for both quotient and remainder, as on an H200.
        let spec = if i.opcode == "div" {
            by_int!(ty, |a, b| if b == 0 { !0 } else { a.wrapping_div(b) })
        } else {
            by_int!(ty, |a, b| if b == 0 { !0 } else { a.wrapping_rem(b) })
        };
        self.same_type(i, ty, spec, Flow::Any)
    }

    pub(super) fn abs(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        let spec = match ty {
            Ty::S16 => lane!(|a: i16| -> i16 { a.wrapping_abs() }),
            Ty::S32 => lane!(|a: i32| -> i32 { a.wrapping_abs() }),
            Ty::S64 => lane!(|a: i64| -> i64 { a.wrapping_abs() }),
            _ => return reject("abs takes a signed type"),
        };
        self.same_type(i, ty, spec, Flow::Any)
    }

    pub(super) fn neg(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        self.same_type(i, ty, by_int!(ty, |a| a.wrapping_neg()), Flow::Any)
    }

    pub(super) fn sad(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        let spec = match ty {
            Ty::U16 => lane!(|a: u16, b: u16, c: u16| -> u16 { c.wrapping_add(a.abs_diff(b)) }),
            Ty::S16 => lane!(|a: i16, b: i16, c: u16| -> u16 { c.wrapping_add(a.abs_diff(b)) }),
            Ty::U32 => lane!(|a: u32, b: u32, c: u32| -> u32 { int::sad_u32(a, b, c) }),
            Ty::S32 => lane!(|a: u32, b: u32, c: u32| -> u32 { int::sad_s32(a, b, c) }),
            Ty::U64 => lane!(|a: u64, b: u64, c: u64| -> u64 { int::sad_u64(a, b, c) }),
            Ty::S64 => lane!(|a: u64, b: u64, c: u64| -> u64 { int::sad_s64(a, b, c) }),
            _ => return reject("type is not an integer type"),
        };
        self.same_type(i, ty, spec, Flow::Any)
    }

    pub(super) fn add_sub(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.has("cc") {
            return self.carry_chain(i, m);
        }
        let sat = m.take("sat");
        let ty = m.last_ty()?;
        let add = i.opcode == "add";
        let spec = match (ty, sat, add) {
            (Ty::S32, true, true) => lane!(|a: i32, b: i32| -> i32 { a.saturating_add(b) }),
            (Ty::S32, true, false) => lane!(|a: i32, b: i32| -> i32 { a.saturating_sub(b) }),
            (_, true, _) => return reject(".sat is for .s32 only"),
            (Ty::U16x2 | Ty::S16x2, _, true) => {
                lane!(|a: u32, b: u32| -> u32 { pair16(a, b, u16::wrapping_add) })
            }
            (_, _, true) => by_int!(ty, |a, b| a.wrapping_add(b)),
            (_, _, false) => by_int!(ty, |a, b| a.wrapping_sub(b)),
        };
        self.same_type(i, ty, spec, Flow::Any)
    }

    pub(super) fn carry_chain(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let carry_in = matches!(i.opcode, "addc" | "subc" | "madc");
        let carry_out = m.take("cc");
        let hi = m.take("hi");
        m.take("lo");
        let ty = m.last_ty()?;
        let kind = match i.opcode {
            "add" | "addc" => CarryKind::Add,
            "sub" | "subc" => CarryKind::Sub,
            _ if hi => CarryKind::MadHi,
            _ => CarryKind::MadLo,
        };
        if !matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64 | Ty::B32 | Ty::B64) {
            return reject("extended precision takes 32-bit or 64-bit integers");
        }
        let mad = matches!(kind, CarryKind::MadHi | CarryKind::MadLo);
        arity(i, if mad { 4 } else { 3 })?;
        let d = self.dst(&i.operands[0], ty)?;
        let mut sources = self.srcs(&i.operands[1..], ty)?;
        let flag = self.carry();
        if carry_in {
            sources.push(flag);
        }
        let results = if carry_out { vec![d, flag] } else { vec![d] };
        let signed = ty.is_signed();
        self.emit(Op::Carry { kind, carry_in, carry_out, signed }, &results, &sources)
    }

    pub(super) fn mul(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let (wide, hi) = (m.take("wide"), m.take("hi"));
        m.take("lo");
        let ty = m.last_ty()?;
        if wide {
            let (spec, result) = match ty {
                Ty::U16 => (lane!(|a: u16, b: u16| -> u32 { a as u32 * b as u32 }), Ty::U32),
                Ty::S16 => (lane!(|a: i16, b: i16| -> i32 { a as i32 * b as i32 }), Ty::S32),
                Ty::U32 => (lane!(|a: u32, b: u32| -> u64 { a as u64 * b as u64 }), Ty::U64),
                Ty::S32 => (lane!(|a: i32, b: i32| -> i64 { a as i64 * b as i64 }), Ty::S64),
                _ => return reject("mul.wide takes 16-bit or 32-bit integers"),
            };
            return self.typed(i, (result, &[ty, ty]), spec, Flow::Any, 0);
        }
        let spec = if hi {
            match ty {
                Ty::U16 => lane!(|a: u32, b: u32| -> u32 { int::mul_hi_u16(a, b) }),
                Ty::S16 => lane!(|a: u32, b: u32| -> u32 { int::mul_hi_s16(a, b) }),
                Ty::U32 => lane!(|a: u32, b: u32| -> u32 { int::mul_hi_u32(a, b) }),
                Ty::S32 => lane!(|a: u32, b: u32| -> u32 { int::mul_hi_s32(a, b) }),
                Ty::U64 => lane!(|a: u64, b: u64| -> u64 { int::mul_hi_u64(a, b) }),
                Ty::S64 => lane!(|a: u64, b: u64| -> u64 { int::mul_hi_s64(a, b) }),
                _ => return reject("type is not an integer type"),
            }
        } else {
            by_int!(ty, |a, b| a.wrapping_mul(b))
        };
        self.same_type(i, ty, spec, Flow::Any)
    }

    pub(super) fn mad(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.has("cc") {
            return self.carry_chain(i, m);
        }
        let (wide, hi, sat) = (m.take("wide"), m.take("hi"), m.take("sat"));
        m.take("lo");
        let ty = m.last_ty()?;
        if wide {
            let (spec, result) = match ty {
                Ty::U16 => (
                    lane!(|a: u16, b: u16, c: u32| -> u32 { (a as u32 * b as u32).wrapping_add(c) }),
                    Ty::U32,
                ),
                Ty::S16 => (
                    lane!(|a: i16, b: i16, c: i32| -> i32 { (a as i32 * b as i32).wrapping_add(c) }),
                    Ty::S32,
                ),
                Ty::U32 => (
                    lane!(|a: u32, b: u32, c: u64| -> u64 { (a as u64 * b as u64).wrapping_add(c) }),
                    Ty::U64,
                ),
                Ty::S32 => (
                    lane!(|a: i32, b: i32, c: i64| -> i64 { (a as i64 * b as i64).wrapping_add(c) }),
                    Ty::S64,
                ),
                _ => return reject("mad.wide takes 16-bit or 32-bit integers"),
            };
            return self.typed(i, (result, &[ty, ty, result]), spec, Flow::Any, 0);
        }
        let spec = match (hi, sat, ty) {
            (true, true, Ty::S32) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::mad_hi_sat_s32(a, b, c) })
            }
            (_, true, _) => return reject(".sat is for mad.hi.s32 only"),
            (true, _, Ty::U16) => {
                lane!(|a: u32, b: u32, c: u16| -> u16 { (int::mul_hi_u16(a, b) as u16).wrapping_add(c) })
            }
            (true, _, Ty::S16) => {
                lane!(|a: u32, b: u32, c: u16| -> u16 { (int::mul_hi_s16(a, b) as u16).wrapping_add(c) })
            }
            (true, _, Ty::U32) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::mul_hi_u32(a, b).wrapping_add(c) })
            }
            (true, _, Ty::S32) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::mul_hi_s32(a, b).wrapping_add(c) })
            }
            (true, _, Ty::U64) => {
                lane!(|a: u64, b: u64, c: u64| -> u64 { int::mul_hi_u64(a, b).wrapping_add(c) })
            }
            (true, _, Ty::S64) => {
                lane!(|a: u64, b: u64, c: u64| -> u64 { int::mul_hi_s64(a, b).wrapping_add(c) })
            }
            (true, ..) => return reject("type is not an integer type"),
            (false, ..) => by_int!(ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        };
        self.same_type(i, ty, spec, Flow::Any)
    }

    pub(super) fn mul24(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let (hi, sat) = (m.take("hi"), m.take("sat"));
        m.take("lo");
        let ty = m.last_ty()?;
        let spec = match (i.opcode, ty, hi, sat) {
            ("mul24", Ty::U32, false, false) => lane!(|a: u32, b: u32| -> u32 { int::mul24_lo_u32(a, b) }),
            ("mul24", Ty::U32, true, false) => lane!(|a: u32, b: u32| -> u32 { int::mul24_hi_u32(a, b) }),
            ("mul24", Ty::S32, false, false) => lane!(|a: u32, b: u32| -> u32 { int::mul24_lo_s32(a, b) }),
            ("mul24", Ty::S32, true, false) => lane!(|a: u32, b: u32| -> u32 { int::mul24_hi_s32(a, b) }),
            ("mad24", Ty::U32, false, false) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::mul24_lo_u32(a, b).wrapping_add(c) })
            }
            ("mad24", Ty::U32, true, false) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::mul24_hi_u32(a, b).wrapping_add(c) })
            }
            ("mad24", Ty::S32, false, false) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::mul24_lo_s32(a, b).wrapping_add(c) })
            }
            ("mad24", Ty::S32, true, false) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::mul24_hi_s32(a, b).wrapping_add(c) })
            }
            ("mad24", Ty::S32, true, true) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::mad24_hi_sat_s32(a, b, c) })
            }
            _ => return reject("24-bit multiply takes .u32 or .s32"),
        };
        self.same_type(i, ty, spec, Flow::Any)
    }

    pub(super) fn min_max(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let relu = m.take("relu");
        let ty = m.last_ty()?;
        self.meta.is_min_max = true;
        let min = i.opcode == "min";
        let spec = match (ty, min, relu) {
            (Ty::U16x2, true, false) => lane!(|a: u32, b: u32| -> u32 { pair16(a, b, u16::min) }),
            (Ty::U16x2, false, false) => lane!(|a: u32, b: u32| -> u32 { pair16(a, b, u16::max) }),
            (Ty::S16x2, true, false) => {
                lane!(|a: u32, b: u32| -> u32 { pair16(a, b, |x, y| (x as i16).min(y as i16) as u16) })
            }
            (Ty::S16x2, false, false) => {
                lane!(|a: u32, b: u32| -> u32 { pair16(a, b, |x, y| (x as i16).max(y as i16) as u16) })
            }
            (Ty::S16x2, true, true) => {
                lane!(|a: u32, b: u32| -> u32 { pair16(a, b, |x, y| (x as i16).min(y as i16).max(0) as u16) })
            }
            (Ty::S16x2, false, true) => {
                lane!(|a: u32, b: u32| -> u32 { pair16(a, b, |x, y| (x as i16).max(y as i16).max(0) as u16) })
            }
            (Ty::S32, true, true) => lane!(|a: i32, b: i32| -> i32 { a.min(b).max(0) }),
            (Ty::S32, false, true) => lane!(|a: i32, b: i32| -> i32 { a.max(b).max(0) }),
            (_, _, true) => return reject(".relu is for .s32 and .s16x2 only"),
            (_, true, _) => by_int!(ty, |a, b| a.min(b)),
            (_, false, _) => by_int!(ty, |a, b| a.max(b)),
        };
        self.same_type(i, ty, spec, Flow::Any)
    }

    pub(super) fn dot_product(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let hi = m.take("hi");
        m.take("lo");
        let (ta, tb) = (m.ty()?, m.ty()?);
        m.finish()?;
        let ok = |t| matches!(t, Ty::U32 | Ty::S32);
        if !ok(ta) || !ok(tb) {
            return reject("dot product takes .u32 or .s32");
        }
        let imm = u32::from(ta == Ty::S32) | u32::from(tb == Ty::S32) << 1 | u32::from(hi) << 2;
        let spec = if i.opcode == "dp4a" {
            lane!(|a: u32, b: u32, c: u32; imm| -> u32 { int::dp4a(a, b, c, imm & 1 != 0, imm & 2 != 0) })
        } else {
            lane!(|a: u32, b: u32, c: u32; imm| -> u32 {
                int::dp2a(a, b, c, imm & 1 != 0, imm & 2 != 0, imm & 4 != 0)
            })
        };
        self.typed(i, (Ty::S32, &[Ty::B32; 3]), spec, Flow::Any, imm)
    }
}
