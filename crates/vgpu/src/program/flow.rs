//! Basic blocks, and the order in which divergent lanes run them.
//!
//! If the lanes of a warp are at different blocks, the warp runs the block that comes first in a fixed order ("thread
//! frontiers"). In this order every block precedes its successors, except along back edges, and all blocks of a loop
//! precede the exits of the loop. Lanes that are ahead wait where paths join, until the other lanes arrive there.

use crate::isa::op::{Inst, Op};

#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The block holds instructions `start..end`.
    pub start: u32,
    pub end: u32,
    pub successors: Vec<u32>,
    /// Position in the order. A smaller value runs first.
    pub priority: u32,
    /// True if an instruction of the block accesses global memory.
    pub touches: bool,
}

/// Splits instructions into blocks. On entry, branch targets are instruction numbers; on return, they are block
/// numbers.
pub fn split(insts: &mut [Inst]) -> Vec<Block> {
    let n = insts.len();
    let mut leader = vec![false; n + 1];
    leader[0] = true;
    for (i, inst) in insts.iter().enumerate() {
        match &inst.op {
            Op::Branch { target } => leader[*target as usize] = true,
            Op::BranchIndexed { targets } => targets.iter().for_each(|t| leader[*t as usize] = true),
            _ => {}
        }
        if inst.op.properties().ends_block {
            leader[i + 1] = true;
        }
    }
    let mut block_at = vec![0u32; n];
    let mut blocks: Vec<Block> = Vec::new();
    for i in 0..n {
        if leader[i] {
            blocks.push(Block { start: i as u32, end: i as u32, ..Block::default() });
        }
        let at = blocks.len() as u32 - 1;
        block_at[i] = at;
        let block = &mut blocks[at as usize];
        block.end = i as u32 + 1;
        block.touches |= insts[i].op.properties().touches_global;
    }
    let count = blocks.len() as u32;
    for (b, block) in blocks.iter_mut().enumerate() {
        let last = &mut insts[block.end as usize - 1];
        let always = last.guard.is_always();
        let next = b as u32 + 1;
        match &mut last.op {
            Op::Branch { target } => {
                *target = block_at[*target as usize];
                block.successors.push(*target);
                if !always && next < count {
                    block.successors.push(next);
                }
            }
            Op::BranchIndexed { targets } => {
                for target in targets.iter_mut() {
                    *target = block_at[*target as usize];
                    block.successors.push(*target);
                }
                if !always && next < count {
                    block.successors.push(next);
                }
            }
            Op::Return | Op::Exit | Op::Trap { .. } if always => {}
            _ if next < count => block.successors.push(next),
            _ => {}
        }
        block.successors.sort_unstable();
        block.successors.dedup();
    }
    prioritise(&mut blocks);
    blocks
}

/// Loops that are nested deeper than this keep the order of the text. That is always correct, but lanes reconverge
/// later.
const MAX_LOOP_DEPTH: u32 = 40;

fn prioritise(blocks: &mut [Block]) {
    let all: Vec<u32> = (0..blocks.len() as u32).collect();
    let mut order = Vec::with_capacity(blocks.len());
    let mut scratch = Components::new(blocks.len());
    order_region(blocks, &all, 0, &mut scratch, &mut order, 0);
    for (position, b) in order.iter().enumerate() {
        blocks[*b as usize].priority = position as u32;
    }
}

/// Appends the blocks of a region that is entered at `head`: its strongly connected components in topological order,
/// each loop in one piece with its head first.
fn order_region(
    blocks: &[Block],
    region: &[u32],
    head: u32,
    scratch: &mut Components,
    order: &mut Vec<u32>,
    depth: u32,
) {
    if depth > MAX_LOOP_DEPTH || region.len() == 1 {
        order.extend_from_slice(region);
        return;
    }
    for component in scratch.find(blocks, region, head) {
        if let [one] = component[..] {
            order.push(one);
            continue;
        }
        // The head of a loop is the block that is entered from outside: the head of the region, or the first such
        // block.
        let inside = |b: u32| component.binary_search(&b).is_ok();
        let entered = |b: u32| {
            region.iter().any(|from| !inside(*from) && blocks[*from as usize].successors.contains(&b))
        };
        let loop_head = if inside(head) {
            head
        } else {
            component.iter().copied().find(|b| entered(*b)).unwrap_or(component[0])
        };
        order.push(loop_head);
        let rest: Vec<u32> = component.iter().copied().filter(|b| *b != loop_head).collect();
        let next = blocks[loop_head as usize]
            .successors
            .iter()
            .copied()
            .find(|s| rest.contains(s))
            .unwrap_or(rest[0]);
        order_region(blocks, &rest, next, scratch, order, depth + 1);
    }
}

