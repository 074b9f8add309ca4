//! Helpers that tests of several crates share. They are not part of the public interface.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::toolchain::{self, Origin, Toolchain};

/// The pinned toolchain, installed once below cargo's folder for test files. Tests then depend neither on the
/// machine's CUDA nor on the user's cache.
pub fn pinned_toolchain(target_tmp: &Path) -> Toolchain {
    let root = pinned_root(target_tmp);
    toolchain::from_root(Origin::Named, &root).expect("the installed wheels make a toolchain")
}

/// The folder of the pinned toolchain, for `WARPSMITH_CUDA`.
pub fn pinned_root(target_tmp: &Path) -> PathBuf {
    toolchain::install(&target_tmp.join("shared-toolchain"), &mut |_| ())
        .unwrap_or_else(|error| panic!("tests need NVRTC: {error}; {}", error.remedy()))
}

/// A cache that the tests of all crates share and keep between runs. Its entries are keyed by everything that was
/// compiled, so they stay valid. Tests of the cache itself use their own.
pub fn shared_cache(target_tmp: &Path) -> PathBuf {
    target_tmp.join("shared-cache")
}

/// The folder of numpy, for `PYTHONPATH`: installed once below cargo's folder for test files.
pub fn numpy(target_tmp: &Path) -> PathBuf {
    let folder = target_tmp.join("numpy");
    let lock = File::create(target_tmp.join("numpy.lock")).expect("a lock file for numpy");
    lock.lock().expect("the lock of numpy");
    if !folder.join("numpy").is_dir() {
        let partial = target_tmp.join("numpy.partial");
        let _ = fs::remove_dir_all(&partial);
        let python = subprocess::python::interpreter().expect("tests need Python 3");
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
        let installed = pip.arg(&partial).arg("numpy>=1.26,<3").output().expect("pip starts");
        assert!(
            installed.status.success(),
            "tests need numpy: {}",
            String::from_utf8_lossy(&installed.stderr)
        );
        fs::rename(&partial, &folder).expect("numpy is complete");
    }
    folder
}
