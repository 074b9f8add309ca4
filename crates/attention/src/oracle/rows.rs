//! Selects the output rows that the oracle computes: all, or a sample that includes the rows where kernels often
//! fail.

use std::collections::BTreeSet;
use std::fmt;

use random::Random;
use serde::Serialize;

use crate::problem::Problem;
use crate::tensor::Values;

/// One query row of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Row {
    /// Index of the batch entry.
    pub batch: usize,
    /// Index of the query head.
    pub head: usize,
    /// Index of the query in its sequence.
    pub query: usize,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { batch, head, query } = self;
        write!(f, "batch {batch}, head {head}, query {query}")
    }
}

impl Row {
    /// The row's index among all rows, in `[batch, heads, seq_q]` order.
    pub fn index(&self, problem: &Problem) -> usize {
        (self.batch * problem.heads + self.head) * problem.seq_q + self.query
    }
}

/// Rows in ascending order, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    list: Vec<Row>,
    sampled: bool,
}

/// Heads of which the rows with the largest and smallest queries are computed.
const HEADS_WITH_EXTREMES: usize = 4;

/// The heights of query tiles in all families.
const TILES: [usize; 4] = [16, 32, 64, 128];

impl Rows {
    /// All rows.
    pub fn all(problem: &Problem) -> Self {
        let queries = problem.query_lengths();
        let list = heads(problem)
            .flat_map(|(batch, head)| (0..queries[batch]).map(move |query| Row { batch, head, query }));
        Rows { list: list.collect(), sampled: false }
    }

    /// `drawn` random rows, and the edge rows of `heads` heads: the first and last row, and the rows on both sides of
    /// the first and last tile edges. The seed selects the rows and heads.
    pub fn sample(problem: &Problem, drawn: usize, heads: usize, seed: u64) -> Self {
        let queries = problem.query_lengths();
        let mut random = Random::new(seed);
        let mut below = |count: usize| random.integer(0, count as i64) as usize;
        let mut list: BTreeSet<Row> = BTreeSet::new();
        let mut all_heads: Vec<(usize, usize)> =
            self::heads(problem).filter(|&(batch, _)| queries[batch] > 0).collect();
        // Every head is used before any is used again.
        for index in 0..drawn {
            let place = index % all_heads.len();
            if place == 0 {
                shuffle(&mut all_heads, &mut below);
            }
            let (batch, head) = all_heads[place];
            list.insert(Row { batch, head, query: below(queries[batch]) });
        }
        shuffle(&mut all_heads, &mut below);
        for &(batch, head) in all_heads.iter().take(heads) {
            list.extend(edge_queries(queries[batch]).into_iter().map(|query| Row { batch, head, query }));
        }
        let sampled = list.len() < problem.stored_query_shape().rows();
        Rows { list: list.into_iter().collect(), sampled }
    }

    /// All rows if they take at most `budget` multiply-adds, otherwise a sample of about that cost: half for random
    /// rows, half for edges. Two cores do about 2e9 a second.
    pub fn within(problem: &Problem, budget: u64, seed: u64) -> Self {
        if problem.flops() / 2.0 <= budget as f64 {
            return Rows::all(problem);
        }
        let per_row = 2 * (problem.seq_k * problem.head_dim) as u64;
        let affordable = (budget / per_row.max(1)).clamp(64, problem.query_shape().rows() as u64) as usize;
        let heads = affordable / 2 / edge_queries(problem.seq_q).len();
        Rows::sample(problem, affordable / 2, heads.max(1), seed)
    }

