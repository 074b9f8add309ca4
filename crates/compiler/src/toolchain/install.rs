//! Installs the pinned wheels into the cache.
//!
//! The installation runs in a `.partial` folder under a lock; at the end the folder is renamed. A toolchain folder is
//! therefore either complete or absent. The operating system releases the lock when its process ends for any reason,
//! and the next process removes the `.partial` folder of a killed one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use subprocess::python;
use subprocess::{ProgramEnd, ProgramLimits};

use super::installed::{final_root, nvcc_root, toolchains};
use super::{Origin, Wheel, pinned_wheels, search};

/// Wheels that are installed together into a folder of their own.
pub(super) struct Collection {
    /// The wheels.
    pub wheels: &'static [Wheel],
    /// The folder that they get.
    pub root: fn(&Path) -> PathBuf,
    /// Whether a file of a wheel is needed.
    pub is_wanted: fn(&Path) -> bool,
    /// What is done after unpacking.
    pub complete: fn(&Path) -> io::Result<()>,
    /// Says what a folder lacks.
    pub check: fn(&Path) -> Result<(), String>,
}

/// The compiler library with what it needs.
const NVRTC: Collection = Collection {
    wheels: pinned_wheels(),
    root: final_root,
    is_wanted,
    complete: |_| Ok(()),
    check: |root| search::from_root(Origin::Cache, root).map(|_| ()),
};

/// The current step of the installation, for a progress display.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// Another process is installing, and this one waits for it.
    WaitingForOther,
    /// A wheel is being downloaded.
    Downloading {
        /// The package of the wheel.
        package: &'static str,
        /// Bytes of all wheels so far, and the total.
        done: u64,
        /// Size of all wheels in bytes.
        total: u64,
    },
    /// A wheel is being unpacked.
    Unpacking {
        /// The package of the wheel.
        package: &'static str,
    },
    /// The toolchain is installed.
    Finished,
}

