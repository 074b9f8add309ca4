//! The positions of the state spaces in the generic address space.

use crate::isa::types::Space;
use crate::world::World;

/// Each window is 4 GiB wide, so that a 32-bit offset cannot leave it.
pub const SIZE: u64 = 1 << 32;
/// The size of all windows together.
pub const ALL: u64 = 3 * SIZE;
/// Address of the first function, for calls through pointers. On hardware, function addresses are small offsets into
/// the code.
pub const FUNCTION: u64 = 0x3c0;

/// The start of shared memory, local memory and parameters. Their windows follow one another in this order.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    pub shared: u64,
    pub local: u64,
    pub param: u64,
}

impl Windows {
    pub fn new(world: &World) -> Windows {
        Windows::at(world.shared_window, world)
    }

    /// The windows of a world, moved to another address of shared memory.
    pub fn at(shared: u64, world: &World) -> Windows {
        let local = shared + SIZE + u64::from(world.local_offset & !0xfff);
        Windows { shared, local, param: shared + 2 * SIZE + 0x1000 }
    }

    /// What `cvta` adds to make a generic address. Global addresses are already generic.
    #[inline(always)]
    pub fn base(&self, space: Space) -> u64 {
        match space {
            Space::Shared => self.shared,
            Space::Local => self.local,
            Space::Param => self.param,
            Space::Global | Space::Generic => 0,
        }
    }

    /// The state space of a generic address.
    #[inline(always)]
    pub fn space_of(&self, address: u64) -> Space {
        match address.wrapping_sub(self.shared) >> 32 {
            0 => Space::Shared,
            1 => Space::Local,
            2 => Space::Param,
            _ => Space::Global,
        }
    }
}
