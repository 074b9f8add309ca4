//! The sections about measured times, modelled times and correctness.

use std::collections::{BTreeMap, BTreeSet};

use runlog::{Control, MeasuredMicros, Row, RunState, Speed, Timer};
use stats::{Comparison, Verdict};

use super::super::TimeKind;
use super::super::comparison::ComparisonTable;
use super::super::document::{
    Block, Line, Section, Table, Tone, details, figure, figure_with_keys, heading, missing,
};
use super::super::facts::Facts;
use super::super::svg::bars::{self, Axis, Bar, Group};
use super::super::svg::lines;
use super::super::svg::roofline::{self, Point, Roofs};
use super::super::words::{count, in_processes, interval, micros, number, ratio, thousands};

/// A longer table is collapsed.
const MAX_OPEN_ROWS: usize = 8;
/// With more bars than this, only the speedups over the strongest baseline are drawn.
const MAX_BARS: usize = 40;

/// The section with the measured times.
pub fn measured(facts: &Facts<'_>) -> Option<Section> {
    let (state, rows) = (facts.state, facts.rows);
    if rows.is_empty() {
        return None;
    }
    let comparisons = &facts.tables;
    let mut body = Vec::new();
    for (index, comparison) in comparisons.iter().enumerate() {
        if comparisons.len() > 1 {
            body.push(heading(timer_title(comparison.timer)));
        }
        body.push(speedup_table(comparison));
        if index == 0 {
            body.push(speedup_figure(comparison));
            body.push(every_candidate(state, comparison));
        }
    }
    if comparisons.is_empty() {
        body.push(missing("No candidate was compared with a baseline in this run."));
    }
    body.extend(measured_scaling(state, rows));
    body.extend(rooflines(state, rows));
    body.push(noise(state));
    body.extend(untimed_work(state));
    body.extend(measurements(rows));
    body.extend(builds(state));
    Some(Section::new("measured", "Measured", body))
}

fn timer_title(timer: Timer) -> &'static str {
    match timer {
        Timer::GraphHot => "Kernel time, caches warm",
        Timer::GraphCold => "Kernel time, L2 flushed before each call",
        Timer::Eager => "Time of a call, launch included",
    }
}

fn speedup_table(comparison: &ComparisonTable<'_>) -> Block {
    let head: Vec<&str> = ["problem", "fastest candidate", "median"]
        .into_iter()
        .chain(comparison.baselines.iter().copied())
        .collect();
    let caption = format!(
        "Speedup of the fastest candidate over each baseline, with its 95% interval; {}",
        comparison.timer
    );
    let mut table = Table::for_kind(TimeKind::Measured, &caption, &head, 2);
    for line in &comparison.lines {
        let mut cells =
            vec![Line::text(line.problem), Line::with_knobs(line.best.subject()), median(line.best)];
        cells.extend(line.over.iter().map(|over| over.map_or(Line::faint("not measured"), speedup)));
        table.row(cells);
    }
    table.block()
}

fn median(row: &Row) -> Line {
    Line::text(micros(row.p50_us.0)).with_small(interval(row.interval_us.low, row.interval_us.high))
}

fn speedup(comparison: &Comparison) -> Line {
    let tone = match comparison.verdict {
        Verdict::Faster => Tone::Good,
        Verdict::Slower => Tone::Bad,
        Verdict::Same | Verdict::Unclear => Tone::Open,
    };
    let speedup = comparison.speedup;
    let interval = interval(speedup.interval.low, speedup.interval.high);
    Line::mark(tone, ratio(speedup.ratio)).with_small(format!("{interval}, {}", comparison.verdict))
}

