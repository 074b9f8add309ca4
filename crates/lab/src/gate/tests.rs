//! Tests of the gate with runs that it must fail and runs that it must pass.

use random::Random;
use runlog::testing::{bench, built, checked, manifest, sampled, state_from};
use runlog::{
    BuildRecord, CheckRecord, Commit, Event, Fact, FailureKind, LaunchCounts, Modelled, ResultId, RunOutcome,
    RunState, Stage, StageKey, StageOutcome, Timer,
};

use super::leaderboard::tests::best;
use super::*;

const CANDIDATE: &str = "wmma stage-2";

const COUNTS: LaunchCounts =
    LaunchCounts { instructions: 10_000, global_sectors: 5_000, local_sectors: 0, bank_conflicts: 100 };

/// Times around `micros` with 1% of noise.
fn times_us(micros: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..count).map(|_| micros * (0.01 * random.normal()).exp()).collect()
}

fn of(problem: &str) -> ResultId {
    ResultId::new(problem, CANDIDATE, "3f9a")
}

fn started() -> Event {
    let commit = Fact::Known(Commit { hash: "9334a92".to_owned(), dirty: false });
    let manifest = runlog::Manifest { commit, ..manifest() };
    Event::RunStarted { manifest: Box::new(manifest) }
}

/// A candidate built, checked and measured.
fn measured(of: &ResultId, times_us: &[f64]) -> Vec<Event> {
    let nanos = times_us.iter().map(|micros| micros * 1000.0).collect();
    let mut events = vec![
        Event::Built { of: of.clone(), build: built(128, 0) },
        Event::Checked { of: of.clone(), check: checked(true) },
    ];
    events.extend(bench(of, 0, nanos));
    events
}

/// A run of one problem with these times.
fn run(times_us: &[f64]) -> Vec<Event> {
    let mut events = vec![started()];
    events.extend(measured(&of("p"), times_us));
    events
}

/// A leaderboard with an entry of 10 us.
fn leaderboard() -> Leaderboard {
    let mut board = Leaderboard::default();
    board.record(best("p", times_us(10.0, 200, 1)));
    board
}

fn request(problems: &[&str]) -> GateRequest {
    GateRequest { problems: problems.iter().map(ToString::to_string).collect(), timer: Timer::GraphHot }
}

fn judged(events: &[Event]) -> GateReport {
    judge(&state_from(events), &leaderboard(), &request(&["p"]))
}

fn only_row(report: &GateReport) -> &GateRow {
    assert_eq!(report.rows.len(), 1, "{report:?}");
    &report.rows[0]
}

#[test]
fn a_planted_regression_fails() {
    let report = judged(&run(&times_us(10.5, 200, 2)));
    let row = only_row(&report);
    assert_eq!((row.standing, report.outcome()), (RowStatus::Failed, RunOutcome::ProblemFound));
    let [GateFinding::Regression { slower_by, p, .. }] = row.findings[..] else { panic!("{row:?}") };
    assert!((slower_by - 0.05).abs() < 0.005 && p < 1e-6, "{slower_by} {p}");
}

#[test]
fn a_planted_improvement_passes() {
    let report = judged(&run(&times_us(9.5, 200, 2)));
    let row = only_row(&report);
    assert_eq!((row.standing, report.outcome()), (RowStatus::Improved, RunOutcome::Success));
    assert!(row.findings.is_empty() && row.gaps.is_empty());
    assert!(row.change.unwrap().slower_by < -0.04);
}

#[test]
fn the_sign_of_a_change_is_right_from_minus_60_to_100_per_cent() {
    // More than four standard deviations of the ratio of two medians, each of 200 samples with 1% of noise. Closer to a
    // bound than this, the noise decides.
    let noise = 0.004;
    for percent in -60..=100 {
        let factor = 1.0 + f64::from(percent) / 100.0;
        let report = judged(&run(&times_us(10.0 * factor, 200, 3)));
        let standing = only_row(&report).standing;
        if factor > 1.0 + TOLERATED_SLOWDOWN + noise {
            assert_eq!(standing, RowStatus::Failed, "{factor}");
        } else if factor < 1.0 + TOLERATED_SLOWDOWN - noise {
            assert_ne!(standing, RowStatus::Failed, "{factor}");
        }
        assert_eq!(standing == RowStatus::Improved, factor < 1.0 - noise, "{factor}");
    }
}

#[test]
fn a_slowdown_of_up_to_two_per_cent_passes() {
    let report = judged(&run(&times_us(10.15, 2000, 2)));
    let row = only_row(&report);
    let change = row.change.unwrap();
    assert!(!change.intervals_overlap && change.rank_test.p < 0.05 && change.slower_by > 0.01, "{change:?}");
    assert_eq!((row.standing, report.outcome()), (RowStatus::Passed, RunOutcome::Success));
}

#[test]
fn a_slower_median_with_overlapping_intervals_passes() {
    // Two clusters: the median is in the upper one, and its interval spans both.
    let times: Vec<f64> = (0..21).map(|i| if i < 10 { 9.9 } else { 10.6 }).collect();
    let report = judged(&run(&times));
    let change = only_row(&report).change.unwrap();
    assert!(change.slower_by > TOLERATED_SLOWDOWN && change.intervals_overlap, "{change:?}");
    assert_eq!(only_row(&report).standing, RowStatus::Passed);
}

