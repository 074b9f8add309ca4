//! Tensor instructions: all lanes of the warp together.

use super::Policy;
use super::memory::{Addresses, Span, Use};
use super::step::{Cx, Next, narrow};
use super::survey::Survey;
use super::taint::{Origin, Source, collapse, spread};
use super::warp::{State, Undef};
use crate::check::Kind;
use crate::isa::op::{Access, Inst, Mma, Op, Order, Slot, WmmaMemory};
use crate::isa::types::{MemType, Scope, Space, Ty};
use crate::mem::{shadow, window};
use crate::num::tile;
use crate::num::{Lanes, Lanes64};

impl<P: Policy> Cx<'_, '_, P> {
    pub fn tensor(&mut self, inst: &Inst, mask: u32) -> Next {
        self.split_guarded(mask);
        if mask != self.w.live && self.frag.state != State::Forced {
            self.frag.state = State::Gathering;
            return Next::Park;
        }
        self.frag.state = State::Ready;
        if P::CHECK && mask != u32::MAX {
            self.finding(Kind::DivergentWarpOp, mask, || {
                format!("the operation needs all lanes of the warp, {} execute it", mask.count_ones())
            });
        }
        match &inst.op {
            Op::LoadMatrix { trans, space, offset } => self.load_matrix(inst, *trans, *space, *offset, mask),
            Op::StoreMatrix { trans, space, offset } => {
                self.store_matrix(inst, *trans, *space, *offset, mask)
            }
            Op::MoveMatrix => {
                let out = tile::matrix::transpose(self.r32(inst.r(1)));
                self.flow_across(inst, mask);
                self.set32(inst.r(0), &out, mask);
                Next::Continue
            }
            Op::WmmaLoad(m) => self.wmma_load(inst, m, mask),
            Op::WmmaStore(m) => self.wmma_store(inst, m, mask),
            Op::Mma(m) => {
                self.mma(inst, m, mask);
                Next::Continue
            }
            _ => Next::Continue,
        }
    }

    /// Row addresses of one matrix, one per lane of its group of eight; relative to shared memory.
    fn row_addresses(&mut self, slot: Slot, space: Space, offset: i32, mask: u32) -> [u64; 32] {
        let ad = self.addresses(slot, offset, mask, 16);
        let base = if space == Space::Generic { window::SHARED } else { 0 };
        ad.at.map(|a| a.wrapping_sub(base))
    }

    fn rows(at: &[u64; 32], matrix: usize) -> Addresses {
        let mut rows = [at[matrix * 8]; 32];
        rows[..8].copy_from_slice(&at[matrix * 8..matrix * 8 + 8]);
        survey(rows, 0xff)
    }

    pub fn matrix_access() -> Access {
        Access {
            space: Space::Shared,
            ty: MemType::of(Ty::B32),
            vector: 4,
            order: Order::Weak,
            scope: Scope::Cta,
            non_coherent: false,
            offset: 0,
            quick: false,
        }
    }

