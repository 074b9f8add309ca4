//! What all measuring commands share: the device, the kernels by name, the worker processes and the run folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use chips::Chip;
use compiler::Compiler;
use family::tuned_table::is_tuned;
use family::{Catalog, Family, NamedArrays, SettingError};
use gpu::device::Device;
use gpu::machine;
use lab::Session;
use lab::bench::{CHOSEN, Subject, SubjectKind};
use lab::evolve::redact;
use lab::suite::Suite;
use lab::worker::Limits;
use lab::worker::{PeerCommand, WorkerCommands};
use op::{AnyOp, AnyProblem};
use report::export::Exports;
use runlog::{Commit, Event, Fact, LogError, Manifest, Run, RunError, RunOutcome, RunState};
use subprocess::python;

use crate::cli::{self, Cli, Global, ProcessOptions, RunFolderOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{FAINT, Printer, one_line, styled};
use crate::sandboxed;
use text::quote;

/// The time limit of a worker for starting and for compiling.
pub const BUILD_LIMIT: Duration = Duration::from_mins(10);

/// The kernels, the device and the Python environment. Opening it compiles nothing and installs nothing.
#[derive(Debug)]
pub struct Workbench<'g> {
    global: &'g Global,
    /// The op of the command.
    pub op: Box<AnyOp>,
    /// The kernel families.
    pub catalog: Catalog,
    /// The device of `--device`.
    pub device: Device,
    python: Option<machine::Python>,
}

impl<'g> Workbench<'g> {
    /// Loads the families and the op of the command, and finds the device. `families`: those that the user named.
    pub fn open(global: &'g Global, families: &[String]) -> Result<Self, CommandError> {
        let catalog = global.catalog()?;
        let op = ops::of_command(global, families, &catalog)?;
        let device = super::device(global)?;
        Ok(Workbench { global, op, catalog, device, python: machine::python() })
    }

    /// Whether the device is the virtual GPU.
    pub fn is_virtual(&self) -> bool {
        matches!(self.device, Device::Virtual { .. })
    }

    /// Whether PyTorch, which provides the peers, is installed.
    pub fn has_torch(&self) -> bool {
        self.python.as_ref().is_some_and(|python| python.package("torch").is_some())
    }

    /// Whether one of these Python distributions is installed.
    pub fn has_one_of(&self, distributions: &[String]) -> bool {
        let python = self.python.as_ref();
        distributions.iter().any(|name| python.is_some_and(|python| python.package(name).is_some()))
    }

