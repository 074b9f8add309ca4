//! Tests of `replay`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Run, run, warpsmith};

const TOY: &str = r#"{"name":"toy","kernel":"k","gpu":"g","params":{"a":[1,2,4],"b":[0,1]},
    "time_ms":{"1,0":4.0,"1,1":null,"2,0":2.0,"4,1":1.5}}"#;

fn toy(folder: &Path) -> PathBuf {
    let path = folder.join("toy.json");
    fs::write(&path, TOY).unwrap();
    path
}

fn replay(space: &Path, arguments: &[&str]) -> Run {
    run(warpsmith().arg("replay").arg("--space").arg(space).args(arguments))
}

#[test]
fn replay_prints_a_table_for_each_space_and_the_means() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--strategy", "exhaustive,random", "--seeds", "5", "--budget", "4", "--at", "1,4"];
    let outcome = replay(&toy(folder.path()), &arguments);
    assert_eq!(outcome.code, 0, "{outcome}");
    for expected in [
        "toy  4 points, 3 valid, optimum 1.5 ms",
        "exhaustive  0.375  1.000       4   100%     1.0",
        "mean over kernels       1       4",
        "mean over spaces       1       4",
    ] {
        assert!(outcome.stdout.contains(expected), "{expected}: {outcome}");
    }
}

#[test]
fn json_and_csv_contain_the_same_scores() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("scores.csv");
    let csv_text = csv.display().to_string();
    let arguments = ["--strategy", "all", "--seeds", "3", "--json", "--csv", &csv_text];
    let outcome = replay(&toy(folder.path()), &arguments);
    assert_eq!(outcome.code, 0, "{outcome}");
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(document["schema"], "warpsmith.replay/1");
    assert_eq!(document["at"], serde_json::json!([25, 50, 100, 200]));
    let scores = document["scores"].as_array().unwrap();
    let text = fs::read_to_string(&csv).unwrap();
    assert_eq!(text.lines().count(), 1 + scores.len());
    for (line, score) in text.lines().skip(1).zip(scores) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells[3], score["strategy"]);
        assert_eq!(cells[6].parse::<f64>().unwrap(), score["at"][0]["mean"].as_f64().unwrap());
    }
}

#[test]
fn simulated_fleets_are_compared_with_one_worker() {
    let folder = tempfile::tempdir().unwrap();
    let space = toy(folder.path());
    let search = ["--strategy", "random", "--seeds", "20", "--budget", "4", "--at", "1,4"];
    let json = |more: &[&str]| -> serde_json::Value {
        let outcome = replay(&space, &[&search, more, &["--json"]].concat());
        assert_eq!(outcome.code, 0, "{outcome}");
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    let fleets = json(&["--workers", "1,4,64"])["fleets"].take();
    let column = |name: &str| -> Vec<f64> {
        fleets.as_array().unwrap().iter().map(|row| row[name].as_f64().unwrap()).collect()
    };
    assert_eq!(column("workers"), [1.0, 4.0, 64.0]);
    assert_eq!(column("ahead"), [0.0, 8.0, 128.0]);
    let speedups = column("speedup");
    assert_eq!(speedups[0], 1.0);
    // There are only four evaluations.
    assert!(1.0 < speedups[1] && speedups[1] <= speedups[2], "{speedups:?}");
    assert!(speedups.iter().all(|it| *it <= 4.0 * 10.0), "{speedups:?}");
    let busy = column("busy");
    assert!(busy[0] > busy[1] && busy[1] > busy[2] && busy[0] <= 1.0, "{busy:?}");
    // One worker finds what a search without workers finds, and every fleet finds the optimum of a space this small.
    let scores = json(&[]);
    for (mark, score) in scores["scores"][0]["at"].as_array().unwrap().iter().enumerate() {
        assert_eq!(fleets[0]["at"][mark], score["mean"]);
    }
    for row in fleets.as_array().unwrap() {
        assert_eq!(row["at"][1], 1.0);
    }
    let table = replay(&space, &[&search[..], &["--workers", "1,4"]].concat());
    assert!(table.stdout.starts_with("strategy  workers  ahead  speedup  busy"), "{table}");
    assert!(table.stdout.contains("random          1      0     1.0x"), "{table}");
    assert_eq!(replay(&space, &["--workers", "2", "--csv", "scores.csv"]).code, 2);
}

#[test]
fn the_default_marks_are_limited_by_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let space = toy(folder.path());
    for (budget, marks) in [("60", serde_json::json!([25, 50])), ("10", serde_json::json!([10]))] {
        let outcome = replay(&space, &["--budget", budget, "--seeds", "1", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(document["at"], marks, "{outcome}");
    }
}

#[test]
fn usage_errors_say_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let space = toy(folder.path());
    let cut = folder.path().join("cut.json");
    fs::write(&cut, &TOY[..60]).unwrap();
    for (outcome, expected) in [
        (replay(&space, &["--strategy", "genetics"]), "did you mean `genetic`? strategies: model, genetic"),
        (replay(&space, &["--at", "25,300"]), "--at 300 is not between 1 and the budget of 200"),
        (replay(&space, &["--at", "0"]), "--at 0 is not between 1 and the budget of 200"),
        (replay(&space, &["--budget", "0"]), "expected a number of evaluations"),
        (replay(&cut, &[]), "cut.json: not JSON"),
        (replay(&folder.path().join("none.json"), &[]), "none.json: cannot read the file"),
    ] {
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(expected), "{expected}: {outcome}");
    }
}
