//! Metrics from the virtual GPU: its counters and its time model.

use chips::{Chip, Occupancy, Resources};
use compiler::Entry;
use family::Family;
use indexmap::IndexMap;
use runlog::record::{Fact, HotLine, Metrics, hottest};
use runlog::{LaunchCounts, Time};
use times::ModelledMicros;
use vgpu::Counters;
use vgpu::Pipe;
use vgpu::count::Waits;
use vgpu::model::{self, Modelled, Resource, Shape};

/// A launch with its counters.
#[derive(Clone, Debug)]
pub struct CountedLaunch<'a> {
    pub counters: Counters,
    pub entry: &'a Entry,
    pub chip: &'static Chip,
    pub blocks: u64,
    pub threads_per_block: u32,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

impl CountedLaunch<'_> {
    /// Adds the compiler's spills to the counters. The virtual GPU runs PTX, which has unlimited registers, so it does
    /// not execute spills. How often a spill instruction runs is unknown; each is assumed to run as often as the
    /// average instruction.
    #[must_use]
    pub fn with_spills(mut self) -> Self {
        let per_thread = u64::from(self.entry.spill_store_bytes + self.entry.spill_load_bytes) / 4;
        let counters = &mut self.counters;
        let spills = (per_thread as f64 * counters.warp_instructions as f64
            / counters.static_instructions.max(1) as f64) as u64;
        counters.warp_instructions += spills;
        counters.thread_instructions += 32 * spills;
        *counters.by_pipe.entry(Pipe::LoadStore).or_default() += spills;
        counters.local.requests += spills;
        // Four bytes for each of 32 lanes, contiguous.
        counters.local.transactions += 4 * spills;
        counters.local.ideal += 4 * spills;
        self
    }

    fn occupancy(&self) -> Option<Occupancy> {
        let resources = Resources {
            registers_per_thread: self.entry.registers,
            static_shared_bytes: self.entry.static_shared_bytes,
            dynamic_shared_bytes: self.shared_bytes,
            threads_per_block: self.threads_per_block,
            barriers: self.entry.barriers,
        };
        self.chip.occupancy(&resources).ok()
    }

    /// Returns the modelled time of the launch.
    pub fn modelled(&self) -> Modelled {
        let occupancy = self.occupancy();
        let shape = Shape {
            blocks: self.blocks,
            threads_per_block: self.threads_per_block,
            blocks_per_sm: occupancy.as_ref().map_or(1, |it| it.blocks_per_sm),
            shared_per_block: occupancy.map_or(self.shared_bytes, |it| it.shared_per_block),
        };
        model::modelled(&self.counters, shape, self.chip)
    }

    /// Returns the counts that the gate compares.
    pub fn counts(&self) -> LaunchCounts {
        let counters = &self.counters;
        LaunchCounts {
            instructions: counters.warp_instructions,
            global_sectors: counters.global.transactions,
            local_sectors: counters.local.transactions,
            bank_conflicts: counters.shared.transactions.saturating_sub(counters.shared.ideal),
        }
    }

    /// Returns the metrics of the launch.
    pub fn metrics(&self) -> Metrics {
        let counters = &self.counters;
        let modelled = self.modelled();
        // `working` is the time in which multiprocessors have work. The total also includes the launch overhead.
        let working = (modelled.time.0 - model::LAUNCH_MICROS).max(f64::MIN_POSITIVE);
        // The model's times are those of the busiest multiprocessor. Its blocks are more than the average.
        let sms = u64::from(self.chip.sms.max(1));
        let average = self.blocks as f64 / (self.blocks.div_ceil(sms).max(1) * sms) as f64;
        let of = |resource: Resource| {
            let micros = modelled.resources.iter().find(|(known, _)| *known == resource);
            (100.0 * average * micros.map_or(0.0, |(_, micros)| micros.0) / modelled.time.0).clamp(0.0, 100.0)
                // The share of nothing can be -0.0.
                + 0.0
        };
        let dram = counters.dram_footprint as f64 / (self.chip.memory.gbs * 1e3);
        let percent = |micros: f64| (100.0 * micros / modelled.time.0).min(100.0);
        // The model leaves DRAM out for data that fit the L2, the metric does not.
        let mut resources: Vec<(String, f64)> = modelled
            .resources
            .iter()
            .map(|(resource, micros)| match resource {
                Resource::Dram => (resource.name().to_owned(), percent(dram)),
                _ => (resource.name().to_owned(), percent(micros.0)),
            })
            .collect();
        resources.sort_by(|a, b| b.1.total_cmp(&a.1));
        let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
        let lacks = |what: &str| format!("the launch has no {what}");
        let occupancy = self.occupancy();
        let resident = occupancy.as_ref().map(|it| self.resident_warps(it));
        let busy_sms = f64::from(self.chip.sms).min(self.blocks as f64);
        let share = |warps: f64| 100.0 * warps / f64::from(self.chip.limits().max_warps_per_sm);
        let does_not_fit = "the kernel does not fit on the device";
        let global = counters.global;
        Metrics {
            time: Some(Time::Modelled(modelled.time)),
            tensor_active_percent: Fact::Known(of(Resource::Tensor)),
            dram_percent: Fact::Known(percent(dram)),
            sm_busy_percent: Fact::Known(PIPES.into_iter().map(of).fold(0.0, f64::max)),
            warps_active_percent: resident
                .map(|warps| share(warps) * busy_sms / f64::from(self.chip.sms) * working / modelled.time.0)
                .ok_or(does_not_fit)
                .into(),
            occupancy_percent: resident.map(share).ok_or(does_not_fit).into(),
            theoretical_occupancy_percent: occupancy.map(|it| 100.0 * it.fraction).ok_or(does_not_fit).into(),
            l2_hit_percent: Fact::unavailable("the virtual GPU has no caches"),
            bank_conflicts: Fact::Known(counters.shared.transactions.saturating_sub(counters.shared.ideal)),
            shared_wavefronts: Fact::Known(counters.shared.transactions),
            global_requests: Fact::Known(global.requests),
            sectors_per_request: ratio(global.transactions, global.requests)
                .ok_or_else(|| lacks("request to global memory"))
                .into(),
            sector_use_percent: ratio(100 * global.ideal, global.transactions)
                .ok_or_else(|| lacks("request to global memory"))
                .into(),
            registers: Fact::Known(self.entry.registers),
            local_bytes: Fact::Known(counters.local.transactions * 32),
            spill_bytes: Fact::Known(u64::from(self.entry.spill_store_bytes + self.entry.spill_load_bytes)),
            branches: Fact::Known(counters.branches),
            divergent_branches: Fact::Known(counters.divergent_branches),
            threads_per_instruction: ratio(counters.thread_instructions, counters.warp_instructions)
                .ok_or_else(|| lacks("instruction"))
                .into(),
            barriers: Fact::Known(counters.barriers),
            instructions: Fact::Known(counters.warp_instructions),
            tensor_instructions: Fact::Known(counters.tensor_flops / FLOPS_PER_PRODUCT),
            blocks: Fact::Known(self.blocks),
            threads_per_block: Fact::Known(self.threads_per_block),
            sms: Fact::Known(self.chip.sms),
            resources,
            stalls: stalls(&counters.waits, &modelled),
        }
    }

    /// Average number of warps on a multiprocessor that has work, over the waves of its blocks.
    fn resident_warps(&self, occupancy: &Occupancy) -> f64 {
        let sms = u64::from(self.chip.sms.max(1));
        let rounds = self.blocks.div_ceil(sms).div_ceil(u64::from(occupancy.blocks_per_sm.max(1)));
        let blocks = self.blocks as f64 / sms.min(self.blocks).max(1) as f64 / rounds.max(1) as f64;
        blocks * f64::from(occupancy.warps_per_block)
    }
}

