//! What the program text says about the values that instructions load and store, before anything runs.
//!
//! Two threads that store to one address without order race, unless both store the same value. Whether the values are
//! the same in one run says little: other inputs may make them differ. So the race checker asks this analysis whether
//! the values are the same in every run. A value is described by what it varies with ([`Varies`]): the thread, the
//! block, the iteration of a loop, the contents of memory. ([`super::values`] tells which threads of a block have equal
//! values all the same.) The analysis is a forward pass over virtual registers,
//! repeated until nothing changes. PTX is nearly in SSA form, so a register has one description for all its uses. A
//! register with several definitions also varies with the branches that choose between them.
//!
//! Threads that load from one address have the same value only if memory does not change in between. Threads that pass
//! only barriers of the whole block change it between two barriers in no order, which is a race of its own. Locks, flags
//! and barriers for a part of the block order threads one after another, so a load after them ([`Fact::is_late`]) counts
//! as varying, until the next barrier of the whole block.
//!
//! The analysis also marks loads that poll (a loop ends by their value), plain loads that only seed a
//! compare-and-swap loop, and stores that are made only after the result of an atomic was seen.
//!
//! Everything unknown counts as varying with everything. This is the case for results of calls and parameters of
//! functions that were not inlined.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::control::ControlFlow;
use super::flow::Block;
use crate::isa::decode::{Constant, Meta, SPECIALS};
use crate::isa::op::{AtomOp, BarMode, Base, Flow, Guard, Inst, MbarrierOp, Op, Order, Slot};
use crate::isa::properties::Results;
use crate::isa::types::{Class, Space};

/// A set of things that a value varies with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Varies(u8);

impl Varies {
    pub const NOTHING: Varies = Varies(0);
    /// The threads of a block may have different values.
    pub const THREAD: Varies = Varies(1);
    pub const BLOCK: Varies = Varies(2);
    /// One thread may have different values when it executes an instruction several times.
    pub const TIME: Varies = Varies(4);
    /// The value was computed from the contents of memory.
    pub const DATA: Varies = Varies(8);
    /// The value was computed from the result of an atomic or of another strong read.
    pub const ATOMIC: Varies = Varies(16);
    pub const EVERYTHING: Varies = Varies(31);

    pub fn has(self, other: Varies) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub fn with(self, other: Varies) -> Varies {
        Varies(self.0 | other.0)
    }

    #[must_use]
    pub fn without(self, other: Varies) -> Varies {
        Varies(self.0 & !other.0)
    }
}

/// What a compare-and-swap loop starts with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seed {
    #[default]
    No,
    Yes,
    /// The load and the compare-and-swap have one source place: they are in a function without line information, such
    /// as the atomics of `cuda_bf16.h`.
    InHeader,
}

/// Whether a store is made only after the thread has seen the result of an atomic at the same address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterAtomic {
    No,
    Yes,
    /// The thread has seen the result of an atomic or of another strong read, perhaps of another address.
    #[default]
    Perhaps,
}

/// A set of kernel parameters: a bit for each offset that is a multiple of 8.
pub type Parameters = u64;

/// The value of a store as a function of its address ([`super::values::by_address`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfAddress {
    /// Two stores with equal functions store equal values at equal addresses. Zero: not a function of the address.
    pub function: u64,
    /// The parameters that point to memory which the value was loaded from. The launch must not write this memory.
    pub loads: Parameters,
}

/// What is known about a load or a store. For a store, about the stored value; for a load, about the loaded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    pub varies: Varies,
    /// Between two executions of the store, a thread passes a barrier of the whole block.
    pub once: bool,
    /// Two stores with equal identities store the same value, as far as the value does not vary. Zero is unknown.
    pub identity: u64,
    /// Whether the store is made only after the thread has seen the result of an atomic at the same address.
    pub after_atomic: AfterAtomic,
    /// A loop ends by the value of this load.
    pub polls: bool,
    pub seed: Seed,
    pub of_address: OfAddress,
    /// Since the last barrier of the whole block, the thread has passed an operation that can order it after other
    /// threads of its block. Memory may have changed since they loaded from it.
    pub is_late: bool,
}

