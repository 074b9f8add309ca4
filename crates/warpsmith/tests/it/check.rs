//! Tests of `check`: correct kernels, wrong kernels with an error map and a repeat command, and usage errors.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Run, run, warpsmith, warpsmith_by};
use crate::failing_families::drill;

fn check(arguments: &[&str]) -> Run {
    run(warpsmith().args(["check", "--device", "virtual:l4"]).args(arguments))
}

/// The repository's wmma family with one line changed.
fn with_fault(folder: &Path, right: &str, wrong: &str) -> PathBuf {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention");
    let mut changed_files = 0;
    for part in ["common", "wmma"] {
        let to = folder.join("attention").join(part);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(kernels.join(part)).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap();
            changed_files += usize::from(text.contains(right));
            fs::write(to.join(entry.file_name()), text.replacen(right, wrong, 1)).unwrap();
        }
    }
    assert_eq!(changed_files, 1, "`{right}` is in {changed_files} files");
    folder.to_owned()
}

#[test]
fn correct_kernels_are_exit_0_with_one_line_each() {
    let outcome =
        check(&["wmma", "--preset", "stage-2", "--problem", "b1h2s17d64-causal-e4m3", "--class", "all"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("15 of 15 runs passed on virtual:l4"), "{outcome}");
    for class in ["normal", "tiny", "signed-zeros"] {
        assert!(outcome.stdout.contains(class), "{outcome}");
    }
    let outcome = check(&["reference", "--problem", "b1h2s5d80-bf16", "--sanitize", "--json"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(document["schema"], "warpsmith.check/1");
    assert_eq!(document["sanitized"], true);
    assert_eq!(document["cases"][0]["outcome"], "passed");
    assert_eq!(document["cases"][0]["problem"], "b1h2s5d80-bf16");
}

#[test]
fn the_error_of_the_compiler_is_printed_once_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = with_fault(folder.path(), "__syncthreads();", "__syncthreadz();");
    let kernels = ["--kernels", kernels.to_str().unwrap()];
    let arguments = ["wmma", "--preset", "stage-2", "--problem", "b1h2s17d64-fp16", "--class", "all"];
    let outcome = check(&[&arguments[..], &kernels].concat());
    assert_eq!(outcome.code, 1, "{outcome}");
    let both = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(both.matches("\"__syncthreadz\" is undefined").count(), 1, "{outcome}");
    assert_eq!(both.matches("failed: wmma stage-2 on").count(), 1, "{outcome}");
    assert!(outcome.stdout.contains("more runs with the same cause)"), "{outcome}");
    let place = outcome.stdout.lines().find(|line| line.trim_start().starts_with("-->")).unwrap();
    assert!(
        place.contains(".cu") && place.split(':').nth(1).is_some_and(|it| it.parse::<u32>().is_ok()),
        "{place}"
    );
}

#[test]
fn a_wrong_kernel_is_reported_with_an_error_map_and_a_repeat_command() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = with_fault(
        // This path must be quoted in the repeat command.
        &folder.path().join("it's $(touch x)"),
        "(blocks - 1 - index % blocks) * BLOCK_M",
        "(blocks - index % blocks) * BLOCK_M",
    );
    let maps = folder.path().join("maps");
    let kernels = kernels.to_str().unwrap();
    let outcome = check(&[
        "wmma",
        "--preset",
        "stage-2",
        "--problem",
        "b1h1s65d64-fp16",
        "--class",
        "normal",
        "--input-seed",
        "1",
        "--kernels",
        kernels,
        "--svg",
        maps.to_str().unwrap(),
    ]);
    assert_eq!(outcome.code, 1, "{outcome}");
    for words in [
        "[unwritten] 2048 elements were never written, the first at [batch 0, head 0, query 0, column 0]",
        "     0 ????????????????",
        "query tiles of 32: only 0 of 0-2",
        "repeat: warpsmith check wmma --preset stage-2 --problem b1h1s65d64-fp16 --class normal --input-seed 1 --device virtual:l4",
        "1 of 1 run failed",
    ] {
        assert!(outcome.stdout.contains(words), "no `{words}` in {outcome}");
    }
    let pictures: Vec<_> = fs::read_dir(&maps).unwrap().flatten().collect();
    assert_eq!(pictures.len(), 1);
    assert!(fs::read_to_string(pictures[0].path()).unwrap().starts_with("<svg"));
    // The printed command gives the same result.
    let repeat =
        outcome.stdout.lines().find_map(|line| line.trim().strip_prefix("repeat: warpsmith ")).unwrap();
    let script = format!("\"$0\" {repeat}");
    let program = warpsmith().get_program().to_owned();
    let mut shell = warpsmith_by("sh");
    let again = run(shell.args(["-c", &script]).arg(program).current_dir(folder.path()));
    assert!(!folder.path().join("x").exists());
    assert_eq!(again.code, 1, "{again}");
    assert!(again.stdout.contains("[unwritten] 2048 elements"), "{again}");
}

#[test]
fn sanitize_shows_a_fault_at_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let right = "scores_from(q, k);\n        compute_sync();";
    let kernels = with_fault(folder.path(), right, "scores_from(q, k);");
    let kernels = kernels.to_str().unwrap();
    let arguments =
        ["wmma", "--preset", "stage-2", "--problem", "b1h1s40d64-fp16", "--kernels", kernels, "--sanitize"];
    let outcome = check(&arguments);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("[race]") && outcome.stdout.contains("kernel.cu:"), "{outcome}");
}

