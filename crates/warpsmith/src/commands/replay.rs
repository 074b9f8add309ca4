//! `replay`: scores the search strategies on recorded spaces.

use std::path::Path;

use rayon::prelude::*;
use schemars::JsonSchema;
use search::replay::{
    FleetRun, Recorded, Score, SimulatedFleet, Suite, play_all, play_on_fleet, score, write_csv,
};
use search::strategies::{self, Entry};
use serde::Serialize;

use crate::cli::ReplayOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{FAINT, Printer, STRONG, one_line, styled};
use crate::progress;
use crate::tables::Table;

/// The default numbers of evaluations at which strategies are scored.
const DEFAULT_MARKS: [usize; 4] = [25, 50, 100, 200];

#[derive(JsonSchema, Serialize)]
pub struct Replay<'a> {
    seeds: u64,
    budget: usize,
    at: &'a [usize],
    scores: Vec<Score>,
    suites: Vec<Suite>,
}

/// Plays every strategy on every space and prints the scores.
pub fn run(options: &ReplayOptions, printer: &Printer) -> Result<Exit, CommandError> {
    let at = marks(&options.at, options.budget)?;
    let strategies = strategies(&options.strategy)?;
    let spaces = options
        .space
        .iter()
        .map(|path| Recorded::read(path))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| CommandError::usage(error.to_string()))?;

    if !options.workers.is_empty() {
        return simulate(options, (&spaces, &strategies), &at, printer);
    }
    let stop = super::stop_on_interrupt();
    let searches = options.seeds * (spaces.len() * strategies.len()) as u64;
    let bar = progress::counting(searches, "searching");
    let mut replay = Replay {
        seeds: options.seeds,
        budget: options.budget,
        at: &at,
        scores: Vec::new(),
        suites: Vec::new(),
    };
    'strategies: for entry in &strategies {
        let before = replay.scores.len();
        for space in &spaces {
            bar.set_message(format!("{} on {}", entry.name, one_line(&space.name)));
            let runs = play_all(space, entry, options.seeds, options.budget, &stop, &|| bar.inc(1));
            let Some(runs) = runs else { break 'strategies };
            replay.scores.push(score(space, entry.name, &runs, options.budget, &at));
            if let Some(path) = &options.csv {
                write(path, &replay.scores)?;
            }
        }
        replay.suites.push(Suite::new(entry.name, &replay.scores[before..].iter().collect::<Vec<_>>()));
    }
    bar.finish_and_clear();

    if printer.is_json() {
        printer.json("replay", &replay);
    } else {
        print(&replay, &spaces, printer);
    }
    if replay.suites.len() < strategies.len() {
        printer.message("stopped early; every row shown includes all seeds of its strategy and space");
        return Ok(Exit::Incomplete);
    }
    Ok(Exit::Success)
}

/// A strategy on fleets of one size.
#[derive(JsonSchema, Serialize)]
pub struct FleetScore {
    strategy: String,
    workers: usize,
    /// How many candidates are asked for before the result of the first is known.
    ahead: usize,
    /// The time of one worker that does not ask ahead, divided by the time of the fleet; mean over spaces and seeds.
    speedup: f64,
    /// The share of the time in which a worker was busy.
    busy: f64,
    /// The mean share of the optimum after each number of evaluations.
    at: Vec<f64>,
}

#[derive(JsonSchema, Serialize)]
pub struct FleetReplay<'a> {
    seeds: u64,
    budget: usize,
    at: &'a [usize],
    fleets: Vec<FleetScore>,
}

