//! The only parameter of every attention kernel: `attention::Arguments` of `kernels/attention/common/arguments.cuh`,
//! field by field. A test compares it with the table of offsets in that file.

use crate::inputs::pages_of_sequence;
use crate::problem::{Mask, Problem, Serving};
use crate::tensor::{self, Layout, Shape};

/// Distances in elements. They fit 32 bits, because [`crate::problem::MAX_ENTRY_ELEMENTS`] limits the problem.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strides {
    /// From one batch entry to the next.
    pub batch: u32,
    /// From one head to the next.
    pub head: u32,
    /// From one sequence position to the next.
    pub sequence: u32,
}

impl From<tensor::Strides> for Strides {
    fn from(strides: tensor::Strides) -> Self {
        let tensor::Strides { batch, head, sequence } = strides;
        Strides { batch: batch as u32, head: head as u32, sequence: sequence as u32 }
    }
}

/// The fields of the parameter. Pointers are device addresses; some may be 0 (null).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arguments {
    /// 2^32 divided by the number of query heads per KV head, rounded up; 0 if each KV head has one query head.
    pub kv_head_factor: u32,
    /// Number of queries per head.
    pub seq_q: i32,
    /// Number of keys per head.
    pub seq_k: i32,
    /// Factor of the scores before the softmax.
    pub softmax_scale: f32,
    /// 0: no mask; 1: causal, with `diagonal`.
    pub mask: i32,
    /// With a causal mask, query i sees key j if `j <= i + diagonal`. It may be negative.
    pub diagonal: i32,
    /// Address of Q: `[batch, heads, seq_q, head_dim]`.
    pub q: u64,
    /// Address of K: `[batch, kv_heads, seq_k, head_dim]`.
    pub k: u64,
    /// Address of V: `[batch, kv_heads, seq_k, head_dim]`.
    pub v: u64,
    /// Address of the output O: `[batch, heads, seq_q, head_dim]`.
    pub o: u64,
    /// Strides of Q.
    pub q_strides: Strides,
    /// Strides of K.
    pub k_strides: Strides,
    /// Strides of V.
    pub v_strides: Strides,
    /// Strides of O.
    pub o_strides: Strides,
    /// Number of batch entries.
    pub batch: i32,
    /// Number of query heads, a multiple of `kv_heads`.
    pub heads: i32,
    /// Address of the log-sum-exp of each row, fp32 `[batch, heads, seq_q]`; 0 if it is not wanted.
    pub lse: u64,
    /// Address of the FP8 scales of Q, fp32 `[batch, heads]`; 0 if every scale is 1.
    pub q_scale: u64,
    /// Address of the FP8 scales of K, fp32 `[batch, kv_heads]`; 0 if every scale is 1.
    pub k_scale: u64,
    /// Address of the FP8 scales of V, fp32 `[batch, kv_heads]`; 0 if every scale is 1.
    pub v_scale: u64,
    /// Address of the workspace that the manifest declares; 0 if it declares none.
    pub workspace: u64,
    /// Number of key/value heads.
    pub kv_heads: i32,
    /// 1 if the FP8 scales are per block: `[batch, heads, blocks]`. Only kernels with the knob `BLOCK_SCALES` read it.
    pub block_scales: i32,
    /// Address of the numbers of keys of the sequences, int32 `[batch]`; 0 if all have `seq_k`.
    pub key_lengths: u64,
    /// Address of the pages of the sequences, int32 `[batch, pages_of_sequence]`; 0 if K and V are not in pages.
    pub page_table: u64,
    /// Address of the sinks, fp32 `[heads]`; 0 if there are none.
    pub sinks: u64,
    /// Keys of a page. K and V are `[pages, kv_heads, page_size, head_dim]`.
    pub page_size: i32,
    /// Entries of a sequence in the table of pages.
    pub pages_of_sequence: i32,
    /// Number of keys before its own position that a query sees; -1: all.
    pub window_left: i32,
    /// Number of keys after its own position; -1: all that the mask allows.
    pub window_right: i32,
    /// 1: the positions count from the last key: for a sequence of n keys the diagonal is `diagonal - (seq_k - n)`.
    pub from_last_key: i32,
    /// Score s becomes `softcap * tanh(s / softcap)`; 0: it does not.
    pub softcap: f32,
    /// Address of the first query of each sequence and the end of the last, int32 `[batch + 1]`: the sequences of Q and O
    /// follow one another; 0 if each has its own batch entry.
    pub query_starts: u64,
    /// The same for K and V.
    pub key_starts: u64,
}

/// The factor that maps a query head to its KV head, times 2^32; 0 if they are equal. It is exact for up to
/// [`crate::problem::MAX_HEADS`] heads.
fn kv_head_factor(heads: usize, kv_heads: usize) -> u32 {
    let shared_by = (heads / kv_heads.max(1)).max(1) as u64;
    if shared_by == 1 { 0 } else { (1_u64 << 32).div_ceil(shared_by) as u32 }
}