/// Returns the strongly connected components of all blocks.
pub fn components(blocks: &[Block]) -> Vec<Vec<u32>> {
    let all: Vec<u32> = (0..blocks.len() as u32).collect();
    Components::new(blocks.len()).find(blocks, &all, 0)
}

/// Which blocks can be reached from each block.
#[derive(Debug)]
pub struct Reachable {
    words: usize,
    bits: Vec<u64>,
}

/// Up to this number of blocks it is known what can be reached. In a larger function nothing counts as reachable.
const MAX_REACHABLE: usize = 4096;

impl Reachable {
    pub fn new(blocks: &[Block]) -> Reachable {
        let n = if blocks.len() > MAX_REACHABLE { 0 } else { blocks.len() };
        let words = n.div_ceil(64);
        let mut bits = vec![0u64; n * words];
        let mut open: Vec<u32> = Vec::new();
        for b in 0..n {
            let row = &mut bits[b * words..(b + 1) * words];
            open.extend(&blocks[b].successors);
            while let Some(s) = open.pop() {
                let (word, bit) = (s as usize / 64, 1 << (s % 64));
                if row[word] & bit == 0 {
                    row[word] |= bit;
                    open.extend(&blocks[s as usize].successors);
                }
            }
        }
        Reachable { words, bits }
    }

    pub fn contains(&self, from: u32, to: u32) -> bool {
        let word = self.bits.get(from as usize * self.words + to as usize / 64);
        word.is_some_and(|word| word >> (to % 64) & 1 == 1)
    }
}

/// Returns the loops, inner ones included, each as a sorted list of blocks.
pub fn loops(blocks: &[Block]) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    let mut open: Vec<(Vec<u32>, u32)> = vec![((0..blocks.len() as u32).collect(), 0)];
    let mut scratch = Components::new(blocks.len());
    while let Some((region, depth)) = open.pop() {
        let Some(head) = region.first().copied() else { continue };
        for component in scratch.find(blocks, &region, head) {
            let entry = component[0];
            if component.len() == 1 && !blocks[entry as usize].successors.contains(&entry) {
                continue;
            }
            if depth < MAX_LOOP_DEPTH {
                // Without the block at which the loop is entered, only the inner loops remain.
                open.push((component.iter().copied().filter(|b| *b != entry).collect(), depth + 1));
            }
            found.push(component);
        }
    }
    found
}

/// Tarjan's algorithm for strongly connected components, without recursion.
struct Components {
    member: Vec<bool>,
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
}

const UNSEEN: u32 = u32::MAX;

impl Components {
    fn new(n: usize) -> Components {
        Components {
            member: vec![false; n],
            index: vec![UNSEEN; n],
            low: vec![0; n],
            on_stack: vec![false; n],
        }
    }

    /// Returns the components of the region in topological order, each sorted.
    fn find(&mut self, blocks: &[Block], region: &[u32], head: u32) -> Vec<Vec<u32>> {
        for b in region {
            self.member[*b as usize] = true;
            self.index[*b as usize] = UNSEEN;
        }
        let mut components = Vec::new();
        let mut counter = 0;
        let mut stack = Vec::new();
        let mut work: Vec<(u32, usize)> = Vec::new();
        // Unreachable blocks are additional roots, after the reachable blocks.
        for root in std::iter::once(head).chain(region.iter().copied()) {
            if self.index[root as usize] != UNSEEN {
                continue;
            }
            work.push((root, 0));
            while let Some((b, next)) = work.pop() {
                let v = b as usize;
                if next == 0 {
                    self.index[v] = counter;
                    self.low[v] = counter;
                    counter += 1;
                    stack.push(b);
                    self.on_stack[v] = true;
                }
                let successors = &blocks[v].successors;
                let mut descended = false;
                for (k, s) in successors.iter().enumerate().skip(next) {
                    let w = *s as usize;
                    if !self.member[w] {
                        continue;
                    }
                    if self.index[w] == UNSEEN {
                        work.push((b, k + 1));
                        work.push((*s, 0));
                        descended = true;
                        break;
                    }
                    if self.on_stack[w] {
                        self.low[v] = self.low[v].min(self.index[w]);
                    }
                }
                if descended {
                    continue;
                }
                if self.low[v] == self.index[v] {
                    let mut component = Vec::new();
                    while let Some(w) = stack.pop() {
                        self.on_stack[w as usize] = false;
                        component.push(w);
                        if w == b {
                            break;
                        }
                    }
                    component.sort_unstable();
                    components.push(component);
                }
                if let Some((parent, _)) = work.last() {
                    let p = *parent as usize;
                    self.low[p] = self.low[p].min(self.low[v]);
                }
            }
        }
        for b in region {
            self.member[*b as usize] = false;
        }
        components.reverse();
        components
    }
}
