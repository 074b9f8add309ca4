//! Stores whose value is a function of the address that they store to: `seen[key] = key`, `out[r] = start[r + 1] - start[r]`.
//! Threads that store to one address then store one value, whatever the threads and the blocks are.
//!
//! Starting from the address of a store, this module goes back through operations that can be undone, such as additions of
//! parameters and multiplications by constants: if the address is known, their operand is known, too. The stored value
//! must be computed from such operands, from constants and parameters, and from loads at addresses that are computed in
//! the same way. A load counts only if nothing orders it after writes of other threads, and if it reads memory that the
//! launch does not write: the fact names the parameters that point to this memory.
//!
//! Only registers with a single definition are followed. Definitions dominate their uses, so all registers behind a store
//! belong to one iteration of every loop. Address arithmetic is taken to be free of overflow.

use std::collections::HashMap;

use super::{apply, hash};
use crate::isa::decode::Constant;
use crate::isa::lane::LaneFn;
use crate::isa::op::{Base, Class, Guard, Inst, Op, Order, Slot};
use crate::isa::properties::Results;
use crate::isa::types::Space;
use crate::program::facts::{Code, Fact, OfAddress, Parameters};

/// The pointer may come from memory or from a parameter beyond the set.
const ANYWHERE: Parameters = 1 << 63;
/// It may be the address of a variable of the module.
const VARIABLE: Parameters = 1 << 62;
const PARAMETERS: u32 = 62;

/// Limit of instructions behind a store that are looked at.
const MAX_STEPS: usize = 256;

/// For each instruction of a function, what is known about the value that it stores.
pub fn of_address(code: &Code<'_>, facts: &[Fact]) -> Vec<OfAddress> {
    let mut found = vec![OfAddress::default(); code.insts.len()];
    if !code.is_entry || !code.insts.iter().any(is_plain_store) {
        return found;
    }
    let search = Search::new(code, facts);
    for (at, inst) in code.insts.iter().enumerate().filter(|(_, inst)| is_plain_store(inst)) {
        found[at] = search.store(inst).unwrap_or_default();
    }
    found
}

fn is_plain_store(inst: &Inst) -> bool {
    matches!(&inst.op, Op::Store(access) if access.order == Order::Weak && access.space != Space::Local)
}

/// The parameters that point to the memory that a function may write. `None`: it may write any memory.
pub fn written(code: &Code<'_>) -> Option<Parameters> {
    let roots = roots(code);
    let mut all = 0;
    for inst in code.insts {
        let address = match &inst.op {
            Op::Store(access) if matches!(access.space, Space::Global | Space::Generic) => inst.sources()[0],
            Op::Atom { access, .. } if matches!(access.space, Space::Global | Space::Generic) => {
                inst.sources()[0]
            }
            Op::WmmaStore(memory) if memory.space == Space::Shared => continue,
            Op::WmmaStore(_) | Op::StoreBulk { .. } => inst.sources()[0],
            Op::TensorStore(_) | Op::CopyMap { .. } | Op::ReplaceInMap { .. } => return None,
            Op::Call { .. } | Op::CallIndirect | Op::Malloc | Op::Free => return None,
            _ => continue,
        };
        let root = root_of(address, &roots, code);
        if root == 0 || root & ANYWHERE != 0 {
            return None;
        }
        all |= root & !VARIABLE;
    }
    Some(all)
}

/// The offset of a parameter of the set.
pub fn offsets(set: Parameters) -> impl Iterator<Item = usize> {
    (0..PARAMETERS).filter(move |n| set >> n & 1 == 1).map(|n| n as usize * 8)
}

/// For each register, the parameters that it may point into.
fn roots(code: &Code<'_>) -> Vec<Parameters> {
    let mut roots = vec![0; code.registers];
    for p in code.params.iter().filter(|p| p.is_frame()) {
        roots[p.index()] = ANYWHERE;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for inst in code.insts {
            let root = match &inst.op {
                Op::LoadParam { offset, .. } if offset % 8 == 0 && offset / 8 < PARAMETERS => {
                    1 << (offset / 8)
                }
                Op::LoadParam { .. } => ANYWHERE,
                op if op.properties().results == Results::Sources => {
                    // A wide register that is put together from narrow ones can be any address.
                    let packs = matches!(op, Op::Pack { .. });
                    let sources = inst.sources().iter().map(|s| root_of(*s, &roots, code));
                    sources.fold(if packs { ANYWHERE } else { 0 }, |all, root| all | root)
                }
                _ => ANYWHERE,
            };
            for d in inst.results().iter().filter(|d| d.is_frame() && d.is_wide()) {
                let new = roots[d.index()] | root;
                changed |= std::mem::replace(&mut roots[d.index()], new) != new;
            }
        }
    }
    roots
}

