//! The worker of a kernel: builds, runs and times candidates one after another, as it is asked.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver};
use std::{fs, process, thread};

use family::{Candidate, Catalog, Family, SettingError};
use gpu::accelerator::{
    Accelerator as _, AcceleratorError, CudaDevice, Fresh, Geometry, SideStreams, VirtualDevice,
};
use gpu::build::{BuildError, Compiler, Diagnostic, Entry};
use gpu::device::Device;
use op::{
    Addresses, Arrangement, CheckDevice, Complaint, DrawMode, InputDraw, Kernel, LaunchObservation, Op,
    OutputState, PreparedLaunch, Refusal, RunError, SecondInputs, TrialStep,
};
use subprocess::{Channel, wire};

use super::cuda::{self, TimedGraphs};
use super::protocol::{BuildReply, CandidateName, LaunchReply, Modelled, WorkerReply, WorkerRequest};
use crate::profile::Seen;
use crate::profile::counted::{self, CountedLaunch};
use crate::run::{BuildRecord, FailureKind};
use crate::trial::{beside_the_answer, trespass};

/// How much of what the compiler says is passed on.
const DIAGNOSTICS: usize = 3;

/// Why a candidate is out.
#[derive(Clone, Debug)]
pub struct CandidateFailure {
    pub kind: FailureKind,
    pub reason: String,
}

impl CandidateFailure {
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        CandidateFailure { kind, reason: reason.into() }
    }

    pub fn other(reason: impl Into<String>) -> Self {
        CandidateFailure::new(FailureKind::Other, reason)
    }

    pub fn build(error: &BuildError) -> Self {
        match error {
            BuildError::Source { diagnostics, .. } => {
                let said = |it: &Diagnostic| match &it.place {
                    Some(place) => format!("line {}: {}", place.line, it.message),
                    None => it.message.clone(),
                };
                let said: Vec<String> = diagnostics.iter().take(DIAGNOSTICS).map(said).collect();
                CandidateFailure::new(FailureKind::DoesNotCompile, format!("{error}: {}", said.join("; ")))
            }
            BuildError::NoKernel { .. } => {
                CandidateFailure::new(FailureKind::DoesNotCompile, error.to_string())
            }
            BuildError::TooLarge { .. } | BuildError::Nvrtc(_) | BuildError::Io { .. } => {
                CandidateFailure::other(error.to_string())
            }
        }
    }
}

impl From<AcceleratorError> for CandidateFailure {
    fn from(error: AcceleratorError) -> Self {
        let kind = match &error {
            AcceleratorError::Memory(_) => FailureKind::OutOfMemory,
            AcceleratorError::TooLarge { .. } => FailureKind::TooLarge,
            AcceleratorError::Fault { access: true, .. } => FailureKind::IllegalAccess,
            AcceleratorError::Fault { access: false, .. } => FailureKind::Crash,
            AcceleratorError::Launch { .. } | AcceleratorError::Load(_) | AcceleratorError::NoKernel(_) => {
                FailureKind::Refused
            }
            AcceleratorError::NoDriver(_)
            | AcceleratorError::NoDevice(_)
            | AcceleratorError::Driver { .. }
            | AcceleratorError::Lost(_) => FailureKind::Other,
        };
        CandidateFailure::new(kind, error.to_string())
    }
}

impl From<SettingError> for CandidateFailure {
    fn from(error: SettingError) -> Self {
        let kind = match error {
            SettingError::SharedMemory { .. } | SettingError::Threads { .. } => FailureKind::TooLarge,
            _ => FailureKind::Refused,
        };
        CandidateFailure::new(kind, error.to_string())
    }
}

impl From<Refusal> for CandidateFailure {
    fn from(refusal: Refusal) -> Self {
        CandidateFailure::new(FailureKind::Refused, refusal.to_string())
    }
}

