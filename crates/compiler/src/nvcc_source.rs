//! Builds sources that were written for nvcc. They contain host code, include headers of the host, and use what nvcc
//! includes without being asked. NVRTC has none of that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::standard::standard_headers;
use super::{BuildError, BuildOutcome, Compiler, Diagnostic, Request, Severity, Source, host_code, includes};

/// The header that stands for what nvcc always includes.
const ALWAYS: (&str, &str) = ("warpsmith_nvcc.h", include_str!("shims/nvcc.h"));

/// The header for what stays of host code: names of the standard library, mostly.
const HOST: (&str, &str) = ("warpsmith_host.h", include_str!("shims/host.h"));

/// What stands for missing headers of PyTorch, and how their names begin.
const TORCH: &str = include_str!("shims/torch.h");
const TORCH_FOLDERS: [&str; 3] = ["torch/", "ATen/", "c10/"];

/// Headers of CUDA libraries that are not part of the compiler's wheels.
const SHIMS: [(&str, &str); 4] = [
    ("curand_kernel.h", include_str!("shims/curand_kernel.h")),
    ("curand.h", "#pragma once\n"),
    ("cufft.h", CUFFT),
    ("cufftXt.h", CUFFT),
];

/// The types of cuFFT that kernels use.
const CUFFT: &str = include_str!("shims/cufft.h");

/// Headers of CUDA for graphics libraries. They declare host functions only, and need headers that most machines lack.
const GRAPHICS: [&str; 7] = [
    "cuda_gl_interop.h",
    "cuda_egl_interop.h",
    "cuda_d3d9_interop.h",
    "cuda_d3d10_interop.h",
    "cuda_d3d11_interop.h",
    "cuda_vdpau_interop.h",
    "cudaGL.h",
];

/// The largest number of compilations after the first. Each leaves out a missing header, or declarations that fail.
const MOST_ATTEMPTS: usize = 48;

/// A build, and what was done to the source so that it compiles.
#[derive(Clone, Debug)]
pub struct NvccOutcome {
    /// The build.
    pub outcome: BuildOutcome,
    /// The host functions that were removed.
    pub host_functions: Vec<String>,
    /// The headers that do not exist and were left out.
    pub missing_headers: Vec<String>,
    /// Folders above the source in which headers were found that are in no given folder.
    pub found_in: Vec<PathBuf>,
    /// The declarations that do not compile and were left out, without their bodies.
    pub left_out: Vec<String>,
    /// Whether an older standard of C++ was asked for than what the standard headers need.
    pub has_newer_standard: bool,
}

/// Adds what nvcc includes in every file without being asked, such as `INFINITY`.
fn add_nvcc_macros(request: &mut Request) {
    request.source.headers.push((ALWAYS.0.to_owned(), ALWAYS.1.to_owned()));
    request.options.push(format!("--pre-include={}", ALWAYS.0));
}

/// Prepares a source that was written for nvcc for [`Compiler::build`]: adds the macros of nvcc and the standard headers. A
/// file that contains a whole program loses its host code, and the headers that only host code can use become empty.
pub fn prepare_nvcc_source(request: &mut Request) {
    add_nvcc_macros(request);
    let source = &mut request.source;
    let add = |headers: &mut Vec<(String, String)>, name: &str, text: &str| {
        if headers.iter().all(|(known, _)| known != name) {
            headers.push((name.to_owned(), text.to_owned()));
        }
    };
    for (name, text) in standard_headers() {
        add(&mut source.headers, &name, &text);
    }
    let device_words = words_of(source, &[]);
    let without = host_code::without_host_code(&source.text, &device_words);
    if without.functions.iter().any(|name| name == "main") {
        // A name without an ending, such as `vector`, is one of the standard library.
        let of_host = |name: &&str| !name.contains(['.', '/']) || POSIX.contains(name);
        for name in includes::included_names(&source.text).filter(of_host) {
            add(&mut source.headers, name, "");
        }
        source.text = without.text;
        add(&mut source.headers, HOST.0, HOST.1);
        request.options.push(format!("--pre-include={}", HOST.0));
    }
}

/// The words of device code in a source and in what it includes, also from these folders.
fn words_of(source: &Source, folders: &[PathBuf]) -> BTreeSet<String> {
    let own = Path::new(&source.name).parent().map(Path::to_owned);
    let folders: Vec<PathBuf> =
        own.into_iter().chain(source.include_dirs.iter().cloned()).chain(folders.iter().cloned()).collect();
    // A header in memory may include one on disk.
    let in_memory = source.headers.iter().map(|(_, text)| text.as_str());
    let own_texts: Vec<&str> = in_memory.chain([source.text.as_str(), TORCH]).collect();
    let found: Vec<_> = own_texts.iter().map(|text| includes::on_disk(text, &folders)).collect();
    let on_disk = found.iter().flat_map(|files| files.values().map(String::as_str));
    host_code::device_words(&own_texts.iter().copied().chain(on_disk))
}

