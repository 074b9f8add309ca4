//! `sanitize` for a CUDA file: the launch and its arguments come from flags.

use std::path::{Path, PathBuf};

use chips::Target;
use clap::Parser as _;
use gpu::accelerator::{Accelerator, Geometry, Image};
use gpu::build::{Build, BuildError, Diagnostic, Request, Source, standard_headers};
use gpu::launch::Placed;
use lab::ci::{CiCase, CiReport, CiStatus};
use lab::words::count;

use super::output::{Run, read_back, save};
use super::simulated::{chip, device, modelled, occupancy};
use crate::ci_output;
use crate::cli::{Global, HeaderFlags, LaunchOptions, SanitizeOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::snippet;

/// The maximum size of a source file or a header, in bytes.
const MAX_SOURCE: u64 = 16 << 20;

/// Runs one kernel of a source file.
pub fn run(options: &SanitizeOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    ci_output::require_writable(&options.ci)?;
    let text = gpu::paths::read_text_bounded(&options.file, MAX_SOURCE)
        .map_err(|error| CommandError::usage(format!("cannot read {}: {error}", options.file.display())))?;
    let launch = merged(&options.launch, header(&text, &options.file)?);
    let geometry = Geometry {
        grid: launch.grid.ok_or_else(|| missing("--grid"))?.0,
        block: launch.block.ok_or_else(|| missing("--block"))?.0,
        cluster: [1; 3],
        shared_bytes: launch.shared.unwrap_or(0),
    };
    let chip = chip(global)?;
    let target = match &launch.arch {
        Some(name) => name.parse().map_err(|error| super::super::build::unknown_target(name, &error))?,
        None => chip.target,
    };
    let Some(build) = compile(&text, options, &launch, target, global, printer)? else {
        return Ok(Exit::ProblemFound);
    };
    let kernel = kernel_name(&launch, &build)?;

    let occupancy = occupancy(chip, &build, &kernel, geometry);
    let mut device = device(chip, options, occupancy.as_ref());
    let module = device.load(Image::Ptx(&build.ptx)).map_err(|error| {
        CommandError::missing(error.to_string())
            .hint("the virtual GPU does not support this code; nothing was run")
    })?;
    let placed =
        Placed::on(&mut device, &launch.arg).map_err(|error| CommandError::missing(error.to_string()))?;
    device.set_outputs(&placed.outputs());
    let report = device
        .run(module, &kernel, geometry, &placed.parameters)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let buffers = read_back(&placed, &mut device)?;

    let sources = Sources::new(&options.file, &text, &options.launch.include);
    let modelled = modelled(&device, &report, geometry, occupancy.as_ref());
    let fidelity = device.module(module).map(|module| &module.fidelity).filter(|_| options.fidelity);
    let run = Run {
        options,
        kernel: &kernel,
        device: device.describe(),
        report: &report,
        occupancy: occupancy.filter(|_| options.counters),
        modelled,
        fidelity,
        buffers: &buffers,
        sources: &|name| sources.text(name),
    };
    if let Some(folder) = &options.save {
        save(folder, &buffers, printer)?;
    }
    if printer.is_json() {
        run.print_json(printer)?;
    } else {
        run.print_text(printer)?;
    }
    let case = super::output::ci_case(&run, &kernel, &|name| sources.path(name));
    ci_output::write(&CiReport::new("sanitize", &run.device, vec![case]), &options.ci, printer)?;
    // A launch that did not complete is a problem, even without a finding.
    Ok(if report.is_clean() && report.stats.completed { Exit::Success } else { Exit::ProblemFound })
}

// ---- The launch ----

/// The flags in the file's `// warpsmith:` comments.
fn header(text: &str, file: &Path) -> Result<LaunchOptions, CommandError> {
    // Other lines declare the op of the file, for `check` and `bench`.
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("// warpsmith:"));
    let lines = lines.filter(|line| line.trim_start().starts_with("--"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    HeaderFlags::try_parse_from(words).map(|flags| flags.launch).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        CommandError::usage(format!("{}: in the `// warpsmith:` lines: {first}", file.display()))
    })
}

/// The flags of the command line, completed with those of the file.
fn merged(flags: &LaunchOptions, header: LaunchOptions) -> LaunchOptions {
    LaunchOptions {
        kernel: flags.kernel.clone().or(header.kernel),
        grid: flags.grid.or(header.grid),
        block: flags.block.or(header.block),
        shared: flags.shared.or(header.shared),
        arg: if flags.arg.is_empty() { header.arg } else { flags.arg.clone() },
        arch: flags.arch.clone().or(header.arch),
        define: [header.define, flags.define.clone()].concat(),
        include: [flags.include.clone(), header.include].concat(),
    }
}

