//! Tests of the corpus through the program: a kernel with a bug gives the expected finding at the marked line; a fixed twin
//! gives no finding; every ordinary kernel gives no finding and the same result as the CPU. `verdicts.rs` of
//! `crates/sanitize` judges the findings of all files, so this tests a sample of the files with bugs.

#[allow(clippy::all, clippy::pedantic)] // Formulas are written as in the literature.
#[path = "../../../../corpus/reference.rs"]
mod reference;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use launch::{Argument, Dtype};
use reference::{Arg, Values};
use serde_json::Value;

use crate::common::{run, warpsmith};

/// The CUDA files of a folder of the corpus.
fn corpus(folder: &str) -> Vec<PathBuf> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(folder).canonicalize().unwrap();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "cu"));
    files.sort();
    assert!(files.len() >= 100, "{} has only {} files", path.display(), files.len());
    files
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Sanitizes the files on all cores, calls `judge` with each result, and fails with all complaints. `flags`: more
/// flags of `sanitize`. Only files without large buffers may be printed: some have several gigabytes.
fn judge_each(files: &[PathBuf], flags: &[&str], judge: impl Fn(&Path, &Value) -> Vec<String> + Sync) {
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = sanitize(file, flags, &judge);
                    complaints
                        .lock()
                        .unwrap()
                        .extend(found.into_iter().map(|text| format!("{}: {text}", stem(file))));
                }
            });
        }
    });
    let mut complaints = complaints.into_inner().unwrap();
    complaints.sort();
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

fn sanitize(file: &Path, flags: &[&str], judge: &impl Fn(&Path, &Value) -> Vec<String>) -> Vec<String> {
    let mut command = warpsmith();
    // One thread each: the files run in parallel.
    command.args(["sanitize", "--json", "--jobs", "1", "--budget", "20000000"]).args(flags).arg(file);
    let outcome = run(&mut command);
    match serde_json::from_str::<Value>(&outcome.stdout) {
        Ok(document) if document["schema"] == "warpsmith.sanitize/1" => {
            let clean = document["clean"] == true;
            let mut complaints = judge(file, &document);
            if outcome.code != i32::from(!clean) {
                complaints.push(format!("exit code {} for clean = {clean}", outcome.code));
            }
            complaints
        }
        _ => vec![format!("exit code {}: {}", outcome.code, outcome.stderr)],
    }
}

/// The findings that are not notes.
fn findings(document: &Value) -> Vec<&Value> {
    document["findings"].as_array().unwrap().iter().filter(|finding| finding["severity"] != "note").collect()
}

fn brief(finding: &Value) -> String {
    let frame = &finding["place"]["frames"][0];
    format!("{} at line {}: {}", finding["kind"], frame["line"], finding["message"])
}

/// A complaint for every error of a kernel that must have none. It may have warnings, which do not fail a run.
fn require_no_findings(document: &Value) -> Vec<String> {
    findings(document)
        .iter()
        .filter(|finding| finding["severity"] == "error")
        .map(|finding| format!("false positive: {}", brief(finding)))
        .collect()
}

// ---- Bugs ----

/// A mark in a file with a bug: `//~ KIND`.
struct Mark {
    kind: String,
    line: u64,
}

/// The findings that a file's marks expect. Of each group in `required` one must be reported; `allowed` may be
/// reported.
#[derive(Default)]
struct Expected {
    required: Vec<Vec<Mark>>,
    allowed: Vec<Mark>,
}

fn expected(text: &str) -> Expected {
    let mut expected = Expected::default();
    for (index, line) in text.lines().enumerate() {
        for comment in line.split("//~").skip(1) {
            let (how, rest) = match comment.chars().next() {
                Some(c @ ('|' | '?')) => (c, &comment[1..]),
                _ => (' ', comment),
            };
            for kind in rest.split_whitespace().take(1) {
                let mark = Mark { kind: kind.to_owned(), line: index as u64 + 1 };
                match how {
                    '?' => expected.allowed.push(mark),
                    '|' => expected.required.last_mut().expect("an alternative follows a mark").push(mark),
                    _ => expected.required.push(vec![mark]),
                }
            }
        }
    }
    expected
}

/// The kinds of findings that are about the whole launch and have no line.
const WITHOUT_LINE: [&str; 3] = ["unwritten-output", "idle-blocks", "not-resident"];

fn matches(finding: &Value, mark: &Mark, file: &Path) -> bool {
    if finding["kind"] != mark.kind.as_str() {
        return false;
    }
    if WITHOUT_LINE.contains(&mark.kind.as_str()) {
        return true;
    }
    let name = file.file_name().unwrap().to_string_lossy();
    let at = |frame: &Value| {
        frame["line"] == mark.line && frame["file"].as_str().is_some_and(|file| file.ends_with(&*name))
    };
    finding["place"]["frames"].as_array().is_some_and(|frames| frames.iter().any(at))
}

