//! A kernel launch: its arguments, its checks before it starts, and its report.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use super::options::{Checks, Dim3, Options, Sample};
use super::report::{LaunchReport, begin_outputs, report};
use super::schedule::{SAMPLE, run_workers};
use super::state::{BETWEEN_LAUNCHES, CLOCKS, Grid, NANOSECONDS, PolledWords, Unit, ZERO};
use super::{Checked, CheckedCounted, Counted, Plain};
use crate::check::race::GlobalRaces;
use crate::isa::decode::Constant;
use crate::isa::op::{Class, Op};
use crate::mem::window::Windows;
use crate::mem::{Device, MemoryError, shadow};
use crate::program::{Kernel, LoadError, Module};
use crate::world::{self, BlockOrder};

/// A kernel with its launch configuration and arguments.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The module that contains the kernel.
    pub module: &'a Module,
    /// Name of the kernel.
    pub kernel: &'a str,
    /// Extents of the grid in blocks.
    pub grid: Dim3,
    /// Extents of a block in threads.
    pub block: Dim3,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The argument block: each parameter at its offset ([`Kernel::params`]).
    pub args: &'a [u8],
}

/// Why a launch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The module does not contain this kernel.
    #[error("module has no kernel `{0}`")]
    UnknownKernel(String),
    /// The kernel uses something that the virtual GPU does not support. Other kernels of its module may run.
    #[error("kernel `{kernel}` cannot run on the virtual GPU:\n{error}")]
    Refused {
        /// Name of the kernel.
        kernel: String,
        /// The instructions that are not supported, with their lines.
        error: LoadError,
    },
    /// The argument block has the wrong size.
    #[error("kernel `{kernel}` takes {wanted} bytes of arguments, {given} given")]
    Arguments {
        /// Name of the kernel.
        kernel: String,
        /// Number of bytes that the kernel takes.
        wanted: u32,
        /// Number of bytes that were given.
        given: usize,
    },
    /// There are more or fewer arguments than parameters.
    #[error("kernel `{kernel}` has {wanted} parameters, {given} argument{} given", if *given == 1 { "" } else { "s" })]
    ArgumentCount {
        /// Name of the kernel.
        kernel: String,
        /// Number of parameters.
        wanted: usize,
        /// Number of arguments.
        given: usize,
    },
    /// An argument has another type than its parameter.
    #[error("argument {index} is {given}, but the parameter `{name}` is {wanted}")]
    ArgumentType {
        /// Index of the argument, from 0.
        index: usize,
        /// Name of the parameter.
        name: String,
        /// Type of the parameter.
        wanted: String,
        /// Type of the argument.
        given: &'static str,
    },
    /// The extents of the block are invalid.
    #[error("block of {0:?} threads: each extent must be at least 1 and the product at most 1024")]
    BlockShape(Dim3),
    /// The extents of the grid are invalid.
    #[error("grid of {0:?} blocks: x must be 1 to 2147483647, y and z 1 to 65535")]
    GridShape(Dim3),
    /// The extents of the cluster are invalid.
    #[error("clusters of {cluster:?} blocks: {reason}")]
    Cluster {
        /// Extents that were given.
        cluster: Dim3,
        /// Why they are invalid.
        reason: String,
    },
    /// The number of threads does not match the bounds that the kernel was compiled for.
    #[error("block of {given} threads, but the kernel was compiled for {wanted}")]
    ThreadBounds {
        /// Number of threads that were given.
        given: u32,
        /// The bounds of the kernel, as text.
        wanted: String,
    },
    /// The block needs more shared memory than it may have.
    #[error("{wanted} bytes of shared memory asked, a block has at most {limit}")]
    SharedMemory {
        /// Number of bytes that the launch needs.
        wanted: u64,
        /// Maximum number of bytes of a block.
        limit: u32,
    },
    /// A memory operation of the launch failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl<'a> Launch<'a> {
    /// The kernel to run.
    fn kernel(&self) -> Result<&'a Kernel, LaunchError> {
        self.module.kernel(self.kernel).ok_or_else(|| {
            let kernel = self.kernel.to_string();
            match self.module.refusal(self.kernel) {
                Some(error) => LaunchError::Refused { kernel, error: error.clone() },
                None => LaunchError::UnknownKernel(kernel),
            }
        })
    }
}

