//! Runs a program as a proposer: the prompt goes to its stdin, the answer comes from its stdout. Time and output length
//! are limited.

use std::collections::VecDeque;
use std::io::{self, Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use subprocess::GroupGuard;

use super::ProposerError;

/// The longest answer that is read, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// How many of the last bytes of stderr are kept.
const STDERR_BYTES: usize = 2000;
/// How often a wait checks the clock and the process.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long pipes may take to drain after every process that could write to them was killed.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// Sends the prompt to the program of a command line and returns its answer.
pub(super) fn ask(
    line: &str,
    prompt: &serde_json::Value,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<String, ProposerError> {
    let mut input = prompt.to_string();
    input.push('\n');
    run_with_input(Command::new("sh").args(["-c", line]), "sh", input, limit, stop)
}

/// Starts a program in its own process group, sends it the input and waits for its whole output. The group is always
/// killed before this function returns.
pub(super) fn run_with_input(
    command: &mut Command,
    program: &'static str,
    input: String,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<String, ProposerError> {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = subprocess::spawn(pipes)
        .map_err(|error| ProposerError::MissingProgram { program, error: error.to_string() })?;
    // The guard kills the group if this process ends first, also by SIGKILL.
    let guard = GroupGuard::new(&child);
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read its input. The write error of a broken pipe is ignored.
        thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let stdout = child.stdout.take().map(|pipe| in_background(pipe, first_bytes));
    let stderr = child.stderr.take().map(|pipe| in_background(pipe, last_bytes));

    let mut output = None;
    let end = wait(&child, stdout.as_ref(), &mut output, limit, stop);
    // The group has the program's process id, which the system does not reuse before the `wait` below.
    subprocess::kill_group(&child);
    drop(guard);
    let status = child.wait().ok();
    let remaining =
        |pipe: Option<mpsc::Receiver<Vec<u8>>>| pipe.and_then(|pipe| pipe.recv_timeout(DRAIN_LIMIT).ok());
    let output = output.or_else(|| remaining(stdout)).unwrap_or_default();
    let stderr = remaining(stderr).unwrap_or_default();
    let no_answer = |reason: String| {
        let output = String::from_utf8_lossy(&output[..output.len().min(MAX_BYTES)]).into_owned();
        Err(ProposerError::NoAnswer { reason: with_stderr(&reason, &stderr), output })
    };
    match (end, status) {
        (CommandEnd::Stopped, _) => Err(ProposerError::Stopped),
        (CommandEnd::TimeUp, _) => no_answer(format!("no answer within {} s", limit.as_secs_f64())),
        (CommandEnd::TooLong, _) => no_answer(format!("the answer is longer than {MAX_BYTES} bytes")),
        // The program may have written everything and exited between two polls.
        (CommandEnd::Exited, _) if output.len() > MAX_BYTES => {
            no_answer(format!("the answer is longer than {MAX_BYTES} bytes"))
        }
        (CommandEnd::Exited, Some(status)) if status.success() => match String::from_utf8(output) {
            Ok(answer) => Ok(answer),
            Err(error) => Err(ProposerError::NoAnswer {
                reason: "the answer is not UTF-8".to_owned(),
                output: String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        },
        (CommandEnd::Exited, status) => no_answer(format!("the program {}", exit_text(status))),
    }
}

enum CommandEnd {
    Exited,
    TimeUp,
    TooLong,
    Stopped,
}

/// Waits until the program exits, breaks a limit, or the search stops.
fn wait(
    child: &Child,
    stdout: Option<&mpsc::Receiver<Vec<u8>>>,
    output: &mut Option<Vec<u8>>,
    limit: Duration,
    stop: &AtomicBool,
) -> CommandEnd {
    let started = Instant::now();
    // The exit status is read without reaping the process, so its process id stays valid.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match stdout.filter(|_| output.is_none()).map(|pipe| pipe.recv_timeout(POLL_INTERVAL)) {
            Some(Ok(bytes)) if bytes.len() > MAX_BYTES => {
                *output = Some(bytes);
                return CommandEnd::TooLong;
            }
            Some(Ok(bytes)) => *output = Some(bytes),
            Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Err(RecvTimeoutError::Disconnected)) | None => thread::sleep(POLL_INTERVAL),
        }
        if !matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(None)) {
            return CommandEnd::Exited;
        }
        if stop.load(Ordering::Relaxed) {
            return CommandEnd::Stopped;
        }
        if started.elapsed() > limit {
            return CommandEnd::TimeUp;
        }
    }
}

fn in_background<R: Read + Send + 'static>(
    pipe: R,
    read: fn(R) -> io::Result<Vec<u8>>,
) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(read(pipe).unwrap_or_default()));
    receiver
}

