//! Lines of source for addresses of code, from the debug information of programs and libraries.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use addr2line::Loader;
use execlog::CodeAddress;
use vgpu::{Place, SourceFrame};

/// The debug information of files, read when it is first needed.
#[derive(Default)]
pub struct Symbols {
    files: RefCell<HashMap<String, Option<Loader>>>,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols").finish_non_exhaustive()
    }
}

impl Symbols {
    /// The calls of the program as a place: only those in code of the user, innermost first.
    pub fn place(&self, stack: &[CodeAddress]) -> Place {
        let all: Vec<SourceFrame> = stack.iter().flat_map(|address| self.frames(address)).collect();
        let is_own = |frame: &&SourceFrame| !is_generated(frame);
        let mut frames: Vec<SourceFrame> = all.iter().filter(is_own).cloned().collect();
        // The frames after `main` are the start code of every program.
        if let Some(end) = frames.iter().position(|frame| is_main(&frame.function)) {
            frames.truncate(end + 1);
        }
        Place { ptx_line: 0, frames }
    }

    fn frames(&self, address: &CodeAddress) -> Vec<SourceFrame> {
        if is_interpreter(&address.module) {
            return Vec::new();
        }
        let mut files = self.files.borrow_mut();
        let loader = files.entry(address.module.clone()).or_insert_with(|| Loader::new(&address.module).ok());
        let Some(loader) = loader else { return Vec::new() };
        let mut found = Vec::new();
        if let Ok(mut frames) = loader.find_frames(address.offset) {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame.function.as_ref().and_then(|name| name.raw_name().ok());
                let Some(location) = frame.location else { continue };
                let (Some(file), Some(line)) = (location.file, location.line) else { continue };
                found.push(SourceFrame {
                    file: shown_path(file),
                    line,
                    column: location.column.unwrap_or(0),
                    function: function.map_or(String::new(), |name| plain(&name)),
                });
            }
        }
        found
    }
}

/// Whether a file is the interpreter of Python. Its own lines say nothing about the program that it runs.
fn is_interpreter(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or(module);
    name.starts_with("libpython") || name.starts_with("python")
}

/// The name of a function as the source has it, without its parameters and without the hash of Rust.
fn plain(name: &str) -> String {
    let name = ::sanitize::readable(name);
    match name.rsplit_once("::h") {
        Some((rest, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => {
            rest.to_owned()
        }
        _ => name,
    }
}

/// Whether a function is that of the program: `main`, in Rust in the root of a crate.
fn is_main(function: &str) -> bool {
    function == "main" || function.strip_suffix("::main").is_some_and(|name| !name.contains("::"))
}

/// Whether the compiler made the code: stubs of kernels, and headers of CUDA and of the system.
fn is_generated(frame: &SourceFrame) -> bool {
    let file = frame.file.as_str();
    frame.function.contains("__device_stub__")
        || frame.function.starts_with("__cudaLaunch")
        || file.contains(".cudafe1.")
        || file.ends_with("/cuda_runtime.h")
        || file.contains("/include/crt/")
        || file.starts_with("/usr/include/")
        // The standard library of Rust.
        || file.starts_with("/rustc/")
        || file.contains("/cccl/")
        || frame.line == 0
}

/// The path relative to the current folder, if it is below it.
fn shown_path(file: &str) -> String {
    let here = std::env::current_dir().ok();
    let inner = here.as_deref().and_then(|here| Path::new(file).strip_prefix(here).ok());
    inner.map_or_else(|| file.to_owned(), |inner| inner.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_lose_their_hash() {
        assert_eq!(plain("_ZN2rs4main17had7a22a139eccab7E"), "rs::main");
        assert!(is_main("rs::main") && is_main("main") && !is_main("rs::other::main") && !is_main("domain"));
    }

    #[test]
    fn lines_of_the_interpreter_are_not_shown() {
        assert!(is_interpreter("/usr/bin/python3.11") && is_interpreter("/usr/lib/libpython3.11.so.1.0"));
        assert!(!is_interpreter("/home/python/build/program"));
    }
}