/// A run in three processes with these medians.
fn run_in_processes(medians_us: [f64; 3]) -> Vec<Event> {
    let noise = times_us(1.0, 240, 4);
    let [a, b, c] = medians_us;
    let levels = [a, b, c, c, b, a].into_iter().cycle();
    let times: Vec<f64> = levels.zip(noise).map(|(level, noise)| level * noise).collect();
    let mut events = run(&times);
    for event in &mut events {
        if let Event::Sampled { sampled, .. } = event {
            (sampled.per_block, sampled.processes) = (6, 3);
        }
    }
    events
}

#[test]
fn one_slow_process_passes_and_three_slow_processes_fail() {
    let report = judged(&run_in_processes([10.0, 10.0, 10.8]));
    let row = only_row(&report);
    let change = row.change.unwrap();
    assert!(change.slower_by > TOLERATED_SLOWDOWN && change.intervals_overlap, "{change:?}");
    assert_eq!((row.standing, row.processes), (RowStatus::Passed, Some(3)));
    for (level, standing) in [
        (10.8, RowStatus::Failed),
        (10.3, RowStatus::Failed),
        (10.1, RowStatus::Passed),
        (9.5, RowStatus::Improved),
    ] {
        let report = judged(&run_in_processes([level; 3]));
        assert_eq!(only_row(&report).standing, standing, "{level}: {:?}", only_row(&report).change);
    }
    // Samples that do not divide into turns of the processes are not valid.
    let mut events = run_in_processes([10.0; 3]);
    for event in &mut events {
        if let Event::Sampled { sampled, .. } = event {
            sampled.per_block = 4;
        }
    }
    assert!(matches!(&only_row(&judged(&events)).gaps[..], [MissingData::BadSamples { .. }]));
}