/// The first bytes of the output: one byte more than an answer may have, so that a longer one can be detected.
fn first_bytes(pipe: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
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

fn exit_text(status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => format!("failed ({status})"),
        None => "has an unknown exit status".to_owned(),
    }
}

fn with_stderr(reason: &str, stderr: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { reason.to_owned() } else { format!("{reason}: {}", lines.join("; ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn answer(line: &str) -> Result<String, ProposerError> {
        ask(line, &json!({"schema": 1}), LONG, &AtomicBool::new(false))
    }

    fn failure(line: &str, limit: Duration) -> (String, String) {
        match ask(line, &json!({"filler": "x".repeat(1 << 18)}), limit, &AtomicBool::new(false)) {
            Err(ProposerError::NoAnswer { reason, output }) => (reason, output),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_program_reads_the_prompt_and_prints_the_answer() {
        assert_eq!(answer("cat").unwrap(), "{\"schema\":1}\n");
        assert_eq!(answer("echo chatter >&2; echo yes").unwrap(), "yes\n");
        // A background process that keeps the pipe open is not waited for.
        assert_eq!(answer("sleep 300 & echo yes").unwrap(), "yes\n");
    }

    #[test]
    fn every_failure_has_a_reason() {
        let (reason, output) = failure("echo half; echo first >&2; echo why >&2; exit 3", LONG);
        assert_eq!(
            (reason.as_str(), output.as_str()),
            ("the program failed (exit status: 3): first; why", "half\n")
        );
        assert!(failure("no-such-program-anywhere", LONG).0.contains("not found"));
        assert!(failure("kill -9 $$", LONG).0.contains("signal: 9"));
        let (reason, output) = failure("head -c 10000000 /dev/zero | tr '\\0' x", LONG);
        assert_eq!(reason, "the answer is longer than 1048576 bytes");
        assert_eq!(output.len(), MAX_BYTES);
        assert_eq!(failure("printf '\\377'", LONG).0, "the answer is not UTF-8");
    }

    #[test]
    fn a_timeout_kills_the_whole_process_group() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let line = format!("echo late; sleep 300 & echo $! > {}; wait", file.display());
        // Three seconds are enough for the shell to reach its `wait` on a busy machine.
        let (reason, output) = failure(&line, Duration::from_secs(3));
        assert_eq!((reason.as_str(), output.as_str()), ("no answer within 3 s", "late\n"));
        let id = std::fs::read_to_string(&file).unwrap();
        wait_until("the end of the program's child", || !is_alive(id.trim()));
    }

    /// The environment variable that makes [`ask_from_child`] run a proposer. Its value is the proposer's command line.
    const PROPOSER_LINE: &str = "WARPSMITH_TEST_ASKS_A_PROPOSER";

    #[test]
    #[ignore = "helper process that another test starts"]
    fn ask_from_child() {
        if let Ok(line) = std::env::var(PROPOSER_LINE) {
            let _ = answer(&line);
        }
    }

    #[test]
    fn a_proposer_ends_when_its_parent_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ids");
        // The proposer is a shell with a child process; the shell waits for the child.
        let line = format!("sleep 300 & echo $$ $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "evolve::proposer::command::tests::ask_from_child", "--ignored"])
            .env(PROPOSER_LINE, line)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the proposer", || file.exists());
        let ids = std::fs::read_to_string(&file).unwrap();
        assert!(ids.split_whitespace().all(is_alive), "{ids}");
        parent.kill().unwrap();
        parent.wait().unwrap();
        wait_until("the proposer's end", || !ids.split_whitespace().any(is_alive));
    }

    fn is_alive(id: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // A zombie counts as ended.
        !stat.is_empty() && !stat.contains(") Z ")
    }

    fn wait_until(what: &str, holds: impl Fn() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < LONG, "{what} takes too long");
            thread::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn a_stopped_search_does_not_wait_for_an_answer() {
        let outcome = ask("sleep 300", &json!({}), LONG, &AtomicBool::new(true));
        assert_eq!(outcome, Err(ProposerError::Stopped));
    }
}
