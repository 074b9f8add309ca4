//! A space with a recorded outcome for every point.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::history::Outcome;
use crate::space::{Parameter, Point, Space, SpaceError};

/// Largest size of a recorded space in bytes, after decompression.
pub(super) const MOST_BYTES: u64 = 1 << 30;

/// A recorded space.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub name: String,
    pub kernel: String,
    pub gpu: String,
    pub space: Space,
    /// The time of each point; `None` if it failed.
    times: Vec<Option<f64>>,
    optimum: f64,
}

/// Why a file is not a recorded space.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct RecordedError {
    pub path: PathBuf,
    pub fault: RecordedFault,
}

/// What is wrong with a recorded space.
#[derive(Debug, thiserror::Error)]
pub enum RecordedFault {
    #[error("cannot read the file: {0}")]
    Io(std::io::Error),
    #[error("the gzip data is damaged: {0}")]
    Gzip(std::io::Error),
    #[error("not JSON: {0}")]
    Json(serde_json::Error),
    #[error("{0}")]
    Field(serde_json::Error),
    #[error(
        "unknown format: expected a recorded space (`params`, `time_ms`), a kernel_tuner cache (`tune_params`, `cache`) or T4 results (`results`)"
    )]
    Unknown,
    #[error("`{key}` has {found} values for {wanted} parameters")]
    Values { key: String, found: usize, wanted: usize },
    #[error("`{key}`: {parameter} has no value {value}")]
    Value { key: String, parameter: String, value: String },
    #[error("`{key}` is recorded twice")]
    Twice { key: String },
    #[error("`{key}`: {time} is not a time")]
    Time { key: String, time: String },
    #[error("{0}")]
    Space(SpaceError),
    #[error("no configuration has a time")]
    NothingTimed,
    #[error("not a regular file of at most {} MiB after decompression", MOST_BYTES >> 20)]
    TooLarge,
}

/// One recorded configuration, before it has a point in a space.
pub(super) struct Entry {
    pub key: String,
    pub positions: Vec<usize>,
    pub time: Option<f64>,
}

impl Recorded {
    pub(super) fn new(
        (name, kernel, gpu): (String, String, String),
        parameters: Vec<Parameter>,
        entries: &[Entry],
    ) -> Result<Self, RecordedFault> {
        let positions = entries.iter().map(|entry| &entry.positions);
        let space = Space::from_points(parameters, positions).map_err(RecordedFault::Space)?;
        let mut times = vec![None; space.len()];
        let mut seen = HashSet::new();
        for entry in entries {
            if entry.time.is_some_and(|time| !time.is_finite() || time <= 0.0) {
                let time = entry.time.map_or_else(String::new, |time| time.to_string());
                return Err(RecordedFault::Time { key: entry.key.clone(), time });
            }
            if let Some(point) = space.find(&entry.positions) {
                times[point.index()] = entry.time;
                if !seen.insert(point) {
                    return Err(RecordedFault::Twice { key: entry.key.clone() });
                }
            }
        }
        let optimum =
            times.iter().flatten().copied().min_by(f64::total_cmp).ok_or(RecordedFault::NothingTimed)?;
        Ok(Recorded { name, kernel, gpu, space, times, optimum })
    }

    /// The smallest time.
    pub fn optimum(&self) -> f64 {
        self.optimum
    }

    /// Number of points with a time.
    pub fn valid(&self) -> usize {
        self.times.iter().flatten().count()
    }

    /// The recorded outcome of a point.
    pub fn outcome(&self, point: Point) -> Outcome {
        self.times[point.index()].map_or(Outcome::Failed, Outcome::Time)
    }
}
