//! Tests that untrusted data (run folders, logs, kernels, file names) can do no harm.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use runlog::{Event, Fact, Manifest, ResultId, Run as Folder, RunOutcome};

use crate::common::{Run, SCALE, family_folder, run, skipped, warpsmith, write_family};

const PROBLEM: &str = "b1h1s16d64-fp16";

/// A stopped run of somebody else, started with this command line.
fn foreign_run(folder: &Path, line: &[&str]) {
    let line: Vec<String> =
        std::iter::once("warpsmith").chain(line.iter().copied()).map(str::to_owned).collect();
    let manifest = Manifest {
        gpu: Fact::Known("virtual l4".to_owned()),
        device: Fact::Known("virtual:l4".to_owned()),
        ..Manifest::new(&line[1].clone(), line, 1)
    };
    Folder::create(Some(folder), manifest).unwrap();
}

fn in_colour(command: &mut Command) -> &mut Command {
    command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1")
}

/// The text without styles. Any other escape sequence becomes `ESCAPE`.
fn without_styles(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (style, rest) = piece.split_once('m').unwrap_or(("?", piece));
        let is_style = style.chars().all(|c| c.is_ascii_digit() || c == ';');
        plain += if is_style { rest } else { "ESCAPE" };
    }
    plain
}

#[test]
fn a_resumed_run_does_not_use_untrusted_flags_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let touched = folder.join("touched");
    let proposer = format!("touch {} # \x1b[2J", touched.display());
    let search = ["--device", "virtual:l4", "--problem", PROBLEM, "--budget", "1"];
    for (number, (command, flag, value)) in [
        ("evolve", "--proposer-cmd", proposer.as_str()),
        ("evolve", "--endpoint", "http://127.0.0.1:9/v1"),
        ("evolve", "--tuned", "/nowhere/tuned.toml"),
        ("evolve", "--kernels", "/nowhere/kernels"),
        ("evolve", "--cuda", "/nowhere/cuda"),
        ("repro", "--kernels", "/nowhere/kernels"),
        ("bench", "--cuda", "/nowhere/cuda"),
        ("profile", "--kernels", "/nowhere/$(x)"),
        ("invert", "--kernels", "-x"),
    ]
    .into_iter()
    .enumerate()
    {
        let place = folder.join(number.to_string());
        let assignment = format!("{flag}={value}");
        let mut line = vec![command, assignment.as_str()];
        line.extend(if command == "evolve" { &search[..] } else { &search[..2] });
        line.extend(if flag == "--endpoint" { &["--model", "m"][..] } else { &[] });
        foreign_run(&place, &line);
        let mut again = warpsmith();
        again.env_remove("WARPSMITH_CUDA").env("WARPSMITH_API_KEY", "sk-secret");
        let outcome = run(in_colour(&mut again).args([command, "--resume", "--run-dir"]).arg(&place));
        assert_eq!(outcome.code, 2, "{line:?}: {outcome}");
        let stderr = without_styles(&outcome.stderr);
        assert!(stderr.contains(&format!("the run was started with {flag}")), "{line:?}: {outcome}");
        assert!(stderr.contains(&format!("give {flag} again")), "{line:?}: {outcome}");
        assert!(!stderr.contains("ESCAPE"), "{line:?}: {outcome}");
    }
    assert!(!touched.exists());
}

#[test]
fn a_resumed_run_uses_the_proposer_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let (place, touched) = (folder.path().join("run"), folder.path().join("touched"));
    let logged = format!("touch {}", touched.display());
    let common = ["--device", "virtual:l4", "--problem", PROBLEM, "--budget", "1"];
    let line = [&["evolve", "reference", "--proposer-cmd", &logged][..], &common].concat();
    foreign_run(&place, &line);
    let answer = r#"echo '{"knobs": {"BLOCK_THREADS": 64}}'"#;
    let outcome =
        run(warpsmith().args(["evolve", "--resume", "--proposer-cmd", answer, "--run-dir"]).arg(&place));
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(!touched.exists());
}

