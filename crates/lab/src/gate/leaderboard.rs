//! The leaderboard: a file with the best results on record.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use op::plausible::implausible_reason;
use runlog::{Commit, Fact, LaunchCounts, MeasuredMicros, Timer, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Interval, Samples};
use times::{ModelledMicros, Time};

/// The newest schema that this program reads. A file without entries of virtual GPUs is written as schema 1, which
/// older programs read. They would drop the other entries, so they must refuse a file that has some.
const SCHEMA: u32 = 2;

/// The largest leaderboard that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// How far the p50 of an entry may be from the median of its samples, as a factor.
const SAMPLES_APART: f64 = 1.25;

/// The most samples that an entry keeps for the rank test.
pub const SAMPLES_KEPT: usize = 400;

/// The best result per problem, device and timer; for virtual GPUs, per problem, device and candidate.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct Leaderboard {
    /// The best measured time for each device, problem and timer.
    best: Vec<BestOnRecord>,
    /// What was compiled, counted and modelled, for each virtual GPU, problem and candidate.
    #[schemars(skip_serializing_if = "Vec::is_empty")]
    counted: Vec<CountedRecord>,
}

/// The best result for a problem, a device and a timer.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
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
    /// The compiler and its version; `None` in old files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
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

/// What a candidate needed on a virtual GPU. Nothing in it was measured.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CountedRecord {
    /// The name of the virtual GPU: `virtual l4`.
    pub device: String,
    /// The problem's name.
    pub problem: String,
    /// The candidate's name.
    pub candidate: String,
    /// The build's hash.
    pub build: String,
    /// The compiler and its version.
    pub compiler: String,
    /// The commit of the run.
    pub commit: Fact<Commit>,
    /// When the entry was recorded.
    pub recorded: Utc,
    /// Registers per thread.
    pub registers: u32,
    /// Spilled bytes per thread.
    pub spill_bytes: u32,
    /// Shared memory per block.
    pub shared_bytes: u64,
    /// The counts of a launch.
    pub counts: LaunchCounts,
    /// The modelled time.
    pub time_us: ModelledMicros,
    /// The version of the time model.
    pub model: u32,
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
    #[serde(default)]
    counted: Vec<CountedRecord>,
}

