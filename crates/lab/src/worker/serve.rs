//! The worker's side for kernels: builds, runs and times one candidate after another, as requested.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver};
use std::{fs, process, thread};

use compiler::{Compiler, Entry};
use family::{Candidate, Catalog, Family};
use gpu::accelerator::{
    Accelerator as _, AcceleratorError, Buffer, CudaDevice, FreshInputs, Geometry, SideStreams, VirtualDevice,
};
use gpu::device::Device;
use op::{
    Addresses, Arrangement, CheckDevice, Complaint, InputDraw, Kernel, LaunchObservation, LaunchParameters,
    Op, OutputState, PreparedLaunch, SecondInputs, TrialStep,
};
use runlog::record::{Metrics, Seen};
use runlog::{BuildRecord, FailureKind, LaunchCounts, Time};
use subprocess::{Channel, wire};

use super::counted::{self, CountedLaunch};
use super::cuda::{self, TimedGraphs};
use super::failure::CandidateFailure;
use super::protocol::{BuildReply, CandidateName, LaunchReply, Modelled, WorkerReply, WorkerRequest};
use crate::trial::{draw_all_inputs, kernel_notes, launch_complaints, stray_write_complaint};

/// What a worker needs to answer requests.
struct WorkerContext<'a, O: Op + ?Sized> {
    op: &'a O,
    catalog: &'a Catalog,
    compiler: &'a Compiler,
    device: &'a Device,
    inbox: Receiver<WorkerRequest>,
}

/// Answers requests over the channel to the parent until it is told to quit or the parent is gone. A profiler starts
/// this process itself; in that case the requests are in a file, and the replies go to a file next to it.
pub fn serve<O: Op + ?Sized>(
    op: &O,
    catalog: &Catalog,
    compiler: &Compiler,
    device: &Device,
    request_file: Option<&Path>,
) -> io::Result<()> {
    let inbox = match request_file {
        Some(file) => read_requests(file)?,
        None => listen()?,
    };
    let context = WorkerContext { op, catalog, compiler, device, inbox };
    let mut open_device = None;
    let mut next = context.next();
    while let Some(request) = next {
        next = match request {
            WorkerRequest::Quit => None,
            WorkerRequest::Build { candidate, problem } => {
                match context.candidate(&mut open_device, &candidate, &problem) {
                    Ok(next) => next,
                    Err(failure) => {
                        send_failure(failure);
                        context.next()
                    }
                }
            }
            WorkerRequest::Hello => {
                send_reply(&WorkerReply::Ready {
                    version: format!("warpsmith {}", env!("CARGO_PKG_VERSION")),
                });
                context.next()
            }
            WorkerRequest::Ceilings => {
                match context.ceilings(&mut open_device) {
                    Ok(reply) => send_reply(&reply),
                    Err(failure) => send_failure(failure),
                }
                context.next()
            }
            other => {
                send_failure(CandidateFailure::other(format!(
                    "cannot answer {other:?} before a kernel is built"
                )));
                context.next()
            }
        };
    }
    Ok(())
}

/// The reply file of a worker whose requests are in a file.
static REPLY_FILE: OnceLock<File> = OnceLock::new();

/// The path of the replies to the requests in a file. They are messages of `subprocess::wire`.
pub(crate) fn answers_path(request_file: &Path) -> PathBuf {
    request_file.with_extension("answers")
}

/// Reads all requests from a file.
fn read_requests(file: &Path) -> io::Result<Receiver<WorkerRequest>> {
    let (sender, inbox) = mpsc::channel();
    for line in fs::read_to_string(file)?.lines() {
        // The receiver is still open.
        let _ = sender.send(serde_json::from_str(line)?);
    }
    let answers = File::create(answers_path(file))?;
    REPLY_FILE.get_or_init(|| answers);
    Ok(inbox)
}

