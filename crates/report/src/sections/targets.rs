//! The section about targets: the verdicts with their evidence and, for missed targets, the bottlenecks.

use runlog::{RunState, TargetVerdict};

use super::super::advice::{bottlenecks, suggestions};
use super::super::document::{Block, Line, Section, Table, Tone, missing};

/// How many bottlenecks and suggested changes a missed target lists.
const TOP: usize = 3;

/// The section about targets.
pub fn section(state: &RunState) -> Option<Section> {
    if state.targets.is_empty() {
        return None;
    }
    let mut table =
        Table::new("Targets and their evidence", &["target", "problem", "verdict", "evidence"], 4);
    for target in &state.targets {
        let (tone, word) = judged(target);
        table.row(vec![
            Line::text(&target.target),
            target.problem.as_ref().map_or(Line::faint("all"), Line::text),
            Line::mark(tone, word),
            Line::text(&target.evidence),
        ]);
    }
    let mut body = vec![table.block()];
    if state.profiles.is_empty() && state.targets.iter().any(|target| target.met == Some(false)) {
        let text =
            "This run has no profile, so the bottlenecks of the kernels that missed a target are not known.";
        body.push(missing(text));
        return Some(Section::new("targets", "Targets", body));
    }
    // One list per problem: all targets of a problem have the same bottlenecks.
    let mut seen: Vec<Option<&str>> = Vec::new();
    for target in state.targets.iter().filter(|target| target.met == Some(false)) {
        let problem = target.problem.as_deref();
        if !seen.contains(&problem) {
            seen.push(problem);
            body.push(limits_and_suggestions(state, problem));
        }
    }
    Some(Section::new("targets", "Targets", body))
}

/// The colour and the word for a verdict.
pub fn judged(target: &TargetVerdict) -> (Tone, &'static str) {
    match target.met {
        Some(true) => (Tone::Good, "met"),
        Some(false) => (Tone::Bad, "missed"),
        None => (Tone::Open, "not judged"),
    }
}

fn limits_and_suggestions(state: &RunState, problem: Option<&str>) -> Block {
    let found = bottlenecks(state, problem);
    let title = problem.map_or("Missed".to_owned(), |problem| format!("Missed on {problem}"));
    if found.is_empty() {
        return missing(&format!("{title}: the profiles of this run show no bottleneck."));
    }
    let limits = found.iter().take(TOP).map(|it| {
        let evidence = format!(": {}", it.diagnosis.evidence);
        Line::strong(&it.diagnosis.rule).with_text(evidence).with_small(&it.of.subject)
    });
    let changes = suggestions(&found, TOP).into_iter().map(|it| Line::text(it.change));
    Block::Pair([
        (format!("{title}: bottlenecks"), limits.collect()),
        ("Most promising changes".to_owned(), changes.collect()),
    ])
}
