//! The box of a tensor that one copy moves: where its rows lie in global memory, and what of them is there.

use super::{Fill, MAX_RANK, TensorMap};

/// A box at coordinates of its tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorBox {
    pub map: TensorMap,
    pub at: [i32; MAX_RANK],
}

/// A row of a box. Its other bytes are out of the tensor's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address of the first byte in range.
    pub address: u64,
    /// Where in the row it lies.
    pub first: u32,
    /// Bytes in range.
    pub bytes: u32,
}

impl TensorBox {
    /// Row `number`, counted through all dimensions but the innermost.
    pub fn row(&self, number: u32) -> Row {
        let map = &self.map;
        let none = Row { address: map.address, first: 0, bytes: 0 };
        let mut address = map.address;
        let mut left = number;
        for dim in 1..map.rank() {
            let count = map.copied(dim);
            let step = left % count * map.element_strides[dim];
            left /= count;
            let index = i64::from(self.at[dim]) + i64::from(step);
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

    /// What bytes out of range are loaded as, from byte `at` of a row on.
    pub fn fill(&self, at: usize) -> u8 {
        let last = self.map.element.bytes() as usize - 1;
        match self.map.fill {
            Fill::Zero => 0,
            Fill::Nan if at & last == last => 0x7f,
            Fill::Nan => 0xff,
        }
    }
}
