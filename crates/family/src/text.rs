//! Errors in the text of a TOML file, with their place.

use std::ops::Range;

/// An error in a manifest or in the tuned table next to it, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {field}: {message}")]
pub struct ManifestError {
    /// The file's path, as messages show it.
    pub file: String,
    /// Line of the error, from 1.
    pub line: usize,
    /// Column of the error in bytes, from 1.
    pub column: usize,
    /// The field's dotted name, such as `family.targets`, or a file's name.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

/// All mistakes that were found in a manifest, in the order of the file. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ManifestErrors(pub Vec<ManifestError>);

impl From<ManifestError> for ManifestErrors {
    fn from(error: ManifestError) -> Self {
        ManifestErrors(vec![error])
    }
}

/// A file's text, used to turn spans into lines.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The file's path, for messages.
    pub file: &'a str,
    /// Its contents.
    pub text: &'a str,
}

impl Reader<'_> {
    /// The error at a span of the text.
    pub fn error(&self, span: Range<usize>, field: &str, message: String) -> ManifestError {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
        ManifestError { file: self.file.to_owned(), line, column, field: field.to_owned(), message }
    }
}
