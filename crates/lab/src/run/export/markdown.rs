//! `summary.md`: the run for people.

use std::io::{self, Write};

use super::super::{RunState, Speed};
use super::{Exporter, Row, rows};

#[derive(Debug)]
pub struct Markdown;

impl Exporter for Markdown {
    fn file_name(&self) -> &'static str {
        "summary.md"
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        head(state, out)?;
        measured(state, out)?;
        modelled(state, out)?;
        failures(state, out)?;
        targets(state, out)?;
        list(out, "Notes", state.notes.iter().chain(&state.warnings).map(|note| plain(note)))
    }
}

/// Text from outside on one line, with nothing in it that ends a cell or starts a block.
fn plain(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
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

fn head(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let Some(manifest) = &state.manifest else {
        return writeln!(out, "# A run that was stopped before it began\n");
    };
    writeln!(out, "# warpsmith {}, {}\n", plain(&manifest.command), manifest.started.short())?;
    let came_to = match state.outcome {
        Some(outcome) => outcome.to_string(),
        None => "incomplete: stopped before its end".to_owned(),
    };
    writeln!(out, "- result: {came_to}")?;
    writeln!(out, "- command: `{}`", plain(&manifest.command_line.join(" ")).replace('`', "'"))?;
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

fn measured(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let rows = rows(state);
    if rows.is_empty() {
        return writeln!(out, "Nothing was measured.\n");
    }
    writeln!(out, "## Measured\n")?;
    let head = [
        "problem",
        "subject",
        "timer",
        "against",
        "verdict",
        "p50",
        "95% interval",
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

fn failures(state: &RunState, out: &mut dyn Write) -> io::Result<()> {
    let lines = state.failures.iter().map(|failure| {
        let (subject, problem) = (plain(&failure.of.subject), plain(&failure.of.problem));
        format!("{subject} on {problem}: {}: {}", failure.kind, plain(&failure.reason))
    });
    list(out, "Out", lines)
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
        format!("{word}: {}{} ({evidence})", plain(&target.target), problem.unwrap_or_default())
    });
    list(out, "Targets", lines)
}
