//! What tests of several crates share. Not part of the library's promise.

use std::path::{Path, PathBuf};

use crate::toolchain::{self, Origin, Toolchain};

/// The pinned toolchain, installed once below cargo's folder for test files, so that tests neither depend on what
/// CUDA the machine has nor touch the user's cache.
pub fn pinned_toolchain(target_tmp: &Path) -> Toolchain {
    let root = pinned_root(target_tmp);
    toolchain::from_root(Origin::Named, &root).expect("the installed wheels make a toolchain")
}

/// Its folder, to be passed as `WARPSMITH_CUDA`.
pub fn pinned_root(target_tmp: &Path) -> PathBuf {
    toolchain::install(&target_tmp.join("shared-toolchain"), &mut |_| ())
        .unwrap_or_else(|error| panic!("tests need NVRTC: {error}; {}", error.remedy()))
}

/// A cache that all crates' tests share and that is kept between test runs: what is in it is keyed by everything that
/// was compiled. Tests that are about a cache have one of their own.
pub fn shared_cache(target_tmp: &Path) -> PathBuf {
    target_tmp.join("shared-cache")
}
