//! The report as JSON, for programs.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::GateReport;
use crate::run::RunOutcome;

/// The report with its outcome.
#[derive(Debug, JsonSchema, Serialize)]
pub struct GateDocument<'r> {
    outcome: RunOutcome,
    #[serde(flatten)]
    report: &'r GateReport,
}

/// The report as JSON.
pub fn json(report: &GateReport) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&GateDocument { outcome: report.outcome(), report })
}
