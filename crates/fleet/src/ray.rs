//! A fleet whose tasks a Ray cluster does.
//!
//! Ray has no interface for Rust, so a Python program (`ray_bridge.py`) speaks with it. Ray places the workers, restarts
//! those of lost nodes and tells their results; the bridge submits the tasks of lost workers again.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use subprocess::{lifetime, python};

use crate::job::{Answer, Job, Task};
use crate::{Fleet, FleetError};

const BRIDGE: &str = include_str!("ray_bridge.py");
/// How often a waiting head looks whether it must stop.
const LOOK: Duration = Duration::from_millis(100);

/// How a Ray cluster is used.
#[derive(Clone, Debug)]
pub struct RayOptions {
    /// The URL of the cluster; `None` for the one of this machine.
    pub address: Option<String>,
    /// The number of workers; `None` for one on each processor or GPU of the cluster.
    pub workers: Option<usize>,
    /// Whether each worker needs a GPU.
    pub gpu: bool,
    /// A task is given up when this many workers were lost with it, and when workers have failed to do it this often.
    pub attempts: u32,
    /// More arguments of `worker`.
    pub arguments: Vec<String>,
}

/// A job of a Ray cluster.
#[derive(Debug)]
pub struct RayCluster {
    bridge: Child,
    tasks: Option<ChildStdin>,
    lines: Receiver<Line>,
    answers: HashMap<u32, Answer>,
    workers: usize,
    /// The machines of the cluster.
    pub nodes: Vec<String>,
}

/// A line from the bridge.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Ready { workers: usize, nodes: Vec<String> },
    Answer { number: u32, answer: Answer },
    Error(String),
}

impl RayCluster {
    /// Connects to the cluster and starts the workers. `stop`: gives up.
    pub fn start(job: &Job, options: &RayOptions, stop: &AtomicBool) -> Result<Self, FleetError> {
        let failed = |error: std::io::Error| FleetError::Ray(error.to_string());
        let program: PathBuf = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(python::interpreter().unwrap_or_else(|| "python3".into()));
        command.args(["-u", "-c", BRIDGE]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bridge = lifetime::spawn(&mut command).map_err(failed)?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = bridge.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let Ok(line) = serde_json::from_str(&line) else { continue };
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let tasks = bridge.stdin.take();
        let mut cluster =
            RayCluster { bridge, tasks, lines, answers: HashMap::new(), workers: 0, nodes: Vec::new() };
        let RayOptions { address, workers, gpu, attempts, arguments } = options;
        cluster.send(&json!({"start": {
            "address": address, "workers": workers, "gpu": gpu, "attempts": attempts, "arguments": arguments,
            "program": program, "job": job,
        }}))?;
        while cluster.workers == 0 {
            cluster.read(stop)?;
        }
        Ok(cluster)
    }

    fn send(&mut self, line: &serde_json::Value) -> Result<(), FleetError> {
        let tasks = self.tasks.as_mut().ok_or(FleetError::Stopped)?;
        let sent = writeln!(tasks, "{line}").and_then(|()| tasks.flush());
        // If the bridge has ended, its last line says why.
        sent.or_else(|_| self.read(&AtomicBool::new(false)))
    }

    fn read(&mut self, stop: &AtomicBool) -> Result<(), FleetError> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(FleetError::Stopped);
            }
            match self.lines.recv_timeout(LOOK) {
                Ok(Line::Ready { workers, nodes }) => (self.workers, self.nodes) = (workers, nodes),
                Ok(Line::Answer { number, answer }) => {
                    self.answers.entry(number).or_insert(answer);
                }
                Ok(Line::Error(reason)) => return Err(FleetError::Ray(reason)),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(FleetError::Ray("the program that speaks with it ended".to_owned()));
                }
            }
            return Ok(());
        }
    }
}

impl Fleet for RayCluster {
    fn submit(&mut self, task: Task) -> Result<(), FleetError> {
        self.send(&json!({ "task": task }))
    }

    fn wait(&mut self, number: u32, stop: &AtomicBool, _: &dyn Fn(&str)) -> Result<Answer, FleetError> {
        loop {
            if let Some(answer) = self.answers.get(&number) {
                return Ok(answer.clone());
            }
            self.read(stop)?;
        }
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn end(&mut self, _keep: bool) -> Result<(), FleetError> {
        // The bridge ends at the end of its input, and the actors with it.
        self.tasks = None;
        Ok(())
    }
}

impl Drop for RayCluster {
    fn drop(&mut self) {
        self.tasks = None;
        let ended = |bridge: &mut Child| bridge.try_wait().is_ok_and(|status| status.is_some());
        for _ in 0..50 {
            if ended(&mut self.bridge) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        lifetime::kill_group(&self.bridge);
        let _ = self.bridge.wait();
    }
}