impl Device {
    /// Runs a kernel until it ends, or until a fault, a trap or a limit ends it. Returns the report.
    pub fn launch(&mut self, launch: &Launch<'_>, options: &Options) -> Result<LaunchReport, LaunchError> {
        let kernel = launch.kernel()?;
        let threads = validate(kernel, launch, options)?;
        let addresses = self.place(launch.module)?;
        if kernel.uses_heap {
            self.provide_heap()?;
        }
        let workspace = if kernel.synchronises_grid { self.provide_workspace()? } else { 0 };
        let state = self.writable_state(launch.module, &addresses);
        let mut params = launch.args.to_vec();
        params.resize((kernel.param_bytes as usize).next_multiple_of(16), 0);
        let regions = self.regions();
        let checked = options.checks == Checks::All;
        if checked && options.begins_outputs {
            begin_outputs(&regions, &options.outputs);
        }
        static LAUNCHES: AtomicU64 = AtomicU64::new(1);
        // x is below 2^31, and y and z are below 2^16, so the product cannot overflow.
        let blocks: u64 = launch.grid.iter().map(|d| u64::from(*d)).product();
        let exceeds_budget = blocks.saturating_mul(u64::from(threads.div_ceil(32))) > options.budget;
        let shared_bytes =
            if launch.shared == 0 { kernel.shared_bytes } else { kernel.dynamic_shared + launch.shared };
        let workers = workers(options.threads, kernel, blocks);
        let ranges = regions.iter().map(|r| (r.address, r.bytes)).chain(self.heap_range());
        let allocations: Vec<(u64, u64)> = ranges.filter(|_| checked).collect();
        let world = options.world;
        let grid_id = world.grid_id.wrapping_add(self.launches);
        let resident_limit = options.limits.resident(threads, shared_bytes);
        let cluster =
            if options.cluster == [1; 3] { kernel.cluster.unwrap_or([1; 3]) } else { options.cluster };
        let per_cluster = cluster.iter().map(|d| u64::from(*d)).product::<u64>();
        validate_cluster(kernel, launch.grid, cluster)?;
        let clusters = blocks / per_cluster;
        let sample_step = step_of_sample(clusters, options.sample);
        let grid = Grid {
            kernel,
            device: self,
            grid_dim: launch.grid,
            block_dim: launch.block,
            block_threads: threads,
            cluster,
            blocks,
            sample_step,
            sample_seed: options.sample.map_or(0, |sample| sample.seed),
            is_traced: is_traced(kernel, options),
            shared_offset: world.shared_offset,
            shared_end: world.shared_offset + shared_bytes,
            dynamic_shared: launch.shared,
            workspace,
            constant_parameters: Grid::constant_parameters(kernel, &params, &regions),
            param_shadow: vec![shadow::DEFINED; params.len()],
            params,
            constants: constants(kernel, &addresses, &self.windows, world.shared_offset, grid_id),
            budget: if exceeds_budget { options.budget.min(SAMPLE) } else { options.budget },
            exceeds_budget,
            deadline: options.time_limit.and_then(|limit| Instant::now().checked_add(limit)),
            time_limit: options.time_limit,
            outside_stop: options.stop.clone(),
            limits: options.limits,
            windows: self.windows,
            world,
            order: BlockOrder::new(world.block_order, clusters, (resident_limit / per_cluster).max(1)),
            sm_order: world::sm_order(world.sm_order, options.limits.sms.max(1)),
            began: (
                // The clock runs at about 2 GHz.
                world.clock.wrapping_add(self.uptime.wrapping_mul(CLOCKS / NANOSECONDS)),
                world.nanoseconds.wrapping_add(self.uptime),
            ),
            races: GlobalRaces::new(allocations),
            stored: kernel.functions.iter().map(|_| OnceLock::new()).collect(),
            observed: Mutex::default(),
            changed_maps: Mutex::default(),
            launch_id: LAUNCHES.fetch_add(1, Ordering::Relaxed),
            regions,
            spent: AtomicU64::new(0),
            next_block: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            stored_undefined: AtomicBool::new(false),
            printed: Mutex::new(Vec::new()),
            resident: AtomicU64::new(0),
            resident_limit,
            changes: AtomicU64::new(0),
            stuck: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            polled: PolledWords::default(),
            polls: PolledWords::default(),
        };
        let run = match (checked, options.counters) {
            (false, false) => run_workers::<Plain>,
            (false, true) => run_workers::<Counted>,
            (true, false) => run_workers::<Checked>,
            (true, true) => run_workers::<CheckedCounted>,
        };
        let mut report = report(&grid, launch.module, options, run(&grid, workers));
        let touched = if options.touched { grid.races.touched() } else { Vec::new() };
        let stored_undefined = grid.stored_undefined.into_inner();
        self.touched = touched;
        if stored_undefined {
            self.has_undefined_values();
        }
        report.changed_state = self.changed_state(launch.module, &addresses, &state);
        self.end_launch(kernel, &mut report);
        Ok(report)
    }

    /// Notes what a launch left on the heap, and the time that it took.
    fn end_launch(&mut self, kernel: &Kernel, report: &mut LaunchReport) {
        if kernel.uses_heap && self.heap().is_some_and(|heap| heap.live_blocks() > 0) {
            report.changed_state.push(crate::notice::HEAP_NAME.to_owned());
        }
        self.launches += 1;
        let elapsed = report.stats.warp_instructions.wrapping_mul(NANOSECONDS).wrapping_add(BETWEEN_LAUNCHES);
        self.uptime = self.uptime.wrapping_add(elapsed);
    }
}

