//! `summary.md`: the report as Markdown.

use std::io::{self, Write};

use runlog::inert_knobs::{InertKnob, inert};
use runlog::record::{InversionResult, METRICS, Metric, Metrics};
use runlog::{Fact, Row, RunState, Speed, TrialResult, rows};
use text::escape::markdown as escaped;

use super::TimeKind;
use super::advice::{bottlenecks, suggestions};
use super::facts::Facts;
use super::failures::left_out;
use super::headline;
use super::importance::importance;
use super::page::{command, ranked};
use super::search::elite_rule;
use super::words::{count, is_knob, micros, ratio};
use crate::export::Exporter;

/// How many bottlenecks and suggested changes are listed.
const TOP: usize = 3;

/// Writes `summary.md`.
#[derive(Debug)]
pub struct Markdown;

impl Exporter for Markdown {
    fn file_name(&self) -> &'static str {
        "summary.md"
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        let rows = rows(state);
        let facts = Facts::new(state, &rows);
        head(&facts, out)?;
        targets(state, out)?;
        measured(&facts, out)?;
        modelled(state, out)?;
        searched(&facts, out)?;
        profiled(&facts, out)?;
        inverted(state, out)?;
        failures(&facts, out)?;
        list(out, "Notes", state.notes.iter().chain(&state.warnings).map(|note| escaped(note)))?;
        repeat(state, out)
    }
}

fn cells(out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
    writeln!(out, "| {} |", cells.join(" | "))
}

/// Writes a table. The last `right` columns hold numbers.
fn table(out: &mut dyn Write, head: &[&str], right: usize, rows: &[Vec<String>]) -> io::Result<()> {
    cells(out, &head.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let rule = |column: usize| if column + right >= head.len() { "---:" } else { "---" }.to_owned();
    cells(out, &(0..head.len()).map(rule).collect::<Vec<_>>())?;
    rows.iter().try_for_each(|row| cells(out, row))?;
    writeln!(out)
}

fn list(out: &mut dyn Write, title: &str, lines: impl Iterator<Item = String>) -> io::Result<()> {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "## {title}\n")?;
    lines.try_for_each(|line| writeln!(out, "- {line}"))?;
    writeln!(out)
}

fn head(facts: &Facts<'_>, out: &mut dyn Write) -> io::Result<()> {
    let state = facts.state;
    let Some(manifest) = &state.manifest else {
        return writeln!(out, "# A run that stopped before it started\n");
    };
    writeln!(out, "# warpsmith {}, {}\n", escaped(&manifest.command), manifest.started.short())?;
    writeln!(out, "**{}**\n", coded(&headline::headline_of(facts).sentence))?;
    if let Some(rule) = elite_rule(&facts.better_than_elites, &facts.elites) {
        writeln!(out, "{}\n", coded(&rule))?;
    }
    let result = match state.outcome {
        Some(outcome) => outcome.to_string(),
        None => "incomplete: stopped before the end".to_owned(),
    };
    writeln!(out, "- result: {result}")?;
    writeln!(
        out,
        "- GPU: {}, driver {}",
        escaped(&manifest.gpu.to_string()),
        escaped(&manifest.driver.to_string())
    )?;
    writeln!(out, "- commit: {}", escaped(&manifest.commit.to_string()))?;
    for (name, version) in &state.baselines {
        writeln!(out, "- {}: {}", escaped(name), escaped(&version.to_string()))?;
    }
    for ceiling in &state.ceilings {
        let matrix = ceiling.matrix.as_deref().unwrap_or_default();
        match ceiling.speed {
            Speed::MatrixTflops(rate) => {
                writeln!(out, "- ceiling: {rate:.1} TFLOP/s {}, measured in this run", escaped(matrix))?;
            }
            Speed::CopyGbPerS(rate) => {
                writeln!(out, "- ceiling: {rate:.0} GB/s for copies, measured in this run")?;
            }
            Speed::LaunchFloorUs(time) => writeln!(out, "- an empty launch takes {time}")?,
        }
    }
    writeln!(out)
}