    /// The kernels that the user named: every preset of every family, or only the named families and presets. If knobs
    /// are set and no preset is named, the knobs change the family's default setting.
    pub fn kernels(
        &self,
        families: &[String],
        presets: &[String],
        set: &[(String, String)],
    ) -> Result<Vec<Subject<'_>>, CommandError> {
        let named: Vec<String> = families.iter().filter(|name| *name != CHOSEN).cloned().collect();
        let chosen = if named.is_empty() && !families.is_empty() {
            Vec::new()
        } else {
            ops::named_families(&*self.op, &named, &self.catalog)?
        };
        let mut subjects: Vec<Subject<'_>> = Vec::new();
        for _ in families.iter().filter(|name| *name == CHOSEN) {
            if presets.is_empty() && set.is_empty() {
                subjects.push(Subject::chosen(&self.catalog));
            } else {
                let hint = "name a family to set its preset or knobs";
                return Err(CommandError::usage(format!("`{CHOSEN}` chooses the setting itself")).hint(hint));
            }
        }
        for &family in &chosen {
            let presets: Vec<Option<String>> = match (presets, set) {
                ([], []) => family.presets.iter().map(|preset| Some(preset.name.clone())).collect(),
                ([], _) => vec![None],
                (named, _) => {
                    named.iter().filter(|name| family.has_preset(name)).cloned().map(Some).collect()
                }
            };
            subjects.extend(presets.into_iter().map(|preset| Subject::kernel(family, preset, set.to_vec())));
        }
        // A preset may exist in only some of the families, but it must exist in one.
        for name in presets {
            let has = |subject: &Subject<'_>| matches!(&subject.kind, SubjectKind::Kernel { preset, .. } if preset.as_ref() == Some(name));
            if !subjects.iter().any(has) {
                return Err(unknown_preset(name, &chosen, &self.catalog));
            }
        }
        // Whether knobs and values are valid does not depend on the problem.
        for subject in &subjects {
            match &subject.kind {
                // The setting of `tuned` depends on the problem.
                SubjectKind::Kernel { preset: Some(preset), .. } if is_tuned(preset) => {}
                SubjectKind::Kernel { family, preset, knobs } => {
                    family.candidate(preset.as_deref(), knobs, &[])?;
                }
                SubjectKind::Chosen { .. } | SubjectKind::Peer { .. } => {}
            }
        }
        Ok(subjects)
    }

    /// Refuses kernels of named families that support none of the problems on this device. Without named families,
    /// each problem gets the kernels that support it.
    pub fn refuse_unsupported(
        &self,
        families: &[String],
        subjects: &[Subject<'_>],
        problems: &[AnyProblem],
    ) -> Result<(), CommandError> {
        for name in families.iter().filter(|name| *name != CHOSEN) {
            let families = ops::named_families(&*self.op, std::slice::from_ref(name), &self.catalog)?;
            let is_named = |family: &Family| families.iter().any(|named| named.name == family.name);
            let mut first_error = None;
            let mut is_supported = false;
            for (subject, problem) in subjects.iter().flat_map(|it| problems.iter().map(move |of| (it, of))) {
                if matches!(&subject.kind, SubjectKind::Kernel { family, .. } if is_named(family)) {
                    match self.check_support(subject, problem) {
                        Ok(()) => is_supported = true,
                        Err(error) => {
                            first_error.get_or_insert(error);
                        }
                    }
                }
            }
            if let (false, Some(error)) = (is_supported, first_error) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Refuses a kernel that does not support a problem or the device. A kernel that is too large is not refused: that is
    /// a failure which the run reports.
    fn check_support(&self, subject: &Subject<'_>, problem: &AnyProblem) -> Result<(), CommandError> {
        let SubjectKind::Kernel { family, preset, knobs } = &subject.kind else { return Ok(()) };
        self.op.check_is_not_reference(family)?;
        let place = (problem, &self.device);
        let candidate = op::dispatch::candidate(&*self.op, family, preset.as_deref(), knobs, place)?;
        match family.check_target(&candidate, self.device.target()) {
            Err(SettingError::SharedMemory { .. } | SettingError::Threads { .. }) => Ok(()),
            other => Ok(other?),
        }
    }

    /// The command lines that start the run's worker processes.
    pub fn start(&self) -> Result<WorkerCommands<'_>, CommandError> {
        let program = std::env::current_exe().map_err(|error| CommandError::missing(error.to_string()))?;
        let worker = move |name: &str, device: &Device, kernels: Option<&Path>| {
            let mut command = Command::new(&program);
            command.args(["worker", name, "--device", &device_name(device), "--op", self.op.name()]);
            if let Some(folder) = &self.global.cuda {
                command.arg("--cuda").arg(folder);
            }
            if let Some(folder) = kernels {
                command.arg("--kernels").arg(folder);
            }
            // Kernels get the inputs, but not the expected outputs.
            for (name, file) in &self.global.arrays.inputs {
                command.arg("--array").arg(format!("{name}={}", file.display()));
            }
            command
        };
        let own = worker.clone();
        let kernel = move |name: &str| own(name, &self.device, self.global.kernels.as_deref());
        let untrusted = move |name: &str, kernels: &Path, chip: Option<&'static Chip>| {
            let device = chip.map_or_else(|| self.device.clone(), |chip| Device::Virtual { chip });
            worker(name, &device, Some(kernels))
        };
        let gpu_index = if let Device::Cuda { index, .. } = self.device { index } else { 0 };
        let peer = move |script: &Path, name: &str| {
            let mut command = Command::new(python::interpreter().unwrap_or_else(|| "python3".into()));
            command.arg(script).arg(gpu_index.to_string()).arg(name);
            command
        };
        let peer: Result<Box<PeerCommand<'_>>, String> = match (&self.python, self.has_torch()) {
            (None, _) => Err("no python3".to_owned()),
            (Some(_), false) => Err("no torch".to_owned()),
            (Some(_), true) => Ok(Box::new(peer)),
        };
        Ok(WorkerCommands { kernel: Box::new(kernel), untrusted: Box::new(untrusted), peer })
    }

    /// Finds or installs the compiler, and creates or resumes the run of a command.
    pub fn begin(
        &self,
        command: &str,
        Execution { printer, open, .. }: Execution<'_>,
    ) -> Result<StartedRun<'_>, CommandError> {
        ops::require_reference(&*self.op, printer)?;
        let compiler = super::compiler(self.global, printer)?;
        let opened = OpenRun::new(open(self.manifest(command, &compiler)), self.global, printer)?;
        let (start, stop) = (self.start()?, super::stop_on_interrupt());
        Ok(StartedRun { op: &*self.op, compiler, opened, start, stop })
    }

    /// The manifest of a run of `command`: the machine, the versions and the command line.
    fn manifest(&self, command: &str, compiler: &Compiler) -> Manifest {
        // Words that are not UTF-8 can only be paths. The paths that matter must be given again to resume the run.
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let mut manifest = Manifest::new(command, redact::command_line(words), self.global.seed);
        manifest.commit = Commit::read(Path::new("."));
        manifest.device = Fact::Known(device_name(&self.device));
        manifest.nvrtc = Fact::Known(compiler.identity().to_owned());
        manifest.sandbox = Fact::Known(subprocess::sandbox::probe().to_string());
        manifest.gpu = Fact::Known(gpu_name(&self.device));
        if let Device::Cuda { index, .. } = &self.device
            && let Ok(driver) = machine::driver()
        {
            let gpu = driver.gpus.iter().find(|gpu| gpu.index == *index);
            let clocks = |pick: fn(&machine::Gpu) -> Option<(u32, u32)>| gpu.and_then(pick);
            let (sm, memory) = (clocks(|gpu| gpu.sm_clock_mhz), clocks(|gpu| gpu.memory_clock_mhz));
            manifest.driver = Fact::Known(driver.version.clone());
            manifest.cuda = driver.cuda.map(|(major, minor)| format!("{major}.{minor}")).into();
            manifest.sm_clock_mhz = sm.map(|(now, _)| now).into();
            manifest.sm_clock_max_mhz = sm.map(|(_, max)| max).into();
            manifest.memory_clock_mhz = memory.map(|(now, _)| now).into();
            manifest.memory_clock_max_mhz = memory.map(|(_, max)| max).into();
        }
        let package = |names: &[&str]| -> Fact<String> {
            let python = self.python.as_ref().ok_or("no python3");
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
}

/// The error for a preset that none of the selected families has.
pub fn unknown_preset(name: &str, selected: &[&Family], catalog: &Catalog) -> CommandError {
    if is_tuned(name) {
        let all = catalog.entries().iter().filter_map(|entry| entry.family.as_ref().ok());
        // Families of another op would be refused.
        let of_op = |family: &&Family| selected.iter().all(|selected| selected.op == family.op);
        let with =
            all.filter(of_op).filter(|family| family.has_preset(name)).map(|family| family.name.as_str());
        let with = with.collect::<Vec<_>>().join(", ");
        let hint = if with.is_empty() { String::new() } else { format!("families with one: {with}; ") };
        return CommandError::usage("the selected families have no tuned table")
            .hint(hint + "`warpsmith evolve FAMILY --tuned FILE` creates one");
    }
    let names: Vec<&str> = selected.iter().map(|family| family.name.as_str()).collect();
    let place = if let [one] = names.as_slice() { format!("family {one}") } else { names.join(", ") };
    let known: Vec<&str> = selected.iter().flat_map(|family| family.preset_names()).collect();
    let near = family::nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    CommandError::usage(format!("there is no preset `{name}` in {place}"))
        .hint(near.unwrap_or_else(|| format!("presets: {}", known.join(", "))))
}

/// The problems of these names and of a suite, without duplicates.
pub fn problems(
    op: &AnyOp,
    names: &[String],
    suite: Option<&Suite<AnyProblem>>,
) -> Result<Vec<AnyProblem>, CommandError> {
    let mut problems: Vec<AnyProblem> = Vec::new();
    for name in names {
        problems.extend(op.problems(name)?);
    }
    problems.extend(suite.iter().flat_map(|suite| suite.problems.iter().cloned()));
    let mut seen: Vec<AnyProblem> = Vec::new();
    problems.retain(|problem| {
        let is_new = !seen.contains(problem);
        seen.push(problem.clone());
        is_new
    });
    Ok(problems)
}

/// The limits of a candidate's process: time to compile, time to answer, and memory.
pub fn limits(options: &ProcessOptions, is_virtual: bool) -> Limits {
    let answer = options.limit.unwrap_or(if is_virtual { 900.0 } else { 120.0 });
    Limits {
        build: BUILD_LIMIT,
        answer: Duration::from_secs_f64(answer),
        resident_bytes: options.memory << 20,
    }
}

/// A run folder that is open for writing, with the export files that are written at the end.
#[derive(Debug)]
pub struct OpenRun {
    /// The run and its log.
    pub run: Run,
    exports: Exports,
    /// The seed of inputs, which is logged at the end.
    pub input_seed: u64,
}

impl OpenRun {
    /// Opens the export files of a new or resumed run, and prints the path of its folder.
    fn new(run: Result<Run, RunError>, global: &Global, printer: &Printer) -> Result<Self, CommandError> {
        let run = run.map_err(|error| run_failure(&error))?;
        let exports = Exports::open(run.folder()).map_err(|error| {
            CommandError::usage(format!("cannot write to {}: {error}", run.folder().display()))
        })?;
        let folder = one_line(&run.folder().display().to_string());
        printer.message(&styled(FAINT, format!("run: {folder}")));
        sandboxed::warn(printer);
        Ok(OpenRun { run, exports, input_seed: global.secret_seed() })
    }

    /// Logs the end of the run and writes the export files. Returns the final state and the paths of the files.
    pub fn finish(self, exit: Exit) -> Result<(RunState, Vec<PathBuf>), CommandError> {
        for event in
            [Event::InputSeed { seed: self.input_seed }, Event::RunFinished { outcome: outcome(exit) }]
        {
            self.run.record(&event).map_err(|error| CommandError::missing(error.to_string()))?;
        }
        let state = self.run.state();
        let written = self.exports.write(&state).map_err(|error| {
            CommandError::missing(format!("cannot write to {}: {error}", self.run.folder().display()))
        })?;
        Ok((state, written))
    }
}

/// What a command needs to execute its stages.
pub struct StartedRun<'w> {
    op: &'w AnyOp,
    compiler: Compiler,
    /// The run, which was created or resumed.
    pub opened: OpenRun,
    start: WorkerCommands<'w>,
    stop: Arc<AtomicBool>,
}

