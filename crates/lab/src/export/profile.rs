//! `profile.json`: the profiles of kernels, and the cost of known pathologies.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use crate::record::{Inversion, Profile};
use crate::run::{Exporter, Manifest, ResultId, RunState};

/// Writes `profile.json`.
#[derive(Debug)]
pub struct Profiles;

/// The contents of `profile.json`.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(inline)]
pub struct ProfileFile<'s> {
    schema: &'static str,
    manifest: &'s Option<Manifest>,
    complete: bool,
    profiles: Vec<NamedProfile<'s>>,
    inversions: &'s [Inversion],
}

/// The profile of one kernel.
#[derive(Debug, JsonSchema, Serialize)]
pub struct NamedProfile<'s> {
    /// What was profiled.
    #[serde(flatten)]
    pub of: &'s ResultId,
    /// The profile.
    #[serde(flatten)]
    pub profile: &'s Profile,
}

impl Exporter for Profiles {
    fn file_name(&self) -> &'static str {
        "profile.json"
    }

    fn concerns(&self, state: &RunState) -> bool {
        !state.profiles.is_empty() || !state.inversions.is_empty()
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        let file = ProfileFile {
            schema: "warpsmith.profile/1",
            manifest: &state.manifest,
            complete: state.is_complete(),
            profiles: state.profiles.iter().map(|(of, profile)| NamedProfile { of, profile }).collect(),
            inversions: &state.inversions,
        };
        serde_json::to_writer_pretty(&mut *out, &file)?;
        writeln!(out)
    }
}
