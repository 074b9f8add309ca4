//! Finds the files on disk that a source includes, so that a change of one of them changes the build's hash.
//!
//! NVRTC cannot list what it included, so this module follows `#include` lines itself. It ignores conditions, so it
//! may find too many files, never too few. A name that it cannot find is one of CUDA's own headers, which the
//! compiler's version covers, or an error that the compiler will report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest size of a header that is read, in bytes. The compiler itself would take minutes for more.
const MOST_BYTES: u64 = 16 << 20;

/// Every included file that exists, with its text, in a fixed order.
pub fn on_disk(text: &str, folders: &[PathBuf]) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut pending: Vec<(Option<PathBuf>, String)> = vec![(None, text.to_owned())];
    while let Some((folder, text)) = pending.pop() {
        for name in included_names(&text) {
            let places = folder.iter().chain(folders).map(|folder| folder.join(name));
            let Some(path) = places.into_iter().find(|path| path.is_file()) else { continue };
            if found.contains_key(&path) {
                continue;
            }
            // The compiler reports headers that cannot be read.
            let Ok(bytes) = files::read_bounded(&path, MOST_BYTES) else { continue };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            pending.push((path.parent().map(Path::to_owned), text.clone()));
            found.insert(path, text);
        }
    }
    found
}

/// The names in `#include "name"` and `#include <name>` lines.
pub fn included_names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let close = match rest.chars().next()? {
            '"' => '"',
            '<' => '>',
            _ => return None,
        };
        rest[1..].split_once(close).map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn include_lines_are_recognised_in_their_usual_forms() {
        let text =
            "#include \"a.cuh\"\n  #  include <b/c.h>\n// #include \"no\"\n#include MACRO\n#define include\n";
        assert_eq!(included_names(text).collect::<Vec<_>>(), ["a.cuh", "b/c.h"]);
    }

    #[test]
    fn includes_are_followed_through_files_and_cycles_end() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("a.h"), "#include \"sub/b.h\"\n#include <cuda_fp16.h>\n").unwrap();
        fs::write(dir.path().join("sub/b.h"), "#include \"c.h\"\n#include \"../a.h\"\n").unwrap();
        fs::write(dir.path().join("sub/c.h"), "").unwrap();
        let found = on_disk("#include \"a.h\"\n", &[dir.path().to_owned()]);
        let mut names: Vec<_> =
            found.keys().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        names.sort_unstable();
        // `sub/../a.h` is a second spelling of `a.h`. This is harmless, and the search still ends.
        names.dedup();
        assert_eq!(names, ["a.h", "b.h", "c.h"]);
    }
}