fn speedup_figure(comparison: &ComparisonTable<'_>) -> Block {
    let strongest = comparison.strongest_baseline();
    let few = comparison.lines.len() * comparison.baselines.len() <= MAX_BARS;
    let shown = |name: &str| few || Some(name) == strongest;
    let bar = |name: &str,
               label: String,
               line: &super::super::comparison::ComparisonRow<'_>,
               over: &Comparison| Bar {
        label,
        value: over.speedup.ratio,
        interval: Some((over.speedup.interval.low, over.speedup.interval.high)),
        text: ratio(over.speedup.ratio),
        title: format!(
            "{} on {}: {} over {name} ({}), {}",
            line.best.subject(),
            line.problem,
            ratio(over.speedup.ratio),
            interval(over.speedup.interval.low, over.speedup.interval.high),
            over.verdict,
        ),
        is_faint: matches!(over.verdict, Verdict::Same | Verdict::Unclear),
    };
    let mut groups: Vec<Group> = Vec::new();
    for line in &comparison.lines {
        let bars = comparison.baselines.iter().zip(&line.over).filter(|(name, _)| shown(name)).filter_map(
            |(name, over)| {
                let label = if few { (*name).to_owned() } else { line.problem.to_owned() };
                Some(bar(name, label, line, (*over)?))
            },
        );
        let bars: Vec<Bar> = bars.collect();
        // Few bars are grouped by problem. Many bars, one per problem, form a single group.
        if let Some(group) = groups.last_mut().filter(|_| !few) {
            group.bars.extend(bars);
        } else {
            let heading = format!("{}: {}", line.problem, line.best.subject());
            groups.push(Group { heading: if few { heading } else { String::new() }, bars });
        }
    }
    let over = if few { "each baseline" } else { strongest.unwrap_or("the strongest baseline") };
    let caption = format!(
        "Speedup of the fastest candidate over {over}. Bars start at 1x, on a logarithmic axis: the candidate is faster to \
         the right and slower to the left. Whiskers are 95% intervals; very narrow ones are not drawn. Pale bars are within the \
         noise. Measured, {}.",
        comparison.timer
    );
    let picture = bars::draw(TimeKind::Measured, "speedups over baselines", Axis::Ratio, "x", &groups);
    figure(TimeKind::Measured, picture, caption)
}

/// The mean speedup of every candidate over every baseline.
fn every_candidate(state: &RunState, comparison: &ComparisonTable<'_>) -> Block {
    let means: Vec<_> = state.means().into_iter().filter(|mean| mean.timer == comparison.timer).collect();
    let mut candidates: Vec<&str> = Vec::new();
    for mean in &means {
        if !candidates.contains(&mean.candidate.as_str()) {
            candidates.push(&mean.candidate);
        }
    }
    let head: Vec<&str> = ["candidate"].into_iter().chain(comparison.baselines.iter().copied()).collect();
    let mut table = Table::for_kind(
        TimeKind::Measured,
        "Geometric mean of the speedups over all problems, with its rating",
        &head,
        1,
    );
    for candidate in candidates {
        let cell = |baseline: &&str| {
            let mean = means.iter().find(|mean| mean.candidate == candidate && mean.baseline == **baseline);
            mean.map_or(Line::faint("not measured"), |mean| {
                let words = format!("{}, {}", mean.standing, count(mean.problems, "problem"));
                Line::text(ratio(mean.speedup)).with_small(words)
            })
        };
        let cells = comparison.baselines.iter().map(cell);
        table.row([Line::text(candidate)].into_iter().chain(cells).collect());
    }
    details("Every candidate over every baseline", vec![table.block()])
}

/// The size of a problem and the time of a subject on it.
struct Sized<'s> {
    subject: String,
    problem: &'s str,
    flops: f64,
    bytes: u64,
    micros: f64,
    is_baseline: bool,
}

/// A subject needs this many problems of different sizes for a line.
const MIN_SIZES: usize = 3;
/// How many subjects the figure of times over sizes shows.
const MAX_LINES: usize = 8;

