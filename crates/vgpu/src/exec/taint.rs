//! Undefined values: each register has one bit per byte and lane, and the bit moves with the value.
//!
//! A program may copy, compute with and discard undefined values. It is a finding if an undefined value decides a
//! branch or an address. A stored undefined value taints memory, and tainted memory in an output buffer is a finding at
//! the end of the launch. No code of this module runs until a register of the warp is undefined (`Warp::tracking`).

use std::sync::atomic::Ordering;

use super::Policy;
use super::state::{Origin, RunningWarp, Source, Undef, collapse, spread};
use crate::isa::op::{BoolOp, Class, Flow, Inst, Slot};

impl<P: Policy> RunningWarp<'_, '_, P> {
    fn unit(&self, slot: Slot) -> usize {
        self.frag.reg_base as usize + slot.index()
    }

    /// Returns the undefined bytes of a register: low unit, high unit.
    pub fn undef_of(&self, slot: Slot) -> (Undef, Undef) {
        if !slot.is_frame() {
            return (0, 0);
        }
        match slot.class() {
            Class::Pred => {
                let m = self.w.pred_undef[self.frag.pred_base as usize + slot.index()];
                (spread(m), 0)
            }
            Class::R32 => (self.w.undef[self.unit(slot)], 0),
            Class::R64 => (self.w.undef[self.unit(slot)], self.w.undef[self.unit(slot) + 1]),
        }
    }

    /// Returns the lanes in which any byte of a register is undefined.
    pub fn undefined_lanes(&self, slot: Slot) -> u32 {
        let (lo, hi) = self.undef_of(slot);
        collapse(lo | hi)
    }

    pub fn origin_of(&self, slot: Slot) -> Origin {
        if !slot.is_frame() {
            return Origin(0);
        }
        Origin(match slot.class() {
            Class::Pred => self.w.pred_origin[self.frag.pred_base as usize + slot.index()],
            _ => self.w.origin[self.unit(slot)],
        })
    }

    /// Replaces the undefined bytes of a result in the lanes of the mask.
    pub fn set_undef(&mut self, slot: Slot, lo: Undef, hi: Undef, mask: u32, origin: Origin) {
        if !slot.is_frame() {
            return;
        }
        let lanes = spread(mask);
        let some = (lo | hi) & lanes != 0;
        match slot.class() {
            Class::Pred => {
                let p = self.frag.pred_base as usize + slot.index();
                let u = &mut self.w.pred_undef[p];
                *u = *u & !mask | collapse(lo) & mask;
                if some {
                    self.w.pred_origin[p] = origin.0;
                }
            }
            class => {
                let i = self.unit(slot);
                self.w.undef[i] = self.w.undef[i] & !lanes | lo & lanes;
                if class == Class::R64 {
                    self.w.undef[i + 1] = self.w.undef[i + 1] & !lanes | hi & lanes;
                }
                if some {
                    self.w.origin[i] = origin.0;
                }
            }
        }
        self.w.tracking |= some;
    }

    pub fn mark_undefined(&mut self, slot: Slot, mask: u32, origin: Origin) {
        self.set_undef(slot, spread(mask), spread(mask), mask, origin);
    }

    /// Marks the results as defined, whatever the sources are.
    pub fn define(&mut self, inst: &Inst, mask: u32) {
        if P::CHECK && self.w.tracking {
            for d in inst.results() {
                self.set_undef(*d, 0, 0, mask, Origin(0));
            }
        }
    }

    /// Returns the lanes in which any source is undefined, and the origin of one of them.
    fn undefined_among(&self, sources: &[Slot]) -> (u32, Origin) {
        let mut lanes = 0;
        let mut origin = Origin(0);
        for s in sources {
            let u = self.undefined_lanes(*s);
            if u != 0 {
                lanes |= u;
                origin = self.origin_of(*s).used_at(self.at());
            }
        }
        (lanes, origin)
    }

    /// An undefined source byte makes all results of its lane undefined.
    pub fn flow_any(&mut self, inst: &Inst, mask: u32) {
        if !P::CHECK || !self.w.tracking {
            return;
        }
        let (lanes, origin) = self.undefined_among(inst.sources());
        for d in inst.results() {
            self.set_undef(*d, spread(lanes), spread(lanes), mask, origin);
        }
    }

    /// Like `flow_any`, but an undefined lane makes all lanes undefined: for reductions and tensor products.
    pub fn flow_across(&mut self, inst: &Inst, mask: u32) {
        if !P::CHECK || !self.w.tracking {
            return;
        }
        let (lanes, origin) = self.undefined_among(inst.sources());
        let all = if lanes & mask != 0 { u32::MAX } else { 0 };
        for d in inst.results() {
            self.set_undef(*d, spread(all), spread(all), mask, origin);
        }
    }

