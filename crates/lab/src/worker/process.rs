//! A worker's process, from the parent's side.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpu::ending::ending;

use super::protocol::{Ask, Say};
use crate::run::FailureKind;

/// How often a wait looks at the clock, at the process's memory and at whether it is to stop.
const TICK: Duration = Duration::from_millis(50);
/// Lines of what it printed that are kept for its obituary.
const LAST_WORDS: usize = 12;

/// What a worker may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// To start and to compile. A compiler does not hang, it is only slow where the machine is busy.
    pub build: Duration,
    /// For any other answer.
    pub answer: Duration,
    /// Resident in memory. Address space would be easier to limit, but a CUDA context maps more of it than any
    /// machine has memory.
    pub resident_bytes: u64,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The worker said that it cannot; it may still be of use.
    #[error("{reason}")]
    Failed { failure: FailureKind, reason: String },
    /// The worker is gone.
    #[error("{reason}")]
    Lost { failure: FailureKind, reason: String },
    /// The run is to stop.
    #[error("stopped")]
    Stopped,
}

impl Ended {
    /// The same, of one of a subject's processes. That it was not the first, which is asked everything first, is worth
    /// saying: the subject does not always end so.
    #[must_use]
    pub fn of_process(self, process: usize, all: usize) -> Self {
        let said = |reason: String| match process {
            0 => reason,
            _ => format!("process {} of {all}: {reason}", process + 1),
        };
        match self {
            Ended::Failed { failure, reason } => Ended::Failed { failure, reason: said(reason) },
            Ended::Lost { failure, reason } => Ended::Lost { failure, reason: said(reason) },
            Ended::Stopped => Ended::Stopped,
        }
    }
}

/// A worker that runs. It is ended when this goes.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    words: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
    limits: Limits,
}

