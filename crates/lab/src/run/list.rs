//! Finds the runs in a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::state::MeanSpeedup;
use super::{Fact, RunState, Timer, Utc, log};
use crate::words::count;

/// The summary of a run for `warpsmith runs`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RunSummary {
    /// The folder of the run.
    pub folder: PathBuf,
    /// When the run started.
    pub started: Fact<Utc>,
    /// The command's name.
    pub command: Fact<String>,
    /// The GPU, or the device if the GPU is not known.
    pub device: Fact<String>,
    /// Whether the run was finished.
    pub complete: bool,
    /// The main result, or the damage of the log.
    pub headline: String,
}

/// The runs in the subfolders of a folder, or the folder itself if it is a run; the latest first. A run with a damaged
/// log is listed with the damage as its headline. A missing folder has no runs.
pub fn list(folder: &Path) -> io::Result<Vec<RunSummary>> {
    if folder.join(log::FILE).is_file() {
        return Ok(vec![summary(folder)]);
    }
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut runs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.join(log::FILE).is_file() {
            runs.push(summary(&path));
        }
    }
    let key = |run: &RunSummary| (run.started.known().copied(), run.folder.clone());
    runs.sort_by_key(|run| std::cmp::Reverse(key(run)));
    Ok(runs)
}

fn summary(folder: &Path) -> RunSummary {
    let (state, damage) = match log::read(folder) {
        Ok(log) => (RunState::from_log(&log), None),
        Err(error) => (RunState::default(), Some(error.to_string())),
    };
    let manifest = state.manifest.as_ref();
    let reason = || if damage.is_some() { "the log is damaged" } else { "stopped before it started" };
    RunSummary {
        folder: folder.to_owned(),
        started: manifest.map(|manifest| manifest.started).ok_or_else(reason).into(),
        command: manifest.map(|manifest| manifest.command.clone()).ok_or_else(reason).into(),
        device: manifest.map_or_else(
            || Fact::unavailable(reason()),
            |manifest| match &manifest.gpu {
                Fact::Known(_) => manifest.gpu.clone(),
                Fact::Unavailable { .. } => manifest.device.clone(),
            },
        ),
        complete: state.is_complete(),
        headline: damage.unwrap_or_else(|| headline(&state)),
    }
}

fn headline(state: &RunState) -> String {
    // The comparison with the most problems, preferably of kernel time; of these, the highest speedup.
    let rank = |mean: &MeanSpeedup| (mean.problems, mean.timer == Timer::GraphHot);
    let best =
        state.means().into_iter().max_by(|a, b| rank(a).cmp(&rank(b)).then(a.speedup.total_cmp(&b.speedup)));
    if let Some(mean) = best {
        let MeanSpeedup { candidate, baseline, speedup, standing, problems, .. } = mean;
        return format!(
            "{candidate} {speedup:.2}x over {baseline}, {standing}, {}",
            count(problems, "problem")
        );
    }
    if let Some(best) = super::elites::winner(state.trials.values()) {
        let trials = count(state.trials.len().saturating_sub(1), "trial");
        return format!("{trials}, best {:.2}x", best.score);
    }
    let failed = state.checks.values().filter(|check| !check.passed).count();
    if !state.measurements.is_empty() {
        count(state.measurements.len(), "measurement")
    } else if !state.modelled.is_empty() {
        count(state.modelled.len(), "modelled time")
    } else if !state.checks.is_empty() {
        format!("{}, {failed} failed", count(state.checks.len(), "check"))
    } else {
        count(state.builds.len(), "build")
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::{bench_log, write};
    use super::*;

    #[test]
    fn runs_are_listed_the_latest_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["whole", "stopped", "damaged", "empty"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::create_dir(folder.path().join("no run")).unwrap();
        let events = bench_log();
        write(&folder.path().join("whole"), &events);
        write(&folder.path().join("stopped"), &events[..9]);
        fs::write(folder.path().join("damaged/events.jsonl"), "what?\n").unwrap();
        fs::write(folder.path().join("empty/events.jsonl"), "").unwrap();
        let runs = list(folder.path()).unwrap();
        let names: Vec<_> =
            runs.iter().map(|run| run.folder.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["whole", "stopped", "empty", "damaged"]);
        assert_eq!(runs.iter().map(|run| run.complete).collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(runs[0].headline, "wmma stage-2 2.00x over pytorch flash, excellent, 1 problem");
        assert_eq!(runs[0].device, Fact::Known("NVIDIA H200".to_owned()));
        assert_eq!(runs[1].headline, "1 check, 0 failed");
        assert_eq!(runs[2].started, Fact::unavailable("stopped before it started"));
        assert!(runs[3].headline.contains("line 1"), "{}", runs[3].headline);
        assert_eq!(list(&folder.path().join("whole")).unwrap().len(), 1);
    }

    #[test]
    fn a_missing_folder_has_no_runs() {
        assert!(list(Path::new("/nonexistent/warpsmith-runs")).unwrap().is_empty());
    }
}
