//! `bench`: kernels timed against their baselines.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use attention::{Attention, Problem};
use clap::Parser as _;
use family::{Catalog, Family};
use gpu::build::Compiler;
use gpu::device::Device;
use gpu::{machine, python};
use lab::bench::{self, BenchError, Maker, Plan, Start, Subject};
use lab::run::{
    Commit, Event, Exports, Fact, FailureKind, Manifest, Outcome, Run, RunError, RunState, Timer,
};
use lab::stats::Stopping;
use lab::suite;
use lab::worker::Limits;
use op::Op;

use crate::bench_table;
use crate::cli::{self, BenchOptions, Cli, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{FAINT, Printer, styled};

const DEFAULT_SUITE: &str = "headline";
/// The family that every other one is compared with.
const REFERENCE: &str = "reference";
const WARMUP: u32 = 10;
/// What a worker may take to start or to compile.
const BUILD_LIMIT: Duration = Duration::from_mins(10);

pub fn run(options: &BenchOptions, global: &Global, printer: &Printer) -> Result<Exit, Failure> {
    if options.resume {
        return resume(options, printer);
    }
    carry_out(options, global, printer, |manifest| Run::create(options.run_dir.as_deref(), manifest))
}

/// Goes on with a run as it was asked for then; the command line of now only says which.
fn resume(options: &BenchOptions, printer: &Printer) -> Result<Exit, Failure> {
    let folder = options.run_dir.as_deref().unwrap_or(Path::new(lab::run::DEFAULT_FOLDER));
    let no_run = || run_failure(&RunError::NoRun(folder.to_owned()));
    let log = lab::run::read(folder).map_err(|_| no_run())?;
    let manifest = RunState::of(&log).manifest.ok_or_else(no_run)?;
    let then = Cli::try_parse_from(&manifest.command_line)
        .map_err(|error| Failure::usage(format!("the run's command line is not one any more: {error}")))?;
    let cli::Command::Bench(then_options) = &then.command else {
        return Err(Failure::usage(format!("{} holds no bench", folder.display())));
    };
    carry_out(then_options, &then.global, printer, |manifest| Run::resume(folder, manifest))
}

fn carry_out(
    options: &BenchOptions,
    global: &Global,
    printer: &Printer,
    open: impl FnOnce(Manifest) -> Result<Run, RunError>,
) -> Result<Exit, Failure> {
    let op = Attention;
    let catalog = Catalog::load(global.kernels.as_deref())?;
    let device = super::device(global)?;
    let found = machine::python();
    let torch = found.as_ref().and_then(|python| python.package("torch"));
    let plan = plan(op, options, global, &catalog, &device, torch.is_some())?;
    let compiler = super::build::compiler(global, printer)?;

    let run =
        open(manifest(global, &device, &compiler, found.as_ref())).map_err(|error| run_failure(&error))?;
    let exports = Exports::open(run.folder())
        .map_err(|error| Failure::usage(format!("{}: {error}", run.folder().display())))?;
    printer.message(&styled(FAINT, format!("run: {}", run.folder().display())));
    let program = std::env::current_exe().map_err(|error| Failure::lacking(error.to_string()))?;
    let kernel = |name: &str| {
        let mut command = Command::new(&program);
        command.args(["worker", name, "--device", &device_name(&device)]);
        if let Some(folder) = &global.cuda {
            command.arg("--cuda").arg(folder);
        }
        if let Some(folder) = &global.kernels {
            command.arg("--kernels").arg(folder);
        }
        command
    };
    let gpu_index = if let Device::Cuda { index, .. } = device { index } else { 0 };
    let peer = |script: &Path| {
        let mut command = Command::new(python::interpreter().unwrap_or_else(|| "python3".into()));
        command.arg(script).arg(gpu_index.to_string());
        command
    };
    let start = Start {
        kernel: &kernel,
        peer: match (&found, torch) {
            (None, _) => Err("no python3".to_owned()),
            (Some(_), None) => Err("no torch".to_owned()),
            _ => Ok(&peer),
        },
    };
    let stop = super::stop_on_interrupt();
    let tell = |text: &str| printer.message(&styled(FAINT, text));
    let done = bench::run(&op, &plan, &compiler, &start, &run, &stop, &tell);

    let exit = match &done {
        Ok(()) => verdict(&plan, options, &run.state()),
        Err(BenchError::Stopped) => Exit::Incomplete,
        Err(error) => return Err(Failure::lacking(error.to_string())),
    };
    run.record(&Event::RunFinished { outcome: outcome(exit) })
        .map_err(|error| Failure::lacking(error.to_string()))?;
    let state = run.state();
    let written = exports
        .write(&state)
        .map_err(|error| Failure::lacking(format!("{}: {error}", run.folder().display())))?;
    if printer.is_json() {
        let json = written.first().and_then(|path| std::fs::read_to_string(path).ok());
        printer.data(json.unwrap_or_default().trim_end());
    } else {
        printer.data(&bench_table::text(&plan, &state, !options.baseline.is_empty()));
        if exit == Exit::Incomplete {
            let folder = run.folder().display();
            printer.message(&format!("incomplete; go on with: warpsmith bench --resume --run-dir {folder}"));
        }
    }
    Ok(exit)
}

fn plan<'c>(
    op: Attention,
    options: &BenchOptions,
    global: &Global,
    catalog: &'c Catalog,
    device: &Device,
    has_torch: bool,
) -> Result<Plan<'c, Problem>, Failure> {
    let named = options.suite.as_deref().or(options.problem.is_empty().then_some(DEFAULT_SUITE));
    let suite = named.map(|name| suite::find(&op, name)).transpose()?;
    let mut problems: Vec<Problem> = Vec::new();
    for name in &options.problem {
        problems.extend(op.problems(name)?);
    }
    problems.extend(suite.iter().flat_map(|suite| suite.problems.iter().copied()));
    let mut seen: Vec<Problem> = Vec::new();
    problems.retain(|problem| {
        let first = !seen.contains(problem);
        seen.push(*problem);
        first
    });

    let virtual_device = matches!(device, Device::Virtual { .. });
    let wanted = suite.as_ref().map(|suite| suite.baselines.as_slice()).unwrap_or_default();
    let mut subjects = subjects(op, options, catalog, wanted, virtual_device)?;
    if !virtual_device {
        // The first at one end of every turn, its copy at the other.
        let there = |subject: &&Subject<'_>| has_torch || matches!(subject.maker, Maker::Kernel { .. });
        let control = subjects.iter().find(there).map(Subject::once_more);
        subjects.extend(control);
    }
    let mut timers = vec![Timer::GraphHot];
    timers.extend(options.cold.then_some(Timer::GraphCold));
    timers.extend(options.eager.then_some(Timer::Eager));
    let seconds = options.seconds.or(suite.as_ref().and_then(|suite| suite.seconds)).unwrap_or(5.0);
    let most = options.iters.map(|count| count as usize);
    let stopping = Stopping {
        most,
        least: most.map_or(Stopping::default().least, |most| most.min(Stopping::default().least)),
        time_limit: Duration::from_secs_f64(seconds),
        ..Stopping::default()
    };
    let limit = options.limit.unwrap_or(if virtual_device { 900.0 } else { 120.0 });
    Ok(Plan {
        device: device.clone(),
        subjects,
        problems,
        timers,
        stopping,
        warmup: options.warmup.or(suite.as_ref().and_then(|suite| suite.warmup)).unwrap_or(WARMUP),
        limits: Limits {
            build: BUILD_LIMIT,
            answer: Duration::from_secs_f64(limit),
            resident_bytes: options.memory << 20,
        },
        seed: global.seed,
        targets: suite.map(|suite| suite.targets).unwrap_or_default(),
    })
}

