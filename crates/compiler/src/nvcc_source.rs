//! Builds sources that were written for nvcc. They contain host code, include headers of the host, and use what nvcc
//! includes without being asked. NVRTC has none of that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{BuildError, BuildOutcome, Compiler, Request, host_code, includes};

/// The header that stands for what nvcc always includes.
const ALWAYS: (&str, &str) = ("warpsmith_nvcc.h", include_str!("shims/nvcc.h"));

/// Headers of CUDA libraries that are not part of the compiler's wheels.
const SHIMS: [(&str, &str); 2] =
    [("curand_kernel.h", include_str!("shims/curand_kernel.h")), ("curand.h", "#pragma once\n")];

/// The largest number of compilations after the first. Each leaves out a missing header, or declarations that fail.
const MOST_ATTEMPTS: usize = 64;

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

/// Adds what nvcc includes in every file without being asked, such as `INFINITY`.
pub fn add_nvcc_macros(request: &mut Request) {
    request.source.headers.push((ALWAYS.0.to_owned(), ALWAYS.1.to_owned()));
    request.options.push(format!("--pre-include={}", ALWAYS.0));
}

impl Compiler {
    /// Builds a source that was written for nvcc. It is compiled as it is; only if that fails, host code is removed
    /// and headers that do not exist are left out. The error is then that of the second attempt.
    pub fn build_nvcc_source(&self, request: &Request) -> Result<NvccOutcome, BuildError> {
        let mut request = request.clone();
        add_nvcc_macros(&mut request);
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
        let words = device_words(&request);
        let host_functions = remove_host_code(&mut request, &words);
        // Declarations that fail are left out only if the rest then compiles: a mistake in the kernel's own types is
        // reported where it is.
        let mut first_failure = None;
        for _ in 0..MOST_ATTEMPTS {
            let error = match self.build(&request) {
                Ok(outcome) => return Ok(NvccOutcome { outcome, host_functions, missing_headers }),
                Err(error) => error,
            };
            if let Some(name) = missing_header(&error).filter(|name| !missing_headers.contains(name)) {
                request.source.headers.push((name.clone(), "#pragma once\n".to_owned()));
                missing_headers.push(name);
                continue;
            }
            let can_continue = remove_failing(&mut request, &error, &words);
            let first = first_failure.unwrap_or(error);
            if !can_continue {
                return Err(first);
            }
            first_failure = Some(first);
        }
        self.build(&request).map(|outcome| NvccOutcome { outcome, host_functions, missing_headers })
    }
}

/// The words of device code in the source and the headers that lie beside it.
fn device_words(request: &Request) -> BTreeSet<String> {
    let source = &request.source;
    let on_disk = includes::on_disk(&source.text, &source.include_dirs);
    host_code::device_words(&on_disk.values().chain([&source.text]).map(String::as_str))
}

/// Removes the declarations outside device code that the compiler refuses. Returns whether there are some.
fn remove_failing(request: &mut Request, error: &BuildError, words: &BTreeSet<String>) -> bool {
    let BuildError::Source { diagnostics, .. } = error else { return false };
    let lines = |file: &str| -> Vec<u32> {
        let places = diagnostics.iter().filter_map(|diagnostic| diagnostic.place.as_ref());
        places.filter(|place| place.file == file).map(|place| place.line).collect()
    };
    let source = &mut request.source;
    let mut has_changed = false;
    let texts = source.headers.iter_mut().map(|(name, text)| (name.clone(), text));
    for (name, text) in texts.chain([(source.name.clone(), &mut source.text)]) {
        if let Some(without) = host_code::without_lines(text, &lines(&name), words) {
            *text = without;
            has_changed = true;
        }
    }
    has_changed
}

/// Removes host code from the source and from the headers that lie beside it. Returns the names of its functions.
fn remove_host_code(request: &mut Request, words: &BTreeSet<String>) -> Vec<String> {
    let source = &mut request.source;
    let on_disk = includes::on_disk(&source.text, &source.include_dirs);
    let texts = on_disk.values().chain([&source.text]).map(String::as_str);
    let without = host_code::without_host_code(&source.text, words);
    let names: BTreeSet<&str> = texts.flat_map(includes::included_names).collect();
    let mut changed = Vec::new();
    for name in names {
        let Some(path) = on_disk.keys().find(|path| path.ends_with(Path::new(name))) else { continue };
        let header = host_code::without_host_code(&on_disk[path], words);
        // Every header is given from memory, so that parts of it can be removed later.
        changed.push((name.to_owned(), header.text));
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
