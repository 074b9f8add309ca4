//! A short summary in Markdown, for a pull request or the summary of a job.

use std::fmt::Write as _;

use text::count;
use text::escape::markdown_code;

use super::{CiReport, CiStatus, Location};

/// The most lines of a table.
const MAX_LINES: usize = 50;

/// The report as Markdown: the counts, a table of the results that did not pass, and a table of changed values.
pub fn summary(report: &CiReport) -> String {
    let CiReport { command, cases, .. } = report;
    let mut out = format!("### warpsmith {command}: {}\n\n", report.status().name());
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{}: {}, {} passed, {} failed, {} incomplete",
        markdown_code(&report.subject),
        count(cases.len(), "result"),
        report.count(CiStatus::Passed),
        report.count(CiStatus::Failed),
        report.count(CiStatus::Incomplete)
    );
    let mut lines = Vec::new();
    for case in cases.iter().filter(|case| case.same_cause_as.is_none()) {
        let (status, mut name) = (case.status.name(), markdown_code(&case.name));
        let others = report.others_like(case);
        if others > 0 {
            let _ = write!(name, " and {}", count(others, "more result"));
        }
        for finding in &case.findings {
            let place = finding.location.as_ref().map(place_text).unwrap_or_default();
            let (rule, message) = (finding.rule.id, markdown_code(&finding.message));
            lines.push(format!("| {status} | {name} | {rule} | {} | {message} |", markdown_code(&place)));
        }
        if case.findings.is_empty() && case.status != CiStatus::Passed {
            lines.push(format!("| {status} | {name} |  |  | {} |", markdown_code(&case.detail)));
        }
    }
    table(&mut out, &["verdict", "result", "finding", "place", "message"], &lines);
    let values = report.values.iter().map(|value| {
        let cells = [&value.case, &value.name, &value.now, &value.best, &value.change];
        format!("| {} |", cells.map(|cell| markdown_code(cell)).join(" | "))
    });
    let values: Vec<String> = values.collect();
    table(&mut out, &["result", "value", "now", "on record", "change"], &values);
    out
}

fn place_text(location: &Location) -> String {
    match location.line {
        0 => location.file.clone(),
        line => format!("{}:{line}", location.file),
    }
}

/// Writes a table, if it has lines.
fn table(out: &mut String, header: &[&str], lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
    for line in lines.iter().take(MAX_LINES) {
        let _ = writeln!(out, "{line}");
    }
    if lines.len() > MAX_LINES {
        let _ = writeln!(out, "\n{} more lines are not shown.", lines.len() - MAX_LINES);
    }
}
