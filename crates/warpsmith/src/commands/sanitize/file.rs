//! `sanitize` for a CUDA or PTX file: the launches and their arguments come from flags.

use std::path::{Path, PathBuf};

use gpu::accelerator::{Accelerator, AcceleratorError, Image};
use lab::ci::{CiFinding, CiReport, CiStatus};

use super::code::{self, Code};
use super::contents::{read_back, save};
use super::kernel_name::readable;
use super::launches::{Launches, header, merged, set_variables, signature};
use super::output::Run;
use super::{expect, simulated};
use crate::ci_output;
use crate::cli::{Global, SanitizeOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::Printer;

/// The maximum size of a source file or a header, in bytes.
const MAX_SOURCE: u64 = 16 << 20;

/// Runs the kernels of a file.
pub fn run(options: &SanitizeOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    ci_output::require_writable(&options.ci)?;
    let text = gpu::paths::read_text_bounded(&options.file, MAX_SOURCE)
        .map_err(|error| CommandError::usage(format!("cannot read {}: {error}", options.file.display())))?;
    let launch = merged(&options.launch, header(&text, &options.file)?)?;
    let is_ptx = code::is_ptx(&options.file, &text);
    let mut launches = Launches::of(&launch, &|| is_ptx.then(|| signatures(&text)).flatten())?;
    let chip = simulated::chip(global)?;
    let target = match &launch.arch {
        Some(name) => name.parse().map_err(|error| super::super::build::unknown_target(name, &error))?,
        None => chip.target,
    };
    let code = if is_ptx {
        Some(code::of_ptx(&text, &launches.kernels())?)
    } else {
        code::of_cuda(&text, &launches.kernels(), (options, &launch), target, (global, printer))?
    };
    let Some(Code { ptx, build, kernels }) = code else {
        return Ok(Exit::ProblemFound);
    };

    let mut device = simulated::device(chip, options);
    let module = device.load(Image::Ptx(&ptx)).map_err(|error| {
        CommandError::missing(error.to_string())
            .hint("the virtual GPU does not support this code; nothing was run")
    })?;
    let loaded = device.module(module).cloned();
    let entry = |name: &String| {
        let module = loaded.as_ref();
        if let Some(error) = module.and_then(|module| module.refusal(name)) {
            return Err(CommandError::missing(error.to_string())
                .hint("the virtual GPU does not support this kernel; nothing was run"));
        }
        let entry = module.and_then(|module| module.kernel(name));
        entry.ok_or_else(|| CommandError::usage(format!("the code has no kernel `{name}`")))
    };
    let entries: Vec<_> = kernels.iter().map(entry).collect::<Result<_, _>>()?;
    launches.fit(&entries)?;
    let placed = launches.place(&mut device)?;
    set_variables(&launch.variable, module, &mut device)?;

    let mut reports = Vec::new();
    let mut last = (None, None);
    for (number, (plan, entry)) in (1..).zip(launches.launches.iter().zip(&entries)) {
        let occupancy =
            build.as_ref().and_then(|it| simulated::occupancy(chip, it, &entry.name, plan.geometry));
        device.options.limits.blocks_per_sm =
            occupancy.as_ref().map_or(chip.limits().max_blocks_per_sm, |it| it.blocks_per_sm);
        // Every launch may write a part of the outputs; they must be complete after the last one.
        if number == kernels.len() {
            device.set_outputs(&placed.outputs());
        }
        let report = device.run(module, &entry.name, plan.geometry, &plan.parameters(&placed));
        let report = report.map_err(|error| refused(&error).hint(signature(entry)))?;
        let has_completed = report.stats.completed;
        let modelled = simulated::modelled(&device, &report, plan.geometry, occupancy.as_ref());
        last = (occupancy, modelled);
        reports.push(report);
        // What follows a launch that was stopped has no meaning.
        if !has_completed {
            break;
        }
    }
    let Some(mut report) = simulated::merged(&reports) else {
        return Err(CommandError::missing("nothing was launched"));
    };
    if is_ptx {
        report.add_ptx_places(&options.file.display().to_string());
    }
    let buffers = read_back(&placed, &mut device, options)?;

    let sources = Sources::new(&options.file, &text, &options.launch.include);
    let (occupancy, modelled) = last;
    let names: Vec<String> = kernels.iter().take(reports.len()).map(|name| readable(name)).collect();
    let run = Run {
        options,
        kernel: &names.join(", "),
        device: device.describe(),
        report: &report,
        occupancy: occupancy.filter(|_| options.counters),
        modelled,
        fidelity: loaded.as_ref().map(|module| &module.fidelity).filter(|_| options.fidelity),
        buffers: &buffers,
        comparisons: expect::compare(options, &buffers)?,
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
    let mut case = super::output::ci_case(&run, run.kernel, &|name| sources.path(name));
    for comparison in run.comparisons.iter().filter(|it| !it.is_equal()) {
        case.status = CiStatus::Failed;
        case.findings.push(CiFinding::new("wrong-result", run.kernel, comparison.describe()));
    }
    ci_output::write(&CiReport::new("sanitize", &run.device, vec![case]), &options.ci, printer)?;
    // A launch that did not complete is a problem, even without a finding.
    let is_equal = run.comparisons.iter().all(expect::Comparison::is_equal);
    let is_success = report.is_clean() && report.stats.completed && is_equal;
    Ok(if is_success { Exit::Success } else { Exit::ProblemFound })
}

/// The error for a launch that the virtual GPU refuses.
fn refused(error: &AcceleratorError) -> CommandError {
    CommandError::usage(error.to_string())
}

/// The parameters of the kernels in a PTX text, if it can be loaded.
fn signatures(text: &str) -> Option<String> {
    let module = vgpu::load(text).ok()?;
    let kernels: Vec<String> = module.kernels.iter().take(4).map(signature).collect();
    (!kernels.is_empty()).then(|| kernels.join("; "))
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
