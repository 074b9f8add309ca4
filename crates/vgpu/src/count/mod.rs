//! Counters: what hardware would have counted, per kernel and per instruction.

mod chain;
mod critical;
mod polls;
mod timeline;
mod trace;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use chain::Chains;
pub use chain::Waits;
pub(crate) use critical::{BlockPath, CopyGroups};
pub(crate) use polls::Polls;
#[cfg(test)]
pub(crate) use timeline::KindTimeline;
pub(crate) use timeline::{Product, Step, Timeline, Work};
pub(crate) use trace::{BlockLoad, CopyKind, Event, Phase, Phases, Traces, WarpTrace};

use crate::isa::decode::Pipe;
use crate::isa::op::Op;
pub use crate::isa::properties::InstructionClass as Class;
use crate::num::tile::Elem;
use crate::program::{Kernel, SourceFrame, SourceMap};

/// Counts of one instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InstCount {
    /// Number of warps that executed the instruction.
    pub issued: u64,
    /// Number of active lanes in those warps.
    pub lanes: u64,
    /// Requests to global memory.
    pub global: Traffic,
    /// Requests to shared memory.
    pub shared: Traffic,
    /// Requests to local memory.
    pub local: Traffic,
}

/// The counts of one worker.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Counts by instruction.
    pub insts: Vec<InstCount>,
    /// Clocks of each basic block.
    pub chains: Chains,
    /// Branches that split a warp.
    pub divergent: u64,
    /// Warp arrivals at block barriers.
    pub barriers: u64,
    /// Bytes moved by asynchronous copies.
    pub async_bytes: u64,
    /// Bytes of global memory that bulk copies move.
    pub bulk_bytes: u64,
    /// Sectors that L2 must deliver or accept even if L1 holds everything that a block has loaded before.
    pub l2_sectors: u64,
    /// Work per block.
    pub blocks: Blocks,
    /// Distinct 128-byte lines of global memory touched.
    pub lines: std::collections::HashSet<u64>,
    /// Traces of the blocks.
    pub(crate) traces: Traces,
}

/// The work of the blocks of a launch, counted per block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Blocks {
    /// Blocks that ran to their end.
    pub finished: u64,
    /// Maximum number of warp instructions of a block.
    pub busiest: u64,
    /// Clocks that the slowest warp of a block needs if it never waits for a pipe: instructions run one after another
    /// where they depend on each other's results. Sum over all blocks.
    pub chain_clocks: u64,
    /// The same clocks for the slowest block alone.
    pub longest_chain_clocks: u64,
}

impl Counts {
    /// Counts `length` instructions from `at` that a warp runs.
    #[inline]
    pub fn enter(&mut self, at: u32, length: u32, mask: u32) {
        let lanes = u64::from(mask.count_ones());
        for c in &mut self.insts[at as usize..(at + length) as usize] {
            c.issued += 1;
            c.lanes += lanes;
        }
    }

    /// Takes back the last `length` of those instructions, from `at`, because the warp did not run them.
    pub fn leave(&mut self, at: u32, length: u32, mask: u32) {
        let lanes = u64::from(mask.count_ones());
        for c in &mut self.insts[at as usize..(at + length) as usize] {
            c.issued -= 1;
            c.lanes -= lanes;
        }
    }

    /// Counts a block that has ended.
    pub fn block_done(&mut self, instructions: u64, chain: u64) {
        let blocks = &mut self.blocks;
        blocks.finished += 1;
        blocks.busiest = blocks.busiest.max(instructions);
        blocks.chain_clocks += chain;
        blocks.longest_chain_clocks = blocks.longest_chain_clocks.max(chain);
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: Counts) {
        self.traces.merge(other.traces);
        if self.insts.len() < other.insts.len() {
            self.insts.resize(other.insts.len(), InstCount::default());
        }
        for (a, b) in self.insts.iter_mut().zip(&other.insts) {
            a.issued += b.issued;
            a.lanes += b.lanes;
            a.global.add(&b.global);
            a.shared.add(&b.shared);
            a.local.add(&b.local);
        }
        self.divergent += other.divergent;
        self.barriers += other.barriers;
        self.async_bytes += other.async_bytes;
        self.bulk_bytes += other.bulk_bytes;
        self.l2_sectors += other.l2_sectors;
        self.blocks.finished += other.blocks.finished;
        self.blocks.busiest = self.blocks.busiest.max(other.blocks.busiest);
        self.blocks.chain_clocks += other.blocks.chain_clocks;
        self.blocks.longest_chain_clocks =
            self.blocks.longest_chain_clocks.max(other.blocks.longest_chain_clocks);
        self.lines.extend(&other.lines);
    }
}

