//! Every preset of every family on a real GPU against the oracle, in two steps, because the machine with the GPU may
//! have no compiler and the one with the compiler no GPU:
//!
//! ```text
//! cuda_check make FOLDER TARGET    compiles everything into FOLDER
//! cuda_check run FOLDER            runs it on cuda:0
//! ```

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use attention::metrics::{self, Tolerance, Weights};
use attention::oracle::{self, Rows};
use attention::run::{self, check};
use attention::{Class, Encoded, Inputs, Layout, Problem, error_map};
use family::{Candidate, Catalog, Family};
use gpu::accelerator::{CudaDevice, Image};
use gpu::build::Compiler;
use gpu::toolchain;
use op::Kernel;

/// Shapes with edges, and some that fill the GPU. The dtype is put after each.
const PROBLEMS: [&str; 16] = [
    "b1h1s1d64",
    "b1h2s17d64",
    "b1h2s127d64-causal",
    "b2h4s129d128",
    "b1h2sq17sk65d64-causal",
    "b1h2sq65sk17d64-causal",
    "b1h2sq33sk70d64-causal-tl",
    "b1h8kv2s448d64-causal",
    "b1h8kv2s513d128",
    "b2h4kv1sq40sk33d128-causal",
    "b2h8s512d64",
    "b1h8s640d64-causal",
    "b4h17s33d64-causal",
    "b1h2s200d80",
    "b1h2s100d96-causal",
    "b1h2s70d256",
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let catalog = Catalog::load(None)?;
    match words[..] {
        ["make", folder, target] => make(&catalog, Path::new(folder), target)?,
        ["run", folder] => return run_all(&catalog, Path::new(folder)),
        _ => return Err("usage: cuda_check make FOLDER TARGET | cuda_check run FOLDER".into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// A family's candidate for a problem, and the name of its cubin.
type Case<'c> = (&'c Family, Candidate, Problem, String);

/// Every family, preset and problem that go together.
fn cases(catalog: &Catalog) -> Result<Vec<Case<'_>>, Box<dyn Error>> {
    let mut cases = Vec::new();
    for entry in catalog.entries() {
        let Ok(family) = &entry.family else { continue };
        for preset in &family.presets {
            for dtype in ["fp16", "bf16", "e4m3"] {
                for shape in PROBLEMS {
                    let problem: Problem = format!("{shape}-{dtype}").parse()?;
                    if check(family, &problem, Layout::Bhsd, true).is_ok() {
                        // Some presets are for some head dimensions only.
                        let Ok(candidate) = run::candidate(family, Some(&preset.name), &[], &problem) else {
                            continue;
                        };
                        let file = format!("{}-{}-{dtype}-d{}", family.name, preset.name, problem.head_dim);
                        cases.push((family, candidate, problem, file));
                    }
                }
            }
        }
    }
    Ok(cases)
}

fn make(catalog: &Catalog, folder: &Path, target: &str) -> Result<(), Box<dyn Error>> {
    let named = std::env::var_os("WARPSMITH_CUDA").map(PathBuf::from);
    let toolchain = toolchain::ensure(named.as_deref(), &mut |_| ())?;
    fs::create_dir_all(folder)?;
    let compiler = Compiler::new(toolchain, &folder.join("cache"))?;
    for (family, candidate, _, file) in cases(catalog)? {
        let path = folder.join(file).with_extension("cubin");
        if !path.exists() {
            let build = compiler.build(&family.request(&candidate, target.parse()?)?)?.build;
            fs::write(path, build.cubin)?;
        }
    }
    fs::remove_dir_all(folder.join("cache"))?;
    Ok(())
}

fn run_all(catalog: &Catalog, folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let mut device = CudaDevice::open(0)?;
    let (mut right, mut wrong) = (0, 0);
    for (index, (family, candidate, problem, file)) in cases(catalog)?.into_iter().enumerate() {
        let cubin = fs::read(folder.join(&file).with_extension("cubin"))?;
        let kernel = Kernel::load(&mut device, family, candidate, Image::Cubin(&cubin))?;
        for class in Class::ALL {
            let layout = Layout::ALL[index % 2];
            let inputs = Inputs::generate(&problem, class, index as u64).encode(problem.dtype, layout);
            let complaints = complaints(&mut device, &kernel, &problem, &inputs)?;
            if complaints.is_empty() {
                right += 1;
            } else {
                wrong += 1;
                println!("{file} {problem} {class} {layout}:\n{}\n", complaints.join("\n"));
            }
        }
    }
    println!("{right} right, {wrong} wrong");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the kernel twice and says what is wrong.
fn complaints(
    device: &mut CudaDevice,
    kernel: &Kernel<'_>,
    problem: &Problem,
    inputs: &Encoded,
) -> Result<Vec<String>, Box<dyn Error>> {
    let first = run::run(kernel, device, problem, inputs, true)?;
    let again = run::run(kernel, device, problem, inputs, true)?;
    let reference = oracle::attention(problem, &inputs.decode(), Rows::within(problem, 200_000_000, 1));
    let tolerance = Tolerance::of(problem.dtype, Weights::of(kernel.family, problem.dtype));
    let comparison = metrics::compare(&reference, &first.output, first.lse.as_deref(), tolerance);
    let mut words: Vec<String> = comparison.failures.iter().map(ToString::to_string).collect();
    if !comparison.passed() {
        words.extend(error_map::draw(&reference, &first.output, tolerance, None).map(|map| map.to_string()));
    }
    words.extend(first.trespasses.iter().map(|trespass| format!("{trespass:?}")));
    words.extend(first.changed_inputs.iter().map(|name| format!("{name} was changed")));
    if (&first.output, &first.lse) != (&again.output, &again.lse) {
        words.push("a second run gave other bits".to_owned());
    }
    Ok(words)
}
