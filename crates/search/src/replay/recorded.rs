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
    /// The name of the recording.
    pub name: String,
    /// The name of the kernel that was timed.
    pub kernel: String,
    /// The GPU that ran the kernel; empty if the file does not name it.
    pub gpu: String,
    /// The space of all recorded configurations.
    pub space: Space,
    /// The time of each point; `None` if it failed.
    times: Vec<Option<f64>>,
    optimum: f64,
}

/// Why a file is not a recorded space.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct RecordedError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: RecordedFault,
}

/// What is wrong with a recorded space.
#[derive(Debug, thiserror::Error)]
pub enum RecordedFault {
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Io(std::io::Error),
    /// The file cannot be decompressed.
    #[error("the gzip data is damaged: {0}")]
    Gzip(std::io::Error),
    /// The file is not valid JSON.
    #[error("not JSON: {0}")]
    Json(serde_json::Error),
    /// A field is missing or has the wrong type.
    #[error("{0}")]
    Field(serde_json::Error),
    /// The file has none of the known formats.
    #[error(
        "unknown format: expected a recorded space (`params`, `time_ms`), a kernel_tuner cache (`tune_params`, `cache`) or T4 results (`results`)"
    )]
    Unknown,
    /// The values of a configuration do not match the parameters.
    #[error("`{key}` has {found} values for {wanted} parameters")]
    Values {
        /// The configuration as the file writes it.
        key: String,
        /// Number of values of the configuration.
        found: usize,
        /// Number of parameters of the space.
        wanted: usize,
    },
    /// A configuration has a value that the parameter does not have.
    #[error("`{key}`: {parameter} has no value {value}")]
    Value {
        /// The configuration as the file writes it.
        key: String,
        /// The parameter's name.
        parameter: String,
        /// The unknown value.
        value: String,
    },
    /// A configuration occurs twice.
    #[error("`{key}` is recorded twice")]
    Twice {
        /// The configuration as the file writes it.
        key: String,
    },
    /// The time of a configuration is not a positive finite number.
    #[error("`{key}`: {time} is not a time")]
    Time {
        /// The configuration as the file writes it.
        key: String,
        /// The invalid time as text.
        time: String,
    },
    /// The space cannot be built from the parameters and configurations.
    #[error("{0}")]
    Space(SpaceError),
    /// Every configuration failed.
    #[error("no configuration has a time")]
    NothingTimed,
    /// The file is not a regular file, or is too large.
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
