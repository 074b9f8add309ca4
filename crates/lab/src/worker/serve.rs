//! The worker of a kernel: builds, runs and times candidates one after another, as it is asked.

use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::{fs, process, thread};

use family::{Candidate, Catalog, Family, SettingError};
use gpu::accelerator::{Accelerator as _, AcceleratorError, CudaDevice, SideStreams, VirtualDevice};
use gpu::build::{BuildError, Compiler, Diagnostic, Entry};
use gpu::device::Device;
use op::{Addresses, Complaint, Kernel, Observed, Op, Ready, Refusal, RunError, Stage};

use super::cuda::{self, Armed};
use super::protocol::{Ask, Built, CandidateName, Modelled, Say};
use crate::check::beside_the_answer;
use crate::profile::Seen;
use crate::profile::counted::{self, Counted};
use crate::run::{Build, FailureKind};

/// How much of what the compiler says is passed on.
const DIAGNOSTICS: usize = 3;

/// Why a candidate is out.
#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: FailureKind,
    pub reason: String,
}

impl Failure {
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Failure { kind, reason: reason.into() }
    }

    pub fn other(reason: impl Into<String>) -> Self {
        Failure::new(FailureKind::Other, reason)
    }

    pub fn build(error: &BuildError) -> Self {
        match error {
            BuildError::Source { diagnostics, .. } => {
                let said = |it: &Diagnostic| match &it.place {
                    Some(place) => format!("line {}: {}", place.line, it.message),
                    None => it.message.clone(),
                };
                let said: Vec<String> = diagnostics.iter().take(DIAGNOSTICS).map(said).collect();
                Failure::new(FailureKind::DoesNotCompile, format!("{error}: {}", said.join("; ")))
            }
            BuildError::NoKernel { .. } => Failure::new(FailureKind::DoesNotCompile, error.to_string()),
            BuildError::TooLarge { .. } | BuildError::Nvrtc(_) | BuildError::Io { .. } => {
                Failure::other(error.to_string())
            }
        }
    }
}

impl From<AcceleratorError> for Failure {
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
        Failure::new(kind, error.to_string())
    }
}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        let kind = match error {
            SettingError::SharedMemory { .. } | SettingError::Threads { .. } => FailureKind::TooLarge,
            _ => FailureKind::Refused,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::new(FailureKind::Refused, refusal.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Setting(error) => error.into(),
            RunError::Build(error) => Failure::build(&error),
            RunError::Accelerator(error) => error.into(),
            RunError::Grid { .. } => Failure::new(FailureKind::TooLarge, error.to_string()),
        }
    }
}

/// What a worker works with.
struct Shop<'a, O: Op> {
    op: &'a O,
    catalog: &'a Catalog,
    compiler: &'a Compiler,
    device: &'a Device,
    inbox: Receiver<Ask>,
}

/// Answers on stdout what is asked on stdin, until it is told to quit or nobody asks any more. Under a profiler, whose
/// own the pipes are, the questions are in a file.
pub fn serve<O: Op>(
    op: &O,
    catalog: &Catalog,
    compiler: &Compiler,
    device: &Device,
    asks: Option<&Path>,
) -> io::Result<()> {
    let inbox = match asks {
        Some(file) => written(file)?,
        None => listen(),
    };
    let shop = Shop { op, catalog, compiler, device, inbox };
    let mut machine = None;
    let mut next = shop.next();
    while let Some(ask) = next {
        next = match ask {
            Ask::Quit => None,
            Ask::Build { candidate, problem } => match shop.candidate(&mut machine, &candidate, &problem) {
                Ok(next) => next,
                Err(failure) => {
                    refuse(failure);
                    shop.next()
                }
            },
            Ask::Hello => {
                say(&Say::Ready { version: format!("warpsmith {}", env!("CARGO_PKG_VERSION")) });
                shop.next()
            }
            Ask::Ceilings => {
                match shop.ceilings(&mut machine) {
                    Ok(said) => say(&said),
                    Err(failure) => refuse(failure),
                }
                shop.next()
            }
            other => {
                refuse(Failure::other(format!("nothing was built to answer {other:?} with")));
                shop.next()
            }
        };
    }
    Ok(())
}