impl Fact {
    pub const UNKNOWN: Fact = Fact {
        varies: Varies::EVERYTHING,
        once: false,
        identity: 0,
        after_atomic: AfterAtomic::Perhaps,
        polls: false,
        seed: Seed::No,
        of_address: OfAddress { function: 0, loads: 0 },
        is_late: true,
    };
}

/// Limits that keep the time for a hostile file small. Beyond them nothing is known.
const MAX_BLOCKS: usize = 1 << 14;
const MAX_PASSES: usize = 64;
/// Maximum number of volatile loads, and of compare-and-swaps, that are followed.
const MAX_FOLLOWED: usize = 256;

/// A function before its registers have slots.
pub struct Code<'a> {
    pub insts: &'a [Inst],
    pub metas: &'a [Meta],
    pub blocks: &'a [Block],
    pub registers: usize,
    pub params: &'a [Slot],
    pub constants: &'a [(Class, Constant, u32)],
    pub is_entry: bool,
}

/// Returns a fact for every instruction. Only those of loads and stores have a meaning.
pub fn analyse(code: &Code<'_>) -> Vec<Fact> {
    let relevant = |inst: &Inst| matches!(inst.op, Op::Load(_) | Op::Store(_) | Op::StoreMatrix { .. });
    if !code.insts.iter().any(relevant) || code.blocks.len() > MAX_BLOCKS {
        return vec![Fact::UNKNOWN; code.insts.len()];
    }
    let mut analysis = Analysis::new(code);
    analysis.settle();
    analysis.find_atomics();
    let identities = analysis.identities();
    let mut facts: Vec<Fact> = (0..code.insts.len()).map(|at| analysis.fact(at, &identities)).collect();
    facts.iter_mut().zip(&analysis.late).for_each(|(fact, late)| fact.is_late = *late);
    analysis.mark_polls(&mut facts);
    analysis.mark_seeds(&mut facts);
    facts
}

struct Analysis<'a> {
    code: &'a Code<'a>,
    control: ControlFlow,
    /// Blocks that a thread can run twice without a barrier of the whole block in between.
    repeats: Vec<bool>,
    block_of: Vec<u32>,
    /// Definitions of each register.
    definitions: Vec<Vec<u32>>,
    /// Registers that an instruction uses.
    is_used: Vec<bool>,
    values: Vec<Varies>,
    /// What it varies with whether a block runs.
    reached: Vec<Varies>,
    /// A value that varies with an atomic was stored to shared memory.
    shared_atomic: bool,
    /// The instructions of [`Fact::is_late`], and the blocks that begin so.
    late: Vec<bool>,
    begins_late: Vec<bool>,
    generic_local: bool,
    /// The addresses of the atomics: register and offset.
    atomics: Vec<(Slot, i32)>,
}

/// Whether every thread waits there for all threads of the block.
fn is_barrier_of_block(inst: &Inst) -> bool {
    let waits = matches!(inst.op, Op::Barrier { has_count: false, mode, .. } if mode != BarMode::Arrive);
    waits && inst.guard.is_always()
}

/// Whether a generic address in the function may be one of local memory.
pub fn may_use_generic_local(code: &Code<'_>) -> bool {
    let is_local = |constant: &Constant| matches!(constant, Constant::Window { space: Space::Local, .. });
    !code.is_entry || code.constants.iter().any(|(_, constant, _)| is_local(constant))
}

/// The blocks that are in a loop without a barrier of the whole block.
fn repeats(code: &Code<'_>) -> Vec<bool> {
    let without_barriers: Vec<Block> = code
        .blocks
        .iter()
        .map(|block| {
            let insts = &code.insts[block.start as usize..block.end as usize];
            let has_barrier = insts.iter().any(is_barrier_of_block);
            let successors = if has_barrier { Vec::new() } else { block.successors.clone() };
            Block { successors, ..Block::default() }
        })
        .collect();
    ControlFlow::new(&without_barriers).in_loop
}

fn guard(inst: &Inst) -> Option<usize> {
    (inst.guard != Guard::ALWAYS).then(|| inst.guard.pred())
}

