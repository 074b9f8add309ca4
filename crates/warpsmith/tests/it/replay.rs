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
