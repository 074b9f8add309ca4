//! Properties of this machine: GPUs and their driver, the profiler, PyTorch. Each property is found, or is missing
//! with a stated reason. No function panics, and every external command has a time limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use serde::Serialize;
use subprocess::ProgramLimits;
use subprocess::python;

/// One NVIDIA GPU as the driver describes it.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// The driver's index of the GPU.
    pub index: u32,
    /// The driver's name of the GPU.
    pub name: String,
    /// Compute capability as (major, minor); `None` if the driver does not report it.
    pub compute_capability: Option<(i32, i32)>,
    /// Size of the device memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Current and highest SM clock in MHz.
    pub sm_clock_mhz: Option<(u32, u32)>,
    /// Current and highest memory clock in MHz.
    pub memory_clock_mhz: Option<(u32, u32)>,
}

/// The driver and its GPUs.
#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    /// The driver's version, or `unknown`.
    pub version: String,
    /// The newest CUDA version that the driver supports, as (major, minor).
    pub cuda: Option<(i32, i32)>,
    /// The GPUs that the driver can describe.
    pub gpus: Vec<Gpu>,
}

/// The driver and its GPUs, or the reason why there is no driver.
pub fn driver() -> Result<Driver, String> {
    let nvml = Nvml::init().map_err(|error| match error {
        NvmlError::LibloadingError(_) => "libnvidia-ml.so.1 is not installed".to_owned(),
        other => other.to_string(),
    })?;
    let count = nvml.device_count().map_err(|error| error.to_string())?;
    let gpus = (0..count).filter_map(|index| describe(&nvml, index)).collect();
    let cuda = nvml.sys_cuda_driver_version().ok().map(|version| (version / 1000, version % 1000 / 10));
    Ok(Driver { version: nvml.sys_driver_version().unwrap_or_else(|_| "unknown".to_owned()), cuda, gpus })
}

fn describe(nvml: &Nvml, index: u32) -> Option<Gpu> {
    let device = nvml.device_by_index(index).ok()?;
    let clock = |kind: Clock| Some((device.clock_info(kind).ok()?, device.max_clock_info(kind).ok()?));
    Some(Gpu {
        index,
        name: device.name().ok()?,
        compute_capability: device.cuda_compute_capability().ok().map(|cc| (cc.major, cc.minor)),
        memory_bytes: device.memory_info().ok().map(|memory| memory.total),
        sm_clock_mhz: clock(Clock::SM),
        memory_clock_mhz: clock(Clock::Memory),
    })
}

/// Nsight Compute's command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profiler {
    /// The path of `ncu`.
    pub path: PathBuf,
    /// Year and release, e.g. (2025, 3).
    pub version: Option<(u32, u32)>,
}

impl Profiler {
    /// The CUDA major version of this release. It needs a driver that is at least as new.
    pub fn cuda_major(&self) -> Option<i32> {
        self.version.map(|version| if version >= (2025, 3) { 13 } else { 12 })
    }
}

/// Finds Nsight Compute on the path or in its usual folder.
pub fn profiler() -> Option<Profiler> {
    let path =
        std::env::var_os("PATH").and_then(|path| python::find_on_path("ncu", &path)).or_else(|| {
            let usual = Path::new("/usr/local/cuda/bin/ncu");
            usual.is_file().then(|| usual.to_owned())
        })?;
    let version = output_of(Command::new(&path).arg("--version"), Duration::from_secs(20));
    Some(Profiler { version: version.as_deref().and_then(ncu_version), path })
}

/// `Version 2025.3.1.0 (build ...)`.
fn ncu_version(text: &str) -> Option<(u32, u32)> {
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Version "))?;
    let mut numbers = version.split(['.', ' ']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether this user may read hardware counters; the driver can restrict them to administrators. `None` without a
/// driver.
pub fn counters_permitted() -> Option<bool> {
    let parameters = fs::read_to_string("/proc/driver/nvidia/params").ok()?;
    let admin_only = parameters.lines().any(|line| line.trim() == "RmProfilingAdminOnly: 1");
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let is_root =
        status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"));
    Some(!admin_only || is_root)
}

/// The path and version of the CUDA compiler of a full toolkit. Warpsmith does not need it; `doctor` lists it.
pub fn nvcc() -> Option<(PathBuf, Option<String>)> {
    let on_path = std::env::var_os("PATH").and_then(|path| python::find_on_path("nvcc", &path));
    let path = on_path.or_else(|| {
        let usual = Path::new("/usr/local/cuda/bin/nvcc");
        usual.is_file().then(|| usual.to_owned())
    })?;
    let text = output_of(Command::new(&path).arg("--version"), Duration::from_secs(20));
    let version = text.and_then(|text| {
        text.lines().find_map(|line| line.split_once(", V").map(|(_, version)| version.trim().to_owned()))
    });
    Some((path, version))
}

/// The Python interpreter and the versions of the packages that baselines use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Python {
    /// The path of the interpreter.
    pub path: PathBuf,
    /// The interpreter's version, such as `3.12.3`.
    pub version: String,
    /// Names and versions of the installed packages.
    pub packages: Vec<(String, String)>,
}

impl Python {
    /// The version of a package, if it is installed.
    pub fn package(&self, name: &str) -> Option<&str> {
        self.packages.iter().find(|(package, _)| package == name).map(|(_, version)| version.as_str())
    }
}

/// The interpreter and its packages. The versions come from the package metadata: importing PyTorch takes seconds.
pub fn python() -> Option<Python> {
    const SCRIPT: &str = "
import sys, importlib.metadata as m
print(sys.version.split()[0])
for name in ('torch', 'triton', 'pip', 'nvidia-cudnn-cu13', 'nvidia-cudnn-cu12', 'flash-attn', 'flash-attn-3',
             'flashattn-hopper', 'xformers', 'flashinfer-python', 'nvidia-cudnn-frontend', 'numpy', 'numba-cuda',
             'nvidia-nvvm', 'nvidia-cuda-nvcc', 'pytest', 'warpsmith'):
    try: print(name, m.version(name))
    except m.PackageNotFoundError: pass
";
    let path = python::interpreter()?;
    let text = output_of(Command::new(&path).args(["-c", SCRIPT]), Duration::from_secs(20))?;
    let mut lines = text.lines();
    let version = lines.next()?.to_owned();
    let packages = lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
    Some(Python { path, version, packages })
}

/// Standard output of a command, if it succeeds within the time limit.
fn output_of(command: &mut Command, limit: Duration) -> Option<String> {
    let limits = ProgramLimits { time: limit, stdout_bytes: 1 << 20 };
    let finished = subprocess::run(command, Vec::new(), limits, || true).ok()?;
    finished.end.success().then(|| String::from_utf8(finished.stdout).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_profiler_is_parsed_from_its_banner() {
        let banner = "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880) (public-release)\n";
        assert_eq!(ncu_version(banner), Some((2025, 3)));
        assert_eq!(ncu_version("nothing here"), None);
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let start = std::time::Instant::now();
        assert_eq!(output_of(Command::new("sleep").arg("60"), Duration::from_millis(50)), None);
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_command_that_fails_or_is_missing_has_no_output() {
        assert_eq!(output_of(&mut Command::new("false"), Duration::from_secs(5)), None);
        assert_eq!(output_of(&mut Command::new("/nowhere/at/all"), Duration::from_secs(5)), None);
        assert_eq!(
            output_of(Command::new("echo").arg("hello"), Duration::from_secs(5)).as_deref(),
            Some("hello\n")
        );
    }
}