fn measured(facts: &Facts<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (state, rows) = (facts.state, facts.rows);
    if rows.is_empty() {
        return writeln!(out, "Nothing was measured.\n");
    }
    writeln!(out, "## Measured\n")?;
    for comparison in &facts.tables {
        writeln!(
            out,
            "Speedup of the fastest candidate of each problem over each baseline, with 95% intervals; {}:\n",
            comparison.timer
        )?;
        let names: Vec<String> = comparison.baselines.iter().map(|name| escaped(name)).collect();
        let head: Vec<&str> = ["problem", "fastest candidate", "p50"]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .collect();
        let line = |line: &super::comparison::ComparisonRow<'_>| {
            let over = line.over.iter().map(|over| {
                over.map_or("not measured".to_owned(), |over| {
                    let interval = over.speedup.interval;
                    format!("{:.2}x ({:.2} - {:.2})", over.speedup.ratio, interval.low, interval.high)
                })
            });
            let names = [escaped(line.problem), escaped(&line.best.subject()), line.best.p50_us.to_string()];
            names.into_iter().chain(over).collect()
        };
        table(out, &head, names.len() + 1, &comparison.lines.iter().map(line).collect::<Vec<Vec<String>>>())?;
    }
    writeln!(out, "All measurements:\n")?;
    let head = [
        "problem",
        "subject",
        "timer",
        "baseline",
        "verdict",
        "p50",
        "95% interval",
        "processes",
        "p90",
        "TFLOP/s",
        "% of ceiling",
        "speedup",
    ];
    table(out, &head, 6, &rows.iter().flat_map(comparison_lines).collect::<Vec<_>>())?;
    for mean in state.means() {
        writeln!(
            out,
            "{} over {} ({}): {:.2}x, {} (geometric mean of {})\n",
            escaped(&mean.candidate),
            escaped(&mean.baseline),
            mean.timer,
            mean.speedup,
            mean.standing,
            count(mean.problems, "problem"),
        )?;
    }
    for row in rows.iter().filter(|row| row.throttled == Some(true)) {
        writeln!(
            out,
            "The GPU throttled its clocks while {} ran on {}.\n",
            escaped(&row.of.subject),
            escaped(&row.of.problem)
        )?;
    }
    Ok(())
}

/// One line per baseline that the subject was compared with, or one line without a comparison.
fn comparison_lines(row: &Row) -> Vec<Vec<String>> {
    let number = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| format!("{value:.1}"));
    let line = |baseline: String, verdict: String, speedup: String| {
        vec![
            escaped(&row.of.problem),
            escaped(&row.subject()),
            row.timer.to_string(),
            baseline,
            verdict,
            row.p50_us.to_string(),
            format!("{:.2} - {:.2}", row.interval_us.low, row.interval_us.high),
            row.processes.to_string(),
            row.p90_us.to_string(),
            number(row.tflops),
            number(row.ceiling_percent),
            speedup,
        ]
    };
    if row.over.is_empty() {
        return vec![line("-".to_owned(), "-".to_owned(), "-".to_owned())];
    }
    let compared = row.over.iter().map(|over| {
        let speedup = over.comparison.speedup;
        let interval = speedup.interval;
        let text = format!("{:.2}x ({:.2} - {:.2})", speedup.ratio, interval.low, interval.high);
        line(escaped(&over.baseline), over.comparison.verdict.to_string(), text)
    });
    compared.collect()
}

fn modelled(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    if state.modelled.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Modelled, not measured\n")?;
    let rows: Vec<Vec<String>> = state
        .modelled
        .iter()
        .map(|(of, modelled)| {
            let limiter = modelled.limiter.as_deref().unwrap_or("n/a");
            let time = modelled.time_us.to_string();
            vec![
                escaped(&of.problem),
                escaped(&state.subject(of)),
                escaped(&modelled.gpu),
                escaped(limiter),
                time,
            ]
        })
        .collect();
    table(out, &["problem", "subject", "GPU", "limited by", "time"], 1, &rows)
}

