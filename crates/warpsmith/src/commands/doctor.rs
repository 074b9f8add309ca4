//! `doctor`: shows what this machine has and what is missing, with a one-line remedy for each.

use compiler::toolchain::{self, SearchEnvironment};
use gpu::machine::{self, Driver};
use schemars::JsonSchema;
use serde::Serialize;
use subprocess::sandbox;

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, WARN, styled};

#[derive(JsonSchema, Serialize)]
pub struct Document<'a> {
    checks: &'a [Check],
    device: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Found,
    Missing,
    /// Present but not usable.
    Unfit,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    detail: String,
    remedy: Option<String>,
}

impl Check {
    fn found(name: &'static str, detail: impl Into<String>) -> Self {
        Check { name, status: Status::Found, detail: detail.into(), remedy: None }
    }

    fn missing(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Check { name, status: Status::Missing, detail: detail.into(), remedy: Some(remedy.into()) }
    }

    fn unfit(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Check { name, status: Status::Unfit, detail: detail.into(), remedy: Some(remedy.into()) }
    }
}

/// Checks the machine.
pub fn run(global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let driver = machine::driver();
    let python = machine::python();
    let compiler = compiler(global, python.as_ref());
    // NVRTC, or pip to install it, is enough to build kernels and to run them on the virtual GPU.
    let can_compile = compiler.status == Status::Found || can_install(python.as_ref());
    let checks = vec![
        compiler,
        gpus(&driver),
        clocks(&driver),
        toolkit(),
        profiler(&driver),
        counters(),
        sandbox(),
        interpreter(python.as_ref()),
        numpy(python.as_ref()),
        torch(python.as_ref()),
        packages(python.as_ref()),
    ];
    let device = super::device(global);
    if printer.is_json() {
        printer.json(
            "doctor",
            &Document { checks: &checks, device: device.as_ref().ok().map(ToString::to_string) },
        );
    } else {
        printer.data(&text(&checks));
        if let Ok(device) = &device {
            printer.data(&format!("\nKernels run on {}.", styled(STRONG, device)));
        }
    }
    device?;
    if !can_compile {
        return Err(CommandError::missing("there is no CUDA compiler and no pip to install one")
            .hint("install Python 3 with pip, or set WARPSMITH_CUDA to a CUDA toolkit"));
    }
    Ok(Exit::Success)
}

fn can_install(python: Option<&machine::Python>) -> bool {
    python.is_some_and(|python| python.package("pip").is_some())
}

fn compiler(global: &Global, python: Option<&machine::Python>) -> Check {
    let surroundings = SearchEnvironment::from_environment(global.cuda.as_deref());
    let survey = toolchain::survey(&surroundings);
    if let Some((place, reason)) = survey.named_refusal() {
        return Check::unfit(
            "NVRTC",
            format!("{}: {reason}", place.display()),
            "name another toolkit with --cuda",
        );
    }
    let Some(chosen) = survey.chosen else {
        let remedy = if can_install(python) {
            "warpsmith toolchain install (commands that compile do this automatically)"
        } else {
            "install Python 3 with pip, then `warpsmith toolchain install`"
        };
        return Check::missing("NVRTC", "no CUDA compiler found", remedy);
    };
    let origin = chosen.origin;
    match compiler::Compiler::new(chosen, &surroundings.cache) {
        Ok(compiler) => Check::found("NVRTC", format!("{} from {origin}", compiler.identity())),
        Err(error) => Check::unfit("NVRTC", error.to_string(), "warpsmith toolchain install"),
    }
}

fn gpus(driver: &Result<Driver, String>) -> Check {
    let remedy = "none needed: kernels run on the virtual GPU (--device virtual)";
    match driver {
        Err(reason) => Check::missing("GPU", format!("no NVIDIA driver ({reason})"), remedy),
        Ok(driver) if driver.gpus.is_empty() => {
            Check::missing("GPU", format!("driver {} finds no GPU", driver.version), remedy)
        }
        Ok(driver) => {
            let names: Vec<String> = driver
                .gpus
                .iter()
                .map(|gpu| {
                    let memory =
                        gpu.memory_bytes.map_or(String::new(), |bytes| format!(", {} GiB", bytes >> 30));
                    let capability = gpu
                        .compute_capability
                        .map_or(String::new(), |(a, b)| format!(", compute capability {a}.{b}"));
                    format!("{}{memory}{capability}", gpu.name)
                })
                .collect();
            let cuda = driver.cuda.map_or(String::new(), |(major, minor)| format!(" (CUDA {major}.{minor})"));
            let detail = format!("{}; driver {}{cuda}", names.join("; "), driver.version);
            match driver.cuda {
                Some((major, _)) if major < 12 => {
                    Check::unfit("GPU", detail, "update the driver to CUDA 12 or newer")
                }
                _ => Check::found("GPU", detail),
            }
        }
    }
}

fn clocks(driver: &Result<Driver, String>) -> Check {
    let clocks: Vec<String> = driver
        .iter()
        .flat_map(|driver| &driver.gpus)
        .filter_map(|gpu| {
            let ((sm, sm_max), (memory, memory_max)) = (gpu.sm_clock_mhz?, gpu.memory_clock_mhz?);
            Some(format!("SM {sm} of {sm_max} MHz, memory {memory} of {memory_max} MHz"))
        })
        .collect();
    if clocks.is_empty() {
        Check::missing("clocks", "no GPU", "none needed without a GPU")
    } else {
        Check::found("clocks", clocks.join("; "))
    }
}

