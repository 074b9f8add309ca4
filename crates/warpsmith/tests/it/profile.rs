//! Tests of `profile` and `invert` on the virtual GPU: every pathology increases its own metric, and the rules rank it
//! first.

use std::fs;

use crate::common::{run, warpsmith};
use serde_json::Value;

const PATHOLOGIES: [&str; 5] = ["strided", "unstaged", "barriers", "divergent", "unrolled"];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn every_pathology_increases_its_metric_and_is_diagnosed_first() {
    let folder = tempfile::tempdir().unwrap();
    let run_dir = folder.path().join("run");
    let mut command = warpsmith();
    command.args(["invert", "wmma", "--device", "virtual:l4", "--json", "--run-dir"]).arg(&run_dir);
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{outcome}");
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let profile = |subject: &str| -> &Value {
        let profiles = document["profiles"].as_array().unwrap();
        let found = profiles.iter().find(|it| it["subject"] == subject);
        found.unwrap_or_else(|| panic!("no profile of {subject} in {outcome}"))
    };
    let healthy = profile("wmma stage-4");
    let first = |profile: &Value| profile["diagnoses"][0]["rule"].as_str().unwrap().to_owned();
    assert_eq!(first(healthy), "latency-bound");
    assert_eq!(number(&healthy["metrics"]["local_bytes"]), 0.0);
    assert_eq!(healthy["metrics"]["l2_hit_percent"], "unavailable: the virtual GPU has no caches");

    // The setting, its rule, its metric, and the factor by which the metric must grow.
    for (setting, rule, metric, factor) in [
        ("PATHOLOGY=strided", "strided loads", "sectors_per_request", 1.8),
        ("PATHOLOGY=unstaged", "no staging", "global_requests", 10.0),
        ("PATHOLOGY=barriers", "barriers", "barriers", 3.0),
        ("PATHOLOGY=divergent", "divergent branches", "divergent_branches", 5.0),
        ("PATHOLOGY=unrolled", "spilling", "local_bytes", f64::INFINITY),
        ("BLOCK_M=16 BLOCK_N=32 NUM_WARPS=2", "small blocks", "blocks", 2.0),
    ] {
        let slowed = profile(&format!("wmma stage-4 {setting}"));
        assert_eq!(first(slowed), rule, "{setting}: {}", slowed["diagnoses"]);
        assert!(!slowed["diagnoses"][0]["levers"].as_array().unwrap().is_empty());
        let ratio = number(&slowed["metrics"][metric]) / number(&healthy["metrics"][metric]);
        assert!(ratio >= factor, "{setting}: {metric} is {ratio} times the healthy kernel's");
    }

    let inversions = document["inversions"].as_array().unwrap();
    assert_eq!(inversions.len(), 6);
    let costs: Vec<f64> = inversions.iter().map(|it| number(&it["result"]["cost"])).collect();
    assert!(costs.is_sorted_by(|a, b| a >= b) && costs.iter().all(|cost| *cost > 1.0), "{costs:?}");
    for inversion in inversions {
        assert!(inversion["result"]["time"]["modelled_us"].is_number(), "{inversion}");
        assert!(!inversion["advice"].as_str().unwrap().is_empty());
    }
    // The log contains every result, and the run is finished.
    let log = fs::read_to_string(run_dir.join("events.jsonl")).unwrap();
    assert_eq!(log.matches("\"kind\":\"inverted\"").count(), 6);
    assert_eq!(log.matches("\"kind\":\"profiled\"").count(), 7);
    assert!(log.lines().last().unwrap().contains("\"outcome\":\"holds\""));
    let again = run(warpsmith().args(["invert", "--resume", "--run-dir"]).arg(&run_dir));
    assert_eq!(again.code, 2, "{again}");
    assert!(again.stderr.contains("is finished"), "{again}");
}

/// A pathology changes the speed only: results are correct and the checkers report nothing.
#[test]
fn every_pathology_gives_a_correct_result() {
    for pathology in PATHOLOGIES {
        for (preset, problem) in [
            ("stage-c", "b1h2kv1sq40sk77d64-causal-fp16"),
            ("stage-3", "b1h1sq40sk77d128-fp16"),
            ("stage-5-p1", "b1h1sq40sk77d64-causal-e4m3"),
        ] {
            if pathology == "unstaged" && preset == "stage-5-p1" {
                continue;
            }
            let setting = format!("PATHOLOGY={pathology}");
            let mut command = warpsmith();
            command.args(["check", "wmma", "--preset", preset, "--set", &setting, "--problem", problem]);
            let outcome = run(command.args(["--sanitize", "--device", "virtual:h200"]));
            assert_eq!(outcome.code, 0, "{outcome}");
        }
    }
}

#[test]
fn a_profile_shows_limits_and_source_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = warpsmith();
    command.args(["profile", "wmma", "--preset", "stage-2", "--problem", "b1h2s96d64-fp16"]);
    command.args(["--device", "virtual:h200", "--run-dir"]).arg(folder.path().join("run"));
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{outcome}");
    for words in [
        "b1h2s96d64-fp16  wmma stage-2  by virtual:h200",
        "us (modelled)",
        "tensor pipe",
        "unavailable (the virtual GPU has no caches)",
        "idle multiprocessors",
        "6 blocks on 132 multiprocessors",
        "data sheet",
        "kernel.cu:",
    ] {
        assert!(outcome.stdout.contains(words), "no `{words}` in {outcome}");
    }
    let again = run(&mut command);
    assert_eq!(again.code, 2, "{again}");
    assert!(again.stderr.contains("already holds a run"), "{again}");
}