fn searched(facts: &Facts<'_>, out: &mut dyn Write) -> io::Result<()> {
    let state = facts.state;
    if state.search.is_none() && state.trials.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Search\n")?;
    let counts = &facts.counts;
    if let Some(search) = &state.search {
        writeln!(
            out,
            "{} over {}: {} combinations, {} of them valid. Strategy {}, proposer {}, seed {}, budget {}. Speedups are \
             over {}.\n",
            escaped(&search.family),
            escaped(&search.problems.join(", ")),
            search.raw_points,
            search.legal_points,
            escaped(&search.strategy),
            escaped(&search.proposer),
            search.seed,
            search.budget,
            escaped(&search.baseline),
        )?;
    }
    writeln!(
        out,
        "{}: {} timed, {} with the machine code of an earlier trial, {} failed.\n",
        count(counts.all(), "trial"),
        counts.timed,
        counts.same,
        counts.failed,
    )?;
    for kind in TimeKind::ALL {
        if !facts.scored.iter().any(|it| it.kind == kind) {
            continue;
        }
        let elite = |elite: &super::search::Scored<'_>| {
            let TrialResult::Timed { problems, .. } = &elite.trial.result else { return Vec::new() };
            let times = problems.iter().map(|time| {
                let spread =
                    time.interval.map_or(String::new(), |(low, high)| format!(" ({low:.2} - {high:.2})"));
                format!(
                    "{} {}: {:.2}x{spread}",
                    escaped(&time.problem),
                    micros(time.time.micros()),
                    time.speedup
                )
            });
            let node = facts.lineage.iter().find(|node| node.trial.number == elite.trial.number);
            let from = elite.trial.parent.map_or("-".to_owned(), |parent| {
                format!("#{parent}, {}", escaped(node.map_or("", |node| node.change.as_str())))
            });
            vec![
                escaped(&elite.trial.candidate),
                format!("#{}", elite.trial.number),
                from,
                times.collect::<Vec<_>>().join("; "),
                format!("{:.2}x", elite.score),
            ]
        };
        let kept: Vec<Vec<String>> =
            facts.elites.iter().filter(|elite| elite.kind == kind).map(elite).collect();
        writeln!(out, "### Elites, {}\n", kind.word())?;
        if kept.is_empty() {
            writeln!(out, "No trial became an elite.\n")?;
        } else {
            table(out, &["elite", "trial", "parent", "times", "score"], 1, &kept)?;
        }
        let knobs: Vec<Vec<String>> = importance(&facts.scored, kind)
            .iter()
            .map(|it| {
                let best = it.values.first().map_or("-".to_owned(), |value| {
                    format!("{} ({:.2}x, {})", escaped(value.name), value.score, count(value.trials, "trial"))
                });
                vec![escaped(it.knob), best, format!("{:.0}%", 100.0 * it.share)]
            })
            .collect();
        if !knobs.is_empty() {
            writeln!(
                out,
                "Share of the variance of log time that each knob explains alone (epsilon squared, {}):\n",
                kind.word()
            )?;
            table(out, &["knob", "best value", "share"], 1, &knobs)?;
        }
    }
    for InertKnob { knob, pairs } in inert(state.trials.values()) {
        writeln!(
            out,
            "{} has no effect: {} of trials that differ only in this knob compiled to the same machine code.\n",
            escaped(&knob),
            count(pairs, "pair"),
        )?;
    }
    Ok(())
}

fn profiled(facts: &Facts<'_>, out: &mut dyn Write) -> io::Result<()> {
    let state = facts.state;
    if state.profiles.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Profile\n")?;
    for (of, profile) in &state.profiles {
        writeln!(
            out,
            "### {} on {}, {}\n",
            escaped(&of.subject),
            escaped(&of.problem),
            escaped(&profile.source)
        )?;
        let rows: Vec<Vec<String>> = metric_values(&profile.metrics)
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), escaped(&value)])
            .collect();
        table(out, &["metric", "value"], 1, &rows)?;
        if let Some(roof) = &profile.roofline {
            writeln!(out, "Roofline: {}.\n", escaped(&roof.text()))?;
        }
        for found in &profile.diagnoses {
            let changes: Vec<String> = found.levers.iter().map(|lever| escaped(&lever.to_string())).collect();
            let changes = if changes.is_empty() {
                String::new()
            } else {
                format!(" Suggested changes: {}.", changes.join("; "))
            };
            writeln!(out, "- {}: {}.{changes}", escaped(&found.rule), escaped(&found.evidence))?;
        }
        writeln!(out)?;
    }
    list(
        out,
        "What to do next",
        suggestions(&facts.bottlenecks, TOP).iter().map(|suggestion| {
            let because = suggestion.because;
            format!(
                "{} ({} on {}: {})",
                escaped(&suggestion.change.to_string()),
                escaped(&because.of.subject),
                escaped(&because.of.problem),
                escaped(&because.diagnosis.rule)
            )
        }),
    )
}

/// Every metric with its value, or with the reason why it has none.
fn metric_values(metrics: &Metrics) -> Vec<(&'static str, String)> {
    let time = metrics.time.map_or("unavailable".to_owned(), |time| {
        format!("{} ({})", micros(time.micros()), TimeKind::from_time(time).word())
    });
    let value = |metric: &Metric| {
        let unknown = |reason: String| Fact::<f64>::Unavailable { reason }.to_string();
        (metric.label, metric.text(metrics).unwrap_or_else(unknown))
    };
    [("time", time)].into_iter().chain(METRICS.iter().map(value)).collect()
}

