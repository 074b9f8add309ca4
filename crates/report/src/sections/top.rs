//! The top of the report: key figures and notices.

use runlog::RunOutcome;
use runlog::record::InversionResult;

use super::super::TimeKind;
use super::super::document::{Line, Notice, Tone};
use super::super::facts::Facts;
use super::super::search::elite_rule;
use super::super::words::{count, ratio};

/// The line above the headline: the command, its time and the device.
pub fn run(facts: &Facts<'_>) -> String {
    match &facts.state.manifest {
        Some(manifest) => {
            format!("warpsmith {} · {} UTC · {}", manifest.command, manifest.started.short(), facts.device)
        }
        None => "warpsmith".to_owned(),
    }
}

/// The key figures of the run.
pub fn figures(facts: &Facts<'_>) -> Vec<(String, Line)> {
    let state = facts.state;
    let (failed, left_out) = facts.failures.iter().partition::<Vec<_>, _>(|it| it.is_failure());
    let (tone, word) = match state.outcome {
        Some(outcome @ RunOutcome::Success) => (Tone::Good, outcome.to_string()),
        Some(outcome) => (Tone::Bad, outcome.to_string()),
        None => (Tone::Bad, "unfinished".to_owned()),
    };
    let mut figures = vec![("result".to_owned(), Line::mark(tone, word))];
    if !facts.failures.is_empty() {
        let value = Line::text(failed.len()).with_small(if left_out.is_empty() {
            String::new()
        } else {
            format!("{} left out", left_out.len())
        });
        figures.push(("failures".to_owned(), value));
    }
    let first = facts.tables.first().and_then(|table| Some((table, table.strongest_baseline()?)));
    if let Some((table, baseline)) = first {
        let column = table.baselines.iter().position(|name| *name == baseline).unwrap_or(0);
        let compared = table.lines.iter().filter_map(|line| Some((line, line.over[column]?)));
        if let Some((line, best)) = compared.max_by(|a, b| a.1.speedup.ratio.total_cmp(&b.1.speedup.ratio)) {
            let value = Line::text(ratio(best.speedup.ratio)).with_small(format!("on {}", line.problem));
            figures.push((format!("best speedup over {baseline}"), value));
            if let Some(percent) = line.best.ceiling_percent {
                let value = Line::text(format!("{percent:.1}%")).with_small(format!("on {}", line.problem));
                figures.push(("share of the measured ceiling".to_owned(), value));
            }
        }
    }
    if let Some(best) = facts.elites.first() {
        let value = Line::time(best.kind, ratio(best.score));
        figures.push(("best elite of the search".to_owned(), value));
    }
    if let (Some(search), counts) = (&state.search, &facts.counts) {
        let value =
            Line::text(counts.all()).with_small(format!("of {}, {} failed", search.budget, counts.failed));
        figures.push(("trials".to_owned(), value));
    }
    if !state.targets.is_empty() {
        let met = state.targets.iter().filter(|target| target.met == Some(true)).count();
        let value = Line::text(met).with_small(format!("of {}", state.targets.len()));
        figures.push(("targets met".to_owned(), value));
    }
    if !state.checks.is_empty() {
        let passed = state.checks.values().filter(|check| check.passed).count();
        let value = Line::text(passed).with_small(format!("of {}", state.checks.len()));
        figures.push(("passed checks".to_owned(), value));
    }
    if let Some((timer, floor)) = super::results::noise_floors(state).into_iter().next() {
        let value =
            Line::text(format!("{:.2}%", 100.0 * floor.median)).with_small(format!("median, {timer}"));
        figures.push(("noise floor".to_owned(), value));
    }
    figures
}

/// What a reader must know before the results.
pub fn notices(facts: &Facts<'_>) -> Vec<Notice> {
    let rows = facts.rows;
    let mut notices = Vec::new();
    if !facts.state.is_complete() {
        let text = "This run is incomplete: it was stopped before the end, or it is still active. Missing results do \
                    not count as passed.";
        notices.push(Notice::Caution(Line::text(text)));
    }
    if has_modelled(facts) {
        notices.push(Notice::Modelled);
    }
    if let Some(text) = elite_rule(&facts.better_than_elites, &facts.elites) {
        notices.push(Notice::Remark(Line::with_knobs(text)));
    }
    let throttled = rows.iter().filter(|row| row.throttled == Some(true)).count();
    if throttled > 0 {
        let text =
            format!("The GPU throttled its clocks in {throttled} of {}.", count(rows.len(), "measurement"));
        notices.push(Notice::Caution(Line::text(text)));
    }
    notices
}

fn has_modelled(facts: &Facts<'_>) -> bool {
    let state = facts.state;
    let inverted = state.inversions.iter().any(
        |inversion| matches!(inversion.result, InversionResult::Timed { time, .. } if time.is_modelled()),
    );
    let profiled =
        state.profiles.values().any(|profile| super::profiles::kind(profile) == TimeKind::Modelled);
    let tried = facts.scored.iter().any(|it| it.kind == TimeKind::Modelled);
    !state.modelled.is_empty() || inverted || profiled || tried
}
