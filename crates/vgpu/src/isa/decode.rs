//! Common parts of the decoders: modifiers, operands, the constant pool, and the function that is being decoded.

use std::collections::HashMap;

use super::lane::LaneSpec;
use super::op::{Base, Class, Flow, Guard, Inst, Op, Slot};
use super::types::{Space, Ty};
use crate::num::Round;
use crate::ptx::ast::{self, Instruction, Operand, Pos};

/// Why an instruction was rejected.
#[derive(Debug)]
pub struct Reject(pub String);

pub type Decoded<T = ()> = Result<T, Reject>;

pub fn reject<T>(message: impl Into<String>) -> Decoded<T> {
    Err(Reject(message.into()))
}

/// Whether the virtual GPU computes bit for bit what hardware computes.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    schemars::JsonSchema,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// Bit for bit the result of the hardware.
    Exact,
    /// Within a documented bound: `.approx` functions, tensor accumulation order.
    Approximate,
}

/// The execution unit that runs an instruction on hardware. The counters are grouped by it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Pipe {
    /// Integer arithmetic and logic.
    Integer,
    /// 32-bit floating-point arithmetic.
    Fp32,
    /// 16-bit floating-point arithmetic.
    Fp16,
    /// 64-bit floating-point arithmetic.
    Fp64,
    /// Reciprocals, square roots, transcendental functions.
    Special,
    /// Type conversions.
    Conversion,
    /// Tensor-core instructions.
    Tensor,
    /// Loads and stores.
    LoadStore,
    /// Atomic operations.
    Atomic,
    /// Asynchronous copies.
    Async,
    /// Branches, calls and other control flow.
    Control,
    /// Barriers and other synchronisation.
    Sync,
    /// Moves between registers.
    Move,
}

/// Data about an instruction beside its operation.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// Line in the PTX text.
    pub line: u32,
    /// Index into the program's source locations. 0 means unknown.
    pub loc: u32,
    pub pipe: Pipe,
    /// Floating-point operations per lane (an fma counts as two), or per warp for tensor instructions.
    pub flops: u32,
    /// True for a minimum or a maximum. GPUs compute it in the integer pipe, whatever its type is.
    pub is_min_max: bool,
    /// True if the instruction names the shared memory of its own block (`.shared` or `.shared::cta`).
    pub own_shared: bool,
}

impl Meta {
    pub fn new(line: u32, loc: u32, pipe: Pipe) -> Meta {
        Meta { line, loc, pipe, flops: 0, is_min_max: false, own_shared: false }
    }
}

/// The dotted modifiers of one instruction that its decoder has not taken yet. It must take each of them.
#[derive(Debug)]
pub struct Mods<'a>(Vec<&'a str>);

impl<'a> Mods<'a> {
    pub fn new(modifiers: &'a str) -> Mods<'a> {
        Mods(modifiers.split('.').filter(|part| !part.is_empty()).collect())
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// Takes a modifier. Returns false if the instruction does not have it.
    pub fn take(&mut self, name: &str) -> bool {
        self.take_matching(|part| (part == name).then_some(())).is_some()
    }

    /// Takes all these modifiers. Returns false if the instruction lacks one.
    pub fn take_all(&mut self, names: &[&str]) -> bool {
        names.iter().all(|name| self.take(name))
    }

    /// Takes the first modifier that the table contains.
    pub fn take_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        self.take_matching(|part| table.iter().find(|(name, _)| *name == part).map(|(_, value)| *value))
    }

    /// Takes the first modifier that `read` accepts.
    pub fn take_matching<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, value) = self.0.iter().enumerate().find_map(|(at, part)| Some((at, read(part)?)))?;
        self.0.remove(at);
        Some(value)
    }

    /// Takes modifiers that have no effect here, such as cache hints.
    pub fn ignore(&mut self, names: &[&str]) {
        self.0.retain(|part| !names.contains(part));
    }

    pub fn ignore_prefix(&mut self, prefix: &str) {
        self.0.retain(|part| !part.starts_with(prefix));
    }

    /// Takes the next type, in order.
    pub fn ty(&mut self) -> Decoded<Ty> {
        self.maybe_ty().ok_or_else(|| Reject("instruction has no type the machine knows".into()))
    }

    pub fn maybe_ty(&mut self) -> Option<Ty> {
        self.take_matching(Ty::parse)
    }

    /// Takes the only type. No other modifier may be left.
    pub fn last_ty(&mut self) -> Decoded<Ty> {
        let ty = self.ty()?;
        self.finish()?;
        Ok(ty)
    }

    pub fn round(&mut self) -> Option<Round> {
        self.take_of(&[
            ("rn", Round::Nearest),
            ("rz", Round::Zero),
            ("rm", Round::Down),
            ("rp", Round::Up),
            ("rna", Round::NearestAway),
        ])
    }

    pub fn finish(&self) -> Decoded {
        match self.0.first() {
            Some(part) => reject(format!("modifier `.{part}` is not supported here")),
            None => Ok(()),
        }
    }
}

