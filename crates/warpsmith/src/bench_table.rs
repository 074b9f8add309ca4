//! Renders the results of a bench as text, from the run's log.

use std::cmp::Ordering;

use indexmap::IndexMap;
use lab::bench::BenchPlan;
use op::AnyProblem;
use runlog::{ClassError, FailureKind, MeanSpeedup, Row, RunState, Speed, Telemetry, rows};
use stats::Verdict;

use crate::printer::{BAD, FAINT, GOOD, STRONG, WARN, flat, one_line, styled};
use crate::tables::Table;

/// All tables of a bench. `every_baseline`: show a column for each baseline, not only for the first and the fastest.
pub fn text(plan: &BenchPlan<'_, AnyProblem>, state: &RunState, every_baseline: bool) -> String {
    let mut parts = Vec::new();
    parts.extend(measured(state, every_baseline));
    parts.extend(modelled(plan, state));
    parts.extend(class_errors(state));
    parts.extend(failures(state));
    parts.extend(means(state, every_baseline));
    parts.extend(targets(state));
    parts.push(conditions(state));
    parts.join("\n\n")
}

/// A table per problem: the errors of every subject on inputs of every class.
fn class_errors(state: &RunState) -> Vec<String> {
    let mut problems: IndexMap<&str, Vec<(&str, &[ClassError])>> = IndexMap::new();
    for (of, errors) in &state.class_errors {
        problems.entry(&of.problem).or_default().push((&of.subject, errors));
    }
    let table = |(problem, subjects): (&str, Vec<(&str, &[ClassError])>)| {
        let titles: Vec<&str> =
            std::iter::once("class").chain(subjects.iter().map(|(subject, _)| *subject)).collect();
        let mut table = Table::new(&titles, &titles[1..]);
        let (_, first) = subjects[0];
        for ClassError { class, .. } in first {
            let mut cells = vec![class.clone()];
            for (_, errors) in &subjects {
                let found = errors.iter().find(|it| it.class == *class).map(|it| it.error);
                cells.push(match found {
                    Some(Some(error)) => format!("{error:.1e}"),
                    Some(None) => "not finite".to_owned(),
                    None => "n/a".to_owned(),
                });
            }
            table.row(cells);
        }
        let title = styled(STRONG, format!("{problem}, relative L2 error by class of inputs"));
        let part = first.first().map_or("", |it| it.part.as_str());
        let about = styled(FAINT, format!("on {part}; shown, not judged"));
        format!("{}\n{}", flat(&format!("{title}  {about}")), table.text())
    };
    problems.into_iter().map(table).collect()
}

/// Two tables per problem and timer: the times, and the speedup of each candidate over each baseline.
fn measured(state: &RunState, every_baseline: bool) -> Vec<String> {
    let rows = rows(state);
    let mut groups: IndexMap<(&str, u32), Vec<&Row>> = IndexMap::new();
    for row in &rows {
        groups.entry((&row.of.problem, row.session)).or_default().push(row);
    }
    let text = |((problem, session), rows): ((&str, u32), Vec<&Row>)| {
        group(state, problem, session, &rows, every_baseline)
    };
    groups.into_iter().map(text).collect()
}

