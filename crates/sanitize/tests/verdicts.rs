//! The verdict on every file of the corpus is the same for any number of workers, order of blocks and placement of
//! memory. The files with a bug must have their expected findings, and all others none, in every run.
//!
//! `VERDICTS` names a part of a file name. Such files run with ten seeds; without it, all files run with a sample of
//! seeds, because every run of the whole corpus takes seconds.

#![allow(clippy::unwrap_used)] // A test that cannot set itself up fails, which is what unwrap does.

mod annotated;

use std::path::{Path, PathBuf};

use annotated::{AnnotatedFile, complain_each};
use chips::Chip;
use compiler::Compiler;
use compiler::testing::{pinned_toolchain, shared_cache};
use gpu::accelerator::{Accelerator, Image, VirtualDevice};
use launch::Placed;
use vgpu::{Finding, Severity};

/// Workers and seeds of the runs of every file. Seed 0 is the default world.
const SAMPLE: [(usize, u64); 4] = [(1, 0), (2, 0), (2, 1), (1, 2)];

/// The kinds of findings that are about the whole launch and have no line.
const WITHOUT_LINE: [&str; 3] = ["unwritten-output", "idle-blocks", "not-resident"];

fn files() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").canonicalize().unwrap();
    let list = |folder| std::fs::read_dir(corpus.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = list("kernels").chain(list("bugs")).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "cu"));
    files.sort();
    files
}

/// A mark of a file with a bug: the number of its expectation (`None` if the finding is only allowed), kind and line.
struct Mark {
    group: Option<u32>,
    kind: String,
    line: u32,
}

fn marks(text: &str) -> Vec<Mark> {
    let (mut marks, mut group) = (Vec::new(), 0);
    for (line, text) in (1..).zip(text.lines()) {
        for comment in text.split("//~").skip(1) {
            let allowed = comment.starts_with('?');
            group += u32::from(!allowed && !comment.starts_with('|'));
            let kind = comment.trim_start_matches(['|', '?']).split_whitespace().next().unwrap().to_owned();
            marks.push(Mark { group: (!allowed).then_some(group), kind, line });
        }
    }
    marks
}

fn matches(finding: &Finding, mark: &Mark, name: &str) -> bool {
    finding.kind.name() == mark.kind
        && (WITHOUT_LINE.contains(&mark.kind.as_str())
            || finding.place.frames.iter().any(|f| f.line == mark.line && f.file.ends_with(name)))
}

/// What is wrong with the findings of a run.
fn complaints(findings: &[Finding], marks: &[Mark], name: &str) -> Vec<String> {
    let found: Vec<&Finding> = findings.iter().filter(|f| f.severity != Severity::Note).collect();
    let mut complaints = Vec::new();
    let groups = marks.iter().filter_map(|mark| mark.group).max().unwrap_or(0);
    for group in 1..=groups {
        let mut of_group = marks.iter().filter(|mark| mark.group == Some(group));
        if !of_group.any(|mark| found.iter().any(|finding| matches(finding, mark, name))) {
            complaints.push(format!("expectation {group} is not met"));
        }
    }
    // A warning does not fail a run, so a correct kernel may have one.
    for finding in found.into_iter().filter(|f| f.severity == Severity::Error) {
        if !marks.iter().any(|mark| matches(finding, mark, name)) {
            complaints.push(format!("not expected: {} {}", finding.kind, finding.message));
        }
    }
    complaints
}

/// The compilers of the ordinary kernels and of the files with bugs. `corpus.rs` of the program's tests runs every ordinary
/// kernel with builds from the same cache; of the files with bugs it runs a sample.
struct Compilers {
    of_kernels: Compiler,
    of_bugs: Compiler,
}

fn judge(path: &Path, compilers: &Compilers, runs: &[(usize, u64)]) -> Vec<String> {
    let is_bug = path.parent().is_some_and(|folder| folder.ends_with("bugs"));
    let compiler = if is_bug { &compilers.of_bugs } else { &compilers.of_kernels };
    let file = AnnotatedFile::new(path, compiler);
    let name = &file.name;
    let kernel = file.kernel.as_deref().unwrap();
    let marks = marks(&file.text);
    let mut found = Vec::new();
    if is_bug && !name.ends_with("_fixed.cu") && marks.iter().all(|mark| mark.group.is_none()) {
        found.push(format!("{name} has no mark"));
    }
    for &(workers, seed) in runs {
        let mut device = VirtualDevice::new(Chip::by_name("h200").unwrap());
        device.set_world(seed);
        device.options.threads = workers;
        device.options.budget = 20_000_000;
        let module =
            device.load(Image::Ptx(&file.build.ptx)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let placed = Placed::on(&mut device, &file.arguments).unwrap();
        device.set_outputs(&placed.outputs());
        device.set_kept(&placed.others());
        let of_bytes = placed.buffers.iter().filter(|it| it.dtype.bytes() == 1);
        device.options.of_bytes = of_bytes.map(|it| vgpu::Buffer(it.buffer.address)).collect();
        let report = device.run(module, kernel, file.geometry, &placed.parameters).unwrap();
        let wrong = complaints(&report.findings, &marks, name);
        found.extend(wrong.iter().map(|text| format!("{name}, {workers} workers, seed {seed}: {text}")));
    }
    found
}

#[test]
fn verdicts_depend_neither_on_workers_nor_on_seeds() {
    let wanted = std::env::var("VERDICTS").ok();
    let ten: Vec<(usize, u64)> = (0..10).flat_map(|seed| [(1, seed), (2, seed)]).collect();
    let runs = if wanted.is_some() { &ten[..] } else { &SAMPLE[..] };
    let mut files = files();
    files.retain(|file| file.to_string_lossy().contains(wanted.as_deref().unwrap_or_default()));
    assert!(wanted.is_some() || files.len() >= 400, "the corpus has only {} files", files.len());
    let target_tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compiler = || Compiler::new(pinned_toolchain(target_tmp), &shared_cache(target_tmp)).unwrap();
    let compilers = Compilers { of_kernels: compiler(), of_bugs: compiler().without_machine_code() };
    complain_each(&files, |file| judge(file, &compilers, runs));
}