#[test]
fn no_command_lets_a_log_control_the_terminal() {
    let evil = "\x1b]0;title\x07\x1b[2J\u{9b}31m\u{202e}\r\nholds";
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("run");
    let manifest = Manifest {
        gpu: Fact::Known(format!("gpu {evil}")),
        device: Fact::Known(evil.to_owned()),
        pytorch: Fact::unavailable(evil),
        ..Manifest::new("bench", vec!["warpsmith".to_owned(), "bench".to_owned()], 1)
    };
    let log = Folder::create(Some(&place), manifest).unwrap();
    let of = ResultId::new(format!("p{evil}"), format!("s{evil}"), "b");
    log.record(&Event::CandidateFailed {
        of,
        stage: runlog::Stage::Check,
        failure: runlog::FailureKind::WrongAnswer,
        reason: evil.to_owned(),
    })
    .unwrap();
    log.record(&Event::Note { text: evil.to_owned() }).unwrap();
    log.record(&Event::RunFinished { outcome: RunOutcome::ProblemFound }).unwrap();
    drop(log);
    // An unknown kind of event; a warning shows its name.
    let path = place.join("events.jsonl");
    let seq = fs::read_to_string(&path).unwrap().lines().count();
    let kind = serde_json::to_string(evil).unwrap();
    let line = format!(r#"{{"schema":1,"seq":{seq},"time":"2031-01-01T00:00:00.000Z","kind":{kind}}}"#);
    fs::write(&path, fs::read_to_string(&path).unwrap() + &line + "\n").unwrap();

    let board = folder.path().join("board.json");
    let gate = ["gate", "--github", "--leaderboard", board.to_str().unwrap(), "--run-dir"];
    for (words, place) in [
        (&["report"][..], &place),
        (&["runs", "--run-dir"], &place),
        (&["runs", "--run-dir"], &folder.path().to_owned()),
        (&gate, &place),
        (&["report", "--json"], &place),
        (&["runs", "--json", "--run-dir"], &place),
        (&["bench", "--resume", "--run-dir"], &place),
    ] {
        let outcome = run(in_colour(&mut warpsmith()).args(words).arg(place));
        for text in [&outcome.stdout, &outcome.stderr] {
            let text = without_styles(text);
            let control = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(control, None, "{words:?}: {text:?}");
            assert!(!text.contains("ESCAPE"), "{words:?}: {text:?}");
            assert!(!text.lines().any(|line| line == "holds"), "{words:?}: {text:?}");
        }
    }
}

#[test]
fn an_argument_that_clap_repeats_is_escaped() {
    let outcome = run(in_colour(&mut warpsmith()).args(["check", "--fuzz", "\x1b[2J\u{202e}"]));
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(!without_styles(&outcome.stderr).contains("ESCAPE"), "{outcome}");
    assert!(outcome.stderr.contains("\\u{202e}"), "{outcome}");
}

#[test]
fn a_kernels_output_and_names_cannot_control_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let source = "\
// warpsmith: --kernel k --grid 1 --block 1 --arg x=f32[1]=iota
#line 7 \"a\\033[2Jb.cu\"
extern \"C\" __global__ void k(float* x)
{
    printf(\"\\033]0;title\\007\\033[31mred\\n\");
    x[1] = 1.0f;
}
";
    fs::write(folder.path().join("kernel.cu"), source).unwrap();
    let mut command = warpsmith();
    let outcome = run(in_colour(&mut command).current_dir(folder.path()).args(["sanitize", "kernel.cu"]));
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("\\u{1b}]0;title\\u{7}\\u{1b}[31mred"), "{outcome}");
    let text = without_styles(&outcome.stdout) + &without_styles(&outcome.stderr);
    assert!(!text.contains("ESCAPE") && !text.contains('\x07'), "{text:?}");

    let broken = "extern \"C\" __global__ void k() {\n    \"\x1b[2J\u{202e}\" nonsense;\n}\n";
    fs::write(folder.path().join("kernel.cu"), broken).unwrap();
    let mut command = warpsmith();
    let arguments = ["sanitize", "kernel.cu", "--grid", "1", "--block", "1"];
    let outcome = run(in_colour(&mut command).current_dir(folder.path()).args(arguments));
    assert_eq!(outcome.code, 1, "{outcome}");
    let text = without_styles(&outcome.stderr);
    assert!(!text.contains("ESCAPE") && !text.contains('\u{202e}') && text.contains("nonsense"), "{text:?}");
}

