//! Tests of a bench with several processes, without a GPU. Every worker is a fake: it forwards builds and launches to a
//! real worker on the virtual GPU, so that outputs are correct and judged, and it invents the times. A test plans what
//! each process of a subject does, in the order in which the processes start.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use attention::Attention;
use chips::Target;
use compiler::Compiler;
use family::Catalog;
use gpu::device::Device;
use lab::bench::{self, BenchPlan, Subject};
use lab::worker::WorkerCommands;
use lab::worker::{Limits, Worker, WorkerError, WorkerReply, WorkerRequest};
use lab::{Session, StageError};
use op::{OpInputs as _, OpPeers as _, OpProblems as _};
use runlog::{Event, Manifest, Row, Run, RunState, Timer, read, rows};
use serde_json::Value;
use stats::{Stopping, Verdict};

use crate::common::{target_tmp, warpsmith};

const PROBLEM: &str = "b1h1s16d64-fp16";

/// The fake worker. Its arguments are its behaviour and the command of the real worker.
const FAKE_WORKER: &str = r#"
import json, os, socket, struct, subprocess, sys, time

class Channel:
    def __init__(self, channel):
        self.channel = channel

    def read(self, count):
        data = b""
        while len(data) < count:
            got = self.channel.recv(count - len(data))
            if not got:
                sys.exit()
            data += got
        return data

    def receive(self):
        length, attachments = struct.unpack("<II", self.read(8))
        lengths = struct.unpack(f"<{attachments}Q", self.read(8 * attachments))
        message = json.loads(self.read(length))
        return message, [self.read(each) for each in lengths]

    def send(self, message, attachments=()):
        text = json.dumps(message).encode()
        lengths = struct.pack(f"<{len(attachments)}Q", *map(len, attachments))
        start = struct.pack("<II", len(text), len(attachments)) + lengths + text
        self.channel.sendall(start + b"".join(attachments))

does = json.loads(sys.argv[1])
parent = Channel(socket.socket(fileno=int(os.environ["WARPSMITH_CHANNEL"])))
ours, theirs = socket.socketpair()
environment = dict(os.environ, WARPSMITH_CHANNEL=str(theirs.fileno()))
subprocess.Popen(sys.argv[2:], env=environment, pass_fds=[theirs.fileno()])
theirs.close()
inner = Channel(ours)

def real(ask):
    inner.send(ask)
    return inner.receive()

def step(inputs):
    return {"inputs": inputs, "outputs": "poisoned", "moved": False, "same_as": None}

taken = 0
built = None
while True:
    ask, _ = parent.receive()
    attached = []
    kind = ask["ask"]
    if kind == "hello":
        said = {"say": "ready", "version": "torch 0"}
    elif kind == "load":
        candidate = {"family": "attention/reference", "preset": "default", "knobs": []}
        problem = "b{batch}h{heads}s{seq_q}d{head_dim}-{dtype}".format(**ask["fields"])
        assert real({"ask": "build", "candidate": candidate, "problem": problem})[0]["say"] == "built"
        said = {"say": "loaded"}
    elif kind == "arm":
        said = {"say": "armed", "launches": 1}
    elif kind == "verify":
        real(built)
        run = {"ask": "run", "draws": ask["draws"], "steps": [step(0), step(1)], "seed": ask["seed"], "checks": "none"}
        said, attached = real(run)
        repeats = {"repeated_ns": 1000.0, "fresh_ns": 9000.0 if does == "remembers" else 1000.0}
        said = {"say": "verified", "launches": said["launches"], "repeats": repeats}
        if does == "wrong later":
            attached = [b"\0" * len(each) for each in attached]
    elif kind == "sample":
        taken += ask["count"]
        if does == "dies" and taken > 2:
            os._exit(7)
        if does == "stalls" and taken > 2:
            time.sleep(600)
        micros = does if isinstance(does, (int, float)) else 50.0
        said = {"say": "samples", "ns": [micros * (1000.0 + taken * 7 % 11 / 4) for _ in range(ask["count"])]}
    else:
        said, attached = real(ask)
        if kind == "build":
            built = ask
        if kind == "run" and does in ("wrong", "wrong at first"):
            does = "wrong" if does == "wrong" else 50.0
            attached = [b"\0" * len(each) for each in attached]
    parent.send(said, attached)
