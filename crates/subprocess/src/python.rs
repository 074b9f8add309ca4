//! Finds the Python interpreter. Warpsmith uses it for pip (wheels) and PyTorch (baselines).

use std::path::{Path, PathBuf};

/// The interpreter to run: `WARPSMITH_PYTHON`, else `python3` or `python` on the path.
pub fn interpreter() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("WARPSMITH_PYTHON").filter(|value| !value.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH")?;
    ["python3", "python"].iter().find_map(|name| find_on_path(name, &path))
}

/// The first executable file called `name` in the folders of `path`.
pub fn find_on_path(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