#[test]
fn findings_show_no_lines_of_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    let secret = folder.path().join("secret.txt");
    fs::write(&secret, "the secret of the user\n".repeat(40)).unwrap();
    for name in [secret.to_str().unwrap(), "../secret.txt", "/dev/zero"] {
        let source = format!(
            "// warpsmith: --kernel k --grid 1 --block 1 --arg x=f32[1]=iota\n\
             extern \"C\" __global__ void k(float* x)\n{{\n#line 7 \"{name}\"\n    x[1] = 1.0f;\n}}\n"
        );
        fs::write(own.join("kernel.cu"), source).unwrap();
        let outcome = run(warpsmith().current_dir(&own).args(["sanitize", "kernel.cu"]));
        assert_eq!(outcome.code, 1, "{outcome}");
        assert!(
            outcome.stdout.contains("out of bounds") && !outcome.stdout.contains("the secret"),
            "{outcome}"
        );
    }
}

#[test]
fn too_many_cases_are_refused() {
    for (arguments, words) in [
        (&["--seeds", "99999999999"][..], "1..=1000000"),
        (&["--seeds", "0"], "1..=1000000"),
        (&["--fuzz", "99999999999"], "1..=1000000"),
        (&["--fuzz", "0"], "1..=1000000"),
        (&["--seeds", "1000000"], "cases; 1000000 are allowed"),
        (&["--fuzz", "1000", "--seeds", "100000"], "cases; 1000000 are allowed"),
    ] {
        let outcome = run(warpsmith().args(["check", "--device", "virtual:l4"]).args(arguments));
        assert_eq!(outcome.code, 2, "{arguments:?}: {outcome}");
        assert!(outcome.stderr.contains(words), "{arguments:?}: {outcome}");
    }
}

#[test]
fn a_run_folder_whose_name_is_not_utf8_is_refused_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join(OsStr::from_bytes(b"run \xff"));
    for resume in [&[][..], &["--resume"]] {
        let arguments = ["bench", "reference", "--device", "virtual:l4", "--problem", PROBLEM, "--run-dir"];
        let outcome = run(warpsmith().args(arguments).arg(&place).args(resume));
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains("is not UTF-8") && outcome.stderr.contains("\\xff"), "{outcome}");
    }
    // Other paths need not be UTF-8: the kernels folder is not part of the messages to workers.
    let kernels = folder.path().join(OsStr::from_bytes(b"kernels \xff"));
    write_family(&kernels, "scale", SCALE);
    let arguments = ["bench", "reference", "--device", "virtual:l4", "--problem", PROBLEM, "--kernels"];
    let mut command = warpsmith();
    let outcome = run(command.args(arguments).arg(&kernels).arg("--run-dir").arg(folder.path().join("run")));
    assert_eq!(outcome.code, 0, "{outcome}");
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_not() {
    for arguments in
        [&["kernels"][..], &["kernels", "--json"], &["--help"], &["--version"], &["man", "--help"]]
    {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let outcome = warpsmith().args(arguments).stdout(full).output().unwrap();
        assert_eq!(outcome.status.code(), Some(3), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        assert!(stderr.contains("cannot write") && !stderr.contains("panicked"), "{stderr}");

        let line = r#"exec "$@" >&-"#;
        let program = warpsmith().get_program().to_owned();
        let outcome = Command::new("sh").args(["-c", line, "sh"]).arg(&program).args(arguments).output();
        let outcome = outcome.unwrap();
        let is_help = arguments.iter().any(|word| word.starts_with("--h") || word.starts_with("--v"));
        assert!(is_help || outcome.status.code() == Some(3), "{arguments:?}: {outcome:?}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let outcome = warpsmith().args(arguments).stdout(writer).output().unwrap();
        assert_eq!(outcome.status.code(), Some(0), "{arguments:?}");
        assert!(outcome.stderr.is_empty(), "{}", String::from_utf8_lossy(&outcome.stderr));
    }
}

/// Runs the program with a small file system of its own at `place`. `None` if this user cannot mount one.
fn on_small_disk(place: &Path, size: &str, command: &Command) -> Option<Run> {
    let mount = format!("mount -t tmpfs -o size={size} tmpfs \"$0\" || exit 99; exec \"$@\"");
    let mut program = Command::new("unshare");
    program.args(["--mount", "sh", "-c", &mount]).arg(place);
    program.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => program.env(name, value),
            None => program.env_remove(name),
        };
    }
    let outcome = program.output().ok()?;
    let is_mounted = outcome.status.code().is_some_and(|code| code != 99)
        && !String::from_utf8_lossy(&outcome.stderr).starts_with("unshare:");
    is_mounted.then(|| Run {
        code: outcome.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&outcome.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&outcome.stderr).into_owned(),
    })
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, run_folder) = (folder.path(), folder.path().join("run"));
    // The log, the folder of the processes and the report are the first that do not fit.
    for size in ["4k", "16k", "32k"] {
        for arguments in
            [&["bench", "reference", "--baseline", "none"][..], &["evolve", "reference", "--budget", "2"]]
        {
            let mut command = warpsmith();
            command.args(arguments).args(["--device", "virtual:l4", "--problem", PROBLEM, "--run-dir"]);
            command.arg(&run_folder);
            let Some(outcome) = on_small_disk(disk, size, &command) else {
                skipped("this user cannot mount a file system");
                return;
            };
            assert_eq!(outcome.code, 3, "{size} {arguments:?}: {outcome}");
            assert!(outcome.stderr.contains("No space left on device"), "{size} {arguments:?}: {outcome}");
            assert!(outcome.stderr.contains(run_folder.to_str().unwrap()), "{size} {arguments:?}: {outcome}");
            assert!(!outcome.stderr.contains("panicked"), "{size} {arguments:?}: {outcome}");
        }
    }
    // A cache that is full is no error.
    let mut command = warpsmith();
    command.args(["check", "reference", "--device", "virtual:l4", "--problem", PROBLEM, "--class", "normal"]);
    command.env("WARPSMITH_CACHE", folder.path());
    let outcome = on_small_disk(disk, "16k", &command).unwrap();
    assert_eq!(outcome.code, 0, "{outcome}");
}

