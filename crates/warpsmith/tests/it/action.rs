//! Runs the scripts of `action.yml` as a GitHub runner does: in bash, with inputs as environment variables, and with
//! files for outputs and paths.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{Run, run, warpsmith_by};

const ACTION: &str = include_str!("../../../../action.yml");

/// The script of a step.
fn script(step: &str) -> String {
    let mut lines = ACTION.lines().skip_while(|line| line.trim() != format!("- name: {step}"));
    lines.next().expect("the step");
    let of_step: Vec<&str> = lines.take_while(|line| !line.starts_with("    - ")).collect();
    let from = of_step.iter().position(|line| line.trim() == "run: |").expect("a script") + 1;
    of_step[from..].iter().flat_map(|line| [line.get(8..).unwrap_or_default(), "\n"]).collect()
}

/// What a runner gives to the steps of one job.
struct Runner {
    folder: TempDir,
}

impl Runner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "temp", "workspace", "bin"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Runner { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program on the path of the job.
    fn program(&self, name: &str, text: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/bash\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a step, and returns its outcome, its outputs and what it added to the path.
    fn step(&self, name: &str, inputs: &[(&str, &str)]) -> (Run, String, String) {
        for file in ["output", "path"] {
            fs::write(self.path(file), "").unwrap();
        }
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script(name)])
            .current_dir(self.path("workspace"))
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env("RUNNER_TEMP", self.path("temp"))
            .env("GITHUB_OUTPUT", self.path("output"))
            .env("GITHUB_PATH", self.path("path"))
            .env("GITHUB_STEP_SUMMARY", self.path("summary.md"));
        for (name, value) in
            [("SOURCE", ""), ("SARIF", ""), ("CATEGORY", ""), ("ARGUMENTS", "")].iter().chain(inputs)
        {
            bash.env(name, value);
        }
        let outcome = run(&mut bash);
        let read = |file: &str| fs::read_to_string(self.path(file)).unwrap();
        (outcome, read("output"), read("path"))
    }
}

