//! Targets: met or not, on what evidence; and where one is missed, what stands in its way.

use super::super::advice::{bottlenecks, levers};
use super::super::html::{HtmlFragment, Table, Tone, each, escape, missing};
use super::Section;
use crate::run::{RunState, TargetJudged};

/// How many bottlenecks and levers a missed target lists.
const TOP: usize = 3;

pub fn section(state: &RunState) -> Option<Section> {
    if state.targets.is_empty() {
        return None;
    }
    let mut table = Table::new("Targets and what they rest on", &["target", "problem", "", "evidence"], 4);
    for target in &state.targets {
        let (tone, word) = judged(target);
        table.row(vec![
            HtmlFragment::text(&target.target),
            target.problem.as_ref().map_or(HtmlFragment::faint("all"), HtmlFragment::text),
            HtmlFragment::mark(tone, word),
            HtmlFragment::text(&target.evidence),
        ]);
    }
    let mut body = table.html();
    if state.profiles.is_empty() && state.targets.iter().any(|target| target.met == Some(false)) {
        let text = "What limits the kernels that missed, and the levers to pull, takes a profile, and this run has none.";
        body += &missing(text);
        return Some(Section::new("targets", "Targets", body));
    }
    // One list per problem that missed something: targets of one problem have the same things in their way.
    let mut seen: Vec<Option<&str>> = Vec::new();
    for target in state.targets.iter().filter(|target| target.met == Some(false)) {
        let problem = target.problem.as_deref();
        if !seen.contains(&problem) {
            seen.push(problem);
            body += &in_the_way(state, problem);
        }
    }
    Some(Section::new("targets", "Targets", body))
}

pub fn judged(target: &TargetJudged) -> (Tone, &'static str) {
    match target.met {
        Some(true) => (Tone::Good, "met"),
        Some(false) => (Tone::Bad, "missed"),
        None => (Tone::Open, "not judged"),
    }
}

fn in_the_way(state: &RunState, problem: Option<&str>) -> String {
    let found = bottlenecks(state, problem);
    let place = problem.map_or("Missed".to_owned(), |problem| format!("Missed on {problem}"));
    if found.is_empty() {
        return missing(&format!("{place}: the profiles of this run found nothing that limits the kernel."));
    }
    let limits = each(found.iter().take(TOP), |it| {
        let (rule, evidence) = (escape(&it.diagnosis.rule), escape(&it.diagnosis.evidence));
        format!("<li><strong>{rule}</strong>: {evidence} <small>{}</small></li>\n", escape(&it.of.subject))
    });
    let pull = each(levers(&found, TOP), |it| format!("<li>{}</li>\n", escape(it.lever)));
    let place = escape(&place);
    format!(
        "<div class=\"pair\">\n<div><h3>{place}: what limits it</h3>\n<ol>\n{limits}</ol></div>\n\
         <div><h3>Most promising levers</h3>\n<ol>\n{pull}</ol></div>\n</div>\n"
    )
}
