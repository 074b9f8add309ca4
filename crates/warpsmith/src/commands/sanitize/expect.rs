//! Compares buffers with files after the launch (`--expect`).

use std::path::Path;

use launch::npy;
use sanitize::expect::{self, Array, Comparison};

use super::contents::Contents;
use crate::cli::SanitizeOptions;
use crate::error::CommandError;

/// Compares the buffers with the files that `--expect` names.
pub fn compare(options: &SanitizeOptions, buffers: &[Contents]) -> Result<Vec<Comparison>, CommandError> {
    options.expect.iter().map(|(name, file)| one(name, file, options, buffers)).collect()
}

fn one(
    name: &str,
    file: &str,
    options: &SanitizeOptions,
    buffers: &[Contents],
) -> Result<Comparison, CommandError> {
    let Some(buffer) = buffers.iter().find(|buffer| buffer.placed.name == name) else {
        let names: Vec<&str> = buffers.iter().map(|buffer| buffer.placed.name.as_str()).collect();
        return Err(CommandError::usage(format!("--expect: there is no buffer `{name}`"))
            .hint(format!("buffers: {}", names.join(", "))));
    };
    let array = npy::read(Path::new(file)).map_err(|error| CommandError::usage(format!("{file} {error}")))?;
    let placed = buffer.placed;
    let got = Array { name, dtype: placed.dtype, dims: &placed.dims, bytes: &buffer.bytes };
    let wanted = Array { name: file, dtype: array.dtype, dims: &array.dims, bytes: &array.elements };
    Ok(expect::compare(got, wanted, (options.rtol, options.atol))?)
}
