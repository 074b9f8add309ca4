//! Where Warpsmith keeps what it can make again, and how files get there whole or not at all.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The cache folder: `WARPSMITH_CACHE`, else `$XDG_CACHE_HOME/warpsmith`, else `~/.cache/warpsmith`.
/// Without a home there is still a temporary folder, so nothing has to fail for want of a place.
pub fn cache_dir() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    var("WARPSMITH_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("warpsmith")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/warpsmith")))
        .unwrap_or_else(|| std::env::temp_dir().join("warpsmith-cache"))
}

/// A name beside `path` that no other process or thread uses.
pub(crate) fn beside(path: &Path) -> PathBuf {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{serial}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Writes `path` whole or not at all: a reader sees the old file or the new one, and a writer that is
/// killed leaves only a `.partial` file, which nothing reads.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let partial = beside(path);
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // Best effort: the failed write is what the caller must hear about.
        let _ = fs::remove_file(&partial);
    }
    written
}