impl Worker {
    /// Starts a worker, in a process group of its own: Ctrl-C is the parent's to deal with.
    pub fn start(command: &mut Command, limits: Limits) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (sender, lines) = mpsc::channel();
        let words = Arc::new(Mutex::new(VecDeque::new()));
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(read_lines(stdout, move |line| drop(sender.send(line))));
        }
        if let Some(stderr) = child.stderr.take() {
            let words = Arc::clone(&words);
            readers.push(read_lines(stderr, move |line| remember(&words, line)));
        }
        Ok(Worker { stdin: child.stdin.take(), child, lines, words, readers, limits })
    }

    /// Asks and waits for the answer.
    pub fn ask(&mut self, ask: &Ask, stop: &AtomicBool) -> Result<Say, Ended> {
        self.send(ask)?;
        self.answer(ask, stop)
    }

    /// Asks without waiting; [`Worker::answer`] waits.
    pub fn send(&mut self, ask: &Ask) -> Result<(), Ended> {
        let mut line = serde_json::to_string(ask)
            .map_err(|error| Ended::Failed { failure: FailureKind::Other, reason: error.to_string() })?;
        line.push('\n');
        let sent =
            self.stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()));
        match sent {
            Some(Ok(())) => Ok(()),
            // A closed pipe: the process ended. How is the answer's to say.
            _ => Err(self.obituary()),
        }
    }

    /// Waits for the answer to what was asked.
    pub fn answer(&mut self, to: &Ask, stop: &AtomicBool) -> Result<Say, Ended> {
        let started = Instant::now();
        let limit = match to {
            Ask::Hello | Ask::Build { .. } => self.limits.build,
            _ => self.limits.answer,
        };
        loop {
            if stop.load(Ordering::Relaxed) {
                self.kill();
                return Err(Ended::Stopped);
            }
            match self.lines.recv_timeout(TICK) {
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(Say::Failed { failure, reason }) => return Err(Ended::Failed { failure, reason }),
                    Ok(said) => return Ok(said),
                    // What kernels and libraries print comes over the same pipe.
                    Err(_) => remember(&self.words, line),
                },
                Err(RecvTimeoutError::Disconnected) => return Err(self.obituary()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let waited = started.elapsed();
            if waited > limit {
                self.kill();
                let reason = format!("no answer within {} s", limit.as_secs_f64());
                return Err(Ended::Lost { failure: FailureKind::Hang, reason });
            }
            if let Some(bytes) = resident_bytes(self.child.id())
                && bytes > self.limits.resident_bytes
            {
                self.kill();
                let limit = self.limits.resident_bytes >> 20;
                let reason = format!("its process took {} MiB of memory, more than {limit}", bytes >> 20);
                return Err(Ended::Lost { failure: FailureKind::OutOfMemory, reason });
            }
        }
    }

    /// How the process ended, once its pipes are closed.
    fn obituary(&mut self) -> Ended {
        // Closed pipes and a living process are a process that does not talk any more.
        let deadline = Instant::now() + Duration::from_secs(2);
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                _ => break None,
            }
        };
        self.kill();
        for reader in self.readers.drain(..) {
            // A reader cannot panic; if it did, its lines are missing, and nothing else.
            let _ = reader.join();
        }
        let how = status.map_or("closed its pipes".to_owned(), ending);
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<&str> = words.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        let last = last.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("; ");
        let reason =
            if last.is_empty() { format!("its process {how}") } else { format!("its process {how}: {last}") };
        Ended::Lost { failure: FailureKind::Crash, reason }
    }

    fn kill(&mut self) {
        self.stdin = None;
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read_lines(
    pipe: impl Read + Send + 'static,
    mut each: impl FnMut(String) + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(pipe.read_until(b'\n', &mut line), Ok(count) if count > 0) {
            each(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    })
}

fn remember(words: &Mutex<VecDeque<String>>, line: String) {
    if line.is_empty() {
        return;
    }
    let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
    words.push_back(line);
    if words.len() > LAST_WORDS {
        words.pop_front();
    }
}

/// Memory a process occupies, where the system tells.
fn resident_bytes(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { build: Duration::from_secs(20), answer: Duration::from_secs(20), resident_bytes: 1 << 40 };

    fn shell(script: &str, limits: Limits) -> Result<Say, Ended> {
        let mut worker = Worker::start(Command::new("sh").args(["-c", script]), limits).unwrap();
        worker.ask(&Ask::Hello, &AtomicBool::new(false))
    }

    fn lost(script: &str, limits: Limits) -> (FailureKind, String) {
        match shell(script, limits) {
            Err(Ended::Lost { failure, reason }) => (failure, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_among_other_words_is_found() {
        let script =
            r#"read x; echo noise; printf 'half a line'; echo; echo '{"say":"ready","version":"1"}'; cat"#;
        assert_eq!(shell(script, LIMITS), Ok(Say::Ready { version: "1".to_owned() }));
    }

    #[test]
    fn however_it_ends_it_is_said() {
        let (failure, reason) = lost("read x; echo what is this >&2; kill -9 $$", LIMITS);
        assert_eq!(
            (failure, reason.as_str()),
            (FailureKind::Crash, "its process was ended by SIGKILL: what is this")
        );
        assert_eq!(lost("exit 3", LIMITS).1, "its process ended with code 3");
        let brief = Limits { build: Duration::from_millis(60), ..LIMITS };
        assert_eq!(lost("cat > /dev/null", brief).0, FailureKind::Hang);
        let slim = Limits { resident_bytes: 1 << 16, ..LIMITS };
        assert_eq!(lost("cat > /dev/null", slim).0, FailureKind::OutOfMemory);
        let said = r#"read x; echo '{"say":"failed","failure":"too-large","reason":"no room"}'; cat"#;
        let failed = Ended::Failed { failure: FailureKind::TooLarge, reason: "no room".to_owned() };
        assert_eq!(shell(said, LIMITS), Err(failed));
    }

    #[test]
    fn a_run_that_stops_does_not_wait() {
        let mut worker = Worker::start(Command::new("sh").args(["-c", "cat > /dev/null"]), LIMITS).unwrap();
        assert_eq!(worker.ask(&Ask::Hello, &AtomicBool::new(true)), Err(Ended::Stopped));
    }
}
