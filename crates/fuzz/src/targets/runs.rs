//! Run logs and leaderboards, and everything that is derived from them.

#[path = "../../../report/tests/data/sarif/validator.rs"]
mod validator;

use std::path::Path;

use lab::gate::{GateRequest, Leaderboard, judge, output, update};
use report::ci;
use report::export::EXPORTERS;
use report::headline;
use runlog::{Log, RunState, Timer, parse};
use serde_json::Value;
use validator::sarif_error;

/// A log, and the log of those of its lines that are valid on their own: most edits leave a log with one invalid
/// line, which hides the others.
pub fn run_log(input: &[u8]) {
    let path = Path::new("events.jsonl");
    let whole = parse(path, input);
    match &whole {
        Ok(log) => use_log(log),
        Err(error) => drop(error.to_string()),
    }
    let valid = valid_lines(input);
    if whole.is_err() || valid.len() < input.len() {
        let log = parse(path, &valid).expect("every line is valid on its own");
        use_log(&log);
    }
}

/// The valid lines, with new sequence numbers.
fn valid_lines(input: &[u8]) -> Vec<u8> {
    let mut valid = Vec::new();
    let mut number = 0;
    for line in input.split(|byte| *byte == b'\n') {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(line) else { continue };
        let mut numbered = |number: u64| {
            fields.insert("seq".to_owned(), number.into());
            serde_json::to_vec(&fields).map(|mut line| {
                line.push(b'\n');
                line
            })
        };
        let (Ok(first), Ok(next)) = (numbered(0), numbered(number)) else { continue };
        if parse(Path::new("events.jsonl"), &first).is_ok() {
            valid.extend(next);
            number += 1;
        }
    }
    valid
}

fn use_log(log: &Log) {
    let state = RunState::from_log(log);
    drop((state.means(), headline(&state)));
    for exporter in EXPORTERS.into_iter().filter(|exporter| exporter.concerns(&state)) {
        let mut bytes = Vec::new();
        // An exporter may refuse. Its output must be valid.
        if exporter.write(&state, &mut bytes).is_ok() {
            let text = String::from_utf8(bytes).expect("an export is UTF-8");
            match Path::new(exporter.file_name()).extension().and_then(|kind| kind.to_str()) {
                Some("html") => check_page(&text),
                Some("json") => drop(serde_json::from_str::<Value>(&text).expect("an export is JSON")),
                _ => {}
            }
        }
    }
    let timers = [Timer::GraphHot, Timer::Eager];
    for timer in timers {
        judge_run(&state, &mut Leaderboard::default(), timer);
    }
}

/// Checks that the page's main part is well-formed, so that no text of the log became markup.
fn check_page(page: &str) {
    assert!(!page.contains("<script"), "the page has a script");
    let (start, end) = (page.find("<main>").expect("<main>"), page.rfind("</main>").expect("</main>"));
    let main = &page[start..end + "</main>".len()];
    let options = roxmltree::ParsingOptions { nodes_limit: 1 << 20, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(main, options).expect("the page is well-formed");
    for node in document.descendants() {
        let name = node.tag_name().name();
        assert!(!["img", "iframe", "object", "link", "meta"].contains(&name), "the page has <{name}>");
        let handler = node.attributes().find(|attribute| attribute.name().starts_with("on"));
        assert!(handler.is_none(), "the page has an attribute {handler:?}");
    }
}

/// Judges a run, writes all outputs, and updates the leaderboard.
fn judge_run(state: &RunState, board: &mut Leaderboard, timer: Timer) {
    let asked = GateRequest { problems: vec!["b1h8s512d64-fp16".to_owned()], timer };
    let mut report = judge(state, board, &asked);
    let converted = output::ci_report(&report, "leaderboard.json", &|_| None);
    drop((output::text(&report), ci::summary(&converted)));
    for line in ci::github(&converted).lines() {
        assert!(
            line.starts_with("::error ") || line.starts_with("::warning ") || line.starts_with("::notice ")
        );
    }
    assert_eq!(sarif_error(&ci::sarif(&converted)), None);
    let json = output::json(&report).expect("a report can be written");
    serde_json::from_str::<Value>(&json).expect("a report is JSON");
    let junit = ci::junit(&converted);
    roxmltree::Document::parse(&junit).expect("the JUnit file is well-formed");
    update(&mut report, board);
    let _ = report.outcome();
}

/// A leaderboard, with which a real run is compared.
pub fn leaderboard(input: &[u8]) {
    const RUN: &[u8] = include_bytes!("../../../../corpus/fuzz/run-log/right.jsonl");
    let text = super::text(input);
    match Leaderboard::parse(Path::new("leaderboard.json"), &text) {
        Ok(mut board) => {
            let log = parse(Path::new("events.jsonl"), RUN).expect("the seed is a log");
            judge_run(&RunState::from_log(&log), &mut board, Timer::GraphHot);
        }
        Err(error) => drop(error.to_string()),
    }
}
