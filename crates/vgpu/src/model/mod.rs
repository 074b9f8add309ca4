//! Modelled time: computes how long a launch would take on a GPU, from the counters of the launch and from what the GPU
//! can do per clock.
//!
//! The time of kernels with products of warpgroups (`wgmma`) depends on which warp waits for which. Traces of their
//! blocks are replayed (`replay.rs`), and all blocks are distributed over the SMs (`pipeline.rs`, `waves.rs`).
//!
//! All other kernels have a simpler model, which also gives the limits of every kernel. The warps that are resident on
//! the busiest SM are the customers of a closed queueing network, and the pipes of the SM are its servers. Each warp
//! needs every pipe for a number of clocks. In addition it spends the clocks of its own chain of dependent instructions,
//! barriers and waits. Mean-value analysis gives the time of all warps together: few warps take the time of their
//! chains, many warps take the time of the busiest pipe, and in between the warps queue. Blocks that do not fit at once
//! follow in rounds. A block with more work than the others ends last. The SMs that have work share the bandwidths of L2
//! and DRAM.
//!
//! Simplifications: caches are perfect within a launch (DRAM delivers each line once, and only if the memory of the
//! launch does not fit in L2; L1 holds what a block has loaded if there is room). Machine code is assumed to equal the
//! PTX except for moves. Clocks are the boost clocks. No constant is fitted to a kernel. Therefore a modelled time
//! ranks the settings of one kernel. It is not a measurement, and its type prevents confusion with one.

mod pipeline;
mod replay;
mod waves;

use std::collections::BTreeMap;

use chips::{Chip, TensorType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use times::ModelledMicros;

use crate::count::{Counters, LineCounters, TensorWork, Waits};
use crate::isa::decode::Pipe;
use crate::num::tile::Elem;

/// A resource that can limit a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Instruction issue.
    Issue,
    /// Integer pipe.
    Integer,
    /// FP32 pipe.
    Fp32,
    /// FP16 pipe.
    Fp16,
    /// FP64 pipe.
    Fp64,
    /// Special function units.
    Special,
    /// Tensor cores.
    Tensor,
    /// Load/store units.
    LoadStore,
    /// Shared memory bandwidth.
    SharedMemory,
    /// L2 bandwidth.
    L2,
    /// DRAM bandwidth.
    Dram,
    /// The chain of dependent instructions of one warp: too few warps to hide it.
    Latency,
}

impl Resource {
    /// The name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Issue => "instruction issue",
            Resource::Integer => "integer pipe",
            Resource::Fp32 => "FP32 pipe",
            Resource::Fp16 => "FP16 pipe",
            Resource::Fp64 => "FP64 pipe",
            Resource::Special => "special functions",
            Resource::Tensor => "tensor cores",
            Resource::LoadStore => "load/store units",
            Resource::SharedMemory => "shared memory",
            Resource::L2 => "L2 bandwidth",
            Resource::Dram => "DRAM bandwidth",
            Resource::Latency => "latency",
        }
    }
}

/// What a warp spends its time on, by the names that Nsight Compute uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stall {
    /// Waiting for global or local memory.
    LongScoreboard,
    /// Waiting for shared memory or for another lane.
    ShortScoreboard,
    /// Waiting at a barrier.
    Barrier,
    /// Waiting for the products of the warpgroup.
    Gmma,
    /// Waiting for a result of arithmetic.
    Wait,
    /// Waiting for a branch.
    BranchResolving,
    /// Queueing behind other warps at the scheduler.
    NotSelected,
    /// Queueing behind other warps at an arithmetic pipe.
    MathPipeThrottle,
    /// Queueing behind other warps at shared memory or at the load/store units.
    MioThrottle,
    /// Queueing behind other warps on the path to L2.
    LgThrottle,
    /// Issuing an instruction.
    Selected,
}

