//! The part of the corpus that needs a Hopper GPU, on the virtual one, without the command line in between.
//! `crates/warpsmith/tests/it/corpus.rs` runs the whole of it through `warpsmith sanitize`.

#![allow(clippy::unwrap_used)] // A test that cannot set itself up fails, which is what unwrap does.

#[allow(clippy::all, clippy::pedantic, dead_code)] // Formulas written the way the literature has them.
#[path = "../../../corpus/reference.rs"]
mod reference;

use std::path::{Path, PathBuf};

use chips::{Chip, Target};
use compiler::testing::{pinned_toolchain, shared_cache};
use compiler::{Compiler, Request, Source, standard_headers};
use gpu::accelerator::{Accelerator, Geometry, Image, VirtualDevice};
use launch::{Argument, Dtype, Extent, Placed, Role};
use reference::{Arg, Values};
use vgpu::{Finding, LaunchReport, Severity};

/// Flags of a file's `// warpsmith:` lines.
struct Header {
    kernel: String,
    geometry: Geometry,
    arguments: Vec<Argument>,
}

fn header(text: &str) -> Option<Header> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("// warpsmith:"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let flag = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
    (flag("--arch")? == "sm_90a").then(|| Header {
        kernel: flag("--kernel").unwrap().to_owned(),
        geometry: Geometry {
            grid: flag("--grid").unwrap().parse::<Extent>().unwrap().0,
            block: flag("--block").unwrap().parse::<Extent>().unwrap().0,
            cluster: flag("--cluster").map_or([1; 3], |extent| extent.parse::<Extent>().unwrap().0),
            shared_bytes: flag("--shared").unwrap().parse().unwrap(),
        },
        arguments: words
            .windows(2)
            .filter(|pair| pair[0] == "--arg")
            .map(|pair| pair[1].parse().unwrap_or_else(|error| panic!("{error}")))
            .collect(),
    })
}

/// Files of a folder of the corpus that are for sm_90a, with their text. `HOPPER` names a part of a name.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(folder);
    let wanted = std::env::var("HOPPER").unwrap_or_default();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "cu"));
    files.retain(|file| file.to_string_lossy().contains(&wanted));
    files.sort();
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap();
        header(&text).map(|_| (file, text))
    };
    files.into_iter().filter_map(read).collect()
}

fn run(file: &Path, text: &str) -> (LaunchReport, Placed, VirtualDevice) {
    let target_tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compiler = Compiler::new(pinned_toolchain(target_tmp), &shared_cache(target_tmp)).unwrap();
    let source = Source {
        name: file.file_name().unwrap().to_string_lossy().into_owned(),
        text: text.to_owned(),
        headers: standard_headers(),
        include_dirs: vec![file.parent().unwrap().to_owned()],
        ..Source::default()
    };
    let request = Request { source, target: Target::Sm90a, options: Vec::new() };
    let build = compiler.build(&request).unwrap_or_else(|error| panic!("{}: {error}", file.display())).build;
    let header = header(text).unwrap();
    let mut device = VirtualDevice::new(Chip::by_name("h200").unwrap());
    device.options.threads = 1;
    device.options.budget = 20_000_000;
    let module =
        device.load(Image::Ptx(&build.ptx)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let placed = Placed::on(&mut device, &header.arguments).unwrap();
    device.set_outputs(&placed.outputs());
    device.set_kept(&placed.others());
    let report = device.run(module, &header.kernel, header.geometry, &placed.parameters).unwrap();
    (report, placed, device)
}

fn findings(report: &LaunchReport) -> Vec<&Finding> {
    report.findings.iter().filter(|finding| finding.severity != Severity::Note).collect()
}

fn lines(finding: &Finding, name: &str) -> Vec<u32> {
    finding.place.frames.iter().filter(|frame| frame.file.ends_with(name)).map(|frame| frame.line).collect()
}

fn brief(finding: &Finding, name: &str) -> String {
    format!("{} at {:?}: {}", finding.kind, lines(finding, name), finding.message)
}

/// Marks of a bug file: how (' ', '|' or '?'), kind and line.
fn marks(text: &str) -> Vec<(char, String, u32)> {
    let mut marks = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        for comment in text.split("//~").skip(1) {
            let how = comment.chars().next().filter(|c| "|?".contains(*c)).unwrap_or(' ');
            let kind = comment.trim_start_matches(['|', '?']).split_whitespace().next().unwrap();
            marks.push((how, kind.to_owned(), line));
        }
    }
    marks
}

