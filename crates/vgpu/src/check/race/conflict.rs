//! Decides when two unordered accesses to one byte are a race, and defines what a shadow passes to the report.

use super::event::{EarlierStore, Equality, Op, StoredValues, Strength};
use super::report::RaceKind;
use super::stamp::Stamp;
use crate::program::facts::AfterAtomic;

/// Two unordered accesses that race.
#[derive(Clone, Copy, Debug)]
pub struct Conflict {
    pub first_block: u32,
    pub first: Stamp,
    pub second: Stamp,
    pub address: u64,
    /// How equal the values of two stores are.
    pub equality: Equality,
    /// The rule that the accesses break although they are ordered.
    pub although_ordered: Option<RaceKind>,
}

impl Conflict {
    /// A race of an access with an earlier one, given with its block.
    pub fn new((first_block, first): (u32, Stamp), second: Stamp, address: u64) -> Conflict {
        Conflict { first_block, first, second, address, equality: Equality::Unknown, although_ordered: None }
    }

    /// Whether this race has the same cause as another one: it is with the same access of a thread, and another lane of
    /// the instruction has it.
    pub fn is_as(&self, other: &Conflict) -> bool {
        !self.first.is_agent()
            && (self.first_block, self.first) == (other.first_block, other.first)
            && self.second.with_lane(0) == other.second.with_lane(0)
            && self.although_ordered == other.although_ordered
    }
}

/// The races that an access has.
#[derive(Debug, Default)]
pub struct Conflicts {
    pub list: Vec<Conflict>,
    /// The earlier access of the last race of the current lane.
    pub last: Stamp,
}

impl Conflicts {
    /// Adds a race, once per lane and earlier access.
    pub fn push_once(&mut self, conflict: Conflict) {
        if self.last != conflict.first {
            self.last = conflict.first;
            self.list.push(conflict);
        }
    }
}

/// What two accesses that nothing orders do to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    Nothing,
    /// No race in PTX, but one of them is volatile, which CUDA C++ does not define between threads.
    Volatile,
    Race,
}

/// Two accesses race if nothing orders them, one of them writes, and they are not both strong with scopes that include
/// each other's thread.
#[inline]
pub fn clash(first: Stamp, first_block: u32, second: Stamp, second_block: u32) -> Clash {
    if first.op() == Op::Read && second.op() == Op::Read {
        return Clash::Nothing;
    }
    let weakest = first.strength().min(second.strength());
    match weakest {
        Strength::Weak => Clash::Race,
        Strength::Block if first_block != second_block => Clash::Race,
        _ if first.is_volatile() || second.is_volatile() => Clash::Volatile,
        _ => Clash::Nothing,
    }
}

/// How equal the values of two unordered writes are, whatever the data are.
pub fn compare(
    (first_block, first): (u32, Stamp),
    (own_block, own): (u32, Stamp),
    values: &dyn StoredValues,
) -> Equality {
    let plain = |stamp: Stamp| stamp.op() == Op::Write && !stamp.is_agent();
    let same_block = first_block == own_block;
    // Two groups of warps that run the same program may both store a tile with a copy.
    let of_agents = first.op() == Op::Write && own.op() == Op::Write && first.is_agent() && own.is_agent();
    if of_agents && same_block && first.pc() == own.pc() && first.warp() / 4 != own.warp() / 4 {
        let thread = first.warp() * 32 + first.lane();
        return values
            .compare(own.lane(), EarlierStore { pc: first.pc(), same_block, thread, sibling: None });
    }
    let sibling = (same_block && first.0 & !31 == own.0 & !31).then_some(first.lane());
    if !plain(first) || !plain(own) {
        return Equality::Unknown;
    }
    let thread = first.warp() * 32 + first.lane();
    values.compare(own.lane(), EarlierStore { pc: first.pc(), same_block, thread, sibling })
}

/// Whether a store may overwrite a different value although other threads, which are not ordered after that value, may
/// store the same value as this store.
#[inline(always)]
pub fn is_other_value(last: Stamp, own: Stamp, values: &dyn StoredValues) -> bool {
    !last.is_none() && (last.0 ^ own.0) & Stamp::PC != 0 && own.op() == Op::Write && values.is_common()
}

/// Whether a weak write is ordered after the strong accesses of other threads, because its thread has seen their result.
/// If the program text does not decide it, `saw` tells whether the thread has accessed the word strongly.
pub fn is_witnessed(values: &dyn StoredValues, saw: impl FnOnce() -> bool) -> bool {
    match values.after_atomic() {
        AfterAtomic::Yes => true,
        AfterAtomic::No => false,
        AfterAtomic::Perhaps => saw(),
    }
}

/// The layout of the shared-memory offsets of the lanes of a warp. An inactive lane counts as the first active lane.
#[derive(Clone, Copy, Debug)]
pub struct AccessPattern {
    pub min: u32,
    pub max: u32,
    /// All addresses combined with a bitwise or.
    pub or: u32,
    pub shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All 32 lanes, each directly after the previous lane.
    Row,
    /// All active lanes at one address.
    Point,
    Scattered,
}

impl AccessPattern {
    pub fn new(mask: u32, address: &[u32; 32], bytes: u32) -> AccessPattern {
        let base = address[mask.trailing_zeros() as usize & 31];
        let (mut min, mut max, mut or) = (base, base, base);
        let (mut row, mut point) = (mask == u32::MAX, true);
        for (l, at) in address.iter().enumerate() {
            let at = if mask >> l & 1 == 1 { *at } else { base };
            min = min.min(at);
            max = max.max(at);
            or |= at;
            row &= at == base.wrapping_add(l as u32 * bytes);
            point &= at == base;
        }
        let shape = if point {
            Shape::Point
        } else if row {
            Shape::Row
        } else {
            Shape::Scattered
        };
        AccessPattern { min, max, or, shape }
    }
}