impl Stall {
    /// The name that Nsight Compute uses.
    pub fn name(self) -> &'static str {
        match self {
            Stall::LongScoreboard => "long_scoreboard",
            Stall::ShortScoreboard => "short_scoreboard",
            Stall::Barrier => "barrier",
            Stall::Gmma => "gmma",
            Stall::Wait => "wait",
            Stall::BranchResolving => "branch_resolving",
            Stall::NotSelected => "not_selected",
            Stall::MathPipeThrottle => "math_pipe_throttle",
            Stall::MioThrottle => "mio_throttle",
            Stall::LgThrottle => "lg_throttle",
            Stall::Selected => "selected",
        }
    }
}

/// The properties of a launch that its time depends on.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads_per_block: u32,
    /// Blocks that fit on an SM at the same time.
    pub blocks_per_sm: u32,
    /// Shared memory of a block, static and dynamic. The rest of the SM's memory is L1.
    pub shared_per_block: u32,
}

/// The modelled time of a launch and its parts.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Modelled {
    /// Name of the GPU.
    pub gpu: String,
    /// The modelled time, launch included.
    pub time: ModelledMicros,
    /// The resource that alone takes longest.
    pub bottleneck: Resource,
    /// Every resource with the time that it alone would take, longest first.
    pub resources: Vec<(Resource, ModelledMicros)>,
    /// What a warp spends its time on, as shares that add up to 1, largest first.
    pub stalls: Vec<(Stall, f64)>,
}

/// The version of the model. Modelled times are compared only with times of the same version, so every change that
/// changes a modelled time (in the model, in what the counters count, or in the table of GPUs) must increase it.
pub const VERSION: u32 = 3;

/// Overhead of a launch: a tiny kernel in a CUDA graph took 1.2 us on an H200.
pub const LAUNCH_MICROS: f64 = 1.2;

/// Bytes per clock that an SM can receive from L2.
const L2_PORT_BYTES: f64 = 64.0;

