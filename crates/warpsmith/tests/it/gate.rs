//! Tests of the guards for CI without a GPU: a sample repository with a family of kernels, changed in several ways.

#[path = "../../../report/tests/data/sarif/validator.rs"]
mod validator;

use std::fs;
use std::path::Path;

use runlog::{Event, Fact, Manifest, ResultId, Run as Folder, RunOutcome};
use serde_json::Value;
use tempfile::TempDir;
use validator::sarif_error;

use crate::common::{Run, run, warpsmith};

const PROBLEM: &str = "b1h1s16d64-fp16";
const SOURCE: &str = "kernels/attention/good/kernel.cu";

/// A repository with one family, a copy of the reference kernel without limits.
fn repository() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention");
    let own = folder.path().join("kernels/attention");
    fs::create_dir_all(own.join("common")).unwrap();
    fs::create_dir_all(own.join("good")).unwrap();
    for entry in fs::read_dir(built_in.join("common")).unwrap().flatten() {
        fs::copy(entry.path(), own.join("common").join(entry.file_name())).unwrap();
    }
    let manifest = fs::read_to_string(built_in.join("reference/kernel.toml")).unwrap();
    let (manifest, _) = manifest.split_once("[limits]").unwrap();
    fs::write(own.join("good/kernel.toml"), manifest).unwrap();
    fs::copy(built_in.join("reference/kernel.cu"), own.join("good/kernel.cu")).unwrap();
    folder
}

/// Replaces text in the kernel and returns the number of the changed line.
fn change(folder: &Path, from: &str, to: &str) -> usize {
    let text = fs::read_to_string(folder.join(SOURCE)).unwrap();
    let start = text.find(from).unwrap_or_else(|| panic!("no `{from}`"));
    fs::write(folder.join(SOURCE), text.replacen(from, to, 1)).unwrap();
    text[..start].lines().count()
}

fn bench(folder: &Path, run_dir: &str) -> Run {
    let mut command = warpsmith();
    command.current_dir(folder).args(["bench", "good", "--device", "virtual:l4", "--problem", PROBLEM]);
    run(command.args(["--baseline", "none", "--kernels", "kernels", "--run-dir", run_dir]))
}

fn gate(folder: &Path, run_dir: &str, flags: &[&str]) -> Run {
    let mut command = warpsmith();
    command.current_dir(folder).args(["gate", "--leaderboard", "leaderboard.json", "--run-dir", run_dir]);
    run(command.args(flags))
}

const ALL_FORMATS: [&str; 7] =
    ["--github", "--sarif", "out.sarif", "--junit", "out.xml", "--summary", "out.md"];

/// The results of the SARIF file, after validation.
fn sarif_results(folder: &Path) -> Vec<Value> {
    let log: Value = serde_json::from_str(&fs::read_to_string(folder.join("out.sarif")).unwrap()).unwrap();
    assert_eq!(sarif_error(&log), None, "{log:#}");
    log["runs"][0]["results"].as_array().unwrap().clone()
}

/// The lines that GitHub Actions executes. It removes spaces before `::`, and reads both streams.
fn workflow_commands(outcome: &Run) -> Vec<String> {
    let lines = outcome.stdout.lines().chain(outcome.stderr.lines()).map(str::trim_start);
    let is_command = |line: &&str| line.starts_with("::") && !line.starts_with(":::") || line.contains("##[");
    lines.filter(is_command).map(str::to_owned).collect()
}

