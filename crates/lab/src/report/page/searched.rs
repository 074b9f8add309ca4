//! The search: how it went, what it kept, and which knobs mattered.

use super::super::Kind;
use super::super::html::{HtmlFragment, Table, details, figure, heading, missing, paragraph};
use super::super::importance::{Importance, importance};
use super::super::search::{Scored, elites, lineage, scored, tally};
use super::super::svg::bars::{self, Axis, Bar, Group};
use super::super::svg::curve::{self, Point};
use super::super::svg::lineage as tree;
use super::super::words::{count, interval, micros, ratio, thousands};
use super::Section;
use crate::evolve::knobs::dead;
use crate::run::{RunState, Search, TrialResult};

pub fn section(state: &RunState) -> Option<Section> {
    if state.search.is_none() && state.trials.is_empty() {
        return None;
    }
    let mut body = match &state.search {
        Some(search) => what(state, search),
        None => missing("What was searched is not in the log: only its trials are."),
    };
    let scored = scored(state);
    for kind in Kind::ALL {
        if scored.iter().any(|it| it.kind == kind) {
            body += &curve(state, &scored, kind);
            body += &kept(state, kind);
            body += &knobs(state, kind);
        }
    }
    if scored.is_empty() {
        body += &missing("No trial was timed.");
    }
    let dead = dead(state.trials.values());
    if !dead.is_empty() {
        let words: Vec<String> =
            dead.iter().map(|it| format!("{} ({})", it.knob, count(it.pairs, "pair"))).collect();
        let words = words.join(", ");
        let text = format!(
            "Dead knobs: two trials that differ in nothing else compiled to the same machine code: {words}."
        );
        body += &paragraph(&HtmlFragment::text(text));
    }
    if !state.trials.is_empty() {
        body += &every_trial(state);
    }
    Some(Section::new("search", "Search", body))
}

fn what(state: &RunState, search: &Search) -> String {
    let tally = tally(state);
    let proposals = match state.exchanges.len() {
        0 => String::new(),
        asked => format!(" The proposer was asked {}.", count(asked, "time")),
    };
    let text = format!(
        "{}, over {}: {} of which {} are allowed. Strategy {}, proposer {}, seed {}. {} of a budget of {}: {} timed, {} \
         the same machine code as an earlier one, {} failed. 1x is the speed of {}.{proposals}",
        search.family,
        count(search.problems.len(), "problem"),
        count_points(search.raw_points),
        thousands(search.legal_points as f64),
        search.strategy,
        search.proposer,
        search.seed,
        count(tally.all(), "trial"),
        search.budget,
        tally.timed,
        tally.same,
        tally.failed,
        search.baseline,
    );
    let mut table = Table::new("The knobs that were searched", &["knob", "values"], 2);
    for (knob, values) in &search.knobs {
        table.row(vec![HtmlFragment::code(knob), HtmlFragment::text(values.join(", "))]);
    }
    let space =
        if search.knobs.is_empty() { String::new() } else { details("Knobs and values", &table.html()) };
    paragraph(&HtmlFragment::text(text)) + &space
}

fn count_points(points: u64) -> String {
    format!("{} combination{}", thousands(points as f64), if points == 1 { "" } else { "s" })
}