/// The times of all subjects over the sizes of their problems. Empty if no subject has enough sizes.
fn scaling(kind: TimeKind, times: &[Sized<'_>]) -> Vec<Block> {
    // An op without floating-point operations has bytes only.
    let has_flops = times.iter().all(|it| it.flops > 0.0);
    let amount = |it: &Sized<'_>| if has_flops { it.flops } else { it.bytes as f64 };
    let largest = times.iter().map(amount).fold(0.0, f64::max);
    // The unit in which the largest problem has at least one digit before the point.
    let (unit, prefix) = match largest {
        1e12.. => (1e12, "T"),
        1e9.. => (1e9, "G"),
        1e6.. => (1e6, "M"),
        _ => (1e3, "k"),
    };
    let axis = if has_flops {
        format!("{prefix}FLOP of the problem")
    } else {
        format!("{prefix}B that the problem moves")
    };
    let size = |it: &Sized<'_>| amount(it) / unit;
    let mut subjects: indexmap::IndexMap<&str, (bool, Vec<lines::Point>)> = indexmap::IndexMap::new();
    for it in times {
        let title = format!("{} on {}: {}, {}", it.subject, it.problem, micros(it.micros), kind.word());
        let (_, points) = subjects.entry(&it.subject).or_insert((it.is_baseline, Vec::new()));
        points.push((size(it), it.micros, title));
    }
    for (_, points) in subjects.values_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    }
    subjects.retain(|_, (_, points)| {
        let mut sizes: Vec<f64> = points.iter().map(|it| it.0).collect();
        sizes.dedup();
        sizes.len() >= MIN_SIZES
    });
    let left_out = subjects.len().saturating_sub(MAX_LINES);
    subjects.truncate(MAX_LINES);
    let keys: Vec<Line> = subjects.keys().map(Line::with_knobs).collect();
    let lines: Vec<lines::Line> = subjects
        .into_values()
        .enumerate()
        .map(|(index, (is_faint, points))| lines::Line { label: (index + 1).to_string(), points, is_faint })
        .collect();
    let Some(picture) = lines::draw(kind, &axis, &lines) else { return Vec::new() };
    let others = if left_out > 0 { format!(" {left_out} more are in the tables.") } else { String::new() };
    let caption = format!("Time over the size of the problem, {}. Hollow: baselines.{others}", kind.word());
    vec![heading("Time against problem size"), figure_with_keys(kind, picture, caption, keys)]
}

fn measured_scaling(state: &RunState, rows: &[Row]) -> Vec<Block> {
    let Some(timer) = rows.iter().map(|row| row.timer).min() else { return Vec::new() };
    let sized = |row: &'_ Row| {
        let same = |it: &&runlog::Measurement| it.of == row.of && it.sampled.session == row.session;
        state.measurements.iter().find(same)?.sampled.work
    };
    let times: Vec<Sized<'_>> = rows
        .iter()
        .filter(|row| row.timer == timer)
        .filter_map(|row| {
            let work = sized(row)?;
            Some(Sized {
                subject: row.subject(),
                problem: &row.of.problem,
                flops: work.flops,
                bytes: work.bytes,
                micros: row.p50_us.0,
                is_baseline: row.is_baseline,
            })
        })
        .collect();
    scaling(TimeKind::Measured, &times)
}

fn modelled_scaling(state: &RunState) -> Vec<Block> {
    let times: Vec<Sized<'_>> = state
        .modelled
        .iter()
        .filter_map(|(of, modelled)| {
            let work = modelled.work?;
            Some(Sized {
                subject: state.subject(of),
                problem: &of.problem,
                flops: work.flops,
                bytes: work.bytes,
                micros: modelled.time_us.0,
                is_baseline: state.is_baseline(&of.subject),
            })
        })
        .collect();
    scaling(TimeKind::Modelled, &times)
}

/// Rooflines with the ceilings that this run measured: the fastest candidate and the fastest baseline of each problem.
fn rooflines(state: &RunState, rows: &[Row]) -> Vec<Block> {
    let copy = state.ceilings.iter().find_map(|ceiling| match ceiling.speed {
        Speed::CopyGbPerS(rate) => Some(rate),
        _ => None,
    });
    let Some(gb_per_s) = copy else { return Vec::new() };
    let mut figures = Vec::new();
    for ceiling in &state.ceilings {
        let (Speed::MatrixTflops(tflops), Some(matrix)) = (ceiling.speed, &ceiling.matrix) else { continue };
        let (points, list) = points(state, rows, matrix);
        let roofs = Roofs { tflops, gb_per_s };
        if let Some(picture) = roofline::draw(TimeKind::Measured, &roofs, &points) {
            let caption = format!(
                "Roofline under the ceilings measured in this run: {} TFLOP/s for {matrix} products, {} GB/s for \
                 copies. Filled: the fastest candidate of each problem; hollow: the fastest baseline. Bytes are the \
                 minimum that must be transferred.",
                number(tflops),
                thousands(gb_per_s),
            );
            let keys = list.iter().map(Line::text).collect();
            figures.push(figure_with_keys(TimeKind::Measured, picture, caption, keys));
        }
    }
    figures
}

