//! The inputs that servers add to Q, K and V: lengths, sinks and the table of pages; and caches as they lie in memory.

use random::Random;

use crate::problem::Problem;
use crate::tensor::{Layout, Shape, Tensor};

/// The inputs for serving. A problem has those that its features need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServingInputs {
    /// The number of keys of each sequence; `None` if all have `seq_k`.
    pub lengths: Option<Vec<usize>>,
    /// The number of queries of each sequence, if they are packed.
    pub query_lengths: Option<Vec<usize>>,
    /// The score of the sink of each query head.
    pub sinks: Option<Vec<f32>>,
    /// Where the pages of the sequences are.
    pub pages: Option<Pages>,
}

/// A table of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    /// `[batch, pages for seq_k keys]`: numbers of pages. Entries of pages that no query needs are meaningless.
    pub table: Vec<i32>,
    /// Number of pages in the cache; some belong to no sequence.
    pub count: usize,
}

/// Fills what no query may depend on: a NaN in every type.
const UNUSED: u8 = 0xff;

impl ServingInputs {
    /// The inputs of a problem. The lengths are those of [`Problem::lengths`] in an order that the seed selects, so the
    /// work does not depend on the seed. Those of packed sequences have their own order: places in the output depend on them.
    pub fn generate(problem: &Problem, seed: u64) -> Self {
        let mut random = Random::new(seed).after(u64::from(u32::MAX));
        let lengths = problem.serving.ragged.map(|_| {
            let mut lengths = problem.lengths();
            let by = random.integer(0, problem.batch.max(1) as i64) as usize;
            lengths.rotate_left(if problem.serving.packed { 0 } else { by });
            lengths
        });
        let query_lengths = problem.serving.packed.then(|| problem.query_lengths());
        // About the scores of normal inputs. One head in eight has a sink that outweighs all keys.
        let sink = |random: &mut Random| match random.integer(0, 8) {
            0 => 20.0,
            _ => 2.0 * random.normal() as f32,
        };
        let sinks = problem.serving.sink.then(|| (0..problem.heads).map(|_| sink(&mut random)).collect());
        let mut inputs = ServingInputs { lengths, query_lengths, sinks, pages: None };
        inputs.pages =
            problem.serving.page_size.map(|size| inputs.pages(problem, size as usize, &mut random));
        inputs
    }

    /// The number of keys of a sequence.
    pub fn length(&self, problem: &Problem, batch: usize) -> usize {
        self.lengths.as_ref().map_or(problem.seq_k, |lengths| lengths[batch])
    }

    /// The number of queries of a sequence.
    pub fn queries(&self, problem: &Problem, batch: usize) -> usize {
        self.query_lengths.as_ref().map_or(problem.seq_q, |lengths| lengths[batch])
    }

    /// The keys that any query of a sequence sees.
    fn needed(&self, problem: &Problem, batch: usize) -> std::ops::Range<usize> {
        problem.with_queries(self.queries(problem, batch)).needed(self.length(problem, batch))
    }

    /// Whether K and V of all sequences follow one another.
    fn has_packed_keys(&self) -> bool {
        self.query_lengths.is_some() && self.pages.is_none()
    }

    /// The sink of a query head.
    pub fn sink(&self, head: usize) -> Option<f64> {
        self.sinks.as_ref().map(|sinks| f64::from(sinks[head]))
    }

    /// Draws the pages of all sequences, in random order, with some pages to spare. The other entries of the table are
    /// invalid page numbers, or numbers of pages that belong to another sequence or to none.
    fn pages(&self, problem: &Problem, size: usize, random: &mut Random) -> Pages {
        let of_sequence = pages_of_sequence(problem, size);
        let needed: Vec<_> = (0..problem.batch)
            .map(|batch| self.needed(problem, batch))
            .map(|keys| if keys.is_empty() { 0..0 } else { keys.start / size..keys.end.div_ceil(size) })
            .collect();
        let used: usize = needed.iter().map(std::iter::ExactSizeIterator::len).sum();
        let count = used + 1 + used / 8;
        let mut free: Vec<i32> = (0..count as i32).collect();
        for last in (1..count).rev() {
            free.swap(last, random.integer(0, last as i64 + 1) as usize);
        }
        let unused = [i32::MIN, count as i32, -1, i32::MAX, 0, count as i32 - 1];
        let mut table: Vec<i32> =
            (0..problem.batch * of_sequence).map(|entry| unused[entry % unused.len()]).collect();
        for (row, pages) in table.chunks_exact_mut(of_sequence.max(1)).zip(needed) {
            for entry in &mut row[pages] {
                *entry = free.pop().unwrap_or_default();
            }
        }
        Pages { table, count }
    }

