//! The files that are derived from the log: one exporter per format.

mod csv;
mod json;
mod profile;
mod topk;
mod tune_log;

pub use json::BenchFile;
pub use profile::{NamedProfile, ProfileFile};
pub use topk::TopKFile;

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::report;
use crate::run::{Exporter, RunState};

/// All exporters.
pub const EXPORTERS: [&dyn Exporter; 7] = [
    &json::Json,
    &csv::Csv,
    &tune_log::TuneLog,
    &topk::TopK,
    &profile::Profiles,
    &report::Markdown,
    &report::Html,
];

/// Writes every file for a log that was read. Its temporary files have other names than those of [`Exports`], so it
/// does not interfere with an active run.
pub fn write_exports(folder: &Path, state: &RunState) -> io::Result<Vec<PathBuf>> {
    let exporters = EXPORTERS.into_iter().filter(|exporter| exporter.concerns(state));
    exporters
        .map(|exporter| {
            let path = folder.join(exporter.file_name());
            let mut bytes = Vec::new();
            exporter.write(state, &mut bytes)?;
            gpu::paths::write_atomically(&path, &bytes)?;
            Ok(path)
        })
        .collect()
}

/// Open export files. They are opened before anything is measured, so that a read-only folder is reported early. Each
/// file gets its final name when it is complete.
#[derive(Debug)]
pub struct Exports {
    open: Vec<OpenExport>,
}

#[derive(Debug)]
struct OpenExport {
    exporter: &'static dyn Exporter,
    partial: PathBuf,
    path: PathBuf,
    file: File,
}