/// Everything that is asked, from a file.
fn written(file: &Path) -> io::Result<Receiver<Ask>> {
    let (sender, inbox) = mpsc::channel();
    for line in fs::read_to_string(file)?.lines() {
        // The receiver is at hand.
        let _ = sender.send(serde_json::from_str(line)?);
    }
    Ok(inbox)
}

/// Reads what is asked on a thread of its own: when the parent is gone this process must end, also while a kernel
/// that never ends keeps the main thread.
fn listen() -> Receiver<Ask> {
    let (sender, inbox) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(ask) => {
                    if sender.send(ask).is_err() {
                        break;
                    }
                }
                Err(error) => {
                    eprintln!("`{line}`: {error}");
                    break;
                }
            }
        }
        process::exit(0);
    });
    inbox
}

/// The line begins with a line break: a kernel's `printf` may have left half a line in the pipe.
fn say(said: &Say) {
    if let Ok(line) = serde_json::to_string(said) {
        let mut stdout = io::stdout().lock();
        // A parent that does not listen any more ends this process through `listen`.
        let _ = stdout.write_all(format!("\n{line}\n").as_bytes()).and_then(|()| stdout.flush());
    }
}

fn refuse(failure: Failure) {
    say(&Say::Failed { failure: failure.kind, reason: failure.reason });
}

enum Machine {
    Cuda(CudaDevice),
    Virtual(Box<VirtualDevice>),
}

impl Machine {
    fn open(device: &Device) -> Result<Self, Failure> {
        Ok(match device {
            Device::Cuda { index, .. } => Machine::Cuda(CudaDevice::open(*index)?),
            Device::Virtual { chip } => {
                let mut device = VirtualDevice::new(chip);
                device.options.counters = true;
                Machine::Virtual(Box::new(device))
            }
        })
    }

    /// Has what comes run under these checks.
    fn under(&mut self, checks: vgpu::Checks) -> Result<(), Failure> {
        match (self, checks) {
            (Machine::Virtual(device), checks) => device.options.checks = checks,
            (Machine::Cuda(_), vgpu::Checks::None) => {}
            (Machine::Cuda(_), vgpu::Checks::All) => {
                return Err(Failure::new(FailureKind::Refused, "a GPU does not check what it runs"));
            }
        }
        Ok(())
    }

    fn stage(&mut self) -> &mut dyn Stage {
        match self {
            Machine::Cuda(device) => device,
            Machine::Virtual(device) => &mut **device,
        }
    }
}

