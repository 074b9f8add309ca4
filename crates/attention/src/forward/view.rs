//! A tensor in the memory of a device, as its address, shape and strides.

use super::error::{ForwardError, wrong};
use crate::problem::Dtype;
use crate::tensor::{Layout, Shape, Strides};

/// Rows must start on this boundary, in bytes: kernels copy 16 bytes at a time.
const ALIGNMENT: u64 = 16;

/// A tensor `[batch, heads, seq, head_dim]` in the memory of a device, in any order that keeps the elements of a row
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The address of the first element.
    pub address: u64,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The extents.
    pub shape: Shape,
    /// Distances in elements.
    pub strides: Strides,
}

impl View {
    /// A contiguous tensor whose heads follow one another: `[batch, heads, seq, head_dim]`.
    pub fn bhsd(address: u64, dtype: Dtype, [batch, heads, seq, head_dim]: [usize; 4]) -> Self {
        let shape = Shape { batch, heads, seq, head_dim };
        View { address, dtype, shape, strides: Layout::Bhsd.strides(shape) }
    }

    /// A contiguous tensor whose positions follow one another: `[batch, seq, heads, head_dim]`.
    pub fn bshd(address: u64, dtype: Dtype, [batch, seq, heads, head_dim]: [usize; 4]) -> Self {
        let shape = Shape { batch, heads, seq, head_dim };
        View { address, dtype, shape, strides: Layout::Bshd.strides(shape) }
    }

    /// The strides, with those that no element needs replaced by valid ones.
    pub(super) fn used_strides(&self) -> Strides {
        let Shape { batch, heads, seq, head_dim } = self.shape;
        let used = |extent: usize, stride: usize| if extent > 1 { stride } else { head_dim };
        Strides {
            batch: used(batch, self.strides.batch),
            head: used(heads, self.strides.head),
            sequence: used(seq, self.strides.sequence),
        }
    }

    /// Whether the tensor has no elements.
    pub(super) fn is_empty(&self) -> bool {
        self.shape.elements() == 0
    }

    /// The addresses from the first byte to the end of the last element.
    fn span(&self) -> (u128, u128) {
        let start = u128::from(self.address);
        if self.is_empty() {
            return (start, start);
        }
        let Shape { batch, heads, seq, head_dim } = self.shape;
        let Strides { batch: by_batch, head, sequence } = self.strides;
        let steps = [(batch, by_batch), (heads, head), (seq, sequence)];
        let last: u128 = steps.iter().map(|&(extent, stride)| (extent - 1) as u128 * stride as u128).sum();
        (start, start + (last + head_dim as u128) * self.dtype.bytes() as u128)
    }

    /// Whether two tensors may have common bytes.
    pub(super) fn overlaps(&self, other: &View) -> bool {
        let ((start, end), (other_start, other_end)) = (self.span(), other.span());
        start < other_end && other_start < end
    }

    /// Refuses a tensor that kernels cannot read or write.
    pub(super) fn check(&self, argument: &'static str) -> Result<(), ForwardError> {
        if self.is_empty() {
            return Ok(());
        }
        let Shape { batch, heads, seq, .. } = self.shape;
        if self.address == 0 {
            return Err(wrong(argument, "the address is 0"));
        }
        if !self.address.is_multiple_of(ALIGNMENT) {
            return Err(wrong(argument, format!("the address must be a multiple of {ALIGNMENT} bytes")));
        }
        let element = self.dtype.bytes() as u64;
        let used = self.used_strides();
        let axes =
            [("batch", batch, used.batch), ("heads", heads, used.head), ("sequence", seq, used.sequence)];
        for (axis, _, stride) in axes.into_iter().filter(|(_, extent, _)| *extent > 1) {
            if stride == 0 {
                return Err(wrong(argument, format!("the stride of {axis} is 0; copy the tensor first")));
            }
            if !(stride as u64 * element).is_multiple_of(ALIGNMENT) {
                let wanted = ALIGNMENT / element;
                let reason =
                    format!("the stride of {axis} is {stride}, but must be a multiple of {wanted} elements");
                return Err(wrong(argument, reason));
            }
            if u32::try_from(stride).is_err() {
                return Err(wrong(
                    argument,
                    format!("the stride of {axis} is {stride}, but must be below 2^32"),
                ));
            }
        }
        Ok(())
    }

    /// Refuses an output whose elements overlap.
    pub(super) fn check_distinct(&self, argument: &'static str) -> Result<(), ForwardError> {
        let Shape { batch, heads, seq, head_dim } = self.shape;
        let Strides { batch: by_batch, head, sequence } = self.used_strides();
        let mut axes = [(by_batch, batch), (head, heads), (sequence, seq)];
        axes.sort_unstable();
        let mut reached = head_dim as u128;
        for (stride, extent) in axes.into_iter().filter(|(_, extent)| *extent > 1) {
            if (stride as u128) < reached {
                return Err(wrong(argument, "its elements overlap, so it cannot be an output"));
            }
            reached += stride as u128 * (extent - 1) as u128;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 4] = [2, 3, 5, 64];

    fn reason(view: View) -> String {
        view.check("q").map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn rows_must_be_aligned() {
        let view = View::bhsd(256, Dtype::Fp16, SIZES);
        assert_eq!(reason(view), "");
        assert_eq!(reason(View { address: 264, ..view }), "q: the address must be a multiple of 16 bytes");
        assert_eq!(reason(View { address: 0, ..view }), "q: the address is 0");
        let strides = Strides { head: 68, ..view.strides };
        assert_eq!(
            reason(View { strides, ..view }),
            "q: the stride of heads is 68, but must be a multiple of 8 elements"
        );
        let strides = Strides { batch: 0, ..view.strides };
        assert_eq!(reason(View { strides, ..view }), "q: the stride of batch is 0; copy the tensor first");
    }

    #[test]
    fn strides_of_extent_one_and_of_empty_tensors_do_not_matter() {
        let view = View::bhsd(256, Dtype::Fp16, [1, 3, 5, 64]);
        assert_eq!(reason(View { strides: Strides { batch: 3, ..view.strides }, ..view }), "");
        assert_eq!(reason(View::bhsd(0, Dtype::Fp16, [0, 3, 5, 64])), "");
    }

    #[test]
    fn overlaps_are_found() {
        let view = View::bshd(256, Dtype::Fp16, SIZES);
        let bytes = 2 * 2 * 3 * 5 * 64;
        assert!(view.overlaps(&View { address: 256 + bytes - 16, ..view }));
        assert!(!view.overlaps(&View { address: 256 + bytes, ..view }));
        assert!(view.check_distinct("o").is_ok());
        let strides = Strides { sequence: 64, ..view.strides };
        assert!(View { strides, ..view }.check_distinct("o").is_err());
    }
}
