//! The parent's side of a worker process.

use std::io::{self, ErrorKind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use runlog::FailureKind;
use subprocess::{Link, resident_bytes};

use super::protocol::{WorkerReply, WorkerRequest};

/// Time and memory limits of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time to start and to compile. A compiler does not hang, but it is slow on a busy machine.
    pub build: Duration,
    /// Time for any other reply.
    pub answer: Duration,
    /// Resident memory. The address space would be easier to limit, but a CUDA context maps more address space than any
    /// machine has memory.
    pub resident_bytes: u64,
}

/// Why a worker gave no useful reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// The worker reported a failure. It can still be used.
    #[error("{reason}")]
    Failed {
        /// The kind of the failure.
        failure: FailureKind,
        /// The failure in words.
        reason: String,
    },
    /// The worker process is lost.
    #[error("{reason}")]
    Lost {
        /// The kind of the failure.
        failure: FailureKind,
        /// How the process was lost, in words.
        reason: String,
    },
    /// The run was told to stop.
    #[error("stopped")]
    Stopped,
}

impl WorkerError {
    /// Adds the number of the process to the reason. The first process receives every request first, so a failure of a
    /// later process shows that the subject does not always fail.
    #[must_use]
    pub fn of_process(self, process: usize, all: usize) -> Self {
        let labelled = |reason: String| match process {
            0 => reason,
            _ => format!("process {} of {all}: {reason}", process + 1),
        };
        match self {
            WorkerError::Failed { failure, reason } => {
                WorkerError::Failed { failure, reason: labelled(reason) }
            }
            WorkerError::Lost { failure, reason } => WorkerError::Lost { failure, reason: labelled(reason) },
            WorkerError::Stopped => WorkerError::Stopped,
        }
    }
}

/// Largest size of the outputs in one reply, for all its launches together. A problem of the largest suites has a few
/// hundred MiB.
const MAX_OUTPUT_BYTES: u64 = 16 << 30;

/// A running worker. Dropping it ends the process.
#[derive(Debug)]
pub struct Worker {
    link: Link,
    limits: Limits,
}

impl Worker {
    /// Starts a worker in its own process group, so that Ctrl-C reaches only the parent. Requests and replies use a
    /// private channel. What the process prints is used only in the message about its failure.
    pub fn start(command: Command, limits: Limits) -> io::Result<Self> {
        Ok(Worker { link: Link::start(command)?, limits })
    }

    /// Sends a request and waits for the reply.
    pub fn ask(&mut self, request: &WorkerRequest, stop: &AtomicBool) -> Result<WorkerReply, WorkerError> {
        self.send(request)?;
        self.answer(request, stop)
    }

    /// Sends a request without waiting; [`Worker::answer`] waits.
    pub fn send(&mut self, request: &WorkerRequest) -> Result<(), WorkerError> {
        self.send_attached(request, &[])
    }

    /// Sends a request with binary attachments.
    pub fn send_attached(
        &mut self,
        request: &WorkerRequest,
        attachments: &[&[u8]],
    ) -> Result<(), WorkerError> {
        let until = Instant::now() + self.limit(request);
        let in_time = || if Instant::now() > until { Err(ErrorKind::TimedOut.into()) } else { Ok(()) };
        self.link.send(request, attachments, in_time).map_err(|error| self.lost(&error, self.limit(request)))
    }

    /// Waits for the reply to a request, including the outputs of its launches.
    pub fn answer(&mut self, to: &WorkerRequest, stop: &AtomicBool) -> Result<WorkerReply, WorkerError> {
        let max_bytes = if matches!(to, WorkerRequest::Run { .. } | WorkerRequest::Verify { .. }) {
            MAX_OUTPUT_BYTES
        } else {
            0
        };
        let (reply, attachments) = self.answer_attached(to, max_bytes, stop)?;
        reply.with(attachments).ok_or_else(|| {
            self.link.kill();
            let reason = "the worker process sent a different number of outputs than it announced".to_owned();
            WorkerError::Lost { failure: FailureKind::Other, reason }
        })
    }

    /// Waits for the reply and its binary attachments, which together have at most `max_attached_bytes`. The worker is
    /// untrusted, so allow no more than the reply can need.
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
        let (process, max_bytes) = (self.link.id(), self.limits.resident_bytes);
        // Why this side ended the wait, if it did.
        let mut reason = None;
        let received = self.link.receive(max_attached_bytes, || {
            reason = if stop.load(Ordering::Relaxed) {
                Some(WorkerError::Stopped)
            } else if started.elapsed() > limit {
                Some(no_answer(limit))
            } else {
                resident_bytes(process)
                    .filter(|&bytes| bytes > max_bytes)
                    .map(|bytes| too_much_memory(bytes, max_bytes))
            };
            if reason.is_some() { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
        });
        if let Some(error) = reason {
            self.link.kill();
            return Err(error);
        }
        match received {
            Ok((WorkerReply::Failed { failure, reason }, _)) => Err(WorkerError::Failed { failure, reason }),
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.lost(&error, limit)),
        }
    }

    fn limit(&self, request: &WorkerRequest) -> Duration {
        match request {
            WorkerRequest::Hello | WorkerRequest::Build { .. } => self.limits.build,
            _ => self.limits.answer,
        }
    }

    /// Explains why the channel failed: a timeout, an invalid message, or how the process ended.
    fn lost(&mut self, error: &io::Error, limit: Duration) -> WorkerError {
        if error.kind() == ErrorKind::TimedOut {
            self.link.kill();
            return no_answer(limit);
        }
        if error.kind() == ErrorKind::InvalidData {
            self.link.kill();
            let reason = format!("the worker process sent an invalid message: {error}");
            return WorkerError::Lost { failure: FailureKind::Other, reason };
        }
        let reason = format!("the worker process {}", self.link.how_it_ended());
        WorkerError::Lost { failure: FailureKind::Crash, reason }
    }
}

