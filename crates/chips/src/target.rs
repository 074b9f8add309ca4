//! Compile targets and the per-SM limits of their compute capabilities.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A device's compute capability, e.g. 8.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ComputeCapability {
    /// The number before the dot: 8 of 8.9.
    pub major: u32,
    /// The number after the dot: 9 of 8.9.
    pub minor: u32,
}

impl ComputeCapability {
    /// A compute capability.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What a kernel is compiled for: the `sm_NN` that NVRTC gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
pub enum Target {
    /// Turing.
    #[serde(rename = "sm_75")]
    Sm75,
    /// The large Ampere chip (A100).
    #[serde(rename = "sm_80")]
    Sm80,
    /// The smaller Ampere chips (RTX 30, A10, A40).
    #[serde(rename = "sm_86")]
    Sm86,
    /// Ada (RTX 40, L4, L40).
    #[serde(rename = "sm_89")]
    Sm89,
    /// Hopper without its architecture-specific instructions.
    #[serde(rename = "sm_90")]
    Sm90,
    /// Hopper with its architecture-specific instructions (wgmma, setmaxnreg). No other chip runs it.
    #[serde(rename = "sm_90a")]
    Sm90a,
}

impl Target {
    /// Every target, oldest first.
    pub const ALL: [Self; 6] = [Self::Sm75, Self::Sm80, Self::Sm86, Self::Sm89, Self::Sm90, Self::Sm90a];

    /// The name that NVRTC accepts: `sm_89`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm75 => "sm_75",
            Self::Sm80 => "sm_80",
            Self::Sm86 => "sm_86",
            Self::Sm89 => "sm_89",
            Self::Sm90 => "sm_90",
            Self::Sm90a => "sm_90a",
        }
    }

    /// The compute capability of the target.
    pub const fn compute_capability(self) -> ComputeCapability {
        match self {
            Self::Sm75 => ComputeCapability::new(7, 5),
            Self::Sm80 => ComputeCapability::new(8, 0),
            Self::Sm86 => ComputeCapability::new(8, 6),
            Self::Sm89 => ComputeCapability::new(8, 9),
            Self::Sm90 | Self::Sm90a => ComputeCapability::new(9, 0),
        }
    }

    /// Whether this is an `a` target, bound to exactly one compute capability.
    pub const fn is_arch_specific(self) -> bool {
        matches!(self, Self::Sm90a)
    }

    /// The per-SM limits of this target's compute capability.
    pub const fn limits(self) -> &'static Limits {
        match self {
            Self::Sm75 => &CC_7_5,
            Self::Sm80 => &CC_8_0,
            Self::Sm86 => &CC_8_6,
            Self::Sm89 => &CC_8_9,
            Self::Sm90 | Self::Sm90a => &CC_9_0,
        }
    }

    /// Whether a cubin for this target loads on a device: it needs the same major version and at least the cubin's
    /// minor version (CUDA C++ Programming Guide, "Binary Compatibility"). An `a` cubin needs exactly the same
    /// compute capability.
    pub fn cubin_runs_on(self, device: ComputeCapability) -> bool {
        let built = self.compute_capability();
        if self.is_arch_specific() {
            return device == built;
        }
        device.major == built.major && device.minor >= built.minor
    }

    /// Whether the driver of a device can compile PTX for this target: any device that is at least as new. `a` PTX
    /// needs exactly the same compute capability.
    pub fn ptx_runs_on(self, device: ComputeCapability) -> bool {
        let built = self.compute_capability();
        if self.is_arch_specific() { device == built } else { device >= built }
    }

    /// The target with the most features whose cubin loads on a device: `sm_90a` for 9.0, `sm_89` for 8.9.
    pub fn best_for(device: ComputeCapability) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|target| target.cubin_runs_on(device))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|target| target.name() == name)
            .ok_or_else(|| UnknownTarget { name: name.to_owned() })
    }
}

/// A target name that is not one of [`Target::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownTarget {
    /// The name that is not a target.
    pub name: String,
}

impl fmt::Display for UnknownTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown target `{}`; expected one of {}",
            self.name,
            Target::ALL.map(Target::name).join(", ")
        )
    }
}

impl std::error::Error for UnknownTarget {}

