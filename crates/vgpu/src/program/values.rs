//! Which threads of a block store equal values, whatever the inputs are.
//!
//! Two threads that store to one address without order do not race if both always store the same value. Reductions make
//! such stores: after a butterfly of shuffles all lanes have the result, and compilers let all of them store it. To find
//! them, a function is evaluated symbolically: every register of every thread of a block holds a hash of the expression
//! that it was computed from. A load is named by its instruction and its address, so threads that load from one address
//! have the same value. Thread numbers and constants are numbers and not hashes, so that the address arithmetic of
//! layouts is exact. Threads with equal hashes have equal values in every run, with these limits:
//!
//! - Predicates that are unknown have pseudo-random truth values here, and a few drawings must do ([`MODES`]).
//! - A load has the same value in all threads if they load from one address and no operation but barriers of the whole
//!   block orders them ([`super::facts::Fact::is_late`]). Loads that are ordered in another way are unknown.
//! - Whether two pointers are equal, and what the launch changes in memory, is not known.
//!
//! The checker therefore also compares the bits that are stored in the run. The rules of the evaluation are:
//!
//! - Operations that commute hash their operands in either order ([`Algebra`] is found by trying the operation).
//! - Shuffles move hashes between lanes.
//! - A comparison of hashes has a definite result, which is consistent between lanes. A selection takes the hash that the
//!   comparison chooses. Lanes that compare the same values in another order so choose the same one (argmax). What was
//!   compared and what was not chosen is remembered (`taint`), because other data may choose it.
//! - Where paths without loops join, a lane has the value of the path that the comparisons choose, as in a selection.
//! - A register that a loop changes is a hash of all its definitions and of the branches that choose between them. It begins
//!   equal in all threads, and the evaluation is repeated until no more threads differ.
//!
//! Weaker evaluations explain stores that compilers make although the bits can differ ([`Equality::Close`]): values are
//! elements of a field, so rounding is left out; compared values are never equal; and groups of warps that a byte of shared
//! memory tells what to do are told the same.
//!
//! The evaluation is made when a race checker first asks for it, since correct kernels rarely need it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::control::ControlFlow;
use super::facts::{self, Code, Fact};
use crate::isa::decode::{Constant, Pipe, SPECIALS};
use crate::isa::lane::{LaneFn, TestFn};
use crate::isa::op::{Base, BoolOp, Flow, Guard, Inst, Op, Order, ShflMode, Slot};
use crate::isa::properties::Results;
use crate::isa::types::{Class, Space};

pub mod by_address;
mod decisions;
mod paths;
mod sets;

use paths::{Entry, When};
use sets::{SetId, Sets};

/// How equal the values are that two threads store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Equality {
    Unknown,
    /// They are equal but for rounding, or but for a choice between equal maxima.
    Close,
    Same,
}

/// What an instruction does, as far as its results can be told.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Lane {
        f: LaneFn,
        imm: u32,
        copies: bool,
    },
    Test {
        f: TestFn,
        combine: Option<BoolOp>,
        negate: bool,
    },
    Select {
        negate: bool,
    },
    Logic {
        op: BoolOp,
        negate: [bool; 2],
    },
    Negate {
        negate: bool,
    },
    Truth {
        value: bool,
    },
    Shuffle(ShflMode),
    Pack,
    Unpack,
    /// A plain load. The first source is the address.
    Load {
        offset: i32,
        /// One byte of shared memory that only decides about branches. Compilers keep there what each group of warps does
        /// next, and all groups then run the same instructions.
        is_state: bool,
    },
    Parameter {
        offset: u32,
    },
    /// Depends on the sources of the thread.
    Sources,
    /// Depends on the sources of all lanes.
    Warp,
    /// A part of a matrix that is loaded from rows: depends on the addresses of the rows that the part is in.
    Rows {
        trans: bool,
    },
    /// A part of a matrix: depends on the sources of all lanes and on the lane. The number of warps that work together.
    Fragment {
        warps: usize,
    },
    /// The result of a barrier: equal for all threads of the block, or of those that the barrier counts.
    Block {
        has_count: bool,
    },
    Store,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    rule: Rule,
    guard: Guard,
    floats: bool,
    /// Its registers in `slots`: the results come first.
    first: u32,
    results: u16,
    count: u16,
}

/// A function as the evaluation sees it.
#[derive(Debug)]
pub struct Sketch {
    steps: Vec<Step>,
    slots: Vec<Slot>,
    block_of: Vec<u32>,
    /// For each block, its predecessor, if it has only one and that comes before it.
    after: Vec<Option<u32>>,
    /// For each block, where its lanes come from.
    entries: Vec<Entry>,
    /// For each block that is a loop of its own, the block before the loop, if there is only one.
    loops: Vec<Option<u32>>,
    /// For each block, the blocks whose branches decide whether it runs.
    decided_by: Vec<Vec<u32>>,
    /// The branch at the end of each block that decides about others.
    branches: HashMap<u32, u32>,
    registers: usize,
    params: Vec<Slot>,
    /// Registers with several definitions, and those that a loop reads before it defines them.
    joined: Vec<bool>,
    /// The class of each register.
    classes: Vec<Class>,
    constants: HashMap<u32, u64>,
    /// Numbers of the functions of lanes, in the order of the program. Their addresses differ from run to run.
    functions: HashMap<usize, u64>,
}

/// What the threads of a block store, for each store: one hash per thread.
#[derive(Debug, Default)]
pub struct StoredHashes(HashMap<u32, [Vec<u64>; 2]>);

impl StoredHashes {
    /// Compares the values that two threads store at an instruction of the function.
    pub fn compare(&self, at: u32, one: usize, other: usize) -> Equality {
        let Some(hashes) = self.0.get(&at) else { return Equality::Unknown };
        let equal = |hashes: &[u64]| hashes.get(one).is_some_and(|h| hashes.get(other) == Some(h));
        match [equal(&hashes[0]), equal(&hashes[1])] {
            [true, _] => Equality::Same,
            [_, true] => Equality::Close,
            _ => Equality::Unknown,
        }
    }
}

