//! Decodes bitwise logic, shifts, bit fields, moves and selects.

use super::decode::{Constant, Decoded, Decoder, Entity, Mods, Pipe, arity, reject};
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
    #[allow(clippy::too_many_lines)] // A table: one arm per instruction.
    pub(super) fn logic(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        match i.opcode {
            "and" | "or" | "xor" => self.bitwise(i, m)?,
            "not" => {
                let ty = m.ty()?;
                m.finish()?;
                if ty == Ty::Pred {
                    arity(i, 2)?;
                    let d = self.pred_dst(&i.operands[0])?;
                    let (a, negated) = self.pred(&i.operands[1])?;
                    self.emit(Op::PredMove { negate: !negated }, &[d], &[a]);
                } else {
                    self.same_type(i, ty, by_width!(ty, |a| !a), Flow::Bytes)?;
                }
            }
            "cnot" => {
                let ty = m.ty()?;
                m.finish()?;
                self.same_type(i, ty, by_width!(ty, |a| if a == 0 { 1 } else { 0 }), Flow::Any)?;
            }
            "shl" | "shr" => self.shift(i, m)?,
            "shf" => {
                let left = m.take("l");
                if !left && !m.take("r") {
                    return reject("shf needs .l or .r");
                }
                let wrap = m.take("wrap");
                m.take("clamp");
                let ty = m.ty()?;
                m.finish()?;
                let spec = match (left, wrap) {
                    (true, true) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::shf_l(a, b, c, true) }),
                    (true, false) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::shf_l(a, b, c, false) }),
                    (false, true) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::shf_r(a, b, c, true) }),
                    (false, false) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::shf_r(a, b, c, false) }),
                };
                self.typed(i, (ty, &[Ty::B32, Ty::B32, Ty::U32]), spec, Flow::Any, 0)?;
            }
            "bfe" => {
                let ty = m.ty()?;
                m.finish()?;
                let spec = match ty {
                    Ty::U32 => lane!(|a: u32, b: u32, c: u32| -> u32 { int::bfe_u32(a, b, c) }),
                    Ty::S32 => lane!(|a: u32, b: u32, c: u32| -> u32 { int::bfe_s32(a, b, c) }),
                    Ty::U64 => lane!(|a: u64, b: u32, c: u32| -> u64 { int::bfe_u64(a, b, c) }),
                    Ty::S64 => lane!(|a: u64, b: u32, c: u32| -> u64 { int::bfe_s64(a, b, c) }),
                    _ => return reject("bfe takes 32-bit or 64-bit integers"),
                };
                self.typed(i, (ty, &[ty, Ty::U32, Ty::U32]), spec, Flow::Any, 0)?;
            }
            "bfi" => self.bit_field_insert(i, m)?,
            "bmsk" => {
                let wrap = m.take("wrap");
                m.take("clamp");
                m.ty()?;
                m.finish()?;
                let spec = lane!(|a: u32, b: u32; imm| -> u32 { int::bmsk(a, b, imm != 0) });
                self.typed(i, (Ty::B32, &[Ty::B32; 2]), spec, Flow::Any, u32::from(wrap))?;
            }
            "szext" => {
                let wrap = m.take("wrap");
                m.take("clamp");
                let ty = m.ty()?;
                m.finish()?;
                let imm = u32::from(wrap) | u32::from(ty == Ty::S32) << 1;
                let spec =
                    lane!(|a: u32, b: u32; imm| -> u32 { int::szext(a, b, imm & 2 != 0, imm & 1 != 0) });
                self.typed(i, (ty, &[Ty::B32; 2]), spec, Flow::Any, imm)?;
            }
            "prmt" => {
                m.ty()?;
                let mode =
                    m.take_of(&[("f4e", 1), ("b4e", 2), ("rc8", 3), ("ecl", 4), ("ecr", 5), ("rc16", 6)]);
                m.finish()?;
                let spec = match mode {
                    None => lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::Index) }),
                    Some(1) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::F4e) }),
                    Some(2) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::B4e) }),
                    Some(3) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::Rc8) }),
                    Some(4) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::Ecl) }),
                    Some(5) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::Ecr) }),
                    Some(_) => lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::Rc16) }),
                };
                self.typed(i, (Ty::B32, &[Ty::B32; 3]), spec, Flow::Any, 0)?;
            }
            "lop3" => {
                m.ty()?;
                m.finish()?;
                arity(i, 5)?;
                let Operand::Int(table) = i.operands[4] else { return reject("lop3 needs a constant table") };
                let d = self.dst(&i.operands[0], Ty::B32)?;
                let mut sources = Vec::new();
                for operand in &i.operands[1..4] {
                    sources.push(self.src(operand, Ty::B32)?);
                }
                let spec = lane!(|a: u32, b: u32, c: u32; imm| -> u32 { int::lop3(a, b, c, imm as u8) });
                self.lane(spec, Flow::Any, table as u32 & 0xff, d, &sources)?;
            }
            "popc" | "clz" | "bfind" | "brev" => self.bit_count(i, m)?,
            "fns" => {
                m.ty()?;
                m.finish()?;
                let spec = lane!(|a: u32, b: u32, c: u32| -> u32 { int::fns(a, b, c as i32) });
                self.typed(i, (Ty::B32, &[Ty::B32, Ty::B32, Ty::S32]), spec, Flow::Any, 0)?;
            }
            "mov" => self.mov(i, m)?,
            "selp" => {
                let ty = m.ty()?;
                m.finish()?;
                arity(i, 4)?;
                let d = self.dst(&i.operands[0], ty)?;
                let (a, b) = (self.src(&i.operands[1], ty)?, self.src(&i.operands[2], ty)?);
                let (p, negate) = self.pred(&i.operands[3])?;
                self.emit(Op::Select { negate }, &[d], &[a, b, p]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn bitwise(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.ty()?;
        m.finish()?;
        if ty == Ty::Pred {
            arity(i, 3)?;
            let d = self.pred_dst(&i.operands[0])?;
            let (a, na) = self.pred(&i.operands[1])?;
            let (b, nb) = self.pred(&i.operands[2])?;
            let op = match i.opcode {
                "and" => BoolOp::And,
                "or" => BoolOp::Or,
                _ => BoolOp::Xor,
            };
            self.emit(Op::PredLogic { op, negate: [na, nb] }, &[d], &[a, b]);
            return Ok(());
        }
        let (spec, flow) = match i.opcode {
            "and" => (by_width!(ty, |a, b| a & b), Flow::And),
            "or" => (by_width!(ty, |a, b| a | b), Flow::Or),
            _ => (by_width!(ty, |a, b| a ^ b), Flow::Bytes),
        };
        self.same_type(i, ty, spec, flow)
    }

    fn shift(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.ty()?;
        m.finish()?;
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

    fn bit_field_insert(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.ty()?;
        m.finish()?;
        arity(i, 5)?;
        let d = self.dst(&i.operands[0], ty)?;
        let (a, b) = (self.src(&i.operands[1], ty)?, self.src(&i.operands[2], ty)?);
        // A lane function takes at most three sources, so position and length are packed into one register first. The
        // manual does not define values above 255. For `.b32` an H200 uses the low byte of the value, for `.b64` the
        // whole value.
        let joined = match (&i.operands[3], &i.operands[4]) {
            (Operand::Int(pos @ 0..256), Operand::Int(len @ 0..256)) => self.imm32((*pos | *len << 8) as u32),
            (pos, len) => {
                let (c, e) = (self.src(pos, Ty::U32)?, self.src(len, Ty::U32)?);
                let t = self.fresh(Class::R32);
                let join = if ty.bits() == 64 {
                    lane!(|c: u32, e: u32| -> u32 { c.min(255) | e.min(255) << 8 })
                } else {
                    lane!(|c: u32, e: u32| -> u32 { c & 0xff | (e & 0xff) << 8 })
                };
                self.lane(join, Flow::Any, 0, t, &[c, e])?;
                t
            }
        };
        let spec = match ty.bits() {
            32 => lane!(|a: u32, b: u32, c: u32| -> u32 { int::bfi_b32(a, b, c & 0xff, c >> 8) }),
            64 => lane!(|a: u64, b: u64, c: u32| -> u64 { int::bfi_b64(a, b, c & 0xff, c >> 8) }),
            _ => return reject("bfi takes .b32 or .b64"),
        };
        self.lane(spec, Flow::Any, 0, d, &[a, b, joined])
    }

    fn bit_count(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let shift_amount = m.take("shiftamt");
        let ty = m.ty()?;
        m.finish()?;
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

    fn mov(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let ty = m.ty()?;
        m.finish()?;
        arity(i, 2)?;
        self.pipe = Pipe::Move;
        if ty == Ty::B128 {
            return self.mov_wide(&i.operands[0], &i.operands[1]);
        }
        match (&i.operands[0], &i.operands[1]) {
            (Operand::Vector(parts), source) => {
                let (bits, class) = part_width(ty, parts.len())?;
                let s = self.src(source, ty)?;
                let mut results = Vec::new();
                for part in parts {
                    results.push(self.dst(part, bits_type(class))?);
                }
                self.emit(Op::Unpack { bits }, &results, &[s]);
                Ok(())
            }
            (result, Operand::Vector(parts)) => {
                let (bits, class) = part_width(ty, parts.len())?;
                let d = self.dst(result, ty)?;
                let mut sources = Vec::new();
                for part in parts {
                    sources.push(self.src(part, bits_type(class))?);
                }
                self.emit(Op::Pack { bits }, &[d], &sources);
                Ok(())
            }
            (result, source) if ty == Ty::Pred => {
                let d = self.pred_dst(result)?;
                let (p, negate) = self.pred(source)?;
                self.emit(Op::PredMove { negate }, &[d], &[p]);
                Ok(())
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
            (_, Some(halves)) => halves,
            (Operand::Vector(parts), None) if parts.len() == 2 => {
                [self.src(&parts[0], Ty::B64)?, self.src(&parts[1], Ty::B64)?]
            }
            _ => return reject("source is neither a 128-bit register nor two 64-bit parts"),
        };
        let to = match (result, self.halves(result)) {
            (_, Some(halves)) => halves,
            (Operand::Vector(parts), None) if parts.len() == 2 => {
                [self.dst(&parts[0], Ty::B64)?, self.dst(&parts[1], Ty::B64)?]
            }
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
                self.copy(d, id)?;
                return Ok(Some(()));
            }
            "%envreg1" | "%envreg2" if !d.is_wide() => {
                self.emit(Op::GridWorkspace { high: *name == "%envreg1" }, &[d], &[]);
                return Ok(Some(()));
            }
            // The driver sets the other registers. Nothing is in them for a plain launch.
            _ if is_environment_register(name) && !d.is_wide() => {
                let zero = self.imm32(0);
                self.copy(d, zero)?;
                return Ok(Some(()));
            }
            _ => return Ok(None),
        };
        if d.is_wide() != wide {
            return reject(format!("`{name}` does not fit the register"));
        }
        self.emit(Op::Clock { global, high }, &[d], &[]);
        Ok(Some(()))
    }
}

fn is_environment_register(name: &str) -> bool {
    name.strip_prefix("%envreg").and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n < 32)
}

fn part_width(ty: Ty, parts: usize) -> Decoded<(u8, Class)> {
    let bits = match parts {
        2 | 4 | 8 => ty.bits() / parts as u32,
        _ => return reject("vector of 2, 4 or 8 parts expected"),
    };
    match bits {
        8 | 16 | 32 => Ok((bits as u8, Class::R32)),
        _ => reject("parts must be 8, 16 or 32 bits wide"),
    }
}

fn bits_type(class: Class) -> Ty {
    if class == Class::R64 { Ty::B64 } else { Ty::B32 }
}
