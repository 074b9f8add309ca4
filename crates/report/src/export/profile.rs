//! `profile.json`: the profiles of kernels, and the cost of known pathologies.

use std::io::{self, Write};

use runlog::record::{Inversion, Profile};
use runlog::{Manifest, ResultId, RunState};
use serde::Serialize;

use super::Exporter;

/// Writes `profile.json`.
#[derive(Debug)]
pub struct Profiles;

#[derive(Serialize)]
struct File<'s> {
    schema: &'static str,
    manifest: &'s Option<Manifest>,
    complete: bool,
    profiles: Vec<Profiled<'s>>,
    inversions: &'s [Inversion],
}

#[derive(Serialize)]
struct Profiled<'s> {
    #[serde(flatten)]
    of: &'s ResultId,
    #[serde(flatten)]
    profile: &'s Profile,
}

impl Exporter for Profiles {
    fn file_name(&self) -> &'static str {
        "profile.json"
    }

    fn concerns(&self, state: &RunState) -> bool {
        !state.profiles.is_empty() || !state.inversions.is_empty()
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        let file = File {
            schema: "warpsmith.profile/1",
            manifest: &state.manifest,
            complete: state.is_complete(),
            profiles: state.profiles.iter().map(|(of, profile)| Profiled { of, profile }).collect(),
            inversions: &state.inversions,
        };
        serde_json::to_writer_pretty(&mut *out, &file)?;
        writeln!(out)
    }
}
