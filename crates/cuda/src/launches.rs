//! Launches of kernels.

use execlog::HostKind;
use vgpu::{Kind as Problem, LaunchError, LaunchReport, Severity};

use crate::State;
use crate::call_site::Site;
use crate::errors::{Outcome, Status};
use crate::guest::{self, Plain};
use crate::memory::Spot;
use crate::order::Use;
use crate::streams::Key;

/// A launch with its arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    pub function: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared: u32,
    pub cooperative: bool,
    /// The argument block of the kernel.
    pub arguments: Vec<u8>,
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    _padding: u32,
    pub stream: u64,
    attributes: u64,
    count: u32,
    _padding2: u32,
}
// SAFETY: numbers only.
unsafe impl Plain for Config {}

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Attribute {
    id: u32,
    _padding: u32,
    value: [u32; 16],
}
// SAFETY: numbers only.
unsafe impl Plain for Attribute {}

const COOPERATIVE: u32 = 2;
const CLUSTER_DIMENSION: u32 = 4;

/// Marks in the array `extra` of a launch.
const END: u64 = 0;
const BUFFER: u64 = 1;
const BUFFER_SIZE: u64 = 2;

impl Config {
    /// The extents of clusters, and whether the launch is cooperative.
    pub fn attributes(&self) -> Result<([u32; 3], bool), Status> {
        let (mut cluster, mut cooperative) = ([1; 3], false);
        for attribute in guest::read_many(self.attributes as *const Attribute, self.count as usize)? {
            match attribute.id {
                COOPERATIVE => cooperative = attribute.value[0] != 0,
                CLUSTER_DIMENSION => cluster = [attribute.value[0], attribute.value[1], attribute.value[2]],
                // Priorities, access policies, programmatic order and similar hints change no result.
                _ => {}
            }
        }
        Ok((cluster, cooperative))
    }
}

/// The argument block of a kernel: from an array of pointers to arguments, or from a buffer.
pub fn arguments(kernel: &vgpu::Kernel, parameters: u64, extra: u64) -> Result<Vec<u8>, Status> {
    let mut block = vec![0; kernel.param_bytes as usize];
    if parameters != 0 {
        let places = guest::read_many(parameters as *const u64, kernel.params.len())?;
        for (place, parameter) in places.into_iter().zip(&kernel.params) {
            let offset = parameter.offset as usize;
            let into =
                block.get_mut(offset..offset + parameter.bytes as usize).ok_or(Status::INVALID_VALUE)?;
            guest::read_bytes(place, into).map_err(|_| Status::INVALID_VALUE)?;
        }
    } else if extra != 0 {
        let (mut buffer, mut bytes) = (0, 0);
        let mut at = extra as *const u64;
        for _ in 0..8 {
            let mark = guest::read(at)?;
            if mark == END {
                break;
            }
            let value = guest::read(at.wrapping_add(1))?;
            match mark {
                BUFFER => buffer = value,
                BUFFER_SIZE => bytes = guest::read(value as *const u64)? as usize,
                _ => return Err(Status::INVALID_VALUE),
            }
            at = at.wrapping_add(2);
        }
        let bytes = bytes.min(block.len());
        guest::read_bytes(buffer, &mut block[..bytes]).map_err(|_| Status::INVALID_VALUE)?;
    } else if !kernel.params.is_empty() {
        return Err(Status::INVALID_VALUE);
    }
    Ok(block)
}

/// The error of a kernel that was stopped.
fn fault_of(report: &LaunchReport) -> Status {
    let first = report.findings.iter().find(|finding| finding.severity == Severity::Error);
    let is_assertion = first.is_some_and(|finding| finding.message.starts_with("assertion "));
    match first.map(|finding| finding.kind) {
        Some(Problem::OutOfBounds) => Status::ILLEGAL_ADDRESS,
        Some(Problem::Misaligned) => Status::MISALIGNED_ADDRESS,
        Some(Problem::Runaway | Problem::Deadlock | Problem::NotResident) => Status::LAUNCH_TIMEOUT,
        Some(Problem::Trap) if is_assertion => Status::ASSERT,
        _ => Status::LAUNCH_FAILED,
    }
}

/// The result of a launch that was refused.
fn refusal(error: &LaunchError) -> Status {
    match error {
        LaunchError::Refused { .. } => Status::NOT_SUPPORTED,
        LaunchError::ThreadBounds { .. } => Status::LAUNCH_OUT_OF_RESOURCES,
        LaunchError::Cluster { .. } => Status::INVALID_CLUSTER_SIZE,
        LaunchError::UnknownKernel(_) => Status::INVALID_HANDLE,
        LaunchError::Memory(_) => Status::OUT_OF_MEMORY,
        _ => Status::INVALID_VALUE,
    }
}

unsafe extern "C" {
    #[link_name = "stdout"]
    static mut STDOUT: *mut libc::FILE;
}

/// Writes the output of a kernel. The stream of the C library keeps it in order with the output of the program.
fn print(text: &str) {
    if !text.is_empty() {
        // SAFETY: the stream of the C library, which locks it.
        unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), STDOUT) };
    }
}

