//! Tests of `evolve` on the virtual GPU: a search continues past candidates that fail, and a killed search resumes with
//! the same trials.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{run, warpsmith};
use serde_json::Value;

const PROBLEM: &str = "b1h1s16d64-fp16";

/// Writes the family `maze`: the reference kernel with knobs that add faults, waste time, or have no effect.
fn maze(folder: &Path) {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention");
    let family = folder.join("attention/maze");
    let common = folder.join("attention/common");
    fs::create_dir_all(&family).unwrap();
    fs::create_dir_all(&common).unwrap();
    for entry in fs::read_dir(kernels.join("common")).unwrap().flatten() {
        fs::copy(entry.path(), common.join(entry.file_name())).unwrap();
    }
    let changed = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(kernels.join("reference").join(file)).unwrap();
        assert!(text.contains(from), "no `{from}`");
        fs::write(family.join(file), text.replace(from, to)).unwrap();
    };
    let start = "    const int row = blockIdx.x,";
    let traps = r"
    if constexpr (knob::FAULT == knob::Fault::hangs)
        while (*static_cast<const volatile unsigned*>(args.q) != 0xffffffffu) {}
    if constexpr (knob::FAULT == knob::Fault::strays) static_cast<volatile float*>(args.o)[1ll << 40] = 1.0f;
    if constexpr (knob::FAULT == knob::Fault::traps) __trap();
    if constexpr (knob::FAULT == knob::Fault::broken) static_assert(knob::FAULT != knob::Fault::broken);
    if constexpr (knob::FAULT == knob::Fault::wrong)
        if (blockIdx.x == 3) return;
    volatile __shared__ int waste;
    for (int i = 0; i < knob::WASTE * 64; ++i) waste = i;
";
    changed("kernel.cu", start, &format!("{traps}{start}"));
    let knobs = r#"
[knobs.FAULT]
values = ["none", "hangs", "strays", "traps", "broken", "wrong"]
default = "none"
about = "the kind of fault"

[knobs.WASTE]
values = [0, 1, 2, 3]
default = 2
about = "wasted time"

[knobs.IGNORED]
values = [1, 2]
default = 1
about = "no effect"

[[constraints]]
require = 'FAULT == "none" || (WASTE == 1 && BLOCK_THREADS == 64)'
because = "one setting per fault is enough"

[presets.default]"#;
    changed("kernel.toml", "\n[presets.default]", knobs);
}

fn evolve(folder: &Path, name: &str, arguments: &[&str]) -> Command {
    let mut command = warpsmith();
    command.args(["evolve", "maze", "--device", "virtual:l4", "--problem", PROBLEM, "--limit", "4"]);
    command.arg("--kernels").arg(folder).arg("--run-dir").arg(folder.join(name)).args(arguments);
    command.current_dir(folder);
    command
}

/// The logged trials of a run, without their times.
fn trials(folder: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(name).join("events.jsonl")).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == "tried")
        .map(|event| event["trial"].clone())
        .collect()
}

#[test]
fn a_search_continues_past_candidates_that_fail() {
    let folder = tempfile::tempdir().unwrap();
    maze(folder.path());
    // 3 block sizes x 4 wastes x 2, and 5 faults x 2; the baseline is one of them.
    let outcome =
        run(&mut evolve(folder.path(), "run", &["--strategy", "exhaustive", "--budget", "200", "--json"]));
    assert_eq!(outcome.code, 0, "{outcome}");
    let trials = trials(folder.path(), "run");
    assert_eq!(trials.len(), 1 + 33, "{outcome}");
    let with = |knob: &str, value: &str| {
        let has = |trial: &&Value| trial["knobs"][knob] == value && trial["knobs"]["IGNORED"] == "1";
        trials.iter().skip(1).filter(has).collect::<Vec<_>>()
    };
    for (fault, failure) in [
        ("hangs", "hang"),
        ("strays", "illegal-access"),
        ("traps", "crash"),
        ("broken", "does-not-compile"),
        ("wrong", "wrong-answer"),
    ] {
        let found = with("FAULT", fault);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["result"]["failure"], failure, "{}", found[0]);
    }
    let timed = with("FAULT", "none");
    assert_eq!(timed.len(), 11);
    let score = |trial: &&&Value| trial["result"]["score"].as_f64().unwrap();
    let best = timed.iter().max_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
    assert_eq!(best["knobs"]["WASTE"], "0");

    // Candidates that differ only in the knob without effect are recognised as duplicates.
    let ignored: Vec<&Value> = trials.iter().filter(|trial| trial["knobs"]["IGNORED"] == "2").collect();
    let same = ignored.iter().filter(|trial| trial["result"]["result"] == "same").count();
    assert_eq!(same, 12 + 4, "all except the one that does not compile");
    let log = fs::read_to_string(folder.path().join("run/events.jsonl")).unwrap();
    assert!(
        log.contains("knob IGNORED changed no machine code") && !log.contains("knob WASTE changed"),
        "{log}"
    );

    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(document["picks"][0]["knobs"]["WASTE"], "0");
    assert!(document["picks"][0]["modelled_us"].as_f64().unwrap() > 0.0);
    let table = fs::read_to_string(folder.path().join("run/tuned.toml")).unwrap();
    assert!(table.contains("modelled_us") && !table.contains("measured_us"), "{table}");
}

#[test]
fn a_killed_search_resumes_with_the_same_trials() {
    let folder = tempfile::tempdir().unwrap();
    maze(folder.path());
    let arguments = ["--budget", "14", "--seed", "5", "--input-seed", "5"];
    let whole = run(&mut evolve(folder.path(), "whole", &arguments));
    assert_eq!(whole.code, 0, "{whole}");

    for (round, stop_after) in [2, 7].into_iter().enumerate() {
        let mut command =
            evolve(folder.path(), "killed", if round == 0 { &arguments } else { &["--resume"] });
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while trials(folder.path(), "killed").len() < stop_after && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_mins(2), "no trial");
            sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    let resumed = run(&mut evolve(folder.path(), "killed", &["--resume"]));
    assert_eq!(resumed.code, 0, "{resumed}");
    assert_eq!(trials(folder.path(), "killed"), trials(folder.path(), "whole"));

    let again = run(&mut evolve(folder.path(), "killed", &["--resume"]));
    assert_eq!(again.code, 2, "{again}");
    assert!(again.stderr.contains("is finished"), "{again}");
}

#[test]
fn usage_errors_and_a_wrong_baseline_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    maze(folder.path());
    let refused = |arguments: &[&str], words: &[&str]| {
        let outcome = run(&mut evolve(folder.path(), "run", arguments));
        assert_eq!(outcome.code, 2, "{outcome}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{outcome}");
        }
        assert!(!folder.path().join("run").exists());
    };
    refused(&["--strategy", "genetics"], &["there is no strategy `genetics`", "did you mean `genetic`"]);
    refused(&["--preset", "defaul"], &["no preset `defaul`"]);
    refused(&["--set", "WASTE=9"], &["WASTE cannot be 9"]);
    refused(&["--set", "FAULT=wrong"], &["one setting per fault is enough"]);
    refused(&["--problem", "b1h1s16d72-fp16"], &["72"]);
    // A wrong baseline is exit 1, and nothing is searched.
    let arguments = ["--set", "FAULT=wrong", "--set", "WASTE=1", "--set", "BLOCK_THREADS=64"];
    let outcome = run(&mut evolve(folder.path(), "run", &arguments));
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stderr.contains("the baseline failed on"), "{outcome}");
}