#[test]
fn a_kernel_that_sleeps_forever_is_stopped_by_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    drill(folder.path());
    let kernels = folder.path().to_str().unwrap();
    let problem = "b1h1s8d64-fp16";
    let outcome = check(&["sleeps", "--kernels", kernels, "--problem", problem, "--limit", "0.5"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("its time limit of 0.5 seconds"), "{outcome}");
    // The other classes of inputs would take as long.
    assert!(
        outcome.stdout.contains(&format!("not run, because the kernel did not end on {problem}")),
        "{outcome}"
    );
}

#[test]
fn usage_errors_are_reported_before_anything_is_compiled() {
    for (arguments, words) in [
        (
            &["wmma", "--problem", "b1h1s16d72-fp16"][..],
            "wmma does not support head_dim 72 (it supports 64, 128)",
        ),
        (&["--problem", "b1h1s16d64-e5m2"], "`e5m2` is neither a mask, a feature nor a dtype"),
        (&["wmma", "--preset", "stage-9"], "there is no preset `stage-9` in family wmma"),
        (&["wmma", "--set", "BLOCK_N=48", "--problem", "mission"], "wmma: BLOCK_N cannot be 48"),
        (&["--class", "weird"], "there is no class of inputs `weird`"),
        (&["--suite", "headlin"], "there is no suite `headlin`"),
        (&["nosuch"], "there is no family `nosuch`"),
    ] {
        let outcome = check(arguments);
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(words), "no `{words}` in {outcome}");
    }
}

#[test]
fn a_search_is_the_same_for_the_same_seed_and_tells_the_worst_inputs() {
    let search = |steps: &str| {
        let arguments = ["reference", "--problem", "b1h1sq8sk70d64-fp16", "--input-seed", "4", "--json"];
        let outcome = check(&[&arguments[..], &["--hard", steps]].concat());
        assert_eq!(outcome.code, 0, "{outcome}");
        let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        document["cases"][0].clone()
    };
    let case = search("40");
    let worst = &case["search"];
    assert_eq!(worst["steps"], 40);
    assert!(worst["share"].as_f64().is_some_and(|share| (0.01..=1.0).contains(&share)), "{case}");
    let again = search(&worst["worst_step"].to_string());
    assert_eq!(
        (&again["search"]["share"], &again["search"]["changes"]),
        (&worst["share"], &worst["changes"])
    );
    let outcome = check(&["reference", "--hard", "5", "--class", "sink"]);
    assert_eq!(outcome.code, 2, "{outcome}");
}

#[test]
fn suites_can_be_files_and_their_errors_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let suite =
        "problems = ['b1h1s4d64', { batch = 1, heads = [1, 2], seq = 5, head_dim = 64, causal = true }]";
    fs::write(&path, suite).unwrap();
    let outcome = check(&["wmma", "--preset", "stage-c", "--suite", path.to_str().unwrap()]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("45 of 45 runs passed"), "{outcome}");
    fs::write(&path, "problems = [{ batch = 1, head = 2, seq = 5, head_dim = 64 }]").unwrap();
    let outcome = check(&["--suite", path.to_str().unwrap()]);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("suite mine: a problem has no field `head`"), "{outcome}");
}

#[test]
fn random_problems_are_the_same_for_the_same_seed() {
    let problems = |seed: &str| {
        let outcome = check(&["wmma", "--preset", "stage-5-p1", "--fuzz", "6", "--seed", seed, "--json"]);
        let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert!(
            document["cases"].as_array().unwrap().iter().all(|case| case["outcome"] == "passed"),
            "{outcome}"
        );
        document["cases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|case| case["problem"].to_string())
            .collect::<Vec<_>>()
    };
    let first = problems("3");
    assert!(!first.is_empty());
    assert_eq!(first, problems("3"));
    assert_ne!(first, problems("40"));
}