/// Baselines first, then the kernels that were asked for.
fn subjects<'c>(
    op: Attention,
    options: &BenchOptions,
    catalog: &'c Catalog,
    suite_baselines: &[String],
    virtual_device: bool,
) -> Result<Vec<Subject<'c>>, Failure> {
    let peers = op.peers();
    let peer_names = peers.map(|peers| peers.names).unwrap_or_default();
    let mut baselines: Vec<String> = match (options.baseline.as_slice(), suite_baselines) {
        ([], []) => peer_names.iter().map(|name| (*name).to_owned()).chain([REFERENCE.to_owned()]).collect(),
        ([], some) => some.iter().cloned().chain([REFERENCE.to_owned()]).collect(),
        (some, _) => some.iter().filter(|name| *name != "none").cloned().collect(),
    };
    baselines.extend(options.require.iter().cloned());
    let mut subjects: Vec<Subject<'c>> = Vec::new();
    let mut reference = false;
    for name in &baselines {
        if name == REFERENCE {
            reference = true;
        } else if let (Some(peers), Some(name)) = (peers, peer_names.iter().find(|known| *known == name)) {
            let subject = Subject::peer(peers.package, name);
            if !virtual_device && subjects.iter().all(|known| known.name != subject.name) {
                subjects.push(subject);
            }
        } else {
            let hint = format!("baselines: {}, {REFERENCE}, none", peer_names.join(", "));
            return Err(Failure::usage(format!("there is no baseline `{name}`")).hint(hint));
        }
    }
    let kernels = kernels(op, options, catalog)?;
    let has_reference = kernels.iter().any(is_reference);
    if reference && !has_reference && !virtual_device {
        let family = catalog.family(REFERENCE)?;
        let preset = family.presets.first().map(|preset| preset.name.clone());
        let subject = Subject::kernel(family, preset, Vec::new());
        subjects.push(Subject { is_baseline: true, is_candidate: false, ..subject });
    }
    for kernel in kernels {
        let is_baseline = reference && is_reference(&kernel) && !virtual_device;
        subjects.push(Subject { is_baseline, ..kernel });
    }
    Ok(subjects)
}

