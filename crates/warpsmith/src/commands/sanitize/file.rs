//! `sanitize` for a CUDA or PTX file: the launches and their arguments come from flags.

use std::path::Path;

use chips::Target;
use compiler::{BuildError, Diagnostic, Severity};
use gpu::accelerator::Accelerator as _;
use report::ci::{CiCase, CiFinding, CiReport, CiStatus};
use sanitize::code;
use sanitize::expect::Comparison;
use sanitize::launches::signature;
use sanitize::{Job, MAX_SOURCE, SanitizeError, Sources};
use text::count;

use super::contents::{read_back, save};
use super::launches::{from_options, header, merged, refuse_misfits, with_header};
use super::output::Run;
use super::{expect, simulated};
use crate::ci_output;
use crate::cli::{Global, SanitizeOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::snippet;
use crate::suppressed;

/// Runs the kernels of a file.
pub fn run(options: &SanitizeOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    ci_output::require_writable(&options.ci)?;
    let text = files::read_text_bounded(&options.file, MAX_SOURCE)
        .map_err(|error| CommandError::usage(format!("cannot read {}: {error}", options.file.display())))?;
    let header = header(&text, &options.file)?;
    let options = &with_header(options, &header);
    let launch = merged(&options.launch, header.launch.clone())?;
    let is_ptx = code::is_ptx(&options.file, &text);
    let launches =
        from_options(&launch, &|| if is_ptx { signatures(&text) } else { source_signatures(&text) })?;
    let arch = match &launch.arch {
        Some(name) => Some(name.parse().map_err(|error| super::super::build::unknown_target(name, &error))?),
        None if is_ptx => target_of_ptx(&text),
        None => None,
    };
    let mut chip = simulated::chip(global, header.device.as_deref(), arch)?;
    let code = if is_ptx {
        code::from_ptx(&text, &launches.kernels())?
    } else {
        let compiler = super::super::compiler(global, printer)?;
        let compile = |target: Target| {
            let mut request = code::request(&options.file, &text, target, &launch.define, &launch.include);
            request.options.extend(launch.std.iter().map(|name| format!("--std={name}")));
            code::from_cuda(&compiler, request, &launches.kernels())
        };
        let mut compiled = compile(arch.unwrap_or(chip.target));
        // Nobody has chosen the GPU, so it is one that has the instructions of the code.
        if let (None, Err(SanitizeError::Build(error))) = (arch, &compiled)
            && let Some(needed) = compiler::needed_target(error).and_then(|name| name.parse::<Target>().ok())
        {
            let other = simulated::chip(global, header.device.as_deref(), Some(needed))?;
            if other.runs(needed) {
                chip = other;
                compiled = compile(chip.target);
            }
        }
        match compiled {
            Err(SanitizeError::Build(error)) => return not_compiled(error, options, printer),
            other => other?,
        }
    };
    if !is_ptx {
        refuse_misfits(&launches, &code.kernels, &text)?;
    }
    let left_out = code.notes();
    for note in &left_out {
        printer.message(&format!("note: {note}"));
    }

    let mut device = simulated::device(chip, options);
    let (own, own_text, include) = (options.file.clone(), text.clone(), options.launch.include.clone());
    let texts = move |name: &str| Sources::new(&own, &own_text, &include).text(name);
    let suppressions = suppressed::read(options.suppressions.as_deref(), texts)?;
    device.filter = suppressions.clone().map(|rules| rules as _);
    let ptx_file = is_ptx.then_some(options.file.as_path());
    let job = Job { code: &code, launches, variables: &launch.variable, ptx_file };
    let outcome = sanitize::run(job, &mut device)?;
    let report = &outcome.report;
    let buffers = read_back(&outcome.placed, &mut device, options)?;

    let sources = Sources::new(&options.file, &text, &options.launch.include);
    let run = Run {
        options,
        kernel: &outcome.kernel,
        left_out: &left_out,
        device: device.describe(),
        report,
        occupancy: outcome.occupancy.clone().filter(|_| options.counters),
        modelled: outcome.modelled.clone(),
        fidelity: options.fidelity.then_some(&outcome.fidelity),
        buffers: &buffers,
        comparisons: expect::compare(options, &buffers)?,
        suppressions: suppressions.as_ref().map(|rules| rules.uses()).unwrap_or_default(),
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
    suppressed::tell(suppressions.as_deref(), printer);
    let mut case = super::output::ci_case(&run, run.kernel, &|name| sources.path(name));
    for comparison in run.comparisons.iter().filter(|it| !it.is_equal()) {
        case.status = CiStatus::Failed;
        case.findings.push(CiFinding::new("wrong-result", run.kernel, comparison.describe()));
    }
    ci_output::write(&CiReport::new("sanitize", &run.device, vec![case]), &options.ci, printer)?;
    // A launch that did not complete is a problem, even without a finding.
    let is_equal = run.comparisons.iter().all(Comparison::is_equal);
    let is_success = run.is_clean() && report.stats.completed && is_equal;
    Ok(if is_success { Exit::Success } else { Exit::ProblemFound })
}

/// The parameters of the kernels in a PTX text, if it can be loaded.
fn signatures(text: &str) -> Option<String> {
    let module = vgpu::load(text).ok()?;
    let kernels: Vec<String> = module.kernels.iter().take(4).map(signature).collect();
    (!kernels.is_empty()).then(|| kernels.join("; "))
}

/// The kernels of a CUDA source, with their parameters.
fn source_signatures(text: &str) -> Option<String> {
    let mut kernels: Vec<String> = Vec::new();
    for name in family::kernel_names(text) {
        let Some(parameters) = launch::source_parameters(text, &name) else { continue };
        let parameters: Vec<String> =
            parameters.iter().map(|it| format!("{} {}", it.text, it.name)).collect();
        let kernel = format!("{name}({})", parameters.join(", "));
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
    }
    let more = if kernels.len() > 8 { ", ..." } else { "" };
    kernels.truncate(8);
    (!kernels.is_empty()).then(|| format!("kernels of this file: {}{more}", kernels.join(", ")))
}

/// The target that a PTX text names, if it can be loaded.
fn target_of_ptx(text: &str) -> Option<Target> {
    let module = vgpu::load(text).ok()?;
    module.target.split(',').next()?.trim().parse().ok()
}

/// Prints the compiler's errors.
fn not_compiled(
    error: BuildError,
    options: &SanitizeOptions,
    printer: &Printer,
) -> Result<Exit, CommandError> {
    let BuildError::Source { name, diagnostics, .. } = error else { return Err(error.into()) };
    for diagnostic in &diagnostics {
        printer.message(&snippet::diagnostic(diagnostic));
    }
    write_diagnostics(&diagnostics, options, printer)?;
    let is_error = |it: &&Diagnostic| it.severity == Severity::Error;
    let errors = count(diagnostics.iter().filter(is_error).count(), "error");
    let failure = CommandError::problem(format!("{name} does not compile ({errors})"));
    printer.failure_of_source(&failure, &diagnostics);
    Ok(Exit::ProblemFound)
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
