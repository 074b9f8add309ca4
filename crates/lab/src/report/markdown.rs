//! `summary.md`: the run for people.

use std::io::{self, Write};

use super::Kind;
use super::advice::{bottlenecks, levers};
use super::comparison::boards;
use super::failures::failures as all_failures;
use super::headline;
use super::importance::importance;
use super::page::{command, ranked};
use super::search::{elites, lineage, scored, tally};
use super::words::{count, micros, ratio};
use crate::evolve::knobs::{InertKnob, dead};
use crate::invert::InversionResult;
use crate::profile::Metrics;
use crate::run::{Exporter, Fact, Row, RunState, Speed, TrialResult, rows};

/// Bottlenecks and levers that are listed.
const TOP: usize = 3;

#[derive(Debug)]
pub struct Markdown;

impl Exporter for Markdown {
    fn file_name(&self) -> &'static str {
        "summary.md"
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        let rows = rows(state);
        head(state, &rows, out)?;
        targets(state, out)?;
        measured(state, &rows, out)?;
        modelled(state, out)?;
        searched(state, out)?;
        profiled(state, out)?;
        inverted(state, out)?;
        failures(state, out)?;
        list(out, "Notes", state.notes.iter().chain(&state.warnings).map(|note| plain(note)))?;
        repeat(state, out)
    }
}

/// Text from outside on one line, with nothing in it that ends a cell, starts a block or is taken for HTML.
fn plain(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    one_line.replace('|', "\\|").replace('&', "&amp;").replace('<', "&lt;")
}

fn cells(out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
    writeln!(out, "| {} |", cells.join(" | "))
}

/// A table; `right` of its columns from the end hold numbers.
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

fn head(state: &RunState, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let Some(manifest) = &state.manifest else {
        return writeln!(out, "# A run that was stopped before it began\n");
    };
    writeln!(out, "# warpsmith {}, {}\n", plain(&manifest.command), manifest.started.short())?;
    writeln!(out, "**{}**\n", plain(&headline::say(state, rows).sentence))?;
    let came_to = match state.outcome {
        Some(outcome) => outcome.to_string(),
        None => "incomplete: stopped before its end".to_owned(),
    };
    writeln!(out, "- result: {came_to}")?;
    writeln!(
        out,
        "- GPU: {}, driver {}",
        plain(&manifest.gpu.to_string()),
        plain(&manifest.driver.to_string())
    )?;
    writeln!(out, "- commit: {}", plain(&manifest.commit.to_string()))?;
    for (name, version) in &state.baselines {
        writeln!(out, "- {}: {}", plain(name), plain(&version.to_string()))?;
    }
    for ceiling in &state.ceilings {
        let matrix = ceiling.matrix.as_deref().unwrap_or_default();
        match ceiling.speed {
            Speed::MatrixTflops(rate) => {
                writeln!(out, "- ceiling: {rate:.1} TFLOP/s {}, measured in this run", plain(matrix))?;
            }
            Speed::CopyGbPerS(rate) => {
                writeln!(out, "- ceiling: {rate:.0} GB/s copying, measured in this run")?;
            }
            Speed::LaunchFloorUs(time) => writeln!(out, "- an empty launch takes {time}")?,
        }
    }
    writeln!(out)
}

fn measured(state: &RunState, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "Nothing was measured.\n");
    }
    writeln!(out, "## Measured\n")?;
    for board in boards(rows) {
        writeln!(
            out,
            "The fastest candidate of each problem over each baseline, with 95% intervals; {}:\n",
            board.timer
        )?;
        let names: Vec<String> = board.baselines.iter().map(|name| plain(name)).collect();
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
            let names = [plain(line.problem), plain(&line.best.of.subject), line.best.p50_us.to_string()];
            names.into_iter().chain(over).collect()
        };
        table(out, &head, names.len() + 1, &board.lines.iter().map(line).collect::<Vec<Vec<String>>>())?;
    }
    writeln!(out, "Everything that was measured:\n")?;
    let head = [
        "problem",
        "subject",
        "timer",
        "against",
        "verdict",
        "p50",
        "95% interval",
        "processes",
        "p90",
        "TFLOP/s",
        "% of ceiling",
        "speedup",
    ];
    table(out, &head, 6, &rows.iter().flat_map(lines).collect::<Vec<_>>())?;
    for mean in state.means() {
        writeln!(
            out,
            "{} over {} ({}): {:.2}x, {} (geometric mean of {} problem{})\n",
            plain(&mean.candidate),
            plain(&mean.baseline),
            mean.timer,
            mean.speedup,
            mean.standing,
            mean.problems,
            if mean.problems == 1 { "" } else { "s" },
        )?;
    }
    for row in rows.iter().filter(|row| row.throttled == Some(true)) {
        writeln!(
            out,
            "Clocks were held down while {} ran on {}.\n",
            plain(&row.of.subject),
            plain(&row.of.problem)
        )?;
    }
    Ok(())
}

