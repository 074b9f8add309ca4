//! `profile`: shows what limits kernels.

use attention::{Attention, Problem};
use lab::Session;
use lab::bench::Subject;
use lab::profile::{self, ProfileError, ProfilePlan};
use lab::run::{FailureKind, Manifest, Run, RunError, RunState};
use lab::suite;

use super::tuned;
use super::workbench::{self, OpenRun, Workbench};
use crate::cli::{Command, Global, ProfileOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{FAINT, Printer, styled};
use crate::profile_table;

/// The problem to profile if the user names none.
pub const DEFAULT_PROBLEM: &str = "mission";

/// Profiles kernels, in a new or a resumed run.
pub fn run(options: &ProfileOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    fn options_in(command: &mut Command) -> Option<&mut ProfileOptions> {
        if let Command::Profile(options) = command { Some(options) } else { None }
    }
    workbench::run_or_resume(
        (options, global),
        (options.process.folder.resume, options.process.folder.run_dir.as_deref()),
        "profile",
        options_in,
        |_, _| Ok(()),
        |options, global, open| execute(options, global, printer, open),
    )
}

fn execute(
    options: &ProfileOptions,
    global: &Global,
    printer: &Printer,
    open: impl FnOnce(Manifest) -> Result<Run, RunError>,
) -> Result<Exit, CommandError> {
    let op = Attention;
    let workbench = Workbench::open(global)?;
    let suite = options.suite.as_deref().map(|name| suite::find(&op, name)).transpose()?;
    let names = match (options.problem.as_slice(), &suite) {
        ([], None) => vec![DEFAULT_PROBLEM.to_owned()],
        (names, _) => names.to_vec(),
    };
    let problems = workbench::problems(&names, suite.as_ref())?;
    let kernels = workbench.kernels(&options.families, &options.preset, &options.knobs.set)?;
    let named = workbench::problems(&names, None)?;
    let others: Vec<Problem> = problems.iter().filter(|it| !named.contains(it)).copied().collect();
    tuned::look_up(&tuned::families(&kernels), (&named, &others), &workbench.device, printer)?;
    let subjects: Vec<(Subject<'_>, Problem)> =
        problems.iter().flat_map(|problem| kernels.iter().map(|kernel| (kernel.clone(), *problem))).collect();
    let plan = ProfilePlan {
        device: workbench.device.clone(),
        subjects,
        limits: workbench::limits(&options.process, workbench.is_virtual()),
        secret: global.secret_seed(),
        full_size: options.process.full_size,
    };
    if !workbench.is_virtual() {
        // Checked before the run folder is created, so that an error leaves no empty folder.
        profile::ncu::Ncu::find().map_err(|error| CommandError::from(&error))?;
    }
    let compiler = super::build::compiler(global, printer)?;
    let opened = OpenRun::new(open(workbench.manifest("profile", &compiler)), global, printer)?;
    let start = workbench.start()?;
    let stop = super::stop_on_interrupt();
    let tell = |text: &str| printer.message(&styled(FAINT, text));
    let session =
        Session { op: &op, compiler: &compiler, start: &start, run: &opened.run, stop: &stop, tell: &tell };
    let done = profile::run(&session, &plan);
    let (exit, failure) = match done {
        Ok(()) => (verdict(&opened.run.state()), None),
        Err(ProfileError::Stopped) => (Exit::Incomplete, None),
        Err(ProfileError::Ncu(error)) => (Exit::MissingRequirement, Some(CommandError::from(&error))),
        Err(error) => return Err(CommandError::missing(error.to_string())),
    };
    let folder = opened.run.folder().to_owned();
    let (state, _) = opened.finish(exit)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if printer.is_json() {
        printer.json("profile", &profile_table::Document::new(&state));
    } else {
        printer.data(&profile_table::profiles(&state));
        if exit == Exit::Incomplete {
            printer.message(&workbench::resume_command("profile", &folder, global, &[]));
        }
    }
    Ok(exit)
}

/// The exit code of a run of profiles. A kernel that fails is a problem; one that does not support a problem is not.
pub fn verdict(state: &RunState) -> Exit {
    if state.failures.iter().any(|failure| failure.kind != FailureKind::Refused) {
        Exit::ProblemFound
    } else if state.profiles.is_empty() {
        Exit::Incomplete
    } else {
        Exit::Success
    }
}
