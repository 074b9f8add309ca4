//! Renders compiler messages with the source line and a caret.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use compiler::{Diagnostic, Severity};
use text::escape::{one_line, visible};

/// One compiler message with file, line and caret.
pub fn diagnostic(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    // The message and the source are untrusted text.
    let message = one_line(&diagnostic.message);
    let file = diagnostic.place.as_ref().map_or(String::new(), |place| one_line(&place.file));
    let shown;
    let title = level.primary_title(message.as_str());
    let place = diagnostic.place.as_ref();
    let group = match place.and_then(|place| Some((place, place.source.as_deref()?))) {
        Some((place, source)) => {
            let start = place.column.map_or(0, |column| byte_of_column(source, column));
            let end = source[start..].chars().next().map_or(start, |c| start + c.len_utf8());
            // Escape sequences before the position shift it.
            let (start, end) = (visible(&source[..start]).len(), visible(&source[..end]).len());
            shown = visible(source);
            title.element(
                Snippet::source(shown.as_str())
                    .path(file.as_str())
                    .line_start(place.line as usize)
                    .annotation(AnnotationKind::Primary.span(start..end)),
            )
        }
        None => match place {
            Some(place) => {
                return format!("error: {message}\n --> {file}:{}", place.line);
            }
            None => return format!("error: {}", diagnostic.message),
        },
    };
    renderer.render(&[group])
}

/// The byte offset of a column (in characters, from 1), limited to the length of the line.
fn byte_of_column(source: &str, column: u32) -> usize {
    let index = (column as usize).saturating_sub(1);
    source.char_indices().nth(index).map_or(source.len(), |(byte, _)| byte)
}
