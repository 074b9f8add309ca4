//! Computes how many blocks of a kernel fit on an SM, by the rules of NVIDIA's occupancy calculator
//! (`cuda_occupancy.h` of the CUDA runtime, which `cuOccupancyMaxActiveBlocksPerMultiprocessor` uses):
//!
//! - Warps: a block takes whole warps, and the SM has a fixed number of them.
//! - Registers: a warp takes its threads' registers, rounded up to 256. Each of the four sub-partitions holds a whole
//!   number of warps, so the SM holds four times that, and blocks share those warps. (Warps are rounded per SM. A
//!   block of 3 warps takes 3, not 4.)
//! - Shared memory: a block takes the requested size plus the part that the system reserves, rounded up to the unit.
//!   The SM uses its largest carve-out, which is the driver's default.
//! - Barriers: the blocks of an SM share its pool of `bar` numbers. They are counted from compute capability 9.0 on,
//!   as in the calculator; older SMs have such a pool, too, but its size is not documented.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::target::Limits;

/// The resources of a launch, from the compiler's report and from the launch itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Registers that each thread uses.
    pub registers_per_thread: u32,
    /// Static shared memory of a block in bytes.
    pub static_shared_bytes: u32,
    /// Dynamic shared memory of a block in bytes, as the launch requests it.
    pub dynamic_shared_bytes: u32,
    /// Threads in a block.
    pub threads_per_block: u32,
    /// Number of barriers, as `ptxas -v` reports it; up to 2 are never a limit.
    #[serde(default)]
    pub barriers: u32,
}

impl Resources {
    /// Static and dynamic shared memory together, without the part that the system reserves.
    pub fn shared_bytes(&self) -> u64 {
        u64::from(self.static_shared_bytes) + u64::from(self.dynamic_shared_bytes)
    }
}

/// A resource that can limit the number of blocks on an SM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// The SM's register file.
    Registers,
    /// The SM's shared memory.
    SharedMemory,
    /// Warps (that is, threads) per SM.
    Warps,
    /// Blocks per SM.
    Blocks,
    /// The SM's barriers (`bar.sync`).
    Barriers,
}

impl Limiter {
    /// All limiters.
    pub const ALL: [Self; 5] =
        [Self::Registers, Self::SharedMemory, Self::Warps, Self::Blocks, Self::Barriers];

    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
            Self::Warps => "warps",
            Self::Blocks => "blocks",
            Self::Barriers => "barriers",
        }
    }
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Blocks per SM that each resource alone would allow; `None` if it is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct BlockLimits {
    /// Blocks for which the registers suffice; `None` if the kernel uses none.
    pub registers: Option<u32>,
    /// Blocks for which the shared memory suffices; `None` if a block takes none.
    pub shared_memory: Option<u32>,
    /// Blocks for which the SM's warps suffice.
    pub warps: u32,
    /// The largest number of blocks on an SM.
    pub blocks: u32,
    /// Blocks for which the barriers suffice; `None` if they are not counted or the kernel uses none.
    pub barriers: Option<u32>,
}

impl BlockLimits {
    /// The limit of one resource.
    pub const fn get(&self, limiter: Limiter) -> Option<u32> {
        match limiter {
            Limiter::Registers => self.registers,
            Limiter::SharedMemory => self.shared_memory,
            Limiter::Warps => Some(self.warps),
            Limiter::Blocks => Some(self.blocks),
            Limiter::Barriers => self.barriers,
        }
    }
}

