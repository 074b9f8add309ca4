//! The box of a tensor that one copy moves: where its rows lie in global memory, and which bytes of them are in range.

use std::ops::Range;

use super::{CHUNK, Fill, MAX_RANK, TensorMap};

/// A box at coordinates of its tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorBox {
    /// The tensor and the shape of the box.
    pub map: TensorMap,
    /// Coordinates of the first element, innermost first.
    pub at: [i32; MAX_RANK],
    /// Offsets of the pixels of an im2col map, innermost first.
    pub offsets: [u16; MAX_RANK - 2],
}

/// The part of a row of a box that is in range. The other bytes of the row are outside the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address of the first byte in range.
    pub address: u64,
    /// Offset of that byte in the row.
    pub first: u32,
    /// Number of bytes in range.
    pub bytes: u32,
}

/// Rows that have the same bytes in range and lie at equal distances.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The first row.
    pub first: Row,
    /// Number of rows.
    pub rows: u32,
    /// Bytes from one row to the next.
    pub step: u64,
}

impl TensorBox {
    /// Returns row `number`, counted through all dimensions except the innermost.
    pub fn row(&self, number: u32) -> Row {
        let place = self.place(number);
        let map = &self.map;
        let none = Row { address: map.address, first: 0, bytes: 0 };
        let mut address = map.address;
        for dim in 1..map.rank() {
            let index = place[dim];
            if index < 0 || index as u64 >= map.dims[dim] {
                return none;
            }
            address = address.wrapping_add((index as u64).wrapping_mul(map.strides[dim - 1]));
        }
        let (start, extent) = (i64::from(self.at[0]), i64::from(map.box_dims[0]));
        let low = start.max(0);
        let high = (start + extent).min(map.dims[0] as i64);
        if low >= high {
            return none;
        }
        let size = map.element.bytes();
        Row {
            address: address.wrapping_add(low as u64 * size),
            first: (low - start) as u32 * size as u32,
            bytes: (high - low) as u32 * size as u32,
        }
    }

    /// All rows in their order.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.map.rows()).map(|number| self.row(number))
    }

    /// All rows in their order, as runs: rows along the second dimension that are inside the tensor as a whole.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let map = &self.map;
        let rows = if self.bytes_in_range().is_some() && map.rank() > 1 { map.copied(1) } else { 1 };
        let step = if rows > 1 { map.strides[0] * u64::from(map.element_strides[1]) } else { 0 };
        (0..map.rows() / rows).map(move |run| Run { first: self.row(run * rows), rows, step })
    }

    /// The addresses from the first byte of the box to its last one, if the whole box is inside the tensor.
    pub fn bytes_in_range(&self) -> Option<Range<u64>> {
        let map = &self.map;
        let inside = |dim: usize| {
            let (first, extent) = (i64::from(self.at[dim]), i64::from(map.box_dims[dim]));
            first >= 0 && first + extent <= map.dims[dim] as i64
        };
        if map.im2col.is_some() || !(0..map.rank()).all(inside) {
            return None;
        }
        // The last row's distance from the first. A map may have been made by hand, with any strides.
        let mut distance = 0u64;
        for dim in 1..map.rank() {
            let index = map.copied(dim).checked_sub(1)?.checked_mul(map.element_strides[dim])?;
            distance = distance.checked_add(u64::from(index).checked_mul(map.strides[dim - 1])?)?;
        }
        let first = self.row(0);
        let end = first.address.checked_add(distance)?.checked_add(u64::from(first.bytes))?;
        Some(first.address..end)
    }

    /// The coordinates of row `number` in all dimensions except the innermost.
    fn place(&self, number: u32) -> [i64; MAX_RANK] {
        let map = &self.map;
        if let Some(im2col) = &map.im2col {
            let mut place = im2col.pixel(map, &self.at, number);
            for (dim, offset) in (1..map.rank() - 1).zip(self.offsets) {
                place[dim] += i64::from(offset);
            }
            return place;
        }
        let mut place = self.at.map(i64::from);
        let mut left = number;
        for dim in 1..map.rank() {
            let count = map.copied(dim);
            place[dim] += i64::from(left % count * map.element_strides[dim]);
            left /= count;
        }
        place
    }

    /// Returns the part of a row that a store writes: whole 16-byte chunks. If the extent of the tensor is not a
    /// multiple of 16 bytes, a store writes behind the end of the row. An H200 does this.
    pub fn stored_row(&self, row: Row) -> Row {
        let end = (row.first + row.bytes).next_multiple_of(CHUNK as u32).min(self.map.row_bytes());
        if row.bytes == 0 { row } else { Row { bytes: end - row.first, ..row } }
    }

    /// The value of an out-of-range byte at offset `at` of a row. All types have the same NaN, 0x7ff7 in every two
    /// bytes, as on an H200.
    pub fn fill(&self, at: usize) -> u8 {
        match self.map.fill {
            Fill::Zero => 0,
            Fill::Nan if at.is_multiple_of(2) => 0xf7,
            Fill::Nan => 0x7f,
        }
    }
}
