//! The build cache: one file per build, named by its hash, written atomically.
//!
//! A file has a line that names the format, a line with a checksum of everything after it, a line of JSON, then the
//! PTX and the cubin. An entry that does not match its checksum counts as absent and is written again.
//!
//! The total size stays below a limit: the least recently used entries are removed first. An entry's modification
//! time is the time of its last use. Several processes may share the folder. One process removes entries at a time; a
//! process that reads a removed file can still read it to the end; a removed entry is compiled again when it is
//! needed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::Build;

/// Part of every build's hash. It changes when the meaning of a build changes; old entries are then not found.
pub const MEANING: &str = "warpsmith build 2";
/// The first line of a file. It changes when the format changes; old files then count as absent.
const FORMAT: &str = "warpsmith build 4";

/// Largest size of PTX and cubin together that is stored, in bytes. Kernels have a few hundred KiB.
pub const MOST_KEPT: u64 = 64 << 20;
/// Largest size of the JSON line, in bytes. It lists kernels and warnings.
const MOST_HEADER: u64 = 16 << 20;
/// The environment variable with the largest total size of all entries, in MiB.
pub const LIMIT_VARIABLE: &str = "WARPSMITH_CACHE_MIB";
const DEFAULT_LIMIT: u64 = 4 << 30;

/// An entry that was used within this time is not marked as used again.
const FRESH: Duration = Duration::from_mins(1);
/// Temporary files of killed processes are removed after this time.
const ABANDONED: Duration = Duration::from_hours(24);

/// Stores builds in a folder, up to a total size.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    /// Bytes that may be stored before the next sweep.
    until_sweep: AtomicU64,
}

#[derive(Serialize, Deserialize)]
struct Header {
    ptx_bytes: usize,
    cubin_bytes: usize,
    build: Build,
}

impl Cache {
    /// `limit` is the largest total size of all entries, in bytes.
    pub fn new(folder: PathBuf, limit: u64) -> Self {
        Cache { folder, limit, until_sweep: AtomicU64::new(0) }
    }

    fn file(&self, hash: &str) -> PathBuf {
        self.folder.join(&hash[..2]).join(hash)
    }

    /// The lock of the process that sweeps. The file is beside the folder, because the folder contains only entries.
    fn lock_file(&self) -> PathBuf {
        self.folder.with_extension("sweep")
    }

    /// The build with this hash, if it exists and is undamaged.
    pub fn load(&self, hash: &str) -> Option<Build> {
        let path = self.file(hash);
        let bytes = files::read_bounded(&path, MOST_KEPT + MOST_HEADER).ok()?;
        let build = parse(&bytes).filter(|build| build.hash == hash)?;
        mark_used(&path);
        Some(build)
    }

    /// Stores a build, unless it is too large.
    pub fn store(&self, build: &Build) -> Result<(), (PathBuf, io::Error)> {
        let path = self.file(&build.hash);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        if build.bytes() > MOST_KEPT.min(self.limit) {
            return Ok(());
        }
        let header =
            Header { ptx_bytes: build.ptx.len(), cubin_bytes: build.cubin.len(), build: build.clone() };
        let json = serde_json::to_string(&header).map_err(io::Error::from).map_err(at(&path))?;
        let contents = [json.as_bytes(), b"\n", build.ptx.as_bytes(), &build.cubin].concat();
        let checksum = blake3::hash(&contents).to_hex();
        let bytes = [format!("{FORMAT}\n{checksum}\n").as_bytes(), &contents].concat();
        files::write_atomically(&path, &bytes).map_err(at(&path))?;
        self.count(bytes.len() as u64);
        Ok(())
    }

    /// Counts stored bytes and sweeps after enough of them. The first store of a process sweeps.
    fn count(&self, bytes: u64) {
        let counted = self.until_sweep.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.checked_sub(bytes).unwrap_or(self.limit / 32))
        });
        if counted.is_ok_and(|left| left < bytes) {
            // A later sweep removes what could not be removed now.
            let _ = self.sweep();
        }
    }

    /// Removes the least recently used entries until the rest is below the limit.
    fn sweep(&self) -> io::Result<()> {
        let lock = File::create(self.lock_file())?;
        if lock.try_lock().is_err() {
            // Another process is sweeping.
            return Ok(());
        }
        let now = SystemTime::now();
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for folder in fs::read_dir(&self.folder)?.flatten() {
            let Ok(files) = fs::read_dir(folder.path()) else { continue };
            for file in files.flatten() {
                let Ok(about) = file.metadata() else { continue };
                let Ok(used) = about.modified() else { continue };
                let is_partial = file.file_name().as_encoded_bytes().starts_with(b".");
                if !is_partial {
                    entries.push((used, about.len(), file.path()));
                } else if now.duration_since(used).is_ok_and(|age| age > ABANDONED) {
                    let _ = fs::remove_file(file.path());
                }
            }
        }
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= self.limit {
            return Ok(());
        }
        // Make some room, so that the next store does not sweep again.
        let keep = self.limit - self.limit / 8;
        entries.sort();
        for (_, bytes, path) in entries {
            if total <= keep {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                total -= bytes;
            }
        }
        Ok(())
    }
}

