//! The report for programs.

use serde::Serialize;

use super::super::Report;
use crate::run::Outcome;

#[derive(Serialize)]
struct File<'r> {
    outcome: Outcome,
    #[serde(flatten)]
    report: &'r Report,
}

pub fn json(report: &Report) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&File { outcome: report.outcome(), report })
}
