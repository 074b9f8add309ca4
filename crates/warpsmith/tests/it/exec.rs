//! Tests of `exec`: whole programs of `corpus/programs`, compiled with nvcc. Where nvcc's wheels cannot be installed, the
//! tests print `skipped:` and the reason.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use compiler::toolchain::nvcc;
use serde_json::Value;

use crate::common::{target_tmp, warpsmith};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/programs").canonicalize().unwrap()
}

/// A program of the corpus, compiled once for all tests. `None` without nvcc or a compiler of host code.
fn program(name: &str) -> Option<PathBuf> {
    let folder = target_tmp().join("programs");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let (source, program) = (corpus().join(format!("{name}.cu")), folder.join(name));
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if modified(&program) > modified(&source) {
        return Some(program);
    }
    let installed = nvcc::install(&target_tmp().join("shared-toolchain"), &mut |_| ());
    let nvcc = installed.map_err(|error| eprintln!("skipped: nvcc cannot be installed: {error}")).ok()?;
    if Command::new("g++").arg("--version").output().is_err() {
        eprintln!("skipped: there is no g++");
        return None;
    }
    let built = Command::new(nvcc.program)
        .args(["-cudart", "shared", "-lineinfo", "-g", "-gencode", "arch=compute_80,code=compute_80", "-o"])
        .args([&program, &source])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

/// Whether the libraries are built. cargo builds them for the tests of their own packages.
fn libraries_exist() -> bool {
    static EXIST: OnceLock<bool> = OnceLock::new();
    *EXIST.get_or_init(|| {
        let beside = Path::new(env!("CARGO_BIN_EXE_warpsmith")).parent().unwrap();
        let exists = |name: &str| beside.join(name).is_file() || beside.join("deps").join(name).is_file();
        let all = [execlog::libraries::DRIVER, execlog::libraries::RUNTIME].into_iter().all(exists);
        if !all {
            eprintln!("skipped: the libraries are not built; `cargo test --workspace` builds them");
        }
        all
    })
}

fn exec(options: &[&str], program: &Path, arguments: &[&str]) -> Output {
    let mut command = warpsmith();
    command.arg("exec").args(options).arg(program).args(arguments).output().unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let text = String::from_utf8_lossy(&output.stdout);
        panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// The marks of `planted.cu`: function, line, kind, and whether the line is that of the launch.
fn marks(text: &str) -> Vec<(String, u64, String, bool)> {
    let mut function = String::new();
    let mut marks = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(rest) = line.strip_prefix("static void ") {
            rest.split('(').next().unwrap().clone_into(&mut function);
        }
        for (mark, is_launch) in [("// finding: ", false), ("// launch of: ", true)] {
            if let Some((_, kind)) = line.split_once(mark) {
                marks.push((function.clone(), number, kind.trim().to_owned(), is_launch));
            }
        }
    }
    marks
}

/// Whether a place is at a line of `planted.cu`. The innermost frame of a launch is the host function that nvcc makes of
/// the kernel, at the kernel's line.
fn is_at(place: &Value, line: u64) -> bool {
    let is_line = |frame: &Value| {
        frame["line"] == line && frame["file"].as_str().is_some_and(|file| file.ends_with("planted.cu"))
    };
    place["frames"].as_array().is_some_and(|frames| frames.iter().take(2).any(is_line))
}

#[test]
fn planted_bugs_are_found_at_their_lines_and_their_twins_are_silent() {
    let Some(program) = program("planted").filter(|_| libraries_exist()) else { return };
    let marks = marks(&fs::read_to_string(corpus().join("planted.cu")).unwrap());
    assert!(marks.len() >= 16, "{marks:?}");
    for (name, line, kind, is_launch) in marks {
        let found = document(&exec(&["--json"], &program, &[&name]));
        let host = found["host_findings"].as_array().unwrap().iter();
        let kernels = found["findings"].as_array().unwrap().iter();
        let is_it = |it: &Value| {
            let is_there = if is_launch {
                it["related"].as_array().unwrap().iter().any(|related| is_at(&related["place"], line))
            } else {
                is_at(&it["place"], line)
            };
            it["kind"] == kind.as_str() && is_there
        };
        assert!(host.chain(kernels).any(is_it), "{name}: no {kind} at line {line}: {found:#}");

        let fixed = exec(&["--json", "--strict"], &program, &[&name, "fixed"]);
        let silent = document(&fixed);
        assert_eq!(silent["clean"], true, "{name} fixed: {silent:#}");
        assert_eq!(fixed.status.code(), Some(0), "{name} fixed");
        assert_eq!(silent["missing_functions"], serde_json::json!([]), "{name}");
    }
}

#[test]
fn ordinary_programs_get_the_right_answers_without_a_finding() {
    let Some(program) = program("ordinary").filter(|_| libraries_exist()) else { return };
    let output = exec(&["--strict"], &program, &[]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    assert_eq!(stdout.lines().filter(|line| line.ends_with(": right")).count(), 10, "{stdout}");
    assert!(stderr.contains("on virtual:") && stderr.contains("clean"), "{stderr}");
    // No warning of the dynamic linker about versions.
    assert!(!stderr.contains("version information"), "{stderr}");
}

/// The lines of a block of a page of the book, after a mark.
fn block<'a>(page: &'a str, mark: &str) -> Vec<&'a str> {
    let after = page.split_once(mark).unwrap().1;
    after
        .lines()
        .skip_while(|line| !line.starts_with("```"))
        .skip(1)
        .take_while(|line| *line != "```")
        .collect()
}

