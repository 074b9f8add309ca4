//! Tests of the whole page and the whole summary.

use std::collections::BTreeSet;

use runlog::testing::{HOSTILE, bench_log, full_log, long_name, search_log, state_from};
use runlog::{Event, RunState};

use super::*;
use crate::export::Exporter;

fn html(events: &[Event]) -> String {
    text(&Html, &state_from(events))
}

fn text(exporter: &dyn Exporter, state: &RunState) -> String {
    let mut out = Vec::new();
    exporter.write(state, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The page's main part, parsed as XML. Text that is not escaped correctly makes this fail.
fn parsed(page: &str) -> roxmltree::Document<'_> {
    let (start, end) = (page.find("<main>").unwrap(), page.find("</main>").unwrap());
    roxmltree::Document::parse(&page[start..end + "</main>".len()]).unwrap()
}

fn sections(page: &str) -> Vec<String> {
    let document = parsed(page);
    let sections = document.descendants().filter(|node| node.has_tag_name("section"));
    sections.filter_map(|node| node.attribute("id")).map(str::to_owned).collect()
}

#[test]
fn a_full_run_has_every_section() {
    let page = html(&full_log());
    let wanted = [
        "measured",
        "modelled",
        "targets",
        "search",
        "profile",
        "next",
        "inversion",
        "correctness",
        "failures",
        "environment",
        "notes",
        "repeat",
    ];
    assert_eq!(sections(&page), wanted);
    for id in wanted {
        assert_eq!(page.matches(&format!("<li><a href=\"#{id}\">")).count(), 1, "{id} is in the contents");
    }
}

#[test]
fn stall_shares_are_not_converted_to_per_cent_twice() {
    assert!(html(&full_log()).contains("long scoreboard: 41.0% of the warps"));
}

#[test]
fn hostile_text_is_escaped_in_page_and_summary() {
    let mut events = full_log();
    // The free texts of the manifest are replaced by a hostile one.
    for event in &mut events {
        if let Event::RunStarted { manifest } = event {
            manifest.gpu = runlog::Fact::Known(HOSTILE.to_owned());
            manifest.command = HOSTILE.to_owned();
            manifest.command_line = vec![HOSTILE.to_owned(), "--set".to_owned(), HOSTILE.to_owned()];
        }
    }
    let page = html(&events);
    for tag in ["<script", "<img", "onerror=alert(1)>"] {
        assert!(!page.contains(tag), "{tag}");
    }
    assert_eq!(page.matches("</style>").count(), 1);
    parsed(&page);
    let summary = text(&Markdown, &state_from(&events));
    // Markdown does not interpret text between fences.
    let mut fence = None;
    for line in summary.lines() {
        match fence {
            None if line.starts_with("```") => fence = Some(line),
            None => assert!(!line.contains("<script") && !line.contains("<img"), "{line}"),
            Some(open) if line == open => fence = None,
            Some(_) => {}
        }
    }
    assert_eq!(fence, None, "{summary}");
}

#[test]
fn a_log_full_of_hostile_strings_gives_a_valid_page() {
    // The log file is changed: every free text gets the hostile string.
    let folder = tempfile::tempdir().unwrap();
    runlog::testing::write(folder.path(), &full_log());
    let path = folder.path().join("events.jsonl");
    let log = std::fs::read_to_string(&path).unwrap();
    let mut changed = String::new();
    for line in log.lines() {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        add_hostile_text(&mut event);
        changed += &format!("{event}\n");
    }
    std::fs::write(&path, changed).unwrap();
    let state = RunState::from_log(&runlog::read(folder.path()).unwrap());
    let page = text(&Html, &state);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    parsed(&page);
    text(&Markdown, &state);
}

/// Appends the hostile string to every free text.
fn add_hostile_text(value: &mut serde_json::Value) {
    const FREE: [&str; 24] = [
        "problem",
        "subject",
        "build",
        "candidate",
        "baseline",
        "reason",
        "evidence",
        "target",
        "text",
        "message",
        "gpu",
        "driver",
        "family",
        "strategy",
        "proposer",
        "origin",
        "pathology",
        "setting",
        "advice",
        "healthy",
        "rule",
        "source",
        "peaks",
        "file",
    ];
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    serde_json::Value::String(text) if FREE.contains(&name.as_str()) => {
                        text.push_str(HOSTILE);
                    }
                    other => add_hostile_text(other),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(add_hostile_text),
        _ => {}
    }
}

