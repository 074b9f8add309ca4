//! Decodes bitwise logic, shifts, bit fields, moves and selects.

use super::decode::{Constant, Decoded, Decoder, Entity, Mods, operands, reject};
use super::lane::lane;
use super::op::{BoolOp, Class, Flow, Op, Slot};
use super::types::Ty;
use crate::num::int::{self, Prmt};
use crate::ptx::ast::{Instruction, Operand};

/// Selects the instance for 16, 32 or 64 bits.
macro_rules! by_width {
    ($ty:expr, |$($a:ident),+| $body:expr) => {
        match $ty.bits() {
            16 => by_width!(@ u16, |$($a),+| $body),
            32 => by_width!(@ u32, |$($a),+| $body),
            64 => by_width!(@ u64, |$($a),+| $body),
            _ => return reject("type is not 16, 32 or 64 bits wide"),
        }
    };
    (@ $t:ty, |$a:ident| $body:expr) => { lane!(|$a: $t| -> $t { $body }) };
    (@ $t:ty, |$a:ident, $b:ident| $body:expr) => { lane!(|$a: $t, $b: $t| -> $t { $body }) };
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn not(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        if ty != Ty::Pred {
            return self.same_type(i, ty, by_width!(ty, |a| !a), Flow::Bytes);
        }
        let [d, a] = operands(i)?;
        let d = self.pred_dst(d)?;
        let (a, negated) = self.pred(a)?;
        self.emit(Op::PredMove { negate: !negated }, &[d], &[a])
    }

    pub(super) fn cnot(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        self.same_type(i, ty, by_width!(ty, |a| if a == 0 { 1 } else { 0 }), Flow::Any)
    }

    pub(super) fn funnel_shift(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let left = m.take("l");
        if !left && !m.take("r") {
            return reject("shf needs .l or .r");
        }
        let wrap = m.take("wrap");
        m.take("clamp");
        let ty = m.last_ty()?;
        let spec = match (left, wrap) {
            (true, true) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::shf_l(a, b, c, true) }),
            (true, false) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::shf_l(a, b, c, false) }),
            (false, true) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::shf_r(a, b, c, true) }),
            (false, false) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::shf_r(a, b, c, false) }),
        };
        self.typed(i, (ty, &[Ty::B32, Ty::B32, Ty::U32]), spec, Flow::Any, 0)
    }

    pub(super) fn bit_field_extract(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        let spec = match ty {
            Ty::U32 => lane!(|a: u32, b: u32, c: u32| -> u32 { int::bfe_u32(a, b, c) }),
            Ty::S32 => lane!(|a: u32, b: u32, c: u32| -> u32 { int::bfe_s32(a, b, c) }),
            Ty::U64 => lane!(|a: u64, b: u32, c: u32| -> u64 { int::bfe_u64(a, b, c) }),
            Ty::S64 => lane!(|a: u64, b: u32, c: u32| -> u64 { int::bfe_s64(a, b, c) }),
            _ => return reject("bfe takes 32-bit or 64-bit integers"),
        };
        self.typed(i, (ty, &[ty, Ty::U32, Ty::U32]), spec, Flow::Any, 0)
    }

    pub(super) fn bit_mask(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let wrap = m.take("wrap");
        m.take("clamp");
        m.last_ty()?;
        let spec = lane!(|a: u32, b: u32; imm| -> u32 { int::bmsk(a, b, imm != 0) });
        self.typed(i, (Ty::B32, &[Ty::B32; 2]), spec, Flow::Any, u32::from(wrap))
    }

    pub(super) fn extend_sign(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let wrap = m.take("wrap");
        m.take("clamp");
        let ty = m.last_ty()?;
        let imm = u32::from(wrap) | u32::from(ty == Ty::S32) << 1;
        let spec = lane!(|a: u32, b: u32; imm| -> u32 { int::szext(a, b, imm & 2 != 0, imm & 1 != 0) });
        self.typed(i, (ty, &[Ty::B32; 2]), spec, Flow::Any, imm)
    }

    pub(super) fn permute(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.ty()?;
        let mode = m.take_matching(|part| {
            ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"].into_iter().find(|name| *name == part)
        });
        m.finish()?;
        macro_rules! mode {
            ($mode:ident) => {
                lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::$mode) })
            };
        }
        let spec = match mode {
            None => mode!(Index),
            Some("f4e") => mode!(F4e),
            Some("b4e") => mode!(B4e),
            Some("rc8") => mode!(Rc8),
            Some("ecl") => mode!(Ecl),
            Some("ecr") => mode!(Ecr),
            Some(_) => mode!(Rc16),
        };
        self.typed(i, (Ty::B32, &[Ty::B32; 3]), spec, Flow::Any, 0)
    }

    pub(super) fn lop3(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.last_ty()?;
        let [d, sources @ .., Operand::Int(table)] = operands::<5>(i)? else {
            return reject("lop3 needs a constant table");
        };
        let d = self.dst(d, Ty::B32)?;
        let sources = self.srcs(sources, Ty::B32)?;
        let spec = lane!(|a: u32, b: u32, c: u32; imm| -> u32 { int::lop3(a, b, c, imm as u8) });
        self.lane(spec, Flow::Any, *table as u32 & 0xff, d, &sources)
    }

    pub(super) fn find_nth_set(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.last_ty()?;
        let spec = lane!(|a: u32, b: u32, c: u32| -> u32 { int::fns(a, b, c as i32) });
        self.typed(i, (Ty::B32, &[Ty::B32, Ty::B32, Ty::S32]), spec, Flow::Any, 0)
    }

    pub(super) fn selp(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        let [d, a, b, p] = operands(i)?;
        let d = self.dst(d, ty)?;
        let (a, b) = (self.src(a, ty)?, self.src(b, ty)?);
        let (p, negate) = self.pred(p)?;
        self.emit(Op::Select { negate }, &[d], &[a, b, p])
    }

    pub(super) fn bitwise(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        if ty == Ty::Pred {
            let [d, a, b] = operands(i)?;
            let d = self.pred_dst(d)?;
            let ((a, na), (b, nb)) = (self.pred(a)?, self.pred(b)?);
            let op = match i.opcode {
                "and" => BoolOp::And,
                "or" => BoolOp::Or,
                _ => BoolOp::Xor,
            };
            return self.emit(Op::PredLogic { op, negate: [na, nb] }, &[d], &[a, b]);
        }
        let (spec, flow) = match i.opcode {
            "and" => (by_width!(ty, |a, b| a & b), Flow::And),
            "or" => (by_width!(ty, |a, b| a | b), Flow::Or),
            _ => (by_width!(ty, |a, b| a ^ b), Flow::Bytes),
        };
        self.same_type(i, ty, spec, flow)
    }

    pub(super) fn shift(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        let spec = match (i.opcode, ty) {
            ("shl", _) => match ty.bits() {
                16 => lane!(|a: u32, n: u32| -> u32 { int::shl16(a, n) }),
                32 => lane!(|a: u32, n: u32| -> u32 { int::shl32(a, n) }),
                64 => lane!(|a: u64, n: u32| -> u64 { int::shl64(a, n) }),
                _ => return reject("type is not 16, 32 or 64 bits wide"),
            },
            (_, Ty::S16) => lane!(|a: u32, n: u32| -> u32 { int::shr_s16(a, n) }),
            (_, Ty::S32) => lane!(|a: u32, n: u32| -> u32 { int::shr_s32(a, n) }),
            (_, Ty::S64) => lane!(|a: u64, n: u32| -> u64 { int::shr_s64(a, n) }),
            _ => match ty.bits() {
                16 => lane!(|a: u32, n: u32| -> u32 { int::shr_u16(a, n) }),
                32 => lane!(|a: u32, n: u32| -> u32 { int::shr_u32(a, n) }),
                64 => lane!(|a: u64, n: u32| -> u64 { int::shr_u64(a, n) }),
                _ => return reject("type is not 16, 32 or 64 bits wide"),
            },
        };
        let (flow, imm) = match i.operands.get(2) {
            Some(Operand::Int(n)) if *n < 64 && !ty.is_signed() => {
                (if i.opcode == "shl" { Flow::Shl } else { Flow::Shr }, *n as u32)
            }
            _ => (Flow::Any, 0),
        };
        self.typed(i, (ty, &[ty, Ty::U32]), spec, flow, imm)
    }

    pub(super) fn bit_field_insert(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        let [d, a, b, pos, len] = operands(i)?;
        let d = self.dst(d, ty)?;
        let (a, b) = (self.src(a, ty)?, self.src(b, ty)?);
        // A lane function takes at most three sources, so position and length are packed into one register first. The
        // manual does not define values above 255. For `.b32` an H200 uses the low byte of the value, for `.b64` the
        // whole value.
        let joined = match (pos, len) {
            (Operand::Int(pos @ 0..256), Operand::Int(len @ 0..256)) => self.imm32((*pos | *len << 8) as u32),
            (pos, len) => {
                let (c, e) = (self.src(pos, Ty::U32)?, self.src(len, Ty::U32)?);
                let join = if ty.bits() == 64 {
                    lane!(|c: u32, e: u32| -> u32 { c.min(255) | e.min(255) << 8 })
                } else {
                    lane!(|c: u32, e: u32| -> u32 { c & 0xff | (e & 0xff) << 8 })
                };
                self.intermediate(join, &[c, e])?
            }
        };
        let spec = match ty.bits() {
            32 => lane!(|a: u32, b: u32, c: u32| -> u32 { int::bfi_b32(a, b, c & 0xff, c >> 8) }),
            64 => lane!(|a: u64, b: u64, c: u32| -> u64 { int::bfi_b64(a, b, c & 0xff, c >> 8) }),
            _ => return reject("bfi takes .b32 or .b64"),
        };
        self.lane(spec, Flow::Any, 0, d, &[a, b, joined])
    }

    pub(super) fn bit_count(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let shift_amount = m.take("shiftamt");
        let ty = m.last_ty()?;
        let wide = ty.bits() == 64;
        if ty.bits() < 32 {
            return reject("takes 32-bit or 64-bit integers");
        }
        let spec = match (i.opcode, wide) {
            ("popc", false) => lane!(|a: u32| -> u32 { a.count_ones() }),
            ("popc", true) => lane!(|a: u64| -> u32 { a.count_ones() }),
            ("clz", false) => lane!(|a: u32| -> u32 { a.leading_zeros() }),
            ("clz", true) => lane!(|a: u64| -> u32 { a.leading_zeros() }),
            ("brev", false) => lane!(|a: u32| -> u32 { a.reverse_bits() }),
            ("brev", true) => lane!(|a: u64| -> u64 { a.reverse_bits() }),
            _ => match ty {
                Ty::S32 => lane!(|a: u32; imm| -> u32 { int::bfind_s32(a, imm != 0) }),
                Ty::S64 => lane!(|a: u64; imm| -> u32 { int::bfind_s64(a, imm != 0) }),
                _ if wide => lane!(|a: u64; imm| -> u32 { int::bfind_u64(a, imm != 0) }),
                _ => lane!(|a: u32; imm| -> u32 { int::bfind_u32(a, imm != 0) }),
            },
        };
        let result = if i.opcode == "brev" { ty } else { Ty::U32 };
        self.typed(i, (result, &[ty]), spec, Flow::Any, u32::from(shift_amount))
    }

    pub(super) fn mov(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.last_ty()?;
        let [result, source] = operands(i)?;
        if ty == Ty::B128 {
            return self.mov_wide(result, source);
        }
        match (result, source) {
            (Operand::Vector(parts), source) => {
                let bits = part_width(ty, parts.len())?;
                let s = self.src(source, ty)?;
                let results = self.dsts(parts, Ty::B32)?;
                self.emit(Op::Unpack { bits }, &results, &[s])
            }
            (result, Operand::Vector(parts)) => {
                let bits = part_width(ty, parts.len())?;
                let d = self.dst(result, ty)?;
                let sources = self.srcs(parts, Ty::B32)?;
                self.emit(Op::Pack { bits }, &[d], &sources)
            }
            (result, source) if ty == Ty::Pred => {
                let d = self.pred_dst(result)?;
                let (p, negate) = self.pred(source)?;
                self.emit(Op::PredMove { negate }, &[d], &[p])
            }
            (result, source) => {
                let d = self.dst(result, ty)?;
                let s = match self.dynamic_special(source, d)? {
                    Some(()) => return Ok(()),
                    None => self.address_value(source, ty)?,
                };
                self.copy(d, s)
            }
        }
    }

    /// Decodes `mov.b128`: a register of 128 bits, or its halves in braces, on either side.
    fn mov_wide(&mut self, result: &Operand<'a>, source: &Operand<'a>) -> Decoded {
        let from = match (source, self.halves(source)) {
            (_, Some(halves)) => halves.to_vec(),
            (Operand::Vector(parts), None) if parts.len() == 2 => self.srcs(parts, Ty::B64)?,
            _ => return reject("source is neither a 128-bit register nor two 64-bit parts"),
        };
        let to = match (result, self.halves(result)) {
            (_, Some(halves)) => halves.to_vec(),
            (Operand::Vector(parts), None) if parts.len() == 2 => self.dsts(parts, Ty::B64)?,
            _ => return reject("result is neither a 128-bit register nor two 64-bit parts"),
        };
        self.copy(to[0], from[0])?;
        self.copy(to[1], from[1])
    }

    pub(super) fn copy(&mut self, d: Slot, s: Slot) -> Decoded {
        let spec = if d.is_wide() { lane!(|a: u64| -> u64 { a }) } else { lane!(|a: u32| -> u32 { a }) };
        self.lane(spec, Flow::Copy, 0, d, &[s])
    }

    /// Decodes a source of `mov`, which may also be the address of a variable or a function.
    pub(super) fn address_value(&mut self, source: &Operand<'a>, ty: Ty) -> Decoded<Slot> {
        let (name, offset) = match source {
            Operand::Name { name, negated: false } => (*name, 0),
            Operand::Offset { name, offset } => (*name, *offset),
            _ => return self.src(source, ty),
        };
        match self.lookup(name) {
            Some(Entity::Reg { .. }) | None => {
                if let (None, Some(address), 64) =
                    (self.lookup(name), self.function_addresses.get(name), ty.bits())
                {
                    let address = address.wrapping_add_signed(offset);
                    return Ok(self.constant(Class::R64, address));
                }
                if offset == 0 { self.src(source, ty) } else { reject(format!("unknown variable `{name}`")) }
            }
            Some(entity) => self.address_of(&entity, offset, ty.class()),
        }
    }

    /// Decodes special registers whose value changes while the kernel runs.
    fn dynamic_special(&mut self, source: &Operand<'a>, d: Slot) -> Decoded<Option<()>> {
        let Operand::Name { name, negated: false } = source else { return Ok(None) };
        let (wide, global, high) = match *name {
            "%clock" => (false, false, false),
            "%clock_hi" => (false, false, true),
            "%clock64" => (true, false, false),
            "%globaltimer" => (true, true, false),
            "%globaltimer_lo" => (false, true, false),
            "%globaltimer_hi" => (false, true, true),
            "%gridid" if d.is_wide() => {
                let id = self.constants.slot(Class::R64, Constant::GridId);
                return self.copy(d, id).map(Some);
            }
            "%envreg1" | "%envreg2" if !d.is_wide() => {
                return self.emit(Op::GridWorkspace { high: *name == "%envreg1" }, &[d], &[]).map(Some);
            }
            // The driver sets the other registers. Nothing is in them for a plain launch.
            _ if is_environment_register(name) && !d.is_wide() => {
                let zero = self.imm32(0);
                return self.copy(d, zero).map(Some);
            }
            _ => return Ok(None),
        };
        if d.is_wide() != wide {
            return reject(format!("`{name}` does not fit the register"));
        }
        self.emit(Op::Clock { global, high }, &[d], &[]).map(Some)
    }
}

fn is_environment_register(name: &str) -> bool {
    name.strip_prefix("%envreg").and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n < 32)
}

fn part_width(ty: Ty, parts: usize) -> Decoded<u8> {
    let bits = match parts {
        2 | 4 | 8 => ty.bits() / parts as u32,
        _ => return reject("vector of 2, 4 or 8 parts expected"),
    };
    match bits {
        8 | 16 | 32 => Ok(bits as u8),
        _ => reject("parts must be 8, 16 or 32 bits wide"),
    }
}
