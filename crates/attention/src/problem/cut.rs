//! Reduces problems to a size that a machine without a GPU can run.

use super::{Mask, Problem};

/// The heights of query tiles are between these. The remaining queries keep the remainder, so that a partial last
/// tile stays partial.
const TALLEST_TILE: usize = 128;
const SHORTEST_TILE: usize = 16;

impl Problem {
    /// Reduces the problem until it takes at most `flops`, as far as possible: first the batch and the heads, down to
    /// one group, then queries. All keys remain, so that every step of the loop over them runs. More heads repeat the
    /// same work, so most of them are removed from a problem that takes more than an eighth of the limit.
    ///
    /// Queries are removed from the front: with a mask aligned bottom-right the remaining ones see the same keys as
    /// before.
    #[must_use]
    pub fn cut(&self, flops: f64) -> Problem {
        let mut cut = *self;
        let group = self.heads / self.kv_heads;
        // Sequences of other lengths are other work: the longest, an empty one and one between remain.
        cut.batch = if self.serving.ragged.is_some() { self.batch.min(3) } else { 1 };
        if self.flops() <= flops / 8.0 {
            return *self;
        }
        // Two groups if they fit, so that a wrong stride between heads is still detected.
        for kv_heads in [self.kv_heads.min(2), 1] {
            cut.kv_heads = kv_heads;
            cut.heads = kv_heads * group;
            if cut.flops() <= flops {
                return cut;
            }
        }
        while cut.flops() > flops && self.mask != Mask::CausalTopLeft {
            let tile = if cut.seq_q > 2 * TALLEST_TILE { TALLEST_TILE } else { SHORTEST_TILE };
            let fewer = (cut.seq_q / 2).next_multiple_of(tile) + self.seq_q % tile;
            if fewer >= cut.seq_q {
                break;
            }
            cut.seq_q = fewer;
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(name: &str, flops: f64) -> String {
        let problem: Problem = name.parse().unwrap_or_else(|error| panic!("{error}"));
        problem.cut(flops).to_string()
    }

    #[test]
    fn heads_are_removed_before_queries_and_keys_remain() {
        assert_eq!(cut("mission", 5e9), "b1h8s512d64-fp16");
        assert_eq!(cut("mission", 1e9), "b1h2s512d64-fp16");
        assert_eq!(cut("mission", 2e8), "b1h2s512d64-fp16");
        assert_eq!(cut("b4h32kv8s512d64-fp16", 4e8), "b1h4kv1s512d64-fp16");
        assert_eq!(cut("fa_d64_s16384", 2.2e9), "b1h1sq512sk16384d64-fp16");
        assert_eq!(cut("fa_d64_s16384", 1e8), "b1h1sq16sk16384d64-fp16");
        assert_eq!(cut("b8h16s4100d128-causal-fp16", 1e9), "b1h1sq388sk4100d128-causal-fp16");
    }

    #[test]
    fn a_ragged_problem_keeps_sequences_of_several_lengths() {
        assert_eq!(
            cut("b64h32kv8sq1sk4096d128-ragged-page16-bf16", 1e8),
            "b3h8kv2sq1sk4096d128-ragged-page16-bf16"
        );
    }

    #[test]
    fn a_small_problem_is_not_reduced() {
        assert_eq!(cut("b3h5s17d64-causal-bf16", 1e9), "b3h5s17d64-causal-bf16");
    }

    #[test]
    fn the_remaining_queries_see_the_same_keys() {
        let whole: Problem = "b1h1s4100d64-causal-fp16".parse().expect("a name");
        let cut = whole.cut(1e6);
        let removed = whole.seq_q - cut.seq_q;
        for query in [0, 1, cut.seq_q - 1] {
            assert_eq!(cut.visible(4100, query), whole.visible(4100, query + removed));
        }
    }
}
