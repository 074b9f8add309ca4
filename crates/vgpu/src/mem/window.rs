//! Where the state spaces lie in the generic address space.

use crate::isa::types::Space;

/// Each window is 4 GiB wide, so that a 32-bit offset cannot leave it.
pub const SHARED: u64 = 1 << 40;
pub const LOCAL: u64 = 2 << 40;
pub const PARAM: u64 = 3 << 40;
/// Functions have addresses too, for calls through pointers; nothing can be read there.
pub const FUNCTION: u64 = 4 << 40;
pub const SIZE: u64 = 1 << 32;
/// Device allocations start here.
pub const GLOBAL: u64 = 0x7f00_0000_0000;

/// What `cvta` adds to make a generic address. Global addresses are generic already.
pub fn base(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED,
        Space::Local => LOCAL,
        Space::Param => PARAM,
        Space::Global | Space::Generic => 0,
    }
}

/// The space of a generic address.
#[inline(always)]
pub fn space_of(address: u64) -> Space {
    match address >> 32 {
        0x100 => Space::Shared,
        0x200 => Space::Local,
        0x300 => Space::Param,
        _ => Space::Global,
    }
}