fn toolkit() -> Check {
    match machine::nvcc() {
        Some((path, version)) => {
            let version = version.unwrap_or_else(|| "unknown version".to_owned());
            Check::found("toolkit", format!("nvcc {version} at {}", path.display()))
        }
        None => Check::missing("toolkit", "no nvcc", "none needed: NVRTC compiles everything"),
    }
}

fn profiler(driver: &Result<Driver, String>) -> Check {
    let Some(profiler) = machine::profiler() else {
        return Check::missing("ncu", "no Nsight Compute", "install Nsight Compute to profile on a GPU");
    };
    let Some((year, release)) = profiler.version else {
        let detail = format!("{} does not report its version", profiler.path.display());
        return Check::unfit("ncu", detail, "reinstall Nsight Compute");
    };
    let detail = format!("{year}.{release} at {}", profiler.path.display());
    let driver_cuda = driver.as_ref().ok().and_then(|driver| driver.cuda);
    match (profiler.cuda_major(), driver_cuda) {
        (Some(needs), Some((has, _))) if needs > has => Check::unfit(
            "ncu",
            format!("{detail} needs CUDA {needs}, the driver supports {has}"),
            "update the driver, or install an older Nsight Compute",
        ),
        _ => Check::found("ncu", detail),
    }
}

fn counters() -> Check {
    match machine::counters_permitted() {
        Some(true) => Check::found("counters", "this user may read hardware counters"),
        Some(false) => Check::unfit(
            "counters",
            "only administrators may read hardware counters",
            "as root: set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module",
        ),
        None => Check::missing(
            "counters",
            "no NVIDIA driver",
            "none needed: the virtual GPU has its own counters",
        ),
    }
}

fn sandbox() -> Check {
    let report = sandbox::probe();
    let detail = report.to_string();
    if sandbox::is_off() {
        return Check::missing("sandbox", detail, format!("unset {}", sandbox::VARIABLE));
    }
    match (report.landlock.is_active(), report.seccomp.is_active() && report.limits.is_active()) {
        (true, true) => Check::found("sandbox", detail),
        (false, true) => Check::unfit(
            "sandbox",
            detail,
            "processes that run kernels can read this user's files; use Linux 5.13 or later with `landlock` in lsm= on \
             the kernel command line",
        ),
        (_, false) => Check::unfit("sandbox", detail, "use Linux with seccomp, on x86-64 or arm64"),
    }
}

fn interpreter(python: Option<&machine::Python>) -> Check {
    match python {
        None => Check::missing("Python", "no python3", "install Python 3 with pip, or set WARPSMITH_PYTHON"),
        Some(python) => {
            let detail = format!("{} at {}", python.version, python.path.display());
            match python.package("pip") {
                Some(pip) => Check::found("Python", format!("{detail}, pip {pip}")),
                None => {
                    Check::unfit("Python", format!("{detail}, without pip"), "python3 -m ensurepip --upgrade")
                }
            }
        }
    }
}

fn numpy(python: Option<&machine::Python>) -> Check {
    match python.and_then(|python| python.package("numpy")) {
        Some(version) => Check::found("numpy", version),
        None => Check::missing(
            "numpy",
            "not installed",
            "pip install numpy: references of your own ops (`reference.py`) need it",
        ),
    }
}

/// The packages of the Python package and of its plug-ins.
fn packages(python: Option<&machine::Python>) -> Check {
    const PACKAGES: [&str; 5] = ["warpsmith", "triton", "numba-cuda", "nvidia-nvvm", "pytest"];
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in PACKAGES {
        match python.and_then(|python| python.package(name)) {
            Some(version) => found.push(format!("{name} {version}")),
            None => missing.push(name),
        }
    }
    let missing =
        if missing.is_empty() { String::new() } else { format!("not installed: {}", missing.join(", ")) };
    let detail: Vec<String> =
        found.iter().cloned().chain(Some(missing)).filter(|it| !it.is_empty()).collect();
    let detail = detail.join("; ");
    if found.is_empty() {
        let remedy = "none needed for CUDA files; for Triton and Numba, build the wheel of warpsmith (cargo xtask wheel) and \
                      pip install triton or numba-cuda[cu13]";
        return Check::missing("packages", detail, remedy);
    }
    Check::found("packages", detail)
}

fn torch(python: Option<&machine::Python>) -> Check {
    match python.and_then(|python| python.package("torch")) {
        Some(version) => Check::found("PyTorch", version),
        None => Check::missing("PyTorch", "not installed", "pip install torch, to compare with it on a GPU"),
    }
}

fn text(checks: &[Check]) -> String {
    let mut lines = Vec::new();
    for check in checks {
        let (style, word) = match check.status {
            Status::Found => (GOOD, "found"),
            Status::Missing => (WARN, "missing"),
            Status::Unfit => (BAD, "unusable"),
        };
        lines.push(format!("{:<9} {} {}", check.name, styled(style, format!("{word:<8}")), check.detail));
        if let Some(remedy) = &check.remedy {
            lines.push(styled(FAINT, format!("{:<18} {remedy}", "")));
        }
    }
    lines.join("\n")
}