/// Reads requests on a separate thread. When the parent is gone this process must end, even if a kernel that never ends
/// blocks the main thread.
fn listen() -> io::Result<Receiver<WorkerRequest>> {
    let channel = Channel::to_parent().ok_or_else(|| {
        io::Error::other(
            "a worker must be started by another command, which opens a channel, or with --asks FILE",
        )
    })?;
    let (sender, inbox) = mpsc::channel();
    thread::spawn(move || {
        loop {
            match channel.receive() {
                Ok((request, _)) => {
                    if sender.send(request).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => {
                    eprintln!("invalid request: {error}");
                    break;
                }
            }
        }
        process::exit(0);
    });
    Ok(inbox)
}

/// Sends a reply over the channel or writes it to the reply file. Never to stdout, where kernels print.
fn send_reply(reply: &WorkerReply) {
    // If the parent no longer reads, `listen` ends this process.
    if let Some(mut answers) = REPLY_FILE.get() {
        let _ = wire::send(&mut answers, reply, &reply.attachments());
    } else if let Some(channel) = Channel::to_parent() {
        let _ = channel.send(reply, &reply.attachments());
    }
}

fn send_failure(failure: CandidateFailure) {
    send_reply(&WorkerReply::Failed { failure: failure.kind, reason: failure.reason });
}

enum WorkerDevice {
    Cuda(CudaDevice),
    Virtual(Box<VirtualDevice>),
}

impl WorkerDevice {
    fn open(device: &Device) -> Result<Self, CandidateFailure> {
        Ok(match device {
            Device::Cuda { index, .. } => WorkerDevice::Cuda(CudaDevice::open(*index)?),
            Device::Virtual { chip } => WorkerDevice::Virtual(Box::new(VirtualDevice::new(chip))),
        })
    }

    /// Sets the checks of the next launches. A virtual GPU also counts.
    fn set_checks(&mut self, checks: vgpu::Checks) -> Result<(), CandidateFailure> {
        match (self, checks) {
            (WorkerDevice::Virtual(device), checks) => {
                device.options.checks = checks;
                device.options.counters = true;
            }
            (WorkerDevice::Cuda(_), vgpu::Checks::None) => {}
            (WorkerDevice::Cuda(_), vgpu::Checks::All) => {
                return Err(CandidateFailure::new(
                    FailureKind::Refused,
                    "a CUDA GPU has no checkers; use a virtual GPU",
                ));
            }
        }
        Ok(())
    }

    fn as_check_device(&mut self) -> &mut dyn CheckDevice {
        match self {
            WorkerDevice::Cuda(device) => device,
            WorkerDevice::Virtual(device) => &mut **device,
        }
    }
}

impl<O: Op + ?Sized> WorkerContext<'_, O> {
    fn next(&self) -> Option<WorkerRequest> {
        self.inbox.recv().ok()
    }

    fn ceilings(&self, open_device: &mut Option<WorkerDevice>) -> Result<WorkerReply, CandidateFailure> {
        let ceilings = match ensure_open(open_device, self.device)? {
            WorkerDevice::Cuda(device) => cuda::ceilings(device, self.compiler, self.device.target())?,
            WorkerDevice::Virtual(_) => Vec::new(),
        };
        Ok(WorkerReply::Ceilings { ceilings })
    }

    /// Handles one candidate on one problem, from its build to its last sample. Returns the next request.
    fn candidate(
        &self,
        open_device: &mut Option<WorkerDevice>,
        name: &CandidateName,
        problem: &str,
    ) -> Result<Option<WorkerRequest>, CandidateFailure> {
        let WorkerContext { op, catalog, compiler, device, .. } = self;
        let family =
            catalog.family(&name.family).map_err(|error| CandidateFailure::other(error.to_string()))?;
        let problem = parse_problem(*op, problem)?;
        let candidate = op.candidate(family, name.preset.as_deref(), &name.knobs, &problem)?;
        let built = compiler
            .build(&family.request(&candidate, device.target())?)
            .map_err(|error| CandidateFailure::build(&error))?;
        let notes = kernel_notes(&built.build.ptx, &family.entry);
        let extra_tolerance = op.extra_tolerance(family, &problem, &built.build.ptx);
        let is_unordered = extra_tolerance.as_ref().is_some_and(|extra| extra.is_unordered);
        let (hash, build) = (built.build.hash.clone(), build_record(family, &candidate, &built)?);
        send_reply(&WorkerReply::Built(BuildReply { hash, build, notes, extra_tolerance }));

        let (draws, steps, seed, checks) = match self.next() {
            Some(WorkerRequest::Run { draws, steps, seed, checks }) => (draws, steps, seed, checks),
            other => return Ok(other),
        };
        let input_sets = self.input_sets(family, &problem, &draws)?;
        let inputs: Vec<op::Inputs<'_>> = input_sets.iter().map(InputSet::inputs).collect();
        let open_device = ensure_open(open_device, device)?;
        open_device.set_checks(checks)?;
        open_device.as_check_device().expect(op.work(&problem).flops);
        let image = open_device.as_check_device().image(&built.build);
        let kernel = Kernel::load(open_device.as_check_device(), family, candidate, image)?;
        let sizes = op.sizes(&problem);
        let observed = kernel.trial(open_device.as_check_device(), &sizes, &inputs, &steps, seed)?;
        send_reply(&WorkerReply::Ran { launches: launch_replies(&observed, &steps)? });

        match open_device {
            WorkerDevice::Virtual(device) => {
                let entry = |name: &str| built.build.entry(name).cloned().unwrap_or_default();
                let geometries = kernel.geometries(&sizes)?.into_iter();
                let launches = geometries.map(|(name, geometry)| (entry(&name), geometry)).collect();
                let observed =
                    observed.first().ok_or_else(|| CandidateFailure::other("the kernel was not launched"))?;
                Ok(self.modelled(&VirtualRun { family, launches, device, observed }))
            }
            WorkerDevice::Cuda(device) => {
                let first =
                    observed.first().ok_or_else(|| CandidateFailure::other("the kernel was not launched"))?;
                let timing = TimedKernel {
                    context: self,
                    kernel: &kernel,
                    problem: &problem,
                    input_sets: &input_sets,
                    first,
                    seed,
                    is_unordered,
                };
                timing.answer(device)
            }
        }
    }

    /// Makes the inputs of the draws in the layout of the family's kernels.
    fn input_sets<'s>(
        &'s self,
        family: &'s Family,
        problem: &'s O::Problem,
        draws: &[InputDraw],
    ) -> Result<Vec<InputSet<'s>>, CandidateFailure> {
        let op = self.op;
        let set = |inputs: O::Inputs| {
            let arrangement = op.arrange(family, problem, &inputs);
            let parameters = move |addresses: &Addresses| op.parameters(family, problem, &inputs, addresses);
            InputSet { arrangement, parameters: Box::new(parameters) as Box<Parameters<'s>> }
        };
        Ok(draw_all_inputs(op, problem, draws)?.into_iter().map(set).collect())
    }

    /// Answers requests about a run on the virtual GPU. Returns the next request.
    fn modelled(&self, run: &VirtualRun<'_>) -> Option<WorkerRequest> {
        let answer = |reply: Result<WorkerReply, CandidateFailure>| match reply {
            Ok(reply) => send_reply(&reply),
            Err(failure) => send_failure(failure),
        };
        loop {
            match self.next() {
                Some(WorkerRequest::Model) => answer(run.modelled()),
                Some(WorkerRequest::Count { times, memory }) => answer(run.metrics_reply(times, memory)),
                Some(WorkerRequest::Arm { .. }) => {
                    let reason = "a virtual GPU cannot be timed";
                    send_failure(CandidateFailure::new(FailureKind::Refused, reason));
                }
                other => return other,
            }
        }
    }
}