impl Compiler {
    /// Builds a source that was written for nvcc. It is compiled as it is; only if that fails, host code is removed
    /// and headers that do not exist are left out. Then declarations that fail are left out, first those of host code,
    /// then others, but never a kernel. If a kernel needs one of them, its error is the error.
    pub fn build_nvcc_source(&self, request: &Request) -> Result<NvccOutcome, BuildError> {
        let mut request = request.clone();
        add_nvcc_macros(&mut request);
        for (name, text) in SHIMS {
            if !self.has_header(&request, name) {
                request.source.headers.push((name.to_owned(), text.to_owned()));
            }
        }
        match self.build(&request) {
            Err(BuildError::Source { name, diagnostics, log }) if is_of_assembler(&diagnostics) => {
                let diagnostics = without_features(diagnostics, &request);
                return Err(BuildError::Source { name, diagnostics, log });
            }
            Err(BuildError::Source { .. }) => {}
            other => {
                return other.map(|outcome| NvccOutcome {
                    outcome,
                    host_functions: vec![],
                    missing_headers: vec![],
                    found_in: vec![],
                    left_out: vec![],
                    has_newer_standard: false,
                });
            }
        }
        let has_newer_standard = use_library_standard(&mut request);
        let device_words = words_of(&request.source, self.header_folders());
        let mut attempt = Attempt::new(request, device_words);
        attempt.fill_missing(|request, name| self.has_header(request, name));
        for _ in 0..MOST_ATTEMPTS {
            match self.build(&attempt.request) {
                Ok(outcome) => return Ok(attempt.finished(outcome, has_newer_standard)),
                Err(error) if !attempt.can_continue(&error) => return Err(attempt.explained(error)),
                Err(_) => {}
            }
        }
        match self.build(&attempt.request) {
            Ok(outcome) => Ok(attempt.finished(outcome, has_newer_standard)),
            Err(error) => Err(attempt.explained(error)),
        }
    }

    /// Whether a header is given or is in a folder that the compiler searches.
    fn has_header(&self, request: &Request, name: &str) -> bool {
        let exists =
            |folder: &PathBuf| folder.join(name).is_file() || folder.join("cccl").join(name).is_file();
        request.source.headers.iter().any(|(known, _)| known == name)
            || request.source.include_dirs.iter().chain(self.header_folders()).any(exists)
    }
}

/// A source from which more and more is left out.
struct Attempt {
    request: Request,
    device_words: BTreeSet<String>,
    kernel_words: BTreeSet<String>,
    ambiguous: host_code::Ambiguous,
    host_functions: Vec<String>,
    missing_headers: Vec<String>,
    /// Folders above the source that have headers which the given folders do not have.
    found_in: Vec<PathBuf>,
    /// The declarations that were left out because they fail, each with the errors of the compiler at that time.
    left_out: Vec<(Vec<String>, Vec<Diagnostic>)>,
}

impl Attempt {
    fn new(mut request: Request, device_words: BTreeSet<String>) -> Attempt {
        let source = &mut request.source;
        let own_folder = Path::new(&source.name).parent();
        let mut found = includes::resolved(&source.text, own_folder, &source.include_dirs);
        // Headers of the project that the given folders do not have may include others of that kind.
        let mut found_in = Vec::new();
        while let Some(own_folder) = own_folder {
            let unknown: Vec<String> =
                found.elsewhere.iter().filter(|name| !is_given(source, name)).cloned().collect();
            let mut folders = includes::folders_above(own_folder, &unknown);
            folders.retain(|folder| !source.include_dirs.contains(folder));
            if folders.is_empty() {
                break;
            }
            source.include_dirs.extend(folders.iter().cloned());
            found_in.extend(folders);
            found = includes::resolved(&source.text, Some(own_folder), &source.include_dirs);
        }
        let in_memory: Vec<String> = source.headers.iter().map(|(_, text)| text.clone()).collect();
        let texts = found.headers.values().chain([&found.source]).chain(&in_memory).map(String::as_str);
        let kernel_words = host_code::kernel_words(&texts);
        let ambiguous = host_code::Ambiguous::find(texts);
        let without = host_code::without_host_code(&found.source, &device_words);
        // Every header is given from memory, so that parts of it can be removed later.
        for (name, text) in &found.headers {
            let header = host_code::without_host_code(text, &device_words);
            source.headers.push((name.clone(), header.text));
        }
        source.text = without.text;
        source.headers.push((HOST.0.to_owned(), HOST.1.to_owned()));
        source.headers.extend(GRAPHICS.map(|name| (name.to_owned(), "#pragma once\n".to_owned())));
        request.options.push(format!("--pre-include={}", HOST.0));
        Attempt {
            request,
            device_words,
            kernel_words,
            ambiguous,
            host_functions: without.functions,
            missing_headers: found.elsewhere,
            found_in,
            left_out: Vec::new(),
        }
    }

