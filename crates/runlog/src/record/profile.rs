//! A kernel's profile as a run records it.

use family::Family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use times::Time;

use super::Fact;

/// A kernel's profile on one problem.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Profile {
    /// The source of the metrics: `ncu 2025.3` or `virtual:l4`.
    pub source: String,
    /// Differences from the request, such as a cut problem or missing hot lines.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The metrics of the profiled launch.
    pub metrics: Metrics,
    /// The kernel's place under the roofs; `None` if the time or the peak rates are unknown.
    pub roofline: Option<Roofline>,
    /// The most important diagnosis comes first.
    pub diagnoses: Vec<Diagnosis>,
    /// Source lines with the largest share of the work, largest first.
    pub hot_lines: Vec<HotLine>,
    /// The source around the hot lines, in order; empty in old logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listing: Vec<ListedLine>,
}

/// A line of the annotated source.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ListedLine {
    /// Relative to the family's folder: `kernel.cu`.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
    /// The line's text.
    pub text: String,
    /// Percentage of the launch's total; `None` if the line is not one of the hot lines.
    pub share_percent: Option<f64>,
}

/// The metrics of one launch. A metric that could not be collected is unavailable, with the reason; it is never 0.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Duration of the launch, measured or modelled; `None` if unknown.
    pub time: Option<Time>,
    /// Percentage of the cycles in which the tensor pipe worked, averaged over all SMs and the whole launch.
    pub tensor_active_percent: Fact<f64>,
    /// Percentage of the bandwidth, over the whole launch.
    pub dram_percent: Fact<f64>,
    /// The busiest pipe's percentage of its issue rate, averaged over all SMs and the whole launch.
    pub sm_busy_percent: Fact<f64>,
    /// Resident warps as a percentage of those the device can hold, over the whole launch.
    pub warps_active_percent: Fact<f64>,
    /// Achieved occupancy: resident warps while an SM had work.
    pub occupancy_percent: Fact<f64>,
    /// The occupancy that registers, shared memory and block size allow.
    pub theoretical_occupancy_percent: Fact<f64>,
    /// Percentage of the sectors requested from L2 that were in it.
    pub l2_hit_percent: Fact<f64>,
    /// Wavefronts beyond those the shared-memory accesses need.
    pub bank_conflicts: Fact<u64>,
    /// All wavefronts of shared-memory accesses.
    pub shared_wavefronts: Fact<u64>,
    /// Requests to global memory: loads and asynchronous copies.
    pub global_requests: Fact<u64>,
    /// 32-byte sectors per request to global memory, on average.
    pub sectors_per_request: Fact<f64>,
    /// Requested bytes as a percentage of the bytes in the fetched sectors.
    pub sector_use_percent: Fact<f64>,
    /// Registers per thread.
    pub registers: Fact<u32>,
    /// Bytes of local memory moved: spilled registers, and arrays with indices known only at run time.
    pub local_bytes: Fact<u64>,
    /// Bytes of the compiler's spill stores and loads, per thread.
    pub spill_bytes: Fact<u64>,
    /// Branches that warps executed.
    pub branches: Fact<u64>,
    /// Branches that split their warp.
    pub divergent_branches: Fact<u64>,
    /// Active threads per warp instruction, of 32.
    pub threads_per_instruction: Fact<f64>,
    /// Arrivals of warps at barriers.
    pub barriers: Fact<u64>,
    /// Instructions that warps executed.
    pub instructions: Fact<u64>,
    /// Tensor-core instructions, counted as 16x8x16 products.
    pub tensor_instructions: Fact<u64>,
    /// Blocks of the grid.
    pub blocks: Fact<u64>,
    /// Threads per block.
    pub threads_per_block: Fact<u32>,
    /// Multiprocessors of the device.
    pub sms: Fact<u32>,
    /// The time that each resource of the model alone would take, in per cent of the launch's time, longest first.
    pub resources: Vec<(String, f64)>,
    /// Why warps waited, in per cent of their time, largest first, with the names of Nsight Compute.
    pub stalls: Vec<(String, f64)>,
}

impl Metrics {
    /// The share of the warps' time that these stall reasons take, from 0 to 1. `None` if no stall reasons are known.
    pub fn stalled(&self, reasons: &[&str]) -> Option<f64> {
        if self.stalls.is_empty() {
            return None;
        }
        let wanted = self.stalls.iter().filter(|(name, _)| reasons.contains(&name.as_str()));
        // The sum of no floats is -0.0, so the fold starts at 0.0.
        Some(wanted.fold(0.0, |sum, (_, percent)| sum + percent / 100.0))
    }
}

/// A kernel compared with the two peak rates of the device.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Roofline {
    /// Operations per byte that crosses the memory bus.
    pub flops_per_byte: f64,
    /// Operations per second.
    pub tflops: f64,
    /// The device's peak rate of matrix products, in 10^12 operations per second.
    pub peak_tflops: f64,
    /// The device's peak memory bandwidth, in 10^9 bytes per second.
    pub peak_gb_per_s: f64,
    /// The source of the peaks: `measured in this run` or `data sheet`.
    pub peaks: String,
}

impl Roofline {
    /// The rate that the lower of the two roofs allows at this intensity.
    pub fn roof_tflops(&self) -> f64 {
        self.peak_tflops.min(self.flops_per_byte * self.peak_gb_per_s / 1000.0)
    }

