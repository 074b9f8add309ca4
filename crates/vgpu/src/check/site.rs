//! Where an instruction executes.

/// An instruction, and the lanes that execute it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Number of the instruction, counted over all functions of the kernel.
    pub pc: u32,
    /// Index of the block in the grid.
    pub block: u64,
    /// Number of the warp in the block.
    pub warp: u32,
    /// Mask of the lanes.
    pub lanes: u32,
}

impl Site {
    /// Returns the first lane.
    pub fn first_lane(self) -> usize {
        self.lanes.trailing_zeros() as usize & 31
    }
}
