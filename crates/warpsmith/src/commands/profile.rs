//! `profile`: shows what limits kernels.

use lab::StageError;
use lab::bench::Subject;
use lab::profile::{self, ProfileError, ProfilePlan};
use lab::suite;
use op::AnyProblem;
use runlog::{FailureKind, RunState};

use super::tuned_preset;
use super::workbench::{self, Execution, ResumableCommand, StartedRun, Workbench};
use crate::cli::ProfileOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{FAINT, styled};
use crate::profile_table;

impl ResumableCommand for ProfileOptions {
    workbench::resumable_command!(Profile, "profile", process.folder);

    fn execute(&self, execution: Execution<'_>) -> Result<Exit, CommandError> {
        let (options, Execution { global, printer, .. }) = (self, execution);
        let workbench = Workbench::open(global, &options.kernels.families)?;
        let op = &*workbench.op;
        let suite = options.suite.as_deref().map(|name| suite::find(op, name)).transpose()?;
        let names = match (options.problem.as_slice(), &suite) {
            ([], None) => vec![ops::default_problem(op)],
            (names, _) => names.to_vec(),
        };
        let problems = workbench::problems(op, &names, suite.as_ref())?;
        let kernels = workbench.kernels(
            &options.kernels.families,
            &options.kernels.preset,
            &options.kernels.knobs.set,
        )?;
        workbench.refuse_unsupported(&options.kernels.families, &kernels, &problems)?;
        let named = workbench::problems(op, &names, None)?;
        let others: Vec<AnyProblem> = problems.iter().filter(|it| !named.contains(it)).cloned().collect();
        tuned_preset::look_up(
            op,
            &tuned_preset::families(&kernels),
            (&named, &others),
            &workbench.device,
            printer,
        )?;
        let subjects: Vec<(Subject<'_>, AnyProblem)> = problems
            .iter()
            .flat_map(|problem| kernels.iter().map(|kernel| (kernel.clone(), problem.clone())))
            .collect();
        let plan = ProfilePlan {
            device: workbench.device.clone(),
            subjects,
            limits: workbench::limits(&options.process, workbench.is_virtual()),
            secret: global.secret_seed(),
            full_size: options.process.full_size,
            try_levers: true,
        };
        if !workbench.is_virtual() {
            // Checked before the run folder is created, so that an error leaves no empty folder.
            profile::ncu::Ncu::find().map_err(|error| CommandError::from(&error))?;
        }
        let started = workbench.begin(Self::NAME, execution)?;
        let tell = |text: &str| printer.message(&styled(FAINT, text));
        let session = started.session(&tell);
        let done = profile::run(&session, &plan);
        let (exit, failure) = match done {
            Ok(()) => (verdict(&started.opened.run.state()), None),
            Err(ProfileError::Stage(StageError::Stopped)) => (Exit::Incomplete, None),
            Err(ProfileError::Ncu(error)) => (Exit::MissingRequirement, Some(CommandError::from(&error))),
            Err(ProfileError::Stage(error)) => return Err(error.into()),
        };
        finish(Self::NAME, started, exit, failure, execution, profile_table::profiles)
    }
}

/// Ends the run of `profile` or `invert` and prints its results. A failure is returned after the run has ended.
pub fn finish(
    command: &str,
    started: StartedRun<'_>,
    exit: Exit,
    failure: Option<CommandError>,
    Execution { global, printer, .. }: Execution<'_>,
    tables: fn(&RunState) -> String,
) -> Result<Exit, CommandError> {
    let folder = started.opened.run.folder().to_owned();
    let (state, _) = started.opened.finish(exit)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if printer.is_json() {
        printer.json(command, &profile_table::Document::new(&state));
    } else {
        printer.data(&tables(&state));
        if exit == Exit::Incomplete {
            printer.verbatim_message(&workbench::resume_command(command, &folder, global, &[]));
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
