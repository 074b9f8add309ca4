//! Runs the kernels that other projects' compilers made from the sources of `corpus/ptx`.

#[path = "../../../../corpus/ptx/cases.rs"]
mod cases;

use std::fmt::Write as _;
use std::path::Path;

use cases::Case;
use warpsmith_vgpu::{Buffer, Checks, Device, Launch, Options, Severity, load};

fn run(case: &Case, checks: Checks, threads: usize) -> Result<(), String> {
    let text = std::fs::read_to_string(&case.ptx).expect("readable PTX");
    let module = load(&text).map_err(|error| format!("refused: {error}"))?;
    let kernel = module.kernel(&case.kernel).ok_or("no such kernel")?;
    assert_eq!(kernel.params.len(), case.arguments.len(), "parameters of {}", case.name);
    let mut device = Device::default();
    let mut block = vec![0u8; kernel.param_bytes as usize];
    let mut buffers: Vec<Option<Buffer>> = Vec::new();
    let mut outputs = Vec::new();
    for (argument, param) in case.arguments.iter().zip(&kernel.params) {
        let at = param.offset as usize;
        let bytes = argument.bytes();
        if argument.role == "value" {
            block[at..at + bytes.len()].copy_from_slice(&bytes);
            buffers.push(None);
            continue;
        }
        let buffer = device.alloc(bytes.len() as u64, &param.name).map_err(|error| error.to_string())?;
        match argument.role.as_str() {
            "read" | "update" => device.write(buffer, &bytes).map_err(|error| error.to_string())?,
            "write" => outputs.push(buffer),
            _ => {}
        }
        block[at..at + 8].copy_from_slice(&buffer.0.to_le_bytes());
        buffers.push(Some(buffer));
    }
    let options = Options { checks, threads, outputs, ..Options::default() };
    let launch = Launch {
        module: &module,
        kernel: &case.kernel,
        grid: case.grid,
        block: case.block,
        shared: case.shared,
        args: &block,
    };
    let report = device.launch(&launch, &options).map_err(|error| error.to_string())?;
    if let Some(finding) = report.findings.iter().find(|finding| finding.severity == Severity::Error) {
        return Err(format!("{} at line {}: {}", finding.kind, finding.place.ptx_line, finding.message));
    }
    for (n, (argument, buffer)) in case.arguments.iter().zip(&buffers).enumerate() {
        let Some(buffer) = buffer else { continue };
        let mut got = vec![0; argument.bytes().len()];
        device.read(*buffer, &mut got).map_err(|error| error.to_string())?;
        argument.compare(&got).map_err(|error| format!("argument {n}: {error}"))?;
    }
    Ok(())
}

#[test]
fn kernels_of_other_compilers_match_numpy_without_a_finding() {
    let cases = match cases::all(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Ok(cases) => cases,
        Err(reason) => {
            eprintln!("skipped: the compilers of corpus/ptx cannot be installed: {reason}");
            return;
        }
    };
    let mut failed = String::new();
    for case in &cases {
        for (checks, threads) in [(Checks::All, 1), (Checks::None, 2)] {
            if let Err(error) = run(case, checks, threads) {
                let _ = writeln!(failed, "{} ({checks:?}): {error}", case.name);
            }
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
    for (compiler, least) in [("triton", 60), ("numba", 20), ("cute", 8)] {
        let count = cases.iter().filter(|case| case.name.starts_with(compiler)).count();
        assert!(count >= least, "only {count} cases of {compiler}");
    }
}