impl<'a> Analysis<'a> {
    fn new(code: &'a Code<'a>) -> Self {
        let mut block_of = vec![0; code.insts.len()];
        for (b, block) in code.blocks.iter().enumerate() {
            block_of[block.start as usize..block.end as usize].fill(b as u32);
        }
        let mut definitions = vec![Vec::new(); code.registers];
        for (at, inst) in (0..).zip(code.insts) {
            for d in inst.results().iter().filter(|d| d.is_frame()) {
                definitions[d.index()].push(at);
            }
        }
        let mut is_used = vec![false; code.registers];
        for inst in code.insts {
            let sources = inst.sources().iter().filter(|s| s.is_frame()).map(|s| s.index());
            for register in sources.chain(guard(inst)) {
                is_used[register] = true;
            }
        }
        let mut values = vec![Varies::NOTHING; code.registers];
        for p in code.params.iter().filter(|p| p.is_frame()) {
            values[p.index()] = Varies::EVERYTHING;
        }
        Analysis {
            code,
            control: ControlFlow::new(code.blocks),
            repeats: repeats(code),
            block_of,
            definitions,
            is_used,
            values,
            reached: vec![Varies::NOTHING; code.blocks.len()],
            shared_atomic: false,
            late: vec![false; code.insts.len()],
            begins_late: vec![!code.is_entry; code.blocks.len()],
            generic_local: may_use_generic_local(code),
            atomics: Vec::new(),
        }
    }

    fn find_atomics(&mut self) {
        for inst in self.code.insts {
            if let Op::Atom { access, .. } = &inst.op {
                let address = (self.root(inst.sources()[0]), access.offset);
                if !self.atomics.contains(&address) && self.atomics.len() < MAX_FOLLOWED {
                    self.atomics.push(address);
                }
            }
        }
    }

    /// Repeats the pass until nothing changes. Values only ever vary with more.
    fn settle(&mut self) {
        let (mut changed, mut passes) = (true, 0);
        while changed {
            passes += 1;
            if passes > MAX_PASSES {
                self.values.fill(Varies::EVERYTHING);
                self.reached.fill(Varies::EVERYTHING);
                self.late.fill(true);
                return;
            }
            changed = self.settle_control() | self.settle_order();
            for at in 0..self.code.insts.len() {
                let inst = &self.code.insts[at];
                if let Op::Store(access) = &inst.op
                    && matches!(access.space, Space::Shared | Space::Generic)
                    && !self.shared_atomic
                    && self.stored(inst).has(Varies::ATOMIC)
                {
                    self.shared_atomic = true;
                    changed = true;
                }
                for (n, d) in inst.results().iter().enumerate().filter(|(_, d)| d.is_frame()) {
                    let new = self.result(at, inst, n).with(self.values[d.index()]);
                    changed |= new != self.values[d.index()];
                    self.values[d.index()] = new;
                }
            }
        }
    }

    fn settle_control(&mut self) -> bool {
        let mut changed = false;
        for b in 0..self.reached.len() {
            let mut new = self.reached[b];
            for &branch in &self.control.depends_on[b] {
                new = new.with(self.reached[branch as usize]).with(self.condition(branch));
            }
            changed |= new != self.reached[b];
            self.reached[b] = new;
        }
        changed
    }

    /// Finds the late instructions. Returns whether there are more than before.
    fn settle_order(&mut self) -> bool {
        let (mut found, mut changed) = (false, true);
        while changed {
            changed = false;
            for (b, block) in self.code.blocks.iter().enumerate() {
                let mut late = self.begins_late[b];
                for at in block.start as usize..block.end as usize {
                    if late {
                        changed |= !std::mem::replace(&mut self.late[at], true);
                    }
                    late = !is_barrier_of_block(&self.code.insts[at]) && (late || self.orders(at));
                }
                for s in block.successors.iter().filter(|_| late) {
                    changed |= !std::mem::replace(&mut self.begins_late[*s as usize], true);
                }
            }
            found |= changed;
        }
        found
    }

    /// Whether an instruction can order a thread after some threads of its block and not after others.
    fn orders(&self, at: usize) -> bool {
        let inst = &self.code.insts[at];
        let differs = |varies: Varies| varies.has(Varies::THREAD);
        match &inst.op {
            Op::Atom { .. } => inst.results().iter().any(|d| d.is_frame() && self.is_used[d.index()]),
            Op::Load(access) => access.order != Order::Weak,
            Op::Call { .. } | Op::CallIndirect => true,
            Op::Barrier { has_count: true, mode, .. } if *mode != BarMode::Arrive => {
                differs(self.joined(inst.sources()).with(self.reached[self.block_of[at] as usize]))
                    || guard(inst).is_some_and(|p| differs(self.values[p]))
            }
            // Whether a block waits again depends on the wait itself, so only the barrier and its phase count.
            Op::Mbarrier { op: MbarrierOp::TestWait { .. }, .. } => differs(self.joined(inst.sources())),
            _ => false,
        }
    }

