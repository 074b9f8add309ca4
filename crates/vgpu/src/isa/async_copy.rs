//! Decodes `cp.async` and `mbarrier`.

use super::decode::{Decoded, Decoder, Mods, Pipe, reject};
use super::memory::{SCOPES, ignore_cache_hints, take_space};
use super::op::{MbarrierOp, Op};
use super::types::{Space, Ty};
use crate::ptx::ast::{Instruction, Operand};

impl<'a> Decoder<'a, '_> {
    pub(super) fn async_copy(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        self.pipe = Pipe::Async;
        match i.opcode {
            "cp" => self.cp(i, m)?,
            "mbarrier" => self.mbarrier(i, m)?,
            "tensormap" => self.tensormap(i, m)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn cp(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let reduce = m.take("reduce");
        if !m.take("async") || reduce && !m.has("bulk") {
            return reject("form of cp is not supported");
        }
        if m.take("bulk") {
            return self.cp_bulk(i, m, reduce);
        }
        if m.take("commit_group") {
            m.finish()?;
            self.emit(Op::CopyCommit, &[], &[]);
            return Ok(());
        }
        if m.take("wait_all") {
            m.finish()?;
            self.emit(Op::CopyWait { keep: 0, all: true }, &[], &[]);
            return Ok(());
        }
        if m.take("wait_group") {
            m.finish()?;
            let [Operand::Int(keep)] = i.operands[..] else { return reject("takes one constant") };
            self.emit(Op::CopyWait { keep: keep.min(1 << 30) as u32, all: false }, &[], &[]);
            return Ok(());
        }
        if m.take("mbarrier") {
            m.take("arrive");
            let no_inc = m.take("noinc");
            let space = take_space(m);
            m.ty()?;
            m.finish()?;
            let [address] = &i.operands[..] else { return reject("takes one address") };
            let (a, offset, _) = self.address(address)?;
            self.emit(Op::CopyMbarrierArrive { no_inc, space, offset }, &[], &[a]);
            return Ok(());
        }
        let cg = m.take("cg");
        m.take("ca");
        m.take("shared");
        m.take("shared::cta");
        m.take("global");
        ignore_cache_hints(m);
        m.finish()?;
        let [dst, src, Operand::Int(bytes), rest @ ..] = &i.operands[..] else {
            return reject("takes two addresses and a constant size");
        };
        let bytes = match (*bytes, cg) {
            (4 | 8, false) | (16, _) => *bytes as u8,
            _ => return reject("copy size must be 4, 8 or 16 (16 for .cg)"),
        };
        let (d, dst_offset, _) = self.address(dst)?;
        let (s, src_offset, _) = self.address(src)?;
        let mut sources = vec![d, s];
        let (mut has_size, mut ignore, mut negate) = (false, false, false);
        if let Some(extra) = rest.first() {
            if let (Operand::Name { .. }, Ok((p, n))) = (extra, self.pred(extra)) {
                ignore = true;
                negate = n;
                sources.push(p);
            } else {
                has_size = true;
                sources.push(self.src(extra, Ty::U32)?);
            }
        }
        self.emit(Op::CopyAsync { bytes, has_size, ignore, negate, dst_offset, src_offset }, &[], &sources);
        Ok(())
    }

    fn mbarrier(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        self.pipe = Pipe::Sync;
        let kind = m.take_of(&[
            ("init", 0),
            ("inval", 1),
            ("arrive", 2),
            ("arrive_drop", 3),
            ("expect_tx", 4),
            ("complete_tx", 5),
            ("test_wait", 6),
            ("try_wait", 7),
            ("pending_count", 8),
        ]);
        let Some(kind) = kind else { return reject("operation is missing or unknown") };
        let no_complete = m.take("noComplete");
        let expect = kind != 4 && m.take("expect_tx");
        let parity = m.take("parity");
        m.ignore(&["release", "acquire"]);
        // Expecting or completing bytes orders no accesses.
        let relaxed = m.take("relaxed") || matches!(kind, 4 | 5);
        m.take_of(SCOPES);
        let space = take_space(m);
        m.ty()?;
        m.finish()?;
        if !matches!(space, Space::Shared | Space::Generic) {
            return reject("mbarrier objects live in shared memory");
        }
        let operands = &i.operands[..];
        if kind == 8 {
            let [d, token] = operands else { return reject("takes 2 operands") };
            let d = self.dst(d, Ty::U32)?;
            let token = self.src(token, Ty::B64)?;
            self.emit(
                Op::Mbarrier { op: MbarrierOp::PendingCount, space, offset: 0, relaxed },
                &[d],
                &[token],
            );
            return Ok(());
        }
        let mut results = Vec::new();
        let mut rest = operands;
        if matches!(kind, 2 | 3)
            && let [first, tail @ ..] = operands
            && !matches!(first, Operand::Address { .. })
        {
            results.push(self.dst(first, Ty::B64)?);
            rest = tail;
        }
        if matches!(kind, 6 | 7) {
            let [first, tail @ ..] = operands else { return reject("missing operands") };
            results.push(self.pred_dst(first)?);
            rest = tail;
        }
        let [address, tail @ ..] = rest else { return reject("missing address") };
        let (a, offset, _) = self.address(address)?;
        let mut sources = vec![a];
        let op = match kind {
            0 => MbarrierOp::Init,
            1 => MbarrierOp::Inval,
            2 | 3 => MbarrierOp::Arrive { drop: kind == 3, no_complete, expect },
            4 => MbarrierOp::ExpectTx,
            5 => MbarrierOp::CompleteTx,
            _ => MbarrierOp::TestWait { parity, try_wait: kind == 7 },
        };
        let wanted = match op {
            MbarrierOp::Init
            | MbarrierOp::ExpectTx
            | MbarrierOp::CompleteTx
            | MbarrierOp::TestWait { .. } => 1..=1,
            MbarrierOp::Arrive { no_complete: true, .. } | MbarrierOp::Arrive { expect: true, .. } => 1..=1,
            MbarrierOp::Arrive { .. } => 0..=1,
            _ => 0..=0,
        };
        // `try_wait` may have a time limit, which is only a hint and is ignored.
        let tail = if kind == 7 && tail.len() == 2 { &tail[..1] } else { tail };
        if !wanted.contains(&tail.len()) {
            return reject("wrong number of operands");
        }
        if let Some(operand) = tail.first() {
            let token = matches!(op, MbarrierOp::TestWait { parity: false, .. });
            sources.push(self.src(operand, if token { Ty::B64 } else { Ty::U32 })?);
        }
        self.emit(Op::Mbarrier { op, space, offset, relaxed }, &results, &sources);
        Ok(())
    }
}