fn root_of(slot: Slot, roots: &[Parameters], code: &Code<'_>) -> Parameters {
    if slot.is_frame() {
        return if slot.class() == Class::R64 { roots[slot.index()] } else { 0 };
    }
    let is_variable = code.constants.iter().any(|(class, constant, index)| {
        slot.base() == Base::Const as usize
            && *class == slot.class()
            && *index as usize == slot.index()
            && matches!(constant, Constant::Variable(..))
    });
    if is_variable { VARIABLE } else { 0 }
}

struct Search<'a> {
    code: &'a Code<'a>,
    facts: &'a [Fact],
    roots: Vec<Parameters>,
    /// The only definition of each register.
    definitions: Vec<Option<usize>>,
    /// Numbers of the functions of lanes, in the order of the program.
    functions: HashMap<usize, u64>,
}

/// What is known while the value of one store is followed.
#[derive(Default)]
struct Known {
    values: HashMap<Slot, Option<u64>>,
    loads: Parameters,
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(code: &'a Code<'a>, facts: &'a [Fact]) -> Self {
        let mut definitions = vec![None; code.registers];
        let mut several = vec![false; code.registers];
        let mut functions = HashMap::new();
        for (at, inst) in code.insts.iter().enumerate() {
            if let Op::Lane { f, .. } = &inst.op {
                let next = functions.len() as u64;
                functions.entry(*f as usize).or_insert(next);
            }
            for d in inst.results().iter().filter(|d| d.is_frame()) {
                several[d.index()] |= definitions[d.index()].is_some() || inst.guard != Guard::ALWAYS;
                definitions[d.index()] = Some(at);
            }
        }
        definitions.iter_mut().zip(several).filter(|(_, several)| *several).for_each(|(d, _)| *d = None);
        Search { code, facts, roots: roots(code), definitions, functions }
    }

    fn store(&self, inst: &Inst) -> Option<OfAddress> {
        let Op::Store(access) = &inst.op else { return None };
        let (address, values) = inst.sources().split_first()?;
        let mut known = Known::default();
        let token = hash(hash(11, access.offset as u64), u64::from(access.ty.bytes));
        self.learn(*address, token, &mut known);
        // A value without any part that depends on the address is another matter.
        let mut function = hash(12, u64::from(access.vector));
        for value in values {
            function = hash(function, self.value(*value, &mut known)?);
        }
        Some(OfAddress { function: function | 1, loads: known.loads })
    }

    fn definition(&self, slot: Slot) -> Option<&Inst> {
        let at = if slot.is_frame() { self.definitions[slot.index()] } else { None };
        at.map(|at| &self.code.insts[at])
    }

    /// A register has a known value, and so have those from which it was computed in a way that can be undone.
    fn learn(&self, slot: Slot, value: u64, known: &mut Known) {
        let (mut slot, mut value) = (slot, value);
        for _ in 0..64 {
            known.values.insert(slot, Some(value));
            let Some(inst) = self.definition(slot) else { return };
            let Op::Lane { f, imm, .. } = &inst.op else { return };
            let sources = inst.sources();
            let mut fixed = Known::default();
            let others: Vec<Option<u64>> = sources.iter().map(|s| self.value(*s, &mut fixed)).collect();
            let mut open = (0..sources.len()).filter(|i| others[*i].is_none());
            let (Some(place), None) = (open.next(), open.next()) else { return };
            if fixed.loads != 0 || !self.can_be_undone(*f, *imm, inst, place) {
                return;
            }
            value =
                others.iter().flatten().fold(hash(self.function(*f, *imm), value), |all, v| hash(all, *v));
            value = hash(value, place as u64);
            slot = sources[place];
        }
    }

    fn function(&self, f: LaneFn, imm: u32) -> u64 {
        hash(13 + self.functions.get(&(f as usize)).copied().unwrap_or(u64::MAX / 2), u64::from(imm))
    }

