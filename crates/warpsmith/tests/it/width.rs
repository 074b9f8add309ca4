//! Tests that the output fits a terminal, and that the parts of one result agree.

use crate::common::{run, settings, warpsmith};
use serde_json::Value;

/// Every command that users see.
const COMMANDS: [&str; 21] = [
    "bench",
    "build",
    "check",
    "completions",
    "devices",
    "doctor",
    "evolve",
    "exec",
    "gate",
    "invert",
    "kernels",
    "man",
    "problems",
    "profile",
    "replay",
    "report",
    "repro",
    "runs",
    "sanitize",
    "suites",
    "toolchain",
];

/// Runs a command at a width and checks that no line of its data is wider.
fn at_width(columns: usize, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = warpsmith();
    command.current_dir(folder.path()).env("COLUMNS", columns.to_string()).args(arguments);
    let output = run(&mut command);
    assert_eq!(output.code, 0, "{arguments:?}: {output}");
    for line in output.stdout.lines().chain(output.stderr.lines()) {
        // A path must stay in one piece.
        assert!(line.chars().count() <= columns || !line.trim().contains(' '), "{columns}: {line}\n{output}");
    }
    output.stdout
}

#[test]
fn help_fits_80_columns() {
    for command in COMMANDS {
        let help = at_width(80, &[command, "--help"]);
        settings().bind(|| insta::assert_snapshot!(format!("help-80-{command}"), help));
    }
    let all = at_width(80, &["--help"]);
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "{command} is missing in the list:\n{all}");
    }
}

#[test]
fn lists_fit_80_and_200_columns() {
    for columns in [80, 200] {
        for arguments in
            [&["problems"][..], &["suites"], &["suites", "v3"], &["kernels"], &["kernels", "wmma"]]
        {
            let text = at_width(columns, arguments);
            let name = format!("{}-{columns}", arguments.join("-"));
            settings().bind(|| insta::assert_snapshot!(name, text));
        }
    }
}

#[test]
fn results_fit_80_and_200_columns() {
    const PROBLEM: &str = "b1h2s128d64-fp16";
    for columns in [80, 200] {
        for arguments in [
            &["bench", "mma", "--preset", "d64"][..],
            &["profile", "mma", "--preset", "d64"],
            &["check", "mma", "--preset", "d64"],
            &["evolve", "mma", "--budget", "3"],
            &["build", "mma", "--preset", "d64"],
        ] {
            let device = ["--device", "virtual:l4", "--problem", PROBLEM];
            at_width(columns, &[arguments, &device].concat());
        }
    }
}

/// The terminal, the log, the tuned table, the report and the list of runs name the same best setting and speedup.
#[test]
fn all_outputs_of_a_search_agree() {
    let folder = tempfile::tempdir().unwrap();
    let search = |extra: &[&str]| {
        let mut command = warpsmith();
        command.current_dir(folder.path());
        run(command.args(extra))
    };
    let output = search(&[
        "evolve",
        "mma",
        "--problem",
        "mission",
        "--budget",
        "8",
        "--run-dir",
        "r/one",
        "--device",
        "virtual:l4",
    ]);
    assert_eq!(output.code, 0, "{output}");
    let events = std::fs::read_to_string(folder.path().join("r/one/events.jsonl")).unwrap();
    let mut best: Option<(f64, Value)> = None;
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let trial = find(&event, "trial").cloned().unwrap_or_default();
        let result = &trial["result"];
        let elite = find(result, "elite") == Some(&Value::Bool(true));
        let score = find(result, "score").and_then(Value::as_f64);
        if let (true, Some(score)) = (elite, score)
            && best.as_ref().is_none_or(|(known, _)| score > *known)
        {
            best = Some((score, trial));
        }
    }
    let (score, trial) = best.expect("an elite");
    assert!(score >= 1.03, "the search finds something: {output}");
    let setting = trial["candidate"].as_str().unwrap();
    let first = output.stdout.lines().find(|line| line.contains('x') && line.contains(" us ")).unwrap();
    assert!(first.contains(&format!("{score:.3}x")) && first.contains(setting), "{first}\n{setting} {score}");

    let tuned = std::fs::read_to_string(folder.path().join("r/one/tuned.toml")).unwrap();
    let table: toml::Table = tuned.parse().unwrap();
    let pick = &table["pick"].as_array().unwrap()[0];
    for (knob, value) in trial["knobs"].as_object().unwrap() {
        let picked = &pick["knobs"][knob.as_str()];
        let picked = picked.as_str().map_or(picked.to_string(), str::to_owned);
        assert_eq!(picked, value.as_str().unwrap(), "{knob}: {tuned}");
    }
    assert!((pick["speedup"].as_float().unwrap() - score).abs() < 1e-6, "{tuned}");

    let output = search(&["report", "r/one"]);
    assert!(output.stderr.contains(setting) && output.stderr.contains(&format!("{score:.2}x")), "{output}");
    for file in ["report.html", "summary.md"] {
        let report = std::fs::read_to_string(folder.path().join("r/one").join(file)).unwrap();
        let report = report.replace("&#61;", "=").replace("\\_", "_").replace("\\=", "=");
        assert!(
            report.contains(setting) && report.contains(&format!("{score:.2}x")),
            "{file}: {setting} {score}"
        );
    }
    let output = search(&["runs", "--run-dir", "r"]);
    assert!(output.stdout.contains(&format!("best {score:.2}x")), "{output}");
}

/// The first value with this key, at any depth.
fn find<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    match value {
        Value::Object(map) => map.get(key).or_else(|| map.values().find_map(|inner| find(inner, key))),
        Value::Array(items) => items.iter().find_map(|inner| find(inner, key)),
        _ => None,
    }
}