impl Leaderboard {
    /// Reads a leaderboard. A missing file gives an empty one.
    pub fn read(path: &Path) -> Result<Self, LeaderboardError> {
        match files::read_text_bounded(path, MAX_BYTES) {
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
        let File { best, counted } = serde_json::from_str(text).map_err(form)?;
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
        let mut keys = HashSet::new();
        for record in &counted {
            let error = if keys.insert((&record.device, &record.problem, &record.candidate)) {
                record.find_error()
            } else {
                Some(format!("there are two entries for {}", record.candidate))
            };
            if let Some(message) = error {
                let (problem, device) = (record.problem.clone(), record.device.clone());
                return Err(LeaderboardError::Entry { path: path_buf(), problem, device, message });
            }
        }
        board.counted = counted;
        Ok(board)
    }

    /// Writes the file atomically. Each entry is one line and the lines are sorted, so that a diff shows only the
    /// changed entries.
    pub fn write(&self, path: &Path) -> Result<(), LeaderboardError> {
        let mut best: Vec<&BestOnRecord> = self.best.iter().collect();
        best.sort_by_key(|best| (&best.device, &best.problem, best.timer));
        let mut counted: Vec<&CountedRecord> = self.counted.iter().collect();
        counted.sort_by_key(|record| (&record.device, &record.problem, &record.candidate));
        let schema = if counted.is_empty() { 1 } else { SCHEMA };
        let mut text = format!("{{\n  \"schema\": {schema},\n  \"best\": [");
        let form = |error: serde_json::Error| LeaderboardError::Form {
            path: path.to_owned(),
            message: error.to_string(),
        };
        text += &entry_lines(&best).map_err(form)?;
        text += "\n  ]";
        if !counted.is_empty() {
            text += ",\n  \"counted\": [";
            text += &entry_lines(&counted).map_err(form)?;
            text += "\n  ]";
        }
        text += "\n}\n";
        files::write_atomically(path, text.as_bytes())
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

    /// All entries of virtual GPUs.
    pub fn counted(&self) -> &[CountedRecord] {
        &self.counted
    }

    /// The entry for a virtual GPU, a problem and a candidate.
    pub fn counted_record(&self, device: &str, problem: &str, candidate: &str) -> Option<&CountedRecord> {
        let is_it = |record: &&CountedRecord| {
            (record.device.as_str(), record.problem.as_str(), record.candidate.as_str())
                == (device, problem, candidate)
        };
        self.counted.iter().find(is_it)
    }

    /// Adds an entry and removes the previous one for the same virtual GPU, problem and candidate.
    pub fn record_counted(&mut self, record: CountedRecord) {
        self.counted.retain(|before| {
            (&before.device, &before.problem, &before.candidate)
                != (&record.device, &record.problem, &record.candidate)
        });
        self.counted.push(record);
    }

    /// Adds an entry and removes the previous one for the same device, problem and timer.
    pub fn record(&mut self, best: BestOnRecord) {
        self.best.retain(|before| !before.is_for(&best.device, &best.problem, best.timer));
        self.best.push(best);
    }
}

/// Entries as lines of a JSON array.
fn entry_lines(entries: &[&impl Serialize]) -> Result<String, serde_json::Error> {
    let lines = entries.iter().map(|entry| Ok(format!("\n    {}", serde_json::to_string(entry)?)));
    Ok(lines.collect::<Result<Vec<String>, serde_json::Error>>()?.join(","))
}

impl CountedRecord {
    /// The reason why the entry cannot be used in a comparison, if there is one.
    fn find_error(&self) -> Option<String> {
        implausible_reason(&self.device, Time::Modelled(self.time_us), None)
            .map(|reason| format!("time_us: {reason}"))
    }

    /// The record with the smaller value of every quantity. Otherwise each new record could be a little larger in
    /// some quantity, and the sum of small increases would pass.
    pub(super) fn merged_with(self, before: &CountedRecord) -> Self {
        let time = self.time_us.0.min(before.time_us.0);
        CountedRecord {
            registers: self.registers.min(before.registers),
            spill_bytes: self.spill_bytes.min(before.spill_bytes),
            shared_bytes: self.shared_bytes.min(before.shared_bytes),
            counts: LaunchCounts {
                instructions: self.counts.instructions.min(before.counts.instructions),
                global_sectors: self.counts.global_sectors.min(before.counts.global_sectors),
                local_sectors: self.counts.local_sectors.min(before.counts.local_sectors),
                bank_conflicts: self.counts.bank_conflicts.min(before.counts.bank_conflicts),
            },
            time_us: if self.model == before.model { ModelledMicros(time) } else { self.time_us },
            ..self
        }
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
        if let Some(reason) = implausible_reason(&self.device, Time::Measured(self.p50_us), None) {
            return Some(format!("p50_us: {reason}"));
        }
        if !(low > 0.0 && low <= p50 && p50 <= high && high.is_finite()) {
            return Some(format!("p50 is {p50}, which is outside its interval from {low} to {high}"));
        }
        let samples = match Samples::new(self.samples_us.clone()) {
            Ok(samples) => samples,
            Err(error) => return Some(error.to_string()),
        };
        // The median of several processes is not the median of all samples, but it is near.
        let median = samples.median();
        let is_near = (1.0 / SAMPLES_APART..=SAMPLES_APART).contains(&(p50 / median));
        (!is_near).then(|| format!("p50 is {p50}, but the samples have a median of {median}"))
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
            compiler: Some("NVRTC 13.0.88".to_owned()),
            commit: Fact::Known(Commit { hash: "cc32999".to_owned(), dirty: false }),
            recorded: Utc::from_unix_millis(1_794_721_630_123),
            p50_us: MeasuredMicros(samples.median()),
            interval_us: stats::median_interval(&samples, 1),
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

    fn counted(candidate: &str) -> CountedRecord {
        CountedRecord {
            device: "virtual l4".to_owned(),
            problem: "a".to_owned(),
            candidate: candidate.to_owned(),
            build: "3f9a".to_owned(),
            compiler: "NVRTC 13.0.88".to_owned(),
            commit: Fact::default(),
            recorded: Utc::from_unix_millis(1_794_721_630_123),
            registers: 40,
            spill_bytes: 0,
            shared_bytes: 1024,
            counts: LaunchCounts { instructions: 7, ..LaunchCounts::default() },
            time_us: ModelledMicros(2.5),
            model: 1,
        }
    }

    #[test]
    fn entries_of_virtual_gpus_round_trip_and_raise_the_schema() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leaderboard.json");
        let mut board = Leaderboard::default();
        board.record(best("b", vec![10.1, 10.25, 10.4]));
        board.write(&path).unwrap();
        // Older programs can read a file without them.
        assert!(fs::read_to_string(&path).unwrap().contains("\"schema\": 1,"));
        for candidate in ["y", "x", "x"] {
            board.record_counted(counted(candidate));
        }
        board.write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"schema\": 2,"), "{text}");
        let back = Leaderboard::read(&path).unwrap();
        assert_eq!((back.entries().len(), back.counted().len()), (1, 2));
        assert_eq!(back.counted_record("virtual l4", "a", "x"), Some(&counted("x")));
        assert_eq!(back.counted_record("virtual a100", "a", "x"), None);
        back.write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        // Two entries for one candidate, and a time of zero.
        let twice = text.replace("\"candidate\":\"y\"", "\"candidate\":\"x\"");
        let zero = text.replace("\"time_us\":2.5", "\"time_us\":0.0");
        for text in [twice, zero] {
            let error = Leaderboard::parse(&path, &text).unwrap_err();
            assert!(matches!(error, LeaderboardError::Entry { .. }), "{error}");
        }
    }

    #[test]
    fn a_leaderboard_of_an_older_version_is_read() {
        let line = r#"{"schema":1,"best":[{"device":"NVIDIA H200","problem":"p","timer":"graph-hot","candidate":"mma",
            "build":"3f9a","commit":"unavailable: no git","recorded":"2026-11-15T05:47:10.123Z","p50_us":10.0,
            "interval_us":{"low":9.9,"high":10.1},"samples_us":[9.9,10.0,10.1]}]}"#;
        let board = Leaderboard::parse(Path::new("leaderboard.json"), line).unwrap();
        assert_eq!((board.entries().len(), board.counted().len()), (1, 0));
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
        let forged = refused(&|best| {
            best.p50_us.0 = 2.0;
            best.interval_us = Interval { low: 1.9, high: 2.1 };
        });
        assert!(forged.to_string().contains("the samples have a median of 10.5"), "{forged}");
        assert!(matches!(refused(&|best| best.p50_us.0 = f64::NAN), LeaderboardError::Form { .. }));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"schema\": 1", "\"schema\": 3")).unwrap();
        assert!(matches!(Leaderboard::read(&path), Err(LeaderboardError::Newer { schema: 3, .. })));
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
