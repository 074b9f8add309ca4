//! Arithmetic that is not a lane function, predicates, moves between widths, fences and special values.

use super::Policy;
use super::state::{Next, RunningWarp};
use crate::check::race::ProxySpace;
use crate::isa::lane::TestFn;
use crate::isa::op::{BoolOp, CarryKind, Inst};
use crate::isa::types::{Scope, Space};
use crate::num::cvt;

/// The mask that negates a predicate, or leaves it as it is.
#[inline(always)]
fn flip(negate: bool) -> u32 {
    if negate { u32::MAX } else { 0 }
}

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Compares the lanes of two registers. The results are a predicate and, perhaps, its complement.
    #[inline(always)]
    pub fn test(&mut self, inst: &Inst, f: TestFn, combine: Option<BoolOp>, negate: bool, mask: u32) {
        let sources = inst.results as usize;
        // SAFETY: the decoder has checked that the registers have the width of the function.
        let mut hit = unsafe { f(self.reg(inst.r(sources)), self.reg(inst.r(sources + 1))) };
        let mut miss = !hit;
        if let Some(op) = combine {
            let c = self.pred(inst.r(sources + 2)) ^ flip(negate);
            (hit, miss) = (op.apply(hit, c), op.apply(miss, c));
        }
        if P::CHECK && self.w.tracking {
            self.flow_test(inst, combine, negate, mask);
        }
        self.set_pred(inst.r(0), hit, mask);
        if sources == 2 {
            self.set_pred(inst.r(1), miss, mask);
        }
    }

    pub fn set_by_test(
        &mut self,
        inst: &Inst,
        f: TestFn,
        (combine, negate): (Option<BoolOp>, bool),
        truth: u32,
        mask: u32,
    ) -> Next {
        // SAFETY: the decoder has checked the widths.
        let mut hit = unsafe { f(self.reg(inst.r(1)), self.reg(inst.r(2))) };
        if let Some(op) = combine {
            hit = op.apply(hit, self.pred(inst.r(3)) ^ flip(negate));
        }
        self.set32(inst.r(0), &choose(&[truth; 32], &[0; 32], hit), mask);
        self.flow_any(inst, mask);
        Next::Continue
    }

    pub fn select(&mut self, inst: &Inst, negate: bool, mask: u32) -> Next {
        let p = self.pred(inst.r(3)) ^ flip(negate);
        self.flow_select(inst, p, mask);
        let (d, a, b) = (inst.r(0), inst.r(1), inst.r(2));
        if d.is_wide() {
            self.set64(d, &choose(self.r64(a), self.r64(b), p), mask);
        } else {
            self.set32(d, &choose(self.r32(a), self.r32(b), p), mask);
        }
        Next::Continue
    }

    pub fn pred_logic(&mut self, inst: &Inst, op: BoolOp, negate: [bool; 2], mask: u32) -> Next {
        let (a, b) = (self.pred(inst.r(1)) ^ flip(negate[0]), self.pred(inst.r(2)) ^ flip(negate[1]));
        self.flow_pred(inst, op, a, b, mask);
        self.set_pred(inst.r(0), op.apply(a, b), mask);
        Next::Continue
    }

    pub fn pred_move(&mut self, inst: &Inst, negate: bool, mask: u32) -> Next {
        let a = self.pred(inst.r(1)) ^ flip(negate);
        self.flow_pred(inst, BoolOp::Xor, a, 0, mask);
        self.set_pred(inst.r(0), a, mask);
        Next::Continue
    }

    pub fn pred_set(&mut self, inst: &Inst, value: bool, mask: u32) -> Next {
        self.set_pred(inst.r(0), flip(value), mask);
        self.define(inst, mask);
        Next::Continue
    }

    pub fn pack(&mut self, inst: &Inst, bits: u32, mask: u32) -> Next {
        let low = u64::from(u32::MAX >> (32 - bits));
        let mut out = [0u64; 32];
        for (n, s) in inst.sources().iter().enumerate() {
            let part = self.r32(*s);
            for l in 0..32 {
                out[l] |= (u64::from(part[l]) & low) << (n as u32 * bits);
            }
        }
        self.flow_pack(inst, bits, mask);
        self.set(inst.r(0), &out, mask);
        Next::Continue
    }

    pub fn unpack(&mut self, inst: &Inst, bits: u32, mask: u32) -> Next {
        let low = u32::MAX >> (32 - bits);
        let source = self.wide(inst.sources()[0]);
        self.flow_unpack(inst, bits, mask);
        for (n, d) in inst.results().iter().enumerate() {
            let part = source.map(|v| (v >> (n as u32 * bits)) as u32 & low);
            self.set32(*d, &part, mask);
        }
        Next::Continue
    }

    pub fn convert(&mut self, inst: &Inst, op: cvt::Cvt, pair: bool, mask: u32) -> Next {
        let (d, a) = (inst.r(0), inst.r(1));
        let (mut narrow, mut wide) = ([0; 32], [0; 32]);
        match (a.is_wide(), d.is_wide()) {
            _ if pair => cvt::lanes_pair(op, self.r32(a), self.r32(inst.r(2)), &mut narrow),
            (false, false) => cvt::lanes_32_32(op, self.r32(a), &mut narrow),
            (false, true) => cvt::lanes_32_64(op, self.r32(a), &mut wide),
            (true, false) => cvt::lanes_64_32(op, self.r64(a), &mut narrow),
            (true, true) => cvt::lanes_64_64(op, self.r64(a), &mut wide),
        }
        if d.is_wide() {
            self.set64(d, &wide, mask);
        } else {
            self.set32(d, &narrow, mask);
        }
        self.flow_any(inst, mask);
        Next::Continue
    }

    pub fn carry(
        &mut self,
        inst: &Inst,
        kind: CarryKind,
        (carry_in, carry_out): (bool, bool),
        signed: bool,
        mask: u32,
    ) -> Next {
        let sources = inst.sources();
        let d = inst.r(0);
        let bits = if d.is_wide() { 64 } else { 32 };
        let full = if bits == 64 { u128::from(u64::MAX) } else { u128::from(u32::MAX) };
        let flags = if carry_in { self.pred(sources[sources.len() - 1]) } else { 0 };
        let (a, b) = (self.wide(sources[0]), self.wide(sources[1]));
        let c =
            if matches!(kind, CarryKind::MadLo | CarryKind::MadHi) { self.wide(sources[2]) } else { [0; 32] };
        let mut out = [0u64; 32];
        let mut flag = 0u32;
        for l in 0..32 {
            let carry = u128::from(flags >> l & 1);
            let (x, y) = (u128::from(a[l]), u128::from(b[l]));
            let sum = match kind {
                CarryKind::Add => x + y + carry,
                // Borrow: the flag is set when the difference is negative.
                CarryKind::Sub => x.wrapping_sub(y).wrapping_sub(carry) & (full << 1 | 1),
                CarryKind::MadLo => (x.wrapping_mul(y) & full) + u128::from(c[l]) + carry,
                CarryKind::MadHi => {
                    let product = match (signed, bits) {
                        (false, _) => x.wrapping_mul(y),
                        (true, 32) => {
                            (i128::from(a[l] as u32 as i32) * i128::from(b[l] as u32 as i32)) as u128
                        }
                        (true, _) => (i128::from(a[l] as i64) * i128::from(b[l] as i64)) as u128,
                    };
                    (product >> bits & full) + u128::from(c[l]) + carry
                }
            };
            out[l] = (sum & full) as u64;
            flag |= u32::from(sum >> bits & 1 == 1) << l;
        }
        self.set(d, &out, mask);
        if carry_out {
            self.set_pred(inst.r(1), flag, mask);
        }
        self.flow_any(inst, mask);
        Next::Continue
    }

    pub fn local_address(&mut self, inst: &Inst, offset: u32, mask: u32) -> Next {
        let address = u64::from(self.frag.local_base) + u64::from(offset);
        self.set(inst.r(0), &[address; 32], mask);
        self.define(inst, mask);
        Next::Continue
    }

    pub fn is_space(&mut self, inst: &Inst, space: Space, mask: u32) -> Next {
        let a = self.r64(inst.r(1));
        let mut hit = 0;
        for l in 0..32 {
            hit |= u32::from(self.grid.windows.space_of(a[l]) == space) << l;
        }
        self.set_pred(inst.r(0), hit, mask);
        self.define(inst, mask);
        Next::Continue
    }

    pub fn fence(&mut self, scope: Scope, mask: u32) -> Next {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        if P::CHECK {
            self.block.races.fence(self.w.id, mask, scope);
        }
        Next::Continue
    }

    pub fn proxy_fence(&mut self, space: Option<Space>, mask: u32) -> Next {
        if P::CHECK {
            let space = space.map(|space| match space {
                Space::Global => ProxySpace::Global,
                _ => ProxySpace::Shared,
            });
            self.block.races.proxy_fence(self.w.id, mask, space);
        }
        Next::Continue
    }

    pub fn active_mask(&mut self, inst: &Inst, mask: u32) -> Next {
        self.set32(inst.r(0), &[mask; 32], mask);
        self.define(inst, mask);
        Next::Continue
    }

    pub fn clock(&mut self, inst: &Inst, global: bool, high: bool, mask: u32) -> Next {
        // All instructions of a block are counted when the block begins.
        let function = self.function();
        let block = &function.blocks[function.block_of[self.frag.pc as usize] as usize];
        let rest = u64::from(block.end - self.frag.pc);
        let time = self.worker.time(rest);
        let now = if global { self.grid.nanoseconds(time) } else { self.grid.clocks(self.block.smid, time) };
        self.set(inst.r(0), &[if high { now >> 32 } else { now }; 32], mask);
        self.define(inst, mask);
        Next::Continue
    }
}

/// Returns the lanes of `a` where `mask` has a bit, and the lanes of `b` elsewhere.
#[inline(always)]
fn choose<T: Copy>(a: &[T; 32], b: &[T; 32], mask: u32) -> [T; 32] {
    let mut out = *b;
    for l in 0..32 {
        out[l] = if mask >> l & 1 == 1 { a[l] } else { b[l] };
    }
    out
}
