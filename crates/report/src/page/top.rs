//! The top of the page: the headline, key figures and notices.

use runlog::RunOutcome;
use runlog::record::InversionResult;

use super::super::TimeKind;
use super::super::facts::Facts;
use super::super::headline::Headline;
use super::super::html::{HtmlFragment, Tone, each, escape, tag};
use super::super::search::elite_rule;
use super::super::words::{count, ratio};

/// The top of the page as HTML.
pub fn html(facts: &Facts<'_>, headline: &Headline) -> String {
    let run = match &facts.state.manifest {
        Some(manifest) => {
            format!("warpsmith {} · {} UTC · {}", manifest.command, manifest.started.short(), facts.device)
        }
        None => "warpsmith".to_owned(),
    };
    let tag = headline.kind.map_or(String::new(), |kind| format!(" {}", tag(kind)));
    let figures = each(figures(facts), |(name, value)| {
        format!("<div><dt>{}</dt><dd>{value}</dd></div>\n", escape(&name))
    });
    let notices = each(notices(facts), |(class, text)| format!("<p class=\"notice {class}\">{text}</p>\n"));
    format!(
        "<p class=\"kicker\">{}</p>\n<h1>{}{tag}</h1>\n<dl class=\"figures\">\n{figures}</dl>\n{notices}",
        escape(&run),
        sentence(headline),
    )
}

/// The sentence of the headline, with its number in front in large type.
fn sentence(headline: &Headline) -> String {
    let figure = headline.figure.as_deref().unwrap_or_default();
    let words = headline.sentence.strip_prefix(figure).unwrap_or(&headline.sentence);
    let class = headline.kind.map_or("", TimeKind::word);
    let lead = if figure.is_empty() {
        String::new()
    } else {
        format!("<span class=\"lead {class}\">{}</span>", escape(figure))
    };
    format!("{lead}{}", HtmlFragment::with_knobs(words))
}

/// The key figures of the run.
fn figures(facts: &Facts<'_>) -> Vec<(String, HtmlFragment)> {
    let state = facts.state;
    let (failed, left_out) = facts.failures.iter().partition::<Vec<_>, _>(|it| it.is_failure());
    let (tone, word) = match state.outcome {
        Some(outcome @ RunOutcome::Success) => (Tone::Good, outcome.to_string()),
        Some(outcome) => (Tone::Bad, outcome.to_string()),
        None => (Tone::Bad, "unfinished".to_owned()),
    };
    let mut figures = vec![("result".to_owned(), HtmlFragment::mark(tone, word))];
    if !facts.failures.is_empty() {
        let value = HtmlFragment::text(failed.len()).with_small(if left_out.is_empty() {
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
            let value =
                HtmlFragment::text(ratio(best.speedup.ratio)).with_small(format!("on {}", line.problem));
            figures.push((format!("best speedup over {baseline}"), value));
            if let Some(percent) = line.best.ceiling_percent {
                let value =
                    HtmlFragment::text(format!("{percent:.1}%")).with_small(format!("on {}", line.problem));
                figures.push(("share of the measured ceiling".to_owned(), value));
            }
        }
    }
    if let Some(best) = facts.elites.first() {
        let value = HtmlFragment::time(best.kind, ratio(best.score));
        figures.push(("best elite of the search".to_owned(), value));
    }
    if let (Some(search), counts) = (&state.search, &facts.counts) {
        let value = HtmlFragment::text(counts.all())
            .with_small(format!("of {}, {} failed", search.budget, counts.failed));
        figures.push(("trials".to_owned(), value));
    }
    if !state.targets.is_empty() {
        let met = state.targets.iter().filter(|target| target.met == Some(true)).count();
        let value = HtmlFragment::text(met).with_small(format!("of {}", state.targets.len()));
        figures.push(("targets met".to_owned(), value));
    }
    if !state.checks.is_empty() {
        let passed = state.checks.values().filter(|check| check.passed).count();
        let value = HtmlFragment::text(passed).with_small(format!("of {}", state.checks.len()));
        figures.push(("passed checks".to_owned(), value));
    }
    if let Some((timer, floor)) = super::results::noise_floors(state).into_iter().next() {
        let value = HtmlFragment::text(format!("{:.2}%", 100.0 * floor.median))
            .with_small(format!("median, {timer}"));
        figures.push(("noise floor".to_owned(), value));
    }
    figures
}

fn notices(facts: &Facts<'_>) -> Vec<(&'static str, HtmlFragment)> {
    let rows = facts.rows;
    let mut notices = Vec::new();
    if !facts.state.is_complete() {
        let text = "This run is incomplete: it was stopped before the end, or it is still active. Missing results do \
                    not count as passed.";
        notices.push(("bad", HtmlFragment::text(text)));
    }
    if has_modelled(facts) {
        let text = format!(
            "Times <i class=\"modelled\">in this style</i> and hatched bars are {}: the virtual GPU computed them. \
             They rank kernels. They are never compared with measured times.",
            tag(TimeKind::Modelled)
        );
        notices.push(("modelled", HtmlFragment::html(text)));
    }
    if let Some(text) = elite_rule(&facts.better_than_elites, &facts.elites) {
        notices.push(("", HtmlFragment::with_knobs(text)));
    }
    let throttled = rows.iter().filter(|row| row.throttled == Some(true)).count();
    if throttled > 0 {
        let text =
            format!("The GPU throttled its clocks in {throttled} of {}.", count(rows.len(), "measurement"));
        notices.push(("bad", HtmlFragment::text(text)));
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
