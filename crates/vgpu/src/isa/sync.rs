//! Decodes barriers and warp-level operations.

use super::decode::{Decoded, Decoder, Mods, operands, reject};
use super::op::{BarMode, Op, ReduxOp, ShflMode, VoteMode};
use super::types::Ty;
use crate::ptx::ast::{Instruction, Operand};

impl<'a> Decoder<'a, '_> {
    pub(super) fn shuffle(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if !m.take("sync") {
            return reject("only shfl.sync is supported");
        }
        let mode = m.take_of(&[
            ("up", ShflMode::Up),
            ("down", ShflMode::Down),
            ("bfly", ShflMode::Bfly),
            ("idx", ShflMode::Idx),
        ]);
        let Some(mode) = mode else { return reject("shuffle mode is missing") };
        m.last_ty()?;
        let [d, sources @ ..] = operands::<5>(i)?;
        let results = self.dst_and_pred(d)?;
        let sources = self.srcs(sources, Ty::B32)?;
        self.emit(Op::Shuffle { mode }, &results, &sources)
    }

    pub(super) fn vote(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if !m.take("sync") {
            return reject("only vote.sync is supported");
        }
        let mode = m.take_of(&[
            ("all", VoteMode::All),
            ("any", VoteMode::Any),
            ("uni", VoteMode::Uni),
            ("ballot", VoteMode::Ballot),
        ]);
        let Some(mode) = mode else { return reject("vote mode is missing") };
        let ty = m.last_ty()?;
        let [d, predicate, mask] = operands(i)?;
        if (mode == VoteMode::Ballot) == (ty == Ty::Pred) {
            return reject("vote type does not fit its mode");
        }
        let d = self.dst(d, ty)?;
        let (p, negate) = self.pred(predicate)?;
        let mask = self.src(mask, Ty::B32)?;
        self.emit(Op::Vote { mode, negate }, &[d], &[p, mask])
    }

    pub(super) fn match_lanes(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let all = m.take("all");
        m.take("any");
        if !m.take("sync") {
            return reject("only match.sync is supported");
        }
        let ty = m.last_ty()?;
        let [d, a, mask] = operands(i)?;
        let results = if all { self.dst_and_pred(d)? } else { vec![self.dst(d, Ty::B32)?] };
        let sources = [self.src(a, ty)?, self.src(mask, Ty::B32)?];
        self.emit(Op::Match { all }, &results, &sources)
    }

    pub(super) fn redux(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if !m.take("sync") {
            return reject("only redux.sync is supported");
        }
        let name = m.take_matching(|part| {
            ["add", "min", "max", "and", "or", "xor"].into_iter().find(|name| *name == part)
        });
        let (abs, nan) = (m.take("abs"), m.take("NaN"));
        let ty = m.last_ty()?;
        let [d, a, mask] = operands(i)?;
        if ty.bits() != 32 || ty != Ty::F32 && (ty.is_float() || abs || nan) {
            return reject("redux takes 32-bit integers, or .f32 with .min or .max");
        }
        let op = match (name, ty.is_signed()) {
            (Some("min" | "max"), _) if ty == Ty::F32 => {
                ReduxOp::Float { max: name == Some("max"), abs, nan }
            }
            _ if ty == Ty::F32 => return reject("redux of .f32 takes .min or .max"),
            (Some("add"), _) => ReduxOp::Add,
            (Some("min"), false) => ReduxOp::MinU,
            (Some("min"), true) => ReduxOp::MinS,
            (Some("max"), false) => ReduxOp::MaxU,
            (Some("max"), true) => ReduxOp::MaxS,
            (Some("and"), _) => ReduxOp::And,
            (Some("or"), _) => ReduxOp::Or,
            (Some(_), _) => ReduxOp::Xor,
            (None, _) => return reject("operation is missing or unknown"),
        };
        let d = self.dst(d, ty)?;
        let sources = [self.src(a, ty)?, self.src(mask, Ty::B32)?];
        self.emit(Op::Redux { op }, &[d], &sources)
    }

    pub(super) fn active_mask(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.last_ty()?;
        let [d] = operands(i)?;
        let d = self.dst(d, Ty::B32)?;
        self.emit(Op::ActiveMask, &[d], &[])
    }

    pub(super) fn elect(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("sync");
        m.finish()?;
        let [d @ Operand::Pair(_), mask] = operands(i)? else { return reject("elect.sync needs d|p") };
        let results = self.dst_and_pred(d)?;
        let mask = self.src(mask, Ty::B32)?;
        self.emit(Op::Elect, &results, &[mask])
    }

    pub(super) fn barrier(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.take("warp") {
            m.take("sync");
            m.finish()?;
            let [mask] = operands(i)?;
            let mask = self.src(mask, Ty::B32)?;
            return self.emit(Op::WarpSync, &[], &[mask]);
        }
        if m.take("cluster") {
            return self.cluster_barrier(i, m);
        }
        m.take("cta");
        // `bar` means `barrier.aligned`.
        let aligned = m.take("aligned") || i.opcode == "bar";
        let red = m.take("red");
        let mode = if red {
            match m.take_of(&[("popc", BarMode::RedPopc), ("and", BarMode::RedAnd), ("or", BarMode::RedOr)]) {
                Some(mode) => mode,
                None => return reject("reduction is missing or unknown"),
            }
        } else if m.take("arrive") {
            BarMode::Arrive
        } else if m.take("sync") {
            BarMode::Sync
        } else {
            return reject("form of barrier is not supported");
        };
        if red {
            m.ty()?;
        }
        m.finish()?;
        let mut operands = &i.operands[..];
        let mut results = Vec::new();
        let mut negate = false;
        let mut predicate = None;
        if red {
            let [first, middle @ .., last] = operands else { return reject("missing operands") };
            let ty = if mode == BarMode::RedPopc { Ty::U32 } else { Ty::Pred };
            results.push(self.dst(first, ty)?);
            let (p, n) = self.pred(last)?;
            predicate = Some(p);
            negate = n;
            operands = middle;
        }
        let has_count = operands.len() == 2;
        if !matches!(operands.len(), 1 | 2) {
            return reject("takes a barrier and a thread count");
        }
        if mode == BarMode::Arrive && !has_count {
            return reject("bar.arrive needs a thread count");
        }
        let mut sources = self.srcs(operands, Ty::U32)?;
        sources.extend(predicate);
        self.emit(Op::Barrier { mode, aligned, has_count, negate }, &results, &sources)
    }
}
