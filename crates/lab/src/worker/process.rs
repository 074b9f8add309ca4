//! A worker's process, from the parent's side.

use std::fs;
use std::io::{self, ErrorKind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpu::ending::ending;
use subprocess::Link;

use super::protocol::{WorkerReply, WorkerRequest};
use crate::run::FailureKind;

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
pub enum WorkerError {
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

impl WorkerError {
    /// The same, of one of a subject's processes. That it was not the first, which is asked everything first, is worth
    /// saying: the subject does not always end so.
    #[must_use]
    pub fn of_process(self, process: usize, all: usize) -> Self {
        let said = |reason: String| match process {
            0 => reason,
            _ => format!("process {} of {all}: {reason}", process + 1),
        };
        match self {
            WorkerError::Failed { failure, reason } => WorkerError::Failed { failure, reason: said(reason) },
            WorkerError::Lost { failure, reason } => WorkerError::Lost { failure, reason: said(reason) },
            WorkerError::Stopped => WorkerError::Stopped,
        }
    }
}

/// The outputs of one answer, of all its launches together. A problem of the largest suites has a few hundred MiB.
const MAX_OUTPUT_BYTES: u64 = 16 << 30;

/// A worker that runs. It is ended when this goes.
#[derive(Debug)]
pub struct Worker {
    link: Link,
    limits: Limits,
}

impl Worker {
    /// Starts a worker, in a process group of its own: Ctrl-C is the parent's to deal with. Questions and answers go over
    /// a private channel; what the process prints is kept for the message about its failure alone.
    pub fn start(command: Command, limits: Limits) -> io::Result<Self> {
        Ok(Worker { link: Link::start(command)?, limits })
    }

    /// Asks and waits for the answer.
    pub fn ask(&mut self, ask: &WorkerRequest, stop: &AtomicBool) -> Result<WorkerReply, WorkerError> {
        self.send(ask)?;
        self.answer(ask, stop)
    }

    /// Asks without waiting; [`Worker::answer`] waits.
    pub fn send(&mut self, ask: &WorkerRequest) -> Result<(), WorkerError> {
        self.send_attached(ask, &[])
    }

    /// Asks, with binary attachments.
    pub fn send_attached(&mut self, ask: &WorkerRequest, attachments: &[&[u8]]) -> Result<(), WorkerError> {
        let until = Instant::now() + self.limit(ask);
        let in_time = || if Instant::now() > until { Err(ErrorKind::TimedOut.into()) } else { Ok(()) };
        self.link.send(ask, attachments, in_time).map_err(|error| self.lost(&error, self.limit(ask)))
    }

    /// Waits for the answer to what was asked, with the outputs of launches where it was asked for some.
    pub fn answer(&mut self, to: &WorkerRequest, stop: &AtomicBool) -> Result<WorkerReply, WorkerError> {
        let most = if matches!(to, WorkerRequest::Run { .. } | WorkerRequest::Verify { .. }) {
            MAX_OUTPUT_BYTES
        } else {
            0
        };
        let (said, attachments) = self.answer_attached(to, most, stop)?;
        said.with(attachments).ok_or_else(|| {
            self.link.kill();
            let reason = "its process sent more or fewer outputs than it said".to_owned();
            WorkerError::Lost { failure: FailureKind::Other, reason }
        })
    }

    /// Waits for the answer and its binary attachments, which together have at most `max_attached_bytes`. The worker is
    /// not trusted: allow no more than the answer must have.
    fn answer_attached(
        &mut self,
        to: &WorkerRequest,
        max_attached_bytes: u64,
        stop: &AtomicBool,
    ) -> Result<(WorkerReply, Vec<Vec<u8>>), WorkerError> {
        if stop.load(Ordering::Relaxed) {
            self.link.kill();
            return Err(WorkerError::Stopped);
        }
        let (started, limit) = (Instant::now(), self.limit(to));
        let (process, most) = (self.link.id(), self.limits.resident_bytes);
        // Why the wait was ended, where it was ended from here.
        let mut reason = None;
        let received = self.link.receive(max_attached_bytes, || {
            reason = if stop.load(Ordering::Relaxed) {
                Some(WorkerError::Stopped)
            } else if started.elapsed() > limit {
                Some(no_answer(limit))
            } else {
                resident_bytes(process)
                    .filter(|&bytes| bytes > most)
                    .map(|bytes| too_much_memory(bytes, most))
            };
            if reason.is_some() { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
        });
        if let Some(ended) = reason {
            self.link.kill();
            return Err(ended);
        }
        match received {
            Ok((WorkerReply::Failed { failure, reason }, _)) => Err(WorkerError::Failed { failure, reason }),
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.lost(&error, limit)),
        }
    }

    fn limit(&self, ask: &WorkerRequest) -> Duration {
        match ask {
            WorkerRequest::Hello | WorkerRequest::Build { .. } => self.limits.build,
            _ => self.limits.answer,
        }
    }

    /// What became of the process when its channel failed.
    fn lost(&mut self, error: &io::Error, limit: Duration) -> WorkerError {
        if error.kind() == ErrorKind::TimedOut {
            self.link.kill();
            return no_answer(limit);
        }
        if error.kind() == ErrorKind::InvalidData {
            self.link.kill();
            let reason = format!("its process sent no valid message: {error}");
            return WorkerError::Lost { failure: FailureKind::Other, reason };
        }
        let how = self.link.end().map_or("closed its channel".to_owned(), ending);
        let words = self.link.last_words();
        let reason = if words.is_empty() {
            format!("its process {how}")
        } else {
            format!("its process {how}: {words}")
        };
        WorkerError::Lost { failure: FailureKind::Crash, reason }
    }
}

fn no_answer(limit: Duration) -> WorkerError {
    let reason = format!("no answer within {} s", limit.as_secs_f64());
    WorkerError::Lost { failure: FailureKind::Hang, reason }
}

fn too_much_memory(bytes: u64, most: u64) -> WorkerError {
    let reason = format!("its process took {} MiB of memory, more than {}", bytes >> 20, most >> 20);
    WorkerError::Lost { failure: FailureKind::OutOfMemory, reason }
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

    /// A stand-in in Python that has read one question: `send` answers, with attachments.
    const START: &str = "
import json, os, socket, struct, sys, time
channel = socket.socket(fileno=int(os.environ['WARPSMITH_CHANNEL']))
def send(message, *attachments):
    text = json.dumps(message).encode()
    lengths = b''.join(struct.pack('<Q', len(it)) for it in attachments)
    channel.sendall(struct.pack('<II', len(text), len(attachments)) + lengths + text + b''.join(attachments))
def read(count):
    return channel.recv(count, socket.MSG_WAITALL)
length, _ = struct.unpack('<II', read(8))
ask = json.loads(read(length))
";

    fn worker(script: &str, limits: Limits) -> Worker {
        let mut command = Command::new("python3");
        command.args(["-c", &format!("{START}{script}")]);
        Worker::start(command, limits).unwrap()
    }

    fn answered(script: &str, limits: Limits) -> Result<WorkerReply, WorkerError> {
        worker(script, limits).ask(&WorkerRequest::Hello, &AtomicBool::new(false))
    }

    fn lost(script: &str, limits: Limits) -> (FailureKind, String) {
        match answered(script, limits) {
            Err(WorkerError::Lost { failure, reason }) => (failure, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_printed_answer_is_not_believed() {
        let forged = "print('\\n' + json.dumps({'say': 'samples', 'ns': [1.0]}), flush=True)\n";
        let honest = format!("{forged}send({{'say': 'ready', 'version': '1'}}); time.sleep(100)");
        assert_eq!(answered(&honest, LIMITS), Ok(WorkerReply::Ready { version: "1".to_owned() }));
        let (failure, reason) = lost(forged, LIMITS);
        assert_eq!(failure, FailureKind::Crash);
        assert!(reason.starts_with("its process ended with code 0: {\"say\": \"samples\""), "{reason}");
    }

    #[test]
    fn a_flood_of_output_does_not_keep_the_answer_from_arriving() {
        let flood =
            "for _ in range(3000): os.write(1, b'x' * 65536)\nsend({'say': 'loaded'})\ntime.sleep(100)";
        let before = resident_bytes(std::process::id()).unwrap();
        assert_eq!(answered(flood, LIMITS), Ok(WorkerReply::Loaded));
        let grown = resident_bytes(std::process::id()).unwrap().saturating_sub(before);
        // 190 MiB were printed; other tests run at the same time.
        assert!(grown < 100 << 20, "{grown} bytes");
    }

    #[test]
    fn the_message_about_a_failure_says_how_the_process_ended() {
        let (failure, reason) =
            lost("print('what is this', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)", LIMITS);
        assert_eq!(
            (failure, reason.as_str()),
            (FailureKind::Crash, "its process was ended by SIGKILL: what is this")
        );
        assert_eq!(lost("sys.exit(3)", LIMITS).1, "its process ended with code 3");
        let brief = Limits { build: Duration::from_millis(60), ..LIMITS };
        assert_eq!(lost("time.sleep(100)", brief).0, FailureKind::Hang);
        let slim = Limits { resident_bytes: 1 << 16, ..LIMITS };
        assert_eq!(lost("time.sleep(100)", slim).0, FailureKind::OutOfMemory);
        let said = "send({'say': 'failed', 'failure': 'too-large', 'reason': 'no room'}); time.sleep(100)";
        let failed = WorkerError::Failed { failure: FailureKind::TooLarge, reason: "no room".to_owned() };
        assert_eq!(answered(said, LIMITS), Err(failed));
    }

    #[test]
    fn attachments_arrive_up_to_the_limit_and_no_further() {
        let script = "send({'say': 'loaded'}, b'abc', bytes(1 << 20)); time.sleep(100)";
        let asked = |most: u64| {
            let mut worker = worker(script, LIMITS);
            worker.send_attached(&WorkerRequest::Hello, &[]).unwrap();
            worker.answer_attached(&WorkerRequest::Hello, most, &AtomicBool::new(false))
        };
        let (said, attachments) = asked((1 << 20) + 3).unwrap();
        assert_eq!((said, attachments), (WorkerReply::Loaded, vec![b"abc".to_vec(), vec![0; 1 << 20]]));
        let Err(WorkerError::Lost { failure: FailureKind::Other, reason }) = asked(1 << 20) else { panic!() };
        assert!(reason.contains("attachments of 1048579 bytes; the limit is 1048576"), "{reason}");
        let (failure, reason) = lost("channel.sendall(b'\\xff' * 8); time.sleep(100)", LIMITS);
        assert_eq!(failure, FailureKind::Other);
        assert!(reason.contains("the limit is 16777216"), "{reason}");
    }

    #[test]
    fn a_run_that_stops_does_not_wait() {
        let mut worker = worker("time.sleep(100)", LIMITS);
        assert_eq!(worker.ask(&WorkerRequest::Hello, &AtomicBool::new(true)), Err(WorkerError::Stopped));
    }
}
