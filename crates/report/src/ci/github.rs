//! Workflow commands that GitHub Actions shows as annotations.

use std::collections::HashSet;
use std::fmt::Write as _;

use text::escape::{workflow_message, workflow_property};

use super::{CiReport, CiStatus, Level, Location};

/// One annotation per finding and per remark. A failed or incomplete result without a finding has an annotation too.
pub fn github(report: &CiReport) -> String {
    let mut out = String::new();
    let mut annotate = |level: Level, title: &str, location: Option<&Location>, message: &str| {
        let mut properties = Vec::new();
        if let Some(location) = location {
            properties.push(format!("file={}", workflow_property(&location.file)));
            if location.line > 0 {
                properties.push(format!("line={}", location.line));
            }
            if location.line > 0 && location.column > 0 {
                properties.push(format!("col={}", location.column));
            }
        }
        properties.push(format!("title={}", workflow_property(title)));
        let name = match level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "notice",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "::{name} {}::{}", properties.join(","), workflow_message(message));
    };
    // The same finding may occur in several results.
    let mut known = HashSet::new();
    for case in &report.cases {
        for finding in &case.findings {
            let title = format!("{}: {}", finding.owner, finding.rule.id);
            let key = (finding.rule.id, &finding.owner, &finding.location);
            if finding.location.as_ref().is_none_or(|it| it.line == 0) || known.insert(key) {
                annotate(finding.level, &title, finding.location.as_ref(), &finding.message);
            }
        }
        let is_told = !case.findings.is_empty() || case.same_cause_as.is_some();
        if !is_told && case.status != CiStatus::Passed {
            annotate(Level::Error, &case.name, None, &format!("{}: {}", case.status.name(), case.detail));
        }
        for notice in &case.notices {
            annotate(notice.level, &case.name, None, &notice.message);
        }
    }
    if report.cases.is_empty() {
        annotate(Level::Error, "incomplete", None, "there are no results to judge");
    }
    out
}
