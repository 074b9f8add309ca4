//! Counters: what hardware would have counted, per kernel and per instruction.

mod chain;

use serde::{Deserialize, Serialize};

pub use chain::{Chains, Waits};

use crate::isa::decode::Pipe;
use crate::isa::op::Op;
use crate::num::tile::Elem;
use crate::program::{Kernel, SourceFrame, SourceMap};

/// Counts of one instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct InstCount {
    /// Warps that executed it.
    pub issued: u64,
    /// Lanes active in them.
    pub lanes: u64,
    pub global: Traffic,
    pub shared: Traffic,
    pub local: Traffic,
}

/// What one worker counts.
#[derive(Debug, Default)]
pub struct Counts {
    pub insts: Vec<InstCount>,
    /// Clocks of each basic block.
    pub chains: Chains,
    pub divergent: u64,
    pub barriers: u64,
    pub async_bytes: u64,
    /// Sectors that L2 must deliver or take even if L1 holds all a block has loaded before.
    pub l2_sectors: u64,
    pub blocks: Blocks,
    /// Distinct 128-byte lines of global memory touched.
    pub lines: std::collections::HashSet<u64>,
}

/// What the blocks of a launch have to do, each on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Blocks that ran to their end.
    pub finished: u64,
    /// Most warp instructions of a block.
    pub busiest: u64,
    /// Clocks the slowest warp of a block needs if it is never kept waiting for a pipe: its instructions one after
    /// another where they need each other's results. Of all blocks together.
    pub chain_clocks: u64,
    /// The same of the slowest block.
    pub longest_chain_clocks: u64,
}

impl Counts {
    /// A warp runs `length` instructions from `at`.
    #[inline]
    pub fn enter(&mut self, at: u32, length: u32, mask: u32) {
        let lanes = u64::from(mask.count_ones());
        for c in &mut self.insts[at as usize..(at + length) as usize] {
            c.issued += 1;
            c.lanes += lanes;
        }
    }

    /// It has not run the last `length` of them, from `at`, after all.
    pub fn leave(&mut self, at: u32, length: u32, mask: u32) {
        let lanes = u64::from(mask.count_ones());
        for c in &mut self.insts[at as usize..(at + length) as usize] {
            c.issued -= 1;
            c.lanes -= lanes;
        }
    }

    /// A block has ended.
    pub fn block_done(&mut self, instructions: u64, chain: u64) {
        let blocks = &mut self.blocks;
        blocks.finished += 1;
        blocks.busiest = blocks.busiest.max(instructions);
        blocks.chain_clocks += chain;
        blocks.longest_chain_clocks = blocks.longest_chain_clocks.max(chain);
    }

    pub fn merge(&mut self, other: &Counts) {
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    pub warp_instructions: u64,
    pub thread_instructions: u64,
    /// Warp instructions by pipe.
    pub by_pipe: std::collections::BTreeMap<Pipe, u64>,
    /// Floating-point operations outside the tensor pipe, by thread.
    pub flops: u64,
    pub tensor_flops: u64,
    /// The same by the types of the operands and of the sum.
    pub tensor: Vec<TensorWork>,
    /// Warp instructions by what they do.
    pub by_class: std::collections::BTreeMap<Class, u64>,
    /// Branches executed by warps, and those that split one.
    pub branches: u64,
    pub divergent_branches: u64,
    /// Warp arrivals at block barriers.
    pub barriers: u64,
    pub async_bytes: u64,
    pub global: Traffic,
    pub shared: Traffic,
    pub local: Traffic,
    /// Bytes between L1 and L2 if L1 holds whatever a block has loaded before: stores, atomics and asynchronous copies
    /// in full, every sector a block loads once. `global.transactions` times 32 is what goes there if L1 holds nothing.
    pub l2_bytes: u64,
    /// Distinct 128-byte lines of global memory: what DRAM must deliver at least, in bytes.
    pub dram_footprint: u64,
    pub blocks: Blocks,
    /// What the clocks of all warps are spent on if they never wait for a pipe.
    #[serde(default)]
    pub waits: Waits,
    /// Instructions in the text of the kernel, executed or not.
    #[serde(default)]
    pub static_instructions: u64,
    /// The same by source line, most instructions first.
    pub lines: Vec<LineCounters>,
}

/// Memory requests of one kind: for global and local memory transactions are 32-byte sectors, for shared memory
/// wavefronts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub requests: u64,
    pub transactions: u64,
    /// What the requests would have taken with perfect coalescing, or without bank conflicts.
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

/// Operations of the tensor cores on one kind of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorWork {
    /// Type of the factors; of A, where B's differs.
    pub input: Elem,
    pub accumulator: Elem,
    pub flops: u64,
}

