//! Runs a program as a proposer: the prompt goes to its stdin, the answer comes from its stdout. Time, output length,
//! files and network are limited. It may read the folders of the files that its command line names, because the program
//! itself is there.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use subprocess::python::{self, Installation};
use subprocess::sandbox::{PrivateFolder, ScriptPolicy, confine};
use subprocess::{FinishedProgram, ProgramEnd, ProgramLimits};

use super::{ProposerError, ProposerProgram};

/// The longest answer that is read, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// How many of the last bytes of stderr are shown.
const STDERR_BYTES: usize = 2000;

/// Sends the prompt to a program and returns its answer.
pub(super) fn ask(
    program: &ProposerProgram,
    prompt: &serde_json::Value,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<String, ProposerError> {
    let mut input = prompt.to_string();
    input.push('\n');
    let mut command = Command::new("sh");
    command.args(["-c", &program.line]);
    let _folder = confined(&mut command, program)
        .map_err(|error| ProposerError::MissingProgram { program: "sh", error: error.to_string() })?;
    run_with_input(&mut command, "sh", input, limit, stop)
}

fn confined(command: &mut Command, program: &ProposerProgram) -> io::Result<PrivateFolder> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut path: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut read = named_files(&program.line);
    if let Some(installation) = python::interpreter().and_then(|it| Installation::of(&it).ok()) {
        // `python3` may be a script elsewhere that finds the interpreter.
        path.splice(..0, installation.executable.parent().map(Path::to_owned));
        read.extend(installation.folders);
    }
    command.env("PATH", env::join_paths(&path).map_err(io::Error::other)?);
    read.extend(path.into_iter().filter(|folder| folder.is_absolute()));
    confine(command, ScriptPolicy { read, write: program.folders.clone(), network: program.network })
}

/// The files that a command line names, and their folders.
fn named_files(line: &str) -> Vec<PathBuf> {
    let separates = |c: char| c.is_whitespace() || ";|&<>()'\"=".contains(c);
    let mut found = Vec::new();
    for word in line.split(separates).filter(|word| !word.is_empty()) {
        let path = match (word.strip_prefix("~/"), env::home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(word),
        };
        if path.is_file() {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            found.push(folder.unwrap_or(Path::new(".")).to_owned());
        }
        if path.exists() {
            found.push(path);
        }
    }
    found
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

    fn program(line: &str) -> ProposerProgram {
        ProposerProgram { line: line.to_owned(), network: false, folders: Vec::new() }
    }

    fn answer(line: &str) -> Result<String, ProposerError> {
        ask(&program(line), &json!({"schema": 1}), LONG, &AtomicBool::new(false))
    }

    fn failure(program: &ProposerProgram, limit: Duration) -> (String, String) {
        match ask(program, &json!({"filler": "x".repeat(1 << 18)}), limit, &AtomicBool::new(false)) {
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
        let (reason, output) = failure(&program("echo half; echo first >&2; echo why >&2; exit 3"), LONG);
        assert_eq!(
            (reason.as_str(), output.as_str()),
            ("the program failed (exit status: 3): first; why", "half\n")
        );
        assert!(failure(&program("no-such-program-anywhere"), LONG).0.contains("not found"));
        assert!(failure(&program("kill -9 $$"), LONG).0.contains("signal: 9"));
        let (reason, output) = failure(&program("head -c 10000000 /dev/zero | tr '\\0' x"), LONG);
        assert_eq!(reason, "the answer is longer than 1048576 bytes");
        assert_eq!(output.len(), MAX_BYTES);
        assert_eq!(failure(&program("printf '\\377'"), LONG).0, "the answer is not UTF-8");
    }

    #[test]
    fn a_timeout_kills_the_whole_process_group() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let line = format!("echo late; sleep 300 & echo $! > {}; wait", file.display());
        let program = ProposerProgram { folders: vec![folder.path().to_owned()], ..program(&line) };
        // Three seconds are enough for the shell to reach its `wait` on a busy machine.
        let (reason, output) = failure(&program, Duration::from_secs(3));
        assert_eq!((reason.as_str(), output.as_str()), ("no answer within 3 s", "late\n"));
        let id = std::fs::read_to_string(&file).unwrap();
        wait_until("the end of the program's child", || !is_alive(id.trim()));
    }

    /// The environment variable that makes [`ask_from_child`] run a proposer. Its value is the proposer's command line.
    const PROPOSER_LINE: &str = "WARPSMITH_TEST_ASKS_A_PROPOSER";

    #[test]
    #[ignore = "helper process that another test starts"]
    fn ask_from_child() {
        if let Ok(line) = env::var(PROPOSER_LINE) {
            let program = ProposerProgram { folders: vec![env::temp_dir()], ..program(&line) };
            let _ = ask(&program, &json!({}), LONG, &AtomicBool::new(false));
        }
    }

    #[test]
    fn a_proposer_ends_when_its_parent_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ids");
        // The proposer is a shell with a child process; the shell waits for the child.
        let line = format!("sleep 300 & echo $$ $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let mut parent = Command::new(env::current_exe().unwrap())
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
    fn a_program_reads_the_folders_of_its_files_and_writes_only_its_own() {
        if !subprocess::sandbox::probe().landlock.is_active() {
            println!("skipped: no Landlock");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        for folder in [&own, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("data"), "data\n").unwrap();
        }
        let private = tempfile::NamedTempFile::new_in(env::home_dir().unwrap()).unwrap();
        // The command line does not name these files.
        let tried = [(other.join("data"), "r"), (own.join("new"), "w"), (private.path().to_owned(), "r")];
        std::fs::write(own.join("tried"), json!(tried).to_string()).unwrap();
        let text = "import json, os, tempfile\n\
                    folder = os.path.dirname(__file__)\n\
                    tempfile.TemporaryFile().write(b'x')\n\
                    memory = '/proc/%s/mem' % os.environ['WARPSMITH_TEST_ID']\n\
                    for path, mode in [*json.load(open(folder + '/tried')), (memory, 'rb')]:\n\
                    \x20   try:\n        open(path, mode)\n        print(path + ' is open')\n\
                    \x20   except PermissionError:\n        pass\n\
                    print(open(folder + '/data').read(), end='')\n";
        std::fs::write(own.join("propose.py"), text).unwrap();
        let id = std::process::id();
        let line = format!("WARPSMITH_TEST_ID={id} python3 '{}/propose.py'", own.display());
        assert_eq!(answer(&line).unwrap(), "data\n");
        let program = ProposerProgram { folders: vec![other.clone()], ..program(&line) };
        let text = ask(&program, &json!({}), LONG, &AtomicBool::new(false)).unwrap();
        assert!(text.contains("other/data is open") && !text.contains("new is open"), "{text}");
    }

    #[test]
    fn a_stopped_search_does_not_wait_for_an_answer() {
        let outcome = ask(&program("sleep 300"), &json!({}), LONG, &AtomicBool::new(true));
        assert_eq!(outcome, Err(ProposerError::Stopped));
    }
}
