//! The sections about profiles, suggested changes and the cost of known pathologies.

use runlog::record::{
    Diagnosis, Inversion, InversionResult, ListedLine, METRICS, Metrics, Profile, Roofline, Unit,
};
use runlog::{Fact, ResultId, RunState, Time};

use super::super::TimeKind;
use super::super::advice::{has_pathology, suggestions};
use super::super::document::{
    Block, Line, ListKind, Piece, Section, SourceLine, Table, details, figure, figure_with_keys, heading,
    list, missing,
};
use super::super::facts::Facts;
use super::super::svg::bars::{self, Axis, Bar, Group};
use super::super::svg::roofline::{self, Point, Roofs};
use super::super::words::{count, micros, number, ratio, thousands};

/// How many suggested changes are listed.
const MAX_SUGGESTIONS: usize = 6;

/// How the time of a profile was obtained. The virtual GPU's time is modelled.
pub fn kind(profile: &Profile) -> TimeKind {
    match profile.metrics.time {
        Some(time) => TimeKind::from_time(time),
        None if profile.source.starts_with("virtual") => TimeKind::Modelled,
        None => TimeKind::Measured,
    }
}

/// The section with all profiles.
pub fn section(state: &RunState) -> Option<Section> {
    if state.profiles.is_empty() {
        return None;
    }
    let (pathological, healthy): (Vec<_>, Vec<_>) =
        state.profiles.iter().partition(|(of, _)| has_pathology(state, of));
    let mut body = rooflines(&healthy);
    body.extend(healthy.iter().flat_map(|(of, profile)| blocks(of, profile)));
    if !pathological.is_empty() {
        let all = pathological.iter().flat_map(|(of, profile)| blocks(of, profile)).collect();
        let title = format!("Profiles of kernels with a deliberate pathology: {}", pathological.len());
        body.push(details(&title, all));
    }
    Some(Section::new("profile", "Profile", body))
}

fn blocks(of: &ResultId, profile: &Profile) -> Vec<Block> {
    let kind = kind(profile);
    let title = Line::with_knobs(&of.subject)
        .with_text(format!(" on {}", of.problem))
        .with_small(&profile.source)
        .with_text(" ")
        .and(Piece::Tag(kind));
    let mut blocks = vec![Block::Heading(title)];
    blocks.extend(diagnoses(profile));
    blocks.extend(metrics(kind, &profile.metrics));
    blocks.push(match &profile.roofline {
        Some(roof) => Block::Paragraph(Line::text(format!("Under the roofline: {}.", roof.text()))),
        None => missing("Not in the roofline: the profile has no data for it."),
    });
    blocks.extend(stalls(kind, &profile.metrics));
    blocks.extend(hot_lines(profile));
    blocks.extend(annotated_source(profile));
    blocks
}

fn diagnoses(profile: &Profile) -> Vec<Block> {
    let resources = profile.metrics.resources.iter().take(4);
    let resources: Vec<String> = resources.map(|(name, percent)| format!("{name} {percent:.0}%")).collect();
    let limits = (!resources.is_empty()).then(|| {
        Block::Paragraph(Line::text(format!(
            "Share of the time that each resource alone would take, according to the model: {}.",
            resources.join(", ")
        )))
    });
    let found = if profile.diagnoses.is_empty() {
        missing("No rule found something to change in this kernel.")
    } else {
        let item = |found: &Diagnosis| {
            let line = Line::strong(&found.rule).with_text(format!(": {}", found.evidence));
            let changes: Vec<String> = found.levers.iter().map(ToString::to_string).collect();
            match changes.as_slice() {
                [] => line,
                some => line
                    .and(Piece::Break)
                    .and(Piece::Faint("suggested changes:".to_owned()))
                    .with_text(format!(" {}", some.join("; "))),
            }
        };
        list(ListKind::Ranked, profile.diagnoses.iter().map(item))
    };
    limits.into_iter().chain([found]).collect()
}

/// A table with the available metrics, and a line with the unavailable ones and the reasons.
fn metrics(kind: TimeKind, metrics: &Metrics) -> Vec<Block> {
    let mut table = Table::for_kind(kind, "Metrics of the launch", &["metric", "value"], 2);
    let mut unavailable: Vec<String> = Vec::new();
    match metrics.time {
        Some(time) => {
            let cell = Line::time(TimeKind::from_time(time), micros(time.micros()));
            table.row(vec![Line::text("time"), cell]);
        }
        None => unavailable.push("time".to_owned()),
    }
    for metric in METRICS {
        match ((metric.value)(metrics), metric.unit) {
            (Fact::Known(value), unit) => {
                let cell = match unit {
                    Unit::Percent => Line::meter(value),
                    Unit::Count => Line::text(thousands(value)),
                    Unit::Bytes => Line::text(format!("{} B", thousands(value))),
                    Unit::Ratio => Line::text(number(value)),
                };
                table.row(vec![Line::text(metric.label), cell]);
            }
            (Fact::Unavailable { reason }, _) if reason.is_empty() => {
                unavailable.push(metric.label.to_owned());
            }
            (Fact::Unavailable { reason }, _) => unavailable.push(format!("{} ({reason})", metric.label)),
        }
    }
    let table = (!table.is_empty()).then(|| table.block());
    let unavailable =
        (!unavailable.is_empty()).then(|| missing(&format!("Unavailable: {}.", unavailable.join(", "))));
    table.into_iter().chain(unavailable).collect()
}

