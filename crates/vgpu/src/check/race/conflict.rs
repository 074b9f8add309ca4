//! When two unordered accesses to the same byte are a race, and what a shadow hands to the report.

use super::event::{Op, Strength};
use super::stamp::Stamp;

/// Two unordered accesses that are a race.
#[derive(Clone, Copy, Debug)]
pub struct Conflict {
    pub first_block: u32,
    pub first: Stamp,
    pub second: Stamp,
    pub address: u64,
    pub same_value: bool,
    /// They are ordered, but not for the proxy of the second.
    pub missing_proxy_fence: bool,
}

/// Whether the two accesses race if nothing orders them: one writes, and they are not both strong with scopes that
/// reach each other.
#[inline]
pub fn races(first: Stamp, first_block: u32, second: Stamp, second_block: u32) -> bool {
    if first.op() == Op::Read && second.op() == Op::Read {
        return false;
    }
    let weakest = first.strength().min(second.strength());
    match weakest {
        Strength::Weak => true,
        Strength::Block => first_block != second_block,
        Strength::Device => false,
    }
}

/// How the offsets of a warp's lanes in shared memory lie, inactive lanes taken as one of the active.
#[derive(Clone, Copy, Debug)]
pub struct Lay {
    pub min: u32,
    pub max: u32,
    /// All addresses or'ed.
    pub or: u32,
    pub shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All 32 lanes, each right after the one before.
    Row,
    /// All active lanes at one place.
    Point,
    Scattered,
}

impl Lay {
    pub fn of(mask: u32, address: &[u32; 32], bytes: u32) -> Lay {
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
        Lay { min, max, or, shape }
    }
}