"#;

/// What the processes of each subject do, as a JSON list: a time in microseconds, or a failure.
struct Scenario<'w> {
    problems: &'w [&'w str],
    peer: &'w str,
    reference: &'w str,
    wmma: &'w str,
    errors: bool,
}

const NO_FAILURES: Scenario<'_> =
    Scenario { problems: &[PROBLEM], peer: "[75.7]", reference: "[90]", wmma: "[50]", errors: false };

/// The command of a subject's next process. Processes after the planned ones behave like the last planned one. Folders
/// in `folder` count the processes.
fn fake_worker(folder: &Path, name: &str, plan: &str) -> Command {
    let plan: Vec<Value> = serde_json::from_str(plan).unwrap();
    let is_new = |number: &usize| fs::create_dir(folder.join(format!("{name} {number}"))).is_ok();
    let number = (0..100).find(is_new).unwrap();
    let does = &plan[number.min(plan.len() - 1)];
    let script = folder.join("fake_worker.py");
    fs::write(&script, FAKE_WORKER).unwrap();
    let real = warpsmith();
    let mut command = Command::new(subprocess::python::interpreter().expect("tests need Python"));
    command.arg(script).arg(does.to_string()).arg(real.get_program());
    command.args(["worker", name, "--device", "virtual:l4"]);
    for (variable, value) in real.get_envs() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    command
}

impl Scenario<'_> {
    /// Runs a bench with `processes` per subject into this run. The fake workers use the folder.
    fn bench(
        &self,
        (folder, run): (&Path, &Run),
        processes: usize,
        stop: &AtomicBool,
    ) -> Result<(), StageError> {
        let catalog = Catalog::load(None).unwrap();
        let compiler = Compiler::new(
            compiler::testing::pinned_toolchain(target_tmp()),
            &compiler::testing::shared_cache(target_tmp()),
        );
        let kernel = |family: &str, preset: &str| {
            Subject::kernel(catalog.family(family).unwrap(), Some(preset.to_owned()), Vec::new())
        };
        let reference = kernel("reference", "default");
        let plan = BenchPlan {
            device: Device::Cuda { index: 0, name: "a fake GPU".to_owned(), target: Target::Sm89 },
            subjects: vec![
                Subject::peer("pytorch", "math"),
                Subject { is_baseline: true, is_candidate: false, ..reference },
                kernel("wmma", "stage-2"),
            ],
            problems: self.problems.iter().flat_map(|name| Attention.problems(name).unwrap()).collect(),
            processes,
            class: None,
            timers: vec![Timer::GraphHot],
            stopping: Stopping { least: 24, most: Some(24), ..Stopping::default() },
            warmup: 1,
            ceilings: false,
            limits: Limits {
                build: Duration::from_mins(3),
                answer: Duration::from_mins(2),
                resident_bytes: 1 << 40,
            },
            seed: 1,
            secret: 1,
            targets: Vec::new(),
            errors: self.errors,
        };
        let start = WorkerCommands {
            kernel: Box::new(|name| {
                fake_worker(folder, name, if name.starts_with("wmma") { self.wmma } else { self.reference })
            }),
            untrusted: Box::new(|_, _, _| Command::new("false")),
            peer: Ok(Box::new(|_, _| fake_worker(folder, "pytorch math", self.peer))),
        };
        let session = Session {
            op: &Attention,
            compiler: &compiler.unwrap(),
            start: &start,
            run,
            stop,
            tell: &|text| println!("{text}"),
        };
        bench::run(&session, &plan)
    }
}