    fn load_matrix(&mut self, inst: &Inst, trans: bool, space: Space, offset: i32, mask: u32) -> Next {
        let count = inst.results as usize;
        let users = if count == 4 { mask } else { mask & ((1u64 << (count * 8)) - 1) as u32 };
        if users == 0 {
            return Next::Continue;
        }
        let at = self.row_addresses(inst.sources()[0], space, offset, users);
        for n in 0..count {
            let ad = Self::rows(&at, n);
            if P::COUNT {
                self.count_access(Space::Shared, &ad, 16, 0xff, Use::Load);
            }
            let mut left = 0xff;
            let d = inst.results()[n];
            let mut block: tile::matrix::Block = [[0; 16]; 8];
            let mut good = 0;
            let mut undefined = false;
            let mut origin = Origin(0);
            if let Some((group, span)) = self.span(Space::Shared, &ad, 16, &mut left, Use::Load) {
                good = group;
                for row in super::lanes(group) {
                    // SAFETY: the span holds sixteen bytes at each address of the group.
                    unsafe {
                        std::ptr::copy_nonoverlapping(span.host(ad.at[row]), block[row].as_mut_ptr(), 16);
                    };
                    if P::CHECK {
                        for b in 0..16 {
                            // SAFETY: as above.
                            if unsafe { *span.state(ad.at[row] + b) } & 1 == 0 {
                                undefined = true;
                                origin = self
                                    .stored_origin(span.source, ad.at[row] + b)
                                    .unwrap_or(Origin::new(span.source, self.at()));
                            }
                        }
                    }
                }
                if P::CHECK {
                    self.on_matrix(&span, &at, n, group, Use::Load);
                }
            }
            if good != 0xff {
                if !P::CHECK {
                    return Next::Halt;
                }
                undefined = true;
                origin = Origin::new(super::taint::Source::Reported, self.at());
            }
            let out = tile::matrix::load(&block, trans);
            self.set32(d, &out, mask);
            if P::CHECK && (self.w.tracking || undefined) {
                let u = if undefined { spread(u32::MAX) } else { 0 };
                self.set_undef(d, u, 0, mask, origin);
            }
        }
        Next::Continue
    }

    fn store_matrix(&mut self, inst: &Inst, trans: bool, space: Space, offset: i32, mask: u32) -> Next {
        let regs = &inst.sources()[1..];
        let count = regs.len();
        let users = if count == 4 { mask } else { mask & ((1u64 << (count * 8)) - 1) as u32 };
        if users == 0 {
            return Next::Continue;
        }
        let at = self.row_addresses(inst.sources()[0], space, offset, users);
        for (n, r) in regs.iter().enumerate() {
            let ad = Self::rows(&at, n);
            if P::COUNT {
                self.count_access(Space::Shared, &ad, 16, 0xff, Use::Store);
            }
            let block = tile::matrix::store(self.r32(*r), trans);
            let undefined = P::CHECK && self.w.tracking && self.undefined_lanes(*r) & mask != 0;
            let mut left = 0xff;
            match self.span(Space::Shared, &ad, 16, &mut left, Use::Store) {
                Some((group, span)) => {
                    if P::CHECK {
                        self.on_matrix(&span, &at, n, group, Use::Store);
                    }
                    for row in super::lanes(group) {
                        let state = if undefined { shadow::TAINTED } else { shadow::WRITTEN };
                        // SAFETY: the span holds sixteen bytes at each address of the group.
                        unsafe {
                            std::ptr::copy_nonoverlapping(block[row].as_ptr(), span.host(ad.at[row]), 16);
                            if P::CHECK {
                                span.state(ad.at[row]).write_bytes(state, 16);
                            }
                        }
                    }
                    if group != 0xff && !P::CHECK {
                        return Next::Halt;
                    }
                }
                None if !P::CHECK => return Next::Halt,
                None => {}
            }
        }
        self.block.progress += 1;
        Next::Continue
    }

    /// Base address (of the first lane) and stride in elements.
    fn wmma_base(&mut self, inst: &Inst, m: &WmmaMemory, mask: u32) -> (u64, u64, Space) {
        let sources = inst.sources();
        let first = mask.trailing_zeros() as usize & 31;
        let ad = self.addresses(sources[0], m.offset, mask, 1);
        let mut base = ad.at[first];
        let mut space = m.space;
        if space == Space::Generic {
            space = window::space_of(base);
            base = base.wrapping_sub(window::base(space));
        }
        let natural = if m.column_major { m.fragment.rows } else { m.fragment.cols } as u32;
        let stride = if m.has_stride { self.r32(sources[sources.len() - 1])[first] } else { natural };
        (base, u64::from(stride), space)
    }

