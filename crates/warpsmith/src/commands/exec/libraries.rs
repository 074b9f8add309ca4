//! The libraries that stand in for CUDA's: where they are, and a folder in which they have CUDA's names.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use execlog::libraries::{DRIVER, RUNTIME};

use crate::error::CommandError;

/// The folder that users name if the libraries are elsewhere.
const VARIABLE: &str = "WARPSMITH_EXEC_LIBRARIES";

/// Names under which programs load the libraries.
const NAMES: [(&str, &str); 6] = [
    ("libcuda.so.1", DRIVER),
    ("libcuda.so", DRIVER),
    ("libcudart.so.11.0", RUNTIME),
    ("libcudart.so.12", RUNTIME),
    ("libcudart.so.13", RUNTIME),
    ("libcudart.so", RUNTIME),
];

/// A temporary folder with the libraries under CUDA's names, and the log of the program. It is removed at the end.
#[derive(Debug)]
pub struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Finds the libraries and makes the folder.
    pub fn new() -> Result<Installed, CommandError> {
        let (driver, runtime) = (find(DRIVER)?, find(RUNTIME)?);
        let folder = make_folder().map_err(|error| {
            CommandError::missing(format!("cannot make a temporary folder: {error}"))
                .hint("set TMPDIR to a writable folder")
        })?;
        let installed = Installed { folder };
        for (name, file) in NAMES {
            let target = if file == DRIVER { &driver } else { &runtime };
            link(target, &installed.folder.join(name)).map_err(|error| {
                CommandError::missing(format!("cannot link {}: {error}", target.display()))
            })?;
        }
        Ok(installed)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A new folder that only this user can read.
fn make_folder() -> std::io::Result<PathBuf> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let mut last = std::io::Error::other("no name is free");
    for attempt in 0..16 {
        let name = format!("warpsmith-exec-{}-{}", std::process::id(), now + attempt);
        let folder = std::env::temp_dir().join(name);
        match builder.create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(unix)]
fn link(target: &Path, name: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, name)
}

#[cfg(not(unix))]
fn link(target: &Path, name: &Path) -> std::io::Result<()> {
    std::fs::copy(target, name).map(|_| ())
}

/// A library: in the folder that the user names, beside this program, or in `../lib`. `cargo test` builds it into `deps`,
/// where it may be newer.
fn find(name: &str) -> Result<PathBuf, CommandError> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let beside = || {
        let program = std::env::current_exe().and_then(std::fs::canonicalize).ok();
        program.and_then(|program| program.parent().map(Path::to_owned))
    };
    let folders: Vec<PathBuf> = match named {
        Some(folder) => vec![folder],
        None => beside().map_or_else(Vec::new, |folder| {
            vec![folder.clone(), folder.join("deps"), folder.join("../lib"), folder.join("../lib/warpsmith")]
        }),
    };
    let age = |file: &PathBuf| file.metadata().and_then(|data| data.modified()).ok();
    let files = folders.iter().map(|folder| folder.join(name)).filter(|file| file.is_file());
    let newest = files.max_by_key(age).and_then(|file| file.canonicalize().ok());
    newest.ok_or_else(|| {
        let places: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let profile = if cfg!(debug_assertions) { "" } else { " --release" };
        CommandError::missing(format!("{name} is in none of {}", places.join(", "))).hint(format!(
            "in a checkout: `cargo build{profile}`; elsewhere set {VARIABLE} to the folder of the libraries"
        ))
    })
}