/// How many blocks and warps of a kernel an SM holds.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(inline)]
pub struct Occupancy {
    /// At least 1: a kernel that does not fit is an error, [`DoesNotFit`].
    pub blocks_per_sm: u32,
    /// Warps in a block, including a partly filled one.
    pub warps_per_block: u32,
    /// Warps of all blocks that an SM holds at once.
    pub active_warps: u32,
    /// The largest number of warps on an SM.
    pub max_warps: u32,
    /// `active_warps / max_warps`.
    pub fraction: f64,
    /// The resources that limit the number of blocks: one, or several in a tie.
    pub limiters: Vec<Limiter>,
    /// Blocks per SM that each resource alone would allow.
    pub blocks_by: BlockLimits,
    /// Registers of a block, including rounding.
    pub registers_per_block: u32,
    /// Shared memory of a block, including the part that the system reserves and rounding.
    pub shared_per_block: u32,
    /// The smallest carve-out that holds the shared memory of these blocks. The rest of the SM's L1 is cache.
    pub shared_carveout: u32,
    /// More than 48 KB: the launch must request it (`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`).
    pub needs_shared_opt_in: bool,
}

impl fmt::Display for Occupancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limiters: Vec<_> = self.limiters.iter().map(|limiter| limiter.name()).collect();
        write!(
            f,
            "{}, {} of {} warps ({:.0}%), limited by {}",
            count(self.blocks_per_sm, "block"),
            self.active_warps,
            self.max_warps,
            self.fraction * 100.0,
            limiters.join(" and ")
        )
    }
}

/// Not even one block fits. Contains every reason with its numbers.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[schemars(inline)]
pub struct DoesNotFit {
    /// Never empty.
    pub misfits: Vec<Misfit>,
}