/// The peers' script and the parent use the same protocol, even without torch or without a GPU.
#[test]
fn the_script_of_the_peers_answers_requests() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("peers.py");
    fs::write(&script, subprocess::wire::with_python(&Attention.peers().unwrap().script)).unwrap();
    let mut command = Command::new(subprocess::python::interpreter().expect("tests need Python"));
    command.arg(script).args(["0", "fa3"]);
    let timeout = Duration::from_mins(2);
    let limits = Limits { build: timeout, answer: timeout, resident_bytes: 1 << 40 };
    let mut worker = Worker::start(command, limits).unwrap();
    let stop = AtomicBool::new(false);
    for _ in 0..2 {
        match worker.ask(&WorkerRequest::Hello, &stop) {
            Ok(WorkerReply::Ready { version }) => assert!(version.starts_with("torch"), "{version}"),
            Err(WorkerError::Failed { reason, .. }) => assert!(reason.contains("torch"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

/// A `torch` that answers everything, so that the script gets as far as the peer's own package.
const FAKE_TORCH: &str = r#"
import sys
from unittest.mock import MagicMock

torch = MagicMock(__version__="2.11.0")
torch.cuda.OutOfMemoryError = MemoryError
torch.cuda.get_device_capability.return_value = (9, 0)
for name in ["torch.nn", "torch.nn.functional", "torch.nn.attention"]:
    sys.modules[name] = MagicMock()
sys.modules["torch"] = torch
"#;

/// What the script of a peer says to the first request, with this value of `WARPSMITH_FA3`.
fn hello_of_fa3(library: &str) -> Result<WorkerReply, WorkerError> {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("peers.py");
    fs::write(&script, subprocess::wire::with_python(&Attention.peers().unwrap().script)).unwrap();
    fs::write(folder.path().join("torch.py"), FAKE_TORCH).unwrap();
    let mut command = Command::new(subprocess::python::interpreter().expect("tests need Python"));
    command.arg(script).args(["0", "fa3"]).env("PYTHONPATH", folder.path()).env("WARPSMITH_FA3", library);
    let timeout = Duration::from_mins(2);
    let limits = Limits { build: timeout, answer: timeout, resident_bytes: 1 << 40 };
    let mut worker = Worker::start(command, limits).unwrap();
    worker.ask(&WorkerRequest::Hello, &AtomicBool::new(false))
}

#[test]
fn a_missing_library_of_flash_attention_3_is_reported_with_the_way_to_build_it() {
    for (library, words) in [("", "is missing"), ("/nowhere/fa3.so", "no file /nowhere/fa3.so")] {
        match hello_of_fa3(library) {
            Err(WorkerError::Failed { reason, .. }) => {
                assert!(reason.contains(words) && reason.contains("build_fa3.sh"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Functions of the full library that were left out are undefined. The library must load nevertheless.
#[test]
fn a_library_of_flash_attention_3_tells_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("fa3.c"), folder.path().join("fa3.so"));
    let text = "void left_out(void); void call(void) { left_out(); }\n\
                const char *warpsmith_peer_version(void) { return \"flash-attention-3 3.0.0, commit 0251105a\"; }\n";
    fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.unwrap().success());
    let reply = hello_of_fa3(library.to_str().unwrap());
    let Ok(WorkerReply::Ready { version }) = reply else { panic!("{reply:?}") };
    assert!(version.ends_with(", flash-attention-3 3.0.0, commit 0251105a"), "{version}");
}

fn manifest() -> Manifest {
    Manifest::new("bench", Vec::new(), 1)
}

/// The state of a new run of the scenario.
fn measured(scenario: &Scenario<'_>, processes: usize) -> RunState {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(Some(&folder.path().join("run")), manifest()).unwrap();
    scenario.bench((folder.path(), &run), processes, &AtomicBool::new(false)).unwrap();
    run.state()
}

fn row<'r>(rows: &'r [Row], subject: &str) -> &'r Row {
    rows.iter().find(|row| row.of.subject == subject).unwrap_or_else(|| panic!("no {subject} in {rows:?}"))
}

#[test]
fn a_subject_with_two_speeds_has_a_wide_interval_and_does_not_widen_others() {
    let state = measured(&Scenario { peer: "[75.7, 75.7, 82.1]", ..NO_FAILURES }, 3);
    assert!(state.failures.is_empty(), "{:?}", state.failures);
    let rows = rows(&state);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows.iter().all(|row| (row.processes, row.count) == (3, 24)), "{rows:?}");

    let math = row(&rows, "pytorch math");
    let medians: Vec<f64> = math.process_medians_us.iter().map(|median| median.0).collect();
    for (median, planned) in medians.iter().zip([75.7, 75.7, 82.1]) {
        assert!((median / planned - 1.0).abs() < 0.003, "{medians:?}");
    }
    assert!(math.interval_us.low < 75.8 && math.interval_us.high > 82.1, "{:?}", math.interval_us);
    let wmma = row(&rows, "wmma stage-2");
    let half = wmma.interval_us.half_width() / wmma.p50_us.0;
    assert!(half < 0.015, "{half}");

    // Every subject is its own A/A control; only the subject with two speeds has a high noise floor.
    assert_eq!(state.controls.len(), 3);
    let control = |name: &str| state.controls.iter().find(|it| it.subject == name).unwrap();
    assert!(control("pytorch math").noise_floor.share() > 0.03 && control("pytorch math").processes == 3);
    assert!(control("wmma stage-2").noise_floor.share() < 0.01);
    let over = |name: &str| {
        let found = wmma.over.iter().find(|over| over.baseline == name);
        found.unwrap_or_else(|| panic!("{:?}", wmma.over)).comparison
    };
    let (math, reference) = (over("pytorch math"), over("reference default"));
    assert_eq!((math.verdict, reference.verdict), (Verdict::Faster, Verdict::Faster));
    assert!(math.noise_floor.share() > 0.05 && reference.noise_floor.share() < 0.01);
    assert!(math.speedup.interval.contains(75.8 / 50.0) && math.speedup.interval.contains(82.0 / 50.0));
    assert!(reference.speedup.interval.half_width() < 0.03);
}

/// A subject that is wrong is not timed, but its errors are shown.
#[test]
fn errors_by_class_are_those_of_kernels_and_of_peers_on_the_same_inputs() {
    let state = measured(&Scenario { peer: "[\"wrong\"]", errors: true, ..NO_FAILURES }, 1);
    assert_eq!(state.failures.iter().map(|it| it.of.subject.as_str()).collect::<Vec<_>>(), ["pytorch math"]);
    let errors = |subject: &str| -> Vec<(String, f64)> {
        let found = state.class_errors.iter().find(|(of, _)| of.subject == subject);
        let errors = &found.unwrap_or_else(|| panic!("{:?}", state.class_errors)).1;
        errors.iter().map(|it| (it.class.clone(), it.error.unwrap())).collect()
    };
    let (wmma, math) = (errors("wmma stage-2"), errors("pytorch math"));
    let classes = Attention.classes();
    for ((of_wmma, of_math), class) in wmma.iter().zip(&math).zip(&classes) {
        assert_eq!((of_wmma.0.as_str(), of_math.0.as_str()), (*class, *class));
        // Zeros are the right answer for zeros only. Small outputs of fp16 have few bits.
        let limit = if *class == "tiny" { 0.1 } else { 1e-2 };
        assert!(of_wmma.1 < limit, "{of_wmma:?}");
        assert_eq!(of_math.1, if *class == "zeros" { 0.0 } else { 1.0 }, "{of_math:?}");
    }
    assert_eq!((wmma.len(), math.len()), (classes.len(), classes.len()));
    assert!(measured(&NO_FAILURES, 1).class_errors.is_empty());
}

#[test]
fn a_failed_process_fails_its_subject_but_not_the_others() {
    for (does, failure, words) in [
        (r#"[50, 50, "wrong"]"#, "wrong answer", "process 3 of 3: "),
        (r#"[50, "wrong later", 50]"#, "wrong answer", "after timing"),
        (r#"[50, 50, "remembers"]"#, "wrong answer", "faster-on-repeats"),
        (r#"[50, "dies", 50]"#, "crash", "process 2 of 3: the worker process ended with code 7"),
    ] {
        let state = measured(&Scenario { wmma: does, ..NO_FAILURES }, 3);
        let failed: Vec<_> = state.failures.iter().map(|it| it.of.subject.as_str()).collect();
        assert_eq!(failed, ["wmma stage-2"], "{does}");
        assert_eq!(state.failures[0].kind.to_string(), failure);
        assert!(state.failures[0].reason.contains(words), "{}", state.failures[0].reason);
        let measured: Vec<_> = state.measurements.iter().map(|it| it.of.subject.as_str()).collect();
        assert_eq!(measured, ["pytorch math", "reference default"], "{does}");
        // The failed check is recorded, even if other processes were correct.
        let passed = state.checks.iter().filter(|(of, _)| of.subject == "wmma stage-2");
        assert!(passed.map(|(_, check)| check.passed).eq([failure == "crash"]));
    }
}

/// When the first process turns out to be wrong, all processes have started the problem. Their answers must not be
/// taken for answers about the next problem.
#[test]
fn a_subject_that_is_wrong_on_one_problem_is_measured_on_the_next() {
    let problems = &[PROBLEM, "b1h1s32d64-fp16"];
    let state = measured(&Scenario { problems, wmma: r#"["wrong at first", 50, 50]"#, ..NO_FAILURES }, 3);
    let failed: Vec<_> = state.failures.iter().map(|it| (&*it.of.subject, &*it.of.problem)).collect();
    assert_eq!(failed, [("wmma stage-2", PROBLEM)], "{:?}", state.failures);
    let rows = rows(&state);
    let of_second = rows.iter().filter(|row| row.of.problem == problems[1]);
    assert_eq!(of_second.map(|row| row.processes).collect::<Vec<_>>(), [3; 3]);
}

#[test]
fn one_process_has_no_control_and_the_default_noise_floor() {
    let state = measured(&NO_FAILURES, 1);
    assert!(state.controls.is_empty());
    let rows = rows(&state);
    let wmma = row(&rows, "wmma stage-2");
    assert_eq!((wmma.processes, wmma.over.len()), (1, 2));
    assert!((wmma.over[0].comparison.noise_floor.share() - 0.02).abs() < 1e-9);
    // The unknown variation between processes widens the interval.
    assert!(wmma.interval_us.half_width() > 4.0 * wmma.samples_interval_us.half_width());
}

#[test]
fn a_stopped_measurement_is_repeated_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("run");
    let stop = AtomicBool::new(false);
    let run = Run::create(Some(&place), manifest()).unwrap();
    let stalls = Scenario { wmma: r#"[50, "stalls", 50]"#, ..NO_FAILURES };
    let stopped = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Timing starts when every subject has passed its check; the second process of `wmma` then stops answering.
            let started = Instant::now();
            while run.state().checks.len() < 3 && started.elapsed() < Duration::from_mins(2) {
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        stalls.bench((folder.path(), &run), 3, &stop)
    });
    assert!(matches!(stopped, Err(StageError::Stopped)));
    assert!(run.state().measurements.is_empty());
    drop(run);

    // Processes that start now come after the planned ones and behave like the last planned one.
    let run = Run::resume(&place, manifest()).unwrap();
    stalls.bench((folder.path(), &run), 3, &AtomicBool::new(false)).unwrap();
    let state = run.state();
    assert_eq!(rows(&state).iter().map(|row| row.processes).collect::<Vec<_>>(), [3; 3]);
    stalls.bench((folder.path(), &run), 3, &AtomicBool::new(false)).unwrap();
    let sampled = |event: &Event| matches!(event, Event::Sampled { .. });
    let log = read(&place).unwrap();
    assert_eq!(
        log.records.iter().filter(|record| sampled(&record.event)).count(),
        3,
        "a finished bench must not measure again"
    );
}