/// Computes the modelled time of a launch on a GPU.
pub fn modelled(counters: &Counters, shape: Shape, chip: &Chip) -> Modelled {
    let clock = f64::from(chip.clocks.boost_mhz); // clocks per microsecond
    let sms = u64::from(chip.sms.max(1));
    let blocks = shape.blocks.max(1);
    let busy_sms = sms.min(blocks) as f64;
    let warps_per_block = u64::from(shape.threads_per_block.div_ceil(32).max(1));
    let warps = (blocks * warps_per_block) as f64;
    let rates = &chip.sm;
    let count = |pipe: Pipe| counters.by_pipe.get(&pipe).copied().unwrap_or(0) as f64;
    let lanes = |warps: f64, lanes: u32| warps * 32.0 / f64::from(lanes.max(1));

    // Clocks of each resource of one SM that the whole launch needs.
    let moves = count(Pipe::Move);
    // Most conversions are between widths, or between f16 and f32. They use the arithmetic pipe, not the special
    // function units.
    let integer = count(Pipe::Integer) + count(Pipe::Control) + count(Pipe::Conversion);
    let memory = count(Pipe::LoadStore) + count(Pipe::Atomic) + count(Pipe::Async);
    let tensor = counters.tensor.iter().map(|work| work.flops as f64 / tensor_rate(chip, *work)).sum();
    let l2_per_clock = (chip.l2.gbs_estimate * 1e3 / clock / busy_sms).min(L2_PORT_BYTES);
    let demands = [
        (Resource::Issue, (counters.warp_instructions as f64 - moves) / f64::from(rates.schedulers.max(1))),
        (Resource::Integer, lanes(integer, rates.int32_lanes)),
        (Resource::Fp32, lanes(count(Pipe::Fp32), rates.fp32_lanes)),
        (Resource::Fp16, lanes(count(Pipe::Fp16), rates.fp16_lanes)),
        (Resource::Fp64, lanes(count(Pipe::Fp64), rates.fp64_lanes)),
        (Resource::Special, lanes(count(Pipe::Special), rates.mufu_lanes)),
        (Resource::Tensor, tensor),
        (Resource::LoadStore, lanes(memory, rates.lsu_lanes)),
        (Resource::SharedMemory, counters.shared.transactions as f64),
        (Resource::L2, l2_bytes(counters, shape, chip) / l2_per_clock),
    ];
    let per_warp = demands.map(|(_, clocks)| clocks / warps);

    // The busiest SM runs this many blocks, and one of them is the busiest block of all.
    let on_sm = blocks.div_ceil(sms);
    let over = |most: u64, sum: u64| {
        let mean = sum as f64 / counters.blocks.finished.max(1) as f64;
        if mean > 0.0 { (most as f64 / mean).max(1.0) - 1.0 } else { 0.0 }
    };
    let extra = over(counters.blocks.busiest, counters.warp_instructions)
        .max(over(counters.blocks.longest_chain_clocks, counters.blocks.chain_clocks));
    let chain = counters.blocks.chain_clocks as f64 / counters.blocks.finished.max(1) as f64;
    let resident = u64::from(shape.blocks_per_sm.max(1));
    let (full, rest) = (on_sm / resident, on_sm % resident);
    let round = |blocks: u64| together(blocks * warps_per_block, chain, &per_warp).iter().sum::<f64>();
    let mut clocks = full as f64 * round(resident.min(on_sm));
    if rest > 0 {
        clocks += round(rest);
    }
    // The busiest block does its additional work alone.
    clocks += extra * round(1);
    let timeline = counters.timeline.as_deref();
    let pipeline = timeline.and_then(|it| pipeline::replayed(it, shape, chip, l2_per_clock));
    if let Some(pipeline) = &pipeline {
        // No launch takes less time than its busiest pipe. The replay has fewer integer instructions, because the
        // assembler fuses some.
        let is_exact = |resource: Resource| !matches!(resource, Resource::Issue | Resource::Integer);
        let least = demands.iter().filter(|(resource, _)| is_exact(*resource));
        clocks = least.map(|(_, total)| total / busy_sms).fold(pipeline.clocks, f64::max);
    }
    let dram_bytes = counters.dram_footprint as f64;
    let dram = if dram_bytes > chip.l2.bytes as f64 { dram_bytes / chip.memory.gbs * 1e-3 } else { 0.0 };

    let share = (on_sm as f64 + extra) / blocks as f64;
    let rounds = full as f64 + if rest > 0 { 1.0 } else { 0.0 } + extra;
    let mut resources: Vec<(Resource, f64)> =
        demands.iter().map(|(resource, total)| (*resource, total * share / clock)).collect();
    resources.push((Resource::Dram, dram));
    resources.push((Resource::Latency, chain * rounds / clock));
    resources.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts = together(resident.min(on_sm) * warps_per_block, chain, &per_warp);
    let queues: Vec<(Resource, f64)> = demands
        .iter()
        .zip(parts[1..].iter().zip(&per_warp))
        .map(|((resource, _), (stays, needs))| (*resource, stays - needs))
        .collect();
    let alone = parts[0] + per_warp.iter().sum::<f64>();
    Modelled {
        stalls: match &pipeline {
            Some(pipeline) => pipeline_stalls(&counters.waits, &pipeline.spent),
            None => stalls(&counters.waits, alone, &queues),
        },
        gpu: chip.name.to_owned(),
        time: ModelledMicros((clocks / clock).max(dram) + LAUNCH_MICROS),
        bottleneck: resources[0].0,
        resources: resources
            .into_iter()
            .map(|(resource, micros)| (resource, ModelledMicros(micros)))
            .collect(),
    }
}