/// Limit of instructions x warps. Nothing is known about larger functions.
const MAX_WORK: usize = 1 << 18;
const MAX_ROUNDS: usize = 24;
/// Limit of the turns of a loop that are evaluated one by one.
const MAX_TURNS: usize = 16;
/// Rounds without a new difference after which the evaluation ends.
const QUIET_ROUNDS: usize = 2;

#[derive(Clone, Copy)]
struct Mode {
    seed: u64,
    /// Values are elements of a field, and not rounded.
    exact_reals: bool,
    /// Floating-point values that are compared are often equal.
    ties: bool,
}

/// Values are close if they are equal in all modes of exact numbers, and the same if they are equal in all others. A
/// choice that some threads never make is seen only if the truth values of a mode make it, so there are several.
const MODES: [Mode; 10] = [
    Mode { seed: 1, exact_reals: false, ties: false },
    Mode { seed: 2, exact_reals: false, ties: true },
    Mode { seed: 3, exact_reals: true, ties: false },
    Mode { seed: 8, exact_reals: true, ties: false },
    Mode { seed: 9, exact_reals: true, ties: false },
    Mode { seed: 10, exact_reals: true, ties: false },
    Mode { seed: 4, exact_reals: false, ties: false },
    Mode { seed: 5, exact_reals: false, ties: true },
    Mode { seed: 6, exact_reals: false, ties: false },
    Mode { seed: 7, exact_reals: false, ties: true },
];

impl Sketch {
    pub fn new(code: &Code<'_>, facts: &[Fact]) -> Option<Sketch> {
        if !code.insts.iter().any(|inst| matches!(inst.op, Op::Store(_) | Op::StoreMatrix { .. }))
            || code.insts.len() > MAX_WORK
        {
            return None;
        }
        let (mut steps, mut slots) = (Vec::with_capacity(code.insts.len()), Vec::new());
        let mut definitions = vec![0u32; code.registers];
        // A loop whose blocks are in another order reads such a register of the turn before.
        let mut is_read_before = vec![false; code.registers];
        let mut classes = vec![Class::R32; code.registers];
        let mut functions = HashMap::new();
        let generic_local = facts::may_use_generic_local(code);
        let only_decides = decisions::only_decide(code);
        for ((inst, meta), fact) in code.insts.iter().zip(code.metas).zip(facts) {
            if let Op::Lane { f, .. } = &inst.op {
                let next = functions.len() as u64;
                functions.entry(*f as usize).or_insert(next);
            }
            let floats = matches!(meta.pipe, Pipe::Fp32 | Pipe::Fp64 | Pipe::Fp16 | Pipe::Special);
            let (results, sources) = (inst.results(), inst.sources());
            let guard = (!inst.guard.is_always()).then(|| inst.guard.pred());
            let read = sources.iter().filter(|s| s.is_frame()).map(|s| s.index()).chain(guard);
            for r in read.filter(|r| definitions[*r] == 0) {
                is_read_before[r] = true;
            }
            steps.push(Step {
                rule: if is_unknown_load(inst, fact, generic_local) {
                    Rule::Unknown
                } else {
                    rule(inst, &only_decides)
                },
                guard: inst.guard,
                floats,
                first: slots.len() as u32,
                results: results.len() as u16,
                count: (results.len() + sources.len()) as u16,
            });
            slots.extend(results.iter().chain(sources));
            for d in results.iter().filter(|d| d.is_frame()) {
                definitions[d.index()] += 1;
                classes[d.index()] = d.class();
            }
        }
        let mut block_of = vec![0; code.insts.len()];
        for (b, block) in (0..).zip(code.blocks) {
            block_of[block.start as usize..block.end as usize].fill(b);
        }
        let decided_by = ControlFlow::new(code.blocks).depends_on;
        let end = |b: &u32| (code.blocks[*b as usize].end - 1, *b);
        let constants = code.constants.iter().filter_map(|(class, value, index)| match value {
            Constant::Bits(bits) => Some((constant_key(*class, *index as usize), *bits)),
            _ => None,
        });
        let joined: Vec<bool> = definitions
            .iter()
            .zip(is_read_before)
            .map(|(n, is_read_before)| *n > 1 || *n == 1 && is_read_before)
            .collect();
        let several = joined.iter().filter(|joined| **joined).count();
        Some(Sketch {
            steps,
            slots,
            after: predecessors(code),
            entries: paths::entries(code, &decided_by, several),
            loops: loops(code),
            block_of,
            branches: decided_by.iter().flatten().map(end).collect(),
            decided_by,
            registers: code.registers,
            params: code.params.to_vec(),
            joined,
            classes,
            constants: constants.collect(),
            functions,
        })
    }

    /// Evaluates the function for a block of this shape.
    pub fn evaluate(&self, block: [u32; 3]) -> StoredHashes {
        let threads = block.iter().product::<u32>() as usize;
        let warps = threads.div_ceil(32);
        let mut hashes = StoredHashes::default();
        if self.steps.len().saturating_mul(warps) > MAX_WORK {
            return hashes;
        }
        for mode in MODES {
            let Some(found) = Evaluation::new(self, block, mode).run(warps) else {
                return StoredHashes::default();
            };
            for (at, new) in found {
                let of_store =
                    hashes.0.entry(at).or_insert_with(|| [vec![0; warps * 32], vec![0; warps * 32]]);
                let kept = &mut of_store[usize::from(mode.exact_reals)];
                kept.iter_mut().zip(new).for_each(|(kept, new)| *kept = hash(*kept, new));
            }
        }
        hashes
    }

    fn registers_of(&self, step: &Step) -> (&[Slot], &[Slot]) {
        let all = &self.slots[step.first as usize..][..usize::from(step.count)];
        all.split_at(usize::from(step.results))
    }
}

fn predecessors(code: &Code<'_>) -> Vec<Option<u32>> {
    let mut before = vec![Vec::new(); code.blocks.len()];
    for (b, block) in (0u32..).zip(code.blocks) {
        block.successors.iter().for_each(|s| before[*s as usize].push(b));
    }
    let only = |(b, before): (u32, &Vec<u32>)| (before.len() == 1).then(|| before[0]).filter(|p| *p < b);
    (0..).zip(&before).map(only).collect()
}

