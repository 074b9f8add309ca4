//! Tests of the tuned table: `kernels` shows it, and `--preset tuned` uses it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Run, run, settings, warpsmith};

/// A table with a modelled pick, a measured pick for another problem, a pick with an unknown knob, and a pick for
/// another GPU.
const TABLE: &str = r#"
schema = 1

[[pick]]
gpu = "virtual l4"
problem = "b1h2s128d64-fp16"
family = "attention/mma"
modelled_us = 4.25
speedup = 1.25
baseline = "small"
build = "3f9a"
commit = "1234567"
knobs = { BLOCK_M = "32", BLOCK_N = "64", NUM_WARPS = "4", SPLIT_KV = "2", STAGES = "1", Q_IN = "shared" }

[[pick]]
gpu = "NVIDIA L4"
problem = "b8h8s512d64-fp16"
family = "attention/mma"
measured_us = 61.5
speedup = 1.0
baseline = "d64"
build = "3f9b"
knobs = { BLOCK_M = "128", BLOCK_N = "64", NUM_WARPS = "4", STAGES = "1" }

[[pick]]
gpu = "NVIDIA L4"
problem = "b1h2s128d64-fp16"
family = "attention/mma"
measured_us = 3.0
speedup = 1.5
baseline = "d64"
build = "3f9c"
knobs = { BLOCK_M = "128", UNROLL = "4" }

[[pick]]
gpu = "NVIDIA H200"
problem = "b1h2s128d64-causal-fp16"
family = "attention/mma"
measured_us = 2.5
speedup = 1.0
baseline = "defaults"
build = "3f9d"
knobs = {}
"#;

/// A folder with that table. It replaces only the built-in table of `mma`.
fn table() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let family = folder.path().join("attention/mma");
    fs::create_dir_all(&family).unwrap();
    fs::write(family.join("tuned.toml"), TABLE).unwrap();
    folder
}

fn with_table(kernels: &Path, arguments: &[&str]) -> Run {
    let mut command: Command = warpsmith();
    run(command.args(arguments).arg("--kernels").arg(kernels).current_dir(kernels))
}

