//! Runs a program to its end, with limits on its time and its output.

use std::collections::VecDeque;
use std::io::{self, Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::lifetime::{GroupGuard, kill_group, spawn};

/// How often a wait checks the clock and the process.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long pipes may take to drain after every process that could write to them was killed.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// How many of the last bytes of stderr are kept.
const STDERR_BYTES: usize = 64 << 10;

/// The limits of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// The longest time that it may run.
    pub time: Duration,
    /// The most bytes that it may write to stdout.
    pub stdout_bytes: usize,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// It exited.
    Exited(ExitStatus),
    /// It ran longer than allowed and was killed.
    TimeUp,
    /// It wrote more than allowed and was killed.
    TooLong,
    /// The caller stopped it.
    Stopped,
}

impl ProgramEnd {
    /// Whether the program exited with code 0.
    pub fn success(self) -> bool {
        matches!(self, ProgramEnd::Exited(status) if status.success())
    }
}

/// What a program left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedProgram {
    /// How it ended.
    pub end: ProgramEnd,
    /// What it wrote to stdout, up to the limit.
    pub stdout: Vec<u8>,
    /// The last part of what it wrote to stderr.
    pub stderr: Vec<u8>,
}

/// Starts a program in its own process group, sends it the input and waits for its end. `go_on` is called about every
/// 10 ms; if it returns false, the program is stopped. Every process of the group is killed before this function
/// returns, and also if this process ends first. An error means that the program could not be started.
pub fn run(
    command: &mut Command,
    input: Vec<u8>,
    limits: ProgramLimits,
    mut go_on: impl FnMut() -> bool,
) -> io::Result<FinishedProgram> {
    let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let guard = GroupGuard::new(&child);
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read its input. The write error of a broken pipe is ignored.
        thread::spawn(move || stdin.write_all(&input));
    }
    // One byte more than is allowed, so that a longer output is detected.
    let most = limits.stdout_bytes.saturating_add(1);
    let stdout = child.stdout.take().map(|pipe| in_background(move || first_bytes(pipe, most)));
    let stderr = child.stderr.take().map(|pipe| in_background(move || last_bytes(pipe)));

    let mut output = None;
    let early = wait(&child, stdout.as_ref(), &mut output, limits, &mut go_on);
    // The group has the program's process id, which the system does not reuse before the `wait` below.
    kill_group(&child);
    drop(guard);
    let status = child.wait();
    let rest = |pipe: Option<Receiver<Vec<u8>>>| pipe.and_then(|pipe| pipe.recv_timeout(DRAIN_LIMIT).ok());
    let mut stdout = output.or_else(|| rest(stdout)).unwrap_or_default();
    let end = match early {
        Some(end) => end,
        // The program may have written everything and exited between two polls.
        None if stdout.len() > limits.stdout_bytes => ProgramEnd::TooLong,
        None => ProgramEnd::Exited(status?),
    };
    stdout.truncate(limits.stdout_bytes);
    Ok(FinishedProgram { end, stdout, stderr: rest(stderr).unwrap_or_default() })
}

/// Waits until the program exits (`None`), breaks a limit, or `go_on` says to stop.
fn wait(
    child: &Child,
    stdout: Option<&Receiver<Vec<u8>>>,
    output: &mut Option<Vec<u8>>,
    limits: ProgramLimits,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<ProgramEnd> {
    let started = Instant::now();
    // The exit status is read without reaping the process, so its process id stays valid.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match stdout.filter(|_| output.is_none()).map(|pipe| pipe.recv_timeout(POLL_INTERVAL)) {
            Some(Ok(bytes)) => {
                let too_long = bytes.len() > limits.stdout_bytes;
                *output = Some(bytes);
                if too_long {
                    return Some(ProgramEnd::TooLong);
                }
            }
            Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Err(RecvTimeoutError::Disconnected)) | None => thread::sleep(POLL_INTERVAL),
        }
        if !matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(None)) {
            return None;
        }
        if !go_on() {
            return Some(ProgramEnd::Stopped);
        }
        if started.elapsed() > limits.time {
            return Some(ProgramEnd::TimeUp);
        }
    }
}

fn in_background(read: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(read().unwrap_or_default()));
    receiver
}

fn first_bytes(pipe: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn last_bytes(mut pipe: impl Read) -> io::Result<Vec<u8>> {
    let mut last = VecDeque::new();
    let mut buffer = [0; 4096];
    loop {
        match pipe.read(&mut buffer)? {
            0 => return Ok(last.into()),
            count => last.extend(&buffer[..count]),
        }
        last.drain(..last.len().saturating_sub(STDERR_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProgramLimits = ProgramLimits { time: Duration::from_mins(1), stdout_bytes: 1 << 16 };

    fn shell(script: &str, limits: ProgramLimits) -> FinishedProgram {
        run(Command::new("sh").args(["-c", script]), b"input".to_vec(), limits, || true).unwrap()
    }

    #[test]
    fn input_output_and_exit_code_are_passed_on() {
        let finished = shell("cat; echo oops >&2; exit 3", LIMITS);
        assert_eq!((&finished.stdout[..], &finished.stderr[..]), (&b"input"[..], &b"oops\n"[..]));
        let ProgramEnd::Exited(status) = finished.end else { panic!("{finished:?}") };
        assert_eq!(status.code(), Some(3));
        assert!(!finished.end.success() && shell("true", LIMITS).end.success());
        assert!(run(&mut Command::new("/no/such/program"), vec![], LIMITS, || true).is_err());
    }

    #[test]
    fn limits_and_the_caller_end_a_program() {
        let short = ProgramLimits { time: Duration::from_millis(100), ..LIMITS };
        assert_eq!(shell("echo some; sleep 100", short).end, ProgramEnd::TimeUp);
        let endless = shell("yes", LIMITS);
        assert_eq!((endless.end, endless.stdout.len()), (ProgramEnd::TooLong, LIMITS.stdout_bytes));
        let mut calls = 0;
        let stopped = run(Command::new("sleep").arg("100"), vec![], LIMITS, || {
            calls += 1;
            calls < 3
        });
        assert_eq!(stopped.unwrap().end, ProgramEnd::Stopped);
    }

    #[test]
    fn a_confined_program_cannot_leave_a_process_behind() {
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sh -c 'echo $$; exec sleep 300' & sleep 0.3"]);
        let _folder = crate::sandbox::confine(&mut command, crate::sandbox::ScriptPolicy::default()).unwrap();
        let finished = run(&mut command, Vec::new(), LIMITS, || true).unwrap();
        let id = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        assert!(!id.is_empty(), "{finished:?}");
        // It may still be a zombie until its new parent waits for it.
        let state = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let is_running = || !state().is_empty() && !state().contains(") Z");
        let until = Instant::now() + Duration::from_secs(5);
        while is_running() && Instant::now() < until {
            thread::sleep(POLL_INTERVAL);
        }
        assert!(!is_running(), "{}", state());
    }

    #[test]
    fn a_process_that_keeps_the_pipe_open_is_not_waited_for() {
        let finished = shell("sleep 300 & echo yes", LIMITS);
        assert!(finished.end.success() && finished.stdout == b"yes\n");
    }
}
