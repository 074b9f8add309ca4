//! Hooks that the step loop calls for the checkers and counters: findings, memory accesses, watched states and memory
//! transactions.

use super::Policy;
use super::state::{
    AccessKind, Addresses, Grid, Request, RunningWarp, Source, Span, TileBase, Watch, narrow,
};
use crate::check::Site;
use crate::check::race;
use crate::check::race::Equality;
use crate::isa::op::{Access, Op, Order, Slot, WmmaMemory};
use crate::isa::types::Space;
use crate::lanes::lanes;
use crate::num::codec;
use crate::program::facts::{AfterAtomic, Fact, Varies};

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Tells the race checker about an access before it happens. `values` are the registers that a store writes.
    pub fn before_access(
        &mut self,
        request: &Request<'_>,
        span: &Span,
        lanes: u32,
        access: &Access,
        values: &[Slot],
    ) {
        let &Request { kind, space, addresses: ad, size } = request;
        let (site, race) = (self.site(lanes), race_access(kind, access));
        if kind == AccessKind::Atomic || kind == AccessKind::Load && access.order != Order::Weak {
            self.w.last_poll = Some(site.pc);
        }
        let stored;
        let values: &dyn race::StoredValues = if values.is_empty() {
            &race::Differs
        } else {
            stored = self.stored(span, lanes, access, &ad.at, values);
            stored.observe();
            &stored
        };
        let races = &mut self.block.races;
        match space {
            Space::Shared if access.is_async => {
                for l in crate::lanes::lanes(lanes) {
                    let site = Site { lanes: 1 << l, ..site };
                    if span.low != 0 {
                        races.agent_writes_remote(race::Agent::Copy, site, ad.at[l], size);
                    } else {
                        races.agent_writes_shared(race::Agent::Copy, site, &narrow(&ad.at), size);
                    }
                }
                if span.low != 0 {
                    self.check_peer_runs(span, lanes);
                    self.note_visit(span, lanes);
                }
            }
            Space::Shared if span.low != 0 => {
                races.remote(site, race, &race::Ranges { at: &ad.at, bytes: size, values });
                self.check_peer_runs(span, lanes);
                self.note_visit(span, lanes);
            }
            Space::Shared => {
                let (at, s) = (&narrow(&ad.at), &ad.survey);
                let pattern =
                    access_pattern(s.min as u32, s.max as u32, s.or as u32, s.contiguous, s.uniform);
                races.shared_at(site, race, &race::Ranges { at, bytes: size, values }, &pattern);
            }
            Space::Global => {
                let ranges = race::Ranges { at: &ad.at, bytes: size, values };
                races.global(&self.grid.races, site, race, &ranges);
            }
            _ => {}
        }
    }

    /// Tells the race checker about the whole tile of a fragment. Returns false if the race checker needs the
    /// individual pieces instead.
    pub fn before_tile(&mut self, m: &WmmaMemory, tile: &TileBase, row: u32, kind: AccessKind) -> bool {
        if tile.space != Space::Shared {
            return false;
        }
        let op = if kind == AccessKind::Load { race::Op::Read } else { race::Op::Write };
        let unit = u32::from(m.piece_bytes);
        let shape = race::Tile { base: tile.base as u32, row, run: m.run, unit, lanes: &m.lanes };
        let site = self.site(u32::MAX);
        self.block.races.shared_tile(site, race::Access::weak(op), &shape)
    }

    /// Called after the access has taken effect.
    pub fn after_access(&mut self, request: &Request<'_>, lanes: u32, access: &Access) {
        let &Request { kind, space, addresses: ad, size } = request;
        if space == Space::Global && access.order != Order::Weak {
            let (site, race) = (self.site(lanes), race_access(kind, access));
            self.block.races.global_observed(&self.grid.races, site, race, &ad.at, size);
        }
    }

    /// Called while the grid makes no progress. Detects that the warp returns to the same instruction with the same
    /// registers. It will then repeat this for ever unless memory changes.
    #[inline(never)]
    pub fn watch(&mut self) {
        let place = (self.frag.function, self.frag.pc, self.frag.mask);
        if self.w.watch.place == place {
            let hash = self.state_hash();
            if self.w.watch.hash == hash {
                self.w.watch.repeats = true;
                return;
            }
            self.w.watch.visits += 1;
            // Record the hash again at visits 1, 2, 4, 8 and so on. This also finds a cycle that begins after some
            // initial iterations.
            if self.w.watch.visits.is_power_of_two() {
                self.w.watch.hash = hash;
            }
        } else if self.w.watch.visits == 0 {
            self.w.watch = Watch { place, hash: self.state_hash(), visits: 1, repeats: false };
        }
    }

    fn state_hash(&self) -> u64 {
        let mut h = 0xcbf2_9ce4_8422_2325u64;
        let mut mix = |v: u64| h = (h ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        // Hash the frames of all fragments. Another fragment may be deeper in calls than this one and may still make
        // progress.
        let fragments = || self.w.fragments.iter().chain(std::iter::once(&self.frag));
        let (mut units, mut preds) = (0, 0);
        for f in fragments() {
            let frame = &self.grid.kernel.functions[f.function as usize].frame;
            units = units.max(f.reg_base + frame.units);
            preds = preds.max(f.pred_base + frame.preds);
        }
        for unit in &self.w.regs[..units as usize] {
            for pair in unit.0.chunks_exact(2) {
                mix(u64::from(pair[0]) | u64::from(pair[1]) << 32);
            }
        }
        for p in &self.w.preds[..preds as usize] {
            mix(u64::from(*p));
        }
        for f in fragments() {
            mix(u64::from(f.mask) | u64::from(f.pc) << 32);
            // The callers belong to the state: the same function called from another instruction is a different state.
            for frame in &f.stack {
                mix(u64::from(frame.function) | u64::from(frame.pc) << 32);
            }
        }
        h
    }

    /// Counts a memory request of the current instruction.
    pub fn count_access(&mut self, request: &Request<'_>, mask: u32) {
        let &Request { kind, space, addresses: ad, size } = request;
        let at = self.at() as usize;
        // Asynchronous copies and loads that must see the writes of others bypass L1, as stores and atomics do.
        let bypasses = match &self.function().insts[self.frag.pc as usize].op {
            Op::CopyAsync { .. } => true,
            Op::Load(access) => access.order != Order::Weak,
            _ => false,
        };
        let cached = kind == AccessKind::Load && !bypasses;
        let (transactions, ideal) = match space {
            Space::Shared => wavefronts(ad, size, mask),
            Space::Local => {
                // Local memory is interleaved: the same offset of different lanes is contiguous.
                let mut words: Vec<u64> = lanes(mask).map(|l| ad.at[l] / 4).collect();
                words.sort_unstable();
                words.dedup();
                let per = u64::from(size.div_ceil(4)) * 4;
                (words.len() as u64 * per, per)
            }
            Space::Param => return,
            Space::Global | Space::Generic => {
                let mut sectors = [0u64; 32 * 2];
                let mut n = 0;
                for l in lanes(mask) {
                    let first = ad.at[l] / 32;
                    let last = ad.at[l].saturating_add(u64::from(size) - 1) / 32;
                    for s in first..=last {
                        if n < sectors.len() && (n == 0 || sectors[n - 1] != s) {
                            sectors[n] = s;
                            n += 1;
                        }
                    }
                }
                sectors[..n].sort_unstable();
                let mut distinct = 0;
                let mut line = u64::MAX;
                for i in 0..n {
                    if i == 0 || sectors[i] != sectors[i - 1] {
                        distinct += 1;
                        if !cached || self.block.sectors.insert(sectors[i]) {
                            self.worker.counts.l2_sectors += 1;
                        }
                        if sectors[i] / 4 != line {
                            line = sectors[i] / 4;
                            self.worker.counts.lines.insert(line);
                        }
                    }
                }
                let ideal = (u64::from(mask.count_ones()) * u64::from(size)).div_ceil(32);
                (distinct, ideal)
            }
        };
        let c = &mut self.worker.counts.insts[at];
        let traffic = match space {
            Space::Shared => &mut c.shared,
            Space::Local => &mut c.local,
            _ => &mut c.global,
        };
        traffic.requests += 1;
        traffic.transactions += transactions;
        traffic.ideal += ideal.min(transactions);
    }
}

