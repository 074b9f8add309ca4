//! A GPU or the virtual GPU, with the kernels that were loaded on it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use chips::Chip;
use compiler::{Build, Compiler, Pack, Request};
use family::{Candidate, Catalog, Family};
use gpu::accelerator::{Accelerator as _, AcceleratorError, Buffer, CudaContext, CudaStream, Image};
use gpu::device::Device as FoundDevice;
use op::OpProblems as _;
use times::Time;

use super::backend::{Backend, Module, VirtualBackend, keep, lock};
use super::error::{ForwardError, wrong};
use super::options::Options;
use super::plan::{Plan, Tensors};
use crate::op::Attention;
use crate::problem::{Dtype, MAX_HEADS, Mask, Problem};

/// The virtual GPU of a machine without a GPU.
const DEFAULT_VIRTUAL: &str = "h200";

/// Most plans to keep. A program that decodes text has a plan for every length.
const MOST_PLANS: usize = 4096;

/// A GPU, or the virtual GPU, that computes attention. Any thread may use it; keep one for the whole program.
#[derive(Debug)]
pub struct Device {
    backend: Arc<Backend>,
    found: FoundDevice,
    catalog: Catalog,
    pack: Option<Pack>,
    compiler: Mutex<Option<Arc<Compiler>>>,
    /// By problem and [`Options::batch_invariant`].
    plans: Mutex<HashMap<(Problem, bool), Arc<Plan>>>,
    /// Loaded kernels, by the hash of their compile request.
    modules: Mutex<HashMap<String, Arc<Module>>>,
}

impl Device {
    /// GPU 0, or a virtual H200 if the machine has no GPU.
    pub fn open_default() -> Result<Self, ForwardError> {
        match Device::cuda(0) {
            Err(ForwardError::Device(AcceleratorError::NoDriver(_) | AcceleratorError::NoDevice(_))) => {
                Device::virtual_gpu(DEFAULT_VIRTUAL)
            }
            opened => opened,
        }
    }

    /// GPU number `index`, in its primary context: that of PyTorch, of cudarc's `CudaContext` and of the CUDA runtime.
    pub fn cuda(index: u32) -> Result<Self, ForwardError> {
        let context = CudaContext::open(index)?;
        let (name, capability) = (context.name().to_owned(), context.compute_capability()?);
        let unsupported = || {
            ForwardError::Unsupported(format!("{name} (compute capability {capability}) is not supported"))
        };
        let target = chips::Target::best_for(capability).ok_or_else(unsupported)?;
        Device::new(Backend::Cuda(context), FoundDevice::Cuda { index, name, target })
    }

    /// A virtual GPU by name: `h200`, `l4`, ... It runs kernels on the CPU, checks them, and is slow.
    pub fn virtual_gpu(name: &str) -> Result<Self, ForwardError> {
        let chip = Chip::by_name(name).map_err(|error| wrong("device", error.to_string()))?;
        Device::new(Backend::Virtual(Box::new(VirtualBackend::new(chip))), FoundDevice::Virtual { chip })
    }

    fn new(backend: Backend, found: FoundDevice) -> Result<Self, ForwardError> {
        let catalog = Catalog::load(None).map_err(|error| ForwardError::Unsupported(error.to_string()))?;
        Ok(Device {
            backend: Arc::new(backend),
            found,
            catalog,
            pack: embedded_pack()?,
            compiler: Mutex::default(),
            plans: Mutex::default(),
            modules: Mutex::default(),
        })
    }

    /// Takes kernels from a pack before it looks for a compiler.
    #[must_use]
    pub fn with_pack(mut self, pack: Pack) -> Self {
        self.pack = Some(pack);
        self
    }

    /// Compiles kernels with this compiler. Without it, the compiler of the machine is used, or one is installed.
    #[must_use]
    pub fn with_compiler(self, compiler: Compiler) -> Self {
        *lock(&self.compiler) = Some(Arc::new(compiler));
        self
    }

    /// Lets the virtual GPU stop a kernel when the flag is set. A GPU cannot stop a kernel.
    #[must_use]
    pub fn with_stop(self, stop: Arc<AtomicBool>) -> Self {
        if let Backend::Virtual(host) = &*self.backend {
            lock(&host.device).options.stop = Some(stop);
        }
        self
    }

