//! Runs a kernel on the virtual GPU.
//!
//! The launch runs on a thread of its own, without Python's lock. The calling thread looks for signals, so Ctrl-C ends
//! the launch. All threads have ended when the function returns, also after a fault, so a process may fork afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use ::launch::{Argument, Init, Placed, Role};
use gpu::accelerator::{Accelerator as _, AcceleratorError, Geometry, Image, VirtualDevice};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use sanitize::expect::{Array, Comparison, compare};
use sanitize::launches::{Launch, Launches};
use sanitize::{Job, Outcome, Renderer, SanitizeError, Sources, Summary};
use text::escape::visible;
use vgpu::Checks;

use crate::argument::{Given, Pointer};
use crate::known::KnownFindings;
use crate::{Code, UsageError, raised};

/// How often the calling thread looks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The options of a launch.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    shared: u32,
    seed: u64,
    checked: bool,
    counters: bool,
    budget: u64,
    time_limit: Option<f64>,
    threads: usize,
    /// Arrays that buffers must equal afterwards.
    expect: Vec<Expected>,
    rtol: Option<f64>,
    atol: Option<f64>,
    /// Findings that are left out.
    suppressions: Option<Py<KnownFindings>>,
}

/// An expected array: name of the buffer, type, shape, elements.
type Expected = (String, String, Vec<usize>, PyBackedBytes);

/// Runs the kernel. Returns the report as JSON, the text of the report, and the buffers after the launch.
#[pyfunction]
pub fn launch<'py>(
    py: Python<'py>,
    code: &Code,
    arguments: Vec<Given>,
    options: Options,
) -> PyResult<Bound<'py, PyDict>> {
    let buffers: Vec<bool> = arguments.iter().map(Given::has_buffer).collect();
    let pointers: Vec<Vec<Pointer>> = arguments.iter().map(|it| it.pointers.clone()).collect();
    let arguments = arguments.into_iter().map(Given::argument).collect::<PyResult<Vec<Argument>>>()?;
    let stop = Arc::new(AtomicBool::new(false));
    let work = || run(code, arguments, (&buffers, &pointers), &options, &stop);
    let done = py.detach(|| interruptible(work, &stop))??;
    let result = PyDict::new(py);
    result.set_item("report", done.report)?;
    result.set_item("text", done.text)?;
    result.set_item("kernel", done.kernel)?;
    result.set_item("device", done.device)?;
    result.set_item("clean", done.is_clean)?;
    result.set_item("mismatches", done.mismatches)?;
    result.set_item("modelled_us", done.modelled_us)?;
    let buffers = done.buffers.iter().map(|bytes| bytes.as_ref().map(|bytes| PyBytes::new(py, bytes)));
    result.set_item("buffers", buffers.collect::<Vec<_>>())?;
    Ok(result)
}

/// Runs `work` on another thread and looks for signals until it ends. A signal stops it.
pub(crate) fn interruptible<T: Send>(work: impl FnOnce() -> T + Send, stop: &AtomicBool) -> PyResult<T> {
    let mut interrupted = None;
    let value = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<()>(1);
        let thread = scope.spawn(move || {
            let value = work();
            // The receiver exists until this thread has ended.
            let _ = sender.send(());
            value
        });
        // A panic of the thread drops the sender, which also ends the loop.
        while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(SIGNAL_INTERVAL) {
            if interrupted.is_none()
                && let Err(error) = signals()
            {
                interrupted = Some(error);
                stop.store(true, Ordering::Relaxed);
            }
        }
        thread.join()
    });
    match (interrupted, value) {
        (Some(error), _) => Err(error),
        (None, Ok(value)) => Ok(value),
        (None, Err(_)) => Err(PyRuntimeError::new_err("the virtual GPU failed; please report this as a bug")),
    }
}

/// Runs the handlers of signals that have arrived. Only Python's main thread has some.
fn signals() -> PyResult<()> {
    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is not general enough over lifetimes"
    )]
    Python::attach(|py| py.check_signals())
}

/// What a launch did, without Python objects.
struct Done {
    report: String,
    text: String,
    kernel: String,
    device: String,
    is_clean: bool,
    mismatches: Vec<String>,
    modelled_us: Option<f64>,
    buffers: Vec<Option<Vec<u8>>>,
}

