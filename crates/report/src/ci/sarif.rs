//! SARIF 2.1.0, which code scanning of GitHub and editors read.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use text::escape::{self, uri};

use super::rules::{RULES, Rule};
use super::{CiFinding, CiReport, CiStatus, Level, Location};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The name of the fingerprint. A new way to compute it needs a new name.
const FINGERPRINT: &str = "warpsmithFinding/v1";

/// The report as a SARIF log with one run. A finding that several results have in common is one SARIF result.
pub fn sarif(report: &CiReport) -> Value {
    let incomplete: Vec<CiFinding> = report
        .cases
        .iter()
        .filter(|case| case.status != CiStatus::Passed && case.findings.is_empty())
        .map(|case| CiFinding::new("incomplete", &case.name, format!("{}: {}", case.name, case.detail)))
        .collect();
    let findings = report.cases.iter().flat_map(|case| &case.findings).chain(&incomplete);
    let mut distinct: Vec<(&CiFinding, usize)> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for finding in findings {
        let message = finding.location.as_ref().is_none_or(|it| it.line == 0).then_some(&finding.message);
        let key = (finding.rule.id, &finding.owner, &finding.location, message);
        let index = *known.entry(key).or_insert(distinct.len());
        if index == distinct.len() {
            distinct.push((finding, 0));
        }
        distinct[index].1 += 1;
    }
    let fingerprints = fingerprints(&distinct);
    let results: Vec<Value> = distinct
        .iter()
        .zip(fingerprints)
        .map(|((finding, count), fingerprint)| result(finding, *count, &fingerprint))
        .collect();
    let mut driver = json!({
        "name": "warpsmith",
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": RULES.iter().map(rule).collect::<Vec<Value>>(),
    });
    let repository = env!("CARGO_PKG_REPOSITORY");
    if !repository.is_empty() {
        driver["informationUri"] = json!(repository);
    }
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": driver },
            "automationDetails": { "id": format!("warpsmith/{}/", report.command) },
            "columnKind": "unicodeCodePoints",
            "invocations": [{ "executionSuccessful": report.status() != CiStatus::Incomplete }],
            "results": results,
        }],
    })
}

fn rule(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "name": rule.name,
        "shortDescription": { "text": rule.short },
        "fullDescription": { "text": rule.short },
        "help": { "text": rule.help, "markdown": rule.help },
        "defaultConfiguration": { "level": "error" },
    })
}

fn result(finding: &CiFinding, count: usize, fingerprint: &str) -> Value {
    let mut location = finding.location.as_ref().map_or_else(|| json!({}), place);
    location["logicalLocations"] = json!([{ "name": escape::sarif(&finding.owner), "kind": "function" }]);
    let related: Vec<Value> = finding
        .related
        .iter()
        .enumerate()
        .map(|(index, (label, other))| {
            let mut location = place(other);
            location["id"] = json!(index + 1);
            location["message"] = json!({ "text": escape::sarif(label) });
            location
        })
        .collect();
    let index = RULES.iter().position(|rule| rule.id == finding.rule.id);
    let mut result = json!({
        "ruleId": finding.rule.id,
        "level": match finding.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
        },
        "message": { "text": escape::sarif(&finding.message) },
        "locations": [location],
        "partialFingerprints": { FINGERPRINT: fingerprint },
        "occurrenceCount": count,
    });
    if let Some(index) = index {
        result["ruleIndex"] = json!(index);
    }
    if !related.is_empty() {
        result["relatedLocations"] = json!(related);
    }
    result
}

fn place(location: &Location) -> Value {
    let mut place = json!({ "artifactLocation": { "uri": uri(&location.file) } });
    // Code scanning shows only results with a line.
    let mut region = json!({ "startLine": location.line.max(1) });
    if location.line > 0 && location.column > 0 {
        region["startColumn"] = json!(location.column);
    }
    place["region"] = region;
    json!({ "physicalLocation": place })
}

/// The fingerprint of every finding. It is a hash of the kind, the owner, the file and the text of the line. It does not
/// contain the number of the line, so it stays the same when unrelated lines move. Findings with equal text are
/// numbered in the order of their lines.
fn fingerprints(findings: &[(&CiFinding, usize)]) -> Vec<String> {
    let mut groups: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (index, (finding, _)) in findings.iter().enumerate() {
        let (file, text) = match &finding.location {
            Some(location) => (location.file.as_str(), location.text.trim()),
            None => ("", ""),
        };
        let mut key = Vec::new();
        for part in [finding.rule.id, &finding.owner, file, text] {
            // The length separates the parts.
            key.extend((part.len() as u64).to_le_bytes());
            key.extend(part.bytes());
        }
        groups.entry(key).or_default().push(index);
    }
    let mut fingerprints = vec![String::new(); findings.len()];
    for (key, mut members) in groups {
        members.sort_by_key(|&index| findings[index].0.location.as_ref().map(|it| (it.line, it.column)));
        for (number, index) in members.into_iter().enumerate() {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&key).update(&(number as u64).to_le_bytes());
            fingerprints[index].push_str(&hasher.finalize().to_hex()[..32]);
        }
    }
    fingerprints
}
