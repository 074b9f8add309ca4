//! Problems cut to a size a machine without a GPU can run.

use super::{Mask, Problem};

/// Query tiles are between these high: what is kept of the queries keeps their remainder, so that a ragged last tile
/// stays ragged.
const TALLEST_TILE: usize = 128;
const SHORTEST_TILE: usize = 16;

impl Problem {
    /// The problem made smaller until it takes `flops` at most, as far as that goes: first the batch and the heads,
    /// down to one group, then queries. Keys stay: every step of the loop over them is done. More heads do the same
    /// work over, so most of them go as soon as a problem takes an eighth of that.
    ///
    /// Queries go from the front: with a mask aligned bottom-right those that are left see what they saw before.
    #[must_use]
    pub fn cut(&self, flops: f64) -> Problem {
        let mut cut = *self;
        let group = self.heads / self.kv_heads;
        cut.batch = 1;
        if self.flops() <= flops / 8.0 {
            return *self;
        }
        // Two groups where they fit, so that a wrong stride between heads still shows.
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
    fn heads_go_before_queries_and_keys_stay() {
        assert_eq!(cut("mission", 5e9), "b1h8s512d64-fp16");
        assert_eq!(cut("mission", 1e9), "b1h2s512d64-fp16");
        assert_eq!(cut("mission", 2e8), "b1h2s512d64-fp16");
        assert_eq!(cut("b4h32kv8s512d64-fp16", 4e8), "b1h4kv1s512d64-fp16");
        assert_eq!(cut("fa_d64_s16384", 2.2e9), "b1h1sq512sk16384d64-fp16");
        assert_eq!(cut("fa_d64_s16384", 1e8), "b1h1sq16sk16384d64-fp16");
        assert_eq!(cut("b8h16s4100d128-causal-fp16", 1e9), "b1h1sq388sk4100d128-causal-fp16");
    }

    #[test]
    fn what_is_small_already_stays() {
        assert_eq!(cut("b3h5s17d64-causal-bf16", 1e9), "b3h5s17d64-causal-bf16");
    }

    #[test]
    fn queries_that_are_left_see_what_they_saw() {
        let whole: Problem = "b1h1s4100d64-causal-fp16".parse().expect("a name");
        let cut = whole.cut(1e6);
        let gone = whole.seq_q - cut.seq_q;
        for query in [0, 1, cut.seq_q - 1] {
            assert_eq!(cut.visible_keys(query), whole.visible_keys(query + gone));
        }
    }
}