impl From<RunError> for CandidateFailure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Setting(error) => error.into(),
            RunError::Build(error) => CandidateFailure::build(&error),
            RunError::Accelerator(error) => error.into(),
            RunError::Grid { .. } => CandidateFailure::new(FailureKind::TooLarge, error.to_string()),
        }
    }
}

/// What a worker works with.
struct WorkerContext<'a, O: Op> {
    op: &'a O,
    catalog: &'a Catalog,
    compiler: &'a Compiler,
    device: &'a Device,
    inbox: Receiver<WorkerRequest>,
}

/// Answers what is asked over the channel to the parent, until it is told to quit or nobody asks any more. Under a
/// profiler, which starts this process itself, the questions are in a file and the answers go to one beside it.
pub fn serve<O: Op>(
    op: &O,
    catalog: &Catalog,
    compiler: &Compiler,
    device: &Device,
    asks: Option<&Path>,
) -> io::Result<()> {
    let inbox = match asks {
        Some(file) => written(file)?,
        None => listen()?,
    };
    let context = WorkerContext { op, catalog, compiler, device, inbox };
    let mut machine = None;
    let mut next = context.next();
    while let Some(ask) = next {
        next = match ask {
            WorkerRequest::Quit => None,
            WorkerRequest::Build { candidate, problem } => {
                match context.candidate(&mut machine, &candidate, &problem) {
                    Ok(next) => next,
                    Err(failure) => {
                        refuse(failure);
                        context.next()
                    }
                }
            }
            WorkerRequest::Hello => {
                say(&WorkerReply::Ready { version: format!("warpsmith {}", env!("CARGO_PKG_VERSION")) });
                context.next()
            }
            WorkerRequest::Ceilings => {
                match context.ceilings(&mut machine) {
                    Ok(said) => say(&said),
                    Err(failure) => refuse(failure),
                }
                context.next()
            }
            other => {
                refuse(CandidateFailure::other(format!("nothing was built to answer {other:?} with")));
                context.next()
            }
        };
    }
    Ok(())
}

/// The answers of a worker whose questions are in a file.
static ANSWERS: OnceLock<File> = OnceLock::new();

/// Where the answers to the questions in a file are written, as messages of `subprocess::wire`.
pub(crate) fn answers_beside(asks: &Path) -> PathBuf {
    asks.with_extension("answers")
}

/// Everything that is asked, from a file.
fn written(file: &Path) -> io::Result<Receiver<WorkerRequest>> {
    let (sender, inbox) = mpsc::channel();
    for line in fs::read_to_string(file)?.lines() {
        // The receiver is at hand.
        let _ = sender.send(serde_json::from_str(line)?);
    }
    let answers = File::create(answers_beside(file))?;
    ANSWERS.get_or_init(|| answers);
    Ok(inbox)
}

