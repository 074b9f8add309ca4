//! A run that is killed repeatedly while it writes can be opened every time, and completes without repeating finished
//! work.

use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use warpsmith_runlog::{Event, Manifest, Run, RunOutcome, RunState, Stage, StageKey, StageOutcome, read};

const FOLDER: &str = "WARPSMITH_TEST_KILLED_RUN";
const KEYS: usize = 400;

fn manifest() -> Manifest {
    Manifest::new("bench", vec![], 1)
}

fn key(index: usize) -> StageKey {
    StageKey::new(Stage::Bench, format!("problem {index}"), "subject", "build")
}

/// Not a test: the process that the test kills. It resumes the run in the folder, or creates it, and finishes it.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let run = Run::resume(folder, manifest()).or_else(|_| Run::create(Some(folder), manifest())).unwrap();
    let state = run.state();
    for key in (0..KEYS).map(key).filter(|key| !state.finished(key)) {
        run.record(&Event::StageStarted { key: key.clone() }).unwrap();
        // A long line: if it were not written in one call, many kills would leave a torn line.
        run.record(&Event::Note { text: "x".repeat(20_000) }).unwrap();
        run.record(&Event::StageFinished { key, outcome: StageOutcome::Done }).unwrap();
    }
    run.record(&Event::RunFinished { outcome: RunOutcome::Success }).unwrap();
}

fn start(folder: &Path) -> Child {
    Command::new(std::env::current_exe().expect("the test has a path"))
        .args(["--exact", "child", "--ignored"])
        .env(FOLDER, folder)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the test can be started again")
}

#[test]
fn a_run_survives_being_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let (mut kills, mut torn, mut before) = (0, 0, 0);
    for attempt in 0.. {
        let mut child = start(&folder);
        let finished = loop {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "the child could not resume the run of a killed child");
                break true;
            }
            // Wait for some progress, then kill the child at a moment that differs between attempts.
            let length = std::fs::metadata(folder.join("events.jsonl")).map_or(0, |meta| meta.len());
            if length > before + 500_000 && attempt < 12 {
                sleep(Duration::from_micros(137 * attempt));
                child.kill().unwrap(); // SIGKILL
                child.wait().unwrap();
                break false;
            }
            sleep(Duration::from_millis(1));
        };
        let log = read(&folder).expect("the log of a killed run opens");
        torn += usize::from(!log.warnings.is_empty());
        before = std::fs::metadata(folder.join("events.jsonl")).unwrap().len();
        if finished {
            break;
        }
        kills += 1;
    }
    let log = read(&folder).unwrap();
    let state = RunState::from_log(&log);
    assert!(state.is_complete() && (0..KEYS).all(|index| state.finished(&key(index))));
    for index in 0..KEYS {
        let done =
            |event: &Event| matches!(event, Event::StageFinished { key: found, .. } if *found == key(index));
        assert_eq!(log.records.iter().filter(|record| done(&record.event)).count(), 1, "{index}");
    }
    println!("{kills} kills, {torn} torn lines");
    assert!(kills > 0, "the child was never killed while it wrote");
}
