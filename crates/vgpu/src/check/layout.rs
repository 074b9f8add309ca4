//! Where the chunks of shared memory came from.
//!
//! A tensor copy lays a box out in shared memory, swizzled or not; a wgmma descriptor says how its operand lies there. The
//! two must agree, whatever the values. So every chunk of 16 bytes remembers the row and column of the box it came from.
//! Chunks that threads have written since do not count: bit 2 of their state ([`crate::mem::shadow::COPIED`]) is off.

use crate::tensor_map::Swizzle;

/// A tensor copy into shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The instruction.
    pub at: u32,
    /// Coordinates of the box in its tensor.
    pub coordinates: [i32; 5],
    pub swizzle: Swizzle,
    /// Rows of the box, and chunks of a row.
    pub rows: u32,
    pub columns: u32,
    /// Elements of a chunk.
    pub elements: u32,
}

/// Where a chunk came from: the number of the load, row and column of the box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub load: u32,
    pub row: u32,
    pub column: u32,
}

#[derive(Debug, Default)]
pub struct Origins {
    loads: Vec<Load>,
    chunks: Vec<Origin>,
}

impl Origins {
    pub fn clear(&mut self) {
        self.loads.clear();
        self.chunks.clear();
    }

    /// Enters a load, whose number is returned.
    pub fn load(&mut self, load: Load) -> u32 {
        self.loads.push(load);
        self.loads.len() as u32 - 1
    }

    pub fn of_load(&self, number: u32) -> Option<&Load> {
        self.loads.get(number as usize)
    }

    /// A chunk has landed.
    pub fn put(&mut self, address: u32, origin: Origin) {
        let chunk = (address / 16) as usize;
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, Origin { load: u32::MAX, row: 0, column: 0 });
        }
        self.chunks[chunk] = origin;
    }

    pub fn at(&self, address: u32) -> Option<Origin> {
        self.chunks.get((address / 16) as usize).copied().filter(|o| o.load != u32::MAX)
    }
}

/// Two chunks that follow one another in an operand but did not in the boxes they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first place: line and chunk of the operand.
    pub line: u32,
    pub chunk: u32,
    /// Whether it follows the chunk before it in its line, or the same chunk of the line before.
    pub along: bool,
    pub before: Origin,
    pub found: Origin,
}

impl Origins {
    /// Walks an operand. `address` of a line and chunk is `None` where a chunk did not come from a copy.
    pub fn walk(
        &self,
        lines: std::ops::Range<u32>,
        chunks: u32,
        address: impl Fn(u32, u32) -> Option<u32>,
    ) -> Option<Fault> {
        let mut above: Vec<Option<Origin>> = vec![None; chunks as usize];
        for line in lines {
            let mut left: Option<Origin> = None;
            for chunk in 0..chunks {
                let here = address(line, chunk).and_then(|at| self.at(at));
                let up = std::mem::replace(&mut above[chunk as usize], here);
                if let Some(found) = here {
                    if let Some(before) = left
                        && !self.follows_along(before, found)
                    {
                        return Some(Fault { line, chunk, along: true, before, found });
                    }
                    if let Some(before) = up
                        && !self.follows_below(before, found)
                    {
                        return Some(Fault { line, chunk, along: false, before, found });
                    }
                }
                left = here;
            }
        }
        None
    }

    /// The next chunk of the row, in the same box or at the start of another one's row.
    fn follows_along(&self, before: Origin, next: Origin) -> bool {
        let last = self.of_load(before.load).is_some_and(|l| before.column + 1 == l.columns);
        before.row == next.row
            && if before.load == next.load {
                before.column + 1 == next.column
            } else {
                last && next.column == 0
            }
    }

    /// The same column of the next row, in the same box or at the start of another one.
    fn follows_below(&self, before: Origin, next: Origin) -> bool {
        let last = self.of_load(before.load).is_some_and(|l| before.row + 1 == l.rows);
        before.column == next.column
            && if before.load == next.load { before.row + 1 == next.row } else { last && next.row == 0 }
    }

    /// Where an operand begins along k, in its tensor and in its box. `along`: k runs along rows.
    pub fn depth(&self, first: Origin, along: bool) -> Option<(i64, i64)> {
        let load = self.of_load(first.load)?;
        let inside = i64::from(if along { first.column * load.elements } else { first.row });
        let start = i64::from(load.coordinates[usize::from(!along)]);
        Some((start + inside, inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins() -> Origins {
        let mut origins = Origins::default();
        let load = Load {
            at: 0,
            coordinates: [64, 0, 0, 0, 0],
            swizzle: Swizzle::None,
            rows: 16,
            columns: 2,
            elements: 8,
        };
        for number in 0..2 {
            let load = origins.load(Load { coordinates: [64, 16 * number, 0, 0, 0], ..load });
            for row in 0..16 {
                for column in 0..2 {
                    origins.put(load * 512 + row * 32 + column * 16, Origin { load, row, column });
                }
            }
        }
        origins
    }

    #[test]
    fn rows_may_go_on_in_another_box_but_not_out_of_order() {
        let origins = origins();
        let packed = |line, chunk| Some(line * 32 + chunk * 16);
        assert_eq!(origins.walk(0..32, 2, packed), None);
        let skips = |line: u32, chunk| Some(line / 8 * 512 + line % 8 * 32 + chunk * 16);
        let fault = origins.walk(0..16, 2, skips).unwrap();
        assert_eq!((fault.line, fault.chunk, fault.along), (8, 0, false));
        let turned = |line, chunk: u32| Some(line * 32 + (chunk ^ 1) * 16);
        assert!(origins.walk(0..8, 2, turned).unwrap().along);
        // Chunks that threads wrote say nothing.
        assert_eq!(origins.walk(0..16, 2, |line, chunk| skips(line, chunk).filter(|_| line < 8)), None);
        assert_eq!(origins.depth(Origin { load: 1, row: 3, column: 1 }, true), Some((72, 8)));
        assert_eq!(origins.depth(Origin { load: 1, row: 3, column: 1 }, false), Some((19, 3)));
    }
}