/// One reason why a block does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Misfit {
    /// The block has no threads.
    NoThreads,
    /// The block has too many threads.
    ThreadsPerBlock {
        /// Threads per block of the launch.
        asked: u32,
        /// Largest number of threads per block.
        limit: u32,
    },
    /// A thread uses too many registers.
    RegistersPerThread {
        /// Registers per thread of the kernel.
        asked: u32,
        /// Largest number of registers per thread.
        limit: u32,
    },
    /// `takes` counts whole warps in every sub-partition, as the hardware does.
    RegistersPerBlock {
        /// Registers per thread of the kernel.
        per_thread: u32,
        /// Threads per block of the launch.
        threads: u32,
        /// Registers that the block takes, including rounding.
        takes: u32,
        /// Largest number of registers per block.
        limit: u32,
    },
    /// The kernel has too much static shared memory.
    StaticShared {
        /// Static shared memory of the kernel in bytes.
        asked: u32,
        /// Largest size of static shared memory in bytes.
        limit: u32,
    },
    /// Static and dynamic shared memory together are too large.
    SharedPerBlock {
        /// Static shared memory of the block in bytes.
        static_bytes: u32,
        /// Dynamic shared memory of the block in bytes.
        dynamic_bytes: u32,
        /// Largest shared memory of a block in bytes, with the opt-in.
        limit: u32,
    },
    /// The block uses too many barriers.
    Barriers {
        /// Barriers that the kernel uses.
        asked: u32,
        /// Largest number of barriers per block.
        limit: u32,
    },
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoThreads => write!(f, "a block has no threads"),
            Self::ThreadsPerBlock { asked, limit } => {
                write!(f, "{asked} threads per block (limit {limit})")
            }
            Self::RegistersPerThread { asked, limit } => {
                write!(f, "{asked} registers per thread (limit {limit})")
            }
            Self::RegistersPerBlock { per_thread, threads, takes, limit } => write!(
                f,
                "{} x {} take {takes} registers (limit {limit} per block)",
                count(threads, "thread"),
                count(per_thread, "register")
            ),
            Self::StaticShared { asked, limit } => {
                write!(f, "{asked} B of static shared memory (limit {limit})")
            }
            Self::SharedPerBlock { static_bytes: 0, dynamic_bytes, limit } => {
                write!(f, "{dynamic_bytes} B of shared memory per block (limit {limit})")
            }
            Self::SharedPerBlock { static_bytes, dynamic_bytes, limit } => write!(
                f,
                "{} B of shared memory per block: {static_bytes} static + {dynamic_bytes} dynamic (limit {limit})",
                u64::from(static_bytes) + u64::from(dynamic_bytes)
            ),
            Self::Barriers { asked, limit } => write!(f, "{asked} barriers (limit {limit})"),
        }
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel does not fit: ")?;
        for (i, misfit) in self.misfits.iter().enumerate() {
            write!(f, "{}{misfit}", if i > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for DoesNotFit {}

/// How many blocks of a kernel an SM holds at once, and what limits them.
pub fn occupancy(limits: &Limits, kernel: &Resources) -> Result<Occupancy, DoesNotFit> {
    let misfits = misfits(limits, kernel);
    if !misfits.is_empty() {
        return Err(DoesNotFit { misfits });
    }
    // From here on every value is within its limit, so nothing overflows.

    let warps_per_block = kernel.threads_per_block.div_ceil(limits.warp_size);
    let registers_per_warp = registers_per_warp(limits, kernel.registers_per_thread);
    let shared_per_block =
        (kernel.static_shared_bytes + kernel.dynamic_shared_bytes + limits.shared_reserved_per_block)
            .next_multiple_of(limits.shared_unit);

    let warps_by_registers = (limits.registers_per_sm / limits.sub_partitions)
        .checked_div(registers_per_warp)
        .map(|per_sub_partition| per_sub_partition * limits.sub_partitions);
    let blocks_by = BlockLimits {
        registers: warps_by_registers.map(|warps| warps / warps_per_block),
        shared_memory: limits.shared_per_sm.checked_div(shared_per_block),
        warps: limits.max_warps_per_sm / warps_per_block,
        blocks: limits.max_blocks_per_sm,
        barriers: limits.barriers_per_sm.and_then(|barriers| barriers.checked_div(kernel.barriers)),
    };
    let blocks_per_sm =
        Limiter::ALL.iter().filter_map(|&limiter| blocks_by.get(limiter)).min().unwrap_or_default();
    let limiters =
        Limiter::ALL.into_iter().filter(|&limiter| blocks_by.get(limiter) == Some(blocks_per_sm)).collect();

    let shared_in_use = blocks_per_sm * shared_per_block;
    let shared_carveout = limits.shared_carveouts.iter().copied().find(|&size| size >= shared_in_use);
    let active_warps = blocks_per_sm * warps_per_block;
    Ok(Occupancy {
        blocks_per_sm,
        warps_per_block,
        active_warps,
        max_warps: limits.max_warps_per_sm,
        fraction: f64::from(active_warps) / f64::from(limits.max_warps_per_sm),
        limiters,
        blocks_by,
        registers_per_block: registers_per_warp * warps_per_block,
        shared_per_block,
        shared_carveout: shared_carveout.unwrap_or(limits.shared_per_sm),
        needs_shared_opt_in: kernel.shared_bytes() > u64::from(limits.shared_per_block_default),
    })
}

/// What one more block per SM needs, or the first block if none fits. A field that is `None` needs no change. All
/// other fields together are necessary and sufficient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct NextStep {
    /// Blocks per SM after the change.
    pub blocks_per_sm: u32,
    /// At most this many threads per block.
    pub threads_per_block: Option<u32>,
    /// At most this many registers per thread (with that many threads).
    pub registers_per_thread: Option<u32>,
    /// At most this much shared memory per block, static and dynamic together.
    pub shared_bytes: Option<u32>,
    /// At most this many barriers.
    pub barriers: Option<u32>,
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs: Vec<String> = [
            (self.threads_per_block, "threads per block"),
            (self.registers_per_thread, "registers per thread"),
            (self.shared_bytes, "B of shared memory per block"),
            (self.barriers, "barriers"),
        ]
        .into_iter()
        .filter_map(|(most, what)| Some(format!("at most {} {what}", most?)))
        .collect();
        write!(f, "{} per SM with {}", count(self.blocks_per_sm, "block"), needs.join(" and "))
    }
}