/// A kernel with its place under the roofs.
type Placed<'s> = (&'s ResultId, &'s Roofline);

/// One roofline with all kernels for each pair of roofs: types of elements have different peaks.
fn rooflines(profiles: &[(&ResultId, &Profile)]) -> Vec<Block> {
    let mut groups: Vec<(TimeKind, Vec<Placed<'_>>)> = Vec::new();
    for (of, profile) in profiles {
        let Some(roof) = &profile.roofline else { continue };
        let kind = kind(profile);
        let same = |(other, placed): &&mut (TimeKind, Vec<Placed<'_>>)| {
            let peaks = |roof: &Roofline| (roof.peak_tflops, roof.peak_gb_per_s, roof.peaks.clone());
            *other == kind && peaks(placed[0].1) == peaks(roof)
        };
        match groups.iter_mut().find(same) {
            Some((_, placed)) => placed.push((of, roof)),
            None => groups.push((kind, vec![(of, roof)])),
        }
    }
    groups.iter().flat_map(|(kind, placed)| roofline_figure(*kind, placed)).collect()
}

fn roofline_figure(kind: TimeKind, placed: &[Placed<'_>]) -> Vec<Block> {
    let name = |of: &ResultId| format!("{} on {}", of.subject, of.problem);
    let point = |(index, (of, roof)): (usize, &Placed<'_>)| Point {
        label: (index + 1).to_string(),
        flops_per_byte: roof.flops_per_byte,
        tflops: roof.tflops,
        title: format!("{}: {}", name(of), roof.text()),
        is_faint: false,
    };
    let roof = placed[0].1;
    let roofs = Roofs { tflops: roof.peak_tflops, gb_per_s: roof.peak_gb_per_s };
    let points: Vec<Point> = placed.iter().enumerate().map(point).collect();
    let Some(picture) = roofline::draw(kind, &roofs, &points) else {
        return vec![missing("No roofline: its numbers are not positive.")];
    };
    let caption =
        format!("Roofline of {} ({}). Peaks: {}.", count(placed.len(), "kernel"), kind.word(), roof.peaks);
    let key = |(of, roof): &Placed<'_>| Line::with_knobs(name(of)).with_text(format!(": {}", roof.text()));
    let keys = placed.iter().map(key).collect();
    vec![heading("Roofline"), figure_with_keys(kind, picture, caption, keys)]
}

fn stalls(kind: TimeKind, metrics: &Metrics) -> Option<Block> {
    if metrics.stalls.is_empty() {
        return None;
    }
    let bar = |(reason, share): &(String, f64)| Bar {
        label: reason.clone(),
        value: *share,
        interval: None,
        text: format!("{share:.1}%"),
        title: format!("{reason}: {share:.1}% of the warps' time"),
        is_faint: false,
    };
    let groups = [Group { heading: String::new(), bars: metrics.stalls.iter().map(bar).collect() }];
    let picture = bars::draw(kind, "why warps waited", Axis::Amount, "%", &groups);
    let caption = format!("Why warps waited, as a share of their time ({}).", kind.word());
    Some(figure(kind, picture, caption))
}

fn hot_lines(profile: &Profile) -> Vec<Block> {
    let Some(of) = profile.hot_lines.first().map(|line| line.of.as_str()) else { return Vec::new() };
    let caption = format!("Source lines with the largest share of {of}");
    let mut table = Table::new(&caption, &["line", "share", "source"], 3);
    for line in &profile.hot_lines {
        table.row(vec![
            Line::text(format!("{}:{}", line.file, line.line)),
            Line::meter(line.share_percent),
            Line::code(line.text.trim()),
        ]);
    }
    vec![heading("Hot lines"), table.block()]
}

/// The source around the hot lines, with the share of each line in the margin.
fn annotated_source(profile: &Profile) -> Option<Block> {
    let of = profile.hot_lines.first()?.of.as_str();
    let line = |line: &ListedLine| SourceLine {
        file: line.file.clone(),
        number: line.line,
        share_percent: line.share_percent,
        text: line.text.clone(),
    };
    let lines: Vec<SourceLine> = profile.listing.iter().map(line).collect();
    let summary = format!("Annotated source, with the share of {of} of each line");
    (!lines.is_empty()).then(|| details(&summary, vec![Block::Source(lines)]))
}

/// The section with the suggested changes.
pub fn next(facts: &Facts<'_>) -> Option<Section> {
    let found = &facts.bottlenecks;
    let costly = ranked(facts.state);
    if found.is_empty() && costly.is_empty() {
        return None;
    }
    let with_reason = |line: Line, reason: String| line.and(Piece::Break).and(Piece::Faint(reason));
    let suggestions = suggestions(found, MAX_SUGGESTIONS).into_iter().map(|suggestion| {
        let (of, found) = (suggestion.because.of, suggestion.because.diagnosis);
        let reason = format!("{} on {}: {} ({})", of.subject, of.problem, found.rule, found.evidence);
        with_reason(Line::strong(suggestion.change), reason)
    });
    let keep = costly.first().map(|(inversion, _, _, cost)| {
        let line = Line::text("Keep this property: ").and(Piece::Strong(inversion.advice.clone()));
        let reason = format!(
            "without it ({}), {} on {} takes {} the time",
            inversion.pathology,
            inversion.healthy,
            inversion.problem,
            ratio(*cost)
        );
        with_reason(line, reason)
    });
    Some(Section::new("next", "What to do next", vec![list(ListKind::Ranked, suggestions.chain(keep))]))
}

/// The timed pathologies, the costliest first.
fn ranked(state: &RunState) -> Vec<(&Inversion, Time, Time, f64)> {
    let timed = state.inversions.iter().filter_map(|inversion| match &inversion.result {
        InversionResult::Timed { time, healthy, cost, .. } => Some((inversion, *time, *healthy, *cost)),
        InversionResult::Failed { .. } => None,
    });
    let mut timed: Vec<_> = timed.collect();
    timed.sort_by(|a, b| b.3.total_cmp(&a.3));
    timed
}

/// The section with the cost of every pathology.
pub fn inversion(state: &RunState) -> Option<Section> {
    if state.inversions.is_empty() {
        return None;
    }
    let ranked = ranked(state);
    let mut body = Vec::new();
    for kind in TimeKind::ALL {
        let here: Vec<_> = ranked.iter().filter(|it| TimeKind::from_time(it.1) == kind).collect();
        if here.is_empty() {
            continue;
        }
        let mut places: indexmap::IndexMap<String, (Table, Vec<Bar>)> = indexmap::IndexMap::new();
        for (inversion, time, healthy, cost) in here {
            let place = format!("{} on {}", inversion.healthy, inversion.problem);
            let caption = format!(
                "{place}, which takes {} without a pathology; {}",
                micros(healthy.micros()),
                kind.word()
            );
            let head = ["pathology", "evidence", "advice", "time", "cost"];
            let (table, bars) = places
                .entry(place.clone())
                .or_insert_with(|| (Table::for_kind(kind, &caption, &head, 3), Vec::new()));
            let evidence = match &inversion.result {
                InversionResult::Timed { evidence, .. } => evidence.as_str(),
                InversionResult::Failed { .. } => "",
            };
            table.row(vec![
                Line::text(&inversion.pathology).with_small(&inversion.setting),
                Line::text(evidence),
                Line::text(&inversion.advice),
                Line::text(micros(time.micros())).styled_as(kind),
                Line::time(kind, ratio(*cost)),
            ]);
            let (pathology, setting) = (&inversion.pathology, &inversion.setting);
            bars.push(Bar {
                label: pathology.clone(),
                value: *cost,
                interval: None,
                text: ratio(*cost),
                title: format!("{pathology} ({setting}) in {place}: {} the time", ratio(*cost)),
                is_faint: false,
            });
        }
        let (mut tables, mut groups) = (Vec::new(), Vec::new());
        for (heading, (table, bars)) in places {
            tables.push(table.block());
            groups.push(Group { heading, bars });
        }
        let picture = bars::draw(kind, "cost of pathologies", Axis::Ratio, "x", &groups);
        let caption = format!(
            "Time with each pathology, divided by the healthy kernel's time ({}). Bars start at 1x, which means no \
             cost; the axis is logarithmic.",
            kind.word()
        );
        body.push(figure(kind, picture, caption));
        body.extend(tables);
    }
    let failed = state.inversions.len() - ranked.len();
    if failed > 0 {
        body.push(missing(&format!("{failed} could not be timed; see the failures.")));
    }
    Some(Section::new("inversion", "Inversion: the cost of known pathologies", body))
}
