//! Decodes warpgroup instructions: `wgmma` and `setmaxnreg`.

use super::decode::{Decoded, Decoder, Fidelity, Mods, constant_operand, reject};
use super::op::{Op, Slot, Wgmma};
use super::types::Ty;
use crate::num::tile::Elem;
use crate::num::tile::warpgroup::Warpgroup;
use crate::ptx::ast::{Instruction, Operand};

impl<'a> Decoder<'a, '_> {
    pub(super) fn set_max_registers(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let Some(increase) = m.take_of(&[("inc", true), ("dec", false)]) else {
            return reject(".inc or .dec is missing");
        };
        if !m.take_all(&["sync", "aligned", "u32"]) {
            return reject("takes .sync.aligned.u32");
        }
        m.finish()?;
        let count = constant_operand(i)?;
        if !(24..=256).contains(&count) || count % 8 != 0 {
            return reject("the number of registers must be a multiple of 8 from 24 to 256");
        }
        self.emit(Op::SetMaxRegisters { count: count as u32, increase }, &[], &[])
    }

    pub(super) fn wgmma(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let group = m.take_of(&[("fence", 0), ("commit_group", 1), ("wait_group", 2)]);
        if let Some(group) = group {
            if !m.take_all(&["sync", "aligned"]) {
                return reject("takes .sync.aligned");
            }
            m.finish()?;
            let op = match group {
                0 => Op::WgmmaFence,
                1 => Op::WgmmaCommit,
                _ => Op::WgmmaWait { keep: constant_operand(i)?.min(1 << 30) as u32 },
            };
            return self.emit(op, &[], &[]);
        }
        if m.has("sp") {
            return reject("sparse products are not supported");
        }
        if !m.take_all(&["mma_async", "sync", "aligned"]) {
            return reject("form of wgmma is not supported");
        }
        self.wgmma_product(i, m)
    }

    fn wgmma_product(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let satfinite = m.take("satfinite");
        let Some((n, k)) = shape(m) else { return reject("shape is missing or unknown") };
        let d = m.ty()?;
        let a = m.ty()?;
        let b = m.ty()?;
        m.finish()?;
        let [a, b, d] = match (a, b, d) {
            (Ty::F16, Ty::F16, Ty::F32) => [Elem::F16, Elem::F16, Elem::F32],
            (Ty::F16, Ty::F16, Ty::F16) => [Elem::F16, Elem::F16, Elem::F16],
            (Ty::Bf16, Ty::Bf16, Ty::F32) => [Elem::Bf16, Elem::Bf16, Elem::F32],
            (Ty::Tf32, Ty::Tf32, Ty::F32) => [Elem::Tf32, Elem::Tf32, Elem::F32],
            (Ty::E4m3 | Ty::E5m2, Ty::E4m3 | Ty::E5m2, Ty::F32 | Ty::F16) => {
                let code = |ty| if ty == Ty::E4m3 { Elem::E4m3 } else { Elem::E5m2 };
                [code(a), code(b), if d == Ty::F32 { Elem::F32 } else { Elem::F16 }]
            }
            (Ty::S8 | Ty::U8, Ty::S8 | Ty::U8, Ty::S32) => {
                let code = |ty| if ty == Ty::S8 { Elem::S8 } else { Elem::U8 };
                [code(a), code(b), Elem::S32]
            }
            _ => return reject("combination of types is not supported"),
        };
        // For integers the number of columns is a multiple of 16, or 8, or 24.
        let columns = if a.is_integer() { n == 8 || n == 24 || n % 16 == 0 } else { n % 8 == 0 };
        if !columns || !(8..=256).contains(&n) {
            return reject(format!("there is no shape with {n} columns"));
        }
        let mut op = Warpgroup { a, b, d, n: n as u16, negate: false, satfinite };
        if op.k() != k as usize {
            return reject(format!("the shape must be k{} for this type", op.k()));
        }
        let [result, first, second, rest @ ..] = &i.operands[..] else {
            return reject("operands are missing");
        };
        let results = self.wgmma_registers(result, true)?;
        if results.len() != op.registers() {
            return reject(format!("d has {} registers, not {}", op.registers(), results.len()));
        }
        let a_registers = matches!(first, Operand::Vector(_));
        let a_slots = if a_registers {
            let slots = self.wgmma_registers(first, false)?;
            if slots.len() != 4 {
                return reject(format!("a has 4 registers, not {}", slots.len()));
            }
            slots
        } else {
            vec![self.src(first, Ty::B64)?]
        };
        let b_slot = self.src(second, Ty::B64)?;
        let [scale, rest @ ..] = rest else { return reject("the predicate for d is missing") };
        let (scale, negate_scale) = self.pred(scale)?;
        // The constants are signs for floating-point types, then layouts for 16-bit types. a has a layout only if it is
        // in shared memory.
        let signs = if a.is_integer() { 0 } else { 2 };
        let layouts = if a.bits() == 16 { if a_registers { 1 } else { 2 } } else { 0 };
        let mut constants = Vec::new();
        for operand in rest {
            let Operand::Int(value) = operand else { return reject("signs and layouts are constants") };
            constants.push(*value as i64);
        }
        if constants.len() != signs + layouts {
            return reject(format!(
                "takes {} constants after the predicate, has {}",
                signs + layouts,
                constants.len()
            ));
        }
        let (signs, layouts) = constants.split_at(signs);
        if signs.iter().any(|s| s.abs() != 1) || layouts.iter().any(|l| !(0..=1).contains(l)) {
            return reject("signs are 1 or -1, layouts 0 or 1");
        }
        op.negate = signs.iter().product::<i64>() == -1;
        let transpose_a = layouts.len() == 2 && layouts[0] == 1;
        let transpose_b = layouts.last() == Some(&1);
        self.fidelity = if a.is_integer() { Fidelity::Exact } else { Fidelity::Approximate };
        // The operations of one warp: a quarter of the 64 rows.
        self.meta.flops = 2 * 16 * n * k;
        let sources = [&[scale, b_slot], &a_slots[..], &results[..]].concat();
        let wgmma = Wgmma { op, a_registers, transpose_a, transpose_b, negate_scale };
        self.emit(Op::Wgmma(Box::new(wgmma)), &results, &sources)
    }

    fn wgmma_registers(&mut self, operand: &Operand<'a>, result: bool) -> Decoded<Vec<Slot>> {
        let Operand::Vector(parts) = operand else { return reject("takes a list of registers") };
        let slots = if result { self.dsts(parts, Ty::B32)? } else { self.srcs(parts, Ty::B32)? };
        if result && (1..slots.len()).any(|s| slots[..s].contains(&slots[s])) {
            return reject("d names a register twice");
        }
        Ok(slots)
    }
}

/// Decodes `m64nNkK`.
fn shape(m: &mut Mods<'_>) -> Option<(u32, u32)> {
    m.take_matching(|part| {
        let (n, k) = part.strip_prefix("m64n")?.split_once('k')?;
        Some((n.parse().ok()?, k.parse().ok()?))
    })
}