    fn piece_addresses(m: &WmmaMemory, piece: usize, base: u64, stride: u64) -> Addresses {
        let row = stride.wrapping_mul(m.fragment.elem.bits() as u64 / 8);
        let mut at = [0u64; 32];
        for l in 0..32 {
            let offset =
                u64::from(m.steps[piece][l]).wrapping_mul(row).wrapping_add(u64::from(m.along[piece][l]));
            at[l] = base.wrapping_add(offset);
        }
        survey(at, u32::MAX)
    }

    /// The memory of a whole tile, if it lies in one piece of memory and is aligned: a span that starts at the tile's
    /// base, and bytes per step.
    fn whole_tile(
        &mut self,
        m: &WmmaMemory,
        base: u64,
        stride: u64,
        space: Space,
        write: bool,
    ) -> Option<(Span, u32)> {
        let element = m.fragment.elem.bits() as u64 / 8;
        let row = u32::try_from(stride.checked_mul(element)?).ok().filter(|r| *r < 1 << 24)?;
        let (steps, run) = if m.column_major {
            (m.fragment.cols, m.fragment.rows)
        } else {
            (m.fragment.rows, m.fragment.cols)
        };
        let bytes = (steps as u64 - 1) * u64::from(row) + run as u64 * element;
        let piece = u64::from(m.piece_bytes);
        if piece > 4 || !base.is_multiple_of(piece) || !u64::from(row).is_multiple_of(piece) {
            return None;
        }
        match space {
            Space::Shared => {
                if base.checked_add(bytes)? > u64::from(self.block.shared_bytes) {
                    return None;
                }
                let memory = self.block.shared.as_mut_ptr().cast::<u8>().wrapping_add(base as usize);
                let shadow = self.block.shared_shadow.as_mut_ptr().wrapping_add(base as usize);
                Some((Span { base: memory, shadow, low: base, source: Source::Shared }, row))
            }
            Space::Global => {
                let region = self.grid.region_of(base);
                if !region.holds(base, bytes) || write && region.constant {
                    return None;
                }
                let at = (base - region.address) as usize;
                let (memory, shadow) = (region.data.wrapping_add(at), region.shadow.wrapping_add(at));
                Some((Span { base: memory, shadow, low: base, source: Source::Global }, row))
            }
            _ => None,
        }
    }

    /// The common fragment load: the whole tile in one piece of memory, all of it defined. False, and nothing done,
    /// if it is not that.
    fn wmma_load_quick(&mut self, inst: &Inst, m: &WmmaMemory, base: u64, stride: u64, space: Space) -> bool {
        let Some((span, row)) = self.whole_tile(m, base, stride, space, false) else { return false };
        let per = m.steps.len() / m.fragment.regs;
        let distinct = m.fragment.distinct;
        let mut out = [[0u32; 32]; 8];
        let mut states = [0u32; 32];
        if distinct > out.len() {
            return false;
        }
        for (r, to) in out[..distinct].iter_mut().enumerate() {
            // SAFETY: the whole tile lies in memory, and in its shadow.
            unsafe {
                self.gather_pieces(span.base, m, r, per, row, to);
                if P::CHECK {
                    self.gather_pieces(span.shadow, m, r, per, row, &mut states);
                    if states.iter().fold(u32::MAX, |all, s| all & s) & 0x0101_0101 != 0x0101_0101 {
                        return false;
                    }
                }
            }
        }
        if P::CHECK {
            let access = Access { vector: 1, ..Self::wmma_access(m, space) };
            for piece in 0..distinct * per {
                let ad = Self::piece_addresses(m, piece, base, stride);
                self.before_access(
                    space,
                    &span,
                    &ad,
                    u32::from(m.piece_bytes),
                    u32::MAX,
                    Use::Load,
                    &access,
                    &[],
                );
            }
        }
        for (r, d) in inst.results().iter().enumerate() {
            self.set32(*d, &out[r % distinct], u32::MAX);
        }
        self.define(inst, u32::MAX);
        true
    }

