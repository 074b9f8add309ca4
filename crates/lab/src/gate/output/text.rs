//! The report as text.

use std::fmt::Write as _;

use ::text::escape::one_line;

use super::super::{Basis, GateReport, QuantityVerdict, RowStatus};
use super::values;

/// One line per problem, followed by its reasons, and a last line with the counts.
pub fn text(report: &GateReport) -> String {
    let basis = match report.basis {
        Basis::Measured => report.timer.to_string(),
        Basis::Counted => "compiled, counted and modelled; nothing was measured".to_owned(),
    };
    let mut out = format!("{}, {basis}\n", one_line(&report.device));
    let width = report.rows.iter().map(|row| row.name().chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    for row in &report.rows {
        let (name, values) = (one_line(&row.name()), one_line(&values(row)));
        let line = format!("{:<10}  {name:<width$}  {values}", row.standing);
        let _ = writeln!(out, "{}", line.trim_end());
        for reason in row.reasons() {
            let _ = writeln!(out, "{:12}{}", "", one_line(&reason));
        }
        // An exceeded tolerance is a finding, which is shown above.
        for change in row.quantities.iter().filter(|_| row.best_candidate.is_some()) {
            if !matches!(change.verdict, QuantityVerdict::Same | QuantityVerdict::Exceeded) {
                let _ = writeln!(out, "{:12}{}", "", one_line(&change.to_string()));
            }
        }
        if let Some(compilers) = &row.compilers {
            let _ = writeln!(out, "{:12}{}", "", one_line(&compilers.to_string()));
        }
        if row.throttled {
            let _ = writeln!(out, "{:12}the GPU throttled its clocks during the measurement", "");
        }
    }
    let count = |standing| report.count(standing);
    let passed = count(RowStatus::Passed) + count(RowStatus::Improved) + count(RowStatus::Recorded);
    let _ = write!(
        out,
        "{}: {passed} passed ({} improved, {} recorded), {} failed, {} incomplete",
        ::text::count(report.rows.len(), if report.basis == Basis::Measured { "problem" } else { "result" }),
        count(RowStatus::Improved),
        count(RowStatus::Recorded),
        count(RowStatus::Failed),
        count(RowStatus::Incomplete),
    );
    out.push('\n');
    out
}
