//! Tests of `report`: the files that it writes, and the page in a real browser.
//!
//! The browser is a headless Chromium: `WARPSMITH_CHROMIUM`, or one in `PATH`. Without one the test prints a message
//! and is skipped. Screenshots stay in `report-page/` of cargo's folder for test files.

use std::fs;
use std::path::Path;
use std::process::Command;

use runlog::testing::{bench_log, full_log, search_log, write};
use serde_json::Value;

use crate::browser::{self, Browser};
use crate::common::{Run, run, skipped, target_tmp};

/// Runs `report`. It needs no compiler, so the environment of the other tests is not set up.
fn report(folder: &Path, arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsmith"));
    run(command.arg("report").args(arguments).current_dir(folder).env("NO_COLOR", "1"))
}

#[test]
fn the_latest_run_is_reported_unless_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (name, events) in [("one", full_log()), ("two", search_log())] {
        let run = folder.path().join("warpsmith-runs").join(name);
        fs::create_dir_all(&run).unwrap();
        write(&run, &events);
    }
    let named = report(folder.path(), &["warpsmith-runs/one"]);
    assert_eq!(named.code, 0, "{named}");
    let files =
        ["bench.json", "bench.csv", "tune_log.csv", "topk.json", "profile.json", "summary.md", "report.html"];
    let paths: Vec<String> = files.iter().map(|file| format!("warpsmith-runs/one/{file}")).collect();
    assert_eq!(named.stdout.lines().collect::<Vec<_>>(), paths, "{named}");
    assert!(paths.iter().all(|path| folder.path().join(path).is_file()));
    assert!(named.stderr.contains("the speed of"), "{named}");

    // Both runs have the same start time, so the name decides which is the latest.
    let latest = report(folder.path(), &["--json"]);
    assert_eq!(latest.code, 0, "{latest}");
    let json: Value = serde_json::from_str(&latest.stdout).unwrap();
    assert_eq!(
        (&json["run"], &json["times"]),
        (&"warpsmith-runs/two".into(), &"modelled".into()),
        "{latest}"
    );
    assert_eq!(json["complete"], true);
}

#[test]
fn a_folder_without_a_run_and_a_damaged_log_are_different_errors() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = report(folder.path(), &[]);
    assert_eq!(nothing.code, 2, "{nothing}");
    assert!(nothing.stderr.contains("there is no run in warpsmith-runs"), "{nothing}");
    let missing = report(folder.path(), &["nowhere"]);
    assert_eq!(missing.code, 2, "{missing}");
    assert!(missing.stderr.contains("nowhere holds no run") && missing.stderr.contains("hint:"), "{missing}");
    fs::write(folder.path().join("events.jsonl"), "what?\n").unwrap();
    let damaged = report(folder.path(), &["."]);
    assert_eq!(damaged.code, 2, "{damaged}");
    assert!(damaged.stderr.contains("line 1"), "{damaged}");
}

#[test]
fn the_report_of_a_stopped_run_says_that_it_is_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let events = full_log();
    write(folder.path(), &events[..events.len() / 2]);
    let stopped = report(folder.path(), &["."]);
    assert_eq!(stopped.code, 0, "{stopped}");
    assert!(stopped.stderr.contains("incomplete"), "{stopped}");
    assert!(
        fs::read_to_string(folder.path().join("report.html")).unwrap().contains("This run is incomplete")
    );
}

/// A script that measures the page in the browser.
const PROBE: &str = "(() => {
  const all = (name) => [...document.querySelectorAll(name)];
  const seen = (node) => node.getClientRects().length > 0;
  const box = (node) => node.getBoundingClientRect();
  const colour = getComputedStyle(document.body).backgroundColor;
  return {
    width: document.scrollingElement.scrollWidth,
    tables: all('table').length,
    rows: Math.min(...all('table').map(table => table.rows.length)),
    pictures: all('figure').length,
    shown: all('figure').filter(figure => [...figure.querySelectorAll('svg')].filter(seen).length === 1).length,
    empty: all('figure svg').filter(seen).filter(svg => box(svg).width < 100 || box(svg).height < 20).length,
    letters: Math.min(...all('figure svg').filter(seen).map(svg => 12 * box(svg).width / svg.viewBox.baseVal.width)),
    titles: all('svg title').length,
    dead: all('nav a').filter(link => !document.querySelector(link.getAttribute('href'))).map(link => link.href),
    outside: all('body *').filter(seen).filter(node => !node.closest('.scroll, pre') && box(node).right > innerWidth + 1)
      .map(node => node.outerHTML.slice(0, 100)),
    colour,
  };
})()";

