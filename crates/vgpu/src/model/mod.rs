//! Modelled time: from what a launch counted and what a GPU can do per clock, how long it would take there.
//!
//! First version, honest and simple. Each resource gets the time the launch would take if that resource alone
//! limited it: the busiest SM's share of every pipe's work, the chip's share of L2 and DRAM traffic, and the time one
//! warp needs for its own chain of instructions. The launch takes the longest of these plus a fixed launch cost.
//! Nothing overlaps better or worse than perfectly, caches are perfect within a launch (DRAM delivers each line
//! once), and clocks are the boost clocks. So a modelled time ranks settings of one kernel; it is no measurement,
//! and its type keeps it from being taken for one.

use chips::{Chip, TensorType};
use serde::{Deserialize, Serialize};

use crate::count::{Counters, LineCounters};
use crate::isa::decode::Pipe;

/// A time that was computed, not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelledMicros(pub f64);

impl std::fmt::Display for ModelledMicros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} us (modelled)", self.0)
    }
}

/// What can limit a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    Issue,
    Integer,
    Fp32,
    Fp16,
    Fp64,
    Special,
    Tensor,
    LoadStore,
    SharedMemory,
    L2,
    Dram,
    /// One warp's chain of dependent instructions: too few warps to hide it.
    Latency,
}

impl Resource {
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

/// The launch's shape, as far as time depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub blocks: u64,
    pub threads_per_block: u32,
    /// Blocks that fit on an SM at a time.
    pub blocks_per_sm: u32,
}

/// A launch's modelled time and what it is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    pub gpu: String,
    pub time: ModelledMicros,
    pub bottleneck: Resource,
    /// Every resource with the time it alone would take, longest first.
    pub resources: Vec<(Resource, ModelledMicros)>,
}

/// What a launch costs beside its work: a tiny kernel in a CUDA graph took 1.2 us on an H200.
const LAUNCH_MICROS: f64 = 1.2;

/// Clocks until a dependent instruction can issue, by pipe: round figures of published microbenchmarks of Ampere to
/// Hopper. Loads from global memory overlap with each other; about four in flight per warp is usual.
fn latency(pipe: Pipe) -> f64 {
    match pipe {
        Pipe::Integer | Pipe::Fp32 | Pipe::Fp16 | Pipe::Move => 4.5,
        Pipe::Conversion => 8.0,
        Pipe::Fp64 => 16.0,
        Pipe::Special => 18.0,
        Pipe::Tensor => 24.0,
        Pipe::LoadStore => 28.0,
        Pipe::Atomic => 120.0,
        Pipe::Async => 10.0,
        Pipe::Control => 8.0,
        Pipe::Sync => 24.0,
    }
}

const GLOBAL_LATENCY: f64 = 480.0;
const LOADS_IN_FLIGHT: f64 = 4.0;

/// The modelled time of a launch on a GPU.
pub fn modelled(counters: &Counters, shape: Shape, chip: &Chip) -> Modelled {
    let clock = f64::from(chip.clocks.boost_mhz); // clocks per microsecond
    let sms = f64::from(chip.sms);
    let blocks = shape.blocks.max(1) as f64;
    // The busiest SM has this part of all blocks.
    let share = (blocks / sms).ceil() / blocks;
    let count = |pipe: Pipe| counters.by_pipe.get(&pipe).copied().unwrap_or(0) as f64;
    let on_pipe = |warps: f64, lanes: u32| warps * share * 32.0 / f64::from(lanes.max(1)) / clock;
    let rates = &chip.sm;

    let integer = count(Pipe::Integer) + count(Pipe::Control) + count(Pipe::Move) * 0.5;
    let memory = count(Pipe::LoadStore) + count(Pipe::Atomic) + count(Pipe::Async);
    let shared_clocks = counters.shared.transactions as f64 * share;
    let l2_bytes = (counters.global.transactions + counters.local.transactions) as f64 * 32.0;
    let gigabytes = |bytes: f64, per_second: f64| bytes / per_second * 1e-3;
    let mut resources = vec![
        (Resource::Issue, counters.warp_instructions as f64 * share / f64::from(rates.schedulers) / clock),
        (Resource::Integer, on_pipe(integer, rates.int32_lanes)),
        (Resource::Fp32, on_pipe(count(Pipe::Fp32), rates.fp32_lanes)),
        (Resource::Fp16, on_pipe(count(Pipe::Fp16), rates.fp16_lanes)),
        (Resource::Fp64, on_pipe(count(Pipe::Fp64), rates.fp64_lanes)),
        (Resource::Special, on_pipe(count(Pipe::Special) + count(Pipe::Conversion), rates.mufu_lanes)),
        (Resource::Tensor, counters.tensor_flops as f64 * share / tensor_rate(chip) / clock),
        (Resource::LoadStore, on_pipe(memory, rates.lsu_lanes)),
        (Resource::SharedMemory, shared_clocks / clock),
        (Resource::L2, gigabytes(l2_bytes, chip.l2.gbs_estimate)),
        (Resource::Dram, gigabytes(counters.dram_footprint as f64, chip.memory.gbs)),
        (Resource::Latency, latency_micros(counters, shape, sms, clock)),
    ];
    resources.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (bottleneck, longest) = resources[0];
    Modelled {
        gpu: chip.name.to_owned(),
        time: ModelledMicros(longest + LAUNCH_MICROS),
        bottleneck,
        resources: resources
            .into_iter()
            .map(|(resource, micros)| (resource, ModelledMicros(micros)))
            .collect(),
    }
}

