//! `topk.json`: the elites of a search, with everything that is needed to rebuild them.

use std::io::{self, Write};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::report::search::elites;
use crate::run::{Commit, Exporter, Fact, ProblemTime, RunState, Search, TrialResult};

/// Writes `topk.json`.
#[derive(Debug)]
pub struct TopK;

/// The contents of `topk.json`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TopKFile<'s> {
    schema: &'static str,
    complete: bool,
    commit: Fact<Commit>,
    device: Fact<String>,
    gpu: Fact<String>,
    search: &'s Option<Search>,
    elites: Vec<Elite<'s>>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Elite<'s> {
    rank: usize,
    trial: u32,
    candidate: &'s str,
    knobs: &'s IndexMap<String, String>,
    source: Option<&'s str>,
    parent: Option<u32>,
    origin: &'s str,
    build: &'s str,
    code_hash: &'s str,
    registers: u32,
    shared_bytes: u64,
    score: f64,
    problems: &'s [ProblemTime],
}

impl Exporter for TopK {
    fn file_name(&self) -> &'static str {
        "topk.json"
    }

    fn concerns(&self, state: &RunState) -> bool {
        !state.trials.is_empty()
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        let mut best = Vec::new();
        for (index, elite) in elites(state).into_iter().enumerate() {
            let trial = elite.trial;
            if let TrialResult::Timed { build, code_hash, registers, shared_bytes, score, problems, .. } =
                &trial.result
            {
                best.push(Elite {
                    rank: index + 1,
                    trial: trial.number,
                    candidate: &trial.candidate,
                    knobs: &trial.knobs,
                    source: trial.source.as_deref(),
                    parent: trial.parent,
                    origin: &trial.origin,
                    build,
                    code_hash,
                    registers: *registers,
                    shared_bytes: *shared_bytes,
                    score: *score,
                    problems,
                });
            }
        }
        let manifest = state.manifest.as_ref();
        let file = TopKFile {
            schema: "warpsmith.topk/1",
            complete: state.is_complete(),
            commit: manifest.map_or(Fact::default(), |manifest| manifest.commit.clone()),
            device: manifest.map_or(Fact::default(), |manifest| manifest.device.clone()),
            gpu: manifest.map_or(Fact::default(), |manifest| manifest.gpu.clone()),
            search: &state.search,
            elites: best,
        };
        serde_json::to_writer_pretty(&mut *out, &file)?;
        writeln!(out)
    }
}