/// One set of inputs in the layout of a kernel.
struct InputSet<'s> {
    arrangement: Arrangement,
    parameters: Box<Parameters<'s>>,
}

/// Makes the parameters of every launch from the addresses of the buffers.
type Parameters<'s> = dyn Fn(&Addresses) -> Vec<LaunchParameters> + 's;

impl InputSet<'_> {
    fn inputs(&self) -> op::Inputs<'_> {
        op::Inputs { arrangement: &self.arrangement, parameters: &*self.parameters }
    }
}

/// A kernel whose answers were checked, to be timed on a GPU.
struct TimedKernel<'a, O: Op + ?Sized> {
    context: &'a WorkerContext<'a, O>,
    kernel: &'a Kernel<'a>,
    problem: &'a O::Problem,
    input_sets: &'a [InputSet<'a>],
    /// The observation of the first launch of the trial.
    first: &'a LaunchObservation,
    /// Seed of the launches' environments.
    seed: u64,
    /// Whether launches on the same inputs may differ.
    is_unordered: bool,
}

impl<O: Op + ?Sized> TimedKernel<'_, O> {
    /// Answers requests about timing. Returns the next request.
    fn answer(&self, device: &mut CudaDevice) -> Result<Option<WorkerRequest>, CandidateFailure> {
        let TimedKernel { context, kernel, problem, input_sets, .. } = self;
        // The inputs for running the timed launches once more. They live as long as the buffers that hold them.
        let fresh: OnceCell<Vec<InputSet<'_>>> = OnceCell::new();
        let mut prepared = kernel.prepare(device, &context.op.sizes(problem), &input_sets[0].inputs())?;
        let (timers, warmup, replay_ns) = loop {
            match context.next() {
                Some(WorkerRequest::Arm { timers, warmup, replay_ns }) => break (timers, warmup, replay_ns),
                Some(WorkerRequest::Launch { times }) => {
                    for _ in 0..times {
                        for launch in prepared.launches() {
                            device.launch(
                                kernel.module(),
                                launch.entry,
                                launch.geometry,
                                launch.parameters,
                            )?;
                        }
                    }
                    send_reply(&WorkerReply::Launched);
                }
                other => {
                    // Launches under a profiler are not judged: the kernel was checked before.
                    let _ = prepared.close(device);
                    return Ok(other);
                }
            }
        };
        let flush = cuda::flush_buffer(device)?;
        let second = self.second(device, &prepared)?;
        let mut calls = vec![device.call(kernel.module(), prepared.launches())?];
        if let Some(second) = &second {
            calls.push(device.call(kernel.module(), prepared.second_launches(second))?);
        }
        let side = SideStreams::new(cuda::empty_launch(device, context.compiler, context.device.target())?)?;
        let poisoned = prepared.poisoned(op::derive_seed(self.seed, TIMING_POISON));
        let armed = TimedGraphs::new(device, (calls, side), &timers, (warmup, replay_ns), (flush, poisoned))?;
        send_reply(&WorkerReply::Armed { launches: armed.launches() });
        let (draws, seed) = loop {
            match context.next() {
                Some(WorkerRequest::Sample { timer, count }) => {
                    send_reply(&WorkerReply::Samples { ns: armed.samples(device, timer, count)? });
                }
                Some(WorkerRequest::Verify { draws, seed }) => break (draws, seed),
                other => {
                    drop(armed);
                    device.free(flush)?;
                    // Without `Verify` the parent does not use the times, so there is nothing to report.
                    if let Some(second) = second {
                        let _ = second.close(device);
                    }
                    let _ = prepared.close(device);
                    return Ok(other);
                }
            }
        };
        let input_sets = context.input_sets(kernel.family, problem, &draws)?;
        let input_sets = fresh.get_or_init(|| input_sets);
        let buffers = launch_buffers(&prepared, second.as_ref());
        let repeats = armed.repeats(device, &fresh_contents(&prepared, seed), (&buffers, flush), seed)?;
        let mut second = second;
        // The control flipped every sign twice, so its last launch had the same inputs as the very first launch.
        let mut last = kernel.observe_memory(device, &prepared, Vec::new())?;
        if let Some(second) = &second {
            second.add_observations(&mut last, device)?;
        }
        let is_repeated = repeats.fresh_ns.is_some() && !prepared.is_in_place();
        self.require_right_timed_launch(&last, is_repeated)?;
        let mut launches = Vec::new();
        for (index, (rerun, inputs)) in armed.runs(prepared.is_in_place()).into_iter().enumerate() {
            let poison = op::derive_seed(seed, 64 + index as u64);
            prepared.refill(device, &input_sets[0].inputs(), OutputState::Poisoned, poison)?;
            prepared.rewrite_inputs(device)?;
            if let Some(second) = &mut second {
                second.refill(device, &input_sets[1].arrangement)?;
            }
            armed.run(device, &rerun)?;
            let mut observed = kernel.observe_memory(device, &prepared, Vec::new())?;
            if let Some(second) = &second {
                second.add_observations(&mut observed, device)?;
            }
            let step = TrialStep { inputs, ..TrialStep::FIRST };
            launches.extend(launch_replies(std::slice::from_ref(&observed), &[step])?);
        }
        drop(armed);
        device.free(flush)?;
        let mut far = prepared.close(device)?;
        if let Some(second) = second {
            far.extend(second.close(device)?);
        }
        if let Some(launch) = launches.last_mut() {
            launch.complaints.extend(far.iter().map(stray_write_complaint));
        }
        send_reply(&WorkerReply::Verified { launches, repeats });
        Ok(context.next())
    }

    /// Refuses a kernel whose last timed launch was wrong. `is_repeated`: the launch had the inputs of the very first one.
    fn require_right_timed_launch(
        &self,
        last: &LaunchObservation,
        is_repeated: bool,
    ) -> Result<(), CandidateFailure> {
        if let Some(complaint) = launch_complaints(last).0.first() {
            let reason = format!("[{}] during timing: {}", complaint.kind, complaint.message);
            return Err(CandidateFailure::new(FailureKind::WrongAnswer, reason));
        }
        if is_repeated && !self.is_unordered && last.outputs != self.first.outputs {
            return Err(CandidateFailure::new(
                FailureKind::WrongAnswer,
                "[non-deterministic] during timing on fresh inputs, the kernel gave a different answer than before",
            ));
        }
        Ok(())
    }

    /// Places a second set of inputs to alternate with. `None` if it would push the first set out of the L2, or if the
    /// memory is too small.
    fn second<'s>(
        &'s self,
        device: &mut CudaDevice,
        prepared: &PreparedLaunch<'_>,
    ) -> Result<Option<SecondInputs<'s>>, CandidateFailure> {
        let Some(set) = self.input_sets.get(SECOND_TIMED_INPUTS) else { return Ok(None) };
        let cache = device.l2_bytes()?;
        let one = set.arrangement.bytes();
        let two = one + set.arrangement.inputs.iter().map(|input| input.bytes.len() as u64).sum::<u64>();
        if two > cache / 4 * 3 && one < 2 * cache {
            return Ok(None);
        }
        match prepared.place_second(device, &set.inputs()) {
            Ok(second) => Ok(Some(second)),
            Err(AcceleratorError::Memory(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Purpose number of the seed of the poison in outputs and workspace before cold launches.
const TIMING_POISON: u64 = 1 << 16;

/// Index of the inputs that alternate with the first during timing.
pub const SECOND_TIMED_INPUTS: usize = 2;

/// What changes before a launch of the fresh control, so that nothing of an earlier launch can help it. Outputs and
/// workspace hold the same as before a launch that is judged, so that a kernel cannot tell the two apart.
fn fresh_contents(prepared: &PreparedLaunch<'_>, seed: u64) -> FreshInputs {
    let inputs = prepared.inputs().filter(|(input, _)| input.sign_bits > 0);
    FreshInputs {
        inputs: inputs.map(|(input, buffer)| (buffer, input.sign_bits)).collect(),
        poisoned: prepared.poisoned(seed),
    }
}

/// The buffers of the launches on each set of inputs: the inputs, the outputs and the workspace.
fn launch_buffers(prepared: &PreparedLaunch<'_>, second: Option<&SecondInputs<'_>>) -> Vec<Vec<Buffer>> {
    let first: Vec<_> = prepared.inputs().map(|(_, buffer)| buffer).collect();
    let mut sets = vec![first];
    sets.extend(second.map(|second| second.buffers().to_vec()));
    for set in &mut sets {
        set.extend(prepared.poisoned(0).into_iter().map(|(buffer, _)| buffer));
    }
    sets
}

fn ensure_open<'m>(
    open_device: &'m mut Option<WorkerDevice>,
    device: &Device,
) -> Result<&'m mut WorkerDevice, CandidateFailure> {
    if open_device.is_none() {
        *open_device = Some(WorkerDevice::open(device)?);
    }
    open_device.as_mut().ok_or_else(|| CandidateFailure::other("no device is open"))
}

fn parse_problem<O: Op + ?Sized>(op: &O, name: &str) -> Result<O::Problem, CandidateFailure> {
    let [problem] = <[O::Problem; 1]>::try_from(op.problems(name)?).map_err(|several| {
        CandidateFailure::other(format!("`{name}` stands for {} problems; a worker needs one", several.len()))
    })?;
    Ok(problem)
}

/// Converts a build to the record in the log.
pub fn build_record(
    family: &Family,
    candidate: &Candidate,
    built: &compiler::BuildOutcome,
) -> Result<BuildRecord, CandidateFailure> {
    let build = &built.build;
    let entry = build
        .entry(&family.entry)
        .ok_or_else(|| CandidateFailure::new(FailureKind::DoesNotCompile, build.missing(&family.entry)))?;
    Ok(BuildRecord {
        setting: format!("{} {}", family.name, candidate.label(family)),
        code_hash: build.code_hash.clone(),
        target: build.target.to_string(),
        compiler: build.compiler.clone(),
        registers: entry.registers,
        spill_bytes: entry.spill_store_bytes + entry.spill_load_bytes,
        shared_bytes: u64::from(entry.static_shared_bytes) + family.layout(candidate)?.total_bytes,
        registers_limit: family.limits.registers,
        spill_bytes_limit: family.limits.spill_bytes,
        serialised_wgmma: entry.serialised_wgmma,
        serialised_wgmma_limit: family.limits.serialised_wgmma,
        compile_ms: build.compile_ms,
        from_cache: built.cached,
    })
}

/// Converts observed launches to replies. A launch that ended with a fault has no answer to judge, so it is a failure.
fn launch_replies(
    observed: &[LaunchObservation],
    steps: &[TrialStep],
) -> Result<Vec<LaunchReply>, CandidateFailure> {
    let mut launches = Vec::new();
    for (index, (observed, step)) in observed.iter().zip(steps).enumerate() {
        let (complaints, findings) = launch_complaints(observed);
        let prefix =
            if index == 0 { String::new() } else { format!("{}: ", TrialStep::describe(index, step)) };
        let is_error = |finding: &&vgpu::Finding| finding.severity == vgpu::Severity::Error;
        if let Some(finding) = findings.iter().find(is_error) {
            let kind = match finding.kind {
                vgpu::Kind::OutOfBounds | vgpu::Kind::Misaligned => FailureKind::IllegalAccess,
                vgpu::Kind::Runaway | vgpu::Kind::Deadlock => FailureKind::Hang,
                vgpu::Kind::Launch => FailureKind::Refused,
                vgpu::Kind::Trap => FailureKind::Crash,
                vgpu::Kind::UnwrittenOutput => FailureKind::WrongAnswer,
                // A race or a value that was never written is a bug, whatever the output was.
                _ => FailureKind::Finding,
            };
            return Err(CandidateFailure::new(
                kind,
                format!("{prefix}[{}] {}{}", finding.kind, finding.message, place_text(&finding.place)),
            ));
        }
        let is = |kind: &'static str| move |complaint: &&Complaint| complaint.kind == kind;
        if let Some(complaint) = complaints.iter().find(is("trespass")) {
            return Err(CandidateFailure::new(
                FailureKind::IllegalAccess,
                format!("{prefix}{}", complaint.message),
            ));
        }
        let outputs = observed.outputs.clone();
        launches.push(LaunchReply { inputs: step.inputs, count: outputs.len(), outputs, complaints });
    }
    Ok(launches)
}

/// The innermost source line of a place: ` at attention/mma/kernel.cu:12`; empty if there is none.
fn place_text(place: &vgpu::Place) -> String {
    place.frames.first().map_or_else(String::new, |frame| format!(" at {}:{}", frame.file, frame.line))
}

/// A run on the virtual GPU, with its counters.
struct VirtualRun<'a> {
    family: &'a Family,
    /// The kernel and the geometry of every launch.
    launches: Vec<(Entry, Geometry)>,
    device: &'a VirtualDevice,
    observed: &'a LaunchObservation,
}