/// Returns `n` if every `n`-th cluster of a grid belongs to a sample.
fn step_of_sample(clusters: u64, sample: Option<Sample>) -> u64 {
    sample.map_or(1, |sample| clusters.div_ceil(sample.most.max(1)).max(1))
}

/// Whether blocks are traced. They are not if replaying the kernel says no more than its counters.
fn is_traced(kernel: &Kernel, options: &Options) -> bool {
    let has_products =
        || kernel.functions.iter().flat_map(|f| &f.insts).any(|i| matches!(i.op, Op::Wgmma(_)));
    options.counters && has_products()
}

/// Number of worker threads: as many as asked for, but not more than there are clusters of blocks.
fn workers(threads: usize, kernel: &Kernel, blocks: u64) -> usize {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => n,
    };
    let per_cluster = kernel.cluster.map_or(1, |c| c.iter().map(|d| u64::from(*d)).product::<u64>()).max(1);
    threads.min((blocks / per_cluster).clamp(1, 1024) as usize).max(1)
}

pub(super) fn validate(kernel: &Kernel, launch: &Launch<'_>, options: &Options) -> Result<u32, LaunchError> {
    if launch.args.len() < kernel.param_bytes as usize {
        return Err(LaunchError::Arguments {
            kernel: kernel.name.clone(),
            wanted: kernel.param_bytes,
            given: launch.args.len(),
        });
    }
    let [gx, gy, gz] = launch.grid;
    if gx == 0 || gx > i32::MAX as u32 || gy == 0 || gy > 65535 || gz == 0 || gz > 65535 {
        return Err(LaunchError::GridShape(launch.grid));
    }
    let threads = launch.block.iter().try_fold(1u32, |n, d| n.checked_mul(*d)).unwrap_or(0);
    if threads == 0 || threads > 1024 || launch.block[2] > 64 {
        return Err(LaunchError::BlockShape(launch.block));
    }
    if let Some(required) = kernel.required_threads
        && required != launch.block
    {
        return Err(LaunchError::ThreadBounds { given: threads, wanted: format!("exactly {required:?}") });
    }
    if let Some(most) = kernel.max_threads
        && threads > most
    {
        return Err(LaunchError::ThreadBounds { given: threads, wanted: format!("at most {most}") });
    }
    let shared = u64::from(kernel.dynamic_shared) + u64::from(launch.shared);
    let limit = options.limits.shared_per_block;
    if shared > u64::from(limit) {
        return Err(LaunchError::SharedMemory { wanted: shared, limit });
    }
    Ok(threads)
}

/// Maximum number of blocks of a cluster: the largest size that a Hopper GPU can be set to allow.
pub(super) const MAX_CLUSTER: u32 = 16;

pub(super) fn validate_cluster(kernel: &Kernel, grid: Dim3, cluster: Dim3) -> Result<(), LaunchError> {
    let refuse = |reason: String| Err(LaunchError::Cluster { cluster, reason });
    if cluster == [1; 3] {
        return Ok(());
    }
    let blocks = cluster.iter().try_fold(1u32, |n, d| n.checked_mul(*d)).unwrap_or(0);
    if blocks == 0 || blocks > MAX_CLUSTER {
        return refuse(format!("they may have 1 to {MAX_CLUSTER}"));
    }
    if let Some(wanted) = kernel.cluster
        && wanted != cluster
    {
        return refuse(format!("the kernel was compiled for {wanted:?}"));
    }
    if grid.iter().zip(cluster).any(|(g, c)| !g.is_multiple_of(c)) {
        return refuse(format!("the grid of {grid:?} blocks is not made of such clusters"));
    }
    Ok(())
}

/// Builds the constant table with all addresses resolved. Each value is stored 32 times, once per lane.
pub(super) fn constants(
    kernel: &Kernel,
    addresses: &[u64],
    windows: &Windows,
    shared_offset: u32,
    grid_id: u64,
) -> Vec<Unit> {
    let mut table = vec![ZERO; kernel.constant_units as usize + 2];
    for (class, value, index) in &kernel.constants {
        let bits = match value {
            Constant::Bits(b) => *b,
            Constant::Variable(v, offset) => {
                addresses.get(*v as usize).map_or(0, |a| a.wrapping_add_signed(*offset))
            }
            Constant::Shared { offset } => u64::from(shared_offset).wrapping_add_signed(*offset),
            Constant::DynamicShared { offset } => {
                u64::from(shared_offset + kernel.dynamic_shared).wrapping_add_signed(*offset)
            }
            Constant::Window { space, to: false } => windows.base(*space),
            Constant::Window { space, to: true } => windows.base(*space).wrapping_neg(),
            Constant::GridId => grid_id,
        };
        let at = *index as usize;
        if *class == Class::R64 {
            for l in 0..32usize {
                let unit = at + l / 16;
                table[unit].0[l % 16 * 2] = bits as u32;
                table[unit].0[l % 16 * 2 + 1] = (bits >> 32) as u32;
            }
        } else {
            table[at].0.fill(bits as u32);
        }
    }
    table
}