fn points(state: &RunState, rows: &[Row], matrix: &str) -> (Vec<Point>, Vec<String>) {
    let Some(timer) = rows.iter().map(|row| row.timer).min() else { return (Vec::new(), Vec::new()) };
    let of = |row: &Row| {
        let same = |it: &&runlog::Measurement| it.of == row.of && it.sampled.session == row.session;
        let sampled = state.measurements.iter().find(same).map(|it| &it.sampled)?;
        let work = sampled.work?;
        (sampled.matrix.as_deref() == Some(matrix) && work.bytes > 0)
            .then(|| (work.flops / work.bytes as f64, row.tflops.unwrap_or(f64::NAN)))
    };
    let mut problems: Vec<&str> = Vec::new();
    for row in rows {
        if !problems.contains(&row.of.problem.as_str()) {
            problems.push(&row.of.problem);
        }
    }
    let (mut points, mut list) = (Vec::new(), Vec::new());
    for problem in problems {
        let here = || rows.iter().filter(|row| row.of.problem == problem && row.timer == timer);
        let fastest = |rows: &mut dyn Iterator<Item = &'_ Row>| -> Option<(f64, f64, String)> {
            let row = rows.min_by(|a, b| a.p50_us.0.total_cmp(&b.p50_us.0))?;
            let (flops_per_byte, tflops) = of(row)?;
            let words = format!("{}, {} TFLOP/s", row.of.subject, number(tflops));
            Some((flops_per_byte, tflops, words))
        };
        let candidate = fastest(&mut here().filter(|row| !row.over.is_empty() || !row.is_baseline));
        let baseline = fastest(&mut here().filter(|row| row.is_baseline));
        if candidate.is_none() && baseline.is_none() {
            continue;
        }
        let key = (list.len() + 1).to_string();
        let words = [&candidate, &baseline].into_iter().flatten().map(|it| it.2.as_str());
        list.push(format!("{problem}: {}", words.collect::<Vec<_>>().join("; ")));
        for (found, is_faint) in [(baseline, true), (candidate, false)] {
            let Some((flops_per_byte, tflops, words)) = found else { continue };
            points.push(Point {
                label: key.clone(),
                flops_per_byte,
                tflops,
                title: format!("{problem}: {words}"),
                is_faint,
            });
        }
    }
    (points, list)
}

/// The noise floor of the A/A controls of one timer.
pub struct ControlSpread<'s> {
    /// The median of the controls.
    pub median: f64,
    /// The control with the largest noise floor.
    pub worst: &'s Control,
}

/// The noise floor of each timer.
pub fn noise_floors(state: &RunState) -> BTreeMap<Timer, ControlSpread<'_>> {
    let mut timers: BTreeMap<Timer, Vec<&Control>> = BTreeMap::new();
    for control in &state.controls {
        timers.entry(control.timer).or_default().push(control);
    }
    let share = |control: &Control| control.noise_floor.share();
    let mut floors = BTreeMap::new();
    for (timer, mut controls) in timers {
        controls.sort_by(|a, b| share(a).total_cmp(&share(b)));
        if let Some(worst) = controls.last() {
            floors.insert(timer, ControlSpread { median: share(controls[(controls.len() - 1) / 2]), worst });
        }
    }
    floors
}

fn noise(state: &RunState) -> Block {
    let floors = noise_floors(state);
    if floors.is_empty() {
        return missing("No A/A control was measured, so the noise floor is unknown.");
    }
    let floors: Vec<String> = floors
        .iter()
        .map(|(timer, ControlSpread { median, worst })| {
            format!(
                "{:.2}% ({timer}; {:.2}% at most, {} on {})",
                100.0 * median,
                100.0 * worst.noise_floor.share(),
                worst.subject,
                worst.problem
            )
        })
        .collect();
    Block::Paragraph(Line::text(format!(
        "Noise floor: in A/A controls, which compare one process of a subject with its other processes, the median \
         difference was {}. A speedup counts only if it differs from 1x by more than the variation between the \
         processes of the two subjects.",
        floors.join(", "),
    )))
}