/// Operations per clock per SM that `mma.sync` reaches. The counters do not tell types apart yet: FP16's rate.
fn tensor_rate(chip: &Chip) -> f64 {
    let rate = chip.sm.tensor.ops_per_clock(TensorType::Fp16).unwrap_or(1);
    f64::from(rate) * chip.sm.tensor.mma_sync_fraction_estimate
}

/// How long one warp's chain takes, times the rounds of blocks that follow each other on an SM.
fn latency_micros(counters: &Counters, shape: Shape, sms: f64, clock: f64) -> f64 {
    let warps_per_block = f64::from(shape.threads_per_block.div_ceil(32).max(1));
    let blocks = shape.blocks.max(1) as f64;
    let warps = blocks * warps_per_block;
    let rounds = (blocks / (sms * f64::from(shape.blocks_per_sm.max(1)))).ceil();
    let chain: f64 = counters.by_pipe.iter().map(|(&pipe, &count)| count as f64 * latency(pipe)).sum();
    let memory = counters.global.requests as f64 * GLOBAL_LATENCY / LOADS_IN_FLIGHT;
    (chain + memory) / warps * rounds / clock
}

/// The part of a launch's time each source line accounts for, by the slots of issue, shared memory and memory traffic
/// it takes; in the order of `lines`. The parts add up to 1 unless nothing was counted.
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
    use crate::count::Traffic;

    const SHAPE: Shape = Shape { blocks: 132 * 8, threads_per_block: 256, blocks_per_sm: 8 };

    fn chip(name: &str) -> &'static Chip {
        Chip::by_name(name).expect("in the table")
    }

    /// A streaming copy of `bytes` in and as many out.
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
        let mut counters =
            Counters { tensor_flops: 1 << 40, warp_instructions: 1 << 28, ..Counters::default() };
        counters.by_pipe.insert(Pipe::Tensor, 1 << 28);
        let shape = Shape { blocks: 1 << 16, ..SHAPE };
        let once = modelled(&counters, shape, chip("a100"));
        assert_eq!(once.bottleneck, Resource::Tensor);
        counters.tensor_flops *= 2;
        assert!(modelled(&counters, shape, chip("a100")).time > once.time);
    }

    #[test]
    fn bank_conflicts_move_the_bottleneck_to_shared_memory() {
        let mut counters = copy(1 << 20);
        counters.shared = Traffic { requests: 1 << 20, transactions: 32 << 20, ideal: 1 << 20 };
        assert_eq!(modelled(&counters, SHAPE, chip("l4")).bottleneck, Resource::SharedMemory);
    }

    #[test]
    fn one_lonely_block_is_bound_by_latency() {
        let shape = Shape { blocks: 1, threads_per_block: 32, blocks_per_sm: 16 };
        let mut counters = Counters { warp_instructions: 1000, ..Counters::default() };
        counters.by_pipe.insert(Pipe::Fp32, 1000);
        assert_eq!(modelled(&counters, shape, chip("h200")).bottleneck, Resource::Latency);
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
