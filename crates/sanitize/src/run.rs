//! Makes the launches on a virtual GPU.

use std::fmt;
use std::path::Path;

use chips::Occupancy;
use gpu::accelerator::{Accelerator as _, Image, VirtualDevice};
use launch::{Argument, Placed};
use text::count;
use vgpu::model::Modelled;
use vgpu::{FidelityReport, Kernel, LaunchReport, Module, Severity};

use crate::code::Code;
use crate::launches::{Launches, set_variables, signature};
use crate::{SanitizeError, readable, simulated};

/// Launches of one file.
#[derive(Debug)]
pub struct Job<'a> {
    /// The code, with one kernel per launch.
    pub code: &'a Code,
    /// The launches, in order.
    pub launches: Launches,
    /// Values of the code's variables before the first launch.
    pub variables: &'a [Argument],
    /// The file of the PTX, if it was not compiled here. Findings without line information point to it.
    pub ptx_file: Option<&'a Path>,
}

/// What the launches did.
#[derive(Debug)]
pub struct Outcome {
    /// The kernels that ran, as text.
    pub kernel: String,
    /// The reports of all launches as one.
    pub report: LaunchReport,
    /// The buffers of the launches. The device has their contents.
    pub placed: Placed,
    /// The occupancy of the last launch, if the code was compiled here.
    pub occupancy: Option<Occupancy>,
    /// The modelled time of the last launch, if its events were counted.
    pub modelled: Option<Modelled>,
    /// How exactly the instructions of the code run.
    pub fidelity: FidelityReport,
}

/// Makes the launches, until one does not complete. The options of the device are those of the launches.
pub fn run(mut job: Job<'_>, device: &mut VirtualDevice) -> Result<Outcome, SanitizeError> {
    let Code { ptx, build, kernels, .. } = job.code;
    let module = device.load(Image::Ptx(ptx)).map_err(|error| {
        SanitizeError::unsupported(error.to_string())
            .with_hint("the virtual GPU does not support this code; nothing was run")
    })?;
    let loaded = device.module(module).cloned();
    let loaded = loaded.ok_or_else(|| SanitizeError::usage("the code has no such kernel"))?;
    let entries: Vec<_> = kernels.iter().map(|name| entry(&loaded, name)).collect::<Result<_, _>>()?;
    job.launches.fit(&entries)?;
    let placed = job.launches.place(device)?;
    set_variables(job.variables, module, device)?;

    device.set_kept(&placed.others());
    let of_bytes = placed.buffers.iter().filter(|it| it.dtype.bytes() == 1).map(|it| it.buffer.address);
    device.options.of_bytes = of_bytes.map(vgpu::Buffer).collect();
    let chip = device.chip();
    let mut reports = Vec::new();
    let mut last = (None, None);
    for (number, (plan, entry)) in (1..).zip(job.launches.launches.iter().zip(&entries)) {
        let occupancy =
            build.as_ref().and_then(|it| simulated::occupancy(chip, it, &entry.name, plan.geometry));
        device.options.limits.blocks_per_sm =
            occupancy.as_ref().map_or(chip.limits().max_blocks_per_sm, |it| it.blocks_per_sm);
        // Every launch may write a part of the outputs; they must be complete after the last one.
        if number == kernels.len() {
            device.set_outputs(&placed.outputs());
        }
        let report = device.run(module, &entry.name, plan.geometry, &plan.parameters(&placed));
        let report =
            report.map_err(|error| SanitizeError::usage(error.to_string()).with_hint(signature(entry)))?;
        let has_completed = report.stats.completed;
        let modelled = simulated::modelled(device, &report, plan.geometry, occupancy.as_ref());
        last = (occupancy, modelled);
        reports.push(report);
        // After a launch that was stopped, the results of later launches have no meaning.
        if !has_completed {
            break;
        }
    }
    let Some(mut report) = simulated::merged(&reports) else {
        return Err(SanitizeError::unsupported("nothing was launched"));
    };
    if let Some(file) = job.ptx_file {
        report.add_ptx_places(&file.display().to_string());
    }
    let names: Vec<String> = kernels.iter().take(reports.len()).map(|name| readable(name)).collect();
    let (occupancy, modelled) = last;
    Ok(Outcome {
        kernel: names.join(", "),
        report,
        placed,
        occupancy,
        modelled,
        fidelity: loaded.fidelity.clone(),
    })
}