/// See [`Sketch::loops`].
fn loops(code: &Code<'_>) -> Vec<Option<u32>> {
    let before = |b: u32| {
        let is_before = move |(_, block): &(u32, &super::flow::Block)| block.successors.contains(&b);
        (0u32..).zip(code.blocks).filter(is_before).map(|(number, _)| number)
    };
    let of_block = |b: u32| {
        let block = &code.blocks[b as usize];
        let last = code.insts.get((block.end as usize).checked_sub(1)?)?;
        if last.guard.is_always() || !block.successors.contains(&b) {
            return None;
        }
        let others: Vec<u32> = before(b).filter(|other| *other != b).collect();
        (others.len() == 1 && others[0] < b).then(|| others[0])
    };
    (0..code.blocks.len() as u32).map(of_block).collect()
}

/// Whether a load may find another word in another thread, or at another time.
fn is_unknown_load(inst: &Inst, fact: &Fact, generic_local: bool) -> bool {
    match &inst.op {
        Op::Load(access) if access.space == Space::Generic && generic_local => true,
        Op::Load(access) => fact.is_late && !access.non_coherent,
        Op::LoadMatrix { .. } | Op::WmmaLoad(_) => fact.is_late,
        _ => false,
    }
}

fn rule(inst: &Inst, only_decides: &[bool]) -> Rule {
    match &inst.op {
        Op::Lane { f, imm, flow } => {
            Rule::Lane { f: *f, imm: *imm, copies: matches!(flow, Flow::Copy) && inst.sources().len() == 1 }
        }
        Op::Test { f, combine, negate } => Rule::Test { f: *f, combine: *combine, negate: *negate },
        Op::Select { negate } => Rule::Select { negate: *negate },
        Op::PredLogic { op, negate } => Rule::Logic { op: *op, negate: *negate },
        Op::PredMove { negate } => Rule::Negate { negate: *negate },
        Op::PredSet { value } => Rule::Truth { value: *value },
        Op::Shuffle { mode } => Rule::Shuffle(*mode),
        Op::Pack { .. } => Rule::Pack,
        Op::Unpack { .. } => Rule::Unpack,
        Op::Load(access) if access.order == Order::Weak && access.space != Space::Local => {
            let decides = |slot: &Slot| slot.is_frame() && only_decides[slot.index()];
            let is_byte = access.space == Space::Shared && access.ty.bytes == 1;
            let is_state = is_byte && inst.results().len() == 1 && inst.results().iter().all(decides);
            Rule::Load { offset: access.offset, is_state }
        }
        Op::LoadParam { offset, .. } => Rule::Parameter { offset: *offset },
        Op::Store(_) | Op::StoreMatrix { trans: false, .. } => Rule::Store,
        Op::LoadMatrix { trans, .. } => Rule::Rows { trans: *trans },
        Op::Mma(_) | Op::MoveMatrix | Op::WmmaLoad(_) => Rule::Fragment { warps: 1 },
        Op::Wgmma(_) => Rule::Fragment { warps: 4 },
        op => match op.properties().results {
            Results::Sources => Rule::Sources,
            Results::Warp => Rule::Warp,
            Results::Block => Rule::Block { has_count: matches!(op, Op::Barrier { has_count: true, .. }) },
            Results::Memory(..) | Results::OtherLane | Results::Unknown => Rule::Unknown,
        },
    }
}

fn constant_key(class: Class, index: usize) -> u32 {
    (index as u32) << 1 | u32::from(class == Class::R64)
}

fn hash(a: u64, b: u64) -> u64 {
    let mixed = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(31);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 29
}

fn unordered(a: u64, b: u64) -> u64 {
    hash(a.min(b), a.max(b))
}

/// A register of a warp.
#[derive(Clone, Copy)]
struct Value {
    /// The hash of the expression, or the number itself if it is known. For a predicate, the hash of what was compared.
    hash: [u64; 32],
    /// What was compared to choose this value, and what was not chosen, as a set.
    taint: [SetId; 32],
    /// The predicate of each lane.
    truth: u32,
    /// Whether `hash` (or `truth`) is the number itself.
    is_known: bool,
}

impl Value {
    const NONE: Value = Value { hash: [0; 32], taint: [0; 32], truth: 0, is_known: false };

    fn hashed(hash: impl FnMut(usize) -> u64) -> Value {
        let hash = std::array::from_fn(hash);
        // A predicate that is not compared here has any value.
        let truth = (0..32).fold(0, |bits, l| bits | (hash[l] as u32 >> 7 & 1) << l);
        Value { hash, truth, ..Value::NONE }
    }

    fn known(numbers: impl FnMut(usize) -> u64) -> Value {
        Value { hash: std::array::from_fn(numbers), is_known: true, ..Value::NONE }
    }

    /// All that the value of a lane depends on.
    fn whole(&self, class: Class, lane: usize) -> u64 {
        let truth = u64::from(self.truth >> lane & 1);
        match (class, self.is_known) {
            (Class::Pred, true) => truth,
            (Class::Pred, false) => hash(self.hash[lane], truth),
            _ if self.taint[lane] != 0 => hash(self.hash[lane], u64::from(self.taint[lane])),
            _ => self.hash[lane],
        }
    }
}

/// Rules of arithmetic that an operation follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algebra {
    None,
    /// The first two operands can be exchanged.
    Commutes,
    Add,
    Subtract,
    Multiply,
    MultiplyAdd,
    Negate,
    Divide,
    Invert,
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Lanes([u64; 32]);

impl Lanes {
    fn new(numbers: &[u64; 32], is_wide: bool) -> Lanes {
        if is_wide {
            return Lanes(*numbers);
        }
        Lanes(std::array::from_fn(|i| match i {
            0..16 => numbers[2 * i] & 0xffff_ffff | numbers[2 * i + 1] << 32,
            _ => 0,
        }))
    }

    fn numbers(&self, is_wide: bool) -> [u64; 32] {
        if is_wide { self.0 } else { std::array::from_fn(|l| self.0[l / 2] >> (l % 2 * 32) & 0xffff_ffff) }
    }

    fn pointer(&self) -> *const u32 {
        self.0.as_ptr().cast()
    }
}