/// What one SM of a compute capability holds, and the units of allocation. Sizes are in bytes; registers have 32
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// The compute capability that has these limits.
    pub compute_capability: ComputeCapability,
    /// Threads in a warp.
    pub warp_size: u32,
    /// Largest number of threads in a block.
    pub max_threads_per_block: u32,
    /// Largest number of threads that an SM holds at once.
    pub max_threads_per_sm: u32,
    /// Largest number of warps that an SM holds at once.
    pub max_warps_per_sm: u32,
    /// Largest number of blocks that an SM holds at once.
    pub max_blocks_per_sm: u32,

    /// Number of registers of an SM.
    pub registers_per_sm: u32,
    /// Largest number of registers of a block.
    pub max_registers_per_block: u32,
    /// Largest number of registers of a thread.
    pub max_registers_per_thread: u32,
    /// Registers are allocated to whole warps in multiples of this.
    pub register_unit: u32,
    /// The register file is split evenly over this many sub-partitions, and each warp is in one of them. The SM's
    /// warps are therefore multiples of this ("warp allocation granularity").
    pub sub_partitions: u32,

    /// With the largest carve-out.
    pub shared_per_sm: u32,
    /// What a block gets without an opt-in; also the maximum of static shared memory.
    pub shared_per_block_default: u32,
    /// What a block gets with `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
    pub shared_per_block_opt_in: u32,
    /// What the system takes from every block in addition to the kernel's request.
    pub shared_reserved_per_block: u32,
    /// Shared memory is allocated to blocks in multiples of this.
    pub shared_unit: u32,
    /// The possible sizes of the shared part of the L1, ascending.
    pub shared_carveouts: &'static [u32],
    /// L1 cache and shared memory together; the L1 is what the carve-out leaves.
    pub l1_and_shared_per_sm: u32,

    /// Barriers (`bar.sync` numbers) that a block may use.
    pub max_barriers_per_block: u32,
    /// Barriers of an SM for all its blocks; `None` if NVIDIA's calculator does not count them (before 9.0).
    pub barriers_per_sm: Option<u32>,
}

const KIB: u32 = 1024;

// Sources.
// - Threads, warps, blocks, registers and shared memory: CUDA C++ Programming Guide, "Technical
//   Specifications per Compute Capability"; carve-outs and the L1 total: the same guide's section of each
//   compute capability, and the tuning guides of Turing, Ampere, Ada and Hopper.
// - The 1 KB reserved per block: "Shared Memory" in the Ampere, Ada and Hopper tuning guides
//   (`cudaDeviceProp::reservedSharedMemPerBlock`).
// - Allocation units, sub-partitions, barriers per SM: `cuda_occupancy.h` of the CUDA 13.0 runtime.
// - 255 registers per thread is the compiler's limit (Programming Guide); `cuda_occupancy.h` would let 256 pass.
// - 16 barriers per block: PTX ISA, `bar`.

/// Values that all compute capabilities below share.
const COMMON: Limits = Limits {
    compute_capability: ComputeCapability::new(0, 0),
    warp_size: 32,
    max_threads_per_block: 1024,
    max_threads_per_sm: 0,
    max_warps_per_sm: 0,
    max_blocks_per_sm: 0,
    registers_per_sm: 65_536,
    max_registers_per_block: 65_536,
    max_registers_per_thread: 255,
    register_unit: 256,
    sub_partitions: 4,
    shared_per_sm: 0,
    shared_per_block_default: 48 * KIB,
    shared_per_block_opt_in: 0,
    shared_reserved_per_block: KIB,
    shared_unit: 128,
    shared_carveouts: &[],
    l1_and_shared_per_sm: 0,
    max_barriers_per_block: 16,
    barriers_per_sm: None,
};

/// Turing.
const CC_7_5: Limits = Limits {
    compute_capability: ComputeCapability::new(7, 5),
    max_threads_per_sm: 1024,
    max_warps_per_sm: 32,
    max_blocks_per_sm: 16,
    shared_per_sm: 64 * KIB,
    shared_per_block_opt_in: 64 * KIB,
    shared_reserved_per_block: 0,
    shared_unit: 256,
    shared_carveouts: &[32 * KIB, 64 * KIB],
    l1_and_shared_per_sm: 96 * KIB,
    ..COMMON
};

/// A100.
const CC_8_0: Limits = Limits {
    compute_capability: ComputeCapability::new(8, 0),
    max_threads_per_sm: 2048,
    max_warps_per_sm: 64,
    max_blocks_per_sm: 32,
    shared_per_sm: 164 * KIB,
    shared_per_block_opt_in: 163 * KIB,
    shared_carveouts: &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB, 132 * KIB, 164 * KIB],
    l1_and_shared_per_sm: 192 * KIB,
    ..COMMON
};

/// The smaller Ampere chips (RTX 30, A10, A40).
const CC_8_6: Limits = Limits {
    compute_capability: ComputeCapability::new(8, 6),
    max_threads_per_sm: 1536,
    max_warps_per_sm: 48,
    max_blocks_per_sm: 16,
    shared_per_sm: 100 * KIB,
    shared_per_block_opt_in: 99 * KIB,
    shared_carveouts: &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB],
    l1_and_shared_per_sm: 128 * KIB,
    ..COMMON
};

/// Ada: as 8.6, but 24 blocks.
const CC_8_9: Limits =
    Limits { compute_capability: ComputeCapability::new(8, 9), max_blocks_per_sm: 24, ..CC_8_6 };