/// Reads what is asked on a thread of its own: when the parent is gone this process must end, also while a kernel
/// that never ends keeps the main thread.
fn listen() -> io::Result<Receiver<WorkerRequest>> {
    let channel = Channel::to_parent().ok_or_else(|| {
        io::Error::other("a worker is started by another command, with a channel, or with --asks FILE")
    })?;
    let (sender, inbox) = mpsc::channel();
    thread::spawn(move || {
        loop {
            match channel.receive() {
                Ok((ask, _)) => {
                    if sender.send(ask).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => {
                    eprintln!("no valid question: {error}");
                    break;
                }
            }
        }
        process::exit(0);
    });
    Ok(inbox)
}

/// Answers on the channel, or into the file beside the questions. Never on stdout: kernels print there.
fn say(said: &WorkerReply) {
    // A parent that does not listen any more ends this process through `listen`.
    if let Some(mut answers) = ANSWERS.get() {
        let _ = wire::send(&mut answers, said, &said.attachments());
    } else if let Some(channel) = Channel::to_parent() {
        let _ = channel.send(said, &said.attachments());
    }
}

fn refuse(failure: CandidateFailure) {
    say(&WorkerReply::Failed { failure: failure.kind, reason: failure.reason });
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

    /// Has what comes run under these checks, and counted where the device counts.
    fn under(&mut self, checks: vgpu::Checks) -> Result<(), CandidateFailure> {
        match (self, checks) {
            (WorkerDevice::Virtual(device), checks) => {
                device.options.checks = checks;
                device.options.counters = true;
            }
            (WorkerDevice::Cuda(_), vgpu::Checks::None) => {}
            (WorkerDevice::Cuda(_), vgpu::Checks::All) => {
                return Err(CandidateFailure::new(FailureKind::Refused, "a GPU does not check what it runs"));
            }
        }
        Ok(())
    }

    fn stage(&mut self) -> &mut dyn CheckDevice {
        match self {
            WorkerDevice::Cuda(device) => device,
            WorkerDevice::Virtual(device) => &mut **device,
        }
    }
}

impl<O: Op> WorkerContext<'_, O> {
    fn next(&self) -> Option<WorkerRequest> {
        self.inbox.recv().ok()
    }

    fn ceilings(&self, machine: &mut Option<WorkerDevice>) -> Result<WorkerReply, CandidateFailure> {
        let ceilings = match opened(machine, self.device)? {
            WorkerDevice::Cuda(device) => cuda::ceilings(device, self.compiler, self.device.target())?,
            WorkerDevice::Virtual(_) => Vec::new(),
        };
        Ok(WorkerReply::Ceilings { ceilings })
    }

    /// One candidate on one problem, from its build to its last sample. Returns what is asked next.
    fn candidate(
        &self,
        machine: &mut Option<WorkerDevice>,
        name: &CandidateName,
        problem: &str,
    ) -> Result<Option<WorkerRequest>, CandidateFailure> {
        let WorkerContext { op, catalog, compiler, device, .. } = self;
        let family =
            catalog.family(&name.family).map_err(|error| CandidateFailure::other(error.to_string()))?;
        let problem = one_problem(*op, problem)?;
        let candidate = op.candidate(family, name.preset.as_deref(), &name.knobs, &problem)?;
        let built = compiler
            .build(&family.request(&candidate, device.target())?)
            .map_err(|error| CandidateFailure::build(&error))?;
        let notes = crate::check::notes(&built.build.ptx, &family.entry);
        let extra_tolerance = op.extra_tolerance(family, &problem, &built.build.ptx);
        let (hash, build) = (built.build.hash.clone(), told(family, &candidate, &built)?);
        say(&WorkerReply::Built(BuildReply { hash, build, notes, extra_tolerance }));

        let (draws, steps, seed, checks) = match self.next() {
            Some(WorkerRequest::Run { draws, steps, seed, checks }) => (draws, steps, seed, checks),
            other => return Ok(other),
        };
        let sets = self.sets(family, &problem, &draws)?;
        let inputs: Vec<op::Inputs<'_>> = sets.iter().map(InputSet::inputs).collect();
        let machine = opened(machine, device)?;
        machine.under(checks)?;
        machine.stage().expect(op.work(&problem).flops);
        let image = machine.stage().image(&built.build);
        let kernel = Kernel::load(machine.stage(), family, candidate, image)?;
        let sizes = op.sizes(&problem);
        let observed = kernel.trial(machine.stage(), &sizes, &inputs, &steps, seed)?;
        say(&WorkerReply::Ran { launches: ran(&observed, &steps)? });

        match machine {
            WorkerDevice::Virtual(device) => {
                let entry = built.build.entry(&family.entry).cloned().unwrap_or_default();
                let (geometry, _) = kernel.geometry(&sizes)?;
                let observed =
                    observed.first().ok_or_else(|| CandidateFailure::other("nothing was launched"))?;
                Ok(self.modelled(&VirtualRun { family, entry, device, geometry, observed }))
            }
            WorkerDevice::Cuda(device) => {
                let first =
                    observed.first().ok_or_else(|| CandidateFailure::other("nothing was launched"))?;
                let timing = TimedKernel {
                    context: self,
                    kernel: &kernel,
                    problem: &problem,
                    sets: &sets,
                    first,
                    seed,
                };
                timing.answer(device)
            }
        }
    }

    /// Inputs as a kernel of the family takes them.
    fn sets<'s>(
        &'s self,
        family: &Family,
        problem: &'s O::Problem,
        draws: &[InputDraw],
    ) -> Result<Vec<InputSet<'s>>, CandidateFailure> {
        let op = self.op;
        let set = |inputs: O::Inputs| {
            let arrangement = op.arrange(family, problem, &inputs);
            let parameters = move |addresses: &Addresses| op.parameters(problem, &inputs, addresses);
            InputSet { arrangement, parameters: Box::new(parameters) as Box<Parameters<'s>> }
        };
        Ok(all_drawn(op, problem, draws)?.into_iter().map(set).collect())
    }

    /// Answers about a run on the virtual GPU.
    fn modelled(&self, ran: &VirtualRun<'_>) -> Option<WorkerRequest> {
        let answer = |said: Result<WorkerReply, CandidateFailure>| match said {
            Ok(said) => say(&said),
            Err(failure) => refuse(failure),
        };
        loop {
            match self.next() {
                Some(WorkerRequest::Model) => answer(ran.modelled()),
                Some(WorkerRequest::Count { times, memory }) => answer(ran.seen(times, memory)),
                Some(WorkerRequest::Arm { .. }) => {
                    let reason = "a virtual GPU takes no time that could be measured";
                    refuse(CandidateFailure::new(FailureKind::Refused, reason));
                }
                other => return other,
            }
        }
    }
}

