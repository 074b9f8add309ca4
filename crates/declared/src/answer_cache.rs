//! A cache of the answers of Python references, keyed by the content of the scripts, the call and the inputs. With the
//! same input seed, a changed kernel is checked without a new call of the reference.
//!
//! A file has the number of outputs, their lengths, their bytes, and a hash of all of it. A damaged file is ignored.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Largest answer that is kept, and largest size of all answers, in bytes.
const MOST_ANSWER: usize = 64 << 20;
const MOST_ALL: u64 = 1 << 30;
/// Answers that take less time are computed again.
const SHORTEST: Duration = Duration::from_millis(50);
const HASH: usize = blake3::OUT_LEN;

/// The place of one answer.
pub(crate) struct CachedAnswer {
    path: PathBuf,
}

impl CachedAnswer {
    /// The answer to a call. `parts`: everything that it depends on.
    pub fn new<'a>(folder: &Path, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        CachedAnswer { path: folder.join(hasher.finalize().to_hex().as_str()) }
    }

    pub fn load(&self) -> Option<Vec<Vec<u8>>> {
        let bytes = files::read_bounded(&self.path, 2 * MOST_ANSWER as u64).ok()?;
        let outputs = parse(&bytes)?;
        // The time of the last use decides which answers are removed. An answer that cannot be marked is still right.
        let _ = fs::File::open(&self.path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(outputs)
    }

    /// Keeps an answer that took long. An error only means that the answer is computed again.
    pub fn store(&self, outputs: &[Vec<u8>], took: Duration) {
        let bytes: usize = outputs.iter().map(Vec::len).sum();
        if took < SHORTEST || bytes > MOST_ANSWER {
            return;
        }
        if files::write_atomically(&self.path, &format(outputs)).is_ok()
            && let Some(folder) = self.path.parent()
        {
            remove_oldest(folder, MOST_ALL);
        }
    }
}

fn format(outputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (outputs.len() as u64).to_le_bytes().to_vec();
    bytes.extend(outputs.iter().flat_map(|output| (output.len() as u64).to_le_bytes()));
    for output in outputs {
        bytes.extend_from_slice(output);
    }
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (content, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
    if blake3::hash(content).as_bytes() != hash {
        return None;
    }
    let number = |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok();
    let (count, rest) = content.split_first_chunk()?;
    let (lengths, mut rest) = rest.split_at_checked(number(count)?.checked_mul(8)?)?;
    let mut outputs = Vec::new();
    for length in lengths.as_chunks().0 {
        let (output, after) = rest.split_at_checked(number(length)?)?;
        outputs.push(output.to_vec());
        rest = after;
    }
    Some(outputs)
}

/// Removes the answers that were not used for the longest time until the others have at most `most` bytes.
fn remove_oldest(folder: &Path, most: u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in files {
        if total <= most {
            break;
        }
        // Another process may have removed it.
        let _ = fs::remove_file(path);
        total -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_by_content_and_a_damaged_one_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let at = |parts: &[&[u8]]| CachedAnswer::new(folder.path(), parts.iter().copied());
        let outputs = vec![vec![1, 2, 3], Vec::new(), vec![4; 100]];
        let answer = at(&[b"script", b"x"]);
        answer.store(&outputs, Duration::ZERO);
        assert_eq!(answer.load(), None, "a quick answer is not kept");
        answer.store(&outputs, Duration::from_secs(1));
        assert_eq!(answer.load(), Some(outputs));
        assert_eq!(at(&[b"scrip", b"tx"]).load(), None);
        let mut bytes = fs::read(&answer.path).unwrap();
        bytes[40] ^= 1;
        fs::write(&answer.path, &bytes).unwrap();
        assert_eq!(answer.load(), None);
        fs::write(&answer.path, b"short").unwrap();
        assert_eq!(answer.load(), None);
    }

    #[test]
    fn the_oldest_answers_are_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        for (name, age) in [("old", 300), ("older", 400), ("new", 1)] {
            let path = folder.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let modified = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
        remove_oldest(folder.path(), 200);
        let left = |name: &str| folder.path().join(name).exists();
        assert_eq!([left("old"), left("older"), left("new")], [true, false, true]);
    }
}