fn is_reference(subject: &Subject<'_>) -> bool {
    matches!(&subject.maker, Maker::Kernel { family, .. } if family.name == REFERENCE)
}

/// Every preset of every family, or those that were named.
fn kernels<'c>(
    op: Attention,
    options: &BenchOptions,
    catalog: &'c Catalog,
) -> Result<Vec<Subject<'c>>, Failure> {
    let mut families: Vec<&Family> = Vec::new();
    if options.families.is_empty() {
        for entry in catalog.entries().iter().filter(|entry| entry.op == op.name()) {
            families.push(entry.family.as_ref().map_err(|error| Failure::usage(error.to_string()))?);
        }
    }
    for name in &options.families {
        families.push(catalog.family(name)?);
    }
    let mut subjects: Vec<Subject<'c>> = Vec::new();
    for family in families {
        let presets: Vec<Option<String>> = match (options.preset.as_slice(), options.set.as_slice()) {
            ([], []) => family.presets.iter().map(|preset| Some(preset.name.clone())).collect(),
            ([], _) => vec![None],
            (named, _) => {
                named.iter().filter(|name| family.preset(name).is_some()).cloned().map(Some).collect()
            }
        };
        subjects
            .extend(presets.into_iter().map(|preset| Subject::kernel(family, preset, options.set.clone())));
    }
    // A preset may belong to one of several families; one that belongs to none is a mistake.
    for name in &options.preset {
        let has = |subject: &Subject<'_>| matches!(&subject.maker, Maker::Kernel { preset, .. } if preset.as_ref() == Some(name));
        if !subjects.iter().any(has) {
            let all = catalog.entries().iter().filter_map(|entry| entry.family.as_ref().ok());
            let known: Vec<&str> =
                all.flat_map(|it| it.presets.iter().map(|preset| preset.name.as_str())).collect();
            let near =
                family::nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            return Err(Failure::usage(format!("there is no preset `{name}`"))
                .hint(near.unwrap_or_else(|| format!("presets: {}", known.join(", ")))));
        }
    }
    // Knobs and values are right or wrong whatever the problem.
    for subject in &subjects {
        if let Maker::Kernel { family, preset, knobs } = &subject.maker {
            family.candidate(preset.as_deref(), knobs, &[])?;
        }
    }
    Ok(subjects)
}

