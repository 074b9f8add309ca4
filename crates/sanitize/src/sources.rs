//! The files whose lines findings may show.

use std::path::{Path, PathBuf};

/// The maximum size of a source file or a header, in bytes.
pub const MAX_SOURCE: u64 = 16 << 20;

/// The files whose lines findings may show. The line table is untrusted (`#line 1 "/etc/passwd"`). Therefore only the
/// source file, files below its folder and files below the include folders of the user are allowed.
#[derive(Debug)]
pub struct Sources<'a> {
    file: &'a Path,
    text: &'a str,
    folders: Vec<PathBuf>,
}

impl<'a> Sources<'a> {
    /// `include`: the folders of the user, without those in the file's comments.
    pub fn new(file: &'a Path, text: &'a str, include: &[PathBuf]) -> Self {
        let own = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folders = std::iter::once(own).chain(include.iter().map(PathBuf::as_path));
        // Links are resolved, so that a link inside a folder cannot lead outside.
        Sources { file, text, folders: folders.filter_map(|folder| folder.canonicalize().ok()).collect() }
    }

    /// The text of a file, if it is allowed and can be read.
    pub fn text(&self, name: &str) -> Option<String> {
        if Path::new(name) == self.file {
            return Some(self.text.to_owned());
        }
        files::read_text_bounded(&self.path(name)?, MAX_SOURCE).ok()
    }

    /// The path of a file, if it is allowed and exists.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        if Path::new(name) == self.file {
            return Some(self.file.to_owned());
        }
        let path = Path::new(name).canonicalize().ok()?;
        self.folders.iter().any(|folder| path.starts_with(folder)).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_source_and_files_below_its_folders_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        fs::create_dir_all(own.join("inner")).unwrap();
        fs::create_dir(&other).unwrap();
        for file in ["own/k.cu", "own/inner/a.cuh", "other/secret"] {
            fs::write(folder.path().join(file), file).unwrap();
        }
        std::os::unix::fs::symlink(other.join("secret"), own.join("link.cuh")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", own.join("zero")).unwrap();
        let source = own.join("k.cu");
        let sources = Sources::new(&source, "as compiled", &[]);
        let text = |path: &Path| sources.text(path.to_str().unwrap());
        assert_eq!(text(&source).as_deref(), Some("as compiled"));
        assert_eq!(text(&own.join("inner/a.cuh")).as_deref(), Some("own/inner/a.cuh"));
        for hidden in [
            other.join("secret"),
            own.join("../other/secret"),
            own.join("link.cuh"),
            own.join("zero"),
            "/dev/zero".into(),
            "/etc/passwd".into(),
        ] {
            assert_eq!(text(&hidden), None, "{}", hidden.display());
        }
        let include = [other.clone()];
        let sources = Sources::new(&source, "", &include);
        assert!(sources.text(other.join("secret").to_str().unwrap()).is_some());
    }
}