/// The limit for all entries, from the environment; an error if its value is not a number.
pub fn limit_from_environment() -> Result<u64, String> {
    match std::env::var(LIMIT_VARIABLE) {
        Err(_) => Ok(DEFAULT_LIMIT),
        Ok(text) => parse_limit(&text).ok_or_else(|| {
            let default = DEFAULT_LIMIT >> 20;
            format!("{LIMIT_VARIABLE} is `{text}`, not a number of MiB; the build cache uses {default} MiB")
        }),
    }
}

impl Cache {
    /// The limit when the environment sets none, in bytes.
    pub const DEFAULT_LIMIT: u64 = DEFAULT_LIMIT;
}

fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok()?.checked_mul(1 << 20)
}

/// Marks an entry as used now. If this fails, the entry is only removed earlier.
fn mark_used(path: &Path) {
    let now = SystemTime::now();
    let is_fresh = |used: SystemTime| now.duration_since(used).is_ok_and(|age| age < FRESH);
    if let Ok(file) = File::open(path)
        && !file.metadata().and_then(|about| about.modified()).is_ok_and(is_fresh)
    {
        let _ = file.set_modified(now);
    }
}

fn parse(bytes: &[u8]) -> Option<Build> {
    let rest = bytes.strip_prefix(FORMAT.as_bytes())?.strip_prefix(b"\n")?;
    let (checksum, contents) = line(rest)?;
    if blake3::hash(contents).to_hex().as_bytes() != checksum {
        return None;
    }
    let (json, payload) = line(contents)?;
    let header: Header = serde_json::from_slice(json).ok()?;
    if payload.len() != header.ptx_bytes.checked_add(header.cubin_bytes)? {
        return None;
    }
    let (ptx, cubin) = payload.split_at(header.ptx_bytes);
    Some(Build { ptx: String::from_utf8(ptx.to_vec()).ok()?, cubin: cubin.to_vec(), ..header.build })
}

/// The first line, and the rest.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use chips::Target;

    use super::*;

    fn build(number: u8, bytes: usize) -> Build {
        Build {
            hash: format!("{number:032x}"),
            code_hash: String::new(),
            target: Target::Sm80,
            compiler: "13".to_owned(),
            entries: Vec::new(),
            compile_ms: 1.0,
            warnings: Vec::new(),
            lowered_names: Vec::new(),
            ptx: "p".repeat(bytes),
            cubin: Vec::new(),
        }
    }

    #[test]
    fn an_entry_with_a_changed_header_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("builds"), DEFAULT_LIMIT);
        let build = build(1, 100);
        cache.store(&build).unwrap();
        assert!(cache.load(&build.hash).is_some());
        let path = cache.file(&build.hash);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"compile_ms\":1.0", "\"compile_ms\":2.0")).unwrap();
        assert!(cache.load(&build.hash).is_none());
    }

    #[test]
    fn a_build_that_is_too_large_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("builds"), 1000);
        cache.store(&build(1, 1001)).unwrap();
        assert!(!cache.file(&build(1, 0).hash).exists());
    }

    #[test]
    fn the_least_recently_used_builds_are_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = || Cache::new(folder.path().join("builds"), 10_000);
        for number in 1..=4 {
            cache().store(&build(number, 2000)).unwrap();
            let path = cache().file(&build(number, 0).hash);
            let used = SystemTime::now() - Duration::from_hours(10 - u64::from(number));
            File::open(path).unwrap().set_modified(used).unwrap();
        }
        // The oldest entry is used again, so the second oldest is removed.
        assert!(cache().load(&build(1, 0).hash).is_some());
        cache().store(&build(5, 2000)).unwrap();
        let kept: Vec<u8> = (1..=5).filter(|&number| cache().file(&build(number, 0).hash).exists()).collect();
        assert_eq!(kept, [1, 4, 5]);
    }

    #[test]
    fn storing_does_not_wait_for_a_sweep_of_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("builds"), 3000);
        let lock = File::create(cache.lock_file()).unwrap();
        lock.lock().unwrap();
        cache.store(&build(1, 2000)).unwrap();
        cache.store(&build(2, 2000)).unwrap();
        assert!(cache.load(&build(1, 0).hash).is_some());
    }

    #[test]
    fn the_limit_is_a_number_of_mib() {
        assert_eq!(parse_limit(" 512 "), Some(512 << 20));
        assert_eq!(parse_limit("4 GB"), None);
        assert_eq!(parse_limit("99999999999999999999"), None);
    }
}
