//! The report as JUnit XML, for CI systems: one suite for the device, one case per problem. A finding is a `failure`,
//! missing data an `error`. Nothing is `skipped`, because most CI systems treat that as a pass.

use std::fmt::Write as _;

use super::super::{GateReport, RowStatus};
use super::times;

/// The report as JUnit XML.
pub fn junit(report: &GateReport) -> String {
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\"",
        report.rows.len(),
        report.count(RowStatus::Failed),
        report.count(RowStatus::Incomplete)
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<testsuites name=\"warpsmith gate\" {counts}>");
    let (device, judged) = (escaped(&report.device), report.judged.to_string());
    // Timestamps in the JUnit schema have no fractions and no time zone.
    let _ = writeln!(out, "  <testsuite name=\"{device}\" {counts} timestamp=\"{}\">", &judged[..19]);
    for row in &report.rows {
        let _ =
            writeln!(out, "    <testcase name=\"{}\" classname=\"warpsmith.gate\">", escaped(&row.problem));
        let reasons = row.reasons();
        let message = escaped(&reasons.join("; "));
        let body = escaped(&format!("{}\n{}", times(row), reasons.join("\n")));
        match row.standing {
            RowStatus::Failed => {
                let kind = row.findings.first().map_or("finding", |finding| finding.kind());
                let _ =
                    writeln!(out, "      <failure type=\"{kind}\" message=\"{message}\">{body}</failure>");
            }
            RowStatus::Incomplete => {
                let _ =
                    writeln!(out, "      <error type=\"incomplete\" message=\"{message}\">{body}</error>");
            }
            RowStatus::Passed | RowStatus::Improved | RowStatus::Recorded => {
                let _ = writeln!(
                    out,
                    "      <system-out>{}: {}</system-out>",
                    row.standing,
                    escaped(&times(row))
                );
            }
        }
        out.push_str("    </testcase>\n");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// Escapes text for attributes and elements. XML 1.0 cannot represent most control characters; they are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\t' => out.push_str("&#9;"),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}
