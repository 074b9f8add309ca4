//! The cache folder, atomic writes, and bounded reads of files from untrusted sources.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The cache folder: `WARPSMITH_CACHE`, else `$XDG_CACHE_HOME/warpsmith`, else `~/.cache/warpsmith`. Without a home
/// folder it is a temporary folder.
pub fn cache_dir() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    var("WARPSMITH_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("warpsmith")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/warpsmith")))
        .unwrap_or_else(|| std::env::temp_dir().join("warpsmith-cache"))
}

/// A path in the same folder as `path` that no other process or thread uses.
pub fn partial_path(path: &Path) -> PathBuf {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{serial}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Writes `path` atomically: a reader sees the old file or the new one. A writer that is killed leaves only a
/// `.partial` file, which nothing reads.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let partial = partial_path(path);
    let written = create_new_file(&partial)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // Best effort: the caller needs the error of the write, not of the removal.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Creates a new file. An existing file is removed first: in a folder that other users can write, it may be a link to
/// one of the user's files.
pub fn create_new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)
}

/// Makes a text usable as a single file name. A name from a source or a manifest must not lead to another folder.
pub fn file_name(text: &str) -> String {
    text.replace(|c: char| c == '/' || c.is_control(), "_")
}

/// Reads an untrusted file: only a regular file, and at most `most` bytes. A device or pipe may never end, and a file
/// may be larger than the memory.
pub fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Checked before the file is opened, because opening a pipe waits for its writer.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
    }
    if metadata.len() > most {
        return Err(too_large(most));
    }
    // The file may have more bytes than its metadata says.
    bounded(&mut File::open(path)?, most)
}

/// [`read_bounded`] for UTF-8 text.
pub fn read_text_bounded(path: &Path, most: u64) -> io::Result<String> {
    let bytes = read_bounded(path, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8 text"))
}

/// Reads a reader to its end; an error if it has more than `most` bytes.
pub fn bounded(reader: &mut impl io::Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large(most));
    }
    Ok(bytes)
}

fn too_large(most: u64) -> io::Error {
    let message = format!("is larger than the limit of {most} bytes");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creating_a_file_does_not_follow_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (link, own) = (folder.path().join("link"), folder.path().join("own"));
        fs::write(&own, "the user's").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        drop(create_new_file(&link).unwrap());
        assert_eq!(fs::read_to_string(&own).unwrap(), "the user's");
        assert!(link.symlink_metadata().unwrap().is_file());
        assert_eq!(file_name("../../x\n.npy"), ".._.._x_.npy");
    }

    #[test]
    fn only_regular_files_within_the_size_limit_are_read() {
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
