//! The table of GPUs, and the values that follow from it.

use std::fmt;

use serde::Serialize;

use crate::occupancy::{self, DoesNotFit, NextStep, Occupancy, Resources};
use crate::target::{ComputeCapability, Limits, Target};

/// One GPU product.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Chip {
    /// Short name, as in `virtual:l4`.
    pub id: &'static str,
    /// The product's name, such as `H100 SXM`.
    pub name: &'static str,
    /// Other names that [`Chip::by_name`] accepts, the driver's device name first.
    pub aliases: &'static [&'static str],
    /// The target with the most features that it runs.
    pub target: Target,
    /// Number of SMs.
    pub sms: u32,
    /// The SM clocks.
    pub clocks: Clocks,
    /// The device memory.
    pub memory: Memory,
    /// The L2 cache.
    pub l2: L2,
    /// Rates of one SM per clock.
    pub sm: SmRates,
}

/// SM clocks in MHz.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Clocks {
    /// `None` if NVIDIA publishes none (the Hopper SXM parts run at their boost clock by default).
    pub base_mhz: Option<u32>,
    /// The boost clock in MHz.
    pub boost_mhz: u32,
    /// The clock that the datasheet uses for tensor operations narrower than FP64. It is lower than the boost clock
    /// on Hopper and the same elsewhere.
    pub tensor_mhz: u32,
}

/// Device memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Memory {
    /// The nominal size; the driver shows 1-4% less (ECC, its own use).
    pub bytes: u64,
    /// As shown by `nvidia-smi`: two transfers per clock.
    pub clock_mhz: u32,
    /// Width of the memory bus in bits.
    pub bus_bits: u32,
    /// Peak bandwidth in the datasheet, 10^9 bytes/s.
    pub gbs: f64,
}

/// The L2 cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct L2 {
    /// Size in bytes.
    pub bytes: u64,
    /// Read bandwidth of hits, 10^9 bytes/s. An estimate from measurements: NVIDIA publishes none.
    pub gbs_estimate: f64,
}

/// Rates of one SM per clock. A lane is one thread-level result per clock, so a warp instruction takes `32 / lanes`
/// clocks of its pipe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SmRates {
    /// Warp schedulers; each issues one warp instruction per clock.
    pub schedulers: u32,
    /// FP32 add, multiply, fused multiply-add.
    pub fp32_lanes: u32,
    /// FP64 add, multiply, fused multiply-add.
    pub fp64_lanes: u32,
    /// Packed half (`f16x2`): half results, two per lane.
    pub fp16_lanes: u32,
    /// 32-bit integer add, multiply-add, logic, compare.
    pub int32_lanes: u32,
    /// `ex2`, `lg2`, `rcp`, `rsqrt`, `sin`, `cos`, `tanh`.
    pub mufu_lanes: u32,
    /// Warp shuffles (`shfl`).
    pub shuffle_lanes: u32,
    /// Load/store units: addresses per clock of shared, global and local accesses together.
    pub lsu_lanes: u32,
    /// Shared memory (32 banks of 4 bytes), and L1 hits.
    pub shared_bytes_per_clock: u32,
    /// Rates of the tensor cores.
    pub tensor: TensorRates,
}

/// Dense tensor-core operations per clock per SM. A multiply-add counts as two. `None` if not supported.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TensorRates {
    /// With accumulation in FP32, as for bf16, tf32 and fp8.
    pub fp16: Option<u32>,
    /// BF16 with accumulation in FP32.
    pub bf16: Option<u32>,
    /// TF32 with accumulation in FP32.
    pub tf32: Option<u32>,
    /// FP8 with accumulation in FP32.
    pub fp8: Option<u32>,
    /// With accumulation in INT32.
    pub int8: Option<u32>,
    /// FP64 with accumulation in FP64.
    pub fp64: Option<u32>,
    /// With accumulation in FP16. `GeForce` cards do this twice as fast as accumulation in FP32.
    pub fp16_acc_fp16: Option<u32>,
    /// FP8 with accumulation in FP16.
    pub fp8_acc_fp16: Option<u32>,
    /// The part of these rates that `mma.sync` and `wmma` reach; on Hopper only `wgmma` reaches all of it. An
    /// estimate.
    pub mma_sync_fraction_estimate: f64,
}