/// Why the toolchain cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No Python interpreter was found, or it does not start.
    #[error("there is no Python, which is needed to download the CUDA wheels")]
    NoPython,
    /// The Python interpreter has no pip.
    #[error("{} has no pip", python.display())]
    NoPip {
        /// The path of the interpreter.
        python: PathBuf,
    },
    /// pip cannot download a wheel.
    #[error("pip cannot download {package}: {reason}")]
    Fetch {
        /// The package of the wheel.
        package: &'static str,
        /// pip's last error.
        reason: String,
    },
    /// A wheel is not a readable archive.
    #[error("cannot unpack the wheel {}: {reason}", wheel.display())]
    Unpack {
        /// The wheel's file.
        wheel: PathBuf,
        /// What is wrong with the archive.
        reason: String,
    },
    /// The unpacked wheels lack a necessary file.
    #[error("the wheels do not make a working toolchain: {reason}")]
    Incomplete {
        /// What is missing.
        reason: String,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl InstallError {
    /// The command or step that solves the problem, for the user.
    pub fn remedy(&self) -> String {
        match self {
            InstallError::NoPython => {
                "install Python 3 with pip, or set WARPSMITH_CUDA to a CUDA toolkit".to_owned()
            }
            InstallError::NoPip { python } => {
                format!("{} -m ensurepip --upgrade", python.display())
            }
            InstallError::Fetch { .. } => "without a network: `warpsmith toolchain requirements > cuda.txt`; elsewhere \
                 `pip download --no-deps --only-binary=:all: --dest wheels -r cuda.txt`; unzip the wheels into one \
                 folder and set WARPSMITH_CUDA to it"
                .to_owned(),
            InstallError::Unpack { .. } | InstallError::Incomplete { .. } => {
                "warpsmith toolchain clean && warpsmith toolchain install".to_owned()
            }
            InstallError::Io { path, .. } => {
                format!("make {} writable, or set WARPSMITH_CACHE to a folder that is", path.display())
            }
        }
    }
}

/// Adds the path to an I/O error.
fn at(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_owned();
    move |source| InstallError::Io { path, source }
}

/// Installs the pinned toolchain unless a usable one exists, and returns its folder.
pub fn install(cache: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, InstallError> {
    install_collection(&NVRTC, cache, progress)
}

/// Installs wheels unless a usable installation exists, and returns its folder.
pub(super) fn install_collection(
    collection: &Collection,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, InstallError> {
    let root = (collection.root)(cache);
    let usable = || (collection.check)(&root).is_ok();
    if usable() {
        return Ok(root);
    }
    let folder = toolchains(cache);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let _lock = lock(&folder, progress)?;
    if usable() {
        return Ok(root); // Another process installed it while this one waited.
    }
    remove_partial_folders(&folder);
    let partial = files::partial_path(&root);
    fs::create_dir_all(&partial).map_err(at(&partial))?;
    let outcome =
        fill(&partial, collection, progress).and_then(|()| move_into_place(&partial, &root, collection));
    remove_partial_folders(&folder);
    outcome?;
    progress(Progress::Finished);
    Ok(root)
}

/// Removes the installed toolchain. `Ok(false)` when there was none.
pub fn clean(cache: &Path) -> Result<bool, InstallError> {
    let folder = toolchains(cache);
    if !folder.is_dir() {
        return Ok(false);
    }
    let _lock = lock(&folder, &mut |_| ())?;
    let mut existed = false;
    for root in [final_root(cache), nvcc_root(cache)].into_iter().filter(|root| root.is_dir()) {
        existed = true;
        // Renamed first, so that a process that starts now finds no toolchain instead of a partial one.
        let removed = files::partial_path(&root);
        fs::rename(&root, &removed).map_err(at(&root))?;
    }
    remove_partial_folders(&folder);
    Ok(existed)
}

fn lock(folder: &Path, progress: &mut dyn FnMut(Progress)) -> Result<File, InstallError> {
    let path = folder.join("install.lock");
    let file = File::create(&path).map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            progress(Progress::WaitingForOther);
            file.lock().map_err(at(&path))?;
        }
        Err(fs::TryLockError::Error(source)) => return Err(InstallError::Io { path, source }),
    }
    Ok(file)
}

/// Removes every `.partial` folder. The caller holds the lock, so no living process owns one of them.
fn remove_partial_folders(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().ends_with(".partial") {
            // The next installation tries again to remove it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Downloads and unpacks every wheel into `partial/root`.
fn fill(
    partial: &Path,
    collection: &Collection,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), InstallError> {
    let python = python::interpreter().ok_or(InstallError::NoPython)?;
    let pip = Command::new(&python).args(["-m", "pip", "--version"]).stdin(Stdio::null()).output();
    match pip {
        Ok(output) if output.status.success() => {}
        Ok(_) => return Err(InstallError::NoPip { python }),
        Err(_) => return Err(InstallError::NoPython),
    }
    let total = collection.wheels.iter().map(|wheel| wheel.download_bytes).sum();
    let mut downloaded = 0;
    for wheel in collection.wheels {
        let mut report = |bytes: u64| {
            let done = downloaded + bytes.min(wheel.download_bytes);
            progress(Progress::Downloading { package: wheel.package, done, total });
        };
        let file = download(&python, wheel, partial, &mut report)?;
        downloaded += wheel.download_bytes;
        progress(Progress::Unpacking { package: wheel.package });
        unpack(&file, &partial.join("root"), collection.is_wanted)?;
        fs::remove_file(&file).map_err(at(&file))?;
    }
    Ok(())
}

/// A slow connection may take an hour for the largest wheel.
const PIP_LIMITS: ProgramLimits = ProgramLimits { time: Duration::from_hours(4), stdout_bytes: 1 << 20 };

/// Runs pip for one wheel and returns the file. pip's temporary files are in the same folder: they are removed with
/// it if this process is killed, and their size gives the progress.
fn download(
    python: &Path,
    wheel: &'static Wheel,
    partial: &Path,
    report: &mut dyn FnMut(u64),
) -> Result<PathBuf, InstallError> {
    let failed = |reason: String| InstallError::Fetch { package: wheel.package, reason };
    let folder = partial.join(wheel.package);
    let temporary = folder.join("tmp");
    fs::create_dir_all(&temporary).map_err(at(&temporary))?;
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, wheel.requirement()).map_err(at(&requirements))?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--quiet"])
        .args(["--no-input", "--disable-pip-version-check", "--no-cache-dir", "--dest"])
        .arg(&folder)
        .arg("--requirement")
        .arg(&requirements)
        .env("TMPDIR", &temporary);
    let mut last_report = Instant::now();
    let finished = subprocess::run(&mut pip, Vec::new(), PIP_LIMITS, || {
        if last_report.elapsed() > Duration::from_millis(100) {
            report(size_of_folder(&folder));
            last_report = Instant::now();
        }
        true
    });
    let finished = finished.map_err(|error| failed(error.to_string()))?;
    if !finished.end.success() {
        let text = String::from_utf8_lossy(&finished.stderr);
        let reason = last_error(&text).unwrap_or_else(|| match finished.end {
            ProgramEnd::Exited(status) => status.to_string(),
            ProgramEnd::TimeUp => "pip took too long".to_owned(),
            ProgramEnd::TooLong | ProgramEnd::Stopped => "pip was stopped".to_owned(),
        });
        return Err(failed(reason));
    }
    let entries = fs::read_dir(&folder).map_err(at(&folder))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| failed("pip succeeded but wrote no wheel".to_owned()))
}

/// pip's last ERROR line, or its last line.
fn last_error(log: &str) -> Option<String> {
    let line = log.lines().rev().find(|line| line.starts_with("ERROR:")).or(log.lines().last())?;
    Some(line.trim_start_matches("ERROR:").trim().to_owned())
}

fn size_of_folder(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size_of_folder(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Unzips a wheel without the files that a compiler does not need.
fn unpack(wheel: &Path, into: &Path, is_wanted: fn(&Path) -> bool) -> Result<(), InstallError> {
    let unpack_error = |error: zip::result::ZipError| InstallError::Unpack {
        wheel: wheel.to_owned(),
        reason: error.to_string(),
    };
    let file = File::open(wheel).map_err(at(wheel))?;
    let mut archive = zip::ZipArchive::new(file).map_err(unpack_error)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(unpack_error)?;
        // `enclosed_name` refuses names that lead out of the folder.
        let Some(name) = entry.enclosed_name() else { continue };
        if entry.is_dir() || !is_wanted(&name) {
            continue;
        }
        let path = into.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        let mut out = File::create(&path).map_err(at(&path))?;
        io::copy(&mut entry, &mut out).map_err(at(&path))?;
        #[cfg(unix)]
        if entry.unix_mode().is_some_and(|mode| mode & 0o100 != 0) || is_program(&path) {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// Whether a file is needed: libraries, headers and licences. Static libraries, NVRTC's second build and packaging
/// data are not needed.
fn is_wanted(name: &Path) -> bool {
    let text = name.to_string_lossy();
    let skipped = text.ends_with(".a") || text.contains(".alt.") || text.contains("/cmake/");
    let packaging = text.contains(".dist-info/") && !text.contains("icense");
    !skipped && !packaging && !text.contains("/.metadata/")
}

/// Whether a file lies in a folder of programs.
#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.ends_with("bin"))
}

fn move_into_place(partial: &Path, root: &Path, collection: &Collection) -> Result<(), InstallError> {
    let unpacked = partial.join("root");
    (collection.complete)(&unpacked).map_err(at(&unpacked))?;
    (collection.check)(&unpacked).map_err(|reason| InstallError::Incomplete { reason })?;
    if root.exists() {
        // The folder exists but is not usable, so it was damaged by hand.
        fs::rename(root, partial.join("damaged")).map_err(at(root))?;
    }
    fs::rename(&unpacked, root).map_err(at(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_error_of_pip_is_reported() {
        let log = "WARNING: Retrying\nERROR: Could not find a version that satisfies x\nERROR: No matching distribution found for x\n";
        assert_eq!(last_error(log).unwrap(), "No matching distribution found for x");
        assert_eq!(last_error("something else").unwrap(), "something else");
        assert_eq!(last_error(""), None);
    }

    #[test]
    fn only_files_that_the_compiler_needs_are_unpacked() {
        for wanted in [
            "nvidia/cu13/lib/libnvrtc.so.13",
            "nvidia/cu13/include/mma.h",
            "x.dist-info/licenses/License.txt",
        ] {
            assert!(is_wanted(Path::new(wanted)), "{wanted}");
        }
        for unwanted in
            ["nvidia/cu13/lib/libnvrtc.alt.so.13", "nvidia/cu13/lib/libcudadevrt.a", "x.dist-info/RECORD"]
        {
            assert!(!is_wanted(Path::new(unwanted)), "{unwanted}");
        }
    }

    #[test]
    fn only_partial_folders_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".nvrtc-1.1-0.partial")).unwrap();
        fs::create_dir(dir.path().join("nvrtc-1")).unwrap();
        remove_partial_folders(dir.path());
        assert!(!dir.path().join(".nvrtc-1.1-0.partial").exists());
        assert!(dir.path().join("nvrtc-1").exists());
    }

    #[test]
    fn every_error_has_a_remedy() {
        let fetch = InstallError::Fetch { package: "nvidia-cuda-nvrtc", reason: "offline".into() };
        let remedy = fetch.remedy();
        assert!(remedy.contains("toolchain requirements") && remedy.len() < 260, "{remedy}");
        assert!(InstallError::NoPip { python: "/usr/bin/python3".into() }.remedy().contains("ensurepip"));
    }
}
