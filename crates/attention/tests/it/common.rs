//! Helpers of the tests that run kernels.

use std::path::Path;
use std::sync::OnceLock;
use std::{fmt, fs};

use chips::Chip;
use compiler::testing::{pinned_toolchain, shared_cache};
use compiler::{Compiler, toolchain};
use family::Catalog;
use gpu::accelerator::{CudaDevice, VirtualDevice};
use op::{CheckDevice, Kernel};
use warpsmith_attention::metrics::{self, Mismatch, Tolerance, Weights};
use warpsmith_attention::oracle::{self, Rows};
use warpsmith_attention::run::Run;
use warpsmith_attention::{Encoded, Problem, error_map};

pub fn compiler() -> &'static Compiler {
    static COMPILER: OnceLock<Compiler> = OnceLock::new();
    COMPILER.get_or_init(new_compiler)
}

/// Tests of numerics also run on the first GPU, if this variable is `cuda`. The program of the tests can be copied to a
/// machine with a GPU and a compiler; `WARPSMITH_CACHE` must name a folder there.
pub fn is_on_gpu() -> bool {
    std::env::var_os("WARPSMITH_TEST_DEVICE").is_some_and(|device| device == "cuda")
}

/// The GPU, or the virtual one of this name.
pub fn gpu_or_virtual(chip: &str) -> Box<dyn CheckDevice> {
    if is_on_gpu() { Box::new(CudaDevice::open(0).expect("a GPU")) } else { Box::new(device(chip)) }
}

pub fn new_compiler() -> Compiler {
    if is_on_gpu() {
        let cache = std::env::var_os("WARPSMITH_CACHE").expect("a folder for the cache");
        let toolchain = toolchain::ensure(None, &mut |_| ()).expect("a compiler");
        return Compiler::new(toolchain, Path::new(&cache)).expect("NVRTC");
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compiler = Compiler::new(pinned_toolchain(folder), &shared_cache(folder)).expect("NVRTC");
    compiler.without_machine_code()
}

pub fn problem(name: &str) -> Problem {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub fn device(chip: &str) -> VirtualDevice {
    VirtualDevice::new(Chip::by_name(chip).expect("a chip of the table"))
}

/// A sum as `wgmma` adds FP8 products to it: all terms are cut 13 bits below the largest exponent among them, and the
/// total is cut to 13 fraction bits.
pub fn add_fp8_products(sum: f64, pairs: &[(f64, f64)]) -> f64 {
    let exponent = |x: f64, least: i32| (x.abs().log2().floor() as i32).max(least);
    let cut = |x: f64, unit: i32| (x / 2.0_f64.powi(unit)).trunc() * 2.0_f64.powi(unit);
    let of_products = pairs.iter().filter(|(a, b)| a * b != 0.0);
    let tops = of_products.map(|(a, b)| exponent(*a, -6) + exponent(*b, -6));
    let Some(top) = tops.chain((sum != 0.0).then(|| exponent(sum, -126))).max() else { return 0.0 };
    let total = pairs.iter().fold(cut(sum, top - 13), |total, (a, b)| total + cut(a * b, top - 13));
    if total == 0.0 { 0.0 } else { cut(total, exponent(total, -126) - 13) }
}

/// Everything that is wrong with a run.
#[derive(Debug, Default)]
pub struct Complaints {
    pub findings: Vec<vgpu::Finding>,
    pub failures: Vec<Mismatch>,
    pub changed_inputs: Vec<String>,
    /// A picture of the errors, if there are any.
    pub map: String,
}

impl Complaints {
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.failures.is_empty() && self.changed_inputs.is_empty()
    }
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in self.findings.iter().take(3) {
            let place = finding.place.frames.first().map(|frame| format!("{}:{}", frame.file, frame.line));
            writeln!(f, "{} at {}: {}", finding.kind, place.unwrap_or_default(), finding.message)?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        for name in &self.changed_inputs {
            writeln!(f, "{name} was changed")?;
        }
        f.write_str(&self.map)
    }
}

/// Compares a run with the reference and collects the virtual GPU's errors. `hopper-decode` gets warnings: where a sequence
/// has no page, its copies are outside the tensor, which fills the tile with zeros.
pub fn complaints(kernel: &Kernel<'_>, problem: &Problem, inputs: &Encoded, run: &Run) -> Complaints {
    assert!(!run.reports.is_empty(), "the virtual GPU reports");
    let findings = run.reports.iter().flat_map(|report| &report.findings);
    let serious = findings.filter(|finding| finding.severity == vgpu::Severity::Error);
    let reference = oracle::attention(problem, &inputs.decode(), Rows::all(problem));
    let weights = kernel.family.weights(problem.dtype.name());
    let mut tolerance = Tolerance::new(problem.dtype, weights).with_output_of(problem);
    tolerance.fp8_sums = weights == Weights::Fp8 && kernel.family.name == "hopper";
    let comparison = metrics::compare(&reference, &run.output, run.lse.as_deref(), tolerance);
    let tile = kernel.candidate.knobs.get("BLOCK_M").and_then(|height| height.to_string().parse().ok());
    let map = error_map::draw(&reference, &run.output, tolerance, tile);
    Complaints {
        findings: serious.cloned().collect(),
        failures: comparison.failures,
        changed_inputs: run.changed_inputs.clone(),
        map: map.map(|map| map.to_string()).unwrap_or_default(),
    }
}

/// The kernels of an op's family in the repository, with `right` in one file replaced by `wrong`.
pub fn changed_kernels(
    op: &str,
    family: &str,
    (file, right, wrong): (&str, &str, &str),
    folder: &Path,
) -> Catalog {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels").join(op);
    for part in ["common", family] {
        let to = folder.join(op).join(part);
        fs::create_dir_all(&to).expect("a temporary folder");
        for entry in fs::read_dir(kernels.join(part)).expect("the kernels").flatten() {
            let name = entry.file_name();
            let mut text = fs::read_to_string(entry.path()).expect("a source");
            if Path::new(file) == Path::new(part).join(&name) {
                assert!(text.contains(right), "{file} no longer has `{right}`");
                text = text.replacen(right, wrong, 1);
            }
            fs::write(to.join(name), text).expect("a temporary file");
        }
    }
    Catalog::load(Some(folder)).expect("the same manifests")
}
