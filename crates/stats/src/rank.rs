//! Mann-Whitney U and Cliff's delta: do the values of one set tend to be larger than those of another?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Samples;
use super::normal::upper_tail;

/// Up to this many pairs the distribution of U is computed exactly; above, it is approximated as normal.
const EXACT_PAIRS: usize = 400;

/// How the p value was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// By counting every assignment of the values (including ties) to the two sets.
    Exact,
    /// By the normal approximation, corrected for ties and continuity.
    Normal,
}

/// A Mann-Whitney test of `a` against `b`.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RankTest {
    /// Number of pairs in which `a` is larger; ties count half.
    pub u: f64,
    /// The two-sided p value.
    pub p: f64,
    /// Cliff's delta: from -1 (every `a` below every `b`) to 1 (every `a` above).
    pub delta: f64,
    /// How the p value was computed.
    pub method: Method,
}

/// Tests whether values of `a` tend to be larger (delta above 0) or smaller than those of `b`.
pub fn rank_test(a: &Samples, b: &Samples) -> RankTest {
    let (n, m) = (a.count(), b.count());
    let groups = tie_groups(a.sorted(), b.sorted());
    // Twice the rank sum of `a`: the mean rank of a tie group is a multiple of one half.
    let mut before = 0;
    let mut twice_ranks = 0;
    for group in &groups {
        twice_ranks += group.in_a * group.twice_rank(before);
        before += group.size;
    }
    let u = twice_ranks as f64 / 2.0 - (n * (n + 1)) as f64 / 2.0;
    let exact = n * m <= EXACT_PAIRS;
    let p = if exact { exact_p(&groups, n, m, twice_ranks) } else { normal_p(&groups, n, m, u) };
    let method = if exact { Method::Exact } else { Method::Normal };
    RankTest { u, p, delta: 2.0 * u / (n * m) as f64 - 1.0, method }
}

/// The equal values of both sets.
struct TieGroup {
    size: usize,
    in_a: usize,
}

impl TieGroup {
    /// Twice the mean rank of the group, with `before` values below it.
    fn twice_rank(&self, before: usize) -> usize {
        2 * before + self.size + 1
    }
}

/// The values of both ascending lists, grouped by equality, ascending.
fn tie_groups(mut a: &[f64], mut b: &[f64]) -> Vec<TieGroup> {
    let mut groups = Vec::new();
    while let Some(&value) = match (a.first(), b.first()) {
        (Some(x), Some(y)) => Some(if x <= y { x } else { y }),
        (x, y) => x.or(y),
    } {
        let in_a = a.partition_point(|x| *x <= value);
        let in_b = b.partition_point(|x| *x <= value);
        groups.push(TieGroup { size: in_a + in_b, in_a });
        (a, b) = (&a[in_a..], &b[in_b..]);
    }
    groups
}

/// The normal approximation: U has mean nm/2 and a variance that ties reduce.
fn normal_p(groups: &[TieGroup], n: usize, m: usize, u: f64) -> f64 {
    let pairs = (n * m) as f64;
    let all = (n + m) as f64;
    let ties: f64 = groups.iter().map(|group| (group.size as f64).powi(3) - group.size as f64).sum();
    let variance = pairs / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0; // all values are equal
    }
    let distance = (u - pairs / 2.0).abs() - 0.5;
    (2.0 * upper_tail(distance / variance.sqrt())).min(1.0)
}

