//! What a reader sees first: the sentence, what it rests on, and what to beware of.

use super::super::Kind;
use super::super::comparison::boards;
use super::super::headline::Headline;
use super::super::html::{HtmlFragment, Tone, each, escape, tag};
use super::super::search::{elites, tally};
use super::super::words::{count, device, ratio};
use crate::invert::InversionResult;
use crate::run::{Row, RunOutcome, RunState};

pub fn html(state: &RunState, rows: &[Row], headline: &Headline) -> String {
    let of = match &state.manifest {
        Some(manifest) => {
            format!("warpsmith {} · {} UTC · {}", manifest.command, manifest.started.short(), device(state))
        }
        None => "warpsmith".to_owned(),
    };
    let tag = headline.kind.map_or(String::new(), |kind| format!(" {}", tag(kind)));
    let figures = each(figures(state, rows), |(name, value)| {
        format!("<div><dt>{}</dt><dd>{value}</dd></div>\n", escape(&name))
    });
    let notices =
        each(notices(state, rows), |(class, text)| format!("<p class=\"notice {class}\">{text}</p>\n"));
    format!(
        "<p class=\"kicker\">{}</p>\n<h1>{}{tag}</h1>\n<dl class=\"figures\">\n{figures}</dl>\n{notices}",
        escape(&of),
        escape(&headline.sentence),
    )
}

/// A few numbers that stand for the run.
fn figures(state: &RunState, rows: &[Row]) -> Vec<(String, HtmlFragment)> {
    let (tone, word) = match state.outcome {
        Some(RunOutcome::Holds) => (Tone::Good, "holds".to_owned()),
        Some(outcome) => (Tone::Bad, outcome.to_string()),
        None => (Tone::Bad, "unfinished".to_owned()),
    };
    let mut figures = vec![("result".to_owned(), HtmlFragment::mark(tone, word))];
    let boards = boards(rows);
    if let Some((board, hardest)) = boards.first().and_then(|board| Some((board, board.hardest()?))) {
        let place = board.baselines.iter().position(|name| *name == hardest).unwrap_or(0);
        let compared = board.lines.iter().filter_map(|line| Some((line, line.over[place]?)));
        if let Some((line, best)) = compared.max_by(|a, b| a.1.speedup.ratio.total_cmp(&b.1.speedup.ratio)) {
            let value = HtmlFragment::text(ratio(best.speedup.ratio)).with(format!("on {}", line.problem));
            figures.push((format!("best over {hardest}"), value));
            if let Some(percent) = line.best.ceiling_percent {
                let value = HtmlFragment::text(format!("{percent:.1}%")).with("there");
                figures.push(("share of the measured ceiling".to_owned(), value));
            }
        }
    }
    if let Some(best) = elites(state).first() {
        let value = HtmlFragment::time(best.kind, ratio(best.score));
        figures.push(("best of the search".to_owned(), value));
    }
    if let (Some(search), tally) = (&state.search, tally(state)) {
        let value =
            HtmlFragment::text(tally.all()).with(format!("of {}, {} failed", search.budget, tally.failed));
        figures.push(("trials".to_owned(), value));
    }
    if !state.targets.is_empty() {
        let met = state.targets.iter().filter(|target| target.met == Some(true)).count();
        let value = HtmlFragment::text(met).with(format!("of {}", state.targets.len()));
        figures.push(("targets met".to_owned(), value));
    }
    if !state.checks.is_empty() {
        let passed = state.checks.values().filter(|check| check.passed).count();
        let value = HtmlFragment::text(passed).with(format!("of {}", state.checks.len()));
        figures.push(("right answers".to_owned(), value));
    }
    if let Some((timer, floor)) = super::results::noise_floors(state).into_iter().next() {
        let value =
            HtmlFragment::text(format!("{:.2}%", 100.0 * floor.usual)).with(format!("usually, {timer}"));
        figures.push(("noise floor".to_owned(), value));
    }
    figures
}

fn notices(state: &RunState, rows: &[Row]) -> Vec<(&'static str, HtmlFragment)> {
    let mut notices = Vec::new();
    if !state.is_complete() {
        let text = "This run is incomplete: it was stopped before its end, or is still going on. What is missing is \
                    no pass.";
        notices.push(("bad", HtmlFragment::text(text)));
    }
    if has_modelled(state) {
        let text = format!(
            "Times that look <i class=\"modelled\">like this</i> and bars that are hatched are {}: the virtual GPU \
             computed them. They rank kernels; they are never compared with measured times.",
            tag(Kind::Modelled)
        );
        notices.push(("modelled", HtmlFragment::html(text)));
    }
    let throttled = rows.iter().filter(|row| row.throttled == Some(true)).count();
    if throttled > 0 {
        let text =
            format!("Clocks were held down during {throttled} of {}.", count(rows.len(), "measurement"));
        notices.push(("bad", HtmlFragment::text(text)));
    }
    notices
}

fn has_modelled(state: &RunState) -> bool {
    let inverted = state.inversions.iter().any(
        |inversion| matches!(inversion.result, InversionResult::Timed { time, .. } if time.is_modelled()),
    );
    let profiled = state.profiles.values().any(|profile| super::profiles::kind(profile) == Kind::Modelled);
    let tried = super::super::search::scored(state).iter().any(|it| it.kind == Kind::Modelled);
    !state.modelled.is_empty() || inverted || profiled || tried
}