    /// The rate of the kernel beside the lower roof, in the unit of that roof.
    pub fn text(&self) -> String {
        let Roofline { flops_per_byte, tflops, peak_tflops, peak_gb_per_s, peaks } = self;
        let intensity = digits(*flops_per_byte);
        let share = 100.0 * tflops / self.roof_tflops().max(f64::MIN_POSITIVE);
        let roof = if self.roof_tflops() < *peak_tflops {
            let rate = 1000.0 * tflops / flops_per_byte.max(f64::MIN_POSITIVE);
            format!("{} of {} GB/s", digits(rate), digits(*peak_gb_per_s))
        } else {
            format!("{} of {} TFLOP/s", digits(*tflops), digits(*peak_tflops))
        };
        format!("{roof} ({share:.1}%, {peaks}) at {intensity} FLOP per byte")
    }
}

/// A number with three significant digits, or with all digits before the point.
fn digits(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.1e}"),
    }
}

/// One limit of a kernel, with the advice for it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Diagnosis {
    /// `compute-bound`, `memory-bound`, `latency-bound`, `tensor cores idle`, `spilling`, ...
    pub rule: String,
    /// The estimated share of the time that could be saved, from 0 to 1. Diagnoses are sorted by it.
    pub weight: f64,
    /// The metrics that led to the diagnosis, in words.
    pub evidence: String,
    /// What to change.
    pub levers: Vec<Lever>,
}

/// A change that may remove a limit.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(from = "LoggedLever")]
#[schemars(!from)]
pub struct Lever {
    /// The change, in words.
    pub change: String,
    /// The knobs that carry it out, each with the direction in which its value changes.
    #[serde(skip)]
    pub steps: Vec<(String, Direction)>,
    /// The result of trying it, if it was tried.
    pub tried: Option<TriedLever>,
}

/// The direction in which the value of a knob changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the next larger value.
    Up,
    /// To the next smaller value.
    Down,
}

/// The modelled result of a change.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct TriedLever {
    /// The knobs that were changed: `BLOCK_M=32 NUM_WARPS=2`.
    pub setting: String,
    /// The modelled time before the change, divided by the modelled time after it.
    pub speedup: f64,
}

/// The forms of a lever in logs: older logs have only its words.
#[derive(Deserialize)]
#[serde(untagged)]
enum LoggedLever {
    Words(String),
    Whole { change: String, tried: Option<TriedLever> },
}

impl From<LoggedLever> for Lever {
    fn from(logged: LoggedLever) -> Self {
        let (change, tried) = match logged {
            LoggedLever::Words(change) => (change, None),
            LoggedLever::Whole { change, tried } => (change, tried),
        };
        Lever { change, steps: Vec::new(), tried }
    }
}

impl std::fmt::Display for Lever {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.tried {
            None => f.write_str(&self.change),
            Some(TriedLever { setting, speedup }) => {
                write!(f, "{} ({setting}: {speedup:.2}x, modelled)", self.change)
            }
        }
    }
}

/// A source line with a large share of the work.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct HotLine {
    /// Relative to the family's folder: `kernel.cu`.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
    /// The line's text without leading spaces; empty if the source is unknown.
    pub text: String,
    /// Percentage of the launch's total, see `of`.
    pub share_percent: f64,
    /// What the share refers to: `instructions`, `stall samples`.
    pub of: String,
}

/// The metrics and hot lines of a launch, before the rules are applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The metrics of the launch.
    pub metrics: Metrics,
    /// Source lines with the largest share of the work, largest first.
    pub hot_lines: Vec<HotLine>,
}

/// Lines of source that are shown before and after a hot line.
const CONTEXT: u32 = 3;

/// The source around the hot lines, by file and line. Lines whose source is unknown are left out.
pub fn listing(hot: &[HotLine], family: &Family) -> Vec<ListedLine> {
    let mut files: Vec<&str> = Vec::new();
    for line in hot {
        if !files.contains(&line.file.as_str()) {
            files.push(&line.file);
        }
    }
    let own = family.source_name().rsplit('/').next().unwrap_or_default();
    let mut listed = Vec::new();
    for file in files {
        let name = if file == own { family.source_name() } else { file };
        let Some(text) = family.source_text(name) else { continue };
        let here: Vec<&HotLine> = hot.iter().filter(|line| line.file == file).collect();
        for (number, text) in (1u32..).zip(text.lines()) {
            if here.iter().any(|line| line.line.abs_diff(number) <= CONTEXT) {
                let own = here.iter().find(|line| line.line == number);
                let share_percent = own.map(|line| line.share_percent);
                let (file, text) = (file.to_owned(), text.trim_end().to_owned());
                listed.push(ListedLine { file, line: number, text, share_percent });
            }
        }
    }
    listed
}

/// Number of source lines that a profile keeps.
const HOT_LINES: usize = 12;

/// The weight of each line, by file and line number.
pub type LineWeights = Vec<((String, u32), f64)>;

/// Returns the lines with the largest shares, with their text if the family has it.
pub fn hottest(lines: LineWeights, of: &str, family: &Family) -> Vec<HotLine> {
    let total: f64 = lines.iter().map(|(_, weight)| weight).sum();
    let mut lines = lines;
    lines.sort_by(|a, b| b.1.total_cmp(&a.1));
    let hot = |((file, line), weight): ((String, u32), f64)| {
        let text =
            family.source_text(&file).and_then(|text| text.lines().nth(line.saturating_sub(1) as usize));
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