impl<'c, P: Policy> RunningWarp<'c, '_, P> {
    /// Returns the values that a store is about to write.
    #[inline(always)]
    pub fn stored<'a, A>(
        &self,
        span: &Span,
        mask: u32,
        access: &Access,
        at: &'a [A; 32],
        values: &[Slot],
    ) -> Stored<'a, A>
    where
        'c: 'a,
    {
        let grid = self.grid;
        Stored {
            grid,
            span: *span,
            is_matrix: matches!(self.function().insts[self.frag.pc as usize].op, Op::StoreMatrix { .. }),
            warp: self.w.id,
            pc: self.at(),
            mask,
            at,
            bytes: access.ty.bytes,
            registers: std::array::from_fn(|i| {
                values.get(i).map_or(std::ptr::null(), |v| self.reg(*v).cast_const())
            }),
            wide: std::array::from_fn(|i| values.get(i).is_some_and(|v| v.is_wide())),
            count: values.len().min(8),
        }
    }
}

fn race_access(kind: AccessKind, access: &Access) -> race::Access {
    let op = match kind {
        AccessKind::Load => race::Op::Read,
        AccessKind::Store => race::Op::Write,
        AccessKind::Atomic => race::Op::Atomic,
    };
    race::Access { op, order: access.order, scope: access.scope }
}

