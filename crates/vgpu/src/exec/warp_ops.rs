//! Operations between the lanes of a warp: shuffles, votes, matches and `bar.warp.sync`.

use super::Policy;
use super::state::{Fragment, Next, Origin, RunningWarp, Source, State, collapse, spread};
use crate::check::Kind;
use crate::isa::op::{Inst, Op, ReduxOp, ShflMode, Slot, VoteMode};
use crate::lanes::{lanes, lanes_where};
use crate::num::float::{MinMax, min_max};

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Records the lanes of `missing` that have gone past the current instruction and still have something to do.
    /// Lanes that only exit, or that are on a way of their own to the end, may be absent: CUDA requires only the lanes
    /// that have not exited. If lanes that are recorded here exit, they have skipped the instruction.
    pub fn record_passed(&mut self, missing: u32) {
        let own = &self.frag;
        let past = |f: &Fragment| {
            let function = &self.grid.kernel.functions[f.function as usize];
            // In another function the lanes have at least the rest of a call before them.
            f.function != own.function || function.can_meet(own.pc, f.pc)
        };
        let passed = self.w.fragments.iter().filter(|f| f.mask & missing != 0 && past(f));
        let lanes = passed.fold(0, |m, f| m | f.mask & missing);
        if lanes != 0 {
            self.w.passed.push((own.function, own.pc, lanes));
        }
    }

    /// Returns the lanes that went past the current instruction and have exited, and forgets them.
    pub fn skipped(&mut self) -> u32 {
        let (function, pc, mut lanes) = (self.frag.function, self.frag.pc, 0);
        self.w.passed.retain(|(f, at, passed)| {
            let here = *f == function && *at == pc;
            lanes |= if here { *passed } else { 0 };
            !here
        });
        lanes & !self.w.live
    }

    /// Waits until all lanes that a `.sync` operation names have arrived. Returns true if the operation can continue
    /// with `mask`.
    fn gathered(&mut self, masks: &[u32; 32], mask: u32) -> bool {
        self.split_guarded(mask);
        let named = lanes(mask).fold(0, |m, l| m | masks[l]);
        let forced = self.frag.state == State::Forced;
        let missing = named & self.w.live & !mask;
        if missing != 0 && !forced {
            if P::CHECK {
                self.record_passed(missing);
            }
            self.frag.state = State::Gathering;
            return false;
        }
        self.frag.state = State::Ready;
        if P::CHECK {
            let skipped = self.skipped() & named;
            self.check_mask(masks, mask, missing | skipped);
        }
        true
    }

    /// Waits until all lanes of the warp have arrived. Returns false if some have not.
    pub fn whole_warp(&mut self, mask: u32) -> bool {
        self.split_guarded(mask);
        if mask != self.w.live && self.frag.state != State::Forced {
            self.frag.state = State::Gathering;
            return false;
        }
        self.frag.state = State::Ready;
        if P::CHECK && mask != u32::MAX {
            self.finding(Kind::DivergentWarpOp, mask, || {
                format!(
                    "only {} lanes of the warp execute an operation that needs all 32 lanes",
                    mask.count_ones()
                )
            });
        }
        true
    }

    /// Checks the masks of the lanes that execute a warp operation together. A mask may name lanes that have exited:
    /// CUDA requires only the lanes that have not exited. Reading the value of an exited lane is checked where the value
    /// is used.
    fn check_mask(&mut self, masks: &[u32; 32], mask: u32, missing: u32) {
        let outside = lanes_where(mask, |l| masks[l] >> l & 1 == 0);
        if outside != 0 {
            let m = masks[outside.trailing_zeros() as usize];
            self.finding(Kind::WarpMask, outside, || {
                format!("lanes {outside:#010x} execute the operation but are not in its mask {m:#010x}")
            });
        }
        if missing != 0 {
            self.finding(Kind::WarpMask, mask, || {
                format!(
                    "the mask names lanes {missing:#010x}, which do not execute the operation with the others"
                )
            });
        }
    }

    pub fn warp_sync(&mut self, inst: &Inst, mask: u32) -> Next {
        let masks = *self.r32(inst.r(0));
        let at = self.frag.clone();
        self.split_guarded(mask);
        let named = lanes(mask).fold(0, |m, l| m | masks[l]);
        let missing = named & self.w.live & !mask;
        if missing != 0 && at.state != State::Forced {
            // Lanes may execute `bar.warp.sync` at different instructions. The barrier completes when every lane waits
            // at one of them.
            let waiting = self.waiting_in_sync(named);
            if missing & !waiting != 0 {
                if P::CHECK {
                    self.record_passed(missing & !waiting);
                }
                self.frag.state = State::Gathering;
                return Next::Park;
            }
            self.release_sync(named);
        }
        let forced = at.state == State::Forced;
        self.frag.state = State::Ready;
        if P::CHECK {
            let skipped = self.skipped() & named;
            self.check_mask(&masks, mask, skipped | if forced { missing } else { 0 });
            // Lanes with different masks (tiles of the warp) synchronise only within their own mask.
            let mut left = mask;
            while left != 0 {
                let own = masks[left.trailing_zeros() as usize];
                left &= !lanes_where(left, |l| masks[l] == own);
                self.block.races.warp_sync(self.w.id, own & self.w.live);
            }
        }
        Next::Continue
    }

    fn is_sync(&self, f: &Fragment) -> bool {
        let function = &self.grid.kernel.functions[f.function as usize];
        f.state == State::Gathering && matches!(function.insts[f.pc as usize].op, Op::WarpSync)
    }

    /// Returns the lanes of the mask that wait at a `bar.warp.sync`.
    fn waiting_in_sync(&self, named: u32) -> u32 {
        self.w.fragments.iter().filter(|f| self.is_sync(f)).fold(0, |m, f| m | f.mask & named)
    }

    fn release_sync(&mut self, named: u32) {
        for i in 0..self.w.fragments.len() {
            if self.is_sync(&self.w.fragments[i]) && self.w.fragments[i].mask & named != 0 {
                let f = &mut self.w.fragments[i];
                f.state = State::Ready;
                f.pc += 1;
            }
        }
    }

    pub fn warp_op(&mut self, inst: &Inst, mask: u32) -> Next {
        let sources = inst.sources();
        let masks = *self.r32(sources[sources.len() - 1]);
        self.check_use(sources[sources.len() - 1], mask, "is used as a lane mask");
        if !self.gathered(&masks, mask) {
            return Next::Park;
        }
        match inst.op {
            Op::Shuffle { mode } => self.shuffle(inst, mode, &masks, mask),
            Op::Vote { mode, negate } => {
                let p = self.pred(sources[0]) ^ if negate { u32::MAX } else { 0 };
                self.vote(inst.r(0), mode, p, &masks, mask);
                self.flow_across(inst, mask);
            }
            Op::Match { all } => {
                let values = self.wide(sources[0]);
                let mut out = [0; 32];
                let mut agree = 0;
                for l in lanes(mask) {
                    let group = masks[l] & mask;
                    let same = lanes_where(group, |j| values[j] == values[l]);
                    out[l] = if !all || same == group { same } else { 0 };
                    agree |= u32::from(same == group) << l;
                }
                self.flow_across(inst, mask);
                self.set32(inst.r(0), &out, mask);
                if inst.results == 2 {
                    self.set_pred(inst.r(1), agree, mask);
                }
            }
            Op::Redux { op } => {
                let mut values = *self.r32(sources[0]);
                if let ReduxOp::Float { abs: true, .. } = op {
                    values = values.map(|v| v & 0x7fff_ffff);
                }
                let mut out = [0; 32];
                for l in lanes(mask) {
                    out[l] =
                        lanes(masks[l] & mask).map(|j| values[j]).reduce(|a, b| redux(op, a, b)).unwrap_or(0);
                    if let ReduxOp::Float { .. } = op {
                        // A NaN of a single lane becomes the usual NaN too.
                        out[l] = redux(op, out[l], out[l]);
                    }
                }
                self.flow_across(inst, mask);
                self.set32(inst.r(0), &out, mask);
            }
            Op::Elect => {
                let mut leader = [0; 32];
                let mut elected = 0;
                for l in lanes(mask) {
                    leader[l] = (masks[l] & mask).trailing_zeros() & 31;
                    elected |= u32::from(leader[l] as usize == l) << l;
                }
                self.set32(inst.r(0), &leader, mask);
                self.set_pred(inst.r(1), elected, mask);
                self.define(inst, mask);
            }
            _ => {}
        }
        Next::Continue
    }

    fn vote(&mut self, d: Slot, mode: VoteMode, p: u32, masks: &[u32; 32], mask: u32) {
        let mut out = [0; 32];
        let mut truth = 0u32;
        for l in lanes(mask) {
            let group = masks[l] & mask;
            out[l] = p & group;
            let holds = match mode {
                VoteMode::All => p & group == group,
                VoteMode::Any => p & group != 0,
                VoteMode::Uni => p & group == group || p & group == 0,
                VoteMode::Ballot => false,
            };
            truth |= u32::from(holds) << l;
        }
        if mode == VoteMode::Ballot {
            self.set32(d, &out, mask);
        } else {
            self.set_pred(d, truth, mask);
        }
    }

    fn shuffle(&mut self, inst: &Inst, mode: ShflMode, masks: &[u32; 32], mask: u32) {
        let sources = inst.sources();
        let (a, b, c) = (*self.r32(sources[0]), *self.r32(sources[1]), *self.r32(sources[2]));
        let mut out = [0; 32];
        let mut from = [0usize; 32];
        let mut in_range = 0u32;
        let mut outside = 0u32;
        for l in 0..32u32 {
            let i = l as usize;
            let (lane_b, clamp, segment) = (b[i] & 31, c[i] & 31, c[i] >> 8 & 31);
            let max_lane = (l & segment) | (clamp & !segment);
            let min_lane = l & segment;
            let (j, ok) = match mode {
                ShflMode::Up => {
                    let j = l as i32 - lane_b as i32;
                    (j, j >= max_lane as i32)
                }
                ShflMode::Down => {
                    let j = (l + lane_b) as i32;
                    (j, j <= max_lane as i32)
                }
                ShflMode::Bfly => {
                    let j = (l ^ lane_b) as i32;
                    (j, j <= max_lane as i32)
                }
                ShflMode::Idx => {
                    let j = (min_lane | (lane_b & !segment)) as i32;
                    (j, j <= max_lane as i32)
                }
            };
            let j = if ok { j as usize & 31 } else { i };
            in_range |= u32::from(ok) << l;
            from[i] = j;
            out[i] = a[j];
            if mask >> l & 1 == 1 && (mask & masks[i]) >> j & 1 == 0 {
                outside |= 1 << l;
            }
        }
        if P::CHECK && (self.w.tracking || outside != 0) {
            let (planes, _) = self.undef_of(sources[0]);
            let undefined = collapse(planes);
            let at = self.at();
            let source_origin = self.origin_of(sources[0]).used_at(at);
            let mut bad = lanes_where(mask, |l| undefined >> from[l] & 1 == 1);
            for s in [sources[1], sources[2]] {
                bad |= self.undefined_lanes(s) & mask;
            }
            let origin = if outside != 0 { Origin::new(Source::Shuffle, at) } else { source_origin };
            let d = inst.r(0);
            self.set_undef(d, spread(bad | outside), 0, mask, origin);
            if inst.results == 2 {
                self.set_undef(inst.r(1), 0, 0, mask, Origin(0));
            }
        }
        self.set32(inst.r(0), &out, mask);
        if inst.results == 2 {
            self.set_pred(inst.r(1), in_range, mask);
        }
    }
}

fn redux(op: ReduxOp, a: u32, b: u32) -> u32 {
    match op {
        ReduxOp::Add => a.wrapping_add(b),
        ReduxOp::MinU => a.min(b),
        ReduxOp::MinS => (a as i32).min(b as i32) as u32,
        ReduxOp::MaxU => a.max(b),
        ReduxOp::MaxS => (a as i32).max(b as i32) as u32,
        ReduxOp::And => a & b,
        ReduxOp::Or => a | b,
        ReduxOp::Xor => a ^ b,
        ReduxOp::Float { max, nan, .. } => {
            let m = MinMax { max, ftz: false, nan, xorsign: false };
            min_max(f32::from_bits(a), f32::from_bits(b), m).to_bits()
        }
    }
}