    /// A short description for people: `cuda:0 (NVIDIA H200)`.
    pub fn describe(&self) -> String {
        match &*self.backend {
            Backend::Cuda(context) => context.describe(),
            Backend::Virtual(host) => lock(&host.device).describe(),
        }
    }

    /// Whether it is a GPU, and not the virtual GPU.
    pub fn is_cuda(&self) -> bool {
        matches!(self.found, FoundDevice::Cuda { .. })
    }

    /// The number of the GPU; `None` for the virtual GPU.
    pub fn gpu(&self) -> Option<u32> {
        match &self.found {
            FoundDevice::Cuda { index, .. } => Some(*index),
            FoundDevice::Virtual { .. } => None,
        }
    }

    /// Selects, compiles and loads the kernel for a problem. Later calls for the same problem return the same plan.
    pub fn plan(&self, problem: &Problem) -> Result<Arc<Plan>, ForwardError> {
        self.plan_of(problem, false)
    }

    fn plan_of(&self, problem: &Problem, batch_invariant: bool) -> Result<Arc<Plan>, ForwardError> {
        let key = (*problem, batch_invariant);
        if let Some(plan) = lock(&self.plans).get(&key) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(self.new_plan(problem, batch_invariant)?);
        Ok(keep(&self.plans, MOST_PLANS, key, plan))
    }

    /// The plan for tensors. Refuses tensors whose shapes do not fit together.
    pub fn plan_for(&self, tensors: &Tensors, mask: Mask) -> Result<Arc<Plan>, ForwardError> {
        self.plan(&tensors.problem(mask)?)
    }

    /// The same for tensors and what servers add to them.
    pub fn plan_for_options(&self, tensors: &Tensors, options: &Options) -> Result<Arc<Plan>, ForwardError> {
        self.plan_of(&tensors.problem_with(options)?, options.batch_invariant)
    }

    fn new_plan(&self, problem: &Problem, batch_invariant: bool) -> Result<Plan, ForwardError> {
        let Some(mut chosen) = self.choose(problem)? else {
            return Ok(Plan::empty(self.backend.clone(), *problem));
        };
        if batch_invariant {
            chosen = self.choose_invariant(problem)?;
        }
        let (family, candidate) = chosen;
        let module = self.load(family, &candidate)?;
        Plan::new(self.backend.clone(), module, family, &candidate, *problem)
    }

    /// The kernel for a problem. An empty problem has none; its plan launches nothing.
    pub(super) fn choose(&self, problem: &Problem) -> Result<Option<(&Family, Candidate)>, ForwardError> {
        check_limits(problem)?;
        if problem.query_shape().elements() == 0 {
            return Ok(None);
        }
        let unsupported = |reason: String| ForwardError::Unsupported(reason);
        let head_dims = head_dims(&self.catalog);
        if !head_dims.contains(&problem.head_dim) {
            let known: Vec<String> = head_dims.iter().map(ToString::to_string).collect();
            let reason = format!("head_dim is {}, but must be one of {}", problem.head_dim, known.join(", "));
            return Err(unsupported(format!("q: {reason}")));
        }
        let chosen = op::dispatch::choose(&Attention, &self.catalog, &self.found, problem);
        chosen.map(Some).map_err(|refusal| unsupported(refusal.to_string()))
    }