    /// What the branch at the end of a block varies with.
    fn condition(&self, block: u32) -> Varies {
        let last = &self.code.insts[self.code.blocks[block as usize].end as usize - 1];
        let mut varies = guard(last).map_or(Varies::NOTHING, |p| self.values[p]);
        if let Op::BranchIndexed { .. } = last.op {
            varies = varies.with(self.joined(last.sources()));
        }
        varies
    }

    fn source(&self, slot: Slot) -> Varies {
        if slot.is_none() || slot.base() == Base::Const as usize {
            return Varies::NOTHING;
        }
        if slot.is_special() {
            return special(SPECIALS.get(slot.index()).copied().unwrap_or_default());
        }
        self.values[slot.index()]
    }

    fn joined(&self, slots: &[Slot]) -> Varies {
        slots.iter().fold(Varies::NOTHING, |v, s| v.with(self.source(*s)))
    }

    fn stored(&self, inst: &Inst) -> Varies {
        self.joined(inst.sources().get(1..).unwrap_or_default())
    }

    /// What a result varies with, including the choice between several definitions of its register.
    fn result(&self, at: usize, inst: &Inst, number: usize) -> Varies {
        let mut varies = self.computed(at, inst, number);
        let block = self.block_of[at] as usize;
        if let Some(p) = guard(inst) {
            varies = varies.with(self.values[p]);
        }
        let Some(d) = inst.results().get(number) else { return varies };
        if self.definitions[d.index()].len() > 1 {
            varies = varies.with(self.reached[block]);
            if self.control.in_loop[block] {
                varies = varies.with(Varies::TIME);
            }
        }
        varies
    }

    fn computed(&self, at: usize, inst: &Inst, number: usize) -> Varies {
        let everything = self.joined(inst.sources());
        match &inst.op {
            Op::Shuffle { .. } if number == 0 => everything,
            op => match op.properties().results {
                Results::Sources => everything,
                Results::Memory(space, order) => self.loaded(at, (space, order), everything),
                Results::Warp => everything.with(Varies::THREAD),
                Results::Block => {
                    let is_repeated = self.control.in_loop[self.block_of[at] as usize];
                    let time = if is_repeated { Varies::TIME } else { Varies::NOTHING };
                    // Barriers with other numbers, and those for a part of the block, have other results.
                    let one = matches!(op, Op::Barrier { has_count: false, .. })
                        && !self.source(inst.sources()[0]).has(Varies::THREAD);
                    let threads = if one { Varies::NOTHING } else { Varies::THREAD };
                    everything.without(Varies::THREAD).with(threads).with(Varies::BLOCK).with(time)
                }
                Results::OtherLane | Results::Unknown => Varies::EVERYTHING,
            },
        }
    }

    /// A loaded value. Threads that load from the same address, unless memory changes, have the same value. If memory
    /// changes without order between the loads, the loads themselves race.
    fn loaded(&self, at: usize, (space, order): (Space, Order), address: Varies) -> Varies {
        if order != Order::Weak {
            return Varies::EVERYTHING;
        }
        let unknown = Varies::EVERYTHING.without(Varies::ATOMIC);
        let is_constant = matches!(&self.code.insts[at].op, Op::Load(access) if access.non_coherent);
        let mut varies = address.with(Varies::DATA);
        if matches!(space, Space::Shared | Space::Generic) {
            let atomic = if self.shared_atomic { Varies::ATOMIC } else { Varies::NOTHING };
            varies = varies.with(Varies::BLOCK).with(atomic);
        }
        match space {
            Space::Param => address,
            Space::Local => unknown,
            Space::Generic if self.generic_local => varies.with(unknown),
            _ if self.late[at] && !is_constant => varies.with(unknown),
            _ => varies,
        }
    }