    fn finished(self, outcome: BuildOutcome, has_newer_standard: bool) -> NvccOutcome {
        let Attempt { host_functions, missing_headers, found_in, left_out, .. } = self;
        let left_out = left_out.iter().flat_map(|(texts, _)| texts).map(|text| head(text)).collect();
        NvccOutcome { outcome, host_functions, missing_headers, found_in, left_out, has_newer_standard }
    }

    /// Gives contents to the headers that do not exist.
    fn fill_missing(&mut self, exists: impl Fn(&Request, &str) -> bool) {
        self.missing_headers.retain(|name| !exists(&self.request, name));
        for name in &self.missing_headers {
            self.request.source.headers.push((name.clone(), stand_in(name).to_owned()));
        }
    }

    /// Whether another attempt, without what this error is about, may succeed.
    fn can_continue(&mut self, error: &BuildError) -> bool {
        let BuildError::Source { diagnostics, .. } = error else { return false };
        if is_of_assembler(diagnostics) {
            return false;
        }
        // The name of a header may come from a macro.
        if let Some(name) = missing_header(diagnostics).filter(|name| !self.missing_headers.contains(name)) {
            self.request.source.headers.push((name.clone(), stand_in(&name).to_owned()));
            self.missing_headers.push(name);
            return true;
        }
        self.remove_failing(diagnostics, false) || self.remove_failing(diagnostics, true)
    }

    /// Removes declarations that the compiler refuses. Returns whether there are some. `device`: also those of device
    /// code, but no kernel and nothing in whose place the code may silently use something else.
    fn remove_failing(&mut self, diagnostics: &[Diagnostic], device: bool) -> bool {
        let lines = |file: &str| -> Vec<u32> {
            let errors = diagnostics.iter().filter(|it| it.severity == Severity::Error);
            let places = errors.filter_map(|diagnostic| diagnostic.place.as_ref());
            places.filter(|place| place.file == file).map(|place| place.line).collect()
        };
        let kept = if device {
            host_code::Kept { words: &self.kernel_words, ambiguous: Some(&self.ambiguous) }
        } else {
            host_code::Kept { words: &self.device_words, ambiguous: None }
        };
        let source = &mut self.request.source;
        let mut all_removed = Vec::new();
        let texts = source.headers.iter_mut().map(|(name, text)| (name.clone(), text));
        for (name, text) in texts.chain([(source.name.clone(), &mut source.text)]) {
            let lines = lines(&name);
            if lines.is_empty() || name == HOST.0 {
                continue;
            }
            if let Some((without, removed)) = host_code::without_lines(text, &lines, kept) {
                *text = without;
                all_removed.extend(removed);
            }
        }
        let has_changed = !all_removed.is_empty();
        if has_changed {
            self.left_out.push((all_removed, diagnostics.to_vec()));
        }
        has_changed
    }

    /// The error of the last attempt, with its causes first: headers that do not exist, and the errors of what was left
    /// out although the rest needs it.
    fn explained(&self, error: BuildError) -> BuildError {
        let BuildError::Source { name, diagnostics, log } = error else { return error };
        let diagnostics = without_features(diagnostics, &self.request);
        let mut causes: Vec<Diagnostic> = Vec::new();
        for name in diagnostics.iter().filter_map(|it| undefined_name(&it.message)) {
            let has_word = |text: &str| {
                text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
            };
            let mut all = self.left_out.iter();
            // What has the name in its head declares it, more likely than what has it in its body.
            let declares = all.clone().find(|(texts, _)| texts.iter().any(|text| has_word(&head(text))));
            let Some((_, errors)) =
                declares.or_else(|| all.find(|(texts, _)| texts.iter().any(|it| has_word(it))))
            else {
                continue;
            };
            causes.extend(errors.iter().filter(|it| !causes.contains(it)).cloned().collect::<Vec<_>>());
        }
        let mut all = self.without_headers(&diagnostics);
        all.extend(causes);
        let rest: Vec<Diagnostic> = diagnostics.into_iter().filter(|it| !all.contains(it)).collect();
        all.extend(rest);
        BuildError::Source { name, diagnostics: all, log }
    }

