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

/// How the addresses of a warp's lanes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each lane right after the one before, all 32.
    Row,
    /// All lanes at one place.
    Point,
    Scattered,
}

impl Shape {
    #[inline(always)]
    pub fn of32(mask: u32, address: &[u32; 32], bytes: u32) -> Shape {
        if mask != u32::MAX {
            return Shape::Scattered;
        }
        let (mut row, mut point) = (true, true);
        for l in 0..32 {
            row &= address[l] == address[0].wrapping_add(l as u32 * bytes);
            point &= address[l] == address[0];
        }
        if row {
            Shape::Row
        } else if point {
            Shape::Point
        } else {
            Shape::Scattered
        }
    }
}
