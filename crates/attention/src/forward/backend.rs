//! What runs the kernels of [`super::Device`]: a GPU or the virtual GPU.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chips::{Chip, Resources};
use compiler::Entry;
use gpu::accelerator::{
    Accelerator as _, AcceleratorError, CudaContext, CudaModule, CudaStream, Geometry, LaunchStep, ModuleId,
    RepeatedCall, VirtualDevice,
};
use times::ModelledMicros;
use times::{MeasuredMicros, Time};
use vgpu::model::{self, Shape};
use vgpu::{Counters, Finding, TensorMap};

use super::error::ForwardError;

/// What runs the kernels.
#[derive(Debug)]
pub(super) enum Backend {
    Cuda(CudaContext),
    Virtual(Box<VirtualBackend>),
}

/// The virtual GPU, and the modelled time of its launches while [`Backend::time`] wants it.
#[derive(Debug)]
pub(super) struct VirtualBackend {
    pub(super) device: Mutex<VirtualDevice>,
    modelled: Mutex<Option<f64>>,
}

impl VirtualBackend {
    pub(super) fn new(chip: &'static Chip) -> Self {
        VirtualBackend { device: Mutex::new(VirtualDevice::new(chip)), modelled: Mutex::default() }
    }
}

/// A loaded kernel.
#[derive(Debug)]
pub(super) enum Module {
    Cuda(CudaModule),
    Virtual {
        id: ModuleId,
        /// What its kernels use, for the modelled time.
        entries: Vec<Entry>,
    },
}

/// The number of replays of which a measured time is the median.
const REPLAYS: usize = 11;

/// Locks a mutex. A thread that panicked while it held the lock left a valid value: all changes are single calls.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a value in a map of at most `most` values, and returns it, or the value that another thread has kept meanwhile. A
/// full map is emptied first. Its values are dropped without the lock: destroying their graphs takes time.
pub(super) fn keep<K: Eq + Hash, V: Clone>(map: &Mutex<HashMap<K, V>>, most: usize, key: K, value: V) -> V {
    let mut values = lock(map);
    let old = if values.len() >= most { std::mem::take(&mut *values) } else { HashMap::new() };
    let kept = values.entry(key).or_insert(value).clone();
    drop(values);
    drop(old);
    kept
}

impl Backend {
    pub(super) fn encode_tensor_map(&self, map: &TensorMap) -> Result<Vec<u8>, AcceleratorError> {
        match self {
            Backend::Cuda(context) => context.encode_tensor_map(map),
            Backend::Virtual(host) => lock(&host.device).encode_tensor_map(map),
        }
    }

    /// Resolves launches for a GPU; the virtual GPU has nothing to resolve.
    pub(super) fn call<'l>(
        &self,
        module: &Module,
        launches: impl IntoIterator<Item = LaunchStep<'l>>,
    ) -> Result<Option<RepeatedCall>, AcceleratorError> {
        match (self, module) {
            (Backend::Cuda(context), Module::Cuda(module)) => context.call(module, launches).map(Some),
            _ => Ok(None),
        }
    }

    /// Runs launches on the virtual GPU. A mistake that it finds is an error.
    pub(super) fn run_virtual<'l>(
        &self,
        module: &Module,
        launches: impl IntoIterator<Item = LaunchStep<'l>>,
    ) -> Result<(), ForwardError> {
        let (Backend::Virtual(host), Module::Virtual { id, entries }) = (self, module) else {
            return Ok(());
        };
        let mut device = lock(&host.device);
        for LaunchStep { entry, geometry, parameters } in launches {
            let report = device.run(*id, entry, geometry, parameters)?;
            if let (Some(total), Some(counters)) = (&mut *lock(&host.modelled), &report.counters) {
                let used = entries.iter().find(|known| known.name == entry);
                *total += modelled(counters, used, geometry, device.chip());
            }
            if !report.is_clean() || !report.stats.completed {
                let line = |finding: &Finding| match finding.place.frames.first() {
                    Some(frame) => format!("{}:{}: {}", frame.file, frame.line, finding.message),
                    None => format!("PTX line {}: {}", finding.place.ptx_line, finding.message),
                };
                let lines: Vec<String> = report.findings.iter().map(line).collect();
                return Err(ForwardError::Findings(lines.join("\n")));
            }
        }
        Ok(())
    }

    /// Times work. On a GPU it is the median of replays of a graph, with warm caches. The virtual GPU does the work once.
    pub(super) fn time<E: From<AcceleratorError>>(
        &self,
        mut work: impl FnMut(CudaStream) -> Result<(), E>,
    ) -> Result<Time, E> {
        match self {
            Backend::Cuda(context) => {
                // Outside a capture first: it may load modules.
                work(CudaStream::default())?;
                let mut samples: Vec<f64> =
                    context.time_replays(REPLAYS, work)?.into_iter().map(|MeasuredMicros(it)| it).collect();
                samples.sort_by(f64::total_cmp);
                Ok(Time::Measured(MeasuredMicros(samples[REPLAYS / 2])))
            }
            Backend::Virtual(host) => {
                let count = |counters| lock(&host.device).options.counters = counters;
                count(true);
                *lock(&host.modelled) = Some(0.0);
                let done = work(CudaStream::default());
                count(false);
                let total = lock(&host.modelled).take().unwrap_or_default();
                done.map(|()| Time::Modelled(ModelledMicros(total)))
            }
        }
    }
}

/// The modelled microseconds of a launch. `used` is what the compiler says that the kernel uses.
fn modelled(counters: &Counters, used: Option<&Entry>, geometry: Geometry, chip: &'static Chip) -> f64 {
    let threads_per_block = geometry.block.iter().product();
    let resources = Resources {
        registers_per_thread: used.map_or(0, |entry| entry.registers),
        static_shared_bytes: used.map_or(0, |entry| entry.static_shared_bytes),
        dynamic_shared_bytes: geometry.shared_bytes,
        threads_per_block,
        barriers: used.map_or(0, |entry| entry.barriers),
    };
    let occupancy = chip.occupancy(&resources).ok();
    let shape = Shape {
        blocks: geometry.grid.iter().map(|&extent| u64::from(extent)).product(),
        threads_per_block,
        blocks_per_sm: occupancy.as_ref().map_or(1, |it| it.blocks_per_sm),
        shared_per_block: occupancy.map_or(geometry.shared_bytes, |it| it.shared_per_block),
    };
    model::modelled(counters, shape, chip).time.0
}
