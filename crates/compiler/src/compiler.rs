//! The compiler: a toolchain, its exact version, and the build cache.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Instant, UNIX_EPOCH};

use super::cache::{self, Cache, MEANING};
use super::{Build, BuildError, Entry, Request, Severity, includes, log, machine_code};
use crate::job::{Job, JobError, Libraries};
use crate::nvrtc::Compiled;
use crate::processes::Processes;
use crate::toolchain::Toolchain;

/// Largest size of PTX and cubin together that a source may compile to, in bytes.
const MOST_OUTPUT: u64 = 256 << 20;

/// Compiles requests or takes their builds from the cache. The libraries are loaded only when something must be compiled.
#[derive(Debug)]
pub struct Compiler {
    toolchain: Toolchain,
    identity: String,
    libraries: Libraries,
    /// If there is one, the libraries of this process compile nothing but a probe.
    processes: Option<Processes>,
    has_machine_code: bool,
    cache: Cache,
    warn: Warn,
    /// Used to warn once only that the cache is not writable.
    unwritable: Once,
}

/// Receives warnings about problems that do not prevent a build.
struct Warn(Box<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for Warn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Warn")
    }
}

/// A build, and whether it came from the cache.
#[derive(Clone, Debug)]
pub struct BuildOutcome {
    /// The compiled kernels.
    pub build: Build,
    /// Whether the build came from the cache.
    pub cached: bool,
    /// Time from the request to the build in memory, cached or compiled.
    pub elapsed_ms: f64,
}

