//! The table of a profile's metrics: names, labels, units, and the metrics of Nsight Compute behind them. The request to
//! Nsight Compute, the terminal, Markdown and the report page use it.

use super::{Fact, Metrics};

/// The unit of a metric, which decides how its values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Per cent.
    Percent,
    /// A whole number.
    Count,
    /// A whole number of bytes.
    Bytes,
    /// A ratio of two counts.
    Ratio,
}

impl Unit {
    /// A value with its unit.
    pub fn text(self, value: f64) -> String {
        // The share of nothing can be -0.0.
        let value = value + 0.0;
        match self {
            Unit::Percent => format!("{value:.1}%"),
            Unit::Count => format!("{value:.0}"),
            Unit::Bytes => format!("{value:.0} B"),
            Unit::Ratio => format!("{value:.2}"),
        }
    }
}

/// A metric of a profile.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The field of [`Metrics`], and of JSON documents.
    pub name: &'static str,
    /// The name in tables.
    pub label: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The metrics of Nsight Compute from which it is computed; the name on the newest chips comes first.
    pub ncu: &'static [&'static str],
    /// The value of a launch.
    pub value: fn(&Metrics) -> Fact<f64>,
}

impl Metric {
    /// The metric with this name. Panics if there is none.
    pub fn named(name: &str) -> &'static Metric {
        METRICS.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// The value of a launch with its unit, or the reason why it is unavailable; the reason may be empty.
    pub fn text(&self, metrics: &Metrics) -> Result<String, String> {
        match (self.value)(metrics) {
            Fact::Known(value) => Ok(self.unit.text(value)),
            Fact::Unavailable { reason } => Err(reason),
        }
    }
}

macro_rules! metrics {
    ($($name:ident, $label:literal, $unit:ident, [$($ncu:literal),*];)*) => {
        /// All metrics that are numbers, in the order in which they are shown. A profile also has the time.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            label: $label,
            unit: Unit::$unit,
            ncu: &[$($ncu),*],
            value: |metrics| metrics.$name.clone().map(|value| value as f64),
        }),*];
    };
}

metrics! {
    tensor_active_percent, "tensor pipe active", Percent,
        ["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
         "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed"];
    dram_percent, "DRAM throughput", Percent, ["dram__throughput.avg.pct_of_peak_sustained_elapsed"];
    sm_busy_percent, "SM busy", Percent, ["sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed"];
    warps_active_percent, "warps active", Percent, ["sm__warps_active.avg.pct_of_peak_sustained_elapsed"];
    occupancy_percent, "achieved occupancy", Percent, ["sm__warps_active.avg.pct_of_peak_sustained_active"];
    theoretical_occupancy_percent, "theoretical occupancy", Percent, ["sm__maximum_warps_per_active_cycle_pct"];
    l2_hit_percent, "L2 hits", Percent, ["lts__t_sector_hit_rate.pct"];
    // All bank conflicts: those between the addresses of one access, which the kernel can avoid, and those between
    // simultaneous accesses of different warps. The second metric counts only the latter.
    bank_conflicts, "bank conflicts", Count,
        ["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "l1tex__data_bank_conflicts_type_arbitration.sum"];
    // Counted per instruction, including asynchronous copies. The counter of the data pipe,
    // `l1tex__data_pipe_lsu_wavefronts_mem_shared`, misses most of a copy.
    shared_wavefronts, "shared wavefronts", Count, ["smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared.sum"];
    // Asynchronous copies (cp.async) are separate instructions.
    global_requests, "global requests", Count,
        ["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
         "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
         "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum"];
    sectors_per_request, "sectors per request", Ratio,
        ["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
         "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
         "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum"];
    sector_use_percent, "sector bytes used", Percent,
        ["smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"];
    registers, "registers per thread", Count, ["launch__registers_per_thread"];
    local_bytes, "local memory traffic", Bytes,
        ["l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"];
    spill_bytes, "spilled per thread", Bytes, [];
    branches, "branches", Count, ["smsp__sass_branch_targets.sum"];
    divergent_branches, "divergent branches", Count, ["smsp__sass_branch_targets_threads_divergent.sum"];
    threads_per_instruction, "threads per instruction", Ratio,
        ["smsp__thread_inst_executed_per_inst_executed.ratio"];
    barriers, "barrier arrivals", Count, [];
    instructions, "instructions", Count, ["smsp__inst_executed.sum"];
    tensor_instructions, "tensor instructions", Count, ["sm__inst_executed_pipe_tensor.sum"];
    blocks, "blocks", Count, ["launch__grid_size"];
    threads_per_block, "threads per block", Count, ["launch__block_size"];
    sms, "SMs", Count, ["launch__sm_count"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_number_of_a_profile() {
        let written = serde_json::to_value(Metrics::default()).unwrap();
        let fields = written.as_object().unwrap().keys().map(String::as_str);
        let others = ["time", "resources", "stalls"];
        let numbers: Vec<&str> = fields.filter(|field| !others.contains(field)).collect();
        assert_eq!(numbers, METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>());
    }

    #[test]
    fn a_value_is_written_with_its_unit_or_the_reason_is() {
        let metrics = Metrics {
            dram_percent: Fact::Known(-0.0),
            local_bytes: Fact::Known(64),
            sms: Fact::unavailable("no GPU"),
            ..Metrics::default()
        };
        let text = |name| Metric::named(name).text(&metrics);
        assert_eq!(text("dram_percent").as_deref(), Ok("0.0%"));
        assert_eq!(text("local_bytes").as_deref(), Ok("64 B"));
        assert_eq!(text("sms"), Err("no GPU".to_owned()));
        assert_eq!(text("registers"), Err(String::new()));
    }
}