    /// One register of a fragment: its pieces side by side.
    ///
    /// # Safety
    /// The tile must lie in memory from `base` on.
    unsafe fn gather_pieces(
        &self,
        base: *const u8,
        m: &WmmaMemory,
        r: usize,
        per: usize,
        row: u32,
        out: &mut [u32; 32],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if m.piece_bytes == 4 {
                (self.kernels.gather_tile)(base, &m.steps[r], &m.along[r], row, out.as_mut_ptr());
                return;
            }
            *out = [0; 32];
            for k in 0..per {
                let (steps, along) = (&m.steps[r * per + k], &m.along[r * per + k]);
                for l in 0..32 {
                    let at = base.wrapping_add(steps[l] as usize * row as usize + along[l] as usize);
                    let v = if m.piece_bytes == 2 {
                        u32::from(at.cast::<u16>().read_unaligned())
                    } else {
                        u32::from(*at)
                    };
                    out[l] |= v << (k as u32 * u32::from(m.piece_bytes) * 8);
                }
            }
        }
    }

    /// The common fragment store, as `wmma_load_quick`.
    fn wmma_store_quick(
        &mut self,
        regs: &[Slot],
        m: &WmmaMemory,
        base: u64,
        stride: u64,
        space: Space,
    ) -> bool {
        if P::CHECK && self.w.tracking && regs.iter().any(|r| self.undefined_lanes(*r) != 0) {
            return false;
        }
        let Some((span, row)) = self.whole_tile(m, base, stride, space, true) else { return false };
        if m.piece_bytes != 4 {
            return false;
        }
        if P::CHECK {
            let access = Access { vector: 1, ..Self::wmma_access(m, space) };
            for piece in 0..regs.len() {
                let ad = Self::piece_addresses(m, piece, base, stride);
                self.before_access(space, &span, &ad, 4, u32::MAX, Use::Store, &access, &regs[piece..=piece]);
            }
        }
        for (r, s) in regs.iter().enumerate() {
            let values = self.r32(*s);
            for l in 0..32 {
                let at = m.steps[r][l] as usize * row as usize + m.along[r][l] as usize;
                // SAFETY: the whole tile lies in memory, and in its shadow.
                unsafe {
                    span.base.add(at).cast::<u32>().write_unaligned(values[l]);
                    if P::CHECK {
                        span.shadow.add(at).cast::<u32>().write_unaligned(0x0303_0303);
                    }
                }
            }
        }
        self.block.progress += 1;
        true
    }

    fn wmma_access(m: &WmmaMemory, space: Space) -> Access {
        let ty = match m.piece_bytes {
            1 => Ty::B8,
            2 => Ty::B16,
            8 => Ty::B64,
            _ => Ty::B32,
        };
        Access { space, ty: MemType::of(ty), ..Self::matrix_access() }
    }

    fn wmma_load(&mut self, inst: &Inst, m: &WmmaMemory, mask: u32) -> Next {
        let (base, stride, space) = self.wmma_base(inst, m, mask);
        let size = u32::from(m.piece_bytes);
        let wide = m.fragment.elem.bits() == 64;
        let per = m.steps.len() / m.fragment.regs;
        if !P::COUNT && mask == u32::MAX && self.wmma_load_quick(inst, m, base, stride, space) {
            return Next::Continue;
        }
        let access = Access { vector: 1, ..Self::wmma_access(m, space) };
        for (r, d) in inst.results().iter().enumerate() {
            let mut out = [0u64; 32];
            let mut undefined: Undef = 0;
            let mut origin = Origin(0);
            for k in 0..per {
                let ad = Self::piece_addresses(m, r * per + k, base, stride);
                if P::COUNT {
                    self.count_access(space, &ad, size, mask, Use::Load);
                }
                let mut left = u32::MAX;
                let mut failed = u32::MAX;
                while left != 0 {
                    let Some((group, span)) = self.span(space, &ad, size, &mut left, Use::Load) else {
                        break;
                    };
                    left &= !group;
                    failed &= !group;
                    for l in super::lanes(group) {
                        let mut raw = [0u8; 8];
                        // SAFETY: the span holds the piece of every lane of the group.
                        unsafe {
                            std::ptr::copy_nonoverlapping(
                                span.host(ad.at[l]),
                                raw.as_mut_ptr(),
                                size as usize,
                            );
                        };
                        out[l] |= u64::from_le_bytes(raw) << (k as u32 * size * 8);
                        if P::CHECK {
                            for b in 0..u64::from(size) {
                                // SAFETY: as above.
                                if unsafe { *span.state(ad.at[l] + b) } & 1 == 0 {
                                    undefined |= spread(1 << l);
                                    origin = self
                                        .stored_origin(span.source, ad.at[l] + b)
                                        .unwrap_or(Origin::new(span.source, self.at()));
                                }
                            }
                        }
                    }
                    if P::CHECK {
                        self.before_access(space, &span, &ad, size, group & mask, Use::Load, &access, &[]);
                    }
                }
                if failed != 0 {
                    if !P::CHECK {
                        return Next::Halt;
                    }
                    undefined |= spread(failed);
                    origin = Origin::new(super::taint::Source::Reported, self.at());
                }
            }
            if wide {
                self.set64(*d, &out, mask);
            } else {
                self.set32(*d, &narrow(&out), mask);
            }
            if P::CHECK && (self.w.tracking || undefined != 0) {
                self.set_undef(*d, undefined, undefined, mask, origin);
            }
        }
        Next::Continue
    }

    fn wmma_store(&mut self, inst: &Inst, m: &WmmaMemory, mask: u32) -> Next {
        let (base, stride, space) = self.wmma_base(inst, m, mask);
        let size = u32::from(m.piece_bytes);
        let per = m.steps.len() / m.fragment.regs;
        let access = Access { vector: 1, ..Self::wmma_access(m, space) };
        let regs = &inst.sources()[1..=m.fragment.regs];
        if !P::COUNT && mask == u32::MAX && self.wmma_store_quick(regs, m, base, stride, space) {
            return Next::Continue;
        }
        for (r, s) in regs.iter().enumerate() {
            let values = self.wide(*s);
            let bad = if P::CHECK && self.w.tracking { self.undefined_lanes(*s) } else { 0 };
            let stored = if bad != 0 { self.origin_of(*s).used_at(self.at()) } else { Origin(0) };
            for k in 0..per {
                let ad = Self::piece_addresses(m, r * per + k, base, stride);
                if P::COUNT {
                    self.count_access(space, &ad, size, mask, Use::Store);
                }
                let mut left = mask;
                let mut failed = mask;
                while left != 0 {
                    let Some((group, span)) = self.span(space, &ad, size, &mut left, Use::Store) else {
                        break;
                    };
                    left &= !group;
                    failed &= !group;
                    if P::CHECK {
                        self.before_access(space, &span, &ad, size, group, Use::Store, &access, &[]);
                    }
                    for l in super::lanes(group) {
                        let raw = (values[l] >> (k as u32 * size * 8)).to_le_bytes();
                        // SAFETY: the span holds the piece of every lane of the group.
                        unsafe {
                            std::ptr::copy_nonoverlapping(raw.as_ptr(), span.host(ad.at[l]), size as usize);
                        };
                        if P::CHECK {
                            let tainted = bad >> l & 1 == 1;
                            let state = if tainted { shadow::TAINTED } else { shadow::WRITTEN };
                            // SAFETY: as above.
                            unsafe { span.state(ad.at[l]).write_bytes(state, size as usize) };
                            if tainted {
                                let (at, block, warp) = (self.at(), self.block.index, self.w.id);
                                for b in 0..u64::from(size) {
                                    if space == Space::Shared {
                                        self.block.taints.insert((ad.at[l] + b) as u32, stored);
                                    } else {
                                        self.worker.taint(ad.at[l] + b, stored, at, block, warp, l as u32);
                                    }
                                }
                            }
                        }
                    }
                }
                if failed != 0 && !P::CHECK {
                    return Next::Halt;
                }
            }
        }
        self.block.progress += 1;
        Next::Continue
    }

    fn mma(&mut self, inst: &Inst, m: &Mma, mask: u32) {
        let sources = inst.sources();
        let (a, rest) = sources.split_at(m.a as usize);
        let (b, c) = rest.split_at(m.b as usize);
        let results = inst.results as usize;
        if m.wide {
            let list = |slots: &[Slot]| -> Vec<&Lanes64> { slots.iter().map(|s| self.r64(*s)).collect() };
            let mut d = vec![[0u64; 32]; results];
            tile::mma_f64(&m.op, &list(a), &list(b), &list(c), &mut d);
            self.flow_across(inst, mask);
            for (slot, value) in inst.results().iter().zip(&d) {
                self.set64(*slot, value, mask);
            }
            return;
        }
        static NOTHING: Lanes = [0; 32];
        let mut ra: [&Lanes; 8] = [&NOTHING; 8];
        let mut rb: [&Lanes; 8] = [&NOTHING; 8];
        let mut rc: [&Lanes; 8] = [&NOTHING; 8];
        // The decoder has checked the numbers of registers against the fragments, which have eight at most.
        for (i, s) in a.iter().enumerate() {
            ra[i] = self.r32(*s);
        }
        for (i, s) in b.iter().enumerate() {
            rb[i] = self.r32(*s);
        }
        for (i, s) in c.iter().enumerate() {
            rc[i] = self.r32(*s);
        }
        let mut d = [[0u32; 32]; 8];
        tile::mma(&m.op, &ra[..a.len()], &rb[..b.len()], &rc[..c.len()], &mut d[..results]);
        if P::CHECK && self.w.tracking {
            self.flow_mma(inst, m, mask);
        }
        for (i, slot) in inst.results().iter().enumerate() {
            self.set32(*slot, &d[i], mask);
        }
    }

    /// An undefined element of a or b reaches a row or column; for simplicity all of d. One of c reaches its own.
    fn flow_mma(&mut self, inst: &Inst, m: &Mma, mask: u32) {
        let sources = inst.sources();
        let operands = (m.a + m.b) as usize;
        let at = self.at();
        let mut all = 0;
        let mut origin = Origin(0);
        for s in &sources[..operands] {
            if self.undefined_lanes(*s) & mask != 0 {
                all = u32::MAX;
                origin = self.origin_of(*s).used_at(at);
            }
        }
        let same = m.op.c == m.op.d;
        let per_result: Vec<(u32, Origin)> = sources[operands..]
            .iter()
            .map(|s| {
                let (lo, hi) = self.undef_of(*s);
                (collapse(lo | hi), self.origin_of(*s).used_at(at))
            })
            .collect();
        let any_c = per_result.iter().fold(0, |u, (l, _)| u | l);
        for (n, d) in inst.results().iter().enumerate() {
            let (lanes, from) = match per_result.get(n) {
                Some((l, o)) if same => (*l, *o),
                _ => (any_c, per_result.iter().find(|(l, _)| *l != 0).map_or(Origin(0), |(_, o)| *o)),
            };
            let u = spread(lanes | all);
            self.set_undef(*d, u, u, mask, if all != 0 { origin } else { from });
        }
    }
}

fn survey(at: [u64; 32], mask: u32) -> Addresses {
    let mut s = Survey { min: u64::MAX, max: 0, or: 0, contiguous: false, uniform: false };
    for l in super::lanes(mask) {
        s.min = s.min.min(at[l]);
        s.max = s.max.max(at[l]);
        s.or |= at[l];
    }
    Addresses { at, survey: s }
}