/// The error for a missing flag.
fn missing(flag: &str) -> CommandError {
    CommandError::usage(format!("{flag} is missing"))
        .hint("give it as a flag, or in the file as `// warpsmith: --grid 4 --block 256 --arg ...`")
}

/// The build of the file. `None` if it does not compile; the errors are then printed.
fn compile(
    text: &str,
    options: &SanitizeOptions,
    launch: &LaunchOptions,
    target: Target,
    global: &Global,
    printer: &Printer,
) -> Result<Option<Build>, CommandError> {
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
    };
    let defines = launch.define.iter().map(|define| format!("--define-macro={define}"));
    // Source files are written for nvcc, which enables 128-bit integers if the host compiler supports them.
    let int128 = cfg!(target_os = "linux").then(|| "--device-int128".to_owned());
    let defines = defines.chain(int128).collect();
    let compiler = super::super::build::compiler(global, printer)?;
    match compiler.build(&Request { source, target, options: defines }) {
        Ok(outcome) => Ok(Some(outcome.build)),
        Err(BuildError::Source { name, diagnostics, .. }) => {
            for diagnostic in &diagnostics {
                printer.message(&snippet::diagnostic(diagnostic));
            }
            write_diagnostics(&diagnostics, options, printer)?;
            let errors = count(diagnostics.len(), "error");
            printer.failure(&CommandError::problem(format!("{name} does not compile ({errors})")));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
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

/// The kernel to launch: the named one, or the only one of the file.
fn kernel_name(launch: &LaunchOptions, build: &Build) -> Result<String, CommandError> {
    let names: Vec<&str> = build.entries.iter().map(|entry| entry.name.as_str()).collect();
    match (&launch.kernel, names.as_slice()) {
        (Some(name), _) if names.contains(&name.as_str()) => Ok(name.clone()),
        (Some(name), _) => {
            let near = family::nearest(name, names.iter().copied());
            let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            Err(CommandError::usage(format!("there is no kernel `{name}` in the file"))
                .hint(format!("{near}kernels: {}", names.join(", "))))
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => {
            Err(CommandError::usage("the file does not have exactly one kernel: name one with --kernel")
                .hint(format!("kernels: {}", names.join(", "))))
        }
    }
}

// ---- Source lines ----

/// The files whose lines findings may show. The line table is untrusted (`#line 1 "/etc/passwd"`). Therefore only the
/// source file, files below its folder and files below the include folders of the command line are allowed.
struct Sources<'a> {
    file: &'a Path,
    text: &'a str,
    folders: Vec<PathBuf>,
}

impl<'a> Sources<'a> {
    /// `include`: the folders of the command line, without those in the file's comments.
    fn new(file: &'a Path, text: &'a str, include: &[PathBuf]) -> Self {
        let own = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folders = std::iter::once(own).chain(include.iter().map(PathBuf::as_path));
        // Links are resolved, so that a link inside a folder cannot lead outside.
        Sources { file, text, folders: folders.filter_map(|folder| folder.canonicalize().ok()).collect() }
    }

    /// The text of a file, if it is allowed and can be read.
    fn text(&self, name: &str) -> Option<String> {
        if Path::new(name) == self.file {
            return Some(self.text.to_owned());
        }
        gpu::paths::read_text_bounded(&self.path(name)?, MAX_SOURCE).ok()
    }

    /// The path of a file, if it is allowed and exists.
    fn path(&self, name: &str) -> Option<PathBuf> {
        if Path::new(name) == self.file {
            return Some(self.file.to_owned());
        }
        let path = Path::new(name).canonicalize().ok()?;
        self.folders.iter().any(|folder| path.starts_with(folder)).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_source_and_files_below_its_folders_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        fs::create_dir_all(own.join("inner")).unwrap();
        fs::create_dir(&other).unwrap();
        for file in ["own/k.cu", "own/inner/a.cuh", "other/secret"] {
            fs::write(folder.path().join(file), file).unwrap();
        }
        std::os::unix::fs::symlink(other.join("secret"), own.join("link.cuh")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", own.join("zero")).unwrap();
        let source = own.join("k.cu");
        let sources = Sources::new(&source, "as compiled", &[]);
        let text = |path: &Path| sources.text(path.to_str().unwrap());
        assert_eq!(text(&source).as_deref(), Some("as compiled"));
        assert_eq!(text(&own.join("inner/a.cuh")).as_deref(), Some("own/inner/a.cuh"));
        for hidden in [
            other.join("secret"),
            own.join("../other/secret"),
            own.join("link.cuh"),
            own.join("zero"),
            "/dev/zero".into(),
            "/etc/passwd".into(),
        ] {
            assert_eq!(text(&hidden), None, "{}", hidden.display());
        }
        let include = [other.clone()];
        let sources = Sources::new(&source, "", &include);
        assert!(sources.text(other.join("secret").to_str().unwrap()).is_some());
    }
}
