//! The code that `sanitize` runs: PTX from a file, or compiled from a CUDA file.

use std::path::Path;

use chips::Target;
use gpu::build::{Build, BuildError, Diagnostic, Request, Source, ptx_entries, standard_headers};
use lab::ci::{CiCase, CiReport, CiStatus};
use lab::words::count;

use super::kernel_name;
use crate::ci_output;
use crate::cli::{Global, LaunchOptions, SanitizeOptions};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::snippet;

/// Code that the virtual GPU can load.
pub struct Code {
    /// The PTX text.
    pub ptx: String,
    /// The build, if the code was compiled from a CUDA file.
    pub build: Option<Build>,
    /// The function name of each wanted kernel.
    pub kernels: Vec<String>,
}

/// Whether a file contains PTX: by its name, or by the directives that begin every PTX text.
pub fn is_ptx(file: &Path, text: &str) -> bool {
    let directive = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    file.extension().is_some_and(|extension| extension == "ptx")
        || text.lines().find(directive).is_some_and(|line| line.trim_start().starts_with(".version"))
}

/// The code of a PTX file. `kernels` are the wanted kernels; `None` is the only one of the file.
pub fn of_ptx(text: &str, kernels: &[Option<&str>]) -> Result<Code, CommandError> {
    // The loader reports the mistakes of a text that is not PTX.
    let names = ptx_entries(text);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let kernels = kernels.iter().map(|kernel| match kernel_name::find(*kernel, &names)? {
        Some(name) => Ok(name.to_owned()),
        None => Err(kernel_name::unknown(kernel.unwrap_or_default(), &names)),
    });
    Ok(Code { ptx: text.to_owned(), build: None, kernels: kernels.collect::<Result<_, _>>()? })
}

/// Compiles a CUDA file. `None` if it does not compile; the errors are then printed. A kernel that is not in the
/// compiled code is compiled as an instance of a template.
pub fn of_cuda(
    text: &str,
    kernels: &[Option<&str>],
    (options, launch): (&SanitizeOptions, &LaunchOptions),
    target: Target,
    (global, printer): (&Global, &Printer),
) -> Result<Option<Code>, CommandError> {
    let compiler = super::super::build::compiler(global, printer)?;
    let mut request = request(text, options, launch, target);
    let first = match compiler.build_nvcc_source(&request) {
        Ok(first) => Some(first),
        // A file in which all kernels are templates.
        Err(BuildError::NoKernel { .. }) if kernels.iter().any(Option::is_some) => None,
        Err(error) => return failed(error, options, printer),
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
        _ => match compiler.build_nvcc_source(&request) {
            Ok(built) => built,
            Err(error) => {
                if let Some(error) = no_such_kernel(&error, &request.source.instances, &names) {
                    return Err(error);
                }
                return failed(error, options, printer);
            }
        },
    };
    report_changes(&built.host_functions, &built.missing_headers, printer);
    let build = built.outcome.build;
    let mut lowered = build.lowered_names.iter().cloned();
    let kernels = found.into_iter().filter_map(|name| name.or_else(|| lowered.next())).collect();
    Ok(Some(Code { ptx: build.ptx.clone(), build: Some(build), kernels }))
}

fn request(text: &str, options: &SanitizeOptions, launch: &LaunchOptions, target: Target) -> Request {
    let mut include_dirs: Vec<_> = options.file.parent().map(Path::to_owned).into_iter().collect();
    include_dirs.retain(|folder| !folder.as_os_str().is_empty());
    if include_dirs.is_empty() {
        include_dirs.push(".".into());
    }
    include_dirs.extend(launch.include.iter().cloned());
    let source = Source {
        name: options.file.display().to_string(),
        text: text.to_owned(),
        headers: standard_headers(),
        include_dirs,
        instances: Vec::new(),
    };
    let defines = launch.define.iter().map(|define| format!("--define-macro={define}"));
    // Source files are written for nvcc, which enables 128-bit integers if the host compiler supports them.
    let int128 = cfg!(target_os = "linux").then(|| "--device-int128".to_owned());
    Request { source, target, options: defines.chain(int128).collect() }
}

/// Says what was done to the source so that it compiles.
fn report_changes(host_functions: &[String], missing_headers: &[String], printer: &Printer) {
    if !host_functions.is_empty() {
        let shown =
            host_functions.iter().take(4).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let more = host_functions.len().saturating_sub(4);
        let more = if more > 0 { format!(" and {}", count(more, "other function")) } else { String::new() };
        printer.message(&format!("note: ignored host code: {shown}{more}"));
    }
    if !missing_headers.is_empty() {
        printer
            .message(&format!("note: ignored headers that were not found: {}", missing_headers.join(", ")));
    }
}

/// The error for a name that is neither a kernel nor an instance of a template. The compiler reports it at a place that
/// is not in the file.
fn no_such_kernel(error: &BuildError, instances: &[String], names: &[&str]) -> Option<CommandError> {
    let BuildError::Source { diagnostics, .. } = error else { return None };
    let named = instances.iter().find(|instance| {
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
        error.hint(format!("if it is a template, name its arguments: --kernel '{named}<float>'"))
    } else if names.is_empty() || named.contains('<') {
        let reason = diagnostics.first().map_or(String::new(), |it| it.message.clone());
        error.hint(format!("the compiler says: {reason}"))
    } else {
        error
    })
}

/// Prints the compiler's errors.
fn failed(
    error: BuildError,
    options: &SanitizeOptions,
    printer: &Printer,
) -> Result<Option<Code>, CommandError> {
    let BuildError::Source { name, diagnostics, .. } = error else { return Err(error.into()) };
    for diagnostic in &diagnostics {
        printer.message(&snippet::diagnostic(diagnostic));
    }
    write_diagnostics(&diagnostics, options, printer)?;
    let errors = count(diagnostics.len(), "error");
    printer.failure(&CommandError::problem(format!("{name} does not compile ({errors})")));
    Ok(None)
}

/// Writes the errors of the compiler for CI systems.
fn write_diagnostics(
    diagnostics: &[Diagnostic],
    options: &SanitizeOptions,
    printer: &Printer,
) -> Result<(), CommandError> {
    let name = options.file.display().to_string();
    let mut case = CiCase::new(&name, CiStatus::Failed, "does not compile");
    // Only the file itself: the name of another file may come from a `#line` of the source.
    let own = |file: &str| (Path::new(file) == options.file).then(|| options.file.clone());
    case.findings = diagnostics.iter().map(|it| ci_output::diagnostic(it, &name, &own)).collect();
    ci_output::write(&CiReport::new("sanitize", name.as_str(), vec![case]), &options.ci, printer)
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
    fn kernels_of_a_ptx_text_are_listed() {
        let text = ".visible .entry a(\n.entry\t_Z1bPf (\n// .entry c(\n.weak .entry d$e()\n";
        assert_eq!(ptx_entries(text), ["a", "_Z1bPf", "d$e"]);
    }
}
