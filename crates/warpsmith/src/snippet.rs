//! Compiler messages for the terminal.

use compiler::Diagnostic;
use sanitize::Renderer;

use crate::layout;
use crate::printer::styled_already;

/// One compiler message with file, line and caret.
pub fn diagnostic(diagnostic: &Diagnostic) -> String {
    styled_already(&sanitize::snippet::diagnostic(diagnostic, &renderer()))
}

/// The renderer of source lines. Lines that are wider than the terminal are cut.
pub fn renderer() -> Renderer {
    match layout::stdout_width() {
        Some(width) => Renderer::styled().term_width(width),
        None => Renderer::styled(),
    }
}
