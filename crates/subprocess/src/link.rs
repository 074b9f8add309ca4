//! The parent's side of a child process with a private channel.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::channel::VARIABLE;
use crate::ending::ending;
use crate::printed::OutputTail;
use crate::{lifetime, wire};

/// Interval at which a wait calls `go_on`.
const TICK: Duration = Duration::from_millis(50);
/// Time limit for a child to end after it has closed its channel.
const EXIT_LIMIT: Duration = Duration::from_secs(2);
/// Largest number of output lines in a message.
const LAST_LINES: usize = 3;

/// A child process and the channel to it. Dropping this value kills the child and its process group.
#[derive(Debug)]
pub struct Link {
    child: Child,
    /// The child's exit status, once it was waited for.
    ended: Option<ExitStatus>,
    stream: UnixStream,
    printed: Vec<OutputTail>,
}

impl Link {
    /// Starts a child that inherits one end of a socket pair; the environment variable [`VARIABLE`] has its number.
    /// The child's standard input is empty, and its standard output and error are collected. The command is consumed,
    /// because it owns the child's end.
    pub fn start(mut command: Command) -> io::Result<Self> {
        // Both ends are closed on exec, so that no other child inherits them.
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(TICK))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env(VARIABLE, theirs.as_raw_fd().to_string());
        // SAFETY: between fork and exec this makes system calls only. It allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || {
                // Descriptors that this process inherited, for example from a shell, must not reach the child.
                // Systems without this call are older than Landlock.
                libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
                Ok(fcntl_setfd(&theirs, FdFlags::empty())?)
            });
        }
        let mut child = lifetime::spawn(&mut command)?;
        let stdout = child.stdout.take().map(OutputTail::read);
        let stderr = child.stderr.take().map(OutputTail::read);
        let printed = stdout.into_iter().chain(stderr).collect();
        Ok(Link { child, ended: None, stream, printed })
    }

    /// The process number of the child.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a message. `go_on` is called while the child does not read; its error ends the wait.
    pub fn send(
        &self,
        message: &impl Serialize,
        attachments: &[&[u8]],
        go_on: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        wire::send(&mut InterruptibleSocket::new(&self.stream, go_on), message, attachments)
    }

    /// Receives a message whose attachments together have at most `max_attached_bytes`. `go_on` is called while the
    /// child does not write, and also while it writes slowly; its error ends the wait.
    pub fn receive<T: DeserializeOwned>(
        &self,
        max_attached_bytes: u64,
        go_on: impl FnMut() -> io::Result<()>,
    ) -> io::Result<(T, Vec<Vec<u8>>)> {
        wire::receive(&mut InterruptibleSocket::new(&self.stream, go_on), max_attached_bytes)
    }

    /// The child's exit status after it closed its channel, or `None` if it did not end by itself. The child has
    /// ended afterwards.
    pub fn end(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + EXIT_LIMIT;
        while self.ended.is_none() && Instant::now() < deadline {
            match self.child.try_wait() {
                // The child still runs.
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(Some(status)) => self.ended = Some(status),
                Err(_) => break,
            }
        }
        let by_itself = self.ended;
        self.kill();
        by_itself
    }

    /// How the child ended after it closed its channel, with the last lines that it printed: a verb phrase that follows
    /// "the process". The child has ended afterwards.
    pub fn how_it_ended(&mut self) -> String {
        let how = self.end().map_or("closed its channel".to_owned(), ending);
        let output = self.last_output();
        if output.is_empty() { how } else { format!("{how}: {output}") }
    }

    /// Kills the child and its process group, and waits for the child.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            lifetime::kill_group(&self.child);
            self.ended = self.child.wait().ok();
        }
    }

    /// The last lines that the child printed, joined into one line; empty if it printed nothing. Call this after the
    /// child ended.
    pub fn last_output(&self) -> String {
        let mut lines = Vec::new();
        for printed in &self.printed {
            printed.wait();
            lines.extend(printed.last_lines(LAST_LINES));
        }
        lines[lines.len().saturating_sub(LAST_LINES)..].join("; ")
    }
}

