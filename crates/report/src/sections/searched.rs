//! The section about a search: its course, its elites and the importance of knobs.

use indexmap::IndexMap;
use runlog::inert_knobs::inert;
use runlog::{RunState, Search, TrialResult};

use super::super::TimeKind;
use super::super::document::{Block, Line, Section, Table, details, figure, heading, missing};
use super::super::facts::Facts;
use super::super::importance::{Importance, importance};
use super::super::search::Scored;
use super::super::svg::bars::{self, Axis, Bar, Group};
use super::super::svg::curve::{self, Point};
use super::super::svg::heat;
use super::super::svg::lineage as tree;
use super::super::words::{count, interval, micros, ratio, thousands};

/// How many values of a knob the heat map shows.
const MAX_HEAT_VALUES: usize = 8;

/// The section about the search.
pub fn section(facts: &Facts<'_>) -> Option<Section> {
    let state = facts.state;
    if state.search.is_none() && state.trials.is_empty() {
        return None;
    }
    let mut body = match &state.search {
        Some(search) => description(facts, search),
        None => vec![missing("The log has trials, but no description of the search.")],
    };
    for kind in TimeKind::ALL {
        if facts.scored.iter().any(|it| it.kind == kind) {
            body.extend(before_and_after(facts, kind));
            body.extend(curve(facts, kind));
            body.extend(elites(facts, kind));
            body.extend(knobs(facts, kind));
            body.extend(heat_map(facts, kind));
        }
    }
    if facts.scored.is_empty() {
        body.push(missing("No trial was timed."));
    }
    let inert = inert(state.trials.values());
    if !inert.is_empty() {
        let words: Vec<String> =
            inert.iter().map(|it| format!("{} ({})", it.knob, count(it.pairs, "pair"))).collect();
        let words = words.join(", ");
        let text = format!(
            "Knobs without effect: trials that differ only in the knob compiled to the same machine code. {words}."
        );
        body.push(Block::Paragraph(Line::text(text)));
    }
    body.extend(machines(state));
    if !state.trials.is_empty() {
        body.push(every_trial(state));
    }
    Some(Section::new("search", "Search", body))
}

/// The machines of a fleet, and what the search cost each of them.
fn machines(state: &RunState) -> Vec<Block> {
    let mut machines: IndexMap<&str, (Vec<&str>, f64, usize, usize)> = IndexMap::new();
    let mut trials: Vec<_> = state.trials.values().collect();
    trials.sort_by_key(|trial| trial.number);
    for trial in trials {
        let Some(by) = trial.done_by.as_ref().filter(|by| !by.host.is_empty()) else { continue };
        let (workers, seconds, count, failed) = machines.entry(&by.host).or_default();
        if !workers.contains(&by.worker.as_str()) {
            workers.push(&by.worker);
        }
        *seconds += by.seconds;
        *count += 1;
        *failed += usize::from(matches!(trial.result, TrialResult::Failed { .. }));
    }
    if machines.is_empty() {
        return Vec::new();
    }
    let head = ["machine", "workers", "trials", "failed", "seconds of its workers"];
    let mut table = Table::new("The machines that evaluated the trials", &head, 1);
    for (host, (workers, seconds, count, failed)) in &machines {
        let numbers = [workers.len(), *count, *failed].map(Line::text);
        let seconds = Line::text(format!("{seconds:.1}"));
        table.row([Line::code(host)].into_iter().chain(numbers).chain([seconds]).collect());
    }
    let total: f64 = machines.values().map(|(_, seconds, ..)| seconds).sum();
    let text = format!("{total:.1} s of all workers together.");
    vec![heading("Machines"), table.block(), Block::Paragraph(Line::text(text))]
}

/// A paragraph about the search, and a table of its knobs.
fn description(facts: &Facts<'_>, search: &Search) -> Vec<Block> {
    let counts = &facts.counts;
    let proposals = match facts.state.exchanges.len() {
        0 => String::new(),
        asked => format!(" The proposer was asked {}.", count(asked, "time")),
    };
    let text = format!(
        "{}, over {}: {}, {} of them valid. Strategy {}, proposer {}, seed {}. {} with a budget of {}: {} timed, {} \
         with the machine code of an earlier trial, {} failed. Speedups are over {}.{proposals}",
        search.family,
        count(search.problems.len(), "problem"),
        count_points(search.raw_points),
        thousands(search.legal_points as f64),
        search.strategy,
        search.proposer,
        search.seed,
        count(counts.all(), "trial"),
        search.budget,
        counts.timed,
        counts.same,
        counts.failed,
        search.baseline,
    );
    let mut table = Table::new("The searched knobs", &["knob", "values"], 2);
    for (knob, values) in &search.knobs {
        table.row(vec![Line::code(knob), Line::text(values.join(", "))]);
    }
    let space = (!table.is_empty()).then(|| details("Knobs and values", vec![table.block()]));
    [Block::Paragraph(Line::text(text))].into_iter().chain(space).collect()
}

