//! Products of a warpgroup (`wgmma`). Each warp computes its 16 rows when it reaches the instruction.
//!
//! The result is available immediately, but the program must not use it before a wait. Registers of D and A are *in
//! flight* until the wait, and an access before the wait is a finding. For the race checker, the warp's tensor agent
//! reads shared memory until the same wait. Copies between registers are not findings, because compilers generate them
//! and the assembler removes them.

use super::Policy;
use super::descriptor::{Descriptor, OperandKey};
use super::state::{Collective, Next, Origin, RegisterInFlight, RunningWarp, Source, State, spread};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use crate::check::layout::Fault;
use crate::check::race::{Agent, ChunkReads};
use crate::check::{Kind, Site};
use crate::count::Event;
use crate::isa::op::{Class, Flow, Inst, Op, Slot, Wgmma};
use crate::lanes::{lanes, lanes_where};
use crate::mem::shadow;
use crate::num::Lanes;
use crate::num::tile::matrix;
use crate::num::tile::warpgroup::{Columns, Rows, warpgroup};

/// Maximum number of groups of eight columns.
const MAX_COLUMNS: usize = 32;

/// An operand in shared memory.
struct Operand {
    descriptor: Descriptor,
    mn_major: bool,
    name: &'static str,
    /// The lines and chunks of the operand that the warp uses.
    lines: Range<u32>,
    chunks: Range<u32>,
}

/// Number of operands whose chunks a block remembers. A kernel has a few for each stage of its ring.
const MAX_OPERANDS: usize = 1 << 12;

impl Operand {
    fn chunk(&self, line: u32, chunk: u32) -> u32 {
        self.descriptor.chunk(self.mn_major, line, chunk)
    }

    fn key(&self) -> OperandKey {
        (self.descriptor, self.mn_major, self.lines.clone(), self.chunks.clone())
    }

    /// Reads all columns of B.
    ///
    /// # Safety
    /// Every chunk must lie in `shared`.
    unsafe fn columns(&self, shared: *const u8, out: &mut Vec<Columns>) {
        // SAFETY: the caller says so.
        let read = |at: u32| unsafe { shared.add(at as usize).cast::<[u8; 16]>().read_unaligned() };
        let d = &self.descriptor;
        if !self.mn_major && d.repeats() {
            let places = d.first_lines();
            out.resize(self.lines.len() / 8, [[[0; 16]; 8]; 2]);
            for (group, blocks) in out.iter_mut().enumerate() {
                for (lines, places) in blocks.iter_mut().zip(&places) {
                    for (line, at) in lines.iter_mut().zip(places) {
                        *line = read(at + group as u32 * d.stride);
                    }
                }
            }
            return;
        }
        let block = |group: u32, half: u32| {
            std::array::from_fn(|line| {
                let line = line as u32;
                read(if self.mn_major {
                    self.chunk(8 * half + line, group)
                } else {
                    self.chunk(8 * group + line, half)
                })
            })
        };
        let count = if self.mn_major { self.chunks.end } else { self.lines.end / 8 };
        out.clear();
        out.extend((0..count).map(|group| [block(group, 0), block(group, 1)]));
    }

    /// The addresses of all chunks that the warp uses, line by line.
    fn addresses(&self) -> Vec<u32> {
        let line = |line| self.chunks.clone().map(move |chunk| self.chunk(line, chunk));
        self.lines.clone().flat_map(line).collect()
    }
}

/// An operand and the chunks of it that the warp reads.
type OperandReads<'o> = (&'o Operand, Arc<ChunkReads>);