impl<O: Op> Shop<'_, O> {
    fn next(&self) -> Option<Ask> {
        self.inbox.recv().ok()
    }

    fn ceilings(&self, machine: &mut Option<Machine>) -> Result<Say, Failure> {
        let ceilings = match opened(machine, self.device)? {
            Machine::Cuda(device) => cuda::ceilings(device, self.compiler, self.device.target())?,
            Machine::Virtual(_) => Vec::new(),
        };
        Ok(Say::Ceilings { ceilings })
    }

    /// One candidate on one problem, from its build to its last sample. Returns what is asked next.
    fn candidate(
        &self,
        machine: &mut Option<Machine>,
        name: &CandidateName,
        problem: &str,
    ) -> Result<Option<Ask>, Failure> {
        let Shop { op, catalog, compiler, device, .. } = self;
        let family = catalog.family(&name.family).map_err(|error| Failure::other(error.to_string()))?;
        let problem = one_problem(*op, problem)?;
        let candidate = op.candidate(family, name.preset.as_deref(), &name.knobs, &problem)?;
        let built = compiler
            .build(&family.request(&candidate, device.target())?)
            .map_err(|error| Failure::build(&error))?;
        say(&Say::Built(Built { hash: built.build.hash.clone(), build: told(family, &candidate, &built)? }));

        let (seed, folder, checks) = match self.next() {
            Some(Ask::Run { seed, folder }) => (seed, folder, vgpu::Checks::None),
            Some(Ask::Prove { seed, folder }) => (seed, folder, vgpu::Checks::All),
            other => return Ok(other),
        };
        let inputs = op.timed_inputs(&problem, seed);
        let machine = opened(machine, device)?;
        machine.under(checks)?;
        machine.stage().expect(op.work(&problem).flops);
        let image = machine.stage().image(&built.build);
        let kernel = Kernel::load(machine.stage(), family, candidate, image)?;
        let arrangement = op.arrange(family, &problem, &inputs);
        let parameters = |addresses: &Addresses| op.parameters(&problem, &inputs, addresses);
        let ready = kernel.ready(machine.stage(), &op.sizes(&problem), &arrangement, &parameters)?;
        let observed = kernel.look(machine.stage(), &ready)?;
        say(&ran(&observed, &folder)?);

        let next = match machine {
            Machine::Virtual(device) => {
                let entry = built.build.entry(&family.entry).cloned().unwrap_or_default();
                let ran = RanVirtually { family, entry, device, ready: &ready, observed: &observed };
                self.modelled(&ran)
            }
            Machine::Cuda(device) => self.timed(device, &kernel, &ready)?,
        };
        ready.release(machine.stage());
        Ok(next)
    }

    /// Answers about a run on the virtual GPU.
    fn modelled(&self, ran: &RanVirtually<'_>) -> Option<Ask> {
        let answer = |said: Result<Say, Failure>| match said {
            Ok(said) => say(&said),
            Err(failure) => refuse(failure),
        };
        loop {
            match self.next() {
                Some(Ask::Model) => answer(ran.modelled()),
                Some(Ask::Count { times, memory }) => answer(ran.seen(times, memory)),
                Some(Ask::Arm { .. }) => {
                    let reason = "a virtual GPU takes no time that could be measured";
                    refuse(Failure::new(FailureKind::Refused, reason));
                }
                other => return other,
            }
        }
    }

    /// Takes times.
    fn timed(
        &self,
        device: &mut CudaDevice,
        kernel: &Kernel<'_>,
        ready: &Ready<'_>,
    ) -> Result<Option<Ask>, Failure> {
        let entry = &kernel.family.entry;
        let (timers, warmup, replay_ns) = loop {
            match self.next() {
                Some(Ask::Arm { timers, warmup, replay_ns }) => break (timers, warmup, replay_ns),
                Some(Ask::Launch { times }) => {
                    for _ in 0..times {
                        device.launch(kernel.module(), entry, ready.geometry, &ready.parameters)?;
                    }
                    say(&Say::Launched);
                }
                other => return Ok(other),
            }
        };
        let flush = cuda::flush_buffer(device)?;
        let call = device.call(kernel.module(), entry, ready.geometry, &ready.parameters)?;
        let side = SideStreams::new(cuda::nothing(device, self.compiler, self.device.target())?)?;
        let armed = Armed::new(device, (call, side), &timers, warmup, replay_ns, flush)?;
        say(&Say::Armed { launches: armed.launches() });
        let next = loop {
            match self.next() {
                Some(Ask::Sample { timer, count }) => {
                    say(&Say::Samples { ns: armed.samples(timer, count)? });
                }
                other => break other,
            }
        };
        drop(armed);
        device.free(flush)?;
        Ok(next)
    }
}

fn opened<'m>(machine: &'m mut Option<Machine>, device: &Device) -> Result<&'m mut Machine, Failure> {
    if machine.is_none() {
        *machine = Some(Machine::open(device)?);
    }
    machine.as_mut().ok_or_else(|| Failure::other("there is no device"))
}

