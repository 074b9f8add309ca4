//! Tests of searches whose candidates workers of a shared folder evaluate: processes are killed, stopped and refused, and
//! the log is the one of a search without workers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Run, run, skipped, warpsmith};
use crate::evolve::{maze, search, trials};

/// Flags that make searches comparable.
const SEARCH: [&str; 8] = ["--budget", "8", "--seed", "5", "--input-seed", "5", "--ahead", "6"];
/// The shortest lease, for searches that lose workers.
const SHORT_LEASE: [&str; 2] = ["--lease", "6"];

/// A folder with the family `maze`, runs, and a fleet.
struct Fleet(tempfile::TempDir);

/// A process that is killed at the end of its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(command: &mut Command, stderr: Stdio) -> Self {
        Process(command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap())
    }

    /// Waits for its end. It writes little, so that its pipes do not get full.
    fn finish(mut self) -> Run {
        let code = self.0.wait().unwrap().code().unwrap_or(-1);
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_string(&mut stderr).unwrap();
        }
        Run { code, stdout, stderr }
    }

    /// Ends it as a crash of its machine does.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Waits until something is there. The limit only ends a test that has failed.
fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_mins(20), "no {what}");
        sleep(Duration::from_millis(5));
    }
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

impl Fleet {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        maze(folder.path());
        // A kernel that hangs takes a minute, which other tests wait for.
        let kernel = folder.path().join("attention/maze/kernel.cu");
        let text = fs::read_to_string(&kernel).unwrap();
        let hang = "while (*static_cast<const volatile unsigned*>(args.q) != 0xffffffffu) {}";
        assert!(text.contains(hang), "{text}");
        fs::write(kernel, text.replace(hang, "__trap();")).unwrap();
        Fleet(folder)
    }

    fn address(&self) -> String {
        format!("dir:{}", self.place().display())
    }

    fn place(&self) -> PathBuf {
        self.0.path().join("fleet")
    }

    /// A search that the workers of the fleet evaluate.
    fn head(&self, name: &str, arguments: &[&str]) -> Command {
        let address = self.address();
        search(self.0.path(), name, &[arguments, &["--fleet", &address]].concat())
    }

    /// The same search without a fleet.
    fn alone(&self, arguments: &[&str]) -> Vec<Value> {
        let outcome = run(&mut search(self.0.path(), "alone", arguments));
        assert_eq!(outcome.code, 0, "{outcome}");
        without_paths(trials(self.0.path(), "alone"))
    }

    /// The trials of a run, without the workers that did them.
    fn results(&self, name: &str) -> Vec<Value> {
        let mut trials = trials(self.0.path(), name);
        for trial in &mut trials {
            let by = trial.as_object_mut().unwrap().remove("done_by");
            assert!(by.is_some_and(|by| by["worker"].is_string()), "{trial}");
        }
        without_paths(trials)
    }

    /// Starts a worker. Its messages are in `NAME.txt`.
    fn worker(&self, name: &str) -> Process {
        let messages = fs::File::create(self.0.path().join(format!("{name}.txt"))).unwrap();
        let mut command = warpsmith();
        command.args(["worker", "--device", "virtual:l4", "--fleet", &self.address()]);
        Process::start(&mut command, messages.into())
    }

    fn fleet(&self, action: &str) -> Run {
        run(warpsmith().args(["fleet", action, &self.address()]))
    }

    /// The folder of the only job.
    fn job(&self) -> Option<PathBuf> {
        let mut jobs = fs::read_dir(self.place().join("jobs")).ok()?.flatten().map(|entry| entry.path());
        jobs.find(|path| path.join("job").is_file())
    }

    /// The documents below a folder of the only job, by name.
    fn documents(&self, folder: &str) -> BTreeMap<String, Value> {
        let entries = self.job().and_then(|job| fs::read_dir(job.join(folder)).ok());
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        let named = paths.filter_map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            Some((name, json(&path)?))
        });
        named.collect()
    }

    /// The numbers of the processes of the workers that say that they live. Their names are `HOST-PROCESS-RANDOM`.
    fn processes(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place().join("workers")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter_map(|name| name.rsplit('-').nth(1).map(str::to_owned)).collect()
    }
}