/// Applies the function of an instruction to numbers.
fn apply(f: LaneFn, imm: u32, result: Slot, sources: &[Slot], numbers: &[[u64; 32]]) -> [u64; 32] {
    let none = Lanes([0; 32]);
    let mut operands = [none; 3];
    for ((operand, slot), numbers) in operands.iter_mut().zip(sources).zip(numbers) {
        *operand = Lanes::new(numbers, slot.is_wide());
    }
    let mut out = none;
    let [a, b, c] = &operands;
    // SAFETY: the decoder has checked that the registers have the widths of the function; the buffers hold 64 bits per
    // lane.
    unsafe { f(out.0.as_mut_ptr().cast(), a.pointer(), b.pointer(), c.pointer(), u32::MAX, imm) };
    out.numbers(result.is_wide())
}

/// Finds out by trial which rules an operation follows.
fn algebra(step: &Step, f: LaneFn, imm: u32, result: Slot, sources: &[Slot]) -> Algebra {
    let try_with = |numbers: &[[u64; 32]]| apply(f, imm, result, sources, numbers);
    if step.floats {
        let float =
            |x: f64, slot: Slot| if slot.is_wide() { x.to_bits() } else { u64::from((x as f32).to_bits()) };
        let results = |values: &[f64]| {
            let numbers: Vec<[u64; 32]> =
                values.iter().zip(sources).map(|(x, s)| [float(*x, *s); 32]).collect();
            try_with(&numbers)[0]
        };
        let is = |wanted: fn(f64, f64, f64) -> f64| {
            [[12.0, 4.0, 7.0], [-20.0, 5.0, 0.5]]
                .iter()
                .all(|v| results(v) == float(wanted(v[0], v[1], v[2]), result))
        };
        let known = match sources.len() {
            1 if is(|a, _, _| -a) => Algebra::Negate,
            1 if results(&[4.0]) == float(0.25, result) && results(&[-0.5]) == float(-2.0, result) => {
                Algebra::Invert
            }
            2 if is(|a, b, _| a + b) => Algebra::Add,
            2 if is(|a, b, _| a - b) => Algebra::Subtract,
            2 if is(|a, b, _| a * b) => Algebra::Multiply,
            2 if is(|a, b, _| a / b) => Algebra::Divide,
            3 if is(|a, b, c| a * b + c) => Algebra::MultiplyAdd,
            _ => Algebra::None,
        };
        if known != Algebra::None {
            return known;
        }
    }
    if sources.len() < 2 || sources[0].is_wide() != sources[1].is_wide() {
        return Algebra::None;
    }
    // Small numbers, large numbers, and pairs of halves.
    let number = |seed: u64| {
        std::array::from_fn(|l| match l % 3 {
            0 => hash(seed, l as u64) & 0xff,
            1 => hash(seed, l as u64),
            _ => halves(hash(seed, l as u64)),
        })
    };
    let (a, b, c): ([u64; 32], _, _) = (number(1), number(2), number(3));
    if try_with(&[a, b, c]) == try_with(&[b, a, c]) { Algebra::Commutes } else { Algebra::None }
}

/// A number from a hash whose halves are ordinary numbers of any type: positive, and ordered as integers are.
fn halves(hash: u64) -> u64 {
    hash & 0x03ff_03ff_03ff_03ff | 0x3c00_3c00_3c00_3c00
}

/// Like [`halves`], with more different numbers: two hashes must not seem equal by accident.
fn distinct(hash: u64) -> u64 {
    hash & 0x1fff_1fff_1fff_1fff | 0x2000_2000_2000_2000
}

/// The field of the integers modulo 2^61 - 1.
mod field {
    pub const P: u64 = (1 << 61) - 1;

    pub fn add(a: u64, b: u64) -> u64 {
        (a + b) % P
    }

    pub fn negate(a: u64) -> u64 {
        (P - a) % P
    }

    pub fn multiply(a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % u128::from(P)) as u64
    }

    pub fn invert(a: u64) -> u64 {
        let (mut result, mut power, mut left) = (1, a, P - 2);
        while left > 0 {
            if left & 1 == 1 {
                result = multiply(result, power);
            }
            power = multiply(power, power);
            left >>= 1;
        }
        result
    }

    /// The element of a floating-point number.
    pub fn of_float(x: f64) -> u64 {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i64;
        let digits = bits & ((1 << 52) - 1) | u64::from(exponent > 0) << 52;
        // 2^61 is 1 in this field.
        let shift = (exponent.max(1) - 1075).rem_euclid(61) as u32;
        let size = multiply(digits % P, 1 << shift);
        if x < 0.0 { negate(size) } else { size }
    }
}

/// The state of an evaluation.
struct Evaluation<'a> {
    sketch: &'a Sketch,
    mode: Mode,
    block: [u32; 3],
    warp: usize,
    registers: Vec<Value>,
    /// For each warp, the values of the registers with several definitions after the last round, and what decides
    /// whether each block runs.
    joined: Vec<HashMap<u32, [u64; 32]>>,
    decided: Vec<Vec<[u64; 32]>>,
    /// For each block of this warp and round, what decided where its branch went.
    conditions: HashMap<u32, [u64; 32]>,
    algebras: HashMap<(usize, u32), Algebra>,
    stored: HashMap<u32, Vec<u64>>,
    sets: Sets,
    /// For each block of this warp and round: the lanes that reach it, and the guard of its last instruction.
    masks: Vec<u32>,
    ends: Vec<Value>,
}

/// Values of registers with several definitions.
type Defined = HashMap<usize, Rc<Value>>;