/// Counters of a launch.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Counters {
    /// Instructions executed by warps.
    pub warp_instructions: u64,
    /// Instructions executed by threads.
    pub thread_instructions: u64,
    /// Warp instructions by pipe.
    pub by_pipe: std::collections::BTreeMap<Pipe, u64>,
    /// Floating-point operations outside the tensor pipe, counted per thread.
    pub flops: u64,
    /// Floating-point operations of the tensor pipe.
    pub tensor_flops: u64,
    /// The operations of the tensor pipe, by the types of the operands and of the accumulator.
    pub tensor: Vec<TensorWork>,
    /// Warp instructions by class.
    pub by_class: std::collections::BTreeMap<Class, u64>,
    /// Branches executed by warps.
    pub branches: u64,
    /// Branches that split a warp.
    pub divergent_branches: u64,
    /// Warp arrivals at block barriers.
    pub barriers: u64,
    /// Bytes moved by asynchronous copies.
    pub async_bytes: u64,
    /// The part of these bytes that bulk copies move between shared and global memory. `global` does not contain them.
    #[serde(default)]
    pub bulk_bytes: u64,
    /// Requests to global memory.
    pub global: Traffic,
    /// Requests to shared memory.
    pub shared: Traffic,
    /// Requests to local memory.
    pub local: Traffic,
    /// Bytes between L1 and L2 if L1 holds everything that a block has loaded before: stores, atomics and asynchronous
    /// copies in full, and each sector that a block loads once. If L1 holds nothing, the number is
    /// `global.transactions` times 32, and `bulk_bytes`.
    pub l2_bytes: u64,
    /// Size in bytes of the distinct 128-byte lines of global memory that were touched. DRAM must deliver at least this
    /// much.
    pub dram_footprint: u64,
    /// Work per block.
    pub blocks: Blocks,
    /// What the clocks of all warps are spent on if the warps never wait for a pipe.
    #[serde(default)]
    pub waits: Waits,
    /// What the blocks do, in order, if the kernel has products of warpgroups. It is not part of files.
    #[serde(skip)]
    pub timeline: Option<Arc<Timeline>>,
    /// Instructions in the text of the kernel, whether executed or not.
    #[serde(default)]
    pub static_instructions: u64,
    /// The counters by source line, most instructions first.
    pub lines: Vec<LineCounters>,
}

/// Memory requests of one kind. A transaction is a 32-byte sector for global and local memory, and a wavefront for
/// shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Traffic {
    /// Number of requests.
    pub requests: u64,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of transactions with perfect coalescing, or without bank conflicts.
    pub ideal: u64,
}

impl Traffic {
    fn add(&mut self, c: &Traffic) {
        self.requests += c.requests;
        self.transactions += c.transactions;
        self.ideal += c.ideal;
    }

    fn times(self, n: u64) -> Traffic {
        Traffic { requests: self.requests * n, transactions: self.transactions * n, ideal: self.ideal * n }
    }
}

/// Operations of the tensor cores on one combination of operand types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TensorWork {
    /// Type of the factors. If the types of A and B differ, this is the type of A.
    pub input: Elem,
    /// Type of the accumulator.
    pub accumulator: Elem,
    /// Number of floating-point operations.
    pub flops: u64,
    /// True for products of warpgroups, which reach the full rate of the tensor cores.
    #[serde(default)]
    pub by_warpgroup: bool,
}

impl Counters {
    fn add_tensor(&mut self, added: TensorWork) {
        self.tensor_flops += added.flops;
        let same = |work: &&mut TensorWork| TensorWork { flops: added.flops, ..**work } == added;
        match self.tensor.iter_mut().find(same) {
            Some(work) => work.flops += added.flops,
            None => self.tensor.push(added),
        }
    }

