//! The sections about profiles, suggested changes and the cost of known pathologies.

use runlog::record::{Inversion, InversionResult, METRICS, Metrics, Profile, Roofline, Unit};
use runlog::{Fact, ResultId, RunState, Time};

use super::super::TimeKind;
use super::super::advice::{has_pathology, suggestions};
use super::super::facts::Facts;
use super::super::html::{
    HtmlFragment, Table, details, each, escape, figure, heading, missing, paragraph, tag,
};
use super::super::svg::bars::{self, Axis, Bar, Group};
use super::super::svg::roofline::{self, Point, Roofs};
use super::super::words::{count, micros, number, ratio, thousands};
use super::Section;

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
    body += &healthy.iter().map(|(of, profile)| profile_html(of, profile)).collect::<String>();
    if !pathological.is_empty() {
        let pages: String = pathological.iter().map(|(of, profile)| profile_html(of, profile)).collect();
        let title = format!("Profiles of kernels with a deliberate pathology: {}", pathological.len());
        body += &details(&title, &pages);
    }
    Some(Section::new("profile", "Profile", body))
}

fn profile_html(of: &ResultId, profile: &Profile) -> String {
    let kind = kind(profile);
    let mut html = format!(
        "<h3>{} on {} <small>{}</small> {}</h3>\n",
        HtmlFragment::with_knobs(&of.subject),
        escape(&of.problem),
        escape(&profile.source),
        tag(kind)
    );
    html += &diagnoses(profile);
    html += &metrics(kind, &profile.metrics);
    html += &match &profile.roofline {
        Some(roof) => paragraph(&HtmlFragment::text(format!("Under the roofline: {}.", roof.text()))),
        None => missing("Not in the roofline: the profile has no data for it."),
    };
    html += &stalls(kind, &profile.metrics);
    html += &hot_lines(profile);
    html += &annotated_source(profile);
    html
}

fn diagnoses(profile: &Profile) -> String {
    let resources = profile.metrics.resources.iter().take(4);
    let resources: Vec<String> = resources.map(|(name, percent)| format!("{name} {percent:.0}%")).collect();
    let limits = match resources.as_slice() {
        [] => String::new(),
        some => paragraph(&HtmlFragment::text(format!(
            "Share of the time that each resource alone would take, according to the model: {}.",
            some.join(", ")
        ))),
    };
    if profile.diagnoses.is_empty() {
        return limits + &missing("No rule found something to change in this kernel.");
    }
    let items = each(&profile.diagnoses, |found| {
        let changes: Vec<String> = found.levers.iter().map(|lever| escape(&lever.to_string())).collect();
        let changes = match changes.as_slice() {
            [] => String::new(),
            some => format!("<br/><span class=\"faint\">suggested changes:</span> {}", some.join("; ")),
        };
        format!("<li><strong>{}</strong>: {}{changes}</li>\n", escape(&found.rule), escape(&found.evidence))
    });
    format!("{limits}<ol class=\"found\">\n{items}</ol>\n")
}

/// A table with the available metrics, and a line with the unavailable ones and the reasons.
fn metrics(kind: TimeKind, metrics: &Metrics) -> String {
    let mut table = Table::for_kind(kind, "Metrics of the launch", &["metric", "value"], 2);
    let mut unavailable: Vec<String> = Vec::new();
    match metrics.time {
        Some(time) => {
            let cell = HtmlFragment::time(TimeKind::from_time(time), micros(time.micros()));
            table.row(vec![HtmlFragment::text("time"), cell]);
        }
        None => unavailable.push("time".to_owned()),
    }
    for metric in METRICS {
        match ((metric.value)(metrics), metric.unit) {
            (Fact::Known(value), unit) => {
                let cell = match unit {
                    Unit::Percent => HtmlFragment::meter(value),
                    Unit::Count => HtmlFragment::text(thousands(value)),
                    Unit::Bytes => HtmlFragment::text(format!("{} B", thousands(value))),
                    Unit::Ratio => HtmlFragment::text(number(value)),
                };
                table.row(vec![HtmlFragment::text(metric.label), cell]);
            }
            (Fact::Unavailable { reason }, _) if reason.is_empty() => {
                unavailable.push(metric.label.to_owned());
            }
            (Fact::Unavailable { reason }, _) => unavailable.push(format!("{} ({reason})", metric.label)),
        }
    }
    let unavailable = if unavailable.is_empty() {
        String::new()
    } else {
        missing(&format!("Unavailable: {}.", unavailable.join(", ")))
    };
    if table.is_empty() { unavailable } else { table.html() + &unavailable }
}

/// A kernel with its place under the roofs.
type Placed<'s> = (&'s ResultId, &'s Roofline);

/// One roofline with all kernels for each pair of roofs: types of elements have different peaks.
fn rooflines(profiles: &[(&ResultId, &Profile)]) -> String {
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
    groups.iter().map(|(kind, placed)| roofline_figure(*kind, placed)).collect()
}

