//! `profile`: what limits a kernel, and what to pull on.
//!
//! A kernel is run on a problem once, its answer is held against the right one, and what was counted meanwhile becomes
//! [`Metrics`]: by Nsight Compute over a worker process ([`ncu`]), or from the virtual GPU's counters and time model
//! ([`counted`]). From there on both are the same: [`rules`] say what limits the kernel and what to do about it,
//! [`roofline`] where it stands under the device's two roofs.

pub mod counted;
pub mod ncu;
pub mod roofline;
pub mod rules;
mod run;

use family::Family;
use serde::{Deserialize, Serialize};

use crate::run::{Fact, Time};

pub use run::{ProfileError, ProfilePlan, run};

/// A kernel's profile on one problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `ncu 2025.3`, or `virtual:l4`.
    pub source: String,
    /// What was done differently from what was asked: a problem cut to size, hot lines of another device.
    #[serde(default)]
    pub notes: Vec<String>,
    pub metrics: Metrics,
    pub roofline: Option<Roofline>,
    /// The most important first.
    pub diagnoses: Vec<Diagnosis>,
    /// Source lines with the largest share of the work, largest first.
    pub hot_lines: Vec<HotLine>,
}

/// What was seen of a launch. What could not be seen is unavailable, with the reason; never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    pub time: Option<Time>,
    /// Of the cycles in which an SM had work.
    pub tensor_active_percent: Fact<f64>,
    /// Of the bandwidth, over the whole launch.
    pub dram_percent: Fact<f64>,
    /// The busiest pipe's share of what it can issue, while the SM had work.
    pub sm_busy_percent: Fact<f64>,
    /// Warps resident, of those the device can hold, over the whole launch.
    pub warps_active_percent: Fact<f64>,
    /// The same while an SM had work: achieved occupancy. And what resources would allow.
    pub occupancy_percent: Fact<f64>,
    pub theoretical_occupancy_percent: Fact<f64>,
    pub l2_hit_percent: Fact<f64>,
    /// Wavefronts beyond those the shared accesses need, and all wavefronts.
    pub bank_conflicts: Fact<u64>,
    pub shared_wavefronts: Fact<u64>,
    /// Of global memory: loads, with asynchronous copies.
    pub global_requests: Fact<u64>,
    pub sectors_per_request: Fact<f64>,
    /// Bytes that were asked for, of those in the sectors that had to be fetched for them.
    pub sector_use_percent: Fact<f64>,
    pub registers: Fact<u32>,
    /// Bytes of local memory moved: spilled registers, arrays with indices known at run time only.
    pub local_bytes: Fact<u64>,
    /// What the compiler spilled, per thread: bytes of its store and load instructions.
    pub spill_bytes: Fact<u64>,
    pub branches: Fact<u64>,
    pub divergent_branches: Fact<u64>,
    /// Threads active per warp instruction, of 32.
    pub threads_per_instruction: Fact<f64>,
    /// Arrivals of warps at barriers.
    pub barriers: Fact<u64>,
    pub instructions: Fact<u64>,
    /// Of the tensor cores, as 16x8x16 products.
    pub tensor_instructions: Fact<u64>,
    pub blocks: Fact<u64>,
    pub threads_per_block: Fact<u32>,
    /// Multiprocessors of the device.
    pub sms: Fact<u32>,
    /// Why warps waited, in per cent of their time, largest first; by Nsight Compute's names.
    pub stalls: Vec<(String, f64)>,
}

impl Metrics {
    /// The share of warps' time that goes into these reasons, from 0 to 1; `None` where no reason is known at all.
    pub fn stalled(&self, reasons: &[&str]) -> Option<f64> {
        if self.stalls.is_empty() {
            return None;
        }
        let wanted = self.stalls.iter().filter(|(name, _)| reasons.contains(&name.as_str()));
        // An empty sum of floats is a negative zero.
        Some(wanted.fold(0.0, |sum, (_, percent)| sum + percent / 100.0))
    }
}

/// Where a kernel stands under the two roofs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// Operations per byte that crosses the memory bus, and operations per second.
    pub flops_per_byte: f64,
    pub tflops: f64,
    pub peak_tflops: f64,
    pub peak_gb_per_s: f64,
    /// Where the roofs come from: `measured in this run`, `data sheet`.
    pub peaks: String,
}

impl Roofline {
    /// What the lower of the two roofs allows at this intensity.
    pub fn roof_tflops(&self) -> f64 {
        self.peak_tflops.min(self.flops_per_byte * self.peak_gb_per_s / 1000.0)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// `compute-bound`, `memory-bound`, `latency-bound`, `tensor cores idle`, `spilling`, ...
    pub rule: String,
    /// How much of the time is to be had, by the rule's own estimate, from 0 to 1; orders the diagnoses.
    pub weight: f64,
    pub evidence: String,
    pub levers: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotLine {
    /// Relative to the family's folder: `kernel.cu`.
    pub file: String,
    pub line: u32,
    pub text: String,
    pub share_percent: f64,
    /// What the share is of: `instructions`, `stall samples`.
    pub of: String,
}

/// What was seen of a launch, before anybody has thought about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub metrics: Metrics,
    pub hot_lines: Vec<HotLine>,
}

/// How many source lines a profile keeps.
const HOT_LINES: usize = 12;

/// What lines weigh, by file and line.
type LineWeights = Vec<((String, u32), f64)>;

/// The lines with the largest shares, with their text where the family has it.
fn hottest(lines: LineWeights, of: &str, family: &Family) -> Vec<HotLine> {
    let total: f64 = lines.iter().map(|(_, weight)| weight).sum();
    let mut lines = lines;
    lines.sort_by(|a, b| b.1.total_cmp(&a.1));
    let hot = |((file, line), weight): ((String, u32), f64)| {
        let text = family.text_of(&file).and_then(|text| text.lines().nth(line.saturating_sub(1) as usize));
        let own = file == family.source_name();
        HotLine {
            text: text.unwrap_or_default().trim().to_owned(),
            file: if own { file.rsplit('/').next().unwrap_or_default().to_owned() } else { file },
            line,
            share_percent: 100.0 * weight / total.max(f64::MIN_POSITIVE),
            of: of.to_owned(),
        }
    };
    lines.into_iter().take(HOT_LINES).map(hot).collect()
}
