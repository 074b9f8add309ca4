//! Kernels that hide work from the time model (`corpus/cheats/modelled`). Each file has a kernel `cheat` and a kernel
//! `honest` with the same results. Hiding must not pay: the modelled time of `cheat` is not lower. A file may demand
//! more with a line `// least: RATIO`.

#![allow(clippy::unwrap_used)] // A test that cannot set itself up fails, which is what unwrap does.

mod annotated;

use std::path::{Path, PathBuf};

use annotated::{AnnotatedFile, complain_each};
use chips::Chip;
use compiler::Compiler;
use compiler::testing::{pinned_toolchain, shared_cache};
use gpu::accelerator::{Accelerator, Image, VirtualDevice};
use launch::Placed;
use vgpu::Checks;
use warpsmith_sanitize::simulated;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/cheats/modelled")
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "cu"));
    files.sort();
    files
}

/// Runs a kernel of the file. Returns its modelled time in microseconds and the contents of its outputs.
fn run(file: &AnnotatedFile, kernel: &str) -> (f64, Vec<Vec<u8>>) {
    let name = &file.name;
    let chip = Chip::by_name("h200").unwrap();
    let mut device = VirtualDevice::new(chip);
    device.options.threads = 1;
    device.options.checks = Checks::None;
    device.options.counters = true;
    let module = device.load(Image::Ptx(&file.build.ptx)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let occupancy = simulated::occupancy(chip, &file.build, kernel, file.geometry);
    device.options.limits.blocks_per_sm = occupancy.as_ref().unwrap().blocks_per_sm;
    let placed = Placed::on(&mut device, &file.arguments).unwrap();
    let report = device.run(module, kernel, file.geometry, &placed.parameters).unwrap();
    assert!(report.stats.completed, "{name}: {kernel}: {:?}", report.findings);
    let modelled = simulated::modelled(&device, &report, file.geometry, occupancy.as_ref()).unwrap();
    (modelled.time.0, placed.outputs().into_iter().map(|buffer| device.read(buffer).unwrap()).collect())
}

#[test]
fn hiding_work_from_the_time_model_does_not_pay() {
    let files = files();
    assert!(files.len() >= 20, "only {} files", files.len());
    let target_tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compiler = Compiler::new(pinned_toolchain(target_tmp), &shared_cache(target_tmp)).unwrap();
    complain_each(&files, |file| {
        let file = AnnotatedFile::new(file, &compiler);
        assert_eq!(file.kernel, None, "both kernels of {} run", file.name);
        let (cheat, results) = run(&file, "cheat");
        let (honest, expected) = run(&file, "honest");
        let name = &file.name;
        let mut found = Vec::new();
        if results != expected {
            found.push(format!("{name}: the results differ"));
        }
        let least = file.text.lines().find_map(|line| line.strip_prefix("// least: "));
        let least: f64 = least.map_or(0.95, |ratio| ratio.parse().unwrap());
        println!("{name}: {cheat:.2} us, honest {honest:.2} us, {:.2}", cheat / honest);
        if cheat < least * honest {
            found.push(format!("{name}: the cheat takes {cheat:.2} us, the honest kernel {honest:.2} us"));
        }
        // Work that is hidden must be visible in the first place: the launch itself takes 1.2 us.
        if honest < 2.0 && least <= 1.0 {
            found.push(format!("{name}: the honest kernel takes only {honest:.2} us"));
        }
        found
    });
}

/// Every file begins with its name, and the book has a line about it.
#[test]
fn every_file_is_in_the_book() {
    let book = std::fs::read_to_string(corpus().join("../../../docs/src/explanation/cheats.md")).unwrap();
    for file in files() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(&format!("// {name}. ")), "{name}");
        assert!(book.contains(&format!("| {name} |")), "{name} is not in docs/src/explanation/cheats.md");
    }
}