/// A problem that is counted in part gives the same metrics as the whole problem, much faster.
#[test]
fn counting_a_part_of_a_problem_gives_the_metrics_of_the_whole() {
    let metrics = |problem: &str, more: &[&str]| -> Value {
        let folder = tempfile::tempdir().unwrap();
        let mut command = warpsmith();
        command.args(["profile", "mma", "--preset", "d64", "--device", "virtual:l4", "--json"]);
        command.args(["--problem", problem, "--run-dir"]).arg(folder.path().join("run")).args(more);
        let outcome = run(&mut command);
        assert_eq!(outcome.code, 0, "{outcome}");
        let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
        document["profiles"][0].clone()
    };
    // One problem is reduced to fewer queries, which read the same keys. The other is reduced to fewer heads, because a
    // causal mask needs all queries.
    for (problem, part) in [
        ("b1h1sq2048sk8192d64-fp16", "b1h1sq512sk8192d64-fp16; the full problem has 4 times"),
        ("b1h4sq2048sk2048d64-causal-fp16", "b1h2s2048d64-causal-fp16; the full problem has 2 times"),
    ] {
        let (counted, whole) = (metrics(problem, &[]), metrics(problem, &["--full-size"]));
        assert!(counted["notes"][0].as_str().is_some_and(|note| note.contains(part)), "{counted:#}");
        let of = |profile: &Value, name: &str| number(&profile["metrics"][name]);
        for name in ["instructions", "shared_wavefronts", "blocks", "barriers"] {
            // The counts differ slightly: whether the kernel rescales depends on the input values.
            let ratio = of(&counted, name) / of(&whole, name);
            assert!((ratio - 1.0).abs() < 0.001, "{problem}: {name}: {ratio}");
        }
        let time = |profile: &Value| number(&profile["metrics"]["time"]["modelled_us"]);
        assert!((time(&counted) / time(&whole) - 1.0).abs() < 0.01, "{problem}: {counted:#} {whole:#}");
        assert!((of(&counted, "dram_percent") - of(&whole, "dram_percent")).abs() < 1.0, "{problem}");
    }
}

#[test]
fn a_kernel_that_is_wrong_or_does_not_compile_is_exit_1_and_has_no_profile() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention");
    for (family, from, to) in [
        ("wrong", "from_float(o[d], out * scale_out);", "from_float(o[d], 0.5f * out * scale_out);"),
        (
            "broken",
            "    const int row = blockIdx.x,",
            "    this is no CUDA;\n    const int row = blockIdx.x,",
        ),
    ] {
        let place = folder.path().join("kernels/attention").join(family);
        fs::create_dir_all(&place).unwrap();
        let source = fs::read_to_string(kernels.join("reference/kernel.cu")).unwrap();
        assert!(source.contains(from));
        fs::write(place.join("kernel.cu"), source.replace(from, to)).unwrap();
        fs::copy(kernels.join("reference/kernel.toml"), place.join("kernel.toml")).unwrap();
    }
    let common = folder.path().join("kernels/attention/common");
    fs::create_dir_all(&common).unwrap();
    for entry in fs::read_dir(kernels.join("common")).unwrap().flatten() {
        fs::copy(entry.path(), common.join(entry.file_name())).unwrap();
    }
    let mut command = warpsmith();
    command.args(["profile", "wrong", "broken", "--problem", "b1h1s16d64-fp16", "--device", "virtual:l4"]);
    command.arg("--kernels").arg(folder.path().join("kernels"));
    let outcome = run(command.arg("--run-dir").arg(folder.path().join("run")));
    assert_eq!(outcome.code, 1, "{outcome}");
    for words in ["wrong default", "wrong answer", "broken default", "does not compile"] {
        assert!(outcome.stdout.contains(words), "no `{words}` in {outcome}");
    }
    let log = fs::read_to_string(folder.path().join("run/events.jsonl")).unwrap();
    assert!(!log.contains("\"kind\":\"profiled\""), "{log}");
}

#[test]
fn usage_errors_and_a_missing_gpu_are_reported_before_anything_runs() {
    for (arguments, code, words) in [
        (&["profile", "wmma", "--preset", "stage-9", "--device", "virtual"][..], 2, "there is no preset"),
        (&["profile", "--problem", "misson", "--device", "virtual"], 2, "misson"),
        (&["profile", "--resume", "--run-dir", "/nowhere/at/all"], 2, "holds no run"),
        (&["profile", "--device", "cuda:7"], 3, "hint: `--device virtual`"),
        (&["invert", "--device", "cuda:7"], 3, "hint: `--device virtual`"),
        (&["invert", "reference", "--device", "virtual"], 2, "has no pathologies"),
        (&["invert", "wmma", "--preset", "stage-9", "--device", "virtual"], 2, "stage-9"),
    ] {
        let outcome = run(warpsmith().args(arguments));
        assert_eq!(outcome.code, code, "{outcome}");
        assert!(outcome.stderr.contains(words), "no `{words}` in {outcome}");
    }
}
