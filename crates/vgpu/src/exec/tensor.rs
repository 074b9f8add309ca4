//! Tensor instructions that all lanes of one warp execute together: `ldmatrix`, `stmatrix`, `wmma` and `mma`.

use super::Policy;
use super::memory::all_defined;
use super::state::{
    AccessKind, Addresses, Next, Origin, Request, RunningWarp, Source, Span, TileBase, Undef, collapse,
    relative, spread,
};
use super::survey::survey_of;
use crate::isa::op::{Access, Inst, Mma, MmaKind, Op, Order, Slot, TileForm, WmmaMemory};
use crate::isa::types::{MemType, Scope, Space, Ty};
use crate::lanes::lanes;
use crate::mem::shadow;
use crate::num::tile;
use crate::num::{Lanes, Lanes64};

impl<P: Policy> RunningWarp<'_, '_, P> {
    pub fn tensor(&mut self, inst: &Inst, mask: u32) -> Next {
        if !self.whole_warp(mask) {
            return Next::Park;
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

    /// Returns the addresses of matrix rows, relative to shared memory. Lane `8 n + r` gives row `r` of matrix `n`. An
    /// inactive lane has the address of the first active lane.
    fn row_addresses(&mut self, slot: Slot, space: Space, offset: i32, mask: u32) -> Addresses {
        let ad = self.addresses(slot, offset, mask, 16);
        if space == Space::Generic { relative(&ad, u32::MAX, self.grid.windows.shared) } else { ad }
    }

    pub fn matrix_access() -> Access {
        Access {
            space: Space::Shared,
            ty: MemType::from_type(Ty::B32),
            vector: 4,
            order: Order::Weak,
            scope: Scope::Cta,
            non_coherent: false,
            offset: 0,
            quick: false,
            is_async: false,
        }
    }

    /// Returns the lanes whose addresses are used.
    fn matrix_lanes(count: usize, mask: u32) -> u32 {
        if count == 4 { mask } else { mask & ((1u64 << (count * 8)) - 1) as u32 }
    }

    /// Handles counters, bounds and races of all rows at once. Returns the rows that are in bounds, and their span.
    fn matrix_rows(
        &mut self,
        ad: &Addresses,
        count: usize,
        users: u32,
        (kind, values): (AccessKind, &[Slot]),
    ) -> (u32, Option<Span>) {
        let request = Request { kind, space: Space::Shared, addresses: ad, size: 16 };
        if P::COUNT {
            for n in 0..count {
                self.count_access(&request, users & 0xff << (8 * n));
            }
        }
        let mut left = users;
        let Some((group, span)) = self.span(&request, &mut left) else {
            return (0, None);
        };
        if P::CHECK {
            self.before_access(&request, &span, group, &Self::matrix_access(), values);
        }
        // An inactive lane uses the row of the first active lane.
        let first = group >> (users.trailing_zeros() & 31) & 1;
        (if first == 1 { group | !users } else { group }, Some(span))
    }

    fn load_matrix(&mut self, inst: &Inst, trans: bool, space: Space, offset: i32, mask: u32) -> Next {
        let count = inst.results as usize;
        let users = Self::matrix_lanes(count, mask);
        if users == 0 {
            return Next::Continue;
        }
        let ad = self.row_addresses(inst.sources()[0], space, offset, users);
        let (good, span) = self.matrix_rows(&ad, count, users, (AccessKind::Load, &[]));
        for n in 0..count {
            let d = inst.results()[n];
            let mut block: tile::matrix::Block = [[0; 16]; 8];
            let mut undefined = None;
            let rows = good >> (8 * n) & 0xff;
            if let Some(span) = &span {
                for row in lanes(rows) {
                    let at = ad.at[8 * n + row];
                    // SAFETY: the span contains sixteen bytes at each address of the group.
                    unsafe {
                        block[row] = span.host(at).cast::<[u8; 16]>().read_unaligned();
                        if P::CHECK && !all_defined(span.state(at), 16) {
                            undefined = Some(self.undefined_row(span, at));
                        }
                    };
                }
            }
            if rows != 0xff {
                if !P::CHECK {
                    return Next::Halt;
                }
                undefined = Some(Origin::new(Source::Reported, self.at()));
            }
            let out = tile::matrix::load(&block, trans);
            self.set32(d, &out, mask);
            if P::CHECK && (self.w.tracking || undefined.is_some()) {
                let u = if undefined.is_some() { spread(u32::MAX) } else { 0 };
                self.set_undef(d, u, 0, mask, undefined.unwrap_or(Origin(0)));
            }
        }
        Next::Continue
    }

    /// Returns the origin of the last undefined byte of a row.
    #[cold]
    fn undefined_row(&self, span: &Span, row: u64) -> Origin {
        let here = Origin::new(span.source, self.at());
        // SAFETY: the span contains sixteen bytes there.
        let undefined = (row..row + 16).rev().find(|at| unsafe { *span.state(*at) } & 1 == 0);
        undefined.and_then(|at| self.stored_origin(span.source, at)).unwrap_or(here)
    }

    fn store_matrix(&mut self, inst: &Inst, trans: bool, space: Space, offset: i32, mask: u32) -> Next {
        let regs = &inst.sources()[1..];
        let count = regs.len();
        let users = Self::matrix_lanes(count, mask);
        if users == 0 {
            return Next::Continue;
        }
        let ad = self.row_addresses(inst.sources()[0], space, offset, users);
        let (good, span) =
            self.matrix_rows(&ad, count, users, (AccessKind::Store, if trans { &[] } else { regs }));
        for (n, r) in regs.iter().enumerate() {
            let block = tile::matrix::store(self.r32(*r), trans);
            let undefined = P::CHECK && self.w.tracking && self.undefined_lanes(*r) & mask != 0;
            let state = if undefined { shadow::TAINTED } else { shadow::WRITTEN };
            let rows = good >> (8 * n) & 0xff;
            if let Some(span) = &span {
                for row in lanes(rows) {
                    let at = ad.at[8 * n + row];
                    // SAFETY: the span contains sixteen bytes at each address of the group.
                    unsafe {
                        span.host(at).cast::<[u8; 16]>().write_unaligned(block[row]);
                        if P::CHECK {
                            span.state(at).write_bytes(state, 16);
                        }
                    }
                }
            }
            if rows != 0xff && !P::CHECK {
                return Next::Halt;
            }
        }
        self.block.progress += 1;
        Next::Continue
    }

    /// Returns where a tile lies in memory. Its base is the address of the first active lane.
    fn tile_base(&mut self, inst: &Inst, m: &WmmaMemory, mask: u32) -> TileBase {
        let sources = inst.sources();
        let first = mask.trailing_zeros() as usize & 31;
        let ad = self.addresses(sources[0], m.offset, mask, 1);
        let mut base = ad.at[first];
        let mut space = m.space;
        if space == Space::Generic {
            space = self.grid.windows.space_of(base);
            base = base.wrapping_sub(self.grid.windows.base(space));
        }
        let natural = if m.column_major { m.fragment.rows } else { m.fragment.cols } as u32;
        let stride = if m.has_stride { self.r32(sources[sources.len() - 1])[first] } else { natural };
        TileBase { space, base, stride: u64::from(stride) }
    }

    fn piece_addresses(m: &WmmaMemory, piece: usize, tile: &TileBase) -> Addresses {
        let row = tile.stride.wrapping_mul(m.fragment.elem.bits() as u64 / 8);
        let mut at = [0u64; 32];
        for l in 0..32 {
            let offset =
                u64::from(m.steps[piece][l]).wrapping_mul(row).wrapping_add(u64::from(m.along[piece][l]));
            at[l] = tile.base.wrapping_add(offset);
        }
        Addresses { survey: survey_of(u32::MAX, &at), at }
    }

    /// Resolves the memory of a whole tile. Returns a span that starts at the tile's base, and the number of bytes per
    /// step. Returns `None` unless the tile lies in one allocation, is aligned, and its rows do not overlap.
    fn whole_tile(&mut self, m: &WmmaMemory, tile: &TileBase, write: bool) -> Option<(Span, u32)> {
        let &TileBase { space, base, stride } = tile;
        let element = m.fragment.elem.bits() as u64 / 8;
        let row = u32::try_from(stride.checked_mul(element)?).ok().filter(|r| *r < 1 << 24)?;
        let steps = if m.column_major { m.fragment.cols } else { m.fragment.rows };
        let bytes = (steps as u64 - 1) * u64::from(row) + u64::from(m.run);
        let piece = u64::from(m.piece_bytes);
        if piece > 4 || row < m.run || !(base | u64::from(row)).is_multiple_of(piece) {
            return None;
        }
        match space {
            Space::Shared => {
                if base.checked_add(bytes)? > u64::from(self.block.shared_end) {
                    return None;
                }
                Some((self.whole_shared().starting_at(base), row))
            }
            Space::Global => {
                let region = self.grid.region_of(base);
                if !region.holds(base, bytes) || write && region.constant {
                    return None;
                }
                Some((Span::from_region(&region).starting_at(base), row))
            }
            _ => None,
        }
    }

    /// Fast path for the common fragment load: the whole tile lies in one allocation and is defined. Returns false
    /// without any effect if the load is different.
    fn wmma_load_quick(&mut self, inst: &Inst, m: &WmmaMemory, tile: &TileBase) -> bool {
        let Some((span, row)) = self.whole_tile(m, tile, false) else { return false };
        let per = m.steps.len() / m.fragment.regs;
        let distinct = m.fragment.distinct;
        let mut out = [[0u32; 32]; 8];
        if distinct > out.len() {
            return false;
        }
        let runs = m.lanes.len() * m.piece_bytes as usize / m.run as usize;
        // SAFETY: memory and its shadow contain the whole tile.
        unsafe {
            let defined = self.functions.tile_defined;
            if P::CHECK
                && !self.is_defined(&span)
                && !defined(span.shadow, row as usize, runs, m.run as usize)
            {
                return false;
            }
            (self.functions.load_tile)(span.base, row as usize, m, &mut out);
        }
        if P::CHECK && !self.before_tile(m, tile, row, AccessKind::Load) {
            for piece in 0..distinct * per {
                let addresses = &Self::piece_addresses(m, piece, tile);
                let request = tile.request(AccessKind::Load, m, addresses);
                self.before_access(&request, &span, u32::MAX, &Self::wmma_access(m, tile.space), &[]);
            }
        }
        for (r, d) in inst.results().iter().enumerate() {
            self.set32(*d, &out[r % distinct], u32::MAX);
        }
        self.define(inst, u32::MAX);
        true
    }

    /// Fast path for the common fragment store, like `wmma_load_quick`.
    fn wmma_store_quick(&mut self, regs: &[Slot], m: &WmmaMemory, tile: &TileBase) -> bool {
        if P::CHECK && self.w.tracking && regs.iter().any(|r| self.undefined_lanes(*r) != 0) {
            return false;
        }
        let Some((span, row)) = self.whole_tile(m, tile, true) else { return false };
        if regs.len() > 8 || m.piece_bytes != 4 {
            return false;
        }
        if P::CHECK && !self.before_tile(m, tile, row, AccessKind::Store) {
            let access = Self::wmma_access(m, tile.space);
            for piece in 0..regs.len() {
                let addresses = &Self::piece_addresses(m, piece, tile);
                let request = tile.request(AccessKind::Store, m, addresses);
                self.before_access(&request, &span, u32::MAX, &access, &regs[piece..=piece]);
            }
        }
        let mut registers = [std::ptr::null(); 8];
        for (register, slot) in registers.iter_mut().zip(regs) {
            *register = self.reg(*slot).cast_const();
        }
        // SAFETY: memory and its shadow contain the whole tile.
        unsafe {
            (self.functions.store_tile)(span.base, row as usize, m, &registers[..regs.len()]);
            if P::CHECK {
                for r in 0..m.lanes.len() * m.piece_bytes as usize / m.run as usize {
                    span.shadow.add(r * row as usize).write_bytes(shadow::WRITTEN, m.run as usize);
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
        Access { space, ty: MemType::from_type(ty), vector: 1, ..Self::matrix_access() }
    }

    /// Counts the memory requests that the assembler generates for a fragment, which differ from the PTX description.
    /// In shared memory, ldmatrix loads 8x8 blocks of 16-bit elements. Each block is loaded once even if a fragment
    /// holds it twice. Two adjacent words of a lane use one access of eight bytes.
    fn count_fragment(&mut self, m: &WmmaMemory, tile: &TileBase, mask: u32, kind: AccessKind) {
        let row = tile.stride.wrapping_mul(m.fragment.elem.bits() as u64 / 8);
        let mut count = |at: [u64; 32], size: u32, mask: u32| {
            let addresses = &Addresses { survey: survey_of(mask, &at), at };
            self.count_access(&Request { kind, space: tile.space, addresses, size }, mask);
        };
        let pieces = m.steps.len();
        let per = pieces / m.fragment.regs;
        match m.form {
            TileForm::Rows | TileForm::Columns if tile.space == Space::Shared && kind == AccessKind::Load => {
                for p in (0..m.fragment.distinct * per).step_by(per) {
                    let start = |g: usize| {
                        let step = u64::from(m.steps[p][0]) + g as u64;
                        tile.base.wrapping_add(step.wrapping_mul(row)).wrapping_add(u64::from(m.along[p][0]))
                    };
                    count(std::array::from_fn(|l| start(l % 8)), 16, 0xff);
                }
            }
            TileForm::Pairs => {
                for p in (0..pieces).step_by(2) {
                    count(Self::piece_addresses(m, p, tile).at, 8, mask);
                }
            }
            _ => {
                for p in 0..pieces {
                    count(Self::piece_addresses(m, p, tile).at, u32::from(m.piece_bytes), mask);
                }
            }
        }
    }

    fn wmma_load(&mut self, inst: &Inst, m: &WmmaMemory, mask: u32) -> Next {
        let tile = &self.tile_base(inst, m, mask);
        let size = u32::from(m.piece_bytes);
        let per = m.steps.len() / m.fragment.regs;
        if !P::COUNT && mask == u32::MAX && self.wmma_load_quick(inst, m, tile) {
            return Next::Continue;
        }
        let access = Self::wmma_access(m, tile.space);
        if P::COUNT {
            self.count_fragment(m, tile, mask, AccessKind::Load);
        }
        for (r, d) in inst.results().iter().enumerate() {
            let mut out = [0u64; 32];
            let mut undefined: Undef = 0;
            let mut origin = Origin(0);
            for k in 0..per {
                let ad = Self::piece_addresses(m, r * per + k, tile);
                let request = tile.request(AccessKind::Load, m, &ad);
                let mut left = u32::MAX;
                let mut failed = u32::MAX;
                while left != 0 {
                    let Some((group, span)) = self.span(&request, &mut left) else { break };
                    left &= !group;
                    failed &= !group;
                    for l in lanes(group) {
                        let mut raw = [0u8; 8];
                        // SAFETY: the span contains the piece of every lane of the group.
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
                        self.before_access(&request, &span, group & mask, &access, &[]);
                    }
                }
                if failed != 0 {
                    if !P::CHECK {
                        return Next::Halt;
                    }
                    undefined |= spread(failed);
                    origin = Origin::new(Source::Reported, self.at());
                }
            }
            self.set(*d, &out, mask);
            if P::CHECK && (self.w.tracking || undefined != 0) {
                self.set_undef(*d, undefined, undefined, mask, origin);
            }
        }
        Next::Continue
    }

    fn wmma_store(&mut self, inst: &Inst, m: &WmmaMemory, mask: u32) -> Next {
        let tile = &self.tile_base(inst, m, mask);
        let size = u32::from(m.piece_bytes);
        let per = m.steps.len() / m.fragment.regs;
        let access = Self::wmma_access(m, tile.space);
        let regs = &inst.sources()[1..=m.fragment.regs];
        if !P::COUNT && mask == u32::MAX && self.wmma_store_quick(regs, m, tile) {
            return Next::Continue;
        }
        if P::COUNT {
            self.count_fragment(m, tile, mask, AccessKind::Store);
        }
        for (r, s) in regs.iter().enumerate() {
            let values = self.wide(*s);
            let bad = if P::CHECK && self.w.tracking { self.undefined_lanes(*s) } else { 0 };
            let stored = if bad != 0 { self.origin_of(*s).used_at(self.at()) } else { Origin(0) };
            for k in 0..per {
                let ad = Self::piece_addresses(m, r * per + k, tile);
                let request = tile.request(AccessKind::Store, m, &ad);
                let mut left = mask;
                let mut failed = mask;
                while left != 0 {
                    let Some((group, span)) = self.span(&request, &mut left) else { break };
                    left &= !group;
                    failed &= !group;
                    if P::CHECK {
                        self.before_access(&request, &span, group, &access, &[]);
                    }
                    for l in lanes(group) {
                        let raw = (values[l] >> (k as u32 * size * 8)).to_le_bytes();
                        // SAFETY: the span contains the piece of every lane of the group.
                        unsafe {
                            std::ptr::copy_nonoverlapping(raw.as_ptr(), span.host(ad.at[l]), size as usize);
                        };
                        if P::CHECK {
                            let tainted = bad >> l & 1 == 1;
                            let state = if tainted { shadow::TAINTED } else { shadow::WRITTEN };
                            // SAFETY: as above.
                            unsafe { span.state(ad.at[l]).write_bytes(state, size as usize) };
                            if tainted {
                                for b in 0..u64::from(size) {
                                    self.taint(span.source, ad.at[l] + b, stored, l);
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
        if m.kind != MmaKind::Dense {
            return self.mma_of_kind(inst, m, mask);
        }
        static NOTHING: Lanes = [0; 32];
        let mut ra: [&Lanes; 8] = [&NOTHING; 8];
        let mut rb: [&Lanes; 8] = [&NOTHING; 8];
        let mut rc: [&Lanes; 8] = [&NOTHING; 8];
        // The decoder has checked the numbers of registers against the fragments, which have at most eight.
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

    /// Products that are not dense. They are rare, so an undefined source marks all of d.
    fn mma_of_kind(&mut self, inst: &Inst, m: &Mma, mask: u32) {
        let regs: Vec<&Lanes> = inst.sources().iter().map(|s| self.r32(*s)).collect();
        let (a, rest) = regs.split_at(m.a as usize);
        let (b, c) = rest.split_at(m.b as usize);
        let mut d = vec![[0u32; 32]; inst.results as usize];
        match m.kind {
            MmaKind::Quads(form) => form.mma([a[0], a[1]], [b[0], b[1]], c, &mut d),
            MmaKind::Sparse { selector } => {
                if let [c @ .., metadata] = c {
                    tile::sparse::mma(&m.op, a, b, c, metadata, usize::from(selector), &mut d);
                }
            }
            MmaKind::Dense => {}
        }
        self.flow_across(inst, mask);
        for (slot, value) in inst.results().iter().zip(&d) {
            self.set32(*slot, value, mask);
        }
    }

    /// An undefined element of a or b affects a row or column of d. For simplicity it marks all of d. An undefined
    /// element of c marks only its own element.
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