/// Returns the pattern of offsets in shared memory, from their survey.
#[inline(always)]
pub fn access_pattern(min: u32, max: u32, or: u32, contiguous: bool, uniform: bool) -> race::AccessPattern {
    let shape = if contiguous {
        race::Shape::Row
    } else if uniform {
        race::Shape::Point
    } else {
        race::Shape::Scattered
    };
    race::AccessPattern { min, max, or, shape }
}

/// Number of wavefronts of a shared-memory request: the largest number of different words that one of the 32 banks must
/// deliver. Requests of 8 bytes take two passes of half the lanes each, and requests of 16 bytes four passes of a
/// quarter of the lanes each.
fn wavefronts(ad: &Addresses, size: u32, mask: u32) -> (u64, u64) {
    let passes = (size / 4).clamp(1, 4);
    let lanes_per_pass = 32 / passes;
    // An aligned request of 8 or 16 bytes uses 2 or 4 adjacent banks for each lane, so these banks count as one.
    let unit = size.clamp(4, 16);
    let aligned = size.is_multiple_of(unit) && lanes(mask).all(|l| ad.at[l].is_multiple_of(u64::from(unit)));
    let unit = if aligned { unit } else { 4 };
    let (shift, slots) = (unit.trailing_zeros(), u64::from(128 / unit));
    let (mut total, mut ideal) = (0, 0);
    for pass in 0..passes {
        let active = mask >> (pass * lanes_per_pass) & ((1u64 << lanes_per_pass) - 1) as u32;
        if active == 0 {
            continue;
        }
        let units = || {
            lanes(active).flat_map(|l| {
                let a = ad.at[l + (pass * lanes_per_pass) as usize];
                a >> shift..=a.saturating_add(u64::from(size) - 1) >> shift
            })
        };
        total +=
            if without_conflict(units(), slots) { 1 } else { max_units_per_slot(units().collect(), slots) };
        ideal += 1;
    }
    (total, ideal)
}

/// Whether each slot of banks delivers at most one unit. This holds for most requests and is quick to check.
fn without_conflict(units: impl Iterator<Item = u64>, slots: u64) -> bool {
    let (mut used, mut first) = (0u32, [0u64; 32]);
    for unit in units {
        let slot = (unit & (slots - 1)) as usize % 32;
        if used >> slot & 1 == 0 {
            used |= 1 << slot;
            first[slot] = unit;
        } else if first[slot] != unit {
            return false;
        }
    }
    true
}

/// Returns the largest number of different units that one slot of banks must deliver.
fn max_units_per_slot(mut units: Vec<u64>, slots: u64) -> u64 {
    units.sort_unstable();
    units.dedup();
    let mut delivered = [0u64; 32];
    for unit in &units {
        delivered[(unit & (slots - 1)) as usize % 32] += 1;
    }
    delivered.into_iter().max().unwrap_or(0)
}

