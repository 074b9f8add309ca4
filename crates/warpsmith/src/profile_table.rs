//! Renders profiles and inversions as text and as JSON, from the run's log.

use report::export::NamedProfile;
use runlog::record::{Inversion, InversionResult, METRICS, Metrics, Profile};
use runlog::{FailureRecord, ResultId, RunState, Time};
use schemars::JsonSchema;
use serde::Serialize;

use crate::bench_table::failures;
use crate::printer::{BAD, FAINT, STRONG, WARN, one_line, styled};
use crate::tables::Table;

/// What `profile` and `invert` print as JSON.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(inline)]
pub struct Document<'s> {
    profiles: Vec<NamedProfile<'s>>,
    inversions: &'s [Inversion],
    failures: &'s [FailureRecord],
    notes: &'s [String],
}

impl<'s> Document<'s> {
    /// The document of a run.
    pub fn new(state: &'s RunState) -> Self {
        Document {
            profiles: state.profiles.iter().map(|(of, profile)| NamedProfile { of, profile }).collect(),
            inversions: &state.inversions,
            failures: &state.failures,
            notes: &state.notes,
        }
    }
}

/// The text of `profile`.
pub fn profiles(state: &RunState) -> String {
    let mut parts: Vec<String> = state.profiles.iter().map(|(of, it)| profile(of, it)).collect();
    parts.extend(failures(state));
    parts.extend(state.notes.iter().map(|note| styled(FAINT, one_line(note))));
    parts.join("\n\n")
}

fn profile(of: &ResultId, profile: &Profile) -> String {
    let title = styled(STRONG, format!("{}  {}", of.problem, of.subject));
    let mut lines = vec![format!("{title}  {}", styled(FAINT, format!("by {}", profile.source)))];
    lines.extend(profile.notes.iter().map(|note| styled(FAINT, one_line(note))));
    let mut facts = metrics(&profile.metrics);
    if let Some(roofline) = &profile.roofline {
        facts.row(["roofline".to_owned(), roofline.text()]);
    }
    let stalls: Vec<String> = profile
        .metrics
        .stalls
        .iter()
        .take(5)
        .map(|(name, percent)| format!("{name} {percent:.0}%"))
        .collect();
    let resources = profile.metrics.resources.iter().take(4);
    let resources: Vec<String> = resources.map(|(name, percent)| format!("{name} {percent:.0}%")).collect();
    if !resources.is_empty() {
        facts.row(["limited by".to_owned(), resources.join(", ")]);
    }
    if !stalls.is_empty() {
        facts.row(["warps' time".to_owned(), stalls.join(", ")]);
    }
    lines.push(facts.text());
    if profile.diagnoses.is_empty() {
        lines.push(styled(FAINT, "no rule matches this profile"));
    } else {
        let mut table = Table::new(&["limit", "weight", "evidence", "what to change"], &["weight"]);
        for found in &profile.diagnoses {
            let weight = format!("{:.0}%", 100.0 * found.weight);
            let levers: Vec<String> = found.levers.iter().map(ToString::to_string).collect();
            table.row([found.rule.clone(), weight, found.evidence.clone(), levers.join("; ")]);
        }
        lines.push(table.text());
    }
    if let Some(first) = profile.hot_lines.first() {
        let share = format!("share of {}", first.of);
        let mut table = Table::new(&["%", "line", &share], &["%"]);
        for line in profile.hot_lines.iter().take(8) {
            let place = format!("{}:{}", line.file, line.line);
            table.row([format!("{:.1}", line.share_percent), place, line.text.clone()]);
        }
        lines.push(table.text());
    }
    lines.join("\n")
}

/// One metric per line, so that two profiles can be compared side by side.
fn metrics(metrics: &Metrics) -> Table {
    let mut table = Table::untitled(2);
    table.row(["time".to_owned(), metrics.time.map_or(styled(FAINT, "unavailable"), time_words)]);
    for metric in METRICS {
        let value = metric.text(metrics).unwrap_or_else(|reason| match reason.as_str() {
            "" => styled(FAINT, "unavailable"),
            reason => styled(FAINT, format!("unavailable ({reason})")),
        });
        table.row([metric.label.to_owned(), value]);
    }
    table
}

fn time_words(time: Time) -> String {
    match time {
        Time::Measured(time) => time.to_string(),
        Time::Modelled(time) => time.to_string(),
    }
}

/// The text of `invert`.
pub fn inversions(state: &RunState) -> String {
    let mut parts = Vec::new();
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for inversion in &state.inversions {
        let group = (inversion.problem.as_str(), inversion.healthy.as_str());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for (problem, healthy) in groups {
        let of_group = |it: &&Inversion| it.problem == problem && it.healthy == healthy;
        let found: Vec<&Inversion> = state.inversions.iter().filter(of_group).collect();
        parts.push(group(problem, healthy, &found));
    }
    parts.extend(failures(state));
    parts.extend(state.notes.iter().map(|note| styled(FAINT, one_line(note))));
    parts.join("\n\n")
}

fn group(problem: &str, healthy: &str, found: &[&Inversion]) -> String {
    let healthy_time = found.iter().find_map(|it| match &it.result {
        InversionResult::Timed { healthy, .. } => Some(*healthy),
        InversionResult::Failed { .. } => None,
    });
    let healthy_time = healthy_time.map_or(String::new(), |time| format!(": {} healthy", time_words(time)));
    let title = styled(STRONG, format!("{problem}  {healthy}{healthy_time}"));
    let mut table = Table::new(&["pathology", "setting", "time", "cost", "evidence"], &["time", "cost"]);
    for it in found {
        let (time, cost, evidence) = match &it.result {
            InversionResult::Timed { time, cost, evidence, .. } => {
                let cost = format!("{cost:.2}x");
                let cost = if time.micros() > 0.0 { styled(WARN, cost) } else { cost };
                (time_words(*time), cost, evidence.clone())
            }
            InversionResult::Failed { reason } => (String::new(), styled(BAD, "failed"), reason.clone()),
        };
        table.row([it.pathology.clone(), it.setting.clone(), time, cost, evidence]);
    }
    let advice = found
        .iter()
        .filter(|it| matches!(&it.result, InversionResult::Timed { cost, .. } if *cost > 1.0))
        .enumerate()
        .map(|(rank, it)| format!("{}. {}", rank + 1, it.advice));
    let advice: Vec<String> = advice.collect();
    let heading = styled(STRONG, "what to do instead, most costly pathology first");
    format!("{title}\n{}\n{heading}\n{}", table.text(), advice.join("\n"))
}