fn inverted(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let ranked = ranked(state);
    if ranked.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Inversion: the cost of known pathologies\n")?;
    let rows: Vec<Vec<String>> = ranked
        .iter()
        .map(|(inversion, time, healthy, cost)| {
            let evidence = match &inversion.result {
                InversionResult::Timed { evidence, .. } => escaped(evidence),
                InversionResult::Failed { .. } => String::new(),
            };
            vec![
                escaped(&inversion.pathology),
                escaped(&inversion.healthy),
                escaped(&inversion.problem),
                evidence,
                escaped(&inversion.advice),
                format!(
                    "{} instead of {}, {}",
                    micros(time.micros()),
                    micros(healthy.micros()),
                    TimeKind::from_time(*time).word()
                ),
                ratio(*cost),
            ]
        })
        .collect();
    table(out, &["pathology", "kernel", "problem", "evidence", "advice", "time", "cost"], 1, &rows)
}

fn failures(facts: &Facts<'_>, out: &mut dyn Write) -> io::Result<()> {
    let lines = facts.failures.iter().filter(|failed| failed.is_failure()).map(|failed| {
        let on = if failed.on.is_empty() { String::new() } else { format!(" on {}", escaped(&failed.on)) };
        format!(
            "{}{on}: {} ({}): {}",
            coded(&failed.what),
            failed.kind,
            escaped(&failed.at),
            escaped(&failed.reason)
        )
    });
    list(out, "Failures", lines)?;
    let groups = left_out(&facts.failures);
    let lines = groups.iter().map(|group| {
        let first = &group.all[0];
        let others = match group.all.len() {
            1 => String::new(),
            number => format!(", and {} more", number - 1),
        };
        format!("{} ({}): {}{others}", escaped(group.reason), escaped(group.kind), coded(&first.what))
    });
    list(out, "Left out: not supported, not installed or skipped", lines)
}

/// Text with its knobs as code.
fn coded(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches([' ', ',', ':', ';', '.', ')']);
        // A knob has no character that Markdown interprets between backticks.
        if is_knob(bare) { format!("`{bare}`{}", &word[bare.len()..]) } else { escaped(word) }
    };
    text.split_inclusive(' ').map(word).collect()
}

fn targets(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let lines = state.targets.iter().map(|target| {
        let word = match target.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not judged",
        };
        let problem = target.problem.as_ref().map(|problem| format!(" on {}", escaped(problem)));
        let evidence = escaped(&target.evidence);
        let mut line =
            format!("{word}: {}{} ({evidence})", escaped(&target.target), problem.unwrap_or_default());
        if target.met == Some(false) {
            line += &limits_and_suggestions(state, target.problem.as_deref());
        }
        line
    });
    list(out, "Targets", lines)
}

/// The limits of the kernel and the suggested changes for a missed target, as list items below it.
fn limits_and_suggestions(state: &RunState, problem: Option<&str>) -> String {
    let found = bottlenecks(state, problem);
    if found.is_empty() {
        return "\n  - limits: unknown, because this run has no profile".to_owned();
    }
    let limits: Vec<String> = found
        .iter()
        .take(TOP)
        .map(|it| format!("{} ({})", escaped(&it.diagnosis.rule), escaped(&it.diagnosis.evidence)))
        .collect();
    let changes: Vec<String> =
        suggestions(&found, TOP).iter().map(|it| escaped(&it.change.to_string())).collect();
    format!("\n  - limits: {}\n  - most promising changes: {}", limits.join("; "), changes.join("; "))
}

fn repeat(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let Some(manifest) = &state.manifest else { return Ok(()) };
    writeln!(out, "## How to repeat this run\n")?;
    // The fence is longer than any run of backticks in the text, so the text cannot end it.
    let command = command(manifest);
    let fence = "`".repeat(3 + command.matches('`').count());
    writeln!(out, "{fence}\n{}\n{fence}\n", command.replace(['\n', '\r'], " "))?;
    writeln!(
        out,
        "Seed {}, Warpsmith {}, commit {}.",
        manifest.seed,
        escaped(&manifest.warpsmith),
        escaped(&manifest.commit.to_string())
    )
}