/// The values that a store is about to write, for comparison with those of other stores.
#[derive(Debug)]
pub struct Stored<'a, A> {
    grid: &'a Grid<'a>,
    /// The memory that is stored to.
    span: Span,
    /// Each lane has the address of a row of a matrix, and the values of a row are in four lanes.
    is_matrix: bool,
    warp: u32,
    pc: u32,
    mask: u32,
    at: &'a [A; 32],
    bytes: u8,
    registers: [*const u32; 8],
    wide: [bool; 8],
    count: usize,
}

impl<A> Stored<'_, A> {
    fn value(&self, element: usize, lane: usize) -> u64 {
        // SAFETY: the pointers are registers of the running frame, with the recorded widths.
        unsafe {
            if self.wide[element] {
                *self.registers[element].cast::<u64>().add(lane)
            } else {
                u64::from(*self.registers[element].add(lane))
            }
        }
    }
}

impl<A> Stored<'_, A> {
    fn fact(&self, pc: u32) -> Fact {
        self.grid.kernel.facts.get(pc as usize).copied().unwrap_or(Fact::UNKNOWN)
    }

    /// How equal two rows of matrices are whose addresses two threads have.
    fn compare_rows(&self, one: usize, other: usize) -> Equality {
        if one % 32 / 8 != other % 32 / 8 {
            return Equality::Unknown;
        }
        let thread = |row: usize, i: usize| row / 32 * 32 + row % 8 * 4 + i;
        let compare = |i| self.grid.compare_stores(self.pc, thread(one, i), thread(other, i));
        (0..4).map(compare).min().unwrap_or(Equality::Unknown)
    }

    /// Whether the program text promises that this store and another one, if they store to one address, store one value.
    fn is_function_of_address(&self, other: Fact) -> bool {
        let own = self.fact(self.pc).of_address;
        own.function != 0
            && own.function == other.of_address.function
            && (own.loads | other.of_address.loads) & !self.grid.constant_parameters == 0
    }

    /// The bytes that a lane stores.
    fn bytes(&self, lane: usize) -> Vec<u8> {
        let n = usize::from(self.bytes);
        (0..self.count).flat_map(|e| self.value(e, lane).to_le_bytes().into_iter().take(n)).collect()
    }

    /// The bytes of a row of a matrix: each of four lanes has two values of 16 bits.
    fn row(&self, row: usize) -> Vec<u8> {
        let (matrix, first) = (row / 8, row % 8 * 4);
        let word = |lane| (self.value(matrix.min(self.count.saturating_sub(1)), lane) as u32).to_le_bytes();
        (first..first + 4).flat_map(word).collect()
    }

    /// What memory holds where a lane stores.
    fn in_memory(&self, address: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        // SAFETY: the span contains the whole store of every lane.
        unsafe { std::ptr::copy_nonoverlapping(self.span.host(address), bytes.as_mut_ptr(), count) };
        bytes
    }

    /// Remembers whether all blocks store one value here, if the program text promises it.
    #[inline(always)]
    fn observe(&self) {
        let own = self.fact(self.pc);
        let fixed = Varies::THREAD.with(Varies::TIME).with(Varies::BLOCK);
        if own.varies.has(Varies::DATA) && !own.varies.has(fixed) {
            self.observe_all(own.identity);
        }
    }

    #[cold]
    fn observe_all(&self, identity: u64) {
        lanes(self.mask).for_each(|l| self.grid.observe(identity, &self.bytes(l)));
    }

    /// Whether two lanes store the same bytes now.
    fn are_equal(&self, lane: usize, other: usize) -> bool {
        let n = self.bytes as usize;
        let bytes = |e: usize, lane: usize| self.value(e, lane).to_le_bytes();
        (0..self.count).all(|e| bytes(e, lane)[..n] == bytes(e, other)[..n])
    }
}