fn count_points(points: u64) -> String {
    format!("{} combination{}", thousands(points as f64), if points == 1 { "" } else { "s" })
}

/// The baseline beside the winner: changed knobs, resources and times.
fn before_and_after(facts: &Facts<'_>, kind: TimeKind) -> Vec<Block> {
    let timed = |trial: &'_ runlog::Trial| match &trial.result {
        TrialResult::Timed { registers, shared_bytes, .. } => Some((*registers, *shared_bytes)),
        TrialResult::Same { .. } | TrialResult::Failed { .. } => None,
    };
    let winner = facts.elites.first().filter(|it| it.kind == kind && it.trial.number != 0);
    let (Some(winner), Some(baseline)) = (winner, facts.state.trials.get(&0)) else { return Vec::new() };
    let TrialResult::Timed { problems, .. } = &winner.trial.result else { return Vec::new() };
    let (Some(before), Some(after)) = (timed(baseline), timed(winner.trial)) else { return Vec::new() };
    let caption = format!("The baseline and the best elite, {}; {}", winner.trial.candidate, kind.word());
    let mut table = Table::for_kind(kind, &caption, &["what", "before", "after", "change"], 1);
    for (knob, value) in &winner.trial.knobs {
        let Some(old) = baseline.knobs.get(knob).filter(|old| *old != value) else { continue };
        let [old, new] = [old, value].map(Line::code);
        table.row(vec![Line::code(knob), old, new, Line::faint("-")]);
    }
    let whole = |now: f64, before: f64| match now - before {
        0.0 => Line::faint("same"),
        change if change > 0.0 => Line::text(format!("+{}", thousands(change))),
        change => Line::text(thousands(change)),
    };
    let counted = [
        ("registers", f64::from(before.0), f64::from(after.0), ""),
        ("shared memory", before.1 as f64, after.1 as f64, " B"),
    ];
    for (name, before, after, unit) in counted {
        let text = |value: f64| Line::text(format!("{}{unit}", thousands(value)));
        table.row(vec![Line::text(name), text(before), text(after), whole(after, before)]);
    }
    for time in problems {
        table.row(vec![
            Line::text(format!("time on {}", time.problem)),
            Line::text(micros(time.baseline.micros())).styled_as(kind),
            Line::text(micros(time.time.micros())).styled_as(kind),
            Line::text(format!("{} the speed", ratio(time.speedup))).styled_as(kind),
        ]);
    }
    vec![heading("Before and after"), table.block()]
}

/// The best score for each pair of values of the two most important knobs.
fn heat_map(facts: &Facts<'_>, kind: TimeKind) -> Option<Block> {
    let found = importance(&facts.scored, kind);
    let [first, second, ..] = found.as_slice() else { return None };
    // Of many values, the best are shown.
    let values = |it: &Importance<'_>| {
        let mut names: Vec<String> =
            it.values.iter().take(MAX_HEAT_VALUES).map(|value| value.name.to_owned()).collect();
        names.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a.total_cmp(&b),
            _ => a.cmp(b),
        });
        names
    };
    let (rows, columns) = (values(first), values(second));
    let cell = |row: &str, column: &str| {
        let has = |it: &&Scored<'_>| {
            let value = |knob: &str| it.trial.knobs.get(knob).map(String::as_str);
            it.kind == kind && value(first.knob) == Some(row) && value(second.knob) == Some(column)
        };
        let tried: Vec<&Scored<'_>> = facts.scored.iter().filter(has).collect();
        let best = tried.iter().max_by(|a, b| a.score.total_cmp(&b.score));
        let text = best.map_or("no timed trial".to_owned(), |best| {
            format!("best {} of {}, #{}", ratio(best.score), count(tried.len(), "trial"), best.trial.number)
        });
        let title = format!("{}={row} {}={column}: {text}", first.knob, second.knob);
        heat::Cell { score: best.map(|it| it.score), title }
    };
    let cells = rows.iter().flat_map(|row| columns.iter().map(|column| cell(row, column))).collect();
    let [row_knob, column_knob] = [first.knob, second.knob].map(str::to_owned);
    let caption = format!(
        "The best score of all trials with both values, for the two most important knobs ({}). A dash is a pair that \
         no timed trial has.",
        kind.word()
    );
    let map = heat::Map { row_knob, rows, column_knob, columns, cells };
    Some(figure(kind, heat::draw(kind, &map), caption))
}