#[test]
fn measured_and_modelled_times_never_share_a_table_or_a_figure() {
    let page = html(&full_log());
    let document = parsed(&page);
    let boxes = document.descendants().filter(|node| {
        let class = node.attribute("class").unwrap_or("");
        (node.has_tag_name("figure") || class.starts_with("box")) && class.contains("measured")
    });
    let mut count = 0;
    for found in boxes {
        count += 1;
        let inner = found.descendants().filter_map(|node| node.attribute("class"));
        let classes: BTreeSet<&str> = inner.flat_map(str::split_whitespace).collect();
        assert!(!classes.contains("modelled"), "{classes:?}");
    }
    assert!(count >= 3, "{count}");
    // Every picture has the class of its figure, which the style sheet uses for hatching.
    for figure in document.descendants().filter(|node| node.has_tag_name("figure")) {
        let class = figure.attribute("class").unwrap();
        for svg in figure.descendants().filter(|node| node.has_tag_name("svg")) {
            assert!(svg.attribute("class").unwrap().ends_with(class), "{class}");
        }
    }
    assert!(page.contains("class=\"notice modelled\""));
    assert!(!html(&only_measured()).contains("class=\"notice modelled\""));
}

fn only_measured() -> Vec<Event> {
    bench_log().into_iter().filter(|event| !matches!(event, Event::Modelled { .. })).collect()
}

#[test]
fn every_table_has_rows_of_equal_length() {
    for events in [full_log(), bench_log(), search_log(), Vec::new()] {
        let page = html(&events);
        for table in parsed(&page).descendants().filter(|node| node.has_tag_name("table")) {
            let cells =
                |row: roxmltree::Node<'_, '_>| row.children().filter(roxmltree::Node::is_element).count();
            let rows: Vec<usize> =
                table.descendants().filter(|node| node.has_tag_name("tr")).map(cells).collect();
            assert!(rows.len() > 1, "an empty table");
            assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
        }
    }
}

#[test]
fn every_prefix_of_a_log_gives_a_page() {
    let events = full_log();
    for end in 0..=events.len() {
        let page = html(&events[..end]);
        parsed(&page);
        assert!(page.contains("<h1>"));
        assert_eq!(page.contains("This run is incomplete"), end < events.len(), "{end}");
    }
}

#[test]
fn a_log_without_any_one_kind_of_event_gives_a_page() {
    let events = full_log();
    let kinds: BTreeSet<String> = events.iter().map(kind).collect();
    for left_out in &kinds {
        let rest: Vec<Event> = events.iter().filter(|event| kind(event) != *left_out).cloned().collect();
        parsed(&html(&rest));
        let only: Vec<Event> = events.iter().filter(|event| kind(event) == *left_out).cloned().collect();
        parsed(&html(&only));
    }
}

fn kind(event: &Event) -> String {
    serde_json::to_value(event).unwrap()["kind"].as_str().unwrap().to_owned()
}

#[test]
fn invalid_numbers_do_not_break_figures() {
    let mut state = state_from(&full_log());
    for trial in state.trials.values_mut() {
        if let runlog::TrialResult::Timed { score, .. } = &mut trial.result {
            *score = [f64::NAN, 0.0, f64::INFINITY, 1e-300][trial.number as usize % 4];
        }
    }
    for profile in state.profiles.values_mut() {
        profile.metrics.sm_busy_percent = runlog::Fact::Known(f64::NAN);
        profile.metrics.stalls.push(("x".to_owned(), f64::INFINITY));
    }
    let page = text(&Html, &state);
    parsed(&page);
    for invalid in ["\"NaN", "\"inf", "\"-inf"] {
        assert!(!page.contains(invalid), "{invalid}");
    }
}

#[test]
fn a_page_loads_nothing_and_runs_no_script() {
    let page = html(&full_log());
    for forbidden in ["http:", "https:", "=\"//", "url(//", "@import", "<script", "javascript:"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
}

#[test]
fn a_missed_target_lists_bottlenecks_and_changes() {
    let page = html(&full_log());
    let targets = &page
        [page.find("<section id=\"targets\">").unwrap()..page.find("<section id=\"environment\">").unwrap()];
    for words in
        ["missed", "latency-bound", "Most promising changes", "more stages of cp.async", "XOR swizzle"]
    {
        assert!(targets.contains(words), "{words}\n{targets}");
    }
    let without: Vec<Event> =
        full_log().into_iter().filter(|event| !matches!(event, Event::Profiled { .. })).collect();
    assert!(html(&without).contains("This run has no profile"));
}

#[test]
fn the_summary_has_every_section() {
    let summary = text(&Markdown, &state_from(&full_log()));
    for words in [
        "x the speed of pytorch flash (95% interval",
        "## Targets",
        "### Most promising changes",
        "1. more stages of cp.async",
        "## Measured",
        "## Modelled, not measured",
        "## Search",
        "Elites, sorted by the geometric mean of their speedups; modelled:",
        "compiled to the same machine code. UNUSED (",
        "## Profile",
        "## What to do next",
        "## Inversion",
        "## Failures",
        "## How to repeat this run",
    ] {
        assert!(summary.contains(words), "{words}\n{summary}");
    }
    let mut columns = None;
    for line in summary.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let cells = line.replace("\\|", "").matches('|').count();
        assert_eq!(*columns.get_or_insert(cells), cells, "{line}");
    }
    assert!(summary.replace('`', "").contains(&long_name()));
}