/// A value of the constant table. Addresses are known only at launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    Bits(u64),
    /// Address of a module variable, given by its index, plus an offset.
    Variable(u32, i64),
    /// Start of shared memory plus an offset.
    Shared {
        offset: i64,
    },
    /// Start of dynamic shared memory plus an offset.
    DynamicShared {
        offset: i64,
    },
    /// The value to add to an address: without `to` it makes an address of the space generic, with `to` it turns a
    /// generic address into an address of the space.
    Window {
        space: Space,
        to: bool,
    },
    /// `%gridid`.
    GridId,
}

/// The constants of one kernel. Its functions share them.
#[derive(Debug, Default)]
pub struct ConstantPool {
    pub entries: Vec<(Class, Constant, u32)>,
    known: HashMap<(Class, Constant), u32>,
    pub units: u32,
}

impl ConstantPool {
    pub fn slot(&mut self, class: Class, value: Constant) -> Slot {
        let index = *self.known.entry((class, value)).or_insert_with(|| {
            let index = self.units;
            self.units += if class == Class::R64 { 2 } else { 1 };
            self.entries.push((class, value, index));
            index
        });
        Slot::new(class, Base::Const, index)
    }
}

/// The meaning of a name.
#[derive(Clone, Debug)]
pub enum Entity {
    Reg {
        slot: Slot,
        bits: u32,
    },
    /// A 128-bit register: its low and its high half.
    Halves([Slot; 2]),
    /// A module-level or function-level variable in global or constant memory.
    Memory {
        variable: u32,
    },
    /// A shared variable at an offset in the block's shared memory.
    Shared {
        offset: u32,
    },
    DynamicShared,
    /// A variable at an offset in the function's local frame.
    Local {
        offset: u32,
    },
    /// A kernel parameter at an offset in the parameter block.
    KernelParam {
        offset: u32,
    },
    /// A `.param` variable of a call or of a device function: 32-bit registers, one per word.
    ParamWords {
        words: Vec<Slot>,
        bytes: u32,
    },
}

/// Registers declared as a range: `%r<32>`.
#[derive(Clone, Copy, Debug)]
pub struct RegRange {
    pub first: u32,
    pub count: u32,
    pub class: Class,
    pub bits: u32,
}

impl RegRange {
    fn register(&self, n: u32) -> Entity {
        let slot = |index: u32| Slot::new(self.class, Base::Frame, self.first + index);
        if self.bits == 128 {
            return Entity::Halves([slot(2 * n), slot(2 * n + 1)]);
        }
        Entity::Reg { slot: slot(n), bits: self.bits }
    }
}