/// The hash of a request for a compiler of this identity.
pub(super) fn request_hash(request: &Request, identity: &str, has_machine_code: bool) -> String {
    let mut hasher = blake3::Hasher::new();
    // Each field is hashed with its length, so that different requests never hash the same bytes.
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    field(MEANING.as_bytes());
    field(identity.as_bytes());
    for option in fixed_options(request, has_machine_code).iter().chain(&request.options) {
        field(option.as_bytes());
    }
    field(request.source.name.as_bytes());
    field(request.source.text.as_bytes());
    for (name, text) in &request.source.headers {
        field(name.as_bytes());
        field(text.as_bytes());
    }
    for instance in &request.source.instances {
        field(instance.as_bytes());
    }
    for (path, text) in includes::on_disk(&request.source.text, &request.source.include_dirs) {
        field(path.as_os_str().as_encoded_bytes());
        field(text.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

impl Compiler {
    /// Creates a compiler that caches its builds below `cache`, Warpsmith's cache folder.
    pub fn new(toolchain: Toolchain, cache: &Path) -> Result<Self, BuildError> {
        let libraries = Libraries::default();
        let identity = identify(&toolchain, cache, &libraries)?;
        let limit = cache::limit_from_environment().unwrap_or(Cache::DEFAULT_LIMIT);
        let cache = Cache::new(cache.join("builds"), limit);
        let warn = Warn(Box::new(|_| ()));
        let unwritable = Once::new();
        let (processes, has_machine_code) = (None, true);
        Ok(Compiler { toolchain, identity, libraries, processes, has_machine_code, cache, warn, unwritable })
    }

    /// Compiles sources to PTX only, which takes half of the time. Such builds run on a virtual GPU; the resources of
    /// their kernels are unknown (0), and what only the assembler refuses is not found.
    #[must_use]
    pub fn without_machine_code(mut self) -> Self {
        self.has_machine_code = false;
        self
    }

    /// Compiles in other processes, so that a crash of the compiler is an error. Each process is started with `command`
    /// and must call [`crate::serve`].
    #[must_use]
    pub fn in_processes(mut self, command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        self.processes = Some(Processes::new(command));
        self
    }

    /// Reports warnings through `warn`: the cache is not writable (once), or its limit is not a number.
    #[must_use]
    pub fn warn_with(mut self, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        if let Err(message) = cache::limit_from_environment() {
            warn(&message);
        }
        self.warn = Warn(Box::new(warn));
        self
    }

    /// Folders with CUDA's own headers.
    pub fn header_folders(&self) -> &[PathBuf] {
        &self.toolchain.includes
    }

    /// The compiler's exact version with that of its headers, e.g. `13.0.88 (headers 13000, cccl 3000003)`.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The hash of a request's build, without building it.
    pub fn hash(&self, request: &Request) -> String {
        request_hash(request, &self.identity, self.has_machine_code)
    }

    /// The build of a request, from the cache or compiled and stored.
    pub fn build(&self, request: &Request) -> Result<BuildOutcome, BuildError> {
        let start = Instant::now();
        let hash = self.hash(request);
        if let Some(build) = self.cache.load(&hash) {
            return Ok(BuildOutcome { build, cached: true, elapsed_ms: milliseconds(start) });
        }
        let build = self.compile(request, hash)?;
        if let Err((path, error)) = self.cache.store(&build) {
            // The build itself is valid; only the cache misses it.
            self.unwritable.call_once(|| {
                (self.warn.0)(&format!(
                    "cannot store builds in the cache: {}: {error}; set WARPSMITH_CACHE to a writable folder",
                    path.display()
                ));
            });
        }
        Ok(BuildOutcome { build, cached: false, elapsed_ms: milliseconds(start) })
    }

    /// Builds many requests on `jobs` threads. `finished` is called from those threads after each build. The results
    /// are in the order of the requests.
    pub fn build_many(
        &self,
        requests: &[Request],
        jobs: usize,
        finished: &(dyn Fn(usize, &Result<BuildOutcome, BuildError>) + Sync),
    ) -> Vec<Result<BuildOutcome, BuildError>> {
        let slots: Vec<OnceLock<Result<BuildOutcome, BuildError>>> =
            requests.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, requests.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(request) = requests.get(index) else { break };
                        let result = slots[index].get_or_init(|| self.build(request));
                        finished(index, result);
                    }
                });
            }
        });
        // A thread took every index below `requests.len()`, and the scope waited for all threads.
        slots.into_iter().filter_map(OnceLock::into_inner).collect()
    }

    fn compile(&self, request: &Request, hash: String) -> Result<Build, BuildError> {
        if request.source.is_ptx() {
            return self.assemble(request, hash);
        }
        let source = &request.source;
        let mut options = fixed_options(request, self.has_machine_code);
        let folders = source.include_dirs.iter().chain(&self.toolchain.includes);
        options.extend(folders.map(|folder| format!("--include-path={}", folder.display())));
        options.extend(request.options.iter().cloned());
        let start = Instant::now();
        let mut job = Job { toolchain: self.toolchain.clone(), source: source.clone(), options };
        let mut compiled = self.run(&job)?;
        if !self.has_machine_code {
            let entries = entries_of_ptx(&compiled.ptx);
            return self.finished(request, hash, compiled, entries, start);
        }
        let mut entries = log::entries(&compiled.log);
        if entries.is_empty() && compiled.ptx.contains(".entry") {
            // On a machine with a driver, NVRTC has its own cache, and a build from it has no log. A compiler without
            // this option has no such cache either; the first result is kept.
            job.options.push("--no-cache".to_owned());
            if let Ok(again) = self.run(&job) {
                entries = log::entries(&again.log);
                compiled = again;
            }
        }
        self.finished(request, hash, compiled, entries, start)
    }

    /// Assembles a PTX source.
    fn assemble(&self, request: &Request, hash: String) -> Result<Build, BuildError> {
        let source = &request.source;
        if self.toolchain.nvjitlink.is_none() {
            return Err(BuildError::NoAssembler {
                name: source.name.clone(),
                toolchain: self.toolchain.root.clone(),
            });
        }
        let options =
            vec![format!("-arch={}", request.target), "-lineinfo".to_owned(), "-Xptxas=-v".to_owned()];
        let start = Instant::now();
        let job = Job { toolchain: self.toolchain.clone(), source: source.clone(), options };
        let compiled = self.run(&job)?;
        let entries = log::entries(&compiled.log);
        self.finished(request, hash, compiled, entries, start)
    }

    fn run(&self, job: &Job) -> Result<Compiled, BuildError> {
        let compiled = match &self.processes {
            Some(processes) => processes.run(job),
            None => self.libraries.run(job),
        };
        compiled.map_err(|error: JobError| error.of(&job.source))
    }

    /// The build of what a compiler or assembler has made since `start`.
    fn finished(
        &self,
        request: &Request,
        hash: String,
        compiled: Compiled,
        entries: Vec<Entry>,
        start: Instant,
    ) -> Result<Build, BuildError> {
        let name = request.source.name.clone();
        if entries.is_empty() {
            return Err(BuildError::NoKernel { name });
        }
        let bytes = (compiled.ptx.len() + compiled.cubin.len()) as u64;
        if bytes > MOST_OUTPUT {
            return Err(BuildError::TooLarge { name, bytes, most: MOST_OUTPUT });
        }
        Ok(Build {
            hash,
            code_hash: machine_code::code_hash(&compiled.cubin, &compiled.ptx),
            target: request.target,
            compiler: self.identity.clone(),
            entries,
            compile_ms: milliseconds(start),
            warnings: log::of_severity(&compiled.log, Severity::Warning),
            lowered_names: compiled.lowered_names,
            ptx: without_working_directory(&compiled.ptx),
            cubin: compiled.cubin,
        })
    }
}