impl StartedRun<'_> {
    /// Set when the command must stop.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// The session for the stages. `tell` prints a message.
    pub fn session<'s>(&'s self, tell: &'s dyn Fn(&str)) -> Session<'s, AnyOp> {
        let StartedRun { op, compiler, opened, start, stop } = self;
        Session { op: *op, compiler, start, run: &opened.run, stop, tell }
    }
}

/// Creates or resumes the run of a command.
pub type OpenFunction<'a> = &'a dyn Fn(Manifest) -> Result<Run, RunError>;

/// How a resumable command is executed.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// The global options.
    pub global: &'a Global,
    /// Prints the output.
    pub printer: &'a Printer,
    /// Creates or resumes the run.
    pub open: OpenFunction<'a>,
}

/// The options of a command that executes in a run folder and can be resumed.
pub trait ResumableCommand: Sized {
    /// The command's name.
    const NAME: &'static str;

    /// The options in a command line, if it is this command.
    fn in_command(command: &mut cli::Command) -> Option<&mut Self>;

    /// Where the run is written, or resumed.
    fn folder(&self) -> &RunFolderOptions;

    /// Replaces the logged flags that execute, send or write something, because the log is untrusted. --cuda and
    /// --kernels are replaced for every command.
    fn override_untrusted(&self, _logged: &mut Self) -> Result<(), CommandError> {
        Ok(())
    }

