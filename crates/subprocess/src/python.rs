//! Finds the Python interpreter, and asks it where its files are. Warpsmith uses it for pip (wheels), PyTorch
//! (baselines) and references.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter to run: `WARPSMITH_PYTHON`, else `python3` or `python` on the path.
pub fn interpreter() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("WARPSMITH_PYTHON").filter(|value| !value.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH")?;
    ["python3", "python"].iter().find_map(|name| find_on_path(name, &path))
}

/// A Python interpreter and what it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The interpreter itself. The command that names it may be a script that finds it, as with pyenv.
    pub executable: PathBuf,
    /// Its libraries and packages, those of a virtual environment and of `PYTHONPATH` included.
    pub folders: Vec<PathBuf>,
}

impl Installation {
    /// Asks an interpreter.
    pub fn of(interpreter: &Path) -> io::Result<Self> {
        // The current folder comes first with `-c`; a file there must not take the place of a module.
        let script = "import sys; sys.path[:] = [it for it in sys.path if it]\n\
                      import os, sysconfig\n\
                      found = [sys.executable, os.path.dirname(os.path.realpath(sys.executable)), sys.prefix, \
                      sys.base_prefix, sys.exec_prefix, *sys.path, *sysconfig.get_paths().values()]\n\
                      sys.stdout.buffer.write(b'\\0'.join(os.fsencode(it) for it in found if it))";
        let output = Command::new(interpreter).args(["-c", script]).output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(io::Error::other(format!("{}: {text}", interpreter.display())));
        }
        let mut paths =
            output.stdout.split(|&byte| byte == 0).map(|path| OsString::from_vec(path.to_vec()).into());
        let executable: PathBuf = paths.next().unwrap_or_default();
        let mut folders: Vec<PathBuf> =
            executable.parent().map(Path::to_owned).into_iter().chain(paths).collect();
        folders.sort();
        folders.dedup();
        Ok(Installation { executable, folders })
    }
}

/// The first executable file called `name` in the folders of `path`.
pub fn find_on_path(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
