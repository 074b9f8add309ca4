//! Decodes tensor instructions: `ldmatrix`, `stmatrix`, `movmatrix`, `wmma` and `mma`.

use super::decode::{Decoded, Decoder, Fidelity, Mods, Pipe, arity, operands, parts, reject};
use super::memory::take_space;
use super::op::{Class, Mma, MmaKind, Op, Slot, WmmaMemory};
use super::types::{Space, Ty};
use crate::num::tile::quads::Quads;
use crate::num::tile::{self, BitOp, Elem, Operand as Part, Shape};
use crate::ptx::ast::{Instruction, Operand};

const SHAPES: &[(&str, Shape)] = &[
    ("m16n16k16", Shape::new(16, 16, 16)),
    ("m32n8k16", Shape::new(32, 8, 16)),
    ("m8n32k16", Shape::new(8, 32, 16)),
    ("m16n16k8", Shape::new(16, 16, 8)),
    ("m8n8k4", Shape::new(8, 8, 4)),
    ("m8n8k16", Shape::new(8, 8, 16)),
    ("m8n8k32", Shape::new(8, 8, 32)),
    ("m8n8k128", Shape::new(8, 8, 128)),
    ("m16n8k4", Shape::new(16, 8, 4)),
    ("m16n8k8", Shape::new(16, 8, 8)),
    ("m16n8k16", Shape::new(16, 8, 16)),
    ("m16n8k32", Shape::new(16, 8, 32)),
    ("m16n8k64", Shape::new(16, 8, 64)),
    ("m16n8k128", Shape::new(16, 8, 128)),
    ("m16n8k256", Shape::new(16, 8, 256)),
];

