//! Tests of the formats, with text that tries to break them.

use std::collections::HashSet;

use serde_json::Value;

use super::*;

#[path = "../../tests/data/sarif/validator.rs"]
mod validator;
use validator::sarif_error;

/// Text that tries to end a line, a command, an element, a cell, a code span, a string or a link.
const EVIL: &str = "a\n::error file=x::b\r\n]]></failure><!-- ##[error]c | `d` ``e`` \\| <img src=x onerror=y> \
                    @everyone [f](http://g) %0A %25 \u{1b}[2J\u{0}\u{85} {0} \"h\" 'i' & | ---|";

fn location(line: u32, text: &str) -> Location {
    Location { file: "kernels/k.cu".to_owned(), line, column: 5, text: text.to_owned() }
}

fn race(line: u32, text: &str) -> CiFinding {
    CiFinding {
        location: Some(location(line, text)),
        related: vec![("the other access".to_owned(), location(line + 1, "y"))],
        ..CiFinding::new("race", "scale", "two accesses conflict")
    }
}

fn failed(findings: Vec<CiFinding>) -> CiReport {
    let case = CiCase { findings, ..CiCase::new("case", CiStatus::Failed, "detail") };
    CiReport::new("sanitize", "virtual l4", vec![case])
}

fn evil_report() -> CiReport {
    let finding = CiFinding {
        location: Some(Location { file: EVIL.to_owned(), line: 3, column: 1, text: EVIL.to_owned() }),
        related: vec![(EVIL.to_owned(), Location::file(EVIL))],
        ..CiFinding::new("race", EVIL, EVIL)
    };
    let failed = CiCase { findings: vec![finding], ..CiCase::new(EVIL, CiStatus::Failed, EVIL) };
    let notice = CiNotice { level: Level::Warning, message: EVIL.to_owned() };
    let passed = CiCase { notices: vec![notice], ..CiCase::new(EVIL, CiStatus::Passed, EVIL) };
    let incomplete = CiCase::new(EVIL, CiStatus::Incomplete, EVIL);
    let mut report = CiReport::new("gate", EVIL, vec![failed, passed, incomplete]);
    let text = EVIL.to_owned();
    report.values.push(CiValue {
        case: text.clone(),
        name: text.clone(),
        now: text.clone(),
        best: text.clone(),
        change: text,
    });
    report
}

#[test]
fn untrusted_text_stays_in_its_attribute_or_element() {
    let xml = junit(&evil_report());
    let document = roxmltree::Document::parse(&xml).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    let names: HashSet<_> = document.descendants().map(|node| node.tag_name().name().to_owned()).collect();
    let known = ["", "testsuites", "testsuite", "testcase", "failure", "error", "system-out"];
    assert!(names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("testcase")).count(), 3);
    let failure = document.descendants().find(|node| node.has_tag_name("failure")).unwrap();
    let message = failure.attribute("message").unwrap();
    assert!(message.starts_with("a\n::error file=x::b\n]]></failure>"), "{message}");
    assert!(!message.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{message:?}");
}