#[test]
fn an_unwritable_build_cache_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("builds"), "a file where a folder should be").unwrap();
    let kernels = family_folder(SCALE);
    let arguments = ["build", "scale", "--arch", "sm_80", "--arch", "sm_89", "--kernels"];
    let outcome = run(warpsmith().env("WARPSMITH_CACHE", &cache).args(arguments).arg(kernels.path()));
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(outcome.stderr.matches("cannot store builds in the cache").count(), 1, "{outcome}");
}

#[test]
fn a_manifest_with_endless_expressions_is_refused_quickly() {
    let folder = family_folder(SCALE);
    let manifest = folder.path().join("demo/scale/kernel.toml");
    let list = format!("[{}]", vec!["1"; 200].join(","));
    let nested = (0..6).fold("1".to_owned(), |inner, number| format!("{list}.map(x{number}, {inner})"));
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text.replace("ceil_div(n, BLOCK)", &format!("size({nested})"));
    fs::write(&manifest, text).unwrap();
    let started = std::time::Instant::now();
    let outcome = run(warpsmith().args(["kernels", "scale", "--kernels"]).arg(folder.path()));
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(started.elapsed().as_secs() < 20);
}

#[test]
fn oversized_or_invalid_files_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("suite.toml");
    let values = (1..=50).map(|size| size.to_string()).collect::<Vec<_>>().join(",");
    for (text, words) in [
        ("problems = [\"mission\"]\nseconds = -1.0\n".to_owned(), "`seconds` is -1"),
        ("problems = [\"mission\"]\nseconds = nan\n".to_owned(), "`seconds` is NaN"),
        (
            format!("[[problems]]\nb = [{values}]\nh = [{values}]\ns = [{values}]\n"),
            "expands to 125000 problems; 10000 are allowed",
        ),
        (format!("problems = [{}]\n", "\"mission\",".repeat(20_000)), "has more than 10000 problems"),
        ("#".repeat(2 << 20), "is larger than"),
    ] {
        fs::write(&suite, text).unwrap();
        let arguments = ["bench", "reference", "--device", "virtual:l4", "--suite"];
        let outcome = run(warpsmith().current_dir(folder.path()).args(arguments).arg(&suite));
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    for arguments in [
        &["bench", "reference", "--device", "virtual:l4", "--suite", "/dev/zero"][..],
        &["gate", "--leaderboard", "/dev/zero", "--run-dir", "/nowhere"],
        &["replay", "--space", "/dev/zero"],
        &["sanitize", "/dev/zero"],
    ] {
        let outcome = run(warpsmith().current_dir(folder.path()).args(arguments));
        assert_eq!(outcome.code, 2, "{arguments:?}: {outcome}");
    }
}
