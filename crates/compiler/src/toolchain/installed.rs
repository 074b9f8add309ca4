//! Where installed toolchains are.

use std::path::{Path, PathBuf};

use super::pinned_wheels;
use super::wheels::nvcc_wheels;

/// The folder of all installed toolchains.
pub(super) fn toolchains(cache: &Path) -> PathBuf {
    cache.join("toolchains")
}

/// The folder of the pinned toolchain, if it is installed.
pub fn installed_root(cache: &Path) -> Option<PathBuf> {
    Some(final_root(cache)).filter(|root| root.is_dir())
}

/// The folder that the pinned toolchain gets.
pub(super) fn final_root(cache: &Path) -> PathBuf {
    toolchains(cache).join(format!("cuda-{}", pinned_wheels()[0].version))
}

/// The folder that the pinned nvcc gets.
pub(super) fn nvcc_root(cache: &Path) -> PathBuf {
    toolchains(cache).join(format!("nvcc-{}", nvcc_wheels()[0].version))
}