fn run(
    code: &Code,
    mut arguments: Vec<Argument>,
    (has_buffer, pointers): (&[bool], &[Vec<Pointer>]),
    options: &Options,
    stop: &Arc<AtomicBool>,
) -> PyResult<Done> {
    let moved = place_pointers(code, &mut arguments, (has_buffer, pointers), options.seed)?;
    let mut device = world(code, options.seed);
    device.options.checks = if options.checked { Checks::All } else { Checks::None };
    device.options.counters = options.counters;
    device.options.budget = options.budget;
    device.options.threads = options.threads;
    device.options.stop = Some(stop.clone());
    if let Some(seconds) = options.time_limit {
        let limit = Duration::try_from_secs_f64(seconds);
        device.options.time_limit =
            Some(limit.map_err(|error| UsageError::new_err(format!("time_limit: {error}")))?);
    }
    let Options { grid, block, cluster, shared, .. } = *options;
    let geometry = Geometry { grid, block, cluster, shared_bytes: shared };
    // Buffers that several arguments share come after the arguments; the launch itself has only the parameters.
    let launch = Launch { kernel: None, geometry, arguments: (0..code.params.len()).collect() };
    let launches = Launches { launches: vec![launch], arguments };
    let ptx_file = code.is_ptx.then_some(code.file.as_path());
    let job = Job { code: &code.loaded, launches, variables: &[], ptx_file };
    let mut outcome = sanitize::run(job, &mut device).map_err(|error| raised(&error))?;
    if let Some(known) = &options.suppressions {
        let sources = Sources::new(&code.file, &code.text, &code.include);
        let texts = |name: &str| sources.text(name);
        outcome.report.findings.retain(|finding| known.get().0.keeps_in(finding, &texts));
    }

    let placed = &outcome.placed.buffers;
    let mut buffers = Vec::new();
    for buffer in placed {
        let bytes = device.read(buffer.buffer);
        buffers.push(bytes.map_err(|error| raised(&SanitizeError::unsupported(error.to_string())))?);
    }
    for Moved { buffer, at, here, there } in &moved {
        let element = buffers.get_mut(*buffer).and_then(|bytes| bytes.get_mut(*at..*at + POINTER));
        // What the kernel has stored there stays.
        if let Some(element) = element.filter(|element| **element == *there) {
            element.copy_from_slice(here);
        }
    }
    let comparisons = comparisons(&outcome, &buffers, options)?;
    let text = text(code, &outcome, &comparisons, &device.describe(), options);
    let is_equal = comparisons.iter().all(Comparison::is_equal);
    let mut contents = buffers.into_iter();
    Ok(Done {
        report: serde_json::to_string(&outcome.report)
            .map_err(|error| PyRuntimeError::new_err(format!("cannot write the report: {error}")))?,
        text,
        is_clean: outcome.report.is_clean() && outcome.report.stats.completed && is_equal,
        mismatches: comparisons.iter().filter(|it| !it.is_equal()).map(Comparison::describe).collect(),
        modelled_us: outcome.modelled.as_ref().map(|it| it.time.0),
        kernel: outcome.kernel,
        device: device.describe(),
        buffers: has_buffer.iter().map(|&has| if has { contents.next() } else { None }).collect(),
    })
}

/// The virtual GPU in the world of a seed.
fn world(code: &Code, seed: u64) -> VirtualDevice {
    match seed {
        0 => VirtualDevice::new(code.device),
        seed => VirtualDevice::in_world(code.device, seed),
    }
}

/// Bytes of a pointer.
const POINTER: usize = 8;

/// A pointer in a buffer that was replaced: the number of the buffer, the byte in it, the pointer on the host and that on
/// the virtual GPU.
struct Moved {
    buffer: usize,
    at: usize,
    here: [u8; POINTER],
    there: [u8; POINTER],
}

/// Replaces the host's pointers in buffers by those of the virtual GPU. Placement depends only on the seed, so another
/// device tells the addresses.
fn place_pointers(
    code: &Code,
    arguments: &mut [Argument],
    (has_buffer, pointers): (&[bool], &[Vec<Pointer>]),
    seed: u64,
) -> PyResult<Vec<Moved>> {
    if pointers.iter().all(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let failed = |error: AcceleratorError| raised(&SanitizeError::unsupported(error.to_string()));
    let mut device = world(code, seed);
    device.load(Image::Ptx(&code.loaded.ptx)).map_err(failed)?;
    let placed = Placed::on(&mut device, arguments).map_err(failed)?;
    let number = |index: usize| has_buffer[..index].iter().filter(|has| **has).count();
    let mut moved = Vec::new();
    for (index, (argument, pointers)) in arguments.iter_mut().zip(pointers).enumerate() {
        let Role::InOut { init: Init::Elements(elements), .. } = &mut argument.role else { continue };
        let mut bytes = elements.to_vec();
        for &(at, target, offset) in pointers {
            let target = placed.buffers.get(number(target)).map(|it| it.buffer.address + offset);
            let element = bytes.get_mut(at..at + POINTER);
            let Some((there, element)) = target.map(u64::to_le_bytes).zip(element) else {
                return Err(UsageError::new_err("a pointer in a buffer has no target"));
            };
            let here = element.try_into().unwrap_or_default();
            element.copy_from_slice(&there);
            moved.push(Moved { buffer: number(index), at, here, there });
        }
        *elements = bytes.into();
    }
    Ok(moved)
}

fn comparisons(outcome: &Outcome, buffers: &[Vec<u8>], options: &Options) -> PyResult<Vec<Comparison>> {
    let one = |(name, dtype, dims, elements): &Expected| {
        let failed = |reason: String| UsageError::new_err(format!("expect[{name:?}]: {reason}"));
        let found = outcome.placed.buffers.iter().zip(buffers).find(|(buffer, _)| buffer.name == *name);
        let (buffer, bytes) = found.ok_or_else(|| failed("the kernel has no such buffer".to_owned()))?;
        let got = Array { name, dtype: buffer.dtype, dims: &buffer.dims, bytes };
        let dtype = dtype.parse().map_err(failed)?;
        let wanted = Array { name: "the expected array", dtype, dims, bytes: elements };
        compare(got, wanted, (options.rtol, options.atol)).map_err(|error| raised(&error))
    };
    options.expect.iter().map(one).collect()
}

/// The text that the command line prints for the same launch.
fn text(
    code: &Code,
    outcome: &Outcome,
    comparisons: &[Comparison],
    device: &str,
    options: &Options,
) -> String {
    let Outcome { kernel, report, .. } = outcome;
    let sources = Sources::new(&code.file, &code.text, &code.include);
    let mut lines = Vec::new();
    if !report.printed.is_empty() {
        lines.push(visible(report.printed.trim_end_matches('\n')));
    }
    for finding in &report.findings {
        let texts = |name: &str| sources.text(name);
        lines.push(sanitize::findings::render(finding, &texts, &Renderer::plain()));
        lines.push(String::new());
    }
    lines.extend(sanitize::findings::dropped(report));
    lines.extend(comparisons.iter().map(Comparison::describe));
    lines.push(Summary::new(kernel, device, report, options.checked).to_string());
    lines.join("\n")
}