#[test]
fn a_gate_without_a_gpu_passes_clean_changes_and_fails_costly_ones() {
    let folder = repository();
    let folder = folder.path();
    let outcome = bench(folder, "first");
    assert_eq!(outcome.code, 0, "{outcome}");
    // Nothing is on record: incomplete, and nothing is written without --update.
    let outcome = gate(folder, "first", &[]);
    assert_eq!(outcome.code, 4, "{outcome}");
    assert!(outcome.stdout.contains("run `gate --update` to record one"), "{outcome}");
    assert!(!folder.join("leaderboard.json").exists());
    let outcome = gate(folder, "first", &["--update"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("recorded") && outcome.stdout.contains("(modelled)"), "{outcome}");
    assert!(outcome.stdout.contains("nothing was measured"), "{outcome}");

    let board = fs::read_to_string(folder.join("leaderboard.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let record = &board["counted"][0];
    assert_eq!((&record["device"], &record["candidate"]), (&"virtual l4".into(), &"good default".into()));
    let instructions = record["counts"]["instructions"].as_u64().unwrap();

    // A change of a comment and a new run, with other inputs.
    change(folder, "// Unfused attention:", "// Attention without fusion:");
    assert_eq!(bench(folder, "clean").code, 0);
    let outcome = gate(folder, "clean", &ALL_FORMATS);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(workflow_commands(&outcome), [""; 0], "{outcome}");
    assert_eq!(sarif_results(folder), [Value::Null; 0]);
    assert!(fs::read_to_string(folder.join("out.md")).unwrap().starts_with("### warpsmith gate: passed"));
    assert!(fs::read_to_string(folder.join("out.xml")).unwrap().contains("failures=\"0\" errors=\"0\""));

    // More instructions: every one of the 64 warps executes these once.
    let source = fs::read_to_string(folder.join(SOURCE)).unwrap();
    let start = "    const int row = blockIdx.x,";
    let with_instructions = |share: f64| {
        let count = (share * instructions as f64 / 64.0).ceil() as usize;
        let line = "asm volatile(\"add.u32 %0, %0, 1;\" : \"+r\"(extra)); ".repeat(count);
        change(folder, start, &format!("    unsigned extra = 0; {line}\n{start}"));
    };
    with_instructions(0.01);
    assert_eq!(bench(folder, "one-percent").code, 0);
    let outcome = gate(folder, "one-percent", &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    fs::write(folder.join(SOURCE), &source).unwrap();
    with_instructions(0.05);
    assert_eq!(bench(folder, "five-percent").code, 0);
    let outcome = gate(folder, "five-percent", &ALL_FORMATS);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("warp instructions: ") && outcome.stdout.contains("+5."), "{outcome}");
    let commands = workflow_commands(&outcome);
    assert!(commands[0].starts_with("::error file=leaderboard.json,title="), "{outcome}");
    let rules: Vec<Value> = sarif_results(folder).iter().map(|it| it["ruleId"].clone()).collect();
    assert!(rules.contains(&"instructions-increased".into()), "{rules:?}");
    let summary = fs::read_to_string(folder.join("out.md")).unwrap();
    assert!(summary.contains("instructions-increased") && summary.contains("on record"), "{summary}");
    // A failing run is never recorded.
    let before = fs::read(folder.join("leaderboard.json")).unwrap();
    assert_eq!(gate(folder, "five-percent", &["--update"]).code, 1);
    assert_eq!(fs::read(folder.join("leaderboard.json")).unwrap(), before);

    // A spill.
    fs::write(folder.join(SOURCE), &source).unwrap();
    change(folder, "__launch_bounds__(reference::THREADS)", "__maxnreg__(24)");
    let outcome = bench(folder, "spill");
    assert_eq!(outcome.code, 0, "{outcome}");
    let outcome = gate(folder, "spill", &ALL_FORMATS);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("spilled bytes per thread: "), "{outcome}");
    let rules: Vec<Value> = sarif_results(folder).iter().map(|it| it["ruleId"].clone()).collect();
    assert!(rules.contains(&"spills-increased".into()), "{rules:?}");
}

#[test]
fn times_on_inputs_of_a_class_are_not_compared_with_the_leaderboard() {
    let folder = repository();
    let mut command = warpsmith();
    command.current_dir(folder.path()).args([
        "bench",
        "good",
        "--device",
        "virtual:l4",
        "--problem",
        PROBLEM,
    ]);
    command.args(["--baseline", "none", "--kernels", "kernels", "--run-dir", "runs/sink", "--class", "sink"]);
    let timed = run(&mut command);
    assert_eq!(timed.code, 0, "{timed}");
    assert!(timed.stdout.contains("good default on sink"), "{timed}");
    let outcome = gate(folder.path(), "runs/sink", &["--update"]);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("class of its own"), "{outcome}");
    assert!(!folder.path().join("leaderboard.json").exists());
    let mut unknown = warpsmith();
    unknown.args(["bench", "reference", "--class", "sinks", "--device", "virtual:l4"]);
    assert_eq!(run(&mut unknown).code, 2);
}

#[test]
fn a_race_fails_without_a_gpu_with_an_annotation_at_its_line() {
    let folder = repository();
    let folder = folder.path();
    let barrier = "    __syncthreads();  // the previous reduction has been read\n";
    let line = change(folder, barrier, "");
    let mut command = warpsmith();
    command.current_dir(folder).args(["check", "good", "--sanitize", "--device", "virtual:l4"]);
    command.args(["--problem", PROBLEM, "--class", "normal", "--kernels", "kernels"]);
    let outcome = run(command.args(ALL_FORMATS));
    assert_eq!(outcome.code, 1, "{outcome}");
    // The write of a reduction, now the first line of its function, conflicts with the reads of the previous one.
    let place = format!("::error file={SOURCE},line={},", line + 1);
    let commands = workflow_commands(&outcome);
    assert!(commands.iter().any(|it| it.starts_with(&place) && it.contains("race")), "no {place}: {outcome}");
    let results = sarif_results(folder);
    let race =
        results.iter().find(|result| result["ruleId"] == "race").unwrap_or_else(|| panic!("{outcome}"));
    let uri = |location: &Value| location["physicalLocation"]["artifactLocation"]["uri"].clone();
    assert_eq!(uri(&race["locations"][0]), SOURCE);
    assert_eq!(uri(&race["relatedLocations"][0]), SOURCE);
    assert!(fs::read_to_string(folder.join("out.md")).unwrap().contains(&format!("{SOURCE}:")));
    // The fingerprint stays the same when other lines move.
    change(folder, "#include \"generated.cuh\"", "// One more line.\n\n#include \"generated.cuh\"");
    assert_eq!(run(&mut command).code, 1);
    let moved = sarif_results(folder);
    let prints = |results: &[Value]| {
        let races = results.iter().filter(|result| result["ruleId"] == "race");
        races.map(|result| result["partialFingerprints"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(prints(&results), prints(&moved));
    // A bench under the checkers fails too, and the gate after it.
    let outcome = bench(folder, "race");
    assert_eq!(outcome.code, 1, "{outcome}");
    let outcome = gate(folder, "race", &["--update"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("[race]"), "{outcome}");
    assert!(!folder.join("leaderboard.json").exists());
}

#[test]
fn sanitize_writes_every_format_for_a_source_file() {
    const RACE: &str = "\
// warpsmith: --kernel k --grid 1 --block 64 --arg y=out,f32[64]
extern \"C\" __global__ void k(float* y)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = 1.0f;
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("src")).unwrap();
    let sanitize = |source: &str| {
        fs::write(folder.join("src/k.cu"), source).unwrap();
        let _ = fs::remove_file(folder.join("out.md"));
        run(warpsmith().current_dir(folder).args(["sanitize", "src/k.cu"]).args(ALL_FORMATS))
    };
    let outcome = sanitize(RACE);
    assert_eq!(outcome.code, 1, "{outcome}");
    let commands = workflow_commands(&outcome);
    assert!(commands.iter().any(|it| it.starts_with("::error file=src/k.cu,line=")), "{outcome}");
    let results = sarif_results(folder);
    let race =
        results.iter().find(|result| result["ruleId"] == "race").unwrap_or_else(|| panic!("{outcome}"));
    let lines: Vec<&Value> = [&race["locations"][0], &race["relatedLocations"][0]]
        .map(|location| &location["physicalLocation"]["region"]["startLine"])
        .to_vec();
    assert!(lines.contains(&&5.into()) && lines.contains(&&6.into()), "{lines:?}");
    assert!(fs::read_to_string(folder.join("out.xml")).unwrap().contains("<failure type="));

    let outcome = sanitize(&RACE.replace("    y[", "    __syncthreads();\n    y["));
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(workflow_commands(&outcome).is_empty() && sarif_results(folder).is_empty(), "{outcome}");
    assert!(fs::read_to_string(folder.join("out.md")).unwrap().contains("sanitize: passed"));

    let outcome = sanitize(&RACE.replace("float tile", "floot tile"));
    assert_eq!(outcome.code, 1, "{outcome}");
    let commands = workflow_commands(&outcome);
    assert!(commands.iter().any(|it| it.starts_with("::error file=src/k.cu,line=4,")), "{outcome}");
    assert_eq!(sarif_results(folder)[0]["ruleId"], "does-not-compile");

    // A kernel cannot place a finding in another file, print a command or end the XML.
    let hostile = RACE
        .replace(
            "    tile[threadIdx.x] = 1",
            "    printf(\"\\n  ::error::x\\n##[error]y\\n]]>\\n\");\n    tile[threadIdx.x] = 1",
        )
        .replace("    y[", "#line 1 \"/etc/passwd\"\n    y[")
        .replace("tile", "a_tile");
    let outcome = sanitize(&hostile);
    assert_eq!(outcome.code, 1, "{outcome}");
    for command in workflow_commands(&outcome) {
        assert!(command.starts_with("::error ") && !command.contains("passwd"), "{command}");
        assert!(!command.starts_with("::error::"), "{command}");
    }
    assert!(!fs::read_to_string(folder.join("out.sarif")).unwrap().contains("passwd"), "{outcome}");
}

#[test]
fn a_log_cannot_add_workflow_commands_or_markup() {
    let evil =
        "x\n::error::forged\r\n  ::stop-commands::t ##[group]g ]]></failure> | `a` <b> %0A::error::\u{1b}[2J";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let manifest = Manifest {
        gpu: Fact::Known(evil.to_owned()),
        device: Fact::Known("virtual:l4".to_owned()),
        ..Manifest::new("bench", vec!["warpsmith".to_owned(), "bench".to_owned()], 1)
    };
    let log = Folder::create(Some(&folder.join("run")), manifest).unwrap();
    for subject in [evil, "::error::forged", "##[error]forged"] {
        log.record(&Event::CandidateFailed {
            of: ResultId::new(subject, subject, "b"),
            stage: runlog::Stage::Check,
            failure: runlog::FailureKind::WrongAnswer,
            reason: evil.to_owned(),
        })
        .unwrap();
    }
    log.record(&Event::RunFinished { outcome: RunOutcome::Success }).unwrap();
    drop(log);
    for flags in [&ALL_FORMATS[..], &["--json", "--github"]] {
        let outcome = gate(folder, "run", flags);
        assert_eq!(outcome.code, 1, "{outcome}");
        let commands = workflow_commands(&outcome);
        assert_eq!(commands.len(), 3, "{outcome}");
        for command in &commands {
            assert!(command.starts_with("::error file=leaderboard.json,title="), "{command}");
        }
    }
    // Without --github there are no commands at all.
    assert_eq!(workflow_commands(&gate(folder, "run", &[])), [""; 0]);
    assert_eq!(sarif_results(folder).len(), 3);
    let xml = fs::read_to_string(folder.join("out.xml")).unwrap();
    assert_eq!((xml.matches("<failure ").count(), xml.matches("</failure>").count()), (3, 3), "{xml}");
    let summary = fs::read_to_string(folder.join("out.md")).unwrap();
    assert!(!summary.lines().any(|line| line.trim_start().starts_with("::")), "{summary}");
}

#[test]
fn impossible_times_do_not_pass_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let entry = r#"{"device":"NVIDIA H200","problem":"b1h8s512d64-fp16","timer":"graph-hot","candidate":"mma","build":"3f9a","commit":"unavailable: no git","recorded":"2026-11-15T05:47:10.123Z","p50_us":10.0,"interval_us":{"low":9.9,"high":10.1},"speedups":[],"samples_us":[9.9,10.0,10.1]}"#;
    let board = folder.join("leaderboard.json");
    fs::write(&board, format!(r#"{{"schema":1,"best":[{entry}]}}"#)).unwrap();
    let mut events = runlog::testing::bench_log();
    for event in &mut events {
        if let Event::Sampled { sampled, .. } = event {
            sampled.samples_ns.iter_mut().for_each(|nanos| *nanos = 0.1);
            sampled.work = None;
        }
    }
    fs::create_dir(folder.join("run")).unwrap();
    runlog::testing::write(&folder.join("run"), &events);
    let outcome = gate(folder, "run", &["--update"]);
    assert_ne!(outcome.code, 0, "{outcome}");
    assert!(outcome.stderr.contains("ignoring the measurement of"), "{outcome}");
    assert!(outcome.stdout.contains("0 improved"), "{outcome}");
    // A leaderboard with such a time is refused, whatever its size.
    for (from, to, reason) in [
        ("NVIDIA H200", "virtual h200", "only modelled times"),
        ("10.0,\"interval", "0.0001,\"interval", "not a plausible time"),
        ("10.0,\"interval", "1e300,\"interval", "not a plausible time"),
    ] {
        fs::write(&board, format!(r#"{{"schema":1,"best":[{}]}}"#, entry.replacen(from, to, 1))).unwrap();
        let outcome = gate(folder, "run", &[]);
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(reason) && outcome.stderr.len() < 500, "{outcome}");
    }
}

#[test]
fn the_work_of_a_problem_is_that_of_the_ops_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut events = runlog::testing::bench_log();
    for event in &mut events {
        if let Event::Sampled { sampled, .. } = event {
            sampled.work = None;
        }
    }
    fs::create_dir(folder.join("run")).unwrap();
    runlog::testing::write(&folder.join("run"), &events);
    let path = folder.join("run/events.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let problem = runlog::testing::PROBLEM;
    // 10 us are enough for this attention, and too short for 137 GFLOP. The command line names no op.
    for (problem, subject, is_possible) in
        [(problem, "wmma stage-2", true), ("m4096-n4096-k4096-fp16-none", "tiles default", false)]
    {
        let text = text.replace(runlog::testing::PROBLEM, problem).replace("wmma stage-2", subject);
        fs::write(&path, text).unwrap();
        let outcome = gate(folder, "run", &[]);
        let warning = format!("ignoring the measurement of {subject}");
        assert_eq!(!outcome.stderr.contains(&warning), is_possible, "{outcome}");
    }
}

#[test]
fn an_old_leaderboard_is_read_and_its_entries_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let entry = r#"{"device":"NVIDIA H200","problem":"p","timer":"graph-hot","candidate":"mma","build":"3f9a","commit":"unavailable: no git","recorded":"2026-11-15T05:47:10.123Z","p50_us":10.0,"interval_us":{"low":9.9,"high":10.1},"speedups":[],"samples_us":[9.9,10.0,10.1]}"#;
    fs::write(folder.join("leaderboard.json"), format!(r#"{{"schema":1,"best":[{entry}]}}"#)).unwrap();
    let manifest = |device: &str| Manifest {
        gpu: Fact::Known("virtual l4".to_owned()),
        device: Fact::Known(device.to_owned()),
        ..Manifest::new("bench", vec!["warpsmith".to_owned(), "bench".to_owned()], 1)
    };
    let log = Folder::create(Some(&folder.join("run")), manifest("virtual:l4")).unwrap();
    log.record(&Event::RunFinished { outcome: RunOutcome::Success }).unwrap();
    drop(log);
    // An empty run is incomplete.
    let outcome = gate(folder, "run", &["--update"]);
    assert_eq!(outcome.code, 4, "{outcome}");
    // A log of an older version has no counts.
    let log = Folder::create(Some(&folder.join("old")), manifest("virtual:l4")).unwrap();
    drop(log);
    let path = folder.join("old/events.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    let of = r#""of":{"problem":"p","subject":"mma","build":"3f9a"}"#;
    for (index, event) in [
        r#""kind":"checked",OF,"check":{"passed":true,"error":0.0,"limit":0.1,"cases":3}"#,
        r#""kind":"modelled",OF,"modelled":{"gpu":"l4","time_us":5.0,"limiter":"l2","work":null}"#,
    ]
    .iter()
    .enumerate()
    {
        let seq = index + 1;
        let event = event.replace("OF", of);
        text += &format!("{{\"schema\":1,\"seq\":{seq},\"time\":\"2031-01-01T00:00:00.000Z\",{event}}}\n");
    }
    fs::write(&path, text).unwrap();
    let outcome = gate(folder, "old", &["--update"]);
    assert_eq!(outcome.code, 4, "{outcome}");
    assert!(outcome.stdout.contains("did not run under the checkers"), "{outcome}");
    assert!(fs::read_to_string(folder.join("leaderboard.json")).unwrap().contains("NVIDIA H200"));
}

#[test]
fn an_output_that_cannot_be_written_is_a_usage_error_before_the_work() {
    let folder = repository();
    for arguments in [
        &["gate", "--leaderboard", "b.json", "--sarif", "nowhere/x.sarif"][..],
        &["check", "good", "--kernels", "kernels", "--junit", "nowhere/x.xml"],
        &["sanitize", "good", "--kernels", "kernels", "--summary", "kernels"],
        &["sanitize", SOURCE, "--sarif", "nowhere/x"],
    ] {
        let outcome = run(warpsmith().current_dir(folder.path()).args(arguments));
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains("cannot write "), "{outcome}");
    }
}
