//! Workflow commands that GitHub Actions shows at the change they are about.

use std::fmt::Write as _;

use super::super::{GateReport, RowStatus};
use super::times;

/// An annotation per row that does not pass, a notice per improvement, a warning where clocks were held down. `file`
/// is what they are pinned to: the leaderboard.
pub fn github(report: &GateReport, file: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut annotate = |level: &str, title: &str, message: &str| {
        let (file, title) = (property(file), property(title));
        let _ = writeln!(out, "::{level} file={file},title={title}::{}", data(message));
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
            annotate("warning", &row.problem, "clocks were held down while this was measured");
        }
    }
    if report.rows.is_empty() {
        annotate("error", "incomplete", "there was nothing to judge");
    }
    out
}

/// A command ends with its line, and `%` starts an escape.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Properties end at a comma or a colon besides.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
