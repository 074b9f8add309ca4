//! Helpers that tests of several crates share. They are not part of the public interface.

use std::path::{Path, PathBuf};

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
