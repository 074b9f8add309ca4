//! Control dependence: which branches decide whether a block runs.
//!
//! A block depends on a branch if one way from the branch always leads to the block and another way can avoid it. This
//! follows from the post-dominators of the blocks (the algorithm of Cooper, Harvey and Kennedy).

use super::flow::{self, Block};

#[derive(Debug)]
pub struct ControlFlow {
    /// The blocks whose last branch decides directly whether the block runs.
    pub depends_on: Vec<Vec<u32>>,
    /// True if the block is part of a loop.
    pub in_loop: Vec<bool>,
}

impl ControlFlow {
    pub fn new(blocks: &[Block]) -> ControlFlow {
        let mut in_loop = vec![false; blocks.len()];
        for component in flow::components(blocks) {
            let cyclic = match component[..] {
                [one] => blocks[one as usize].successors.contains(&one),
                _ => true,
            };
            for b in component {
                in_loop[b as usize] = cyclic;
            }
        }
        ControlFlow { depends_on: dependences(blocks), in_loop }
    }
}

const UNKNOWN: u32 = u32::MAX;

fn dependences(blocks: &[Block]) -> Vec<Vec<u32>> {
    let n = blocks.len();
    let exit = n as u32;
    let parent = post_dominators(blocks);
    let mut depends_on: Vec<Vec<u32>> = vec![Vec::new(); n];
    for (a, block) in blocks.iter().enumerate().filter(|(_, block)| block.successors.len() > 1) {
        for &s in &block.successors {
            let mut at = s;
            while at != exit && at != UNKNOWN && at != parent[a] {
                let list = &mut depends_on[at as usize];
                if list.last() != Some(&(a as u32)) {
                    list.push(a as u32);
                }
                at = parent[at as usize];
            }
        }
    }
    depends_on
}

/// The immediate post-dominator of each block. The number of blocks stands for the end of the function.
fn post_dominators(blocks: &[Block]) -> Vec<u32> {
    let n = blocks.len();
    let exit = n as u32;
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); n + 1];
    for (b, block) in (0..).zip(blocks) {
        for &s in &block.successors {
            before[s as usize].push(b);
        }
        if block.successors.is_empty() {
            before[n].push(b);
        }
    }
    let mut rank = vec![UNKNOWN; n + 1];
    let mut order = Vec::with_capacity(n + 1);
    visit(exit, &before, &mut rank, &mut order);
    // A loop without an end reaches no exit. One of its blocks counts as if the function could end there.
    let mut may_end = vec![false; n];
    for b in (0..exit).rev() {
        if rank[b as usize] == UNKNOWN {
            may_end[b as usize] = true;
            visit(b, &before, &mut rank, &mut order);
        }
    }
    // The exit gets the highest rank, so that every walk up the tree ends there.
    order.retain(|b| *b != exit);
    order.push(exit);
    for (position, b) in (0..).zip(&order) {
        rank[*b as usize] = position;
    }
    let end = |b: u32| may_end.get(b as usize).is_some_and(|ends| *ends).then_some(exit);
    immediate(&order, &rank, |b| blocks[b as usize].successors.iter().copied().chain(end(b)))
}

/// The immediate dominator of each block: the last block that every way from the entry to the block passes before it. The
/// entry is its own. `None` for blocks that nothing reaches.
pub fn dominators(blocks: &[Block]) -> Vec<Option<u32>> {
    let n = blocks.len();
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); n];
    for (b, block) in (0..).zip(blocks) {
        block.successors.iter().for_each(|s| before[*s as usize].push(b));
    }
    let after: Vec<Vec<u32>> = blocks.iter().map(|block| block.successors.clone()).collect();
    let (mut rank, mut order) = (vec![UNKNOWN; n], Vec::with_capacity(n));
    if n > 0 {
        visit(0, &after, &mut rank, &mut order);
    }
    for (position, b) in (0..).zip(&order) {
        rank[*b as usize] = position;
    }
    let parents = immediate(&order, &rank, |b| before[b as usize].iter().copied());
    parents.into_iter().map(|parent| (parent != UNKNOWN).then_some(parent)).collect()
}

/// The immediate dominators of the blocks in `order`, whose last one is the root of all ways. `rank` is their position in
/// it, and `before` gives the blocks straight before one on the ways from the root.
fn immediate<I: Iterator<Item = u32>>(order: &[u32], rank: &[u32], before: impl Fn(u32) -> I) -> Vec<u32> {
    let mut parent = vec![UNKNOWN; rank.len()];
    let Some(&root) = order.last() else { return parent };
    parent[root as usize] = root;
    let mut changed = true;
    while changed {
        changed = false;
        for &b in order.iter().rev().skip(1) {
            let known = before(b).filter(|s| parent[*s as usize] != UNKNOWN);
            let new = known.reduce(|x, y| meet(x, y, &parent, rank)).unwrap_or(root);
            changed |= parent[b as usize] != new;
            parent[b as usize] = new;
        }
    }
    parent
}

fn meet(mut a: u32, mut b: u32, parent: &[u32], rank: &[u32]) -> u32 {
    while a != b {
        while rank[a as usize] < rank[b as usize] {
            a = parent[a as usize];
        }
        while rank[b as usize] < rank[a as usize] {
            b = parent[b as usize];
        }
    }
    a
}

/// Appends the blocks that the edges of `before` lead to from `root`, each after those that it leads to (a post-order).
fn visit(root: u32, before: &[Vec<u32>], rank: &mut [u32], order: &mut Vec<u32>) {
    let mut work = vec![(root, 0)];
    rank[root as usize] = 0;
    while let Some((b, next)) = work.pop() {
        match before[b as usize].get(next) {
            Some(&p) => {
                work.push((b, next + 1));
                if rank[p as usize] == UNKNOWN {
                    rank[p as usize] = 0;
                    work.push((p, 0));
                }
            }
            None => order.push(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(successors: &[&[u32]]) -> Vec<Block> {
        successors.iter().map(|s| Block { successors: s.to_vec(), ..Block::default() }).collect()
    }

    #[test]
    fn the_arms_of_a_branch_depend_on_it_and_the_join_does_not() {
        let flow = ControlFlow::new(&graph(&[&[1, 2], &[3], &[3], &[]]));
        assert_eq!(flow.depends_on, [vec![], vec![0], vec![0], vec![]]);
        assert_eq!(flow.in_loop, [false; 4]);
    }

    #[test]
    fn the_body_of_a_loop_depends_on_its_own_branch() {
        let flow = ControlFlow::new(&graph(&[&[1], &[1, 2], &[]]));
        assert_eq!(flow.depends_on, [vec![], vec![1], vec![]]);
        assert_eq!(flow.in_loop, [false, true, false]);
    }

    #[test]
    fn every_way_to_a_block_passes_its_dominator() {
        // A loop of 1 to 4, with a branch that joins in 4; nothing reaches 6.
        let blocks = graph(&[&[1], &[2, 3], &[4], &[4, 5], &[1, 5], &[], &[5]]);
        let expected = [Some(0), Some(0), Some(1), Some(1), Some(1), Some(1), None];
        assert_eq!(dominators(&blocks), expected);
        assert_eq!(dominators(&[]), []);
    }

    #[test]
    fn a_loop_without_an_end_is_analysed() {
        let flow = ControlFlow::new(&graph(&[&[1, 2], &[1], &[]]));
        assert!(flow.depends_on[1].contains(&0));
        assert!(flow.in_loop[1]);
    }
}
