//! The report in the common form of the formats for CI systems.

use report::ci::{CiCase, CiFinding, CiNotice, CiReport, CiStatus, CiValue, Level, Location};

use super::super::{GateReport, GateRow, QuantityChange, QuantityVerdict, RowStatus};
use super::values;

/// Where the source of a candidate is; `None` if it is not known.
pub type Places<'p> = dyn Fn(&str) -> Option<Location> + 'p;

/// The report for CI systems. Findings are attached to the candidate's source; those about all candidates, and those
/// whose source is not known, to `file`, the leaderboard.
pub fn ci_report(report: &GateReport, file: &str, places: &Places<'_>) -> CiReport {
    let cases = report.rows.iter().map(|row| case(row, file, places)).collect();
    let mut converted = CiReport::new("gate", &report.device, cases);
    converted.made = report.judged;
    converted.values = report.rows.iter().flat_map(changed_values).collect();
    converted
}

fn case(row: &GateRow, file: &str, places: &Places<'_>) -> CiCase {
    let status = match row.standing {
        RowStatus::Failed => CiStatus::Failed,
        RowStatus::Incomplete => CiStatus::Incomplete,
        RowStatus::Passed | RowStatus::Improved | RowStatus::Recorded => CiStatus::Passed,
    };
    let mut case = CiCase::new(row.name(), status, "");
    let mut detail = vec![row.standing.to_string().to_lowercase()];
    detail.extend(Some(values(row)).filter(|values| !values.is_empty()));
    detail.extend(row.gaps.iter().map(ToString::to_string));
    case.detail = detail.join("; ");
    for finding in &row.findings {
        let mut converted = CiFinding::new(finding.kind(), row.name(), finding.to_string());
        converted.location = Some(places(finding.candidate()).unwrap_or_else(|| Location::file(file)));
        case.findings.push(converted);
    }
    if row.findings.is_empty() && status == CiStatus::Incomplete {
        let gaps: Vec<String> = row.gaps.iter().map(ToString::to_string).collect();
        let mut converted = CiFinding::new("incomplete", row.name(), gaps.join("\n"));
        let place = row.candidate.as_deref().and_then(places);
        converted.location = Some(place.unwrap_or_else(|| Location::file(file)));
        case.findings.push(converted);
    }
    let mut notice = |level: Level, message: String| case.notices.push(CiNotice { level, message });
    if matches!(row.standing, RowStatus::Improved | RowStatus::Recorded) {
        notice(Level::Note, format!("{}: {}", row.standing, values(row)));
    }
    if let Some(compilers) = &row.compilers {
        notice(Level::Warning, compilers.to_string());
    }
    if row.throttled {
        notice(Level::Warning, "the GPU throttled its clocks during this measurement".to_owned());
    }
    for change in row.quantities.iter().filter(|_| row.best_candidate.is_some()) {
        if change.verdict == QuantityVerdict::NotCompared {
            notice(Level::Note, change.to_string());
        }
    }
    case
}

/// The values of a row that differ from the record or are not compared with it.
fn changed_values(row: &GateRow) -> Vec<CiValue> {
    let shown = |change: &&QuantityChange| change.verdict != QuantityVerdict::Same;
    let value = |change: &QuantityChange| {
        let text = |value: f64| change.quantity.text(value);
        let percent = change.share().map(|share| format!("{:+.1}%", share * 100.0));
        CiValue {
            case: row.name(),
            name: format!("{} ({})", change.quantity, change.origin),
            now: text(change.now),
            best: change.best.map(text).unwrap_or_default(),
            change: change.not_compared.clone().or(percent).unwrap_or_default(),
        }
    };
    row.quantities.iter().filter(shown).map(value).collect()
}