#[test]
fn a_slower_median_without_a_significant_rank_test_passes() {
    // Two samples each, 9% apart, with disjoint intervals. By chance, two of the six orders are as extreme.
    let mut board = Leaderboard::default();
    board.record(best("p", vec![10.0, 10.01]));
    let report = judge(&state_from(&run(&[10.9, 10.91])), &board, &request(&["p"]));
    let change = only_row(&report).change.unwrap();
    assert!(change.slower_by > TOLERATED_SLOWDOWN && !change.intervals_overlap, "{change:?}");
    assert!((change.rank_test.p - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(only_row(&report).standing, RowStatus::Passed);
}

#[test]
fn a_fast_wrong_answer_fails() {
    let mut events = run(&times_us(5.0, 200, 2));
    events.push(Event::Checked { of: of("p"), check: checked(false) });
    let report = judged(&events);
    let row = only_row(&report);
    assert_eq!((row.standing, report.outcome()), (RowStatus::Failed, RunOutcome::ProblemFound));
    assert!(matches!(row.findings[..], [GateFinding::WrongAnswer { .. }]), "{row:?}");
    assert_eq!(row.candidate, None, "a wrong candidate has no time");
}

#[test]
fn one_wrong_candidate_fails_the_row_of_a_correct_one() {
    let mut events = run(&times_us(10.0, 200, 2));
    let other = ResultId::new("p", "wmma stage-3", "77aa");
    events.push(Event::Checked { of: other.clone(), check: checked(false) });
    events.push(failed(&other, FailureKind::WrongAnswer));
    let report = judged(&events);
    // The finding appears once, although both the check and the failure report it.
    let findings = &only_row(&report).findings[..];
    assert!(matches!(findings, [GateFinding::WrongAnswer { candidate, .. }] if candidate == "wmma stage-3"));
}

fn failed(of: &ResultId, failure: FailureKind) -> Event {
    Event::CandidateFailed { of: of.clone(), stage: Stage::Bench, failure, reason: "because".to_owned() }
}

#[test]
fn a_failed_candidate_is_a_finding_and_a_refused_one_is_a_gap() {
    for kind in
        [FailureKind::Hang, FailureKind::Crash, FailureKind::IllegalAccess, FailureKind::DoesNotCompile]
    {
        let report = judged(&[started(), failed(&of("p"), kind)]);
        assert_eq!(
            (only_row(&report).standing, report.outcome()),
            (RowStatus::Failed, RunOutcome::ProblemFound),
            "{kind}"
        );
    }
    let report = judged(&[started(), failed(&of("p"), FailureKind::Refused)]);
    assert_eq!(
        (only_row(&report).standing, report.outcome()),
        (RowStatus::Incomplete, RunOutcome::Incomplete)
    );
}

#[test]
fn a_failed_baseline_does_not_fail_the_gate() {
    let mut events = run(&times_us(10.0, 200, 2));
    let torch = ResultId::new("p", "pytorch flash", "torch 2.9.1");
    events.insert(
        1,
        Event::Baseline { name: torch.subject.clone(), version: Fact::Known(torch.build.clone()) },
    );
    events.push(failed(&torch, FailureKind::Crash));
    events.push(Event::Checked { of: torch.clone(), check: checked(false) });
    // The baseline's time is not compared either.
    events.extend(bench(&torch, 0, times_us(3.0, 200, 2).iter().map(|micros| micros * 1000.0).collect()));
    let report = judged(&events);
    assert_eq!(only_row(&report).standing, RowStatus::Passed);
    assert_eq!(only_row(&report).candidate.as_deref(), Some(CANDIDATE));
}

#[test]
fn registers_or_spills_above_the_limit_fail() {
    let with = |build: BuildRecord| {
        let mut events = run(&times_us(10.0, 200, 2));
        events.push(Event::Built { of: of("p"), build });
        judged(&events)
    };
    assert_eq!(only_row(&with(built(168, 0))).standing, RowStatus::Passed, "at the limit");
    let report = with(built(169, 0));
    assert!(matches!(
        only_row(&report).findings[..],
        [GateFinding::Registers { registers: 169, limit: 168, .. }]
    ));
    assert_eq!(report.outcome(), RunOutcome::ProblemFound);
    let report = with(built(128, 4));
    assert!(matches!(only_row(&report).findings[..], [GateFinding::Spills { bytes: 4, limit: 0, .. }]));
    let report = with(BuildRecord { serialised_wgmma: 1, ..built(128, 0) });
    assert!(matches!(
        only_row(&report).findings[..],
        [GateFinding::SerialisedWgmma { notes: 1, limit: 0, .. }]
    ));
    let unlimited = BuildRecord { registers_limit: None, spill_bytes_limit: None, ..built(255, 64) };
    assert_eq!(only_row(&with(unlimited)).standing, RowStatus::Passed);
}

#[test]
fn missing_data_makes_the_report_incomplete() {
    let gap = |events: &[Event], problems: &[&str]| {
        let report = judge(&state_from(events), &leaderboard(), &request(problems));
        assert_eq!(report.outcome(), RunOutcome::Incomplete, "{report:?}");
        report.rows.iter().flat_map(|row| row.gaps.clone()).collect::<Vec<MissingData>>()
    };
    let fine = run(&times_us(10.0, 200, 2));
    // A problem that was not measured, beside one that passes.
    assert_eq!(gap(&fine, &["p", "q"]), [MissingData::NotMeasured]);
    // A problem without an entry in the leaderboard.
    let mut other = fine.clone();
    other.extend(measured(&of("new"), &times_us(10.0, 200, 2)));
    assert_eq!(gap(&other, &["p"]), [MissingData::NothingOnRecord]);
    // An empty run, with a filled and with an empty leaderboard.
    assert_eq!(gap(&[started()], &[]), [MissingData::NotMeasured]);
    assert_eq!(
        judge(&state_from(&[started()]), &Leaderboard::default(), &request(&[])).outcome(),
        RunOutcome::Incomplete
    );
    assert_eq!(
        judge(&RunState::default(), &leaderboard(), &request(&["p"])).outcome(),
        RunOutcome::Incomplete
    );
    // A candidate that was timed but not checked.
    let mut unchecked = fine.clone();
    unchecked.retain(|event| !matches!(event, Event::Checked { .. }));
    assert_eq!(gap(&unchecked, &[]), [MissingData::Unchecked { candidate: CANDIDATE.to_owned() }]);
    // A candidate without registers and spills in the log.
    let mut unbuilt = fine.clone();
    unbuilt.retain(|event| !matches!(event, Event::Built { .. }));
    assert_eq!(gap(&unbuilt, &[]), [MissingData::NoBuild { candidate: CANDIDATE.to_owned() }]);
    // A run that was stopped during a stage.
    let mut stopped = fine.clone();
    stopped.pop();
    assert_eq!(gap(&stopped, &[]), [MissingData::CutShort { subject: CANDIDATE.to_owned() }]);
    // A run with another timer only.
    let report =
        judge(&state_from(&fine), &leaderboard(), &GateRequest { timer: Timer::Eager, ..request(&["p"]) });
    assert_eq!(
        (report.outcome(), &report.rows[0].gaps[..]),
        (RunOutcome::Incomplete, &[MissingData::NotMeasured][..])
    );
}

#[test]
fn a_skipped_problem_is_not_a_pass() {
    let key = StageKey { stage: Stage::Bench, of: of("p") };
    let outcome = StageOutcome::Skipped { reason: "does not fit".to_owned() };
    let report = judged(&[started(), Event::StageFinished { key, outcome }]);
    assert_eq!(report.outcome(), RunOutcome::Incomplete);
    assert!(
        matches!(&only_row(&report).gaps[..], [MissingData::Skipped { reason, .. }] if reason == "does not fit")
    );
}

#[test]
fn an_unsupported_problem_is_a_gap_only_if_the_family_holds_the_record() {
    let mut events = run(&times_us(10.0, 200, 2));
    events.push(failed(&ResultId::new("p", "hopper", "90a"), FailureKind::Refused));
    assert_eq!(judged(&events).outcome(), RunOutcome::Success);
    let mut board = Leaderboard::default();
    board.record(BestOnRecord { candidate: "hopper".to_owned(), ..best("p", times_us(10.0, 200, 1)) });
    let report = judge(&state_from(&events), &board, &request(&["p"]));
    assert!(
        matches!(&only_row(&report).gaps[..], [MissingData::Skipped { subject, .. }] if subject == "hopper")
    );
    assert_eq!(report.outcome(), RunOutcome::Incomplete);
}

#[test]
fn a_modelled_time_is_not_compared_with_the_record() {
    let modelled = Modelled {
        gpu: "h200".to_owned(),
        time_us: times::ModelledMicros(10.0),
        limiter: None,
        work: None,
        model: Some(1),
        counts: Some(COUNTS),
    };
    let report = judged(&[started(), Event::Modelled { of: of("p"), modelled }]);
    assert_eq!(
        (report.outcome(), &only_row(&report).gaps[..]),
        (RunOutcome::Incomplete, &[MissingData::OnlyModelled][..])
    );
    assert_eq!(only_row(&report).p50_us, None);
}

#[test]
fn a_run_is_not_compared_with_the_record_of_another_device() {
    let with_gpu = |gpu: Fact<String>| {
        let mut events = run(&times_us(30.0, 200, 2));
        events[0] = Event::RunStarted { manifest: Box::new(runlog::Manifest { gpu, ..manifest() }) };
        judged(&events)
    };
    let report = with_gpu(Fact::Known("NVIDIA L4".to_owned()));
    assert_eq!(
        (report.outcome(), &only_row(&report).gaps[..]),
        (RunOutcome::Incomplete, &[MissingData::NothingOnRecord][..])
    );
    let report = with_gpu(Fact::unavailable("no driver"));
    assert_eq!(
        (report.outcome(), &only_row(&report).gaps[..]),
        (RunOutcome::Incomplete, &[MissingData::UnknownDevice][..])
    );
}

#[test]
fn the_fastest_correct_candidate_is_compared() {
    let mut events = run(&times_us(12.0, 200, 2));
    events.extend(measured(&ResultId::new("p", "mma", "beef"), &times_us(10.0, 200, 4)));
    let report = judged(&events);
    assert_eq!(
        (only_row(&report).candidate.as_deref(), only_row(&report).standing),
        (Some("mma"), RowStatus::Passed)
    );
}

#[test]
fn update_records_first_results_and_improvements() {
    let mut board = Leaderboard::default();
    let mut take = |micros: f64| {
        let mut report = judge(&state_from(&run(&times_us(micros, 1000, 5))), &board, &request(&["p"]));
        let recorded = update(&mut report, &mut board);
        (recorded, report.outcome(), only_row(&report).standing, board.entries()[0].p50_us.0)
    };
    let (recorded, outcome, standing, first) = take(10.0);
    assert_eq!((recorded, outcome, standing), (1, RunOutcome::Success, RowStatus::Recorded));
    let (recorded, outcome, standing, now) = take(11.0);
    assert_eq!((recorded, outcome, standing, now), (0, RunOutcome::ProblemFound, RowStatus::Failed, first));
    // A second run at the same speed is not an improvement.
    let (recorded, outcome, standing, now) = take(10.0);
    assert_eq!((recorded, outcome, standing, now), (0, RunOutcome::Success, RowStatus::Passed, first));
    let (recorded, outcome, standing, now) = take(9.5);
    assert_eq!((recorded, outcome, standing), (1, RunOutcome::Success, RowStatus::Recorded));
    assert!(now < 9.6, "{now}");
    let entry = &board.entries()[0];
    assert_eq!((entry.device.as_str(), entry.candidate.as_str()), ("NVIDIA H200", CANDIDATE));
    assert_eq!(entry.commit.known().unwrap().hash, "9334a92");
    assert_eq!(entry.samples_us.len(), SAMPLES_KEPT);
}

#[test]
fn a_wrong_or_unchecked_result_is_never_recorded() {
    let fine = run(&times_us(5.0, 200, 2));
    let mut wrong = fine.clone();
    wrong.push(Event::Checked { of: of("p"), check: checked(false) });
    let mut unchecked = fine.clone();
    unchecked.retain(|event| !matches!(event, Event::Checked { .. }));
    let mut spilling = fine.clone();
    spilling.push(Event::Built { of: of("p"), build: built(128, 4) });
    let mut beside = fine;
    beside.push(failed(&ResultId::new("p", "mma", "beef"), FailureKind::Hang));
    for events in [wrong, unchecked, spilling, beside] {
        for mut board in [leaderboard(), Leaderboard::default()] {
            let before = board.clone();
            let mut report = judge(&state_from(&events), &board, &request(&["p"]));
            assert_eq!(update(&mut report, &mut board), 0);
            assert_eq!(board, before);
            assert_ne!(report.outcome(), RunOutcome::Success);
        }
    }
}

/// A report with rows of several statuses, and with text that tries to break the output formats.
fn mixed_report() -> GateReport {
    let mut board = leaderboard();
    for problem in ["better", "<evil> & \"quoted\", 50%: 'x'"] {
        board.record(best(problem, times_us(10.0, 200, 1)));
    }
    let mut events = run(&times_us(10.0, 200, 2));
    events.extend(measured(&of("better"), &times_us(9.0, 200, 2)));
    let evil = of("<evil> & \"quoted\", 50%: 'x'");
    let mut check = CheckRecord { passed: false, ..checked(false) };
    check.complaints[0].message = "]]> </failure>\n100% of\r\n<b>\u{1}::error::".to_owned();
    events.push(Event::Checked { of: evil, check });
    let mut throttled = sampled(0, times_us(10_200.0, 200, 2));
    throttled.telemetry.throttled = Some(vec!["power".to_owned()]);
    let slow = of("hot");
    let key = StageKey { stage: Stage::Bench, of: slow.clone() };
    events.push(Event::Built { of: slow.clone(), build: built(128, 0) });
    events.push(Event::Checked { of: slow.clone(), check: checked(true) });
    events.push(Event::StageStarted { key: key.clone() });
    events.push(Event::Sampled { of: slow, sampled: throttled });
    events.push(Event::StageFinished { key, outcome: StageOutcome::Done });
    judge(&state_from(&events), &board, &request(&["p", "never"]))
}

#[test]
fn junit_is_well_formed_and_its_counts_add_up() {
    let report = mixed_report();
    let xml = ::report::ci::junit(&output::ci_report(&report, "leaderboard.json", &|_| None));
    let document = roxmltree::Document::parse(&xml).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    let suites: Vec<_> = root.children().filter(roxmltree::Node::is_element).collect();
    assert_eq!(suites.len(), 1);
    let cases: Vec<_> = suites[0].children().filter(roxmltree::Node::is_element).collect();
    assert!(cases.iter().all(|case| case.tag_name().name() == "testcase"));
    assert!(cases.iter().all(|case| case.has_attribute("name") && case.has_attribute("classname")));
    let having = |tag: &str| {
        let has = |case: &&roxmltree::Node<'_, '_>| case.children().any(|child| child.has_tag_name(tag));
        cases.iter().filter(has).count()
    };
    for node in [root, suites[0]] {
        let count = |name: &str| node.attribute(name).and_then(|text| text.parse::<usize>().ok());
        assert_eq!(count("tests"), Some(cases.len()));
        assert_eq!(count("failures"), Some(having("failure")));
        assert_eq!(count("errors"), Some(having("error")));
        assert_eq!(count("skipped"), Some(0));
    }
    assert_eq!((cases.len(), having("failure"), having("error"), having("skipped")), (5, 1, 2, 0));
    let stamp = suites[0].attribute("timestamp").unwrap();
    assert!(stamp.len() == 19 && stamp.as_bytes()[10] == b'T', "{stamp}");
    // The text is unchanged, except for hidden characters.
    let failure = document.descendants().find(|node| node.has_tag_name("failure")).unwrap();
    assert_eq!(failure.parent().unwrap().attribute("name"), Some("<evil> & \"quoted\", 50%: 'x'"));
    assert_eq!(failure.attribute("type"), Some("wrong-answer"));
    let message = failure.attribute("message").unwrap();
    assert!(message.contains("]]> </failure>\n100% of\n<b>\\u{1}::error::"), "{message:?}");
}

#[test]
fn annotations_are_one_line_each_and_escaped() {
    let text =
        ::report::ci::github(&output::ci_report(&mixed_report(), "bench/leader,board:1.json", &|_| None));
    let lines: Vec<&str> = text.lines().collect();
    let level = |line: &&str| line[2..].split(' ').next().map(ToOwned::to_owned);
    let mut levels: Vec<String> = lines.iter().filter_map(level).collect();
    levels.sort();
    assert_eq!(levels, ["error", "error", "error", "notice", "warning"]);
    for line in &lines {
        // The form is `::level properties::message`. Neither part contains a character that would end it early.
        let (properties, message) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
        let properties = properties.split_once(' ').unwrap().1;
        let names: Vec<&str> = properties.split(',').map(|pair| pair.split_once('=').unwrap().0).collect();
        assert_eq!(names.last(), Some(&"title"), "{line}");
        let is_error = line.starts_with("::error");
        assert_eq!(properties.contains("file=bench/leader%2Cboard%3A1.json,"), is_error, "{line}");
        assert!(!message.contains('\r'), "{line}");
    }
    let evil = lines.iter().find(|line| line.contains("evil")).unwrap();
    assert!(evil.contains("title=<evil> & \"quoted\"%2C 50%25%3A 'x'%3A wrong-answer::"), "{evil}");
    assert!(evil.contains("</failure>%0A100%25 of%0A<b>"), "{evil}");
}

#[test]
fn json_has_the_rows_and_the_outcome() {
    let report = mixed_report();
    let json: serde_json::Value = serde_json::from_str(&output::json(&report).unwrap()).unwrap();
    assert_eq!((&json["outcome"], &json["schema"]), (&"finding".into(), &"warpsmith.gate/1".into()));
    assert_eq!(json["rows"].as_array().unwrap().len(), report.rows.len());
    let standing = |problem: &str| {
        let rows = json["rows"].as_array().unwrap();
        rows.iter().find(|row| row["problem"] == problem).map(|row| row["standing"].clone()).unwrap()
    };
    assert_eq!(standing("p"), "passed");
    assert_eq!(standing("better"), "improved");
    assert_eq!(standing("never"), "incomplete");
}

#[test]
fn text_has_one_line_per_problem_and_its_reasons() {
    let text = output::text(&mixed_report());
    println!("{text}");
    assert!(text.starts_with("NVIDIA H200, graph, hot\n"), "{text}");
    assert!(text.contains("\nINCOMPLETE  never"), "{text}");
    assert!(text.contains("10.0% faster") && text.contains("the GPU throttled its clocks"), "{text}");
    assert!(
        text.ends_with("5 problems: 2 passed (1 improved, 0 recorded), 1 failed, 2 incomplete\n"),
        "{text}"
    );
}

// ---- Runs on a virtual GPU ----

const VIRTUAL: &str = "virtual l4";

fn started_on(gpu: &str, device: &str) -> Event {
    let manifest = runlog::Manifest {
        gpu: Fact::Known(gpu.to_owned()),
        device: Fact::Known(device.to_owned()),
        ..manifest()
    };
    Event::RunStarted { manifest: Box::new(manifest) }
}

/// The result of a candidate on a virtual GPU.
#[derive(Clone)]
struct VirtualResult {
    of: ResultId,
    build: BuildRecord,
    check: CheckRecord,
    modelled: Modelled,
}

impl VirtualResult {
    fn new(problem: &str, subject: &str) -> Self {
        let modelled = Modelled {
            gpu: "l4".to_owned(),
            time_us: times::ModelledMicros(20.0),
            limiter: None,
            work: None,
            model: Some(1),
            counts: Some(COUNTS),
        };
        let of = ResultId::new(problem, subject, "3f9a");
        VirtualResult { of, build: built(100, 0), check: checked(true), modelled }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn with_counts(self, change: impl FnOnce(&mut LaunchCounts)) -> Self {
        self.with(|result| change(result.modelled.counts.as_mut().unwrap()))
    }

    fn events(&self) -> Vec<Event> {
        let of = self.of.clone();
        vec![
            Event::Built { of: of.clone(), build: self.build.clone() },
            Event::Checked { of: of.clone(), check: self.check.clone() },
            Event::Modelled { of, modelled: self.modelled.clone() },
        ]
    }

    fn run(&self) -> Vec<Event> {
        let mut events = vec![started_on(VIRTUAL, "virtual:l4")];
        events.extend(self.events());
        events
    }
}

fn virtual_result() -> VirtualResult {
    VirtualResult::new("p", CANDIDATE)
}

/// A leaderboard with the entry of [`virtual_result`].
fn counted_leaderboard() -> Leaderboard {
    let mut board = Leaderboard::default();
    let mut report = judge(&state_from(&virtual_result().run()), &board, &request(&["p"]));
    assert_eq!(report.outcome(), RunOutcome::Incomplete);
    assert_eq!(only_row(&report).gaps, [MissingData::NothingOnRecord]);
    assert_eq!(update(&mut report, &mut board), 1);
    assert_eq!((report.outcome(), only_row(&report).standing), (RunOutcome::Success, RowStatus::Recorded));
    board
}

fn judged_virtual(result: &VirtualResult) -> GateReport {
    judge(&state_from(&result.run()), &counted_leaderboard(), &request(&["p"]))
}

#[test]
fn a_virtual_run_with_the_numbers_on_record_passes() {
    let report = judged_virtual(&virtual_result());
    assert_eq!((report.outcome(), report.basis), (RunOutcome::Success, Basis::Counted));
    let row = only_row(&report);
    assert_eq!((row.standing, row.quantities.len()), (RowStatus::Passed, Quantity::ALL.len()));
    assert!(row.quantities.iter().all(|change| change.verdict == QuantityVerdict::Same));
    assert_eq!((row.p50_us, row.change), (None, None), "nothing was measured");
    let text = output::text(&report);
    assert!(text.starts_with("virtual l4, compiled, counted and modelled; nothing was measured\n"), "{text}");
    assert!(text.contains("20.00 us (modelled), on record 20.00 us (modelled)"), "{text}");
}

#[test]
fn an_increase_beyond_its_tolerance_fails_and_a_smaller_one_passes() {
    let with = |change: &dyn Fn(&mut VirtualResult)| virtual_result().with(change);
    let counts = |change: &dyn Fn(&mut LaunchCounts)| virtual_result().with_counts(change);
    for (result, kind) in [
        (with(&|it| it.build.registers = 105), Some("registers-increased")),
        (with(&|it| it.build.registers = 104), None),
        (
            with(&|it| {
                it.build.spill_bytes = 4;
                it.build.spill_bytes_limit = None;
            }),
            Some("spills-increased"),
        ),
        (with(&|it| it.build.shared_bytes = 49_152 + 2_048), Some("shared-memory-increased")),
        (counts(&|it| it.instructions = 10_500), Some("instructions-increased")),
        (counts(&|it| it.instructions = 10_201), Some("instructions-increased")),
        (counts(&|it| it.instructions = 10_200), None),
        (counts(&|it| it.global_sectors = 5_101), Some("global-sectors-increased")),
        (counts(&|it| it.local_sectors = 1), Some("local-sectors-increased")),
        (counts(&|it| it.bank_conflicts = 103), Some("bank-conflicts-increased")),
        (with(&|it| it.modelled.time_us.0 = 20.5), Some("modelled-time-increased")),
        (with(&|it| it.modelled.time_us.0 = 20.3), None),
    ] {
        let report = judged_virtual(&result);
        let kinds: Vec<_> = only_row(&report).findings.iter().map(GateFinding::kind).collect();
        assert_eq!(kinds, kind.into_iter().collect::<Vec<_>>(), "{report:?}");
        let outcome = if kind.is_some() { RunOutcome::ProblemFound } else { RunOutcome::Success };
        assert_eq!(report.outcome(), outcome, "{kind:?}");
    }
    let report = judged_virtual(&counts(&|it| it.instructions = 10_500));
    let text = output::text(&report);
    let words = "warp instructions: 10500 (counted), 10000 on record, +5.0% (2% allowed)";
    assert!(text.contains(words), "{text}");
}

#[test]
fn a_modelled_time_of_another_model_version_is_not_compared() {
    let slower = virtual_result().with(|it| {
        it.modelled.time_us.0 = 40.0;
        it.modelled.model = Some(2);
    });
    let mut board = counted_leaderboard();
    let mut report = judge(&state_from(&slower.run()), &board, &request(&["p"]));
    assert_eq!(report.outcome(), RunOutcome::Success);
    let text = output::text(&report);
    assert!(
        text.contains("not compared: the record has a time of model version 1, the run of version 2"),
        "{text}"
    );
    // The new time replaces the old one; the counts on record stay.
    assert_eq!(update(&mut report, &mut board), 1);
    let record = &board.counted()[0];
    assert_eq!((record.model, record.time_us.0, record.counts), (2, 40.0, COUNTS));
    // Counts are compared for any version.
    let report = judged_virtual(&slower.with_counts(|it| it.instructions = 11_000));
    assert_eq!(report.outcome(), RunOutcome::ProblemFound);
}

#[test]
fn a_virtual_run_without_a_right_checked_and_counted_result_does_not_pass() {
    for (result, outcome) in [
        (virtual_result().with(|it| it.check = checked(false)), RunOutcome::ProblemFound),
        (virtual_result().with(|it| it.check.sanitized = false), RunOutcome::Incomplete),
        (virtual_result().with(|it| it.modelled.counts = None), RunOutcome::Incomplete),
        (virtual_result().with(|it| it.modelled.model = None), RunOutcome::Incomplete),
        (virtual_result().with(|it| it.modelled.time_us.0 = 0.0), RunOutcome::Incomplete),
    ] {
        for mut board in [counted_leaderboard(), Leaderboard::default()] {
            let before = board.clone();
            let mut report = judge(&state_from(&result.run()), &board, &request(&["p"]));
            if board.counted().is_empty() {
                assert_ne!(report.outcome(), RunOutcome::Success, "{report:?}");
            } else {
                assert_eq!(report.outcome(), outcome, "{report:?}");
            }
            assert_eq!(update(&mut report, &mut board), 0, "{report:?}");
            assert_eq!(board, before);
        }
    }
    // A check of another build does not count.
    let mut events = virtual_result().run();
    for event in &mut events {
        if let Event::Checked { of, .. } = event {
            of.build = "beef".to_owned();
        }
    }
    let report = judge(&state_from(&events), &counted_leaderboard(), &request(&["p"]));
    assert_eq!(only_row(&report).gaps, [MissingData::Unchecked { candidate: CANDIDATE.to_owned() }]);
}

#[test]
fn every_candidate_on_record_must_be_in_the_run() {
    let mut board = counted_leaderboard();
    let mut events = virtual_result().run();
    events.extend(VirtualResult::new("p", "mma small").events());
    let mut report = judge(&state_from(&events), &board, &request(&[]));
    let standings: Vec<_> = report.rows.iter().map(|row| row.standing).collect();
    assert_eq!(standings, [RowStatus::Passed, RowStatus::Incomplete]);
    assert_eq!(update(&mut report, &mut board), 1);
    assert_eq!(judge(&state_from(&events), &board, &request(&[])).outcome(), RunOutcome::Success);
    // A run without one of the two is incomplete, and one without both too.
    let report = judge(&state_from(&virtual_result().run()), &board, &request(&[]));
    assert_eq!(report.outcome(), RunOutcome::Incomplete);
    assert_eq!(report.rows[1].gaps, [MissingData::NotInRun { candidate: "mma small".to_owned() }]);
    let nothing = [started_on(VIRTUAL, "virtual:l4")];
    let report = judge(&state_from(&nothing), &board, &request(&[]));
    assert_eq!((report.outcome(), report.rows.len()), (RunOutcome::Incomplete, 2));
    // A slower candidate fails although another one is as before.
    let slow = VirtualResult::new("p", "mma small").with_counts(|it| it.instructions *= 2);
    let mut events = virtual_result().run();
    events.extend(slow.events());
    let report = judge(&state_from(&events), &board, &request(&[]));
    assert_eq!(report.outcome(), RunOutcome::ProblemFound);
    // A failed candidate has a row.
    let mut events = virtual_result().run();
    events.push(failed(&ResultId::new("p", "mma small", "77"), FailureKind::Hang));
    let report = judge(&state_from(&events), &counted_leaderboard(), &request(&[]));
    assert_eq!((report.outcome(), report.rows.len()), (RunOutcome::ProblemFound, 2));
    // A candidate that does not support the problem has a row only if it has a record.
    let mut events = virtual_result().run();
    events.push(failed(&ResultId::new("p", "mma small", ""), FailureKind::Refused));
    assert_eq!(
        judge(&state_from(&events), &counted_leaderboard(), &request(&[])).outcome(),
        RunOutcome::Success
    );
    let report = judge(&state_from(&events), &board, &request(&[]));
    assert!(matches!(&report.rows[1].gaps[..], [MissingData::Skipped { .. }]), "{report:?}");
}

#[test]
fn a_baseline_with_the_name_of_a_candidate_on_record_does_not_pass() {
    let mut events = virtual_result().with(|it| it.check = checked(false)).run();
    events.push(Event::Baseline { name: CANDIDATE.to_owned(), version: Fact::Known("1".to_owned()) });
    let report = judge(&state_from(&events), &counted_leaderboard(), &request(&["p"]));
    assert_eq!(only_row(&report).gaps, [MissingData::NotInRun { candidate: CANDIDATE.to_owned() }]);
    assert_eq!(report.outcome(), RunOutcome::Incomplete);
}

#[test]
fn records_of_different_devices_never_mix() {
    let slow = virtual_result().with_counts(|it| it.instructions *= 2);
    let mut on_another = slow.run();
    on_another[0] = started_on("virtual a100", "virtual:a100");
    let board = counted_leaderboard();
    let report = judge(&state_from(&on_another), &board, &request(&["p"]));
    assert_eq!(only_row(&report).gaps, [MissingData::NothingOnRecord]);
    // A GPU does not use the entries of a virtual GPU, even with the same name, and the reverse. A measured time with
    // the name of a virtual GPU does not count.
    let mut events = run(&times_us(10.0, 200, 2));
    events[0] = started_on(VIRTUAL, "cuda:0");
    let report = judge(&state_from(&events), &board, &request(&["p"]));
    assert_eq!(
        (report.basis, &only_row(&report).gaps[..]),
        (Basis::Measured, &[MissingData::NotMeasured][..])
    );
    let mut measured = Leaderboard::default();
    measured.record(BestOnRecord { device: VIRTUAL.to_owned(), ..best("p", times_us(10.0, 200, 1)) });
    let report = judge(&state_from(&virtual_result().run()), &measured, &request(&["p"]));
    assert_eq!(only_row(&report).gaps, [MissingData::NothingOnRecord]);
    // Samples in the log of a virtual GPU are not used.
    let mut events = virtual_result().run();
    events.extend(bench(&of("p"), 0, vec![1000.0; 10]));
    assert_eq!(only_row(&judge(&state_from(&events), &board, &request(&["p"]))).p50_us, None);
}

#[test]
fn update_records_smaller_numbers_and_never_larger_ones() {
    let mut board = counted_leaderboard();
    let mut take = |result: &VirtualResult| {
        let mut report = judge(&state_from(&result.run()), &board, &request(&["p"]));
        let recorded = update(&mut report, &mut board);
        (recorded, report.outcome(), board.counted()[0].counts.instructions)
    };
    let instructions = |count: u64| virtual_result().with_counts(|it| it.instructions = count);
    // Larger within the tolerance, larger beyond it, and smaller by less than half of the tolerance.
    assert_eq!(take(&instructions(10_150)), (0, RunOutcome::Success, 10_000));
    assert_eq!(take(&instructions(12_000)), (0, RunOutcome::ProblemFound, 10_000));
    assert_eq!(take(&instructions(9_950)), (0, RunOutcome::Success, 10_000));
    assert_eq!(take(&instructions(9_000)), (1, RunOutcome::Success, 9_000));
    // Another quantity is a little larger: the smaller value stays on record.
    let mixed = instructions(8_000).with_counts(|it| it.global_sectors = 5_040);
    assert_eq!(take(&mixed), (1, RunOutcome::Success, 8_000));
    assert_eq!(board.counted()[0].counts.global_sectors, 5_000);
    // A trade is not an improvement.
    let traded = instructions(7_000).with_counts(|it| it.global_sectors = 5_090);
    let mut report = judge(&state_from(&traded.run()), &board, &request(&["p"]));
    assert_eq!((report.outcome(), update(&mut report, &mut board)), (RunOutcome::Success, 0));
}

#[test]
fn every_quantity_has_its_own_rule_for_ci() {
    for quantity in Quantity::ALL {
        assert_eq!(::report::ci::rule(quantity.increase()).id, quantity.increase());
    }
}

#[test]
fn different_compilers_are_told() {
    let newer = virtual_result().with(|it| it.build.compiler = "NVRTC 99.1".to_owned());
    let report = judged_virtual(&newer);
    let words = "the compilers differ: NVRTC 99.1 now, NVRTC 13.0.88 on record";
    assert!(output::text(&report).contains(words), "{}", output::text(&report));
    let github = ::report::ci::github(&output::ci_report(&report, "leaderboard.json", &|_| None));
    assert!(github.contains("::warning ") && github.contains(words), "{github}");
    assert!(output::json(&report).unwrap().contains("\"compilers\""));
    let same = judged_virtual(&virtual_result());
    assert!(
        !output::text(&same).contains("compilers") && !output::json(&same).unwrap().contains("compilers")
    );
}

#[test]
fn findings_are_at_the_source_of_the_candidate() {
    let slow = virtual_result().with_counts(|it| it.bank_conflicts += 57_344);
    let place = |candidate: &str| {
        assert_eq!(candidate, CANDIDATE);
        Some(::report::ci::Location { line: 12, ..::report::ci::Location::file("kernels/wmma.cu") })
    };
    let report = judged_virtual(&slow);
    let github = ::report::ci::github(&output::ci_report(&report, "leaderboard.json", &place));
    assert!(github.starts_with("::error file=kernels/wmma.cu,line=12,"), "{github}");
    // Without a known source, the leaderboard is named.
    let github = ::report::ci::github(&output::ci_report(&report, "leaderboard.json", &|_| None));
    assert!(github.starts_with("::error file=leaderboard.json,"), "{github}");
}
