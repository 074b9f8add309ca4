//! Runs the real program as a user does, in an isolated environment: no colour, a separate cache, a pinned compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Cargo's folder for files of tests.
pub fn target_tmp() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The program, with an environment that does not depend on the machine.
pub fn warpsmith() -> Command {
    warpsmith_by(env!("CARGO_BIN_EXE_warpsmith"))
}

/// Another program in the same environment, such as a shell that starts warpsmith.
pub fn warpsmith_by(program: &str) -> Command {
    let mut command = Command::new(program);
    for name in [
        "CUDA_HOME",
        "CUDA_PATH",
        "LD_LIBRARY_PATH",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "WARPSMITH_PYTHON",
        "WARPSMITH_FA3",
        "COLUMNS",
    ] {
        command.env_remove(name);
    }
    command
        .env("NO_COLOR", "1")
        .env("WARPSMITH_CUDA", compiler::testing::pinned_root(target_tmp()))
        .env("PYTHONPATH", compiler::testing::numpy(target_tmp()))
        .env("WARPSMITH_CACHE", compiler::testing::shared_cache(target_tmp()));
    command
}

/// The result of one invocation: the exit code and both streams.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Whether a command line, without the program, runs or compiles kernels, so that it takes `--device`.
pub fn runs_kernels(line: &str) -> bool {
    let command = line.split(' ').next().unwrap_or_default();
    let others =
        ["export", "gate", "kernels", "new", "problems", "replay", "report", "runs", "suites", "toolchain"];
    !others.contains(&command)
}

/// A command with `--json`, on a virtual GPU.
pub fn json_command(line: &str) -> Command {
    let mut command = warpsmith();
    command.args(line.split(' ')).arg("--json");
    if runs_kernels(line) {
        command.args(["--device", "virtual:l4"]);
    }
    command
}

/// Says what was not tested. The test harness would hide the output of a test that passes, so this goes past it.
pub fn skipped(what: &str) {
    use std::io::Write as _;
    std::io::stderr().write_all(format!("\n*** skipped: {what} ***\n").as_bytes()).unwrap();
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    Run {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "exit code: {}\n----- stdout -----\n{}\n----- stderr -----\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

/// Snapshot settings that replace text that differs between machines or runs.
pub fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    let tmp = target_tmp().display().to_string();
    settings.add_filter(&regex_escape(&tmp), "[TMP]");
    settings.add_filter(r"/tmp/\.tmp\w+|/[\w/.-]*/\.tmp\w+", "[DIR]");
    settings.add_filter(r"\b[0-9a-f]{32}\b", "[HASH]");
    settings.add_filter(r#""(elapsed|compile)_ms": [0-9.]+"#, r#""${1}_ms": "[TIME]""#);
    settings.add_filter(r"\b[0-9.]+ (ms|s)\b", "[TIME]");
    settings.add_filter(r" +\[TIME\]", " [TIME]");
    settings
}

fn regex_escape(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '/' { c.to_string() } else { format!("\\{c}") })
        .collect()
}

/// A folder with one family, `demo/scale`, whose kernel is `source`.
pub fn family_folder(source: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_family(folder.path(), "scale", source);
    folder
}

/// Writes a family of op `demo` and returns its folder.
pub fn write_family(root: &Path, name: &str, source: &str) -> PathBuf {
    const MANIFEST: &str = r#"
[family]
description = "multiplies a vector"
entry = "scale"
targets = ["sm_80", "sm_89"]
[supports]
dtype = ["fp32"]
[knobs.BLOCK]
values = [64, 128]
default = 128
about = "threads of a block"
[presets.plain]
about = "the defaults"
[launch]
sizes = ["n"]
grid = ["ceil_div(n, BLOCK)"]
block = ["BLOCK"]
[limits]
registers = 32
spill_bytes = 0
"#;
    let folder = root.join("demo").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("kernel.toml"), MANIFEST).expect("a file");
    std::fs::write(folder.join("kernel.cu"), source).expect("a file");
    folder
}

/// A kernel that multiplies a vector by two.
pub const SCALE: &str = "#include \"generated.cuh\"
extern \"C\" __global__ void scale(float* x, int n)
{
    int i = blockIdx.x * knob::BLOCK + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
";
