//! The parts of `ray_bridge.py` that need no Ray.
#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Runs Python after the bridge was loaded. `PROGRAM` is the path of a worker with this script.
fn python(worker: &str, script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("worker");
    std::fs::write(&program, format!("#!/bin/sh\n{worker}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bridge = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ray_bridge.py");
    let prelude = "import hashlib, os, sys, types\n\
                   bridge = types.ModuleType('bridge')\n\
                   exec(open(sys.argv[1]).read(), bridge.__dict__)\n\
                   digest = hashlib.sha256(open(sys.argv[2], 'rb').read()).hexdigest()\n\
                   def start(program=sys.argv[2]):\n\
                   \x20   return bridge.Worker(program, digest, b'', [], {'name': 'j'})\n";
    let mut command = Command::new(subprocess::python::interpreter().unwrap());
    command.args(["-c", &format!("{prelude}{script}")]).arg(bridge).arg(program);
    // Programs that a node lacks are written below it.
    command.env("HOME", folder.path()).output().unwrap()
}

/// Runs Python that must succeed.
fn succeeds(worker: &str, script: &str) {
    let output = python(worker, script);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_worker_answers_tasks() {
    let worker = r#"read -r job; while read -r task; do echo "{\"outcome\": {\"done\": $task}}"; done"#;
    let script = "w = start()\n\
                  for number in 1, 2:\n\
                  \x20   answer = w.run({'number': number})\n\
                  \x20   assert answer['outcome'] == {'done': {'task': {'number': number}}}, answer\n";
    succeeds(worker, script);
}

#[test]
fn an_actor_whose_worker_is_killed_ends() {
    // Ray restarts an actor that ends. One that raises stays, without a worker. The first worker dies while it has the
    // task, the second one before it has read anything.
    for worker in ["read -r job; read -r task; kill -9 $$", "kill -9 $$"] {
        let output = python(worker, "w = start()\nw.run({'number': 1, 'payload': 'x' * (1 << 20)})\n");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn an_actor_whose_worker_cannot_start_says_why_and_stays() {
    let script = "w = start()\n\
                  for number in 1, 2:\n\
                  \x20   failed = w.run({'number': number})['outcome']['failed']\n\
                  \x20   assert failed == 'its worker process ended with status 3: error: no GPU', failed\n";
    succeeds("echo 'error: no GPU' >&2; echo 'hint: buy one' >&2; exit 3", script);
    let script = "w = start('/no/such/program')\n\
                  open(os.path.expanduser('~/.cache'), 'w')\n\
                  failed = w.run({'number': 1})['outcome']['failed']\n\
                  assert failed.startswith('its worker process cannot be started'), failed\n";
    succeeds("exit 0", script);
}

#[test]
fn a_task_goes_to_workers_that_have_not_failed_it() {
    let script = "assert bridge.choose([0, 1], [], 2) == 0\n\
                  assert bridge.choose([0, 1], [0], 2) == 1\n\
                  assert bridge.choose([0], [0], 2) is None\n\
                  assert bridge.choose([0], [0, 1], 2) == 0\n\
                  assert bridge.choose([0], [0, 0], 1) == 0\n\
                  assert bridge.choose([], [0], 1) is None\n";
    succeeds("exit 0", script);
}
