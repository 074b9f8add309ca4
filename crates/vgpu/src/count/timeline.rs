//! Timelines: traces with the cost of each piece of code, which the time model replays without the kernel.

use std::collections::{HashMap, HashSet};

use super::chain::longest_chain;
use super::trace::{BlockLoad, CopyKind, Event, Phase};
use super::{Counts, TensorWork, tensor_work};
use crate::isa::decode::Pipe;
use crate::isa::op::{Op, Slot};
use crate::program::{Function, Kernel};

/// What a piece of code needs of the multiprocessor, in warp instructions unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Instructions.
    pub instructions: f64,
    /// Instructions of the pipe for integers, comparisons, minima, maxima and conversions.
    pub integer: f64,
    /// Additions, multiplications and fused multiply-additions of f32.
    pub fp32: f64,
    /// Arithmetic of 16-bit types.
    pub fp16: f64,
    /// Arithmetic of f64.
    pub fp64: f64,
    /// Special functions.
    pub special: f64,
    /// Products of single warps, in floating-point operations at the rate of fp16.
    pub tensor_flops: f64,
    /// Requests to the load/store units.
    pub memory: f64,
    /// Transactions of shared memory.
    pub shared: f64,
    /// Bytes from or to L2.
    pub l2_bytes: f64,
    /// Clocks of the longest chain of dependent instructions.
    pub chain: f64,
}

/// A product of a warpgroup: one warp's part.
pub type Product = TensorWork;

/// A step of a warp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Runs code: the index of its cost in [`Timeline::works`].
    Work(u32),
    /// Starts a product: its index in [`Timeline::products`].
    Product(u32),
    /// Ends a group of products.
    CommitProducts,
    /// Waits until at most this many of the latest groups of products are under way.
    AwaitProducts(u32),
    /// Starts a copy of this many bytes, for which a phase waits.
    Load(u32, Phase),
    /// Starts a copy of this many bytes, which is waited for in groups.
    Copy(CopyKind, u32),
    /// Ends a group of copies.
    CommitCopies(CopyKind),
    /// Waits until at most this many of the latest groups of copies are under way.
    AwaitCopies(CopyKind, u32),
    /// Arrives at a barrier.
    Arrive(Phase),
    /// Waits for the end of a phase.
    Await(Phase),
    /// Sleeps for this many clocks.
    Sleep(u32),
}

/// The steps of the warps of blocks that do the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindTimeline {
    /// The work of a block.
    pub load: BlockLoad,
    /// The steps of each warp. `None` if there are too many kinds of blocks, or too many steps.
    pub warps: Option<Vec<Vec<Step>>>,
}

/// The steps of the blocks of a launch, and their costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The kinds of blocks.
    pub kinds: Vec<KindTimeline>,
    /// The blocks that ran, by index, with the numbers of their kinds.
    pub blocks: Vec<(u64, u32)>,
    /// Number of blocks of the grid.
    pub grid_blocks: u64,
    /// The costs of code.
    pub works: Vec<Work>,
    /// The products.
    pub products: Vec<Product>,
}

impl Timeline {
    pub(super) fn new(kernel: &Kernel, counts: &Counts, grid_blocks: u64) -> Timeline {
        let (kinds, blocks) = counts.traces.sorted();
        let out = Timeline { blocks, grid_blocks, ..Timeline::default() };
        let mut builder = Builder { kernel, counts, out, known: HashMap::new() };
        for kind in kinds {
            let warps = kind.warps.as_ref();
            let warps = warps.map(|warps| warps.iter().map(|events| builder.steps(events)).collect());
            builder.out.kinds.push(KindTimeline { load: kind.load, warps });
        }
        builder.out
    }
}

struct Builder<'k> {
    kernel: &'k Kernel,
    counts: &'k Counts,
    out: Timeline,
    /// The costs of code, by its first instruction and their number, and the products, with no number.
    known: HashMap<(u32, u32), u32>,
}