    /// The only definition of a register.
    fn definition(&self, slot: Slot) -> Option<usize> {
        if !slot.is_frame() {
            return None;
        }
        match self.definitions[slot.index()][..] {
            [only] => Some(only as usize),
            _ => None,
        }
    }

    /// The register, constant or special register that a register is a copy of.
    fn root(&self, slot: Slot) -> Slot {
        let mut at = slot;
        for _ in 0..8 {
            let Some(inst) = self.definition(at).map(|d| &self.code.insts[d]) else { break };
            let copies = matches!(inst.op, Op::Lane { flow: Flow::Copy, .. }) && guard(inst).is_none();
            match inst.sources() {
                [from, ..] if copies => at = *from,
                _ => break,
            }
        }
        at
    }

    /// Identities of all registers: equal for registers that hold the same expression of constants and parameters.
    fn identities(&self) -> Vec<u64> {
        let mut identities: Vec<u64> = (0..self.code.registers).map(|r| digest(&("register", r))).collect();
        for inst in self.code.insts {
            for (n, d) in inst.results().iter().enumerate() {
                if self.definition(*d).is_none() || guard(inst).is_some() {
                    continue;
                }
                let mut hash = DefaultHasher::new();
                let is_pure = match &inst.op {
                    Op::Lane { flow: Flow::Copy, .. } if inst.sources().len() == 1 => {
                        identities[d.index()] = identity(inst.sources()[0], &identities);
                        continue;
                    }
                    Op::Lane { f, imm, .. } => {
                        (*f as usize, imm).hash(&mut hash);
                        true
                    }
                    Op::LoadParam { ty, vector, offset } => {
                        (ty.bytes, ty.signed, vector, offset).hash(&mut hash);
                        true
                    }
                    _ => false,
                };
                if is_pure {
                    n.hash(&mut hash);
                    for s in inst.sources() {
                        identity(*s, &identities).hash(&mut hash);
                    }
                    identities[d.index()] = hash.finish() | 1;
                }
            }
        }
        identities
    }

    fn fact(&self, at: usize, identities: &[u64]) -> Fact {
        let inst = &self.code.insts[at];
        match &inst.op {
            Op::Store(access) => {
                let mut when = self.reached[self.block_of[at] as usize].with(self.joined(inst.sources()));
                if let Some(p) = guard(inst) {
                    when = when.with(self.values[p]);
                }
                let mut hash = DefaultHasher::new();
                (access.ty.bytes, access.vector).hash(&mut hash);
                for s in &inst.sources()[1..] {
                    identity(*s, identities).hash(&mut hash);
                }
                Fact {
                    varies: self.stored(inst),
                    once: !self.repeats[self.block_of[at] as usize],
                    identity: hash.finish() | 1,
                    after_atomic: if !self.code.is_entry {
                        AfterAtomic::Perhaps
                    } else if !when.has(Varies::ATOMIC) {
                        AfterAtomic::No
                    } else if self.atomics.contains(&(self.root(inst.sources()[0]), access.offset)) {
                        AfterAtomic::Yes
                    } else {
                        AfterAtomic::Perhaps
                    },
                    ..Fact::UNKNOWN
                }
            }
            Op::StoreMatrix { .. } => {
                Fact { once: !self.repeats[self.block_of[at] as usize], ..Fact::UNKNOWN }
            }
            Op::Load(access) => {
                let varies = self.loaded(at, (access.space, access.order), self.joined(inst.sources()));
                Fact { varies, ..Fact::UNKNOWN }
            }
            _ => Fact::UNKNOWN,
        }
    }

    /// Marks the volatile loads that a loop waits for, and all loads from the same address (the compiler may have moved
    /// the first test of the loop in front of it).
    fn mark_polls(&self, facts: &mut [Fact]) {
        let volatile = |inst: &Inst| matches!(&inst.op, Op::Load(access) if access.order == Order::Volatile);
        let loads: Vec<usize> = (0..self.code.insts.len())
            .filter(|at| volatile(&self.code.insts[*at]))
            .take(MAX_FOLLOWED)
            .collect();
        if loads.is_empty() {
            return;
        }
        let loops = super::flow::loops(self.code.blocks);
        let address = |at: usize| {
            let inst = &self.code.insts[at];
            let Op::Load(access) = &inst.op else { return None };
            Some((self.root(inst.sources()[0]), access.offset))
        };
        let mut polled = Vec::new();
        for &at in &loads {
            let here = self.block_of[at];
            let derived = self.derived(at);
            let ends = |l: &&Vec<u32>| {
                l.contains(&here)
                    && l.iter().any(|b| {
                        let block = &self.code.blocks[*b as usize];
                        let leaves = block.successors.iter().any(|s| !l.contains(s));
                        let last = &self.code.insts[block.end as usize - 1];
                        leaves && guard(last).is_some_and(|p| derived[p])
                    })
            };
            if loops.iter().any(|l| ends(&l)) {
                polled.push(address(at));
            }
        }
        for at in loads {
            facts[at].polls = polled.contains(&address(at));
        }
    }

