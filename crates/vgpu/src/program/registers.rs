//! Computes liveness and assigns slots of the frame to virtual registers.
//!
//! PTX is nearly in SSA form: it has thousands of registers, and few are live at once. Registers whose lifetimes do not
//! overlap share a slot, which keeps the register file of a warp in the cache. Lanes are independent columns, and each
//! lane follows one path of the flow graph, so sharing is as safe under divergence as in a scalar machine.
//!
//! A register that may be read before it is written has a slot for itself, because its "never written" state must stay
//! visible to the checks.

use super::Function;
use super::flow::Block;
use crate::isa::op::{Base, Class, Guard, Inst, Op, Slot};

/// The frame of a function.
#[derive(Debug, Default)]
pub struct Frame {
    /// Size in units of 128 bytes.
    pub units: u32,
    pub preds: u32,
    /// Registers that some path reads before any write.
    pub undefined: Vec<Slot>,
}

/// One dense bit set per block.
struct Sets {
    words: usize,
    bits: Vec<u64>,
}

impl Sets {
    fn new(blocks: usize, registers: usize) -> Sets {
        let words = registers.div_ceil(64).max(1);
        Sets { words, bits: vec![0; words * blocks] }
    }

    fn row(&self, b: usize) -> &[u64] {
        &self.bits[b * self.words..(b + 1) * self.words]
    }

    fn row_mut(&mut self, b: usize) -> &mut [u64] {
        &mut self.bits[b * self.words..(b + 1) * self.words]
    }
}

fn contains(row: &[u64], r: usize) -> bool {
    row[r / 64] >> (r % 64) & 1 == 1
}

fn insert(row: &mut [u64], r: usize) {
    row[r / 64] |= 1 << (r % 64);
}

/// Visits the uses and definitions of an instruction: `f(register, is_definition)`. A guarded definition is also a use,
/// because the lanes that the guard skips keep the old value. `preds` is added to the numbers of predicates.
fn visit(inst: &Inst, preds: usize, guard_slot: Option<usize>, mut f: impl FnMut(usize, bool)) {
    let number = |slot: &Slot| slot.index() + if slot.class() == Class::Pred { preds } else { 0 };
    if let Some(p) = guard_slot {
        f(p + preds, false);
    }
    for s in inst.sources() {
        if s.is_frame() {
            f(number(s), false);
        }
    }
    for d in inst.results() {
        if d.is_frame() {
            if guard_slot.is_some() {
                f(number(d), false);
            }
            f(number(d), true);
        }
    }
}

fn guard_of(inst: &Inst) -> Option<usize> {
    (!inst.guard.is_always()).then(|| inst.guard.pred())
}

/// Limit of blocks × registers. Above it, liveness is not computed, and every register has a slot for itself.
const MAX_SET_BITS: usize = 1 << 28;

/// Assigns a slot to every register and rewrites the instructions. The caller of the function writes `parameters`.
pub fn allocate(
    insts: &mut [Inst],
    blocks: &[Block],
    registers: &[(Class, u32)],
    parameters: &mut [Slot],
) -> Frame {
    let n = registers.len();
    let small = n.saturating_mul(blocks.len()) <= MAX_SET_BITS;
    let (live_in, live_out) =
        if small { liveness(insts, blocks, n, 0) } else { (Sets::new(1, n), Sets::new(1, n)) };
    let mut interval = vec![(u32::MAX, 0u32); n];
    let mut widen = |r: usize, at: u32| {
        let (start, end) = &mut interval[r];
        *start = (*start).min(at);
        *end = (*end).max(at);
    };
    for (b, block) in blocks.iter().enumerate() {
        for i in block.start..block.end {
            let inst = &insts[i as usize];
            // Results of a lane function may share the slot of its sources. Other instructions write results before
            // they have read all sources.
            let late = u32::from(!matches!(inst.op, Op::Lane { .. }));
            visit(inst, 0, guard_of(inst), |r, is_def| widen(r, i * 2 + if is_def { 1 } else { late }));
        }
        if small {
            for (r, _) in registers.iter().enumerate() {
                if contains(live_in.row(b), r) {
                    widen(r, block.start * 2);
                }
                if contains(live_out.row(b), r) {
                    widen(r, block.end * 2);
                }
            }
        }
    }
    let end = insts.len() as u32 * 2 + 1;
    let entry_live = |r: usize| small && contains(live_in.row(0), r);
    let mut undefined: Vec<usize> =
        (0..n).filter(|r| entry_live(*r) || (!small && interval[*r].0 != u32::MAX)).collect();
    for r in undefined.iter().copied().chain(parameters.iter().map(|p| p.index())) {
        interval[r] = (0, end);
    }
    // Registers that tensor cores use stay in use after the instruction until a wait, so they share their slot with
    // nothing.
    for inst in insts.iter().filter(|inst| matches!(inst.op, Op::Wgmma(_))) {
        visit(inst, 0, None, |r, _| interval[r] = (0, end));
    }
    undefined.retain(|r| !parameters.iter().any(|p| p.index() == *r));

    let place = assign(registers, &interval);
    let slot_of = |s: Slot| if s.is_frame() { s.with_index(place.index[s.index()]) } else { s };
    for inst in insts.iter_mut() {
        inst.map_registers(slot_of);
        if !inst.guard.is_always() {
            inst.guard = Guard::new(place.index[inst.guard.pred()], inst.guard.negated());
        }
    }
    for p in parameters.iter_mut() {
        *p = slot_of(*p);
    }
    let undefined =
        undefined.into_iter().map(|r| Slot::new(registers[r].0, Base::Frame, place.index[r])).collect();
    Frame { units: place.units, preds: place.preds, undefined }
}

