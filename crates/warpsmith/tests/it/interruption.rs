//! Tests that installations and builds survive a kill, four parallel processes, and a missing pip or network.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{run, target_tmp, warpsmith};

/// A folder with the wheels, which pip downloads once. Installing from it needs no network.
fn wheel_folder() -> std::path::PathBuf {
    // An older list of wheels has a folder of its own.
    let wheels = compiler::toolchain::pinned_wheels().iter();
    let versions: Vec<&str> = wheels.map(|wheel| wheel.version).collect();
    let folder = target_tmp().join(format!("wheels-{}", versions.join("-")));
    let lock = std::fs::File::create(target_tmp().join("wheels.lock")).unwrap();
    lock.lock().unwrap();
    if !folder.is_dir() {
        let partial = target_tmp().join("wheels.partial");
        let python = subprocess::python::interpreter().expect("tests need Python with pip");
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "--dest"])
            .arg(&partial);
        for wheel in compiler::toolchain::pinned_wheels() {
            pip.arg(format!("{}=={}", wheel.package, wheel.version));
        }
        assert!(pip.status().unwrap().success(), "pip could not fetch the wheels");
        std::fs::rename(&partial, &folder).unwrap();
    }
    folder
}

/// The command that installs a toolchain into a cache, from the wheels on disk.
fn install(cache: &Path) -> Command {
    let mut command = warpsmith();
    command.env_remove("WARPSMITH_CUDA").env("WARPSMITH_CACHE", cache);
    command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheel_folder());
    command.args(["toolchain", "install"]);
    command
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
}

/// Starts the command and kills it with SIGKILL after a time, unless it has ended.
fn kill_after(command: &mut Command, milliseconds: u64) {
    let mut child = start(command);
    std::thread::sleep(Duration::from_millis(milliseconds));
    let _ = child.kill();
    child.wait().expect("a child can be waited for");
}

/// Asserts that the toolchain in `cache` compiles.
fn assert_compiles(cache: &Path) {
    let root = compiler::toolchain::installed_root(cache).expect("a toolchain is installed");
    let mut command = warpsmith();
    command.env("WARPSMITH_CUDA", root).env("WARPSMITH_CACHE", cache);
    command.args(["build", "reference", "--arch", "sm_80"]);
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{outcome}");
}

/// The names of partial installations in a folder.
fn leftovers(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("partial"))
        .collect()
}

#[test]
fn an_installation_killed_at_any_moment_is_finished_by_the_next() {
    let cache = tempfile::tempdir().unwrap();
    // On most machines these times reach from before pip starts to the middle of unpacking.
    for milliseconds in [30, 400, 900, 1500, 2200, 3000] {
        kill_after(&mut install(cache.path()), milliseconds);
    }
    let outcome = run(&mut install(cache.path()));
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(leftovers(&cache.path().join("toolchains")), Vec::<String>::new());
    assert_compiles(cache.path());
}

#[test]
fn four_installations_at_once_make_one_toolchain() {
    let cache = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..4).map(|_| start(&mut install(cache.path()))).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(leftovers(&cache.path().join("toolchains")), Vec::<String>::new());
    assert_compiles(cache.path());
}

#[test]
fn clean_removes_the_toolchain_or_says_that_none_was_installed() {
    let cache = tempfile::tempdir().unwrap();
    let clean = || run(warpsmith().env("WARPSMITH_CACHE", cache.path()).args(["toolchain", "clean"]));
    assert_eq!(clean().stdout.trim(), "nothing was installed");
    assert_eq!(run(&mut install(cache.path())).code, 0);
    assert!(compiler::toolchain::installed_root(cache.path()).is_some());
    assert_eq!(clean().stdout.trim(), "removed the installed CUDA compiler");
    assert!(compiler::toolchain::installed_root(cache.path()).is_none());
}

#[test]
fn builds_killed_at_any_moment_leave_a_working_cache() {
    let cache = tempfile::tempdir().unwrap();
    let build = || {
        let mut command = warpsmith();
        command
            .env("WARPSMITH_CACHE", cache.path())
            .args(["build", "wmma", "--all", "--arch", "sm_80", "--json"]);
        command
    };
    for milliseconds in [10, 300, 700, 1100, 1600] {
        kill_after(&mut build(), milliseconds);
    }
    let outcome = run(&mut build());
    assert_eq!(outcome.code, 0, "{outcome}");
    let again = run(&mut build());
    let document: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    for row in document["builds"].as_array().unwrap() {
        assert_eq!(row["cached"], true, "{row}");
    }
}

#[test]
fn four_builds_at_once_on_an_empty_cache_all_succeed() {
    let cache = tempfile::tempdir().unwrap();
    let build = || {
        let mut command = warpsmith();
        command.env("WARPSMITH_CACHE", cache.path()).args(["build", "reference", "--all"]);
        command
    };
    let children: Vec<Child> = (0..4).map(|_| start(&mut build())).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_missing_python_pip_or_network_is_exit_3_with_a_hint() {
    let cache = tempfile::tempdir().unwrap();
    let attempt = |set: &dyn Fn(&mut Command)| {
        let mut command = install(cache.path());
        set(&mut command);
        let outcome = run(&mut command);
        assert_eq!(outcome.code, 3, "{outcome}");
        outcome.stderr
    };
    let no_python = attempt(&|command| {
        command.env("WARPSMITH_PYTHON", "/nowhere/python3");
    });
    assert!(no_python.contains("hint: install Python 3 with pip"), "{no_python}");

    let bare = cache.path().join("bare");
    let python = subprocess::python::interpreter().unwrap();
    let made = Command::new(python).args(["-m", "venv", "--without-pip"]).arg(&bare).status().unwrap();
    assert!(made.success());
    let no_pip = attempt(&|command| {
        command.env("WARPSMITH_PYTHON", bare.join("bin/python3"));
    });
    assert!(no_pip.contains("-m ensurepip --upgrade"), "{no_pip}");

    let no_network = attempt(&|command| {
        command.env("PIP_FIND_LINKS", "/nowhere");
    });
    assert!(no_network.contains("pip cannot download nvidia-cuda-nvrtc"), "{no_network}");
    assert!(
        no_network.contains("toolchain requirements") && no_network.contains("pip download"),
        "{no_network}"
    );
    assert_eq!(leftovers(&cache.path().join("toolchains")), Vec::<String>::new());
}

#[test]
fn an_installation_into_an_unwritable_cache_is_exit_3() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let outcome = run(&mut install(&blocked));
    assert_eq!(outcome.code, 3, "{outcome}");
    assert!(outcome.stderr.contains("set WARPSMITH_CACHE"), "{outcome}");
}
