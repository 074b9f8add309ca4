//! Counters: what hardware would have counted, per kernel and per instruction.

use serde::{Deserialize, Serialize};

use crate::isa::decode::Pipe;
use crate::program::{Kernel, SourceFrame, SourceMap};

/// Counts of one instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct InstCount {
    /// Warps that executed it.
    pub issued: u64,
    /// Lanes active in them.
    pub lanes: u64,
    /// Memory requests (warps whose lanes touched memory).
    pub requests: u64,
    /// 32-byte sectors (global, local) or wavefronts (shared) they took.
    pub transactions: u64,
    /// What the same requests would take at best.
    pub ideal: u64,
}

/// What one worker counts.
#[derive(Debug, Default)]
pub struct Counts {
    pub insts: Vec<InstCount>,
    pub divergent: u64,
    pub barriers: u64,
    pub async_bytes: u64,
    /// Distinct 128-byte lines of global memory touched, as a bit per line and region, see `touch`.
    pub lines: std::collections::HashSet<u64>,
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

    pub fn merge(&mut self, other: &Counts) {
        if self.insts.len() < other.insts.len() {
            self.insts.resize(other.insts.len(), InstCount::default());
        }
        for (a, b) in self.insts.iter_mut().zip(&other.insts) {
            a.issued += b.issued;
            a.lanes += b.lanes;
            a.requests += b.requests;
            a.transactions += b.transactions;
            a.ideal += b.ideal;
        }
        self.divergent += other.divergent;
        self.barriers += other.barriers;
        self.async_bytes += other.async_bytes;
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
    /// Branches that split a warp.
    pub divergent_branches: u64,
    /// Warp arrivals at block barriers.
    pub barriers: u64,
    pub async_bytes: u64,
    pub global: Traffic,
    pub shared: Traffic,
    pub local: Traffic,
    /// Distinct 128-byte lines of global memory: what DRAM must deliver at least, in bytes.
    pub dram_footprint: u64,
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
    fn add(&mut self, c: &InstCount) {
        self.requests += c.requests;
        self.transactions += c.transactions;
        self.ideal += c.ideal;
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
    use crate::isa::op::Op;
    use crate::isa::types::Space;
    let mut total = Counters {
        divergent_branches: counts.divergent,
        barriers: counts.barriers,
        async_bytes: counts.async_bytes,
        dram_footprint: counts.lines.len() as u64 * 128,
        ..Counters::default()
    };
    let mut lines: std::collections::BTreeMap<u32, LineCounters> = std::collections::BTreeMap::new();
    for f in &kernel.functions {
        for (i, meta) in f.metas.iter().enumerate() {
            let Some(c) = counts.insts.get(f.first as usize + i) else { continue };
            if c.issued == 0 {
                continue;
            }
            total.warp_instructions += c.issued;
            total.thread_instructions += c.lanes;
            *total.by_pipe.entry(meta.pipe).or_default() += c.issued;
            if meta.pipe == Pipe::Tensor {
                total.tensor_flops += u64::from(meta.flops) * c.issued;
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
            let space = match &f.insts[i].op {
                Op::Load(a) | Op::Store(a) | Op::Atom { access: a, .. } => Some(a.space),
                Op::CopyAsync { .. } | Op::CopyBulk { .. } => Some(Space::Global),
                Op::LoadMatrix { .. } | Op::StoreMatrix { .. } => Some(Space::Shared),
                Op::WmmaLoad(m) | Op::WmmaStore(m) => Some(m.space),
                _ => None,
            };
            match space {
                Some(Space::Shared) => {
                    total.shared.add(c);
                    line.shared.add(c);
                }
                Some(Space::Local) => {
                    total.local.add(c);
                    line.local.add(c);
                }
                Some(_) => {
                    total.global.add(c);
                    line.global.add(c);
                }
                None => {}
            }
        }
    }
    total.lines = lines.into_values().filter(|l| !l.frames.is_empty()).collect();
    total.lines.sort_by_key(|l| std::cmp::Reverse(l.warp_instructions));
    total
}