fn manifest(
    global: &Global,
    device: &Device,
    compiler: &Compiler,
    python: Option<&machine::Python>,
) -> Manifest {
    let mut manifest = Manifest::new("bench", std::env::args().collect(), global.seed);
    manifest.commit = Commit::of(Path::new("."));
    manifest.device = Fact::Known(device_name(device));
    manifest.nvrtc = Fact::Known(compiler.identity().to_owned());
    match device {
        Device::Virtual { chip } => manifest.gpu = Fact::Known(format!("virtual {}", chip.id)),
        Device::Cuda { index, name, .. } => {
            manifest.gpu = Fact::Known(name.clone());
            if let Ok(driver) = machine::driver() {
                let gpu = driver.gpus.iter().find(|gpu| gpu.index == *index);
                let clocks = |pick: fn(&machine::Gpu) -> Option<(u32, u32)>| gpu.and_then(pick);
                let (sm, memory) = (clocks(|gpu| gpu.sm_clock_mhz), clocks(|gpu| gpu.memory_clock_mhz));
                manifest.driver = Fact::Known(driver.version.clone());
                manifest.cuda = driver.cuda.map(|(major, minor)| format!("{major}.{minor}")).into();
                manifest.sm_clock_mhz = sm.map(|(now, _)| now).into();
                manifest.sm_clock_max_mhz = sm.map(|(_, most)| most).into();
                manifest.memory_clock_mhz = memory.map(|(now, _)| now).into();
                manifest.memory_clock_max_mhz = memory.map(|(_, most)| most).into();
            }
        }
    }
    let package = |names: &[&str]| -> Fact<String> {
        let python = python.ok_or("no python3");
        python
            .and_then(|python| {
                let found = names.iter().find_map(|name| python.package(name));
                found.map(str::to_owned).ok_or("not installed")
            })
            .into()
    };
    manifest.pytorch = package(&["torch"]);
    manifest.triton = package(&["triton"]);
    manifest.cudnn = package(&["nvidia-cudnn-cu13", "nvidia-cudnn-cu12"]);
    manifest
}

fn device_name(device: &Device) -> String {
    match device {
        Device::Cuda { index, .. } => format!("cuda:{index}"),
        Device::Virtual { chip } => format!("virtual:{}", chip.id),
    }
}

/// What a run that came to its end amounts to.
fn verdict(plan: &Plan<'_, Problem>, options: &BenchOptions, state: &RunState) -> Exit {
    let ours = |name: &str| {
        plan.subjects
            .iter()
            .any(|subject| subject.name == name && matches!(subject.maker, Maker::Kernel { .. }))
    };
    let wrong = |kind: FailureKind| kind != FailureKind::Refused;
    let missing = options.require.iter().any(|name| {
        let measured = |problem: &Problem| {
            state.measurements.iter().any(|found| {
                found.of.problem == problem.to_string()
                    && found.of.subject.split(' ').any(|word| word == name)
            })
        };
        !plan.problems.iter().all(measured)
    });
    let broken = state.failures.iter().any(|failure| ours(&failure.of.subject) && wrong(failure.kind));
    if broken || state.targets.iter().any(|target| target.met == Some(false)) {
        Exit::Finding
    } else if missing {
        Exit::Lacking
    } else if state.measurements.is_empty() && state.modelled.is_empty() {
        Exit::Incomplete
    } else {
        Exit::Holds
    }
}

fn outcome(exit: Exit) -> Outcome {
    match exit {
        Exit::Holds => Outcome::Holds,
        Exit::Finding => Outcome::Finding,
        Exit::Usage => Outcome::Usage,
        Exit::Lacking => Outcome::Lacking,
        Exit::Incomplete => Outcome::Incomplete,
    }
}

fn run_failure(error: &RunError) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