/// The kinds of tensor-core work that have a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorType {
    /// FP16 with accumulation in FP32.
    Fp16,
    /// BF16 with accumulation in FP32.
    Bf16,
    /// TF32 with accumulation in FP32.
    Tf32,
    /// FP8 with accumulation in FP32.
    Fp8,
    /// 8-bit integers with accumulation in INT32.
    Int8,
    /// FP64 with accumulation in FP64.
    Fp64,
    /// FP16 with accumulation in FP16.
    Fp16AccFp16,
    /// FP8 with accumulation in FP16.
    Fp8AccFp16,
}

impl TensorRates {
    /// Operations per clock per SM; `None` if not supported.
    pub const fn ops_per_clock(&self, kind: TensorType) -> Option<u32> {
        match kind {
            TensorType::Fp16 => self.fp16,
            TensorType::Bf16 => self.bf16,
            TensorType::Tf32 => self.tf32,
            TensorType::Fp8 => self.fp8,
            TensorType::Int8 => self.int8,
            TensorType::Fp64 => self.fp64,
            TensorType::Fp16AccFp16 => self.fp16_acc_fp16,
            TensorType::Fp8AccFp16 => self.fp8_acc_fp16,
        }
    }
}

// Rates per SM, by die. Sources:
// - FP32, FP64, FP16, INT32, MUFU, shuffle lanes: "Throughput of Native Arithmetic Instructions", CUDA C++
//   Programming Guide 12.x (Best Practices Guide from 13.0), columns 8.0, 8.9, 9.0.
// - Schedulers, load/store units: the SM diagrams of the A100, Ada and H100 whitepapers (8 load/store units
//   per sub-partition on GA100 and GH100, 4 on AD10x: there only 64- and 128-bit accesses fill the 128 bytes).
// - Shared memory: 32 banks x 4 bytes (Programming Guide, "Shared Memory" of each compute capability).
// - Tensor rates: A100 whitepaper ("1024 dense FP16 FMA per clock per SM"), H100 whitepaper (twice the A100),
//   Ada whitepaper appendix A (per tensor core, checked below against the published peaks).
// - mma.sync on Hopper: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
//   Microbenchmarking" (arXiv 2402.13499): 62.9% of peak on average; FlashAttention-3 (arXiv 2407.08608): about 2/3.

/// A100.
const GA100: SmRates = SmRates {
    schedulers: 4,
    fp32_lanes: 64,
    fp64_lanes: 32,
    fp16_lanes: 256,
    int32_lanes: 64,
    mufu_lanes: 16,
    shuffle_lanes: 32,
    lsu_lanes: 32,
    shared_bytes_per_clock: 128,
    tensor: TensorRates {
        fp16: Some(2048),
        bf16: Some(2048),
        tf32: Some(1024),
        fp8: None,
        int8: Some(4096),
        fp64: Some(128),
        fp16_acc_fp16: Some(2048),
        fp8_acc_fp16: None,
        mma_sync_fraction_estimate: 1.0,
    },
};

/// Ada in data-centre products (L4, L40): full rate with FP32 accumulation.
const AD10X: SmRates = SmRates {
    schedulers: 4,
    fp32_lanes: 128,
    fp64_lanes: 2,
    fp16_lanes: 128,
    int32_lanes: 64,
    mufu_lanes: 16,
    shuffle_lanes: 32,
    lsu_lanes: 16,
    shared_bytes_per_clock: 128,
    tensor: TensorRates {
        fp16: Some(1024),
        bf16: Some(1024),
        tf32: Some(512),
        fp8: Some(2048),
        int8: Some(2048),
        fp64: None,
        fp16_acc_fp16: Some(1024),
        fp8_acc_fp16: Some(2048),
        mma_sync_fraction_estimate: 1.0,
    },
};