fn no_answer(limit: Duration) -> WorkerError {
    let reason = format!("no answer within {} s", limit.as_secs_f64());
    WorkerError::Lost { failure: FailureKind::Hang, reason }
}

fn too_much_memory(bytes: u64, max_bytes: u64) -> WorkerError {
    let reason = format!(
        "the worker process used {} MiB of memory; the limit is {} MiB (--memory)",
        bytes >> 20,
        max_bytes >> 20
    );
    WorkerError::Lost { failure: FailureKind::OutOfMemory, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { build: Duration::from_secs(20), answer: Duration::from_secs(20), resident_bytes: 1 << 40 };

    /// The start of a Python worker: it has read one request, and `send` sends a reply with attachments.
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
    fn a_printed_reply_is_ignored() {
        let forged = "print('\\n' + json.dumps({'say': 'samples', 'ns': [1.0]}), flush=True)\n";
        let honest = format!("{forged}send({{'say': 'ready', 'version': '1'}}); time.sleep(100)");
        assert_eq!(answered(&honest, LIMITS), Ok(WorkerReply::Ready { version: "1".to_owned() }));
        let (failure, reason) = lost(forged, LIMITS);
        assert_eq!(failure, FailureKind::Crash);
        assert!(
            reason.starts_with("the worker process ended with code 0: {\"say\": \"samples\""),
            "{reason}"
        );
    }

    #[test]
    fn a_flood_of_output_does_not_block_the_reply() {
        let flood =
            "for _ in range(3000): os.write(1, b'x' * 65536)\nsend({'say': 'loaded'})\ntime.sleep(100)";
        let before = resident_bytes(std::process::id()).unwrap();
        assert_eq!(answered(flood, LIMITS), Ok(WorkerReply::Loaded));
        let grown = resident_bytes(std::process::id()).unwrap().saturating_sub(before);
        // 190 MiB were printed. Other tests run at the same time.
        assert!(grown < 100 << 20, "{grown} bytes");
    }

    #[test]
    fn a_failure_message_says_how_the_process_ended() {
        let (failure, reason) =
            lost("print('what is this', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)", LIMITS);
        assert_eq!(
            (failure, reason.as_str()),
            (FailureKind::Crash, "the worker process was killed by SIGKILL: what is this")
        );
        assert_eq!(lost("sys.exit(3)", LIMITS).1, "the worker process ended with code 3");
        let brief = Limits { build: Duration::from_millis(60), ..LIMITS };
        assert_eq!(lost("time.sleep(100)", brief).0, FailureKind::Hang);
        let slim = Limits { resident_bytes: 1 << 16, ..LIMITS };
        assert_eq!(lost("time.sleep(100)", slim).0, FailureKind::OutOfMemory);
        let reply = "send({'say': 'failed', 'failure': 'too-large', 'reason': 'no room'}); time.sleep(100)";
        let failed = WorkerError::Failed { failure: FailureKind::TooLarge, reason: "no room".to_owned() };
        assert_eq!(answered(reply, LIMITS), Err(failed));
    }

    #[test]
    fn attachments_beyond_the_limit_are_rejected() {
        let script = "send({'say': 'loaded'}, b'abc', bytes(1 << 20)); time.sleep(100)";
        let asked = |max_bytes: u64| {
            let mut worker = worker(script, LIMITS);
            worker.send_attached(&WorkerRequest::Hello, &[]).unwrap();
            worker.answer_attached(&WorkerRequest::Hello, max_bytes, &AtomicBool::new(false))
        };
        let (reply, attachments) = asked((1 << 20) + 3).unwrap();
        assert_eq!((reply, attachments), (WorkerReply::Loaded, vec![b"abc".to_vec(), vec![0; 1 << 20]]));
        let Err(WorkerError::Lost { failure: FailureKind::Other, reason }) = asked(1 << 20) else { panic!() };
        assert!(reason.contains("the attachments have 1048579 bytes; the limit is 1048576"), "{reason}");
        let (failure, reason) = lost("channel.sendall(b'\\xff' * 8); time.sleep(100)", LIMITS);
        assert_eq!(failure, FailureKind::Other);
        assert!(reason.contains("the limit is 16777216"), "{reason}");
    }

    #[test]
    fn a_stopped_run_does_not_wait() {
        let mut worker = worker("time.sleep(100)", LIMITS);
        assert_eq!(worker.ask(&WorkerRequest::Hello, &AtomicBool::new(true)), Err(WorkerError::Stopped));
    }
}
