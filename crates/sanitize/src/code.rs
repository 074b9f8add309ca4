//! The code that is run: PTX from a file, or compiled from a CUDA file.

use std::path::{Path, PathBuf};

use chips::Target;
use compiler::{Build, BuildError, Compiler, Request, Source, ptx_entries, standard_headers};

use crate::{SanitizeError, kernel_name};

/// Code that the virtual GPU can load.
#[derive(Clone, Debug)]
pub struct Code {
    /// The PTX text.
    pub ptx: String,
    /// The build, if the code was compiled from a CUDA file.
    pub build: Option<Build>,
    /// The function name of each wanted kernel.
    pub kernels: Vec<String>,
    /// The host functions that were left out so that the file compiles.
    pub host_functions: Vec<String>,
    /// The headers that were not found and were left out.
    pub missing_headers: Vec<String>,
    /// Folders above the file in which headers were found that are in no given folder.
    pub found_in: Vec<PathBuf>,
    /// The declarations that do not compile and were left out.
    pub left_out: Vec<String>,
    /// Whether the file was compiled with a newer standard of C++ than the wanted one.
    pub has_newer_standard: bool,
}

/// Whether a file contains PTX: by its name, or by the directives that begin every PTX text.
pub fn is_ptx(file: &Path, text: &str) -> bool {
    let directive = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    compiler::is_ptx(file)
        || text.lines().find(directive).is_some_and(|line| line.trim_start().starts_with(".version"))
}

/// The code of a PTX file. `kernels` are the wanted kernels; `None` means the only one of the file.
pub fn from_ptx(text: &str, kernels: &[Option<&str>]) -> Result<Code, SanitizeError> {
    // The loader reports the mistakes of a text that is not PTX.
    let names = ptx_entries(text);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let kernels = kernels.iter().map(|kernel| match kernel_name::find(*kernel, &names)? {
        Some(name) => Ok(name.to_owned()),
        None => Err(kernel_name::unknown(kernel.unwrap_or_default(), &names)),
    });
    Ok(Code {
        ptx: with_lines_of_inline_assembly(text),
        build: None,
        kernels: kernels.collect::<Result<_, _>>()?,
        host_functions: Vec::new(),
        missing_headers: Vec::new(),
        found_in: Vec::new(),
        left_out: Vec::new(),
        has_newer_standard: false,
    })
}

/// Removes wrong line numbers of inline assembly, with which Triton loads and stores. LLVM writes a `.loc` for every
/// line of it and counts its lines as lines of the source, so only the first is right. Removed lines become empty, so
/// that all others keep their numbers in the PTX.
fn with_lines_of_inline_assembly(text: &str) -> String {
    let mut places = None;
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let code = line.trim_start();
        match code.trim_end() {
            "// begin inline asm" => places = Some(0),
            "// end inline asm" => places = None,
            _ => {}
        }
        let is_place = code.strip_prefix(".loc").is_some_and(|rest| rest.starts_with(char::is_whitespace));
        if let (Some(number), true) = (&mut places, is_place) {
            *number += 1;
            if *number > 1 {
                kept.push_str(if line.ends_with('\n') { "\n" } else { "" });
                continue;
            }
        }
        kept.push_str(line);
    }
    kept
}

/// Compiles a CUDA file. A kernel that is not in the compiled code is compiled as an instance of a template.
pub fn from_cuda(
    compiler: &Compiler,
    mut request: Request,
    kernels: &[Option<&str>],
) -> Result<Code, SanitizeError> {
    let first = match compiler.build_nvcc_source(&request) {
        Ok(first) => Some(first),
        // A file in which all kernels are templates.
        Err(BuildError::NoKernel { .. }) if kernels.iter().any(Option::is_some) => None,
        Err(error) => return Err(error.into()),
    };
    let entries = |build: Option<&Build>| -> Vec<String> {
        build.map_or(Vec::new(), |build| build.entries.iter().map(|entry| entry.name.clone()).collect())
    };
    let names = entries(first.as_ref().map(|it| &it.outcome.build));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    for kernel in kernels {
        let name = kernel_name::find(*kernel, &names)?;
        if let (None, Some(kernel)) = (name, kernel) {
            request.source.instances.push((*kernel).to_owned());
        }
        found.push(name.map(str::to_owned));
    }
    let built = match first {
        Some(first) if request.source.instances.is_empty() => first,
        _ => compiler
            .build_nvcc_source(&request)
            .map_err(|error| no_such_kernel(&error, &request.source, &names).unwrap_or(error.into()))?,
    };
    let build = built.outcome.build;
    let mut lowered = build.lowered_names.iter().cloned();
    let kernels = found.into_iter().filter_map(|name| name.or_else(|| lowered.next())).collect();
    Ok(Code {
        ptx: build.ptx.clone(),
        build: Some(build),
        kernels,
        host_functions: built.host_functions,
        missing_headers: built.missing_headers,
        found_in: built.found_in,
        left_out: built.left_out,
        has_newer_standard: built.has_newer_standard,
    })
}