/// Ada in `GeForce` products: half rate with FP32 accumulation.
const AD10X_GEFORCE: SmRates = SmRates {
    tensor: TensorRates {
        fp16: Some(512),
        bf16: Some(512),
        tf32: Some(256),
        fp8: Some(1024),
        ..AD10X.tensor
    },
    ..AD10X
};

/// H100, H200.
const GH100: SmRates = SmRates {
    schedulers: 4,
    fp32_lanes: 128,
    fp64_lanes: 64,
    fp16_lanes: 256,
    int32_lanes: 64,
    mufu_lanes: 16,
    shuffle_lanes: 32,
    lsu_lanes: 32,
    shared_bytes_per_clock: 128,
    tensor: TensorRates {
        fp16: Some(4096),
        bf16: Some(4096),
        tf32: Some(2048),
        fp8: Some(8192),
        int8: Some(8192),
        fp64: Some(256),
        fp16_acc_fp16: Some(4096),
        fp8_acc_fp16: Some(8192),
        mma_sync_fraction_estimate: 0.63,
    },
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Every GPU that Warpsmith supports.
///
/// L2 bandwidths are plateaus measured by `gpu-l2-cache` of RRZE-HPC/gpu-benches, or scaled from them.
pub const CHIPS: [Chip; 5] = [
    // NVIDIA L4 datasheet (30.3 TFLOP/s FP32, 242 FP16 and 485 FP8 with sparsity, 24 GB, 300 GB/s) and product
    // brief (795 / 2040 MHz, 6251 MHz, 192 bits, 48 MB L2). 58 SMs: 7424 CUDA cores.
    Chip {
        id: "l4",
        name: "L4",
        aliases: &["NVIDIA L4"],
        target: Target::Sm89,
        sms: 58,
        clocks: Clocks { base_mhz: Some(795), boost_mhz: 2040, tensor_mhz: 2040 },
        memory: Memory { bytes: 24 * GIB, clock_mhz: 6251, bus_bits: 192, gbs: 300.0 },
        // Scaled from the L40's 5200 GB/s: half its memory partitions, 2040 instead of 2490 MHz.
        l2: L2 { bytes: 48 * MIB, gbs_estimate: 2100.0 },
        sm: AD10X,
    },
    // A100 80GB SXM datasheet (19.5 TFLOP/s FP32, 312 FP16, 80 GB, 2039 GB/s) and A100 whitepaper (108 SMs,
    // 1410 MHz boost, 5120 bits, 40 MB L2). Base clock, memory clock: TechPowerUp.
    Chip {
        id: "a100",
        name: "A100 80GB SXM",
        aliases: &["NVIDIA A100-SXM4-80GB", "a100-80gb", "a100-sxm"],
        target: Target::Sm80,
        sms: 108,
        clocks: Clocks { base_mhz: Some(1275), boost_mhz: 1410, tensor_mhz: 1410 },
        memory: Memory { bytes: 80 * GIB, clock_mhz: 1593, bus_bits: 5120, gbs: 2039.0 },
        // Measured on this part. The whitepaper's 5120 bytes/clock would be 7219 GB/s.
        l2: L2 { bytes: 40 * MIB, gbs_estimate: 5400.0 },
        sm: GA100,
    },
    // Ada whitepaper, appendix A (128 SMs, 2235 / 2520 MHz, 82.6 TFLOP/s FP32, 165.2 FP16 with FP32
    // accumulation, 24 GB at 21 Gbit/s, 384 bits, 1008 GB/s, 73728 KB L2).
    Chip {
        id: "rtx4090",
        name: "GeForce RTX 4090",
        aliases: &["NVIDIA GeForce RTX 4090", "4090"],
        target: Target::Sm89,
        sms: 128,
        clocks: Clocks { base_mhz: Some(2235), boost_mhz: 2520, tensor_mhz: 2520 },
        memory: Memory { bytes: 24 * GIB, clock_mhz: 10501, bus_bits: 384, gbs: 1008.0 },
        // The L40 (same die, more SMs) measures 5200; smallscientist1/cuda_microbenchmark reports 4900 for the 4090.
        l2: L2 { bytes: 72 * MIB, gbs_estimate: 5000.0 },
        sm: AD10X_GEFORCE,
    },
    // H100 SXM datasheet (67 TFLOP/s FP32, 1979 FP16 with sparsity, 80 GB, 3.35 TB/s) and H100 whitepaper
    // (132 SMs, 5120 bits, 50 MB L2, 1980 MHz, 1830 MHz for tensor operations). 2619 MHz: nvidia-smi.
    Chip {
        id: "h100",
        name: "H100 SXM",
        aliases: &["NVIDIA H100 80GB HBM3", "h100-sxm", "h100-sxm5"],
        target: Target::Sm90a,
        sms: 132,
        clocks: Clocks { base_mhz: None, boost_mhz: 1980, tensor_mhz: 1830 },
        memory: Memory { bytes: 80 * GIB, clock_mhz: 2619, bus_bits: 5120, gbs: 3350.0 },
        // As for the H200: same die, SMs and clock. (The PCIe card measures 6950 with 114 SMs at 1755 MHz.)
        l2: L2 { bytes: 50 * MIB, gbs_estimate: 9700.0 },
        sm: GH100,
    },
    // H200 SXM datasheet (as the H100, but 141 GB, 4.8 TB/s). 1980 and 3201 MHz: nvidia-smi; six HBM3e stacks.
    Chip {
        id: "h200",
        name: "H200 SXM",
        aliases: &["NVIDIA H200", "h200-sxm"],
        target: Target::Sm90a,
        sms: 132,
        clocks: Clocks { base_mhz: None, boost_mhz: 1980, tensor_mhz: 1830 },
        memory: Memory { bytes: 141 * GIB, clock_mhz: 3201, bus_bits: 6144, gbs: 4800.0 },
        // Measured on this part.
        l2: L2 { bytes: 50 * MIB, gbs_estimate: 9700.0 },
        sm: GH100,
    },
];

impl Chip {
    /// Finds a GPU by id, name, alias or the driver's device name. Case, spaces, `-` and `_` do not matter.
    pub fn by_name(name: &str) -> Result<&'static Self, UnknownChip> {
        let wanted = normalized(name);
        CHIPS
            .iter()
            .find(|chip| chip.names().any(|known| normalized(known) == wanted))
            .ok_or_else(|| UnknownChip { name: name.to_owned() })
    }

    /// Every name that [`Chip::by_name`] accepts for this GPU, the id first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        [self.id, self.name].into_iter().chain(self.aliases.iter().copied())
    }

    /// The compute capability.
    pub const fn compute_capability(&self) -> ComputeCapability {
        self.target.compute_capability()
    }

    /// The limits of an SM.
    pub const fn limits(&self) -> &'static Limits {
        self.target.limits()
    }

    /// Whether a cubin built for `target` runs on this GPU.
    pub fn runs(&self, target: Target) -> bool {
        target.cubin_runs_on(self.compute_capability())
    }

    /// Blocks of a kernel per SM, and what limits them. See [`occupancy()`](crate::occupancy()).
    pub fn occupancy(&self, kernel: &Resources) -> Result<Occupancy, DoesNotFit> {
        occupancy::occupancy(self.limits(), kernel)
    }

    /// What one more block needs. See [`next_step`](crate::next_step).
    pub fn next_step(&self, kernel: &Resources) -> Option<NextStep> {
        occupancy::next_step(self.limits(), kernel)
    }

    /// Peak FP32 rate outside the tensor cores, 10^12 operations/s. A multiply-add counts as two.
    pub fn fp32_tflops(&self) -> f64 {
        self.tera_per_second(2 * self.sm.fp32_lanes, self.clocks.boost_mhz)
    }

    /// Peak FP64 rate outside the tensor cores, 10^12 operations/s.
    pub fn fp64_tflops(&self) -> f64 {
        self.tera_per_second(2 * self.sm.fp64_lanes, self.clocks.boost_mhz)
    }

    /// Peak dense tensor rate, 10^12 operations/s; `None` if the tensor cores do not support this type.
    pub fn tensor_tflops(&self, kind: TensorType) -> Option<f64> {
        let clock = if kind == TensorType::Fp64 { self.clocks.boost_mhz } else { self.clocks.tensor_mhz };
        Some(self.tera_per_second(self.sm.tensor.ops_per_clock(kind)?, clock))
    }

    /// Peak shared-memory bandwidth of all SMs, 10^9 bytes/s.
    pub fn shared_gbs(&self) -> f64 {
        self.tera_per_second(self.sm.shared_bytes_per_clock, self.clocks.boost_mhz) * 1e3
    }

    fn tera_per_second(&self, per_clock_per_sm: u32, mhz: u32) -> f64 {
        f64::from(self.sms) * f64::from(per_clock_per_sm) * f64::from(mhz) * 1e-6
    }
}