#[test]
fn an_annotation_is_one_line_with_known_properties() {
    let text = github(&evil_report());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    for line in lines {
        let (properties, message) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
        let (level, properties) = properties.split_once(' ').unwrap();
        assert!(["error", "warning"].contains(&level), "{line}");
        for property in properties.split(',') {
            let name = property.split_once('=').unwrap().0;
            assert!(["file", "line", "col", "title"].contains(&name), "{line}");
        }
        assert!(message.contains("a%0A::error file=x::b%0A") && message.contains("%250A %2525"), "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

#[test]
fn a_summary_has_only_its_own_lines_and_cells() {
    let text = summary(&evil_report());
    // Outside of code spans, only text of this program remains.
    for line in text.lines() {
        let mut outside = String::new();
        let mut rest = line;
        while let Some(start) = rest.find('`') {
            outside += &rest[..start];
            let fence = &rest[start..rest[start..].find(|c| c != '`').map_or(rest.len(), |it| start + it)];
            let inside = &rest[start + fence.len()..];
            // A code span ends at the next run of backticks with the same length.
            let mut end = None;
            let mut at = 0;
            while let Some(found) = inside[at..].find('`') {
                let run = inside[at + found..].chars().take_while(|c| *c == '`').count();
                if run == fence.len() {
                    end = Some(at + found);
                    break;
                }
                at += found + run;
            }
            let end = end.unwrap_or_else(|| panic!("a code span does not end: {line}"));
            assert!(!inside[..end].contains('|'), "{line}");
            rest = &inside[end + fence.len()..];
        }
        outside += rest;
        for forbidden in ["<", "@", "[", "::", "\\", "everyone"] {
            assert!(!outside.contains(forbidden), "`{forbidden}` in {outside}");
        }
        if line.starts_with("| ") {
            assert_eq!(outside.matches('|').count(), 6, "{line}");
        }
    }
    assert!(text.starts_with("### warpsmith gate: failed\n"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn sarif_is_valid_and_its_text_makes_no_link() {
    for report in [evil_report(), failed(vec![race(3, "x[i] = 1;")]), CiReport::new("check", "d", vec![])] {
        let log = sarif(&report);
        assert_eq!(sarif_error(&log), None, "{log:#}");
    }
    let log = sarif(&evil_report());
    let result = &log["runs"][0]["results"][0];
    let text = result["message"]["text"].as_str().unwrap();
    assert!(text.contains("[f] (http://g)") && !text.contains('\u{1b}'), "{text}");
    let uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap();
    assert!(uri.starts_with("a%0A%3A%3Aerror%20file%3Dx"), "{uri}");
    assert!(uri.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/%".contains(&byte)), "{uri}");
}

#[test]
fn the_schema_refuses_wrong_sarif() {
    let valid = sarif(&failed(vec![race(3, "x")]));
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut log = valid.clone();
        change(&mut log);
        assert!(sarif_error(&log).is_some(), "{log:#}");
    };
    refused(&|log| log["version"] = "2.0.0".into());
    refused(&|log| log["runs"][0]["tool"]["driver"]["name"] = Value::Null);
    refused(&|log| log["runs"][0]["results"][0]["level"] = "fatal".into());
    refused(&|log| log["runs"][0]["results"][0]["message"] = "text".into());
    refused(&|log| log["runs"][0]["results"][0]["colour"] = "red".into());
    refused(&|log| {
        log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0.into();
    });
}

#[test]
fn a_race_has_its_rule_its_line_and_the_other_access() {
    let log = sarif(&failed(vec![race(3, "x[i] = 1;")]));
    let run = &log["runs"][0];
    let result = &run["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"race".into(), &"error".into()));
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    let rule = &run["tool"]["driver"]["rules"][index];
    assert_eq!((&rule["id"], &rule["name"]), (&"race".into(), &"Race".into()));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "kernels/k.cu");
    assert_eq!((&place["region"]["startLine"], &place["region"]["startColumn"]), (&3.into(), &5.into()));
    let other = &result["relatedLocations"][0];
    assert_eq!(other["physicalLocation"]["region"]["startLine"], 4);
    assert_eq!(other["message"]["text"], "the other access");
    let text = github(&failed(vec![race(3, "x")]));
    assert!(text.starts_with("::error file=kernels/k.cu,line=3,col=5,title=scale%3A race::"), "{text}");
}

#[test]
fn a_fingerprint_does_not_change_when_unrelated_lines_move() {
    let fingerprints = |findings: Vec<CiFinding>| -> Vec<String> {
        let log = sarif(&failed(findings));
        let results = log["runs"][0]["results"].as_array().unwrap().clone();
        let print = |result: &Value| {
            result["partialFingerprints"]["warpsmithFinding/v1"].as_str().unwrap().to_owned()
        };
        results.iter().map(print).collect()
    };
    let first = fingerprints(vec![race(3, "  x[i] = 1;"), race(9, "x[i] = 1;"), race(20, "y[i] = 1;")]);
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 3, "{first:?}");
    let moved = fingerprints(vec![race(13, "x[i] = 1;"), race(19, "x[i] = 1;"), race(31, "y[i] = 1;")]);
    assert_eq!(first, moved);
    // The order in which findings are reported does not matter.
    let mut reversed = fingerprints(vec![race(20, "y[i] = 1;"), race(9, "x[i] = 1;"), race(3, "x[i] = 1;")]);
    reversed.reverse();
    assert_eq!(first, reversed);
    // Another kernel, another kind or another text gives another fingerprint.
    let mut other = race(3, "x[i] = 1;");
    other.owner = "other".to_owned();
    let mut kind = race(3, "x[i] = 1;");
    kind.rule = rule("misaligned");
    for finding in [other, kind, race(3, "x[i] = 2;")] {
        assert_ne!(fingerprints(vec![finding])[0], first[0]);
    }
}

#[test]
fn a_finding_of_several_results_is_one_sarif_result() {
    let case = failed(vec![race(3, "x")]).cases.remove(0);
    let report = CiReport::new("check", "virtual l4", vec![case.clone(), case.clone(), case]);
    let log = sarif(&report);
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["occurrenceCount"]), (1, &3.into()));
    assert_eq!(github(&report).lines().count(), 1);
}

#[test]
fn an_incomplete_or_empty_report_is_not_a_pass() {
    let incomplete = CiReport::new("gate", "d", vec![CiCase::new("p", CiStatus::Incomplete, "not measured")]);
    let empty = CiReport::new("gate", "d", Vec::new());
    for report in [&incomplete, &empty] {
        assert_eq!(report.status(), CiStatus::Incomplete);
        assert!(github(report).starts_with("::error "), "{}", github(report));
        assert!(summary(report).starts_with("### warpsmith gate: incomplete"));
        assert_eq!(sarif(report)["runs"][0]["invocations"][0]["executionSuccessful"], false);
    }
    assert!(junit(&incomplete).contains("errors=\"1\""));
    assert_eq!(sarif(&incomplete)["runs"][0]["results"][0]["ruleId"], "incomplete");
}

#[test]
fn every_kind_of_finding_has_its_own_rule() {
    let ids: HashSet<_> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), RULES.len());
    for kind in vgpu::Kind::ALL {
        assert_eq!(rule(kind.name()).id, kind.name());
    }
    assert_eq!(rule("unheard of").id, "wrong-result");
}
