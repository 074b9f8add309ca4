//! `profile`: what limits a kernel, and what to pull on.

use serde::{Deserialize, Serialize};

use crate::run::{Fact, Time};

/// A kernel's profile on one problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `ncu 2025.3.1`, or `virtual:l4`.
    pub source: String,
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
    pub tensor_active_percent: Fact<f64>,
    pub dram_percent: Fact<f64>,
    pub sm_busy_percent: Fact<f64>,
    pub warps_active_percent: Fact<f64>,
    pub occupancy_percent: Fact<f64>,
    pub l2_hit_percent: Fact<f64>,
    /// Wavefronts beyond those the shared accesses need, and all wavefronts.
    pub bank_conflicts: Fact<u64>,
    pub shared_wavefronts: Fact<u64>,
    pub sectors_per_request: Fact<f64>,
    pub registers: Fact<u32>,
    pub local_bytes: Fact<u64>,
    pub divergent_branches: Fact<u64>,
    pub barriers: Fact<u64>,
    pub instructions: Fact<u64>,
    /// Why warps waited, as a share of their time, largest first.
    pub stalls: Vec<(String, f64)>,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// `compute-bound`, `memory-bound`, `latency-bound`, `tensor cores idle`, `spilling`, ...
    pub rule: String,
    /// How much is to be had, by the rule's own measure; orders the diagnoses.
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
