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
pub fn maze(folder: &Path) {
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
    for (int i = 0; i < knob::WASTE * 256; ++i) waste = i;
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
    let mut command = search(folder, name, arguments);
    command.args(["--limit", "4"]);
    command
}

/// The command that searches the family without a limit of its own. The run is in `folder/NAME`.
pub fn search(folder: &Path, name: &str, arguments: &[&str]) -> Command {
    let mut command = warpsmith();
    command.args(["evolve", "maze", "--device", "virtual:l4", "--problem", PROBLEM]);
    command.arg("--kernels").arg(folder).arg("--run-dir").arg(folder.join(name)).args(arguments);
    command.current_dir(folder);
    command
}

/// The logged trials of a run, without their times.
pub fn trials(folder: &Path, name: &str) -> Vec<Value> {
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

/// Makes a finished run resumable, and changes the last timed trial in its log.
fn forge(folder: &Path, name: &str, change: impl Fn(&mut Value)) {
    let path = folder.join(name).join("events.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let mut events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    events.truncate(events.iter().rposition(|event| event["kind"] == "tried").unwrap() + 1);
    let is_timed = |event: &Value| event["kind"] == "tried" && event["trial"]["result"]["result"] == "timed";
    let last = events.iter().rposition(is_timed).unwrap();
    let result = &mut events[last]["trial"]["result"];
    result["elite"] = true.into();
    change(result);
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
}

/// The name of the run, the change of the last timed trial, and a part of the note about it.
type Forgery<'a> = (&'a str, &'a dyn Fn(&mut Value), &'a str);

#[test]
fn a_forged_time_in_a_resumed_log_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    maze(folder.path());
    let table = folder.path().join("picks.toml");
    let flags = ["--tuned", table.to_str().unwrap()];
    let arguments = ["--budget", "3", "--seed", "5", "--input-seed", "5", flags[0], flags[1]];
    let honest = run(&mut evolve(folder.path(), "honest", &arguments));
    assert_eq!(honest.code, 0, "{honest}");
    let picks = |name: &str| {
        let text = fs::read_to_string(folder.path().join(name).join("tuned.toml")).unwrap();
        let knobs = |line: &&str| !line.starts_with("commit");
        text.lines().filter(knobs).collect::<Vec<_>>().join("\n")
    };
    let forgeries: [Forgery<'_>; 3] = [
        // A virtual GPU has no measured times.
        (
            "measured",
            &|result| {
                result["problems"][0]["time"] = serde_json::json!({ "measured_us": 0.001 });
                result["problems"][0]["speedup"] = 9000.0.into();
                result["score"] = 9000.0.into();
            },
            "only modelled times",
        ),
        (
            "below the floor",
            &|result| {
                result["problems"][0]["time"] = serde_json::json!({ "modelled_us": 0.001 });
                result["problems"][0]["speedup"] = 9000.0.into();
                result["score"] = 9000.0.into();
            },
            "is not a plausible time",
        ),
        (
            "plausible",
            &|result| {
                let time = result["problems"][0]["baseline"]["modelled_us"].as_f64().unwrap() / 2.0;
                result["problems"][0]["time"] = serde_json::json!({ "modelled_us": time });
                result["problems"][0]["speedup"] = 2.0.into();
                result["score"] = 2.0.into();
            },
            "was measured again: the log has",
        ),
    ];
    for (name, forgery, note) in forgeries {
        fs::remove_file(&table).unwrap();
        let copied = run(&mut evolve(folder.path(), name, &arguments));
        assert_eq!(copied.code, 0, "{copied}");
        fs::remove_file(folder.path().join(name).join("tuned.toml")).unwrap();
        forge(folder.path(), name, forgery);
        let resumed = run(&mut evolve(folder.path(), name, &["--resume", flags[0], flags[1]]));
        assert_eq!(resumed.code, 0, "{name}\n{resumed}");
        assert_eq!(picks(name), picks("honest"), "{name}\n{resumed}");
        assert!(!fs::read_to_string(&table).unwrap().contains("measured_us"), "{name}");
        let log = fs::read_to_string(folder.path().join(name).join("events.jsonl")).unwrap();
        assert!(log.lines().any(|line| line.contains("\"note\"") && line.contains(note)), "{name}\n{log}");
    }
    // A forged baseline would make every candidate look fast.
    let before = picks("honest");
    let path = folder.path().join("honest/events.jsonl");
    forge(folder.path(), "honest", |_| ());
    let text = fs::read_to_string(&path).unwrap();
    let resume_with_slow_baseline = |is_consistent: bool| {
        let slow = |line: &str| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            let result = &mut event["trial"]["result"];
            let slow = serde_json::json!({ "modelled_us": 5000.0 });
            if result["result"] == "timed" {
                let is_baseline = result["score"] == 1.0;
                let of = &mut result["problems"][0];
                if is_baseline {
                    of["time"] = slow.clone();
                }
                if is_consistent {
                    of["baseline"] = slow;
                    of["speedup"] = (5000.0 / of["time"]["modelled_us"].as_f64().unwrap()).into();
                    result["score"] = result["problems"][0]["speedup"].clone();
                }
            }
            event.to_string() + "\n"
        };
        fs::write(&path, text.lines().map(slow).collect::<String>()).unwrap();
        run(&mut evolve(folder.path(), "honest", &["--resume", flags[0], flags[1]]))
    };
    // A time that contradicts the speedups is left out of the log, and the trial runs again.
    let resumed = resume_with_slow_baseline(false);
    assert_eq!(resumed.code, 0, "{resumed}");
    assert_eq!(picks("honest"), before, "{resumed}");
    let resumed = resume_with_slow_baseline(true);
    assert_eq!(resumed.code, 2, "{resumed}");
    assert!(resumed.stderr.contains("was measured again: the log has 5000.00 us"), "{resumed}");
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
