//! Where the lanes of a warp can come from when they enter a block.

use crate::isa::op::Op;
use crate::program::facts::Code;
use crate::program::{control, flow};

/// When a lane goes from a block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// If the guard of the block's last instruction is true.
    True,
    False,
}

/// A way into a block.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    pub from: u32,
    pub when: When,
    /// The first block of the outermost loop that the edge leaves: all lanes that have entered the loop leave it.
    pub leaves: Option<u32>,
}

/// The ways into a block from blocks before it.
#[derive(Debug, Default)]
pub struct Entry {
    pub edges: Vec<Edge>,
    /// Whether exactly one edge brings each lane, and their blocks have run as often as this one.
    pub is_join: bool,
    /// The blocks whose branches decide between the edges.
    pub decides: Vec<u32>,
}

/// Limit of blocks x registers with several definitions. In larger functions no block is a join.
const MAX_JOINS: usize = 1 << 16;

/// The ways into each block. `decided_by`: the blocks whose branches decide whether a block runs.
pub fn entries(code: &Code<'_>, decided_by: &[Vec<u32>], joined: usize) -> Vec<Entry> {
    let count = code.blocks.len();
    let mut entries: Vec<Entry> = (0..count).map(|_| Entry::default()).collect();
    if count.saturating_mul(joined) > MAX_JOINS {
        return entries;
    }
    let loops = flow::loops(code.blocks);
    let dominators = control::dominators(code.blocks);
    let mut returns = vec![false; count];
    for (from, block) in (0u32..).zip(code.blocks) {
        for &to in &block.successors {
            if to <= from {
                returns[to as usize] = true;
                continue;
            }
            let inside =
                |all: &&Vec<u32>| all.binary_search(&from).is_ok() && all.binary_search(&to).is_err();
            let left = loops.iter().filter(inside).max_by_key(|all| all.len());
            let leaves = left.and_then(|all| all.first().copied());
            entries[to as usize].edges.push(Edge { from, when: when(code, from, to), leaves });
        }
    }
    for (b, entry) in entries.iter_mut().enumerate() {
        let indexed = |edge: &Edge| {
            let last = code.insts.get((code.blocks[edge.from as usize].end as usize).wrapping_sub(1));
            last.is_none_or(|inst| matches!(inst.op, Op::BranchIndexed { .. }))
        };
        let edges = &entry.edges;
        entry.is_join = !returns[b]
            && edges.len() > 1
            && !edges.iter().any(|edge| edge.leaves.is_some() || indexed(edge));
        if entry.is_join {
            entry.decides = deciding(edges, decided_by, |block| may_decide(block, b as u32, &dominators));
        }
    }
    entries
}

fn when(code: &Code<'_>, from: u32, to: u32) -> When {
    let last = &code.insts[code.blocks[from as usize].end as usize - 1];
    match &last.op {
        _ if last.guard.is_always() => When::Always,
        Op::Branch { target } if *target == to && from + 1 == to => When::Always,
        Op::Branch { target } if *target == to => When::True,
        Op::Branch { .. } | Op::Return | Op::Exit | Op::Trap { .. } => When::False,
        _ => When::Always,
    }
}

/// Whether the branch of a block may decide on which way lanes come to `join`. A block above the dominator of `join` only
/// decides whether they come, and one that is not before `join` only decides about the next turn of a loop.
fn may_decide(block: u32, join: u32, dominators: &[Option<u32>]) -> bool {
    let Some(top) = dominators[join as usize] else { return true };
    let mut at = block;
    while at != top {
        match dominators[at as usize] {
            Some(parent) if parent != at => at = parent,
            Some(_) => return false,
            None => break,
        }
    }
    block < join
}

/// The blocks that decide between edges.
fn deciding(edges: &[Edge], decided_by: &[Vec<u32>], may_decide: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let conditional = edges.iter().filter(|edge| edge.when != When::Always).map(|edge| edge.from);
    let mut open: Vec<u32> = conditional.collect();
    open.extend(edges.iter().flat_map(|edge| &decided_by[edge.from as usize]));
    while let Some(block) = open.pop() {
        if may_decide(block) && !found.contains(&block) {
            found.push(block);
            open.extend(&decided_by[block as usize]);
        }
    }
    found.sort_unstable();
    found
}