/// Options of every build. The request may name another standard.
fn fixed_options(request: &Request, has_machine_code: bool) -> Vec<String> {
    let mut target = request.target.to_string();
    if !has_machine_code {
        target = target.replace("sm_", "compute_");
    }
    let mut options = vec![format!("--gpu-architecture={target}")];
    if !request.options.iter().any(|option| option.starts_with("--std=")) {
        options.push("--std=c++17".to_owned());
    }
    let others = ["-lineinfo", "--device-as-default-execution-space", "--ptxas-options=-v"];
    options.extend(others.map(str::to_owned));
    options
}

/// The kernels of a PTX text. Their resources are unknown.
fn entries_of_ptx(ptx: &str) -> Vec<Entry> {
    let names = ptx.lines().filter_map(|line| line.split_once(".entry ")?.1.split('(').next());
    names.map(|name| Entry { name: name.trim().to_owned(), ..Entry::default() }).collect()
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Removes the working directory that NVRTC puts before relative file names. The PTX must not depend on it.
fn without_working_directory(ptx: &str) -> String {
    match std::env::current_dir() {
        Ok(folder) => ptx.replace(&format!("\"{}/", folder.display()), "\""),
        Err(_) => ptx.to_owned(),
    }
}

/// The compiler's exact version with that of its headers. Finding it needs a small compilation, so the cache stores
/// the result under the library's path, size and modification time.
fn identify(toolchain: &Toolchain, cache: &Path, libraries: &Libraries) -> Result<String, BuildError> {
    let memo = memo_file(toolchain, cache);
    let known = memo.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    if let Some(known) = known.filter(|text| !text.is_empty()) {
        return Ok(known);
    }
    let probe = "extern \"C\" __global__ void probe() {}";
    let options = ["--gpu-architecture=compute_80".to_owned()];
    let nvrtc = libraries.nvrtc(toolchain)?;
    let compiled = nvrtc.compile("probe.cu", probe, &[], &[], &options)?;
    let banner =
        compiled.ptx.lines().find_map(|line| line.split_once(", V").map(|(_, version)| version.trim()));
    let compiler = banner.map_or_else(|| nvrtc.version().to_string(), str::to_owned);
    let headers = header_constant(toolchain, "cuda_runtime_api.h", "CUDART_VERSION");
    let cccl = header_constant(toolchain, "cuda/std/__cccl/version.h", "CCCL_VERSION");
    let identity = format!("{compiler} (headers {headers}, cccl {cccl})");
    if let Some(file) = memo {
        // Without the stored result the next start is only slower.
        let _ = files::write_atomically(&file, identity.as_bytes());
    }
    Ok(identity)
}

fn memo_file(toolchain: &Toolchain, cache: &Path) -> Option<PathBuf> {
    let meta = toolchain.nvrtc.metadata().ok()?;
    let modified = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let key = format!("{}\n{}\n{}", toolchain.nvrtc.display(), meta.len(), modified.as_nanos());
    Some(cache.join("compilers").join(&blake3::hash(key.as_bytes()).to_hex()[..32]))
}

/// The value of a `#define` in one of the toolchain's headers.
fn header_constant(toolchain: &Toolchain, header: &str, name: &str) -> String {
    let text = toolchain.includes.iter().find_map(|folder| std::fs::read_to_string(folder.join(header)).ok());
    let value = text.as_deref().and_then(|text| {
        text.lines().find_map(|line| {
            let mut words = line.trim_start().strip_prefix("#define")?.split_whitespace();
            (words.next()? == name).then(|| words.next().map(str::to_owned))?
        })
    });
    value.unwrap_or_else(|| "unknown".to_owned())
}
