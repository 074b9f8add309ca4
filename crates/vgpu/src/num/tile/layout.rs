//! Which lane and register holds which element of a tile, from the fragment tables of the PTX manual.

use super::{Elem, Shape};

/// Which matrix a fragment belongs to; `C` stands for both accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    A,
    B,
    C,
}

/// The part of a matrix a warp holds in its registers: a list of blocks (see the parent module).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    pub operand: Operand,
    pub elem: Elem,
    /// Extents of the matrix: m by k, k by n, or m by n.
    pub rows: usize,
    pub cols: usize,
    /// Registers per lane, copies included: 32-bit ones, 64-bit ones for f64.
    pub regs: usize,
    /// Distinct registers; the rest repeat them (wmma's f16 operands, whose fragments are larger than the tile).
    pub distinct: usize,
    /// Blocks along the block rows (m of A and C, n of B) before the run (k, or n of C) advances.
    stacked: usize,
    /// wmma with m = 8 computes the transposed product: blocks of A and C have their rows along the other side.
    transposed: bool,
}

impl Fragment {
    /// Elements in one lane of one register.
    pub const fn per_reg(&self) -> usize {
        let bits = self.elem.bits();
        if bits >= 32 { 1 } else { 32 / bits }
    }

    /// Elements a lane holds, copies included.
    pub const fn elems(&self) -> usize {
        self.regs * self.per_reg()
    }

    /// Columns of one block.
    const fn run(&self) -> usize {
        match (self.operand, self.elem.bits()) {
            (Operand::C, _) => 8,
            (_, 64) => 4,
            (_, bits) => 128 / bits,
        }
    }

    /// Registers that make one block.
    pub(super) const fn regs_per_block(&self) -> usize {
        if matches!(self.operand, Operand::C) && self.elem.bits() >= 32 { 2 } else { 1 }
    }

    /// Block row and run offset of block `i`: (m, k) of A, (n, k) of B, (m, n) of C.
    pub(super) const fn block(&self, i: usize) -> (usize, usize) {
        (8 * (i % self.stacked), self.run() * (i / self.stacked))
    }

    /// Row and column, in the matrix, of element `i` of a lane.
    #[inline]
    pub fn position(&self, lane: usize, i: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let reg = i / self.per_reg() % self.distinct;
        let part = i % self.per_reg();
        let (row0, col0) = self.block(reg / self.regs_per_block());
        let along = match (self.operand, self.regs_per_block()) {
            (Operand::C, 2) => 2 * thread + reg % 2,
            _ => thread * self.per_reg() + part,
        };
        let (row, col) = (row0 + group, col0 + along);
        if matches!(self.operand, Operand::B) != self.transposed { (col, row) } else { (row, col) }
    }
}

/// Fragments of `mma.sync`.
pub fn mma(shape: Shape, operand: Operand, elem: Elem) -> Option<Fragment> {
    let (m, n, k) = (usize::from(shape.m), usize::from(shape.n), usize::from(shape.k));
    if n != 8 || m != 8 && m != 16 {
        return None;
    }
    Some(fragment(operand, elem, m, n, k, false))
}

/// A fragment with no copies: block rows first, then along the run.
fn fragment(operand: Operand, elem: Elem, m: usize, n: usize, k: usize, transposed: bool) -> Fragment {
    let (rows, cols) = match operand {
        Operand::A => (m, k),
        Operand::B => (k, n),
        Operand::C => (m, n),
    };
    let stacked = match operand {
        Operand::A => {
            if transposed {
                n
            } else {
                m
            }
        }
        Operand::B => n,
        Operand::C => m,
    } / 8;
    let bits = rows * cols * elem.bits();
    let regs = bits / 32 / if elem.bits() == 64 { 64 } else { 32 };
    Fragment { operand, elem, rows, cols, regs, distinct: regs, stacked, transposed }
}

/// Fragments of `wmma`, the same for row- and column-major matrices.
pub fn wmma(shape: Shape, operand: Operand, elem: Elem) -> Option<Fragment> {
    let _ = (shape, operand, elem);
    None
}