    #[inline(never)]
    pub fn flow_lane(&mut self, inst: &Inst, flow: Flow, imm: u32, mask: u32) {
        let d = inst.r(0);
        let sources = inst.sources();
        let (lanes, origin) = self.undefined_among(sources);
        if lanes == 0 {
            self.set_undef(d, 0, 0, mask, origin);
            return;
        }
        let (mut lo, mut hi) = (0, 0);
        match flow {
            Flow::Any => {
                lo = spread(lanes);
                hi = lo;
            }
            Flow::Copy | Flow::Bytes | Flow::Resize => {
                for s in sources {
                    let (l, h) = self.undef_of(*s);
                    lo |= l;
                    hi |= h;
                }
            }
            Flow::And | Flow::Or => {
                // If the result has overwritten a source, `deciding` finds no deciding bytes in that source. This can
                // only make more bytes undefined. The undefined bytes of all sources are read before those of the
                // result are set.
                let (la, ha) = self.undef_of(sources[0]);
                let (lb, hb) = self.undef_of(sources[1]);
                let (da, dha) = self.deciding(sources[0], d, flow);
                let (db, dhb) = self.deciding(sources[1], d, flow);
                lo = (la & !(db & !lb)) | (lb & !(da & !la));
                hi = (ha & !(dhb & !hb)) | (hb & !(dha & !ha));
            }
            Flow::Shl | Flow::Shr => {
                let (l, h) = self.undef_of(sources[0]);
                if imm.is_multiple_of(8) {
                    // Each byte is a plane of 32 lanes, so a shift by bytes is a shift by planes.
                    let wide = d.is_wide();
                    let by = imm / 8 * 32;
                    if flow == Flow::Shl {
                        lo = l.checked_shl(by).unwrap_or(0);
                        if wide {
                            hi = h.checked_shl(by).unwrap_or(0)
                                | if by == 0 {
                                    0
                                } else if by < 128 {
                                    l >> (128 - by)
                                } else {
                                    l.checked_shl(by - 128).unwrap_or(0)
                                };
                        }
                    } else {
                        lo = l.checked_shr(by).unwrap_or(0);
                        if wide {
                            lo |= if by == 0 {
                                0
                            } else if by < 128 {
                                h << (128 - by)
                            } else {
                                h.checked_shr(by - 128).unwrap_or(0)
                            };
                            hi = h.checked_shr(by).unwrap_or(0);
                        }
                    }
                } else {
                    lo = spread(lanes);
                    hi = lo;
                }
            }
        }
        self.set_undef(d, lo, hi, mask, origin);
    }

    /// Returns the bytes of a source that decide the result alone: zeros for `and`, all ones for `or`. If the source is
    /// also the result, it is already overwritten, and none of its bytes count as deciding.
    fn deciding(&self, s: Slot, d: Slot, flow: Flow) -> (Undef, Undef) {
        if s == d {
            return (0, 0);
        }
        let values = self.wide(s);
        let wanted = if flow == Flow::And { 0 } else { 0xff };
        let (mut lo, mut hi) = (0, 0);
        for (l, v) in values.iter().enumerate() {
            for (b, byte) in v.to_le_bytes().into_iter().enumerate() {
                if byte == wanted {
                    let plane = if b < 4 { &mut lo } else { &mut hi };
                    *plane |= 1u128 << (b % 4 * 32 + l);
                }
            }
        }
        (lo, hi)
    }

    pub fn flow_test(&mut self, inst: &Inst, combine: Option<BoolOp>, negate: bool, mask: u32) {
        let n = inst.results as usize;
        let sources = inst.sources();
        let (mut lanes, origin) = self.undefined_among(sources);
        if let (Some(op), [_, _, c]) = (combine, sources) {
            // A defined combining predicate may decide the result alone.
            let value = self.pred(*c) ^ if negate { u32::MAX } else { 0 };
            let defined = !self.undefined_lanes(*c);
            lanes &= !match op {
                BoolOp::And => defined & !value,
                BoolOp::Or => defined & value,
                BoolOp::Xor => 0,
            };
        }
        for i in 0..n {
            self.set_undef(inst.r(i), spread(lanes), 0, mask, origin);
        }
    }

