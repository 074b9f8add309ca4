//! Decodes `atom` and `red`.

use super::decode::{Decoded, Decoder, Mods, reject};
use super::memory::{SCOPES, ignore_cache_hints, take_space};
use super::op::{Access, AtomOp, Class, Op, Order};
use super::types::{MemType, Space, Ty};
use crate::ptx::ast::{Instruction, Operand};

pub(super) const OPERATIONS: &[(&str, AtomOp)] = &[
    ("add", AtomOp::Add),
    ("min", AtomOp::Min),
    ("max", AtomOp::Max),
    ("inc", AtomOp::Inc),
    ("dec", AtomOp::Dec),
    ("and", AtomOp::And),
    ("or", AtomOp::Or),
    ("xor", AtomOp::Xor),
    ("exch", AtomOp::Exch),
    ("cas", AtomOp::Cas),
];

pub(crate) fn allowed(op: AtomOp, ty: Ty) -> bool {
    match op {
        AtomOp::Add => matches!(
            ty,
            Ty::U32
                | Ty::S32
                | Ty::U64
                | Ty::S64
                | Ty::F32
                | Ty::F64
                | Ty::F16
                | Ty::F16x2
                | Ty::Bf16
                | Ty::Bf16x2
        ),
        AtomOp::Min | AtomOp::Max => {
            matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64 | Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2)
        }
        AtomOp::Inc | AtomOp::Dec => ty == Ty::U32,
        AtomOp::And | AtomOp::Or | AtomOp::Xor => matches!(ty, Ty::B32 | Ty::B64),
        AtomOp::Exch => matches!(ty, Ty::B32 | Ty::B64 | Ty::U32 | Ty::U64 | Ty::S32 | Ty::S64 | Ty::F32),
        AtomOp::Cas => matches!(ty, Ty::B16 | Ty::B32 | Ty::B64 | Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64),
    }
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn atomic(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.has("async") {
            return reject("asynchronous reductions are not supported");
        }
        let order = m
            .take_of(&[
                ("relaxed", Order::Relaxed),
                ("acquire", Order::Acquire),
                ("release", Order::Release),
                ("acq_rel", Order::AcqRel),
            ])
            .unwrap_or(Order::Relaxed);
        let scope = m.take_of(SCOPES).unwrap_or(super::types::Scope::Gpu);
        let space = take_space(m);
        if matches!(space, Space::Local | Space::Param) {
            return reject("atomics are for global and shared memory");
        }
        m.take("noftz");
        ignore_cache_hints(m);
        let Some(op) = m.take_of(OPERATIONS) else { return reject("operation is missing or unknown") };
        let vector = m.take_of(&[("v2", 2u8), ("v4", 4), ("v8", 8)]).unwrap_or(1);
        let ty = m.last_ty()?;
        if !allowed(op, ty) {
            return reject("operation does not exist for this type");
        }
        let atom = i.opcode == "atom";
        let operands = &i.operands[..];
        let at = usize::from(atom);
        let wanted = at + 2 + usize::from(op == AtomOp::Cas);
        if operands.len() != wanted && operands.len() != wanted + 1 {
            return reject(format!("takes {wanted} operands, has {}", operands.len()));
        }
        let (address, offset, _) = self.address(&operands[at])?;
        let access = Access {
            space,
            ty: MemType::from_type(ty),
            vector,
            order,
            scope,
            non_coherent: false,
            offset,
            quick: false,
            is_async: false,
        };
        let mut results = Vec::new();
        let mut values = &operands[at + 1..wanted];
        if vector > 1 {
            let Operand::Vector(parts) = &operands[at + 1] else { return reject("vector operand expected") };
            if parts.len() != vector as usize || !matches!(op, AtomOp::Add | AtomOp::Min | AtomOp::Max) {
                return reject("vector form is not supported");
            }
            values = parts;
        }
        if atom {
            let ds = match &operands[0] {
                Operand::Vector(ds) if vector > 1 => ds,
                _ if vector > 1 => return reject("vector result expected"),
                one => std::slice::from_ref(one),
            };
            if ds.len() != vector as usize {
                return reject("vector has the wrong number of elements");
            }
            results = self.dsts(ds, ty)?;
        }
        let values = self.srcs(values, ty)?;
        let sources = [&[address], &values[..]].concat();
        debug_assert!(sources.iter().all(|s| s.class() != Class::Pred));
        self.emit(Op::Atom { op, access }, &results, &sources)
    }
}