/// One set of inputs, laid out for a kernel.
struct InputSet<'s> {
    arrangement: Arrangement,
    parameters: Box<Parameters<'s>>,
}

/// A kernel's parameters, once the buffers have their addresses.
type Parameters<'s> = dyn Fn(&Addresses) -> Vec<Vec<u8>> + 's;

impl InputSet<'_> {
    fn inputs(&self) -> op::Inputs<'_> {
        op::Inputs { arrangement: &self.arrangement, parameters: &*self.parameters }
    }
}

/// A kernel whose answers are known, to be timed on a GPU.
struct TimedKernel<'a, O: Op> {
    context: &'a WorkerContext<'a, O>,
    kernel: &'a Kernel<'a>,
    problem: &'a O::Problem,
    sets: &'a [InputSet<'a>],
    /// What the first launch of the trial left behind.
    first: &'a LaunchObservation,
    /// What the circumstances of launches are drawn from.
    seed: u64,
}

impl<O: Op> TimedKernel<'_, O> {
    /// Answers what is asked about times. Returns what is asked next.
    fn answer(&self, device: &mut CudaDevice) -> Result<Option<WorkerRequest>, CandidateFailure> {
        let TimedKernel { context, kernel, problem, sets, .. } = self;
        let entry = &kernel.family.entry;
        // What was timed is run once more on these. They live as long as the buffers that hold them.
        let fresh: OnceCell<Vec<InputSet<'_>>> = OnceCell::new();
        let mut ready = kernel.ready(device, &context.op.sizes(problem), &sets[0].inputs())?;
        let (timers, warmup, replay_ns) = loop {
            match context.next() {
                Some(WorkerRequest::Arm { timers, warmup, replay_ns }) => break (timers, warmup, replay_ns),
                Some(WorkerRequest::Launch { times }) => {
                    for _ in 0..times {
                        device.launch(kernel.module(), entry, ready.geometry, &ready.parameters)?;
                    }
                    say(&WorkerReply::Launched);
                }
                other => {
                    ready.release(device);
                    return Ok(other);
                }
            }
        };
        let flush = cuda::flush_buffer(device)?;
        let second = self.second(device, &ready)?;
        let parameters = [Some(&ready.parameters), second.as_ref().map(|it| &it.parameters)];
        let call =
            |parameters: &Vec<Vec<u8>>| device.call(kernel.module(), entry, ready.geometry, parameters);
        let calls = parameters.into_iter().flatten().map(call).collect::<Result<_, _>>()?;
        let side = SideStreams::new(cuda::nothing(device, context.compiler, context.device.target())?)?;
        let poisoned = ready.poisoned(op::derived(self.seed, POISON_OF_TIMING));
        let armed = TimedGraphs::new(device, (calls, side), &timers, (warmup, replay_ns), (flush, poisoned))?;
        say(&WorkerReply::Armed { launches: armed.launches() });
        let (draws, seed) = loop {
            match context.next() {
                Some(WorkerRequest::Sample { timer, count }) => {
                    say(&WorkerReply::Samples { ns: armed.samples(device, timer, count)? });
                }
                Some(WorkerRequest::Verify { draws, seed }) => break (draws, seed),
                other => {
                    drop(armed);
                    device.free(flush)?;
                    if let Some(second) = second {
                        second.release(device);
                    }
                    ready.release(device);
                    return Ok(other);
                }
            }
        };
        let sets = context.sets(kernel.family, problem, &draws)?;
        let sets = fresh.get_or_init(|| sets);
        let repeats = armed.repeats(device, &changes(&ready, seed), seed)?;
        let mut second = second;
        // The control turned every sign twice, so its last launch had the inputs of the first launch of all.
        let mut last = kernel.left_behind(device, &ready, None)?;
        if let Some(second) = &second {
            second.add_to(&mut last, device)?;
        }
        if let Some(complaint) = beside_the_answer(&last).0.first() {
            let reason = format!("[{}] while its time was taken: {}", complaint.kind, complaint.message);
            return Err(CandidateFailure::new(FailureKind::WrongAnswer, reason));
        }
        if repeats.fresh_ns.is_some() && last.outputs != self.first.outputs {
            return Err(CandidateFailure::new(
                FailureKind::WrongAnswer,
                "[non-deterministic] on fresh inputs, while its time was taken, the kernel gave another answer than before",
            ));
        }
        let mut launches = Vec::new();
        for (index, (rerun, inputs)) in armed.runs().into_iter().enumerate() {
            let poison = op::derived(seed, 64 + index as u64);
            ready.refill(device, &sets[0].inputs(), OutputState::Poisoned, poison)?;
            ready.rewrite_inputs(device)?;
            if let Some(second) = &mut second {
                second.refill(device, &sets[1].arrangement)?;
            }
            armed.run(device, &rerun)?;
            let mut observed = kernel.left_behind(device, &ready, None)?;
            if let Some(second) = &second {
                second.add_to(&mut observed, device)?;
            }
            let step = TrialStep { inputs, ..TrialStep::FIRST };
            launches.extend(ran(std::slice::from_ref(&observed), &[step])?);
        }
        drop(armed);
        device.free(flush)?;
        let mut far = ready.close(device)?;
        if let Some(second) = second {
            far.extend(second.close(device)?);
        }
        if let Some(launch) = launches.last_mut() {
            launch.complaints.extend(far.iter().map(trespass));
        }
        say(&WorkerReply::Verified { launches, repeats });
        Ok(context.next())
    }

    /// A second set of inputs to alternate with, unless it would push the first out of the L2 or there is no room for it.
    fn second<'s>(
        &'s self,
        device: &mut CudaDevice,
        ready: &PreparedLaunch<'_>,
    ) -> Result<Option<SecondInputs<'s>>, CandidateFailure> {
        let Some(set) = self.sets.get(TIMED_BESIDE) else { return Ok(None) };
        let cache = device.l2_bytes()?;
        let one = set.arrangement.bytes();
        let two = one + set.arrangement.inputs.iter().map(|input| input.bytes.len() as u64).sum::<u64>();
        if two > cache / 4 * 3 && one < 2 * cache {
            return Ok(None);
        }
        match ready.beside(device, &set.inputs()) {
            Ok(second) => Ok(Some(second)),
            Err(AcceleratorError::Memory(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// What the contents of outputs and workspace before cold launches are drawn for, out of the seed of the trial.
const POISON_OF_TIMING: u64 = 1 << 16;

/// Which of the inputs alternate with the first while times are taken.
pub const TIMED_BESIDE: usize = 2;

/// What is changed before a launch so that nothing of an earlier one can be of use to it. Outputs and workspace hold what
/// they hold before a launch that is judged: a kernel must not know which this is.
fn changes(ready: &PreparedLaunch<'_>, seed: u64) -> Fresh {
    let inputs = ready.inputs().filter(|(input, _)| input.sign_bits > 0);
    Fresh {
        inputs: inputs.map(|(input, buffer)| (buffer, input.sign_bits)).collect(),
        poisoned: ready.poisoned(seed),
    }
}

/// The inputs of a draw.
pub fn drawn<O: Op>(op: &O, problem: &O::Problem, draw: &InputDraw) -> Result<O::Inputs, Refusal> {
    let mut inputs = all_drawn(op, problem, std::slice::from_ref(draw))?;
    inputs.pop().ok_or_else(|| Refusal::new("no inputs were drawn"))
}

/// The inputs of several draws. Drawing takes long, so the ordinary inputs that others are the opposite of are drawn once.
fn all_drawn<O: Op>(op: &O, problem: &O::Problem, draws: &[InputDraw]) -> Result<Vec<O::Inputs>, Refusal> {
    let mut all: Vec<O::Inputs> = Vec::new();
    for InputDraw { class, seed, way } in draws {
        let inputs = match way {
            DrawMode::Timed => op.timed_inputs(problem, class, *seed)?,
            DrawMode::Any => op.inputs(problem, class, *seed)?,
            DrawMode::Opposite => {
                let ordinary = InputDraw::new(op.classes()[0], *seed);
                let seed = op::derived(*seed, 0);
                let known = draws.iter().position(|draw| *draw == ordinary).and_then(|at| all.get(at));
                if let Some(signs) = known {
                    op.opposite(problem, signs, class, seed)?
                } else {
                    let signs = op.timed_inputs(problem, &ordinary.class, ordinary.seed)?;
                    op.opposite(problem, &signs, class, seed)?
                }
            }
        };
        all.push(inputs);
    }
    Ok(all)
}

fn opened<'m>(
    machine: &'m mut Option<WorkerDevice>,
    device: &Device,
) -> Result<&'m mut WorkerDevice, CandidateFailure> {
    if machine.is_none() {
        *machine = Some(WorkerDevice::open(device)?);
    }
    machine.as_mut().ok_or_else(|| CandidateFailure::other("there is no device"))
}

fn one_problem<O: Op>(op: &O, name: &str) -> Result<O::Problem, CandidateFailure> {
    let [problem] = <[O::Problem; 1]>::try_from(op.problems(name)?)
        .map_err(|several| CandidateFailure::other(format!("`{name}` is {} problems", several.len())))?;
    Ok(problem)
}

/// A build as the log tells it.
pub fn told(
    family: &Family,
    candidate: &Candidate,
    built: &gpu::build::BuildOutcome,
) -> Result<BuildRecord, CandidateFailure> {
    let build = &built.build;
    let entry = build.entry(&family.entry).ok_or_else(|| {
        CandidateFailure::new(FailureKind::DoesNotCompile, format!("there is no kernel `{}`", family.entry))
    })?;
    Ok(BuildRecord {
        code_hash: build.code_hash.clone(),
        target: build.target.to_string(),
        compiler: build.compiler.clone(),
        registers: entry.registers,
        spill_bytes: entry.spill_store_bytes + entry.spill_load_bytes,
        shared_bytes: u64::from(entry.static_shared_bytes) + family.layout(candidate)?.total_bytes,
        registers_limit: family.limits.registers,
        spill_bytes_limit: family.limits.spill_bytes,
        compile_ms: build.compile_ms,
        from_cache: built.cached,
    })
}

/// What launches left behind. One that a fault ended has no answer to judge.
fn ran(observed: &[LaunchObservation], steps: &[TrialStep]) -> Result<Vec<LaunchReply>, CandidateFailure> {
    let mut launches = Vec::new();
    for (index, (observed, step)) in observed.iter().zip(steps).enumerate() {
        let (complaints, findings) = beside_the_answer(observed);
        let whose =
            if index == 0 { String::new() } else { format!("{}: ", TrialStep::describe(index, step)) };
        if let Some(finding) = findings.first() {
            let kind = match finding.kind {
                vgpu::Kind::OutOfBounds | vgpu::Kind::Misaligned => FailureKind::IllegalAccess,
                vgpu::Kind::Runaway | vgpu::Kind::Deadlock => FailureKind::Hang,
                vgpu::Kind::Launch => FailureKind::Refused,
                vgpu::Kind::Trap => FailureKind::Crash,
                _ => FailureKind::WrongAnswer,
            };
            return Err(CandidateFailure::new(
                kind,
                format!("{whose}[{}] {}", finding.kind, finding.message),
            ));
        }
        let is = |kind: &'static str| move |complaint: &&Complaint| complaint.kind == kind;
        if let Some(complaint) = complaints.iter().find(is("trespass")) {
            return Err(CandidateFailure::new(
                FailureKind::IllegalAccess,
                format!("{whose}{}", complaint.message),
            ));
        }
        let outputs = observed.outputs.clone();
        launches.push(LaunchReply { inputs: step.inputs, count: outputs.len(), outputs, complaints });
    }
    Ok(launches)
}

/// A run on the virtual GPU, with what there is to say about it.
struct VirtualRun<'a> {
    family: &'a Family,
    entry: Entry,
    device: &'a VirtualDevice,
    geometry: Geometry,
    observed: &'a LaunchObservation,
}