    /// The kernel for a problem whose rows must not depend on other sequences ([`Options::batch_invariant`]).
    fn choose_invariant(&self, problem: &Problem) -> Result<(&Family, Candidate), ForwardError> {
        let rows = problem.heads / problem.kv_heads.max(1) * problem.seq_q;
        let resident = if problem.head_dim > 128 { "1" } else { "2" };
        let height = match rows {
            0..=8 => "8",
            9..=32 => "32",
            _ => "64",
        };
        // A fixed number of blocks divides the keys of each sequence, whatever their number. The longest number of packed
        // queries is a property of the batch, so packed sequences must not have a setting that depends on it.
        let divided = [("ROWS", height), ("CLUSTER", "4"), ("RESIDENT", resident)];
        let none: &[(&str, &str)] = &[];
        let settings = [("hopper-decode", "cluster", &divided[..]), ("mma", "rows16", none)];
        let is_short = problem.seq_q <= 16 && rows <= 64 && !problem.serving.packed;
        for (name, preset, knobs) in settings.into_iter().skip(usize::from(!is_short)) {
            let Some(family) =
                self.catalog.family(name).ok().filter(|it| it.targets.contains(&self.found.target()))
            else {
                continue;
            };
            let knobs: Vec<_> =
                knobs.iter().map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned())).collect();
            if let Ok(candidate) = Attention.candidate(family, Some(preset), &knobs, problem) {
                return Ok((family, candidate));
            }
        }
        let reason = "batch_invariant: there is no kernel of a fixed setting for this problem on this GPU";
        Err(ForwardError::Unsupported(reason.to_owned()))
    }

    /// Compiles and loads a candidate, if it is not loaded yet.
    pub(super) fn load(&self, family: &Family, candidate: &Candidate) -> Result<Arc<Module>, ForwardError> {
        let request = family.request(candidate, self.found.target());
        self.module(&request.map_err(|error| ForwardError::Unsupported(error.to_string()))?)
    }

    pub(super) fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn found(&self) -> &FoundDevice {
        &self.found
    }

    fn module(&self, request: &Request) -> Result<Arc<Module>, ForwardError> {
        let key = Pack::key(request);
        if let Some(module) = lock(&self.modules).get(&key) {
            return Ok(module.clone());
        }
        let module = match &*self.backend {
            Backend::Cuda(context) => match self.pack.as_ref().and_then(|pack| pack.cubin(&key)) {
                Some(cubin) => Module::Cuda(context.load(cubin)?),
                None => Module::Cuda(context.load(&self.build(request)?.cubin)?),
            },
            Backend::Virtual(host) => {
                let build = self.build(request)?;
                let id = lock(&host.device).load(Image::Ptx(&build.ptx))?;
                Module::Virtual { id, entries: build.entries }
            }
        };
        let module = Arc::new(module);
        Ok(lock(&self.modules).entry(key).or_insert(module).clone())
    }

    /// Compiles a kernel, or takes it from the cache. Installs the compiler first if the machine has none.
    fn build(&self, request: &Request) -> Result<Build, ForwardError> {
        let compiler = {
            let mut slot = lock(&self.compiler);
            if let Some(compiler) = &*slot {
                compiler.clone()
            } else {
                let toolchain = compiler::toolchain::ensure(None, &mut |_| ())?;
                slot.insert(Arc::new(Compiler::new(toolchain, &files::cache_dir())?)).clone()
            }
        };
        Ok(compiler.build(request)?.build)
    }

    /// Times work on the device, with warm caches. On a GPU the work is captured in a graph, which is replayed; it must use
    /// the stream that it gets. The virtual GPU does the work once and models its time; no other thread may use the device
    /// meanwhile.
    pub fn time(
        &self,
        work: impl FnMut(CudaStream) -> Result<(), ForwardError>,
    ) -> Result<Time, ForwardError> {
        self.backend.time(work)
    }

    /// Allocates memory on the device. `label` names it in messages of the virtual GPU.
    pub fn allocate(&self, label: &str, bytes: u64) -> Result<Buffer, ForwardError> {
        Ok(match &*self.backend {
            Backend::Cuda(context) => context.allocate(bytes)?,
            Backend::Virtual(host) => lock(&host.device).allocate(label, bytes)?,
        })
    }

    /// Allocates memory and copies bytes to it.
    pub fn upload(&self, label: &str, bytes: &[u8]) -> Result<Buffer, ForwardError> {
        let buffer = self.allocate(label, bytes.len() as u64)?;
        self.write(buffer, bytes)?;
        Ok(buffer)
    }

    /// Copies bytes to memory of the device.
    pub fn write(&self, buffer: Buffer, bytes: &[u8]) -> Result<(), ForwardError> {
        match &*self.backend {
            Backend::Cuda(context) => context.write(buffer, bytes)?,
            Backend::Virtual(host) => lock(&host.device).write(buffer, bytes)?,
        }
        Ok(())
    }

    /// Waits for the device and copies memory to the host.
    pub fn read(&self, buffer: Buffer) -> Result<Vec<u8>, ForwardError> {
        Ok(match &*self.backend {
            Backend::Cuda(context) => context.read(buffer)?,
            Backend::Virtual(host) => lock(&host.device).read(buffer)?,
        })
    }

    /// Frees memory that this device allocated.
    pub fn free(&self, buffer: Buffer) -> Result<(), ForwardError> {
        match &*self.backend {
            Backend::Cuda(context) => context.free(buffer)?,
            Backend::Virtual(host) => lock(&host.device).free(buffer)?,
        }
        Ok(())
    }
}