    /// A note that names the headers that do not exist, if they may be the cause. Headers of the standard library are not:
    /// host code needs them.
    fn without_headers(&self, diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
        let is_library =
            |name: &&str| name.contains('.') && !name.starts_with("sys/") && !POSIX.contains(name);
        let missing: Vec<&str> = self.missing_headers.iter().map(String::as_str).filter(is_library).collect();
        let has_undefined = diagnostics.iter().any(|it| undefined_name(&it.message).is_some());
        if missing.is_empty() || !has_undefined {
            return Vec::new();
        }
        let shown = missing.iter().take(6).copied().collect::<Vec<_>>().join(", ");
        let more = missing.len().saturating_sub(6);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "these headers were not found and were left out: {shown}{more}; if the errors come from that, name the folders of \
             the headers with --include"
        );
        vec![Diagnostic { severity: Severity::Note, message, place: None }]
    }
}

/// A declaration without its body, on one line.
fn head(text: &str) -> String {
    let end = text.find(['{', ';']).unwrap_or(text.len());
    text[..end].split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces C++11 and C++14 by C++17, which libcu++ needs: it stands for the standard library of the host. Returns whether
/// the request has changed.
fn use_library_standard(request: &mut Request) -> bool {
    let old = request.options.iter_mut().find(|it| matches!(it.as_str(), "--std=c++11" | "--std=c++14"));
    old.map(|option| "--std=c++17".clone_into(option)).is_some()
}

/// Headers of the operating system, which host code includes.
const POSIX: [&str; 8] =
    ["unistd.h", "signal.h", "errno.h", "getopt.h", "pthread.h", "fcntl.h", "dlfcn.h", "windows.h"];

/// Whether the source compiles to PTX, which the assembler then refuses.
fn is_of_assembler(diagnostics: &[Diagnostic]) -> bool {
    !diagnostics.is_empty()
        && diagnostics.iter().all(|it| it.place.is_none() && it.message.starts_with("ptxas"))
}

/// Replaces the messages that instructions need a newer target by one.
fn without_features(mut diagnostics: Vec<Diagnostic>, request: &Request) -> Vec<Diagnostic> {
    let needed = |it: &Diagnostic| -> Option<(String, String)> {
        let (before, target) = it.message.split_once(" requires .target ")?;
        let name = before.split('\'').nth(1)?.to_owned();
        Some((target.split_whitespace().next()?.to_owned(), name))
    };
    let mut found: Vec<(String, String)> = diagnostics.iter().filter_map(needed).collect();
    found.sort_unstable();
    found.dedup();
    let Some((target, _)) = found.last().cloned() else { return diagnostics };
    diagnostics.retain(|it| needed(it).is_none() && !it.message.contains("Ptx assembly aborted"));
    let names: Vec<&str> = found.iter().take(4).map(|(_, name)| name.as_str()).collect();
    let message =
        format!("{NEEDS}{target}: it uses {}, which {} does not have", names.join(", "), request.target);
    diagnostics.insert(0, Diagnostic { severity: Severity::Error, message, place: None });
    diagnostics
}

/// Whether a header is given from memory.
fn is_given(source: &Source, name: &str) -> bool {
    source.headers.iter().any(|(known, _)| known == name)
}

/// The target that code needs which was refused for another target.
pub fn needed_target(error: &BuildError) -> Option<&str> {
    let BuildError::Source { diagnostics, .. } = error else { return None };
    diagnostics.iter().find_map(|it| it.message.strip_prefix(NEEDS)?.split(':').next())
}

/// How the message begins that code needs another target.
const NEEDS: &str = "the code needs ";

/// What stands for a header that does not exist.
fn stand_in(name: &str) -> &'static str {
    if TORCH_FOLDERS.iter().any(|folder| name.starts_with(folder)) { TORCH } else { "#pragma once\n" }
}

/// The header that the compiler did not find.
fn missing_header(diagnostics: &[Diagnostic]) -> Option<String> {
    diagnostics.iter().find_map(|diagnostic| {
        let rest = diagnostic.message.split_once("cannot open source file \"")?.1;
        rest.split_once('"').map(|(name, _)| name.to_owned())
    })
}

/// The name in a message that something is not declared.
fn undefined_name(message: &str) -> Option<&str> {
    let is_undeclared =
        ["is undefined", "has no member", "is not a template"].iter().any(|it| message.contains(it));
    let quoted = message.split('"').skip(1).step_by(2).last()?;
    is_undeclared.then_some(quoted)
}