/// A line per baseline the subject was compared with, or one.
fn lines(row: &Row) -> Vec<Vec<String>> {
    let number = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| format!("{value:.1}"));
    let line = |against: String, verdict: String, speedup: String| {
        vec![
            plain(&row.of.problem),
            plain(&row.of.subject),
            row.timer.to_string(),
            against,
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
        line(plain(&over.baseline), over.comparison.verdict.to_string(), text)
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
            vec![plain(&of.problem), plain(&of.subject), plain(&modelled.gpu), plain(limiter), time]
        })
        .collect();
    table(out, &["problem", "subject", "GPU", "limited by", "time"], 1, &rows)
}

fn searched(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    if state.search.is_none() && state.trials.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Search\n")?;
    let tally = tally(state);
    if let Some(search) = &state.search {
        writeln!(
            out,
            "{} over {}: {} combinations, {} of them allowed. Strategy {}, proposer {}, seed {}, budget {}. A speedup of \
             1x is {}.\n",
            plain(&search.family),
            plain(&search.problems.join(", ")),
            search.raw_points,
            search.legal_points,
            plain(&search.strategy),
            plain(&search.proposer),
            search.seed,
            search.budget,
            plain(&search.baseline),
        )?;
    }
    writeln!(
        out,
        "{}: {} timed, {} the same machine code as an earlier one, {} failed.\n",
        count(tally.all(), "trial"),
        tally.timed,
        tally.same,
        tally.failed,
    )?;
    for kind in Kind::ALL {
        if !scored(state).iter().any(|it| it.kind == kind) {
            continue;
        }
        let tree = lineage(state);
        let elite = |elite: &super::search::Scored<'_>| {
            let TrialResult::Timed { problems, .. } = &elite.trial.result else { return Vec::new() };
            let times = problems.iter().map(|time| {
                let spread =
                    time.interval.map_or(String::new(), |(low, high)| format!(" ({low:.2} - {high:.2})"));
                format!(
                    "{} {}: {:.2}x{spread}",
                    plain(&time.problem),
                    micros(time.time.micros()),
                    time.speedup
                )
            });
            let node = tree.iter().find(|node| node.trial.number == elite.trial.number);
            let from = elite.trial.parent.map_or("-".to_owned(), |parent| {
                format!("#{parent}, {}", plain(node.map_or("", |node| node.change.as_str())))
            });
            vec![
                plain(&elite.trial.candidate),
                format!("#{}", elite.trial.number),
                from,
                times.collect::<Vec<_>>().join("; "),
                format!("{:.2}x", elite.score),
            ]
        };
        let kept: Vec<Vec<String>> =
            elites(state).iter().filter(|elite| elite.kind == kind).map(elite).collect();
        writeln!(out, "### Elites, {}\n", kind.word())?;
        if kept.is_empty() {
            writeln!(out, "No trial joined the elites.\n")?;
        } else {
            table(out, &["elite", "trial", "from", "times", "score"], 1, &kept)?;
        }
        let knobs: Vec<Vec<String>> = importance(state, kind)
            .iter()
            .map(|it| {
                let best = it.values.first().map_or("-".to_owned(), |value| {
                    format!("{} ({:.2}x, {})", plain(value.name), value.score, count(value.trials, "trial"))
                });
                vec![plain(it.knob), best, format!("{:.0}%", 100.0 * it.share)]
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
    for InertKnob { knob, pairs } in dead(state.trials.values()) {
        writeln!(
            out,
            "{} is dead: {} differing in nothing else compiled to the same machine code.\n",
            plain(&knob),
            count(pairs, "pair"),
        )?;
    }
    Ok(())
}

fn profiled(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    if state.profiles.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Profile\n")?;
    for (of, profile) in &state.profiles {
        writeln!(out, "### {} on {}, {}\n", plain(&of.subject), plain(&of.problem), plain(&profile.source))?;
        let rows: Vec<Vec<String>> = seen(&profile.metrics)
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), plain(&value)])
            .collect();
        table(out, &["metric", "value"], 1, &rows)?;
        if let Some(roof) = &profile.roofline {
            writeln!(
                out,
                "{:.1} TFLOP/s at {:.1} operations per byte, under {:.1} TFLOP/s and {:.0} GB/s ({}).\n",
                roof.tflops,
                roof.flops_per_byte,
                roof.peak_tflops,
                roof.peak_gb_per_s,
                plain(&roof.peaks),
            )?;
        }
        for found in &profile.diagnoses {
            let levers: Vec<String> = found.levers.iter().map(|lever| plain(lever)).collect();
            let levers =
                if levers.is_empty() { String::new() } else { format!(" Levers: {}.", levers.join("; ")) };
            writeln!(out, "- {}: {}.{levers}", plain(&found.rule), plain(&found.evidence))?;
        }
        writeln!(out)?;
    }
    let next = bottlenecks(state, None);
    list(
        out,
        "What to do next",
        levers(&next, TOP).iter().map(|lever| {
            let because = lever.because;
            format!(
                "{} ({} on {}: {})",
                plain(lever.lever),
                plain(&because.of.subject),
                plain(&because.of.problem),
                plain(&because.diagnosis.rule)
            )
        }),
    )
}

