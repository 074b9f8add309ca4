//! Which lane and register holds which element of a tile. The layouts come from the fragment tables of the PTX
//! manual.

use super::{Elem, Shape};

/// The matrix that a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The left factor, m by k.
    A,
    /// The right factor, k by n.
    B,
    /// Either accumulator (C or D), m by n.
    C,
}

/// The part of a matrix that a warp holds in its registers: a list of blocks (see the parent module).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The matrix.
    pub operand: Operand,
    /// Element type.
    pub elem: Elem,
    /// Rows of the matrix: m for A, k for B, m for C.
    pub rows: usize,
    /// Columns of the matrix: k for A, n for B, n for C.
    pub cols: usize,
    /// Registers per lane, including copies. They are 32-bit registers, or 64-bit registers for f64.
    pub regs: usize,
    /// Number of distinct registers. The others repeat them: wmma's fragments of f16 operands are larger than the
    /// tile.
    pub distinct: usize,
    /// Whether the rows of the blocks are columns of the matrix. This is true for B, and for C if the product is
    /// computed transposed.
    across: bool,
    /// Number of rows that the blocks fill before they advance along the runs. Afterwards the blocks continue with
    /// the next rows.
    tall: usize,
    /// Extent of the matrix along the runs.
    deep: usize,
}

impl Fragment {
    /// Lays out a matrix without copies. `wide_b` selects the transposed product of wmma's m8n32k16. There B takes
    /// the place of A, and D is computed column by column.
    fn new(operand: Operand, elem: Elem, shape: Shape, wide_b: bool) -> Self {
        let (m, n, k) = (usize::from(shape.m), usize::from(shape.n), usize::from(shape.k));
        let (rows, cols) = match operand {
            Operand::A => (m, k),
            Operand::B => (k, n),
            Operand::C => (m, n),
        };
        let across = match operand {
            Operand::A => false,
            Operand::B => true,
            Operand::C => wide_b,
        };
        let (high, deep) = if across { (cols, rows) } else { (rows, cols) };
        let tall = match operand {
            Operand::B if !wide_b => 8,
            _ => high.min(16),
        };
        let regs = rows * cols * elem.bits() / 32 / elem.bits().max(32);
        Self { operand, elem, rows, cols, regs, distinct: regs, across, tall, deep }
    }

    /// Number of elements in one lane of one register.
    pub const fn per_reg(&self) -> usize {
        let bits = self.elem.bits();
        if bits >= 32 { 1 } else { 32 / bits }
    }

    /// Number of elements that a lane holds, including copies.
    pub const fn elems(&self) -> usize {
        self.regs * self.per_reg()
    }

    /// Number of elements in one row of a block.
    pub(super) const fn run(&self) -> usize {
        match (self.operand, self.elem.bits()) {
            (Operand::C, _) => 8,
            (_, 64) => 4,
            (_, bits) => 128 / bits,
        }
    }

    /// Number of registers that make one block.
    pub(super) const fn regs_per_block(&self) -> usize {
        if matches!(self.operand, Operand::C) && self.elem.bits() >= 32 { 2 } else { 1 }
    }

    /// First row of block `i`, and its first element along the run.
    #[inline(always)]
    pub(super) const fn block(&self, i: usize) -> (usize, usize) {
        let stack = self.tall / 8;
        let per_stack = stack * (self.deep / self.run());
        let (group, i) = (i / per_stack, i % per_stack);
        (group * self.tall + 8 * (i % stack), self.run() * (i / stack))
    }

    /// Row and column in the matrix of element `i` of a lane. Elements are counted from the low bits of the first
    /// register upwards.
    #[inline]
    pub const fn position(&self, lane: usize, i: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let reg = i / self.per_reg() % self.distinct;
        let part = i % self.per_reg();
        let (row0, run0) = self.block(reg / self.regs_per_block());
        let along =
            if self.regs_per_block() == 2 { 2 * thread + reg % 2 } else { thread * self.per_reg() + part };
        let (row, along) = (row0 + group, run0 + along);
        if self.across { (along, row) } else { (row, along) }
    }
}

/// Fragments of `mma.sync`, from the manual's tables. This function does not check which element types a shape
/// supports.
pub fn mma(shape: Shape, operand: Operand, elem: Elem) -> Option<Fragment> {
    (shape.n == 8 && (shape.m == 8 || shape.m == 16)).then(|| Fragment::new(operand, elem, shape, false))
}

/// Fragments of `wmma`, which are the same for row-major and column-major matrices. The manual does not specify them.
/// These are the fragments of sm_80 to sm_90, as read from an H200.
pub fn wmma(shape: Shape, operand: Operand, elem: Elem) -> Option<Fragment> {
    let wide_b = match (shape.m, shape.n) {
        (16, 16) | (8 | 32, 8) => false,
        (8, 32) => true,
        _ => return None,
    };
    let mut fragment = Fragment::new(operand, elem, shape, wide_b);
    if elem == Elem::F16 && operand != Operand::C {
        fragment.regs = 8;
    }
    Some(fragment)
}

#[cfg(test)]
mod tests;
