//! Extracts the entries for the tuned table ([`family::tuned_table`]) from a search.

use family::tuned_table::Pick;
use runlog::elites;
use runlog::{ProblemTime, RunState, Trial, TrialResult};

/// The fastest elite on a problem, with its time there. A candidate with a proposed source is never a pick: a library
/// has only the family's own source.
pub fn fastest<'t>(
    trials: impl IntoIterator<Item = &'t Trial>,
    problem: &str,
) -> Option<(&'t Trial, &'t ProblemTime)> {
    let settings = trials.into_iter().filter(|trial| trial.source.is_none());
    let times = elites::all(settings).filter_map(|timed| {
        let time = timed.problems.iter().find(|it| it.problem == *problem)?;
        Some((timed.trial, time))
    });
    // The highest speedup over the baseline of the same session; of equal speedups, the earliest trial.
    times.reduce(|a, b| if b.1.speedup > a.1.speedup { b } else { a })
}

/// The fastest elite for each problem of a search; the baseline is an elite, too.
pub fn from_search(state: &RunState) -> Vec<Pick> {
    let (Some(search), Some(manifest)) = (&state.search, &state.manifest) else { return Vec::new() };
    let best = |problem: &String| {
        let (trial, time) = fastest(state.trials.values(), problem)?;
        let TrialResult::Timed { build, .. } = &trial.result else { return None };
        Some(Pick {
            gpu: manifest.gpu.known().cloned()?,
            problem: problem.clone(),
            family: search.family.clone(),
            time: time.time,
            speedup: Some(time.speedup),
            baseline: search.baseline.clone(),
            build: build.clone(),
            commit: manifest.commit.known().map(ToString::to_string),
            knobs: trial.knobs.clone(),
        })
    };
    search.problems.iter().filter_map(best).collect()
}