    /// Returns the counters of `n` such launches side by side: sums grow, extremes stay. Lines are omitted. `memory` is
    /// the factor by which the touched memory grows; it is less than `n` if the launches share memory.
    #[must_use]
    pub fn scaled(&self, n: u64, memory: f64) -> Counters {
        let tensor = self.tensor.iter().map(|work| TensorWork { flops: work.flops * n, ..*work }).collect();
        Counters {
            warp_instructions: self.warp_instructions * n,
            thread_instructions: self.thread_instructions * n,
            by_pipe: self.by_pipe.iter().map(|(pipe, count)| (*pipe, count * n)).collect(),
            flops: self.flops * n,
            tensor_flops: self.tensor_flops * n,
            tensor,
            by_class: self.by_class.iter().map(|(class, count)| (*class, count * n)).collect(),
            branches: self.branches * n,
            divergent_branches: self.divergent_branches * n,
            barriers: self.barriers * n,
            async_bytes: self.async_bytes * n,
            bulk_bytes: self.bulk_bytes * n,
            global: self.global.times(n),
            shared: self.shared.times(n),
            local: self.local.times(n),
            l2_bytes: self.l2_bytes * n,
            dram_footprint: (self.dram_footprint as f64 * memory) as u64,
            blocks: Blocks {
                finished: self.blocks.finished * n,
                chain_clocks: self.blocks.chain_clocks * n,
                ..self.blocks
            },
            waits: self.waits.times(n),
            timeline: self.timeline.clone(),
            static_instructions: self.static_instructions,
            lines: Vec::new(),
        }
    }
}

/// Counters of one source line.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LineCounters {
    /// Source frames of the line, innermost first.
    pub frames: Vec<SourceFrame>,
    /// Instructions executed by warps.
    pub warp_instructions: u64,
    /// Instructions executed by threads.
    pub thread_instructions: u64,
    /// Requests to global memory.
    pub global: Traffic,
    /// Requests to shared memory.
    pub shared: Traffic,
    /// Requests to local memory.
    pub local: Traffic,
}

/// The work of an instruction on the tensor cores, if it is a product of tiles.
fn tensor_work(op: &Op, flops: u64) -> Option<TensorWork> {
    let (input, accumulator, by_warpgroup) = match op {
        Op::Mma(product) => (product.op.a, product.op.d, false),
        Op::Wgmma(product) => (product.op.a, product.op.d, true),
        _ => return None,
    };
    Some(TensorWork { input, accumulator, flops, by_warpgroup })
}

/// Computes the counters of a launch of `blocks` blocks from the summed counts of the workers.
pub(crate) fn summarise(kernel: &Kernel, sources: &SourceMap, counts: &Counts, blocks: u64) -> Counters {
    let mut total = Counters {
        divergent_branches: counts.divergent,
        barriers: counts.barriers,
        async_bytes: counts.async_bytes,
        bulk_bytes: counts.bulk_bytes,
        l2_bytes: counts.l2_sectors * 32,
        dram_footprint: counts.lines.len() as u64 * 128,
        blocks: counts.blocks,
        timeline: (!counts.traces.is_empty()).then(|| Arc::new(Timeline::new(kernel, counts, blocks))),
        ..Counters::default()
    };
    let mut lines: std::collections::BTreeMap<u32, LineCounters> = std::collections::BTreeMap::new();
    for (f, waits) in kernel.functions.iter().zip(chain::waits(&kernel.functions)) {
        total.static_instructions += f.insts.len() as u64;
        for (start, waits) in waits {
            let entered = counts.insts.get((f.first + start) as usize).map_or(0, |c| c.issued);
            total.waits.add(waits, entered);
        }
        for (i, meta) in f.metas.iter().enumerate() {
            let Some(c) = counts.insts.get(f.first as usize + i) else { continue };
            if c.issued == 0 {
                continue;
            }
            total.warp_instructions += c.issued;
            total.thread_instructions += c.lanes;
            let op = &f.insts[i].op;
            *total.by_pipe.entry(meta.pipe).or_default() += c.issued;
            *total.by_class.entry(op.class(meta.pipe)).or_default() += c.issued;
            if matches!(op, Op::Branch { .. } | Op::BranchIndexed { .. }) {
                total.branches += c.issued;
            }
            match tensor_work(op, u64::from(meta.flops) * c.issued) {
                Some(work) => total.add_tensor(work),
                None => total.flops += u64::from(meta.flops) * c.lanes,
            }
            let line = lines.entry(meta.loc).or_insert_with(|| LineCounters {
                frames: sources.stack(meta.loc),
                warp_instructions: 0,
                thread_instructions: 0,
                global: Traffic::default(),
                shared: Traffic::default(),
                local: Traffic::default(),
            });
            line.warp_instructions += c.issued;
            line.thread_instructions += c.lanes;
            for (all, line, c) in [
                (&mut total.global, &mut line.global, &c.global),
                (&mut total.shared, &mut line.shared, &c.shared),
                (&mut total.local, &mut line.local, &c.local),
            ] {
                all.add(c);
                line.add(c);
            }
        }
    }
    total.l2_bytes += total.local.transactions * 32;
    total.lines = lines.into_values().filter(|l| !l.frames.is_empty()).collect();
    total.lines.sort_by_key(|l| std::cmp::Reverse(l.warp_instructions));
    total
}