impl State {
    /// Checks a launch without running it.
    pub fn check_launch(&mut self, launch: &Launch) -> Outcome {
        let function = self.functions.get(launch.function)?;
        let name = function.name.clone();
        let most = function.most_dynamic_shared(self);
        let fixed = function.kernel().map_or(0, |kernel| kernel.shared_bytes);
        let threads: u64 = launch.block.iter().map(|it| u64::from(*it)).product();
        if launch.shared > most {
            let set = "cudaFuncSetAttribute(…, cudaFuncAttributeMaxDynamicSharedMemorySize, …)";
            let message = format!(
                "`{name}` is launched with {} bytes of dynamic shared memory, and it may have {most} (it has {fixed} bytes \
                 of its own); {set} can raise that",
                launch.shared
            );
            self.report(HostKind::InvalidLaunch, message);
            return Err(Status::INVALID_VALUE);
        }
        if launch.cooperative {
            let blocks: u64 = launch.grid.iter().map(|it| u64::from(*it)).product();
            let resident = self.options.limits.resident(threads.min(1024) as u32, fixed + launch.shared);
            if blocks > resident {
                let message = format!(
                    "the cooperative launch of `{name}` has {blocks} blocks, and {resident} can be resident at a time"
                );
                self.report(HostKind::InvalidLaunch, message);
                return Err(Status::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        Ok(())
    }

    /// Runs a launch.
    pub fn launch(&mut self, stream: Key, launch: &Launch, site: &Site) -> Outcome {
        self.check_launch(launch)?;
        let function = self.functions.get(launch.function)?;
        let (module, name) = (function.module.clone(), function.name.clone());
        let what = format!("kernel `{}`", readable(&name));
        let operation = self.order.begin(stream, what, site.clone());
        self.memory.define_host_memory();
        let options = vgpu::Options { cluster: launch.cluster, ..self.options.clone() };
        let run = vgpu::Launch {
            module: &module.code,
            kernel: &name,
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
            args: &launch.arguments,
        };
        let report = match self.memory.launch(&run, &options) {
            Ok(report) => report,
            Err(error) => {
                if matches!(error, LaunchError::Refused { .. }) {
                    eprintln!("warpsmith: {error}");
                    self.report(HostKind::Unsupported, error.to_string());
                } else {
                    self.report(HostKind::InvalidLaunch, format!("`{}`: {error}", readable(&name)));
                }
                return Err(refusal(&error));
            }
        };
        print(&report.printed);
        for finding in &report.findings {
            self.findings.kernel(finding, site);
        }
        let modelled = self.modelled(&report, launch);
        self.findings.count(&name, &report.stats, modelled);
        let touched = self.memory.touched().iter();
        let uses: Vec<Use> = touched.map(|it| Use::new(it.address, it.bytes, it.written)).collect();
        self.check_uses(&operation, &merged(uses));
        if !report.stats.completed {
            self.fault = Some(fault_of(&report));
            if !self.is_checked() {
                eprintln!("warpsmith: the kernel `{}` was stopped", readable(&name));
            }
        }
        Ok(())
    }

    /// The modelled time of a launch in seconds, if its events were counted.
    fn modelled(&self, report: &LaunchReport, launch: &Launch) -> Option<f64> {
        let shape = vgpu::model::Shape {
            blocks: launch.grid.iter().map(|it| u64::from(*it)).product(),
            threads_per_block: launch.block.iter().product(),
            blocks_per_sm: self.options.limits.blocks_per_sm,
            shared_per_block: launch.shared,
        };
        let counters = report.counters.as_ref()?;
        Some(vgpu::model::modelled(counters, shape, self.chip).time.0)
    }

    /// Reports pointers to freed memory among the arguments of a node of a graph.
    pub fn check_stale(&mut self, launch: &Launch, made: &Site) {
        let Ok(function) = self.functions.get(launch.function) else { return };
        let Some(kernel) = function.kernel() else { return };
        let name = readable(&function.name).to_owned();
        let pointers: Vec<u64> = kernel
            .params
            .iter()
            .filter(|parameter| parameter.bytes == 8)
            .filter_map(|parameter| {
                launch.arguments.get(parameter.offset as usize..)?.first_chunk::<8>().copied()
            })
            .map(u64::from_le_bytes)
            .collect();
        for pointer in pointers {
            if let Spot::Freed(_, freed) = self.spot(pointer) {
                let message =
                    format!("the graph launches `{name}` with a pointer to {}, which was freed", freed.label);
                let related = vec![
                    ("it was freed here".to_owned(), freed.site),
                    ("the node was made here".to_owned(), made.clone()),
                ];
                self.report_with(HostKind::StaleGraph, message, related);
            }
        }
    }
}

/// Joins adjacent ranges of one kind. A kernel may access very many ranges; only the first 256 are checked.
fn merged(uses: Vec<Use>) -> Vec<Use> {
    const MOST: usize = 256;
    let mut all: Vec<Use> = Vec::new();
    for new in uses {
        match all.last_mut() {
            Some(last) if last.range.end == new.range.start && last.writes == new.writes => {
                last.range.end = new.range.end;
            }
            _ => all.push(new),
        }
    }
    all.truncate(MOST);
    all
}

/// The name of a function without its types.
pub fn readable(name: &str) -> &str {
    let Some(rest) = name.strip_prefix("_Z") else { return name };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let length = rest[..digits].parse().unwrap_or(0);
    rest.get(digits..digits.saturating_add(length)).filter(|name| !name.is_empty()).unwrap_or(name)
}