#[test]
fn the_ci_job_of_the_book_runs_as_printed() {
    let Some(_) = program("planted").filter(|_| libraries_exist()) else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/how-to/whole-programs.md");
    let page = fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("sum.cu"), block(&page, "<!-- file: sum.cu -->").join("\n")).unwrap();
    let job = block(&page, "## A CI job");
    let step = job.iter().find_map(|line| line.trim().strip_prefix("- run: warpsmith ")).unwrap();
    let toolkit = nvcc::install(&target_tmp().join("shared-toolchain"), &mut |_| ()).unwrap();
    let mut command = warpsmith();
    command.env("WARPSMITH_CUDA", toolkit.program.parent().unwrap().parent().unwrap());
    let output = command.current_dir(folder.path()).args(step.split(' ')).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("::error file=sum.cu,line=21"), "{text}");
    let sarif: Value =
        serde_json::from_slice(&fs::read(folder.path().join("findings.sarif")).unwrap()).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let rules: Vec<&str> = results.iter().map(|it| it["ruleId"].as_str().unwrap()).collect();
    assert!(rules.contains(&"use-after-free") && rules.contains(&"leak"), "{rules:?}");
}

#[test]
fn a_failed_assertion_is_a_finding_and_the_error_of_cuda() {
    let Some(program) = program("ordinary").filter(|_| libraries_exist()) else { return };
    let output = exec(&["--json"], &program, &["failed_assertions"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("failed_assertions: right"), "{stderr}");
    let found = document(&output);
    assert_eq!(found["code"], 0);
    assert_eq!(found["findings"][0]["kind"], "trap", "{found:#}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_cuda_file_is_compiled_and_the_codes_of_programs_are_kept() {
    let Some(_) = program("planted").filter(|_| libraries_exist()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("code.cu");
    fs::write(&source, "#include <cstdlib>\nint main(int n, char** w) { return n > 1 ? atoi(w[1]) : 0; }\n")
        .unwrap();
    let toolkit = nvcc::install(&target_tmp().join("shared-toolchain"), &mut |_| ()).unwrap();
    let mut command = warpsmith();
    command.env("WARPSMITH_CUDA", toolkit.program.parent().unwrap().parent().unwrap());
    let output = command.arg("exec").arg(&source).arg("7").output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn wrong_programs_and_missing_libraries_are_explained() {
    let mut command = warpsmith();
    let empty = tempfile::tempdir().unwrap();
    command.env("WARPSMITH_EXEC_LIBRARIES", empty.path());
    let output = command.args(["exec", "/bin/true"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("cargo build") && stderr.contains("WARPSMITH_EXEC_LIBRARIES"), "{stderr}");
    if !libraries_exist() {
        return;
    }
    let output = exec(&[], Path::new("./no-such-program"), &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no-such-program"), "{stderr}");
    let output = exec(&[], Path::new("missing.cu"), &[]);
    assert_eq!(output.status.code(), Some(2));
}