/// Launches that follow each other.
pub struct CountedSequence<'s, 'a> {
    /// The modelled time of all launches together.
    pub time: ModelledMicros,
    /// The launch that takes longest. Its metrics stand for the sequence.
    pub longest: &'s CountedLaunch<'a>,
}

/// Models launches that follow each other. `None` if there are none.
pub fn sequence<'s, 'a>(launches: &'s [CountedLaunch<'a>]) -> Option<CountedSequence<'s, 'a>> {
    let times: Vec<f64> = launches.iter().map(|launch| launch.modelled().time.0).collect();
    let longest = launches.iter().zip(&times).max_by(|one, other| one.1.total_cmp(other.1))?.0;
    Some(CountedSequence { time: ModelledMicros(times.iter().sum()), longest })
}

/// Operations of one 16x8x16 product.
const FLOPS_PER_PRODUCT: u64 = 2 * 16 * 8 * 16;

/// The pipes of a multiprocessor.
const PIPES: [Resource; 8] = [
    Resource::Issue,
    Resource::Integer,
    Resource::Fp32,
    Resource::Fp16,
    Resource::Fp64,
    Resource::Special,
    Resource::Tensor,
    Resource::LoadStore,
];

fn stalls(waits: &Waits, modelled: &Modelled) -> Vec<(String, f64)> {
    // A launch without instructions has no stalls.
    if waits.clocks() == 0 {
        return Vec::new();
    }
    modelled.stalls.iter().map(|(stall, share)| (stall.name().to_owned(), 100.0 * share)).collect()
}