impl Arguments {
    /// The arguments of a problem, without addresses.
    pub fn for_problem(problem: &Problem, layout: Layout) -> Self {
        Arguments::for_cache(problem, layout, problem.key_shape())
    }

    /// The same for K and V of another shape ([`crate::inputs::ServingInputs::cache_shape`]).
    pub fn for_cache(problem: &Problem, layout: Layout, cache: Shape) -> Self {
        let queries: Strides = layout.strides(problem.stored_query_shape()).into();
        let keys: Strides = layout.strides(cache).into();
        let Serving { page_size, window, softcap, .. } = problem.serving;
        let page_size = page_size.unwrap_or(0) as usize;
        let (left, right) = window.map_or((None, None), |window| (Some(window.left), window.right));
        let seen = |keys: Option<u32>| keys.map_or(-1, |keys| keys as i32);
        Arguments {
            kv_head_factor: kv_head_factor(problem.heads, problem.kv_heads),
            seq_q: problem.seq_q as i32,
            seq_k: problem.seq_k as i32,
            softmax_scale: problem.softmax_scale(),
            q_strides: queries,
            k_strides: keys,
            v_strides: keys,
            o_strides: queries,
            mask: i32::from(problem.mask != Mask::None),
            diagonal: problem.diagonal() as i32,
            batch: problem.batch as i32,
            heads: problem.heads as i32,
            kv_heads: problem.kv_heads as i32,
            page_size: page_size as i32,
            pages_of_sequence: if page_size == 0 { 0 } else { pages_of_sequence(problem, page_size) as i32 },
            window_left: seen(left),
            window_right: seen(right),
            from_last_key: i32::from(problem.mask != Mask::CausalTopLeft),
            softcap: softcap.map_or(0.0, |cap| cap as f32),
            ..Arguments::default()
        }
    }

    /// The bytes of the parameter: the fields in order, little-endian, without padding. Every launch needs them, so they
    /// are copied field by field: an iterator over bytes takes several times as long.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of::<Self>());
        let mut put = |field: &[u8]| bytes.extend_from_slice(field);
        put(&self.kv_head_factor.to_le_bytes());
        put(&self.seq_q.to_le_bytes());
        put(&self.seq_k.to_le_bytes());
        put(&self.softmax_scale.to_le_bytes());
        put(&self.mask.to_le_bytes());
        put(&self.diagonal.to_le_bytes());
        for address in [self.q, self.k, self.v, self.o] {
            put(&address.to_le_bytes());
        }
        for strides in [self.q_strides, self.k_strides, self.v_strides, self.o_strides] {
            put(&strides.batch.to_le_bytes());
            put(&strides.head.to_le_bytes());
            put(&strides.sequence.to_le_bytes());
        }
        put(&self.batch.to_le_bytes());
        put(&self.heads.to_le_bytes());
        for address in [self.lse, self.q_scale, self.k_scale, self.v_scale, self.workspace] {
            put(&address.to_le_bytes());
        }
        put(&self.kv_heads.to_le_bytes());
        put(&self.block_scales.to_le_bytes());
        for address in [self.key_lengths, self.page_table, self.sinks] {
            put(&address.to_le_bytes());
        }
        let numbers =
            [self.page_size, self.pages_of_sequence, self.window_left, self.window_right, self.from_last_key];
        for number in numbers {
            put(&number.to_le_bytes());
        }
        put(&self.softcap.to_le_bytes());
        put(&self.query_starts.to_le_bytes());
        put(&self.key_starts.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::problem::Dtype;

    const SOURCE: &str = include_str!("../../../kernels/attention/common/arguments.cuh");

    /// Field names and offsets from the lines of a struct, such as `const void* q;  //   0  ...`, and the size after its
    /// end.
    pub(crate) fn table(source: &'static str, name: &str) -> (Vec<(&'static str, usize)>, usize) {
        let body = source.split_once(&format!("struct {name} {{")).expect("the struct").1;
        let (body, after) = body.split_once("};").expect("its end");
        let fields = body.lines().filter(|line| !line.trim().is_empty()).map(|line| {
            let (declaration, comment) = line.split_once(';').expect("a declaration");
            let name = declaration.split_whitespace().next_back().expect("a name");
            let offset = comment.split_whitespace().nth(1).expect("an offset after the slashes");
            (name, offset.parse().expect("a number"))
        });
        let size = after.split_whitespace().nth(1).expect("`// 160 bytes`").parse().expect("a number");
        (fields.collect(), size)
    }