/// A folder with the files that decide which program is built.
fn source(folder: &Path) -> String {
    for (file, text) in [
        ("Cargo.toml", ""),
        ("Cargo.lock", ""),
        ("crates/warpsmith/main.rs", "a"),
        ("kernels/x.cu", ""),
        ("README.md", "a"),
    ] {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn the_key_of_the_cache_follows_the_source_of_the_action() {
    let runner = Runner::new();
    let source = source(&runner.path("action"));
    let look = || {
        let (outcome, outputs, path) = runner.step("Look for a program", &[("ACTION_SOURCE", &source)]);
        assert_eq!(outcome.code, 0, "{outcome}");
        (outputs, path)
    };
    let (first, path) = look();
    let folder = first.lines().find_map(|line| line.strip_prefix("folder=")).unwrap().to_owned();
    assert_eq!(path.trim(), format!("{folder}/bin"));
    assert!(first.contains("\nkey=warpsmith-"), "{first}");
    // A page of the book changes no program; a source does.
    fs::write(runner.path("action/README.md"), "b").unwrap();
    assert_eq!(look().0, first);
    fs::write(runner.path("action/crates/warpsmith/main.rs"), "b").unwrap();
    assert_ne!(look().0, first);
    fs::write(runner.path("action/crates/warpsmith/main.rs"), "a").unwrap();
    // A program that is there is used: of an earlier step, or of the job.
    fs::create_dir_all(format!("{folder}/bin")).unwrap();
    fs::copy("/bin/true", format!("{folder}/bin/warpsmith")).unwrap();
    assert_eq!(look(), (String::new(), path));
    fs::remove_dir_all(&folder).unwrap();
    runner.program("warpsmith", "");
    assert_eq!(look(), (String::new(), String::new()));
    // A source that the job names is installed in any case.
    let (_, named, _) = runner.step("Look for a program", &[("SOURCE", &source), ("ACTION_SOURCE", "/")]);
    assert_eq!(named, first);
}

#[test]
fn the_action_takes_the_program_of_its_release_or_compiles_it() {
    let runner = Runner::new();
    let source = source(&runner.path("action"));
    let calls = runner.path("calls");
    let folder = runner.path("home/program").display().to_string();
    let install = |reference: &str| {
        let _ = fs::remove_dir_all(&folder);
        fs::write(&calls, "").unwrap();
        let inputs = [
            ("ACTION_SOURCE", source.as_str()),
            ("FOLDER", &folder),
            ("REFERENCE", reference),
            ("RELEASES", "releases"),
        ];
        let (outcome, ..) = runner.step("Install Warpsmith", &inputs);
        (outcome, fs::read_to_string(&calls).unwrap())
    };
    if !Path::new("/usr/bin/cargo").exists() {
        let (nothing, _) = install("main");
        assert_eq!(nothing.code, 3, "{nothing}");
        assert!(nothing.stderr.contains("no cargo"), "{nothing}");
    }

    let stub = "printf '#!/bin/bash\\necho \"program $*\" >> CALLS\\n'"
        .replace("CALLS", &calls.display().to_string());
    let compile = "echo \"cargo $*\" >> CALLS; while [ \"$1\" != --root ]; do shift; done; mkdir -p \"$2/bin\"; STUB > \"$2/bin/warpsmith\"; \
                   chmod +x \"$2/bin/warpsmith\"";
    runner.program("cargo", &compile.replace("STUB", &stub).replace("CALLS", &calls.display().to_string()));
    let (compiled, called) = install("main");
    assert_eq!(compiled.code, 0, "{compiled}");
    assert_eq!(
        called,
        format!(
            "cargo install --locked --root {folder} --path {source}/crates/warpsmith\nprogram toolchain install\n"
        )
    );

    // A release: curl writes the files that were asked for.
    let release = "name=warpsmith-$(uname -m)-linux; mkdir $name; STUB > $name/warpsmith; chmod +x $name/warpsmith; \
                   tar -czf $name.tar.gz $name; sha256sum $name.tar.gz > $name.tar.gz.sha256; rm -r $name; echo \"curl $*\" >> CALLS"
        .replace("STUB", &stub)
        .replace("CALLS", &calls.display().to_string());
    runner.program("curl", &release);
    let (downloaded, called) = install("v0.1.0");
    assert_eq!(downloaded.code, 0, "{downloaded}");
    assert!(called.contains("releases/v0.1.0/warpsmith-") && !called.contains("cargo"), "{called}");
    assert!(!install("main").1.contains("curl"), "a branch has no release");
    // A file that differs from its checksum is not used.
    runner.program("curl", &release.replace("; rm -r", "; echo >> $name.tar.gz; rm -r"));
    let (damaged, called) = install("v0.1.0");
    assert_eq!(damaged.code, 0, "{damaged}");
    assert!(called.contains("cargo install"), "{called}");
}

#[test]
fn the_action_splits_arguments_and_executes_nothing_of_them() {
    let runner = Runner::new();
    runner.program("warpsmith", "printf '<%s>' \"$@\"");
    let shown = |inputs: &[(&str, &str)]| runner.step("Run Warpsmith", inputs).0;
    let outcome = shown(&[("COMMAND", "bench"), ("ARGUMENTS", "a  'b c'\n\"d e\" $(id) `id` ;x")]);
    assert_eq!(outcome.stdout, "<bench><a><b c><d e><$(id)><`id`><;x>", "{outcome}");
    assert_eq!(shown(&[("COMMAND", "fp8")]).stdout, "<fp8>");
    for (name, value) in
        [("COMMAND", "-x"), ("COMMAND", "a;b"), ("COMMAND", ""), ("ARGUMENTS", "'a"), ("SARIF", "a\nb=c")]
    {
        let wrong = shown(&[("COMMAND", "check"), (name, value)]);
        assert_eq!(wrong.code, 2, "{name} {value}: {wrong}");
    }
}

#[test]
fn findings_of_the_action_are_uploaded_once_per_step() {
    let runner = Runner::new();
    let kernel = "__global__ void f(float* x) { x[threadIdx.x] = 1.0f; }\n";
    let line = "// warpsmith: --kernel f --grid 1 --block 32 --arg x=out,f32[31]\n";
    fs::write(runner.path("workspace/op.cu"), format!("{line}{kernel}")).unwrap();
    // The real program, in the environment of the tests.
    let program = warpsmith_by(env!("CARGO_BIN_EXE_warpsmith"));
    let environment: String = program
        .get_envs()
        .map(|(name, value)| match value {
            Some(value) => format!("export {}='{}'\n", name.display(), value.display()),
            None => format!("unset {}\n", name.display()),
        })
        .collect();
    runner.program("warpsmith", &format!("{environment}exec '{}' \"$@\"", env!("CARGO_BIN_EXE_warpsmith")));
    let step = |arguments| runner.step("Run Warpsmith", &[("COMMAND", "sanitize"), ("ARGUMENTS", arguments)]);
    let (first, outputs, _) = step("op.cu");
    assert_eq!(first.code, 1, "{first}");
    assert!(first.stdout.contains("::error file=op.cu,line=2,"), "{first}");
    assert_eq!(outputs, "sarif=warpsmith-sanitize.sarif\ncategory=warpsmith-sanitize\nwritten=true\n");
    assert!(
        fs::read_to_string(runner.path("workspace/warpsmith-sanitize.sarif"))
            .unwrap()
            .contains("out-of-bounds")
    );
    assert!(fs::read_to_string(runner.path("summary.md")).unwrap().contains("op.cu"));
    // Code scanning refuses a second upload of the same category.
    let (second, outputs, _) = step("op.cu --arg x=out,f32[32]");
    assert_eq!(second.code, 0, "{second}");
    assert_eq!(outputs, "sarif=warpsmith-sanitize-2.sarif\ncategory=warpsmith-sanitize-2\nwritten=true\n");
    // A usage error writes no file.
    let (wrong, outputs, _) = step("nosuch.cu");
    assert_eq!(wrong.code, 2, "{wrong}");
    assert!(!outputs.contains("written"), "{outputs}");
}