fn elem(ty: Ty) -> Decoded<Elem> {
    Ok(match ty {
        Ty::F16 => Elem::F16,
        Ty::Bf16 => Elem::Bf16,
        Ty::Tf32 => Elem::Tf32,
        Ty::E4m3 => Elem::E4m3,
        Ty::E5m2 => Elem::E5m2,
        Ty::F32 => Elem::F32,
        Ty::F64 => Elem::F64,
        Ty::S8 => Elem::S8,
        Ty::U8 => Elem::U8,
        Ty::S4 => Elem::S4,
        Ty::U4 => Elem::U4,
        Ty::B1 => Elem::B1,
        Ty::S32 => Elem::S32,
        _ => return reject("element type is not supported in a tile"),
    })
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn move_matrix(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.ignore(&["sync", "aligned", "m8n8", "trans", "b16"]);
        m.finish()?;
        let [d, a] = operands(i)?;
        let (d, a) = (self.dst(d, Ty::B32)?, self.src(a, Ty::B32)?);
        self.emit(Op::MoveMatrix, &[d], &[a])
    }

    pub(super) fn wmma(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if !m.take("sync") {
            return reject("only .sync is supported");
        }
        m.take("aligned");
        if m.take("load") {
            self.wmma_memory(i, m, false)
        } else if m.take("store") {
            self.wmma_memory(i, m, true)
        } else if m.take("mma") {
            self.product(i, m, true)
        } else {
            reject("operation is missing or unknown")
        }
    }

    pub(super) fn mma(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.has("block_scale") {
            return reject("block-scaled products are not supported");
        }
        m.take("sync");
        m.take("aligned");
        self.product(i, m, false)
    }

    /// Decodes the registers of `{..}`, or a single one, of the given class.
    fn registers(&mut self, operand: &Operand<'a>, class: Class, result: bool) -> Decoded<Vec<Slot>> {
        let ty = if class == Class::R64 { Ty::B64 } else { Ty::B32 };
        if result { self.dsts(parts(operand), ty) } else { self.srcs(parts(operand), ty) }
    }

    pub(super) fn matrix(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let load = i.opcode == "ldmatrix";
        m.take("sync");
        m.take("aligned");
        if !m.take("m8n8") {
            return reject("only the m8n8 shape is supported");
        }
        let count = m.take_of(&[("x1", 1usize), ("x2", 2), ("x4", 4)]).unwrap_or(1);
        let trans = m.take("trans");
        let space = take_space(m);
        if m.ty()? != Ty::B16 {
            return reject("only .b16 elements are supported");
        }
        m.finish()?;
        let [first, second] = operands(i)?;
        let (address, registers) = if load { (second, first) } else { (first, second) };
        let regs = self.registers(registers, Class::R32, load)?;
        if regs.len() != count {
            return reject("wrong number of registers");
        }
        let (a, offset, _) = self.address(address)?;
        if !matches!(space, Space::Shared | Space::Generic) {
            return reject("matrices are loaded from shared memory");
        }
        if load {
            self.emit(Op::LoadMatrix { trans, space, offset }, &regs, &[a])
        } else {
            self.emit(Op::StoreMatrix { trans, space, offset }, &[], &[&[a], &regs[..]].concat())
        }
    }

    fn wmma_memory(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>, store: bool) -> Decoded {
        self.meta.pipe = Pipe::LoadStore;
        let part = m.take_of(&[("a", Part::A), ("b", Part::B), ("c", Part::C), ("d", Part::C)]);
        let column = m.take("col");
        m.take("row");
        let shape = m.take_of(SHAPES);
        let space = take_space(m);
        let ty = m.last_ty()?;
        let (Some(part), Some(shape)) = (part, shape) else {
            return reject("matrix or shape is missing or unknown");
        };
        let Some(fragment) = tile::layout::wmma(shape, part, elem(ty)?) else {
            return reject("no such fragment");
        };
        let class = if ty == Ty::F64 { Class::R64 } else { Class::R32 };
        let (address, registers) = if store { (0, 1) } else { (1, 0) };
        if !(2..=3).contains(&i.operands.len()) {
            return reject("takes a fragment, an address and a stride");
        }
        let regs = self.registers(&i.operands[registers], class, !store)?;
        if regs.len() != fragment.regs {
            return reject(format!("fragment has {} registers, not {}", fragment.regs, regs.len()));
        }
        let (a, offset, _) = self.address(&i.operands[address])?;
        let stride = i.operands.get(2).map(|s| self.src(s, Ty::U32)).transpose()?;
        if fragment.elem.bits() < 8 {
            return reject("sub-byte fragments in memory are not supported");
        }
        let memory = Box::new(WmmaMemory::new(fragment, column, space, offset, stride.is_some()));
        if store {
            let sources: Vec<Slot> = [a].into_iter().chain(regs).chain(stride).collect();
            self.emit(Op::WmmaStore(memory), &[], &sources)
        } else {
            let sources: Vec<Slot> = [a].into_iter().chain(stride).collect();
            self.emit(Op::WmmaLoad(memory), &regs, &sources)
        }
    }

    fn product(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>, wmma: bool) -> Decoded {
        let sparse = !wmma && (m.take("sp") || m.take("sp::ordered_metadata"));
        let Some(shape) = m.take_of(SHAPES) else { return reject("shape is missing or unknown") };
        // The order of elements in registers does not depend on the layout modifiers, except for m8n8k4 on f16.
        let layouts = [("row", false), ("col", true)];
        let columns = [m.take_of(&layouts), m.take_of(&layouts)].map(|layout| layout == Some(true));
        let satfinite = m.take("satfinite");
        let bit_op = m.take_of(&[("xor", BitOp::Xor), ("and", BitOp::And)]).unwrap_or_default();
        m.take("popc");
        m.take("rn");
        let mut types = Vec::new();
        while let Some(ty) = m.maybe_ty() {
            types.push(elem(ty)?);
        }
        m.finish()?;
        let (d, a, b, c) = match types[..] {
            [d, a, b, c] => (d, a, b, c),
            // wmma on f16 names only the types of the accumulators.
            [d, c] if wmma => (d, Elem::F16, Elem::F16, c),
            _ => return reject("takes four types"),
        };
        let mut op = tile::Mma::new(shape, a, b, c, d);
        op.satfinite = satfinite;
        op.bit_op = bit_op;
        op.wmma = wmma;
        if sparse {
            return self.sparse_mma(i, op);
        }
        if !wmma && shape == Shape::new(8, 8, 4) && a == Elem::F16 {
            return self.quads_mma(i, op, columns);
        }
        let Some([fa, fb, fc, fd]) = op.fragments() else {
            return reject("form of the product is not supported");
        };
        arity(i, 4)?;
        let wide = a == Elem::F64;
        let class = if wide { Class::R64 } else { Class::R32 };
        let [rd, ra, rb, rc] = self.mma_registers(i, [fd, fa, fb, fc].map(|it| it.regs), class)?;
        self.meta.flops = 2 * u32::from(shape.m) * u32::from(shape.n) * u32::from(shape.k);
        if !a.is_integer() && !wide {
            self.fidelity = Fidelity::Approximate;
        }
        let counts = Mma { kind: MmaKind::Dense, op, a: ra.len() as u8, b: rb.len() as u8, wide };
        self.emit(Op::Mma(Box::new(counts)), &rd, &[ra, rb, rc].concat())
    }

    /// Decodes the registers of d, a, b and c, which must have these numbers.
    fn mma_registers(
        &mut self,
        i: &Instruction<'a>,
        counts: [usize; 4],
        class: Class,
    ) -> Decoded<[Vec<Slot>; 4]> {
        let mut all: [Vec<Slot>; 4] = Default::default();
        for (n, (regs, count)) in all.iter_mut().zip(counts).enumerate() {
            *regs = self.registers(&i.operands[n], class, n == 0)?;
            if regs.len() != count {
                return reject(format!("fragment has {count} registers, not {}", regs.len()));
            }
        }
        Ok(all)
    }

    /// Decodes `mma.m8n8k4` on f16: four products in one warp.
    fn quads_mma(&mut self, i: &Instruction<'a>, op: tile::Mma, columns: [bool; 2]) -> Decoded {
        let half_or_float = |elem| matches!(elem, Elem::F16 | Elem::F32);
        if op.b != Elem::F16 || !half_or_float(op.c) || !half_or_float(op.d) {
            return reject("form of the product is not supported");
        }
        arity(i, 4)?;
        let counts = [Quads::registers(op.d), 2, 2, Quads::registers(op.c)];
        let [rd, ra, rb, rc] = self.mma_registers(i, counts, Class::R32)?;
        self.meta.flops = 4 * 2 * 8 * 8 * 4;
        self.fidelity = Fidelity::Approximate;
        let quads = Quads { a_columns: columns[0], b_columns: columns[1], c: op.c, d: op.d };
        let product = Mma { kind: MmaKind::Quads(quads), op, a: 2, b: 2, wide: false };
        self.emit(Op::Mma(Box::new(product)), &rd, &[ra, rb, rc].concat())
    }

    /// Decodes `mma.sp`: d, a, b, c, metadata, selector.
    fn sparse_mma(&mut self, i: &Instruction<'a>, op: tile::Mma) -> Decoded {
        let fragments = tile::sparse::fragments(&op).filter(|_| tile::sparse::is_supported(&op));
        let Some([fa, fb, fc, fd]) = fragments else {
            return reject("form of the sparse product is not supported");
        };
        arity(i, 6)?;
        let [rd, ra, rb, rc] = self.mma_registers(i, [fd, fa, fb, fc].map(|it| it.regs), Class::R32)?;
        let metadata = self.src(&i.operands[4], Ty::B32)?;
        let most = tile::sparse::selectors(&op) - 1;
        let selector = match i.operands[5] {
            Operand::Int(n) if n <= most => n as u8,
            _ => return reject(format!("the sparsity selector must be a constant from 0 to {most}")),
        };
        self.meta.flops = 2 * 16 * 8 * u32::from(op.shape.k);
        if !op.a.is_integer() {
            self.fidelity = Fidelity::Approximate;
        }
        let (a, b) = (ra.len() as u8, rb.len() as u8);
        let product = Mma { kind: MmaKind::Sparse { selector }, op, a, b, wide: false };
        self.emit(Op::Mma(Box::new(product)), &rd, &[ra, rb, rc, vec![metadata]].concat())
    }
}