/// A kernel of the module, or why it cannot run.
fn entry<'m>(module: &'m Module, name: &str) -> Result<&'m Kernel, SanitizeError> {
    if let Some(error) = module.refusal(name) {
        return Err(SanitizeError::unsupported(error.to_string())
            .with_hint("the virtual GPU does not support this kernel; nothing was run"));
    }
    module.kernel(name).ok_or_else(|| SanitizeError::usage(format!("the code has no kernel `{name}`")))
}

/// The last line of a report: what ran, and how many findings it has.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The kernel, the device and the amount of work.
    pub ran: String,
    /// The result, without notes.
    pub verdict: String,
    /// Whether the verdict is good; `None` if nothing was checked.
    pub is_good: Option<bool>,
    /// What follows the verdict.
    pub rest: String,
}

impl Summary {
    /// The summary of a report. `is_checked`: whether the checkers ran.
    pub fn new(kernel: &str, device: &str, report: &LaunchReport, is_checked: bool) -> Self {
        let with = |severity| report.findings.iter().filter(|f| f.severity == severity).count();
        let (errors, warnings, notes) =
            (with(Severity::Error), with(Severity::Warning), with(Severity::Note));
        let stats = &report.stats;
        let ran = format!(
            "`{kernel}` on {device}: {}, {}",
            count(stats.blocks as usize, "block"),
            count(stats.warp_instructions as usize, "warp instruction")
        );
        let (verdict, is_good, rest) = match (errors + warnings, is_checked) {
            (0, false) => ("ran unchecked".to_owned(), None, String::new()),
            (0, true) if notes == 0 => ("clean".to_owned(), Some(true), String::new()),
            (0, true) => ("clean".to_owned(), Some(true), format!(", {}", count(notes, "note"))),
            _ => {
                let counts = [(errors, "error"), (warnings, "warning"), (notes, "note")];
                let text = counts.map(|(number, name)| count(number, name)).join(", ");
                (text, Some(errors == 0), String::new())
            }
        };
        let end = if stats.completed { "" } else { "; the launch did not complete" };
        Summary { ran, verdict, is_good, rest: rest + end }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { ran, verdict, rest, .. } = self;
        write!(f, "{ran}: {verdict}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use chips::Chip;
    use gpu::accelerator::Geometry;

    use super::*;
    use crate::code;
    use crate::launches::Launch;

    /// Counts for ever.
    const COUNT: &str = ".version 8.4
        .target sm_80
        .address_size 64
        .visible .entry count(.param .u64 out) {
            .reg .b64 %p; .reg .b32 %x;
            ld.param.u64 %p, [out];
        AGAIN:
            ld.global.u32 %x, [%p]; add.u32 %x, %x, 1; st.global.u32 [%p], %x;
            bra AGAIN;
        }";

    #[test]
    fn another_thread_can_end_a_launch() {
        let code = code::from_ptx(COUNT, &[None]).unwrap();
        let geometry = Geometry { grid: [1; 3], block: [1; 3], cluster: [1; 3], shared_bytes: 0 };
        let launch = Launch { kernel: None, geometry, arguments: vec![0] };
        let arguments = vec!["x=inout,i32[1]=zeros".parse().unwrap()];
        let launches = Launches { launches: vec![launch], arguments };
        let job = Job { code: &code, launches, variables: &[], ptx_file: Some(Path::new("count.ptx")) };
        let mut device = VirtualDevice::new(Chip::by_name("h200").unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        device.options.stop = Some(stop.clone());
        device.options.budget = u64::MAX;
        device.options.time_limit = None;
        let outcome = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(job, &mut device));
            stop.store(true, Ordering::Relaxed);
            running.join().unwrap().unwrap()
        });
        assert!(!outcome.report.stats.completed);
        let summary = Summary::new(&outcome.kernel, "virtual:h200", &outcome.report, true).to_string();
        assert!(summary.ends_with("; the launch did not complete"), "{summary}");
    }
}
