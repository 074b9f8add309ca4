//! Builds the native module and the program, and runs the tests of the Python package (`python/tests`) with them.
//!
//! The virtual environment is that of `corpus/ptx`. Where it cannot be installed, the test prints `skipped:` and the
//! reason.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

#[allow(dead_code, reason = "only the environment is used")]
#[path = "../../../corpus/ptx/cases.rs"]
mod cases;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_tests_of_the_python_package_pass() {
    let target_tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (python, triton) = match cases::environment(target_tmp) {
        // The lock is released here: other tests may use the environment at the same time.
        Ok(environment) => (environment.python, environment.root.join("triton")),
        Err(reason) => {
            skipped(&format!("the packages for the tests in Python cannot be installed: {reason}"));
            return;
        }
    };
    let Some(cargo) = std::env::var_os("CARGO") else {
        skipped("cargo did not start this test, so the native module cannot be built");
        return;
    };
    let target = target_tmp.parent().unwrap();
    // The features of dependencies depend on what is built. This builds for all packages and their tests, as `cargo test
    // --workspace` does, so that only the native module is left to build. For two packages alone nearly everything would
    // be built once more.
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--workspace", "--lib", "--bins", "--tests"])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(&root)
        .status();
    assert!(built.unwrap().success(), "the native module does not build");
    let package = package(&root.join("python/warpsmith"), target);

    let pytest = |python: &Path, tests: &str| {
        let mut pytest = Command::new(python);
        for name in
            ["CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "WARPSMITH_PYTHON", "COLUMNS"]
        {
            pytest.env_remove(name);
        }
        let output = pytest
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "-c"])
            .args([root.join("python/pyproject.toml"), root.join("python/tests").join(tests)])
            // `-m` makes Python look for modules here first. The sources of the package lack the native module.
            .current_dir(&package)
            .env("PYTHONPATH", &package)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TRITON_CACHE_DIR", &triton)
            .env("WARPSMITH_PROGRAM", target.join("debug/warpsmith"))
            .env("WARPSMITH_CUDA", compiler::testing::pinned_root(target_tmp))
            .env("WARPSMITH_CACHE", compiler::testing::shared_cache(target_tmp))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.lines().last().unwrap_or_default().contains(" passed"), "{text}");
        text
    };
    let text = pytest(&python, "");
    assert!(!text.lines().last().unwrap_or_default().contains("skipped"), "{text}");

    // PyTorch has gigabytes, so it is not in the environment. An interpreter with torch, triton and pytest can be named.
    match std::env::var_os("WARPSMITH_TORCH_PYTHON") {
        Some(python) => drop(pytest(Path::new(&python), "test_virtual_cuda.py")),
        None => skipped("the suites for PyTorch, which are a CI job of their own: .ci/pytorch"),
    }
}

/// Says what was not tested. The test harness would hide the output of a test that passes, so this goes past it.
fn skipped(what: &str) {
    std::io::stderr().write_all(format!("\n*** skipped: {what} ***\n").as_bytes()).unwrap();
}

/// The package as a wheel has it. Returns the folder that contains it.
fn package(source: &Path, target: &Path) -> PathBuf {
    let folder = target.join("tmp/python-package");
    let package = folder.join("warpsmith");
    let _ = fs::remove_dir_all(&package);
    fs::create_dir_all(&package).unwrap();
    for file in fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "py") {
            fs::copy(&file, package.join(file.file_name().unwrap())).unwrap();
        }
    }
    fs::copy(target.join("debug/lib_native.so"), package.join("_native.abi3.so")).unwrap();
    folder
}
