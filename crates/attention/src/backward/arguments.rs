//! The parameter of every kernel of the backward pass: `attention::BackwardArguments` of
//! `kernels/attention/common/backward.cuh`, field by field.

use crate::arguments::{Arguments, Strides};
use crate::problem::Problem;
use crate::tensor::Layout;

/// The fields of the parameter. In `forward`, O and LSE are inputs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackwardArguments {
    /// Sizes, mask, and the tensors of the forward pass.
    pub forward: Arguments,
    /// Address of the gradient of O: `[batch, heads, seq_q, head_dim]`.
    pub d_o: u64,
    /// Address of the gradient of Q: `[batch, heads, seq_q, head_dim]`.
    pub dq: u64,
    /// Address of the gradient of K: `[batch, kv_heads, seq_k, head_dim]`.
    pub dk: u64,
    /// Address of the gradient of V: `[batch, kv_heads, seq_k, head_dim]`.
    pub dv: u64,
    /// Strides of the gradient of O.
    pub d_o_strides: Strides,
    /// Strides of the gradient of Q.
    pub dq_strides: Strides,
    /// Strides of the gradient of K.
    pub dk_strides: Strides,
    /// Strides of the gradient of V.
    pub dv_strides: Strides,
}

impl BackwardArguments {
    /// The arguments of a problem whose tensors all have this layout, without addresses.
    pub fn for_problem(problem: &Problem, layout: Layout) -> Self {
        let forward = Arguments::for_problem(problem, layout);
        BackwardArguments {
            forward,
            d_o_strides: forward.q_strides,
            dq_strides: forward.q_strides,
            dk_strides: forward.k_strides,
            dv_strides: forward.k_strides,
            ..BackwardArguments::default()
        }
    }

    /// The bytes of the parameter: the fields in order, little-endian, without padding.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.forward.bytes();
        for address in [self.d_o, self.dq, self.dk, self.dv] {
            bytes.extend_from_slice(&address.to_le_bytes());
        }
        for strides in [self.d_o_strides, self.dq_strides, self.dk_strides, self.dv_strides] {
            for stride in [strides.batch, strides.head, strides.sequence] {
                bytes.extend_from_slice(&stride.to_le_bytes());
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::arguments::tests::table;

    const SOURCE: &str = include_str!("../../../../kernels/attention/common/backward.cuh");

    #[test]
    fn every_field_of_the_backward_pass_has_the_offset_that_kernels_use() {
        macro_rules! offsets {
            ($($field:ident)*) => { vec![$((stringify!($field), offset_of!(BackwardArguments, $field))),*] };
        }
        let ours = offsets!(forward d_o dq dk dv d_o_strides dq_strides dk_strides dv_strides);
        let (fields, size) = table(SOURCE, "BackwardArguments");
        assert_eq!(ours, fields);
        assert_eq!((size_of::<BackwardArguments>(), align_of::<BackwardArguments>()), (size, 8));
    }

    #[test]
    fn the_bytes_of_the_backward_pass_match_the_struct() {
        let strides = |first| Strides { batch: first, head: first + 1, sequence: first + 2 };
        let arguments = BackwardArguments {
            forward: Arguments { q: 9, key_starts: 10, ..Arguments::default() },
            d_o: 1,
            dq: 2,
            dk: 3,
            dv: 4,
            d_o_strides: strides(11),
            dq_strides: strides(14),
            dk_strides: strides(17),
            dv_strides: strides(20),
        };
        let bytes = arguments.bytes();
        let word =
            |offset: usize| u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"));
        assert_eq!(bytes.len(), size_of::<BackwardArguments>());
        assert_eq!(word(offset_of!(BackwardArguments, forward) + offset_of!(Arguments, q)), 9);
        for (offset, wanted) in [
            (offset_of!(BackwardArguments, d_o), 1),
            (offset_of!(BackwardArguments, dq), 2),
            (offset_of!(BackwardArguments, dk), 3),
            (offset_of!(BackwardArguments, dv), 4),
            (offset_of!(BackwardArguments, d_o_strides), 11),
            (offset_of!(BackwardArguments, dq_strides), 14),
            (offset_of!(BackwardArguments, dk_strides) + 4, 18),
            (offset_of!(BackwardArguments, dv_strides) + 8, 22),
        ] {
            assert_eq!(word(offset), wanted, "at {offset}");
        }
    }
}
