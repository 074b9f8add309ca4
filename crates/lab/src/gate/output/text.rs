//! The report as text.

use std::fmt::Write as _;

use super::super::{GateReport, RowStatus};
use super::times;

/// One line per problem, followed by its reasons, and a last line with the counts.
pub fn text(report: &GateReport) -> String {
    // Text from the log may contain control characters. Each name must stay on one line.
    let one_line = |text: &str| text.replace(char::is_control, " ");
    let mut out = format!("{}, {}\n", one_line(&report.device), report.timer);
    let width = report.rows.iter().map(|row| row.problem.chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    for row in &report.rows {
        let (problem, times) = (one_line(&row.problem), one_line(&times(row)));
        let line = format!("{:<10}  {problem:<width$}  {times}", row.standing);
        let _ = writeln!(out, "{}", line.trim_end());
        for reason in row.reasons() {
            let _ = writeln!(out, "{:12}{}", "", one_line(&reason));
        }
        if row.throttled {
            let _ = writeln!(out, "{:12}the GPU throttled its clocks during the measurement", "");
        }
    }
    let count = |standing| report.count(standing);
    let passed = count(RowStatus::Passed) + count(RowStatus::Improved) + count(RowStatus::Recorded);
    let _ = write!(
        out,
        "{} problem{}: {passed} passed ({} improved, {} recorded), {} failed, {} incomplete",
        report.rows.len(),
        if report.rows.len() == 1 { "" } else { "s" },
        count(RowStatus::Improved),
        count(RowStatus::Recorded),
        count(RowStatus::Failed),
        count(RowStatus::Incomplete),
    );
    out.push('\n');
    out
}
