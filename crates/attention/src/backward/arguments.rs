//! The parameter of every kernel of the backward pass: `attention::BackwardArguments` of
//! `kernels/attention/common/backward.cuh`, field by field.

use crate::arguments::{Arguments, Strides};
use crate::problem::Problem;
use crate::tensor::Layout;

/// The fields of the parameter. In `forward`, O and LSE are inputs.
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
