//! Problems that are derived from the declaration: edge cases, random problems, and smaller ones.

use random::Random;

use crate::declaration::{Declaration, Size};
use crate::problem::DeclaredProblem;

/// Sizes at which kernels often have edge cases: one, primes, and powers of two plus and minus one.
const EDGES: [i64; 10] = [1, 2, 7, 31, 33, 127, 129, 255, 257, 1021];
/// The edge cases of variants other than the first, which share most of their code with it.
const FEW_EDGES: [i64; 3] = [1, 33, 129];
/// The other sizes of an edge case, by the number of sizes along which rows are not independent.
const ORDINARY: [i64; 5] = [64, 64, 64, 16, 8];
/// Most work of a random problem, in operations or bytes.
const FUZZED_WORK: f64 = 4e6;
/// Most work of an edge case, in bytes or multiply-adds: a product of 64 x 64 x 1021 is just below.
const EDGE_WORK: f64 = 4.2e6;
/// The number of independent rows in the edge cases of other sizes, and the largest number in their own edge cases.
const FEW_ROWS: i64 = 3;
const MOST_ROWS: i64 = 33;
/// Largest size of a random problem.
const FUZZED: i64 = 1500;

impl Declaration {
    /// Problems in which one size is an edge case. `tiles`: sizes of tiles that the families use.
    pub fn edges(&self, tiles: &[i64]) -> Vec<DeclaredProblem> {
        let mut problems: Vec<DeclaredProblem> = Vec::new();
        let mut add = |problem: DeclaredProblem| {
            if !problems.contains(&problem) && self.check_bytes(&problem).is_ok() {
                problems.push(problem);
            }
        };
        for (variant, axes) in self.all_axes().into_iter().enumerate() {
            let smallest = self.sizes.iter().map(|size| (size.name.clone(), size.nearest(1)));
            add(DeclaredProblem { sizes: smallest.collect(), axes: axes.clone() });
            for index in 0..self.sizes.len() {
                for number in self.edges_of(index, variant, tiles) {
                    let ordinary = |size: &Size| {
                        let number = if self.is_independent(size) { FEW_ROWS } else { self.ordinary() };
                        (size.name.clone(), size.nearest(number))
                    };
                    let mut sizes: Vec<_> = self.sizes.iter().map(ordinary).collect();
                    sizes[index].1 = self.sizes[index].nearest(number);
                    add(self.light(DeclaredProblem { sizes, axes: axes.clone() }, index));
                }
            }
        }
        problems
    }

    /// Halves the largest of the other sizes until the problem is light: a tensor may have a size in two dimensions.
    fn light(&self, mut problem: DeclaredProblem, edge: usize) -> DeclaredProblem {
        loop {
            let work = self.work(&problem);
            if (work.flops / 2.0).max(work.bytes as f64) <= EDGE_WORK {
                return problem;
            }
            let half = |index: usize| self.sizes[index].nearest(problem.sizes[index].1 / 2);
            let others = (0..self.sizes.len()).filter(|&index| index != edge);
            let smaller = others.filter(|&index| half(index) < problem.sizes[index].1);
            let Some(index) = smaller.max_by_key(|&index| problem.sizes[index].1) else { return problem };
            problem.sizes[index].1 = half(index);
        }
    }

    fn ordinary(&self) -> i64 {
        let count = self.sizes.iter().filter(|size| !self.is_independent(size)).count();
        ORDINARY[count.min(ORDINARY.len() - 1)]
    }

    fn is_independent(&self, size: &Size) -> bool {
        self.independent.contains(&size.name)
    }

    /// The edge cases of one size. Many independent rows only repeat the same work.
    fn edges_of(&self, index: usize, variant: usize, tiles: &[i64]) -> Vec<i64> {
        let independent = self.is_independent(&self.sizes[index]);
        let most = if independent { MOST_ROWS } else { i64::MAX };
        let near_tiles = tiles.iter().flat_map(|tile| [tile - 1, *tile, tile + 1]);
        let all = EDGES.into_iter().chain(near_tiles).filter(|number| (1..=most).contains(number));
        match variant {
            0 => all.collect(),
            _ => FEW_EDGES.into_iter().filter(|number| *number <= most).collect(),
        }
    }

    /// A small problem whose sizes are multiples of no tile.
    pub fn small(&self) -> DeclaredProblem {
        const SMALL: i64 = 200;
        let number = |size: &Size| if self.is_independent(size) { MOST_ROWS } else { SMALL };
        let sizes = self.sizes.iter().map(|size| (size.name.clone(), size.nearest(number(size))));
        let axes = self.axes.iter().map(|axis| (axis.name.clone(), axis.values[0].clone()));
        self.bounded(DeclaredProblem { sizes: sizes.collect(), axes: axes.collect() }, FUZZED_WORK)
    }

    /// The problem of which every size has its default; `None` if one has none.
    pub fn defaults(&self) -> Option<DeclaredProblem> {
        let sizes = self.sizes.iter().map(|size| Some((size.name.clone(), size.default?)));
        let axes = self.axes.iter().map(|axis| (axis.name.clone(), axis.values[0].clone()));
        let problem = DeclaredProblem { sizes: sizes.collect::<Option<_>>()?, axes: axes.collect() };
        self.check_bytes(&problem).is_ok().then_some(problem)
    }

