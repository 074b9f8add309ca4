//! Workers that the head started on its own machine.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use subprocess::lifetime;

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The prefix of the name of the worker with this process number.
pub(crate) fn name_prefix(process: u32) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    format!("{}-{process}-", host_name().replace(|c| !is_allowed(c), "-"))
}

/// Worker processes. They end when this is dropped or when this process ends.
#[derive(Debug, Default)]
pub struct LocalWorkers {
    workers: Vec<LocalWorker>,
}

#[derive(Debug)]
struct LocalWorker {
    child: Child,
    /// What it says last on its standard error; an error has precedence.
    last_line: Arc<Mutex<String>>,
    /// Reads the standard error.
    reader: Option<JoinHandle<()>>,
    has_ended: bool,
}

/// After a worker has ended, the head waits for the end of its output this often, with these pauses. Another process
/// may hold its pipe open.
const OUTPUT_WAITS: (u32, Duration) = (20, Duration::from_millis(10));

impl LocalWorkers {
    /// Starts a worker with each of the commands.
    pub fn start(commands: impl IntoIterator<Item = Command>) -> io::Result<Self> {
        let mut started = LocalWorkers::default();
        for mut command in commands {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let mut child = lifetime::spawn(&mut command)?;
            let last_line: Arc<Mutex<String>> = Arc::default();
            let reader = child.stderr.take().map(|output| {
                let last = Arc::clone(&last_line);
                // The output must be read to its end: a worker whose pipe is full stops.
                std::thread::spawn(move || {
                    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                        let line = String::from_utf8_lossy(&line).trim().to_owned();
                        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                        if line.starts_with("error") || !last.starts_with("error") {
                            *last = line;
                        }
                    }
                })
            });
            started.workers.push(LocalWorker { child, last_line, reader, has_ended: false });
        }
        Ok(started)
    }

    /// How many were started.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether none was started.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// The prefixes of the names of the workers that have not ended.
    pub(crate) fn names(&self) -> Vec<String> {
        let left = self.workers.iter().filter(|worker| !worker.has_ended);
        left.map(|worker| name_prefix(worker.child.id())).collect()
    }

    /// How the workers ended that have ended since the last call.
    pub(crate) fn newly_ended(&mut self) -> Vec<String> {
        let mut reasons = Vec::new();
        for worker in self.workers.iter_mut().filter(|worker| !worker.has_ended) {
            let Ok(Some(status)) = worker.child.try_wait() else { continue };
            worker.has_ended = true;
            for _ in 0..OUTPUT_WAITS.0 {
                if worker.reader.as_ref().is_none_or(JoinHandle::is_finished) {
                    break;
                }
                sleep(OUTPUT_WAITS.1);
            }
            let last = worker.last_line.lock().unwrap_or_else(PoisonError::into_inner);
            let colon = if last.is_empty() { "" } else { ": " };
            reasons.push(format!("{status}{colon}{last}"));
        }
        reasons
    }
}

impl Drop for LocalWorkers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            if !worker.has_ended {
                lifetime::kill_group(&worker.child);
            }
            let _ = worker.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_end_of_a_worker_is_told_once_with_its_error() {
        let script = "echo 'error: no disk' >&2; echo 'hint: buy one' >&2; exit 3";
        let mut workers = LocalWorkers::start([shell(script), shell("exec sleep 100")]).unwrap();
        let mut told = Vec::new();
        while told.is_empty() {
            told = workers.newly_ended();
        }
        assert_eq!(told, ["exit status: 3: error: no disk"]);
        assert!(workers.newly_ended().is_empty());
        let group = workers.workers[1].child.id();
        drop(workers);
        assert!(!std::path::Path::new(&format!("/proc/{group}")).exists());
    }
}