fn one_problem<O: Op>(op: &O, name: &str) -> Result<O::Problem, Failure> {
    let [problem] = <[O::Problem; 1]>::try_from(op.problems(name)?)
        .map_err(|several| Failure::other(format!("`{name}` is {} problems", several.len())))?;
    Ok(problem)
}

/// A build as the log tells it.
pub fn told(family: &Family, candidate: &Candidate, built: &gpu::build::Outcome) -> Result<Build, Failure> {
    let build = &built.build;
    let entry = build.entry(&family.entry).ok_or_else(|| {
        Failure::new(FailureKind::DoesNotCompile, format!("there is no kernel `{}`", family.entry))
    })?;
    Ok(Build {
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

/// What a run left behind. A launch that a fault ended has no answer to judge.
fn ran(observed: &Observed, folder: &Path) -> Result<Say, Failure> {
    let (complaints, findings) = beside_the_answer(observed);
    if let Some(finding) = findings.first() {
        let kind = match finding.kind {
            vgpu::Kind::OutOfBounds | vgpu::Kind::Misaligned => FailureKind::IllegalAccess,
            vgpu::Kind::Runaway | vgpu::Kind::Deadlock => FailureKind::Hang,
            vgpu::Kind::Launch => FailureKind::Refused,
            vgpu::Kind::Trap => FailureKind::Crash,
            _ => FailureKind::WrongAnswer,
        };
        return Err(Failure::new(kind, format!("[{}] {}", finding.kind, finding.message)));
    }
    let is = |kind: &'static str| move |complaint: &&Complaint| complaint.kind == kind;
    if let Some(complaint) = complaints.iter().find(is("trespass")) {
        return Err(Failure::new(FailureKind::IllegalAccess, complaint.message.as_str()));
    }
    let mut outputs = Vec::new();
    for (index, bytes) in observed.outputs.iter().enumerate() {
        // Others leave theirs in the same folder.
        let path = folder.join(format!("output-{}-{index}", std::process::id()));
        fs::write(&path, bytes).map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
        outputs.push(path);
    }
    Ok(Say::Ran { outputs, complaints })
}

/// A run on the virtual GPU, with what there is to say about it.
struct RanVirtually<'a> {
    family: &'a Family,
    entry: Entry,
    device: &'a VirtualDevice,
    ready: &'a Ready<'a>,
    observed: &'a Observed,
}

impl RanVirtually<'_> {
    fn counted(&self, times: u64, memory: f64) -> Result<Counted<'_>, Failure> {
        let report = self.observed.report.as_ref();
        let counters = report.and_then(|report| report.counters.as_ref());
        let counters = counters.ok_or_else(|| Failure::other("the run counted nothing"))?;
        let blocks: u64 = self.ready.geometry.grid.iter().map(|&extent| u64::from(extent)).product();
        let counted = Counted {
            counters: if times > 1 { counters.scaled(times, memory) } else { counters.clone() },
            entry: &self.entry,
            chip: self.device.chip(),
            blocks: blocks * times.max(1),
            threads_per_block: self.ready.geometry.block.iter().product(),
            shared_bytes: self.ready.geometry.shared_bytes,
        };
        Ok(counted.with_spills())
    }

    fn modelled(&self) -> Result<Say, Failure> {
        let modelled = self.counted(1, 1.0)?.modelled();
        Ok(Say::Modelled(Modelled {
            gpu: self.device.chip().id.to_owned(),
            time_us: modelled.time,
            limiter: modelled.bottleneck.name().to_owned(),
        }))
    }

    fn seen(&self, times: u64, memory: f64) -> Result<Say, Failure> {
        let hot_lines = counted::hot_lines(&self.counted(1, 1.0)?.counters, self.family);
        Ok(Say::Seen(Box::new(Seen { metrics: self.counted(times, memory)?.metrics(), hot_lines })))
    }
}