/// What one more block needs. `None` if the SM holds no more blocks whatever the kernel uses, and if using less does
/// not help: a block without threads, or static shared memory over 48 KB (make it dynamic).
pub fn next_step(limits: &Limits, kernel: &Resources) -> Option<NextStep> {
    if kernel.threads_per_block == 0 || kernel.static_shared_bytes > limits.shared_per_block_default {
        return None;
    }
    let blocks = occupancy(limits, kernel).map_or(0, |now| now.blocks_per_sm) + 1;
    if blocks > limits.max_blocks_per_sm {
        return None;
    }
    let lowered = |now: u64, most: u32| (now > u64::from(most)).then_some(most);

    let most_threads =
        (limits.max_warps_per_sm / blocks * limits.warp_size).min(limits.max_threads_per_block);
    let threads = kernel.threads_per_block.min(most_threads);

    let warps_per_sub_partition =
        (blocks * threads.div_ceil(limits.warp_size)).div_ceil(limits.sub_partitions);
    let registers_per_warp =
        limits.registers_per_sm / limits.sub_partitions / warps_per_sub_partition / limits.register_unit
            * limits.register_unit;
    let most_registers = (registers_per_warp / limits.warp_size).min(limits.max_registers_per_thread);

    let shared_per_block = limits.shared_per_sm / blocks / limits.shared_unit * limits.shared_unit;
    let most_shared =
        shared_per_block.saturating_sub(limits.shared_reserved_per_block).min(limits.shared_per_block_opt_in);

    let most_barriers = limits
        .barriers_per_sm
        .map_or(u32::MAX, |barriers| barriers / blocks)
        .min(limits.max_barriers_per_block);

    Some(NextStep {
        blocks_per_sm: blocks,
        threads_per_block: lowered(u64::from(kernel.threads_per_block), most_threads),
        registers_per_thread: lowered(u64::from(kernel.registers_per_thread), most_registers),
        shared_bytes: lowered(kernel.shared_bytes(), most_shared),
        barriers: lowered(u64::from(kernel.barriers), most_barriers),
    })
}

/// Why not even one block fits; empty if one does.
fn misfits(limits: &Limits, kernel: &Resources) -> Vec<Misfit> {
    let &Resources {
        registers_per_thread: registers,
        static_shared_bytes,
        dynamic_shared_bytes,
        threads_per_block: threads,
        barriers,
    } = kernel;
    let mut misfits = Vec::new();

    let threads_fit = threads <= limits.max_threads_per_block;
    let registers_fit = registers <= limits.max_registers_per_thread;
    if threads == 0 {
        misfits.push(Misfit::NoThreads);
    }
    if !threads_fit {
        misfits.push(Misfit::ThreadsPerBlock { asked: threads, limit: limits.max_threads_per_block });
    }
    if !registers_fit {
        misfits.push(Misfit::RegistersPerThread { asked: registers, limit: limits.max_registers_per_thread });
    }
    if threads_fit && registers_fit {
        let warps = threads.div_ceil(limits.warp_size).next_multiple_of(limits.sub_partitions);
        let takes = registers_per_warp(limits, registers) * warps;
        let limit = limits.max_registers_per_block;
        if takes > limit {
            misfits.push(Misfit::RegistersPerBlock { per_thread: registers, threads, takes, limit });
        }
    }
    if static_shared_bytes > limits.shared_per_block_default {
        let limit = limits.shared_per_block_default;
        misfits.push(Misfit::StaticShared { asked: static_shared_bytes, limit });
    }
    if kernel.shared_bytes() > u64::from(limits.shared_per_block_opt_in) {
        misfits.push(Misfit::SharedPerBlock {
            static_bytes: static_shared_bytes,
            dynamic_bytes: dynamic_shared_bytes,
            limit: limits.shared_per_block_opt_in,
        });
    }
    if barriers > limits.max_barriers_per_block {
        misfits.push(Misfit::Barriers { asked: barriers, limit: limits.max_barriers_per_block });
    }
    misfits
}

fn registers_per_warp(limits: &Limits, registers_per_thread: u32) -> u32 {
    (registers_per_thread * limits.warp_size).next_multiple_of(limits.register_unit)
}

fn count(n: u32, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