fn group(state: &RunState, problem: &str, session: u32, rows: &[&Row], every_baseline: bool) -> String {
    let first = rows[0];
    let controls = state.controls.iter().filter(|it| it.session == session && it.problem == problem);
    let worst = controls.max_by(|a, b| a.noise_floor.share().total_cmp(&b.noise_floor.share()));
    let control = worst.map_or("no A/A control".to_owned(), |control| {
        let interval = control.speedup.interval;
        format!("largest A/A difference: {} {:.3} - {:.3}", control.subject, interval.low, interval.high)
    });
    let title = styled(STRONG, format!("{problem}, {}", first.timer));
    // Subjects that are timed in turns all have the same number of samples and processes.
    let samples = match first.processes {
        1 => format!("{} samples each from one process", first.count),
        several => format!("{} samples each from {several} processes", first.count),
    };
    let about = styled(FAINT, format!("{samples}, {}; {control}", first.stopped.words()));
    let titles = ["subject", "p50", "+-", "p90", "TFLOP/s", "GB/s", "% of ceiling"];
    let mut times = Table::new(&titles, &titles[1..]);
    for row in rows {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or("n/a".to_owned(), |value| format!("{value:.digits$}"))
        };
        let half = 100.0 * row.interval_us.half_width() / row.p50_us.0;
        times.row([
            row.of.subject.clone(),
            row.p50_us.to_string(),
            format!("{half:.1}%"),
            row.p90_us.to_string(),
            number(row.tflops, 1),
            number(row.gb_per_s, 0),
            number(row.ceiling_percent, 1),
        ]);
    }
    let mut text = format!("{}\n{}", flat(&format!("{title}  {about}")), times.text());
    let mut baselines: Vec<&str> = Vec::new();
    for over in rows.iter().flat_map(|row| &row.over) {
        if !baselines.contains(&over.baseline.as_str()) {
            baselines.push(&over.baseline);
        }
    }
    if !baselines.is_empty() {
        if !every_baseline {
            let time = |name: &str| rows.iter().find(|row| row.of.subject == name).map(|row| row.p50_us.0);
            let known = baselines.iter().copied().filter(|name| time(name).is_some());
            let fastest = known.min_by(|a, b| time(a).partial_cmp(&time(b)).unwrap_or(Ordering::Equal));
            baselines.truncate(1);
            baselines.extend(fastest.filter(|name| !baselines.contains(name)));
        }
        let heads: Vec<String> = baselines.iter().map(|name| format!("over {name}")).collect();
        let titles: Vec<&str> = std::iter::once("speedup").chain(heads.iter().map(String::as_str)).collect();
        let mut speedups = Table::new(&titles, &titles[1..]);
        for row in rows.iter().filter(|row| !row.over.is_empty()) {
            let mut cells = vec![row.of.subject.clone()];
            cells.extend(baselines.iter().map(|name| {
                let found = row.over.iter().find(|over| over.baseline == *name);
                found.map_or_else(
                    || "-".to_owned(),
                    |over| {
                        let (speedup, verdict) = (over.comparison.speedup, over.comparison.verdict);
                        let interval = speedup.interval;
                        let words = format!(
                            "{:.2}x ({:.2}-{:.2}) {verdict}",
                            speedup.ratio, interval.low, interval.high
                        );
                        match verdict {
                            Verdict::Faster => styled(GOOD, words),
                            Verdict::Slower => styled(BAD, words),
                            Verdict::Same => words,
                            Verdict::Unclear => styled(WARN, words),
                        }
                    },
                )
            }));
            speedups.row(cells);
        }
        text += &format!("\n{}", speedups.text());
    }
    let telemetry = state.measurements.iter().find(|it| it.sampled.session == session);
    if let Some(line) = telemetry.map(|it| telemetry_line(&it.sampled.telemetry)).filter(|it| !it.is_empty())
    {
        text += &format!("\n{}", styled(FAINT, line));
    }
    if rows.iter().any(|row| row.throttled == Some(true)) {
        text += &format!("\n{}", styled(WARN, "the GPU reduced its clocks during the measurement"));
    }
    text
}

