//! Im2col: copies of columns of pixels instead of boxes (`cuTensorMapEncodeIm2col`).
//!
//! Dimension 0 of the tensor is the channels, the last one is the images, and those between are the pixels of an image:
//! width, height, depth. A copy starts at one pixel and takes as many pixels as a column has. It walks through a bounding
//! box, along the width first, then the height and so on, and from image to image. Its offsets, which all pixels of a
//! copy share, are added to the place of each pixel. A kernel that slides a filter over an image gives each position of
//! the filter as offsets.

use serde::{Deserialize, Serialize};

use super::{MAX_RANK, TensorMap, TensorMapError, broken};

/// Maximum number of pixels of a column.
const MAX_PIXELS: u32 = 1024;

/// The bounding box of the pixels of an image, and the size of a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Im2col {
    /// For each dimension of an image, innermost first: the first pixel of the bounding box. It may be negative.
    pub lower: Vec<i32>,
    /// The last pixel of the bounding box, counted from the last pixel of the image. It may be negative.
    pub upper: Vec<i32>,
    /// Number of pixels that one copy moves.
    pub pixels: u32,
}

impl Im2col {
    /// Number of bits of a corner and of an offset in a tensor of this many dimensions.
    pub fn bits(rank: usize) -> u32 {
        match rank {
            3 => 16,
            4 => 8,
            _ => 5,
        }
    }

    /// Checks the rules of `cuTensorMapEncodeIm2col` that tiled maps do not have.
    pub(super) fn check(&self, map: &TensorMap) -> Result<(), TensorMapError> {
        let rank = map.rank();
        if !(3..=MAX_RANK).contains(&rank) {
            return broken(format!("an im2col tensor has 3 to {MAX_RANK} dimensions, this one has {rank}"));
        }
        if self.lower.len() != rank - 2 || self.upper.len() != rank - 2 {
            return broken(format!("the corners of the bounding box have {} coordinates each", rank - 2));
        }
        if self.pixels == 0 || self.pixels > MAX_PIXELS {
            return broken(format!("a column has {} pixels, 1 to {MAX_PIXELS} are allowed", self.pixels));
        }
        let bound = 1 << (Im2col::bits(rank) - 1);
        for corner in self.lower.iter().chain(&self.upper) {
            if !(-bound..bound).contains(corner) {
                return broken(format!(
                    "a corner of the bounding box has the coordinate {corner}; with {rank} dimensions {} to {} are \
                     allowed",
                    -bound,
                    bound - 1
                ));
            }
        }
        for dim in 1..rank - 1 {
            if self.last(map, dim) < i64::from(self.lower[dim - 1]) {
                return broken(format!("the bounding box has no pixels in dimension {dim}"));
            }
        }
        if map.box_dims[1..].iter().any(|extent| *extent != 1) {
            return broken("an im2col map has channels and pixels instead of a box");
        }
        Ok(())
    }

    /// The last pixel of the bounding box in a dimension.
    fn last(&self, map: &TensorMap, dim: usize) -> i64 {
        map.dims[dim] as i64 - 1 + i64::from(self.upper[dim - 1])
    }

    /// The place of pixel `number` of a copy that starts at a pixel, without offsets: for each dimension except the
    /// channels. The image of a pixel behind the last one is out of range.
    pub(super) fn pixel(&self, map: &TensorMap, start: &[i32; MAX_RANK], number: u32) -> [i64; MAX_RANK] {
        let mut place = start.map(i64::from);
        let mut left = i64::from(number);
        for dim in 1..map.rank() - 1 {
            let (first, last) = (i64::from(self.lower[dim - 1]), self.last(map, dim));
            let step = i64::from(map.element_strides[dim]);
            // The pixels of the row in which the walk starts, and of every further row.
            let here = (last - place[dim]).max(0) / step + 1;
            if left < here {
                place[dim] += left * step;
                return place;
            }
            left -= here;
            let row = (last - first) / step + 1;
            place[dim] = first + left % row * step;
            left = left / row + 1;
        }
        place[map.rank() - 1] += left;
        place
    }
}