    /// The extents of K and V in memory: `[pages, heads, positions of a page, head_dim]`, or those of the problem.
    pub fn cache_shape(&self, problem: &Problem) -> Shape {
        let dense = problem.key_shape();
        match (&self.pages, problem.serving.page_size) {
            (Some(pages), Some(size)) => Shape { batch: pages.count, seq: size as usize, ..dense },
            _ if self.has_packed_keys() => Shape {
                batch: 1,
                seq: (0..problem.batch).map(|batch| self.length(problem, batch)).sum(),
                ..dense
            },
            _ => dense,
        }
    }

    /// K or V as kernels read it. NaN fills what no query needs: positions beyond a sequence's length or before its
    /// windows, and pages that belong to no sequence.
    pub fn cache(&self, problem: &Problem, tensor: &Tensor) -> Vec<u8> {
        if problem.serving.is_plain() {
            return tensor.bytes.clone();
        }
        let shape = self.cache_shape(problem);
        let row_bytes = shape.head_dim * tensor.dtype.bytes();
        let mut bytes = vec![UNUSED; shape.rows() * row_bytes];
        let [from, to] = [tensor.shape, shape].map(|shape| tensor.layout.strides(shape));
        for batch in 0..problem.batch {
            let first = if self.has_packed_keys() {
                (0..batch).map(|before| self.length(problem, before)).sum()
            } else {
                0
            };
            for key in self.needed(problem, batch) {
                let (entry, position) =
                    if self.has_packed_keys() { (0, first + key) } else { self.place(problem, batch, key) };
                for head in 0..shape.heads {
                    let at = |batch: usize, strides: crate::tensor::Strides, position: usize| {
                        let element =
                            batch * strides.batch + head * strides.head + position * strides.sequence;
                        element * tensor.dtype.bytes()
                    };
                    let (from, to) = (at(batch, from, key), at(entry, to, position));
                    bytes[to..to + row_bytes].copy_from_slice(&tensor.bytes[from..from + row_bytes]);
                }
            }
        }
        bytes
    }

    /// The batch entry or page of the cache that has a key, and its position there.
    fn place(&self, problem: &Problem, batch: usize, key: usize) -> (usize, usize) {
        let Some((pages, size)) = self.pages.as_ref().zip(problem.serving.page_size) else {
            return (batch, key);
        };
        let size = size as usize;
        let entry = pages.table[batch * pages_of_sequence(problem, size) + key / size];
        (entry as usize, key % size)
    }

    /// The arrays beside K and V, by their names in [`crate::arguments::Arguments`], in bytes.
    pub fn arrays(&self) -> Vec<(&'static str, Vec<u8>)> {
        let lengths = self.lengths.as_ref().map(|lengths| {
            if self.has_packed_keys() {
                ("key_starts", starts(lengths))
            } else {
                ("key_lengths", integers(lengths.iter().copied()))
            }
        });
        let queries = self.query_lengths.as_ref().map(|lengths| ("query_starts", starts(lengths)));
        let table = self
            .pages
            .as_ref()
            .map(|pages| ("page_table", pages.table.iter().flat_map(|entry| entry.to_le_bytes()).collect()));
        let sinks = self
            .sinks
            .as_ref()
            .map(|sinks| ("sinks", sinks.iter().flat_map(|sink| sink.to_le_bytes()).collect()));
        [lengths, queries, table, sinks].into_iter().flatten().collect()
    }
}