fn curve(state: &RunState, scored: &[Scored<'_>], kind: Kind) -> String {
    let best: Vec<u32> = elites(state).iter().map(|elite| elite.trial.number).collect();
    let mut points: Vec<Point> = state
        .trials
        .values()
        .filter_map(|trial| {
            let found = scored.iter().find(|it| it.trial.number == trial.number);
            let (score, end) = match (&trial.result, found) {
                (_, Some(it)) if it.kind != kind => return None,
                (_, Some(it)) if it.is_copy => {
                    (Some(it.score), format!("{}, same machine code as an earlier one", ratio(it.score)))
                }
                (_, Some(it)) => (Some(it.score), ratio(it.score)),
                (TrialResult::Failed { failure, reason, .. }, None) => (None, format!("{failure}: {reason}")),
                (_, None) => return None,
            };
            Some(Point {
                number: trial.number,
                score,
                is_elite: best.contains(&trial.number),
                title: format!("#{} {}: {end}", trial.number, trial.candidate),
            })
        })
        .collect();
    points.sort_by_key(|point| point.number);
    let caption = format!(
        "Speedup of every trial over the search's baseline ({}); the line is the best so far. Large points are the elites, \
         crosses at the floor failed.",
        kind.word()
    );
    heading("How it went") + &figure(Some(kind), &curve::draw(kind, &points), &HtmlFragment::text(caption))
}

fn kept(state: &RunState, kind: Kind) -> String {
    let elites: Vec<Scored<'_>> = elites(state).into_iter().filter(|elite| elite.kind == kind).collect();
    if elites.is_empty() {
        return missing("No trial joined the elites.");
    }
    let mut html = heading("Elites and where they came from");
    let mut problems: Vec<&str> = Vec::new();
    for elite in &elites {
        if let TrialResult::Timed { problems: times, .. } = &elite.trial.result {
            for time in times {
                if !problems.contains(&time.problem.as_str()) {
                    problems.push(&time.problem);
                }
            }
        }
    }
    let head: Vec<&str> = ["elite", "trial", "registers", "shared memory", "score"]
        .into_iter()
        .chain(problems.iter().copied())
        .collect();
    let caption = format!("Elites by geometric mean of their speedups; {}", kind.word());
    let mut table = Table::for_kind(kind, &caption, &head, 2);
    for elite in &elites {
        let TrialResult::Timed { registers, shared_bytes, problems: times, .. } = &elite.trial.result else {
            continue;
        };
        let mut cells = vec![
            HtmlFragment::text(&elite.trial.candidate),
            HtmlFragment::text(format!("#{}", elite.trial.number)).with(&elite.trial.origin),
            HtmlFragment::text(registers),
            HtmlFragment::text(format!("{} B", thousands(*shared_bytes as f64))),
            HtmlFragment::time(kind, ratio(elite.score)),
        ];
        for problem in &problems {
            let time = times.iter().find(|time| time.problem == *problem);
            cells.push(time.map_or(HtmlFragment::faint("not timed"), |time| {
                let spread =
                    time.interval.map_or(String::new(), |(low, high)| format!("{}, ", interval(low, high)));
                HtmlFragment::text(ratio(time.speedup))
                    .with(format!("{spread}{}", micros(time.time.micros())))
                    .of(kind)
            }));
        }
        table.row(cells);
    }
    html += &table.html();
    let nodes = lineage(state);
    if nodes.len() > 1 {
        let caption =
            "Each elite (large) with the trials it came from, and what was changed from parent to child.";
        html += &figure(Some(kind), &tree::draw(kind, &nodes), &HtmlFragment::text(caption));
    }
    html
}

fn knobs(state: &RunState, kind: Kind) -> String {
    let found = importance(state, kind);
    let title = heading("Which knobs mattered");
    if found.is_empty() {
        return title + &missing("Too few trials were timed to tell knobs apart.");
    }
    let bar = |it: &Importance<'_>| Bar {
        label: it.knob.to_owned(),
        value: 100.0 * it.share,
        interval: None,
        text: format!("{:.0}%", 100.0 * it.share),
        title: format!("{}: {:.1}% of the variance of log time", it.knob, 100.0 * it.share),
        is_faint: it.share == 0.0,
    };
    let groups = [Group { heading: String::new(), bars: found.iter().map(bar).collect() }];
    let picture = bars::draw(kind, "importance of knobs", Axis::Amount, "%", &groups);
    let caption = format!(
        "How much of the variance of log time each knob explains alone: the part that lies between its values, less \
         what chance would give (epsilon squared, {}). Shares need not add up to 100%: knobs act together, and a search \
         does not try them evenly.",
        kind.word()
    );
    let mut table = Table::for_kind(
        kind,
        "Geometric mean of the scores of all trials with a value, the best value first",
        &["knob", "values"],
        2,
    );
    for it in &found {
        let values: Vec<String> = it
            .values
            .iter()
            .map(|value| {
                let trials = count(value.trials, "trial");
                format!(
                    "{}",
                    HtmlFragment::code(value.name).with(format!("{}, {trials}", ratio(value.score)))
                )
            })
            .collect();
        table.row(vec![HtmlFragment::code(it.knob), HtmlFragment::html(values.join("; "))]);
    }
    title
        + &figure(Some(kind), &picture, &HtmlFragment::text(caption))
        + &details("Values of each knob", &table.html())
}

fn every_trial(state: &RunState) -> String {
    let head = ["trial", "candidate", "made by", "from", "result", "score"];
    let mut table = Table::new("Every trial, in the order of evaluation", &head, 5);
    let mut trials: Vec<_> = state.trials.values().collect();
    trials.sort_by_key(|trial| trial.number);
    for trial in &trials {
        let (result, score) = match &trial.result {
            TrialResult::Timed { score, elite, problems, .. } => {
                let kind = problems.first().map_or(Kind::Measured, |it| Kind::from_time(it.time));
                let word = if *elite { "timed, joined the elites" } else { "timed" };
                (HtmlFragment::text(word), HtmlFragment::time(kind, ratio(*score)))
            }
            TrialResult::Same { as_trial, .. } => {
                (HtmlFragment::text(format!("same machine code as #{as_trial}")), HtmlFragment::faint("-"))
            }
            TrialResult::Failed { stage, failure, .. } => {
                (HtmlFragment::text(format!("{failure}, {stage}")), HtmlFragment::faint("-"))
            }
        };
        table.row(vec![
            HtmlFragment::text(trial.number),
            HtmlFragment::text(&trial.candidate),
            HtmlFragment::text(&trial.origin),
            trial.parent.map_or(HtmlFragment::faint("-"), |parent| HtmlFragment::text(format!("#{parent}"))),
            result,
            score,
        ]);
    }
    details(&format!("Every trial: {}", trials.len()), &table.html())
}
