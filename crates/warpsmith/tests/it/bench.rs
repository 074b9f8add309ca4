//! Tests of `bench` on the virtual GPU: a candidate that fails does not affect the others, and a killed run resumes
//! without repeating finished work.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Run, run, skipped, warpsmith};
use crate::failing_families::drill;
use serde_json::Value;

const PROBLEM: &str = "b1h1s16d64-fp16";

fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = warpsmith();
    command.args(["bench", "--device", "virtual:l4", "--problem", PROBLEM]);
    command.arg("--kernels").arg(folder).arg("--run-dir").arg(folder.join("run")).args(arguments);
    command.current_dir(folder);
    command
}

fn events(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("run/events.jsonl")).unwrap_or_default();
    // The last line may be incomplete.
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of_kind<'e>(events: &'e [Value], kind: &str, subject: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["kind"] == kind && event["of"]["subject"] == subject).collect()
}

/// Waits until a condition is true, for at most two minutes.
fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < Duration::from_mins(2), "timeout while waiting for {what}");
        sleep(Duration::from_millis(20));
    }
}

/// The processes whose command line contains all these words.
fn processes(words: &[&str]) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse() else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if words.iter().all(|word| line.contains(word)) {
            found.push(id);
        }
    }
    found
}

fn kill(id: u32) {
    assert!(Command::new("kill").args(["-9", &id.to_string()]).status().unwrap().success());
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_failing_candidate_does_not_affect_others() {
    let folder = tempfile::tempdir().unwrap();
    drill(folder.path());
    let outcome: Run = run(&mut bench(
        folder.path(),
        &["hangs", "strays", "traps", "nan", "huge", "broken", "good", "--limit", "4"],
    ));
    assert_eq!(outcome.code, 1, "{outcome}");
    let events = events(folder.path());
    for (subject, failure, words) in [
        ("hangs default", "hang", ""),
        ("strays default", "illegal-access", "out-of-bounds"),
        ("traps default", "crash", ""),
        ("nan default", "wrong-answer", "finite"),
        ("huge default", "too-large", "bytes of shared memory per block"),
        ("broken default", "does-not-compile", "does not compile"),
    ] {
        let failed = of_kind(&events, "candidate-failed", subject);
        assert_eq!(failed.len(), 1, "{subject}\n{outcome}");
        assert_eq!(failed[0]["failure"], failure, "{}", failed[0]);
        assert!(failed[0]["reason"].as_str().unwrap().contains(words), "{}", failed[0]);
        assert!(of_kind(&events, "modelled", subject).is_empty());
        assert!(outcome.stdout.contains(subject), "{outcome}");
    }
    assert_eq!(of_kind(&events, "modelled", "good default").len(), 1, "{outcome}");
    assert!(outcome.stdout.contains("modelled, not measured (virtual:l4)"), "{outcome}");
    assert!(!outcome.stdout.contains("pytorch"), "{outcome}");
    assert_eq!(events.last().unwrap()["kind"], "run-finished");
    assert_eq!(events.last().unwrap()["outcome"], "finding");
    for file in ["manifest.yaml", "bench.json", "bench.csv", "summary.md"] {
        assert!(folder.path().join("run").join(file).is_file(), "{file}");
    }
    assert!(!folder.path().join("run/work").exists());
}

#[test]
fn an_unsupported_family_and_a_baseline_that_cannot_run_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["bench", "profile"] {
        let mut command_line = warpsmith();
        command_line.current_dir(folder.path());
        let outcome =
            run(command_line.args([command, "hopper", "--problem", "mission", "--device", "virtual:l4"]));
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains("sm_89"), "{outcome}");
        assert!(!folder.path().join("warpsmith-runs").exists(), "nothing was started");
    }
    let mut command_line = warpsmith();
    command_line.current_dir(folder.path()).args(["bench", "mma", "--preset", "small"]);
    let arguments = ["--problem", "b1h1s64d64-fp16", "--device", "virtual:l4", "--baseline", "cudnn"];
    let outcome = run(command_line.args(arguments));
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stderr.contains("cudnn cannot be timed on the virtual GPU"), "{outcome}");
}

#[test]
fn a_source_cannot_include_files_outside_its_family() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drill(folder.path());
    let private = elsewhere.path().join("private.h");
    fs::write(&private, "static_assert(false, \"the text of a private file\");\n").unwrap();
    let source = folder.path().join("attention/good/kernel.cu");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, format!("#include \"{}\"\n{text}", private.display())).unwrap();
    let reason = |sandbox: &str| {
        let _ = fs::remove_dir_all(folder.path().join("run"));
        let outcome = run(bench(folder.path(), &["good"]).env("WARPSMITH_SANDBOX", sandbox));
        assert_eq!(outcome.code, 1, "{outcome}");
        let events = events(folder.path());
        let failed = of_kind(&events, "candidate-failed", "good default");
        assert_eq!(failed[0]["failure"], "does-not-compile", "{outcome}");
        (failed[0]["reason"].as_str().unwrap().to_owned(), outcome)
    };
    let (reason_without, outcome) = reason("off");
    assert!(reason_without.contains("the text of a private file"), "{reason_without}");
    assert!(outcome.stderr.contains("incomplete sandbox: none: WARPSMITH_SANDBOX=off"), "{outcome}");
    let (reason_within, outcome) = reason("");
    if outcome.stderr.contains("no Landlock") {
        skipped("no Landlock");
        return;
    }
    assert!(!outcome.stderr.contains("incomplete sandbox"), "{outcome}");
    assert!(reason_within.contains("open source file"), "{reason_within}");
    assert!(!reason_within.contains("the text of"), "{reason_within}");
}