#[test]
fn kernels_shows_usable_and_ignored_picks() {
    let folder = table();
    let shown = with_table(folder.path(), &["kernels", "mma"]);
    assert_eq!(shown.code, 0, "{shown}");
    let at = shown.stdout.find("Tuned picks").unwrap();
    insta::assert_snapshot!("kernels-picks", &shown.stdout[at..]);

    let json = with_table(folder.path(), &["kernels", "mma", "--json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let picks = &document["tuned"];
    assert_eq!(picks.as_array().unwrap().len(), 3);
    assert_eq!(picks[0]["setting"], "small BLOCK_N=64");
    assert_eq!((&picks[0]["modelled_us"], &picks[0]["measured_us"]), (&4.25.into(), &Value::Null));
    assert_eq!((&picks[1]["measured_us"], &picks[1]["commit"]), (&61.5.into(), &Value::Null));
    assert_eq!(document["tuned_left_out"][0]["reason"], "mma has no knob `UNROLL`");
}

#[test]
fn every_pick_of_the_built_in_table_is_usable() {
    let shown = run(warpsmith().args(["kernels", "mma"]));
    assert!(shown.stdout.contains("measured") && shown.stdout.contains("modelled"), "{shown}");
    assert!(!shown.stdout.contains("ignored: "), "{shown}");
}

#[test]
fn tuned_is_the_pick_for_the_problem_on_the_device() {
    let folder = table();
    for (name, arguments) in [
        ("own", &["build", "mma", "--problem", "b1h2s128d64-fp16", "--device", "virtual:l4"][..]),
        ("nearest", &["build", "mma", "--problem", "b4h8s512d64-fp16", "--device", "virtual:l4"]),
    ] {
        let arguments = [arguments, &["--preset", "tuned"]].concat();
        let outcome = with_table(folder.path(), &arguments);
        let text = format!("{}\n{}", outcome.stdout.lines().next().unwrap_or_default(), outcome.stderr);
        insta::assert_snapshot!(format!("build-{name}"), text);
        assert_eq!(outcome.code, 0, "{outcome}");
    }
}

#[test]
fn bench_best_runs_the_choice_for_each_problem_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let line = ["bench", "best", "--device", "virtual:l4", "--baseline", "none"];
    let bench = |arguments: &[&str]| run(warpsmith().args(line).args(arguments).current_dir(folder.path()));
    // The table has neither problem, and no problem of the second one's kind.
    let outcome = bench(&["--problem", "b1h2s128d64-fp16", "--problem", "b1h1s40d96-bf16"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    for name in ["b1h2s128d64-fp16", "b1h1s40d96-bf16"] {
        assert!(outcome.stderr.contains(&format!("best on {name}: mma ")), "{outcome}");
        let row = outcome.stdout.lines().find(|line| line.starts_with(name));
        assert!(row.is_some_and(|row| row.contains("best")), "{outcome}");
    }
    let report = run(warpsmith().arg("report").current_dir(folder.path()));
    let summary = report.stdout.lines().find(|line| line.ends_with("summary.md")).unwrap();
    let summary = std::fs::read_to_string(folder.path().join(summary)).unwrap();
    for name in ["b1h2s128d64-fp16", "b1h1s40d96-bf16"] {
        assert!(summary.contains(&format!("| {name} | best (mma ")), "{summary}");
    }
    let refused = bench(&["--preset", "d64"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("`best` chooses the setting itself"), "{refused}");
}

#[test]
fn a_pick_with_an_impossible_time_is_ignored_with_a_warning() {
    for (gpu, time, reason) in [
        ("NVIDIA L4", "measured_us = 0.0001", "is not a plausible time"),
        ("virtual l4", "measured_us = 5.0", "only modelled times"),
        ("virtual l4", "modelled_us = 1e300", "is not a plausible time"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let family = folder.path().join("attention/wmma");
        fs::create_dir_all(&family).unwrap();
        let problem = "b1h2s128d64-fp16";
        let pick = format!(
            "schema = 1\n[[pick]]\ngpu = \"{gpu}\"\nproblem = \"{problem}\"\nfamily = \"attention/wmma\"\n{time}\n\
             baseline = \"defaults\"\nbuild = \"3f9a\"\nknobs = {{}}\n"
        );
        fs::write(family.join("tuned.toml"), pick).unwrap();
        let arguments =
            ["bench", "best", "--problem", problem, "--baseline", "none", "--device", "virtual:l4"];
        let outcome = with_table(folder.path(), &arguments);
        assert_eq!(outcome.code, 0, "{outcome}");
        let warning = format!("ignoring wmma's tuned pick for {problem} on {gpu}");
        assert!(outcome.stderr.contains(&warning) && outcome.stderr.contains(reason), "{outcome}");
        assert!(outcome.stderr.contains(&format!("best on {problem}: mma ")), "{outcome}");
    }
}

#[test]
fn every_command_that_runs_kernels_accepts_preset_tuned() {
    let folder = table();
    let one = ["mma", "--preset", "tuned", "--problem", "b1h2s128d64-fp16", "--device", "virtual:l4"];
    let message = "mma tuned on b1h2s128d64-fp16: small BLOCK_N=64 (modelled on virtual l4)";
    for (command, words) in [
        ("check", "mma small BLOCK_N=64  b1h2s128d64-fp16"),
        ("sanitize", "mma small BLOCK_N=64 b1h2s128d64-fp16"),
        ("bench", "mma tuned"),
        ("profile", "mma tuned"),
    ] {
        let outcome = with_table(folder.path(), &[&[command], &one[..]].concat());
        assert_eq!(outcome.code, 0, "{outcome}");
        assert!(outcome.stderr.contains(message) && outcome.stdout.contains(words), "{command}: {outcome}");
        let ignored = "warning: ignoring mma's tuned pick for b1h2s128d64-fp16 on NVIDIA L4: mma has no knob";
        assert!(outcome.stderr.contains(ignored), "{command}: {outcome}");
    }
    // `tuned` and its setting, named by preset and knob, are the same kernel.
    let modelled = |arguments: &[&str]| -> Value {
        let line = ["bench", "mma", "--problem", "b1h2s128d64-fp16", "--device", "virtual:l4", "--json"];
        let outcome = with_table(folder.path(), &[&line, arguments].concat());
        let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
        document["modelled"][0].clone()
    };
    let (tuned, named) =
        (modelled(&["--preset", "tuned"]), modelled(&["--preset", "small", "--set", "BLOCK_N=64"]));
    assert_eq!((&tuned["build"], &tuned["modelled_us"]), (&named["build"], &named["modelled_us"]));
    assert_eq!(tuned["subject"], "mma tuned");
}

#[test]
fn a_missing_pick_is_an_error_that_lists_what_the_table_has() {
    let folder = table();
    for (name, arguments) in [
        (
            "kind",
            &["check", "mma", "--preset", "tuned", "--problem", "mission-bf16", "--device", "virtual:l4"][..],
        ),
        ("gpu", &["bench", "mma", "--preset", "tuned", "--device", "virtual:a100"]),
        ("family", &["profile", "wmma", "--preset", "tuned", "--device", "virtual:l4"]),
        ("no-problem", &["build", "mma", "--preset", "tuned"]),
        (
            "sanitize",
            &["sanitize", "mma", "--preset", "tuned", "--problem", "mission-e4m3", "--device", "virtual:l4"],
        ),
        (
            "several",
            &[
                "evolve",
                "mma",
                "--preset",
                "tuned",
                "--problem",
                "b1h2s128d64-fp16",
                "--problem",
                "b8h8s512d64-fp16",
                "--budget",
                "1",
                "--device",
                "virtual:l4",
            ],
        ),
    ] {
        let outcome = with_table(folder.path(), arguments);
        settings().bind(|| {
            insta::assert_snapshot!(format!("none-{name}"), outcome.to_string(), &arguments.join(" "));
        });
        assert_eq!(outcome.code, 2, "{outcome}");
    }
}

/// A search writes into the family's own table, and a build uses the entry.
#[test]
fn a_search_updates_the_familys_own_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = "attention/mma/tuned.toml";
    fs::create_dir_all(folder.path().join("attention/mma")).unwrap();
    fs::write(folder.path().join(file), "schema = 1\n").unwrap();
    let problem = ["--problem", "b1h1s16d64-fp16", "--device", "virtual:l4"];
    let search = ["evolve", "mma", "--preset", "small", "--budget", "1", "--tuned", file];
    let outcome = with_table(folder.path(), &[&search[..], &problem].concat());
    assert_eq!(outcome.code, 0, "{outcome}");
    let built = with_table(folder.path(), &[&["build", "mma", "--preset", "tuned"][..], &problem].concat());
    assert_eq!(built.code, 0, "{built}");
    assert!(built.stderr.contains("(modelled on virtual l4)"), "{built}");
    // The next search can start from the setting that was found.
    let again = ["evolve", "mma", "--preset", "tuned", "--budget", "1"];
    let outcome = with_table(folder.path(), &[&again[..], &problem].concat());
    assert_eq!(outcome.code, 0, "{outcome}");
}
