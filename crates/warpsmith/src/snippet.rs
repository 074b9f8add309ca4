//! Messages about a place in a source, drawn the way compilers draw them.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use gpu::build::{Diagnostic, Severity};

/// One compiler message with file, line and caret.
pub fn diagnostic(diagnostic: &Diagnostic) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(diagnostic.message.as_str());
    let place = diagnostic.place.as_ref();
    let group = match place.and_then(|place| Some((place, place.source.as_deref()?))) {
        Some((place, source)) => {
            let start = place.column.map_or(0, |column| byte_of_column(source, column));
            let end = source[start..].chars().next().map_or(start, |c| start + c.len_utf8());
            title.element(
                Snippet::source(source)
                    .path(place.file.as_str())
                    .line_start(place.line as usize)
                    .annotation(AnnotationKind::Primary.span(start..end)),
            )
        }
        None => match place {
            Some(place) => {
                return format!("error: {}\n --> {}:{}", diagnostic.message, place.file, place.line);
            }
            None => return format!("error: {}", diagnostic.message),
        },
    };
    Renderer::styled().render(&[group])
}

/// The byte at which a column (from 1, in characters) begins, kept inside the line.
fn byte_of_column(source: &str, column: u32) -> usize {
    let index = (column as usize).saturating_sub(1);
    source.char_indices().nth(index).map_or(source.len(), |(byte, _)| byte)
}
