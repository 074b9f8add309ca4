//! A search as its workers need it.

use std::fs;
use std::path::{Path, PathBuf};

use family::OP_FILE;
use family::tuned_table::FILE as TUNED_TABLE;
use fleet::Program;
use serde::{Deserialize, Serialize};

use crate::error::CommandError;

/// What workers must know of a search: everything that its candidates have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SearchJob {
    /// The command line of the search.
    pub command_line: Vec<String>,
    /// The problems, which a suite in a file may have named.
    pub problems: Vec<String>,
    /// The GPU that all workers must have: times of different GPUs are never compared.
    pub gpu: String,
    /// The compiler that all workers must have, by [`compiler::Compiler::identity`]: others make other machine code.
    pub compiler: String,
    /// The seed of inputs, compared rows and launch conditions.
    pub secret: u64,
    /// The file or folder of `--kernels` among the job's files.
    pub kernels: Option<String>,
}

/// The build of this program.
pub fn program() -> Result<Program, CommandError> {
    Program::running(env!("CARGO_PKG_VERSION"))
        .map_err(|error| CommandError::missing(format!("cannot read the program's own file: {error}")))
}

/// The most bytes that a user's kernels may have.
const MOST_BYTES: u64 = 16 << 20;
/// What belongs to a kernel in a single file, besides the file.
const NEIGHBOURS: [&str; 6] = ["cuh", "h", "hpp", "inc", "py", "toml"];

/// The texts of the user's kernels by their relative paths, and the name of the file or folder. Of a folder, those of its
/// ops: runs and other files beside them change while a search runs, and a resumed search must have the same files.
pub fn files_of(kernels: &Path) -> Result<(Vec<(String, String)>, String), CommandError> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        CommandError::missing(format!("cannot read {}: {error}", path.display()))
    };
    let kernels = kernels.canonicalize().map_err(|error| failed(kernels, &error))?;
    let name = kernels.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut paths = Vec::new();
    let root = kernels.parent().unwrap_or(Path::new("/")).to_owned();
    if kernels.is_file() {
        for entry in fs::read_dir(&root).map_err(|error| failed(&root, &error))?.flatten() {
            let extension = entry.path().extension().map(|it| it.to_string_lossy().into_owned());
            let is_neighbour = extension.is_some_and(|it| NEIGHBOURS.contains(&it.as_str()));
            if is_neighbour && !is_hidden(&entry) && entry.path().is_file() {
                paths.push(entry.path());
            }
        }
        paths.push(kernels);
    } else {
        for entry in fs::read_dir(&kernels).map_err(|error| failed(&kernels, &error))?.flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !is_hidden(&entry) && is_op(&entry.path()) {
                collect(&entry.path(), &mut paths).map_err(|error| failed(&entry.path(), &error))?;
            }
        }
    }
    paths.sort();
    let mut texts = Vec::new();
    let mut left = MOST_BYTES;
    for path in paths {
        let relative = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        // Other files, such as arrays and compiled objects, are no part of a kernel.
        let Ok(bytes) = files::read_bounded(&path, left) else {
            let message =
                format!("the kernels have more than {} MiB with {}", MOST_BYTES >> 20, path.display());
            return Err(CommandError::usage(message).hint("give --kernels a folder with nothing but kernels"));
        };
        left -= bytes.len() as u64;
        texts.extend(String::from_utf8(bytes).ok().map(|text| (relative, text)));
    }
    Ok((texts, name))
}

/// Whether a folder is that of an op: it has the op's declaration, or a family's manifest or tuned table one level below.
fn is_op(folder: &Path) -> bool {
    let has_family =
        |family: &Path| family.join("kernel.toml").is_file() || family.join(TUNED_TABLE).is_file();
    folder.join(OP_FILE).is_file()
        || fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(|entry| has_family(&entry.path())))
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if is_hidden(&entry) {
            continue;
        }
        // Links could lead out of the folder.
        if kind.is_dir() {
            collect(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// Whether a file or folder is hidden. Such files often have secrets (`.env`, `.git`), and a kernel needs none.
fn is_hidden(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with('.')
}

/// Writes the files of a job below a folder of the worker.
pub fn write_files(texts: &[(String, String)], folder: &Path) -> Result<(), String> {
    for (name, text) in texts {
        let path = Path::new(name);
        let is_below = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_below {
            return Err(format!("the job has a file outside of its folder: {name}"));
        }
        let path = folder.join(path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_file_takes_its_headers_and_scripts_along() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("k.cu", "a"), ("k.cuh", "b"), ("ref.py", "c"), ("notes.txt", "d"), ("other.cu", "e")]
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let (files, name) = files_of(&folder.path().join("k.cu")).unwrap();
        assert_eq!(name, "k.cu");
        assert_eq!(
            files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["k.cu", "k.cuh", "ref.py"]
        );
    }

    #[test]
    fn a_folder_is_written_as_it_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let kernels = folder.path().join("kernels");
        fs::create_dir_all(kernels.join("op/family")).unwrap();
        fs::write(kernels.join("op/op.toml"), "x").unwrap();
        fs::write(kernels.join("op/family/kernel.cu"), "y").unwrap();
        fs::write(kernels.join("op/data.npy"), [0xff, 0xfe]).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", kernels.join("op/link")).unwrap();
        let (files, name) = files_of(&kernels).unwrap();
        let to = folder.path().join("worker");
        write_files(&files, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join(&name).join("op/family/kernel.cu")).unwrap(), "y");
        assert!(!to.join(&name).join("op/link").exists() && !to.join(&name).join("op/data.npy").exists());
    }

    #[test]
    fn runs_beside_the_kernels_are_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/family/kernel.toml", "a/common/x.cuh", "b/family/tuned.toml", "c/op.toml"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let before = files_of(folder.path()).unwrap().0;
        for name in ["run/events.jsonl", "run/sources/x/y/kernel.toml", "fleet/jobs/run/job", "notes.txt"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        assert_eq!(before.len(), 4);
        assert_eq!(files_of(folder.path()).unwrap().0, before);
    }

    #[test]
    fn hidden_files_are_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let kernels = folder.path().join("kernels");
        fs::create_dir_all(kernels.join("op/.git")).unwrap();
        fs::create_dir_all(kernels.join(".op")).unwrap();
        for name in
            ["k.cu", ".env", ".secret.toml", "op/.netrc", "op/.git/config", "op/op.toml", ".op/op.toml"]
        {
            fs::write(kernels.join(name), "x").unwrap();
        }
        let sent = |path: PathBuf| -> Vec<String> {
            files_of(&path).unwrap().0.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(sent(kernels.clone()), ["kernels/op/op.toml"]);
        assert_eq!(sent(kernels.join("k.cu")), ["k.cu"]);
    }

    #[test]
    fn files_outside_of_the_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../x", "/tmp/x", "a/../../x"] {
            let error = write_files(&[(name.to_owned(), String::new())], folder.path()).unwrap_err();
            assert!(error.contains("outside"), "{error}");
        }
    }
}
