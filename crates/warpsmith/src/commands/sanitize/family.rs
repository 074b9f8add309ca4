//! `sanitize` for a family: the launch and its arguments follow from a preset and a problem.

use std::path::Path;
use std::sync::Arc;

use family::tuned_table::is_tuned;
use family::{Catalog, Family};
use gpu::accelerator::{Accelerator as _, Geometry, Image};
use gpu::device::Device;
use op::{Addresses, Judgement, Kernel, dispatch};
use report::ci::{CiFinding, CiReport, CiStatus};
use sanitize::Suppressions;

use super::output::Run;
use super::simulated;
use crate::ci_output;
use crate::cli::{Global, SanitizeOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{BAD, GOOD, Printer, styled};
use crate::suppressed;

/// Runs one candidate of a family under the checkers and compares its output with the reference.
pub fn run(
    options: &SanitizeOptions,
    global: &Global,
    catalog: &Catalog,
    printer: &Printer,
) -> Result<Exit, CommandError> {
    if let Some(flag) = launch_flag(options) {
        return Err(CommandError::usage(format!("{flag} is for source files, not for families"))
            .hint("--preset, --set, --problem and --device decide the launch of a family"));
    }
    ci_output::require_writable(&options.ci)?;
    // A file that declares its op has one family.
    let is_file = family::is_kernel_file(&options.file);
    let name = if is_file {
        family::family_of_file(&options.file)
    } else {
        options.file.to_string_lossy().into_owned()
    };
    let op = &*ops::of_command(global, std::slice::from_ref(&name), catalog)?;
    let family =
        if name == op.name() { ops::search_family(op, catalog)? } else { ops::family(op, &name, catalog)? };
    let problem = match &options.problem {
        Some(problem) => ops::problem(op, problem)?,
        None if is_file => ops::problem(op, &ops::default_problem(op))?,
        None => ops::problem(op, &op.small_problem())?,
    };
    ops::require_reference(op, printer)?;
    let chip = simulated::chip(global, None, None)?;
    let place = Device::Virtual { chip };
    if options.preset.as_deref().is_some_and(is_tuned) {
        super::super::tuned_preset::look_up(
            op,
            &[family],
            (std::slice::from_ref(&problem), &[]),
            &place,
            printer,
        )?;
    }
    let candidate =
        dispatch::candidate(op, family, options.preset.as_deref(), &options.set, (&problem, &place))?;
    let request = family.request(&candidate, chip.target)?;
    let build = super::super::compiler(global, printer)?.build(&request)?.build;

    let launch = family.launch(&candidate, &op.sizes(&problem))?;
    let geometry = Geometry {
        grid: launch.grid.map(|extent| u32::try_from(extent).unwrap_or(u32::MAX)),
        block: launch.block,
        cluster: launch.cluster,
        shared_bytes: launch.shared_bytes as u32,
    };
    let occupancy = sanitize::simulated::occupancy(chip, &build, &family.entry, geometry);
    let mut device = simulated::device(chip, options);
    let folder = if is_file { Some(options.file.as_path()) } else { global.kernels.as_deref() };
    let suppressions = suppressions(options, family, folder)?;
    device.filter = suppressions.clone().map(|rules| rules as _);
    if let Some(occupancy) = &occupancy {
        device.options.limits.blocks_per_sm = occupancy.blocks_per_sm;
    }
    let refused = |error: op::RunError| CommandError::missing(error.to_string());
    let label = format!("{} {}", family.name, candidate.label(family));
    let kernel = Kernel::load(&mut device, family, candidate, Image::Ptx(&build.ptx)).map_err(refused)?;
    let inputs = op.inputs(&problem, op.classes()[0], global.seed)?;
    let arrangement = op.arrange(family, &problem, &inputs);
    let parameters = |addresses: &Addresses| op.parameters(family, &problem, &inputs, addresses);
    let observed =
        kernel.observe(&mut device, &op.sizes(&problem), &arrangement, &parameters).map_err(refused)?;
    let Some(report) = &sanitize::simulated::merged(&observed.reports) else {
        return Err(CommandError::missing("the virtual GPU gave no report"));
    };

    let run = Run {
        options,
        kernel: &format!("{label} {problem}"),
        left_out: &[],
        device: device.describe(),
        report,
        modelled: sanitize::simulated::modelled(&device, report, geometry, occupancy.as_ref()),
        occupancy: occupancy.filter(|_| options.counters),
        fidelity: device.module(kernel.module()).map(|it| &it.fidelity).filter(|_| options.fidelity),
        buffers: &[],
        comparisons: Vec::new(),
        suppressions: suppressions.as_ref().map(|rules| rules.uses()).unwrap_or_default(),
        sources: &|name| family.source_text(name).map(str::to_owned),
    };
    let extra = op.extra_tolerance(family, &problem, &build.ptx);
    let judgement =
        op.judge(extra.as_ref(), &inputs, &op.reference(&problem, &inputs, global.seed)?, &observed.outputs);
    let is_correct = judgement.complaints.is_empty();
    show(&run, &judgement, printer)?;
    suppressed::tell(suppressions.as_deref(), printer);
    let paths = |name: &str| ci_output::family_path(family, folder, name);
    let mut case = super::output::ci_case(&run, &label, &paths);
    for complaint in &judgement.complaints {
        case.status = CiStatus::Failed;
        case.findings.push(CiFinding::new(&complaint.kind, &label, &complaint.message));
    }
    ci_output::write(&CiReport::new("sanitize", &run.device, vec![case]), &options.ci, printer)?;
    let is_success = run.is_clean() && report.stats.completed && is_correct;
    Ok(if is_success { Exit::Success } else { Exit::ProblemFound })
}

fn show(run: &Run<'_>, judgement: &Judgement, printer: &Printer) -> Result<(), CommandError> {
    if printer.is_json() {
        return run.print_json(printer);
    }
    run.print_text(printer)?;
    let error = format!("relative error {:.1e} ({:.1e} allowed)", judgement.error, judgement.limit);
    printer.data(&match judgement.complaints.first() {
        None => format!("output: {}, {error}", styled(GOOD, "correct")),
        Some(complaint) => format!("output: {}, {}", styled(BAD, "wrong"), complaint.message),
    });
    Ok(())
}

/// The known findings, and the sources of the family, whose lines they may name.
fn suppressions(
    options: &SanitizeOptions,
    family: &Family,
    folder: Option<&Path>,
) -> Result<Option<Arc<Suppressions>>, CommandError> {
    let (catalog, name) = (Catalog::load(folder)?, format!("{}/{}", family.op, family.name));
    let texts = move |file: &str| catalog.family(&name).ok()?.source_text(file).map(str::to_owned);
    suppressed::read(options.suppressions.as_deref(), texts)
}

/// The first given flag that describes the launch of a source file.
pub fn launch_flag(options: &SanitizeOptions) -> Option<&'static str> {
    let launch = &options.launch;
    let given = [
        ("--kernel", launch.kernel.is_some()),
        ("--launch", !launch.launch.is_empty()),
        ("--variable", !launch.variable.is_empty()),
        ("--expect", !options.expect.is_empty()),
        ("--grid", launch.grid.is_some()),
        ("--block", launch.block.is_some()),
        ("--shared", launch.shared.is_some()),
        ("--arg", !launch.arg.is_empty()),
        ("--arch", launch.arch.is_some()),
        ("--define", !launch.define.is_empty()),
        ("--print", !options.print.is_empty()),
        ("--save", options.save.is_some()),
    ];
    given.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
}
