//! `sanitize` for one of our own families: a preset and a problem stand for the launch and its arguments.

use attention::{Attention, Problem};
use family::Catalog;
use family::tuned::is_tuned;
use gpu::accelerator::{Accelerator as _, Geometry, Image};
use gpu::device::Device;
use op::{Addresses, Kernel, Op as _, tuned};

use super::sanitize::{self, Run};
use crate::cli::{Global, SanitizeOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, GOOD, Printer, styled};

/// Ragged, two heads, several steps of every preset's loop, and done in a second.
const SMALL_PROBLEM: &str = "b1h2s200d64-fp16";

pub fn run(options: &SanitizeOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    refuse_launch_flags(options)?;
    let op = Attention;
    let catalog = Catalog::load(global.kernels.as_deref())?;
    let family = catalog.family(&options.file.to_string_lossy())?;
    let problem: Problem = options
        .problem
        .as_deref()
        .unwrap_or(SMALL_PROBLEM)
        .parse()
        .map_err(|error: attention::problem::NameError| op::Refusal::from(error))?;
    let chip = sanitize::chip(global)?;
    let place = Device::Virtual { chip };
    if options.preset.as_deref().is_some_and(is_tuned) {
        super::tuned::look_up(&[family], (&[problem], &[]), &place, printer)?;
    }
    let candidate =
        tuned::candidate(&op, family, options.preset.as_deref(), &options.set, (&problem, &place))?;
    let request = family.request(&candidate, chip.target)?;
    let build = super::build::compiler(global, printer)?.build(&request)?.build;

    let launch = family.launch(&candidate, &op.sizes(&problem))?;
    let geometry = Geometry {
        grid: launch.grid.map(|extent| u32::try_from(extent).unwrap_or(u32::MAX)),
        block: launch.block,
        cluster: launch.cluster,
        shared_bytes: launch.shared_bytes as u32,
    };
    let occupancy = sanitize::occupancy(chip, &build, &family.entry, geometry);
    let mut device = sanitize::device(chip, options, occupancy.as_ref());
    let refused = |error: op::RunError| CommandError::lacking(error.to_string());
    let label = format!("{} {}", family.name, candidate.label(family));
    let kernel = Kernel::load(&mut device, family, candidate, Image::Ptx(&build.ptx)).map_err(refused)?;
    let inputs = op.inputs(&problem, op.classes()[0], global.seed)?;
    let arrangement = op.arrange(family, &problem, &inputs);
    let parameters = |addresses: &Addresses| op.parameters(&problem, &inputs, addresses);
    let observed =
        kernel.observe(&mut device, &op.sizes(&problem), &arrangement, &parameters).map_err(refused)?;
    let Some(report) = &observed.report else {
        return Err(CommandError::lacking("the virtual GPU gave no report"));
    };

    let sources = |name: &str| family.text_of(name).map(str::to_owned);
    let run = Run {
        options,
        kernel: &format!("{label} {problem}"),
        device: device.describe(),
        report,
        modelled: sanitize::modelled(&device, report, geometry, occupancy.as_ref()),
        occupancy: occupancy.filter(|_| options.counters),
        fidelity: device.module(kernel.module()).map(|it| &it.fidelity).filter(|_| options.fidelity),
        buffers: &[],
        sources: &sources,
    };
    let extra = op.extra_tolerance(family, &problem, &build.ptx).is_some();
    let judgement =
        op.judge(extra, &inputs, &op.reference(&problem, &inputs, global.seed), &observed.outputs);
    let right = judgement.complaints.is_empty();
    if printer.is_json() {
        run.print_json(printer)?;
    } else {
        run.print_text(printer)?;
        let words = format!("relative error {:.1e} ({:.1e} allowed)", judgement.error, judgement.limit);
        printer.data(&if right {
            format!("answer: {}, {words}", styled(GOOD, "right"))
        } else {
            format!("answer: {}, {}", styled(BAD, "wrong"), judgement.complaints[0].message)
        });
    }
    let holds = report.is_clean() && report.stats.completed && right;
    Ok(if holds { Exit::Holds } else { Exit::Finding })
}

/// A family's launch follows from its manifest and the problem.
fn refuse_launch_flags(options: &SanitizeOptions) -> Result<(), CommandError> {
    let launch = &options.launch;
    let given = [
        ("--kernel", launch.kernel.is_some()),
        ("--grid", launch.grid.is_some()),
        ("--block", launch.block.is_some()),
        ("--shared", launch.shared.is_some()),
        ("--arg", !launch.arg.is_empty()),
        ("--arch", launch.arch.is_some()),
        ("--define", !launch.define.is_empty()),
        ("--print", !options.print.is_empty()),
        ("--save", options.save.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(CommandError::usage(format!("{flag} is for files, not for families"))
            .hint("a family's launch follows from --preset, --set, --problem and --device")),
        None => Ok(()),
    }
}
