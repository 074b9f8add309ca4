//! A problem: shape, mask and dtype of the op. Its name is its dimensions; an alias is a second name.

mod alias;
mod cut;
mod dtype;
mod fields;
mod name;
mod serving;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use alias::{ALIASES, aliases, expand};
pub use dtype::Dtype;
pub use fields::from_fields;
pub use name::{MAX_ELEMENTS, MAX_ENTRY_ELEMENTS, MAX_HEADS, NameError};
pub use serving::{Serving, Window, lengths};

use crate::tensor::Shape;

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mask {
    /// All keys.
    None,
    /// Query i sees key j iff `j - i <= seq_k - seq_q`: the last query sees every key, as in FlashAttention.
    Causal,
    /// Query i sees key j iff `j <= i`: the first query sees the first key, as in PyTorch's `is_causal`.
    #[serde(rename = "causal-tl")]
    CausalTopLeft,
}

impl Mask {
    /// All masks.
    pub const ALL: [Mask; 3] = [Mask::None, Mask::Causal, Mask::CausalTopLeft];

    /// The name in problem names and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Mask::None => "none",
            Mask::Causal => "causal",
            Mask::CausalTopLeft => "causal-tl",
        }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The sizes of an attention. Q and O are `[batch, heads, seq_q, head_dim]`, K and V `[batch, kv_heads, seq_k,
/// head_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Problem {
    /// Number of batch entries.
    pub batch: usize,
    /// A multiple of `kv_heads`: query head h reads key/value head `h / (heads / kv_heads)`.
    pub heads: usize,
    /// Number of key/value heads.
    pub kv_heads: usize,
    /// Number of queries per head.
    pub seq_q: usize,
    /// Number of keys per head.
    pub seq_k: usize,
    /// Number of elements of each query, key and value.
    pub head_dim: usize,
    /// The keys that each query sees.
    pub mask: Mask,
    /// Element type of Q, K and V.
    pub dtype: Dtype,
    /// Element type of O: one of [`Dtype::outputs`].
    pub output: Dtype,
    /// Lengths by sequence, pages, window, sinks and capped scores.
    #[serde(default)]
    pub serving: Serving,
}

impl Problem {
    /// Self-attention without a mask, with one KV head per query head.
    pub const fn new(batch: usize, heads: usize, seq: usize, head_dim: usize, dtype: Dtype) -> Self {
        Problem {
            batch,
            heads,
            kv_heads: heads,
            seq_q: seq,
            seq_k: seq,
            head_dim,
            mask: Mask::None,
            dtype,
            output: dtype.output(),
            serving: Serving {
                ragged: None,
                packed: false,
                page_size: None,
                window: None,
                sink: false,
                softcap: None,
            },
        }
    }

    /// The problem in words: `1 sequence, 8 heads, 512 tokens, head dimension 64, causal mask, fp16`.
    pub fn in_words(&self) -> String {
        let plural = |number: usize, one: &str, several: &str| {
            format!("{number} {}", if number == 1 { one } else { several })
        };
        let heads = plural(self.heads, "head", "heads");
        let heads = match self.kv_heads {
            own if own == self.heads => heads,
            fewer => format!("{heads}, {} of keys and values", plural(fewer, "head", "heads")),
        };
        let length = if self.seq_q == self.seq_k {
            plural(self.seq_q, "token", "tokens")
        } else {
            let (queries, keys) = (plural(self.seq_q, "query", "queries"), plural(self.seq_k, "key", "keys"));
            format!("{queries}, {keys}")
        };
        let mask = match self.mask {
            Mask::None => "no mask",
            Mask::Causal => "causal mask",
            Mask::CausalTopLeft => "causal mask aligned to the first key",
        };
        let Problem { head_dim, dtype, output, .. } = self;
        let output = if *output == dtype.output() { String::new() } else { format!(", output {output}") };
        format!(
            "{}, {heads}, {length}, head dimension {head_dim}, {mask}{}, {dtype}{output}",
            plural(self.batch, "sequence", "sequences"),
            self.serving.in_words(),
        )
    }

    /// The same problem with another mask.
    #[must_use]
    pub const fn with_mask(self, mask: Mask) -> Self {
        Problem { mask, ..self }
    }

    /// The same problem with another type, and the usual output of that type.
    #[must_use]
    pub const fn with_dtype(self, dtype: Dtype) -> Self {
        Problem { dtype, output: dtype.output(), ..self }
    }

    /// The same problem with another type of the output, which must be one of [`Dtype::outputs`].
    #[must_use]
    pub const fn with_output(self, output: Dtype) -> Self {
        Problem { output, ..self }
    }

    /// The shape of Q and O.
    pub fn query_shape(&self) -> Shape {
        Shape { batch: self.batch, heads: self.heads, seq: self.seq_q, head_dim: self.head_dim }
    }

    /// The shape of K and V.
    pub fn key_shape(&self) -> Shape {
        Shape { batch: self.batch, heads: self.kv_heads, seq: self.seq_k, head_dim: self.head_dim }
    }

    /// Whether several query heads share one KV head.
    pub fn is_grouped(&self) -> bool {
        self.kv_heads != self.heads
    }

    /// Refuses a problem with too many elements, with the limit that it exceeds.
    pub(crate) fn limit(&self) -> Result<(), &'static str> {
        // Every extent is below 2^31, so these products of four fit 128 bits.
        let entry = |shape: Shape| shape.heads as u128 * shape.seq as u128 * shape.head_dim as u128;
        // The last page of a sequence is a whole one.
        let positions =
            self.serving.page_size.map_or(self.seq_k, |size| self.seq_k.next_multiple_of(size as usize));
        let keys = Shape { seq: positions, ..self.key_shape() };
        let entry = entry(self.query_shape()).max(entry(keys));
        if entry > MAX_ENTRY_ELEMENTS as u128 {
            return Err("2^32 - 1 elements per batch entry");
        }
        if self.batch as u128 * entry > MAX_ELEMENTS as u128 {
            return Err("2^40 elements");
        }
        Ok(())
    }

    /// The factor of the scores before the softmax.
    pub fn softmax_scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    /// The key at the position of query i is `i + diagonal`, if all sequences have `seq_k` keys. Under a causal mask the
    /// query sees no later key.
    pub fn diagonal(&self) -> i64 {
        self.diagonal_of(self.seq_k)
    }

    /// The same for a sequence with this many keys.
    fn diagonal_of(&self, length: usize) -> i64 {
        match self.mask {
            Mask::None if self.serving.window.is_none() => 0,
            Mask::CausalTopLeft => 0,
            Mask::None | Mask::Causal => length as i64 - self.seq_q as i64,
        }
    }

    /// The keys that a query sees, of a sequence with `length` keys.
    pub fn visible(&self, length: usize, query: usize) -> Range<usize> {
        let [first, end] = self.bounds(length).map(|bound| {
            bound.map(|from| (query as i64).saturating_add(from).clamp(0, length as i64) as usize)
        });
        first.unwrap_or(0)..end.unwrap_or(length)
    }

    /// Query i of a sequence with `length` keys sees the keys `i + first..i + end`, as far as they exist; `None` for no
    /// bound.
    fn bounds(&self, length: usize) -> [Option<i64>; 2] {
        let diagonal = self.diagonal_of(length);
        let window = self.serving.window;
        let last = match (self.mask, window.and_then(|window| window.right)) {
            (Mask::None, right) => right.map(i64::from),
            (Mask::Causal | Mask::CausalTopLeft, _) => Some(0),
        };
        [window.map(|window| diagonal - i64::from(window.left)), last.map(|last| diagonal + last + 1)]
    }

    /// The keys that any query sees, of a sequence with `length` keys. Nothing depends on the others.
    pub fn needed(&self, length: usize) -> Range<usize> {
        if self.seq_q == 0 {
            return 0..0;
        }
        let Range { start, .. } = self.visible(length, 0);
        start..self.visible(length, self.seq_q - 1).end.max(start)
    }

    /// The numbers of keys of the sequences. Inputs may have them in another order ([`crate::inputs::ServingInputs`]).
    pub fn lengths(&self) -> Vec<usize> {
        match self.serving.ragged {
            None => vec![self.seq_k; self.batch],
            Some(seed) => lengths(self.batch, self.seq_k, seed),
        }
    }

    /// The numbers of queries of the sequences.
    pub fn query_lengths(&self) -> Vec<usize> {
        match self.serving.ragged {
            Some(_) if self.serving.packed && self.seq_q == self.seq_k => self.lengths(),
            // In another order than the keys: there are sequences with queries and no key, and with keys and no query.
            Some(seed) if self.serving.packed => {
                let mut lengths = lengths(self.batch, self.seq_q, seed.wrapping_add(1));
                lengths.rotate_right(1);
                lengths
            }
            _ => vec![self.seq_q; self.batch],
        }
    }

    /// A problem of sequences with this many queries. What a query sees depends on the number of queries.
    #[must_use]
    pub const fn with_queries(self, seq_q: usize) -> Self {
        Problem { seq_q, ..self }
    }

    /// The extents of Q and O in memory: packed sequences are one batch entry.
    pub fn stored_query_shape(&self) -> Shape {
        if !self.serving.packed {
            return self.query_shape();
        }
        Shape { batch: 1, seq: self.query_lengths().iter().sum(), ..self.query_shape() }
    }

    /// Number of pairs of a query and a key that it sees, over all heads.
    pub fn visible_pairs(&self) -> u64 {
        // The sum over the queries i of `i + from`, at least 0 and at most `keys`. Rows before `first` add 0, rows from
        // `full` on add all keys, and between them each row adds one key more than the row before.
        let sum = |rows: i128, keys: i128, from: i128| {
            let first = (1 - from).clamp(0, rows);
            let full = (keys - from).clamp(first, rows);
            (full - first) * (first + full - 1 + 2 * from) / 2 + (rows - full) * keys
        };
        let of_sequence = |queries: usize, length: usize| {
            let (rows, keys) = (queries as i128, length as i128);
            let bounds = self.with_queries(queries).bounds(length);
            let [first, end] = bounds.map(|bound| bound.map(|from| sum(rows, keys, i128::from(from))));
            end.unwrap_or(rows * keys) - first.unwrap_or(0)
        };
        let pairs = self.over_sequences(|queries, length| of_sequence(queries, length) as u128);
        (pairs * self.heads as u128) as u64
    }

    /// The sum over all sequences of a function of their numbers of queries and keys.
    fn over_sequences(&self, of: impl Fn(usize, usize) -> u128) -> u128 {
        if self.serving.ragged.is_none() {
            return self.batch as u128 * of(self.seq_q, self.seq_k);
        }
        let sequences = self.query_lengths().into_iter().zip(self.lengths());
        sequences.map(|(queries, length)| of(queries, length)).sum()
    }

    /// Floating-point operations of the two products. A multiply-add counts as two; hidden pairs do not count.
    pub fn flops(&self) -> f64 {
        4.0 * self.head_dim as f64 * self.visible_pairs() as f64
    }

    /// Bytes that must cross the memory bus: Q, K, V and the FP8 scales are read once, O is written once.
    pub fn minimal_bytes(&self) -> u64 {
        let queries = self.stored_query_shape();
        // Of keys and values only those that a query sees.
        let needed = |queries: usize, length: usize| {
            if self.serving.is_plain() { length } else { self.with_queries(queries).needed(length).len() }
        };
        let keys = self.over_sequences(|queries, length| needed(queries, length) as u128) as usize;
        let read = self.dtype.bytes() * (queries.elements() + 2 * keys * self.kv_heads * self.head_dim);
        let written = self.output.bytes() * queries.elements();
        let scales = match self.dtype {
            Dtype::E4m3 => size_of::<f32>() * self.batch * (self.heads + 2 * self.kv_heads),
            Dtype::Fp16 | Dtype::Bf16 => 0,
        };
        (read + written + scales) as u64
    }
}

impl FromStr for Problem {
    type Err = NameError;

    /// A name, or an alias of one problem.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let problems = alias::expand(text)?;
        match problems.as_slice() {
            [one] => Ok(*one),
            several => Err(NameError::Several {
                text: text.to_owned(),
                names: several.iter().map(ToString::to_string).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_pairs_match_the_mask() {
        for mask in Mask::ALL {
            for (seq_q, seq_k) in [(1, 1), (4, 4), (1, 7), (7, 1), (5, 3), (3, 5), (17, 129), (129, 17)] {
                let problem =
                    Problem { seq_q, seq_k, ..Problem::new(2, 3, 1, 64, Dtype::Fp16) }.with_mask(mask);
                let counted: usize = (0..seq_q).map(|query| problem.visible(seq_k, query).len()).sum();
                assert_eq!(problem.visible_pairs(), 6 * counted as u64, "{problem}");
            }
        }
    }

    /// The definition, key by key.
    fn sees(problem: &Problem, length: usize, query: usize, key: usize) -> bool {
        let distance = key as i64 - (query as i64 + problem.diagonal_of(length));
        let by_mask = problem.mask == Mask::None || distance <= 0;
        let by_window = problem.serving.window.is_none_or(|Window { left, right }| {
            distance >= -i64::from(left) && right.is_none_or(|right| distance <= i64::from(right))
        });
        by_mask && by_window
    }

    #[test]
    fn windows_and_lengths_give_the_visible_keys() {
        for mask in ["", "-causal", "-causal-tl"] {
            for window in ["", "-window0", "-window5", "-window3+2", "-window0+0", "-window900+900"] {
                for shape in ["b9h2sq1sk200d64", "b9h2sq7sk200d64", "b3h2sq40sk9d64"] {
                    let problem: Problem = format!("{shape}{mask}-ragged2{window}").parse().expect("a name");
                    let mut pairs = 0;
                    for length in problem.lengths() {
                        let mut needed = 0;
                        for query in 0..problem.seq_q {
                            let visible = problem.visible(length, query);
                            let seen: Vec<usize> =
                                (0..length).filter(|&key| sees(&problem, length, query, key)).collect();
                            assert_eq!(
                                visible.clone().collect::<Vec<_>>(),
                                seen,
                                "{problem} {length} {query}"
                            );
                            pairs += 2 * seen.len();
                            let range = problem.needed(length);
                            assert!(seen.iter().all(|key| range.contains(key)), "{problem} {length} {query}");
                            needed = needed.max(visible.end);
                        }
                        assert!(problem.needed(length).end <= needed.max(problem.needed(length).start));
                    }
                    assert_eq!(problem.visible_pairs(), pairs as u64, "{problem}");
                }
            }
        }
    }

    #[test]
    fn causal_masks_differ_if_the_lengths_differ() {
        let wide = Problem { seq_q: 2, seq_k: 5, ..Problem::new(1, 1, 1, 64, Dtype::Fp16) };
        let visible = |mask| [0, 1].map(|query| wide.with_mask(mask).visible(5, query).end);
        assert_eq!(visible(Mask::None), [5, 5]);
        assert_eq!(visible(Mask::Causal), [4, 5]);
        assert_eq!(visible(Mask::CausalTopLeft), [1, 2]);
        // More queries than keys, aligned bottom-right: the first queries see nothing.
        let tall = Problem { seq_q: 5, seq_k: 2, ..wide }.with_mask(Mask::Causal);
        assert_eq!(
            (0..5).map(|query| tall.visible(2, query)).collect::<Vec<_>>(),
            [0..0, 0..0, 0..0, 0..1, 0..2]
        );
    }

    #[test]
    fn work_of_the_mission_shape() {
        let mission = Problem::new(1, 8, 512, 64, Dtype::Fp16);
        assert_eq!(mission.flops(), 4.0 * 8.0 * 512.0 * 512.0 * 64.0);
        assert_eq!(mission.minimal_bytes(), 4 * 2 * 8 * 512 * 64);
        assert_eq!(mission.with_mask(Mask::Causal).visible_pairs(), 8 * 512 * 513 / 2);
        let codes = mission.with_dtype(Dtype::E4m3);
        assert_eq!(codes.minimal_bytes(), (3 + 2) * 8 * 512 * 64 + 3 * 8 * 4);
    }
}