fn liveness(insts: &[Inst], blocks: &[Block], n: usize, preds: usize) -> (Sets, Sets) {
    let mut uses = Sets::new(blocks.len(), n);
    let mut defs = Sets::new(blocks.len(), n);
    for (b, block) in blocks.iter().enumerate() {
        for inst in &insts[block.start as usize..block.end as usize] {
            visit(inst, preds, guard_of(inst), |r, is_def| {
                if is_def {
                    insert(defs.row_mut(b), r);
                } else if !contains(defs.row(b), r) {
                    insert(uses.row_mut(b), r);
                }
            });
        }
    }
    let mut live_in = Sets::new(blocks.len(), n);
    let mut live_out = Sets::new(blocks.len(), n);
    let mut by_priority: Vec<usize> = (0..blocks.len()).collect();
    by_priority.sort_unstable_by_key(|b| std::cmp::Reverse(blocks[*b].priority));
    let mut changed = true;
    while changed {
        changed = false;
        for &b in &by_priority {
            for s in &blocks[b].successors {
                for w in 0..live_out.words {
                    let incoming = live_in.row(*s as usize)[w];
                    live_out.row_mut(b)[w] |= incoming;
                }
            }
            for w in 0..live_in.words {
                let new = uses.row(b)[w] | (live_out.row(b)[w] & !defs.row(b)[w]);
                if new != live_in.row(b)[w] {
                    live_in.row_mut(b)[w] = new;
                    changed = true;
                }
            }
        }
    }
    (live_in, live_out)
}

/// Visits the places of a function's frame that an instruction uses and defines: `f(place, is_definition)`.
pub fn visit_places(function: &Function, inst: &Inst, f: impl FnMut(usize, bool)) {
    visit(inst, function.frame.units as usize, guard_of(inst), f);
}

/// Finds the places of a function's frame that are live: a lane may still read them.
pub struct LivePlaces<'f> {
    function: &'f Function,
    live_out: Sets,
}

impl<'f> LivePlaces<'f> {
    /// Returns `None` if the function is too large for the analysis.
    pub fn new(function: &'f Function) -> Option<LivePlaces<'f>> {
        let n = (function.frame.units + function.frame.preds) as usize;
        if n.saturating_mul(function.blocks.len()) > MAX_SET_BITS {
            return None;
        }
        let (_, live_out) = liveness(&function.insts, &function.blocks, n, function.frame.units as usize);
        Some(LivePlaces { function, live_out })
    }

    /// Returns a test of whether a place is live before an instruction.
    pub fn before(&self, at: u32) -> impl Fn(usize) -> bool + use<> {
        let block = self.function.block_of[at as usize];
        let mut live = self.live_out.row(block as usize).to_vec();
        for i in (at..self.function.blocks[block as usize].end).rev() {
            let inst = &self.function.insts[i as usize];
            visit_places(self.function, inst, |place, is_def| {
                if is_def {
                    live[place / 64] &= !(1 << (place % 64));
                }
            });
            // A guarded definition is also a use.
            visit_places(self.function, inst, |place, is_def| {
                if !is_def {
                    insert(&mut live, place);
                }
            });
        }
        move |place| contains(&live, place)
    }
}

struct Places {
    index: Vec<u32>,
    units: u32,
    preds: u32,
}

/// Linear scan: registers, in order of their first use, take the lowest slot whose last holder is dead. The 64-bit
/// slots lie below the 32-bit slots, so that each is aligned.
fn assign(registers: &[(Class, u32)], interval: &[(u32, u32)]) -> Places {
    let mut index = vec![0u32; registers.len()];
    let mut order: Vec<usize> = (0..registers.len()).filter(|r| interval[*r].0 != u32::MAX).collect();
    order.sort_unstable_by_key(|r| interval[*r]);
    // Per class: the free slots, and the slots in use by the end of their lifetime.
    let mut counts = [0u32; 3];
    let mut free: [std::collections::BTreeSet<u32>; 3] = Default::default();
    let mut busy: [std::collections::BinaryHeap<std::cmp::Reverse<(u32, u32)>>; 3] = Default::default();
    for r in order {
        let class = registers[r].0 as usize;
        let (start, end) = interval[r];
        while let Some(std::cmp::Reverse((dead, place))) = busy[class].peek().copied() {
            if dead >= start {
                break;
            }
            busy[class].pop();
            free[class].insert(place);
        }
        let place = free[class].pop_first().unwrap_or_else(|| {
            counts[class] += 1;
            counts[class] - 1
        });
        busy[class].push(std::cmp::Reverse((end, place)));
        index[r] = place;
    }
    let wide_units = counts[Class::R64 as usize] * 2;
    for (r, (class, _)) in registers.iter().enumerate() {
        match class {
            Class::R64 => index[r] *= 2,
            Class::R32 => index[r] += wide_units,
            Class::Pred => {}
        }
    }
    // An unused register still needs a valid index, in case an instruction names it only as a result.
    Places {
        index,
        units: wide_units + counts[Class::R32 as usize].max(1),
        preds: counts[Class::Pred as usize].max(1),
    }
}