#[test]
fn every_hopper_bug_is_found_at_its_line_and_nothing_else_is() {
    let mut complaints = Vec::new();
    let files = files("bugs");
    for (file, text) in files.iter().filter(|(file, _)| !file.to_string_lossy().ends_with("_fixed.cu")) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let (report, _, _) = run(file, text);
        let found = findings(&report);
        let matches = |finding: &Finding, kind: &str, line: u32| {
            finding.kind.name() == kind
                && (lines(finding, &name).contains(&line) || kind == "unwritten-output")
        };
        let marks = marks(text);
        assert!(marks.iter().any(|mark| mark.0 == ' '), "{name} has no mark");
        let mut groups: Vec<Vec<&(char, String, u32)>> = Vec::new();
        for mark in marks.iter().filter(|mark| mark.0 != '?') {
            match mark.0 {
                '|' => groups.last_mut().unwrap().push(mark),
                _ => groups.push(vec![mark]),
            }
        }
        for group in groups {
            if !group.iter().any(|(_, kind, line)| found.iter().any(|f| matches(f, kind, *line))) {
                complaints.push(format!("{name}: missed {group:?}"));
            }
        }
        for finding in found {
            if std::env::var("HOPPER_SHOW").is_ok() {
                println!("{name}: {}", brief(finding, &name));
            }
            if !marks.iter().any(|(_, kind, line)| matches(finding, kind, *line)) {
                complaints.push(format!("{name}: not marked: {}", brief(finding, &name)));
            }
        }
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn every_fixed_hopper_twin_is_silent() {
    let mut complaints = Vec::new();
    for (file, text) in files("bugs").iter().filter(|(file, _)| file.to_string_lossy().ends_with("_fixed.cu"))
    {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let (report, _, _) = run(file, text);
        complaints
            .extend(findings(&report).iter().map(|f| format!("{name}: false alarm: {}", brief(f, &name))));
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

fn values(dtype: Dtype, bytes: &[u8]) -> Values {
    if dtype.is_float() { Values::Float(dtype.floats(bytes)) } else { Values::Int(dtype.integers(bytes)) }
}

#[test]
fn every_hopper_kernel_is_silent_and_right() {
    let mut complaints = Vec::new();
    for (file, text) in files("kernels") {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let (report, placed, mut device) = run(&file, &text);
        complaints
            .extend(findings(&report).iter().map(|f| format!("{name}: false alarm: {}", brief(f, &name))));
        let argument = |argument: Argument| {
            let contents = argument.contents();
            let (dtype, dims) = match (&argument.role, argument.buffer()) {
                (_, Some((dtype, dims))) => (dtype, dims.to_vec()),
                (Role::Scalar { dtype, .. }, None) => (*dtype, Vec::new()),
                _ => (Dtype::U8, vec![contents.as_ref().map_or(0, Vec::len)]),
            };
            let values = values(dtype, &contents.unwrap_or_default());
            Arg { name: argument.name.unwrap_or_default(), dims, values }
        };
        let arguments: Vec<Arg> = header(&text).unwrap().arguments.into_iter().map(argument).collect();
        let answer =
            reference::reference(&name, &arguments).unwrap_or_else(|| panic!("{name} has no CPU answer"));
        assert!(!answer.is_empty(), "{name} compares nothing");
        for output in answer {
            let placed = placed.buffers.iter().find(|placed| placed.name == output.name).unwrap();
            let got = values(placed.dtype, &device.read(placed.buffer).unwrap());
            complaints.extend(output.check(&got).err().map(|error| format!("{name}: {error}")));
        }
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}