/// Trials without what depends on the path of the source: the hashes of builds, and the folders in reasons. Workers have the
/// source in folders of their own.
fn without_paths(mut trials: Vec<Value>) -> Vec<Value> {
    for trial in &mut trials {
        let result = trial["result"].as_object_mut().unwrap();
        result.remove("build");
        if let Some(Value::String(reason)) = result.get_mut("reason") {
            let words: Vec<&str> = reason.split(' ').map(|word| word.rsplit('/').next().unwrap()).collect();
            *reason = words.join(" ");
        }
    }
    trials
}

/// The worker of every trial.
fn workers(trials: &[Value]) -> BTreeSet<String> {
    trials.iter().map(|trial| trial["done_by"]["worker"].as_str().unwrap().to_owned()).collect()
}

/// How many candidates a worker says to have evaluated when it ends.
fn evaluated(fleet: &Fleet, name: &str) -> usize {
    let text = fs::read_to_string(fleet.0.path().join(format!("{name}.txt"))).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("candidates evaluated: "));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn the_candidate_of_a_killed_worker_is_evaluated_by_the_other_one() {
    let fleet = Fleet::new();
    let alone = fleet.alone(&SEARCH);
    let head = Process::start(fleet.head("run", &SEARCH).args(SHORT_LEASE), Stdio::piped());
    let mut workers_here = [fleet.worker("a"), fleet.worker("b")];
    // A worker that is stopped in the middle of a candidate does not finish it before it is killed.
    let (attempt, killed, worker) = until("worker in the middle of a candidate", || {
        let answers = fleet.documents("answers");
        let mut claims =
            fleet.documents("claims").into_iter().filter(|(name, _)| !answers.contains_key(name));
        let (attempt, name) = claims.find(|(attempt, _)| !attempt.starts_with("00000000-"))?;
        let name = name.as_str()?.to_owned();
        let worker = workers_here.iter().position(|it| name.contains(&format!("-{}-", it.0.id())))?;
        let process = workers_here[worker].0.id().to_string();
        let signal = |signal: &str| {
            assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
        };
        signal("-STOP");
        let is_open = !fleet.documents("answers").contains_key(&attempt);
        if !is_open {
            signal("-CONT");
        }
        is_open.then_some((attempt, name, worker))
    });
    workers_here[worker].kill();
    let ended = head.finish();
    assert_eq!(ended.code, 0, "{ended}");
    let logged = trials(fleet.0.path(), "run");
    let number: u64 = attempt.split_once('-').unwrap().0.parse().unwrap();
    let trial = logged.iter().find(|trial| trial["number"] == number).unwrap();
    assert_ne!(trial["done_by"]["worker"], killed.as_str());
    assert_eq!(fleet.results("run"), alone);
}

/// A cluster sends SIGTERM before it takes a machine.
#[test]
fn a_worker_that_is_terminated_leaves_the_fleet() {
    let fleet = Fleet::new();
    let worker = fleet.worker("a");
    until("sign of life", || fleet.processes().into_iter().next());
    let process = worker.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    let ended = worker.finish();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(fleet.processes(), Vec::<String>::new());
}

#[test]
fn workers_do_not_change_the_result_of_a_search() {
    let fleet = Fleet::new();
    let alone = fleet.alone(&SEARCH);
    let outcome = run(fleet.head("run", &SEARCH).args(["--workers", "2"]));
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(fleet.results("run"), alone);
    let elites = |trials: &[Value]| trials.iter().filter(|it| it["result"]["elite"] == true).count();
    assert!(elites(&alone) > 1, "the search found nothing");
    assert_eq!(workers(&trials(fleet.0.path(), "run")).len(), 2);
    // The workers of the search end with it, and nothing is left of it but its description.
    assert_eq!(fleet.processes(), Vec::<String>::new());
    assert!(fleet.documents("tasks").is_empty() && fleet.documents("answers").is_empty());
}

