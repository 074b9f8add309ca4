//! Decodes loads, stores, prefetches, fences and address-space queries.

use super::decode::{Decoded, Decoder, Entity, Mods, Pipe, operands, reject};
use super::lane::lane;
use super::op::{Access, Class, Flow, MbarrierOp, Op, Order, Slot};
use super::types::{MemType, Scope, Space, Ty};
use crate::ptx::ast::{Instruction, Operand};

const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("const", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("shared::cluster", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::entry", Space::Param),
    ("param::func", Space::Param),
];

pub(super) const SCOPES: &[(&str, Scope)] =
    &[("cta", Scope::Cta), ("cluster", Scope::Cluster), ("gpu", Scope::Gpu), ("sys", Scope::Sys)];

pub(super) fn take_space(m: &mut Mods<'_>) -> Space {
    m.take_of(SPACES).unwrap_or(Space::Generic)
}

/// Ignores hints that affect only speed.
pub(super) fn ignore_cache_hints(m: &mut Mods<'_>) {
    m.ignore(&["ca", "cg", "cs", "lu", "cv", "wb", "wt", "unified"]);
    m.ignore_prefix("L1::");
    m.ignore_prefix("L2::");
}

impl<'a> Decoder<'a, '_> {
    /// Decodes instructions that affect only speed.
    pub(super) fn prefetch(&mut self, _: &Instruction<'a>, _: &mut Mods<'a>) -> Decoded {
        self.emit(Op::Nop, &[], &[])
    }

    pub(super) fn surface(&mut self, _: &Instruction<'a>, _: &mut Mods<'a>) -> Decoded {
        reject("surfaces and texture queries are not supported")
    }

    pub(super) fn is_space(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let space = take_space(m);
        if space == Space::Generic {
            return reject("state space is not supported");
        }
        m.finish()?;
        let [p, a] = operands(i)?;
        let (p, a) = (self.pred_dst(p)?, self.src(a, Ty::U64)?);
        self.emit(Op::IsSpace { space }, &[p], &[a])
    }

    fn order(m: &mut Mods<'a>) -> (Order, Scope) {
        let order = m
            .take_of(&[
                ("weak", Order::Weak),
                ("volatile", Order::Volatile),
                ("mmio", Order::Volatile),
                ("relaxed", Order::Relaxed),
                ("acquire", Order::Acquire),
                ("release", Order::Release),
            ])
            .unwrap_or_default();
        (order, m.take_of(SCOPES).unwrap_or_default())
    }

    fn access(&mut self, m: &mut Mods<'a>) -> Decoded<Access> {
        let (order, scope) = Self::order(m);
        let space = take_space(m);
        let non_coherent = m.take("nc");
        ignore_cache_hints(m);
        let mut vector = m.take_of(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
        let mut ty = m.last_ty()?;
        // A 128-bit element is two of 64 bits.
        if ty == Ty::B128 && vector == 1 {
            (ty, vector) = (Ty::B64, 2);
        }
        if ty.bits() > 64 || ty.bits() < 8 {
            return reject("element type is not supported in memory");
        }
        Ok(Access {
            space,
            ty: MemType::from_type(ty),
            vector,
            order,
            scope,
            non_coherent,
            offset: 0,
            quick: false,
            is_async: false,
        })
    }

    /// Returns the registers of `{a, b}` or of a single operand.
    fn elements(&self, operand: &Operand<'a>, vector: u8) -> Decoded<Vec<Operand<'a>>> {
        match (operand, vector) {
            (Operand::Vector(parts), n) if parts.len() == n as usize => Ok(parts.clone()),
            (Operand::Vector(_), _) => reject("vector has the wrong number of elements"),
            (one, 1) => Ok(vec![one.clone()]),
            _ => reject("vector operand expected"),
        }
    }

    /// Decodes the registers of all elements of a load (`result`) or a store.
    fn element_registers(
        &mut self,
        operand: &Operand<'a>,
        access: &Access,
        result: bool,
    ) -> Decoded<Vec<Slot>> {
        if let Some(halves) = self.halves(operand) {
            return if access.bytes() == 16 {
                Ok(halves.to_vec())
            } else {
                reject("register is 128 bits wide")
            };
        }
        let elements = self.elements(operand, access.vector)?;
        elements.iter().map(|element| self.element_register(element, access.ty, result)).collect()
    }

    /// Decodes a register that may be wider than the element, as loads and stores allow.
    fn element_register(&mut self, operand: &Operand<'a>, ty: MemType, result: bool) -> Decoded<Slot> {
        if matches!(operand, Operand::Sink) && result {
            return Ok(self.fresh(ty.ty.class()));
        }
        let slot = match self.any_register(operand) {
            Ok((slot, _)) => slot,
            Err(e) if result => return Err(e),
            Err(_) => self.src(operand, ty.ty)?,
        };
        if slot.class() == Class::Pred || (ty.bytes == 8 && !slot.is_wide()) {
            return reject("register is too narrow for the element");
        }
        Ok(slot)
    }

    pub(super) fn load(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let mut access = self.access(m)?;
        // A cache-policy operand may follow.
        if !(2..=3).contains(&i.operands.len()) {
            return reject("takes 2 operands");
        }
        let results = self.element_registers(&i.operands[0], &access, true)?;
        if access.space == Space::Param {
            if let Some((entity, offset)) = self.param_operand(&i.operands[1]) {
                return self.load_param(&entity, offset, &results, access);
            }
            if !self.entry {
                return reject("ld.param through a register is for kernel parameters only");
            }
        }
        let (address, offset, _) = self.address(&i.operands[1])?;
        access.offset = offset;
        access.quick = is_quick(&access, address, &results);
        self.emit(Op::Load(access), &results, &[address])
    }

    fn param_operand(&self, operand: &Operand<'a>) -> Option<(Entity, i64)> {
        let Operand::Address { parts, offset } = operand else { return None };
        let [Operand::Name { name, .. }] = &parts[..] else { return None };
        match self.lookup(name)? {
            Entity::Reg { .. } => None,
            entity => Some((entity, *offset)),
        }
    }

    fn load_param(&mut self, entity: &Entity, offset: i64, results: &[Slot], access: Access) -> Decoded {
        let ty = access.ty;
        match entity {
            Entity::KernelParam { offset: base } => {
                self.meta.pipe = Pipe::Move;
                let Ok(at) = u32::try_from(i64::from(*base) + offset) else {
                    return reject("parameter offset is out of range");
                };
                self.emit(Op::LoadParam { ty, vector: access.vector, offset: at }, results, &[])
            }
            Entity::ParamWords { words, bytes } => {
                self.meta.pipe = Pipe::Move;
                for (n, d) in results.iter().enumerate() {
                    let at = offset + n as i64 * i64::from(ty.bytes);
                    let (word, shift) = word_of(at, ty, *bytes)?;
                    match (ty.bytes, d.is_wide()) {
                        (8, _) => self.emit(Op::Pack { bits: 32 }, &[*d], &words[word..word + 2])?,
                        (4, false) => self.copy(*d, words[word])?,
                        (_, false) => {
                            let imm = shift | u32::from(ty.bytes) << 8 | u32::from(ty.signed) << 16;
                            let spec = lane!(|a: u32; imm| -> u32 {
                                let bits = (imm >> 8 & 0xff) * 8;
                                let v = (a >> (imm & 0xff)) << (32 - bits);
                                if imm >> 16 == 1 { ((v as i32) >> (32 - bits)) as u32 } else { v >> (32 - bits) }
                            });
                            self.lane(spec, Flow::Any, imm, *d, &[words[word]])?;
                        }
                        (_, true) => return reject("ld.param into a wider register is not supported"),
                    }
                }
                Ok(())
            }
            _ => reject("ld.param of something that is not a parameter"),
        }
    }

    /// Decodes `st.async`: a store that reports its bytes to an mbarrier object when it completes. Here it completes
    /// immediately; the race checker orders only those after it that wait for the object.
    fn store_async(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if !m.take("mbarrier::complete_tx::bytes") {
            return reject("st.async completes on an mbarrier");
        }
        let mut access = self.access(m)?;
        let [address, value, object] = &i.operands[..] else { return reject("takes 3 operands") };
        if !matches!(access.space, Space::Shared | Space::Generic) {
            return reject("st.async writes shared memory");
        }
        access.space = Space::Shared;
        access.is_async = true;
        let values = self
            .elements(value, access.vector)?
            .iter()
            .map(|value| self.element_register(value, access.ty, false))
            .collect::<Decoded<Vec<Slot>>>()?;
        let (a, offset, _) = self.address(address)?;
        access.offset = offset;
        self.emit(Op::Store(access), &[], &[&[a], &values[..]].concat())?;
        let (b, offset, _) = self.address(object)?;
        let bytes = self.imm32(access.bytes());
        let op = MbarrierOp::CompleteTx;
        self.emit(Op::Mbarrier { op, space: Space::Shared, offset, relaxed: false }, &[], &[b, bytes])
    }

    pub(super) fn store(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.take("async") {
            return self.store_async(i, m);
        }
        let mut access = self.access(m)?;
        if !(2..=3).contains(&i.operands.len()) {
            return reject("takes 2 operands");
        }
        let values = self.element_registers(&i.operands[1], &access, false)?;
        if access.space == Space::Param {
            return match self.param_operand(&i.operands[0]) {
                Some((Entity::ParamWords { words, bytes }, offset)) => {
                    self.store_param(&words, bytes, offset, &values, access.ty)
                }
                _ => reject("st.param needs a call parameter or a return value"),
            };
        }
        let (address, offset, _) = self.address(&i.operands[0])?;
        access.offset = offset;
        access.quick = is_quick(&access, address, &values);
        self.emit(Op::Store(access), &[], &[&[address], &values[..]].concat())
    }

    fn store_param(
        &mut self,
        words: &[Slot],
        bytes: u32,
        offset: i64,
        values: &[Slot],
        ty: MemType,
    ) -> Decoded {
        self.meta.pipe = Pipe::Move;
        for (n, v) in values.iter().enumerate() {
            let at = offset + n as i64 * i64::from(ty.bytes);
            let (word, shift) = word_of(at, ty, bytes)?;
            match (ty.bytes, v.is_wide()) {
                (8, _) => self.emit(Op::Unpack { bits: 32 }, &words[word..word + 2], &[*v])?,
                (4, false) => self.copy(words[word], *v)?,
                (_, false) => {
                    let imm = shift | u32::from(ty.bytes) << 8;
                    let spec = lane!(|a: u32, old: u32; imm| -> u32 {
                        let mask = (u32::MAX >> (32 - (imm >> 8) * 8)) << (imm & 0xff);
                        old & !mask | (a << (imm & 0xff)) & mask
                    });
                    // The store to the first part of a word does not keep the rest of the word, because nothing has
                    // written it yet.
                    if shift == 0 {
                        let whole = lane!(|a: u32; imm| -> u32 { a & (u32::MAX >> (32 - (imm >> 8) * 8)) });
                        self.lane(whole, Flow::Any, imm, words[word], &[*v])?;
                    } else {
                        self.lane(spec, Flow::Any, imm, words[word], &[*v, words[word]])?;
                    }
                }
                (_, true) => return reject("st.param from a wider register is not supported"),
            }
        }
        Ok(())
    }

    /// Decodes `createpolicy`. A policy affects only speed, but it is a value that a kernel may store or pass on. Its
    /// encoding is not documented; here each priority has its own.
    pub(super) fn create_policy(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let form = m.take_of(&[("fractional", 0), ("range", 1), ("cvt", 2)]);
        if form == Some(2) {
            m.take("L2");
            let ty = m.last_ty()?;
            let [d, property] = operands(i)?;
            let (d, property) = (self.dst(d, ty)?, self.src(property, ty)?);
            return self.copy(d, property);
        }
        m.take("global");
        let primary = m.take_of(&[
            ("L2::evict_last", 0x14f0_0000_0000_0000u64),
            ("L2::evict_normal", 0x10f0_0000_0000_0000),
            ("L2::evict_first", 0x12f0_0000_0000_0000),
            ("L2::evict_unchanged", 0x16f0_0000_0000_0000),
        ]);
        let Some(policy) = primary else { return reject("primary priority is missing or unknown") };
        m.ignore(&["L2::evict_first", "L2::evict_unchanged"]);
        let ty = m.last_ty()?;
        match (form, &i.operands[..]) {
            (Some(0), [_]) => {}
            (Some(0), [_, fraction]) => {
                self.src(fraction, Ty::F32)?;
            }
            (Some(1), [_, address, primary, total]) => {
                self.address(address)?;
                self.src(primary, Ty::U32)?;
                self.src(total, Ty::U32)?;
            }
            _ => return reject("form of createpolicy is not supported"),
        }
        let d = self.dst(&i.operands[0], ty)?;
        let value = self.constant(d.class(), policy);
        self.copy(d, value)
    }

    pub(super) fn membar(&mut self, _: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let scope = m.take_of(&[("cta", Scope::Cta), ("gl", Scope::Gpu), ("sys", Scope::Sys)]);
        let Some(scope) = scope.filter(|_| !m.has("proxy")) else {
            return reject("form of membar is not supported");
        };
        m.finish()?;
        self.emit(Op::Fence { scope }, &[], &[])
    }

    pub(super) fn fence(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.take("mbarrier_init") {
            m.take("release");
        } else if m.take("proxy") {
            return self.proxy_fence(i, m);
        }
        // The order is optional, and at most one is allowed.
        let _ = ["sc", "acq_rel", "acquire", "release"].iter().any(|order| m.take(order));
        m.ignore(SYNC_RESTRICT);
        let scope = m.take_of(SCOPES).unwrap_or_default();
        m.finish()?;
        self.emit(Op::Fence { scope }, &[], &[])
    }

    fn proxy_fence(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.take("tensormap::generic") {
            // Every copy reads its tensor map again, so a fence suffices, apart from the check that it is there.
            let acquire = m.take("acquire");
            m.ignore(&["release"]);
            let scope = m.take_of(SCOPES).unwrap_or_default();
            m.finish()?;
            self.emit(Op::Fence { scope }, &[], &[])?;
            let Some(map) = i.operands.first().filter(|_| acquire) else { return Ok(()) };
            let (address, offset, _) = self.address(map)?;
            return self.emit(Op::MapFence { offset }, &[], &[address]);
        }
        if m.take("alias") {
            // Aliases of one memory are one memory here.
            m.finish()?;
            return self.emit(Op::Fence { scope: Scope::default() }, &[], &[]);
        }
        if m.take("async::generic") {
            m.ignore(&["acquire", "release", "cluster"]);
            m.ignore(SYNC_RESTRICT);
        } else if !m.take("async") {
            return reject("this kind of fence.proxy is not supported");
        }
        let space = m.take_of(&[
            ("global", Space::Global),
            ("shared::cta", Space::Shared),
            ("shared::cluster", Space::Shared),
        ]);
        m.finish()?;
        self.emit(Op::ProxyFence { space }, &[], &[])
    }
}

/// Modifiers that restrict a fence to some memory. Here the fence covers all memory.
const SYNC_RESTRICT: &[&str] = &["sync_restrict::shared::cta", "sync_restrict::shared::cluster"];

fn is_quick(access: &Access, address: Slot, registers: &[Slot]) -> bool {
    (access.space == Space::Shared || access.space == Space::Global && address.is_wide())
        && access.vector == 1
        && access.ty.bytes == 4
        && access.order == Order::Weak
        && registers.iter().all(|r| r.class() == Class::R32)
}

/// Returns the word and the bit shift of a parameter access. An access must not cross a word boundary, except for
/// eight-byte accesses.
fn word_of(at: i64, ty: MemType, bytes: u32) -> Decoded<(usize, u32)> {
    let size = i64::from(ty.bytes);
    if at < 0 || at + size > i64::from(bytes.next_multiple_of(4)) || at % size.min(4) != 0 {
        return reject("parameter access is out of range or misaligned");
    }
    Ok(((at / 4) as usize, (at % 4) as u32 * 8))
}