impl VirtualRun<'_> {
    /// The counted launches in their order.
    fn counted(&self, times: u64, memory: f64) -> Result<Vec<CountedLaunch<'_>>, CandidateFailure> {
        if self.observed.reports.len() != self.launches.len() {
            return Err(CandidateFailure::other("the run has no counters"));
        }
        let mut all = Vec::new();
        for (report, (entry, geometry)) in self.observed.reports.iter().zip(&self.launches) {
            let counters = report.counters.as_ref();
            let counters = counters.ok_or_else(|| CandidateFailure::other("the run has no counters"))?;
            let blocks: u64 = geometry.grid.iter().map(|&extent| u64::from(extent)).product();
            let launch = CountedLaunch {
                counters: if times > 1 { counters.scaled(times, memory) } else { counters.clone() },
                entry,
                chip: self.device.chip(),
                blocks: blocks * times.max(1),
                threads_per_block: geometry.block.iter().product(),
                shared_bytes: geometry.shared_bytes,
            };
            all.push(launch.with_spills());
        }
        Ok(all)
    }

    fn modelled(&self) -> Result<WorkerReply, CandidateFailure> {
        let counted = self.counted(1, 1.0)?;
        let sequence = counted::sequence(&counted)
            .ok_or_else(|| CandidateFailure::other("the kernel was not launched"))?;
        Ok(WorkerReply::Modelled(Modelled {
            gpu: self.device.chip().id.to_owned(),
            time_us: sequence.time,
            limiter: sequence.longest.modelled().bottleneck.name().to_owned(),
            counts: counted.iter().map(CountedLaunch::counts).reduce(LaunchCounts::plus).unwrap_or_default(),
        }))
    }

    fn metrics_reply(&self, times: u64, memory: f64) -> Result<WorkerReply, CandidateFailure> {
        let own = self.counted(1, 1.0)?;
        let not_launched = || CandidateFailure::other("the kernel was not launched");
        let longest = counted::sequence(&own).ok_or_else(not_launched)?.longest;
        let hot_lines = counted::hot_lines(&longest.counters, self.family);
        let scaled = self.counted(times, memory)?;
        let sequence = counted::sequence(&scaled).ok_or_else(not_launched)?;
        let metrics = Metrics { time: Some(Time::Modelled(sequence.time)), ..sequence.longest.metrics() };
        Ok(WorkerReply::Seen(Box::new(Seen { metrics, hot_lines })))
    }
}
