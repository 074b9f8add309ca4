//! Records the origin of each chunk of shared memory.
//!
//! A tensor copy writes a box into shared memory, swizzled or not. A wgmma descriptor states how its operand lies
//! there. The two must agree, whatever the values are. Therefore every chunk of 16 bytes records the row and the column
//! of the box that it came from. Chunks that threads have written since are ignored: bit 2 of their state
//! ([`crate::mem::shadow::COPIED`]) is clear.

use crate::tensor_map::Swizzle;

/// A tensor copy into shared memory.
#[derive(Clone, Copy, Debug)]
pub struct TensorLoad {
    /// Number of the instruction.
    pub at: u32,
    /// Coordinates of the box in its tensor.
    pub coordinates: [i32; 5],
    pub swizzle: Swizzle,
    /// Number of rows of the box, and number of chunks per row.
    pub rows: u32,
    pub columns: u32,
    /// Number of elements per chunk.
    pub elements: u32,
}

/// The origin of a chunk: the number of the load, and the row and column of its box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkOrigin {
    pub load: u32,
    pub row: u32,
    pub column: u32,
}

#[derive(Debug, Default)]
pub struct ChunkOrigins {
    loads: Vec<TensorLoad>,
    chunks: Vec<ChunkOrigin>,
}

impl ChunkOrigins {
    pub fn clear(&mut self) {
        self.loads.clear();
        self.chunks.clear();
    }

    /// Records a load and returns its number.
    pub fn load(&mut self, load: TensorLoad) -> u32 {
        self.loads.push(load);
        self.loads.len() as u32 - 1
    }

    pub fn tensor_load(&self, number: u32) -> Option<&TensorLoad> {
        self.loads.get(number as usize)
    }

    /// Records that a chunk was written by a copy.
    pub fn put(&mut self, address: u32, origin: ChunkOrigin) {
        let chunk = (address / 16) as usize;
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, ChunkOrigin { load: u32::MAX, row: 0, column: 0 });
        }
        self.chunks[chunk] = origin;
    }

    pub fn at(&self, address: u32) -> Option<ChunkOrigin> {
        self.chunks.get((address / 16) as usize).copied().filter(|o| o.load != u32::MAX)
    }
}

/// Two chunks that are adjacent in an operand but were not adjacent in the boxes they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first wrong position: line and chunk of the operand.
    pub line: u32,
    pub chunk: u32,
    /// True if the predecessor is the previous chunk of the line; false if it is the same chunk of the previous line.
    pub along: bool,
    pub before: ChunkOrigin,
    pub found: ChunkOrigin,
}

impl ChunkOrigins {
    /// Checks the chunks of an operand, which has `width` chunks per line. `copied` tells whether the chunk at an address
    /// came from a copy.
    pub fn walk(&self, addresses: &[u32], width: usize, copied: impl Fn(u32) -> bool) -> Option<Fault> {
        if self.is_plain(addresses, width, &copied) {
            return None;
        }
        let origin = |at: u32| self.at(at).filter(|_| copied(at));
        let mut above: Vec<Option<ChunkOrigin>> = vec![None; width];
        for (line, addresses) in addresses.chunks_exact(width).enumerate() {
            let mut left: Option<ChunkOrigin> = None;
            for (chunk, (at, above)) in addresses.iter().zip(&mut above).enumerate() {
                let here = origin(*at);
                let up = std::mem::replace(above, here);
                if let Some(found) = here {
                    let fault = |along, before| {
                        Some(Fault { line: line as u32, chunk: chunk as u32, along, before, found })
                    };
                    if let Some(before) = left
                        && !self.follows_along(before, found)
                    {
                        return fault(true, before);
                    }
                    if let Some(before) = up
                        && !self.follows_below(before, found)
                    {
                        return fault(false, before);
                    }
                }
                left = here;
            }
        }
        None
    }