/// Whether stored bytes differ by a few roundings only. A store does not tell the type of its bits, so one type must
/// fit. The limits are far above the distance between neighbouring numbers, because terms of a sum can cancel.
fn differ_by_rounding(size: usize, one: &[u8], other: &[u8]) -> bool {
    let near = |bytes: usize, limit: f64, number: fn(u64) -> f64| {
        size.is_multiple_of(bytes)
            && one.chunks(bytes).zip(other.chunks(bytes)).all(|pair| {
                let bits = |part: &[u8]| part.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
                let (a, b) = (number(bits(pair.0)), number(bits(pair.1)));
                a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= limit * a.abs().max(b.abs())
            })
    };
    near(8, 2f64.powi(-30), f64::from_bits)
        || near(4, 2f64.powi(-8), |bits| f64::from(f32::from_bits(bits as u32)))
        || near(2, 2f64.powi(-7), |bits| f64::from(codec::f16_to_f32(bits as u32)))
        || near(2, 2f64.powi(-5), |bits| f64::from(codec::bf16_to_f32(bits as u32)))
}

impl<A: PartialEq + Copy + Into<u64>> Stored<'_, A> {
    /// How equal the program text promises that the values are. `sibling` is the lane of a store of this execution.
    fn promised(&self, lane: usize, earlier: race::EarlierStore, sibling: Option<usize>) -> Equality {
        let own = self.fact(self.pc);
        let thread = self.warp as usize * 32 + lane;
        let is_same_time =
            earlier.sibling.is_some() || earlier.same_block && earlier.pc == self.pc && own.once;
        let varies = Varies::THREAD.with(Varies::TIME);
        let varies = if earlier.same_block { varies } else { varies.with(Varies::BLOCK) };
        let has_same_identity = own.identity != 0 && own.identity == self.fact(earlier.pc).identity;
        if sibling.is_none() && has_same_identity && !own.varies.has(varies) {
            Equality::Same
        } else if self.is_matrix && is_same_time {
            self.compare_rows(thread, earlier.thread)
        } else if sibling.is_some() || is_same_time && own.once {
            self.grid.compare_stores(self.pc, thread, earlier.thread)
        } else {
            Equality::Unknown
        }
    }

    /// Whether the values of this run agree with what the program text promises.
    fn confirms(
        &self,
        promised: Equality,
        lane: usize,
        earlier: race::EarlierStore,
        sibling: Option<usize>,
    ) -> bool {
        if !earlier.same_block && self.span.source == Source::Global {
            // The other block may run in another worker and may not have stored yet.
            return self.grid.is_observed_equal(self.fact(self.pc).identity);
        }
        let stored = |l: usize| if self.is_matrix { self.row(l) } else { self.bytes(l) };
        let own = stored(lane);
        let before = match sibling {
            Some(other) => stored(other),
            None => self.in_memory(self.at[lane].into(), own.len()),
        };
        let size = if self.is_matrix { 2 } else { usize::from(self.bytes) };
        own == before || promised == Equality::Close && differ_by_rounding(size, &own, &before)
    }
}

impl<A: PartialEq + Copy + Into<u64>> race::StoredValues for Stored<'_, A> {
    fn compare(&self, lane: usize, earlier: race::EarlierStore) -> Equality {
        if self.is_function_of_address(self.fact(earlier.pc)) {
            return Equality::Same;
        }
        let depends_on_data = self.is_matrix || self.fact(self.pc).varies.has(Varies::DATA);
        // The other lane's store to this address is part of this execution if the lane stores there now. Its earlier
        // stores are then overwritten and no longer known.
        let sibling = earlier.sibling.filter(|l| self.mask >> l & 1 == 1 && self.at[*l] == self.at[lane]);
        if let Some(other) = sibling.filter(|_| !depends_on_data) {
            return if self.are_equal(lane, other) { Equality::Same } else { Equality::Unknown };
        }
        // One difference disproves that the values are equal in every run. Numbers that do not depend on data are exact.
        let promised = self.promised(lane, earlier, sibling);
        let is_certain = promised == Equality::Same && !depends_on_data;
        if is_certain || promised != Equality::Unknown && self.confirms(promised, lane, earlier, sibling) {
            promised
        } else {
            Equality::Unknown
        }
    }

    fn is_common(&self) -> bool {
        let own = self.fact(self.pc);
        own.identity != 0 && !own.varies.has(Varies::THREAD.with(Varies::TIME))
            || self.is_function_of_address(own)
    }

    fn after_atomic(&self) -> AfterAtomic {
        self.fact(self.pc).after_atomic
    }
}
