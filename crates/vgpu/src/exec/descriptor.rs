//! wgmma descriptors: how an operand lies in shared memory.
//!
//! Bits 0-13 start address, 16-29 leading offset, 32-45 stride offset, each in units of 16 bytes; 49-51 base offset; 62-63
//! swizzle (0 none, 1 128 bytes, 2 64, 3 32).
//!
//! An operand is *lines* of chunks of 16 bytes. K-major: a line is a row of A or a column of B, with 32 bytes along k.
//! MN-major: a line is a step along k, with the rows or columns along it. Eight lines and as many chunks as the swizzle
//! spans are an atom, which lies in one piece, line after line:
//!
//! | | next chunk beyond the atom | next eight lines |
//! |---|---|---|
//! | K-major, swizzled | - | stride |
//! | K-major, not swizzled | leading | stride |
//! | MN-major, swizzled | leading | stride |
//! | MN-major, not swizzled | stride | leading |

use crate::tensor_map::Swizzle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Bytes from chunk to chunk beyond an atom, and from eight lines to the next.
    fn steps(&self, mn_major: bool) -> (u32, u32) {
        if mn_major && self.swizzle == Swizzle::None {
            (self.stride, self.leading)
        } else {
            (self.leading, self.stride)
        }
    }

    /// Address of a chunk.
    #[inline(always)]
    pub fn chunk(&self, mn_major: bool, line: u32, chunk: u32) -> u32 {
        let span = self.swizzle.span();
        let (beyond, lines) = self.steps(mn_major);
        let per_atom = span / 16;
        // The 32 bytes along k of a swizzled line are taken as they follow one another.
        let (atom, inside) = if mn_major || self.swizzle == Swizzle::None {
            (chunk / per_atom, chunk % per_atom)
        } else {
            (0, chunk)
        };
        let linear = self.start + atom * beyond + inside * 16 + line / 8 * lines + line % 8 * span;
        // The pattern starts at a row that the base offset names.
        self.swizzle.place(linear.wrapping_sub(self.base << 7)).wrapping_add(self.base << 7)
    }

    /// Whether the operand starts within the first line of a pattern, as the base offset has it.
    pub fn starts_a_pattern(&self) -> bool {
        let rows = self.start.wrapping_sub(self.base << 7);
        rows & (self.swizzle.period() - 1) < self.swizzle.span()
    }

    /// Whether the pattern is the same for all groups of eight lines, so that they differ by the stride alone.
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
        // 128 bytes, K-major: rows of 128 bytes, the second step along k starts 32 bytes later.
        let d = Descriptor::decode(bits(0x2000 + 32, 16, 1024, 1));
        assert_eq!((d.start, d.leading, d.stride, d.swizzle), (0x2020, 16, 1024, Swizzle::B128));
        assert_eq!(d.chunk(false, 0, 1), 0x2000 + 48);
        assert_eq!(d.chunk(false, 5, 0), 0x2000 + 5 * 128 + ((2 ^ 5) << 4));
        assert_eq!(d.chunk(false, 13, 1), 0x2000 + 1024 + 5 * 128 + ((3 ^ 5) << 4));
        assert!(d.starts_a_pattern());
        // The same, MN-major: 64 elements along, then the leading offset.
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