    /// Whether different values of a source give different results, found out by trial. Sources without a constant value
    /// are parameters and can be any number.
    fn can_be_undone(&self, f: LaneFn, imm: u32, inst: &Inst, place: usize) -> bool {
        const OTHERS: [u64; 6] = [0, 1, u64::MAX, 0x3f80_0000_3f80_0000, 5, 0x0123_4567_89ab_cdef];
        let (sources, result) = (inst.sources(), inst.results()[0]);
        if sources.len() > 3 || sources.iter().any(|s| s.class() == Class::Pred && !s.is_none()) {
            return false;
        }
        let probes = probes(if sources[place].is_wide() { 62 } else { 31 });
        OTHERS.iter().all(|other| {
            let mut results: Vec<u64> = Vec::new();
            for batch in probes.chunks(32) {
                let numbers = |i: usize| match self.constant(sources[i]) {
                    _ if i == place => std::array::from_fn(|l| batch[l.min(batch.len() - 1)]),
                    constant => [constant.unwrap_or(*other); 32],
                };
                let numbers: Vec<[u64; 32]> = (0..sources.len()).map(numbers).collect();
                results.extend(&apply(f, imm, result, sources, &numbers)[..batch.len()]);
            }
            is_linear(&probes, &results, result.is_wide()) || are_distinct(results)
        })
    }

    fn constant(&self, slot: Slot) -> Option<u64> {
        let is_it = |class: &Class, index: u32| {
            slot.base() == Base::Const as usize && *class == slot.class() && index as usize == slot.index()
        };
        self.code.constants.iter().find_map(|(class, value, index)| match value {
            Constant::Bits(bits) if is_it(class, *index) => Some(*bits),
            _ => None,
        })
    }

    /// The expression of a value: of what is known, of constants and parameters. `None` if it depends on anything else.
    fn value(&self, slot: Slot, known: &mut Known) -> Option<u64> {
        if slot.is_none() {
            return Some(0);
        }
        if !slot.is_frame() {
            // Special registers differ between threads, except for those of the launch, which are not followed.
            return (slot.base() == Base::Const as usize).then(|| hash(14, u64::from(slot.0)));
        }
        if let Some(value) = known.values.get(&slot) {
            return *value;
        }
        known.steps += 1;
        if known.steps > MAX_STEPS {
            return None;
        }
        // Definitions that depend on themselves have no value.
        known.values.insert(slot, None);
        let value = self.computed(slot, known);
        known.values.insert(slot, value);
        value
    }

    fn computed(&self, slot: Slot, known: &mut Known) -> Option<u64> {
        let at = self.definitions[slot.index()]?;
        let inst = &self.code.insts[at];
        let mut loads = 0;
        let operation = match &inst.op {
            Op::Lane { f, imm, .. } => self.function(*f, *imm),
            Op::LoadParam { ty, vector, offset } => {
                return Some(hash(
                    hash(15, u64::from(*offset)),
                    u64::from(ty.bytes) << 8 | u64::from(*vector),
                ))
                .filter(|_| inst.results().len() == 1);
            }
            Op::Load(access) if access.order == Order::Weak && access.space == Space::Global => {
                if !access.non_coherent {
                    let root = root_of(inst.sources()[0], &self.roots, self.code);
                    if self.facts[at].is_late || root == 0 || root & (ANYWHERE | VARIABLE) != 0 {
                        return None;
                    }
                    loads = root;
                }
                hash(
                    hash(16, access.offset as u64),
                    u64::from(access.ty.bytes) << 8 | u64::from(access.ty.signed),
                )
            }
            Op::LocalAddress { .. } | Op::IsSpace { .. } => return None,
            op if op.properties().results == Results::Sources => hash(17, at as u64),
            _ => return None,
        };
        let place = inst.results().iter().position(|d| *d == slot)?;
        let mut all = hash(operation, place as u64);
        for source in inst.sources() {
            all = hash(all, self.value(*source, known)?);
        }
        known.loads |= loads;
        Some(all)
    }
}

/// Numbers of both signs and of all sizes. The first two are 0 and 1.
fn probes(bits: u32) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..34).collect();
    for bit in 5..bits {
        let power = 1u64 << bit;
        numbers.extend([
            power,
            power + 1,
            power | power >> 1,
            power.wrapping_neg(),
            (power + 1).wrapping_neg(),
        ]);
    }
    numbers.extend((1..34u64).map(u64::wrapping_neg));
    numbers
}

/// Whether the operation multiplies by a number that is not zero and adds another, as long as nothing overflows.
fn is_linear(probes: &[u64], results: &[u64], is_wide: bool) -> bool {
    let mask = if is_wide { u64::MAX } else { u64::from(u32::MAX) };
    let factor = results[1].wrapping_sub(results[0]) & mask;
    // A multiple of a large power of two leaves little of its operand.
    let keeps = factor.trailing_zeros() < 16;
    let line = |(x, y): (&u64, &u64)| x.wrapping_mul(factor).wrapping_add(results[0]) & mask == *y;
    keeps && probes.iter().zip(results).all(line)
}

fn are_distinct(mut results: Vec<u64>) -> bool {
    let count = results.len();
    results.sort_unstable();
    results.dedup();
    results.len() == count
}
