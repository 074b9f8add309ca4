//! Where and how: environment, failures, notes, and how to repeat the run.

use std::path::Path;

use super::super::failures::failures as all_failures;
use super::super::html::{Piece, Table, escape, missing};
use super::super::words::{count, shell};
use super::Section;
use super::results::ceiling_words;
use crate::run::{Fact, Manifest, RunState};

pub fn environment(state: &RunState) -> Option<Section> {
    let Some(manifest) = &state.manifest else {
        let body = missing("The run was stopped before it wrote down where it ran.");
        return Some(Section::new("environment", "Environment", body));
    };
    let clocks = |now: &Fact<u32>, most: &Fact<u32>| match (now, most) {
        (Fact::Known(now), Fact::Known(most)) => Piece::text(format!("{now} MHz")).with(format!("of {most}")),
        (now, _) => fact(now),
    };
    let mut facts: Vec<(String, Piece)> = vec![
        ("GPU".to_owned(), fact(&manifest.gpu)),
        ("device".to_owned(), fact(&manifest.device)),
        ("driver".to_owned(), fact(&manifest.driver)),
        ("CUDA".to_owned(), fact(&manifest.cuda)),
        ("NVRTC".to_owned(), fact(&manifest.nvrtc)),
        ("PyTorch".to_owned(), fact(&manifest.pytorch)),
        ("Triton".to_owned(), fact(&manifest.triton)),
        ("cuDNN".to_owned(), fact(&manifest.cudnn)),
        ("SM clock".to_owned(), clocks(&manifest.sm_clock_mhz, &manifest.sm_clock_max_mhz)),
        ("memory clock".to_owned(), clocks(&manifest.memory_clock_mhz, &manifest.memory_clock_max_mhz)),
        ("Warpsmith".to_owned(), Piece::text(&manifest.warpsmith)),
        ("commit".to_owned(), commit(manifest)),
        ("seed".to_owned(), Piece::text(manifest.seed)),
    ];
    for ceiling in &state.ceilings {
        let (name, value) = ceiling_words(ceiling.speed, ceiling.matrix.as_deref());
        facts.push((name, Piece::text(value).with("measured in this run")));
    }
    // Peers of one package have one version: said once.
    let mut versions: Vec<(Vec<&str>, &Fact<String>)> = Vec::new();
    for (name, version) in &state.baselines {
        match versions.iter_mut().find(|(_, known)| *known == version) {
            Some((names, _)) => names.push(name),
            None => versions.push((vec![name], version)),
        }
    }
    facts.extend(versions.into_iter().map(|(names, version)| (names.join(", "), fact(version))));
    let facts: String = facts
        .into_iter()
        .map(|(name, value)| format!("<div><dt>{}</dt><dd>{value}</dd></div>\n", escape(&name)))
        .collect();
    Some(Section::new("environment", "Environment", format!("<dl class=\"facts\">\n{facts}</dl>\n")))
}

fn fact<T: std::fmt::Display>(fact: &Fact<T>) -> Piece {
    match fact {
        Fact::Known(value) => Piece::text(value),
        unknown @ Fact::Unavailable { .. } => Piece::faint(unknown),
    }
}

fn commit(manifest: &Manifest) -> Piece {
    match &manifest.commit {
        Fact::Known(commit) => {
            let short: String = commit.hash.chars().take(12).collect();
            Piece::code(short).with(if commit.dirty { "with changes" } else { "" })
        }
        unknown @ Fact::Unavailable { .. } => Piece::faint(unknown),
    }
}

pub fn failures(state: &RunState) -> Option<Section> {
    let all = all_failures(state);
    if all.is_empty() {
        let nothing = state.manifest.is_none() || state.last.is_none();
        return (!nothing).then(|| Section::new("failures", "Failures", missing("Nothing failed.")));
    }
    let head = ["what", "", "when", "problem", "reason"];
    let mut table = Table::new(&format!("{}, each with its reason", count(all.len(), "failure")), &head, 5);
    for failed in &all {
        table.row(vec![
            Piece::text(&failed.what),
            Piece::text(&failed.kind),
            Piece::text(&failed.at),
            if failed.on.is_empty() { Piece::faint("-") } else { Piece::text(&failed.on) },
            Piece::text(&failed.reason),
        ]);
    }
    Some(Section::new("failures", "Failures", table.html()))
}

pub fn notes(state: &RunState) -> Option<Section> {
    let unknown = state.unknown.iter().map(|(kind, times)| {
        format!("{} of a kind this version does not know: {kind}", count(*times, "event"))
    });
    let all: Vec<String> = state.notes.iter().chain(&state.warnings).cloned().chain(unknown).collect();
    if all.is_empty() {
        return None;
    }
    let items: String = all.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    Some(Section::new("notes", "Notes", format!("<ul>\n{items}</ul>\n")))
}

pub fn repeat(state: &RunState) -> Section {
    let body = match &state.manifest {
        None => missing("The run was stopped before it wrote down its command line."),
        Some(manifest) => {
            let mut lines: Vec<String> = Vec::new();
            if let Fact::Known(commit) = &manifest.commit {
                let dirty = if commit.dirty { "    # and the changes that were not committed" } else { "" };
                lines.push(format!("git checkout {}{dirty}", commit.hash));
            }
            lines.push(command(manifest));
            format!(
                "<pre tabindex=\"0\"><code>{}</code></pre>\n<p>On {}, with the versions listed under \
                 <a href=\"#environment\">environment</a>. Inputs and draws start from seed {}.</p>\n{}",
                escape(&lines.join("\n")),
                fact(&manifest.gpu),
                manifest.seed,
                resume(state, manifest),
            )
        }
    };
    Section::new("repeat", "How to repeat it", body)
}

/// The command line with the program by its name, wherever it lay.
pub fn command(manifest: &Manifest) -> String {
    let mut words = manifest.command_line.clone();
    if let Some(program) = words.first_mut() {
        let name = Path::new(program.as_str()).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_else(|| "warpsmith".to_owned());
    }
    if words.is_empty() { format!("warpsmith {}", manifest.command) } else { shell(&words) }
}

fn resume(state: &RunState, manifest: &Manifest) -> String {
    if state.is_complete() {
        return String::new();
    }
    let command = format!("warpsmith {} --resume --run-dir DIR", manifest.command);
    format!("<p>It was not finished; it goes on with {}.</p>\n", Piece::code(command))
}

/// What the run has nothing of, in a line, and where the page comes from.
pub fn footer(state: &RunState) -> String {
    let parts = [
        ("measured times (bench)", state.measurements.is_empty()),
        ("a search (evolve)", state.search.is_none() && state.trials.is_empty()),
        ("a profile (profile)", state.profiles.is_empty()),
        ("an inversion (invert)", state.inversions.is_empty()),
        ("targets (a suite's)", state.targets.is_empty()),
    ];
    let missing: Vec<&str> =
        parts.iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| *name).collect();
    let missing = match missing.as_slice() {
        [] => String::new(),
        some => format!("<p>Not in this run: {}.</p>\n", some.join(", ")),
    };
    let until = state.last.map_or(String::new(), |last| format!(" up to {}", escape(&last.to_string())));
    format!("{missing}<p>Every number on this page is read from the run's log{until}.</p>\n")
}
