//! Rows for people.

use std::fmt::Write as _;

use super::super::{GateReport, RowStatus};
use super::times;

/// A line per problem with its reasons under it, and a line that counts.
pub fn text(report: &GateReport) -> String {
    // Names are a log's, and belong on one line.
    let name = |text: &str| text.replace(char::is_control, " ");
    let mut out = format!("{}, {}\n", name(&report.device), report.timer);
    let width = report.rows.iter().map(|row| row.problem.chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    for row in &report.rows {
        let (problem, times) = (name(&row.problem), name(&times(row)));
        let line = format!("{:<10}  {problem:<width$}  {times}", row.standing);
        let _ = writeln!(out, "{}", line.trim_end());
        for reason in row.reasons() {
            let _ = writeln!(out, "{:12}{}", "", name(&reason));
        }
        if row.throttled {
            let _ = writeln!(out, "{:12}clocks were held down meanwhile", "");
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
