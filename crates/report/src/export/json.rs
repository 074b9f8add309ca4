//! `bench.json`: all results of a run.

use std::io::{self, Write};

use indexmap::IndexMap;
use runlog::{
    Ceiling, ClassError, Control, Fact, FailureRecord, Manifest, MeanSpeedup, ResultId, Row, RunOutcome,
    RunState, TargetVerdict, rows,
};
use schemars::JsonSchema;
use serde::Serialize;
use times::ModelledMicros;

use super::Exporter;

/// Writes `bench.json`.
#[derive(Debug)]
pub struct Json;

/// The contents of `bench.json`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct BenchFile<'s> {
    schema: &'static str,
    manifest: &'s Option<Manifest>,
    complete: bool,
    outcome: Option<RunOutcome>,
    baselines: &'s IndexMap<String, Fact<String>>,
    measured: Vec<Row>,
    modelled: Vec<ModelledRow<'s>>,
    errors: Vec<ErrorRow<'s>>,
    means: Vec<MeanSpeedup>,
    controls: &'s [Control],
    ceilings: &'s [Ceiling],
    failures: &'s [FailureRecord],
    targets: &'s [TargetVerdict],
    notes: &'s [String],
    warnings: &'s [String],
}

/// The modelled time of a subject on one problem.
#[derive(Debug, JsonSchema, Serialize)]
struct ModelledRow<'s> {
    #[serde(flatten)]
    of: &'s ResultId,
    gpu: &'s str,
    modelled_us: ModelledMicros,
    limiter: Option<&'s str>,
}

/// The error of a subject on inputs of one class.
#[derive(Debug, JsonSchema, Serialize)]
struct ErrorRow<'s> {
    #[serde(flatten)]
    of: &'s ResultId,
    #[serde(flatten)]
    error: &'s ClassError,
}

impl Exporter for Json {
    fn file_name(&self) -> &'static str {
        "bench.json"
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, &BenchFile::new(state))?;
        writeln!(out)
    }
}

impl<'s> BenchFile<'s> {
    /// The results of a run.
    pub fn new(state: &'s RunState) -> Self {
        let modelled = state.modelled.iter().map(|(of, modelled)| ModelledRow {
            of,
            gpu: &modelled.gpu,
            modelled_us: modelled.time_us,
            limiter: modelled.limiter.as_deref(),
        });
        let errors = state.class_errors.iter();
        let errors = errors.flat_map(|(of, errors)| errors.iter().map(move |error| ErrorRow { of, error }));
        BenchFile {
            schema: "warpsmith.bench/1",
            manifest: &state.manifest,
            complete: state.is_complete(),
            outcome: state.outcome,
            baselines: &state.baselines,
            measured: rows(state),
            modelled: modelled.collect(),
            errors: errors.collect(),
            means: state.means(),
            controls: &state.controls,
            ceilings: &state.ceilings,
            failures: &state.failures,
            targets: &state.targets,
            notes: &state.notes,
            warnings: &state.warnings,
        }
    }
}