/// Special registers that the core fills in per warp. The index in this list is the slot.
pub const SPECIALS: &[&str] = &[
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%clusterid.x",
    "%clusterid.y",
    "%clusterid.z",
    "%nclusterid.x",
    "%nclusterid.y",
    "%nclusterid.z",
    "%cluster_ctaid.x",
    "%cluster_ctaid.y",
    "%cluster_ctaid.z",
    "%cluster_nctaid.x",
    "%cluster_nctaid.y",
    "%cluster_nctaid.z",
    "%cluster_ctarank",
    "%cluster_nctarank",
];

#[derive(Debug, Default)]
struct SymbolScope<'a> {
    names: HashMap<&'a str, Entity>,
    ranges: HashMap<&'a str, RegRange>,
}

/// A function of the module as a call sees it.
#[derive(Clone, Debug)]
pub struct Callee {
    pub index: u32,
    /// Sizes in bytes of each parameter and each result.
    pub params: Vec<u32>,
    pub returns: Vec<u32>,
}

/// A branch whose labels are not resolved yet.
#[derive(Debug)]
pub struct PendingBranch<'a> {
    pub at: usize,
    pub labels: Vec<&'a str>,
    pub blocks: Vec<u32>,
    pub pos: Pos,
}

/// The function that is being decoded, and the data that its kernel has collected so far.
pub struct Decoder<'a, 'k> {
    scopes: Vec<SymbolScope<'a>>,
    pub constants: &'k mut ConstantPool,
    pub callees: &'k mut dyn FnMut(&str) -> Option<Callee>,
    /// Addresses of the module's functions.
    pub function_addresses: &'k HashMap<&'a str, u64>,
    /// True if the kernel has a call through a pointer. Any function whose address is taken may be its target.
    pub indirect: bool,
    pub entry: bool,
    pub registers: Vec<(Class, u32)>,
    pub insts: Vec<Inst>,
    pub metas: Vec<Meta>,
    /// The labels of each `.branchtargets` list, by the name of the list.
    pub branch_targets: HashMap<&'a str, Vec<&'a str>>,
    /// The instruction after each label. The key contains the block in braces that declares the label, because other
    /// blocks may use the same name again.
    pub labels: HashMap<(u32, &'a str), u32>,
    /// Branches to resolve: their instruction, their labels, and the blocks in braces that contain them, outermost
    /// first.
    pub pending: Vec<PendingBranch<'a>>,
    blocks: Vec<u32>,
    blocks_opened: u32,
    pub returns: Vec<Slot>,
    /// Data about the current instruction. All operations that it becomes have the same.
    pub meta: Meta,
    pub fidelity: Fidelity,
    guard: Guard,
    /// Register that holds the carry flag of `add.cc` and related instructions.
    carry: Option<Slot>,
}

impl std::fmt::Debug for Decoder<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("insts", &self.insts.len()).finish_non_exhaustive()
    }
}

/// More registers than any real function declares. The limit prevents a malicious `.reg .b32 %r<4000000000>` from using
/// much memory.
pub const MAX_REGISTERS: usize = 1 << 20;

impl<'a, 'k> Decoder<'a, 'k> {
    pub fn new(
        entry: bool,
        constants: &'k mut ConstantPool,
        callees: &'k mut dyn FnMut(&str) -> Option<Callee>,
        function_addresses: &'k HashMap<&'a str, u64>,
    ) -> Self {
        let mut decoder = Decoder {
            scopes: vec![SymbolScope::default()],
            constants,
            callees,
            function_addresses,
            indirect: false,
            entry,
            registers: Vec::new(),
            insts: Vec::new(),
            metas: Vec::new(),
            branch_targets: HashMap::new(),
            labels: HashMap::new(),
            pending: Vec::new(),
            blocks: vec![0],
            blocks_opened: 0,
            returns: Vec::new(),
            meta: Meta::new(0, 0, Pipe::Control),
            fidelity: Fidelity::Exact,
            guard: Guard::ALWAYS,
            carry: None,
        };
        decoder.scopes.push(SymbolScope::default());
        decoder
    }