/// One warp's part of a product.
struct Product<'i> {
    w: &'i Wgmma,
    b: Operand,
    /// A, if it is in shared memory.
    a: Option<Operand>,
    /// The registers of A, or its descriptor.
    a_slots: &'i [Slot],
    /// Whether the product is added to D.
    keep: bool,
    mask: u32,
}

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Whether the block has all four warps of this warp's warpgroup.
    fn has_whole_warpgroup(&self) -> bool {
        (self.w.id / 4 + 1) * 128 <= self.block.threads
    }

    /// Checks that the warps of a warpgroup execute the instruction together.
    fn check_together(&mut self, what: u64, mask: u32) {
        let (at, warp) = (self.at(), self.w.id as usize);
        if !self.has_whole_warpgroup() {
            let threads = self.block.threads;
            self.finding(Kind::DivergentWarpOp, mask, || {
                format!(
                    "the operation needs a whole warpgroup of four warps; the block has {threads} threads"
                )
            });
            return;
        }
        let groups = &mut self.block.collectives;
        if groups.len() <= warp / 4 {
            groups.resize_with(warp / 4 + 1, Collective::default);
        }
        if !groups[warp / 4].step(warp % 4, at, what) {
            self.finding(Kind::DivergentWarpOp, mask, || {
                "the warps of a warpgroup execute different instructions, or use different descriptors or values of \
                 scale-d; they must execute one instruction together"
                    .to_string()
            });
        }
    }

    pub fn wgmma_group(&mut self, inst: &Inst, mask: u32) -> Next {
        if !self.whole_warp(mask) {
            return Next::Park;
        }
        let warp = self.w.id;
        match inst.op {
            Op::WgmmaCommit => {
                self.block.committed[warp as usize] += 1;
                self.block.progress += 1;
            }
            Op::WgmmaWait { keep } => {
                // A group belongs to the warpgroup. It is complete when all warps have executed their parts.
                let awaited = self.block.committed[warp as usize].saturating_sub(keep);
                if self.block.committed_by_all(warp) < awaited {
                    self.frag.state = State::Products(awaited);
                    return Next::Park;
                }
            }
            _ => {}
        }
        match inst.op {
            Op::WgmmaCommit => self.trace(Event::CommitProducts),
            Op::WgmmaWait { keep } => self.trace(Event::AwaitProducts { keep }),
            _ => {}
        }
        if !P::CHECK {
            return Next::Continue;
        }
        // A product of too few warps is a finding of its own.
        if self.has_whole_warpgroup() {
            self.check_together(0, mask);
        }
        match inst.op {
            Op::WgmmaFence => self.w.flight.fenced = true,
            Op::WgmmaCommit => {
                self.w.flight.committed += 1;
                self.block.races.agent_commit(Agent::Tensor, self.w.id, mask);
            }
            Op::WgmmaWait { keep } => {
                self.w.flight.wait(keep);
                self.block.races.products_wait(self.w.id, mask, keep);
            }
            _ => {}
        }
        Next::Continue
    }

    pub fn set_max_registers(&mut self, count: u32, increase: bool, mask: u32) -> Next {
        if !self.whole_warp(mask) {
            return Next::Park;
        }
        if !P::CHECK {
            return Next::Continue;
        }
        let (at, before) = (self.at(), self.grid.registers_per_thread());
        let held = self.block.registers_held(before);
        let now = held.get(self.w.id as usize / 4).copied().unwrap_or(before);
        let waits = increase && self.grid.has_register_cap();
        if waits && held.iter().sum::<u32>() + count.saturating_sub(now) > before * held.len() as u32 {
            // The warp waits until another warpgroup releases registers. A poll counts as an executed instruction.
            self.w.last_poll = Some(at);
            self.worker.executed += 1;
            return Next::Again;
        }
        self.block.progress += 1;
        self.check_together(u64::from(count), mask);
        let Some(group) = self.block.collectives.get_mut(self.w.id as usize / 4) else {
            return Next::Continue;
        };
        group.registers = Some(count);
        if now != count && increase != (count > now) {
            let (form, what) = if increase { ("inc", "increase") } else { ("dec", "decrease") };
            self.finding(Kind::Registers, mask, || {
                format!(
                    "setmaxnreg.{form} does not {what} the number of registers: it changes {now} to {count}"
                )
            });
        }
        Next::Continue
    }

    pub fn wgmma(&mut self, inst: &Inst, w: &Wgmma, mask: u32) -> Next {
        if !self.whole_warp(mask) {
            return Next::Park;
        }
        self.trace(Event::Product { at: self.at() });
        let product = self.product(inst, w, mask);
        let Product { b, a, a_slots, keep, .. } = &product;
        if P::CHECK {
            let sources = inst.sources();
            let a_bits = if a.is_some() { self.r64(sources[2])[0].rotate_left(29) } else { 0 };
            let added = u64::from(*keep).rotate_right(7);
            self.check_together(self.r64(sources[1])[0] ^ a_bits ^ added, mask);
            self.check_flight_of_product(inst, w, a_slots, mask);
        }
        if !(self.operand_fits(b, mask) && a.as_ref().is_none_or(|a| self.operand_fits(a, mask))) {
            if !P::CHECK {
                self.grid.stop();
                return Next::Halt;
            }
            for d in inst.results() {
                self.set_undef(*d, spread(mask), 0, mask, Origin::new(Source::Reported, self.at()));
            }
            return Next::Continue;
        }
        let decoded = self.decode_columns(b, w);
        if P::CHECK {
            let site = self.site(1);
            let b = (b, self.chunks_of(b));
            let a = a.as_ref().map(|a| (a, self.chunks_of(a)));
            for (_, chunks) in std::iter::once(&b).chain(&a) {
                self.block.races.agent_reads_shared(Agent::Tensor, site, chunks);
            }
            self.check_layout(&b, a.as_ref(), mask);
            self.flow_wgmma(inst, &product, &b, a.as_ref());
        }
        let decoded = self.block.decoded.get(decoded);
        let mut d = [MaybeUninit::uninit(); 4 * MAX_COLUMNS];
        let d = &mut d[..inst.results().len()];
        for (to, slot) in d.iter_mut().zip(inst.results()) {
            to.write(self.reg(*slot));
        }
        // SAFETY: the loop has written all of them.
        let d = unsafe { d.assume_init_ref() };
        let multiply = |rows: &Rows<'_>| {
            // SAFETY: the results are different registers of the frame, as the decoder has checked. A register of A can
            // be among them only if the program has an error. A is read before any result is written.
            unsafe { warpgroup(w.op, rows, decoded, d, *keep) };
        };
        match a {
            None => multiply(&Rows::Fragment(std::array::from_fn(|i| self.r32(a_slots[i])))),
            Some(a) if a.mn_major => {
                let registers = self.gather_fragment(a);
                multiply(&Rows::Fragment(registers.each_ref()));
            }
            Some(a) => {
                let mut rows = [[[0; 16]; 2]; 16];
                self.gather_rows(a, &mut rows);
                multiply(&Rows::Chunks(&rows));
            }
        }
        Next::Continue
    }

    /// Reads the operands of a product. The warp uses all of B and 16 rows of A.
    fn product<'i>(&mut self, inst: &'i Inst, w: &'i Wgmma, mask: u32) -> Product<'i> {
        let sources = inst.sources();
        let rows = self.w.id % 4 * 16;
        let k_lines = (w.op.k() * w.op.a.bits() / 16) as u32;
        let mut b = self.descriptor(sources[1], "b", w.transpose_b, mask);
        let n = u32::from(w.op.n);
        (b.lines, b.chunks) = if b.mn_major { (0..k_lines, 0..n / 8) } else { (0..n, 0..2) };
        let (a_slots, a) = if w.a_registers {
            (&sources[2..6], None)
        } else {
            let mut a = self.descriptor(sources[2], "a", w.transpose_a, mask);
            (a.lines, a.chunks) =
                if a.mn_major { (0..k_lines, rows / 8..rows / 8 + 2) } else { (rows..rows + 16, 0..2) };
            (&sources[2..3], Some(a))
        };
        let keep = self.pred(sources[0]) ^ if w.negate_scale { u32::MAX } else { 0 };
        if P::CHECK && keep & mask != 0 && keep & mask != mask {
            self.finding(Kind::DivergentWarpOp, mask, || {
                "the lanes of the warp have different values of scale-d, which says whether the product is added to D"
                    .to_string()
            });
        }
        Product { w, b, a, a_slots, keep: keep & mask != 0, mask }
    }

    fn descriptor(&mut self, slot: Slot, name: &'static str, mn_major: bool, mask: u32) -> Operand {
        let values = self.r64(slot);
        let first = values[mask.trailing_zeros() as usize & 31];
        if P::CHECK {
            let same = lanes(mask).all(|l| values[l] == first);
            if self.w.tracking {
                self.check_use(slot, mask, "is a descriptor of wgmma");
            }
            if !same {
                self.finding(Kind::DivergentWarpOp, mask, || {
                    format!("the lanes of the warp have different descriptors of {name}")
                });
            }
        }
        let descriptor = Descriptor::decode(first);
        let operand = Operand { descriptor, mn_major, name, lines: 0..0, chunks: 0..0 };
        if P::CHECK && !operand.descriptor.starts_a_pattern() {
            let d = operand.descriptor;
            self.finding(Kind::Misaligned, mask, || {
                format!(
                    "the descriptor of {name} starts at {:#x} of shared memory; the pattern of {} starts at multiples of \
                     {}, and the base offset is {}",
                    d.start,
                    d.swizzle.name(),
                    d.swizzle.period(),
                    d.base
                )
            });
        }
        operand
    }

    /// Whether all chunks that the warp uses lie in shared memory.
    fn operand_fits(&mut self, operand: &Operand, mask: u32) -> bool {
        // Steps are not negative, so the last line has the highest address, up to the rest of a row of 128 bytes.
        let last = operand.lines.end - 1;
        let (low, high) = (operand.chunks.start, operand.chunks.end - 1);
        let farthest = operand.chunk(last, low).max(operand.chunk(last, high));
        let bytes = self.block.shared_end;
        if (farthest | 127) < bytes.next_multiple_of(128) {
            return true;
        }
        let name = operand.name;
        self.finding(Kind::OutOfBounds, mask, || {
            format!(
                "the descriptor of {name} addresses offset {farthest} of shared memory; the block has {bytes} bytes"
            )
        });
        false
    }

    /// Reads a chunk of an operand that fits.
    fn chunk_at(&self, at: u32) -> [u8; 16] {
        // SAFETY: `operand_fits` has checked that every chunk lies in shared memory.
        unsafe {
            self.block.shared.as_ptr().cast::<u8>().add(at as usize).cast::<[u8; 16]>().read_unaligned()
        }
    }

    /// Decodes B, unless the block has it decoded. Returns its place in the block's cache.
    fn decode_columns(&mut self, b: &Operand, w: &Wgmma) -> usize {
        // Other blocks of a cluster and copies that land late write without an instruction of this block.
        let counted = !P::CHECK && self.grid.cluster == [1; 3];
        let writes = counted.then_some(self.block.shared_writes);
        let shared = self.block.shared.as_ptr().cast::<u8>();
        let columns = |out: &mut Vec<Columns>| {
            // SAFETY: `operand_fits` has checked that every chunk lies in shared memory.
            unsafe { b.columns(shared, out) };
        };
        // SAFETY: as above; shared memory consists of units of 128 bytes.
        unsafe { self.block.decoded.decode((b.key(), w.op), shared, writes, || b.addresses(), columns) }
    }

    /// Gathers sixteen rows of an MN-major A in the form of the four registers of a fragment.
    fn gather_fragment(&self, a: &Operand) -> [Lanes; 4] {
        std::array::from_fn(|i| {
            let (low, half) = (i as u32 % 2, i as u32 / 2);
            let line = |line| self.chunk_at(a.chunk(8 * half + line as u32, a.chunks.start + low));
            matrix::load(&std::array::from_fn(line), true)
        })
    }

    /// Gathers sixteen rows of a K-major A.
    #[inline(always)]
    fn gather_rows(&self, a: &Operand, out: &mut [[[u8; 16]; 2]; 16]) {
        let (first, d) = (a.lines.start, &a.descriptor);
        let places = d.first_lines();
        for (half, places) in places.iter().enumerate() {
            for row in 0..16 {
                let at = if d.repeats() {
                    places[row % 8] + (first / 8 + row as u32 / 8) * d.stride
                } else {
                    a.chunk(first + row as u32, half as u32)
                };
                out[row][half] = self.chunk_at(at);
            }
        }
    }

    /// The chunks of an operand that the warp reads.
    fn chunks_of(&mut self, operand: &Operand) -> Arc<ChunkReads> {
        let operands = &mut self.block.operands;
        if operands.len() >= MAX_OPERANDS {
            operands.clear();
        }
        let reads =
            operands.entry(operand.key()).or_insert_with(|| Arc::new(ChunkReads::new(operand.addresses())));
        Arc::clone(reads)
    }

    /// Whether a tensor copy wrote the chunk at an address.
    fn is_copied(&self, at: u32) -> bool {
        self.block.shared_shadow.get(at as usize).is_some_and(|state| state & shadow::COPIED != 0)
    }

    /// Checks that both operands follow the boxes that tensor copies wrote, and start at the same k.
    fn check_layout(&mut self, b: &OperandReads<'_>, a: Option<&OperandReads<'_>>, mask: u32) {
        for (operand, reads) in std::iter::once(b).chain(a) {
            let origins = &self.block.chunk_origins;
            let fault = origins.walk(&reads.addresses, operand.chunks.len(), |at| self.is_copied(at));
            if let Some(fault) = fault {
                let line = fault.line + operand.lines.start;
                return self.report_layout(operand, Fault { line, ..fault }, mask);
            }
        }
        let Some(a) = a else { return };
        // Both operands must start at the same k, relative to their tensors or at least relative to their boxes.
        let first = |(operand, reads): &OperandReads<'_>| {
            let origins = &self.block.chunk_origins;
            let at = reads.addresses.first().copied().filter(|at| self.is_copied(*at))?;
            origins.depth(origins.at(at)?, !operand.mn_major)
        };
        let (Some(ka), Some(kb)) = (first(a), first(b)) else { return };
        if ka.0 != kb.0 && ka.1 != kb.1 {
            self.finding(Kind::Layout, mask, || {
                format!(
                    "the descriptors of a and b start at different elements along k: {} in the box of a, {} in the box \
                     of b",
                    ka.1, kb.1
                )
            });
        }
    }

    fn report_layout(&mut self, operand: &Operand, fault: Fault, mask: u32) {
        let load = self.block.chunk_origins.tensor_load(fault.found.load).copied();
        let (d, name) = (operand.descriptor, operand.name);
        let related = load.map(|l| ("this copy wrote the box".to_string(), l.at)).into_iter().collect();
        let Fault { line, chunk, along, before, found } = fault;
        let (beyond, lines) = if operand.mn_major && d.swizzle.span() == 16 {
            ("stride", "leading")
        } else {
            ("leading", "stride")
        };
        let cause = match load {
            Some(l) if l.swizzle != d.swizzle => {
                format!("the descriptor has {}, but the copy has {}", d.swizzle.name(), l.swizzle.name())
            }
            Some(l) if d.swizzle.span() > 16 && 16 * l.columns != d.swizzle.span() => format!(
                "rows of the box have {} bytes, but {} needs {}",
                16 * l.columns,
                d.swizzle.name(),
                d.swizzle.span()
            ),
            _ if along => format!("the {beyond} offset of {} bytes or the start address is wrong", {
                if beyond == "leading" { d.leading } else { d.stride }
            }),
            _ if line % 8 == 0 => {
                format!(
                    "the {lines} offset of {} bytes is wrong",
                    if lines == "stride" { d.stride } else { d.leading }
                )
            }
            _ => format!("the start address {:#x} is wrong", d.start),
        };
        let site = self.site(mask);
        self.worker.report_with(Kind::Layout, site, related, || {
            format!(
                "the descriptor of {name} does not match the box that a tensor copy wrote: line {line}, chunk {chunk} of \
                 the operand is row {}, chunk {} of its box and follows row {}, chunk {}; {cause}",
                found.row, found.column, before.row, before.column
            )
        });
    }

    /// Returns the 16-bit elements of a chunk of shared memory that are undefined, and the origin of the first of them.
    fn undefined_elements(&self, address: u32) -> Option<(u32, Origin)> {
        const ALL: u128 = u128::from_ne_bytes([shadow::DEFINED; 16]);
        let states = &self.block.shared_shadow[address as usize..address as usize + 16];
        let word = states.first_chunk::<16>().map_or(0, |bytes| u128::from_ne_bytes(*bytes));
        if word & ALL == ALL {
            return None;
        }
        let byte = states.iter().position(|s| s & shadow::DEFINED == 0)?;
        let taint = self.block.taints.get(&(address + byte as u32)).copied();
        let pairs = states.as_chunks::<2>().0.iter().enumerate();
        let elements = pairs.fold(0u32, |m, (i, pair)| m | u32::from(pair.iter().any(|s| s & 1 == 0)) << i);
        Some((elements, taint.unwrap_or(Origin::new(Source::Shared, self.at()))))
    }

    /// Returns the rows of A or columns of B with undefined elements, counted from the first one that the warp uses.
    fn undefined_lines(&self, (operand, reads): &OperandReads<'_>, origin: &mut Origin) -> [u64; 4] {
        let mut undefined = [0u64; 4];
        for (index, at) in reads.addresses.iter().enumerate() {
            let Some((elements, from)) = self.undefined_elements(*at) else { continue };
            *origin = from;
            let (line, chunk) = (index / operand.chunks.len(), index % operand.chunks.len());
            let (first, bits) = if operand.mn_major { (chunk * 8, u64::from(elements)) } else { (line, 1) };
            undefined[first / 64] |= bits << (first % 64);
        }
        undefined
    }

    /// Propagates undefined bytes of an operand to the rows and columns of the result that they affect.
    fn flow_wgmma(
        &mut self,
        inst: &Inst,
        product: &Product<'_>,
        b: &OperandReads<'_>,
        a: Option<&OperandReads<'_>>,
    ) {
        let &Product { w, a_slots, keep, mask, .. } = product;
        let at = self.at();
        let mut origin = Origin(0);
        let bad_columns = self.undefined_lines(b, &mut origin);
        let mut bad_rows = 0;
        if let Some(a) = a {
            bad_rows = self.undefined_lines(a, &mut origin)[0];
        } else if self.w.tracking {
            for (i, slot) in a_slots.iter().enumerate() {
                for l in lanes(self.undefined_lanes(*slot) & mask) {
                    bad_rows |= 1 << (8 * (i % 2) + l / 4);
                    origin = self.origin_of(*slot).used_at(at);
                }
            }
        }
        if bad_rows == 0 && bad_columns == [0; 4] && !self.w.tracking {
            return;
        }
        let halves = w.op.d.bits() == 16;
        for (i, slot) in inst.results().iter().enumerate() {
            let (group, half, odd) = if halves { (i / 2, i % 2, 0) } else { (i / 4, i / 2 % 2, i % 2) };
            let columns = bad_columns[group / 8] >> (group % 8 * 8);
            let both = if halves { 3 } else { 1 << odd };
            let lanes = lanes_where(u32::MAX, |l| {
                bad_rows >> (8 * half + l / 4) & 1 == 1 || columns >> (2 * (l % 4)) & both != 0
            });
            let (old, from) =
                if keep { (self.undef_of(*slot).0, self.origin_of(*slot)) } else { (0, origin) };
            let origin = if lanes != 0 { origin } else { from.used_at(at) };
            self.set_undef(*slot, old | spread(lanes), 0, mask, origin);
        }
    }

    // Registers in flight

    fn units(&self, slot: Slot) -> std::ops::Range<usize> {
        if !slot.is_frame() || slot.class() == Class::Pred {
            return 0..0;
        }
        let first = self.frag.reg_base as usize + slot.index();
        first..first + if slot.is_wide() { 2 } else { 1 }
    }

    fn in_flight(&self, slot: Slot) -> Option<RegisterInFlight> {
        self.units(slot).find_map(|unit| self.w.flight.product_of(unit))
    }

    fn report_flight(&mut self, register: RegisterInFlight, mask: u32, what: &str) {
        let site = self.site(mask);
        let related = vec![("this wgmma is in flight".to_string(), register.at)];
        self.worker.report_with(Kind::AsyncNotWaited, site, related, || {
            format!("the warp {what}; no wgmma.wait_group has waited for that wgmma")
        });
    }

    fn land_register(&mut self, slot: Slot) {
        for unit in self.units(slot) {
            if let Some(f) = self.w.flight.registers.get_mut(unit) {
                *f = RegisterInFlight::default();
            }
        }
    }

    /// Checks an instruction other than `wgmma` while products are in flight.
    #[inline(never)]
    pub fn check_flight(&mut self, inst: &Inst, mask: u32) {
        if matches!(inst.op, Op::Wgmma(_)) {
            return;
        }
        let copy = matches!(inst.op, Op::Lane { flow: Flow::Copy, .. }) && inst.sources().len() == 1;
        let source = if copy { self.in_flight(inst.sources()[0]).filter(|f| f.written) } else { None };
        if !copy {
            for slot in inst.sources() {
                if let Some(f) = self.in_flight(*slot).filter(|f| f.written) {
                    self.report_flight(
                        f,
                        mask,
                        "reads an accumulator while a wgmma that writes it is in flight",
                    );
                    self.land_register(*slot);
                }
            }
        }
        for slot in inst.results() {
            if let Some(f) = self.in_flight(*slot) {
                if source.is_none() {
                    let what = if f.written {
                        "writes an accumulator while a wgmma that writes it is in flight"
                    } else {
                        "writes a register while a wgmma that reads it is in flight"
                    };
                    self.report_flight(f, mask, what);
                }
                self.land_register(*slot);
            }
            if let Some(f) = source {
                for unit in self.units(*slot) {
                    self.w.flight.launch(unit, true, f.at);
                    self.w.flight.registers[unit].group = f.group;
                }
            }
        }
    }

    fn check_flight_of_product(&mut self, inst: &Inst, w: &Wgmma, a_slots: &[Slot], mask: u32) {
        if !self.w.flight.fenced {
            self.w.flight.fenced = true;
            self.finding(Kind::AsyncNotWaited, mask, || {
                "no wgmma.fence precedes the first wgmma, so it may start before its registers are written"
                    .to_string()
            });
        }
        let at = self.at();
        let function = &self.grid.kernel.functions[self.frag.function as usize];
        if let Some(writer) = function.unfenced.get(&self.frag.pc).copied() {
            let site = Site { pc: function.first + writer, ..self.site(mask) };
            let related = vec![("this wgmma uses the register".to_string(), at)];
            self.worker.report_with(Kind::AsyncNotWaited, site, related, || {
                "a register of a wgmma is written after the last wgmma.fence, so the wgmma may use its old value; the fence must \
                 come between the two"
                    .to_string()
            });
        }
        if w.a_registers {
            for slot in a_slots {
                if let Some(f) = self.in_flight(*slot).filter(|f| f.written) {
                    self.report_flight(
                        f,
                        mask,
                        "uses an accumulator as operand a while a wgmma that writes it is in flight",
                    );
                    self.land_register(*slot);
                }
                for unit in self.units(*slot) {
                    self.w.flight.launch(unit, false, at);
                }
            }
        }
        for slot in inst.results() {
            if let Some(f) = self.in_flight(*slot).filter(|f| !f.written && f.at != at) {
                self.report_flight(f, mask, "writes a register while a wgmma that reads it is in flight");
            }
            for unit in self.units(*slot) {
                self.w.flight.launch(unit, true, at);
            }
        }
    }
}
