//! Writes the results of `sanitize`, `check` and `gate` for CI systems, and converts findings of the virtual GPU.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use compiler::Diagnostic;
use family::Family;
use report::ci::{self, CiFinding, CiReport, Level, Location};
use vgpu::{Finding, Place, Severity};

use crate::cli::CiOptions;
use crate::error::CommandError;
use crate::findings::{Texts, shown_frame};
use crate::printer::Printer;

/// Maps a file name of the line table to the file's path, if the file exists.
pub type Paths<'a> = dyn Fn(&str) -> Option<PathBuf> + 'a;

/// Returns an error if a file could not be written, before long work starts.
pub fn require_writable(options: &CiOptions) -> Result<(), CommandError> {
    for path in [&options.sarif, &options.junit, &options.summary].into_iter().flatten() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(CommandError::usage(format!("cannot write {}", path.display()))
                .hint("name a file in a folder that exists"));
        }
    }
    Ok(())
}

/// Whether the user asked for any output for CI systems.
pub fn is_wanted(options: &CiOptions) -> bool {
    options.github || options.sarif.is_some() || options.junit.is_some() || options.summary.is_some()
}

/// Writes the files and prints the annotations that the user asked for.
pub fn write(report: &CiReport, options: &CiOptions, printer: &Printer) -> Result<(), CommandError> {
    if let Some(path) = &options.sarif {
        let text = format!("{:#}\n", ci::sarif(report));
        fs::write(path, text).map_err(|error| cannot_write(path, &error))?;
    }
    if let Some(path) = &options.junit {
        fs::write(path, ci::junit(report)).map_err(|error| cannot_write(path, &error))?;
    }
    if let Some(path) = &options.summary {
        // GitHub collects the summaries of several steps in one file.
        let file = OpenOptions::new().append(true).create(true).open(path);
        let text = format!("{}\n", ci::summary(report));
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| cannot_write(path, &error))?;
    }
    if options.github {
        printer.workflow_commands(&ci::github(report));
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &io::Error) -> CommandError {
    CommandError::missing(format!("cannot write {}: {error}", path.display()))
}

/// A finding of the virtual GPU. `owner` is the kernel that it belongs to.
pub fn finding(finding: &Finding, owner: &str, sources: &Texts, paths: &Paths) -> CiFinding {
    let located = |place: &Place| location(place, sources, paths);
    let related = finding.related.iter();
    CiFinding {
        level: match finding.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Note => Level::Note,
        },
        location: located(&finding.place),
        related: related.filter_map(|it| Some((it.label.clone(), located(&it.place)?))).collect(),
        ..CiFinding::new(finding.kind.name(), owner, &finding.message)
    }
}

/// An error of the compiler. `owner` is the kernel that it belongs to.
pub fn diagnostic(diagnostic: &Diagnostic, owner: &str, paths: &Paths) -> CiFinding {
    let mut finding = CiFinding::new("does-not-compile", owner, &diagnostic.message);
    // The name of a file may come from a `#line` of the source, so only a file that `paths` allows is named.
    finding.location = diagnostic.place.as_ref().and_then(|place| {
        let file = ci::display_path(&paths(&place.file)?);
        Some(Location { file, line: place.line, column: 0, text: diagnostic.message.clone() })
    });
    finding
}

/// The innermost line of a file that may be shown. The line table is untrusted, so other files are left out.
fn location(place: &Place, sources: &Texts, paths: &Paths) -> Option<Location> {
    let (frame, text) = shown_frame(place, sources)?;
    let file = ci::display_path(&paths(&frame.file)?);
    let columns = text.chars().count() + 1;
    let column = if frame.column as usize <= columns { frame.column } else { 0 };
    Some(Location { file, line: frame.line, column, text })
}

/// The path of a family's file, by its name in line tables. Families that are embedded in the program have a path only
/// in a repository with the same text in `kernels/`.
pub fn family_path(family: &Family, folder: Option<&Path>, name: &str) -> Option<PathBuf> {
    let text = family.source_text(name)?;
    // The source's name is its path, as the user named the folder. The name of a header is relative to the op's folder.
    let folders = [folder, Some(Path::new("kernels"))].into_iter().flatten();
    let headers = folders.map(|folder| folder.join(&family.op).join(name));
    let mut paths = std::iter::once(PathBuf::from(name)).chain(headers);
    let is_it = |path: &PathBuf| {
        files::read_text_bounded(path, text.len() as u64 + 1)
            .is_ok_and(|found| family.is_text_of(name, &found))
    };
    paths.find(is_it)
}
