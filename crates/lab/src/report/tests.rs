//! The page and the summary as a whole.

use std::collections::BTreeSet;

use super::*;
use crate::run::{Event, Exporter};
use crate::testing::{HOSTILE, a_full_log, a_real_log, a_search, folded, long_name};

fn html(events: &[Event]) -> String {
    text(&Html, &folded(events))
}

fn text(exporter: &dyn Exporter, state: &RunState) -> String {
    let mut out = Vec::new();
    exporter.write(state, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The page's main part, which is well-formed XML where nothing broke out of its place.
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
    let page = html(&a_full_log());
    let wanted = [
        "targets",
        "environment",
        "measured",
        "modelled",
        "correctness",
        "search",
        "profile",
        "next",
        "inversion",
        "failures",
        "notes",
        "repeat",
    ];
    assert_eq!(sections(&page), wanted);
    for id in wanted {
        assert_eq!(page.matches(&format!("<li><a href=\"#{id}\">")).count(), 1, "{id} is in the contents");
    }
}

#[test]
fn shares_of_time_are_in_per_cent_once() {
    assert!(html(&a_full_log()).contains("long scoreboard: 41.0% of the warps"));
}

#[test]
fn nothing_breaks_out_of_its_place() {
    let mut events = a_full_log();
    // Every text of the log replaced by the hostile one, where a text may be anything.
    for event in &mut events {
        if let Event::RunStarted { manifest } = event {
            manifest.gpu = crate::run::Fact::Known(HOSTILE.to_owned());
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
    let summary = text(&Markdown, &folded(&events));
    // Between fences Markdown takes everything as it is.
    let (said, command) = summary.split_once("```").unwrap();
    assert!(!said.contains("<script") && !said.contains("<img"), "{summary}");
    assert_eq!(command.matches("```").count(), 1, "{summary}");
}

#[test]
fn every_string_of_the_log_may_be_hostile() {
    // By way of the file: each string value in turn that is not a name of the schema.
    let folder = tempfile::tempdir().unwrap();
    crate::testing::write(folder.path(), &a_full_log());
    let path = folder.path().join("events.jsonl");
    let log = std::fs::read_to_string(&path).unwrap();
    let mut changed = String::new();
    for line in log.lines() {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        poison(&mut event);
        changed += &format!("{event}\n");
    }
    std::fs::write(&path, changed).unwrap();
    let state = RunState::from_log(&crate::run::read(folder.path()).unwrap());
    let page = text(&Html, &state);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    parsed(&page);
    text(&Markdown, &state);
}

/// Adds the hostile text to every string that is free text.
fn poison(value: &mut serde_json::Value) {
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
                    other => poison(other),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(poison),
        _ => {}
    }
}

#[test]
fn measured_and_modelled_never_share_a_table_or_a_picture() {
    let page = html(&a_full_log());
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
    // Every modelled picture is of that class, which the style sheet hatches.
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
    a_real_log().into_iter().filter(|event| !matches!(event, Event::Modelled { .. })).collect()
}

#[test]
fn every_table_has_rows_and_every_row_its_cells() {
    for events in [a_full_log(), a_real_log(), a_search(), Vec::new()] {
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

/// Whatever is cut off a log, the rest still gives a page.
#[test]
fn every_beginning_of_a_log_gives_a_page() {
    let events = a_full_log();
    for end in 0..=events.len() {
        let page = html(&events[..end]);
        parsed(&page);
        assert!(page.contains("<h1>"));
        assert_eq!(page.contains("This run is incomplete"), end < events.len(), "{end}");
    }
}

/// Whatever kind of event a run has none of.
#[test]
fn every_kind_of_event_may_be_missing() {
    let events = a_full_log();
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
fn numbers_that_are_none_do_not_break_pictures() {
    let mut state = folded(&a_full_log());
    for trial in state.trials.values_mut() {
        if let crate::run::TrialResult::Timed { score, .. } = &mut trial.result {
            *score = [f64::NAN, 0.0, f64::INFINITY, 1e-300][trial.number as usize % 4];
        }
    }
    for profile in state.profiles.values_mut() {
        profile.metrics.sm_busy_percent = crate::run::Fact::Known(f64::NAN);
        profile.metrics.stalls.push(("x".to_owned(), f64::INFINITY));
    }
    let page = text(&Html, &state);
    parsed(&page);
    for wrong in ["\"NaN", "\"inf", "\"-inf"] {
        assert!(!page.contains(wrong), "{wrong}");
    }
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let page = html(&a_full_log());
    for wrong in ["http:", "https:", "=\"//", "url(//", "@import", "<script", "javascript:"] {
        assert!(!page.contains(wrong), "{wrong}");
    }
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
}

#[test]
fn a_missed_target_says_what_stands_in_its_way() {
    let page = html(&a_full_log());
    let targets = &page
        [page.find("<section id=\"targets\">").unwrap()..page.find("<section id=\"environment\">").unwrap()];
    for words in
        ["missed", "latency-bound", "Most promising levers", "more stages of cp.async", "XOR swizzle"]
    {
        assert!(targets.contains(words), "{words}\n{targets}");
    }
    let without: Vec<Event> =
        a_full_log().into_iter().filter(|event| !matches!(event, Event::Profiled { .. })).collect();
    assert!(html(&without).contains("takes a profile, and this run has none"));
}

#[test]
fn the_summary_has_all_of_it_too() {
    let summary = text(&Markdown, &folded(&a_full_log()));
    for words in [
        "**wmma stage-2 runs at",
        "## Targets",
        "most promising levers: more stages of cp.async",
        "## Measured",
        "## Modelled, not measured",
        "## Search",
        "### Elites, modelled",
        "UNUSED is dead",
        "## Profile",
        "## What to do next",
        "## Inversion",
        "## Failures",
        "## How to repeat it",
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
    assert!(summary.contains(&long_name()));
}

#[test]
fn files_are_written_beside_a_run_that_has_them_open() {
    let folder = tempfile::tempdir().unwrap();
    let open = crate::run::Exports::open(folder.path()).unwrap();
    let state = folded(&a_full_log());
    let names = |paths: &[PathBuf]| -> Vec<String> {
        paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    let all =
        ["bench.json", "bench.csv", "tune_log.csv", "topk.json", "profile.json", "summary.md", "report.html"];
    assert_eq!(names(&write(folder.path(), &state).unwrap()), all);
    assert_eq!(names(&open.write(&state).unwrap()), all);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), all.len(), "no partial files are left");
}
