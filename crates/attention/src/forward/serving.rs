//! What servers add to the tensors of an attention: lengths, pages, packed sequences, windows, sinks and capped scores.

use super::error::{ForwardError, wrong};
use super::view::View;
use crate::arguments::Arguments;
use crate::problem::{Problem, Serving as Features, Window};
use crate::tensor::Shape;

/// What servers add to the tensors. The default adds nothing. All addresses are of the device; what is there may change
/// between two launches, also between two replays of a CUDA graph: the host reads nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Address of the numbers of keys of the sequences, int32 `[batch]`; a larger number than the cache has room for counts
    /// as that. `None`: all sequences have all keys.
    pub key_lengths: Option<u64>,
    /// K and V are `[pages, kv_heads, page_size, head_dim]`.
    pub pages: Option<PageTable>,
    /// Sequences follow one another: Q and O are `[1, heads, tokens, head_dim]`, and so are K and V without pages.
    pub packed: Option<PackedSequences>,
    /// The keys near its own position that a query sees.
    pub window: Option<KeyWindow>,
    /// Address of a score for each query head, fp32 `[heads]`: one more term of the sum, whose value is zero.
    pub sinks: Option<u64>,
    /// A score s becomes `softcap * tanh(s / softcap)`; `None`, or 0: it does not.
    pub softcap: Option<f32>,
}

/// Where the pages of each sequence are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTable {
    /// Address of the numbers of pages, int32 `[batch, pages_of_sequence]`. Entries beyond a sequence's keys are not read.
    pub address: u64,
    /// Entries of a sequence.
    pub pages_of_sequence: usize,
}

/// Sequences that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedSequences {
    /// Number of sequences.
    pub batch: usize,
    /// At least the largest number of queries of a sequence. Of a longer one only so many are computed.
    pub longest_queries: usize,
    /// At least the largest number of keys of a sequence. Of a longer one only so many count.
    pub longest_keys: usize,
    /// Address of the first query of each sequence and the end of the last one, int32 `[batch + 1]`.
    pub query_starts: u64,
    /// The same for keys. With pages it gives only the numbers of keys; `None`: they are in `key_lengths`.
    pub key_starts: Option<u64>,
}

/// The keys near a query's position, which the mask's diagonal gives; without a mask, that of [`crate::Mask::Causal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyWindow {
    /// Number of earlier keys that a query sees; `None`: all.
    pub left: Option<u32>,
    /// Number of later keys; `None`: all that the mask allows.
    pub right: Option<u32>,
}

/// Larger windows see all keys. Kernels add the number to positions in 32 bits.
const LARGEST_WINDOW: u32 = 1 << 28;

impl Served {
    /// The problem with these features, from that of the dense tensors `q` and `k`.
    pub(super) fn problem(&self, dense: Problem, k: &View) -> Result<Problem, ForwardError> {
        if *self == Served::default() {
            return Ok(dense);
        }
        let Shape { batch: pages, seq: page_size, .. } = k.shape;
        let mut problem = dense;
        if let Some(PackedSequences { batch, longest_queries, longest_keys, key_starts, .. }) = self.packed {
            if dense.batch != 1 {
                return Err(wrong("q", "packed sequences are one batch entry"));
            }
            if longest_queries > dense.seq_q {
                return Err(wrong("q", "a sequence cannot have more queries than there are"));
            }
            if key_starts.is_none() && self.pages.is_none() {
                return Err(wrong("k", "packed keys need their starts"));
            }
            if key_starts.is_none() && self.key_lengths.is_none() {
                return Err(wrong("k", "keys in pages need their starts or lengths"));
            }
            (problem.batch, problem.seq_q, problem.seq_k) = (batch, longest_queries, longest_keys);
        }
        if let Some(table) = self.pages {
            let room = table.pages_of_sequence.saturating_mul(page_size);
            problem.seq_k = if self.packed.is_some() { problem.seq_k.min(room) } else { room };
            if page_size == 0 || pages == 0 {
                return Err(wrong("k", "there are no pages"));
            }
            if page_size > LARGEST_WINDOW as usize || i32::try_from(pages).is_err() {
                return Err(wrong("k", "there are too many pages, or they are too large"));
            }
        }
        if self.softcap.is_some_and(|cap| !(cap.is_finite() && cap >= 0.0)) {
            return Err(wrong("softcap", "it must be a finite number, at least 0"));
        }
        let largest = |keys: Option<u32>| keys.map_or(LARGEST_WINDOW, |keys| keys.min(LARGEST_WINDOW));
        problem.serving = Features {
            // Only whether there are lengths matters for the choice of a kernel.
            ragged: (self.key_lengths.is_some() || self.packed.is_some()).then_some(0),
            packed: self.packed.is_some(),
            page_size: self.pages.map(|_| page_size as u32),
            window: self.window.map(|KeyWindow { left, right }| Window {
                left: largest(left),
                right: right.map(|right| right.min(LARGEST_WINDOW)),
            }),
            sink: self.sinks.is_some(),
            softcap: self.softcap.filter(|&cap| cap > 0.0).map(|_| 1),
        };
        Ok(problem)
    }

    /// Refuses addresses that kernels cannot read.
    pub(super) fn check(&self) -> Result<(), ForwardError> {
        let packed = self.packed.as_ref();
        let addresses = [
            ("key_lengths", self.key_lengths),
            ("pages", self.pages.map(|table| table.address)),
            ("query_starts", packed.map(|packed| packed.query_starts)),
            ("key_starts", packed.and_then(|packed| packed.key_starts)),
            ("sinks", self.sinks),
        ];
        for (argument, address) in addresses {
            if address.is_some_and(|address| address == 0 || address % 4 != 0) {
                return Err(wrong(argument, "its address is 0 or not a multiple of 4"));
            }
        }
        Ok(())
    }

    /// Adds what the kernel must know to the arguments of the problem.
    pub(super) fn add_to(&self, arguments: Arguments) -> Arguments {
        if *self == Served::default() {
            return arguments;
        }
        let packed = self.packed.as_ref();
        Arguments {
            key_lengths: self.key_lengths.unwrap_or(0),
            page_table: self.pages.map_or(0, |table| table.address),
            pages_of_sequence: self.pages.map_or(0, |table| table.pages_of_sequence as i32),
            sinks: self.sinks.unwrap_or(0),
            softcap: self.softcap.unwrap_or(0.0),
            query_starts: packed.map_or(0, |packed| packed.query_starts),
            key_starts: packed.and_then(|packed| packed.key_starts).unwrap_or(0),
            ..arguments
        }
    }
}