impl VirtualRun<'_> {
    fn counted(&self, times: u64, memory: f64) -> Result<CountedLaunch<'_>, CandidateFailure> {
        let report = self.observed.report.as_ref();
        let counters = report.and_then(|report| report.counters.as_ref());
        let counters = counters.ok_or_else(|| CandidateFailure::other("the run counted nothing"))?;
        let blocks: u64 = self.geometry.grid.iter().map(|&extent| u64::from(extent)).product();
        let counted = CountedLaunch {
            counters: if times > 1 { counters.scaled(times, memory) } else { counters.clone() },
            entry: &self.entry,
            chip: self.device.chip(),
            blocks: blocks * times.max(1),
            threads_per_block: self.geometry.block.iter().product(),
            shared_bytes: self.geometry.shared_bytes,
        };
        Ok(counted.with_spills())
    }

    fn modelled(&self) -> Result<WorkerReply, CandidateFailure> {
        let modelled = self.counted(1, 1.0)?.modelled();
        Ok(WorkerReply::Modelled(Modelled {
            gpu: self.device.chip().id.to_owned(),
            time_us: modelled.time,
            limiter: modelled.bottleneck.name().to_owned(),
        }))
    }

    fn seen(&self, times: u64, memory: f64) -> Result<WorkerReply, CandidateFailure> {
        let hot_lines = counted::hot_lines(&self.counted(1, 1.0)?.counters, self.family);
        Ok(WorkerReply::Seen(Box::new(Seen { metrics: self.counted(times, memory)?.metrics(), hot_lines })))
    }
}