/// Clocks until `customers` warps that start together are all done, divided into the warp's own part and the part at
/// each resource. Each warp needs resource `r` for `demand[r]` clocks, and `chain` clocks in total if it runs alone.
/// Mean-value analysis of a closed network.
fn together(customers: u64, chain: f64, demand: &[f64]) -> Vec<f64> {
    let alone = (chain - demand.iter().sum::<f64>()).max(0.0);
    let mut queued = vec![0.0; demand.len()];
    let mut parts = vec![alone];
    for n in 1..=customers.clamp(1, 64) {
        parts = vec![alone];
        parts.extend(demand.iter().zip(&queued).map(|(d, q)| d * (1.0 + q)));
        let clocks: f64 = parts.iter().sum();
        if clocks > 0.0 {
            for (q, stay) in queued.iter_mut().zip(&parts[1..]) {
                *q = n as f64 / clocks * stay;
            }
        }
    }
    parts
}

/// Divides the clocks of the warps of replayed blocks. The clocks in which they run code are divided as if each ran
/// alone.
fn pipeline_stalls(waits: &Waits, spent: &replay::Replay) -> Vec<(Stall, f64)> {
    let mut sums: BTreeMap<Stall, f64> = stalls(waits, 1.0, &[]).into_iter().collect();
    for share in sums.values_mut() {
        *share *= spent.running;
    }
    *sums.entry(Stall::Barrier).or_default() += spent.awaiting_others;
    *sums.entry(Stall::Gmma).or_default() += spent.awaiting_products;
    shares(sums)
}

/// Divides the clocks of a warp. The clocks that it needs alone are divided by what it waits for; the clocks in queues
/// are divided by resource.
fn stalls(waits: &Waits, alone: f64, queues: &[(Resource, f64)]) -> Vec<(Stall, f64)> {
    let scale = alone / (waits.clocks() as f64).max(1.0);
    let own = [
        (Stall::LongScoreboard, waits.global + waits.local),
        (Stall::ShortScoreboard, waits.shared),
        (Stall::Barrier, waits.barrier),
        (Stall::Wait, waits.arithmetic),
        (Stall::BranchResolving, waits.branch),
        (Stall::Selected, waits.issue),
    ];
    let queued = queues.iter().map(|(resource, clocks)| {
        let stall = match resource {
            Resource::Issue => Stall::NotSelected,
            Resource::LoadStore | Resource::SharedMemory => Stall::MioThrottle,
            Resource::L2 | Resource::Dram => Stall::LgThrottle,
            _ => Stall::MathPipeThrottle,
        };
        (stall, *clocks)
    });
    let mut sums: BTreeMap<Stall, f64> = BTreeMap::new();
    for (stall, clocks) in own.into_iter().map(|(stall, clocks)| (stall, clocks as f64 * scale)).chain(queued)
    {
        *sums.entry(stall).or_default() += clocks;
    }
    shares(sums)
}

