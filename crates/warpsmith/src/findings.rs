//! Findings of the virtual GPU for the terminal.

use vgpu::Finding;

pub use sanitize::findings::{Texts, causes, dropped, shown_frame};

use crate::printer::styled_already;
use crate::snippet;

/// The findings of one cause: the first as [`render`] does, and the lines of the others.
pub fn render_cause(group: &[&Finding], sources: &Texts) -> String {
    styled_already(&sanitize::findings::render_cause(group, sources, &snippet::renderer()))
}

/// One finding, with its source lines, the threads that caused it and how often it occurred.
pub fn render(finding: &Finding, sources: &Texts) -> String {
    styled_already(&sanitize::findings::render(finding, sources, &snippet::renderer()))
}
