//! Tests that need a GPU: they run the program as a user does.
//!
//! ```text
//! cargo test --release -p warpsmith --test gpu
//! cargo test --release -p warpsmith --test gpu -- counts
//! ```
//!
//! Without a GPU it prints `skipped: no GPU`. To run it on a machine without cargo, copy this program and `warpsmith`
//! there, start this program in a copy of the repository, and set `WARPSMITH_BINARY` to the path of `warpsmith`.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

#[path = "../it/failing_families.rs"]
mod failing_families;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use gpu::accelerator::{Accelerator, CudaDevice};
use serde_json::Value;

/// A test and its name.
type Test = (&'static str, fn(&Path));

const TESTS: [Test; 9] = [
    ("presets_of_hopper_are_correct", |folder| check(folder, 2000, &["hopper"])),
    ("presets_of_hopper_decode_are_correct", |folder| check(folder, 1000, &["hopper-decode"])),
    ("presets_of_mma_are_correct", |folder| check(folder, 1000, &["mma"])),
    ("presets_of_wmma_are_correct", |folder| check(folder, 100, &["wmma"])),
    ("presets_of_reference_are_correct", |folder| check(folder, 100, &["reference"])),
    ("suites_are_correct_at_full_size", suites_are_correct_at_full_size),
    ("a_fault_does_not_affect_the_next_kernel", a_fault_does_not_affect_the_next_kernel),
    ("a_failing_candidate_does_not_affect_others", a_failing_candidate_does_not_affect_others),
    ("counts_of_shared_memory_match_ncu", counts_of_shared_memory_match_ncu),
];

fn main() -> ExitCode {
    // Words that start with `-` are options of the standard test harness, which this program does not use.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    match CudaDevice::open(0) {
        // The device is closed at once, so that the tests' processes have the GPU to themselves.
        Ok(device) => println!("on {}", device.describe()),
        Err(error) => {
            println!("skipped: no GPU ({error})");
            return ExitCode::SUCCESS;
        }
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let tests: Vec<Test> = TESTS.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    if tests.is_empty() {
        eprintln!("error: no test has this name; tests: {}", TESTS.map(|(name, _)| name).join(", "));
        return ExitCode::from(2);
    }
    let mut failed = 0;
    for (name, test) in tests {
        let folder = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let passed = std::panic::catch_unwind(|| test(folder.path())).is_ok();
        failed += usize::from(!passed);
        let verdict = if passed { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({:.0} s)", started.elapsed().as_secs_f64());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the program in the test's folder. Returns its exit code and the JSON that it printed.
fn warpsmith(folder: &Path, arguments: &[&str]) -> (i32, Value) {
    let program = std::env::var_os("WARPSMITH_BINARY").unwrap_or(env!("CARGO_BIN_EXE_warpsmith").into());
    let program = std::path::absolute(program).unwrap();
    let output = Command::new(program).args(arguments).arg("--json").current_dir(folder).output().unwrap();
    let code = output.status.code().unwrap_or(-1);
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        panic!("{arguments:?} ended with exit code {code} and printed no JSON: {error}\n{stderr}")
    });
    (code, document)
}

fn items<'v>(document: &'v Value, field: &str) -> &'v [Value] {
    document[field].as_array().unwrap_or_else(|| panic!("no list of {field} in {document}"))
}

/// Runs `check` on the GPU and asserts that every case passed and that there were at least `at_least` cases. With only a
/// family, it checks every preset on edge-case shapes with every class of inputs and on every named problem.
fn check(folder: &Path, at_least: usize, arguments: &[&str]) {
    let (code, document) = warpsmith(folder, &[&["check", "--device", "cuda"], arguments].concat());
    let cases = items(&document, "cases");
    let wrong: Vec<&Value> = cases.iter().filter(|case| case["outcome"] != "passed").collect();
    assert!(
        wrong.is_empty() && code == 0,
        "exit code {code}, {} of {}: {wrong:#?}",
        wrong.len(),
        cases.len()
    );
    assert!(cases.len() >= at_least, "only {} cases", cases.len());
    let seconds = |value: &Value| value["seconds"].as_f64().unwrap_or_default();
    let slowest = cases.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap();
    println!(
        "    {}: {} passed in {:.0} s; slowest: {} {}, {:.1} s",
        arguments.join(" "),
        cases.len(),
        seconds(&document),
        slowest["kernel"],
        slowest["problem"],
        seconds(slowest)
    );
}

/// Checks the suites at full size, with every preset that supports them.
fn suites_are_correct_at_full_size(folder: &Path) {
    for (suite, at_least) in [("headline", 18), ("v3", 30), ("canonical", 16), ("paper", 84)] {
        check(folder, at_least, &["mma", "--suite", suite]);
    }
    let fp8 = ["mission", "small", "long", "wide", "stress", "v3_medium_causal", "v3_large_causal"];
    let named: Vec<String> = fp8.iter().map(|name| format!("{name}-e4m3")).collect();
    let problems = named.iter().flat_map(|name| ["--problem", name]);
    check(folder, 14, &["mma"].into_iter().chain(problems).collect::<Vec<_>>());
}

