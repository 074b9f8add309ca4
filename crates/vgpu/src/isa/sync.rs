//! Decodes barriers and warp-level operations.

use super::decode::{Decoded, Decoder, Mods, Pipe, arity, reject};
use super::op::{BarMode, Op, ReduxOp, ShflMode, VoteMode};
use super::types::Ty;
use crate::ptx::ast::{Instruction, Operand};

impl<'a> Decoder<'a, '_> {
    #[allow(clippy::too_many_lines)] // A table: one arm per instruction.
    pub(super) fn sync(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        self.pipe = Pipe::Sync;
        match i.opcode {
            "bar" | "barrier" => self.barrier(i, m)?,
            "shfl" => {
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
                m.ty()?;
                m.finish()?;
                arity(i, 5)?;
                let mut results = Vec::new();
                match &i.operands[0] {
                    Operand::Pair(pair) => {
                        results.push(self.dst(&pair.0, Ty::B32)?);
                        results.push(self.pred_dst(&pair.1)?);
                    }
                    one => results.push(self.dst(one, Ty::B32)?),
                }
                let mut sources = Vec::new();
                for operand in &i.operands[1..] {
                    sources.push(self.src(operand, Ty::B32)?);
                }
                self.emit(Op::Shuffle { mode }, &results, &sources);
            }
            "vote" => {
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
                let ty = m.ty()?;
                m.finish()?;
                arity(i, 3)?;
                if (mode == VoteMode::Ballot) == (ty == Ty::Pred) {
                    return reject("vote type does not fit its mode");
                }
                let d = self.dst(&i.operands[0], ty)?;
                let (p, negate) = self.pred(&i.operands[1])?;
                let mask = self.src(&i.operands[2], Ty::B32)?;
                self.emit(Op::Vote { mode, negate }, &[d], &[p, mask]);
            }
            "match" => {
                let all = m.take("all");
                m.take("any");
                if !m.take("sync") {
                    return reject("only match.sync is supported");
                }
                let ty = m.ty()?;
                m.finish()?;
                arity(i, 3)?;
                let mut results = Vec::new();
                match &i.operands[0] {
                    Operand::Pair(pair) if all => {
                        results.push(self.dst(&pair.0, Ty::B32)?);
                        results.push(self.pred_dst(&pair.1)?);
                    }
                    one => results.push(self.dst(one, Ty::B32)?),
                }
                let a = self.src(&i.operands[1], ty)?;
                let mask = self.src(&i.operands[2], Ty::B32)?;
                self.emit(Op::Match { all }, &results, &[a, mask]);
            }
            "redux" => {
                if !m.take("sync") {
                    return reject("only redux.sync is supported");
                }
                let op = m.take_of(&[("add", 0), ("min", 1), ("max", 2), ("and", 3), ("or", 4), ("xor", 5)]);
                let (abs, nan) = (m.take("abs"), m.take("NaN"));
                let ty = m.ty()?;
                m.finish()?;
                arity(i, 3)?;
                if ty.bits() != 32 || ty != Ty::F32 && (ty.is_float() || abs || nan) {
                    return reject("redux takes 32-bit integers, or .f32 with .min or .max");
                }
                let op = match (op, ty.is_signed()) {
                    (Some(op @ (1 | 2)), _) if ty == Ty::F32 => ReduxOp::Float { max: op == 2, abs, nan },
                    _ if ty == Ty::F32 => return reject("redux of .f32 takes .min or .max"),
                    (Some(0), _) => ReduxOp::Add,
                    (Some(1), false) => ReduxOp::MinU,
                    (Some(1), true) => ReduxOp::MinS,
                    (Some(2), false) => ReduxOp::MaxU,
                    (Some(2), true) => ReduxOp::MaxS,
                    (Some(3), _) => ReduxOp::And,
                    (Some(4), _) => ReduxOp::Or,
                    (Some(5), _) => ReduxOp::Xor,
                    _ => return reject("operation is missing or unknown"),
                };
                let d = self.dst(&i.operands[0], ty)?;
                let a = self.src(&i.operands[1], ty)?;
                let mask = self.src(&i.operands[2], Ty::B32)?;
                self.emit(Op::Redux { op }, &[d], &[a, mask]);
            }
            "activemask" => {
                m.ty()?;
                m.finish()?;
                arity(i, 1)?;
                let d = self.dst(&i.operands[0], Ty::B32)?;
                self.emit(Op::ActiveMask, &[d], &[]);
            }
            "elect" => {
                m.take("sync");
                m.finish()?;
                arity(i, 2)?;
                let Operand::Pair(pair) = &i.operands[0] else { return reject("elect.sync needs d|p") };
                let d = self.dst(&pair.0, Ty::B32)?;
                let p = self.pred_dst(&pair.1)?;
                let mask = self.src(&i.operands[1], Ty::B32)?;
                self.emit(Op::Elect, &[d, p], &[mask]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn barrier(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.take("warp") {
            m.take("sync");
            m.finish()?;
            arity(i, 1)?;
            let mask = self.src(&i.operands[0], Ty::B32)?;
            self.emit(Op::WarpSync, &[], &[mask]);
            return Ok(());
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
        let (id, count) = match operands {
            [id] => (id, None),
            [id, count] => (id, Some(count)),
            _ => return reject("takes a barrier and a thread count"),
        };
        if mode == BarMode::Arrive && count.is_none() {
            return reject("bar.arrive needs a thread count");
        }
        let mut sources = vec![self.src(id, Ty::U32)?];
        if let Some(count) = count {
            sources.push(self.src(count, Ty::U32)?);
        }
        sources.extend(predicate);
        self.emit(Op::Barrier { mode, aligned, has_count: count.is_some(), negate }, &results, &sources);
        Ok(())
    }
}
