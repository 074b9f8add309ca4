//! The leaderboard: a file with the best results on record.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::run::{Commit, Fact, MeasuredMicros, Timer, Utc};
use crate::stats::{Interval, SampleError, Samples};

const SCHEMA: u32 = 1;

/// The largest leaderboard that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The most samples that an entry keeps for the rank test.
pub const SAMPLES_KEPT: usize = 400;

/// The best result per problem, device and timer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leaderboard {
    best: Vec<BestOnRecord>,
}

/// The best result for a problem, a device and a timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestOnRecord {
    /// The GPU's name.
    pub device: String,
    /// The problem's name.
    pub problem: String,
    /// How the time was taken.
    pub timer: Timer,
    /// The candidate's name.
    pub candidate: String,
    /// The build's hash.
    pub build: String,
    /// The commit of the run.
    pub commit: Fact<Commit>,
    /// When the entry was recorded.
    pub recorded: Utc,
    /// The median time.
    pub p50_us: MeasuredMicros,
    /// The 95% interval of the median.
    pub interval_us: Interval,
    /// The speedup over each baseline of the same session.
    #[serde(default)]
    pub speedups: Vec<(String, f64)>,
    /// Samples in ascending order. Of more than [`SAMPLES_KEPT`], an evenly spaced selection is kept.
    pub samples_us: Vec<f64>,
}

/// Why a leaderboard cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LeaderboardError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The leaderboard file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file is not a valid leaderboard.
    #[error("{}: {message}", path.display())]
    Form {
        /// The leaderboard file.
        path: PathBuf,
        /// What is wrong with the JSON.
        message: String,
    },
    /// The file has a newer schema.
    #[error("{} was written by a newer version (schema {schema}; this program reads {SCHEMA})", path.display())]
    Newer {
        /// The leaderboard file.
        path: PathBuf,
        /// The schema of the file.
        schema: u32,
    },
    /// An entry has impossible values.
    #[error("{}, {problem} on {device}: {message}", path.display())]
    Entry {
        /// The leaderboard file.
        path: PathBuf,
        /// The problem of the entry.
        problem: String,
        /// The GPU of the entry.
        device: String,
        /// What is wrong with the entry.
        message: String,
    },
}

#[derive(Deserialize)]
struct Header {
    schema: u32,
}

#[derive(Deserialize)]
struct File {
    best: Vec<BestOnRecord>,
}

impl Leaderboard {
    /// Reads a leaderboard. A missing file gives an empty one.
    pub fn read(path: &Path) -> Result<Self, LeaderboardError> {
        match gpu::paths::read_text_bounded(path, MAX_BYTES) {
            Ok(text) => Leaderboard::parse(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Leaderboard::default()),
            Err(error) => Err(LeaderboardError::Io { path: path.to_owned(), error }),
        }
    }

    /// Parses the text of a file. `path` is the file's name in errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, LeaderboardError> {
        let path_buf = || path.to_owned();
        let form = |error: serde_json::Error| LeaderboardError::Form {
            path: path_buf(),
            message: error.to_string(),
        };
        let Header { schema } = serde_json::from_str(text).map_err(form)?;
        if schema > SCHEMA {
            return Err(LeaderboardError::Newer { path: path_buf(), schema });
        }
        let File { best } = serde_json::from_str(text).map_err(form)?;
        let mut board = Leaderboard::default();
        for entry in best {
            let (problem, device) = (entry.problem.clone(), entry.device.clone());
            let bad_entry =
                |message: String| LeaderboardError::Entry { path: path_buf(), problem, device, message };
            if board.best(&entry.device, &entry.problem, entry.timer).is_some() {
                return Err(bad_entry(format!("there are two entries for timer {}", entry.timer)));
            }
            match entry.find_error() {
                Some(message) => return Err(bad_entry(message)),
                None => board.best.push(entry),
            }
        }
        Ok(board)
    }

    /// Writes the file atomically. Each entry is one line and the lines are sorted, so that a diff shows only the
    /// changed entries.
    pub fn write(&self, path: &Path) -> Result<(), LeaderboardError> {
        let mut entries: Vec<&BestOnRecord> = self.best.iter().collect();
        entries.sort_by_key(|best| (&best.device, &best.problem, best.timer));
        let mut text = format!("{{\n  \"schema\": {SCHEMA},\n  \"best\": [");
        for (index, best) in entries.into_iter().enumerate() {
            let line = serde_json::to_string(best).map_err(|error| LeaderboardError::Form {
                path: path.to_owned(),
                message: error.to_string(),
            })?;
            let comma = if index == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}\n    {line}");
        }
        text.push_str("\n  ]\n}\n");
        gpu::paths::write_atomically(path, text.as_bytes())
            .map_err(|error| LeaderboardError::Io { path: path.to_owned(), error })
    }

    /// All entries.
    pub fn entries(&self) -> &[BestOnRecord] {
        &self.best
    }

    /// The entry for a device, a problem and a timer.
    pub fn best(&self, device: &str, problem: &str, timer: Timer) -> Option<&BestOnRecord> {
        self.best.iter().find(|best| best.is_for(device, problem, timer))
    }

    /// Adds an entry and removes the previous one for the same device, problem and timer.
    pub fn record(&mut self, best: BestOnRecord) {
        self.best.retain(|before| !before.is_for(&best.device, &best.problem, best.timer));
        self.best.push(best);
    }
}

impl BestOnRecord {
    fn is_for(&self, device: &str, problem: &str, timer: Timer) -> bool {
        self.device == device && self.problem == problem && self.timer == timer
    }