    /// Every combination of the values of the axes.
    fn all_axes(&self) -> Vec<Vec<(String, family::Value)>> {
        let mut all = vec![Vec::new()];
        for axis in &self.axes {
            let longer = |before: &Vec<(String, family::Value)>| {
                let with = |value: &family::Value| {
                    let mut axes = before.clone();
                    axes.push((axis.name.clone(), value.clone()));
                    axes
                };
                axis.values.iter().map(with).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// A random problem.
    pub fn fuzzed(&self, draw: u64) -> DeclaredProblem {
        let mut random = Random::new(draw);
        let sizes = self.sizes.iter().map(|size| {
            let edge = EDGES[random.integer(0, EDGES.len() as i64) as usize];
            let number = if random.uniform() < 0.5 { edge } else { random.integer(1, FUZZED) };
            let number = if self.is_independent(size) { number % (2 * MOST_ROWS) + 1 } else { number };
            (size.name.clone(), size.nearest(number))
        });
        let sizes = sizes.collect();
        let axes = self.axes.iter().map(|axis| {
            let index = random.integer(0, axis.values.len() as i64) as usize;
            (axis.name.clone(), axis.values[index].clone())
        });
        let axes = axes.collect();
        let problem = DeclaredProblem { sizes, axes };
        let problem = self.bounded(problem, FUZZED_WORK);
        // A combination of sizes that the op cannot have becomes the smallest problem.
        if self.check_bytes(&problem).is_ok() {
            return problem;
        }
        let smallest = self.sizes.iter().map(|size| (size.name.clone(), size.nearest(1))).collect();
        DeclaredProblem { sizes: smallest, ..problem }
    }

    /// Halves the largest size until the work is at most `most`.
    fn bounded(&self, mut problem: DeclaredProblem, most: f64) -> DeclaredProblem {
        for _ in 0..256 {
            let work = self.work(&problem);
            let is_small = self.check_bytes(&problem).is_ok() && work.flops.max(work.bytes as f64) <= most;
            let largest = (0..problem.sizes.len()).max_by_key(|&index| problem.sizes[index].1);
            let Some(index) =
                largest.filter(|&index| !is_small && problem.sizes[index].1 > self.sizes[index].min)
            else {
                break;
            };
            let before = problem.sizes[index].1;
            problem.sizes[index].1 = self.sizes[index].nearest(before / 2);
            if problem.sizes[index].1 >= before {
                break;
            }
        }
        problem
    }

    /// A smaller problem with about `flops` operations. The sizes along which rows are independent are reduced
    /// first, then the largest. A reduced size keeps its remainder, and so its incomplete tile.
    pub fn cut(&self, problem: &DeclaredProblem, flops: f64) -> DeclaredProblem {
        let mut cut = problem.clone();
        let fits = |cut: &DeclaredProblem| {
            let work = self.work(cut);
            work.flops.max(work.bytes as f64) <= flops
        };
        for _ in 0..256 {
            if fits(&cut) {
                break;
            }
            let index = (0..self.sizes.len())
                .filter(|&index| self.smaller(index, cut.sizes[index].1).is_some())
                .max_by_key(|&index| (self.independent.contains(&cut.sizes[index].0), cut.sizes[index].1));
            let Some((index, smaller)) =
                index.and_then(|index| Some((index, self.smaller(index, cut.sizes[index].1)?)))
            else {
                break;
            };
            let before = std::mem::replace(&mut cut.sizes[index].1, smaller);
            if self.check_bytes(&cut).is_err() {
                cut.sizes[index].1 = before;
                break;
            }
        }
        cut
    }

    /// About half of a size, with the same remainder for every tile of up to 128. `None` if it is already small.
    fn smaller(&self, index: usize, number: i64) -> Option<i64> {
        const UNIT: i64 = 128;
        let size = &self.sizes[index];
        let half = number / 2 / UNIT * UNIT + number % UNIT;
        let half = if half == 0 { UNIT } else { half };
        (half < number && size.refusal(half).is_none()).then_some(half)
    }
}

#[cfg(test)]
mod tests {
    use family::OpFiles;

    use crate::declared_op::DeclaredOp;

    #[test]
    fn edge_cases_of_a_tensor_that_has_a_size_twice_are_light() {
        let manifest = "description = \"doubles\"\nreference = \"op.py:f\"\n\
             [sizes]\nheads = { default = 3 }\nn = { default = 70 }\n\
             [[arguments]]\nname = \"x\"\nkind = \"in\"\ndtype = \"fp32\"\nshape = [\"heads\", \"n\", \"n\"]\n\
             [[arguments]]\nname = \"y\"\nkind = \"out\"\ndtype = \"fp32\"\nshape = [\"heads\", \"n\", \"n\"]\n\
             [work]\nflops = \"heads * n * n\"\n";
        let files = OpFiles { name: "op".to_owned(), manifest: manifest.to_owned(), ..OpFiles::default() };
        let op = DeclaredOp::without_scripts(&files).unwrap();
        let edges: Vec<String> = op.declaration.edges(&[]).iter().map(ToString::to_string).collect();
        // With 64 and more of the other size they have 4 and 66 million numbers, which takes minutes.
        for name in ["heads1021-n16", "heads1-n1021", "heads64-n33", "heads64-n64"] {
            assert_eq!(edges.iter().any(|edge| edge == name), name != "heads64-n64", "{name}: {edges:?}");
        }
    }
}