/// Preparatory work of some subjects, which is not part of any time.
fn untimed_work(state: &RunState) -> Option<Block> {
    let mut table = Table::for_kind(
        TimeKind::Measured,
        "Preparatory work, which is not part of the times above",
        &["subject", "problem", "work", "time"],
        3,
    );
    let mut seen = BTreeSet::new();
    for measurement in &state.measurements {
        for (name, nanos) in &measurement.sampled.apart_ns {
            let of = &measurement.of;
            if seen.insert((&of.problem, &of.subject, name)) {
                let time = Line::text(micros(nanos / 1000.0));
                table.row(vec![Line::text(&of.subject), Line::text(&of.problem), Line::text(name), time]);
            }
        }
    }
    let title = format!("Work that is not part of these times: {}", seen.len());
    (!table.is_empty()).then(|| details(&title, vec![table.block()]))
}

/// All measurements, one table per problem.
fn measurements(rows: &[Row]) -> Vec<Block> {
    let mut problems: indexmap::IndexMap<&str, Vec<&Row>> = indexmap::IndexMap::new();
    for row in rows {
        problems.entry(&row.of.problem).or_default().push(row);
    }
    let table_for = |(problem, mut rows): (&str, Vec<&Row>)| {
        rows.sort_by(|a, b| a.timer.cmp(&b.timer).then(a.p50_us.0.total_cmp(&b.p50_us.0)));
        let head = ["subject", "timer", "median", "p90", "p99", "TFLOP/s", "GB/s", "ceiling", "samples"];
        let caption = format!(
            "Every measurement on {problem}, the fastest first. With several processes, the median is the mean of \
             their medians, and its interval includes the variation between processes"
        );
        let mut table = Table::for_kind(TimeKind::Measured, &caption, &head, 2);
        let or_none =
            |value: Option<f64>| value.map_or(Line::faint("n/a"), |value| Line::text(number(value)));
        for row in &rows {
            let role = if row.is_baseline { "baseline" } else { "" };
            table.row(vec![
                Line::with_knobs(row.subject()).with_small(role),
                Line::text(row.timer),
                median(row),
                Line::text(micros(row.p90_us.0)),
                Line::text(micros(row.p99_us.0)),
                or_none(row.tflops),
                or_none(row.gb_per_s),
                row.ceiling_percent.map_or(Line::faint("n/a"), Line::meter),
                Line::text(row.count).with_small(format!(
                    "{}, {}",
                    in_processes(row.processes),
                    row.stopped.words()
                )),
            ]);
        }
        details(&format!("{problem}: {}", count(rows.len(), "measurement")), vec![table.block()])
    };
    problems.into_iter().map(table_for).collect()
}

fn builds(state: &RunState) -> Option<Block> {
    let mut table = Table::new(
        "Builds of the candidates",
        &["subject", "target", "build", "registers", "shared memory", "spills", "compiled in"],
        3,
    );
    let mut seen: Vec<&str> = Vec::new();
    for (of, build) in &state.builds {
        if seen.contains(&of.build.as_str()) {
            continue;
        }
        seen.push(&of.build);
        let spills = match build.spill_bytes {
            0 => Line::text("none"),
            bytes => Line::mark(Tone::Bad, format!("{bytes} B")),
        };
        let limit = build.registers_limit.map_or(String::new(), |limit| format!("of {limit}"));
        table.row(vec![
            Line::with_knobs(state.subject(of)),
            Line::text(&build.target),
            Line::code(of.build.chars().take(12).collect::<String>()),
            Line::text(build.registers).with_small(limit),
            Line::text(format!("{} B", thousands(build.shared_bytes as f64))),
            spills,
            Line::text(format!("{:.0} ms", build.compile_ms)).with_small(if build.from_cache {
                "cached"
            } else {
                ""
            }),
        ]);
    }
    (!seen.is_empty()).then(|| details(&format!("Builds: {}", seen.len()), vec![table.block()]))
}

