//! Finds or installs nvcc, which compiles whole programs: host code and device code.

use std::io;
use std::path::{Path, PathBuf};

use super::install::{Collection, install_collection};
use super::installed::nvcc_root;
use super::wheels::nvcc_wheels;
use super::{InstallError, Progress, SearchEnvironment};

/// nvcc, and how to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvcc {
    /// The program.
    pub program: PathBuf,
}

/// The wheels unpacked into one folder.
const NVCC: Collection = Collection {
    wheels: nvcc_wheels(),
    root: nvcc_root,
    is_wanted,
    complete,
    check: |root| in_wheels(root).map(|_| ()).ok_or_else(|| "there is no nvcc".to_owned()),
};

/// Everything but the static runtime library, CMake's files and packaging data. Licences are kept.
fn is_wanted(name: &Path) -> bool {
    let text = name.to_string_lossy();
    let packaging = text.contains(".dist-info/") && !text.contains("icense");
    !packaging
        && !text.ends_with("libcudart_static.a")
        && !text.contains("/cmake/")
        && !text.contains("/.metadata/")
}

/// The names that nvcc links by: the wheels have neither `lib64` nor `libcudart.so`.
fn complete(root: &Path) -> io::Result<()> {
    let toolkit = toolkit(root);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("lib", toolkit.join("lib64"))?;
        std::os::unix::fs::symlink("libcudart.so.13", toolkit.join("lib/libcudart.so"))?;
    }
    #[cfg(not(unix))]
    let _ = toolkit;
    Ok(())
}

fn toolkit(root: &Path) -> PathBuf {
    root.join("nvidia/cu13")
}

fn in_wheels(root: &Path) -> Option<Nvcc> {
    let program = toolkit(root).join("bin/nvcc");
    let is_complete = program.is_file() && toolkit(root).join("lib64/libcudart.so").exists();
    is_complete.then_some(Nvcc { program })
}

/// nvcc of a toolkit on this machine: the one that the user named, that of `CUDA_HOME`, of the usual folders, or on the
/// path of programs.
fn in_toolkits(surroundings: &SearchEnvironment) -> Option<Nvcc> {
    let named = surroundings.named.iter().chain(&surroundings.cuda_home).chain(&surroundings.toolkit_folders);
    let from_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let folders = named.map(|folder| folder.join("bin")).chain(from_path.into_iter().flatten());
    folders
        .map(|folder| folder.join("nvcc"))
        .find(|program| program.is_file())
        .map(|program| Nvcc { program })
}

/// nvcc. It is installed from the pinned wheels if the machine has none.
pub fn ensure(named: Option<&Path>, progress: &mut dyn FnMut(Progress)) -> Result<Nvcc, InstallError> {
    let surroundings = SearchEnvironment::from_environment(named);
    if let Some(nvcc) = in_toolkits(&surroundings) {
        return Ok(nvcc);
    }
    install(&surroundings.cache, progress)
}

/// Installs the pinned nvcc, unless it is installed.
pub fn install(cache: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Nvcc, InstallError> {
    let root = install_collection(&NVCC, cache, progress)?;
    in_wheels(&root).ok_or_else(|| InstallError::Incomplete { reason: "there is no nvcc".to_owned() })
}
