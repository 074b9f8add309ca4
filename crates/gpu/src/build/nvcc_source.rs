//! Builds sources that were written for nvcc. They contain host code, include headers of the host, and use what nvcc
//! includes without being asked. NVRTC has none of that.

use std::path::{Path, PathBuf};

use super::{BuildError, BuildOutcome, Compiler, Request, host_code, includes};

/// The header that stands for what nvcc always includes.
const ALWAYS: (&str, &str) = ("warpsmith_nvcc.h", include_str!("shims/nvcc.h"));

/// Headers of CUDA libraries that are not part of the compiler's wheels.
const SHIMS: [(&str, &str); 2] =
    [("curand_kernel.h", include_str!("shims/curand_kernel.h")), ("curand.h", "#pragma once\n")];

/// The largest number of missing headers that are replaced by empty ones.
const MOST_MISSING: usize = 64;

/// A build, and what was done to the source so that it compiles.
#[derive(Clone, Debug)]
pub struct NvccOutcome {
    /// The build.
    pub outcome: BuildOutcome,
    /// The host functions that were removed.
    pub host_functions: Vec<String>,
    /// The headers that do not exist and were left out.
    pub missing_headers: Vec<String>,
}

impl Compiler {
    /// Builds a source that was written for nvcc. It is compiled as it is; only if that fails, host code is removed
    /// and headers that do not exist are left out. The error is then that of the second attempt.
    pub fn build_nvcc_source(&self, request: &Request) -> Result<NvccOutcome, BuildError> {
        let mut request = request.clone();
        request.source.headers.push((ALWAYS.0.to_owned(), ALWAYS.1.to_owned()));
        request.options.push(format!("--pre-include={}", ALWAYS.0));
        for (name, text) in SHIMS {
            let exists = |folder: &PathBuf| folder.join(name).is_file();
            if !request.source.include_dirs.iter().chain(self.header_folders()).any(exists) {
                request.source.headers.push((name.to_owned(), text.to_owned()));
            }
        }
        let mut missing_headers = Vec::new();
        match self.build(&request) {
            Err(BuildError::Source { .. }) => {}
            other => {
                return other.map(|outcome| NvccOutcome { outcome, host_functions: vec![], missing_headers });
            }
        }
        let host_functions = remove_host_code(&mut request);
        loop {
            let error = match self.build(&request) {
                Ok(outcome) => return Ok(NvccOutcome { outcome, host_functions, missing_headers }),
                Err(error) => error,
            };
            let Some(name) = missing_header(&error) else { return Err(error) };
            if missing_headers.contains(&name) || missing_headers.len() == MOST_MISSING {
                return Err(error);
            }
            request.source.headers.push((name.clone(), "#pragma once\n".to_owned()));
            missing_headers.push(name);
        }
    }
}

/// Removes host code from the source and from the headers that lie beside it. Returns the names of its functions.
fn remove_host_code(request: &mut Request) -> Vec<String> {
    let source = &mut request.source;
    let on_disk = includes::on_disk(&source.text, &source.include_dirs);
    let texts = || on_disk.values().map(String::as_str);
    let without = host_code::without_host_code(&source.text, texts());
    let names = on_disk.values().chain([&source.text]).flat_map(|text| includes::included_names(text));
    let mut changed = Vec::new();
    for name in names {
        let ends_with_name = |path: &&PathBuf| path.ends_with(Path::new(name));
        let Some(path) = on_disk.keys().find(ends_with_name) else { continue };
        let header = host_code::without_host_code(&on_disk[path], texts());
        if header.text != on_disk[path] && !changed.iter().any(|(it, _)| it == name) {
            changed.push((name.to_owned(), header.text));
        }
    }
    source.text = without.text;
    source.headers.extend(changed);
    without.functions
}

/// The header that the compiler did not find.
fn missing_header(error: &BuildError) -> Option<String> {
    let BuildError::Source { diagnostics, .. } = error else { return None };
    diagnostics.iter().find_map(|diagnostic| {
        let rest = diagnostic.message.split_once("cannot open source file \"")?.1;
        rest.split_once('"').map(|(name, _)| name.to_owned())
    })
}