fn normalized(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// A GPU name that is not in [`CHIPS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownChip {
    /// The name that no GPU of the table has.
    pub name: String,
}

impl fmt::Display for UnknownChip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown GPU `{}`; expected one of {}", self.name, CHIPS.map(|chip| chip.id).join(", "))
    }
}

impl std::error::Error for UnknownChip {}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(name: &str) -> &'static Chip {
        Chip::by_name(name).unwrap()
    }

    #[track_caller]
    fn assert_within(percent: f64, what: &str, computed: f64, published: f64) {
        let off = (computed / published - 1.0).abs() * 100.0;
        assert!(off <= percent, "{what}: computed {computed:.1}, published {published:.1}, {off:.1}% off");
    }

    #[test]
    fn every_name_finds_its_chip_and_no_other() {
        for chip in &CHIPS {
            for name in chip.names() {
                assert_eq!(Chip::by_name(name).unwrap().id, chip.id, "{name}");
            }
        }
        for (name, id) in [
            ("L4", "l4"),
            ("A100", "a100"),
            ("4090", "rtx4090"),
            ("RTX 4090", "rtx4090"),
            ("rtx-4090", "rtx4090"),
            ("H100 SXM", "h100"),
            ("h200", "h200"),
        ] {
            assert_eq!(chip(name).id, id, "{name}");
        }
    }

    /// Related products with other sizes must not match the part in the table.
    #[test]
    fn other_gpus_are_unknown() {
        for name in
            ["", "l40", "NVIDIA L40S", "NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA H100 PCIe"]
        {
            assert_eq!(Chip::by_name(name), Err(UnknownChip { name: name.to_owned() }));
        }
        assert_eq!(
            Chip::by_name("b200").unwrap_err().to_string(),
            "unknown GPU `b200`; expected one of l4, a100, rtx4090, h100, h200"
        );
    }

    #[test]
    fn chips_run_their_targets() {
        let runs = |name| {
            let mut names = Vec::new();
            for target in Target::ALL {
                if chip(name).runs(target) {
                    names.push(target.name());
                }
            }
            names
        };
        assert_eq!(runs("l4"), ["sm_80", "sm_86", "sm_89"]);
        assert_eq!(runs("rtx4090"), ["sm_80", "sm_86", "sm_89"]);
        assert_eq!(runs("a100"), ["sm_80"]);
        assert_eq!(runs("h100"), ["sm_90", "sm_90a"]);
        assert_eq!(runs("h200"), ["sm_90", "sm_90a"]);
        for chip in &CHIPS {
            assert_eq!(Target::best_for(chip.compute_capability()), Some(chip.target), "{}", chip.id);
        }
    }

    // Compares computed peaks with the published ones: datasheets (L4, A100, H100, H200; tensor values published with
    // sparsity are halved) and the Ada whitepaper's appendix A (RTX 4090).

    #[test]
    fn scalar_peaks_match_the_datasheets() {
        for (name, fp32, fp64) in [
            ("l4", 30.3, 0.473), // FP64 is 1/64 of FP32 on Ada; the datasheet has no value
            ("a100", 19.5, 9.7),
            ("rtx4090", 82.6, 1.29),
            ("h100", 67.0, 34.0),
            ("h200", 67.0, 34.0),
        ] {
            assert_within(1.0, name, chip(name).fp32_tflops(), fp32);
            assert_within(2.0, name, chip(name).fp64_tflops(), fp64);
        }
    }

    #[test]
    fn tensor_peaks_match_the_datasheets() {
        use TensorType::{Bf16, Fp8, Fp8AccFp16, Fp16, Fp16AccFp16, Fp64, Int8, Tf32};

        let hopper: &[(TensorType, f64)] = &[
            (Fp16, 1979.0 / 2.0),
            (Bf16, 1979.0 / 2.0),
            (Tf32, 989.0 / 2.0),
            (Fp8, 3958.0 / 2.0),
            (Int8, 3958.0 / 2.0),
            (Fp64, 67.0),
        ];
        let published: [(&str, &[(TensorType, f64)]); 5] = [
            (
                "l4",
                &[
                    (Fp16, 242.0 / 2.0),
                    (Bf16, 242.0 / 2.0),
                    (Tf32, 120.0 / 2.0),
                    (Fp8, 485.0 / 2.0),
                    (Int8, 485.0 / 2.0),
                ],
            ),
            ("a100", &[(Fp16, 312.0), (Bf16, 312.0), (Tf32, 156.0), (Int8, 624.0), (Fp64, 19.5)]),
            (
                "rtx4090",
                &[
                    (Fp16, 165.2),
                    (Bf16, 165.2),
                    (Tf32, 82.6),
                    (Fp8, 330.3),
                    (Int8, 660.6),
                    (Fp16AccFp16, 330.3),
                    (Fp8AccFp16, 660.6),
                ],
            ),
            ("h100", hopper),
            ("h200", hopper),
        ];
        for (name, rates) in published {
            for &(kind, peak) in rates {
                let computed = chip(name).tensor_tflops(kind).unwrap();
                assert_within(1.1, &format!("{name} {kind:?}"), computed, peak);
            }
        }
        assert_eq!(chip("a100").tensor_tflops(Fp8), None);
        assert_eq!(chip("l4").tensor_tflops(Fp64), None);
    }

    #[test]
    fn memory_clocks_match_the_published_bandwidths() {
        for chip in &CHIPS {
            let Memory { clock_mhz, bus_bits, gbs, .. } = chip.memory;
            let computed = 2.0 * f64::from(clock_mhz) * f64::from(bus_bits) / 8.0 / 1000.0;
            // The H200's clock would give 4917 GB/s; NVIDIA publishes 4.8 TB/s.
            let tolerance = if chip.id == "h200" { 2.5 } else { 0.2 };
            assert_within(tolerance, chip.id, computed, gbs);
        }
    }

    #[test]
    fn the_shared_memory_bandwidth_is_computed_from_the_clock() {
        // 108 SMs x 128 bytes x 1.41 GHz.
        assert_within(0.1, "a100", chip("a100").shared_gbs(), 19492.0);
        assert_within(0.1, "h200", chip("h200").shared_gbs(), 33454.0);
    }

    /// Faster memories are smaller, in every row.
    #[test]
    fn faster_memories_are_smaller() {
        for chip in &CHIPS {
            assert!(chip.memory.bytes > chip.l2.bytes, "{}", chip.id);
            assert!(chip.l2.gbs_estimate > chip.memory.gbs, "{}", chip.id);
            assert!(chip.shared_gbs() > chip.l2.gbs_estimate, "{}", chip.id);
            assert!(chip.clocks.base_mhz.is_none_or(|base| base <= chip.clocks.boost_mhz), "{}", chip.id);
        }
    }
}