#[test]
fn a_killed_worker_fails_only_its_candidate() {
    let folder = tempfile::tempdir().unwrap();
    drill(folder.path());
    let mut parent = start(&mut bench(folder.path(), &["sleeps", "good", "--limit", "100"]));
    let place = folder.path().to_str().unwrap().to_owned();
    let worker = || processes(&["worker", "sleeps default", &place]);
    wait_until("the worker", || !worker().is_empty());
    wait_until("its build", || !of_kind(&events(folder.path()), "built", "sleeps default").is_empty());
    let status = fs::read_to_string(format!("/proc/{}/status", worker()[0])).unwrap();
    assert!(status.contains("Seccomp:\t2\n") && status.contains("NoNewPrivs:\t1\n"), "{status}");
    kill(worker()[0]);
    assert_eq!(parent.wait().unwrap().code(), Some(1));
    let events = events(folder.path());
    let failed = of_kind(&events, "candidate-failed", "sleeps default");
    assert_eq!(failed[0]["failure"], "crash");
    assert!(failed[0]["reason"].as_str().unwrap().contains("SIGKILL"), "{}", failed[0]);
    assert_eq!(of_kind(&events, "modelled", "good default").len(), 1);
}

#[test]
fn a_killed_run_resumes_without_repeating_finished_work() {
    let folder = tempfile::tempdir().unwrap();
    drill(folder.path());
    let mut parent = start(&mut bench(folder.path(), &["good", "sleeps", "nan", "--limit", "4"]));
    // A stage counts as done when its end is in the log; otherwise it is repeated.
    let is_end =
        |event: &Value| event["kind"] == "stage-finished" && event["key"]["subject"] == "good default";
    wait_until("the end of the first subject", || events(folder.path()).iter().any(is_end));
    parent.kill().unwrap();
    parent.wait().unwrap();
    // All workers end, even the one whose kernel never ends.
    let place = folder.path().to_str().unwrap().to_owned();
    wait_until("the end of the workers", || processes(&["worker", &place]).is_empty());
    assert!(!events(folder.path()).iter().any(|event| event["kind"] == "run-finished"));

    let again = || {
        let mut command = warpsmith();
        command.args(["bench", "--resume", "--run-dir"]).arg(folder.path().join("run"));
        run(command.arg("--kernels").arg(folder.path()))
    };
    let outcome = again();
    assert_eq!(outcome.code, 1, "{outcome}");
    let events = events(folder.path());
    for (kind, subject) in [
        ("built", "good default"),
        ("modelled", "good default"),
        ("candidate-failed", "sleeps default"),
        ("candidate-failed", "nan default"),
    ] {
        assert_eq!(of_kind(&events, kind, subject).len(), 1, "{kind} {subject}\n{outcome}");
    }
    assert!(outcome.stdout.contains("good default"), "{outcome}");
    let outcome = again();
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("is finished"), "{outcome}");
}

#[test]
fn an_interrupted_run_ends_cleanly_and_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    drill(folder.path());
    let mut parent = start(&mut bench(folder.path(), &["good", "sleeps", "--limit", "100"]));
    wait_until("the first time", || !of_kind(&events(folder.path()), "modelled", "good default").is_empty());
    let id = parent.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(parent.wait().unwrap().code(), Some(4));
    let place = folder.path().to_str().unwrap().to_owned();
    assert_eq!(processes(&["worker", &place]), Vec::<u32>::new());
    let events = events(folder.path());
    assert_eq!(events.last().unwrap()["outcome"], "incomplete");
    let listed = run(warpsmith().args(["runs", "--run-dir"]).arg(folder.path().join("run")));
    assert!(listed.stdout.contains("incomplete"), "{listed}");
}

#[test]
fn correct_kernels_have_modelled_times_and_runs_lists_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = warpsmith();
    command.args([
        "bench",
        "wmma",
        "--preset",
        "stage-2",
        "--preset",
        "stage-5-p2",
        "--problem",
        "b1h2s40d64-e4m3",
    ]);
    command.args(["--device", "virtual:h200", "--run-dir"]).arg(folder.path().join("run"));
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{outcome}");
    for words in ["wmma stage-2", "wmma stage-5-p2", "us (modelled)", "limited by"] {
        assert!(outcome.stdout.contains(words), "no `{words}` in {outcome}");
    }
    let listed = run(warpsmith().args(["runs", "--run-dir"]).arg(folder.path()));
    assert!(listed.stdout.contains("2 modelled times"), "{listed}");
    let again = run(&mut command);
    assert_eq!(again.code, 2, "{again}");
    assert!(again.stderr.contains("already holds a run") && again.stderr.contains("--resume"), "{again}");
}

#[test]
fn usage_errors_are_reported_before_anything_is_compiled() {
    for (arguments, words) in [
        (&["bench", "--baseline", "tensorrt"][..], "there is no baseline `tensorrt`"),
        (&["bench", "wmma", "--preset", "stage-9"], "there is no preset `stage-9` in family wmma"),
        (&["bench", "wmma", "--set", "BLOCK_N=48"], "wmma: BLOCK_N cannot be 48"),
        (&["bench", "--suite", "headlin"], "there is no suite `headlin`"),
        (&["bench", "--seconds", "0"], "expected a number of seconds"),
        (&["bench", "--processes", "0"], "expected a number of processes, at least 1"),
        (&["bench", "--resume", "--run-dir", "/nowhere/at/all"], "holds no run"),
        (&["bench", "--resume"], "--run-dir"),
    ] {
        let outcome = run(warpsmith().args(["--device", "virtual:l4"]).args(arguments));
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(words), "no `{words}` in {outcome}");
    }
}
