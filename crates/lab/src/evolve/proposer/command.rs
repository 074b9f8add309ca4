//! Runs a program as a proposer: the prompt goes to its stdin, the answer comes from its stdout. Time and output length
//! are limited.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use subprocess::{FinishedProgram, ProgramEnd, ProgramLimits};

use super::ProposerError;

/// The longest answer that is read, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// How many of the last bytes of stderr are shown.
const STDERR_BYTES: usize = 2000;

/// Sends the prompt to the program of a command line and returns its answer. `network`: whether it may use the network.
pub(super) fn ask(
    (line, network): (&str, bool),
    prompt: &serde_json::Value,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<String, ProposerError> {
    let mut input = prompt.to_string();
    input.push('\n');
    let mut command = Command::new("sh");
    // Without seccomp, `doctor` and a warning tell what is missing.
    subprocess::sandbox::confine(command.args(["-c", line]), network);
    run_with_input(&mut command, "sh", input, limit, stop)
}

/// Runs a program with the input and returns its output.
pub(super) fn run_with_input(
    command: &mut Command,
    program: &'static str,
    input: String,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<String, ProposerError> {
    let limits = ProgramLimits { time: limit, stdout_bytes: MAX_BYTES };
    let go_on = || !stop.load(Ordering::Relaxed);
    let FinishedProgram { end, stdout, stderr } = subprocess::run(command, input.into_bytes(), limits, go_on)
        .map_err(|error| ProposerError::MissingProgram { program, error: error.to_string() })?;
    let reason = match end {
        ProgramEnd::Stopped => return Err(ProposerError::Stopped),
        ProgramEnd::TimeUp => format!("no answer within {} s", limit.as_secs_f64()),
        ProgramEnd::TooLong => format!("the answer is longer than {MAX_BYTES} bytes"),
        ProgramEnd::Exited(status) if status.success() => match String::from_utf8(stdout) {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                let output = String::from_utf8_lossy(error.as_bytes()).into_owned();
                return Err(ProposerError::NoAnswer { reason: "the answer is not UTF-8".to_owned(), output });
            }
        },
        ProgramEnd::Exited(status) => format!("the program failed ({status})"),
    };
    let output = String::from_utf8_lossy(&stdout).into_owned();
    Err(ProposerError::NoAnswer { reason: with_stderr(&reason, &stderr), output })
}

fn with_stderr(reason: &str, stderr: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(STDERR_BYTES)..]);
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { reason.to_owned() } else { format!("{reason}: {}", lines.join("; ")) }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::thread;
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn answer(line: &str) -> Result<String, ProposerError> {
        ask((line, false), &json!({"schema": 1}), LONG, &AtomicBool::new(false))
    }

    fn failure(line: &str, limit: Duration) -> (String, String) {
        match ask((line, false), &json!({"filler": "x".repeat(1 << 18)}), limit, &AtomicBool::new(false)) {
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
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_stopped_search_does_not_wait_for_an_answer() {
        let outcome = ask(("sleep 300", false), &json!({}), LONG, &AtomicBool::new(true));
        assert_eq!(outcome, Err(ProposerError::Stopped));
    }
}