/// Counts the ways to assign n of the n + m values to `a`, by their doubled rank sum. Ties make the distribution
/// asymmetric, so both tails are computed and the smaller one is doubled.
fn exact_p(groups: &[TieGroup], n: usize, m: usize, twice_ranks: usize) -> f64 {
    let most = (n + m) * (n + m + 1);
    if n > m {
        // The values of `b` are those that `a` does not get, so the smaller set is counted.
        return exact_p(groups, m, n, most - twice_ranks);
    }
    // ways[k][s]: the number of ways to a doubled rank sum of s with k values assigned. With the sizes that occur
    // here it is at most 40 over 20, which a double represents exactly.
    let mut ways = vec![vec![0.0_f64; most + 1]; n + 1];
    ways[0][0] = 1.0;
    let (mut before, mut reached) = (0, 0);
    for group in groups {
        let rank = group.twice_rank(before);
        for _ in 0..group.size {
            for k in (1..=n.min(before + group.size)).rev() {
                let (fewer, more) = ways.split_at_mut(k);
                for sum in (rank..=(reached + rank).min(most)).rev() {
                    more[0][sum] += fewer[k - 1][sum - rank];
                }
            }
            reached = (reached + rank).min(most);
        }
        before += group.size;
    }
    let ways = &ways[n];
    let total: f64 = ways.iter().sum();
    let at_most: f64 = ways[..=twice_ranks].iter().sum();
    let at_least: f64 = ways[twice_ranks..].iter().sum();
    (2.0 * at_most.min(at_least) / total).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples::new(values.to_vec()).unwrap()
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1e-3), "{found} {expected}");
    }

    const A: [f64; 7] = [19.0, 22.0, 16.0, 29.0, 24.0, 21.0, 30.0];
    const B: [f64; 5] = [20.0, 11.0, 17.0, 12.0, 15.0];

    /// scipy 1.17: `scipy.stats.mannwhitneyu(A, B, method="exact")`.
    #[test]
    fn small_sets_without_ties_are_exact() {
        let test = rank_test(&samples(&A), &samples(&B));
        assert_eq!((test.u, test.method), (32.0, Method::Exact));
        close(test.p, 0.01767676767676768);
        close(test.delta, 2.0 * 32.0 / 35.0 - 1.0);
    }

    const TIED_A: [f64; 6] = [1.0, 2.0, 2.0, 3.0, 5.0, 5.0];
    const TIED_B: [f64; 5] = [2.0, 3.0, 5.0, 7.0, 7.0];

    /// All 462 ways, computed with `itertools.combinations` over `scipy.stats.rankdata(TIED_A + TIED_B)`: twice the
    /// smaller tail of the rank sum.
    #[test]
    fn small_sets_with_ties_are_exact() {
        let test = rank_test(&samples(&TIED_A), &samples(&TIED_B));
        assert_eq!((test.u, test.method), (7.5, Method::Exact));
        close(test.p, 2.0 * 56.0 / 462.0);
    }

    /// scipy 1.17: `mannwhitneyu(a, b, method="asymptotic", use_continuity=True)` for
    /// `a = [100 + i * 7 % 23 for i in range(60)]`, `b = [101 + i * 5 % 19 for i in range(50)]`: many ties.
    #[test]
    fn large_sets_use_the_normal_approximation() {
        let a: Vec<f64> = (0..60).map(|i| f64::from(100 + i * 7 % 23)).collect();
        let b: Vec<f64> = (0..50).map(|i| f64::from(101 + i * 5 % 19)).collect();
        let test = rank_test(&samples(&a), &samples(&b));
        assert_eq!((test.u, test.method), (1643.0, Method::Normal));
        close(test.p, 0.3918196962213951);
        // A clear shift: `b` replaced by `[107 + ...]`.
        let c: Vec<f64> = b.iter().map(|x| x + 6.0).collect();
        let test = rank_test(&samples(&a), &samples(&c));
        assert_eq!(test.u, 897.5);
        close(test.p, 0.00029774043347021296);
    }

    #[test]
    fn both_methods_agree_at_the_switch() {
        let a: Vec<f64> = (0..20).map(|i| 10.0 + f64::from(i * 13 % 20)).collect();
        let b: Vec<f64> = (0..20).map(|i| 13.4 + f64::from(i * 7 % 20)).collect();
        let (a, b) = (samples(&a), samples(&b));
        let groups = tie_groups(a.sorted(), b.sorted());
        let test = rank_test(&a, &b);
        assert_eq!(test.method, Method::Exact);
        let normal = normal_p(&groups, 20, 20, test.u);
        assert!((test.p - normal).abs() < 0.003, "{} {normal}", test.p);
    }

    #[test]
    fn the_delta_is_positive_if_the_first_set_is_larger() {
        let (high, low) = (samples(&[5.0, 6.0, 7.0, 8.0]), samples(&[1.0, 2.0, 3.0]));
        let (test, swapped) = (rank_test(&high, &low), rank_test(&low, &high));
        assert_eq!((test.delta, swapped.delta), (1.0, -1.0));
        assert_eq!((test.u, swapped.u), (12.0, 0.0));
        // Two of C(7, 3) = 35 ways are as extreme.
        close(test.p, 2.0 / 35.0);
        assert_eq!(test.p, swapped.p);
    }

    #[test]
    fn sets_of_very_different_sizes_are_exact() {
        let many: Vec<f64> = (1..=399).map(f64::from).collect();
        let (many, one) = (samples(&many), samples(&[398.5]));
        let (test, swapped) = (rank_test(&one, &many), rank_test(&many, &one));
        // One of 400 positions is higher.
        close(test.p, 2.0 * 2.0 / 400.0);
        assert_eq!((test.p, test.method), (swapped.p, Method::Exact));
        assert_eq!((test.u, swapped.u), (398.0, 1.0));
    }

    #[test]
    fn equal_sets_have_a_p_value_of_one() {
        for count in [3, 30] {
            let same = samples(&vec![4.0; count]);
            let test = rank_test(&same, &same);
            assert_eq!((test.p, test.delta), (1.0, 0.0));
        }
    }
}