/// The parts of a sum as shares that add up to 1, largest first.
fn shares(sums: BTreeMap<Stall, f64>) -> Vec<(Stall, f64)> {
    let total: f64 = sums.values().sum();
    let mut shares: Vec<(Stall, f64)> = sums.into_iter().filter(|(_, clocks)| *clocks > 0.0).collect();
    for (_, clocks) in &mut shares {
        *clocks /= total;
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// Bytes that L2 must deliver. Data that blocks load again comes from L1 if the memory of the resident blocks fits
/// there.
fn l2_bytes(counters: &Counters, shape: Shape, chip: &Chip) -> f64 {
    let asked =
        ((counters.global.transactions + counters.local.transactions) * 32 + counters.bulk_bytes) as f64;
    let least = counters.l2_bytes as f64;
    let resident =
        u64::from(shape.blocks_per_sm.max(1)).min(shape.blocks.div_ceil(u64::from(chip.sms.max(1))));
    let room = f64::from(chip.limits().shared_per_sm) - (resident * u64::from(shape.shared_per_block)) as f64;
    let wanted = least / shape.blocks.max(1) as f64 * resident as f64;
    if wanted <= room { least } else { asked }
}

/// Operations per clock per SM that `mma.sync` reaches on operands of a type. If the GPU has no rate for a type (narrow
/// integers, single bits), the rate of the nearest type is used. Such values are packed, so they are not slower.
fn tensor_rate(chip: &Chip, work: TensorWork) -> f64 {
    let narrow = work.accumulator == Elem::F16;
    let kind = match work.input {
        Elem::F16 if narrow => TensorType::Fp16AccFp16,
        Elem::F16 => TensorType::Fp16,
        Elem::Bf16 => TensorType::Bf16,
        Elem::Tf32 | Elem::F32 => TensorType::Tf32,
        Elem::F64 => TensorType::Fp64,
        Elem::E4m3 | Elem::E5m2 if narrow => TensorType::Fp8AccFp16,
        Elem::E4m3 | Elem::E5m2 => TensorType::Fp8,
        Elem::S8 | Elem::U8 | Elem::S4 | Elem::U4 | Elem::B1 | Elem::S32 => TensorType::Int8,
    };
    let rates = &chip.sm.tensor;
    let rate = rates.ops_per_clock(kind).or(rates.ops_per_clock(TensorType::Fp16)).unwrap_or(1);
    f64::from(rate.max(1)) * if work.by_warpgroup { 1.0 } else { rates.mma_sync_fraction_estimate }
}

/// The share of each source line in the time of a launch, from its issue slots, shared memory transactions and memory
/// traffic, in the order of `lines`. The shares add up to 1 unless nothing was counted.
pub fn line_shares(lines: &[LineCounters]) -> Vec<f64> {
    let weight = |line: &LineCounters| {
        line.warp_instructions as f64 / 4.0
            + line.shared.transactions as f64
            + (line.global.transactions + line.local.transactions) as f64 / 2.0
    };
    let total: f64 = lines.iter().map(weight).sum();
    lines.iter().map(|line| if total > 0.0 { weight(line) / total } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::{Blocks, Traffic};

    const SHAPE: Shape =
        Shape { blocks: 132 * 8, threads_per_block: 256, blocks_per_sm: 8, shared_per_block: 0 };

    fn chip(name: &str) -> &'static Chip {
        Chip::by_name(name).expect("in the table")
    }

    /// A streaming copy that reads `bytes` bytes and writes as many.
    fn copy(bytes: u64) -> Counters {
        let requests = bytes / 512 * 2;
        let mut counters = Counters { warp_instructions: requests * 3, ..Counters::default() };
        counters.by_pipe.insert(Pipe::LoadStore, requests);
        counters.by_pipe.insert(Pipe::Integer, requests * 2);
        counters.global = Traffic { requests, transactions: requests * 16, ideal: requests * 16 };
        counters.dram_footprint = bytes * 2;
        counters
    }

    #[test]
    fn a_large_copy_takes_what_dram_takes() {
        let bytes = 1 << 30;
        let modelled = modelled(&copy(bytes), Shape { blocks: 1 << 20, ..SHAPE }, chip("h200"));
        assert_eq!(modelled.bottleneck, Resource::Dram);
        let expected = 2.0 * bytes as f64 / (chip("h200").memory.gbs * 1e3);
        assert!((modelled.time.0 / expected - 1.0).abs() < 0.05, "{} {expected}", modelled.time);
    }

    #[test]
    fn tensor_work_takes_the_tensor_rate_and_more_work_takes_longer() {
        let time = |input, accumulator, flops| {
            let tensor = vec![TensorWork { input, accumulator, flops, by_warpgroup: false }];
            let counters = Counters { tensor, warp_instructions: 1 << 28, ..Counters::default() };
            let modelled = modelled(&counters, Shape { blocks: 1 << 16, ..SHAPE }, chip("a100"));
            assert_eq!(modelled.bottleneck, Resource::Tensor);
            modelled.time.0
        };
        let once = time(Elem::F16, Elem::F32, 1 << 42);
        assert!(time(Elem::F16, Elem::F32, 1 << 43) > 1.8 * once);
        // Per clock, an A100 does half as many operations on tf32, and twice as many on bytes.
        assert!(time(Elem::Tf32, Elem::F32, 1 << 42) > 1.8 * once);
        assert!(time(Elem::S8, Elem::S32, 1 << 42) < 0.6 * once);
    }

    #[test]
    fn bank_conflicts_move_the_bottleneck_to_shared_memory() {
        let mut counters = copy(1 << 20);
        counters.shared = Traffic { requests: 1 << 20, transactions: 32 << 20, ideal: 1 << 20 };
        assert_eq!(modelled(&counters, SHAPE, chip("l4")).bottleneck, Resource::SharedMemory);
    }

    #[test]
    fn one_lonely_block_is_bound_by_latency() {
        let shape = Shape { blocks: 1, threads_per_block: 32, blocks_per_sm: 16, shared_per_block: 0 };
        let blocks = Blocks { finished: 1, busiest: 1000, chain_clocks: 4000, longest_chain_clocks: 4000 };
        let mut counters = Counters { warp_instructions: 1000, blocks, ..Counters::default() };
        counters.by_pipe.insert(Pipe::Fp32, 1000);
        let alone = modelled(&counters, shape, chip("h200"));
        assert_eq!(alone.bottleneck, Resource::Latency);
        // One block on each SM takes the same time. A second resident block adds little. Two blocks one after another
        // take twice as long.
        let many = |blocks, blocks_per_sm| {
            let shape = Shape { blocks, blocks_per_sm, ..shape };
            modelled(&counters.scaled(blocks, blocks as f64), shape, chip("h200")).time.0 - LAUNCH_MICROS
        };
        let alone = alone.time.0 - LAUNCH_MICROS;
        assert!((many(132, 16) / alone - 1.0).abs() < 0.01);
        assert!(many(264, 16) < 1.2 * alone);
        assert!((many(264, 1) / alone - 2.0).abs() < 0.01);
    }

    #[test]
    fn many_warps_take_what_the_busiest_pipe_takes() {
        let (chain, demand) = (1000.0, [10.0, 40.0]);
        let together = |customers| together(customers, chain, &demand).iter().sum::<f64>();
        assert_eq!(together(1), chain);
        let full = together(64);
        assert!((64.0 * 40.0..1.1 * 64.0 * 40.0).contains(&full), "{full}");
        assert!(together(8) < 1.2 * chain);
    }

    #[test]
    fn a_warp_alone_waits_for_results_and_one_of_many_in_queues() {
        let waits = Waits { global: 300, arithmetic: 700, ..Waits::default() };
        let alone = stalls(&waits, 1000.0, &[(Resource::Tensor, 0.0)]);
        assert_eq!(alone, [(Stall::Wait, 0.7), (Stall::LongScoreboard, 0.3)]);
        let queueing = stalls(&waits, 1000.0, &[(Resource::Tensor, 2000.0), (Resource::L2, 1000.0)]);
        assert_eq!(queueing[0], (Stall::MathPipeThrottle, 0.5));
        assert!((queueing.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_busiest_block_is_the_last_to_end() {
        let blocks = Blocks { finished: 132, busiest: 10, chain_clocks: 132_000, longest_chain_clocks: 1000 };
        let even = Counters { warp_instructions: 1320, blocks, ..Counters::default() };
        let mut uneven = even.clone();
        uneven.blocks.longest_chain_clocks = 3000;
        let time = |counters| modelled(counters, Shape { blocks: 132, ..SHAPE }, chip("h200")).time.0;
        let (even, uneven) = (time(&even) - LAUNCH_MICROS, time(&uneven) - LAUNCH_MICROS);
        assert!((uneven / even - 3.0).abs() < 0.01, "{even} {uneven}");
    }

    #[test]
    fn shares_of_lines_add_up_to_one() {
        let line = |instructions| LineCounters {
            frames: Vec::new(),
            warp_instructions: instructions,
            thread_instructions: 0,
            global: Traffic::default(),
            shared: Traffic::default(),
            local: Traffic::default(),
        };
        let shares = line_shares(&[line(30), line(10)]);
        assert_eq!(shares, [0.75, 0.25]);
        assert_eq!(line_shares(&[line(0)]), [0.0]);
    }
}
