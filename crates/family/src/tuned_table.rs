//! The tuned table: the best setting of a family that a search found, by GPU and problem.
//!
//! A family's own table is the file `tuned.toml` next to its manifest. Searches write such files ([`Table::merge`],
//! [`Table::write`]), and [`crate::Catalog`] reads them. The op (crate `op`) defines the meaning of a problem's name
//! and the pick for a problem that has none.

use std::io;
use std::path::{Path, PathBuf};

use chips::Chip;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use times::Time;

use crate::text::{ManifestError, Reader};

/// Version of the file format.
pub const SCHEMA: u32 = 1;

/// Largest size of a table, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// The name of the table's file, next to the manifest.
pub const FILE: &str = "tuned.toml";

/// The preset name that selects each problem's pick from the table. No family has a preset with this name.
pub const PRESET: &str = "tuned";

/// Whether a preset's name selects the tuned table.
pub fn is_tuned(preset: &str) -> bool {
    preset.eq_ignore_ascii_case(PRESET)
}

/// The tuned table of a family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Version of the file format; [`SCHEMA`] for a new table.
    pub schema: u32,
    /// The entries of the table.
    #[serde(default, rename = "pick")]
    pub picks: Vec<Pick>,
}

/// The best setting of a family for one GPU and one problem.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Pick {
    /// The driver's name of the GPU (`NVIDIA H200`), or `virtual h200` for a modelled time.
    pub gpu: String,
    /// The problem's name.
    pub problem: String,
    /// The family's full name, such as `attention/mma`.
    pub family: String,
    /// `measured_us` or `modelled_us`.
    #[serde(flatten)]
    pub time: Time,
    /// Speedup over the baseline, if a search measured it. A pick that was chosen by hand has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub speedup: Option<f64>,
    /// The preset that the search started from, or the most similar preset.
    pub baseline: String,
    /// The hash of the build.
    pub build: String,
    /// The commit of the repository in which the search ran, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The value of every knob at the time. A knob that the family got later keeps its default, which is the earlier
    /// behaviour.
    pub knobs: IndexMap<String, String>,
}

/// Why a table cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The table's file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The text of the file is not a valid table.
    #[error(transparent)]
    Format(#[from] ManifestError),
    /// The table cannot be converted to TOML.
    #[error("{}: {error}", path.display())]
    Unwritable {
        /// The table's file.
        path: PathBuf,
        /// The error of the conversion.
        error: toml::ser::Error,
    },
}

impl Default for Table {
    fn default() -> Self {
        Table { schema: SCHEMA, picks: Vec::new() }
    }
}

impl Table {
    /// Parses a table; `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        let reader = Reader { file, text };
        let table: Table = toml::from_str(text).map_err(|error| {
            reader.error(error.span().unwrap_or(0..0), FILE, error.message().replace('\n', " "))
        })?;
        if table.schema > SCHEMA {
            let message = format!(
                "was written by a newer version (schema {}; this program reads {SCHEMA})",
                table.schema
            );
            return Err(reader.error(0..0, "schema", message));
        }
        Ok(table)
    }

    /// Reads a table from a file; the table is empty if the file does not exist.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        match files::read_text_bounded(path, MOST_BYTES) {
            Ok(text) => Ok(Table::parse(&path.display().to_string(), &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Table::default()),
            Err(error) => Err(TableError::Io { path: path.to_owned(), error }),
        }
    }

    /// Writes the table to a file, atomically.
    pub fn write(&self, path: &Path) -> Result<(), TableError> {
        let text =
            toml::to_string(self).map_err(|error| TableError::Unwritable { path: path.to_owned(), error })?;
        files::write_atomically(path, text.as_bytes())
            .map_err(|error| TableError::Io { path: path.to_owned(), error })
    }

    /// Merges picks. A pick of the same GPU, problem and family is replaced, but a measured one never by a modelled
    /// one.
    pub fn merge(&mut self, picks: Vec<Pick>) {
        for pick in picks {
            let same = |before: &Pick| {
                (&before.problem, &before.family) == (&pick.problem, &pick.family)
                    && before.matches_gpu(&pick.gpu)
            };
            match self.picks.iter_mut().find(|before| same(before)) {
                Some(before) if pick.time.is_modelled() && before.is_measured() => {}
                Some(before) => *before = pick,
                None => self.picks.push(pick),
            }
        }
    }
}

