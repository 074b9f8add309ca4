//! The tuned table: per GPU and problem, the setting of a family that a search found best.
//!
//! A family's own table is the file `tuned.toml` beside its manifest. Searches write such files ([`Table::take`],
//! [`Table::write`]), [`crate::Catalog`] reads them. What a problem's name means, and which pick serves a problem that
//! has none of its own, is the op's affair (crate `op`).

use std::io;
use std::path::{Path, PathBuf};

use chips::Chip;
use gpu::time::Time;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::manifest::{ManifestError, Reader};

pub const SCHEMA: u32 = 1;

/// Bytes of a table that are read.
const MOST_BYTES: u64 = 16 << 20;

/// The table's file, beside the manifest.
pub const FILE: &str = "tuned.toml";

/// The preset that stands for the table: for each problem its pick. No family's own preset has this name.
pub const PRESET: &str = "tuned";

/// Whether a preset's name stands for the table.
pub fn is_tuned(preset: &str) -> bool {
    preset.eq_ignore_ascii_case(PRESET)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub schema: u32,
    #[serde(default, rename = "pick")]
    pub picks: Vec<Pick>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pick {
    /// As the driver names it (`NVIDIA H200`); of a modelled one, `virtual h200`.
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
    /// Of the repository the search ran in, where it ran in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Every knob there was. One the family got later keeps its default, which is how the kernel was before it.
    pub knobs: IndexMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Format(#[from] ManifestError),
    #[error("{}: {error}", path.display())]
    Unwritable { path: PathBuf, error: toml::ser::Error },
}

impl Default for Table {
    fn default() -> Self {
        Table { schema: SCHEMA, picks: Vec::new() }
    }
}

impl Table {
    /// The table of a text; `file` is how messages call it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        let reader = Reader { file, text };
        let table: Table = toml::from_str(text).map_err(|error| {
            reader.error(error.span().unwrap_or(0..0), FILE, error.message().replace('\n', " "))
        })?;
        if table.schema > SCHEMA {
            let message =
                format!("written by a newer version (schema {}; this one reads {SCHEMA})", table.schema);
            return Err(reader.error(0..0, "schema", message));
        }
        Ok(table)
    }

    /// The table of a file; an empty one where there is no file.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        match gpu::paths::read_text_bounded(path, MOST_BYTES) {
            Ok(text) => Ok(Table::parse(&path.display().to_string(), &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Table::default()),
            Err(error) => Err(TableError::Io { path: path.to_owned(), error }),
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), TableError> {
        let text =
            toml::to_string(self).map_err(|error| TableError::Unwritable { path: path.to_owned(), error })?;
        gpu::paths::write_atomically(path, text.as_bytes())
            .map_err(|error| TableError::Io { path: path.to_owned(), error })
    }

    /// Takes picks in. One of the same GPU, problem and family is replaced, but a measured one never by a modelled one.
    pub fn take(&mut self, picks: Vec<Pick>) {
        for pick in picks {
            let same = |before: &Pick| {
                (&before.problem, &before.family) == (&pick.problem, &pick.family) && before.is_of(&pick.gpu)
            };
            match self.picks.iter_mut().find(|before| same(before)) {
                Some(before) if pick.time.is_modelled() && !before.time.is_modelled() => {}
                Some(before) => *before = pick,
                None => self.picks.push(pick),
            }
        }
    }
}

impl Pick {
    /// Whether it is of this GPU, by any of its names: `NVIDIA L4`, `L4`, `virtual l4`, `virtual:l4`. The virtual GPU
    /// models the real one, so a pick of either serves both.
    pub fn is_of(&self, gpu: &str) -> bool {
        let (own, asked) = (without_virtual(&self.gpu), without_virtual(gpu));
        match (Chip::by_name(own), Chip::by_name(asked)) {
            (Ok(own), Ok(asked)) => own.id == asked.id,
            _ => own.eq_ignore_ascii_case(asked),
        }
    }

    /// Its knobs as a candidate takes them.
    pub fn setting(&self) -> Vec<(String, String)> {
        self.knobs.iter().map(|(knob, value)| (knob.clone(), value.clone())).collect()
    }
}

fn without_virtual(gpu: &str) -> &str {
    gpu.strip_prefix("virtual").and_then(|rest| rest.strip_prefix([' ', ':'])).unwrap_or(gpu)
}

#[cfg(test)]
mod tests {
    use gpu::time::{MeasuredMicros, ModelledMicros};

    use super::*;

    fn pick(gpu: &str, time: Time) -> Pick {
        Pick {
            gpu: gpu.to_owned(),
            problem: "b1h8s512d64-fp16".to_owned(),
            family: "attention/mma".to_owned(),
            time,
            speedup: 1.25,
            baseline: "small".to_owned(),
            build: "3f9a".to_owned(),
            commit: None,
            knobs: [("STAGES".to_owned(), "2".to_owned())].into(),
        }
    }

    fn measured(micros: f64) -> Time {
        Time::Measured(MeasuredMicros(micros))
    }

    fn modelled(micros: f64) -> Time {
        Time::Modelled(ModelledMicros(micros))
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(Table::read(&path).unwrap(), Table::default());
        let mut table = Table::default();
        let with_commit = Pick { commit: Some("1234567".to_owned()), ..pick("NVIDIA H200", measured(5.0)) };
        table.take(vec![with_commit, pick("virtual l4", modelled(9.5))]);
        table.write(&path).unwrap();
        assert_eq!(Table::read(&path).unwrap(), table);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("measured_us = 5.0") && text.contains("modelled_us = 9.5"), "{text}");
        assert_eq!(text.matches("commit = ").count(), 1, "what is not known is left out: {text}");
    }

    #[test]
    fn a_table_that_cannot_be_read_says_where_and_why() {
        let wrong = |text: &str| Table::parse("mine/tuned.toml", text).unwrap_err().to_string();
        assert_eq!(
            wrong("schema = 99\n"),
            "mine/tuned.toml:1:1: schema: written by a newer version (schema 99; this one reads 1)"
        );
        assert!(
            wrong("schema = 1\npicks = 3\n").starts_with("mine/tuned.toml:2:1: tuned.toml: unknown field")
        );
        assert!(wrong("schema = 1\n\n[[pick]]\ngpu = 3\n").starts_with("mine/tuned.toml:"));
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Table::read(folder.path()), Err(TableError::Io { .. })), "a folder is no table");
    }

    #[test]
    fn what_was_measured_is_not_replaced_by_a_model() {
        let mut table = Table::default();
        table.take(vec![pick("virtual h200", modelled(4.0))]);
        table.take(vec![pick("NVIDIA H200", measured(5.0))]);
        table.take(vec![pick("virtual h200", modelled(3.0))]);
        assert_eq!(table.picks, [pick("NVIDIA H200", measured(5.0))]);
    }

    #[test]
    fn families_do_not_replace_each_other() {
        let other = Pick { family: "attention/wmma".to_owned(), ..pick("NVIDIA H200", measured(9.0)) };
        let mut table = Table::default();
        table.take(vec![pick("NVIDIA H200", measured(5.0)), other]);
        assert_eq!(table.picks.len(), 2);
    }

    #[test]
    fn a_gpu_has_several_names() {
        for (own, asked, same) in [
            ("virtual l4", "L4", true),
            ("virtual:l4", "NVIDIA L4", true),
            ("NVIDIA L4", "virtual l4", true),
            ("NVIDIA H200", "H200 SXM", true),
            ("NVIDIA H200", "NVIDIA H100 80GB HBM3", false),
            ("virtual l4", "NVIDIA L40", false),
            // The table of GPUs need not know it.
            ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation", true),
            ("NVIDIA RTX 6000 Ada Generation", "NVIDIA L4", false),
            ("virtualised GPU", "ised GPU", false),
        ] {
            assert_eq!(pick(own, measured(1.0)).is_of(asked), same, "{own} and {asked}");
        }
    }
}