/// The section with the modelled times.
pub fn modelled(state: &RunState) -> Option<Section> {
    if state.modelled.is_empty() {
        return None;
    }
    let mut problems: indexmap::IndexMap<&str, Vec<_>> = indexmap::IndexMap::new();
    for (of, modelled) in &state.modelled {
        problems.entry(&of.problem).or_default().push((of, modelled));
    }
    let head = ["problem", "kernel", "GPU", "limited by", "modelled time"];
    let mut table =
        Table::for_kind(TimeKind::Modelled, "Modelled times, computed and not measured", &head, 4);
    let mut groups = Vec::new();
    for (problem, mut times) in problems {
        times.sort_by(|a, b| a.1.time_us.0.total_cmp(&b.1.time_us.0));
        let mut bars = Vec::new();
        for (of, modelled) in times {
            table.row(vec![
                Line::text(problem),
                Line::with_knobs(state.subject(of)),
                Line::text(&modelled.gpu),
                modelled.limiter.as_ref().map_or(Line::faint("n/a"), Line::text),
                Line::text(micros(modelled.time_us.0)).styled_as(TimeKind::Modelled),
            ]);
            bars.push(Bar {
                label: state.subject(of),
                value: modelled.time_us.0,
                interval: None,
                text: micros(modelled.time_us.0),
                title: format!("{} on {problem}: {}, {}", state.subject(of), modelled.time_us, modelled.gpu),
                is_faint: false,
            });
        }
        groups.push(Group { heading: problem.to_owned(), bars });
    }
    let picture = bars::draw(TimeKind::Modelled, "modelled times", Axis::Time, " us", &groups);
    let caption = "Modelled time of each kernel, computed by the virtual GPU. Each problem has its own axis. \
                   A bar with two strokes is longer than the axis.";
    let mut body = vec![figure(TimeKind::Modelled, picture, caption)];
    body.extend(modelled_scaling(state));
    body.push(if state.modelled.len() > MAX_OPEN_ROWS {
        details(&format!("Every modelled time: {}", state.modelled.len()), vec![table.block()])
    } else {
        table.block()
    });
    Some(Section::new("modelled", "Modelled, not measured", body))
}

/// The section with the results of the checks.
pub fn correctness(state: &RunState) -> Option<Section> {
    if state.checks.is_empty() {
        return None;
    }
    let passed = state.checks.values().filter(|check| check.passed).count();
    let cases: u32 = state.checks.values().map(|check| check.cases).sum();
    let worst = state
        .checks
        .iter()
        .filter(|(_, check)| check.passed)
        .filter_map(|(of, check)| Some((of, 100.0 * check.error? / check.limit?)))
        .filter(|(_, percent)| percent.is_finite())
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let mut words = format!(
        "{passed} of {} passed, over {}.",
        count(state.checks.len(), "check"),
        count(cases as usize, "case")
    );
    if let Some((of, percent)) = worst {
        words += &format!(
            " The one closest to its limit is {} on {}: {percent:.0}% of the allowed error.",
            of.subject, of.problem
        );
    }
    if passed < state.checks.len() {
        words += " The others are listed under failures, and were not timed.";
    }
    let mut table = Table::new(
        "Relative L2 error compared with float64, and its limit",
        &["subject", "problem", "result", "error", "limit", "cases"],
        3,
    );
    for (of, check) in &state.checks {
        let error = |value: Option<f64>| {
            value.map_or(Line::faint("none"), |value| Line::text(format!("{value:.1e}")))
        };
        let mark =
            if check.passed { Line::mark(Tone::Good, "correct") } else { Line::mark(Tone::Bad, "wrong") };
        table.row(vec![
            Line::with_knobs(&of.subject),
            Line::text(&of.problem),
            mark,
            error(check.error),
            error(check.limit),
            Line::text(check.cases),
        ]);
    }
    let body = vec![Block::Paragraph(Line::text(words)), details("Every check", vec![table.block()])];
    Some(Section::new("correctness", "Correctness", body))
}

/// The name and the value of a measured ceiling.
pub fn ceiling_text(speed: Speed, matrix: Option<&str>) -> (String, String) {
    match speed {
        Speed::MatrixTflops(rate) => {
            (format!("{} products", matrix.unwrap_or("matrix")), format!("{} TFLOP/s", number(rate)))
        }
        Speed::CopyGbPerS(rate) => ("copy".to_owned(), format!("{} GB/s", thousands(rate))),
        Speed::LaunchFloorUs(MeasuredMicros(time)) => ("empty launch".to_owned(), micros(time)),
    }
}