    /// The usual operand: every chunk came from a copy, and every line is a part of one row of a box. Then only the first
    /// chunks of lines must follow each other. False means that the operand needs the full check.
    fn is_plain(&self, addresses: &[u32], width: usize, copied: impl Fn(u32) -> bool) -> bool {
        let mut above: Option<ChunkOrigin> = None;
        for line in addresses.chunks_exact(width) {
            let Some(here) = line.first().and_then(|at| self.at(*at)) else { return false };
            for (column, at) in (here.column..).zip(line) {
                let expected = ChunkOrigin { column, ..here };
                if self.chunks.get((at / 16) as usize) != Some(&expected) || !copied(*at) {
                    return false;
                }
            }
            if above.is_some_and(|before| !self.follows_below(before, here)) {
                return false;
            }
            above = Some(here);
        }
        true
    }

    /// Whether `next` is the next chunk of the row, in the same box or at the start of the row of another box.
    fn follows_along(&self, before: ChunkOrigin, next: ChunkOrigin) -> bool {
        let last = || self.tensor_load(before.load).is_some_and(|l| before.column + 1 == l.columns);
        before.row == next.row
            && if before.load == next.load {
                before.column + 1 == next.column
            } else {
                next.column == 0 && last()
            }
    }

    /// Whether `next` is the same column of the next row, in the same box or at the start of another box.
    fn follows_below(&self, before: ChunkOrigin, next: ChunkOrigin) -> bool {
        let last = || self.tensor_load(before.load).is_some_and(|l| before.row + 1 == l.rows);
        before.column == next.column
            && if before.load == next.load { before.row + 1 == next.row } else { next.row == 0 && last() }
    }

    /// Returns where an operand begins along k, in its tensor and in its box. `along`: k runs along rows.
    pub fn depth(&self, first: ChunkOrigin, along: bool) -> Option<(i64, i64)> {
        let load = self.tensor_load(first.load)?;
        let inside = i64::from(if along { first.column * load.elements } else { first.row });
        let start = i64::from(load.coordinates[usize::from(!along)]);
        Some((start + inside, inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins() -> ChunkOrigins {
        let mut origins = ChunkOrigins::default();
        let load = TensorLoad {
            at: 0,
            coordinates: [64, 0, 0, 0, 0],
            swizzle: Swizzle::None,
            rows: 16,
            columns: 2,
            elements: 8,
        };
        for number in 0..2 {
            let load = origins.load(TensorLoad { coordinates: [64, 16 * number, 0, 0, 0], ..load });
            for row in 0..16 {
                for column in 0..2 {
                    origins.put(load * 512 + row * 32 + column * 16, ChunkOrigin { load, row, column });
                }
            }
        }
        origins
    }

    #[test]
    fn rows_may_go_on_in_another_box_but_not_out_of_order() {
        let origins = origins();
        let walk = |lines: u32, address: &dyn Fn(u32, u32) -> u32, copied: &dyn Fn(u32) -> bool| {
            let addresses: Vec<u32> =
                (0..lines).flat_map(|line| [0, 1].map(|chunk| address(line, chunk))).collect();
            origins.walk(&addresses, 2, copied)
        };
        assert_eq!(walk(32, &|line, chunk| line * 32 + chunk * 16, &|_| true), None);
        let skips = |line: u32, chunk| line / 8 * 512 + line % 8 * 32 + chunk * 16;
        let fault = walk(16, &skips, &|_| true).unwrap();
        assert_eq!((fault.line, fault.chunk, fault.along), (8, 0, false));
        assert!(walk(8, &|line, chunk| line * 32 + (chunk ^ 1) * 16, &|_| true).unwrap().along);
        // Chunks that threads wrote are ignored.
        assert_eq!(walk(16, &skips, &|at| at < 512), None);
        assert_eq!(origins.depth(ChunkOrigin { load: 1, row: 3, column: 1 }, true), Some((72, 8)));
        assert_eq!(origins.depth(ChunkOrigin { load: 1, row: 3, column: 1 }, false), Some((19, 3)));
    }
}