    // Names

    pub fn open_scope(&mut self) {
        self.blocks_opened += 1;
        self.blocks.push(self.blocks_opened);
        self.scopes.push(SymbolScope::default());
    }

    pub fn close_scope(&mut self) {
        if self.scopes.len() > 2 {
            self.scopes.pop();
            self.blocks.pop();
        }
    }

    /// Declares a label before the next instruction. Returns false if the block already has a label with that name.
    pub fn label(&mut self, name: &'a str) -> bool {
        let block = self.blocks.last().copied().unwrap_or(0);
        self.labels.insert((block, name), self.insts.len() as u32).is_none()
    }

    /// Records that the next instruction branches to labels, which are resolved when the function is complete.
    pub fn branch(&mut self, labels: Vec<&'a str>, pos: Pos) {
        let at = self.insts.len();
        self.pending.push(PendingBranch { at, labels, blocks: self.blocks.clone(), pos });
    }

    /// Returns the instruction after a label that is visible from a branch in `blocks`.
    pub fn find_label(&self, name: &'a str, blocks: &[u32]) -> Option<u32> {
        blocks.iter().rev().find_map(|block| self.labels.get(&(*block, name)).copied())
    }

    pub fn declare(&mut self, name: &'a str, entity: Entity) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name, entity);
        }
    }

    pub fn declare_outer(&mut self, name: &'a str, entity: Entity) {
        self.scopes[0].names.insert(name, entity);
    }

    pub fn declare_registers(&mut self, v: &ast::Variable<'a>) -> Decoded {
        let Some(ty) = Ty::parse(v.ty) else { return reject(format!("register type `.{}`", v.ty)) };
        let count = v.range.unwrap_or(1);
        // A register of 128 bits is two of 64 bits.
        let is_pair = ty == Ty::B128;
        let added = count as usize * if is_pair { 2 } else { 1 };
        if self.registers.len() + added > MAX_REGISTERS {
            return reject("too many registers");
        }
        let first = self.registers.len() as u32;
        let (class, bits) = if is_pair { (Class::R64, 64) } else { (ty.class(), ty.bits()) };
        self.registers.resize(self.registers.len() + added, (class, bits));
        let range = RegRange { first, count, class, bits: ty.bits() };
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        if v.range.is_some() {
            scope.ranges.insert(v.name, range);
        } else {
            scope.names.insert(v.name, range.register(0));
        }
        Ok(())
    }

    pub fn fresh(&mut self, class: Class) -> Slot {
        self.registers.push((class, if class == Class::R64 { 64 } else { 32 }));
        Slot::new(class, Base::Frame, self.registers.len() as u32 - 1)
    }

    pub fn carry(&mut self) -> Slot {
        if let Some(slot) = self.carry {
            return slot;
        }
        let slot = self.fresh(Class::Pred);
        self.carry = Some(slot);
        slot
    }

    pub fn lookup(&self, name: &str) -> Option<Entity> {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse::<u32>().ok();
        for scope in self.scopes.iter().rev() {
            if let Some(entity) = scope.names.get(name) {
                return Some(entity.clone());
            }
            if let (Some(n), Some(range)) = (number, scope.ranges.get(stem))
                && n < range.count
            {
                return Some(range.register(n));
            }
        }
        None
    }

    // Emission

    /// Begins an instruction. Nothing of the last one remains.
    pub fn begin(&mut self, line: u32, pipe: Pipe) {
        self.meta = Meta::new(line, self.meta.loc, pipe);
        self.fidelity = Fidelity::Exact;
        self.guard = Guard::ALWAYS;
    }

    pub fn set_guard(&mut self, guard: Option<(&'a str, bool)>) -> Decoded {
        let Some((name, negated)) = guard else { return Ok(()) };
        match self.lookup(name) {
            Some(Entity::Reg { slot, .. }) if slot.class() == Class::Pred => {
                self.guard = Guard::new(slot.index() as u32, negated);
                Ok(())
            }
            _ => reject(format!("guard `{name}` is not a predicate")),
        }
    }

    pub fn emit(&mut self, op: Op, results: &[Slot], sources: &[Slot]) -> Decoded {
        let mut inst = Inst::new(op, results, sources);
        inst.guard = self.guard;
        self.insts.push(inst);
        self.metas.push(self.meta);
        Ok(())
    }

    /// Emits a lane-wise operation. First checks that every register has the width that the function will access. Only
    /// this check makes the raw pointers of the core sound.
    pub fn lane(&mut self, spec: LaneSpec, flow: Flow, imm: u32, d: Slot, sources: &[Slot]) -> Decoded {
        if d.class() == Class::Pred || d.is_wide() != spec.wide[0] || !d.is_frame() {
            return reject("result register has the wrong width");
        }
        // The function reads this many registers, whatever the number of operands is.
        if sources.len() < spec.sources {
            return reject(format!("takes {} source operands, has {}", spec.sources, sources.len()));
        }
        for (i, wide) in spec.wide[1..].iter().enumerate() {
            match (sources.get(i), wide) {
                (None, false) => {}
                (None, true) => return reject("missing operand"),
                (Some(s), wide) => {
                    if s.is_none() || s.class() == Class::Pred || s.is_wide() != *wide {
                        return reject("operand register has the wrong width");
                    }
                }
            }
        }
        self.emit(Op::Lane { f: spec.f, imm, flow }, &[d], sources)
    }

    /// Emits a lane-wise operation on 32-bit values into a new register.
    pub fn intermediate(&mut self, spec: LaneSpec, sources: &[Slot]) -> Decoded<Slot> {
        let d = self.fresh(Class::R32);
        self.lane(spec, Flow::Any, 0, d, sources)?;
        Ok(d)
    }

    // Operands

    pub fn constant(&mut self, class: Class, bits: u64) -> Slot {
        self.constants.slot(class, Constant::Bits(bits))
    }

    pub fn imm32(&mut self, value: u32) -> Slot {
        self.constant(Class::R32, u64::from(value))
    }

    /// Decodes a source of the given type: a register, an immediate or a special register.
    pub fn src(&mut self, operand: &Operand<'a>, ty: Ty) -> Decoded<Slot> {
        let class = ty.class();
        if class == Class::Pred {
            return self.pred(operand).and_then(|(slot, negated)| {
                if negated { reject("negated predicate is not allowed here") } else { Ok(slot) }
            });
        }
        match operand {
            Operand::Name { name, negated: false } => {
                if let Some(entity) = self.lookup(name) {
                    return match entity {
                        Entity::Reg { slot, .. } if slot.class() == class => Ok(slot),
                        Entity::Reg { .. } => {
                            reject(format!("register `{name}` does not have the width of the instruction"))
                        }
                        _ => reject(format!(
                            "`{name}` is a variable, not a value; only mov may take its address"
                        )),
                    };
                }
                self.special(name, class)
            }
            Operand::Int(v) => Ok(self.immediate_int(*v, ty)),
            Operand::F32(bits) => Ok(match ty {
                Ty::F64 => self.constant(class, f64::from(f32::from_bits(*bits)).to_bits()),
                _ => self.constant(class, u64::from(*bits)),
            }),
            Operand::F64(bits) => Ok(match ty {
                Ty::F32 => {
                    let narrowed = (f64::from_bits(*bits) as f32).to_bits();
                    self.constant(class, u64::from(narrowed))
                }
                _ => self.constant(class, *bits),
            }),
            _ => reject("operand is not a value"),
        }
    }

    fn immediate_int(&mut self, value: u64, ty: Ty) -> Slot {
        let value = match ty {
            Ty::F32 => u64::from((value as i64 as f32).to_bits()),
            Ty::F64 => (value as i64 as f64).to_bits(),
            _ => match ty.bits() {
                8 => value & 0xff,
                16 => value & 0xffff,
                64 => value,
                _ => value & 0xffff_ffff,
            },
        };
        self.constant(ty.class(), value)
    }

    fn special(&mut self, name: &str, class: Class) -> Decoded<Slot> {
        if name == "WARP_SZ" {
            return Ok(self.constant(class, 32));
        }
        let stripped = name.strip_suffix(".x");
        let index = SPECIALS.iter().position(|s| *s == name || Some(*s) == stripped);
        match index {
            Some(i) if class == Class::R32 => Ok(Slot::new(Class::R32, Base::Special, i as u32)),
            Some(_) => reject(format!("special register `{name}` is 32 bits wide")),
            None if name.starts_with('%') => reject(format!("unknown register `{name}`")),
            None => reject(format!("unknown name `{name}`")),
        }
    }

    pub fn dst(&mut self, operand: &Operand<'a>, ty: Ty) -> Decoded<Slot> {
        match operand {
            Operand::Name { name, negated: false } => match self.lookup(name) {
                Some(Entity::Reg { slot, .. }) if slot.class() == ty.class() => Ok(slot),
                Some(Entity::Reg { .. }) => {
                    reject(format!("register `{name}` does not have the width of the instruction"))
                }
                _ => reject(format!("`{name}` is not a register")),
            },
            Operand::Sink => Ok(self.fresh(ty.class())),
            _ => reject("result is not a register"),
        }
    }

    /// Decodes sources of one type.
    pub fn srcs(&mut self, operands: &[Operand<'a>], ty: Ty) -> Decoded<Vec<Slot>> {
        operands.iter().map(|operand| self.src(operand, ty)).collect()
    }

    /// Decodes results of one type.
    pub fn dsts(&mut self, operands: &[Operand<'a>], ty: Ty) -> Decoded<Vec<Slot>> {
        operands.iter().map(|operand| self.dst(operand, ty)).collect()
    }

    /// Decodes `d|p`, or `d` alone: a 32-bit result and perhaps a predicate.
    pub fn dst_and_pred(&mut self, operand: &Operand<'a>) -> Decoded<Vec<Slot>> {
        match operand {
            Operand::Pair(pair) => Ok(vec![self.dst(&pair.0, Ty::B32)?, self.pred_dst(&pair.1)?]),
            one => Ok(vec![self.dst(one, Ty::B32)?]),
        }
    }

    /// Decodes a register of any width.
    pub fn any_register(&mut self, operand: &Operand<'a>) -> Decoded<(Slot, u32)> {
        match operand {
            Operand::Name { name, negated: false } => match self.lookup(name) {
                Some(Entity::Reg { slot, bits }) => Ok((slot, bits)),
                _ => reject(format!("`{name}` is not a register")),
            },
            _ => reject("operand is not a register"),
        }
    }

    /// The halves of a 128-bit register, if the operand is one.
    pub fn halves(&self, operand: &Operand<'a>) -> Option<[Slot; 2]> {
        match operand {
            Operand::Name { name, negated: false } => match self.lookup(name) {
                Some(Entity::Halves(halves)) => Some(halves),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn pred(&mut self, operand: &Operand<'a>) -> Decoded<(Slot, bool)> {
        match operand {
            Operand::Name { name, negated } => match self.lookup(name) {
                Some(Entity::Reg { slot, .. }) if slot.class() == Class::Pred => Ok((slot, *negated)),
                _ => reject(format!("`{name}` is not a predicate")),
            },
            Operand::Int(v) => {
                let slot = self.fresh(Class::Pred);
                self.emit(Op::PredSet { value: *v != 0 }, &[slot], &[])?;
                Ok((slot, false))
            }
            _ => reject("operand is not a predicate"),
        }
    }

    pub fn pred_dst(&mut self, operand: &Operand<'a>) -> Decoded<Slot> {
        self.dst(operand, Ty::Pred)
    }

    /// Returns the address of a named variable: a constant or, for a local variable, a computed register.
    pub fn address_of(&mut self, entity: &Entity, offset: i64, class: Class) -> Decoded<Slot> {
        match entity {
            Entity::Memory { variable } => {
                if class != Class::R64 {
                    return reject("address of a global variable needs a 64-bit register");
                }
                Ok(self.constants.slot(class, Constant::Variable(*variable, offset)))
            }
            Entity::Shared { offset: base } => {
                Ok(self.constants.slot(class, Constant::Shared { offset: i64::from(*base) + offset }))
            }
            Entity::DynamicShared => Ok(self.constants.slot(class, Constant::DynamicShared { offset })),
            Entity::Local { offset: base } => {
                let d = self.fresh(class);
                let at = (i64::from(*base) + offset) as u32;
                self.emit(Op::LocalAddress { offset: at }, &[d], &[])?;
                Ok(d)
            }
            Entity::KernelParam { offset: base } => {
                Ok(self.constant(class, (i64::from(*base) + offset) as u64 & mask_of(class)))
            }
            Entity::ParamWords { .. } => reject("address of a call parameter cannot be taken"),
            Entity::Reg { .. } | Entity::Halves(_) => reject("a register has no address"),
        }
    }

    /// Decodes `[reg+offset]`, `[variable+offset]` or `[constant]`. Returns a register or constant, and an offset to
    /// add.
    pub fn address(&mut self, operand: &Operand<'a>) -> Decoded<(Slot, i32, Option<Entity>)> {
        let Operand::Address { parts, offset } = operand else { return reject("operand is not an address") };
        let [part] = &parts[..] else { return reject("address has more than one part") };
        match part {
            Operand::Name { name, .. } => match self.lookup(name) {
                Some(Entity::Reg { slot, .. }) if slot.class() != Class::Pred => {
                    let Ok(offset) = i32::try_from(*offset) else {
                        return reject("address offset is too large");
                    };
                    Ok((slot, offset, None))
                }
                Some(entity @ Entity::ParamWords { .. }) => {
                    let Ok(offset) = i32::try_from(*offset) else {
                        return reject("address offset is too large");
                    };
                    Ok((Slot::NONE, offset, Some(entity)))
                }
                Some(entity) => {
                    let slot = self.address_of(&entity, *offset, Class::R64)?;
                    Ok((slot, 0, Some(entity)))
                }
                None => reject(format!("unknown name `{name}`")),
            },
            Operand::Int(v) => Ok((self.constant(Class::R64, *v), 0, None)),
            _ => reject("address is neither a register nor a variable"),
        }
    }
}

fn mask_of(class: Class) -> u64 {
    if class == Class::R64 { u64::MAX } else { 0xffff_ffff }
}

/// Checks the number of operands.
pub fn arity(i: &Instruction<'_>, wanted: usize) -> Decoded {
    let found = i.operands.len();
    if found == wanted { Ok(()) } else { reject(format!("takes {wanted} operands, has {found}")) }
}

/// Checks the number of operands and returns them.
pub fn operands<'i, 'a, const N: usize>(i: &'i Instruction<'a>) -> Decoded<&'i [Operand<'a>; N]> {
    arity(i, N)?;
    i.operands[..].try_into().or_else(|_| reject("wrong number of operands"))
}

/// The parts of `{a, b}`, or the operand itself.
pub fn parts<'i, 'a>(operand: &'i Operand<'a>) -> &'i [Operand<'a>] {
    match operand {
        Operand::Vector(parts) => parts,
        one => std::slice::from_ref(one),
    }
}

/// The only operand, a constant.
pub fn constant_operand(i: &Instruction<'_>) -> Decoded<u64> {
    match i.operands[..] {
        [Operand::Int(value)] => Ok(value),
        _ => reject("takes one constant"),
    }
}