/// Hopper.
const CC_9_0: Limits = Limits {
    compute_capability: ComputeCapability::new(9, 0),
    max_threads_per_sm: 2048,
    max_warps_per_sm: 64,
    max_blocks_per_sm: 32,
    shared_per_sm: 228 * KIB,
    shared_per_block_opt_in: 227 * KIB,
    shared_carveouts: &[
        0,
        8 * KIB,
        16 * KIB,
        32 * KIB,
        64 * KIB,
        100 * KIB,
        132 * KIB,
        164 * KIB,
        196 * KIB,
        228 * KIB,
    ],
    l1_and_shared_per_sm: 256 * KIB,
    barriers_per_sm: Some(64),
    ..COMMON
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for target in Target::ALL {
            assert_eq!(target.name().parse(), Ok(target));
            assert_eq!(target.to_string(), target.name());
        }
        for wrong in ["", "89", "sm89", "SM_89", "sm_70", "sm_90A", "compute_89", "sm_89 "] {
            assert_eq!(wrong.parse::<Target>(), Err(UnknownTarget { name: wrong.to_owned() }));
        }
        assert_eq!(
            "sm_70".parse::<Target>().unwrap_err().to_string(),
            "unknown target `sm_70`; expected one of sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a"
        );
    }

    #[test]
    fn serde_uses_the_same_names() {
        use serde::de::value::{Error, StrDeserializer};
        use serde::de::{Deserialize, IntoDeserializer};
        /// serde's own string-only serializer is `fmt::Formatter`.
        struct AsSerialized(Target);
        impl fmt::Display for AsSerialized {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                serde::Serialize::serialize(&self.0, f)
            }
        }
        for target in Target::ALL {
            assert_eq!(AsSerialized(target).to_string(), target.name());
            let text: StrDeserializer<'_, Error> = target.name().into_deserializer();
            assert_eq!(Target::deserialize(text), Ok(target));
        }
    }

    #[test]
    fn cubins_run_on_their_major_version_upwards() {
        let runs = |device: (u32, u32)| {
            let device = ComputeCapability::new(device.0, device.1);
            let mut names = Vec::new();
            for target in Target::ALL {
                if target.cubin_runs_on(device) {
                    names.push(target.name());
                }
            }
            names
        };
        assert_eq!(runs((7, 5)), ["sm_75"]);
        assert_eq!(runs((8, 0)), ["sm_80"]);
        assert_eq!(runs((8, 6)), ["sm_80", "sm_86"]);
        assert_eq!(runs((8, 9)), ["sm_80", "sm_86", "sm_89"]);
        assert_eq!(runs((9, 0)), ["sm_90", "sm_90a"]);
        assert_eq!(runs((10, 0)), [""; 0]);
        assert_eq!(runs((7, 0)), [""; 0]);
    }

    #[test]
    fn ptx_runs_on_newer_devices_unless_it_is_arch_specific() {
        let (ada, hopper, blackwell) =
            (ComputeCapability::new(8, 9), ComputeCapability::new(9, 0), ComputeCapability::new(10, 0));
        assert!(Target::Sm75.ptx_runs_on(ada));
        assert!(Target::Sm80.ptx_runs_on(blackwell));
        assert!(!Target::Sm90.ptx_runs_on(ada));
        assert!(Target::Sm90a.ptx_runs_on(hopper));
        assert!(!Target::Sm90a.ptx_runs_on(blackwell));
    }

    #[test]
    fn the_best_target_of_a_device_has_the_most_features() {
        let best = |major, minor| Target::best_for(ComputeCapability::new(major, minor));
        assert_eq!(best(9, 0), Some(Target::Sm90a));
        assert_eq!(best(8, 9), Some(Target::Sm89));
        assert_eq!(best(8, 0), Some(Target::Sm80));
        assert_eq!(best(7, 0), None);
        assert_eq!(best(12, 0), None);
    }

    /// Relations between the values of every row, to find typing errors.
    #[test]
    fn limits_are_consistent() {
        for target in Target::ALL {
            let limits = target.limits();
            assert_eq!(limits.compute_capability, target.compute_capability());
            assert_eq!(limits.max_warps_per_sm * limits.warp_size, limits.max_threads_per_sm);
            assert_eq!(limits.registers_per_sm % (limits.sub_partitions * limits.register_unit), 0);
            assert_eq!(
                limits.shared_per_block_opt_in + limits.shared_reserved_per_block,
                limits.shared_per_sm
            );
            assert!(limits.shared_carveouts.is_sorted());
            assert_eq!(limits.shared_carveouts.last(), Some(&limits.shared_per_sm));
            assert!(limits.l1_and_shared_per_sm > limits.shared_per_sm);
            assert_eq!(limits.shared_per_sm % limits.shared_unit, 0);
            assert_eq!(limits.shared_reserved_per_block % limits.shared_unit, 0);
            assert!(limits.max_blocks_per_sm <= limits.max_warps_per_sm);
            assert!(limits.barriers_per_sm.is_none_or(|barriers| barriers >= limits.max_barriers_per_block));
        }
    }
}
