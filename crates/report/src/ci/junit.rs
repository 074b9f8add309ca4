//! JUnit XML: one suite, one case per result. A finding is a `failure`, missing data an `error`. Nothing is `skipped`,
//! because most CI systems treat that as a pass.

use std::fmt::Write as _;

use text::escape::xml;

use super::{CiReport, CiStatus};

/// The report as JUnit XML.
pub fn junit(report: &CiReport) -> String {
    let CiReport { command, .. } = report;
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\"",
        report.cases.len(),
        report.count(CiStatus::Failed),
        report.count(CiStatus::Incomplete)
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<testsuites name=\"warpsmith {command}\" {counts}>");
    // Timestamps in the JUnit schema have no fractions and no time zone.
    let made = report.made.to_string();
    let (subject, made) = (xml(&report.subject), made.get(..19).unwrap_or(&made));
    let _ = writeln!(out, "  <testsuite name=\"{subject}\" {counts} timestamp=\"{made}\">");
    for case in &report.cases {
        let name = xml(&case.name);
        let _ = writeln!(out, "    <testcase name=\"{name}\" classname=\"warpsmith.{command}\">");
        let messages = case.messages();
        let message = xml(&if messages.is_empty() { case.detail.clone() } else { messages.join("; ") });
        let body = xml(&format!("{}\n{}", case.detail, messages.join("\n")));
        let _ = match case.status {
            CiStatus::Failed => {
                let kind = case.findings.first().map_or("finding", |finding| finding.rule.id);
                writeln!(out, "      <failure type=\"{kind}\" message=\"{message}\">{body}</failure>")
            }
            CiStatus::Incomplete => {
                writeln!(out, "      <error type=\"incomplete\" message=\"{message}\">{body}</error>")
            }
            CiStatus::Passed => writeln!(out, "      <system-out>{}</system-out>", xml(&case.detail)),
        };
        out.push_str("    </testcase>\n");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}