fn curve(facts: &Facts<'_>, kind: TimeKind) -> Vec<Block> {
    let best: Vec<u32> = facts.elites.iter().map(|elite| elite.trial.number).collect();
    let mut points: Vec<Point> = facts
        .state
        .trials
        .values()
        .filter_map(|trial| {
            let found = facts.scored.iter().find(|it| it.trial.number == trial.number);
            let (score, text) = match (&trial.result, found) {
                (_, Some(it)) if it.kind != kind => return None,
                (_, Some(it)) if it.is_copy => {
                    (Some(it.score), format!("{}, same machine code as an earlier trial", ratio(it.score)))
                }
                (_, Some(it)) => (Some(it.score), ratio(it.score)),
                (TrialResult::Failed { failure, reason, .. }, None) => (None, format!("{failure}: {reason}")),
                (_, None) => return None,
            };
            Some(Point {
                number: trial.number,
                score,
                is_elite: best.contains(&trial.number),
                was_elite: matches!(trial.result, TrialResult::Timed { elite: true, .. }),
                title: format!("#{} {}: {text}", trial.number, trial.candidate),
            })
        })
        .collect();
    points.sort_by_key(|point| point.number);
    let caption = format!(
        "Speedup of every trial over the search's baseline ({}). The line is the best elite so far. Large points are the last elites, \
         crosses at the bottom are failed trials.",
        kind.word()
    );
    vec![heading("Trials"), figure(kind, curve::draw(kind, &points), caption)]
}

fn elites(facts: &Facts<'_>, kind: TimeKind) -> Vec<Block> {
    let elites: Vec<&Scored<'_>> = facts.elites.iter().filter(|elite| elite.kind == kind).collect();
    if elites.is_empty() {
        return vec![missing("No trial became an elite.")];
    }
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
    let caption = format!("Elites, sorted by the geometric mean of their speedups; {}", kind.word());
    let mut table = Table::for_kind(kind, &caption, &head, 2);
    for elite in &elites {
        let TrialResult::Timed { registers, shared_bytes, problems: times, .. } = &elite.trial.result else {
            continue;
        };
        let mut cells = vec![
            Line::with_knobs(&elite.trial.candidate),
            Line::text(format!("#{}", elite.trial.number)).with_small(&elite.trial.origin),
            Line::text(registers),
            Line::text(format!("{} B", thousands(*shared_bytes as f64))),
            Line::time(kind, ratio(elite.score)),
        ];
        for problem in &problems {
            let time = times.iter().find(|time| time.problem == *problem);
            cells.push(time.map_or(Line::faint("not timed"), |time| {
                let spread =
                    time.interval.map_or(String::new(), |(low, high)| format!("{}, ", interval(low, high)));
                Line::text(ratio(time.speedup))
                    .with_small(format!("{spread}{}", micros(time.time.micros())))
                    .styled_as(kind)
            }));
        }
        table.row(cells);
    }
    let mut blocks = vec![heading("Elites and their ancestors"), table.block()];
    let nodes = &facts.lineage;
    if nodes.len() > 1 {
        let caption =
            "Each elite (large) with its ancestors, and the knobs that changed from parent to child.";
        blocks.push(figure(kind, tree::draw(kind, nodes), caption));
    }
    blocks
}

fn knobs(facts: &Facts<'_>, kind: TimeKind) -> Vec<Block> {
    let found = importance(&facts.scored, kind);
    let title = heading("Importance of knobs");
    if found.is_empty() {
        return vec![title, missing("Too few trials were timed to rank the knobs.")];
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
        "The share of the variance of log time that each knob explains alone: the variance between its values, minus \
         the share expected by chance (epsilon squared, {}). The shares need not add up to 100%: knobs interact, and a \
         search does not try all values equally often.",
        kind.word()
    );
    let mut table = Table::for_kind(
        kind,
        "Geometric mean of the scores of all trials with a value, the best value first",
        &["knob", "values"],
        2,
    );
    for it in &found {
        let values = it.values.iter().map(|value| {
            let trials = count(value.trials, "trial");
            Line::code(value.name).with_small(format!("{}, {trials}", ratio(value.score)))
        });
        table.row(vec![Line::code(it.knob), Line::joined(values, "; ")]);
    }
    vec![title, figure(kind, picture, caption), details("Values of each knob", vec![table.block()])]
}

fn every_trial(state: &RunState) -> Block {
    let head = ["trial", "candidate", "origin", "parent", "result", "score"];
    let mut table = Table::new("Every trial, in the order of evaluation", &head, 5);
    let mut trials: Vec<_> = state.trials.values().collect();
    trials.sort_by_key(|trial| trial.number);
    for trial in &trials {
        let (result, score) = match &trial.result {
            TrialResult::Timed { score, elite, problems, .. } => {
                let kind = problems.first().map_or(TimeKind::Measured, |it| TimeKind::from_time(it.time));
                let word = if *elite { "timed, became an elite" } else { "timed" };
                (Line::text(word), Line::time(kind, ratio(*score)))
            }
            TrialResult::Same { as_trial, .. } => {
                (Line::text(format!("same machine code as #{as_trial}")), Line::faint("-"))
            }
            TrialResult::Failed { stage, failure, .. } => {
                (Line::text(format!("{failure}, {stage}")), Line::faint("-"))
            }
        };
        table.row(vec![
            Line::text(trial.number),
            Line::with_knobs(&trial.candidate),
            Line::text(&trial.origin),
            trial.parent.map_or(Line::faint("-"), |parent| Line::text(format!("#{parent}"))),
            result,
            score,
        ]);
    }
    details(&format!("Every trial: {}", trials.len()), vec![table.block()])
}
