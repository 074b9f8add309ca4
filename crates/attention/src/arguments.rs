//! The one parameter of every attention kernel: `attention::Arguments` of `kernels/attention/common/arguments.cuh`,
//! field by field. A test holds it against the table of offsets in that file.

use crate::problem::{Mask, Problem};
use crate::tensor::{self, Layout};

/// Distances in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strides {
    pub batch: i64,
    pub head: i64,
    pub sequence: i64,
}

impl From<tensor::Strides> for Strides {
    fn from(strides: tensor::Strides) -> Self {
        let tensor::Strides { batch, head, sequence } = strides;
        Strides { batch: batch as i64, head: head as i64, sequence: sequence as i64 }
    }
}

/// Pointers are device addresses; 0 is null, which some may be.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arguments {
    pub q: u64,
    pub k: u64,
    pub v: u64,
    pub o: u64,
    pub lse: u64,
    pub q_scale: u64,
    pub k_scale: u64,
    pub v_scale: u64,
    pub workspace: u64,
    pub q_strides: Strides,
    pub k_strides: Strides,
    pub v_strides: Strides,
    pub o_strides: Strides,
    pub batch: i32,
    pub heads: i32,
    pub kv_heads: i32,
    pub seq_q: i32,
    pub seq_k: i32,
    /// 0: none; 1: causal, with `diagonal`.
    pub mask: i32,
    pub diagonal: i32,
    pub softmax_scale: f32,
}

impl Arguments {
    /// Everything but the addresses.
    pub fn of(problem: &Problem, layout: Layout) -> Self {
        let queries: Strides = layout.strides(problem.query_shape()).into();
        let keys: Strides = layout.strides(problem.key_shape()).into();
        Arguments {
            q_strides: queries,
            k_strides: keys,
            v_strides: keys,
            o_strides: queries,
            batch: problem.batch as i32,
            heads: problem.heads as i32,
            kv_heads: problem.kv_heads as i32,
            seq_q: problem.seq_q as i32,
            seq_k: problem.seq_k as i32,
            mask: i32::from(problem.mask != Mask::None),
            diagonal: problem.diagonal() as i32,
            softmax_scale: problem.softmax_scale(),
            ..Arguments::default()
        }
    }

    /// The bytes a kernel is given: the fields in order, little-endian, nothing between them.
    pub fn bytes(&self) -> Vec<u8> {
        let pointers = [
            self.q,
            self.k,
            self.v,
            self.o,
            self.lse,
            self.q_scale,
            self.k_scale,
            self.v_scale,
            self.workspace,
        ];
        let strides = [self.q_strides, self.k_strides, self.v_strides, self.o_strides];
        let sizes = [self.batch, self.heads, self.kv_heads, self.seq_q, self.seq_k, self.mask, self.diagonal];
        let mut bytes = Vec::with_capacity(size_of::<Self>());
        bytes.extend(pointers.iter().flat_map(|address| address.to_le_bytes()));
        for Strides { batch, head, sequence } in strides {
            bytes.extend([batch, head, sequence].iter().flat_map(|stride| stride.to_le_bytes()));
        }
        bytes.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        bytes.extend(self.softmax_scale.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::problem::Dtype;

    const SOURCE: &str = include_str!("../../../kernels/attention/common/arguments.cuh");

    /// (field, offset) of the struct's lines, as in `const void* q;  //   0  ...`, and the size after its end.
    fn table() -> (Vec<(&'static str, usize)>, usize) {
        let body = SOURCE.split_once("struct Arguments {").expect("the struct").1;
        let (body, after) = body.split_once("};").expect("its end");
        let fields = body.lines().filter(|line| !line.trim().is_empty()).map(|line| {
            let (declaration, comment) = line.split_once(';').expect("a declaration");
            let name = declaration.split_whitespace().next_back().expect("a name");
            let offset = comment.split_whitespace().nth(1).expect("an offset after the slashes");
            (name, offset.parse().expect("a number"))
        });
        let size = after.split_whitespace().nth(1).expect("`// 200 bytes`").parse().expect("a number");
        (fields.collect(), size)
    }

    #[test]
    fn every_field_is_where_the_kernels_read_it() {
        macro_rules! offsets {
            ($($field:ident)*) => { vec![$((stringify!($field), offset_of!(Arguments, $field))),*] };
        }
        let ours = offsets!(
            q k v o lse q_scale k_scale v_scale workspace q_strides k_strides v_strides o_strides
            batch heads kv_heads seq_q seq_k mask diagonal softmax_scale
        );
        let (fields, size) = table();
        assert_eq!(ours, fields);
        assert_eq!((size_of::<Arguments>(), align_of::<Arguments>()), (size, 8));
    }

    #[test]
    fn bytes_are_the_struct() {
        let strides = |first| Strides { batch: first, head: first + 1, sequence: first + 2 };
        let arguments = Arguments {
            q: 1,
            k: 2,
            v: 3,
            o: 4,
            lse: 5,
            q_scale: 6,
            k_scale: 7,
            v_scale: 8,
            workspace: 9,
            q_strides: strides(10),
            k_strides: strides(13),
            v_strides: strides(16),
            o_strides: strides(19),
            batch: 22,
            heads: 23,
            kv_heads: 24,
            seq_q: 25,
            seq_k: 26,
            mask: 27,
            diagonal: -28,
            softmax_scale: 0.125,
        };
        let bytes = arguments.bytes();
        let (longs, ints) = bytes.split_at(168);
        let longs: Vec<u64> = longs.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect();
        let ints: Vec<i32> = ints.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect();
        assert_eq!(longs, (1..22).collect::<Vec<u64>>());
        assert_eq!(ints, [22, 23, 24, 25, 26, 27, -28, 0.125_f32.to_bits() as i32]);
        assert_eq!(bytes.len(), size_of::<Arguments>());
    }

    #[test]
    fn a_problem_fills_sizes_and_strides() {
        let problem: Problem = "b2h8kv2sq17sk129d64-causal-bf16".parse().expect("a right name");
        let arguments = Arguments::of(&problem, Layout::Bshd);
        assert_eq!((arguments.mask, arguments.diagonal), (1, 112));
        assert_eq!(arguments.k_strides, Strides { batch: 129 * 2 * 64, head: 64, sequence: 128 });
        assert_eq!(arguments.o_strides, Strides { batch: 17 * 8 * 64, head: 64, sequence: 512 });
        let top_left = Problem { mask: Mask::CausalTopLeft, dtype: Dtype::Fp16, ..problem };
        assert_eq!(Arguments::of(&top_left, Layout::Bhsd).diagonal, 0);
    }
}
