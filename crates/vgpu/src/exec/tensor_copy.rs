//! `cp.async.bulk.tensor`: copies boxes of tensors between global and shared memory. Tensor maps describe the tensors.
//! This module also executes the instructions that modify and copy tensor maps.

use super::Policy;
use super::bulk::store_op;
use super::state::{
    AccessKind, Addresses, BlockCore, BulkCopy, CopySource, Location, Next, RunningWarp, Span, WINDOW,
    relative,
};
use crate::check::collect::RawFinding;
use crate::check::layout::{ChunkOrigin, TensorLoad};
use crate::check::race::{self, Agent};
use crate::check::{Kind, Severity};
use crate::count::{CopyKind, Event};
use crate::isa::op::{AtomOp, Inst, Slot, TensorAccess};
use crate::isa::types::{Space, Ty};
use crate::lanes::lanes;
use crate::mem::region::Region;
use crate::mem::shadow;
use crate::tensor_map::region::TensorBox;
use crate::tensor_map::{self, Element, Field, Im2col, MAX_RANK, TensorMap};

/// Required alignment of a box in shared memory, in bytes.
const BOX_ALIGN: u64 = 128;

/// Required alignment of the innermost coordinate, in bytes. An H200 stops at other values.
const COLUMN_ALIGN: i64 = 16;

/// Maximum number of bytes in a row of a box: 256 elements of eight bytes.
const MAX_ROW: usize = 2048;

/// The coordinates that the lanes give to a tensor copy.
struct Coordinates {
    rank: usize,
    at: [[i32; MAX_RANK]; 32],
    /// The offsets of the pixels, if the copy is an im2col copy.
    offsets: Option<[[u16; MAX_RANK - 2]; 32]>,
}

/// Returns the type in which a reduction combines elements.
fn element_type(element: Element) -> Ty {
    match element {
        Element::U8 => Ty::U8,
        Element::U16 => Ty::U16,
        Element::U32 => Ty::U32,
        Element::I32 => Ty::S32,
        Element::U64 => Ty::U64,
        Element::I64 => Ty::S64,
        Element::F16 => Ty::F16,
        Element::F32 => Ty::F32,
        Element::F64 => Ty::F64,
        Element::Bf16 => Ty::Bf16,
    }
}

