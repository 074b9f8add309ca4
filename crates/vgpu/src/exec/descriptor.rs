//! wgmma matrix descriptors: the layout of an operand in shared memory.
//!
//! Bits 0-13 are the start address, bits 16-29 the leading offset and bits 32-45 the stride offset, each in units of 16
//! bytes.
//! Bits 49-51 are the base offset. Bits 62-63 are the swizzle (0: none, 1: 128 bytes, 2: 64 bytes, 3: 32 bytes).
//!
//! An operand consists of *lines* of chunks of 16 bytes. K-major: a line is a row of A or a column of B, with 32 bytes
//! along k. MN-major: a line is one step along k and holds the rows or columns. An atom has eight lines and as many
//! chunks per line as the swizzle spans. It is contiguous in memory, line after line. The descriptor gives the
//! distances between atoms:
//!
//! | | next chunk beyond the atom | next eight lines |
//! |---|---|---|
//! | K-major, swizzled | - | stride |
//! | K-major, not swizzled | leading | stride |
//! | MN-major, swizzled | leading | stride |
//! | MN-major, not swizzled | stride | leading |

use std::ops::Range;

use crate::tensor_map::Swizzle;

/// What determines the chunks of an operand that a warp reads: its descriptor, whether it is MN-major, its lines and its
/// chunks.
pub type OperandKey = (Descriptor, bool, Range<u32>, Range<u32>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    pub start: u32,
    pub leading: u32,
    pub stride: u32,
    pub base: u32,
    pub swizzle: Swizzle,
}

impl Descriptor {
    pub fn decode(bits: u64) -> Descriptor {
        let field = |at: u32| (bits >> at & 0x3fff) as u32 * 16;
        let swizzle = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32][(bits >> 62) as usize];
        Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: (bits >> 49 & 7) as u32,
            swizzle,
        }
    }

    /// Returns the distance in bytes to the next chunk beyond the atom, and to the next eight lines.
    fn steps(&self, mn_major: bool) -> (u32, u32) {
        if mn_major && self.swizzle == Swizzle::None {
            (self.stride, self.leading)
        } else {
            (self.leading, self.stride)
        }
    }

    /// Returns the address of a chunk.
    #[inline(always)]
    pub fn chunk(&self, mn_major: bool, line: u32, chunk: u32) -> u32 {
        let span = self.swizzle.span();
        let (beyond, lines) = self.steps(mn_major);
        let per_atom = span / 16;
        // The chunks along k of a swizzled K-major line are consecutive.
        let (atom, inside) = if mn_major || self.swizzle == Swizzle::None {
            (chunk / per_atom, chunk % per_atom)
        } else {
            (0, chunk)
        };
        let linear = self.start + atom * beyond + inside * 16 + line / 8 * lines + line % 8 * span;
        // The swizzle pattern starts at the row that the base offset gives.
        self.swizzle.place(linear.wrapping_sub(self.base << 7)).wrapping_add(self.base << 7)
    }

    /// Whether the operand starts within the first line of a swizzle pattern, given its base offset.
    pub fn starts_a_pattern(&self) -> bool {
        let rows = self.start.wrapping_sub(self.base << 7);
        rows & (self.swizzle.period() - 1) < self.swizzle.span()
    }

    /// The addresses of the chunks of the first eight lines of a K-major operand, for both chunks of a line. If the operand
    /// repeats, every further group of eight lines is a multiple of the stride behind them.
    #[inline(always)]
    pub fn first_lines(&self) -> [[u32; 8]; 2] {
        std::array::from_fn(|chunk| std::array::from_fn(|line| self.chunk(false, line as u32, chunk as u32)))
    }

    /// Whether all groups of eight lines have the same pattern. Their addresses then differ only by a multiple of the
    /// stride.
    pub fn repeats(&self) -> bool {
        self.stride.is_multiple_of(self.swizzle.period())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_lie_where_the_manual_has_them() {
        let bits = |start: u64, leading: u64, stride: u64, swizzle: u64| {
            start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62
        };
        // 128-byte swizzle, K-major: rows of 128 bytes. The second step along k starts 32 bytes later.
        let d = Descriptor::decode(bits(0x2000 + 32, 16, 1024, 1));
        assert_eq!((d.start, d.leading, d.stride, d.swizzle), (0x2020, 16, 1024, Swizzle::B128));
        assert_eq!(d.chunk(false, 0, 1), 0x2000 + 48);
        assert_eq!(d.chunk(false, 5, 0), 0x2000 + 5 * 128 + ((2 ^ 5) << 4));
        assert_eq!(d.chunk(false, 13, 1), 0x2000 + 1024 + 5 * 128 + ((3 ^ 5) << 4));
        assert!(d.starts_a_pattern());
        // 128-byte swizzle, MN-major: 64 elements per atom. The leading offset gives the next atom.
        let d = Descriptor::decode(bits(0x2000, 4096, 1024, 1));
        assert_eq!(d.chunk(true, 3, 9), 0x2000 + 4096 + 3 * 128 + ((1 ^ 3) << 4));
        assert_eq!(d.chunk(true, 11, 0), 0x2000 + 1024 + 3 * 128 + (3 << 4));
        // No swizzle: core matrices of 128 bytes.
        let d = Descriptor::decode(bits(0x400, 256, 512, 0));
        assert_eq!(d.chunk(false, 9, 1), 0x400 + 256 + 512 + 16);
        assert_eq!(d.chunk(true, 9, 1), 0x400 + 256 + 512 + 16);
        let d = Descriptor::decode(bits(0x400, 0, 256, 3));
        assert_eq!(d.chunk(false, 4, 0), 0x400 + 4 * 32 + 16);
        assert!(!Descriptor::decode(bits(0x2080, 0, 1024, 1)).starts_a_pattern());
        assert!(Descriptor::decode(bits(0x2080, 0, 1024, 1) | 1 << 49).starts_a_pattern());
    }
}