/// A kernel that breaks its device does not affect the next kernel.
fn a_fault_does_not_affect_the_next_kernel(folder: &Path) {
    failing_families::drill(folder);
    let ask = ["check", "strays", "good", "hangs", "traps", "--kernels", ".", "--problem", "b1h1s16d64-fp16"];
    let options = ["--device", "cuda", "--jobs", "1", "--limit", "4"];
    let (code, document) = warpsmith(folder, &[&ask[..], &options].concat());
    assert_eq!(code, 1, "{document:#}");
    let cases = items(&document, "cases");
    for (family, reason) in [
        ("strays", Some("illegal memory access")),
        ("good", None),
        ("hangs", Some("no answer within 4 s")),
        ("traps", Some("failed")),
    ] {
        let own: Vec<&Value> = cases.iter().filter(|case| case["family"] == family).collect();
        assert!(!own.is_empty(), "{family}: {document:#}");
        for case in own {
            println!("    {family}: {} {}", case["outcome"], case["reason"]);
            match reason {
                None => assert_eq!(case["outcome"], "passed", "{case:#}"),
                Some(words) => {
                    assert_eq!(case["outcome"], "broken", "{case:#}");
                    assert!(case["reason"].as_str().is_some_and(|reason| reason.contains(words)), "{case:#}");
                }
            }
        }
    }
}

/// In a bench, a candidate that fails does not affect the others.
fn a_failing_candidate_does_not_affect_others(folder: &Path) {
    failing_families::drill(folder);
    let subjects = ["hangs", "strays", "traps", "nan", "huge", "broken", "good"];
    let options = ["--kernels", ".", "--run-dir", "run", "--problem", "b1h1s16d64-fp16", "--limit", "4"];
    let (code, document) =
        warpsmith(folder, &[&["bench", "--device", "cuda"], &subjects[..], &options].concat());
    assert_eq!(code, 1, "{document:#}");
    let log = std::fs::read_to_string(folder.join("run/events.jsonl")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str, family: &str| -> Vec<&Value> {
        let subject = format!("{family} default");
        events.iter().filter(|event| event["kind"] == kind && event["of"]["subject"] == subject).collect()
    };
    for (family, failure) in [
        ("hangs", "hang"),
        ("strays", "illegal-access"),
        ("traps", "crash"),
        ("nan", "wrong-answer"),
        ("huge", "too-large"),
        ("broken", "does-not-compile"),
    ] {
        let failed = of("candidate-failed", family);
        assert_eq!(failed.len(), 1, "{family}: {failed:?}");
        assert_eq!(failed[0]["failure"], failure, "{}", failed[0]);
        assert!(of("sampled", family).is_empty(), "{family} was measured");
        println!("    {family}: {failure}: {}", failed[0]["reason"]);
    }
    assert!(!of("sampled", "good").is_empty(), "good was not measured");
    assert_eq!(events.last().unwrap()["kind"], "run-finished");
}

/// Compares wavefronts and bank conflicts of the tuned picks, counted by Nsight Compute and by the virtual GPU.
fn counts_of_shared_memory_match_ncu(folder: &Path) {
    let problems =
        ["mission", "small", "wide", "v3_small_causal", "v3_medium", "v3_medium_causal", "v3_large"];
    let named = problems.iter().flat_map(|name| ["--problem", name]);
    let ask: Vec<&str> = ["profile", "mma", "--preset", "tuned"].into_iter().chain(named).collect();
    let (_, counted) = warpsmith(folder, &[&ask[..], &["--device", "cuda"]].concat());
    let (_, modelled) = warpsmith(folder, &[&ask[..], &["--device", "virtual:h200", "--full-size"]].concat());
    let pairs = items(&counted, "profiles").iter().zip(items(&modelled, "profiles"));
    assert_eq!(pairs.len(), problems.len(), "{counted:#}");
    for (ncu, ours) in pairs {
        assert_eq!((&ncu["problem"], &ncu["subject"]), (&ours["problem"], &ours["subject"]));
        let figure = |profile: &Value, name: &str| {
            let value = &profile["metrics"][name];
            value.as_f64().unwrap_or_else(|| panic!("{name} of {}: {value}", profile["problem"]))
        };
        let both = |name: &str| (figure(ncu, name), figure(ours, name));
        let (wavefronts, conflicts) = (both("shared_wavefronts"), both("bank_conflicts"));
        println!(
            "    {}: wavefronts {} by ncu, {} here; conflicts {} and {}",
            ncu["problem"], wavefronts.0, wavefronts.1, conflicts.0, conflicts.1
        );
        let near = |(theirs, ours): (f64, f64)| (theirs - ours).abs() <= 0.05 * theirs;
        assert!(near(wavefronts) && near(conflicts), "{}", ncu["problem"]);
        assert!(conflicts.0 <= 0.05 * wavefronts.0, "{}", ncu["problem"]);
        assert_eq!(both("local_bytes"), (0.0, 0.0), "{}", ncu["problem"]);
    }
}
