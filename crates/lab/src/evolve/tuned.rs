//! The tuned table: per GPU and problem, the setting a search found best. Searches write it, a library reads it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::elites;
use crate::run::{RunState, Time, TrialResult};

pub const SCHEMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub schema: u32,
    #[serde(default, rename = "pick")]
    pub picks: Vec<Pick>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pick {
    /// As the driver names it, or the modelled GPU's name in the table of GPUs.
    pub gpu: String,
    pub problem: String,
    /// `attention/mma`
    pub family: String,
    /// `measured_us` or `modelled_us`: a modelled pick says so.
    #[serde(flatten)]
    pub time: Time,
    /// Over the preset the search started from.
    pub speedup: f64,
    pub baseline: String,
    pub build: String,
    pub commit: String,
    pub knobs: IndexMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: {message}", path.display())]
    Format { path: PathBuf, message: String },
    #[error("{}: written by a newer version (schema {schema}; this one reads {SCHEMA})", path.display())]
    Newer { path: PathBuf, schema: u32 },
}

impl Default for Table {
    fn default() -> Self {
        Table { schema: SCHEMA, picks: Vec::new() }
    }
}

impl Table {
    /// The table of a file; an empty one where there is no file.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::default()),
            Err(error) => return Err(TableError::Io { path: path.to_owned(), error }),
        };
        let format = |error: toml::de::Error| TableError::Format {
            path: path.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        };
        let table: Table = toml::from_str(&text).map_err(format)?;
        if table.schema > SCHEMA {
            return Err(TableError::Newer { path: path.to_owned(), schema: table.schema });
        }
        Ok(table)
    }

    pub fn write(&self, path: &Path) -> Result<(), TableError> {
        let text = toml::to_string(self)
            .map_err(|error| TableError::Format { path: path.to_owned(), message: error.to_string() })?;
        gpu::paths::write_atomically(path, text.as_bytes())
            .map_err(|error| TableError::Io { path: path.to_owned(), error })
    }

    /// Takes picks in. One of the same GPU and problem is replaced, but a measured one never by a modelled one.
    pub fn take(&mut self, picks: Vec<Pick>) {
        for pick in picks {
            let same = |before: &Pick| (&before.gpu, &before.problem) == (&pick.gpu, &pick.problem);
            match self.picks.iter_mut().find(|before| same(before)) {
                Some(before) if pick.time.is_modelled() && !before.time.is_modelled() => {}
                Some(before) => *before = pick,
                None => self.picks.push(pick),
            }
        }
    }
}

/// What a search found: for each of its problems the fastest setting, which may be the baseline. A candidate with a
/// source of its own is no pick: the library has the family's source, and settings of that alone.
pub fn picks(state: &RunState) -> Vec<Pick> {
    let (Some(search), Some(manifest)) = (&state.search, &state.manifest) else { return Vec::new() };
    let best = |problem: &String| {
        let settings = state.trials.values().filter(|trial| trial.source.is_none());
        let times = elites::timed(settings).filter_map(|timed| {
            let time = timed.problems.iter().find(|it| it.problem == *problem)?;
            Some((timed.trial, time))
        });
        // By speedup over the baseline of the same session; of equals, the earliest.
        let (trial, time) = times.reduce(|a, b| if b.1.speedup > a.1.speedup { b } else { a })?;
        let TrialResult::Timed { build, .. } = &trial.result else { return None };
        Some(Pick {
            gpu: manifest.gpu.known().cloned()?,
            problem: problem.clone(),
            family: search.family.clone(),
            time: time.time,
            speedup: time.speedup,
            baseline: search.baseline.clone(),
            build: build.clone(),
            commit: manifest.commit.to_string(),
            knobs: trial.knobs.clone(),
        })
    };
    search.problems.iter().filter_map(best).collect()
}

#[cfg(test)]
mod tests {
    use vgpu::model::ModelledMicros;

    use super::*;
    use crate::run::MeasuredMicros;

    fn pick(gpu: &str, time: Time) -> Pick {
        Pick {
            gpu: gpu.to_owned(),
            problem: "b1h8s512d64-fp16".to_owned(),
            family: "attention/mma".to_owned(),
            time,
            speedup: 1.25,
            baseline: "small".to_owned(),
            build: "3f9a".to_owned(),
            commit: "1234567".to_owned(),
            knobs: [("STAGES".to_owned(), "2".to_owned())].into(),
        }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuned.toml");
        assert_eq!(Table::read(&path).unwrap(), Table::default());
        let mut table = Table::default();
        table.take(vec![
            pick("H200", Time::Measured(MeasuredMicros(5.0))),
            pick("l4", Time::Modelled(ModelledMicros(9.5))),
        ]);
        table.write(&path).unwrap();
        assert_eq!(Table::read(&path).unwrap(), table);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("measured_us = 5.0") && text.contains("modelled_us = 9.5"), "{text}");
        fs::write(&path, "schema = 99\n").unwrap();
        assert!(matches!(Table::read(&path), Err(TableError::Newer { schema: 99, .. })));
        fs::write(&path, "schema = \n").unwrap();
        assert!(matches!(Table::read(&path), Err(TableError::Format { .. })));
    }

    #[test]
    fn what_was_measured_is_not_replaced_by_a_model() {
        let (measured, modelled) = (Time::Measured(MeasuredMicros(5.0)), Time::Modelled(ModelledMicros(4.0)));
        let mut table = Table::default();
        table.take(vec![pick("H200", modelled)]);
        table.take(vec![pick("H200", measured)]);
        table.take(vec![pick("H200", modelled)]);
        assert_eq!(table.picks, [pick("H200", measured)]);
    }
}