impl<'a> Evaluation<'a> {
    fn new(sketch: &'a Sketch, block: [u32; 3], mode: Mode) -> Self {
        Evaluation {
            sketch,
            mode,
            block,
            warp: 0,
            registers: vec![Value::NONE; sketch.registers],
            joined: Vec::new(),
            decided: Vec::new(),
            conditions: HashMap::new(),
            algebras: HashMap::new(),
            stored: HashMap::new(),
            sets: Sets::default(),
            masks: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Repeats the evaluation of all warps until no more threads differ.
    fn run(mut self, warps: usize) -> Option<HashMap<u32, Vec<u64>>> {
        self.joined = vec![HashMap::new(); warps];
        self.decided = vec![vec![[0; 32]; self.sketch.decided_by.len()]; warps];
        let (mut different, mut quiet) = (0, 0);
        for _ in 0..MAX_ROUNDS {
            for warp in 0..warps {
                self.warp = warp;
                self.round();
            }
            let now = self.differences();
            quiet = if now == different { quiet + 1 } else { 0 };
            different = now;
            if quiet == QUIET_ROUNDS {
                return Some(self.stored);
            }
        }
        None
    }

    /// Number of different values of the registers with several definitions and of the decisions.
    fn differences(&self) -> usize {
        let distinct = |values: &mut dyn Iterator<Item = u64>| values.collect::<HashSet<u64>>().len();
        let registers = self.joined.first().into_iter().flat_map(HashMap::keys);
        let of_registers = registers.map(|r| {
            distinct(&mut self.joined.iter().flat_map(|values| values[r]).collect::<Vec<_>>().into_iter())
        });
        let of_blocks = (0..self.sketch.decided_by.len())
            .map(|b| distinct(&mut self.decided.iter().flat_map(|blocks| blocks[b])));
        of_registers.sum::<usize>() + of_blocks.sum::<usize>()
    }

    fn round(&mut self) {
        for (r, joined) in self.sketch.joined.iter().enumerate() {
            if *joined {
                let last = self.joined[self.warp].get(&(r as u32));
                self.registers[r] =
                    Value::hashed(|l| hash(r as u64, last.map_or(self.mode.seed, |hash| hash[l])));
            }
        }
        for p in self.sketch.params.iter().filter(|p| p.is_frame()) {
            self.registers[p.index()] = self.unknown(usize::MAX - p.index());
        }
        let mut next: HashMap<u32, [u64; 32]> = HashMap::new();
        let at_joins: Vec<(usize, Value)> = (0..)
            .zip(&self.sketch.joined)
            .filter(|(_, joined)| **joined)
            .map(|(r, _)| (r, self.registers[r]))
            .collect();
        let blocks = self.sketch.after.len();
        self.masks = vec![u32::MAX; blocks];
        self.ends = vec![Value::NONE; blocks];
        // The registers with several definitions that a block, and the blocks straight before it, have defined.
        let mut defined: Vec<Defined> = vec![Defined::new(); blocks];
        let mut start = 0;
        while let Some(block) = self.sketch.block_of.get(start).map(|block| *block as usize) {
            let end =
                start + self.sketch.block_of[start..].iter().take_while(|b| **b as usize == block).count();
            let enter = |cx: &mut Self, inherited: Defined| {
                for (r, value) in &at_joins {
                    cx.registers[*r] = *value;
                }
                for (r, value) in &inherited {
                    cx.registers[*r] = **value;
                }
                inherited
            };
            let before = |before: Option<u32>| {
                before.map_or_else(Defined::new, |before| defined[before as usize].clone())
            };
            self.masks[block] = self.entered(block);
            let mut own = Defined::new();
            let is_rolled = self.sketch.loops[block].is_some_and(|first| {
                own = enter(self, before(Some(first)));
                self.roll(start..end, &mut next, &mut own)
            });
            if !is_rolled {
                let inherited = if self.sketch.entries[block].is_join {
                    self.join(block, &defined, &at_joins)
                } else {
                    before(self.sketch.after[block])
                };
                own = enter(self, inherited);
                for at in start..end {
                    self.step(at, &mut next, &mut own);
                }
                self.keep_condition(end - 1);
            }
            let guard = self.sketch.steps[end - 1].guard;
            if !guard.is_always() {
                self.ends[block] = negated(&self.registers[guard.pred()], guard.negated());
            }
            defined[block] = own;
            start = end;
        }
        self.joined[self.warp] = next;
        let mut decided = Vec::with_capacity(self.sketch.decided_by.len());
        for branches in &self.sketch.decided_by {
            decided.push(std::array::from_fn(|l| {
                branches.iter().fold(0, |all, block| hash(all, self.conditions[block][l]))
            }));
        }
        self.decided[self.warp] = decided;
    }

    /// The lanes that an edge brings into a block.
    fn brought(&self, edge: &paths::Edge) -> u32 {
        let from = edge.from as usize;
        match (edge.leaves, edge.when) {
            (Some(first), _) => self.masks[first as usize],
            (None, When::Always) => self.masks[from],
            (None, When::True) => self.masks[from] & self.ends[from].truth,
            (None, When::False) => self.masks[from] & !self.ends[from].truth,
        }
    }

    /// The lanes that reach a block.
    fn entered(&self, block: usize) -> u32 {
        let edges = &self.sketch.entries[block].edges;
        if edges.is_empty() { u32::MAX } else { edges.iter().fold(0, |all, edge| all | self.brought(edge)) }
    }

    /// The registers with several definitions at a block where paths join: as if the branches were selections.
    fn join(&mut self, block: usize, defined: &[Defined], at_joins: &[(usize, Value)]) -> Defined {
        let entry = &self.sketch.entries[block];
        let masks: Vec<u32> = entry.edges.iter().map(|edge| self.brought(edge)).collect();
        // The edge of each lane, if there is one only.
        let path: [Option<usize>; 32] = std::array::from_fn(|l| {
            let mut brings = (0..masks.len()).filter(|e| masks[*e] >> l & 1 == 1);
            brings.next().filter(|_| brings.next().is_none())
        });
        let tests: Vec<Value> =
            entry.decides.iter().map(|b| self.ends[*b as usize]).filter(|test| !test.is_known).collect();
        let mut inherited = Defined::new();
        for (r, hashed) in at_joins {
            let of_edge = |edge: &paths::Edge| defined[edge.from as usize].get(r);
            if entry.edges.iter().all(|edge| of_edge(edge).is_none()) {
                continue;
            }
            let ways: Vec<&Value> =
                entry.edges.iter().map(|edge| of_edge(edge).map_or(hashed, |value| &**value)).collect();
            let place = block * self.sketch.registers + r;
            let class = self.sketch.classes[*r];
            let value = self.chosen((place, class), &ways, &path, &tests, hashed);
            inherited.insert(*r, Rc::new(value));
        }
        inherited
    }

    /// The value of the way that each lane takes. `tests` choose the way.
    fn chosen(
        &mut self,
        (place, class): (usize, Class),
        ways: &[&Value],
        path: &[Option<usize>; 32],
        tests: &[Value],
        otherwise: &Value,
    ) -> Value {
        let mut chosen = *otherwise;
        chosen.is_known =
            tests.is_empty() && ways.iter().all(|way| way.is_known) && path.iter().all(Option::is_some);
        for (l, taken) in path.iter().enumerate() {
            let Some(taken) = taken.map(|taken| ways[taken]) else { continue };
            chosen.hash[l] = taken.hash[l];
            chosen.taint[l] = taken.taint[l];
            chosen.truth = chosen.truth & !(1 << l) | taken.truth & 1 << l;
            let is_as = |way: &Value| {
                way.hash[l] == taken.hash[l]
                    && way.taint[l] == taken.taint[l]
                    && way.is_known == taken.is_known
                    && (class != Class::Pred || way.truth >> l & 1 == taken.truth >> l & 1)
            };
            if tests.is_empty() || ways.iter().all(|way| is_as(way)) {
                continue;
            }
            if class == Class::Pred {
                // All that was compared, in any order.
                let compared = ways.iter().copied().filter(|way| !way.is_known).chain(tests);
                chosen.hash[l] = compared.fold(0, |all, it| all.wrapping_add(hash(it.hash[l], 17)));
                continue;
            }
            let left = ways.iter().map(|way| way.hash[l]).filter(|hash| *hash != taken.hash[l]);
            let members = left.chain(tests.iter().map(|test| test.hash[l])).collect();
            let mut taint = self.sets.of(members);
            for way in ways {
                taint = taint.and_then(|all| self.sets.union(all, way.taint[l]));
            }
            // Of two lanes that choose the same, one may have rejected that value before, in another order of comparisons.
            match taint.and_then(|all| self.sets.without(all, taken.hash[l])) {
                Some(taint) => chosen.taint[l] = taint,
                None => chosen.hash[l] = self.unknown(place).hash[l],
            }
        }
        chosen
    }

    /// Evaluates all turns of a loop of one block. Returns false if their number is not known or depends on the thread.
    fn roll(
        &mut self,
        block: std::ops::Range<usize>,
        next: &mut HashMap<u32, [u64; 32]>,
        defined: &mut Defined,
    ) -> bool {
        let guard = self.sketch.steps[block.end - 1].guard;
        let before = next.clone();
        for _ in 0..MAX_TURNS {
            for at in block.clone() {
                self.step(at, next, defined);
            }
            self.keep_condition(block.end - 1);
            let test = negated(&self.registers[guard.pred()], guard.negated());
            match (test.is_known, test.truth) {
                (true, 0) => return true,
                (true, u32::MAX) => {}
                _ => break,
            }
        }
        *next = before;
        false
    }

    /// Keeps what decides about a branch, before its registers change.
    fn keep_condition(&mut self, at: usize) {
        if let Some(block) = self.sketch.branches.get(&(at as u32)) {
            let condition = std::array::from_fn(|l| self.condition(at, *block, l));
            self.conditions.insert(*block, condition);
        }
    }

    /// What decides where the branch at the end of a block goes, and whether it is reached.
    fn condition(&self, at: usize, block: u32, lane: usize) -> u64 {
        let step = &self.sketch.steps[at];
        let (_, sources) = self.sketch.registers_of(step);
        let reached = self.decided[self.warp][block as usize][lane];
        let by = sources
            .iter()
            .fold(self.guard(step, lane), |all, s| hash(all, self.value(*s).whole(s.class(), lane)));
        hash(reached, by)
    }

    fn guard(&self, step: &Step, lane: usize) -> u64 {
        if step.guard.is_always() {
            0
        } else {
            self.registers[step.guard.pred()].whole(Class::Pred, lane) | 1 << 63
        }
    }

    fn value(&self, slot: Slot) -> Value {
        if slot.is_none() {
            return Value::known(|_| 0);
        }
        if slot.is_special() {
            return self.special(SPECIALS.get(slot.index()).copied().unwrap_or_default());
        }
        if slot.base() != Base::Const as usize {
            return self.registers[slot.index()];
        }
        match self.sketch.constants.get(&constant_key(slot.class(), slot.index())) {
            Some(bits) => Value::known(|_| *bits),
            None => Value::hashed(|_| hash(self.mode.seed, slot.index() as u64)),
        }
    }

    fn special(&self, name: &str) -> Value {
        let [x, y, z] = self.block.map(u64::from);
        let thread = |l: usize| (self.warp * 32 + l) as u64;
        let bits = |l: usize| 1u64 << l;
        match name {
            "%tid.x" => Value::known(|l| thread(l) % x),
            "%tid.y" => Value::known(|l| thread(l) / x % y),
            "%tid.z" => Value::known(|l| thread(l) / x / y),
            "%ntid.x" => Value::known(|_| x),
            "%ntid.y" => Value::known(|_| y),
            "%ntid.z" => Value::known(|_| z),
            "%laneid" => Value::known(|l| l as u64),
            "%lanemask_eq" => Value::known(bits),
            "%lanemask_lt" => Value::known(|l| bits(l) - 1),
            "%lanemask_le" => Value::known(|l| bits(l) * 2 - 1),
            "%lanemask_ge" => Value::known(|l| !(bits(l) - 1) & 0xffff_ffff),
            "%lanemask_gt" => Value::known(|l| !(bits(l) * 2 - 1) & 0xffff_ffff),
            "%warpid" => Value::hashed(|_| hash(self.mode.seed ^ 7, self.warp as u64)),
            _ => {
                let number = SPECIALS.iter().position(|s| *s == name).unwrap_or_default();
                Value::hashed(|_| hash(self.mode.seed ^ 5, number as u64))
            }
        }
    }

    /// A value that is another one in every thread.
    fn unknown(&self, at: usize) -> Value {
        let place = hash(self.mode.seed, at as u64);
        Value::hashed(|l| hash(place, (self.warp * 32 + l) as u64))
    }

    fn step(&mut self, at: usize, next: &mut HashMap<u32, [u64; 32]>, defined: &mut Defined) {
        let step = self.sketch.steps[at];
        let (results, sources) = self.sketch.registers_of(&step);
        if matches!(step.rule, Rule::Store) {
            let values: Vec<(Slot, Value)> = sources[1..].iter().map(|s| (*s, self.value(*s))).collect();
            let threads = self.joined.len() * 32;
            let stored = self.stored.entry(at as u32).or_insert_with(|| vec![0; threads]);
            for l in 0..32 {
                stored[self.warp * 32 + l] =
                    values.iter().fold(0, |all, (s, v)| hash(all, v.whole(s.class(), l)));
            }
            return;
        }
        for (n, d) in results.iter().enumerate().filter(|(_, d)| d.is_frame()) {
            let value = self.result(at, &step, n, (*d, sources));
            let old = self.registers[d.index()];
            let value = if step.guard.is_always() {
                value
            } else if self.sketch.joined[d.index()] {
                let guard = negated(&self.registers[step.guard.pred()], step.guard.negated());
                self.select((at * 8 + n, d.class()), &guard, &value, &old)
            } else {
                Value::hashed(|l| hash(self.guard(&step, l), value.whole(d.class(), l)))
            };
            self.registers[d.index()] = value;
            if self.sketch.joined[d.index()] {
                defined.insert(d.index(), Rc::new(value));
                let reached = &self.decided[self.warp][self.sketch.block_of[at] as usize];
                let all = next.entry(d.index() as u32).or_insert([0; 32]);
                for l in 0..32 {
                    all[l] = hash(all[l], hash(reached[l], value.whole(d.class(), l)));
                }
            }
        }
    }

    fn result(&mut self, at: usize, step: &Step, number: usize, (d, sources): (Slot, &[Slot])) -> Value {
        let place = hash(at as u64, number as u64);
        let reached = self.decided[self.warp][self.sketch.block_of[at] as usize];
        let all = |cx: &Self, l: usize| {
            sources.iter().fold(place, |all, s| hash(all, cx.value(*s).whole(s.class(), l)))
        };
        match step.rule {
            Rule::Lane { copies: true, .. } => self.value(sources[0]),
            Rule::Lane { f, imm, .. } => self.lane(step, (f, imm), d, sources),
            Rule::Test { f, combine, negate } => {
                let value = self.test(step, f, sources);
                // The second result is the complement.
                let value = Value { truth: value.truth ^ if number == 1 { u32::MAX } else { 0 }, ..value };
                match combine {
                    Some(op) => logic(op, &value, &negated(&self.value(sources[2]), negate)),
                    None => value,
                }
            }
            Rule::Select { negate } => {
                let [a, b, p] = [0, 1, 2].map(|i| self.value(sources[i]));
                self.select((at * 8 + number, d.class()), &negated(&p, negate), &a, &b)
            }
            Rule::Logic { op, negate } => {
                let [a, b] = [0, 1].map(|i| negated(&self.value(sources[i]), negate[i]));
                logic(op, &a, &b)
            }
            Rule::Negate { negate } => negated(&self.value(sources[0]), negate),
            Rule::Truth { value } => {
                Value { truth: if value { u32::MAX } else { 0 }, is_known: true, ..Value::NONE }
            }
            Rule::Shuffle(mode) if number == 0 => self.shuffle(mode, place, sources),
            Rule::Pack => self.pack(place, sources),
            Rule::Unpack => {
                let value = self.value(sources[0]);
                Value::hashed(|l| value.whole(sources[0].class(), l).wrapping_mul(part(number)))
            }
            Rule::Load { offset, is_state } => {
                let address = self.value(sources[0]);
                let place = hash(place, offset as u64);
                let address: [u64; 32] = std::array::from_fn(|l| address.whole(sources[0].class(), l));
                let is_state =
                    is_state && self.mode.exact_reals && address.iter().all(|it| *it == address[0]);
                Value::hashed(|l| hash(hash(place, reached[l]), if is_state { 0 } else { address[l] }))
            }
            Rule::Parameter { offset } => {
                Value::hashed(|_| hash(hash(self.mode.seed ^ 9, u64::from(offset)), number as u64))
            }
            Rule::Sources => Value::hashed(|l| all(self, l)),
            Rule::Warp => {
                let warp = (0..32).fold(place, |sum, l| hash(sum, all(self, l)));
                Value::hashed(|l| hash(warp, reached[l]))
            }
            Rule::Rows { trans } => {
                let address = self.value(sources[0]);
                // Lane `8 m + r` has the address of row `r` of matrix `m`.
                let row = |row: usize| address.whole(sources[0].class(), (8 * number + row) % 32);
                Value::hashed(|l| {
                    let (first, second, column) =
                        if trans { (l % 4 * 2, l % 4 * 2 + 1, l / 4) } else { (l / 4, l / 4, l % 4) };
                    let rows = hash(hash(place, row(first)), row(second));
                    hash(hash(rows, column as u64), reached[l])
                })
            }
            Rule::Fragment { warps } => {
                let warp = (0..32).fold(place, |sum, l| hash(sum, all(self, l)));
                Value::hashed(|l| hash(hash(warp, reached[l]), (self.warp % warps * 32 + l) as u64))
            }
            Rule::Block { has_count } => {
                let barrier = self.value(sources[0]);
                let group = if has_count { self.warp as u64 } else { u64::MAX };
                Value::hashed(|l| {
                    let barrier = hash(barrier.whole(sources[0].class(), l), group);
                    hash(hash(place, barrier), reached[l])
                })
            }
            Rule::Shuffle(_) | Rule::Store | Rule::Unknown => self.unknown(at * 8 + number),
        }
    }

    fn lane(&mut self, step: &Step, (f, imm): (LaneFn, u32), d: Slot, sources: &[Slot]) -> Value {
        let values: Vec<Value> = sources.iter().map(|s| self.value(*s)).collect();
        if values.iter().all(|v| v.is_known) && sources.len() <= 3 {
            let numbers: Vec<[u64; 32]> = values.iter().map(|v| v.hash).collect();
            let result = apply(f, imm, d, sources, &numbers);
            return Value { hash: result, is_known: true, ..Value::NONE };
        }
        let key = (f as usize, imm);
        let algebra = match self.algebras.get(&key) {
            Some(known) => *known,
            None if sources.len() > 3 => Algebra::None,
            None => *self.algebras.entry(key).or_insert(algebra(step, f, imm, d, sources)),
        };
        let function = self.sketch.functions.get(&key.0).copied().unwrap_or(u64::MAX);
        let place = hash(function, u64::from(imm));
        let is_field = self.mode.exact_reals && !matches!(algebra, Algebra::None | Algebra::Commutes);
        let mut value = Value::hashed(|l| {
            let operand = |i: usize| values[i].whole(sources[i].class(), l);
            let commuted = |place| unordered(operand(0), operand(1)) ^ place;
            let rest = |from: usize, first| (from..sources.len()).fold(first, |all, i| hash(all, operand(i)));
            let number = |i: usize| match (values[i].is_known, sources[i].is_wide()) {
                (true, true) => field::of_float(f64::from_bits(values[i].hash[l])),
                (true, false) => field::of_float(f64::from(f32::from_bits(values[i].hash[l] as u32))),
                (false, _) => values[i].hash[l] % field::P,
            };
            match algebra {
                Algebra::None => rest(0, place),
                Algebra::Commutes => rest(2, commuted(place)),
                _ if !self.mode.exact_reals => match algebra {
                    Algebra::Add | Algebra::Multiply | Algebra::MultiplyAdd => rest(2, commuted(place)),
                    _ => rest(0, place),
                },
                Algebra::Add => field::add(number(0), number(1)),
                Algebra::Subtract => field::add(number(0), field::negate(number(1))),
                Algebra::Multiply => field::multiply(number(0), number(1)),
                Algebra::MultiplyAdd => field::add(field::multiply(number(0), number(1)), number(2)),
                Algebra::Negate => field::negate(number(0)),
                Algebra::Divide => field::multiply(number(0), field::invert(number(1))),
                Algebra::Invert => field::invert(number(0)),
            }
        });
        if is_field {
            for l in 0..32 {
                let mut all = Some(0);
                for v in &values {
                    all = all.and_then(|all| self.sets.union(all, v.taint[l]));
                }
                match all {
                    Some(all) => value.taint[l] = all,
                    None => value.hash[l] = self.unknown(usize::MAX / 2).hash[l],
                }
            }
        }
        value
    }

    fn test(&self, step: &Step, f: TestFn, sources: &[Slot]) -> Value {
        let (a, b, is_wide) = (self.value(sources[0]), self.value(sources[1]), sources[0].is_wide());
        let is_known = a.is_known && b.is_known;
        let class = sources[0].class();
        let number = |v: &Value| -> [u64; 32] {
            if is_known {
                return v.hash;
            }
            std::array::from_fn(|l| {
                let hash = hash(self.mode.seed, v.whole(class, l));
                if self.mode.ties && step.floats { halves(hash & 0x0001_0000_0001) } else { distinct(hash) }
            })
        };
        let (x, y) = (Lanes::new(&number(&a), is_wide), Lanes::new(&number(&b), is_wide));
        // SAFETY: the decoder has checked the width of the registers; the buffers hold 64 bits per lane.
        let truth = unsafe { f(x.pointer(), y.pointer()) };
        let hash = std::array::from_fn(|l| unordered(a.whole(class, l), b.whole(class, l)));
        Value { hash, truth, is_known, ..Value::NONE }
    }

    fn shuffle(&self, mode: ShflMode, place: u64, sources: &[Slot]) -> Value {
        let [a, b, c] = [0, 1, 2].map(|i| self.value(sources[i]));
        if !b.is_known || !c.is_known {
            let class = sources[0].class();
            let warp = (0..32).fold(place, |sum, l| hash(sum, a.whole(class, l)));
            return Value::hashed(|l| hash(warp, hash(b.whole(class, l), l as u64)));
        }
        let mut moved = a;
        for l in 0..32u64 {
            let (distance, clamp, segment) =
                (b.hash[l as usize] & 31, c.hash[l as usize] & 31, c.hash[l as usize] >> 8 & 31);
            let (low, high) = (l & segment, l & segment | clamp & !segment);
            let from = match mode {
                ShflMode::Up => l.checked_sub(distance).filter(|from| *from >= high),
                ShflMode::Down => Some(l + distance).filter(|from| *from <= high),
                ShflMode::Bfly => Some(l ^ distance).filter(|from| *from <= high),
                ShflMode::Idx => Some(low | distance & !segment).filter(|from| *from <= high),
            };
            let from = from.unwrap_or(l) as usize;
            (moved.hash[l as usize], moved.taint[l as usize]) = (a.hash[from], a.taint[from]);
        }
        moved
    }

    /// The value that a predicate chooses of two.
    fn select(&mut self, place: (usize, Class), p: &Value, a: &Value, b: &Value) -> Value {
        let path = std::array::from_fn(|l| Some(usize::from(p.truth >> l & 1 == 0)));
        let tests: &[Value] = if p.is_known { &[] } else { std::slice::from_ref(p) };
        self.chosen(place, &[a, b], &path, tests, a)
    }

    /// Parts that belong to one value give that value again.
    fn pack(&self, place: u64, sources: &[Slot]) -> Value {
        let parts: Vec<Value> = sources.iter().map(|s| self.value(*s)).collect();
        Value::hashed(|l| {
            let whole = |i: usize| parts[i].whole(sources[i].class(), l).wrapping_mul(inverse(part(i)));
            if (1..parts.len()).all(|i| whole(i) == whole(0)) {
                return whole(0);
            }
            (0..parts.len()).fold(place, |all, i| hash(all, parts[i].whole(sources[i].class(), l)))
        })
    }
}

/// The odd factor that marks a part of a value.
fn part(number: usize) -> u64 {
    hash(77, number as u64) | 1
}

/// The inverse of an odd number modulo 2^64, by Newton's method.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

fn negated(value: &Value, negate: bool) -> Value {
    Value { truth: value.truth ^ if negate { u32::MAX } else { 0 }, ..*value }
}

fn logic(op: BoolOp, a: &Value, b: &Value) -> Value {
    let hash = std::array::from_fn(|l| {
        // What is known does not depend on what is compared.
        let [a, b] = [a, b].map(|v| if v.is_known { 0 } else { v.hash[l] });
        unordered(a, b)
    });
    Value { hash, truth: op.apply(a.truth, b.truth), is_known: a.is_known && b.is_known, ..Value::NONE }
}