    /// The reason why the entry cannot be used in a comparison, if there is one.
    fn find_error(&self) -> Option<String> {
        let Interval { low, high } = self.interval_us;
        let p50 = self.p50_us.0;
        if !(low > 0.0 && low <= p50 && p50 <= high && high.is_finite()) {
            return Some(format!("p50 is {p50}, which is outside its interval from {low} to {high}"));
        }
        Samples::new(self.samples_us.clone()).err().map(|error: SampleError| error.to_string())
    }
}

/// Selects at most [`SAMPLES_KEPT`] evenly spaced values of a sorted list. Fewer samples make the rank test less
/// sensitive, so the selection can hide a small regression but cannot cause a false one.
pub(super) fn select_samples(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= SAMPLES_KEPT {
        return sorted.to_vec();
    }
    // The list is divided into equal parts, and the middle of each part is taken.
    let at = |index: usize| sorted[(2 * index + 1) * sorted.len() / (2 * SAMPLES_KEPT)];
    (0..SAMPLES_KEPT).map(at).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    pub fn best(problem: &str, samples_us: Vec<f64>) -> BestOnRecord {
        let samples = Samples::new(samples_us).unwrap();
        BestOnRecord {
            device: "NVIDIA H200".to_owned(),
            problem: problem.to_owned(),
            timer: Timer::GraphHot,
            candidate: "wmma stage-2".to_owned(),
            build: "3f9a".to_owned(),
            commit: Fact::Known(Commit { hash: "cc32999".to_owned(), dirty: false }),
            recorded: Utc::from_unix_millis(1_794_721_630_123),
            p50_us: MeasuredMicros(samples.median()),
            interval_us: crate::stats::median_interval(&samples, 1),
            speedups: vec![("pytorch flash".to_owned(), 2.0)],
            samples_us: samples.sorted().to_vec(),
        }
    }

    #[test]
    fn a_leaderboard_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leaderboard.json");
        assert_eq!(Leaderboard::read(&path).unwrap(), Leaderboard::default());
        let mut board = Leaderboard::default();
        board.record(best("b", vec![10.1, 10.25, 10.4]));
        board.record(best("a", vec![1.0 / 3.0, 2.0 / 3.0]));
        board.record(BestOnRecord { timer: Timer::Eager, ..best("a", vec![5.0]) });
        board.write(&path).unwrap();
        let back = Leaderboard::read(&path).unwrap();
        let problems: Vec<_> =
            back.entries().iter().map(|best| (best.problem.as_str(), best.timer)).collect();
        assert_eq!(problems, [("a", Timer::GraphHot), ("a", Timer::Eager), ("b", Timer::GraphHot)]);
        for entry in board.entries() {
            assert_eq!(back.best("NVIDIA H200", &entry.problem, entry.timer), Some(entry));
        }
        assert_eq!(back.best("NVIDIA L4", "a", Timer::GraphHot), None);
        // One line per entry.
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3 + 3 + 2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_best_replaces_the_old_one() {
        let mut board = Leaderboard::default();
        board.record(best("a", vec![10.0]));
        board.record(best("a", vec![9.0]));
        assert_eq!(board.entries().len(), 1);
        assert_eq!(board.entries()[0].p50_us, MeasuredMicros(9.0));
    }

    #[test]
    fn an_invalid_entry_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leaderboard.json");
        let refused = |change: &dyn Fn(&mut BestOnRecord)| {
            let mut entry = best("a", vec![10.0, 11.0]);
            change(&mut entry);
            let mut board = Leaderboard::default();
            board.record(entry);
            board.write(&path).unwrap();
            Leaderboard::read(&path).unwrap_err()
        };
        assert!(matches!(refused(&|best| best.samples_us.clear()), LeaderboardError::Entry { .. }));
        assert!(matches!(refused(&|best| best.samples_us[0] = -1.0), LeaderboardError::Entry { .. }));
        assert!(matches!(refused(&|best| best.p50_us.0 = 0.0), LeaderboardError::Entry { .. }));
        assert!(matches!(refused(&|best| best.p50_us.0 = f64::NAN), LeaderboardError::Form { .. }));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"schema\": 1", "\"schema\": 2")).unwrap();
        assert!(matches!(Leaderboard::read(&path), Err(LeaderboardError::Newer { schema: 2, .. })));
        fs::write(&path, "{}").unwrap();
        assert!(matches!(Leaderboard::read(&path), Err(LeaderboardError::Form { .. })));
    }

    #[test]
    fn an_endless_file_is_not_read() {
        let error = Leaderboard::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn a_duplicate_entry_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leaderboard.json");
        let line = serde_json::to_string(&best("a", vec![1.0])).unwrap();
        fs::write(&path, format!("{{\"schema\":1,\"best\":[{line},{line}]}}")).unwrap();
        assert!(matches!(Leaderboard::read(&path), Err(LeaderboardError::Entry { .. })));
    }

    #[test]
    fn the_selection_keeps_the_distribution() {
        let all: Vec<f64> = (0..10_000).map(f64::from).collect();
        let kept = select_samples(&all);
        assert_eq!(kept.len(), SAMPLES_KEPT);
        assert!(kept.is_sorted() && kept[0] < 25.0 && kept[SAMPLES_KEPT - 1] > 9974.0);
        let median = Samples::new(kept).unwrap().median();
        assert!((median - 4999.5).abs() < 13.0, "{median}");
        assert_eq!(select_samples(&all[..5]), all[..5]);
    }
}
