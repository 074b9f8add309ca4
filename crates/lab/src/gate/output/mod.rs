//! Writes the gate's report for people and for programs.

mod ci;
mod json;
mod text;

pub use ci::{Places, ci_report};
pub use json::{GateDocument, json};
pub use text::text;

use super::GateRow;

/// The times of a row: `10.03 us, best 9.80 us, 2.3% slower` or `12.30 us (modelled), on record 12.30 us (modelled)`.
fn values(row: &GateRow) -> String {
    let mut parts = Vec::new();
    if let Some(time) = row.modelled_us {
        parts.push(time.to_string());
    }
    if let Some(best) = row.best_modelled_us {
        parts.push(format!("on record {best}"));
    }
    if let Some(p50) = row.p50_us {
        parts.push(p50.to_string());
    }
    if let Some(best) = row.best_p50_us {
        parts.push(format!("best {best}"));
    }
    if let Some(change) = row.change {
        let percent = change.slower_by.abs() * 100.0;
        // A change that would be shown as 0.0% is shown without a direction.
        match percent {
            ..0.05 => parts.push("unchanged".to_owned()),
            _ if change.slower_by > 0.0 => parts.push(format!("{percent:.1}% slower")),
            _ => parts.push(format!("{percent:.1}% faster")),
        }
    }
    parts.join(", ")
}
