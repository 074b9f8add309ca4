//! A program that is asked: input on its stdin, answer on its stdout, and an end to both.

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

/// Bytes of an answer that are read.
pub(super) const MOST_BYTES: usize = 1 << 20;
/// Bytes of what it says on stderr that are kept, the last ones.
const LAST_WORDS: usize = 2000;
/// How often a wait looks at the clock and at the process.
const TICK: Duration = Duration::from_millis(10);
/// How long pipes may take to empty after everybody who could write into them was ended.
const DRAIN: Duration = Duration::from_secs(2);

/// Asks the program of a command line.
pub(super) fn ask(
    line: &str,
    prompt: &serde_json::Value,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<String, ProposerError> {
    let mut input = prompt.to_string();
    input.push('\n');
    converse(Command::new("sh").args(["-c", line]), "sh", input, limit, stop)
}

/// Starts a program in a process group of its own, gives it the input and waits for its whole output. Whatever
/// becomes of it, the group is ended before this returns.
pub(super) fn converse(
    command: &mut Command,
    program: &'static str,
    input: String,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<String, ProposerError> {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = subprocess::spawn(pipes)
        .map_err(|error| ProposerError::NotThere { program, error: error.to_string() })?;
    // Whatever becomes of this process, also by SIGKILL, the group ends with it.
    let guard = GroupGuard::new(&child);
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read what it is given; then the pipe breaks, which is no one's concern.
        thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let stdout = child.stdout.take().map(|pipe| in_background(pipe, first_bytes));
    let stderr = child.stderr.take().map(|pipe| in_background(pipe, last_bytes));

    let mut output = None;
    let end = wait(&child, stdout.as_ref(), &mut output, limit, stop);
    // The group's number is the program's, which nobody else can get before it is waited for below.
    subprocess::kill_group(&child);
    drop(guard);
    let status = child.wait().ok();
    let rest = |pipe: Option<mpsc::Receiver<Vec<u8>>>| pipe.and_then(|pipe| pipe.recv_timeout(DRAIN).ok());
    let output = output.or_else(|| rest(stdout)).unwrap_or_default();
    let words = rest(stderr).unwrap_or_default();
    let silent = |reason: String| {
        let heard = String::from_utf8_lossy(&output[..output.len().min(MOST_BYTES)]).into_owned();
        Err(ProposerError::Silent { reason: with_words(&reason, &words), heard })
    };
    match (end, status) {
        (CommandEnd::Stopped, _) => Err(ProposerError::Stopped),
        (CommandEnd::TimeUp, _) => silent(format!("no answer within {} s", limit.as_secs_f64())),
        (CommandEnd::TooLong, _) => silent(format!("the answer is longer than {MOST_BYTES} bytes")),
        // It may have written everything and ended between two looks.
        (CommandEnd::Exited, _) if output.len() > MOST_BYTES => {
            silent(format!("the answer is longer than {MOST_BYTES} bytes"))
        }
        (CommandEnd::Exited, Some(status)) if status.success() => match String::from_utf8(output) {
            Ok(answer) => Ok(answer),
            Err(error) => Err(ProposerError::Silent {
                reason: "the answer is not UTF-8".to_owned(),
                heard: String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        },
        (CommandEnd::Exited, status) => silent(format!("its program {}", ending(status))),
    }
}

enum CommandEnd {
    Exited,
    TimeUp,
    TooLong,
    Stopped,
}

/// Waits until the program has ended, of itself or by what it did.
fn wait(
    child: &Child,
    stdout: Option<&mpsc::Receiver<Vec<u8>>>,
    output: &mut Option<Vec<u8>>,
    limit: Duration,
    stop: &AtomicBool,
) -> CommandEnd {
    let started = Instant::now();
    // Looked at, not collected: as long as it is not collected, its number stays its own.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match stdout.filter(|_| output.is_none()).map(|pipe| pipe.recv_timeout(TICK)) {
            Some(Ok(bytes)) if bytes.len() > MOST_BYTES => {
                *output = Some(bytes);
                return CommandEnd::TooLong;
            }
            Some(Ok(bytes)) => *output = Some(bytes),
            Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Err(RecvTimeoutError::Disconnected)) | None => thread::sleep(TICK),
        }
        if !matches!(waitid(WaitId::Pid(Pid::from_child(child)), look), Ok(None)) {
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

/// As much as an answer may have, and a byte more where there is more.
fn first_bytes(pipe: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
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
        last.drain(..last.len().saturating_sub(LAST_WORDS));
    }
}

fn ending(status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => format!("failed ({status})"),
        None => "is gone".to_owned(),
    }
}

fn with_words(reason: &str, words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    let words: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if words.is_empty() { reason.to_owned() } else { format!("{reason}: {}", words.join("; ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn said(line: &str) -> Result<String, ProposerError> {
        ask(line, &json!({"schema": 1}), LONG, &AtomicBool::new(false))
    }

    fn silent(line: &str, limit: Duration) -> (String, String) {
        match ask(line, &json!({"filler": "x".repeat(1 << 18)}), limit, &AtomicBool::new(false)) {
            Err(ProposerError::Silent { reason, heard }) => (reason, heard),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_prompt_goes_in_and_the_answer_comes_out() {
        assert_eq!(said("cat").unwrap(), "{\"schema\":1}\n");
        assert_eq!(said("echo chatter >&2; echo yes").unwrap(), "yes\n");
        // What it leaves running holds the pipe and is not waited for.
        assert_eq!(said("sleep 300 & echo yes").unwrap(), "yes\n");
    }

    #[test]
    fn however_it_fails_the_reason_says_so() {
        let (reason, heard) = silent("echo half; echo first >&2; echo why >&2; exit 3", LONG);
        assert_eq!(
            (reason.as_str(), heard.as_str()),
            ("its program failed (exit status: 3): first; why", "half\n")
        );
        assert!(silent("no-such-program-anywhere", LONG).0.contains("not found"));
        assert!(silent("kill -9 $$", LONG).0.contains("signal: 9"));
        let (reason, heard) = silent("head -c 10000000 /dev/zero | tr '\\0' x", LONG);
        assert_eq!(reason, "the answer is longer than 1048576 bytes");
        assert_eq!(heard.len(), MOST_BYTES);
        assert_eq!(silent("printf '\\377'", LONG).0, "the answer is not UTF-8");
    }

    #[test]
    fn nobody_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let line = format!("echo late; sleep 300 & echo $! > {}; wait", file.display());
        // Long enough for a shell to get to its `wait` on a busy machine.
        let (reason, heard) = silent(&line, Duration::from_secs(3));
        assert_eq!((reason.as_str(), heard.as_str()), ("no answer within 3 s", "late\n"));
        let id = std::fs::read_to_string(&file).unwrap();
        wait_until("the end of the program's child", || !is_alive(id.trim()));
    }

    /// Set for the process that asks a proposer instead of being tested: the proposer's command line.
    const ASKS: &str = "WARPSMITH_TEST_ASKS_A_PROPOSER";

    #[test]
    #[ignore = "no test, but what a test starts"]
    fn asking() {
        if let Ok(line) = std::env::var(ASKS) {
            let _ = said(&line);
        }
    }

    #[test]
    fn a_proposer_dies_with_a_parent_that_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ids");
        // A shell that waits, and a child of it.
        let line = format!("sleep 300 & echo $$ $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "evolve::proposer::command::tests::asking", "--ignored"])
            .env(ASKS, line)
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
        // Ended and not yet collected by whoever inherits it is ended.
        !stat.is_empty() && !stat.contains(") Z ")
    }

    fn wait_until(what: &str, holds: impl Fn() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < LONG, "{what} takes too long");
            thread::sleep(TICK);
        }
    }

    #[test]
    fn a_search_that_stops_does_not_wait() {
        let outcome = ask("sleep 300", &json!({}), LONG, &AtomicBool::new(true));
        assert_eq!(outcome, Err(ProposerError::Stopped));
    }
}