/// The resident memory of a process, if the system reports it.
pub fn resident_bytes(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A socket with timeouts that calls `go_on` at intervals during a wait.
struct InterruptibleSocket<'a, F> {
    stream: &'a UnixStream,
    go_on: F,
    last_call: Instant,
}

impl<'a, F: FnMut() -> io::Result<()>> InterruptibleSocket<'a, F> {
    fn new(stream: &'a UnixStream, go_on: F) -> Self {
        InterruptibleSocket { stream, go_on, last_call: Instant::now() }
    }

    fn wait(&mut self, mut step: impl FnMut(&mut &UnixStream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            // A child that sends a byte now and then would never cause a socket timeout.
            if self.last_call.elapsed() >= TICK {
                (self.go_on)()?;
                self.last_call = Instant::now();
            }
            match step(&mut &*self.stream) {
                // A timeout is reported as WouldBlock. After a pause (Ctrl-Z) it may be Interrupted.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                other => return other,
            }
        }
    }
}

impl<F: FnMut() -> io::Result<()>> Read for InterruptibleSocket<'_, F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait(|stream| stream.read(into))
    }
}

impl<F: FnMut() -> io::Result<()>> Write for InterruptibleSocket<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A child in Python whose `channel` is the socket, with the same framing.
    fn python(script: &str) -> Link {
        let start = "import json, os, socket, struct, sys, time\n\
                     channel = socket.socket(fileno=int(os.environ['WARPSMITH_CHANNEL']))\n\
                     def send(message):\n    text = json.dumps(message).encode()\n    \
                     channel.sendall(struct.pack('<II', len(text), 0) + text)\n";
        let mut command = Command::new("python3");
        command.args(["-c", &format!("{start}{script}")]);
        Link::start(command).unwrap()
    }

    fn until_limit(limit: Duration) -> impl FnMut() -> io::Result<()> {
        let until = Instant::now() + limit;
        move || if Instant::now() > until { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    const LONG: Duration = Duration::from_mins(1);

    fn received(link: &Link, limit: Duration) -> io::Result<Value> {
        link.receive(0, until_limit(limit)).map(|(message, _)| message)
    }

    #[test]
    fn printed_output_is_not_a_message() {
        let mut link = python(
            "print(json.dumps({'say': 'samples', 'ns': [1.0]}), flush=True)\n\
             os.write(1, struct.pack('<II', 2, 0) + b'{}')\n\
             send({'say': 'real'})",
        );
        assert_eq!(received(&link, LONG).unwrap(), json!({"say": "real"}));
        assert_eq!(received(&link, LONG).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(link.end().unwrap().success());
        assert!(link.last_output().contains("samples"), "{}", link.last_output());
    }

    #[test]
    fn a_child_that_floods_stalls_or_does_not_read_is_an_error() {
        let link = python("channel.sendall(struct.pack('<II', 0xffffffff, 0)); time.sleep(100)");
        assert_eq!(received(&link, LONG).unwrap_err().kind(), ErrorKind::InvalidData);
        let slow = python(
            "channel.sendall(struct.pack('<II', 1 << 20, 0))\nwhile True:\n    \
             channel.sendall(b'x'); time.sleep(0.005)",
        );
        assert_eq!(received(&slow, Duration::from_secs(1)).unwrap_err().kind(), ErrorKind::TimedOut);
        let deaf = python("time.sleep(100)");
        let large = vec![0; 8 << 20];
        let sent = deaf.send(&json!({}), &[&large], until_limit(Duration::from_millis(300)));
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_child_inherits_only_its_own_channel() {
        let (open, _other) = UnixStream::pair().unwrap();
        fcntl_setfd(&open, FdFlags::empty()).unwrap();
        let link = python("send([fd for fd in os.listdir('/proc/self/fd') if int(fd) > 2]); time.sleep(100)");
        fcntl_setfd(&open, FdFlags::CLOEXEC).unwrap();
        let open = received(&link, LONG).unwrap();
        // The second one is the listed folder itself.
        assert_eq!(open.as_array().unwrap().len(), 2, "{open}");

        let listed = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(!listed.contains("socket:"), "{listed}");
    }
}