/// The telemetry in one line: `SM 1980 MHz, memory 3201 MHz, 41 - 45 C, 310 - 420 W`.
fn telemetry_line(telemetry: &Telemetry) -> String {
    fn range<T: PartialEq + std::fmt::Display>(
        range: Option<(T, T)>,
        name: &str,
        unit: &str,
    ) -> Option<String> {
        let (low, high) = range?;
        let span = if low == high { format!("{low}") } else { format!("{low} - {high}") };
        Some(format!("{name}{span} {unit}"))
    }
    let power = telemetry.power_w.map(|(low, high)| (low.round(), high.round()));
    let parts = [
        range(telemetry.sm_clock_mhz, "SM ", "MHz"),
        range(telemetry.memory_clock_mhz, "memory ", "MHz"),
        range(telemetry.temperature_c, "", "C"),
        range(power, "", "W"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A rate of a modelled time; `None` if the op has none.
type Rate = fn(&runlog::Modelled) -> Option<f64>;

fn modelled(plan: &BenchPlan<'_, AnyProblem>, state: &RunState) -> Option<String> {
    if state.modelled.is_empty() {
        return None;
    }
    let title = styled(STRONG, format!("modelled, not measured ({})", plan.device));
    let about = styled(FAINT, "for ranking settings of one kernel; never compared with measured times");
    // The columns of rates are shown if any problem has them.
    let has = |rate: Rate| state.modelled.values().any(|it| rate(it).is_some());
    let rates: [(&str, Rate); 2] =
        [("TFLOP/s", runlog::Modelled::tflops), ("GB/s", runlog::Modelled::gb_per_s)];
    let rates: Vec<_> = rates.into_iter().filter(|(_, rate)| has(*rate)).collect();
    let mut titles = vec!["problem", "subject", "modelled time"];
    titles.extend(rates.iter().map(|(title, _)| *title));
    titles.push("limited by");
    let mut table = Table::new(&titles, &titles[2..titles.len() - 1]);
    for (of, modelled) in &state.modelled {
        let limiter = modelled.limiter.clone().unwrap_or_else(|| "n/a".to_owned());
        let mut cells = vec![of.problem.clone(), of.subject.clone(), modelled.time_us.to_string()];
        cells.extend(rates.iter().map(|(_, rate)| rate(modelled).map_or("n/a".to_owned(), rate_text)));
        cells.push(limiter);
        table.row(cells);
    }
    Some(format!("{title}  {about}\n{}", table.text()))
}

/// A rate with three significant digits.
fn rate_text(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate >= 10.0 => format!("{rate:.1}"),
        rate if rate >= 1.0 => format!("{rate:.2}"),
        rate => format!("{rate:.4}"),
    }
}

/// What failed and what could not run, as tables; shared with `profile`.
pub fn failures(state: &RunState) -> Option<String> {
    let (refused, failed): (Vec<_>, Vec<_>) =
        state.failures.iter().partition(|failure| failure.kind == FailureKind::Refused);
    let mut failures = Table::new(&["failed", "problem", "reason", ""], &[]);
    for failure in &failed {
        let kind = styled(BAD, failure.kind);
        failures.row([failure.of.subject.clone(), failure.of.problem.clone(), kind, failure.reason.clone()]);
    }
    let mut not_run = Table::new(&["not run", "problem", "reason"], &[]);
    for failure in &refused {
        not_run.row([failure.of.subject.clone(), failure.of.problem.clone(), failure.reason.clone()]);
    }
    let tables = [(failed, failures), (refused, not_run)];
    let texts = tables.into_iter().filter(|(rows, _)| !rows.is_empty()).map(|(_, table)| table.text());
    Some(texts.collect::<Vec<_>>().join("\n\n")).filter(|text| !text.is_empty())
}

/// Mean speedups over all problems: each candidate over the first baseline and over its strongest baseline.
fn means(state: &RunState, every_baseline: bool) -> Option<String> {
    let all = state.means();
    let first = all.first()?.baseline.clone();
    let is_strongest = |mean: &MeanSpeedup| {
        let same = |other: &&MeanSpeedup| other.candidate == mean.candidate && other.timer == mean.timer;
        all.iter().filter(same).all(|other| other.speedup >= mean.speedup)
    };
    let shown = all.iter().filter(|mean| every_baseline || mean.baseline == first || is_strongest(mean));
    let titles = ["geometric mean", "over", "timer", "problems", "speedup", ""];
    let mut table = Table::new(&titles, &["problems", "speedup"]);
    for mean in shown {
        table.row([
            mean.candidate.clone(),
            mean.baseline.clone(),
            mean.timer.to_string(),
            mean.problems.to_string(),
            format!("{:.2}x", mean.speedup),
            mean.standing.to_string(),
        ]);
    }
    Some(table.text())
}

fn targets(state: &RunState) -> Option<String> {
    if state.targets.is_empty() {
        return None;
    }
    let mut table = Table::new(&["target", "problem", "", "evidence"], &[]);
    for target in &state.targets {
        let word = match target.met {
            Some(true) => styled(GOOD, "met"),
            Some(false) => styled(BAD, "missed"),
            None => styled(WARN, "not judged"),
        };
        let problem = target.problem.clone().unwrap_or_default();
        table.row([target.target.clone(), problem, word, target.evidence.clone()]);
    }
    Some(table.text())
}

/// The conditions of the measurement: device, versions of the baselines, ceilings, notes.
fn conditions(state: &RunState) -> String {
    let mut lines = Vec::new();
    if let Some(manifest) = &state.manifest {
        lines.push(format!("on {} (driver {}), nvrtc {}", manifest.gpu, manifest.driver, manifest.nvrtc));
    }
    lines.extend(state.baselines.iter().map(|(name, version)| format!("{name}: {version}")));
    for ceiling in &state.ceilings {
        let matrix = ceiling.matrix.as_deref().unwrap_or_default();
        lines.push(match ceiling.speed {
            Speed::MatrixTflops(rate) => {
                format!("ceiling: {rate:.0} TFLOP/s {matrix}, from a large matrix product in this run")
            }
            Speed::CopyGbPerS(rate) => format!("ceiling: {rate:.0} GB/s, from a large copy in this run"),
            Speed::LaunchFloorUs(time) => format!("floor: {time}, from an empty kernel in a graph"),
        });
    }
    lines.extend(state.notes.iter().cloned());
    lines.into_iter().map(|line| styled(FAINT, one_line(&line))).collect::<Vec<_>>().join("\n")
}
