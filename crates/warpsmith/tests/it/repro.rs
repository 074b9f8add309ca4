//! Tests of `repro` on the virtual GPU: one command writes a report, and a killed and resumed run gives the same
//! results.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{run, warpsmith};
use serde_json::Value;

fn repro(folder: &Path, name: &str, arguments: &[&str]) -> Command {
    let mut command = warpsmith();
    command.args(["repro", "--device", "virtual:l4"]).args(arguments);
    command.arg("--run-dir").arg(folder.join(name)).current_dir(folder);
    command
}

fn events(folder: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(name).join("events.jsonl")).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The results of a run, without order and times.
fn results(folder: &Path, name: &str) -> BTreeSet<String> {
    let kinds = ["checked", "modelled", "search-started", "tried", "profiled", "inverted"];
    let kept =
        events(folder, name).into_iter().filter(|event| kinds.iter().any(|kind| event["kind"] == *kind));
    kept.map(|mut event| {
        let event = event.as_object_mut().unwrap();
        event.retain(|key, _| key != "seq" && key != "time");
        serde_json::to_string(event).unwrap()
    })
    .collect()
}

#[test]
fn a_killed_and_resumed_run_has_the_same_results_as_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--problem", "b1h1s64d64-fp16", "--budget", "5", "--seed", "3", "--input-seed", "3"];
    let whole = run(&mut repro(folder.path(), "whole", &arguments));
    assert_eq!(whole.code, 0, "{whole}");
    assert!(whole.stdout.contains("report.html"), "{whole}");
    for file in [
        "manifest.yaml",
        "events.jsonl",
        "bench.json",
        "bench.csv",
        "tune_log.csv",
        "topk.json",
        "profile.json",
        "tuned.toml",
        "summary.md",
        "report.html",
    ] {
        assert!(folder.path().join("whole").join(file).is_file(), "{file}");
    }
    let page = fs::read_to_string(folder.path().join("whole/report.html")).unwrap();
    for words in ["modelled", "mma evolved", "Search", "divergent branches"] {
        assert!(page.contains(words), "{words}");
    }

    // The run is killed once in every stage.
    for (round, kind) in ["modelled", "tried", "profiled", "inverted"].into_iter().enumerate() {
        let resume: &[&str] = &["--resume"];
        let mut command = repro(folder.path(), "killed", if round == 0 { &arguments } else { resume });
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        let seen = || events(folder.path(), "killed").iter().any(|event| event["kind"] == kind);
        while !seen() && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_mins(4), "no {kind} event");
            sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    let resumed = run(&mut repro(folder.path(), "killed", &["--resume"]));
    // A run that was killed late may already be finished; resuming it is then an error.
    assert!(resumed.code == 0 || resumed.stderr.contains("is finished"), "{resumed}");
    let (whole, killed) = (results(folder.path(), "whole"), results(folder.path(), "killed"));
    assert_eq!(whole.symmetric_difference(&killed).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn usage_errors_are_reported_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (["--suite", "headlin"], "headlin"),
        (["--strategy", "randm"], "did you mean `random`"),
        (["--family", "mmma"], "did you mean `mma`"),
        (["--problem", "b1h1"], "b1h1"),
    ] {
        let outcome = run(&mut repro(folder.path(), "run", &arguments));
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(words), "{outcome}");
        assert!(!folder.path().join("run").exists());
    }
}