/// Asks the CPU to load the first cache line of every row. Rows are far apart, so it does not expect them.
fn prefetch_rows(tensor: &TensorBox, region: &Region) {
    for run in tensor.runs() {
        let first = region.data.wrapping_add((run.first.address - region.address) as usize);
        for row in 0..run.rows as usize {
            prefetch(first.wrapping_add(row * run.step as usize));
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: SSE is part of x86-64, and a prefetch cannot fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: *const u8) {}

fn load_record(tensor: &TensorBox, at: u32) -> TensorLoad {
    let map = &tensor.map;
    TensorLoad {
        at,
        coordinates: tensor.at,
        swizzle: map.swizzle,
        rows: map.rows(),
        columns: map.row_bytes() / 16,
        elements: 16 / map.element.bytes() as u32,
    }
}

impl<P: Policy> RunningWarp<'_, '_, P> {
    pub fn tensor_load(&mut self, inst: &Inst, access: TensorAccess, mask: u32) -> Next {
        let sources = inst.sources();
        let to = self.addresses(sources[0], access.shared_offset, mask, 16);
        let object = self.addresses(sources[2], access.barrier_offset, mask, 8);
        let maps = self.addresses(sources[1], 0, mask, 8);
        let blocks = if access.multicast { *self.r32(sources[3]) } else { [0; 32] };
        let first = 3 + usize::from(access.multicast);
        let coordinates = self.coordinates(&sources[first..], access.im2col, true, mask);
        let mask = self.one_per_copy(mask, |l| to.at[l]);
        self.each_copy(mask, |cx, l| {
            let issued = cx.issue(AccessKind::Store, &maps, &to, &coordinates, l);
            let barrier = cx.bulk_barrier(&object, l)?;
            let (tensor, shared) = issued?;
            cx.count_box(&tensor, true);
            if !access.multicast {
                cx.load_here(tensor, shared, barrier, l);
                return Some(());
            }
            let count = cx.grid.cluster.iter().product::<u32>();
            if P::CHECK && blocks[l] >> count != 0 {
                let wanted = blocks[l];
                cx.finding(Kind::OutOfBounds, 1 << l, || {
                    format!(
                        "the copy names the blocks of mask {wanted:#x}, but the cluster has {count} blocks"
                    )
                });
            }
            for rank in lanes(blocks[l] & ((1u64 << count) - 1) as u32) {
                match cx.peer(rank as u32) {
                    None => cx.load_here(tensor.clone(), shared, barrier, l),
                    Some(peer) => {
                        let window = (rank as u64 + 1) * WINDOW;
                        cx.load_there(&tensor, (peer, window), shared.address, barrier.address, l);
                    }
                }
            }
            Some(())
        })
    }

    /// Loads a box into the block's own shared memory.
    fn load_here(&mut self, tensor: TensorBox, shared: Location, barrier: Location, lane: usize) {
        let bytes = tensor.map.box_bytes();
        self.count_async_bytes(bytes);
        self.trace_load(bytes, barrier);
        if P::CHECK {
            let (site, to) = (self.site(1 << lane), shared.address as u32);
            let mut offsets = [0; 32];
            offsets[lane] = to;
            let occupied = tensor.map.shared_bytes();
            self.block.races.agent_writes_shared(Agent::Load, site, &offsets, occupied);
            self.race_global(&tensor, lane, (Agent::Load, race::Op::Read), &race::Differs);
            let load = self.block.chunk_origins.load(load_record(&tensor, site.pc));
            self.add_pending(
                site,
                to,
                bytes,
                CopySource::Box(Box::new(tensor), load),
                barrier.address as u32,
            );
        } else {
            self.copy_in(&tensor, shared);
            self.mbarrier_update(barrier, lane, |b| b.tx -= i64::from(bytes));
        }
    }

    /// Loads a box into another block's shared memory at the same offset. The copy reports to the mbarrier object at
    /// the same offset.
    fn load_there(
        &mut self,
        tensor: &TensorBox,
        (peer, window): (*mut BlockCore, u64),
        to: u64,
        barrier: u64,
        lane: usize,
    ) {
        // SAFETY: `peer` is another block of the cluster. The same worker runs it.
        let core = unsafe { &mut *peer };
        let (bytes, site) = (tensor.map.box_bytes(), self.site(1 << lane));
        if P::CHECK {
            let span = Span { low: window, ..core.shared_span() };
            self.check_peer_runs(&span, 1 << lane);
            let races = &mut self.block.races;
            races.agent_writes_remote(Agent::Load, site, window + to, tensor.map.shared_bytes());
            let mark = Some(races.agent_mark(Agent::Load, site.warp));
            let load = core.chunk_origins.load(load_record(tensor, site.pc));
            let source = CopySource::Box(Box::new(tensor.clone()), load);
            let (to, barrier) = (to as u32, barrier as u32);
            core.bulk.push(BulkCopy { site, to, bytes, source, landed: 0, barrier, mark });
            return;
        }
        let span = core.shared_span();
        self.copy_in(tensor, Location { span, address: to });
        self.mbarrier_update(Location { span, address: barrier }, lane, |b| b.tx -= i64::from(bytes));
    }

    pub fn tensor_store(&mut self, inst: &Inst, access: TensorAccess, mask: u32) -> Next {
        let sources = inst.sources();
        let from = self.addresses(sources[0], access.shared_offset, mask, 16);
        let maps = self.addresses(sources[1], 0, mask, 8);
        let coordinates = self.coordinates(&sources[2..], access.im2col, false, mask);
        let mask = self.one_per_copy(mask, |l| (maps.at[l], coordinates.at[l]));
        self.each_copy(mask, |cx, l| {
            let (tensor, shared) = cx.issue(AccessKind::Load, &maps, &from, &coordinates, l)?;
            let bytes = tensor.map.box_bytes();
            let reduce = access.reduce.map(|op| (op, element_type(tensor.map.element)));
            if let Some((op, ty)) = reduce
                && !(crate::isa::reduction_exists(op, ty) && ty.bits() >= 16)
            {
                cx.fault(Kind::TensorMap, l, || {
                    format!("the bulk reduction {op:?} of {ty:?} does not exist")
                });
                return None;
            }
            cx.count_async_bytes(bytes);
            cx.count_box(&tensor, false);
            cx.trace(Event::Copy { kind: CopyKind::BulkStore, bytes });
            if P::CHECK {
                cx.store_issue(shared.address as u32, tensor.map.shared_bytes(), l);
                let before = cx.stored_bytes(&tensor);
                cx.copy_out(&tensor, shared, reduce, l);
                let is_equal = before == cx.stored_bytes(&tensor);
                let mut stores = std::mem::take(&mut cx.block.tensor_stores);
                let of =
                    |pc: u32, warp: u32| stores.get(&(pc, warp)).is_some_and(|boxes| boxes.contains(&tensor));
                let is_same_tile = |earlier: race::EarlierStore| of(earlier.pc, (earlier.thread / 32) as u32);
                let repeats = race::Repeats { is_equal, is_same_tile };
                cx.race_global(&tensor, l, (Agent::StoreWrite, store_op(reduce)), &repeats);
                let site = cx.site(1 << l);
                stores.entry((site.pc, site.warp)).or_default().push(tensor);
                cx.block.tensor_stores = stores;
            } else {
                cx.copy_out(&tensor, shared, reduce, l);
            }
            cx.note_store(l);
            Some(())
        })
    }

    /// Reads the coordinates of a copy and, if it is an im2col load, the offsets of its pixels behind them.
    fn coordinates(&mut self, slots: &[Slot], im2col: bool, load: bool, mask: u32) -> Coordinates {
        let rank = if im2col && load { slots.len().midpoint(2) } else { slots.len() };
        let mut at = [[0; MAX_RANK]; 32];
        let mut offsets = [[0; MAX_RANK - 2]; 32];
        for (number, slot) in slots.iter().enumerate() {
            self.check_use(*slot, mask, "is a coordinate of a tensor copy");
            let register = self.r32(*slot);
            for l in lanes(mask) {
                if number < rank {
                    at[l][number] = register[l] as i32;
                } else {
                    offsets[l][number - rank] = register[l] as u16;
                }
            }
        }
        Coordinates { rank, at, offsets: im2col.then_some(offsets) }
    }

    /// Checks that a map is of the mode that the copy uses, and that the map allows the offsets of the copy.
    fn check_mode(&mut self, map: &TensorMap, coordinates: &Coordinates, lane: usize) -> Option<()> {
        if map.im2col.is_some() != coordinates.offsets.is_some() {
            let (copy, has) =
                if map.im2col.is_some() { ("a tiled", "im2col") } else { ("an im2col", "tiled") };
            self.fault(Kind::TensorMap, lane, || {
                format!("the instruction is {copy} copy, but the tensor map was encoded for {has} copies")
            });
            return None;
        }
        let offsets = coordinates.offsets.map_or([0; MAX_RANK - 2], |offsets| offsets[lane]);
        let bits = Im2col::bits(map.rank());
        if let Some(offset) = offsets.into_iter().find(|offset| u32::from(*offset) >> bits != 0) {
            self.fault(Kind::TensorMap, lane, || {
                format!(
                    "an offset of the copy is {offset}; in a tensor of {} dimensions it has {bits} bits",
                    map.rank()
                )
            });
            return None;
        }
        Some(())
    }

    /// Checks a lane's tensor map, its address in shared memory and all rows of the box. Returns the box.
    fn issue(
        &mut self,
        kind: AccessKind,
        maps: &Addresses,
        shared: &Addresses,
        coordinates: &Coordinates,
        lane: usize,
    ) -> Option<(TensorBox, Location)> {
        // `kind` is that of shared memory: a store to the tensor loads from shared memory.
        let stores = kind == AccessKind::Load;
        let agent = if stores { Agent::StoreRead } else { Agent::Load };
        let map = self.tensor_map(maps.at[lane], lane, coordinates.rank, agent)?;
        self.check_mode(&map, coordinates, lane)?;
        let place = shared.at[lane];
        if !place.is_multiple_of(BOX_ALIGN) {
            self.fault(Kind::Misaligned, lane, || {
                format!(
                    "the tensor copy uses offset {place} of shared memory, which is not a multiple of {BOX_ALIGN}"
                )
            });
            return None;
        }
        let at = coordinates.at[lane];
        let column = i64::from(at[0]) * map.element.bytes() as i64;
        if column % COLUMN_ALIGN != 0 {
            self.fault(Kind::Misaligned, lane, || {
                format!(
                    "the tensor copy starts at column {} of the tensor, which is byte {column} of its row and not a multiple \
                     of {COLUMN_ALIGN} bytes; a GPU stops with an illegal instruction",
                    at[0]
                )
            });
            return None;
        }
        if stores && let Some(dimension) = at.iter().position(|coordinate| *coordinate < 0) {
            self.fault(Kind::OutOfBounds, lane, || {
                format!(
                    "the tensor store starts at coordinate {} of dimension {dimension}; only a load may start before the \
                     tensor, and a GPU stops with an illegal instruction",
                    at[dimension]
                )
            });
            return None;
        }
        let location = self.bulk_end(kind, Space::Shared, shared, map.shared_bytes(), lane)?;
        let tensor =
            TensorBox { map, at, offsets: coordinates.offsets.map_or([0; 3], |offsets| offsets[lane]) };
        let mut region = Region::NONE;
        if !stores && let Some(bytes) = tensor.bytes_in_range() {
            region = self.grid.region_of(bytes.start);
            if region.holds(bytes.start, bytes.end - bytes.start) {
                if !P::CHECK {
                    prefetch_rows(&tensor, &region);
                }
                return Some((tensor, location));
            }
        }
        let mut is_outside = tensor.map.im2col.is_none();
        for (number, loaded) in tensor.rows().enumerate() {
            let row = if stores { tensor.stored_row(loaded) } else { loaded };
            is_outside &= row.bytes == 0;
            if row.bytes > 0 && !region.holds(row.address, u64::from(row.bytes)) {
                region = self.grid.region_of(row.address);
                if !region.holds(row.address, u64::from(row.bytes)) || region.constant && stores {
                    let near = self.grid.device.describe(row.address + u64::from(row.bytes) - 1).1;
                    self.fault(Kind::OutOfBounds, lane, || {
                        let cause = if row.bytes == loaded.bytes {
                            "the tensor map does not fit its buffer, or the buffer was freed"
                        } else {
                            "a store writes whole 16-byte chunks, and the row of the tensor ends within one"
                        };
                        format!(
                            "row {number} of the box is inside the tensor but outside memory: {near}; {cause}"
                        )
                    });
                    return None;
                }
            }
        }
        if P::CHECK && is_outside {
            self.report_outside(&tensor, stores, lane);
        }
        Some((tensor, location))
    }

    /// Warns of a copy of a box that has no element inside the tensor.
    fn report_outside(&mut self, tensor: &TensorBox, stores: bool, lane: usize) {
        let (rank, site) = (tensor.map.rank(), self.site(1 << lane));
        let (at, dims) = (&tensor.at[..rank], &tensor.map.dims[..]);
        let effect = if stores { "the store writes nothing" } else { "the load only fills it" };
        let make = || RawFinding {
            severity: Severity::Warning,
            ..RawFinding::new(
                Kind::OutOfBounds,
                site,
                format!(
                    "the whole box at {at:?} is outside the tensor, whose sizes are {dims:?} (innermost first); {effect}"
                ),
            )
        };
        self.worker.findings.add_many((Kind::OutOfBounds, site.pc, 0), Severity::Warning, site, 1, make);
    }

    /// Reads a lane's tensor map from parameters or global memory.
    fn tensor_map(&mut self, address: u64, lane: usize, rank: usize, agent: Agent) -> Option<TensorMap> {
        if !address.is_multiple_of(tensor_map::ALIGN) {
            self.fault(Kind::TensorMap, lane, || {
                format!("the tensor map is at {address:#x}, which is not a multiple of {}", tensor_map::ALIGN)
            });
            return None;
        }
        let mut bytes = [0; tensor_map::BYTES];
        let wrong_space = match self.grid.windows.space_of(address) {
            Space::Param => {
                let at = (address - self.grid.windows.param) as usize;
                let Some(map) = self.grid.params.get(at..at + tensor_map::BYTES) else {
                    self.fault(Kind::TensorMap, lane, || {
                        "the tensor map is outside the kernel's parameters".to_string()
                    });
                    return None;
                };
                bytes.copy_from_slice(map);
                None
            }
            Space::Local => {
                Some("local memory; a parameter that is not `const __grid_constant__` is copied there")
            }
            Space::Shared => Some("shared memory"),
            _ => {
                let region = self.grid.region_of(address);
                if !region.holds(address, bytes.len() as u64) {
                    let near = self.grid.device.describe(address).1;
                    self.fault(Kind::TensorMap, lane, || {
                        format!("the tensor map is in no allocation: {near}")
                    });
                    return None;
                }
                if P::CHECK {
                    self.check_map_fence(address, lane);
                    if self.grid.kernel.changes_maps {
                        let site = self.site(1 << lane);
                        self.block.races.agent_reads_map(&self.grid.races, agent, site, address);
                    }
                }
                // SAFETY: the region contains all bytes of the map.
                unsafe {
                    let from = region.data.add((address - region.address) as usize);
                    std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
                }
                None
            }
        };
        if let Some(space) = wrong_space {
            self.fault(Kind::TensorMap, lane, || {
                format!("the tensor map is in {space}; it must be a kernel parameter or in global or constant memory")
            });
            return None;
        }
        let Some(map) = TensorMap::decode(&bytes) else {
            self.fault(Kind::TensorMap, lane, || {
                "the operand of the copy is not an encoded tensor map".to_string()
            });
            return None;
        };
        if map.rank() != rank {
            let has = map.rank();
            self.fault(Kind::TensorMap, lane, || {
                format!("the copy has {rank} coordinates, but the tensor map has {has} dimensions")
            });
            return None;
        }
        Some(map)
    }

    /// Counts the global memory of a box. L2 delivers a box once, to any number of blocks.
    fn count_box(&mut self, tensor: &TensorBox, is_load: bool) {
        if P::COUNT {
            for loaded in tensor.rows() {
                let row = if is_load { loaded } else { tensor.stored_row(loaded) };
                self.count_bulk(row.address, row.bytes);
            }
        }
    }

    /// The bytes of global memory that a store of a box writes.
    fn stored_bytes(&self, tensor: &TensorBox) -> Vec<u8> {
        let mut bytes = Vec::new();
        for loaded in tensor.rows() {
            let row = tensor.stored_row(loaded);
            let region = self.grid.region_of(row.address);
            if row.bytes > 0 && region.holds(row.address, u64::from(row.bytes)) {
                // SAFETY: the region contains the row.
                let row = unsafe {
                    let from = region.data.add((row.address - region.address) as usize);
                    std::slice::from_raw_parts(from, row.bytes as usize)
                };
                bytes.extend_from_slice(row);
            }
        }
        bytes
    }

    fn race_global(
        &mut self,
        tensor: &TensorBox,
        lane: usize,
        (agent, op): (Agent, race::Op),
        values: &dyn race::StoredValues,
    ) {
        let site = self.site(1 << lane);
        for loaded in tensor.rows() {
            let row = if op == race::Op::Read { loaded } else { tensor.stored_row(loaded) };
            if row.bytes > 0 {
                let range = row.address..row.address + u64::from(row.bytes);
                self.block.races.agent_global(&self.grid.races, agent, site, op, range, values);
            }
        }
    }

    /// Copies a box into shared memory, without its shadow states.
    fn copy_in(&mut self, tensor: &TensorBox, shared: Location) {
        let (map, width, to) = (&tensor.map, tensor.map.row_bytes() as usize, shared.address as u32);
        let mut line = [0u8; MAX_ROW];
        let mut region = Region::NONE;
        let mut start = to;
        for run in tensor.runs() {
            let row = run.first;
            if row.bytes > 0 && !region.holds(row.address, u64::from(row.bytes)) {
                region = self.grid.region_of(row.address);
            }
            // A pointer to the first byte in range. `issue` has checked that the region contains all rows.
            let inside = region.data.wrapping_add(row.address.wrapping_sub(region.address) as usize);
            let mut from = inside.cast_const();
            if (row.bytes as usize) < width {
                for (b, byte) in line[..width].iter_mut().enumerate() {
                    *byte = tensor.fill(b);
                }
                if row.bytes > 0 {
                    // SAFETY: the bytes in range are in the region and in the row.
                    unsafe {
                        let into = line.as_mut_ptr().add(row.first as usize);
                        std::ptr::copy_nonoverlapping(inside, into, row.bytes as usize);
                    }
                }
                from = line.as_ptr();
            }
            for _ in 0..run.rows {
                // The swizzle exchanges chunks of a row, in the same way for the whole row.
                let flipped = map.swizzle.place(start) ^ start;
                for column in (0..width as u32).step_by(16) {
                    let at = start + (column ^ flipped);
                    // SAFETY: the whole row is in the region or in `line`. The whole box lies in shared memory. The box
                    // starts and shared memory ends at a multiple of 128 bytes, so the swizzled address is in shared
                    // memory too.
                    unsafe {
                        let chunk = from.add(column as usize);
                        std::ptr::copy_nonoverlapping(chunk, shared.span.host(u64::from(at)), 16);
                    }
                }
                from = from.wrapping_add(run.step as usize);
                start += map.pitch();
            }
        }
    }

    /// Lands the bytes `range` of a box, counted row by row, in shared memory, together with their shadow states.
    pub fn land_box(&mut self, tensor: &TensorBox, to: u32, range: std::ops::Range<u32>, load: u32) {
        let (map, width) = (&tensor.map, tensor.map.row_bytes());
        let shared = self.whole_shared();
        for number in range.start / width..range.end.div_ceil(width) {
            let row = tensor.row(number);
            let region = self.grid.region_of(row.address);
            let mut b = 0;
            while b < width {
                // A piece lies in one chunk, and it is inside the tensor or outside as a whole.
                let inside = b >= row.first && b < row.first + row.bytes;
                let end = if inside {
                    row.first + row.bytes
                } else if b < row.first {
                    row.first
                } else {
                    width
                };
                let (from, to_end) = (number * width + b, number * width + end.min((b | 15) + 1).min(width));
                let (first, last) = (from.max(range.start), to_end.min(range.end));
                b += to_end - from;
                if first >= last {
                    continue;
                }
                let (column, n) = (first - number * width, (last - first) as usize);
                let at = map.swizzle.place(to + number * map.pitch() + column);
                let (data, states) = (shared.host(u64::from(at)), shared.state(u64::from(at)));
                // SAFETY: as in `copy_in`. The shadow is as large as the memory.
                unsafe {
                    if inside {
                        let from = (row.address - region.address) as usize + (column - row.first) as usize;
                        std::ptr::copy_nonoverlapping(region.data.add(from), data, n);
                        for i in 0..n {
                            let defined = *region.shadow.add(from + i) & shadow::DEFINED != 0;
                            let state = if defined { shadow::WRITTEN } else { shadow::TAINTED };
                            *states.add(i) = state | shadow::COPIED;
                        }
                    } else {
                        for i in 0..n {
                            *data.add(i) = tensor.fill(column as usize + i);
                        }
                        states.write_bytes(shadow::WRITTEN | shadow::COPIED, n);
                    }
                }
                if first % 16 == 0 {
                    self.block.chunk_origins.put(at, ChunkOrigin { load, row: number, column: column / 16 });
                }
            }
        }
    }

    /// Stores a box from shared memory to the tensor. Chunks outside the tensor are not written.
    fn copy_out(&mut self, tensor: &TensorBox, shared: Location, reduce: Option<(AtomOp, Ty)>, lane: usize) {
        let from = shared.address as u32;
        let map = &tensor.map;
        for (number, row) in tensor.rows().enumerate() {
            let row = tensor.stored_row(row);
            if row.bytes == 0 {
                continue;
            }
            let region = self.grid.region_of(row.address);
            let global = Span::from_region(&region);
            // Copy piece by piece. Each piece lies within one chunk.
            let mut b = row.first;
            while b < row.first + row.bytes {
                let n = (16 - b % 16).min(row.first + row.bytes - b);
                let at = map.swizzle.place(from + number as u32 * map.pitch() + b);
                let piece = Location { address: u64::from(at), ..shared };
                let to = Location { span: global, address: row.address + u64::from(b - row.first) };
                self.store_out(piece, to, n, reduce, lane);
                b += n;
            }
        }
    }

    // Tensor maps that kernels create

    /// Executes `fence.proxy.tensormap::generic.acquire`. A fence of any thread counts for the whole block.
    pub fn fence_map(&mut self, inst: &Inst, offset: i32, mask: u32) -> Next {
        if P::CHECK {
            let at = self.addresses(inst.sources()[0], offset, mask, 8);
            for l in lanes(mask) {
                let changes = self.grid.map_changes(at.at[l]);
                self.block.fenced_maps.insert(at.at[l], changes);
            }
        }
        Next::Continue
    }

    /// Reports a copy whose tensor map the launch has changed, unless a fence of the tensor map's proxy follows the
    /// change.
    fn check_map_fence(&mut self, address: u64, lane: usize) {
        let changes = self.grid.map_changes(address);
        if changes > self.block.fenced_maps.get(&address).copied().unwrap_or(0) {
            self.finding(Kind::ProxyFence, 1 << lane, || {
                "the launch has changed the tensor map, and no fence.proxy.tensormap::generic.acquire of the block follows \
                 the change, so the copy may use the old map"
                    .to_string()
            });
        }
    }

    pub fn replace_in_map(
        &mut self,
        inst: &Inst,
        field: Field,
        space: Space,
        offset: i32,
        mask: u32,
    ) -> Next {
        let sources = inst.sources();
        let at = self.addresses(sources[0], offset, mask, 8);
        let values = self.wide(sources[1]);
        self.check_use(sources[1], mask, "becomes part of a tensor map");
        self.each_copy(mask, |cx, l| {
            let (space, one) = cx.map_place(space, &at, l)?;
            let map = cx.bulk_end(AccessKind::Store, space, &one, tensor_map::BYTES as u32, l)?;
            let place = map.host().cast::<[u8; tensor_map::BYTES]>();
            // SAFETY: `bulk_end` has checked that memory contains all bytes of the map.
            unsafe {
                let mut bytes = place.read_unaligned();
                tensor_map::replace(&mut bytes, field, values[l]);
                place.write_unaligned(bytes);
                if P::CHECK {
                    map.state().write_bytes(shadow::WRITTEN, tensor_map::BYTES);
                    if space == Space::Global {
                        cx.grid.change_map(map.address);
                        let site = cx.site(1 << l);
                        cx.block.races.change_map(&cx.grid.races, site, map.address);
                    }
                }
            }
            Some(())
        })
    }

    /// Returns the space of a lane's address, and the addresses relative to that space.
    fn map_place(&mut self, space: Space, at: &Addresses, lane: usize) -> Option<(Space, Addresses)> {
        let own = if space == Space::Generic { self.grid.windows.space_of(at.at[lane]) } else { space };
        if !matches!(own, Space::Shared | Space::Global) {
            self.fault(Kind::TensorMap, lane, || {
                "a kernel can create tensor maps only in shared or global memory".to_string()
            });
            return None;
        }
        let base = if space == Space::Generic { self.grid.windows.base(own) } else { 0 };
        Some((own, relative(at, 1 << lane, base)))
    }

    /// Executes a copy of a tensor map. On hardware the warp copies the map together; here one lane does it.
    pub fn copy_map(&mut self, inst: &Inst, dst_offset: i32, src_offset: i32, mask: u32) -> Next {
        let sources = inst.sources();
        let lane = mask.trailing_zeros() as usize & 31;
        let to = self.addresses(sources[0], dst_offset, 1 << lane, 8);
        let from = self.addresses(sources[1], src_offset, 1 << lane, 8);
        let generic = |cx: &Self, at: u64| cx.grid.windows.space_of(at) == Space::Shared;
        let from = if generic(self, from.at[lane]) {
            relative(&from, 1 << lane, self.grid.windows.shared)
        } else {
            from
        };
        let bytes = tensor_map::BYTES as u32;
        let shared = self.bulk_end(AccessKind::Load, Space::Shared, &from, bytes, lane);
        let global = self.bulk_end(AccessKind::Store, Space::Global, &to, bytes, lane);
        let (Some(shared), Some(global)) = (shared, global) else {
            return if P::CHECK { Next::Continue } else { Next::Halt };
        };
        self.store_out(shared, global, bytes, None, lane);
        if P::CHECK {
            self.grid.change_map(global.address);
            let site = self.site(mask);
            self.block.races.change_map(&self.grid.races, site, global.address);
        }
        self.block.progress += 1;
        Next::Continue
    }
}