fn roofline_figure(kind: TimeKind, placed: &[Placed<'_>]) -> String {
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
        return missing("No roofline: its numbers are not positive.");
    };
    let caption =
        format!("Roofline of {} ({}). Peaks: {}.", count(placed.len(), "kernel"), kind.word(), roof.peaks);
    let items = each(placed, |(of, roof)| {
        format!("<li>{}: {}</li>", HtmlFragment::with_knobs(name(of)), escape(&roof.text()))
    });
    let caption = format!("{}<ol class=\"keys\">{items}</ol>", HtmlFragment::text(caption));
    heading("Roofline") + &figure(Some(kind), &picture, &HtmlFragment::html(caption))
}

fn stalls(kind: TimeKind, metrics: &Metrics) -> String {
    if metrics.stalls.is_empty() {
        return String::new();
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
    figure(Some(kind), &picture, &HtmlFragment::text(caption))
}

fn hot_lines(profile: &Profile) -> String {
    let Some(of) = profile.hot_lines.first().map(|line| line.of.as_str()) else { return String::new() };
    let caption = format!("Source lines with the largest share of {of}");
    let mut table = Table::new(&caption, &["line", "share", "source"], 3);
    for line in &profile.hot_lines {
        table.row(vec![
            HtmlFragment::text(format!("{}:{}", line.file, line.line)),
            HtmlFragment::meter(line.share_percent),
            HtmlFragment::code(line.text.trim()),
        ]);
    }
    heading("Hot lines") + &table.html()
}

/// The source around the hot lines, with the share of each line in the margin.
fn annotated_source(profile: &Profile) -> String {
    let Some(of) = profile.hot_lines.first().map(|line| line.of.as_str()) else { return String::new() };
    let mut html = String::new();
    let mut before: Option<(&str, u32)> = None;
    for line in &profile.listing {
        let file = line.file.as_str();
        match before {
            Some((known, number)) if known == file && number + 1 == line.line => {}
            Some((known, _)) if known == file => html += "<i class=\"gap\">\u{22ee}</i>",
            _ => html += &format!("<b>{}</b>", escape(file)),
        }
        before = Some((file, line.line));
        let share = match line.share_percent {
            Some(share) => format!("{share:.1}%"),
            None => String::new(),
        };
        let step = match line.share_percent.unwrap_or(0.0) {
            40.0.. => 4,
            15.0.. => 3,
            5.0.. => 2,
            1.0.. => 1,
            _ => 0,
        };
        html += &format!(
            "<span class=\"line hot-{step}\"><i>{share:>6}</i><i>{:>5}</i> {}</span>",
            line.line,
            escape(&line.text)
        );
    }
    if html.is_empty() {
        return String::new();
    }
    let summary = format!("Annotated source, with the share of {of} of each line");
    details(&summary, &format!("<pre class=\"listing\" tabindex=\"0\">{html}</pre>\n"))
}

/// The section with the suggested changes.
pub fn next(facts: &Facts<'_>) -> Option<Section> {
    let found = &facts.bottlenecks;
    let costly = ranked(facts.state);
    if found.is_empty() && costly.is_empty() {
        return None;
    }
    let mut items = each(suggestions(found, MAX_SUGGESTIONS), |suggestion| {
        let because = suggestion.because;
        format!(
            "<li><strong>{}</strong><br/><span class=\"faint\">{} on {}: {} ({})</span></li>\n",
            escape(&suggestion.change.to_string()),
            escape(&because.of.subject),
            escape(&because.of.problem),
            escape(&because.diagnosis.rule),
            escape(&because.diagnosis.evidence)
        )
    });
    if let Some((inversion, _, _, cost)) = costly.first() {
        items += &format!(
            "<li>Keep this property: <strong>{}</strong><br/><span class=\"faint\">without it ({}), {} on {} takes {} \
             the time</span></li>\n",
            escape(&inversion.advice),
            escape(&inversion.pathology),
            escape(&inversion.healthy),
            escape(&inversion.problem),
            ratio(*cost)
        );
    }
    Some(Section::new("next", "What to do next", format!("<ol class=\"found\">\n{items}</ol>\n")))
}

/// The timed pathologies, the costliest first.
pub fn ranked(state: &RunState) -> Vec<(&Inversion, Time, Time, f64)> {
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
    let mut body = String::new();
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
                HtmlFragment::text(&inversion.pathology).with_small(&inversion.setting),
                HtmlFragment::text(evidence),
                HtmlFragment::text(&inversion.advice),
                HtmlFragment::text(micros(time.micros())).styled_as(kind),
                HtmlFragment::time(kind, ratio(*cost)),
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
        let (mut tables, mut groups) = (String::new(), Vec::new());
        for (heading, (table, bars)) in places {
            tables += &table.html();
            groups.push(Group { heading, bars });
        }
        let picture = bars::draw(kind, "cost of pathologies", Axis::Ratio, "x", &groups);
        let caption = format!(
            "Time with each pathology, divided by the healthy kernel's time ({}). Bars start at 1x, which means no \
             cost; the axis is logarithmic.",
            kind.word()
        );
        body += &figure(Some(kind), &picture, &HtmlFragment::text(caption));
        body += &tables;
    }
    let failed = state.inversions.len() - ranked.len();
    if failed > 0 {
        body += &missing(&format!("{failed} could not be timed; see the failures."));
    }
    Some(Section::new("inversion", "Inversion: the cost of known pathologies", body))
}
