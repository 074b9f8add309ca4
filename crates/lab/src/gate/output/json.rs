//! The report as JSON, for programs.

use runlog::RunOutcome;
use serde::Serialize;

use super::super::GateReport;

#[derive(Serialize)]
struct File<'r> {
    outcome: RunOutcome,
    #[serde(flatten)]
    report: &'r GateReport,
}

/// The report as JSON.
pub fn json(report: &GateReport) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&File { outcome: report.outcome(), report })
}