/// The distance of the files with bugs that the program judges.
const SAMPLE: usize = 8;

/// Some of the files with a bug, or of their fixed twins.
fn sample_of_bugs(fixed: bool) -> Vec<PathBuf> {
    let files = corpus("bugs").into_iter().filter(|file| stem(file).ends_with("_fixed") == fixed);
    files.step_by(SAMPLE).collect()
}

#[test]
fn a_bug_is_reported_at_its_line_and_nothing_else() {
    let files = sample_of_bugs(false);
    judge_each(&files, &[], |file, document| {
        let expected = expected(&std::fs::read_to_string(file).unwrap());
        assert!(!expected.required.is_empty(), "{} has no mark", file.display());
        let found = findings(document);
        let mut complaints = Vec::new();
        for group in &expected.required {
            if !found.iter().any(|finding| group.iter().any(|mark| matches(finding, mark, file))) {
                let marks: Vec<String> =
                    group.iter().map(|mark| format!("{} at {}", mark.kind, mark.line)).collect();
                let got: Vec<String> = found.iter().map(|finding| brief(finding)).collect();
                complaints.push(format!("missed {}; got {got:?}", marks.join(" or ")));
            }
        }
        let all = || expected.required.iter().flatten().chain(&expected.allowed);
        for finding in found.into_iter().filter(|finding| finding["severity"] == "error") {
            if !all().any(|mark| matches(finding, mark, file)) {
                complaints.push(format!("not marked: {}", brief(finding)));
            }
        }
        complaints
    });
}

#[test]
fn a_fixed_twin_has_no_finding() {
    judge_each(&sample_of_bugs(true), &[], |_, document| require_no_findings(document));
}

// ---- Ordinary kernels ----

/// The arguments in the file's header, as the CPU reference expects them.
fn arguments(text: &str) -> Vec<Arg> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("// warpsmith:"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let specifications = words.windows(2).filter(|pair| pair[0] == "--arg").map(|pair| pair[1]);
    let arguments = specifications.map(|text| text.parse::<Argument>().unwrap());
    arguments
        .map(|argument| {
            let contents = argument.contents();
            let (dtype, dims) = match (&argument.role, argument.buffer()) {
                (_, Some((dtype, dims))) => (dtype, dims.to_vec()),
                (launch::Role::Scalar { dtype, .. }, None) => (*dtype, Vec::new()),
                _ => (Dtype::U8, vec![contents.as_ref().map_or(0, Vec::len)]),
            };
            let values = values(dtype, &contents.unwrap_or_default());
            Arg { name: argument.name.unwrap_or_default(), dims, values }
        })
        .collect()
}

fn values(dtype: Dtype, bytes: &[u8]) -> Values {
    if dtype.is_float() { Values::Float(dtype.floats(bytes)) } else { Values::Int(dtype.integers(bytes)) }
}

/// An output of the launch, as the CPU reference compares it.
fn result(document: &Value, name: &str) -> Option<Values> {
    if name == "stdout" {
        return Some(Values::Text(document["printed"].as_str()?.lines().map(str::to_owned).collect()));
    }
    let buffer = document["buffers"].as_array()?.iter().find(|buffer| buffer["name"] == name)?;
    let dtype: Dtype = buffer["dtype"].as_str()?.parse().ok()?;
    let values = buffer["values"].as_array()?;
    if dtype.is_float() {
        // NaN and infinities are written as strings.
        let float = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
        return values.iter().map(float).collect::<Option<_>>().map(Values::Float);
    }
    let integer = |value: &Value| value.as_i64().or_else(|| Some(value.as_u64()?.cast_signed()));
    values.iter().map(integer).collect::<Option<_>>().map(Values::Int)
}

#[test]
fn every_ordinary_kernel_is_correct_and_has_no_finding() {
    judge_each(&corpus("kernels"), &["--print", "all"], |file, document| {
        let mut complaints = require_no_findings(document);
        let text = std::fs::read_to_string(file).unwrap();
        let Some(expected) = reference::reference(&stem(file), &arguments(&text)) else {
            complaints.push("has no CPU reference".to_owned());
            return complaints;
        };
        assert!(!expected.is_empty(), "{} compares nothing", file.display());
        for output in expected {
            match result(document, output.name) {
                None => complaints.push(format!("the launch has no output {}", output.name)),
                Some(got) => complaints.extend(output.check(&got).err()),
            }
        }
        complaints
    });
}
