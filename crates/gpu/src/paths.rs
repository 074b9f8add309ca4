//! Where Warpsmith keeps what it can make again, and how files get there whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
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
    let written = create_anew(&partial)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // Best effort: the failed write is what the caller must hear about.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Creates a file that nobody else has. What is there is removed first: in a folder of somebody else's it may be a link
/// to a file of the user's.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)
}

/// The text as the name of one file: a name that a source or a manifest gives must not lead to another folder.
pub fn file_name(text: &str) -> String {
    text.replace(|c: char| c == '/' || c.is_control(), "_")
}

/// Reads a file that somebody else may have made: a regular file only, and at most `most` bytes of it. A device or a
/// pipe may have no end, and a file may be larger than the memory.
pub fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Asked before the file is opened: opening a pipe waits for its writer.
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
    }
    if about.len() > most {
        return Err(too_large(most));
    }
    // What the file says of its size need not be all it has.
    bounded(&mut File::open(path)?, most)
}

/// [`read_bounded`], as text.
pub fn read_text_bounded(path: &Path, most: u64) -> io::Result<String> {
    let bytes = read_bounded(path, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8 text"))
}

/// Everything that a reader has, at most `most` bytes of it; an error where there is more.
pub fn bounded(reader: &mut impl io::Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large(most));
    }
    Ok(bytes)
}

fn too_large(most: u64) -> io::Error {
    let message = format!("is larger than {most} bytes, the most that is read");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_new_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, own) = (folder.path().join("link"), folder.path().join("own"));
        fs::write(&own, "the user's").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        drop(create_anew(&link).unwrap());
        assert_eq!(fs::read_to_string(&own).unwrap(), "the user's");
        assert!(link.symlink_metadata().unwrap().is_file());
        assert_eq!(file_name("../../x\n.npy"), ".._.._x_.npy");
    }

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_bounded(&file, 5).unwrap(), b"12345");
        assert_eq!(read_bounded(&file, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        for endless in ["/dev/zero", "/dev/tty", "/"] {
            assert!(read_bounded(Path::new(endless), 1 << 20).is_err(), "{endless}");
        }
    }
}
