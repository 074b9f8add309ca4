//! Decodes `cp.async` and `mbarrier`.

use super::decode::{Decoded, Decoder, Mods, constant_operand, reject};
use super::memory::{SCOPES, ignore_cache_hints, take_space};
use super::op::{MbarrierOp, Op};
use super::types::{Space, Ty};
use crate::ptx::ast::{Instruction, Operand};

impl<'a> Decoder<'a, '_> {
    pub(super) fn cp(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let reduce = m.take("reduce");
        if !m.take("async") || reduce && !m.has("bulk") {
            return reject("form of cp is not supported");
        }
        if m.take("bulk") {
            return self.cp_bulk(i, m, reduce);
        }
        if m.take("commit_group") {
            m.finish()?;
            return self.emit(Op::CopyCommit, &[], &[]);
        }
        if m.take("wait_all") {
            m.finish()?;
            return self.emit(Op::CopyWait { keep: 0, all: true }, &[], &[]);
        }
        if m.take("wait_group") {
            m.finish()?;
            let keep = constant_operand(i)?.min(1 << 30) as u32;
            return self.emit(Op::CopyWait { keep, all: false }, &[], &[]);
        }
        if m.take("mbarrier") {
            m.take("arrive");
            let no_inc = m.take("noinc");
            let space = take_space(m);
            m.last_ty()?;
            let [address] = &i.operands[..] else { return reject("takes one address") };
            let (a, offset, _) = self.address(address)?;
            return self.emit(Op::CopyMbarrierArrive { no_inc, space, offset }, &[], &[a]);
        }
        let cg = m.take("cg");
        m.ignore(&["shared", "shared::cta", "global"]);
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
        self.emit(Op::CopyAsync { bytes, has_size, ignore, negate, dst_offset, src_offset }, &[], &sources)
    }

    pub(super) fn mbarrier(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let kind = m.take_of(&[
            ("init", MbarrierOp::Init),
            ("inval", MbarrierOp::Inval),
            ("arrive", MbarrierOp::Arrive { drop: false, no_complete: false, expect: false }),
            ("arrive_drop", MbarrierOp::Arrive { drop: true, no_complete: false, expect: false }),
            ("expect_tx", MbarrierOp::ExpectTx),
            ("complete_tx", MbarrierOp::CompleteTx),
            ("test_wait", MbarrierOp::TestWait { parity: false, try_wait: false }),
            ("try_wait", MbarrierOp::TestWait { parity: false, try_wait: true }),
            ("pending_count", MbarrierOp::PendingCount),
        ]);
        let Some(mut op) = kind else { return reject("operation is missing or unknown") };
        let incomplete = m.take("noComplete");
        let expects = op != MbarrierOp::ExpectTx && m.take("expect_tx");
        let by_parity = m.take("parity");
        match &mut op {
            MbarrierOp::Arrive { no_complete, expect, .. } => (*no_complete, *expect) = (incomplete, expects),
            MbarrierOp::TestWait { parity, .. } => *parity = by_parity,
            _ => {}
        }
        m.ignore(&["release", "acquire"]);
        // Expecting or completing bytes orders no accesses.
        let relaxed = m.take("relaxed") || matches!(op, MbarrierOp::ExpectTx | MbarrierOp::CompleteTx);
        m.take_of(SCOPES);
        let space = take_space(m);
        m.last_ty()?;
        if !matches!(space, Space::Shared | Space::Generic) {
            return reject("mbarrier objects live in shared memory");
        }
        let operands = &i.operands[..];
        if op == MbarrierOp::PendingCount {
            let [d, token] = operands else { return reject("takes 2 operands") };
            let (d, token) = (self.dst(d, Ty::U32)?, self.src(token, Ty::B64)?);
            return self.emit(Op::Mbarrier { op, space, offset: 0, relaxed }, &[d], &[token]);
        }
        let (results, rest) = match (op, operands) {
            (MbarrierOp::Arrive { .. }, [first, rest @ ..]) if !matches!(first, Operand::Address { .. }) => {
                (vec![self.dst(first, Ty::B64)?], rest)
            }
            (MbarrierOp::TestWait { .. }, [first, rest @ ..]) => (vec![self.pred_dst(first)?], rest),
            (MbarrierOp::TestWait { .. }, []) => return reject("missing operands"),
            _ => (Vec::new(), operands),
        };
        let [address, tail @ ..] = rest else { return reject("missing address") };
        let (a, offset, _) = self.address(address)?;
        let mut sources = vec![a];
        let wanted = match op {
            MbarrierOp::Arrive { no_complete: false, expect: false, .. } => 0..=1,
            MbarrierOp::Inval | MbarrierOp::PendingCount => 0..=0,
            _ => 1..=1,
        };
        // `try_wait` may have a time limit, which is only a hint and is ignored.
        let tail = match (op, tail) {
            (MbarrierOp::TestWait { try_wait: true, .. }, [value, _]) => std::slice::from_ref(value),
            _ => tail,
        };
        if !wanted.contains(&tail.len()) {
            return reject("wrong number of operands");
        }
        if let Some(operand) = tail.first() {
            let token = matches!(op, MbarrierOp::TestWait { parity: false, .. });
            sources.push(self.src(operand, if token { Ty::B64 } else { Ty::U32 })?);
        }
        self.emit(Op::Mbarrier { op, space, offset, relaxed }, &results, &sources)
    }
}