/// The number of colours and the average lightness of a picture.
fn colours(browser: &mut Browser, png: &str) -> (u64, f64) {
    let found = browser.evaluate(&format!(
        "new Promise((done, failed) => {{
           const image = new Image();
           image.onerror = () => failed('no picture');
           image.onload = () => {{
             const canvas = document.createElement('canvas');
             [canvas.width, canvas.height] = [image.width, Math.min(image.height, 4000)];
             const context = canvas.getContext('2d');
             context.drawImage(image, 0, 0);
             const data = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
             const colours = new Set();
             let light = 0;
             for (let i = 0; i < data.length; i += 7) {{ colours.add(data[i]); light += (data[i] >> 8) & 255; }}
             done([colours.size, light / (data.length / 7)]);
           }};
           image.src = 'data:image/png;base64,{png}';
         }})"
    ));
    (found[0].as_u64().unwrap(), found[1].as_f64().unwrap())
}

#[test]
fn a_browser_shows_the_page() {
    let Some(program) = browser::find() else {
        skipped("no Chromium; set WARPSMITH_CHROMIUM to test the page in a real browser");
        return;
    };
    let shots = target_tmp().join("report-page");
    fs::create_dir_all(&shots).unwrap();
    let mut browser = Browser::start(&program);
    let full = full_log();
    let logs = [
        ("full", full.clone()),
        ("bench", bench_log()),
        ("search", search_log()),
        ("stopped", full[..14].to_vec()),
    ];
    for (name, events) in logs {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &events);
        let written = report(folder.path(), &["."]);
        assert_eq!(written.code, 0, "{written}");
        let page = format!("file://{}", folder.path().join("report.html").display());
        let mut lightness = Vec::new();
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
            let case = format!("{name}, {width} px, {scheme}");
            browser.look(width, scheme);
            let events = browser.open(&page);
            assert_quiet(&events, &page, &case);
            let found = browser.evaluate(PROBE);
            let number = |field: &str| found[field].as_f64().unwrap_or(f64::NAN);
            assert!(number("width") <= f64::from(width), "{case}: {found:#}");
            assert_eq!(found["outside"], serde_json::json!([]), "{case}");
            assert_eq!(found["dead"], serde_json::json!([]), "{case}");
            assert_eq!(number("pictures"), number("shown"), "{case}: each picture is shown once: {found:#}");
            assert_eq!(number("empty"), 0.0, "{case}: {found:#}");
            if name != "stopped" {
                assert!(number("tables") >= 3.0 && number("rows") >= 2.0, "{case}: {found:#}");
                assert!(number("pictures") >= 2.0 && number("titles") >= 10.0, "{case}: {found:#}");
                assert!(number("letters") >= 9.5, "{case}: letters too small: {found:#}");
            }
            let png = browser.picture();
            fs::write(shots.join(format!("{name}-{width}-{scheme}.png")), browser::decode(&png)).unwrap();
            browser.open("about:blank");
            let (colours, light) = colours(&mut browser, &png);
            assert!(colours > 20, "{case}: a blank picture, {colours} colours");
            lightness.push(light);
        }
        assert!(lightness[0] > 180.0 && lightness[1] < 90.0, "{name}: {lightness:?}");
        assert!(lightness[2] > 180.0 && lightness[3] < 90.0, "{name}: {lightness:?}");
    }
}

/// Asserts that the page wrote nothing to the console and requested no other URL.
fn assert_quiet(events: &[Value], page: &str, case: &str) {
    for event in events {
        match event["method"].as_str().unwrap_or("") {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                panic!("{case}: {event:#}")
            }
            "Network.requestWillBeSent" => {
                let url = event["params"]["request"]["url"].as_str().unwrap();
                assert!(url == page || url.starts_with("data:"), "{case}: requests {url}");
            }
            _ => {}
        }
    }
}
