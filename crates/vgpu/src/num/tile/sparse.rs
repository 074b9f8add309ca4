//! `mma.sp`: products whose A has two zeros in every four elements of a row (or one in two, for tf32).
//!
//! The registers of A hold only the other elements, in the fragment of a matrix with half as many columns. Metadata
//! says where they belong: four bits for every group of elements, two indices of two bits. Some lanes of each quad
//! hold the metadata of two rows; the selector of the instruction chooses them.

use super::{Elem, Mma, Operand, Shape, layout};
use crate::num::codec;
use crate::num::{Lanes, NAN_F32};

/// Whether PTX has this form with a sparse A.
pub fn is_supported(op: &Mma) -> bool {
    use Elem::{Bf16, E4m3, E5m2, F16, F32, S4, S8, S32, Tf32, U4, U8};
    let k = op.shape.k;
    let floats = op.c == F32 && op.d == F32;
    let halves = op.c == F16 && op.d == F16;
    let integers = op.c == S32 && op.d == S32;
    (op.shape.m, op.shape.n) == (16, 8)
        && match (op.a, op.b) {
            (F16, F16) => (floats || halves) && matches!(k, 16 | 32),
            (Bf16, Bf16) => floats && matches!(k, 16 | 32),
            (Tf32, Tf32) => floats && matches!(k, 8 | 16),
            (E4m3 | E5m2, E4m3 | E5m2) => (floats || halves) && k == 64,
            (S8 | U8, S8 | U8) => integers && matches!(k, 32 | 64),
            (S4 | U4, S4 | U4) => integers && matches!(k, 64 | 128),
            _ => false,
        }
}

/// The fragments of a, b, c and d.
pub fn fragments(op: &Mma) -> Option<[layout::Fragment; 4]> {
    let packed = Shape { k: op.shape.k / 2, ..op.shape };
    Some([
        layout::mma(packed, Operand::A, op.a)?,
        layout::mma(op.shape, Operand::B, op.b)?,
        layout::mma(op.shape, Operand::C, op.c)?,
        layout::mma(op.shape, Operand::C, op.d)?,
    ])
}

/// Number of values that the selector may have.
pub fn selectors(op: &Mma) -> u64 {
    // Each row has four bits per group.
    let bits = 16 * 4 * u64::from(op.shape.k) / group(op.a).columns as u64;
    // A lane contributes 32 bits. There are eight quads with four lanes each.
    4 / (bits / 256)
}

/// A group of columns of A that one entry of the metadata describes.
struct Group {
    columns: usize,
    /// Elements of the group that are in registers.
    kept: usize,
}

fn group(elem: Elem) -> Group {
    match elem {
        Elem::Tf32 => Group { columns: 2, kept: 1 },
        // Pairs of elements are kept or dropped together.
        Elem::S4 | Elem::U4 => Group { columns: 8, kept: 4 },
        _ => Group { columns: 4, kept: 2 },
    }
}

/// The metadata of a group of a row: two indices of two bits.
fn entry(op: &Mma, metadata: &Lanes, selector: usize, row: usize, number: usize) -> u32 {
    let (quad, high) = (row % 8 * 4, row / 8);
    let per_row = usize::from(op.shape.k) / group(op.a).columns;
    let (lane, at) = match (op.a.bits() >= 16, per_row) {
        (true, 4) => (selector, 4 * high + number),
        (true, _) => (2 * selector + number / 4, 4 * high + number % 4),
        (false, 8) => (2 * selector + high, number),
        (false, _) => (high + 2 * (number / 8), number % 8),
    };
    metadata[quad + lane] >> (4 * at) & 15
}

/// The column in A of a kept element.
fn column(op: &Mma, metadata: &Lanes, selector: usize, row: usize, packed: usize) -> usize {
    let Group { columns, kept } = group(op.a);
    let bits = entry(op, metadata, selector, row, packed / kept);
    let index = |n: usize| (bits >> (2 * n) & 3) as usize;
    let within = match op.a {
        // 0b0100 keeps the first element and 0b1110 the second.
        Elem::Tf32 => index(0) / 2,
        Elem::S4 | Elem::U4 => 2 * index(packed % 4 / 2) + packed % 2,
        _ => index(packed % 2),
    };
    packed / kept * columns + within
}

fn bits_of(fragment: &layout::Fragment, regs: &[&Lanes], lane: usize, i: usize) -> u32 {
    let per = fragment.per_reg();
    let bits = fragment.elem.bits();
    let word = regs[i / per][lane];
    if bits == 32 { word } else { word >> (bits * (i % per)) & ((1 << bits) - 1) }
}

fn float(elem: Elem, bits: u32) -> f32 {
    match elem {
        Elem::F16 => codec::f16_to_f32(bits),
        Elem::Bf16 => codec::bf16_to_f32(bits),
        Elem::Tf32 => codec::tf32_to_f32(bits),
        Elem::E4m3 => codec::e4m3_to_f32(bits as u8),
        Elem::E5m2 => codec::e5m2_to_f32(bits as u8),
        _ => f32::from_bits(bits),
    }
}

fn integer(elem: Elem, bits: u32) -> i64 {
    match elem {
        Elem::S8 => i64::from(bits as i8),
        Elem::S4 => i64::from((bits << 4) as i8 >> 4),
        Elem::S32 => i64::from(bits as i32),
        _ => i64::from(bits),
    }
}

/// D = A·B + C. Products are added one after another, with k ascending.
pub fn mma(
    op: &Mma,
    a: &[&Lanes],
    b: &[&Lanes],
    c: &[&Lanes],
    metadata: &Lanes,
    selector: usize,
    d: &mut [Lanes],
) {
    let Some([fa, fb, fc, fd]) = fragments(op) else { return };
    let k = usize::from(op.shape.k);
    let mut ma = vec![0u32; 16 * k];
    let mut kept = vec![false; 16 * k];
    let mut mb = vec![0u32; 8 * k];
    for lane in 0..32 {
        for i in 0..fa.elems() {
            let (row, packed) = fa.position(lane, i);
            let at = row * k + column(op, metadata, selector, row, packed);
            ma[at] = bits_of(&fa, a, lane, i);
            kept[at] = true;
        }
        for i in 0..fb.elems() {
            let (row, col) = fb.position(lane, i);
            mb[row * 8 + col] = bits_of(&fb, b, lane, i);
        }
    }
    for register in d.iter_mut() {
        register.fill(0);
    }
    for lane in 0..32 {
        for i in 0..fd.elems() {
            let (row, col) = fd.position(lane, i);
            let start = bits_of(&fc, c, lane, i);
            let terms = (0..k).filter(|n| kept[row * k + n]).map(|n| (ma[row * k + n], mb[n * 8 + col]));
            let result = if op.a.is_integer() {
                let sum: i64 = terms.map(|(x, y)| integer(op.a, x) * integer(op.b, y)).sum();
                let total = integer(Elem::S32, start) + sum;
                if op.satfinite {
                    total.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
                } else {
                    total as u32
                }
            } else {
                let start = float(op.c, start);
                let sum = terms.fold(start, |sum, (x, y)| float(op.a, x).mul_add(float(op.b, y), sum));
                match op.d {
                    Elem::F16 => codec::f32_to_f16_rn(sum),
                    _ if sum.is_nan() => NAN_F32,
                    _ => sum.to_bits(),
                }
            };
            let per = fd.per_reg();
            d[i / per][lane] |= result << (fd.elem.bits() * (i % per) % 32);
        }
    }
}

#[cfg(test)]
mod tests;
