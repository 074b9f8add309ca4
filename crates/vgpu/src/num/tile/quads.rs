//! `mma.m8n8k4` on f16: four products of 8x8x4 in one warp.
//!
//! Lanes `4q..4q+4` and `16+4q..16+4q+4` compute product `q`. The positions come from the fragment tables of the PTX
//! manual. The layout modifiers of A and B decide which lane holds which element, unlike in all other shapes.

use super::Elem;
use crate::num::codec;
use crate::num::{Lanes, NAN_F32};

/// One form of `mma.m8n8k4` on f16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quads {
    /// `.col` for A and for B.
    pub a_columns: bool,
    /// `.col` for B.
    pub b_columns: bool,
    /// Element type of C: f16 or f32.
    pub c: Elem,
    /// Element type of D: f16 or f32.
    pub d: Elem,
}

impl Quads {
    /// Number of registers of an accumulator.
    pub const fn registers(elem: Elem) -> usize {
        if matches!(elem, Elem::F16) { 4 } else { 8 }
    }

    /// Row and column of element `i` of a lane in A.
    fn in_a(self, lane: usize, i: usize) -> (usize, usize) {
        let (high, t) = (lane / 16 * 4, lane % 4);
        if self.a_columns { (i + high, t) } else { (t + high, i) }
    }

    fn in_b(self, lane: usize, i: usize) -> (usize, usize) {
        let (high, t) = (lane / 16 * 4, lane % 4);
        if self.b_columns { (i, t + high) } else { (t, i + high) }
    }

    /// Row and column of element `i` of a lane in C or D.
    fn in_accumulator(elem: Elem, lane: usize, i: usize) -> (usize, usize) {
        let high = lane / 16 * 4;
        match elem {
            Elem::F16 => (lane % 4 + high, i),
            _ => ((lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)),
        }
    }

    /// D = A·B + C. Products are added one after another, with k ascending, as in the other shapes.
    pub fn mma(self, a: [&Lanes; 2], b: [&Lanes; 2], c: &[&Lanes], d: &mut [Lanes]) {
        for quad in 0..4 {
            let lanes = (0..8).map(|n| 4 * quad + n % 4 + n / 4 * 16);
            let (mut ma, mut mb, mut sums) = ([[0f32; 4]; 8], [[0f32; 8]; 4], [[0f32; 8]; 8]);
            for lane in lanes.clone() {
                for i in 0..4 {
                    let (row, col) = self.in_a(lane, i);
                    ma[row][col] = half(a[i / 2][lane], i % 2);
                    let (row, col) = self.in_b(lane, i);
                    mb[row][col] = half(b[i / 2][lane], i % 2);
                }
                for i in 0..8 {
                    let (row, col) = Self::in_accumulator(self.c, lane, i);
                    sums[row][col] = match self.c {
                        Elem::F16 => half(c[i / 2][lane], i % 2),
                        _ => f32::from_bits(c[i][lane]),
                    };
                }
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                for (col, sum) in sums.iter_mut().enumerate() {
                    for k in 0..4 {
                        *sum = ma[row][k].mul_add(mb[k][col], *sum);
                    }
                }
            }
            for lane in lanes {
                for i in 0..8 {
                    let (row, col) = Self::in_accumulator(self.d, lane, i);
                    let sum = sums[row][col];
                    if self.d == Elem::F16 {
                        let (word, shift) = (&mut d[i / 2][lane], 16 * (i % 2) as u32);
                        *word = *word & !(0xffff << shift) | codec::f32_to_f16_rn(sum) << shift;
                    } else {
                        d[i][lane] = if sum.is_nan() { NAN_F32 } else { sum.to_bits() };
                    }
                }
            }
        }
    }
}

fn half(word: u32, part: usize) -> f32 {
    codec::f16_to_f32(word >> (16 * part) & 0xffff)
}

#[cfg(test)]
mod tests;