/// What an instruction does, as far as it is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    Arithmetic,
    Conversion,
    Move,
    Load,
    Store,
    Atomic,
    AsyncCopy,
    MatrixLoad,
    MatrixStore,
    MatrixProduct,
    Branch,
    Call,
    Barrier,
    Fence,
    WarpOp,
    Other,
}

impl Class {
    fn of(op: &Op, pipe: Pipe) -> Class {
        match op {
            Op::Load(_) | Op::LoadParam { .. } => Class::Load,
            Op::Store(_) => Class::Store,
            Op::Atom { .. } => Class::Atomic,
            Op::CopyAsync { .. }
            | Op::CopyBulk { .. }
            | Op::StoreBulk { .. }
            | Op::TensorLoad(_)
            | Op::TensorStore(_)
            | Op::BulkCommit
            | Op::CopyCommit => Class::AsyncCopy,
            Op::LoadMatrix { .. } | Op::WmmaLoad(_) => Class::MatrixLoad,
            Op::StoreMatrix { .. } | Op::WmmaStore(_) => Class::MatrixStore,
            Op::Mma(_) | Op::Wgmma(_) => Class::MatrixProduct,
            Op::Branch { .. } | Op::BranchIndexed { .. } | Op::Exit => Class::Branch,
            Op::Call { .. } | Op::CallIndirect | Op::Return => Class::Call,
            Op::Barrier { .. }
            | Op::Mbarrier { .. }
            | Op::CopyWait { .. }
            | Op::BulkWait { .. }
            | Op::WgmmaWait { .. }
            | Op::CopyMbarrierArrive { .. } => Class::Barrier,
            Op::Fence { .. } | Op::ProxyFence | Op::WgmmaFence => Class::Fence,
            Op::WarpSync
            | Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::ActiveMask
            | Op::Elect
            | Op::MoveMatrix => Class::WarpOp,
            _ => match pipe {
                Pipe::Move => Class::Move,
                Pipe::Conversion => Class::Conversion,
                Pipe::Integer | Pipe::Fp32 | Pipe::Fp16 | Pipe::Fp64 | Pipe::Special => Class::Arithmetic,
                _ => Class::Other,
            },
        }
    }
}

impl Counters {
    fn add_tensor(&mut self, input: Elem, accumulator: Elem, flops: u64) {
        self.tensor_flops += flops;
        match self.tensor.iter_mut().find(|work| work.input == input && work.accumulator == accumulator) {
            Some(work) => work.flops += flops,
            None => self.tensor.push(TensorWork { input, accumulator, flops }),
        }
    }

    /// The counters of `n` launches like this one side by side: sums grow, extremes stay. Lines are left out. `memory` is
    /// how many times the memory they touch together; fewer than `n` where some of it is the same.
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
            static_instructions: self.static_instructions,
            lines: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineCounters {
    /// Innermost frame first.
    pub frames: Vec<SourceFrame>,
    pub warp_instructions: u64,
    pub thread_instructions: u64,
    pub global: Traffic,
    pub shared: Traffic,
    pub local: Traffic,
}

/// Adds the workers' counts up.
pub fn summarise(kernel: &Kernel, sources: &SourceMap, counts: &Counts) -> Counters {
    let mut total = Counters {
        divergent_branches: counts.divergent,
        barriers: counts.barriers,
        async_bytes: counts.async_bytes,
        l2_bytes: counts.l2_sectors * 32,
        dram_footprint: counts.lines.len() as u64 * 128,
        blocks: counts.blocks,
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
            *total.by_class.entry(Class::of(op, meta.pipe)).or_default() += c.issued;
            if matches!(op, Op::Branch { .. } | Op::BranchIndexed { .. }) {
                total.branches += c.issued;
            }
            if let Op::Mma(product) = op {
                total.add_tensor(product.op.a, product.op.d, u64::from(meta.flops) * c.issued);
            } else if let Op::Wgmma(product) = op {
                total.add_tensor(product.op.a, product.op.d, u64::from(meta.flops) * c.issued);
            } else {
                total.flops += u64::from(meta.flops) * c.lanes;
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