    pub fn flow_select(&mut self, inst: &Inst, p: u32, mask: u32) {
        if !P::CHECK || !self.w.tracking {
            return;
        }
        let (d, a, b, c) = (inst.r(0), inst.r(1), inst.r(2), inst.r(3));
        let ((la, ha), (lb, hb)) = (self.undef_of(a), self.undef_of(b));
        let by_pred = spread(self.undefined_lanes(c));
        let chosen = spread(p);
        let lo = la & chosen | lb & !chosen | by_pred;
        let hi = ha & chosen | hb & !chosen | by_pred;
        let at = self.at();
        let origin = [a, b, c]
            .into_iter()
            .filter(|s| self.undefined_lanes(*s) & mask != 0)
            .map(|s| self.origin_of(s).used_at(at))
            .next_back()
            .unwrap_or(Origin(0));
        self.set_undef(d, lo, hi, mask, origin);
    }

    /// Predicate logic. `a` and `b` are the values after negation. A move is treated as a xor with false.
    pub fn flow_pred(&mut self, inst: &Inst, op: BoolOp, a: u32, b: u32, mask: u32) {
        if !P::CHECK || !self.w.tracking {
            return;
        }
        let sources = inst.sources();
        let (_, origin) = self.undefined_among(sources);
        let ua = self.undefined_lanes(sources[0]);
        let ub = sources.get(1).map_or(0, |s| self.undefined_lanes(*s));
        let decided = match op {
            BoolOp::And => (!ua & !a) | (!ub & !b),
            BoolOp::Or => (!ua & a) | (!ub & b),
            BoolOp::Xor => 0,
        };
        self.set_undef(inst.r(0), spread((ua | ub) & !decided), 0, mask, origin);
    }

    pub fn flow_pack(&mut self, inst: &Inst, bits: u32, mask: u32) {
        if !P::CHECK || !self.w.tracking {
            return;
        }
        let (_, origin) = self.undefined_among(inst.sources());
        let (mut lo, mut hi) = (0u128, 0u128);
        let bytes = bits / 8;
        for (n, s) in inst.sources().iter().enumerate() {
            let (u, _) = self.undef_of(*s);
            let u = if bytes < 4 { u & ((1u128 << (bytes * 32)) - 1) } else { u };
            let at = n as u32 * bytes;
            if at < 4 {
                lo |= u << (at * 32);
            } else {
                hi |= u << ((at - 4) * 32);
            }
        }
        self.set_undef(inst.r(0), lo, hi, mask, origin);
    }

    pub fn flow_unpack(&mut self, inst: &Inst, bits: u32, mask: u32) {
        if !P::CHECK || !self.w.tracking {
            return;
        }
        let source = inst.sources()[0];
        let (_, origin) = self.undefined_among(&[source]);
        let (lo, hi) = self.undef_of(source);
        let bytes = bits / 8;
        let results: Vec<Slot> = inst.results().to_vec();
        for (n, d) in results.into_iter().enumerate() {
            let at = n as u32 * bytes;
            let u = if at < 4 { lo >> (at * 32) } else { hi >> ((at - 4) * 32) };
            let u = if bytes < 4 { u & ((1u128 << (bytes * 32)) - 1) } else { u };
            self.set_undef(d, u, 0, mask, origin);
        }
    }

    /// Reports an undefined guard, because a guard decides what executes.
    #[inline(never)]
    pub fn check_guard(&mut self, inst: &Inst) {
        let p = self.frag.pred_base as usize + inst.guard.pred();
        let lanes = self.w.pred_undef[p] & self.frag.mask;
        if lanes != 0 {
            let origin = Origin(self.w.pred_origin[p]);
            self.report_undefined(origin, lanes, "decides whether an instruction executes");
            // Report each value once. Afterwards the value counts as defined.
            self.w.pred_undef[p] &= !lanes;
        }
    }

    /// Reports an undefined register that is used where its value matters.
    #[inline(always)]
    pub fn check_use(&mut self, slot: Slot, mask: u32, how: &str) {
        if P::CHECK && self.w.tracking {
            self.check_tracked(slot, mask, how);
        }
    }

    #[inline(never)]
    fn check_tracked(&mut self, slot: Slot, mask: u32, how: &str) {
        let lanes = self.undefined_lanes(slot) & mask;
        if lanes != 0 {
            let origin = self.origin_of(slot);
            self.report_undefined(origin, lanes, how);
            self.set_undef(slot, 0, 0, lanes, Origin(0));
        }
    }

    pub fn report_undefined(&mut self, origin: Origin, lanes: u32, how: &str) {
        let site = self.site(lanes);
        self.worker.report_undefined(site, origin, how);
    }

    /// Records that a lane stored an undefined byte to shared or global memory.
    pub fn taint(&mut self, source: Source, address: u64, origin: Origin, lane: usize) {
        if source == Source::Shared {
            self.block.taints.insert(address as u32, origin);
        } else {
            self.grid.stored_undefined.store(true, Ordering::Relaxed);
            let site = self.site(1 << lane);
            self.worker.taint(address, origin, site);
        }
    }
}
