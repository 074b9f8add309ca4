//! The box of a tensor that one copy moves: where its rows lie in global memory, and which bytes of them are in range.

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

impl TensorBox {
    /// Returns row `number`, counted through all dimensions except the innermost.
    pub fn row(&self, number: u32) -> Row {
        let map = &self.map;
        let none = Row { address: map.address, first: 0, bytes: 0 };
        let mut address = map.address;
        let place = self.place(number);
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

    /// Returns the part of row `number` that a store writes: whole 16-byte chunks. If the extent of the tensor is not a
    /// multiple of 16 bytes, a store writes behind the end of the row. An H200 does this.
    pub fn stored_row(&self, number: u32) -> Row {
        let row = self.row(number);
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