/// Refuses sizes that kernels cannot represent.
fn check_limits(problem: &Problem) -> Result<(), ForwardError> {
    let extents = [
        ("q", "batch", problem.batch),
        ("q", "heads", problem.heads),
        ("q", "sequence", problem.seq_q),
        ("k", "sequence", problem.seq_k),
        ("q", "head_dim", problem.head_dim),
    ];
    for (argument, axis, extent) in extents {
        if i32::try_from(extent).is_err() {
            return Err(wrong(argument, format!("the extent of {axis} is {extent}, but must be below 2^31")));
        }
    }
    if problem.heads > MAX_HEADS {
        return Err(wrong("q", format!("{} heads exceed the limit of {MAX_HEADS}", problem.heads)));
    }
    problem.limit().map_err(|limit| ForwardError::Unsupported(format!("a tensor has more than {limit}")))
}

/// The compile requests of all kernels that the dispatcher selects on a GPU, each once: for every dtype, head
/// dimension and mask, and for sizes over the whole range. They are what a [`Pack`] should have.
pub fn tuned_requests(chip: &'static Chip) -> Result<Vec<Request>, ForwardError> {
    let unsupported = |reason: String| ForwardError::Unsupported(reason);
    let catalog = Catalog::load(None).map_err(|error| unsupported(error.to_string()))?;
    let device = FoundDevice::Virtual { chip };
    let mut requests: HashMap<String, Request> = HashMap::new();
    for problem in representative_problems(&catalog) {
        let (family, candidate) = op::dispatch::choose(&Attention, &catalog, &device, &problem)
            .map_err(|refusal| unsupported(refusal.to_string()))?;
        let request =
            family.request(&candidate, chip.target).map_err(|error| unsupported(error.to_string()))?;
        requests.insert(Pack::key(&request), request);
    }
    let mut requests: Vec<_> = requests.into_iter().collect();
    requests.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(requests.into_iter().map(|(_, request)| request).collect())
}

/// Problems of every kind whose sizes grow by a factor of two. The dispatcher selects by kind and size.
fn representative_problems(catalog: &Catalog) -> Vec<Problem> {
    let head_dims = head_dims(catalog);
    let mut problems = Vec::new();
    for dtype in Dtype::ALL {
        for &head_dim in &head_dims {
            for mask in Mask::ALL {
                for size in 0..=36 {
                    // heads * seq_q * seq_k = 2^size, with as many keys as queries where possible.
                    let seq = 1_usize << (size / 2).min(14);
                    let heads = 1_usize << (size - 2 * (size / 2).min(14)).min(15);
                    let problem = Problem::new(1, heads, seq, head_dim, dtype).with_mask(mask);
                    problems.extend(dtype.outputs().iter().map(|&output| problem.with_output(output)));
                }
            }
        }
    }
    problems
}

/// The head dimensions that some family supports.
fn head_dims(catalog: &Catalog) -> BTreeSet<usize> {
    let families = catalog.entries().iter().filter_map(|entry| entry.family.as_ref().ok());
    let axes =
        families.filter(|family| family.op == "attention").filter_map(|family| family.axis("head_dim"));
    axes.flat_map(|axis| axis.values.iter().filter_map(|value| value.to_string().parse().ok())).collect()
}

/// The pack that was built into the program.
#[cfg(feature = "embedded-kernels")]
fn embedded_pack() -> Result<Option<Pack>, ForwardError> {
    static BYTES: &[u8] =
        include_bytes!(env!("WARPSMITH_PACK", "set WARPSMITH_PACK to a file that `cargo xtask pack` wrote"));
    let broken =
        |error: compiler::PackError| ForwardError::Unsupported(format!("the built-in kernels: {error}"));
    Pack::read(BYTES).map(Some).map_err(broken)
}

#[cfg(not(feature = "embedded-kernels"))]
#[allow(clippy::unnecessary_wraps, reason = "the other version of this function can fail")]
fn embedded_pack() -> Result<Option<Pack>, ForwardError> {
    Ok(None)
}