impl Exports {
    /// Opens a temporary file for every exporter.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let open = |exporter: &'static dyn Exporter| -> io::Result<OpenExport> {
            let path = folder.join(exporter.file_name());
            let partial = folder.join(format!(".{}.partial", exporter.file_name()));
            let file = gpu::paths::create_new_file(&partial)?;
            Ok(OpenExport { exporter, partial, path, file })
        };
        Ok(Exports { open: EXPORTERS.into_iter().map(open).collect::<io::Result<_>>()? })
    }

    /// Writes all files for which the run has data, and returns their paths.
    pub fn write(self, state: &RunState) -> io::Result<Vec<PathBuf>> {
        let (written, empty): (Vec<OpenExport>, Vec<OpenExport>) =
            self.open.into_iter().partition(|open| open.exporter.concerns(state));
        empty.iter().try_for_each(|open| fs::remove_file(&open.partial))?;
        written
            .into_iter()
            .map(|OpenExport { exporter, partial, path, file }| {
                let mut out = BufWriter::new(file);
                exporter.write(state, &mut out)?;
                out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
                fs::rename(&partial, &path)?;
                Ok(path)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::{PROBLEM, bench_log, full_log, state_from};
    use crate::run::{Event, Fact};

    fn text(exporter: &dyn Exporter, state: &RunState) -> String {
        let mut out = Vec::new();
        exporter.write(state, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn files_appear_only_when_they_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let exports = Exports::open(folder.path()).unwrap();
        assert!(!folder.path().join("bench.json").exists());
        let state = state_from(&bench_log());
        let written = exports.write(&state).unwrap();
        let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["bench.json", "bench.csv", "summary.md", "report.html"]);
        assert_eq!(fs::read_to_string(&written[1]).unwrap(), text(&csv::Csv, &state));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "no partial files are left");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_reported_early() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Exports::open(&folder.path().join("missing")).is_err());
    }

    #[test]
    fn json_separates_measured_and_modelled_times() {
        let json: serde_json::Value =
            serde_json::from_str(&text(&json::Json, &state_from(&bench_log()))).unwrap();
        assert_eq!(json["schema"], "warpsmith.bench/1");
        assert_eq!(json["complete"], true);
        let measured = json["measured"].as_array().unwrap();
        assert_eq!(measured.len(), 2);
        assert_eq!(measured[1]["subject"], "wmma stage-2");
        assert!(measured[1]["p50_us"].as_f64().is_some() && measured[1].get("modelled_us").is_none());
        assert_eq!(measured[1]["over"][0]["comparison"]["verdict"], "faster");
        let modelled = json["modelled"].as_array().unwrap();
        assert_eq!(modelled[0]["modelled_us"], 31.5);
        assert!(modelled[0].get("p50_us").is_none());
        assert_eq!(json["baselines"]["pytorch cudnn"], "unavailable: no cudnn");
        assert_eq!(json["failures"][0]["kind"], "wrong-answer");
        assert_eq!(json["means"][0]["standing"], "excellent");
    }

    #[test]
    fn csv_has_separate_columns_for_measured_and_modelled_times() {
        let text = text(&csv::Csv, &state_from(&bench_log()));
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers().unwrap().clone();
        let at = |name: &str| headers.iter().position(|header| header == name).unwrap();
        let rows: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        let (torch, wmma, modelled) = (&rows[0], &rows[1], &rows[2]);
        assert_eq!((&torch[at("subject")], &torch[at("role")]), ("pytorch flash", "baseline"));
        assert_eq!((&wmma[at("baseline")], &wmma[at("verdict")]), ("pytorch flash", "faster"));
        assert!((wmma[at("speedup")].parse::<f64>().unwrap() - 2.0).abs() < 1e-9);
        assert_eq!((&wmma[at("modelled_us")], &modelled[at("p50_us")]), ("NA", "NA"));
        assert_eq!(modelled[at("modelled_us")].parse::<f64>().unwrap(), 31.5);
    }

    #[test]
    fn the_summary_has_results_failures_and_notes() {
        let text = text(&report::Markdown, &state_from(&bench_log()));
        for wanted in [
            "NVIDIA H200",
            "## Measured",
            "## Modelled, not measured",
            "2.00x",
            "faster",
            "31.50 us (modelled)",
            "wrong answer",
            "met",
            "clocks are not locked",
            "pytorch cudnn: unavailable: no cudnn",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        // Every row of a table has as many cells as its header.
        let mut columns = None;
        for line in text.lines() {
            if !line.starts_with('|') {
                columns = None;
                continue;
            }
            let cells = line.replace("\\|", "").matches('|').count();
            assert_eq!(*columns.get_or_insert(cells), cells, "{line}");
        }
    }

    #[test]
    fn the_files_of_a_stopped_run_say_incomplete() {
        let mut events = bench_log();
        events.pop();
        let state = state_from(&events);
        assert!(text(&report::Markdown, &state).contains("incomplete"));
        let json: serde_json::Value = serde_json::from_str(&text(&json::Json, &state)).unwrap();
        assert_eq!(json["complete"], false);
    }

    #[test]
    fn hostile_text_cannot_break_a_markdown_table() {
        let mut events = bench_log();
        let name = "evil | name\n# heading".to_owned();
        events.insert(1, Event::Baseline { name, version: Fact::unavailable("a|b\nc") });
        let text = text(&report::Markdown, &state_from(&events));
        assert!(!text.lines().any(|line| line.starts_with("# heading")), "{text}");
    }

    #[test]
    fn an_empty_log_can_be_exported() {
        let state = RunState::default();
        for exporter in EXPORTERS {
            assert!(!text(exporter, &state).is_empty(), "{exporter:?}");
        }
    }

    #[test]
    fn the_tune_log_has_one_row_per_trial() {
        let state = state_from(&full_log());
        let text = text(&tune_log::TuneLog, &state);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers().unwrap().clone();
        let at = |name: &str| headers.iter().position(|header| header == name).unwrap();
        let rows: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), state.trials.len());
        let (best, same, failed) = (&rows[10], &rows[4], &rows[7]);
        assert_eq!((&best[at("trial")], &best[at("result")], &best[at("elite")]), ("10", "timed", "true"));
        assert_eq!((&best[at("knob STAGES")], &best[at("parent")]), ("3", "5"));
        let modelled = format!("{PROBLEM} modelled_us");
        assert!((best[at(&modelled)].parse::<f64>().unwrap() - 40.0 / 1.36).abs() < 1e-9);
        assert_eq!(&best[at(&format!("{PROBLEM} measured_us"))], "NA");
        assert_eq!((&same[at("result")], &same[at("same_as")], &same[at("score")]), ("same", "3", "NA"));
        assert_eq!((&failed[at("result")], &failed[at("stage")]), ("too large", "build"));
        assert!(failed[at("reason")].contains("shared memory"));
    }

    #[test]
    fn topk_has_everything_to_rebuild_the_elites() {
        let state = state_from(&full_log());
        let json: serde_json::Value = serde_json::from_str(&text(&topk::TopK, &state)).unwrap();
        assert_eq!(
            (&json["schema"], &json["device"], &json["commit"]),
            (&"warpsmith.topk/1".into(), &"cuda:0".into(), &"unavailable".into())
        );
        assert_eq!(json["search"]["family"], "attention/mma");
        let elites = json["elites"].as_array().unwrap();
        assert_eq!(
            elites.iter().map(|elite| elite["trial"].as_u64().unwrap()).collect::<Vec<_>>(),
            [10, 5, 8]
        );
        let best = &elites[0];
        assert_eq!(
            (&best["rank"], &best["build"], &best["knobs"]["STAGES"]),
            (&1.into(), &"b3-48-0".into(), &"3".into())
        );
        let time = &best["problems"][0];
        assert_eq!((&time["problem"], &time["speedup"]), (&PROBLEM.into(), &1.36.into()));
        assert!(time["time"]["modelled_us"].is_f64() && time["time"].get("measured_us").is_none(), "{time}");
    }

    #[test]
    fn a_profile_names_unavailable_metrics() {
        let state = state_from(&full_log());
        let json: serde_json::Value = serde_json::from_str(&text(&profile::Profiles, &state)).unwrap();
        let found = &json["profiles"][0];
        assert_eq!((&found["subject"], &found["source"]), (&"wmma stage-2".into(), &"virtual:l4".into()));
        assert_eq!(found["metrics"]["l2_hit_percent"], "unavailable: the model has no L2");
        assert_eq!(found["metrics"]["registers"], 128);
        assert_eq!(json["inversions"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn a_run_without_a_search_or_profile_has_no_such_files() {
        let state = state_from(&bench_log());
        assert!(!tune_log::TuneLog.concerns(&state) && !topk::TopK.concerns(&state));
        assert!(!profile::Profiles.concerns(&state));
    }

    #[test]
    fn files_can_be_written_while_a_run_has_them_open() {
        let folder = tempfile::tempdir().unwrap();
        let open = Exports::open(folder.path()).unwrap();
        let state = state_from(&full_log());
        let names = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let all = [
            "bench.json",
            "bench.csv",
            "tune_log.csv",
            "topk.json",
            "profile.json",
            "summary.md",
            "report.html",
        ];
        assert_eq!(names(&write_exports(folder.path(), &state).unwrap()), all);
        assert_eq!(names(&open.write(&state).unwrap()), all);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), all.len(), "no partial files are left");
    }
}