fn integers(numbers: impl Iterator<Item = usize>) -> Vec<u8> {
    numbers.flat_map(|number| (number as i32).to_le_bytes()).collect()
}

/// Where each sequence begins, and the end of the last one.
fn starts(lengths: &[usize]) -> Vec<u8> {
    let sums = lengths.iter().scan(0, |sum, length| {
        *sum += length;
        Some(*sum)
    });
    integers(std::iter::once(0).chain(sums))
}

/// Rows of Q or O, by batch entry in `[batch, heads, seq_q]` and one sequence after another in memory: calls `move_row` with
/// the first elements of each row in both shapes.
pub fn each_packed_row(problem: &Problem, layout: Layout, mut move_row: impl FnMut(usize, usize)) {
    let [dense, packed] =
        [problem.query_shape(), problem.stored_query_shape()].map(|shape| layout.strides(shape));
    let mut first = 0;
    for (batch, queries) in problem.query_lengths().into_iter().enumerate() {
        for head in 0..problem.heads {
            for query in 0..queries {
                let row = batch * dense.batch + head * dense.head + query * dense.sequence;
                move_row(row, head * packed.head + (first + query) * packed.sequence);
            }
        }
        first += queries;
    }
}

/// The number of entries of a sequence in the table of pages.
pub fn pages_of_sequence(problem: &Problem, page_size: usize) -> usize {
    problem.seq_k.div_ceil(page_size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{Class, Inputs};

    fn problem(name: &str) -> Problem {
        name.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_paged_cache_has_the_needed_keys_and_nan_elsewhere() {
        for layout in Layout::ALL {
            let problem = problem("b7h4kv2sq3sk100d64-causal-ragged-page12-window40-bf16");
            let inputs = Inputs::generate(&problem, Class::Normal, 5).encode(problem.dtype, layout);
            let serving = &inputs.serving;
            let cache = serving.cache(&problem, &inputs.k);
            let pages = serving.pages.as_ref().expect("pages");
            let shape = serving.cache_shape(&problem);
            assert_eq!((shape.batch, shape.seq, cache.len()), (pages.count, 12, shape.elements() * 2));
            let cached = Tensor { shape, bytes: cache, ..inputs.k.clone() }.decode();
            let dense = inputs.k.decode();
            let mut found = 0;
            for batch in 0..7 {
                for key in problem.needed(serving.length(&problem, batch)) {
                    let page = pages.table[batch * 9 + key / 12] as usize;
                    for head in 0..2 {
                        let row = |values: &[f32], key: usize| values[key * 64..][..64].to_vec();
                        assert_eq!(
                            row(cached.head(page, head), key % 12),
                            row(dense.head(batch, head), key),
                            "{layout} {batch} {key}"
                        );
                        found += 64;
                    }
                }
            }
            assert_eq!(cached.data.iter().filter(|x| !x.is_nan()).count(), found);
            assert!(pages.table.iter().any(|&page| page < 0 || page as usize >= pages.count));
        }
    }

    #[test]
    fn seeds_change_the_order_of_lengths_and_pages_but_not_the_work() {
        let problem = problem("b7h4sq1sk100d64-ragged3-page16-sink-fp16");
        let drawn: Vec<ServingInputs> = (0..8).map(|seed| ServingInputs::generate(&problem, seed)).collect();
        let sorted = |inputs: &ServingInputs| {
            let mut lengths = inputs.lengths.clone().expect("ragged");
            lengths.sort_unstable();
            lengths
        };
        assert!(drawn.iter().all(|it| sorted(it) == sorted(&drawn[0])));
        assert!(drawn.iter().any(|it| it.lengths != drawn[0].lengths));
        let pages = |it: &ServingInputs| it.pages.clone().expect("paged");
        assert!(drawn[1..].iter().all(|it| pages(it).table != pages(&drawn[0]).table));
        assert!(drawn.iter().all(|it| pages(it).count == pages(&drawn[0]).count));
        assert_ne!(drawn[0].sinks, drawn[1].sinks);
    }
}
