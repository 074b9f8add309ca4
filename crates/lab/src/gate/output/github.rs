//! Workflow commands that GitHub Actions shows as annotations.

use std::fmt::Write as _;

use super::super::{GateReport, RowStatus};
use super::times;

/// An error for every row that does not pass, a notice for every improvement, and a warning if the GPU throttled its
/// clocks. The annotations are attached to `file`, the leaderboard.
pub fn github(report: &GateReport, file: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut annotate = |level: &str, title: &str, message: &str| {
        let (file, title) = (escaped_property(file), escaped_property(title));
        let _ = writeln!(out, "::{level} file={file},title={title}::{}", escaped_message(message));
    };
    for row in &report.rows {
        let title = format!("{}: {}", row.problem, row.standing.to_string().to_lowercase());
        match row.standing {
            RowStatus::Failed | RowStatus::Incomplete => {
                let mut lines = row.reasons();
                lines.extend(Some(times(row)).filter(|times| !times.is_empty()));
                annotate("error", &title, &lines.join("\n"));
            }
            RowStatus::Improved | RowStatus::Recorded => annotate("notice", &title, &times(row)),
            RowStatus::Passed => {}
        }
        if row.throttled {
            annotate("warning", &row.problem, "the GPU throttled its clocks during this measurement");
        }
    }
    if report.rows.is_empty() {
        annotate("error", "incomplete", "the run has no results to judge");
    }
    out
}

/// Escapes a message: a command ends with its line, and `%` starts an escape.
fn escaped_message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property, which also ends at a comma or a colon.
fn escaped_property(text: &str) -> String {
    escaped_message(text).replace(':', "%3A").replace(',', "%2C")
}