/// Returns the lines of the family's files that take most of the modelled time. Code in a called function counts for
/// the calling line of the family's source, because a line of a helper that every kernel uses is not informative.
pub fn hot_lines(counters: &Counters, family: &Family) -> Vec<HotLine> {
    let shares = model::line_shares(&counters.lines);
    let mut sums: IndexMap<(String, u32), f64> = IndexMap::new();
    for (line, share) in counters.lines.iter().zip(shares) {
        let frames = &line.frames;
        let source = frames.iter().find(|frame| frame.file == family.source_name());
        let header = || frames.iter().find(|frame| family.source_text(&frame.file).is_some());
        if let Some(frame) = source.or_else(header).or(frames.first()) {
            *sums.entry((frame.file.clone(), frame.line)).or_default() += share;
        }
    }
    hottest(sums.into_iter().collect(), "slots of issue and memory, counted", family)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Modelled times are compared only within one version. If this test fails because the model changed, increase
    /// `vgpu::model::VERSION` and write the new times here.
    #[test]
    fn the_version_of_the_model_belongs_to_its_times() {
        let mut counters = Counters {
            warp_instructions: 1_000_000,
            thread_instructions: 32_000_000,
            l2_bytes: 50_000_000,
            dram_footprint: 80_000_000,
            ..Counters::default()
        };
        counters.by_pipe.insert(Pipe::Fp32, 600_000);
        counters.by_pipe.insert(Pipe::Integer, 300_000);
        counters.by_pipe.insert(Pipe::LoadStore, 100_000);
        counters.shared.transactions = 40_000;
        counters.global.transactions = 1_600_000;
        counters.blocks.finished = 1000;
        counters.blocks.busiest = 1200;
        counters.blocks.chain_clocks = 5_000_000;
        counters.blocks.longest_chain_clocks = 6000;
        let shape =
            Shape { blocks: 1000, threads_per_block: 128, blocks_per_sm: 4, shared_per_block: 16_384 };
        let time = |name: &str| {
            let chip = chips::CHIPS.iter().find(|chip| chip.id == name).expect("a known GPU");
            model::modelled(&counters, shape, chip).time.0
        };
        let times = ["l4", "a100", "h200"].map(|name| format!("{name} {:.3}", time(name)));
        let known = (3, "l4 267.867, a100 40.435, h200 17.867");
        assert_eq!((model::VERSION, times.join(", ").as_str()), known);
    }
}