    /// Executes the command.
    fn execute(&self, execution: Execution<'_>) -> Result<Exit, CommandError>;
}

/// The parts of a [`ResumableCommand`] that differ only in names: the variant of `cli::Command`, the command's name and
/// the field with the run folder.
macro_rules! resumable_command {
    ($variant:ident, $name:literal, $($folder:ident).+) => {
        const NAME: &'static str = $name;

        fn in_command(command: &mut $crate::cli::Command) -> Option<&mut Self> {
            if let $crate::cli::Command::$variant(options) = command { Some(options) } else { None }
        }

        fn folder(&self) -> &$crate::cli::RunFolderOptions {
            &self.$($folder).+
        }
    };
}
pub(crate) use resumable_command;

/// Executes a command in a new run or in a resumed one.
///
/// A resumed run repeats its original command: its budget, problems and so on come from the command line in its log. The
/// run folder may come from somebody else. Therefore everything that is executed, loaded, sent to or written to comes
/// from the current command line.
pub fn run_or_resume<C: ResumableCommand>(
    options: &C,
    global: &Global,
    printer: &Printer,
) -> Result<Exit, CommandError> {
    let RunFolderOptions { resume, run_dir } = options.folder();
    let run_dir = run_dir.as_deref();
    if let Some(folder) = run_dir.filter(|folder| folder.to_str().is_none()) {
        // Workers receive the path in JSON, which must be UTF-8.
        let folder = quote::word(folder);
        return Err(CommandError::usage(format!("--run-dir {folder} is not UTF-8"))
            .hint("name a folder whose path is UTF-8"));
    }
    if !resume {
        return options.execute(Execution {
            global,
            printer,
            open: &|manifest| Run::create(run_dir, manifest),
        });
    }
    let folder = run_dir.unwrap_or(Path::new(runlog::DEFAULT_FOLDER));
    let (mut logged_global, mut command) = command_line_of(folder)?.with_file_as_op()?.into_parts();
    override_flag("--cuda", global.cuda.as_ref(), &mut logged_global.cuda)?;
    override_flag("--kernels", global.kernels.as_ref(), &mut logged_global.kernels)?;
    override_arrays(&global.arrays, &mut logged_global.arrays)?;
    let logged = C::in_command(&mut command).ok_or_else(|| {
        let (folder, name) = (folder.display(), C::NAME);
        CommandError::usage(format!("the run in {folder} was not started by `warpsmith {name}`"))
    })?;
    options.override_untrusted(logged)?;
    let open = &|manifest| Run::resume(folder, manifest);
    logged.execute(Execution { global: &logged_global, printer, open })
}

/// Replaces the logged value of a flag with the current one. A value that only the log has is an error, because the log
/// is untrusted.
pub fn override_flag<T: AsRef<OsStr> + Clone>(
    flag: &str,
    current: Option<&T>,
    logged: &mut Option<T>,
) -> Result<(), CommandError> {
    if let (Some(value), None) = (&logged, current) {
        let value = quote::flag(flag, value);
        return Err(CommandError::usage(format!(
            "the run was started with {value}, and this flag is not read from the log, which is untrusted"
        ))
        .hint(format!("give {flag} again, with a value that you trust")));
    }
    *logged = current.cloned();
    Ok(())
}

/// Replaces the logged arrays with the current ones, which must be for the same arguments.
fn override_arrays(current: &NamedArrays, logged: &mut NamedArrays) -> Result<(), CommandError> {
    let lists =
        [("--input", &current.inputs, &logged.inputs), ("--expect", &current.expected, &logged.expected)];
    for (flag, current, logged) in lists {
        let mut names = logged.iter().map(|(name, _)| name);
        if let Some(name) = names.find(|name| current.iter().all(|(given, _)| given != *name)) {
            return Err(CommandError::usage(format!(
                "the run was started with {flag} {name}=FILE, and this flag is not read from the log, which is untrusted"
            ))
            .hint(format!("give {flag} {name}=FILE again")));
        }
    }
    let (rtol, atol) = (logged.rtol, logged.atol);
    *logged = NamedArrays { rtol, atol, ..current.clone() };
    Ok(())
}

/// A message with the command line that resumes a stopped run. `repeated`: the command's own flags that must be given
/// again, quoted.
pub fn resume_command(command: &str, folder: &Path, global: &Global, repeated: &[String]) -> String {
    let mut words = vec![format!("warpsmith {command} --resume"), quote::flag("--run-dir", folder)];
    let folders = [("--cuda", &global.cuda), ("--kernels", &global.kernels)];
    // A value from the environment variable need not be repeated.
    let is_from_environment = |flag: &str| flag == "--cuda" && std::env::var_os("WARPSMITH_CUDA").is_some();
    let folders = folders.iter().filter(|(flag, _)| !is_from_environment(flag));
    words.extend(folders.filter_map(|(flag, value)| value.as_ref().map(|value| quote::flag(flag, value))));
    words.extend(array_flags(&global.arrays));
    words.extend_from_slice(repeated);
    format!("incomplete; resume with: {}", words.join(" "))
}

/// The flags that name these arrays.
pub fn array_flags(arrays: &NamedArrays) -> Vec<String> {
    let flag = |flag: &str, named: &[(String, PathBuf)]| {
        let words = named.iter().map(|(name, file)| quote::flag(flag, format!("{name}={}", file.display())));
        words.collect::<Vec<_>>()
    };
    let mut flags = [flag("--input", &arrays.inputs), flag("--expect", &arrays.expected)].concat();
    flags.extend(arrays.rtol.map(|value| format!("--rtol {value}")));
    flags.extend(arrays.atol.map(|value| format!("--atol {value}")));
    flags
}

/// The command line that the run in this folder was started with.
fn command_line_of(folder: &Path) -> Result<Cli, CommandError> {
    let no_run = || run_failure(&RunError::NoRun(folder.to_owned()));
    let log = runlog::read(folder).map_err(|error| match error {
        LogError::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound => no_run(),
        other => CommandError::usage(other.to_string()),
    })?;
    let manifest = RunState::from_log(&log).manifest.ok_or_else(no_run)?;
    cli::parse(&manifest.command_line)
        .map_err(|error| CommandError::usage(format!("cannot parse the run's command line: {error}")))
}

/// The GPU, of which results are compared: `virtual l4`, `NVIDIA H200`.
pub fn gpu_name(device: &Device) -> String {
    match device {
        Device::Cuda { name, .. } => name.clone(),
        Device::Virtual { chip } => format!("virtual {}", chip.id),
    }
}

/// The device as `--device` and manifests write it: `cuda:0`, `virtual:l4`.
pub fn device_name(device: &Device) -> String {
    match device {
        Device::Cuda { index, .. } => format!("cuda:{index}"),
        Device::Virtual { chip } => format!("virtual:{}", chip.id),
    }
}

/// The outcome that the log records for an exit code.
fn outcome(exit: Exit) -> RunOutcome {
    match exit {
        Exit::Success => RunOutcome::Success,
        Exit::ProblemFound => RunOutcome::ProblemFound,
        Exit::UsageError => RunOutcome::UsageError,
        Exit::MissingRequirement => RunOutcome::MissingRequirement,
        Exit::Incomplete => RunOutcome::Incomplete,
    }
}

/// The command error for a run that cannot be created or resumed.
fn run_failure(error: &RunError) -> CommandError {
    let io = match error {
        RunError::Io { error, .. } | RunError::Log(LogError::Io { error, .. }) => Some(error.kind()),
        _ => None,
    };
    let is_full = io.is_some_and(|kind| {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        matches!(kind, StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem)
    });
    let message = error.to_string();
    let failure = if is_full { CommandError::missing(message) } else { CommandError::usage(message) };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod full_disk_tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_is_a_missing_requirement() {
        let failure = |kind: io::ErrorKind| {
            let path = PathBuf::from("run");
            let log = RunError::Log(LogError::Io { path: path.clone(), error: kind.into() });
            [run_failure(&RunError::Io { path, error: kind.into() }), run_failure(&log)].map(|it| it.exit)
        };
        assert_eq!(failure(io::ErrorKind::StorageFull), [Exit::MissingRequirement; 2]);
        assert_eq!(failure(io::ErrorKind::NotADirectory), [Exit::UsageError; 2]);
    }
}