    /// Adds the rows with the largest and the smallest query of some heads of the sample. Their weights are the most and
    /// the least equal.
    #[must_use]
    pub fn with_extremes(mut self, problem: &Problem, queries: &Values) -> Self {
        if !self.sampled {
            return self;
        }
        // The sample has its heads in a random choice; each of a few of them is read completely.
        let mut heads: Vec<(usize, usize)> = self.list.iter().map(|row| (row.batch, row.head)).collect();
        heads.dedup();
        for (batch, head) in heads.into_iter().take(HEADS_WITH_EXTREMES) {
            let size = |query: &[f32]| query.iter().map(|x| x * x).sum::<f32>();
            let sizes: Vec<f32> =
                queries.head(batch, head).chunks_exact(problem.head_dim).map(size).collect();
            let by_size = |a: &usize, b: &usize| sizes[*a].total_cmp(&sizes[*b]);
            let extremes = [(0..sizes.len()).max_by(by_size), (0..sizes.len()).min_by(by_size)];
            self.list.extend(extremes.into_iter().flatten().map(|query| Row { batch, head, query }));
        }
        self.list.sort_unstable();
        self.list.dedup();
        self
    }

    /// The rows.
    pub fn list(&self) -> &[Row] {
        &self.list
    }

    /// Whether some rows are left out.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }
}

fn heads(problem: &Problem) -> impl Iterator<Item = (usize, usize)> + use<> {
    let heads = problem.heads;
    (0..problem.batch).flat_map(move |batch| (0..heads).map(move |head| (batch, head)))
}

fn shuffle<T>(list: &mut [T], below: &mut impl FnMut(usize) -> usize) {
    for last in (1..list.len()).rev() {
        list.swap(last, below(last + 1));
    }
}

fn edge_queries(seq: usize) -> BTreeSet<usize> {
    let mut edges = BTreeSet::from([0, seq - 1]);
    for tile in TILES {
        // The first edge, and the start of the last tile (which may be partial).
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
    fn a_sample_has_rows_of_every_head_and_edges_of_some() {
        let problem = Problem::new(2, 3, 1000, 64, Dtype::Fp16);
        let rows = Rows::sample(&problem, 24, 6, 1);
        assert!(rows.is_sampled() && rows.list().is_sorted());
        for (batch, head) in heads(&problem) {
            for query in [0, 15, 16, 31, 32, 63, 64, 127, 128, 895, 896, 959, 960, 991, 992, 999] {
                assert!(rows.list().contains(&Row { batch, head, query }), "{batch} {head} {query}");
            }
        }
        assert_eq!(rows, Rows::sample(&problem, 24, 6, 1));
        assert_ne!(rows, Rows::sample(&problem, 24, 6, 2));
        let few = Rows::sample(&problem, 12, 1, 1);
        for (batch, head) in heads(&problem) {
            let own = few.list().iter().filter(|row| (row.batch, row.head) == (batch, head));
            assert!(own.count() >= 2, "{batch} {head}");
        }
    }

    #[test]
    fn half_of_the_rows_of_a_large_problem_are_random() {
        // One row takes so long that the edge rows alone would use the whole budget.
        let problem = Problem::new(1, 32, 16384, 64, Dtype::Fp16);
        let edges = edge_queries(problem.seq_q);
        let rows = Rows::within(&problem, 600_000_000, 7);
        let elsewhere = rows.list().iter().filter(|row| !edges.contains(&row.query)).count();
        assert!((130..160).contains(&elsewhere), "{elsewhere} of {}", rows.list().len());
        let other = Rows::within(&problem, 600_000_000, 8);
        let shared =
            rows.list().iter().filter(|row| other.list().contains(row) && !edges.contains(&row.query));
        assert!(shared.count() < 3);
    }

    #[test]
    fn small_problems_are_computed_completely() {
        let problem = Problem::new(1, 2, 17, 64, Dtype::Fp16);
        assert_eq!(Rows::within(&problem, 1 << 30, 1), Rows::all(&problem));
        assert_eq!(Rows::sample(&Problem::new(1, 1, 1, 64, Dtype::Fp16), 2, 1, 1).list().len(), 1);
        let large = Problem::new(4, 16, 2048, 128, Dtype::Fp16);
        let rows = Rows::within(&large, 1_000_000_000, 1);
        assert!(rows.is_sampled() && rows.list().len() < 4000, "{}", rows.list().len());
    }
}