/// Every metric with its value, or why there is none.
fn seen(metrics: &Metrics) -> Vec<(&'static str, String)> {
    let percent = |fact: &Fact<f64>| match fact {
        Fact::Known(value) => format!("{value:.1}%"),
        unknown @ Fact::Unavailable { .. } => unknown.to_string(),
    };
    let sectors = match &metrics.sectors_per_request {
        Fact::Known(value) => format!("{value:.2}"),
        unknown @ Fact::Unavailable { .. } => unknown.to_string(),
    };
    let time = metrics.time.map_or("unavailable".to_owned(), |time| {
        format!("{} ({})", micros(time.micros()), Kind::from_time(time).word())
    });
    vec![
        ("time", time),
        ("tensor pipe active", percent(&metrics.tensor_active_percent)),
        ("DRAM throughput", percent(&metrics.dram_percent)),
        ("SM busy", percent(&metrics.sm_busy_percent)),
        ("warps active", percent(&metrics.warps_active_percent)),
        ("achieved occupancy", percent(&metrics.occupancy_percent)),
        ("L2 hits", percent(&metrics.l2_hit_percent)),
        ("shared bank conflicts", metrics.bank_conflicts.to_string()),
        ("sectors per request", sectors),
        ("registers", metrics.registers.to_string()),
        ("local memory traffic, bytes", metrics.local_bytes.to_string()),
    ]
}

fn inverted(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let ranked = ranked(state);
    if ranked.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Inversion: what known mistakes cost\n")?;
    let rows: Vec<Vec<String>> = ranked
        .iter()
        .map(|(inversion, time, healthy, cost)| {
            let evidence = match &inversion.result {
                InversionResult::Timed { evidence, .. } => plain(evidence),
                InversionResult::Failed { .. } => String::new(),
            };
            vec![
                plain(&inversion.pathology),
                plain(&inversion.healthy),
                plain(&inversion.problem),
                evidence,
                plain(&inversion.advice),
                format!(
                    "{} for {}, {}",
                    micros(time.micros()),
                    micros(healthy.micros()),
                    Kind::from_time(*time).word()
                ),
                ratio(*cost),
            ]
        })
        .collect();
    table(out, &["pathology", "in", "problem", "evidence", "do instead", "time", "cost"], 1, &rows)
}

fn failures(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let lines = all_failures(state).into_iter().map(|failed| {
        let on = if failed.on.is_empty() { String::new() } else { format!(" on {}", plain(&failed.on)) };
        format!(
            "{}{on}: {} ({}): {}",
            plain(&failed.what),
            failed.kind,
            plain(&failed.at),
            plain(&failed.reason)
        )
    });
    list(out, "Failures", lines)
}

fn targets(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let lines = state.targets.iter().map(|target| {
        let word = match target.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not judged",
        };
        let problem = target.problem.as_ref().map(|problem| format!(" on {}", plain(problem)));
        let evidence = plain(&target.evidence);
        let mut line =
            format!("{word}: {}{} ({evidence})", plain(&target.target), problem.unwrap_or_default());
        if target.met == Some(false) {
            line += &in_the_way(state, target.problem.as_deref());
        }
        line
    });
    list(out, "Targets", lines)
}

/// What stands in the way of a missed target, as points below it.
fn in_the_way(state: &RunState, problem: Option<&str>) -> String {
    let found = bottlenecks(state, problem);
    if found.is_empty() {
        return "\n  - what limits it: no profile in this run says".to_owned();
    }
    let limits: Vec<String> = found
        .iter()
        .take(TOP)
        .map(|it| format!("{} ({})", plain(&it.diagnosis.rule), plain(&it.diagnosis.evidence)))
        .collect();
    let pull: Vec<String> = levers(&found, TOP).iter().map(|lever| plain(lever.lever)).collect();
    format!("\n  - what limits it: {}\n  - most promising levers: {}", limits.join("; "), pull.join("; "))
}

fn repeat(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let Some(manifest) = &state.manifest else { return Ok(()) };
    writeln!(out, "## How to repeat it\n")?;
    // A fence longer than any in the text ends nothing before its time.
    let command = command(manifest);
    let fence = "`".repeat(3 + command.matches('`').count());
    writeln!(out, "{fence}\n{}\n{fence}\n", command.replace(['\n', '\r'], " "))?;
    writeln!(
        out,
        "Seed {}, Warpsmith {}, commit {}.",
        manifest.seed,
        plain(&manifest.warpsmith),
        plain(&manifest.commit.to_string())
    )
}