impl Builder<'_> {
    fn steps(&mut self, events: &[Event]) -> Vec<Step> {
        let step = |event: &Event| match *event {
            Event::Run { first, count } => Step::Work(self.work(first, count)),
            Event::Product { at } => Step::Product(self.product(at)),
            Event::CommitProducts => Step::CommitProducts,
            Event::AwaitProducts { keep } => Step::AwaitProducts(keep),
            Event::Load { bytes, phase } => Step::Load(bytes, phase),
            Event::Copy { kind, bytes } => Step::Copy(kind, bytes),
            Event::CommitCopies { kind } => Step::CommitCopies(kind),
            Event::AwaitCopies { kind, keep } => Step::AwaitCopies(kind, keep),
            Event::Arrive(phase) => Step::Arrive(phase),
            Event::Await(phase) => Step::Await(phase),
            Event::Sleep { clocks } => Step::Sleep(clocks),
        };
        events.iter().map(step).collect()
    }

    fn function(&self, at: u32) -> &Function {
        let after = self.kernel.functions.partition_point(|f| f.first <= at);
        &self.kernel.functions[after.saturating_sub(1)]
    }

    fn work(&mut self, first: u32, count: u32) -> u32 {
        if let Some(&known) = self.known.get(&(first, count)) {
            return known;
        }
        let function = self.function(first);
        let work = cost(function, first - function.first, count, self.counts);
        let index = self.out.works.len() as u32;
        self.out.works.push(work);
        self.known.insert((first, count), index);
        index
    }

    fn product(&mut self, at: u32) -> u32 {
        if let Some(&known) = self.known.get(&(at, 0)) {
            return known;
        }
        let function = self.function(at);
        let number = (at - function.first) as usize;
        let flops = u64::from(function.metas[number].flops);
        let index = self.out.products.len() as u32;
        self.out.products.extend(tensor_work(&function.insts[number].op, flops));
        self.known.insert((at, 0), index);
        index
    }
}

/// The cost of `count` instructions of a function from number `start`.
fn cost(function: &Function, start: u32, count: u32, counts: &Counts) -> Work {
    let range = start as usize..(start + count) as usize;
    let mut work = Work::default();
    let mut fusable: HashSet<Slot> = HashSet::new();
    for i in range.clone() {
        let (inst, meta) = (&function.insts[i], &function.metas[i]);
        if meta.pipe == Pipe::Move {
            continue;
        }
        // The assembler fuses two integer minima or maxima into one instruction of three operands.
        if meta.is_min_max && meta.pipe == Pipe::Integer {
            if inst.sources().iter().any(|slot| fusable.remove(slot)) {
                continue;
            }
            fusable.insert(inst.r(0));
        }
        work.instructions += 1.0;
        let is_compared = meta.is_min_max || matches!(inst.op, Op::Test { .. });
        match meta.pipe {
            Pipe::Integer | Pipe::Conversion => work.integer += 1.0,
            Pipe::Fp32 if is_compared => work.integer += 1.0,
            Pipe::Fp32 => work.fp32 += 1.0,
            Pipe::Fp16 => work.fp16 += 1.0,
            Pipe::Fp64 => work.fp64 += 1.0,
            Pipe::Special => work.special += 1.0,
            Pipe::Tensor => work.tensor_flops += f64::from(meta.flops),
            Pipe::LoadStore | Pipe::Atomic | Pipe::Async => work.memory += 1.0,
            Pipe::Control | Pipe::Sync | Pipe::Move => {}
        }
        if let Some(c) = counts.insts.get(function.first as usize + i).filter(|c| c.issued > 0) {
            let each = |transactions: u64| transactions as f64 / c.issued as f64;
            work.shared += each(c.shared.transactions);
            work.l2_bytes += 32.0 * each(c.global.transactions + c.local.transactions);
        }
    }
    let pipes = function.metas[range.clone()].iter().map(|meta| meta.pipe);
    work.chain = longest_chain(function.insts[range].iter().zip(pipes)).clocks() as f64;
    work
}