    /// The registers that are computed from the results of an instruction.
    fn derived(&self, at: usize) -> Vec<bool> {
        let mut derived = vec![false; self.code.registers];
        let set = |derived: &mut Vec<bool>, inst: &Inst| {
            let mut changed = false;
            for d in inst.results().iter().filter(|d| d.is_frame()) {
                changed |= !std::mem::replace(&mut derived[d.index()], true);
            }
            changed
        };
        let mut changed = set(&mut derived, &self.code.insts[at]);
        while changed {
            changed = false;
            for inst in self.code.insts {
                let uses = |s: &Slot| s.is_frame() && derived[s.index()];
                if inst.sources().iter().any(uses) || guard(inst).is_some_and(|p| derived[p]) {
                    changed |= set(&mut derived, inst);
                }
            }
        }
        derived
    }

    /// Marks the loads whose value a compare-and-swap at the same address expects to find.
    fn mark_seeds(&self, facts: &mut [Fact]) {
        let is_swap = |inst: &Inst| matches!(inst.op, Op::Atom { op: AtomOp::Cas, .. });
        let swaps = self.code.insts.iter().enumerate().filter(|(_, inst)| is_swap(inst));
        for (at, inst) in swaps.take(MAX_FOLLOWED) {
            let Op::Atom { access, .. } = &inst.op else { continue };
            let (address, expected) = (self.root(inst.sources()[0]), inst.sources()[1]);
            for load in self.loads_behind(expected) {
                let from = &self.code.insts[load];
                let Op::Load(loaded) = &from.op else { continue };
                if self.root(from.sources()[0]) == address && loaded.offset == access.offset {
                    let (one, two) = (self.code.metas[load].loc, self.code.metas[at].loc);
                    facts[load].seed = if one != 0 && one == two { Seed::InHeader } else { Seed::Yes };
                }
            }
        }
    }

    /// The loads that a register is a copy of, on any path. Conversions and parts of words count as copies.
    fn loads_behind(&self, slot: Slot) -> Vec<usize> {
        let (mut open, mut seen, mut loads) = (vec![slot], vec![false; self.code.registers], Vec::new());
        while let Some(slot) = open.pop() {
            if !slot.is_frame() || std::mem::replace(&mut seen[slot.index()], true) {
                continue;
            }
            for &at in &self.definitions[slot.index()] {
                let inst = &self.code.insts[at as usize];
                match &inst.op {
                    Op::Load(_) => loads.push(at as usize),
                    Op::Lane { .. }
                    | Op::Convert { .. }
                    | Op::Pack { .. }
                    | Op::Unpack { .. }
                    | Op::Select { .. } => open.extend(inst.sources()),
                    _ => {}
                }
            }
        }
        loads
    }
}

fn digest(of: &impl Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    of.hash(&mut hash);
    hash.finish() | 1
}

fn identity(slot: Slot, identities: &[u64]) -> u64 {
    if slot.is_frame() { identities[slot.index()] } else { digest(&("slot", slot)) }
}

fn special(name: &str) -> Varies {
    match name.split('.').next().unwrap_or_default() {
        "%ntid" | "%nctaid" | "%nwarpid" | "%nsmid" | "%dynamic_smem_size" | "%total_smem_size"
        | "%nclusterid" | "%cluster_nctaid" | "%cluster_nctarank" => Varies::NOTHING,
        "%ctaid" | "%clusterid" | "%cluster_ctaid" | "%cluster_ctarank" | "%smid" => Varies::BLOCK,
        "%warpid" => Varies::THREAD.with(Varies::BLOCK),
        _ => Varies::THREAD,
    }
}
