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
    text.lines().filter_map(included_name)
}

/// The name in an `#include` line.
fn included_name(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let close = match rest.chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    rest[1..].split_once(close).map(|(name, _)| name)
}

/// Source files whose `#include` lines name the included files in one way, wherever they are.
#[derive(Debug, Default)]
pub struct Resolved {
    /// The text of the source.
    pub source: String,
    /// The headers that exist in the folders, by the names that the texts now use.
    pub headers: BTreeMap<String, String>,
    /// The names that are in no folder, in the order in which they are found.
    pub elsewhere: Vec<String>,
}

/// Finds what a source includes, and replaces the names of files by their paths. Two folders may have headers of one
/// name, and a header may include others by a path from its own folder.
pub fn resolved(text: &str, own_folder: Option<&Path>, folders: &[PathBuf]) -> Resolved {
    let mut all = Resolved::default();
    let mut pending: Vec<(Option<PathBuf>, Option<String>, String)> =
        vec![(own_folder.map(Path::to_owned), None, text.to_owned())];
    while let Some((folder, name, text)) = pending.pop() {
        let mut renamed = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let found = included_name(line).and_then(|included| {
                let places = folder.iter().chain(folders).map(|folder| folder.join(included));
                let path = places.into_iter().find(|path| path.is_file());
                if path.is_none() && !all.elsewhere.iter().any(|known| known == included) {
                    all.elsewhere.push(included.to_owned());
                }
                Some((included, normalised(&path?)))
            });
            let Some((included, path)) = found else {
                renamed.push_str(line);
                continue;
            };
            let label = path.display().to_string();
            renamed.push_str(&line.replacen(included, &label, 1));
            if !all.headers.contains_key(&label)
                && let Ok(bytes) = files::read_bounded(&path, MOST_BYTES)
            {
                all.headers.insert(label.clone(), String::new());
                let text = String::from_utf8_lossy(&bytes).into_owned();
                pending.push((path.parent().map(Path::to_owned), Some(label), text));
            }
        }
        match name {
            Some(name) => drop(all.headers.insert(name, renamed)),
            None => all.source = renamed,
        }
    }
    all
}

/// Limit of the folders above a source that are searched for headers.
const MOST_FOLDERS: usize = 8;

/// The folders above a source that have one of these headers, the nearest first: also `include` in each of them. Builds of
/// whole projects search such folders. A folder that everybody may write ends the search.
pub fn folders_above(own_folder: &Path, names: &[String]) -> Vec<PathBuf> {
    let own_folder = if own_folder.as_os_str().is_empty() { Path::new(".") } else { own_folder };
    let Ok(own_folder) = std::path::absolute(own_folder) else { return Vec::new() };
    let above = own_folder.ancestors().skip(1).take(MOST_FOLDERS);
    let above = above.take_while(|folder| folder.file_name().is_some() && !is_public(folder));
    let both = above.flat_map(|folder| [folder.to_owned(), folder.join("include")]);
    both.filter(|folder| names.iter().any(|name| is_header(name) && folder.join(name).is_file())).collect()
}

/// Whether everybody may create files in a folder.
fn is_public(folder: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(folder).is_ok_and(|it| it.permissions().mode() & 0o002 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        false
    }
}

/// Whether a name is one of a header, and not one of the standard library, which has no ending, or a path to it.
fn is_header(name: &str) -> bool {
    name.contains('.') && !name.starts_with(['/', '.'])
}

/// The path without `.` and `..`, as far as its own parts tell.
fn normalised(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if parts.file_name().is_some() => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
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
    fn folders_above_a_source_are_found_by_what_they_have() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir_all(root.join("a/include/x")).unwrap();
        fs::write(root.join("a/include/x/far.h"), "").unwrap();
        fs::write(root.join("a/b/near.h"), "").unwrap();
        fs::write(root.join("a/b/vector"), "").unwrap();
        let above = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            folders_above(&root.join("a/b/c"), &names)
        };
        assert_eq!(above(&["x/far.h", "near.h", "gone.h"]), [root.join("a/b"), root.join("a/include")]);
        assert!(above(&["vector", "gone.h"]).is_empty());
    }

    #[test]
    fn headers_of_one_name_in_two_folders_stay_apart() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["a", "b"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            fs::write(dir.path().join(folder).join("util.h"), format!("// {folder}\n")).unwrap();
            fs::write(dir.path().join(folder).join("all.h"), "#include \"util.h\"\n#include <gone.h>\n")
                .unwrap();
        }
        fs::write(dir.path().join("b/up.h"), "#include \"../a/all.h\"\n").unwrap();
        let text = "#include \"b/all.h\"\n  #include \"b/up.h\"\n#include <cuda_fp16.h>\nint x;\n";
        let found = resolved(text, Some(dir.path()), &[]);
        let path = |name: &str| dir.path().join(name).display().to_string();
        let names: Vec<&String> = found.headers.keys().collect();
        assert_eq!(
            names,
            [&path("a/all.h"), &path("a/util.h"), &path("b/all.h"), &path("b/up.h"), &path("b/util.h")]
        );
        assert_eq!(found.headers[&path("b/up.h")], format!("#include \"{}\"\n", path("a/all.h")));
        assert!(found.headers[&path("a/all.h")].starts_with(&format!("#include \"{}\"\n", path("a/util.h"))));
        assert_eq!(found.elsewhere, ["cuda_fp16.h", "gone.h"]);
        let second = format!("  #include \"{}\"\n#include <cuda_fp16.h>\nint x;\n", path("b/up.h"));
        assert!(found.source.ends_with(&second), "{}", found.source);
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
