//! The sections about the environment, failures and notes, the instructions to repeat the run, and the footer.

use std::path::Path;

use runlog::{Fact, Manifest, RunState};

use super::super::document::{Block, Line, ListKind, Piece, Section, Table, details, list, missing};
use super::super::facts::Facts;
use super::super::failures::{Failed, left_out};
use super::super::words::{count, shell_command};
use super::results::ceiling_text;

/// The section with the hardware, the versions and the measured ceilings.
pub fn environment(state: &RunState) -> Option<Section> {
    let Some(manifest) = &state.manifest else {
        let body = vec![missing("The run stopped before it recorded its environment.")];
        return Some(Section::new("environment", "Environment", body));
    };
    let clocks = |now: &Fact<u32>, max: &Fact<u32>| match (now, max) {
        (Fact::Known(now), Fact::Known(max)) => Fact::Known(format!("{now} MHz of {max}")),
        (Fact::Known(now), _) => Fact::Known(format!("{now} MHz")),
        (Fact::Unavailable { reason }, _) => Fact::unavailable(reason),
    };
    let commit = match &manifest.commit {
        Fact::Known(commit) => Fact::Known(commit.to_string()),
        Fact::Unavailable { reason } => Fact::unavailable(reason),
    };
    let mut facts: Vec<(String, Line)> = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    for (name, value) in [
        ("GPU", &manifest.gpu),
        ("device", &manifest.device),
        ("driver", &manifest.driver),
        ("CUDA", &manifest.cuda),
        ("NVRTC", &manifest.nvrtc),
        ("PyTorch", &manifest.pytorch),
        ("Triton", &manifest.triton),
        ("cuDNN", &manifest.cudnn),
        ("SM clock", &clocks(&manifest.sm_clock_mhz, &manifest.sm_clock_max_mhz)),
        ("memory clock", &clocks(&manifest.memory_clock_mhz, &manifest.memory_clock_max_mhz)),
        ("commit", &commit),
    ] {
        match value {
            Fact::Known(value) => facts.push((name.to_owned(), Line::text(value))),
            Fact::Unavailable { reason } if reason.is_empty() => unknown.push(name.to_owned()),
            Fact::Unavailable { reason } => unknown.push(format!("{name} ({reason})")),
        }
    }
    facts.push(("Warpsmith".to_owned(), Line::text(&manifest.warpsmith)));
    facts.push(("seed".to_owned(), Line::text(manifest.seed)));
    if let Some(telemetry) = telemetry(state) {
        facts.push(("during measurements".to_owned(), Line::text(telemetry)));
    }
    for ceiling in &state.ceilings {
        let (name, value) = ceiling_text(ceiling.speed, ceiling.matrix.as_deref());
        facts.push((name, Line::text(value).with_small("measured in this run")));
    }
    // Peers of the same package share a version; it is shown once.
    let mut versions: Vec<(Vec<&str>, &Fact<String>)> = Vec::new();
    for (name, version) in &state.baselines {
        match versions.iter_mut().find(|(_, known)| *known == version) {
            Some((names, _)) => names.push(name),
            None => versions.push((vec![name], version)),
        }
    }
    facts.extend(versions.into_iter().map(|(names, version)| (names.join(", "), fact(version))));
    let mut body = vec![Block::Facts(facts)];
    if !unknown.is_empty() {
        body.push(missing(&format!("Unavailable: {}.", unknown.join(", "))));
    }
    Some(Section::new("environment", "Environment", body))
}

fn fact<T: std::fmt::Display>(fact: &Fact<T>) -> Line {
    match fact {
        Fact::Known(value) => Line::text(value),
        unknown @ Fact::Unavailable { .. } => Line::faint(unknown),
    }
}