/// Plays the strategies on simulated fleets and prints what many workers bring and cost.
fn simulate(
    options: &ReplayOptions,
    (spaces, strategies): (&[Recorded], &[&Entry]),
    at: &[usize],
    printer: &Printer,
) -> Result<Exit, CommandError> {
    let sizes = options.workers.iter().map(|&workers| workers as usize);
    let bar = progress::counting((strategies.len() * sizes.len()) as u64, "searching");
    let mut fleets = Vec::new();
    for entry in strategies {
        let play = |fleet: SimulatedFleet| -> Vec<FleetRun> {
            let games = spaces.iter().flat_map(|space| (0..options.seeds).map(move |seed| (space, seed)));
            let games: Vec<_> = games.collect();
            let runs = games.into_par_iter();
            runs.map(|(space, seed)| play_on_fleet(space, entry, seed, options.budget, fleet)).collect()
        };
        let alone = play(SimulatedFleet::of(1));
        for workers in sizes.clone() {
            let fleet = SimulatedFleet::of(workers);
            fleets.push(fleet_score(entry.name, fleet, &alone, &play(fleet), at));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if printer.is_json() {
        let document = FleetReplay { seeds: options.seeds, budget: options.budget, at, fleets };
        printer.json("replay", &document);
        return Ok(Exit::Success);
    }
    let numbers: Vec<String> = at.iter().map(ToString::to_string).collect();
    let mut titles = vec!["strategy", "workers", "ahead", "speedup", "busy"];
    titles.extend(numbers.iter().map(String::as_str));
    let mut table = Table::new(&titles, &titles[1..]);
    for it in &fleets {
        let mut row = vec![it.strategy.clone(), it.workers.to_string(), it.ahead.to_string()];
        row.extend([format!("{:.1}x", it.speedup), format!("{:.0}%", 100.0 * it.busy)]);
        row.extend(it.at.iter().map(|share| format!("{share:.3}")));
        table.row(row);
    }
    let about = "simulated; 2% of evaluations take ten times as long, and 1% of them lose their worker; the last columns \
                 are the share of the optimum after N evaluations";
    printer.data(&format!("{}\n{}", table.text(), styled(FAINT, about)));
    Ok(Exit::Success)
}

fn fleet_score(
    strategy: &str,
    fleet: SimulatedFleet,
    alone: &[FleetRun],
    runs: &[FleetRun],
    at: &[usize],
) -> FleetScore {
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / runs.len() as f64;
    let share = |run: &FleetRun, evaluations: usize| {
        let fractions = &run.run.fractions;
        let last = evaluations.min(fractions.len());
        last.checked_sub(1).map_or(0.0, |last| fractions[last])
    };
    let at = at.iter().map(|&evaluations| mean(&mut runs.iter().map(|run| share(run, evaluations))));
    let at = at.collect();
    FleetScore {
        strategy: strategy.to_owned(),
        workers: fleet.workers,
        ahead: fleet.ahead,
        speedup: mean(&mut alone.iter().zip(runs).map(|(alone, run)| alone.makespan / run.makespan)),
        busy: mean(&mut runs.iter().map(|run| run.busy / (run.makespan * fleet.workers as f64))),
        at,
    }
}

/// Writes the scores so far. This runs after each space, so that a file that cannot be written is reported early and a
/// stopped command leaves its scores.
fn write(path: &Path, scores: &[Score]) -> Result<(), CommandError> {
    let mut bytes = Vec::new();
    write_csv(scores, &mut bytes)
        .map_err(|error| error.to_string())
        .and_then(|()| files::write_atomically(path, &bytes).map_err(|error| error.to_string()))
        .map_err(|error| CommandError::usage(format!("cannot write {}: {error}", path.display())))
}

/// The strategies with these names.
fn strategies(names: &[String]) -> Result<Vec<&'static Entry>, CommandError> {
    if names.iter().any(|name| name == "all") {
        return Ok(strategies::ALL.iter().collect());
    }
    names
        .iter()
        .map(|name| strategies::by_name(name))
        .collect::<Result<_, _>>()
        .map_err(|error| CommandError::usage(error.to_string()).hint(format!("{}, or all", error.hint())))
}

/// The numbers of evaluations at which to score: sorted, and at most the budget.
fn marks(at: &[usize], budget: usize) -> Result<Vec<usize>, CommandError> {
    if at.is_empty() {
        let within: Vec<usize> =
            DEFAULT_MARKS.into_iter().filter(|&evaluations| evaluations <= budget).collect();
        return Ok(if within.is_empty() { vec![budget] } else { within });
    }
    if let Some(invalid) = at.iter().find(|&&evaluations| evaluations == 0 || evaluations > budget) {
        let message = format!("--at {invalid} is not between 1 and the budget of {budget}");
        return Err(CommandError::usage(message).hint("raise --budget, or remove this value from --at"));
    }
    let mut at = at.to_vec();
    at.sort_unstable();
    at.dedup();
    Ok(at)
}

fn print(replay: &Replay, spaces: &[Recorded], printer: &Printer) {
    let numbers: Vec<String> = replay.at.iter().map(ToString::to_string).collect();
    let mut titles = vec![""];
    titles.extend(numbers.iter().map(String::as_str));
    titles.extend(["to 95%", "reach", "failed", "s/100"]);
    for (number, space) in spaces.iter().enumerate() {
        let about = format!(
            "{} points, {} valid, optimum {} ms; columns: share of the optimum after N evaluations",
            space.space.len(),
            space.valid(),
            space.optimum()
        );
        printer.data(&format!("{}  {}", styled(STRONG, &space.name), styled(FAINT, about)));
        let mut table = Table::new(&titles, &titles[1..]);
        // Scores are ordered by strategy, then by space. Spaces are found by position: their names may be equal.
        for score in replay.scores.iter().skip(number).step_by(spaces.len()) {
            let mut row = vec![score.strategy.clone()];
            row.extend(score.at.iter().map(|at| format!("{:.3}", at.mean)));
            row.push(score.to_95.map_or_else(|| "-".to_owned(), |evaluations| evaluations.to_string()));
            row.push(format!("{:.0}%", 100.0 * score.reach_95));
            row.push(format!("{:.1}", score.mean_failed));
            row.push(format!("{:.2}", score.seconds_per_100));
            table.row(row);
        }
        printer.data(&format!("{}\n", table.text()));
    }
    for (title, by_kernel) in [("mean over kernels", true), ("mean over spaces", false)] {
        let mut titles = vec![title];
        titles.extend(numbers.iter().map(String::as_str));
        let mut table = Table::new(&titles, &titles[1..]);
        for suite in &replay.suites {
            let means = if by_kernel { &suite.by_kernel } else { &suite.by_space };
            let cells = means.iter().map(|mean| format!("{mean:.4}"));
            table.row(std::iter::once(suite.strategy.clone()).chain(cells));
        }
        let end = if by_kernel { "\n" } else { "" };
        printer.data(&format!("{}{end}", table.text()));
    }
}