impl Pick {
    /// Whether the pick is for this GPU, by any of its names: `NVIDIA L4`, `L4`, `virtual l4`, `virtual:l4`. The
    /// virtual GPU models the real one, so a pick for either applies to both.
    pub fn matches_gpu(&self, gpu: &str) -> bool {
        let (own, asked) = (without_virtual(&self.gpu), without_virtual(gpu));
        match (Chip::by_name(own), Chip::by_name(asked)) {
            (Ok(own), Ok(asked)) => own.id == asked.id,
            _ => own.eq_ignore_ascii_case(asked),
        }
    }

    /// Whether the time was measured. A virtual GPU has no measured times, whatever a table says.
    fn is_measured(&self) -> bool {
        !self.time.is_modelled() && without_virtual(&self.gpu) == self.gpu
    }

    /// The knobs in the form that [`crate::Family::candidate`] takes.
    pub fn setting(&self) -> Vec<(String, String)> {
        self.knobs.iter().map(|(knob, value)| (knob.clone(), value.clone())).collect()
    }
}

fn without_virtual(gpu: &str) -> &str {
    gpu.strip_prefix("virtual").and_then(|rest| rest.strip_prefix([' ', ':'])).unwrap_or(gpu)
}

#[cfg(test)]
mod tests {
    use times::{MeasuredMicros, ModelledMicros};

    use super::*;

    fn pick(gpu: &str, time: Time) -> Pick {
        Pick {
            gpu: gpu.to_owned(),
            problem: "b1h8s512d64-fp16".to_owned(),
            family: "attention/mma".to_owned(),
            time,
            speedup: Some(1.25),
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
    fn a_written_table_is_read_back_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(Table::read(&path).unwrap(), Table::default());
        let mut table = Table::default();
        let with_commit = Pick { commit: Some("1234567".to_owned()), ..pick("NVIDIA H200", measured(5.0)) };
        table.merge(vec![with_commit, pick("virtual l4", modelled(9.5))]);
        table.write(&path).unwrap();
        assert_eq!(Table::read(&path).unwrap(), table);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("measured_us = 5.0") && text.contains("modelled_us = 9.5"), "{text}");
        assert_eq!(text.matches("commit = ").count(), 1, "an unknown commit must be left out: {text}");
    }

    #[test]
    fn an_invalid_table_is_refused_with_place_and_reason() {
        let wrong = |text: &str| Table::parse("mine/tuned.toml", text).unwrap_err().to_string();
        assert_eq!(
            wrong("schema = 99\n"),
            "mine/tuned.toml:1:1: schema: was written by a newer version (schema 99; this program reads 1)"
        );
        assert!(
            wrong("schema = 1\npicks = 3\n").starts_with("mine/tuned.toml:2:1: tuned.toml: unknown field")
        );
        assert!(wrong("schema = 1\n\n[[pick]]\ngpu = 3\n").starts_with("mine/tuned.toml:"));
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Table::read(folder.path()), Err(TableError::Io { .. })), "a folder is not a table");
    }

    #[test]
    fn a_measured_pick_is_not_replaced_by_a_modelled_one() {
        let mut table = Table::default();
        table.merge(vec![pick("virtual h200", modelled(4.0))]);
        table.merge(vec![pick("NVIDIA H200", measured(5.0))]);
        table.merge(vec![pick("virtual h200", modelled(3.0))]);
        assert_eq!(table.picks, [pick("NVIDIA H200", measured(5.0))]);
        // A virtual GPU has no measured times.
        table.picks[0].gpu = "virtual h200".to_owned();
        table.merge(vec![pick("virtual h200", modelled(3.0))]);
        assert_eq!(table.picks, [pick("virtual h200", modelled(3.0))]);
    }

    #[test]
    fn picks_of_different_families_do_not_replace_each_other() {
        let other = Pick { family: "attention/wmma".to_owned(), ..pick("NVIDIA H200", measured(9.0)) };
        let mut table = Table::default();
        table.merge(vec![pick("NVIDIA H200", measured(5.0)), other]);
        assert_eq!(table.picks.len(), 2);
    }

    #[test]
    fn a_pick_matches_every_name_of_its_gpu() {
        for (own, asked, same) in [
            ("virtual l4", "L4", true),
            ("virtual:l4", "NVIDIA L4", true),
            ("NVIDIA L4", "virtual l4", true),
            ("NVIDIA H200", "H200 SXM", true),
            ("NVIDIA H200", "NVIDIA H100 80GB HBM3", false),
            ("virtual l4", "NVIDIA L40", false),
            // A GPU that the chip table does not contain.
            ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation", true),
            ("NVIDIA RTX 6000 Ada Generation", "NVIDIA L4", false),
            ("virtualised GPU", "ised GPU", false),
        ] {
            assert_eq!(pick(own, measured(1.0)).matches_gpu(asked), same, "{own} and {asked}");
        }
    }
}