#[test]
fn the_summary_has_the_sections_of_the_page_without_pictures() {
    let (page, summary) = (html(&full_log()), text(&Markdown, &state_from(&full_log())));
    let titles: Vec<&str> = summary.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let document = parsed(&page);
    let headings = document.descendants().filter(|node| node.has_tag_name("h2"));
    let of_page: Vec<&str> =
        headings.filter_map(|node| node.descendants().find_map(|it| it.text())).collect();
    assert_eq!(titles, of_page);
    assert!(!summary.contains("<svg") && page.contains("<h3>Trials</h3>") && !summary.contains("### Trials"));
    assert!(summary.contains("31.50 us (modelled)"), "{summary}");
}

#[test]
fn a_search_shows_before_and_after_and_a_heat_map() {
    let page = html(&search_log());
    let main = &page[page.find("Before and after").unwrap()..];
    // The winner of the log has STAGES=3 and BLOCK_N=48; the baseline 2 and 32.
    for words in ["<code>48</code>", "1.36x the speed", "heat heat-4", "<h3>Importance of knobs"] {
        assert!(main.contains(words), "{words}");
    }
    // A narrow page needs the name of the column in every cell.
    assert!(page.contains(" data-label=\"before\""));
    assert!(page.contains("<span class=\"lead modelled\">1.36x</span> the speed of"));
}

#[test]
fn a_profile_has_one_roofline_and_annotated_source() {
    let mut events = full_log();
    let second = events.iter().find_map(|event| match event {
        Event::Profiled { of, profile } => {
            let of = runlog::ResultId { subject: "mma STAGES=4".to_owned(), ..of.clone() };
            Some(Event::Profiled { of, profile: profile.clone() })
        }
        _ => None,
    });
    events.insert(events.len() - 1, second.unwrap());
    let page = html(&events);
    assert_eq!(page.matches("Roofline of 2 kernels (modelled)").count(), 1);
    assert_eq!(page.matches("<pre class=\"listing\"").count(), 2);
    for words in ["<code>STAGES=4</code>", "<i> 38.5%</i><i>  181</i> ", "class=\"line hot-3\"", "\u{22ee}"] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn times_over_sizes_need_three_sizes() {
    let modelled = |index: u32| {
        let modelled = serde_json::json!({
            "gpu": "l4", "time_us": f64::from(index + 3), "limiter": null,
            "work": { "flops": 1e6 * f64::from(1 << index), "bytes": 1000 },
        });
        let of = runlog::ResultId::new(format!("n{index}"), "scale", "1");
        Event::Modelled { of, modelled: serde_json::from_value(modelled).unwrap() }
    };
    let with = |number: u32| html(&(0..number).map(modelled).collect::<Vec<_>>());
    assert!(with(3).contains("Time against problem size") && with(3).contains("over MFLOP of the problem"));
    assert!(!with(2).contains("Time against problem size"));
}

#[test]
fn what_is_not_supported_is_no_failure() {
    let mut events = search_log();
    let refused = |number: u32| Event::CandidateFailed {
        of: runlog::ResultId::new("p", format!("k{number}"), ""),
        stage: runlog::Stage::Build,
        failure: runlog::FailureKind::Refused,
        reason: "needs sm_90a".to_owned(),
    };
    let failed = |events: &[Event]| {
        let page = html(events);
        page[page.find("<dt>failures</dt>").unwrap()..].chars().take(80).collect::<String>()
    };
    let before = failed(&events);
    let end = events.pop().unwrap();
    events.extend((0..56).map(refused));
    events.push(end);
    // The number stays; only what was left out grows.
    let number = |text: &str| text.split("<dd>").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(number(&failed(&events)), number(&before));
    assert!(html(&events).contains("Left out: 56") || html(&events).contains("Left out: 57"));
    assert!(text(&Markdown, &state_from(&events)).contains("k0 on p; k1 on p; k2 on p; and 53 more"));
}
