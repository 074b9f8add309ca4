//! Which rows of the output the oracle computes: all of them, or a sample of those where kernels go wrong.

use std::collections::BTreeSet;

use gpu::launch::Random;
use serde::Serialize;

use crate::problem::Problem;

/// One query row of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Row {
    pub batch: usize,
    pub head: usize,
    pub query: usize,
}

impl Row {
    /// Its number among all rows, in `[batch, heads, seq_q]` order.
    pub fn index(&self, problem: &Problem) -> usize {
        (self.batch * problem.heads + self.head) * problem.seq_q + self.query
    }
}

/// Rows in ascending order, without repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    list: Vec<Row>,
    sampled: bool,
}

/// Query tiles of every family have one of these heights.
const TILES: [usize; 4] = [16, 32, 64, 128];

impl Rows {
    pub fn all(problem: &Problem) -> Self {
        let list = heads(problem)
            .flat_map(|(batch, head)| (0..problem.seq_q).map(move |query| Row { batch, head, query }));
        Rows { list: list.collect(), sampled: false }
    }

    /// Of every head the first and last row, the rows on either side of the first and last tile edges, and
    /// `per_head` rows drawn from the seed, different ones for every head.
    pub fn sample(problem: &Problem, per_head: usize, seed: u64) -> Self {
        let edges = edge_queries(problem.seq_q);
        let mut random = Random::new(seed);
        let mut list = Vec::new();
        for (batch, head) in heads(problem) {
            let drawn = (0..per_head).map(|_| random.integer(0, problem.seq_q as i64) as usize);
            let queries: BTreeSet<usize> = drawn.chain(edges.iter().copied()).collect();
            list.extend(queries.into_iter().map(|query| Row { batch, head, query }));
        }
        let sampled = list.len() < problem.query_shape().rows();
        Rows { list, sampled }
    }

    /// All rows if they take no more than `budget` multiply-adds, else a sample of about that cost (and at least
    /// the edges). Two cores do some 2e9 a second.
    pub fn within(problem: &Problem, budget: u64, seed: u64) -> Self {
        if problem.flops() / 2.0 <= budget as f64 {
            return Rows::all(problem);
        }
        let heads = problem.query_shape().all_heads() as u64;
        let per_row = 2 * (problem.seq_k * problem.head_dim) as u64;
        let affordable = budget / (heads * per_row).max(1);
        let per_head = affordable.saturating_sub(edge_queries(problem.seq_q).len() as u64);
        Rows::sample(problem, (per_head as usize).min(problem.seq_q), seed)
    }

    pub fn list(&self) -> &[Row] {
        &self.list
    }

    /// Whether some rows were left out.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }
}

fn heads(problem: &Problem) -> impl Iterator<Item = (usize, usize)> + use<> {
    let heads = problem.heads;
    (0..problem.batch).flat_map(move |batch| (0..heads).map(move |head| (batch, head)))
}

fn edge_queries(seq: usize) -> BTreeSet<usize> {
    let mut edges = BTreeSet::from([0, seq - 1]);
    for tile in TILES {
        // The first edge, and the start of the last tile (which may be a partial one).
        for edge in [tile, (seq - 1) / tile * tile] {
            edges.extend([edge.saturating_sub(1), edge].into_iter().filter(|&query| query < seq));
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Dtype;

    #[test]
    fn a_sample_has_the_ends_and_the_tile_edges_of_every_head() {
        let problem = Problem::new(2, 3, 1000, 64, Dtype::Fp16);
        let rows = Rows::sample(&problem, 4, 1);
        assert!(rows.is_sampled() && rows.list().is_sorted());
        for (batch, head) in heads(&problem) {
            for query in [0, 15, 16, 31, 32, 63, 64, 127, 128, 895, 896, 959, 960, 991, 992, 999] {
                assert!(rows.list().contains(&Row { batch, head, query }), "{batch} {head} {query}");
            }
        }
        assert_eq!(rows, Rows::sample(&problem, 4, 1));
        assert_ne!(rows, Rows::sample(&problem, 4, 2));
    }

    #[test]
    fn small_problems_are_computed_whole() {
        let problem = Problem::new(1, 2, 17, 64, Dtype::Fp16);
        assert_eq!(Rows::within(&problem, 1 << 30, 1), Rows::all(&problem));
        assert!(!Rows::sample(&problem, 100, 1).is_sampled());
        assert_eq!(Rows::sample(&Problem::new(1, 1, 1, 64, Dtype::Fp16), 2, 1).list().len(), 1);
        let large = Problem::new(4, 16, 2048, 128, Dtype::Fp16);
        let rows = Rows::within(&large, 1_000_000_000, 1);
        assert!(rows.is_sampled() && rows.list().len() < 4000, "{}", rows.list().len());
    }
}
