//! `ldmatrix`, `stmatrix`, `movmatrix`: these move 8x8 blocks of 16-bit elements between rows of bytes and a
//! register.
//!
//! A block is eight rows of 16 bytes. Without `.trans`, lane `4g + t` holds elements `2t` and `2t + 1` of row `g`.
//! With `.trans`, it holds element `g` of rows `2t` and `2t + 1`.

use crate::num::Lanes;

/// Eight rows of 16 bytes, in the order of shared memory.
pub type Block = [[u8; 16]; 8];

/// Loads one matrix of `ldmatrix.b16`.
#[inline(always)]
pub fn load(block: &Block, trans: bool) -> Lanes {
    const { assert!(cfg!(target_endian = "little")) };
    if !trans {
        // SAFETY: the sizes are equal, and any bytes are valid words.
        return unsafe { std::mem::transmute::<Block, Lanes>(*block) };
    }
    // Interleave pairs of rows, then transpose the columns. The compiler turns each step into a few shuffles.
    let mut pairs = [[0; 8]; 4];
    for (t, pair) in pairs.iter_mut().enumerate() {
        for (g, word) in pair.iter_mut().enumerate() {
            *word = u32::from(element(block, 2 * t, g)) | u32::from(element(block, 2 * t + 1, g)) << 16;
        }
    }
    let mut out = [0; 32];
    for g in 0..8 {
        for t in 0..4 {
            out[4 * g + t] = pairs[t][g];
        }
    }
    out
}

/// Stores one matrix of `stmatrix.b16`.
#[inline]
pub fn store(reg: &Lanes, trans: bool) -> Block {
    let mut block = [[0; 16]; 8];
    for (lane, &word) in reg.iter().enumerate() {
        let (g, t) = (lane / 4, lane % 4);
        for part in 0..2 {
            let (row, col) = if trans { (2 * t + part, g) } else { (g, 2 * t + part) };
            let bytes = ((word >> (16 * part)) as u16).to_le_bytes();
            block[row][2 * col..2 * col + 2].copy_from_slice(&bytes);
        }
    }
    block
}

/// `movmatrix.trans.b16`.
#[inline]
pub fn transpose(reg: &Lanes) -> Lanes {
    load(&store(reg, false), true)
}

#[inline(always)]
fn element(block: &Block, row: usize, col: usize) -> u16 {
    u16::from_le_bytes([block[row][2 * col], block[row][2 * col + 1]])
}

#[cfg(test)]
mod tests;