#[test]
fn a_killed_head_loses_nothing_and_counts_nothing_twice() {
    let fleet = Fleet::new();
    let alone = fleet.alone(&SEARCH);
    let mut workers_here = [fleet.worker("a"), fleet.worker("b")];
    let mut head = Process::start(&mut fleet.head("run", &SEARCH), Stdio::null());
    until("trial", || (trials(fleet.0.path(), "run").len() > 3).then_some(()));
    head.kill();
    let before = trials(fleet.0.path(), "run").len();
    assert!(before <= alone.len());
    // The workers go on with what the head has submitted.
    until("answer to every task", || {
        let answers = fleet.documents("answers");
        fleet.documents("tasks").keys().all(|name| answers.contains_key(name)).then_some(())
    });
    let resumed = run(&mut fleet.head("run", &["--resume"]));
    assert_eq!(resumed.code, 0, "{resumed}");
    assert_eq!(fleet.results("run"), alone);
    let stopped = fleet.fleet("stop");
    assert_eq!(stopped.code, 0, "{stopped}");
    for worker in &mut workers_here {
        assert!(worker.0.wait().unwrap().success());
    }
    // Every trial was evaluated once.
    assert_eq!(evaluated(&fleet, "a") + evaluated(&fleet, "b"), alone.len());
}

#[test]
fn a_stopped_fleet_ends_its_searches_which_can_be_resumed() {
    let fleet = Fleet::new();
    let alone = fleet.alone(&SEARCH);
    let mut worker = fleet.worker("a");
    let head = Process::start(&mut fleet.head("run", &SEARCH), Stdio::piped());
    until("trial", || (trials(fleet.0.path(), "run").len() > 1).then_some(()));
    assert_eq!(fleet.fleet("stop").code, 0);
    let ended = head.finish();
    assert_eq!(ended.code, 3, "{ended}");
    for words in ["the fleet is stopped", "warpsmith fleet resume"] {
        assert!(ended.stderr.contains(words), "{ended}");
    }
    assert!(worker.0.wait().unwrap().success());
    assert!(fleet.fleet("status").stdout.contains("the fleet is stopped"));
    assert!(trials(fleet.0.path(), "run").len() < alone.len());

    let refused = run(&mut fleet.head("run", &["--resume"]));
    assert_eq!(refused.code, 3, "{refused}");
    assert_eq!(fleet.fleet("resume").code, 0);
    let resumed = run(fleet.head("run", &["--resume"]).args(["--workers", "2"]));
    assert_eq!(resumed.code, 0, "{resumed}");
    assert_eq!(fleet.results("run"), alone);
}

#[test]
fn a_search_whose_workers_were_all_killed_says_so() {
    let fleet = Fleet::new();
    let mut command = fleet.head("run", &SEARCH);
    command.args(["--workers", "2"]).args(SHORT_LEASE);
    let head = Process::start(&mut command, Stdio::piped());
    until("trial", || (!trials(fleet.0.path(), "run").is_empty()).then_some(()));
    let processes = until("two workers", || Some(fleet.processes()).filter(|it| it.len() == 2));
    assert!(Command::new("kill").arg("-9").args(processes).status().unwrap().success());
    let ended = head.finish();
    assert_eq!(ended.code, 3, "{ended}");
    assert!(ended.stderr.contains("a worker that was started here ended (signal: 9"), "{ended}");
    assert!(ended.stderr.contains("error: no worker is left: all 2 that were started here"), "{ended}");
}

#[test]
fn a_worker_with_another_compiler_refuses() {
    let fleet = Fleet::new();
    let mut command = fleet.head("run", &SEARCH);
    let messages = fleet.0.path().join("head.txt");
    let mut head = Process::start(&mut command, fs::File::create(&messages).unwrap().into());
    let job = until("job", || fleet.job().and_then(|job| json(&job.join("job"))));
    let own = job["common"]["compiler"].as_str().unwrap().to_owned();
    assert!(own.contains("headers"), "{own}");
    let mut other = job;
    other["common"]["compiler"] = "1.2.3 (headers 1)".into();
    fs::write(fleet.job().unwrap().join("job"), other.to_string()).unwrap();
    let _worker = fleet.worker("a");
    let words = format!("the search is for compiler 1.2.3 (headers 1), this worker has {own}");
    until("refusal in the head's messages", || {
        fs::read_to_string(&messages).unwrap().contains(&words).then_some(())
    });
    let status = fleet.fleet("status");
    assert!(status.stdout.contains("refuses run-") && status.stdout.contains(&words), "{status}");
    assert!(trials(fleet.0.path(), "run").is_empty());
    head.kill();
}