    #[test]
    fn every_field_has_the_offset_that_kernels_use() {
        macro_rules! offsets {
            ($($field:ident)*) => { vec![$((stringify!($field), offset_of!(Arguments, $field))),*] };
        }
        let ours = offsets!(
            kv_head_factor seq_q seq_k softmax_scale mask diagonal q k v o q_strides k_strides v_strides o_strides
            batch heads lse q_scale k_scale v_scale workspace kv_heads block_scales
            key_lengths page_table sinks page_size pages_of_sequence window_left window_right from_last_key softcap
            query_starts key_starts
        );
        let (fields, size) = table(SOURCE, "Arguments");
        assert_eq!(ours, fields);
        assert_eq!((size_of::<Arguments>(), align_of::<Arguments>()), (size, 8));
    }

    #[test]
    fn the_bytes_match_the_struct() {
        let strides = |first| Strides { batch: first, head: first + 1, sequence: first + 2 };
        let arguments = Arguments {
            q: 1,
            k: 2,
            v: 3,
            o: 4,
            kv_head_factor: 5,
            seq_q: 6,
            seq_k: 7,
            softmax_scale: 0.125,
            q_strides: strides(9),
            k_strides: strides(12),
            v_strides: strides(15),
            o_strides: strides(18),
            mask: 21,
            diagonal: -22,
            batch: 23,
            heads: 24,
            lse: 25,
            q_scale: 26,
            k_scale: 27,
            v_scale: 28,
            workspace: 29,
            kv_heads: 30,
            block_scales: 31,
            key_lengths: 32,
            page_table: 33,
            sinks: 34,
            page_size: 35,
            pages_of_sequence: 36,
            window_left: -37,
            window_right: 38,
            from_last_key: 39,
            softcap: 0.125,
            query_starts: 40,
            key_starts: 41,
        };
        let bytes = arguments.bytes();
        let words = |bytes: &[u8]| -> Vec<i32> {
            bytes.as_chunks().0.iter().map(|&word| i32::from_le_bytes(word)).collect()
        };
        let addresses = |bytes: &[u8]| -> Vec<u64> {
            bytes.as_chunks().0.iter().map(|&address| u64::from_le_bytes(address)).collect()
        };
        let scale = 0.125_f32.to_bits() as i32;
        assert_eq!(words(&bytes[..24]), [5, 6, 7, scale, 21, -22]);
        assert_eq!(addresses(&bytes[24..56]), [1, 2, 3, 4]);
        assert_eq!(words(&bytes[56..104]), (9..21).collect::<Vec<i32>>());
        assert_eq!(words(&bytes[104..112]), [23, 24]);
        assert_eq!(addresses(&bytes[112..152]), [25, 26, 27, 28, 29]);
        assert_eq!(words(&bytes[152..160]), [30, 31]);
        assert_eq!(addresses(&bytes[160..184]), [32, 33, 34]);
        assert_eq!(words(&bytes[184..208]), [35, 36, -37, 38, 39, scale]);
        assert_eq!(addresses(&bytes[208..]), [40, 41]);
        assert_eq!(bytes.len(), size_of::<Arguments>());
    }

    /// Multiplies as `kv_head_of` in arguments.cuh does.
    #[test]
    fn the_factor_gives_the_quotient() {
        for shared_by in (1..=300).chain([1 << 10, 65_535]) {
            let factor = u64::from(kv_head_factor(shared_by * 4, 4));
            for head in (0..2_000).chain([65_534, 65_535]) {
                let quotient = if factor == 0 { head } else { ((head as u64 * factor) >> 32) as usize };
                assert_eq!(quotient, head / shared_by, "{head} / {shared_by}");
            }
        }
    }

    #[test]
    fn the_arguments_contain_sizes_and_strides() {
        let problem: Problem = "b2h8kv2sq17sk129d64-causal-bf16".parse().expect("a valid name");
        let arguments = Arguments::for_problem(&problem, Layout::Bshd);
        assert_eq!((arguments.mask, arguments.diagonal), (1, 112));
        assert_eq!(arguments.k_strides, Strides { batch: 129 * 2 * 64, head: 64, sequence: 128 });
        assert_eq!(arguments.o_strides, Strides { batch: 17 * 8 * 64, head: 64, sequence: 512 });
        let top_left = Problem { mask: Mask::CausalTopLeft, dtype: Dtype::Fp16, ..problem };
        assert_eq!(Arguments::for_problem(&top_left, Layout::Bhsd).diagonal, 0);
        let served: Problem = "b2h8sq1sk129d64-page16-window7+0-cap30-bf16".parse().expect("a valid name");
        let cache = Shape { batch: 11, heads: 8, seq: 16, head_dim: 64 };
        let arguments = Arguments::for_cache(&served, Layout::Bhsd, cache);
        assert_eq!((arguments.page_size, arguments.pages_of_sequence, arguments.softcap), (16, 9, 30.0));
        assert_eq!((arguments.window_left, arguments.window_right), (7, 0));
        assert_eq!((arguments.mask, arguments.diagonal, arguments.from_last_key), (0, 128, 1));
        assert_eq!(arguments.k_strides, Strides { batch: 8 * 16 * 64, head: 16 * 64, sequence: 64 });
    }
}