/// The compilation of a CUDA file. `include`: folders with headers, besides the folder of the file.
pub fn request(file: &Path, text: &str, target: Target, define: &[String], include: &[PathBuf]) -> Request {
    let mut include_dirs: Vec<_> = file.parent().map(Path::to_owned).into_iter().collect();
    include_dirs.retain(|folder| !folder.as_os_str().is_empty());
    if include_dirs.is_empty() {
        include_dirs.push(".".into());
    }
    include_dirs.extend(include.iter().cloned());
    let source = Source {
        name: file.display().to_string(),
        text: text.to_owned(),
        headers: standard_headers(),
        include_dirs,
        instances: Vec::new(),
    };
    let defines = define.iter().map(|define| format!("--define-macro={define}"));
    // Source files are written for nvcc, which enables 128-bit integers if the host compiler supports them.
    let int128 = cfg!(target_os = "linux").then(|| "--device-int128".to_owned());
    Request { source, target, options: defines.chain(int128).collect() }
}

impl Code {
    /// What was left out so that the file compiles, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.host_functions.is_empty() {
            let shown: Vec<String> =
                self.host_functions.iter().take(4).map(|name| format!("`{name}`")).collect();
            let more = self.host_functions.len().saturating_sub(4);
            let more = if more > 0 {
                format!(" and {}", text::count(more, "other function"))
            } else {
                String::new()
            };
            notes.push(format!("ignored host code: {}{more}", shown.join(", ")));
        }
        if !self.found_in.is_empty() {
            let folders: Vec<String> = self.found_in.iter().map(|it| it.display().to_string()).collect();
            notes.push(format!("searched folders above the file for headers: {}", folders.join(", ")));
        }
        if !self.missing_headers.is_empty() {
            notes.push(format!("ignored headers that were not found: {}", self.missing_headers.join(", ")));
        }
        if !self.left_out.is_empty() {
            let all: Vec<String> = self.left_out.iter().map(|head| format!("`{head}`")).collect();
            notes.push(format!("left out what does not compile: {}", all.join(", ")));
        }
        if self.has_newer_standard {
            notes.push("compiled as C++17, which the standard headers of the compiler need".to_owned());
        }
        notes
    }
}

/// The error for a name that is neither a kernel nor an instance of a template. The compiler reports it at a place that
/// is not in the file.
fn no_such_kernel(error: &BuildError, source: &Source, names: &[&str]) -> Option<SanitizeError> {
    let BuildError::Source { diagnostics, .. } = error else { return None };
    let named = source.instances.iter().find(|instance| {
        let base = instance.split('<').next().unwrap_or(instance).trim();
        diagnostics.iter().any(|diagnostic| {
            let text = &diagnostic.message;
            text.contains(base)
                && (text.contains("undefined") || text.contains("template") || text.contains("overload"))
                || text.contains("name expression")
        })
    })?;
    let template = diagnostics.iter().any(|diagnostic| diagnostic.message.contains("template"));
    let error = kernel_name::unknown(named, names);
    Some(if template && !named.contains('<') {
        let parameters = kernel_name::template_parameters(&source.text, named);
        SanitizeError::TemplateArguments { kernel: named.clone(), parameters }
    } else if names.is_empty() || named.contains('<') {
        let reason = diagnostics.first().map_or(String::new(), |it| it.message.clone());
        error.with_hint(format!("the compiler says: {reason}"))
    } else {
        error
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_recognised_by_name_or_by_its_first_directive() {
        assert!(is_ptx(Path::new("a.ptx"), ""));
        assert!(is_ptx(Path::new("a.txt"), "//\n// made by a compiler\n\n.version 8.0\n.target sm_80\n"));
        assert!(!is_ptx(Path::new("a.cu"), "// .version 8.0\n__global__ void k() {}\n"));
    }

    #[test]
    fn lines_of_inline_assembly_are_not_lines_of_the_source() {
        let text = ".loc 1 9 5\n// begin inline asm\n\t.loc\t1 9 5 // k.py:9:5\nmov.u32 %r1, 0x0;\n\t.loc\t1 10 5\nld;\n\
                    // end inline asm\n.loc 1 11 5\n.loc 1 12 5\n";
        let wanted = text.replace("\t.loc\t1 10 5", "");
        assert_eq!(with_lines_of_inline_assembly(text), wanted);
        assert_eq!(with_lines_of_inline_assembly(".version 8.0"), ".version 8.0");
    }

    #[test]
    fn kernels_of_a_ptx_text_are_listed() {
        let text = ".visible .entry a(\n.entry\t_Z1bPf (\n// .entry c(\n.weak .entry d$e()\n";
        assert_eq!(ptx_entries(text), ["a", "_Z1bPf", "d$e"]);
    }
}