#[test]
fn odd_names_stay_inside_the_fleet() {
    let fleet = Fleet::new();
    let search = ["--budget", "2", "--seed", "5"];
    let outcome = run(fleet.head("..my run (1)", &search).args(["--workers", "1"]));
    assert_eq!(outcome.code, 0, "{outcome}");
    let job = fleet.job().unwrap();
    let name = job.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("my-run--1--"), "{name}");
    // Anybody with access to the folder can write another name. Nobody works for it.
    let text = fs::read_to_string(job.join("job")).unwrap();
    for odd in ["a job", ".job", "jobs/job"] {
        let folder = fleet.place().join("jobs").join(odd);
        fs::create_dir_all(folder.join("tasks")).unwrap();
        fs::write(folder.join("job"), text.replace(name, odd)).unwrap();
        fs::write(folder.join("tasks/00000000-1"), r#"{"number":0,"payload":null}"#).unwrap();
    }
    let status = fleet.fleet("status");
    assert!(status.stdout.contains("no search"), "{status}");
    let worker = run(warpsmith().args([
        "worker",
        "--device",
        "virtual:l4",
        "--idle",
        "1",
        "--fleet",
        &fleet.address(),
    ]));
    assert_eq!(worker.code, 0, "{worker}");
    assert!(worker.stderr.contains("candidates evaluated: 0"), "{worker}");
}

#[test]
fn a_result_is_shown_although_the_fleet_cannot_be_cleaned_up() {
    let fleet = Fleet::new();
    let mut command = fleet.head("run", &["--budget", "2", "--seed", "5", "--workers", "1", "--json"]);
    let head = Process::start(&mut command, Stdio::piped());
    // A folder in place of the document that ends the search.
    let job = until("job", || fleet.job());
    fs::create_dir_all(job.join("ended/folder")).unwrap();
    let ended = head.finish();
    assert_eq!(ended.code, 0, "{ended}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["trials"].as_array().unwrap().len(), 3);
    assert!(ended.stderr.contains("warning: the search is still in the fleet"), "{ended}");
    assert!(fs::read_to_string(fleet.0.path().join("run/tuned.toml")).unwrap().contains("modelled_us"));
}

#[test]
fn a_lease_that_is_too_short_is_refused() {
    let fleet = Fleet::new();
    let outcome = run(&mut search(fleet.0.path(), "run", &["--fleet", &fleet.address(), "--lease", "3"]));
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("expected at least 6 s"), "{outcome}");
    assert!(!fleet.0.path().join("run").exists());
}

/// A Python with the package `ray`: `WARPSMITH_TEST_RAY`, or the usual one.
fn python_with_ray() -> Option<PathBuf> {
    let named = std::env::var_os("WARPSMITH_TEST_RAY").map(PathBuf::from);
    let python = named.or_else(subprocess::python::interpreter)?;
    let mut command = Command::new(&python);
    command.args(["-c", "import ray"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()).then_some(python)
}

#[test]
fn a_ray_cluster_finds_the_same_although_a_worker_is_killed() {
    let Some(python) = python_with_ray() else {
        skipped("fleets of Ray: Python has no package `ray` (WARPSMITH_TEST_RAY names a Python that has it)");
        return;
    };
    let fleet = Fleet::new();
    let alone = fleet.alone(&SEARCH);
    let mut command = search(fleet.0.path(), "run", &SEARCH);
    command.args(["--fleet", "ray", "--workers", "2"]).env("WARPSMITH_PYTHON", python);
    let head = Process::start(&mut command, Stdio::piped());
    let names = until("two workers", || {
        Some(workers(&trials(fleet.0.path(), "run"))).filter(|names| names.len() == 2)
    });
    let killed = names.first().unwrap();
    let process = killed.rsplit('-').next().unwrap();
    assert!(Command::new("kill").args(["-9", process]).status().unwrap().success());
    let ended = head.finish();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(fleet.results("run"), alone);
    let names = workers(&trials(fleet.0.path(), "run"));
    assert!(names.len() > 2, "another worker took its place: {names:?}");
}