/// The range of clocks, temperature and power over all measurements, as far as they were recorded.
fn telemetry(state: &RunState) -> Option<String> {
    let all = || state.measurements.iter().map(|it| &it.sampled.telemetry);
    let range = |values: Vec<(f64, f64)>, unit: &str| -> Option<String> {
        let ends = values.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some(if ends.0 == ends.1 {
            format!("{:.0} {unit}", ends.0)
        } else {
            format!("{:.0}\u{2013}{:.0} {unit}", ends.0, ends.1)
        })
    };
    let whole = |pair: (u32, u32)| (f64::from(pair.0), f64::from(pair.1));
    let parts = [
        range(all().filter_map(|it| it.sm_clock_mhz.map(whole)).collect(), "MHz"),
        range(all().filter_map(|it| it.temperature_c.map(whole)).collect(), "\u{b0}C"),
        range(all().filter_map(|it| it.power_w).collect(), "W"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How many subjects a reason lists.
const NAMED: usize = 3;

/// The section with all failures, and with what was left out by reason.
pub fn failures(facts: &Facts<'_>) -> Option<Section> {
    let (state, all) = (facts.state, &facts.failures);
    if all.is_empty() && (state.manifest.is_none() || state.last.is_none()) {
        return None;
    }
    let head = ["what", "kind", "stage", "problem", "reason"];
    let failed: Vec<&Failed> = all.iter().filter(|it| it.is_failure()).collect();
    let mut table = Table::new(&format!("{} with the reasons", count(failed.len(), "failure")), &head, 5);
    for failed in &failed {
        table.row(vec![
            Line::with_knobs(&failed.what),
            Line::text(&failed.kind),
            Line::text(&failed.at),
            if failed.on.is_empty() { Line::faint("-") } else { Line::text(&failed.on) },
            Line::text(&failed.reason),
        ]);
    }
    let table = if table.is_empty() { missing("Nothing failed.") } else { table.block() };
    Some(Section::new("failures", "Failures", [table].into_iter().chain(left_out_by_reason(all)).collect()))
}

fn left_out_by_reason(all: &[Failed]) -> Option<Block> {
    let groups = left_out(all);
    let number: usize = groups.iter().map(|group| group.all.len()).sum();
    if number == 0 {
        return None;
    }
    let caption =
        "Not supported, not installed or skipped, by reason. These are not failures, and not passes";
    let mut table = Table::new(caption, &["reason", "kind", "what", "number"], 3);
    for group in &groups {
        let named = group.all.iter().take(NAMED).map(|it| match it.on.as_str() {
            "" => it.what.clone(),
            on => format!("{} on {on}", it.what),
        });
        let mut names = named.collect::<Vec<_>>().join("; ");
        if group.all.len() > NAMED {
            names += &format!("; and {} more", group.all.len() - NAMED);
        }
        table.row(vec![
            Line::text(group.reason),
            Line::text(group.kind),
            Line::with_knobs(names),
            Line::text(group.all.len()),
        ]);
    }
    Some(details(&format!("Left out: {number}"), vec![table.block()]))
}

/// The section with the notes of the run and the warnings about its log.
pub fn notes(state: &RunState) -> Option<Section> {
    let unknown = state.unknown.iter().map(|(kind, times)| {
        format!("{} of a kind that this version does not know: {kind}", count(*times, "event"))
    });
    let all: Vec<String> = state.notes.iter().chain(&state.warnings).cloned().chain(unknown).collect();
    if all.is_empty() {
        return None;
    }
    Some(Section::new("notes", "Notes", vec![list(ListKind::Plain, all.iter().map(Line::text))]))
}

/// The section with the command line that repeats the run.
pub fn repeat(state: &RunState) -> Section {
    let body = match &state.manifest {
        None => vec![missing("The run stopped before it recorded its command line.")],
        Some(manifest) => {
            let mut lines: Vec<String> = Vec::new();
            if let Fact::Known(commit) = &manifest.commit {
                let dirty = if commit.dirty { "    # plus uncommitted changes" } else { "" };
                lines.push(format!("git checkout {}{dirty}", commit.hash));
            }
            lines.push(command(manifest));
            let conditions = Line::joined([Line::text("On "), fact(&manifest.gpu)], "")
                .with_text(", with the versions listed under ")
                .and(Piece::Link { id: "environment", text: "environment" })
                .with_text(format!(". The seed is {}.", manifest.seed));
            let mut body = vec![Block::Commands(lines), Block::Paragraph(conditions)];
            body.extend(resume(state, manifest));
            body
        }
    };
    Section::new("repeat", "How to repeat this run", body)
}

/// The command line of the run, with the program's name instead of its path.
fn command(manifest: &Manifest) -> String {
    let mut words = manifest.command_line.clone();
    if let Some(program) = words.first_mut() {
        let name = Path::new(program.as_str()).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_else(|| "warpsmith".to_owned());
    }
    if words.is_empty() { format!("warpsmith {}", manifest.command) } else { shell_command(&words) }
}

fn resume(state: &RunState, manifest: &Manifest) -> Option<Block> {
    let command = format!("warpsmith {} --resume --run-dir DIR", manifest.command);
    let line =
        Line::text("The run is not finished. Resume it with ").and(Piece::Code(command)).with_text(".");
    (!state.is_complete()).then_some(Block::Paragraph(line))
}

/// The footer: what the run does not contain, and the source of the numbers.
pub fn footer(state: &RunState) -> Vec<Line> {
    let parts = [
        ("measured times (bench)", state.measurements.is_empty()),
        ("a search (evolve)", state.search.is_none() && state.trials.is_empty()),
        ("a profile (profile)", state.profiles.is_empty()),
        ("an inversion (invert)", state.inversions.is_empty()),
        ("targets (of a suite)", state.targets.is_empty()),
    ];
    let missing: Vec<&str> =
        parts.iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| *name).collect();
    let missing =
        (!missing.is_empty()).then(|| Line::text(format!("Not in this run: {}.", missing.join(", "))));
    let until = state.last.map_or(String::new(), |last| format!(" up to {last}"));
    let source = Line::text(format!("Every number on this page is read from the run's log{until}."));
    missing.into_iter().chain([source]).collect()
}
